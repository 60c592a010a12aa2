"""Declared public descriptions of private rows, known before any entry is read: levels, columns, and sources.

Labels and entries are compared by one rule in every container and source. The declaration alone decides which labels
have a value.

* An entry of text is the label with the same text. Otherwise it is the label with its value (`exact_number`).
* Any other entry is the label with its value (`label_key`).
* A label of text has a value only if all labels read as distinct numbers, truth values or missing entries, and at
  least one as a number. So "1" is the entry 1 among the labels "0", "1", but not among the labels "1", "north".
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from dpstats.data.columns import check_kind, column, distinct, kind_of, read_labels
from dpstats.data.rows import NO_CODES, ROLES, InvalidType, MissingCodes, Rows, column_of
from dpstats.data.values import (
    MISSING,
    Key,
    Words,
    as_int64,
    exact_number,
    is_built_in,
    is_missing,
    key_of,
    label_key,
    single_precision,
)
from dpstats.errors import InvalidData, attempt, refuse, refuse_data, refuse_name, show, show_names


class Levels(Protocol):
    """Declared levels of a column, such as `Categories` or `Bins`, and the code of each entry among them."""

    def codes(self, data: Any, name: str = "data") -> NDArray[np.int64]:
        """Return the position of the level of each entry, or -1 for an undeclared level."""


class Undeclared:
    """Labels that nobody declared: the code of an entry is the label itself, as `read_labels` spells it."""

    def codes(self, data: Any, name: str = "data") -> NDArray[Any]:
        """Return the label of each entry, or None for an entry without a label."""
        return read_labels(data, name)


def text_key(text: str) -> Key | None:
    """Return the key of the value of a text: of a number, or of a missing entry. None for other text."""
    found = exact_number(text)
    return None if found is None else label_key(found)


def value_keys(labels: Sequence[Any]) -> list[Key] | None:
    """Return the keys of the values of declared labels, or None if labels are compared by text.

    Labels have values if all of them read as distinct numbers, truth values or missing entries, and at least one as a
    number.

    Examples
    --------
    >>> from dpstats.data.schema import value_keys
    >>> value_keys(["0", "1"]) == value_keys([False, 1.0]), value_keys(["1", "north"]), value_keys(["1", "01"])
    (True, None, None)
    """
    keys = []
    for label in labels:
        key = label_key(label)
        key = text_key(key[1]) if key is not None and key[0] == "text" else key
        if key is None or key[0] not in ("number", "missing"):
            return None
        keys.append(key)
    return keys if len(set(keys)) == len(keys) and {*keys} != {MISSING} else None


def _other_keys(label: Any, key: Key) -> list[Key]:
    """Return further keys of a number: of its decimal text if it is a float, and of its single precision."""
    if key[0] != "number":
        return []
    # A file shows the float 1e23 as 1e+23, which is not its exact value. A column of single precision shows 0.1 as
    # 0.10000000149011612.
    others: list[Any] = [Decimal(repr(label))] if type(label) is float and math.isfinite(label) else []
    if (single := single_precision(key[1])) is not None:
        others.append(single)
    return [other for number in others if (other := label_key(number)) is not None]


class Categories:
    """Public and distinct values, and the code of each row among them.

    Parameters
    ----------
    values : sequence
        Distinct hashable values. Equal values (`dpstats.data.values.label_key`) raise an error.
    name : str, default="categories"
        Name in error messages.

    Attributes
    ----------
    values : tuple
        Values as declared. Scalars of numpy become Python scalars, except times.
    by_value : bool
        Whether labels of text have values, too (`value_keys`).

    Examples
    --------
    >>> from dpstats.data.schema import Categories
    >>> Categories(["0", "1", "2"]).codes([1, "1.0", 2.0, "x"]).tolist()
    [1, 1, 2, -1]
    """

    kind: ClassVar[str] = "categories"

    def __init__(self, values: Any, name: str = "categories") -> None:
        # An array without a dimension cannot be iterated over either.
        # Sets have no order, and the keys of a mapping may not be what it declares.
        kind = "a single one" if isinstance(values, str | bytes) else None
        kind = f"a {type(values).__name__}" if isinstance(values, Mapping | Set) else kind
        given = None if kind else attempt(lambda: iter(values), TypeError)
        if given is None:
            raise refuse(
                name,
                got=kind or "a single one",
                allowed="a sequence of distinct values",
                remedy="Write brackets: ['yes', 'no'] for one column, [['yes', 'no'], ['old', 'new']] for two.",
            )
        self.values: tuple[Any, ...] = tuple(map(_plain, given))
        self._code: dict[Key, int] = {}
        for code, value in enumerate(self.values):
            key = label_key(value)
            if key is None:
                raise refuse(name, got=type(value).__name__, allowed="hashable values")
            if self._code.setdefault(key, code) != code:
                raise refuse(name, got=f"{show(values)} with one twice", allowed="distinct")
        if not self.values:
            raise refuse(name, allowed="not be empty")
        declared, valued = list(self._code), value_keys(self.values)
        self.by_value = valued is not None
        for code, key in enumerate(valued or ()):
            self._code[key] = code
        # Exact numbers come first, so that every declared label keeps its own entries.
        for code, (value, key) in enumerate(zip(self.values, valued or declared, strict=True)):
            for other in _other_keys(value, key):
                self._code.setdefault(other, code)
        self._reads_text = any(key[0] in ("number", "missing") for key in self._code)
        # A faster lookup for the most common types: the same codes, keyed by the values.
        self._plain = {key[1]: code for key, code in self._code.items() if key[0] in ("text", "number")}

    def __len__(self) -> int:
        return len(self.values)

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of entries that can be a declared label: "number", "text" and others."""
        kinds = {key[0] for key in self._code}
        return frozenset(kinds | {"text"} if "number" in kinds else kinds)

    def codes(self, data: Any, name: str = "data") -> NDArray[np.int64]:
        """Return the position of the category of each row, or -1 for a row in no category.

        The rule above defines equality. A missing row is in the category declared as None or NaN, if there is one. A
        row that cannot be a category, such as a list, is in none.

        Parameters
        ----------
        data : 1-d sequence
            Private: a list, an iterable, an array (masked entries are missing) or a column of a data frame. The type
            that an array or a column declares is public.

        Raises
        ------
        InvalidData
            If ``data`` is not 1-d.
        """
        values, where = (data, None) if isinstance(data, Words) else distinct(name, data)
        code: Callable[[Any], int] = self._code_of
        if where is None and {*map(type, values)} <= _BUILT_IN:
            # Equal entries are looked up once. The comparison never calls a class of another package.
            code = _Known(self._code_of).__getitem__
        codes = np.fromiter(map(code, values), dtype=np.int64, count=len(values))
        return codes if where is None else codes[where]

    def _code_of(self, value: Any) -> int:
        if type(value) in (str, int, bool) and value in self._plain:
            return self._plain[value]
        key = label_key(value)
        if key is None:
            return -1
        try:
            if key[0] == "text" and key not in self._code:
                key = text_key(key[1]) if self._reads_text else None
            return -1 if key is None else self._code.get(key, -1)
        except Exception:  # a comparison of a foreign class
            return -1


