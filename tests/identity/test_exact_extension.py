"""The exact extension: known values, enumeration against integer programs and brute force."""

import itertools
import tracemalloc

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.identity import by_extension as exact_extension
from dpstats.identity.by_extension import exact_inner_product_extension
from tests.identity.sign_datasets import FIRST, SECOND, datasets, distance, inside_set, plain_statistic


@pytest.mark.parametrize("method", ["enumerate", "milp"])
def test_exact_values_at_the_counterexample(method):
    # With 4 Delta the minimum over C is private but not T on C; with K(4) = 22 it is.
    assert exact_inner_product_extension(FIRST, 4, 16, method) == 4
    assert exact_inner_product_extension(FIRST, 4, 22, method) == 12
    assert exact_inner_product_extension(SECOND, 4, 22, method) == -28


@pytest.mark.parametrize("method", ["enumerate", "milp"])
def test_exact_values_of_equal_rows(method):
    X = np.ones((4, 2), dtype=int)
    values = [exact_inner_product_extension(X, Delta, 4 * Delta, method) for Delta in (2, 4, 8)]
    assert values == [8, 16, 24]


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
                    assert exact_inner_product_extension(X, Delta, constant, method) == expected


def test_programs_agree_with_enumeration_at_random():
    rng = np.random.default_rng(5)
    for _ in range(6):
        n = int(rng.integers(6, 10))
        X = np.where(rng.random((n, 3)) < rng.random(3), 1, -1)
        Delta, constant = float(rng.integers(3, 12)), float(rng.integers(1, 50))
        both = [exact_inner_product_extension(X, Delta, constant, m) for m in ("enumerate", "milp")]
        assert both[0] == both[1]


def test_method_is_public_and_large_data_is_refused():
    X = np.ones((30, 3), dtype=int)
    with pytest.raises(ValueError, match="method must"):
        exact_inner_product_extension(X, 10, 10, "enumerate")
    with pytest.raises(ValueError, match=r"^X must"):
        exact_inner_product_extension(np.ones((100, 20), dtype=int), 10, 10)
    with pytest.raises(ValueError, match="Delta must"):
        exact_inner_product_extension(np.ones((3, 1), dtype=int), 0, 1)


def test_method_is_one_of_those_there_are():
    with pytest.raises(InvalidParameter, match="method must"):
        exact_inner_product_extension(FIRST, 4, 22, "foo")


def test_integer_programs_work_in_blocks(monkeypatch):
    X = np.random.default_rng(0).choice([-1, 1], (7, 6))
    tracemalloc.start()
    whole = exact_inner_product_extension(X, 20, 50, "milp")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # 8^6 sums times 64 patterns are 134 MB in one piece of eight bytes each.
    assert peak < 50e6
    small = exact_extension._sums_at(np.arange(27), 2, 3)
    assert small.tolist() == [list(S) for S in itertools.product((-2, 0, 2), repeat=3)]
    monkeypatch.setattr(exact_extension, "_SUMS_AT_ONCE", 5)
    first = exact_inner_product_extension(FIRST[:5], 4, 22, "milp")
    assert first == exact_inner_product_extension(FIRST[:5], 4, 22, "enumerate")
    assert whole == -36.0
