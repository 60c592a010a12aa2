"""Coefficients from a noisy matrix of second moments, and the covariance of their errors: public algebra.

Least squares divides X'y by X'X, and here both have noise, the same row's: with A + N for X'X/n and b + e for X'y/n,

    (A + N)^{-1}(b + e) - theta = (A + N)^{-1}(score + e - N theta),

and the noise e - N theta has a covariance that is known but for theta. The inverse of A + N is too large on average, by
A^{-1} E[N A^{-1} N] A^{-1} to second order. So what is divided by is H = A + N + E[N H^{-1} N], in which the noise's
own part keeps H positive, whatever the noise was: a ridge that is next to nothing where the noise is small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

KNOWN = 0.9
"""A coefficient is identified if this part of what it is divided by was released, and the rest is ridge."""

_ROUNDS, _CLOSE = 100, 1e-11
_LEAST = 0.01
"""Directions in which columns vary less than this, where they vary by 1 on average, are taken to vary so much."""
_ERRORS, _TIMES = 2.0, 3
_LEAST_SHARE = 0.01


@dataclass(frozen=True)
class MatrixNoise:
    """Independent noise of a symmetric matrix: standard deviations on the diagonal and above it."""

    diagonal: float
    above: float

    def through(self, middle: Floats) -> Floats:
        """Return E[N T N] of a symmetric T."""
        even = self.above**2 * (np.trace(middle) * np.eye(len(middle)) + middle)
        result: Floats = even + (self.diagonal**2 - 2 * self.above**2) * np.diag(np.diagonal(middle))
        return result

    def along(self, left: Floats, right: Floats) -> Floats:
        """Return the variance of l'N r for each pair of rows l, r."""
        even = (left**2).sum(axis=1) * (right**2).sum(axis=1) + (left * right).sum(axis=1) ** 2
        own = (left**2 * right**2).sum(axis=1)
        result: Floats = self.above**2 * even + (self.diagonal**2 - 2 * self.above**2) * own
        return result

    def size(self, p: int) -> float:
        """Return what noise makes of a row of p entries: the root of the sum of its variances."""
        return math.sqrt(self.above**2 * (p - 1) + self.diagonal**2)

    def hides(self, p: int, eigenvalue: float) -> bool:
        """Say whether columns that vary so much in all p directions would not be identified."""
        divisor = (eigenvalue + math.sqrt(eigenvalue**2 + 4 * self.size(p) ** 2)) / 2
        return eigenvalue < KNOWN * divisor


def divisor(matrix: Floats, noise: MatrixNoise) -> Floats:
    """Return the positive H = A + E[N H^{-1} N] for a released A, without its negative eigenvalues.

    On an eigenvalue a of A that is not negative h -> a + s/h turns by s/h^2 at its end, 1 at most: part of the way it
    contracts to a third at least.
    """
    values, vectors = np.linalg.eigh(matrix)
    values, s = np.maximum(values, 0.0), noise.size(len(matrix)) ** 2
    known: Floats = (vectors * values) @ vectors.T
    start = (values + np.sqrt(values**2 + 4 * s)) / 2
    found: Floats = (vectors * start) @ vectors.T
    part = 1 / (1 + s / float(start.min()) ** 2 / 2)
    for _ in range(_ROUNDS):
        new = found + part * (known + noise.through(_inverse(found)) - found)
        close = float(np.abs(new - found).max()) <= _CLOSE * float(np.abs(new).max())
        found = new
        if close:
            break
    return found


def _inverse(matrix: Floats) -> Floats:
    inverse = np.asarray(np.linalg.inv(matrix), dtype=np.float64)
    return (inverse + inverse.T) / 2


@dataclass(frozen=True, eq=False)
class Coefficients:
    """What a released matrix says of coefficients, in given units.

    Attributes
    ----------
    estimate : array of shape (p,)
    cov : array of shape (p, p)
        Of the error.
    privacy : array of shape (p, p)
        The part of it that is not sampling error.
    known : array of bool, shape (p,)
        Whether coefficients are more than noise.
    scale : float
        Standard deviation of the residuals, in the matrix's coordinate of the outcome.
    condition : float
        Of what was divided by.
    share : float
        The average squared factor that rows were scaled by, of a dropped row 0.
    """

    estimate: Floats
    cov: Floats
    privacy: Floats
    known: NDArray[np.bool_]
    scale: float
    condition: float
    share: float


def coefficients(
    moments: Floats, noise: MatrixNoise, n: int, constant: float, intercept: bool, units: Floats
) -> Coefficients:
    """Return what released second moments of rows f (constant, x, y) say, f in (0, 1] a function of x.

    Rows of ``units`` say what is estimated: theta about coordinates (constant, x), or x without an intercept, times it.
    """
    first = 0 if intercept else 1
    own = moments[first:, first:]
    A, b, outcome = own[:-1, :-1], own[:-1, -1], float(own[-1, -1])
    p = b.size
    H = divisor(A, noise)
    G = _inverse(H)
    theta = G @ b
    score = noise.through(np.outer(theta, theta)) + noise.above**2 * np.eye(p)

    # What the ridge leaves, of coefficients of which the outcome's spread is all that is known.
    values, vectors = np.linalg.eigh(A)
    typical = max(float(np.maximum(values, 0.0).mean()), noise.size(p))
    room = max(outcome, noise.diagonal) / np.maximum(values, _LEAST * typical)
    remainder = np.eye(p) - G @ A
    left = (remainder @ vectors * room) @ (remainder @ vectors).T

    # Residuals fit the noise too, by what is added. Rows are scaled by at most 1: f^4 xx' is at most f^2 xx'.
    away = np.append(-theta, 1.0)
    away_std = math.sqrt(float(noise.along(away[None], away[None])[0]))
    square = max(float(away @ own @ away) + float((G * score).sum()), away_std)
    share = min(max(float(moments[0, 0]) / constant**2, noise.diagonal / constant**2, _LEAST_SHARE), 1.0)
    sampling = square / share / n * G

    total = G @ score @ G + sampling + left
    worse = _worst(G, theta, total, noise, units, vectors / np.sqrt(room))
    cov = worse[:, None] * (units @ total @ units.T) * worse
    released = units @ (G @ A @ G) @ units.T
    known = np.diagonal(released) >= KNOWN * np.diagonal(units @ G @ units.T)
    eigenvalues = np.linalg.eigvalsh(H)
    condition = float(eigenvalues[-1] / eigenvalues[0])
    privacy = cov - units @ sampling @ units.T
    return Coefficients(units @ theta, cov, privacy, known, math.sqrt(square / share), condition, share)


def _worst(
    G: Floats, theta: Floats, total: Floats, noise: MatrixNoise, units: Floats, walls: Floats
) -> Floats:
    """Return by how much the standard error of each coefficient grows if the truth is two of them off.

    The noise depends on theta, and an estimate that is too small understates it: so it is taken at the worse end of
    the interval, as one that is found by testing every value does (Fieller 1954), as far as the outcome's spread
    allows.
    """
    pulls = units @ G
    variance = np.diagonal(units @ total @ units.T)
    toward = (units @ total) / np.sqrt(variance)[:, None]
    here = noise.along(pulls, np.broadcast_to(theta, pulls.shape))
    grown = np.ones(len(units))
    for _ in range(_TIMES):
        off = _ERRORS * grown[:, None] * toward
        off /= np.maximum(np.linalg.norm(off @ walls, axis=1), 1.0)[:, None]
        there = np.maximum(noise.along(pulls, theta + off), noise.along(pulls, theta - off))
        grown = np.sqrt(np.maximum((variance - here + there) / variance, 1.0))
    return grown
