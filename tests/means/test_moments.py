"""The finest lattice that can be drawn."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.means import ClippedMean
from dpstats.privacy import PrivacyBudget
from tests.means.test_clipped import X


def test_impossible_noise_is_refused_before_the_charge() -> None:
    budget = PrivacyBudget(1.0)
    with pytest.raises(InvalidParameter, match="noise scale"):
        ClippedMean(epsilon=1e-16, clip=1.0, budget=budget).fit(X)
    assert budget.history() == ()


def test_the_lattice_is_coarser_where_noise_would_not_fit() -> None:
    # 2^31 steps over 1e-8 exceed 1e16: fewer steps a bound, the same noise in units.
    plan = ClippedMean(epsilon=1e-8, clip=1.0).plan(100, 1)
    assert plan.lattice.bits < 30
    assert plan.stages[0].noise_scale == pytest.approx(2 / 100 / 1e-8, rel=1e-9)
    wide = ClippedMean(epsilon=0.01, clip=1.0).plan(100, 100_000)
    assert wide.stages[0].noise_scale == pytest.approx(2 * 100_000 / 100 / 0.01, rel=1e-9)


def test_the_clip_applied_is_the_one_the_noise_was_calibrated_to() -> None:
    class Meddled(ClippedMean):
        def plan(self, n_samples: int, n_features: int) -> object:
            plan = super().plan(n_samples, n_features)
            self.clip = 1e6  # as another thread might, between the plan and the sums
            return plan

    fitted = Meddled(clip=np.array([1.0, 1.0, 1.0]), epsilon=1e6, random_state=0).fit(100 * np.ones((10, 3)))
    np.testing.assert_allclose(fitted.mean_, 1.0, atol=1e-4)
