"""Estimands and summaries repeat the policy for missing entries, and name the rows that the result is about."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import dpstats.groups
import dpstats.means
from dpstats.errors import InvalidData
from dpstats.groups import GroupMeans, GroupQuantiles, MeanPerRow
from dpstats.identity import LipschitzExtensionTest, RowDistanceTest, SpatialSignTest
from dpstats.inference.results import about_missing
from dpstats.means import AdaptiveMean, ClippedMean, PrivateVariance, SparseMean
from dpstats.release.estimator import PrivateEstimator
from tests.nets.test_one_way_out import FITTED, fitted

X = np.random.default_rng(0).normal(1.0, 1.0, (200, 3))
HOLES = np.where(np.arange(600).reshape(200, 3) % 13 == 0, np.nan, X)
LABELS = np.repeat(["a", "b"], 100)
UNITS = np.repeat(np.arange(100), 2)
SEED = {"random_state": 0}
TEST = {"n_calibration": 99, "cache_dir": None, **SEED}

# The estimator, its y, and what a missing entry counts as.
CENTERED: dict[str, tuple[Any, str]] = {
    "bounds": (ClippedMean(bounds=(-3, 7), **SEED), "the center of the bounds (2)"),
    "bounds of columns": (
        ClippedMean(bounds=[(0, 2), (0, 4), (-1, 7)], bounds_are="hard", **SEED),
        "the center of the bounds (1, 2, 3)",
    ),
    "no std": (ClippedMean(bounds=(-3, 7), std=None, **SEED), "the center of the bounds (2)"),
    "a ball": (ClippedMean(clip=4.0, center=1.0, clip_norm="l2", delta=1e-6, **SEED), "the center of the ball (1)"),
    "variance": (PrivateVariance(bounds=(-3, 7), **SEED), "the center of the bounds (2)"),
    "adaptive": (AdaptiveMean(bound=10.0, std=1.0, **SEED), "the center of each stage"),
    "sparse": (SparseMean(n_nonzero=2, clip=6.0, std=1.0, split=True, **SEED), "count as 0."),
}
TESTS: dict[str, Any] = {
    "row distance": RowDistanceTest(**TEST),
    "l1 norm": LipschitzExtensionTest(**TEST),
    "spatial sign": SpatialSignTest(**TEST),
}
DROPPED: dict[str, tuple[Any, Any]] = {
    "groups": (GroupMeans(groups=["a", "b"], bounds=(-3, 7), **SEED), LABELS),
    "mean": (ClippedMean(bounds=(-3, 7), **SEED), None),
    "mean in a ball": (ClippedMean(clip=4.0, center=1.0, clip_norm="l2", delta=1e-6, **SEED), None),
    "variance of observed rows": (PrivateVariance(bounds=(-3, 7), **SEED), None),
    "adaptive": (AdaptiveMean(bound=10.0, std=1.0, epsilon=5.0, **SEED), None),
    "sparse": (SparseMean(n_nonzero=2, clip=6.0, std=1.0, split=True, epsilon=5.0, **SEED), None),
    "units": (MeanPerRow(bounds=(-3, 7), max_rows=2, **SEED), UNITS),
}


def one_line(text: Any) -> str:
    """Return a text on one line."""
    return " ".join(str(text).split())


@pytest.mark.parametrize("name", CENTERED)
def test_estimates_with_missing_entries_at_the_center_say_so(name: str) -> None:
    estimator, counts_as = CENTERED[name]
    fitted = clone(estimator).set_params(missing="center").fit(HOLES)
    interval = fitted.confidence_interval()
    for text in (fitted.estimand_, interval.estimand, fitted.test(1.0).estimand, one_line(fitted.summary())):
        assert "Missing entries count as " in text and counts_as in text
        assert "not about the observed entries alone." in text
    assert interval.estimand == fitted.estimand_
    # The estimand keeps the policy of the fit when parameters change afterwards.
    assert fitted.set_params(missing="error").estimand_ == interval.estimand


@pytest.mark.parametrize("name", DROPPED)
def test_estimates_without_the_rows_that_have_missing_entries_say_so(name: str) -> None:
    estimator, y = DROPPED[name]
    fitted = clone(estimator).set_params(missing="drop").fit(HOLES, y)
    said = [fitted.estimand_, fitted.confidence_interval().estimand, fitted.test(1.0).estimand]
    if name == "groups":
        said += [fitted.difference("a", "b").confidence_interval().estimand]
        said += [fitted.pairwise().confidence_interval().estimand]
    for text in (*said, one_line(fitted.summary())):
        assert about_missing("drop") in text


def test_quantiles_of_groups_without_missing_rows_say_so() -> None:
    made = GroupQuantiles(groups=["a", "b"], bounds=(-3, 7), epsilon=20.0, missing="drop", **SEED)
    fitted = made.fit(HOLES[:, 0], LABELS)
    between = fitted.difference("a", "b").confidence_interval().estimand
    for text in (fitted.estimand_, fitted.confidence_interval().estimand, between, one_line(fitted.summary())):
        assert about_missing("drop") in text
    complete = clone(made).set_params(missing="error").fit(X[:, 0], LABELS)
    assert "issing" not in complete.estimand_ and "issing" not in str(complete.summary())


@pytest.mark.parametrize("name", TESTS)
def test_identity_tests_with_missing_rows_say_so(name: str) -> None:
    fitted = clone(TESTS[name]).set_params(missing="center").fit(HOLES)
    sentence = about_missing("center", "the mean of the null hypothesis", "Rows with a missing entry")
    assert fitted.result_.missing == sentence and sentence in one_line(fitted.summary())
    assert sentence in fitted.distance_interval(n_simulations=20).estimand


@pytest.mark.parametrize("name", TESTS)
def test_identity_tests_without_missing_rows_say_so(name: str) -> None:
    fitted = clone(TESTS[name]).set_params(missing="drop").fit(HOLES)
    assert fitted.result_.missing == about_missing("drop") and about_missing("drop") in one_line(fitted.summary())
    assert about_missing("drop") in fitted.distance_interval(n_simulations=20).estimand


@pytest.mark.parametrize("name", {**CENTERED, **DROPPED})
def test_nothing_is_said_where_missing_entries_are_refused(name: str) -> None:
    estimator, y = (CENTERED[name][0], None) if name in CENTERED else DROPPED[name]
    fitted = clone(estimator).fit(X, y)
    assert "issing" not in fitted.estimand_ and "issing" not in str(fitted.summary())


@pytest.mark.parametrize("name", [name for name in FITTED if name.endswith("Regression")])
def test_missing_entries_of_rows_to_predict_are_refused_as_those_of_a_fit(name: str) -> None:
    model = fitted(name)
    for method in ("predict", "predict_proba", "get_prediction"):
        if hasattr(model, method):
            with pytest.raises(InvalidData, match="NaN"):
                getattr(model, method)(np.full((3, model.n_features_in_), np.nan))


def test_every_estimator_with_a_choice_is_in_the_table() -> None:
    known = {type(made).__name__ for made, _ in [*CENTERED.values(), *DROPPED.values()]} | {"GroupQuantiles"}
    # A table of several estimands, and bounds, which estimate nothing.
    known |= {"CohortTable", "PrivateBounds"}
    found = {
        kind.__name__
        for module in (dpstats.means, dpstats.groups)
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, PrivateEstimator) and "missing" in inspect.signature(kind).parameters
    }
    assert found == known
