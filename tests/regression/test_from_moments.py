"""The regressions of one release: exactness, hard designs, and what is said where noise hides the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpstats.data.rows import Table
from dpstats.privacy import BudgetExceeded, PrivacyBudget
from dpstats.regression import SufficientStatisticsRegression
from dpstats.regression.linear_path import STAGE
from dpstats.textbook import FunctionalMechanismRegression

KINDS = (SufficientStatisticsRegression, FunctionalMechanismRegression)
kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
BOUNDS = {"x_bounds": (-4, 4), "y_bounds": (-8, 10)}


def rows(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X, beta = rng.normal(size=(n, d)), np.where(np.arange(d) % 2, -0.5, 0.5)
    return X, 1 + X @ beta + rng.normal(size=n), beta


@kinds
@pytest.mark.parametrize("intercept", [True, False])
def test_with_next_to_no_noise_it_is_least_squares(kind: type, intercept: bool) -> None:
    # Within half a half-width in every column rows keep their length.
    rng = np.random.default_rng(1)
    bounds = np.array([[-4.0, 4.0], [0.0, 20.0], [-1.0, 3.0]])
    middle = bounds.mean(axis=1) if intercept else np.zeros(3)
    X = middle + rng.uniform(-0.3, 0.3, (4000, 3)) * np.diff(bounds)[:, 0] / 2
    y = 3 * intercept + X @ [0.5, -0.1, 0.2] + rng.normal(size=4000)
    made = kind(x_bounds=bounds, y_bounds=(-12, 18), epsilon=1e5, fit_intercept=intercept, random_state=0).fit(X, y)
    Z = np.column_stack([np.ones(4000), X]) if intercept else X
    theta = np.linalg.lstsq(Z, y, rcond=None)[0]
    scale = np.sqrt(np.mean((y - Z @ theta) ** 2))
    assert np.allclose(made.params_, theta, atol=2e-3)
    assert made.scale_ == pytest.approx(scale, rel=1e-3)
    assert np.allclose(made.params_cov_, scale**2 * np.linalg.inv(Z.T @ Z), rtol=2e-2)
    assert (made.privacy_share_ < 0.02).all() and made.identified_.all()
    assert made.clipped_share_ == pytest.approx(np.mean((y < -12) | (y > 18)), abs=1e-3)
    assert np.abs(made.intercept_) > 0 if intercept else made.intercept_ == 0


@kinds
def test_what_a_row_adds_depends_on_that_row_alone(kind: type) -> None:
    X, y, _ = rows(50, 3)
    X[3], X[4] = 1e300, -1e-300
    made = kind(**BOUNDS)
    plan = made.plan(50, 3)

    def integers(chosen: Any) -> dict[str, np.ndarray]:
        return made._read(Table(X[chosen], y=y[chosen]), plan)[STAGE]

    total, order = integers(slice(None)), np.random.default_rng(0).permutation(50)
    alone = [integers([i]) for i in range(50)]
    for name, steps in total.items():
        assert steps.dtype == np.int64
        assert np.array_equal(steps, sum(one[name] for one in alone))
        assert np.array_equal(steps, integers(order)[name])


@kinds
@pytest.mark.parametrize("case", ["constant column", "collinear", "n < d", "constant outcome", "one value"])
def test_degenerate_designs_end_in_wide_intervals(kind: type, case: str) -> None:
    X, y, _ = rows(50_000, 3)
    if case == "constant column":
        X[:, 2] = 1.5
    elif case == "collinear":
        X[:, 2] = X[:, 0] + X[:, 1]
    elif case == "n < d":
        X, y, _ = rows(5, 8)
    elif case == "constant outcome":
        y = np.full(50_000, 2.0)
    else:
        X[:] = 0.0
    made = kind(**BOUNDS, random_state=0).fit(X, y)
    assert np.isfinite(made.params_).all()
    assert np.isfinite(made.params_cov_).all()
    assert np.linalg.eigvalsh(made.params_cov_).min() > 0
    assert (made.standard_errors_ > 0).all()
    known = {"constant column": [True, True, False], "collinear": [False] * 3, "constant outcome": [True] * 3}
    assert made.identified_.tolist() == known.get(case, [False] * made.coef_.size)
    assert ("Not identified" in str(made.summary())) == (case != "constant outcome")
    if case == "constant column":
        assert not made.intercept_identified_
        assert "Intercept, x2" in str(made.summary())
    if case == "constant outcome":
        assert np.abs(made.coef_ / made.standard_errors_).max() < 4
        assert made.scale_ < 0.3


@kinds
def test_rows_beyond_their_bounds_weigh_less_and_bend_nothing(kind: type) -> None:
    X, y, beta = rows(100_000, 2)
    X[::3] *= 8
    y[::3] = 1 + X[::3] @ beta + np.random.default_rng(1).normal(size=len(y[::3]))
    made = kind(x_bounds=(-2, 2), y_bounds=(-60, 60), random_state=0).fit(X, y)
    assert np.abs((made.coef_ - beta) / made.standard_errors_).max() < 4
    # Clipped columns would bend slopes by far more than their errors.
    clipped = np.column_stack([np.ones(len(y)), np.clip(X, -2, 2)])
    bent = np.linalg.lstsq(clipped, y, rcond=None)[0][1:]
    assert np.abs((bent - beta) / made.standard_errors_).max() > 20


@kinds
def test_outcomes_beyond_their_bounds_are_counted(kind: type) -> None:
    X, y, _ = rows(50_000, 2)
    made = kind(x_bounds=(-4, 4), y_bounds=(-0.5, 2.5), random_state=0).fit(X, y)
    share = np.mean((y < -0.5) | (y > 2.5))
    assert made.clipped_share_ == pytest.approx(share, abs=5 * made.clipped_share_std_)
    assert f"{100 * made.clipped_share_:.1f}%" in str(made.summary())


@kinds
def test_noise_only_is_said_before_and_after(kind: type) -> None:
    X, y, beta = rows(300, 20)
    made = kind(**BOUNDS, random_state=0).fit(X, y)
    assert made.plan_.noise_only and not made.identified_.any()
    assert "Noise only" in str(made.summary())
    low, high = made.confidence_interval()
    assert ((low <= beta) & (beta <= high)).all()


@kinds
def test_more_rows_leave_little_of_the_noise(kind: type) -> None:
    X, y, beta = rows(1_000_000, 3)
    made = kind(**BOUNDS, random_state=1).fit(X, y)
    assert (made.privacy_share_ < 0.35).all()
    assert np.abs((made.coef_ - beta) / made.standard_errors_).max() < 4
    assert made.standard_errors_.max() < 1.25 / 1000
    assert made.intercept_ == pytest.approx(1, abs=5 * made.intercept_standard_error_)
    assert made.scale_ == pytest.approx(1, abs=0.01)


@kinds
def test_one_release_is_charged_once_and_before(kind: type) -> None:
    X, y, _ = rows(500, 2)
    budget = PrivacyBudget(1.5, 1e-5)
    made = kind(**BOUNDS, budget=budget).fit(X, y)
    (charge,) = budget.history()
    assert charge.guarantee == made.privacy_
    assert len(made.plan_.stages) == 1
    with pytest.raises(BudgetExceeded):
        made.fit(X, y)
