"""The Lipschitz extensions: issue values, exhaustive sensitivity, enumeration against integer programs."""

import itertools
import math
import tracemalloc
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.identity import extension as e

A_, B_, C_, P_ = (-1, -1, 1), (-1, 1, -1), (1, -1, -1), (1, 1, 1)
# The smallest known counterexample to the printed 4 Delta (docs/errata.md): n = 12, d = 3, Delta = 4.
FIRST = np.array([A_] * 4 + [B_] * 4 + [C_] * 4)
SECOND = np.array([P_] * 2 + [A_] * 3 + [B_] * 3 + [C_] * 4)


def plain_statistic(X):
    X = np.asarray(X)
    return int((X.sum(axis=0) ** 2).sum() - X.size)


def inside_set(X, Delta):
    X = np.asarray(X)
    return bool((np.abs(X @ X.sum(axis=0)) <= Delta).all())


def datasets(n, d):
    patterns = list(itertools.product((-1, 1), repeat=d))
    return patterns, list(itertools.combinations_with_replacement(patterns, n))


def neighbour_groups(n, d):
    patterns, _ = datasets(n, d)
    for rest in itertools.combinations_with_replacement(patterns, n - 1):
        yield [tuple(sorted((*rest, p))) for p in patterns]


def distance(X, Y):
    return len(X) - sum((Counter(map(tuple, X)) & Counter(map(tuple, Y))).values())


# --- constants and the exact extension ---


def test_printed_constant_fails_at_the_counterexample():
    assert (plain_statistic(FIRST), plain_statistic(SECOND)) == (12, -28)
    assert inside_set(FIRST, 4) and inside_set(SECOND, 4)
    assert distance(FIRST.tolist(), SECOND.tolist()) == 2
    assert 12 - -28 > 4 * 4 * 2
    assert e.inner_product_constant(12, 3, 4) == 22


@pytest.mark.parametrize("method", ["enumerate", "milp"])
def test_exact_values_at_the_counterexample(method):
    # With 4 Delta the minimum over C is private but not T on C; with K(4) = 22 it is.
    assert e.exact_inner_product_extension(FIRST, 4, 16, method) == 4
    assert e.exact_inner_product_extension(FIRST, 4, 22, method) == 12
    assert e.exact_inner_product_extension(SECOND, 4, 22, method) == -28


@pytest.mark.parametrize("method", ["enumerate", "milp"])
def test_exact_values_of_equal_rows(method):
    X = np.ones((4, 2), dtype=int)
    values = [e.exact_inner_product_extension(X, Delta, 4 * Delta, method) for Delta in (2, 4, 8)]
    assert values == [8, 16, 24]


@pytest.mark.parametrize(("n", "d"), [(4, 2), (5, 2), (3, 3), (6, 2), (9, 1)])
def test_constant_holds_for_all_pairs_inside_set(n, d):
    """T changes by at most K(Delta) per row between any two datasets of C, for every Delta that matters."""
    _, all_data = datasets(n, d)
    for Delta in range(n * d + 1):
        inside = [X for X in all_data if inside_set(X, Delta)]
        K = e.inner_product_constant(n, d, Delta)
        for X, Y in itertools.combinations(inside, 2):
            assert abs(plain_statistic(X) - plain_statistic(Y)) <= K * distance(X, Y)


def test_constant_is_the_maximum_of_the_formula():
    for n, d, Delta in itertools.product((1, 2, 7, 12, 40), (1, 2, 3, 10), (0, 0.5, 1, 4, 17.25, 100)):
        D = Fraction(Delta)
        direct = max(min(4 * D + k * d - (k % 2) * Fraction(d, k), n * D / k) for k in range(1, n + 1))
        value = Fraction(e.inner_product_constant(n, d, Delta))
        assert direct <= value <= direct * (1 + Fraction(1, 2**51))


def brute_extension(all_data, values, X, constant):
    return min(values[Y] + constant * distance(X, Y) for Y in all_data)


