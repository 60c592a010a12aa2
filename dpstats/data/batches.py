"""Rows in blocks: engines of lazy frames and Dask, which give public names and sizes, and exact sums of rows."""

from __future__ import annotations

import copy
import logging
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpstats.data.columns import check_kind, kind_of, list_items
from dpstats.data.rows import NO_CODES, Integers, MissingCodes, Rows, Sums, Table, add_sums, added, as_float64, rows_of
from dpstats.data.schema import Schema, Source, add_column
from dpstats.errors import InvalidData, refuse_data

Beside = str | tuple[str, ...] | None
"""Name of the additional column next to the numbers, or several names."""


_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False, repr=False)
class Part:
    """Private: some of the rows.

    Attributes
    ----------
    X : float64 array of shape (m, n_features)
    beside : sequence of sequences of length m
        Entries of the requested additional columns.
    """

    X: NDArray[np.float64]
    beside: Sequence[Any] = ()


Work = Callable[[Part], Sums]
"""A pure function of some rows. Its results add up over any partition of the rows."""


class Engine(Source):
    """Private rows in a database, a file or a cluster.

    An engine reads every row once and in any order, and converts each entry independently. It adds up the integers that
    a pure function returns for each block. So every engine, and every partition into blocks, gives the same sums as one
    array in memory.

    Attributes
    ----------
    columns : list of str, or None
        Public names of the columns of numbers, or None if they have no names.
    beside : tuple of str
        Names of additional columns: outcomes or labels.
    codes : MissingCodes
        Codes of missing entries. An engine needs them only where a column of numbers has words.
    local : bool
        Whether `total` calls its function in this process.
    """

    columns: list[str] | None
    codes: MissingCodes = NO_CODES
    ordered = False
    local: ClassVar[bool] = True

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns of numbers, which are public."""

    @abstractmethod
    def having(self, columns: Sequence[str] | None, beside: Beside = None) -> Engine:
        """Return the same rows with selected columns as numbers (None: all except ``beside``), and with ``beside``."""

    @abstractmethod
    def total(self, work: Work) -> dict[str, Integers]:
        """Return the sums of the results of ``work``, over any partition of the rows.

        Raises
        ------
        InvalidData
            If ``work`` does, or if the rows cannot be read, or are not as many as their shape says.
        """

    @property
    def names(self) -> list[Any] | None:  # type: ignore[override]
        """The names of all columns that were chosen; None where they have none."""
        return None if self.columns is None else list(dict.fromkeys([*self.columns, *self.beside]))

    def size(self, schema: Schema) -> tuple[int, int] | None:
        return None  # counting the rows requires reading them

    def read(self, schema: Schema, given: Mapping[str, Any] | None = None) -> Rows:
        if schema.ordered:
            raise refuse_data(
                "X",
                allowed="in memory for an estimator that uses the order of the rows",
                remedy="Relations, files, lazy frames and rows of a cluster have no order.",
            )
        if schema.counted:
            raise refuse_data("X", allowed="in memory: a histogram, one count for each point of the universe")
        labels: list[tuple[str, Any, Any]] = [
            ("data" if schema.plain else "X", name, kind)
            for name, kind in zip(schema.numbers or (), schema.levels or (), strict=False)
        ]
        labels += [(part.parameter, part.name, part.levels) for part in schema.named_columns]
        for parameter, name, levels in labels:
            if levels is not None:
                check_kind(parameter, self.kind(name), levels)
        chosen = self._chosen(schema)
        if schema.codes:
            chosen = copy.copy(chosen)
            vars(chosen)["codes"] = schema.codes
        rows = Stream(chosen, schema)
        # Grouping rows by unit, or by undeclared label, requires all rows at the same time.
        at_once = any(part.role in ("labels", "units") for part in schema.beside)
        return rows.whole() if at_once else rows

    def _chosen(self, schema: Schema) -> Engine:
        if self.columns is None:
            if schema.levels is not None:
                raise refuse_data("X", got="an array", allowed="a data frame for its columns to be attributes")
            return self
        beside = tuple(column.name for column in schema.named_columns)
        if schema.levels is None:
            return self.having(schema.numbers, beside)
        return self.having([], (*(schema.numbers or ()), *beside))

    def collect(self) -> list[Part]:
        """Return all parts, in this process."""
        parts: list[Part] = []

        def keep(part: Part) -> Sums:
            parts.append(part)
            return {}

        self.total(keep)
        return parts

    def check_count(self, n: int) -> None:
        """Raise an error if the number of rows that were read differs from the counted number."""
        if n != self.shape[0]:
            raise refuse_data("X", allowed="have as many rows whenever it is read: it changed meanwhile")

    def aggregates(self, expressions: Sequence[str], of: Sequence[str]) -> list[int] | None:
        """Return the integers that SQL aggregates give; None from engines that do not speak SQL.

        They are aggregates of c0, c1, ... The expressions in ``of`` define these for a row.
        """
        return None

    def expression(self, column: int) -> str | None:
        """Return the SQL of a column of numbers, as DOUBLE; None from engines that do not speak SQL."""
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.columns or [])} columns)"


# Rows of an engine as a schema reads them


class Stream(Rows):
    """Rows that are read block by block, each as a `Table`."""

    __slots__ = ("_engine", "_schema", "names")

    def __init__(self, engine: Engine, schema: Schema) -> None:
        self._engine, self._schema = engine, schema
        self.names = None if engine.columns is None else list(schema.numbers or engine.columns)

    @property
    def shape(self) -> tuple[int, int]:
        n, d = self._engine.shape
        return n, d if self._schema.levels is None else len(self._schema.levels)

    @property
    def local(self) -> bool:
        return self._engine.local

    def total(self, work: Callable[[Table], Sums]) -> dict[str, Integers]:
        self._log("sums")
        return self._engine.total(_AsTable(self._schema, self.names, work))

    def _log(self, purpose: str) -> None:
        # Neither the number of rows nor how long it took: both may be private.
        columns = len(self.names or ())
        _LOGGER.info("pass over the data: %s of %d columns, %s", purpose, columns, type(self._engine).__name__)

    def whole(self) -> Table:
        self._log("all rows")
        parts = self._engine.collect()
        X = np.concatenate([part.X for part in parts])
        columns = zip(*(part.beside for part in parts), strict=True)
        return _read_part(Part(X, list(map(_concatenate, columns))), self._schema, self.names)

    def aggregates(self, expressions: Sequence[str], of: Sequence[str]) -> list[int] | None:
        self._log("aggregates")
        return self._engine.aggregates(expressions, of)

    def expression(self, column: int) -> str | None:
        found = self._engine.expression(column)
        return None if found is None else self._schema.codes.clear_sql(found)


@dataclass(frozen=True)
class _AsTable:
    """Work on tables, for an engine that has parts. It is pickled where the parts are elsewhere."""

    schema: Schema
    names: list[Any] | None
    work: Callable[[Table], Any]

    def __call__(self, part: Part) -> Any:
        return self.work(_read_part(part, self.schema, self.names))


def _read_part(part: Part, schema: Schema, names: list[Any] | None) -> Table:
    """Return some rows as the schema reads them, each independently."""
    codes, entries = schema.codes, iter(part.beside)
    X: Any = codes.clear_numbers(part.X)
    if schema.levels is not None:
        X = np.column_stack([kind.codes(codes.clear_entries("X", next(entries)), "X") for kind in schema.levels])
    beside: dict[str, Any] = {}
    for column in schema.named_columns:
        add_column(beside, column, column.read(next(entries), schema.missing, codes))
    return Table(X, **beside, names=names)


def _concatenate(columns: Sequence[Any]) -> Any:
    """Return the entries of a column of all parts: as one array of their type, or as a list of their kind."""
    if all(isinstance(column, np.ndarray) and column.dtype == columns[0].dtype for column in columns):
        return np.concatenate(columns)
    if isinstance(columns[0], list):
        return type(columns[0])(entry for column in columns for entry in column)
    # Columns of a data frame are read item by item, as from rows in memory.
    return [entry for column in columns for entry in list_items("X", column)]


# Columns, errors and sums of all engines


def names_of(beside: Beside) -> tuple[str, ...]:
    """Return the names of the additional columns."""
    return () if beside is None else (beside,) if isinstance(beside, str) else beside


def chosen_columns(
    given: Sequence[str], columns: Sequence[str] | None, beside: Beside
) -> tuple[list[str], tuple[str, ...]]:
    """Return the names of the columns of numbers and of the additional columns, or raise an error for unknown names."""
    if len(set(given)) < len(given):
        raise refuse_data("X", allowed="have a different name for every column")
    others = names_of(beside)
    wanted = [name for name in given if name not in others] if columns is None else list(columns)
    for name in [*wanted, *others]:
        if name not in given:
            raise refuse_data("X", got="one without", allowed="have a column of every name that is given")
    return wanted, others


def refusal() -> InvalidData:
    """Return the error for rows that a library cannot read. The library's own message may quote data."""
    return refuse_data("X", allowed="rows that can be read", remedy="Read them without dpstats to see why they cannot.")


