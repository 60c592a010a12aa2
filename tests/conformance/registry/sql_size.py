"""Answers to SQL where the numbers of rows are private: a row, or a unit with all its rows, is there or it is not."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dpstats.privacy import Neighbors, Stage
from dpstats.sql import PrivateSQL
from dpstats.sql.private_sql import Query
from registry.entry import Entry, PlantedBug, Understated
from registry.sql import Asked, HalfRange, LessNoise, database, entry, hidden_level, level, numbers
from tests.sql.databases import Database

ADDED: dict[str, Any] = {"neighbors": "add_or_remove"}
PROOF = "private-size.md"
DECLARED: dict[str, Any] = {
    "epsilon": 1.0,
    "categories": {"r.b": [0, 1]},
    "bounds": {"r.a": (0, 4), "r.b": (0, 1)},
    **ADDED,
}
ROWS = [(0, 0), (4, 1), (1, 1), (None, 1), (2, 2)]

Pair = tuple[Database, Database]


def without(data: Database, table: str, place: int = 0) -> Database:
    """Return a database without one row of a table."""
    return tuple(
        (name, columns, (*rows[:place], *rows[place + 1 :]) if name == table else rows) for name, columns, rows in data
    )


def row_pairs() -> Iterator[Pair]:
    """Yield databases of up to two rows of r, and the same without one."""
    for n in (1, 2):
        for held in itertools.product(ROWS, repeat=n):
            data = database(held)
            yield data, without(data, "r")


class PairedShares(PrivateSQL):
    """Planted bug: a sum and a difference of shares, at the movement of the shares."""

    def _parsed(self, sql: str) -> Query:
        query = super()._parsed(sql)
        measure: Any = query.measure
        return replace(query, measure=replace(measure, paired=True))


class Paired(Asked):
    made = PairedShares


class CountTold(Asked):
    """Planted bug: the sum is noisy, and the number of rows that it is divided by is exact."""

    def draw(self, data: Database, rng: np.random.Generator, size: int) -> np.ndarray:
        found = super().draw(data, rng, size)
        found[:, 0] = self.read(data)[1].numbers[0]
        return found


def one_row(text: str, name: str, power: float, *bugs: Any, gaussian: bool = False) -> Entry:
    """Return an answer that one row moves; each bug is what asks instead."""
    options = {**DECLARED, "delta": 1e-2} if gaussian else DECLARED
    asked, delta = Asked(text, **options), 1e-2 if gaussian else 0.0
    first = database([(4, 1), (1, 0)])
    pair = first, without(first, "r")
    plan = asked.read(first)[0]
    stage = plan.stages[0]
    assert isinstance(stage, Stage) and stage.neighbors is Neighbors.ADD_OR_REMOVE_ONE
    return entry(
        asked,
        f"SQL, private size, {name}",
        pair,
        power,
        proof=PROOF,
        integers=numbers(asked),
        pairs=row_pairs,
        bugs=tuple(
            PlantedBug(str(kind.__doc__).partition(": ")[2].rstrip("."), kind(text, **options).draw, *pair, 1.0, delta)
            for kind in (LessNoise, *bugs)
        ),
        understated=(
            Understated(
                "half of what a row adds",
                replace(plan, stages=(replace(stage, sensitivity_steps=stage.sensitivity_steps // 2),)),
                numbers(asked),
                row_pairs,
            ),
        ),
    )


def paired_entry() -> Entry:
    """Return the shares of a single cell, which are released apart."""
    text = "SELECT SUM(a), AVG(a * b) FROM r"
    made = one_row(text, "several aggregates of one cell", 0.2)
    wrong = Understated(
        "shares paired at the movement of shares", made.plan, numbers(Paired(text, **DECLARED)), row_pairs
    )
    return replace(made, understated=(*made.understated, wrong))


def left_entry() -> Entry:
    """Return values of partners: an added row gives one to rows that were without, which go and come."""
    text = "SELECT SUM(COALESCE(s.a, 0)), AVG(COALESCE(s.a, 0)) FROM r LEFT JOIN s ON r.a = s.a"
    options = {"epsilon": 1.0, "public_tables": ["r"], "keys": {"s": "a"}, "bounds": {"s.a": (0, 4)}, **ADDED}
    asked = Asked(text, **options)
    held = [(4, 0), (4, 1), (1, 0)]
    first = database(held, [(4,), (2,)])
    pair = first, without(first, "s")
    plan = asked.read(first)[0]
    (stage,) = plan.additive

    def pairs() -> Iterator[Pair]:
        for s in itertools.permutations([(0,), (1,), (4,), (None,)], 2):
            data = database(held, s)
            yield data, without(data, "s")

    inner = replace(plan, stages=(replace(stage, sensitivity_steps=stage.sensitivity_steps // 2),))
    return entry(
        asked,
        "SQL, private size, left join",
        pair,
        0.2,
        proof=PROOF,
        integers=numbers(asked),
        pairs=pairs,
        understated=(Understated("bounded as an inner join", inner, numbers(asked), pairs),),
        bugs=(PlantedBug("a quarter of the noise", LessNoise(text, **options).draw, *pair, 1.0, 0.0, 6000),),
    )


def join_entry(delta: float) -> Entry:
    """Return a count of pairs, with noise of a private scale."""
    text = "SELECT COUNT(*) FROM r JOIN s ON r.a = s.a"
    options = {"epsilon": 2.0, "delta": delta, "interval": bool(delta), **ADDED}
    asked = Asked(text, **options)
    # Eight rows of r and one of s that goes with them all.
    many = database([(0, 0)] * 8, [(1,), (0,)])
    pair = many, without(many, "s", 1)
    plan = asked.read(many)[0]
    hidden = replace(hidden_level(), neighbors=Neighbors.ADD_OR_REMOVE_ONE)
    levels = replace(plan, stages=(hidden,))

    def pairs() -> Iterator[Pair]:
        for r, s in itertools.product([[(0, 0)], [(0, 0)] * 2, [(0, 0), (1, 0)]], [[(0,)], [(0,), (0,)], [(0,), (1,)]]):
            data = database(r, s)
            yield from ((data, without(data, table)) for table in "rs")

    return entry(
        asked,
        f"SQL, private size, joined with a private table, {'Laplace' if delta else 'pure'}",
        pair,
        0.05,
        proof=PROOF,
        integers=level(asked),
        pairs=pairs,
        stages=(hidden,),
        understated=(Understated("not smoothed", levels, level(asked, 0), pairs),),
        bugs=(PlantedBug("a quarter of the noise", LessNoise(text, **options).draw, *pair, 2.0, delta),),
    )


def unit_entry() -> Entry:
    """Return counts of two groups, where a person comes with all rows."""
    text = "SELECT a, COUNT(*) FROM r GROUP BY a"
    options = {"epsilon": 2.0, "unit": "b", "unit_limit": 2, "categories": {"r.a": [0, 1]}, **ADDED}
    asked = Asked(text, **options)
    others = [(0, 10 + i) for i in range(20)]
    full, none = (database([*others, *own]) for own in ([(0, 0)] * 4, []))
    (truncation,) = asked.read(full)[0].truncations

    def pairs() -> Iterator[Pair]:
        for n, m in itertools.product((0, 1, 3, 5), repeat=2):
            yield database([(0, 1), (1, 1), *[(0, 0)] * n, *[(1, 0)] * m]), database([(0, 1), (1, 1)])

    relation = Neighbors.ADD_OR_REMOVE_ONE
    counted = Stage("units above 1", "laplace", 1, 1.0, 1, 1.0, neighbors=relation)
    sums = truncation.stages()[1]
    assert all(stage.neighbors is relation for stage in (*truncation.stages(), *sums.options))  # type: ignore[union-attr]
    return entry(
        asked,
        "SQL, private size, units by group",
        (full, none),
        0.05,
        proof=PROOF,
        integers=asked.cut,
        pairs=pairs,
        stages=(*sums.options, counted),  # type: ignore[union-attr]
        bugs=(PlantedBug("a quarter of the noise", LessNoise(text, **options).draw, full, none, 2.0, 0.0, 6000),),
        most_trials=100_000,
    )


def quantile_entries() -> Iterator[Entry]:
    """Yield a median of all rows, and one of each cell."""
    options = {**DECLARED, "epsilon": 4.0, "interval": False, "bounds": {"r.a": (0, 100)}}
    for text, held in (
        ("SELECT MEDIAN(a) FROM r", [(2, 0), (98, 0), (99, 0)]),
        ("SELECT b, MEDIAN(a) FROM r GROUP BY b", [(50, 0), (99, 0), *[(50, 1)] * 3]),
    ):
        asked = Asked(text, **options)
        full = database([(1, 0), *held])
        pair = full, without(full, "r")
        number, choice = asked.read(full)[0].stages
        relation = Neighbors.ADD_OR_REMOVE_ONE
        assert isinstance(number, Stage) and number.neighbors is choice.neighbors is relation  # type: ignore[union-attr]

        yield entry(
            asked,
            f"SQL, private size, medians {'of cells' if 'GROUP' in text else 'of all rows'}",
            pair,
            0.2,
            proof=PROOF,
            integers=asked.sizes,
            pairs=row_pairs,
            stages=(number,),
            bugs=(PlantedBug("half the range", HalfRange(text, **options).draw, *pair, 4.0, 0.0, 40_000),),
        )


def entries() -> Iterator[Entry]:
    yield from quantile_entries()
    yield one_row("SELECT b, COUNT(*) FROM r GROUP BY b", "counts of cells", 0.3)
    yield one_row("SELECT AVG(a) FROM r", "a mean", 0.2, CountTold)
    yield one_row("SELECT b, COUNT(*), SUM(a), AVG(a) FROM r GROUP BY b", "several aggregates", 0.2)
    yield one_row("SELECT b, COUNT(b), SUM(a) FROM r GROUP BY b", "several, Gaussian", 0.2, gaussian=True)
    yield paired_entry()
    yield left_entry()
    yield unit_entry()
    yield join_entry(0.0)
    yield join_entry(1e-2)
