"""Public constants of the row distance: laws against enumeration, and what they are for."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dpstats.identity import RowDistanceTest
from dpstats.identity.row_constants import (
    approximate_null_f0,
    balanced_center,
    normal_clipped_square,
    sign_inner_products,
)
from dpstats.identity.row_distance_test import _steps
from dpstats.identity.rows import row_statistic_f0, row_sums


def enumerated(high: np.ndarray, low: np.ndarray, up: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return every value of <x, y> with its probability."""
    values, probabilities = [], []
    for x, y in itertools.product(itertools.product((0, 1), repeat=len(up)), repeat=2):
        rows = [np.where(row, high, low) for row in (x, y)]
        chances = [np.where(row, up, 1 - up) for row in (x, y)]
        values.append(int(rows[0] @ rows[1]))
        probabilities.append(float(np.prod(chances)))
    return np.array(values), np.array(probabilities)


@pytest.mark.parametrize(
    "up", [[0.5], [0.9], [0.9, 0.9, 0.9, 0.9], [0.05, 0.3, 0.5, 0.995], [0.75, 0.75, 0.2, 0.6]]
)
def test_law_of_inner_products(up: list[float]) -> None:
    p = np.array(up)
    high, low = (np.rint(1024 * z).astype(np.int64) for z in (np.sqrt((1 - p) / p), -np.sqrt(p / (1 - p))))
    exact, weights = enumerated(high, low, p)
    values, probabilities = sign_inner_products(high, low, p)
    assert probabilities.sum() == pytest.approx(1, abs=1e-12) and probabilities.min() > -1e-12
    step, scale = values[1] - values[0], 1024.0**2 * np.sqrt(len(up))
    assert probabilities @ values == pytest.approx(weights @ exact, abs=1e-9 * scale)
    for clip in (0.3, 1.0, 4.0):
        for center in (-0.4, 0.0, 0.2):
            expected = weights @ np.clip(exact - center * scale, -clip * scale, clip * scale)
            found = probabilities @ np.clip(values - center * scale, -clip * scale, clip * scale)
            # Splitting errs near the two kinks only, by at most a quarter of a step times their mass.
            assert abs(found - expected) <= step / 4
    rho = round(scale)
    center, square = balanced_center(values, probabilities, rho)
    assert abs(weights @ np.clip(exact - center, -rho, rho)) <= step
    assert square == pytest.approx(weights @ np.clip(exact - center, -rho, rho) ** 2, rel=1e-3)


def test_normal_square() -> None:
    products = np.random.default_rng(0).normal(size=10**6) * 8 * np.sqrt(20)
    for rho in (5, 36, 200):
        assert normal_clipped_square(20, rho, 8.0) == pytest.approx(
            np.mean(np.minimum(products**2, rho**2)), rel=0.01
        )
    assert approximate_null_f0(10, 0, 0.0) == 0


@pytest.mark.parametrize(
    ("options", "n", "d"),
    [
        ({}, 300, 20),
        ({"rows": "sign"}, 300, 20),
        ({"null": "product"}, 300, 20),
        ({"null": "product", "mean": 0.5}, 300, 20),
        ({"null": "product", "mean": 0.5}, 600, 50),
        ({"null": "product", "mean": np.linspace(-0.6, 0.6, 20)}, 300, 20),
    ],
)
def test_tau0_is_about_the_null_median(options: dict, n: int, d: int) -> None:
    plan = RowDistanceTest(**options).plan(n, d)
    design, rng = plan.design, np.random.default_rng(0)
    found = []
    for _ in range(100):
        steps = _steps(plan.reference.sample(n, rng), design)
        sums = row_sums(steps, design.rho, center=design.center, bound=design.largest)
        found.append(row_statistic_f0(sums, design.a0))
    assert abs(np.median(found) - design.tau0) < 0.5 * np.std(found)


def test_power_where_columns_are_skewed() -> None:
    # Clipped about 0, products of skewed columns had a mean that left a power of .64 here, and of .25 in the second.
    test = RowDistanceTest(null="product", mean=0.5, n_calibration=199)
    assert test.power(0.36, 300, 20, n_simulations=200) > 0.95
    assert test.power(0.30, 600, 50, n_simulations=200) > 0.95
