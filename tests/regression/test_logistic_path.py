"""The path of a logistic regression, walked with releases that are given."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from dpstats.regression import PrivateLogisticRegression
from dpstats.regression.blocks import Blocks, Design
from dpstats.regression.engine import first_path
from dpstats.regression.path import Curvature
from dpstats.regression.plan import RATE, regression_plan, step_name
from dpstats.regression.two_valued import LogisticPath
from tests.regression.exact_paths import exact, walked


def test_without_noise_a_logistic_fit_is_the_likelihoods() -> None:
    import statsmodels.api as sm

    rng = np.random.default_rng(1)
    X = rng.normal(size=(4000, 2))
    y = (rng.random(4000) < 1 / (1 + np.exp(-(0.5 + X @ [1.0, -1.0])))).astype(float)
    estimate = exact("logistic", X, y).estimate()
    mle = sm.Logit(y, sm.add_constant(X)).fit(disp=0)
    assert np.abs((estimate.params - mle.params) / mle.bse).max() < 0.6


def test_large_log_odds_are_reached() -> None:
    # Newton's steps alone are a tenth short of these after four (the version that must fail: `_stretch` left out).
    import statsmodels.api as sm

    rng = np.random.default_rng(2)
    X = rng.normal(size=(20_000, 3))
    y = (rng.random(20_000) < 1 / (1 + np.exp(1 - X @ [2.0, -1.5, 1.0]))).astype(float)
    estimate = exact("logistic", X, y).estimate()
    mle = sm.Logit(y, sm.add_constant(X)).fit(disp=0)
    assert np.abs((estimate.params - mle.params) / mle.bse).max() < 1


def test_earlier_curvatures_count_at_their_size_now() -> None:
    design = Design.check((-1, 1), None, 1, True)
    path = LogisticPath(regression_plan("logistic", design, 1000, 1.0, 1e-6))
    before, now = Curvature.noisy(np.eye(2), 1e-3), Curvature.noisy(np.eye(2) / 2, 1e-3)
    assert np.allclose(path._resize(before, now).mean, now.mean, rtol=0.02)
    # A size that noise could have made is not believed.
    loud = Curvature.noisy(np.eye(2) / 2, 1.0)
    assert np.allclose(path._resize(before, loud).mean, before.mean)


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


def covered(spread: float, rate: float, n: int, epsilon: float, fits: int) -> tuple[int, float, int]:
    """Return how many of 3 ``fits`` slopes are covered, the median width over the likelihood's, and separations."""
    import statsmodels.api as sm

    beta, hits, widths, separated = np.array([1.0, -1.0, 1.0]) * spread / np.sqrt(3), 0, [], 0
    for seed in range(fits):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, 3))
        y = rng.random(n) < 1 / (1 + np.exp(-np.log(rate / (1 - rate)) - X @ beta))
        made = PrivateLogisticRegression(x_bounds=(-4, 4), epsilon=epsilon, random_state=seed).fit(X, y)
        low, high = made.confidence_interval()
        hits += int(((low <= beta) & (beta <= high)).sum())
        separated += made.separated_ and not made.identified_.any()
        if seed < 3 and spread < 4:
            mle = sm.Logit(y.astype(float), sm.add_constant(X)).fit(disp=0)
            widths.append(np.median(made.standard_errors_ / mle.bse[1:]))
    return hits, float(np.median(widths)) if widths else np.nan, separated


@pytest.mark.parametrize(
    ("spread", "rate", "n", "epsilon", "widest"),
    [
        (2.0, 0.5, 20_000, 1.0, 1.35),  # was 6.2: every change of the gradient counted as a mistaken curvature
        (3.0, 0.5, 20_000, 1.0, 1.6),  # was 10.4
        (0.5, 0.01, 100_000, 3.0, 1.3),  # was 13.5: eigenvalues below 0.02 counted as unknown
    ],
)
def test_intervals_are_short_where_log_odds_are_large_or_outcomes_rare(
    spread: float, rate: float, n: int, epsilon: float, widest: float
) -> None:
    fits = 12
    hits, width, separated = covered(spread, rate, n, epsilon, fits)
    assert width < widest
    # At coverage 0.93 fewer are covered once in 10^4.
    assert stats.binom.cdf(hits, 3 * fits, 0.93) > 1e-4
    assert separated == 0


@pytest.mark.parametrize("spread", [10.0, 15.0, 40.0])
def test_nearly_separated_rows_are_said(spread: float) -> None:
    # None was at a spread of 15, where no interval covered: the steps ended below the cut.
    assert covered(spread, 0.5, 20_000, 1.0, 6)[2] == 6


def test_log_odds_of_five_are_reached() -> None:
    # The first step overshot: log odds of every deviation beyond 4 have nearly the same gradient.
    hits, _, separated = covered(5.0, 0.5, 20_000, 3.0, 12)
    assert hits + 3 * separated >= 30


def test_uncertain_coefficients_leave_a_part_of_their_error() -> None:
    design = Design.check((-1, 1), None, 2, True)
    path = LogisticPath(regression_plan("logistic", design, 5000, 1.0, 1e-6))
    before = np.diag([0.2, 0.3, 0.5])
    assert not path._bent(before).any()  # before the first step nothing is known
    path.moments = np.eye(3)
    for start, changed in ((0.0, 0.5), (-30.0, 1.0)):  # half the outcomes, and next to none
        path.start = start
        assert np.allclose(path._bent(before), (changed / (1 + changed)) ** 2 * before)
    path.moments, path.whitening = np.diag([1.0, 1.0, 0.0]), np.diag([1.0, 1.0, 9.0])
    assert np.allclose(path._bent(before), (0.5 / 1.5) ** 2 * before)


def test_a_noisy_column_of_little_weight_bends_no_other_coefficient() -> None:
    rng, z = np.random.default_rng(0), []
    for seed in range(40):
        X = np.clip(rng.normal(size=(2000, 3)), -4, 4) * [1.0, 0.32, 0.1]
        y = (rng.random(2000) < expit(-0.95 * X.sum(axis=1))).astype(float)
        fit = PrivateLogisticRegression(x_bounds=(-4, 4), random_state=seed).fit(X, y)
        z.append((fit.coef_[0] + 0.95) / fit.standard_errors_[0])
    assert np.abs(z).max() < 3.5


def test_steps_begin_at_the_rate_without_the_mean_offset() -> None:
    X = np.random.default_rng(4).normal(size=(500, 2))
    rows = Blocks(X, (X[:, 0] > 0.8).astype(float), Design.check((-4, 4), None, 2, True))
    path = first_path(regression_plan("logistic", rows.design, 500, 1e4, 1e-6))
    path.offset = 2.0
    walked(path, rows, 500, last=RATE)
    rate = (X[:, 0] > 0.8).mean()
    assert path.b[0] * path.whitening[0, 0] == pytest.approx(np.log(rate / (1 - rate)) - 2.0, abs=0.01)
