"""Entropic mirror descent: least squares among distributions, and stops where it is told to."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.queries.workload import Evaluate, descend, fit, uniform
from dpstats.tables.null_tests import projection


def nearest(points: np.ndarray) -> Evaluate:
    def distance(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        off = p - points
        return (off**2).sum(axis=1) / 2, off

    return distance


def test_the_nearest_distribution_is_the_projection() -> None:
    points = np.random.default_rng(0).normal(scale=0.3, size=(20, 6))
    found = descend(nearest(points), uniform(20, 6), tolerance=1e-9, steps=3000)
    assert found.sum(axis=1) == pytest.approx(np.ones(20)) and (found >= 0).all()
    # Held, Wolfe and Crowder's.
    assert found == pytest.approx(projection(points, np.ones(20)), abs=1e-3)


def test_it_ends_near_the_minimum_where_steps_are_refused() -> None:
    rng = np.random.default_rng(2)
    points, weights = rng.normal(scale=0.5, size=(20, 6)), np.array([1, 30, 1, 5, 1, 10.0])

    def distance(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        off = p - points
        return (weights * off**2).sum(axis=1) / 2, weights * off

    p = descend(distance, uniform(20, 6), tolerance=1e-3, steps=3000)
    gradient = distance(p)[1]
    assert ((gradient * p).sum(axis=1) - gradient.min(axis=1)).max() <= 1e-3


def test_each_draw_is_a_problem_of_its_own() -> None:
    points = np.random.default_rng(1).normal(scale=0.3, size=(5, 4))
    together = descend(nearest(points), uniform(5, 4), steps=50)
    for i, point in enumerate(points):
        assert descend(nearest(point[None]), uniform(1, 4), steps=50)[0] == pytest.approx(together[i], rel=1e-9)


def test_it_stops_where_noise_explains_the_rest() -> None:
    points = np.eye(4)[:1]
    start = nearest(points)(uniform(1, 4))[0]
    near, nearer = (descend(nearest(points), uniform(1, 4), enough=share * start[0]) for share in (0.5, 0.1))
    assert 0.1 * start < nearest(points)(near)[0] <= 0.5 * start
    assert nearest(points)(nearer)[0] <= 0.1 * start
    # From the first one on, if it is near enough.
    assert np.array_equal(descend(nearest(points), uniform(1, 4), enough=1.0), uniform(1, 4))


def test_a_fit_says_whether_it_came_near_enough() -> None:
    # Noise of variance .1, and answers that no distribution is near to.
    for point, reached in ((np.array([[0.6, 0.5, 0.0, -0.1]]), True), (np.array([[9.0, 0.0, 0.0, 0.0]]), False)):

        def misfit(p: np.ndarray, point: np.ndarray = point) -> tuple[np.ndarray, np.ndarray]:
            found, gradient = nearest(point)(p)
            return 10 * found, 10 * gradient

        found = fit(misfit, 4, freedom=3)
        assert found.reached is reached and found.p.sum() == pytest.approx(1.0)
