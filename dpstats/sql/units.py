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


def _parts(relation: Relation) -> Iterator[Relation]:
    """Yield a relation and all that it is made of."""
    yield relation
    if isinstance(relation, Join):
        yield from _parts(relation.left)
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
