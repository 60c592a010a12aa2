"""One SQLite file a study: what it is, and one row per replication, written as they finish."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from dpstats.errors import DPStatsError

if TYPE_CHECKING:
    from collections.abc import Iterator

Row = tuple[int, int, tuple[float, ...] | None, str | None]
"""Cell, replication, the losses; or no losses and the reason why there are none."""


class StudyFileError(DPStatsError, OSError):
    """A study's file cannot be read or written; what was finished before is in it."""


class Store:
    """The file of a study, or memory for ``path=None``.

    Every block of rows is one transaction, so a kill or a full disk loses the block that was being
    written and nothing else, and never half of it. The key is (cell, replication) and rows are kept
    in its order: the rows of an interrupted and resumed study are those of an uninterrupted one.

    Parameters
    ----------
    path : path or None
    description : mapping
        What makes two studies the same: a file of another one is refused.
    cells : sequence of mapping
        The public parameters of each cell.
    losses : sequence of str
    """

    def __init__(
        self,
        path: str | Path | None,
        description: Mapping[str, Any],
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

    def _create(self, description: Mapping[str, Any], cells: Sequence[Mapping[str, Any]]) -> None:
        columns = "".join(f", {_quoted(name)} REAL" for name in self._losses)
        tables = {row[0] for row in self._connection.execute("SELECT name FROM sqlite_master")}
        if tables and "study" not in tables:
            raise StudyFileError(f"{self.path} is not the file of a study")
        stated = json.dumps(description, sort_keys=True)
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            for statement in (
                "CREATE TABLE IF NOT EXISTS study (description TEXT)",
                "CREATE TABLE IF NOT EXISTS cells (cell INTEGER PRIMARY KEY, parameters TEXT)",
                f"CREATE TABLE IF NOT EXISTS results (cell INTEGER, replication INTEGER{columns}, error TEXT, "
                "PRIMARY KEY (cell, replication)) WITHOUT ROWID",
                "CREATE TABLE IF NOT EXISTS work (finished REAL, cell INTEGER, replications INTEGER, seconds REAL)",
            ):
                self._connection.execute(statement)
            found = self._connection.execute("SELECT description FROM study").fetchone()
            if found is None:
                self._connection.execute("INSERT INTO study VALUES (?)", (stated,))
                self._connection.executemany(
                    "INSERT INTO cells VALUES (?, ?)",
                    [(i, json.dumps(cell, sort_keys=True)) for i, cell in enumerate(cells)],
                )
        if found is not None and found[0] != stated:
            before = json.loads(found[0])
            changed = [name for name in description if before.get(name) != description[name]]
            raise StudyFileError(
                f"{self.path} holds another study: it differs in {', '.join(changed) or 'its description'}; "
                "give another file, or remove this one"
            )

    def append(self, rows: Iterable[Row], seconds: float) -> None:
        """Write the rows of one block of one cell; rows that are there already stay."""
        blanks = (None,) * len(self._losses)
        records = [
            (cell, replication, *(blanks if values is None else values), error)
            for cell, replication, values, error in rows
        ]
        marks = ", ".join("?" * (len(self._losses) + 3))
        with self._explained("written"), self._connection:
            self._connection.executemany(f"INSERT OR IGNORE INTO results VALUES ({marks})", records)
            self._connection.execute(
                "INSERT INTO work VALUES (?, ?, ?, ?)", (time.time(), records[0][0], len(records), seconds)
            )

    def finished(self) -> dict[int, set[int]]:
        """Return the replications of each cell that are there."""
        done: dict[int, set[int]] = {}
        for cell, replication in self._query("SELECT cell, replication FROM results"):
            done.setdefault(cell, set()).add(replication)
        return done

    def rows(self, replications: int | None = None) -> list[Row]:
        """Return the rows in the order of the key, of the first ``replications`` of each cell."""
        query = "SELECT * FROM results" + ("" if replications is None else " WHERE replication < ?")
        records = self._query(
            f"{query} ORDER BY cell, replication", () if replications is None else (replications,)
        )
        return [
            (record[0], record[1], None if record[-1] is not None else tuple(record[2:-1]), record[-1])
            for record in records
        ]

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
            kept = (
                "" if self.path is None else "; what was finished before is in the file: run again to resume"
            )
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
