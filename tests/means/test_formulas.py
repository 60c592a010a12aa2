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
    """Return an estimator as it reports releases that are stated, each for one column."""
    made.plan_, made.privacy_ = plan, plan.guarantee
    made._report(
        {stage.name: np.array([value]) for stage, value in zip(plan.stages, released.values(), strict=True)},
        plan,
    )
    return made


def noises(plan: Any) -> list[float]:
    """Return the standard deviations of the noise of the stages, from their scales: sqrt(2) b for Laplace noise."""
    ratio = math.sqrt(2) if plan.stages[0].noise == "laplace" else 1.0
    return [ratio * float(np.ravel(stage.noise_scale)[0]) for stage in plan.stages]


@pytest.mark.parametrize("delta", LAWS)
def test_the_spread_is_of_n_less_one_and_without_its_noise(delta: float) -> None:
    # E (m1 + z)^2 = m1^2 + s1^2, so n/(n - 1) (m2 - (m1 + z)^2 + s1^2) is unbiased for the variance.
    for kind in (ClippedMean, PrivateVariance):
        options = {"std": "private"} if kind is ClippedMean else {}
        made = kind(epsilon=20.0, delta=delta, clip=50.0, **options)
        plan = made.plan(5, 1)
        stages = [stage.name for stage in plan.stages]
        mean_noise = noises(plan)[stages.index("clipped mean")]
        assert mean_noise**2 > 1  # not a correction that could be missed
        values = {"clipped mean": 2.0, "second moment about the centre": 30.0}
        reported(made, plan, **{f"v{t}": values[name] for t, name in enumerate(stages)})
        assert made.std_[0] ** 2 == pytest.approx(5 / 4 * (30.0 - 4.0 + mean_noise**2), rel=1e-9)


@pytest.mark.parametrize("delta", LAWS)
def test_satterthwaites_degrees_of_freedom_by_simulation(delta: float) -> None:
    # The error's variance is estimated by T = v/n + s1^2; a chi-square multiple of T's mean and variance has
    # 2 T^2/Var(T) degrees of freedom. Var(T) is measured on 200,000 normal datasets, five standard errors are 2%.
    n, spread, center = 30, 3.0, 1.5
    made = ClippedMean(epsilon=25.0, delta=delta, clip=20.0, std="private")
    plan = made.plan(n, 1)
    first, second = noises(plan)
    assert 0.1 < second / (spread**2 * math.sqrt(2 / n)) < 10  # neither part is negligible
    rng = np.random.default_rng(0)
    size = 200_000
    mean = rng.normal(center, spread / math.sqrt(n), size)
    ss = spread**2 * rng.chisquare(n - 1, size) / n  # mean square about the mean

    def noise(deviation: float) -> np.ndarray:
        return rng.normal(0, deviation, size) if delta else rng.laplace(0, deviation / math.sqrt(2), size)

    shift, squares = mean + noise(first), ss + mean**2 + noise(second)
    variance = n / (n - 1) * (squares - shift**2 + first**2)
    total = spread**2 / n + first**2
    expected = 2 * total**2 / (variance.var() / n**2)
    at_truth = reported(made, plan, mean=center, squares=spread**2 * (n - 1) / n + center**2 - first**2)
    assert at_truth.std_[0] == pytest.approx(spread, rel=1e-9)
    # The formula takes the noisy m1 for the mean of the rows: here both are the truth.
    assert at_truth._degrees_of_freedom[0] == pytest.approx(expected, rel=0.04)


@pytest.mark.parametrize("delta", LAWS)
def test_degrees_of_freedom_at_the_ends(delta: float) -> None:
    # Without noise Student's: n - 1.
    made = ClippedMean(epsilon=1e6, delta=delta, clip=10.0, std="private")
    reported(made, made.plan(8, 1), mean=0.0, squares=7.0)
    assert made._degrees_of_freedom is not None
    assert made._degrees_of_freedom[0] == pytest.approx(7.0, rel=1e-4)
    # Of rows that do not vary: T = s1^2, and (n - 1)^2 Var(T) = s2^2 + k s1^4 with k = E Z^4/s^4 - 1, which is 2 for
    # normal and 24/4 - 1 = 5 for Laplace noise. Nearly all for the squares, so that k decides.
    made = ClippedMean(epsilon=1.0, delta=delta, clip=10.0, std="private", std_share=0.999)
    plan = made.plan(8, 1)
    first, second = noises(plan)
    k = 2 if delta else 5
    assert k * first**4 > second**2
    reported(made, plan, mean=0.0, squares=-1e9)
    assert made.std_[0] == 0.0
    expected = 2 * first**4 * 7**2 / (second**2 + k * first**4)
    assert made._degrees_of_freedom[0] == pytest.approx(expected, rel=1e-9)


# Quantiles of the chi-square law at .025 and .975, as printed in tables.
CHI_SQUARE = {9: (2.700, 19.023), 10: (3.247, 20.483)}


@pytest.mark.parametrize(("about", "degrees"), [("mean", 9), ("center", 10)])
def test_variance_intervals_have_the_degrees_of_the_table(about: str, degrees: int) -> None:
    # Without noise: the textbook interval (df v/upper quantile, df v/lower quantile).
    X = np.random.default_rng(0).normal(size=(10, 1))
    made = PrivateVariance(epsilon=1e7, clip=10.0, about=about, random_state=0).fit(X)
    truth = X.var(ddof=1) if about == "mean" else np.mean(X**2)
    assert made.variance_[0] == pytest.approx(truth, rel=1e-4)
    low, high = (float(end[0]) for end in made.confidence_interval(0.95))
    below, above = CHI_SQUARE[degrees]
    assert low == pytest.approx(degrees * truth / above, rel=1e-3)
    assert high == pytest.approx(degrees * truth / below, rel=1e-3)


