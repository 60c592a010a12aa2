"""Plans of answers: which noise, at which cost, and that several cells do not share what is one number's."""

from __future__ import annotations

import math
from dataclasses import replace

import duckdb
import pytest

from dpstats.errors import InvalidParameter
from dpstats.privacy import Neighbors, PrivacyGuarantee
from dpstats.sensitivity.elastic import Column, Join, Select, Table
from dpstats.sensitivity.smooth import smooth_level
from dpstats.sql import PrivateSQL
from dpstats.sql.engines import duckdb_type
from dpstats.sql.kinds import public_plan, smooth_plan, unit_plan
from dpstats.sql.query import Group, Literal, Measure, Query


def query(cells: int = 1, measure: Measure | None = None) -> Query:
    values = tuple(Literal(i, "BIGINT") for i in range(cells))
    groups = (Group(Column("t", "g"), "g", values),) if cells > 1 else ()
    return Query(Table("t"), measure or Measure("count"), groups, "n", (), "")


SUM = Measure("sum", Column("t", "x"), duckdb_type("DOUBLE"), -(2**17), 2**17, 2.0**-10)


def test_a_public_bound_is_pure_laplace_noise() -> None:
    plan = public_plan(query(), 7, PrivacyGuarantee(0.5, 1e-6))
    assert plan.guarantee == PrivacyGuarantee(0.5) and plan.method == "public"
    assert plan.additive[0].scale_steps == 14


@pytest.mark.parametrize("interval", [True, False])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("cells", [1, 20])
def test_a_private_scale_costs_what_was_asked_for(interval: bool, delta: float, cells: int) -> None:
    for measure in (None, SUM):
        plan = smooth_plan(query(cells, measure), PrivacyGuarantee(1.0, delta), interval)
        assert plan.method == "smooth" and len(plan.stages) == 1 + interval
        assert plan.guarantee == PrivacyGuarantee(1.0, delta)
        assert plan.smooth.size == cells and plan.smooth.noise == ("laplace" if delta else "student")
        # Every sensitivity there can be has a level whose noise can be drawn.
        assert plan.smooth.limits[-1] >= 2 * plan.largest * plan.finer * cells
        assert plan.largest > 10**6 and plan.smooth.levels[-1] < 1e16


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_every_stage_states_the_relation(delta: float) -> None:
    added = Neighbors.ADD_OR_REMOVE_ONE
    asked, guarantee = replace(query(2), neighbors=added), PrivacyGuarantee(1.0, delta, added)
    plans = [
        public_plan(asked, 1, guarantee),
        smooth_plan(asked, guarantee, True),
        unit_plan(asked, guarantee, "threshold", 3),
        unit_plan(asked, guarantee, "race", 3),
    ]
    for plan in plans:
        assert {stage.neighbors for stage in plan.stages} == {added}  # type: ignore[union-attr]
        assert plan.guarantee.neighbors is added and plan.guarantee.epsilon == 1.0


def test_cells_do_not_share_beta_and_delta() -> None:
    one = smooth_plan(query(), PrivacyGuarantee(1.0, 1e-6), False).smooth
    many = smooth_plan(query(200), PrivacyGuarantee(1.0, 1e-6), False).smooth
    # The published rule for 200 numbers has beta = epsilon/(4 (200 + log(2/delta))).
    published = 1 / (4 * (200 + math.log(2e6)))
    assert published < math.log(float(many.ratio)) < math.log(float(one.ratio)) / 15
    assert math.log(float(one.ratio)) == pytest.approx(1 / (2 * math.log(2e6)), rel=0.02)


