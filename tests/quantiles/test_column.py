"""One column, whatever it comes in; bad data are refused before anything is charged."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dpstats.errors import InvalidData
from dpstats.privacy import PrivacyBudget
from dpstats.quantiles import PrivateDistribution, PrivateMedian, PrivateQuantile

X = np.random.default_rng(0).normal(size=60)
KINDS = [PrivateQuantile, PrivateMedian, PrivateDistribution]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "data",
    [
        X,
        X[:, None],
        X.tolist(),
        tuple(X),
        pd.Series(X),
        pd.Series(X, name="a", index=np.arange(60)[::-1]),
        pl.Series("a", X),
        pd.DataFrame({"a": X}),
        pl.DataFrame({"a": X}).lazy(),
        X[::-1],
        X.astype(object),
    ],
    ids=str,
)
def test_any_column_gives_the_same(kind: type, data: object) -> None:
    first, other = (kind(bounds=(-4, 4), epsilon=10.0, random_state=1).fit(x) for x in (X, data))
    names = [name for name in ("quantile_", "low_", "median_", "cdf_") if hasattr(first, name)]
    assert names and all(np.array_equal(getattr(first, name), getattr(other, name)) for name in names)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "data",
    [
        [1.0, None, 2.0],
        [1.0, float("nan")],
        [1.0, float("inf")],
        ["a", "b"],
        [[1.0, 2.0], [3.0, 4.0]],
        np.zeros((3, 2)),
        np.zeros((3, 1, 1)),
        [1.0],
        [],
        "text",
        np.ma.masked_array([1.0, 2.0], mask=[True, False]),
        pd.Series(["a", "b"]),
        pd.Series([1.0, None]),
    ],
    ids=str,
)
def test_bad_data_charge_nothing(kind: type, data: object) -> None:
    budget = PrivacyBudget(100.0, 0.5)
    with pytest.raises(InvalidData):
        kind(bounds=(-4, 4), budget=budget).fit(data)
    assert budget.history() == ()


def test_the_name_of_a_series_is_the_columns() -> None:
    made = PrivateQuantile(bounds=(-4, 4), random_state=0).fit(pd.Series(X, name="income"))
    assert "income, 60 (public)" in str(made.summary())
    assert "x, 60 (public)" in str(PrivateQuantile(bounds=(-4, 4), random_state=0).fit(X).summary())
