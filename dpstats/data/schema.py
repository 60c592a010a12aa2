from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpstats.data.columns import check_kind, distinct, kind_of
from dpstats.data.keys import read_labels
from dpstats.data.levels import Categories, Levels
from dpstats.data.missing import NO_CODES, MissingCodes
from dpstats.data.rows import InvalidType, column_of
from dpstats.data.tables import ROLES
from dpstats.data.values import MISSING, is_built_in, is_missing, key_of
from dpstats.errors import InvalidData, attempt, refuse, refuse_data, show, show_names

# Columns and schemas


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
        if attempt(lambda: [hash(self.name)], TypeError) is None:
            raise refuse(self.parameter, given=self.name, allowed="the name of one column of X")

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

            warnings.warn(
                "A column-vector y was passed when a 1d array was expected", DataConversionWarning, 2
            )
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

    def resolve(self, names: Sequence[Any] | None) -> Schema:
        """Return the schema of rows with these columns and named numbers, or raise an error for unknown names."""
        self._check_codes()
        roles = {column.name: column.parameter for column in self.beside if column.name is not None}
        if names is None:
            needed = [*roles, *(() if self.levels is not None or self.counted else self.numbers or ())]
            if needed:
                parameter = roles.get(needed[0], "columns")
                raise refuse_data(
                    "X",
                    got="columns without names",
                    allowed=f"a data frame with the column that {parameter} names",
                )
            return self
        if len(set(map(str, names))) < len(names):
            raise refuse_data("X", got=show_names(names), allowed="have a different name for every column")
        numbers = self._chosen(names, roles)
        parameter = "columns" if self.levels is None else "levels"
        allowed = f"name columns of X ({show_names(names)})"
        # A role is a single name, which is a parameter. Several names are a container, which may hold entries.
        for name, role in roles.items():
            if list(names).count(name) != 1:
                raise refuse(role, given=name, allowed=allowed)
        for place, name in enumerate(numbers):
            if list(names).count(name) != 1:
                raise refuse(parameter, got=f"another at position {place}", allowed=allowed)
        if len(set(numbers)) < len(numbers):
            raise refuse(parameter, allowed="name each column once")
        if twice := [name for name in numbers if name in roles]:
            raise refuse(parameter, allowed=f"not have {show(twice[0])}, which is given as {roles[twice[0]]}")
        if not numbers and roles:
            raise refuse(parameter, allowed="name at least one column")
        if self.levels is not None and len(numbers) != len(self.levels):
            raise refuse_data(
                "X",
                got=str(len(numbers)),
                allowed=f"have {len(self.levels)} columns, as levels are declared for",
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
            got="at least one entry that is missing or something else",
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
