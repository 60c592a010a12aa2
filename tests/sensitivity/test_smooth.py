"""Smooth sensitivity from local ones: all distances, all small neighbors."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.sensitivity import smooth_sensitivity
from dpstats.sensitivity.smooth import median_reach, smooth_level, smooth_levels

LAST = 5


def test_a_polynomial_is_smoothed_as_far_as_it_outgrows() -> None:
    # Figures of the specification: a join of mf 3 and 2, a self-join of mf 65, a chain.
    beta = 0.7 / (2 * math.log(2e8))
    assert beta == pytest.approx(0.018311350, rel=1e-7)

    def far(local: object, beta: float, k: int) -> float:
        return math.exp(-beta * k) * local(k)  # type: ignore[operator]

    join = smooth_sensitivity(lambda k: 3 + k, beta=beta, growth=1)
    assert join == pytest.approx(21.224220, rel=1e-7) == far(lambda k: 3 + k, beta, 52)
    chain = smooth_sensitivity(lambda k: (5 + k) * (3 + k), beta=1 / (2 * math.log(2e6)), growth=2)
    assert chain == pytest.approx(523.02585, rel=1e-7)
    # No further distance has more.
    assert chain == smooth_sensitivity(lambda k: (5 + k) * (3 + k), beta=1 / (2 * math.log(2e6)), furthest=2000)


@pytest.mark.parametrize("more", [{}, {"furthest": 3, "growth": 2}])
def test_how_far_has_to_be_said_once(more: dict[str, int]) -> None:
    with pytest.raises(InvalidParameter, match="furthest or growth"):
        smooth_sensitivity(lambda k: 1.0, beta=0.1, **more)


def test_the_level_is_that_of_all_distances() -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        n, ratio = int(rng.integers(1, 9)), float(rng.choice([1.05, 1.2, 2.0]))
        reach = median_reach(np.sort(rng.integers(0, 13, n)), 12)
        limits = np.array([int(0.3 * level) for level in smooth_levels(1.0, 45.0, ratio)])
        expected = max(0, *(int(np.searchsorted(limits, reach(k))) - k for k in range(limits.size + n)))
        assert smooth_level(reach, limits) == expected


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_the_level_moves_by_one_between_neighbors(n: int) -> None:
    # Whatever the limits are, as long as they rise.
    for limits in (np.array([0, 1, 2, 3, 5]), np.array([1, 1, 4, 9]), np.array([0, 0, 0, 0, 7])):

        def level(rows: tuple[int, ...], distance: int = 1, limits: np.ndarray = limits) -> int:
            reach = median_reach(np.sort(rows), LAST)
            return max(0, *(int(np.searchsorted(limits, reach(k))) - distance * k for k in range(n + 2)))

        moves, twice = [0], [0]
        for rows in itertools.combinations_with_replacement(range(LAST + 1), n):
            own = smooth_level(median_reach(np.array(rows), LAST), limits)
            assert own == level(rows) and limits[own] >= median_reach(np.array(rows), LAST)(0)
            for value in range(LAST + 1):
                other = tuple(sorted((*rows[1:], value)))
                moves.append(abs(own - level(other)))
                twice.append(abs(level(rows, 2) - level(other, 2)))
        assert max(moves) <= 1
        # Smoothed by twice beta it moves further.
        assert max(twice) <= 1 or n > 1
