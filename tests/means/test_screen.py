"""The count of clipped rows: what it may be, and what follows where it is more."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize, stats

from dpstats.means.boxed_errors import Screen, clipping_factor, displacement, last_stage

SCREEN = Screen(5000, 3, 3.5, 0.01, "gaussian", 8.0)


def test_counts_that_an_assumption_allows_are_seldom_exceeded() -> None:
    rng = np.random.default_rng(0)
    for noise in ("gaussian", "laplace"):
        screen = Screen(5000, 3, 3.5, 0.01, noise, 8.0)
        assert screen.expected() == pytest.approx(5000 * stats.chi2(3).sf(3.5**2 / 1.01))
        drawn = rng.normal(0, 8, 100_000) if noise == "gaussian" else rng.laplace(0, 8 / math.sqrt(2), 100_000)
        counts = rng.binomial(5000, screen.expected() / 5000, 100_000) + drawn
        assert np.mean(counts > screen.most()) < 0.006
        # Twice the rows are noticed, so that the check can fail.
        assert np.mean(counts + 2 * (screen.most() - screen.expected()) > screen.most()) > 0.99
        rows, shift = screen.unnoticed
        assert np.mean(rng.binomial(5000, rows / 5000, 100_000) + drawn > screen.most()) > 0.9
        assert 0 < shift < 1
    # A smaller spread allows fewer.
    assert SCREEN.most(0.25) < SCREEN.most(1.0)
    assert SCREEN.share(1e9) == 1 and SCREEN.share(-1e9) == 0
    assert SCREEN.share(100.0) == pytest.approx((100 + 2.33 * math.sqrt(64 + 100)) / 5000)


@pytest.mark.parametrize("radius", [2.0, 5.0])
@pytest.mark.parametrize("share", [1e-3, 0.02, 0.3])
def test_no_law_exceeds_the_clipping_factor(radius: float, share: float) -> None:
    # Over laws on a grid of norms, a linear program: E(1 - B/y)_+^2 with P(y > B) <= p and E y^2 <= q.
    q = 4.0
    norms = np.concatenate([[0.0], np.geomspace(radius / 4, 60 * radius, 3000)])
    gain = np.maximum(1 - radius / np.maximum(norms, radius), 0.0) ** 2
    rows = np.vstack([norms**2, norms > radius, np.ones_like(norms)])
    best = optimize.linprog(-gain, A_ub=rows, b_ub=[q, share, 1.0])
    found = clipping_factor(share, q, radius)
    assert math.sqrt(-best.fun) <= found * (1 + 1e-9)
    assert math.sqrt(-best.fun) >= 0.99 * found


@pytest.mark.parametrize("d", [1, 20])
def test_the_displacement_is_the_largest_root(d: int) -> None:
    for radius in (2.0, 4.0, 8.0):
        for share in (1e-4, 0.01, 0.1, 0.5, 0.9):
            for length in (0.0, 0.1, 1.0, 5.0):
                r = np.linspace(0, 500, 500_001)
                q = d + r * r
                p = np.minimum(share, q / (4 * radius**2))
                largest = r[np.flatnonzero(length + np.sqrt(p * q) - radius * p >= r)[-1]]
                found = displacement(length, share, d, radius)
                assert found is not None and found == pytest.approx(largest, abs=2e-3)
    assert displacement(0.0, 1.0, d, 4.0) is None


def test_the_last_stage_bounds_the_bias_of_any_law() -> None:
    # Two points, a rare one far out, in every direction of three columns: spread 1, all of the bias in the tail.
    rng = np.random.default_rng(1)
    for share in (0.001, 0.01, 0.05):
        for radius in (3.0, 5.0):
            direction = rng.standard_normal(3)
            direction /= np.linalg.norm(direction)
            far = math.sqrt((1 - share) / share)
            points = np.array([far, -1 / far])[:, None] * direction
            for center in (np.zeros(3), np.array([0.3, -0.1, 0.2])):
                x = points - center
                clipped = x * np.minimum(1, radius / np.linalg.norm(x, axis=1))[:, None]
                weights = np.array([share, 1 - share])
                shift, mean = weights @ clipped, weights @ x
                found = last_stage(shift, shift, 0.0, share, radius, 10**9)
                assert found is not None
                assert np.all(np.abs(shift - mean) <= found.bias)
                assert np.all(np.abs(mean) <= found.distance)
                # Half the share is no bound: the check can fail.
                half = last_stage(shift, shift, 0.0, share / 4, radius, 10**9)
                if share * far**2 > 0.9 and far > 2 * radius:
                    assert half is not None and np.any(np.abs(shift - mean) > half.bias / 2)
    assert last_stage(np.ones(3), np.ones(3), 0.1, 1.0, 3.0, 100) is None
