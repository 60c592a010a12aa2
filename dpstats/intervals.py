"""The law of an estimate's error: sampling error plus privacy noise.

A normal sampling error plus Laplace noise is not normal: its tails are those of the noise, and
a normal interval with the right variance undercovers far out. The quantiles here are those of
the sum itself.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import erfcx, ndtri
from scipy.stats import t as student_t


def normal_laplace_tail(x: float, std: float, scale: float) -> float:
    """Return P(N + L > x) for normal N of deviation ``std`` and Laplace L of ``scale``; x >= 0.

    With s = std, b = scale and Q the normal tail, the tail is
    Q(x/s) + e^{s^2/2b^2} (e^{-x/b} Q(s/b - x/s) - e^{x/b} Q(s/b + x/s))/2;
    the exponentials are absorbed in the scaled complementary error function.
    """
    if scale == 0:
        return _normal_tail(x / std) if std > 0 else 0.0
    if std == 0:
        return math.exp(-x / scale) / 2
    ratio, z = std / scale, x / std
    common = math.exp(-z * z / 2)
    upper = common * float(erfcx((ratio + z) / math.sqrt(2)))
    if ratio - z > -5:
        lower = common * float(erfcx((ratio - z) / math.sqrt(2)))
    else:
        lower = 2 * math.exp(ratio * ratio / 2 - x / scale) * (1 - _normal_tail(z - ratio))
    return _normal_tail(z) + (lower - upper) / 4


def _normal_tail(z: float) -> float:
    return math.erfc(z / math.sqrt(2)) / 2


def normal_laplace_quantile(tail: float, std: float, scale: float) -> float:
    """Return x with P(N + L > x) = tail, for a tail of at most one half."""
    normal = std * float(-ndtri(tail))
    laplace = scale * math.log(1 / (2 * tail)) if tail < 0.5 else 0.0
    if std == 0 or scale == 0:
        return normal + laplace
    # P(N + L > a + b) <= P(N > a) + P(L > b): the halved tails bound the root from above.
    high = std * float(-ndtri(tail / 2)) + scale * math.log(1 / tail)
    return float(
        brentq(lambda x: normal_laplace_tail(x, std, scale) - tail, 0.0, high, xtol=1e-300, rtol=1e-12)
    )


def half_widths(
    confidence: float,
    sampling_std: NDArray[np.float64],
    noise: str,
    noise_scale: NDArray[np.float64],
    degrees_of_freedom: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return the half-width of a symmetric interval for each column.

    Parameters
    ----------
    confidence : float
        Confidence level of each interval.
    sampling_std : array of shape (d,)
        Standard deviation of the sampling error; 0 leaves it out.
    noise : {"laplace", "gaussian"}
    noise_scale : array of shape (d,)
        Scale or standard deviation of the noise.
    degrees_of_freedom : array of shape (d,), optional
        Of the estimated variance: widths are enlarged by the ratio of the Student and normal quantiles.
    """
    tail = (1 - confidence) / 2
    if noise == "gaussian":
        widths = np.hypot(sampling_std, noise_scale) * -ndtri(tail)
    else:
        # Few different pairs occur (one for scalar parameters): solve each once.
        pairs = np.stack([sampling_std, noise_scale], axis=1)
        distinct, index = np.unique(pairs, axis=0, return_inverse=True)
        widths = np.array([normal_laplace_quantile(tail, s, b) for s, b in distinct])[index.reshape(-1)]
    if degrees_of_freedom is not None:
        widths = widths * student_t.isf(tail, degrees_of_freedom) / -ndtri(tail)
    return widths


def simultaneous_level(confidence: float, count: int) -> float:
    """Return the level of each of ``count`` intervals that together cover with ``confidence``.

    Sidak's level. It is exact for independent errors and conservative for jointly normal errors of
    any correlation (Sidak 1967), so also for normal sampling errors of any correlation plus
    independent Laplace noise, which is normal given its random variances.
    """
    return math.exp(math.log(confidence) / count)
