"""Private tables: read once, checked for what can be checked without looking at values, and never shown.

Every message about data is written here, or is one of scikit-learn's that speaks of shapes and names only.
"""

from __future__ import annotations

import reprlib
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from dpstats.data.labels import column_names
from dpstats.errors import InvalidData


def check_rows(estimator: Any, X: Any, *, reset: bool, min_samples: int = 1) -> Any:
    """Return ``X`` as a 2-d numeric array and record or check its public facts on ``estimator``.

    An estimator whose tags say so is also given scipy.sparse tables, in CSR form with sorted rows. One that stores
    an entry twice is refused (which shows that there was one): libraries would add the copies up in floating
    point, in an order that depends on how other rows are stored.

    Shape, type and column names are checked here through scikit-learn's ``validate_data``.
    Whether the entries are finite is not: that check is fused into the one pass over the data
    (see `dpstats.lattice`), except for what conversion to numbers refuses.
    """
    import numpy as np
    from scipy.sparse import issparse
    from sklearn.utils import get_tags
    from sklearn.utils.validation import validate_data

    refusal: InvalidData | None = None
    names = column_names(X)
    if names is not None and len(set(map(str, names))) < len(names):
        raise InvalidData(f"X must have a name of its own for every column, got {reprlib.repr(names)}")
    if np.ma.isMaskedArray(X):
        raise InvalidData("X must not be a masked array: fill it, or use NaN and missing='center'")
    try:
        accepted = "csr" if get_tags(estimator).input_tags.sparse else False
        if accepted and issparse(X):
            _refuse_copies(X)  # before any conversion, which may add them up
        rows = validate_data(
            estimator, X, reset=reset, dtype="numeric", ensure_all_finite=False, accept_sparse=accepted
        )
        if issparse(rows):
            rows = _canonical(rows)
    except InvalidData:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        refusal = _without_data(error)
    # Raised outside the handler, so that the original, which may hold data, is not its context.
    if refusal is not None:
        raise refusal
    if rows.dtype.kind not in "fiub":
        raise InvalidData(f"X must be a 2-d table of real numbers, got an array of dtype {rows.dtype}")
    if rows.dtype.kind == "f" and rows.dtype.itemsize > 8:
        rows = as_float64(rows)
    if rows.shape[0] < min_samples:
        raise InvalidData(
            f"X must have at least {min_samples} rows, got n_samples = {rows.shape[0]} (n is public and fixed)"
        )
    return rows


def as_float64(rows: Any) -> Any:
    """Return a table of longer floats in float64; what is finite stays so, at the largest float64."""
    import numpy as np
    from scipy.sparse import csr_array, issparse

    if issparse(rows):
        return csr_array((as_float64(rows.data), rows.indices, rows.indptr), shape=rows.shape)
    largest = np.finfo(np.float64).max
    return np.where(np.isinf(rows), rows, np.clip(rows, -largest, largest)).astype(np.float64)


def _canonical(table: Any) -> Any:
    """Return a CSR table with sorted rows: the same arrays, or copies where a row has to be sorted.

    The flags of the table that came in are not trusted: they go stale when its arrays are written to.
    """
    from scipy.sparse import csr_array

    _refuse_copies(table)
    fresh = csr_array((table.data, table.indices, table.indptr), shape=table.shape)
    return fresh if fresh.has_sorted_indices else fresh.sorted_indices()


def _refuse_copies(table: Any) -> None:
    """Refuse a sparse table that stores an entry twice, or one outside itself, and add nothing up.

    The formats that are left out (LIL, DOK) cannot hold copies, or convert to CSR without adding any up.
    """
    import numpy as np
    from scipy.sparse import csr_array

    twice = False
    if table.format in ("csr", "csc", "bsr"):
        table.check_format(full_check=True)
        # A pattern of its own, of entries or of blocks: sorting it leaves the table as it is.
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
                raise InvalidData("X must not store an entry outside its shape")
        order = np.lexsort((table.col, table.row))
        row, column = table.row[order], table.col[order]
        twice = bool(((row[1:] == row[:-1]) & (column[1:] == column[:-1])).any())
    elif table.format == "dia":
        twice = bool(np.unique(table.offsets).size < table.offsets.size)
    if twice:
        raise InvalidData(
            "X must not store an entry twice. X.sum_duplicates() adds the copies up, which is safe where their sums "
            "are exact (counts): the rounding of one row's sums may depend on how other rows are stored"
        )


def public_shape(X: Any) -> tuple[int, int] | None:
    """Return the shape of a table that states one, without looking into it; None if it does not."""
    shape = getattr(X, "shape", None)
    if isinstance(X, list | tuple) and X and isinstance(X[0], list | tuple):
        return len(X), len(X[0])
    if isinstance(shape, tuple) and len(shape) == 2 and all(isinstance(size, Integral) for size in shape):
        return int(shape[0]), int(shape[1])
    return None


class _InvalidType(InvalidData, TypeError):
    """Data of a wrong type: a TypeError, as scikit-learn's conventions have it."""


# What scikit-learn says of shapes, names and containers holds no entry of the data.
_PUBLIC_MESSAGES = (
    "Found array with",
    "The feature names should match",
    "Feature names are only supported",
    "Sparse data was passed",
    "Complex data not supported",
    "X has ",
)


def _without_data(error: Exception) -> InvalidData:
    message = str(error)
    kind = _InvalidType if isinstance(error, TypeError) else InvalidData
    if message.startswith(_PUBLIC_MESSAGES):
        # The message about complex data goes on to print the array.
        return kind("X: Complex data not supported" if message.startswith("Complex") else message)
    if message.startswith(("Expected 2D array", "Expected a 2-dimensional")):
        return kind(
            "X must be a 2-d table (n_samples, n_features), got an array of another dimension. Reshape your data "
            "with X.reshape(-1, 1) if it has a single column."
        )
    if isinstance(error, TypeError):
        # scikit-learn's own wording for an object that is no number, less the object.
        return kind("X must be a 2-d table of numbers; an entry's argument must be a string or a real number")
    return kind("X must be a 2-d table of numbers: at least one column holds text or other objects")


@dataclass(frozen=True)
class Table:
    """The rows of a dataset, read once."""

    X: Any

    @property
    def shape(self) -> tuple[int, int]:
        """The public size: rows and columns."""
        return int(self.X.shape[0]), int(self.X.shape[1])


def read_table(estimator: Any, X: Any, *, reset: bool, min_samples: int = 1) -> Table:
    """Read the rows of ``X``; see `check_rows`."""
    return Table(check_rows(estimator, X, reset=reset, min_samples=min_samples))
