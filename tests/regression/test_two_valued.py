"""Columns with two values: they are found, their moves are exact, and a fit without noise is the likelihood's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from dpstats.regression import PrivateCountRegression, PrivateGammaRegression, PrivateLogisticRegression
from dpstats.regression.blocks import Design
from dpstats.regression.engine import walked
from dpstats.regression.log_linear_path import LogLinearPath
from dpstats.regression.log_linear_plan import log_linear_plan
from dpstats.regression.path import Curvature
from dpstats.regression.two_valued import LevelPath, LogisticPath, Moments

N = 20_000
GENERATOR = np.random.default_rng(5)
X = np.stack([GENERATOR.uniform(0, 1, N), GENERATOR.random(N) < 0.25, GENERATOR.random(N) < 0.4], axis=1)
DECLARED: dict[str, Any] = {"x_bounds": (0, 1), "random_state": 0}


def path_of(model: Any, epsilon: float, X: np.ndarray, y: np.ndarray) -> LevelPath:
    """Return the path after all releases of a fit."""
    seen: list[Any] = []
    report = model._report

    def keep(released: Any, plan: Any) -> None:
        seen.append(walked(released, plan))
        report(released, plan)

    model._report = keep
    model.set_params(epsilon=epsilon).fit(X, y)
    path: LevelPath = seen[0]
    return path


def test_columns_with_two_values_are_found() -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        rows = np.stack(
            [
                rng.uniform(0, 1, N),
                rng.random(N) < 0.3,
                rng.beta(2, 2, N),
                rng.exponential(0.1, N).clip(0, 1),
                rng.random(N) < 0.1,
            ],
            axis=1,
        )
        y = rng.poisson(1.0, N)
        counts = path_of(PrivateCountRegression(**DECLARED, y_bounds=(0, 20)), 1.0, rows, y)
        log_odds = path_of(PrivateLogisticRegression(**DECLARED), 1.0, rows, np.minimum(y, 1))
        for path in (counts, log_odds):
            assert path.two_valued.tolist() == [False, True, False, False, True]


def test_factors_of_a_formula_are_known() -> None:
    # With few rows, noise hides that a column has two values.
    rng = np.random.default_rng(8)
    rows = rng.random(2000) < 1 / 3
    frame = pd.DataFrame({"x": rng.uniform(0, 1, 2000), "c": rows, "z": rows.astype(float)})
    frame["y"] = rng.poisson(np.exp(0.2 + 0.5 * frame["x"] - 3.0 * rows))
    bounds, given = {"x": (0, 1), "z": (0, 1), "y": (0, 30)}, {"epsilon": 1.0, "random_state": 4}
    known = PrivateCountRegression.from_formula("y ~ x + c", frame, bounds=bounds, **given)
    unknown = PrivateCountRegression.from_formula("y ~ x + z", frame, bounds=bounds, **given)
    assert known.plan_.design.two_valued == (False, True)
    assert unknown.plan_.design.two_valued == (False, False)
    assert [each.place for each in known._levels] == [1]
    assert known.plan_.stages == unknown.plan_.stages


def test_noise_makes_no_levels() -> None:
    rng = np.random.default_rng(1)
    rows, y = rng.normal(size=(300, 3)).clip(-3, 3), rng.poisson(1.0, 300)
    for seed in range(5):
        model = PrivateCountRegression(x_bounds=(-3, 3), y_bounds=(0, 20), random_state=seed)
        assert not path_of(model, 0.5, rows, y).two_valued.any()


@pytest.mark.parametrize("slope", [-4.6, -2.6, 2.2])
def test_without_noise_strong_levels_are_the_likelihoods(slope: float) -> None:
    rng = np.random.default_rng(6)
    linear = 0.2 + X @ [0.5, slope, -1.0]
    rows = sm.add_constant(X)
    counts, amounts = rng.poisson(np.exp(linear)), rng.gamma(2.0, np.exp(linear) / 2)
    binary = (rng.random(N) < 1 / (1 + np.exp(-linear))).astype(float)
    given = {**DECLARED, "epsilon": 1e8}
    families = sm.families
    for model, y, family in (
        (PrivateCountRegression(**given, y_bounds=(0, 80), overdispersion=0), counts, families.Poisson()),
        (PrivateGammaRegression(**given, y_bounds=(0, 200)), amounts, families.Gamma(families.links.Log())),
        (PrivateLogisticRegression(**given), binary, families.Binomial()),
    ):
        exact = sm.GLM(y, rows, family=family).fit()
        found = model.fit(X, y)
        # The curvature of amounts is the expected one, so their steps converge more slowly.
        tolerance = 0.05 if isinstance(model, PrivateGammaRegression) else 0.005
        assert np.abs((found.params_ - exact.params) / exact.bse).max() < tolerance
        assert found.settled_.all() and not found.one_sided_.any()


def test_the_move_of_a_level_is_exact() -> None:
    design = Design.check((0, 1), (0, 20), 1, True)
    path = LogLinearPath(log_linear_plan("counts", 0.0, design, 1000, 1.0, 1e-6))
    assert path._level_move(0.3, np.exp(-2.0) - 1, 0.0, 0.05) == pytest.approx(-2.0)
    # A level never moves below the floor, or below its noise.
    assert path._level_move(0.3, -5.0, 0.0, 0.05) == pytest.approx(np.log(0.05))
    assert path._level_move(0.3, -5.0, 0.4, 0.05) == pytest.approx(np.log(0.4))
    odds = LogisticPath(PrivateLogisticRegression(x_bounds=(0, 1)).plan(1000, 1))
    before, after = (1 / (1 + np.exp(-each)) for each in (0.5, -3.0))
    change = (after - before) / (before * (1 - before))
    assert odds._level_move(0.5, change, 0.0, 0.01) == pytest.approx(-3.5)


def test_one_column_solves_both_levels() -> None:
    # Curvature of rows with weight 1, a third of them at the upper bound: the levels move to half and to a third.
    design = Design.check((0, 1), (0, 20), 1, True)
    path = LogLinearPath(log_linear_plan("counts", 0.0, design, 1000, 1.0, 1e-6))
    share = 1 / 3
    path.shift = np.array([2 * share - 1])
    path.two_valued = np.array([True])
    values = np.array([-1.0, 1.0]) - path.shift
    rows, weights = np.stack([np.ones(2), values], axis=1), np.array([1 - share, share])
    curvature = rows.T @ (weights[:, None] * rows)
    inverse = Curvature(curvature, np.zeros((2, 2))).inverted(1e-9)
    changes = np.array([1 / 2, 1 / 3]) - 1
    move = np.linalg.solve(curvature, rows.T @ (weights * changes))
    moved = rows @ (move + path._correct_levels(move, 0.0, inverse, 2))
    assert moved == pytest.approx(np.log([1 / 2, 1 / 3]), abs=2e-3)


def test_other_columns_shorten_a_move_of_the_center_alone() -> None:
    rng = np.random.default_rng(7)
    rows = rng.uniform(0, 1, (5000, 2))
    y = rng.poisson(np.exp(rows @ [0.5, -0.5]))
    path = path_of(PrivateCountRegression(**DECLARED, y_bounds=(0, 20)), 1.0, rows, y)
    assert not path.has_levels and path._effects().own == [] and not path.last_steps
    assert path.inverse is not None
    move = np.linalg.solve(path.whitening.T, [1.0, 0.0, 0.0])
    fixed = path.whitening.T @ path._correct_levels(move, 0.0, path.inverse, 2)
    assert fixed == pytest.approx([np.log(2) - 1, 0, 0], abs=0.02)
    assert not path._correct_levels(-move, 0.0, path.inverse, 2).any()


def test_levels_of_a_factor_exclude_each_other_in_its_cells() -> None:
    rng = np.random.default_rng(0)
    code = rng.choice(3, 10_000, p=[0.5, 0.3, 0.2])
    rows = np.stack([code == 1, code == 2, rng.random(10_000) < 0.4], axis=1).astype(float)
    share = rows.mean(axis=0)
    found = Moments(np.zeros(3), 4 * np.cov(rows.T, bias=True), share).cells([0, 1, 2])
    assert found.upper[:, :2].sum(axis=1).max() == 1 and len(found.weights) == 6
    seen = [np.mean((rows == cell).all(axis=1)) for cell in found.upper]
    assert found.weights == pytest.approx(seen, abs=0.005)
    assert found.covariance == pytest.approx(4 * np.cov(rows.T, bias=True), abs=0.01)


def test_moves_of_the_levels_of_a_factor_are_exact() -> None:
    plan = log_linear_plan("counts", 1.0, Design.check((-1, 1), (0, 20), 2, True), 1000, 1e6, 1e-6)
    path = LogLinearPath(plan)
    path.two_valued[:] = True
    ends = np.array([[-1.0, -1], [1, -1], [-1, 1]])
    weights = np.array([0.5, 0.3, 0.2])
    path.shift = weights @ ends
    rows = np.column_stack([np.ones(3), ends - path.shift])
    curvature = rows.T @ (weights[:, None] * rows)
    changes = np.array([0.5, 0.1, 6.0]) - 1
    move = np.linalg.solve(curvature, rows.T @ (weights * changes))
    inverse = Curvature(curvature, np.zeros((3, 3))).inverted(1e-9)
    moved = rows @ (move + path._correct_levels(move, 0.0, inverse, 2))
    assert moved == pytest.approx(np.log([0.5, 0.1, 6.0]), abs=0.02)


def test_a_last_move_that_errors_do_not_explain_is_not_settled() -> None:
    # A rare outcome and a strong slope of a long-tailed column: four steps are not enough, and the fit says so.
    rng = np.random.default_rng(1)
    rows = rng.standard_t(3, (10_000, 2))
    y = rng.random(10_000) < 1 / (1 + np.exp(6.2 + rows @ [1.2, 0.3]))
    model = PrivateLogisticRegression(x_bounds=(-40, 40), epsilon=1e4, random_state=0).fit(rows, y)
    assert not model.settled_.all() and model.unsettled_
    assert any("did not settle" in note for note in model.summary().notes)
    best = sm.Logit(y, sm.add_constant(rows)).fit(disp=0)
    assert np.all(np.abs(model.coef_ - best.params[1:]) < 2 * model.standard_errors_)
