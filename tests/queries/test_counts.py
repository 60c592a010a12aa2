"""Private histograms: what is read, what is refused, and integers that a row moves by at most one row."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpstats.data.opening import read_counts
from dpstats.errors import InvalidData
from dpstats.queries import LinearQueries
from dpstats.queries.linear import ROW, data_steps, hypothesis_steps, in_shares


@pytest.mark.parametrize("given", [[2, 0, 3], np.array([2, 0, 3], np.uint8), [2.0, 0.0, 3.0], (2, 0, 3)])
def test_counts_are_read(given: Any) -> None:
    counts = read_counts(given)
    assert counts.X.tolist() == [2, 0, 3] and counts.X.dtype == np.int64 and counts.shape == (5, 3)


@pytest.mark.parametrize(
    "given",
    [
        [1.5, 2],
        [-1, 2],
        [0, 0],
        [np.nan, 1],
        [np.inf, 1],
        [2**31, 1],
        [2**70, 1],
        [[1, 2], [3, 4]],
        [],
        "text",
        ["a", 1],
        [None, 1],
        7,
    ],
)
def test_what_is_no_histogram_is_refused_and_not_shown(given: Any) -> None:
    with pytest.raises(InvalidData, match=r"^X must") as caught:
        read_counts(given)
    assert not any(shown in str(caught.value) for shown in ("1.5", "nan", "text", "-1"))


def test_a_row_moves_an_answer_by_at_most_a_row() -> None:
    rng = np.random.default_rng(0)
    queries = LinearQueries.from_matrix(np.vstack([rng.random((5, 6)), np.eye(2, 6)]))
    exact = [[Fraction(v) for v in queries.query(j).tolist()] for j in range(7)]
    moved = 0
    for _ in range(40):
        counts = rng.integers(0, 2**20, size=6)
        i, j = rng.choice(6, size=2, replace=False)
        other = counts.copy()
        other[i], other[j] = other[i] + 1, max(other[j] - 1, 0)
        if other.sum() != counts.sum():
            continue
        steps = [data_steps(queries, c) for c in (counts, other)]
        # Exact sums, by rational arithmetic.
        expected = [int(sum(v * int(c) for v, c in zip(row, counts, strict=True)) * ROW) for row in exact]
        assert steps[0].tolist() == expected
        moved = max(moved, int(np.abs(steps[0] - steps[1]).max()))
        public = hypothesis_steps(rng.random(7), int(counts.sum()))
        assert np.abs(np.abs(steps[0] - public) - np.abs(steps[1] - public)).max() <= ROW
    assert moved == ROW
    assert in_shares(3 * ROW, 6) == 0.5