_BUILT_IN = {str, int, type(None)}


class _Known(dict[Any, int]):
    """Codes of entries, each computed once."""

    def __init__(self, code_of: Callable[[Any], int]) -> None:
        self._code_of = code_of

    def __missing__(self, value: Any) -> int:
        self[value] = code = self._code_of(value)
        return code


def _plain(value: Any) -> Any:
    if isinstance(value, np.floating) and value.itemsize < 8:
        return float(str(value))  # the label 0.1, and not the 0.10000000149011612 of 32 bits
    return value.item() if isinstance(value, np.generic) and value.dtype.kind not in "mMV" else value


class Bins:
    """Public edges, and the bin of each number between them.

    Parameters
    ----------
    edges : sequence of two finite numbers or more, increasing
        Public edges of the bins.

    Attributes
    ----------
    edges : ndarray
        The edges.
    values : tuple of str
        The bins as text, such as "[0, 10)". The last bin is closed.

    Examples
    --------
    >>> from dpstats.queries import Bins
    >>> Bins([0, 18, 65, 120]).values
    ('[0, 18)', '[18, 65)', '[65, 120]')
    """

    kind: ClassVar[str] = "bins"

    def __init__(self, edges: Any) -> None:
        converted = attempt(lambda: np.array(edges, dtype=np.float64), Exception)
        self.edges: NDArray[np.float64] = np.zeros(0) if converted is None else converted
        increasing = self.edges.ndim == 1 and self.edges.size >= 2 and bool((np.diff(self.edges) > 0).all())
        if not increasing or not np.isfinite(self.edges).all():
            raise refuse("bins", given=edges, allowed="the edges of bins, two finite and increasing numbers or more")
        pairs = list(zip(self.edges[:-1], self.edges[1:], strict=True))
        self.values = tuple(
            f"[{low:g}, {high:g}{']' if place == len(pairs) else ')'}" for place, (low, high) in enumerate(pairs, 1)
        )

    def __len__(self) -> int:
        return self.edges.size - 1

    def codes(self, data: Any, name: str = "data") -> NDArray[np.int64]:
        """Return the position of the bin of each number, or -1 for a number outside all bins or missing.

        Parameters
        ----------
        data : 1-d sequence of numbers
            Private numbers, as in `dpstats.data.rows.column_of`.

        Raises
        ------
        InvalidData
            If ``data`` is not a sequence of numbers.
        """
        numbers = column_of(name, data)
        with np.errstate(invalid="ignore"):
            inside = (numbers >= self.edges[0]) & (numbers <= self.edges[-1])
        places = np.searchsorted(self.edges, np.where(inside, numbers, self.edges[0]), side="right") - 1
        return as_int64(np.where(inside, np.minimum(places, len(self) - 1), -1))


