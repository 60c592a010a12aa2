"""Private rows of numbers of any container, read so that a row does not depend on other rows, and tables of them.

A row has the same float64 values as if it were the only row in a table of the same kind. If a container declares a type
(of an array or a column), the type is public and all entries are converted together. Otherwise entries are read one by
one. Whether an entry is a code of a missing entry, such as -999 or "unk", depends on this entry only.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.columns import distinct, frame_of, in_memory, list_items, series_of
from dpstats.data.parameters import check_choice
from dpstats.data.values import (
    MISSING_WORDS,
    NO_NUMBER,
    Key,
    Words,
    exact_number,
    float_of,
    label_key,
    single_precision,
)
from dpstats.data.values import numbers as read_words
from dpstats.errors import InvalidData, attempt, refuse, refuse_data, show


class MissingCodes:
    """Declared codes of missing entries.

    A code that is a number, or a text that Python reads as one, is compared by value. So -999 is also the entry -999.0,
    and the word "-999.00" of a file. Any other text is compared with the text of an entry, without blanks around it.

    Attributes
    ----------
    words : frozenset of str
        The codes that are compared by text.
    numbers : tuple of float
        The codes that are compared by value, in double precision, and as a column of single precision has them.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.data.rows import check_codes
    >>> codes = check_codes([-999, "unk"])
    >>> codes.clear_numbers(np.array([1.0, -999.0]))
    array([ 1., nan])
    >>> codes.clear_entries("y", ["a", "unk", "-999.0"])
    ['a', None, None]
    """

    def __init__(self, words: frozenset[str] = frozenset(), numbers: Sequence[Any] = ()) -> None:
        self.words = words
        self._keys: frozenset[Key | None] = frozenset(map(label_key, numbers))
        doubles = [float(number) for number in numbers]
        singles = [single for number in doubles if (single := single_precision(number)) is not None]
        self.numbers = tuple(dict.fromkeys([*doubles, *singles]))

    def __bool__(self) -> bool:
        return bool(self.words or self.numbers)

    def matches(self, value: Any) -> bool:
        """Return whether an entry, or a declared label, is one of the codes."""
        key = label_key(value)
        if key is not None and key[0] == "text":
            if key[1].strip() in self.words:
                return True
            key = label_key(exact_number(key[1])) if self.numbers else None
        if key is None or key[0] != "number":
            return False
        return key in self._keys or (type(value) is float and value in self.numbers)

    def clear_numbers(self, numbers: Any) -> Any:
        """Return numbers as float64 with NaN for codes. Without codes, return them unchanged."""
        from scipy.sparse import issparse

        if not self.numbers:
            return numbers
        if issparse(numbers):
            if 0 in self.numbers:
                raise refuse(
                    "missing_codes",
                    allowed="not have 0 for a sparse table, whose other entries are all 0",
                    remedy="Convert the table with X.toarray().",
                )
            cleared = numbers.copy()
            cleared.data = self.clear_numbers(numbers.data)
            return cleared
        found = attempt(lambda: np.array(numbers, dtype=np.float64), TypeError, ValueError)
        if found is None:
            raise refuse_data("numbers", got=show(numbers), allowed="an array of numbers")
        found[np.isin(found, self.numbers)] = math.nan
        return found

    def clear_items(self, items: Sequence[Any]) -> Sequence[Any]:
        """Return items of a column of numbers with None for texts that are codes."""
        if not self:
            return items
        return [None if isinstance(item, str) and self.matches(item) else item for item in items]

    def clear_entries(self, name: str, entries: Any) -> Any:
        """Return the entries of a column with None for codes, or the empty word. Without codes, return it unchanged."""
        if not self:
            return entries
        if isinstance(entries, Words):
            return Words("" if self.matches(word) else word for word in entries)
        values, where = distinct(name, entries)
        kept = [None if self.matches(value) else value for value in values]
        return kept if where is None else [kept[place] for place in where]

    def clear_sql(self, expression: str) -> str:
        """Return the SQL of a number with NULL for codes."""
        if not self.numbers:
            return expression
        found = " OR ".join(f"{expression} = CAST('{number!r}' AS DOUBLE)" for number in self.numbers)
        return f"CASE WHEN {found} THEN NULL ELSE {expression} END"

    @property
    def missing_words(self) -> frozenset[str]:
        """The words that mean a missing entry in a file's column of numbers."""
        return MISSING_WORDS | self.words if self.words else MISSING_WORDS


