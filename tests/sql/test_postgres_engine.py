"""Postgres: the same integers as over DuckDB, snapshots that nobody changes, and errors that show nothing."""

from __future__ import annotations

import itertools
import math
import random
import traceback
from datetime import date, datetime
from typing import Any

import duckdb
import numpy as np
import pytest

from dpstats.errors import InvalidData, InvalidParameter
from dpstats.privacy import PrivacyBudget
from dpstats.sql import PrivateSQL
from dpstats.sql.catalogue import postgres_type
from dpstats.sql.compile import Compiled, Source
from dpstats.sql.engines import is_postgres
from tests.sql.databases import fill
from tests.sql.fuzz import Databases, compare_postgres, random_question

COLUMNS = {
    "visit": (
        "person bigint, x double precision, f real, big bigint, m decimal(18, 3), name varchar, day date, "
        "moment timestamp, rural boolean, id uuid"
    ),
    "clinic": "name varchar, beds integer NOT NULL",
}
NUMBERS = [0.5, 1.5, -0.0, 5e-324, -5e-324, 1e-310, 1e300, -1e300, math.inf, -math.inf, math.nan, 0.1, 2.9999, None]
WHOLE = [2**63 - 1, -(2**63), 0, 7, None, -1]
WORDS = ["a", "A", "a ", "B", "b\\", "é", "e\u0301", "%", "a_b", "", None]
DAYS = [date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(2023, 2, 28), date(9999, 12, 31), None]


def rows() -> dict[str, list[tuple[Any, ...]]]:
    """Return nasty rows of every table."""
    rng = random.Random(3)
    visits = []
    for x, big, name, day in zip(NUMBERS * 6, WHOLE * 14, WORDS * 8, DAYS * 14, strict=False):
        moment = None if day is None else datetime(day.year, day.month, day.day, 23, 59, 59, 999999)
        small = None if x is None else float(np.float32(np.clip(x, -1e30, 1e30)))
        money = rng.choice([None, "0.001", "-12345.678", "999999999999999.999"])
        one = f"00000000-0000-0000-0000-00000000000{rng.randrange(3)}"
        person = rng.choice([1, 2, 3, None])
        visits.append((person, x, small, big, money, name, day, moment, rng.choice([True, False, None]), one))
    return {"visit": visits, "clinic": [(name, 3) for name in ("a", "A", "é", "a ", "z")]}


DECLARED: dict[str, Any] = {
    "public_tables": ["clinic"],
    "keys": {"clinic": "name"},
    "categories": {"visit.name": WORDS[:-1], "visit.rural": [True, False], "clinic.beds": [3]},
    "bins": {"visit.x": (-1.0, 0.0, 0.5, 2.0), "visit.day": ("1960-01-01", "2024-01-01")},
    "bounds": {
        "visit.x": (-2.0, 3.0),
        "visit.f": (0, 1e15),
        "visit.big": (-1000, 2**31),
        "visit.m": (-100, 1e6),
        "visit.person": (1, 3),
    },
}
QUERIES = [
    "SELECT COUNT(*) FROM visit",
    "SELECT COUNT(x) FROM visit WHERE x > -1e300 AND NOT x <> 0.5",
    "SELECT SUM(x) FROM visit",
    "SELECT AVG(f) FROM visit WHERE f >= 0",
    "SELECT SUM(big) FROM visit WHERE big BETWEEN -9223372036854775808 AND 9223372036854775807",
    "SELECT AVG(m), SUM(person), STDDEV(x), VAR_POP(big), COUNT(*) FROM visit",
    "SELECT name, COUNT(*) FROM visit GROUP BY name",
    "SELECT name, rural, SUM(x), COUNT(day) FROM visit GROUP BY name, rural",
    "SELECT x, COUNT(*), AVG(person) FROM visit GROUP BY x",
    "SELECT COUNT(*) FROM visit WHERE name < 'a' OR name LIKE 'b\\' OR name LIKE '%\\%' OR name LIKE '_'",
    "SELECT COUNT(*) FROM visit WHERE name IN ('a ', 'é') AND (rural IS TRUE OR rural IS NOT FALSE)",
    "SELECT COUNT(DISTINCT x) FROM visit",
    "SELECT COUNT(DISTINCT name) FROM visit",
    "SELECT YEAR(day), COUNT(*) FROM visit GROUP BY YEAR(day) HAVING COUNT(*) > 2 ORDER BY COUNT(*)",
    "SELECT COUNT(*) FROM visit WHERE moment < TIMESTAMP '1970-01-01 00:00:00' AND day > DATE '0001-01-01'",
    "SELECT COUNT(*) FROM visit WHERE id = '00000000-0000-0000-0000-000000000001'",
    "SELECT SUM(x * x * f / 7) FROM visit",
    "SELECT SUM(CASE WHEN name = 'a' THEN x * 1e-9 WHEN x > 1 THEN -x ELSE f END) AS s, COUNT(*) AS n FROM visit",
    "SELECT COUNT(*) FILTER (WHERE m > 0) AS n, SUM(coalesce(x, 2)) AS s FROM visit",
    "SELECT MEDIAN(x) FROM visit",
    "SELECT QUANTILE_CONT(big, 0.3) FROM visit",
    "SELECT rural, MEDIAN(x * m) AS q FROM visit GROUP BY rural",
    "SELECT name, MEDIAN(x) FROM visit GROUP BY name",
    "SELECT COUNT(*) FROM visit JOIN clinic USING (name)",
    "SELECT beds, SUM(x) FROM visit LEFT JOIN clinic ON visit.name = clinic.name GROUP BY beds",
    "SELECT COUNT(*) FROM visit a JOIN visit b ON a.person = b.person",
    "SELECT COUNT(*) FROM visit WHERE name IN (SELECT name FROM clinic)",
    "WITH w AS (SELECT DISTINCT person, name FROM visit WHERE x IS NOT NULL) SELECT COUNT(*) FROM w",
]


