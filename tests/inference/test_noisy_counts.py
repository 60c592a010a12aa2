"""Counts with noise: laws against direct sums, p-values that are uniform, limits that cover by computation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from dpstats.inference.noisy_counts import CountNoise, at_least, at_most, limits

K = np.arange(-4000, 4001)


def masses(noise: CountNoise) -> np.ndarray:
    """Return P(noise = k) of discrete Laplace noise, by the definition: sums by convolution."""
    decay = math.exp(-1 / noise.scale)
    one = (1 - decay) / (1 + decay) * decay ** np.abs(K)
    found = one
    for _ in range(noise.times - 1):
        found = np.convolve(found, one, mode="same")
    return found


LAPLACE = [CountNoise("laplace", scale, times) for scale in (0.2, 2.0, 20.0) for times in (1, 2, 5)]


@pytest.mark.parametrize("noise", [*LAPLACE, CountNoise("laplace", 2.0, 40)], ids=str)
def test_laplace_noise_is_that_of_its_definition(noise: CountNoise) -> None:
    law = masses(noise)
    assert noise.variance == pytest.approx(law @ K**2.0, rel=1e-9)
    assert noise.fourth == pytest.approx(law @ K**4.0 - 3 * noise.variance**2, rel=1e-6)
    for z in (-7.3, -1.5, -0.5, -0.2, 0.0, 0.1, 0.5, 1.0, 3.7, 44.0):
        # P(L + U > z) = sum_k P(L = k) P(U > z - k).
        expected = law @ np.clip(0.5 - (z - K), 0.0, 1.0)
        assert noise.beyond(z) == pytest.approx(expected, rel=1e-9, abs=1e-15)
    # Far out, where the sum of masses ends; each of its terms has an error of 1e-16.
    for z in noise.std * np.array([6.0, 8.0, 9.5]):
        expected = law @ np.clip(0.5 - (z - K), 0.0, 1.0)
        assert noise.beyond(z) == pytest.approx(expected, rel=1e-4, abs=1e-12)
    # Half below a whole number is that number or more.
    assert noise.beyond(3 - noise.half) == pytest.approx(law[K >= 3].sum(), rel=1e-9)


@pytest.mark.parametrize("noise", [*LAPLACE[3:6], CountNoise("gaussian", 4.0, 2)], ids=str)
def test_draws_have_the_law(noise: CountNoise) -> None:
    # Five standard errors of 200,000 draws: a false alarm below 1e-6 each.
    drawn = noise.draw(np.random.default_rng(0), (200_000,)).astype(float)
    fourth = noise.fourth + 3 * noise.variance**2
    assert abs(np.mean(drawn**2) - noise.variance) < 5 * math.sqrt((fourth - noise.variance**2) / 200_000)
    for z in (-2.5, 1.5, 5.5):
        p = float(noise.beyond(z))
        assert abs(np.mean(drawn > z) - p) < 5 * math.sqrt(p * (1 - p) / 200_000)
        assert abs(np.mean(drawn > z) - float(CountNoise(noise.law, 1.2 * noise.scale, noise.times).beyond(z))) > (
            5 * math.sqrt(p * (1 - p) / 200_000)
        )


def test_gaussian_noise() -> None:
    noise = CountNoise("gaussian", 3.0, 4)
    assert noise.std == 6.0 and noise.fourth == 0 and noise.half == 0 and noise.of(9).std == 18.0
    assert noise.beyond(4.0) == pytest.approx(ndtr(-4 / 6))


@pytest.mark.parametrize("noise", [LAPLACE[3], LAPLACE[7], CountNoise("gaussian", 5.0)], ids=str)
@pytest.mark.parametrize(("n", "share"), [(1, 0.3), (30, 0.5), (1000, 0.002), (100_000, 0.4)])
def test_pvalues_are_sums_over_all_counts(noise: CountNoise, n: int, share: float) -> None:
    x = np.arange(n + 1)
    weights = binom.pmf(x, n, share)
    for z in (-3.0, n * share, n * share + 8.5, n + 40.0):
        assert at_least(z, n, share, noise) == pytest.approx(weights @ noise.beyond(z - x), rel=1e-12, abs=1e-16)
        assert at_most(z, n, share, noise) == pytest.approx(weights @ noise.beyond(x - z), rel=1e-12, abs=1e-16)
        assert at_least(z, n, share, noise) + at_most(z, n, share, noise) == pytest.approx(1)


def test_a_million_rows_are_quick_and_large_samples_are_normal() -> None:
    low, high = limits(5e5, 5e5, 10**6, CountNoise("laplace", 1.0), 0.025)
    assert (high - low) / 2 == pytest.approx(1.959964 * 5e-4, rel=1e-3)


@pytest.mark.parametrize("noise", [LAPLACE[3], CountNoise("gaussian", 5.0)], ids=str)
@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 1.0])
def test_limits_are_the_shares_that_are_not_refuted(noise: CountNoise, share: float) -> None:
    n, tail = 60, 0.025
    rng = np.random.default_rng(1)
    for _ in range(40):
        z = rng.binomial(n, share) + float(noise.draw(rng, (1,))[0]) + rng.random() - 0.5
        low, high = limits(z, z, n, noise, tail)
        kept = at_least(z, n, share, noise) >= tail and at_most(z, n, share, noise) >= tail
        assert kept == (low <= share <= high) or {low, high} <= {0.0, 1.0}
        if 0 < low < 1:
            assert at_least(z, n, low, noise) == pytest.approx(tail, rel=1e-6)
        if 0 < high < 1:
            assert at_most(z, n, high, noise) == pytest.approx(tail, rel=1e-6)


def test_far_outside_the_nearer_end_is_left() -> None:
    noise = CountNoise("laplace", 1.0)
    assert limits(-30.0, -30.0, 10, noise, 0.025) == (0.0, 0.0)
    assert limits(40.0, 40.0, 10, noise, 0.025) == (1.0, 1.0)


@pytest.mark.parametrize("scale", [0.5, 2.0, 20.0])
@pytest.mark.parametrize("share", [0.01, 0.3])
def test_limits_of_whole_numbers_cover_by_computation(scale: float, share: float) -> None:
    n, tail, noise = 40, 0.05, CountNoise("laplace", scale)
    law, weights = masses(noise), binom.pmf(np.arange(n + 1), n, share)
    reach = int(12 * scale) + 2
    covered = missed = 0.0
    for z in range(-reach, n + reach + 1):
        p = float(weights @ law[z - np.arange(n + 1) + 4000])
        low, high = limits(z - noise.half, z + noise.half, n, noise, tail)
        covered, missed = (covered + p, missed) if low <= share <= high else (covered, missed + p)
    assert covered >= 0.9 and covered + missed == pytest.approx(1, abs=1e-4)
