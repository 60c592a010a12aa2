"""Level and p-values of every test under its null, reduced; validation/studies/identity_level.py has the full study."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpstats.identity import FilteringTest, LipschitzExtensionTest, RowDistanceTest, SpatialSignTest
from dpstats.identity.null import pvalue, realised_level

DATASETS = 1500
B = 999
TESTS = {
    "row distance": RowDistanceTest(),
    "row distance, signs": RowDistanceTest(rows="sign"),
    "row distance, product": RowDistanceTest(null="product", mean=0.4),
    "spatial sign": SpatialSignTest(),
    "l1": LipschitzExtensionTest(),
    "l1, signs": LipschitzExtensionTest(rows="sign"),
    "inner product": LipschitzExtensionTest(constraint="inner_product"),
    "staged": LipschitzExtensionTest(constraint="inner_product", staged=True),
    "filtering": FilteringTest(epsilon=4.0),
}


def acceptance(level: float, size: int, datasets: int, alarm: float) -> tuple[float, float]:
    """Return the range of rejections that both Monte Carlo errors explain: Beta-binomial, two-sided."""
    k = round(level * (size + 1))
    law = stats.betabinom(datasets, k, size + 1 - k)
    return float(law.ppf(alarm / 2)), float(law.isf(alarm / 2))


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.parametrize("name", TESTS)
def test_level(name: str, epsilon: float) -> None:
    """False alarm 1e-5 per cell, over datasets and the calibration's own law."""
    test = TESTS[name].__class__(**{**TESTS[name].get_params(), "n_calibration": B})
    test.set_params(epsilon=max(epsilon, 0.5) if name == "filtering" else epsilon)
    plan = test.plan(50, 3)
    null = test._null_statistics(plan)
    rng = np.random.default_rng(17)
    # Datasets of other units than those the calibration is made in, through the private path.
    values = []
    for _ in range(DATASETS // 3 if name in ("staged", "inner product") else DATASETS):
        X = plan.reference.sample(50, rng).astype(float)
        if plan.reference.signs_mean is not None:
            X = np.sign(X)
        statistic = test._exact(X, plan)
        released = test._release(statistic, plan, _noise(rng))
        values.append(float(test._combine(released, plan)))
    pvalues = np.array([pvalue(null, value) for value in values])
    low, high = acceptance(0.05, B, len(values), 1e-5)
    assert low <= np.sum(pvalues <= 0.05) <= high
    for level in (0.01, 0.2, 0.5):
        # Stochastically no smaller than uniform.
        assert np.sum(pvalues <= level) <= acceptance(level, B, len(values), 1e-5)[1]


def _noise(rng: np.random.Generator) -> object:
    from dpstats.release.noise import SimulatedNoise

    return SimulatedNoise(rng)


def test_band_would_notice_a_wrong_level() -> None:
    low, high = acceptance(0.05, B, DATASETS, 1e-5)
    # Noise left out of the calibration at epsilon = .1: about 40% rejections. Half the level: 2.5%.
    assert high < 0.11 * DATASETS
    assert low > 0.018 * DATASETS


def test_calibration_without_the_noise_loses_the_level() -> None:
    """The planted bug: critical values of the statistic without noise."""
    test = RowDistanceTest(epsilon=0.1, n_calibration=B)
    plan = test.plan(50, 3)
    rng = np.random.default_rng(1)
    bare = np.sort(test._draw(plan, B, rng, 0.0)[:, 0] * 2.0**-20)
    rejected = np.sum(test._simulate(plan, DATASETS, rng) > bare[-50])
    assert rejected > acceptance(0.05, B, DATASETS, 1e-5)[1]


def test_realised_level_is_the_beta_law() -> None:
    assert np.round(realised_level(9999, 0.05), 3).tolist() == [0.046, 0.054]
    rng = np.random.default_rng(3)
    # 2000 calibrations of B = 199 uniform numbers at level .1: P(new > k-th largest) = 1 - it.
    levels = 1 - np.sort(rng.random((2000, 199)), axis=1)[:, -20]
    assert stats.kstest(levels, stats.beta(20, 180).cdf).pvalue > 1e-4
    assert stats.kstest(levels, stats.beta(18, 182).cdf).pvalue < 1e-4


def test_normal_limit_of_the_spatial_sign() -> None:
    """At the size from which the limit is used, against rows: KS, false alarm 1e-5; 3% off is noticed."""
    from dpstats.identity.spatial import integer_norm, spatial_sign_lattice
    from dpstats.identity.spatial_sign_test import draw_normal_limit

    rng = np.random.default_rng(2)
    n, d = 2000, 3
    for shift in (0.0, np.array([0.02, 0.0, 0.02])):
        lattice = spatial_sign_lattice(n, d)
        rows = [
            integer_norm(lattice.sums(rng.standard_normal((n, d)) + shift)[0]) * lattice.spacing
            for _ in range(1500)
        ]
        limit = draw_normal_limit(n, d, 0.75 * np.sqrt(d), 40_000, rng, shift)
        assert stats.ks_2samp(rows, limit).pvalue > 1e-5
        assert stats.ks_2samp(rows, 1.15 * limit).pvalue < 1e-5


def test_sums_have_their_exact_law() -> None:
    """Multinomial and binomial sums against rows that go through the row map; false alarm 1e-5 each."""
    rng = np.random.default_rng(4)
    for test, shift in [
        (LipschitzExtensionTest(), 0.0),
        (LipschitzExtensionTest(), 0.3),
        (LipschitzExtensionTest(rows="sign"), 0.3),
        (LipschitzExtensionTest(null="product", mean=0.5), 0.1),
    ]:
        plan = test.plan(30, 2)
        drawn = test._draw(plan, 4000, rng, np.full(2, shift))[:, 0]
        direct = []
        for _ in range(1500):
            Z = plan.reference.sample(30, rng, np.full(2, shift)).astype(float)
            X = np.sign(Z) if plan.reference.signs_mean is not None else Z
            direct.append(test._exact(X, plan)[plan.stages[0].name][0])
        assert stats.ks_2samp(drawn.astype(float), np.array(direct, dtype=float)).pvalue > 1e-5
