"""Regressions: errors of coefficients, of the intercept and of what is predicted are as claimed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpstats.regression import (
    PrivateCountRegression,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    SufficientStatisticsRegression,
)
from dpstats.textbook import FunctionalMechanismRegression
from tests.nets.statements import Cell, Draw, Numbers, check, scores

# Slopes and columns of different sizes, and an intercept that is not 0.
SLOPES = np.array([1.0, -0.5, 2.0])
SPREADS = np.array([1.0, 2.0, 0.5])
MIDDLE = np.array([0.0, 3.0, -1.0])
INTERCEPT = 2.0
X_BOUNDS = np.stack([MIDDLE - 3.5 * SPREADS, MIDDLE + 3.5 * SPREADS], axis=1)


def rows(n: int) -> Draw:
    """Return what draws n rows of a linear model with normal columns and residuals."""

    def draw(rng: np.random.Generator) -> tuple[Any, ...]:
        X = MIDDLE + SPREADS * rng.normal(size=(n, 3))
        return X, INTERCEPT + X @ SLOPES + 1.5 * rng.normal(size=n)

    return draw


def coefficients(fitted: Any) -> Numbers:
    """Return the scores of the intercept, of the slopes, and of the mean outcome of a row in the middle."""
    asked = [("Intercept", INTERCEPT), *enumerate(SLOPES)]
    own = scores([fitted.test(j, value, "greater").pvalue[0] for j, value in asked])
    low, high = (float(end[0]) for end in fitted.predict_interval(MIDDLE[None], 0.8))
    # By the law of the estimator an interval of level 0.8 is so many standard errors.
    half = fitted._law.reach(0.1)
    middle = ((low + high) / 2 - INTERCEPT - MIDDLE @ SLOPES) / ((high - low) / 2 / half)
    return np.append(own, middle)


def outcomes(n: int) -> Draw:
    """Return what draws n rows of a logistic model."""

    def draw(rng: np.random.Generator) -> tuple[Any, ...]:
        X = MIDDLE + SPREADS * rng.normal(size=(n, 3))
        index = -0.5 + (X - MIDDLE) @ [0.8, -0.3, 1.0]
        return X, rng.random(n) < 1 / (1 + np.exp(-index))

    return draw


def counts(n: int) -> Draw:
    """Return what draws n rows of a negative binomial model."""

    def draw(rng: np.random.Generator) -> tuple[Any, ...]:
        X = MIDDLE + SPREADS * rng.normal(size=(n, 3))
        index = 0.5 + (X - MIDDLE) @ [0.4, -0.15, 0.5]
        return X, rng.poisson(np.exp(index) * rng.gamma(2.0, 0.5, n)).astype(float)

    return draw


def rates(fitted: Any) -> Numbers:
    """Return the scores of the intercept and the slopes of a regression of counts."""
    slopes = np.array([0.4, -0.15, 0.5])
    asked = [("Intercept", 0.5 - MIDDLE @ slopes), *enumerate(slopes)]
    return scores([fitted.test(j, value, "greater").pvalue[0] for j, value in asked])


def slopes(fitted: Any) -> Numbers:
    """Return the scores of a logistic regression's slopes."""
    return scores([fitted.test(j, value, "greater").pvalue[0] for j, value in enumerate([0.8, -0.3, 1.0])])


Y_BOUNDS = (-14.0, 12.0)
SUFFICIENT, FUNCTIONAL, LINEAR = (
    SufficientStatisticsRegression,
    FunctionalMechanismRegression,
    PrivateLinearRegression,
)


def linear(kind: Any, place: str, n: int, epsilon: float, count: int, **more: Any) -> Cell:
    """Return a cell of a linear regression."""
    options = {"cov_type": "nonrobust"} if "nonrobust" in place else {}
    return Cell(
        f"{kind.__name__}, {place}",
        lambda: kind(x_bounds=X_BOUNDS, y_bounds=Y_BOUNDS, epsilon=epsilon, **options),
        rows(n),
        coefficients,
        count,
        **more,
    )


def logistic(place: str, n: int, epsilon: float, count: int, **more: Any) -> Cell:
    """Return a cell of a logistic regression."""
    return Cell(
        f"logistic, {place}",
        lambda: PrivateLogisticRegression(x_bounds=X_BOUNDS, epsilon=epsilon),
        outcomes(n),
        slopes,
        count,
        **more,
    )


def count_regression(place: str, n: int, epsilon: float, count: int, **more: Any) -> Cell:
    """Return a cell of a regression of counts."""
    return Cell(
        f"counts, {place}",
        lambda: PrivateCountRegression(x_bounds=X_BOUNDS, y_bounds=(0, 100), epsilon=epsilon),
        counts(n),
        rates,
        count,
        **more,
    )


# Where noise dominates errors are taken at the worse end of an interval, and what steps or a ridge leave is bounded.
CELLS = [
    linear(SUFFICIENT, "sampling", 1000, 50.0, 300),
    linear(SUFFICIENT, "both", 4000, 3.0, 300),
    linear(SUFFICIENT, "noise", 2000, 0.5, 300, least=0.75, power=0.7),
    linear(FUNCTIONAL, "sampling", 1000, 100.0, 300),
    linear(FUNCTIONAL, "both", 4000, 10.0, 300),
    linear(FUNCTIONAL, "noise", 2000, 1.0, 300, least=0.75, power=0.7),
    linear(LINEAR, "sampling", 1000, 50.0, 150, off=0.1, power=0.8),
    linear(LINEAR, "both", 4000, 1.0, 150, least=0.85, power=0.75),
    linear(LINEAR, "noise", 2000, 1.0, 150, least=0.7, power=0.6),
    linear(LINEAR, "nonrobust, sampling", 1000, 50.0, 150, off=0.1, power=0.8),
    linear(LINEAR, "nonrobust, both", 4000, 1.0, 150, off=0.1, least=0.85, power=0.75),
    logistic("sampling", 2000, 50.0, 150, power=0.8),
    logistic("both", 4000, 2.0, 150, least=0.8, power=0.7),
    logistic("noise", 4000, 0.7, 150, least=0.6, power=0.7),
    count_regression("sampling", 2000, 50.0, 150, power=0.8),
    count_regression("both", 4000, 2.0, 150, least=0.8, power=0.7),
    # The calibration of the level is shrunk by its noise, so a part of the bias stays; errors as claimed cover it.
    count_regression("noise", 4000, 0.7, 150, least=0.6, power=0.6, off=0.15),
]


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_errors_are_as_claimed(cell: Cell) -> None:
    check(cell)
