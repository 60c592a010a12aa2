"""Answers to SQL: noise by a public bound, by the smooth sensitivity, and of sums over units cut at a threshold."""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import duckdb
import numpy as np
import polars

from dpstats.privacy import Neighbors, OneOf, Plan, Stage
from dpstats.release.session import Session
from dpstats.sql import PrivateSQL
from dpstats.sql.compile import Source
from dpstats.sql.kinds import Setting
from dpstats.sql.private_sql import Query, SQLPlan
from dpstats.sql.quantiles import SQLQuantilesPlan, choose_unit_points
from registry.entry import Entry, PlantedBug, Understated, having, less_noise
from registry.sparse_vector import InBlocks
from tests.sql.databases import Database, known_engine, replaced, shared

Numbers = list[np.ndarray]
PAIRS = "SELECT COUNT(*) FROM r JOIN s ON r.a = s.a"


def database(r: Any, s: Any = ((0,), (0,), (1,))) -> Database:
    return (("r", "a INTEGER, b INTEGER", tuple(r)), ("s", "a INTEGER", tuple(s)))


class Asked:
    """A query, and what it is asked with; subclasses plant bugs. Queries with the same options share what asks them."""

    made: type[PrivateSQL] = PrivateSQL
    opened: ClassVar[dict[tuple[type, str, Database], PrivateSQL]] = {}

    def __init__(self, text: str, **options: Any) -> None:
        self.text, self.options = text, options
        self.known: dict[Database, tuple[SQLPlan, Any, PrivateSQL]] = {}

    def open(self, data: Database) -> PrivateSQL:
        """Return what asks a database."""
        key = self.made, repr(self.options), data
        if key not in self.opened:
            self.opened[key] = self.made(shared(data), **self.options)
        return self.opened[key]

    def read(self, data: Database) -> tuple[SQLPlan, Any, PrivateSQL]:
        """Return the plan, and the exact numbers of a database."""
        if data not in self.known:
            with known_engine():
                sql = self.open(data)
                query = sql._parsed(self.text)
                plan = sql._kind(query).plan()
                self.known[data] = plan, sql._kind(query).read(plan), sql
        return self.known[data]

    def cut(self, data: Database) -> Numbers:
        """Return the sums that are cut at each threshold, and the number of units above the first."""
        private = self.read(data)[1]
        return [*private.cut["answer"], np.array(private.above["answer"][:1])]

    def sizes(self, data: Database) -> Numbers:
        """Return the numbers of rows that medians are of."""
        return [np.array([cell.size for cell in self.read(data)[1].places[0]])]

    def draw(self, data: Database, rng: np.random.Generator, size: int) -> np.ndarray:
        plan, private, sql = self.read(data)
        if not plan.truncations or plan.method == "race":
            with Session.simulated(plan, rng, size) as session:
                sql._kind(plan.query).release(private, plan, session)
            return np.concatenate([np.atleast_2d(found.T).T for found in session.released.values()], axis=1)
        found, noise = np.empty((size, 2)), InBlocks(rng)
        for i in range(size):
            with Session(plan, noise) as session:
                sql._kind(plan.query).release(private, plan, session)
            place, numbers = session.released["answer"]
            found[i] = place, numbers[0]
        return found

    def public(self, data: Database, budget: Any) -> tuple[Plan, np.ndarray]:
        plan, _, sql = self.read(data)
        if budget is not None:
            sql = PrivateSQL(shared(data), **self.options, budget=budget)
            plan = sql.plan_for(self.text)
        return plan, sql.query(self.text).values


def entry(asked: Asked, name: str, pair: tuple[Database, Database], power: float, **more: Any) -> Entry:
    plan = asked.read(pair[0])[0]
    return Entry(
        name=name,
        covers=PrivateSQL,
        plan=plan,
        draw=asked.draw,
        dataset=pair[0],
        neighbor=pair[1],
        power=power,
        public=asked.public,
        **more,
    )


def small(rows: list[tuple[Any, ...]], n: int, tables: str = "rs") -> Iterator[tuple[Database, Database]]:
    """Yield pairs of databases that differ in a row of r, or of s."""
    for r in itertools.combinations_with_replacement(rows, n):
        for s in itertools.combinations_with_replacement([(0,), (1,)] if "s" in tables else [(0,)], n):
            data = database(r, s)
            if "r" in tables:
                yield from ((data, replaced(data, "r", 0, row)) for row in rows)
            if "s" in tables:
                yield from ((data, replaced(data, "s", 0, row)) for row in [(0,), (1,)])


