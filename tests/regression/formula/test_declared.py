"""Declared columns: checked before data are seen, and read row by row out of every container."""

import decimal
import math
import traceback

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dpstats.errors import InvalidData, InvalidParameter
from dpstats.regression.formula_columns import DeclaredTable, check_declared
from tests.data.awkward import beside

DECLARED = check_declared({"x": (-1, 2), "big": (0, 1)}, {"plan": ["a", 1, None]})
NUMBERS = [0.5, 1, 2**53 + 1, decimal.Decimal("0.1"), True, None, math.nan, math.inf, -math.inf, np.float32(0.1)]
PLANS = ["a", 1, 1.0, None, math.nan, True]


def objects(values):
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


@pytest.mark.parametrize(
    "kind",
    [
        dict,
        lambda columns: {name: tuple(values) for name, values in columns.items()},
        lambda columns: {name: objects(values) for name, values in columns.items()},
        lambda columns: pd.DataFrame({name: objects(values) for name, values in columns.items()}),
        lambda columns: pl.DataFrame({name: pl.Series(values, dtype=pl.Object) for name, values in columns.items()}),
    ],
    ids=["lists", "tuples", "arrays", "pandas", "polars"],
)
def test_a_row_is_read_as_it_is_alone(kind):
    for values, read in [(NUMBERS, "number"), (PLANS, "codes")]:
        name = "x" if read == "number" else "plan"

        def found(rows, read=read, name=name):
            column = getattr(DeclaredTable(DECLARED, kind({name: rows})), read)(name)
            return getattr(column, "values", column)

        alone = {id(value): found([value]).tobytes() for value in values}
        for rows in beside(values):
            assert found(rows).tobytes() == b"".join(alone[id(value)] for value in rows)


def test_frames_of_declared_types():
    # Codes are those of the declared levels, whatever order a categorical type has, and an index is no matter.
    frame = pd.DataFrame(
        {"plan": pd.Categorical(["a", "a"], categories=["z", "a"]), "x": [1, 2], "other": ["text", None]}, index=[7, 7]
    )
    typed = frame.astype({"x": "Int64"}).assign(x=pd.array([1, None], dtype="Int64"))
    lazy = pl.LazyFrame({"plan": pl.Series(["a", None], dtype=pl.Categorical), "x": [1, None]})
    masked = {"plan": ["a", "a"], "x": np.ma.masked_array([1.0, 2.0], mask=[False, True])}
    for data, x, codes in [
        (frame, [1, 2], [0, 0]),
        (typed, [1, math.nan], [0, 0]),
        (lazy, [1, math.nan], [0, 2]),
        (lazy.collect(), [1, math.nan], [0, 2]),
        (masked, [1, math.nan], [0, 0]),
    ]:
        table = DeclaredTable(DECLARED, data)
        np.testing.assert_array_equal(table.number("x").values, x)
        assert table.codes("plan").tolist() == codes


def test_a_column_is_read_once():
    class Once(dict):
        def __getitem__(self, name):
            return self.pop(name)

    table = DeclaredTable(DECLARED, Once(x=[1.0], plan=["a"]))
    assert table.number("x") is table.number("x") and table.codes("plan") is table.codes("plan")


def frame(**columns):
    return pd.DataFrame(columns)


