from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.columns import check_kind, kind_of
from dpstats.data.counts import is_histogram, read_counts
from dpstats.data.frames import check_indexes, column, frame_of, select, series_of
from dpstats.data.labels import column_names, unit_of
from dpstats.data.missing import MissingCodes
from dpstats.data.rows import (
    InvalidType,
    as_float64,
    as_table,
    canonical,
    column_of,
    object_found,
    refuse_copies,
    rows_of,
    text_found,
    times_found,
)
from dpstats.data.schema import Schema, add_column
from dpstats.data.source import Source
from dpstats.data.tables import Narrow, Rows, Table
from dpstats.errors import InvalidData, refuse_data

# Rows in memory


_LABELS = "a table of labels: a data frame, an array (n_samples, {}), or a list of rows of as many entries"
_REAL = "a 2-d table of real numbers"


class Memory(Source):
    """Rows in memory."""

    def __init__(self, X: Any) -> None:
        self._X = X
        self.unit = unit_of(X)
        self.names = column_names(X)

    def size(self, schema: Schema) -> tuple[int, int] | None:
        if is_histogram(self._X, schema):
            return None  # the number of rows is a sum of private counts
        shape = stated_shape(self._X)
        if shape is None:
            return None
        if schema.levels is not None:
            return shape[0], len(schema.levels)
        if schema.numbers is not None:
            return shape[0], len(schema.numbers)
        return shape[0], shape[1] if len(shape) == 2 else 1

    def read(self, schema: Schema, given: Mapping[str, Any] | None = None) -> Rows:
        given = {} if given is None else given
        if is_histogram(self._X, schema):
            return read_counts(self._X, schema.cells)
        self._check_swapped(given, schema)
        parameters = {part.role: part.parameter for part in schema.open_columns}
        check_indexes({"X": self._X, **{parameters[role]: entries for role, entries in given.items()}})
        X = self._numbers(schema) if schema.levels is None else self._codes(schema)
        beside: dict[str, Any] = {}
        for part in schema.beside:
            entries = given[part.role] if part.name is None else column(self._X, part.name)
            read = part.read(entries, schema.missing, schema.codes)
            if read.shape != X.shape[:1]:
                allowed, got = "have an entry for each row of X", None
                if not schema.private_size:
                    allowed, got = f"{allowed} (n_samples = {X.shape[0]})", f"shape {read.shape}"
                raise refuse_data(part.parameter, got=got, allowed=allowed)
            add_column(beside, part, read)
        names = None if self.names is None else list(schema.numbers or self.names)
        table = Table(X, **beside, names=names)
        narrow = schema.levels is None and X.dtype != np.float64 and isinstance(X, np.ndarray)
        return Narrow(table) if narrow else table

    def _check_swapped(self, given: Mapping[str, Any], schema: Schema) -> None:
        shape = stated_shape(self._X)
        for entries in given.values():
            other = getattr(entries, "shape", ())
            if shape is not None and len(shape) == 1 and len(other) == 2:
                got = f"X of shape {shape} and y of shape {tuple(other)}"
                raise refuse_data(
                    "X",
                    got=None if schema.private_size else got,
                    allowed="the rows and y one entry for each of them",
                    remedy="X comes first, then y; one column is X.reshape(-1, 1).",
                )

    # Numbers

    def _numbers(self, schema: Schema) -> Any:
        X = self._X
        if np.ma.isMaskedArray(X):
            raise refuse_data(
                "X",
                allowed="not be a masked array",
                remedy="Make masked entries NaN, and set missing='drop'.",
            )
        if self.names is not None and schema.numbers is not None and list(schema.numbers) != self.names:
            X = select(X, list(schema.numbers))
        # Read the rows first: scikit-learn would parse text, and give the rows of a list one type. It only checks.
        read = _refusing(lambda: _plain(X, schema.sparse, schema.codes))
        least = 0 if schema.private_size else 1
        rows = _refusing(lambda: _checked(read, schema.sparse, least), repeat=True)
        if rows.dtype.kind in "mM":
            raise times_found("X", _REAL)
        if rows.dtype.kind not in "fiub":
            raise refuse_data("X", got=f"an array of dtype {rows.dtype}", allowed=_REAL)
        return schema.codes.clear_numbers(rows)

    # Labels

    def _codes(self, schema: Schema) -> NDArray[np.int64]:
        levels, name = schema.levels or (), "data" if schema.plain else "X"
        columns = self._columns(len(levels), schema.numbers if self.names is not None else None, schema.plain)
        if stated_shape(self._X) not in ((0,), (0, len(columns))):  # an empty column has no type
            for kind, entries in zip(levels, columns, strict=True):
                check_kind(name, kind_of(entries), kind)
        codes = [
            kind.codes(schema.codes.clear_entries(name, entries), name)
            for kind, entries in zip(levels, columns, strict=True)
        ]
        if len(set(map(len, codes))) > 1:
            raise refuse_data("X", allowed="have columns of one length")
        return np.column_stack(codes)

    def _columns(self, k: int, names: Sequence[Any] | None, plain: bool) -> list[Any]:
        refusal, X = refuse_data("X", allowed=_LABELS.format(k)), self._X
        frame = frame_of(X)
        if frame is not None:
            chosen = list(frame.columns) if names is None else names
            return [frame[name].to_native() for name in chosen]
        if plain:
            return [X]
        if isinstance(X, str | bytes | Mapping | Set) or hasattr(X, "sparse") or hasattr(X, "tocsr"):
            raise refusal
        shape = getattr(X, "shape", None)
        if isinstance(shape, tuple):
            if len(shape) == 1 and k == 1:
                return [X]
            if len(shape) != 2 or shape[1] != k:
                rest = " " + ", ".join(map(str, shape[1:])) if shape[1:] else ""
                raise refuse_data("X", got=f"shape (n,{rest})", allowed=_LABELS.format(k))
            array = X if isinstance(X, np.ndarray) else np.asarray(X)
            return [array[:, j] for j in range(k)]
        if not hasattr(type(X), "__iter__"):
            raise refusal
        if k == 1 and series_of(X) is not None:
            return [X]  # a column without a shape, such as an array of pyarrow
        if k == 1:
            # Read each row separately: replacing one row must not change how others are read.
            return [[_alone(row) for row in X]]
        rows = [_entries(row) for row in X]
        if any(row is None or len(row) != k for row in rows):
            raise refuse_data(
                "X", got=f"at least one row that is none of {k} entries", allowed=_LABELS.format(k)
            )
        return [[row[j] for row in rows] for j in range(k)]  # type: ignore[index]


