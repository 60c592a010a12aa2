"""Columns with declared bounds or levels: public facts about each column, and reading it row by row."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.frames import check_indexes, frame_of, in_memory, series_of
from dpstats.data.labels import column_names
from dpstats.data.levels import Categories
from dpstats.data.missing import NO_CODES, MissingCodes
from dpstats.data.parameters import check_real
from dpstats.data.rows import column_of
from dpstats.data.values import is_missing
from dpstats.errors import refuse, refuse_data, show, show_names
from dpstats.regression.formula.expressions import Span

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Declared:
    """The bounds of numeric columns and the levels of factors, by column name.

    ``shares`` has the smallest fraction of the rows that is declared for a level, for factors with such fractions.
    """

    bounds: Mapping[str, tuple[float, float]]
    levels: Mapping[str, Categories]
    shares: Mapping[str, float] = field(default_factory=dict)


def is_truth(declared: Declared, name: str) -> bool:
    """Return whether the declared levels of a column are False and True, in any order."""
    return name in declared.levels and are_truths(declared.levels[name].values)


def are_truths(levels: Sequence[Any]) -> bool:
    """Return whether the levels of a factor are False and True, in any order."""
    return len(levels) == 2 and all(isinstance(level, bool) for level in levels)


def check_declared(bounds: Any, levels: Any, data: Any = None) -> Declared:
    """Return the declarations, or raise `InvalidParameter`.

    The boolean columns of a data frame have the levels False and True, unless ``levels`` declares others.
    """
    levels = {} if levels is None else levels
    for name, value in (("bounds", bounds), ("levels", levels)):
        if not isinstance(value, Mapping):
            raise refuse(name, given=value, allowed="a mapping by the names of columns")
        if not all(isinstance(key, str) for key in value):
            raise refuse(name, allowed="have the names of columns as keys, which are text")
    pairs = {
        key: _check_pair(f"the entry of bounds at position {place}", pair, bounds)
        for place, (key, pair) in enumerate(bounds.items())
    }
    known, shares = {}, {}
    for place, (key, values) in enumerate(levels.items()):
        # A key is not shown before its entry is checked.
        entry = f"the entry of levels at position {place}"
        known[key] = Categories(values, entry)
        if len(known[key]) < 2:
            raise refuse(entry, given=values, allowed="at least two values")
        if isinstance(values, Mapping):
            shares[key] = _check_shares(entry, values)
    boolean = {name: Categories((False, True)) for name in _boolean_columns(data)}
    return Declared(pairs, boolean | known, shares)


def _boolean_columns(data: Any) -> list[str]:
    """Return the columns of a boolean type. The types of columns are public, their entries are not read."""
    import narwhals as nw

    if data is None:
        return []
    names, read = open_table(data)
    columns = [read(name) for name in names]
    types = [getattr(series_of(column), "dtype", getattr(column, "dtype", None)) for column in columns]
    return [
        name
        for name, kind in zip(names, types, strict=True)
        if kind == nw.Boolean or (isinstance(kind, np.dtype) and kind == np.bool_)
    ]


def _check_pair(name: str, pair: Any, bounds: Mapping[Any, Any]) -> tuple[float, float]:
    pair = pair.tolist() if isinstance(pair, np.ndarray) else pair
    if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
        raise refuse(name, got=f"bounds as {show(bounds)}", allowed="a pair (low, high)")
    low, high = (check_real(f"{name}, side {side}", end, of=pair) for side, end in enumerate(pair))
    if not low < high:
        raise refuse(name, given=pair, allowed="have low < high")
    return low, high


def _check_shares(name: str, shares: Mapping[Any, Any]) -> float:
    """Return the smallest of the declared fractions of the levels of a factor, or raise an error."""
    found = [
        check_real(f"{name}, share {place}", share, above=0) for place, share in enumerate(shares.values())
    ]
    if sum(found) > 1 + _ROUNDING:
        allowed = "have fractions of the rows that add up to at most 1"
        raise refuse(name, got=f"{sum(found):g}", allowed=allowed)
    return min(found)


class DeclaredTable:
    """The declared columns of private data. Each column is read at its first use.

    Raises
    ------
    InvalidData
        If the data are not a table, or if a column is missing, cannot be read, or has a different length.
    """

    def __init__(self, declared: Declared, data: Any, codes: MissingCodes = NO_CODES) -> None:
        self._declared, self._read, self._missing = declared, open_table(data)[1], codes
        self._length: int | None = None
        self.number = functools.cache(self._number)
        self.codes = functools.cache(self._codes)

    def __len__(self) -> int:
        """Return the number of rows of the columns that were read."""
        return self._length or 0

    def _number(self, name: str) -> Span:
        """Return a column of numbers, with NaN for missing and infinite entries."""
        bounds = self._declared.bounds
        if is_truth(self._declared, name):
            codes = self.codes(name)
            return Span(0.0, 1.0, codes if self._declared.levels[name].values[1] else 1.0 - codes, truth=True)
        if name not in bounds:
            raise refuse(
                "bounds",
                got=f"bounds of {show_names(bounds)} and levels of {show_names(self._declared.levels)}",
                allowed=f"have the (low, high) of {show(name)} (or levels its categories, if it is a factor)",
            )
        values = column_of(f"data[{name!r}]", self._read(name), self._missing)
        self._check_length(name, len(values))
        return Span(*bounds[name], np.where(np.isfinite(values), values, np.nan))

    def _codes(self, name: str) -> NDArray[np.float64]:
        """Return the position of each row's level, NaN for a missing one without its own level."""
        # Raise an error if a row has an undeclared level.
        levels = self._declared.levels[name]
        known = levels if any(map(is_missing, levels.values)) else Categories([*levels.values, None])
        what = f"data[{name!r}]"
        codes = known.codes(self._missing.clear_entries(what, self._read(name)), what)
        self._check_length(name, len(codes))
        if (codes < 0).any():
            raise refuse_data(
                f"data[{show(name)}]",
                got="at least one row in none of them (a missing category is a level if None is declared)",
                allowed=f"one of its {len(levels)} declared levels in every row",
            )
        return np.where(codes < len(levels), codes, np.nan)

    def _check_length(self, name: str, length: int) -> None:
        if self._length not in (None, length):
            got = f"{length} rows of {show(name)} beside {self._length}"
            raise refuse_data("data", got=got, allowed="have columns of one length")
        self._length = length


