"""Privacy filters, and the storage of charges in memory or durably in an SQLite file."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import sqlite3
import tempfile
import threading
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from dpstats.errors import BudgetExceeded, InvalidParameter, LedgerError, refuse
from dpstats.privacy.guarantee import down, root_up, up
from dpstats.privacy.kept_answers import (
    CHARGED,
    AlreadyCharged,
    Kept,
    all_kept,
    find_kept,
    find_repeat,
    store_answer,
    store_request,
)

if TYPE_CHECKING:
    from dpstats.privacy.events import Event
    from dpstats.privacy.guarantee import PrivacyGuarantee


class Cost(Protocol):
    """The cost of a charge: its events, and their certified guarantee."""

    @property
    def events(self) -> tuple[Event, ...]:
        """The events for the accountant."""

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """The guarantee of all of them together."""


Amounts = tuple[Fraction, Fraction]

NOTHING: Amounts = (Fraction(0), Fraction(0))


@lru_cache(maxsize=1024)
def exact(value: float) -> Fraction:
    """Return the shortest decimal number of a float, so that 0.1 + 0.2 fits into 0.3."""
    return Fraction(repr(value))


def rounded(value: Fraction, *, up: bool) -> float:
    """Return the nearest float whose decimal is not below (``up``) or not above the exact value."""
    number = max(float(value), 0.0)
    while exact(number) < value if up else exact(number) > value:
        number = math.nextafter(number, math.inf if up else 0.0)
    return number


# A filter stores two exact numbers, the amounts spent, and admits a charge if they stay inside a region. The region
# must be a box that is fixed at the start. A rule that lets one amount grow if the other is small fails for adaptive
# choices. For example, "convert rho at the remaining delta" can spend 1.4 times its delta (docs/proofs/budget.md).
class Filter:
    """A composition method for a total of (epsilon, delta)."""

    name = ""
    adaptive = True
    """Whether a charge may depend on earlier answers."""
    largest = "the largest single charge that fits"
    """Description of the result of `remaining`."""

    def __init__(self, epsilon: float, delta: float) -> None:
        self.epsilon, self.delta = epsilon, delta

    def amounts(self, cost: Cost, spent: Amounts) -> Amounts:
        """Return the amounts of a charge, or raise `InvalidParameter` if this filter cannot compose it."""
        raise TypeError(f"{type(self).__name__} does not define amounts")

    def limits(self) -> Amounts:
        """Return the largest admissible amounts."""
        raise TypeError(f"{type(self).__name__} does not define limits")

    def admits(self, spent: Amounts) -> bool:
        """Return whether these totals are inside the region."""
        first, second = self.limits()
        return spent[0] <= first and spent[1] <= second

    def second_exceeded(self, spent: Amounts) -> str:
        """Return a sentence for the error message if the second amount does not fit, otherwise an empty string."""
        return ""

    def spent(self, spent: Amounts) -> tuple[float, float]:
        """Return the (epsilon, delta) of these totals."""
        raise TypeError(f"{type(self).__name__} does not define spent")

    def remaining(self, spent: Amounts, times: int = 1) -> tuple[float, float]:
        """Return the largest charge that still fits this many times, as (epsilon, delta)."""
        raise TypeError(f"{type(self).__name__} does not define remaining")


class Basic(Filter):
    """Epsilons and deltas are summed, as exact decimals: basic composition."""

    name = "basic"

    def amounts(self, cost: Cost, spent: Amounts) -> Amounts:
        return exact(cost.guarantee.epsilon), exact(cost.guarantee.delta)

    def limits(self) -> Amounts:
        return exact(self.epsilon), exact(self.delta)

    def spent(self, spent: Amounts) -> tuple[float, float]:
        return rounded(spent[0], up=True), rounded(spent[1], up=True)

    def remaining(self, spent: Amounts, times: int = 1) -> tuple[float, float]:
        epsilon, delta = ((limit - used) / times for limit, used in zip(self.limits(), spent, strict=True))
        return rounded(epsilon, up=False), rounded(delta, up=False)


class GDP(Filter):
    """The squares of mu are summed; amounts are (mu^2, total variation)."""

    name = "gdp"
    largest = "the largest single charge that fits, as a Gaussian release,"

    def __init__(self, epsilon: float, delta: float) -> None:
        super().__init__(epsilon, delta)
        if delta == 0:
            raise refuse("delta", allowed="greater than 0 for a budget with method='gdp'")
        if epsilon > 700:
            raise refuse("epsilon", given=epsilon, allowed="at most 700 for a budget with method='gdp'")
        from dpstats.privacy.gaussian import LATTICE_SHARE, gaussian_profile, gaussian_sigma

        # The two parts of delta add up to at most delta, and both limits are rounded down.
        self._curve_delta = down(Fraction(delta) * (1 - Fraction(LATTICE_SHARE)))
        odds = Fraction(math.exp(epsilon)) * (1 + Fraction(1, 2**50))
        self._slack = (Fraction(delta) - Fraction(self._curve_delta)) / (1 + odds)
        self._mu = 1 / gaussian_sigma(epsilon, self._curve_delta)
        while gaussian_profile(epsilon, self._mu) > self._curve_delta:
            self._mu = math.nextafter(self._mu, 0.0)

    def amounts(self, cost: Cost, spent: Amounts) -> Amounts:
        from dpstats.privacy import events

        square = variation = Fraction(0)
        for event in cost.events:
            pure = event.pure_cost()
            if isinstance(event, events.Gaussian):
                square += Fraction(event.mu) ** 2
                variation += Fraction(event.total_variation)
            elif pure is not None:
                square += Fraction(_mu_of_pure(pure)) ** 2
            elif isinstance(event, events.ZCDP):
                raise refuse(
                    "method",
                    got="'gdp'",
                    allowed=f"'zcdp' or 'basic' for a release of {cost.guarantee}",
                    remedy="Its noise was calibrated through zero-concentrated privacy, because epsilon is large "
                    "or delta is small.",
                )
            else:
                raise refuse(
                    "method",
                    got="'gdp', which counts Gaussian and pure releases only",
                    allowed=f"'basic' for an event of the kind {type(event).__name__}",
                    remedy="Or charge the plan of a fit rather than its (epsilon, delta).",
                )
        return square, variation

    def limits(self) -> Amounts:
        return Fraction(self._mu) ** 2, self._slack

    def second_exceeded(self, spent: Amounts) -> str:
        if spent[1] <= self._slack:
            return ""
        return (
            " The allowance for discrete noise, a millionth of delta divided by 1 + e^epsilon, is exhausted. It is "
            f"small if the budget's epsilon is large (here {self.epsilon:g}) or its delta is small "
            f"({self.delta:g}), and many columns use it up. Use method='zcdp'."
        )

    def spent(self, spent: Amounts) -> tuple[float, float]:
        from dpstats.privacy.gaussian import epsilon_of_mu

        if spent[0] == 0:
            return 0.0, 0.0
        epsilon = epsilon_of_mu(root_up(spent[0]), self._curve_delta)
        close = self.epsilon * (1 - 1e-9) <= epsilon and self.admits(spent)
        return (self.epsilon if close else epsilon), self.delta

    def remaining(self, spent: Amounts, times: int = 1) -> tuple[float, float]:
        from dpstats.privacy.gaussian import epsilon_of_mu

        if spent == NOTHING and times == 1:
            return self.epsilon, self.delta
        left = (Fraction(self._mu) ** 2 - spent[0]) / times
        if left <= 0:
            return 0.0, 0.0
        mu = math.sqrt(left) * (1 - 1e-12)
        epsilon = epsilon_of_mu(mu, self._curve_delta) * (1 - 1e-11)
        return (epsilon, self.delta) if epsilon > 0 else (0.0, 0.0)


def _mu_of_pure(epsilon: float) -> float:
    """Return a mu for which a pure release is Gaussian-private: 2 Phi^-1(e^epsilon/(1 + e^epsilon))."""
    from scipy.special import erfinv, log_expit, ndtri_exp

    # Rounded up; near the median, and in the tail, each form keeps its digits.
    if epsilon < 1:
        return 2 * math.sqrt(2) * float(erfinv(math.tanh(epsilon / 2))) * (1 + 1e-12)
    return -2 * float(ndtri_exp(log_expit(-epsilon))) * (1 + 1e-12)


class ZCDP(Filter):
    """The rhos are summed; amounts are (rho, delta of the (epsilon, delta) charges).

    A tenth of delta is reserved for charges that have only (epsilon, delta). The remainder converts rho.
    """

    name = "zcdp"
    largest = "the largest single charge that fits, as a pure release,"

    def __init__(self, epsilon: float, delta: float) -> None:
        super().__init__(epsilon, delta)
        if delta == 0:
            raise refuse("delta", allowed="greater than 0 for a budget with method='zcdp'")
        from dpstats.privacy.gaussian import zcdp_rho

        self._conversion = rounded(exact(delta) * Fraction(9, 10), up=False)
        self._rho = zcdp_rho(epsilon, self._conversion)

    def amounts(self, cost: Cost, spent: Amounts) -> Amounts:
        from dpstats.privacy.events import Approximate

        rho = delta = Fraction(0)
        for event in cost.events:
            known = event.zcdp_cost()
            if known is not None:
                rho += Fraction(known)
            elif isinstance(event, Approximate):
                rho += Fraction(event.epsilon) ** 2 / 2
                delta += exact(event.delta)
            else:
                raise refuse(
                    "method", got="'zcdp'", allowed=f"another for an event of the kind {type(event).__name__}"
                )
        return rho, delta

    def limits(self) -> Amounts:
        return Fraction(self._rho), exact(self.delta) / 10

    def second_exceeded(self, spent: Amounts) -> str:
        if spent[1] <= self.limits()[1]:
            return ""
        return " A tenth of the budget's delta is for charges of which only (epsilon, delta) is known: it is exceeded."

    def spent(self, spent: Amounts) -> tuple[float, float]:
        from dpstats.privacy.gaussian import zcdp_epsilon

        if spent == NOTHING:
            return 0.0, 0.0
        converted = min(self.epsilon, zcdp_epsilon(up(spent[0]), self._conversion))
        return (converted if self.admits(spent) else self.epsilon), self.delta

    def remaining(self, spent: Amounts, times: int = 1) -> tuple[float, float]:
        # A pure charge of epsilon costs epsilon^2/2.
        left = max(0.0, down(2 * (self.limits()[0] - spent[0]) / times))
        return math.sqrt(left) * (1 - 1e-12), 0.0


class PLD(Filter):
    """The tightest total, for releases that are all fixed before the first answer.

    ``planned`` is the list; charges must follow it in order. Without one the first charge is the
    whole plan. Amounts are (number of charges made, 0).
    """

    name = "pld"
    adaptive = False

    def __init__(self, epsilon: float, delta: float, planned: Sequence[Cost] = ()) -> None:
        super().__init__(epsilon, delta)
        self.planned = tuple(planned)
        if self.planned:
            events = [event for cost in self.planned for event in cost.events]
            self._certify(events)

    def _certify(self, events: Sequence[Event]) -> None:
        from dpstats.privacy.guarantee import PrivacyGuarantee
        from dpstats.privacy.totals import compose, covers

        claim = PrivacyGuarantee(self.epsilon, self.delta, events[0].neighbors)
        if not covers(events, claim):
            total = compose(events, self.delta)
            raise BudgetExceeded(
                f"the plan must cost at most the budget, {claim}, got {total}. Nothing was charged."
            )

    def amounts(self, cost: Cost, spent: Amounts) -> Amounts:
        made = int(spent[0])
        if self.planned:
            if made >= len(self.planned) or cost.events != self.planned[made].events:
                raise InvalidParameter(
                    "method='pld' pays for the planned releases, in their order, and nothing else; "
                    f"{made} of {len(self.planned)} are made"
                )
        elif made:
            raise InvalidParameter(
                "method='pld' needs a plan that is fixed before the first answer, and the first charge was this plan; "
                "give planned=[...] to plan several releases, or use method='gdp' or 'zcdp' to choose as you go"
            )
        else:
            self._certify(cost.events)
        return Fraction(1), Fraction(0)

    def limits(self) -> Amounts:
        return Fraction(max(1, len(self.planned))), Fraction(0)

    def spent(self, spent: Amounts) -> tuple[float, float]:
        # The first answer commits the whole plan.
        return (self.epsilon, self.delta) if spent[0] else (0.0, 0.0)

    def remaining(self, spent: Amounts, times: int = 1) -> tuple[float, float]:
        if times > 1:
            raise refuse(
                "times",
                given=times,
                allowed="1 with method='pld', whose charges are planned",
                remedy="Use another method.",
            )
        return (0.0, 0.0) if spent[0] else (self.epsilon, self.delta)


METHODS = {filter.name: filter for filter in (Basic, GDP, ZCDP, PLD)}


SCHEMA_VERSION = 2
_WITHOUT_UNITS = 1
"""Version without units. Its charges count as charges for rows."""
_APPLICATION = 0x64707374  # "dpst": marks the file as a ledger of this package
_WAIT_SECONDS = 60.0
_SILENT_SECONDS = 1.0  # seconds of waiting before a log message


@dataclass(frozen=True)
class Seen:
    """Latest state of a ledger that this process has seen: its totals, its last charge and the row of this charge."""

    totals: tuple[Fraction, Fraction]
    last: int
    row: tuple[Any, ...]


# Keys are identities of ledgers, for all budgets of the process. A ledger only grows. If it contains less than before,
# an older copy has replaced it, and the charges in between would be spent twice.
_SEEN: dict[str, Seen] = {}

# This lock is held while a connection is open, and during a fork, because a child must not inherit an open connection.
_CONNECTIONS = threading.Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_CONNECTIONS.acquire, after_in_parent=_CONNECTIONS.release, after_in_child=_CONNECTIONS.release
    )


@dataclass(frozen=True, slots=True)
class Record:
    """A stored charge."""

    label: str
    epsilon: float
    delta: float
    time: float
    unit: str = "row"


@dataclass(frozen=True, slots=True)
class Spent:
    """Total charges: the amounts, and the unit of the first charge (None before it)."""

    amounts: Amounts
    unit: str | None


Admit = Callable[[Spent], Amounts]
"""Returns the amounts after a charge, given the total charges, or raises an error to reject it."""


# A store has one operation. It reads the totals, checks that the new totals are admissible, and writes the charge
# and the totals together, or nothing. In a file this is one transaction under the write lock of SQLite, synced to
# disk before the call returns. Any number of processes and threads may charge, and may be killed at any point. An
# acknowledged charge is stored exactly once.
class MemoryStore:
    """Charges in this process only."""

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._totals: Amounts = (Fraction(0), Fraction(0))
        self._answers: dict[tuple[str, int], Kept] = {}
        self._lock = threading.Lock()

    def spent(self) -> Spent:
        """Return the total charges."""
        with self._lock:
            return self._spent()

    def _spent(self) -> Spent:
        return Spent(self._totals, self._records[0].unit if self._records else None)

    def records(self) -> tuple[Record, ...]:
        """Return all charges, oldest first."""
        with self._lock:
            return tuple(self._records)

    def charge(self, record: Record, admit: Admit, asked: Kept | None = None) -> None:
        """Store a charge, with its request, if ``admit`` accepts it. Raise `AlreadyCharged` if its key is known."""
        with self._lock:
            if asked is not None and asked.key and (known := self._answers.get((asked.key, asked.step))):
                raise AlreadyCharged(known)
            self._totals = admit(self._spent())
            self._records.append(record)
            if asked is not None and asked.key:
                self._answers[asked.key, asked.step] = asked

    def find(self, key: str, step: int) -> Kept | None:
        """Return the entry of a key, or None."""
        with self._lock:
            return self._answers.get((key, step))

    def answers(self) -> list[Kept]:
        """Return the entries of all keys, oldest first."""
        with self._lock:
            return list(self._answers.values())

    def keep(self, asked: Kept, state: str, answer: bytes) -> bool:
        """Store the answer of a key, and return whether it was still missing."""
        with self._lock:
            place = asked.key, asked.step
            known = self._answers.get(place)
            if known is None or known.owner != asked.owner or known.state != CHARGED:
                return False
            self._answers[place] = replace(known, state=state, answer=answer)
            return True


class LedgerStore:
    """Charges in an SQLite file.

    Parameters
    ----------
    path : str or path
    parameters : dict, optional
        Parameters of the budget. They must agree with an existing file. None reads them from the file.
    identity : str, optional
        Expected identity of the ledger (see `identity`). A file with another identity raises an error.
    create : bool
        Whether to create a missing file.

    Attributes
    ----------
    path : str
        Absolute.
    parameters : dict
    identity : str
        Random, made with the file, and compared in every transaction.
    """

    def __init__(
        self,
        path: Any,
        parameters: dict[str, Any] | None = None,
        *,
        identity: str | None = None,
        create: bool = False,
    ) -> None:
        try:
            self.path = os.path.abspath(os.fsdecode(path))
            if "\0" in self.path:
                raise ValueError
            self.path.encode()  # SQLite takes no other name
            exists = os.path.exists(self.path)
        except (TypeError, ValueError):
            where = getattr(self, "path", path)
            raise refuse("ledger", given=where, allowed="a path, in UTF-8") from None
        if not exists and create and parameters is not None:
            self._make(parameters)
        elif not exists:
            raise LedgerError(f"{self.path}: the ledger does not exist; check the path")
        self.parameters: dict[str, Any] = parameters or {}
        self.identity = identity or ""
        with self._connection(writes=False) as connection:
            kept = self._kept(connection)
            self._notice(connection, kept)
        if parameters is not None and not _agree(kept["parameters"], parameters):
            raise LedgerError(
                f"{self.path} is the ledger of another budget: it has {_words(kept['parameters'])}, asked for was "
                f"{_words(parameters)}"
            )
        if identity is not None and kept["identity"] != identity:
            raise LedgerError(f"{self.path} is not the ledger it was: another file has taken its place")
        self.parameters, self.identity = kept["parameters"], kept["identity"]

    def _make(self, parameters: dict[str, Any]) -> None:
        """Write a new ledger to a temporary file and move it to the path in one step, unless the path exists."""
        folder, name = os.path.split(self.path)
        try:
            handle, draft = tempfile.mkstemp(prefix=f".{name}-", dir=folder)
        except OSError as error:
            raise LedgerError(f"{self.path}: the file cannot be opened or created") from error
        os.close(handle)
        try:
            with self._connection(draft) as connection:
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
                connection.execute(
                    "CREATE TABLE budget (identity TEXT NOT NULL, parameters TEXT NOT NULL, "
                    "first TEXT NOT NULL, second TEXT NOT NULL)"
                )
                connection.execute(
                    "CREATE TABLE charges (id INTEGER PRIMARY KEY AUTOINCREMENT, label TEXT NOT NULL, "
                    f"epsilon TEXT NOT NULL, delta TEXT NOT NULL, time REAL NOT NULL, {_UNIT_COLUMN})"
                )
                row = (os.urandom(16).hex(), json.dumps(parameters, sort_keys=True))
                connection.execute("INSERT INTO budget VALUES (?, ?, '0', '0')", row)
            with contextlib.suppress(FileExistsError):
                os.link(draft, self.path)
            _sync_folder(folder)
        except OSError as error:
            if isinstance(error, LedgerError):
                raise
            raise LedgerError(f"{self.path}: the file cannot be opened or created") from error
        finally:
            os.unlink(draft)

    def _kept(self, connection: sqlite3.Connection) -> dict[str, Any]:
        """Return the parameters and identity in the file, or raise an error if it is not a ledger of this version."""
        version = _version(connection)
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        if application != _APPLICATION:
            raise LedgerError(f"{self.path} must be a dpstats ledger, got another file")
        if version not in (_WITHOUT_UNITS, SCHEMA_VERSION):
            raise LedgerError(
                f"{self.path} was written by a newer dpstats: its version is {version}, this one knows "
                f"{SCHEMA_VERSION}"
            )
        rows = connection.execute("SELECT identity, parameters, first, second FROM budget").fetchall()
        try:
            ((identity, text, first, second),) = rows
            totals = Fraction(first), Fraction(second)
            parameters = json.loads(text)
            if min(totals) < 0 or not isinstance(parameters, dict):
                raise ValueError
        except (TypeError, ValueError, ZeroDivisionError):
            raise LedgerError(f"{self.path}: the file is not a ledger, or it is corrupt") from None
        return {"identity": identity, "parameters": parameters, "totals": totals, "version": version}

    def _read(self, connection: sqlite3.Connection) -> Spent:
        kept = self._kept(connection)
        if kept["identity"] != self.identity or kept["parameters"] != self.parameters:
            raise LedgerError(f"{self.path} is not the ledger it was: another file has taken its place")
        self._notice(connection, kept)
        first = connection.execute(
            f"SELECT {_unit(kept['version'])} FROM charges ORDER BY id LIMIT 1"
        ).fetchone()
        return Spent(kept["totals"], None if first is None else str(first[0]))

    def _notice(self, connection: sqlite3.Connection, kept: dict[str, Any]) -> None:
        """Raise an error if the ledger contains less than this process has seen before. Otherwise store its state."""
        identity, totals = kept["identity"], kept["totals"]
        seen = _SEEN.get(identity)
        last, row = _last_charge(connection)
        if seen is not None:
            still = last == seen.last or seen.row == _charge(connection, seen.last)
            if last < seen.last or not still or totals[0] < seen.totals[0] or totals[1] < seen.totals[1]:
                raise LedgerError(
                    f"{self.path}: the ledger has lost charges: this process has seen {seen.last} charges in it, and "
                    f"{'some are gone' if last >= seen.last else f'{last} remain'}. An older copy has replaced the "
                    "file, and later charges must not be spent twice; nothing was charged"
                )
        _SEEN[identity] = Seen(totals, last, row)

    def spent(self) -> Spent:
        """Return the total charges."""
        with self._connection(writes=False) as connection:
            return self._read(connection)

    def records(self) -> tuple[Record, ...]:
        """Return all charges, oldest first."""
        with self._connection(writes=False) as connection:
            self._read(connection)
            rows = connection.execute(
                f"SELECT label, epsilon, delta, time, {_unit(_version(connection))} FROM charges ORDER BY id"
            ).fetchall()
        try:
            return tuple(
                Record(str(label), float(e), float(d), float(time), str(unit))
                for label, e, d, time, unit in rows
            )
        except (TypeError, ValueError):
            raise LedgerError(f"{self.path}: the file is not a ledger, or it is corrupt") from None

    def charge(self, record: Record, admit: Admit, asked: Kept | None = None) -> None:
        """Store a charge, with its request, if ``admit`` accepts it. It is durable when the call returns.

        Raise `AlreadyCharged` if the key of the request is known.
        """
        with self._connection() as connection:
            spent = self._read(connection)
            if asked is not None and asked.key and (known := find_kept(connection, asked.key, asked.step)):
                raise AlreadyCharged(known)
            first, second = admit(spent)
            if _version(connection) == _WITHOUT_UNITS:
                # This is part of the same transaction as the charge. Later, a version without units rejects the file.
                connection.execute(f"ALTER TABLE charges ADD COLUMN {_UNIT_COLUMN}")
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            # No label may prevent a charge.
            label = _as_utf8(record.label)
            row = (label, repr(record.epsilon), repr(record.delta), record.time)
            number = connection.execute(
                "INSERT INTO charges (label, epsilon, delta, time, unit) VALUES (?, ?, ?, ?, ?)",
                (*row, _as_utf8(record.unit)),
            ).lastrowid
            connection.execute("UPDATE budget SET first = ?, second = ?", (str(first), str(second)))
            if asked is not None and number is not None:
                store_request(connection, number, asked)
        # The charge is committed. In the meantime another thread may have charged and stored a later state.
        with _CONNECTIONS:
            if number is not None and _SEEN[self.identity].last < number:
                _SEEN[self.identity] = Seen((first, second), number, (number, *row))

    def find(self, key: str, step: int) -> Kept | None:
        """Return the entry of a key, or None."""
        with self._connection(writes=False) as connection:
            self._read(connection)
            return find_kept(connection, key, step)

    def answers(self) -> list[Kept]:
        """Return the entries of all keys, oldest first."""
        with self._connection(writes=False) as connection:
            self._read(connection)
            return all_kept(connection)

    def repeat(self, label: str, since: float) -> float | None:
        """Return when the same charge was made before: see `find_repeat`."""
        with self._connection(writes=False) as connection:
            self._read(connection)
            return find_repeat(connection, label, since)

    def keep(self, asked: Kept, state: str, answer: bytes) -> bool:
        """Store the answer of a key durably, and return whether it was still missing."""
        with self._connection() as connection:
            self._read(connection)
            return store_answer(connection, asked, state, answer)

    @contextlib.contextmanager
    def _connection(self, path: str | None = None, *, writes: bool = True) -> Iterator[sqlite3.Connection]:
        """Open a connection for one use: a transaction that holds the write lock, or a read.

        Threads do not share connections, and a deleted file is not created again.
        """
        outcome = "; nothing was charged" if writes else ""
        name = f"file:{urllib.parse.quote(path or self.path)}?mode=rw"
        try:
            with (
                _CONNECTIONS,
                contextlib.closing(
                    sqlite3.connect(name, uri=True, timeout=_SILENT_SECONDS, isolation_level=None)
                ) as connection,
            ):
                _begin(connection, path or self.path, writes)
                try:
                    yield connection
                    connection.execute("COMMIT")
                except BaseException:
                    with contextlib.suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")
                    raise
        except sqlite3.Error as error:
            raise LedgerError(f"{self.path}: {_reason(error)}{outcome}") from error


def _begin(connection: sqlite3.Connection, path: str, writes: bool) -> None:
    """Begin a transaction with its lock. If another process holds the ledger, log this and continue to wait."""
    begin = "BEGIN IMMEDIATE" if writes else "BEGIN"
    try:
        _take_lock(connection, begin)
    except sqlite3.OperationalError as error:
        if "locked" not in str(error):
            raise
        import logging

        logging.getLogger(__name__).warning("%s: waiting for another process, which holds the ledger", path)
        connection.execute(f"PRAGMA busy_timeout = {round(1000 * (_WAIT_SECONDS - _SILENT_SECONDS))}")
        _take_lock(connection, begin)
    # A commit also has to wait for other processes that read.
    connection.execute(f"PRAGMA busy_timeout = {round(1000 * _WAIT_SECONDS)}")


def _take_lock(connection: sqlite3.Connection, begin: str) -> None:
    if not connection.in_transaction:
        # Like FULL, and syncs the folder after a commit too; fullfsync matters on macOS only.
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA fullfsync = ON")
        connection.execute(begin)
    connection.execute("PRAGMA user_version").fetchone()  # takes the lock of a reading, which BEGIN does not


_COLUMNS = "id, label, epsilon, delta, time"
_UNIT_COLUMN = "unit TEXT NOT NULL DEFAULT 'row'"


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _unit(version: int) -> str:
    """Return the SQL expression of the unit of a charge in a ledger of this version."""
    return "'row'" if version == _WITHOUT_UNITS else "unit"


def _as_utf8(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _last_charge(connection: sqlite3.Connection) -> tuple[int, tuple[Any, ...]]:
    row = connection.execute(f"SELECT {_COLUMNS} FROM charges ORDER BY id DESC LIMIT 1").fetchone()
    return (0, ()) if row is None else (row[0], row)


def _charge(connection: sqlite3.Connection, number: int) -> tuple[Any, ...]:
    row = connection.execute(f"SELECT {_COLUMNS} FROM charges WHERE id = ?", (number,)).fetchone()
    return () if row is None else tuple(row)


_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?(?![\w.])")
_WRAPPED = re.compile(
    r"np\.(?:float64|u?int(?:8|16|32|64))\(([^()]*)\)"
)  # representation of numpy numbers in earlier versions
_TOLERANCE = Fraction(1, 10**12)


def planned_numbers(text: str) -> tuple[str, list[Fraction]]:
    """Split the text of a planned charge: return it without its numbers, and its numbers in order."""
    plain = _WRAPPED.sub(r"\1", text)
    return _NUMBER.sub("#", plain), [Fraction(number) for number in _NUMBER.findall(plain)]


def _agree(kept: dict[str, Any], asked: dict[str, Any]) -> bool:
    """Return whether parameters are equal. Numbers of planned charges may differ by a relative 1e-12.

    The same plan made by another version may differ in the last digits of its events.
    """
    if kept == asked:
        return True
    ours, theirs = asked.get("planned"), kept.get("planned")
    if not isinstance(ours, list) or not isinstance(theirs, list) or len(ours) != len(theirs):
        return False
    if {**kept, "planned": ours} != asked:
        return False
    for mine, other in zip(ours, theirs, strict=True):
        (words, numbers), (other_words, other_numbers) = planned_numbers(mine), planned_numbers(str(other))
        if words != other_words or any(
            abs(a - b) > _TOLERANCE * min(abs(a), abs(b)) for a, b in zip(numbers, other_numbers, strict=True)
        ):
            return False
    return True


def _sync_folder(folder: str) -> None:
    """Make a new name in a folder durable, if the system can open folders."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _reason(error: sqlite3.Error) -> str:
    text = str(error)
    if "readonly" in text:
        return "the ledger cannot be written (it is read-only)"
    if "full" in text:
        return "the disk is full"
    if "not a database" in text or "malformed" in text or "no such table" in text:
        return "the file is not a ledger, or it is corrupt"
    if "unable to open" in text:
        return "the file cannot be opened or created"
    if "locked" in text:
        return f"another process held the ledger for more than {_WAIT_SECONDS:g} seconds"
    return text


def _words(parameters: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} = {value}" for name, value in sorted(parameters.items()) if value not in (None, [])
    )
