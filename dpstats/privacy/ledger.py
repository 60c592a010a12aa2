"""Where charges are kept: in memory, or durably in an SQLite file.

A store does one thing: read the totals, ask whether the new totals are admissible, and write the
charge and the totals together, or nothing. In the file this is one transaction under SQLite's
write lock, synced to disk before it returns: any number of processes and threads may charge, and
be killed at any point, and a charge that was acknowledged is there, once. Standard library only.
"""

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
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpstats.errors import InvalidParameter, LedgerError

Amounts = tuple[Fraction, Fraction]

SCHEMA_VERSION = 2
_WITHOUT_UNITS = 1
"""The version whose charges state no unit: they count as charges for rows, which is what it said of them."""
_APPLICATION = 0x64707374  # "dpst": marks the file as a ledger of this package
_WAIT_SECONDS = 60.0
_SILENT_SECONDS = 1.0  # of these; then it is said that a ledger is waited for


@dataclass(frozen=True)
class Seen:
    """The most that this process has seen in a ledger: its totals and its last charge, with that charge's row."""

    totals: tuple[Fraction, Fraction]
    last: int
    row: tuple[Any, ...]


# By identity, for all budgets of the process. A ledger only grows: where it holds less than it did, an older copy has
# been put in its place, and what was charged in between would be spent twice.
_SEEN: dict[str, Seen] = {}

# Held while a connection is open, and across a fork: a child must not inherit one in use.
_CONNECTIONS = threading.Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_CONNECTIONS.acquire, after_in_parent=_CONNECTIONS.release, after_in_child=_CONNECTIONS.release
    )


@dataclass(frozen=True, slots=True)
class Record:
    """One charge, as it is kept."""

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
"""Given the total charges, return the amounts after the charge, or raise to refuse it."""


class MemoryStore:
    """Charges in this process only."""

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._totals: Amounts = (Fraction(0), Fraction(0))
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

    def charge(self, record: Record, admit: Admit) -> None:
        """Keep a charge if ``admit`` lets it pass."""
        with self._lock:
            self._totals = admit(self._spent())
            self._records.append(record)


class LedgerStore:
    """Charges in an SQLite file.

    Parameters
    ----------
    path : str or path
    parameters : dict, optional
        What the budget is; an existing file must agree. None reads them from the file.
    identity : str, optional
        The identity of the very ledger that is meant (see `identity`): a file that was put in its place
        is refused.
    create : bool
        Whether a file that does not exist is made.

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
            raise InvalidParameter(f"ledger must be a path, in UTF-8, got {where!r}") from None
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
        """Write a whole new ledger beside the path and put it there in one step, unless one came first."""
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
        """Return what the file says it is, or refuse a file that is no ledger of this version."""
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
        """Refuse a ledger that holds less than this process has seen in it; else remember what it holds."""
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

    def charge(self, record: Record, admit: Admit) -> None:
        """Keep a charge if ``admit`` lets it pass: durable when this returns."""
        with self._connection() as connection:
            first, second = admit(self._read(connection))
            if _version(connection) == _WITHOUT_UNITS:
                # With the charge, or not at all. From now on a version that would store no unit refuses the file.
                connection.execute(f"ALTER TABLE charges ADD COLUMN {_UNIT_COLUMN}")
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            # Whatever the label holds, it must not be able to stop a charge.
            label = _as_utf8(record.label)
            row = (label, repr(record.epsilon), repr(record.delta), record.time)
            number = connection.execute(
                "INSERT INTO charges (label, epsilon, delta, time, unit) VALUES (?, ?, ?, ?, ?)",
                (*row, _as_utf8(record.unit)),
            ).lastrowid
            connection.execute("UPDATE budget SET first = ?, second = ?", (str(first), str(second)))
        # Committed. Another thread may have charged, and remembered more, since.
        with _CONNECTIONS:
            if number is not None and _SEEN[self.identity].last < number:
                _SEEN[self.identity] = Seen((first, second), number, (number, *row))

    @contextlib.contextmanager
    def _connection(self, path: str | None = None, *, writes: bool = True) -> Iterator[sqlite3.Connection]:
        """Open a connection for one use: a transaction that holds the write lock, or a reading.

        Nothing is shared between threads, and a file that is gone is not made again.
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
    """Begin a transaction that has its lock; where another process holds the ledger, say so and go on waiting."""
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
    # To write it down the others that read have to be waited for, too.
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
    """Return the expression of a charge's unit in a ledger of this version."""
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
)  # how earlier versions kept numpy's numbers
_TOLERANCE = Fraction(1, 10**12)


def planned_numbers(text: str) -> tuple[str, list[Fraction]]:
    """Return what a planned charge says but for its numbers, and its numbers, in order."""
    plain = _WRAPPED.sub(r"\1", text)
    return _NUMBER.sub("#", plain), [Fraction(number) for number in _NUMBER.findall(plain)]


def _agree(kept: dict[str, Any], asked: dict[str, Any]) -> bool:
    """Say whether parameters are the same; numbers of planned charges to a relative 1e-12.

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
    """Make a new name in a folder durable, where the system lets a folder be opened."""
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
