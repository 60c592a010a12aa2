"""A parsed query: a relation, a measure of its rows, and the groups of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from dpstats.privacy.guarantee import Neighbors
from dpstats.quantiles.grid import Grid
from dpstats.sensitivity.relations import Column, Relation
from dpstats.sql.catalogue import ColumnType
from dpstats.sql.conditions import Condition, Literal
from dpstats.sql.values import Formula

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
    ``part`` is the part of a date, for spans (`dpstats.sql.calendar`). Values of a ``discovered`` group are not
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

    @property
    def reach(self) -> int:
        """Largest size of a value."""
        return max(abs(self.low), abs(self.high))

    @property
    def parts(self) -> int:
        """Number of integers per cell."""
        return 1

    @property
    def rounded(self) -> bool:
        """Whether values are rounded to steps: whole numbers in steps of one are not."""
        whole = self.type is None or (self.type.kind == "whole" and self.spacing == 1)
        return self.kind in ("sum", "mean", "variance") and not whole

    def of_bits(self, bits: int) -> Measure:
        """Return the measure with at most 2^bits steps up to the largest value: longer ones, if it has more."""
        over = max((max(abs(self.low), abs(self.high)) - 1).bit_length() - bits, 0)
        if not over or self.kind not in ("sum", "mean", "variance"):
            return self
        return replace(
            self,
            low=self.low >> over,
            high=-(-self.high >> over),
            spacing=self.spacing * 2.0**over,
        )

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
        return (1 << self.bits) // self._range(place)

    def whole(self, place: int) -> int:
        """Return R, the sum of the parts of one row."""
        return self.times(place) * self._range(place)

    def _range(self, place: int) -> int:
        column = self.columns[place]
        return 1 if column.kind == "count" else column.high - column.low

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
        Relation with conditions from `dpstats.sql.conditions`.
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
        count = 1
        for group in self.groups:
            count *= 1 if group.discovered else len(group.values)
        return count

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
