"""What the linear regressions share, whichever way coefficients were found."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from dpstats.errors import InvalidData, InvalidParameter
from dpstats.privacy import PrivacyBudget
from dpstats.regression import PrivateLinearRegression, SufficientStatisticsRegression
from dpstats.textbook import FunctionalMechanismRegression

KINDS = (PrivateLinearRegression, SufficientStatisticsRegression, FunctionalMechanismRegression)
kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
BOUNDS = {"x_bounds": (-4, 4), "y_bounds": (-8, 10)}


def rows(n: int = 20_000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    return X, 1 + X @ [0.5, -0.5] + rng.normal(size=n)


@kinds
def test_predictions_and_their_intervals(kind: type) -> None:
    X, y = rows()
    made = kind(**BOUNDS, random_state=1).fit(X, y)
    assert np.allclose(made.predict(X), made.intercept_ + X @ made.coef_)
    new, outcomes = rows(4000)
    low, high = made.predict_interval(new, of="outcome")
    assert np.mean((low <= outcomes) & (outcomes <= high)) > 0.93
    mean_low, mean_high = made.predict_interval(new)
    assert ((mean_low > low) & (mean_high < high)).all()
    # At the row of zeros the mean is the intercept.
    at = made.predict_interval(np.zeros((1, 2)), 0.9)
    own = made.intercept_confidence_interval(0.9)
    assert (at.low[0], at.high[0]) == pytest.approx((own.low, own.high))
    with pytest.raises(InvalidParameter, match="of must"):
        made.predict_interval(new, of="row")


@kinds
def test_a_score_is_a_release_of_its_own(kind: type) -> None:
    X, y = rows()
    budget = PrivacyBudget(100.0, 1e-4)
    made = kind(**BOUNDS, epsilon=20.0, budget=budget).fit(X, y)
    assert made.score(X, y) == pytest.approx(r2_score(y, made.predict(X)), abs=0.1)
    assert [entry.guarantee.epsilon for entry in budget.history()] == [20.0, 20.0]
    # Laplace noise is chosen where it is the smaller one.
    fit, score = (entry.guarantee.delta for entry in budget.history())
    assert fit == made.plan_.guarantee.delta and score in (0.0, getattr(made, "delta", 0.0))
    with pytest.raises(InvalidParameter, match="sample_weight"):
        made.score(X, y, sample_weight=np.ones(len(y)))


@kinds
def test_the_summary_is_laid_out_as_a_statistician_knows_it(kind: type) -> None:
    X, y = rows()
    frame = pd.DataFrame(X, columns=["dose", "age"])
    made = kind(**BOUNDS, random_state=1).fit(frame, y)
    text = str(made.summary())
    for words in ("coef", "std err", "P>|z|", "[0.025", "privacy", "dose", "Intercept", "Residual scale"):
        assert words in text
    assert "Outcomes outside bounds" in text and "not a private release" in text
    assert str(made.plan_.n_samples // 1000) in text
    wide = made.summary(0.99)
    assert "[0.005" in str(wide)


@kinds
def test_works_in_a_pipeline_and_survives_pickle(kind: type) -> None:
    X, y = rows(2000)
    steps = make_pipeline(FunctionTransformer(np.tanh), kind(x_bounds=(-1, 1), y_bounds=(-8, 10), random_state=0))
    steps.fit(X, y)
    again = pickle.loads(pickle.dumps(steps))
    assert np.array_equal(again.predict(X), steps.predict(X))
    assert str(again[-1].summary()) == str(steps[-1].summary())


@kinds
def test_a_formula_is_a_way_in(kind: type) -> None:
    X, y = rows()
    data = {"y": y, "a": X[:, 0], "b": X[:, 1]}
    bounds = {"y": (-8, 10), "a": (-4, 4), "b": (-4, 4)}
    made = kind.from_formula("y ~ a + b", data, bounds=bounds, random_state=1)  # type: ignore[attr-defined]
    assert np.array_equal(made.coef_, kind(**BOUNDS, random_state=1).fit(X, y).coef_)
    assert made.test("a").pvalue[0] < 1e-6


@kinds
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"x_bounds": None}, "x_bounds must be given"),
        ({"y_bounds": None}, "y_bounds must be given"),
        ({"y_bounds": (1, 0)}, "y_bounds must have low < high"),
        ({"x_bounds": [(0, 1), (1, 1)]}, "x_bounds"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"fit_intercept": "yes"}, "fit_intercept must be True or False"),
    ],
)
def test_bad_parameters_are_refused_before_anything_is_charged(kind: type, options: dict[str, Any], words: str) -> None:
    budget = PrivacyBudget(1.0, 1e-6)
    with pytest.raises(InvalidParameter, match=words):
        kind(**{**BOUNDS, **options}, budget=budget).fit(np.zeros((10, 2)), np.zeros(10))
    assert budget.history() == ()


@kinds
def test_bad_data_are_refused_before_anything_is_charged(kind: type) -> None:
    budget, X, y = PrivacyBudget(1.0, 1e-6), np.zeros((10, 2)), np.zeros(10)
    for bad_X, bad_y in (
        (np.where(np.arange(2) == 1, np.nan, X), y),
        (X, np.append(y[:-1], np.inf)),
        (X, y[:-1]),
        (X, None),
        (X[:1], y[:1]),
    ):
        with pytest.raises(InvalidData):
            kind(**BOUNDS, budget=budget).fit(bad_X, bad_y)
    assert budget.history() == ()
