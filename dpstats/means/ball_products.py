"""Ellipsoids around most rows, found in rounds: each releases products of rows shrunk into the last ellipsoid.

A row u of norm at most B is extended by constants: v = (a, u), or v = (a, b s, u) with the sign s of its sample. One
stage releases the sum of the matrices v v', which hold the sums of u too. Proof: docs/proofs/ball-products.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.lattice.products import Sums, above_diagonal, gram
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import Block
from dpstats.release.additive import JointIntegers

Floats = NDArray[np.float64]

SIGNED_WEIGHT = 0.1
"""Squared weight of the signed products s u u': only the errors of a difference need them."""
FOURTHS_WEIGHT = 0.1
"""Squared weight of the fourth powers of u: only the errors of variances need them."""
_SAFE = 1 + 1e-12


@dataclass(frozen=True)
class Extension:
    """Rows of the unit ball, extended by constants, as integers whose norm is at most 2^bits."""

    n_features: int
    mean: float  # the constant a, over the radius of the ball
    # The constant b, over the radius of the ball. 0 without signs.
    sign: float
    bits: int
    fourths: bool = False  # whether the fourth powers of the entries are released too
    # Weight of the number of rows outside the ball. 0 without it.
    count: float = 0.0
    # Whether the fourth powers of the norms of the rows are released too. Not with signs or ``fourths``.
    norms: bool = False

    @property
    def constants(self) -> tuple[int, ...]:
        """The constants in steps."""
        unit = 2**self.bits / math.sqrt(1 + self.mean**2 + self.sign**2)
        given = (self.mean, self.sign) if self.sign else (self.mean,)
        return tuple(int(constant * unit) for constant in given)

    @property
    def radius(self) -> int:
        """The radius of the ball in steps: extended rows have a norm of at most 2^bits."""
        return math.isqrt(4**self.bits - sum(constant**2 for constant in self.constants))

    @property
    def size(self) -> int:
        """Number of entries of an extended row."""
        return self.n_features + len(self.constants)

    @property
    def movement(self) -> float:
        """How far replacing one row moves all blocks together, in l2, in units of 4^bits."""
        unit = 2.0**self.bits
        signed = 4 * SIGNED_WEIGHT * (self.radius / unit) ** 4 if self.sign else 0.0
        # The squares of a row, in units of 2^bits, are rounded to integers.
        squares = (self.radius / unit) ** 2 + self.n_features / 2 / unit
        fourths = 2 * FOURTHS_WEIGHT * squares**4 if self.fourths else 0.0
        # Fourth powers of norms cost only the rounding of their squares.
        rounding = (
            (2 * (self.radius / unit) ** 2 + 0.5 / unit) / unit * self._norms_weight if self.norms else 0.0
        )
        return math.hypot(math.sqrt(2 + signed + fourths) + rounding, self.count) * _SAFE

    @property
    def _norms_weight(self) -> float:
        """Weight of the fourth powers of norms: the largest at which they add no cost."""
        return (2.0**self.bits / self.radius) ** 2 / _SAFE

    def integers(self, name: str, n: int, share: float) -> JointIntegers:
        """Return the blocks of the stage for n rows."""
        parts = [(name, self.size, 1.0)]
        if self.sign:
            parts.append((f"{name}, signed", self.n_features, math.sqrt(SIGNED_WEIGHT)))
        unit = 4.0**self.bits
        blocks = []
        for label, size, weight in parts:
            blocks.append(Block(f"{label}, diagonal", size, 1 / unit / n, unit / weight))
            if size > 1:
                above = size * (size - 1) // 2
                blocks.append(
                    Block(f"{label}, above the diagonal", above, 1 / unit / n, unit / weight / math.sqrt(2))
                )
        if self.fourths:
            weight = math.sqrt(FOURTHS_WEIGHT)
            blocks.append(Block(f"{name}, fourths", self.n_features, 1 / unit / n, unit / weight))
        if self.norms:
            blocks.append(
                Block(f"{name}, fourth powers of norms", 1, 1 / unit / n, unit / self._norms_weight)
            )
        if self.count:
            blocks.append(Block(f"{name}, outside", 1, 2.0**-self.bits, 2.0**self.bits / self.count))
        return JointIntegers(name, tuple(blocks), math.inf, self.movement, share)

    def sums(self, name: str, rows: Floats, signs: Floats | None = None) -> Sums:
        """Return the sums of a stage over rows of shape (..., rows, n_features), of the unit ball."""
        inside, outside = _integer_rows(rows, self.radius)
        fixed = np.empty((*rows.shape[:-1], len(self.constants)))
        fixed[..., 0] = self.constants[0]
        if self.sign:
            assert signs is not None
            fixed[..., 1] = self.constants[1] * signs
        turned = np.swapaxes(fixed, -1, -2)
        corner, cross = as_int64(turned @ fixed), as_int64(turned @ inside)
        inner = gram(inside) if inside.ndim == 2 else as_int64(np.swapaxes(inside, -1, -2) @ inside)
        above, below = (corner, cross), (np.swapaxes(cross, -1, -2), inner)
        matrix = np.concatenate([np.concatenate(parts, axis=-1) for parts in (above, below)], axis=-2)
        found = split_symmetric(name, matrix)
        if self.sign:
            assert signs is not None
            found |= split_symmetric(f"{name}, signed", np.swapaxes(inside * signs[:, None], -1, -2) @ inside)
        if self.fourths:
            squares = np.rint(inside**2 * 2.0**-self.bits)
            found[f"{name}, fourths"] = as_int64((squares**2).sum(axis=-2))
        if self.norms:
            norms = np.rint(np.einsum("...ij,...ij->...i", inside, inside) * 2.0**-self.bits)
            found[f"{name}, fourth powers of norms"] = as_int64((norms**2).sum(axis=-1, keepdims=True))
        if self.count:
            found[f"{name}, outside"] = outside.sum(axis=-1, keepdims=True, dtype=np.int64) << self.bits
        return found

    def read(self, name: str, released: Mapping[str, Floats], plan: ReleasePlan) -> BallProducts:
        """Return the averages that a stage released, for rows of the unit ball."""
        unit = 2.0**self.bits
        parts = [constant / unit for constant in self.constants]
        parts += [self.radius / unit] * self.n_features
        scale = np.outer(parts, parts)
        k, d, ball = len(self.constants), self.n_features, self.radius / unit
        matrix = join_symmetric(name, released, self.size) / scale
        above = float(np.asarray(plan.noise(f"{name}, diagonal").std)) / math.sqrt(2)
        signed = signed_std = None
        if self.sign:
            signed = join_symmetric(f"{name}, signed", released, d) / ball**2
            signed_std = (
                float(np.asarray(plan.noise(f"{name}, signed, diagonal").std)) / math.sqrt(2) / ball**2
            )
        return BallProducts(
            plan.n_samples,
            matrix[..., 0, k:],
            matrix[..., k:, k:],
            above / (parts[0] * ball),
            above / ball**2,
            matrix[..., 0, 1] if self.sign else None,
            matrix[..., 1, k:] if self.sign else None,
            signed,
            above / (parts[0] * parts[1]) if self.sign else 0.0,
            above / (parts[1] * ball) if self.sign else 0.0,
            signed_std or 0.0,
            np.asarray(released[f"{name}, fourths"]) / ball**4 if self.fourths else None,
            float(np.asarray(plan.noise(f"{name}, fourths").std)) / ball**4 if self.fourths else 0.0,
            np.asarray(released[f"{name}, outside"])[..., 0] if self.count else None,
            float(np.asarray(plan.noise(f"{name}, outside").std)) if self.count else 0.0,
            np.asarray(released[f"{name}, fourth powers of norms"])[..., 0] / ball**4 if self.norms else None,
            float(np.asarray(plan.noise(f"{name}, fourth powers of norms").std)) / ball**4
            if self.norms
            else 0.0,
        )


