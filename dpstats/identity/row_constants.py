"""Public constants of the row distance, from the null distribution of inner products, without data."""

from __future__ import annotations

import math

from scipy.special import ndtr

# Any constants are private. Good constants place tau0 near the median of f0.


def normal_clipped_square(d: int, rho: int, variance: float) -> float:
    """Return E min(<x, y>^2, rho^2) for rows of d columns with this ``variance``, by a normal approximation."""
    t = rho / (variance * math.sqrt(d))
    density = math.exp(-t * t / 2) / math.sqrt(2 * math.pi)
    square = (2 * float(ndtr(t)) - 1) - 2 * t * density + 2 * t * t * float(ndtr(-t))
    return variance**2 * d * square


def approximate_null_f0(n: int, a0: int, clipped_square: float) -> float:
    """Return a closed approximation of the null mean of `row_statistic_f0`.

    Clipped inner products have mean zero and this mean square. Row sums are assumed to be normal. Any public tau0 is
    valid, and this one needs no simulation.
    """
    spread = math.sqrt((n - 1) * clipped_square)
    if spread == 0:
        return 0.0
    s = a0 / spread
    return 2 * n * spread * (math.exp(-s * s / 2) / math.sqrt(2 * math.pi) - s * float(ndtr(-s)))
