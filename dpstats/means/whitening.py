from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_columns
from dpstats.errors import attempt, refuse
from dpstats.lattice import BallLattice, NormedLattice
from dpstats.lattice.compiled import BallKernel
from dpstats.lattice.sums import Reading
from dpstats.means.bias_aware import Numbers

if TYPE_CHECKING:
    from dpstats.data.parameters import Columns

# Well inside what dpstats.lattice can represent, so that no radius of a plan leaves it.
_SMALLEST, _LARGEST = 1e-100, 1e100


@dataclass(frozen=True, eq=False)
class WhitenedBall(NormedLattice):
    """Rows are shifted to ``center``, multiplied by ``whitening``, and projected on ``ball``, which is about 0.

    ``whitening`` is one factor per column, or a matrix that multiplies a row from the right. A matrix product may
    round a row differently at another place in the table, but its rounding never depends on other rows.
    """

    ball: BallLattice
    whitening: Numbers

    def sensitivity(self, norm: str) -> int:
        return self.ball.sensitivity(norm)

    def square_sensitivity(self, norm: str) -> int:
        return self.ball.square_sensitivity(norm)

    @property
    def largest(self) -> int:
        return self.ball.largest

    def _outside(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        return self.ball._outside(self._whiten(rows, np.empty(rows.shape)))

    def _round_block(self, rows: NDArray[Any], out: Numbers) -> None:
        self.ball._round_block(self._whiten(rows, out), out)

    def _round_normed(self, rows: NDArray[Any], out: Numbers) -> Numbers:
        return self.ball._round_normed(self._whiten(rows, out), out)

    def _norm_error(self) -> float:
        return self.ball._norm_error()

    def _kernel(self, how: Reading) -> BallKernel | None:
        kernel = self.ball._kernel(how)
        # Only columns of their own are whitened in one order of operations everywhere.
        if kernel is None or self.whitening.ndim > 1 or np.any(self.ball.center):
            return None
        return replace(kernel, center=self.center, factor=self.whitening)

    @property
    def _same_anywhere(self) -> bool:
        return self.whitening.ndim == 1

    def _whiten(self, rows: NDArray[Any], out: Numbers) -> Numbers:
        np.subtract(rows, self.center, out=out, dtype=np.float64)
        if self.whitening.ndim == 1:
            np.multiply(out, self.whitening, out=out)
        else:
            np.matmul(out.copy(), self.whitening, out=out)
        return out


@dataclass(frozen=True, eq=False)
class Shape:
    """Upper bounds on the standard deviations, or on the covariance, of the rows."""

    std: Columns  # standard deviations of the columns
    factor: Numbers | None = None  # (n_features, n_features): L with L L' the covariance, where there is one

    @classmethod
    def check(cls, std: Any, cov: Any, d: int, name: str = "std") -> Shape:
        """Return the shape that ``std``, ``cov`` or both (a number times a matrix) describe, or refuse them."""
        if cov is None:
            if std is None:
                remedy = "Give a number, one number per column, or cov."
                raise refuse(name, allowed="given", remedy=remedy)
            return cls(in_range(name, check_columns(name, std, d, above=0)))
        scale = 1.0 if std is None else check_columns(name, std, d, above=0)
        if not isinstance(scale, float):
            raise refuse(name, given=std, allowed="None or a single number with cov, which it scales")
        factor = scale * _covariance_factor(cov, d)
        return cls(in_range("cov", np.sqrt(np.sum(factor**2, axis=1))), factor)

    def lattice(self, radius: float, d: int, bits: int) -> NormedLattice:
        """Return the lattice of the ball about 0 whose radius is in whitened units."""
        if self.factor is None and isinstance(self.std, float):
            return BallLattice.build(radius * self.std, 0.0, d, bits=bits)
        ball = BallLattice.build(radius, 0.0, d, bits=bits)
        # A white row is L^{-1} x, which is x L'^{-1} as a row.
        whitening = 1 / np.asarray(self.std) if self.factor is None else np.linalg.inv(self.factor).T
        return WhitenedBall(np.zeros(d), ball.spacing, d, bits, ball, np.asarray(whitening, dtype=np.float64))

    def resized(self, lattice: NormedLattice, scale: float) -> NormedLattice:
        """Return the lattice of a ball that is ``scale`` times as large, with the same norms in steps."""
        if scale == 1:
            return lattice
        if isinstance(lattice, WhitenedBall):
            return replace(lattice, whitening=lattice.whitening / scale)
        return replace(lattice, spacing=lattice.spacing * scale)

    def step(self, lattice: NormedLattice) -> Columns:
        """Return the length of a step: in the units of the columns, or whitened where a covariance mixes them."""
        per_column = self.factor is None and isinstance(lattice, WhitenedBall)
        return lattice.spacing * self.std if per_column else lattice.spacing

    def unwhiten(self, released: Numbers) -> Numbers:
        """Convert a release in the steps of `step` to the units of the columns."""
        return released if self.factor is None else released @ self.factor.T

    def whiten(self, released: Numbers) -> Numbers:
        """Convert a release in the steps of `step` to whitened units."""
        return released if self.factor is not None else released / self.std

    def covariance(self, d: int) -> Numbers:
        """Return the covariance: diagonal, where only standard deviations are known."""
        if self.factor is None:
            return np.diag(np.full(d, self.std) ** 2)
        return self.factor @ self.factor.T

    def largest_norm2(self, bound: Columns, d: int) -> float:
        """Return an upper bound on ||mu||^2/d, whitened, over the box |mu_j| <= bound_j.

        With a covariance the maximum is at a corner that is hard to find; both bounds are upper ones.
        """
        box = np.full(d, bound)
        if self.factor is None:
            return float(np.mean((box / self.std) ** 2))
        inverse = np.linalg.inv(self.factor)
        scaled = box[:, None] * (inverse.T @ inverse) * box
        return min(float(np.abs(scaled).sum()) / d, float(np.linalg.eigvalsh(scaled)[-1]))


def in_range(name: str, values: Columns) -> Columns:
    """Return public numbers that leave room in floating point, or raise `InvalidParameter`."""
    if not np.all((np.asarray(values) >= _SMALLEST) & (np.asarray(values) <= _LARGEST)):
        allowed = f"between {_SMALLEST:g} and {_LARGEST:g} for exact arithmetic"
        raise refuse(name, given=values, allowed=allowed, remedy="Change the units of the data.")
    return values


def _covariance_factor(cov: Any, d: int) -> Numbers:
    """Return the lower Cholesky factor of a public covariance matrix, or refuse it."""
    matrix = attempt(lambda: np.asarray(cov, dtype=np.float64), Exception)
    if matrix is None:
        fault = f"{type(cov).__name__} instead of a matrix of numbers"
    elif matrix.shape != (d, d):
        fault = f"shape {matrix.shape}"
    elif not np.isfinite(matrix).all():
        fault = "entries that are not finite"
    elif np.abs(matrix - matrix.T).max() > 1e-8 * np.abs(matrix).max():
        fault = "one that is not symmetric"
    else:
        values = np.linalg.eigvalsh(matrix)
        if values[0] > 1e-12 * values[-1]:
            return np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)
        fault = "one that is not positive definite"
    size = f"(n_features, n_features) = ({d}, {d})"
    allowed = f"'private' or a symmetric positive definite matrix of shape {size}"
    raise refuse("cov", got=fault, allowed=allowed)
