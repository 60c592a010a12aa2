"""The path of a logistic regression, walked with releases that are given."""

from __future__ import annotations

import numpy as np

from dpstats.regression.curvature import Curvature
from dpstats.regression.design import Design
from dpstats.regression.logistic_path import LogisticPath
from dpstats.regression.plan import RATE, regression_plan, step_name
from tests.regression.exact_paths import exact


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
    assert np.allclose(path._sized(before, now).mean, now.mean, rtol=0.02)
    # A size that noise could have made is not believed.
    loud = Curvature.noisy(np.eye(2) / 2, 1.0)
    assert np.allclose(path._sized(before, loud).mean, before.mean)


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
