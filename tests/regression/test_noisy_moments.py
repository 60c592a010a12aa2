"""The public algebra of a noisy matrix of second moments."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.regression.linear_path import KNOWN, MatrixNoise, coefficients, divisor

GAUSSIAN, LAPLACE = MatrixNoise(0.02 * np.sqrt(2), 0.02), MatrixNoise(0.04, 0.02)
noises = pytest.mark.parametrize("noise", [GAUSSIAN, LAPLACE], ids=["isotropic", "twice on the diagonal"])


def drawn(p: int, noise: MatrixNoise, count: int, rng: np.random.Generator) -> np.ndarray:
    N = np.zeros((count, p, p))
    above = np.triu_indices(p, 1)
    N[:, above[0], above[1]] = noise.above * rng.standard_normal((count, above[0].size))
    N += np.swapaxes(N, 1, 2)
    N[:, range(p), range(p)] = noise.diagonal * rng.standard_normal((count, p))
    return N


def matrix(p: int, seed: int = 0, least: float = 0.5) -> np.ndarray:
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((p, p)))[0]
    return (Q * np.linspace(least, 2.0, p)) @ Q.T


@noises
def test_moments_of_the_noise_are_its_own(noise: MatrixNoise) -> None:
    p, count = 4, 200_000
    rng = np.random.default_rng(1)
    N = drawn(p, noise, count, rng)
    T = matrix(p, 2)
    mean, spread = (N @ T @ N).mean(axis=0), (N @ T @ N).std(axis=0) / np.sqrt(count)
    # Six standard errors of 16 numbers.
    assert (np.abs(mean - noise.through(T)) < 6 * spread).all()
    left, right = rng.standard_normal((2, 3, p))
    exact = noise.along(left, right)
    for row in range(3):
        found = np.var(np.einsum("i,kij,j->k", left[row], N, right[row]))
        assert found == pytest.approx(exact[row], rel=6 * np.sqrt(2 / count))
    # x'Nx, where the rest of the row adds what is beside the diagonal.
    assert noise.along(np.eye(p)[:1], np.eye(p)[:1])[0] == pytest.approx(noise.diagonal**2)
    assert noise.along(np.eye(p)[:1], np.eye(p)[1:2])[0] == pytest.approx(noise.above**2)
    assert noise.size(p) ** 2 == pytest.approx(np.trace(noise.through(np.eye(p))) / p)


@noises
def test_the_divisor_is_the_solution_of_its_equation_and_positive(noise: MatrixNoise) -> None:
    for A in (matrix(5), np.zeros((5, 5)), -matrix(5), np.diag([2.0, 1.0, 1e-3, 0.0, -0.5])):
        H = divisor(A, noise)
        values, vectors = np.linalg.eigh(A)
        known = (vectors * np.maximum(values, 0)) @ vectors.T
        assert np.allclose(H, known + noise.through(np.linalg.inv(H)), rtol=1e-8)
        assert np.linalg.eigvalsh(H).min() > 0
    # In one dimension, Newton's quadratic.
    h = divisor(np.array([[0.3]]), noise)[0, 0]
    assert h == pytest.approx((0.3 + np.sqrt(0.09 + 4 * noise.diagonal**2)) / 2)
    # Next to nothing where the noise is small.
    assert np.abs(divisor(matrix(5), noise) - matrix(5)).max() < 10 * noise.above**2 * 5


@noises
def test_its_inverse_has_no_bias_of_second_order(noise: MatrixNoise) -> None:
    p, count = 5, 2000
    A = matrix(p, 3, least=0.6)
    N = drawn(p, noise, count, np.random.default_rng(4))
    plain = np.linalg.inv(A + N)
    own = np.array([np.linalg.inv(divisor(A + one, noise)) for one in N])
    exact = np.linalg.inv(A)
    # The part that is linear in the noise has mean zero: taken off, it takes its variance along.
    linear = exact @ N @ exact
    bias = (plain + linear).mean(axis=0) - exact
    assert np.trace(bias) > 0
    assert abs(np.trace((own + linear).mean(axis=0) - exact)) < 0.1 * np.trace(bias)


def moments(A: np.ndarray, theta: np.ndarray, residual: float) -> np.ndarray:
    """Return second moments of regressors and an outcome without noise."""
    b = A @ theta
    return np.block([[A, b[:, None]], [b[None, :], np.array([[theta @ b + residual]])]])


def test_without_noise_it_is_least_squares() -> None:
    rng = np.random.default_rng(5)
    n, constant = 2000, 0.7
    X = np.column_stack([np.full(n, constant), rng.normal(size=(n, 2))])
    y = X @ [0.3, 0.5, -0.2] + rng.normal(size=n)
    Z = np.column_stack([X, y])
    nothing = MatrixNoise(1e-9, 1e-9)
    found = coefficients(Z.T @ Z / n, nothing, n, constant, True, np.eye(3))
    theta = np.linalg.lstsq(X, y, rcond=None)[0]
    square = np.mean((y - X @ theta) ** 2)
    assert np.allclose(found.estimate, theta, atol=1e-6)
    assert np.allclose(found.cov, square * np.linalg.inv(X.T @ X), rtol=1e-5)
    assert found.scale == pytest.approx(np.sqrt(square))
    assert found.known.all()
    assert np.diagonal(found.privacy).max() < 1e-12
    # Without the constant, and in other units.
    units = np.array([[2.0, 0.0], [1.0, -1.0]])
    alone = coefficients(Z.T @ Z / n, nothing, n, constant, False, units)
    assert np.allclose(alone.estimate, units @ np.linalg.lstsq(X[:, 1:], y, rcond=None)[0], atol=1e-6)
    assert alone.cov.shape == (2, 2)


@noises
def test_errors_are_those_that_are_stated(noise: MatrixNoise) -> None:
    # The noise alone: many draws of it, about second moments that are known.
    p, n, count = 4, 10**9, 600
    A = matrix(p, 6, least=0.6)
    A[0, 0] = 1.0
    theta, M = np.array([0.4, -0.8, 0.2, 0.5]), moments(A, np.array([0.4, -0.8, 0.2, 0.5]), 0.5)
    found = [
        coefficients(M + one, noise, n, 1.0, True, np.eye(p))
        for one in drawn(p + 1, noise, count, np.random.default_rng(7))
    ]
    z = np.array([(one.estimate - theta) / np.sqrt(np.diagonal(one.cov)) for one in found])
    # Five standard errors of a share.
    assert np.mean(np.abs(z) < 1.96) > 0.95 - 5 * np.sqrt(0.95 * 0.05 / count / p)
    assert np.mean(np.abs(z) < 1.96) < 0.98
    assert np.abs(z.mean(axis=0)).max() < 0.2
    assert all(one.known.all() for one in found)


def test_what_noise_hides_is_not_identified() -> None:
    noise, p = GAUSSIAN, 3
    edge = 2 * noise.size(p)
    M = moments(np.diag([1.0, 1.0, 0.0]), np.array([0.5, 0.5, 0.0]), 0.5)
    hits, known = 0, []
    for one in drawn(p + 1, noise, 300, np.random.default_rng(8)):
        found = coefficients(M + one, noise, 10_000, 1.0, True, np.eye(p))
        known.append(found.known)
        hits += abs(found.estimate[2]) < 2 * np.sqrt(found.cov[2, 2])
    assert np.mean([one[2] for one in known]) < 0.02
    assert np.mean([one[:2] for one in known]) > 0.95
    assert hits >= 297
    assert noise.hides(p, edge / 2)
    assert not noise.hides(p, 3 * edge)
    # Where that ends: a ridge of a tenth.
    s = noise.size(p)
    just = KNOWN * s / np.sqrt(1 - KNOWN)
    assert noise.hides(p, 0.999 * just) and not noise.hides(p, 1.001 * just)


def test_one_column_covers_however_large_its_slope_is() -> None:
    # What takes the noise at the worse end of an interval: an estimate that is too small would understate it.
    noise, theta = MatrixNoise(0.1, 0.1 / np.sqrt(2)), np.array([3.0])
    for size in (0.2, 0.5):
        M = np.zeros((3, 3))
        M[1:, 1:] = moments(np.array([[size]]), theta, 0.5)
        M[0, 0] = 1.0
        z, first = [], []
        for one in drawn(3, noise, 1000, np.random.default_rng(9)):
            found = coefficients(M + one, noise, 10**9, 1.0, False, np.eye(1))
            z.append(abs(found.estimate[0] - 3) / np.sqrt(found.cov[0, 0]))
            h = divisor((M + one)[1:2, 1:2], noise)[0, 0]
            first.append(abs(found.estimate[0] - 3) * h / np.hypot(noise.above, noise.diagonal * found.estimate[0]))
        assert np.mean(np.array(z) < 1.96) > 0.93
        if size == 0.2:
            # Errors of first order alone.
            assert np.mean(np.array(first) < 1.96) < 0.9


@noises
def test_the_variance_of_residuals_counts_what_the_fit_took_from_it(noise: MatrixNoise) -> None:
    # Coefficients fit the noise, which lowers the residual moment by 3% here: without the correction 0.976 is left.
    p, rng, residual = 8, np.random.default_rng(9), 0.2
    exact = moments(matrix(p, 3), np.linspace(-0.5, 0.5, p), residual)
    found = [
        coefficients(exact + N, noise, 4000, 1.0, True, np.eye(p)).scale ** 2 for N in drawn(p + 1, noise, 400, rng)
    ]
    share = exact[0, 0]
    assert 0.99 < np.mean(found) * share / residual < 1.03
