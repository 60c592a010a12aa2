"""The catalogue of tables and columns, and of public declarations. Queries are checked against it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from string import ascii_lowercase, ascii_uppercase
from typing import Any

from dpstats.errors import refuse, show

_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)


@dataclass(frozen=True)
class ColumnType:
    """The type of a column, and the kind of its values.

    Attributes
    ----------
    name : str
    kind : {"whole", "real", "text", "truth", "date", "time", "other"}
    required : bool
        Whether the table refuses rows without a value: NOT NULL, and no type with NaN or infinity.
    entry : str
        SQL of an entry, from the name of the column as {}. It is not the name alone where the database has another
        order, form or range of entries than `name`. It is NULL where the column is. NaN and infinity of a column of
        real numbers are NULL here: no other place decides about them.
    undeclared : bool
        Whether this is text only because nobody declared a type, in a CSV file.
    numbers : (str, str)
        SQL of an entry of text as a whole number and as a double, from the name of the column as {0}: NULL for other
        text. Empty if the database cannot read text as numbers without an error.
    """

    name: str
    kind: str
    required: bool = False
    entry: str = "{}"
    undeclared: bool = False
    numbers: tuple[str, str] = ("", "")

    @property
    def shown(self) -> str:
        """The name without its part in brackets, because the brackets of an ENUM contain values of the data."""
        return self.name.partition("(")[0]


@dataclass(frozen=True)
class Path:
    """A foreign key: a column, and the key of another table that it refers to.

    Attributes
    ----------
    column : str
    table : str
        Name in lower case.
    key : str
    """

    column: str
    table: str
    key: str


@dataclass(frozen=True)
class BaseTable:
    """A table of the database.

    Attributes
    ----------
    name : str
    source : str
        In SQL, with database and schema, quoted.
    columns : mapping of str to (str, ColumnType)
        The name and the type, by the name in lower case.
    public : bool
    unit : str, optional
        The column that identifies the unit of a row.
    path : Path, optional
        In place of the column: the row of another table that has the unit of a row.
    keys : tuple of str, default=()
        Columns that are declared to have no value twice.
    """

    name: str
    source: str
    columns: Mapping[str, tuple[str, ColumnType]]
    public: bool = False
    unit: str | None = None
    path: Path | None = None
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class Catalogue:
    """The tables that queries may use, by names in lower case, and the declarations of columns.

    Attributes
    ----------
    tables : mapping of str to BaseTable
    views : frozenset of str
        Names of views.
    categories : mapping of (str, str) to tuple, or "discover"
        Declared values, by table and column in lower case.
    bins : mapping of (str, str) to tuple of float
        Declared edges.
    periods : mapping of (str, str) to (date, date)
        Declared first dates, and dates after the last.
    bounds : mapping of (str, str) to (float, float)
    """

    tables: Mapping[str, BaseTable]
    views: frozenset[str] = frozenset()
    categories: Mapping[tuple[str, str], tuple[Any, ...] | str] = field(default_factory=dict)
    bins: Mapping[tuple[str, str], tuple[float, ...]] = field(default_factory=dict)
    periods: Mapping[tuple[str, str], tuple[date, date]] = field(default_factory=dict)
    bounds: Mapping[tuple[str, str], tuple[float, float]] = field(default_factory=dict)

    def table(self, name: str) -> BaseTable:
        """Return the table of a name, which ignores case."""
        found = self.tables.get(fold(name))
        if found is None:
            raise refuse(
                "FROM",
                got=f"{name!r}, which {self._explain(name)}",
                allowed=f"name base tables ({self._list_names()})",
            )
        return found

    def _list_names(self) -> str:
        return ", ".join(sorted(table.name for table in self.tables.values())) or "none"

    def _explain(self, name: str) -> str:
        """Return why no base table has this name."""
        view = fold(name) in self.views
        advice = (
            f". Give a DataFrame or a file as PrivateSQL({{{name!r}: ...}})"
            if view or not self.tables
            else ""
        )
        return f"is {'a view, which may hide a join' if view else 'no table'}{advice}"

    def columns_of(self, parameter: str, keys: Iterable[Any]) -> dict[Any, tuple[str, str]]:
        """Return the table and the column, in lower case, of names as "table.column".

        A name with a dot may make a key ambiguous. This raises an error.
        """
        found: dict[Any, tuple[str, str]] = {}
        for key in keys:
            words = fold(key).split(".")
            splits = [(".".join(words[:i]), ".".join(words[i:])) for i in range(1, len(words))]
            named = [(table, column) for table, column in splits if table in self.tables]
            if not named:
                table = key.rpartition(".")[0] if isinstance(key, str) else ""
                # A key without a dot may be an entry that was given by mistake.
                why = f"{show(key)}: {table!r} {self._explain(table)}" if table else "another key"
                raise refuse(
                    parameter,
                    got=why,
                    allowed=f"name columns of base tables ({self._list_names()}) as 'table.column'",
                )
            there = [(table, column) for table, column in named if column in self.tables[table].columns]
            if not there:
                raise refuse(parameter, given=key, allowed="name columns that are there")
            if len(there) > 1:
                raise refuse(parameter, got=f"{key!r}, which may be two", allowed="name one column")
            if there[0] in found.values():
                raise refuse(parameter, got=f"{key!r} again", allowed="name each column once")
            found[key] = there[0]
        return found


def fold(name: Any) -> str:
    """Return a name in lower case, for comparisons. DuckDB ignores the case of ASCII letters only."""
    return str(name).translate(_LOWER)


def quoted(name: str) -> str:
    """Return a quoted identifier, so that all of its characters are literal."""
    if "\0" in name:
        raise refuse("a name", allowed="not have a zero character")
    return '"' + name.replace('"', '""') + '"'
