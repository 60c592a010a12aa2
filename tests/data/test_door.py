"""One door: every awkward column, in every container, is the same row by row to every family of estimators.

What an entry is, is written down beside it: a float64, NaN for a missing one, or refused. Each container that can hold
the column must then give every estimator the exact integers of that float64 array, or refuse where the array or an
entry is refused. The integers are compared before noise is added, so no test here can raise a false alarm.
"""

from __future__ import annotations

import datetime
import math
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import dask.array as da
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dpstats.covariance import HotellingTest, PrivateCovariance, PrivatePCA
from dpstats.data.opening import open_source
from dpstats.data.rows import Narrow, Rows, Table, as_float64
from dpstats.data.schema import Categories, Column, Schema
from dpstats.errors import BudgetExceeded, InvalidData
from dpstats.groups import GroupMeans, GroupQuantiles, MeanPerRow
from dpstats.identity import SpatialSignTest
from dpstats.means import AdaptiveMean, ClippedMean, PrivateVariance, SparseMean
from dpstats.means.sparse_selection import Halves
from dpstats.privacy import PrivacyBudget
from dpstats.quantiles import PrivateDistribution, PrivateMedian, PrivateQuantile
from dpstats.ranks import MannWhitneyTest, SignedRankTest
from dpstats.regression import PrivateLinearRegression, PrivateLogisticRegression, SufficientStatisticsRegression
from dpstats.regression.rows import Center
from dpstats.textbook import FunctionalMechanismRegression
from tests.data.spark import cut
from tests.sql.databases import known_engine

NAN, INF, LARGEST = math.nan, math.inf, sys.float_info.max
N = 12


class Case(NamedTuple):
    """A column: its entries, what each is (None is refused), and the types of numpy that hold it."""

    entries: list[Any]
    numbers: list[float | None]
    dtypes: tuple[str, ...] = ()


def case(*some: Any, dtypes: tuple[str, ...] = (), meant: list[Any] | None = None) -> Case:
    """Return a column that begins with some entries and goes on with ones."""
    meant = [float(entry) for entry in some] if meant is None else meant
    fill = type(some[0])(1) if isinstance(some[0], bool | int | float | np.generic) else 1.0
    return Case([*some, *[fill] * (N - len(some))], [*meant, *[1.0] * (N - len(some))], dtypes)


narrow = np.float32(0.1)
CASES: dict[str, Case] = {
    "floats": case(0.5, -0.25, 1.75, dtypes=("f8",)),
    "integers": case(3, -1, 0, dtypes=("i8", "i2", "f4")),
    "booleans": case(True, False, True, dtypes=("?",)),
    "float32 at a bound": Case([narrow] * N, [float(narrow)] * N, ("f4",)),
    "float32 at a bound, one missing": Case([narrow] * 11 + [np.float32(NAN)], [float(narrow)] * 11 + [NAN], ("f4",)),
    "float16 at a bound, one missing": Case(
        [np.float16(0.1)] * 11 + [np.float16(NAN)], [float(np.float16(0.1))] * 11 + [NAN], ("f2",)
    ),
    "one 8-bit end": case(np.int8(127), np.int8(-128), dtypes=("i1",)),
    "32-bit ends": case(2**31 - 1, -(2**31), dtypes=("i4", "i8")),
    "unsigned ends": case(255, 0, dtypes=("u1", "u8")),
    "beyond 2^53": case(2**53 + 1, -(2**53) - 1, meant=[2.0**53, -(2.0**53)], dtypes=("i8",)),
    "64-bit end": case(2**64 - 1, meant=[2.0**64], dtypes=("u8",)),
    "beyond 64 bits": case(2**70, -(2**70)),
    "beyond floats": case(10**400, -(10**400), meant=[LARGEST, -LARGEST]),
    "negative zero": case(-0.0, 0.0, dtypes=("f8",)),
    "subnormal": case(5e-324, -5e-324, dtypes=("f8",)),
    "huge": case(1e308, -1e308, LARGEST, dtypes=("f8",)),
    "at the bounds": case(2.0, -2.0, math.nextafter(2, 3), dtypes=("f8",)),
    "ties of the lattice": case(2.0**-30, 3 * 2.0**-30, -(2.0**-30), dtypes=("f8",)),
    "NaN": case(NAN, 0.5, dtypes=("f8",)),
    "infinite": case(INF, 0.5, dtypes=("f8",)),
    "both infinities": case(INF, -INF, dtypes=("f8",)),
    "None among floats": case(0.5, None, 2.0, meant=[0.5, NAN, 2.0]),
    "None among integers": case(2**53 + 1, None, meant=[2.0**53, NAN]),
    "None among booleans": case(True, None, False, meant=[1.0, NAN, 0.0]),
    "all missing": Case([NAN] * N, [NAN] * N, ("f8",)),
    "decimals": case(0.0, Decimal("0.1"), Decimal("NaN"), meant=[0.0, 0.1, NAN]),
    "fractions": case(0.0, Fraction(1, 3), meant=[0.0, 1 / 3]),
    "mixed kinds": case(0.5, np.int8(3), True, Decimal(2), meant=[0.5, 3.0, 1.0, 2.0]),
    "text": case(0.5, "x", meant=[0.5, None]),
    "text of a number": case(0.5, "2", meant=[0.5, None]),
    "a date": case(0.5, datetime.date(2020, 1, 1), meant=[0.5, None]),
    "a list": case(0.5, [2.0], meant=[0.5, None]),
    "all text": Case(["a"] * N, [None] * N, ("U1",)),
}


