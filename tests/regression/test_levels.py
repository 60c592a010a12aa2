"""Levels adjusted for covariates: what a row contributes, what the path learns, and what the estimates say."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

from dpstats.data.rows import Table
from dpstats.errors import InvalidParameter
from dpstats.means.ratio import DifferenceErrors
from dpstats.privacy import JointStage
from dpstats.regression import engine
from dpstats.regression.blocks import Design
from dpstats.regression.levels import LevelMeans, LevelsEstimate, LevelsPath, clipped_mean, invert_clipped_mean
from dpstats.regression.levels_plan import (
    BEYOND,
    CLIPPED,
    COVARIATES,
    LEVELS,
    OUTCOMES,
    RESIDUALS,
    LevelsPlan,
    levels_plan,
)
from dpstats.release.session import Session

LABELS = ("a", "b", "c")


def plan_of(n: int, d: int = 2, epsilon: float = 3.0, **options: Any) -> LevelsPlan:
    design = Design.check([(-4.0, 4.0)] * d, (-8.0, 8.0), d, True)
    given = {"missing": "error", "randomized": True} | options
    return levels_plan(design, LABELS, n, epsilon, 1e-6, **given)


def rows_of(n: int, seed: int = 0, shift: float = 0.0, shares: Any = (0.5, 0.4, 0.1)) -> Table:
    rng = np.random.default_rng(seed)
    k = rng.choice(3, n, p=shares)
    X = rng.normal(size=(n, 2)) + shift * np.array([0.0, 1.0, -1.0])[k][:, None]
    y = 1 + X @ [0.5, -0.5] + np.array([0.0, 1.0, -2.0])[k] + rng.normal(size=n)
    return Table(X, y=y, groups=k.astype(np.int64))


def fit(plan: LevelsPlan, table: Table, seed: int = 0) -> LevelsEstimate:
    rows = engine.read(table, plan, keep=True)
    with Session.simulated(plan, np.random.default_rng(seed)) as session:
        engine.release(rows, plan, session)
    return engine.walked(session.released, plan).estimate()


def test_the_stages_of_a_plan_take_all_of_mu() -> None:
    other = {"randomized": False}
    for options in ({}, other, other | {"slopes": True}, other | {"count_clipped": True}, {"pure": 0.6}):
        plan = plan_of(20_000, **options)
        assert plan.steps is not None
        names = [stage.name for stage in plan.stages]
        assert names[:2] == [OUTCOMES, LEVELS] and names[-1] == RESIDUALS
        assert (COVARIATES in names) != plan.randomized
        others = [stage for stage in plan.stages if stage.name in (OUTCOMES, LEVELS, COVARIATES, CLIPPED, RESIDUALS)]
        gaussian = [stage for stage in others if stage.noise == "gaussian"]
        total = sum((stage.event.mu / plan.mu) ** 2 for stage in gaussian) + (plan.steps.mu / plan.mu) ** 2
        assert total == pytest.approx(1.0, abs=1e-6)
        assert tuple(plan.steps.stages) == tuple(stage for stage in plan.stages if stage not in others)
        assert plan.guarantee.epsilon <= 3.0
        assert plan.has_both_laws == ("pure" in options)


def test_slopes_that_are_wanted_get_more() -> None:
    little, much = (plan_of(5000, randomized=False, slopes=wanted) for wanted in (False, True))
    assert little.steps is not None and much.steps is not None
    assert much.steps.mu > little.steps.mu


def test_noise_that_hides_all_slopes_leaves_one_stage() -> None:
    plan = plan_of(300, epsilon=0.5)
    assert plan.steps is None and plan.noise_only
    assert [stage.name for stage in plan.stages] == [LEVELS]
    assert "not adjusted" in str(plan)
    found = fit(plan, rows_of(300))
    assert found.means.shape == (3, 1) and not isinstance(found.means, LevelMeans)


@pytest.mark.parametrize("randomized", [True, False])
def test_a_row_adds_the_same_among_others(randomized: bool) -> None:
    plan, table = plan_of(5000, randomized=randomized), rows_of(5000)
    path = engine.first_path(plan)
    rows = engine.read(table, plan, keep=True)
    streamed = engine.read(table, plan)
    parts = [
        engine.read(Table(table.X[some], y=table.y[some], groups=table.groups[some]), plan, keep=True)
        for some in (slice(0, 1), slice(1, 2000), slice(2000, None))
    ]
    with Session.simulated(plan, np.random.default_rng(1)) as session:
        for stage in plan.stages:
            question = path.question(stage.name)
            whole = rows.answer(question)
            for name, values in whole.items():
                assert (values == streamed.answer(question)[name]).all()
                assert (values == sum(part.answer(question)[name] for part in parts)).all(), stage.name
            joint = isinstance(stage, JointStage)
            path.take(stage.name, session.add(stage.name, whole if joint else whole[stage.name]))


def test_rows_of_no_declared_level_add_nothing() -> None:
    plan, table = plan_of(4000), rows_of(4000)
    groups = table.groups.copy()
    groups[:1000] = -1
    fewer = engine.read(Table(table.X[1000:], y=table.y[1000:], groups=groups[1000:]), plan, keep=True)
    all_rows = engine.read(Table(table.X, y=table.y, groups=groups), plan, keep=True)
    path = engine.first_path(plan)
    question = path.question(OUTCOMES)
    for name, values in all_rows.answer(question).items():
        assert (values == fewer.answer(question)[name]).all()


def test_at_no_noise_means_are_those_of_least_squares() -> None:
    for randomized, shift in ((True, 0.0), (False, 1.0)):
        table = rows_of(20_000, shift=shift)
        found = fit(plan_of(20_000, epsilon=1e6, randomized=randomized), table)
        assert isinstance(found.means, LevelMeans)
        design = np.column_stack([np.eye(3)[table.groups], table.X])
        exact, *_ = np.linalg.lstsq(design, table.y, rcond=None)
        errors = np.sqrt(np.diagonal(np.linalg.inv(design.T @ design)))
        if randomized:  # b is another one, which the imbalance of the arms multiplies
            errors = 3 * errors
        assert np.abs(8 * found.means.estimate[:, 0] - exact[:3]) == pytest.approx(0, abs=0.5 * errors.max())
        assert found.counts == pytest.approx(np.bincount(table.groups), abs=0.5)
        slopes = found.path.fit.slopes * 2
        assert np.abs(slopes - exact[3:]) == pytest.approx(0, abs=0.5 * errors[3:].max())


def test_a_rare_level_is_clipped_nearer_and_its_bias_counts() -> None:
    table = rows_of(20_000, shares=(0.6, 0.39, 0.01))
    path_fit = fit(plan_of(20_000, epsilon=1.0), table).path.fit
    assert path_fit.bias[2] > 2 * path_fit.bias[0]
    assert path_fit.clip[2] < 0.5 * path_fit.clip.max() and (path_fit.clip <= 2.0).all()


def test_a_level_outside_the_range_of_most_outcomes_is_found() -> None:
    rng = np.random.default_rng(4)
    k = (rng.random(30_000) < 0.02).astype(np.int64)
    X = rng.normal(size=(30_000, 2))
    y = X @ [0.5, 0.5] - 5.0 + 11.0 * k + 0.5 * rng.normal(size=30_000)
    found = fit(plan_of(30_000), Table(X, y=y, groups=k))
    low, high = (8 * end[:, 0] for end in found.means.ends(1.96))
    assert low[1] < 6.0 < high[1] and high[1] - low[1] < 4


def test_clipped_means_are_inverted() -> None:
    mean = np.linspace(-3, 3, 25)
    value = clipped_mean(mean, 1.5, 1.0)
    assert invert_clipped_mean(value, 1.5, 1.0) == pytest.approx(mean, abs=1e-6)
    assert np.isposinf(invert_clipped_mean(np.array([1.5]), 1.5, 1.0)).all()
    # Quadrature of E clip(m + Z, -1.5, 1.5)
    z = np.linspace(-9, 9, 200_001)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    assert clipped_mean(0.7, 1.5, 1.0) == pytest.approx(np.clip(0.7 + z, -1.5, 1.5) @ density, abs=1e-6)
    slope = (clipped_mean(1e-5, 1.5, 1.0) - clipped_mean(-1e-5, 1.5, 1.0)) / 2e-5
    assert slope == pytest.approx(2 * ndtr(1.5) - 1, abs=1e-6)


def test_a_hidden_level_has_open_ends_and_a_bias_widens() -> None:
    found = fit(plan_of(5000, epsilon=1.0), rows_of(5000, shares=(0.6, 0.4, 0.0)))
    assert isinstance(found.means, LevelMeans)
    assert found.identified.tolist() == [True, True, False]
    low, high = found.means.ends(1.96)
    assert low[2, 0] <= -1.0 and high[2, 0] >= 1.0
    wider = found.means.shift(0.1, 0.05)
    assert wider.estimate[0, 0] == pytest.approx(found.means.estimate[0, 0] + 0.1)
    assert np.diff(wider.ends(1.96), axis=0)[0, 0, 0] > 1.5 * np.diff(found.means.ends(1.96), axis=0)[0, 0, 0]
    score = found.means.score(found.means.estimate)
    assert score[:2] == pytest.approx(0.0, abs=1e-3)


def test_differences_count_the_errors_of_the_slopes() -> None:
    plan = plan_of(20_000, epsilon=1.0, randomized=False)
    found = fit(plan, rows_of(20_000, shift=1.0))
    first, second = found.compare(1, 2)
    assert isinstance(first, LevelMeans) and isinstance(found.means, LevelMeans)
    kept = 2 * ndtr(first.clip / first.scale) - 1
    added = np.sqrt(first.ratio.bias**2 - found.means[1].ratio.bias ** 2) * first.clip / kept
    cov = found.covariance
    assert added == pytest.approx(math.sqrt(cov[1, 1] + cov[2, 2] - 2 * cov[1, 2]))
    # The covariates of the levels are two standard deviations apart.
    assert added[0] == pytest.approx(math.sqrt(0.25 * found.slopes_covariance.sum()), rel=0.3)
    assert second.ratio.bias == found.means[2].ratio.bias


def test_levels_that_are_not_randomized_are_not_compared_without_slopes() -> None:
    with pytest.raises(InvalidParameter, match="epsilon must"):
        plan_of(300, epsilon=0.5, randomized=False)


def test_slopes_that_are_noise_adjust_nothing_in_a_trial() -> None:
    rng = np.random.default_rng(3)
    k = rng.integers(0, 2, 3000)
    table = Table(rng.normal(size=(3000, 2)), y=k + rng.normal(size=3000), groups=k)
    slopes = np.array([fit(plan_of(3000, epsilon=1.0), table, seed).path.fit.slopes for seed in range(20)])
    assert (slopes == 0).mean() > 0.8


def test_a_range_as_wide_as_the_bounds_is_in_their_middle() -> None:
    rng = np.random.default_rng(3)
    k = rng.integers(0, 2, 5000)
    y = np.where(rng.random(5000) < 0.2, 8.0, -8.0)
    found = fit(plan_of(5000), Table(rng.normal(size=(5000, 2)), y=y, groups=k))
    assert (found.path.center, found.path.half) == (0.0, 1.0)
    low, high = found.population.ends(1.96)
    assert isinstance(found.population, LevelMeans) and isinstance(found.means, LevelMeans)
    assert (found.population.ratio.bias >= found.means.ratio.bias + 0.5 * found.path.mean_error).all()
    assert (low[:2] < -0.6).all() and (high[:2] > -0.6).all() and (high - low)[:2].max() < 0.12


def cut_rows(seed: int, n: int = 9000) -> Table:
    """Return rows whose second covariate is skewed and lies beyond its bounds, most of all in the last level."""
    rng = np.random.default_rng(seed)
    k = rng.choice(3, n, p=(0.5, 0.35, 0.15))
    z, x = rng.normal(size=n), rng.exponential(0.6, size=n) + np.array([2.0, 2.6, 4.2])[k]
    y = 2.0 * z + np.array([0.0, 0.5, -0.5])[k] + rng.normal(scale=0.4, size=n)
    return Table(np.column_stack([z, x]), y=y, groups=k.astype(np.int64))


@pytest.mark.parametrize("beyond", [True, False])
def test_bounds_that_cut_a_covariate_leave_errors_right(beyond: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not beyond:
        take = LevelsPath._take_covariates

        def take_inside(path: LevelsPath, released: Any) -> None:
            take(path, {**released, BEYOND: 0.0 * released[BEYOND]})

        monkeypatch.setattr(LevelsPath, "_take_covariates", take_inside)
    plan, scores = plan_of(9000, epsilon=2.0, randomized=False), []
    for seed in range(30):
        found = fit(plan, cut_rows(seed), seed)
        errors = DifferenceErrors(*found.compare(np.array([0, 1]), np.array([2, 2])), 8.0)
        scores.append((errors.start[:, 0] - [0.5, 1.0]) / errors.standard_error[:, 0])
    # Of 30 normal scores of variance 1, the mean square exceeds 1.9 with probability 0.002.
    size = np.square(scores).mean(axis=0).max()
    assert (size < 1.9) == beyond, size


@pytest.mark.parametrize("pure", [0.0, 0.6, 1.0])
def test_errors_of_differences_are_right_under_either_law(pure: float) -> None:
    plan, scores = plan_of(3000, epsilon=3.0, pure=pure), []
    for seed in range(40):
        found = fit(plan, rows_of(3000, seed), seed)
        errors = DifferenceErrors(*found.compare(np.array([1, 2]), np.array([0, 0])), 8.0)
        scores.append((errors.start[:, 0] - [1.0, -2.0]) / errors.standard_error[:, 0])
    # Of 40 normal scores of variance 1, the mean square exceeds 1.7 with probability 0.004.
    size = np.square(scores).mean(axis=0)
    assert (size > 0.3).all() and (size < 1.7).all(), size
