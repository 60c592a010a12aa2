from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.data.frames import frame_of, in_memory, series_of
from dpstats.data.values import Instant, bool_of
from dpstats.data.words import Words
from dpstats.errors import attempt, refuse_data

# Columns


_DENSE = 1 << 16
"""Range of whole numbers that are listed rather than sorted."""
_LONGEST = 64  # bytes of a text from which sorting is as quick


def distinct(name: str, data: Any) -> tuple[Sequence[Any], NDArray[np.int64] | None]:
    """Return distinct values and the position of each row among them, or None as positions if the values are the rows.

    ``data`` is 1-d: a list, a tuple or another iterable, an array, or a column of pandas, polars or pyarrow. A masked
    entry is None. The result for a row depends on its value only, not on the way the values are gathered.
    """
    if isinstance(data, Words):
        # The empty word is missing. Without declared levels, every other word is text.
        return [word or None for word in data], None
    data = in_memory(data)
    frame = frame_of(data)
    if frame is not None and frame.shape[1] == 1:
        data = next(frame.iter_columns()).to_native()
    shape = getattr(data, "shape", None)
    shaped = isinstance(shape, tuple) and len(shape) != 1
    iterable = hasattr(type(data), "__iter__") or hasattr(type(data), "__array__")
    if shaped or isinstance(data, str | bytes | bytearray | Mapping | Set) or not iterable:
        raise refuse_data(name, allowed="a 1-d sequence of values, one for each row")
    try:
        return _distinct(data)
    except MemoryError:
        raise
    except Exception as error:  # an error of a foreign container may quote data
        failure = type(error).__name__
    raise refuse_data(name, got=f"a {failure} on reading it", allowed="a 1-d sequence of values")


def list_items(name: str, data: Any) -> Sequence[Any]:
    """Return the value of each row of a 1-d container: see `distinct`."""
    values, where = distinct(name, data)
    return values if where is None else [values[place] for place in where]


def _distinct(data: Any) -> tuple[Sequence[Any], NDArray[np.int64] | None]:
    if isinstance(data, list | tuple):
        return data, None
    coded = getattr(data, "array", data)  # a pandas column, or its array
    if hasattr(coded, "categories") and hasattr(coded, "codes"):
        # Iterating over its items would use one array, in which an integer becomes a float if another value is missing.
        return [*coded.categories, None], np.asarray(coded.codes, dtype=np.int64)
    if isinstance(data, np.ndarray):
        return _of_array(data)
    if isinstance(getattr(data, "dtype", None), np.dtype):
        return _of_array(np.asarray(data))
    series = series_of(data)
    if series is not None:
        return _of_series(series)
    if hasattr(data, "__array__") and not hasattr(data, "isna"):  # pandas arrays can be read item by item
        return _of_array(np.asarray(data))
    return list(data), None


def _of_series(series: Any) -> tuple[Sequence[Any], NDArray[np.int64] | None]:
    import narwhals as nw

    if series.dtype == nw.String and "pyarrow" in sys.modules:
        coded = attempt(lambda: _of_text(series), Exception)  # not every text of Python is one of pyarrow
        if coded is not None:
            return coded
    if not isinstance(series.dtype, nw.Datetime | nw.Duration):
        return series.to_list(), None
    # Times of Python have no nanoseconds. Times of numpy have no zone, and are in UTC.
    values, where = _of_array(np.asarray(series.to_numpy()))
    if getattr(series.dtype, "time_zone", None) is not None:
        values = [value if np.isnat(value) else Instant(value) for value in values]
    return values, where


def _of_text(series: Any) -> tuple[Sequence[Any], NDArray[np.int64]]:
    """Return the dictionary of a column that is declared as text, and None; and the place of each row."""
    column = series.to_arrow()
    column = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    coded = column.dictionary_encode()
    values = [*coded.dictionary.to_pylist(), None]
    places = coded.indices.fill_null(len(values) - 1).to_numpy(zero_copy_only=False)
    return values, as_int64(places)


def _of_array(array: NDArray[Any]) -> tuple[Sequence[Any], NDArray[np.int64] | None]:
    mask: NDArray[Any] | None = np.asarray(np.ma.getmaskarray(array)) if np.ma.isMaskedArray(array) else None
    array = np.asarray(np.ma.getdata(array))
    if array.ndim != 1:
        raise ValueError("not 1-d")
    if array.dtype.kind not in "biufcSUmM":
        if mask is None:
            return (array.tolist() if array.dtype.kind == "O" else list(array)), None
        # A record has a mask for each field. It is missing if any field is masked.
        hidden = [any(entry) if isinstance(entry, tuple) else entry for entry in mask.tolist()]
        return [None if gone else item for item, gone in zip(array, hidden, strict=True)], None
    values, where = _unique(array)
    # Keep times of numpy: nanoseconds would become integers as Python items.
    found: list[Any] = list(values) if array.dtype.kind in "mM" else values.tolist()
    if mask is not None:
        where[mask] = len(found)
        found.append(None)
    return found, where


