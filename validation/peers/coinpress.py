"""CoinPress's private mean and covariance, written from its paper, and Analyze Gauss.

Biswas, Dong, Kamath and Ullman, "CoinPress: Practical Private Mean and Covariance Estimation",
NeurIPS 2020, algorithms 1 to 4: t rounds of clipping to a ball whose radius shrinks with the
confidence ball of the last estimate. The budget of the mean is split as in its section 4 (three quarters to the
last round), and (epsilon, delta) is converted to rho by the optimal conversion, which favours it. The covariance has
seven tenths in the last round and the exact noise of a Gaussian release, which favours it more.
Analyze Gauss (Dwork, Talwar, Thakurta and Zhang, STOC 2014) adds noise to the products of rows in a ball.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from dpstats.privacy import gaussian_sigma, zcdp_rho

Numbers = NDArray[np.float64]


def coinpress_mean(
    X: Numbers, bound: float, epsilon: float, delta: float, rounds: int, rng: np.random.Generator, beta: float = 0.05
) -> Numbers:
    """Return the estimate for rows of identity covariance whose mean has entries of size at most ``bound``."""
    n, d = X.shape
    rho = zcdp_rho(epsilon, delta)
    shares = [rho] if rounds == 1 else [rho / 4 / (rounds - 1)] * (rounds - 1) + [0.75 * rho]
    center, radius = np.zeros(d), bound * np.sqrt(d)
    for share in shares:
        ball = radius + _normal_norm(d, n * rounds / beta)
        scale = 2 * ball / n / np.sqrt(2 * share)
        center = center + clipped_shift(X, center, ball) + scale * rng.standard_normal(d)
        radius = _normal_norm(d, rounds / beta) * np.sqrt(1 / n + scale**2)
    return center


def coinpress_covariance(
    X: Numbers, largest: float, epsilon: float, delta: float, rng: np.random.Generator, rounds: int = 4
) -> Numbers:
    """Return the estimate for rows of mean 0 whose covariance has eigenvalues of at most ``largest``."""
    n, d = X.shape
    whitening = np.eye(d) / np.sqrt(largest)
    ball = float(np.sqrt(chi2.ppf(1 - 1 / n, d)))
    for k in range(rounds):
        share = 0.7 if k == rounds - 1 else 0.3 / (rounds - 1)
        noise = gaussian_sigma(epsilon, delta) / np.sqrt(share)
        found = analyze_gauss(X @ whitening.T, ball, noise, rng)
        if k < rounds - 1:
            # A bound on the spectral error of the round.
            error = 2 * np.sqrt(d) * noise * ball**2 / n + 2 * np.sqrt(d / n) + d / n
            values, vectors = np.linalg.eigh(found + error * np.eye(d))
            whitening = (vectors / np.sqrt(np.maximum(values, error))).T @ whitening
    back = np.linalg.inv(whitening)
    return back @ found @ back.T


def analyze_gauss(X: Numbers, ball: float, noise: float, rng: np.random.Generator) -> Numbers:
    """Return the mean of the products of rows clipped to a ball; ``noise`` is for a sensitivity of 1.

    Replacing a row moves the matrix by at most sqrt(2) ball^2 / n in the Frobenius norm, in which each entry off the
    diagonal counts twice.
    """
    n, d = X.shape
    shrunk = X * np.minimum(1, ball / np.maximum(np.linalg.norm(X, axis=1), 1e-300))[:, None]
    off = np.triu(rng.standard_normal((d, d)), 1)
    random = off + off.T + np.sqrt(2) * np.diag(rng.standard_normal(d))
    return shrunk.T @ shrunk / n + noise * ball**2 / n * random


def clipped_shift(X: Numbers, center: Numbers, ball: float) -> Numbers:
    """Return the mean of the rows less ``center``, projected on a ball."""
    shifted = X - center
    norms = np.sqrt(np.einsum("ij,ij->i", shifted, shifted))
    return np.minimum(1, ball / np.maximum(norms, 1e-300)) @ shifted / len(X)


def _normal_norm(d: int, odds: float) -> float:
    """Return a bound on the norm of d normal numbers that fails once in ``odds``."""
    logarithm = np.log(odds)
    return float(np.sqrt(d + 2 * np.sqrt(d * logarithm) + 2 * logarithm))
