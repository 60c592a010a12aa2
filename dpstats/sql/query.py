"""A query that was understood: a relation, what is counted of its rows, and the categories they fall in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from dpstats.sensitivity.relations import Column, Relation
from dpstats.sql.catalogue import ColumnType
from dpstats.sql.conditions import Literal

FINEST = 32
"""Values have at most two to this power of steps."""


@dataclass(frozen=True)
class Bin:
    """Numbers from ``low`` up to ``high``, which the last bin has too."""

    low: Literal
    high: Literal
    last: bool

    @property
    def value(self) -> str:
        """What it is called."""
        return f"[{self.low.value:g}, {self.high.value:g}{']' if self.last else ')'}"


@dataclass(frozen=True)
class Group:
    """A column that rows are grouped by, and its declared values or bins."""

    column: Column
    name: str
    values: tuple[Literal | Bin, ...]


@dataclass(frozen=True)
class Measure:
    """What is computed of the rows of a cell, in whole numbers.

    Attributes
    ----------
    kind : {"count", "distinct", "sum", "mean"}
    column : Column, optional
        None for COUNT(*).
    type : ColumnType, optional
        Of the column.
    low, high : int
        Declared bounds of a value, in steps.
    spacing : float
        The length of a step, in the units of the column; a power of two.
    """

    kind: str
    column: Column | None = None
    type: ColumnType | None = None
    low: int = 0
    high: int = 1
    spacing: float = 1.0

    @property
    def middle(self) -> int:
        """What is taken off every value of a mean."""
        return (self.low + self.high) // 2

    @property
    def reach(self) -> int:
        """How large a value is at most: less its middle, of a mean."""
        if self.kind == "mean":
            return max(self.high - self.middle, self.middle - self.low)
        return max(abs(self.low), abs(self.high))

    @property
    def parts(self) -> int:
        """How many numbers there are of a cell: of a mean the count, ``reach`` times, and the sum."""
        return 2 if self.kind == "mean" else 1

    @property
    def rounded(self) -> bool:
        """Whether values are rounded to steps: whole numbers in steps of one are not."""
        whole = self.type is None or (self.type.kind == "whole" and self.spacing == 1)
        return self.kind in ("sum", "mean") and not whole

    def of_bits(self, bits: int) -> Measure:
        """Return the measure with at most 2^bits steps up to the largest value: longer ones, if it has more."""
        over = max((max(abs(self.low), abs(self.high)) - 1).bit_length() - bits, 0)
        if not over or self.kind not in ("sum", "mean"):
            return self
        return replace(
            self,
            low=self.low >> over,
            high=-(-self.high >> over),
            spacing=self.spacing * 2.0**over,
        )

    def moved(self, grouped: bool) -> int:
        """Return how far all numbers together (l1) move at most where one row goes and another comes.

        docs/proofs/elastic-sensitivity.md, "What is counted".
        """
        if self.kind == "mean":
            return (4 if grouped else 2) * self.reach
        if grouped:
            return 2 * self.reach
        return max(self.high, 0) - min(self.low, 0)


@dataclass(frozen=True)
class Query:
    """A query over a catalogue.

    Attributes
    ----------
    relation : relation
        Its conditions are those of `dpstats.sql.conditions`.
    measure : Measure
    groups : tuple of Group
    label : str
        What the measure is called.
    unit : tuple of Column
        Columns that say whose a row of the relation is, all equal, where units are protected; else none.
    text : str
        The query as it was given, which is public.
    """

    relation: Relation
    measure: Measure
    groups: tuple[Group, ...]
    label: str
    unit: tuple[Column, ...]
    text: str

    @property
    def cells(self) -> int:
        """How many cells the groups have."""
        count = 1
        for group in self.groups:
            count *= len(group.values)
        return count

    def cell(self, number: int) -> tuple[Any, ...]:
        """Return the values of a cell."""
        found: list[Any] = []
        for group in reversed(self.groups):
            number, place = divmod(number, len(group.values))
            found.insert(0, group.values[place].value)
        return tuple(found)
