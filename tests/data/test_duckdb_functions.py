"""Functions of a connection that are not DuckDB's own are found, whatever they are called by and made of."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

from dpstats.data.duckdb_functions import overridden
from dpstats.data.duckdb_rows import FUNCTIONS as OF_SUMS
from dpstats.sql.compile import FUNCTIONS as OF_ANSWERS


def found(connection: Any, names: frozenset[str] = OF_ANSWERS) -> str | None:
    return overridden(lambda sql: connection.cursor().execute(sql).fetchall(), names)


def test_macros_and_python_functions_are_found() -> None:
    plain = duckdb.connect()
    assert found(plain) is None and found(plain, OF_SUMS) is None
    plain.execute("CREATE MACRO harmless(a) AS a; CREATE SCHEMA other; CREATE MACRO other.Least(a, b) AS a")
    assert found(plain) == "least" and found(plain, OF_SUMS) == "least"


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("least", ["DOUBLE", "DOUBLE"]),
        ("greatest", ["HUGEINT", "INTEGER"]),
        ("=", ["DATE", "DATE"]),
        ("<", ["BIGINT", "BIGINT"]),
        ("coalesce", ["BIGINT", "BIGINT"]),
    ],
)
def test_a_python_function_is_found_by_its_types(name: str, kinds: list[str]) -> None:
    own = duckdb.connect()
    own.create_function(name, lambda a, b: a, kinds, kinds[0])
    assert found(own) == name and found(own, OF_ANSWERS - {name}) is None
