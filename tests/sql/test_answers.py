"""Answers: intervals that cover, whatever the method; bounds of the whole; what is printed."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from typing import Any

import duckdb
import numpy as np
import pytest

from dpstats.errors import DPStatsError, InvalidParameter
from dpstats.means.ratio import Noise
from dpstats.release.session import Session
from dpstats.sql import PrivateAnswer, PrivateSQL
from dpstats.sql.answers import Off, answered
from dpstats.sql.query import Several
from dpstats.sql.several import Shaken, ShareRatio, all_answered

DECLARED: dict[str, Any] = {"bounds": {"r.x": (-2, 8)}, "categories": {"r.g": [0, 1, 2, 3]}}


@pytest.mark.parametrize(("total", "count"), [(300.0, 800.0), (-50.0, -200.0), (50.0, -200.0), (-900.0, 400.0)])
def test_a_mean_has_score_zero_at_the_ratio_also_of_negative_counts(total: float, count: float) -> None:
    errors = Shaken(Off(scales=(2.0,)))
    T, N = np.array([total]), np.array([count])
    ratio = ShareRatio(
        T, N, T, T, N, Noise(1.0, 1.0, 1.0, 1.0, 1.0, 0.0), shaken=errors, weights=((1.0, 0.0), (0.0, 1.0))
    )
    at = np.clip(total / count, -1, 1)
    assert ratio.score(np.array([at])) == pytest.approx(0, abs=1e-9)
    assert ratio.score(np.array([at - 0.4])) * ratio.score(np.array([at + 0.4])) < 0


@pytest.fixture(scope="module")
def connection() -> Any:
    made = duckdb.connect()
    made.execute(
        "CREATE TABLE r AS SELECT i % 60 AS u, i % 3 AS g, (i % 13) - 3.0 AS x, i % 17 AS k FROM range(900) t(i)"
    )
    made.execute("CREATE TABLE s AS SELECT i % 17 AS k FROM range(60) t(i)")
    return made


CASES = {
    "public": ("SELECT COUNT(*) FROM r", {}),
    "smooth": ("SELECT COUNT(*) FROM r JOIN s USING (k)", {}),
    "smooth, Laplace": ("SELECT COUNT(*) FROM r JOIN s USING (k)", {"delta": 1e-3}),
    "cells": ("SELECT g, COUNT(*) FROM r GROUP BY g", {}),
    "smooth cells": ("SELECT g, COUNT(*) FROM r JOIN s USING (k) GROUP BY g", {}),
    "sum": ("SELECT SUM(x) FROM r", {}),
    "mean": ("SELECT AVG(x) FROM r", {}),
    "means": ("SELECT g, AVG(x) FROM r GROUP BY g", {}),
    "units": ("SELECT COUNT(*) FROM r", {"unit": "u", "public_tables": ["s"]}),
    "sum of units": ("SELECT SUM(x) FROM r", {"unit": "u", "public_tables": ["s"]}),
    "mean of units": ("SELECT AVG(x) FROM r", {"unit": "u", "public_tables": ["s"]}),
}


def answers(connection: Any, name: str, times: int, **options: Any) -> list[Any]:
    """Return answers to one query with simulated noise, read once."""
    text, more = CASES[name]
    made = PrivateSQL(connection, epsilon=1.0, **DECLARED, **{**more, **options})
    query = made._parsed(text)
    plan = made._kind(query).plan()
    private, rng, found = made._kind(query).read(plan), np.random.default_rng(len(name)), []
    for _ in range(times):
        with Session.simulated(plan, rng) as session:
            made._kind(plan.query).release(private, plan, session)
        answer = all_answered if isinstance(query.measure, Several) else answered
        found.append(answer(plan.query, plan, session.released, plan.guarantee))
    return found


def truth(connection: Any, name: str, answer: Any) -> np.ndarray:
    """Return what an interval is for, with its thresholds."""
    x = "least(greatest(x, -2), 8)"
    if not answer.thresholds:
        text = CASES[name][0].replace("SUM(x)", f"SUM({x})").replace("AVG(x)", f"AVG({x})")
        rows = connection.execute(text).fetchall()
        values = dict(rows) if len(rows[0]) == 2 else {(): rows[0][0]}
        keys = [cell[0] if cell else () for cell in answer.cells]
        return np.array([float(values.get(key, np.nan)) for key in keys])
    if name == "units":
        per = connection.execute("SELECT count(*) FROM r GROUP BY u").fetchnumpy()["count_star()"]
        return np.array([np.minimum(per, answer.thresholds[0]).sum()])
    if name == "sum of units":
        sums = connection.execute(
            f"SELECT sum(greatest({x}, 0)) AS a, sum(greatest(-{x}, 0)) AS b FROM r GROUP BY u"
        ).fetchnumpy()
        parts = [np.minimum(sums[c], t).sum() for c, t in zip("ab", answer.thresholds, strict=True)]
        return np.array([float(parts[0] - parts[1])])
    rows = connection.execute(f"SELECT count(*) AS n, sum({x} - 3) AS t FROM r GROUP BY u").fetchnumpy()
    share = np.minimum(rows["n"], answer.thresholds[0]) / rows["n"]
    return np.array([float(3 + (rows["t"].astype(float) * share).sum() / (rows["n"] * share).sum())])


@pytest.mark.parametrize("name", CASES)
def test_intervals_cover(connection: Any, name: str) -> None:
    found, covered = answers(connection, name, 30), []
    for answer in found:
        true = truth(connection, name, answer)
        there = ~np.isnan(true)
        low, high = (np.atleast_1d(end)[there] for end in answer.confidence_interval(0.9, simultaneous=True))
        # Values are rounded to 2^-14.
        covered.append(bool(np.all((low - 0.05 <= true[there]) & (true[there] <= high + 0.05))))
        values = answer.values.ravel()[there]
        assert np.all(low <= values) and np.all(values <= high)
    # At least 90%: fewer than 21 of 30 has a probability of 5e-4.
    assert sum(covered) >= 21


def test_a_lower_bound_is_of_the_whole(connection: Any) -> None:
    for options in ({}, {"truncation": "race"}):
        found = answers(connection, "units", 40, **options)
        assert sum(answer.lower_bound(0.9) <= 900 for answer in found) >= 30
    with pytest.raises(DPStatsError, match="race has no interval"):
        found[0].confidence_interval()
    assert found[0].lower_bound(0.95) == found[0].value
    for level in (0.9500001, 0.99):
        with pytest.raises(DPStatsError, match=r"at most 0\.95"):
            found[0].lower_bound(level)
    assert "race" not in found[0].estimand and found[0].thresholds == ()
    (total,) = answers(connection, "sum", 1)
    with pytest.raises(DPStatsError, match="needs a COUNT"):
        total.lower_bound()


def test_without_an_interval_nothing_is_said_of_the_noise(connection: Any) -> None:
    (answer,) = answers(connection, "smooth", 1, interval=False)
    assert "high" not in str(answer.summary()).lower() and set(answer.records()[0]) == {"count"}
    with pytest.raises(DPStatsError, match="interval=False"):
        answer.confidence_interval()


def test_summaries_say_what_is_counted_and_of_what(connection: Any) -> None:
    (answer,) = answers(connection, "cells", 1)
    text = str(answer)
    assert "SELECT g, COUNT(*) FROM r GROUP BY g" in text and "[95% low" in text and "Laplace of scale 2" in text
    assert not isinstance(answer, PrivateAnswer) and [record["g"] for record in answer.records()] == [0, 1, 2, 3]
    (units,) = answers(connection, "units", 1)
    assert (
        "at most" in units.estimand
        and "only a lower bound" in " ".join(str(units).split())
        and "<table" in units._repr_html_()
    )
    (smooth,) = answers(connection, "smooth", 1)
    assert "private scale" in str(smooth)
    with pytest.raises(InvalidParameter, match="confidence_level"):
        smooth.confidence_interval(2)


def test_intervals_allow_for_the_rounding_of_many_rows() -> None:
    # A planted bug: 0.1 in steps of 2^-17, which takes four from a sum of 10^6 rows, and noise of scale 1.
    connection = duckdb.connect()
    connection.execute("CREATE TABLE v AS SELECT 0.1::DOUBLE AS x, 1000007 AS n, i AS u FROM range(400000) t(i)")
    bounds = {"v.x": (0, 1), "v.n": (0, 2_000_000)}
    for column, true in (("x", 0.1), ("n", 1000007)):
        covered, below, means = 0, 0, 0
        for seed in range(12):
            sql = PrivateSQL(connection, epsilon=2.0, bounds=bounds, random_state=seed)
            answer = sql.query(f"SELECT SUM({column}) FROM v")
            low, high, *_ = answer.confidence_interval()
            covered += low <= 400_000 * true <= high
            below += answer.lower_bound() <= 400_000 * true
            low, high, *_ = sql.query(f"SELECT AVG({column}) FROM v").confidence_interval()
            means += low <= true <= high
        assert min(covered, below, means) >= 9
        assert ("rounded to a multiple of 1.86e-09" in answer.estimand) == (column == "x")


def test_a_mean_may_be_half_a_step_off() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE v AS SELECT 0.1::DOUBLE AS x FROM range(1000) t(i)")
    answer = PrivateSQL(connection, epsilon=1e-6, bounds={"v.x": (0, 1)}, random_state=0).query("SELECT AVG(x) FROM v")
    exact = replace(answer, raw=np.array([[answer.several.whole(0) * 1e30, 0.0]]))
    low, high, *_ = exact.confidence_interval()
    (column,) = answer.several.columns
    assert high - low == pytest.approx(column.spacing) and column.spacing > 0
    assert [float(np.max(exact.test(end).pvalue)) for end in (low, high)] == pytest.approx([1.0, 1.0])


def test_steps_are_those_that_noise_can_be_drawn_in(connection: Any) -> None:
    for epsilon, reach in ((1.0, 2**29), (1e-8, 2**24), (1e-10, 2**17)):
        made = PrivateSQL(connection, epsilon=epsilon, bounds={"r.x": (0, 1)})
        measure = made.plan_for("SELECT SUM(x) FROM r").query.measure
        assert (measure.reach, measure.spacing) == (reach, 1 / reach)


@pytest.mark.parametrize("selected", ["COUNT(*)", "SUM(x)", "COUNT(*), AVG(x)", "MEDIAN(x)"])
def test_what_intervals_cover_says_that_rows_without_a_unit_do_not_count(selected: str) -> None:
    db = duckdb.connect()
    db.execute("CREATE TABLE v AS SELECT CASE WHEN i % 3 > 0 THEN i END AS u, i % 7 AS x FROM range(300) t(i)")
    options: dict[str, Any] = {"epsilon": 50.0, "bounds": {"v.x": (0, 7)}, "random_state": 0}
    answer = PrivateSQL(db, unit="u", **options).query(f"SELECT {selected} FROM v")
    assert answer.estimates().estimand.endswith("; rows without a u do not count")
    assert "without a" not in PrivateSQL(db, **options).query(f"SELECT {selected} FROM v").estimates().estimand
    if selected == "COUNT(*)":
        assert answer.values[0] == pytest.approx(200, abs=5)


def test_a_group_of_the_empty_text_has_a_name() -> None:
    db = duckdb.connect()
    db.execute("CREATE TABLE v AS SELECT CASE WHEN i % 2 = 0 THEN '' ELSE 'x' END AS g, i FROM range(100) t(i)")
    sql = PrivateSQL(db, epsilon=9.0, categories={"v.g": ["", "x"]}, bounds={"v.i": (0, 100)}, random_state=0)
    assert sql.query("SELECT g, COUNT(*) FROM v GROUP BY g").estimates().names == ("''", "x")
    assert sql.query("SELECT g, MEDIAN(i) AS m FROM v GROUP BY g").estimates().names == ("m: ''", "m: x")
    both = sql.query("SELECT g, COUNT(*) AS n, AVG(i) AS m FROM v GROUP BY g").estimates().names
    assert both == ("n: ''", "n: x", "m: ''", "m: x")
    assert sql.query("SELECT COUNT(*) FROM v").estimates().names == ("answer",)


def test_units_beyond_the_threshold_are_shared_out_among_cells() -> None:
    # A planted bug: numbers of rows rounded down, so that a unit of five cells and a threshold of 4 has no row left.
    connection = duckdb.connect()
    connection.execute("CREATE TABLE v AS SELECT i AS u, j AS g FROM range(30) t(i), range(2) s(j)")
    connection.execute("INSERT INTO v SELECT 100 + i, 2 FROM range(1000) t(i)")
    sql = PrivateSQL(connection, epsilon=1.0, categories={"v.g": [0, 1, 2]}, unit="u")
    plan = sql.plan_for("SELECT g, COUNT(*) FROM v GROUP BY g")
    (truncation,) = plan.truncations
    cut = sql._kind(plan.query).read(plan).cut["answer"][0]  # type: ignore[index]
    assert [n / truncation.finer for n in cut] == [15.0, 15.0, 1000.0] and truncation.each[0] == 0
    _, sums = truncation.stages()
    # As many parts, and noise as much larger.
    assert sums.options[0].sensitivity_steps * sums.options[0].spacing == 2  # type: ignore[union-attr]
    with Session.simulated(plan, np.random.default_rng(0)) as session:
        sql._kind(plan.query).release(sql._kind(plan.query).read(plan), plan, session)
    answer = answered(plan.query, plan, session.released, plan.guarantee)
    width = answer.off.half(0.95)
    assert 2 / 0.7 < answer.off.scales[0] / answer.thresholds[0] < 2.9 / 0.7 and width < 60 * answer.thresholds[0]
    assert np.all(np.abs(answer.values - cut / 1024) < 2 * width + 60)


@pytest.mark.parametrize("name", ["cells", "smooth cells", "units"])
def test_answers_have_every_form_and_tests_that_agree_with_intervals(connection: Any, name: str) -> None:
    (answer,) = answers(connection, name, 1)
    found = answer.estimates()
    low, high = (np.ravel(end) for end in answer.confidence_interval(0.9))
    step = np.maximum(np.abs(high - low) * 1e-6, 1e-9)
    start, ends = np.ravel(found.estimate), [np.ravel(end) for end in found.distribution.box]
    for at, side in ((low - step, "less"), (high + step, "greater")):
        at = np.clip(at, *ends)
        beyond = (at < low) if side == "less" else (at > high)
        pvalues = np.ravel(answer.test(np.reshape(at, np.shape(found.estimate))).pvalue)
        assert np.all(pvalues[beyond] <= 0.1 + 1e-9)
    assert np.all(np.ravel(answer.test(found.estimate).pvalue) > 0.1)
    wide = answer.confidence_interval(0.9, simultaneous=True)
    assert np.all(np.ravel(wide.low) <= low) and np.all(np.ravel(wide.high) >= high)
    frame, said = answer.to_frame(0.9), json.loads(json.dumps(answer.to_dict(0.9)))
    np.testing.assert_allclose(frame["low"], low)
    assert len(said["rows"]) == start.size and said["simulated"] == answer.guarantee.simulated
    assert answer.to_latex().startswith(r"\begin{tabular}") and answer.plot().get_xlabel() == answer.label
    assert pickle.loads(pickle.dumps(found)).to_dict() == found.to_dict()
    assert isinstance(answer.standard_error_, float) == (answer.names == ())


NAMED = ("low", "high", "estimate", "aggregate", "n")


@pytest.mark.parametrize("aggregates", ["COUNT(*) AS low", "COUNT(*) AS n, SUM(x) AS n_low", "MEDIAN(x)"])
@pytest.mark.parametrize("column", NAMED)
def test_no_column_of_a_table_is_lost_because_of_its_name(aggregates: str, column: str) -> None:
    database = duckdb.connect()
    database.execute(f"CREATE TABLE t AS SELECT i % 2 AS {column}, i AS x FROM range(60) r(i)")
    declared = {"categories": {f"t.{column}": [0, 1]}, "bounds": {"t.x": (0, 60)}}
    sql = PrivateSQL(database, epsilon=5.0, random_state=0, **declared)
    answer = sql.query(f"SELECT t.{column} AS low_, {aggregates} FROM t GROUP BY t.{column}")
    frame, rows = answer.to_frame(), answer.to_dict()["rows"]
    count = len(answer.names) + 4 + ("aggregate" in frame or "quantile" in frame)
    assert frame["low_"].tolist() == [0, 1] * (len(frame) // 2) and frame.shape[1] == count
    assert (frame["low"] <= frame["estimate"]).all() and len(rows[0]) == count + 1
    for record, cell in zip(answer.records(), answer.cells, strict=True):
        # Each aggregate has a value and two limits.
        assert len(record) == 1 + 3 * (1 + aggregates.count(",")) and (*record.values(),)[0] == cell[0]
