"""Statistics of ranks: scipy's, in half ranks; sensitivities by brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from dpstats.ranks.statistics import (
    _as_integers,
    all_rank_sums_sensitivity,
    centred_rank_sums,
    rank_sum_sensitivity,
    rank_sum_weights,
    signed_rank_sensitivity,
    signed_rank_sum,
    weigh_rank_sum,
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
        assert abs(one[0] - other[0]) <= rank_sum_sensitivity(n, None)
        if first[1] == second[1]:
            sizes = tuple(np.bincount([g for _, g in (*rest, first)], minlength=3))
            public[sizes] = max(public.get(sizes, 0), moved)
            assert abs(one[0] - other[0]) <= rank_sum_sensitivity(n, (sizes[0], n - sizes[0]))
    assert most == all_rank_sums_sensitivity(n, None)
    for sizes, moved in public.items():
        given = tuple(size for size in sizes if size)
        if len(given) > 1:
            assert moved <= all_rank_sums_sensitivity(n, given)


def largest_move(n: int, weights: np.ndarray | None) -> int:
    """Return the largest change of a weighted rank sum over all pairs of neighbors, ties included."""
    rows = list(itertools.product(range(n), range(2)))
    known: dict[tuple, int] = {}

    def weighed(data: tuple) -> int:
        key = tuple(sorted(data))
        if key not in known:
            values, codes = np.array(key).T
            (doubled, _) = centred_rank_sums(values.astype(float), codes, 2)
            known[key] = weigh_rank_sum(int(doubled), int(np.sum(codes == 0)), weights, n)
        return known[key]

    return max(
        np.ptp([weighed((*rest, row)) for row in rows])
        for rest in itertools.combinations_with_replacement(rows, n - 1)
    )


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_weighted_sums_of_every_small_dataset_move_no_further(n: int) -> None:
    rng = np.random.default_rng(n)
    for epsilon in (0.1, 1e4):
        weights, stated = rank_sum_weights(n, epsilon)
        # Rounding is a matter of one half rank.
        assert stated - 1 <= largest_move(n, weights) <= stated
    for _ in range(4):
        weights, stated = _as_integers(np.r_[1.0, rng.uniform(0.1, 2, n - 1 - (n + 1) // 2)], n)
        assert stated - 1 <= largest_move(n, weights) <= stated


def weighed_groups(first: list[float], second: list[float], weights: np.ndarray) -> int:
    values, n = np.array([*first, *second]), len(first) + len(second)
    codes = np.repeat([0, 1], [len(first), len(second)])
    return weigh_rank_sum(int(centred_rank_sums(values, codes, 2)[0]), len(first), weights, n)


@pytest.mark.parametrize("n", [9, 20, 51])
@pytest.mark.parametrize("epsilon", [0.01, 1e5])
def test_extreme_groups_attain_the_sensitivity(n: int, epsilon: float) -> None:
    weights, stated = rank_sum_weights(n, epsilon)
    assert weights is not None
    most = 0
    for size in range((n + 1) // 2, n):
        small, large = [0.0] * (n - size), [1.0] * (size - 1)
        # A row of the larger group goes to the other end of the smaller one; or it leaves for it, from below both.
        for row, rest, group in (([-1.0], large, small), ([1.0], [0.0] * (size - 1), [-1.0] * len(small))):
            before = weighed_groups([*row, *rest], group, weights)
            for value in (-2.0, 2.0):
                after = weighed_groups(rest, [*group, value], weights)
                most = max(most, abs(before - after))
        one = weighed_groups([-1.0, *small[1:]], [0.0] * size, weights)
        most = max(most, abs(one - weighed_groups([1.0, *small[1:]], [0.0] * size, weights)))
    assert stated - 2 <= most <= stated


def test_lean_weights_need_four_sevenths_of_the_rows() -> None:
    for n in (20, 100, 500, 5000, 100_000, 10**6):
        weights, stated = rank_sum_weights(n, 1e-3)
        assert weights is not None and weights[0] == 1 << 30 and stated <= 2 * (4 / 7 * n + 1.5) * 1.0005
    assert rank_sum_weights(10**9, 1.0) == (None, 2 * (10**9 - 1))
    # With hardly any noise the weights make 20 of 200 rows vary as 100 of 200 do.
    weights, _ = rank_sum_weights(200, 500.0)
    assert weights[180 - 100] / 2**30 == pytest.approx(np.sqrt(100 * 100 / (180 * 20)), rel=1e-6)


def test_stated_sensitivities() -> None:
    assert signed_rank_sensitivity(10) == 40
    assert rank_sum_sensitivity(10, None) == 18 and rank_sum_sensitivity(10, (3, 7)) == 14
    assert all_rank_sums_sensitivity(10, None) == 32 and all_rank_sums_sensitivity(10, (5, 5)) == 20
    assert all_rank_sums_sensitivity(10, (1, 9)) == 32
