"""The source of a container, chosen by its type: rows in memory, counts of a universe, or an engine.

Rows in memory are an array, a list, a data frame, a column, or a sparse table, read by their declared types. Messages
of scikit-learn are repeated only if they mention just shapes and names.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.columns import check_kind, column, frame_of, kind_of, select, series_of
from dpstats.data.duckdb_rows import is_parquet
from dpstats.data.parameters import column_names, unit_of
from dpstats.data.rows import (
    Counts,
    InvalidType,
    MissingCodes,
    Narrow,
    Rows,
    Table,
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
from dpstats.data.schema import Schema, Source, add_column
from dpstats.data.values import as_int64, exact_numbers, floats_among
from dpstats.errors import InvalidData, refuse_data


def check_indexes(columns: Mapping[str, Any]) -> None:
    """Raise an error for pandas objects of one length with different indexes: rows are paired by position.

    The error reveals that the indexes differ, and no label of them.
    """
    pandas = sys.modules.get("pandas")
    if pandas is None:
        return
    first: tuple[str, Any] | None = None
    for name, entries in columns.items():
        if not isinstance(entries, pandas.Series | pandas.DataFrame):
            continue
        if first is None:
            first = name, entries.index
        elif len(entries) == len(first[1]) and not entries.index.equals(first[1]):
            raise refuse_data(
                name,
                allowed=f"have the index of {first[0]}, because rows are paired by position",
                remedy="Align the rows by label, or give both the same new index with reset_index(drop=True).",
            )


MOST_ROWS = 2**31


def is_histogram(X: Any, schema: Schema) -> bool:
    """Return whether X contains counts of a universe: by the schema, or a flat array of integers, one for each cell.

    With one attribute, a flat array always contains rows. Otherwise an array with one row per cell would look like
    counts, and neighboring datasets would differ in a number of rows that is treated as public.
    """
    if schema.counted or schema.cells is None:
        return schema.counted
    flat = isinstance(X, np.ndarray) and X.shape == (math.prod(schema.cells),) and X.dtype.kind in "iu"
    return flat and len(schema.cells) > 1


def read_counts(X: Any, cells: tuple[int, ...] | None = None) -> Counts:
    """Return a private histogram, of a declared universe if its ``cells`` are given.

    Raises
    ------
    InvalidData
        If X is not a histogram: integer counts, none negative, of 1 to 2^31 rows.
    """
    array = exact_numbers("X", X)
    if cells is not None:
        if array.shape not in ((math.prod(cells),), cells):
            raise refuse_data(
                "X",
                got=f"an array of shape {array.shape}",
                allowed=f"counts of the declared cells, whole numbers of shape ({math.prod(cells)},) or {cells}",
            )
        array = array.ravel()
    if array.ndim != 1 or array.size == 0:
        raise refuse_data(
            "X", got=f"shape {array.shape}", allowed="a histogram, one count for each point of the universe"
        )
    whole = bool(np.isfinite(floats_among(array)).all() and np.all((array >= 0) & (array <= MOST_ROWS)))
    counts = as_int64(array) if whole else np.zeros(0, dtype=np.int64)
    if not whole or not np.all(counts == array) or not 1 <= sum(counts.tolist()) <= MOST_ROWS:
        raise refuse_data("X", allowed="a histogram: whole counts, none negative, of at least one row and at most 2^31")
    return Counts(counts)


_TALLY = "tally"


@dataclass(frozen=True)
class Tally:
    """Counts of the cells of some attributes. The last count is the number of rows with an undeclared level."""

    shape: tuple[int, ...]

    def of_codes(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the counts (cells + 1,) of codes (n, k). The code -1 is an undeclared level."""
        size = math.prod(self.shape)
        cells = np.ravel_multi_index(tuple(as_int64(np.maximum(codes, 0)).T), self.shape)
        outside = (codes < 0).any(axis=1)
        return as_int64(np.bincount(np.where(outside, size, cells), minlength=size + 1))

    def of(self, rows: Rows) -> NDArray[np.int64]:
        """Return the counts (cells + 1,) of rows that were read as codes, for any source."""
        return rows.total(self)[_TALLY]

    def __call__(self, table: Table) -> dict[str, NDArray[np.int64]]:
        return {_TALLY: self.of_codes(table.X)}


# Rows in memory


