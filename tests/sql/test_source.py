"""One snapshot: frequencies and answers of the same data, and errors that show nothing."""

from __future__ import annotations

import traceback
from typing import Any

import duckdb
import pytest

from dpstats.errors import InvalidData, InvalidParameter
from dpstats.privacy import PrivacyBudget
from dpstats.sql import PrivateSQL
from dpstats.sql.compile import Source


@pytest.fixture
def connection() -> Any:
    made = duckdb.connect()
    made.execute("CREATE TABLE r AS SELECT i % 3 AS a, 'x' || i AS name FROM range(10) t(i)")
    made.execute("INSERT INTO r VALUES (NULL, NULL), (NULL, NULL), (NULL, NULL), (NULL, NULL), (NULL, NULL)")
    return made


def test_frequencies_are_of_values_that_are_there_and_asked_once(
    connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Source(connection)
    table = source.tables()["r"]
    assert (source.frequency(table, "a"), source.frequency(table, "name")) == (4, 1)
    monkeypatch.setattr(Source, "run", lambda *args: pytest.fail("asked again"))
    assert source.frequency(table, "a") == 4


def test_nothing_changes_between_a_frequency_and_an_answer(connection: Any) -> None:
    # A planted bug: frequencies of another transaction than the answer's.
    source = Source(connection)
    table = source.tables()["r"]
    assert source.frequency(table, "a") == 4
    connection.execute("INSERT INTO r SELECT 0, 'y' FROM range(100)")
    assert source.run(f"SELECT count(*) FROM {table.source}") == [(15,)] and source.frequency(table, "a") == 4
    source.refresh()
    assert source.run(f"SELECT count(*) FROM {table.source}") == [(115,)] and source.frequency(table, "a") == 104


def test_a_snapshot_begins_at_once(connection: Any) -> None:
    source = Source(connection)
    connection.execute("DELETE FROM r")
    assert source.run("SELECT count(*) FROM r") == [(15,)]
    source.refresh()
    connection.execute("INSERT INTO r VALUES (1, 'late')")
    assert source.run("SELECT count(*) FROM r") == [(0,)]


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE r RENAME TO w; CREATE VIEW r AS SELECT w.a, w.name FROM w, w v",
        "DROP TABLE r; CREATE TABLE r (a BIGINT, name VARCHAR COLLATE NOCASE)",
        "ALTER TABLE r DROP COLUMN name",
        "DROP TABLE r",
        "ALTER TABLE r RENAME TO w; ALTER TABLE w RENAME TO R",
    ],
)
def test_what_is_no_more_the_table_that_was_declared_is_refused(connection: Any, change: str) -> None:
    # A planted bug: the catalogue of another transaction than the answer's, and a view that hides a join.
    sql = PrivateSQL(connection, epsilon=1.0, random_state=0)
    connection.execute(change)
    with pytest.raises(InvalidData, match="table r must be"):
        sql.refresh()
    with pytest.raises(InvalidParameter, match="FROM must name base tables"):
        sql.count("SELECT COUNT(*) FROM r")


def test_a_table_that_came_is_read_after_refresh(connection: Any) -> None:
    sql = PrivateSQL(connection, epsilon=500.0, random_state=0)
    connection.execute("CREATE TABLE later AS SELECT 1 AS a; INSERT INTO r VALUES (7, 'z')")
    sql.refresh()
    assert [round(sql.count(f"SELECT COUNT(*) FROM {name}").value) for name in ("later", "r")] == [1, 16]


@pytest.mark.parametrize("macro", ["least(a, b) AS a", "count(x) AS 1", '"+"(a, b) AS 7', '"//"(a, b) AS 9'])
def test_macros_of_the_names_of_functions_are_refused(connection: Any, macro: str) -> None:
    sql = PrivateSQL(connection, epsilon=1.0)
    connection.execute("CREATE MACRO harmless(a) AS a")
    sql.refresh()
    connection.execute(f"CREATE SCHEMA other; CREATE MACRO other.{macro}")
    with pytest.raises(InvalidParameter, match="no macro or Python function of the name"):
        sql.refresh()
    with pytest.raises(InvalidParameter, match="no macro or Python function of the name"):
        PrivateSQL(connection, epsilon=1.0)


@pytest.mark.parametrize(
    ("name", "kinds"), [("least", ["DOUBLE", "DOUBLE"]), ("greatest", ["HUGEINT", "HUGEINT"]), ("=", ["VARCHAR"] * 2)]
)
def test_python_functions_of_the_names_of_functions_are_refused(name: str, kinds: list[str]) -> None:
    own = duckdb.connect()
    own.execute("CREATE TABLE r AS SELECT range::DOUBLE AS x FROM range(10)")
    sql = PrivateSQL(own, epsilon=500.0, random_state=0, bounds={"r.x": (0, 1)})
    own.create_function("harmless", lambda a, b: a, kinds, kinds[0])
    sql.refresh()
    # One that agrees with DuckDB's own on most values, and leaves large ones unclipped.
    own.create_function(name, lambda a, b: a if a > b > 100 else min(a, b), kinds, kinds[0])
    # The snapshot has the functions that it began with.
    assert round(sql.query("SELECT SUM(x) FROM r").value) == 9
    with pytest.raises(InvalidParameter, match="no macro or Python function of the name"):
        sql.refresh()
    with pytest.raises(InvalidParameter, match="no macro or Python function of the name"):
        PrivateSQL(own, epsilon=1.0)


