"""Spearman's rank correlation: parts of rows, sensitivities, agreement with scipy, and coverage."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import spearmanr

from dpstats.covariance import PrivateCorrelation
from dpstats.covariance.private_correlation import concordance_sums, grade_products, grades, signed_sums

NAMES = ("products of grades", "squared parts of rows")


def signs(x: np.ndarray) -> np.ndarray:
    return np.sign(x[:, None] - x)


def product_sum(X: np.ndarray) -> int:
    return int(np.prod([signs(column).sum(axis=1) for column in X.T], axis=0).sum())


def both_sums(X: np.ndarray) -> tuple[int, int]:
    found = concordance_sums(X, "spearman")
    return int(found[NAMES[0]][0]), int(found[NAMES[1]][0])


@pytest.mark.parametrize("values", [1, 2, 4, 100])
@pytest.mark.parametrize("n", [2, 3, 6, 9])
def test_parts_are_differences_of_sums(n: int, values: int) -> None:
    rng = np.random.default_rng(n)
    X = rng.integers(0, values, size=(n, 2)).astype(float)
    parts = [(product_sum(X) - product_sum(np.delete(X, k, axis=0))) // n for k in range(n)]
    assert both_sums(X) == (product_sum(X), sum(part**2 for part in parts))
    ranks = np.unique(X[:, 0], return_inverse=True)[1]
    assert grades(ranks).tolist() == signs(X[:, 0]).sum(axis=1).tolist()
    above = (signs(X[:, 0]).T * np.arange(n)[None, :]).sum(axis=1)
    assert signed_sums(np.arange(n), ranks).tolist() == above.tolist()


def test_the_summand_of_a_third_row_is_at_most_two() -> None:
    # All orders of three rows, with ties, in two columns.
    orders = {(np.sign(k - i), np.sign(j - i), np.sign(j - k)) for i, k, j in itertools.product(range(3), repeat=3)}
    assert len(orders) == 13
    for (s_, s, u), (t_, t, v) in itertools.product(orders, repeat=2):
        assert abs(u * t + v * s - u * t_ - v * s_ + s_ * t + t_ * s) <= 2


@pytest.mark.parametrize("n", [3, 4, 6])
def test_sensitivities_hold_and_the_first_is_attained(n: int) -> None:
    rng = np.random.default_rng(n)
    X = np.repeat(np.arange(n, dtype=float)[:, None], 2, axis=1)
    Y = X.copy()
    Y[0] = n, -1.0
    assert abs(both_sums(X)[0] - both_sums(Y)[0]) == 2 * n * (n - 1)
    for trial in range(3000):
        X = rng.integers(0, n + 1, size=(n, 2)).astype(float)
        if trial % 2:
            X[1:] = np.column_stack([rng.permutation(n - 1), rng.permutation(n - 1)]) + 1.0
        Y = X.copy()
        Y[0] = rng.integers(-1, 2 * n + 2, size=2) / 2
        (first, squares), (other, other_squares) = both_sums(X), both_sums(Y)
        assert abs(first - other) <= 2 * n * (n - 1) and abs(squares - other_squares) <= 9 * (n - 1) ** 2


def test_it_agrees_with_scipy_without_noise() -> None:
    X = np.random.default_rng(0).multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], size=2000)
    X = np.column_stack([X, np.exp(X[:, 0]) + X[:, 1] ** 3])
    fit = PrivateCorrelation(method="spearman", epsilon=1e6, delta=0.1, random_state=0).fit(X)
    np.testing.assert_allclose(fit.correlation_, spearmanr(X)[0], atol=1e-4)
    assert "Spearman's rho of the population" in str(fit.summary())


def test_grade_products_of_large_data_stay_exact() -> None:
    n = 200_000
    ranks = np.arange(n)
    total, parts = grade_products(ranks, ranks, np.full(n, n - 1))
    assert total == n * (n**2 - 1) // 3 and parts.max() <= n - 1


@pytest.mark.parametrize(("n", "epsilon"), [(60, 1.0), (300, 0.5), (2000, 1.0)])
@pytest.mark.parametrize("kind", ["independent", "strong", "skewed", "opposite halves"])
def test_intervals_cover(kind: str, n: int, epsilon: float) -> None:
    slope = {"independent": 0.0, "strong": 0.98, "skewed": 0.5, "opposite halves": 0.0}[kind]
    true, covered = 6 / np.pi * np.arcsin(slope / 2), 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        x, e = rng.normal(size=(2, n))
        y = slope * x + np.sqrt(1 - slope**2) * e if kind != "opposite halves" else x * np.sign(e)
        X = np.exp(3 * np.column_stack([x, y])) if kind == "skewed" else np.column_stack([x, y])
        fit = PrivateCorrelation(method="spearman", epsilon=epsilon, random_state=seed).fit(X)
        low, high = fit.confidence_interval()
        covered += bool(low[0] <= true <= high[0])
    assert covered >= 90
