"""Columns of booleans; what is read of other columns is tested in test_categories.py."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dpstats.data.columns import distinct, truths
from dpstats.data.schema import Categories
from dpstats.data.values import bool_of
from dpstats.errors import InvalidData
from tests.data.awkward import VALUES

TRUTHS = {
    "list": [True, None, False, True],
    "numpy's bools": [np.True_, np.float64("nan"), np.False_, np.array(True)],
    "objects": np.array([True, pd.NA, False, np.True_], dtype=object),
    "pandas boolean": pd.Series([True, None, False, True], dtype="boolean"),
    "pandas objects": pd.Series([True, None, False, True], dtype=object),
    "polars": pl.Series([True, None, False, True]),
    "masked": np.ma.masked_array([True, True, False, True], mask=[False, True, False, False]),
}


@pytest.mark.parametrize("kind", TRUTHS)
def test_a_missing_boolean_is_not_true(kind):
    assert truths("condition", TRUTHS[kind]).tolist() == [True, False, False, True]


def test_arrays_of_booleans():
    assert truths("condition", np.array([True, False])).tolist() == [True, False]
    for empty in ([], (), np.array([]), pl.Series([]), pd.Series([], dtype=bool)):
        assert truths("condition", empty).tolist() == []


@pytest.mark.parametrize("data", [[1, 0], [True, 1], ["True"], np.array([1]), pl.Series([1]), [[True]], [True, "4242"]])
def test_what_is_no_boolean_is_refused(data):
    with pytest.raises(InvalidData, match=r"^condition must") as caught:
        truths("condition", data)
    assert "4242" not in str(caught.value) and caught.value.__context__ is None


def test_one_value_decides_nothing_for_another():
    for value in VALUES:
        alone = bool_of(value)
        if alone is None:
            with pytest.raises(InvalidData):
                truths("condition", [True, value])
        else:
            assert truths("condition", [True, value, False]).tolist() == [True, alone, False]


def test_an_array_is_gathered_by_value_and_a_list_is_not():
    values, where = distinct("data", np.array([3, 1, 3]))
    assert values == [1, 3] and where.tolist() == [1, 0, 1]
    data = [3, 1, 3]
    assert distinct("data", data) == (data, None)


TEXTS = np.array(["b", "a", "", "bb", "a", "é", "\U0001f600", "a b"])


@pytest.mark.parametrize(
    "array",
    [
        np.array([3, 1, 3, -7]),
        np.arange(-128, 128).astype(np.int8),
        np.array([2**64 - 1, 2**64 - 3, 2**64 - 1], dtype=np.uint64),
        np.array([-(2**63), 2**63 - 1, 0]),
        np.array([5, 1, 5], dtype=">i2"),
        np.array([True, True]),
        np.array([0, 1 << 20, 0]),
        np.array([], dtype=np.int64),
        TEXTS,
        TEXTS[::-2],
        TEXTS.astype(">U9"),
        np.array([text.encode() for text in TEXTS.tolist()]),
        np.array(["", ""]),
        np.array(["x" * 40, "y", "x" * 40]),
        np.array([chr(0x4E00 + 7 * place) for place in range(5000)]),
        np.array([f"{place:06d}" for place in range(70_000)]),
    ],
)
def test_entries_that_are_ranked_are_those_that_are_sorted(array) -> None:
    values, where = distinct("data", array)
    expected, places = np.unique(array, return_inverse=True)
    assert values == expected.tolist() and where.dtype == np.int64
    np.testing.assert_array_equal(where, places)


@pytest.mark.parametrize("kind", ["string[pyarrow]", pd.StringDtype("python")])
def test_columns_of_text_are_their_dictionary(kind) -> None:
    column = ["b", None, "a", "b"]
    values, where = distinct("data", pd.Series(column, dtype=kind))
    assert [values[place] for place in where] == column and len(values) == 3
    assert Categories(["a", None, "b"]).codes(pd.Series(column, dtype=kind)).tolist() == [2, 1, 0, 2]


def test_text_that_arrow_cannot_hold_is_read_row_by_row() -> None:
    column = pd.Series(["\ud800", "a", None], dtype=pd.StringDtype("python"))
    assert Categories(["a", "\ud800"]).codes(column).tolist() == [1, 0, -1]


class Unequal(str):
    """A text that refuses to be compared."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        raise AssertionError("two rows were compared")


def test_rows_of_a_foreign_class_are_not_compared() -> None:
    rows = np.array(["a", Unequal("a"), "b", None, Unequal("a")], dtype=object)
    alone = [int(Categories(["a", "b"]).codes(rows[[place]])[0]) for place in range(len(rows))]
    assert Categories(["a", "b"]).codes(rows).tolist() == Categories(["a", "b"]).codes(rows.tolist()).tolist() == alone
