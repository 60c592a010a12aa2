"""Small databases, and the same with one row replaced."""

from __future__ import annotations

from functools import cache
from typing import Any

import duckdb

Rows = tuple[tuple[Any, ...], ...]
Database = tuple[tuple[str, str, Rows], ...]
"""Tables: name, columns as CREATE TABLE has them, rows."""


def connected(data: Database) -> Any:
    """Return a connection to a database in memory."""
    connection = duckdb.connect(":memory:")
    for name, columns, rows in data:
        connection.execute(f"CREATE TABLE {name} ({columns})")
        for row in rows:
            connection.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", list(row))
    return connection


@cache
def shared(data: Database) -> Any:
    """Return a connection to a database in memory, which all read from and none changes."""
    return connected(data)


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
