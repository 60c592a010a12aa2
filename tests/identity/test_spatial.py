"""The spatial-sign statistic: exact norms, its sensitivity by brute force and attack, agreement with floats."""

import itertools
import math

import numpy as np
import pytest

from dpstats.identity import by_spatial_sign as s
from dpstats.identity.by_spatial_sign import projected_moments


def norm(Z, lattice):
    return s.integer_norm(lattice.sums(Z)[0])


def test_integer_norm_is_the_floor():
    rng = np.random.default_rng(0)
    for size in (1, 10, 10**6, 2**61):
        for _ in range(50):
            S = rng.integers(-size, size + 1, 5)
            r, total = s.integer_norm(S), sum(int(x) ** 2 for x in S)
            assert r * r <= total < (r + 1) ** 2


def test_floor_of_the_norm_is_lipschitz_without_an_extra_step():
    """All pairs of integer vectors of a box: |floor ||S|| - floor ||S'||| <= D for every integer D >= ||S - S'||."""
    box = np.array(list(itertools.product(range(-6, 7), repeat=2)))
    floors = np.array([s.integer_norm(x) for x in box])
    for x, fx in zip(box, floors, strict=True):
        gaps = np.ceil(np.sqrt(((box - x) ** 2).sum(axis=1)) - 1e-9)
        assert np.all(np.abs(floors - fx) <= gaps)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_sensitivity_is_attained_and_never_exceeded(d):
    lattice = s.spatial_sign_lattice(20, d)
    limit = lattice.sensitivity("l2")
    rng = np.random.default_rng(d)
    worst = 0
    for trial in range(300):
        direction = rng.standard_normal(d)
        X = rng.standard_normal((20, d)) * 10.0 ** rng.integers(-2, 200)
        if trial % 2:
            X = np.tile(direction * 1e3, (20, 1)) * rng.choice([1, 1, 1, 2], (20, 1))
        Y = X.copy()
        Y[0] = -X[1] if trial % 3 else rng.standard_normal(d) * 1e9
        worst = max(worst, abs(norm(X, lattice) - norm(Y, lattice)))
    # Equal long rows, one of them reversed: the norm falls by 2B, up to the lattice's safety margin.
    assert limit * (1 - 1e-6) <= worst <= limit


def test_is_the_projected_sum():
    rng = np.random.default_rng(1)
    Z = rng.standard_normal((300, 7)) * rng.exponential(1, (300, 1))
    lattice = s.spatial_sign_lattice(300, 7)
    B = 0.75 * math.sqrt(7)
    direct = np.linalg.norm((Z * np.minimum(1, B / np.linalg.norm(Z, axis=1))[:, None]).sum(axis=0))
    assert norm(Z, lattice) * lattice.spacing == pytest.approx(direct, rel=1e-6)


def test_rows_are_inside_the_ball_exactly():
    lattice = s.spatial_sign_lattice(10, 3)
    rng = np.random.default_rng(2)
    Z = rng.standard_normal((2000, 3)) * 10.0 ** rng.uniform(-3, 100, (2000, 1))
    for row in lattice.round_rows(Z):
        assert sum(int(x) ** 2 for x in row) <= lattice.radius**2


def test_the_default_radius_grows_with_what_counts() -> None:
    # Noise dominates: small; sampling dominates: large; of many columns, the same.
    assert s.default_radius(100, 1, 0.05) == 0.3
    assert s.default_radius(100, 1, 1.0) == pytest.approx(0.9)
    assert s.default_radius(10**6, 4, 1.0) == pytest.approx(4.2)
    assert s.default_radius(100, 8, 0.05) == s.default_radius(10**6, 8, 5.0) == 0.75 * 8**0.5


@pytest.mark.parametrize(("rows", "epsilon"), [(40, 0.05), (400, 0.1), (400, 1.0), (400, 5.0)])
def test_no_other_radius_finds_much_smaller_distances(rows: int, epsilon: float) -> None:
    # Of one column, by the normal limit: signal over noise and sampling error, with the same draws for each radius.
    rng = np.random.default_rng(0)
    normal, noise = rng.normal(size=40_000), rng.laplace(size=40_000)

    def distance(radius: float) -> float:
        mean, _, across = projected_moments(1e-3, 1, radius)
        null, slope = normal * across**0.5, mean / 1e-3
        scaled = noise * 2 * radius / (epsilon * rows**0.5)
        threshold = np.quantile(np.abs(null) + scaled, 0.95)
        low, high = 0.0, 1000.0
        for _ in range(40):
            middle = (low + high) / 2
            found = np.mean(np.abs(null + middle * slope) + scaled > threshold) < 0.8
            low, high = (middle, high) if found else (low, middle)
        return high

    least = min(distance(radius) for radius in (0.1, 0.3, 0.6, 0.9, 1.3, 1.8, 2.5))
    assert distance(s.default_radius(rows, 1, epsilon)) < 1.04 * least