# Containers: each returns the column as a table of one, or None where it cannot hold it as it is.


def typed(entries: list[Any], dtypes: tuple[str, ...], build: Callable[[np.ndarray], Any]) -> list[Any]:
    return [build(np.array(entries, dtype=dtype)[:, None]) for dtype in dtypes]


def objects(entries: list[Any]) -> np.ndarray:
    array = np.empty((len(entries), 1), dtype=object)
    array[:, 0] = entries
    return array


def plain(entries: list[Any]) -> set[type]:
    return set(map(type, entries)) - {type(None)}


def nullable(entries: list[Any]) -> list[Any]:
    kinds = {int: "Int64", bool: "boolean", float: "Float64"}
    if len(kind := plain(entries)) != 1 or (kind & kinds.keys()) != kind:
        return []
    if kind == {int} and any(entry is not None and abs(entry) >= 2**63 for entry in entries):
        return []
    series = pd.Series(pd.array(entries, dtype=kinds[kind.pop()]))
    return [pd.DataFrame({"a": series}), series]


def polars(entries: list[Any]) -> list[pl.DataFrame]:
    kinds = {int: pl.Int64, bool: pl.Boolean, float: pl.Float64, np.float32: pl.Float32, str: pl.String}
    kind = plain(entries)
    if len(kind) != 1 or not kind <= kinds.keys():
        return []
    if kind == {int} and any(entry is not None and abs(entry) >= 2**63 for entry in entries):
        return []
    entries = [float(entry) if kind == {np.float32} else entry for entry in entries]
    return [pl.DataFrame({"a": pl.Series(entries, dtype=kinds[kind.pop()])})]


CONNECTION = duckdb.connect()


def relations(entries: list[Any]) -> list[Any]:
    kinds = {int: "BIGINT", bool: "BOOLEAN", float: "DOUBLE", str: "VARCHAR", np.float32: "FLOAT"}
    kind = plain(entries)
    if len(kind) != 1 or not kind <= kinds.keys():
        return []
    if kind == {int} and any(entry is not None and abs(entry) >= 2**63 for entry in entries):
        return []
    words = ["NULL" if entry is None else f"'{entry}'" for entry in entries]
    rows = ", ".join(f"(CAST({word} AS {kinds[next(iter(kind))]}))" for word in words)
    return [CONNECTION.sql(f"SELECT a FROM (VALUES {rows}) AS t(a)")]


