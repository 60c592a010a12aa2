"""What is decided before any data."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dpstats.means.sparse_design import Problem, found, noise_variance, planned_design, planned_error, weakest
from dpstats.privacy import zcdp_rho

A = Problem(2000, 2000, 2000, 10, 1.0, 1.0, 1e-6, False, 6.0)
FEW = replace(A, n_select=1000, n_release=1000, n_features=5000, n_nonzero=3, epsilon=0.5)
MOST = replace(A, n_select=20_000, n_release=20_000, n_features=50, n_nonzero=25, epsilon=0.3)
SKEWED = replace(A, n_select=20_000, n_release=20_000, n_features=200, n_nonzero=5)


def error(problem, design, signal):
    """Return the planned squared error, all signals being of one size."""
    missed = 1 - found(problem, design, "normal", np.array([signal]))[0]
    s = problem.n_nonzero
    return s * (1 / problem.n_release + noise_variance(problem, design) + signal**2 * missed)


def test_the_share_is_planned():
    assert planned_design(A).share == 0.5
    assert planned_design(FEW).share == 0.75
    assert planned_design(MOST).share is None
    # The figures of the cells that chose them: .102 to .061 at signals of .8, .0061 to .0048.
    halved = planned_design(replace(FEW, share=0.5))
    assert error(FEW, planned_design(FEW), 0.8) < 0.75 * error(FEW, halved, 0.8)
    assert error(MOST, planned_design(MOST), 0.3) < 0.85 * error(MOST, planned_design(replace(MOST, share=0.5)), 0.3)


def test_what_the_user_decides_is_kept():
    design = planned_design(replace(A, share=0.3, wide=4.0))
    assert (design.share, design.clip) == (0.3, 4.0)
    rho = zcdp_rho(1.0, 1e-6)
    assert design.each == pytest.approx(math.sqrt(8 * 0.3 * rho / 10), rel=1e-9)
    assert design.rest == pytest.approx(0.7 * rho, rel=1e-9)
    assert planned_design(replace(A, clip=0.5)).clip == 0.5
    assert planned_design(replace(MOST, share=0.5)).share == 0.5


def test_scores_are_clipped_wide_where_that_is_cheap():
    wide = planned_design(SKEWED)
    assert wide.clip >= 1.5 and planned_design(A).clip == 1.0
    narrow = planned_design(replace(SKEWED, wide=1.0))
    # Never much worse for normal columns, and better for the worst.
    assert planned_error(SKEWED, wide) <= planned_error(SKEWED, narrow) + 0.05
    assert weakest(SKEWED, wide, "any") < 0.6 * weakest(SKEWED, narrow, "any")
    assert weakest(SKEWED, wide, "any") < 0.3


def test_a_split_pays_in_full_for_both_halves():
    design = planned_design(replace(A, n_select=1000, n_release=1000, split=True))
    rho = zcdp_rho(1.0, 1e-6)
    assert design.share == 1.0 and design.rest == pytest.approx(rho, rel=1e-9)
    assert design.each == pytest.approx(math.sqrt(8 * rho / 10), rel=1e-9)
    pure = planned_design(replace(A, n_select=1000, n_release=1000, split=True, delta=0.0))
    assert pure.each == pytest.approx(0.1, rel=1e-9) and pure.rest == pytest.approx(1.0, rel=1e-9)


def test_every_column_kept_is_every_column_found():
    problem = replace(A, n_features=4, n_nonzero=4)
    design = planned_design(problem)
    assert design.share is None and weakest(problem, design, "any") == 0.0
