"""A parsed query: a relation, conditions and computed values of its rows, their measure, and their groups.

Proof: docs/proofs/several-aggregates.md, the section on computed values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

from dpstats.privacy.guarantee import Neighbors
from dpstats.quantiles.grid import Grid
from dpstats.sensitivity.elastic import Column, Relation
from dpstats.sql.catalogue import DUCKDB, ColumnType, Dialect

# Conditions on rows

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")


@dataclass(frozen=True)
class Literal:
    """A value of the query, and its type for binding: a key of `Dialect.types`.

    ``declared`` is the text that was declared as a value of a column of text, if the column is read as numbers.
    """

    value: Any
    kind: str
    declared: str | None = None

    @property
    def label(self) -> Any:
        """The value in the answer."""
        return self.value if self.declared is None else self.declared


@dataclass(frozen=True)
class Compare:
    """A column and a column or a literal."""

    operator: str
    left: Column
    right: Column | Literal


@dataclass(frozen=True)
class Between:
    """A column between two literals, both included."""

    column: Column
    low: Literal
    high: Literal


@dataclass(frozen=True)
class Among:
    """A column that equals one of some literals."""

    column: Column
    values: tuple[Literal, ...]


@dataclass(frozen=True)
class Like:
    """A text column and a pattern."""

    column: Column
    pattern: Literal


@dataclass(frozen=True)
class Missing:
    """A column that is NULL."""

    column: Column


@dataclass(frozen=True)
class Flag:
    """A column of truth values."""

    column: Column


@dataclass(frozen=True)
class Constant:
    """TRUE or FALSE."""

    value: bool


@dataclass(frozen=True)
class Not:
    """Negation, with the logic of SQL: the negation of an unknown value is unknown."""

    of: Condition


@dataclass(frozen=True)
class Holds:
    """A condition that is TRUE, or FALSE: an unknown one is neither."""

    of: Condition
    value: bool


@dataclass(frozen=True)
class All:
    """All of several."""

    of: tuple[Condition, ...]


@dataclass(frozen=True)
class Either:
    """One of several."""

    of: tuple[Condition, ...]


Condition = Compare | Between | Among | Like | Missing | Flag | Constant | Not | Holds | All | Either


def written(
    condition: Condition, name: Callable[[Column], str], bind: Callable[[Literal], str], dialect: Dialect = DUCKDB
) -> str:
    """Return a condition in the SQL of a dialect, columns and literals as they are named."""

    def inner(part: Condition) -> str:
        return written(part, name, bind, dialect)

    match condition:
        case Compare(operator, left, right):
            assert operator in COMPARISONS
            return f"{name(left)} {operator} {name(right) if isinstance(right, Column) else bind(right)}"
        case Between(column, low, high):
            return f"{name(column)} BETWEEN {bind(low)} AND {bind(high)}"
        case Among(column, values):
            return f"{name(column)} IN ({', '.join(bind(value) for value in values)})"
        case Like(column, pattern):
            return dialect.matches(name(column), bind(pattern))
        case Missing(column):
            return f"{name(column)} IS NULL"
        case Flag(column):
            return name(column)
        case Constant(value):
            return "TRUE" if value else "FALSE"
        case Not(of):
            return f"(NOT ({inner(of)}))"
        case Holds(of, value):
            return f"(({inner(of)}) IS {'TRUE' if value else 'FALSE'})"
        case All(parts):
            return "(" + " AND ".join(f"({inner(part)})" for part in parts) + ")"
        case Either(parts):
            return "(" + " OR ".join(f"({inner(part)})" for part in parts) + ")"


def conjuncts(condition: Condition) -> list[Condition]:
    """Return the conditions that must all hold."""
    return [one for part in condition.of for one in conjuncts(part)] if isinstance(condition, All) else [condition]


def require_columns(condition: Condition) -> tuple[Column, ...]:
    """Return columns without which a condition does not hold: those that must have a value."""
    match condition:
        case Compare(_, left, right):
            return (left, right) if isinstance(right, Column) else (left,)
        case Between(column) | Among(column) | Like(column) | Flag(column) | Not(Missing(column)):
            return (column,)
    return ()


def list_columns(condition: Condition) -> list[Column]:
    """Return the columns that a condition reads."""
    found: list[Column] = []

    def note(column: Column) -> str:
        found.append(column)
        return ""

    written(condition, note, lambda literal: "")
    return found


# Values that are computed from columns

# Everything is computed in double precision, from entries that are cut to their bounds first. So a value is finite, and
# a function of its row alone.

Bounds = tuple[float, float]
_LARGEST_EXACT = 2.0**53


@dataclass(frozen=True)
class Entry:
    """An entry of a column with declared bounds, to which it is cut."""

    column: Column
    type: ColumnType
    low: float
    high: float


@dataclass(frozen=True)
class Number:
    """A number of the query."""

    value: float


@dataclass(frozen=True)
class Arithmetic:
    """A sum, a difference or a product of two values."""

    sign: str
    left: Value
    right: Value


@dataclass(frozen=True)
class Case:
    """The value of the first condition that holds, or another value, or none."""

    cases: tuple[tuple[Condition, Value | None], ...]
    otherwise: Value | None

    @property
    def values(self) -> list[Value]:
        """All values that are not NULL."""
        return [value for value in (*(value for _, value in self.cases), self.otherwise) if value is not None]


Value = Entry | Number | Arithmetic | Case


@dataclass(frozen=True)
class Formula:
    """A value with a name, in place of a column."""

    value: Value
    name: str

    @property
    def type(self) -> ColumnType:
        """The type: of whole numbers if all steps of the computation are exact."""
        return ColumnType("DOUBLE", "whole" if is_whole(self.value) else "real", is_required(self.value))


def bound(value: Value) -> Bounds:
    """Return bounds of a value, by interval arithmetic."""
    if isinstance(value, Entry):
        return value.low, value.high
    if isinstance(value, Number):
        return value.value, value.value
    if isinstance(value, Case):
        lows, highs = zip(*map(bound, value.values), strict=True)
        return min(lows), max(highs)
    (a, b), (c, d) = bound(value.left), bound(value.right)
    if value.sign == "+":
        return a + c, b + d
    if value.sign == "-":
        return a - d, b - c
    ends = [x * y for x in (a, b) for y in (c, d)]
    return min(ends), max(ends)


def list_parts(value: Value) -> list[Value]:
    """Return the values that a value is computed from."""
    return [value.left, value.right] if isinstance(value, Arithmetic) else getattr(value, "values", [])


def is_whole(value: Value) -> bool:
    """Return whether a value is a whole number, computed exactly."""
    if isinstance(value, Entry) and value.type.kind != "whole":
        return False
    exact = all(end == math.floor(end) and abs(end) <= _LARGEST_EXACT for end in bound(value))
    return exact and all(map(is_whole, list_parts(value)))


def is_required(value: Value | None) -> bool:
    """Return whether a value is never missing."""
    if isinstance(value, Arithmetic):
        return is_required(value.left) and is_required(value.right)
    if isinstance(value, Case):
        return all(map(is_required, [*(each for _, each in value.cases), value.otherwise]))
    return isinstance(value, Number) or (isinstance(value, Entry) and value.type.required)


def list_entries(value: Value) -> Iterator[Entry]:
    """Yield the entries that a value is computed from."""
    if isinstance(value, Entry):
        yield value
    for part in list_parts(value):
        yield from list_entries(part)


def write_value(
    value: Value | None, name: Callable[[Column], str], bind: Callable[[Literal], str], dialect: Dialect
) -> str:
    """Return a value in the SQL of a dialect, as DOUBLE. It is NULL if an entry is missing."""

    def inner(part: Value | None) -> str:
        return write_value(part, name, bind, dialect)

    match value:
        case None:
            return dialect.cast("NULL", "DOUBLE")
        case Number(number):
            return bind(Literal(number, "DOUBLE"))
        case Entry(column, _, low, high):
            entry = dialect.cast(name(column), "DOUBLE")
            ends = [bind(Literal(float(end), "DOUBLE")) for end in (low, high)]
            # greatest() and least() ignore NULL, so a missing entry is left out first.
            return f"(CASE WHEN {entry} IS NOT NULL THEN {dialect.clip(entry, *ends)} END)"
        case Arithmetic("*", left, right):
            largest = max(map(abs, bound(left))), max(map(abs, bound(right)))
            return dialect.product(inner(left), inner(right), largest)
        case Arithmetic(sign, left, right):
            return f"({inner(left)} {sign} {inner(right)})"
        case Case(cases, otherwise):
            listed = " ".join(
                f"WHEN {written(condition, name, bind, dialect)} THEN {inner(each)}" for condition, each in cases
            )
            return f"(CASE {listed} ELSE {inner(otherwise)} END)"


# Queries

FINEST = 32
"""Values have at most two to this power of steps."""
_SPARE = 4
"""Bits that wholes have beyond values: so wholes of different columns are nearly equal."""
_NUMBERS = {"count": 1, "mean": 2, "variance": 3}
"""How many numbers a column has in a cell."""
SPREADS = ("var_samp", "var_pop", "stddev_samp", "stddev_pop")
"""Aggregates of second moments."""


@dataclass(frozen=True)
class Bin:
    """Numbers from ``low`` up to ``high``. Only the last bin includes ``high``."""

    low: Literal
    high: Literal
    last: bool

    @property
    def label(self) -> str:
        """Label of the bin."""
        return f"[{self.low.value:g}, {self.high.value:g}{']' if self.last else ')'}"


@dataclass(frozen=True)
class Span:
    """Dates with one value of a part, such as a month. Each range includes its first date only."""

    label: Any
    ranges: tuple[tuple[Literal, Literal], ...]


@dataclass(frozen=True)
class Choice:
    """A label that CASE chooses by conditions: its place among the labels, or None for no label."""

    cases: tuple[tuple[Condition, int | None], ...]
    otherwise: int | None
    name: str = "case"


@dataclass(frozen=True)
class Group:
    """A column that rows are grouped by, and its declared values, bins or spans of dates. CASE may take its place.

    ``key`` is the SQL of the key, from the name of the column as {0}: text is read as a number if its declared values
    are numbers.
    ``part`` is the part of a date, for spans (`dpstats.sql.scope`). Values of a ``discovered`` group are not
    declared. ``ends`` are the first and the last of them that can be shown: a database has dates beyond Python's.
    """

    column: Column | Choice
    name: str
    values: tuple[Literal | Bin | Span, ...] = ()
    part: str = ""
    discovered: bool = False
    ends: tuple[Literal, Literal] | None = None
    key: str = "{0}"


@dataclass(frozen=True)
class Measure:
    """A measure of the rows of a cell, in integers.

    Attributes
    ----------
    kind : {"count", "distinct", "sum", "mean", "variance"} or one of `SPREADS`
        The last ones are columns and aggregates of `Several`.
    column : Column or Formula, optional
        None for COUNT(*).
    type : ColumnType, optional
        Type of the column.
    low, high : int
        Declared bounds of a value, in steps.
    spacing : float
        The length of a step, in the units of the column; a power of two.
    """

    kind: str
    column: Column | Formula | None = None
    type: ColumnType | None = None
    low: int = 0
    high: int = 1
    spacing: float = 1.0

    parts: ClassVar[int] = 1
    """Number of integers per cell."""

    @property
    def reach(self) -> int:
        """Largest size of a value."""
        return max(abs(self.low), abs(self.high))

    @property
    def rounded(self) -> bool:
        """Whether values are rounded to steps: whole numbers in steps of one are not."""
        whole = self.type is None or (self.type.kind == "whole" and self.spacing == 1)
        return self.kind in ("sum", "mean", "variance") and not whole

    def of_bits(self, bits: int) -> Measure:
        """Return the measure with at most 2^bits steps up to the largest value: longer ones, if it has more."""
        over = max((self.reach - 1).bit_length() - bits, 0)
        if not over or self.kind not in ("sum", "mean", "variance"):
            return self
        return replace(self, low=self.low >> over, high=-(-self.high >> over), spacing=self.spacing * 2.0**over)

    def moved(self, grouped: bool, added: bool = False) -> int:
        """Return the l1 sensitivity of all integers to replacing one row, or to adding or removing it.

        Proof: docs/proofs/elastic-sensitivity.md, the section on aggregates.
        """
        if added:
            return self.reach
        if grouped:
            return 2 * self.reach
        return max(self.high, 0) - min(self.low, 0)


class Aggregate(NamedTuple):
    """One of several aggregates: its kind, the place of its column (None for COUNT(*)), and its label."""

    kind: str
    column: int | None
    label: str


@dataclass(frozen=True)
class Several:
    """Several aggregates that one release answers: each row adds one whole to its cell, in parts.

    A value at k of R steps of its bounds adds k and R - k, and a value that is only counted adds R. With a variance it
    adds k^2/R, (R - k)^2/R and the rest of R. If missing values are counted, a row without a value adds R to a further
    number. All these numbers are at least 0 and add up to R, for each column.

    In a single cell the two shares are released as their sum and their difference. The proof is in
    docs/proofs/several-aggregates.md.

    Attributes
    ----------
    asked : tuple of Aggregate
    columns : tuple of Measure
        One for each column: a "variance" has three shares, a "mean" has two, and a "count" has one.
    missing : int, optional
        The place of the column whose missing values are counted.
    rows : int
        The place of the column that COUNT(*) is taken from.
    bits : int
        The whole R is at most 2^bits, and nearly as large.
    paired : bool
        Whether shares are released as their sum and their difference, and counts twice.
    """

    asked: tuple[Aggregate, ...]
    columns: tuple[Measure, ...]
    missing: int | None = None
    rows: int = 0
    bits: int = FINEST
    kind: str = "several"
    paired: bool = False

    @property
    def row_steps(self) -> int:
        """The steps that a row adds to the number of rows of its key, where keys are not declared."""
        return 1 << self.bits

    def times(self, place: int) -> int:
        """Return the factor that converts steps of a column into parts of its whole."""
        column = self.columns[place]
        return (1 << self.bits) // (1 if column.kind == "count" else column.high - column.low)

    def whole(self, place: int) -> int:
        """Return R, the sum of the parts of one row."""
        column = self.columns[place]
        return self.times(place) * (1 if column.kind == "count" else column.high - column.low)

    def shares(self, place: int) -> range:
        """Return the places of a column's numbers within a cell."""
        sizes = [_NUMBERS[column.kind] + (i == self.missing) for i, column in enumerate(self.columns)]
        first = sum(sizes[:place])
        return range(first, first + sizes[place])

    @property
    def parts(self) -> int:
        """Number of released numbers in a cell."""
        return self.shares(len(self.columns) - 1).stop if self.columns else 0

    def count_weights(self, place: int) -> tuple[float, ...]:
        """Return the weights of a column's numbers that give its count of values."""
        whole, kind = self.whole(place), self.columns[place].kind
        if self.paired:
            return (1 / (2 * whole),) if kind == "count" else (1 / whole, 0.0)
        return (1 / whole,) * _NUMBERS[kind]

    def sum_weights(self, place: int) -> tuple[float, ...]:
        """Return the weights that give the sum of values about the middle of the bounds, in half-widths."""
        one = 1 / self.whole(place)
        if self.paired:
            return 0.0, one
        return (one, 0.0, -one) if self.columns[place].kind == "variance" else (one, -one)

    def square_weights(self, place: int) -> tuple[float, ...]:
        """Return the weights that give the sum of squares about the middle, in squared half-widths."""
        one = 1 / self.whole(place)
        return one, -one, one

    @property
    def reach(self) -> int:
        """How much a row adds to one number at most."""
        return max(
            self.whole(place) * (2 if self.paired and column.kind == "count" else 1)
            for place, column in enumerate(self.columns)
        )

    @property
    def step_rows(self) -> float | tuple[float, ...]:
        """The rows that a step of a number stands for: of all numbers, or of each where they differ."""
        if not self.columns:
            return 1 / self.row_steps
        kinds = [column.kind for column in self.columns]
        if self.paired and len(set(kinds)) > 1:
            # A count without a sum has twice the steps.
            one = 1 / self.row_steps
            return tuple(each for kind in kinds for each in ((one / 2,) if kind == "count" else (one, one)))
        return 1 / self.reach

    def of_bits(self, bits: int) -> Several:
        """Return the same with shares of at most 2^bits, and with values of fewer bits than these."""
        columns = tuple(column.of_bits(bits - _SPARE) for column in self.columns)
        return replace(self, columns=columns, bits=bits)

    def moved(self, grouped: bool, added: bool = False) -> int:
        """Return the l1 sensitivity of all numbers together, if one row is replaced, or added or removed."""
        return (1 if added and not self.paired else 2) * sum(map(self.whole, range(len(self.columns))))

    def moved_squared(self, added: bool = False) -> int:
        """Return the square of the l2 sensitivity of all numbers together."""
        squares = sum(self.whole(place) ** 2 for place in range(len(self.columns)))
        return (2 if self.paired else 1) * (1 if added else 2) * squares


