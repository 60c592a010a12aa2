"""Quantiles, medians and distributions: intervals miss as often as they state."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from dpstats.quantiles import PrivateDistribution, PrivateMedian, PrivateQuantile
from dpstats.quantiles.quantile_plan import HIGH, LOW
from tests.nets.statements import FAR, Draw, fits, wrong_rates


def normal(n: int) -> Draw:
    """Return what draws n rows of one normal column."""
    return lambda rng: (rng.normal(1.0, 2.0, n),)


@pytest.mark.parametrize("epsilon", [10.0, 1.0])
def test_intervals_of_quantiles_miss_as_often_as_they_state(epsilon: float) -> None:
    q = [0.3, 0.6]
    truth = norm.ppf(q, 1.0, 2.0)
    made = PrivateQuantile(q, bounds=(-9, 11), epsilon=epsilon, confidence_level=0.8)
    misses = [[fitted.low_ > truth, fitted.high_ < truth] for fitted in fits(made, normal(500), 200)]
    # Ranks are whole numbers, and what is chosen lies between two rows.
    assert wrong_rates(misses, 0.1, 0.6) == []
    assert wrong_rates(misses, 0.02) != []


@pytest.mark.parametrize("q", [0.2, 0.5, 0.7])
def test_without_noise_ranks_are_those_of_the_binomial(q: float) -> None:
    for n in (20, 101, 1000):
        plan = PrivateQuantile(q, bounds=(0, 1), epsilon=500.0, confidence_level=0.9).plan(n)
        low, high = (next(t.rank for t in plan.targets if t.kind == kind) for kind in (LOW, HIGH))
        # Of B rows below the quantile: a point at rank r is beyond it if r > B, and half of the time if r = B.
        beyond = np.array([binom.cdf(r, n, q) - binom.pmf(r, n, q) / 2 for r in range(n + 1)])
        assert low == int(np.flatnonzero(beyond <= 0.05)[-1])
        assert high == int(np.flatnonzero(1 - beyond <= 0.05)[0])


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_intervals_of_a_median_miss_no_more_often_than_they_state(delta: float) -> None:
    x = np.random.default_rng(0).normal(1.0, 2.0, 301)
    truth = np.sort(x)[150]
    made = PrivateMedian(bounds=(-9, 11), epsilon=1.0, delta=delta, confidence_level=0.8)
    misses = [[fitted.low_ > truth, fitted.high_ < truth] for fitted in fits(made, lambda rng: (x,), 200)]
    # The level of the noise is itself released, and taken at its upper limit.
    assert wrong_rates(misses, 0.1, 0.1) == []


@pytest.mark.parametrize("epsilon", [10.0, 0.2])
def test_a_band_misses_no_more_often_than_it_states(epsilon: float) -> None:
    count, missed = 300, 0
    made = PrivateDistribution(bounds=(-9, 11), bins=16, epsilon=epsilon)
    for fitted in fits(made, normal(400), count):
        band, truth = fitted.band(confidence_level=0.8), norm.cdf(fitted.edges_, 1.0, 2.0)
        truth[-1] = 1.0
        missed += bool(((band.low > truth) | (band.high < truth)).any())
    # Sampling is bounded for all distributions (Massart), so that only noise comes near the level.
    assert missed / count <= 0.2 + FAR * math.sqrt(0.2 * 0.8 / count)
    assert missed / count >= (0.0 if epsilon > 1 else 0.05)


def test_a_distribution_is_off_by_as_much_as_its_noise() -> None:
    # As many rows in every cell, far more than the noise: nothing is sorted.
    count, made = 1500, PrivateDistribution(bounds=(-9, 11), bins=16, epsilon=0.5)
    x = np.tile(np.linspace(-9, 11, 17)[1:] - 0.1, 500)
    exact, claimed = np.arange(1, 16) / 16, made.plan(x.size).cdf_noise_std
    off = [fitted.cdf_[:-1] - exact for fitted in fits(made, lambda rng: (x,), count)]
    seen = np.sqrt(np.mean(np.square(off), axis=0)) / claimed
    room = FAR / math.sqrt(2 * count)
    # What is stated is the largest error, of an edge between halves.
    assert 0.9 < seen.max() < 1 + room
    assert seen.max() / 0.87 > 1 + room


@pytest.mark.parametrize("epsilon", [10.0, 0.2])
def test_quantiles_of_a_distribution_miss_no_more_often_than_they_state(epsilon: float) -> None:
    q, count, missed = [0.2, 0.5, 0.8], 200, 0
    made = PrivateDistribution(bounds=(-9, 11), bins=16, epsilon=epsilon)
    for fitted in fits(made, normal(400), count):
        low, high = fitted.confidence_interval(0.8, q=q)
        missed += bool(np.any((low > norm.ppf(q, 1.0, 2.0)) | (high < norm.ppf(q, 1.0, 2.0))))
    assert missed / count <= 0.2 + FAR * math.sqrt(0.2 * 0.8 / count)


@pytest.mark.parametrize("method", ["joint", "halving"])
@pytest.mark.parametrize("q", [[0.1], [0.9], [0.05, 0.3]])
def test_a_point_is_rarely_drawn_to_a_bound(method: str, q: list[float]) -> None:
    made = PrivateQuantile(q, bounds=(-1e3, 1e3), confidence_level=None, method=method)
    # As few rows as let every quantile have a point, far from the bounds; halving does without ties.
    n = next(n for n in range(10, 5000, 10) if not made.plan(n).unseparated)
    x = np.linspace(-1, 1, n)
    drawn = [np.abs(fitted.quantile_).max() > 2.0 for fitted in fits(made, lambda rng: (x,), 200)]
    assert np.mean(drawn) <= 0.1 + FAR * math.sqrt(0.1 * 0.9 / 200)