def numbers(asked: Asked) -> Callable[[Database], Numbers]:
    return lambda data: [asked.read(data)[1].numbers]


class LessNoise(Asked):
    """Planted bug: a quarter of the noise that the guarantee needs."""

    factor = 0.25

    def read(self, data: Database) -> tuple[SQLPlan, Any, PrivateSQL]:
        plan, private, sql = super().read(data)
        return less_noise(plan, self.factor), private, sql


class SharedByCells(LessNoise):
    """Planted bug: every cell has the noise of a single count."""

    factor = 0.5


class LevelAsItIs(Asked):
    """Planted bug: the level of the noise is released with next to none."""

    def read(self, data: Database) -> tuple[SQLPlan, Any, PrivateSQL]:
        plan, private, sql = super().read(data)
        level, answer = plan.stages
        return replace(plan, stages=(replace(level, scale_steps=0.05), answer)), private, sql


def hidden_level() -> Stage:
    """Return a stage that states what the level of the noise moves by: for the brute force."""
    return Stage("level of the noise", "laplace", 1, 1.0, 1, 1.0)


def level(asked: Asked, smoothed: int | None = None) -> Callable[[Database], Numbers]:
    """Return what reads the level; ``smoothed`` times beta, or 0 for no smoothing at all: planted bugs."""

    def read(data: Database) -> Numbers:
        plan, private, sql = asked.read(data)
        if smoothed is None:
            return [np.array([private.level])]
        elastic, limits = sql._kind(plan.query).setting.elastic(plan.query), plan.smooth.limits
        at = [int(np.searchsorted(limits, plan.finer * elastic.at_distance(k))) for k in range(40)]
        return [np.array([max(x - smoothed * k for k, x in enumerate(at))] if smoothed else at[:1])]

    return read


class CutAtTheLargest(PrivateSQL):
    """Planted bug: the last threshold is what some unit adds at most, and not declared."""

    def _kind(self, query: Query) -> Any:
        largest = self._data.run("SELECT max(n) FROM (SELECT count(*) AS n FROM r GROUP BY b)")[0][0]
        self._powers = int(largest - 1).bit_length()
        return super()._kind(query)


class FromTheData(Asked):
    made = CutAtTheLargest


