"""Levels of noise: no further apart than stated, and what they cost, summed over levels and shifts."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import trapezoid

from dpstats.errors import DPStatsError, InvalidParameter
from dpstats.privacy.stages import SMOOTH_LAWS, Smooth
from dpstats.sensitivity.smooth import half_width, level_stage, noise_width, smooth_levels, smooth_noise, smooth_stage


def test_levels_are_no_further_apart_than_stated() -> None:
    for ratio in (1.001, 1.0344, 3.0):
        levels = smooth_levels(2.0**-5, 1e6, ratio)
        assert levels[-1] >= 1e6 > levels[-2]
        assert all(Fraction(b) <= Fraction(a) * Fraction(ratio) and b > a for a, b in pairwise(levels))
    with pytest.raises(InvalidParameter, match="ratio"):
        smooth_levels(1.0, 2.0, 1.0)


def law(noise: str, scale: float, k: np.ndarray) -> np.ndarray:
    """Return probabilities on the integers, those of heavy tails from their exact normalising constant."""
    if noise == "laplace":
        return math.tanh(0.5 / scale) * np.exp(-np.abs(k) / scale)
    power = (SMOOTH_LAWS[noise] + 1) // 2
    u = min(math.pi * scale, 300.0)  # where both functions have their limits
    # Sums over the integers of 1/(s^2 + k^2) and of its square.
    total = math.pi / scale / math.tanh(u)
    if power == 2:
        total = total / (2 * scale**2) + (math.pi / scale / math.sinh(u)) ** 2 / 2
    return (scale**2 + k.astype(float) ** 2) ** -float(power) / total


def largest_loss(stage: Smooth, first: float, second: float) -> float:
    """Return the largest log-ratio of two neighboring levels with the largest shift that they allow."""
    k = np.unique(np.r_[np.arange(5001), np.geomspace(5000, 1e9, 4000).astype(np.int64)])
    k = np.r_[-k, k]
    worst = 0.0
    for s, t in ((first, second), (second, first), (second, second)):
        for shift in (0, math.floor(min(s, t) * stage.sensitivity_share)):
            ratio = np.log(law(stage.noise, s, k)) - np.log(law(stage.noise, t, k - shift))
            worst = max(worst, float(np.abs(ratio).max()))
    return worst


@pytest.mark.parametrize("noise", ["cauchy", "student"])
@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_heavy_tails_are_pure(noise: str, epsilon: float) -> None:
    stage = smooth_stage("x", epsilon, 0.0, spacing=1.0, least=8.0, furthest=1e5, noise=noise)
    pairs = list(pairwise(stage.levels))
    losses = [largest_loss(stage, *pair) for pair in pairs[:: len(pairs) // 4]]
    assert (1 - 1e-6) * epsilon < stage.event.pure_cost() <= epsilon
    # Most of it is used (for small epsilons nearly all), and levels twice as far apart would cost more.
    assert 0.75 * epsilon < max(losses) <= stage.event.pure_cost() + 1e-9
    apart = (pairs[5][0], pairs[5][0] * float(stage.ratio) ** 2)
    assert largest_loss(stage, *apart) > epsilon


@pytest.mark.parametrize("size", [2, 20])
def test_several_numbers_have_one_level(size: int) -> None:
    epsilon, delta = 1.0, 1e-4
    stage = smooth_stage("x", epsilon, delta, spacing=1.0, least=4.0, furthest=1e4, size=size)
    assert stage.event.epsilon <= epsilon and stage.event.delta <= delta
    # The l1 norm of Laplace numbers is a sum of geometric ones: how often it is beyond what was given up, simulated.
    ratio = float(stage.ratio)
    beyond = stage.far / (ratio - 1)
    assert stats.gamma(size).sf(beyond) <= delta
    rng = np.random.default_rng(3)
    z = np.abs(rng.geometric(1 - math.exp(-1 / 4.0), (2, 20_000, size)) @ np.ones(size))
    assert np.mean(np.abs(z[0] - z[1]) / 4.0 > beyond) <= delta + 1e-3
    # With the levels of a single number delta would be far larger: the planted bug "k aggregates share beta".
    one = smooth_stage("x", epsilon, delta, spacing=1.0, least=4.0, furthest=1e4)
    assert stats.gamma(size).sf(stage.far / (float(one.ratio) - 1)) > 2 * delta


def test_a_half_width_covers() -> None:
    stage = smooth_stage("x", 1.0, 0.0, spacing=1.0, least=8.0, furthest=1e6, noise="student")
    assert noise_width("student", 100.0, 0.05) == math.ceil(100 / 3**0.5 * stats.t(3).isf(0.025) * (1 + 1e-9))
    # P(|noise| > k) = 2 a^(k+1)/(1 + a) of discrete Laplace noise.
    for tail in (0.5, 0.05, 1e-6):
        k, a = noise_width("laplace", 7.0, tail), math.exp(-1 / 7.0)
        assert 2 * a ** (k + 1) / (1 + a) <= tail * (1 + 1e-9)
        assert k == 0 or 2 * a**k / (1 + a) > tail
    # Simulated: level with noise, number with noise of the level.
    rng, true, scale = np.random.default_rng(4), 20, level_stage(0.5).scale_steps
    level = true + np.rint(rng.laplace(scale=scale, size=4000))
    error = stage.levels[true] / 3**0.5 * rng.standard_t(3, size=4000)
    known = {x: half_width(stage, x, scale, 0.9) for x in np.unique(level)}
    widths = np.array([known[x] for x in level])
    missed = np.mean(np.abs(error) > widths)
    assert missed <= 0.1
    assert half_width(stage, -1e9, scale, 0.9) == noise_width("student", stage.levels[0], 0.08)
    assert half_width(stage, 1e9, scale, 0.9) == noise_width("student", stage.levels[-1], 0.08)


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="epsilon must"):
        smooth_stage("x", 1e-8, 1e-6, spacing=1.0, least=1.0, furthest=1e6)
    with pytest.raises(DPStatsError, match="below 8 steps"):
        _ = Smooth("x", 1.0, (2.0, 3.0), 0.5, 0.0, noise="cauchy").event


@pytest.mark.parametrize("noise", ["cauchy", "student"])
def test_smooth_noise_is_pure_on_the_line_too(noise: str) -> None:
    beta, scale = smooth_noise(1.0, noise=noise)
    degrees = 1 if noise == "cauchy" else 3
    z = np.r_[np.linspace(-50, 50, 20_001), np.geomspace(50, 1e9, 2000)]
    # Neighboring S, and numbers as far apart as the smaller of them.
    losses = [
        np.abs(stats.t.logpdf(z, degrees, scale=s * scale) - stats.t.logpdf(z - shift, degrees, scale=t * scale)).max()
        for s, t in ((1.0, math.exp(beta)), (math.exp(beta), 1.0))
        for shift in (0.0, 1.0, -1.0)
    ]
    assert 0.8 < max(losses) <= 1.0 + 1e-9
    # S falls as 1/beta where rows are dense: the published cost, beta + sliding, has twice the noise, for Cauchy's.
    assert noise != "cauchy" or scale / beta == pytest.approx(4 / 2, rel=1e-6)


def test_smooth_noise_is_the_textbooks_for_laplace() -> None:
    beta, scale = smooth_noise(0.7, 1e-8, noise="laplace")
    assert scale == 2 / 0.7 and beta == pytest.approx(math.log1p(0.35 / math.log(2e8)), rel=1e-9)
    for bad in ({"delta": 0.1}, {"noise": "laplace"}, {"noise": "normal"}, {"size": 0}):
        with pytest.raises(InvalidParameter, match=r"delta|noise|size"):
            smooth_noise(1.0, **bad)


def test_numbers_that_share_the_beta_of_one_are_not_private() -> None:
    # 200 counts, epsilon = 1, delta = 1e-6: what the change of scale alone costs, by integration.
    size, ratio = 200, math.exp(1 / (2 * math.log(2e6)))
    # The log-ratio of probabilities at an l1 norm of g scales is g (ratio - 1) - size log(ratio).
    law = stats.gamma(size)
    g = np.linspace((1 + size * math.log(ratio)) / (ratio - 1), 400, 200_001)
    excess = 1 - np.exp(1 - (g * (ratio - 1) - size * math.log(ratio)))
    assert trapezoid(excess * law.pdf(g), g) == pytest.approx(7.72e-3, rel=1e-3)


@pytest.mark.parametrize("noise", ["student", "cauchy"])
@pytest.mark.parametrize("size", [1, 2, 6])
def test_no_other_beta_gives_less_noise(noise: str, size: int) -> None:
    # Where rows are dense, the noise is proportional to scale / beta.
    beta, scale = smooth_noise(1.0, noise=noise, size=size)
    law = SMOOTH_LAWS[noise]
    power = (law + 1) // 2
    scales = size * (power - 1) + (size - 1) * power
    for other in (0.97 * beta, 1.03 * beta):
        share = math.sqrt(((1.0 - scales * other) / power) ** 2 - other**2)
        assert 1 / share / math.sqrt(max(law, 1)) / other > scale / beta