@pytest.mark.parametrize(
    ("data", "read", "words"),
    [
        (frame(x=[1.0, 2.0]), "plan", r"data must have the column"),
        (frame(plan=["a", "hush"]), "plan", r"data\['plan'\] must hold declared levels only"),
        (frame(plan=[1, 731]), "plan", "at least one entry outside them"),
        (frame(plan=["a", "A"]), "plan", "at least one entry outside them"),
        ({"plan": [["hush"]]}, "plan", "at least one entry outside them"),
        ({"x": ["hush", 1.0]}, "x", r"data\['x'\] must be a 1-d sequence of numbers"),
        ({"x": ["731", 1.0]}, "x", "holds text"),
        ({"x": np.full((2, 2), 731.0)}, "x", r"data\['x'\] must be a 1-d sequence"),
        ({"x": 731.0}, "x", "data must be a mapping"),
        ({"x": pd.Series(pd.to_datetime(["2020-01-01"]))}, "x", "dates, times or durations"),
        (pd.DataFrame([[1.0, 2.0]], columns=["x", "x"]), "x", "data must have a different"),
        (np.full((2, 2), 731.0), "x", "data must be a data"),
        ([731.0], "x", "got list"),
        (pd.Series([731.0], name="x"), "x", "got pandas.Series"),
        (None, "x", "got NoneType"),
        (pd.DataFrame([[731.0]]), "x", r"data must have the column"),
    ],
)
def test_bad_data_are_refused_and_not_shown(data, read, words):
    def ask():
        table = DeclaredTable(DECLARED, data)
        return table.number(read) if read == "x" else table.codes(read)

    with pytest.raises(InvalidData, match=words) as caught:
        ask()
    shown = "".join(traceback.format_exception_only(caught.value))
    assert "hush" not in shown and "731" not in shown
    assert caught.value.__context__ is None and caught.value.__cause__ is None


def test_columns_of_different_lengths_are_refused():
    # One row would otherwise be that of all.
    table = DeclaredTable(DECLARED, {"x": [1.0, 2.0], "plan": ["a"]})
    table.number("x")
    with pytest.raises(InvalidData, match="data must have columns"):
        table.codes("plan")


@pytest.mark.parametrize(
    ("bounds", "levels", "words"),
    [
        ([(0, 1)], {}, "bounds must be a mapping"),
        ({}, ["a", "b"], "levels must be a mapping"),
        ({"x": (2, 1)}, {}, r"the entry of bounds at position 0 must have low < high, got \(2, 1\)"),
        ({"x": (1, 1)}, {}, r"low < high, got \(1, 1\)"),
        ({"x": (0, math.inf)}, {}, "the entry of bounds at position 0, side 1 must be a finite number"),
        ({"x": (math.nan, 1)}, {}, "the entry of bounds at position 0, side 0 must be a finite number"),
        (
            {"x": 3},
            {},
            r"the entry of bounds at position 0 must be a pair \(low, high\), or 'private', got bounds as a dict",
        ),
        ({"x": np.array(3)}, {}, "must be a pair"),
        ({"x": (1, 2, 3)}, {}, "must be a pair"),
        ({"x": "ab"}, {}, r"the entry of bounds at position 0 must be a pair \(low, high\)"),
        ({}, {"plan": ["a"]}, "the entry of levels at position 0 must be two levels or more, got 1"),
        ({}, {"plan": []}, "the entry of levels at position 0 must not be empty"),
        ({}, {"plan": ["a", "b", "a"]}, "must be distinct, got a list of 3 with one twice"),
        ({}, {"plan": "ab"}, "the entry of levels at position 0 must be a sequence"),
    ],
)
def test_bad_declarations_are_refused(bounds, levels, words):
    with pytest.raises(InvalidParameter, match=words):
        check_declared(bounds, levels)


def test_good_declarations():
    declared = check_declared({"x": np.array([0, 1]), "z": [np.float32(0.5), 2]}, None)
    assert declared.bounds == {"x": (0.0, 1.0), "z": (0.5, 2.0)} and declared.levels == {}
    with pytest.raises(InvalidParameter, match="bounds must"):
        DeclaredTable(declared, {"age": [1]}).number("age")


@pytest.mark.parametrize("name", ["bounds", "levels"])
def test_names_of_columns_are_text(name: str) -> None:
    # A private column in this place would be shown as names.
    given = {"bounds": {"x": (0, 1)}, "levels": {"g": ["a", "b"]}, name: {48271.5: (0, 1)}}
    with pytest.raises(InvalidParameter, match="must have the names") as caught:
        check_declared(given["bounds"], given["levels"])
    assert "48271" not in str(caught.value)
