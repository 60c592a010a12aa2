"""Outcomes within public bounds: what is said of those outside, and the score."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.regression import PrivateCountRegression, PrivateLinearRegression, SufficientStatisticsRegression
from dpstats.textbook import FunctionalMechanismRegression

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4000, 2))
Y = np.abs(5 + X @ [1.0, -1.0] + RNG.normal(size=4000))
KINDS = [PrivateLinearRegression, SufficientStatisticsRegression, FunctionalMechanismRegression, PrivateCountRegression]


@pytest.mark.parametrize("kind", KINDS)
def test_outcomes_outside_are_counted_and_said(kind: type) -> None:
    wide, narrow = (
        kind(x_bounds=(-4, 4), y_bounds=(0, high), epsilon=20.0, random_state=0).fit(X, Y) for high in (30, 5)
    )
    assert narrow.clipped_share_ == pytest.approx((Y > 5).mean(), abs=6 * narrow.clipped_share_std_)
    assert "Widen y_bounds" in str(narrow.summary()) and "Widen y_bounds" not in str(wide.summary())


@pytest.mark.parametrize("kind", KINDS)
def test_a_score_is_that_of_clipped_outcomes(kind: type) -> None:
    made = kind(x_bounds=(-4, 4), y_bounds=(0, 30), epsilon=1e4, random_state=0).fit(X, Y)
    residuals = Y - made.predict(X)
    assert made.score(X, Y) == pytest.approx(1 - residuals.var() / Y.var(), abs=0.02)