@pytest.mark.parametrize(
    ("measure", "names", "powers"),
    [
        (Measure("count"), ["answer"], (0, 20)),
        (Measure("mean", low=-5, high=5), ["answer"], (0, 20)),
        (Measure("sum", low=0, high=1000), ["answer"], (6, 30)),
        (Measure("sum", low=-1000, high=0), ["answer"], (6, 30)),
        (SUM, ["positive", "negative"], (14, 38)),
    ],
)
def test_sums_of_units_have_a_part_for_each_sign(measure: Measure, names: list[str], powers: tuple[int, int]) -> None:
    plan = unit_plan(query(1, measure), PrivacyGuarantee(1.0, 1e-6), "threshold", 20)
    assert [truncation.name for truncation in plan.truncations] == names
    assert {truncation.powers for truncation in plan.truncations} == {powers}
    assert plan.guarantee == PrivacyGuarantee(1.0) and plan.method == "threshold"
    assert len(unit_plan(query(), PrivacyGuarantee(1.0), "race", 20).stages) == 21


@pytest.mark.parametrize("measure", [Measure("count"), Measure("mean", low=-5, high=5), Measure("sum", low=0, high=9)])
def test_a_unit_that_changes_its_cell_moves_two(measure: Measure) -> None:
    one, many = (
        unit_plan(query(cells, measure), PrivacyGuarantee(1.0), "threshold", 20).truncations[0].moved
        for cells in (1, 5)
    )
    assert many == 2 * one


LISTED = {
    "mean": ("AVG(n)", {}, "Laplace noise of scale 4\n", 4),
    "spread": ("VARIANCE(n)", {}, "Laplace noise of scale 4\n", 4),
    "count and mean": ("COUNT(g), AVG(n)", {}, "Laplace noise of scale 4 to 8\n", [4, 8, 8]),
    "sum": ("SUM(x)", {}, "Laplace noise of scale 20", 20),
    "joined": ("COUNT(*), SUM(a.n)", {}, "scale 5\n", 5),
    "units": ("AVG(n)", {"unit": "u"}, "one of 21 scales, 5.71429 to", None),
    "found": ("g, AVG(n)", {"delta": 1e-6, "categories": {"r.g": "discover"}}, "", None),
}


@pytest.mark.parametrize("name", LISTED)
def test_plans_list_noise_in_rows_or_units_and_not_in_steps(name: str) -> None:
    # Before, the steps of a share, of which a row has 2^32.
    selected, options, line, scale = LISTED[name]
    db = duckdb.connect()
    db.execute("CREATE TABLE r AS SELECT i % 50 AS u, i % 2 AS g, i % 9 AS n, i % 7 / 2.0 AS x FROM range(300) t(i)")
    bounds = {"r.n": (0, 100), "r.x": (0, 10)}
    sql = PrivateSQL(db, epsilon=0.5, bounds=bounds, random_state=0, **options)  # type: ignore[arg-type]
    source = "r a JOIN r b USING (u)" if name == "joined" else "r"
    text = f"SELECT {selected} FROM {source}{' GROUP BY g' if name == 'found' else ''}"
    plan = sql.plan_for(text)
    stages = plan.to_dict()["stages"]
    assert line in f"{plan}\n"
    assert (str(plan).endswith("scales of the noise are in rows")) is (name not in ("sum", "joined"))
    if scale is not None:
        assert stages[0]["noise_scale"] == pytest.approx(scale, rel=1e-6)
    if name == "found":
        rows, shares = stages[0]["blocks"]
        assert rows["noise_scale"] == pytest.approx(shares["noise_scale"], rel=1e-6)
    first = sql.explain(text).splitlines()[0]
    assert first.startswith("several: 2^j" if name == "units" else "rows of the result: "), first


def test_thresholds_of_a_sum_are_explained_in_its_units() -> None:
    db = duckdb.connect()
    db.execute("CREATE TABLE r AS SELECT i % 50 AS u, i % 7 / 2.0 AS x FROM range(300) t(i)")
    sql = PrivateSQL(db, epsilon=0.5, unit="u", unit_limit=8, bounds={"r.x": (0, 3.5)})
    # From a sixteenth of the largest value, 4, to that of eight rows.
    assert "what a u adds of values is cut at 2^j, j among -2, ..., 5" in sql.explain("SELECT SUM(x) FROM r")
    for selected in ("COUNT(*)", "COUNT(x)"):
        assert "what a u adds of rows is cut at 2^j, j among 0, ..., 3" in sql.explain(f"SELECT {selected} FROM r")


