"""The balls of a release: their noise, and the bias they leave."""

import math

import numpy as np

from dpstats.means.sparse_design import cross_radius, honest_cross_radius, release_balls


def test_stages_never_plan_more_noise_than_one():
    for signal in (0.0, 1.0, 10.0):
        mu, n, s = 0.2, 2000, 10
        balls = release_balls(n, 2000, s, signal, mu)
        planned = sum(share * (n * mu / (2 * r)) ** 2 for r, share in zip(balls.radii, balls.shares, strict=True))
        one = (n * mu / (2 * (math.sqrt(s + s * signal**2) + 2))) ** 2
        assert planned >= one * (1 - 1e-9)
        assert sum(balls.shares) <= 1


def half_width(balls, n, s, mu):
    """Return that of an interval about the last stage, for any rows: the bias is in it."""
    radius = balls.radii[-1]
    noise = 2 * radius / (n * mu * math.sqrt(balls.shares[-1]))
    return 1.959964 * math.hypot(n**-0.5, noise) + math.hypot(math.sqrt(s), balls.distances[-1]) / (4 * radius)


def test_intervals_are_short_and_estimates_are_not_forgotten():
    s, mu = 10, 0.237
    for n in (500, 2000, 20_000, 200_000):
        plain, honest = (release_balls(n, 2000, s, 1.0, mu, intervals=flag) for flag in (False, True))
        assert half_width(honest, n, s, mu) <= half_width(plain, n, s, mu)
        # A quarter longer than the shortest, one ball about 0 included.
        radii = 5.0 * 1.1 ** np.arange(40)
        alone = min(1.959964 * math.hypot(n**-0.5, 2 * r / (n * mu)) + math.sqrt(2 * s) / (4 * r) for r in radii)
        assert half_width(honest, n, s, mu) <= 1.26 * alone
        assert 1 / n + 1 / honest.precision < 1.35 * (1 / n + 1 / plain.precision)
    # Without a wider ball the bias does not fall with n.
    assert half_width(plain, n, s, mu) > 5 * half_width(honest, n, s, mu)


def test_the_cross_of_an_interval_is_wider_where_rows_are_many():
    narrow = cross_radius(5, 1.0)
    radii = [honest_cross_radius(n, 5, 1.0, 1.0) for n in (100, 10_000, 1_000_000)]
    assert narrow <= radii[0] < radii[1] < radii[2]
