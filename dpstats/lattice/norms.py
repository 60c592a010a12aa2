"""Balls: rows scaled towards the center, so that a norm of the whole row is bounded, with sums of squared norms.

If a row changes much, its squared norm changes little, so the squared norm is free next to the row. Proof:
docs/proofs/lattice.md, "Squared norms and rows outside".
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.data.tables import Rows
from dpstats.errors import refuse
from dpstats.lattice.base import RowLattice
from dpstats.lattice.compiled import BallKernel
from dpstats.lattice.rounding import SHIFT, isqrt_up, squared_norms
from dpstats.lattice.sums import BLOCK, Reading, default_threads, rounded, summed_by, sums_by_rows
from dpstats.privacy.rounding import up

if TYPE_CHECKING:
    from dpstats.data.parameters import Columns

_FREE = Fraction(110901699437, 4 * 10**10)  # phi^5/4, rounded down: the largest free squared weight in a ball
_ROOT_BITS = 64


class NormSums(NamedTuple):
    """Exact sums over rows.

    Attributes
    ----------
    steps : int64 array of shape (n_features,)
        Of the lattice points, in steps.
    squared_norms : int64 array of shape (1,)
        Of their squared norms, in steps of `NormedLattice.square_spacing`.
    outside : int64 array of shape (1,)
        Sum of 2^bits over the rows that were outside the ball before clipping.
    """

    steps: NDArray[np.int64]
    squared_norms: NDArray[np.int64]
    outside: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class NormedLattice(RowLattice):
    """A lattice whose points have an l2 norm of at most 2^bits steps."""

    @abstractmethod
    def _round_normed(self, rows: NDArray[Any], out: NDArray[np.float64]) -> NDArray[np.float64]:
        """Write the lattice points of rows to ``out``, as floats, and return the norms of the rows in steps.

        These have a relative error of at most three times `_norm_error`.
        """

    @property
    def _same_anywhere(self) -> bool:
        """Whether a row becomes the same numbers at every place of a table.

        If not, part of a table is never looked at alone: the places in it would depend on other rows.
        """
        return True

    def _kernel(self, how: Reading) -> BallKernel | None:
        return None

    @abstractmethod
    def _norm_error(self) -> float:
        """Return a bound on the relative error of a computed norm."""

    def norm_sums(
        self, X: Any, *, missing: str = "error", threads: int | None = None, block: int = BLOCK
    ) -> NormSums:
        """Return exact sums of the rows' lattice points, of their squared norms, and of who was outside.

        A row is outside if its norm, computed from its original floats, is beyond the radius. Parameters are
        as for `sums`.
        """
        self._check_count(X.shape[0])
        threads = default_threads(X.size) if threads is None else threads
        found = sums_by_rows(X, _WithNorms(self), Reading(1, False, missing, threads, block))
        return NormSums(*np.split(found.powers[0], [self.n_features, self.n_features + 1]))

    def row_norm_sums(self, rows: Rows, *, missing: str = "error") -> NormSums:
        """Return `norm_sums` of private rows, wherever they are."""
        self._check_count(rows.shape[0])
        return NormSums(*summed_by(rows, lambda X: self.norm_sums(X, missing=missing)))

    def norm_rows(self, X: NDArray[Any]) -> NDArray[np.int64]:
        """Return the terms of `norm_sums` for each row, of shape (n, n_features + 2).

        Entries should be finite.
        """
        return rounded(_WithNorms(self), X)

    def free_weight(self, norm: str) -> float:
        """Return a weight at which squared norms are free next to the sums."""
        if norm == "l1":
            return math.sqrt(self.n_features) / 2 * (1 - 2.0**-50)
        # The closer to the root of phi^5/4, the more is added for rounding, which coarse steps would show.
        return 1.665 if self.bits >= 18 else 1.6

    def norm_sensitivity(self, norm: str, weight: float = 0.0, count_weight: float = 0.0) -> float:
        """Return the joint sensitivity of `norm_sums`, in steps.

        Parameters
        ----------
        norm : {"l1", "l2"}
        weight, count_weight : float
            Weights of squared norms and of rows outside; 0 omits them. Under l2 a weight must be below
            1.66509 = phi^(5/2)/2, under l1 at most sqrt(n_features)/2. Up to these limits, squared norms are
            free.
        """
        radius, w, v = 2**self.bits, Fraction(weight), Fraction(count_weight)
        if norm == "l1":
            if 4 * w * w > self.n_features:
                raise refuse("weight", given=weight, allowed="at most sqrt(n_features)/2")
            # ||t||_1 + w|q - q'| <= sqrt(d) T + w T(2K - T)/K + w, which is largest at T = 2K.
            return up(isqrt_up(4 * self.n_features * radius**2) + w + v * radius)
        if w * w >= _FREE:
            raise refuse("weight", given=weight, allowed="below 1.66509")
        # (|a| + 1)^2 <= (1 + theta) a^2 + 1 + 1/theta for the rounding of q, and w^2 (1 + theta) = phi^5/4.
        rounding = w * w * _FREE / (_FREE - w * w) if w else Fraction(0)
        square = (4 + v * v) * radius**2 + rounding
        scaled = -((-square.numerator << 2 * _ROOT_BITS) // square.denominator)  # rounded up
        return up(Fraction(isqrt_up(scaled), 1 << _ROOT_BITS))


@dataclass(frozen=True)
class _WithNorms:
    """The row map that `norm_sums` adds up: a lattice point, and two numbers more."""

    lattice: NormedLattice

    @property
    def center(self) -> Columns:
        return self.lattice.center

    @property
    def n_features(self) -> int:
        return self.lattice.n_features

    @property
    def n_extra(self) -> int:
        return 2

    @property
    def bits(self) -> int:
        return self.lattice.bits

    @property
    def largest(self) -> int:
        return int(2**self.bits)

    @property
    def _zero_pattern(self) -> int:
        return self.lattice._zero_pattern

    def _outside(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        return self.lattice._outside(rows)

    def _kernel(self, how: Reading) -> BallKernel | None:
        kernel = self.lattice._kernel(how)
        return None if kernel is None else replace(kernel, norms=True)

    def _round_block(self, rows: NDArray[Any], out: NDArray[np.float64]) -> NDArray[np.int64]:
        norms = self.lattice._round_normed(rows, out)
        found = np.stack([self._square_steps(out), self._counts(rows, norms) << self.bits])
        np.add(out, SHIFT, out=out)
        return found

    def _square_steps(self, points: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the squared norms of integer points over 2^bits, rounded down: exact."""
        squares, error = squared_norms(points), 2 * self.lattice._norm_error()
        low, high = (np.floor(squares * (1 + sign * error) * 2.0**-self.bits) for sign in (-1, 1))
        found = as_int64(low)
        # Floats decide all rows but those whose quotient is within the error of an integer.
        unclear = np.flatnonzero(low != high)
        steps = as_int64(points[unclear])
        # At most 2^(2 bits) <= 2^60: exact.
        found[unclear] = np.einsum("ij,ij->i", steps, steps) >> self.bits
        return found

    def _counts(self, rows: NDArray[Any], norms: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return 1 for each row that `_outside` calls outside."""
        # Only rows that are not clearly inside are looked at.
        unclear = np.flatnonzero(~(norms <= self.lattice.largest * (1 - 8 * self.lattice._norm_error())))
        found = np.zeros(len(rows), dtype=np.int64)
        if self.lattice._same_anywhere:
            found[unclear] = self.lattice._outside(rows[unclear])[:, 0]
        elif unclear.size:
            found[:] = self.lattice._outside(rows)[:, 0]
        return found