@pytest.mark.parametrize(("n", "d"), [(4, 2), (5, 2), (4, 3), (3, 1)])
def test_enumeration_programs_and_brute_force_agree(n, d):
    rng = np.random.default_rng(n + d)
    _, all_data = datasets(n, d)
    for Delta in (d, d + 1, 2 * d, n * d // 2 + 1, n * d):
        inside = [Y for Y in all_data if inside_set(Y, Delta)]
        values = {Y: plain_statistic(Y) for Y in inside}
        for constant in (1, 4 * Delta, 7.5):
            for index in rng.choice(len(all_data), 3):
                X = np.array(all_data[index])
                expected = brute_extension(inside, values, all_data[index], constant)
                for method in ("enumerate", "milp"):
                    assert e.exact_inner_product_extension(X, Delta, constant, method) == expected


def test_programs_agree_with_enumeration_at_random():
    rng = np.random.default_rng(5)
    for _ in range(6):
        n = int(rng.integers(6, 10))
        X = np.where(rng.random((n, 3)) < rng.random(3), 1, -1)
        Delta, constant = float(rng.integers(3, 12)), float(rng.integers(1, 50))
        both = [e.exact_inner_product_extension(X, Delta, constant, m) for m in ("enumerate", "milp")]
        assert both[0] == both[1]


def test_method_is_public_and_large_data_is_refused():
    X = np.ones((30, 3), dtype=int)
    with pytest.raises(ValueError, match="milp"):
        e.exact_inner_product_extension(X, 10, 10, "enumerate")
    with pytest.raises(ValueError, match="surrogate"):
        e.exact_inner_product_extension(np.ones((100, 20), dtype=int), 10, 10)
    with pytest.raises(ValueError, match="no 3 x 1"):
        e.exact_inner_product_extension(np.ones((3, 1), dtype=int), 0, 1)


def test_method_is_one_of_those_there_are():
    with pytest.raises(
        InvalidParameter, match="method must be one of 'auto', 'enumerate', 'milp', got 'foo'"
    ):
        e.exact_inner_product_extension(FIRST, 4, 22, "foo")


def test_integer_programs_work_in_blocks(monkeypatch):
    X = np.random.default_rng(0).choice([-1, 1], (7, 6))
    tracemalloc.start()
    whole = e.exact_inner_product_extension(X, 20, 50, "milp")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # 8^6 sums times 64 patterns are 134 MB in one piece of eight bytes each.
    assert peak < 50e6
    small = e._sums_at(np.arange(27), 2, 3)
    assert small.tolist() == [list(S) for S in itertools.product((-2, 0, 2), repeat=3)]
    monkeypatch.setattr(e, "_SUMS_AT_ONCE", 5)
    first = e.exact_inner_product_extension(FIRST[:5], 4, 22, "milp")
    assert first == e.exact_inner_product_extension(FIRST[:5], 4, 22, "enumerate")
    assert whole == -36.0


# --- the surrogate ---


@pytest.mark.parametrize(("n", "d"), [(4, 2), (5, 2), (7, 2), (4, 3), (5, 3), (8, 1)])
def test_surrogate_exhaustively(n, d):
    """K-Lipschitz for every K; never above the exact extension; T where the documented condition holds."""
    _, all_data = datasets(n, d)
    for Delta, K in itertools.product((d, 2 * d + 1, n * d // 2), (1, 5, 4 * d, 10 * d)):
        h = {X: e.inner_product_surrogate(np.array(X), Delta, K) for X in all_data}
        for group in neighbour_groups(n, d):
            values = [h[X] for X in group]
            assert max(values) - min(values) <= K
        for X in all_data:
            if inside_set(X, Delta):
                saved = 4 * e.l1_excess(np.array(X).sum(axis=0), n)
                assert (h[X] == plain_statistic(X)) == (saved <= K)
        if n <= 5 and d <= 2:
            for X in all_data:
                assert h[X] <= e.exact_inner_product_extension(np.array(X), Delta, K)


# --- l1 ---


def plain_l1(S, n, A, c, v, parity):
    m = n % 2 if parity else 0
    reach = int(max(abs(s) for s in S) / (2 * c)) + 2
    return min(
        sum(max(abs(s) - 2 * c * k, m) ** 2 for s in S) - n * len(S) * v + 4 * c * A * k
        for k in range(reach + 1)
    )


def test_l1_is_the_formula():
    rng = np.random.default_rng(0)
    for _ in range(300):
        n, d = int(rng.integers(1, 60)), int(rng.integers(1, 8))
        S = 2 * rng.binomial(n, rng.random(), d) - n
        A = int(rng.integers(0, 3 * n))
        assert e.l1_extension(S, n, A) == plain_l1(S.tolist(), n, A, 1, 1, True)
        real, c = rng.normal(0, n, d), float(rng.uniform(0.1, 4))
        expected = plain_l1(real.tolist(), n, A + 0.3, c, 0.7, False)
        assert e.l1_extension(real, n, A + 0.3, c=c, v=0.7, parity=False) == pytest.approx(
            expected, rel=1e-12
        )


def test_l1_is_exact_beyond_64_bits():
    S, n, A, c = [2**43 + 1, -(2**42) + 3, 5], 10_000, 2**41, 2**30
    k = np.arange(0, 4100)
    direct = min(sum(max(abs(s) - 2 * c * int(j), 0) ** 2 for s in S) + 4 * c * A * int(j) for j in k)
    assert e.l1_cost(np.array(S), n, A, c, parity=False) == direct


@pytest.mark.parametrize(("n", "d"), [(2, 2), (5, 2), (6, 2), (4, 3), (5, 3), (7, 1)])
def test_l1_exhaustively(n, d):
    """4cA-Lipschitz for signs, and T exactly where the documented excess is at most A."""
    _, all_data = datasets(n, d)
    for A in (0, 1, 2, 5, n * d // 2, n * d):
        h = {X: e.l1_extension(np.array(X).sum(axis=0), n, A) for X in all_data}
        for group in neighbour_groups(n, d):
            values = [h[X] for X in group]
            assert max(values) - min(values) <= 4 * A
        for X in all_data:
            S = np.array(X).sum(axis=0)
            assert (h[X] == plain_statistic(X)) == (e.l1_excess(S, n) <= A)
            assert e.l1_excess(S, n) <= np.abs(S).sum()


def test_l1_lipschitz_for_lattice_rows():
    """Integer rows in {-2..2}, all sums and replacements: h moves by at most 4cA, whatever the floor."""
    c, n = 2, 3
    for A, parity in itertools.product((0, 1, 3), (False, True)):
        h = {
            S: e.l1_cost(np.array(S), n, A, c, parity)
            for S in itertools.product(range(-c * n, c * n + 1), repeat=2)
        }
        rows = list(itertools.product(range(-c, c + 1), repeat=2))
        for rest in itertools.product(range(-c * (n - 1), c * (n - 1) + 1), repeat=2):
            values = [h[rest[0] + u[0], rest[1] + u[1]] for u in rows]
            assert max(values) - min(values) <= 4 * c * A


def test_parity_floor_is_for_signs_only():
    # S = 0 from three real rows: T = -ndv, and the floor m = 1 raises h by d above it.
    S = np.zeros(2)
    assert e.l1_extension(S, 3, 5.5, v=0.25, parity=False) == -1.5
    assert e.l1_extension(S, 3, 5.5, v=0.25, parity=True) == 0.5


def test_constant_bounds_are_attained():
    # One row flips at S = n on every coordinate: h moves by 4A or by T's own change, whichever is smaller.
    n, d, A = 20, 3, 10
    S = np.full(d, n)
    assert e.l1_extension(S, n, A) - e.l1_extension(S - 2, n, A) == 4 * A
    assert math.isclose(e.l1_excess(S, n), d * (n - 1))