@dataclass(frozen=True)
class Quantiles:
    """Quantiles of the values of one column, which are chosen by their ranks among the rows.

    Attributes
    ----------
    q : tuple of float
        Distinct fractions, in the order of SELECT.
    column : Column or Formula
    grid : Grid
        The public points that are chosen among.
    labels : tuple of str
    """

    q: tuple[float, ...]
    column: Column | Formula
    grid: Grid
    labels: tuple[str, ...] = ()


class Having(NamedTuple):
    """A condition on a released aggregate, by its place among the aggregates."""

    place: int
    sign: str
    value: float


class Order(NamedTuple):
    """A column of the result to sort by: an aggregate or a group, by its place among them."""

    aggregate: bool
    place: int
    descending: bool


class Arrangement(NamedTuple):
    """Which released cells are shown, and in which order."""

    having: tuple[Having, ...] = ()
    order: tuple[Order, ...] = ()
    limit: int | None = None

    @property
    def chooses(self) -> bool:
        """Whether released values decide which cells are shown."""
        return bool(self.having) or (self.limit is not None and any(order.aggregate for order in self.order))


AS_DECLARED = Arrangement()
"""All cells, in the order in which their values are declared."""


@dataclass(frozen=True)
class Query:
    """A query over a catalogue.

    Attributes
    ----------
    relation : relation
        Relation with conditions from `dpstats.sql.query`.
    measure : Measure or Several
    groups : tuple of Group
    label : str
        Label of the measure.
    unit : tuple of Column
        Columns that identify the unit of a row of the relation, all with equal values. Empty if rows are protected.
    text : str
        The query as it was given, which is public.
    arrangement : Arrangement
        HAVING, ORDER BY and LIMIT.
    quantiles : Quantiles, optional
        Quantiles to release. The measure is then the number of rows that have a value.
    neighbors : Neighbors
    """

    relation: Relation
    measure: Measure | Several
    groups: tuple[Group, ...]
    label: str
    unit: tuple[Column, ...]
    text: str
    arrangement: Arrangement = AS_DECLARED
    quantiles: Quantiles | None = None
    neighbors: Neighbors = Neighbors.REPLACE_ONE

    @property
    def added(self) -> bool:
        """Whether neighboring databases differ by one row, or unit, that is added or removed."""
        return self.neighbors is Neighbors.ADD_OR_REMOVE_ONE

    @property
    def moved(self) -> int:
        """The l1 sensitivity of all integers to one row of the result."""
        return self.measure.moved(bool(self.groups), self.added)

    @property
    def discovers(self) -> bool:
        """Whether the values of a group are not declared."""
        return any(group.discovered for group in self.groups)

    @property
    def cells(self) -> int:
        """Number of cells of the groups with declared values."""
        return math.prod(len(group.values) for group in self.groups if not group.discovered)

    def cell(self, number: int) -> tuple[Any, ...]:
        """Return the values of a cell."""
        return self.key_values(self.key((), number))

    def key(self, found: Sequence[Any], number: int) -> tuple[Any, ...]:
        """Return the undeclared values of a key, and the places of its declared ones, in the order of the groups."""
        places: list[Any] = []
        left = list(found)
        for group in reversed(self.groups):
            if group.discovered:
                places.insert(0, left.pop())
                continue
            number, place = divmod(number, len(group.values))
            places.insert(0, place)
        return tuple(places)

    def key_values(self, key: Sequence[Any]) -> tuple[Any, ...]:
        """Return the values of a key."""
        return tuple(
            place if group.discovered else group.values[place].label
            for group, place in zip(self.groups, key, strict=True)
        )
