"""Compiled SQL: sums of whole numbers that are those of loops, and nothing of the query's text in it."""

from __future__ import annotations

import math
import re
from typing import Any

import duckdb
import pytest

from dpstats.sql import PrivateSQL
from dpstats.sql.catalogue import DUCKDB
from dpstats.sql.compile import Compiled, Source
from dpstats.sql.engines import FUNCTIONS

NAMES = ["", "it's", 'a"b', "--", "x"]
VALUES = [0.0, -3.5, 2.25, 1e300, -math.inf, math.nan, None, 4.999, 1e-9]


@pytest.fixture(scope="module")
def connection() -> Any:
    made = duckdb.connect()
    made.execute('CREATE TABLE "r s" ("a b" INTEGER, name VARCHAR, x DOUBLE, n UBIGINT, u INTEGER, m DECIMAL(9, 3))')
    for i in range(60):
        row = [i % 7 or None, NAMES[i % 5], VALUES[i % 9], i**9 % 2**64, i % 11 or None, i / 8]
        made.execute('INSERT INTO "r s" VALUES (?, ?, ?, ?, ?, ?)', row)
    return made


BOUNDS = {"r s.x": (-2.0, 3.0), "r s.n": (0, 100), "r s.m": (-1, 5), "r s.a b": (-1, 3)}
CATEGORIES = {"r s.name": NAMES, "r s.a b": [1, 2, 6]}


def exact(connection: Any, text: str, **options: Any) -> tuple[Any, list[int]]:
    made = PrivateSQL(connection, epsilon=1.0, bounds=BOUNDS, categories=CATEGORIES, **options)
    query = made._parsed(text)
    return query, [int(n) for n in made._kind(query).read(made._kind(query).plan()).numbers]


def test_sums_are_those_of_values_cut_and_rounded_one_by_one(connection: Any) -> None:
    for name in ("x", "m", "n", '"a b"'):
        query, (found,) = exact(connection, f'SELECT SUM({name}) FROM "r s"')
        measure, total = query.measure, 0
        for (value,) in connection.execute(f'SELECT {name} FROM "r s"').fetchall():
            if value is None or not math.isfinite(float(value)):
                continue
            low, high = (end * measure.spacing for end in (measure.low, measure.high))
            total += round(min(max(float(value), low), high) / measure.spacing)
        assert found == total


def test_means_have_their_count_beside(connection: Any) -> None:
    query, (count, total) = exact(connection, 'SELECT AVG(x) FROM "r s"')
    held = [v for (v,) in connection.execute('SELECT x FROM "r s"').fetchall() if v is not None and math.isfinite(v)]
    several = query.measure
    (column,) = several.columns
    assert count == several.whole(0) * len(held)
    steps = [round(min(max(v, -2.0), 3.0) / column.spacing) for v in held]
    assert total == several.times(0) * sum(2 * step - column.low - column.high for step in steps)


def test_cells_are_counted_as_they_are_declared(connection: Any) -> None:
    text = 'SELECT "a b", name, COUNT(*) FROM "r s" GROUP BY "a b", name'
    query, found = exact(connection, text)
    for i, count in enumerate(found):
        a, name = query.cell(i)
        ((true,),) = connection.execute('SELECT count(*) FROM "r s" WHERE "a b" = ? AND name = ?', [a, name]).fetchall()
        assert count == true


def test_bins_have_their_lower_edge_and_the_last_both(connection: Any) -> None:
    made = PrivateSQL(connection, epsilon=1.0, bins={"r s.x": (-3.5, 0, 2.25, 4.999), "r s.u": (1, 3, 10)})
    query = made._parsed('SELECT x, u, COUNT(*) FROM "r s" GROUP BY x, u')
    found = [int(n) for n in made._kind(query).read(made._kind(query).plan()).numbers]
    rows = connection.execute('SELECT x, u FROM "r s" WHERE x = x AND u IS NOT NULL').fetchall()
    inside = {
        "x": [lambda v: -3.5 <= v < 0, lambda v: 0 <= v < 2.25, lambda v: 2.25 <= v <= 4.999],
        "u": [lambda v: 1 <= v < 3, lambda v: 3 <= v <= 10],
    }
    assert found == [sum(a(x) and b(u) for x, u in rows) for a in inside["x"] for b in inside["u"]]
    assert query.cell(5) == ("[2.25, 4.999]", "[3, 10]") and query.cell(0) == ("[-3.5, 0)", "[1, 3)")


