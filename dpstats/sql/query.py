"""A parsed query: a relation, a measure of its rows, and the groups of the rows."""

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
    """Numbers from ``low`` up to ``high``. Only the last bin includes ``high``."""

    low: Literal
    high: Literal
    last: bool

    @property
    def value(self) -> str:
        """Label of the bin."""
        return f"[{self.low.value:g}, {self.high.value:g}{']' if self.last else ')'}"


@dataclass(frozen=True)
class Group:
    """A column that rows are grouped by, and its declared values or bins."""

    column: Column
    name: str
    values: tuple[Literal | Bin, ...]


@dataclass(frozen=True)
class Measure:
    """A measure of the rows of a cell, in integers.

    Attributes
    ----------
    kind : {"count", "distinct", "sum", "mean"}
    column : Column, optional
        None for COUNT(*).
    type : ColumnType, optional
        Type of the column.
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
        """Constant that is subtracted from every value of a mean."""
        return (self.low + self.high) // 2

    @property
    def reach(self) -> int:
        """Largest size of a value, after subtracting the middle for a mean."""
        if self.kind == "mean":
            return max(self.high - self.middle, self.middle - self.low)
        return max(abs(self.low), abs(self.high))

    @property
    def parts(self) -> int:
        """Number of integers per cell. A mean has two: the count times ``reach``, and the sum."""
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
        """Return the l1 sensitivity of all integers to replacing one row.

        Proof: docs/proofs/elastic-sensitivity.md, the section on counts.
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
        Relation with conditions from `dpstats.sql.conditions`.
    measure : Measure
    groups : tuple of Group
    label : str
        Label of the measure.
    unit : tuple of Column
        Columns that identify the unit of a row of the relation, all with equal values. Empty if rows are protected.
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
        """Number of cells of the groups."""
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
