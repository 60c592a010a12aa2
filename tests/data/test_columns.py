"""Columns of booleans; what is read of other columns is tested in test_categories.py."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dpstats.data.columns import distinct, truths
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


@pytest.mark.parametrize(
    "data", [[1, 0], [True, 1], ["True"], np.array([1]), pl.Series([1]), [[True]], [True, "4242"]]
)
def test_what_is_no_boolean_is_refused(data):
    with pytest.raises(InvalidData, match=r"^condition must be a 1-d sequence of booleans") as caught:
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
