"""Lazy frames are read in batches, each pass anew, and never collected whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from dpstats.data import lazy_rows
from dpstats.data.lazy_rows import LazyRows, of_lazy_frame
from dpstats.data.opening import open_source
from dpstats.errors import InvalidData
from dpstats.groups import GroupMeans
from dpstats.means import ClippedMean
from dpstats.regression import PrivateLinearRegression
from dpstats.tables import ContingencyTable

RNG = np.random.default_rng(0)
FRAME = pl.DataFrame({"a": RNG.normal(size=500), "b": RNG.normal(size=500), "g": RNG.choice(["u", "v"], 500)})
SEED = {"random_state": 0}


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy_rows, "_ENTRIES", 60)


def test_fits_are_those_in_memory_and_nothing_is_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    total = LazyRows.total

    def counted(self: Any, work: Any) -> Any:
        return total(self, lambda part: sizes.append(len(part.X)) or work(part))

    monkeypatch.setattr(LazyRows, "total", counted)
    for fit in (
        lambda X: ClippedMean(bounds={"a": (-2, 2)}, **SEED).fit(X).mean_,
        lambda X: GroupMeans(groups=["u", "v"], by="g", bounds={"b": (-2, 2)}, **SEED).fit(X).means_,
        lambda X: ContingencyTable(levels={"g": ["u", "v"]}, **SEED).fit(X).counts_,
        lambda X: (
            PrivateLinearRegression(x_bounds={"a": (-2, 2)}, y_bounds=(-2, 2), **SEED).fit(X, "b").params_
        ),
    ):
        np.testing.assert_array_equal(fit(FRAME.lazy()), fit(FRAME))
    assert max(sizes) <= 60


def test_rows_are_counted_and_may_be_none() -> None:
    rows = open_source(FRAME.lazy().filter(pl.col("a") > 0))
    assert isinstance(rows, LazyRows) and rows.shape == (int((FRAME["a"] > 0).sum()), 3)
    assert [rows.kind(name) for name in ("a", "g")] == ["number", "text"]
    with pytest.raises(InvalidData, match="at least 2 rows"):
        ClippedMean(bounds=(-2, 2)).fit(FRAME.lazy().select("a").filter(pl.col("a") > 99))


def test_what_polars_says_of_rows_is_not_passed_on() -> None:
    bad = pl.LazyFrame({"a": ["secret", "1"]}).with_columns(pl.col("a").cast(pl.Int64))
    with pytest.raises(InvalidData, match="rows that can be read") as caught:
        ClippedMean(bounds=(-2, 2)).fit(bad)
    assert "secret" not in str(caught.value) and caught.value.__context__ is None


def test_a_frame_without_batches_is_refused() -> None:
    class Old:
        def collect(self) -> None: ...

        def collect_schema(self) -> None: ...

    with pytest.raises(InvalidData, match="give the path"):
        of_lazy_frame(Old())


@pytest.mark.parametrize("later", [0, 1, 4, 6])
def test_rows_that_are_more_or_fewer_when_they_are_read_are_refused(later: int, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a\n" + "0.5\n" * 5)
    rows = of_lazy_frame(pl.scan_csv(path, schema={"a": pl.Float64}))
    assert rows.shape == (5, 1)
    path.write_text("a\n" + "0.5\n" * later)
    with pytest.raises(InvalidData, match="it changed meanwhile"):
        rows.total(lambda part: {"sum": np.array([len(part.X)])})
