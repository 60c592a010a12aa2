from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpstats.lattice.base import BITS, RowLattice, check_region
from dpstats.lattice.compiled import BallKernel, accepted_norm
from dpstats.lattice.joint import FREE_SQUARES, FREE_SQUARES_BALL, ball_movement, box_movement, free_weight
from dpstats.lattice.norms import NormedLattice
from dpstats.lattice.rounding import SHIFT, isqrt_up, squared_norms
from dpstats.lattice.sums import Reading, sums_about

if TYPE_CHECKING:
    from dpstats.data.parameters import Columns

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

    def joint_sensitivity(
        self, norm: str, weights: Sequence[float], outside: float = 0.0, count: float = 0.0
    ) -> float:
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

    def joint_sensitivity(
        self, norm: str, weights: Sequence[float], outside: float = 0.0, count: float = 0.0
    ) -> float:
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
