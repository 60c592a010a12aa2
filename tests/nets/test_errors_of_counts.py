"""Tables, proportions and workloads: limits of shares miss as often as they say, where sampling or noise makes errors.

Limits that count exact laws are compared with them; the others are inverted score tests, which are careful.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pytest

from dpstats.queries import Domain, WorkloadAnswers
from dpstats.sql import PrivateSQL
from dpstats.tables import ContingencyTable, PrivateProportion
from tests.nets.statements import Cell, Draw, Numbers, check, fits, scores, wrong_rates

# Two groups and an outcome of five levels, all unlike.
# One level has most of its group: what its share is off by comes from the noise of all others.
SHARES = np.array([[0.56, 0.05, 0.03, 0.02, 0.04], [0.05, 0.08, 0.04, 0.10, 0.03]])
LEVELS = {"group": ["a", "b"], "outcome": [0, 1, 2, 3, 4]}


def rows(n: int, dropped: float = 0.0) -> Draw:
    """Return what draws n rows of two attributes, some of them in no cell."""

    def draw(rng: np.random.Generator) -> tuple[Any, ...]:
        codes = rng.choice(10, n, p=SHARES.ravel())
        group = np.where(rng.random(n) < dropped, "c", np.array(["a", "b"])[codes // 5])
        return (np.rec.fromarrays([group, codes % 5], names="group,outcome").tolist(),)

    return draw


@dataclass(frozen=True)
class Limits:
    """Limits of one kind, and how often they state to miss."""

    make: Callable[[], Any]
    draw: Draw
    truth: Numbers
    ask: Callable[[Any, float], Any]
    least: float


def within(fitted: Any, level: float) -> Any:
    """Return intervals of shares within groups."""
    return fitted.confidence_interval(level, axis="outcome")


def whole(fitted: Any, level: float) -> Any:
    """Return intervals of cells."""
    return fitted.confidence_interval(level)


def table(epsilon: float, **more: Any) -> Callable[[], Any]:
    """Return what makes a table."""
    return lambda: ContingencyTable(levels=LEVELS, epsilon=epsilon, **more)


GROUPED = SHARES / SHARES.sum(axis=1, keepdims=True)
LIMITS = {
    "cells, sampling": Limits(table(1.0), rows(600), SHARES, whole, least=0.5),
    "cells, noise": Limits(table(0.05), rows(600), SHARES, whole, least=0.8),
    "cells, rows dropped, noise": Limits(table(0.05, unknown="drop"), rows(600, 0.2), SHARES, whole, least=0.8),
    "within groups, sampling": Limits(table(1.0), rows(600), GROUPED, within, least=0.4),
    "within groups, noise": Limits(table(0.1, delta=1e-6), rows(600), GROUPED, within, least=0.8),
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits_miss_as_often_as_they_state(name: str) -> None:
    asked = LIMITS[name]
    misses = []
    for fitted in fits(asked.make(), asked.draw, 120):
        low, high = asked.ask(fitted, 0.8)
        misses.append([np.asarray(low) > asked.truth, np.asarray(high) < asked.truth])
    assert wrong_rates(misses, 0.1, asked.least) == []
    # The same limits would not do for half of the misses.
    assert wrong_rates(misses, 0.04) != []


# Effects: two groups, most of both at one outcome of five.
MOSTLY = np.array([[0.40, 0.03, 0.03, 0.02, 0.02], [0.38, 0.04, 0.03, 0.03, 0.02]])


@pytest.mark.parametrize(("epsilon", "n"), [(1.0, 600), (0.04, 600), (0.02, 4000)])
def test_effects_miss_no_more_often_than_they_state(epsilon: float, n: int) -> None:
    truth, misses = 0.8 - 0.76, []

    def draw(rng: np.random.Generator) -> tuple[Any, ...]:
        codes = rng.choice(10, n, p=MOSTLY.ravel())
        return (np.column_stack([codes // 5, codes % 5]),)

    for fitted in fits(ContingencyTable(levels=[range(2), range(5)], epsilon=epsilon), draw, n // 600 * 50 + 70):
        low, high = fitted.difference((0, 1), 0).confidence_interval(0.8)
        misses.append([low > truth, high < truth])
    assert wrong_rates(misses, 0.1, 0.3) == []


def test_where_rows_are_dropped_their_number_is_off_too() -> None:
    def draw(rng: np.random.Generator) -> tuple[Any, ...]:
        return (rng.choice(3, 600, p=[0.68, 0.12, 0.2]),)

    made, misses = ContingencyTable(levels=[[0, 1]], unknown="drop", epsilon=0.05), []
    for fitted in fits(made, draw, 700):
        low, high = (float(end[0]) for end in fitted.cells().estimates(first=1).confidence_interval(0.8))
        misses.append([low > 0.85, high < 0.85])
    assert wrong_rates(misses, 0.1, 0.7) == []


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.0), (0.05, 0.0), (0.1, 1e-6)])
def test_proportions_have_exact_pvalues(epsilon: float, delta: float) -> None:
    check(
        Cell(
            "proportion",
            lambda: PrivateProportion(epsilon=epsilon, delta=delta),
            lambda rng: (rng.random(400) < 0.3,),
            lambda fitted: scores([fitted.test(0.3, "greater", interval="exact").pvalue]),
            1500,
        )
    )


# Workloads: tables of unlike sizes, whose answers have unlike noise.
DOMAIN = Domain({"a": 2, "b": 3, "c": 5})
CODES = np.column_stack([np.random.default_rng(0).integers(0, k, 300) for k in DOMAIN.shape])


def test_answers_are_off_by_the_noise_that_is_stated_of_each() -> None:
    workload = [("c",), ("a", "b"), ("a",), ("b", "c")]
    exact = WorkloadAnswers(domain=DOMAIN, workload=workload, epsilon=1e4, random_state=0).fit(CODES).linear_
    check(
        Cell(
            "answers",
            lambda: WorkloadAnswers(domain=DOMAIN, workload=workload, epsilon=0.5),
            lambda rng: (CODES,),
            lambda fitted: (fitted.linear_ - exact) / fitted.noise_std_,
            500,
        )
    )


def test_answers_for_a_population_miss_as_often_as_they_state() -> None:
    workload, misses = [("a", "b")], []
    for fitted in fits(
        WorkloadAnswers(domain=DOMAIN, workload=workload, epsilon=1.0),
        lambda rng: (np.column_stack([rng.integers(0, k, 300) for k in DOMAIN.shape]),),
        120,
    ):
        low, high = fitted.confidence_interval(0.8, estimand="population")
        misses.append([np.asarray(low) > 1 / 6, np.asarray(high) < 1 / 6])
    assert wrong_rates(misses, 0.1, 0.8) == []


@pytest.mark.parametrize(
    ("query", "truth", "least"),
    [
        ("SELECT z, COUNT(*) FROM v GROUP BY z", [75.0, 75.0, 75.0, 75.0], 0.75),
        ("SELECT SUM(x) FROM v", [301.0], 0.75),
        ("SELECT AVG(x) FROM v", [301 / 300], 0.0),
    ],
)
def test_answers_of_queries_miss_as_often_as_they_state(query: str, truth: list[float], least: float) -> None:
    db = duckdb.connect()
    db.execute("CREATE TABLE v AS SELECT range % 7 - 2 AS x, range % 4 AS z FROM range(300)")
    sql = PrivateSQL(
        db,
        epsilon=0.5,
        bounds={"v.x": (-2, 4)},
        categories={"v.z": [0, 1, 2, 3]},
        random_state=np.random.default_rng(0),
    )
    misses = []
    for _ in range(200):
        low, high = sql.query(query).confidence_interval(0.8)
        misses.append([np.atleast_1d(low) > truth, np.atleast_1d(high) < truth])
    assert wrong_rates(misses, 0.1, least) == []