def run_query(query: Callable[[], Any]) -> Any:
    """Return the result of a query to another library. Replace its errors, because their messages may quote data."""
    try:
        return query()
    except (InvalidData, MemoryError):
        raise
    except Exception:
        failed = True
    if failed:  # outside of the handler, so that the error has no context
        raise refusal()


def read_numbers(frame: Any, codes: MissingCodes = NO_CODES) -> NDArray[np.float64]:
    """Return the rows of a data frame of numbers, which may have no columns."""
    X = rows_of(frame, codes) if frame.shape[1] else np.empty((len(frame), 0))
    if getattr(X, "ndim", 0) != 2 or X.dtype.kind not in "fiub":
        raise refuse_data("X", allowed="a 2-d table of numbers")
    return as_float64(X)  # type: ignore[no-any-return]


N_ROWS = "\0number of rows"
"""Name of the count of rows among the sums of a part. No stage has a name with this character."""


@dataclass(frozen=True)
class Counted:
    """A function of some rows, together with their number."""

    work: Work

    def __call__(self, part: Part) -> dict[str, Any]:
        return {**self.work(part), **count_rows(part)}


def count_rows(part: Part) -> dict[str, Any]:
    """Return the number of rows."""
    return {N_ROWS: np.int64(len(part.X))}


