"""Private columns of any container, read item by item, so that a row depends on this row only.

``numpy.asarray`` gives all rows of a list one type, so a single row of text would turn every number into text. A
container with one declared type is read by that type, which is public; any other container is read item by item.
"""

from __future__ import annotations

import datetime
import hashlib
import math
import sys
from collections.abc import Iterable, Mapping, Sequence, Set
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.values import Instant, Words, as_int64, bool_of, key_of
from dpstats.errors import attempt, refuse_data, refuse_name


def refuse_unknown(parameter: str, wanted: Sequence[Any], names: Sequence[Any]) -> None:
    """Raise an error for names that no column has, or that several columns have."""
    for place, name in enumerate(wanted):
        if list(names).count(name) != 1:
            got = None if len(wanted) == 1 else f"another at position {place}"
            raise refuse_name(parameter, name, names, got=got, of="the data frame")


def select(frame: Any, names: list[Any]) -> Any:
    """Return some columns as a data frame of the same library, with the attributes of the frame."""
    if hasattr(frame, "iloc"):
        return frame[names]
    import narwhals as nw

    return nw.from_native(frame, eager_only=True).select(names).to_native()


def column(frame: Any, name: Any) -> Any:
    """Return a column of a data frame."""
    if hasattr(frame, "iloc"):
        return frame[name]
    import narwhals as nw

    return nw.from_native(frame, eager_only=True)[name].to_native()


def take(frame: Any, name: Any, places: Any) -> Any:
    """Return some entries of a column, in its own type."""
    values = column(frame, name)
    return values.iloc[places].array if hasattr(values, "iloc") else values[places]


def frame_like(X: Any, rows: Any, names: Sequence[Any] | None) -> Any:
    """Return the array ``rows`` as a data frame of the library of ``X``, or unchanged if ``X`` is not a data frame."""
    if names is None or not hasattr(X, "columns"):
        return rows
    if hasattr(X, "iloc"):
        return type(X)(rows, columns=names)
    import narwhals as nw

    columns = {name: rows[:, place] for place, name in enumerate(names)}
    return nw.from_dict(columns, backend=nw.from_native(X).implementation).to_native()


def in_memory(X: Any) -> Any:
    """Collect a lazy frame of polars, and return anything else unchanged."""
    polars = sys.modules.get("polars")
    if polars is None or not isinstance(X, polars.LazyFrame):
        return X
    collected = attempt(X.collect, Exception)
    if collected is None:
        raise refuse_data("X", allowed="a lazy frame that can be collected", remedy="Collect it to see why it cannot.")
    return collected


def frame_of(X: Any) -> Any:
    """Return a data frame in memory as a narwhals frame, or None for anything else and for sparse pandas frames."""
    import narwhals as nw

    if isinstance(X, np.ndarray) or not hasattr(X, "shape") or hasattr(X, "sparse"):
        return None
    found = nw.from_native(X, pass_through=True, eager_only=True)
    return found if isinstance(found, nw.DataFrame) else None


def series_of(data: Any) -> Any:
    """Return a column of pandas, polars or pyarrow as a narwhals column, or None for anything else."""
    import narwhals as nw

    if isinstance(data, np.ndarray | list | tuple):
        # narwhals looks for plugins at its first unknown type, in all installed packages.
        return None
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is not None and isinstance(data, pyarrow.Array):
        data = pyarrow.chunked_array([data])
    found = nw.from_native(data, series_only=True, pass_through=True)
    return found if isinstance(found, nw.Series) else None


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
    series = series_of(data)
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


# Undeclared labels: a canonical form of each value, and an order. Both depend on the value only.


DISCOVER = "discover"
"""In place of declared labels: labels of many rows are found."""

_MOST_DIGITS = 400  # of a decimal number; a longer fraction would take too long
_MICROSECOND = 10**12  # in attoseconds
_START = datetime.datetime(1970, 1, 1)