# Columns and schemas


def check_is_name(parameter: str, name: Any) -> None:
    """Raise an error for what cannot be the name of a column, such as the column itself."""
    if attempt(lambda: [hash(name)], TypeError) is None:
        remedy = f"Put the entries into X as a column, and give its name: {parameter}='name'."
        raise refuse(parameter, given=name, allowed="the name of one column of X", remedy=remedy)


@dataclass(frozen=True)
class Column:
    """An additional column next to the numbers, and how its entries are read.

    Attributes
    ----------
    role : {"y", "groups", "labels", "units", "weight", "time", "event", "exposure", "offset"}
        Role of the column in the estimator, and name of its field in a `Table`.
    name : column name, optional
        Name of a column of X. None if the entries are given separately.
    levels : Levels, optional
        Declared levels. Entries become codes, with -1 for an undeclared level. Without levels, entries are numbers, and
        labels and units may have any type.
    parameter : str
        Name of the parameter in errors.
    convert : callable, optional
        Function of each entry after reading, which may raise an error. For units it is a function of all entries.
    meaning : str
        Description of an entry, for the error about a missing column.

    Examples
    --------
    >>> from dpstats.data import Column
    >>> Column("y", "income").read([1, 2.5, True]).tolist()
    [1.0, 2.5, 1.0]
    """

    role: str
    name: Any = None
    levels: Levels | None = None
    parameter: str = "y"
    convert: Callable[[Any], Any] | None = None
    meaning: str = "an outcome for each row"

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise refuse("role", given=self.role, allowed=f"one of {', '.join(ROLES)}")
        check_is_name(self.parameter, self.name)

    def read(self, entries: Any, missing: str = "error", codes: MissingCodes = NO_CODES) -> Any:
        """Return the values of the entries, each read independently. For units, return codes of equal entries."""
        entries = self._flat(entries)
        if self.levels is not None:
            check_kind(self.parameter, kind_of(entries), self.levels)
        elif self.role not in ("labels", "units"):
            found: Any = column_of(self.parameter, entries, codes)
            if missing == "error" and not np.isfinite(found).all():
                raise refuse_data(self.parameter, got="at least one NaN or infinite entry", allowed="finite")
            return found if self.convert is None else self.convert(found)
        entries = codes.clear_entries(self.parameter, entries)
        if self.role == "units":
            return (self.convert or unit_codes)(entries)
        if self.role == "labels":
            return read_labels(entries, self.parameter)
        assert self.levels is not None
        found = self.levels.codes(entries, self.parameter)
        return found if self.convert is None else self.convert(found)

    def _flat(self, entries: Any) -> Any:
        """Return the column of an array or a frame with one column, or raise an error for several."""
        shape = getattr(entries, "shape", ())
        if len(shape) < 2:
            return entries
        if shape[1:] != (1,):
            raise refuse_data(
                self.parameter,
                got=f"an array of shape (n, {', '.join(map(str, shape[1:]))})",
                allowed=f"one column, {self.meaning}",
                remedy="X comes first, then y.",
            )
        if not isinstance(entries, np.ndarray):
            return entries
        if self.role == "y":  # as scikit-learn has it
            from sklearn.exceptions import DataConversionWarning

            warnings.warn("A column-vector y was passed when a 1d array was expected", DataConversionWarning, 2)
        return entries[:, 0]


