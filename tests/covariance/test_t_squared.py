"""Hotelling's statistic of what was released, without noise and with it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import f

from dpstats.covariance.hotelling import MeanErrors
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
    errors = MeanErrors.from_signs(found, one_distribution=False)
    scale = 2 / (1 - found.sign**2)
    np.testing.assert_allclose(scale * errors.mean, first.mean(axis=0) - second.mean(axis=0), rtol=1e-9)
    expected = np.cov(first.T) / len(first) + np.cov(second.T) / len(second)
    np.testing.assert_allclose(scale**2 * errors.covariance, expected, rtol=0.05, atol=2e-6)


def test_two_samples_of_one_distribution_share_their_covariance() -> None:
    found, first, second = two_samples((0.2, 0.2))
    assert found.sign is not None
    errors = MeanErrors.from_signs(found, one_distribution=True)
    apart = first.mean(axis=0) - second.mean(axis=0)
    within = (np.cov(first.T) * (len(first) - 1) + np.cov(second.T) * (len(second) - 1)) / (found.n - 2)
    hotelling = apart @ np.linalg.solve(within * (1 / len(first) + 1 / len(second)), apart)
    assert errors.statistic == pytest.approx(hotelling, rel=2e-3)
    # The average of the signed products is not used: the variance of its noise is ten times as large.
    assert errors.spread_std == (1 - found.sign**2) * found.products_std


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
