from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dpstats.data.frames import column
from dpstats.data.schema import Column, Schema
from dpstats.data.tables import Rows
from dpstats.errors import InvalidData, refuse, refuse_data, show_names

# Sources of private rows, one per kind of container. Opening a source reads no entry.


class Source(ABC):
    """A container of private rows.

    Attributes
    ----------
    names : list, optional
        Public names of the columns, in order.
    unit : str
        Public unit of privacy of a row, as declared.
    ordered : bool
        Whether the rows have an order, which separately given entries follow.
    beside : tuple of column names
        Columns to use as ``y`` if a fit is called without one.

    See Also
    --------
    register : Open containers of a type as a source.

    Examples
    --------
    A container of another library becomes a source by two methods.

    >>> import numpy as np
    >>> from dpstats.data import Source, Table
    >>> from dpstats.means import ClippedMean
    >>> class Repeated(Source):
    ...     def __init__(self, value, times):
    ...         self.value, self.times = value, times
    ...     def size(self, schema):
    ...         return self.times, 1
    ...     def read(self, schema, given=None):
    ...         return Table(np.full((self.times, 1), float(self.value)))
    >>> ClippedMean(bounds=(0, 10), random_state=0).fit(Repeated(7, 1000)).mean_.round(1)
    array([7.])
    """

    names: list[Any] | None = None
    unit: str = "row"
    ordered: bool = True
    beside: tuple[str, ...] = ()

    @abstractmethod
    def size(self, schema: Schema) -> tuple[int, int] | None:
        """Return the stated number of rows and of columns, or None if rows must be counted."""

    @abstractmethod
    def read(self, schema: Schema, given: Mapping[str, Any] | None = None) -> Rows:
        """Return the rows as a schema reads them, or raise an error.

        Parameters
        ----------
        schema : Schema
            Result of `resolve`.
        given : mapping of roles to sequences, optional
            Entries of the columns that are given separately from X.
        """

    def resolve(self, schema: Schema, y: Any) -> tuple[Schema, dict[str, Any]]:
        """Return the schema of these rows, from public facts, and the entries that ``y`` contains."""
        open_columns = schema.open_columns
        if not open_columns:
            if schema.beside and y is not None:
                parameter = schema.beside[0].parameter
                raise refuse(
                    "y", allowed=f"not be given with {parameter}: {parameter} names the column of X to use"
                )
            return schema.resolve(self.names), {}
        named = self.beside if y is None else _named(y, len(open_columns))
        if y is None and len(self.beside) != len(open_columns):
            # The checks of scikit-learn require the middle part of this message.
            raise InvalidData(
                f"y must be {open_columns[0].meaning}, or the name of a column of X: fit requires y to be passed, but "
                "the target y is None"
            )
        if named is not None:
            if self.names is not None and any(list(self.names).count(name) != 1 for name in named):
                # The name is in a slot of the data, so it is not shown.
                raise refuse("y", allowed=f"name columns of X ({show_names(self.names)})")
            names = iter(named)
            beside = tuple(
                part if part.name is not None else replace(part, name=next(names)) for part in schema.beside
            )
            return replace(schema, beside=beside).resolve(self.names), {}
        if not self.ordered:
            raise refuse_data(
                "y",
                allowed="the name of a column of X where X is a relation, a file, a lazy frame, or a data frame of "
                "Dask or Spark",
                remedy="Their rows have no order that another container could follow.",
            )
        return schema.resolve(self.names), self._entries_given(open_columns, y)

    def _entries_given(self, columns: tuple[Column, ...], y: Any) -> dict[str, Any]:
        """Return the entries of each column in ``y``."""
        if len(columns) == 1:
            return {columns[0].role: y}
        parts = _split(y, len(columns))
        if parts is None:
            words = ", ".join(column.role for column in columns)
            others = " and ".join(column.parameter for column in columns if column.parameter != "y")
            raise refuse_data(
                "y",
                allowed=f"{len(columns)} columns ({words}): a data frame or an array of as many columns, a tuple of "
                "sequences, or a list of the names of columns of X",
                remedy=f"Or pass {others} by keyword." if others else "",
            )
        return {column.role: part for column, part in zip(columns, parts, strict=True)}

    def kind(self, name: Any) -> str | None:
        """Return the kind of entries that a column declares, such as "number" or "text", or None."""
        return None


def _named(y: Any, count: int) -> tuple[str, ...] | None:
    """Return the names of columns in ``y``, or None if it contains entries."""
    if isinstance(y, str):
        return (y,) if count == 1 else None
    several = count > 1 and isinstance(y, list | tuple) and len(y) == count
    return tuple(y) if several and all(isinstance(name, str) for name in y) else None


def _split(y: Any, count: int) -> list[Any] | None:
    """Return the columns of a table, or the sequences of a tuple."""
    if isinstance(y, tuple):
        return list(y) if len(y) == count else None
    names = getattr(getattr(y, "dtype", None), "names", None)
    if names is not None:
        return [y[name] for name in names] if len(names) == count else None
    shape: Any = getattr(y, "shape", ())
    if len(shape) != 2 or shape[1] != count:
        return None
    if hasattr(y, "columns"):
        return [column(y, name) for name in y.columns]
    return [y[:, place] for place in range(count)]
