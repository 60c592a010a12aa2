"""The l1 extension test: the exact law of the sums that it simulates from."""

from __future__ import annotations

import numpy as np
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
