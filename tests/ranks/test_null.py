"""Null distributions of rank statistics: moments, the exact law of a small case, the limit for many rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dpstats.inference.noisy_counts import CountNoise
from dpstats.ranks import statistics as null
from dpstats.ranks.statistics import centered_rank_sums, null_statistics, pvalue

SMALL = 1e-2  # a scale of noise that is 0 in next to every draw


def test_a_small_case_is_that_of_all_permutations() -> None:
    drawn = null_statistics("two groups", (3, 3), SMALL, 20_000)
    sums = [2 * sum(ranks) - 21 for ranks in itertools.combinations(range(1, 7), 3)]
    for value in set(sums):
        p = np.mean(np.array(sums) == value)
        # Five standard errors: a false alarm below 1e-5 for all.
        assert abs(np.mean(drawn == value) - p) < 5 * np.sqrt(p * (1 - p) / 20_000)
    signs = itertools.product((-2, 2), repeat=4)
    exact = [sum(s * r for s, r in zip(sign, range(1, 5), strict=True)) for sign in signs]
    found = null_statistics("signed", (4,), SMALL, 20_000)
    assert {*np.unique(found)} == {*map(float, exact)}


@pytest.mark.parametrize("n", [60, 3000])
def test_moments(n: int) -> None:
    # Above 2,000 rows they are those of the limit, which are the same. Five standard errors.
    sizes, scale, size = (n // 3, n - n // 3), 4.0 * n, 20_000
    noise = CountNoise("laplace", scale)
    for kind, given, variance in (
        ("signed", (n,), 4 * n * (n + 1) * (2 * n + 1) / 6),
        ("two groups", sizes, sizes[0] * sizes[1] * (n + 1) / 3),
    ):
        drawn = null_statistics(kind, given, scale, size)
        total = variance + noise.variance
        assert abs(drawn.mean()) < 5 * np.sqrt(total / size)
        assert abs(drawn.var() / total - 1) < 5 * np.sqrt(5 / size)
    codes, rng = np.repeat([0, 1, 2], n // 3), np.random.default_rng(0)
    groups = null_statistics("groups", (n // 3,) * 3, SMALL, size)
    own = [np.abs(centered_rank_sums(rng.random(n), codes, 3)).sum() for _ in range(300)]
    assert abs(groups.mean() - np.mean(own)) < 5 * np.std(own) / np.sqrt(300)


def test_it_is_kept_and_cannot_be_changed() -> None:
    first = null_statistics("signed", (30,), 12.0, 500)
    assert null_statistics("signed", (30,), 12.0, 500) is first and not first.flags.writeable
    assert null._EXACT_ROWS == 2000


def test_pvalues_count_ties_against_rejecting() -> None:
    drawn = np.array([-3.0, -1.0, 0.0, 1.0])
    assert pvalue(drawn, 1.0, "greater") == 2 / 5 and pvalue(drawn, -3.0, "less") == 2 / 5
    assert pvalue(drawn, -1.0, "two-sided") == 4 / 5 and pvalue(drawn, 5.0, "two-sided") == 1 / 5
