"""The bias of clipping, of which only a variance is known: no law of two points is beyond the bounds."""

import numpy as np

from dpstats.means.sparse_selection import cross_bias


def laws(d, rng, count):
    """Yield chances and points (k, d) of laws of variance at most 1 in each column."""
    for _ in range(count):
        p = rng.uniform(0.001, 0.2)
        chances = np.array([1 - p, p / 2, p / 2])
        points = rng.standard_normal((3, d)) * np.array([[0.1], [1.0], [1.0]])
        points -= chances @ points
        points /= np.sqrt(chances @ points**2).max(axis=0)
        yield chances, points + rng.normal(scale=0.5, size=d)


def clipped(points, radius, order):
    norms = np.linalg.norm(points, ord=order, axis=1)
    return points * np.minimum(1, radius / np.maximum(norms, 1e-300))[:, None]


def test_rows_clipped_to_a_cross():
    rng, tight = np.random.default_rng(0), 0.0
    for d in (1, 3):
        for chances, points in laws(d, rng, 3000):
            radius = rng.uniform(1.5 * d, 8 * d)
            mean, inside = chances @ points, chances @ clipped(points, radius, 1)
            bound = cross_bias(radius, np.abs(inside))
            assert np.all(np.abs(mean - inside) <= bound + 1e-12)
            tight = max(tight, float(np.max(np.abs(mean - inside) / bound)))
    assert tight > 0.2
    assert np.all(np.isinf(cross_bias(2.0, np.array([2.0, 0.0]))))
