"""Regressions: errors of coefficients, of the intercept and of what is predicted are as claimed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpstats.regression import (
    FunctionalMechanismRegression,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    SufficientStatisticsRegression,
)
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
    """Return the scores of the intercept and of the slopes."""
    asked = [("Intercept", INTERCEPT), *enumerate(SLOPES)]
    return scores([fitted.test(j, value, "greater").pvalue[0] for j, value in asked])


Y_BOUNDS = (-12.0, 10.0)
LINEAR = [
    Cell(
        f"{kind.__name__}: {place}",
        lambda kind=kind, epsilon=epsilon: kind(x_bounds=X_BOUNDS, y_bounds=Y_BOUNDS, epsilon=epsilon),
        rows(n),
        coefficients,
        count,
    )
    for kind, count, sizes in (
        (SufficientStatisticsRegression, 400, ((1000, 50.0), (4000, 3.0), (2000, .5))),
        (FunctionalMechanismRegression, 400, ((1000, 100.0), (4000, 10.0), (2000, 1.))),
        (PrivateLinearRegression, 200, ((1000, 50.0), (4000, 1.0), (2000, .5))),
    )
    for place, (n, epsilon) in zip(("sampling", "both", "noise"), sizes, strict=True)
]
