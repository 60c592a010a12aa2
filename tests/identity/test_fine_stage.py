"""Releases of integers do not tie."""

from __future__ import annotations

import numpy as np

from dpstats.identity import LipschitzExtensionTest
from tests.identity.every_test import FAST


def test_statistics_on_integers_do_not_tie() -> None:
    for test in (
        LipschitzExtensionTest(rows="sign", epsilon=5.0, **FAST),
        LipschitzExtensionTest(constraint="inner_product", solver="surrogate", epsilon=5.0, **FAST),
    ):
        plan = test.plan(6, 2)
        assert plan.stages[0].spacing == 2.0**-20
        assert np.unique(test._null_statistics(plan)).size == 199
    # Where the noise or the statistic leaves no room, the lattice is coarser, and nothing is refused.
    assert LipschitzExtensionTest(rows="sign", epsilon=1e-9).plan(10**6, 20).stages[0].spacing > 2.0**-20
