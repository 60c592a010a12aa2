"""Private tables of labels, in any container: the code of each row's entry among declared levels, by itself."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpstats.data.foreign import frame_of, in_memory
from dpstats.data.labels import column_names
from dpstats.errors import InvalidData

_ROWS = "X must be a table of labels: a data frame, an array (n_samples, {}), or a list of rows of as many entries"


class Levels(Protocol):
    """Declared levels of a column, `Categories` or `Bins` say, and the code of each entry among them."""

    def codes(self, data: Any, name: str = "data") -> NDArray[np.int64]:
        """Return the position of each entry's level, -1 for one in none."""


def codes_of(X: Any, levels: Sequence[Levels], names: Sequence[Any] | None = None) -> NDArray[np.int64]:
    """Return the position of every entry among the levels of its column, -1 for one in none: shape (n, k).

    Parameters
    ----------
    X : data frame, DuckDB relation, array of shape (n, k), or list of rows
        Private. With a single column also a 1-d sequence. An entry is read by itself; the type that an array or a
        column declares is public.
    levels : sequence of k Levels
        Public.
    names : sequence of k names, optional
        Of the columns to take of a data frame, which may have more; without, it has k columns.

    Raises
    ------
    InvalidData
        If X is no such table, or has no column of a name.
    """
    columns = _columns(in_memory(X), len(levels), names)
    codes = [kind.codes(column, "X") for kind, column in zip(levels, columns, strict=True)]
    return np.column_stack(codes)


def rows_stated(X: Any) -> int | None:
    """Return the number of rows of a table that states it, without looking into it; None if it does not."""
    shape = getattr(X, "shape", None)
    if isinstance(X, list | tuple):
        return len(X)
    if isinstance(shape, tuple) and shape and isinstance(shape[0], int | np.integer):
        return int(shape[0])
    return None


def _columns(X: Any, k: int, names: Sequence[Any] | None) -> list[Any]:
    refusal = _ROWS.format(k)
    X = fetched(X, k, names)
    given = column_names(X)
    if given is not None and len(set(map(str, given))) < len(given):
        raise InvalidData(f"X must have a name of its own for every column, got {reprlib.repr(given)}")
    frame = frame_of(X)
    if frame is not None:
        return _of_frame(frame, k, names)
    if isinstance(X, str | bytes | Mapping | Set) or hasattr(X, "sparse") or hasattr(X, "tocsr"):
        raise InvalidData(refusal)
    shape = getattr(X, "shape", None)
    if isinstance(shape, tuple):
        if len(shape) == 1 and k == 1:
            return [X]
        if len(shape) != 2 or shape[1] != k:
            raise InvalidData(f"{refusal}, got shape {shape}")
        array = X if isinstance(X, np.ndarray) else np.asarray(X)
        return [array[:, j] for j in range(k)]
    if not hasattr(type(X), "__iter__"):
        raise InvalidData(refusal)
    if k == 1:
        # By each row: another in its place must not change how the rest is read.
        return [[_alone(row) for row in X]]
    rows = [_entries(row) for row in X]
    if any(row is None or len(row) != k for row in rows):
        raise InvalidData(f"{refusal}, got at least one row that is none of {k} entries")
    return [[row[j] for row in rows] for j in range(k)]  # type: ignore[index]


def _of_frame(frame: Any, k: int, names: Sequence[Any] | None) -> list[Any]:
    return [frame[name].to_native() for name in _chosen(list(frame.columns), k, names)]


def _chosen(given: list[Any], k: int, names: Sequence[Any] | None) -> Sequence[Any]:
    """Return the names of the columns to take of those that there are."""
    if names is None:
        if len(given) != k:
            raise InvalidData(f"X must have {k} columns, as levels are declared for, got {len(given)}")
        return given
    if absent := [name for name in names if name not in given]:
        raise InvalidData(
            f"X must have a column for every name that levels are declared for, got none of the name {absent[0]!r}"
        )
    return names


def fetched(X: Any, k: int, names: Sequence[Any] | None = None) -> Any:
    """Return the rows of a relation of DuckDB, of k columns or those of the names, as tuples; anything else as it is.

    Tuples hold Python's objects by the columns' declared types: a frame's column of whole numbers would be of floats
    where one entry is missing.

    Raises
    ------
    InvalidData
        If the relation lacks a column, or cannot be read.
    """
    if type(X).__module__.lstrip("_").partition(".")[0] != "duckdb" or not hasattr(X, "fetchall"):
        return X
    chosen = _chosen(list(X.columns), k, names)
    quoted = ", ".join('"' + str(name).replace('"', '""') + '"' for name in chosen)
    rows = None
    # What it says of an error may be what is in the rows.
    with suppress(Exception):
        rows = X.project(quoted).fetchall()
    if rows is None:
        raise InvalidData("X must be a relation whose rows can be fetched; fetch them to see why they cannot")
    return rows


def _alone(row: Any) -> Any:
    entries = _entries(row)
    return row if entries is None or len(entries) != 1 else entries[0]


def _entries(row: Any) -> Sequence[Any] | None:
    if isinstance(row, list | tuple):
        return row
    return list(row) if isinstance(row, np.ndarray) and row.ndim == 1 else None
