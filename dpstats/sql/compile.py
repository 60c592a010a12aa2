"""Compilation of a relation to SQL for DuckDB, with quoted names, bound literals and exact integer results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dpstats.sensitivity.relations import Column, Distinct, Join, Relation, Select, Table
from dpstats.sql.catalogue import BaseTable, quoted
from dpstats.sql.conditions import Condition, Literal, written
from dpstats.sql.query import Bin, Measure, Quantiles, Query, Several, Span
from dpstats.sql.values import Formula, write_value

_NAMES = """
abs coalesce count count_star current_database current_schema current_setting duckdb_columns duckdb_functions
duckdb_tables duckdb_views greatest isnan least lower max mod round_even sign sum trim
~~ like like_escape + - * / // % = <> != < <= > >= and or not between in cast try_cast
"""
FUNCTIONS = frozenset(_NAMES.split())
"""Functions and operators of the compiled SQL. A macro with one of these names would change the results."""


class Compiled:
    """Makes the statements of a query.

    Parameters
    ----------
    query : Query
    tables : mapping of str to BaseTable
        Tables by their original names.
    """

    def __init__(self, query: Query, tables: Mapping[str, BaseTable]) -> None:
        self._query = query
        self._tables = tables
        self._aliases = 0
        self._literals: list[Any] = []

    def cells(self) -> tuple[str, list[Any]]:
        """Return the statement for (cell, exact integers of the measure ...), with one row per nonempty cell."""
        self._literals = []
        inner = self._rows(units=False)
        sums = ", ".join(_sums(self._query.measure))
        return f"SELECT cell, {sums} FROM ({inner}) WHERE cell IS NOT NULL GROUP BY cell", self._literals

    def keys(self) -> tuple[str, list[Any]]:
        """Return the statement for (undeclared values ..., cell, rows, exact integers ...), for each key with rows."""
        self._literals = []
        found = [f"k{i}" for i, group in enumerate(self._query.groups) if group.discovered]
        places = ", ".join([*found, "cell"])
        sums = ", ".join(["count(*)", *_sums(self._query.measure)])
        where = " AND ".join(f"{name} IS NOT NULL" for name in [*found, "cell"])
        return (
            f"SELECT {places}, {sums} FROM ({self._rows(units=False)}) WHERE {where} GROUP BY {places}"
        ), self._literals

    def places(self) -> tuple[str, list[Any]]:
        """Return the statement for (cell, place of a value on the grid, number of rows)."""
        self._literals = []
        inner = self._rows(units=False)
        return (
            f"SELECT cell, v, count(*) FROM ({inner}) WHERE cell IS NOT NULL GROUP BY cell, v"
        ), self._literals

    def units_above(self, part: str, powers: Iterable[int]) -> tuple[str, list[Any]]:
        """Return the statement for the number of units with a total contribution above 2^j, for each power j.

        ``part`` is "all", or "positive" or "negative" for the sizes of values with one sign.
        """
        self._literals = []
        counts = ", ".join(f"count(*) FILTER (t > {1 << j})" for j in powers)
        return f"SELECT {counts} FROM ({_totals(self._of_units(part))})", self._literals

    def units_cut(self, part: str, powers: Iterable[int], finer: int = 1) -> tuple[str, list[Any]]:
        """Return the statement for (cell, exact integers ...), with contributions of units cut to a total of 2^j.

        The numbers of a unit are cut in proportion and rounded toward 0, in ``finer`` parts of one. The result for a
        unit depends on this unit only.
        """
        self._literals = []
        numbers = [f"w{i}" for i in range(self._query.measure.parts)]
        sums = ", ".join(
            f"sum(sign({w}) * ((abs({w}) * {finer << j}) // greatest(t, {1 << j})))"
            for j in powers
            for w in numbers
        )
        units = self._of_units(part)
        if not self._query.groups:
            # A unit has one cell.
            return (
                f"SELECT cell, {sums} FROM (SELECT *, part AS t FROM ({units})) GROUP BY cell",
                self._literals,
            )
        return (
            f"WITH w AS MATERIALIZED ({units}), u AS ({_totals('w')}) "
            f"SELECT cell, {sums} FROM w, u WHERE w.unit = u.unit GROUP BY cell"
        ), self._literals

    def _of_units(self, part: str) -> str:
        """Return (unit, cell, exact integers ..., contribution that is compared with the threshold)."""
        kind = self._query.measure.kind
        value = {"all": "v", "positive": "greatest(v, 0)", "negative": "greatest(-v, 0)"}[part]
        values = "*" if kind == "several" else f"unit, cell, {value} AS v"
        inner = f"SELECT {values} FROM ({self._rows(units=True)}) WHERE cell IS NOT NULL"
        sums = [f"CAST({text} AS HUGEINT) AS w{i}" for i, text in enumerate(_sums(self._query.measure))]
        # For a mean or several aggregates, units are cut by their number of rows. Otherwise they are cut by their
        # contribution.
        total = {"mean": "count(v)", "several": "count(*)"}.get(kind, "sum(v)")
        listed = f"unit, cell, {', '.join(sums)}, CAST({total} AS HUGEINT) AS part"
        return f"SELECT {listed} FROM ({inner}) GROUP BY unit, cell"

    # Rows: the unit, the number of the cell, the value.

    def _rows(self, units: bool) -> str:
        query = self._query
        names: dict[Column, str] = {}
        sources, where = self._from(query.relation, names)
        kept: list[str] = []
        if query.quantiles is not None:
            value, kept = self._place(query.quantiles, names)
        elif isinstance(query.measure, Several):
            value = self._shares(query.measure, names)
        else:
            value, kept = self._value(query.measure, names)
            value = f"{value} AS v"
        unit = "NULL"
        if units:
            unit = next(names[column] for column in query.unit if column in names)
            kept.append(f"{unit} IS NOT NULL")
        found = [f"{names[group.column]} AS k{i}" for i, group in enumerate(query.groups) if group.discovered]
        listed = ", ".join(
            [f"{unit} AS unit", *found, f"{self._cell(names)} AS cell", *([value] if value else [])]
        )
        return _selected(listed, sources, [*where, *kept])

    def _cell(self, names: Mapping[Column, str]) -> str:
        terms = ["0"]
        for group in self._query.groups:
            if group.discovered:
                continue
            cases = " ".join(
                f"WHEN {self._inside(names[group.column], value)} THEN {i}"
                for i, value in enumerate(group.values)
            )
            terms = [f"({' + '.join(terms)}) * {len(group.values)}", f"(CASE {cases} END)"]
        return " + ".join(terms)

    def _inside(self, name: str, value: Literal | Bin | Span) -> str:
        if isinstance(value, Literal):
            return f"{name} = {self._bind(value)}"
        if isinstance(value, Span):
            return " OR ".join(
                f"({name} >= {self._bind(first)} AND {name} < {self._bind(end)})"
                for first, end in value.ranges
            )
        below = "<=" if value.last else "<"
        return f"{name} >= {self._bind(value.low)} AND {name} {below} {self._bind(value.high)}"

    def _place(self, quantiles: Quantiles, names: Mapping[Column, str]) -> tuple[str, list[str]]:
        """Return the place of a value on the grid, and the conditions for its row to count.

        Clipped first, so that no difference overflows.
        """
        grid = quantiles.grid
        number = f"CAST({self._name(quantiles.column, names)} AS DOUBLE)"
        low, high, factor, steps = (
            f"CAST({end!r} AS DOUBLE)"
            for end in (grid.low, grid.high, grid.steps / (grid.high - grid.low), float(grid.steps))
        )
        inside = f"least(greatest({number}, {low}), {high})"
        place = f"least(round_even(({inside} - {low}) * {factor}, 0), {steps})"
        return f"CAST({place} AS BIGINT) AS v", [f"{number} IS NOT NULL", f"NOT isnan({number})"]

    def _name(self, column: Column | Formula, names: Mapping[Column, str]) -> str:
        """Return the SQL of a column or of a computed value."""
        if isinstance(column, Formula):
            return write_value(column.value, lambda one: names[one], self._bind)
        return names[column]

    def _value(self, measure: Measure, names: Mapping[Column, str]) -> tuple[str, list[str]]:
        """Return a value in steps, and the condition for its row to count."""
        if measure.column is None:
            return "1", []
        assert measure.type is not None
        name = self._name(measure.column, names)
        kept = [f"{name} IS NOT NULL"]
        if measure.kind in ("count", "distinct"):
            return "1", kept
        if isinstance(measure.column, Formula):
            number = name
        elif measure.type.kind == "whole":
            number = f"CAST({name} AS HUGEINT)"
            if measure.spacing != 1:
                number = f"CAST({name} AS DOUBLE)"
        else:
            number = f"CAST({name} AS DOUBLE)"
            kept.append(f"NOT isnan({number})")
        if measure.spacing != 1 or measure.type.kind == "real" or number is name:
            # Clip to the bounds before the conversion, so that it cannot overflow, and again as an integer.
            low, high = (f"CAST({end * measure.spacing!r} AS DOUBLE)" for end in (measure.low, measure.high))
            inside = f"least(greatest({number}, {low}), {high})"
            number = f"CAST(round_even({inside} / CAST({measure.spacing!r} AS DOUBLE), 0) AS BIGINT)"
        cut = f"CAST(least(greatest({number}, {measure.low}), {measure.high}) AS BIGINT)"
        return (f"({cut} - ({measure.middle}))" if measure.kind == "mean" else cut), kept

    def _shares(self, several: Several, names: Mapping[Column, str]) -> str:
        """Return a number for every column: the part of the upper bound, or the whole; NULL if missing."""
        listed = []
        for place, column in enumerate(several.columns):
            value, kept = self._value(column, names)
            share = f"{several.whole(place)}"
            if column.kind == "mean":
                share = f"{several.times(place)} * ({value} + {column.middle - column.low})"
            elif column.kind == "variance":
                share = f"({value} - ({column.low}))"
            listed.append(f"CASE WHEN {' AND '.join(kept) or 'TRUE'} THEN {share} END AS v{place}")
        return ", ".join(listed)

    # FROM clauses

    def _from(self, relation: Relation, names: dict[Column, str]) -> tuple[list[str], list[str]]:
        """Return the FROM items and the conditions, and fill ``names`` with the SQL of the columns."""
        if isinstance(relation, Table):
            table, alias = self._tables[relation.name], self._alias()
            for own, kind in table.columns.values():
                name = f"{alias}.{quoted(own)}"
                names[Column(relation.instance, own)] = f"CAST({name} AS VARCHAR)" if kind.cast else name
            return [f"{table.source} AS {alias}"], []
        if isinstance(relation, Join) and relation.outer:
            return self._left_join(relation, names)
        if isinstance(relation, Join):
            left, conditions = self._from(relation.left, names)
            right, more = self._from(relation.right, names)
            # Conditions of inner joins can be in the WHERE clause.
            return [*left, *right], [
                *conditions,
                *more,
                *(f"{names[a]} = {names[b]}" for a, b in relation.on),
            ]
        if isinstance(relation, Select):
            source, where = self._from(relation.of, names)
            return source, [*where, self._condition(relation.condition, names)]
        if isinstance(relation, Distinct):
            inner: dict[Column, str] = {}
            source, where = self._from(relation.of, inner)
            alias = self._alias()
            listed = ", ".join(f"{inner[column]} AS c{i}" for i, column in enumerate(relation.columns))
            names.update({column: f"{alias}.c{i}" for i, column in enumerate(relation.columns)})
            return [f"({_selected(f'DISTINCT {listed}', source, where)}) AS {alias}"], []
        return self._from(relation.of, names)

    def _left_join(self, join: Join, names: dict[Column, str]) -> tuple[list[str], list[str]]:
        """Return the FROM item of a left join. Conditions on its left side can follow, those on the right cannot."""
        left, where = self._from(join.left, names)
        inner: dict[Column, str] = {}
        right, conditions = self._from(join.right, inner)
        alias = self._alias()
        listed = ", ".join(f"{name} AS c{i}" for i, name in enumerate(inner.values()))
        names.update({column: f"{alias}.c{i}" for i, column in enumerate(inner)})
        on = " AND ".join(f"{names[a]} = {names[b]}" for a, b in join.on)
        source = f"({_selected(listed, right, conditions)}) AS {alias}"
        return [f"({' CROSS JOIN '.join(left)} LEFT JOIN {source} ON {on})"], where

    def _condition(self, condition: Condition, names: Mapping[Column, str]) -> str:
        return f"({written(condition, lambda column: names[column], self._bind)})"

    def _bind(self, literal: Literal) -> str:
        self._literals.append(literal.value)
        return f"CAST(${len(self._literals)} AS {literal.kind})"

    def _alias(self) -> str:
        self._aliases += 1
        return f"t{self._aliases}"


def _totals(units: str) -> str:
    inner = units if units.isidentifier() else f"({units})"
    return f"SELECT unit, CAST(sum(part) AS HUGEINT) AS t FROM {inner} GROUP BY unit"


def _selected(listed: str, sources: list[str], where: list[str]) -> str:
    text = f"SELECT {listed} FROM {', '.join(sources)}"
    return f"{text} WHERE {' AND '.join(where)}" if where else text


def _sums(measure: Measure | Several) -> list[str]:
    """Return the exact integers of a cell, from its values v."""
    if isinstance(measure, Several):
        return [text for place in range(len(measure.columns)) for text in _share_sums(measure, place)]
    if measure.kind == "mean":
        # As a BIGINT the product would overflow at 2^32 rows.
        return [f"CAST({measure.reach} AS HUGEINT) * count(v)", "sum(v)"]
    return ["sum(v)"]


def _share_sums(several: Several, place: int) -> list[str]:
    """Return the exact integers that a column has in a cell."""
    v, whole = f"v{place}", f"CAST({several.whole(place)} AS HUGEINT)"
    kind = several.columns[place].kind
    found = [f"{2 if several.paired else 1} * sum({v})"]
    if kind == "mean":
        found = (
            [f"{whole} * count({v})", f"2 * sum({v}) - {whole} * count({v})"]
            if several.paired
            else [f"sum({v})", f"{whole} * count({v}) - sum({v})"]
        )
    elif kind == "variance":
        # The middle share is the rest of the whole, so that rounding cannot make a row add more.
        times, steps = several.times(place), several.whole(place) // several.times(place)
        first, last = (f"sum({times} * {k} * {k} // {steps})" for k in (v, f"({steps} - {v})"))
        found = [first, f"{whole} * count({v}) - {first} - {last}", last]
    return [*found, *([f"{whole} * (count(*) - count({v}))"] if place == several.missing else [])]
