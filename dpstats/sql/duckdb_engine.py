"""The engine of tables in DuckDB, and of files and data frames, which DuckDB reads in place."""

from __future__ import annotations

import contextlib
import csv
import gzip
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dpstats.data.duckdb_rows import check_duckdb, file_literal, overridden
from dpstats.data.labels import column_names
from dpstats.data.text import separator
from dpstats.data.words import number_sql
from dpstats.errors import InvalidData, InvalidParameter, is_public, refuse, show
from dpstats.sql.catalogue import BaseTable, ColumnType, fold, quoted
from dpstats.sql.dialect import DUCKDB

_NAMES = """
abs coalesce concat count count_star current_database current_schema current_setting duckdb_columns duckdb_functions
duckdb_tables duckdb_views greatest isnan least lower max md5 min mod round_even sign substr sum trim
~~ like like_escape + - * / // % = <> != < <= > >= and or not between in cast try_cast
"""
FUNCTIONS = frozenset(_NAMES.split())
"""Functions and operators of the compiled SQL. A macro with one of these names would change the results."""

_SCHEMA = """
SELECT database_name, schema_name, table_name, sql FROM system.main.duckdb_tables()
WHERE NOT internal AND NOT temporary AND database_name = current_database() AND schema_name = current_schema()
"""
_VIEWS = "SELECT view_name FROM system.main.duckdb_views() WHERE NOT internal"
_ELSEWHERE = """
SELECT table_name FROM system.main.duckdb_tables() WHERE NOT internal AND NOT temporary
AND NOT (database_name = system.main.current_database() AND schema_name = system.main.current_schema()) LIMIT 1
"""
_COLUMNS = """
SELECT table_name, column_name, data_type, is_nullable FROM system.main.duckdb_columns()
WHERE NOT internal AND database_name = current_database() AND schema_name = current_schema() ORDER BY column_index
"""

_WHOLE = [
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "HUGEINT",
    "UTINYINT",
    "USMALLINT",
    "UINTEGER",
    "UBIGINT",
]
_KINDS = {
    "FLOAT": "real",
    "DOUBLE": "real",
    "VARCHAR": "text",
    "BOOLEAN": "truth",
    "DATE": "date",
    "TIMESTAMP": "time",
    "UUID": "text",
} | dict.fromkeys(_WHOLE, "whole")
Listed = tuple[tuple[str, str], ...]
TYPES = ("BIGINT", "DOUBLE", "VARCHAR", "BOOLEAN", "DATE", "TIMESTAMP")
"""Allowed types of a column of a CSV file."""

Ask = Callable[[str], list[tuple[Any, ...]]]
"""SQL -> its rows, in the snapshot."""


