"""One SQLite file a study: what it is, and one row per replication, written as they finish."""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from dpstats.errors import DPStatsError
from dpstats.simulation.versions import Versions, versions

if TYPE_CHECKING:
    from collections.abc import Iterator

Row = tuple[int, int, tuple[float, ...] | None, str | None]
"""Cell, replication, the losses; or no losses and the reason why there are none."""

Finished = tuple[list[Row], float, Versions]
"""A block of rows of one cell, the seconds that they took, and what its process computed with."""

_FORMAT = 2
"""Version of the file format.

Before 2, different studies could have the same description, and rows had no versions.
"""


class StudyFileError(DPStatsError, OSError):
    """A study's file cannot be read or written. It contains the replications finished before.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dpstats.means import ClippedMean
    >>> from dpstats.simulation import Gaussian, Study
    >>> study = Study(Gaussian(), ClippedMean(clip=6.0), {"n": [10], "d": [1]}, 2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "notes.txt")
    ...     _ = path.write_text("something else")
    ...     study.run(path)
    Traceback (most recent call last):
        ...
    dpstats.simulation.store.StudyFileError: ...
    """


class Store:
    """The file of a study, or memory for ``path=None``.

    Blocks of rows are written in transactions, so a kill or a full disk loses only whole blocks that were not
    written yet. The key is (cell, replication) and rows are stored in its order. An interrupted and resumed
    study has the same rows as an uninterrupted one.

    Parameters
    ----------
    path : path or None
    description : mapping or None
        Identity of the study: a file of another one raises an error. None for memory.
    cells : sequence of mapping
        The public parameters of each cell.
    losses : sequence of str
    """

    def __init__(
        self,
        path: str | Path | None,
        description: Mapping[str, Any] | None,
        cells: Sequence[Mapping[str, Any]],
        losses: Sequence[str],
    ) -> None:
        self.path = None if path is None else Path(path)
        self._losses = list(losses)
        with self._explained("opened"):
            self._connection = sqlite3.connect(":memory:" if path is None else path, timeout=60)
        try:
            with self._explained("opened"):
                self._create(description, cells)
        except BaseException:
            self._connection.close()
            raise

    def _create(self, description: Mapping[str, Any] | None, cells: Sequence[Mapping[str, Any]]) -> None:
        columns = "".join(f", {_quoted(name)} REAL" for name in self._losses)
        stated = (
            None if description is None else json.dumps({**description, "format": _FORMAT}, sort_keys=True)
        )
        with self._connection:
            # The tables are looked for and made in one transaction: two processes may start on the same new
            # file.
            self._connection.execute("BEGIN IMMEDIATE")
            tables = {row[0] for row in self._connection.execute("SELECT name FROM sqlite_master")}
            if tables:
                self._check(tables, stated)
                return
            for statement in (
                "CREATE TABLE study (description TEXT)",
                "CREATE TABLE cells (cell INTEGER PRIMARY KEY, parameters TEXT)",
                "CREATE TABLE versions (id INTEGER PRIMARY KEY, stated TEXT UNIQUE)",
                f"CREATE TABLE results (cell INTEGER, replication INTEGER{columns}, error TEXT, "
                "versions INTEGER, PRIMARY KEY (cell, replication)) WITHOUT ROWID",
                "CREATE TABLE work (finished REAL, cell INTEGER, replications INTEGER, seconds REAL)",
            ):
                self._connection.execute(statement)
            self._connection.execute("INSERT INTO study VALUES (?)", (stated,))
            self._connection.executemany(
                "INSERT INTO cells VALUES (?, ?)",
                [(i, json.dumps(cell, sort_keys=True)) for i, cell in enumerate(cells)],
            )

    def _check(self, tables: set[str], stated: str | None) -> None:
        """Refuse the file of another study, or of none."""
        if "study" not in tables:
            raise StudyFileError(f"{self.path} must be the file of a study, got another file")
        found = self._connection.execute("SELECT description FROM study").fetchone()
        before = json.loads(found[0])
        if before.get("format") != _FORMAT:
            raise StudyFileError(
                f"{self.path} is a file of another version of dpstats (format {before.get('format', 1)}, this one "
                f"writes {_FORMAT}), and cannot be compared with this study; give another file, or remove this one"
            )
        if found[0] == stated:
            return
        now = json.loads(stated or "{}")
        changed = [name for name in now if before.get(name) != now[name]]
        pythons = {used["Python"].rpartition(".")[0] for used in self._versions()}
        here = versions()["Python"].rpartition(".")[0]
        note = (
            ""
            if pythons <= {here}
            else f" (begun with Python {', '.join(sorted(pythons))}, this is {here}: code can be compared within "
            "one of them only)"
        )
        raise StudyFileError(
            f"{self.path} holds another study: it differs in {', '.join(changed)}{note}; "
            "give another file, or remove this one"
        )

    def append(self, blocks: Iterable[Finished], *, replace_failed: bool = False) -> None:
        """Write blocks of rows, all of them or none.

        Existing rows stay, except rows of failed replications with ``replace_failed``.
        """
        blanks = (None,) * len(self._losses)
        names = [_quoted(name) for name in (*self._losses, "error", "versions")]
        marks = ", ".join("?" * (len(names) + 2))
        insert = f"INSERT OR IGNORE INTO results VALUES ({marks})"
        if replace_failed:
            changes = ", ".join(f"{name} = excluded.{name}" for name in names)
            insert = (
                f"INSERT INTO results VALUES ({marks}) ON CONFLICT DO UPDATE SET {changes} "
                "WHERE results.error IS NOT NULL"
            )
        with self._explained("written"), self._connection:
            for rows, seconds, used in blocks:
                identity = self._identity(used)
                records = [
                    (cell, replication, *(blanks if values is None else values), error, identity)
                    for cell, replication, values, error in rows
                ]
                self._connection.executemany(insert, records)
                self._connection.execute(
                    "INSERT INTO work VALUES (?, ?, ?, ?)",
                    (time.time(), records[0][0], len(records), seconds),
                )

    def _identity(self, used: Versions) -> int:
        stated = (json.dumps(used, sort_keys=True),)
        self._connection.execute("INSERT OR IGNORE INTO versions (stated) VALUES (?)", stated)
        found = self._connection.execute("SELECT id FROM versions WHERE stated = ?", stated)
        return int(found.fetchone()[0])

    def finished(self, *, but_failed: bool = False) -> dict[int, set[int]]:
        """Return the replications of each cell that are there, or those that are there and did not fail."""
        done: dict[int, set[int]] = {}
        which = " WHERE error IS NULL" if but_failed else ""
        for cell, replication in self._query(f"SELECT cell, replication FROM results{which}"):
            done.setdefault(cell, set()).add(replication)
        return done

    def rows(self, replications: int | None = None) -> list[Row]:
        """Return the rows in the order of the key, of the first ``replications`` of each cell."""
        query = "SELECT * FROM results" + ("" if replications is None else " WHERE replication < ?")
        records = self._query(
            f"{query} ORDER BY cell, replication", () if replications is None else (replications,)
        )
        return [
            (record[0], record[1], None if record[-2] is not None else tuple(record[2:-2]), record[-2])
            for record in records
        ]

    def versions(self, replications: int) -> tuple[Versions, ...]:
        """Return the sets of versions with which the first ``replications`` of each cell were computed."""
        with self._explained("read"):
            return tuple(self._versions(replications))

    def _versions(self, replications: int = sys.maxsize) -> list[dict[str, str]]:
        found = self._connection.execute(
            "SELECT stated FROM versions WHERE id IN (SELECT versions FROM results WHERE replication < ?) "
            "ORDER BY id",
            (replications,),
        )
        return [json.loads(row[0]) for row in found]

    def seconds(self) -> float:
        """Return the time that all rows took, over all processes."""
        return float(self._query("SELECT coalesce(sum(seconds), 0) FROM work")[0][0])

    def _query(self, statement: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with self._explained("read"), closing(self._connection.execute(statement, values)) as cursor:
            return cursor.fetchall()

    @contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        problem = None
        try:
            yield
        except sqlite3.Error as error:
            problem = error
        if problem is not None:
            kept = ""
            if what == "written" and self.path is not None:
                kept = "; what was finished before is in the file: run again to resume"
            raise StudyFileError(
                f"{self.path or 'the results'} cannot be {what} ({problem}){kept}"
            ) from problem

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
