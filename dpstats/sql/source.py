"""The data: one snapshot of a database. It runs compiled SQL only, and its results are private.

Frequencies come from the same snapshot as answers, and are queried once per column.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import InvalidData, InvalidParameter, refuse, refuse_data
from dpstats.sql.catalogue import BaseTable, fold, quoted
from dpstats.sql.dialect import Dialect, Probe
from dpstats.sql.duckdb_engine import DuckDBEngine
from dpstats.sql.postgres_engine import PostgresEngine, is_postgres

Result = TypeVar("Result")


class Source:
    """A snapshot of the tables that a connection has, or of files.

    Parameters
    ----------
    data : DuckDB or psycopg connection, str, or mapping of str to path or data frame
        See `DuckDBEngine` and `PostgresEngine`.
    types : mapping of str to str, optional
        Types of columns of CSV files, by "table.column": see `PrivateSQL`. Other columns are text.
    """

    def __init__(self, data: Any, types: Mapping[str, str] | None = None) -> None:
        if types and not isinstance(data, Mapping):
            remedy = "Remove types, which a connection has."
            raise refuse("types", allowed="be given for CSV files only", remedy=remedy)
        self._known: dict[tuple[str, str], int] = {}
        self._unreadable: dict[str, str] = {}
        self._engine = PostgresEngine(data) if is_postgres(data) else DuckDBEngine(data, types or {})
        self._probe, self._settings = (Probe(self.dialect, settings) for settings in (False, True))
        self._over = False
        self.refresh()

    @property
    def dialect(self) -> Dialect:
        """Dialect of compiled SQL."""
        return self._engine.dialect

    @property
    def lasting(self) -> bool:
        """Whether a snapshot lasts until `refresh`, and does not end with `rest`."""
        return self._engine.lasting

    def refresh(self, names: Iterable[str] = ()) -> None:
        """Begin a new snapshot, and discard cached facts of the old one. Tables must be read again.

        Parameters
        ----------
        names : iterable of str
            Tables, as SQL. Postgres locks their definitions until the snapshot ends.
        """
        self._known.clear()
        self._unreadable.clear()
        begun = False
        try:
            self._engine.begin(names)
            begun = True
        except (InvalidData, InvalidParameter):
            raise
        except Exception:  # its words may show data: the error is raised after it
            pass
        self._over = not begun
        if self._over:
            raise InvalidData(f"{self.dialect.name} could not begin to read the tables: check the connection")
        self._engine.check_functions(self._ask)
        self._check_meaning(self._probe)

    @contextlib.contextmanager
    def snapshot(self, names: Iterable[str]) -> Iterator[None]:
        """Read from one snapshot: the last one where it lasts, or one for this block."""
        if self.lasting:
            yield
            return
        try:
            self.refresh(names)
            yield
        finally:
            self.rest()

    def rest(self) -> None:
        """End a snapshot that does not last."""
        if not self.lasting:
            self._over = True
            self._engine.end()

    def _check_meaning(self, probe: Probe) -> None:
        """Refuse an engine that computes something else."""
        self._engine.check_settings(self._ask)
        failure = probe.find_failure(self._ask)
        if failure is not None:
            raise refuse(
                "connection",
                got=f"one that fails the check of {failure}",
                allowed=f"be one that computes as {self.dialect.name} does",
                remedy="A setting or function changes it, or it is another engine. Open another connection.",
            )

    def tables(self) -> dict[str, BaseTable]:
        """Return the base tables, by their names in lower case."""
        return self._engine.tables(self._ask)

    def views(self) -> frozenset[str]:
        """Return the names of views."""
        return self._engine.views(self._ask)

    def run(self, sql: str, parameters: list[Any] | None = None) -> list[tuple[Any, ...]]:
        """Return all rows of compiled SQL, if the connection gave it the same meaning before and after."""
        self._check_meaning(self._settings)
        rows = self._ask(sql, parameters)
        self._engine.check_settings(self._ask)
        return rows

    def columns(self, sql: str, parameters: list[Any]) -> list[NDArray[np.int64]]:
        """Return the columns of compiled SQL whose entries are 64-bit integers, under the same condition."""
        self._check_meaning(self._settings)
        columns = self._read(self._engine.columns, sql, parameters)
        self._engine.check_settings(self._ask)
        return columns

    def _ask(self, sql: str, parameters: list[Any] | None = None) -> list[tuple[Any, ...]]:
        """Return all rows of SQL."""
        return self._read(self._engine.execute, sql, parameters or [])

    def _read(self, read: Callable[[str, list[Any]], Result], sql: str, parameters: list[Any]) -> Result:
        """Return a result of SQL; an error of the engine's, which may quote values, is not passed on."""
        self._engine.confirm_unchanged()
        if self._over:
            raise InvalidData("an error ended the snapshot: call refresh(), which reads the tables again")
        result = None
        with contextlib.suppress(Exception):
            result = read(sql, parameters)
        if result is None:
            # Its transaction has ended with it. Another one may see other data, which is for the user to begin.
            self._over = True
            raise InvalidData(
                f"{self.dialect.name} could not compute the query on these data; its message may show them, and is "
                "not shown"
            )
        return result

    def check_entries(self, table: BaseTable) -> None:
        """Refuse a table of text with an entry that is not of its declared type."""
        if table.name not in self._unreadable:
            self._unreadable[table.name] = self._engine.find_unreadable(table, self._ask)
        column = self._unreadable[table.name]
        if column:
            raise refuse_data(
                f"{table.name}.{column}",
                got="another one",
                allowed="have entries of its declared type only",
                remedy="Correct the file, declare another type, or set missing='drop': such entries are then missing.",
            )

    def size(self, table: BaseTable) -> int:
        """Return the number of rows of a table, which neighboring databases share."""
        key = table.name, ""
        if key not in self._known:
            self._known[key] = int(self.run(f"SELECT count(*) FROM {table.source}")[0][0])
        return self._known[key]

    def frequency(self, table: BaseTable, column: str) -> int:
        """Return the private frequency of the most frequent nonmissing value of a column."""
        key = table.name, column
        if key not in self._known:
            # Entries are equal here if they are equal to a join.
            entry = table.columns[fold(column)][1].entry.format(quoted(column))
            counts = f"SELECT count(*) AS n FROM {table.source} WHERE {entry} IS NOT NULL GROUP BY {entry}"
            self._known[key] = int(self.run(f"SELECT coalesce(max(n), 0) FROM ({counts}) AS q")[0][0])
        return self._known[key]
