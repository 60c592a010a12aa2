"""Out-of-core rows. An engine provides public names and sizes, and exact sums over blocks of rows, and nothing more.

An engine reads every row once and in any order, and converts each entry independently. It adds up the integers that a
pure function returns for each block. So every engine, and every partition into blocks, gives the same sums as one array
in memory.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpstats.data.columns import check_kind, list_items
from dpstats.data.missing import NO_CODES, MissingCodes
from dpstats.data.rows import as_float64, rows_of
from dpstats.data.schema import Schema, add_column
from dpstats.data.source import Source
from dpstats.data.tables import Integers, Rows, Sums, Table
from dpstats.errors import InvalidData, refuse_data

Beside = str | tuple[str, ...] | None
"""Name of the additional column next to the numbers, or several names."""


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
                raise refuse_data(
                    "X", got="an array", allowed="a data frame for its columns to be attributes"
                )
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
        return self._engine.total(_AsTable(self._schema, self.names, work))

    def whole(self) -> Table:
        parts = self._engine.collect()
        X = np.concatenate([part.X for part in parts])
        columns = zip(*(part.beside for part in parts), strict=True)
        return _read_part(Part(X, list(map(_concatenate, columns))), self._schema, self.names)

    def aggregates(self, expressions: Sequence[str], of: Sequence[str]) -> list[int] | None:
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
        X = np.column_stack(
            [kind.codes(codes.clear_entries("X", next(entries)), "X") for kind in schema.levels]
        )
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
    return refuse_data(
        "X", allowed="rows that can be read", remedy="Read them without dpstats to see why they cannot."
    )


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