def test_units_in_several_cells_are_cut() -> None:
    db = duckdb.connect()
    db.execute("CREATE TABLE r (u INTEGER, g INTEGER)")
    sql = PrivateSQL(db, epsilon=1.0, unit="u", categories={"r.g": [0, 1]})
    texts = "SELECT COUNT(DISTINCT u) FROM r", "SELECT g, COUNT(DISTINCT u) FROM r GROUP BY g"
    assert [bool(sql._kind(sql._parsed(text)).plan().truncations) for text in texts] == [False, True]


def test_a_private_number_of_rows_is_in_no_plan() -> None:
    stages = []
    for rows in (3, 3000):
        db = duckdb.connect()
        db.execute(f"CREATE TABLE r AS SELECT range AS x FROM range({rows})")
        sql = PrivateSQL(db, epsilon=1.0, bounds={"r.x": (0, 10)}, neighbors="add_or_remove")
        stages.append(sql.plan_for("SELECT MEDIAN(x) FROM r").stages)
    assert stages[0] == stages[1]


def test_joins_are_on_all_equalities() -> None:
    db = duckdb.connect()
    for name in "rs":
        db.execute(f"CREATE TABLE {name} (a INTEGER, b INTEGER, x BLOB)")
    sql = PrivateSQL(db, epsilon=1.0)
    relation = sql._parsed("SELECT COUNT(*) FROM r JOIN s ON r.a = s.a AND r.b = s.b").relation
    assert isinstance(relation, Select) and isinstance(relation.of, Join)
    relation = relation.of
    assert {(left.name, right.name) for left, right in relation.on} == {("a", "a"), ("b", "b")}
    # Whether values of other types are equal is known to the database alone.
    with pytest.raises(InvalidParameter, match="x and x must have the same type, got BLOB and BLOB"):
        sql._parsed("SELECT COUNT(*) FROM r JOIN s ON r.x = s.x")


def test_a_sensitivity_is_at_most_twice_the_largest_answer() -> None:
    db = duckdb.connect()
    for name in "rs":
        db.execute(f"CREATE TABLE {name} AS SELECT 1 AS a FROM range(4)")
    sql = PrivateSQL(db, epsilon=1.0, delta=1e-6)
    text = "SELECT COUNT(*) FROM r JOIN s ON r.a = s.a"
    query = sql._parsed(text)
    found = sql._kind(query).plan()
    stage, levels = found.smooth, []
    for largest in (1, 2, found.largest):
        # A row moves 4 numbers. Where these are cut at 1 or 2, it moves one by 2 or by 4.
        private = sql._kind(query).read(replace(found, largest=largest))
        levels.append(private.level)
    expected = [
        smooth_level(lambda k, most=most: min(found.finer * (4 + k), most), stage.limits)
        for most in (2 * found.finer, 4 * found.finer, math.inf)
    ]
    assert levels == expected and query.cells == 1


@pytest.mark.parametrize("selected", ["COUNT(*), COUNT(n)", "COUNT(*), SUM(n)", "SUM(n), COUNT(*), AVG(m), SUM(m)"])
@pytest.mark.parametrize("neighbors", ["replace_one", "add_or_remove"])
def test_gaussian_noise_of_columns_is_for_the_root_of_their_squares(selected: str, neighbors: str) -> None:
    db = duckdb.connect()
    db.execute("CREATE TABLE r AS SELECT i % 9 AS n, i % 4 AS m FROM range(300) t(i)")
    sql = PrivateSQL(db, epsilon=0.5, delta=0.1, bounds={"r.n": (0, 8), "r.m": (0, 3)}, neighbors=neighbors)
    plan = sql.plan_for(f"SELECT {selected} FROM r")
    (stage,) = plan.stages
    assert stage.noise == "gaussian"
    moved = plan.query.measure.moved_squared(plan.query.added)
    assert (stage.sensitivity_steps - 1) ** 2 < moved <= stage.sensitivity_steps**2
