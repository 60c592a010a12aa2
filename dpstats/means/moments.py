"""What the means release of their rows: exact sums and sums of squares, on the finest lattice that can be drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from dpstats.errors import ScaleOutOfRange
from dpstats.lattice import BITS, RowLattice
from dpstats.release.additive import Integers

if TYPE_CHECKING:
    from dpstats.data.parameters import Columns

MEAN = "clipped mean"
SQUARES = "second moment about the centre"

Made = TypeVar("Made")

_COARSEST = 8


def sum_integers(name: str, lattice: RowLattice, step: Columns, share: float = 1.0) -> Integers:
    """Return what a stage about the sum of the rows needs to know; ``step`` is a lattice step in its units."""
    l1, l2 = lattice.sensitivity("l1"), lattice.sensitivity("l2")
    return Integers(name, lattice.n_features, frozen(step), l1, l2, share)


def mean_integers(lattice: RowLattice, n: int, share: float = 1.0) -> Integers:
    """Return that of the mean of n rows."""
    return sum_integers(MEAN, lattice, lattice.spacing / n, share)


def squares_integers(lattice: RowLattice, n: int, share: float = 1.0) -> Integers:
    """Return that of the mean square of n rows about the centre."""
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
