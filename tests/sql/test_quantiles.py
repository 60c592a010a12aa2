"""MEDIAN and quantiles in SQL: the releases of PrivateQuantile and GroupQuantiles, bit by bit, and what is refused."""

from __future__ import annotations

import hashlib
import itertools
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import binom

from dpstats.errors import BudgetExceeded, DPStatsError, InvalidParameter
from dpstats.groups import GroupQuantiles
from dpstats.groups.group_points import choose_group_points, found_quantiles_plan, group_quantiles_plan
from dpstats.inference.noisy_counts import FoundCounts, NormalNoise
from dpstats.privacy import Choice, Discovery, OneOf, PrivacyBudget, PrivacyGuarantee, Stage, compose
from dpstats.privacy.events import BoundedRange
from dpstats.privacy.guarantee import parse_neighbors
from dpstats.quantiles import PrivateQuantile
from dpstats.quantiles.grid import binomial, check_grid, group_rank_errors, group_windows, windows
from dpstats.quantiles.quantile import choose_points
from dpstats.quantiles.quantile_plan import HIGH, LOW, observed_plan, points_plan
from dpstats.release.groups import LARGEST_NESTED, nested_reach
from dpstats.sql import PrivateSQL, QuantileAnswers
from dpstats.sql.compile import Compiled
from dpstats.sql.quantiles import SQLQuantilesPlan, _is_quick, sort_places
from tests.sql.databases import known_engine

ROWS = 4000
DECLARED: dict[str, Any] = {
    "epsilon": 1.0,
    "categories": {"r.g": ["a", "b"]},
    "bounds": {"r.x": (-3.5, 700.25), "r.n": (0, 50)},
    "public_tables": ["s"],
}


def connection() -> Any:
    """Return a table r of numbers with missing ones, and a public table s of its groups, of which b is twice."""
    rng = np.random.default_rng(0)
    db = duckdb.connect()
    db.execute("CREATE TABLE r (x DOUBLE, n INTEGER, g VARCHAR)")
    x = rng.lognormal(4, 1, ROWS).tolist()
    x[:6] = [math.nan, math.inf, -math.inf, -0.0, 1e308, None]  # type: ignore[list-item]
    n = [None if i % 9 == 0 else int(value) for i, value in enumerate(rng.poisson(7, ROWS))]
    rows = pl.DataFrame({"x": x, "n": n, "g": rng.choice(["a", "b", "c"], ROWS).tolist()}).to_arrow()
    db.register("rows", rows)
    db.execute("INSERT INTO r SELECT * FROM rows")
    db.unregister("rows")
    db.execute("CREATE TABLE s AS SELECT unnest(['a', 'b', 'b']) AS g, unnest([1, 2, 3]) AS k")
    return db


DB = connection()


def fetch(text: str) -> np.ndarray:
    return np.array(DB.execute(text).fetchall(), dtype=float)[:, 0]


def test_quantiles_are_those_of_the_estimator_bit_by_bit() -> None:
    answer = PrivateSQL(DB, **DECLARED, random_state=3).query(
        "SELECT QUANTILE_CONT(x, 0.9) AS high, MEDIAN(x), PERCENTILE_CONT(0.75) WITHIN GROUP (ORDER BY x DESC) FROM r "
        "WHERE g <> 'c'"
    )
    assert isinstance(answer, QuantileAnswers)
    # NULL, NaN and infinity are missing.
    x = np.clip(fetch("SELECT x FROM r WHERE g <> 'c' AND isfinite(x)"), -3.5, 700.25)
    x = np.append(x, [np.nan] * (ROWS - x.size))
    model = PrivateQuantile([0.9, 0.5, 0.25], bounds=(-3.5, 700.25), epsilon=1.0, missing="drop", random_state=3).fit(x)
    assert answer.values.tolist() == [model.quantile_.tolist()] and answer.rows.tolist() == [model.rows_]
    assert (answer.low.tolist(), answer.high.tolist()) == ([model.low_.tolist()], [model.high_.tolist()])
    assert answer.labels == ("high", "median_x", "quantile_0.25_x")
    assert answer["high"] == answer.values[0, 0]


def test_medians_by_cell_are_those_of_groups_bit_by_bit() -> None:
    answer = PrivateSQL(DB, **DECLARED, random_state=3).query("SELECT g, MEDIAN(n) AS m FROM r GROUP BY g")
    n = fetch("SELECT n FROM r")
    labels = np.array(DB.execute("SELECT g FROM r").fetchall())[:, 0]
    model = GroupQuantiles(groups=["a", "b"], bounds=(0, 50), step=1, epsilon=1.0, missing="drop", random_state=3).fit(
        n, labels
    )
    assert answer.values[:, 0].tolist() == model.quantile_.tolist()
    assert answer.low[:, 0].tolist() == model.low_.tolist() and answer.high[:, 0].tolist() == model.high_.tolist()
    assert answer.rows.tolist() == model.counts_.tolist() and answer.cells == (("a",), ("b",))


