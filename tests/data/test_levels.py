"""Declared categories: a row's code depends on that row alone, in every container."""

from __future__ import annotations

import itertools
import math
import traceback
import warnings
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dpstats.data.opening import open_source
from dpstats.data.schema import Bins, Categories, Column, Schema
from dpstats.data.values import Words, number
from dpstats.errors import InvalidData, InvalidParameter
from dpstats.mechanisms import Histogram
from dpstats.privacy import PrivacyBudget
from dpstats.queries import Domain, WorkloadAnswers
from dpstats.tables import ContingencyTable
from tests.data.awkward import COLUMNS, VALUES, Colour, Raises, beside

pa = pytest.importorskip("pyarrow")

DECLARED = [1, 2, 2**53 + 1, 0.5, "a", "1", b"1", None, np.datetime64("2020-01-02"), (1, "a"), Colour.RED, 2**64 + 1]
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
    items = list(values) if "categories" in kind else made.to_pylist() if hasattr(made, "to_pylist") else list(made)
    if kind.startswith("polars Datetime"):
        items = list(made.to_numpy())  # Python's times have no nanoseconds, and numpy's no zone: left out above
    assert CATEGORIES.codes(made).tolist() == CATEGORIES.codes(items).tolist()


def test_codes():
    rows = [1, 1.0, True, np.int8(1), 2, 2**53 + 1, 2.0**53, "a", b"a", "1", b"1", None, math.nan, [1], Raises()]
    codes = [0, 0, 0, 0, 1, 2, -1, 4, -1, 5, 6, 7, 7, -1, -1]
    assert CATEGORIES.codes(rows).tolist() == codes
    # As the word 3 of a file: a text that is no label is the label of its value.
    assert Categories([1, 2, 3, "refused"]).codes([3, "refused", "3", 1]).tolist() == [2, 3, 2, 0]
    assert Categories([True, False]).codes(np.array([False, True])).tolist() == [1, 0]
    assert Categories([b"x"]).codes([b"x", 0.5, "x"]).tolist() == [0, -1, -1]
    assert Categories([0.5]).codes([0.5, 2**53 + 1]).tolist() == [0, -1]
    assert Categories([-1]).codes([2**63 + 1, -1]).tolist() == [-1, 0]
    assert Categories([1]).codes([]).tolist() == []


def test_masked_entries_are_missing_and_never_what_they_hide():
    data = np.ma.masked_array([1, 2, 1], mask=[True, False, False])
    assert Categories([1, 2]).codes(data).tolist() == [-1, 1, 0]
    assert Categories([1, None]).codes(data).tolist() == [1, -1, 0]
    records = np.ma.masked_array(np.array([(1, 2), (1, 2)], dtype="i4,i4"), mask=[(False, True), (False, False)])
    assert Categories([(1, 2)]).codes(records).tolist() == [-1, 0]
    assert Categories([(1, 2), None]).codes([np.ma.masked, (1, 2)]).tolist() == [1, 0]


def test_times_are_equal_by_instant_whatever_the_unit():
    category = Categories([np.datetime64("2020-01-02", "ns"), "2020"])
    assert category.values[0] == np.datetime64("2020-01-02")  # no integer of nanoseconds
    rows = [np.datetime64("2020-01-02", "D"), np.datetime64("2020-01-02", "s"), pd.Timestamp("2020-01-02"), "2020"]
    assert category.codes(rows).tolist() == [0, 0, 0, 1]
    assert category.codes([1577923200000000000]).tolist() == [-1]


def test_nothing_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CATEGORIES.codes(VALUES)


@pytest.mark.parametrize("data", ["abc", b"abc", 3, None, {"a": 1}, {1, 2}, np.ones((2, 2)), np.array(1)])
def test_what_is_no_column_is_refused(data):
    with pytest.raises(InvalidData, match=r"^data must"):
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
    values = [1, "x", 0.5, b"1", 2**53 + 1, 2**63 + 1, -1, True, None, [1], [1, 2], np.datetime64("2020-01-02", "ns")]
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


