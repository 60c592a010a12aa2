"""The fit of the engine: a walk that the release and the report take alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpstats.data.rows import Table
from dpstats.regression import PrivateCountRegression, PrivateLinearRegression, PrivateLogisticRegression, engine
from dpstats.regression.blocks import Design
from dpstats.regression.engine import of_draw, walked
from dpstats.regression.path import Estimate, find_identified
from dpstats.regression.plan import regression_plan
from dpstats.release.session import Session


def test_several_draws_go_ways_of_their_own() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (300, 2)), rng.uniform(-1, 1, 300)
    for estimator, outcome in (
        (PrivateLinearRegression(x_bounds=(-1, 1), y_bounds=(-1, 1), epsilon=5.0), y),
        (PrivateLogisticRegression(x_bounds=(-1, 1), epsilon=5.0), (y > 0).astype(float)),
    ):
        plan = estimator.plan(300, 2)
        with Session.simulated(plan, np.random.default_rng(1), 3) as session:
            estimator._release(estimator._read(Table(X, y=outcome), plan), plan, session)
        ways = [{name: of_draw(values, draw) for name, values in session.released.items()} for draw in range(3)]
        estimates = [walked(way, plan).estimate().params for way in ways]
        assert len({tuple(params) for params in estimates}) == 3


def test_a_fit_is_the_walk_through_what_it_released() -> None:
    rng = np.random.default_rng(2)
    X, y = rng.uniform(-1, 1, (500, 2)), rng.uniform(-1, 1, 500)
    estimator = PrivateLinearRegression(x_bounds=(-1, 1), y_bounds=(-1, 1), random_state=3)
    plan = estimator.plan(500, 2)
    with Session.simulated(plan, np.random.default_rng(3)) as session:
        estimator._release(estimator._read(Table(X, y=y), plan), plan, session)
    expected = walked(session.released, plan).estimate().params
    assert np.array_equal(estimator.fit(X, y).params_, expected)


def test_a_slope_is_not_identified_if_most_of_its_error_was_there_before_the_steps() -> None:
    design = Design.check((-1, 1), (-1, 1), 3, False)
    estimate = Estimate(
        np.zeros(3), *[np.eye(3)] * 3, np.diag([0.6, 0.4, 0.6]), np.diag([5.0, 5.0, 50.0]), 1, 1, 0, 100, 100
    )
    for n, expected in ((100_000, [False, True, True]), (100, [False] * 3)):  # noise only, as the plan says
        plan = regression_plan("linear", design, n, 1.0, 1e-6)
        assert find_identified(replace(estimate, rows=n), np.eye(3), plan).tolist() == expected
    # Where the error is that of a slope of twice the expected size, less than half of it would be left of that one.
    estimate = replace(estimate, rows=100_000, stretched=np.array([4.0, 4.0, 1.0]))
    plan = regression_plan("linear", design, 100_000, 1.0, 1e-6)
    assert find_identified(estimate, np.eye(3), plan).tolist() == [True] * 3


@pytest.mark.parametrize("model", [PrivateLinearRegression, PrivateCountRegression])
def test_a_report_has_the_path_of_the_released_values(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Empty(list[Any]):
        def __setitem__(self, where: Any, values: Any) -> None:
            pass

    X, y = np.random.default_rng(0).normal(size=(400, 2)), np.arange(400.0) % 5
    made = model(x_bounds=(-4, 4), y_bounds=(0, 5), random_state=0)
    once = str(made.fit(X, y).summary())
    assert not engine._walked
    monkeypatch.setattr(engine, "_walked", Empty())
    assert str(made.fit(X, y).summary()) == once
