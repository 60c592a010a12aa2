"""Mechanisms: error bounds and intervals miss as often as they state.

One release has many numbers, each with noise of its own, so that a rate that is off by 3% is noticed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpstats.mechanisms import (
    Count,
    ExponentialMechanism,
    GaussianMechanism,
    Histogram,
    LaplaceMechanism,
    NumericSparseVector,
    PermuteAndFlip,
    RandomizedResponse,
    ReportNoisyMax,
)
from tests.nets.statements import wrong, wrong_rates

MANY = 250_000
TAIL = 0.1
"""Of each end of an interval of level 0.8."""


def misses(interval: Any, truth: Any) -> Any:
    """Return whether the two ends of many intervals miss."""
    low, high = np.broadcast_arrays(*interval)
    return np.stack([low.ravel() > truth, high.ravel() < truth], axis=1)


ADDITIVE = [LaplaceMechanism(3.0, 0.5, random_state=0), GaussianMechanism(3.0, 0.5, 1e-6, random_state=0)]


@pytest.mark.parametrize("made", ADDITIVE, ids=lambda made: type(made).__name__)
def test_intervals_of_noisy_numbers_miss_as_often_as_they_state(made: Any) -> None:
    released = made.release(np.full(MANY, 7.0))
    found = misses(made.confidence_interval(released, 0.8), 7.0)
    assert wrong_rates(found, TAIL) == []
    assert wrong_rates(found, 1.1 * TAIL) and wrong_rates(found, 0.9 * TAIL)


@pytest.mark.parametrize("made", ADDITIVE, ids=lambda made: type(made).__name__)
def test_errors_of_several_numbers_exceed_their_bound_as_often_as_it_states(made: Any) -> None:
    for size, beta in ((1, 0.2), (5, 0.2), (50, 0.3)):
        worst = np.abs(made.release(np.zeros(MANY // 50 * 50))).reshape(-1, size).max(axis=1)
        # Laplace's is the sum of all tails (theorem 3.8).
        exact = beta if isinstance(made, GaussianMechanism) else -np.expm1(size * np.log1p(-beta / size))
        both = np.tile(worst > made.error_bound(beta, size), (2, 1)).T
        assert wrong_rates(both, exact) == []
        assert wrong_rates(both, 1.3 * exact) and wrong_rates(both, 0.75 * exact)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_intervals_of_counts_miss_as_often_as_they_state(delta: float) -> None:
    made = Histogram(categories=range(MANY // 5), epsilon=0.02, delta=delta, random_state=0)
    released = made.release([])
    found = misses(released.confidence_interval(0.8), 0.0)
    # Half-widths are whole numbers, of noise of a scale of a hundred.
    assert wrong_rates(found, TAIL, 0.98) == []
    assert wrong_rates(found, 1.15 * TAIL) and wrong_rates(found, 0.9 * TAIL)


def test_a_count_has_the_interval_of_a_histogram_of_one() -> None:
    one = Count(epsilon=0.1, random_state=0).release([True, False])
    other = Histogram(categories=[True], epsilon=0.1, random_state=0).release([True])
    for level in (0.5, 0.8, 0.95):
        a, b = one.confidence_interval(level), other.confidence_interval(level)
        assert (a.high - one.counts) == (b.high - other.counts) == -(a.low - one.counts)


@pytest.mark.parametrize("simultaneous", [False, True])
@pytest.mark.parametrize("epsilon", [5.0, 0.05])
def test_densities_miss_no_more_often_than_they_state(epsilon: float, simultaneous: bool) -> None:
    edges, shares = np.array([0.0, 1.0, 4.0, 5.0, 15.0]), np.array([0.1, 0.5, 0.15, 0.25])
    rng, found = np.random.default_rng(0), []
    made = Histogram(bins=edges, epsilon=epsilon, random_state=rng)
    for _ in range(120):
        cells = rng.choice(4, 400, p=shares)
        band = made.release(edges[cells] + 0.5).density_interval(0.8, simultaneous)
        missed = misses(band, shares / np.diff(edges))
        found.append(missed.any() * np.ones((2, 1)) if simultaneous else missed.T)
    most, least = (0.2, 0.1) if simultaneous else (TAIL, 0.4)
    assert wrong_rates(found, most, least) == []


def test_randomized_responses_are_off_by_as_much_as_is_stated() -> None:
    shares, n, surveys = np.array([0.6, 0.3, 0.1]), 2000, 1500
    rng = np.random.default_rng(0)
    for epsilon in (4.0, 1.0):
        made = RandomizedResponse(epsilon, 3, random_state=rng)
        answers = made.randomize(rng.choice(3, (surveys, n), p=shares))
        found = [made.estimate(row) for row in answers]
        z = np.array([(one.proportions - shares) / one.standard_errors for one in found])
        # A rare answer's share and its error go together.
        assert wrong(z, off=0.15) == []
        assert wrong(z / 0.9, off=0.15) and wrong(0.9 * z, off=0.15)
        limits = [np.stack(tuple(one.confidence_interval(0.8)), axis=0) for one in found]
        sides = [[low > shares, high < shares] for low, high in limits]
        assert np.abs(np.mean(sides, axis=(0, 2)) - TAIL).max() < 0.02
        # Limits are exact for whole numbers of responses, which are few enough to be noticed.
        assert wrong_rates(sides, TAIL, 0.88) == []
        assert wrong_rates(sides, 1.5 * TAIL, 0.88) and wrong_rates(sides, 0.6 * TAIL, 0.88)


def test_released_values_of_a_stream_miss_as_often_as_they_state() -> None:
    made = NumericSparseVector(-1e6, 1e4, max_above=8_000, random_state=0)
    released = np.array(list(made.stream(np.full(8_000, 7.0))))
    found = misses(made.confidence_interval(released, 0.8), 7.0)
    assert wrong_rates(found, TAIL) == []
    assert wrong_rates(found, 1.2 * TAIL) and wrong_rates(found, 0.8 * TAIL)


@pytest.mark.parametrize("kind", [ExponentialMechanism, PermuteAndFlip, ReportNoisyMax])
@pytest.mark.parametrize("count", [2, 5, 30])
def test_what_is_chosen_is_as_good_as_is_stated(kind: Any, count: int) -> None:
    made, beta = kind(1.0, 0.5), 0.1
    bound = made.utility_bound(beta, count)
    for n_best in (1, 2):
        worse = np.where(np.arange(count) < n_best, 0.0, -bound * (1 + 1e-9))
        assert made.probabilities(worse)[n_best:].sum() <= beta
    # With less the bound would be wrong for some utilities.
    nearer = np.where(np.arange(count) < 1, 0.0, -0.3 * bound)
    assert made.probabilities(nearer)[1:].sum() > beta
