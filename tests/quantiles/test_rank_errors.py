"""The law of a rank's error, and the ranks of ends: against enumeration, formulas and simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from dpstats.quantiles.grid import (
    Law,
    _drawn,
    binomial,
    group_rank_errors,
    least_distance,
    least_group_distances,
    offset_ranks,
    rank_errors,
)
from dpstats.release.noise import ExactNoise, SimulatedNoise


def test_the_law_is_that_of_one_number_of_a_tuple() -> None:
    # By enumeration of pairs and triples within 40 of 0.
    at = np.arange(-40, 41)
    for size, scale in ((2, 1.5), (3, 1.0)):
        pmf = np.zeros(at.size)
        for v in itertools.product(at if size == 2 else at[25:56], repeat=size):
            pmf[v[0] + 40] += math.exp(-(max(0, *v) - min(0, *v)) / scale)
        law = rank_errors(size, scale)
        inside = slice(-law.first - 8, -law.first + 9)
        np.testing.assert_allclose(law.pmf[inside], (pmf / pmf.sum())[32:49], rtol=1e-3)


@pytest.mark.parametrize(("size", "std"), [(3, 4.4), (9, 9.4), (19, 17.5)])
def test_errors_are_those_of_the_specification(size: int, std: float) -> None:
    # At epsilon = 1; about sqrt(2/3 (m + 2)(m + 3)).
    law = rank_errors(size, 2.0)
    assert law.std == pytest.approx(std, abs=0.06)
    assert law.std == pytest.approx(math.sqrt(2 / 3 * (size + 2) * (size + 3)), rel=0.02)
    assert law.pmf.sum() == pytest.approx(1) and law.pmf.tolist() == law.pmf[::-1].tolist()


def test_joint_noise_has_the_law_together() -> None:
    # Both numbers of a pair: chi-square over 25 cells; seeds are fixed, and with exact noise a false alarm is 1e-6.
    at = np.arange(-2, 3)
    weights = {(a, b): math.exp(-(max(0, a, b) - min(0, a, b)) / 1.5) for a in range(-30, 31) for b in range(-30, 31)}
    total = sum(weights.values())
    expected = np.array([weights[a, b] / total for a in at for b in at])
    for source, size in ((SimulatedNoise(np.random.default_rng(0)), 40_000), (ExactNoise(), 2500)):
        drawn = source.joint(1.5, (size, 2))
        counts = np.array([np.count_nonzero((drawn == (a, b)).all(axis=1)) for a in at for b in at])
        both = [np.append(x, size - x.sum()) for x in (counts, expected * size)]
        assert stats.chisquare(*both).pvalue > 1e-6
        independent = np.outer(*[expected.reshape(5, 5).sum(axis=k) for k in (0, 1)]).ravel() / expected.sum()
        wrong = [np.append(x, size - x.sum()) for x in (counts, independent * size)]
        assert stats.chisquare(*wrong).pvalue < 1e-6


def test_limits_of_a_law() -> None:
    die = Law(1, np.full(6, 1 / 6))
    assert die.below(0.34) == 2 and die.below(0.3) == 1 and die.below(0.1) == 0
    assert die.above(0.34) == 5 and die.above(0.1) == 7
    # With half of the last: P(. < 2) + P(. = 2)/2 = 1/4.
    assert die.below(0.251, half=True) == 2 and die.below(0.249, half=True) == 1
    assert die.std == pytest.approx(math.sqrt(35 / 12))
    assert die.plus(die).first == 2 and die.plus(die).pmf.max() == pytest.approx(1 / 6)
    for n, q in ((5, 0.5), (10**6, 0.9)):
        assert binomial(n, q).pmf.sum() == pytest.approx(1, abs=1e-11)
        assert binomial(n, q).std == pytest.approx(math.sqrt(n * q * (1 - q)), rel=1e-6)


@pytest.mark.parametrize(("n", "q", "scale"), [(500, 0.5, 2.0), (200, 0.9, 1.0), (5000, 0.25, 20.0)])
def test_ranks_are_beyond_with_the_stated_probability(n: int, q: float, scale: float) -> None:
    low, high = offset_ranks(q, n, 2, scale, 0.025)
    assert low is not None and high is not None
    errors, below = rank_errors(2, scale), binomial(n, q)
    together = below.plus(errors)
    at = together.first + np.arange(together.pmf.size)

    def missed(rank: int, sign: int) -> float:
        # Below the lower end, or above the upper one, lie too few rows.
        beyond = sign * (at - rank) < 0
        return float(together.pmf[beyond].sum() + together.pmf[at == rank].sum() / 2)

    for rank, sign in ((low, 1), (high, -1)):
        assert missed(rank, sign) <= 0.025 < missed(rank + sign, sign)


def test_few_rows_have_no_ranks() -> None:
    assert offset_ranks(0.5, 5, 2, 2.0, 0.025) == (None, None)
    low, high = offset_ranks(0.95, 60, 2, 2.0, 0.025)
    assert low is not None and high is None


@pytest.mark.parametrize("rows_per_place", [1, 4, 80])
@pytest.mark.parametrize(("size", "scale"), [(1, 1.5), (2, 1.0), (3, 0.5)])
def test_beyond_the_least_distance_no_bound_draws_a_point(rows_per_place: int, size: int, scale: float) -> None:
    # By enumeration: rows at places 0, 1, ..., so many at each, and 300 empty places between the last and the bound.
    n, out, share = 80, 300, 1e-3
    places = np.arange(n // rows_per_place + out)
    below = np.minimum(places * rows_per_place, n)
    up_to = np.minimum((places + 1) * rows_per_place, n)

    def drawn(distance: int) -> float:
        rank = n - distance
        beyond = np.maximum(below - rank, 0) + np.minimum(up_to - rank, 0)
        values, counts = np.unique(beyond, return_counts=True)
        tuples = np.meshgrid(*[values] * size, indexing="ij")
        spread = np.maximum(0, np.maximum.reduce(tuples)) - np.minimum(0, np.minimum.reduce(tuples))
        weights = np.exp(-spread / scale)
        for lengths in np.meshgrid(*[counts] * size, indexing="ij"):
            weights = weights * lengths
        far, total = weights[tuples[0] == distance].sum(), weights.sum()
        return far / total

    nearest = least_distance(size, scale, places.size, share, count=size)
    assert nearest < n
    assert drawn(nearest) <= share
    # A third of it would not do.
    assert drawn(nearest // 3) > share


def test_the_least_distance_grows_with_points_places_and_scale() -> None:
    base = least_distance(2, 2.0, 1000, 1e-3)
    assert base < least_distance(3, 2.0, 1000, 1e-3) and base < least_distance(2, 4.0, 1000, 1e-3)
    assert base < least_distance(2, 2.0, 10**6, 1e-3) and base < least_distance(2, 2.0, 1000, 1e-5)
    assert base < least_distance(2, 2.0, 1000, 1e-3, count=2)
    assert least_distance(2, 2.0**-9, 1 << 40, 1e-6) == 1


def test_the_law_of_a_group_is_that_of_one_number_of_a_tuple() -> None:
    # By enumeration: the largest distance counts, two half rows for each row.
    at = np.arange(-30, 31)
    for size, scale in ((1, 1.5), (2, 1.5), (3, 1.0)):
        pmf = np.zeros(at.size)
        for v in itertools.product(at if size < 3 else at[15:46], repeat=size):
            pmf[v[0] + 30] += math.exp(-max(map(abs, v)) / scale)
        law = group_rank_errors(size, scale)
        inside = slice(-law.first - 8, -law.first + 9)
        np.testing.assert_allclose(law.pmf[inside], (pmf / pmf.sum())[22:39], rtol=1e-3)
    # About sqrt((m + 1)(m + 2)/3) scales.
    assert group_rank_errors(2, 20.0).std == pytest.approx(2 * 20, rel=0.01)


@pytest.mark.parametrize("rows_per_place", [1, 4, 80])
@pytest.mark.parametrize(("size", "scale"), [(1, 1.5), (2, 1.0), (3, 0.5)])
def test_beyond_the_least_distances_no_bound_draws_points_of_a_group(
    rows_per_place: int, size: int, scale: float
) -> None:
    # By enumeration, as above: all ranks at the largest of the distances, and the nearest alone at its own.
    n, out, share = 80, 300, 1e-3
    places = np.arange(n // rows_per_place + out)
    below = np.minimum(places * rows_per_place, n)
    up_to = np.minimum((places + 1) * rows_per_place, n)
    least = least_group_distances(size, scale, places.size, share)
    assert list(least) == sorted(least)

    def drawn(ranks: list[int]) -> float:
        offs = [np.maximum(np.maximum(below - r, r - up_to), 0) for r in ranks]
        cells = [np.unique(np.stack([off, places >= n // rows_per_place]), axis=1, return_counts=True) for off in offs]
        weight, outside = 0.0, 0.0
        for one in itertools.product(*[range(values.shape[1]) for values, _ in cells]):
            values = [cells[j][0][:, i] for j, i in enumerate(one)]
            each = math.prod(int(cells[j][1][i]) for j, i in enumerate(one))
            mass = each * math.exp(-max(int(v[0]) for v in values) / scale)
            weight += mass
            outside += mass * any(v[1] for v in values)
        return outside / weight

    # Each number of points is drawn there at most with its share.
    assert drawn([n - distance for distance in least]) <= size * share
    if rows_per_place == 1:
        assert drawn([n - least[0] // 3] * size) > size * share


@pytest.mark.parametrize(("size", "points", "share"), [(1, 1 << 50, 1e-9), (6, 1 << 40, 1e-3), (12, 300, 1e-6)])
def test_the_least_distance_is_inside_the_range_that_is_searched(size: int, points: int, share: float) -> None:
    found = least_distance(size, 2.0, points, share)
    drawn = math.log(points) + _drawn(size, 2.0, 1, 4 * found)
    assert drawn[found] <= math.log(share) < drawn[found - 1]
