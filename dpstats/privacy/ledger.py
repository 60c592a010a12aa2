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
import sqlite3
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpstats.errors import LedgerError

Amounts = tuple[Fraction, Fraction]

SCHEMA_VERSION = 1
_APPLICATION = 0x64707374  # "dpst": marks the file as a ledger of this package
_WAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Record:
    """One charge, as it is kept."""

    label: str
    epsilon: float
    delta: float
    time: float


Admit = Callable[[Amounts], Amounts]
"""Given the totals so far, return the totals after the charge, or raise to refuse it."""


class MemoryStore:
    """Charges in this process only."""

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._totals: Amounts = (Fraction(0), Fraction(0))
        self._lock = threading.Lock()

    def totals(self) -> Amounts:
        """Return the amounts charged so far."""
        with self._lock:
            return self._totals

    def records(self) -> tuple[Record, ...]:
        """Return all charges, oldest first."""
        with self._lock:
            return tuple(self._records)

    def charge(self, record: Record, admit: Admit) -> None:
        """Keep a charge if ``admit`` lets it pass."""
        with self._lock:
            self._totals = admit(self._totals)
            self._records.append(record)


class LedgerStore:
    """Charges in an SQLite file, created on first use.

    Parameters
    ----------
    path : str or path
    parameters : dict
        What the budget is; an existing file must agree. None reads them from the file.
    """

    def __init__(self, path: Any, parameters: dict[str, Any] | None) -> None:
        self.path = os.path.abspath(os.fspath(path))
        if parameters is None and not os.path.exists(self.path):
            raise LedgerError(f"{self.path}: there is no such ledger")
        with self._transaction() as connection:
            kept = self._open(connection, parameters)
        if parameters is not None and kept != parameters:
            raise LedgerError(
                f"{self.path} is the ledger of another budget: it has {_words(kept)}, asked for was "
                f"{_words(parameters)}"
            )
        self.parameters = kept

    def _open(self, connection: sqlite3.Connection, parameters: dict[str, Any] | None) -> dict[str, Any]:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if version == 0 and tables == 0 and parameters is not None:
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            connection.execute(
                "CREATE TABLE budget (parameters TEXT NOT NULL, first TEXT NOT NULL, second TEXT NOT NULL)"
            )
            connection.execute(
                "CREATE TABLE charges (id INTEGER PRIMARY KEY AUTOINCREMENT, label TEXT NOT NULL, "
                "epsilon TEXT NOT NULL, delta TEXT NOT NULL, time REAL NOT NULL)"
            )
            connection.execute(
                "INSERT INTO budget VALUES (?, '0', '0')", (json.dumps(parameters, sort_keys=True),)
            )
            return parameters
        if application != _APPLICATION:
            raise LedgerError(f"{self.path} is not a dpstats ledger")
        if version > SCHEMA_VERSION:
            raise LedgerError(
                f"{self.path} was written by a newer dpstats: its version is {version}, this one knows "
                f"{SCHEMA_VERSION}"
            )
        (text,) = connection.execute("SELECT parameters FROM budget").fetchone()
        kept: dict[str, Any] = json.loads(text)
        return kept

    def totals(self) -> Amounts:
        """Return the amounts charged so far."""
        with self._connection() as connection:
            return self._read(connection)

    def records(self) -> tuple[Record, ...]:
        """Return all charges, oldest first."""
        with self._connection() as connection:
            rows = connection.execute(
                "SELECT label, epsilon, delta, time FROM charges ORDER BY id"
            ).fetchall()
        return tuple(
            Record(label, float(epsilon), float(delta), time) for label, epsilon, delta, time in rows
        )

    def charge(self, record: Record, admit: Admit) -> None:
        """Keep a charge if ``admit`` lets it pass: durable when this returns."""
        with self._transaction() as connection:
            first, second = admit(self._read(connection))
            connection.execute(
                "INSERT INTO charges (label, epsilon, delta, time) VALUES (?, ?, ?, ?)",
                (record.label, repr(record.epsilon), repr(record.delta), record.time),
            )
            connection.execute("UPDATE budget SET first = ?, second = ?", (str(first), str(second)))

    @staticmethod
    def _read(connection: sqlite3.Connection) -> Amounts:
        first, second = connection.execute("SELECT first, second FROM budget").fetchone()
        return Fraction(first), Fraction(second)

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """Open a connection for one use: nothing is shared between threads, or survives a fork."""
        try:
            with contextlib.closing(
                sqlite3.connect(self.path, timeout=_WAIT_SECONDS, isolation_level=None)
            ) as connection:
                # Like FULL, and syncs the folder after a commit too.
                connection.execute("PRAGMA synchronous = EXTRA")
                yield connection
        except sqlite3.Error as error:
            raise LedgerError(f"{self.path}: {_reason(error)}; nothing was charged") from error

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise


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
