"""The normal limit of the sum of projected rows: its moments, and what they decide at many rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dpstats.identity import SpatialSignTest
from dpstats.identity.by_spatial_sign import projected_moments


@pytest.mark.parametrize("distance", [0.0, 1e-9, 1e-3, 0.3, 2.0, 9.0, 1e3, 1e5])
@pytest.mark.parametrize("radius", [1e-3, 0.75, 4.0, 2e4])
def test_of_one_column_it_is_a_clipped_normal_variable(distance: float, radius: float) -> None:
    # E clip(x) in closed form, by differences of its integral, the normal loss function.
    def loss(t: float) -> float:
        return float(stats.norm.pdf(t) - t * stats.norm.sf(t))

    mean = -radius + loss(-radius - distance) - loss(radius - distance)
    found, along, _ = projected_moments(distance, 1, radius)
    assert found == pytest.approx(mean, rel=1e-7, abs=1e-12 * max(radius, 1.0))
    assert 0 <= along <= min(1.0, radius**2)
    if distance == 0.001:  # odd: what is wrong of the mean is a share of it
        assert found == pytest.approx(distance * (1 - 2 * stats.norm.sf(radius)), rel=1e-5)


@pytest.mark.parametrize(("d", "radius"), [(2, 1.0), (3, 0.75 * math.sqrt(3)), (50, 9.0), (50, 1e-6)])
@pytest.mark.parametrize("distance", [0.05, 1.0, 30.0])
def test_moments_are_those_of_rows(d: int, radius: float, distance: float) -> None:
    size, rng = 200_000, np.random.default_rng(5)
    first, rest = rng.standard_normal(size) + distance, rng.chisquare(d - 1, size)
    factor = np.minimum(1.0, radius / np.sqrt(first**2 + rest))
    mean, along, across = projected_moments(distance, d, radius)
    # Six standard errors: a false alarm below 1e-6 in all of them.
    for values, expected in (
        (factor * first, mean),
        ((factor * first - mean) ** 2, along),
        (factor**2 * rest / (d - 1), across),
    ):
        assert abs(np.mean(values) - expected) < 6 * np.std(values) / math.sqrt(size) + 1e-12 * radius**2


def test_a_distance_that_is_nothing_is_not_found_at_any_number_of_rows() -> None:
    """An error of the mean of a row, n times over, would be found: of 2e-4 at a million rows."""
    test = SpatialSignTest(n_calibration=999)
    for n in (10**6, 10**9):
        # Six standard errors of 1,000 datasets, and of the calibration.
        assert test.power(1e-9, n, 3) < 0.05 + 6 * math.sqrt(0.0475 / 500)
        # The noncentrality n a^2 E^2 / var decides, at any n.
        mean, along, _ = projected_moments(1e-4, 3, 0.75 * math.sqrt(3))
        distance = 4 / math.sqrt(n) * math.sqrt(along) / (mean / 1e-4)
        expected = stats.ncx2.sf(stats.chi2.isf(0.05, 3), 3, 16)
        assert abs(test.power(distance, n, 3) - expected) < 6 * math.sqrt(0.25 / 500)