def stated_shape(X: Any) -> tuple[int, ...] | None:
    """Return the stated shape of a container with one or two dimensions, without reading entries, or None."""
    shape = getattr(X, "shape", None)
    if isinstance(X, list | tuple) and X:
        return (len(X), len(X[0])) if _is_container(X[0]) else (len(X),)
    if (
        isinstance(shape, tuple)
        and len(shape) in (1, 2)
        and all(isinstance(size, Integral) for size in shape)
    ):
        return tuple(map(int, shape))
    if shape is None and hasattr(X, "__len__") and not isinstance(X, str | bytes | Mapping | Set):
        return (len(X),)
    return None


def _is_container(item: Any) -> bool:
    return (
        hasattr(item, "__len__") and not isinstance(item, str | bytes) and getattr(item, "shape", (1,)) != ()
    )


def _plain(X: Any, sparse: bool, codes: MissingCodes) -> Any:
    """Return a table as an array of numbers. A single column of any container becomes a table with one column."""
    from scipy.sparse import issparse

    if issparse(X):
        if sparse:
            refuse_copies(X)  # before any conversion, because a conversion may add copies up
        return X
    if isinstance(X, np.ndarray) and X.ndim == 1 and X.dtype.kind in "biufc":
        return X[:, None]
    if hasattr(X, "sparse") and hasattr(X, "columns"):
        if not len(X.columns):
            return np.empty((len(X), 0))
        # scipy has no tables with another fill value.
        zeros = all(getattr(dtype, "fill_value", 0) == 0 for dtype in X.dtypes)
        if not sparse or not zeros:
            raise InvalidType(
                "X must have dense columns, got sparse ones. Convert them: X.sparse.to_dense()."
            )
    X = as_table(X, codes)
    one = len(getattr(X, "shape", ())) == 1
    one |= isinstance(X, list | tuple) and bool(X) and not any(map(_is_container, X))
    return column_of("X", X, codes)[:, None] if one else rows_of(X, codes)


def _checked(read: Any, sparse: bool, min_rows: int) -> Any:
    """Return a table of numbers after the checks of scikit-learn for shape and kind."""
    from scipy.sparse import issparse
    from sklearn.utils.validation import check_array

    accepted = "csr" if sparse else False
    rows = check_array(
        read,
        dtype="numeric",
        ensure_all_finite=False,
        ensure_min_samples=min_rows,
        accept_sparse=accepted,
        input_name="X",
    )
    if not issparse(rows):
        return rows
    return as_float64(canonical(rows))


def _refusing(read: Callable[[], Any], *, repeat: bool = False) -> Any:
    """Call a reader. On any error, raise an error without data and without the original as its context."""
    try:
        return read()
    except (InvalidData, MemoryError):
        raise
    except Exception as error:
        # Until X is read, errors come from its own class and may quote data: drop the message.
        refusal = _without_data(error, str(error) if repeat else "")
    raise refusal


def _alone(row: Any) -> Any:
    entries = _entries(row)
    return row if entries is None or len(entries) != 1 else entries[0]


def _entries(row: Any) -> Sequence[Any] | None:
    if isinstance(row, list | tuple):
        return row
    return list(row) if isinstance(row, np.ndarray) and row.ndim == 1 else None


# These messages of scikit-learn about shapes, names and containers contain no data.
_PUBLIC_MESSAGES = (
    "Found array with",
    "The feature names should match",
    "Feature names are only supported",
    "Sparse data was passed",
    "Complex data not supported",
    "X has ",
)


def _without_data(error: Exception, message: str) -> InvalidData:
    """Return an error without data to replace another. Repeat a message of scikit-learn if it contains no entry."""
    if message.startswith(_PUBLIC_MESSAGES):
        # The message about complex data continues with the array itself.
        kind = InvalidType if isinstance(error, TypeError) else InvalidData
        return kind("X: Complex data not supported" if message.startswith("Complex") else message)
    if message.startswith(("Expected 2D array", "Expected a 2-dimensional")):
        return refuse_data(
            "X",
            got="an array of another dimension",
            allowed="a 2-d table (n_samples, n_features)",
            remedy="Reshape your data with X.reshape(-1, 1) if it has a single column.",
        )
    return object_found("X") if isinstance(error, TypeError) else text_found("X")
