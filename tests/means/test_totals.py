"""What rows add to their groups: exact sums, and weights that cost what the sums alone do."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.lattice import BoxLattice
from dpstats.lattice.base import FREE_SQUARES
from dpstats.means.ratio import (
    CENTER,
    COUNT_WEIGHT,
    COUNTS,
    FIRST,
    LAST,
    MIDDLE,
    SQUARE_WEIGHT,
    SQUARES,
    SUMS,
    GaussianTotals,
    LaplaceTotals,
    group_sums,
)


def largest_squares(a: float, w: float, c: float, points: int = 801) -> tuple[float, float]:
    """Return the largest squared movement of a column within a group and between two, over a grid of pairs."""
    z = np.linspace(-1.0, 1.0, points)
    within = np.subtract.outer(z, z) ** 2 + w**2 * np.subtract.outer(z**2, z**2) ** 2
    alone = a**2 + z**2 + w**2 * (z**2 - c) ** 2
    return float(within.max()), float(2 * alone.max())


def test_the_weights_are_free() -> None:
    a, w, c = COUNT_WEIGHT, SQUARE_WEIGHT, CENTER
    assert a**2 + w**2 * (1 - c) ** 2 <= 1 and a**2 + w**2 * c**2 <= 2 and w <= FREE_SQUARES
    within, between = largest_squares(a, w, c)
    assert within == pytest.approx(4.0, abs=1e-12) and 3.99 < between <= 4.0


@pytest.mark.parametrize(("a", "w", "c"), [(1.05, 1.35, 0.77), (0.95, 1.8, 0.77), (0.95, 1.35, 0.5)])
def test_heavier_weights_are_not(a: float, w: float, c: float) -> None:
    assert max(largest_squares(a, w, c)) > 4.005


@pytest.mark.parametrize("bits", [8, 12, 30])
@pytest.mark.parametrize("d", [1, 3])
def test_what_is_stated_is_what_the_sums_move(bits: int, d: int) -> None:
    item = GaussianTotals(7, d, bits).integers()
    sums_alone = 2 * 2.0**bits * np.sqrt(d)
    assert sums_alone <= item.l2 <= sums_alone * (1 + 4.0 ** (2 - bits) + 1e-11)
    # Whatever the number of groups is.
    assert item.l2 == GaussianTotals(1000, d, bits).integers().l2


@pytest.mark.parametrize("bits", [3, 5])
def test_all_pairs_of_a_small_lattice(bits: int) -> None:
    # Exactly, rounding included: what is stated holds for every pair of entries, in one group and in two.
    totals, K = GaussianTotals(2, 1, bits), 1 << bits
    steps = np.arange(-K, K + 1)[:, None]
    found = totals.rows(steps)
    units = {block.name: block.unit_steps for block in totals.integers().blocks}
    parts = {name: values[:, 0] / units[name] for name, values in found.items()}
    within = sum(np.subtract.outer(part, part) ** 2 for part in parts.values())
    alone = sum(part**2 for part in parts.values())
    moved = max(within.max(), 2 * alone.max())
    assert moved <= totals.integers().l2 ** 2 <= 1.6 * moved


@pytest.mark.parametrize("bits", [3, 5, 8])
def test_three_shares_are_one_row(bits: int) -> None:
    totals, K = LaplaceTotals(2, 1, bits), 1 << bits
    steps = np.arange(-K, K + 1)[:, None]
    first, middle, last = (totals.rows(steps)[name] for name in (FIRST, MIDDLE, LAST))
    assert np.all(first + middle + last == K) and min(first.min(), middle.min(), last.min()) >= 0
    parts = [part[:, 0] for part in (first, middle, last)]
    moved = sum(np.abs(np.subtract.outer(part, part)) for part in parts).max()
    assert moved == totals.integers().l1 == 2 * K


def test_shares_tell_count_sum_and_square() -> None:
    totals = LaplaceTotals(1, 1, 30)
    steps = np.array([[-(1 << 30)], [-(1 << 28)], [0], [123456789], [1 << 30]])
    first, middle, last = (totals.rows(steps)[name][:, 0] / 2.0**30 for name in (FIRST, MIDDLE, LAST))
    z = steps[:, 0] / 2.0**30
    assert np.allclose(last - first, z, atol=2.0**-28) and np.allclose(first - middle + last, z**2, atol=2.0**-27)


@pytest.mark.parametrize("n", [1, 5, 4096, 9000])
def test_sums_are_exact_in_any_order(n: int) -> None:
    rng = np.random.default_rng(n)
    X, codes = rng.normal(size=(n, 2)), rng.integers(-1, 3, n)
    lattice = BoxLattice.build(1.0, 0.0, 2, common=False)
    totals = GaussianTotals(3, 2, 30)
    found = group_sums(X, codes, lattice, totals)
    steps = lattice.round_rows(X)
    for k in range(3):
        own = steps[codes == k].astype(object)
        assert found[COUNTS][k] == len(own) << 30
        assert found[SUMS][2 * k : 2 * k + 2].tolist() == own.sum(axis=0).tolist() if len(own) else True
        squares = [(v * v >> 30) - totals.center for v in own.ravel()]
        assert found[SQUARES][2 * k : 2 * k + 2].sum() == sum(squares)
    order = rng.permutation(n)
    again = group_sums(X[order], codes[order], lattice, totals)
    assert all(np.array_equal(found[name], again[name]) for name in found)


@pytest.mark.parametrize("kind", [GaussianTotals, LaplaceTotals])
def test_rows_of_no_group_add_nothing(kind: type) -> None:
    lattice = BoxLattice.build(1.0, 0.0, 1, common=False)
    found = group_sums(np.ones((4, 1)), np.full(4, -1), lattice, kind(2, 1, 30))
    assert not any(values.any() for values in found.values())
