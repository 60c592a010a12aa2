"""The path of a linear regression, walked with releases that are given."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.regression.design import Design
from dpstats.regression.linear_path import LinearPath
from dpstats.regression.plan import TAIL, regression_plan, size_name
from tests.regression.exact_paths import exact


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


def test_uneven_tails_move_the_clip_out() -> None:
    design = Design.check((-1, 1), (-1, 1), 2, True)
    path = LinearPath(regression_plan("linear", design, 20_000, 1.0, 1e-6))
    path.take(size_name(1), {"size": np.array([0.1]), "share outside": np.array([0.0])})
    path.take(TAIL, np.array([0.0]))
    even = path.width
    path.take(TAIL, np.array([0.05]))
    assert path.width > even