@dataclass(frozen=True)
class Schema:
    """Roles of the columns of private rows: numbers or labels, and additional columns.

    Attributes
    ----------
    numbers : sequence of column names, optional
        Columns of numbers. None: the columns that labeled bounds name. Without those, all columns without a role.
    beside : tuple of Column
    levels : tuple of Levels, optional
        Declared levels of every column. The columns are then labels, and are read as codes.
    missing : {"error", "drop", "center"}
        Treatment of missing numbers. It applies to additional columns while they are read. Other missing numbers stay
        missing, and the estimator treats them.
    bounds : mapping, optional
        Labeled bounds. Their names select the columns of numbers if ``numbers`` is None.
    n_features : int, optional
        Number of features of the plan, if it differs from the number of columns.
    cells : tuple of int, optional
        Shape of the universe. X may then be a histogram, with a count for each point.
    counted : bool
        Whether X is always a histogram.
    plain : bool
        Whether entries of a single column of labels are used unchanged. A list of one entry is then not a label.
    sparse : bool
        Whether sparse tables of scipy are accepted.
    ordered : bool
        Whether the estimator uses the order of the rows, which databases do not guarantee.
    private_size : bool
        Whether the number of rows is private. Then it may be 0, and no message states it.
    codes : MissingCodes
        Codes of missing entries, in all columns.
    parameter : str, optional
        Parameter whose names ``numbers`` are, if they were checked and messages may show them.

    Examples
    --------
    >>> from dpstats.data import Column, Schema
    >>> schema = Schema(beside=(Column("y", "income"),))
    >>> schema.resolve(["age", "income", "weight"]).numbers
    ('age', 'weight')
    """

    numbers: tuple[Any, ...] | None = None
    beside: tuple[Column, ...] = ()
    levels: tuple[Levels, ...] | None = None
    missing: str = "error"
    bounds: Any = None
    n_features: int | None = None
    cells: tuple[int, ...] | None = None
    counted: bool = False
    plain: bool = False
    sparse: bool = False
    ordered: bool = False
    private_size: bool = False
    codes: MissingCodes = NO_CODES
    parameter: str | None = None

    def resolve(self, names: Sequence[Any] | None) -> Schema:
        """Return the schema of rows with these columns and named numbers, or raise an error for unknown names."""
        self._check_codes()
        roles = {column.name: column.parameter for column in self.beside if column.name is not None}
        if names is None:
            needed = [*roles, *(() if self.levels is not None or self.counted else self.numbers or ())]
            if needed:
                parameter = roles.get(needed[0], self.parameter or "columns")
                raise refuse_data(
                    "X",
                    got="columns without names",
                    allowed=f"a data frame with the column that {parameter} names",
                    remedy="Make one: pandas.DataFrame(X), of an array with columns=[...].",
                )
            return self
        if len(set(map(str, names))) < len(names):
            raise refuse_data("X", got=show_names(names), allowed="have a different name for every column")
        numbers = self._chosen(names, roles)
        parameter = self.parameter or ("columns" if self.levels is None else "levels")
        # A role is a single name, which is a parameter. Several names are a container, which may hold entries.
        for name, role in roles.items():
            if list(names).count(name) != 1:
                raise refuse_name(role, name, names)
        for place, name in enumerate(numbers):
            if list(names).count(name) != 1:
                got = None if self.parameter == "time" else f"another at position {place}"
                raise refuse_name(parameter, name, names, got=got)
        if len(set(numbers)) < len(numbers):
            raise refuse(parameter, allowed="name each column once")
        if twice := [name for name in numbers if name in roles]:
            raise refuse(parameter, allowed=f"not have {show(twice[0])}, which is given as {roles[twice[0]]}")
        if not numbers and roles:
            raise refuse(parameter, allowed="name at least one column")
        if self.levels is not None and len(numbers) != len(self.levels):
            raise refuse_data(
                "X",
                got=f"{len(numbers)} columns",
                allowed=f"have {len(self.levels)} columns, as levels are declared for",
                remedy="Select them by name, such as X[['arm']].",
            )
        return replace(self, numbers=numbers)

    def _check_codes(self) -> None:
        """Raise an error for a declared label that is a code of missing entries: no row could have it."""
        for levels in (*(self.levels or ()), *(part.levels for part in self.beside)):
            for label in getattr(levels, "values", ()) if self.codes else ():
                if not is_missing(label) and self.codes.matches(label):
                    raise refuse(
                        "missing_codes",
                        given=label,
                        allowed="not have a declared label",
                        remedy="Declare None as the label of missing entries.",
                    )

    def _chosen(self, names: Sequence[Any], roles: Mapping[Any, str]) -> tuple[Any, ...]:
        if self.numbers is not None:
            return self.numbers
        labeled = tuple(self.bounds) if isinstance(self.bounds, Mapping) else ()
        if labeled and (roles or set(labeled) < set(names)):
            return labeled
        return tuple(name for name in names if name not in roles)

    def width(self, columns: int) -> int:
        """Return the number of features of a plan for this number of columns."""
        return columns if self.n_features is None else self.n_features

    @property
    def open_columns(self) -> tuple[Column, ...]:
        """The columns that are given separately from X."""
        return tuple(column for column in self.beside if column.name is None)

    @property
    def named_columns(self) -> tuple[Column, ...]:
        """The additional columns that are read from X."""
        return tuple(column for column in self.beside if column.name is not None)