CONTAINERS: dict[str, Callable[[Case], list[Any]]] = {
    "list": lambda c: [list(c.entries)] if not any(isinstance(e, list) for e in c.entries) else [],
    "list of rows": lambda c: [[[entry] for entry in c.entries], [(entry,) for entry in c.entries]],
    "array": lambda c: typed(c.entries, c.dtypes, lambda array: array),
    "array of one dimension": lambda c: typed(c.entries, c.dtypes[:1], lambda array: array[:, 0]),
    "strided array": lambda c: typed(c.entries, c.dtypes[:1], lambda array: np.repeat(array, 3, axis=1)[:, 1:2]),
    "objects": lambda c: [objects(c.entries)],
    "pandas": lambda c: typed(c.entries, c.dtypes, lambda array: pd.DataFrame(array, columns=["a"])),
    "pandas, objects": lambda c: [pd.DataFrame({"a": pd.Series(list(c.entries), dtype=object)})],
    "pandas, nullable": lambda c: nullable(c.entries),
    "polars": lambda c: polars(c.entries),
    "polars column": lambda c: [frame["a"] for frame in polars(c.entries)],
    "lazy": lambda c: [frame.lazy() for frame in polars(c.entries)],
    "DuckDB": lambda c: relations(c.entries),
    "Spark": lambda c: [cut(frame.to_arrow(), 5) for frame in polars(c.entries)],
    "Dask": lambda c: typed(c.entries, c.dtypes[:1], lambda array: da.from_array(array, chunks=(5, 1))),
}

# Families: what a fit would read of a column, as plain numbers.

LABELS = ["u", "v", "w"] * 4
OUTCOMES = np.linspace(-1, 1, N)
BOUNDS = (-2.0, 2.0)


class Family(NamedTuple):
    """An estimator, and what its fit is given beside X, which a column of X cannot be in a database."""

    estimator: Any
    y: Any = None


def with_policies(make: Callable[[str], Any], policies: tuple[str, ...], y: Any = None) -> dict[str, Family]:
    return {policy: Family(make(policy), y) for policy in policies}


CENTER, DROP, ONLY = ("error", "center"), ("error", "drop"), ("error",)
EVERY = ("error", "drop", "center")
MEANS = {"bounds": BOUNDS, "delta": 1e-6}
POLICIES: dict[str, dict[str, Family]] = {
    "mean": with_policies(lambda m: ClippedMean(**MEANS, clipped_share=True, missing=m), EVERY),
    "mean at 0.1": with_policies(lambda m: ClippedMean(bounds=(-0.1, 0.1), clipped_share=True, missing=m), EVERY),
    "ball": with_policies(
        lambda m: ClippedMean(clip=0.1, clip_norm="l2", clipped_share=True, delta=1e-6, missing=m), EVERY
    ),
    "variance": with_policies(lambda m: PrivateVariance(bounds=BOUNDS, missing=m), EVERY),
    "adaptive mean": with_policies(lambda m: AdaptiveMean(bound=2.0, std=1.0, missing=m), CENTER),
    "sparse mean": with_policies(lambda m: SparseMean(n_nonzero=1, clip=2.0, std=1.0, missing=m), CENTER),
    "spatial sign": with_policies(lambda m: SpatialSignTest(missing=m, n_calibration=99), CENTER),
    "groups": with_policies(lambda m: GroupMeans(groups=["u", "v"], **MEANS, missing=m), DROP, LABELS),
    "medians of groups": with_policies(
        lambda m: GroupQuantiles(groups=["u", "v"], bounds=BOUNDS, missing=m), DROP, LABELS
    ),
    "per row": with_policies(
        lambda m: MeanPerRow(bounds=BOUNDS, max_rows=4, called="row", missing=m), DROP, ["p", "q", "r", "s"] * 3
    ),
    "quantile": with_policies(lambda m: PrivateQuantile(bounds=BOUNDS, missing=m), DROP),
    "median": with_policies(lambda m: PrivateMedian(bounds=BOUNDS, missing=m), DROP),
    "distribution": with_policies(lambda m: PrivateDistribution(bounds=BOUNDS, missing=m), DROP),
    "signed ranks": with_policies(lambda m: SignedRankTest(n_simulations=99), ONLY),
    "ranks": with_policies(lambda m: MannWhitneyTest(groups=["u", "v"], n_simulations=99), ONLY, ["u", "v"] * 6),
    "linear": with_policies(
        lambda m: PrivateLinearRegression(x_bounds=BOUNDS, y_bounds=BOUNDS, missing=m), DROP, OUTCOMES
    ),
    "moments": with_policies(
        lambda m: SufficientStatisticsRegression(x_bounds=BOUNDS, y_bounds=BOUNDS, missing=m), DROP, OUTCOMES
    ),
    "functional": with_policies(
        lambda m: FunctionalMechanismRegression(x_bounds=BOUNDS, y_bounds=BOUNDS, missing=m), DROP, OUTCOMES
    ),
    "covariance": with_policies(lambda m: PrivateCovariance(bounds=BOUNDS), ONLY),
    "components": with_policies(lambda m: PrivatePCA(bounds=BOUNDS), ONLY),
    "mean vector": with_policies(lambda m: HotellingTest(bounds=BOUNDS), ONLY),
    "two mean vectors": with_policies(
        lambda m: HotellingTest(groups=["u", "v"], bounds=BOUNDS, unknown="error"), ONLY, ["u", "v"] * 6
    ),
    "logistic": with_policies(lambda m: PrivateLogisticRegression(x_bounds=BOUNDS, missing=m), DROP, OUTCOMES > 0),
}
FAMILIES = {f"{name}, {policy}": family for name, some in POLICIES.items() for policy, family in some.items()}
PLANS = {name: family.estimator.plan(4 if "per row" in name else N, 1) for name, family in FAMILIES.items()}