def test_places_are_those_of_the_grid() -> None:
    """Random numbers of all types, at ties and beyond the bounds."""
    rng = np.random.default_rng(1)
    for low, high in ((-3.5, 700.25), (0.1, 0.7), (-1e15, 1e15), (0, 1e-130)):
        grid = check_grid((low, high), None)
        ties = grid.values(rng.integers(0, grid.steps, 300)) + grid.spacing / 2
        values = np.concatenate(
            [rng.uniform(low, high, 300), ties, np.nextafter(ties, -np.inf), [low, high, -0.0, 1e308, -1e308]]
        )
        db = duckdb.connect()
        db.execute("CREATE TABLE t (i INTEGER, x DOUBLE, m DECIMAL(18, 3))")
        decimals = [Decimal(round(float(v) * 1000) % 10**9) / 1000 for v in np.clip(values, -1e9, 1e9)]
        db.executemany(
            "INSERT INTO t VALUES (?, ?, ?)", list(zip(range(values.size), values.tolist(), decimals, strict=True))
        )
        sql = PrivateSQL(db, epsilon=1.0, bounds={"t.x": (low, high), "t.m": (low, high)})
        for column, expected in (("x", values), ("m", np.array([float(d) for d in decimals]))):
            query = sql._parsed(f"SELECT MEDIAN({column}) FROM t")
            compiled = Compiled(query, {"t": sql._catalogue.tables["t"]}, sql._data.dialect)
            found = sort_places(sql._data.columns(*compiled.places()), query)
            assert np.array_equal(found[0], np.sort(grid.places(expected)))


@pytest.mark.parametrize("files", [False, True])
def test_places_of_many_groups_are_those_of_their_rows(files: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    x: list[float | None] = [*rng.normal(50, 30, 2000).tolist(), math.nan, math.inf, -math.inf, None, -0.0, 100.5, 0.5]
    g = [f"g{i}" if i else None for i in rng.integers(0, 14, len(x))]
    table = pa.table({"x": x, "g": g, "h": rng.integers(0, 3, len(x)).tolist()})
    db = duckdb.connect()
    db.register("rows", table)
    db.execute("CREATE TABLE t AS FROM rows")
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=200)
    levels = [f"g{i}" for i in range(11, 0, -1)]
    sql = PrivateSQL(
        {"t": tmp_path / "t.parquet"} if files else db,
        epsilon=1.0,
        bounds={"t.x": (0, 100)},
        categories={"t.g": levels, "t.h": [2, 0]},
    )
    query = sql._parsed("SELECT h, g, MEDIAN(x) FROM t GROUP BY h, g")
    compiled = Compiled(query, {"t": sql._catalogue.tables["t"]}, sql._data.dialect)
    columns = sql._data.columns(*compiled.places())
    assert len(columns) == 2 and query.quantiles is not None
    rows = list(zip(x, g, table["h"].to_pylist(), strict=True))
    for found, (h, label) in zip(sort_places(columns, query), itertools.product([2, 0], levels), strict=True):
        own = np.array([a for a, b, c in rows if a is not None and math.isfinite(a) and (b, c) == (label, h)])
        assert found.size > 20 and np.array_equal(found, np.sort(query.quantiles.grid.places(own)))


def test_computed_values_and_joins_with_public_keys() -> None:
    sql = PrivateSQL(DB, **DECLARED, random_state=0)
    both = sql.query("SELECT MEDIAN(CASE WHEN n > 5 THEN n END) FILTER (WHERE g = 'a') AS m FROM r")
    exact = DB.execute("SELECT MEDIAN(n) FROM r WHERE n > 5 AND g = 'a'").fetchone()[0]
    assert abs(both.values[0, 0] - exact) <= 1
    assert both.low[0, 0] <= exact <= both.high[0, 0]
    once = sql.query("SELECT MEDIAN(n) FROM r SEMI JOIN s USING (g)")
    assert abs(once.rows[0] - DB.execute("SELECT COUNT(n) FROM r WHERE g <> 'c'").fetchone()[0]) < 150
    text = "quantiles are chosen by their ranks: sd of a rank's error"
    assert text in sql.explain("SELECT MEDIAN(n) FROM r") and "private: 1" in sql.explain("SELECT MEDIAN(n) FROM r")


