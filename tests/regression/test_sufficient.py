"""Linear regression from sufficient statistics: its guarantee, and intervals that hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpstats.errors import InvalidData
from dpstats.regression import PrivateLinearRegression, SufficientStatisticsRegression
from dpstats.textbook import FunctionalMechanismRegression


def dataset(n: int, d: int, rng: np.random.Generator, kind: str = "") -> tuple[Any, Any, Any]:
    X = rng.normal(size=(n, d))
    if kind == "AR(.7)":
        for j in range(1, d):
            X[:, j] = 0.7 * X[:, j - 1] + np.sqrt(0.51) * X[:, j]
    elif kind == "scales":
        X *= np.geomspace(1, 0.3, d)
    elif kind == "indicators":
        X[:, ::2] = rng.choice([-4.0, 4.0], X[:, ::2].shape)
    elif kind == "off center":
        X = 2 + X / 2
    beta = np.where(np.arange(d) % 2, -0.5, 0.5) / (4 if kind == "indicators" else 1)
    errors = {"t3": lambda: rng.standard_t(3, n) / np.sqrt(3), "exponential": lambda: rng.exponential(size=n) - 1}
    return X, 1 + X @ beta + errors.get(kind, lambda: rng.normal(size=n))(), beta


def covered(kind: type, fits: int, seed: int, n: int, d: int, design: str, **options: Any) -> tuple[int, int]:
    """Return how many slopes their intervals cover, and of how many that are identified."""
    rng, hits, of = np.random.default_rng(seed), 0, 0
    for _ in range(fits):
        X, y, beta = dataset(n, d, rng, design)
        made = kind(x_bounds=(-4, 4), y_bounds=(-9, 11), random_state=rng, **options).fit(X, y)
        low, high = made.confidence_interval()
        hits += int(((low <= beta) & (beta <= high))[made.identified_].sum())
        of += int(made.identified_.sum())
    return hits, of


@pytest.mark.parametrize(
    ("n", "d", "design", "epsilon"),
    [
        (5000, 3, "", 1.0),
        (5000, 3, "", 0.2),
        (5000, 3, "AR(.7)", 1.0),
        (5000, 3, "t3", 3.0),
        (5000, 3, "exponential", 3.0),
        (5000, 3, "indicators", 1.0),
        (20_000, 3, "scales", 1.0),
        (20_000, 2, "off center", 1.0),
        (5000, 10, "", 3.0),
    ],
)
def test_intervals_cover(n: int, d: int, design: str, epsilon: float) -> None:
    hits, of = covered(SufficientStatisticsRegression, 100, n + d, n, d, design, epsilon=epsilon)
    assert of >= 80 * d
    # At coverage .93 so few are seen once in 10^4; slopes of a fit are nearly independent given x.
    assert stats.binom.cdf(hits, of, 0.93) > 1e-4


def test_undercoverage_would_be_seen() -> None:
    class TooSure(SufficientStatisticsRegression):
        """Planted bug: standard errors of the sampling error alone."""

        def _report(self, released: Any, plan: Any) -> None:
            super()._report(released, plan)
            assert self.params_cov_ is not None
            shares = np.append(self.intercept_privacy_share_, self.privacy_share_)
            factor = np.sqrt(1 - shares)
            self.params_cov_ = factor[:, None] * self.params_cov_ * factor

    hits, of = covered(TooSure, 60, 1, 5000, 3, "")
    assert stats.binom.cdf(hits, of, 0.93) < 1e-4


def test_the_smaller_noise_is_chosen() -> None:
    for d, delta, norm in ((2, 0.0, "l1"), (1, 1e-6, "l1"), (3, 1e-6, "l2"), (1, 1e-2, "l2")):
        plan = SufficientStatisticsRegression(x_bounds=(0, 1), y_bounds=(0, 1), delta=delta).plan(100, d)
        assert (plan.guarantee.epsilon, plan.guarantee.delta) == (1.0, delta if norm == "l2" else 0.0)
        assert plan.norm == norm and plan.delta_asked == (delta if norm == "l1" else 0.0)


def test_the_summary_says_what_is_assumed() -> None:
    rng = np.random.default_rng(2)
    X, y, _ = dataset(5000, 3, rng)
    text = str(SufficientStatisticsRegression(x_bounds=(-4, 4), y_bounds=(-9, 11), random_state=0).fit(X, y).summary())
    assert "nonrobust (residuals of one variance)" in text
    assert "second moments of (1, x, y) with Gaussian noise" in text


def test_correlated_columns_are_why_the_engine_is_the_default() -> None:
    rng = np.random.default_rng(3)
    X, y, _ = dataset(20_000, 6, rng, "AR(.7)")
    given = {"x_bounds": (-4, 4), "y_bounds": (-9, 11), "random_state": 0}
    simple, engine = (
        kind(**given).fit(X, y).standard_errors_ for kind in (SufficientStatisticsRegression, PrivateLinearRegression)
    )
    assert (simple > engine).all()


@pytest.mark.parametrize("kind", [SufficientStatisticsRegression, FunctionalMechanismRegression])
def test_rows_with_missing_entries_count_nowhere(kind: type) -> None:
    rng = np.random.default_rng(0)
    X, y, _ = dataset(4000, 2, rng)
    absent = rng.random(4000) < 0.4 * np.exp(0.7 * X[:, 0])
    options = {"x_bounds": (-4, 4), "y_bounds": (-9, 11), "epsilon": 1e5, "random_state": 0}
    known = kind(**options).fit(X[~absent], y[~absent])
    H, v = X.copy(), y.copy()
    H[absent & (v > 0), 1], v[absent & (y <= 0)] = np.inf, np.nan
    dropped = kind(missing="drop", **options).fit(H, v)
    np.testing.assert_allclose(dropped.params_, known.params_, atol=1e-3)
    np.testing.assert_allclose(dropped.params_cov_, known.params_cov_, rtol=0.02)
    assert dropped.f_test().df_denom <= (~absent).sum() and "left out" in dropped.confidence_interval().estimand
    assert "left out" in str(dropped.summary())
    with pytest.raises(InvalidData, match="NaN"):
        kind(**options).fit(H, y)


def test_intervals_cover_if_rows_are_missing_by_a_column() -> None:
    # 150 fits of two slopes: false alarm 1e-4.
    rng, hits = np.random.default_rng(1), 0
    for _ in range(150):
        X, y, beta = dataset(2000, 2, rng)
        absent = rng.random(2000) < 0.5 * np.exp(0.7 * X[:, 0])
        H = np.where(absent[:, None], np.nan, X)
        made = SufficientStatisticsRegression(
            x_bounds=(-4, 4), y_bounds=(-9, 11), epsilon=5.0, missing="drop", random_state=rng
        )
        low, high = made.fit(H, y).confidence_interval()
        hits += int(((low <= beta) & (beta <= high)).sum())
    assert hits > 300 * 0.95 - 4 * np.sqrt(300 * 0.95 * 0.05)
