"""Files whose statistics leave out NaN, or are false: every row counts as the row that it is."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpstats.errors import InvalidParameter
from dpstats.sql import PrivateSQL, engines
from tests.sql import statistics_file

ROWS = 600
Rows = dict[str, list[Any]]


def to_duckdb(rows: Rows, path: Path) -> None:
    with duckdb.connect() as connection:
        connection.register("rows", pa.table(rows))
        connection.execute(f"COPY (FROM rows) TO '{path}' (FORMAT parquet)")


def to_database(rows: Rows, path: Path) -> Any:
    connection = duckdb.connect(str(path))
    connection.register("rows", pa.table(rows))
    connection.execute("CREATE TABLE t AS FROM rows")
    connection.unregister("rows")
    connection.execute("CHECKPOINT")
    return connection


def read(write: Callable[[Rows, Path], Any], name: str) -> Callable[[Rows, Path], Any]:
    """Return what writes a file, and gives its path."""

    def written(rows: Rows, folder: Path) -> Any:
        write(rows, folder / name)
        return {"t": folder / name}

    return written


def to_csv(rows: Rows, path: Path) -> None:
    pl.DataFrame(rows).write_csv(path)


WRITERS: dict[str, Callable[[Rows, Path], Any]] = {
    "pyarrow": read(lambda rows, path: pq.write_table(pa.table(rows), path), "p.parquet"),
    "pyarrow, parts": read(
        lambda rows, path: pq.write_table(pa.table(rows), path, row_group_size=97, use_dictionary=["g"]), "p.parquet"
    ),
    "pandas": read(lambda rows, path: pd.DataFrame(rows).astype({"x": "float64"}).to_parquet(path), "p.parquet"),
    "polars": read(lambda rows, path: pl.DataFrame(rows).write_parquet(path), "p.parquet"),
    "DuckDB": read(to_duckdb, "p.parquet"),
    "CSV": read(to_csv, "t.csv"),
    "a database": lambda rows, folder: to_database(rows, folder / "d.duckdb"),
    "pandas, in memory": lambda rows, _: {"t": pd.DataFrame(rows).astype({"x": "float64"})},
    "polars, in memory": lambda rows, _: {"t": pl.DataFrame(rows)},
    "Arrow, in memory": lambda rows, _: {"t": pa.table(rows)},
}
# Queries, and their answers from the finite entries x of the rows and their groups g.
QUERIES: dict[str, Callable[[list[tuple[float | None, int]]], float]] = {
    "SELECT SUM(x) FROM t": lambda rows: sum(min(max(x, 0), 100) for x, _ in rows if x is not None),
    "SELECT COUNT(*) FROM t": len,
    "SELECT COUNT(x) FROM t": lambda rows: sum(x is not None for x, _ in rows),
    "SELECT COUNT(*) FROM t WHERE x > 20.5": lambda rows: sum(x is not None and x > 20.5 for x, _ in rows),
    "SELECT COUNT(*) FROM t WHERE NOT x <= 20.5": lambda rows: sum(x is not None and x > 20.5 for x, _ in rows),
    "SELECT COUNT(*) FROM t WHERE x IS NULL": lambda rows: sum(x is None for x, _ in rows),
    "SELECT COUNT(*) FILTER (WHERE x < 30) FROM t": lambda rows: sum(x is not None and x < 30 for x, _ in rows),
    "SELECT SUM(COALESCE(x, 5)) FROM t": lambda rows: sum(5 if x is None else min(max(x, 0), 100) for x, _ in rows),
    "SELECT SUM(CASE WHEN x < 25 THEN 1 ELSE 3 END) FROM t": lambda rows: sum(
        1 if x is not None and x < 25 else 3 for x, _ in rows
    ),
    "SELECT COUNT(DISTINCT x) FROM t": lambda rows: len({x for x, _ in rows if x is not None}),
    "SELECT COUNT(*) FROM t a JOIN p ON a.g = p.id WHERE x > 20.5 AND p.id < 2": lambda rows: sum(
        x is not None and x > 20.5 and g < 2 for x, g in rows
    ),
}
EVERY = [20.0, math.nan, 20.0, None, 1.5, math.inf, 20.0, -math.inf]


def rows_of(last: float | None) -> Rows:
    """Return rows whose entries are at most 20 but for NaN and infinity, and one more."""
    return {"x": [*(EVERY[i % len(EVERY)] for i in range(ROWS - 1)), last], "g": [i % 3 for i in range(ROWS)]}


def open_with(data: Any) -> PrivateSQL:
    """Return what answers exactly: the noise is far below a half."""
    files = isinstance(data, dict)
    if files:
        data = data | {"p": pl.DataFrame({"id": [0, 1, 2]})}
    else:
        data.execute("CREATE TABLE IF NOT EXISTS p AS SELECT unnest([0, 1, 2]) AS id")
    types = {"t.x": "DOUBLE", "t.g": "BIGINT"} if files and str(data["t"]).endswith(".csv") else None
    bounds = {"t.x": (0, 100)}
    options: dict[str, Any] = {"public_tables": ["p"], "keys": {"p": "id"}, "bounds": bounds, "types": types}
    return PrivateSQL(data, epsilon=1e7, random_state=0, **options)


@pytest.mark.parametrize("writer", WRITERS)
def test_one_row_moves_an_answer_by_what_that_row_says(writer: str, tmp_path: Path) -> None:
    # A planted bug: statistics without NaN make `WHERE NOT isnan(x)` true, and one row of 21 makes it a condition.
    for i, last in enumerate((20.0, 21.0, math.nan, math.inf)):
        rows = rows_of(last)
        held = [
            (x if x is not None and math.isfinite(x) else None, g) for x, g in zip(rows["x"], rows["g"], strict=True)
        ]
        (folder := tmp_path / str(i)).mkdir()
        made = open_with(WRITERS[writer](rows, folder))
        for text, expected in QUERIES.items():
            assert float(made.query(text).values.ravel()[0]) == pytest.approx(expected(held), abs=0.02), text


def test_the_file_of_the_check_is_the_one_that_is_described() -> None:
    assert pq.read_table(statistics_file.PATH).to_pydict()["n"] == [
        entry for part in statistics_file.PARTS for entry in part["n"]
    ]
    made = pq.read_metadata(statistics_file.PATH).row_group(1)
    stated = [made.column(i).statistics.max for i in range(4)]
    assert stated == [20.0, math.inf, 4, "aaaaaaa"]
    with open(statistics_file.PATH, "rb") as file:
        assert len(file.read()) < 2000


@pytest.mark.parametrize("rule", ["filter_pushdown", "statistics_propagation", "join_filter_pushdown filter_pushdown"])
def test_a_rule_that_believes_statistics_is_noticed(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    safe = engines._SAFE_OPTIMIZER_RULES
    monkeypatch.setattr(engines, "_SAFE_OPTIMIZER_RULES", safe | {*rule.split()})
    with pytest.raises(InvalidParameter, match="leaves out rows by the statistics"):
        PrivateSQL({"t": statistics_file.PATH}, epsilon=1.0)


def test_false_statistics_hide_no_row() -> None:
    found = {"t": statistics_file.PATH, "p": statistics_file.PATH}
    made = PrivateSQL(found, epsilon=1e6, random_state=0, categories={"t.s": ["a", "zyxwvut"]}, public_tables=["p"])
    assert round(made.count("SELECT COUNT(*) FROM t WHERE n > 100").value) == 2
    assert made.query("SELECT s, COUNT(*) FROM t GROUP BY s").values.round().ravel().tolist() == [5, 2]
    assert round(made.count("SELECT COUNT(*) FROM t JOIN p ON t.n = p.n AND p.n > 9").value) == 4


def test_tables_of_another_engine_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT 1 AS a")
    # An attached lake or SQLite file needs an extension, so its kind is said here.
    monkeypatch.setattr(engines, "_DATABASE_KIND", "SELECT 'ducklake'")
    with pytest.raises(InvalidParameter, match="must be to a database of DuckDB, got one of ducklake"):
        PrivateSQL(connection, epsilon=1.0)
