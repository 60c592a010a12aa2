"""Statistics of ranks: scipy's, in half ranks; sensitivities by brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from dpstats.ranks.statistics import (
    all_rank_sums_sensitivity,
    centered_rank_sums,
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
        sums = centered_rank_sums(x, codes, 2)
        assert sums.sum() == 0
        assert sums[0] == 2 * (stats.mannwhitneyu(a, b).statistic - a.size * b.size / 2)
        three = rng.integers(3, size=50)
        means = [stats.rankdata(x)[three == g].mean() for g in range(3)]
        expected = [2 * (three == g).sum() * (mean - 25.5) for g, mean in enumerate(means)]
        assert np.allclose(centered_rank_sums(x, three, 3), expected)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_sensitivities_of_several_groups(n: int) -> None:
    rows = list(itertools.product(range(n), range(3)))
    pairs = itertools.product(itertools.combinations_with_replacement(rows, n - 1), rows, rows)
    known: dict[tuple, tuple] = {}

    def sums(data: tuple) -> np.ndarray:
        key = tuple(sorted(data))
        if key not in known:
            values, codes = np.array(key).T
            known[key] = tuple(centered_rank_sums(values.astype(float), codes, 3))
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


def test_stated_sensitivities() -> None:
    assert signed_rank_sensitivity(10) == 40
    assert rank_sum_sensitivity((3, 7)) == 14
    assert all_rank_sums_sensitivity(10, None) == 32 and all_rank_sums_sensitivity(10, (5, 5)) == 20
    assert all_rank_sums_sensitivity(10, (1, 9)) == 32
