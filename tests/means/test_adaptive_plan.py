"""The plan of an adaptive mean: what its last stage releases beside the sums, and what that costs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpstats.means import AdaptiveMean
from dpstats.means.adaptive_estimate import Trail
from dpstats.means.boxed_errors import biased_normal_quantile
from dpstats.privacy import PrivacyBudget, gaussian_sigma


def parts_of_the_count(delta: float, **options: Any) -> tuple[Any, float]:
    """Return a plan, and what its last stage's noise on the sums grew by for the count of clipped rows."""
    budget = PrivacyBudget(1.0, 1e-6, method="gdp")  # keeps Gaussian noise
    plan = AdaptiveMean(std=1.0, bound=10.0, delta=delta, budget=budget, **options).plan(2000, 3)
    largest = 2 * 2**30 * (1.0 if delta else math.sqrt(3))
    return plan, plan.last.sensitivity / largest


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_the_count_takes_its_share_and_squared_norms_none(delta: float) -> None:
    plan, grown = parts_of_the_count(delta)
    part = next(
        f
        for f in (0.4, 0.3, 0.25, 0.2, 0.15, 0.12, 0.1, 0.08, 0.06, 0.05, 0.04, 0.03, 0.02, 0.01)
        if grown == pytest.approx((1 - f) ** (-0.5 if delta else -1), rel=1e-8)
    )
    # The noise of the count is that of a budget of its own: sqrt(share * part) mu, or share * part * epsilon.
    share = part * plan.staging.shares[-1]
    alone = gaussian_sigma(1.0, 1e-6) / math.sqrt(share) if delta else math.sqrt(2) / share
    assert plan.noise("clipped rows").std == pytest.approx(alone, rel=1e-6)
    # Squared norms, in units of the squared radius: 1.66509/2 of the noise of a sum, in units of the radius.
    radius = plan.staging.radii[-1]
    weight = 1.665 if delta else math.sqrt(3) / 2
    of_sums = plan.noise("mean").std / radius
    assert plan.noise("squared norm").std / radius**2 == pytest.approx(of_sums / weight, rel=1e-6)
    # Without the count the same noise of the sums would be that of the stage's whole share.
    for tails in ("symmetric", "variance"):
        other, grown = parts_of_the_count(delta, tails=tails)
        assert other.screen is None and grown == pytest.approx(1, rel=1e-8)


def test_the_count_widens_intervals_by_two_percent_at_most() -> None:
    for n, d, epsilon in ((200, 1, 0.3), (5000, 20, 1.0), (50_000, 2, 1.0)):
        plan = AdaptiveMean(bound=10.0, std=1.0, epsilon=epsilon).plan(n, d)
        stage = plan.last
        without = replace(stage, scale=stage.scale * 2 * 2**30 / stage.sensitivity)
        free = replace(plan, stages=(*plan.stages[:-1], without))

        def half(plan: Any) -> float:
            error = math.sqrt(plan.sampling_variance + plan.noise_variance)
            return error * float(biased_normal_quantile(0.025, plan.bias / error))

        assert 1.001 < half(plan) / half(free) <= 1.02 + 1e-9


def test_a_stage_gives_back_what_its_clip_takes_of_a_shift() -> None:
    plan = AdaptiveMean(bound=10.0, std=1.0, tails="symmetric").plan(400, 2)
    slope = plan.staging.slopes[0]
    assert slope < 0.95
    trail, shift = Trail(plan), np.array([0.5, -1.0])
    trail.add(shift)
    assert np.allclose(trail.estimates[0], plan.center([]) + shift / slope)


def test_the_sampling_variance_follows_the_variance_of_the_rows() -> None:
    plan = AdaptiveMean(bound=10.0, std=1.0).plan(400, 2)
    one = plan.sampling_variance
    assert plan.sampling_at(1 + 1e-9) == pytest.approx(one, rel=1e-6)
    # What the errors of the centers add does not grow with the rows' variance.
    assert 9 * one >= plan.sampling_at(9.0) > 8 * one
    assert one > plan.sampling_at(1e-9) >= 0
