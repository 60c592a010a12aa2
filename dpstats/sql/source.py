"""The data: one snapshot of a database, asked in compiled SQL only. What it says of them is private.

Frequencies are of the same snapshot as answers, and are asked once for each column.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dpstats.errors import InvalidData, InvalidParameter
from dpstats.sql.catalogue import BaseTable, ColumnType, quoted
from dpstats.sql.compile import FUNCTIONS

_SCHEMA = """
SELECT database_name, schema_name, table_name, sql FROM system.main.duckdb_tables()
WHERE NOT internal AND NOT temporary AND database_name = current_database() AND schema_name = current_schema()
"""
_VIEWS = "SELECT view_name FROM system.main.duckdb_views() WHERE NOT internal"
# Whatever the search path: a macro of the connection's may have the name of a function, or of an operator.
_OWN_FUNCTIONS = (
    "SELECT DISTINCT lower(function_name) FROM system.main.duckdb_functions() WHERE internal IS FALSE"
)
_COLUMNS = """
SELECT table_name, column_name, data_type FROM system.main.duckdb_columns()
WHERE NOT internal AND database_name = current_database() AND schema_name = current_schema() ORDER BY column_index
"""


class Source:
    """A snapshot of the tables that a connection has, or of files.

    Parameters
    ----------
    data : DuckDB connection, or mapping of str to path or data frame
        The connection is left as it is: a second one reads, in a transaction that begins now. Files of CSV or Parquet
        are read in place, and must not change; data frames are copied.
    """

    def __init__(self, data: Any) -> None:
        self._files: dict[Path, tuple[int, ...]] = {}
        self._known: dict[tuple[str, str], int] = {}
        own = isinstance(data, Mapping)
        connection = self._of_files(data) if own else data
        if not hasattr(connection, "cursor") or not hasattr(connection, "register"):
            raise InvalidParameter(
                "connection must be a DuckDB connection, or a mapping of names to CSV or Parquet files or data frames, "
                f"got {type(data).__name__}"
            )
        self._cursor = connection.cursor()
        self._follow(connection)
        self._owner = connection  # a database in memory lives as long as a connection to it
        self._views_are_tables = own
        self._over = False
        self.refresh()

    def refresh(self) -> None:
        """Begin a new transaction, and forget what was known of the old one. Tables are to be read anew.

        It begins with the first look at what tables there are, which is here: DuckDB's own begins no sooner.
        """
        self._known.clear()
        self._files = {path: _identity(path) for path in self._files}
        with contextlib.suppress(Exception):  # no transaction is active, as at first
            self._cursor.rollback()
        self._cursor.begin()
        self._over = False
        self.run(_SCHEMA)
        self._check_functions()
        (collation,) = self.run("SELECT current_setting('default_collation')")[0]
        if collation:
            raise InvalidParameter(
                f"connection must have no default_collation, got {collation!r}: what is equal to a join "
                "would not be what is counted as equal"
            )

    def _follow(self, connection: Any) -> None:
        """Read the schema that the connection is in: a second connection does not begin there."""
        place = None
        with contextlib.suppress(Exception):
            place = connection.sql(
                "SELECT system.main.current_database(), system.main.current_schema()"
            ).fetchall()[0]
            self._cursor.execute(f"USE {'.'.join(map(quoted, place))}")
        if place is None:
            raise InvalidParameter(
                "connection must be free, to say which schema it is in: fetch its results, or end its transaction"
            )

    def _check_functions(self) -> None:
        """Refuse what would give our SQL another meaning."""
        own = {str(name) for (name,) in self.run(_OWN_FUNCTIONS)} & FUNCTIONS
        if own:
            raise InvalidParameter(
                f"connection must have no macro of the name of a function that answers are computed with, got "
                f"{sorted(own)[0]!r}"
            )

    def _of_files(self, data: Mapping[str, Any]) -> Any:
        duckdb = _duckdb()
        if not data:
            raise InvalidParameter("connection must have at least one table")
        connection = duckdb.connect(":memory:")
        paths: dict[str, Path] = {}
        for name, given in data.items():
            if not isinstance(name, str) or not name:
                raise InvalidParameter(f"connection must have tables by their names, got {name!r}")
            if isinstance(given, str | os.PathLike):
                paths[name] = Path(given).resolve()
                continue
            if not any(_copied(connection, name, frame) for frame in _forms(given)):
                raise InvalidData(f"table {name!r} must be a path or a data frame that DuckDB reads")
        for path in paths.values():
            self._files[path] = _identity(path)
        for name, path in paths.items():
            reader = "read_parquet" if path.suffix.lower() in (".parquet", ".pq") else "read_csv"
            text = str(path).replace("'", "''")
            made = False
            with contextlib.suppress(Exception):
                connection.execute(f"CREATE VIEW {quoted(name)} AS SELECT * FROM {reader}('{text}')")
                made = True
            if not made:
                raise InvalidData(f"{path.name} is not a readable CSV or Parquet file with a header")
        # The only files that can be read from now on.
        allowed = ", ".join("'" + str(path).replace("'", "''") + "'" for path in self._files)
        connection.execute("SET python_enable_replacements = false")
        if self._files:
            connection.execute(f"SET allowed_paths = [{allowed}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        return connection

    def tables(self) -> dict[str, BaseTable]:
        """Return the base tables, by their names in lower case."""
        found: dict[str, BaseTable] = {}
        texts = {(row[0], row[1], row[2]): row[3] for row in self.run(_SCHEMA)}
        if self._views_are_tables:
            # Those over files, which are made above and nowhere else.
            current = self.run("SELECT current_database(), current_schema()")[0]
            texts |= {(*current, name): "" for (name,) in self.run(_VIEWS)}
        columns: dict[str, dict[str, tuple[str, ColumnType]]] = {}
        for table, column, kind in self.run(_COLUMNS):
            columns.setdefault(table, {})[column.lower()] = (column, ColumnType.of(kind))
        for (database, schema, name), text in texts.items():
            if "collate" in (text or "").lower():
                continue  # equal to DuckDB would not be equal to a join
            source = ".".join(map(quoted, (database, schema, name)))
            found[name.lower()] = BaseTable(name, source, columns.get(name, {}))
        return found

    def views(self) -> frozenset[str]:
        """Return the names of what is no base table."""
        return (
            frozenset(name.lower() for (name,) in self.run(_VIEWS))
            if not self._views_are_tables
            else frozenset()
        )

    def run(self, sql: str, parameters: list[Any] | None = None) -> list[tuple[Any, ...]]:
        """Return all rows of compiled SQL; an error of DuckDB's, which may quote values, is not passed on."""
        for path, identity in self._files.items():
            if _identity(path) != identity:
                raise InvalidData(f"{path.name} has changed since it was first read: call refresh()")
        if self._over:
            raise InvalidData("an error ended the snapshot: call refresh(), which reads the tables anew")
        result = None
        with contextlib.suppress(Exception):
            result = self._cursor.execute(sql, parameters or []).fetchall()
        if result is None:
            # Its transaction has ended with it. Another one may see other data, which is for the user to begin.
            self._over = True
            raise InvalidData(
                "DuckDB could not compute the query on these data; its message may show them, and is not shown"
            )
        return list(result)

    def frequency(self, table: BaseTable, column: str) -> int:
        """Return how often the most frequent value of a column occurs, missing ones apart: private."""
        key = table.name, column
        if key not in self._known:
            name = quoted(column)
            counts = f"SELECT count(*) AS n FROM {table.source} WHERE {name} IS NOT NULL GROUP BY {name}"
            self._known[key] = int(self.run(f"SELECT coalesce(max(n), 0) FROM ({counts})")[0][0])
        return self._known[key]


