"""The storage of charges: in memory, or durably in an SQLite file; and what a saved estimator keeps of its budget."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sqlite3
import tempfile
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

from dpstats.errors import InvalidParameter, LedgerError, refuse
from dpstats.privacy.filters import Amounts
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


class Answered(NamedTuple):
    """The steps of a stream that are answered: their number, and a hash of their released numbers."""

    steps: int = 0
    mark: str = ""


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
        self._answered: dict[str, Answered] = {}
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

    def find_answered(self, key: str) -> Answered:
        """Return the answered steps of a stream."""
        with self._lock:
            return self._answered.get(key, Answered())

    def keep_answered(self, key: str, known: Answered, now: Answered) -> bool:
        """Store the answered steps of a stream, and return whether the known ones were still right."""
        with self._lock:
            right = self._answered.get(key, Answered()) == known
            if right:
                self._answered[key] = now
            return right


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
        self, path: Any, parameters: dict[str, Any] | None = None, *, identity: str | None = None, create: bool = False
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
                f"{self.path} is the ledger of another budget: it has {_words(kept['parameters'])}. Requested: "
                f"{_words(parameters)}."
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
            self._appear(draft)
            sync_folder(folder)
        except OSError as error:
            if isinstance(error, LedgerError):
                raise
            raise LedgerError(f"{self.path}: the file cannot be opened or created") from error
        finally:
            os.unlink(draft)

    def _appear(self, draft: str) -> None:
        """Give a whole ledger its name, unless the name is taken."""
        try:
            os.link(draft, self.path)
        except FileExistsError:
            pass
        except OSError as error:
            raise LedgerError(
                f"{self.path}: its file system has no hard links, with which a new ledger appears whole or not at all "
                f"({error.strerror}); put the ledger on another file system"
            ) from error

    def _kept(self, connection: sqlite3.Connection) -> dict[str, Any]:
        """Return the parameters and identity in the file, or raise an error if it is not a ledger of this version."""
        version = _version(connection)
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        if application != _APPLICATION:
            raise LedgerError(f"{self.path} must be a dpstats ledger, got another file")
        if version not in (_WITHOUT_UNITS, SCHEMA_VERSION):
            raise LedgerError(
                f"{self.path} was written by a newer dpstats: its version is {version}, this one knows {SCHEMA_VERSION}"
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
        first = connection.execute(f"SELECT {_unit(kept['version'])} FROM charges ORDER BY id LIMIT 1").fetchone()
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
                Record(str(label), float(e), float(d), float(time), str(unit)) for label, e, d, time, unit in rows
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

    def find_answered(self, key: str) -> Answered:
        """Return the answered steps of a stream."""
        with self._connection(writes=False) as connection:
            self._read(connection)
            if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'streams'").fetchone() is None:
                return Answered()
            row = connection.execute("SELECT steps, mark FROM streams WHERE once = ?", (key,)).fetchone()
            return Answered() if row is None else Answered(*row)

    def keep_answered(self, key: str, known: Answered, now: Answered) -> bool:
        """Store the answered steps of a stream durably, and return whether the known ones were still right."""
        with self._connection() as connection:
            self._read(connection)
            connection.execute(
                "CREATE TABLE IF NOT EXISTS streams (once TEXT PRIMARY KEY, steps INTEGER NOT NULL, mark TEXT NOT NULL)"
            )
            connection.execute("INSERT OR IGNORE INTO streams VALUES (?, 0, '')", (key,))
            done = connection.execute(
                "UPDATE streams SET steps = ?, mark = ? WHERE once = ? AND steps = ? AND mark = ?", (*now, key, *known)
            )
            return bool(done.rowcount)

    @contextlib.contextmanager
    def _connection(self, path: str | None = None, *, writes: bool = True) -> Iterator[sqlite3.Connection]:
        """Open a connection for one use: a transaction that holds the write lock, or a read.

        Threads do not share connections, and a deleted file is not created again.
        """
        try:
            with transaction(path or self.path, writes=writes) as connection:
                yield connection
        except sqlite3.Error as error:
            outcome = "; nothing was charged" if writes else ""
            raise LedgerError(f"{self.path}: {_reason(error)}{outcome}") from error


@contextlib.contextmanager
def transaction(path: str, *, writes: bool = True) -> Iterator[sqlite3.Connection]:
    """Open a file of SQLite for one transaction that holds the write lock, or for one read. It is synced to disk."""
    name = f"file:{urllib.parse.quote(path)}?mode=rw"
    with (
        _CONNECTIONS,
        contextlib.closing(
            sqlite3.connect(name, uri=True, timeout=_SILENT_SECONDS, isolation_level=None)
        ) as connection,
    ):
        _begin(connection, path, writes)
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise


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


def sync_folder(folder: str) -> None:
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
    return ", ".join(f"{name} = {value}" for name, value in sorted(parameters.items()) if value not in (None, []))


# The parameter ``budget`` of a saved estimator.

# A file outlives the process and the machine of a budget. A second copy of a budget in memory could be spent twice, and
# the path of a ledger may mean nothing elsewhere. So a fitted estimator is saved without its budget. After loading, it
# has a `LeftBehind`, and a release is refused until somebody says who pays.


class LeftBehind:
    """The parameter ``budget`` of an estimator that was saved with a budget, and loaded.

    It refuses every release. ``set_params(budget=...)`` replaces it: by a budget, or by None for a release that is
    charged to no budget.

    Examples
    --------
    >>> import pickle
    >>> from dpstats.means import ClippedMean
    >>> from dpstats.privacy import PrivacyBudget
    >>> model = ClippedMean(bounds=(0, 9), budget=PrivacyBudget(1.0)).fit([[1.0], [2.0]])
    >>> loaded = pickle.loads(pickle.dumps(model))
    >>> bool(loaded.mean_ == model.mean_), loaded.budget
    (True, <budget left behind>)
    >>> loaded.fit([[1.0], [2.0]])
    Traceback (most recent call last):
        ...
    dpstats.errors.InvalidParameter: this estimator was saved without its budget, which stayed where it was made.
    Nothing was released. Use set_params(budget=...) before the next release, or budget=None for one that is charged
    to no budget.
    """

    def refuse(self) -> None:
        """Raise the error of a release."""
        raise InvalidParameter(
            "this estimator was saved without its budget, which stayed where it was made. Nothing was released. Use "
            "set_params(budget=...) before the next release, or budget=None for one that is charged to no budget."
        )

    def __repr__(self) -> str:
        return "<budget left behind>"

    def __reduce__(self) -> str:
        return "LEFT_BEHIND"


LEFT_BEHIND = LeftBehind()
"""The only one."""


class _Carried:
    """A budget with a ledger, on the way to another process. Where the ledger is missing, a `LeftBehind` arrives."""

    def __init__(self, budget: Any) -> None:
        self._budget = budget

    def __reduce__(self) -> Any:
        return _arrive, self._budget.__reduce__()


def _arrive(rebuild: Any, arguments: Any) -> Any:
    try:
        return rebuild(*arguments)
    except LedgerError:
        return LEFT_BEHIND


def carry(budget: Any, *, fitted: bool) -> Any:
    """Return the parameter ``budget`` of a pickled estimator.

    An estimator that is not fitted yet is on its way to a worker, and its ledger pays there.
    """
    if budget is None or isinstance(budget, LeftBehind) or not hasattr(budget, "ledger"):
        return budget
    return LEFT_BEHIND if fitted or budget.ledger is None else _Carried(budget)
