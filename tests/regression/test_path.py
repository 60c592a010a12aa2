"""The way of a fit, walked with releases that are given: public from end to end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpstats.regression.design import Design
from dpstats.regression.engine import first_path
from dpstats.regression.path import LinearPath, LogisticPath, Path
from dpstats.regression.plan import LAST_NORMS, NORMS, RATE, TAIL, regression_plan, size_name, step_name
from dpstats.regression.rows import Rows


def exact(family: str, X: np.ndarray, y: np.ndarray, n_public: int = 10**7) -> Path:
    """Return the path of a fit without noise; the plan is that of many more rows, as if noise were small."""
    design = Design.check((-4, 4), None if family == "logistic" else (-6, 8), X.shape[1], True)
    plan = regression_plan(family, design, n_public, 1.0, 1e-6)
    rows, path = Rows(X, y, design), first_path(plan)
    for stage in plan.stages:
        found = rows.answer(path.question(stage.name))
        blocks: Any = getattr(stage, "blocks", None)
        scale = n_public / len(X)
        if blocks:
            path.take(stage.name, {b.name: found[b.name] * b.spacing * scale for b in blocks})
        else:
            path.take(stage.name, found[stage.name] * stage.spacing * scale)
    return path


def test_without_noise_a_linear_fit_is_least_squares() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3)) @ np.array([[1, 0.5, 0], [0, 0.7, 0], [0, 0, 0.2]])
    y = 1 + X @ [0.5, -0.5, 1.0] + rng.normal(size=4000)
    path = exact("linear", X, y)
    estimate = path.estimate()
    Z = np.column_stack([np.ones(4000), X])
    ols = np.linalg.lstsq(Z, y, rcond=None)[0]
    errors = np.sqrt(np.diag(np.linalg.inv(Z.T @ Z)))
    # Huber's weights and the bounded rows cost a little of least squares' precision.
    assert np.abs(estimate.params - ols).max() < 0.6 * errors.max()
    assert estimate.scale == pytest.approx(1, abs=0.05)


def test_without_noise_a_logistic_fit_is_the_likelihoods() -> None:
    import statsmodels.api as sm

    rng = np.random.default_rng(1)
    X = rng.normal(size=(4000, 2))
    y = (rng.random(4000) < 1 / (1 + np.exp(-(0.5 + X @ [1.0, -1.0])))).astype(float)
    estimate = exact("logistic", X, y).estimate()
    mle = sm.Logit(y, sm.add_constant(X)).fit(disp=0)
    assert np.abs((estimate.params - mle.params) / mle.bse).max() < 0.6


def test_a_question_is_public_and_asking_changes_nothing() -> None:
    design = Design.check((-1, 1), (-1, 1), 2, True)
    plan = regression_plan("linear", design, 1000, 1.0, 1e-6)
    path = first_path(plan)
    before = path.whitening.copy()
    path.question("centre")
    assert np.array_equal(path.whitening, before)


def test_norms_that_noise_blurs_still_give_a_typical_one() -> None:
    design = Design.check((-1, 1), (-1, 1), 4, True)
    plan = regression_plan("linear", design, 2000, 1.0, 1e-6)
    path = first_path(plan)
    counts = np.zeros(plan.norm_ends.size + 1)
    counts[9] = 1.0
    exactly = path._typical(counts)
    rng = np.random.default_rng(0)
    noise = float(np.max(plan.noise(NORMS).std))
    found = [path._typical(counts + noise * rng.normal(size=counts.size)) for _ in range(300)]
    # Within a factor of 2 nearly always: shares add up to 1 from either end.
    ratio = np.array(found) / exactly
    assert np.mean((ratio > 0.5) & (ratio < 2)) > 0.97
    assert plan.norm_ends[8] <= exactly <= plan.norm_ends[9]


def test_long_rows_move_the_bound_and_noise_that_looks_like_them_does_not() -> None:
    design = Design.check((-1, 1), (-1, 1), 4, True)
    plan = regression_plan("linear", design, 50_000, 1.0, 1e-6)
    path = first_path(plan)
    alike = np.zeros(plan.norm_ends.size + 1)
    alike[9] = 1.0
    path._bound(alike, LAST_NORMS)
    base = path.leverage
    tailed = alike.copy()
    tailed[9], tailed[13] = 0.9, 0.1
    path._bound(tailed, LAST_NORMS)
    assert path.leverage > base
    seen = alike.copy()
    seen[18] = 4 * float(np.max(plan.noise(NORMS).std))
    path._bound(seen, LAST_NORMS)
    assert path.leverage == base


def test_uneven_tails_move_the_clip_out() -> None:
    design = Design.check((-1, 1), (-1, 1), 2, True)
    path = LinearPath(regression_plan("linear", design, 20_000, 1.0, 1e-6))
    path.take(size_name(1), {"size": np.array([0.1]), "share outside": np.array([0.0])})
    path.take(TAIL, np.array([0.0]))
    even = path.width
    path.take(TAIL, np.array([0.05]))
    assert path.width > even


def test_separated_rows_are_said() -> None:
    design = Design.check((-1, 1), None, 1, True)
    path = LogisticPath(regression_plan("logistic", design, 1000, 1.0, 1e-6))
    path.take(RATE, np.array([1.5]))  # noise can take it anywhere
    assert np.isfinite(path.b).all()
    for t in range(1, 5):
        p = path.p
        path.take(
            step_name(t),
            {
                "gradient": np.array([0.0, 0.9]),
                "curvature, diagonal": np.full(p, 1e-4),
                "curvature, above the diagonal": np.zeros(1),
            },
        )
    assert path.separated
    assert path.estimate().separated
