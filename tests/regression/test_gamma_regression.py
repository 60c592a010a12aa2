"""Private regression of amounts: intervals that hold for gamma, lognormal and partly zero amounts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpstats.regression import PrivateGammaRegression

BETA = np.array([0.3, -0.3, 0.0])


def amounts(law: str, mean: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if law == "gamma":
        return mean * rng.gamma(2.0, 0.5, mean.size)
    if law == "lognormal":
        return mean * np.exp(rng.normal(size=mean.size) - 0.5)
    return mean / 0.6 * (rng.random(mean.size) < 0.6) * rng.gamma(1.0, 1.0, mean.size)


@pytest.mark.parametrize("law", ["gamma", "lognormal", "zeros"])
def test_intervals_cover(law: str) -> None:
    rng, hits, fits = np.random.default_rng(5), 0, 30
    for _ in range(fits):
        X = rng.normal(size=(5000, 3))
        y = amounts(law, np.exp(6 + X @ BETA), rng)
        made = PrivateGammaRegression(x_bounds=(-4, 4), y_bounds=(0, 1e5), random_state=rng).fit(X, y)
        low, high = made.confidence_interval()
        hits += int(((low <= BETA) & (high >= BETA)).sum())
    assert stats.binom.cdf(hits, 3 * fits, 0.93) > 1e-4


# The excess beyond the clip sets the level: without it, the intercept of lognormal amounts is four standard errors low.
def test_the_level_of_skewed_amounts() -> None:
    rng, off = np.random.default_rng(6), []
    for _ in range(20):
        X = rng.normal(size=(20_000, 3))
        y = amounts("lognormal", np.exp(6 + X @ BETA), rng)
        made = PrivateGammaRegression(x_bounds=(-4, 4), y_bounds=(0, 1e5), random_state=rng).fit(X, y)
        off.append((made.intercept_ - 6) / made.intercept_standard_error_)
    assert abs(np.mean(off)) < 1 and np.max(np.abs(off)) < 4


def test_beside_statsmodels_at_no_noise() -> None:
    import statsmodels.api as sm

    rng = np.random.default_rng(1)
    X = rng.normal(size=(50_000, 3))
    y = amounts("gamma", np.exp(6 + X @ BETA), rng)
    made = PrivateGammaRegression(x_bounds=(-4, 4), y_bounds=(0, 1e5), epsilon=1e4, random_state=0).fit(X, y)
    family = sm.families.Gamma(sm.families.links.Log())
    beside = sm.GLM(y, sm.add_constant(X), family=family).fit(cov_type="HC0")
    assert np.abs((made.params_ - beside.params) / beside.bse).max() < 0.25
    assert np.allclose(made.bse, beside.bse, rtol=0.05)
    assert made.dispersion_ == pytest.approx(0.5, rel=0.15)
    assert "mean ratio" in str(made.summary()) and "mean^2" in str(made.summary())
