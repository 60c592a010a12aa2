"""The checks of an engine: each one notices an engine that computes something else."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import duckdb
import pytest

from dpstats.errors import InvalidParameter
from dpstats.sql import PrivateSQL, engines
from dpstats.sql.catalogue import DUCKDB, DUCKDB_TABLES, POSTGRES, Dialect, Probe
from dpstats.sql.engines import DuckDBEngine

_WRAPPED = "((sum(v) + 9223372036854775808) % 18446744073709551616 - 9223372036854775808)"
_SAME = r"\(\((CAST\(\$\d+ AS DOUBLE\)) \+ (CAST\(\$\d+ AS DOUBLE\))\) - \1\)"
_QUOTIENT = r"CAST\((\(CASE WHEN .*? END\) / CAST\(\S+ AS DOUBLE\)) AS BIGINT\)"
# A dialect, and what is replaced in statements: an engine that is wrong in one way.
WRONG: dict[str, tuple[dict[str, Any], tuple[str, str]]] = {
    "doubles to the bit": ({}, (r"CAST\(0\.1 AS", "CAST(CAST(0.1 AS FLOAT) AS")),
    "steps of values, with ties and subnormal numbers": ({}, (_QUOTIENT, r"CAST(round(\1) AS BIGINT)")),
    "sums and products of doubles in their order": ({}, (_SAME, r"((\1 - \1) + \2)")),
    "sums of integers beyond 2^53": ({}, (r"sum\(v\)", "CAST(sum(CAST(v AS DOUBLE)) AS HUGEINT)")),
    "sums of integers beyond 2^63": ({}, (r"sum\(v\)", _WRAPPED)),
    "division of integers towards 0": ({"quotient": "CAST(floor(({0}) / ({1})) AS BIGINT)"}, ("", "")),
    "text by its bytes": ({"bytewise": "lower({0})"}, ("", "")),
    "-0.0 equal to 0.0": ({}, ("DISTINCT v FROM", "DISTINCT CAST(v AS VARCHAR) FROM")),
    "the logic of NULL": ({}, (r"count\(v\)", "count(*)")),
    "aggregates of no rows": ({}, (r"sum\(v\)", "coalesce(sum(v), 0)")),
    "NaN and infinite numbers": ({"finite": "(CASE WHEN NOT isnan({0}) THEN {0} END)"}, ("", "")),
    "dates and times": ({"types": {**DUCKDB.types, "DATE": "TIMESTAMP"}}, ("", "")),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_engine_that_computes_something_else_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    changes, (pattern, other) = WRONG[name]
    connection = duckdb.connect()
    connection.execute("CREATE TABLE r AS SELECT 1 AS a")
    PrivateSQL(connection, epsilon=1.0)
    execute = DuckDBEngine.execute

    def wrong(self: Any, sql: str, parameters: list[Any]) -> Any:
        return execute(self, re.sub(pattern, other, sql) if pattern else sql, parameters)

    monkeypatch.setattr(engines, "DUCKDB_TABLES", replace(DUCKDB_TABLES, **changes))
    monkeypatch.setattr(DuckDBEngine, "execute", wrong)
    with pytest.raises(InvalidParameter, match=re.escape(f"fails the check of {name}")):
        PrivateSQL(connection, epsilon=1.0)


def test_every_check_has_an_engine_that_fails_it() -> None:
    assert {name for name, _ in Probe(DUCKDB)._expected} == WRONG.keys() and len(WRONG) == 12


@pytest.mark.parametrize(
    ("dialect", "name"),
    [
        (POSTGRES, None),
        (replace(POSTGRES, like="{0} LIKE {1}"), "text by its bytes"),
        (replace(POSTGRES, bytewise="lower({0})"), "text by its bytes"),
        (replace(POSTGRES, quotient="floor({0} / CAST({1} AS numeric))"), "division of integers towards 0"),
    ],
)
def test_postgres_computes_as_duckdb_does(postgres: Any, dialect: Dialect, name: str | None) -> None:
    from psycopg import RawCursor

    cursor = RawCursor(postgres)
    assert Probe(dialect).find_failure(lambda sql, values: cursor.execute(sql, values).fetchall()) == name


def test_products_that_underflow_are_refused_by_postgres_alone(postgres: Any) -> None:
    from psycopg import errors

    with pytest.raises(errors.NumericValueOutOfRange, match="underflow"):
        postgres.execute("SELECT CAST(1e-200 AS double precision) * CAST(1e-200 AS double precision)")
    tiny = POSTGRES.product(POSTGRES.real(5e-324), POSTGRES.real(-1e-310), (1.0, 1.0))
    assert postgres.execute(f"SELECT {tiny}").fetchall() == [(0.0,)]
    # The product of the last sizes is 0 itself.
    for size in (1e-30, 1e-200):
        with pytest.raises(InvalidParameter, match=f"Postgres cannot multiply values as small as {size:g} and"):
            POSTGRES.product("a", "b", (size, size))
    assert POSTGRES.product("a", "b", (0.0, 1e-200))
    assert DUCKDB.product("a", "b", (1e-30, 1e-30)) == "(a * b)"


def test_a_number_that_is_not_far_below_the_largest_one_keeps_its_bits(postgres: Any) -> None:
    kept = [0.1, -1 / 3, 2.0**-300 * 1.1, 1e15 / 7]
    for number in kept:
        sql = POSTGRES.flush_small(POSTGRES.real(number), 1e15)
        assert postgres.execute(f"SELECT {sql}").fetchall() == [(number,)]


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_an_engine_that_reads_a_number_without_end_as_another_is_refused(
    value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection, execute = duckdb.connect(), DuckDBEngine.execute
    connection.execute("CREATE TABLE r AS SELECT 1 AS a")

    def wrong(self: Any, sql: str, parameters: list[Any]) -> Any:
        read = [0.0 if isinstance(one, float) and repr(one) == repr(value) else one for one in parameters]
        return execute(self, sql, read)

    monkeypatch.setattr(DuckDBEngine, "execute", wrong)
    with pytest.raises(InvalidParameter, match="fails the check of NaN and infinite numbers"):
        PrivateSQL(connection, epsilon=1.0)
