"""Private regression of counts: intervals that hold, and clear statements where they may not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpstats.errors import InvalidParameter
from dpstats.regression import PrivateCountRegression

BETA = np.array([0.3, -0.3, 0.0])


def outcomes(law: str, mean: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    spread = {"poisson": np.ones_like(mean), "overdispersed": rng.gamma(1.0, 1.0, mean.size)}
    spread["zeros"] = (rng.random(mean.size) < 0.6) / 0.6
    return rng.poisson(mean * spread[law]).astype(float)


# Too few intervals of level 0.95 cover with probability below 1e-4 where 0.93 is true.
@pytest.mark.parametrize(
    ("law", "overdispersion"), [("poisson", 0.0), ("poisson", 1.0), ("overdispersed", 1.0), ("zeros", 1.0)]
)
def test_intervals_cover(law: str, overdispersion: float) -> None:
    rng, hits, fits = np.random.default_rng(7), 0, 30
    for _ in range(fits):
        X = rng.normal(size=(5000, 3))
        y = outcomes(law, np.exp(0.4 + X @ BETA), rng)
        made = PrivateCountRegression(
            x_bounds=(-4, 4), y_bounds=(0, 500), overdispersion=overdispersion, random_state=rng
        ).fit(X, y)
        low, high = made.confidence_interval()
        hits += int(((low <= BETA) & (high >= BETA)).sum())
    assert stats.binom.cdf(hits, 3 * fits, 0.93) > 1e-4


def test_beside_statsmodels_at_no_noise() -> None:
    import statsmodels.api as sm

    rng = np.random.default_rng(1)
    X = rng.normal(size=(50_000, 3))
    y = outcomes("overdispersed", np.exp(1 + X @ BETA), rng)
    made = PrivateCountRegression(x_bounds=(-4, 4), y_bounds=(0, 500), epsilon=1e4, random_state=0).fit(X, y)
    mle = sm.GLM(y, sm.add_constant(X), family=sm.families.NegativeBinomial(alpha=1.0)).fit(cov_type="HC0")
    assert np.abs((made.params_ - mle.params) / mle.bse).max() < 0.25
    assert np.allclose(made.bse, mle.bse, rtol=0.05)


def test_the_dispersion_is_reported() -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(20_000, 2))
    made = PrivateCountRegression(x_bounds=(-4, 4), y_bounds=(0, 100), random_state=0)
    made.fit(X, rng.poisson(np.exp(1 + X @ [0.2, 0.2])).astype(float))
    assert made.dispersion_.shape == (2,) and made.dispersion_[0] < 1.3 and made.dispersion_[1] < 0.1
    assert made.mean_ == pytest.approx(np.exp(1.04), rel=0.1)
    assert "mean + " in str(made.summary())


@pytest.mark.parametrize("case", ["all 0", "all at the bound", "one count", "few rows", "huge bounds", "constant x"])
def test_rows_with_nothing_to_estimate_give_finite_numbers(case: str) -> None:
    rng = np.random.default_rng(3)
    n, high = (12 if case == "few rows" else 3000), (1e9 if case == "huge bounds" else 50.0)
    X, y = rng.normal(size=(n, 2)), rng.poisson(2.0, n).astype(float)
    if case == "all 0":
        y[:] = 0
    elif case == "all at the bound":
        y[:] = high
    elif case == "one count":
        y[:] = 0
        y[5] = 50
    elif case == "constant x":
        X[:] = 1.0
    for epsilon in (0.05, 1.0, 1e5):
        options: dict[str, Any] = {"x_bounds": (-4, 4), "y_bounds": (0, high), "random_state": 0}
        made = PrivateCountRegression(epsilon=epsilon, **options).fit(X, y)
        assert np.isfinite(made.params_).all() and (made.standard_errors_ > 0).all()
        assert str(made.summary())


def test_the_largest_overdispersion_gives_finite_numbers_and_more_is_refused() -> None:
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(300, 2)), rng.poisson(2.0, 300).astype(float)
    options: dict[str, Any] = {"x_bounds": (-4, 4), "y_bounds": (0, 20), "random_state": 0}
    made = PrivateCountRegression(overdispersion=1e100, **options).fit(X, y)
    assert np.isfinite(made.params_).all() and (made.standard_errors_ > 0).all()
    # The covariance of the release would be infinite.
    with pytest.raises(InvalidParameter, match="overdispersion must"):
        PrivateCountRegression(overdispersion=1e200, **options).plan(300, 2)


def test_predictions_that_overflow_give_no_warning() -> None:
    X = np.random.default_rng(6).normal(size=(100, 2))
    made = PrivateCountRegression(x_bounds=(-4, 4), y_bounds=(0, 20), epsilon=0.3, random_state=1).fit(X, X[:, 0] > 0)
    # Warnings are errors here.
    found = made.get_prediction(X * 1e4)
    low, high = found.confidence_interval()
    assert np.isinf(high).any() and not np.isnan([low, high]).any()
    assert (found.test(1.0, "less").pvalue >= 0).all() and found.test(0.0).pvalue.shape == (100,)


def test_rare_counts_are_said() -> None:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60_000, 2))
    options: dict[str, Any] = {"x_bounds": (-4, 4), "y_bounds": (0, 20), "random_state": 0}
    rare = PrivateCountRegression(**options).fit(X, rng.poisson(0.05, 60_000).astype(float))
    common = PrivateCountRegression(**options).fit(X, rng.poisson(1.0, 60_000).astype(float))
    assert "Counts are rare" in str(rare.summary()) and "Counts are rare" not in str(common.summary())


def test_a_rare_group_of_large_counts_has_a_true_interval() -> None:
    # Residuals are small against the mean, and those of the group were all clipped: half of its intervals missed.
    rng = np.random.default_rng(5)
    hits = []
    for _ in range(40):
        X = np.column_stack([rng.random(8000) < 0.05, rng.normal(size=8000)]).astype(float)
        made = PrivateCountRegression(x_bounds=[(0, 1), (-4, 4)], y_bounds=(0, 20_000), epsilon=1.0, random_state=rng)
        found = made.fit(X, rng.poisson(np.exp(7 + X @ [0.6, 0.3]))).confidence_interval()
        hits.append((found.low <= [0.6, 0.3]) & (found.high >= [0.6, 0.3]))
    assert (np.mean(hits, axis=0) > 0.78).all()


def test_a_rate_is_a_model_without_columns() -> None:
    hits = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame({"years": rng.uniform(0.2, 2, 5000)})
        frame["events"] = rng.poisson(0.05 * frame["years"])
        made = PrivateCountRegression.from_formula(
            "events ~ 1",
            frame,
            bounds={"events": (0, 10)},
            exposure="years",
            exposure_bounds=(0.2, 2),
            random_state=seed,
        )
        low, high = made.intercept_confidence_interval()
        hits += low <= np.log(0.05) <= high
    assert hits >= 17
    assert made.coef_.shape == (0,) and made.params.index.tolist() == ["Intercept"]
    assert made.predict(frame[:3]) == pytest.approx(np.full(3, np.exp(made.intercept_)))
    assert "Intercept" in str(made.summary())
    almost = PrivateCountRegression.from_formula(
        "events ~ 1",
        frame,
        bounds={"events": (0, 10)},
        exposure="years",
        exposure_bounds=(0.2, 2),
        overdispersion=0,
        epsilon=1e8,
        random_state=0,
    )
    exact = np.log(frame["events"].sum() / frame["years"].sum())
    assert almost.intercept_ == pytest.approx(exact, abs=0.01 * almost.intercept_standard_error_)


def test_clipped_counts_do_not_bias_the_coefficients() -> None:
    rng = np.random.default_rng(3)
    X = rng.uniform(0, 1, (20_000, 2))
    truth = np.array([0.5, -0.3])
    y = rng.poisson(np.exp(1.0 + X @ truth))
    made = PrivateCountRegression(x_bounds=(0, 1), y_bounds=(0, 6), epsilon=1e4, random_state=0).fit(X, y)
    assert made.clipped_share_ == pytest.approx((y > 6).mean(), abs=1e-3)
    # Clipped counts alone have intercept and slopes that are 2.6 to 3.3 standard errors too small.
    assert np.all(np.abs(made.coef_ - truth) < 2 * made.standard_errors_)
    assert abs(made.intercept_ - 1.0) < 2 * made.intercept_standard_error_
    # Outcomes that cannot be larger are not clipped, whatever counts of such a mean may be.
    y = rng.random(20_000) < np.exp(-1.0 + X @ truth)
    made = PrivateCountRegression(x_bounds=(0, 1), y_bounds=(0, 1), epsilon=1e4, random_state=0).fit(X, y)
    assert np.all(np.abs(made.coef_ - truth) < 3 * made.standard_errors_)
