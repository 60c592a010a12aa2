"""Random queries and mutated text, each refused, or bounded and answered rightly: by brute force over DuckDB's rows.

python -m tests.sql.fuzz --queries 5000 --seed 1
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import math
import operator
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import duckdb
import numpy as np

from dpstats.errors import InvalidParameter
from dpstats.sensitivity.elastic import tables
from dpstats.sql import PrivateSQL
from dpstats.sql.answers import ANSWER
from dpstats.sql.query import SPREADS
from tests.sql.databases import fill

# Keys, which joins and conditions are on; and beside them one column of amounts for each private table.
COLUMNS = {"r": ("a", "b"), "s": ("a", "c"), "p": ("a", "b"), "k": ("a", "d"), "l": ("a", "e")}
DECLARED_KEYS = {"k": "a"}
UNITS = {"r": "a", "s": "a", "k": "d", "l": "a -> k.a"}
UNIT_OF = {"r": "{0}.a", "s": "{0}.a", "k": "{0}.d", "l": "(SELECT k.d FROM k WHERE k.a = {0}.a)"}
"""The unit of a row, by brute force."""
AMOUNTS = {"r": "v", "s": "w"}
TYPES = {"v": "INTEGER", "w": "DOUBLE"}
VALUES: dict[str, list[Any]] = {
    "v": [-9, -2, 0, 1, 3, 9, None],
    "w": [-math.inf, -1.5, 0.1, 0.625, 2.25, 8.0, math.inf, math.nan, None],
}
KEYS = [0, 1, None]
BOUNDS = {"r.v": (-2, 3), "s.w": (-1.5, 2.25)}
CATEGORIES = {"r.a": [0, 1], "r.b": [1, 5, 0], "s.c": [1, 0], "p.b": [0, 1]}
BINS = {"r.v": [-2, 0, 3], "s.w": [0.1, 0.625, 2.25], "s.a": [0, 1, 2]}
WORDS = [
    *("LEFT", "RIGHT", "FULL", "OUTER", "CROSS", "NATURAL", "SEMI", "ANTI", "ASOF", "POSITIONAL", "INNER", "JOIN"),
    *("ON", "USING", "(a)", "DISTINCT", "UNION", "ALL", "INTERSECT", "EXCEPT", "LIMIT", "1", "OFFSET", "ORDER", "BY"),
    *("GROUP", "HAVING", "QUALIFY", "WINDOW", "OVER", "()", "FILTER", "EXISTS", "(SELECT a FROM s)", "IN", "NOT"),
    *("AND", "OR", "NULL", "IS", "TRUE", "FALSE", "r", "s", "p", "v", "r.a", "s.a", "--", "/*", "*/", ";", "'", '"'),
    *("SAMPLE", "50%", "TABLESAMPLE", "WITH", "RECURSIVE", "LATERAL", "UNNEST([1,2])", "range(3)", "read_csv('x')"),
    *("CASE", "WHEN", "THEN", "END", "CAST(a AS TEXT)", "+", "abs(a)", "?", "$1", "*", ",", "(", ")", "=", "<", "AS"),
    *("rowid", "ROLLUP", "CUBE", "GROUPING", "SETS", "PIVOT", "COUNT(b)", "SUM(a)", "COUNT(*)", "a", "b", "t0", "t1"),
]


class Source(NamedTuple):
    """What a query selects from: the columns by their kind, and the table that they are of."""

    alias: str
    table: str
    keys: tuple[str, ...]
    amounts: tuple[str, ...]


@dataclass(frozen=True)
class Question:
    """A query, and the same rows without what is computed of them.

    Attributes
    ----------
    text : str
    rows : str
        Selects the unit, the grouping columns and the measured one, of every row.
    kind : str
        "count", "column", "distinct", "sum" or "several".
    measured : str
        The measured column as "table.column", or "".
    groups : tuple of str
        The grouping columns, likewise.
    has_unit : bool
        Whether a private source has the column that says whose a row is.
    mixed : str
        Counts the rows that private sources say to be different units'.
    several : tuple of (str, str)
        The kind and the column of each of several aggregates; of COUNT(*) the column is "".
    """

    text: str
    rows: str
    kind: str = "count"
    measured: str = ""
    groups: tuple[str, ...] = ()
    has_unit: bool = False
    mixed: str = "SELECT 0"
    several: tuple[tuple[str, str], ...] = ()


def random_question(rng: random.Random, *, grouped: bool = True) -> Question:
    """Return a query of the kind that is answered, most often; without ``grouped`` one count."""
    with_clause, body, sources = _random_body(rng)
    columns = [(source, name) for source in sources for name in (*source.keys, *source.amounts)]
    groups = []
    if grouped:
        declared = [pair for pair in columns if f"{pair[0].table}.{pair[1]}" in {**CATEGORIES, **BINS}]
        groups = rng.sample(declared, min(rng.choice([0, 0, 1, 1, 2]), len(declared)))
    kind, column = rng.choice(["count", "count", "column", "distinct"]), None
    amounts = [(source, name) for source, name in columns if name in VALUES]
    several: list[tuple[str, str]] = []
    entries: dict[str, str] = {}
    if grouped and rng.random() < 0.4:
        kind = "several"
        for each in rng.choices(["count", "column", "sum", "mean", "spread"], k=rng.choice([1, 2, 2, 3, 4])):
            among = columns if each == "column" else amounts
            place = rng.choice(among) if among and each != "count" else None
            text = f"{place[0].alias}.{place[1]}" if place else ""
            if place and amounts and rng.random() < 0.4:
                text, entry = random_value(rng, amounts, _keys(sources))
                if text not in [f"{source.alias}.{name}" for source, name in amounts]:
                    entries[text] = entry
            each = rng.choice(SPREADS) if each == "spread" else each
            several.append((each if place else "count", text))
        if len(several) == 1 and several[0][0] not in SPREADS:
            several.append(("count", ""))
    if kind == "several":
        pass
    elif grouped and amounts and rng.random() < 0.5:
        kind, column = rng.choice(["sum", "sum", "mean"]), rng.choice(amounts)
    elif kind == "distinct":
        column = rng.choice([pair for pair in columns if pair[1] != "w" and (grouped or pair[1] != "v")])
    elif kind == "column":
        column = rng.choice(columns)
    written = "" if column is None else f"{column[0].alias}.{column[1]}"
    if kind == "mean":
        # A mean alone is released as several aggregates are.
        kind, several = "several", [("mean", written)]
    words = {"column": "COUNT({})", "distinct": "COUNT(DISTINCT {})", "sum": "SUM({})", "mean": "AVG({})"}
    words |= {each: f"{each}({{}})" for each in SPREADS}
    asked = several or [(kind, written)]
    what = ", ".join(words.get(each, "COUNT(*)").format(of) for each, of in asked)
    if several:
        what = ", ".join(f"{words.get(each, 'COUNT(*)').format(of)} AS q{i}" for i, (each, of) in enumerate(several))
        written = ", ".join(entries.get(of, of) for of in dict.fromkeys(of for _, of in several if of))
    private = [source for source in sources if source.table != "p"]
    whose = [source for source in private if {"k": "d"}.get(source.table, "a") in source.keys]
    units = [UNIT_OF[source.table].format(source.alias) for source in whose]
    # A partner's unit is not there where there is none: the first source must have it.
    named = bool(whose) and (whose[0] is private[0] or "LEFT" not in body)
    differ = " OR ".join(f"{unit} <> {units[0]}" for unit in units[1:]) or "FALSE"
    by = [f"{source.alias}.{name}" for source, name in groups]
    listed = ", ".join([*by, what])
    return Question(
        f"{with_clause}SELECT {listed} FROM {body}{' GROUP BY ' if by else ''}{', '.join(by)}",
        f"{with_clause}SELECT {', '.join([units[0] if units else 'NULL', *by, written or '1'])} FROM {body}",
        kind,
        "" if column is None else f"{column[0].table}.{column[1]}",
        tuple(f"{source.table}.{name}" for source, name in groups),
        named,
        f"{with_clause}SELECT count(*) FROM (SELECT {differ} AS mixed FROM {body}) WHERE mixed",
        tuple(several),
    )


def random_value(
    rng: random.Random, amounts: list[Any], names: list[tuple[str, tuple[str, ...]]], depth: int = 0
) -> tuple[str, str]:
    """Return a value that is computed from amounts, and the same with entries cut to their bounds."""
    kind = rng.randrange(7 if depth < 2 else 2)
    if kind == 0 and depth:
        number = rng.choice(["0", "1", "2.5"])
        return number, f"CAST({number} AS DOUBLE)"
    if kind < 3:
        source, name = rng.choice(amounts)
        text = f"{source.alias}.{name}"
        low, high = BOUNDS[f"{source.table}.{name}"]
        number = f"CAST({text} AS DOUBLE)"
        entry = f"(CASE WHEN {number} IS NOT NULL THEN least(greatest({number}, {low}), {high}) END)"
        if kind == 2 and name == "v":
            return f"COALESCE({text}, 2)", f"coalesce({entry}, 2)"
        return text, entry
    one, other = (random_value(rng, amounts, names, depth + 1) for _ in range(2))
    if kind == 3:
        return f"-({one[0]})", f"-({one[1]})"
    if kind == 4:
        when = condition(rng, names, depth=2)
        otherwise = rng.choice([("", ""), (f" ELSE {other[0]}", f" ELSE {other[1]}")])
        return tuple(
            f"CASE WHEN {when} THEN {then}{rest} END"
            for then, rest in zip(one, otherwise, strict=True)  # type: ignore[return-value]
        )
    sign = rng.choice("+-**")
    return f"({one[0]}) {sign} ({other[0]})", f"({one[1]}) {sign} ({other[1]})"


def random_query(rng: random.Random) -> str:
    """Return a query of one count, of the kind that is answered, most often."""
    return random_question(rng, grouped=False).text


def _random_body(rng: random.Random) -> tuple[str, str, list[Source]]:
    """Return WITH, what comes after FROM, and its sources."""
    sources: list[Source] = []
    with_clause = ""
    parts: list[str] = []
    conditions: list[str] = []
    for i in range(rng.choice([1, 2, 2, 3])):
        table = rng.choice("rrsspkl" if i else "rrrskl")
        alias = f"t{i}"
        columns, amounts = COLUMNS[table], tuple(AMOUNTS.get(table, ""))
        kind = rng.random()
        if kind < 0.5:
            source = f"{table} AS {alias}"
        else:
            distinct = "DISTINCT " if rng.random() < 0.6 else ""
            columns = tuple(rng.sample(columns, rng.choice([1, 2, 2])))
            amounts = amounts if rng.random() < 0.5 else ()
            where = f" WHERE {condition(rng, [('', columns)])}" if rng.random() < 0.25 else ""
            inner = f"SELECT {distinct}{', '.join([*columns, *amounts])} FROM {table}{where}"
            if kind < 0.85 or with_clause:
                source = f"({inner}) AS {alias}"
            else:
                with_clause, source = f"WITH w AS ({inner}) ", f"w AS {alias}"
        if not parts:
            parts.append(source)
        else:
            other = rng.choice(sources)
            shared = set(columns).intersection(*(set(each.keys) for each in sources))
            if shared and rng.random() < 0.3 and len(sources) == 1:
                parts.append(f" JOIN {source} USING ({rng.choice(sorted(shared))})")
            elif rng.random() < 0.35:
                on = f"{alias}.{rng.choice(columns)} = {other.alias}.{rng.choice(other.keys)}"
                if rng.random() < 0.3:
                    on += f" AND {condition(rng, [(alias, columns)])}"
                parts.append(f" LEFT {rng.choice(['', 'OUTER '])}JOIN {source} ON {on}")
            elif rng.random() < 0.2:
                parts.append(f", {source}")
                conditions.append(f"{alias}.{rng.choice(columns)} = {other.alias}.{rng.choice(other.keys)}")
            else:
                on = f"{alias}.{rng.choice(columns)} = {other.alias}.{rng.choice(other.keys)}"
                if rng.random() < 0.3:
                    on += f" AND {condition(rng, [*_keys(sources), (alias, columns)])}"
                parts.append(f" {rng.choice(['', 'INNER '])}JOIN {source} ON {on}")
        sources.append(Source(alias, table, columns, amounts))
    own = {"r": "a", "s": "a", "p": "a", "k": "d"}
    whose = [(source.alias, own[source.table]) for source in sources if own.get(source.table) in source.keys]
    if len(whose) > 1 and rng.random() < 0.5:
        # Whose a row is, or only nearly.
        conditions.append(f"{'.'.join(whose[-1])} {rng.choice(['=', '=', '<=', '>='])} {'.'.join(whose[0])}")
    if rng.random() < 0.5:
        conditions.append(condition(rng, _keys(sources)))
    if rng.random() < 0.3:
        table, source = rng.choice("rspkl"), rng.choice(sources)
        name = rng.choice(COLUMNS[table])
        more = f" WHERE {condition(rng, [('', COLUMNS[table])])}" if rng.random() < 0.3 else ""
        if rng.random() < 0.5 or len(parts) > 1:
            conditions.append(f"{source.alias}.{rng.choice(source.keys)} IN (SELECT {name} FROM {table}{more})")
        else:
            on = f"{source.alias}.{rng.choice(source.keys)} = q.{name}"
            if rng.random() < 0.3:
                on += f" AND {condition(rng, [('q', COLUMNS[table])])}"
            parts.append(f" SEMI JOIN {table} AS q ON {on}")
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return with_clause, f"{''.join(parts)}{where}", sources


def _keys(sources: list[Source]) -> list[tuple[str, tuple[str, ...]]]:
    return [(source.alias, source.keys) for source in sources]


def condition(rng: random.Random, names: list[tuple[str, tuple[str, ...]]], depth: int = 0) -> str:
    """Return a condition on keys of some sources."""
    alias, columns = rng.choice(names)
    column = f"{alias}.{rng.choice(columns)}" if alias else rng.choice(columns)
    kind = rng.randrange(10 if depth < 2 else 6)
    if kind == 0:
        return f"{column} IS {rng.choice(['', 'NOT '])}NULL"
    if kind == 1:
        return f"{column} {rng.choice(['', 'NOT '])}IN ({rng.choice([0, 1])}, {rng.choice([0, 2])})"
    if kind == 2:
        return f"{column} BETWEEN {rng.choice([-1, 0])} AND {rng.choice([0, 1])}"
    if kind == 3:
        other, theirs = rng.choice(names)
        right = f"{other}.{rng.choice(theirs)}" if other else rng.choice(theirs)
        return f"{column} {rng.choice(['=', '<>', '<', '<=', '>='])} {right}"
    if kind < 6:
        return f"{column} {rng.choice(['=', '<>', '<=', '>'])} {rng.choice([0, 1])}"
    if kind == 6:
        return f"NOT ({condition(rng, names, depth + 1)})"
    if kind == 7:
        return f"({condition(rng, names, depth + 1)}) IS {rng.choice(['', 'NOT '])}{rng.choice(['TRUE', 'FALSE'])}"
    return f"({condition(rng, names, depth + 1)} {rng.choice(['AND', 'OR'])} {condition(rng, names, depth + 1)})"


def mutated(rng: random.Random, text: str) -> str:
    """Return text with words put in, left out, or changed."""
    words = text.split(" ")
    for _ in range(rng.choice([1, 1, 2, 3])):
        place = rng.randrange(len(words))
        kind = rng.randrange(3)
        if kind == 0:
            words.insert(place, rng.choice(WORDS))
        elif kind == 1 and len(words) > 1:
            del words[place]
        else:
            words[place] = rng.choice(WORDS)
    return " ".join(words)


def steps_in_cells(question: Question, rows: list[tuple[Any, ...]], plan: Any) -> list[list[tuple[Any, int]]]:
    """Return (unit, value in steps) of every row that counts, cell by cell, from the rows of a question."""
    measure = plan.query.measure
    found = []
    for cell in _cells(question.groups):
        held = [
            (unit, entry)
            for unit, *entries, entry in rows
            if entry is not None and all(inside(each) for inside, each in zip(cell, entries, strict=True))
        ]
        if question.kind == "distinct":
            held = [(unit, entry) for entry, unit in {entry: unit for unit, entry in held}.items()]
        if question.kind != "sum":
            found.append([(unit, 1) for unit, _ in held])
            continue
        found.append([(unit, _steps(entry, measure)) for unit, entry in held])
    return found


def shares_in_cells(question: Question, rows: list[tuple[Any, ...]], plan: Any) -> list[list[tuple[Any, list[int]]]]:
    """Return (unit, what it adds to each number) of every row, cell by cell, for several aggregates."""
    several, groups = plan.query.measure, len(question.groups)
    asked = question.several or ((question.kind, question.measured),)
    columns = list(dict.fromkeys(of for _, of in asked if of)) or ([""] if several.columns else [])
    kinds = [{each for each, place in asked if place == of} for of in columns]
    bounded = [bool(each & {"sum", "mean", *SPREADS}) for each in kinds]
    spread = [bool(each & set(SPREADS)) for each in kinds]

    def shares(entries: tuple[Any, ...]) -> list[int]:
        found = []
        for i, (entry, both) in enumerate(zip(entries, bounded, strict=bool(bounded))):
            missing = entry is None
            whole = several.whole(i)
            measure, times = several.columns[i], several.times(i)
            k = 0 if missing or not both else _steps(entry, measure) - measure.low
            if missing:
                found += [0] * (3 if spread[i] else 2 if both else 1)
            elif spread[i]:
                steps = whole // times
                ends = times * k * k // steps, times * (steps - k) ** 2 // steps
                found += [ends[0], whole - sum(ends), ends[1]]
            elif both and several.paired:
                found += [whole, 2 * times * k - whole]
            elif both:
                found += [times * k, whole - times * k]
            else:
                found.append(2 * whole if several.paired else whole)
            if i == several.missing:
                found.append(whole if missing else 0)
            if i == several.rows and ("count", "") in question.several and not plan.query.discovers:
                own = found[several.shares(i)[0]] if several.paired else sum(found[j] for j in several.shares(i))
                assert own in (whole, 2 * whole), "COUNT(*) leaves a row out"
        return found

    return [
        [
            (unit, shares(entries[groups:]))
            for unit, *entries in rows
            if all(inside(each) for inside, each in zip(cell, entries[:groups], strict=True))
        ]
        for cell in _cells(question.groups)
    ]


def _steps(entry: float, measure: Any) -> int:
    """Return a value cut to its bounds and rounded to steps."""
    near = entry if math.isfinite(entry) else math.copysign(2.0**60, entry)
    return min(max(round(Fraction(near) / Fraction(measure.spacing)), measure.low), measure.high)


def totals(values: list[Any], measure: Any) -> list[int]:
    """Return the numbers of a cell, from its values."""
    if measure.kind == "several":
        return [sum(numbers) for numbers in zip(*values, strict=True)] if values else [0] * measure.parts
    return [sum(values)]


def cut_units(
    cells: list[list[tuple[Any, Any]]], part: str, power: int, measure: Any, finer: int
) -> tuple[int, list[int]]:
    """Return how many units add more than 2^power, and all numbers where each adds no more."""
    sign = {"positive": 1, "negative": -1}.get(part)
    held: dict[Any, list[list[Any]]] = {}
    for place, cell in enumerate(cells):
        for unit, value in cell:
            if unit is not None:
                own = value if sign is None else max(sign * value, 0)
                held.setdefault(unit, [[] for _ in cells])[place].append(own)
    above, found = 0, [0] * (len(cells) * measure.parts)
    for values in held.values():
        # Rows without any value add nothing.
        by_rows = measure.kind == "several"
        total = sum(sum(map(any, own)) if by_rows else sum(own) for own in values)
        share = min(Fraction(2**power, max(total, 1)), 1)
        above += total > 2**power
        for i, number in enumerate(number for own in values for number in totals(own, measure)):
            found[i] += int(share * finer * number)
    return above, found


def _cells(groups: tuple[str, ...]) -> Iterator[tuple[Callable[[Any], bool], ...]]:
    """Yield what the entries of each cell must meet; the levels of the last group change first."""
    return itertools.product(*map(_levels, groups))


def _levels(column: str) -> list[Callable[[Any], bool]]:
    if column in CATEGORIES:
        return [partial(operator.eq, value) for value in CATEGORIES[column]]
    edges = BINS[column]
    return [partial(_in_bin, low, high, high == edges[-1]) for low, high in itertools.pairwise(edges)]


def _in_bin(low: float, high: float, last: bool, entry: Any) -> bool:
    return entry is not None and (low <= entry < high or (last and entry == high))


class Moves:
    """How far neighbors were apart, as a proportion of the stated bounds: the number of pairs, and the largest."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[int, float]] = {}

    def add(self, kind: str, moved: float, bound: float) -> None:
        """Count a pair of neighbors."""
        count, largest = self.found.get(kind, (0, 0.0))
        self.found[kind] = count + 1, max(largest, moved / bound if bound else 0.0)


