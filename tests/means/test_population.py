"""What the population mean can be, given that of clipped rows and a largest spread: against laws of every kind.

Seeds are fixed; nothing here is a statistical test.
"""

import math

import numpy as np
import pytest
from scipy import stats

from dpstats.means.moments import clipped_variance_in_ball, population_bias_in_ball, population_ends


def laws(reps, points, d, seed):
    """Atoms within, near and far outside the unit region, with weights of all sizes; means and deviations."""
    rng = np.random.default_rng(seed)
    size = 10.0 ** rng.uniform(-1.5, 1.5, size=(reps, points, 1)) * 10.0 ** rng.uniform(-2, 0.7, size=(reps, 1, 1))
    atoms = rng.normal(size=(reps, points, d)) * size + rng.uniform(-1, 1, size=(reps, 1, d))
    weights = rng.dirichlet(np.full(points, 0.3), size=reps)[..., None]
    mean = (weights * atoms).sum(axis=1)
    std = np.sqrt((weights * (atoms - mean[:, None]) ** 2).sum(axis=1))
    return atoms, weights, mean, std


@pytest.mark.parametrize("points", [2, 3, 5])
def test_no_law_of_this_spread_has_its_mean_beyond(points):
    atoms, weights, mean, std = laws(60_000, points, 1, points)
    clipped = (weights * np.clip(atoms, -1, 1)).sum(axis=1)
    ones = np.ones(clipped.shape)
    low, high = population_ends(clipped, clipped, std, -ones, ones)
    assert np.all(low <= mean + 1e-9 * (1 + abs(mean))) and np.all(mean <= high + 1e-9 * (1 + abs(mean)))
    # Near the bound for some; and what Scarf's inequality gave, at a mean inside the clip, is far from a bound.
    cut = np.abs(mean - clipped) > 1e-3
    nearest = np.minimum(high - mean, mean - low)[cut] / np.abs(mean - clipped)[cut]
    assert nearest.min() < 0.01
    room = np.maximum(1 - np.abs(clipped), 0)
    scarf = (np.hypot(std, room) - room) / 2
    assert np.mean(np.abs(mean - clipped)[cut] > scarf[cut] * (1 + 1e-9)) > 0.01


