"""Smooth sensitivity: published figures, all distances, all small neighbours."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from dpstats.errors import InvalidData, InvalidParameter
from dpstats.sensitivity import median_smooth_sensitivity
from dpstats.sensitivity.smooth import median_reach, smooth_level, smooth_levels

LAST = 5


def far(rows: tuple[int, ...], k: int) -> int:
    """Return A(k) by brute force: how far one row moves the median, of all rows that differ in k."""
    n, m = len(rows), (len(rows) + 1) // 2 - 1
    medians: dict[tuple[int, ...], int] = {}
    for places in itertools.combinations(range(n), min(k, n)):
        for values in itertools.product(range(LAST + 1), repeat=len(places)):
            changed = list(rows)
            for place, value in zip(places, values, strict=True):
                changed[place] = value
            medians[tuple(sorted(changed))] = sorted(changed)[m]
    most = 0
    for changed, median in medians.items():
        for place in range(n):
            for value in (0, LAST, *changed):
                one = sorted([*changed[:place], value, *changed[place + 1 :]])
                most = max(most, abs(one[m] - median))
    return most


@pytest.mark.parametrize("rows", [(1, 2, 4), (0, 0, 5), (2, 2, 2), (1, 4), (0, 1, 1, 5)])
def test_reach_is_how_far_the_median_can_move(rows: tuple[int, ...]) -> None:
    reach = median_reach(np.sort(rows), LAST)
    for k in range(3):
        assert reach(k) == far(rows, k)


def test_figures_of_the_specification() -> None:
    # A(0) = 2 and A(1) = 4 of [1, 2, 4] on [0, 6]: 4 e^-.3.
    assert median_smooth_sensitivity([1, 2, 4], lower=0, upper=6, beta=0.3) == pytest.approx(
        2.963272883, rel=1e-9
    )
    found = median_smooth_sensitivity([1, 2, 4, 7, 11], lower=0, upper=16, beta=0.1)
    assert found == pytest.approx(10.371455, rel=1e-7)


def test_halving_finds_what_all_distances_do() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        n, beta = int(rng.integers(1, 9)), float(rng.choice([0.02, 0.1, 0.5, 2.0]))
        x = rng.integers(0, 13, n)
        reach = median_reach(np.sort(x), 12)
        expected = max(math.exp(-beta * k) * reach(k) for k in range(n + 2))
        assert median_smooth_sensitivity(x, lower=0, upper=12, beta=beta) == pytest.approx(
            expected, rel=1e-12
        )


def test_the_level_is_that_of_all_distances() -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        n, ratio = int(rng.integers(1, 9)), float(rng.choice([1.05, 1.2, 2.0]))
        reach = median_reach(np.sort(rng.integers(0, 13, n)), 12)
        limits = np.array([int(0.3 * level) for level in smooth_levels(1.0, 45.0, ratio)])
        expected = max(0, *(int(np.searchsorted(limits, reach(k))) - k for k in range(limits.size + n)))
        assert smooth_level(reach, limits) == expected


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_the_level_moves_by_one_between_neighbours(n: int) -> None:
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


def test_levels_are_no_further_apart_than_stated() -> None:
    for ratio in (1.001, 1.0344, 3.0):
        levels = smooth_levels(2.0**-5, 1e6, ratio)
        assert levels[-1] >= 1e6 > levels[-2]
        assert all(Fraction(b) <= Fraction(a) * Fraction(ratio) and b > a for a, b in pairwise(levels))


@pytest.mark.parametrize(
    ("x", "options", "error", "message"),
    [
        ([1.0], {"lower": 2, "upper": 1, "beta": 1}, InvalidParameter, "lower must be less than upper"),
        ([1.0], {"lower": 0, "upper": 1, "beta": 0}, InvalidParameter, "beta must be"),
        ([], {"lower": 0, "upper": 1, "beta": 1}, InvalidData, "at least one number"),
        ([np.nan], {"lower": 0, "upper": 1, "beta": 1}, InvalidData, "NaN"),
    ],
)
def test_bad_input_is_named(x: list[float], options: dict[str, float], error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        median_smooth_sensitivity(x, **options)
    with pytest.raises(InvalidParameter, match="ratio"):
        smooth_levels(1.0, 2.0, 1.0)
