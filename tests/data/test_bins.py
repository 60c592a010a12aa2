"""Bins of numbers: numpy's convention at the edges, each number by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpstats.data.bins import Bins
from dpstats.errors import InvalidData, InvalidParameter


def test_edges_are_numpys() -> None:
    edges = [0, 1, 2.5, 4]
    values = [0, 0.5, 1, 2.4999, 2.5, 4, 3]
    bins = Bins(edges)
    assert len(bins) == 3 and bins.values == ("[0, 1)", "[1, 2.5)", "[2.5, 4]")
    codes = bins.codes(values)
    assert np.array_equal(np.bincount(codes), np.histogram(values, edges)[0])
    assert codes.tolist() == [0, 0, 1, 1, 2, 2, 2]


def test_what_is_outside_or_missing() -> None:
    assert Bins([0, 1]).codes([-0.001, 1.0001, np.nan, None, np.inf, -np.inf, 1]).tolist() == [-1] * 6 + [0]
    assert Bins([0, 1]).codes(pd.Series([0.5, None])).tolist() == [0, -1]


@pytest.mark.parametrize(
    "edges", [[1], [], 3, "ab", [0, 0], [1, 0], [0, np.nan], [0, np.inf], [[0, 1]], [0, "x"], None], ids=str
)
def test_bad_edges(edges: Any) -> None:
    with pytest.raises(InvalidParameter, match="bins must be"):
        Bins(edges)


@pytest.mark.parametrize("data", [["a", 1], "abc", [[1, 2]], np.zeros((2, 2))], ids=str)
def test_what_is_no_number(data: Any) -> None:
    with pytest.raises(InvalidData):
        Bins([0, 1]).codes(data)