def _unique(array: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the sorted distinct entries of an array and the place of each entry among them, as numpy's ``unique``."""
    array = np.array(array)  # looked at several times
    # Whole numbers of a small range are listed, and texts ranked character by character: without sorting the rows.
    where = None
    if array.size and array.dtype.kind in "biu":
        where = _ranked(array)
    elif array.size and array.dtype.kind in "US" and 0 < array.dtype.itemsize <= _LONGEST:
        where = _ranked_texts(array)
    if where is None:
        values, places = np.unique(array, return_inverse=True)
        return values, as_int64(places).reshape(array.shape)
    row = np.empty(int(where.max()) + 1, dtype=np.int64)
    row[where] = np.arange(array.size)
    return array[row], where


def _ranked_texts(array: NDArray[Any]) -> NDArray[np.int64] | None:
    """Return the rank of each text among the distinct ones, or None if these are not few."""
    unit = np.dtype(np.uint8 if array.dtype.kind == "S" else np.uint32).newbyteorder(array.dtype.byteorder)
    where: NDArray[np.int64] | None = np.zeros(array.size, dtype=np.int64)
    for letters in array.view(unit).reshape(array.size, -1).T:
        own = _ranked(letters)
        if own is None or where is None:
            return None
        if own.any():
            where = _ranked(where * (int(own.max()) + 1) + own)
    return where


def _ranked(numbers: NDArray[Any]) -> NDArray[np.int64] | None:
    """Return the rank of whole numbers among the distinct ones, or None if their range is not small."""
    low, high = int(numbers.min()), int(numbers.max())
    if high - low >= _DENSE or abs(low) >= 1 << 62:
        return None
    shifted = as_int64(numbers) - low
    present = np.zeros(high - low + 1, dtype=np.bool_)
    present[shifted] = True
    return shifted if present.all() else as_int64((np.cumsum(present) - 1)[shifted])


_KINDS = {**dict.fromkeys("biufc", "number"), "U": "text", "S": "bytes", "M": "time", "m": "duration"}
_SAME = {"complex": "number", "instant": "time", "months": "duration"}


WORDS = "words"
"""Kind of a column of a text file, whose entries are text or numbers."""


def kind_of(data: Any) -> str | None:
    """Return the kind of entries that the type of a column declares, or None if it declares none."""
    dtype = getattr(data, "dtype", None)
    if isinstance(dtype, np.dtype):
        return _KINDS.get(dtype.kind)
    series = None if dtype is None and isinstance(data, list | tuple) else series_of(data)
    if series is None:
        return None
    import narwhals as nw

    if series.dtype in (nw.Categorical, nw.Enum):
        from narwhals.stable import v1  # which keeps a name for the categories of every kind of column

        return kind_of(v1.from_native(series.to_native(), series_only=True).cat.get_categories().to_native())
    if series.dtype == nw.String:
        return "text"
    if series.dtype.is_numeric() or series.dtype == nw.Boolean:
        return "number"
    if series.dtype == nw.Duration:
        return "duration"
    return "time" if series.dtype in (nw.Datetime, nw.Date) else None


def check_kind(name: str, found: str | None, levels: Any) -> None:
    """Raise an error if no entry of the declared kind of a column can be one of the levels."""
    kinds = {_SAME.get(kind, kind) for kind in getattr(levels, "kinds", ())}
    possible = {"text", "number"} if found == WORDS else {found}
    if found is None or not kinds or possible & kinds or not kinds <= set(_KINDS.values()):
        return
    raise refuse_data(
        name,
        got=f"entries of type {found}",
        allowed=f"hold entries of the type of the declared levels ({', '.join(sorted(kinds))})",
        remedy="Declare the levels in the type of the column, or convert the column.",
    )


def truths(name: str, data: Any) -> NDArray[np.bool_]:
    """Return a 1-d container of booleans as an array. A missing entry is False."""
    values, where = distinct(name, data)
    found = [bool_of(value) for value in values]
    if None in found:
        raise refuse_data(
            name,
            got="at least one entry of another type",
            allowed="a 1-d sequence of booleans (one that is missing counts as not true)",
        )
    array = np.array(found, dtype=bool)
    return array if where is None else array[where]
