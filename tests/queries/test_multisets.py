"""Small databases: all of them, and how many rows are enough, by brute force."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.queries import LinearQueries
from dpstats.textbook import build_net
from dpstats.textbook import error_bounds as multisets_module
from dpstats.textbook.error_bounds import (
    MOST_DATABASES,
    _thinned,
    check_net,
    database_size,
    multisets,
    n_multisets,
    net_accuracy,
    rounded_size,
    sampled_size,
    shattered_size,
)


@pytest.mark.parametrize(("size", "m"), [(1, 3), (2, 5), (4, 3), (5, 2)])
def test_multisets_are_all_of_them(size: int, m: int) -> None:
    found = multisets(size, m)
    every = {row for row in product(range(m + 1), repeat=size) if sum(row) == m}
    assert len(found) == n_multisets(size, m) and set(map(tuple, found.tolist())) == every


def test_too_many_databases_are_refused_by_number_and_with_what_to_use() -> None:
    with pytest.raises(InvalidParameter, match=r"there are 10\^\d+ databases of 40 rows on 1,000 points, more than"):
        multisets(1000, 40)
    with pytest.raises(InvalidParameter, match="multiplicative_weights"):
        build_net(LinearQueries.from_matrix(np.eye(64)), 0.01)
    assert n_multisets(4, 20) < MOST_DATABASES


def worst_nearest(queries: LinearQueries, databases: np.ndarray, data: np.ndarray) -> float:
    """Return how far the nearest database is, for the worst of the data."""
    near = np.array([queries.answers(y) for y in databases])
    return max(float(np.abs(near - queries.answers(x)).max(axis=1).min()) for x in data)


def test_enough_rows_are_enough() -> None:
    rng = np.random.default_rng(0)
    data = np.vstack([rng.dirichlet(np.full(4, a), size=60) for a in (0.3, 1.0, 10.0)])
    data = np.vstack([data, multisets(4, 7) / 7])
    subsets = LinearQueries.from_matrix((np.arange(1, 15)[:, None] >> np.arange(4)) & 1)
    for queries in (subsets, LinearQueries.from_matrix(rng.random((3, 4)))):
        for accuracy in (0.3, 0.12):
            m = database_size(accuracy, queries)
            assert worst_nearest(queries, multisets(4, m) / m, data) <= accuracy
            net = build_net(queries, accuracy)
            assert worst_nearest(queries, net, data) <= accuracy
            assert net_accuracy(m, queries) <= accuracy * (1 + 1e-12)
        # One row is not enough: the check can fail.
        assert worst_nearest(queries, multisets(4, 1), data) > 0.12


def test_what_is_left_out_of_a_net_is_near_what_is_kept() -> None:
    rng = np.random.default_rng(0)
    databases = rng.dirichlet(np.ones(4), size=300)
    # One answer of eight may be far off where the others are equal.
    answers = np.hstack([databases[:, :1], np.full((300, 7), 0.5)])
    kept = _thinned(databases, answers, 0.1)
    nearest = np.abs(answers[:, None, 0] - kept[None, :, 0]).min(axis=1)
    assert len(kept) < 20 and nearest.max() <= 0.1 + 1e-9


def test_where_there_are_too_many_to_compare_all_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    queries = LinearQueries.from_matrix([[1, 0, 0], [0, 1, 0], [1, 1, 0]])
    thinned = build_net(queries, 0.35)
    number = n_multisets(3, database_size(0.35, queries))
    monkeypatch.setattr(multisets_module, "_MOST_COMPARISONS", 3.0 * number**2 - 1)
    assert len(build_net(queries, 0.35)) == number > len(thinned)


def test_rounding_is_attained() -> None:
    # Half of the points rounded up: shares of 1/(2m) more than whole ones.
    m = 3
    x = np.full(4, 0.25 / m) * 2 + np.array([1, 0, 0, 0]) * (m - 2) / m
    half = LinearQueries.from_matrix((np.arange(1, 15)[:, None] >> np.arange(4)) & 1)
    assert worst_nearest(half, multisets(4, m) / m, x[None]) == pytest.approx(4 / (4 * m))
    assert rounded_size(1 / 3, 4) == 3 and rounded_size(0.25, 4) == 4


def test_sizes_by_their_definitions() -> None:
    # The smallest m with 2 k exp(-2 m a^2) < 1.
    for accuracy, k in ((0.1, 1), (0.1, 100), (0.03, 7)):
        m = sampled_size(accuracy, k)
        assert 2 * k * math.exp(-2 * m * accuracy**2) < 1 <= 2 * k * math.exp(-2 * (m - 1) * accuracy**2)
        assert m < math.log(max(k, 2)) / accuracy**2 or k == 1
    m = shattered_size(0.2, 2)
    bound = [4 * (1 + 2 * n + math.comb(2 * n, 2)) * math.exp(-n * 0.04 / 8) for n in (m - 1, m)]
    assert bound[0] >= 1 > bound[1]


def test_the_vc_dimension_replaces_the_number_of_queries() -> None:
    # Its constants are large: it pays for more queries than anyone writes out.
    assert shattered_size(0.2, 1) < sampled_size(0.2, 10**80)
    assert shattered_size(0.2, 1) > sampled_size(0.2, 10**40)


@pytest.mark.parametrize(
    ("net", "message"),
    [
        ([[1, 0, 0]], r"net must be databases on 2 points, of shape \(n_databases, 2\), got shape \(1, 3\)"),
        ([[1, -1]], "none negative"),
        ([[0, 0]], "not all of a row 0"),
        ([["a", "b"]], "net must be databases"),
        ([[10**400, 1]], "net must be databases"),
        (np.ones((MOST_DATABASES + 1, 2)), "at most 200,000 databases"),
    ],
)
def test_what_is_no_net_is_refused(net: object, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        check_net(net, 2)
    assert check_net([[3, 1]], 2).tolist() == [[0.75, 0.25]]