def add_column(found: dict[str, Any], column: Column, values: Any) -> None:
    """Add the values of a column under its role. Several columns of groups are cross-classified."""
    if column.role in found and isinstance(column.levels, Categories):
        before, size = found[column.role], len(column.levels)
        # A row has a cell if all its labels are declared.
        values = np.where((before < 0) | (values < 0), -1, before * size + values)
    found[column.role] = values


def column_list(columns: Any) -> tuple[Any, ...] | None:
    """Return the names of columns, or of a single one; None for None."""
    if columns is None:
        return None
    return (columns,) if isinstance(columns, str) else tuple(columns)


def unit_codes(units: Any) -> Any:
    """Return equal codes for rows of the same unit, numbered in order of first appearance. The codes are private."""
    values, where = distinct("units", units)
    keys = [key_of(value) for value in values]
    if where is not None:
        # An array of one type has its distinct values in sorted order, and only values that occur.
        keys = [keys[place] for place in where]
    if any(key is None or key == MISSING or not is_built_in(key) for key in keys):
        raise refuse_data(
            "units",
            got="at least one entry that is missing or of another type",
            allowed="text, numbers, bytes, times or tuples of these",
        )
    code: dict[Any, int] = {}
    return np.array([code.setdefault(key, len(code)) for key in keys], dtype=np.int64)


def record_columns(estimator: Any, names: list[Any] | None, n_features: int) -> None:
    """Set ``n_features_in_``, and ``feature_names_in_`` where the columns have names."""
    estimator.n_features_in_ = n_features
    estimator.__dict__.pop("feature_names_in_", None)  # of a fit before
    if names and all(isinstance(name, str) for name in names):
        estimator.feature_names_in_ = np.asarray(names, dtype=object)


def check_names(names: list[Any] | None) -> None:
    """Raise an error for names of mixed types, text and others, like scikit-learn."""
    texts = {isinstance(name, str) for name in names or ()}
    if len(texts) > 1:
        raise InvalidType(
            "Feature names are only supported if all input features have string names. Rename the columns of X, for "
            "example X.columns = X.columns.astype(str)."
        )


def check_columns_again(
    estimator: Any, names: list[Any] | None, n_features: int, shape: tuple[int, ...] | None = None
) -> None:
    """Raise the error of scikit-learn if columns differ from the fit; ``shape`` is the stated shape of the data."""
    if shape is not None and len(shape) == 1 and estimator.n_features_in_ != 1:
        raise refuse_data(
            "X",
            got="an array of one dimension",
            allowed=f"a 2-d table of {estimator.n_features_in_} columns",
            remedy="Reshape your data with X.reshape(1, -1) if it is a single row.",
        )
    from sklearn.utils.validation import validate_data

    facts: Any = np.empty((0, n_features))
    if names is not None:
        import pandas as pd

        facts = pd.DataFrame(facts, columns=names)
    try:
        validate_data(estimator, facts, reset=False, skip_check_array=True)
        return
    except ValueError as error:  # of names and their number, which are public
        refusal = str(error)
    raise InvalidData(refusal)


# Sources of private rows, one per kind of container. Opening a source reads no entry.


