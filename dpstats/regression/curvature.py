"""Public algebra of a noisy Newton step: pool and invert noisy curvatures, and compute the remaining error.

The functions use only released values, so nothing here is private. Proof: docs/proofs/regression.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpstats.lattice.sums import above_diagonal
from dpstats.regression.passes import Floats

_KNOWN = 0.02
"""Eigenvalues below this fraction of a typical one are too small to show the scale of a direction."""


@dataclass(frozen=True, eq=False)
class Curvature:
    """An estimate of a symmetric matrix, and the variance of its entries."""

    mean: Floats
    variance: Floats

    @classmethod
    def noisy(cls, mean: Floats, std: float) -> Curvature:
        """Return a curvature with noise of standard deviation ``std`` on the diagonal and std / sqrt(2) elsewhere."""
        return cls(mean, std**2 * (1 + np.eye(len(mean))) / 2)

    def no_larger_than(self, now: Curvature) -> Curvature:
        """Return the curvature, reduced to the size of a later one if the decrease exceeds the noise of both."""
        noise = 2 * math.sqrt(float(np.trace(self.variance + now.variance)))
        ratio = (float(np.trace(now.mean)) + noise) / max(float(np.trace(self.mean)), 1e-9)
        factor = min(max(ratio, 0.25), 1.0)
        return Curvature(self.mean * factor, self.variance * factor**2)

    def toward(self, likely: Floats) -> Curvature:
        """Return the curvature shrunk toward ``likely``: the more, the larger the noise is within the difference.

        The true differences are assumed to be normal, with one variance on the diagonal and another off it. Each
        variance is estimated from all its entries, plus one standard error.
        """
        rest, own = self.mean - likely, np.zeros_like(self.mean)
        diagonal = np.eye(len(rest), dtype=bool)
        for part, count in ((diagonal, len(rest)), (~diagonal, diagonal.sum() * (len(rest) - 1) / 2)):
            if count:
                seen = float((rest[part] ** 2).mean()) * (1 + math.sqrt(2 / count))
                own[part] = max(seen - float(self.variance[part].mean()), 0.0)
        gain = own / (own + self.variance)
        return Curvature(likely + gain * rest, gain * self.variance)

    def averaged(self, other: Curvature) -> Curvature:
        """Return the average with another curvature, of independent noise."""
        return Curvature((self.mean + other.mean) / 2, (self.variance + other.variance) / 4)

    def mistake(self, moved: Floats, change: Floats, noise: float) -> Floats:
        """Return the error of the curvature along a move, as a matrix of rank one. Zero if noise explains it.

        The move changed the gradient by ``change``. Its entries have noise of standard deviation ``noise``.
        """
        p, length = moved.size, float(np.linalg.norm(moved))
        off = change - self.mean @ moved
        size = float(off @ off)
        explained = p * noise**2 * (1 + math.sqrt(2 / p)) + (p + 1) * float(self.variance.mean()) * length**2
        beyond = math.sqrt(max(size - explained, 0.0) / max(size, 1e-300))
        return beyond * np.outer(off, moved) / max(length, 1e-150) ** 2

    def along(self, moved: Floats, change: Floats, noise: float) -> Curvature:
        """Return the curvature updated by a move that changed the gradient by ``change``.

        ``noise`` is the standard deviation of the noise in an entry of ``change``. The update gives the most likely
        symmetric matrix if the errors of the entries are independent with one variance. The stated variance stays.
        """
        p = moved.size
        own = float(self.variance.mean())
        spread = (own * float(moved @ moved) + noise**2) * np.eye(p) + own * np.outer(moved, moved)
        pull = np.outer(np.linalg.solve(spread, change - self.mean @ moved), moved) * own
        return Curvature(self.mean + pull + pull.T, self.variance)

    def inverted(self, least: float, common: float = 1.0) -> Inverse:
        """Return the divisor of a Newton step: the eigenvalues, raised by the amount that noise may have removed.

        ``common`` is the eigenvalue of a typical direction.
        """
        values, vectors = np.linalg.eigh(self.mean)
        known = np.maximum(values, 0.0)
        noise = math.sqrt(float(self.variance.mean()))
        raised = np.maximum(known + math.sqrt(2 * len(known)) / 2 * noise, least)
        return Inverse(known, raised, vectors, noise, common)


def pooled(parts: list[Curvature], doubts: list[float]) -> Curvature:
    """Return the average of several estimates, weighted entry by entry by noise variance and squared doubt."""
    weights = np.array([1 / (part.variance + doubt**2) for part, doubt in zip(parts, doubts, strict=True)])
    weights /= weights.sum(axis=0)
    mean = sum(weight * part.mean for weight, part in zip(weights, parts, strict=True))
    variance = sum(weight**2 * part.variance for weight, part in zip(weights, parts, strict=True))
    return Curvature(np.asarray(mean), np.asarray(variance))


@dataclass(frozen=True, eq=False)
class Inverse:
    """Inverse of a curvature in its eigenvectors: estimated and raised eigenvalues, and the noise of an entry.

    ``common`` is the eigenvalue of a typical direction.
    """

    known: Floats
    raised: Floats
    vectors: Floats
    noise: float
    common: float = 1.0

    def __call__(self, vector: Floats) -> Floats:
        """Return the Newton step of a gradient."""
        return (self.vectors / self.raised) @ (self.vectors.T @ vector)

    @property
    def matrix(self) -> Floats:
        """The inverse with raised eigenvalues, as a step applies it."""
        return (self.vectors / self.raised) @ self.vectors.T

    @property
    def of_sampling(self) -> Floats:
        """The inverse for the sampling error: without the raise, but with at least half of each raised eigenvalue.

        All steps use the same rows. Earlier steps already contain the sampling error that raised eigenvalues retain.
        """
        return (self.vectors / np.maximum(self.known, self.raised / 2)) @ self.vectors.T

    @property
    def remainder(self) -> Floats:
        """Fraction of the earlier error that remains after a step, I - h^{-1} e, for known eigenvalues e."""
        return (self.vectors * ((self.raised - self.known) / self.raised)) @ self.vectors.T

    def likely_meat(self, meat: Floats, std: float) -> tuple[Floats, Floats]:
        """Return a noisy meat matrix, pulled toward a multiple of the curvature where noise is large, and the multiple.

        ``std`` is the standard deviation of the noise on its diagonal.
        """
        p, size = len(meat), float(np.trace(meat))
        curvature = (self.vectors * self.known) @ self.vectors.T
        even = curvature * max(size, std * p) / max(float(self.known.sum()), 1e-9)
        doubt = 4 * (std * p / max(size, 1e-12)) ** 2
        return (meat + doubt * even) / (1 + doubt), even

    def unknown(self, spread: float) -> Floats:
        """Return the covariance of unknown coefficients whose linear predictor has this standard deviation."""
        size = spread**2 / len(self.known) / np.maximum(self.known, _KNOWN * self.common)
        return (self.vectors * size) @ self.vectors.T

    def error_after(
        self, before: Floats, noise: float, again: float = 1.0, mistake: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Return the covariance of the error after a step, in two parts: remaining earlier error, and gradient noise.

        The remaining error has two sources: the raised eigenvalues, and the noise of the curvature. An error in a
        direction of curvature e moves the gradient by at most e, which limits the effect of the noise. If steps
        repeat the same curvature error, its effect is multiplied by ``again``. A known ``mistake`` is added.
        """
        old = self.vectors.T @ before @ self.vectors
        kept = (self.raised - self.known) / self.raised
        pull = self.known + self.noise / 2
        mistaken = np.minimum(again * self.noise**2 * (1 + np.eye(len(pull))) / 2, np.outer(pull, pull)) @ np.diagonal(
            old
        )
        left = kept[:, None] * old * kept + np.diag(mistaken / self.raised**2)
        if mistake is not None:
            turned = (self.vectors.T @ mistake @ self.vectors) / self.raised[:, None]
            left += turned @ old @ turned.T
        size = np.maximum(self.known, _KNOWN * self.common)
        most, now = size @ np.diagonal(old), size @ np.diagonal(left)
        if now > most:
            left *= most / now
        after = self.vectors @ left @ self.vectors.T
        return after, (self.vectors * (noise / self.raised) ** 2) @ self.vectors.T


def symmetric(diagonal: Floats, above: Floats) -> Floats:
    """Return the symmetric matrix with this diagonal and these entries above it."""
    p = diagonal.size
    matrix = np.zeros((p, p))
    matrix[above_diagonal(p)] = above
    return matrix + matrix.T + np.diag(diagonal)


def positive(matrix: Floats) -> Floats:
    """Return the nearest matrix without negative eigenvalues."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)
