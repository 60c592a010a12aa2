"""Order statistics and trimmed means: published figures, all distances, brute force over all datasets."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

from dpstats.errors import InvalidData, InvalidParameter
from dpstats.sensitivity import (
    local_sensitivity,
    maximum_smooth_sensitivity,
    median_smooth_sensitivity,
    minimum_smooth_sensitivity,
    quantile_smooth_sensitivity,
    smooth_sensitivity,
    trimmed_mean_smooth_sensitivity,
)
from dpstats.sensitivity.smooth import median_reach, window_reach

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


def median_of_observed(rows: tuple[int | None, ...]) -> int:
    """Return the lower median of the rows that are there; 0 of none."""
    there = sorted(row for row in rows if row is not None)
    return there[(len(there) + 1) // 2 - 1] if there else 0


def test_reach_bounds_the_median_of_observed_rows() -> None:
    values = (None, *range(LAST + 1))
    for rows in itertools.combinations_with_replacement(values[1:], 2):
        for given in ((*rows, None), (*rows, 3), (None, None, rows[0])):
            reach = median_reach(np.sort([x for x in given if x is not None]), LAST)
            near = {given}
            for k in range(2):
                next_to = {(*one[:i], value, *one[i + 1 :]) for one in near for i in range(3) for value in values}
                apart = max(
                    abs(median_of_observed(one) - median_of_observed((*one[:i], value, *one[i + 1 :])))
                    for one in near
                    for i in range(3)
                    for value in values
                )
                assert apart <= reach(k)
                near = next_to


def test_figures_of_the_specification() -> None:
    # A(0) = 2 and A(1) = 4 of [1, 2, 4] on [0, 6]: 4 e^-.3.
    assert median_smooth_sensitivity([1, 2, 4], lower=0, upper=6, beta=0.3) == pytest.approx(2.963272883, rel=1e-9)
    found = median_smooth_sensitivity([1, 2, 4, 7, 11], lower=0, upper=16, beta=0.1)
    assert found == pytest.approx(10.371455, rel=1e-7)


def test_halving_finds_what_all_distances_do() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        n, beta = int(rng.integers(1, 9)), float(rng.choice([0.02, 0.1, 0.5, 2.0]))
        x = rng.integers(0, 13, n)
        reach = median_reach(np.sort(x), 12)
        expected = max(math.exp(-beta * k) * reach(k) for k in range(n + 2))
        assert median_smooth_sensitivity(x, lower=0, upper=12, beta=beta) == pytest.approx(expected, rel=1e-12)


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


def quantile(q: float) -> Callable[[tuple[int, ...]], float]:
    return lambda rows: sorted(rows)[max(1, math.ceil(q * len(rows))) - 1]


def trimmed(trim: int) -> Callable[[tuple[int, ...]], float]:
    return lambda rows: float(np.mean(sorted(rows)[trim : len(rows) - trim]))


CLOSED = {
    "quartile": (quantile(0.25), lambda x, **o: quantile_smooth_sensitivity(x, 0.25, **o)),
    "upper quartile": (quantile(0.75), lambda x, **o: quantile_smooth_sensitivity(x, 0.75, **o)),
    "minimum": (min, minimum_smooth_sensitivity),
    "maximum": (max, maximum_smooth_sensitivity),
    "median": (quantile(0.5), median_smooth_sensitivity),
    "mean": (trimmed(0), lambda x, **o: trimmed_mean_smooth_sensitivity(x, 0, **o)),
    "trimmed mean": (trimmed(1), lambda x, **o: trimmed_mean_smooth_sensitivity(x, 1, **o)),
}


@pytest.mark.parametrize("name", CLOSED)
def test_closed_forms_are_those_of_brute_force(name: str) -> None:
    function, closed = CLOSED[name]
    few = 1 if name == "trimmed mean" else 0
    for rows in ((2,), (1, 3), (0, 2, 3), (0, 0, 1, 3)):
        if len(rows) <= 2 * few:
            continue

        def local(k: int, rows: tuple[int, ...] = rows) -> float:
            return local_sensitivity(function, rows, range(4), distance=k)

        far = [local(k) for k in range(len(rows) + 1)]
        for beta in (0.05, 0.4, 2.0):
            expected = smooth_sensitivity(lambda k, far=far: far[k], beta=beta, furthest=len(rows))
            found = closed(rows, lower=0, upper=3, beta=beta)
            # From above, always. That of a trimmed mean takes rows to be moved from between the ends of its window,
            # where there may be too few of them.
            assert found >= expected * (1 - 1e-12)
            assert found == pytest.approx(expected, rel=1e-12) or name == "trimmed mean"


def test_a_trimmed_mean_moves_by_its_window() -> None:
    # At the data the form is exact; and with a single row left it is the median's.
    for rows in itertools.combinations_with_replacement(range(5), 5):
        reach = window_reach(np.array(rows), 4, 2, 4)
        assert reach(0) / 3 == pytest.approx(local_sensitivity(trimmed(1), rows, range(5)))
        one = trimmed_mean_smooth_sensitivity(rows, 2, lower=0, upper=4, beta=0.3)
        assert one == median_smooth_sensitivity(rows, lower=0, upper=4, beta=0.3)


def test_halving_is_quick() -> None:
    x = np.random.default_rng(2).normal(size=200_000)
    # n log n: n^2 distances would take minutes.
    assert 0 < trimmed_mean_smooth_sensitivity(x, 20_000, lower=-9, upper=9, beta=0.01) < 1e-3


def test_bad_trimming_is_named() -> None:
    with pytest.raises(InvalidParameter, match="trim must"):
        trimmed_mean_smooth_sensitivity([1, 2, 3, 4], 2, lower=0, upper=5, beta=1)
    with pytest.raises(InvalidParameter, match="q must"):
        quantile_smooth_sensitivity([1, 2], 1.5, lower=0, upper=5, beta=1)