_LABELS = "a table of labels: a data frame, an array (n_samples, {}), or a list of rows of as many entries"
_REAL = "a 2-d table of real numbers"
_DICT = "Make a data frame of it: pandas.DataFrame(X)."


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
        if isinstance(X, Mapping) and not hasattr(X, "tocsr"):  # sparse tables by keys are mappings, too
            raise refuse_data("X", got=type(X).__name__, allowed=_REAL, remedy=_DICT)
        if np.ma.isMaskedArray(X):
            raise refuse_data(
                "X", allowed="not be a masked array", remedy="Make masked entries NaN, and set missing='drop'."
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
        X = self._X
        remedy = _DICT if isinstance(X, Mapping) else ""
        refusal = refuse_data("X", allowed=_LABELS.format(k), remedy=remedy)
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
            raise refuse_data("X", got=f"at least one row that is none of {k} entries", allowed=_LABELS.format(k))
        return [[row[j] for row in rows] for j in range(k)]  # type: ignore[index]


def stated_shape(X: Any) -> tuple[int, ...] | None:
    """Return the stated shape of a container with one or two dimensions, without reading entries, or None."""
    shape = getattr(X, "shape", None)
    if isinstance(X, list | tuple) and X:
        return (len(X), len(X[0])) if _is_container(X[0]) else (len(X),)
    if isinstance(shape, tuple) and len(shape) in (1, 2) and all(isinstance(size, Integral) for size in shape):
        return tuple(map(int, shape))
    if shape is None and hasattr(X, "__len__") and not isinstance(X, str | bytes | Mapping | Set):
        return (len(X),)
    return None


def _is_container(item: Any) -> bool:
    return hasattr(item, "__len__") and not isinstance(item, str | bytes) and getattr(item, "shape", (1,)) != ()


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
            raise InvalidType("X must have dense columns, got sparse ones. Convert them: X.sparse.to_dense().")
    X = as_table(X, codes)
    one = len(getattr(X, "shape", ())) == 1
    one |= isinstance(X, list | tuple) and bool(X) and not any(map(_is_container, X))
    return column_of("X", X, codes)[:, None] if one else rows_of(X, codes)


def _checked(read: Any, sparse: bool, min_rows: int) -> Any:
    """Return a table of numbers after the checks of scikit-learn for shape and kind."""
    plain = type(read) is np.ndarray and read.ndim == 2 and read.dtype.kind in "fiub"
    if plain and read.shape[0] >= min_rows and read.shape[1]:
        return read  # as they do, after a search of all installed packages for plugins of narwhals
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


# Containers of all kinds


Opener = Callable[[Any], Source | None]

_OPENERS: dict[str | type, Opener] = {}


def register(container: str | type, opener: Opener) -> None:
    """Register a function that opens containers of a type.

    Parameters
    ----------
    container : type, or str
        The type, or its library: the first part of the name of its module. The library is not imported.
    opener : callable
        Takes the container and returns its `Source`, or None for an unknown container, which is then read as rows in
        memory. It must not read an entry.
    """
    _OPENERS[container] = opener


def open_source(X: Any) -> Source:
    """Return the source of private rows, without reading an entry.

    Raises
    ------
    InvalidData
        If X is text that is not the path of a file of rows.
    """
    if isinstance(X, Source):
        return X
    if isinstance(X, str | Path):
        return _file(X)
    for kind in type(X).__mro__:
        if kind in _OPENERS:
            found = _OPENERS[kind](X)
            if found is not None:
                return found
    opener = _OPENERS.get(type(X).__module__.lstrip("_").partition(".")[0])
    found = None if opener is None else opener(X)
    return Memory(X) if found is None else found


def _file(X: str | Path) -> Source:
    from dpstats.data.file_rows import PACKED, TABLES, files

    # A path of many files is one of a folder. The text of another one may be an entry, so that it is not shown.
    if isinstance(X, str) and "://" in X:
        return files(X)
    if not str(X).lower().endswith(TABLES) and not _is_folder(X):
        raise refuse_data(
            "X",
            allowed="a table of numbers, the path of a folder, or the path of a file that ends in .parquet, .pq, "
            f".csv, .tsv or .txt, the last three also compressed ({', '.join(PACKED[1:])})",
            remedy="Patterns and lists of paths are read by dpstats.data.files.",
        )
    path = Path(X)
    if path.is_dir():
        return files(path)
    if not is_parquet(path):
        from dpstats.data.text import of_text_file

        return of_text_file(path)
    from dpstats.data.duckdb_rows import of_parquet

    return of_parquet(path)


def _is_folder(X: str | Path) -> bool:
    """Return whether text is the path of a folder. Any text can be asked about."""
    try:
        return bool(str(X)) and Path(X).is_dir()
    except (OSError, ValueError):
        return False


# The modules of the libraries are imported by the first container of each. A container without the methods is one in
# memory, such as a column.


def _open_relation(X: Any) -> Source | None:
    from dpstats.data.duckdb_rows import of_relation

    return of_relation(X) if hasattr(X, "aggregate") else None


def _open_dask(X: Any) -> Source | None:
    from dpstats.data.batches import open_array, open_frame

    if not hasattr(X, "to_delayed"):
        return None
    return open_frame(X) if hasattr(X, "columns") else open_array(X)


def _open_polars(X: Any) -> Source | None:
    from dpstats.data.batches import open_lazy_frame

    return open_lazy_frame(X) if hasattr(X, "collect_schema") and hasattr(X, "collect") else None


def _open_ibis(X: Any) -> Source | None:
    from dpstats.data.batches import IbisRows

    if not hasattr(X, "to_pyarrow_batches") or not hasattr(X, "columns"):
        return None
    return IbisRows(X, [str(name) for name in X.columns])


def _open_arrow(X: Any) -> Source | None:
    from dpstats.data.batches import DatasetRows

    return DatasetRows(X, list(X.schema.names)) if hasattr(X, "count_rows") and hasattr(X, "schema") else None


def _open_spark(X: Any) -> Source | None:
    from dpstats.data.spark_rows import open_spark_frame

    frame = X.to_spark() if hasattr(X, "to_spark") else X  # pandas on Spark
    return open_spark_frame(frame) if hasattr(frame, "mapInArrow") else None


_OPENERS.update(
    duckdb=_open_relation,
    dask=_open_dask,
    polars=_open_polars,
    ibis=_open_ibis,
    pyspark=_open_spark,
    pyarrow=_open_arrow,
)
