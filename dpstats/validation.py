"""Validation of parameters and of data, with messages that never show data.

Parameters are public: their values appear in messages. Data are not: every message about
``X`` is written here, or is one of scikit-learn's that speaks of shapes and names only.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeAlias

from dpstats.errors import InvalidData, InvalidParameter

# numpy is imported where arrays are checked: a process that only charges a budget starts without it.
if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Columns: TypeAlias = float | NDArray[np.float64]
    """A public number for all columns, or an array with one number per column."""


def _range_words(
    above: float | None, at_least: float | None, below: float | None, at_most: float | None
) -> str:
    words = []
    if above is not None:
        words.append(f"greater than {above:g}")
    if at_least is not None:
        words.append(f"at least {at_least:g}")
    if below is not None:
        words.append(f"less than {below:g}")
    if at_most is not None:
        words.append(f"at most {at_most:g}")
    return " and ".join(words)


def check_real(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
) -> float:
    """Return ``value`` as a finite float inside the stated range, or raise `InvalidParameter`."""
    words = f"a finite number {_range_words(above, at_least, below, at_most)}".rstrip()
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidParameter(f"{name} must be {words}, got {reprlib.repr(value)}")
    try:
        number = float(value) + 0.0  # not -0.0
    except OverflowError:
        number = math.inf
    inside = (
        math.isfinite(number)
        and (above is None or number > above)
        and (at_least is None or number >= at_least)
        and (below is None or number < below)
        and (at_most is None or number <= at_most)
    )
    if not inside:
        raise InvalidParameter(
            f"{name} must be {words}, got {reprlib.repr(value) if number == math.inf else value}"
        )
    return number


def check_integer(name: str, value: Any, *, at_least: int, at_most: int | None = None) -> int:
    """Return ``value`` as an int inside the stated range, or raise `InvalidParameter`."""
    words = f"an integer {_range_words(None, at_least, None, at_most)}"
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InvalidParameter(f"{name} must be {words}, got {reprlib.repr(value)}")
    number = int(value)
    if number < at_least or (at_most is not None and number > at_most):
        raise InvalidParameter(f"{name} must be {words}, got {number}")
    return number


def check_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """Return ``value`` if it is one of the named choices, or raise `InvalidParameter`."""
    if not isinstance(value, str) or value not in choices:
        allowed = ", ".join(repr(choice) for choice in choices)
        raise InvalidParameter(f"{name} must be one of {allowed}, got {reprlib.repr(value)}")
    return value


def check_flag(name: str, value: Any) -> bool:
    """Return ``value`` as a bool if it is one, of Python's or numpy's, or raise `InvalidParameter`."""
    import numpy as np

    if not isinstance(value, bool | np.bool_):
        raise InvalidParameter(f"{name} must be True or False, got {reprlib.repr(value)}")
    return bool(value)


def check_jobs(n_jobs: Any) -> int:
    """Return a number of workers: at least 1, or -1 for one per core; None is 1."""
    number = 1 if n_jobs is None else check_integer("n_jobs", n_jobs, at_least=-1)
    if number == 0:
        raise InvalidParameter("n_jobs must be a positive integer, or -1 for one per core, got 0")
    return number


def check_level(name: str, value: Any) -> float:
    """Return a probability between 0 and 1; a numpy float shorter than 64 bits by its shortest decimal."""
    import numpy as np

    level = check_real(name, value, above=0, below=1)
    if isinstance(value, np.floating) and value.itemsize < 8:
        # What was meant: 0.05, and not the 0.05000000074505806 of 32 bits.
        level = float(str(value))
    return level


def column_names(X: Any) -> list[Any] | None:
    """Return the labels of a data frame's columns, which are public; None if ``X`` is no data frame."""
    # Without a shape it is no table yet, and a lazy one would have to work for its columns.
    return _labels(getattr(X, "columns", None)) if hasattr(X, "shape") else None


def by_name(name: str, value: Any, names: list[Any] | None) -> Any:
    """Return a public parameter with one entry per column, or a matrix, in the order of the columns ``names``.

    A parameter without labels is returned as it is; so is one with the labels 0, 1, ... that pandas gives where
    none are given, unless these are the columns. Other labels have to be those of the columns.
    """
    import numpy as np

    if names is None:
        return value
    axes = [_labels(getattr(value, axis, None)) for axis in ("index", "columns")]
    orders = [order for labels in axes if (order := _order(name, labels, names)) is not None]
    if not orders:
        return value
    array = np.asarray(value)
    if array.shape == (len(names),):
        return array[orders[0]]
    if array.shape == (len(names), len(names)):
        # Labelled on one side, the other has the same order.
        return array[np.ix_(orders[0], orders[-1])]
    return value


def _labels(axis: Any) -> list[Any] | None:
    """Return the labels of a pandas index or of polars' columns; anything else might hold data."""
    if hasattr(axis, "nlevels"):
        labels: list[Any] = axis.tolist()
        return labels
    return axis if isinstance(axis, list) and all(isinstance(label, str) for label in axis) else None


