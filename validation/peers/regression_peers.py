"""Private regressions of the literature, written from their papers.

All are given the same public bounds as ours, and are for datasets of one public size that differ in one row. They
work in coordinates in which every column, and the outcome of a linear regression, lies in [-1, 1]; a column of ones
stands for the intercept, so that a row has norm at most sqrt(d + 1). Noise is Gaussian, of the exact curve, and k
releases take shares of mu^2 = 1/sigma(epsilon, delta)^2. Neither method comes with intervals, and none are reported.
Nothing here is of `dpstats`: `regression_libraries.py` runs in an environment of its own.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import special

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "studies"))
from regression_designs import most_likely

Numbers = NDArray[np.float64]

STEPS, AVERAGED = 50, 12  # of noisy gradient descent, and the last of them that are averaged
MOMENTUM, STEP = 0.8, 0.4  # public, as are the clips: the best of a few that were tried on these very designs
LINEAR_CLIP, LOGISTIC_CLIP = 0.25, 0.6
FAILURE = 0.05  # of AdaSSP's bound on its noise: rho in the paper


@dataclass(frozen=True)
class Boxed:
    """The map between units of the data and [-1, 1]."""

    x_bounds: Numbers
    y_bounds: tuple[float, float]

    def rows(self, X: Numbers) -> Numbers:
        """Return rows (n, d + 1): ones, and columns in [-1, 1]."""
        low, high = self.x_bounds.T
        U = np.empty((len(X), X.shape[1] + 1))
        U[:, 0] = 1.0
        np.clip((2 * X - (high + low)) / (high - low), -1, 1, out=U[:, 1:])
        return U

    def outcome(self, y: Numbers) -> Numbers:
        """Return outcomes in [-1, 1]."""
        low, high = self.y_bounds
        return np.clip((2 * y - (high + low)) / (high - low), -1, 1)

    def units(self, theta: Numbers, linear: bool = True) -> tuple[Numbers, Numbers]:
        """Return coefficients (..., d) and intercepts in units of the data."""
        low, high = self.x_bounds.T
        y_low, y_high = self.y_bounds if linear else (-1.0, 1.0)
        coef = theta[..., 1:] * (y_high - y_low) / (high - low)
        middle = (y_high + y_low) / 2 + (y_high - y_low) / 2 * theta[..., 0]
        return coef, middle - coef @ ((high + low) / 2)


def adassp(U: Numbers, v: Numbers, mu: float, rng: np.random.Generator) -> Numbers:
    """Return AdaSSP's coefficients of rows of norm at most sqrt(columns) and outcomes in [-1, 1].

    Wang, "Revisiting differentially private linear regression: optimal and adaptive prediction & estimation in
    unbounded domain", UAI 2018, algorithm 2: the smallest eigenvalue of X'X, X'X and X'y with noise, and a ridge that
    is no larger than that eigenvalue calls for. The paper's sensitivities, B^2, B^2 and B, are for a row that is
    added or removed. Where one is replaced they are B^2 (one row can lower the eigenvalue, the other raise it),
    sqrt(2) B^2 and 2 B. The paper's three equal parts of epsilon are here three equal parts of mu^2; its
    sqrt(log(6/delta)) B^2/(epsilon/3) is the standard deviation of the noise.
    """
    d = U.shape[1]
    each, square = mu / math.sqrt(3), float(d)
    gram = U.T @ U
    spread = math.sqrt(2) * square / each
    # Off the diagonal an entry counts twice in the Frobenius norm, and gets half the variance.
    noise = rng.normal(scale=spread, size=(d, d))
    noisy_gram = gram + (noise + noise.T) / 2
    np.fill_diagonal(noisy_gram, np.diag(gram) + np.diag(noise))
    product = U.T @ v + rng.normal(scale=2 * math.sqrt(square) / each, size=d)
    # The paper subtracts log(6/delta)/(epsilon/3) B^2, a lower bound that holds but for delta/6: here the same in
    # standard deviations of the noise, at FAILURE.
    least = np.linalg.eigvalsh(gram)[0] + square / each * (rng.standard_normal() + special.ndtri(FAILURE))
    ridge = max(0.0, math.sqrt(d * math.log(2 * d**2 / FAILURE)) * spread - max(least, 0.0))
    return np.linalg.lstsq(noisy_gram + ridge * np.eye(d), product, rcond=None)[0]


def gradient_descent(
    U: Numbers, v: Numbers, mus: Numbers, rng: np.random.Generator, *, logistic: bool = False
) -> Numbers:
    """Return the coefficients (k, columns) that noisy gradient descent finds at k budgets, on the same rows.

    Full batches and clipped gradients of rows, as in Bassily, Smith and Thakurta (2014), Abadi et al. (2016) and, for
    regression, Brown et al. (2024), with momentum, which is post-processing. Steps, their size and the clip are
    public and fixed. A trace of the second moments of 1 + d/3, as of columns uniform in the box, gives the size of
    the steps, and the norm of a row by which the clip of a residual is multiplied. The last iterates are averaged.
    """
    n, d = U.shape
    trace = 1 + (d - 1) / 3
    step = (4 * STEP if logistic else STEP) / math.sqrt(trace)  # the curvature of the logistic loss is at most 1/4
    clip = (LOGISTIC_CLIP if logistic else LINEAR_CLIP) * math.sqrt(trace)
    noise = 2 * clip * math.sqrt(STEPS) / (n * mus)
    lengths = np.sqrt(np.einsum("ij,ij->i", U, U))[:, None]
    theta, velocity, total = np.zeros((3, d, mus.size))
    for t in range(STEPS):
        index = U @ theta
        residual = v[:, None] - (special.expit(index) if logistic else index)
        # The norm of a row's gradient is |residual| times the norm of the row.
        np.clip(residual, -clip / lengths, clip / lengths, out=residual)
        velocity = MOMENTUM * velocity + U.T @ residual / n + noise * rng.standard_normal(theta.shape)
        theta = theta + step * velocity
        if t >= STEPS - AVERAGED:
            total += theta
    return (total / AVERAGED).T


# What a statistician fits without privacy: parameters with the intercept first, and their covariance.


def ols(X: Numbers, y: Numbers) -> tuple[Numbers, Numbers]:
    """Return least squares and its robust covariance (HC1)."""
    U, back = _standardised(X)
    inverse = np.linalg.pinv(U.T @ U)
    theta = inverse @ (U.T @ y)
    scores = U * (y - U @ theta)[:, None]
    cov = len(y) / (len(y) - U.shape[1]) * inverse @ (scores.T @ scores) @ inverse
    return back @ theta, back @ cov @ back.T


def logit(X: Numbers, y: Numbers) -> tuple[Numbers, Numbers]:
    """Return the fit of largest likelihood and the inverse of its information; not numbers where there is none."""
    theta = most_likely(X, y)
    if np.isnan(theta).any():
        return theta, np.full((theta.size, theta.size), np.nan)
    U, back = _standardised(X)
    p = special.expit(theta[0] + X @ theta[1:])
    return theta, back @ np.linalg.pinv((U * (p * (1 - p))[:, None]).T @ U) @ back.T


def _standardised(X: Numbers) -> tuple[Numbers, Numbers]:
    """Return ones and standardised columns, and the matrix that takes their parameters to those of X."""
    center, scale = X.mean(axis=0), X.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    U = np.empty((len(X), X.shape[1] + 1))
    U[:, 0] = 1.0
    np.divide(X - center, scale, out=U[:, 1:])
    back = np.diag(np.concatenate([[1.0], 1 / scale]))
    back[0, 1:] = -center / scale
    return U, back
