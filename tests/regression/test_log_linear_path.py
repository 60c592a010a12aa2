"""The path of a log-linear regression, walked without noise and with releases that are given."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpstats.regression.blocks import Blocks, Design
from dpstats.regression.engine import first_path
from dpstats.regression.log_linear_path import LogLinearPath
from dpstats.regression.log_linear_plan import CALIBRATION, EXCESS, RATES, TILT, log_linear_plan
from dpstats.regression.log_linear_tables import tabulate
from dpstats.regression.path import Curvature
from dpstats.regression.plan import STEPS, step_name
from dpstats.regression.two_valued import LastStep
from tests.regression.exact_paths import walked

RNG = np.random.default_rng(1)
X = RNG.normal(size=(6000, 2))
MEANS = np.exp(0.5 + X @ [0.5, -0.3])


def exact(family: str, y: np.ndarray, high: float, exposure: Any = None, alpha: float = 1.0) -> LogLinearPath:
    """Return the path of a fit without noise."""
    design = Design.check((-4, 4), (0, high), 2, True)
    if exposure is not None:
        design = replace(design, exposure=(0.1, 10.0))
    plan = log_linear_plan(family, alpha, design, 10**7, 1.0, 1e-6)
    path = walked(first_path(plan), Blocks(X, y, design, exposure), len(X))
    assert isinstance(path, LogLinearPath)
    return path


def test_without_noise_a_fit_is_the_likelihoods() -> None:
    import statsmodels.api as sm

    rows = sm.add_constant(X)
    rng = np.random.default_rng(2)
    for alpha, y in ((0.0, rng.poisson(MEANS)), (1.0, rng.poisson(MEANS * rng.gamma(1.0, 1.0, 6000)))):
        found = exact("counts", y.astype(float), 400, alpha=alpha).estimate()
        law = sm.families.NegativeBinomial(alpha=1.0) if alpha else sm.families.Poisson()
        beside = sm.GLM(y, rows, family=law).fit(cov_type="HC0")
        assert np.abs((found.params - beside.params) / beside.bse).max() < 0.4
        # The plan's n is that of many more rows.
        scale = np.sqrt(10**7 / 6000)
        assert np.allclose(np.sqrt(np.diag(found.robust - found.privacy)) * scale, beside.bse, rtol=0.1)
    y = rng.gamma(2.0, MEANS / 2)
    found = exact("gamma", y, 400).estimate()
    beside = sm.GLM(y, rows, family=sm.families.Gamma(sm.families.links.Log())).fit(cov_type="HC0")
    assert np.abs((found.params - beside.params) / beside.bse).max() < 0.4


def test_exposures_are_offsets() -> None:
    import statsmodels.api as sm

    exposure = np.exp(np.random.default_rng(3).normal(size=6000)).clip(0.1, 10)
    y = np.random.default_rng(4).poisson(MEANS * exposure).astype(float)
    path = exact("counts", y, 400, exposure)
    beside = sm.GLM(y, sm.add_constant(X), family=sm.families.Poisson(), exposure=exposure).fit()
    assert np.abs((path.estimate().params - beside.params) / beside.bse).max() < 1
    assert path.offset == pytest.approx(np.log(exposure).mean(), abs=0.01)
    assert abs(path.estimate().params[1] - 0.5) < 0.05


def test_the_dispersion_is_found() -> None:
    rng = np.random.default_rng(5)
    poisson = exact("counts", rng.poisson(MEANS).astype(float), 400).dispersion
    assert poisson[0] < 1.2 and poisson[1] < 0.1
    _, alpha = exact("counts", rng.poisson(MEANS * rng.gamma(1.0, 1.0, 6000)).astype(float), 400).dispersion
    assert 0.5 < alpha < 1.6
    # At a mean of 1,000 a variance of 0.001 times its square is that of the counts once more.
    _, alpha = exact("counts", rng.poisson(800 * MEANS).astype(float), 40_000).dispersion
    assert alpha < 2e-4
    _, alpha = exact("gamma", rng.gamma(900.0, MEANS / 900), 400).dispersion
    assert alpha == pytest.approx(1 / 900, rel=0.25)
    _, alpha = exact("gamma", rng.gamma(2.0, MEANS / 2), 400).dispersion
    assert alpha == pytest.approx(0.5, rel=0.25)


def test_a_larger_unit_moves_the_intercept_alone() -> None:
    y = np.random.default_rng(6).gamma(2.0, MEANS / 2)
    one, other = exact("gamma", y, 400).estimate(), exact("gamma", 64 * y, 64 * 400).estimate()
    assert np.allclose(other.params - one.params, [np.log(64), 0, 0], atol=1e-7)
    assert np.allclose(other.robust, one.robust, rtol=1e-4)


def test_expected_clipped_residuals_are_subtracted() -> None:
    # Skewed counts, clipped at 2 standard deviations: without the expected residual the level is a tenth too low.
    rng = np.random.default_rng(7)
    y = rng.poisson(MEANS * rng.gamma(1.0, 1.0, 6000)).astype(float)
    path = exact("counts", y, 400)
    path.width = 2.0
    path._tabulate()
    assert path.tables.bias > 0.05 and path.tables.most_pull > 0
    # A positive residual is cut more often than a negative one.
    assert (path.tables.curves.pull <= 1e-9).all()


def test_a_long_last_step_is_said_and_counted() -> None:
    path = exact("counts", np.random.default_rng(8).poisson(MEANS).astype(float), 400)
    before = path.left.copy()
    path.radius = 1.0
    gradient: Any = np.array([0.9, 0.0, 0.0])
    blocks = path.plan.stages[-2].blocks
    released = {block.name: np.zeros(block.size) for block in blocks}
    released["gradient"], released["curvature, diagonal"] = gradient, np.full(3, 0.02)
    path.take(step_name(STEPS), released)
    assert path.unsettled
    assert np.trace(path.left) > np.trace(before)


def test_noise_may_put_a_level_anywhere() -> None:
    # The exponential of its log mean may be no float, or 0.
    path = exact("counts", np.random.default_rng(8).poisson(MEANS).astype(float), 400)
    row = np.eye(3)[0]
    for before in (-1e4, -800.0, 0.0, 800.0, 1e4):
        for seen in (-1.0, 0.5, 2.0):
            level = path._level(LastStep(row, row, before, seen, 0.1, 3.0), 0.2)
            for distance in (level.lower_distance(2.0), level.upper_distance(2.0)):
                assert distance >= 0
            assert level.is_settled(1e9) in (True, False)


def test_an_excess_beyond_the_expected_raises_the_level() -> None:
    y = np.random.default_rng(9).poisson(MEANS).astype(float)
    path = exact("counts", y, 400)
    assert path.calibration is not None
    path.width = 1.5
    path._tabulate()
    found = path.estimate()
    path.take(CALIBRATION, {EXCESS: path.calibration[EXCESS] + 0.05, TILT: path.calibration[TILT]})
    raised = path.estimate()
    level = raised.params[0] - found.params[0]
    assert level > 0 and raised.long_tailed and not found.long_tailed
    assert not found.unsettled
    # A level that was wrong puts every coefficient of these standardized columns in doubt, and itself more.
    added = np.sqrt(np.diagonal(raised.robust - found.robust)) / level
    assert added[0] > 0.3 and (added[1:] > 0.1).all() and (added[1:] < 0.3).all()
    # It is no error of the steps, which says whether a column is identified.
    assert np.allclose(raised.left[1:, 1:], found.left[1:, 1:], rtol=0.05)


def test_the_threshold_counts_what_the_calibration_leaves() -> None:
    path = exact("counts", np.random.default_rng(10).poisson(MEANS).astype(float), 400)
    widths = (1.5, 4.0)
    tables = [tabulate(path.family, path._predictors, path.dispersion, width) for width in (widths, *widths)]
    several, *single = (path._levers(each, at) for each, at in zip(tables, (np.array(widths), *widths), strict=True))
    assert np.allclose(several.after, [each.after for each in single], rtol=1e-9)
    # Noise never leaves more than was unknown before. A short threshold leaves more.
    assert (several.after[:, 0, 0] <= tables[0].bias ** 2).all()
    assert several.after[0, 0, 0] > several.after[1, 0, 0]


def test_rows_that_are_still_far_off_are_not_clipped() -> None:
    path = exact("counts", np.random.default_rng(11).poisson(800 * MEANS).astype(float), 40_000)
    path._choose_width(step_name(STEPS))
    near = path.width
    path.left = path.left + 0.03**2 * np.eye(3)
    path._choose_width(step_name(STEPS))
    # An error of 0.03 times the radius is many standard deviations of counts near 1,000.
    assert near < 4 and path.width > 10
    path.left = path.left + np.eye(3)
    path._choose_width(step_name(STEPS))
    # Up to one mean, where that is wider than twelve standard deviations
    mean = np.exp([path._predictors.center])
    assert path.width == pytest.approx(float((mean / path.family.std(mean, path.dispersion))[0])) and path.width > 12
    assert path.estimate().unsettled


def test_what_an_exponential_mean_leaves_of_an_error() -> None:
    path = exact("counts", np.random.default_rng(11).poisson(800 * MEANS).astype(float), 40_000)
    path.longest = 2.0
    x, weights = np.polynomial.hermite_e.hermegauss(80)
    for size in (0.02, 0.1, 0.4, 1.0, 2.0):
        left = path._bent(size**2 * np.diag([1.0, 0.25, 0.0]))
        for variance, bent in zip((size**2, size**2 / 4), np.diagonal(left), strict=False):
            # Of a normal error of the longest row, by quadrature
            error = np.abs(2.0 * np.sqrt(variance) * x)
            wanted = weights @ (error - 1 + np.exp(-error)) ** 2 / weights.sum() / 4
            assert bent == pytest.approx(wanted, rel=0.15)
        assert left[2, 2] == 0


def test_the_start_is_the_mean_rate() -> None:
    design = Design.check((-4, 4), (0, 64), 2, True)
    path = first_path(log_linear_plan("counts", 1.0, design, 5000, 1.0, 1e-6))
    path.take("norms", np.eye(1, path.plan.norm_ends.size + 1, 8)[0])
    counts = np.zeros(26)
    counts[-5] = 1.0  # rates from 4 to 8
    path.take(RATES, counts)
    assert 4 < np.exp(path.b[0] * path.whitening[0, 0]) < 8
    path.take(RATES, np.zeros(26))  # noise can hide all of them
    assert np.isfinite(path.b).all()


def test_earlier_curvatures_count_at_their_size_now() -> None:
    design = Design.check((-1, 1), (0, 9), 1, True)
    path = first_path(log_linear_plan("counts", 1.0, design, 1000, 1.0, 1e-6))
    before, now = Curvature.noisy(np.eye(2), 1e-3), Curvature.noisy(np.eye(2) / 2, 1e-3)
    assert np.allclose(path._resize(before, now).mean, now.mean, rtol=0.02)


def test_bins_that_noise_explains_do_not_move_the_start() -> None:
    design = Design.check((-4, 4), (0, 64), 2, True)
    path = first_path(log_linear_plan("counts", 1.0, design, 5000, 1.0, 1e-6))
    path.take("norms", np.eye(1, path.plan.norm_ends.size + 1, 8)[0])
    counts = np.zeros(26)
    counts[-7] = 1.0  # rates from 2 to 4
    path.take(RATES, counts)
    start = path.b[0]
    counts[-1] = counts[-2] = 2 * float(np.max(path.plan.noise(RATES).std))
    path.take(RATES, counts)
    assert path.b[0] == pytest.approx(start, abs=1e-9)