def _forms(given: Any) -> Iterator[Any]:
    """Yield a data frame as it is, and as one of pandas': DuckDB needs pyarrow for others."""
    yield given
    with contextlib.suppress(Exception):
        import narwhals as nw
        import pandas as pd

        yield pd.DataFrame(nw.from_native(given).lazy().collect().to_dict(as_series=False))


def _copied(connection: Any, name: str, frame: Any) -> bool:
    """Return whether DuckDB made a table of a data frame."""
    with contextlib.suppress(Exception):
        given = f"dpstats frame of {name}"
        connection.register(given, frame)
        columns = connection.execute(f"DESCRIBE SELECT * FROM {quoted(given)}").fetchall()
        # Categories of a data frame are text: as a type, their values would be what there is to be seen of it.
        listed = ", ".join(
            f"CAST({quoted(column)} AS VARCHAR) AS {quoted(column)}"
            if kind.startswith("ENUM")
            else quoted(column)
            for column, kind, *_ in columns
        )
        connection.execute(f"CREATE TABLE {quoted(name)} AS SELECT {listed} FROM {quoted(given)}")
        connection.unregister(given)
        return True
    return False


def _identity(path: Path) -> tuple[int, ...]:
    reason = "is not there"
    try:
        found = os.stat(path)
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
    except OSError as error:
        reason = error.strerror or reason
    raise InvalidParameter(f"{path.name} cannot be read ({reason})")


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise InvalidParameter("dpstats.sql needs DuckDB: pip install 'dpstats[sql]'") from None
    return duckdb
