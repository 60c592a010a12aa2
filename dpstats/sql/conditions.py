"""Conditions on rows for WHERE and ON, as a tree. Compilation binds every literal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from dpstats.sensitivity.relations import Column
from dpstats.sql.dialect import DUCKDB, Dialect

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
    condition: Condition,
    name: Callable[[Column], str],
    bind: Callable[[Literal], str],
    dialect: Dialect = DUCKDB,
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


def conjuncts(condition: Condition) -> Iterator[Condition]:
    """Yield the conditions that must all hold."""
    if isinstance(condition, All):
        for part in condition.of:
            yield from conjuncts(part)
    else:
        yield condition


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