NO_CODES = MissingCodes()


def check_codes(value: Any, name: str = "missing_codes") -> MissingCodes:
    """Return the codes of missing entries, or raise an error for anything but numbers and words."""
    if value is None:
        return NO_CODES
    allowed = "a list of finite numbers and of words, such as [-999, 'unk']"
    if isinstance(value, str | bytes | Real) or not isinstance(value, Sequence | Set | np.ndarray):
        raise refuse(name, given=value, allowed=allowed, remedy="Write codes in brackets.")
    words, numbers = set(), []
    for code in value.tolist() if isinstance(value, np.ndarray) else value:
        read = _number(code)
        if read is not None:
            numbers.append(read)
        elif isinstance(code, str) and code.strip():
            words.add(str(code).strip())
        else:
            raise refuse(name, got=f"an entry of type {type(code).__name__}", allowed=allowed)
    return MissingCodes(frozenset(words), numbers)


def _number(code: Any) -> Any:
    """Return the number that a code stands for, or None. Truth values, and the words true and false, have none."""
    if isinstance(code, str):
        found: Any = None if code.strip().lower() in ("true", "false") else exact_number(code)
    else:
        is_number = isinstance(code, Real | np.floating) and not isinstance(code, bool | np.bool_)
        found = code if is_number else None
    return None if found is None or not math.isfinite(found) else found


# Numbers


_PLAIN = {float, int, bool, type(None)}
"""Types that numpy converts to floats one by one, with the same result as `float_of`."""


class InvalidType(InvalidData, TypeError):
    """Data of a wrong type. It is a TypeError by the conventions of scikit-learn."""


TABLE = "a 2-d table of numbers"
_SEQUENCE = "a 1-d sequence of numbers"


def text_found(name: str, allowed: str = TABLE, column: Any = None) -> InvalidData:
    """Return the error for text in place of numbers. A column with a name is named."""
    return refuse_data(
        name,
        got=f"{_place(column)} that holds text or other objects",
        allowed=allowed,
        remedy="Select numeric columns, or convert text entry by entry. For numbers: pandas.to_numeric(column, "
        "errors='coerce') makes other words missing. For answers such as yes and no: column == 'yes'.",
    )


def times_found(name: str, allowed: str = TABLE, column: Any = None) -> InvalidData:
    """Return the error for times in place of numbers. A column with a name is named."""
    return refuse_data(
        name,
        got=f"{_place(column)} that holds dates, times or durations",
        allowed=allowed,
        remedy="Convert a date to days since a public day: (column - pandas.Timestamp('2020-01-01')).dt.days. Convert "
        "a duration to seconds: column.dt.total_seconds().",
    )


def _place(column: Any) -> str:
    return f"column {show(column)}" if isinstance(column, str) and column else "at least one column"


def object_found(name: str, allowed: str = TABLE) -> InvalidType:
    """Return the error for an object in place of a number, as scikit-learn states it but without the object."""
    return InvalidType(f"{name} must be {allowed}; an entry's argument must be a string or a real number")


