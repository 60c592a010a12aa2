"""Tables of labels: every container, entry by entry; what a row is depends on that row alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from dpstats.data.attributes import codes_of, rows_stated

from dpstats.data.categories import Categories
from dpstats.errors import InvalidData

KINDS = [Categories(["a", "b"]), Categories([1, 2, None])]
ROWS = [("a", 1), ("b", None), ("c", 2), ("a", 3)]
CODES = [[0, 0], [1, 2], [-1, 1], [0, -1]]
POLARS = pl.DataFrame({"z": [9, 9, 9, 9], "y": [1, None, 2, 3], "x": ["a", "b", "c", "a"]})
FRAME = pd.DataFrame({"z": [9, 9, 9, 9], "y": [1, None, 2, 3], "x": ["a", "b", "c", "a"]})


@pytest.mark.parametrize(
    ("X", "names"),
    [
        (ROWS, None),
        ([list(row) for row in ROWS], None),
        (iter(ROWS), None),
        (np.array(ROWS, dtype=object), None),
        ([np.array(row, dtype=object) for row in ROWS], None),
        (FRAME, ["x", "y"]),
        (FRAME[["x", "y"]], None),
        (POLARS, ["x", "y"]),
        (POLARS.lazy(), ["x", "y"]),
    ],
)
def test_every_container(X: Any, names: Any) -> None:
    assert codes_of(X, KINDS, names).tolist() == CODES


@pytest.mark.parametrize(
    "X",
    [["a", "b", None], [["a"], ("b",), None], np.array(["a", "b", "c"]), np.array([["a"], ["b"], ["c"]])],
    ids=str,
)
def test_a_single_column(X: Any) -> None:
    assert codes_of(X, KINDS[:1]).tolist() == [[0], [1], [-1]]


def test_a_row_is_read_by_itself() -> None:
    # Another row in place of the last moves no other, whatever it is.
    first = codes_of(["a", "b", ["b"]], KINDS[:1])[:2]
    for other in ("a", 1, None, ["a"], ["a", "b"], {"a": 1}, 2.5):
        assert np.array_equal(codes_of(["a", "b", other], KINDS[:1])[:2], first)


@pytest.mark.parametrize(
    ("X", "words"),
    [
        ("ab", "table of labels"),
        ({"a": 1}, "table of labels"),
        (3, "table of labels"),
        ([("a", 1), ("b",)], "2 entries"),
        ([("a", 1), "b1"], "2 entries"),
        (np.zeros((3, 3)), r"\(3, 3\)"),
        (np.zeros(3), r"\(3,\)"),
        (FRAME, "2 columns"),
        (FRAME.set_axis(["x", "x", "y"], axis=1), "a name of its own"),
    ],
    ids=str,
)
def test_what_is_no_such_table(X: Any, words: str) -> None:
    with pytest.raises(InvalidData, match=words):
        codes_of(X, KINDS)


def test_a_missing_column() -> None:
    with pytest.raises(InvalidData, match="'w'"):
        codes_of(FRAME, KINDS, ["x", "w"])


def test_sizes_that_are_stated() -> None:
    assert (
        rows_stated(ROWS)
        == rows_stated(FRAME)
        == rows_stated(np.zeros((4, 2)))
        == rows_stated(np.zeros(4))
        == 4
    )
    assert rows_stated(iter(ROWS)) is None
