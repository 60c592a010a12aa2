"""Tables of DuckDB's: files in place, data frames, and the types of their columns."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pytest

from dpstats.errors import InvalidData, InvalidParameter
from dpstats.sql import PrivateSQL
from dpstats.sql.source import Source


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
    with pytest.raises(InvalidData, match="has changed"):
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
        ({"x": "data [1]/x.csv"}, InvalidParameter, r"data \[1\]/x\.csv': a path must not have \*"),
        ({"x": object()}, InvalidData, "must be a path or a data frame"),
    ],
)
def test_what_is_no_database_is_refused(data: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        PrivateSQL(data, epsilon=1.0)


def test_a_file_that_is_no_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"hushhush")
    with pytest.raises(InvalidData, match="not a readable") as caught:
        Source({"x": tmp_path / "x.parquet"})
    assert "hushhush" not in str(caught.value) and caught.value.__context__ is None


@pytest.mark.parametrize("names", [("age", "age"), ("age", "AGE")])
def test_two_columns_of_a_name_are_refused(tmp_path: Path, names: tuple[str, str]) -> None:
    # Before, a query of such a frame or Parquet file used the first column.
    message = rf"two columns are named '{names[1]}' \(names ignore case\)"
    frame = pd.DataFrame([[1, 100]] * 9, columns=list(names))
    frame.to_csv(tmp_path / "x.csv", index=False)
    given: dict[Any, Any] = {"table 't'": frame, "x.csv": tmp_path / "x.csv"}
    if names[0] != names[1]:
        given["table 't'", 1] = pl.DataFrame({names[0]: [1], names[1]: [2]})
        pl.DataFrame({"point": [{"age": 1}], names[0]: [1], names[1]: [2]}).write_parquet(
            tmp_path / "x.parquet"
        )
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


@pytest.mark.parametrize("row", TORN.values(), ids=TORN)
def test_a_row_of_a_text_file_changes_no_other_one(tmp_path: Path, row: bytes) -> None:
    # A planted bug: types that are found in the first rows, and a later one that makes every query fail.
    rows = [b"p%d,%d" % (i, i % 7) for i in range(25_000)]
    rows[22_000] = row
    path = tmp_path / "v.csv"
    path.write_bytes(b"person,x\n" + b"\n".join(rows) + b"\n")
    source = Source({"v": path}, {"v.x": "BIGINT"})
    assert [kind.name for _, kind in source.tables()["v"].columns.values()] == ["VARCHAR", "BIGINT"]
    ((n,),) = source.run("SELECT count(*) FROM v")
    others = sum(i % 7 == 3 for i in range(25_000) if i != 22_000)
    ((threes, last),) = source.run(
        "SELECT count(*) FILTER (x = 3), count(*) FILTER (person = 'p24999') FROM v"
    )
    assert abs(n - 25_000) <= 1 and 0 <= threes - others <= 1 and last == 1
    # What is no text is missed where it is read.
    assert 0 <= source.run("SELECT count(*) FROM v WHERE x = 3")[0][0] - threes <= (row == TORN["no text"])


def test_types_are_advised_for_columns_of_text_files_only(tmp_path: Path) -> None:
    frame = pd.DataFrame({"name": ["7", "8"], "x": ["1", "2"]})
    frame.to_csv(tmp_path / "c.csv", index=False)
    duckdb.from_df(frame).write_parquet(str(tmp_path / "p.parquet"))
    files: dict[str, Any] = {"C": tmp_path / "c.csv", "p": tmp_path / "p.parquet", "f": frame}
    sql = PrivateSQL(files, epsilon=1.0, types={"C.x": "BIGINT"})
    advice = (
        r" A column of a CSV file is text unless its type is declared, for example types={'C.name': 'DOUBLE'}"
    )
    for text in ("SELECT COUNT(*) FROM C WHERE name = 7", "SELECT SUM(name) FROM C"):
        with pytest.raises(InvalidParameter, match=f"{advice}$"):
            sql.query(text)
    for name in ("p", "f"):
        with pytest.raises(InvalidParameter, match=r"VARCHAR in quotes, got 7$"):
            sql.query(f"SELECT COUNT(*) FROM {name} WHERE name = 7")


def test_types_of_text_files_are_declared(tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text("Day,x\n2024-02-01,1\n2024-02-30,2\n,nan\n")
    source = Source({"v": path}, {"V.day": "date", "v.x": "DOUBLE"})
    assert [kind.kind for _, kind in source.tables()["v"].columns.values()] == ["date", "real"]
    assert source.run("SELECT count(day), count(x) FROM v") == [(1, 3)]
    cases = [
        ({"w.x": "DOUBLE"}, "columns of CSV"),
        ({"v.y": "DOUBLE"}, "got 'y'"),
        ({"v.x": "INT[]"}, "one of"),
    ]
    for types, message in cases:
        with pytest.raises(InvalidParameter, match=message):
            Source({"v": path}, types)
    with pytest.raises(InvalidParameter, match="for CSV files only"):
        Source(duckdb.connect(), {"v.x": "DOUBLE"})
    path.write_text("x,Day\n1,2024-02-01\n")
    with pytest.raises(InvalidData, match="other columns"):
        source.refresh()
    (tmp_path / "g[1].csv").write_text("a\n1\n")
    with pytest.raises(InvalidParameter, match="must not have"):
        Source({"v": tmp_path / "g[1].csv"})


@pytest.mark.parametrize("rows", [0, 5000])
def test_bytes_that_are_no_text_have_one_consequence_wherever_they_stand(tmp_path: Path, rows: int) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(b"a,b\n" + b"1,x\n" * rows + b"2,\xff\n3,y\n")
    found = Source({"t": path}, types={"t.a": "BIGINT"}).run(
        "SELECT count(*), max(a), min(b) FROM t WHERE a > 1"
    )
    assert found == [(1, 3, "y")]


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
