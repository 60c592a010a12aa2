"""Statistics of ranks: scipy's, in half ranks; sensitivities by brute force."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpstats.ranks.statistics import (
    MiddleRankSum,
    all_rank_sums_sensitivity,
    centred_rank_sums,
    middle_rank_sum,
    rank_sum_sensitivity,
    signed_rank_sensitivity,
    signed_rank_sum,
)


def test_signed_ranks_are_scipys() -> None:
    rng = np.random.default_rng(0)
    for x in (rng.normal(size=30), rng.integers(-3, 4, size=40).astype(float)):
        # scipy has the smaller of the sums of positive and of negative ranks; Pratt ranks zeros.
        positive = stats.wilcoxon(x, zero_method="pratt", alternative="greater", method="approx").statistic
        ranks = stats.rankdata(np.abs(x))
        assert signed_rank_sum(x) == 2 * (2 * positive - ranks[x != 0].sum())


def test_rank_sums_are_scipys() -> None:
    rng = np.random.default_rng(1)
    for x in (rng.normal(size=50), rng.integers(4, size=50).astype(float)):
        codes = rng.integers(2, size=50)
        a, b = x[codes == 0], x[codes == 1]
        sums = centred_rank_sums(x, codes, 2)
        assert sums.sum() == 0
        assert sums[0] == 2 * (stats.mannwhitneyu(a, b).statistic - a.size * b.size / 2)
        three = rng.integers(3, size=50)
        means = [stats.rankdata(x)[three == g].mean() for g in range(3)]
        expected = [2 * (three == g).sum() * (mean - 25.5) for g, mean in enumerate(means)]
        assert np.allclose(centred_rank_sums(x, three, 3), expected)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_sensitivities_of_several_groups(n: int) -> None:
    rows = list(itertools.product(range(n), range(3)))
    pairs = itertools.product(itertools.combinations_with_replacement(rows, n - 1), rows, rows)
    known: dict[tuple, tuple] = {}

    def sums(data: tuple) -> np.ndarray:
        key = tuple(sorted(data))
        if key not in known:
            values, codes = np.array(key).T
            known[key] = tuple(centred_rank_sums(values.astype(float), codes, 3))
        return np.array(known[key])

    most, public = 0, {}
    for rest, first, second in pairs:
        one, other = sums((*rest, first)), sums((*rest, second))
        moved = abs(np.abs(one).sum() - np.abs(other).sum())
        most = max(most, moved)
        assert abs(one[0] - other[0]) <= 2 * (n - 1)
        if first[1] == second[1]:
            sizes = tuple(np.bincount([g for _, g in (*rest, first)], minlength=3))
            public[sizes] = max(public.get(sizes, 0), moved)
            assert abs(one[0] - other[0]) <= rank_sum_sensitivity((sizes[0], n - sizes[0]))
    assert most == all_rank_sums_sensitivity(n, None)
    for sizes, moved in public.items():
        given = tuple(size for size in sizes if size)
        if len(given) > 1:
            assert moved <= all_rank_sums_sensitivity(n, given)


def grouped(first: list[float], second: list[float]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([*first, *second]), np.repeat([0, 1], [len(first), len(second)])


def middle_by_definition(first: list[float], second: list[float], subset: int) -> Fraction:
    """Return the middle of the smallest and the largest statistic over subsets, and its mean over orders of ties."""
    n, larger = len(first) + len(second), len(second) > len(first)
    middles = []
    for order in itertools.permutations(range(n)):
        rows = list(zip([*first, *second], order, strict=True))
        groups = rows[: len(first)], rows[len(first) :]
        choices = list(itertools.combinations(groups[larger], min(subset, len(groups[larger]))))
        pairs = [(groups[0], kept) if larger else (kept, groups[1]) for kept in choices]
        sums = [sum((x > y) - (x < y) for x in a for y in b) for a, b in pairs]
        middles.append(min(sums) + max(sums))
    return Fraction(sum(middles), 2 * len(middles))


def test_the_middle_is_that_of_all_subsets() -> None:
    rng = np.random.default_rng(2)
    for kinds in (2, 3, 9):
        for n in (2, 3, 4, 5, 5, 5):
            size, x = int(rng.integers(0, n + 1)), rng.integers(0, kinds, size=n).astype(float)
            first, second = x[:size].tolist(), x[size:].tolist()
            for subset in range((n + 1) // 2, n):
                expected = math.floor(middle_by_definition(first, second, subset) + Fraction(1, 2))
                assert MiddleRankSum(n, subset).sum(*grouped(first, second)) == expected
            if 0 < size < n:
                # All rows of both groups: the rank sum itself.
                whole = int(centred_rank_sums(*grouped(first, second), 2)[0])
                assert MiddleRankSum(n, n - 1).sum(*grouped(first, second)) == whole


def largest_move(middle: MiddleRankSum) -> int:
    """Return the largest change of a statistic over all pairs of neighbors, ties included."""
    rows = list(itertools.product(range(min(middle.rows, 4)), range(2)))
    known: dict[tuple, int] = {}

    def found(data: tuple) -> int:
        key = tuple(sorted(data))
        if key not in known:
            values, codes = np.array(key).T
            known[key] = middle.sum(values.astype(float), codes)
        return known[key]

    return max(
        np.ptp([found((*rest, row)) for row in rows])
        for rest in itertools.combinations_with_replacement(rows, middle.rows - 1)
    )


@pytest.mark.parametrize("n", [3, 4, 5, 6])
def test_middles_of_every_small_dataset_move_by_a_subset(n: int) -> None:
    for subset in range((n + 1) // 2, n):
        middle = MiddleRankSum(n, subset)
        assert largest_move(middle) == middle.sensitivity == 2 * subset


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_weighted_middles_of_every_small_dataset_move_no_further(n: int) -> None:
    rng = np.random.default_rng(n)
    middles = [middle_rank_sum(n, epsilon) for epsilon in (1.0, 6.0, 1e4)]
    for subset in (*range((n + 1) // 2, n), n - 1):
        weights = np.floor(np.r_[1.0, rng.uniform(0.1, 2, n - 1 - (n + 1) // 2)] * (1 << 30)).astype(np.int64)
        middles.append(MiddleRankSum(n, subset, weights))
    for middle in middles:
        # Rounding is a matter of one half rank. Two values and two rows move by half of what they may.
        assert middle.sensitivity - 1 <= largest_move(middle) <= middle.sensitivity


def extreme_move(middle: MiddleRankSum) -> int:
    """Return the largest change over pairs of neighbors with groups that are far apart."""
    n, most = middle.rows, 0
    for size in range((n + 1) // 2, n):
        small, large = [0.0] * (n - size), [1.0] * (size - 1)
        # A row of the larger group goes to the other end of the smaller one; or it leaves for it, from below both.
        for row, rest, group in (([-1.0], large, small), ([1.0], [0.0] * (size - 1), [-1.0] * len(small))):
            before = middle.sum(*grouped([*row, *rest], group))
            for value in (-2.0, 2.0):
                most = max(most, abs(before - middle.sum(*grouped(rest, [*group, value]))))
        one = middle.sum(*grouped([-1.0, *small[1:]], [0.0] * size))
        most = max(most, abs(one - middle.sum(*grouped([1.0, *small[1:]], [0.0] * size))))
    return most


@pytest.mark.parametrize("n", [9, 20, 51])
def test_extreme_groups_attain_the_sensitivity(n: int) -> None:
    middles = [middle_rank_sum(n, epsilon) for epsilon in (0.01, 2.0, 1e5)]
    count = n - (n + 1) // 2
    for weights in (np.geomspace(1, 0.1, count), np.geomspace(1, 4, count), [1.0, *[0.2] * (count - 1)]):
        whole = np.floor(np.array(weights) * (1 << 30)).astype(np.int64)
        middles += [MiddleRankSum(n, subset, whole) for subset in ((n + 1) // 2, n - 1)]
    for middle in middles:
        assert middle.sensitivity - 2 <= extreme_move(middle) <= middle.sensitivity


def test_noise_for_private_sizes_is_close_to_that_for_equal_public_ones() -> None:
    for n in (2, 3, 20, 101, 5000, 10**6, 10**9):
        assert middle_rank_sum(n, 1e-6 / n).sensitivity == pytest.approx(1.03 * n, abs=2, rel=2e-3)
    for n, epsilon in ((100, 1.0), (1000, 0.1), (1000, 1.0), (10**4, 5.0), (10**9, 1e5)):
        middle, null = middle_rank_sum(n, epsilon), (n // 2) ** 2 * (n + 1) / 3
        noises = [2 * (moved / epsilon) ** 2 for moved in (middle.sensitivity, n)]
        assert null + noises[0] <= 1.0601 * (null + noises[1])
    assert middle_rank_sum(10, 1e300).weights is not None
    # With hardly any noise the weights make 20 of 200 rows vary as 100 of 200 do.
    middle = middle_rank_sum(200, 500.0)
    assert middle.weights is not None
    assert middle.weights[180 - 100] / 2**30 == pytest.approx(np.sqrt(100 * 100 / (180 * 20)), rel=1e-6)
    # Subsets of 63 of 100 rows.
    middle = middle_rank_sum(100, 2.3)
    assert middle.weights is not None and middle.subset == 63 and middle.sensitivity == 140
    assert 1.06 < middle.weights[66 - 50] / 2**30 < 1.07


@pytest.mark.parametrize("zeros", [0.0, 0.6])
@pytest.mark.parametrize(
    ("n", "epsilon", "size"), [(60, 1e4, 20), (200, 0.5, 60), (200, 3.0, 60), (200, 10.0, 30)]
)
def test_unequal_groups_have_mean_0_and_vary_no_more_than_equal_ones(
    n: int, epsilon: float, size: int, zeros: float
) -> None:
    # With ties at one end the middle of all subsets has another mean, unless ties are broken.
    middle, rng = middle_rank_sum(n, epsilon), np.random.default_rng(4)
    ranks, codes = np.maximum(np.arange(float(n)), zeros * n), np.repeat([0, 1], [size, n - size])
    found = np.array([middle.sum(rng.permutation(ranks), codes) for _ in range(3000)])
    most = (n // 2) ** 2 * (n + 1) / 3
    # Five standard errors of a mean and a variance of 3,000 normal numbers.
    assert abs(found.mean()) < 5 * np.sqrt(most / 3000)
    assert np.mean(found**2) < most * (1 + 5 * np.sqrt(2 / 3000))


def test_stated_sensitivities() -> None:
    assert signed_rank_sensitivity(10) == 40
    assert rank_sum_sensitivity((3, 7)) == 14
    assert all_rank_sums_sensitivity(10, None) == 32 and all_rank_sums_sensitivity(10, (5, 5)) == 20
    assert all_rank_sums_sensitivity(10, (1, 9)) == 32