def test_settings_are_read_at_every_answer() -> None:
    own = duckdb.connect()
    own.execute("CREATE TABLE r AS SELECT CASE WHEN range < 64 THEN 'A' ELSE 'a' END AS x FROM range(100)")
    budget = PrivacyBudget(2.0)
    sql = PrivateSQL(own, epsilon=1.0, budget=budget)
    sql.count("SELECT COUNT(*) FROM r WHERE x = 'a'")
    own.execute("SET default_collation = 'NOCASE'")  # the count is 100 now, and not 36
    with pytest.raises(InvalidParameter, match="must have no default_collation, got 'NOCASE'"):
        sql.count("SELECT COUNT(*) FROM r WHERE x = 'a'")
    assert len(budget.history()) == 1
    own.execute("RESET default_collation")
    sql.count("SELECT COUNT(*) FROM r WHERE x = 'a'")
    assert len(budget.history()) == 2


@pytest.mark.parametrize("collation", ["NOCASE", "NOACCENT", "NFC"])
def test_a_collation_that_is_set_while_a_query_runs_is_noticed(
    connection: Any, monkeypatch: pytest.MonkeyPatch, collation: str
) -> None:
    source, ask = Source(connection), Source._ask

    def asked(self: Source, sql: str, *more: Any) -> Any:
        if "FROM r" in sql:
            connection.execute(f"SET default_collation = '{collation}'")
        return ask(self, sql, *more)

    monkeypatch.setattr(Source, "_ask", asked)
    with pytest.raises(InvalidParameter, match="must have no default_collation"):
        source.run("SELECT count(*) FROM r")


def test_known_values_are_asked_at_every_answer(connection: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source(connection)
    expected = source._settings._expected
    for place, (name, _) in enumerate(expected):
        changed = [*expected[:place], (name, "another"), *expected[place + 1 :]]
        monkeypatch.setattr(source._settings, "_expected", changed)
        with pytest.raises(InvalidParameter, match=f"one that fails the check of {name}"):
            source.run("SELECT 1")
        monkeypatch.undo()
    assert source.run("SELECT 1") == [(1,)]


def test_a_macro_cannot_hide_macros(connection: Any) -> None:
    connection.execute("CREATE MACRO duckdb_functions() AS TABLE SELECT 'x' AS function_name, false AS internal")
    with pytest.raises(InvalidParameter, match="no macro or Python function of the name"):
        Source(connection)


def test_the_schema_is_that_of_the_connection(connection: Any) -> None:
    connection.execute("CREATE SCHEMA s; CREATE TABLE s.r AS SELECT 1 AS other; USE s")
    assert set(Source(connection).tables()["r"].columns) == {"other"}
    connection.execute("SELECT * FROM range(100000)").fetchone()
    with pytest.raises(InvalidParameter, match="must be free"):
        Source(connection)
    busy = duckdb.connect()
    busy.execute("CREATE TABLE r AS SELECT 1 AS a")
    result = busy.execute("SELECT * FROM range(100000)")
    assert set(Source(busy).tables()) == {"r"} and len(result.fetchall()) == 100_000


def test_views_and_tables_with_collations_are_no_tables(connection: Any) -> None:
    connection.execute("CREATE VIEW v AS SELECT r.a FROM r, r q")
    connection.execute("CREATE TABLE c (name VARCHAR COLLATE NOCASE)")
    connection.execute("CREATE TEMP TABLE here (a INTEGER)")
    source = Source(connection)
    assert set(source.tables()) == {"r"} and "v" in source.views()
    connection.execute("SET default_collation = 'nocase'")
    with pytest.raises(InvalidParameter, match="default_collation"):
        Source(connection)


def test_an_error_of_the_databases_is_not_passed_on(connection: Any) -> None:
    connection.execute("CREATE TABLE s AS SELECT 'hushhush' AS secret")
    source = Source(connection)
    with pytest.raises(InvalidData, match="DuckDB could not compute") as caught:
        source.run("SELECT CAST(secret AS INTEGER) FROM s")
    text = "".join(traceback.format_exception(caught.value))
    assert "hushhush" not in text and caught.value.__context__ is None and caught.value.__cause__ is None
    # What was known is of a transaction that has ended: another one is not begun unasked.
    connection.execute("INSERT INTO s VALUES ('1')")
    with pytest.raises(InvalidData, match=r"call refresh\(\)"):
        source.run("SELECT count(*) FROM s")
    source.refresh()
    assert source.run("SELECT count(*) FROM s") == [(2,)]
