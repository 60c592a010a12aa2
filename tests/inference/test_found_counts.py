"""Counts of keys that were found: intervals hold given that."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from dpstats.inference.noisy_counts import FoundCounts, NormalNoise, TwoSidedNoise
from dpstats.mechanisms import Histogram
from dpstats.release.session import Session


@pytest.mark.parametrize("size", [5, 20, 31, 200])
def test_intervals_cover_given_thinned_noise(size: int) -> None:
    # The same under noise with two exponential tails, drawn by rejection.
    noise, threshold, rng = TwoSidedNoise(1.43, 3.33), 18.0, np.random.default_rng(1)
    drawn = np.zeros(0)
    while drawn.size < 2000:
        upper = rng.random(400_000) < noise.above / (noise.above + noise.below)
        more = np.where(upper, rng.exponential(noise.above, upper.size), -rng.exponential(noise.below, upper.size))
        drawn = np.concatenate([drawn, more[(more < threshold) & (size + more >= threshold)]])
    found = FoundCounts(size + drawn[:2000], noise, threshold)
    least, most = found.limits(0.025)
    assert ((least <= size) & (size <= most)).mean() >= 0.93
    assert abs((found.sizes > size).mean() - 0.5) < 0.05 or size == 5


@pytest.mark.parametrize("size", [5, 31, 200])
def test_intervals_cover_given_that_a_key_was_found(size: int) -> None:
    # Noise of a key of `size` rows, conditioned to be below the threshold, and found: by inversion. Coverage below 0.93
    # at a level of 0.95 has probability 2e-5 in 2,000 draws.
    scale, threshold = 5.0, 30.0
    low, high = norm.cdf([(threshold - size) / scale, threshold / scale])
    u = np.random.default_rng(0).uniform(low, high, 2000)
    found = FoundCounts(size + scale * norm.ppf(u), NormalNoise(scale), threshold)
    least, most = found.limits(0.025)
    assert ((least <= size) & (size <= most)).mean() >= 0.93
    if size == 5:
        naive = np.abs(found.N - size) <= norm.isf(0.025) * scale
        assert naive.mean() < 0.01


def test_limits_take_one_tail_for_each_key() -> None:
    found = FoundCounts(np.array([31.0, 60.0, 300.0]), NormalNoise(5.0), 30.0)
    tails = np.array([0.05, 0.01, 0.2])
    low, high = found.limits(tails)
    for i, tail in enumerate(tails):
        one = found.limits(float(tail))
        assert (low[i], high[i]) == (one[0][i], one[1][i])
    assert found[:0].limits(tails[:0])[0].shape == (0,)
    assert (found.sizes >= 1).all() and found.sizes[2] == pytest.approx(300)
    assert np.all(low <= found.start) and np.all(found.start <= high)


def test_coverage_of_a_histogram() -> None:
    # A released histogram, 1,500 draws of categories of 16, 20 and 60 rows: 0.92 is more than five deviations below.
    made = Histogram("discover", epsilon=1.0, delta=1e-6)
    sizes = np.array([16, 20, 60])
    steps = (sizes * made._discovery.row_steps)[:, None]
    with Session.simulated(made.plan, np.random.default_rng(0), 1500) as session:
        session.discover("counts", ["a", "b", "c"], {"rows": steps})
    noisy = session.released["counts"]["rows"][:, :, 0]
    for place, size in enumerate(sizes):
        released = noisy[:, place]
        found = FoundCounts(released[np.isfinite(released)], made._discovery.count_noise, made.threshold)
        low, high = found.limits(0.025)
        chance = made._discovery.compute_power([size])[0]
        assert abs(found.N.size / 1500 - chance) < 6 * np.sqrt(chance * (1 - chance) / 1500) + 1e-9
        bound = 0.95 - 5 * np.sqrt(0.95 * 0.05 / found.N.size)
        assert ((low <= size) & (size <= high)).mean() >= bound, size
