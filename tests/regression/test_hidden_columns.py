"""Slopes of columns whose variation noise hides: no estimate, no limits, no test, and others that are not adjusted."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from dpstats.regression import (
    PrivateCountRegression,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    SufficientStatisticsRegression,
)

WIDE = 5e4
KINDS: list[tuple[type, dict[str, Any]]] = [
    (PrivateLinearRegression, {"y_bounds": (-12, 12)}),
    (SufficientStatisticsRegression, {"y_bounds": (-12, 12)}),
    (PrivateLogisticRegression, {}),
    (PrivateCountRegression, {"y_bounds": (0, 40)}),
]


def draw(kind: type, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows whose second column has a strong effect and is correlated with the first."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(4000, 2))
    X[:, 1] = 0.8 * X[:, 0] + 0.6 * X[:, 1]
    score = X @ [1.0, 2.0]
    if kind is PrivateLogisticRegression:
        return X, (rng.uniform(size=len(X)) < 1 / (1 + np.exp(-score))).astype(int)
    if kind is PrivateCountRegression:
        return X, np.minimum(rng.poisson(np.exp(0.3 * score)), 40)
    return X, score + rng.normal(size=len(X))


@pytest.mark.parametrize(("kind", "given"), KINDS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_hidden_slope_has_no_number(kind: type, given: dict[str, Any]) -> None:
    # A slope per unit is tiny where bounds are wide, if the range of the outcome were what limits it.
    X, y = draw(kind, 0)
    model = kind(x_bounds=[(-4, 4), (-WIDE, WIDE)], epsilon=1.0, random_state=0, **given).fit(X, y)
    assert not model.identified_[1]
    low, high = model.confidence_interval()
    assert low[1] == -np.inf and high[1] == np.inf
    found = model.estimates()
    assert np.isnan(found.estimate[1]) and np.isnan(found.error[1]) and np.isnan(found.pvalue[1])
    assert np.isnan(model.params[-1]) and np.isnan(model.bse[-1])
    assert np.isnan(model.f_test(["x1"]).pvalue) and np.isnan(model.wald_test_terms().pvalue[-1])
    assert np.isfinite(model.f_test(["x0"]).pvalue)
    assert model.test("x1", value=2.0).pvalue[0] > 0.99
    prediction = model.get_prediction([[0.5, 1.0]]).confidence_interval()
    assert not np.isfinite(prediction.high[0]) or prediction.high[0] == 1.0
    assert np.isfinite(model.predict([[0.5, 1.0]])).all()
    text = str(model.summary())
    assert "–" in text and "x1" in text.split("Not identified")[1]


def test_other_slopes_are_those_without_the_hidden_column() -> None:
    # A false alarm in 1e-6: 40 intervals of level 0.95 miss at most 9 times.
    missed = 0
    for seed in range(40):
        X, y = draw(PrivateLinearRegression, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = PrivateLinearRegression(
                x_bounds=[(-4, 4), (-WIDE, WIDE)], y_bounds=(-12, 12), epsilon=1.0, random_state=seed
            ).fit(X, y)
        low, high = model.confidence_interval()
        missed += not low[0] <= 1 + 2 * 0.8 <= high[0]
    assert missed <= 9
