"""From rows to integers: clip, round onto a public lattice, add up exactly.

A floating-point sum has a larger sensitivity than the real sum it stands for, and depends on the order of its
terms. Here each row is first mapped, independently of the others, to a vector of integers (steps of a public
spacing from a public center) whose norm is bounded exactly. Integers add up exactly in any order, on any
number of threads. So replacing one row changes the sum by at most the difference of two bounded integer rows.
The stated sensitivity is a number of steps.

Nothing in here draws noise, and nothing in it is public but the lattice itself.
The proof is in docs/proofs/lattice.md.
"""

from dpstats.lattice.ball import BallLattice, CrossLattice, NormedLattice, NormSums
from dpstats.lattice.base import BITS, BoxLattice, RowLattice
from dpstats.lattice.rounding import check_finite, check_finite_rows, exact_steps, isqrt_up, observed_pairs
from dpstats.lattice.sums import Moments

__all__ = [
    "BITS",
    "BallLattice",
    "BoxLattice",
    "CrossLattice",
    "Moments",
    "NormSums",
    "NormedLattice",
    "RowLattice",
    "check_finite",
    "check_finite_rows",
    "exact_steps",
    "isqrt_up",
    "observed_pairs",
]


def __dir__() -> list[str]:
    return sorted(__all__)
