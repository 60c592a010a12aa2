"""Columns of data frames by their names, of pandas and polars alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

from dpstats.data.columns import column, frame_of, in_memory, refuse_unknown, select, series_of, take
from dpstats.errors import InvalidData, InvalidParameter
from dpstats.groups import GroupMeans
from dpstats.means import ClippedMean
from dpstats.mechanisms import Histogram
from dpstats.quantiles import PrivateQuantile
from dpstats.regression import PrivateLinearRegression

DATA = {"a": [1.0, 2.0], "g": ["x", "y"], "b": [3.0, 4.0]}
frames = pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])


@frames
def test_columns_and_entries(kind: type) -> None:
    frame = kind(DATA)
    assert list(take(frame, "g", [1, 0])) == ["y", "x"]
    assert list(column(select(frame, ["b"]), "b")) == [3.0, 4.0]


def test_unknown_and_repeated_names_are_refused() -> None:
    frame = pd.DataFrame([[1, 2, 3]], columns=["g", "g", "x"])
    for name in ("g", "q"):
        with pytest.raises(InvalidParameter, match="unit must name columns"):
            refuse_unknown("unit", [name], list(frame.columns))


rng = np.random.default_rng(0)
FRAME = pd.DataFrame({"a": rng.normal(size=60), "b": rng.normal(size=60), "g": rng.choice(["x", "y"], 60)})
POLARS = pl.DataFrame({name: FRAME[name].to_list() for name in FRAME})
FRAMES: dict[str, Any] = {"pandas": FRAME, "polars": POLARS, "lazy": POLARS.lazy()}
kinds = pytest.mark.parametrize("kind", FRAMES)


def chosen(frame: Any, names: list[str]) -> Any:
    return frame.select(names) if isinstance(frame, pl.LazyFrame) else frame[names]


def entries(frame: Any, name: str) -> Any:
    return chosen(frame, [name]) if isinstance(frame, pl.LazyFrame) else frame[name]


@kinds
def test_a_column_is_a_table_of_one(kind: str) -> None:
    mean = ClippedMean(bounds={"a": (-3, 3)}, random_state=0).fit(entries(FRAMES[kind], "a"))
    assert mean.mean_ == ClippedMean(bounds=(-3, 3), random_state=0).fit(FRAME[["a"]]).mean_
    assert mean.feature_names_in_.tolist() == ["a"]
    quantile = PrivateQuantile(bounds=(-3, 3), epsilon=10.0, random_state=0).fit(entries(FRAMES[kind], "a"))
    assert (
        quantile.quantile_ == PrivateQuantile(bounds=(-3, 3), epsilon=10.0, random_state=0).fit(FRAME[["a"]]).quantile_
    )


def test_a_column_without_a_name_is_one_too() -> None:
    for unnamed in (pd.Series(FRAME["a"].to_numpy()), pl.Series(FRAME["a"].to_list())):
        mean = ClippedMean(bounds=(-3, 3), random_state=0).fit(unnamed)
        assert mean.mean_ == ClippedMean(bounds=(-3, 3), random_state=0).fit(FRAME[["a"]]).mean_
        assert not hasattr(mean, "feature_names_in_")


def test_text_is_refused_and_an_array_of_one_dimension_is_a_column() -> None:
    with pytest.raises(InvalidData, match="text"):
        ClippedMean(bounds=(-3, 3)).fit(FRAME["g"])
    mean = ClippedMean(bounds=(-3, 3), random_state=0).fit(FRAME["a"].to_numpy())
    assert mean.mean_ == ClippedMean(bounds=(-3, 3), random_state=0).fit(FRAME[["a"]]).mean_


@kinds
def test_y_may_name_a_column(kind: str) -> None:
    made: list[Callable[[], Any]] = [
        lambda: PrivateLinearRegression(x_bounds={"a": (-3, 3)}, y_bounds=(-3, 3), random_state=0),
        lambda: GroupMeans(groups=["x", "y"], bounds=(-3, 3), random_state=0),
    ]
    for make, names, attribute in zip(made, (["a", "b"], ["a", "g"]), ("coef_", "means_"), strict=True):
        frame = chosen(FRAMES[kind], names)
        found = make().fit(frame, names[1])
        expected = make().fit(FRAME[["a"]], FRAME[names[1]])
        assert np.array_equal(getattr(found, attribute), getattr(expected, attribute))
    with pytest.raises(InvalidParameter, match="y must name columns"):
        made[0]().fit(chosen(FRAMES[kind], ["a", "b"]), "c")
    with pytest.raises(InvalidData, match="data frame with the column that y names"):
        made[0]().fit(np.ones((5, 2)), "b")


def test_y_of_what_needs_none_is_ignored() -> None:
    mean = ClippedMean(bounds=(-3, 3), random_state=0)
    assert mean.fit(FRAME[["a", "b"]], "b").mean_.shape == (2,)


@kinds
def test_labels_of_a_frame_of_one_column(kind: str) -> None:
    counts = Histogram(["x", "y"], 1.0, random_state=0).release(entries(FRAMES[kind], "g")).counts
    assert np.array_equal(counts, Histogram(["x", "y"], 1.0, random_state=0).release(FRAME["g"].tolist()).counts)
    labels = chosen(FRAMES[kind], ["g"])
    means = GroupMeans(groups=["x", "y"], bounds=(-3, 3), random_state=0).fit(FRAME[["a"]], labels)
    assert means.means_.shape == (2, 1)


def test_what_is_what() -> None:
    assert series_of(FRAME["a"]) is not None and series_of(POLARS["a"]) is not None
    assert series_of(FRAME) is None and series_of([1.0]) is None and series_of(np.zeros(2)) is None
    assert frame_of(FRAME) is not None and frame_of(POLARS) is not None
    assert frame_of(FRAME["a"]) is None and frame_of(np.zeros((2, 2))) is None
    assert isinstance(in_memory(POLARS.lazy()), pl.DataFrame) and in_memory(FRAME) is FRAME
    relation = duckdb.sql("SELECT 1.0::DOUBLE AS a")
    assert in_memory(relation) is relation
