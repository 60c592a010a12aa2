"""Central moments of released ones: those of the rows themselves where there is no noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpstats.covariance import PrivateCovariance
from dpstats.covariance.moments import STAGE, CentralMoments
from dpstats.data.rows import Table

Z = np.random.default_rng(0).beta(2.0, 5.0, (4000, 3)) * 1.4 - 0.6
Z[:, 1] = 0.5 * Z[:, 1] + 0.5 * Z[:, 0]


def moments(**stds: float) -> CentralMoments:
    n = len(Z)
    none = dict.fromkeys(["mean_std", "products_std", "squares_std", "thirds_std", "fourths_std"], 0.0)
    squares, cubes = Z**2, Z**3
    return CentralMoments(
        n, Z.mean(0), Z.T @ Z / n, squares.T @ squares / n, squares.T @ Z / n, cubes.T @ Z / n, **{**none, **stds}
    )


def test_moments_about_the_means_are_those_of_the_rows() -> None:
    u, found = Z - Z.mean(axis=0), moments()
    assert np.allclose(found.covariance, np.cov(Z.T), rtol=1e-10)
    assert np.allclose(found.squared_products, (u**2).T @ u**2 / len(u), rtol=1e-9)
    assert np.allclose(found.cubed_products, (u**3).T @ u / len(u), rtol=1e-8, atol=1e-12)


def test_sampling_errors_are_the_spread_of_what_rows_add() -> None:
    u, found, n = Z - Z.mean(axis=0), moments(), len(Z)
    products = u[:, 0] * u[:, 2]
    assert found.sampling_variance[0, 2] == pytest.approx(products.var() / n, rel=3e-3)
    v = u / u.std(axis=0)
    r = found.correlation[0, 1]
    influence = v[:, 0] * v[:, 1] - r * (v[:, 0] ** 2 + v[:, 1] ** 2) / 2
    assert found.correlation_variance[0, 1] == pytest.approx(influence.var() / n, rel=0.01)


def test_noise_variances_are_those_of_simulated_noise() -> None:
    stds = {"mean_std": 0.01, "products_std": 0.004, "squares_std": 0.004, "thirds_std": 0.02, "fourths_std": 0.02}
    given, rng = moments(**stds), np.random.default_rng(1)
    covariances, fourths = [], []
    for _ in range(2000):

        def symmetric(std: float) -> np.ndarray:
            noise = np.triu(rng.normal(0, std, (3, 3)), 1)
            return noise + noise.T + np.diag(rng.normal(0, np.sqrt(2) * std, 3))

        noisy = CentralMoments(
            given.n,
            given.mean + rng.normal(0, 0.01, 3),
            given.products + symmetric(0.004),
            given.squares + symmetric(0.004),
            given.thirds + rng.normal(0, 0.02, (3, 3)),
            given.fourths + rng.normal(0, 0.02, (3, 3)),
            **stds,
        )
        covariances.append(noisy.covariance)
        fourths.append(noisy.squared_products)
    # Spreads of 2,000 draws have errors of 1.6%: six of them, a false alarm below 1e-7.
    assert np.allclose(np.var(covariances, axis=0), given.noise_variance, rtol=0.2)
    assert np.allclose(np.std(fourths, axis=0), given.fourth_order_error, rtol=0.15)


def test_columns_whose_variance_is_noise_are_not_identified() -> None:
    found = moments(products_std=1.0)
    assert not found.identified.any()
    assert (found.correlation == 0).all() and np.isinf(found.correlation_variance).all()


def test_rare_events_that_never_meet_are_not_certain() -> None:
    # Two independent columns of 2,000 rows, each 1 in 40 of them: less than one row is expected to have both.
    n, k = 2000, 40
    rows = np.zeros((n, 2))
    rows[:k, 0] = rows[k : 2 * k, 1] = 1
    none = dict.fromkeys(["mean_std", "products_std", "squares_std", "thirds_std", "fourths_std"], 0.0)
    moments = [(rows**a).T @ rows**b / n for a, b in ((1, 1), (2, 2), (2, 1), (3, 1))]
    found = CentralMoments(n, rows.mean(axis=0), *moments, **none)
    p = k / n
    assert found.unseen_products[0, 1] == pytest.approx(1 / n, rel=0.15) and found.unseen_products[0, 0] == 0
    # No row has both, and one is counted: a variance of 1 in the number of rows with both.
    assert found.correlation_variance[0, 1] == pytest.approx(1 / (n * p) ** 2, rel=0.1)
    assert found.sampling_variance[0, 1] == pytest.approx(1 / n**2, rel=0.1)


@pytest.mark.parametrize("place", [-0.99, -0.5, 0.0, 0.3, 0.9])
@pytest.mark.parametrize("size", [0.1, 0.02, 0.005, 0.0005])
def test_rounded_moments_are_as_near_as_they_say(size: float, place: float) -> None:
    X = place + size * np.random.default_rng(5).poisson([0.6, 3.0], (500, 2)).clip(0, 10) / 10 * (1 - 2 * (place > 0))
    estimator = PrivateCovariance(bounds=(-1.0, 1.0), delta=0.0)
    plan = estimator.plan(*X.shape)
    steps = estimator._read(Table(X), plan)[STAGE]
    released = {block.name: np.asarray(steps[block.name]) * block.spacing for block in plan.stages[0].blocks}
    stds = dict.fromkeys(["mean_std", "products_std", "squares_std", "thirds_std", "fourths_std"], 0.0)
    found = replace(CentralMoments.from_release(released, plan), **stds)
    assert (np.abs(found.covariance - np.cov(X.T)) <= found.covariance_rounding + 1e-15).all()
    z = np.rint(X * 2.0**plan.bits) / 2.0**plan.bits
    u = z - z.mean(axis=0)
    apart = np.abs(found.squared_products - (u**2).T @ u**2 / len(u))
    assert (apart <= found.fourth_order_error + 1e-15).all()
    assert (np.abs(found.cubed_products - (u**3).T @ u / len(u)) <= found.cubed_error + 1e-15).all()


@pytest.mark.parametrize(("n", "wider", "longer"), [(500, 1, 1.05), (5000, 1, 1.05), (5000, 5, 1.2), (5000, 20, 5)])
def test_where_noise_is_nothing_errors_are_those_of_the_rows(n: int, wider: float, longer: float) -> None:
    # Few values, far from the center of their bounds: rounding once left them a sampling error of 0.
    X = np.random.default_rng(n).poisson([0.6, 3.0], (n, 2))
    made = PrivateCovariance(bounds=(10 - 10 * wider, 10 + 10 * wider), epsilon=1e9, random_state=0).fit(X)
    u, i, j = X - X.mean(axis=0), *np.triu_indices(2)
    v, r = u / u.std(axis=0), np.corrcoef(X.T)[0, 1]
    parts = np.column_stack([u[:, i] * u[:, j], v[:, 0] * v[:, 1] - r * (v**2).sum(axis=1) / 2])
    found = [made.confidence_interval(), made.correlation().confidence_interval()]
    widths = np.concatenate([each.high - each.low for each in found])
    ratios = widths / (2 * 1.96 * parts.std(axis=0) / np.sqrt(n))
    assert (ratios > 0.97).all() and (ratios < longer).all()
