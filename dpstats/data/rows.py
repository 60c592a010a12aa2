from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.columns import distinct, list_items
from dpstats.data.frames import frame_of, in_memory, series_of
from dpstats.data.missing import NO_CODES, MissingCodes
from dpstats.data.values import float_of
from dpstats.data.words import NO_NUMBER, Words
from dpstats.data.words import numbers as read_words
from dpstats.errors import InvalidData, attempt, refuse_data

# Numbers


_PLAIN = {float, int, bool, type(None)}
"""Types that numpy converts to floats one by one, with the same result as `float_of`."""


class InvalidType(InvalidData, TypeError):
    """Data of a wrong type. It is a TypeError by the conventions of scikit-learn."""


TABLE = "a 2-d table of numbers"
_SEQUENCE = "a 1-d sequence of numbers"


def text_found(name: str, allowed: str = TABLE) -> InvalidData:
    """Return the error for text in place of numbers."""
    return refuse_data(
        name,
        got="at least one column that holds text or other objects",
        allowed=allowed,
        remedy="Select numeric columns, or convert text entry by entry. For numbers: pandas.to_numeric(column, "
        "errors='coerce') makes other words missing. For answers such as yes and no: column == 'yes'.",
    )


def times_found(name: str, allowed: str = TABLE) -> InvalidData:
    """Return the error for times in place of numbers."""
    return refuse_data(
        name,
        got="at least one column that holds dates, times or durations",
        allowed=allowed,
        remedy="Convert a duration to a number, such as seconds: column.dt.total_seconds() in pandas and polars.",
    )


def object_found(name: str, allowed: str = TABLE) -> InvalidType:
    """Return the error for an object in place of a number, as scikit-learn states it but without the object."""
    return InvalidType(f"{name} must be {allowed}; an entry's argument must be a string or a real number")


def _convert_numbers(
    items: Sequence[Any], codes: MissingCodes, name: str = "X", allowed: str = TABLE
) -> NDArray[np.float64]:
    """Return the nearest float64 of each item, NaN for a missing one or a text that is a code of missing entries."""
    items = codes.clear_items(items)
    if set(map(type, items)) <= _PLAIN:
        # An integer may be beyond the largest float.
        array = attempt(lambda: np.array(items, dtype=np.float64), OverflowError)
        if array is not None:
            return array
    numbers = list(map(float_of, items))
    for number, item in zip(numbers, items, strict=True):
        if number is None and issubclass(type(item), str | bytes):
            raise text_found(name, allowed)
        if number is None:
            raise object_found(name, allowed)
    return np.array(numbers, dtype=np.float64)


def as_float64(rows: Any) -> Any:
    """Return a table of numbers as float64. Finite numbers stay finite, at most the largest float64."""
    from scipy.sparse import csr_array, issparse

    if issparse(rows):
        return csr_array((as_float64(rows.data), rows.indices, rows.indptr), shape=rows.shape)
    if rows.dtype.kind == "f" and rows.dtype.itemsize > 8:
        largest = np.finfo(np.float64).max
        rows = np.where(np.isinf(rows), rows, np.clip(rows, -largest, largest))
    return np.asarray(rows, dtype=np.float64)


_BLOCK = 1 << 16  # entries


def rows_of(X: Any, codes: MissingCodes = NO_CODES) -> Any:
    """Return a table as a numeric array, of float64 if the type of entries is not declared.

    Texts that are codes of missing entries are NaN. The caller treats codes that are numbers.

    An object that is not a table (other dimensions, or not a container) is replaced by an object without data. Checks
    of scikit-learn reject it with the same message as ``X``.
    """
    frame = frame_of(X)
    if frame is not None:
        return _of_frame(X, frame, codes)
    if isinstance(X, list | tuple):
        return _of_list(X, codes)
    if hasattr(X, "__array__") and not hasattr(X, "sparse"):
        array = X if isinstance(X, np.ndarray) else np.asarray(X)
        if array.dtype.kind != "O":
            return array
        if array.ndim != 2:
            return np.broadcast_to(0.0, array.shape)
        return _convert_numbers(array.ravel().tolist(), codes).reshape(array.shape)
    return X


def as_table(X: Any, codes: MissingCodes = NO_CODES) -> Any:
    """Return a column of pandas, polars or pyarrow as a table with one column of the same name."""
    series = None if hasattr(X, "sparse") else series_of(X)
    if series is None:
        return X
    named = isinstance(series.name, str) and series.name
    return series.to_frame().to_native() if named else _of_series(series, codes)[:, None]


def _of_frame(X: Any, frame: Any, codes: MissingCodes) -> NDArray[Any]:
    # If all types are types of numpy: without a copy for a single type, otherwise in their common type.
    if frame.implementation.is_pandas_like():
        dtypes = list(X.dtypes)
        if dtypes and all(isinstance(dtype, np.dtype) and dtype.kind in "biuf" for dtype in dtypes):
            return np.asarray(X.to_numpy(dtype=np.result_type(*dtypes)))
    if frame.implementation.is_polars():
        kinds = set(frame.schema.values())
        one = len(kinds) == 1 and _is_plain(next(iter(kinds)))
        if one and not any(column.null_count() for column in frame.iter_columns()):
            return np.asarray(X.to_numpy())
    rows = np.empty(frame.shape, dtype=np.float64, order="F")
    for j, column in enumerate(frame.iter_columns()):
        rows[:, j] = _of_series(column, codes)
    return rows


def _is_plain(kind: Any) -> bool:
    """Return whether numpy has an equivalent of a numeric narwhals type."""
    import narwhals as nw

    return kind.is_numeric() and not kind.is_decimal() and kind not in (nw.Int128, nw.UInt128)