def return_rows(part: Part) -> Part:
    """Return the rows."""
    return part


# Lazy frames of polars, tables of ibis, datasets of pyarrow


def open_lazy_frame(frame: Any) -> LazyRows:
    """Return the rows of a lazy frame of polars."""
    if not hasattr(frame, "collect_batches"):
        raise refuse_data(
            "X",
            allowed="a lazy frame that polars can read in batches (polars 1.34 or newer)",
            remedy="Collect the frame, or write it as a Parquet file and give the path.",
        )
    return PolarsRows(frame, list(run_query(frame.collect_schema)))


_BATCH_ENTRIES = 1 << 20
"""Entries of a batch at most."""


@dataclass(frozen=True, eq=False, repr=False)
class LazyRows(Engine):
    """Rows that a library computes in batches. Each pass runs the query again, so that one batch is in memory.

    Attributes
    ----------
    frame : polars.LazyFrame, ibis table, or pyarrow.dataset.Dataset
    columns : list of str
    beside : tuple of str
    """

    frame: Any
    columns: list[str]
    beside: tuple[str, ...] = ()

    @cached_property
    def shape(self) -> tuple[int, int]:
        return int(run_query(self._count)), len(self.columns)

    def having(self, columns: Sequence[str] | None, beside: Beside = None) -> LazyRows:
        chosen, others = chosen_columns(self._all_names, columns, beside)
        return replace(self, columns=chosen, beside=others)

    def total(self, work: Work) -> dict[str, Integers]:
        wanted = list(dict.fromkeys([*self.columns, *self.beside])) or self._all_names[:1]
        size = max(1, _BATCH_ENTRIES // max(1, len(wanted)))
        batches = iter(run_query(lambda: self._batches(wanted, size)))
        total: dict[str, Integers] = {}
        seen = 0
        while True:
            batch = run_query(lambda: next(batches, None))
            if batch is None and seen:
                break
            if batch is None:
                batch = run_query(lambda: self._nothing(wanted))
            seen += len(batch)
            X = np.empty((len(batch), 0))
            if self.columns:
                X = read_numbers(batch.select(self.columns), self.codes)
            added(total, work(Part(X, [batch[name] for name in self.beside])))
            if not seen:
                break
        self.check_count(seen)
        return total

    @property
    @abstractmethod
    def _all_names(self) -> list[str]:
        """Names of the columns of the query."""

    @abstractmethod
    def _count(self) -> int:
        """Return the number of rows."""

    @abstractmethod
    def _batches(self, names: list[str], size: int) -> Iterable[Any]:
        """Return frames of some of the columns, of at most a number of rows."""

    @abstractmethod
    def _nothing(self, names: list[str]) -> Any:
        """Return a frame of some of the columns, without rows."""


class PolarsRows(LazyRows):
    """Rows of a lazy frame of polars."""

    @cached_property
    def _schema(self) -> Any:
        return run_query(self.frame.collect_schema)

    @property
    def _all_names(self) -> list[str]:
        return list(self._schema)

    def kind(self, name: Any) -> str | None:
        import polars

        return kind_of(polars.Series([], dtype=self._schema[name]))

    def _count(self) -> int:
        import polars

        return int(self.frame.select(polars.len()).collect().item())

    def _batches(self, names: list[str], size: int) -> Iterable[Any]:
        return self.frame.select(names).collect_batches(chunk_size=size)  # type: ignore[no-any-return]

    def _nothing(self, names: list[str]) -> Any:
        return self.frame.select(names).head(0).collect()


class IbisRows(LazyRows):
    """Rows of a table of ibis. The backend sends the rows to this process."""

    @property
    def _all_names(self) -> list[str]:
        return [str(name) for name in self.frame.columns]

    def kind(self, name: Any) -> str | None:
        import pyarrow

        return kind_of(pyarrow.chunked_array([], type=self.frame[name].type().to_pyarrow()))

    def _count(self) -> int:
        return int(self.frame.count().to_pyarrow().as_py())

    def _batches(self, names: list[str], size: int) -> Iterable[Any]:
        import pyarrow

        batches = self.frame.select(names).to_pyarrow_batches(chunk_size=size)
        return (pyarrow.Table.from_batches([batch]) for batch in batches)

    def _nothing(self, names: list[str]) -> Any:
        return self.frame.select(names).schema().to_pyarrow().empty_table()


class DatasetRows(LazyRows):
    """Rows of a dataset of pyarrow: of one file or of many."""

    @property
    def _all_names(self) -> list[str]:
        return list(self.frame.schema.names)

    def kind(self, name: Any) -> str | None:
        import pyarrow

        return kind_of(pyarrow.chunked_array([], type=self.frame.schema.field(name).type))

    def _count(self) -> int:
        return int(self.frame.count_rows())

    def _batches(self, names: list[str], size: int) -> Iterable[Any]:
        import pyarrow

        batches = self.frame.to_batches(columns=names, batch_size=size)
        return (pyarrow.Table.from_batches([batch]) for batch in batches if batch.num_rows)

    def _nothing(self, names: list[str]) -> Any:
        return self.frame.schema.empty_table().select(names)


# Dask


def open_array(array: Any) -> DaskRows:
    """Return the rows of a dask array."""
    if array.ndim != 2:
        raise refuse_data("X", got=f"{array.ndim} dimension(s)", allowed="a 2-d table (n_samples, n_features)")
    return DaskRows(array, None)


def open_frame(frame: Any) -> DaskRows:
    """Return the rows of a dask data frame."""
    return DaskRows(frame, [str(name) for name in frame.columns])


@dataclass(frozen=True, eq=False, repr=False)
class DaskRows(Engine):
    """Rows of a Dask collection, with a pure task for each partition, on any scheduler.

    The scheduler runs a lost task again, and it returns the same integers. Budgets are charged outside of tasks.

    Attributes
    ----------
    collection : dask array of shape (n, d), or dask data frame
    columns : list of str, or None
    beside : tuple of str
    """

    collection: Any
    columns: list[str] | None
    beside: tuple[str, ...] = ()
    local = False

    @cached_property
    def shape(self) -> tuple[int, int]:
        d = self.collection.shape[1] if self.columns is None else len(self.columns)
        if self.columns is None and not np.isnan(self.collection.shape[0]):
            return int(self.collection.shape[0]), int(d)
        from dask.delayed import delayed

        # Rows of a frame are counted in one column.
        some = self if self.columns is None else replace(self, columns=[*self.columns, *self.beside][:1], beside=())
        count = delayed(_count_block, pure=True)
        return int(_run([count(block) for block in some._blocks()])[N_ROWS]), int(d)

    def size(self, schema: Schema) -> tuple[int, int] | None:
        # An array may know the sizes of its blocks. A frame does not.
        stated = self.columns is None and not np.isnan(self.collection.shape[0])
        return self.shape if stated else None

    def having(self, columns: Sequence[str] | None, beside: Beside = None) -> DaskRows:
        if self.columns is None:
            raise refuse_data("X", got="an array", allowed="a data frame for its columns to have names")
        chosen, others = chosen_columns([str(name) for name in self.collection.columns], columns, beside)
        return replace(self, columns=chosen, beside=others)

    def kind(self, name: Any) -> str | None:
        import pandas as pd

        return kind_of(pd.Series([], dtype=self.collection.dtypes[name]))

    def total(self, work: Work) -> dict[str, Integers]:
        found = _run(self._tasks(Counted(work)))
        self.check_count(int(found.pop(N_ROWS)))
        return found

    def collect(self) -> list[Part]:
        parts = _compute(self._tasks(return_rows))
        self.check_count(sum(len(part.X) for part in parts))
        return parts

    def _tasks(self, work: Any) -> list[Any]:
        from dask.delayed import delayed

        task = delayed(_on_block, pure=True)
        return [task(work, block, self.columns, self.beside, self.codes) for block in self._blocks()]

    def _blocks(self) -> list[Any]:
        """Return the partitions, with the columns that are used: Dask reads no others from files."""
        if self.columns is None:
            # Put all columns of an array into one chunk, so that rows are complete.
            whole = self.collection.rechunk({1: -1})
        else:
            used = {*self.columns, *self.beside}
            whole = self.collection[[name for name in self.collection.columns if str(name) in used]]
        return list(np.ravel(whole.to_delayed()))


def _count_block(block: Any) -> dict[str, int]:
    return {N_ROWS: len(block)}


def _on_block(work: Work, block: Any, columns: list[str] | None, beside: tuple[str, ...], codes: MissingCodes) -> Any:
    """Return the sums of one partition."""
    if columns is None:
        return work(Part(read_numbers(block, codes)))
    block = block.rename(columns=str)
    return work(Part(read_numbers(block[columns], codes), [block[name] for name in beside]))


_SUMS_PER_TASK = 8
"""Partial sums that one task adds up."""


def _run(tasks: list[Any]) -> dict[str, Any]:
    """Return the sum of the results of tasks, added up in a tree."""
    from dask.delayed import delayed

    plus = delayed(add_sums, pure=True)
    while len(tasks) > 1 or not tasks:
        tasks = [plus(tasks[i : i + _SUMS_PER_TASK]) for i in range(0, len(tasks), _SUMS_PER_TASK)] or [plus([])]
    return dict(_compute(tasks)[0])


def _compute(tasks: list[Any]) -> list[Any]:
    """Return the results of tasks, or raise an error if rows cannot be read."""
    from dask.base import compute

    failed: InvalidData | None = None
    try:
        return list(compute(*tasks))
    except InvalidData as error:
        failed = InvalidData(*error.args)
    except Exception:  # an error of the graph may quote rows
        failed = refusal()
    raise failed
