"""Rows that DuckDB reads: each entry by itself, whatever is beside it, and never shown."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpstats.data.batches import Part
from dpstats.data.duckdb_rows import FUNCTIONS as OF_SUMS
from dpstats.data.duckdb_rows import overridden
from dpstats.data.opening import open_source
from dpstats.errors import InvalidData, InvalidParameter
from dpstats.groups import GroupMeans
from dpstats.means import AdaptiveMean, ClippedMean
from dpstats.regression import PrivateLinearRegression
from dpstats.sql.compile import Source
from dpstats.sql.engines import FUNCTIONS as OF_ANSWERS

duckdb = pytest.importorskip("duckdb")

RNG = np.random.default_rng(1)
FRAME = pd.DataFrame(RNG.normal(size=(3000, 2)), columns=["u", "v w"])
FRAME["y"] = FRAME["u"] + RNG.normal(size=3000)
FRAME["g"] = RNG.choice(["a", "it's", "ü"], 3000)
FRAME["k"] = RNG.integers(0, 3, 3000)


@pytest.fixture(scope="module")
def connection():
    made = duckdb.connect()
    made.register("frame", FRAME)
    made.execute("CREATE TABLE rows AS SELECT * FROM frame")
    return made


@pytest.fixture(scope="module")
def folder(connection, tmp_path_factory):
    path = tmp_path_factory.mktemp("rows")
    for name in ("rows.parquet", "rows.csv", "rows.csv.gz"):
        connection.execute(f"COPY rows TO '{path / name}'")
    connection.execute(f"COPY rows TO '{path / 'rows.tsv'}' (DELIMITER '\t')")
    return path


def entries(source, columns=None, beside=None):
    """Return what work is given, in some order."""
    parts = []

    def work(part: Part):
        parts.append((part.X.copy(), list(part.beside[0]) if part.beside else None))
        return {"rows": np.array([len(part.X)])}

    total = open_source(source).having(columns, beside).total(work)
    X = np.vstack([part[0] for part in parts])
    assert total["rows"][0] == len(X)
    return X, None if beside is None else [entry for part in parts for entry in part[1]]


@pytest.mark.parametrize("name", ["relation", "rows.parquet", "rows.csv", "rows.csv.gz", "rows.tsv"])
def test_every_source_has_the_numbers_and_labels(name, connection, folder):
    source = connection.sql("FROM rows") if name == "relation" else folder / name
    X, labels = entries(source, ["u", "v w"], "g")
    np.testing.assert_array_equal(X, FRAME[["u", "v w"]])
    assert labels == FRAME["g"].tolist()
    # Of text, what asks for the entries says whether they are numbers.
    words = entries(source, ["u"], "k")[1]
    assert [int(word) for word in words] == FRAME["k"].tolist()


@pytest.mark.parametrize("name", ["relation", "rows.parquet", "rows.csv"])
def test_fits_are_those_in_memory(name, connection, folder):
    relation = connection.sql('SELECT u, "v w", y FROM rows')
    source = relation if name == "relation" else folder / name
    by = {"by": "g", "columns": ["u"], "bounds": (-4, 4), "random_state": 0}
    made = GroupMeans(groups=["a", "it's"], **by)
    whole = connection.sql("FROM rows") if name == "relation" else source
    np.testing.assert_array_equal(made.fit(whole).means_, made.fit(FRAME).means_)
    if name == "relation":
        numbers = FRAME[["u", "v w"]]
        alone = connection.sql('SELECT u, "v w" FROM rows')
        for mean in (
            ClippedMean(bounds={"v w": (-1, 2), "u": (-3, 3)}, random_state=0),
            ClippedMean(clip=2.0, clip_norm="l2", random_state=0),
            AdaptiveMean(bound=9.0, std=1.0, random_state=0),
        ):
            np.testing.assert_array_equal(mean.fit(alone).mean_, mean.fit(numbers).mean_)
            assert list(mean.feature_names_in_) == ["u", "v w"]
        model = PrivateLinearRegression(x_bounds=(-4, 4), y_bounds=(-8, 8), random_state=0)
        np.testing.assert_array_equal(model.fit(relation, "y").coef_, model.fit(numbers, FRAME["y"]).coef_)


def test_a_row_is_read_alone(connection):
    # An integer beyond 2^53 beside a missing one would become a float in a column of one type.
    large = 2**53 + 1
    sql = "SELECT 1.5::DOUBLE AS u, {}::BIGINT AS k UNION ALL SELECT 2.5, {}"
    for other in ("NULL", "7"):
        labels = entries(connection.sql(sql.format(large, other)), ["u"], "k")[1]
        assert large in labels
    for text in ("NULL", "TRUE"):
        sql = f"SELECT 1::TINYINT AS u, {text}::BOOLEAN AS k UNION ALL SELECT 2, FALSE"
        X, labels = entries(connection.sql(sql), ["u"], "k")
        assert (X.ravel().tolist() == [1.0, 2.0] and labels[1] is False) or labels[1] == 0
        assert (labels[0] is None) == (text == "NULL")


def test_missing_and_strange_numbers_are_what_they_are(connection, tmp_path):
    sql = "SELECT * FROM (VALUES (NULL), ('nan'::DOUBLE), ('inf'::DOUBLE), (-0.0::DOUBLE), (5e-324)) t(u)"
    X = entries(connection.sql(sql))[0].ravel()
    assert np.isnan(X[:2]).all() and X[2] == math.inf and np.signbit(X[3]) and X[4] == 5e-324
    for kind in ("TINYINT", "UBIGINT", "HUGEINT", "FLOAT", "DECIMAL(5,2)", "BOOLEAN"):
        assert entries(connection.sql(f"SELECT 1::{kind} AS u"))[0].tolist() == [[1.0]]
    path = tmp_path / "odd.csv"
    path.write_text('u,"v, w"\n 1e3 ,NA\n,2\n"7",-3.5\n')
    X = entries(path)[0]
    np.testing.assert_array_equal(X, [[1000.0, np.nan], [np.nan, 2.0], [7.0, -3.5]])


def test_types_that_are_no_numbers_are_refused_by_name(connection):
    for kind, value in (("VARCHAR", "'x'"), ("DATE", "'2020-01-01'"), ("INTEGER[]", "[1]")):
        with pytest.raises(InvalidData, match="a column 'u' of the type"):
            ClippedMean(bounds=(0, 1)).fit(connection.sql(f"SELECT {value}::{kind} AS u FROM range(3)"))
    # Values of an ENUM are in its type's name, and may be those of the rows.
    with pytest.raises(InvalidData, match=r"of the type ENUM\."):
        ClippedMean(bounds=(0, 1)).fit(connection.sql("SELECT 'secret'::ENUM('secret', 'b') AS u FROM range(3)"))
    with pytest.raises(InvalidParameter, match="y must name columns of X"):
        PrivateLinearRegression(x_bounds=(0, 1), y_bounds=(0, 1)).fit(connection.sql("SELECT 1.0 AS u"), "zz")


def test_what_duckdb_says_of_rows_is_not_passed_on(connection, tmp_path):
    secret = "s3cr3t"
    bad = connection.sql(f"SELECT CAST('{secret}' || k AS DOUBLE) AS u FROM rows")
    for made in (ClippedMean(bounds=(0, 1)), ClippedMean(clip=1.0, clip_norm="l2")):
        with pytest.raises(InvalidData) as caught:
            made.fit(bad)
        error = caught.value
        assert secret not in str(error) and error.__cause__ is None and error.__context__ is None
    path = tmp_path / "torn.csv"
    path.write_text(f'u,v\n1,2\n1,2,{secret}\n"')
    with pytest.raises(InvalidData) as caught:
        ClippedMean(bounds=(0, 1)).fit(path)
    assert secret not in str(caught.value) and caught.value.__context__ is None
    for text, words in (("", "first line must have the names"), ("u,u\n1,2\n", "different names of columns")):
        path.write_text(text)
        with pytest.raises(InvalidData, match=words):
            open_source(path)


def test_rows_that_come_and_go_are_refused(connection):
    connection.execute("CREATE OR REPLACE TABLE moving AS SELECT random() AS u FROM range(10)")
    engine = open_source(connection.sql("FROM moving"))
    assert engine.shape == (10, 1)
    connection.execute("INSERT INTO moving VALUES (0.5)")
    with pytest.raises(InvalidData, match="it changed meanwhile"):
        engine.total(lambda part: {"rows": np.array([len(part.X)])})


def test_no_rows_have_no_sums(connection):
    engine = open_source(connection.sql("SELECT u FROM rows WHERE u > 1e9"))
    assert engine.shape == (0, 1)
    assert engine.total(lambda part: {"rows": np.array([len(part.X)])})["rows"].tolist() == [0]


@pytest.mark.parametrize("macro", ["least(a, b) AS a", '"+"(a, b) AS a', "isfinite(a) AS true"])
def test_a_macro_that_would_be_called_is_refused(macro):
    # least(a, b) AS a would leave rows unclipped.
    own = duckdb.connect()
    own.execute("CREATE TABLE t AS SELECT range::DOUBLE AS u FROM range(10)")
    engine = open_source(own.sql("FROM t"))
    own.execute(f"CREATE MACRO {macro}")
    for read in (lambda: engine.shape, lambda: ClippedMean(clip=1.0, clip_norm="l2").fit(own.sql("FROM t"))):
        with pytest.raises(InvalidData, match="got a macro or a Python function"):
            read()


@pytest.mark.parametrize(("name", "kinds"), [("least", ["DOUBLE"] * 2), ("greatest", ["DOUBLE", "DOUBLE"])])
def test_a_python_function_that_would_be_called_is_refused(name, kinds):
    own = duckdb.connect()
    own.execute("CREATE TABLE t AS SELECT range::DOUBLE AS u FROM range(10)")
    engine = open_source(own.sql("FROM t"))
    own.create_function("harmless", lambda a, b: a, kinds, "DOUBLE")
    assert open_source(own.sql("FROM t")).shape == (10, 1)
    own.create_function(name, lambda a, b: 1e6 if a == 9 else 0.0, kinds, "DOUBLE")
    for read in (lambda: engine.shape, lambda: ClippedMean(clip=1.0, clip_norm="l2").fit(own.sql("FROM t"))):
        with pytest.raises(InvalidData, match="got a macro or a Python function"):
            read()


def test_an_older_duckdb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    relation = duckdb.sql("SELECT 1.0::DOUBLE AS a")
    monkeypatch.setattr(duckdb, "__version__", "1.4.1")
    with pytest.raises(InvalidData, match=r"needs DuckDB 2\.0 or newer, got DuckDB 1\.4\.1"):
        open_source(relation)


@pytest.mark.parametrize(
    "name",
    [
        *("s[1].csv", "q*.csv", "a?.csv", "x[!b].parquet", "year=2020/it's.csv", "year=1/p.parquet"),
        # DuckDB takes what follows a question mark for the query of a URL, and then sees no packed file.
        *("a?.csv.gz", "what?/s[1].tsv.gz"),
    ],
)
def test_a_path_is_one_file_and_never_a_pattern(name, connection, tmp_path):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    for other in ("s1", "qq", "ab", "xa"):
        for ending in ("csv", "parquet"):
            connection.execute(f"COPY (SELECT 9.0 AS a FROM range(50)) TO '{tmp_path / other}.{ending}'")
    made = tmp_path / f"made{path.suffix}"
    connection.execute(f"COPY (SELECT 1.0 AS a FROM range(20)) TO '{made}'")
    made.rename(path)
    assert open_source(path).shape == (20, 1)
    assert entries(path)[0].tolist() == [[1.0]] * 20
    if "=" in name:  # of the others, SQL refuses the names
        run = Source({"t": path}).run
        assert run("SELECT count(*), max(CAST(a AS DOUBLE)) FROM t") == [(20, 1.0)]
        assert run("SELECT * FROM t")[0] in ((1.0,), ("1.0",))


def test_a_path_that_duckdb_cannot_take_literally_is_refused(connection, tmp_path):
    path = tmp_path / "a\\[1].parquet"
    path.touch()
    with pytest.raises(InvalidData, match="Rename the file"):
        open_source(path)
    # Delimited text is then read without DuckDB.
    text = tmp_path / "a\\[1].csv"
    text.write_text("a\n1\n")
    assert entries(text)[0].tolist() == [[1.0]]


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


def test_lists_of_numbers_are_no_numbers() -> None:
    rows = duckdb.sql("SELECT [1.0, 2.0]::DOUBLE[] AS a, 1.5 AS b FROM range(9)")
    assert ClippedMean(bounds={"b": (0, 2)}, random_state=0, epsilon=1e6).fit(rows).mean_.shape == (1,)
    with pytest.raises(InvalidData, match=r"got a column 'a' of the type DOUBLE\[\]\."):
        ClippedMean(bounds=(0, 2), random_state=0).fit(rows)


@pytest.mark.parametrize("kind", ["INTEGER", "DATE", "TIMESTAMP", "INTERVAL"])
def test_a_column_that_can_hold_no_declared_label_is_refused(kind: str) -> None:
    rows = duckdb.sql(f"SELECT CAST(NULL AS {kind}) AS g, 1.0::DOUBLE AS x FROM range(20)")
    with pytest.raises(InvalidData, match="Declare the levels in the type of the column"):
        GroupMeans(by="g", groups=["a", "b"], bounds=(0, 2), random_state=0).fit(rows)
    text = duckdb.sql("SELECT CAST('a' AS ENUM ('a', 'b')) AS g, 1.0::DOUBLE AS x FROM range(20)")
    found = GroupMeans(by="g", groups=["a", "b"], bounds=(0, 2), epsilon=1e6, random_state=0).fit(text)
    assert found.counts_.round().tolist() == [20, 0]
