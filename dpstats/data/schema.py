"""What the columns of private rows are: public, declared, and known before an entry is looked at."""

from __future__ import annotations

import reprlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpstats.data.columns import check_kind, distinct, kind_of
from dpstats.data.keys import read_labels
from dpstats.data.levels import Levels
from dpstats.data.rows import InvalidType, column_of
from dpstats.data.values import MISSING, is_built_in, key_of
from dpstats.errors import InvalidData, InvalidParameter

ROLES = ("y", "groups", "labels", "units", "weight", "time", "event")


@dataclass(frozen=True)
class Column:
    """A column beside the numbers, and how its entries are read.

    Attributes
    ----------
    role : {"y", "groups", "labels", "units", "weight", "time", "event"}
        What the column is to the estimator: the name of its field in a `Table`.
    name : column name, optional
        Of a column of X; None where the entries are given beside X.
    levels : Levels, optional
        Declared: entries become codes, -1 for one at no level. Without, they are numbers; of labels
        and units, whatever they are.
    parameter : str
        The parameter that errors name.
    convert : callable, optional
        Applied to what was read, of each entry by itself; it may refuse it. Of units it is applied to all entries.
    meaning : str
        What an entry is, for the error that asks for it.

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
            raise InvalidParameter(f"role must be one of {', '.join(ROLES)}, got {self.role!r}")

    def read(self, entries: Any, missing: str = "error") -> Any:
        """Return what the entries are, each by itself; of units, which of them are equal."""
        entries = self._flat(entries)
        if self.role == "units":
            return (self.convert or unit_codes)(entries)
        if self.role == "labels":
            return read_labels(entries, self.parameter)
        if self.levels is not None:
            check_kind(self.parameter, kind_of(entries), self.levels)
            found: Any = self.levels.codes(entries, self.parameter)
        else:
            found = column_of(self.parameter, entries)
            if missing == "error" and not np.isfinite(found).all():
                raise InvalidData(f"{self.parameter} must be finite, got at least one NaN or infinite entry")
        return found if self.convert is None else self.convert(found)

    def _flat(self, entries: Any) -> Any:
        """Return the column of an array or a frame of one, or refuse several."""
        shape = getattr(entries, "shape", ())
        if len(shape) < 2:
            return entries
        if shape[1:] != (1,):
            raise InvalidData(
                f"{self.parameter} must be one column, {self.meaning}, got an array of shape {tuple(shape)}. "
                "X comes first, then y."
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
    """Which columns of private rows are numbers or labels, and what the columns beside them are.

    Attributes
    ----------
    numbers : sequence of column names, optional
        None: the columns that labeled bounds name, or else all that have no role.
    beside : tuple of Column
    levels : tuple of Levels, optional
        The declared levels of every column: the columns are then labels, and are read as codes.
    missing : {"error", "drop", "center"}
        What a missing number does. A column beside the numbers is read by it; the numbers themselves stay missing, and
        the estimator applies it.
    bounds : mapping, optional
        Labeled bounds, whose names choose the numbers where nothing else does.
    n_features : int, optional
        The width of the plan, where it is not the number of columns.
    cells : tuple of int, optional
        The shape of the universe. X may then be a histogram, a count for each of its points.
    counted : bool
        X is always a histogram.
    plain : bool
        Of one column of labels, entries are taken as they stand: a list of one is no label, and an entry of another
        type than the declared levels is at none of them.
    sparse : bool
        Whether sparse tables of scipy are accepted.
    ordered : bool
        Whether the estimator goes by the order of the rows, which databases do not promise.

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

    def resolve(self, names: Sequence[Any] | None) -> Schema:
        """Return the schema of rows with these columns, every number named, or refuse names that are not there."""
        roles = {column.name: column.parameter for column in self.beside if column.name is not None}
        if names is None:
            needed = [*roles, *(() if self.levels is not None or self.counted else self.numbers or ())]
            if needed:
                raise InvalidData(
                    f"X must be a data frame with a column {needed[0]!r}, got columns without names"
                )
            return self
        if len(set(map(str, names))) < len(names):
            raise InvalidData(
                f"X must have a different name for every column, got {reprlib.repr(list(names))}"
            )
        numbers = self._chosen(names, roles)
        parameter = "columns" if self.levels is None else "levels"
        wanted_names: list[tuple[str, Sequence[Any]]] = [
            *((given, (name,)) for name, given in roles.items()),
            (parameter, numbers),
        ]
        for given, wanted in wanted_names:
            for name in wanted:
                if list(names).count(name) != 1:
                    raise InvalidParameter(
                        f"{given} must name columns of X ({reprlib.repr(list(names))}), got {name!r}"
                    )
        if len(set(numbers)) < len(numbers):
            raise InvalidParameter(f"{parameter} must name each column once")
        if twice := [name for name in numbers if name in roles]:
            raise InvalidParameter(
                f"{parameter} must not have {twice[0]!r}, which is given as {roles[twice[0]]}"
            )
        if not numbers and roles:
            raise InvalidParameter(f"{parameter} must name at least one column")
        if self.levels is not None and len(numbers) != len(self.levels):
            raise InvalidData(
                f"X must have {len(self.levels)} columns, as levels are declared for, got {len(numbers)}"
            )
        return replace(self, numbers=numbers)

    def _chosen(self, names: Sequence[Any], roles: Mapping[Any, str]) -> tuple[Any, ...]:
        if self.numbers is not None:
            return self.numbers
        labeled = tuple(self.bounds) if isinstance(self.bounds, Mapping) else ()
        if labeled and (roles or set(labeled) < set(names)):
            return labeled
        return tuple(name for name in names if name not in roles)

    def width(self, columns: int) -> int:
        """Return the number of features of a plan for so many columns."""
        return columns if self.n_features is None else self.n_features

    @property
    def open_columns(self) -> tuple[Column, ...]:
        """The columns that are given beside X."""
        return tuple(column for column in self.beside if column.name is None)

    @property
    def named_columns(self) -> tuple[Column, ...]:
        """The columns of X that are read beside the numbers."""
        return tuple(column for column in self.beside if column.name is not None)


