"""Error distributions of a clipped mean: what they cover where clipping moves a column for another one's sake."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpstats.means import ClippedMean
from dpstats.means.moments import BallErrors


def steady_beside_wide(n: int, spread: float, rng: np.random.Generator) -> np.ndarray:
    """Return rows of a nearly constant column, and of one that spreads."""
    return np.column_stack([rng.normal(5.0, 0.1, n), rng.normal(0.0, spread, n)])


@pytest.mark.parametrize(("spread", "radius"), [(50.0, 6.0), (5.0, 10.0)])
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_a_column_whose_neighbor_is_clipped_is_covered(spread: float, radius: float, delta: float) -> None:
    rng = np.random.default_rng(0)
    many = steady_beside_wide(1_000_000, spread, rng)
    many *= np.minimum(1, radius / np.linalg.norm(many, axis=1))[:, None]
    truth, std = many.mean(axis=0), [0.1, spread]
    covered, trusting = [], []
    for _ in range(60):
        rows = steady_beside_wide(2000, spread, rng)
        estimator = ClippedMean(epsilon=20, delta=delta, clip=radius, clip_norm="l2", std=std, random_state=rng)
        fitted = estimator.fit(rows)
        low, high = fitted.confidence_interval(estimand="clipped")
        covered.append((low <= truth) & (truth <= high))
        # A version that must fail: the spread of the rows before they are clipped.
        low, high = (fitted.plan_.lattice.center + end for end in fitted._score.limits(0.025))
        trusting.append((low <= truth) & (truth <= high))
    # 60 intervals of coverage .95: below .85 has a probability of .002.
    assert np.all(np.mean(covered, axis=0) >= 0.85)
    assert np.mean(trusting, axis=0)[0] < 0.8


@pytest.mark.parametrize("estimand", ["clipped", "population"])
def test_intervals_of_a_ball_that_clips_few_rows_are_hardly_longer(estimand: str) -> None:
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((2000, 10))
    options: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "clip": 8.0, "clip_norm": "l2"}
    fitted = ClippedMean(std=1.0, random_state=0, **options).fit(rows)
    low, high = fitted.confidence_interval(estimand="clipped")
    shortest = 2 * 1.96 * np.hypot(2000**-0.5, fitted.noise_std_)
    assert np.all(high - low < 1.06 * shortest)
    wide_low, wide_high = fitted.confidence_interval(estimand="population")
    assert np.all((wide_low < low) & (high < wide_high))


def test_pvalues_and_intervals_agree() -> None:
    rng = np.random.default_rng(2)
    fitted = ClippedMean(epsilon=1.0, delta=1e-6, clip=6.0, clip_norm="l2", std=[0.1, 5.0], random_state=0).fit(
        steady_beside_wide(500, 5.0, rng)
    )
    assert isinstance(fitted.estimates(estimand="clipped").distribution, BallErrors)
    low, _ = fitted.confidence_interval(0.9, estimand="clipped")
    pvalue = fitted.test(low, alternative="greater", estimand="clipped").pvalue
    np.testing.assert_allclose(pvalue, 0.05, rtol=1e-6)
