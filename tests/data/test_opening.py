"""A container is opened by its type, and a new one by one registration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpstats.data import Rows, Schema, Source, Table, open_source, register
from dpstats.data.batches import Engine
from dpstats.data.opening import Memory
from dpstats.data.rows import column_of
from dpstats.errors import BudgetExceeded, InvalidData
from dpstats.groups import GroupMeans
from dpstats.means import ClippedMean
from dpstats.privacy import PrivacyBudget
from dpstats.quantiles import PrivateQuantile
from dpstats.regression import PrivateLinearRegression
from dpstats.tables import ContingencyTable


def test_rows_in_memory_are_opened_as_such() -> None:
    for rows in (np.zeros((2, 2)), [[1.0]], pd.DataFrame({"a": [1.0]}), None):
        assert isinstance(open_source(rows), Memory)
    source = open_source(np.zeros((2, 2)))
    assert open_source(source) is source


def test_relations_and_collections_are_engines() -> None:
    duckdb, array = pytest.importorskip("duckdb"), pytest.importorskip("dask.array")
    assert isinstance(open_source(duckdb.sql("SELECT 1.0::DOUBLE AS a")), Engine)
    assert isinstance(open_source(array.zeros((4, 2))), Engine)


@pytest.mark.parametrize("name", ["abc", "rows.json", ""])
def test_other_text_is_no_table(name: str) -> None:
    with pytest.raises(InvalidData, match=r"path of a file that ends in \.parquet, \.pq, \.csv"):
        open_source(name)
    with pytest.raises(InvalidData, match="X must be a table of numbers"):
        ClippedMean(bounds=(0, 1)).fit(name)


def test_a_file_has_to_exist(tmp_path: Any) -> None:
    pytest.importorskip("duckdb")
    with pytest.raises(InvalidData, match="an existing file"):
        open_source(tmp_path / "rows.csv")


# A container of our own: columns by their names, as a library that the package does not know might have them.


class Columns:
    """A toy container."""

    def __init__(self, **columns: Any) -> None:
        self.stored, self.looked_at = columns, 0

    def entries(self, name: str) -> Any:
        self.looked_at += 1
        return self.stored[name]


class ColumnsSource(Source):
    """All that a new container takes: its names and its size, and rows as a schema reads them."""

    ordered = False

    def __init__(self, columns: Columns) -> None:
        self.columns, self.names = columns, list(columns.stored)

    def size(self, schema: Schema) -> tuple[int, int]:
        return len(next(iter(self.columns.stored.values()))), len(schema.numbers or ())

    def read(self, schema: Schema, given: Mapping[str, Any] | None = None) -> Rows:
        entries = [np.asarray(self.columns.entries(name)) for name in schema.numbers or ()]
        if schema.levels is not None:
            pairs = zip(schema.levels, entries, strict=True)
            return Table(np.column_stack([kind.codes(column) for kind, column in pairs]), names=self.names)
        beside = {part.role: part.read(self.columns.entries(part.name)) for part in schema.named_columns}
        X = np.column_stack([column_of("X", column) for column in entries])
        return Table(X, **beside, names=list(schema.numbers or ()))


register(Columns, ColumnsSource)
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.normal(size=(300, 2)), columns=["a", "b"])
FRAME["g"], FRAME["y"] = RNG.choice(["u", "v"], 300), FRAME["a"] - FRAME["b"]
GIVEN = {"random_state": 0}
FITS: dict[str, Any] = {
    "mean": lambda make: ClippedMean(bounds={"a": (-3, 3)}, **GIVEN).fit(make("a", "b")).mean_,
    "groups": lambda make: (
        GroupMeans(groups=["u", "v"], by="g", bounds={"b": (-3, 3)}, **GIVEN).fit(make("a", "b", "g")).means_
    ),
    "quantile": lambda make: PrivateQuantile(bounds=(-3, 3), **GIVEN).fit(make("b")).quantile_,
    "regression": lambda make: (
        PrivateLinearRegression(x_bounds=(-3, 3), y_bounds=(-6, 6), **GIVEN).fit(make("a", "b", "y"), "y").params_
    ),
    "table": lambda make: ContingencyTable(levels={"g": ["u", "v"]}, **GIVEN).fit(make("g")).counts_,
}


@pytest.mark.parametrize("name", FITS)
def test_a_new_container_takes_one_registration(name: str) -> None:
    fit = FITS[name]
    own = fit(lambda *names: Columns(**{column: FRAME[column].to_numpy() for column in names}))
    np.testing.assert_array_equal(own, fit(lambda *names: FRAME[list(names)]))


def test_a_new_container_is_not_looked_at_where_the_budget_cannot_pay() -> None:
    columns = Columns(a=["no number"] * 2, b=["none"] * 2)
    with pytest.raises(BudgetExceeded):
        ClippedMean(bounds=(0, 1), budget=PrivacyBudget(0.5)).fit(columns)
    with pytest.raises(InvalidData, match="name of a column of X"):
        PrivateLinearRegression(x_bounds=(-3, 3), y_bounds=(-6, 6)).fit(columns, [1.0] * 2)
    few = Columns(a=["no number"], b=["none"])
    with pytest.raises(InvalidData, match="at least 2 rows, got n_samples = 1"):
        ClippedMean(bounds=(0, 1), budget=PrivacyBudget(0.5)).fit(few)
    assert columns.looked_at == few.looked_at == 0


class UnknownSize(ColumnsSource):
    """A container whose rows have to be read to be counted."""

    def size(self, schema: Schema) -> None:  # type: ignore[override]
        return None


def test_rows_that_have_to_be_counted_are_not_where_nothing_is_left() -> None:
    columns, budget = Columns(a=["no number"]), PrivacyBudget(1.0)
    with pytest.raises(InvalidData):
        ClippedMean(bounds=(0, 1), budget=budget).fit(UnknownSize(columns))
    assert columns.looked_at == 1
    budget.charge(budget.remaining)
    with pytest.raises(BudgetExceeded, match="nothing remains"):
        ClippedMean(bounds=(0, 1), budget=budget).fit(UnknownSize(columns))
    assert columns.looked_at == 1


def test_a_library_may_be_registered_by_its_name() -> None:
    opened: list[Any] = []
    register("tests", lambda X: opened.append(X))  # type: ignore[func-returns-value]

    class Unknown(list[float]):
        pass

    assert isinstance(open_source(Unknown([1.0, 2.0])), Memory) and len(opened) == 1


@pytest.mark.parametrize("name", ["rows.PARQUET", "rows.Csv"])
def test_the_ending_of_a_file_may_have_capital_letters(name: str, tmp_path: Any) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / name
    kind = name.partition(".")[2].lower()
    duckdb.sql(f"COPY (SELECT i / 10.0::DOUBLE AS a FROM range(10) t(i)) TO '{path}' (FORMAT {kind})")
    fitted = ClippedMean(bounds=(0, 1), epsilon=1e6, random_state=0).fit(path)
    assert fitted.mean_[0] == pytest.approx(0.45, abs=1e-3)
