"""Declared categories: a row's code depends on that row alone, in every container."""

from __future__ import annotations

import itertools
import math
import traceback
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpstats.data.levels import Bins, Categories
from dpstats.errors import InvalidData, InvalidParameter
from tests.data.awkward import COLUMNS, VALUES, Colour, Raises, beside

DECLARED = [
    1,
    2,
    2**53 + 1,
    0.5,
    "a",
    "1",
    b"1",
    None,
    np.datetime64("2020-01-02"),
    (1, "a"),
    Colour.RED,
    2**64 + 1,
]
CATEGORIES = Categories(DECLARED)


@pytest.mark.parametrize("kind", COLUMNS)
def test_the_code_of_a_row_is_its_code_alone(kind):
    column, values = COLUMNS[kind]
    alone = [int(CATEGORIES.codes(column([value]))[0]) for value in values]
    places = list(range(len(values)))
    for table in beside(places):
        codes = CATEGORIES.codes(column([values[i] for i in table]))
        assert codes.dtype == np.int64 and codes.tolist() == [alone[i] for i in table]


@pytest.mark.parametrize("kind", [kind for kind in COLUMNS if kind not in ("iterator", "polars zoned")])
def test_a_container_of_one_type_gives_what_its_items_give(kind):
    # The fast way and the slow one, bit for bit; pyarrow's own items are no values yet.
    column, values = COLUMNS[kind]
    made = column(list(values))
    # An item of a column of categories comes out of an array that numpy made of all of them.
    items = (
        list(values)
        if "categories" in kind
        else made.to_pylist()
        if hasattr(made, "to_pylist")
        else list(made)
    )
    if kind.startswith("polars Datetime"):
        items = list(
            made.to_numpy()
        )  # Python's times have no nanoseconds, and numpy's no zone: left out above
    assert CATEGORIES.codes(made).tolist() == CATEGORIES.codes(items).tolist()


def test_codes():
    rows = [
        1,
        1.0,
        True,
        np.int8(1),
        2,
        2**53 + 1,
        2.0**53,
        "a",
        b"a",
        "1",
        b"1",
        None,
        math.nan,
        [1],
        Raises(),
    ]
    codes = [0, 0, 0, 0, 1, 2, -1, 4, -1, 5, 6, 7, 7, -1, -1]
    assert CATEGORIES.codes(rows).tolist() == codes
    assert Categories([1, 2, 3, "refused"]).codes([3, "refused", "3", 1]).tolist() == [2, 3, -1, 0]
    assert Categories([True, False]).codes(np.array([False, True])).tolist() == [1, 0]
    assert Categories([b"x"]).codes([b"x", 0.5, "x"]).tolist() == [0, -1, -1]
    assert Categories([0.5]).codes([0.5, 2**53 + 1]).tolist() == [0, -1]
    assert Categories([-1]).codes([2**63 + 1, -1]).tolist() == [-1, 0]
    assert Categories([1]).codes([]).tolist() == []


def test_masked_entries_are_missing_and_never_what_they_hide():
    data = np.ma.masked_array([1, 2, 1], mask=[True, False, False])
    assert Categories([1, 2]).codes(data).tolist() == [-1, 1, 0]
    assert Categories([1, None]).codes(data).tolist() == [1, -1, 0]
    records = np.ma.masked_array(
        np.array([(1, 2), (1, 2)], dtype="i4,i4"), mask=[(False, True), (False, False)]
    )
    assert Categories([(1, 2)]).codes(records).tolist() == [-1, 0]
    assert Categories([(1, 2), None]).codes([np.ma.masked, (1, 2)]).tolist() == [1, 0]


def test_times_are_equal_by_instant_whatever_the_unit():
    category = Categories([np.datetime64("2020-01-02", "ns"), "2020"])
    assert category.values[0] == np.datetime64("2020-01-02")  # no integer of nanoseconds
    rows = [
        np.datetime64("2020-01-02", "D"),
        np.datetime64("2020-01-02", "s"),
        pd.Timestamp("2020-01-02"),
        "2020",
    ]
    assert category.codes(rows).tolist() == [0, 0, 0, 1]
    assert category.codes([1577923200000000000]).tolist() == [-1]


def test_nothing_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CATEGORIES.codes(VALUES)


@pytest.mark.parametrize("data", ["abc", b"abc", 3, None, {"a": 1}, {1, 2}, np.ones((2, 2)), np.array(1)])
def test_what_is_no_column_is_refused(data):
    with pytest.raises(InvalidData, match=r"^data must be a 1-d sequence of values, one for each row$"):
        CATEGORIES.codes(data)
    with pytest.raises(InvalidData, match=r"^data must be a 1-d sequence"):
        CATEGORIES.codes(pd.DataFrame({"a": [1], "b": [2]}))


def test_a_container_that_raises_shows_nothing():
    def rows():
        yield 1
        raise ValueError("secret")

    with pytest.raises(InvalidData, match="got a ValueError on reading it") as caught:
        CATEGORIES.codes(rows())
    assert caught.value.__context__ is None and caught.value.__cause__ is None
    assert "secret" not in "".join(traceback.format_exception_only(caught.value))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([1, 1.0], "categories must be distinct, got a list of 2 with one twice"),
        ([None, math.nan], "categories must be distinct, got a list of 2 with one twice"),
        ([True, 1], "categories must be distinct"),
        ([], "categories must not be empty"),
        ("ab", "categories must be a sequence"),
        (5, "categories must be a sequence"),
        (np.array(5), "categories must be a sequence"),
        ([[1]], "categories must be hashable values, got list"),
        (np.ones((2, 2)), "categories must be hashable values, got ndarray"),
    ],
)
def test_bad_categories(values, words):
    with pytest.raises(InvalidParameter, match=words):
        Categories(values)


def test_all_small_tables_of_values_that_were_confused():
    # Every pair of these once gave one of them another type.
    values = [
        1,
        "x",
        0.5,
        b"1",
        2**53 + 1,
        2**63 + 1,
        -1,
        True,
        None,
        [1],
        [1, 2],
        np.datetime64("2020-01-02", "ns"),
    ]
    alone = [int(CATEGORIES.codes([value])[0]) for value in values]
    for places in itertools.product(range(len(values)), repeat=3):
        assert CATEGORIES.codes([values[i] for i in places]).tolist() == [alone[i] for i in places]


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
