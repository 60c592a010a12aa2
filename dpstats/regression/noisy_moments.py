"""Coefficients from a noisy matrix of second moments, and the covariance of their errors: public algebra.

Least squares divides X'y by X'X, and here both have noise. With A + N for X'X/n and b + e for X'y/n,

    (A + N)^{-1}(b + e) - theta = (A + N)^{-1}(score + e - N theta),

and the covariance of the noise e - N theta depends only on theta and known numbers. On average the inverse of A + N is
too large, by A^{-1} E[N A^{-1} N] A^{-1} to second order. The divisor is therefore H = A + N + E[N H^{-1} N]. The last
term is a ridge that keeps H positive for any noise, and is very small if the noise is small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.regression.bins import Floats

KNOWN = 0.9
"""A coefficient is identified if at least this fraction of its divisor was released. The remainder is the ridge."""

_ROUNDS, _CLOSE = 100, 1e-11
_LEAST = 0.01
"""Smallest assumed variance of the columns in a direction, relative to the average variance."""
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
        """Return the root of the sum of the noise variances in a matrix row of p entries."""
        return math.sqrt(self.above**2 * (p - 1) + self.diagonal**2)

    def hides(self, p: int, eigenvalue: float) -> bool:
        """Return whether noise hides columns with variance ``eigenvalue`` in all p directions."""
        divisor = (eigenvalue + math.sqrt(eigenvalue**2 + 4 * self.size(p) ** 2)) / 2
        return eigenvalue < KNOWN * divisor


def divisor(matrix: Floats, noise: MatrixNoise) -> Floats:
    """Return the positive H = A + E[N H^{-1} N] for a released A, without its negative eigenvalues.

    For an eigenvalue a of A, which is not negative, the map h -> a + s/h has slope -s/h^2 at its fixed point, at least
    -1. A damped iteration reduces the error by a factor of at least 3.
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
    """Coefficients and their errors from a released matrix, in given units.

    Attributes
    ----------
    estimate : array of shape (p,)
    cov : array of shape (p, p)
        Covariance of the errors.
    privacy : array of shape (p, p)
        The part of ``cov`` that is not sampling error.
    known : array of bool, shape (p,)
        Whether each coefficient is identified.
    scale : float
        Standard deviation of the residuals, in the coordinate of the outcome that the matrix has.
    condition : float
        Condition number of the divisor.
    share : float
        Average squared factor that scaled the rows. The factor of a dropped row is 0.
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
    """Return the coefficients from released second moments of rows f (constant, x, y), with f in (0, 1] depending on x.

    ``units`` converts theta, the coefficients for the coordinates (constant, x), or x without an intercept. Each of its
    rows gives one estimated coefficient.
    """
    first = 0 if intercept else 1
    own = moments[first:, first:]
    A, b, outcome = own[:-1, :-1], own[:-1, -1], float(own[-1, -1])
    p = b.size
    H = divisor(A, noise)
    G = _inverse(H)
    theta = G @ b
    score = noise.through(np.outer(theta, theta)) + noise.above**2 * np.eye(p)

    # Error due to the ridge: before the release, only the range of the outcome limits the coefficients.
    values, vectors = np.linalg.eigh(A)
    typical = max(float(np.maximum(values, 0.0).mean()), noise.size(p))
    room = max(outcome, noise.diagonal) / np.maximum(values, _LEAST * typical)
    remainder = np.eye(p) - G @ A
    left = (remainder @ vectors * room) @ (remainder @ vectors).T

    # The added term corrects for residuals that fit the noise. Rows are scaled by at most 1, so f^4 xx' <= f^2 xx'.
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
    """Return the factor by which each standard error grows if the truth differs by two standard errors."""
    # The noise depends on theta, and an estimate that is too small understates it. So this evaluates the noise at the
    # worse endpoint of the interval, as an interval that inverts a test does (Fieller 1954). The range of the outcome
    # limits how large theta can be.
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
