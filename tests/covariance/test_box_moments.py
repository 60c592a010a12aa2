"""How far a row moves the moments of pairs in a box, and their exact sums."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpstats.covariance import PrivateCovariance
from dpstats.covariance.moments import (
    DIAGONAL,
    HIGHER_WEIGHT,
    LAPLACE_COLUMN,
    LAPLACE_NOISE,
    MEAN_WEIGHT,
    STAGE,
    coarse_bits,
    fine_bits,
    laplace_movement,
    movement,
)
from dpstats.data.rows import Table
from dpstats.lattice.products import ROWS


def distance(
    x: np.ndarray, y: np.ndarray, *, squares: float = 1.0, means: float | None = None, higher: float = HIGHER_WEIGHT
) -> float:
    """Return how far two rows of the box are apart, straight from the definition, with fourths of all pairs."""
    means = MEAN_WEIGHT * len(x) if means is None else means

    def of(z: np.ndarray) -> np.ndarray:
        p = np.outer(z, z)
        return np.concatenate(
            [
                math.sqrt(2 * means) * z,
                p.ravel(),
                squares * (p**2).ravel(),
                math.sqrt(higher) * np.outer(z**2, z).ravel(),
                math.sqrt(higher) * np.outer(z**3, z).ravel(),
            ]
        )

    return float(np.linalg.norm(of(x) - of(y)))


def bound(d: int, means: float, higher: float) -> float:
    return math.sqrt(2) * (means + d + higher * d)


@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_no_rows_of_a_box_are_further_apart_than_the_theorem_says(d: int) -> None:
    rng = np.random.default_rng(d)
    rows = rng.uniform(-1, 1, (4000, 2, d))
    rows[::2] = np.where(rng.random((2000, 2, d)) < 0.7, np.sign(rows[::2]), rows[::2])
    for means, higher in itertools.product((0.1, 0.5, 1.0, 3.0), (0.0, 0.1, 0.7)):
        largest = max(distance(x, y, means=means, higher=higher) for x, y in rows[:: 1 + d])
        assert largest <= bound(d, means, higher) * (1 + 1e-12)
        assert largest >= 0.8 * bound(d, means, higher) or means > d / 2 or higher > 0.1


def laplace_distance(x: np.ndarray, y: np.ndarray) -> float:
    """Return how far two rows are apart in l1, in the units of Laplace noise, straight from the definition."""
    d, root = len(x), math.sqrt(2)
    above, off = np.triu_indices(d, 1), ~np.eye(d, dtype=bool)

    def of(z: np.ndarray) -> np.ndarray:
        p = np.outer(z, z)
        parts = [
            (z, "sums", 1.0),
            (z**2, "products", root),
            (p[above], "products", 1.0),
            (z**4, "squares of products", root),
            (p[above] ** 2, "squares of products", 1.0),
            (np.outer(z**2, z).ravel(), "thirds", 1.0),
            (np.outer(z**3, z)[off], "fourths", 1.0),
        ]
        return np.concatenate([values / (LAPLACE_NOISE[name] * factor) for values, name, factor in parts])

    return float(np.abs(of(x) - of(y)).sum())


@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_no_rows_are_further_apart_in_l1(d: int) -> None:
    rng = np.random.default_rng(d)
    rows = rng.uniform(-1, 1, (6000, 2, d))
    rows[::2] = np.where(rng.random((3000, 2, d)) < 0.7, np.sign(rows[::2]), rows[::2])
    largest, most = max(laplace_distance(x, y) for x, y in rows), laplace_movement(d, 10)
    assert 0.5 * most < largest <= most
    (stage,) = PrivateCovariance(bounds=(-1.0, 1.0), delta=0.0).plan(1000, d).stages
    for block in stage.blocks:
        name = block.name.split(",")[0]
        factor = math.sqrt(2) if block.name.endswith(f", {DIAGONAL}") else 1.0
        assert np.max(stage.noise_std(block)) == pytest.approx(
            LAPLACE_NOISE[name] * factor * most * math.sqrt(2) / 1000, rel=1e-9
        )


def test_what_a_column_moves_by_itself() -> None:
    u = np.linspace(0, 1, 1001)
    found = [laplace_distance(np.ones(1), np.array([-each])) for each in u]
    # The slope is at most 4 in absolute value.
    assert max(found) + 4 / 2000 <= LAPLACE_COLUMN and np.argmax(found) == 357


def test_the_bound_is_attained_and_squares_of_products_are_free() -> None:
    # The inner product of these rows is -1 = -w^2.
    x, y = np.array([1.0, 1.0, 1.0]), np.array([1.0, -1.0, -1.0])
    assert distance(x, y, means=1.0, higher=0.0) == pytest.approx(bound(3, 1.0, 0.0), rel=1e-12)
    assert distance(x, y, means=1.0, higher=0.0, squares=0.0) == pytest.approx(bound(3, 1.0, 0.0), rel=1e-12)


def test_the_bound_is_nearly_attained_with_thirds_and_fourths() -> None:
    # The inner product is -1 = -(w^2 + T d/2), with T = 0.2 and d = 3. Only fourths leave the bound some room.
    x, y = np.array([1.0, 1.0, 1.0]), np.array([1.0, -1.0, -1.0])
    assert distance(x, y, means=0.7, higher=0.1) > 0.98 * bound(3, 0.7, 0.1)


def test_squares_at_a_larger_weight_are_not_free() -> None:
    assert distance(np.ones(1), np.zeros(1), squares=1.1, means=0.0, higher=0.0) > bound(1, 0.0, 0.0)


@pytest.mark.parametrize("coarse", [4, 7, 10])
@pytest.mark.parametrize("d", [1, 3, 8])
def test_the_stated_movement_is_that_of_the_theorem_and_of_rounding(d: int, coarse: int) -> None:
    least = bound(d, MEAN_WEIGHT * d, HIGHER_WEIGHT)
    assert least < movement(d, coarse) < least * (1 + 4 * 4.0**-coarse)


@pytest.mark.parametrize("n", [2, 1000, 2**20, 2**26, 2**31])
def test_sums_stay_below_the_largest_integer(n: int) -> None:
    squares, fine = 4 ** coarse_bits(n), 2 ** fine_bits(n)
    assert n * squares**2 < 2**63 and n * squares * fine < 2**63 and n * fine**2 < 2**63
    # Products of a block of rows are exact as floats.
    assert ROWS * squares**2 <= 2**53 and ROWS * squares * fine <= 2**53 and ROWS * fine**2 <= 2**53
    assert coarse_bits(n) <= fine_bits(n)


def test_sums_are_those_of_rational_numbers() -> None:
    X = np.random.default_rng(0).normal(0.4, 2.0, (9001, 3))
    plan = PrivateCovariance(bounds=(-3, 5)).plan(*X.shape)
    found = PrivateCovariance(bounds=(-3, 5))._read(Table(X), plan)[STAGE]
    fine = np.rint(np.clip((X - 1) / 4, -1, 1) * 2**plan.bits).astype(object)
    squares = np.array([[round(Fraction(int(k) ** 2, 4 ** (plan.bits - plan.coarse))) for k in row] for row in fine])
    squares = squares.astype(object)
    cubes = [round(Fraction(int(q * k), 2**plan.bits)) for q, k in zip(squares[:, 1], fine[:, 1], strict=True)]
    assert found["sums"].tolist() == [int(k) for k in fine.sum(axis=0)]
    assert found["products, diagonal"].tolist() == [int(k) for k in (fine**2).sum(axis=0)]
    assert found["products, above the diagonal"][1] == int((fine[:, 0] * fine[:, 2]).sum())
    assert found["squares of products, above the diagonal"][2] == int((squares[:, 1] * squares[:, 2]).sum())
    assert found["thirds"].reshape(3, 3)[0, 2] == int((squares[:, 0] * fine[:, 2]).sum())
    # Ordered pairs of two columns: (0, 1), (0, 2), (1, 0), ...
    assert found["fourths"][2] == int((np.array(cubes, dtype=object) * fine[:, 0]).sum())
