"""Scores are releases: charged, and near the exact ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from dpstats.errors import InvalidData, InvalidParameter
from dpstats.privacy import BudgetExceeded, PrivacyBudget, compose
from dpstats.regression import PrivateLinearRegression, PrivateLogisticRegression, SufficientStatisticsRegression
from dpstats.regression.engine import MEANS, SQUARES, accuracy_plan, determination, release_variation, variation_plan


def rows(n: int = 20_000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    return X, X @ [1.0, -1.0] + rng.normal(size=n)


def test_scores_are_near_the_exact_ones_and_cost() -> None:
    X, y = rows()
    budget = PrivacyBudget(10.0, 1e-4)
    linear = PrivateLinearRegression(x_bounds=(-4, 4), y_bounds=(-8, 8), budget=budget).fit(X, y)
    # Exact noise, of a standard deviation of .032: six of them are a false alarm of 2e-9.
    assert linear.score(X, y) == pytest.approx(r2_score(y, linear.predict(X)), abs=0.19)
    assert budget.spent.epsilon == pytest.approx(2.0)
    assert [entry.label for entry in budget.history()] == ["PrivateLinearRegression", "PrivateLinearRegression score"]
    logistic = PrivateLogisticRegression(x_bounds=(-4, 4), budget=budget).fit(X, y > 0)
    exact = np.mean(logistic.predict(X) == (y > 0))
    assert logistic.score(X, y > 0) == pytest.approx(exact, abs=0.01)
    assert budget.spent.epsilon == pytest.approx(4.0)


@pytest.mark.parametrize("kind", [PrivateLinearRegression, SufficientStatisticsRegression])
def test_without_noise_a_score_is_the_exact_one(kind: type) -> None:
    X, y = rows(4000)
    linear = kind(x_bounds=(-4, 4), y_bounds=(-8, 8), epsilon=1e4, delta=1e-3, random_state=0).fit(X, y)
    # Of other outcomes the model explains less than their mean does.
    for outcomes in (y, y / 2, -y / 4):
        assert linear.score(X, outcomes) == pytest.approx(r2_score(outcomes, linear.predict(X)), abs=2e-3)


def test_a_budget_that_cannot_pay_refuses_a_score() -> None:
    X, y = rows(500)
    budget = PrivacyBudget(1.5, 1e-4)
    linear = PrivateLinearRegression(x_bounds=(-4, 4), y_bounds=(-8, 8), budget=budget).fit(X, y)
    with pytest.raises(BudgetExceeded):
        linear.score(X, y)
    assert budget.spent.epsilon == pytest.approx(1.0)


def test_a_search_over_models_pays_for_every_fit_and_score() -> None:
    X, y = rows(3000)
    budget = PrivacyBudget(40.0, 1e-3)
    steps = make_pipeline(
        FunctionTransformer(np.tanh), PrivateLinearRegression(x_bounds=(-1, 1), y_bounds=(-8, 8), budget=budget)
    )
    GridSearchCV(steps, {"privatelinearregression__fit_intercept": [True, False]}, cv=3).fit(X, y)
    # 2 models, 3 folds, a fit and a score each; and the best again.
    assert budget.spent.epsilon == pytest.approx(13.0)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (1.0, 0.0), (0.1, 1e-9)])
def test_plans_of_scores_cost_what_they_say(epsilon: float, delta: float) -> None:
    for plan in (variation_plan(1000, epsilon, delta), accuracy_plan(1000, epsilon, delta)):
        assert compose(plan.events, delta).epsilon <= epsilon


def test_no_variance_has_no_r2() -> None:
    released = {"residuals and outcomes": {"means": np.zeros(2), "squares": np.array([0.1, -0.1])}}
    assert np.isnan(determination(released))


def test_bad_calls_are_refused_before_the_charge() -> None:
    X, y = rows(200)
    budget = PrivacyBudget(3.0, 1e-4)
    linear = PrivateLinearRegression(x_bounds=(-4, 4), y_bounds=(-8, 8), budget=budget).fit(X, y)
    for bad, words in ((None, "y must be given"), (y[:5], "an entry for each row"), (y * np.nan, "finite")):
        with pytest.raises(InvalidData, match=words):
            linear.score(X, bad)
    with pytest.raises(InvalidParameter, match="sample_weight"):
        linear.score(X, y, np.ones(200))  # type: ignore[arg-type]
    assert budget.spent.epsilon == pytest.approx(1.0)


def test_a_residual_that_is_no_number_counts_as_the_largest() -> None:
    seen: dict[str, Any] = {}

    class Kept:
        def add(self, name: str, steps: Any) -> None:
            seen.update(steps)

    release_variation(variation_plan(2, 1.0, 1e-6), Kept(), np.array([np.nan, 0.0]), np.zeros(2))  # type: ignore[arg-type]
    assert seen[MEANS].tolist() == [2**30, 0] and seen[SQUARES].tolist() == [2**30, 0]


def test_outcomes_without_any_variance_have_no_r2() -> None:
    # Squares and the squared mean are equal to the last digit.
    released = {"residuals and outcomes": {"means": np.array([0.1, 0.5]), "squares": np.array([0.01, 0.25])}}
    assert np.isnan(determination(released))
