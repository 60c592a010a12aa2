"""Intervals for ratios of noisy sums: hulls, nested, wide where counts are noise, and covering."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from dpstats.groups import comparisons as anova
from dpstats.inference.error_distributions import laplace_sum_tails
from dpstats.means.ratio import Noise, NoiseApart, Ratio

Z = 1.959963984540054
GAUSSIAN = Noise(8.45, 8.9, 8.0, 8.45, 8.9, 0.77 * 8.9**2)
LAPLACE = Noise(4.0, 4.9, 4.9, 4.0, 4.9, 8.0, laplace=2.0)


def drawn(noise: Noise, rows: np.ndarray, runs: int, rng: np.random.Generator) -> Ratio:
    """Return releases of groups: rows of shape (runs, groups, n)."""
    T, Q = rows.sum(axis=-1)[..., None], (rows**2).sum(axis=-1)[..., None]
    off_T, off_N, off_Q = anova.draw(noise, T.shape, rng)
    T, N = T + off_T, rows.shape[-1] + off_N
    return Ratio(T, N, Q + off_Q, T, N, noise)


def of(T: float, N: float, Q: float, noise: Noise = GAUSSIAN) -> Ratio:
    one = np.array([T]), np.array([N])
    return Ratio(*one, np.array([Q]), *one, noise)


def test_a_large_group_has_the_usual_interval() -> None:
    # n = 10^6, mean .2, variance .09: noise is nothing beside sampling error.
    n, m, variance = 1e6, 0.2, 0.09
    low, high = of(n * m, n, n * (variance + m**2)).ends(Z)
    half = Z * np.sqrt(variance / n)
    assert low[0] == pytest.approx(m - half, abs=0.02 * half) and high[0] == pytest.approx(m + half, abs=0.02 * half)


@pytest.mark.parametrize("noise", [GAUSSIAN, LAPLACE], ids=["Gaussian", "Laplace"])
@pytest.mark.parametrize("N", [-20.0, -1.0, 0.0, 3.0, 30.0, 300.0])
@pytest.mark.parametrize("part", [-2.0, -0.9, 0.0, 0.4, 1.0])
def test_intervals_hold_the_estimate_and_are_nested(noise: Noise, N: float, part: float) -> None:
    ratio = of(part * (abs(N) + 5), N, 0.3 * N, noise)
    ends = [ratio.ends(z) for z in (0.0, 0.5, 1.0, 2.0, 4.0)]
    for low, high in ends:
        assert -1 <= low[0] <= ratio.estimate[0] <= high[0] <= 1
    for (low, high), (lower, higher) in itertools.pairwise(ends):
        assert lower[0] <= low[0] + 1e-9 and higher[0] >= high[0] - 1e-9


def test_ends_are_the_hull_of_what_is_not_refuted() -> None:
    rng = np.random.default_rng(0)
    grid = np.linspace(-1, 1, 20_001)
    for _ in range(200):
        N = rng.normal(20, 40)
        ratio = of(rng.normal(0, 30), N, rng.uniform(0, 1) * N + rng.normal(0, 8))
        kept = grid[np.abs(ratio.score(grid)) <= Z]
        low, high = (float(end[0]) for end in ratio.ends(Z))
        if kept.size:
            assert low <= kept[0] + 2e-4 and high >= kept[-1] - 2e-4


@pytest.mark.parametrize("noise", [GAUSSIAN, LAPLACE], ids=["Gaussian", "Laplace"])
def test_a_count_that_is_noise_leaves_the_bounds(noise: Noise) -> None:
    rng = np.random.default_rng(1)
    ratio = drawn(noise, rng.uniform(-1, 1, (2000, 1, 2)), 2000, rng)
    low, high = ratio.ends(Z)
    # Honest: of groups of two rows nearly all intervals are nearly all of the box.
    assert np.median(high - low) > 1.9


# 2000 runs of 4 groups: a standard error of .0024 (independent), and rows of one law.
LAWS = {
    "normal": (lambda rng, shape: np.clip(rng.normal(0.1, 0.25, shape), -1, 1), 0.1),
    "exponential": (lambda rng, shape: np.clip(rng.exponential(0.25, shape) - 1, -1, 1), 0.25 - 1),
    "Bernoulli(.1)": (lambda rng, shape: 2.0 * (rng.random(shape) < 0.1) - 1, -0.8),
}


@pytest.mark.parametrize("noise", [GAUSSIAN, LAPLACE], ids=["Gaussian", "Laplace"])
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("n", [10, 60, 400])
def test_intervals_cover(noise: Noise, law: str, n: int) -> None:
    rng = np.random.default_rng(n)
    draw, truth = LAWS[law]
    ratio = drawn(noise, draw(rng, (2000, 4, n)), 2000, rng)
    low, high = ratio.ends(Z)
    covered = ((low <= truth) & (truth <= high)).mean()
    assert covered > 0.94
    # A net that could not fail would be of no use: half the noise is noticed where there is much.
    if n == 60 and law == "normal":
        quiet = Noise(
            *(0.5 * part for part in (noise.total, noise.count, noise.square, noise.cross, noise.spread)), 0.0
        )
        wrong = Ratio(ratio.T, ratio.N, ratio.Q, ratio.X, ratio.R, quiet)
        low, high = wrong.ends(Z)
        assert ((low <= truth) & (truth <= high)).mean() < 0.93


@pytest.mark.parametrize("m", [-1.0, -0.6, 0.0, 0.3, 1.0])
@pytest.mark.parametrize("columns", [1, 3])
def test_laplace_tails_are_those_of_the_sum(m: float, columns: int) -> None:
    noise = Noise(1.0, 1.0, 1.0, 1.0, 1.0, 0.0, laplace=2.0, columns=columns)
    rng = np.random.default_rng(2)
    parts = rng.laplace(scale=2.0, size=(400_000, columns, 3))
    T, N = parts[:, 0, 2] - parts[:, 0, 0], parts.sum(axis=2).mean(axis=1)
    error = T - m * N + rng.normal(0, 1.5, len(T))
    for x in (2.0, 6.0, 12.0):
        scales, rest = noise.scales(np.array([m]))
        stated = float(laplace_sum_tails(np.array([x]), np.sqrt(1.5**2 + rest), scales)[0])
        seen = int((error > x).sum())
        # Four standard errors, and a hundredth for scales that are taken apart and columns that are taken as normal.
        assert abs(seen / len(error) - stated) < 4 * np.sqrt(stated / len(error)) + 0.02 * stated


def test_scores_are_standard_normal_at_the_truth() -> None:
    rng = np.random.default_rng(3)
    ratio = drawn(GAUSSIAN, rng.normal(0.1, 0.25, (20_000, 1, 500)), 20_000, rng)
    scores = ratio.score(np.array(0.1)).ravel()
    # False alarm 1e-6; the raised spread makes them a little small.
    assert 0.95 < scores.std() < 1.01 and abs(scores.mean()) < 5 / np.sqrt(20_000)
    assert stats.kstest(scores / scores.std(), "norm").pvalue > 1e-6


@pytest.mark.parametrize("m", [-0.9, 0.0, 0.4])
def test_laplace_tails_of_sums_with_noise_of_their_own(m: float) -> None:
    noise = NoiseApart(2.0, 3.0, 1.0, 2.0, 3.0, 0.0, laplace=1.0)
    rng = np.random.default_rng(4)
    T, N = rng.laplace(scale=np.array([[2.0], [3.0]]) / np.sqrt(2), size=(2, 400_000))
    error = T - m * N + rng.normal(0, 1.5, len(T))
    scales, rest = noise.scales(np.array([m]))
    for x in (2.0, 6.0, 12.0):
        stated = float(laplace_sum_tails(np.array([x]), np.sqrt(1.5**2 + rest), scales)[0])
        # Four standard errors, and a hundredth for scales that are taken apart.
        assert abs((error > x).mean() - stated) < 4 * np.sqrt(stated / len(error)) + 0.02 * stated
