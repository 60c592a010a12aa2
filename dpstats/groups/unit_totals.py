"""Integer totals over units with several rows, and their joint sensitivity to replacing a unit.

Proof: docs/proofs/mean-per-row.md.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.lattice import BoxLattice
from dpstats.means.ratio import Noise, Ratio
from dpstats.privacy.guarantee import Neighbors
from dpstats.privacy.stages import Block, JointStage
from dpstats.release.additive import JointIntegers

Steps = NDArray[np.int64]

TOTALS = "totals of the units"
ROWS, SUMS, SQUARES, ROWS_SQUARED, PRODUCTS = (
    "rows",
    "sums",
    "squared sums",
    "squared rows",
    "rows times sums",
)

COUNT_WEIGHT, SQUARE_WEIGHT, SPREAD_WEIGHT = 1.5, 0.7, 0.5
"""Free: a^2 + w^2 + v^2 <= 3 and w^2 + v^2 <= 2."""
PRODUCT_WEIGHT = 0.25
"""Costs 3% more noise on all."""
ADDED_COUNT_WEIGHT = 1.0
"""Weight of the number of rows, if a unit is added or removed: it then costs as much as the sums."""

_SAFE = 1 + 1e-12


# A unit is the number c of its rows, at most m, and the sum s of their z in [-1, 1]^d: |s| <= c in every column. In
# parts of m, the sums of c, s^2 and c^2 add no noise to the sum of s, and the sum of s c adds a little.
@dataclass(frozen=True)
class UnitTotals:
    """Totals of units of at most ``max_rows`` rows; d columns of 2^bits steps each."""

    n_features: int
    max_rows: int
    bits: int
    neighbors: Neighbors = Neighbors.REPLACE_ONE

    @property
    def largest(self) -> int:
        """The most steps of a unit's sum."""
        return self.max_rows << self.bits

    def integers(self) -> JointIntegers:
        """Return the integers of a stage that releases these totals, in parts of ``max_rows`` rows."""
        M, d = float(self.largest), self.n_features
        step, root = 1 / M, math.sqrt(d)
        added = self.neighbors is Neighbors.ADD_OR_REMOVE_ONE
        count = ADDED_COUNT_WEIGHT if added else COUNT_WEIGHT
        blocks = (
            Block(ROWS, 1, step, 1 / (count * root)),
            Block(SUMS, d, step, 1.0),
            Block(SQUARES, d, step, 1 / SQUARE_WEIGHT),
            Block(ROWS_SQUARED, 1, step, 1 / (SPREAD_WEIGHT * root)),
            Block(PRODUCTS, d, step, 1 / PRODUCT_WEIGHT),
        )
        if added:
            # All parts of a unit are at most M, also after rounding. All reach M if all rows are at one bound.
            weights = (count, 1.0, SQUARE_WEIGHT, SPREAD_WEIGHT, PRODUCT_WEIGHT)
            moved = math.fsum(weight**2 for weight in weights) * M**2
            return JointIntegers(TOTALS, blocks, math.inf, math.sqrt(d * moved) * _SAFE)
        # Squares and products are rounded down: the difference of two has an error below one step.
        theta = 4 / M
        exact = 4 * (1 + PRODUCT_WEIGHT**2) * M**2
        rounding = SQUARE_WEIGHT**2 + SPREAD_WEIGHT**2 + PRODUCT_WEIGHT**2
        moved = (1 + theta) * exact + (1 + 1 / theta) * rounding
        return JointIntegers(TOTALS, blocks, math.inf, math.sqrt(d * moved) * _SAFE)

    def of_units(self, sums: Steps, counts: Steps) -> dict[str, Steps]:
        """Return the contribution of each unit, given the sums in steps, of shape (units, d), and the row counts."""
        M, rows = self.largest, counts[:, None] << self.bits
        return {
            ROWS: rows,
            SUMS: sums,
            SQUARES: sums * sums // M,
            ROWS_SQUARED: rows * rows // M,
            PRODUCTS: sums * rows // M,
        }

    def noise(self, stage: JointStage) -> Noise:
        """Return the noise of the totals."""
        std = {block.name: float(np.max(stage.noise_std(block))) for block in stage.blocks}
        return Noise(std[SUMS], std[ROWS], std[SQUARES], std[PRODUCTS], std[ROWS_SQUARED], 0.0)

    def ratio(self, released: Any, noise: Noise) -> Ratio:
        """Return the ratios of the released totals that estimate the means, of shape (..., n_features)."""
        T, N, Q, X, R = (
            np.asarray(released[name], dtype=np.float64)
            for name in (SUMS, ROWS, SQUARES, PRODUCTS, ROWS_SQUARED)
        )
        return Ratio(T, N, Q, X, R, noise, counts=False)


def unit_sums(
    X: NDArray[Any],
    codes: Steps,
    n_units: int,
    kept: NDArray[np.bool_],
    lattice: BoxLattice,
    totals: UnitTotals,
) -> dict[str, Steps]:
    """Return the exact totals of all units: each is cut to its ``max_rows`` rows before they are added up.

    A unit with more rows keeps the rows with the smallest hashes of their steps. This choice does not depend on the
    order of the rows, nor on other units.
    """
    steps = lattice.round_rows(X[kept])
    own = codes[kept]
    counts = np.bincount(own, minlength=n_units)
    inside = np.ones(len(own), dtype=bool)
    order = np.argsort(own, kind="stable")
    ends = np.cumsum(counts)
    for unit in np.flatnonzero(counts > totals.max_rows):
        rows = order[ends[unit] - counts[unit] : ends[unit]]
        hashes = [
            hashlib.sha256(np.ascontiguousarray(steps[row], dtype="<i8").tobytes()).digest() for row in rows
        ]
        inside[rows[sorted(range(len(rows)), key=hashes.__getitem__)[totals.max_rows :]]] = False
    own, steps = own[inside], steps[inside]
    # At most 2^30 a unit: exact as floats.
    sums = np.stack(
        [as_int64(np.bincount(own, weights=column, minlength=n_units)) for column in steps.T], axis=1
    )
    found = totals.of_units(sums, as_int64(np.bincount(own, minlength=n_units)))
    return {name: values.sum(axis=0) for name, values in found.items()}
