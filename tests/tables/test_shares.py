"""Shares of a group of private size: coverage for small and for noisy groups, and versions that fail."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.inference.noisy_counts import CountNoise, NoisyShare


def coverage(m: int, epsilon: float, share: float, others: int = 1, size: int = 1500, wrong: float = 1.0) -> float:
    """Return how often the true share is not refuted at .05; ``wrong`` multiplies the noise that is counted."""
    rng = np.random.default_rng(7)
    noise, rest = CountNoise("laplace", 2 / epsilon), CountNoise("laplace", 2 / epsilon, others)
    counted = [CountNoise("laplace", wrong * given.scale, given.times) for given in (noise, rest)]
    having = rng.binomial(m, share, size)
    counts = having + noise.draw(rng, (size,)), m - having + rest.draw(rng, (size,))
    kept = 0
    for a, b in zip(*counts, strict=True):
        below, above = NoisyShare(float(a), float(b), *counted).pvalues(np.array([share]))
        kept += min(below[0], above[0]) >= 0.025
    return kept / size


@pytest.mark.parametrize(
    ("m", "epsilon", "share", "others"),
    [
        (2, 5.0, 0.002, 1),
        (5, 0.1, 0.1, 4),
        (20, 1.0, 0.02, 1),
        (100, 20.0, 0.02, 1),
        (100, 0.5, 0.5, 4),
        (1000, 1.0, 0.3, 1),
    ],
)
def test_intervals_cover_whatever_the_group(m: int, epsilon: float, share: float, others: int) -> None:
    # 1,500 groups; five standard errors: a false alarm below 1e-6 each.
    assert coverage(m, epsilon, share, others) > 0.95 - 5 * np.sqrt(0.05 * 0.95 / 1500)


def test_noise_that_is_not_counted_would_be_noticed() -> None:
    assert coverage(100, 0.5, 0.5, wrong=0.5) < 0.95 - 5 * np.sqrt(0.05 * 0.95 / 1500)


@pytest.mark.parametrize("size", [1, 30, 10**4, 10**6, 10**8, 10**11])
def test_limits_miss_as_often_as_they_state_whatever_the_size(size: int) -> None:
    # Each limit by itself, at .1; five standard errors.
    rng, noise, share, count = np.random.default_rng(size), CountNoise("laplace", 2.0), 0.337, 150
    having = rng.binomial(size, share, count)
    counts = [k + noise.draw(rng, (count,)) for k in (having, size - having)]
    ends = np.array([NoisyShare(float(a), float(b), noise, noise).limits(0.1) for a, b in zip(*counts, strict=True)])
    misses = np.array([ends[:, 0] > share, ends[:, 1] < share]).mean(axis=1)
    assert misses.max() < 0.1 + 5 * np.sqrt(0.1 * 0.9 / count)
    # Of a few rows, which noise may hide, every share may be refuted.
    assert size < 10**4 or np.all(ends[:, 0] < ends[:, 1])


def test_limits_are_where_shares_begin_to_be_refuted() -> None:
    noise = CountNoise("laplace", 2.0)
    for a, b in ((30.0, 70.0), (0.0, 200.0), (5.0, 2.0), (400.0, -3.0)):
        share = NoisyShare(a, b, noise, noise)
        low, high = share.limits(0.025)
        assert 0 <= low <= max(share.estimate, low) <= high <= 1
        for end, other in ((low, -1e-4), (high, 1e-4)):
            if 0 < end < 1:
                at = np.minimum(*share.pvalues(np.array([end, end + other])))
                assert at[0] == pytest.approx(0.025, rel=1e-4) and at[1] < 0.025


def test_nothing_left_of_a_group_is_all_that_is_possible() -> None:
    noise = CountNoise("laplace", 20.0)
    for a, b in ((0.0, 0.0), (-12.0, 3.0), (-40.0, -35.0)):
        assert NoisyShare(a, b, noise, noise).limits(0.025) == (0.0, 1.0)
    assert np.isnan(NoisyShare(-3.0, -1.0, noise, noise).estimate)
    # Noise so negative that nothing fits: what fits best, alone.
    low, high = NoisyShare(-400.0, 400.0, noise, noise).limits(0.025)
    assert low == high == 0.0


def test_many_rows_and_little_noise_are_wilsons() -> None:
    noise = CountNoise("laplace", 0.05)
    low, high = NoisyShare(3000.0, 7000.0, noise, noise).limits(0.025)
    z, n, p = 1.959964, 10_000, 0.3
    middle, half = (
        (p + z**2 / (2 * n)) / (1 + z**2 / n),
        z / (1 + z**2 / n) * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2)),
    )
    assert low == pytest.approx(middle - half, abs=2e-4) and high == pytest.approx(middle + half, abs=2e-4)
