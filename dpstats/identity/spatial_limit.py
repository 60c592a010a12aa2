"""The norm of the sum of many projected rows, simulated from its normal limit: at any number of rows, at one cost."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, ncx2, norm

# For x ~ N(a e, I) and any h, with u_k noncentral chi-square of k degrees and noncentrality a^2,
#
#     E[<x, e> h(|x|^2)] = a E h(u_{d+2}),    E[x_j^2 h(|x|^2)] = E h(u_{d+2}) + a^2 e_j^2 E h(u_{d+4}),
#
# so that the moments of x min(1, radius/|x|) are integrals over a line. They must be exact, because the error in the
# mean of a row is multiplied by n in the sum.

# From this number of rows, the sum of simulated rows is drawn from its normal limit. The rows are bounded, and
# symmetric under the null. So the error in the probability of a ball is O(1/n), less than the error of a calibration.
# This requires Cramer's condition, which fails for one column and a tiny radius, because rows are nearly two-valued.
NORMAL_LIMIT = 10_000

_TAIL = 12.0  # standard deviations of a length, or more: beyond there is nothing that counts
_FAR = 1e4  # lengths of rows so far off are normal around sqrt(a^2 + df - 1), to 1e-8 of it up to a million columns
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)


def normal_limit(
    n: int, d: int, radius: float, size: int, generator: np.random.Generator, shift: Any
) -> NDArray[np.float64]:
    """Return ||S|| with S drawn from the normal law that has its mean and variances, along the shift and across."""
    distance = float(np.linalg.norm(np.broadcast_to(np.asarray(shift, dtype=np.float64), (d,))))
    mean, along, across = projected_moments(distance, d, radius)
    parallel = n * mean + math.sqrt(n * along) * generator.standard_normal(size)
    other = n * across * generator.chisquare(d - 1, size) if d > 1 else 0.0
    found: NDArray[np.float64] = np.sqrt(parallel**2 + other)
    return found


@lru_cache(maxsize=1024)
def projected_moments(distance: float, d: int, radius: float) -> tuple[float, float, float]:
    """Return, of x min(1, radius/||x||) with x ~ N(distance e, I): mean and variance along e, and variance across."""
    mean = distance * _shrunk(1, d + 2, distance, radius)
    across = _shrunk(2, d + 2, distance, radius)
    along = across + distance**2 * _shrunk(2, d + 4, distance, radius) - mean**2
    return mean, max(along, 0.0), across


def _shrunk(power: int, df: int, distance: float, radius: float) -> float:
    """Return E min(1, radius/s)^power for s^2 noncentral chi-square, of noncentrality distance^2."""
    center = math.hypot(distance, math.sqrt(df - 1))
    low, high = max(radius, center - _TAIL), center + _TAIL
    s = low + (high - low) * (1 + _NODES) / 2
    if distance > _FAR:
        inside, density = norm.cdf(radius - center), norm.pdf(s - center)
    else:
        law = ncx2(df, distance**2) if distance else chi2(df)
        inside, density = law.cdf(radius**2), 2 * s * law.pdf(s**2)
    if low >= high:
        return float(inside)
    return float(inside + (high - low) / 2 * np.sum(_WEIGHTS * (radius / s) ** power * density))
