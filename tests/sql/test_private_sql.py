"""PrivateSQL: from text to an answer and a charge; what is refused, and what nobody gets to see."""

from __future__ import annotations

import inspect
import re
from typing import Any

import duckdb
import numpy as np
import pytest

from dpstats.errors import BudgetExceeded, InvalidData, InvalidParameter
from dpstats.privacy import Discovery, Neighbors, PrivacyBudget, PrivacyGuarantee
from dpstats.sensitivity.elastic import tables
from dpstats.sql import PrivateSQL
from dpstats.sql import kinds as kinds_of_queries
from dpstats.sql.compile import Source

PAIRS = "SELECT COUNT(*) FROM r JOIN s ON r.a = s.a"


@pytest.fixture
def connection() -> Any:
    made = duckdb.connect()
    made.execute("CREATE TABLE r AS SELECT i % 7 AS a, i % 30 AS u, i % 2 AS g FROM range(210) t(i)")
    made.execute("CREATE TABLE s AS SELECT i % 7 AS a, i % 30 AS u FROM range(777) t(i)")
    made.execute("CREATE TABLE p AS SELECT i AS a FROM range(7) t(i)")
    return made


def test_an_answer_is_one_charge_and_one_release(connection: Any) -> None:
    budget = PrivacyBudget(2.5)
    made = PrivateSQL(connection, epsilon=1.0, public_tables=["p"], budget=budget)
    answer = made.count("SELECT COUNT(*) FROM r JOIN p USING (a)")
    assert abs(answer.value - 210) < 60 and answer.guarantee == PrivacyGuarantee(1.0)
    made.query(PAIRS)
    assert [kept.label for kept in budget.history()] == ["PrivateSQL"] * 2
    with pytest.raises(BudgetExceeded):
        made.count(PAIRS)
    assert len(budget.history()) == 2


def test_noise_of_a_join_is_for_the_frequencies_in_its_tables(connection: Any) -> None:
    # Seven values, with 30 rows of one table and 111 of the other.
    answer = PrivateSQL(connection, epsilon=10.0, delta=1e-6, random_state=0).count(PAIRS)
    low, high = answer.confidence_interval()
    assert low < 7 * 30 * 111 < high and high - low < 1000


