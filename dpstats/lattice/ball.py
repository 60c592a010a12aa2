"""Balls: rows scaled towards the center, so that a norm of the whole row is bounded, with sums of squared norms.

If a row changes much, its squared norm changes little, so the squared norm is free next to the row. Proof:
docs/proofs/lattice.md, "Squared norms and rows outside".
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.data.rows import Rows
from dpstats.data.values import as_int64
from dpstats.errors import refuse
from dpstats.lattice.base import (
    BITS,
    FREE_SQUARES,
    FREE_SQUARES_BALL,
    RowLattice,
    ball_movement,
    box_movement,
    check_region,
    free_weight,
)
from dpstats.lattice.rounding import SHIFT, BallKernel, accepted_norm, isqrt_up, squared_norms
from dpstats.lattice.sums import BLOCK, Reading, default_threads, rounded, summed_by, sums_about, sums_by_rows
from dpstats.privacy.guarantee import up

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

    def norm_sums(self, X: Any, *, missing: str = "error", threads: int | None = None, block: int = BLOCK) -> NormSums:
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


# Balls


@dataclass(frozen=True, eq=False)
class BallLattice(NormedLattice):
    """Rows projected on a ball.

    Attributes
    ----------
    radius : int
        Largest l2 norm of a row, in steps.
    """

    spacing: float
    radius: int

    @classmethod
    def build(cls, clip: float, center: Columns, n_features: int, *, bits: int = BITS) -> BallLattice:
        """Return the lattice of the ball ``||x - center||_2 <= clip``."""
        check_region(clip, center)
        return cls(center, clip * 2.0**-bits, n_features, bits, 2**bits)

    def sensitivity(self, norm: str) -> int:
        if norm == "l2":
            return 2 * self.radius
        # ||k||_1 <= sqrt(d) ||k||_2, and an l1 norm of integers is an integer.
        return 2 * math.isqrt(self.n_features * self.radius**2)

    def square_sensitivity(self, norm: str) -> int:
        # The squares of a row are non-negative and sum to at most radius^2 >> bits = top. Two rows of squares
        # differ most if each is a corner of that simplex (or, for one column, 0 and top).
        top = self.radius**2 >> self.bits
        if self.n_features == 1:
            return top
        return 2 * top if norm == "l1" else isqrt_up(2 * top * top)

    @property
    def largest(self) -> int:
        return self.radius

    @property
    def n_counts(self) -> int:
        return 1

    def joint_sensitivity(self, norm: str, weights: Sequence[float], outside: float = 0.0, count: float = 0.0) -> float:
        if norm == "l1" and tuple(weights) == (1.0,):
            return (self.sensitivity("l1") + outside * self.radius) * (1 + 1e-12)
        if norm != "l2" or weights[0] != 1 or len(weights) > 2:
            return super().joint_sensitivity(norm, weights, outside, count)
        weight = weights[1] if len(weights) > 1 else 0.0
        if self.n_features == 1:
            movement = box_movement(weights, self.radius, norm)
        else:
            movement = ball_movement(weight, self.radius, self.n_features)
        if count:
            movement = max(movement, (1 + weight**2 + count**2) * float(self.radius) ** 2)
        # One count for a row.
        return math.sqrt(movement + (outside * self.radius) ** 2) * (1 + 1e-12)

    def free_count(self, norm: str, weights: Sequence[float]) -> float:
        if norm != "l2" or weights[0] != 1 or len(weights) > 2:
            return super().free_count(norm, weights)
        # The sum of the squares of a row is at most the square of the radius, and so is the sum of their
        # squares.
        return math.sqrt(3 - sum(weight**2 for weight in weights[1:])) * (1 - 1e-9)

    def row_size(self, norm: str) -> float:
        return float(self.radius)

    def free_squares(self, norm: str) -> float | None:
        if norm == "l1":
            return None
        return free_weight(FREE_SQUARES if self.n_features == 1 else FREE_SQUARES_BALL, self.bits)

    def moments_about(
        self, rows: NDArray[np.float64], centers: NDArray[np.float64], *, powers: int
    ) -> NDArray[np.int64]:
        """Return the first powers of `moments` of a few finite rows about each of many centers, for simulations.

        Of shape (powers, centers, n_features), for ``powers`` of 1 or 2.
        """
        self._check_count(len(rows))
        return sums_about(rows, replace(self, center=0.0), centers, powers)

    def _outside(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        # Rows that are outside by more than the error of a norm. A row on the sphere does not count.
        norms = self._norms((rows - self.center) / self.spacing)
        return ~(norms <= self.radius * (1 + self._norm_error()))[:, None]

    def _round_block(self, rows: NDArray[Any], out: NDArray[np.float64]) -> None:
        # Adding the shift rounds the rows that `_project` did not scale.
        self._project(rows, out)
        np.add(out, SHIFT, out=out)

    def _round_normed(self, rows: NDArray[Any], out: NDArray[np.float64]) -> NDArray[np.float64]:
        norms = self._project(rows, out)
        np.rint(out, out=out)
        return norms

    def _project(self, rows: NDArray[Any], out: NDArray[np.float64]) -> NDArray[np.float64]:
        """Write rows to ``out``, in steps from the center, that are inside the ball after rounding."""
        if np.any(self.center):
            np.subtract(rows, self.center, out=out, dtype=np.float64)
            np.multiply(out, 1 / self.spacing, out=out)
        else:
            np.multiply(rows, 1 / self.spacing, out=out, dtype=np.float64)
        norms, inside = self._norms(out), self._inner_radius
        far = np.flatnonzero(~(norms <= inside))
        if far.size:
            factors = np.minimum(1.0, inside / np.maximum(norms, 1.0))
            overflow = np.flatnonzero(~np.isfinite(norms))
            if overflow.size:
                self._project_huge(out, overflow, factors, inside)
            if 8 * far.size > factors.size:
                out *= factors[:, None]
                self._round_far(out)
            else:
                part = out[far] * factors[far, None]
                self._round_far(part)
                out[far] = part
        return norms

    @property
    def _inner_radius(self) -> float:
        """A row up to this norm stays inside after rounding, and longer rows are scaled to it."""
        # Their factors are accuracy; their check after rounding is what privacy rests on.
        return max(self.radius * (1 - self._norm_error()) - self._rounding() - 1, 0.0)

    def _kernel(self, how: Reading) -> BallKernel | None:
        if how.powers > 2 or self.radius != 2**self.bits:
            return None
        return BallKernel(
            self.center,
            1.0,
            1 / self.spacing,
            self.bits,
            accepted_norm(self._inner_radius, self.n_features, self._norm_error()),
            squares=how.powers > 1,
            norms=False,
            n_counts=self.n_counts if how.outside else 0,
        )

    def _round_far(self, rows: NDArray[np.float64]) -> None:
        np.rint(rows, out=rows)
        self._enforce(rows)

    def _project_huge(
        self, out: NDArray[np.float64], rows: NDArray[np.intp], factors: NDArray[np.float64], inside: float
    ) -> None:
        """Prepare rows whose squares, or whose shift to the center, overflow. They are scaled to size one first."""
        huge = np.clip(out[rows], -1e300, 1e300)
        huge /= np.abs(huge).max(axis=1, keepdims=True)
        out[rows] = huge
        factors[rows] = inside / self._norms(huge)

    def _norms(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        norms: NDArray[np.float64] = np.sqrt(squared_norms(rows))
        return norms

    def _rounding(self) -> float:
        """Return the largest increase of a norm by rounding every entry."""
        return math.sqrt(self.n_features) / 2

    def _norm_error(self) -> float:
        # Bound on the relative error of a floating-point sum of d squares, in any order.
        return (self.n_features + 4) * 2.0**-52

    def _enforce(self, out: NDArray[np.float64]) -> None:
        """Shrink every integer row that is not certainly inside the ball."""
        # A row is accepted only if the computed sum of squares, enlarged by a bound on its rounding error, is
        # at most radius^2. So accepted rows are inside, regardless of earlier computations.
        while True:
            outside = np.flatnonzero(~self._certainly_inside(out))
            if not outside.size:
                return
            out[outside] = np.trunc(np.nan_to_num(out[outside]) * 0.999)

    def _certainly_inside(self, rows: NDArray[np.float64]) -> NDArray[np.bool_]:
        return squared_norms(rows) <= float(self.radius) ** 2 * (1 - self._norm_error())


@dataclass(frozen=True, eq=False)
class CrossLattice(BallLattice):
    """Rows scaled to an l1 ball (a cross-polytope): ``radius`` bounds the l1 norm of a row, in steps."""

    def sensitivity(self, norm: str) -> int:
        # Two opposite corners, in either norm. The squares' sensitivity is the ball's: between two corners.
        return 2 * self.radius

    def joint_sensitivity(self, norm: str, weights: Sequence[float], outside: float = 0.0, count: float = 0.0) -> float:
        return RowLattice.joint_sensitivity(self, norm, weights, outside, count)

    def free_squares(self, norm: str) -> None:
        return None

    def _kernel(self, how: Reading) -> None:
        return None

    def _norms(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        return _absolute_norms(rows)

    def _rounding(self) -> float:
        return self.n_features / 2

    def _certainly_inside(self, rows: NDArray[np.float64]) -> NDArray[np.bool_]:
        # Sums of integers are exact below 2^53, and a sum that reaches it is far above the radius.
        return _absolute_norms(rows) <= self.radius


def _absolute_norms(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the l1 norm of each row, by sums whose order depends on the row's length only."""
    together = np.concatenate([rows, rows]) if rows.shape[0] == 1 else rows
    norms: NDArray[np.float64] = np.abs(together).sum(axis=1)
    return norms[: rows.shape[0]]
