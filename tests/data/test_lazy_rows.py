"""Lazy frames of polars and tables of ibis: the same integers as in memory, and nothing is collected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from dpstats.data.batches import LazyRows, open_lazy_frame
from dpstats.data.opening import open_source
from dpstats.errors import InvalidData
from dpstats.groups import GroupMeans
from dpstats.means import ClippedMean
from dpstats.regression import PrivateLinearRegression
from dpstats.tables import ContingencyTable

DRAWS = np.random.default_rng(0)
FRAME = pl.DataFrame({"a": DRAWS.normal(size=500), "b": DRAWS.normal(size=500), "g": DRAWS.choice(["u", "v"], 500)})
SEED = {"random_state": 0}


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpstats.data.batches._BATCH_ENTRIES", 60)


def test_fits_are_those_in_memory_and_nothing_is_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    total = LazyRows.total

    def counted(self: Any, work: Any) -> Any:
        return total(self, lambda part: sizes.append(len(part.X)) or work(part))

    monkeypatch.setattr(LazyRows, "total", counted)
    for fit in (
        lambda X: ClippedMean(bounds={"a": (-2, 2)}, **SEED).fit(X).mean_,
        lambda X: GroupMeans(groups=["u", "v"], by="g", bounds={"b": (-2, 2)}, **SEED).fit(X).means_,
        lambda X: ContingencyTable(levels={"g": ["u", "v"]}, **SEED).fit(X).counts_,
        lambda X: PrivateLinearRegression(x_bounds={"a": (-2, 2)}, y_bounds=(-2, 2), **SEED).fit(X, "b").params_,
    ):
        np.testing.assert_array_equal(fit(FRAME.lazy()), fit(FRAME))
    assert max(sizes) <= 60


def test_rows_are_counted_and_may_be_none() -> None:
    rows = open_source(FRAME.lazy().filter(pl.col("a") > 0))
    assert isinstance(rows, LazyRows) and rows.shape == (int((FRAME["a"] > 0).sum()), 3)
    assert [rows.kind(name) for name in ("a", "g")] == ["number", "text"]
    with pytest.raises(InvalidData, match="at least 2 rows"):
        ClippedMean(bounds=(-2, 2)).fit(FRAME.lazy().select("a").filter(pl.col("a") > 99))


def test_what_polars_says_of_rows_is_not_passed_on() -> None:
    bad = pl.LazyFrame({"a": ["secret", "1"]}).with_columns(pl.col("a").cast(pl.Int64))
    with pytest.raises(InvalidData, match="rows that can be read") as caught:
        ClippedMean(bounds=(-2, 2)).fit(bad)
    assert "secret" not in str(caught.value) and caught.value.__context__ is None


def test_a_frame_without_batches_is_refused() -> None:
    class Old:
        def collect(self) -> None: ...

        def collect_schema(self) -> None: ...

    with pytest.raises(InvalidData, match="give the path"):
        open_lazy_frame(Old())


@pytest.mark.parametrize("later", [0, 1, 4, 6])
def test_rows_that_are_more_or_fewer_when_they_are_read_are_refused(later: int, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a\n" + "0.5\n" * 5)
    rows = open_lazy_frame(pl.scan_csv(path, schema={"a": pl.Float64}))
    assert rows.shape == (5, 1)
    path.write_text("a\n" + "0.5\n" * later)
    with pytest.raises(InvalidData, match="it changed meanwhile"):
        rows.total(lambda part: {"sum": np.array([len(part.X)])})


class Counted:
    """A number of ibis that is computed by Arrow."""

    def __init__(self, number: int) -> None:
        self.number = number

    def to_pyarrow(self) -> Any:
        return pa.scalar(self.number)


class Typed:
    """A column or a schema of ibis."""

    def __init__(self, arrow: Any) -> None:
        self.arrow = arrow

    def type(self) -> Typed:
        return self

    def to_pyarrow(self) -> Any:
        return self.arrow


class Table:
    """A stand-in for a table of ibis."""

    def __init__(self, arrow: pa.Table) -> None:
        self.arrow, self.columns = arrow, tuple(arrow.column_names)

    def __getitem__(self, name: str) -> Typed:
        return Typed(self.arrow.schema.field(name).type)

    def select(self, names: list[str]) -> Table:
        return Table(self.arrow.select(names))

    def count(self) -> Counted:
        return Counted(len(self.arrow))

    def schema(self) -> Typed:
        return Typed(self.arrow.schema)

    def to_pyarrow_batches(self, chunk_size: int) -> Any:
        return pa.RecordBatchReader.from_batches(self.arrow.schema, self.arrow.to_batches(max_chunksize=chunk_size))


Table.__module__ = "ibis.expr.types.relations"  # as the package finds out


def tables() -> list[Any]:
    """Return a stand-in, and a table of ibis return_rows where it is installed."""
    arrow = FRAME.to_arrow()
    try:
        import ibis
    except ImportError:
        return [Table(arrow)]
    return [Table(arrow), ibis.sqlite.connect().create_table("rows", arrow)]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")  # of ibis
@pytest.mark.parametrize("table", tables(), ids=lambda table: type(table).__name__)
def test_tables_of_ibis_are_read_in_batches(table: Any) -> None:
    for fit in (
        lambda X: ClippedMean(bounds={"a": (-2, 2)}, **SEED).fit(X).mean_,
        lambda X: GroupMeans(groups=["u", "v"], by="g", bounds={"b": (-2, 2)}, **SEED).fit(X).means_,
        lambda X: GroupMeans(groups="discover", by="g", bounds={"b": (-2, 2)}, **SEED).fit(X).means_,
    ):
        np.testing.assert_array_equal(fit(table), fit(FRAME))
    assert [open_source(table).kind(name) for name in ("a", "g")] == ["number", "text"]
    with pytest.raises(InvalidData, match="entries of type number"):
        GroupMeans(groups=["u", "v"], by="b", bounds={"a": (-2, 2)}).fit(table)


def test_a_table_of_ibis_without_rows() -> None:
    with pytest.raises(InvalidData, match="at least 2 rows"):
        ClippedMean(bounds=(-2, 2)).fit(Table(FRAME.select("a").head(0).to_arrow()))


def test_undeclared_groups_of_a_lazy_frame_are_the_entries_themselves() -> None:
    times = np.datetime64("2020-01-01") + np.tile([0, 1], 250)
    frame = pl.DataFrame({"a": DRAWS.normal(size=500), "t": times})
    made = GroupMeans(groups="discover", by="t", bounds={"a": (-2, 2)}, **SEED)
    assert len(made.fit(frame.lazy()).groups_) == 2
    assert made.fit(frame.lazy()).groups_ == made.fit(frame).groups_


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_dataset_of_pyarrow_is_the_frame(kind: str, tmp_path: Any) -> None:
    dataset = pytest.importorskip("pyarrow.dataset")
    table = FRAME.to_arrow()
    for place in range(3):  # in three files
        dataset.write_dataset(table.slice(place * 200, 200 if place < 2 else None), tmp_path / str(place), format=kind)
    given = dataset.dataset(tmp_path, format=kind)
    assert open_source(given).kind("g") == "text" and open_source(given).kind("a") == "number"
    for fit in (
        lambda X: ClippedMean(bounds={"a": (-2, 2)}, **SEED).fit(X).mean_,
        lambda X: GroupMeans(groups=["u", "v"], by="g", bounds={"b": (-2, 2)}, **SEED).fit(X).means_,
        lambda X: GroupMeans(groups="discover", by="g", bounds={"b": (-2, 2)}, **SEED).fit(X).means_,
    ):
        np.testing.assert_array_equal(fit(given), fit(FRAME))
    with pytest.raises(InvalidData, match="entries of type number"):
        GroupMeans(groups=["u", "v"], by="b", bounds={"a": (-2, 2)}).fit(given)
    empty = dataset.dataset(table.slice(0, 0))
    with pytest.raises(InvalidData, match="at least 2 rows"):
        ClippedMean(bounds={"a": (-2, 2)}).fit(empty)
