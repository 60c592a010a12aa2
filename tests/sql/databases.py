"""Small databases, and the same with one row replaced."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from functools import cache
from typing import Any
from unittest.mock import patch

import duckdb

from dpstats.data import duckdb_rows
from dpstats.sql.compile import Source
from dpstats.sql.engines import DuckDBEngine

Rows = tuple[tuple[Any, ...], ...]
Database = tuple[tuple[str, str, Rows], ...]
"""Tables: name, columns as CREATE TABLE has them, rows."""
_TOGETHER = 50
"""Databases of one instance of DuckDB: an instance takes longer to start than ten databases to fill."""
_MADE = itertools.count()


def connected(data: Database) -> Any:
    """Return a connection to a database in memory."""
    return _filled(duckdb.connect(":memory:"), data)


@cache
def shared(data: Database) -> Any:
    """Return a connection to a database in memory, which all read from and none changes."""
    number = next(_MADE)
    connection = _instance(number // _TOGETHER).cursor()
    connection.execute(f"ATTACH ':memory:' AS d{number}; USE d{number}")
    return _filled(connection, data)


@cache
def _instance(number: int) -> Any:
    return duckdb.connect(":memory:")


def _filled(connection: Any, data: Database) -> Any:
    for name, columns, rows in data:
        connection.execute(f"CREATE TABLE {name} ({columns})")
        for row in rows:
            connection.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", list(row))
    return connection


@contextlib.contextmanager
def known_engine() -> Iterator[None]:
    """Ask DuckDB without the checks of what it computes, which take longer than answers do over a few rows.

    tests/sql and tests/data/test_duckdb_rows.py are about these checks.
    """
    with contextlib.ExitStack() as stack:
        for kind, name in (
            (Source, "_check_meaning"),
            (DuckDBEngine, "check_functions"),
            (DuckDBEngine, "check_settings"),
            (duckdb_rows, "_check_functions"),
        ):
            stack.enter_context(patch.object(kind, name, lambda *given: None))
        yield


def fill(connection: Any, columns: dict[str, str], data: dict[str, list[tuple[Any, ...]]]) -> None:
    """Make the tables of a connection to DuckDB or to Postgres, from their columns and rows."""
    mark = "?" if isinstance(connection, duckdb.DuckDBPyConnection) else "%s"
    for name, rows in data.items():
        connection.execute(f"CREATE TABLE {name} ({columns[name]})")
        for row in rows:
            connection.execute(f"INSERT INTO {name} VALUES ({', '.join([mark] * len(row))})", list(row))


def replaced(data: Database, table: str, place: int, row: tuple[Any, ...]) -> Database:
    """Return a database with another row in a place of a table."""
    return tuple(
        (name, columns, (*rows[:place], row, *rows[place + 1 :]) if name == table else rows)
        for name, columns, rows in data
    )
