"""Tables of DuckDB's: files in place, data frames, and the types of their columns."""

from __future__ import annotations

import gzip
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow.compute
import pytest

from dpstats.errors import InvalidData, InvalidParameter
from dpstats.privacy import PrivacyBudget
from dpstats.sql import PrivateSQL
from dpstats.sql.compile import Source


def test_files_and_frames_are_tables(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1, 1, 2], "b": ["x", "y", "x"]})
    frame.to_csv(tmp_path / "it's.csv", index=False)
    duckdb.from_df(frame).write_parquet(str(tmp_path / "p.parquet"))
    source = Source(
        {
            "c": tmp_path / "it's.csv",
            "p": str(tmp_path / "p.parquet"),
            "f": frame,
            "pl": pl.DataFrame({"a": [1, 1, 2], "b": ["x", "y", "x"]}),
        }
    )
    tables = source.tables()
    assert set(tables) == {"c", "p", "f", "pl"}
    for table in tables.values():
        assert source.run(f"SELECT count(*) FROM {table.source}") == [(3,)]
        assert source.frequency(table, "a") == 2
    # No other file can be read.
    with pytest.raises(InvalidData):
        source.run(f"SELECT * FROM read_csv('{__file__}')")
    source.refresh()
    frame.iloc[:1].to_csv(tmp_path / "it's.csv", index=False)
    with pytest.raises(InvalidData, match="not have changed"):
        source.run("SELECT 1")
    source.refresh()
    assert source.run(f"SELECT count(*) FROM {tables['c'].source}") == [(1,)]


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (3, InvalidParameter, "connection must be a DuckDB or psycopg connection"),
        ({}, InvalidParameter, "at least one table"),
        ({"": "x.csv"}, InvalidParameter, "by their names"),
        ({"x": "nowhere.csv"}, InvalidData, "nowhere.csv cannot be read"),
        ({"x": "data [1]/x.csv"}, InvalidData, "x.csv cannot be read"),
        ({"x": object()}, InvalidData, "must be a path or a data frame"),
    ],
)
def test_what_is_no_database_is_refused(data: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        PrivateSQL(data, epsilon=1.0)


def test_a_file_that_is_no_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"hushhush")
    with pytest.raises(InvalidData, match="must be a readable") as caught:
        Source({"x": tmp_path / "x.parquet"})
    assert "hushhush" not in str(caught.value) and caught.value.__context__ is None


@pytest.mark.parametrize("names", [("age", "age"), ("age", "AGE")])
def test_two_columns_of_a_name_are_refused(tmp_path: Path, names: tuple[str, str]) -> None:
    # Before, a query of such a frame or Parquet file used the first column.
    message = rf"two columns are named '{names[1]}' \(names ignore case\)|got '{names[1]}' twice"
    frame = pd.DataFrame([[1, 100]] * 9, columns=list(names))
    frame.to_csv(tmp_path / "x.csv", index=False)
    given: dict[Any, Any] = {"table 't'": frame, "x.csv": tmp_path / "x.csv"}
    if names[0] != names[1]:
        given["table 't'", 1] = pl.DataFrame({names[0]: [1], names[1]: [2]})
        pl.DataFrame({"point": [{"age": 1}], names[0]: [1], names[1]: [2]}).write_parquet(tmp_path / "x.parquet")
        given["x.parquet"] = tmp_path / "x.parquet"
    for where, data in given.items():
        with pytest.raises(InvalidData, match=message) as caught:
            Source({"t": data})
        assert str(caught.value).startswith(where if isinstance(where, str) else where[0])


def test_columns_within_a_column_of_parquet_may_have_its_name(tmp_path: Path) -> None:
    pl.DataFrame({"age": [{"age": 1, "b": [{"AGE": 2}]}], "b": [3]}).write_parquet(tmp_path / "x.parquet")
    assert list(Source({"t": tmp_path / "x.parquet"}).tables()["t"].columns) == ["age", "b"]


