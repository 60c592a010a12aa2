"""The norm of the sum of many projected rows, simulated from its normal limit: at any number of rows, at one cost."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

# From here on the sum of simulated rows is drawn from its normal limit. The rows are bounded, and
# symmetric under the null, so that probabilities of balls are off by O(1/n), less than a calibration is,
# where Cramer's condition holds: not for one column and a tiny radius, where rows are nearly two-valued.
NORMAL_LIMIT = 10_000
_MOMENT_ROWS = 200_000


def normal_limit(
    n: int, d: int, radius: float, size: int, generator: np.random.Generator, shift: Any
) -> NDArray[np.float64]:
    """Return ||S|| with S drawn from the normal law that has its mean and variances.

    Without a shift the projection x min(1, radius/||x||) is rotation invariant, with E min(||x||, radius)^2/d
    in every direction, in closed form. With one it is invariant around the shift, and three moments decide.
    """
    distance = float(np.linalg.norm(np.broadcast_to(np.asarray(shift, dtype=np.float64), (d,))))
    if distance == 0:
        square = chi2.cdf(radius**2, d + 2) + radius**2 / d * chi2.sf(radius**2, d)
        mean, along, across = 0.0, square, square
    else:
        moments = np.random.default_rng(0)  # the same for every shift: power curves are smooth
        first = moments.standard_normal(_MOMENT_ROWS) + distance
        rest = moments.chisquare(d - 1, _MOMENT_ROWS) if d > 1 else np.zeros(_MOMENT_ROWS)
        factor = np.minimum(1.0, radius / np.sqrt(first**2 + rest))
        mean, along = float(np.mean(factor * first)), float(np.var(factor * first))
        across = float(np.mean(factor**2 * rest)) / max(d - 1, 1)
    parallel = n * mean + math.sqrt(n * along) * generator.standard_normal(size)
    other = n * across * generator.chisquare(d - 1, size) if d > 1 else 0.0
    norm: NDArray[np.float64] = np.sqrt(parallel**2 + other)
    return norm
