"""Answers: intervals that cover, whatever the method; bounds of the whole; what is printed."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pytest

from dpstats.errors import DPStatsError, InvalidParameter
from dpstats.release.session import Session
from dpstats.sql import PrivateAnswer, PrivateSQL
from dpstats.sql.answers import answered

DECLARED: dict[str, Any] = {"bounds": {"r.x": (-2, 8)}, "categories": {"r.g": [0, 1, 2, 3]}}


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
    plan = made._planned(query)
    private, rng, found = made._read(query, plan), np.random.default_rng(len(name)), []
    for _ in range(times):
        with Session.simulated(plan, rng) as session:
            made._release(private, plan, session)
        found.append(answered(query, plan, session.released, plan.guarantee))
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
        assert np.all(low <= answer.values[there]) and np.all(answer.values[there] <= high)
    # At least 90%: fewer than 21 of 30 has a probability of 5e-4.
    assert sum(covered) >= 21


def test_a_lower_bound_is_of_the_whole(connection: Any) -> None:
    for options in ({}, {"truncation": "race"}):
        found = answers(connection, "units", 40, **options)
        assert sum(answer.lower_bound(0.9) <= 900 for answer in found) >= 30
    with pytest.raises(DPStatsError, match="race has no interval"):
        found[0].confidence_interval()
    with pytest.raises(DPStatsError, match=r"level 0\.95"):
        found[0].lower_bound(0.99)
    assert "race" not in found[0].estimand and found[0].thresholds == ()
    (mean,) = answers(connection, "mean", 1)
    with pytest.raises(DPStatsError, match="of a count"):
        mean.lower_bound()


def test_without_an_interval_nothing_is_said_of_the_noise(connection: Any) -> None:
    (answer,) = answers(connection, "smooth", 1, interval=False)
    assert "high" not in str(answer.summary()).lower() and set(answer.records()[0]) == {"count"}
    with pytest.raises(DPStatsError, match="interval=False"):
        answer.confidence_interval()


def test_summaries_say_what_is_counted_and_of_what(connection: Any) -> None:
    (answer,) = answers(connection, "cells", 1)
    text = str(answer)
    assert (
        "SELECT g, COUNT(*) FROM r GROUP BY g" in text and "[95% low" in text and "Laplace of scale 2" in text
    )
    assert not isinstance(answer, PrivateAnswer) and [record["g"] for record in answer.records()] == [
        0,
        1,
        2,
        3,
    ]
    (units,) = answers(connection, "units", 1)
    assert (
        "at most" in units.estimand and "lower bound only" in str(units) and "<table" in units._repr_html_()
    )
    (smooth,) = answers(connection, "smooth", 1)
    assert "private scale" in str(smooth)
    with pytest.raises(InvalidParameter, match="confidence_level"):
        smooth.confidence_interval(2)
