"""Ellipsoids that rounds find around most rows."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.means.ellipsoids import BallProducts, Ellipsoid


def exact(rows: np.ndarray, noise: float = 1e-9) -> BallProducts:
    n = len(rows)
    return BallProducts(n, rows.mean(axis=0), rows.T @ rows / n, noise, noise)


@pytest.mark.parametrize("fixed", [False, True])
def test_rounds_whiten_rows_of_a_bad_condition(fixed: bool) -> None:
    rng = np.random.default_rng(0)
    mixing = np.array([[0.2, 0.0], [0.199, 0.002]])
    Z = rng.normal(size=(4000, 2)) @ mixing.T + (0.0 if fixed else 0.3)
    found = Ellipsoid.first(2)
    for _ in range(4):
        radius = np.sqrt(found.squared_radius())
        rows = found.white_rows(Z, radius)
        rows /= np.maximum(np.linalg.norm(rows, axis=1), 1.0)[:, None]
        found = found.follow(exact(rows), radius, fixed)
    white = found.white_rows(Z, np.asarray(1.0))
    values = np.linalg.eigvalsh(np.cov(white.T))
    assert values[0] > 0.8 and values[1] < 2.5
    np.testing.assert_allclose(found.whitening @ found.unwhitening, np.eye(2), atol=1e-8)
    assert fixed == (not found.center.any())


def test_directions_of_noise_keep_the_size_of_the_noise() -> None:
    rows = np.zeros((50, 2))
    rows[:, 0] = np.linspace(-1, 1, 50)
    found = Ellipsoid.first(2)
    radius = np.sqrt(found.squared_radius())
    after = found.follow(exact(rows / radius, noise=0.01), radius, True)
    size = 2 * 0.01 * float(radius) ** 2  # the root of 2 d is 2
    assert np.abs(after.unwhitening).max(axis=0).min() == pytest.approx(np.sqrt(size), rel=1e-6)
    assert float(after.signal) < 1.0


def test_a_batch_is_what_each_of_it_is() -> None:
    rng = np.random.default_rng(1)
    mean, root = rng.normal(size=(5, 3)) / 9, rng.normal(size=(5, 3, 3)) / 3
    products = root @ np.swapaxes(root, -1, -2)
    first = Ellipsoid.first(3)
    radius = np.sqrt(first.squared_radius())
    together = first.follow(BallProducts(40, mean, products, 0.1, 0.1), radius, False)
    Z = rng.normal(size=(7, 3))
    for k in range(5):
        alone = first.follow(BallProducts(40, mean[k], products[k], 0.1, 0.1), radius, False)
        np.testing.assert_allclose(together.center[k], alone.center)
        rows = together.white_rows(Z, np.full(5, 2.0))[k]
        np.testing.assert_allclose(np.abs(rows), np.abs(alone.white_rows(Z, np.asarray(2.0))), atol=1e-9)