@pytest.fixture
def both(postgres: Any) -> tuple[Any, Any]:
    """Connections to the same rows in DuckDB and in Postgres."""
    here, data = duckdb.connect(), rows()
    for connection in (here, postgres):
        fill(connection, COLUMNS, data)
    return here, postgres


def released(sql: PrivateSQL, text: str) -> Any:
    """Return all of an answer, or the refusal of its query."""
    try:
        return sql.query(text).to_dict()
    except InvalidParameter as error:
        return str(error)


@pytest.mark.parametrize("options", [{}, {"delta": 1e-4}, {"unit": {"visit": "person"}}, {"truncation": "race"}])
def test_releases_are_those_of_duckdb(both: tuple[Any, Any], options: dict[str, Any]) -> None:
    if "truncation" in options:
        options = {**options, "unit": {"visit": "person"}, "unit_limit": 16}
    made = [PrivateSQL(each, epsilon=1.0, random_state=0, **DECLARED, **options) for each in both]
    answered = 0
    for text in QUERIES:
        duck, post = (released(each, text) for each in made)
        assert repr(duck) == repr(post), text
        assert [each.explain(text) for each in made if isinstance(duck, dict)][:1] == [
            each.explain(text) for each in made if isinstance(duck, dict)
        ][1:], text
        answered += isinstance(duck, dict)
    assert answered >= (len(QUERIES) - 1 if "unit" not in options else 4)


@pytest.mark.parametrize("aggregate", ["COUNT(*)", "AVG(x)", "MEDIAN(x)", "QUANTILE_CONT(m, 0.8)"])
def test_undeclared_values_are_those_of_duckdb(both: tuple[Any, Any], aggregate: str) -> None:
    names = ["name", "day", "moment", "big", "rural"]
    found = {f"visit.{name}": "discover" for name in names}
    options: dict[str, Any] = {"categories": found, "bounds": DECLARED["bounds"], "random_state": 0}
    made = [PrivateSQL(each, epsilon=9.0, delta=1e-2, **options) for each in both]
    for name in names:
        text = f"SELECT {name}, {aggregate} FROM visit GROUP BY {name}"
        here, there = (each.query(text) for each in made)
        assert repr(here.to_dict()) == repr(there.to_dict()) and len(here.to_frame()) > 1


@pytest.mark.parametrize("neighbors", ["replace_one", "add_or_remove"])
def test_quantiles_of_people_are_those_of_duckdb(both: tuple[Any, Any], neighbors: str) -> None:
    options: dict[str, Any] = {**DECLARED, "unit": {"visit": "person"}, "neighbors": neighbors}
    made = [PrivateSQL(each, epsilon=9.0, random_state=0, **options) for each in both]
    for text in (
        "SELECT MEDIAN(x) FROM visit",
        "SELECT QUANTILE_CONT(m, 0.8) FROM visit WHERE x > 0",
        "SELECT rural, MEDIAN(big) FROM visit GROUP BY rural",
    ):
        here, there = (released(each, text) for each in made)
        assert isinstance(here, dict) and repr(here) == repr(there)


