"""Values of a row that are computed from its columns: arithmetic and CASE, with bounds from declared ones.

Everything is computed in double precision, from entries that are cut to their bounds first. So a value is finite, and
a function of its row alone. Proof: docs/proofs/several-aggregates.md, the section on computed values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dpstats.sensitivity.relations import Column
from dpstats.sql.catalogue import ColumnType
from dpstats.sql.conditions import Condition, Literal, written
from dpstats.sql.dialect import Dialect

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


def size(value: Value) -> float:
    """Return the largest size of a value."""
    return max(map(abs, bound(value)))


def is_whole(value: Value) -> bool:
    """Return whether a value is a whole number, computed exactly."""
    if isinstance(value, Arithmetic):
        parts = [value.left, value.right]
    elif isinstance(value, Case):
        parts = value.values
    else:
        parts = []
        if isinstance(value, Entry) and value.type.kind != "whole":
            return False
    ends = bound(value)
    exact = all(end == math.floor(end) and abs(end) <= _LARGEST_EXACT for end in ends)
    return exact and all(map(is_whole, parts))


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
    elif isinstance(value, Arithmetic):
        yield from list_entries(value.left)
        yield from list_entries(value.right)
    elif isinstance(value, Case):
        for each in value.values:
            yield from list_entries(each)


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
            return dialect.product(inner(left), inner(right), (size(left), size(right)))
        case Arithmetic(sign, left, right):
            return f"({inner(left)} {sign} {inner(right)})"
        case Case(cases, otherwise):
            listed = " ".join(
                f"WHEN {written(condition, name, bind, dialect)} THEN {inner(each)}"
                for condition, each in cases
            )
            return f"(CASE {listed} ELSE {inner(otherwise)} END)"
