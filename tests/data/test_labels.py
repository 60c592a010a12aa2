"""Names of columns: found without looking at rows, and what labelled parameters do with them."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dpstats.data.parameters import UNIT, by_name, column_names, printable, unit_of
from dpstats.errors import InvalidData, InvalidParameter
from dpstats.means import ClippedMean

SECRET, SECRET_NUMBERS = "secret", [4242.5, 1.0]


def test_labels_that_hold_data_are_not_read():
    for columns in ([SECRET_NUMBERS], (SECRET, "b"), {"a": SECRET_NUMBERS}):
        assert column_names(SimpleNamespace(columns=columns)) is None
    assert column_names(np.ones((2, 2))) is None and column_names([[1]]) is None
    assert column_names(pl.DataFrame({"a": [1], "b": [2]})) == ["a", "b"]
    assert column_names(pd.DataFrame(np.ones((1, 2)))) == [0, 1]


def test_parameters_by_name():
    given = pd.Series([1.0, 2.0], index=["a", "b"])
    assert by_name("mean", given, ["b", "a"]).tolist() == [2.0, 1.0]
    assert by_name("mean", pd.Series([1.0, 2.0]), [1, 0]).tolist() == [2.0, 1.0]
    for unlabelled in ([1.0, 2.0], (1.0, 2.0), np.ones(2), 0.0, None, pd.Series([1.0, 2.0]), pl.Series([1.0, 2.0])):
        assert by_name("mean", unlabelled, ["b", "a"]) is unlabelled
    for names in (None, [0, 1]):
        assert by_name("mean", given, names) is given
    # A table where a vector belongs is left to the check of its shape.
    row = pd.DataFrame({"a": [1.0], "b": [2.0]})
    assert by_name("mean", row, ["b", "a"]) is row
    with pytest.raises(InvalidParameter, match=r"^mean must"):
        by_name("mean", given, ["b", "c"])


def test_a_labeled_matrix_has_both_sides_in_order():
    names = ["x", "y", "z"]
    given = pd.DataFrame(np.arange(9.0).reshape(3, 3), index=["z", "x", "y"], columns=["y", "z", "x"])
    wanted = given.loc[names, names].to_numpy()
    np.testing.assert_array_equal(by_name("cov", given, names), wanted)
    # Labels on one side are those of both.
    square = pd.DataFrame(wanted, index=names).loc[["y", "z", "x"]].to_numpy()[:, [1, 2, 0]]
    np.testing.assert_array_equal(by_name("cov", pd.DataFrame(square, index=["y", "z", "x"]), names), wanted)


def test_what_a_row_is():
    frame = pd.DataFrame({"a": [1.0]})
    assert unit_of(frame) == unit_of(np.ones((2, 2))) == unit_of(pl.DataFrame({"a": [1.0]})) == "row"
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [0, 0, 1]})
    frame.attrs[UNIT] = ("person", 3)
    assert unit_of(frame) == unit_of(frame[["a"]]) == unit_of(frame.iloc[::-1]) == "person"
    # Rows that are others, to which pandas hands the attribute on.
    for rows in (
        frame.loc[frame.index.repeat(2)],
        pd.concat([frame, frame]),
        pd.concat([frame, frame], ignore_index=True),
        frame.sample(3, replace=True, random_state=0),
        frame.melt(),
    ):
        assert unit_of(rows) == "row"
    # Their number depends on the data.
    for fewer in (frame[frame["a"] > 1], frame[:2], frame.dropna().iloc[1:], frame.groupby("b").mean()):
        with pytest.raises(InvalidData, match="You dropped rows: keep them, and use missing='drop' or groups"):
            unit_of(fewer)
    for other in (3, "", " ", "person", ("person",), (" ", 3), (7, 3)):
        frame.attrs[UNIT] = other
        assert unit_of(frame) == "row"


def test_names_are_printed_without_control_characters() -> None:
    X = pd.DataFrame({"a\nEstimator: none\x1b[31m": [1.0, 2.0, 3.0], "b": [1.0, 2.0, 4.0]})
    text = str(ClippedMean(bounds=(0, 5), random_state=0).fit(X).summary())
    assert "\\nEstimator: none\\x1b[31m" in text and "\x1b" not in text
    assert printable("a\nb\t", lines=True) == "a\nb\\t"