@pytest.mark.parametrize("rows", [2**32 + 1, 2**40, 2**62])
def test_the_integers_of_a_mean_of_very_many_rows_do_not_overflow(connection: Any, rows: int) -> None:
    made = PrivateSQL(connection, epsilon=1.0, bounds={"r s.x": (-1e15, 1e15)})
    query = made.plan_for('SELECT AVG(x) FROM "r s"').query
    measure = query.measure
    counted = Compiled(query, {}, DUCKDB)._sums()[0].replace("count(v0)", f"{rows}::BIGINT")
    assert measure.reach > 2**24 and connection.sql(f"SELECT {counted}").fetchall() == [(measure.reach * rows,)]


@pytest.mark.parametrize(("negated", "plain"), [("x NOT LIKE 'i%'", "x LIKE 'i%'"), ("x !~~ '%-_%'", "x ~~ '%-_%'")])
def test_not_like_counts_the_rows_that_like_does_not(connection: Any, negated: str, plain: str) -> None:
    for text in (negated, plain, f"NOT ({negated})"):
        text = text.replace("x ", "name ")
        _, found = exact(connection, f'SELECT COUNT(*) FROM "r s" WHERE {text}')
        assert connection.sql(f'SELECT count(*) FROM "r s" WHERE {text}').fetchall() == [(found[0],)]


@pytest.mark.parametrize("limit", [2, 2**10, 2**30])
@pytest.mark.parametrize("groups", ["", "name, "])
def test_units_are_cut_in_proportion_one_by_one(connection: Any, limit: int, groups: str) -> None:
    # The largest limits need integers beyond 64 bits.
    text = f'SELECT {groups}SUM(n) FROM "r s"' + " GROUP BY name" * bool(groups)
    made = PrivateSQL(connection, epsilon=1.0, bounds=BOUNDS, categories=CATEGORIES, unit="u", unit_limit=limit)
    query = made._parsed(text)
    (truncation,) = made._kind(query).plan().truncations
    private = made._kind(query).read(made._kind(query).plan())
    cell = "name" if groups else "''"
    rows = connection.execute(
        f'SELECT u, {cell}, sum(least(n, 100)) FROM "r s" WHERE u IS NOT NULL GROUP BY ALL'
    ).fetchall()
    totals: dict[int, int] = {}
    for unit, _, number in rows:
        totals[unit] = totals.get(unit, 0) + int(number)
    for i, power in enumerate(truncation.each):
        most, found = 1 << power, dict.fromkeys(NAMES, 0)
        for unit, name, number in rows:
            found[name] += truncation.finer * most * int(number) // max(totals[unit], most)
        assert private.above["answer"][i] == sum(total > most for total in totals.values())
        assert [int(n) for n in private.cut["answer"][i]] == ([*found.values()] if groups else [found[""]])


