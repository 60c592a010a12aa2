"""CoinPress's private mean, written from its paper.

Biswas, Dong, Kamath and Ullman, "CoinPress: Practical Private Mean and Covariance Estimation",
NeurIPS 2020, algorithms 1 and 2: t rounds of clipping to a ball whose radius shrinks with the
confidence ball of the last estimate. The budget is split as in its section 4 (three quarters to the
last round), and (epsilon, delta) is converted to rho by the optimal conversion, which favours it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpstats.privacy import zcdp_rho

Numbers = NDArray[np.float64]


def coinpress_mean(
    X: Numbers,
    bound: float,
    epsilon: float,
    delta: float,
    rounds: int,
    rng: np.random.Generator,
    beta: float = 0.05,
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


def clipped_shift(X: Numbers, center: Numbers, ball: float) -> Numbers:
    """Return the mean of the rows less ``center``, projected on a ball."""
    shifted = X - center
    norms = np.sqrt(np.einsum("ij,ij->i", shifted, shifted))
    return np.minimum(1, ball / np.maximum(norms, 1e-300)) @ shifted / len(X)


def _normal_norm(d: int, odds: float) -> float:
    """Return a bound on the norm of d normal numbers that fails once in ``odds``."""
    logarithm = np.log(odds)
    return float(np.sqrt(d + 2 * np.sqrt(d * logarithm) + 2 * logarithm))
