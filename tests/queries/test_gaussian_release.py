"""Any queries by one Gaussian release: the distance of columns, exact answers, and the nearest distribution."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dpstats.data.rows import Table
from dpstats.errors import InvalidParameter
from dpstats.queries import Domain, LinearQueries, WorkloadAnswers
from dpstats.queries import workload as gaussian_release
from dpstats.queries.workload import ANSWERS, GaussianRelease, squared_column_distance


def largest(matrix: np.ndarray) -> float:
    return max(float(((a - b) ** 2).sum()) for a, b in itertools.combinations(matrix.T, 2))


@pytest.mark.parametrize(
    "queries",
    [
        LinearQueries.prefixes(7),
        LinearQueries.ranges(6),
        LinearQueries.parities(3, 2),
        LinearQueries.from_matrix(np.random.default_rng(0).random((9, 5))),
    ],
    ids=repr,
)
def test_the_distance_is_that_of_all_pairs_of_columns(queries: LinearQueries, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = np.array([queries.query(j) for j in range(len(queries))])
    found = squared_column_distance(queries) / 2**40
    assert largest(matrix) <= found <= largest(matrix) * (1 + 1e-9)
    # On many points a bound, which is not below it.
    monkeypatch.setattr(gaussian_release, "_PAIRWISE", 2)
    assert squared_column_distance(queries) / 2**40 == len(queries) >= found


def test_answers_reach_the_noise_exactly() -> None:
    queries = LinearQueries.from_matrix([[1 / 3, 1, 0], [0, 0.5, 1]])
    release = GaussianRelease(queries, Domain([3]), 5)
    steps = release.integers(Table(np.array([[0], [0], [1], [2], [2]])))[ANSWERS]
    third = round(2**20 / 3)
    assert steps.dtype == np.int64 and steps.tolist() == [2 * third + 2**20, 2**19 + 2**21]
    counting = GaussianRelease(LinearQueries.prefixes(3), Domain([3]), 2)
    assert counting.integers(Table(np.array([[0], [2]])))[ANSWERS].tolist() == [2**20, 2**20, 2**21]


def test_point_answers_are_those_of_a_distribution_and_nearer() -> None:
    rng = np.random.default_rng(1)
    x = np.bincount(rng.binomial(63, 0.3, size=2000), minlength=64)
    queries = LinearQueries.ranges(64, np.sort(rng.integers(64, size=(400, 2)), axis=1))
    truth = queries.answers(x) / 2000
    errors = []
    for seed in range(5):
        made = WorkloadAnswers(workload=queries, epsilon=0.5, random_state=seed).fit(x)
        errors.append([np.abs(found - truth).mean() for found in (made.answers_, made.linear_, made.uniform_)])
    nearest, unbiased, uniform = np.mean(errors, axis=0)
    assert nearest < 0.5 * unbiased and nearest < 0.5 * uniform
    # Any other queries on the same points.
    assert made.predict(LinearQueries.prefixes(64))[-1] == pytest.approx(1.0)


def test_too_many_points_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="at most 1,048,576 points"):
        WorkloadAnswers(workload=LinearQueries.ranges(1 << 21, [(0, 5)]), domain=[(1 << 10), (1 << 11)]).plan(100)