def test_dates_that_python_does_not_have_are_no_groups(both: tuple[Any, Any]) -> None:
    for connection in both:
        for day in ("infinity", "-infinity", "20000-01-01", "0044-03-15 (BC)"):
            day = day.replace("(BC)", "BC") if connection is both[1] else day
            connection.execute(f"INSERT INTO visit (day, moment) VALUES ('{day}', '{day}')")
    found = {"visit.day": "discover", "visit.moment": "discover"}
    for connection in both:
        sql = PrivateSQL(connection, epsilon=9.0, delta=1e-2, random_state=0, categories=found)
        for name in ("day", "moment"):
            cells = sql.query(f"SELECT {name}, COUNT(*) FROM visit GROUP BY {name}").cells
            assert len(cells) == 5 and all(1 <= value.year <= 9999 for (value,) in cells)
        assert abs(sql.count("SELECT COUNT(*) FROM visit WHERE day > DATE '9999-12-30'").value - 16) <= 9


@pytest.mark.parametrize("seed", range(5))
def test_random_queries_have_the_integers_of_duckdb(postgres: Any, seed: int) -> None:
    rng = random.Random(500 + seed)
    data = Databases(rng)
    assert compare_postgres(data, postgres, [random_question(rng) for _ in range(30)]) > 50


HOSTILE = [
    "SELECT COUNT(*) FROM visit; DROP TABLE visit",
    "SELECT COUNT(*) FROM pg_catalog.pg_class",
    "SELECT COUNT(*) FROM pg_class",
    "SELECT COUNT(*) FROM visit WHERE pg_sleep(10) IS NULL",
    "SELECT COUNT(*) FROM visit, visit b",
    "SELECT COUNT(*) FROM visit WHERE x = 1/0",
    "SELECT COUNT(*) FROM hidden",
    "SELECT COUNT(*) FROM visit WHERE name::integer = 1",
    "SELECT COUNT(*) FROM visit WHERE name ~ 'a'",
    "SELECT SUM(1/x) FROM visit",
    "SELECT COUNT(*) FROM visit TABLESAMPLE BERNOULLI (50)",
    "SELECT x FROM visit",
    "SELECT COUNT(*) FROM visit FOR UPDATE",
    "SELECT COUNT(*) FROM visit WHERE name = E'a\\'' OR TRUE",
    "COPY visit TO '/tmp/x'",
    "SELECT COUNT(*) FROM visit WHERE \"name\" = 'a' AND ctid IS NOT NULL",
    "SELECT COUNT(*) FROM visit WHERE day = 'infinity'",
    "SELECT COUNT(*) FROM visit WHERE big = 9223372036854775808",
    "SELECT COUNT(*) FROM visit WHERE name = 'a\0'",
]


def test_hostile_queries_are_refused_alike(both: tuple[Any, Any]) -> None:
    for connection in both:
        connection.execute("CREATE VIEW hidden AS SELECT a.x FROM visit a, visit b")
    budget = PrivacyBudget(1.0)
    made = [PrivateSQL(each, epsilon=1.0, budget=budget, **DECLARED) for each in both]
    for text in HOSTILE:
        found = []
        for sql in made:
            with pytest.raises(InvalidParameter) as caught:
                sql.query(text)
            found.append(str(caught.value))
        assert found[0] == found[1]
    assert not budget.history()


