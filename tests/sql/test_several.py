"""Several aggregates of one query: what they cost, what they answer, and intervals that cover."""

from __future__ import annotations

import json
import math
import pickle
import re
from typing import Any

import duckdb
import numpy as np
import pytest
from scipy.stats import norm

from dpstats.errors import DPStatsError, InvalidParameter
from dpstats.release.session import Session
from dpstats.sql import PrivateAnswers, PrivateSQL
from dpstats.sql.several import ShareRatio, all_answered
from tests.nets.statements import wrong_rates

DECLARED: dict[str, Any] = {
    "bounds": {"r.x": (-2, 8), "r.y": (1, 3), "r.n": (0, 4)},
    "categories": {"r.g": [0, 1, 2, 3]},
}
TEXT = "SELECT g, COUNT(*), COUNT(y), SUM(x), AVG(x), SUM(n) AS total FROM r GROUP BY g"


@pytest.fixture(scope="module")
def connection() -> Any:
    made = duckdb.connect()
    made.execute("CREATE TABLE r (u INTEGER, g INTEGER, x DOUBLE, y INTEGER, n INTEGER NOT NULL, k INTEGER)")
    made.execute(
        "INSERT INTO r SELECT i % 60, i % 3, (i % 13) - 3.0, CASE WHEN i % 5 > 0 THEN i % 4 END, i % 6, i % 17 "
        "FROM range(900) t(i)"
    )
    made.execute("CREATE TABLE s AS SELECT i::INTEGER AS k FROM range(17) t(i)")
    return made


CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "cells": (TEXT, {}),
    "one cell": (TEXT.replace("SELECT g, ", "SELECT ").replace(" GROUP BY g", ""), {"epsilon": 0.05}),
    "Gaussian": (TEXT, {"delta": 1e-2}),
    "smooth": ("SELECT COUNT(*), SUM(n) AS total, AVG(n) FROM r JOIN s USING (k)", {"epsilon": 20.0}),
    "smooth, Laplace": ("SELECT COUNT(*), AVG(n) FROM r JOIN s USING (k)", {"epsilon": 20.0, "delta": 1e-3}),
    "units": (TEXT, {"unit": "u", "public_tables": ["s"], "epsilon": 8.0}),
    "hardly any noise": (TEXT, {"epsilon": 1e5}),
    "spreads": ("SELECT g, STDDEV(x), VAR_POP(x), STDDEV(n), COUNT(*) FROM r GROUP BY g", {}),
    "spreads of few rows": ("SELECT g, STDDEV(x), VARIANCE(n) FROM r WHERE k = 3 GROUP BY g", {"epsilon": 0.2}),
}


def answers(connection: Any, name: str, times: int, **options: Any) -> list[PrivateAnswers]:
    """Return answers to one query with simulated noise, read once."""
    text, more = CASES[name]
    made = PrivateSQL(connection, **{"epsilon": 1.0, **DECLARED, **more, **options})
    query = made._parsed(text)
    plan = made._kind(query).plan()
    private, rng, found = made._kind(query).read(plan), np.random.default_rng(len(name)), []
    for _ in range(times):
        with Session.simulated(plan, rng) as session:
            made._kind(plan.query).release(private, plan, session)
        found.append(all_answered(plan.query, plan, session.released, plan.guarantee))
    return found


def truth(connection: Any, name: str, answer: PrivateAnswers) -> np.ndarray:
    """Return what intervals are for; NaN for means of no rows. Units have 15 rows each, in one cell."""
    text = CASES[name][0]
    for column, (low, high) in (("x", (-2, 8)), ("n", (0, 4))):
        text = text.replace(f"({column})", f"(least(greatest({column}, {low}), {high}))")
    rows = connection.execute(text).fetchall()
    if not answer.names:
        return np.array(rows[0], dtype=float)
    by_cell = {row[0]: row[1:] for row in rows}
    undefined = ("mean", "stddev", "var")
    empty = [math.nan if any(word in label for word in undefined) else 0.0 for label in answer.labels]
    found = np.array([by_cell.get(cell, empty) for (cell,) in answer.cells], dtype=float)
    if answer.thresholds:
        means = ["mean" in label for label in answer.labels]
        found = np.where(means, found, found * min(answer.thresholds[0] / 15, 1.0))
    return found.T.ravel()


