"""Compilation of a relation to SQL, with quoted names, bound literals and exact integers, and the data that run it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpstats.data.values import as_int64
from dpstats.errors import InvalidData, InvalidParameter, refuse, refuse_data
from dpstats.sensitivity.elastic import Column, Distinct, Join, Relation, Select, Table
from dpstats.sql.catalogue import BaseTable, Dialect, Probe, fold, quoted
from dpstats.sql.engines import DuckDBEngine, PostgresEngine, is_postgres
from dpstats.sql.query import (
    All,
    Bin,
    Choice,
    Compare,
    Condition,
    Either,
    Formula,
    Group,
    Literal,
    Measure,
    Quantiles,
    Query,
    Several,
    Span,
    conjuncts,
    list_columns,
    require_columns,
    write_value,
    written,
)
from dpstats.sql.scope import instances_of

_FEW_LEVELS = 8
"""Up to this number of declared values, comparing every row with them is faster than grouping rows by their values."""
_FEW_PLACES = 2**16
"""Up to this number of places, rows are counted by their place."""
_LARGEST = 2**62
"""Size of an integer that 64 bits hold, with room for a sum of two."""


class Compiled:
    """Makes the statements of a query.

    Parameters
    ----------
    query : Query
    tables : mapping of str to BaseTable
        Tables by their original names.
    dialect : Dialect
    """

    def __init__(self, query: Query, tables: Mapping[str, BaseTable], dialect: Dialect) -> None:
        self._dialect = dialect
        self._query = query
        self._tables = tables
        self._aliases = 0
        self._stored: dict[str, str] = {}
        """Columns of doubles, by the SQL of their entries. Entries that are not finite are missing."""
        self._literals: list[Any] = []

    def cells(self) -> tuple[str, list[Any]]:
        """Return the statement for (cell, exact integers of the measure ...); other rows have the cell NULL."""
        self._literals = []
        return self._sum_by_cell(self._sums()), self._literals

    def keys(self) -> tuple[str, list[Any]]:
        """Return the statement for (undeclared values ..., cell, rows, exact integers ...), for each key with rows.

        For quantiles it is (undeclared values ..., cell, place of a value on the grid, rows).
        """
        self._literals = []
        ranked = self._query.quantiles is not None
        found = [f"k{i}" for i, group in enumerate(self._query.groups) if group.discovered]
        places = ", ".join([*found, "cell", *(["v"] if ranked else [])])
        sums = ", ".join(["count(*)", *([] if ranked else self._sums())])
        ends = {f"k{i}": group.ends for i, group in enumerate(self._query.groups) if group.ends}
        shown = [f"{name} BETWEEN {self._bind(low)} AND {self._bind(high)}" for name, (low, high) in ends.items()]
        where = " AND ".join([*(f"{name} IS NOT NULL" for name in [*found, "cell"]), *shown])
        return (
            f"SELECT {places}, {sums} FROM ({self._rows(units=False)}) AS q WHERE {where} GROUP BY {places}"
        ), self._literals

    def places(self) -> tuple[str, list[Any]]:
        """Return the statement for (cell, place of a value on the grid, number of rows), or (cell, place) of each row.

        Rows are not counted where this takes longer than to sort them: within groups, on a grid of many places.
        """
        self._literals = []
        assert self._query.quantiles is not None
        if self._query.quantiles.grid.steps <= _FEW_PLACES or not self._codes_values:
            return self._sum_by_cell(["count(*)"], "v"), self._literals
        own = [f"g{i}" for i in range(len(self._query.groups))]
        found = f"SELECT DISTINCT {', '.join(own)} FROM ({self._rows(units=False, raw=True)}) AS q"
        cells = f"SELECT {self._cell(own)} AS cell, p.* FROM ({found}) AS p"
        equal = " AND ".join(f"q.{name} = k.{name}" for name in own)
        return (
            f"WITH k AS MATERIALIZED ({cells}) SELECT cell, v FROM ({self._rows(units=False, raw=True)}) AS q "
            f"JOIN k ON {equal} WHERE cell IS NOT NULL"
        ), self._literals

    def unit_places(self, limits: Iterable[tuple[int, int]]) -> tuple[str, list[Any]]:
        """Return the statement for (cell, place of a value on the grid, number of rows for each limit).

        A limit is (t, k): of a unit with n rows, a fraction k / max(n, t) counts. These rows are evenly spaced among
        the unit's own, in the order of their cells and places, and start at a hash of the unit.
        """
        self._literals = []
        divide, cast = self._dialect.divide, self._dialect.cast
        own = self._dialect.hash.format("unit")
        inner = (
            f"SELECT unit, cell, v, count(*) AS c, min({own}) AS h FROM ({self._rows(units=True)}) AS q "
            "WHERE cell IS NOT NULL GROUP BY unit, cell, v"
        )
        running = "sum(c) OVER (PARTITION BY unit ORDER BY cell, v ROWS UNBOUNDED PRECEDING)"
        ranks = (
            f"SELECT cell, v, {cast('c', 'WIDE')} AS c, {cast(running, 'WIDE')} AS r, "
            f"{cast('sum(c) OVER (PARTITION BY unit)', 'WIDE')} AS n, "
            f"{cast('min(h) OVER (PARTITION BY unit)', 'WIDE')} AS h FROM ({inner}) AS q"
        )
        sums = []
        for i, (t, k) in enumerate(limits):
            of = f"greatest(n, {t})"
            upto, before = (divide(f"{r} * {k} + mod(h, {of})", of) for r in ("r", "(r - c)"))
            sums.append(f"{cast(f'sum({upto} - {before})', 'BIGINT')} AS n{i}")
        return f"SELECT cell, v, {', '.join(sums)} FROM ({ranks}) AS q GROUP BY cell, v", self._literals

    def units_above(self, part: str, powers: Iterable[int]) -> tuple[str, list[Any]]:
        """Return the statement for the number of units with a total contribution above 2^j, for each power j.

        ``part`` is "all", or "positive" or "negative" for the sizes of values with one sign.
        """
        self._literals = []
        counts = ", ".join(f"count(*) FILTER (WHERE t > {1 << j})" for j in powers)
        return f"SELECT {counts} FROM ({self._totals(f'({self._of_units(part)}) AS w')}) AS q", self._literals

    def units_cut(self, part: str, powers: Sequence[int], finer: int = 1) -> tuple[str, list[Any]]:
        """Return the statement for (cell, units above ..., exact integers ...), with units cut to a total of 2^j.

        The numbers of a unit are cut in proportion and rounded toward 0, in ``finer`` parts of one. The result for a
        unit depends on this unit only. Each unit is counted in one of its cells, if its total is above 2^j.
        """
        self._literals = []
        dialect, measure, last = self._dialect, self._query.measure, powers[-1]
        numbers, whole = range(measure.parts), finer << last
        most = whole * (measure.reach if isinstance(measure, Several) else 1)
        listed = [
            "cell",
            f"{self._clip_integer('t', 2 << last)} AS t",
            f"CASE WHEN cell = first THEN {self._clip_integer('t', 2 << last)} END AS once",
            *(f"{self._clip_integer(f'{finer} * w{i}', most)} AS w{i}" for i in numbers),
            *(f"{self._share(f'w{i}', whole, most)} AS s{i}" for i in numbers),
        ]
        # A quotient by t * 2^k is a quotient of the one by t, so that a number is divided by its total only once.
        sums = [f"count(*) FILTER (WHERE once > {1 << j})" for j in powers] + [
            f"sum(CASE WHEN t <= {1 << j} THEN w{i} ELSE {dialect.divide(f's{i}', 1 << last - j)} END)"
            for j in powers
            for i in numbers
        ]
        units, total = self._of_units(part), self._totals("w")
        # Without "materialized", each sum would compute its quotients again.
        return (
            f"WITH w AS MATERIALIZED ({units}), u AS ({total}), "
            f"q AS MATERIALIZED (SELECT {', '.join(listed)} FROM w JOIN u ON w.unit = u.unit) "
            f"SELECT cell, {', '.join(sums)} FROM q GROUP BY cell"
        ), self._literals

    def _share(self, number: str, whole: int, most: int) -> str:
        """Return the quotient of whole * number by the total t of a unit, whose size is at most ``most``."""
        dialect, of = self._dialect, "greatest(t, 1)"
        share = self._clip_integer(dialect.divide(f"{number} * {whole}", of), most)
        small = (_LARGEST - 1) // whole
        if not small or most >= _LARGEST:
            return share
        # Wide integers are divided slowly. The quotient is 0 for a larger total.
        quick = dialect.divide(f"{self._clip_integer(number, small)} * {whole}", self._clip_integer(of, _LARGEST))
        return f"CASE WHEN {number} BETWEEN {-small} AND {small} THEN {quick} ELSE {share} END"

    def _clip_integer(self, number: str, size: int) -> str:
        """Return an integer cut to a size, in a type that holds it."""
        kind = "BIGINT" if size <= _LARGEST else "WIDE"
        return self._dialect.cast(self._dialect.clip(number, -size, size), kind)

    def _of_units(self, part: str) -> str:
        """Return (unit, cell, exact integers ..., contribution that is compared with the threshold)."""
        measure = self._query.measure
        value = {"all": "v", "positive": "greatest(v, 0)", "negative": "greatest(-v, 0)"}[part]
        values = "*" if isinstance(measure, Several) else f"unit, cell, {value} AS v"
        inner = f"SELECT {values} FROM ({self._rows(units=True)}) AS q"
        cast, cell = self._dialect.cast, "cell" if self._query.groups else "0"
        sums = [f"{cast(f'coalesce({text}, 0)', 'WIDE')} AS w{i}" for i, text in enumerate(self._sums())]
        # Units are cut by their contribution. For several aggregates or quantiles, it is their number of rows that add
        # something.
        total = "count(*)" if self._query.quantiles is not None else "sum(v)"
        if isinstance(measure, Several):
            held = ", ".join(f"v{place}" for place in range(len(measure.columns)))
            total = f"count(coalesce({held}))" if measure.missing is None else "count(*)"
        listed = f"unit, {cell} AS cell, {', '.join(sums)}, {cast(total, 'WIDE')} AS part"
        if not self._query.groups:
            return f"SELECT {listed} FROM ({inner}) AS q GROUP BY unit"
        # A condition with a number of rows does not move to them, which would compare each with the levels again.
        inner = f"SELECT {listed}, count(*) AS n FROM ({inner}) AS q GROUP BY unit, cell"
        return f"SELECT * FROM ({inner}) AS q WHERE coalesce(cell, -n) >= 0"

    # Rows: the unit, the number of the cell, the value.

    def _sum_by_cell(self, sums: Sequence[str], *keys: str) -> str:
        """Return (cell, keys ..., sums n0 ... of the rows). The cell is NULL for the rows of no declared cell."""
        groups, keyed = self._query.groups, ", ".join(["cell", *keys])
        found = ", ".join(f"{each} AS n{i}" for i, each in enumerate(sums))
        if not groups and not keys:
            return f"SELECT 0 AS cell, {found} FROM ({self._rows(units=False)}) AS q"
        if not self._codes_values:
            rows = self._rows(units=False)
            return f"SELECT {keyed}, {found} FROM ({rows}) AS q WHERE cell IS NOT NULL GROUP BY {keyed}"
        # Sum by the values first, so that only distinct values are compared with the levels. A condition on the cell
        # would move to the rows, and compare each of them.
        own = [f"g{i}" for i in range(len(groups))]
        by = ", ".join([*own, *keys])
        inner = f"SELECT {by}, {found} FROM ({self._rows(units=False, raw=True)}) AS q GROUP BY {by}"
        inner = f"SELECT {self._cell(own)} AS cell, p.* FROM ({inner}) AS p"
        if keys:
            # A condition with a number of rows does not move to them.
            return f"SELECT {keyed}, n0 FROM ({inner}) AS q WHERE coalesce(cell, -n0) >= 0"
        added = ", ".join(f"sum(n{i}) AS n{i}" for i in range(len(sums)))
        return f"SELECT {keyed}, {added} FROM ({inner}) AS q GROUP BY {keyed}"

    @property
    def _codes_values(self) -> bool:
        """Whether distinct values are compared with the levels, and not each row."""
        groups = self._query.groups
        levels = [value for group in groups for value in group.values]
        plain = all(isinstance(value, Literal) for value in levels)
        return len(levels) > _FEW_LEVELS and plain and not any(isinstance(each.column, Choice) for each in groups)

    def _rows(self, units: bool, raw: bool = False) -> str:
        """Return the rows of the query; with ``raw``, with the values of their groups in place of their cell."""
        query = self._query
        names: dict[Column, str] = {}
        source, where = self._from(query.relation, names)
        kept: list[str] = []
        if query.quantiles is not None:
            value, kept = self._place(query.quantiles, names)
        elif isinstance(query.measure, Several):
            value, kept = self._shares(query.measure, names)
        else:
            value, kept = self._value(query.measure, names)
            value = f"{value} AS v"
        unit = "NULL"
        if units:
            unit = next(names[column] for column in query.unit if column in names)
            kept.append(f"{unit} IS NOT NULL")
        keys = [self._key(group, names) for group in query.groups]
        found = [f"{key} AS k{i}" for i, key in enumerate(keys) if query.groups[i].discovered]
        cell = [f"{key} AS g{i}" for i, key in enumerate(keys)] if raw else [f"{self._cell(keys)} AS cell"]
        listed = ", ".join([f"{unit} AS unit", *found, *cell, *([value] if value else [])])
        return _selected(listed, source, [*where, *kept])

    def _key(self, group: Group, names: Mapping[Column, str]) -> str:
        """Return the key of a group: its entry, or for a CASE the place of its label."""
        if isinstance(group.column, Column):
            return group.key.format(names[group.column])
        ends = [(f"WHEN {self._condition(each, names)} THEN", place) for each, place in group.column.cases]
        listed = [*ends, ("ELSE", group.column.otherwise)]
        words = [f"{when} {'NULL' if place is None else place}" for when, place in listed]
        return f"(CASE {' '.join(words)} END)"

    def _cell(self, keys: Sequence[str]) -> str:
        """Return the number of the cell of a row, from the keys of its groups."""
        terms = ["0"]
        for group, key in zip(self._query.groups, keys, strict=True):
            if group.discovered:
                continue
            place = key
            if isinstance(group.column, Column):
                cases = " ".join(f"WHEN {self._inside(key, value)} THEN {i}" for i, value in enumerate(group.values))
                place = f"(CASE {cases} END)"
            terms = [f"({' + '.join(terms)}) * {len(group.values)}", place]
        return " + ".join(terms)

    def _inside(self, name: str, value: Literal | Bin | Span) -> str:
        if isinstance(value, Literal):
            return f"{name} = {self._bind(value)}"
        if isinstance(value, Span):
            return " OR ".join(
                f"({name} >= {self._bind(first)} AND {name} < {self._bind(end)})" for first, end in value.ranges
            )
        below = "<=" if value.last else "<"
        return f"{name} >= {self._bind(value.low)} AND {name} {below} {self._bind(value.high)}"

    def _place(self, quantiles: Quantiles, names: Mapping[Column, str]) -> tuple[str, list[str]]:
        """Return the place of a value on the grid, and the conditions for its row to count.

        Clipped first, so that no difference overflows. A product is at most a part of a step beyond the last place, as
        there are at most 2^40: it is rounded to this place.
        """
        grid, dialect = quantiles.grid, self._dialect
        name, kept = self._write_entry(quantiles.column, names)
        low, high, factor = map(dialect.real, (grid.low, grid.high, grid.steps / (grid.high - grid.low)))
        clipped = self._clip(quantiles.column, dialect.cast(name, "DOUBLE"), low, high)
        inside = dialect.flush_small(f"({clipped} - {low})", grid.high - grid.low)
        return f"{dialect.round(f'{inside} * {factor}')} AS v", [kept]

    def _write_entry(self, column: Column | Formula, names: Mapping[Column, str]) -> tuple[str, str]:
        """Return the SQL of a column or of a computed value, and the condition that it is present."""
        if isinstance(column, Formula):
            name = write_value(column.value, lambda one: names[one], self._bind, self._dialect)
        else:
            name = names[column]
        stored = self._stored.get(name)
        return (name, f"{name} IS NOT NULL") if stored is None else (stored, self._dialect.is_finite(stored))

    def _clip(self, column: Column | Formula, number: str, low: Any, high: Any) -> str:
        """Return a number of a column cut to bounds. A computed value is long, and written once."""
        clip = self._dialect.clip if isinstance(column, Formula) else self._dialect.clip_short
        return clip(number, low, high)

    def _value(self, measure: Measure, names: Mapping[Column, str]) -> tuple[str, list[str]]:
        """Return a value in steps, and the condition for its row to count."""
        if measure.column is None:
            return "1", []
        assert measure.type is not None
        dialect = self._dialect
        name, held = self._write_entry(measure.column, names)
        kept = [held]
        if measure.kind in ("count", "distinct"):
            return "1", kept
        if isinstance(measure.column, Formula):
            number = name
        elif measure.type.kind == "whole":
            exact = "WIDE" if measure.type.name in ("HUGEINT", "UBIGINT") else "BIGINT"
            number = dialect.cast(name, exact if measure.spacing == 1 else "DOUBLE")
        else:
            number = dialect.cast(name, "DOUBLE")
        if measure.spacing != 1 or measure.type.kind == "real" or number is name:
            # Clip before the conversion, so that it cannot overflow. A step is a power of two: the bounds and the
            # quotient are exact, and rounding cannot pass a bound.
            ends = [end * measure.spacing for end in (measure.low, measure.high)]
            inside = self._clip(measure.column, number, *map(dialect.real, ends))
            return dialect.step(inside, max(map(abs, ends)), measure.spacing), kept
        return dialect.cast(self._clip(measure.column, number, measure.low, measure.high), "BIGINT"), kept

    def _shares(self, several: Several, names: Mapping[Column, str]) -> tuple[str, list[str]]:
        """Return a value in steps for every column, or NULL if missing, and the conditions for a row to count."""
        listed, conditions = [], []
        for column in several.columns:
            value, kept = self._value(column, names)
            # A variance has squares of steps from the lower bound. Other sums are converted into parts of R at the end.
            listed.append(f"({value} - ({column.low}))" if column.kind == "variance" else value)
            conditions.append(kept)
        if len(listed) == 1 and several.missing is None and not self._query.discovers:
            # Rows without a value add nothing.
            return f"{listed[0]} AS v0", conditions[0]
        return ", ".join(
            f"CASE WHEN {' AND '.join(kept) or 'TRUE'} THEN {share} END AS v{place}"
            for place, (share, kept) in enumerate(zip(listed, conditions, strict=True))
        ), []

    # FROM clauses

    def _from(
        self, relation: Relation, names: dict[Column, str], given: Sequence[Condition] = ()
    ) -> tuple[str, list[str]]:
        """Return the FROM item of a relation and the conditions that remain, and fill ``names`` with its columns.

        Conditions are written at the tables that they are about, and equalities at their joins, because an engine
        without optimizer rules does not move them. ``given`` are conditions on the rows of the relation.
        """
        if isinstance(relation, Table):
            table, alias = self._tables[relation.name], self._alias()
            for name, kind in table.columns.values():
                stored = f"{alias}.{quoted(name)}"
                names[Column(relation.instance, name)] = entry = kind.entry.format(stored)
                for double in (stored, self._dialect.cast(stored, "DOUBLE")):
                    if entry == self._dialect.only_finite(double):
                        self._stored[entry] = double
            return f"{table.source} AS {alias}", [self._condition(each, names) for each in given]
        if isinstance(relation, Join):
            return self._join(relation, names, given)
        if isinstance(relation, Select):
            return self._from(relation.of, names, [*conjuncts(relation.condition), *given])
        if isinstance(relation, Distinct):
            inner: dict[Column, str] = {}
            source, where = self._from(relation.of, inner)
            item, own = self._subquery("DISTINCT ", relation.columns, inner, source, where)
            names.update(own)
            return item, [self._condition(each, names) for each in given]
        return self._from(relation.of, names, given)

    def _join(self, join: Join, names: dict[Column, str], given: Sequence[Condition]) -> tuple[str, list[str]]:
        """Return the FROM item of a join, and the conditions on the right side of an outer join, which it leaves."""
        if not join.outer:
            pairs = [(Compare("=", a, b), Compare("=", b, a)) for a, b in join.on]
            given = [each for each in given if not any(each in pair for pair in pairs)]
        items, rest = [], list(given)
        for side in (join.left, join.right):
            own, inner = instances_of(side), dict[Column, str]()
            pushed = [each for each in rest if {one.instance for one in list_columns(each)} <= own]
            if join.outer and side is join.right:
                pushed = []
            rest = [each for each in rest if each not in pushed]
            item, where = self._from(side, inner, pushed)
            if where:
                item, inner = self._subquery("", inner, inner, item, where)
            items.append(item)
            names.update(inner)
        on = [f"{names[a]} = {names[b]}" for a, b in join.on]
        where = [self._condition(each, names) for each in rest]
        if not join.outer:
            on, where = [*on, *where], []
        return f"({items[0]} {'LEFT ' * join.outer}JOIN {items[1]} ON {' AND '.join(on)})", where

    def _subquery(
        self, word: str, columns: Iterable[Column], names: Mapping[Column, str], source: str, where: list[str]
    ) -> tuple[str, dict[Column, str]]:
        """Return a subquery as a FROM item, and the names of its columns."""
        alias, chosen = self._alias(), list(columns)
        listed = ", ".join(f"{names[column]} AS c{i}" for i, column in enumerate(chosen))
        item = f"({_selected(word + listed, source, where)}) AS {alias}"
        return item, {column: f"{alias}.c{i}" for i, column in enumerate(chosen)}

    def _condition(self, condition: Condition, names: Mapping[Column, str]) -> str:
        """Return whether a condition holds. It may be FALSE or NULL where it does not."""
        if isinstance(condition, All | Either):
            word = " AND " if isinstance(condition, All) else " OR "
            return f"({word.join(self._condition(part, names) for part in condition.of)})"
        # A condition that needs an entry compares the stored value: the SQL of an entry takes longer.
        stored = {
            column: self._stored[names[column]]
            for column in require_columns(condition)
            if names[column] in self._stored
        }
        named = {**names, **stored}
        held = written(condition, lambda column: named[column], self._bind, self._dialect)
        return f"({' AND '.join([held, *map(self._dialect.is_finite, dict.fromkeys(stored.values()))])})"

    def _bind(self, literal: Literal) -> str:
        self._literals.append(literal.value)
        return self._dialect.parameter(len(self._literals), literal.kind)

    def _alias(self) -> str:
        self._aliases += 1
        return f"t{self._aliases}"

    # Integers

    def _totals(self, units: str) -> str:
        """Return (unit, t, first): the total contribution of each unit, and one of its cells."""
        total = self._dialect.cast("sum(part)", "WIDE")
        return f"SELECT unit, {total} AS t, min(cell) AS first FROM {units} GROUP BY unit"

    def _sums(self) -> list[str]:
        """Return the exact integers of a cell, from its values v."""
        measure = self._query.measure
        if isinstance(measure, Several):
            return [text for place in range(len(measure.columns)) for text in self._share_sums(measure, place)]
        return ["sum(v)"]

    def _share_sums(self, several: Several, place: int) -> list[str]:
        """Return the exact integers that a column has in a cell."""

        def wide(number: int) -> str:
            return self._dialect.cast(str(number), "WIDE")

        column, times, v = several.columns[place], several.times(place), f"v{place}"
        whole, shift = several.whole(place), times * column.low
        found = [f"{wide((2 if several.paired else 1) * whole)} * count({v})"]
        if column.kind == "mean":
            # A row has times * v - shift, and the rest of the whole.
            found = (
                [f"{wide(whole)} * count({v})", f"{2 * times} * sum({v}) - {wide(whole + 2 * shift)} * count({v})"]
                if several.paired
                else [
                    f"{times} * sum({v}) - {wide(shift)} * count({v})",
                    f"{wide(whole + shift)} * count({v}) - {times} * sum({v})",
                ]
            )
        elif column.kind == "variance":
            # The middle share is the rest of the whole, so that rounding cannot make a row add more.
            steps = column.high - column.low
            ends = (v, f"({steps} - {v})")
            first, last = (f"sum({self._dialect.divide(f'{times} * {k} * {k}', steps)})" for k in ends)
            found = [first, f"{wide(whole)} * count({v}) - {first} - {last}", last]
        return [*found, *([f"{wide(whole)} * (count(*) - count({v}))"] if place == several.missing else [])]


def _selected(listed: str, source: str, where: list[str]) -> str:
    text = f"SELECT {listed} FROM {source}"
    return f"{text} WHERE {' AND '.join(where)}" if where else text


def read_cells(rows: list[tuple[Any, ...]], query: Query, times: int) -> NDArray[Any]:
    """Return the exact numbers of all cells: shape (times, cells * parts); Python integers where 64 bits are few."""
    parts = query.measure.parts
    found = np.zeros((times, query.cells, parts), dtype=object)
    for cell, *numbers in rows:
        if cell is not None:
            listed = np.array([int(n or 0) for n in numbers], dtype=object)
            found[:, int(cell), :] = listed.reshape(times, parts)
    flat = found.reshape(times, -1)
    return as_int64(flat) if np.abs(flat).max() < 2**62 else flat


# The data: one snapshot of a database, which runs compiled SQL only

# Its results are private. Frequencies come from the same snapshot as answers, and are queried once per column.

Result = TypeVar("Result")


class Source:
    """A snapshot of the tables that a connection has, or of files.

    Parameters
    ----------
    data : DuckDB or psycopg connection, str, or mapping of str to path or data frame
        See `DuckDBEngine` and `PostgresEngine`.
    types : mapping of str to str, optional
        Types of columns of CSV files, by "table.column": see `PrivateSQL`. Other columns are text.
    """

    def __init__(self, data: Any, types: Mapping[str, str] | None = None) -> None:
        if types and not isinstance(data, Mapping):
            raise refuse("types", allowed="be given for CSV files only", remedy="Remove types, which a connection has.")
        self._known: dict[tuple[str, str], int] = {}
        self._unreadable: dict[str, str] = {}
        self._engine = PostgresEngine(data) if is_postgres(data) else DuckDBEngine(data, types or {})
        self._probe, self._settings = (Probe(self.dialect, settings) for settings in (False, True))
        self._over = False
        self.refresh()

    @property
    def dialect(self) -> Dialect:
        """Dialect of compiled SQL."""
        return self._engine.dialect

    @property
    def lasting(self) -> bool:
        """Whether a snapshot lasts until `refresh`, and does not end with `rest`."""
        return self._engine.lasting

    def refresh(self, names: Iterable[str] = ()) -> None:
        """Begin a new snapshot, and discard cached facts of the old one. Tables must be read again.

        Parameters
        ----------
        names : iterable of str
            Tables, as SQL. Postgres locks their definitions until the snapshot ends.
        """
        self._known.clear()
        self._unreadable.clear()
        begun = False
        try:
            self._engine.begin(names)
            begun = True
        except (InvalidData, InvalidParameter):
            raise
        except Exception:  # its words may show data: the error is raised after it
            pass
        self._over = not begun
        if self._over:
            raise InvalidData(f"{self.dialect.name} could not begin to read the tables: check the connection")
        self._engine.check_functions(self._ask)
        self._check_meaning(self._probe)

    @contextlib.contextmanager
    def snapshot(self, names: Iterable[str]) -> Iterator[None]:
        """Read from one snapshot: the last one where it lasts, or one for this block."""
        if self.lasting:
            yield
            return
        try:
            self.refresh(names)
            yield
        finally:
            self.rest()

    def rest(self) -> None:
        """End a snapshot that does not last."""
        if not self.lasting:
            self._over = True
            self._engine.end()

    def _check_meaning(self, probe: Probe) -> None:
        """Refuse an engine that computes something else."""
        failure = probe.find_failure(self._ask)
        if failure is not None:
            self._engine.check_settings(self._ask)  # which says how to reset them
            raise refuse(
                "connection",
                got=f"one that fails the check of {failure}",
                allowed=f"be one that computes as {self.dialect.name} does",
                remedy="A setting or function changes it, or it is another engine. Open another connection.",
            )

    def tables(self) -> dict[str, BaseTable]:
        """Return the base tables, by their names in lower case."""
        return self._engine.tables(self._ask)

    def views(self) -> frozenset[str]:
        """Return the names of views."""
        return self._engine.views(self._ask)

    def run(self, sql: str, parameters: list[Any] | None = None) -> list[tuple[Any, ...]]:
        """Return all rows of compiled SQL, if the connection gave it the same meaning before and after."""
        self._check_meaning(self._settings)
        rows = self._ask(sql, parameters)
        self._engine.check_settings(self._ask)
        return rows

    def columns(self, sql: str, parameters: list[Any]) -> list[NDArray[np.int64]]:
        """Return the columns of compiled SQL whose entries are 64-bit integers, under the same condition."""
        self._check_meaning(self._settings)
        columns = self._read(self._engine.columns, sql, parameters)
        self._engine.check_settings(self._ask)
        return columns

    def _ask(self, sql: str, parameters: list[Any] | None = None) -> list[tuple[Any, ...]]:
        """Return all rows of SQL."""
        return self._read(self._engine.execute, sql, parameters or [])

    def _read(self, read: Callable[[str, list[Any]], Result], sql: str, parameters: list[Any]) -> Result:
        """Return a result of SQL; an error of the engine's, which may quote values, is not passed on."""
        self._engine.confirm_unchanged()
        if self._over:
            raise InvalidData("an error ended the snapshot: call refresh(), which reads the tables again")
        result = None
        with contextlib.suppress(Exception):
            result = read(sql, parameters)
        if result is None:
            # Its transaction has ended with it. Another one may see other data, which is for the user to begin.
            self._over = True
            raise InvalidData(
                f"{self.dialect.name} could not compute the query on these data; its message may show them, and is "
                "not shown"
            )
        return result

    def check_entries(self, table: BaseTable) -> None:
        """Refuse a table of text with an entry that is not of its declared type."""
        if table.name not in self._unreadable:
            self._unreadable[table.name] = self._engine.find_unreadable(table, self._ask)
        column = self._unreadable[table.name]
        if column:
            raise refuse_data(
                f"{table.name}.{column}",
                got="another one",
                allowed="have entries of its declared type only",
                remedy="Correct the file, declare another type, or set missing='drop': such entries are then missing.",
            )

    def size(self, table: BaseTable) -> int:
        """Return the number of rows of a table, which neighboring databases share."""
        key = table.name, ""
        if key not in self._known:
            self._known[key] = int(self.run(f"SELECT count(*) FROM {table.source}")[0][0])
        return self._known[key]

    def frequency(self, table: BaseTable, column: str) -> int:
        """Return the private frequency of the most frequent nonmissing value of a column."""
        key = table.name, column
        if key not in self._known:
            # Entries are equal here if they are equal to a join.
            entry = table.columns[fold(column)][1].entry.format(quoted(column))
            counts = f"SELECT count(*) AS n FROM {table.source} WHERE {entry} IS NOT NULL GROUP BY {entry}"
            self._known[key] = int(self.run(f"SELECT coalesce(max(n), 0) FROM ({counts}) AS q")[0][0])
        return self._known[key]