class Databases:
    """A small random database, and all that are one row, or one person, away."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.columns = {name: (*keys, *((AMOUNTS[name],) if name in AMOUNTS else ())) for name, keys in COLUMNS.items()}
        rows: dict[str, list[tuple[Any, ...]]] = {}
        for name in self.columns:
            rows[name] = held = []
            for _ in range(rng.choice([2, 3])):
                held.append(self.row(name, [row[0] for row in held]))
        # Frequent values, which joins multiply.
        for name, held in rows.items():
            if name in DECLARED_KEYS:
                continue
            frequent = rng.choice([None, 0, 1])
            rows[name] = [tuple(0 if i == frequent else entry for i, entry in enumerate(row)) for row in held]
        self.sizes = {name: len(held) for name, held in rows.items()}
        self.connection = duckdb.connect(":memory:", config={"threads": 1})
        for name, columns in self.columns.items():
            typed = ", ".join(f"{column} {TYPES.get(column, 'INTEGER')}" for column in columns)
            self.connection.execute(f"CREATE TABLE {name} ({typed})")
            self.insert(name, rows[name])
        self.connection.execute("CREATE VIEW v AS SELECT r.a FROM r, s")
        self.connection.execute("CREATE SCHEMA finite")
        for name, columns in self.columns.items():
            listed = ", ".join(
                f"CASE WHEN isfinite({column}) THEN {column} END AS {column}" if column == "w" else column
                for column in columns
            )
            self.connection.execute(f"CREATE VIEW finite.{name} AS SELECT {listed} FROM main.{name}")
        declared: dict[str, Any] = {
            "public_tables": ["p"],
            "keys": DECLARED_KEYS,
            "categories": CATEGORIES,
            "bins": BINS,
            "bounds": BOUNDS,
        }
        found = dict.fromkeys(["r.a", "r.b", "r.v", "p.b"], "discover")
        self.options: tuple[dict[str, Any], ...] = (
            {**declared, "delta": rng.choice([0.0, 0.0, 1e-4])},
            {**declared, "categories": CATEGORIES | found, "bins": {}, "delta": 1e-4},
            {**declared, "unit": UNITS, "unit_limit": rng.choice([2, 8])},
        )
        self.options += tuple({**each, "neighbors": "add_or_remove"} for each in self.options[::2])
        self.answering = tuple(self.asked(epsilon=1.0, **options) for options in self.options)
        self.sql, self.found, self.units, self.added, self.added_units = self.answering

    def asked(self, **options: Any) -> PrivateSQL:
        """Return what answers, reading this connection: it sees what a transaction has changed, and no snapshot."""
        made = PrivateSQL(self.connection, random_state=0, **options)
        made._data._engine.cursor.rollback()
        made._data._engine.cursor = self.connection
        # Settings of the connection are the same throughout: tests/sql/test_source.py changes them.
        made._data._check_meaning = lambda probe: None  # type: ignore[method-assign]
        made._data._engine.check_settings = lambda ask: None  # type: ignore[method-assign]
        return made

    def row(self, table: str, taken: Sequence[Any] = ()) -> tuple[Any, ...]:
        """Return a random row; of a table with a key, one whose key is not taken."""
        found = [self.rng.choice(VALUES.get(column, KEYS)) for column in self.columns[table]]
        if table in DECLARED_KEYS:
            found[0] = self.rng.choice([None, *({0, 1, 2, 3} - {*taken})])
        return tuple(found)

    def insert(self, table: str, rows: list[tuple[Any, ...]]) -> None:
        for row in rows:
            self.connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", list(row))

    @contextlib.contextmanager
    def changed(self) -> Iterator[None]:
        """Let changes of the tables be seen by all that answer, and take them back."""
        self.connection.execute("BEGIN")
        try:
            self._forget()
            yield
        finally:
            self.connection.execute("ROLLBACK")
            self._forget()

    def _forget(self) -> None:
        for made in self.answering:
            made._data._known.clear()

    @contextlib.contextmanager
    def another_row(self, of: list[str], added: bool = False) -> Iterator[None]:
        """Replace one row of one of some tables, or add or remove one."""
        table = self.rng.choice(of)
        if added:
            with self.changed():
                taken = self.connection.execute(f"SELECT a FROM {table}").fetchall()
                if self.rng.random() < 0.5:
                    place = self.rng.randrange(self.sizes[table])
                    self.connection.execute(f"DELETE FROM {table} WHERE rowid = {place}")
                else:
                    self.insert(table, [self.row(table, [key for (key,) in taken])])
                yield
            return
        assigned = ", ".join(f"{column} = ?" for column in self.columns[table])
        place = self.rng.randrange(self.sizes[table])
        with self.changed():
            taken = self.connection.execute(f"SELECT a FROM {table} WHERE rowid <> {place}").fetchall()
            row = list(self.row(table, [key for (key,) in taken]))
            self.connection.execute(f"UPDATE {table} SET {assigned} WHERE rowid = {place}", row)
            yield

    @contextlib.contextmanager
    def another_unit(self, added: bool = False) -> Iterator[None]:
        """Take one person away with all rows, and let another come with rows of their own; one of both if added."""
        old, new = self.rng.choice([0, 1]), self.rng.choice([7, 7, None])
        goes, comes = self.rng.choice([(True, False), (False, True)]) if added else (True, True)
        with self.changed():
            if goes:
                self.connection.execute(f"DELETE FROM l WHERE a IN (SELECT a FROM k WHERE d = {old})")
                for table, unit in (("k", "d"), ("r", "a"), ("s", "a")):
                    self.connection.execute(f"DELETE FROM {table} WHERE {unit} = {old}")
            if not comes:
                yield
                return
            taken = [key for (key,) in self.connection.execute("SELECT a FROM k").fetchall()]
            own = self.rng.sample(sorted({0, 1, 2, 3} - {*taken}), self.rng.randrange(min(3, 5 - len(taken))))
            self.insert("k", [(key, new) for key in own])
            self.insert("l", [(key, self.row("l")[1]) for key in own for _ in range(self.rng.randrange(4))])
            for table in "rs":
                rows = [self.row(table) for _ in range(self.rng.randrange(5))]
                self.insert(table, [(new, *row[1:]) for row in rows])
            yield

    def select(self, text: str) -> list[tuple[Any, ...]]:
        """Return the rows that DuckDB selects, with NaN and infinity as NULL."""
        self.connection.execute("USE finite")
        try:
            return self.connection.execute(text).fetchall()
        finally:
            self.connection.execute("USE main")

    def cells(self, question: Question, plan: Any) -> list[list[tuple[Any, Any]]]:
        """Return the values of every cell by brute force, in steps, with their units."""
        of = shares_in_cells if question.several else steps_in_cells
        return of(question, self.select(question.rows), plan)

    def exact(self, question: Question | str, plan: Any) -> list[int]:
        """Return the numbers of a query by brute force, in steps; text is of one count."""
        if isinstance(question, str):
            return [int(count) for (count,) in self.select(question)]
        cells, measure = self.cells(question, plan), plan.query.measure
        return [n for cell in cells for n in totals([value for _, value in cell], measure)]


def check(
    data: Databases,
    question: Question | str,
    *,
    searched: int = 6,
    neighbors: int = 1,
    largest: int | None = None,
    moves: Moves | None = None,
    added: bool = False,
) -> bool:
    """Return whether a query is accepted; fail where it is bounded or answered wrongly.

    Of ``searched`` databases with another row only the exact answers are compared, of ``neighbors`` all that is read.
    ``largest`` takes the place of the number that answers are cut at. ``added`` is whether a row is added or removed.
    """
    text = question if isinstance(question, str) else question.text
    sql = data.added if added else data.sql
    try:
        query = sql._parsed(text)
        plan = sql._kind(query).plan()
    except InvalidParameter:
        return False
    try:
        data.connection.execute(f"EXPLAIN {text}")
    except duckdb.ParserException:
        # A keyword as a name, say, which means what it says here and nothing there.
        return False
    cut = largest if largest is not None and plan.method == "smooth" else plan.largest
    plan = replace(plan, largest=cut)

    def read() -> tuple[Any, list[int]]:
        """Return what is read for the noise, and the exact numbers, which it must be made of."""
        found, exact = sql._kind(query).read(plan), data.exact(question, plan)
        assert _integers(found) == [min(max(n, -cut), cut) * plan.finer for n in exact], f"answered: {text}"
        return found, exact

    here, exact = read()
    private = sorted({table.name for table in tables(query.relation) if not table.public})
    elastic = sql._kind(query).setting.elastic(query)
    most = plan.query.moved * elastic.at_distance(0)
    for _ in range(searched if private else 0):
        with data.another_row(private, added):
            moved = _distance(exact, data.exact(question, plan))
        assert moved <= most, f"bounded wrongly: {text}"
        if moves is not None:
            kind = "shares" if plan.query.measure.kind == "several" else "rows"
            moves.add(f"added {kind}" if added else kind, moved, most)
    for _ in range(neighbors if private else 0):
        with data.another_row(private, added):
            near, _ = read()
            other = sql._kind(query).setting.elastic(query)
        far = _distance(_integers(here), _integers(near))
        for k in range(3):
            assert other.at_distance(k) <= elastic.at_distance(k + 1), f"not smooth: {text}"
            assert elastic.at_distance(k) <= other.at_distance(k + 1), f"not smooth: {text}"
        if plan.method == "public":
            stage = plan.stages[0]
            if stage.noise == "gaussian":
                far = math.isqrt(sum((x - y) ** 2 for x, y in zip(_integers(here), _integers(near), strict=True)))
            assert far <= stage.sensitivity_steps, f"planned wrongly: {text}"
        else:
            # The noise of either level hides the move, and the levels themselves are next to each other.
            assert abs(here.level - near.level) <= 1, f"the level moves too far: {text}"
            assert far <= plan.smooth.limits[min(here.level, near.level)], f"hidden by too little: {text}"
    return True


def _integers(private: Any) -> list[int]:
    return [int(n) for n in private.numbers]


def check_units(
    data: Databases, question: Question, neighbors: int = 2, moves: Moves | None = None, added: bool = False
) -> bool:
    """Return whether a query is accepted where units are protected; fail where one moves it by more than is said."""
    text = question.text
    sql = data.added_units if added else data.units
    try:
        query = sql._parsed(text)
        kind = sql._kind(query)
    except InvalidParameter:
        return False
    plan = kind.plan()
    here = kind.read(plan)
    for attempt in range(neighbors + 1):
        with data.another_unit(added) if attempt else data.changed():
            near = kind.read(plan)
            cells = data.cells(question, plan) if question.has_unit else None
            ((mixed,),) = data.select(question.mixed)
        assert not mixed, f"a row is several units': {text}"
        if not plan.truncations:
            assert _distance(here.numbers, near.numbers) <= plan.stages[0].sensitivity_steps, text
        if moves is not None:
            moved = "paths" if any(table.name == "l" for table in tables(query.relation)) else "units"
            moved = f"added {moved}" if added else moved
            for truncation in plan.truncations:
                for stage, a, b in _cut_sums(truncation, here, near):
                    moves.add(moved, _distance(a, b), stage.sensitivity_steps)
        for truncation in plan.truncations:
            _check_cut(truncation, here, near, text)
            if cells is not None:
                _check_units(truncation, near, cells, plan, text)
    return True


def check_found(data: Databases, question: Question, neighbors: int = 4) -> bool:
    """Return whether a query is accepted where values are not declared; fail where a row moves it too far."""
    try:
        query = data.found._parsed(question.text)
        plan = data.found._kind(query).plan()
    except InvalidParameter:
        return False
    if not query.discovers:
        return False
    stage = plan.discovery

    def read() -> dict[Any, list[int]]:
        """Return the numbers of every key, by brute force, which those that were read must be."""
        private = data.found._kind(query).read(plan)
        exact: dict[Any, list[int]] = {}
        for _, *entries in data.select(question.rows):
            key = entries[: len(question.groups)]
            for i, (column, group) in enumerate(zip(question.groups, query.groups, strict=True)):
                if not group.discovered:
                    key[i] = CATEGORIES[column].index(key[i]) if key[i] in CATEGORIES[column] else None
            if None in key:
                continue
            own = exact.setdefault(tuple(key), [0] * (1 + plan.query.measure.parts))
            row = (None, *entries[len(question.groups) :])
            ((_, shares),) = shares_in_cells(replace(question, groups=()), [row], plan)[0]
            own[:] = [x + y for x, y in zip(own, [stage.row_steps, *shares], strict=True)]
        assert list(private.keys) == sorted(exact), f"found wrongly: {question.text}"
        assert [list(map(int, row)) for row in private.numbers] == [exact[key] for key in sorted(exact)]
        return exact

    here = read()
    private = sorted({table.name for table in tables(query.relation) if not table.public})
    for _ in range(neighbors):
        with data.another_row(private):
            near = read()
        nothing = [0] * (1 + plan.query.measure.parts)
        moved = [
            [x - y for x, y in zip(here.get(key, nothing), near.get(key, nothing), strict=True)]
            for key in {*here, *near}
        ]
        moved = [numbers for numbers in moved if any(numbers)]
        assert len(moved) <= 2, f"a row is in several groups: {question.text}"
        assert all(abs(numbers[0]) <= stage.row_steps for numbers in moved)
        far = math.sqrt(sum(n**2 for numbers in moved for n in numbers))
        assert far <= stage.touched.sensitivity, f"planned wrongly: {question.text}"
    return True


def compare_postgres(data: Databases, connection: Any, questions: Sequence[Question]) -> int:
    """Return the number of answers over Postgres; fail where one is made of other integers than over DuckDB.

    Every question is asked in each of five ways. ``connection`` is to an empty schema of Postgres.
    """
    types = {"INTEGER": "integer", "DOUBLE": "double precision"}
    columns = {
        name: ", ".join(f"{column} {types[TYPES.get(column, 'INTEGER')]}" for column in own)
        for name, own in data.columns.items()
    }
    fill(connection, columns, {name: data.connection.sql(f"FROM {name}").fetchall() for name in columns})
    connection.execute("CREATE VIEW v AS SELECT r.a FROM r, s")
    answered = 0
    for here, options in zip(data.answering, data.options, strict=True):
        there = PrivateSQL(connection, epsilon=1.0, random_state=0, **options)
        there._data.refresh()  # one snapshot for all questions
        for question in questions:
            found = [_read_or_refuse(made, question.text) for made in (here, there)]
            assert found[0] == found[1], f"another answer over Postgres: {question.text}"
            answered += not isinstance(found[0], str)
        there._data.rest()
    return answered


def _read_or_refuse(made: PrivateSQL, text: str) -> Any:
    """Return all that is read for the noise as Python's numbers, or the message of the refusal."""
    try:
        query = made._parsed(text)
        private = made._kind(query).read(made._kind(query).plan())
    except InvalidParameter as error:
        return str(error)

    def plain(held: Any) -> Any:
        if isinstance(held, dict):
            return {name: np.asarray(numbers).tolist() for name, numbers in held.items()}
        return held.tolist() if isinstance(held, np.ndarray) else held

    return {name: plain(held) for name, held in private._asdict().items()}