def column_list(columns: Any) -> tuple[Any, ...] | None:
    """Return the names of columns, or of a single one; None for None."""
    if columns is None:
        return None
    return (columns,) if isinstance(columns, str) else tuple(columns)


def unit_codes(units: Any) -> Any:
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


def record_columns(estimator: Any, names: list[Any] | None, n_features: int) -> None:
    """Set ``n_features_in_``, and ``feature_names_in_`` where the columns have names."""
    estimator.n_features_in_ = n_features
    estimator.__dict__.pop("feature_names_in_", None)  # of a fit before
    if names and all(isinstance(name, str) for name in names):
        estimator.feature_names_in_ = np.asarray(names, dtype=object)


def check_names(names: list[Any] | None) -> None:
    """Refuse names of which some are text and some are not, as scikit-learn does."""
    texts = {isinstance(name, str) for name in names or ()}
    if len(texts) > 1:
        raise InvalidType(
            "Feature names are only supported if all input features have string names. Rename the columns of X, for "
            "example X.columns = X.columns.astype(str)."
        )


def check_columns_again(
    estimator: Any, names: list[Any] | None, n_features: int, shape: tuple[int, ...] | None = None
) -> None:
    """Refuse columns that are not those of the fit, in scikit-learn's words; ``shape`` is what the container states."""
    if shape is not None and len(shape) == 1 and estimator.n_features_in_ != 1:
        raise InvalidData(
            f"X must be a 2-d table of {estimator.n_features_in_} columns, got an array of one dimension. Reshape your "
            "data with X.reshape(1, -1) if it is a single row."
        )
    from sklearn.utils.validation import validate_data

    facts: Any = np.empty((0, n_features))
    if names is not None:
        import pandas as pd

        facts = pd.DataFrame(facts, columns=names)
    refusal = ""
    try:
        validate_data(estimator, facts, reset=False, skip_check_array=True)
    except ValueError as error:  # of names and their number, which are public
        refusal = str(error)
    if refusal:
        raise InvalidData(refusal)
