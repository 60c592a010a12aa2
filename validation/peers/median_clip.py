"""A private median of every column, then one clipped mean around them: what a practitioner would build."""

from __future__ import annotations

import numpy as np
from coinpress import Numbers, clipped_shift
from scipy import special

from dpstats.privacy import zcdp_rho


def median_clip_mean(
    X: Numbers,
    bound: float,
    epsilon: float,
    delta: float,
    rng: np.random.Generator,
    share: float = 0.25,
    step: float = 0.1,
) -> Numbers:
    """Return the estimate for rows of standard deviation 1; the medians are those of the exponential mechanism."""
    n, d = X.shape
    rho = zcdp_rho(epsilon, delta)
    grid = np.arange(-bound, bound + step / 2, step)
    each = np.sqrt(8 * share * rho / d)  # bounded range: each^2/8 of a column's rho
    ranks = np.stack([np.searchsorted(column, grid) for column in np.sort(X, axis=0).T])
    utilities = -np.abs(ranks - n / 2)  # sensitivity 1 where one row is replaced
    center = grid[np.argmax(each * utilities / 2 + rng.gumbel(size=utilities.shape), axis=1)]
    error = np.sqrt(2 * np.pi) * 2 * np.log(len(grid)) / each / n + 1.25 / np.sqrt(n) + step / 2
    ball = np.sqrt((1 + min(error, bound) ** 2) * special.chdtri(d, 1 / n))
    scale = 2 * ball / n / np.sqrt(2 * (1 - share) * rho)
    return center + clipped_shift(X, center, ball) + scale * rng.standard_normal(d)
