"""Private tables: read once, row by row, checked for what can be checked without looking at values, never shown.

Every message about data is written here, or is one of scikit-learn's that speaks of shapes and names only.
"""

from __future__ import annotations

import reprlib
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.categories import Categories
from dpstats.data.columns import distinct
from dpstats.data.engine import Engine
from dpstats.data.labels import column_names
from dpstats.data.parameters import check_choice
from dpstats.data.rows import InvalidType, as_float64, as_table, column_of, rows_of
from dpstats.data.values import MISSING, is_built_in, key_of
from dpstats.errors import InvalidData, InvalidParameter


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Table:
    """Private rows, read once; and where there are any, their responses, groups and protected units.

    Attributes
    ----------
    X : array or CSR table of shape (n_samples, n_features)
        As `check_rows` returns it: numbers, which may be NaN or infinite.
    y : float64 array of shape (n_samples,), optional
        A number for each row.
    groups : int64 array of shape (n_samples,), optional
        The declared category of each row, by its position; -1 for a row in none.
    units : int64 array of shape (n_samples,), optional
        Which rows belong to the same protected unit (a person, say): equal codes. The codes themselves count units by
        first appearance, so that one row moves those of others. They are private, as is how many there are, and are
        never released.
    names : list, optional
        The names of the columns of ``X``, which are public.
    """

    X: Any
    y: NDArray[np.float64] | None = None
    groups: NDArray[np.int64] | None = None
    units: NDArray[np.int64] | None = None
    names: list[Any] | None = None

    def __post_init__(self) -> None:
        for name in ("y", "groups", "units"):
            column = getattr(self, name)
            if column is not None and column.shape != (len(self),):
                raise InvalidData(
                    f"{name} must have an entry for each row of X (n_samples = {len(self)}), got shape {column.shape}"
                )
        if self.names is not None and len(self.names) != self.shape[1]:
            raise InvalidData(
                f"names must have an entry for each column of X (n_features = {self.shape[1]}), got {len(self.names)}"
            )

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns, which are public."""
        n_samples, n_features = self.X.shape
        return n_samples, n_features

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def __repr__(self) -> str:
        parts = [name for name in ("y", "groups", "units") if getattr(self, name) is not None]
        return f"Table({', '.join([f'X of shape {self.shape}', *parts])})"


def read_table(
    estimator: Any,
    X: Any,
    *,
    y: Any = None,
    groups: Any = None,
    categories: Any = None,
    units: Any = None,
    missing: str = "error",
    reset: bool,
    min_samples: int = 1,
) -> Table:
    """Return private data as a `Table`, each row read by itself, or refuse them.

    Parameters
    ----------
    estimator : estimator
        Public facts of ``X`` are recorded or checked on it, as in `check_rows`.
    X : array-like of shape (n_samples, n_features)
        Numbers.
    y : array-like of shape (n_samples,) or (n_samples, 1), optional
        Numbers.
    groups : 1-d sequence of length n_samples, optional
        Values of ``categories``; a row in none of them has the code -1.
    categories : sequence or Categories, optional
        Public and declared: needed with ``groups``.
    units : 1-d sequence of length n_samples, optional
        To whom each row belongs: text, numbers, bytes, times, or tuples of these.
    missing : {"error", "center"}, default="error"
        What a NaN or infinite entry of ``y`` does: refuse the data, or stay what it is, for a map that counts it as
        its centre.
    reset, min_samples
        As in `check_rows`.

    Raises
    ------
    InvalidData
        If the data cannot be read, or their lengths differ.
    """
    check_choice("missing", missing, ["error", "center"])
    if isinstance(X, Engine):
        return Table(_check_engine(estimator, X, reset=reset, min_samples=min_samples))
    if groups is not None and not isinstance(categories, Categories):
        if categories is None:
            raise InvalidParameter("categories must be declared for groups: a sequence of distinct values")
        categories = Categories(categories)
    X = as_table(X)
    rows = check_rows(estimator, X, reset=reset, min_samples=min_samples)
    numbers = None if y is None else column_of("y", y)
    if numbers is not None and missing == "error" and not np.isfinite(numbers).all():
        raise InvalidData("y must be finite, got at least one NaN or infinite entry")
    return Table(
        rows,
        y=numbers,
        groups=None if groups is None else categories.codes(groups, "groups"),
        units=None if units is None else unit_codes(units),
        names=column_names(X),
    )


def _check_engine(estimator: Any, engine: Engine, *, reset: bool, min_samples: int) -> Engine:
    """Return rows that are not in memory, with the column named ``y`` beside the numbers, and record public facts."""
    from sklearn.utils.validation import validate_data

    if not getattr(estimator, "_takes_engines", False):
        raise InvalidData(
            f"X must be in memory for {type(estimator).__name__}; a relation, a file or a Dask collection serves "
            "means, variances, means of groups, tables and regressions"
        )
    n, d = engine.shape
    # The names alone, as of an empty frame of the same columns.
    facts: Any = np.empty((0, d))
    if engine.columns is not None:
        import pandas as pd

        facts = pd.DataFrame(facts, columns=engine.columns)
    validate_data(estimator, facts, reset=reset, skip_check_array=True)
    if n < min_samples:
        raise InvalidData(
            f"X must have at least {min_samples} rows, got n_samples = {n} (n is public and fixed)"
        )
    return engine


def unit_codes(units: Any) -> NDArray[np.int64]:
    """Return which rows belong to the same unit: equal codes, in order of first appearance, which is private."""
    values, where = distinct("units", units)
    keys = [key_of(value) for value in values]
    if where is not None:
        # An array of one type is gathered in order of value; only those that a row has.
        keys = [keys[place] for place in where]
    if any(key is None or key == MISSING or not is_built_in(key) for key in keys):
        raise InvalidData(
            "units must be text, numbers, bytes, times or tuples of these, got at least one entry that is missing or "
            "something else"
        )
    code: dict[Any, int] = {}
    return np.array([code.setdefault(key, len(code)) for key in keys], dtype=np.int64)


def check_rows(estimator: Any, X: Any, *, reset: bool, min_samples: int = 1) -> Any:
    """Return ``X`` as a 2-d numeric array and record or check its public facts on ``estimator``.

    An estimator whose tags say so is also given scipy.sparse tables, in CSR form with sorted rows. One that stores
    an entry twice is refused (which shows that there was one): libraries would add the copies up in floating
    point, in an order that depends on how other rows are stored.

    Shape, type and column names are checked here through scikit-learn's ``validate_data``.
    Whether the entries are finite is not: that check is fused into the one pass over the data
    (see `dpstats.lattice`), except for what conversion to numbers refuses.
    """
    from scipy.sparse import issparse
    from sklearn.utils import get_tags
    from sklearn.utils.validation import check_array, validate_data

    refusal: InvalidData | None = None
    was_read = False
    X = as_table(X)
    names = column_names(X)
    if names is not None and len(set(map(str, names))) < len(names):
        raise InvalidData(f"X must have a name of its own for every column, got {reprlib.repr(names)}")
    if np.ma.isMaskedArray(X):
        raise InvalidData("X must not be a masked array: fill it, or use NaN and missing='center'")
    try:
        accepted = "csr" if get_tags(estimator).input_tags.sparse else False
        if accepted and issparse(X):
            _refuse_copies(X)  # before any conversion, which may add them up
        # Read here, and by scikit-learn only checked: it would parse text, and give the rows of a list one type.
        read = X if issparse(X) else rows_of(X)
        was_read = True
        asked = {"dtype": "numeric", "ensure_all_finite": False, "accept_sparse": accepted}
        if names is None:
            rows = validate_data(estimator, read, reset=reset, **asked)
        else:
            rows = check_array(read, estimator=estimator, input_name="X", **asked)
            validate_data(estimator, X, reset=reset, skip_check_array=True)
        if issparse(rows):
            rows = _canonical(rows)
    except (InvalidData, MemoryError):
        raise
    except Exception as error:
        # Before, a container's own conversion spoke, whatever its words begin with.
        refusal = _without_data(error, str(error) if was_read else "")
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


# What scikit-learn says of shapes, names and containers holds no entry of the data.
_PUBLIC_MESSAGES = (
    "Found array with",
    "The feature names should match",
    "Feature names are only supported",
    "Sparse data was passed",
    "Complex data not supported",
    "X has ",
)


def _without_data(error: Exception, message: str) -> InvalidData:
    """Return our refusal in place of an error; what scikit-learn said is repeated where it shows no entry."""
    kind = InvalidType if isinstance(error, TypeError) else InvalidData
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
