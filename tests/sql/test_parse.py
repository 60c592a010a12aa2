"""What is read of SQL, and what is refused, by the name of its clause; generated and mutated queries are bounded."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from typing import Any

import duckdb
import pytest
from sqlglot import parse as parse_text

from dpstats.errors import InvalidParameter
from dpstats.sensitivity.elastic import Column, Distinct, Join, Select, Table
from dpstats.sql import PrivateSQL
from dpstats.sql.catalogue import BaseTable, Catalogue
from dpstats.sql.engines import duckdb_type
from dpstats.sql.parse import parse
from dpstats.sql.query import All, Among, Between, Compare, Holds, Literal, Missing, Not


def table(called: str, public: bool = False, unit: str | None = None, **columns: str) -> BaseTable:
    kinds = {key.lower(): (key, duckdb_type(kind)) for key, kind in columns.items()}
    return BaseTable(called, f'"{called}"', kinds, public, unit)


R = table("r", a="INTEGER", b="INTEGER", name="VARCHAR", x="DOUBLE", d="DATE", t="TIMESTAMP", f="BOOLEAN")
S = table("s", a="INTEGER", c="BIGINT", name="VARCHAR")
P = table("P", public=True, Id="INTEGER", Kind="VARCHAR")
CATALOGUE = Catalogue(
    {"r": R, "s": S, "p": P},
    frozenset({"v"}),
    {("r", "b"): (0, 1), ("p", "kind"): ("x", "y")},
    bounds={("r", "x"): (-1.0, 5.0), ("r", "b"): (0.0, 9.0)},
)
COUNT = "SELECT COUNT(*) FROM "


def read(text: str, **options: Any) -> Any:
    return parse(text, CATALOGUE, **options)


def test_a_query_is_its_relation() -> None:
    query = read(COUNT + "r JOIN s ON r.a = s.a WHERE r.b IN (1, 2) AND NOT s.name IS NULL")
    assert isinstance(query.relation, Select) and isinstance(query.relation.of, Join)
    assert query.relation.of.on == ((Column("r", "a"), Column("s", "a")),)
    assert query.relation.condition == All(
        (
            Compare("=", Column("r", "a"), Column("s", "a")),
            Among(Column("r", "b"), (Literal(1, "BIGINT"), Literal(2, "BIGINT"))),
            Not(Missing(Column("s", "name"))),
        )
    )
    assert (query.measure.kind, query.label, query.groups) == ("count", "count", ())


@pytest.mark.parametrize(
    "text",
    [
        "r, s WHERE r.a = s.a",
        "r JOIN s USING (a)",
        "r INNER JOIN s ON s.a = r.a",
        "(SELECT a FROM r) r JOIN s USING (A)",
        "(SELECT * FROM r) AS q, s WHERE q.a = s.a",
    ],
)
def test_joins_are_read_in_any_form(text: str) -> None:
    query = read(COUNT + text)
    joined = query.relation.of
    assert isinstance(joined, Join) and {str(c) for c in joined.on[0]} == {"r.a", "s.a"}


def test_instances_of_a_table_are_told_apart() -> None:
    query = read("WITH w AS (SELECT a, b FROM r WHERE x > 0) SELECT COUNT(DISTINCT w.b) AS n FROM w JOIN w z USING (a)")
    assert isinstance(query.relation, Distinct) and query.label == "n"
    assert query.relation.columns == (Column("r", "b"),) and query.measure.kind == "distinct"
    assert query.relation.of.of.on == ((Column("r", "a"), Column("r#2", "a")),)  # type: ignore[union-attr]


def test_names_ignore_case_and_quotes_do_not_change_them() -> None:
    query = read('select count(*) as "N" from R join p on "R".A = P.ID where "p"."KIND" like \'x%\'')
    assert query.label == "N" and query.relation.of.right == Table("P", public=True)  # type: ignore[union-attr]


def test_groups_sums_and_means_are_of_what_is_declared() -> None:
    query = read("SELECT b, kind, AVG(x) FROM r JOIN p ON r.a = p.id GROUP BY kind, r.b")
    assert [group.name for group in query.groups] == ["Kind", "b"] and query.cells == 4
    assert [query.cell(i) for i in range(4)] == [("x", 0), ("x", 1), ("y", 0), ("y", 1)]
    (measure,) = query.measure.columns  # type: ignore[union-attr]
    # A mean alone is a sum and a count, with the least noise of both.
    assert query.measure.moved(True) == 2 * query.measure.whole(0)  # type: ignore[union-attr]
    assert measure.kind == "mean" and measure.spacing == 2.0**-25
    assert measure.low * measure.spacing <= -1 and measure.high * measure.spacing >= 5
    whole = read("SELECT SUM(b) FROM r").measure
    assert (whole.low, whole.high, whole.spacing) == (0, 9, 1.0)
    # A 2^30th of these values is no double.
    small = read("SELECT SUM(x * 1e-200 * 1e-120) FROM r").measure
    assert small.spacing == 2.0**-1000 and (small.low, small.high) == (-1, 1)


def test_literals_are_converted_here() -> None:
    between = read(COUNT + "r WHERE d BETWEEN '2013-01-31' AND '2013-02-01'").relation.condition
    assert between == All(
        (Between(Column("r", "d"), Literal(date(2013, 1, 31), "DATE"), Literal(date(2013, 2, 1), "DATE")),)
    )
    moment = datetime(2013, 1, 31, 12)
    for text, column, value in (
        ("d < DATE '2013-01-31'", "d", Literal(date(2013, 1, 31), "DATE")),
        ("d < '2013-01-31'::DATE", "d", Literal(date(2013, 1, 31), "DATE")),
        ("t < TIMESTAMP '2013-01-31 12:00:00'", "t", Literal(moment, "TIMESTAMP")),
        ("t < DATE '2013-01-31'", "t", Literal(datetime(2013, 1, 31), "TIMESTAMP")),
    ):
        found = read(COUNT + f"r WHERE {text}").relation.condition
        assert found == All((Compare("<", Column("r", column), value),))
    turned = read(COUNT + "r WHERE -1.5 <= x").relation.condition
    assert turned == All((Compare(">=", Column("r", "x"), Literal(-1.5, "DOUBLE")),))


def test_a_condition_may_be_asked_to_be_true_or_false() -> None:
    positive = Compare(">", Column("r", "x"), Literal(0.0, "DOUBLE"))
    for text, expected in (
        ("IS TRUE", Holds(positive, True)),
        ("IS FALSE", Holds(positive, False)),
        ("IS NOT TRUE", Not(Holds(positive, True))),
    ):
        found = read(f"{COUNT}r WHERE (x > 0) {text}").relation.condition
        assert found in (expected, All((expected,)))


@pytest.mark.parametrize("inner", ["1", "'x'", "*"])
def test_a_count_of_a_literal_counts_rows(inner: str) -> None:
    measure = read(f"SELECT COUNT({inner}) FROM r").measure
    assert (measure.kind, measure.column) == ("count", None)


REFUSED = {
    # Clauses.
    "SELECT a FROM r": "the column a in SELECT",
    "SELECT * FROM r": "STAR in SELECT",
    "SELECT COUNT(*), COUNT(*) FROM r": "a different name",
    "SELECT b FROM r GROUP BY b": "an aggregate, got none",
    "SELECT COUNT(*), COUNT(DISTINCT a) FROM r": "beside other aggregates",
    "SELECT b, SUM(b) AS b, COUNT(*) FROM r GROUP BY b": "a different name",
    "SELECT COUNT(*), MAX(a) FROM r": "MAX in SELECT",
    "SELECT COUNT(*), SUM(a) FROM r": "have declared bounds of its values",
    "SELECT MAX(a) FROM r": "MAX in SELECT",
    "SELECT COUNT(*) + 1 FROM r": "ADD in SELECT",
    "SELECT COUNT(DISTINCT a) FILTER (WHERE a = 1) FROM r": "FILTER of COUNT\\(DISTINCT",
    "SELECT COUNT_IF(a = 1) FILTER (WHERE b = 1) FROM r": "FILTER of COUNT_IF",
    "SELECT MAX(b) FILTER (WHERE a = 1) FROM r": "MAX in SELECT",
    "SELECT COUNT(*) OVER () FROM r": "WINDOW in SELECT",
    "SELECT COUNT(DISTINCT a, b) FROM r": "several columns",
    "SELECT DISTINCT COUNT(*) FROM r": "SELECT DISTINCT of the whole",
    "SELECT COUNT(*)": "must have FROM",
    COUNT + "r LIMIT 0": "LIMIT without GROUP BY",
    COUNT + "r ORDER BY 1": "ORDER BY without GROUP BY",
    COUNT + "r HAVING COUNT(*) > 1": "HAVING without GROUP BY",
    COUNT + "r GROUP BY b LIMIT 1 OFFSET 1": "OFFSET",
    COUNT + "r GROUP BY b LIMIT 10 PERCENT": "LIMIT|parsed",
    COUNT + "r GROUP BY b LIMIT a": "LIMIT must be a whole number",
    COUNT + "r GROUP BY b HAVING COUNT(*) > DATE '2024-01-01'": "HAVING with another comparison",
    "SELECT SUM(COALESCE(NULL)) FROM r": "SUM of NULL",
    COUNT + "r GROUP BY b ORDER BY a": "ORDER BY of what is not in SELECT",
    COUNT + "r GROUP BY b ORDER BY SUM(b)": "bounds of its values|not in SELECT",
    COUNT + "r GROUP BY b ORDER BY 2": "ORDER BY of what is not in SELECT",
    COUNT + "r GROUP BY b ORDER BY random()": "in SELECT",
    COUNT + "r GROUP BY b HAVING COUNT(a) > 1": "HAVING of what is not in SELECT",
    COUNT + "r GROUP BY b HAVING b > 1": "put the condition into WHERE",
    COUNT + "r GROUP BY b HAVING COUNT(*) > 1 OR COUNT(*) < 0": "OR in HAVING",
    COUNT + "r GROUP BY b HAVING COUNT(*) > b": "compare an aggregate with a number",
    COUNT + "r GROUP BY b HAVING COUNT(*) > '1'": "compare an aggregate with a number",
    COUNT + "r GROUP BY b HAVING (SELECT 1) > 1": "in SELECT",
    COUNT + "r QUALIFY a > 1": "QUALIFY",
    COUNT + "r USING SAMPLE 10": "SAMPLE",
    COUNT + "r TABLESAMPLE (10 PERCENT)": "SAMPLE",
    COUNT + "r UNION ALL SELECT 1": "UNION",
    "INSERT INTO r VALUES (1)": "INSERT",
    "DROP TABLE r": "DROP",
    COUNT + "r; DROP TABLE r": "one statement, got 2",
    "PRAGMA version": "one SELECT",
    "EXPLAIN SELECT 1": "one SELECT",
    # Joins.
    COUNT + "r LEFT JOIN s ON r.a = s.a AND r.b = 1": "LEFT JOIN ON with another condition",
    COUNT + "r LEFT JOIN s ON r.a > s.a": "LEFT JOIN ON with another condition",
    COUNT + "r LEFT JOIN s ON s.a = 1": "a join without an equality",
    COUNT + "r, s LEFT JOIN r q ON q.a = s.a WHERE r.a = s.a": "a join without an equality",
    COUNT + "r LEFT JOIN r q ON r.x = q.x": "real numbers",
    COUNT + "r LEFT JOIN s ON r.name = s.c": "the same type",
    COUNT + "r LEFT JOIN s r USING (a)": "each name once",
    COUNT + "r NATURAL LEFT JOIN s": "NATURAL",
    COUNT + "r LEFT ANTI JOIN s ON r.a = s.a": "ANTI|outer join|parsed",
    COUNT + "r FULL OUTER JOIN s ON r.a = s.a": "outer join",
    COUNT + "r RIGHT JOIN s USING (a)": "outer join",
    COUNT + "r NATURAL JOIN s": "NATURAL",
    COUNT + "r ASOF JOIN s ON r.a = s.a AND r.b >= s.c": "ASOF",
    COUNT + "r POSITIONAL JOIN s": "POSITIONAL",
    COUNT + "r SEMI JOIN s ON r.a > s.a": "SEMI JOIN ON with another condition",
    COUNT + "r SEMI JOIN s ON r.a = s.a OR r.a = 1": "SEMI JOIN ON with another condition",
    COUNT + "r SEMI JOIN s ON s.a = 1": "a join without an equality",
    COUNT + "r SEMI JOIN s USING (a) WHERE s.c = 1": "must name a table in FROM",
    COUNT + "r SEMI JOIN r q ON r.x = q.x": "real numbers",
    COUNT + "r LEFT SEMI JOIN s USING (a)": "outer join|SEMI|parsed",
    COUNT + "r ANTI JOIN s USING (a)": "CROSS, ANTI",
    COUNT + "r CROSS JOIN s": "CROSS",
    COUNT + "r, s": "a join without an equality",
    COUNT + "r JOIN s ON r.a < s.a": "a join without an equality",
    COUNT + "r JOIN s ON r.a = s.a OR r.b = s.a": "a join without an equality",
    COUNT + "r JOIN s ON NOT r.a = s.a": "a join without an equality",
    COUNT + "r JOIN s ON r.name = s.c": "the same type",
    COUNT + "r JOIN r q ON r.x = q.x": "real numbers",
    COUNT + "r JOIN s ON r.a = s.a + 0": "ADD in a comparison|ADD where a column",
    COUNT + "r JOIN r USING (a)": "each name once",
    COUNT + "r JOIN s USING (b)": "both sides have",
    # Tables.
    COUNT + "v": "is a view, which may hide a join",
    COUNT + "nowhere": "is no table",
    COUNT + "main.r": "a table with a schema",
    COUNT + "read_csv('x.csv')": "a function in FROM",
    COUNT + "'x.csv'": "is no table",
    COUNT + "range(3)": "in place of a name|in FROM",
    COUNT + "r AS q(a)": "COLUMNS",
    COUNT + "(VALUES (1)) AS q(a)": "VALUES",
    COUNT + "(SELECT a FROM r)": "must have a name",
    COUNT + "(SELECT a + 1 AS a FROM r) q": "ADD where a column",
    COUNT + "(SELECT COUNT(*) AS n FROM r) q": "COUNT where a column",
    COUNT + "(SELECT a FROM r GROUP BY a) q": "GROUP BY in a subquery",
    COUNT + "(SELECT a FROM r LIMIT 3) q": "LIMIT",
    COUNT + "(SELECT a, a FROM r) q": "each column once",
    "WITH RECURSIVE w AS (SELECT a FROM r) SELECT COUNT(*) FROM w": "RECURSIVE",
    "WITH R AS (SELECT a FROM s) SELECT COUNT(*) FROM r": "means two things",
    "WITH w AS (SELECT a FROM s), W AS (SELECT a FROM r) SELECT COUNT(*) FROM w": "means two things",
    # Conditions.
    COUNT + "r WHERE a": "must be a BOOLEAN",
    COUNT + "r WHERE abs(a) = 1": "ABS where a column",
    COUNT + "r WHERE a + 1 = 2": "ADD where a column",
    COUNT + "r WHERE CAST(a AS VARCHAR) = '1'": "CAST where a column",
    COUNT + "r WHERE a = DATE '2025-01-01'": "must be a DATE or a TIMESTAMP",
    COUNT + "r WHERE a = CAST('1' AS INTEGER)": "CAST where a column",
    COUNT + "r WHERE a = CAST(b AS DATE)": "CAST where a column",
    COUNT + "r WHERE NOT a IN (SELECT a FROM s)": "QUERY in IN",
    COUNT + "r WHERE a NOT IN (SELECT a FROM s)": "QUERY in IN",
    COUNT + "r WHERE a IN (SELECT a FROM s) OR b = 1": "QUERY in IN",
    COUNT + "r WHERE a IN (SELECT a, c FROM s)": "SELECT .*, got 2",
    COUNT + "r WHERE a IN (SELECT r.a FROM s)": "must name a table in FROM",
    COUNT + "r WHERE name IN (SELECT c FROM s)": "the same type",
    COUNT + "r WHERE a IN (SELECT COUNT(*) FROM s)": "COUNT where a column",
    COUNT + "r WHERE a IN (SELECT a FROM s LIMIT 1)": "LIMIT",
    COUNT + "r WHERE x IN (SELECT x FROM r)": "real numbers",
    COUNT + "r WHERE EXISTS (SELECT 1 FROM s)": "EXISTS",
    COUNT + "r WHERE a = (SELECT 1)": "SUBQUERY",
    COUNT + "r WHERE CASE WHEN a = 1 THEN TRUE END": "CASE",
    COUNT + "r WHERE a = ?": "PLACEHOLDER",
    COUNT + "r WHERE name ILIKE 'x'": "ILIKE",
    COUNT + "r WHERE name LIKE 'x' ESCAPE '!'": "ESCAPE",
    COUNT + "r WHERE a LIKE 'x'": "must be VARCHAR",
    COUNT + "r WHERE a IS TRUE": "must be a BOOLEAN",
    COUNT + "r WHERE (x > 0) IS DISTINCT FROM NULL": "",
    COUNT + "r JOIN s ON (r.a = s.a) IS TRUE": "",
    "SELECT COUNT(NULL) FROM r": "COUNT of NULL",
    COUNT + "r WHERE name > 40": "literal of its type VARCHAR in quotes, got 40$",
    COUNT + "r WHERE name IN (-4.5)": "in quotes, got -4.5$",
    COUNT + "r WHERE a = '5'": "literal of its type INTEGER, got '5'$",
    COUNT + "main.r": "a table with a schema or database: it is not supported$",
    COUNT + "r q(u, v)": "names of columns after the name of a table: it is not supported$",
    "SELECT b, COUNT(*) FROM r GROUP BY b LIMIT 1 OFFSET 1": "OFFSET: it is not supported$",
    COUNT + "r WHERE a = 'x'": "literal of its type INTEGER",
    COUNT + "r WHERE a = 1.5": "literal of its type",
    COUNT + "r WHERE a = 99999999999999999999": "literal of its type",
    COUNT + "r WHERE d = 'yesterday'": "literal of its type DATE",
    COUNT + "r WHERE x = NULL": "NULL",
    COUNT + "r WHERE rowid = 1": "got 'rowid'",
    COUNT + "r WHERE q.a = 1": "must name a table in FROM, got 'q'",
    COUNT + "r JOIN s ON r.a = s.a WHERE name = 'x'": "must name one column",
    # What is grouped and summed.
    "SELECT a, COUNT(*) FROM r GROUP BY a": "must have declared values",
    "SELECT b, COUNT(*) FROM r GROUP BY 2": "GROUP BY of an aggregate: name a column",
    "SELECT b, COUNT(*) AS n FROM r GROUP BY n": "GROUP BY of an aggregate: name a column",
    "SELECT b, COUNT(*) FROM r GROUP BY 3": "name one of the 2 columns of SELECT, got 3",
    "SELECT b, COUNT(*) FROM r GROUP BY '1'": "a literal where a column must be",
    "SELECT b AS y, a AS y, COUNT(*) FROM r GROUP BY y": "the column must be in FROM",
    COUNT + "r GROUP BY ALL": "GROUP BY ALL: it is not supported$",
    COUNT + "r GROUP BY ROLLUP (b)": "ROLLUP",
    "SELECT SUM(a) FROM r": "have declared bounds of its values",
    "SELECT SUM(name) FROM r": "must be a number, got VARCHAR$",
    "SELECT SUM(DISTINCT b) FROM r": "DISTINCT in SUM",
    "SELECT AVG(b + a) FROM r": r"AVG\(a\) must have declared bounds of its values",
    "SELECT STDDEV(a) FROM r": r"STDDEV_SAMP\(a\) must have declared bounds of its values",
    "SELECT SUM(b / x) FROM r": "a division in SUM by something else than a number",
    "SELECT SUM(b / 0) FROM r": "a division in SUM",
    "SELECT SUM(b * NULL) FROM r": "arithmetic with NULL",
    "SELECT SUM(b + CASE WHEN a = 1 THEN NULL END) FROM r": "arithmetic with NULL in SUM: it has no value",
    "SELECT SUM(-CASE WHEN a = 1 THEN NULL ELSE NULL END) FROM r": "arithmetic with NULL in SUM: it has no value",
    "SELECT SUM(NULL) FROM r": "SUM of NULL",
    "SELECT SUM(CASE WHEN a = 1 THEN NULL END) FROM r": "SUM of NULL",
    "SELECT SUM(CASE b WHEN 1 THEN 2 END) FROM r": "THIS in CASE",
    "SELECT SUM(CASE WHEN (SELECT TRUE) THEN b END) FROM r": "SUBQUERY in a condition",
    "SELECT SUM(CASE WHEN a = 1 THEN name END) FROM r": "must be a number",
    "SELECT SUM(COALESCE(b + 1, 0)) FROM r": "ADD where a column",
    "SELECT SUM(b * 1e300) FROM r": "have values within 1e\\+15",
    "SELECT SUM(" + " * ".join(["x * 1e7"] * 3) + ") FROM r": "have values within",
    "SELECT SUM(b % 2) FROM r": "MOD in SUM",
    "SELECT SUM(abs(b)) FROM r": "ABS in SUM",
    "SELECT SUM('1') FROM r": "LITERAL in SUM",
    "SELECT SUM(f) FROM r": "must be a number",
    "SELECT SUM(b) FILTER (WHERE SUM(b) > 1) FROM r": "SUM where a column",
    # Text.
    "": "text of a query, got ''$",
    "-- a comment": "sql must be one statement, got 0",
    " ; ": "sql must be one statement, got 0",
    "SELECT FROM WHERE": "can be parsed|must have FROM|is no table",
    "SELECT COUNT(*) FROM r WHERE (a = 1": "can be parsed: it is not at line 1",
    "SELECT COUNT(*) FROM r WHERE name = 'x": "can be parsed",
    "SELECT COUNT(*) FROM r WHERE " + "(" * 150 + "a = 1" + ")" * 150: "deep|can be parsed",
    "SELECT COUNT(*) FROM r -- " + "x" * 20_000: "at most 20,000 characters",
    COUNT + "r " + "".join(f"JOIN r r{i} USING (a) " for i in range(20)): "at most 12",
    "SELECT COUNT(r.*) FROM r": r"must not have table\.\*: columns must be named",
    "SELECT COUNT(*) FROM r WHERE a IS 3": "only IS NULL, IS TRUE, IS FALSE",
    "SELECT COUNT(*) FROM r WHERE a = (SELECT 1)": "SUBQUERY where a column must be",
    "WITH z AS (SELECT a FROM r UNION ALL SELECT a FROM r) SELECT COUNT(*) FROM z": "UNION in a subquery",
    "SELECT " + ", ".join(f"COUNT(a) AS n{k}" for k in range(51)) + " FROM r": "at most 50 aggregates, got 51",
    "SELECT b AS n, COUNT(*) AS n FROM r GROUP BY b ORDER BY n": "a name that two columns have",
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:60])
def test_everything_else_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidParameter, match=f"(?i){REFUSED[text]}"):
        read(text)


@pytest.mark.parametrize("given", [None, 3, b"SELECT 1"])
def test_what_is_no_text_is_refused(given: Any) -> None:
    with pytest.raises(InvalidParameter, match="sql must be the text"):
        read(given)


UNITS = Catalogue(
    {
        "r": table("r", unit="u", u="INTEGER", a="INTEGER"),
        "s": table("s", unit="u", u="INTEGER", a="INTEGER"),
        "n": table("n", u="INTEGER"),
        "p": P,
    }
)


def test_a_row_of_the_result_is_one_units() -> None:
    def unit(text: str) -> list[str]:
        return [str(column) for column in parse(COUNT + text, UNITS, units=True).unit]

    assert unit("r") == ["r.u"]
    assert unit("r JOIN s USING (u) JOIN p ON r.a = p.id") == ["r.u", "s.u"]
    # By way of another column, and of a subquery.
    assert unit("(SELECT DISTINCT u, a FROM r) q JOIN s ON q.a = s.a AND q.a = s.u AND q.u = s.a") == [
        "r.a",
        "r.u",
        "s.a",
        "s.u",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("r JOIN s USING (a)", "r.u = s.u must be among"),
        ("r JOIN s ON r.a = s.a WHERE r.u = s.u OR r.a = 1", "r.u = s.u must be among"),
        ("r JOIN r q ON r.a = q.a", "must be among"),
        ("(SELECT DISTINCT a FROM r) q", "DISTINCT must have the unit's column"),
        ("n", "must have a unit"),
    ],
)
def test_rows_that_could_be_several_units_are_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        parse(COUNT + text, UNITS, units=True)


def test_no_value_of_an_enum_is_shown() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE v (e ENUM('hushhush', 'b'), f ENUM('hushhush2'), n INTEGER, s VARCHAR)")
    sql = PrivateSQL(connection, epsilon=1.0, categories={"v.e": ["b"]}, bins={"v.f": [0, 1]}, bounds={"v.e": (0, 1)})
    for text in (
        "SELECT COUNT(*) FROM v WHERE e = 1",
        "SELECT COUNT(*) FROM v WHERE e",
        "SELECT COUNT(*) FROM v WHERE n < e",
        "SELECT SUM(e) FROM v",
        "SELECT f, COUNT(*) FROM v GROUP BY f",
    ):
        with pytest.raises(InvalidParameter) as caught:
            sql.query(text)
        assert "ENUM" in str(caught.value) and "hush" not in str(caught.value)


def test_enums_and_uuids_are_text_and_whole_numbers_have_one_type() -> None:
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE v AS SELECT CAST(CASE WHEN i % 3 = 0 THEN 'b' ELSE 'a' END AS ENUM('b', 'a')) AS e, "
        "CAST(lpad(CAST(i % 4 AS VARCHAR), 32, '0') AS UUID) AS u, CAST(i % 5 AS UTINYINT) AS n FROM range(900) t(i)"
    )
    connection.execute("CREATE TABLE w AS SELECT CAST(i AS BIGINT) AS n, CAST(i AS VARCHAR) AS s FROM range(3) t(i)")
    one = "00000000-0000-0000-0000-000000000001"
    sql = PrivateSQL(
        connection, epsilon=1e5, public_tables=["w"], random_state=0, categories={"v.e": ["a", "b"], "v.u": [one]}
    )
    for text in (
        "SELECT COUNT(*) FROM v WHERE e = 'b'",
        "SELECT COUNT(*) FROM v WHERE e < 'b'",
        "SELECT COUNT(*) FROM v WHERE e LIKE 'b%' OR e NOT LIKE 'a' AND e IN ('a', 'b')",
        f"SELECT COUNT(*) FROM v WHERE u = '{one}'",
        "SELECT COUNT(*) FROM v JOIN w ON v.n = w.n WHERE w.n BETWEEN 1 AND 5",
        "SELECT COUNT(DISTINCT e) FROM v",
    ):
        as_text = text.replace(" e ", " CAST(e AS VARCHAR) ")
        assert sql.count(text).value == pytest.approx(connection.execute(as_text).fetchone()[0], abs=0.1)
    table = sql.query("SELECT e, u, COUNT(*) FROM v GROUP BY e, u")
    assert table.cells == (("a", one), ("b", one)) and table.values.round().tolist() == [150, 75]


def test_real_numbers_are_no_keys_of_using() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE a AS SELECT 0.0::DOUBLE AS x; CREATE TABLE b AS SELECT -0.0::DOUBLE AS x")
    sql = PrivateSQL(connection, epsilon=1.0)
    for join in ("USING (x)", "ON a.x = b.x"):
        with pytest.raises(InvalidParameter, match="equality of two columns of real numbers"):
            sql.explain(f"SELECT COUNT(*) FROM a JOIN b {join}")


@pytest.mark.parametrize("unit", [None, "person"])
def test_values_are_not_counted_apart_in_bins(unit: str | None) -> None:
    # A planted bug: pairs of a value and a number in the bin are counted.
    connection = duckdb.connect()
    connection.execute("CREATE TABLE v AS SELECT i % 10 AS person, i AS age FROM range(100) t(i)")
    sql = PrivateSQL(connection, epsilon=1.0, bins={"v.age": [0, 50, 100]}, unit=unit)
    with pytest.raises(InvalidParameter, match="GROUP BY age, which has bins"):
        sql.query("SELECT age, COUNT(DISTINCT person) FROM v GROUP BY age")


def test_a_query_of_the_most_characters_is_read() -> None:
    text = "SELECT COUNT(*) FROM r".ljust(20_000)
    assert read(text).measure.kind == "count"
    with pytest.raises(InvalidParameter, match="at most 20,000 characters, got 20,001"):
        read(text + " ")


def test_a_star_keeps_the_names_that_a_subquery_gives() -> None:
    swapped = "(SELECT a AS b, b AS a FROM r) q"
    for text in (f"(SELECT * FROM {swapped}) w", f"(SELECT * FROM (SELECT * FROM {swapped}) v) w"):
        query = read(f"{COUNT}{text} WHERE w.a = 1")
        assert query.relation.condition == All((Compare("=", Column("r", "b"), Literal(1, "BIGINT")),))


def test_groups_have_the_names_of_select_each_once() -> None:
    query = read("SELECT b AS kind, COUNT(*) FROM r GROUP BY b, b ORDER BY b")
    assert [group.name for group in query.groups] == ["kind"] and query.cells == 2
    assert query.arrangement.order == read("SELECT b, COUNT(*) FROM r GROUP BY b ORDER BY r.b").arrangement.order
    (group,) = read("SELECT z, COUNT(*) FROM (SELECT b AS z FROM r) q GROUP BY z ORDER BY z").groups
    assert group.name == "z"
    twice = "SELECT r.b AS one, q.b AS other, COUNT(*), SUM(r.x) FROM r JOIN r AS q ON r.a = q.a GROUP BY r.b, q.b"
    assert [group.name for group in read(twice).groups] == ["one", "other"]


@pytest.mark.parametrize("grouped", ["1", "kind", "KIND", "b, 1, kind"])
def test_groups_are_numbers_or_aliases_of_select(grouped: str) -> None:
    query = read(f"SELECT b AS kind, COUNT(*) AS n FROM r GROUP BY {grouped} ORDER BY n DESC")
    same = read("SELECT b AS kind, COUNT(*) AS n FROM r GROUP BY b ORDER BY n DESC")
    assert (query.groups, query.measure, query.arrangement) == (same.groups, same.measure, same.arrangement)


def test_a_column_of_from_hides_an_alias() -> None:
    # As in DuckDB: x is the column, which is not declared, and not the alias of b.
    with pytest.raises(InvalidParameter, match="GROUP BY x must have declared values"):
        read("SELECT b AS x, COUNT(*) FROM r GROUP BY x")


def test_names_ignore_the_case_of_ascii_letters_only() -> None:
    database = duckdb.connect()
    database.execute('CREATE TABLE t ("Ä" INT, "ä" INT)')
    database.execute("INSERT INTO t VALUES (1, 2), (NULL, 5), (NULL, 7)")
    database.execute('CREATE TABLE "É" AS SELECT 1 AS a')
    database.execute('CREATE TABLE "é" AS SELECT 1 AS a FROM range(5)')
    sql = PrivateSQL(database, epsilon=1000.0, public_tables=["é"], random_state=0)
    answers = {text: sql.query(text).value for text in ('SELECT COUNT("Ä") FROM t', 'SELECT COUNT("ä") FROM T')}
    assert [*answers.values()] == [1.0, 3.0] and sql.query('SELECT COUNT(*) FROM "É"').value == 1.0
    with pytest.raises(InvalidParameter, match="names that differ in more than case, got 't' and 'T'"):
        PrivateSQL({"t": database.sql("FROM t").df(), "T": database.sql("FROM t").df()}, epsilon=1.0)


EVERY_CLAUSE = [
    "SELECT COUNT(DISTINCT a) FROM r WHERE b > 3 AND (x <= 2.5 OR NOT f) AND name LIKE 'a%' AND b IN (1, 2)",
    "SELECT b, SUM(x) AS total, COUNT(*) FILTER (WHERE f) FROM r GROUP BY b "
    "HAVING COUNT(*) FILTER (WHERE f) > 3 ORDER BY 2 DESC, b LIMIT 2",
    "SELECT AVG(x + 2 * b - 1), VARIANCE(b), STDDEV_POP(x) FROM r WHERE x IS NOT NULL AND b BETWEEN 1 AND 5",
    "SELECT MEDIAN(b) FROM r",
    "SELECT QUANTILE_CONT(x, 0.9) FROM r",
    "SELECT PERCENTILE_CONT(0.75) WITHIN GROUP (ORDER BY x DESC) FROM r",
    "SELECT COUNT(*) FROM r one JOIN s ON one.a = s.c WHERE s.a = 1",
    "SELECT COUNT(*) FROM r LEFT JOIN s USING (a)",
    "WITH w AS (SELECT a, b FROM r WHERE b > 2) SELECT COUNT(*) FROM w",
    "SELECT COUNT(*) FROM (SELECT a FROM r) AS q",
    "SELECT SUM(CASE WHEN f THEN b ELSE 0 END), SUM(COALESCE(x, 1)) FROM r",
    "SELECT COUNT(*) FROM r WHERE d >= DATE '2025-01-31' AND t < TIMESTAMP '2025-02-01 00:00:00'",
    "SELECT COUNT(*) FROM r WHERE f IN (SELECT f FROM r WHERE a = 2)",
    "SELECT COUNT(*) FROM (SELECT DISTINCT a, b FROM r) AS q",
]
LEAVES = {"Literal", "Null", "DataType", "Boolean"}


@pytest.mark.parametrize("text", EVERY_CLAUSE)
def test_a_part_that_is_not_known_is_refused_wherever_it_stands(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # A later version of sqlglot may put the meaning of a clause into an argument that is new.
    read(text)
    (tree,) = parse_text(text, read="duckdb")
    for place, node in enumerate(tree.walk()):
        if type(node).__name__ in LEAVES:
            continue
        (changed,) = parse_text(text, read="duckdb")
        list(changed.walk())[place].args["strange"] = "meaning"
        with monkeypatch.context() as patched:
            patched.setattr("sqlglot.parse", lambda *_, tree=changed, **__: [tree])
            with pytest.raises(InvalidParameter, match="STRANGE"):
                read(text)


def test_a_text_with_a_zero_byte_is_no_literal() -> None:
    # A database may end the text there.
    for condition in ("name = 'a\0b'", "name IN ('a', '\0')", "'\0' <> name"):
        with pytest.raises(InvalidParameter, match="name must be compared with a literal of its type VARCHAR"):
            read(f"{COUNT}r WHERE {condition}")


@pytest.mark.parametrize("selected", ["COUNT({})", "COUNT(DISTINCT {})", "SUM({})", "AVG({})", "MEDIAN({})"])
def test_parentheses_around_a_column_change_nothing(selected: str) -> None:
    plain, one, two = (read(f"SELECT {selected.format(x)} FROM r") for x in ("b", "(b)", "((b))"))
    assert plain.measure == one.measure == two.measure and plain.quantiles == one.quantiles == two.quantiles


def test_rows_of_a_query_are_counted_by_a_count_where_there_is_one() -> None:
    kinds = {name: (name, replace(duckdb_type("INTEGER"), required=True)) for name in ("x", "n")}
    catalogue = Catalogue({"q": BaseTable("q", '"q"', kinds)}, bounds={("q", "x"): (0.0, 1.0)})
    for columns in ("COUNT(*), SUM(x), COUNT(n)", "SUM(x), COUNT(n), COUNT(*)"):
        measure = parse(f"SELECT {columns} FROM q", catalogue).measure
        assert measure.columns[measure.rows].kind == "count"
