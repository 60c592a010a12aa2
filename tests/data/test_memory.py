"""Tables of labels: every container, entry by entry; what a row is depends on that row alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dpstats.data.opening import open_source, stated_shape
from dpstats.data.schema import Categories, Schema
from dpstats.errors import InvalidData, InvalidParameter
from dpstats.groups import GroupMeans
from dpstats.means import ClippedMean
from dpstats.mechanisms import Histogram
from dpstats.privacy import PrivacyBudget
from dpstats.ranks import MannWhitneyTest, wilcoxon_signed_rank
from dpstats.regression import PrivateLinearRegression
from dpstats.regression.formula import parse
from dpstats.survival import PrivateSurvival

KINDS = [Categories(["a", "b"]), Categories([1, 2, None])]
ROWS = [("a", 1), ("b", None), ("c", 2), ("a", 3)]
CODES = [[0, 0], [1, 2], [-1, 1], [0, -1]]
POLARS = pl.DataFrame({"z": [9, 9, 9, 9], "y": [1, None, 2, 3], "x": ["a", "b", "c", "a"]})
FRAME = pd.DataFrame({"z": [9, 9, 9, 9], "y": [1, None, 2, 3], "x": ["a", "b", "c", "a"]})


def codes_of(X: Any, kinds: Any, names: Any = None) -> Any:
    source = open_source(X)
    return source.read(Schema(names, levels=tuple(kinds)).resolve(source.names)).whole().X


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
    [
        ["a", "b", None],
        [["a"], ("b",), None],
        np.array(["a", "b", "c"]),
        np.array([["a"], ["b"], ["c"]]),
        pa.array(["a", "b", None]),
        pa.array(["a", "b", None]).dictionary_encode(),
        pa.chunked_array([["a"], ["b", None]]),
    ],
    ids=lambda X: type(X).__name__,
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
        ("ab", "the path of a file"),
        ({"a": 1}, "table of labels"),
        (3, "table of labels"),
        ([("a", 1), ("b",)], "2 entries"),
        ([("a", 1), "b1"], "2 entries"),
        (np.zeros((3, 3)), r"\(n, 3\)"),
        (np.zeros(3), r"\(n,\)"),
        (FRAME, "2 columns"),
        (FRAME.set_axis(["x", "x", "y"], axis=1), "a different name for every column"),
    ],
    ids=str,
)
def test_what_is_no_such_table(X: Any, words: str) -> None:
    with pytest.raises(InvalidData, match=words):
        codes_of(X, KINDS)


def test_a_missing_column() -> None:
    with pytest.raises(InvalidParameter, match="got another at position 1"):
        codes_of(FRAME, KINDS, ["x", "w"])


def test_sizes_that_are_stated() -> None:
    assert stated_shape(ROWS) == (4, 2) and stated_shape(FRAME) == (4, 3)
    assert stated_shape(np.zeros((4, 2))) == (4, 2) and stated_shape(np.zeros(4)) == (4,)
    assert stated_shape([1.0, 2.0]) == (2,) and stated_shape(iter(ROWS)) is None
    for schema in (Schema(), Schema(levels=tuple(KINDS))):
        assert open_source(ROWS).size(schema) == (4, 2)
    assert open_source(np.zeros(4)).size(Schema()) == (4, 1)
    assert open_source(np.zeros(4, int)).size(Schema(counted=True)) is None


def test_swapped_arguments_are_refused_before_a_charge() -> None:
    X, y = np.ones((6, 2)), np.ones(6)
    budget = PrivacyBudget(5.0, 1e-5)
    made = PrivateLinearRegression(x_bounds=(0, 2), y_bounds=(0, 2), budget=budget)
    for given in ((y, X), (y, X[:, :1]), (list(y), pd.DataFrame(X)), (X, X)):
        with pytest.raises(InvalidData, match="X comes first, then y"):
            made.fit(*given)
    with pytest.raises(InvalidData, match="X comes first, then y"):
        GroupMeans(groups=[0, 1], bounds=(0, 2), budget=budget).fit(np.zeros(6, int), X[:, :1])
    assert not budget.history()


@pytest.mark.parametrize(
    "labels",
    [
        np.array([0, 1, 0]),
        np.array([True, False, True]),
        pd.Series([0, 1, 0], dtype="Int64"),
        pl.Series([0.0, 1.0, 0.0]),
        np.array(["2020-01-01"] * 3, dtype="M8[D]"),
        np.array([1, 2, 3], dtype="m8[s]"),
        pd.Series([0, 1, 0], dtype="category"),
        pl.Series([1, 2, 3], dtype=pl.Duration("us")),
    ],
    ids=["array", "truth", "pandas", "polars", "dates", "durations", "pandas categories", "polars durations"],
)
def test_labels_of_another_declared_type_are_refused_before_a_charge(labels: Any) -> None:
    budget = PrivacyBudget(5.0, 1e-5)
    made = GroupMeans(groups=["north", "south"], bounds=(0, 2), budget=budget)
    with pytest.raises(InvalidData, match="y must"):
        made.fit(np.ones((3, 1)), labels)
    # Of a list no type is declared, so that one row does not decide whether the data are refused.
    assert not budget.history() and made.set_params(budget=None, random_state=0).fit(np.ones((3, 1)), ["north", 1, 0])


PEOPLE = pd.DataFrame({"x": [1.0, 2.0, 3.0], "y": [0.0, 1.0, 2.0], "g": ["a", "b", "a"], "u": ["p", "q", "r"]})
PAIRS: list[tuple[Any, Any]] = [
    (lambda X, y: PrivateLinearRegression(x_bounds=(0, 3), y_bounds=(0, 3), random_state=0).fit(X[["x"]], y["y"]), "y"),
    (lambda X, y: GroupMeans(groups=["a", "b"], bounds=(0, 3), random_state=0).fit(X[["x"]], y["g"]), "y"),
    (
        lambda X, y: PrivateLinearRegression(
            x_bounds=(0, 3), y_bounds=(0, 3), weight_bounds=(0, 3), random_state=0
        ).fit(X[["x"]], X["y"], weights=y["x"]),
        "weights",
    ),
    (lambda X, y: PrivateSurvival(horizon=3, random_state=0).fit(X["x"], (y["y"] > 0).astype(float)), "event"),
    (lambda X, y: MannWhitneyTest(groups=["a", "b"], random_state=0).fit(X["x"], y["g"]), "y"),
    (lambda X, y: Histogram(["a", "b"], 1.0, delta=1e-6, max_rows=2, random_state=0).release(X["g"], y["u"]), "units"),
    (lambda X, y: wilcoxon_signed_rank(X["x"], y["y"], epsilon=1.0, random_state=0), "y"),
    (lambda X, y: parse("y ~ x", bounds={"x": (0, 3), "y": (0, 3)}).rows({"x": X["x"], "y": y["y"]}), r"data\['y'\]"),
]


@pytest.mark.parametrize(("fit", "name"), PAIRS, ids=[name for _, name in PAIRS])
def test_pandas_objects_of_different_indexes_are_refused(fit: Any, name: str) -> None:
    for index in ([2, 1, 0], [0, 1, 3], ["a", "b", "c"], [0, 0, 1]):
        with pytest.raises(InvalidData, match=f"^{name} must have the index of") as refused:
            fit(PEOPLE, PEOPLE.set_axis(index, axis=0))
        assert "reset_index(drop=True)" in str(refused.value)
    # Equal labels pass, also of another type, and so does a partner without an index.
    fit(PEOPLE, PEOPLE.set_axis([0.0, 1.0, 2.0], axis=0))
    labeled = PEOPLE.set_axis(["p", "q", "r"], axis=0)
    fit(labeled, labeled)
    fit(labeled, {key: column.to_numpy() for key, column in PEOPLE.items()})


def test_a_refused_index_charges_nothing_and_shows_no_label() -> None:
    budget = PrivacyBudget(1.0, 1e-5)
    with pytest.raises(InvalidData) as refused:
        GroupMeans(groups=["a"], bounds=(0, 3), budget=budget).fit(
            PEOPLE[["x"]], PEOPLE["g"].set_axis(["secret1", "secret2", "secret3"])
        )
    assert not budget.history() and "secret" not in str(refused.value)


DURATIONS = pd.Series(pd.to_timedelta([1, 2, 3], unit="s"), name="x")


@pytest.mark.parametrize(
    "column",
    [
        DURATIONS,
        DURATIONS.to_frame(),
        DURATIONS.to_frame().assign(z=1.0),
        DURATIONS.to_numpy(),
        DURATIONS.to_numpy()[:, None],
        pl.from_pandas(DURATIONS),
        pl.from_pandas(DURATIONS.to_frame()),
        pl.from_pandas(DURATIONS.to_frame()).lazy(),
        pd.Series(pd.to_datetime(["2020-01-01"] * 3)),
        np.array(["2020-01-01"] * 3, dtype="M8[D]"),
        np.array([["2020-01-01"]] * 3, dtype="M8[D]"),
    ],
)
def test_times_and_durations_are_no_numbers(column: Any) -> None:
    budget = PrivacyBudget(1.0)
    with pytest.raises(InvalidData, match=r"dates, times or durations.*dt\.total_seconds\(\)"):
        ClippedMean(bounds=(0, 9), budget=budget).fit(column)
    assert not budget.history()
