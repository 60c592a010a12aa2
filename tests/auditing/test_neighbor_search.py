"""The worst of the neighbors that are tried."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpstats.auditing import worst_neighbor
from dpstats.errors import InvalidParameter
from dpstats.means import ClippedMean
from dpstats.quantiles import PrivateQuantile


def test_the_worst_of_the_neighbors_that_are_tried() -> None:
    # The median of 5 numbers of [0, 10] moves by the larger gap beside it.
    x = np.array([1.0, 2.0, 4.0, 7.0, 8.0])
    worst = worst_neighbor(np.median, x, [0.0, 10.0], sensitivity=3.0)
    assert worst.ok and worst.ratio == 1.0 and worst.neighbor == "row 0 replaced by candidate 1"
    assert worst_neighbor(np.median, x, [0.0, 10.0], rows=[4], sensitivity=3.0).ratio == pytest.approx(2 / 3)
    assert worst_neighbor(np.median, x, [0.0, 10.0], sensitivity=2.9).violated
    mean = ClippedMean(clip=1.0, std=1.0)
    assert worst_neighbor(mean, np.full((5, 2), -1.0), [[1.0, 1.0], [0.0, 9.0]], rows=[0, 2]).ratio == 1.0
    quantile = PrivateQuantile(0.5, bounds=(0, 10), step=1.0)
    assert worst_neighbor(quantile, np.array([1.0, 2.0, 4.0, 7.0, 8.0]), [0.0, 10.0]).ok


@pytest.mark.parametrize(
    ("rows", "candidate"),
    [(np.zeros(4, int), 1.9), (np.zeros(4, np.uint8), 257), (np.zeros(4, bool), 50.0), ([0, 1, 0], -0.9)],
)
def test_candidates_are_tried_as_they_are(rows: Any, candidate: Any) -> None:
    assert worst_neighbor(lambda x: float(np.sum(x)), rows, [candidate], sensitivity=0.5).violated


def test_rows_and_candidates_need_a_common_type() -> None:
    for rows, candidates in (
        (np.zeros(3), np.array(["a"])),
        (np.zeros(3), np.array([None])),
        (np.array([2**53 + 1]), [0.5]),
    ):
        with pytest.raises(InvalidParameter, match="candidates must"):
            worst_neighbor(np.sum, rows, candidates, sensitivity=1.0)
    with pytest.raises(InvalidParameter, match="rows must"):
        worst_neighbor(np.sum, np.ones(4), [0.0], rows=[9], sensitivity=1.0)
    with pytest.raises(InvalidParameter, match="a row and a candidate, got 4 rows and 0 candidates"):
        worst_neighbor(np.sum, np.ones(4), np.zeros(0), sensitivity=1.0)