def _convert_numbers(
    items: Sequence[Any], codes: MissingCodes, name: str = "X", allowed: str = TABLE, column: Any = None
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
            raise text_found(name, allowed, column)
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


def _of_series(series: Any, codes: MissingCodes, name: str = "X", allowed: str = TABLE) -> NDArray[np.float64]:
    import narwhals as nw

    kind = series.dtype
    if kind.is_temporal():
        raise times_found(name, allowed, series.name)
    if not _is_plain(kind) and kind != nw.Boolean:
        return _convert_numbers(series.to_list(), codes, name, allowed, series.name)
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
    if isinstance(data, list | tuple) and all(isinstance(row, list | tuple) and len(row) == 1 for row in data):
        data = [row[0] for row in data]
    dtype = getattr(data, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in "biuf" and not np.ma.isMaskedArray(data):
        array = np.asarray(data)
        if array.ndim == 1:
            return np.asarray((as_float64(array) if dtype.itemsize > 8 else array).astype(np.float64))
    if isinstance(dtype, np.dtype) and dtype.kind in "mM":
        raise times_found(name, _SEQUENCE, getattr(data, "name", None))
    values, where = distinct(name, data)
    numbers = _convert_numbers(values, codes, name, _SEQUENCE, getattr(data, "name", None))
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
        pattern = csr_array((np.empty(table.indices.size, np.int8), table.indices, table.indptr), (lines, width))
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


# Rows after reading by a schema: in memory, or as a stream of blocks.


ROLES = ("y", "groups", "labels", "units", "weight", "time", "event", "exposure", "offset")
"""The columns of a `Table` next to its numbers."""

Integers = NDArray[np.int64]
Sums = Mapping[str, Integers]


class Rows(ABC):
    """Private rows of any source. An estimator computes sums over them.

    Attributes
    ----------
    names : list, optional
        Public names of the columns of numbers or labels.
    local : bool
        Whether `total` calls its function in this process, so that it may keep rows.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.data import Schema, open_source
    >>> rows = open_source([[1.0], [2.0], [4.0]]).read(Schema())
    >>> rows.shape, rows.total(lambda table: {"n": np.array([len(table)])})
    ((3, 1), {'n': array([3])})
    """

    __slots__ = ()
    names: list[Any] | None

    @property
    def local(self) -> bool:
        return True

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns, which are public."""

    @abstractmethod
    def total(self, work: Callable[[Table], Sums]) -> dict[str, Integers]:
        """Return the sums of the results of ``work``, a pure function of some rows, over any partition of the rows.

        Raises
        ------
        InvalidData
            If ``work`` does, or if the rows cannot be read, or are not as many as their shape says.
        """

    @abstractmethod
    def whole(self) -> Table:
        """Return all rows in memory."""

    def load(self) -> Table:
        """Return all rows in memory, with numbers of the type in which they were given: `whole` without a copy."""
        return self.whole()

    def aggregates(self, expressions: Sequence[str], of: Sequence[str]) -> list[int] | None:
        """Return the integers of SQL aggregates of c0, c1, ..., which ``of`` defines, or None without SQL."""
        return None

    def expression(self, column: int) -> str | None:
        """Return the SQL of a column of numbers, as DOUBLE; None without SQL."""
        return None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Table(Rows):
    """Private rows in memory, with optional responses, groups, protected units and other columns.

    Attributes
    ----------
    X : array or CSR table of shape (n_samples, n_features)
        Numbers, which may be NaN or infinite. Or int64 codes of declared levels, with -1 for an undeclared level.
    y : float64 array of shape (n_samples,), optional
        Outcome of each row.
    groups : int64 array of shape (n_samples,), optional
        Position of the declared category of each row, or -1 for a row in none.
    labels : object array of shape (n_samples,), optional
        Undeclared label of each row, or None for a row without one.
    units : int64 array of shape (n_samples,), optional
        Codes from 0, equal for rows of the same protected unit, such as a person. The codes are private and never
        released, because one row may change the codes of others.
    names : list, optional
        Public names of the columns of ``X``.
    weight, time, event, exposure, offset : float64 arrays of shape (n_samples,), optional
        Weight, time, event indicator, exposure and offset of each row.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.data import Table
    >>> table = Table(np.array([[1.0], [2.0]]), y=np.array([0.0, 1.0]))
    >>> table.shape, len(table)
    ((2, 1), 2)
    """

    X: Any
    y: NDArray[np.float64] | None = None
    groups: NDArray[np.int64] | None = None
    units: NDArray[np.int64] | None = None
    names: list[Any] | None = None
    weight: NDArray[np.float64] | None = None
    time: NDArray[np.float64] | None = None
    event: NDArray[np.float64] | None = None
    labels: NDArray[np.object_] | None = None
    exposure: NDArray[np.float64] | None = None
    offset: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        for name, column in self.beside().items():
            if column.shape != (len(self),):
                raise refuse_data(
                    name,
                    got=f"shape {column.shape}",
                    allowed=f"have an entry for each row of X (n_samples = {len(self)})",
                )
        if self.names is not None and len(self.names) != self.X.shape[1]:
            raise refuse_data(
                "names",
                got=str(len(self.names)),
                allowed=f"have an entry for each column of X (n_features = {self.X.shape[1]})",
            )

    def beside(self) -> dict[str, Any]:
        """Return the additional columns by their roles."""
        columns = {role: getattr(self, role) for role in ROLES}
        return {role: column for role, column in columns.items() if column is not None}

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns, which are public; with units the number of units."""
        n_samples, n_features = self.X.shape
        return n_samples if self.units is None else int(self.units.max(initial=-1)) + 1, n_features

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def total(self, work: Callable[[Table], Sums]) -> dict[str, Integers]:
        return dict(work(self))

    def whole(self) -> Table:
        return self

    def __repr__(self) -> str:
        return f"Table({', '.join([f'X of shape {self.X.shape}', *self.beside()])})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Counts(Table):
    """Counted rows: ``X`` of shape (size,) is the number of rows at each point of a universe.

    ``shape`` describes the rows: their public number, and the number of points.
    """

    def __post_init__(self) -> None:
        pass

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of points, which are public."""
        return int(self.X.sum()), int(self.X.size)


class Narrow(Rows):
    """Numbers in memory with a type other than float64. They are converted block by block, to save memory."""

    __slots__ = ("_table", "names")
    _ENTRIES = 1 << 20  # of a block

    def __init__(self, table: Table) -> None:
        self._table, self.names = table, table.names

    @property
    def shape(self) -> tuple[int, int]:
        return self._table.shape

    def total(self, work: Callable[[Table], Sums]) -> dict[str, Integers]:
        n, d = self._table.X.shape
        rows = max(1, self._ENTRIES // max(1, d))
        starts = range(0, max(1, n), rows)
        return add_sums(work(self._part(slice(start, start + rows))) for start in starts)

    def whole(self) -> Table:
        return self._part(slice(None))

    def load(self) -> Table:
        return self._table if self._table.X.dtype.itemsize <= 8 else self.whole()

    def _part(self, where: slice) -> Table:
        table = self._table
        beside = {role: column[where] for role, column in table.beside().items()}
        return Table(as_float64(table.X[where]), **beside, names=table.names)


def add_sums(parts: Iterable[Sums]) -> dict[str, Integers]:
    """Return the sums of all parts."""
    total: dict[str, Integers] = {}
    for part in parts:
        added(total, part)
    return total


def added(total: dict[str, Integers], more: Sums) -> dict[str, Integers]:
    """Add sums to a total, in place."""
    for name, values in more.items():
        total[name] = total[name] + values if name in total else np.array(values)
    return total


# Rows whose label nobody declared: one rule for every release by groups, levels or categories.
#
# Such a row is left out, and so is a row without a label unless None is declared. Its code is -1, and it adds nothing.
# With ``unknown="error"`` a family refuses it, where that option is. A release that needs the number of the other rows
# counts them with a part of its budget, as with ``missing="drop"``.


LEFT_OUT = "Rows with an undeclared label are left out."
"""The rule, as summaries state it."""
ABOUT_THE_OTHERS = f"{LEFT_OUT} The result is about the other rows, whose number is private."
"""The rule, where the number of the other rows is released."""
_SHOWN = 6


def drops_undeclared(unknown: Any) -> bool:
    """Return whether rows with an undeclared label are left out, or refuse a value that ``unknown`` cannot have.

    Examples
    --------
    >>> from dpstats.data.rows import drops_undeclared
    >>> drops_undeclared("drop"), drops_undeclared("error")
    (True, False)
    """
    return check_choice("unknown", unknown, ["drop", "error"]) == "drop"


def refuse_undeclared(parameter: str, kind: str = "labels", option: str = "unknown='drop'") -> InvalidData:
    """Return the error for a row with an undeclared label, which a release does not leave out.

    Parameters
    ----------
    parameter : str
        Name of the slot of the labels.
    kind : str
        Plural of the declared things.
    option : str
        The option that leaves such rows out.
    """
    return refuse_data(
        parameter,
        got="at least one entry outside them, or missing",
        allowed=f"hold declared {kind} only",
        remedy=f"Declare it (None is the label of missing entries), or give {option}.",
    )


def check_labels(rows: Rows) -> None:
    """Raise `InvalidData` if a row has an undeclared label."""

    def check(table: Table) -> dict[str, Any]:
        if table.groups is None or (np.asarray(table.groups) < 0).any():
            raise refuse_undeclared("y", "groups")
        return {}

    rows.total(check)


def empty_groups_note(names: Sequence[Any]) -> list[str]:
    """Return a note on declared groups that noise hides: one that is misspelled has no rows.

    Examples
    --------
    >>> from dpstats.data.rows import empty_groups_note
    >>> empty_groups_note(["placbo"])
    ["Noise only: 'placbo'. The count cannot be distinguished from 0. Check the spelling of the label."]
    """
    if not len(names):
        return []
    which = "label" if len(names) == 1 else "labels"
    listed = ", ".join(map(repr, names[:_SHOWN])) + (f" and {len(names) - _SHOWN} more" * (len(names) > _SHOWN))
    return [f"Noise only: {listed}. The count cannot be distinguished from 0. Check the spelling of the {which}."]
