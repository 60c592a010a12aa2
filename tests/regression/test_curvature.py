"""Public algebra of a noisy Newton step."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.regression.path import Curvature, pooled, positive, symmetric


def test_averages_go_by_precision() -> None:
    a = Curvature.noisy(np.eye(2), 1.0)
    b = Curvature.noisy(3 * np.eye(2), 0.5)
    both = pooled([a, b], [0.0, 0.0])
    assert both.mean[0, 0] == pytest.approx((1 + 3 * 4) / 5)
    assert both.variance[0, 0] == pytest.approx(1 / 5)
    assert both.variance[0, 1] == pytest.approx(1 / 10)  # half the variance beside the diagonal
    # What is doubtful counts less, and the noise is that of the average.
    doubted = pooled([a, b], [0.0, 10.0])
    assert doubted.mean[0, 0] == pytest.approx(1, abs=0.03)
    assert doubted.variance[0, 0] == pytest.approx(1, abs=0.03)


def test_what_may_be_noise_is_taken_nearer_to_what_is_likely() -> None:
    rng = np.random.default_rng(0)

    def noisy(matrix: np.ndarray, sd: float) -> Curvature:
        p = len(matrix)
        N = np.triu(rng.normal(size=(p, p)) * sd / np.sqrt(2), 1)
        return Curvature.noisy(matrix + N + N.T + np.diag(rng.normal(size=p) * sd), sd)

    turned = np.linalg.qr(rng.normal(size=(30, 30)))[0]
    for matrix in (
        np.eye(30),
        np.diag(np.linspace(0.1, 2, 30)),
        turned @ np.diag(np.linspace(0.5, 1.5, 30)) @ turned.T,
    ):
        seen = noisy(matrix, 0.1)
        nearer = seen.toward(np.eye(30))
        assert np.linalg.norm(nearer.mean - matrix) < np.linalg.norm(seen.mean - matrix)
        # The variance left is not below that of the errors there are.
        assert 0.05 < ((nearer.mean - matrix) ** 2).mean() / nearer.variance.mean() < 1.5
    # Far from what was thought nothing is taken nearer.
    far = noisy(turned @ np.diag(np.linspace(1, 40, 30)) @ turned.T, 0.01)
    assert np.allclose(far.toward(np.eye(30)).mean, far.mean, atol=1e-3)


def test_a_move_and_its_gradient_tell_of_the_curvature() -> None:
    rng = np.random.default_rng(1)
    H, thought = np.diag([1.0, 0.2, 1.0]), Curvature.noisy(np.eye(3), 0.3)
    moved = np.array([0.1, 1.0, 0.0])
    told = thought.along(moved, H @ moved, 1e-6)
    assert np.allclose(told.mean @ moved, H @ moved, atol=1e-6)
    assert np.allclose(told.mean, told.mean.T)
    # Noise that is larger than what could be learnt teaches nothing.
    assert np.allclose(thought.along(moved, H @ moved + rng.normal(size=3), 100.0).mean, np.eye(3), atol=1e-3)


def test_a_move_shows_a_mistaken_curvature_in_its_direction_alone() -> None:
    H, thought = np.diag([1.0, 0.2, 1.0]), Curvature.noisy(np.eye(3), 1e-3)
    moved = np.array([0.0, 0.5, 0.0])
    mistake = thought.mistake(moved, H @ moved, 1e-6)
    assert np.allclose(mistake, np.diag([0.0, -0.8, 0.0]), atol=1e-4)
    # Noise explains it, or the curvature was right.
    assert not thought.mistake(moved, H @ moved, 10.0).any()
    assert not thought.mistake(moved, thought.mean @ moved, 1e-6).any()
    inverse = thought.inverted(0.1)
    plain, _ = inverse.error_after(np.eye(3), 0.0)
    doubted, _ = inverse.error_after(np.eye(3), 0.0, 1.0, mistake)
    assert np.allclose(np.diagonal(doubted - plain), [0, 0.64, 0], atol=0.01)


def test_the_average_of_two_curvatures_has_half_their_variance() -> None:
    both = Curvature.noisy(np.eye(2), 1.0).averaged(Curvature.noisy(3 * np.eye(2), 1.0))
    assert np.allclose(both.mean, 2 * np.eye(2))
    assert np.allclose(both.variance, Curvature.noisy(np.eye(2), 1.0).variance / 2)


def test_a_known_curvature_gives_newtons_step() -> None:
    H = np.array([[2.0, 0.5], [0.5, 1.0]])
    inverse = Curvature(H, np.full((2, 2), 1e-18)).inverted(1e-6)
    g = np.array([1.0, -2.0])
    assert np.allclose(inverse(g), np.linalg.solve(H, g), rtol=1e-6)
    assert np.allclose(inverse.matrix, np.linalg.inv(H), rtol=1e-6)
    assert np.abs(inverse.remainder).max() < 1e-6
    left, noise = inverse.error_after(np.eye(2), 0.1)
    assert np.abs(left).max() < 1e-12
    assert np.allclose(noise, 0.01 * np.linalg.inv(H) @ np.linalg.inv(H), rtol=1e-6)


def test_what_noise_hides_is_left() -> None:
    H = np.diag([1.0, 0.0])
    inverse = Curvature(H, np.full((2, 2), 0.04)).inverted(0.1)
    before = np.diag([1.0, 5.0])
    left, _ = inverse.error_after(before, 0.1)
    # A direction without curvature keeps all that was unknown of it.
    assert left[1, 1] >= 5.0 * 0.999
    assert left[0, 0] < 0.5


def test_errors_after_a_noisy_step_are_as_large_as_stated() -> None:
    # Newton's step with a curvature that is noise off, from errors of known covariance: measured against stated.
    rng = np.random.default_rng(0)
    H, sd, noise = np.diag([1.0, 0.7, 0.4]), 0.08, 0.05
    stated, found = np.zeros(3), []
    for _ in range(4000):
        N = rng.normal(size=(3, 3)) * sd / np.sqrt(2)
        N = np.triu(N, 1) + np.triu(N, 1).T + np.diag(rng.normal(size=3) * sd)
        inverse = Curvature.noisy(H + N, sd).inverted(0.02)
        error = rng.normal(size=3) * 0.5
        found.append(error - inverse(H @ error + noise * rng.normal(size=3)))
        left, own = inverse.error_after(0.25 * np.eye(3), noise)
        stated += np.diagonal(left + own) / 4000
    actual = np.mean(np.square(found), axis=0)
    assert (actual < 1.3 * stated).all()
    assert (actual > 0.3 * stated).all()


def test_matrices_are_put_together_and_made_positive() -> None:
    matrix = symmetric(np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0]))
    assert matrix.tolist() == [[1, 4, 5], [4, 2, 6], [5, 6, 3]]
    assert symmetric(np.array([7.0]), np.zeros(0)).tolist() == [[7]]
    assert np.linalg.eigvalsh(positive(matrix)).min() >= -1e-12
    assert np.allclose(positive(np.eye(2)), np.eye(2))


def test_what_remains_is_what_a_step_leaves_of_an_error() -> None:
    # A step that divides by raised eigenvalues leaves 1 - known/raised of an error: H e is its gradient.
    H = np.array([[2.0, 0.5], [0.5, 0.1]])
    inverse = Curvature(H, np.full((2, 2), 0.04)).inverted(0.1)
    known = (inverse.vectors * inverse.known) @ inverse.vectors.T
    assert np.any(inverse.raised > 1.1 * inverse.known)
    for error in np.eye(2):
        np.testing.assert_allclose(inverse.remainder @ error, error - inverse(known @ error), atol=1e-12)