@dataclass(frozen=True, eq=False)
class BallProducts:
    """Averages over rows u of the unit ball with signs s, from one release; and their noise."""

    n: int
    mean: Floats  # (..., d): averages of u
    products: Floats  # (..., d, d): averages of u u'
    # Standard deviations of the noise; of products above the diagonal, where it is 1/sqrt(2) of the
    # diagonal's.
    mean_std: float
    products_std: float
    sign: Floats | None = None  # averages of s, s u and s u u'
    signed_mean: Floats | None = None
    signed_products: Floats | None = None
    sign_std: float = 0.0
    signed_mean_std: float = 0.0
    signed_products_std: float = 0.0
    fourths: Floats | None = None  # (..., d): averages of the fourth powers of u
    fourths_std: float = 0.0
    outside: Floats | None = None  # (...): number of rows outside the ball
    outside_std: float = 0.0
    norms: Floats | None = None  # (...): averages of the fourth powers of |u|
    norms_std: float = 0.0

    @property
    def covariance(self) -> Floats:
        """Covariances about the mean, without bias from the noise of the mean."""
        d = self.mean.shape[-1]
        centered = self.products - self.mean[..., :, None] * self.mean[..., None, :]
        return np.asarray(centered + self.mean_std**2 * np.eye(d))


def _integer_rows(rows: Floats, steps: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Return integer rows whose norm is at most ``steps``, and which rows were outside the unit ball.

    These are moved to its sphere.
    """
    size = steps - (math.sqrt(rows.shape[-1]) / 2 + 1)
    with np.errstate(all="ignore"):
        norms = np.sqrt(np.einsum("...ij,...ij->...i", rows, rows))
        far = ~(norms <= 1.0)
        # Most rows have one scale.
        rounded = rows * size
        rounded[far] = rows[far] * (size / norms[far])[:, None]
        np.rint(rounded, out=rounded)
        # Privacy rests on this check alone. A row that fails it, or is not a number, becomes zero.
        outside = ~(np.einsum("...ij,...ij->...i", rounded, rounded) <= float(steps) ** 2)
    rounded[outside] = 0.0
    return rounded, far


def split_symmetric(name: str, matrix: NDArray[Any]) -> Sums:
    """Return the released parts of symmetric matrices: the diagonals, and the entries above them."""
    d = matrix.shape[-1]
    parts = {f"{name}, diagonal": as_int64(np.diagonal(matrix, axis1=-2, axis2=-1))}
    if d > 1:
        rows, columns = above_diagonal(d)
        parts[f"{name}, above the diagonal"] = as_int64(matrix[..., rows, columns])
    return parts


def join_symmetric(name: str, released: Mapping[str, Floats], d: int) -> Floats:
    """Return the symmetric matrices of a release."""
    diagonal = np.asarray(released[f"{name}, diagonal"], dtype=np.float64)
    matrix = diagonal[..., :, None] * np.eye(d)
    if d > 1:
        rows, columns = above_diagonal(d)
        matrix[..., rows, columns] = matrix[..., columns, rows] = released[f"{name}, above the diagonal"]
    return matrix