@pytest.mark.parametrize("name", CASES)
def test_intervals_miss_as_often_as_they_state(connection: Any, name: str) -> None:
    misses = []
    for answer in answers(connection, name, 10 if name.startswith("smooth") else 40):
        true = truth(connection, name, answer)
        low, high = answer.confidence_interval(0.8)
        # A sum has values that are rounded, and the parts of units are whole numbers.
        allowed = 1e-4 if answer.method != "smooth" else 0.2
        misses.append([low > true + allowed, high < true - allowed])
        if name == "hardly any noise":
            assert np.nanmax(np.abs(np.ravel(answer.values.T) - true)) < 0.02
    # Fewer misses are right for means, and for noise of a private scale.
    assert wrong_rates(misses, 0.1, 0.0) == []
    rates = np.mean(misses, axis=(0, 1))
    if answer.method == "public" and name != "hardly any noise":
        assert np.all(
            rates[
                [
                    "count" in label or "total" in label or "sum" in label
                    for label in answer.labels
                    for _ in answer.cells
                ]
            ]
            > 0.005
        )


def test_three_aggregates_have_the_noise_of_the_sum() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE v (g INTEGER, x INTEGER NOT NULL)")
    connection.execute("INSERT INTO v SELECT i % 2, i % 3 FROM range(100) t(i)")
    declared: dict[str, Any] = {"bounds": {"v.x": (0, 2)}, "categories": {"v.g": [0, 1]}, "random_state": 0}
    sql = PrivateSQL(connection, epsilon=1.0, **declared)
    answer = sql.query("SELECT g, COUNT(*), SUM(x), AVG(x) FROM v GROUP BY g")
    assert isinstance(answer, PrivateAnswers) and answer.raw.shape == (2, 2)
    # In half-widths of the bounds a sum has the figure 4 sqrt(2).
    error = answer.standard_error_[::2]
    assert error[:2] == pytest.approx([4.0, 4 * math.sqrt(2)], rel=1e-3) and 0.01 < error[2] < 1
    alone = sql.query("SELECT g, SUM(x) FROM v GROUP BY g").standard_error_[0]
    assert error[1] == pytest.approx(alone, rel=5e-3)
    assert answer.guarantee == sql.plan_for("SELECT COUNT(*) FROM v").guarantee


def test_count_of_all_rows_needs_a_third_number_where_values_may_be_missing(connection: Any) -> None:
    sql = PrivateSQL(connection, epsilon=1.0, random_state=0, **DECLARED)
    nullable = sql.plan_for("SELECT COUNT(*), SUM(y) FROM r").query.measure
    assert (nullable.parts, nullable.missing) == (3, 0)
    required = sql.plan_for("SELECT SUM(y), COUNT(*), AVG(n) FROM r").query.measure
    assert (required.parts, required.missing, required.rows) == (4, None, 1)
    real = sql.plan_for("SELECT SUM(x), COUNT(*) FROM r").query.measure
    assert real.missing == 0
    assert sql.plan_for("SELECT SUM(y), AVG(y), COUNT(y) FROM r").query.measure.parts == 2
    assert "NOT NULL in the table" in str(sql.query("SELECT COUNT(*), SUM(y) FROM r"))


def test_gaussian_noise_is_taken_where_it_is_smaller(connection: Any) -> None:
    laplace = PrivateSQL(connection, epsilon=1.0, delta=1e-9, **DECLARED).plan_for("SELECT SUM(n), AVG(n) FROM r")
    assert laplace.stages[0].noise == "laplace" and laplace.guarantee.delta == 0
    (answer,) = answers(connection, "Gaussian", 1)
    assert answer.off.law == "gaussian" and answer.guarantee.delta == 1e-2 and "Gaussian" in str(answer)


def test_wholes_of_columns_are_nearly_equal(connection: Any) -> None:
    for epsilon in (1.0, 1e-7):
        made = PrivateSQL(connection, epsilon=epsilon, **DECLARED).plan_for(TEXT).query.measure
        wholes = [made.whole(i) for i in range(len(made.columns))]
        assert max(wholes) <= 2**made.bits and min(wholes) > 0.85 * max(wholes)