def test_categories_of_a_frame_are_text() -> None:
    frame = pd.DataFrame({"name": pd.Series(["Ann", "Bob", "Ann"]).astype("category"), "x": [1, 2, 3]})
    words = pl.Series("name", ["Ann", "Bob", "Ann"], dtype=pl.Categorical)
    for given in (frame, pl.DataFrame({"name": words, "x": [1, 2, 3]})):
        sql = PrivateSQL({"v": given, "dpstats_frame": given}, epsilon=500.0, random_state=0)
        assert "Ann" not in repr(sql._catalogue)
        for table in ("v", "dpstats_frame"):
            assert round(sql.count(f"SELECT COUNT(*) FROM {table} WHERE name = 'Ann'").value) == 2


TORN = {
    "no number": b"p,oops",
    "short": b"p",
    "long": b"p,3,4,5",
    "empty": b"",
    "a quote": b'p"q,3',
    "closed": b'"p"q,3',
    "no text": b"\xff\xfe,3",
    "zero": b"a\0b,3",
    "return": b"a\rb,3",
    "long text": b"x" * 3_000_000 + b",3",
}


REFUSED = {
    "short": "as many entries",
    "long": "as many entries",
    "empty": "as many entries",
    "a quote": "a quote",
    "closed": "must be quoted",
    "no text": "utf-8",
    "long text": "characters",
}


@pytest.mark.parametrize("name", TORN)
def test_a_row_of_a_text_file_changes_no_other_one(tmp_path: Path, name: str) -> None:
    # A planted bug: types that are found in the first rows, and a later one that makes every query fail.
    rows = [b"p%d,%d" % (i, i % 7) for i in range(25_000)]
    rows[22_000] = TORN[name]
    path = tmp_path / "v.csv"
    path.write_bytes(b"person,x\n" + b"\n".join(rows) + b"\n")
    if name in REFUSED:
        with pytest.raises(InvalidData, match=f"^v.csv: .*{REFUSED[name]}"):
            Source({"v": path}, {"v.x": "BIGINT"})
        return
    source = Source({"v": path}, {"v.x": "BIGINT"})
    assert [kind.name for _, kind in source.tables()["v"].columns.values()] == ["VARCHAR", "BIGINT"]
    others = sum(i % 7 == 3 for i in range(25_000) if i != 22_000)
    own = name in ("zero", "return")
    assert source.run("SELECT count(*), count(*) FILTER (x = 3), count(x) FROM v") == [
        (25_000, others + own, 24_999 + own)
    ]


def test_types_are_advised_for_columns_of_text_whose_types_can_be_declared(tmp_path: Path) -> None:
    frame = pd.DataFrame({"name": ["7", "8"], "x": ["1", "2"]})
    frame.to_csv(tmp_path / "c.csv", index=False)
    duckdb.from_df(frame).write_parquet(str(tmp_path / "p.parquet"))
    files: dict[str, Any] = {"C": tmp_path / "c.csv", "p": tmp_path / "p.parquet", "f": frame}
    sql = PrivateSQL(files, epsilon=1.0, types={"C.x": "BIGINT"})
    advice = (
        r" A column of a CSV file or of Python objects is text unless its type is declared, for example "
        r"types={'.\.name': 'DOUBLE'}\."
    )
    for text in ("SELECT COUNT(*) FROM C WHERE name = 7", "SELECT SUM(name) FROM C"):
        with pytest.raises(InvalidParameter, match=f"{advice}$"):
            sql.query(text)
    with pytest.raises(InvalidParameter, match=rf"VARCHAR in quotes, got 7\.{advice}$"):
        sql.query("SELECT COUNT(*) FROM f WHERE name = 7")
    with pytest.raises(InvalidParameter, match=r"VARCHAR in quotes, got 7$"):
        sql.query("SELECT COUNT(*) FROM p WHERE name = 7")