@pytest.mark.parametrize(("about", "largest", "degrees"), [("mean", 20.0, 9), ("center", 10.0, 10)])
def test_bounded_intervals_end_where_the_law_rejects(about: str, largest: float, degrees: int) -> None:
    # The ends v solve (estimate - v)^2 = z^2 v (W - v)/df, W = (2R)^2 about the mean and R^2 about a centre.
    X = np.random.default_rng(0).normal(size=(10, 1))
    made = PrivateVariance(epsilon=1e7, clip=10.0, about=about, interval="bounded", random_state=0).fit(X)
    low, high = (float(end[0]) for end in made.confidence_interval(0.95))
    z, estimate = 1.959964, float(made.variance_[0])
    for end in (low, *([high] if high < 100.0 else [])):
        assert (estimate - end) ** 2 == pytest.approx(z**2 * end * (largest**2 - end) / degrees, rel=1e-2)


# Simultaneous levels.

ROWS = np.random.default_rng(5).normal(size=(400, 10))


@pytest.mark.parametrize("delta", LAWS)
@pytest.mark.parametrize(
    "build",
    [
        lambda **kw: ClippedMean(clip=4.0, std=1.0, **kw),
        lambda **kw: ClippedMean(clip=4.0, **kw),
        lambda **kw: AdaptiveMean(bound=5.0, std=1.0, **kw),
        lambda **kw: SparseMean(n_nonzero=10, clip=4.0, std=1.0, split=True, **kw),
        lambda **kw: SparseMean(n_nonzero=10, clip=4.0, std=1.0, split=True, selection="peeling", **kw),
    ],
    ids=["clipped", "noise alone", "adaptive", "sparse", "peeling"],
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
    made = SparseMean(
        n_nonzero=10, clip=4.0, std=1.0, split=True, epsilon=20.0, delta=1e-6, random_state=0
    ).fit(ROWS)
    one, ten = made.confidence_interval(0.95), made.confidence_interval(0.95, simultaneous=True)
    # P(|N| <= z) = erf(z/sqrt 2): .95 at z = 1.959964, and .95^(1/10) at a z that is larger by this ratio.
    for ratio in (ten.high - ten.low) / (one.high - one.low):
        assert math.erf(1.959964 * ratio / math.sqrt(2)) == pytest.approx(0.95 ** (1 / 10), abs=1e-8)


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
        epsilon=4.0,
        delta=0.0,
        bound=50.0,
        std=None if cov else 1.0,
        cov=cov,
        tails="symmetric",
        random_state=0,
    ).fit(ROWS[:, :2])
    plan = made.plan_
    assert len(plan.stages) > 1 and np.count_nonzero(plan.weights > 0.02) > 1
    rng, size = np.random.default_rng(3), 400_000
    root = np.eye(2) if cov is None else np.linalg.cholesky(cov)
    errors = rng.normal(0, math.sqrt(plan.sampling_variance), (size, 2)) * plan.stds
    for stage, lattice, slope, weight in zip(
        plan.additive, plan.lattices, plan.staging.slopes, plan.weights, strict=True
    ):
        # What a stage draws, in steps; a step in whitened units, of the mean; the slope of the clipped mean.
        step = lattice.spacing / plan.n_samples if cov is None else None
        if step is None:
            released = rng.laplace(0, np.broadcast_to(stage.noise_scale, (2,)), (size, 2)) @ root.T
        else:
            released = rng.laplace(0, stage.scale_steps * step, (size, 2))
        errors += weight * released / slope
    low, high = made.confidence_interval(0.95)
    half = (high - low) / 2 - plan.bias * plan.stds
    assert np.all(np.abs(np.mean(np.abs(errors) > half, axis=0) - 0.05) < 0.002)


def test_an_estimated_proportion_has_the_variance_of_n_less_one() -> None:
    # Responses 0, 0, 1, 1, 1 of two coins (kept with 3/4): p - q = 1/2, so (3/5 - 1/4)/(1/2) = .7, and a variance
    # of .6 .4/(5 - 1)/(1/2)^2 = .24.
    found = RandomizedResponse.from_coins(random_state=0).estimate([0, 0, 1, 1, 1])
    assert found.proportions[1] == pytest.approx(0.7, rel=1e-9)
    low, high = found.confidence_interval(0.95)
    assert (high[1] - low[1]) / 2 == pytest.approx(1.959964 * math.sqrt(0.24), rel=1e-5)
    assert stats.norm.ppf(0.975) == pytest.approx(1.959964, rel=1e-6)


def test_a_millionth_of_delta_is_set_aside_for_discreteness() -> None:
    # docs/proofs/gaussian.md: mu is that of the exact curve at delta (1 - 10^-6); a budget sets the same part aside,
    # so that a plan for a whole budget fits it. The whole of delta, or a thousandth less, is 3e-8 or 3e-5 away.
    stage = ClippedMean(epsilon=1.0, delta=1e-6, clip=1.0).plan(1000, 3).additive[0]
    mu = stage.sensitivity_steps / stage.scale_steps
    assert mu == pytest.approx(1 / gaussian_sigma(1.0, 1e-6 * (1 - 1e-6)), rel=2e-9)
    assert mu != pytest.approx(1 / gaussian_sigma(1.0, 1e-6), rel=1e-8)
    # The other part is more than (1 + e) 0.021 d/s^2, what the lattice costs.
    assert (1 + math.e) * 0.021 * 3 / stage.scale_steps**2 < 1e-12
