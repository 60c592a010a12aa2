"""A small relational algebra: the parts of queries with joins that determine their sensitivity."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from dpstats.data.parameters import check_choice, check_integer
from dpstats.errors import refuse, show_names


class Column(NamedTuple):
    """A column of an instance of a table."""

    instance: str
    name: str

    def __str__(self) -> str:
        return f"{self.instance}.{self.name}"


@dataclass(frozen=True)
class Table:
    """A table, or one of several instances of it.

    Attributes
    ----------
    name : str
    instance : str, optional
        Name of the instance in this query: a different one for each time that a table is joined to itself.
        The default is the table's name.
    public : bool, default=False
        Whether no neighbor differs in it.
    n_rows : int, optional
        Its number of rows where that is public: no value is in more of them.
    keys : tuple of str, default=()
        Columns that have no value twice, in any neighboring database.
    """

    name: str
    instance: str = ""
    public: bool = False
    n_rows: int | None = None
    keys: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise refuse("name", given=self.name, allowed="a table's name")
        object.__setattr__(self, "instance", self.instance or self.name)
        if self.n_rows is not None:
            check_integer("n_rows", self.n_rows, at_least=0)


@dataclass(frozen=True)
class Select:
    """The rows that meet any condition."""

    of: Relation
    condition: Any = None


@dataclass(frozen=True)
class Project:
    """Some of the columns; rows that have become equal stay."""

    of: Relation
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Distinct:
    """The different rows of some of the columns."""

    of: Relation
    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(column(given) for given in self.columns))


@dataclass(frozen=True)
class Join:
    """The pairs of rows whose columns are equal.

    Attributes
    ----------
    left, right : relation
        Instances of the same table must have different names.
    on : sequence of pairs
        A column of ``left`` and the column of ``right`` that it equals, each a `Column` or "instance.name".
        Several pairs must all be equal.
    outer : bool, default=False
        Whether rows of ``left`` without a partner stay, with no values of ``right``: a left join.
    """

    left: Relation
    right: Relation
    on: tuple[tuple[Column, Column], ...]
    outer: bool = False

    def __post_init__(self) -> None:
        on = tuple((column(a), column(b)) for a, b in self.on)
        object.__setattr__(self, "on", on)
        names = [{table.instance for table in tables(side)} for side in (self.left, self.right)]
        if names[0] & names[1]:
            raise refuse(
                "instance",
                got=show_names(sorted(names[0] & names[1])),
                allowed="another on each side of a join",
            )
        if not on:
            raise refuse("on", got="none", allowed="at least one pair of columns")
        for a, b in on:
            if a.instance not in names[0] or b.instance not in names[1]:
                raise refuse("on", got="another", allowed="of a column of the left side and one of the right")


Relation = Table | Select | Project | Distinct | Join


@dataclass(frozen=True)
class Count:
    """How many rows a relation has: in all, or (l1) in each of declared categories.

    Attributes
    ----------
    of : relation
    kind : {"count", "histogram"}, default="count"
    """

    of: Relation
    kind: str = "count"

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, ["count", "histogram"])


def column(given: Column | str | Iterable[str]) -> Column:
    """Return a column that may be given as "instance.name"."""
    if isinstance(given, str):
        instance, dot, name = given.partition(".")
        if not (instance and dot and name):
            raise refuse("column", given=given, allowed="given as 'instance.name'")
        return Column(instance, name)
    return Column(*given)


def tables(relation: Relation) -> Iterator[Table]:
    """Yield the instances of tables that a relation is made of."""
    if isinstance(relation, Table):
        yield relation
    elif isinstance(relation, Join):
        yield from tables(relation.left)
        yield from tables(relation.right)
    else:
        yield from tables(relation.of)
