"""The way of a fit, walked with releases that are given: public from end to end."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpstats.regression import PrivateLinearRegression
from dpstats.regression.blocks import Design
from dpstats.regression.engine import first_path
from dpstats.regression.linear_path import LinearPath
from dpstats.regression.path import Curvature
from dpstats.regression.plan import LAST_NORMS, LENGTHS, NORMS, ROWS, regression_plan


def test_a_question_is_public_and_asking_changes_nothing() -> None:
    design = Design.check((-1, 1), (-1, 1), 2, True)
    plan = regression_plan("linear", design, 1000, 1.0, 1e-6)
    path = first_path(plan)
    before = path.whitening.copy()
    path.question("center")
    assert np.array_equal(path.whitening, before)


def test_norms_that_noise_blurs_still_give_a_typical_one() -> None:
    design = Design.check((-1, 1), (-1, 1), 4, True)
    plan = regression_plan("linear", design, 2000, 1.0, 1e-6)
    path = first_path(plan)
    counts = np.zeros(plan.norm_ends.size + 1)
    counts[9] = 1.0
    exactly = path._typical(counts, NORMS)
    rng = np.random.default_rng(0)
    noise = float(np.max(plan.noise(NORMS).std))
    found = [path._typical(counts + noise * rng.normal(size=counts.size), NORMS) for _ in range(300)]
    # Within a factor of 2 nearly always: shares add up to 1 from either end.
    ratio = np.array(found) / exactly
    assert np.mean((ratio > 0.5) & (ratio < 2)) > 0.97
    assert plan.norm_ends[8] <= exactly <= plan.norm_ends[9]


def test_rows_are_scaled_to_the_length_of_their_columns_without_the_intercept() -> None:
    path = first_path(regression_plan("linear", Design.check((-1, 1), (-1, 1), 4, True), 50_000, 1.0, 1e-6))
    counts = np.zeros(path.plan.norm_ends.size + 1)
    counts[9] = 1.0
    path.take(NORMS, counts)
    # A typical row of four columns gets the length 2.
    scale = 2 / path._typical(counts, NORMS)
    assert np.allclose(path.whitening, np.diag([1.0, scale, scale, scale, scale]), atol=1e-3)


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


def test_short_rows_count_for_less_in_directions_where_noise_leaves_their_shape() -> None:
    design = Design.check((-1, 1), (-1, 1), 4, True)
    least = {}
    for n in (5000, 60_000):
        path = first_path(regression_plan("linear", design, n, 1.0, 1e-6))
        counts = np.zeros(path.plan.norm_ends.size + 1)
        counts[4], counts[16] = 0.96, 0.04
        path.take(LENGTHS, counts)
        least[n] = path.least
        assert path.plan.norm_ends[3] < path.least <= path.plan.norm_ends[16]
    # More rows show the shape of rare ones beside the others.
    assert least[60_000] > least[5000]
    few = regression_plan("linear", design, 2000, 1.0, 1e-6)
    assert LENGTHS not in [stage.name for stage in few.stages]


def test_all_that_is_released_is_per_observed_row() -> None:
    plan = PrivateLinearRegression(x_bounds=(-1, 1), y_bounds=(-1, 1), missing="drop").plan(4000, 2)
    path = first_path(plan)
    path.take(ROWS, np.array([0.25]))
    assert (path.n, path.each) == (1000.0, 4.0)
    numbers = np.array([0.5, -0.25])
    assert path._rescale(numbers).tolist() == path._rescale({"block": numbers})["block"].tolist() == [2.0, -1.0]


def test_steps_with_independent_noises_are_averaged_by_precision() -> None:
    design = Design.check((-1, 1), (-1, 1), 2, True)
    path = LinearPath(regression_plan("linear", design, 20_000, 1.0, 1e-6))
    one, none = np.eye(3), np.zeros((3, 3))
    known = Curvature(one, none).inverted(0.1)
    path.noise, path.left = 3.0 * one, none
    path._average(np.ones(3), none, one, known, none)
    assert np.allclose(path.noise, one / (1 + 1 / 3)) and not path.left.any()
    assert np.allclose(path.b, 0.75)
    # An error that the step may have left counts, and the step after it has less weight.
    path.b, path.noise, path.left = np.zeros(3), 3.0 * one, none
    path._average(np.ones(3), 2.0 * one, one, known, 2.0 * one)
    assert np.allclose(path.b, 0.5)
    assert np.allclose(path.left + path.noise, (3 + 3) / 4 * one)


def test_directions_in_which_far_rows_counted_less_have_a_weight_of_their_precision() -> None:
    design = Design.check((-1, 1), (-1, 1), 2, True)
    path = LinearPath(regression_plan("linear", design, 20_000, 1.0, 1e-6))
    one, none = np.eye(3), np.zeros((3, 3))
    known = Curvature(one, none).inverted(0.1)
    path.noise, path.left, path.earlier = 3.0 * one, none, np.diag([0.0, 0.0, 6.0])
    path._average(np.ones(3), none, one, known, none)
    # Precisions are 1/3 and 1, and in the last direction 1/9 and 1.
    assert np.allclose(path.b, [0.75, 0.75, 0.9])
    assert np.allclose(path.noise, np.diag([0.75, 0.75, 0.9**2 + 3 * 0.1**2]))
    assert np.allclose(path.earlier, np.diag([0.0, 0.0, 6 * 0.1**2]))


def test_the_longest_rows_are_those_that_the_counts_show() -> None:
    plan = regression_plan("linear", Design.check((-1, 1), (-1, 1), 4, True), 50_000, 1.0, 1e-6)
    path, noise = first_path(plan), float(np.max(plan.noise(NORMS).std))
    counts = np.zeros(plan.norm_ends.size + 1)
    counts[9] = 1.0
    path._bound(counts, LAST_NORMS)
    assert path.longest == path.radius
    # A row beyond the bound keeps its residual. Noise can explain fewer of them.
    counts[9], counts[17] = 1 - 5 * noise, 5 * noise
    path._bound(counts, LAST_NORMS)
    assert path.longest == pytest.approx(math.sqrt(plan.norm_ends[16] * plan.norm_ends[17]))
    assert path.longest > path.radius
    counts[9], counts[17] = 1 - 4 * noise, 4 * noise
    path._bound(counts, LAST_NORMS)
    assert path.longest == path.radius
