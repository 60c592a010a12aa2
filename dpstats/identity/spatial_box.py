"""The sum of two-valued rows: its sensitivity is the diagonal of the box that the rows are corners of."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.identity.whitening import Reference

# Whitened signs of column j are one of two integers, high_j and low_j. So replacing a row changes the sum by at most
# sqrt(sum_j (high_j - low_j)^2). For skewed columns this is far less than twice the longest row, because no two rows
# are both this long and opposite. Proof: docs/proofs/spatial-sign.md.

STEPS_PER_UNIT = 2.0**20
"""Coordinates are at most 14.2, and sums of 10^9 of them below 2^54."""

_LARGEST = 2**30


@dataclass(frozen=True)
class SignBox:
    """The grid of whitened signs, and the diagonal of their box in its steps, rounded up."""

    steps_per_unit: float
    diagonal: int

    @classmethod
    def build(cls, reference: Reference) -> SignBox:
        """Return the box of a product null."""
        high, low = reference.sign_steps(STEPS_PER_UNIT, _LARGEST)
        square = sum(width**2 for width in (high - low).tolist())
        return cls(STEPS_PER_UNIT, math.isqrt(square - 1) + 1)

    @property
    def spacing(self) -> float:
        """The length of a step."""
        return 1 / self.steps_per_unit

    def sums(self, Z: NDArray[np.float64], reference: Reference) -> NDArray[np.int64]:
        """Return the column sums of whitened signs; a missing row is 0, which is inside the box."""
        sums: NDArray[np.int64] = reference.sign_rows(Z, self.steps_per_unit, _LARGEST).sum(axis=0)
        return sums

    def simulated(
        self, reference: Reference, n: int, size: int, generator: np.random.Generator, shift: object
    ) -> NDArray[np.int64]:
        """Return the column sums of n rows, for ``size`` datasets, from their exact distribution."""
        return reference.sums(n, size, generator, shift, self.steps_per_unit, _LARGEST)