class DuckDBEngine:
    """A second connection to the database of a connection, or to files.

    Parameters
    ----------
    data : DuckDB connection, or mapping of str to path or data frame
        The connection stays unchanged. CSV and Parquet files are read in place, and must not change. Data frames are
        copied.
    types : mapping of str to str
        Types of columns of CSV files, by "table.column": see `PrivateSQL`. Other columns are text.
    """

    dialect = DUCKDB
    lasting = True
    """A snapshot has no effect on others, and lasts until the next one begins."""

    def __init__(self, data: Any, types: Mapping[str, str]) -> None:
        self._files: dict[Path, tuple[int, ...]] = {}
        self._listed: dict[Path, Listed] = {}
        self._texts: set[str] = set()
        """CSV files, by their tables in lower case."""
        own = isinstance(data, Mapping)
        connection = self._of_files(data, _by_table(data, types)) if own else data
        if not hasattr(connection, "cursor") or not hasattr(connection, "register"):
            raise InvalidParameter(
                "connection must be a DuckDB or psycopg connection, a 'postgresql://' address, or a mapping of names "
                f"to CSV or Parquet files or data frames, got {type(data).__name__}"
            )
        self.cursor: Any = None
        with contextlib.suppress(Exception):
            self.cursor = connection.cursor()
        if self.cursor is None:
            raise InvalidParameter("connection must be open, got a closed one")
        self._follow(connection)
        self._owner = connection  # a database in memory lives as long as a connection to it
        self._views_are_tables = own

    def begin(self, names: Iterable[str]) -> None:
        """Begin a new transaction.

        It begins with the first look at what tables there are, which is here: DuckDB's own begins no sooner.
        """
        self._files = {path: _identity(path) for path in self._files}
        for path, listed in self._listed.items():
            if _columns_of_file(self._owner, path) != listed:
                raise InvalidData(f"{path.name} has other columns than it had: make a new PrivateSQL")
        with contextlib.suppress(Exception):  # no transaction is active, as at first
            self.cursor.rollback()
        self.cursor.begin()
        self.cursor.execute(_SCHEMA).fetchall()

    def end(self) -> None:
        """End what has to end after an answer: nothing."""

    def execute(self, sql: str, parameters: list[Any]) -> list[tuple[Any, ...]]:
        """Return all rows of a statement, or raise an error of any kind, which may quote values."""
        return list(self.cursor.execute(sql, parameters).fetchall())

    def confirm_unchanged(self) -> None:
        """Refuse files that have changed."""
        for path, identity in self._files.items():
            if _identity(path) != identity:
                raise InvalidData(f"{path.name} has changed since it was first read: call refresh()")

    def _follow(self, connection: Any) -> None:
        """Read the schema that the connection is in: a second connection does not begin there."""
        place = None
        with contextlib.suppress(Exception):
            place = connection.sql(
                "SELECT system.main.current_database(), system.main.current_schema()"
            ).fetchall()[0]
            self.cursor.execute(f"USE {'.'.join(map(quoted, place))}")
        # One with results that are not fetched cannot be asked, nor needs to be if all tables are where ours begins.
        if place is None and self.cursor.execute(_ELSEWHERE).fetchall():
            raise InvalidParameter(
                "connection must be free, to say which schema it is in: fetch its results, or end its transaction"
            )

    def check_functions(self, ask: Ask) -> None:
        """Refuse functions of the connection's own that would give our SQL another meaning."""
        name = overridden(ask, FUNCTIONS)
        if name is not None:
            raise InvalidParameter(
                "connection must have no macro of the name of a function that answers are computed with, and no Python "
                f"function of such a name, got {name!r}. Remove it, or open another connection."
            )

    def check_settings(self, ask: Ask) -> None:
        """Refuse settings under which our SQL means something else: they may change within a transaction."""
        (collation,) = ask("SELECT current_setting('default_collation')")[0]
        if collation:
            raise InvalidParameter(
                f"connection must have no default_collation, got {collation!r}: joins and counts "
                "would compare text differently. Reset it: RESET default_collation."
            )

    def _of_files(self, data: Mapping[str, Any], types: Mapping[str, dict[str, str]]) -> Any:
        duckdb = _duckdb()
        if not data:
            raise InvalidParameter("connection must have at least one table")
        connection = duckdb.connect(":memory:")
        paths: dict[str, Path] = {}
        known: dict[str, str] = {}
        for name, given in data.items():
            if not isinstance(name, str) or not name:
                raise InvalidParameter(f"connection must have tables by their names, got {show(data)}")
            if known.setdefault(fold(name), name) != name:
                raise InvalidParameter(
                    f"connection must have each name once, and names ignore case, got {known[fold(name)]!r} "
                    f"and {name!r}"
                )
            if isinstance(given, str | os.PathLike):
                paths[name] = Path(given).resolve()
                continue
            _check_names(f"table {name!r}", column_names(given) or ())
            if is_public(given):
                raise refuse("connection", given=data, allowed="a mapping of names to files and data frames")
            if not any(_copied(connection, name, frame) for frame in _forms(given)):
                raise InvalidData(f"table {name!r} must be a path or a data frame that DuckDB reads")
        for path in paths.values():
            if set(str(path)) & set("*?[]"):
                raise InvalidParameter(
                    f"{str(path)!r}: a path must not have *, ?, [ or ], which mean several files. Rename the file or "
                    "its folder."
                )
            self._files[path] = _identity(path)
        for name, path in paths.items():
            listed = _columns_of_file(connection, path)
            self._listed[path] = listed
            if not _is_parquet(path):
                self._texts.add(fold(name))
            read, made = _read(path, listed, types.get(fold(name), {})), False
            with contextlib.suppress(Exception):
                connection.execute(f"CREATE VIEW {quoted(name)} AS {read}")
                made = True
            if not made:
                raise _unreadable(path)
        # The only files that can be read from now on.
        allowed = ", ".join("'" + str(path).replace("'", "''") + "'" for path in self._files)
        connection.execute("SET python_enable_replacements = false")
        if self._files:
            connection.execute(f"SET allowed_paths = [{allowed}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        return connection

    def tables(self, ask: Ask) -> dict[str, BaseTable]:
        """Return the base tables, by their names in lower case."""
        found: dict[str, BaseTable] = {}
        texts = {(row[0], row[1], row[2]): row[3] for row in ask(_SCHEMA)}
        if self._views_are_tables:
            # Those over files, which are made above and nowhere else.
            current = ask("SELECT current_database(), current_schema()")[0]
            texts |= {(*current, name): "" for (name,) in ask(_VIEWS)}
        columns: dict[str, dict[str, tuple[str, ColumnType]]] = {}
        for table, column, kind, nullable in ask(_COLUMNS):
            found_type = column_type(kind, nullable)
            if fold(table) in self._texts:
                found_type = replace(found_type, undeclared=kind == "VARCHAR")
            columns.setdefault(table, {})[fold(column)] = (column, found_type)
        for (database, schema, name), text in texts.items():
            if "collate" in (text or "").lower():
                continue  # equal to DuckDB would not be equal to a join
            source = ".".join(map(quoted, (database, schema, name)))
            found[fold(name)] = BaseTable(name, source, columns.get(name, {}))
        return found

    def views(self, ask: Ask) -> frozenset[str]:
        """Return the names of views."""
        if self._views_are_tables:
            return frozenset()
        return frozenset(fold(name) for (name,) in ask(_VIEWS))


def column_type(name: str, nullable: bool = True) -> ColumnType:
    """Return the type of DuckDB's name for it."""
    kind = "real" if name.startswith("DECIMAL(") else "text" if name.startswith("ENUM(") else _KINDS.get(name)
    required = not nullable and name not in ("FLOAT", "DOUBLE")
    entry = "CAST({} AS VARCHAR)" if kind == "text" and name != "VARCHAR" else "{}"
    return ColumnType(name, kind or "other", required, entry)


def _by_table(data: Mapping[str, Any], types: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the declared types of CSV files, by table and column in lower case."""
    found: dict[str, dict[str, str]] = {}
    texts = [
        fold(name)
        for name, given in data.items()
        if isinstance(given, str | os.PathLike) and not _is_parquet(Path(given))
    ]
    for key, kind in types.items():
        places = [name for name in texts if fold(key).startswith(f"{name}.")]
        if len(places) != 1:
            raise InvalidParameter(
                f"types must name columns of CSV files as 'table.column', got {show(types)}"
            )
        if not isinstance(kind, str) or kind.upper() not in TYPES:
            raise InvalidParameter(f"types[{key!r}] must be one of {', '.join(TYPES)}, got {show(kind)}")
        found.setdefault(places[0], {})[fold(key)[len(places[0]) + 1 :]] = kind.upper()
    return found


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() in (".parquet", ".pq")


def _columns_of_file(connection: Any, path: Path) -> Listed:
    """Return the columns of a file: of Parquet with their types, of CSV the words of its first line."""
    found: Listed | None = None
    with contextlib.suppress(Exception):
        if _is_parquet(path):
            rows = connection.cursor().execute(f"DESCRIBE {_read(path, (), {})}").fetchall()
            # DuckDB renames a column with the name of another one.
            names = _names_of_parquet(connection, path)
            found = tuple((name, str(row[1])) for name, row in zip(names, rows, strict=True))
        else:
            opened = gzip.open if path.suffix.lower() == ".gz" else open
            # Accept invalid bytes in rows that are read together with the first line. DuckDB ignores them later.
            with opened(path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
                found = tuple((name, "") for name in next(csv.reader(file, delimiter=separator(path)), []))
    if not found or not all(name and "\0" not in name for name, _ in found):
        raise _unreadable(path)
    _check_names(path.name, [name for name, _ in found])
    return found


def _names_of_parquet(connection: Any, path: Path) -> list[str]:
    """Return the names of the columns of a Parquet file, as the file has them."""
    schema = f"SELECT name, coalesce(num_children, 0) FROM parquet_schema({file_literal(path)})"
    names, left = [], 0
    for name, children in connection.cursor().execute(schema).fetchall()[1:]:
        if not left:
            names.append(str(name))
        left = max(left - 1, 0) + int(children)  # parts of a nested column
    return names


def _check_names(where: str, names: Iterable[Any]) -> None:
    """Refuse columns that differ in case only: a query could not say which of them it means."""
    known: set[str] = set()
    for name in names:
        if fold(name) in known:
            raise InvalidData(
                f"{where}: two columns are named {str(name)!r} (names ignore case). Rename one."
            )
        known.add(fold(name))


def _read(path: Path, listed: Listed, types: Mapping[str, str]) -> str:
    """Return the SELECT of a file.

    No type is guessed from the rows of a CSV file, so that no row changes how others are read. An entry without the
    declared type is missing, and so are the absent entries of a short row. An entry is cast within an expression,
    because the cast of a bare column would move into the reader, which rejects invalid entries.
    """
    if _is_parquet(path):
        return f"SELECT * FROM read_parquet({file_literal(path)}, hive_partitioning=false)"
    unknown = types.keys() - {fold(name) for name, _ in listed}
    if unknown:
        raise InvalidParameter(f"types must name columns of {path.name}, got {sorted(unknown)[0]!r}")
    kinds = {name: types.get(fold(name), "VARCHAR") for name, _ in listed}
    each = ", ".join(f"{_entry_sql(quoted(name), kind)} AS {quoted(name)}" for name, kind in kinds.items())
    columns = ", ".join(f"{_text(name)}: 'VARCHAR'" for name in kinds)
    delimiter = "E'\\t'" if separator(path) == "\t" else "','"
    return (
        f"SELECT {each} FROM read_csv({file_literal(path)}, auto_detect=false, header=true, delim={delimiter}, "
        f"quote='\"', escape='\"', columns={{{columns}}}, null_padding=true, ignore_errors=true, strict_mode=false, "
        "parallel=false, hive_partitioning=false)"
    )


def _entry_sql(name: str, kind: str) -> str:
    """Return the SQL of an entry of a CSV file in the type of its column."""
    if kind == "DOUBLE":
        return number_sql(name, "NULL")
    return name if kind == "VARCHAR" else f"TRY_CAST(coalesce({name}, '') AS {kind})"


def _text(value: Any) -> str:
    return "'" + str(value).replace("'", "''") + "'"


def _unreadable(path: Path) -> InvalidData:
    return InvalidData(f"{path.name} is not a readable CSV or Parquet file with a header")


def _forms(given: Any) -> Iterator[Any]:
    """Yield a data frame unchanged, and as a pandas data frame, because DuckDB needs pyarrow for others."""
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
        # Convert categories of a data frame to text, because the type of an ENUM lists its values, and columns without
        # a value.
        listed = ", ".join(
            f"CAST({quoted(column)} AS VARCHAR) AS {quoted(column)}"
            if kind.startswith("ENUM") or kind == '"NULL"'
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
    raise InvalidData(f"{path.name} cannot be read ({reason})")


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise InvalidParameter("dpstats.sql needs DuckDB: pip install 'dpstats[sql]'") from None
    check_duckdb()
    return duckdb