@pytest.mark.parametrize("name", ["cells", "one cell", "Gaussian", "smooth", "units"])
def test_answers_have_every_form_and_tests_that_agree_with_intervals(connection: Any, name: str) -> None:
    (answer,) = answers(connection, name, 1)
    found = answer.estimates()
    low, high = answer.confidence_interval(0.9)
    step = np.maximum(np.abs(high - low) * 1e-3, 1e-7)
    ends = found.distribution.box
    for at, beyond in ((low - step, "low"), (high + step, "high")):
        inside = np.clip(at, *ends)
        out = inside < low if beyond == "low" else inside > high
        assert np.all(answer.test(inside).pvalue[out] <= 0.1 * (1 + 1e-2))
    values, shown = answer.values.T.ravel(), np.isfinite(found.estimate)
    np.testing.assert_array_equal(found.estimate[shown], values[shown])
    # What noise hides has an interval of all values between the bounds.
    assert np.all((low == ends[0])[~shown]) and np.all((high == ends[1])[~shown])
    assert np.all(answer.test(values).pvalue > 0.1)
    wide = answer.confidence_interval(0.9, simultaneous=True)
    assert np.all(wide.low <= low) and np.all(wide.high >= high)
    frame, said = answer.to_frame(0.9), json.loads(json.dumps(answer.to_dict(0.9)))
    np.testing.assert_allclose(frame["low"], low)
    assert list(dict.fromkeys(frame["aggregate"])) == list(answer.labels)
    assert len(said["rows"]) == answer.values.size
    assert pickle.loads(pickle.dumps(found)).to_dict() == found.to_dict()
    records = answer.records(0.9)
    assert len(records) == len(answer.cells) and records[0][f"{answer.labels[0]}_low"] == low[0]
    assert answer[answer.labels[-1]].tolist() == answer.values[:, -1].tolist()
    with pytest.raises(InvalidParameter, match="label must be one of count"):
        answer["nothing"]


def test_without_an_interval_nothing_is_said_of_the_noise(connection: Any) -> None:
    (answer,) = answers(connection, "smooth", 1, interval=False)
    assert set(answer.records()[0]) == set(answer.labels) and "95%" not in str(answer)
    with pytest.raises(DPStatsError, match="interval=False"):
        answer.confidence_interval()


def test_the_largest_number_of_rows_under_a_private_scale_is_stated(connection: Any) -> None:
    (smooth,), (public,) = answers(connection, "smooth", 1), answers(connection, "cells", 1)
    assert smooth.most_rows is not None and smooth.most_rows > 1e6 and public.most_rows is None
    assert f"cut at {smooth.most_rows:,} rows" in str(smooth) and "are cut at" not in str(public)


def test_a_mean_of_next_to_no_rows_is_anything() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE v AS SELECT 1.0::DOUBLE AS x, 0 AS g FROM range(3) t(i)")
    declared: dict[str, Any] = {"bounds": {"v.x": (0, 1)}, "categories": {"v.g": [0, 1]}}
    covered = 0
    sql = PrivateSQL(connection, epsilon=0.1, random_state=np.random.default_rng(0), **declared)
    for _ in range(60):
        answer = sql.query("SELECT g, COUNT(x), AVG(x) FROM v GROUP BY g")
        interval = answer.confidence_interval(0.9)
        covered += bool(interval.low[2] <= 1.0 <= interval.high[2])
        assert 0 <= interval.low[2] <= answer.values[0, 1] <= interval.high[2] <= 1
    # At least 90%: fewer than 46 of 60 has a probability of 0.001.
    assert covered >= 46


HIDING: dict[str, dict[str, Any]] = {
    "public": {},
    "precise": {"epsilon": 1000.0},
    "gaussian": {"delta": 1e-6},
    "units": {"unit": "u"},
}


@pytest.mark.parametrize("name", HIDING)
def test_means_of_no_rows_are_noise_only(name: str) -> None:
    db = duckdb.connect()
    db.execute("CREATE TABLE v AS SELECT i AS u, i % 2 AS g, 20.0 + i % 60 AS age FROM range(3000) t(i)")
    options: dict[str, Any] = {"epsilon": 2.0, "random_state": 0} | HIDING[name]
    sql = PrivateSQL(db, bounds={"v.age": (0, 100)}, categories={"v.g": [0, 9]}, **options)

    def hidden(query: str) -> list[str]:
        notes = sql.query(query).estimates().notes
        return [note for note in notes if note.startswith("Noise only: ")]

    words = "The number of rows with a value cannot be distinguished from 0."
    assert hidden("SELECT AVG(age) FROM v WHERE age > 200") == [f"Noise only: mean_age. {words}"]
    assert hidden("SELECT MEDIAN(age) FROM v WHERE age > 200") == [f"Noise only: median_age. {words}"]
    assert hidden("SELECT g, AVG(age) AS m, STDDEV(age) AS s, COUNT(*) AS n FROM v GROUP BY g") == [
        f"Noise only: m: 9, s: 9. {words} Check the spelling of the declared values."
    ]
    for selected in ("AVG(age)", "VAR_POP(age)", "MEDIAN(age)", "COUNT(*), SUM(age)"):
        assert hidden(f"SELECT {selected} FROM v") == []