def test_text_is_compared_by_its_bytes_and_entries_as_their_own_type(postgres: Any) -> None:
    # The collation of a column is not that of our comparisons, and char(5) has no blanks at its end.
    postgres.execute('CREATE TABLE r (name text COLLATE "C.utf8", word char(5), kind varchar(9))')
    postgres.execute(
        "CREATE TYPE mood AS ENUM ('sad', 'ok', 'a'); CREATE DOMAIN short AS varchar(3) CHECK (value <> '')"
    )
    postgres.execute("ALTER TABLE r ADD feeling mood, ADD brief short")
    postgres.execute("INSERT INTO r VALUES ('a', 'a', 'a', 'a', 'a'), ('B', 'a  ', 'a ', 'sad', 'b')")
    sql = PrivateSQL(postgres, epsilon=500.0, random_state=0)
    for condition, count in {
        "name < 'a'": 1,
        "word = 'a'": 2,
        "kind = 'a'": 1,
        "feeling < 'b'": 1,
        "feeling = 'sad'": 1,
        "feeling = 'never'": 0,
        "brief >= 'b'": 1,
    }.items():
        assert round(sql.count(f"SELECT COUNT(*) FROM r WHERE {condition}").value) == count, condition
    joined = "SELECT COUNT(*) FROM r JOIN r AS s ON r.word = s.kind"
    assert sql._data.dialect.bytewise.count('COLLATE "C"') == 1
    with sql._snapshot(sql._parsed(joined)):
        table = sql._catalogue.tables["r"]
        assert [sql._data.frequency(table, name) for name in ("word", "kind", "name")] == [2, 1, 1]
    text, _ = Compiled(sql._parsed(joined), sql._by_name, sql._data.dialect).cells()
    # Both sides of the join.
    assert text.count('COLLATE "C"') == 2


def test_no_row_makes_a_query_fail(postgres: Any) -> None:
    # Postgres refuses products that underflow, and numbers that no double holds.
    postgres.execute("CREATE TABLE r (x double precision, y double precision, m numeric, n numeric(30, 10))")
    sql = PrivateSQL(
        postgres,
        epsilon=500.0,
        random_state=0,
        bounds={"r.x": (-1e15, 1e15), "r.y": (-1.0, 1.0), "r.m": (-9.0, 9.0), "r.n": (0, 1)},
        bins={"r.m": (0.0, 5.0, 10.0)},
    )
    texts = [
        *(f"SELECT {what} FROM r" for what in ("SUM(x)", "SUM(y * y * y)", "SUM(x / 1e9)", "AVG(m)", "MEDIAN(x)")),
        *(f"SELECT {what} FROM r" for what in ("VARIANCE(y), SUM(m * n)", "MEDIAN(y * 1e-9)", "SUM(y * x / 3)")),
        "SELECT m, COUNT(*) FROM r GROUP BY m",
        "SELECT COUNT(*) FROM r WHERE m > 1 AND m < 2e300 AND n > 0.5 AND x < 1e-320",
    ]
    before = [sql.query(text) for text in texts]
    tiny = ["5e-324", "-1e-310", "1e-200", "1e-160", "NaN", "Infinity", "-Infinity", "1.7e308", "-0"]
    money = ["1e-400", "1e400", "-1e-320", "NaN", "Infinity", "-Infinity", "1" + "0" * 500, "-0", "5.5"]
    with postgres.cursor() as cursor:
        cursor.executemany("INSERT INTO r VALUES (%s, %s, %s, 0.5)", list(itertools.product(tiny, tiny, money)))
    for text, old in zip(texts, before, strict=True):
        assert type(sql.query(text)) is type(old)
    values = sql.query("SELECT m, COUNT(*) FROM r GROUP BY m").values
    assert np.round(values.ravel()).astype(int).tolist() == [81 * 3, 81 * 1]


def test_an_error_of_the_engine_is_not_passed_on(postgres: Any) -> None:
    postgres.execute("CREATE TABLE s AS SELECT 'hushhush' AS secret")
    source = Source(postgres)
    with pytest.raises(InvalidData, match="Postgres could not compute") as caught:
        source.run("SELECT CAST(secret AS integer) FROM s")
    text = "".join(traceback.format_exception(caught.value))
    assert "hushhush" not in text and caught.value.__context__ is None and caught.value.__cause__ is None
    with pytest.raises(InvalidData, match=r"call refresh\(\)"):
        source.run("SELECT 1")
    source.refresh()
    assert source.run("SELECT 1") == [(1,)]