def test_a_budget_that_cannot_pay_is_asked_before_the_data(connection: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = PrivateSQL(connection, epsilon=1.0, budget=PrivacyBudget(0.5))
    monkeypatch.setattr(Source, "run", lambda *args: pytest.fail("the data were read"))
    with pytest.raises(BudgetExceeded):
        made.count(PAIRS)


def test_plans_and_explanations_show_no_number_of_private_tables(connection: Any) -> None:
    first = PrivateSQL(connection, epsilon=1.0, delta=1e-6)
    said = first.explain(PAIRS), first.plan_for(PAIRS), repr(first.plan_for(PAIRS))
    connection.execute("INSERT INTO r SELECT 1, 1, 1 FROM range(3333)")
    other = PrivateSQL(connection, epsilon=1.0, delta=1e-6)
    assert said == (other.explain(PAIRS), other.plan_for(PAIRS), repr(other.plan_for(PAIRS)))
    assert "mf(r.a, k)" in said[0] and not re.search(r"\d{2}", said[0])
    assert other._data.frequency(other._data.tables()["r"], "a") > 3333


def test_the_noise_is_new_each_time(connection: Any) -> None:
    # Noise from a generator that the query seeds is the same each time: a planted bug of others.
    made = PrivateSQL(connection, epsilon=0.1, public_tables=["p"])
    assert len({made.count("SELECT COUNT(*) FROM r").value for _ in range(12)}) > 4


def test_units_are_counted_once_and_null_is_none(connection: Any) -> None:
    connection.execute("INSERT INTO r SELECT 0, NULL, 0 FROM range(500)")
    options: dict[str, Any] = {"epsilon": 1.0, "unit": "u", "public_tables": ["p"], "random_state": 0}
    made = PrivateSQL(connection, **options)
    query = made._parsed("SELECT COUNT(*) FROM r")
    private = made._kind(query).read(made._kind(query).plan())
    assert private.above is not None and private.cut is not None
    # Thirty units of seven rows.
    assert private.above["answer"] == [30, 30, 30, *[0] * 18]
    assert [int(x[0]) for x in private.cut["answer"]][:5] == [30, 60, 120, 210, 210]
    counted = made._parsed("SELECT COUNT(DISTINCT r.u) FROM r JOIN s USING (u)")
    assert int(made._kind(counted).read(made._kind(counted).plan()).numbers[0]) == 30
    assert made.explain("SELECT COUNT(DISTINCT u) FROM r") == "distinct: 1, as a u is counted once"
    assert "one u replaced" in str(made.count("SELECT COUNT(DISTINCT u) FROM r").guarantee)


def test_the_largest_threshold_is_declared(connection: Any) -> None:
    few = PrivateSQL(connection, epsilon=1.0, unit="u", public_tables=["p"], unit_limit=4)
    connection.execute("INSERT INTO r SELECT 0, 1, 0 FROM range(5000)")
    many = PrivateSQL(connection, epsilon=1.0, unit="u", public_tables=["p"], unit_limit=4)
    text = "SELECT COUNT(*) FROM r"
    assert few.plan_for(text) == many.plan_for(text) and few.plan_for(text).truncations[0].powers == (0, 2)


def test_cells_of_units_are_cut_in_proportion(connection: Any) -> None:
    made = PrivateSQL(connection, epsilon=1.0, unit="u", public_tables=["p"], categories={"r.g": [0, 1]}, unit_limit=8)
    query = made._parsed("SELECT g, COUNT(*) FROM r GROUP BY g")
    private = made._kind(query).read(made._kind(query).plan())
    rows = connection.execute("SELECT u, g, count(*) FROM r GROUP BY u, g").fetchall()
    for j, found in enumerate(private.cut["answer"]):  # type: ignore[index]
        for g in (0, 1):
            total = sum(
                1024 * n * 2**j // max(2**j, sum(m for v, _, m in rows if v == u)) for u, h, n in rows if h == g
            )
            assert int(found[g]) == total


def test_a_connection_is_left_as_it_is(connection: Any) -> None:
    settings = connection.execute("SELECT name, value FROM duckdb_settings()").fetchall()
    made = PrivateSQL(connection, epsilon=1.0, random_state=0)
    made.count("SELECT COUNT(*) FROM r")
    assert connection.execute("SELECT name, value FROM duckdb_settings()").fetchall() == settings
    connection.execute("DELETE FROM r")
    assert made.count("SELECT COUNT(*) FROM r").value > 150
    made.refresh()
    assert made.count("SELECT COUNT(*) FROM r").value < 50


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 0}, "epsilon must be"),
        ({"delta": 0.7}, "delta must be"),
        ({"public_tables": "p"}, "public_tables must be a sequence"),
        ({"public_tables": ["q"]}, "public_tables must name tables"),
        ({"unit": 3}, "unit must be a column's name"),
        ({"unit": {"q": "a"}}, "unit must name known tables"),
        ({"unit": {"r": "z"}}, "must name columns of r .*got 'z'"),
        ({"truncation": "clip"}, "truncation must be one of"),
        ({"unit_limit": 1}, "unit_limit must be"),
        ({"interval": 1}, "interval must be True or False"),
        ({"bounds": {"r.a": (1, 0)}}, r"bounds\['r.a'\] must be low < high"),
        ({"bounds": {"r.a": 3}}, r"bounds\['r.a'\] must be two numbers"),
        ({"bounds": {"r.z": (0, 1)}}, r"must name columns of r \(\[.*\]\)"),
        ({"bins": {"r.a": (3, 1)}}, r"bins\['r.a'\] must be two edges or more"),
        ({"bins": {"r.g": (0, 1)}, "categories": {"r.g": [0]}}, "without categories"),
        ({"categories": {"r.g": "ab"}}, r"categories\['r.g'\] must be a sequence"),
        ({"categories": {"r.g": [1, 1]}}, "different values"),
        ({"categories": {"r.g": [[1]]}}, r"categories\['r.g'\] must be a sequence"),
        ({"categories": {"r.g": 5}}, r"categories\['r.g'\] must be a sequence"),
        ({"categories": ["r.g"]}, "categories must be a mapping of names, got list"),
        ({"keys": "r.a"}, "keys must be a mapping of names, got str"),
        ({"bins": {"r.a": 3}}, r"bins\['r.a'\] must be two edges or more"),
        ({"public_tables": None}, "public_tables must be a sequence"),
        ({"unit": {"r": "a", "R": "g"}}, "unit must name each table once"),
    ],
)
def test_bad_parameters_are_named(connection: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        PrivateSQL(connection, **{"epsilon": 1.0, **options})


@pytest.mark.parametrize(("value", "advice"), [(None, "count such rows with IS NULL."), ("a", ""), (0.5, "")])
def test_declared_values_of_another_type_are_refused_by_the_name_of_their_parameter(
    connection: Any, value: Any, advice: str
) -> None:
    budget = PrivacyBudget(5.0)
    made = PrivateSQL(connection, epsilon=1.0, categories={"r.g": [0, value]}, budget=budget)
    message = rf"categories\['r.g'\] must be values of its type BIGINT, got another.*{advice}$"
    with pytest.raises(InvalidParameter, match=message):
        made.query("SELECT g, COUNT(*) FROM r GROUP BY g")
    assert budget.history() == ()


def test_a_closed_connection_is_refused() -> None:
    closed = duckdb.connect()
    closed.close()
    with pytest.raises(InvalidParameter, match="connection must be open"):
        PrivateSQL(closed, epsilon=1.0)


@pytest.mark.parametrize(
    ("options", "text", "message"),
    [
        ({}, "SELECT g, COUNT(*) FROM r GROUP BY g", r"sql must have one COUNT"),
        ({"bounds": {"r.a": (0, 9)}}, "SELECT SUM(a) FROM r", r"sql must have one COUNT"),
        ({"unit": "u"}, "SELECT COUNT(DISTINCT a) FROM r", "only units can be counted so"),
        ({"unit": "u"}, PAIRS, "r.u = s.u must be among"),
        ({"unit": "u"}, "SELECT COUNT(*) FROM p", "must have a unit"),
        ({"unit": "u", "truncation": "race"}, "SELECT g, COUNT(*) FROM r GROUP BY g", "one COUNT"),
    ],
)
def test_a_refused_query_is_not_charged(connection: Any, options: dict[str, Any], text: str, message: str) -> None:
    budget = PrivacyBudget(5.0)
    made = PrivateSQL(connection, epsilon=1.0, categories={"r.g": [0, 1]}, budget=budget, **options)
    with pytest.raises(InvalidParameter, match=message):
        made.count(text)
    assert budget.history() == ()


def test_only_one_function_sees_both_data_and_noise() -> None:
    kinds = [kind for kind in vars(kinds_of_queries).values() if isinstance(kind, type)]
    kinds = [kind for kind in kinds if issubclass(kind, kinds_of_queries.Kind)]
    assert len(kinds) > 8 and "session" in inspect.getsource(kinds_of_queries.Public.release)
    for kind in kinds:
        for name in {"read", "plan", "_plan", "answer", "explain"} & vars(kind).keys():
            assert "session" not in inspect.getsource(vars(kind)[name])


def test_names_with_dots_are_those_of_one_column() -> None:
    # A planted bug: the frequency of "b.c" of a is that of c of "a.b".
    connection = duckdb.connect()
    connection.execute('CREATE TABLE a AS SELECT i::INTEGER AS "b.c" FROM range(9) t(i)')
    connection.execute('CREATE TABLE "a.b" AS SELECT 0 AS c FROM range(100)')
    sql = PrivateSQL(connection, epsilon=1.0)
    query = sql._parsed('SELECT COUNT(*) FROM a JOIN "a.b" x ON a."b.c" = x.c')
    assert sql._kind(query).setting.elastic(query).at_distance(0) == 100
    with pytest.raises(InvalidParameter, match="may be two"):
        PrivateSQL(connection, epsilon=1.0, bounds={"a.b.c": (0, 1)})
    connection.execute("DROP TABLE a")
    PrivateSQL(connection, epsilon=1.0, bounds={"a.b.c": (0, 1)})
    with pytest.raises(InvalidParameter, match="each column once"):
        PrivateSQL(connection, epsilon=1.0, bounds={"a.b.c": (0, 1), "A.B.c": (0, 2)})


def test_a_table_may_be_called_as_an_instance_of_another() -> None:
    connection = duckdb.connect()
    connection.execute(
        'CREATE TABLE v AS SELECT 1 AS k FROM range(3); CREATE TABLE "v#2" AS SELECT 1 AS k FROM range(5)'
    )
    sql = PrivateSQL(connection, epsilon=1.0)
    query = sql._parsed('SELECT COUNT(*) FROM v JOIN v w USING (k) JOIN "v#2" x USING (k)')
    assert len({table.instance for table in tables(query.relation)}) == 3


# Left joins and keys


def star() -> Any:
    db = duckdb.connect()
    db.execute("CREATE TABLE visit AS SELECT i AS n, i % 7 AS clinic, i % 50 AS person FROM range(700) t(i)")
    db.execute("CREATE TABLE clinic AS SELECT i AS id, i < 2 AS rural FROM range(4) t(i)")
    db.execute("CREATE TABLE person (id INTEGER NOT NULL, age INTEGER NOT NULL)")
    db.execute("INSERT INTO person SELECT i, 20 + i FROM range(40) t(i)")
    return db


LEFT = "SELECT COUNT(*) FROM visit LEFT JOIN clinic ON clinic = id WHERE rural IS NULL"


def test_a_left_join_keeps_rows_without_a_partner() -> None:
    sql = PrivateSQL(star(), epsilon=60.0, public_tables=["clinic"], random_state=0)
    assert sql.count(LEFT).value == star().execute(LEFT).fetchone()[0] == 300
    assert sql.explain(LEFT).splitlines()[2].strip() == "left join on visit.clinic = clinic.id: max(mf(clinic.id), 1)"
    both = "SELECT COUNT(*) FROM visit LEFT JOIN (SELECT id FROM clinic WHERE rural) c ON clinic = c.id AND c.id > 0"
    assert sql.count(both).value == 700
    assert sql.count(both + " WHERE c.id IS NOT NULL").value == 100


def test_a_left_join_is_an_inner_join_where_rows_without_a_partner_do_not_count() -> None:
    sql = PrivateSQL(
        star(),
        epsilon=60.0,
        public_tables=["visit"],
        keys={"person": "id"},
        bounds={"person.age": (0, 100), "visit.n": (0, 700)},
        categories={"person.age": range(20, 60)},
        random_state=0,
    )
    joined = "FROM visit LEFT JOIN person ON visit.person = id"
    needed = (
        f"SELECT COUNT(*) {joined} WHERE age > 30 AND n < 600",
        f"SELECT COUNT(*) {joined} WHERE age IS NOT NULL",
        f"SELECT COUNT(*) {joined} GROUP BY age",
        f"SELECT COUNT(age) {joined}",
        f"SELECT COUNT(DISTINCT age) {joined}",
        f"SELECT SUM(age), AVG(age) {joined}",
        f"SELECT COUNT(*) {joined} JOIN (SELECT id FROM person) q ON q.id = person.id",
    )
    kept = (
        f"SELECT COUNT(*) {joined} WHERE n < 600",
        f"SELECT COUNT(*) {joined} WHERE NOT (age > 30) OR n < 600",
        f"SELECT COUNT(*), SUM(age) {joined}",
        f"SELECT SUM(n), SUM(age) {joined}",
        f"SELECT SUM(COALESCE(age, 1)) {joined}",
        f"SELECT COUNT(*) FILTER (WHERE age > 30) {joined}",
    )
    for texts, is_outer in ((needed, False), (kept, True)):
        for text in texts:
            assert ("left join" in sql.explain(text)) is is_outer, text
    assert sql.count(needed[0]).value == star().execute(needed[0]).fetchone()[0]


def test_a_not_null_column_may_be_missing_after_a_left_join() -> None:
    db = star()
    sql = PrivateSQL(db, epsilon=60.0, public_tables=["person"], bounds={"person.age": (0, 100)}, random_state=0)
    text = "SELECT COUNT(*), COUNT(age), SUM(age) FROM visit LEFT JOIN person ON person = id"
    exact = db.execute(text).fetchone()
    np.testing.assert_allclose(sql.query(text).values[0], exact, rtol=1e-3)
    assert exact[0] == 700 and exact[1] == 560


def test_a_key_makes_the_bound_a_constant_and_is_checked() -> None:
    joined = "SELECT COUNT(*) FROM visit LEFT JOIN person ON person = id WHERE age > 30"
    sql = PrivateSQL(star(), epsilon=1.0, public_tables=["visit"], keys={"person": "id"})
    assert sql.explain(joined).splitlines()[0] == "count: mf(visit.person)"
    assert sql.plan_for(joined).stages[0].sensitivity_steps == 14
    public = PrivateSQL(star(), epsilon=1.0, public_tables=["person"], keys={"PERSON": "ID"})
    assert public.plan_for(joined).stages[0].sensitivity_steps == 1
    budget = PrivacyBudget(epsilon=1.0)
    with pytest.raises(
        InvalidData, match=r"keys\['visit'\] must be a column without repeated values, got visit.person"
    ):
        PrivateSQL(star(), epsilon=1.0, keys={"visit": "person"}, budget=budget)
    assert budget.spent.epsilon == 0
    for keys, words in (
        ({"nowhere": "id"}, r"keys must be a mapping of names of tables"),
        ({"visit": "nothing"}, r"keys\['visit'\] must name a column of a table"),
        ({"person": ("id", "age")}, r"keys must be a mapping of names of tables to names of columns"),
    ):
        with pytest.raises(InvalidParameter, match=words):
            PrivateSQL(star(), epsilon=1.0, keys=keys)
    changed = star()
    snapshot = PrivateSQL(changed, epsilon=1.0, keys={"person": "id"})
    changed.execute("INSERT INTO person VALUES (0, 99)")
    with pytest.raises(InvalidData, match="has a value twice"):
        snapshot.refresh()
    with pytest.raises(InvalidParameter, match="FROM must name base tables"):
        snapshot.count("SELECT COUNT(*) FROM person")


def test_partners_are_of_one_unit() -> None:
    sql = PrivateSQL(star(), epsilon=1.0, unit={"visit": "person", "person": "id"}, public_tables=["clinic"])
    own = "SELECT COUNT(*) FROM person LEFT JOIN visit ON id = person WHERE person IS NULL"
    assert "every row is of one unit (person.id); rows without one do not count" in sql.explain(own)
    assert "one unit" in sql.explain("SELECT COUNT(*) FROM visit LEFT JOIN clinic ON clinic = id")
    for text in (
        "SELECT COUNT(*) FROM person LEFT JOIN visit ON id = n",
        "SELECT COUNT(*) FROM clinic LEFT JOIN visit ON id = clinic",
        # The partner's unit equals the row's by another left join only, which keeps rows where it does not.
        "SELECT COUNT(*) FROM visit v LEFT JOIN visit w USING (n) LEFT JOIN person ON v.person = id AND w.person = id",
    ):
        with pytest.raises(InvalidParameter, match="a LEFT JOIN must be on the columns of the units"):
            sql.count(text)
    # The two people are equal where there is a clinic, and the other rows stay.
    with pytest.raises(InvalidParameter, match="a row of the result must be one unit's"):
        sql.count(
            "SELECT COUNT(*) FROM visit v JOIN visit w USING (n) LEFT JOIN clinic ON v.person = id AND w.person = id"
        )


# Units by a path


PATHS = {"orders": "customer", "items": "number -> orders.id", "parts": "item -> items.id"}


def shop() -> Any:
    db = duckdb.connect()
    db.execute("CREATE TABLE orders AS SELECT i AS id, i % 30 AS customer FROM range(300) t(i)")
    db.execute("CREATE TABLE items AS SELECT i AS id, i % 310 AS number, i % 4 AS price FROM range(3000) t(i)")
    db.execute("CREATE TABLE parts AS SELECT i % 3100 AS item FROM range(6000) t(i)")
    db.execute("CREATE TABLE customer AS SELECT i AS id, i % 2 AS region FROM range(30) t(i)")
    return db


def test_a_unit_is_found_by_foreign_keys() -> None:
    options: dict[str, Any] = {"epsilon": 500.0, "public_tables": ["customer"], "random_state": 0}
    sql = PrivateSQL(shop(), unit=PATHS, **options)
    owned = shop().execute("SELECT COUNT(*) FROM items JOIN orders ON number = orders.id").fetchone()[0]
    # Items of no order have no unit, and do not count.
    assert sql.count("SELECT COUNT(*) FROM items").value == pytest.approx(owned, abs=5) and owned < 2980
    deep = "parts JOIN items ON item = items.id JOIN orders ON number = orders.id"
    exact = shop().execute(f"SELECT COUNT(*) FROM {deep}").fetchone()[0]
    for text in ("parts", deep):
        assert abs(sql.count(f"SELECT COUNT(*) FROM {text}").value - exact) < 20
    by_region = PrivateSQL(shop(), unit=PATHS, categories={"customer.region": [0, 1]}, **options).query(
        "SELECT region, COUNT(*) FROM items JOIN orders ON number = orders.id JOIN customer ON customer = customer.id "
        "GROUP BY region"
    )
    assert abs(by_region.values.sum() - owned) < 20
    assert "every row is of one unit (orders.customer" in sql.explain("SELECT COUNT(*) FROM items")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM items i JOIN items j ON i.number = j.number",
        "SELECT COUNT(*) FROM orders LEFT JOIN items ON orders.id = number WHERE price IS NULL",
        "SELECT COUNT(*) FROM items LEFT JOIN orders ON orders.id = number",
        "SELECT COUNT(*) FROM orders SEMI JOIN items ON orders.id = number AND items.price > 2",
        "SELECT COUNT(DISTINCT customer) FROM orders JOIN items ON orders.id = number",
        "SELECT COUNT(*) FROM orders JOIN (SELECT DISTINCT number, price FROM items) i ON i.number = orders.id",
    ],
)
def test_rows_of_one_key_are_of_one_unit(text: str) -> None:
    sql = PrivateSQL(shop(), epsilon=500.0, unit=PATHS, public_tables=["customer"], random_state=0)
    owned = "items AS (SELECT * FROM main.items WHERE number < 300)"
    exact = shop().execute(f"WITH {owned} {text}").fetchone()[0]
    assert abs(sql.count(text).value - exact) < 0.002 * exact + 0.5


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT COUNT(*) FROM items i JOIN items j ON i.price = j.price", "a row of the result must be one unit's"),
        ("SELECT COUNT(*) FROM items i JOIN orders ON i.price = orders.id", "a row of the result must be one unit's"),
        ("SELECT COUNT(*) FROM orders LEFT JOIN items ON orders.id = price", "a LEFT JOIN must be on the columns"),
        ("SELECT COUNT(*) FROM (SELECT DISTINCT price FROM items) i", "DISTINCT must have the unit's column"),
        ("SELECT COUNT(*) FROM (SELECT DISTINCT number FROM items) i", "the result must have the unit's column"),
        ("SELECT COUNT(DISTINCT number) FROM items", "only units can be counted so"),
    ],
)
def test_rows_of_several_units_are_refused(text: str, words: str) -> None:
    sql = PrivateSQL(shop(), epsilon=1.0, unit=PATHS, public_tables=["customer"])
    with pytest.raises(InvalidParameter, match=words):
        sql.query(text)


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        ({"items": "number -> orders.id"}, r"unit\['items'\] must lead to .* orders, which has no unit"),
        ({"items": "number -> customer.id"}, r"unit\['items'\] must lead to .*, got customer, which is public"),
        ({"items": "nothing -> orders.id"}, r"unit\['items'\] must be a column, or a path 'column -> table.key'"),
        ({"items": "number -> orders"}, r"unit\['items'\] must be a column, or a path"),
        ({"items": "number -> orders.nothing"}, r"unit\['items'\] must lead to a column of orders, got 'nothing'"),
        ({"items": "id -> parts.item", "parts": "item -> items.id"}, "got the circle items -> parts -> items"),
    ],
)
def test_paths_lead_to_a_column(unit: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        PrivateSQL(shop(), epsilon=1.0, unit=unit, public_tables=["customer"])


def test_the_end_of_an_arrow_is_a_key() -> None:
    db = shop()
    db.execute("INSERT INTO orders VALUES (0, 29)")
    with pytest.raises(InvalidData, match=r"unit\['items'\] must be a column without repeated values, got orders.id"):
        PrivateSQL(db, epsilon=1.0, unit=PATHS)
    db.execute("CREATE TABLE words AS SELECT 'a' AS number")
    with pytest.raises(InvalidParameter, match=r"unit\['words'\]: number and id must have the same type"):
        PrivateSQL(db, epsilon=1.0, unit={"orders": "customer", "words": "number -> orders.id"})


def test_an_added_row_costs_half_of_a_replaced_one_in_cells() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT i % 3 AS g, i % 5 AS x, i % 90 AS u FROM range(900) s(i)")
    options: dict[str, Any] = {"epsilon": 1.0, "random_state": 0}
    declared: dict[str, Any] = {"categories": {"t.g": [0, 1, 2]}, "bounds": {"t.x": (-1, 4)}}
    times = {
        "SELECT g, COUNT(*) FROM t GROUP BY g": 0.5,
        "SELECT g, SUM(x) FROM t GROUP BY g": 0.5,
        "SELECT g, AVG(x) FROM t GROUP BY g": 0.5,
        "SELECT g, COUNT(x), AVG(x), STDDEV(x) FROM t GROUP BY g": 0.5,
        "SELECT COUNT(x), AVG(x) FROM t": 0.5,
        "SELECT AVG(x) FROM t": 0.5,
        "SELECT COUNT(*) FROM t": 1.0,
        "SELECT SUM(x) FROM t": 0.8,
    }
    for text, factor in times.items():
        replaced, added = (
            PrivateSQL(connection, neighbors=neighbors, **options, **declared)
            for neighbors in ("replace_one", "add_or_remove")
        )
        steps = [made.plan_for(text).additive[0].sensitivity_steps for made in (replaced, added)]
        assert steps[1] == pytest.approx(factor * steps[0]), text
        answer = added.query(text)
        facts = dict(answer.summary().facts)
        assert "one row added or removed" in facts["Privacy"] and "one row replaced" in facts["Implied privacy"]
    of_units = PrivateSQL(connection, unit="u", neighbors="add_or_remove", **options, **declared)
    answer = of_units.query("SELECT g, AVG(x) FROM t GROUP BY g")
    assert "one u added or removed" in str(answer.guarantee)


def test_shares_of_one_cell_are_not_paired_where_a_row_is_added() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT i % 5 AS x FROM range(90) s(i)")
    made = PrivateSQL(connection, epsilon=1.0, neighbors="add_or_remove", bounds={"t.x": (0, 4)}, random_state=0)
    answers = made.query("SELECT COUNT(x), SUM(x) FROM t")
    # Two numbers of scale 1, where replaced rows have one of scale 2.
    assert answers.estimates().error[0] == pytest.approx(2.0, rel=0.01)
    assert abs(answers["count_x"][0] - 90) < 20 and abs(answers["sum_x"][0] - 180) < 60


def test_undeclared_values_of_a_private_number_of_rows() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT i % 3 AS g FROM range(90) s(i)")
    budget = PrivacyBudget(epsilon=1.0, delta=1e-3, neighbors=Neighbors.ADD_OR_REMOVE_ONE)
    made = PrivateSQL(
        connection, epsilon=1.0, delta=1e-6, neighbors="add_or_remove", categories={"t.g": "discover"}, budget=budget
    )
    text = "SELECT g, COUNT(*) FROM t GROUP BY g"
    (stage,) = made.plan_for(text).stages
    # A row has one group, and a replaced one two: the threshold is as many deviations, but of less noise.
    other = PrivateSQL(connection, epsilon=1.0, delta=1e-6, categories={"t.g": "discover"}).plan_for(text)
    assert isinstance(stage, Discovery) and stage.keys == 1 and stage.count_std < 0.75 * other.discovery.count_std
    made.query(text)
    assert budget.spent.epsilon == pytest.approx(1.0, rel=1e-6)
    with pytest.raises(InvalidParameter, match="neighbors must be one of"):
        PrivateSQL(connection, epsilon=1.0, neighbors="both")


@pytest.mark.parametrize(("low", "high"), [(0, 10), (-10, 0)])
def test_sums_of_units_have_the_sign_of_their_values(low: int, high: int) -> None:
    db = duckdb.connect()
    db.execute(f"CREATE TABLE r AS SELECT i % 400 AS u, {low} + i % 11 AS n FROM range(4400) t(i)")
    sql = PrivateSQL(db, epsilon=500, unit="u", unit_limit=64, bounds={"r.n": (low, high)}, random_state=0)
    true = 4400 * (low + 5)
    assert sql.query("SELECT SUM(n) FROM r").value == pytest.approx(true, rel=0.02)
    assert sql.query("SELECT COUNT(*) FROM r").value == pytest.approx(4400, rel=0.02)


def test_other_words_for_the_same_query_have_the_same_answer() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE o AS SELECT i % 3 AS g, (i % 13) - 3.0 AS x FROM range(400) t(i)")
    declared = {"bounds": {"o.x": (-2, 8)}, "categories": {"o.g": [0, 1, 2]}}
    pairs = {
        "SELECT SUM(IF(x > 0, x, 0)) FROM o": "SELECT SUM(CASE WHEN x > 0 THEN x ELSE 0 END) FROM o",
        "SELECT g, COUNT(*) AS n FROM o GROUP BY g HAVING n BETWEEN 134 AND 200": (
            "SELECT g, COUNT(*) AS n FROM o GROUP BY g HAVING n >= 134 AND n <= 200"
        ),
    }
    for one, other in pairs.items():
        asked = [
            PrivateSQL(connection, epsilon=50.0, random_state=0, **declared).query(text).to_dict()
            for text in (one, other)
        ]
        assert asked[0] == asked[1]


CASES = {
    "CASE WHEN age < 40 THEN 'young' WHEN age >= 40 THEN 'old' END": [("young", 2), ("old", 3)],
    "CASE WHEN age < 40 THEN 'young' ELSE 'rest' END": [("young", 2), ("rest", 4)],
    "CASE WHEN age IS NULL THEN NULL WHEN age > 60 THEN 2 ELSE 1.5 END": [(2, 1), (1.5, 4)],
    "IF(age > 30, 'a', 'b')": [("a", 3), ("b", 3)],
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("unit", [None, "u"])
def test_a_case_is_a_group(case: str, unit: str | None) -> None:
    db = duckdb.connect()
    db.execute("CREATE TABLE t AS SELECT unnest([30, 50, 60, 20, 70, NULL]) AS age, unnest(range(6)) AS u")
    made = PrivateSQL(db, epsilon=1e3, random_state=0, unit=unit, bounds={"t.age": (0, 100)})
    for by in ("band", "1", case):
        found = made.query(f"SELECT {case} AS band, COUNT(*) FROM t GROUP BY {by}")
        assert found.names == ("band",)
        assert [*zip((cell for (cell,) in found.cells), found.values.round().tolist(), strict=True)] == CASES[case]
    both = made.query(f"SELECT {case} AS band, COUNT(*) AS n, AVG(age) FROM t GROUP BY band ORDER BY n DESC LIMIT 1")
    assert both.cells[0][0] in [label for label, rows in CASES[case] if rows == max(n for _, n in CASES[case])]
    for text, message in (
        (f"SELECT {case} AS band, COUNT(DISTINCT u) FROM t GROUP BY band", "has bins, conditions or numbers"),
        ("SELECT CASE WHEN age < 40 THEN age END AS band, COUNT(*) FROM t GROUP BY band", "computed labels"),
        ("SELECT CASE WHEN age < 40 THEN NULL END AS band, COUNT(*) FROM t GROUP BY band", "without a label"),
        (f"SELECT {case} AS band FROM t", "aggregate, or GROUP BY it"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            made.query(text)


@pytest.mark.parametrize(
    ("where", "rows"),
    [("1 = 1", 9), ("1=1 AND a < 4", 4), ("2 < 1", 0), ("a < 4 OR -1 >= 0.5", 4), ("NOT 1 <> 1.0", 9)],
)
def test_comparisons_of_numbers_are_constants(where: str, rows: int) -> None:
    db = duckdb.connect()
    db.execute("CREATE TABLE t AS SELECT i AS a FROM range(9) r(i)")
    made = PrivateSQL(db, epsilon=1e5, random_state=0)
    assert round(made.count(f"SELECT COUNT(*) FROM t WHERE {where} LIMIT 5").value) == rows


@pytest.mark.parametrize("neighbors", ["replace_one", "add_or_remove"])
@pytest.mark.parametrize("unit", [None, {"v": "id"}])
def test_a_count_of_public_tables_is_exact_and_free(neighbors: str, unit: Any) -> None:
    db = duckdb.connect()
    db.execute("CREATE TABLE p AS SELECT i AS id, i % 3 AS g, i / 2 AS x FROM range(50) r(i)")
    db.execute("CREATE TABLE v AS SELECT i % 50 AS id FROM range(500) r(i)")
    budget = PrivacyBudget(0.5)
    declared: dict[str, Any] = {"categories": {"p.g": [0, 1, 2]}, "bounds": {"p.x": (0, 100)}}
    made = PrivateSQL(db, epsilon=0.7, public_tables=["p"], unit=unit, neighbors=neighbors, budget=budget, **declared)
    answer = made.count("SELECT COUNT(*) FROM p WHERE g = 1")
    assert answer.value == answer.lower_bound() == 17 and answer.guarantee.epsilon == 0
    assert answer.confidence_interval()[:2] == (17, 17) and "none, as all tables are public" in str(answer.summary())
    assert made.query("SELECT g, COUNT(*) FROM p GROUP BY g").values.tolist() == [17, 17, 16]
    assert made.query("SELECT SUM(x) FROM p").value == 612.5
    assert made.query("SELECT COUNT(DISTINCT g) FROM p").value == 3
    assert made.plan_for("SELECT COUNT(*) FROM p").stages == () and budget.spent.epsilon == 0
    assert "p, public: 0" in made.explain("SELECT COUNT(*) FROM p")
    with pytest.raises(InvalidParameter, match="of public tables only"):
        made.query("SELECT MEDIAN(x) FROM p")
