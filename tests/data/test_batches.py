"""Sums over rows that are not in memory are those of the same rows in memory, however they are cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from dpstats.data.batches import LazyRows, Part, chosen_columns, of_lazy_frame, refusal
from dpstats.data.levels import Categories
from dpstats.data.opening import open_source
from dpstats.data.schema import Column, Schema
from dpstats.data.tables import added
from dpstats.errors import InvalidData
from dpstats.groups import GroupMeans
from dpstats.means import AdaptiveMean, ClippedMean, PrivateVariance, SparseMean
from dpstats.privacy import PrivacyBudget
from dpstats.regression import (
    FunctionalMechanismRegression,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    SufficientStatisticsRegression,
)
from dpstats.tables import ContingencyTable
from tests.data.engines import Cut

RNG = np.random.default_rng(0)
X = RNG.normal(size=(500, 3))
Y = X @ [1.0, -0.5, 0.0] + RNG.normal(size=500)
LABELS = RNG.choice(["a", "b", "c"], 500)


@pytest.mark.parametrize("rows", [37, 1000])
@pytest.mark.parametrize(
    "made",
    [
        ClippedMean(bounds=(-2, 2), random_state=0),
        ClippedMean(bounds=(-2, 2), delta=0.0, clipped_share=True, random_state=0),
        ClippedMean(clip=2, clip_norm="l2", random_state=0),
        PrivateVariance(bounds=(-2, 2), random_state=0),
        AdaptiveMean(bound=10, std=1.0, random_state=0),
        AdaptiveMean(bound=10, std=1.0, tails="variance", random_state=0),
    ],
    ids=["box", "box, pure, counted", "ball", "variance", "adaptive", "adaptive, variance"],
)
def test_means_are_those_in_memory(made, rows):
    expected = made.fit(X)
    here = expected.variance_ if hasattr(expected, "variance_") else expected.mean_
    found = made.fit(Cut(X, rows))
    np.testing.assert_array_equal(found.variance_ if hasattr(found, "variance_") else found.mean_, here)
    assert found.n_features_in_ == 3


@pytest.mark.parametrize(
    ("made", "y"),
    [
        (PrivateLinearRegression(x_bounds=(-4, 4), y_bounds=(-6, 8), random_state=0), Y),
        (SufficientStatisticsRegression(x_bounds=(-4, 4), y_bounds=(-6, 8), random_state=0), Y),
        (FunctionalMechanismRegression(x_bounds=(-4, 4), y_bounds=(-6, 8), random_state=0), Y),
        (PrivateLogisticRegression(x_bounds=(-4, 4), random_state=0), (Y > 0).astype(float)),
        (
            PrivateLogisticRegression(x_bounds=(-4, 4), classes=("no", "yes"), random_state=0),
            np.where(Y > 0, "yes", "no"),
        ),
    ],
    ids=["linear", "sufficient", "functional", "logistic", "logistic, of words"],
)
def test_regressions_are_those_in_memory(made, y):
    here = made.fit(X, y).params_
    np.testing.assert_array_equal(made.fit(Cut(X, 101, ["u", "v", "w"], entries=y), "y").params_, here)
    with pytest.raises(InvalidData, match="name of a column of X"):
        made.fit(Cut(X, 101))


def test_means_of_groups_are_those_in_memory():
    made = GroupMeans(groups=["a", "b"], bounds=(-4, 4), random_state=0)
    here = made.fit(X, LABELS).means_
    np.testing.assert_array_equal(made.fit(Cut(X, 99, ["u", "v", "w"], entries=LABELS), "y").means_, here)


def test_what_cannot_be_read_is_refused_before_a_charge():
    budget = PrivacyBudget(epsilon=1.0, delta=1e-6)
    bad = X.copy()
    bad[3, 1] = np.nan
    for made in (
        ClippedMean(bounds=(-2, 2), budget=budget),
        ClippedMean(clip=2, clip_norm="l2", budget=budget),
        AdaptiveMean(bound=10, std=1.0, budget=budget),
        PrivateVariance(bounds=(-2, 2), budget=budget),
    ):
        with pytest.raises(InvalidData, match="contains NaN or infinity"):
            made.fit(Cut(bad, 100))
    regression = PrivateLinearRegression(x_bounds=(-4, 4), y_bounds=(-6, 8), budget=budget)
    with pytest.raises(InvalidData, match="contains NaN or infinity"):
        regression.fit(Cut(bad, 100, ["u", "v", "w"], entries=Y), "y")
    with pytest.raises(InvalidData, match="y must be finite"):
        regression.fit(Cut(X, 100, ["u", "v", "w"], entries=np.where(Y > 1, np.nan, Y)), "y")
    with pytest.raises(InvalidData, match="y must be 0 or 1"):
        PrivateLogisticRegression(x_bounds=(-4, 4)).fit(Cut(X, 100, ["u", "v", "w"], entries=Y), "y")
    with pytest.raises(InvalidData, match="order of the rows"):
        SparseMean(n_nonzero=1, clip=4, std=1, split=True).fit(Cut(X, 100))
    with pytest.raises(InvalidData, match="at least 2 rows"):
        ClippedMean(bounds=(-2, 2)).fit(Cut(X[:1], 100))
    assert not budget.history()


def test_sums_add_up_and_names_are_checked():
    total = added({"a": np.array([1, 2])}, {"a": np.array([3, 4]), "b": np.array([5])})
    assert {name: values.tolist() for name, values in total.items()} == {"a": [4, 6], "b": [5]}
    assert chosen_columns(["a", "b", "c"], None, "b") == (["a", "c"], ("b",))
    assert chosen_columns(["a", "b", "c"], ["c"], None) == (["c"], ())
    for columns, beside in ((["d"], None), (None, "d")):
        with pytest.raises(InvalidData, match="none of the name 'd'"):
            chosen_columns(["a"], columns, beside)
    with pytest.raises(InvalidData, match="different name for every column"):
        chosen_columns(["a", "a"], None, None)
    assert "read them without dpstats" in str(refusal())
    assert "3 columns" in repr(Cut(X, 100, ["u", "v", "w"]))
    assert Part(X).beside == ()


def test_a_stream_reads_every_part_as_the_schema_says():
    schema = Schema(beside=(Column("groups", "y", Categories(["a", "c"])),)).resolve(["u", "v", "w", "y"])
    rows = Cut(X, 100, ["u", "v", "w"], entries=LABELS).read(schema)
    counted = rows.total(lambda table: {"a": np.array([np.sum(table.groups == 0)])})
    assert counted["a"].tolist() == [int(np.sum(LABELS == "a"))] and rows.shape == (500, 3)
    whole = rows.whole()
    assert whole.shape == (500, 3) and np.sum(whole.groups == 1) == np.sum(LABELS == "c")
    with pytest.raises(InvalidData, match="order of the rows"):
        Cut(X, 100).read(Schema(ordered=True))
    with pytest.raises(InvalidData, match="a histogram"):
        Cut(X, 100).read(Schema(counted=True))


DRAWS = np.random.default_rng(0)
FRAME = pl.DataFrame(
    {"a": DRAWS.normal(size=500), "b": DRAWS.normal(size=500), "g": DRAWS.choice(["u", "v"], 500)}
)
SEED = {"random_state": 0}


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpstats.data.batches._ENTRIES", 60)


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
