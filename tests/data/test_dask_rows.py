"""Rows of Dask: pure tasks, the same sums on every scheduler, and a lost worker changes nothing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dpstats.data.opening import open_source
from dpstats.errors import InvalidData
from dpstats.groups import GroupMeans
from dpstats.means import AdaptiveMean, ClippedMean
from dpstats.privacy import PrivacyBudget

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

X = np.random.default_rng(2).normal(size=(2000, 3))


@pytest.mark.parametrize("chunks", [(300, 2), (150, 1)])
def test_fits_are_those_in_memory(chunks):
    array = da.from_array(X, chunks=chunks)
    for made in (ClippedMean(bounds=(-2, 2), random_state=0), AdaptiveMean(bound=9.0, std=1.0, random_state=0)):
        with dask.config.set(scheduler="synchronous"):
            np.testing.assert_array_equal(made.fit(array).mean_, made.fit(X).mean_)


def test_the_number_of_rows_is_counted_where_it_is_not_stated():
    array = da.from_array(X, chunks=(300, 3))
    with dask.config.set(scheduler="synchronous"):
        some = array[array[:, 0] > 0]
        assert open_source(some).shape == (int((X[:, 0] > 0).sum()), 3)
        made = ClippedMean(bounds=(-2, 2), random_state=0)
        np.testing.assert_array_equal(made.fit(some).mean_, made.fit(X[X[:, 0] > 0]).mean_)


def test_refusals_are_ours_and_nothing_is_charged():
    def torn(block):
        raise ValueError(f"secret {block[0, 0]}")

    budget = PrivacyBudget(epsilon=1.0, delta=1e-6)
    array = da.from_array(X, chunks=(300, 3))
    bad = X.copy()
    bad[5, 1] = np.nan
    with dask.config.set(scheduler="synchronous"):
        for rows, words in (
            (array.map_blocks(torn, dtype=float), "can be read"),
            (da.from_array(bad, chunks=(300, 3)), "contains NaN or infinity"),
            (da.zeros(5), "2-d table"),
            (da.from_array(np.array([["x"], ["y"]]), chunks=(1, 1)), "table of numbers"),
        ):
            with pytest.raises(InvalidData, match=words) as caught:
                ClippedMean(bounds=(-2, 2), budget=budget).fit(rows)
            assert "secret" not in str(caught.value) and caught.value.__context__ is None
    assert not budget.history()


def test_rows_without_names_have_nothing_beside():
    made = GroupMeans(groups=[0, 1], bounds=(0, 1))
    with pytest.raises(InvalidData, match="a data frame with the column that y names"):
        made.fit(da.zeros((4, 2)), "y")


def test_a_column_of_labels_has_a_name_of_several_letters():
    dd = pytest.importorskip("dask.dataframe")
    frame = dd.from_pandas(pd.DataFrame({"a": [0.5], "p": [1], "plan": [0]}), npartitions=1)
    for beside in ("plan", ("plan",)):
        assert open_source(frame).having(["a"], beside).beside == ("plan",)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_what_is_counted_has_a_name_that_no_block_of_a_stage_has(delta):
    dd = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame({"v": X[:, 0], "g": np.where(X[:, 1] > 0, "a", "b")})
    made = GroupMeans(groups=["a", "b"], by="g", columns=["v"], bounds=(-2, 2), delta=delta, random_state=0)
    with dask.config.set(scheduler="synchronous"):
        found = made.fit(dd.from_pandas(frame, npartitions=3)).means_
    np.testing.assert_array_equal(found, made.fit(frame).means_)


def test_rows_that_are_other_than_were_counted_are_refused():
    read = []

    def growing(block):
        read.append(len(block))
        return np.zeros((20 + len(read), 2))

    array = da.zeros((20, 2)).map_blocks(growing, dtype=float, meta=np.zeros((0, 2)))
    array._chunks = ((np.nan,), (2,))
    budget = PrivacyBudget(epsilon=1.0)
    with dask.config.set(scheduler="synchronous"), pytest.raises(InvalidData, match="it changed meanwhile"):
        ClippedMean(bounds=(-2, 2), budget=budget).fit(array)
    assert not budget.history()


def test_objects_that_are_numbers_are_read_as_in_memory() -> None:
    frame = pd.DataFrame({"a": pd.Series([1, None, 3.5, True, 2] * 10, dtype=object)})
    with dask.config.set({"dataframe.convert-string": False}):  # else Dask itself makes text of them
        rows = pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=3)
        for missing in ("center", "drop"):
            mean = ClippedMean(bounds=(0, 5), missing=missing, random_state=0)
            found = [mean.fit(X).mean_[0] for X in (frame, rows, da.from_array(frame.to_numpy(), chunks=(7, 1)))]
            assert found[0] == found[1] == found[2]


def test_columns_may_have_numbers_as_names() -> None:
    dd = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(np.random.default_rng(0).uniform(-1, 1, size=(60, 2)))
    means = [
        ClippedMean(bounds=(-1, 1), random_state=0).fit(X).mean_
        for X in (frame.to_numpy(), dd.from_pandas(frame, npartitions=3))
    ]
    assert np.array_equal(*means)
