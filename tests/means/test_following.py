"""Balls that follow the spread of the rows: their radii, their bounds, and what a loose std_bound costs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import special

from dpstats.means import AdaptiveMean
from dpstats.means.adaptive_radii import (
    Course,
    Setting,
    plan_following,
    plan_stages,
    released_variance,
    stage_curves,
    unclipped,
)
from dpstats.privacy import PrivacyBudget, gaussian_sigma

CELLS = [(700, 7, 1.0), (3000, 40, 1.0), (5000, 5, 0.2), (20_000, 20, 0.5)]


def loose(n: int, d: int, epsilon: float, factor: float, **options: Any) -> AdaptiveMean:
    return AdaptiveMean(epsilon=epsilon, delta=1e-6, bound=100.0, std="private", std_bound=factor, **options)


def planned_rmse(estimator: AdaptiveMean, n: int, d: int) -> float:
    return math.sqrt(estimator.plan(n, d).expected_error(1.0) / d)


@pytest.mark.parametrize(("n", "d", "epsilon"), CELLS)
def test_a_loose_bound_costs_a_quarter_of_the_error_at_most(n: int, d: int, epsilon: float) -> None:
    right = AdaptiveMean(epsilon=epsilon, delta=1e-6, bound=100.0, std=1.0).plan(n, d)
    least = math.sqrt(right.expected_error() / d)
    for factor in (3.0, 10.0):
        assert planned_rmse(loose(n, d, epsilon, factor), n, d) < 1.25 * least
        # The same rows and bound, with balls for the stated spread.
        fixed = AdaptiveMean(epsilon=epsilon, delta=1e-6, bound=100.0, std=factor).plan(n, d)
        assert math.sqrt(1 / n + fixed.noise_variance * factor**2) > 1.8 * least


@pytest.mark.parametrize(("n", "d", "epsilon"), CELLS)
def test_slopes_are_those_of_the_balls_that_are_used(n: int, d: int, epsilon: float) -> None:
    staging = loose(n, d, epsilon, 10.0, tails="symmetric").plan(n, d).staging
    slopes = [float(stage_curves(d, "symmetric").at(point).slope) for point in staging.points]
    assert list(staging.slopes) == slopes and min(slopes) < 0.9999


@pytest.mark.parametrize(("n", "d", "epsilon"), CELLS[:3])
def test_expected_errors_are_what_is_measured(n: int, d: int, epsilon: float) -> None:
    rng, errors = np.random.default_rng(1), []
    for _ in range(16):
        mean = rng.uniform(-50, 50, d)
        fitted = loose(n, d, epsilon, 10.0, random_state=rng).fit(mean + rng.standard_normal((n, d)))
        errors.append(np.mean((fitted.mean_ - mean) ** 2))
    expected = planned_rmse(loose(n, d, epsilon, 10.0), n, d)
    # 80 and more squared errors: the root of their mean is off by .08 of itself, and 3 of these are .003.
    assert math.sqrt(np.mean(errors)) == pytest.approx(expected, rel=0.25)


@pytest.mark.parametrize("tails", ["subgaussian", "symmetric"])
def test_intervals_cover_at_a_loose_bound(tails: str) -> None:
    rng, covered, widths = np.random.default_rng(2), [], []
    for _ in range(40):
        mean = rng.uniform(-50, 50, 5)
        fitted = loose(2000, 5, 1.0, 10.0, tails=tails, random_state=rng).fit(mean + rng.standard_normal((2000, 5)))
        low, high = fitted.confidence_interval(estimand=list(fitted._answers().estimands)[-1])
        covered.append(np.mean((low <= mean) & (mean <= high)))
        widths.append(np.mean(high - low))
    # 200 intervals: below .9 has a probability of .002 at a coverage of .95.
    assert np.mean(covered) > 0.9
    fixed = AdaptiveMean(delta=1e-6, bound=100.0, std=10.0, tails=tails).plan(2000, 5)
    assert np.mean(widths) < 0.5 * 2 * 1.96 * 10 * math.sqrt(fixed.noise_variance)


def test_only_a_private_spread_is_followed() -> None:
    def stages(**options: Any) -> Any:
        return AdaptiveMean(bound=100.0, **options).plan(2000, 5)

    assert stages(std="private", std_bound=3.0).follows
    assert stages(std="private", std_bound=3.0, tails="symmetric").follows
    assert stages(std="private", std_bound=3.0, delta=0.0).follows
    assert not stages(std=3.0).follows
    # Nothing but the stated spread bounds what is outside a ball.
    assert not stages(std="private", std_bound=3.0, tails="variance").follows


def test_where_noise_dominates_the_plan_is_that_of_fixed_balls() -> None:
    # The same noise for both: a public standard deviation may have Laplace noise at delta > 0, a private one does not.
    keeps = PrivacyBudget(0.1, 1e-6, method="gdp")
    for options in ({"delta": 1e-6, "budget": keeps}, {"delta": 0.0}):
        plan = AdaptiveMean(epsilon=0.1, bound=10.0, std="private", std_bound=1.0, **options).plan(50, 2)
        fixed = AdaptiveMean(epsilon=0.1, bound=10.0, std=1.0, **options).plan(50, 2)
        assert not plan.follows
        assert plan.stages == fixed.stages


def test_the_largest_radii_are_those_at_the_stated_spread() -> None:
    plan = loose(5000, 5, 1.0, 3.0).plan(5000, 5)
    _, radii = plan.course.follow(1.0)
    np.testing.assert_allclose(radii, plan.staging.radii, rtol=1e-6)
    for variance in (1 / 9, 1 / 100):
        known, radii = plan.course.follow(variance)
        assert np.all(np.array(radii) <= np.array(plan.staging.radii) * (1 + 1e-9))
        # What is realized has the information that was planned.
        realized = plan.realized([r / s for r, s in zip(radii, plan.staging.radii, strict=True)], variance)
        assert 1 / realized.noise_variance == pytest.approx(float(known.info), rel=1e-9)
        # The bounds were planned for a raised variance.
        assert 0.8 * float(known.bias_one) < realized.bias <= float(known.bias_one) * (1 + 1e-9)
        assert realized.guarantee == plan.guarantee


def test_radii_are_functions_of_what_was_released() -> None:
    rng = np.random.default_rng(3)
    fitted = loose(2000, 3, 1.0, 10.0, random_state=4).fit(rng.standard_normal((2000, 3)))
    again = loose(2000, 3, 1.0, 10.0, random_state=4).fit(rng.standard_normal((2000, 3)))
    assert fitted.plan_.staging == again.plan_.staging
    # The plan that is fitted is the public one; its radii are the largest.
    assert fitted.plan_ == loose(2000, 3, 1.0, 10.0).plan(2000, 3).for_data("row", True)


def test_bounds_of_a_ball_that_is_too_small_are_larger() -> None:
    n, d = 5000, 5
    units = [(2 * gaussian_sigma(1.0, 1e-6) / n) ** 2 / share for share in (0.1, 0.3, 0.6)]
    setting = Setting.build(n, d, 100.0, 100.0, laplace=False)
    for tails in ("subgaussian", "symmetric"):
        points = [np.argmin(np.abs(stage_curves(d, tails).q - q)) for q in (14.0, 14.0, 16.0)]
        course = Course(setting, tails, units, points, 1.665)
        _, radii = course.follow(0.25)
        biases = [course.bounds(radii, variance)[0][-1] for variance in (0.2, 0.25, 0.3, 0.5, 1.0)]
        assert biases == sorted(biases)
        assert biases[1] < 0.05 * math.sqrt(0.25)
        # A ball that almost no row is in bounds nothing.
        assert math.isinf(course.bounds([0.1 * radius for radius in radii], 1.0)[0][-1])


def test_a_released_variance_is_unbiased_and_its_noise_is_known() -> None:
    rng, n, d, noise, square_noise = np.random.default_rng(5), 200, 4, 0.2, 0.7
    rows = rng.normal(size=(n, d)) * 0.8
    center = np.array([0.5, 0.0, 0.0, 0.0])
    shifted = rows + center
    means = shifted.mean(axis=0) + noise * rng.standard_normal((20_000, d))
    squares = np.mean(np.sum(shifted**2, axis=1)) + square_noise * rng.standard_normal(20_000)
    found, error = released_variance(n, d, np.sum(means**2, axis=1), squares, noise**2, square_noise)
    actual = np.mean(np.var(rows, axis=0, ddof=1))
    # 20,000 draws: five standard errors.
    assert np.mean(found) == pytest.approx(actual, abs=5 * np.std(found) / math.sqrt(20_000))
    assert np.mean(error) == pytest.approx(np.std(found), rel=0.1)


@pytest.mark.parametrize("d", [1, 5, 40])
def test_what_clipping_takes_is_given_back(d: int) -> None:
    for moment in (0.3, 1.0, 4.0):
        for ratio in (0.5, 1.0, 2.0, 10.0):
            radius2 = ratio * d * moment
            b = radius2 / moment
            clipped = moment * (special.chdtr(d + 2, b) + b / d * special.chdtrc(d, b))
            assert unclipped(clipped, radius2, d) == pytest.approx(moment, rel=1e-3)
    assert unclipped(1.1, 1.0 * d, d) == np.inf


def test_rows_that_are_all_alike_have_a_release() -> None:
    for epsilon in (0.05, 1.0, 1e3, 1e5):
        for n, d in ((2, 1), (50, 3)):
            fitted = loose(n, d, epsilon, 1.0, random_state=0).fit(np.full((n, d), 3.0))
            assert np.isfinite(fitted.mean_).all()
            low, high = fitted.confidence_interval()
            assert np.all(low <= fitted.mean_) and np.all(fitted.mean_ <= high)


def test_the_fewest_stages_are_taken() -> None:
    # A box that is no wider than the spread needs few.
    noise = (2 * gaussian_sigma(4.0, 1e-6) / 10**6) ** 2
    assert len(plan_following(10**6, 2, "subgaussian", 1.0, 1.0, noise, 1, 1.665).radii) <= 6
    assert plan_following(50, 2, "subgaussian", 100.0, 100.0, 400.0, 1, 1.665) == plan_stages(
        50, 2, "subgaussian", 100.0, 100.0, 400.0, 1
    )
