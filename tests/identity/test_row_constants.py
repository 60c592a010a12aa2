"""Public constants of the row distance: laws against enumeration, and what they are for."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.identity import RowDistanceTest
from dpstats.identity.row_distance_statistic import (
    Centering,
    approximate_null_f0,
    normal_clipped_square,
    round_to_steps,
    row_centering,
    row_statistic_f0,
    row_sums,
)
from dpstats.identity.whitening import signs_of


def test_normal_square() -> None:
    products = np.random.default_rng(0).normal(size=10**6) * 8 * np.sqrt(20)
    for rho in (5, 36, 200):
        assert normal_clipped_square(20, rho, 8.0) == pytest.approx(np.mean(np.minimum(products**2, rho**2)), rel=0.01)
    assert approximate_null_f0(10, 0, 0.0) == 0


@pytest.mark.parametrize(
    ("options", "n", "d"),
    [
        ({}, 300, 20),
        ({"rows": "sign"}, 300, 20),
        ({"null": "product"}, 300, 20),
        ({"null": "product", "mean": 0.5}, 300, 20),
        ({"clip": 1.0}, 300, 20),
        ({"null": "product", "mean": 0.5}, 600, 50),
        ({"null": "product", "mean": 0.9}, 200, 3),
        ({"null": "product", "mean": np.linspace(-0.6, 0.6, 20)}, 300, 20),
    ],
)
def test_tau0_is_about_the_null_median(options: dict, n: int, d: int) -> None:
    plan = RowDistanceTest(**options).plan(n, d)
    design, rng = plan.design, np.random.default_rng(0)
    found = []
    for _ in range(100):
        Z = plan.reference.sample(n, rng)
        steps = signs_of(Z) if design.signs else round_to_steps(Z, None, design.steps_per_unit, design.largest)
        centering = None
        if design.window is not None:
            pair = plan.reference.sign_steps(design.steps_per_unit, design.largest)
            center = row_centering(*pair, plan.reference.up(), design.rho)
            centering = Centering(center.terms(steps), center.mean, *design.window)
        sums = row_sums(steps, design.rho, centering=centering, bound=design.largest)
        found.append(row_statistic_f0(sums, design.a0))
    assert abs(np.median(found) - design.tau0) < 0.5 * np.std(found)


def test_power_where_columns_are_skewed() -> None:
    # Clipped about 0, products of skewed columns had a mean that left a power of .64 here, and of .25 in the second.
    test = RowDistanceTest(null="product", mean=0.5, n_calibration=199)
    assert test.power(0.36, 300, 20, n_simulations=200) > 0.95
    assert test.power(0.30, 600, 50, n_simulations=200) > 0.95


@pytest.mark.parametrize(
    ("n", "d", "mean", "distance"), [(500, 1, 0.5, 0.2), (300, 20, 0.9, 0.45), (300, 4, -0.8, 0.3)]
)
def test_power_towards_the_middle_and_away(n: int, d: int, mean: float, distance: float) -> None:
    # Products that were not centered by rows had a power below the level towards the middle.
    test = RowDistanceTest(null="product", mean=mean, n_calibration=199)
    for sign in (-1.0, 1.0):
        assert test.power(distance, n, d, direction=np.full(d, sign), n_simulations=200) > 0.75
        assert test.power(distance / 4, n, d, direction=np.full(d, sign), n_simulations=400) > 0.03