@pytest.mark.parametrize("p", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("spread", [0.1, 0.5, 0.95, 1.0, 1.5, 10.0])
def test_two_points_attain_it(p, spread):
    # On either side of s^2 = 4p(1 - p): docs/intervals/clipped-mean.md.
    s = spread * 2 * math.sqrt(p * (1 - p))
    if spread <= 1:
        low = p - s**2 / (4 * (1 - p))
        q = (p - low) / (1 - low)
        high = low + s / math.sqrt(q * (1 - q))
    else:
        low, high, q = 0.0, s / math.sqrt(p * (1 - p)), p
    assert low >= 0 and high >= 1 - 1e-12
    assert (1 - q) * low + q == pytest.approx(p)
    mean = (1 - q) * low + q * high
    one = np.ones(1)
    ends = population_ends(p * one, p * one, s * one, 0 * one, one)
    assert ends[1][0] == pytest.approx(mean, rel=1e-9)
    # The mirror image, about another box.
    mirrored = population_ends(7 - 3 * p * one, 7 - 3 * p * one, 3 * s * one, 4 * one, 7 * one)
    assert mirrored[0][0] == pytest.approx(7 - 3 * mean, rel=1e-9)


def test_it_grows_with_the_interval_and_with_the_spread():
    h, s = np.meshgrid(np.linspace(-1, 0.999, 400), np.geomspace(1e-3, 30, 300))
    high = population_ends(h, h, s, -np.ones(h.shape), np.ones(h.shape))[1]
    assert np.all(np.diff(high, axis=0) >= -1e-12) and np.all(np.diff(high, axis=1) >= -1e-9 * high[:, 1:])
    one = np.ones(1)
    assert population_ends(0 * one, one, one, -one, one)[1] == np.inf
    # At the low end no row is above it.
    assert population_ends(-one, -one, one, -one, one)[1] == -1.0


@pytest.mark.parametrize(
    ("law", "clip", "std", "said"),
    [(stats.norm(8, 1), 6, 1.0, 0.5), (stats.lognorm(2), 6, math.sqrt(math.expm1(4) * math.exp(4)), None)],
)
def test_cases_that_a_bound_on_the_bias_got_wrong(law, clip, std, said):
    # "clip bias <= .5" where it is 2.0: the inequality needs a mean inside the clip.
    u = (np.arange(200_000) + 0.5) / 200_000
    clipped = float(np.mean(np.clip(law.ppf(u), -clip, clip)))
    one = np.ones(1)
    low, high = population_ends(clipped * one, clipped * one, std * one, -clip * one, clip * one)
    assert low <= law.mean() <= high
    assert said is None or law.mean() - clipped > 3 * said


@pytest.mark.parametrize("d", [1, 2, 4])
def test_no_law_has_its_mean_beyond_in_a_ball(d):
    atoms, weights, mean, std = laws(9_000, 3, d, 10 + d)
    norms = np.linalg.norm(atoms, axis=2, keepdims=True)
    clipped = (weights * atoms * np.minimum(1, 1 / np.maximum(norms, 1e-300))).sum(axis=1)
    closest, known = 0.0, 0
    for true, seen, sds in zip(mean, clipped, std, strict=True):
        bias = population_bias_in_ball(float(np.linalg.norm(seen)), np.abs(seen), sds, 1.0)
        assert np.all(np.abs(true - seen) <= bias * (1 + 1e-9) + 1e-12)
        known += bool(np.isfinite(bias).all())
        closest = max(closest, float(np.max(np.abs(true - seen) / bias)))
    assert known > 4_000 and closest > 0.85


def test_where_a_ball_says_nothing():
    far, near, std = np.array([0.99, 0.0]), np.array([0.1, 0.0]), np.array([0.2, 0.2])
    assert np.isinf(population_bias_in_ball(1.0, far, std, 1.0)).all()
    assert np.isinf(population_bias_in_ball(0.9, far, 9 * std, 1.0)).all()
    assert np.all(population_bias_in_ball(0.1, near, std, 1.0) < 0.05)
    # It falls as one over the radius, where that is well above the spread.
    wide = [population_bias_in_ball(0.1, near, std, radius)[0] for radius in (5.0, 10.0)]
    assert wide[0] / wide[1] == pytest.approx(2, rel=0.05)


def test_no_rows_have_a_larger_variance_in_a_ball_than_the_bound() -> None:
    rng, closest = np.random.default_rng(7), 0.0
    for _ in range(4000):
        d, points = int(rng.integers(1, 5)), int(rng.integers(2, 6))
        masses = rng.dirichlet(np.full(points, 0.5))
        x = rng.normal(size=(points, d)) * rng.exponential(1.0, d) + rng.normal(size=d) * rng.exponential(0.3)
        clipped = x * np.minimum(1, 1 / np.maximum(np.linalg.norm(x, axis=1), 1e-300))[:, None]
        mean, seen = masses @ x, masses @ clipped
        std = np.sqrt(masses @ (x - mean) ** 2)
        variance = masses @ (clipped - seen) ** 2
        bound = clipped_variance_in_ball(float(np.linalg.norm(seen)), np.abs(seen), std, 1.0)
        assert np.all(variance <= bound * (1 + 1e-9) + 1e-12)
        closest = max(closest, float(np.max(variance / np.maximum(bound, 1e-12))))
    # Attained where nothing is clipped.
    assert closest > 0.99
    # The spread before clipping is no bound.
    x = np.array([[0.9, 0.0], [0.9, 5.0], [0.9, -5.0]])
    clipped = x / np.maximum(np.linalg.norm(x, axis=1), 1.0)[:, None]
    assert np.var(clipped[:, 0]) > 0.1 > np.var(x[:, 0])