def test_nothing_changes_between_a_frequency_and_an_answer(
    postgres: Any, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    postgres.execute("CREATE TABLE r (a integer); INSERT INTO r VALUES (0), (0), (1)")
    sql = PrivateSQL(postgres, epsilon=1.0, random_state=0)
    counted: list[Any] = []
    run = Source.run

    def changed(self: Source, text: str, *more: Any) -> Any:
        found = run(self, text, *more)
        counted.append(found)
        with psycopg.connect(address, autocommit=True) as other:
            other.execute("INSERT INTO r SELECT 0 FROM generate_series(1, 50)")
            # No view may take the place of the table, either.
            other.execute("SET lock_timeout = 10")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                other.execute("ALTER TABLE r RENAME TO w")
        return found

    monkeypatch.setattr(Source, "run", changed)
    answer = sql.count("SELECT COUNT(*) FROM r JOIN r AS s USING (a)")
    # The exact answer, and twice the frequency: all of the first snapshot.
    assert sorted(row[-1] for ((*row,),) in counted) == [2, 5] and answer.method == "smooth"
    monkeypatch.undo()
    # Another answer has another snapshot, and no lock is left.
    assert sql.count("SELECT COUNT(*) FROM r").value > 80
    postgres.execute("ALTER TABLE r RENAME TO w")


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE r RENAME TO w; CREATE VIEW r AS SELECT w.a, w.name FROM w, w v",
        "ALTER TABLE r DROP COLUMN name",
        "DROP TABLE r",
        "ALTER TABLE r RENAME name TO other",
        "ALTER TABLE r ALTER name TYPE integer USING 1",
        "CREATE TABLE c () INHERITS (r)",
    ],
)
def test_what_is_no_more_the_table_that_was_declared_is_refused(postgres: Any, change: str) -> None:
    postgres.execute("CREATE TABLE r (a integer, name text); INSERT INTO r VALUES (1, 'x')")
    sql = PrivateSQL(postgres, epsilon=1.0, random_state=0)
    postgres.execute(change)
    with pytest.raises(InvalidData, match=r"must be what it was declared as|could not begin to read"):
        sql.count("SELECT COUNT(*) FROM r")
    with pytest.raises(InvalidData, match="must be what it was declared as"):
        sql.refresh()


