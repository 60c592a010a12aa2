"""The l1 extension: the formula, exactness, and its sensitivity over all neighbors of small data."""

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from dpstats.identity.by_extension import expected_saving, extended_squares, l1_cost, l1_excess, l1_extension
from tests.identity.sign_datasets import datasets, neighbor_groups, plain_statistic


def plain_l1(S, n, A, c, v, parity):
    m = n % 2 if parity else 0
    reach = int(max(abs(s) for s in S) / (2 * c)) + 2
    return min(
        sum(max(abs(s) - 2 * c * k, m) ** 2 for s in S) - n * len(S) * v + 4 * c * A * k for k in range(reach + 1)
    )


def test_l1_is_the_formula():
    rng = np.random.default_rng(0)
    for _ in range(300):
        n, d = int(rng.integers(1, 60)), int(rng.integers(1, 8))
        S = 2 * rng.binomial(n, rng.random(), d) - n
        A = int(rng.integers(0, 3 * n))
        assert l1_extension(S, n, A) == plain_l1(S.tolist(), n, A, 1, 1, True)
        real, c = rng.normal(0, n, d), float(rng.uniform(0.1, 4))
        expected = plain_l1(real.tolist(), n, A + 0.3, c, 0.7, False)
        assert l1_extension(real, n, A + 0.3, c=c, v=0.7, parity=False) == pytest.approx(expected, rel=1e-12)


def test_l1_is_exact_beyond_64_bits():
    S, n, A, c = [2**43 + 1, -(2**42) + 3, 5], 10_000, 2**41, 2**30
    k = np.arange(0, 4100)
    direct = min(sum(max(abs(s) - 2 * c * int(j), 0) ** 2 for s in S) + 4 * c * A * int(j) for j in k)
    assert l1_cost(np.array(S), n, A, c, parity=False) == direct


@pytest.mark.parametrize(("n", "d"), [(2, 2), (5, 2), (6, 2), (4, 3), (5, 3), (7, 1)])
def test_l1_exhaustively(n, d):
    """4cA-Lipschitz for signs, and T exactly where the documented excess is at most A."""
    _, all_data = datasets(n, d)
    for A in (0, 1, 2, 5, n * d // 2, n * d):
        h = {X: l1_extension(np.array(X).sum(axis=0), n, A) for X in all_data}
        for group in neighbor_groups(n, d):
            values = [h[X] for X in group]
            assert max(values) - min(values) <= 4 * A
        for X in all_data:
            S = np.array(X).sum(axis=0)
            assert (h[X] == plain_statistic(X)) == (l1_excess(S, n) <= A)
            assert l1_excess(S, n) <= np.abs(S).sum()


def test_l1_lipschitz_for_lattice_rows():
    """Integer rows in {-2..2}, all sums and replacements: h moves by at most 4cA, whatever the floor."""
    c, n = 2, 3
    for A, parity in itertools.product((0, 1, 3), (False, True)):
        h = {S: l1_cost(np.array(S), n, A, c, parity) for S in itertools.product(range(-c * n, c * n + 1), repeat=2)}
        rows = list(itertools.product(range(-c, c + 1), repeat=2))
        for rest in itertools.product(range(-c * (n - 1), c * (n - 1) + 1), repeat=2):
            values = [h[rest[0] + u[0], rest[1] + u[1]] for u in rows]
            assert max(values) - min(values) <= 4 * c * A


def test_parity_floor_is_for_signs_only():
    # S = 0 from three real rows: T = -ndv, and the floor m = 1 raises h by d above it.
    S = np.zeros(2)
    assert l1_extension(S, 3, 5.5, v=0.25, parity=False) == -1.5
    assert l1_extension(S, 3, 5.5, v=0.25, parity=True) == 0.5


def test_constant_bounds_are_attained():
    # One row flips at S = n on every coordinate: h moves by 4A or by T's own change, whichever is smaller.
    n, d, A = 20, 3, 10
    S = np.full(d, n)
    assert l1_extension(S, n, A) - l1_extension(S - 2, n, A) == 4 * A
    assert math.isclose(l1_excess(S, n), d * (n - 1))


@pytest.mark.parametrize(("pair", "price"), [((1, 4), 7), ((2, 3), 12), ((1, 6), 3)])
def test_columns_of_unequal_width_exhaustively(pair, price):
    """Rows of two values a column, all sums of four of them: the result moves by at most its price, and by no less."""
    corners = [np.array(row) for row in itertools.product((-pair[0], 1), (-1, pair[1]))]
    widths = np.array([pair[0] + 1, pair[1] + 1])
    assert worst_move(corners, widths, price) == price
    # The planted bug: widths that are a step too small.
    assert worst_move(corners, widths - 1, price) > price


def worst_move(corners, widths, price):
    worst = 0
    for rest in itertools.combinations_with_replacement(corners, 9):
        S = np.array([sum(rest) + row for row in corners])
        found = extended_squares(S, widths, price)
        worst = max(worst, int(found.max() - found.min()))
    return worst


def test_python_integers_agree_where_64_bits_are_too_few():
    S, widths = np.array([[2**33 + 5, -(2**32)], [7, 2**31]]), np.array([2**20, 3 * 2**19])
    found = extended_squares(S, widths, 2**52)
    plain = [
        min(
            sum(max(abs(int(s)) - int(w) * k, 0) ** 2 for s, w in zip(row, widths, strict=True)) + 2**52 * k
            for k in range(9000)
        )
        for row in S
    ]
    assert [int(value) for value in found] == plain


@pytest.mark.parametrize(("variance", "width"), [(4.0, 1.0), (4.0, 7.0), (0.3, 1.0)])
def test_the_expected_saving_is_its_integral(variance, width):
    def saved(s):
        a = abs(s)
        return (a**2 - max(a - width, 0.0) ** 2) * norm.pdf(s, scale=math.sqrt(variance))

    expected = quad(saved, -40, 40, points=[-width, 0, width], epsabs=1e-12)[0]
    assert expected_saving(variance, width) == pytest.approx(expected, rel=1e-9)
