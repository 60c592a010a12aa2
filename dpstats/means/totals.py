from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.data.tables import Table
from dpstats.lattice import BoxLattice
from dpstats.lattice.joint import box_movement
from dpstats.lattice.sums import end_shares
from dpstats.means.ratio import Floats, Noise, Ratio
from dpstats.means.region import Region
from dpstats.privacy.guarantee import Neighbors
from dpstats.privacy.stages import Block, JointStage, Stage
from dpstats.release.additive import JointIntegers, additive_stages

Steps = NDArray[np.int64]

TOTALS = "totals of the groups"
COUNTS, SUMS, SQUARES = "rows", "sums about the middle", "squares about the middle"
FIRST, MIDDLE, LAST = "shares of the lower end", "shares between", "shares of the upper end"

COUNT_WEIGHT, SQUARE_WEIGHT, CENTER = 0.95, 1.35, 0.77
"""Free: a^2 + w^2 (1 - c)^2 <= 1, a^2 + w^2 c^2 <= 2 and w <= phi^(5/2)/2."""

ADDED_COUNT_WEIGHT, ADDED_SQUARE_WEIGHT, ADDED_CENTER = 0.8, 1.0, 1.0
"""The same for an added row: z^2 + w^2 (z^2 - 1)^2 <= 1, so that squares are free."""

_SAFE = 1 + 1e-12


@dataclass(frozen=True)
class GaussianTotals:
    """Counts, sums and squares about a public center, under Gaussian noise; d columns of 2^bits steps each."""

    n_groups: int
    n_features: int
    bits: int
    neighbors: Neighbors = Neighbors.REPLACE_ONE

    @property
    def center(self) -> int:
        """The number of steps that is subtracted from a square."""
        added = self.neighbors is Neighbors.ADD_OR_REMOVE_ONE
        return round((ADDED_CENTER if added else CENTER) * float(2**self.bits))

    def integers(self) -> JointIntegers:
        """Return the integers of their stage, in half-widths of the bounds."""
        if self.neighbors is Neighbors.ADD_OR_REMOVE_ONE:
            # Rounding down a square leaves it less than a step further from the center.
            moved = ADDED_COUNT_WEIGHT**2 * 4.0**self.bits + (2.0**self.bits + 1) ** 2
            return self._build_integers(ADDED_COUNT_WEIGHT, ADDED_SQUARE_WEIGHT, moved)
        steps = 2.0**self.bits
        # Of a column: two values in one group, or in two; a row in none is nearer to all of them.
        K, center = steps, float(self.center)
        at_end = (COUNT_WEIGHT**2 + 1) * K**2 + (SQUARE_WEIGHT * (K - center)) ** 2
        in_middle = COUNT_WEIGHT**2 * K**2 + K + (SQUARE_WEIGHT * center) ** 2
        moved = max(box_movement((1.0, SQUARE_WEIGHT), 2**self.bits, "l2"), 2 * max(at_end, in_middle))
        return self._build_integers(COUNT_WEIGHT, SQUARE_WEIGHT, moved)

    def _build_integers(self, count: float, square: float, moved: float) -> JointIntegers:
        """Return the integers with these weights, whose squared movement in a column is ``moved``."""
        spacing, size = 2.0**-self.bits, self.n_groups * self.n_features
        blocks = (
            Block(COUNTS, self.n_groups, spacing, 1 / (count * math.sqrt(self.n_features))),
            Block(SUMS, size, spacing, 1.0),
            Block(SQUARES, size, spacing, 1 / square),
        )
        return JointIntegers(TOTALS, blocks, math.inf, math.sqrt(self.n_features * moved) * _SAFE)

    def rows(self, steps: Steps) -> dict[str, Steps]:
        """Return the contributions of rows of lattice points, each a function of the row alone."""
        return self.of(np.ones((len(steps), 1), dtype=np.int64), steps, steps * steps >> self.bits)

    def of(self, rows: Steps, sums: Steps, squares: Steps) -> dict[str, Steps]:
        """Return the totals of groups from their rows, and the sums of their steps and squares."""
        return {COUNTS: rows << self.bits, SUMS: sums, SQUARES: squares - self.center * rows}

    def noise(self, stage: JointStage) -> Noise:
        """Return the noise of T, N and Q, in half-widths."""
        count, total, about = (float(np.max(stage.noise_std(block))) for block in stage.blocks)
        c = self.center * 2.0**-self.bits
        return Noise(total, count, math.hypot(about, c * count), total, count, c * count**2)

    def ratio(self, released: dict[str, Floats], noise: Noise) -> Ratio:
        """Return the ratios of released totals, of shape (..., n_groups, n_features)."""
        N = released[COUNTS][..., None]
        T, about = (self._reshape(released[name]) for name in (SUMS, SQUARES))
        return Ratio(T, N, about + self.center * 2.0**-self.bits * N, T, N, noise)

    def _reshape(self, values: Floats) -> Floats:
        return values.reshape(*values.shape[:-1], self.n_groups, self.n_features)