def test_types_of_text_files_are_declared(tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text("Day,x\n2024-02-01,1\n2024-02-30,2\n,nan\n")
    source = Source({"v": path}, {"V.day": "date", "v.x": "DOUBLE"})
    assert [kind.kind for _, kind in source.tables()["v"].columns.values()] == ["date", "real"]
    assert source.run("SELECT count(day), count(x) FROM v") == [(1, 3)]
    cases = [({"w.x": "DOUBLE"}, "columns of CSV"), ({"v.y": "DOUBLE"}, "got 'y'"), ({"v.x": "INT[]"}, "one of")]
    for types, message in cases:
        with pytest.raises(InvalidParameter, match=message):
            Source({"v": path}, types)
    with pytest.raises(InvalidParameter, match="for CSV files only"):
        Source(duckdb.connect(), {"v.x": "DOUBLE"})
    path.write_text("x,Day\n1,2024-02-01\n")
    with pytest.raises(InvalidData, match="the columns that it had"):
        source.refresh()
    (tmp_path / "g[1].csv").write_text("a\n1\n")
    (tmp_path / "g1.csv").write_text("a\n1\n2\n")
    assert Source({"v": tmp_path / "g[1].csv"}).run("SELECT count(*) FROM v") == [(1,)]


WORDS = {
    "BIGINT": (
        {"20": 20, " 7 ": 7, "20.0": 20, "1e3": 1000, "true": 1, "9007199254740993": 2**53 + 1, "-0": 0},
        ["1,000", "20.9", "0x10", "1_000", "9223372036854775808", "12345678901234567.5", "x", "2024-02-29"],
    ),
    "DOUBLE": ({"20.9": 20.9, "TRUE": 1.0, "+5": 5.0, ".5e1": 5.0}, ["1,000", "0x10", "1_000", "x", "20 %"]),
    "BOOLEAN": ({"true": True, "FALSE": False, "1": True, "0.0": False}, ["yes", "2", "T", "0x1"]),
    "DATE": ({"2024-02-29": date(2024, 2, 29)}, ["2024-02-30", "29.2.2024", "7"]),
    "TIMESTAMP": ({"2024-02-29 12:00:00": datetime(2024, 2, 29, 12)}, ["noon", "2024-02-29 25:00:00"]),
}
MISSING = ["", "NA", "NULL", "nan", "None"]


@pytest.mark.parametrize("kind", WORDS)
def test_a_word_has_the_value_of_its_declared_type_or_is_refused(tmp_path: Path, kind: str) -> None:
    readable, others = WORDS[kind]
    path, types = tmp_path / "t.csv", {"t.a": kind}
    words = [*readable, *MISSING]
    pd.DataFrame({"i": range(len(words)), "a": words}).to_csv(path, index=False)
    found = [value for (value,) in Source({"t": path}, types).run("SELECT a FROM t ORDER BY CAST(i AS BIGINT)")]
    assert found[: len(readable)] == [*readable.values()]
    assert all(value is None or value != value for value in found[len(readable) :])
    budget = PrivacyBudget(1.0)
    for text in ("SELECT COUNT(a) FROM t", "SELECT COUNT(*) FROM t"):
        PrivateSQL({"t": path}, epsilon=0.1, types=types, budget=budget).query(text)
    charged = budget.spent
    for word in others:
        pd.DataFrame({"i": range(len(words) + 1), "a": [*words, word]}).to_csv(path, index=False)
        made = PrivateSQL({"t": path}, epsilon=0.1, types=types, budget=budget)
        with pytest.raises(InvalidData, match=r"^t\.a must have entries of its declared type") as caught:
            made.query("SELECT COUNT(a) FROM t")
        assert word not in str(caught.value).split() and budget.spent == charged
        made.plan_for("SELECT COUNT(a) FROM t")
        dropped = PrivateSQL({"t": path}, epsilon=1e6, random_state=0, types=types, missing="drop")
        assert round(dropped.count("SELECT COUNT(a) FROM t").value) == len(readable)
        assert round(dropped.count("SELECT COUNT(*) FROM t").value) == len(words) + 1


def test_entries_are_checked_once_in_a_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n")
    made = PrivateSQL({"t": tmp_path / "t.csv"}, epsilon=1.0, types={"t.a": "DOUBLE"})
    made.count("SELECT COUNT(a) FROM t")
    with monkeypatch.context() as patched:
        patched.setattr(type(made._data._engine), "find_unreadable", lambda *given: pytest.fail("read again"))
        made.count("SELECT COUNT(a) FROM t")
    (tmp_path / "t.csv").write_text("a\nhush\n")
    made.refresh()
    with pytest.raises(InvalidData, match="declared type"):
        made.count("SELECT COUNT(a) FROM t")


def test_a_bare_carriage_return_ends_no_row(tmp_path: Path) -> None:
    # A planted bug: one note of 1,000 lines is 1,000 rows.
    notes = [*["plain"] * 49, "x" + "\rnorth" * 1000]
    path = tmp_path / "t.csv"
    pd.DataFrame({"g": ["north"] * 50, "note": notes}).to_csv(path, index=False)
    made = PrivateSQL({"t": path}, epsilon=1e6, random_state=0)
    assert round(made.count("SELECT COUNT(*) FROM t").value) == 50
    assert round(made.count("SELECT COUNT(*) FROM t WHERE g = 'north'").value) == 50
    path.write_text("g,note\nnorth,a\n")
    made.refresh()
    assert round(made.count("SELECT COUNT(*) FROM t").value) == 1


def test_unnamed_columns_have_their_place_as_name(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    pd.DataFrame({"age": [3, 4]}).to_csv(path)
    made = PrivateSQL({"t": path}, epsilon=1e6, random_state=0, types={"t.column 1": "BIGINT", "t.age": "BIGINT"})
    assert round(made.count('SELECT COUNT(*) FROM t WHERE "column 1" = 1 AND age = 4').value) == 1
    path.write_text(",,age\n1,2,3\n")
    assert [*Source({"t": path}).tables()["t"].columns] == ["column 1", "column 2", "age"]


def test_durations_are_no_numbers(tmp_path: Path) -> None:
    frame = pd.DataFrame({"wait": pd.to_timedelta([3, 4], unit="min"), "x": [1, 2]})
    frame.to_parquet(tmp_path / "t.parquet")
    for data in (frame, tmp_path / "t.parquet"):
        made = PrivateSQL({"t": data}, epsilon=1.0, bounds={"t.wait": (0, 10)})
        for what in ("SUM(wait)", "AVG(wait + x)"):
            with pytest.raises(InvalidParameter, match="wait must be a number, got INTERVAL"):
                made.query(f"SELECT {what} FROM t")
        with pytest.raises(InvalidParameter, match="must be compared with a literal of its type INTERVAL"):
            made.query("SELECT COUNT(*) FROM t WHERE wait > 5")


def test_words_of_a_text_that_are_numbers_are_groups_by_value(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("g,flag\n0.0,TRUE\n1.0,FALSE\n1,true\n00,no\n9007199254740993,\n")
    text = PrivateSQL(
        {"t": path},
        epsilon=1e6,
        random_state=0,
        categories={"t.g": ["0", "1", str(2**53), str(2**53 + 1)], "t.flag": ["True", "False"]},
    )
    found = text.query("SELECT g, COUNT(*) FROM t GROUP BY g")
    assert found.cells == (("0",), ("1",), (str(2**53),), (str(2**53 + 1),))
    assert found.values.round().tolist() == [2, 2, 0, 1]
    assert text.query("SELECT flag, COUNT(*) FROM t GROUP BY flag").values.round().tolist() == [2, 1]
    # The declaration alone decides: with another word, all of them are text.
    words = PrivateSQL({"t": path}, epsilon=1e6, random_state=0, categories={"t.g": ["0.0", "1", "x"]})
    assert words.query("SELECT g, COUNT(*) FROM t GROUP BY g").values.round().tolist() == [1, 1, 0]
    frame = pl.DataFrame({"x": [0.0, 1.0, 1.0], "b": [True, False, True], "n": [0, 1, 1]})
    for column, counts in (("x", [1, 2]), ("b", [1, 2]), ("n", [1, 2])):
        for labels in (["0", "1"], [0, 1], [0.0, 1.0]):
            made = PrivateSQL({"t": frame}, epsilon=1e6, random_state=0, categories={f"t.{column}": labels})
            grouped = made.query(f"SELECT {column}, COUNT(*) FROM t GROUP BY {column}")
            assert grouped.values.round().tolist() == counts
        budget = PrivacyBudget(1.0)
        made = PrivateSQL({"t": frame}, epsilon=1.0, categories={f"t.{column}": ["a", "b"]}, budget=budget)
        with pytest.raises(InvalidParameter, match="must be values of its type"):
            made.query(f"SELECT {column}, COUNT(*) FROM t GROUP BY {column}")
        assert budget.spent.epsilon == 0


def test_a_word_is_the_number_that_it_is_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a\ntrue\n 2 \n1_0\nNA\nword\n")
    source = Source({"t": path}, types={"t.a": "DOUBLE"})
    assert source.run("SELECT a FROM t") == [(1.0,), (2.0,), (None,), (None,), (None,)]


def test_a_column_without_a_value_is_text() -> None:
    for entries in ([], [None], ["a"]):
        frame = pd.DataFrame({"g": pd.Series(entries, dtype=object)})
        (_, kind) = Source({"t": frame}).tables()["t"].columns["g"]
        assert kind.name == "VARCHAR"


def test_a_compressed_file_may_have_large_letters(tmp_path: Path) -> None:
    for name in ("small.csv.gz", "LARGE.CSV.GZ"):
        (tmp_path / name).write_bytes(gzip.compress(b"a,b\n1,x\n2,y\n"))
        source = Source({"t": tmp_path / name})
        assert list(source.tables()["t"].columns) == ["a", "b"]


@pytest.mark.parametrize("seventh", [Decimal("1"), Decimal("1.5"), 2.5, 1, "x", True, date(2020, 1, 1), None])
def test_a_column_of_objects_has_one_type_whatever_its_rows_are(seventh: Any) -> None:
    # DuckDB guesses a type from about a thousand rows. One row rounded the others, or made them text.
    column = np.full(5000, Decimal("2.5"), dtype=object)
    column[::5] = Decimal("1")
    column[7] = seventh
    frame = pd.DataFrame({"a": column})
    assert Source({"t": frame}).tables()["t"].columns["a"][1].name == "VARCHAR"
    source = Source({"t": frame}, {"t.a": "DOUBLE"})
    table = source.tables()["t"]
    wrong = isinstance(seventh, str | date)
    if wrong:
        with pytest.raises(InvalidData, match="entries of its declared type only"):
            source.check_entries(table)
    else:
        source.check_entries(table)
    ((total,),) = source.run(f"SELECT sum(a) FROM {table.source}")
    rest = 1000 * 1.0 + 3999 * 2.5
    assert total == rest + (0.0 if seventh is None or wrong else float(seventh))


def test_dates_have_no_time_of_day_and_are_finite(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("d\n2020-01-01\n2020-01-02 00:00:00\n2020-01-03 10:00:00\ninfinity\n")
    source = Source({"t": path}, {"t.d": "DATE"})
    table = source.tables()["t"]
    assert source.run(f"SELECT count(d) FROM {table.source}") == [(2,)]
    with pytest.raises(InvalidData, match="entries of its declared type only"):
        source.check_entries(table)


def test_a_column_of_a_frame_without_a_name_is_numbered() -> None:
    frame = pd.DataFrame([[1, 2.5]], columns=["a", ""])
    assert list(Source({"t": frame}).tables()["t"].columns) == ["a", "column 2"]


def test_a_column_that_a_function_computes_from_other_rows_is_left_out() -> None:
    connection = duckdb.connect()

    def above_least(x: Any) -> Any:
        return pyarrow.compute.subtract(x, pyarrow.compute.min(x).as_py())

    connection.create_function("above_least", above_least, ["BIGINT"], "BIGINT", type="arrow")
    connection.execute(
        "CREATE TABLE visit (a BIGINT, drawn DOUBLE GENERATED ALWAYS AS (random()), own BIGINT AS (above_least(a)))"
    )
    connection.execute("INSERT INTO visit (a) SELECT i FROM range(100) t(i)")
    sql = PrivateSQL(connection, epsilon=1e5, random_state=0)
    assert sql.count("SELECT COUNT(*) FROM visit WHERE a < 50").value == pytest.approx(50, abs=0.1)
    for name in ("drawn", "own"):
        with pytest.raises(InvalidParameter, match="must be in FROM"):
            sql.count(f"SELECT COUNT(*) FROM visit WHERE {name} < 50")
