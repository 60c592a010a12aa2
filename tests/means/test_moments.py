"""The finest lattice that can be drawn."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.means import ClippedMean
from dpstats.means.moments import MEAN, OUTSIDE, SQUARES
from dpstats.privacy import PrivacyBudget
from tests.means.test_clipped import X


def test_impossible_noise_is_refused_before_the_charge() -> None:
    budget = PrivacyBudget(1.0)
    with pytest.raises(InvalidParameter, match="noise scale"):
        ClippedMean(epsilon=1e-16, clip=1.0, budget=budget).fit(X)
    assert budget.history() == ()


def test_the_lattice_is_coarser_where_noise_would_not_fit() -> None:
    # 2^31 steps over 1e-8 exceed 1e16: fewer steps a bound, the same noise in units.
    for std, room in ((None, 1e-9), ("private", 1e-5)):
        plan = ClippedMean(epsilon=1e-8, clip=1.0, std=std).plan(100, 1)
        assert plan.lattice.bits < 30
        assert plan.noise(MEAN).scale == pytest.approx(2 / 100 / 1e-8, rel=room)
        wide = ClippedMean(epsilon=0.01, clip=1.0, std=std).plan(100, 100_000)
        assert wide.noise(MEAN).scale == pytest.approx(2 * 100_000 / 100 / 0.01, rel=room)


def test_squares_and_counts_beside_the_mean() -> None:
    # docs/proofs/free-squares.md: squares at 1/1.665 of the noise of the mean, in units of R, for nothing (delta = 0:
    # at 2); a count at 2/(mu v), for a factor sqrt(1 + v^2/4) of all.
    one = {"clip": 3.0, "epsilon": 1.0}
    for delta, weight in ((1e-6, 1.6650), (0.0, 0.5)):
        alone = ClippedMean(**one, delta=delta, std=None).plan(1000, 20).noise(MEAN)
        both = ClippedMean(**one, delta=delta).plan(1000, 20)
        assert both.noise(MEAN).std == pytest.approx(alone.std, rel=1e-9)
        assert both.noise(SQUARES).std == pytest.approx(3.0 * alone.std / weight, rel=2e-4)
    counted = ClippedMean(**one, delta=1e-6, clipped_share=True).plan(1000, 20)
    alone = ClippedMean(**one, delta=1e-6, std=None).plan(1000, 20).noise(MEAN)
    assert counted.noise(MEAN).std == pytest.approx(alone.std * math.sqrt(4.1 / 4), rel=1e-9)
    assert counted.noise(OUTSIDE).std == pytest.approx(counted.noise(MEAN).std / 3.0 / math.sqrt(0.1), rel=1e-9)


@pytest.mark.parametrize("noise", ["proportional", "isotropic"])
def test_what_is_released_is_the_moments_in_their_units(noise: str) -> None:
    rows = np.random.default_rng(0).normal([0.0, 5.0, 1.0], [1.0, 3.0, 0.1], size=(500, 3))
    clip, center = np.array([1.0, 4.0, 0.3]), np.array([0.0, 4.0, 1.0])
    made = ClippedMean(
        epsilon=1e7, delta=1e-6, clip=clip, center=center, noise=noise, clipped_share=True, random_state=0
    )
    made.fit(rows)
    clipped = np.clip(rows, center - clip, center + clip)
    np.testing.assert_allclose(made.mean_, clipped.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(made.std_, clipped.std(axis=0, ddof=1), atol=1e-4)
    np.testing.assert_allclose(made.clipped_share_, np.mean(np.abs(rows - center) > clip, axis=0), atol=1e-4)


def test_the_clip_applied_is_the_one_the_noise_was_calibrated_to() -> None:
    class Meddled(ClippedMean):
        def plan(self, n_samples: int, n_features: int) -> object:
            plan = super().plan(n_samples, n_features)
            self.clip = 1e6  # as another thread might, between the plan and the sums
            return plan

    fitted = Meddled(clip=np.array([1.0, 1.0, 1.0]), epsilon=1e6, random_state=0).fit(100 * np.ones((10, 3)))
    np.testing.assert_allclose(fitted.mean_, 1.0, atol=1e-4)