def _check_cut(truncation: Any, here: Any, near: Any, text: str) -> None:
    """Fail where a unit moves a count of units by more than one, or what is cut by more than its noise is for."""
    name = truncation.name
    assert _distance(here.above[name], near.above[name], max) <= 1, f"units above move further: {text}"
    for stage, a, b in _cut_sums(truncation, here, near):
        assert _distance(a, b) <= stage.sensitivity_steps, f"a unit moves it further: {text}"


def _cut_sums(truncation: Any, here: Any, near: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield the stage of every threshold, and what it releases of two databases."""
    stages = truncation.stages()
    sums = stages if truncation.method == "race" else stages[1].options
    yield from zip(sums, here.cut[truncation.name], near.cut[truncation.name], strict=True)


def _check_units(truncation: Any, near: Any, cells: list[list[tuple[Any, Any]]], plan: Any, text: str) -> None:
    """Fail where units are cut otherwise than by brute force."""
    measure = plan.query.measure
    part = truncation.name
    if part == ANSWER and measure.kind == "sum":
        part = "positive" if measure.high > 0 else "negative"
    for i, power in enumerate(truncation.each):
        above, numbers = cut_units(cells, part, power, measure, truncation.finer)
        assert near.above[truncation.name][i] == above, f"units above 2^{power}: {text}"
        assert list(near.cut[truncation.name][i]) == numbers, f"units cut at 2^{power}: {text}"


def _distance(a: Any, b: Any, over: Any = sum) -> int:
    return int(over(abs(int(x) - int(y)) for x, y in zip(a, b, strict=True)))


def run(queries: int, seed: int, per_database: int = 25) -> dict[str, int]:
    """Check queries of one count, half of them mutated; return how many of each kind were accepted."""
    rng = random.Random(seed)
    found = {"queries": 0, "accepted": 0, "mutated": 0, "mutated and accepted": 0}
    data = Databases(rng)
    for i in range(queries):
        if i % per_database == per_database - 1:
            data = Databases(rng)
        text = random_query(rng)
        if i % 2:
            text = mutated(rng, text)
        accepted = check(data, text)
        check(data, text, searched=2, added=True)
        found["mutated" if i % 2 else "queries"] += 1
        found["mutated and accepted" if i % 2 else "accepted"] += accepted
    return found


def run_questions(queries: int, seed: int, per_database: int = 25) -> dict[str, int]:
    """Check sums, means and cells, for rows and for units; return how many were accepted."""
    rng = random.Random(seed)
    found = {"rows": 0, "units": 0, "found": 0}
    for i in range(queries):
        if i % per_database == 0:
            data = Databases(rng)
        question = random_question(rng)
        largest = rng.choice([None, None, 1, 2])
        found["rows"] += check(data, question, largest=largest)
        check(data, question, searched=2, largest=largest, added=True)
        found["units"] += check_units(data, question)
        check_units(data, question, added=True)
        found["found"] += check_found(data, question)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    options: Any = parser.parse_args()
    print(run(options.queries, options.seed))
    print(run_questions(options.queries, options.seed))


if __name__ == "__main__":
    main()
