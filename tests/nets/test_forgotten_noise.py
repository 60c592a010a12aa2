"""No noise is forgotten: what is claimed of errors grows with every noise that it comes from.

The same released numbers are reported again, by a plan that says that one of its noises is larger.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpstats.groups import GroupMeans, MeanPerRow
from dpstats.means import ClippedMean, PrivateVariance
from dpstats.privacy.stages import JointStage
from dpstats.regression import PrivateLinearRegression, SufficientStatisticsRegression
from dpstats.regression.levels_plan import CLIPPED, LEVELS
from dpstats.regression.levels_plan import RESIDUALS as RESIDUAL_TOTALS
from dpstats.regression.linear_path import STAGE
from dpstats.regression.plan import CENTER, MEAN, RESIDUALS, STEPS, step_name
from dpstats.regression.rows import GRADIENT, MEAT, MOMENTS
from dpstats.survival import LogRankTest, PrivateSurvival
from dpstats.tables import ContingencyTable
from dpstats.textbook import FunctionalMechanismRegression

RNG = np.random.default_rng(4)
X = RNG.normal(size=(1000, 3)) * [1.0, 0.5, 0.8]
GROUP = RNG.choice(3, 1000, p=[0.2, 0.5, 0.3])
Y = X @ [1.0, -0.5, 2.0] + RNG.normal(size=1000)
TIMES, CAUSE = RNG.geometric(0.2, 1000).astype(float), RNG.integers(3, size=1000)
BOX: dict[str, Any] = {"bounds": (-4, 3), "random_state": 0}
LINES: dict[str, Any] = {"x_bounds": (-3, 3), "y_bounds": (-9, 9), "epsilon": 0.5, "random_state": 0}

FITS: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {
    # A delta at which Gaussian noise is the smaller one.
    "groups": lambda: (GroupMeans(groups=[0, 1, 2], delta=0.1, **BOX), (X, GROUP)),
    "groups, Laplace": lambda: (GroupMeans(groups=[0, 1, 2], delta=0.0, **BOX), (X, GROUP)),
    "groups, adjusted": lambda: (GroupMeans(groups=[0, 1, 2], adjust=[0, 1], randomized=False, **BOX), (X, GROUP)),
    "rows of units": lambda: (MeanPerRow(max_rows=4, **BOX), (X, np.arange(1000) // 4)),
    "clipped mean": lambda: (ClippedMean(std="private", **BOX), (X,)),
    "variance": lambda: (PrivateVariance(delta=1e-6, **BOX), (X,)),
    "table": lambda: (ContingencyTable(levels=[[0, 1, 2]], unknown="drop", random_state=0), (GROUP,)),
    "sufficient": lambda: (SufficientStatisticsRegression(**LINES), (X, Y)),
    "functional": lambda: (FunctionalMechanismRegression(**LINES), (X, Y)),
    "survival": lambda: (
        PrivateSurvival(horizon=6, bins=6, groups=[0, 1], causes=[1, 2], discrete=True, random_state=0),
        (TIMES, CAUSE, GROUP % 2),
    ),
    "linear": lambda: (PrivateLinearRegression(**LINES), (X, Y)),
}


def reports(name: str) -> tuple[Any, Any, Callable[[Any], Any]]:
    """Return a fit, its plan, and what reports the same release by another plan."""
    made, given = FITS[name]()
    kept: list[Any] = []
    report = type(made)._report
    made._report = lambda released, plan: kept.append(released) or report(made, released, plan)
    fitted = made.fit(*given)

    def again(plan: Any) -> Any:
        other = copy.copy(fitted)
        other.plan_ = plan
        report(other, kept[0], plan)
        return other

    return fitted, fitted.plan_, again


def louder(plan: Any, place: str, factor: float = 2.0) -> Any:
    """Return a plan that says that the noise of a stage, or of a block of one, is larger."""
    stages = []
    for stage in plan.stages:
        if stage.name == place and not isinstance(stage, JointStage):
            stage = replace(stage, scale_steps=factor * stage.scale_steps)
        elif isinstance(stage, JointStage):
            blocks = tuple(
                replace(block, unit_steps=factor * block.unit_steps)
                if f"{stage.name}: {block.name}" == place
                else block
                for block in stage.blocks
            )
            stage = replace(stage, blocks=blocks)
        stages.append(stage)
    # The Newton steps of adjusted means are stages of the plan, and have a separate plan.
    inner = {"steps": louder(plan.steps, place, factor)} if getattr(plan, "steps", None) else {}
    return replace(plan, stages=tuple(stages), **inner)


def places(plan: Any) -> list[str]:
    """Return the names of all noises of a plan."""
    return [
        f"{stage.name}: {block.name}" if isinstance(stage, JointStage) else stage.name
        for stage in plan.stages
        for block in (stage.blocks if isinstance(stage, JointStage) else (stage,))
    ]


def claims(fitted: Any) -> dict[str, Any]:
    """Return what is claimed of errors."""
    low, high = fitted.confidence_interval(0.9)
    found = {"width": np.mean(np.asarray(high) - np.asarray(low))}
    if np.isinf(found["width"]):
        # A slope that noise hides has no limits. Its covariance still has an error.
        found["width"] = np.mean(fitted.standard_errors_)
    for name in (
        "noise_std_",
        "scale_",
        "intercept_standard_error_",
        "clipped_share_std_",
        "counts_noise_std_",
        "at_risk_noise_std_",
    ):
        if hasattr(fitted, name):
            found[name] = np.mean(getattr(fitted, name))
    if isinstance(fitted, PrivateSurvival):
        for name, ask in CURVES.items():
            interval = ask(fitted)
            found[name] = float(np.mean(np.asarray(interval.high) - np.asarray(interval.low)))
    return found


CURVES: dict[str, Callable[[Any], Any]] = {
    "band": lambda fitted: fitted.band(),
    "restricted means": lambda fitted: fitted.rmst(),
    "difference of restricted means": lambda fitted: fitted.rmst_difference(0, 1),
    "difference": lambda fitted: fitted.difference(0, 1, 4),
    "incidence": lambda fitted: fitted.incidence_interval(1),
}
"""Further intervals of survival curves, with ends ``low`` and ``high``."""

# What grows with which noise. Noises of a stage that are not named are compared by nothing here.
W = "width"
GROWS: dict[str, dict[str, list[str]]] = {
    "groups": {
        "totals of the groups: rows": [W, "counts_noise_std_"],
        "totals of the groups: sums about the middle": [W],
        "totals of the groups: squares about the middle": [W],
    },
    # One scale is that of all three.
    "groups, Laplace": {"totals of the groups: shares of the lower end": [W, "counts_noise_std_"]},
    "groups, adjusted": {
        CLIPPED: ["clipped_share_std_"],
        f"{LEVELS}: rows": ["counts_noise_std_"],
        f"{step_name(STEPS)}: {GRADIENT}": [W],
        f"{RESIDUAL_TOTALS}: rows": [W, "counts_noise_std_"],
        f"{RESIDUAL_TOTALS}: sums about the middle": [W],
    },
    "rows of units": {
        "totals of the units: rows": [W, "noise_std_"],
        "totals of the units: sums": [W, "noise_std_"],
        "totals of the units: squared sums": [W],
        "totals of the units: squared rows": [W],
        "totals of the units: rows times sums": [W],
    },
    "clipped mean": {
        "clipped moments: clipped mean": [W, "noise_std_"],
        "clipped moments: second moment about the center": [W],
    },
    "variance": {
        "clipped moments: clipped mean": [W, "noise_std_"],
        "clipped moments: second moment about the center": [W, "noise_std_"],
        "clipped moments: third moment about the center": [W],
        "clipped moments: fourth moment about the center": [W],
    },
    "table": {"cells": [W, "noise_std_"]},
    "survival": {"survival table": [W, *CURVES, "at_risk_noise_std_"]},
    "sufficient": {
        "second moments: moments, diagonal": [W, "scale_", "intercept_standard_error_"],
        "second moments: moments, above the diagonal": [W, "scale_", "intercept_standard_error_"],
        "second moments: share outside": ["clipped_share_std_"],
    },
    "functional": {
        "second moments: moments, diagonal": [W, "scale_", "intercept_standard_error_"],
        "second moments: moments, above the diagonal": ["scale_", "intercept_standard_error_"],
        "second moments: share outside": ["clipped_share_std_"],
    },
    # The others steer a path, which another noise leads elsewhere.
    "linear": {
        CENTER: ["intercept_standard_error_"],
        "residual size 1: share outside": ["clipped_share_std_"],
        f"{RESIDUALS}: {MEAN}": ["intercept_standard_error_", "scale_"],
        f"{step_name(STEPS)}: {MEAT}, diagonal": [W, "intercept_standard_error_"],
    },
}
LEAST = {CENTER: 0.04, f"{RESIDUALS}: {MEAN}": 0.02}
"""By how much claims grow at least, where another path would change them a little too."""
STEERING = {"linear": 23, "groups, adjusted": 35, "groups, Laplace": 2}
"""How many noises of an estimator are not compared."""


@pytest.mark.parametrize("name", FITS)
def test_claims_grow_with_every_noise(name: str) -> None:
    fitted, plan, again = reports(name)
    before, grows = claims(fitted), GROWS[name]
    assert claims(again(plan)) == before
    assert grows.keys() <= set(places(plan))
    assert len(set(places(plan)) - grows.keys()) == STEERING.get(name, 0)
    for place, grown in grows.items():
        after = claims(again(louder(plan, place)))
        for claim in grown:
            # By more than any rounding; what else changes on a path changes less.
            assert after[claim] > before[claim] * (1 + LEAST.get(place, 2e-5)), (place, claim)


@pytest.mark.parametrize("kind", [SufficientStatisticsRegression, FunctionalMechanismRegression])
def test_where_noise_hides_a_slope_its_error_is_what_the_outcome_leaves_open(kind: Any) -> None:
    # An outcome that spreads ten times as much leaves slopes open that are as much larger.
    made, kept = kind(x_bounds=(-3, 3), y_bounds=(-9, 9), epsilon=0.05, random_state=0), []
    report = kind._report
    made._report = lambda released, plan: kept.append(released) or report(made, released, plan)
    fitted = made.fit(X[:300], Y[:300])
    assert not fitted.identified_.any()
    moments = dict(kept[0][STAGE])
    least = 10 * float(np.max(fitted.plan_.matrix_noise.diagonal))
    errors = []
    for spread in (least, 100 * least):
        diagonal = moments[f"{MOMENTS}, diagonal"].copy()
        diagonal[-1] = spread
        report(made, {STAGE: {**moments, f"{MOMENTS}, diagonal": diagonal}}, fitted.plan_)
        errors.append(made.standard_errors_)
    assert np.all(errors[1] > 5 * errors[0])


@pytest.mark.parametrize("groups", [2, 3])
def test_pvalues_of_log_rank_tests_grow_with_every_noise(groups: int) -> None:
    made, kept = LogRankTest(groups=range(groups), horizon=6, random_state=0), []
    report = LogRankTest._report
    made._report = lambda released, plan: kept.append(released) or report(made, released, plan)
    # Hazards that differ a little: a p-value between 0 and 1.
    times = TIMES * np.array([1.0, 1.1, 0.95])[GROUP % groups]
    fitted = made.fit(times, CAUSE > 0, y=GROUP % groups)
    before = fitted.pvalue_
    for place in places(fitted.plan_):
        report(made, kept[0], louder(fitted.plan_, place))
        assert made.pvalue_ > before * (1 + 2e-5), place


@pytest.mark.parametrize("groups", [2, 3])
def test_the_pvalue_of_a_survival_table_grows_with_its_noise(groups: int) -> None:
    made, kept = PrivateSurvival(horizon=6, bins=6, groups=range(groups), random_state=0), []
    report = PrivateSurvival._report
    made._report = lambda released, plan: kept.append(released) or report(made, released, plan)
    fitted = made.fit(TIMES, CAUSE > 0, GROUP % groups)
    before = fitted.log_rank().pvalue
    made.plan_ = louder(fitted.plan_, "survival table")
    report(made, kept[0], made.plan_)
    assert made.log_rank().pvalue > before * (1 + 2e-5)
