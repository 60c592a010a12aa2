"""Labelled bounds, centers and spreads go by the names of the columns, and not by their place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dpstats.errors import InvalidParameter
from dpstats.means import AdaptiveMean, ClippedMean, PrivateVariance, SparseMean
from dpstats.privacy import PrivacyBudget

NAMES = ["a", "b", "c"]
ORDER = [2, 0, 1]
ROWS = pd.DataFrame(np.random.default_rng(0).normal([1.0, -20.0, 300.0], [1.0, 5.0, 30.0], (400, 3)), columns=NAMES)
SHUFFLED = ROWS[["c", "a", "b"]]
CENTER, CLIP, STD = (pd.Series(v, index=NAMES) for v in ([1.0, -20.0, 300.0], [4.0, 25.0, 90.0], [1.0, 5.0, 30.0]))
COV = pd.DataFrame(np.diag(STD**2) + 0.2, index=NAMES, columns=NAMES)
CASES: dict[str, tuple[type, dict[str, Any], dict[str, Any]]] = {
    "clipped": (ClippedMean, {"clip": CLIP, "center": CENTER, "std": STD}, {}),
    "clipped, estimated spread": (ClippedMean, {"clip": CLIP, "center": CENTER}, {"std": "private"}),
    "adaptive": (AdaptiveMean, {"bound": 100 * STD, "std": STD}, {"delta": 1e-6}),
    "adaptive, covariance": (AdaptiveMean, {"bound": 100 * STD, "cov": COV}, {"delta": 1e-6}),
    "variance": (PrivateVariance, {"clip": CLIP, "center": CENTER}, {}),
    "sparse": (SparseMean, {"std": STD}, {"n_nonzero": 1, "clip": 400.0, "max_signal": 20.0}),
}
cases = pytest.mark.parametrize(("kind", "labelled", "options"), CASES.values(), ids=CASES)


def in_order(value: Any) -> np.ndarray:
    plain = np.asarray(value)[ORDER]
    return plain if plain.ndim == 1 else plain[:, ORDER]


@cases
def test_columns_in_another_order_are_the_same_release(kind, labelled, options) -> None:
    attribute = "variance_" if kind is PrivateVariance else "mean_"
    plain = {name: in_order(value) for name, value in labelled.items()}
    expected = kind(**plain, **options, random_state=0).fit(SHUFFLED.to_numpy())
    for frame in (SHUFFLED, pl.DataFrame(SHUFFLED.to_dict("list"))):
        estimator = kind(**labelled, **options, random_state=0).fit(frame)
        np.testing.assert_array_equal(getattr(estimator, attribute), getattr(expected, attribute))
        assert str(estimator.plan_) == str(expected.plan_)
        assert all(getattr(estimator, name) is value for name, value in labelled.items())
        assert estimator.summary() is not None
    # By place, the bounds of one column would be another's.
    wrong = {name: np.asarray(value) for name, value in labelled.items()}
    other = kind(**wrong, **options, random_state=0).fit(SHUFFLED.to_numpy())
    assert not np.array_equal(getattr(other, attribute), getattr(expected, attribute))


@cases
def test_other_labels_are_refused_before_a_charge(kind, labelled, options) -> None:
    for name, value in labelled.items():
        budget = PrivacyBudget(10.0, 1e-3)
        renamed = value.rename(index={"b": "z"}, columns={"b": "z"}) if value.ndim == 2 else value.rename({"b": "z"})
        given = {**labelled, **options, name: renamed}
        with pytest.raises(InvalidParameter, match=f"^{name} must have the columns of X as labels"):
            kind(**given, budget=budget).fit(ROWS)
        assert budget.spent.epsilon == 0


@cases
def test_arrays_and_rows_without_names_go_by_place(kind, labelled, options) -> None:
    attribute = "variance_" if kind is PrivateVariance else "mean_"
    first, second = (
        getattr(kind(**given, **options, random_state=0).fit(rows), attribute)
        for given, rows in ((labelled, ROWS.to_numpy()), ({n: np.asarray(v) for n, v in labelled.items()}, ROWS))
    )
    np.testing.assert_array_equal(first, second)
