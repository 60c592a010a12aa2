"""The engine of tables in Postgres: a second connection, and one transaction for each answer.

A transaction is read-only, reads one snapshot (REPEATABLE READ), and locks the tables of the query first, so that their
definitions stay. Only pg_catalog is searched for functions and types.
"""

from __future__ import annotations

import contextlib
import re
import weakref
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import InvalidParameter, refuse
from dpstats.sql.catalogue import BaseTable, ColumnType, fold, quoted
from dpstats.sql.dialect import POSTGRES, Ask

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
_DOUBLE = POSTGRES.only_finite("CAST({0} AS double precision)")
# NaN, infinity and a number beyond doubles, which a conversion would refuse, are missing. A number that is too small
# for doubles is 0.
_NUMERIC = (
    "(CASE WHEN abs({0}) < 1e-307 THEN CAST(0 AS double precision) "
    "WHEN abs({0}) <= 1.7976931348623157e308 THEN CAST({0} AS double precision) END)"
)
_POSTGRES_TYPES = (
    dict.fromkeys(("smallint", "integer", "bigint"), ("BIGINT", "whole", "{}"))
    | dict.fromkeys(("real", "double precision"), ("DOUBLE", "real", _DOUBLE))
    | dict.fromkeys(
        ("text", "character varying", "character", "uuid"), ("VARCHAR", "text", POSTGRES.bytewise)
    )
    | {
        "numeric": ("DOUBLE", "real", _NUMERIC),
        "boolean": ("BOOLEAN", "truth", "{}"),
        "date": ("DATE", "date", "{}"),
        "timestamp without time zone": ("TIMESTAMP", "time", "{}"),
    }
)
"""Our type and kind of a type of Postgres, and the SQL of its entries."""
_OLDEST = 120000
_BEGIN = """
BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY;
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL row_security = off;
SET LOCAL standard_conforming_strings = on;
SET LOCAL extra_float_digits = 1;
SET LOCAL datestyle = 'ISO, YMD';
"""


def is_postgres(data: Any) -> bool:
    """Return whether tables are given as a connection of psycopg, or as its address."""
    if isinstance(data, str):
        return data.startswith(("postgresql://", "postgres://"))
    return type(data).__module__.partition(".")[0] == "psycopg"


class PostgresEngine:
    """A connection to the database of another one, or of an address.

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
                    "connection",
                    got=type(data).__name__,
                    allowed="a psycopg.Connection that is not asynchronous",
                )
            self._place = self._psycopg.conninfo.make_conninfo(
                data.info.dsn, password=data.info.password or None
            )
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
        if made.info.server_version < _OLDEST:
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
            columns.setdefault(table, []).append(
                (column, postgres_type("text" if is_enum else kind, required))
            )
        found = {}
        for name in _distinct(name for (name,) in ask(_POSTGRES_TABLES, [self._schema])):
            own = dict(columns.get(name, []))
            kinds = {fold(column): (column, own[column]) for column in _distinct(own)}
            found[fold(name)] = BaseTable(name, f"{quoted(self._schema)}.{quoted(name)}", kinds)
        return found

    def views(self, ask: Ask) -> frozenset[str]:
        """Return the names of views and foreign tables."""
        return frozenset(fold(name) for (name,) in ask(_POSTGRES_VIEWS, [self._schema]))


def postgres_type(name: str, required: bool = False) -> ColumnType:
    """Return the type of Postgres's name for it."""
    plain = re.sub(r"\([\d,-]+\)", "", name)
    known = _POSTGRES_TYPES.get(plain)
    if known is None:
        return ColumnType(name, "other", required)
    ours, kind, entry = known
    return ColumnType(ours, kind, required and kind != "real", entry)


def _distinct(names: Iterable[str]) -> list[str]:
    """Return the names that no other one equals but for case."""
    listed = list(names)
    counts = Counter(fold(name) for name in listed)
    return [name for name in listed if counts[fold(name)] == 1]


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
        raise refuse(
            "connection",
            allowed="free, to say which schema it is in",
            remedy="Fetch its results, or end its transaction.",
        )
    return str(next(iter(found.values() if isinstance(found, dict) else found)) or "")


def _import_psycopg() -> Any:
    try:
        import psycopg
    except ImportError:
        raise InvalidParameter("Postgres needs psycopg: pip install 'dpstats[postgres]'") from None
    return psycopg