NUMBERS = [
    ["0", "1", "2"],
    [0, 1, 2],
    [0.0, 1.0, 2.0, None],
    ["0", "1", ""],
    ["True", "False"],
    [True, False],
    [Decimal("0.1"), 0.5, "1e1"],
    [0.1, 0.5, 10],
    ["0.1", "0.50", "10"],
    [2**53, 2**53 + 1, 7],
    [str(2**53), str(2**53 + 1)],
    ["-999", "007"],
]
TEXTS = [["north", "south"], ["1", "01", "2"], ["1", "north"], [1, "north", None], ["0", "x", 1, 0.1]]
WORDS = [
    *("0", "0.0", "1", "1.0", "01", "2", " 2 ", "TRUE", "False", "t", "0.1", "0.10", "1e-1", "10", "1e1"),
    *("north", "North", "", "NA", "nan", "-999.0", "7", str(2**53), str(2**53 + 1), f"{2**53}.0"),
]


def reference(labels: list[Any], word: str) -> int:
    """Return the code by fractions: the text first, otherwise the value."""
    if word in labels:
        return labels.index(word)

    def value(entry: Any) -> Any:
        entry = repr(entry) if isinstance(entry, float | bool) else "" if entry is None else entry
        read = number(entry) if isinstance(entry, str) else 0.0
        if read is None or math.isnan(read):
            return None if read is None else "missing"
        truth = isinstance(entry, str) and entry.strip().lower() in ("true", "false")
        return Fraction(read) if truth else Fraction(entry.strip() if isinstance(entry, str) else entry)

    values = [value(label) for label in labels]
    by_value = None not in values and len({*values}) == len(values)
    known = [
        found if by_value or not isinstance(label, str) else None for label, found in zip(labels, values, strict=True)
    ]
    found = value(word)
    return known.index(found) if found is not None and found in known else -1


def held(words: list[str]) -> dict[str, Any]:
    """Return one column in every container of text."""
    return {
        "file": Words(words),
        "list": words,
        "array": np.array(words),
        "objects": np.array(words, dtype=object),
        "pandas": pd.Series(words, dtype=object),
        "pandas string": pd.Series(words, dtype="string"),
        "pandas pyarrow": pd.Series(words, dtype="string[pyarrow]"),
        "pandas categories": pd.Series(words, dtype=object).astype("category"),
        "polars": pl.Series(words),
        "polars categories": pl.Series(words, dtype=pl.Categorical),
        "arrow": pa.chunked_array([words]),
        "dictionary": pa.array(words).dictionary_encode(),
    }


@pytest.mark.parametrize("labels", [*NUMBERS, *TEXTS], ids=repr)
def test_labels_mean_the_same_in_every_container_of_text(labels: list[Any]) -> None:
    expected = [reference(labels, word) for word in WORDS]
    made = Categories(labels)
    assert made.by_value == (labels in NUMBERS)
    for name, column in held(WORDS).items():
        assert made.codes(column).tolist() == expected, name
    random = np.random.default_rng(5)
    for _ in range(5):
        places = random.integers(0, len(WORDS), 12).tolist()
        for name, column in held([WORDS[place] for place in places]).items():
            assert made.codes(column).tolist() == [expected[place] for place in places], name


@pytest.mark.parametrize(
    ("labels", "entries", "codes"),
    [
        (["0", "1"], [0, 1, 1, 5], [0, 1, 1, -1]),
        (["True", "False"], [1, 0, 1, 0], [0, 1, 0, 1]),
        ([Decimal("0.1"), "0.2"], [0.1, 0.2, 0.3, 1.0], [0, 1, -1, -1]),
        ([0.1, 0.2], [0.1, 0.2, 0.3, 1.0], [0, 1, -1, -1]),
        ([2**53 + 1, 2**53], [2.0**53, 2.0**53, 1.0, 0.0], [1, 1, -1, -1]),
        ([1e23, 7], [1e23, 7, 1e22, 0.0], [0, 1, -1, -1]),
    ],
)
def test_labels_mean_the_same_in_every_column_of_numbers(
    labels: list[Any], entries: list[Any], codes: list[int]
) -> None:
    made = Categories(labels)
    columns = {
        "list": entries,
        "file": Words(map(str, entries)),
        "doubles": np.array(entries, dtype=float),
        "pandas": pd.Series(entries, dtype="Float64"),
        "pandas arrow": pd.Series(entries, dtype="double[pyarrow]"),
        "categories": pd.Series(entries).astype("category"),
        "polars": pl.Series([float(entry) for entry in entries]),
        "arrow": pa.array([float(entry) for entry in entries]),
        "decimals": [Decimal(repr(entry)) for entry in entries],
    }
    for name, column in columns.items():
        assert made.codes(column).tolist() == codes, name
    single = np.array(entries, dtype=np.float32)
    if max(entries) < 2**24:
        assert made.codes(single).tolist() == made.codes(pl.Series(single)).tolist() == codes