def test_order_and_level_are_public_choices() -> None:
    sql = PrivateSQL(DB, **DECLARED, confidence_level=0.8, random_state=0)
    answer = sql.query("SELECT g, MEDIAN(x) FROM r GROUP BY g ORDER BY g DESC LIMIT 1")
    assert answer.cells == (("b",),) and answer.level == 0.8
    assert answer.confidence_interval().confidence_level == 0.8 and "80% low" in str(answer)
    with pytest.raises(InvalidParameter, match=r"confidence_level must be 0.8"):
        answer.records(0.95)
    record = answer.records()[0]
    assert record["g"] == "b" and record["median_x_low"] <= record["median_x"] <= record["median_x_high"]
    rising = sql.query("SELECT g, MEDIAN(x) FROM r GROUP BY g ORDER BY MEDIAN(x) DESC").values[:, 0]
    assert rising[0] >= rising[1]
    bare = PrivateSQL(DB, **DECLARED, interval=False, random_state=0).query("SELECT MEDIAN(x) FROM r")
    assert bare.level is None and np.isnan(bare.low).all() and "low" not in bare.records()[0]
    with pytest.raises(DPStatsError, match="no intervals"):
        bare.confidence_interval()


def test_few_rows_have_no_estimate() -> None:
    answer = PrivateSQL(DB, **DECLARED, random_state=0).query("SELECT MEDIAN(x) FROM r WHERE n = 21")
    assert np.isnan(answer.values).all() and (answer.low[0, 0], answer.high[0, 0]) == (-3.5, 700.25)
    assert "NaN: too few rows" in str(answer)
    empty = duckdb.connect()
    empty.execute("CREATE TABLE e (x INTEGER)")
    assert np.isnan(PrivateSQL(empty, epsilon=1.0, bounds={"e.x": (0, 9)}).query("SELECT MEDIAN(x) FROM e").values)


def test_the_budget_is_charged_once_and_before_the_rows_are_read() -> None:
    budget = PrivacyBudget(epsilon=1.5)
    sql = PrivateSQL(DB, **DECLARED, budget=budget)
    sql.query("SELECT g, MEDIAN(x) FROM r GROUP BY g")
    assert budget.spent.epsilon == pytest.approx(1.0)
    with pytest.raises(BudgetExceeded):
        sql.query("SELECT MEDIAN(x) FROM r")
    pure = PrivateSQL(DB, **DECLARED, delta=1e-6).plan_for("SELECT MEDIAN(x) FROM r")
    assert pure.guarantee.delta == 0 and pure.method == "ranks"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT MEDIAN(n), COUNT(*) FROM r", "a quantile beside other aggregates"),
        ("SELECT MEDIAN(n), MEDIAN(x) FROM r", "quantiles of several columns"),
        ("SELECT MEDIAN(r.n), MEDIAN(q.n) FROM r JOIN r q ON r.n = q.n", "quantiles of several columns|this join"),
        ("SELECT g, MEDIAN(n), QUANTILE_CONT(n, 0.9) FROM r GROUP BY g", "several quantiles with GROUP BY"),
        ("SELECT MEDIAN(n), QUANTILE_CONT(n, 0.5) FROM r", "each quantile once"),
        ("SELECT MEDIAN(n) AS a, QUANTILE_CONT(n, 0.3) AS A FROM r", "a different name"),
        ("SELECT g, MEDIAN(n) FROM r GROUP BY g HAVING MEDIAN(n) > 3", "HAVING or LIMIT by the values"),
        ("SELECT g, MEDIAN(n) FROM r GROUP BY g ORDER BY 2 LIMIT 1", "HAVING or LIMIT by the values"),
        ("SELECT MEDIAN(r.n) FROM r JOIN s ON r.g = s.g", "a quantile in this join"),
        ("SELECT MEDIAN(r.n) FROM r JOIN r r2 ON r.n = r2.n", "a quantile in this join"),
        ("SELECT MEDIAN(s.k) FROM s", "have declared bounds of its values"),
        ("SELECT MEDIAN(DISTINCT n) FROM r", "DISTINCT in MEDIAN"),
        ("SELECT QUANTILE_CONT(n, [0.1, 0.2]) FROM r", "QUANTILE_CONT of another fraction"),
        ("SELECT QUANTILE_CONT(n, 1.5) FROM r", "QUANTILE_CONT of another fraction"),
        ("SELECT QUANTILE_CONT(n, n) FROM r", "QUANTILE_CONT of another fraction"),
        ("SELECT PERCENTILE_CONT(0) WITHIN GROUP (ORDER BY n) FROM r", "PERCENTILE_CONT of another fraction"),
        ("SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY n, x) FROM r", "PERCENTILE_CONT of several columns"),
        ("SELECT PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY n) FROM r", "PERCENTILEDISC WITHIN GROUP"),
        ("SELECT QUANTILE_DISC(n, 0.5) FROM r", "PERCENTILEDISC in SELECT"),
        ("SELECT MEDIAN(g) FROM r", "must be a number"),
        ("SELECT MEDIAN(n) OVER () FROM r", "WINDOW in SELECT"),
    ],
)
def test_what_is_refused(text: str, words: str) -> None:
    budget = PrivacyBudget(epsilon=1.0)
    with pytest.raises(InvalidParameter, match=words):
        PrivateSQL(DB, **DECLARED, budget=budget).query(text)
    assert budget.spent.epsilon == 0


