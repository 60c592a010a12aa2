"""The corrected constant for all pairs of small data, and the surrogate against the exact extension."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from dpstats.errors import InvalidData
from dpstats.identity.by_extension import (
    check_sign_rows,
    exact_inner_product_extension,
    inner_product_constant,
    inner_product_surrogate,
    l1_excess,
)
from tests.identity.sign_datasets import FIRST, SECOND, datasets, distance, inside_set, neighbor_groups, plain_statistic


def test_printed_constant_fails_at_the_counterexample():
    assert (plain_statistic(FIRST), plain_statistic(SECOND)) == (12, -28)
    assert inside_set(FIRST, 4) and inside_set(SECOND, 4)
    assert distance(FIRST.tolist(), SECOND.tolist()) == 2
    assert 12 - -28 > 4 * 4 * 2
    assert inner_product_constant(12, 3, 4) == 22


@pytest.mark.parametrize(("n", "d"), [(4, 2), (5, 2), (3, 3), (6, 2), (9, 1)])
def test_constant_holds_for_all_pairs_inside_set(n, d):
    """T changes by at most K(Delta) per row between any two datasets of C, for every Delta that matters."""
    _, all_data = datasets(n, d)
    for Delta in range(n * d + 1):
        inside = [X for X in all_data if inside_set(X, Delta)]
        K = inner_product_constant(n, d, Delta)
        for X, Y in itertools.combinations(inside, 2):
            assert abs(plain_statistic(X) - plain_statistic(Y)) <= K * distance(X, Y)


def test_constant_is_the_maximum_of_the_formula():
    for n, d, Delta in itertools.product((1, 2, 7, 12, 40), (1, 2, 3, 10), (0, 0.5, 1, 4, 17.25, 100)):
        D = Fraction(Delta)
        direct = max(min(4 * D + k * d - (k % 2) * Fraction(d, k), n * D / k) for k in range(1, n + 1))
        value = Fraction(inner_product_constant(n, d, Delta))
        assert direct <= value <= direct * (1 + Fraction(1, 2**51))


@pytest.mark.parametrize(("n", "d"), [(4, 2), (5, 2), (7, 2), (4, 3), (5, 3), (8, 1)])
def test_surrogate_exhaustively(n, d):
    """K-Lipschitz for every K; never above the exact extension; T where the documented condition holds."""
    _, all_data = datasets(n, d)
    for Delta, K in itertools.product((d, 2 * d + 1, n * d // 2), (1, 5, 4 * d, 10 * d)):
        h = {X: inner_product_surrogate(np.array(X), Delta, K) for X in all_data}
        for group in neighbor_groups(n, d):
            values = [h[X] for X in group]
            assert max(values) - min(values) <= K
        for X in all_data:
            if inside_set(X, Delta):
                saved = 4 * l1_excess(np.array(X).sum(axis=0), n)
                assert (h[X] == plain_statistic(X)) == (saved <= K)
        if n <= 5 and d <= 2:
            for X in all_data:
                assert h[X] <= exact_inner_product_extension(np.array(X), Delta, K)


@pytest.mark.parametrize("entry", [0.0, 0.5, -0.999, 2.0, np.nan])
def test_rows_of_signs_have_no_other_entries(entry: float) -> None:
    rows = np.array([[1.0, -1.0], [-1.0, entry]])
    with pytest.raises(InvalidData, match=r"^X must"):
        check_sign_rows(rows)
