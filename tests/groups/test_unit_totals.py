"""What units add: exact sums of the rows that are kept, and weights that cost nothing."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.groups.mean_per_row import (
    BETWEEN,
    COUNT_WEIGHT,
    HIGH,
    HIGH_SQUARED,
    LOW,
    LOW_SQUARED,
    PRODUCT_WEIGHT,
    PRODUCTS,
    ROWS,
    ROWS_SQUARED,
    SPREAD_WEIGHT,
    SQUARE_WEIGHT,
    SQUARES,
    SUMS,
    LaplaceUnitTotals,
    MeanPerRow,
    UnitTotals,
    unit_sums,
)
from dpstats.lattice import BoxLattice
from dpstats.privacy.guarantee import Neighbors


def largest_square(a: float, w: float, v: float, b: float, points: int = 41) -> float:
    """Return the largest squared movement of a column over a grid of pairs of units (s, c), |s| <= c <= 1."""
    c = np.linspace(0, 1, points)
    s, c = (part.ravel() for part in np.meshgrid(np.linspace(-1, 1, 2 * points - 1), c))
    s, c = s[np.abs(s) <= c], c[np.abs(s) <= c]
    parts = [(1.0, s), (a, c), (w, s * s), (v, c * c), (b, s * c)]
    return float(sum(weight**2 * np.subtract.outer(part, part) ** 2 for weight, part in parts).max())


def test_the_weights_are_free_and_products_cost_what_they_are_said_to() -> None:
    squares = SQUARE_WEIGHT**2 + SPREAD_WEIGHT**2
    assert COUNT_WEIGHT**2 + squares <= 3 and squares <= 2
    assert largest_square(COUNT_WEIGHT, SQUARE_WEIGHT, SPREAD_WEIGHT, 0.0) == pytest.approx(4.0, abs=1e-12)
    assert largest_square(1.0, np.sqrt(2), 0.0, 0.0) == pytest.approx(4.0, abs=1e-12)
    assert largest_square(1.0, 0.0, np.sqrt(2), 0.0) == pytest.approx(4.0, abs=1e-12)
    assert largest_square(np.sqrt(3), 0.0, 0.0, 0.0) == pytest.approx(4.0, abs=1e-12)
    for b in (PRODUCT_WEIGHT, 1.0, 3.0):
        assert largest_square(COUNT_WEIGHT, SQUARE_WEIGHT, SPREAD_WEIGHT, b) == pytest.approx(4 * (1 + b**2))


@pytest.mark.parametrize(("a", "w", "v"), [(1.8, 0.0, 0.0), (1.0, 1.7, 0.0), (1.0, 1.3, 1.3), (1.6, 0.7, 0.5)])
def test_heavier_weights_are_not(a: float, w: float, v: float) -> None:
    assert largest_square(a, w, v, 0.0) > 4.01


def made(rows: list[list[float]], max_rows: int = 3) -> dict[str, np.ndarray]:
    """Return the totals of units given as lists of entries of one column."""
    codes = np.repeat(np.arange(len(rows)), [len(own) for own in rows])
    X = np.concatenate([np.array(own, dtype=float) for own in rows])[:, None]
    bits = 20
    lattice = BoxLattice.build(1.0, 0.0, 1, common=False, bits=bits)
    kept = np.ones(len(X), dtype=bool)
    return unit_sums(X, codes, len(rows), kept, lattice, UnitTotals(1, max_rows, bits))


def test_totals_of_units() -> None:
    found = {name: values[0] / (3 * 2.0**20) for name, values in made([[1.0, 0.5], [-1.0], [7.0, 7.0, 7.0]]).items()}
    s, c = np.array([0.5, -1 / 3, 1.0]), np.array([2 / 3, 1 / 3, 1.0])
    expected = {
        SUMS: s.sum(),
        ROWS: c.sum(),
        SQUARES: (s**2).sum(),
        ROWS_SQUARED: (c**2).sum(),
        PRODUCTS: (s * c).sum(),
    }
    assert found == pytest.approx(expected, abs=1e-5)


def test_rows_beyond_the_cap_do_not_count_and_order_is_nothing() -> None:
    rng = np.random.default_rng(0)
    own = rng.uniform(-1, 1, 9).tolist()
    assert made([[0.1, 0.2, 0.3, 0.4]])[ROWS][0] == 3 << 20
    first = made([own, [0.3]])
    assert first[ROWS][0] == (3 + 1) << 20
    for _ in range(5):
        rng.shuffle(own)
        again = made([own, [0.3]])
        assert all(np.array_equal(first[name], again[name]) for name in first)
    # Which rows count of one unit does not depend on the rows of another.
    for other in ([0.3, 0.9], [1.0] * 8):
        beside = made([own, other])
        alone, rest = made([own, []]), made([[], other])
        assert all(np.array_equal(beside[name], alone[name] + rest[name]) for name in beside)


def test_rounding_stays_inside_what_is_stated() -> None:
    rng = np.random.default_rng(1)
    totals = UnitTotals(1, 3, 4)
    item = totals.integers()
    counts = rng.integers(0, 4, 20_000)
    sums = np.clip(rng.integers(-48, 49, 20_000), -16 * counts, 16 * counts)
    rows = totals.contribute(sums[:, None], counts)
    units = {block.name: block.unit_steps for block in item.blocks}
    first, second = np.arange(10_000), np.arange(10_000, 20_000)
    moved = sum(((rows[name][first] - rows[name][second])[:, 0] / units[name]) ** 2 for name in rows)
    assert moved.max() <= item.l2**2


def test_parts_of_units_add_up_to_their_rows_and_any_two_units_are_within_the_stated_distance() -> None:
    totals = LaplaceUnitTotals(1, 3, 2)
    every = [(s, c) for c in range(4) for s in range(-4 * c, 4 * c + 1)]
    sums, counts = (np.array(part) for part in zip(*every, strict=True))
    found = totals.contribute(sums[:, None], counts)
    parts = np.hstack([found[name] for name in (LOW, HIGH, LOW_SQUARED, BETWEEN, HIGH_SQUARED)])
    assert (parts >= 0).all()
    np.testing.assert_array_equal(parts.sum(axis=1), 8 * counts)  # half steps, also where squares are rounded
    apart = np.abs(parts[:, None] - parts).sum(axis=2)
    assert apart.max() == totals.integers().l1 == 2 * totals.largest
    added = LaplaceUnitTotals(1, 3, 2, Neighbors.ADD_OR_REMOVE_ONE)
    assert parts.sum(axis=1).max() == added.integers().l1
    # The totals that a ratio needs, up to a step of rounding.
    ratio = totals.ratio({name: values.astype(float) / 24 for name, values in found.items()}, None)  # type: ignore[arg-type]
    s, c = sums / 12, counts / 3
    for got, true in ((ratio.T, s), (ratio.N, c), (ratio.Q, s * s), (ratio.X, s * c), (ratio.R, c * c)):
        np.testing.assert_allclose(got[:, 0], true, atol=4 / 24)
    np.testing.assert_allclose(ratio.T[:, 0], s, atol=1e-12)


@pytest.mark.parametrize("most", [1, 3, 8])
def test_a_unit_with_many_rows_counts_at_its_mean(most: int) -> None:
    # Rows chosen by their values alone would be the same in every unit: nearly all 0, or nearly all 1.
    rng = np.random.default_rng(most)
    rows = 1 + rng.poisson(5, 2000)
    person = np.repeat(np.arange(2000), rows)
    x = (rng.random(person.size) < 0.4 * rng.random(2000)[person]).astype(float)
    counted = np.minimum(rows, most)
    truth = (counted * np.bincount(person, x) / rows).sum() / counted.sum()
    made = MeanPerRow(bounds=(-1, 2), max_rows=most, epsilon=1e5, random_state=0).fit(x[:, None], person)
    assert made.mean_[0] == pytest.approx(truth, abs=1e-3)
