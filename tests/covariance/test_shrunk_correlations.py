"""Pearson's correlations of shrunk rows: the movement of norms, noise, coverage of both estimands, and parameters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dpstats.covariance import PrivateCorrelation, PrivateCovariance
from dpstats.covariance.private_correlation import _MEANS, _best_ball, _normal_moments
from dpstats.means.ellipsoids import Extension

NORMS = Extension(3, 1 / 3, 0.0, 18, norms=True)
COUNTED = Extension(2, 1 / 3, 0.0, 18, count=0.2, norms=True)


def blocks(extension: Extension, row: np.ndarray) -> np.ndarray:
    """Return the numbers that a row adds to all blocks, in units of the stated movement."""
    found = extension.sums("s", row[None])
    units = {block.name: block.unit_steps for block in extension.integers("s", 2, 1.0).blocks}
    return np.concatenate([values / units[name] for name, values in found.items()])


@pytest.mark.parametrize("extension", [NORMS, COUNTED], ids=["norms", "norms and a count"])
def test_fourth_powers_of_norms_cost_nothing(extension: Extension) -> None:
    d, rng, largest = extension.n_features, np.random.default_rng(0), 0.0
    for k in range(6000):
        turn = rng.normal(size=(2, d))
        turn /= np.linalg.norm(turn, axis=1)[:, None]
        if k % 2:
            turn[1] = -turn[0]
        first, second = turn * np.where(k % 3, rng.uniform(0, 1, size=(2, 1)), 1e6)
        largest = max(largest, float(np.linalg.norm(blocks(extension, first) - blocks(extension, second))))
    # Two rows far out, with v orthogonal to each other, move the products alone.
    assert 0.97 * math.sqrt(2) < largest <= extension.movement
    assert Extension(d, 1 / 3, 0.0, 18).movement * (1 + 1e-4) > NORMS.movement


def test_a_larger_weight_would_cost() -> None:
    # At three times the weight, a row at the edge and one inside are further apart than the products' movement.
    row = np.array([1.0, 0.0, 0.0])
    moved = blocks(NORMS, row) - blocks(NORMS, 0.0 * row)
    moved[-1] *= 3
    assert np.linalg.norm(moved) > 1.5 * NORMS.movement


def test_the_radius_minimizes_the_error_of_normal_rows() -> None:
    n, d, noise = 5000, 6, 0.0005
    best = _best_ball(n, d, noise)[1]
    first, second = _normal_moments(best, d)
    u = np.random.default_rng(1).normal(size=(400_000, d))
    square = (u**2).sum(axis=1)
    shrunk = np.minimum(square, best)
    assert shrunk.mean() == pytest.approx(first, rel=0.01)
    assert (shrunk**2).mean() == pytest.approx(second, rel=0.01)
    # More noise, a smaller ball.
    assert _best_ball(n, d, 100 * noise)[1] < best < _best_ball(n, d, noise / 100)[1]


@pytest.mark.parametrize(("n", "d"), [(20_000, 10), (2000, 5), (300, 3)])
def test_the_constant_has_the_least_noise(n: int, d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(5).normal(size=(n, d))
    above = np.triu_indices(d, 1)

    def noise() -> float:
        made = PrivateCorrelation(method="pearson", bounds=(-4, 4), epsilon=2.0, random_state=6).fit(X)
        return float(np.median(made._found.noise[above]))

    planned = noise()
    for constant in _MEANS:
        monkeypatch.setattr("dpstats.covariance.private_correlation._MEANS", (constant,))
        assert planned < 1.1 * noise()


def test_at_no_noise_it_is_the_correlation_of_normal_rows() -> None:
    rng = np.random.default_rng(2)
    X = rng.multivariate_normal([3.0, -2.0, 0.0], [[1, 0.8, 0.1], [0.8, 1, 0.3], [0.1, 0.3, 4]], size=200_000)
    made = PrivateCorrelation(method="pearson", bounds=(-30, 30), epsilon=1e5, random_state=0).fit(X)
    found = made.estimates(estimand="population")
    exact = np.corrcoef(X.T)[np.triu_indices(3, 1)]
    assert found.estimate == pytest.approx(exact, abs=3e-3)
    assert found.error == pytest.approx((1 - exact**2) / math.sqrt(len(X)), rel=0.05)


def test_the_stated_noise_is_that_of_releases() -> None:
    X = np.random.default_rng(3).multivariate_normal([0, 0], [[1, 0.7], [0.7, 1]], size=3000)
    made = [
        PrivateCorrelation(method="pearson", bounds=(-5, 5), epsilon=0.5, random_state=seed).fit(X)
        for seed in range(150)
    ]
    # The ellipsoid differs from release to release, and so do correlations of shrunk rows, but not correlations of the
    # population. The standard deviation of 150 errors is within 23% of its mean with a probability of 1 - 1e-4.
    found = [one._found.correct_for_shrinking() for one in made]
    spread = np.std([one.correlation[0, 1] for one in found])
    assert spread == pytest.approx(np.mean([one.noise[0, 1] for one in found]), rel=0.25)
    outside = [one.clipped_rows_ for one in made]
    assert np.std(outside) < 250 and 100 < np.mean(outside) < 1500


def normal(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.multivariate_normal(np.zeros(3), 0.7 ** np.abs(np.subtract.outer(range(3), range(3))), size=n)


def heavy(rng: np.random.Generator, n: int) -> np.ndarray:
    return normal(rng, n) / np.sqrt(rng.chisquare(3, size=(n, 1)) / 3)


@pytest.mark.parametrize(
    ("draw", "n", "bounds", "epsilon"),
    [
        (normal, 3000, (-5, 5), 1.0),
        (normal, 3000, (-50, 50), 1.0),
        (normal, 1500, (-5, 5), 0.5),
        (normal, 300, (-5, 5), 0.1),
        (heavy, 3000, (-20, 20), 1.0),
    ],
    ids=["normal", "wide bounds", "more noise", "noise alone", "heavy tails"],
)
def test_intervals_cover_the_correlations_of_elliptical_rows(
    draw: Any, n: int, bounds: tuple[float, float], epsilon: float
) -> None:
    # 120 fits of three pairs: with pairs of one fit fully dependent, 12 misses of a pair have probability 1e-2.
    rng = np.random.default_rng(4)
    truth = np.array([0.7, 0.49, 0.7])
    covered = []
    for _ in range(120):
        made = PrivateCorrelation(method="pearson", bounds=bounds, epsilon=epsilon, random_state=rng)
        low, high = made.fit(draw(rng, n)).confidence_interval(estimand="population")
        covered.append((low <= truth) & (truth <= high))
    assert np.mean(covered) > 0.92 and np.mean(covered, axis=0).min() > 0.88


def yes_no(rng: np.random.Generator, n: int) -> np.ndarray:
    return (normal(rng, n) > [-0.5, 0.0, 1.0]).astype(float)


def skewed(rng: np.random.Generator, n: int) -> np.ndarray:
    X = rng.exponential(size=(n, 3))
    return X + 0.7 * np.roll(X, 1, axis=1)


@pytest.mark.parametrize(("draw", "bounds"), [(yes_no, (0, 1)), (skewed, (-10, 20)), (heavy, (-20, 20))])
def test_intervals_cover_the_correlations_of_shrunk_rows(draw: Any, bounds: tuple[float, float]) -> None:
    rng = np.random.default_rng(5)
    many = draw(rng, 400_000)
    i, j = np.triu_indices(3, 1)
    covered = []
    for _ in range(80):
        made = PrivateCorrelation(method="pearson", bounds=bounds, random_state=rng).fit(draw(rng, 3000))
        found = made._found
        white = found.ellipsoid.white_rows((many - found.frame.center) / found.frame.half, found.radius)
        white /= np.maximum(np.linalg.norm(white, axis=1), 1.0)[:, None]
        truth = np.corrcoef(found.units @ white.T)[i, j]
        low, high = made.confidence_interval(estimand="clipped")
        covered.append((low <= truth) & (truth <= high))
    assert np.mean(covered) > 0.9


def test_default_intervals_and_the_point_are_of_the_population() -> None:
    # Shrinking makes rows rounder: at this size intervals of shrunk rows hold the correlation in half of the fits.
    held = {"default": 0, "clipped": 0}
    for seed in range(80):
        X = np.random.default_rng(seed).multivariate_normal([0, 0], [[1, 0.95], [0.95, 1]], size=500)
        made = PrivateCorrelation(method="pearson", bounds=(-5, 5), random_state=seed).fit(X)
        assert made.correlation_[0, 1] == made.estimate_[0]
        for name, options in (("default", {}), ("clipped", {"estimand": "clipped"})):
            low, high = made.confidence_interval(**options)
            held[name] += int(low[0] <= 0.95 <= high[0])
    # At 0.945 fewer than 68 of 80 have a probability of 3e-4.
    assert held["default"] >= 68 and held["clipped"] < 60


def test_noise_alone_identifies_nothing_and_says_so() -> None:
    X = np.random.default_rng(6).normal(size=(200, 6))
    made = PrivateCorrelation(method="pearson", bounds=(-50, 50), epsilon=0.1, random_state=0).fit(X)
    assert not made.identified_.any() and np.isinf(made.noise_std_[0, 1])
    low, high = made.confidence_interval()
    assert np.all(low == -1) and np.all(high == 1)
    assert np.array_equal(made.correlation_, np.where(np.eye(6), 1.0, np.nan), equal_nan=True)
    assert np.isnan(made.estimate_).all() and np.isnan(made.to_frame()["estimate"]).all()
    assert "Not identified: x0, x1" in str(made.summary())


def test_it_has_less_noise_than_bounds_that_are_wide() -> None:
    X = normal(np.random.default_rng(7), 5000)
    wide = {"bounds": (-40, 40), "random_state": 0}
    shrunk = PrivateCorrelation(method="pearson", **wide).fit(X).estimates().error
    bounded = PrivateCovariance(**wide).fit(X).correlation().error
    assert np.all(np.isnan(bounded) | (shrunk < bounded / 3))
