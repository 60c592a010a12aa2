"""Moments of pairs of columns in a box, released together, and the errors of covariances that follow from them.

In half-widths about the center of the bounds a row is z in the box [-1, 1]^d. One stage releases the sums of z, the
products z_i z_j, their squares, the thirds z_i^2 z_j and the fourths z_i^3 z_j.

Proofs: docs/proofs/covariance.md, docs/intervals/covariance.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.data.parameters import check_columns
from dpstats.data.tables import Rows, Table
from dpstats.lattice.products import Sums, apply_columns, gram, row_bits, summed
from dpstats.means.ball_products import split_symmetric
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import Block
from dpstats.release.additive import JointIntegers

Floats = NDArray[np.float64]

STAGE = "moments of pairs"
SUMS = "sums"
PRODUCTS, SQUARES = "products", "squares of products"
THIRDS, FOURTHS = "thirds", "fourths"
DIAGONAL, ABOVE = "diagonal", "above the diagonal"

MEAN_WEIGHT = 0.15
"""Squared weight of the sums beside the products, over the number of columns."""
HIGHER_WEIGHT = 0.1
"""Squared weight of thirds, and of fourths: only the errors of estimates need them."""

FINE, COARSE = 18, 10
"""Bits of a half-width: in sums and products, and in moments of higher order."""
_SUM_BITS = 62
_SAFE = 1 + 1e-12


def coarse_bits(n: int) -> int:
    """Return the bits of a half-width with which sums of n products of four entries stay below 2^62."""
    return min(COARSE, (_SUM_BITS - n.bit_length()) // 4)


def fine_bits(n: int) -> int:
    """Return the bits of a half-width with which sums of n products of two entries stay below 2^62."""
    return min(FINE, row_bits(n))


def movement(d: int, coarse: int) -> float:
    """Return the l2 movement of all blocks together by one replaced row.

    The second term is what rounding to the coarse lattice adds to the moments of higher order.
    """
    weight = math.sqrt(HIGHER_WEIGHT)
    rounding = 2.0 ** -(coarse + 1) * d * (4 + 3 * weight + 4 * weight)
    return (math.sqrt(2) * d * (1 + MEAN_WEIGHT + HIGHER_WEIGHT) + 2 * rounding) * _SAFE


def moment_integers(d: int, n: int, bits: int, coarse: int) -> JointIntegers:
    """Return the blocks of the stage of moments, for n rows of d columns."""
    one, two, four = 2.0**bits, 4.0**bits, 16.0**coarse
    higher = math.sqrt(HIGHER_WEIGHT)
    pairs = d * (d - 1) // 2

    def block(name: str, size: int, unit: float, weight: float) -> Block:
        return Block(name, size, 1 / unit / n, unit / weight)

    root = math.sqrt(2)
    blocks = [
        block(SUMS, d, one, math.sqrt(2 * MEAN_WEIGHT * d)),
        block(f"{PRODUCTS}, {DIAGONAL}", d, two, 1.0),
        block(f"{SQUARES}, {DIAGONAL}", d, four, 1.0),
        block(THIRDS, d * d, 8.0**coarse, higher),
    ]
    if pairs:
        blocks += [
            block(f"{PRODUCTS}, {ABOVE}", pairs, two, root),
            block(f"{SQUARES}, {ABOVE}", pairs, four, root),
            block(FOURTHS, 2 * pairs, four, higher),
        ]
    return JointIntegers(STAGE, tuple(blocks), math.inf, movement(d, coarse))


@dataclass(frozen=True)
class CovariancePlan(ReleasePlan):
    """The plan of a `PrivateCovariance`: one stage with the moments of all pairs of columns."""

    # Shape (n_features,). Center and half-width of the declared bounds.
    center: Floats = field(repr=False, compare=False)
    half: Floats = field(repr=False, compare=False)
    hard: bool = False  # whether rows lie inside the bounds by nature
    bits: int = FINE  # bits of a half-width in sums and products, and in moments of higher order
    coarse: int = COARSE

    def expected_error(self, std: float | Floats | None = None) -> float:
        """Return the expected squared Frobenius error of ``covariance_``, for rows that are not clipped.

        Parameters
        ----------
        std : float or array of shape (n_features,), optional
            Standard deviation of normal, independent columns centered in their bounds (default: the sampling error is
            left out).
        """
        d = self.n_features
        spread = (
            np.zeros(d) if std is None else np.broadcast_to(check_columns("std", std, d, at_least=0), (d,))
        )
        n = self.n_samples
        # The product of two noisy means has noise, too.
        own = self.products_std**2 + self.mean_std**4
        noise = np.outer(self.half, self.half) ** 2 * own * (n / (n - 1)) ** 2
        variance = noise + np.outer(spread, spread) ** 2 / (n - 1)
        return float(variance.sum() + np.trace(variance))

    @property
    def mean_std(self) -> float:
        """Standard deviation of the noise of a mean, in half-widths."""
        return float(np.asarray(self.noise(SUMS).std))

    @property
    def products_std(self) -> float:
        """Standard deviation of the noise of a product above the diagonal, in half-widths."""
        return float(np.asarray(self.noise(f"{PRODUCTS}, {DIAGONAL}").std)) / math.sqrt(2)

    def least_std(self, share: float) -> Floats:
        """Return the least standard deviation of each column whose variance has noise of at most ``share`` of it."""
        noise = float(np.asarray(self.noise(f"{PRODUCTS}, {DIAGONAL}").std))
        return np.asarray(self.half * math.sqrt(noise / share))


@dataclass(frozen=True, eq=False)
class _Moments:
    """The sums of the moments of some rows."""

    plan: CovariancePlan

    def __call__(self, table: Table) -> Sums:
        X = table.X
        return summed(lambda where: self._block(np.asarray(X[where], dtype=np.float64)), *X.shape)

    def _block(self, X: Floats) -> Sums:
        plan = self.plan
        one = 2.0**plan.bits
        # One allocation: the memory of several is given back to the system, and cleared again, after every block.
        fine, coarse, squares, cubes = np.empty((4, *X.shape))
        fine[:] = X
        apply_columns(np.subtract, fine, plan.center)
        apply_columns(np.divide, fine, plan.half)
        fine *= one
        np.clip(fine, -one, one, out=fine)
        np.rint(fine, out=fine)
        np.multiply(fine, 2.0 ** (plan.coarse - plan.bits), out=coarse)
        np.rint(coarse, out=coarse)
        d = X.shape[1]
        np.multiply(coarse, coarse, out=squares)
        sums = {
            SUMS: as_int64(fine.sum(axis=0)),
            THIRDS: as_int64(squares.T @ coarse).ravel(),
            **split_symmetric(PRODUCTS, gram(fine)),
            **split_symmetric(SQUARES, gram(squares)),
        }
        if d > 1:
            np.multiply(squares, coarse, out=cubes)
            sums[FOURTHS] = as_int64(cubes.T @ coarse)[~np.eye(d, dtype=bool)]
        return sums


def read_moments(rows: Rows, plan: CovariancePlan) -> Sums:
    """Return the integers that the stage of a plan releases."""
    return rows.total(_Moments(plan))