def test_every_function_that_runs_is_known(connection: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # Macros are refused by the names in this list.
    ran: list[str] = []
    ask = Source._ask
    monkeypatch.setattr(Source, "_ask", lambda self, sql, *more: (ran.append(sql), ask(self, sql, *more))[1])
    where = "WHERE NOT (name LIKE 'a%') AND x BETWEEN 0 AND 1 AND u IN (1, 2) AND m IS NOT NULL"
    options: dict[str, Any] = {"bounds": BOUNDS, "categories": CATEGORIES, "random_state": 0}
    for unit in (None, "u"):
        made = PrivateSQL(connection, epsilon=1.0, unit=unit, **options)
        for what in ("COUNT(*)", "SUM(x)", "AVG(m)", "AVG(n)", "COUNT(DISTINCT u)", "COUNT(*), AVG(x), SUM(n)"):
            made.query(f'SELECT {what} FROM "r s" {where}')
            made.query(f'SELECT "a b", {what} FROM "r s" {where} GROUP BY "a b"')
        if unit is None:
            made.query('SELECT COUNT(*) FROM "r s" a JOIN "r s" b USING (u)')
    text = " ".join(re.sub(r"\"[^\"]*\"|'[^']*'", " ", sql) for sql in ran)
    words = {
        "as",
        "from",
        "filter",
        "select",
        "where",
        "with",
        "on",
        "materialized",
        "then",
        "else",
        "union",
        "all",
        "values",
        "when",
        "q",
    }
    called = {name.lower() for name in re.findall(r"([A-Za-z_]\w*)\s*\(", text)} - words
    operators = set(re.findall(r"[-+*/%<>=~|&^!]+", text.replace("count(*)", "")))
    assert called | operators <= FUNCTIONS, (called | operators) - FUNCTIONS
    assert {"sum", "coalesce", "duckdb_functions"} <= called and "//" in operators


def test_no_word_of_the_query_is_in_what_runs(connection: Any) -> None:
    made = PrivateSQL(connection, epsilon=1.0, unit={"r s": "u"})
    query = made._parsed(
        """SELECT COUNT(*) AS secret_label FROM "r s" AS secret_alias WHERE name IN ('secret', 'it''s') AND u > 77123"""
    )
    compiled = Compiled(query, {table.name: table for table in made._catalogue.tables.values()}, DUCKDB)
    statements = [compiled.cells(), compiled.units_above("all", range(3)), compiled.units_cut("all", range(3))]
    for text, literals in statements:
        assert "secret" not in text and "77123" not in text
        assert literals == ["secret", "it's", 77123]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM visit WHERE person IN (SELECT id FROM person WHERE age > 40)",
        "SELECT COUNT(*) FROM visit WHERE (cost < 3 AND visit.person IN (SELECT DISTINCT id FROM person))",
        "SELECT COUNT(*) FROM visit SEMI JOIN person ON person = id",
        "SELECT COUNT(*) FROM visit SEMI JOIN person ON visit.person = person.id AND person.age > 40",
        "SELECT COUNT(*) FROM visit v SEMI JOIN (SELECT id AS person, age FROM person) q USING (person)",
        "SELECT COUNT(*) FROM visit SEMI JOIN person ON person = id WHERE cost IN (SELECT age FROM person)",
    ],
)
def test_semi_joins_count_each_row_once(text: str) -> None:
    made = duckdb.connect()
    made.execute("CREATE TABLE person AS SELECT nullif(i % 6, 5) AS id, 20 + 5 * (i % 8) AS age FROM range(20) t(i)")
    made.execute("CREATE TABLE visit AS SELECT nullif(i % 9, 3) AS person, (i // 3) * 5 AS cost FROM range(50) t(i)")
    ((expected,),) = made.sql(text).fetchall()
    query = PrivateSQL(made, epsilon=1.0, public_tables=["person"])
    parsed = query._parsed(text)
    plan = query._kind(parsed).plan()
    assert int(query._kind(parsed).read(plan).numbers[0]) == expected * plan.finer > 0


def test_units_are_cut_by_their_rows_with_a_value_of_any_column() -> None:
    # A planted bug: rows without a value in the first column do not count towards the threshold.
    connection = duckdb.connect()
    connection.execute("CREATE TABLE v AS SELECT 1 AS u, NULL::INTEGER AS x, 1 AS y FROM range(8) t(i)")
    connection.execute("INSERT INTO v VALUES (1, NULL, NULL)")
    sql = PrivateSQL(connection, epsilon=1.0, unit="u", bounds={"v.x": (0, 4), "v.y": (0, 4)})
    for text, above in (("SUM(x), SUM(y)", 8), ("SUM(x), SUM(y), COUNT(*)", 9), ("AVG(y)", 8)):
        plan = sql.plan_for(f"SELECT {text} FROM v")
        private, several = sql._kind(plan.query).read(plan), plan.query.measure
        (truncation,) = plan.truncations
        place = list(truncation.each).index(2)
        assert private.above["answer"][: place + 3] == [1, 1, 1, int(above > 8), 0]  # type: ignore[index]
        shares = several.shares(len(several.columns) - 1)  # type: ignore[union-attr]
        cut = private.cut["answer"][place][shares.start : shares.start + 2]  # type: ignore[index]
        rows = several.whole(len(several.columns) - 1) * 8 * 4  # type: ignore[union-attr]
        assert (cut[0] if several.paired else sum(cut)) == pytest.approx(rows / above, abs=2)  # type: ignore[union-attr]