def test_a_race_is_refused(connection: Any) -> None:
    made = PrivateSQL(connection, epsilon=1.0, unit="u", public_tables=["s"], truncation="race", **DECLARED)
    with pytest.raises(InvalidParameter, match="race"):
        made.query("SELECT COUNT(*), SUM(n) FROM r")


def test_intervals_hold_given_that_a_group_was_found() -> None:
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE v AS SELECT CASE WHEN i < 40 THEN 'few' ELSE 'many' END AS g, i % 4 AS x FROM range(400) t(i)"
    )
    sql = PrivateSQL(connection, epsilon=1.0, delta=1e-4, categories={"v.g": "discover"}, bounds={"v.x": (0, 3)})
    query = sql._parsed("SELECT g, COUNT(*), SUM(x), AVG(x) FROM v GROUP BY g")
    plan = sql._kind(query).plan()
    private, rng, misses, few = sql._kind(query).read(plan), np.random.default_rng(0), [], 0
    true = {"few": [40, 60, 1.5], "many": [360, 540, 1.5]}
    for _ in range(150):
        with Session.simulated(plan, rng) as session:
            sql._kind(plan.query).release(private, plan, session)
        answer = all_answered(plan.query, plan, session.released, plan.guarantee)
        few += ("few",) in answer.cells
        low, high = answer.confidence_interval(0.8)
        exact = np.array([true[cell] for (cell,) in answer.cells]).T.ravel()
        misses.append(np.mean((low > exact) | (high < exact)))
    assert 50 < few <= 150
    # 750 intervals or more, of a few that are dependent: five standard errors.
    assert 0.1 < np.mean(misses) < 0.29


def test_groups_are_discovered_only_where_a_row_is_in_one() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE v AS SELECT i % 2 AS g, i % 3 AS u, i * 1.0::DOUBLE AS x FROM range(90) t(i)")
    connection.execute("CREATE TABLE w AS SELECT i % 2 AS g FROM range(4) t(i)")
    options: dict[str, Any] = {"categories": {"v.g": "discover", "v.x": "discover"}, "epsilon": 1.0}
    text = "SELECT v.g, COUNT(*) FROM v GROUP BY v.g"
    for more, query, message in (
        ({}, text, "delta must be positive"),
        ({"delta": 1e-6, "unit": "u"}, text, "where units are protected"),
        ({"delta": 1e-6}, "SELECT x, COUNT(*) FROM v GROUP BY x", "declare bins of numbers"),
        ({"delta": 1e-6}, "SELECT g, COUNT(DISTINCT u) FROM v GROUP BY g", "declare categories of the groups"),
        ({"delta": 1e-6}, text.replace("FROM v", "FROM v JOIN w USING (g)"), "in this join"),
        ({"delta": 1e-6, "public_tables": ["w"]}, text.replace("FROM v", "FROM v JOIN w USING (g)"), "in this join"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            PrivateSQL(connection, **options, **more).query(query)


def test_the_stated_noise_is_that_of_the_answers(connection: Any) -> None:
    # The printed scale of a share, against the spread of many answers. Laplace noise has 1.41 scales, and the rows with
    # an entry are one share.
    for text in ("SELECT g, COUNT(*), COUNT(y) FROM r GROUP BY g", TEXT):
        made = PrivateSQL(connection, epsilon=1.0, random_state=1, **DECLARED)
        found = [made.query(text) for _ in range(60)]
        said = re.search(r"Laplace of scale ([\d.]+) rows on every share", str(found[0].summary()))
        assert said is not None
        counts = np.array([each["count_y"] for each in found])
        assert counts.std(axis=0).mean() == pytest.approx(2**0.5 * float(said[1]), rel=0.2)


def test_each_side_of_the_mean_has_its_part_of_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    db = duckdb.connect()
    db.execute("CREATE TABLE r AS SELECT range % 10 AS x FROM range(500)")
    answer = PrivateSQL(db, epsilon=1.0, bounds={"r.x": (0, 10)}, random_state=0).query("SELECT VAR_POP(x) FROM r")
    asked, ends = [], ShareRatio.ends
    monkeypatch.setattr(ShareRatio, "ends", lambda self, z: asked.append(z) or ends(self, z))
    answer.confidence_interval()
    # A tenth of the error probability is for the mean, half of it on each side.
    assert float(np.max(asked[-1])) == pytest.approx(norm.isf(0.1 * 0.025 / 2), rel=1e-6)