def read_labels(entries: Any, name: str = "y") -> NDArray[np.object_]:
    """Return the canonical label of each entry, or None for an entry without a label.

    Text is unchanged. Equal numbers of any type have the same label. Dates and times without a zone become a
    ``datetime``. Missing, infinite and all other entries have no label.

    Examples
    --------
    >>> from dpstats.data.columns import read_labels
    >>> read_labels(["b", 1, 1.0, True, None]).tolist()
    ['b', 1, 1, 1, None]
    """
    values, where = distinct(name, entries)
    labels = np.empty(len(values), dtype=object)
    labels[:] = [_label(value) for value in values]
    return labels if where is None else labels[where]


def in_order(labels: Iterable[Any]) -> list[Any]:
    """Return distinct labels in order: numbers, then times, then text."""

    def place(label: Any) -> tuple[int, Any]:
        return 2 if isinstance(label, str) else 1 if isinstance(label, datetime.datetime) else 0, label

    return sorted(labels, key=place)


def _label(value: Any) -> Any:
    if type(value) is str:
        return value
    key = key_of(value)
    if key is None:
        return None
    if key[0] == "text":
        return key[1]
    if key[0] == "number":
        return _exact_label(key[1])
    if key[0] != "time" or key[1] % _MICROSECOND:
        return None
    return attempt(lambda: _START + datetime.timedelta(microseconds=key[1] // _MICROSECOND), OverflowError)


def _exact_label(number: Any) -> Any:
    """Return a number as an integer, a float or a fraction: the first that is exact."""
    if isinstance(number, bool | int):
        return int(number)
    if isinstance(number, float):
        if not math.isfinite(number):
            return None
        return int(number) if number.is_integer() else number
    if isinstance(number, Decimal) and (
        not number.is_finite() or abs(number.adjusted()) > _MOST_DIGITS or len(number.as_tuple().digits) > _MOST_DIGITS
    ):
        return None
    exact = Fraction(number)
    if exact.denominator == 1:
        return int(exact)
    nearest = attempt(lambda: float(exact), OverflowError)
    return nearest if nearest is not None and Fraction(nearest) == exact else exact


# Protected units, such as people: of each unit a limited number of rows counts, chosen by its own rows alone.
# Proof: docs/proofs/private-size.md.


Codes = NDArray[np.int64]


def check_labels(units: NDArray[np.object_]) -> NDArray[np.object_]:
    """Return the labels of units, or refuse a missing one."""
    if any(label is None for label in units):
        raise refuse_data(
            "units", got="at least one entry that is missing or of another type", allowed="text, numbers or times"
        )
    return units


def cut_units(units: NDArray[np.object_], values: Codes, most: int) -> Codes:
    """Return the values of the rows that count: of each unit at most ``most``.

    A unit with more rows keeps the rows with the smallest hashes. A hash is of the label of the unit, the value, and
    its place among equal values of the unit. So the choice depends on the rows of the unit only, in any order.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.data.columns import cut_units
    >>> units = np.array(["a", "a", "a", "b"], dtype=object)
    >>> cut_units(units, np.array([0, 1, 1, 2]), 2)
    array([1, 1, 2])
    """
    places: dict[Any, int] = {}
    codes = np.array([places.setdefault(label, len(places)) for label in units], dtype=np.int64)
    order = np.lexsort((values, codes))
    ends = np.cumsum(np.bincount(codes, minlength=len(places)))
    kept = [np.zeros(0, dtype=np.int64)]
    for label, own in zip(places, np.split(values[order], ends[:-1]), strict=True) if len(places) else ():
        if len(own) > most:
            place = np.arange(len(own)) - np.searchsorted(own, own)
            parts = [f"{label!r},{value},{i}" for value, i in zip(own, place, strict=True)]
            hashes = [hashlib.sha256(part.encode()).digest() for part in parts]
            own = own[sorted(range(len(own)), key=hashes.__getitem__)[:most]]
        kept.append(own)
    return np.concatenate(kept)
