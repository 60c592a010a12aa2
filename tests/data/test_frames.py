"""Columns of data frames by their names, of pandas and polars alike."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pytest

from dpstats.data.frames import column, label_and_columns, select, take
from dpstats.errors import InvalidData, InvalidParameter

DATA = {"a": [1.0, 2.0], "g": ["x", "y"], "b": [3.0, 4.0]}
frames = pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])


@frames
def test_labels_and_columns(kind: type) -> None:
    frame = kind(DATA)
    X, labels = label_and_columns(frame, "g")
    assert list(X.columns) == ["a", "b"] and list(labels) == ["x", "y"] and isinstance(X, kind)
    assert list(label_and_columns(frame, "g", bounds={"b": (0, 1)})[0].columns) == ["b"]
    assert list(label_and_columns(frame, "g", columns="a", bounds={"b": (0, 1)})[0].columns) == ["a"]
    assert list(take(frame, "g", [1, 0])) == ["y", "x"]
    assert list(column(select(frame, ["b"]), "b")) == [3.0, 4.0]


@frames
def test_what_is_refused(kind: type) -> None:
    frame = kind(DATA)
    for given, message in (
        ({"columns": ["a", "a"]}, "columns must name each column once"),
        ({"columns": []}, "columns must name at least one"),
        ({"columns": ["g"]}, "columns must not have 'g', which is given as by"),
        ({"columns": ["q"]}, "columns must name columns of the data frame"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            label_and_columns(frame, "g", **given)
    with pytest.raises(InvalidData, match="X must be a data frame"):
        label_and_columns([[1.0]], "g")


def test_two_columns_of_one_name_are_refused() -> None:
    frame = pd.DataFrame([[1, 2, 3]], columns=["g", "g", "x"])
    with pytest.raises(InvalidParameter, match="by must name columns"):
        label_and_columns(frame, "g")
