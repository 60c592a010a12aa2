"""What the means release of their rows: exact sums of powers and counts, on the finest lattice that can be drawn.

Proof of what they cost together: docs/proofs/free-squares.md.
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
SQUARES = "second moment about the centre"
CUBES = "third moment about the centre"
FOURTHS = "fourth moment about the centre"
OUTSIDE = "share outside the clip"
ROWS = "share of rows that are observed"
TOGETHER = "clipped moments"
"""The name of a stage that releases several of these."""

_POWERS = (MEAN, SQUARES, CUBES, FOURTHS)

Made = TypeVar("Made")

_COARSEST = 8


@dataclass(frozen=True)
class Weights:
    """What is released together, and how precisely: noise is that of sums of the same size over the weight.

    Attributes
    ----------
    powers : tuple of float
        Of the mean, the second moment, and so on; what has weight 0 is not released.
    outside : float
        Of the share of entries (rows, of a ball) outside the clip, each as large as the clip.
    rows : float
        Of the share of rows that are observed, each as large as the clip: 0 where all are.
    """

    powers: tuple[float, ...] = (1.0,)
    outside: float = 0.0
    rows: float = 0.0

    def integers(
        self,
        lattice: RowLattice,
        n: int,
        noise: str,
        share: float = 1.0,
        neighbors: Neighbors = Neighbors.REPLACE_ONE,
    ) -> Integers | JointIntegers:
        """Return what a stage about these of n rows needs to know."""
        if not self.outside and not self.rows and sum(weight > 0 for weight in self.powers) == 1:
            return (
                squares_integers(lattice, n, share)
                if self.powers[0] == 0
                else mean_integers(lattice, n, share)
            )
        blocks = [
            Block(name, lattice.n_features, frozen(lattice.power_spacing(b) / n), 1 / weight)
            for b, (name, weight) in enumerate(zip(_POWERS, self.powers, strict=False), 1)
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
        # Where rows may be none, even powers are measured from a point between their ends.
        none = (0, lattice.even_center if self.rows else 0) * 2
        found = {
            name: sums - moments.rows * center
            for name, sums, weight, center in zip(_POWERS, moments.powers, self.powers, none, strict=False)
            if weight
        }
        if self.rows:
            found[ROWS] = np.array([moments.rows << lattice.bits])
        if self.outside:
            found[OUTSIDE] = moments.outside << lattice.bits
        return found if len(found) == 1 else {TOGETHER: found}


def flat(released: Mapping[str, Any]) -> dict[str, NDArray[np.float64]]:
    """Return what was released by the names of stages and, of those that release several, of blocks."""
    return {
        name: values
        for stage, item in released.items()
        for name, values in (item.items() if isinstance(item, Mapping) else [(stage, item)])
    }


def sum_integers(name: str, lattice: RowLattice, step: Columns, share: float = 1.0) -> Integers:
    """Return what a stage about the sum of the rows needs to know; ``step`` is a lattice step in its units."""
    l1, l2 = lattice.sensitivity("l1"), lattice.sensitivity("l2")
    return Integers(name, lattice.n_features, frozen(step), l1, l2, share)


def mean_integers(lattice: RowLattice, n: int, share: float = 1.0) -> Integers:
    """Return that of the mean of n rows."""
    return sum_integers(MEAN, lattice, lattice.spacing / n, share)


def squares_integers(lattice: RowLattice, n: int, share: float = 1.0) -> Integers:
    """Return that of the mean square of n rows about the center."""
    l1, l2 = lattice.square_sensitivity("l1"), lattice.square_sensitivity("l2")
    return Integers(SQUARES, lattice.n_features, frozen(lattice.square_spacing / n), l1, l2, share)


def finest(made: Callable[[int], Made]) -> Made:
    """Return what is made with the most bits for which noise can be drawn: a public choice."""
    for bits in range(BITS, _COARSEST, -4):
        try:
            return made(bits)
        except ScaleOutOfRange:
            continue
    return made(_COARSEST)


def frozen(numbers: Columns) -> float | tuple[float, ...]:
    """Return a number, or numbers per column, as a plan holds them."""
    return float(numbers) if np.ndim(numbers) == 0 else tuple(np.asarray(numbers).tolist())
