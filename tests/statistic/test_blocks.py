"""Blocks: public sizes, rows of a unit together, dropped rows, and frames of floats."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dpstats.data import Table
from dpstats.statistic.isolation import JACKKNIFE, block_rows, slots

X = np.arange(24.0).reshape(12, 2)


def test_sizes_are_public_and_differ_by_one() -> None:
    sizes = [slot.stop - slot.start for slot in slots(103, 7)]
    assert sum(sizes) == 103 and max(sizes) - min(sizes) == 1


def test_every_row_is_in_one_block_in_the_given_order() -> None:
    order = np.random.default_rng(0).permutation(12)
    blocks = list(block_rows(Table(X), order, 5, False))
    assert np.array_equal(np.concatenate([block.X for block in blocks]), X[order])


def test_all_rows_of_a_unit_are_in_its_block_and_its_fold() -> None:
    units = np.array([0, 1, 2, 0, 3, 4, 1, 5, 2, 0, 4, 5])
    order = np.array([5, 0, 3, 2, 1, 4])
    blocks = list(block_rows(Table(X, units=units), order, 2, False))
    of_first = [np.flatnonzero(units == unit) for unit in (5, 0, 3)]
    assert np.array_equal(blocks[0].X, X[np.concatenate(of_first)])
    assert blocks[0].folds.tolist() == [0, 0, 1, 1, 1, 3]


def blocks_by_definition(
    table: Table, order: np.ndarray, k: int, complete: np.ndarray
) -> list[tuple[list[int], list[int]]]:
    """Return the rows and the folds of every block, one unit after another."""
    units = np.arange(len(table.X)) if table.units is None else table.units
    found = []
    for slot in slots(order.size, k):
        own = [[row for row in range(len(units)) if units[row] == unit and complete[row]] for unit in order[slot]]
        own = [rows for rows in own if rows]
        folds = [i * 5 // len(own) for i, rows in enumerate(own) for _ in rows]
        found.append(([row for rows in own for row in rows], folds))
    return found


def test_blocks_are_those_of_their_definition() -> None:
    rng = np.random.default_rng(0)
    for _ in range(150):
        n, k = int(rng.integers(1, 40)), int(rng.integers(1, 12))
        X, y = np.arange(2.0 * n).reshape(n, 2), np.arange(1.0 * n)
        X[rng.random(n) < rng.choice([0.0, 0.3, 0.9]), 1] = np.nan
        y[rng.random(n) < 0.1] = np.nan
        units = np.unique(rng.integers(0, n, size=n), return_inverse=True)[1] if rng.random() < 0.5 else None
        order = rng.permutation(n if units is None else units.max() + 1)
        drop = bool(rng.random() < 0.5)
        complete = np.isfinite(X[:, 1]) & np.isfinite(y) if drop else np.ones(n, dtype=bool)
        table = Table(X, y=y, units=units)
        expected = blocks_by_definition(table, order, k, complete)
        for block, (rows, folds) in zip(block_rows(table, order, k, drop), expected, strict=True):
            assert block.folds.tolist() == folds
            np.testing.assert_array_equal(block.X, X[rows])
            np.testing.assert_array_equal(block.y, y[rows])


def test_rows_with_a_missing_entry_leave_their_block_alone() -> None:
    missing = X.copy()
    missing[3, 1] = np.nan
    y = np.arange(12.0)
    y[8] = np.nan
    blocks = list(block_rows(Table(missing, y=y), np.arange(12), 3, True))
    assert [len(block.X) for block in blocks] == [3, 4, 3]
    assert all(len(block.X) == len(block.y) == len(block.folds) for block in blocks if block.y is not None)


def test_folds_are_of_the_complete_rows() -> None:
    missing = np.arange(40.0)[:, None]
    missing[5:35] = np.nan
    (block,) = block_rows(Table(missing), np.arange(40), 1, True)
    assert block.folds.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    units = np.repeat(np.arange(8), 5)
    (block,) = block_rows(Table(missing, units=units), np.arange(8), 1, True)
    assert block.X.ravel().tolist() == [0, 1, 2, 3, 4, 35, 36, 37, 38, 39]
    assert block.folds.tolist() == [0] * 5 + [2] * 5
    (block,) = block_rows(Table(missing[10:20]), np.arange(10), 1, True)
    assert block.X.shape == (0, 1) and block.folds.size == 0


def test_a_block_with_names_is_a_frame_of_floats() -> None:
    (block,) = block_rows(Table(X > 3, names=["a", "b"]), np.arange(12), 1, False)
    ((_, (frame,)),) = block.subsets(None)
    assert isinstance(frame, pd.DataFrame)
    assert frame.dtypes.tolist() == [np.float64, np.float64] and list(frame.columns) == ["a", "b"]


@pytest.mark.parametrize(("correction", "calls"), [(None, 1), ("jackknife", 6), ("jackknife2", 16)])
def test_weights_of_a_correction_add_up_to_one(correction: str | None, calls: int) -> None:
    (block,) = block_rows(Table(X), np.arange(12), 1, False)
    weights = [weight for weight, _ in block.subsets(correction)]
    assert len(weights) == calls and sum(weights) == pytest.approx(1)
    assert sum(weight for _, weight in JACKKNIFE[correction]) == pytest.approx(1)
