"""What the estimators of a number per column share: predictions, tags, and the frame of a summary."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from dpstats.errors import InvalidData
from dpstats.means import AdaptiveMean, ClippedMean, PrivateVariance, SparseMean
from dpstats.means.estimator import ColumnEstimator
from dpstats.privacy import PrivacyBudget

X = np.random.default_rng(0).normal([1.0, -2.0, 0.5], 1.0, size=(400, 3))
ESTIMATORS: dict[str, ColumnEstimator[Any]] = {
    "mean_": ClippedMean(clip=6.0, random_state=0),
    "mean_, adaptive": AdaptiveMean(bound=10.0, std=1.0, random_state=0),
    "mean_, sparse": SparseMean(n_nonzero=2, clip=6.0, std=1.0, split=True, random_state=0),
    "variance_": PrivateVariance(clip=6.0, random_state=0),
}
estimators = pytest.mark.parametrize(("name", "estimator"), ESTIMATORS.items(), ids=ESTIMATORS)


@estimators
def test_predict_is_the_estimate_for_every_row(name: str, estimator: ColumnEstimator[Any]) -> None:
    fitted = clone(estimator).fit(X)
    estimate = getattr(fitted, name.split(",")[0])
    np.testing.assert_array_equal(fitted.predict(X[:5]), np.tile(estimate, (5, 1)))
    with pytest.raises(NotFittedError):
        clone(estimator).predict(X)
    with pytest.raises(InvalidData, match="2 features"):
        fitted.predict(X[:, :2])


@estimators
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_missing_entries_are_refused_unless_declared(name: str, estimator: ColumnEstimator[Any], bad: float) -> None:
    fitted = clone(estimator).fit(X)
    # What to do about it is part of the error.
    with pytest.raises(InvalidData, match=r"NaN or infinity.*missing='center'"):
        fitted.predict([[0.0, bad, 0.0]])
    assert not fitted.__sklearn_tags__().input_tags.allow_nan
    fitted.set_params(missing="center")
    assert fitted.__sklearn_tags__().input_tags.allow_nan
    assert fitted.predict([[0.0, bad, 0.0]]).shape == (1, 3)


@estimators
def test_every_summary_has_the_facts_and_names_its_columns(name: str, estimator: ColumnEstimator[Any]) -> None:
    summary = clone(estimator).fit(pd.DataFrame(X, columns=["a", "b", "c"])).summary(0.8)
    assert [fact for fact, _ in summary.facts[:3]] == ["Estimator", "Rows, columns", "Privacy"]
    assert dict(summary.facts)["Rows, columns"] == "400, 3 (public)"
    assert {"", "noise sd", "[80% low", "80% high]"} <= set(summary.columns)
    assert {row[0] for row in summary.rows} <= {"a", "b", "c"}
    assert clone(estimator).fit(X).summary().rows[0][0] in {"x0", "x1", "x2"}
    assert sum("not a private release" in note for note in summary.notes) == 1
    exact = clone(estimator).set_params(random_state=None).fit(X)
    assert not any("not a private release" in note for note in exact.summary().notes)


SETTINGS: dict[str, ColumnEstimator[Any]] = {
    **ESTIMATORS,
    "ball": ClippedMean(clip=1e3, clip_norm="l2", random_state=0),
    "box of several bounds": ClippedMean(clip=np.array([1e5, 3.0, 1e-5]), random_state=0),
    "whitened": AdaptiveMean(bound=1e6, std=np.array([1.0, 20.0, 3e4]), random_state=0),
    "covariance": AdaptiveMean(bound=1e6, cov=np.diag([1.0, 20.0, 3e8]) + 0.1, random_state=0),
    "cross": SparseMean(n_nonzero=2, clip=6.0, std=1.0, delta=0.0, random_state=0),
    "standardised": SparseMean(n_nonzero=2, clip=6.0, std=np.array([1e-5, 1.0, 1e9]), random_state=0),
    "peeling": SparseMean(n_nonzero=2, clip=6.0, std=1.0, selection="peeling", random_state=0),
}


@pytest.mark.parametrize("estimator", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("row", [[1e308, -1e308, 1e308], [1e250, 1e-200, 1e-310], [5e-324, 1e-310, -3e-309]])
def test_no_entry_raises_where_the_caller_has_numpy_raise(estimator: ColumnEstimator[Any], row: list[float]) -> None:
    # An exception would tell of a row, and in the later stages after the charge.
    rows = X.copy()
    rows[3] = row
    quiet = clone(estimator).fit(rows)
    with np.errstate(all="raise"):
        loud = clone(estimator).fit(rows)
    for name in ("mean_", "variance_"):
        assert np.array_equal(getattr(loud, name, np.nan), getattr(quiet, name, np.nan), equal_nan=True)


class Changing(PrivacyBudget):
    """A budget during whose charge another process writes to the data."""

    def __init__(self, rows: Any, **options: Any) -> None:
        super().__init__(**options)
        self.rows = rows

    def charge(self, item: Any, label: str = "", *, step: int = 0) -> Any:
        kept = super().charge(item, label, step=step)
        self.rows[:2] = [[np.nan], [np.inf]]
        return kept


@pytest.mark.parametrize(
    "estimator",
    [
        AdaptiveMean(bound=100.0, std=1.0),
        AdaptiveMean(bound=100.0, std=1.0, cov=np.eye(3) + 0.1),
        SparseMean(n_nonzero=2, clip=6.0, std=1.0),
    ],
    ids=["adaptive", "covariance", "sparse"],
)
def test_nothing_is_refused_after_the_charge(estimator: ColumnEstimator[Any]) -> None:
    rows = X.copy()
    budget = Changing(rows, epsilon=1.0, delta=1e-6)
    fitted = clone(estimator).set_params(budget=budget).fit(rows)
    assert np.isnan(rows).any() and len(fitted.plan_.stages) > 1
    assert np.isfinite(fitted.mean_).all() and budget.spent.epsilon == 1.0
