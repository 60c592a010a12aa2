"""Linear queries: exact sums, values that are checked, and shattered sets against all of them."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.queries import LinearQueries
from dpstats.queries.linear import FRACTION_BITS, exact_product, query_values, vc_dimension


def test_answers_and_transpose_are_those_of_the_matrix() -> None:
    rng = np.random.default_rng(0)
    matrix = np.rint(rng.random((7, 11)) * 2**FRACTION_BITS) / 2**FRACTION_BITS
    queries = LinearQueries.from_matrix(matrix, [f"q{j}" for j in range(7)])
    x, w = rng.normal(size=11), rng.normal(size=7)
    assert queries.answers(x) == pytest.approx(matrix @ x, rel=1e-13)
    assert queries.transpose(w) == pytest.approx(w @ matrix, rel=1e-13)
    assert (len(queries), queries.n_queries, queries.size) == (7, 7, 11)
    assert queries.label(3) == "q3" and np.array_equal(queries.query(3), matrix[3])
    assert not queries.is_counting and queries.vc_dimension is None
    assert repr(queries) == "MatrixQueries(7 linear queries on 11 points)"
    assert LinearQueries.from_matrix(matrix).label(0) == "query 0"
    with pytest.raises(InvalidParameter, match=r"^j must"):
        queries.query(7)


def test_counts_are_answered_exactly_whatever_the_order() -> None:
    rng = np.random.default_rng(1)
    thirds = np.full((1, 300), 1 / 3)
    counts = rng.multinomial(2**32, np.full(300, 1 / 300))
    queries = LinearQueries.from_matrix(thirds)
    step = round(2**FRACTION_BITS / 3)
    # Exact, by Python's integers, and the same in every order: sums of thirds are neither.
    (answer,) = queries.answers(counts)
    assert answer == sum(int(c) * step for c in counts) / 2**FRACTION_BITS
    orders = [rng.permutation(300) for _ in range(20)]
    assert {float(np.cumsum(queries.query(0)[o] * counts[o])[-1]) for o in orders} == {answer}
    assert len({float(np.cumsum(thirds[0, o] * counts[o])[-1]) for o in orders}) > 1


def test_counting_queries_answer_in_whole_numbers() -> None:
    queries = LinearQueries.from_matrix([[1, 0, 1], [0, 1, 1]])
    assert queries.is_counting
    answers = queries.answers(np.array([3, 4, 5]))
    assert answers.dtype == np.int64 and answers.tolist() == [8, 9]
    assert queries.answers(np.array([0.5, 0.25, 0.25])).dtype == np.float64
    # Beyond 2^53 floats would lose the last row.
    huge = np.array([2**60, 1, 0])
    assert queries.answers(huge).tolist() == [2**60, 1]
    assert exact_product(np.ones((1, 3)), huge, whole=True).tolist() == [2**60 + 1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([[0.0, 1.5]], r"Q must have values in \[0, 1\], got another at position \(0, 1\)"),
        ([[0.0, -0.1]], r"got another at position"),
        ([[0.0, np.nan]], r"got another at position"),
        ([0.0, 1.0], r"Q must be numbers in \[0, 1\] of shape \(n_queries, size\), got shape \(2,\)"),
        ([[0.0], [1.0, 0.0]], r"Q must be numbers"),
        ([["a"]], r"Q must be numbers"),
        ([[]], r"Q must be numbers"),
    ],
)
def test_what_is_no_query_is_refused(given: Any, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        LinearQueries.from_matrix(given)


def test_other_wrong_input_is_refused() -> None:
    queries = LinearQueries.from_matrix(np.eye(3))
    with pytest.raises(InvalidParameter, match=r"^x must"):
        queries.answers(np.zeros(4))
    with pytest.raises(InvalidParameter, match=r"^w must"):
        queries.transpose(["a", "b", "c"])
    with pytest.raises(InvalidParameter, match="query must"):
        query_values("query", np.zeros(4), 1, 5)
    for labels in (["a"], ["a"] * 4, "abc", ["a", "b", 3], ["a", "b", None]):
        with pytest.raises(InvalidParameter, match="labels must"):
            LinearQueries.from_matrix(np.eye(3), labels)


def test_a_query_cannot_be_changed_after_it_was_checked() -> None:
    given = np.eye(3)
    queries = LinearQueries.from_matrix(given)
    given[0, 0] = 7.0
    assert queries.query(0)[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        queries.query(0)[0] = 7.0


def brute_force_vc(matrix: np.ndarray) -> int:
    """Return the dimension by its definition."""
    found = 0
    for d in range(1, matrix.shape[1] + 1):
        for points in combinations(range(matrix.shape[1]), d):
            if len({tuple(row) for row in matrix[:, points].tolist()}) == 2**d:
                found = d
    return found


def test_vc_dimension_is_that_of_its_definition() -> None:
    rng = np.random.default_rng(2)
    for _ in range(30):
        matrix = rng.integers(2, size=(rng.integers(1, 20), rng.integers(1, 7)))
        assert vc_dimension(matrix.astype(float)) == brute_force_vc(matrix)
    # Intervals: 2, as in the text's example; all subsets: the size; a single query: 0.
    intervals = [[float(a <= i < b) for i in range(8)] for a in range(9) for b in range(a, 9)]
    assert LinearQueries.from_matrix(intervals).vc_dimension == 2
    subsets = (np.arange(32)[:, None] >> np.arange(5)) & 1
    assert LinearQueries.from_matrix(subsets).vc_dimension == 5
    assert LinearQueries.from_matrix([[1.0, 0.0]]).vc_dimension == 0


@pytest.mark.parametrize("values", [10**400, [10**400, 0], [[10**400, 0]]])
def test_values_beyond_all_floats_are_refused(values: Any) -> None:
    with pytest.raises(InvalidParameter, match="queries must"):
        query_values("queries", values, 2)


def test_families_are_registered_by_name() -> None:
    class Own(LinearQueries):
        """A family without a name."""

    assert Own not in LinearQueries._families.values() and None not in LinearQueries._families
