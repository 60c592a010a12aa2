"""Whose a row of a result is, where units are protected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dpstats.errors import InvalidParameter
from dpstats.sensitivity.relations import Column, Distinct, Join, Relation, Select, Table
from dpstats.sql.conditions import Compare, conjuncts
from dpstats.sql.scope import instances_of


def unit_columns(relation: Relation, units: Sequence[Column]) -> tuple[Column, ...]:
    """Return the columns that say whose every row is, or refuse a query whose rows could be several units'.

    ``units`` are the columns that say it of each private table.
    """
    if not units:
        raise InvalidParameter(
            "sql must be about a private table: one of public tables only needs no privacy"
        )
    units = [unit for unit in units if unit not in _check_left_joins(relation, units)]
    classes = _equal(relation)
    first, *others = units
    for other in others:
        if classes.get(first, first) != classes.get(other, other):
            raise InvalidParameter(
                f"where units are protected, a row of the result must be one unit's: {first} = {other} must be "
                "among the equalities"
            )
    same = tuple({first, *(column for column in classes if classes[column] == classes.get(first, first))})
    for part in _parts(relation):
        private = {column.instance for column in units} & instances_of(part)
        if isinstance(part, Distinct) and private and not set(part.columns) & set(same):
            raise InvalidParameter(
                f"where units are protected, DISTINCT must have the unit's column ({first.name}): otherwise a "
                "row may belong to several units"
            )
    return tuple(sorted(same))


def _check_left_joins(relation: Relation, units: Sequence[Column]) -> set[Column]:
    """Return the columns of units on the right of left joins, or refuse one whose partners may be other units'.

    A row and its partners must be of one unit, and then so is the absence of a partner.
    """
    found: set[Column] = set()
    for part in _parts(relation):
        if not (isinstance(part, Join) and part.outer):
            continue
        left, right = (
            [unit for unit in units if unit.instance in instances_of(side)]
            for side in (part.left, part.right)
        )
        if right:
            of = set(unit_columns(part.left, left)) if left else set()
            partners = set(unit_columns(part.right, right))
            if not any(a in of and b in partners for a, b in part.on):
                raise InvalidParameter(
                    f"where units are protected, a LEFT JOIN must be on the columns of the units: {right[0]} must "
                    "equal the unit of the left side"
                )
        found |= set(right)
    return found


def _parts(relation: Relation) -> Iterator[Relation]:
    """Yield a relation and all that it is made of, but not the right sides of left joins."""
    yield relation
    if isinstance(relation, Join):
        yield from _parts(relation.left)
        if not relation.outer:
            yield from _parts(relation.right)
    elif not isinstance(relation, Table):
        yield from _parts(relation.of)


def _equal(relation: Relation) -> dict[Column, Column]:
    """Return a representative of every column that equals another column in all remaining rows."""
    found: dict[Column, Column] = {}

    def root(column: Column) -> Column:
        while found.get(column, column) != column:
            column = found[column]
        return column

    def follow(part: Relation) -> None:
        if isinstance(part, Join):
            follow(part.left)
            if part.outer:
                # Columns of the right side may be missing.
                return
            follow(part.right)
            for a, b in part.on:
                found[root(a)] = root(b)
        elif isinstance(part, Select):
            follow(part.of)
            for condition in conjuncts(part.condition):
                if (
                    isinstance(condition, Compare)
                    and condition.operator == "="
                    and isinstance(condition.right, Column)
                ):
                    found[root(condition.left)] = root(condition.right)
        elif not isinstance(part, Table):
            follow(part.of)

    follow(relation)
    return {column: root(column) for column in {*found, *found.values()}}
