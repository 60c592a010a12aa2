"""Whose a row of a result is, where units are protected.

Proof: docs/proofs/truncated-sums.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dpstats.errors import refuse
from dpstats.sensitivity.relations import Column, Distinct, Join, Relation, Select, Table, tables
from dpstats.sql.conditions import Compare, conjuncts
from dpstats.sql.scope import instances_of


def unit_columns(relation: Relation, units: Sequence[Column]) -> tuple[Column, ...]:
    """Return the columns that say whose every row is, or refuse a query whose rows could be several units'.

    ``units`` are the columns that say it of each private table.
    """
    if not units:
        raise refuse(
            "sql", allowed="be about a private table", remedy="One of public tables only needs no privacy."
        )
    partners = _check_left_joins(relation, units)
    units = [unit for unit in units if unit not in partners]
    classes = _Equal(relation)
    first, *others = units
    for other in others:
        if not classes.same(first, other):
            raise refuse(
                "where units are protected, a row of the result",
                allowed="one unit's",
                remedy=f"{first} = {other} must be among the equalities.",
            )
    same = {first, *classes.members(first)}
    for part in _parts(relation):
        private = {column.instance for column in units} & instances_of(part)
        if not (isinstance(part, Distinct) and private):
            continue
        # A column of a DISTINCT must be the unit's, or the key of a row that has the unit.
        own = [table for table in tables(part) if table.instance in private]
        known = [*units, *(Column(table.instance, key) for table in own for key in table.keys)]
        if not any(classes.same(column, each) for column in part.columns for each in known):
            raise refuse(
                "where units are protected, DISTINCT",
                allowed=f"have the unit's column ({first.name})",
                remedy="Otherwise a row may belong to several units.",
            )
    shown = tuple(sorted(same & set(_visible(relation, same))))
    if not shown:
        raise refuse(
            "where units are protected, the result",
            allowed=f"have the unit's column ({first.name})",
            remedy="Join the table that has it.",
        )
    return shown


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
            if left:
                unit_columns(part.left, left)
            unit_columns(part.right, right)
            # The equalities of a row and a partner.
            together = _Equal(replace(part, outer=False))
            own = set(left) - _check_left_joins(part.left, left)
            if not any(together.same(a, right[0]) for a in own):
                raise refuse(
                    "where units are protected, a LEFT JOIN",
                    allowed="be on the columns of the units",
                    remedy=f"{right[0]} must equal the unit of the left side.",
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


def _visible(relation: Relation, columns: set[Column]) -> Iterator[Column]:
    """Yield the given columns that are in the rows of a relation."""
    if isinstance(relation, Table):
        yield from (column for column in columns if column.instance == relation.instance)
    elif isinstance(relation, Join):
        yield from _visible(relation.left, columns)
        yield from _visible(relation.right, columns)
    elif isinstance(relation, Distinct):
        yield from (column for column in columns if column in relation.columns)
    else:
        yield from _visible(relation.of, columns)


class _Equal:
    """The columns that equal each other in all remaining rows.

    Instances of a table with equal keys are the same row, so that their other columns are equal, too.
    """

    def __init__(self, relation: Relation) -> None:
        self._parents: dict[Column, Column] = {}
        self._follow(relation)
        instances = list(tables(relation))
        pairs = [
            (a, b, key)
            for i, a in enumerate(instances)
            for b in instances[:i]
            if a.name == b.name
            for key in a.keys
        ]
        self._same_rows: set[frozenset[str]] = set()
        while True:
            known = len(self._same_rows)
            for a, b, key in pairs:
                if self.same(Column(a.instance, key), Column(b.instance, key)):
                    self._same_rows.add(frozenset((a.instance, b.instance)))
                    for column in {*self._parents, *self._parents.values()}:
                        if column.instance in (a.instance, b.instance):
                            self._merge(Column(a.instance, column.name), Column(b.instance, column.name))
            if len(self._same_rows) == known:
                break

    def same(self, a: Column, b: Column) -> bool:
        """Return whether two columns are equal."""
        if self._root(a) == self._root(b):
            return True
        twins = frozenset((a.instance, b.instance)) in self._same_rows and a.name == b.name
        if twins:
            self._merge(a, b)
        return twins

    def members(self, column: Column) -> set[Column]:
        """Return the known columns that equal one."""
        known = {*self._parents, *self._parents.values()}
        return {each for each in known if self.same(each, column)}

    def _root(self, column: Column) -> Column:
        while self._parents.get(column, column) != column:
            column = self._parents[column]
        return column

    def _merge(self, a: Column, b: Column) -> None:
        self._parents[self._root(a)] = self._root(b)

    def _follow(self, part: Relation) -> None:
        if isinstance(part, Join):
            self._follow(part.left)
            if part.outer:
                # Columns of the right side may be missing.
                return
            self._follow(part.right)
            for a, b in part.on:
                self._merge(a, b)
        elif isinstance(part, Select):
            self._follow(part.of)
            for condition in conjuncts(part.condition):
                if (
                    isinstance(condition, Compare)
                    and condition.operator == "="
                    and isinstance(condition.right, Column)
                ):
                    self._merge(condition.left, condition.right)
        elif not isinstance(part, Table):
            self._follow(part.of)
