"""Concordance of rows: counted by order, it equals the count over all pairs."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.covariance.private_correlation import concordance, ranks, smaller_predecessors


def over_pairs(x: np.ndarray, y: np.ndarray) -> list[int]:
    """Return the sums from their definition, sorted."""
    signs = np.sign(x[:, None] - x) * np.sign(y[:, None] - y)
    return sorted(signs.sum(axis=1).astype(int).tolist())


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 9, 33, 64, 65, 200])
@pytest.mark.parametrize("values", [1, 2, 3, 20, 10**6])
def test_it_equals_the_count_over_all_pairs(n: int, values: int) -> None:
    # From constant columns to columns without ties.
    rng = np.random.default_rng(n)
    for few in (values, 2):
        x, y = rng.integers(0, values, size=n), rng.integers(0, few, size=n)
        for second in (y, x, -x):
            found = concordance(ranks(x.astype(float)), ranks(second.astype(float)))
            assert sorted(found.tolist()) == over_pairs(x, second)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 16, 17, 100])
def test_smaller_predecessors_are_counted(n: int) -> None:
    order = np.random.default_rng(n).permutation(n)
    assert smaller_predecessors(order).tolist() == [int((order[:k] < order[k]).sum()) for k in range(n)]


def test_entries_that_are_equal_have_one_rank() -> None:
    assert ranks(np.array([0.0, -0.0, -1e308, 5e-324, 1e308])).tolist() == [1, 1, 0, 2, 3]
