"""Compiled SQL: sums of whole numbers that are those of loops, and nothing of the query's text in it."""

from __future__ import annotations

import math
from typing import Any

import duckdb
import pytest

from dpstats.sql import PrivateSQL
from dpstats.sql.compile import Compiled

NAMES = ["", "it's", 'a"b', "--", "x"]
VALUES = [0.0, -3.5, 2.25, 1e300, -math.inf, math.nan, None, 4.999, 1e-9]


@pytest.fixture(scope="module")
def connection() -> Any:
    made = duckdb.connect()
    made.execute(
        'CREATE TABLE "r s" ("a b" INTEGER, name VARCHAR, x DOUBLE, n UBIGINT, u INTEGER, m DECIMAL(9, 3))'
    )
    for i in range(60):
        row = [i % 7 or None, NAMES[i % 5], VALUES[i % 9], i**9 % 2**64, i % 11 or None, i / 8]
        made.execute('INSERT INTO "r s" VALUES (?, ?, ?, ?, ?, ?)', row)
    return made


BOUNDS = {"r s.x": (-2.0, 3.0), "r s.n": (0, 100), "r s.m": (-1, 5), "r s.a b": (-1, 3)}
CATEGORIES = {"r s.name": NAMES, "r s.a b": [1, 2, 6]}


def exact(connection: Any, text: str, **options: Any) -> tuple[Any, list[int]]:
    made = PrivateSQL(connection, epsilon=1.0, bounds=BOUNDS, categories=CATEGORIES, **options)
    query = made._parsed(text)
    return query, [int(n) for n in made._read(query, made._planned(query)).numbers]


def test_sums_are_those_of_values_cut_and_rounded_one_by_one(connection: Any) -> None:
    for name in ("x", "m", "n", '"a b"'):
        query, (found,) = exact(connection, f'SELECT SUM({name}) FROM "r s"')
        measure, total = query.measure, 0
        for (value,) in connection.execute(f'SELECT {name} FROM "r s"').fetchall():
            if value is None or math.isnan(float(value)):
                continue
            low, high = (end * measure.spacing for end in (measure.low, measure.high))
            total += round(min(max(float(value), low), high) / measure.spacing)
        assert found == total


def test_means_have_their_count_beside(connection: Any) -> None:
    query, (count, total) = exact(connection, 'SELECT AVG(x) FROM "r s"')
    held = [v for (v,) in connection.execute('SELECT x FROM "r s"').fetchall() if v is not None and v == v]
    assert count == query.measure.reach * len(held)
    steps = [round(min(max(v, -2.0), 3.0) / query.measure.spacing) for v in held]
    assert total == sum(step - query.measure.middle for step in steps)


def test_cells_are_counted_as_they_are_declared(connection: Any) -> None:
    text = 'SELECT "a b", name, COUNT(*) FROM "r s" GROUP BY "a b", name'
    query, found = exact(connection, text)
    for i, count in enumerate(found):
        a, name = query.cell(i)
        ((true,),) = connection.execute(
            'SELECT count(*) FROM "r s" WHERE "a b" = ? AND name = ?', [a, name]
        ).fetchall()
        assert count == true


def test_bins_have_their_lower_edge_and_the_last_both(connection: Any) -> None:
    made = PrivateSQL(connection, epsilon=1.0, bins={"r s.x": (-3.5, 0, 2.25, 4.999), "r s.u": (1, 3, 10)})
    query = made._parsed('SELECT x, u, COUNT(*) FROM "r s" GROUP BY x, u')
    found = [int(n) for n in made._read(query, made._planned(query)).numbers]
    rows = connection.execute('SELECT x, u FROM "r s" WHERE x = x AND u IS NOT NULL').fetchall()
    inside = {
        "x": [lambda v: -3.5 <= v < 0, lambda v: 0 <= v < 2.25, lambda v: 2.25 <= v <= 4.999],
        "u": [lambda v: 1 <= v < 3, lambda v: 3 <= v <= 10],
    }
    assert found == [sum(a(x) and b(u) for x, u in rows) for a in inside["x"] for b in inside["u"]]
    assert query.cell(5) == ("[2.25, 4.999]", "[3, 10]") and query.cell(0) == ("[-3.5, 0)", "[1, 3)")


def test_no_word_of_the_query_is_in_what_runs(connection: Any) -> None:
    made = PrivateSQL(connection, epsilon=1.0, unit={"r s": "u"})
    query = made._parsed(
        """SELECT COUNT(*) AS secret_label FROM "r s" AS secret_alias WHERE name IN ('secret', 'it''s') AND u > 77123"""
    )
    compiled = Compiled(query, {table.name: table for table in made._catalogue.tables.values()})
    statements = [
        compiled.cells(),
        compiled.units_above("all", range(3)),
        compiled.units_cut("all", range(3)),
    ]
    for text, literals in statements:
        assert "secret" not in text and "77123" not in text
        assert literals == ["secret", "it's", 77123]