def test_integers_beyond_floats_stay_apart_in_files() -> None:
    made = Categories([2**53, 2**53 + 1])
    assert made.codes(Words(["9007199254740992", "9007199254740993", "9007199254740993.0"])).tolist() == [0, 1, 1]
    assert made.codes(np.array([2**53, 2**53 + 1])).tolist() == [0, 1]
    assert Categories([2**60]).codes(np.array([2.0**60])).tolist() == [0]
    # Of a float label the shortest decimal is meant, and no other number that rounds to it.
    assert Categories([0.1]).codes(["0.1", "0.1000000000000000055"]).tolist() == [0, -1]


@pytest.mark.parametrize("source", ["csv", "parquet", "lazy", "duckdb", "dask", "arrow", "pandas"])
@pytest.mark.parametrize("labels", [["0", "1"], [0, 1], [False, True], [Decimal(0), 1.0], ["false", "true"]], ids=repr)
def test_every_source_reads_labels_by_value(source: str, labels: list[Any], tmp_path: Any) -> None:
    for written in ([0.0, 1.0, 1.0, 3.0], ["0.0", "1", "TRUE", "x"], [0, 1, 1, 3]):
        frame = pd.DataFrame({"g": written, "x": [1.0, 2.0, 3.0, 4.0]})
        X: Any = frame
        if source == "csv":
            frame.to_csv(X := tmp_path / "a.csv", index=False)
        elif source == "parquet":
            frame.to_parquet(X := tmp_path / "a.parquet")
        elif source == "lazy":
            X = pl.from_pandas(frame).lazy()
        elif source == "duckdb":
            X = pytest.importorskip("duckdb").from_arrow(pa.Table.from_pandas(frame))
        elif source == "dask":
            X = pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=2)
        elif source == "arrow":
            X = pa.Table.from_pandas(frame)
        opened = open_source(X)
        schema = Schema(("x",), (Column("groups", "g", Categories(labels)),)).resolve(opened.names)
        table = opened.read(schema).whole()
        assert table.groups is not None and table.groups.tolist() == [0, 1, 1, -1]


@pytest.mark.parametrize("source", ["array", "pandas", "lazy", "duckdb", "dask"])
def test_a_typed_column_that_can_hold_no_label_charges_nothing(source: str) -> None:
    frame = pd.DataFrame({"g": [0, 1, 1, 2], "x": [1.0, 2.0, 3.0, 4.0]})
    X: Any = frame[["g"]]
    if source == "array":
        X = X.to_numpy()
    elif source == "lazy":
        X = pl.from_pandas(X).lazy()
    elif source == "duckdb":
        X = pytest.importorskip("duckdb").from_arrow(pa.Table.from_pandas(X))
    elif source == "dask":
        X = pytest.importorskip("dask.dataframe").from_pandas(X, npartitions=2)
    assert open_source(X).kind("g") == (None if source in ("array", "pandas") else "number")
    budget = PrivacyBudget(9.0, 1e-5)
    for release in (
        lambda: Histogram(["north", "south"], 1.0, unknown="drop", budget=budget).release(X),
        lambda: ContingencyTable(
            levels={"g": ["north", "south"]} if source != "array" else [["north", "south"]],
            unknown="drop",
            budget=budget,
        ).fit(X),
        lambda: WorkloadAnswers(
            domain=Domain({"g": ["north", "south"]}, other=["g"]), workload=1, epsilon=1.0, budget=budget
        ).fit(X),
    ):
        with pytest.raises(InvalidData, match="must hold entries of the type of the declared levels"):
            release()
    assert not budget.history()