class Source(ABC):
    """A container of private rows.

    Attributes
    ----------
    names : list, optional
        Public names of the columns, in order.
    unit : str
        Public unit of privacy of a row, as declared.
    ordered : bool
        Whether the rows have an order, which separately given entries follow.
    beside : tuple of column names
        Columns to use as ``y`` if a fit is called without one.
    about : str, optional
        Public words for what the rows are made of, such as a formula. Two sources with other words are not the same
        request.

    See Also
    --------
    register : Open containers of a type as a source.

    Examples
    --------
    A container of another library becomes a source by two methods.

    >>> import numpy as np
    >>> from dpstats.data import Source, Table
    >>> from dpstats.means import ClippedMean
    >>> class Repeated(Source):
    ...     def __init__(self, value, times):
    ...         self.value, self.times = value, times
    ...     def size(self, schema):
    ...         return self.times, 1
    ...     def read(self, schema, given=None):
    ...         return Table(np.full((self.times, 1), float(self.value)))
    >>> ClippedMean(bounds=(0, 10), random_state=0).fit(Repeated(7, 1000)).mean_.round(1)
    array([7.])
    """

    names: list[Any] | None = None
    unit: str = "row"
    ordered: bool = True
    beside: tuple[str, ...] = ()
    about: str | None = None

    @abstractmethod
    def size(self, schema: Schema) -> tuple[int, int] | None:
        """Return the stated number of rows and of columns, or None if rows must be counted."""

    @abstractmethod
    def read(self, schema: Schema, given: Mapping[str, Any] | None = None) -> Rows:
        """Return the rows as a schema reads them, or raise an error.

        Parameters
        ----------
        schema : Schema
            Result of `resolve`.
        given : mapping of roles to sequences, optional
            Entries of the columns that are given separately from X.
        """

    def resolve(self, schema: Schema, y: Any) -> tuple[Schema, dict[str, Any]]:
        """Return the schema of these rows, from public facts, and the entries that ``y`` contains."""
        open_columns = schema.open_columns
        if not open_columns:
            if schema.beside and y is not None:
                parameter = schema.beside[0].parameter
                raise refuse("y", allowed=f"not be given with {parameter}: {parameter} names the column of X to use")
            return schema.resolve(self.names), {}
        named = self.beside if y is None else _named(y, len(open_columns))
        if y is None and len(self.beside) != len(open_columns):
            # The checks of scikit-learn require the middle part of this message.
            raise InvalidData(
                f"y must be {open_columns[0].meaning}, or the name of a column of X: fit requires y to be passed, but "
                "the target y is None"
            )
        if named is not None:
            for name in named if self.names is not None else ():
                if list(self.names or ()).count(name) != 1:
                    # The name is in a slot of the data, so it is not shown.
                    raise refuse_name("y", name, self.names or (), got="another name")
            names = iter(named)
            beside = tuple(part if part.name is not None else replace(part, name=next(names)) for part in schema.beside)
            return replace(schema, beside=beside).resolve(self.names), {}
        if not self.ordered:
            raise refuse_data(
                "y",
                allowed="the name of a column of X where X is a relation, a file, a lazy frame, or a data frame of "
                "Dask or Spark",
                remedy="Their rows have no order that another container could follow.",
            )
        return schema.resolve(self.names), self._entries_given(open_columns, y)

    def _entries_given(self, columns: tuple[Column, ...], y: Any) -> dict[str, Any]:
        """Return the entries of each column in ``y``."""
        if len(columns) == 1:
            return {columns[0].role: y}
        parts = _split(y, len(columns))
        if parts is None:
            words = ", ".join(column.role for column in columns)
            others = " and ".join(column.parameter for column in columns if column.parameter != "y")
            raise refuse_data(
                "y",
                allowed=f"{len(columns)} columns ({words}): a data frame or an array of as many columns, a tuple of "
                "sequences, or a list of the names of columns of X",
                remedy=f"Or pass {others} by keyword." if others else "",
            )
        return {column.role: part for column, part in zip(columns, parts, strict=True)}

    def kind(self, name: Any) -> str | None:
        """Return the kind of entries that a column declares, such as "number" or "text", or None."""
        return None


def _named(y: Any, count: int) -> tuple[str, ...] | None:
    """Return the names of columns in ``y``, or None if it contains entries."""
    if isinstance(y, str):
        return (y,) if count == 1 else None
    several = count > 1 and isinstance(y, list | tuple) and len(y) == count
    return tuple(y) if several and all(isinstance(name, str) for name in y) else None


def _split(y: Any, count: int) -> list[Any] | None:
    """Return the columns of a table, or the sequences of a tuple."""
    if isinstance(y, tuple):
        return list(y) if len(y) == count else None
    names = getattr(getattr(y, "dtype", None), "names", None)
    if names is not None:
        return [y[name] for name in names] if len(names) == count else None
    shape: Any = getattr(y, "shape", ())
    if len(shape) != 2 or shape[1] != count:
        return None
    if hasattr(y, "columns"):
        return [column(y, name) for name in y.columns]
    return [y[:, place] for place in range(count)]
