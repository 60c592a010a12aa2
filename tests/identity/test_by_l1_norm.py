"""The l1 extension test: the exact law of the sums that it simulates from."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpstats.identity import LipschitzExtensionTest


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


def test_next_to_no_noise_the_statistic_is_the_printed_one() -> None:
    # The extension of T within its radius is T itself: the squared norm of the sum of rows, minus its mean n d.
    X = np.random.default_rng(0).normal(0.2, 1.0, (200, 3))
    test = LipschitzExtensionTest(rows="sign", epsilon=1e6, radius=50.0, n_calibration=99, random_state=0).fit(X)
    signs = np.where(X >= 0, 1, -1).sum(axis=0)
    assert test.statistic_ == pytest.approx(float(signs @ signs) - 600, abs=0.1)