def test_what_else_is_refused() -> None:
    public = PrivateSQL(DB, **{**DECLARED, "bounds": {"s.k": (0, 3)}})
    with pytest.raises(InvalidParameter, match="a quantile of public tables only"):
        public.query("SELECT MEDIAN(k) FROM s")
    found = {**DECLARED, "categories": {"r.g": "discover"}, "delta": 1e-6}
    with pytest.raises(InvalidParameter, match="GROUP BY undeclared values of g where units are protected"):
        PrivateSQL(DB, **found, unit="x").query("SELECT g, MEDIAN(n) FROM r GROUP BY g")
    with pytest.raises(InvalidParameter, match="delta must be positive"):
        PrivateSQL(DB, **{**found, "delta": 0}).query("SELECT g, MEDIAN(n) FROM r GROUP BY g")
    with pytest.raises(InvalidParameter, match="'threshold' but for one count or sum"):
        PrivateSQL(DB, **DECLARED, unit="g", truncation="race").query("SELECT MEDIAN(n) FROM r")
    with pytest.raises(InvalidParameter, match="sql must have one COUNT"):
        PrivateSQL(DB, **DECLARED).count("SELECT MEDIAN(n) FROM r")


@pytest.mark.parametrize("grouped", [False, True])
def test_quantiles_of_a_private_number_of_rows(grouped: bool) -> None:
    rng, covered, runs = np.random.default_rng(5), 0, 120
    text = "SELECT g, MEDIAN(x) FROM t GROUP BY g" if grouped else "SELECT MEDIAN(x) FROM t"
    declared: dict[str, Any] = {"bounds": {"t.x": (0.0, 1.0)}, "categories": {"t.g": [0, 1]}}
    connection = duckdb.connect(":memory:", config={"threads": 1})
    for seed in range(runs):
        frame = pd.DataFrame({"x": rng.random(900), "g": np.arange(900) % 2})
        connection.execute("CREATE OR REPLACE TABLE t AS SELECT * FROM frame")
        with known_engine():
            made = PrivateSQL(connection, epsilon=1.0, neighbors="add_or_remove", random_state=seed, **declared)
            answer = made.query(text)
        covered += int(((answer.low <= 0.5) & (answer.high >= 0.5)).sum())
    # At coverage 0.95 fewer than 88% have probability 0.001.
    assert covered >= 0.88 * runs * (1 + grouped)
    assert "one row added or removed" in str(answer.guarantee)
    assert len(frame) == 900 and answer.rows.sum() == pytest.approx(900, abs=150)
    plan = made.plan_for(text)
    number, choice = plan.stages
    # A row is in one group: half of the steps of a replaced row, and all of those of one sample.
    assert number.sensitivity_steps == 1 and choice.range_steps == 2
    replaced = PrivateSQL(connection, epsilon=2.0 if grouped else 1.0, random_state=0, **declared).plan_for(text)
    assert choice.scale_steps == pytest.approx(replaced.stages[1].scale_steps)
    assert plan.guarantee.epsilon == 1.0


# Units


