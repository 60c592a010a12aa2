"""Constants of the estimates and intervals, each against a table, a derivation or a simulation of its own.

Coverage tests of a few hundred fits cannot tell n from n - 1, one simultaneous level from another, or a spread whose
noise was not taken off. Here noise is made negligible or stated, so that what is left is the formula.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpstats.means import AdaptiveMean, ClippedMean, PrivateVariance, SparseMean
from dpstats.mechanisms import RandomizedResponse
from dpstats.privacy import gaussian_sigma

LAWS = [0.0, 1e-6]


def reported(made: Any, plan: Any, **released: float) -> Any:
    """Return an estimator as it reports releases that are stated, each for one column, by the order of the blocks."""
    made.plan_, made.privacy_ = plan, plan.guarantee
    (stage,) = plan.stages
    names = [block.name for block in stage.blocks]
    values = {name: np.array([value]) for name, value in zip(names, released.values(), strict=True)}
    made._report({stage.name: values}, plan)
    return made


@pytest.mark.parametrize("delta", LAWS)
def test_the_spread_is_of_n_less_one_and_without_its_noise(delta: float) -> None:
    # E (m1 + z)^2 = m1^2 + s1^2, so n/(n - 1) (m2 - (m1 + z)^2 + s1^2) is unbiased for the variance.
    for kind in (ClippedMean, PrivateVariance):
        options = {} if kind is ClippedMean else {"interval": "bounded"}
        made = kind(epsilon=20.0, delta=delta, clip=50.0, **options)
        made._noise_is_chosen = True
        plan = made.plan(5, 1)
        law = plan.noise("clipped mean")
        mean_noise = float(np.ravel(law.scale)[0]) * (1.0 if delta else math.sqrt(2))
        assert mean_noise**2 > 1  # not a correction that could be missed
        reported(made, plan, mean=2.0, squares=30.0)
        spread = made._spread if kind is ClippedMean else np.sqrt(made._score.start)
        assert np.isnan(made.std_[0]) and spread[0] ** 2 == pytest.approx(
            5 / 4 * (30.0 - 4.0 + mean_noise**2), rel=1e-9
        )


# Quantiles of the chi-square law at .025 and .975, as printed in tables.
CHI_SQUARE = {9: (2.700, 19.023), 10: (3.247, 20.483)}


@pytest.mark.parametrize(("about", "degrees"), [("mean", 9), ("center", 10)])
def test_variance_intervals_have_the_degrees_of_the_table(about: str, degrees: int) -> None:
    # Without noise: the textbook interval (df v/upper quantile, df v/lower quantile).
    X = np.random.default_rng(0).normal(size=(10, 1))
    made = PrivateVariance(epsilon=1e7, clip=10.0, about=about, interval="normal", random_state=0).fit(X)
    truth = X.var(ddof=1) if about == "mean" else np.mean(X**2)
    assert made.variance_[0] == pytest.approx(truth, rel=1e-4)
    low, high = (float(end[0]) for end in made.confidence_interval(0.95))
    below, above = CHI_SQUARE[degrees]
    assert low == pytest.approx(degrees * truth / above, rel=1e-3)
    assert high == pytest.approx(degrees * truth / below, rel=1e-3)


@pytest.mark.parametrize(("about", "degrees"), [("mean", 9), ("center", 10)])
def test_bounded_intervals_end_where_the_law_rejects(about: str, degrees: int) -> None:
    # The ends v solve (estimate - v)^2 = z^2 v (W^2 - v)/df, W the largest distance of an entry from its mean or the
    # center.
    X = np.random.default_rng(0).normal(size=(10, 1))
    made = PrivateVariance(epsilon=1e7, clip=10.0, about=about, interval="bounded", random_state=0).fit(X)
    largest = 10.0 + (abs(float(X.mean())) if about == "mean" else 0.0)
    low, high = (float(end[0]) for end in made.confidence_interval(0.95))
    z, estimate = 1.959964, float(made.variance_[0])
    for end in (low, *([high] if high < 100.0 else [])):
        assert (estimate - end) ** 2 == pytest.approx(z**2 * end * (largest**2 - end) / degrees, rel=1e-2)


def test_moments_give_the_interval_of_the_fourth_moment() -> None:
    # Without noise and with many rows: estimate +- z sqrt((m4 - v^2)/n), for a law far from normal.
    X = np.random.default_rng(0).exponential(size=(4_000_000, 1))
    made = PrivateVariance(epsilon=1e7, bounds=(0.0, 12.0), random_state=0).fit(X)
    clipped = np.clip(X, 0, 12)
    fourth = float(np.mean((clipped - clipped.mean()) ** 4))
    low, high = (float(end[0]) for end in made.confidence_interval(0.95))
    half = 1.959964 * math.sqrt((fourth - clipped.var() ** 2) / len(X))
    assert (high - low) / 2 == pytest.approx(half, rel=0.03)  # raised by what sampling leaves open of m4
    assert (high + low) / 2 == pytest.approx(clipped.var(), rel=1e-3)


# Simultaneous levels.

ROWS = np.random.default_rng(5).normal(size=(400, 10))


@pytest.mark.parametrize("delta", LAWS)
@pytest.mark.parametrize(
    "build",
    [
        lambda **kw: ClippedMean(clip=4.0, std=1.0, **kw),
        lambda **kw: ClippedMean(clip=4.0, std=None, **kw),
        lambda **kw: ClippedMean(clip=4.0, **kw),
        lambda **kw: SparseMean(n_nonzero=10, clip=4.0, std=1.0, split=True, **kw),
        lambda **kw: SparseMean(n_nonzero=10, clip=4.0, std=1.0, split=True, selection="peeling", **kw),
    ],
    ids=["clipped", "noise alone", "private", "sparse", "peeling"],
)
def test_simultaneous_intervals_are_sidaks(build: Any, delta: float) -> None:
    # Ten intervals at .95^(1/10) = .994884: uncorrected ones would cover together with .95^10 = .60.
    made = build(epsilon=20.0, delta=delta, random_state=0).fit(ROWS)
    together = made.confidence_interval(0.95, simultaneous=True)
    each = made.confidence_interval(0.95 ** (1 / 10))
    np.testing.assert_allclose(together.high - together.low, each.high - each.low, rtol=1e-9)
    np.testing.assert_allclose(together.high + together.low, each.high + each.low, rtol=1e-9, atol=1e-12)
    assert together.confidence_level == 0.95 and together.simultaneous and not each.simultaneous


def test_sparse_half_widths_are_quantiles_of_the_normal_law() -> None:
    made = SparseMean(n_nonzero=10, clip=4.0, std=1.0, split=True, epsilon=20.0, delta=1e-6, random_state=0).fit(ROWS)
    one, ten = made.confidence_interval(0.95), made.confidence_interval(0.95, simultaneous=True)
    # Beside the bias that clipping can cause: z times the standard error, of z = 1.959964 at .95, and at .95^(1/10)
    # where P(|N| <= z) = erf(z/sqrt 2) is that. The bias is that of a mean at the end of the interval, and so grows.
    wider = ((ten.high - ten.low) - (one.high - one.low)) / 2 / np.sqrt(np.diag(made.cov_params_))
    z = stats.norm.isf((1 - 0.95 ** (1 / 10)) / 2)
    assert math.erf(z / math.sqrt(2)) == pytest.approx(0.95 ** (1 / 10), abs=1e-12)
    assert np.all((wider >= (z - 1.959964) * (1 - 1e-6)) & (wider < 1.5 * (z - 1.959964)))


@pytest.mark.parametrize("delta", LAWS)
def test_simultaneous_adaptive_means_are_bonferronis(delta: float) -> None:
    # Ten intervals at 1 - .05/10 = .995: their errors have a bias, for which Sidak's inequality is not made.
    made = AdaptiveMean(bound=5.0, std=1.0, epsilon=20.0, delta=delta, random_state=0).fit(ROWS)
    together, each = made.confidence_interval(0.95, simultaneous=True), made.confidence_interval(0.995)
    np.testing.assert_allclose([together.low, together.high], [each.low, each.high], rtol=1e-9)


def test_simultaneous_variances_are_bonferronis() -> None:
    # Five intervals at 1 - .05/5 = .99.
    made = PrivateVariance(epsilon=5.0, clip=4.0, random_state=0).fit(ROWS[:, :5])
    together, each = made.confidence_interval(0.95, simultaneous=True), made.confidence_interval(0.99)
    np.testing.assert_allclose([together.low, together.high], [each.low, each.high], rtol=1e-9)


# The error of an adaptive mean with Laplace noise: several stages, weighted.


@pytest.mark.parametrize("cov", [None, [[1.0, 0.6], [0.6, 2.0]]])
def test_intervals_of_several_laplace_stages_by_simulation(cov: Any) -> None:
    # 400,000 errors: six standard errors of a tail of .05 are .002.
    made = AdaptiveMean(
        epsilon=4.0, delta=0.0, bound=50.0, std=None if cov else 1.0, cov=cov, tails="symmetric", random_state=0
    ).fit(ROWS[:, :2])
    plan = made.plan_
    assert len(plan.stages) > 1 and np.count_nonzero(plan.weights > 0.02) > 1
    rng, size = np.random.default_rng(3), 400_000
    root = np.eye(2) if cov is None else np.linalg.cholesky(cov)
    errors = rng.normal(0, math.sqrt(plan.sampling_variance), (size, 2)) * plan.stds
    noises = [plan.noise(stage.name) for stage in plan.additive] + [plan.noise("mean")]
    for noise, slope, weight in zip(noises, plan.staging.slopes, plan.weights, strict=True):
        # What a stage draws, in the units of the columns, or whitened; the slope of the clipped mean.
        drawn = rng.laplace(0, np.broadcast_to(noise.scale, (2,)), (size, 2))
        errors += weight * (drawn if cov is None else drawn @ root.T) / slope
    low, high = made.confidence_interval(0.95)
    half, bias = (high - low) / 2, plan.bias * plan.stds
    # The worst bias there is, counted in both tails.
    beyond = np.mean(np.abs(errors + bias) > half, axis=0)
    assert np.all(np.abs(beyond - 0.05) < 0.002)


def test_an_estimated_proportion_has_the_variance_of_n_less_one() -> None:
    # Responses 0, 0, 1, 1, 1 of two coins (kept with 3/4): p - q = 1/2, so (3/5 - 1/4)/(1/2) = .7, and a variance
    # of .6 .4/(5 - 1)/(1/2)^2 = .24. Three of five have a frequency of .1466 to .9473 (Clopper and Pearson).
    found = RandomizedResponse.from_coins(random_state=0).estimate([0, 0, 1, 1, 1])
    assert found.proportions[1] == pytest.approx(0.7, rel=1e-9)
    assert found.standard_errors[1] == pytest.approx(math.sqrt(0.24), rel=1e-9)
    low, high = (
        RandomizedResponse.from_keep_probability(0.999, random_state=0).estimate([0, 0, 1, 1, 1]).confidence_interval()
    )
    assert low[1] == pytest.approx((0.146633 - 0.001) / 0.998, abs=1e-6)
    assert high[1] == pytest.approx((0.947255 - 0.001) / 0.998, abs=1e-6)


def test_a_millionth_of_delta_is_set_aside_for_discreteness() -> None:
    # docs/proofs/gaussian.md: mu is that of the exact curve at delta (1 - 10^-6); a budget sets the same part aside,
    # so that a plan for a whole budget fits it. The whole of delta, or a thousandth less, is 3e-8 or 3e-5 away.
    stage = ClippedMean(epsilon=1.0, delta=1e-6, clip=1.0, std=None).plan(1000, 20).additive[0]
    mu = stage.sensitivity_steps / stage.scale_steps
    assert mu == pytest.approx(1 / gaussian_sigma(1.0, 1e-6 * (1 - 1e-6)), rel=2e-9)
    assert mu != pytest.approx(1 / gaussian_sigma(1.0, 1e-6), rel=1e-8)
    # The other part is more than (1 + e) 0.021 d/s^2, what the lattice costs.
    assert (1 + math.e) * 0.021 * 20 / stage.scale_steps**2 < 1e-12