def _of_series(
    series: Any, codes: MissingCodes, name: str = "X", allowed: str = TABLE
) -> NDArray[np.float64]:
    import narwhals as nw

    kind = series.dtype
    if kind.is_temporal():
        raise times_found(name, allowed)
    if not _is_plain(kind) and kind != nw.Boolean:
        return _convert_numbers(series.to_list(), codes, name, allowed)
    # Keep the type of the column, so that an integer is rounded once and in the same way if another value is missing.
    values: NDArray[Any] = series.fill_null(False if kind == nw.Boolean else 0).to_numpy()
    return np.where(series.is_null().to_numpy(), np.nan, values.astype(np.float64))


def _of_list(X: Sequence[Any], codes: MissingCodes) -> NDArray[np.float64]:
    if not X or not all(map(_is_row, X)):
        return np.broadcast_to(0.0, len(X))  # of one dimension
    width = len(X[0])
    if any(len(row) != width for row in X):
        raise refuse_data("X", got="rows of different lengths", allowed=TABLE)
    rows = np.empty((len(X), width), dtype=np.float64)
    step = max(1, _BLOCK // max(1, width))
    for start in range(0, len(X), step):
        block = X[start : start + step]
        parts = [row if isinstance(row, list | tuple) else list_items("X", row) for row in block]
        items = [item for row in parts for item in row]
        rows[start : start + step] = _convert_numbers(items, codes).reshape(len(block), width)
    return rows


def _is_row(row: Any) -> bool:
    return isinstance(row, list | tuple) or (
        hasattr(row, "__len__")
        and not isinstance(row, str | bytes | Mapping | Set)
        and len(getattr(row, "shape", (0,))) == 1
    )


def column_of(name: str, data: Any, codes: MissingCodes = NO_CODES) -> NDArray[np.float64]:
    """Return a 1-d container of numbers, or a table with a single column, as float64 with NaN for missing entries."""
    return codes.clear_numbers(_column(name, data, codes))  # type: ignore[no-any-return]


def _column(name: str, data: Any, codes: MissingCodes) -> NDArray[np.float64]:
    if isinstance(data, Words):
        found, wrong = read_words(data, codes.missing_words)
        if wrong is not None:
            raise refuse_data(name, allowed=f"{_SEQUENCE}: {NO_NUMBER}")
        return found
    data = in_memory(data)
    frame = frame_of(data)
    if frame is not None and frame.shape[1] == 1:
        return _of_series(next(frame.iter_columns()), codes, name, _SEQUENCE)
    if getattr(data, "shape", ())[1:] == (1,) and isinstance(data, np.ndarray):
        data = data[:, 0]
    if isinstance(data, list | tuple) and all(
        isinstance(row, list | tuple) and len(row) == 1 for row in data
    ):
        data = [row[0] for row in data]
    dtype = getattr(data, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in "biuf" and not np.ma.isMaskedArray(data):
        array = np.asarray(data)
        if array.ndim == 1:
            return np.asarray((as_float64(array) if dtype.itemsize > 8 else array).astype(np.float64))
    if isinstance(dtype, np.dtype) and dtype.kind in "mM":
        raise times_found(name, _SEQUENCE)
    values, where = distinct(name, data)
    numbers = _convert_numbers(values, codes, name, _SEQUENCE)
    return numbers if where is None else numbers[where]


def canonical(table: Any) -> Any:
    """Return a CSR table with sorted rows: the same arrays, or copies if a row must be sorted.

    The flags of the given table are ignored, because they are wrong after its arrays are modified.
    """
    from scipy.sparse import csr_array

    refuse_copies(table)
    fresh = csr_array((table.data, table.indices, table.indptr), shape=table.shape)
    return fresh if fresh.has_sorted_indices else fresh.sorted_indices()


def refuse_copies(table: Any) -> None:
    """Raise an error for a sparse table that stores an entry twice or outside its shape, without adding entries up.

    The other formats (LIL, DOK) cannot contain copies, or convert to CSR without adding them up.
    """
    from scipy.sparse import csr_array

    twice = False
    if table.format in ("csr", "csc", "bsr"):
        table.check_format(full_check=True)
        # Sort a separate pattern of entries or blocks, so that the table stays unchanged.
        lines, width = table.indptr.size - 1, int(max(table.shape))
        pattern = csr_array(
            (np.empty(table.indices.size, np.int8), table.indices, table.indptr), (lines, width)
        )
        if not pattern.has_sorted_indices:
            pattern = pattern.sorted_indices()
        same = pattern.indices[1:] == pattern.indices[:-1]
        starts = pattern.indptr[(pattern.indptr > 0) & (pattern.indptr < pattern.indices.size)]
        same[starts - 1] = False  # the last entry of one line, and the first of the next
        twice = bool(same.any())
    elif table.format == "coo" and table.ndim == 2:
        for indices, size in zip((table.row, table.col), table.shape, strict=True):
            if indices.size and not 0 <= indices.min() <= indices.max() < size:
                raise refuse_data("X", allowed="not store an entry outside its shape")
        order = np.lexsort((table.col, table.row))
        row, column = table.row[order], table.col[order]
        twice = bool(((row[1:] == row[:-1]) & (column[1:] == column[:-1])).any())
    elif table.format == "dia":
        twice = bool(np.unique(table.offsets).size < table.offsets.size)
    if twice:
        raise refuse_data(
            "X",
            allowed="not store an entry twice",
            remedy="X.sum_duplicates() adds the copies up. This is safe where their sums are exact, as of counts: the "
            "rounding of one row's sums may depend on how other rows are stored.",
        )