def flat(private: Any) -> Any:
    """Return what a fit has read as nested lists of Python's numbers."""
    if hasattr(private, "answer"):  # of a regression: the first question, and a harder one
        return flat(private.answer(Center("center", True)))
    if hasattr(private, "first"):
        return flat(private.first)
    if isinstance(private, Halves):  # its rows have the type in which they were given
        return [flat(private.scores), flat(as_float64(private.rest))]
    if isinstance(private, dict):
        return {key: flat(value) for key, value in private.items()}
    if isinstance(private, tuple) or hasattr(private, "_fields"):
        return [flat(value) for value in private]
    return private.tolist() if isinstance(private, np.ndarray) else private


def rows_of(X: Any, name: str) -> Rows | None:
    """Return the rows of a fit of a family; None where they are refused."""
    family = FAMILIES[name]
    try:
        source = open_source(X)
        schema, given = source.resolve(family.estimator._schema(), family.y if source.ordered else None)
        return source.read(schema, given)
    except InvalidData:
        return None


def read(rows: Rows | None, name: str) -> str:
    """Return the exact integers of a fit in words, or that it is refused."""
    try:
        return "refused" if rows is None else str(flat(FAMILIES[name].estimator._read(rows, PLANS[name])))
    except InvalidData:
        return "refused"


def same_table(first: Rows | None, second: Rows | None) -> bool:
    """Say whether both are tables in memory of the same bits, of which every estimator reads the same."""
    if not isinstance(first, Table) or not isinstance(second, Table):
        return False
    columns = [table.X.view(np.int64) if table.X.dtype == np.float64 else table.X for table in (first, second)]
    beside = [{role: column.tolist() for role, column in table.beside().items()} for table in (first, second)]
    return columns[0].dtype == columns[1].dtype and np.array_equal(*columns) and beside[0] == beside[1]


def beside_nothing(X: Any, name: str) -> bool:
    """Say whether a family can be given a container: entries beside X follow an order that databases lack."""
    return FAMILIES[name].y is None or open_source(X).ordered


# One family for each way to read a column: the others read the same rows.
WAYS = ["mean, error", "groups, error", "per row, error", "linear, error", "logistic, error", "ranks, error"]


ADDED_UP = ["mean, error", "mean at 0.1, center", "ball, center"]


