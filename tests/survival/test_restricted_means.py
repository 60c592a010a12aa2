"""Restricted means: areas, their variance and the grid term."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.survival import PrivateSurvival
from dpstats.survival.table import Area, area_weights, band_areas
from tests.survival.test_curves import M, cells_of, discrete_rows, exact

EDGES = np.arange(M + 1.0)


@pytest.mark.parametrize("until", [0.25, 1.0, 3.5, 6.75, 8.0])
def test_weights_integrate_lines_and_steps(until: float) -> None:
    heights = np.linspace(1.0, 0.2, M + 1)
    start, weights = area_weights(EDGES, until, discrete=False)
    line = np.interp(np.linspace(0, until, 20001), EDGES, heights)
    assert start + weights @ heights[1:] == pytest.approx(np.trapezoid(line, dx=until / 20000), abs=1e-9)
    start, weights = area_weights(EDGES, until, discrete=True)
    steps = sum(heights[j] * min(max(until - j, 0), 1) for j in range(M))
    assert start + weights @ heights[1:] == pytest.approx(steps)


def test_discrete_times_give_the_area_under_kaplan_meier() -> None:
    times, events = discrete_rows()
    curves = exact(cells_of(times, events))
    area = Area.compute(curves, EDGES, float(M), discrete=True)
    assert area.estimate[0] == pytest.approx(1 + curves.survival[0, :-1].sum())
    assert area.grid[0] == 0 and area.reached[0]


def test_the_variance_is_that_of_samples() -> None:
    areas = [Area.compute(exact(cells_of(*discrete_rows(300, seed))), EDGES, 8.0, discrete=True) for seed in range(600)]
    spread = np.var([area.estimate[0] for area in areas])
    stated = np.mean([area.variance[0] for area in areas])
    # 600 samples: a standard error of 6% of the variance; 25% is more than four of them.
    assert stated == pytest.approx(spread, rel=0.25)


def test_a_curve_that_is_steep_at_the_start_has_a_large_grid_term() -> None:
    rng = np.random.default_rng(0)
    n = 400_000
    steep = cells_of(20 * rng.weibull(0.5, n), np.ones(n, dtype=np.int64))
    area = Area.compute(exact(steep), EDGES, 8.0, discrete=False)
    known = np.exp(-np.sqrt(np.linspace(0, 8, 400_001) / 20))
    error = area.estimate[0] - np.trapezoid(known, dx=8 / 400_000)
    half = 1.96 * np.sqrt(area.variance[0])
    assert abs(error) > half, "the grid term would not be needed"
    assert abs(error) <= half + abs(area.grid[0])


def test_a_curve_that_ends_early_has_bounds_from_its_band() -> None:
    low, high = np.array([[0.8, 0.6, 0, 0, 0, 0, 0, 0]]), np.array([[0.9, 0.7, *[0.7] * 6]])
    below, above = band_areas(low, high, EDGES, 8.0)
    assert below[0] == pytest.approx(1.4) and above[0] == pytest.approx(1 + 0.9 + 6 * 0.7)
    cells = np.zeros((1, 2 * M + 1))
    cells[0, :4] = 10
    area = Area.compute(exact(cells), EDGES, 8.0, discrete=False)
    assert not area.reached[0] and Area.compute(exact(cells), EDGES, 2.5, discrete=False).reached[0]


def test_a_bin_in_which_nearly_all_rows_have_events_widens_the_interval() -> None:
    rng = np.random.default_rng(0)
    times = 0.23 * np.exp(0.64 * rng.normal(size=8000))
    found = PrivateSurvival(horizon=1.0, bins=1, random_state=0).fit(times, np.ones(8000)).rmst()
    assert found.low < np.minimum(times, 1.0).mean() < found.high
