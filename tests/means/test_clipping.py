"""Where to clip, and what clipping can do."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dpstats.means import clipping_radius
from dpstats.means.clipping import clipping_bias_bound, normal_clipping_bias_bound


def test_clipping_bias_bounds_hold_and_the_sharp_one_is_attained() -> None:
    # Scarf's bound is attained by a two-point law.
    std, clip, distance = 1.0, 2.0, 0.5
    room = clip - distance
    reach = math.hypot(std, room)
    upper, lower = clip + reach - 0, clip - reach
    weight = (distance - lower) / (upper - lower)
    mean = weight * upper + (1 - weight) * lower
    assert mean == pytest.approx(distance)
    assert weight * (upper - mean) ** 2 + (1 - weight) * (mean - lower) ** 2 == pytest.approx(std**2)
    assert weight * (upper - clip) == pytest.approx(clipping_bias_bound(std, clip, distance))
    # Normal rows: E(x - R)_+ by quadrature.
    grid = np.linspace(clip, 12, 200_001)
    excess = np.trapezoid((grid - clip) * stats.norm(distance, std).pdf(grid), grid)
    assert normal_clipping_bias_bound(std, clip, distance) == pytest.approx(excess, rel=1e-6)
    assert normal_clipping_bias_bound(std, clip, distance) <= clipping_bias_bound(std, clip, distance)


def test_clipping_radius() -> None:
    assert clipping_radius(1000, 1.0, 3.0) == pytest.approx(3 + 2 * math.sqrt(math.log(1000)))
    assert clipping_radius(1000, sigma=2.0, bound=0.0, constant=3.0) == pytest.approx(
        6 * math.sqrt(math.log(1000))
    )
