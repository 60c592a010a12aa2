"""Public algebra of a noisy Newton step: curvatures that are pooled, inverted with care, and what that leaves unknown.

Everything here is about what was released; nothing is private.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.lattice.products import above_diagonal

Floats = NDArray[np.float64]

_KNOWN = 0.02
"""Eigenvalues below this, over a typical one, say nothing of a direction's size."""


@dataclass(frozen=True, eq=False)
class Curvature:
    """An estimate of a symmetric matrix, and the variance of its entries."""

    mean: Floats
    variance: Floats

    @classmethod
    def noisy(cls, mean: Floats, std: float) -> Curvature:
        """Return one whose diagonal has noise of this deviation, and the rest of this over sqrt(2)."""
        return cls(mean, std**2 * (1 + np.eye(len(mean))) / 2)

    def scaled(self, factor: float) -> Curvature:
        """Return that of a multiple."""
        return Curvature(self.mean * factor, self.variance * factor**2)

    def toward(self, likely: Floats) -> Curvature:
        """Return what is likelier where ``likely`` is near: nearer to it, the more of the difference may be noise.

        What entries are off is taken to be normal, of one variance on the diagonal and one beside it: each is
        estimated from all entries, a standard error up.
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
        """Return the error of the curvature that a move shows, as a matrix of rank one: beyond noise, or zero.

        The move changed the gradient by ``change``, whose entries have noise of this deviation.
        """
        p, length = moved.size, float(np.linalg.norm(moved))
        off = change - self.mean @ moved
        size = float(off @ off)
        explained = p * noise**2 * (1 + math.sqrt(2 / p)) + (p + 1) * float(self.variance.mean()) * length**2
        beyond = math.sqrt(max(size - explained, 0.0) / max(size, 1e-300))
        return beyond * np.outer(off, moved) / max(length, 1e-150) ** 2

    def along(self, moved: Floats, change: Floats, noise: float) -> Curvature:
        """Return the same when a move is known to have changed the gradient by this, with noise of this deviation.

        The likeliest symmetric matrix where entries are off independently, by one variance. What is left unknown of
        them is not counted as less.
        """
        p = moved.size
        own = float(self.variance.mean())
        spread = (own * float(moved @ moved) + noise**2) * np.eye(p) + own * np.outer(moved, moved)
        pull = np.outer(np.linalg.solve(spread, change - self.mean @ moved), moved) * own
        return Curvature(self.mean + pull + pull.T, self.variance)

    def inverted(self, least: float, common: float = 1.0) -> Inverse:
        """Return what a Newton step divides by: eigenvalues raised by what noise of this size could have taken.

        ``common`` is the eigenvalue of a typical direction.
        """
        values, vectors = np.linalg.eigh(self.mean)
        known = np.maximum(values, 0.0)
        noise = math.sqrt(float(self.variance.mean()))
        raised = np.maximum(known + math.sqrt(2 * len(known)) / 2 * noise, least)
        return Inverse(known, raised, vectors, noise, common)


def pooled(parts: list[Curvature], doubts: list[float]) -> Curvature:
    """Return the average of several estimates, entry by entry, by the precision of each and how far it may be off."""
    weights = np.array([1 / (part.variance + doubt**2) for part, doubt in zip(parts, doubts, strict=True)])
    weights /= weights.sum(axis=0)
    mean = sum(weight * part.mean for weight, part in zip(weights, parts, strict=True))
    variance = sum(weight**2 * part.variance for weight, part in zip(weights, parts, strict=True))
    return Curvature(np.asarray(mean), np.asarray(variance))


@dataclass(frozen=True, eq=False)
class Inverse:
    """A curvature in its eigenvectors: eigenvalues as known and as they are divided by, and the noise of an entry.

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
        """The inverse, as it is applied."""
        return (self.vectors / self.raised) @ self.vectors.T

    @property
    def of_sampling(self) -> Floats:
        """The inverse without what was added to it, as far as that is known.

        All steps meet the same rows: what raised eigenvalues keep of their sampling error, the steps before have made.
        """
        return (self.vectors / np.maximum(self.known, self.raised / 2)) @ self.vectors.T

    @property
    def remainder(self) -> Floats:
        """What a step leaves of the error before it, of what was known: I - h^{-1} e."""
        return (self.vectors * ((self.raised - self.known) / self.raised)) @ self.vectors.T

    def unknown(self, spread: float) -> Floats:
        """Return the covariance of coefficients of which a linear predictor of this spread is all that is known."""
        size = spread**2 / len(self.known) / np.maximum(self.known, _KNOWN * self.common)
        return (self.vectors * size) @ self.vectors.T

    def error_after(
        self, before: Floats, noise: float, again: float = 1.0, mistake: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Return the covariance of the error after a step: what is left of that before it, and the gradient's noise.

        A step leaves what the raised eigenvalues do not remove, and what the noise of the curvature mistakes. An error
        in a direction of curvature e pulls with e at most, so that its noise cannot count for more than that. Where
        steps mistake the same directions, theirs count ``again`` times as much. A known ``mistake`` adds to that.
        """
        old = self.vectors.T @ before @ self.vectors
        kept = (self.raised - self.known) / self.raised
        pull = self.known + self.noise / 2
        mistaken = np.minimum(
            again * self.noise**2 * (1 + np.eye(len(pull))) / 2, np.outer(pull, pull)
        ) @ np.diagonal(old)
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
    """Return the symmetric matrix of what was released of it."""
    p = diagonal.size
    matrix = np.zeros((p, p))
    matrix[above_diagonal(p)] = above
    return matrix + matrix.T + np.diag(diagonal)


def positive(matrix: Floats) -> Floats:
    """Return the nearest matrix without negative eigenvalues."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)
