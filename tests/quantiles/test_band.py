"""Quantiles that are read from a band: p-values agree with intervals, in cells and on declared values."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpstats.quantiles.grid import BAND, Band, BandWidth, QuantileErrors


def errors(seed: int, declared: bool) -> QuantileErrors:
    rng = np.random.default_rng(seed)
    edges = np.arange(1.0, 13.0)
    fit = np.sort(rng.uniform(0, 1, 12)) + rng.normal(0, 0.1, 12)
    fit[-1] = 1.0
    cdf = np.maximum.accumulate(np.clip(fit, 0, 1))
    width = BandWidth(np.abs(rng.normal(0, 0.02, 500)), 60)
    band = Band(edges if declared else np.append(0.0, edges), edges, fit, cdf, width)
    fractions = np.array([0.1, 0.5, 0.9])
    return QuantileErrors(band, fractions, edges[np.searchsorted(cdf, fractions)])


@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_pvalues_agree_with_intervals(seed: int, declared: bool) -> None:
    made = errors(seed, declared)
    values = np.arange(1.0, 12.01, 1.0 if declared else 0.25)
    for tail in (0.005, 0.05, 0.2):
        (low, high), (least, most) = made.interval(tail), made.limits(tail)
        for value in values:
            at = np.full(3, value)
            less, greater = made.tails(at)
            # Not where a limit is the value: there the p-value jumps.
            inside, outside = (low < value) & (value < high), (value < low) | (value > high)
            assert np.all(made.two_sided(at)[inside] >= 2 * tail - 1e-9)
            assert np.all(made.two_sided(at)[outside] <= 2 * tail + 1e-9)
            assert np.all(less[value > most] <= tail + 1e-9) and np.all(less[value < most] >= tail - 1e-9)
            assert np.all(greater[value < least] <= tail + 1e-9)
            assert np.all(greater[value > least] >= tail - 1e-9)


def test_one_side_of_the_band_is_narrower_and_never_more_than_half_of_both() -> None:
    width = errors(0, False).band.width
    for missed in (0.01, 0.05, 0.1):
        one, both = width.half_width(missed, sides=1), width.half_width(missed)
        assert one < both
        assert width.tail_probability(both, sides=1) == pytest.approx(missed / 2, abs=2e-3)
    # Massart's one-sided bound is stated for probabilities of at most one half.
    assert width.tail_probability(0.0, sides=1) == 1.0


def test_simulations_that_cannot_tell_have_the_whole_range() -> None:
    assert errors(0, False).band.width.half_width(1e-4) == math.inf


def test_the_band_covers_all_at_once() -> None:
    assert BAND.each(0.9, 7) == 0.9 and BAND.adjust(np.array([0.1, 0.2])).tolist() == [0.1, 0.2]
