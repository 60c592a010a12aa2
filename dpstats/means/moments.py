"""Released moments of clipped rows, the limits of a mean that follow from them, and what clipping may hide.

Proofs: docs/proofs/free-squares.md, docs/proofs/observed-rows.md, docs/intervals/clipped-mean.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import ScaleOutOfRange
from dpstats.lattice import BITS, Moments, RowLattice
from dpstats.privacy.guarantee import Neighbors
from dpstats.privacy.stages import Block
from dpstats.release.additive import Integers, JointIntegers

if TYPE_CHECKING:
    from dpstats.data.parameters import Columns

MEAN = "clipped mean"
SQUARES = "second moment about the center"
CUBES = "third moment about the center"
FOURTHS = "fourth moment about the center"
OUTSIDE = "share outside the clip"
ROWS = "share of rows that are observed"
TOGETHER = "clipped moments"
"""The name of a stage that releases several of these."""

POWERS = (MEAN, SQUARES, CUBES, FOURTHS)

Made = TypeVar("Made")

_COARSEST = 8


@dataclass(frozen=True)
class Weights:
    """Moments that are released together, and their precision: each has the common noise divided by its weight."""

    # Weights of the mean, the second moment, and so on. A moment of weight 0 is not released.
    powers: tuple[float, ...] = (1.0,)
    # Weight of the fraction of entries (for a ball: of rows) outside the clip, each as large as the clip.
    outside: float = 0.0
    # Weight of the fraction of observed rows, each as large as the clip: 0 if all are observed.
    rows: float = 0.0

    def integers(
        self,
        lattice: RowLattice,
        n: int,
        noise: str,
        share: float = 1.0,
        neighbors: Neighbors = Neighbors.REPLACE_ONE,
    ) -> Integers | JointIntegers:
        """Return the integers of a stage that releases these moments of n rows."""
        if not self.outside and not self.rows and sum(weight > 0 for weight in self.powers) == 1:
            return (
                squares_integers(lattice, n, share)
                if self.powers[0] == 0
                else mean_integers(lattice, n, share)
            )
        blocks = [
            Block(name, lattice.n_features, frozen(lattice.power_spacing(b) / n), 1 / weight)
            for b, (name, weight) in enumerate(zip(POWERS, self.powers, strict=False), 1)
            if weight
        ]
        if self.outside:
            # One entry counts 2^bits steps, which leaves the noise of a count as many to be drawn from.
            sizes = np.asarray(lattice.largest) * 2.0**-lattice.bits
            unit = 1 / (self.outside * float(np.sqrt(np.mean(sizes**2))))
            blocks.append(Block(OUTSIDE, lattice.n_counts, 2.0**-lattice.bits / n, unit))
        norm = "l1" if noise == "laplace" else "l2"
        if self.rows:
            unit = 2.0**lattice.bits / (self.rows * lattice.row_size(norm))
            blocks.append(Block(ROWS, 1, 2.0**-lattice.bits / n, unit))
        if neighbors is Neighbors.REPLACE_ONE:
            moved = lattice.joint_sensitivity(norm, self.powers, self.outside, self.rows)
        else:
            moved = lattice.added_sensitivity(norm, self.powers, self.rows)
        return JointIntegers(TOGETHER, tuple(blocks), moved, moved, share)

    def exact(self, lattice: RowLattice, moments: Moments) -> dict[str, Any]:
        """Return the exact integers of the stage, or of its blocks, by name."""
        # If rows may be missing, even powers are measured from a point between their bounds.
        none = (0, lattice.even_center if self.rows else 0) * 2
        found = {
            name: sums - moments.rows * center
            for name, sums, weight, center in zip(POWERS, moments.powers, self.powers, none, strict=False)
            if weight
        }
        if self.rows:
            found[ROWS] = moments.rows << lattice.bits
        if self.outside:
            found[OUTSIDE] = moments.outside << lattice.bits
        return found if len(found) == 1 else {TOGETHER: found}


def flat(released: Mapping[str, Any]) -> dict[str, NDArray[np.float64]]:
    """Return the released values by name: of a stage, or of a block in a stage with several."""
    return {
        name: values
        for stage, item in released.items()
        for name, values in (item.items() if isinstance(item, Mapping) else [(stage, item)])
    }


def sum_integers(name: str, lattice: RowLattice, step: Columns, share: float = 1.0) -> Integers:
    """Return the integers of a stage that releases the sum of the rows; ``step`` is a lattice step in its units."""
    l1, l2 = lattice.sensitivity("l1"), lattice.sensitivity("l2")
    return Integers(name, lattice.n_features, frozen(step), l1, l2, share)


def mean_integers(lattice: RowLattice, n: int, share: float = 1.0) -> Integers:
    """Return the integers of a stage that releases the mean of n rows."""
    return sum_integers(MEAN, lattice, lattice.spacing / n, share)


def squares_integers(lattice: RowLattice, n: int, share: float = 1.0) -> Integers:
    """Return the integers of a stage that releases the mean square of n rows about the center."""
    l1, l2 = lattice.square_sensitivity("l1"), lattice.square_sensitivity("l2")
    return Integers(SQUARES, lattice.n_features, frozen(lattice.square_spacing / n), l1, l2, share)


def finest(made: Callable[[int], Made]) -> Made:
    """Build an object with the most bits for which noise can be drawn: a public choice."""
    for bits in range(BITS, _COARSEST, -4):
        try:
            return made(bits)
        except ScaleOutOfRange:
            continue
    return made(_COARSEST)


def frozen(numbers: Columns) -> float | tuple[float, ...]:
    """Return a number, or numbers per column, as a plan holds them."""
    return float(numbers) if np.ndim(numbers) == 0 else tuple(np.asarray(numbers).tolist())
