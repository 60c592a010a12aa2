"""Elastic sensitivity: a bound on the change of counts with joins, from the largest frequencies of columns.

Proof: docs/proofs/elastic-sensitivity.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from dpstats.data.parameters import check_choice, check_integer, check_privacy_parameters, check_real
from dpstats.errors import refuse, show, show_names
from dpstats.sensitivity.smooth import smooth_sensitivity


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
                "instance", got=show_names(sorted(names[0] & names[1])), allowed="another on each side of a join"
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


class ElasticSensitivity:
    """Bound how far one row of one private table moves a count, at any distance from these data.

    Parameters
    ----------
    query : Count
        Count of a relation: see `dpstats.sensitivity.elastic`.
    frequencies : mapping of str, or of (str, str), to int
        Largest frequency of a value other than missing, for each column in a join. Keys are "table.column",
        or (table, column) if a name has a dot. Private if the table is.
    cap : int, default=1
        Largest number of rows of a table in which neighbors differ.

    Notes
    -----
    Johnson, Near and Song (2018), with instances of one table distinguished from different tables. Neighbors
    differ in one row of one private table. Numbers of this class are private: only `explain` may be shown.

    Examples
    --------
    >>> from dpstats.sensitivity import ElasticSensitivity
    >>> from dpstats.sensitivity.elastic import Count, Join, Table
    >>> query = Count(Join(Table("trips"), Table("drivers"), [("trips.driver", "drivers.id")]))
    >>> elastic = ElasticSensitivity(query, {"trips.driver": 3, "drivers.id": 2})
    >>> [elastic.at_distance(k) for k in range(3)]
    [3, 4, 5]
    >>> round(elastic.smooth(0.7, 1e-8), 6)
    21.22422
    >>> print(elastic.explain())
    count: max(mf(trips.driver, k), mf(drivers.id, k))
      join on trips.driver = drivers.id: max(mf(trips.driver, k), mf(drivers.id, k))
        trips, private: 1
        drivers, private: 1
    """

    def __init__(self, query: Count, frequencies: Mapping[Any, int], *, cap: int = 1) -> None:
        if not isinstance(query, Count):
            raise refuse("query", given=query, allowed="a Count of a relation")
        self._query = query
        self._cap = check_integer("cap", cap, at_least=1)
        self._instances = {table.instance: table for table in tables(query.of)}
        if not isinstance(frequencies, Mapping):
            raise refuse("frequencies", given=frequencies, allowed="a mapping {'table.column': frequency}")
        self._frequencies = {
            _table_and_column(name): check_integer("frequencies", value, at_least=0, of=frequencies)
            for name, value in frequencies.items()
        }
        if len(self._frequencies) < len(frequencies):
            raise refuse("frequencies", allowed="have each column once")
        self.at_distance(0)  # says which frequencies are missing

    @property
    def constant(self) -> bool:
        """Whether it is the same at every distance: no private table is joined by a column of a private one."""
        return ", k)" not in self.formula

    @property
    def formula(self) -> str:
        """How it follows from frequencies, in symbols: of public facts only."""
        return _times("2" if self._query.kind == "histogram" else "1", _symbols(self._query.of, self))

    def at_distance(self, k: int) -> int:
        """Return the largest change of the count by one row, over data that differ from these in k rows."""
        k = check_integer("k", k, at_least=0)
        return (2 if self._query.kind == "histogram" else 1) * self._moved(self._query.of, k)

    def smooth(self, epsilon: float, delta: float) -> float:
        """Return the smooth bound for Laplace noise of scale 2 S/epsilon on a number: beta = epsilon/(2 log(2/delta)).

        Parameters
        ----------
        epsilon, delta : float
            delta in (0, 1).
        """
        epsilon, delta = check_privacy_parameters(epsilon, delta)
        check_real("delta", delta, above=0)
        beta = epsilon / (2 * math.log(2 / delta))
        return smooth_sensitivity(self.at_distance, beta=beta, growth=len(self._instances))

    def explain(self) -> str:
        """Return the bound of every part in symbols; mf(t.c, k) is the frequency at distance k.

        No number is shown.
        """
        lines = [f"{self._query.kind}: {self.formula}"]
        _explain(self._query.of, self, lines, "  ")
        return "\n".join(lines)

    # The recursion.

    def _frequency(self, column: Column, relation: Relation, k: int) -> int:
        """Return the largest frequency of a value of a column, at distance k."""
        if isinstance(relation, Table):
            if column.name in relation.keys:
                return 1
            key = relation.name, column.name
            if key not in self._frequencies:
                raise refuse("frequencies", allowed=f"have {show('.'.join(key))}, which a join is on")
            found = self._frequencies[key]
            if relation.public:
                return found
            far = found + k * self._cap
            return far if relation.n_rows is None else min(far, relation.n_rows)
        if isinstance(relation, Join):
            if any(table.instance == column.instance for table in tables(relation.left)):
                return self._frequency(column, relation.left, k) * self._partners(relation, k)
            return self._frequency(column, relation.right, k) * self._keys(relation, 0, k)
        if isinstance(relation, Distinct) and relation.columns == (column,):
            return 1
        return self._frequency(column, relation.of, k)

    def _keys(self, join: Join, side: int, k: int) -> int:
        """Return the largest number of rows of one side of a join that match a row of the other."""
        return min(self._frequency(pair[side], (join.left, join.right)[side], k) for pair in join.on)

    def _partners(self, join: Join, k: int) -> int:
        """Return the largest number of rows of a join that a row of its left side is in."""
        return max(self._keys(join, 1, k), 1 if join.outer else 0)

    def _moved(self, relation: Relation, k: int) -> int:
        """Return the largest number of rows that appear, or disappear, if one row of a table is replaced."""
        if isinstance(relation, Table):
            return 0 if relation.public else self._cap
        if not isinstance(relation, Join):
            return self._moved(relation.of, k)
        left, right = self._moved(relation.left, k), self._moved(relation.right, k)
        # What a side that cannot move is multiplied by is not asked for, and need not be known.
        # Rows of the left side lose a partner, and others find one: both show in a left join.
        first = right and self._keys(relation, 0, k) * right * (2 if relation.outer else 1)
        second = left and self._partners(relation, k) * left
        return first + second + left * right if shared(relation) else max(first, second)


def _table_and_column(name: Any) -> tuple[str, str]:
    """Return the two parts of a key: one of dots could be split in several ways, and mean several columns."""
    parts = tuple(name.split(".")) if isinstance(name, str) else name
    if not isinstance(parts, tuple) or len(parts) != 2 or not all(isinstance(part, str) for part in parts):
        raise refuse(
            "frequencies", got="another key", allowed="by 'table.column', or by (table, column) where a name has a dot"
        )
    return parts[0], parts[1]


def shared(join: Join) -> bool:
    """Return whether one row of a private table can be on both sides of a join."""
    left, right = ({table.name for table in tables(side) if not table.public} for side in (join.left, join.right))
    return bool(left & right)


# The same in symbols.


def _symbol(column: Column, relation: Relation, elastic: ElasticSensitivity) -> str:
    if isinstance(relation, Table):
        if column.name in relation.keys:
            return "1"
        return f"mf({relation.name}.{column.name}{'' if relation.public else ', k'})"
    if isinstance(relation, Join):
        left = any(table.instance == column.instance for table in tables(relation.left))
        own = _symbol(column, relation.left if left else relation.right, elastic)
        return _times(own, _partner_symbols(relation, elastic) if left else _key_symbols(relation, 0, elastic))
    if isinstance(relation, Distinct) and relation.columns == (column,):
        return "1"
    return _symbol(column, relation.of, elastic)


def _key_symbols(join: Join, side: int, elastic: ElasticSensitivity) -> str:
    found = [_symbol(pair[side], (join.left, join.right)[side], elastic) for pair in join.on]
    if "1" in found:
        # A frequency of 0 or 1 is a key's.
        return "1"
    return found[0] if len(set(found)) == 1 else f"min({', '.join(found)})"


def _partner_symbols(join: Join, elastic: ElasticSensitivity) -> str:
    found = _key_symbols(join, 1, elastic)
    return f"max({found}, 1)" if join.outer and found != "1" else found


def _symbols(relation: Relation, elastic: ElasticSensitivity) -> str:
    if isinstance(relation, Table):
        return "0" if relation.public else "1"
    if not isinstance(relation, Join):
        return _symbols(relation.of, elastic)
    left, right = _symbols(relation.left, elastic), _symbols(relation.right, elastic)
    first = _times(_key_symbols(relation, 0, elastic), right)
    first = _times("2", first) if relation.outer else first
    second = _times(_partner_symbols(relation, elastic), left)
    terms = [term for term in (first, second) if term != "0"]
    if shared(relation):
        return " + ".join([*terms, _times(left, right)])
    return f"max({', '.join(terms)})" if len(terms) == 2 else (terms or ["0"])[0]


def _times(a: str, b: str) -> str:
    if "0" in (a, b):
        return "0"
    if "1" in (a, b):
        return b if a == "1" else a
    return " * ".join(f"({x})" if " + " in x else x for x in (a, b))


def _explain(relation: Relation, elastic: ElasticSensitivity, lines: list[str], indent: str) -> None:
    if isinstance(relation, Table):
        name = relation.name + (f" as {relation.instance}" if relation.instance != relation.name else "")
        kind = "public" if relation.public else "private"
        lines.append(f"{indent}{name}, {kind}: {_symbols(relation, elastic)}")
        return
    if isinstance(relation, Join):
        on = " and ".join(f"{a} = {b}" for a, b in relation.on)
        kind = "left join" if relation.outer else "join"
        kind = f"{kind} of a table with itself" if shared(relation) else kind
        lines.append(f"{indent}{kind} on {on}: {_symbols(relation, elastic)}")
        _explain(relation.left, elastic, lines, indent + "  ")
        _explain(relation.right, elastic, lines, indent + "  ")
        return
    lines.append(f"{indent}{type(relation).__name__.lower()}: {_symbols(relation, elastic)}")
    _explain(relation.of, elastic, lines, indent + "  ")
