"""Level and p-values of every test under its null, reduced; validation/studies/identity_level.py has the full study."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpstats.identity import FilteringTest, LipschitzExtensionTest, RowDistanceTest, SpatialSignTest
from dpstats.identity.calibration import pvalue
from dpstats.release.session import Session
from dpstats.textbook import StagedInnerProductTest
from tests.identity.every_test import FAST, KINDS, NULL_ROWS

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
    "staged": StagedInnerProductTest(),
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
        with Session.simulated(plan, rng) as session:
            test._release(test._exact(X, plan), plan, session)
        values.append(float(test._combine(session.released, plan)))
    pvalues = np.array([pvalue(null, value) for value in values])
    low, high = acceptance(0.05, B, len(values), 1e-5)
    assert low <= np.sum(pvalues <= 0.05) <= high
    for level in (0.01, 0.2, 0.5):
        # Stochastically no smaller than uniform.
        assert np.sum(pvalues <= level) <= acceptance(level, B, len(values), 1e-5)[1]


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


@pytest.mark.parametrize("kind", KINDS)
def test_levels_in_short_floats_are_their_shortest_decimals(kind) -> None:
    plain = kind(random_state=0, **FAST).fit(NULL_ROWS)
    for short in (np.float32(0.05), np.float16(0.05), np.longdouble("0.05")):
        test = kind(random_state=0, level=short, **FAST).fit(NULL_ROWS)
        assert (test.plan_.level, test.threshold_) == (0.05, plain.threshold_)
    assert kind(level=np.float32(1e-5)).plan(60, 3).n_calibration == 99_999
