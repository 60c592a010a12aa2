"""Storage of charged results next to the ledger until they are delivered, so that no error loses them.

Only released values are stored, which every reader of the answer may see. Only the user can read the file.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dpstats.cli.files import as_json, results_path
from dpstats.errors import LedgerError
from dpstats.release.charges import running_accounts

if TYPE_CHECKING:
    import sqlite3

_WAIT_SECONDS = 60.0


class KeptResult(NamedTuple):
    """A result that was not delivered.

    Attributes
    ----------
    number : int
    time : float
        Time of the release, in seconds since the epoch.
    releases : list of dict
        Released values by the names of the stages, with their label, plan and guarantee.
    text : str or None
        The printed table, if it was finished.
    facts : dict or None
        The facts of the JSON output, if they were finished.
    """

    number: int
    time: float
    releases: list[dict[str, Any]]
    text: str | None
    facts: dict[str, Any] | None


class KeptResults:
    """The undelivered results of a ledger, in an SQLite file next to it.

    Parameters
    ----------
    ledger : path
    """

    def __init__(self, ledger: Path) -> None:
        self.ledger = ledger
        self.path = results_path(ledger)
        self.shown = f"'dpstats budget results {ledger}' shows"

    def check(self) -> int:
        """Create the file if necessary and return its number of results.

        Raise an error if it cannot be written.
        """
        with self._connection(make=True) as connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS results (id INTEGER PRIMARY KEY AUTOINCREMENT, time REAL NOT NULL, "
                "releases TEXT NOT NULL, text TEXT, facts TEXT)"
            )
            (count,) = connection.execute("SELECT count(*) FROM results").fetchone()
            return int(count)

    def add(self, releases: list[dict[str, Any]]) -> int:
        """Store a release durably, and return its number."""
        with self._connection() as connection:
            row = (time.time(), as_json(releases))
            number = connection.execute("INSERT INTO results (time, releases) VALUES (?, ?)", row).lastrowid
            return int(number or 0)

    def change(self, number: int, column: str, value: str) -> bool:
        """Keep the releases, the text or the facts of a result, and return whether it is still there."""
        with self._connection() as connection:
            done = connection.execute(f"UPDATE results SET {column} = ? WHERE id = ?", (value, number))
            return bool(done.rowcount)

    def discard(self, numbers: list[int]) -> None:
        """Forget results, which were delivered."""
        with self._connection() as connection:
            connection.executemany("DELETE FROM results WHERE id = ?", [(number,) for number in numbers])

    def all(self) -> list[KeptResult]:
        """Return the results, oldest first."""
        if not self.path.exists():
            return []
        with self._connection(writes=False) as connection:
            if not connection.execute("SELECT name FROM sqlite_master WHERE name = 'results'").fetchall():
                return []
            rows = connection.execute(
                "SELECT id, time, releases, text, facts FROM results ORDER BY id"
            ).fetchall()
        return [
            KeptResult(number, when, json.loads(releases), text, None if facts is None else json.loads(facts))
            for number, when, releases, text, facts in rows
        ]

    @contextlib.contextmanager
    def _connection(self, *, make: bool = False, writes: bool = True) -> Iterator[sqlite3.Connection]:
        """Open a transaction, durable when it ends, or a reading."""
        import sqlite3

        try:
            if make:
                handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
                os.fchmod(handle, 0o600)
                os.close(handle)
            name = f"{self.path.absolute().as_uri()}?mode={'rw' if writes else 'ro'}"
            # As long as a ledger waits: another command may be writing.
            made = sqlite3.connect(name, uri=True, timeout=_WAIT_SECONDS, isolation_level=None)
            with contextlib.closing(made) as connection:
                connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
                try:
                    yield connection
                except BaseException:
                    connection.execute("ROLLBACK")
                    raise
                connection.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise LedgerError(f"{self.path}: results cannot be stored next to the ledger ({why})") from None


class Delivery:
    """The way of one command's result: kept as soon as it is released, forgotten when it was delivered."""

    def __init__(self, results: KeptResults, what: str, warn: Callable[[str], None]) -> None:
        self._results, self._what, self._warn = results, what, warn
        self._releases: list[dict[str, Any]] = []
        self._number: int | None = None

    def keep(self, label: str, plan: Any, released: Any) -> None:
        """Keep what a session has released: see `dpstats.release.session.keeping`."""
        with self._trying():
            named = {"label": f"{self._what}: {label}", "guarantee": str(plan.guarantee), "plan": str(plan)}
            self._releases.append({**named, "released": dict(released)})
            self._change("releases", as_json(self._releases))

    def report(self, text: str, facts: dict[str, Any]) -> None:
        """Store the finished text and facts of the release."""
        if self._number is not None:
            with self._trying():
                self._change("text", text)
                self._change("facts", as_json(facts))

    def _change(self, column: str, value: str) -> None:
        # Another command may have discarded it meanwhile.
        if self._number is None or not self._results.change(self._number, column, value):
            self._number = self._results.add(self._releases)
            for account in running_accounts():
                account.where = f"The released values are kept: {self._results.shown} them."
            if column != "releases":
                self._results.change(self._number, column, value)

    def done(self) -> None:
        """Forget it, since it was delivered."""
        if self._number is not None:
            with self._trying():
                self._results.discard([self._number])

    @contextlib.contextmanager
    def _trying(self) -> Iterator[None]:
        # If storing fails for any reason, the answer can still be delivered.
        try:
            yield
        except Exception as error:
            why = str(error) if isinstance(error, LedgerError) else type(error).__name__
            self._warn(f"the result is not kept until it is delivered: {why}")


@contextlib.contextmanager
def until_delivered(ledger: Path | None, what: str, warn: Callable[[str], None]) -> Iterator[Delivery | None]:
    """Store releases within the context until it ends without an error.

    If the releases cannot be stored, it raises an error before anything is charged.

    Parameters
    ----------
    ledger : path, optional
        Ledger of the charges. None stores nothing, because nothing is charged.
    what : str
        Label of the charge.
    warn : callable
        Prints remarks for the user.
    """
    if ledger is None:
        yield None
        return
    from dpstats.release.session import keeping

    results = KeptResults(ledger)
    if earlier := results.check():
        warn(f"{results.shown} earlier results that were not delivered ({earlier})")
    delivery = Delivery(results, what, warn)
    with keeping(delivery.keep):
        yield delivery
    delivery.done()