def kept_rows(own: list[tuple[int, int]], start: int, most: int, each: int) -> list[tuple[int, int]]:
    """Return the rows of a unit that count: evenly spaced among its sorted (cell, place), from a start on."""
    of = max(len(own), most)
    ranks = [(i * each + start % of) // of for i in range(len(own) + 1)]
    return [row for row, a, b in zip(sorted(own), ranks[:-1], ranks[1:], strict=True) if b > a]


def people(held: list[tuple[Any, Any, Any]]) -> Any:
    db = duckdb.connect()
    db.execute("CREATE TABLE t (u VARCHAR, x INTEGER, g INTEGER)")
    db.executemany("INSERT INTO t VALUES (?, ?, ?)", held)
    return db


def test_the_rows_of_a_unit_are_cut_by_that_unit_alone() -> None:
    """Ties, all rows of one unit, units with fewer rows than any limit, missing units, values and cells."""
    rng = np.random.default_rng(4)
    sizes = [1, 1, 2, 3, 4, 5, 9, 17, 40]
    held = [
        (f"person {i}", int(rng.integers(0, 4)) if i % 2 else 3, int(rng.integers(0, 3)))
        for i, size in enumerate(sizes)
        for _ in range(size)
    ]
    held += [(None, 1, 0), ("person 0", None, 1), ("person 9", 2, None), ("person 9", 9, 1), ("person 9", -9, 1)]
    options: dict[str, Any] = {
        "epsilon": 3.0,
        "unit": "u",
        "bounds": {"t.x": (0, 4)},
        "categories": {"t.g": [0, 1]},
        "unit_limit": 64,
    }
    sql = PrivateSQL(people(held), **options)
    for text in ("SELECT MEDIAN(x) FROM t", "SELECT g, MEDIAN(x) FROM t GROUP BY g"):
        query = sql._parsed(text)
        plan = sql._kind(query).plan()
        private = sql._kind(query).read(plan)
        assert isinstance(plan, SQLQuantilesPlan) and private.places is not None and private.above is not None
        units: dict[str, list[tuple[int, int]]] = {}
        for unit, x, g in held:
            if unit is not None and x is not None and (not query.groups or g in (0, 1)):
                units.setdefault(unit, []).append((g if query.groups else 0, min(max(x, 0), 4)))
        for i, (most, each) in enumerate(plan.limits):
            assert each == min(most, plan.most)
            rows = []
            for unit, own in units.items():
                start = int(hashlib.md5(unit.encode()).hexdigest()[:8], 16)
                kept = kept_rows(own, start, most, each)
                assert len(kept) <= each and (len(own) > most or each < most or len(kept) == len(own))
                rows += kept
            found = [(cell, int(v)) for cell, own in enumerate(private.places[i]) for v in own]
            assert found == sorted(rows)
            assert private.above[i] == sum(len(own) > most for own in units.values())


@pytest.mark.parametrize("each", [2, 3])
@pytest.mark.parametrize("grouped", [False, True])
def test_utilities_of_a_unit_are_apart_by_its_rows(each: int, grouped: bool) -> None:
    """All units of up to ``each`` rows replace each other, with the rows of others at two places."""
    last, ranks = 3, (1, 3)
    tuples = list(itertools.product(range(last + 1), repeat=len(ranks)))
    sizes = range(each + 1)
    units = [own for n in sizes for own in itertools.combinations_with_replacement(range(last + 1), n)]
    grid = check_grid((0.0, 3.0), 1.0)
    plan = points_plan(100, grid, (0.3, 0.5, 0.8), PrivacyGuarantee(1.0), None, "regular", "drop")

    def utilities(rows: tuple[int, ...]) -> np.ndarray:
        z = np.array(sorted(rows))
        if grouped:
            of = group_windows(z, ranks, 4, last, each)
            return np.array([-first_window(of, one) for one in tuples])
        of = windows(z, tuple(rank + plan.shift(z.size, 4) for rank in ranks), last, each)
        sides = ends_of_windows(of)
        return np.array([-sum(first_sides(sides, one)) for one in tuples])

    most = 0
    for others in ((), (0, 3, 3)):
        found = [utilities((*others, *own)) for own in units]
        moves = [a - b for a, b in itertools.combinations(found, 2)]
        alone = [a - found[0] for a in found]  # the first unit has no rows
        apart, added = (max(int(move.max() - move.min()) for move in some) for some in (moves, alone))
        # Steps of the choice are as many rows, or half rows in a group.
        assert apart <= 2 * each * (1 + grouped) and added <= 2 * each
        most = max(most, apart)
    assert most > 2 * (each - 1) * (1 + grouped)


def first_window(of: Any, one: tuple[int, ...]) -> int:
    """Return the first window of a group that holds a tuple."""
    for a in range(100):
        low, high = of.box(0, a)
        if all(low <= one) and all(one <= high):
            return a
    raise AssertionError


def ends_of_windows(of: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower ends and the upper ends of the windows of each rank."""
    low, high = zip(*(of.box(a, a) for a in range(100)), strict=True)
    return np.array(low), np.array(high)


def first_sides(sides: tuple[np.ndarray, np.ndarray], one: tuple[int, ...]) -> tuple[int, int]:
    """Return how far a tuple is below and above its ranks."""
    below, above = sides
    return int((below > one).any(axis=1).sum()), int((above < one).any(axis=1).sum())


def test_units_of_one_row_have_the_release_of_rows() -> None:
    """Given the threshold of one row, counts and ranks are those of the release for rows at the remaining epsilon."""
    db = people([(f"{i}", i % 50, i % 2) for i in range(600)])
    options: dict[str, Any] = {"bounds": {"t.x": (0, 50)}, "categories": {"t.g": [0, 1]}}
    for text in ("SELECT MEDIAN(x) FROM t", "SELECT g, QUANTILE_CONT(x, 0.7) FROM t GROUP BY g"):
        for neighbors in ("replace_one", "add_or_remove"):
            sql = PrivateSQL(db, epsilon=2.0, unit="u", neighbors=neighbors, random_state=0, **options)
            plan = sql.plan_for(text)
            assert isinstance(plan, SQLQuantilesPlan) and plan.threshold is not None
            first, rows, choice = plan.stages
            alone = PrivateSQL(db, epsilon=1.4, neighbors=neighbors, random_state=0, **options).plan_for(text)
            assert isinstance(rows, OneOf) and isinstance(choice, Choice)
            assert rows.options[0].scale_steps == pytest.approx(alone.stages[0].scale_steps, rel=1e-9)
            assert choice.scale_steps == pytest.approx(alone.stages[1].scale_steps, rel=1e-9)
            for option, (_, each) in zip(rows.options, plan.limits, strict=True):
                assert option.sensitivity_steps == each * rows.options[0].sensitivity_steps
                assert option.scale_steps == each * rows.options[0].scale_steps
            assert first.event.epsilon == pytest.approx(0.6) and plan.guarantee.epsilon == 2.0
            answer = sql.query(text)
            assert answer.thresholds == (1.0,) and "have at most the weight of 1" in answer.estimand
            assert answer.rows.sum() == pytest.approx(600, abs=60)
            assert {stage.neighbors.name for stage in plan.stages} == {plan.guarantee.neighbors.name}


def test_rows_of_the_plan_are_several_rows_of_the_data() -> None:
    """Ranks follow the number of rows to the row, whatever a unit has; one row at a time they are the plan's."""
    plan = points_plan(1 << 20, check_grid((0, 1), None), (0.3,), PrivacyGuarantee(1.0), 0.9, "regular", "drop")
    near = observed_plan(plan, 500)
    assert plan.aim(500, 1) == [target.rank for target in near.targets]
    groups = group_quantiles_plan((0, 1), 1 << 20, (0.3,), check_grid((0, 1), None), 1.0, 0.9, "drop")
    assert groups.aim(700, 1) == groups.aims(700).ranks
    for each in (4, 16):
        for made, one in ((plan.aim, near.targets), (groups.aim, groups.aims(500).targets)):
            for rank, target in zip(made(500 * each + 1, each), one, strict=True):
                offset = target.rank - 0.3 * 500
                assert rank == pytest.approx(0.3 * (500 * each + 1) + each * offset, abs=1.01)


@pytest.mark.parametrize("grouped", [False, True])
def test_quantiles_of_units_cover_under_any_dependence(grouped: bool) -> None:
    """Units have one row, or eight equal ones; a quarter of the units has most of the rows."""
    rng, covered, runs = np.random.default_rng(6), 0, 60
    text = "SELECT g, MEDIAN(x) FROM t GROUP BY g" if grouped else "SELECT MEDIAN(x) FROM t"
    options: dict[str, Any] = {"bounds": {"t.x": (0.0, 1.0)}, "categories": {"t.g": [0, 1]}, "unit_limit": 8}
    connection = duckdb.connect(":memory:", config={"threads": 1})
    for seed in range(runs):
        value, size = rng.random(2400), np.where(np.arange(2400) % 4 == 0, 8, 1)
        unit = np.repeat(np.arange(2400), size)
        frame = pd.DataFrame({"u": unit, "x": value[unit], "g": unit // 4 % 2})
        connection.execute("CREATE OR REPLACE TABLE t AS SELECT * FROM frame")
        with known_engine():
            answer = PrivateSQL(connection, epsilon=4.0, unit="u", random_state=seed, **options).query(text)
        assert answer.thresholds == (8.0,)
        covered += int(((answer.low <= 0.5) & (answer.high >= 0.5)).sum())
    # At coverage 0.95 fewer than 85% of 60 have probability 0.001.
    assert covered >= 0.85 * runs * (1 + grouped)
    assert len(frame) == 6600
    assert "independent us, whose own rows may depend on each other" in str(answer)


def test_quantiles_of_units_through_joins_and_paths() -> None:
    db = people([(f"{i % 40}", i % 50, i % 2) for i in range(800)])
    db.execute("CREATE TABLE s AS SELECT range AS g FROM range(2)")
    sql = PrivateSQL(db, epsilon=50.0, unit={"t": "u"}, public_tables=["s"], bounds={"t.x": (0, 50)}, random_state=0)
    joined = sql.query("SELECT MEDIAN(a.x) FROM t a JOIN t b ON a.u = b.u JOIN s ON s.g = a.g")
    assert joined.values[0, 0] == pytest.approx(24.5, abs=6) and joined.thresholds[0] > 20
    explained = sql.explain("SELECT MEDIAN(x) FROM t")
    assert "quantiles: 2^j, j chosen privately" in explained and "2^j rows" in explained
    with pytest.raises(InvalidParameter, match="unit"):
        sql.query("SELECT MEDIAN(a.x) FROM t a JOIN t b ON a.g = b.g")
    empty = PrivateSQL(people([("a", None, 0)]), epsilon=1.0, unit="u", bounds={"t.x": (0, 50)}, random_state=0)
    assert np.isnan(empty.query("SELECT MEDIAN(x) FROM t").values).all()


# Groups that are found


@pytest.mark.parametrize("neighbors", ["replace_one", "add_or_remove"])
def test_quantiles_of_found_groups(neighbors: str) -> None:
    """The discovery costs a part of epsilon, and the choice what is left of the guarantee: both compose to it."""
    budget = PrivacyBudget(epsilon=2.0, delta=1e-5, neighbors=parse_neighbors(neighbors))
    options: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-6, "bounds": {"r.n": (0, 50)}, "neighbors": neighbors}
    sql = PrivateSQL(DB, categories={"r.g": "discover"}, budget=budget, **options)
    text = "SELECT g, QUANTILE_CONT(n, 0.75) AS high FROM r GROUP BY g ORDER BY g DESC LIMIT 2"
    first, choice = (plan := sql.plan_for(text)).stages
    assert isinstance(first, Discovery) and isinstance(choice, Choice) and choice.per_key
    assert choice.range_steps == (4 if neighbors == "replace_one" else 2)
    rest = choice.range_steps / choice.scale_steps
    composed = compose([*first.events, BoundedRange(rest, neighbors=first.neighbors)], 1e-6)
    assert composed.epsilon <= 2.0 and rest >= 1.4 and plan.guarantee.epsilon == 2.0
    more = compose([*first.events, BoundedRange(1.001 * rest, neighbors=first.neighbors)], 1e-6)
    assert more.epsilon > 2.0
    answer = sql.query(text)
    assert budget.spent.epsilon == pytest.approx(2.0, rel=1e-6)
    assert answer.cells == (("c",), ("b",))
    exact = [DB.execute(f"SELECT QUANTILE_CONT(n, 0.75), COUNT(n) FROM r WHERE g = '{g}'").fetchone() for g in "cb"]
    assert np.abs(answer["high"] - [q for q, _ in exact]).max() <= 1
    assert np.abs(answer.rows - [n for _, n in exact]).max() < 60
    assert (answer.low <= answer.values).all() and (answer.values <= answer.high).all()
    assert "Groups are shown where" in str(answer) and len(answer.records()) == 2
    assert "are shown if their noisy count" in (words := sql.explain(text)) and "chosen by their ranks" in words


@pytest.mark.parametrize(("delta", "neighbors"), [(0.01, "add_or_remove"), (0.03, "replace_one")])
def test_found_groups_at_a_small_epsilon_have_a_certified_plan(delta: float, neighbors: str) -> None:
    """The last digit of a cost may raise a total by 1e-5 here: the choice is certified as the plan has it."""
    options: dict[str, Any] = {"bounds": {"r.n": (0, 50)}, "categories": {"r.g": "discover"}}
    sql = PrivateSQL(DB, epsilon=0.001, delta=delta, neighbors=neighbors, **options)
    plan = sql.plan_for("SELECT g, MEDIAN(n) FROM r GROUP BY g")
    assert (plan.guarantee.epsilon, plan.guarantee.delta) == (0.001, delta)


def test_no_group_is_found_in_few_rows() -> None:
    sql = PrivateSQL(
        DB, epsilon=1.0, delta=1e-6, bounds={"r.n": (0, 50)}, categories={"r.g": "discover"}, random_state=0
    )
    for text in (
        "SELECT g, MEDIAN(n) AS m FROM r WHERE x < 4 GROUP BY g ORDER BY g",
        "SELECT g, COUNT(*) FROM r WHERE x < 1 GROUP BY g ORDER BY 2",
    ):
        answer = sql.query(text)
        assert answer.cells == () and answer.values.shape == (0, 1) and answer.records() == []
    assert "no group" in str(sql.query("SELECT g, MEDIAN(n) FROM r WHERE x < 1 GROUP BY g"))


@pytest.mark.parametrize("q", [0.5, 0.8])
def test_intervals_of_found_groups_hold_for_all_sizes_of_their_counts(q: float) -> None:
    """The rank of a limit must hold for each size that the noisy count of a found group leaves open."""
    noise, threshold = 12.0, 60.0
    count = Stage("rows of each group", "gaussian", 1, 1.0, 1, noise)
    plan = found_quantiles_plan(count, threshold, 1 << 31, (q,), check_grid((0, 1), None), 2.0, 0.9)
    law = group_rank_errors(plan.each, plan.rank_scale)
    for anchor in (61, 75, 400, 3000):
        low, high = (
            float(end[0])
            for end in FoundCounts(np.array([float(anchor)]), NormalNoise(noise), threshold).limits(0.1 * 0.05)
        )
        ranks = {target.kind: target.rank for target in plan.aims(anchor).targets}
        for size in np.unique(np.linspace(max(low, 2), high, 7).astype(int)):
            ends = binomial(int(size), q).plus(law)
            at = (int(size) - anchor) / 2
            if LOW in ranks:
                assert ranks[LOW] + at <= ends.below(0.05, half=True) + 1
            if HIGH in ranks:
                assert ranks[HIGH] + at >= ends.above(0.05, half=True) - 1
        assert anchor < 400 or {LOW, HIGH} <= ranks.keys()


@pytest.mark.parametrize("q", [0.5, 0.8])
def test_intervals_cover_given_that_a_group_was_found(q: float) -> None:
    """Groups of sizes on both sides of the threshold, whose noisy counts are conditioned on it."""
    rng, sizes, runs = np.random.default_rng(8), np.array([8, 20, 60, 160, 400, 1200]), 60
    covered, shown = np.zeros(sizes.size), np.zeros(sizes.size)
    connection = duckdb.connect(":memory:", config={"threads": 1})
    for seed in range(runs):
        frame = pd.DataFrame({"g": np.repeat(np.arange(sizes.size), sizes), "x": rng.random(sizes.sum())})
        connection.execute("CREATE OR REPLACE TABLE t AS SELECT * FROM frame")
        with known_engine():
            sql = PrivateSQL(
                connection,
                epsilon=2.0,
                delta=1e-3,
                bounds={"t.x": (0.0, 1.0)},
                categories={"t.g": "discover"},
                confidence_level=0.9,
                random_state=seed,
            )
            answer = sql.query(f"SELECT g, QUANTILE_CONT(x, {q}) FROM t GROUP BY g")
        for (g,), low, high in zip(answer.cells, answer.low[:, 0], answer.high[:, 0], strict=True):
            shown[g] += 1
            covered[g] += low <= q <= high
        assert len(frame) == sizes.sum()
    assert (shown[3:] == runs).all() and shown[0] < runs
    # At coverage 0.9, fewer than this have probability 0.001 for each size.
    assert (covered >= binom.ppf(0.001, shown, 0.9)).all()


def test_points_of_groups_are_quick_by_their_own_sampler() -> None:
    plan = GroupQuantiles(groups=[0, 1], bounds=(0, 10), epsilon=1.0).plan(4000)
    scale = LARGEST_NESTED / nested_reach(1.0, plan.each, plan.grid.points)
    assert _is_quick(scale / 5, plan) and not _is_quick(scale / 3, plan)


@pytest.mark.parametrize("grouped", [False, True])
def test_choices_about_units_count_in_their_rows(grouped: bool) -> None:
    grid, each, parts = check_grid((0, 50), 1), 4, []

    class Chosen(Exception):
        """Nothing is released after the choice."""

    class Session:
        def choose(self, name: str, chosen: Any) -> Any:
            parts.extend(chosen)
            raise Chosen

    places = np.arange(40)
    asked: tuple[Any, ...]
    if grouped:
        plan = group_quantiles_plan((0, 1), 40, (0.5,), grid, 1.0, None, "drop")
        asked = choose_group_points, [places, places], np.array([40.0, 40.0]), plan
    else:
        asked = (
            choose_points,
            places,
            np.array([40.0]),
            points_plan(40, grid, (0.5,), PrivacyGuarantee(1.0), None, "regular", "drop"),
        )
    choose, *given = asked
    with pytest.raises(Chosen):
        choose(*given, Session(), each)
    assert [case.unit for part in parts for case in part.cases] == [each] * (1 + grouped)


@pytest.mark.parametrize("grouped", [False, True])
def test_rows_of_units_are_counted_in_their_rows(grouped: bool) -> None:
    db = duckdb.connect()
    db.execute("CREATE TABLE r AS SELECT range // 16 AS u, range % 50 AS n, range // 16 % 2 AS g FROM range(16000)")
    options: dict[str, Any] = {"bounds": {"r.n": (0, 50)}, "categories": {"r.g": [0, 1]}, "unit_limit": 32}
    sql = PrivateSQL(db, epsilon=200.0, unit="u", random_state=0, **options)
    answer = sql.query("SELECT g, MEDIAN(n) FROM r GROUP BY g" if grouped else "SELECT MEDIAN(n) FROM r")
    assert isinstance(answer, QuantileAnswers)
    assert np.allclose(answer.rows, 16_000 / answer.rows.size, rtol=0.05)


def test_numbers_that_are_none_have_no_place() -> None:
    db = duckdb.connect()
    db.execute("CREATE TABLE t AS SELECT unnest(['nan'::DOUBLE, 3.0, NULL, 'inf'::DOUBLE, 1.0]) AS x")
    sql = PrivateSQL(db, epsilon=1.0, bounds={"t.x": (0, 8)})
    query = sql._parsed("SELECT MEDIAN(x) FROM t")
    compiled = Compiled(query, {"t": sql._catalogue.tables["t"]}, sql._data.dialect)
    (found,) = sort_places(sql._data.columns(*compiled.places()), query)
    assert query.quantiles is not None
    assert np.array_equal(found, query.quantiles.grid.places(np.array([1.0, 3.0])))