class SharesApart(Asked):
    """Planted bug: both shares of a value are rounded up, and add up to more than the whole."""

    def read(self, data: Database) -> tuple[SQLPlan, Any, PrivateSQL]:
        plan, private, sql = super().read(data)
        numbers = np.asarray(private.numbers)
        return plan, private._replace(numbers=numbers + numbers // 4), sql


class Filed(Asked):
    """A query of a Parquet file, whose writer leaves NaN out of the statistics."""

    def open(self, data: Database) -> PrivateSQL:
        ((name, columns, rows),) = data
        names = [word.split()[0] for word in columns.split(", ")]
        path = Path(tempfile.mkdtemp()) / f"{name}.parquet"
        polars.DataFrame(rows, schema=names, orient="row").write_parquet(path)
        return self.made({name: path}, **self.options)

    def public(self, data: Database, budget: Any) -> tuple[Plan, np.ndarray]:
        _, _, sql = self.read(data)
        if budget is not None:
            sql._budget = budget
        return sql.plan_for(self.text), sql.query(self.text).values


class BelievesStatistics(Filed):
    """Planted bug: a condition that leaves out NaN is taken for true, as the statistics of the file name no NaN."""

    def read(self, data: Database) -> tuple[SQLPlan, Any, PrivateSQL]:
        plan, private, sql = super().read(data)
        engine = sql._data._engine
        made = duckdb.connect()
        (path,) = engine._files  # type: ignore[union-attr]
        ((total,),) = made.execute(f"SELECT sum(least(x, 21)) FROM '{path}' WHERE NOT isnan(x) AND x > 20.5").fetchall()
        step = plan.query.measure.spacing  # type: ignore[union-attr]
        return plan, private._replace(numbers=np.array([round((total or 0) / step) * plan.finer])), sql


def file_entry() -> Entry:
    """Return a sum over a Parquet file in which some entries are NaN or infinite."""
    text = "SELECT SUM(x) FROM f WHERE x > 20.5"
    options: dict[str, Any] = {"epsilon": 1.0, "bounds": {"f.x": (0, 21)}}
    asked, bug = Filed(text, **options), BelievesStatistics(text, **options)
    most: list[tuple[Any, ...]] = [(20.0,), (20.0,), (math.nan,), (math.nan,)]
    first: Database = (("f", "x DOUBLE", tuple(most)),)
    pair = first, replaced(first, "f", 0, (21.0,))

    def pairs() -> Iterator[tuple[Database, Database]]:
        entries = [(20.0,), (21.0,), (math.nan,), (math.inf,), (None,)]
        for data in (replaced(first, "f", 0, entry) for entry in entries):
            yield from ((data, replaced(data, "f", 0, entry)) for entry in entries)

    return entry(
        asked,
        "SQL sum of a Parquet file",
        pair,
        0.3,
        proof="elastic-sensitivity.md",
        integers=numbers(asked),
        pairs=pairs,
        understated=(Understated("statistics are believed", asked.read(first)[0], numbers(bug), lambda: iter([pair])),),
        bugs=(PlantedBug("a quarter of the noise", FiledLessNoise(text, **options).draw, *pair, 1.0, 0.0),),
    )


class FiledLessNoise(Filed):
    """Planted bug: a quarter of the noise that the guarantee needs."""

    def read(self, data: Database) -> tuple[SQLPlan, Any, PrivateSQL]:
        plan, private, sql = super().read(data)
        return less_noise(plan, 0.25), private, sql


def several_entries(first: Database) -> Iterator[Entry]:
    """Yield several aggregates of one query: of one column with COUNT(*), and of two under Gaussian noise."""
    declared = {"categories": {"r.b": [0, 1]}, "bounds": {"r.a": (0, 3), "r.b": (0, 1)}}
    rows = [(0, 0), (3, 1), (1, 1), (None, 1), (2, 2)]
    texts = {
        "Laplace": ("SELECT b, COUNT(*), SUM(a), AVG(a) FROM r GROUP BY b", {"epsilon": 1.0}),
        "Gaussian": ("SELECT COUNT(b), SUM(a), SUM(b) FROM r", {"epsilon": 1.0, "delta": 1e-2}),
        "Laplace, a mean": ("SELECT b, AVG(a) FROM r GROUP BY b", {"epsilon": 1.0}),
        "Laplace, a variance": ("SELECT b, COUNT(*), STDDEV(a) FROM r GROUP BY b", {"epsilon": 1.0}),
        "Laplace, one cell": ("SELECT SUM(a), AVG(a * b) FROM r", {"epsilon": 1.0}),
    }
    for law, (text, options) in texts.items():
        asked = Asked(text, **options, **declared)
        plan = asked.read(first)[0]
        stage = plan.stages[0]
        assert isinstance(stage, Stage) and stage.noise == law.lower().partition(",")[0]
        half = replace(plan, stages=(replace(stage, sensitivity_steps=stage.sensitivity_steps // 2),))
        pair = first, replaced(first, "r", 0, (3, 1))
        yield entry(
            asked,
            f"SQL, several aggregates, {law}",
            pair,
            0.2,
            proof="several-aggregates.md",
            integers=numbers(asked),
            pairs=lambda: small(rows, 2, "r"),
            understated=(
                Understated("one row goes and none comes", half, numbers(asked), lambda pair=pair: iter([pair])),
                Understated(
                    "shares that add up to more than the whole",
                    plan,
                    numbers(SharesApart(text, **options, **declared)),
                    lambda: small(rows, 2, "r"),
                ),
            ),
            bugs=(
                PlantedBug(
                    "a quarter of the noise",
                    LessNoise(text, **options, **declared).draw,
                    *pair,
                    1.0,
                    options.get("delta", 0.0),
                ),
            ),
        )


class Discovered(Asked):
    """Keys that nobody declared; ``factor`` is a planted bug: less noise than the guarantee needs."""

    factor = 1.0

    def read(self, data: Database) -> tuple[SQLPlan, Any, PrivateSQL]:
        plan, private, sql = super().read(data)
        stage = plan.discovery
        touched = replace(stage.touched, scale=stage.touched.scale * self.factor)
        return replace(plan, stages=(replace(stage, touched=touched),)), private, sql

    def draw(self, data: Database, rng: np.random.Generator, size: int) -> np.ndarray:
        plan, private, sql = self.read(data)
        with Session.simulated(plan, rng, size) as session:
            sql._kind(plan.query).release(private, plan, session)
        return np.nan_to_num(session.released["answer"]["rows"][:, :, 0], nan=-1.0)

    def of_all_keys(self, data: Database) -> list[dict[str, np.ndarray]]:
        """Return the integers of the keys 0, 1, 2 and 3: zeros for a key without rows."""
        _, private, _ = self.read(data)
        found = np.zeros((4, private.numbers.shape[1]), dtype=np.int64)
        for (key,), row in zip(private.keys, private.numbers, strict=True):
            found[key] = row
        shares = {"shares": found[:, 1:].ravel()} if found.shape[1] > 1 else {}
        return [{"rows": found[:, 0], **shares}]


class LittleDiscovered(Discovered):
    factor = 0.25


def discovered_entry(aggregates: str, name: str = "") -> Entry:
    """Return aggregates of keys that nobody declared."""
    options = {"epsilon": 3.0, "delta": 1e-2, "categories": {"r.b": "discover"}, "bounds": {"r.a": (0, 3)}}
    asked = Discovered(f"SELECT b, {aggregates} FROM r GROUP BY b", **options)
    full = database([(0, 0)] * 40 + [(0, 1)] * 40)
    pair = full, replaced(full, "r", 0, (3, 1))
    plan = asked.read(full)[0]
    stage = plan.discovery
    blocks = tuple(replace(block, size=2 * block.size) for block in stage.blocks)
    wide = replace(stage.touched, blocks=blocks)
    less = replace(wide, sensitivity=wide.sensitivity / 1.2)
    rows = [(0, 0), (3, 1), (1, 2), (None, 3), (2, None)]
    return entry(
        asked,
        f"SQL, groups that are discovered{name}",
        pair,
        0.2,
        proof="discovery.md",
        integers=asked.of_all_keys,
        pairs=lambda: small(rows, 2, "r"),
        stages=(wide,),
        understated=(
            Understated(
                "a change of the key left out",
                replace(plan, stages=(less,)),
                asked.of_all_keys,
                lambda: small(rows, 2, "r"),
            ),
        ),
        bugs=(PlantedBug("a quarter of the noise", LittleDiscovered(asked.text, **options).draw, *pair, 3.0, 1e-2),),
    )


class FoundQuantiles(Discovered):
    """Quantiles of keys that nobody declared: an attacker looks at the first of three keys."""

    def read(self, data: Database) -> tuple[SQLPlan, Any, PrivateSQL]:
        plan, private, sql = Asked.read(self, data)
        return (less_noise(plan, self.factor) if self.factor < 1 else plan), private, sql

    def draw(self, data: Database, rng: np.random.Generator, size: int) -> np.ndarray:
        plan, private, sql = self.read(data)
        found, noise = np.full((size, 3), -1.0), InBlocks(rng)
        for i in range(size):
            with Session(plan, noise) as session:
                sql._kind(plan.query).release(private, plan, session)
            labels, rows = (session.released["answer"][name] for name in ("labels", "rows"))
            if (0,) in labels:
                place = labels.index((0,))
                found[i] = rows[place, 0], session.released["points"][place], len(labels)
        return found

    def of_all_keys(self, data: Database) -> list[dict[str, np.ndarray]]:
        """Return the numbers of rows of the keys 0, 1, 2 and 3, in steps."""
        plan, private, _ = self.read(data)
        found = np.zeros(4, dtype=np.int64)
        for (key,), own in private.keyed[0]:
            found[key] = own.size * plan.discovery.row_steps
        return [{"rows": found}]


class LittleFoundQuantiles(FoundQuantiles):
    factor = 0.25


def found_quantile_entries() -> Iterator[Entry]:
    """Yield a median of each key that is found, under both relations."""
    text, rows = "SELECT b, MEDIAN(a) FROM r GROUP BY b", [(0, 0), (3, 1), (1, 2), (None, 3), (2, None)]
    for neighbors in Neighbors.REPLACE_ONE, Neighbors.ADD_OR_REMOVE_ONE:
        added = neighbors is Neighbors.ADD_OR_REMOVE_ONE
        options = {
            "epsilon": 3.0,
            "delta": 1e-2,
            "categories": {"r.b": "discover"},
            "bounds": {"r.a": (0, 100)},
            "interval": False,
            "neighbors": neighbors,
        }
        asked = FoundQuantiles(text, **options)
        full = database([(0, 0)] * 21 + [(50, 0)] + [(100, 0)] * 20)
        pair = full, replaced(full, "r", 0, (None if added else 100, 0))
        stage = asked.read(full)[0].discovery
        blocks = tuple(replace(block, size=4) for block in stage.blocks)
        wide = replace(stage.touched, blocks=blocks)

        def pairs(added: bool = added) -> Iterator[tuple[Database, Database]]:
            for first, second in small(rows, 2, "r"):
                yield (first, database(first[0][2][1:])) if added else (first, second)

        less = replace(wide, sensitivity=wide.sensitivity / 1.2)
        yield entry(
            asked,
            f"SQL, medians of groups that are discovered{', private size' * added}",
            pair,
            0.05,
            proof="quantiles.md",
            integers=asked.of_all_keys,
            pairs=pairs,
            stages=(wide,),
            understated=(
                Understated(
                    "a row counted for less", replace(asked.read(full)[0], stages=(less,)), asked.of_all_keys, pairs
                ),
            ),
            bugs=(
                PlantedBug(
                    "a quarter of the noise",
                    LittleFoundQuantiles(text, **{**options, "epsilon": 1.0}).draw,
                    *pair,
                    1.0,
                    1e-2,
                    6000,
                ),
            ),
            most_trials=20_000,
        )


class HalfRange(Asked):
    """Planted bug: the choice of points costs half of what it does."""

    def read(self, data: Database) -> tuple[SQLPlan, Any, PrivateSQL]:
        plan, private, sql = super().read(data)
        assert isinstance(plan, SQLQuantilesPlan)
        rows, choice = plan.stages
        (choice,) = less_noise(replace(plan, stages=(choice,))).stages
        return replace(plan, stages=(rows, choice)), private, sql


class AnyJoin(PrivateSQL):
    """Planted bug: a row of the data may be in several rows of the result."""

    def _kind(self, query: Query) -> Any:
        with mock.patch.object(Setting, "counts_once", return_value=True):
            return super()._kind(query)


class ManyTimes(Asked):
    made = AnyJoin


def quantile_entries() -> Iterator[Entry]:
    """Yield a median of all rows, and one of each cell."""
    options = {
        "epsilon": 4.0,
        "interval": False,
        "bounds": {"r.a": (0, 100)},
        "categories": {"r.b": [0, 1]},
        "public_tables": ["s"],
    }
    rows = [(0, 0), (100, 0), (100, 1), (None, 0), (0, 7)]
    for text, full, row in (
        ("SELECT MEDIAN(a) FROM r WHERE b = 0 OR b IS NULL", [(1, 0), (90, 0), (90, 0)], (100, 0)),
        ("SELECT b, MEDIAN(a) FROM r GROUP BY b", [(0, 0), (90, 0), (90, 0), *[(50, 1)] * 3], (100, 0)),
    ):
        asked, grouped = Asked(text, **options), "GROUP" in text
        data = database(full)
        pair = data, replaced(data, "r", 0, row)
        plan = asked.read(data)[0]
        number = plan.stages[0]
        assert isinstance(number, Stage)
        joined = "SELECT MEDIAN(r.a) FROM r JOIN s ON r.b = s.a"

        bugs = [PlantedBug("half the range", HalfRange(text, **options).draw, *pair, 4.0, 0.0, 40_000)]
        if not grouped:
            crowd = database([(0, 0), *[(90, 1)] * 4], [(0,)] * 4 + [(1,)])
            double = ManyTimes(joined, **options)
            moved = crowd, replaced(crowd, "r", 0, (100, 0))
            bugs.append(PlantedBug("a row four times", double.draw, *moved, 4.0, 0.0, 40_000))
        yield entry(
            asked,
            f"SQL, medians {'of cells' if grouped else 'of all rows'}",
            pair,
            0.3,
            proof="quantiles.md",
            integers=asked.sizes,
            pairs=lambda: small(rows, 2, "r"),
            stages=(number,),
            bugs=tuple(bugs),
            understated=(
                Understated(
                    "one of two counts",
                    replace(plan, stages=(replace(number, sensitivity_steps=1),)),
                    asked.sizes,
                    lambda: small(rows, 2, "r"),
                ),
            )
            if grouped
            else (),
        )


class AllRows(PrivateSQL):
    """Planted bug: all rows of a unit count, whatever the threshold is."""

    def _kind(self, query: Query) -> Any:
        kind: Any = super()._kind(query)
        plan = kind._plan
        kind._plan = lambda query: AllRowsPlan(**vars(plan(query)))
        return kind


class AllRowsPlan(SQLQuantilesPlan):
    @property
    def limits(self) -> Any:
        return tuple((1 << 20, 1 << 20) for _ in super().limits)


class OfUnits(Asked):
    """Quantiles of units: thresholds are drawn one at a time, and for each of them all points."""

    def draw(self, data: Database, rng: np.random.Generator, size: int) -> np.ndarray:
        plan, private, _ = self.read(data)
        noise, places = InBlocks(rng), np.empty(size, dtype=int)
        first, rows, choice = plan.stages
        for i in range(size):
            with Session(replace(plan, stages=(first,)), noise) as session:
                places[i] = plan.threshold.choose(session, private.above)
        found = []
        for place, count in zip(*np.unique(places, return_counts=True), strict=True):
            given = replace(plan, stages=(rows.options[place], choice))
            cells = private.places[place]
            with Session.simulated(given, rng, int(count)) as session:
                counted = session.add(plan.rows, np.array([cell.size for cell in cells]))
                choose_unit_points(cells, counted, plan, place, session)
            released = [np.atleast_2d(each.T).T for each in session.released.values()]
            found.append(np.column_stack([np.full(count, place), *released]))
        return np.concatenate(found)

    def counts(self, data: Database) -> Numbers:
        """Return the numbers of rows for each limit of a unit, and the number of units above the first limit."""
        _, private, _ = self.read(data)
        sizes = [np.array([cell.size for cell in cells]) for cells in private.places]
        return [*sizes, np.array(private.above[:1])]


class LittleOfUnits(OfUnits, LessNoise):
    """Planted bug: a quarter of the noise."""


class Untruncated(OfUnits):
    made = AllRows


def unit_quantile_entries() -> Iterator[Entry]:
    """Yield a median where a unit has several rows, and one of each cell, under both relations."""
    shared = {
        "epsilon": 2.0,
        "interval": False,
        "bounds": {"r.a": (0, 100)},
        "categories": {"r.b": [0, 1]},
        "unit": {"r": "u"},
        "unit_limit": 2,
    }

    def units(*held: tuple[int | None, int, int | None]) -> Database:
        return (("r", "a INTEGER, b INTEGER, u INTEGER", held),)

    others = [(90, 0, 1), (90, 0, 1)]
    full, moved = units(*[(1, 0, 0)] * 3, *others), units(*[(100, 0, 7)] * 3, *others)
    gone = units(*others, *[(1, 0, None)] * 3)
    for neighbors in Neighbors.REPLACE_ONE, Neighbors.ADD_OR_REMOVE_ONE:
        added = neighbors is Neighbors.ADD_OR_REMOVE_ONE
        for text in "SELECT MEDIAN(a) FROM r", "SELECT b, MEDIAN(a) FROM r GROUP BY b":
            options = {**shared, "neighbors": neighbors}
            asked = OfUnits(text, **options)
            plan = asked.read(full)[0]
            rows = plan.stages[1]
            assert isinstance(rows, OneOf)

            def pairs(added: bool = added) -> Iterator[tuple[Database, Database]]:
                for n, m in itertools.product((0, 1, 3), repeat=2):
                    # A unit with n rows in one cell and m in the other is there or not, or another one has them.
                    there = [*[(0, 0, 9)] * n, *[(0, 1, 9)] * m]
                    yield units(*others, *there), units(*others)
                    if not added:
                        yield units(*others, *there), units(*others, *[(7, 1, 10)] * n, *[(50, 0, 10)] * m)

            bug = Untruncated(text, **options)
            first = replace(plan, stages=rows.options[:1])
            many = units(*[(1, 0, 0)] * 9, *others), units(*others)
            yield entry(
                asked,
                f"SQL, medians of units {'of cells' if 'GROUP' in text else 'of all rows'}{', private size' * added}",
                (full, gone if added else moved),
                0.1,
                proof="quantiles.md",
                integers=asked.counts,
                pairs=pairs,
                stages=(*rows.options, Stage("units above 1", "laplace", 1, 1.0, 1, 1.0, neighbors=neighbors)),
                bugs=(
                    PlantedBug(
                        "a quarter of the noise",
                        LittleOfUnits(text, **options).draw,
                        full,
                        gone if added else moved,
                        2.0,
                        0.0,
                        20_000,
                    ),
                ),
                understated=(
                    Understated(
                        "all rows of a unit",
                        first,
                        lambda data, bug=bug: bug.counts(data)[:1],
                        lambda many=many: iter([many]),
                    ),
                ),
                most_trials=20_000,
            )


def left_entry() -> Entry:
    """Return public rows that count with a partner, or without: a private row leaves two, and one comes to two."""
    where = "r.a = 0 AND s.a IS NULL OR r.a = 1 AND s.a IS NOT NULL"
    text = f"SELECT COUNT(*) FROM r LEFT JOIN s ON r.a = s.a WHERE {where}"
    options = {"epsilon": 1.0, "public_tables": ["r"], "keys": {"s": "a"}}
    asked = Asked(text, **options)
    held = [(0, 0), (0, 1), (1, 0), (1, 1)]
    first = database(held, [(0,), (2,)])
    pair = first, replaced(first, "s", 0, (1,))
    plan = asked.read(first)[0]
    half = replace(plan, stages=(replace(plan.stages[0], sensitivity_steps=2),))

    def pairs() -> Iterator[tuple[Database, Database]]:
        for s in itertools.permutations([(0,), (1,), (2,), (None,)], 2):
            data = database(held, s)
            yield from ((data, replaced(data, "s", 0, row)) for row in [(0,), (1,), (3,)] if row != s[1])

    return entry(
        asked,
        "SQL count, left join",
        pair,
        0.5,
        proof="elastic-sensitivity.md",
        integers=numbers(asked),
        pairs=pairs,
        understated=(Understated("bounded as an inner join", half, numbers(asked), pairs),),
        bugs=(PlantedBug("a quarter of the noise", LessNoise(text, **options).draw, *pair, 1.0, 0.0, 6000),),
    )


class AnyKey(PrivateSQL):
    """Planted bug: the end of a path may have a value twice, so that an item is of two people."""

    def __init__(self, *given: Any, **options: Any) -> None:
        with mock.patch.object(Source, "frequency", return_value=1):
            super().__init__(*given, **options)


class WithoutKeys(Asked):
    made = AnyKey


def path_entry() -> Entry:
    """Return a count of items, which are of the people of their orders."""
    options = {"epsilon": 2.0, "unit": {"r": "b", "s": "a -> r.a"}, "unit_limit": 2}
    asked = Asked("SELECT COUNT(*) FROM s", **options)

    def orders(held: Any, items: Any) -> Database:
        return database(held, [(item,) for item in items])

    others = [(i, 100 + i) for i in range(20)]
    full = orders([*others, (20, 0)], [*range(20), 20, 20, 20, 20])
    none = orders([*others, (21, 0)], [*range(20), None, None, None, None])
    (truncation,) = asked.read(full)[0].truncations

    def pairs() -> Iterator[tuple[Database, Database]]:
        for n, m in itertools.product((0, 1, 3, 5), repeat=2):
            # A person with n items in two orders is replaced by one with m in one, or goes; an item has no order.
            for other in (3, None):
                yield (
                    orders([(1, 0), (2, 2), (3, 2)], [1, 9, *[2 + i % 2 for i in range(n)]]),
                    orders([(1, 0), (4, other)], [1, 9, *[4] * m]),
                )

    # An order of everybody has the same number as one of the person: all items are of both.
    shared = [*[(0, 100 + i) for i in range(20)], (0, 0)], [0] * 4
    counted = Stage("units above 1", "laplace", 1, 1.0, 1, 1.0)
    return entry(
        asked,
        "SQL count of units by a path",
        (full, none),
        0.05,
        proof="truncated-sums.md",
        integers=asked.cut,
        pairs=pairs,
        stages=(*truncation.stages()[1].options, counted),  # type: ignore[union-attr]
        bugs=(
            PlantedBug(
                "a key with a value twice",
                WithoutKeys(asked.text, **options).draw,
                orders(*shared),
                orders([(0, 0)], [None] * 4),
                2.0,
                0.0,
                6000,
            ),
        ),
        most_trials=100_000,
    )


@having({}, {"SQL count, joined with a public table": {"exact_audit": True}})
def entries() -> Iterator[Entry]:
    yield discovered_entry("COUNT(*), SUM(a)")
    yield discovered_entry("COUNT(*)", ", counts alone")
    yield path_entry()
    yield left_entry()
    yield file_entry()
    yield from quantile_entries()
    yield from unit_quantile_entries()
    yield from found_quantile_entries()
    elastic = "elastic-sensitivity.md"
    rows = [(0, 0), (1, 1), (None, 1)]
    public = Asked(PAIRS, epsilon=1.0, public_tables=["s"])
    first = database([(0, 0), (1, 0)])
    pair = first, replaced(first, "r", 0, (None, 0))
    once = public.read(first)[0]
    wrong = replace(once, stages=(replace(once.stages[0], sensitivity_steps=1, scale_steps=1.0),))
    yield entry(
        public,
        "SQL count, joined with a public table",
        pair,
        0.5,
        proof=elastic,
        integers=numbers(public),
        pairs=lambda: (
            (data, replaced(data, "r", 0, row))
            for r in itertools.combinations_with_replacement(rows, 2)
            for data in [database(r)]
            for row in rows
        ),
        understated=(Understated("the frequency of the wrong key", wrong, numbers(public), lambda: iter([pair])),),
        bugs=(PlantedBug("a quarter of the noise", LessNoise(PAIRS, **public.options).draw, *pair, 1.0, 0.0, 6000),),
    )
    cells = Asked("SELECT b, COUNT(*) FROM r GROUP BY b", epsilon=1.0, categories={"r.b": [0, 1, 2]})
    pair = first, replaced(first, "r", 0, (0, 2))
    yield entry(
        cells,
        "SQL counts of cells",
        pair,
        0.3,
        proof=elastic,
        integers=numbers(cells),
        pairs=lambda: small([(0, 0), (0, 1), (1, 2)], 2, "r"),
        bugs=(
            PlantedBug(
                "cells share the noise of one count", SharedByCells(cells.text, **cells.options).draw, *pair, 1.0, 0.0
            ),
        ),
    )
    yield from several_entries(first)
    for law, options in (("pure", {"epsilon": 1.0, "interval": False}), ("Laplace", {"epsilon": 2.0, "delta": 1e-2})):
        private = Asked(PAIRS, **options)
        # Eight rows of r and one of s that goes with them all, or with none.
        many = database([(0, 0)] * 8, [(0,), (1,)])
        pair = many, replaced(many, "s", 0, (2,))
        bug = LessNoise(PAIRS, **options)
        bugs = [PlantedBug("a quarter of the noise", bug.draw, *pair, options["epsilon"], options.get("delta", 0.0))]
        if law == "Laplace":
            shown = LevelAsItIs(PAIRS, **options)
            few = database([(0, 0)], [(1,)])
            more = few, replaced(database([(0, 0)] * 2, [(1,)]), "r", 1, (1, 0))
            more = database([(0, 0)] * 2, [(1,)]), more[1]
            bugs.append(PlantedBug("the level with next to no noise", shown.draw, *more, 2.0, 1e-2, 6000))
        once = private.read(many)[0]
        levels: Plan = replace(once, stages=(hidden_level(),))
        yield entry(
            private,
            f"SQL count, joined with a private table, {law}",
            pair,
            0.05,
            proof=elastic,
            integers=level(private),
            pairs=lambda: small([(0, 0), (1, 0)], 2),
            stages=(hidden_level(),),
            understated=tuple(
                Understated(name, levels, level(private, smoothed), lambda: small([(0, 0), (1, 0)], 2))
                for name, smoothed in (("not smoothed", 0), ("smoothed by twice beta", 2))
            ),
            bugs=tuple(bugs),
        )
    units = {"epsilon": 2.0, "unit": {"r": "b"}, "unit_limit": 2}
    asked = Asked("SELECT COUNT(*) FROM r", **units)
    # Twenty units of one row each; one of them has four, or none.
    held = [(0, i) for i in range(20)]
    full = (("r", "a INTEGER, b INTEGER", (*held, *[(0, 0)] * 3)),)
    none = (("r", "a INTEGER, b INTEGER", (*held[1:], *[(0, None)] * 4)),)
    (truncation,) = asked.read(full)[0].truncations

    def unit_pairs() -> Iterator[tuple[Database, Database]]:
        kept = [(0, 0), (0, 1)]
        for n, m in itertools.product((0, 1, 3, 5), repeat=2):
            # A unit with n rows is replaced by one with m, or goes.
            for other in (3, None):
                both = (
                    (("r", "a INTEGER, b INTEGER", (*kept, *[(0, 2)] * n)),),
                    (("r", "a INTEGER, b INTEGER", (*kept, *[(0, other)] * m)),),
                )
                yield both

    options = truncation.stages()[1].options  # type: ignore[union-attr]
    counted = Stage("units above 1", "laplace", 1, 1.0, 1, 1.0)
    yield entry(
        asked,
        "SQL count of units, cut at a threshold",
        (full, none),
        0.05,
        proof="truncated-sums.md",
        integers=asked.cut,
        pairs=unit_pairs,
        stages=(*options, counted),
        bugs=(PlantedBug("a quarter of the noise", LessNoise(asked.text, **units).draw, full, none, 2.0, 0.0, 6000),),
        most_trials=100_000,
    )
    race = Asked(asked.text, **units, truncation="race")
    yield entry(
        race,
        "SQL count of units, by a race",
        (full, none),
        0.02,
        proof="truncated-sums.md",
        integers=lambda data: list(race.read(data)[1].cut["answer"]),
        pairs=unit_pairs,
        bugs=(
            PlantedBug(
                "every candidate at the full budget",
                LessNoise(race.text, **units, truncation="race").draw,
                full,
                none,
                2.0,
                0.0,
            ),
        ),
    )
