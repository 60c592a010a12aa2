"""Which columns are what is decided by public facts: names, parameters and shapes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dpstats.data import Column, Schema, open_source
from dpstats.data.schema import Categories, column_list
from dpstats.errors import InvalidData, InvalidParameter

NAMES = ["a", "b", "g"]
LABELS = Column("groups", "g", Categories(["u", "v"]), "by")


def test_numbers_are_those_that_are_named_or_bounded_or_all_without_a_role() -> None:
    for schema, numbers in (
        (Schema(), ("a", "b", "g")),
        (Schema(beside=(LABELS,)), ("a", "b")),
        (Schema(("b",), (LABELS,)), ("b",)),
        (Schema(bounds={"b": (0, 1)}), ("b",)),
        (Schema(bounds={"b": (0, 1), "a": (0, 1), "g": (0, 1)}), ("a", "b", "g")),
        (Schema(beside=(LABELS,), bounds={"b": (0, 1), "a": (0, 1)}), ("b", "a")),
    ):
        assert schema.resolve(NAMES).numbers == numbers
    assert Schema().resolve(None).numbers is None
    assert column_list("a") == ("a",) and column_list(["a", "b"]) == ("a", "b") and column_list(None) is None


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (Schema(("c",)), "columns must name columns of X .*, got another at position 0"),
        (Schema(("a", "a")), "columns must name each column once"),
        (Schema(("a", "g"), (LABELS,)), "columns must not have 'g', which is given as by"),
        (Schema((), (LABELS,)), "columns must name at least one column"),
        (Schema(beside=(replace(LABELS, name="h"),)), "by must name columns of X .*, got 'h'"),
        (Schema(("a", "c"), levels=(LABELS.levels,) * 2), "levels must name columns of X"),  # type: ignore[arg-type]
    ],
)
def test_names_that_are_not_there_are_refused(schema: Schema, words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        schema.resolve(NAMES)


def test_columns_without_names_have_no_roles() -> None:
    for schema in (Schema(("a",)), Schema(beside=(LABELS,))):
        with pytest.raises(InvalidData, match="columns without names"):
            schema.resolve(None)
    with pytest.raises(InvalidData, match="must have 1 columns, as levels are declared for, got 3"):
        Schema(levels=(Categories([0, 1]),)).resolve(NAMES)
    with pytest.raises(InvalidParameter, match="role must be one of y, groups"):
        Column("colour")


FRAME = pd.DataFrame({"a": [1.0, 2.0, 3.0], "t": [5.0, 6.0, 7.0], "e": [1, 0, 1]})
SURVIVAL = Schema(beside=(Column("time"), Column("event")))


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (FRAME, ["t", "e"]),
        (pl.DataFrame(FRAME.to_dict("list")), ("t", "e")),
        (FRAME[["a"]], FRAME[["t", "e"]]),
        (FRAME[["a"]], (FRAME["t"], FRAME["e"].tolist())),
        (FRAME[["a"]].to_numpy(), FRAME[["t", "e"]].to_numpy()),
        (FRAME["a"], np.array([(5.0, 1), (6.0, 0), (7.0, 1)], dtype=[("t", "f8"), ("e", "i8")])),
    ],
    ids=["names", "names of polars", "frame", "sequences", "array", "records"],
)
def test_y_may_be_several_columns(X: Any, y: Any) -> None:
    source = open_source(X)
    schema, given = source.resolve(SURVIVAL, y)
    table = source.read(schema, given).whole()
    assert table.X.tolist() == [[1.0], [2.0], [3.0]]
    assert table.time.tolist() == [5.0, 6.0, 7.0] and table.event.tolist() == [1.0, 0.0, 1.0]


@pytest.mark.parametrize("y", ["t", [1.0, 2.0, 3.0], np.ones((3, 3)), (1, 2, 3)])
def test_y_of_another_number_of_columns_is_refused(y: Any) -> None:
    with pytest.raises(InvalidData, match="y must"):
        open_source(FRAME).resolve(SURVIVAL, y)


def test_missing_outcomes_are_refused_unless_the_schema_says_what_they_do() -> None:
    for missing in ("error", "drop"):
        source = open_source(FRAME[["a"]])
        schema, given = source.resolve(Schema(beside=(Column("y"),), missing=missing), [1.0, None, 2.0])
        if missing == "error":
            with pytest.raises(InvalidData, match="y must be finite"):
                source.read(schema, given)
        else:
            assert np.isnan(source.read(schema, given).whole().y).tolist() == [False, True, False]
