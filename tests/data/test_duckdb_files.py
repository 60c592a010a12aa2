"""Files as tables of DuckDB: names and durations are those that the programs that wrote them meant."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dpstats.data.duckdb_rows import is_parquet
from dpstats.data.opening import open_source
from dpstats.errors import InvalidData
from dpstats.means import ClippedMean
from dpstats.regression import PrivateLinearRegression

duckdb = pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

WRITERS = ["pandas", "polars", "pyarrow", "duckdb"]


def write(writer: str, path: Path) -> None:
    """Write a column of durations beside one of numbers."""
    spans = [timedelta(seconds=1), None, timedelta(days=2)]
    if writer == "pandas":
        pd.DataFrame({"d'\"": pd.to_timedelta(spans), "x": [1.0, 2.0, 3.0]}).to_parquet(path)
    elif writer == "polars":
        pl.DataFrame({"d'\"": spans, "x": [1.0, 2.0, 3.0]}).write_parquet(path)
    elif writer == "pyarrow":
        columns = [pa.array(spans, type=pa.duration("s")), pa.array([1.0, 2.0, 3.0])]
        pq.write_table(pa.table(columns, names=["d'\"", "x"]), path)
    else:
        duckdb.sql('SELECT INTERVAL 1 DAY AS "d\'""", 1.0::DOUBLE AS x FROM range(3)').write_parquet(str(path))


@pytest.mark.parametrize("writer", WRITERS)
def test_durations_are_no_numbers(writer: str, tmp_path: Path) -> None:
    path = tmp_path / "it's.parquet"
    write(writer, path)
    rows = open_source(path)
    assert rows.types["d'\""] == "INTERVAL"  # type: ignore[attr-defined]
    with pytest.raises(InvalidData, match="of the type INTERVAL"):
        ClippedMean(bounds=(0, 1), random_state=0).fit(rows.having(["d'\""]))  # type: ignore[attr-defined]
    with pytest.raises(InvalidData):
        PrivateLinearRegression(x_bounds=(0, 4), y_bounds=(0, 9), random_state=0).fit(
            rows.having(["x"], "d'\"")  # type: ignore[attr-defined]
        )
    fitted = ClippedMean(bounds=(0, 4), random_state=0).fit(rows.having(["x"]))  # type: ignore[attr-defined]
    assert fitted.plan_.n_samples == 3


def test_names_that_differ_in_case_only_are_refused(tmp_path: Path) -> None:
    # DuckDB calls the second column a_1.
    path = tmp_path / "x.parquet"
    nested = pa.array([{"A": 1, "b": [1]}, None])
    pq.write_table(pa.table([nested, pa.array([1.0, 2.0])], names=["n", "a"]), path)
    assert open_source(path).names == ["n", "a"]
    pq.write_table(pa.table([pa.array([1.0]), pa.array([2.0])], names=["A", "a"]), path)
    with pytest.raises(InvalidData, match=r"x\.parquet must have different names of columns, got 'a' twice"):
        open_source(path)


def test_what_is_parquet() -> None:
    assert [is_parquet(Path(name)) for name in ("x.parquet", "X.PQ", "x.parquet.csv", "x.csv")] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("writer", ["polars", "pyarrow"])
@pytest.mark.parametrize("other", [20.0, 21.0, -7.0, np.inf])
def test_statistics_of_a_file_decide_nothing(writer: str, other: float, tmp_path: Path) -> None:
    # The smallest and the largest entry of a file leave out NaN. DuckDB removes conditions that they decide.
    x = np.where(np.arange(1000) % 4, 20.0, np.nan)
    x[1] = other
    path = tmp_path / "x.parquet"
    if writer == "polars":
        pl.DataFrame({"x": x}).write_parquet(path)
    else:
        pq.write_table(pa.table({"x": x}), path, row_group_size=100)
    for bounds in ((0, 100), (0, 10), (30, 40), (20.5, 100)):
        model = ClippedMean(bounds=bounds, missing="center", clipped_share=True, random_state=0)
        frame = model.fit(pd.DataFrame({"x": x}))
        expected = frame.mean_.tolist(), frame.clipped_share_.tolist()
        found = model.fit(path)
        assert (found.mean_.tolist(), found.clipped_share_.tolist()) == expected