@pytest.fixture(autouse=True)
def engine() -> Iterator[None]:
    """Skip the checks of what DuckDB computes, which every read of it makes: test_duckdb_rows.py has them."""
    with known_engine():
        yield


@pytest.mark.parametrize("name", CASES)
def test_a_column_is_the_same_to_every_family_in_every_container(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Narrow, "_ENTRIES", 5)
    column = CASES[name]
    refused = None in column.numbers
    exact = np.array([0.0 if number is None else number for number in column.numbers])[:, None]
    tables = {way: None if refused else rows_of(exact, way) for way in FAMILIES}
    expected = {family: read(tables[family], family) for family in FAMILIES}
    held = 0
    for container, build in CONTAINERS.items():
        for X in build(column):
            held += 1
            if all(same_table(rows_of(X, way), tables[way]) for way in WAYS):
                continue
            if not open_source(X).ordered:  # read as a whole, and added up by the database itself or in blocks
                rows = rows_of(X, WAYS[0])
                assert refused or (rows is not None and same_table(rows.whole(), tables[WAYS[0]]))
            for family in FAMILIES if open_source(X).ordered else ADDED_UP:
                assert read(rows_of(X, family), family) == expected[family], (container, family)
    assert held >= 3
    if not refused and np.isfinite(exact).all():
        assert "refused" not in expected.values()


OTHERS = [0.25, 7, True, None, math.nan, math.inf, "x", np.float32(0.1), Decimal("0.3"), 2**53 + 1, 10**400, [1]]


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_neighbor_moves_no_other_row(container: str) -> None:
    # The last row is replaced by every other entry that the container can hold.
    mixed = container in ("list", "list of rows", "objects", "pandas, objects")
    for column in CASES.values():
        if None in column.numbers:
            continue
        kinds = {type(entry) for entry in column.entries}
        before = None
        for other in OTHERS:
            if not mixed and type(other) not in kinds and other is not None:
                continue
            try:
                tables = CONTAINERS[container](Case([*column.entries[:-1], other], column.numbers, column.dtypes[:1]))
            except (OverflowError, ValueError, TypeError):  # the container's type cannot hold it
                continue
            if before is None:
                first_dtype = Case(column.entries, column.numbers, column.dtypes[:1])
                before = [rows_of(X, "mean, error") for X in CONTAINERS[container](first_dtype)]
            for first, X in zip(before, tables, strict=False):
                second = rows_of(X, "mean, error")
                if first is not None and second is not None:
                    rows = [rows.whole().X[:-1] for rows in (first, second)]
                    np.testing.assert_array_equal(rows[0].view(np.int64), rows[1].view(np.int64))


def test_a_budget_that_cannot_pay_refuses_before_an_entry_is_looked_at() -> None:
    # The entries are no numbers, so that whoever looks at them refuses them instead.
    column = CASES["all text"]
    spent = PrivacyBudget(1.0, 1e-5)
    spent.charge(spent.remaining)
    for build in CONTAINERS.values():
        for X in build(column):
            for name, family in FAMILIES.items():
                if not beside_nothing(X, name):
                    continue
                made = type(family.estimator)(**{**family.estimator.get_params(), "budget": spent})
                given = () if family.y is None else ([["unread"]] * N,)
                with pytest.raises(BudgetExceeded):
                    made.fit(X, *given)
    assert len(spent.history()) == 1


WIDE: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "lazy": lambda frame: pl.from_pandas(frame).lazy(),
    "DuckDB": CONNECTION.from_df,
    "Spark": lambda frame: cut(pa.Table.from_pandas(frame), 5),
    "Dask": lambda frame: da.from_array(frame.to_numpy(), chunks=(5, 1)).to_dask_dataframe(list(frame)),
}
CHOSEN: dict[str, Schema] = {
    "by name": Schema(numbers=("c", "a")),
    "one": Schema(numbers=("c",)),
    "by bounds": Schema(bounds={"c": BOUNDS, "a": BOUNDS}),
    "beside an outcome": Schema(numbers=("c", "a"), beside=(Column("y", "d"),)),
    "all but an outcome": Schema(beside=(Column("y", "b"),)),
    "labels": Schema(numbers=("c", "a"), levels=(Categories((0, 1, 2)), Categories((0, 1, 2)))),
}