def test_no_view_takes_the_name_of_a_table_after_its_check(
    postgres: Any, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    postgres.execute("CREATE TABLE r (a integer); INSERT INTO r VALUES (0), (0), (1)")
    sql, confirm, tried = PrivateSQL(postgres, epsilon=1.0), PrivateSQL._confirm, []

    def changed(self: PrivateSQL, names: Any) -> None:
        confirm(self, names)
        with psycopg.connect(address, autocommit=True) as other:
            other.execute("SET lock_timeout = 10")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                other.execute("ALTER TABLE r RENAME TO w")
        tried.append(names)

    monkeypatch.setattr(PrivateSQL, "_confirm", changed)
    sql.count("SELECT COUNT(*) FROM r")
    assert tried


def test_a_declared_key_is_checked_in_the_snapshot_of_the_answer(postgres: Any) -> None:
    postgres.execute("CREATE TABLE r (a integer); CREATE TABLE k (a integer); INSERT INTO k VALUES (1), (2), (NULL)")
    budget = PrivacyBudget(2.0)
    sql = PrivateSQL(postgres, epsilon=1.0, keys={"k": "a"}, budget=budget)
    text = "SELECT COUNT(*) FROM r JOIN k USING (a)"
    sql.count(text)
    postgres.execute("INSERT INTO k VALUES (2)")
    with pytest.raises(InvalidData, match=r"k\.a, which has a value twice"):
        sql.count(text)
    assert len(budget.history()) == 1
    sql.count("SELECT COUNT(*) FROM r")
    with pytest.raises(InvalidData, match=r"k\.a, which has a value twice"):
        PrivateSQL(postgres, epsilon=1.0, keys={"k": "a"})


def test_a_row_is_in_one_table(postgres: Any) -> None:
    postgres.execute(
        """
        CREATE TABLE parts (a integer) PARTITION BY LIST (a);
        CREATE TABLE part_1 PARTITION OF parts FOR VALUES IN (1);
        CREATE TABLE part_2 PARTITION OF parts FOR VALUES IN (2) PARTITION BY LIST (a);
        CREATE TABLE part_3 PARTITION OF part_2 DEFAULT;
        CREATE TABLE parent (a integer);
        CREATE TABLE child () INHERITS (parent);
        CREATE VIEW v AS SELECT a FROM parent;
        CREATE MATERIALIZED VIEW m AS SELECT a FROM parent;
        CREATE TABLE "Same" (a integer); CREATE TABLE same (a integer);
        CREATE TABLE plain ("A" integer, a integer, b integer NOT NULL, c real NOT NULL, j json, n integer[]);
        CREATE TYPE pair AS (x integer, y integer); ALTER TABLE plain ADD p pair;
        CREATE TYPE mood AS ENUM ('sad'); ALTER TABLE plain ADD m mood;
        CREATE FUNCTION word(mood) RETURNS text LANGUAGE sql AS 'SELECT random()::text';
        CREATE CAST (mood AS text) WITH FUNCTION word(mood);
        CREATE UNLOGGED TABLE fast (a integer);
        INSERT INTO parts VALUES (1), (2)
        """
    )
    source = Source(postgres)
    tables = source.tables()
    assert set(tables) == {"parts", "plain", "fast"} and source.views() == {"v", "m"}
    assert source.run(f"SELECT count(*) FROM {tables['parts'].source}") == [(2,)]
    kinds = {name: (kind.kind, kind.required) for name, (_, kind) in tables["plain"].columns.items()}
    assert kinds == {"b": ("whole", True), "c": ("real", False), "j": ("other", False), "n": ("other", False)}
    for name in ("part_1", "parent", "child", "same", "m"):
        with pytest.raises(InvalidParameter, match="FROM must name base tables"):
            PrivateSQL(postgres, epsilon=1.0).count(f"SELECT COUNT(*) FROM {name}")


def test_tables_with_hidden_rows_and_of_others_are_no_tables(postgres: Any, address: str, server: str) -> None:
    schema = postgres.execute("SELECT current_schema()").fetchone()[0]
    postgres.execute(f"DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN; GRANT USAGE ON SCHEMA {schema} TO reader")
    postgres.execute("CREATE TABLE seen (a integer); CREATE TABLE hidden (a integer); CREATE TABLE other (a integer)")
    postgres.execute("GRANT SELECT ON seen, hidden TO reader; ALTER TABLE hidden ENABLE ROW LEVEL SECURITY")
    postgres.execute("CREATE POLICY few ON hidden USING (a < (SELECT count(*) FROM seen))")
    try:
        reader = Source(address.replace("postgres:@", "reader:@"))
        assert set(reader.tables()) == {"seen"}
        assert set(Source(address).tables()) == {"seen", "hidden", "other"}
    finally:
        postgres.execute("DROP OWNED BY reader; DROP ROLE reader")


def test_functions_of_others_are_not_found(postgres: Any) -> None:
    # As good matches as those of pg_catalog, and better ones.
    postgres.execute(
        """
        CREATE TABLE r (x double precision); INSERT INTO r VALUES (1), (1), (0.5);
        CREATE FUNCTION abs(numeric) RETURNS numeric IMMUTABLE LANGUAGE sql AS 'SELECT 1000.0';
        CREATE FUNCTION round(double precision) RETURNS double precision IMMUTABLE LANGUAGE sql AS 'SELECT $1 + 9';
        CREATE FUNCTION div(numeric, integer) RETURNS numeric IMMUTABLE LANGUAGE sql AS 'SELECT 1000.0';
        CREATE FUNCTION less(double precision, double precision) RETURNS boolean LANGUAGE sql AS 'SELECT true';
        CREATE OPERATOR = (LEFTARG = double precision, RIGHTARG = double precision, FUNCTION = less)
        """
    )
    postgres.execute("SELECT set_config('search_path', current_schema() || ', pg_catalog', false)")
    sql = PrivateSQL(postgres, epsilon=500.0, random_state=0, bounds={"r.x": (0, 1)})
    assert round(sql.query("SELECT SUM(x) FROM r").value, 1) == 2.5
    assert round(sql.count("SELECT COUNT(*) FROM r WHERE x = 0.5").value) == 1


def test_the_connection_stays_as_it_is(postgres: Any, address: str) -> None:
    import psycopg

    postgres.execute("CREATE TABLE r (a integer)")
    with psycopg.connect(address) as busy:
        PrivateSQL(busy, epsilon=1.0)
        assert busy.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        busy.execute("INSERT INTO r VALUES (1)")
        sql = PrivateSQL(busy, epsilon=500.0, random_state=0)
        # What is not committed is not there.
        assert round(sql.count("SELECT COUNT(*) FROM r").value) == 0
        busy.commit()
        assert round(sql.count("SELECT COUNT(*) FROM r").value) == 1
        with pytest.raises(psycopg.errors.UndefinedColumn):
            busy.execute("SELECT b FROM r")
        with pytest.raises(InvalidParameter, match="must be free"):
            PrivateSQL(busy, epsilon=1.0)


def test_a_connection_that_the_server_ends_is_opened_again(postgres: Any, address: str) -> None:
    postgres.execute("CREATE TABLE r (a integer)")
    sql = PrivateSQL(address, epsilon=500.0, random_state=0)
    ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'dpstats'"
    postgres.execute(ended)
    assert round(sql.count("SELECT COUNT(*) FROM r").value) == 0


def test_what_is_no_postgres_is_refused(server: str, address: str) -> None:
    import psycopg

    with pytest.raises(InvalidParameter, match="accepts another connection") as caught:
        PrivateSQL("postgresql://nobody:secret@/nowhere?host=/nowhere", epsilon=1.0)
    assert "secret" not in str(caught.value) and caught.value.__context__ is None
    with pytest.raises(InvalidParameter, match="not asynchronous"):
        PrivateSQL(psycopg.AsyncConnection.__new__(psycopg.AsyncConnection), epsilon=1.0)
    with pytest.raises(InvalidParameter, match="must have a schema"):
        PrivateSQL(f"{server}&options=-csearch_path%3Dnowhere", epsilon=1.0)
    with pytest.raises(InvalidParameter, match="for CSV files only"):
        PrivateSQL(address, epsilon=1.0, types={"r.a": "BIGINT"})
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS bytes")
        connection.execute("CREATE DATABASE bytes TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'")
    with pytest.raises(InvalidParameter, match="encoding UTF8, got SQL_ASCII"):
        PrivateSQL(server.replace("/postgres?", "/bytes?"), epsilon=1.0)


def test_types_have_our_names() -> None:
    kinds = {
        "integer": ("BIGINT", "whole"),
        "numeric(10,2)": ("DOUBLE", "real"),
        "real": ("DOUBLE", "real"),
        "character varying(20)": ("VARCHAR", "text"),
        "character(3)": ("VARCHAR", "text"),
        "timestamp(3) without time zone": ("TIMESTAMP", "time"),
        "timestamp with time zone": ("timestamp with time zone", "other"),
        "integer[]": ("integer[]", "other"),
        "numeric(10,2)[]": ("numeric(10,2)[]", "other"),
        "interval": ("interval", "other"),
    }
    assert {name: (postgres_type(name).name, postgres_type(name).kind) for name in kinds} == kinds


def test_addresses_of_postgres_have_two_schemes() -> None:
    assert is_postgres("postgresql://host/base") and is_postgres("postgres://host/base")
    assert not any(map(is_postgres, ("rows.db", "mysql://host/base", "/postgres://x", None, {})))


@pytest.mark.parametrize("kind", ["real", "double precision", "numeric", "numeric(6, 2)"])
def test_numbers_that_are_not_finite_are_missing(postgres: Any, address: str, kind: str) -> None:
    # Before version 14 a numeric is finite or NaN. A numeric with digits never is infinite.
    new = postgres.info.server_version >= 140000
    words = ["NaN", *(["Infinity", "-Infinity"] if kind != "numeric(6, 2)" and (new or kind != "numeric") else [])]
    postgres.execute(f"CREATE TABLE t (x {kind}, g integer)")
    for i, word in enumerate(["20", "1.5", None, *words]):
        postgres.execute("INSERT INTO t VALUES (%s, %s)", [word, i % 2])
    if kind == "numeric":
        words.append("1e400")
        postgres.execute("INSERT INTO t VALUES ('1e400', 0)")
    made = PrivateSQL(address, epsilon=1e6, random_state=0, bounds={"t.x": (0, 100)})
    expected = {
        "COUNT(*) FROM t": 3 + len(words),
        "COUNT(x) FROM t": 2,
        "COUNT(*) FROM t WHERE x > 1": 2,
        "COUNT(*) FROM t WHERE NOT x <= 1": 2,
        "COUNT(*) FROM t WHERE x IS NULL": 1 + len(words),
        "COUNT(DISTINCT x) FROM t": 2,
        "SUM(x) FROM t": 21.5,
        "SUM(COALESCE(x, 5)) FROM t": 21.5 + 5 * (1 + len(words)),
    }
    for text, value in expected.items():
        assert float(made.query(f"SELECT {text}").values[0]) == pytest.approx(value, abs=0.01), text
