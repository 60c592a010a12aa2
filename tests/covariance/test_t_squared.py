"""Hotelling's statistic of what was released, without noise and with it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import f

from dpstats.covariance import HotellingTest
from dpstats.covariance.hotelling import MeanErrors, _kept_of_mean
from dpstats.means.ellipsoids import BallProducts


def test_without_noise_it_is_the_test_of_the_textbooks() -> None:
    rng = np.random.default_rng(0)
    n, d = 60, 3
    U = rng.normal(size=(n, d)) * [0.1, 0.2, 0.15] + 0.02
    errors = MeanErrors.from_rows(BallProducts(n, U.mean(axis=0), U.T @ U / n, 0.0, 0.0), np.zeros(d))
    expected = n * U.mean(axis=0) @ np.linalg.solve(np.cov(U.T, bias=True), U.mean(axis=0))
    assert errors.statistic == pytest.approx(expected, rel=1e-9)
    assert errors.degrees == pytest.approx(n - 1)
    left = n - d
    assert errors.pvalue == pytest.approx(f.sf(errors.statistic * left / (d * (n - 1)), d, left), rel=1e-9)


def two_samples(stds: tuple[float, float]) -> tuple[BallProducts, np.ndarray, np.ndarray]:
    """Return the averages of two samples of unequal size, without noise, and the samples."""
    rng = np.random.default_rng(1)
    n = 4000
    signs = np.where(rng.random(n) < 0.2, 1.0, -1.0)
    U = rng.normal(size=(n, 2)) * np.where(signs > 0, *stds)[:, None] + 0.05 * (signs > 0)[:, None]
    signed = signs.mean(), signs @ U / n, (U * signs[:, None]).T @ U / n
    found = BallProducts(n, U.mean(axis=0), U.T @ U / n, 0.0, 0.0, *signed)
    return found, U[signs > 0], U[signs < 0]


def test_signs_give_the_difference_of_two_means_with_unequal_covariances() -> None:
    found, first, second = two_samples((0.3, 0.1))
    assert found.sign is not None
    errors = MeanErrors.from_signs(found, shrunk=False)
    scale = 2 / (1 - found.sign**2)
    np.testing.assert_allclose(scale * errors.mean, first.mean(axis=0) - second.mean(axis=0), rtol=1e-9)
    expected = np.cov(first.T) / len(first) + np.cov(second.T) / len(second)
    np.testing.assert_allclose(scale**2 * errors.covariance, expected, rtol=0.05, atol=2e-6)


def test_two_samples_of_one_distribution_have_hotellings_statistic() -> None:
    found, first, second = two_samples((0.2, 0.2))
    assert found.sign is not None
    errors = MeanErrors.from_signs(found, shrunk=True)
    apart = first.mean(axis=0) - second.mean(axis=0)
    within = (np.cov(first.T) * (len(first) - 1) + np.cov(second.T) * (len(second) - 1)) / (found.n - 2)
    hotelling = apart @ np.linalg.solve(within * (1 / len(first) + 1 / len(second)), apart)
    assert errors.statistic == pytest.approx(hotelling, rel=0.05)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_a_wider_sample_keeps_less_of_a_mean(d: int) -> None:
    rng = np.random.default_rng(3)
    for std in (0.1, 0.5, 2.0):
        white = rng.normal(size=(200_000, d)) * std

        def shrink(rows: np.ndarray) -> np.ndarray:
            return rows / np.maximum(np.linalg.norm(rows, axis=1), 1.0)[:, None]

        step = 0.05 * std
        moved = (shrink(white + step) - shrink(white - step)).mean() / (2 * step)
        found = _kept_of_mean(float((shrink(white) ** 2).sum(axis=1).mean()), d)
        assert found == pytest.approx(moved, abs=0.02)


def test_samples_of_unequal_spread_about_one_mean_keep_the_level() -> None:
    # Without the correction 0.19 of the tests reject, and 0.18 of the intervals exclude 0.
    rejected = excluded = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        first = rng.random(2000) < 0.5
        X = rng.normal(size=(2000, 2)) * np.where(first, 3.0, 1.0)[:, None]
        made = HotellingTest(groups=[1, 0], bounds=(-15, 15), random_state=seed).fit(X, first.astype(int))
        low, high = made.confidence_interval()
        rejected += int(made.pvalue_ < 0.05)
        excluded += int(low[0] > 0 or high[0] < 0)
    # At a level of 0.05 more than 9 of 60 have a probability of 1e-3.
    assert rejected <= 9 and excluded <= 9


def test_too_much_noise_rejects_nothing() -> None:
    errors = MeanErrors(np.full(4, 100.0), np.eye(4) * 1e-3, 5.0, np.eye(4) * 1e-9, 10)
    assert errors.degrees < 4 and errors.pvalue == 1.0


def test_released_covariances_that_are_not_positive_are_kept_above_zero() -> None:
    errors = MeanErrors(np.ones(2), np.diag([1.0, -3.0]), 0.5, np.zeros((2, 2)), 10)
    assert np.linalg.eigvalsh(errors.covariance)[0] > 0 and np.isfinite(errors.statistic)


def test_degrees_of_freedom_are_those_of_both_relative_errors() -> None:
    # A quarter of the variance of the mean is noise, and the released spread has an error of a fifth.
    n, d = 41, 2
    errors = MeanErrors(np.zeros(d), np.eye(d), 0.2, np.eye(d) / (3 * n), n)
    assert errors.degrees == pytest.approx(1 / (0.75**2 / 40 + (0.75 * 0.2) ** 2))