def empty_table(declared: Declared) -> DeclaredTable:
    """Return a table without rows, in which the bounds of expressions can be read."""
    return DeclaredTable(declared, dict.fromkeys([*declared.bounds, *declared.levels], ()))


def open_table(data: Any) -> tuple[Sequence[str], Callable[[str], Any]]:
    """Return the names of the columns of a table, and the function that reads one."""
    data = in_memory(data)
    if isinstance(data, Mapping):
        check_indexes({f"data[{name!r}]": column for name, column in data.items()})
    names = list(data) if isinstance(data, Mapping) else column_names(data) or []
    if len(set(names)) < len(names):
        raise refuse_data("data", got=show_names(names), allowed="have a different name for every column")
    frame = frame_of(data) if names and not isinstance(data, Mapping) else None
    if frame is None and not isinstance(data, Mapping):
        kind = type(data)
        module = kind.__module__.partition(".")[0]
        found = kind.__name__ if module in ("builtins", "numpy") else f"{module}.{kind.__name__}"
        allowed = "a data frame in memory or a mapping of names to columns"
        raise refuse_data("data", got=found, allowed=allowed, remedy="Collect it first.")
    if frame is None and any(
        isinstance(column, str) or not hasattr(column, "__len__") for column in data.values()
    ):
        # The keys may then be entries, and are not shown as names of columns.
        raise refuse_data("data", got="one to single entries", allowed="a mapping of names to columns")

    def read(name: str) -> Any:
        if name not in names:
            raise refuse_data(
                "data", got=show_names(names), allowed=f"have the column {show(name)} of the formula"
            )
        return data[name] if frame is None else frame.get_column(name).to_native()

    return names, read
