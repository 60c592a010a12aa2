"""The engines of tables: DuckDB, which reads files and data frames too, and Postgres."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.duckdb_rows import (
    add_libraries,
    check_duckdb,
    file_literal,
    is_parquet,
    overridden,
    text_literal,
    text_reader,
)
from dpstats.data.file_rows import FileRows, Found, check_same_columns
from dpstats.data.parameters import column_names
from dpstats.data.text import TextFile, of_text_file, separator
from dpstats.data.values import number_sql
from dpstats.errors import InvalidData, InvalidParameter, is_public, refuse, refuse_data
from dpstats.sql.catalogue import (
    DUCKDB,
    DUCKDB_TABLES,
    POSTGRES,
    WHOLE,
    Ask,
    BaseTable,
    ColumnType,
    Dialect,
    Listed,
    add_folders,
    check_different_names,
    copy_frame,
    file_identity,
    fold,
    found_files,
    frame_forms,
    parquet_source,
    postgres_type,
    quoted,
    table_label,
)

# DuckDB

_FUNCTION_NAMES = """
abs and between cast coalesce concat count count_star current_database current_schema current_setting duckdb_columns
duckdb_databases duckdb_functions duckdb_optimizers duckdb_tables duckdb_views greatest in isfinite least like
like_escape lower max md5 min mod not or substr sum trim try_cast ~~ + - * / // % = <> != < <= > >=
"""
FUNCTIONS = frozenset(_FUNCTION_NAMES.split())
"""Functions and operators of the compiled SQL. A macro with one of these names would change the results."""
_DUCKDB_TABLES = """
SELECT database_name, schema_name, table_name, sql FROM system.main.duckdb_tables()
WHERE NOT internal AND NOT temporary AND database_name = current_database() AND schema_name = current_schema()
"""
_DUCKDB_VIEWS = "SELECT view_name FROM system.main.duckdb_views() WHERE NOT internal"
# Without columns that are computed when they are read: this may raise an error, draw at random, or use other rows.
_DUCKDB_COLUMNS = """
SELECT table_name, column_name, data_type, is_nullable FROM system.main.duckdb_columns()
WHERE NOT internal AND NOT is_generated AND database_name = current_database() AND schema_name = current_schema()
ORDER BY column_index
"""
_TABLES_ELSEWHERE = """
SELECT table_name FROM system.main.duckdb_tables() WHERE NOT internal AND NOT temporary
AND NOT (database_name = system.main.current_database() AND schema_name = system.main.current_schema()) LIMIT 1
"""
_DATABASE_KIND = "SELECT type FROM system.main.duckdb_databases() WHERE database_name = system.main.current_database()"


class DuckDBEngine:
    """A second connection to the database of a connection, or to files.

    Parameters
    ----------
    data : DuckDB connection, or mapping of str to path or data frame
        The connection stays unchanged. Files must not change. Parquet is read in place, and so is delimited text in
        which DuckDB and `dpstats.data.text` find the same records. Other text and data frames are copied.
    types : mapping of str to str
        Types of columns of CSV files, by "table.column": see `PrivateSQL`. Other columns are text.
    """

    lasting = True
    """A snapshot has no effect on others, and lasts until the next one begins."""

    def __init__(self, data: Any, types: Mapping[str, str]) -> None:
        own = isinstance(data, Mapping)
        self.dialect = DUCKDB if own else DUCKDB_TABLES
        self._files: dict[Path, tuple[int, ...]] = {}
        self._given: dict[str, Any] = {}
        self._found: dict[str, list[Found]] = {}
        self._listed: dict[str, Listed] = {}
        self._texts: dict[str, tuple[str, dict[str, str], frozenset[str]]] = {}
        """By the tables in lower case: the SQL of entries of text, of those that are unreadable, and the columns."""
        self._types = _by_table(data, types) if own else {}
        connection = self._of_files(data) if own else data
        if not hasattr(connection, "cursor") or not hasattr(connection, "register"):
            raise refuse(
                "connection",
                got=type(data).__name__,
                allowed="a DuckDB or psycopg connection, a 'postgresql://' address, or a mapping of names to CSV or "
                "Parquet files or data frames",
                remedy="Give a table a name: PrivateSQL({'visits': table}, ...).",
            )
        _duckdb()
        self.cursor: Any = None
        with contextlib.suppress(Exception):
            self.cursor = connection.cursor()
        if self.cursor is None:
            raise refuse("connection", got="a closed one", allowed="open")
        self._follow(connection)
        self._owner = connection  # a database in memory lives as long as a connection to it
        self._views_are_tables = own

    def _follow(self, connection: Any) -> None:
        """Read the schema that the connection is in: a second connection does not begin there."""
        place = None
        with contextlib.suppress(Exception):
            place = connection.sql("SELECT system.main.current_database(), system.main.current_schema()").fetchall()[0]
            self.cursor.execute(f"USE {'.'.join(map(quoted, place))}")
        ((kind,),) = self.cursor.execute(_DATABASE_KIND).fetchall()
        if kind != "duckdb":
            raise refuse(
                "connection",
                got=f"one of {kind}, which is attached",
                allowed="be to a database of DuckDB",
                remedy="Its own rules and statistics would decide which rows are read. Copy its tables with CREATE "
                "TABLE.",
            )
        # One with results that are not fetched cannot be asked, nor needs to be if all tables are where ours begins.
        if place is None and self.cursor.execute(_TABLES_ELSEWHERE).fetchall():
            raise _busy()

    # Snapshots

    def begin(self, names: Iterable[str]) -> None:
        """Begin a new transaction.

        It begins with the first look at what tables there are, which is here: DuckDB's own begins no sooner.
        """
        before, self._files = self._files, {path: file_identity(path) for path in self._files}
        for name, found in self._found.items():
            listed, label = self._listed[name], table_label(self._given[name])
            remedy = "Make a new PrivateSQL."
            if found_files(self._given[name]) != found:
                raise refuse_data(label, allowed="have the files that it had", remedy=remedy)
            if any(self._files[path] != before[path] for path, _ in found if isinstance(path, Path)):
                self._open(self._owner, name, found)
            if self._listed[name] != listed:
                raise refuse_data(label, allowed="have the columns that it had", remedy=remedy)
        with contextlib.suppress(Exception):  # no transaction is active, as at first
            self.cursor.rollback()
        self.cursor.begin()
        self.cursor.execute(_DUCKDB_TABLES).fetchall()

    def end(self) -> None:
        """End what has to end after an answer: nothing."""

    def confirm_unchanged(self) -> None:
        """Refuse files that have changed."""
        for path, identity in self._files.items():
            if file_identity(path) != identity:
                allowed = "not have changed since it was first read"
                raise refuse_data(path.name, allowed=allowed, remedy="Call refresh().")

    # Queries

    def execute(self, sql: str, parameters: list[Any]) -> list[tuple[Any, ...]]:
        """Return all rows of a statement, or raise an error of any kind, which may quote values."""
        return list(self.cursor.execute(sql, parameters).fetchall())

    def columns(self, sql: str, parameters: list[Any]) -> list[NDArray[np.int64]]:
        """Return the columns of a statement, whose entries are 64-bit integers, or raise an error of any kind."""
        found = self.cursor.execute(sql, parameters).fetchnumpy()
        return [np.asarray(column, dtype=np.int64) for column in found.values()]

    def check_functions(self, ask: Ask) -> None:
        """Refuse functions of the connection's own that would give our SQL another meaning."""
        name = overridden(ask, FUNCTIONS)
        if name is not None:
            raise refuse(
                "connection",
                given=name,
                allowed="have no macro or Python function of the name of a function that answers are computed with",
                remedy="Remove it, or open another connection.",
            )

    def check_settings(self, ask: Ask) -> None:
        """Refuse settings under which our SQL means something else: they may change within a transaction."""
        (collation,) = ask(f"SELECT {DUCKDB.collation}")[0]
        if collation:
            raise refuse(
                "connection",
                given=collation,
                allowed="have no default_collation",
                remedy="Joins and counts would compare text differently. Reset it: RESET default_collation.",
            )

    def tables(self, ask: Ask) -> dict[str, BaseTable]:
        """Return the base tables, by their names in lower case."""
        found: dict[str, BaseTable] = {}
        texts = {(row[0], row[1], row[2]): row[3] for row in ask(_DUCKDB_TABLES)}
        if self._views_are_tables:
            # Those over files, which are made above and nowhere else.
            current = ask("SELECT current_database(), current_schema()")[0]
            texts |= {(*current, name): "" for (name,) in ask(_DUCKDB_VIEWS)}
        columns: dict[str, dict[str, tuple[str, ColumnType]]] = {}
        for table, column, kind, nullable in ask(_DUCKDB_COLUMNS):
            found_type = duckdb_type(kind, nullable, self.dialect)
            if fold(column) in self._texts.get(fold(table), ("", {}, frozenset()))[2]:
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
        return frozenset(fold(name) for (name,) in ask(_DUCKDB_VIEWS))

    def find_unreadable(self, table: BaseTable, ask: Ask) -> str:
        """Return a column that has an entry which is not of its declared type, or an empty word."""
        source, unreadable, _ = self._texts.get(fold(table.name), ("", {}, frozenset()))
        if not unreadable:
            return ""
        counts = ", ".join(f"count(*) FILTER (WHERE {wrong})" for wrong in unreadable.values())
        (found,) = ask(f"SELECT {counts} FROM {source}")
        return next((column for column, count in zip(unreadable, found, strict=True) if count), "")

    # Files and data frames

    def _of_files(self, data: Mapping[str, Any]) -> Any:
        duckdb = _duckdb()
        if not data:
            raise refuse("connection", allowed="have at least one table")
        # The type of a column of Python objects is text. DuckDB would guess one from some of the rows.
        connection = duckdb.connect(":memory:", config={"pandas_analyze_sample": 0})
        keep_safe_rules(connection)
        connection.execute("CREATE SCHEMA texts")
        known: dict[str, str] = {}
        for name, given in data.items():
            if not isinstance(name, str) or not name:
                raise refuse("connection", given=data, allowed="have tables by their names")
            if known.setdefault(fold(name), name) != name:
                raise refuse(
                    "connection",
                    got=f"{known[fold(name)]!r} and {name!r}",
                    allowed="have names that differ in more than case",
                )
            if isinstance(given, str | os.PathLike | FileRows):
                self._given[name], self._found[name] = given, found_files(given)
                continue
            check_different_names(f"table {name!r}", column_names(given) or ())
            if is_public(given):
                raise refuse("connection", given=data, allowed="a mapping of names to files and data frames")
            self._copy(connection, name, given)
        every = [path for found in self._found.values() for path, _ in found]
        self._files = {path: file_identity(path) for path in every if isinstance(path, Path)}
        add_libraries(connection, every)
        for name, found in self._found.items():
            self._open(connection, name, found)
        if any(map(is_parquet, every)):
            check_reading(connection)
        # The only files that can be read from now on, by their names and as patterns of DuckDB.
        allowed = {word for path in self._files for word in (text_literal(str(path)), file_literal(path))}
        connection.execute("SET python_enable_replacements = false")
        if self._files:
            connection.execute(f"SET allowed_paths = [{', '.join(sorted(allowed))}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        return connection

    def _copy(self, connection: Any, name: str, given: Any) -> None:
        """Make the table of a data frame, with the declared types of its columns of text."""
        copy = f"texts.{quoted(name)}"
        for frame in frame_forms(given):
            kinds = copy_frame(connection, copy, frame)
            if kinds is not None:
                texts = [column for column, kind in kinds.items() if kind == "VARCHAR"]
                selected = self._declare(f"table {name!r}", name, copy, list(kinds), texts)
                made = "VIEW" if self._types.get(fold(name)) else "TABLE"
                connection.execute(f"CREATE {made} {quoted(name)} AS {selected}")
                return
        raise refuse_data(f"table {name!r}", allowed="a path or a data frame that DuckDB reads")

    def _open(self, connection: Any, name: str, found: list[Found]) -> None:
        """Make the view of files, or the table of files at addresses, which cannot be read later."""
        made, refused, label = False, "", table_label(self._given[name])
        try:
            columns, texts, source = self._read(connection, name, found)
            check_different_names(label, [column for column, _ in columns])
            self._listed[name] = columns
            selected = f"SELECT * FROM {source}"
            if texts:
                selected = self._declare(label, name, source, [column for column, _ in columns], texts)
            kind = "VIEW" if all(isinstance(path, Path) for path, _ in found) else "TABLE"
            connection.execute(f"CREATE OR REPLACE {kind} {quoted(name)} AS {selected}")
            made = True
        except InvalidData as error:
            refused = str(error).replace(f"X ({label})", label)
        except InvalidParameter:
            raise
        except Exception:  # its message may quote data
            made = False
        if refused:
            raise InvalidData(refused)
        if not made:
            raise refuse_data(
                label, allowed="a readable CSV or Parquet file with a header", remedy="Open it with DuckDB."
            )

    def _read(self, connection: Any, name: str, found: list[Found]) -> tuple[Listed, list[str], str]:
        """Return the columns of files, those that are text without a declared type, and the SQL of the table."""
        folders = found[0].folders
        if is_parquet(found[0].path):
            listed, source = parquet_source(connection, found)
            return (*listed, *((column, "") for column in folders)), list(folders), source
        headers, sources = [], []
        for place, (path, words) in enumerate(found):
            file = of_text_file(path)
            headers.append((path.name, file.header, words))
            table = name if len(found) == 1 else f"{name}, {place}"
            sources.append(add_folders(self._text_source(connection, table, file), file.header, words))
        columns = check_same_columns(headers)
        return tuple((column, "") for column in columns), columns, f"({' UNION ALL '.join(sources)})"

    def _text_source(self, connection: Any, table: str, file: TextFile) -> str:
        """Return the SQL of the table of a text file. `dpstats.data.text` defines its rows.

        No type is guessed from the rows, so that no row changes how others are read. An empty word is missing.
        """
        seen, source = file.scan(), f"texts.{quoted(table)}"
        connection.execute(f"DROP TABLE IF EXISTS {source}")
        if seen.plain and isinstance(file.path, Path):
            source = text_reader(file.path, file.header, separator(file.path), seen)
        else:
            connection.register("words of a file", file.words())
            words = ", ".join(f"CAST({quoted(column)} AS VARCHAR) AS {quoted(column)}" for column in file.header)
            connection.execute(f'CREATE TABLE {source} AS SELECT {words} FROM "words of a file"')
            connection.unregister("words of a file")
        words = ", ".join(f"nullif({quoted(column)}, '') AS {quoted(column)}" for column in file.header)
        return f"(SELECT {words} FROM {source})"

    def _declare(self, where: str, name: str, source: str, columns: list[str], texts: list[str]) -> str:
        """Return the SELECT of a table in which columns of text have their declared types."""
        types = self._types.get(fold(name), {})
        unknown = types.keys() - set(map(fold, texts))
        if unknown:
            raise refuse("types", given=sorted(unknown)[0], allowed=f"name columns of text of {where}")
        listed, unreadable = [], {}
        for column in columns:
            entry, wrong = quoted(column), ""
            if fold(column) in types:
                entry, wrong = _entry_sql(quoted(column), types[fold(column)])
            listed.append(f"{entry} AS {quoted(column)}")
            if wrong:
                unreadable[column] = wrong
        self._texts[fold(name)] = source, unreadable, frozenset(map(fold, texts))
        return f"SELECT {', '.join(listed)} FROM {source}"


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise InvalidParameter("dpstats.sql needs DuckDB: pip install 'dpstats[sql]'") from None
    check_duckdb()
    return duckdb


# Types in DuckDB

TYPES = ("BIGINT", "DOUBLE", "VARCHAR", "BOOLEAN", "DATE", "TIMESTAMP")
"""Allowed types of a column of a CSV file."""


def _by_table(data: Mapping[str, Any], types: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the declared types of text, by table and column in lower case."""
    found: dict[str, dict[str, str]] = {}
    texts = [fold(name) for name, given in data.items() if not _is_one_parquet(given)]
    for key, kind in types.items():
        places = [name for name in texts if fold(key).startswith(f"{name}.")]
        if len(places) != 1:
            raise refuse("types", given=types, allowed="name columns of CSV files or data frames as 'table.column'")
        if not isinstance(kind, str) or kind.upper() not in TYPES:
            raise refuse(f"types[{key!r}]", given=kind, allowed=f"one of {', '.join(TYPES)}")
        found.setdefault(places[0], {})[fold(key)[len(places[0]) + 1 :]] = kind.upper()
    return found


def _is_one_parquet(given: Any) -> bool:
    return isinstance(given, str | os.PathLike) and is_parquet(Path(given)) and not Path(given).is_dir()


def _entry_sql(name: str, kind: str) -> tuple[str, str]:
    """Return the SQL of an entry of text in a declared type, and of whether it is unreadable. A missing one is NULL.

    Words are numbers, truth values or missing by the rule of `dpstats.data.values`. A whole number is one by its
    decimals, which no double rounds.
    """
    if kind == "VARCHAR":
        return name, ""
    word, number = f"coalesce({name}, '')", number_sql(name, "NULL")
    value = number
    if kind == "BIGINT":
        plain = f"TRY_CAST({word} AS BIGINT)"
        decimal = f"coalesce(TRY_CAST({word} AS DECIMAL(38, 18)), TRY_CAST({number} AS DECIMAL(38, 18)))"
        value = (
            f"CASE WHEN CAST({plain} AS VARCHAR) = {word} THEN {plain} "
            f"WHEN {number} = floor({number}) AND {decimal} = floor({decimal}) THEN TRY_CAST({decimal} AS BIGINT) END"
        )
    elif kind == "BOOLEAN":
        value = f"CASE WHEN {number} = 1 THEN TRUE WHEN {number} = 0 THEN FALSE END"
    elif kind != "DOUBLE":
        # A date has no time of day, and neither is infinite.
        value, instant = f"TRY_CAST({word} AS {kind})", f"TRY_CAST({word} AS TIMESTAMP)"
        value = f"CASE WHEN isfinite({instant}) AND {value} = {instant} THEN {value} END"
    # A missing word is NULL in the second part, and text without a number is 0.
    return value, f"({value}) IS NULL AND isfinite({number_sql(name, '0.0')})"


_TEXT_AS_NUMBERS = _entry_sql("{0}", "BIGINT")[0], _entry_sql("{0}", "DOUBLE")[0]
"""SQL of an entry of text as a number, for declared values that are numbers."""
_DUCKDB_KINDS = {
    "FLOAT": "real",
    "DOUBLE": "real",
    "VARCHAR": "text",
    "BOOLEAN": "truth",
    "DATE": "date",
    "TIMESTAMP": "time",
    "UUID": "text",
} | dict.fromkeys(WHOLE, "whole")


def duckdb_type(name: str, nullable: bool = True, dialect: Dialect = DUCKDB) -> ColumnType:
    """Return the type of DuckDB's name for it."""
    kind = "real" if name.startswith("DECIMAL(") else "text" if name.startswith("ENUM(") else _DUCKDB_KINDS.get(name)
    entry, required = "{}", not nullable
    if kind == "text" and name != "VARCHAR":
        entry = "CAST({} AS VARCHAR)"
    if name in ("FLOAT", "DOUBLE"):
        entry, required = dialect.only_finite("{0}"), False
    numbers = _TEXT_AS_NUMBERS if kind == "text" else ("", "")
    return ColumnType(name, kind or "other", required, entry, numbers=numbers)


# The optimizer of DuckDB: some rules believe the statistics of a file

_SAFE_OPTIMIZER_RULES = frozenset(
    [
        "build_side_probe_side",
        "column_lifetime",
        "common_aggregate",
        "common_subexpressions",
        "cte_inlining",
        "expression_rewriter",
        "join_order",
        "materialized_cte",
        "reorder_filter",
        "unused_columns",
    ]
)
"""Rules that rewrite expressions, leave out columns that nobody uses, and order the work.

Statistics decide at most the order of joins, and sums of integers are the same in any order.
"""


def keep_safe_rules(connection: Any) -> None:
    """Switch off all rules of the optimizer but those whose results no statistics can change.

    A file states the least and the greatest entry of its columns. NaN is not among them, and some writers
    cut or order text otherwise than DuckDB. Rules that believe it leave out rows, so that one row of a file can hide
    others. Conditions are not moved into the reader of a file either, which skips parts of it.
    """
    rules = connection.execute("SELECT name FROM system.main.duckdb_optimizers()").fetchall()
    off = sorted({name for (name,) in rules} - _SAFE_OPTIMIZER_RULES)
    connection.execute(f"SET disabled_optimizers = '{','.join(off)}'")


_FALSE_STATISTICS = Path(__file__).with_name("statistics.parquet")
"""A file with false statistics, which tests/sql/statistics_file.py makes."""


def check_reading(connection: Any) -> None:
    """Refuse a DuckDB that believes the statistics of a file, by a file of this package with false statistics.

    A part of it has NaN, infinity, and entries beyond those
    that it states as its greatest.
    """
    read = f"read_parquet({file_literal(_FALSE_STATISTICS)})"
    x, y = (DUCKDB.only_finite(name) for name in "xy")
    checks = {
        f"SELECT count(*), count({x}), count({y}), sum(n) FROM {read}": [(8, 5, 5, 1975308656)],
        f"SELECT count(*) FROM {read} WHERE {x} > 19.5": [(4,)],
        f"SELECT count(*) FROM {read} WHERE {x} > 20.5 OR NOT {x} <= 20.5": [(0,)],
        f"SELECT count(*) FROM {read} WHERE {x} IS NULL": [(3,)],
        f"SELECT count(*) FROM {read} WHERE x > 19.5 AND {DUCKDB.is_finite('x')}": [(4,)],
        f"SELECT count(*) FROM {read} WHERE y > -3 AND {DUCKDB.is_finite('y')}": [(5,)],
        f"SELECT count(*) FROM {read} WHERE abs({y}) > 3": [(0,)],
        f"SELECT count(*) FROM {read} WHERE n > 4": [(2,)],
        f"SELECT count(*) FROM {read} WHERE s > 'b'": [(2,)],
        f"SELECT count(*) FROM (SELECT n, count(*) FROM {read} GROUP BY n) AS q": [(6,)],
        f"SELECT count(*) FROM {read} AS a JOIN (SELECT n FROM {read} WHERE n > 4) AS b ON a.n = b.n": [(4,)],
    }
    for sql, expected in checks.items():
        found = None
        with contextlib.suppress(Exception):
            found = connection.execute(sql).fetchall()
        if found != expected:
            raise refuse(
                "connection",
                got="one that leaves out rows by the statistics of the file",
                allowed="be to a DuckDB that reads every row of a Parquet file",
                remedy="Read the file into a data frame, or install another version.",
            )


# Postgres


def is_postgres(data: Any) -> bool:
    """Return whether tables are given as a connection of psycopg, or as its address."""
    if isinstance(data, str):
        return data.startswith(("postgresql://", "postgres://"))
    return type(data).__module__.partition(".")[0] == "psycopg"


# Rows of a partition or of an inheriting table are rows of its parent, too: a query may use the root of partitions, and
# no table that inherits otherwise. Policies may hide rows by other rows, as views do.
_POSTGRES_TABLES = """
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't'
AND NOT EXISTS (SELECT 1 FROM pg_inherits i WHERE i.inhrelid = c.oid)
AND (c.relkind = 'p' OR NOT EXISTS (SELECT 1 FROM pg_inherits i WHERE i.inhparent = c.oid))
AND NOT EXISTS (
    SELECT 1 FROM pg_partition_tree(c.oid) t JOIN pg_class p ON p.oid = t.relid WHERE p.relkind NOT IN ('r', 'p')
)
AND has_table_privilege(c.oid, 'SELECT') AND NOT row_security_active(c.oid)
"""
_POSTGRES_VIEWS = """
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relkind IN ('v', 'm', 'f')
"""
# A domain has its base type. Types with functions of users are left out, and columns that are computed when they are
# read, as this may raise an error.
_POSTGRES_COLUMNS = """
SELECT c.relname, a.attname, e.typtype = 'e',
    format_type(e.oid, CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END),
    a.attnotnull AND NOT EXISTS (
        SELECT 1 FROM pg_constraint k
        WHERE k.conrelid = c.oid AND k.contype = 'n' AND NOT k.convalidated AND a.attnum = ANY (k.conkey)
    )
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
JOIN pg_type t ON t.oid = a.atttypid
JOIN pg_type e ON e.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
JOIN pg_namespace o ON o.oid = e.typnamespace
WHERE n.nspname = $1 AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated <> 'v' AND (
    o.nspname = 'pg_catalog'
    OR e.typtype = 'e' AND NOT EXISTS (SELECT 1 FROM pg_cast s WHERE s.castsource = e.oid)
)
ORDER BY c.relname, a.attnum
"""
_OLDEST_SERVER = 120000
_BEGIN = """
BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY;
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL row_security = off;
SET LOCAL standard_conforming_strings = on;
SET LOCAL extra_float_digits = 1;
SET LOCAL datestyle = 'ISO, YMD';
"""


class PostgresEngine:
    """A second connection to the database of a connection, or one to an address, with a transaction for each answer.

    A transaction is read-only, reads one snapshot (REPEATABLE READ), and locks the tables of the query first, so that
    their definitions stay. Only pg_catalog is searched for functions and types.

    Parameters
    ----------
    data : psycopg.Connection or str
        The connection stays unchanged. Its uncommitted changes are not visible.
    """

    dialect = POSTGRES
    lasting = False
    """A snapshot keeps old rows and locks from others, and ends after each answer."""

    def __init__(self, data: Any) -> None:
        self._psycopg = _import_psycopg()
        self._place, self._schema = data, ""
        if not isinstance(data, str):
            if not isinstance(data, self._psycopg.Connection):
                raise refuse(
                    "connection", got=type(data).__name__, allowed="a psycopg.Connection that is not asynchronous"
                )
            self._place = self._psycopg.conninfo.make_conninfo(data.info.dsn, password=data.info.password or None)
            self._schema = _current_schema(data)
        self._connection: Any = None
        self._connect()
        if isinstance(data, str):
            self._schema = _current_schema(self._connection)
        if not self._schema:
            raise refuse("connection", allowed="have a schema", remedy="Set its search_path.")

    def _connect(self) -> None:
        """Open the connection."""
        made = None
        with contextlib.suppress(Exception):
            made = self._psycopg.connect(
                self._place,
                autocommit=True,
                cursor_factory=self._psycopg.RawCursor,
                prepare_threshold=None,
                client_encoding="utf8",
                application_name="dpstats",
            )
        if made is None:
            raise refuse(
                "connection",
                got="no connection",
                allowed="be to a Postgres server that accepts another connection",
                remedy="Check the address, the password and the server with psycopg.connect.",
            )
        self._connection = made
        weakref.finalize(self, made.close)
        if made.info.server_version < _OLDEST_SERVER:
            raise refuse("connection", allowed="be to Postgres 12 or newer", remedy="The server is older.")
        encoding = made.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            raise refuse("connection", got=encoding, allowed="be to a database of the encoding UTF8")

    def begin(self, names: Iterable[str]) -> None:
        """Begin a new transaction, lock the tables, and read the snapshot from then on."""
        self.end()
        if self._connection.closed:
            self._connect()
        self._connection.execute(_BEGIN)
        locked = ", ".join(names)
        if locked:
            # Before the snapshot, which begins with the first SELECT.
            self._connection.execute(f"LOCK TABLE {locked} IN ACCESS SHARE MODE")

    def end(self) -> None:
        """End the transaction."""
        ended = False
        with contextlib.suppress(Exception):
            self._connection.execute("ROLLBACK")
            ended = True
        if not ended:
            self._connection.close()

    def execute(self, sql: str, parameters: list[Any]) -> list[tuple[Any, ...]]:
        """Return all rows of a statement, or raise an error of any kind, which may quote values."""
        return list(self._connection.execute(sql, parameters).fetchall())

    def columns(self, sql: str, parameters: list[Any]) -> list[NDArray[np.int64]]:
        """Return the columns of a statement, whose entries are 64-bit integers, or raise an error of any kind."""
        found = self._connection.execute(sql, parameters)
        return list(np.array(found.fetchall(), dtype=np.int64).reshape(-1, len(found.description)).T)

    def confirm_unchanged(self) -> None:
        """Refuse files that have changed: there are none."""

    def check_functions(self, ask: Ask) -> None:
        """Refuse functions that override ours: there are none, as only pg_catalog is searched."""

    def check_settings(self, ask: Ask) -> None:
        """Refuse settings that change the meaning of SQL: there are none, as each transaction begins with ours."""

    def find_unreadable(self, table: BaseTable, ask: Ask) -> str:
        """Return a column with an entry of another type than the declared one: there is none."""
        return ""

    def tables(self, ask: Ask) -> dict[str, BaseTable]:
        """Return the base tables of the schema, by their names in lower case.

        Names that differ in case only are left out.
        """
        columns: dict[str, list[tuple[str, ColumnType]]] = {}
        for table, column, is_enum, kind, required in ask(_POSTGRES_COLUMNS, [self._schema]):
            columns.setdefault(table, []).append((column, postgres_type("text" if is_enum else kind, required)))
        found = {}
        for name in _distinct(name for (name,) in ask(_POSTGRES_TABLES, [self._schema])):
            own = dict(columns.get(name, []))
            kinds = {fold(column): (column, own[column]) for column in _distinct(own)}
            found[fold(name)] = BaseTable(name, f"{quoted(self._schema)}.{quoted(name)}", kinds)
        return found

    def views(self, ask: Ask) -> frozenset[str]:
        """Return the names of views and foreign tables."""
        return frozenset(fold(name) for (name,) in ask(_POSTGRES_VIEWS, [self._schema]))


def _import_psycopg() -> Any:
    try:
        import psycopg
    except ImportError:
        raise InvalidParameter("Postgres needs psycopg: pip install 'dpstats[postgres]'") from None
    return psycopg


def _current_schema(connection: Any) -> str:
    """Return the current schema of a connection. Its transaction does not change."""
    from psycopg.pq import TransactionStatus

    status, found = connection.info.transaction_status, None
    if status in (TransactionStatus.IDLE, TransactionStatus.INTRANS):
        with contextlib.suppress(Exception), connection.cursor() as cursor:
            found = cursor.execute("SELECT pg_catalog.current_schema()").fetchone()
        if status == TransactionStatus.IDLE and not connection.autocommit:
            connection.rollback()
    if found is None:
        raise _busy()
    return str(next(iter(found.values() if isinstance(found, dict) else found)) or "")


def _busy() -> InvalidParameter:
    """Return the error of a connection that cannot be asked which schema it is in."""
    remedy = "Fetch its results, or end its transaction."
    return refuse("connection", allowed="free, to say which schema it is in", remedy=remedy)


def _distinct(names: Iterable[str]) -> list[str]:
    """Return the names that no other one equals but for case."""
    listed = list(names)
    counts = Counter(fold(name) for name in listed)
    return [name for name in listed if counts[fold(name)] == 1]