def _order(name: str, labels: list[Any] | None, names: list[Any]) -> list[int] | None:
    """Return at which place of ``labels`` every column is; None if they label nothing."""
    if labels is None:
        return None
    default = list(range(len(labels)))
    if labels == names:
        return default
    place = {label: i for i, label in enumerate(labels)}
    if len(place) == len(labels) == len(names) and place.keys() == set(names):
        return [place[column] for column in names]
    if labels == default or names == list(range(len(names))):
        return None
    raise InvalidParameter(
        f"{name} must have the columns of X as its labels, in any order, or no labels, got labels "
        f"{reprlib.repr(labels)} for the columns {reprlib.repr(names)}"
    )


def check_columns(
    name: str,
    value: Any,
    n_features: int | None = None,
    *,
    above: float | None = None,
    at_least: float | None = None,
) -> Columns:
    """Return a public number, or one per column, as a float or a float array.

    ``n_features=None`` checks everything but the length.
    """
    import numpy as np

    if value is None:
        raise InvalidParameter(f"{name} must be given: a number or one number per column")
    if isinstance(value, Real | str):
        return check_real(name, value, above=above, at_least=at_least)
    words = (
        f"one number per column, each finite and {_range_words(above, at_least, None, None)}".removesuffix(
            " and "
        )
    )
    try:
        array = np.array(value)
    except ValueError:
        array = np.array(None)
    if array.ndim == 0 and array.dtype.kind in "fiu":
        return check_real(name, array.item(), above=above, at_least=at_least)
    if np.ma.isMaskedArray(value):
        raise InvalidParameter(f"{name} must not be a masked array")
    if array.ndim != 1 or array.dtype.kind not in "fiu" or array.size == 0:
        raise InvalidParameter(f"{name} must be a number or {words}, got {reprlib.repr(value)}")
    array = array.astype(np.float64)
    if n_features is not None and array.size != n_features:
        raise InvalidParameter(
            f"{name} must be a number or one number per column (n_features={n_features}), got {array.size} numbers"
        )
    inside = np.isfinite(array)
    if above is not None:
        inside &= array > above
    if at_least is not None:
        inside &= array >= at_least
    if not inside.all():
        where = int(np.argmin(inside))
        raise InvalidParameter(f"{name} must be {words}, got {array[where]:g} at position {where}")
    return array


def exact_numbers(name: str, value: Any) -> NDArray[Any]:
    """Return private numbers as an array that lost no digit: floats, integers, or Python numbers.

    numpy would make floats of integers beyond 64 bits, or beside a float in a list, and a float
    moves an integer beyond 2^53.
    """
    import numpy as np

    refusal = f"{name} must be a real number or an array of real numbers, of at most 64 bits each"
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        array = np.array(None)
    if array.dtype.kind == "f" and isinstance(value, list | tuple):
        exact = np.array(value, dtype=object)
        large = any(isinstance(item, Integral) and abs(int(item)) > 2**53 for item in exact.ravel())
        array = exact if large else array
    if np.ma.isMaskedArray(value) or array.dtype.kind not in "biufO" or array.dtype.itemsize > 8:
        raise InvalidData(refusal)
    if array.dtype.kind == "O":
        items = [item.item() if isinstance(item, np.generic) else item for item in array.ravel()]
        if not all(isinstance(item, Real) and not isinstance(item, np.generic) for item in items):
            raise InvalidData(refusal)
        array = np.array([*items, None], dtype=object)[:-1].reshape(array.shape)
    return array


def floats_among(array: NDArray[Any]) -> NDArray[np.float64]:
    """Return the entries that are floats, which alone can be infinite or NaN."""
    import numpy as np

    if array.dtype.kind == "O":
        return np.array([item for item in array.ravel() if isinstance(item, float)], dtype=np.float64)
    return array.ravel().astype(np.float64) if array.dtype.kind == "f" else np.empty(0)


def check_privacy_parameters(epsilon: Any, delta: Any) -> tuple[float, float]:
    """Return a finite ``epsilon > 0`` and a ``delta`` in [0, 1) as floats."""
    return check_real("epsilon", epsilon, above=0), check_real("delta", delta, at_least=0, below=1)


def check_random_state(random_state: Any) -> np.random.Generator | None:
    """Return None (exact noise), or the Generator that a seed or a Generator stands for (simulation)."""
    if random_state is None:
        return None
    import numpy as np

    if isinstance(random_state, np.random.Generator):
        return random_state
    is_integer = isinstance(random_state, Integral) and not isinstance(random_state, bool)
    if is_integer and int(random_state) >= 0:
        return np.random.default_rng(int(random_state))
    raise InvalidParameter(
        "random_state must be None (exact noise), or a non-negative int or numpy.random.Generator "
        f"(simulated noise), got {reprlib.repr(random_state)}"
    )


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