@dataclass(frozen=True)
class LaplaceTotals:
    """The three shares of every entry, which add up to one, under Laplace noise; d columns of 2^bits steps each."""

    n_groups: int
    n_features: int
    bits: int
    neighbors: Neighbors = Neighbors.REPLACE_ONE

    def integers(self) -> JointIntegers:
        """Return the integers of their stage. A replaced row moves two entries of a column, an added row one."""
        size, spacing = self.n_groups * self.n_features, 2.0**-self.bits
        blocks = tuple(Block(name, size, spacing, 1.0) for name in (FIRST, MIDDLE, LAST))
        rows = 2.0 if self.neighbors is Neighbors.REPLACE_ONE else 1.0
        return JointIntegers(TOTALS, blocks, rows * self.n_features * 2**self.bits, math.inf)

    def rows(self, steps: Steps) -> dict[str, Steps]:
        """Return the contributions of rows of lattice points, each a function of the row alone."""
        return self.of(np.ones((len(steps), 1), dtype=np.int64), *end_shares(steps, self.bits))

    def of(self, rows: Steps, first: Steps, last: Steps) -> dict[str, Steps]:
        """Return the totals of groups from their rows, and the sums of their shares of both ends."""
        # The difference, so that the three add up to exactly one row.
        return {FIRST: first, MIDDLE: (rows << self.bits) - first - last, LAST: last}

    def noise(self, stage: JointStage) -> Noise:
        """Return the noise of T, N and Q, in half-widths: each of the three shares has the same."""
        scale = float(np.max(stage.noise_scale(stage.blocks[0])))
        one, d = 2 * scale**2, self.n_features
        count = math.sqrt(3 * one / d)
        return Noise(
            math.sqrt(2 * one), count, math.sqrt(3 * one), math.sqrt(2 * one), count, one / d, scale, d
        )

    def ratio(self, released: dict[str, Floats], noise: Noise) -> Ratio:
        """Return the ratios of released totals, of shape (..., n_groups, n_features)."""
        first, middle, last = (
            released[name].reshape(*released[name].shape[:-1], self.n_groups, self.n_features)
            for name in (FIRST, MIDDLE, LAST)
        )
        # Every column counts the same rows.
        N = (first + middle + last).mean(axis=-1, keepdims=True)
        T = last - first
        return Ratio(T, N, first - middle + last, T, N, noise)


Totals = GaussianTotals | LaplaceTotals


def calibrate_totals(
    region: Region, n_groups: int, d: int, epsilon: float, delta: float, neighbors: Neighbors, bits: int
) -> tuple[BoxLattice, Totals, tuple[Stage | JointStage, ...]]:
    """Return the lattice of the columns, the totals of groups on it, and the stages that release them."""
    lattice = BoxLattice.build(
        region.clip, region.center, d, common=False, bits=bits, ends=(region.low, region.high)
    )
    totals = (GaussianTotals if delta else LaplaceTotals)(n_groups, d, bits, neighbors)
    return lattice, totals, additive_stages([totals.integers()], epsilon, delta, neighbors=neighbors)


@dataclass(frozen=True, eq=False)
class OneGroup:
    """The exact totals of all rows, as one group."""

    lattice: BoxLattice
    totals: Totals
    missing: str

    def __call__(self, table: Table) -> dict[str, Steps]:
        return group_sums(table.X, None, self.lattice, self.totals, self.missing)


def group_sums(
    X: NDArray[np.generic], codes: Steps | None, lattice: BoxLattice, totals: Totals, missing: str = "error"
) -> dict[str, Steps]:
    """Return the exact totals of every group; a row whose code is -1 adds nothing, and no codes are one group."""
    groups = None if codes is None else (codes, totals.n_groups)
    found = lattice.sum_groups(X, groups, missing=missing, shares=isinstance(totals, LaplaceTotals))
    return {name: sums.ravel() for name, sums in totals.of(found.rows, *found.powers).items()}
