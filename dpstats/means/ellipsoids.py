from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpstats.lattice.products import apply_columns
from dpstats.means.ball_products import BallProducts, Extension, Floats

ROUND_SHARES = (0.05, 0.05, 0.05)
"""Fraction of the squared mu for each round."""
ROUND_MEAN = 0.5
"""The constant of an extended row in a round, over the radius of the ball."""
_MOST = 1e6
"""Limit in half-widths. Entries further from the center are moved to it, so that products stay in floating point."""
WIDER, LEAST_SIGNAL = 1.6, 0.3
"""Squared radius of a ball over the expected squared norm of a white row, and least value of the latter over d."""


@dataclass(frozen=True, eq=False)
class Ellipsoid:
    """Public center, whitening matrix and expected size of the white rows."""

    center: Floats  # (..., d): center in half-widths about the public center
    whitening: Floats  # (..., d, d): a white row is whitening (z - center)
    unwhitening: Floats
    signal: Floats  # (...): estimate of the expected squared norm of a white row

    @classmethod
    def first(cls, d: int) -> Ellipsoid:
        """Return the ball that holds the box of the bounds."""
        return cls(np.zeros(d), np.eye(d), np.eye(d), np.asarray(d / WIDER))

    @property
    def n_features(self) -> int:
        return int(self.center.shape[-1])

    def squared_radius(self, factor: float = WIDER) -> Floats:
        """Return the squared radius of a ball for white rows: ``factor`` times their expected squared norm."""
        return np.asarray(factor * np.maximum(self.signal, LEAST_SIGNAL * self.n_features))

    def white_rows(self, Z: Floats, radius: Floats, work: Sequence[Floats | None] = (None, None)) -> Floats:
        """Return rows as white rows in units of ``radius``: shape (..., rows, d). ``work`` is overwritten."""
        shifted = np.clip(Z, -_MOST, _MOST, out=work[0])
        if self.center.ndim == 1:
            apply_columns(np.subtract, shifted.reshape(-1, self.n_features), self.center)
        else:
            shifted = shifted - self.center[..., None, :]
        white = np.asarray(np.matmul(shifted, np.swapaxes(self.whitening, -1, -2), out=work[1]))
        white /= radius[..., None, None]
        return white

    def follow(self, found: BallProducts, radius: Floats, fixed: bool) -> Ellipsoid:
        """Return the next ellipsoid, from the products that a round released; ``fixed`` keeps the center."""
        d, square = self.n_features, radius[..., None, None] ** 2
        matrix = (found.products if fixed else found.covariance) * square
        values, vectors = np.linalg.eigh(matrix)
        positive = np.maximum(values, 0.0)
        # Directions that only noise fills keep the size of the noise.
        size = positive + math.sqrt(2 * d) * found.products_std * radius[..., None] ** 2
        root = np.sqrt(size)
        turned = np.swapaxes(vectors, -1, -2)
        center = self.center
        if not fixed:
            moved = self.unwhitening @ (found.mean * radius[..., None])[..., None]
            center = np.clip(center + moved[..., 0], -1.0, 1.0)
        return Ellipsoid(
            center,
            turned / root[..., :, None] @ self.whitening,
            self.unwhitening @ vectors * root[..., None, :],
            np.asarray((positive / size).sum(axis=-1)),
        )


def round_extension(d: int, bits: int) -> Extension:
    """Return the extension of rows in a round."""
    return Extension(d, ROUND_MEAN, 0.0, bits)


def round_names(count: int = len(ROUND_SHARES)) -> tuple[str, ...]:
    """Return the names of the stages of the rounds."""
    return tuple(f"round {t + 1}" for t in range(count))