@pytest.mark.parametrize("container", WIDE)
@pytest.mark.parametrize("chosen", CHOSEN)
def test_chosen_columns_are_those_of_a_table_without_the_others(container: str, chosen: str) -> None:
    frame = pd.DataFrame({name: (np.arange(N) * (j + 1) % 3).astype(float) for j, name in enumerate("abcd")})
    source = open_source(WIDE[container](frame))
    schema, _ = source.resolve(CHOSEN[chosen], None)
    names = list(schema.numbers or ())
    rows = source.read(schema)
    assert names == (["a", "c", "d"] if chosen == "all but an outcome" else ["c", "a"][: len(names)])
    assert rows.names == names and rows.shape == (N, len(names))
    # A budget is asked for what is read, by the size that is stated before.
    assert source.size(schema) in (None, rows.shape)
    np.testing.assert_array_equal(rows.whole().X, frame[names])
    if schema.beside:
        np.testing.assert_array_equal(rows.whole().y, frame[schema.beside[0].name])


@pytest.mark.parametrize("container", ["lazy", "DuckDB", "Dask", "Spark", "file"])
def test_rows_without_an_order_are_refused_where_the_order_counts(container: str, tmp_path: Path) -> None:
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=["a", "b", "c"])
    path = tmp_path / "rows.csv"
    frame.to_csv(path, index=False)
    X = path if container == "file" else WIDE[container](frame)
    budget = PrivacyBudget(1.0, 1e-5)
    made = SparseMean(n_nonzero=1, clip=3.0, std=1.0, split=True, budget=budget)
    with pytest.raises(InvalidData, match="uses the order of the rows"):
        made.fit(X)
    assert not budget.history()


SPELLINGS: dict[str, list[Any]] = {
    "words that are one number": ["7", "07", "007", "7.0", "+7", "7e0"],
    "words that are one word in another spelling": ["a", "A", " a", "a ", "\u00e4", "a\u0308"],
    "whole numbers that are one float": [2**53, 2**53 + 1, 2**53 + 2, -(2**53) - 1],
    "large whole numbers": [2**62, 2**62 + 1, 2**62 - 1],
}


@pytest.mark.parametrize("container", [name for name in WIDE if name != "Dask"])
@pytest.mark.parametrize("labels", SPELLINGS)
def test_labels_that_differ_are_different_groups(container: str, labels: str) -> None:
    # The first label in one row, the second in two, and so on.
    found = [label for count, label in enumerate(SPELLINGS[labels], 1) for _ in range(count)]
    frame = pd.DataFrame({"g": found, "x": np.arange(len(found)) % 2.0})
    X = WIDE[container](frame)
    made = GroupMeans(by="g", groups=SPELLINGS[labels], bounds=(0, 1), epsilon=1e5, delta=1e-6, random_state=0)
    counts = np.ravel(made.fit(X).counts_)
    np.testing.assert_allclose(counts, np.arange(1, len(SPELLINGS[labels]) + 1), atol=1e-2)


@pytest.mark.parametrize("labels", SPELLINGS)
def test_labels_of_a_file_that_differ_are_different_groups(labels: str, tmp_path: Path) -> None:
    found = [label for count, label in enumerate(SPELLINGS[labels], 1) for _ in range(count)]
    path = tmp_path / "rows.csv"
    pd.DataFrame({"g": found, "x": np.arange(len(found)) % 2.0}).to_csv(path, index=False)
    words = [str(label) for label in SPELLINGS[labels]]
    made = GroupMeans(by="g", groups=words, bounds=(0, 1), epsilon=1e5, delta=1e-6, random_state=0)
    counts = np.ravel(made.fit(path).counts_)
    np.testing.assert_allclose(counts, np.arange(1, len(words) + 1), atol=1e-2)
