"""The distribution of an estimate's error, sampling error plus privacy noise: tails, limits and intervals.

A normal sampling error plus Laplace noise has the tails of the noise: a normal interval with the right variance
undercovers at high levels. An `ErrorDistribution` knows limits or tails; the other follows by one search.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import erfcx, ndtr, ndtri, stdtrit

_BITS = 52  # of a distance: its precision


def normal_laplace_tail(x: float, std: float, scale: float) -> float:
    """Return P(N + L > x) for normal N of deviation ``std`` and Laplace L of ``scale``; x >= 0."""
    return float(
        _normal_laplace_tails(*(np.array([value], dtype=np.float64) for value in (x, std, scale)))[0]
    )


def error_tails(
    x: NDArray[np.float64], sampling_std: NDArray[np.float64], noise: str, noise_scale: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return P(error > x) for each x: of a normal sampling error plus "gaussian" or "laplace" noise.

    Where there is no error at all the probability is 1/2 at 0.
    """
    distance, std, scale = np.broadcast_arrays(np.abs(x), sampling_std, noise_scale)
    with np.errstate(all="ignore"):
        if noise == "gaussian":
            tails = ndtr(-np.where(distance > 0, distance / np.hypot(std, scale), 0.0))
        else:
            tails = _normal_laplace_tails(distance, std, scale)
    return np.asarray(np.where(np.asarray(x) < 0, 1 - tails, tails))


def _normal_laplace_tails(
    x: NDArray[np.float64], std: NDArray[np.float64], scale: NDArray[np.float64]
) -> NDArray[np.float64]:
    # Let s = std, b = scale, and let Q be the normal tail. The tail of the sum is
    # Q(x/s) + e^{s^2/2b^2} (e^{-x/b} Q(s/b - x/s) - e^{x/b} Q(s/b + x/s))/2.
    # The scaled complementary error function absorbs the exponentials.
    root = math.sqrt(2)
    with np.errstate(all="ignore"):
        ratio, z = std / scale, np.where(x > 0, x / std, 0.0)
        common = np.exp(-z * z / 2)
        upper = common * erfcx((ratio + z) / root)
        near = common * erfcx((ratio - z) / root)
        far = 2 * np.exp(ratio * ratio / 2 - x / scale) * ndtr(z - ratio)
        both = ndtr(-z) + (np.where(ratio - z > -5, near, far) - upper) / 4
        only_laplace = np.exp(-np.where(x > 0, x / scale, 0.0)) / 2
    only_normal = np.where(std > 0, ndtr(-z), np.where(x > 0, 0.0, 0.5))
    return np.where(scale == 0, only_normal, np.where(std == 0, only_laplace, both))


_APART = 1.02
"""Smallest ratio of Laplace scales.

Closer scales are separated, because the tail of the sum is a difference.
"""


def laplace_sum_tails(
    x: NDArray[np.float64], std: NDArray[np.float64], scales: Sequence[NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Return P(N + L > x) for normal N of deviation ``std`` and a sum L of Laplace variables of these scales; x >= 0.

    The characteristic function of a sum of Laplace variables with different scales b_i is a weighted sum of
    theirs, with weights prod_j b_i^2/(b_i^2 - b_j^2). The same holds for its tail, also with an added normal
    variable. Nearly equal scales are separated by increasing the larger ones.
    """
    ordered = np.sort(np.stack(np.broadcast_arrays(*scales)), axis=0)
    for smaller, larger in itertools.pairwise(ordered):
        np.maximum(larger, np.maximum(_APART * smaller, 1e-12 * ordered[-1]), out=larger)
    squares = ordered**2
    total = np.zeros(np.broadcast_shapes(x.shape, std.shape, ordered.shape[1:]))
    for i, scale in enumerate(ordered):
        weight = np.ones_like(scale)
        for j, other in enumerate(squares):
            if j != i:
                weight = weight * squares[i] / (squares[i] - other)
        total = total + weight * error_tails(x, std, "laplace", scale)
    return np.clip(total, 0.0, 0.5)


def furthest(
    start: NDArray[np.float64],
    end: NDArray[np.float64],
    kept: Callable[[NDArray[np.float64]], NDArray[np.bool_]],
    precision: int = _BITS,
) -> NDArray[np.float64]:
    """Return for each column how far from ``start`` towards ``end`` values are kept, which ``start`` is.

    By bisection: the accepted values form an interval. ``kept`` is evaluated at several values of each column
    at once, of shape (values, columns), because for few columns a call costs the same as for one value.
    ``precision`` is in bits of the distance.
    """
    inside, outside = np.array(start, dtype=np.float64), np.array(end, dtype=np.float64)
    bits = max(1, 6 - inside.size.bit_length() // 2)  # by which a round narrows
    shares = (np.arange(1, 2**bits) / 2**bits)[:, None]
    columns = np.arange(inside.size)
    reached = kept(outside[None])[0]
    for _ in range(-(-precision // bits)):
        steps = np.vstack([inside, inside + (outside - inside) * shares, outside])
        last = np.logical_and.accumulate(kept(steps[1:-1])).sum(axis=0)
        inside, outside = steps[last, columns], steps[last + 1, columns]
    return np.where(reached, end, inside)


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
    tail: float,  # the probability that an interval leaves on each side
    # Shape (d,). Standard deviation of the sampling error; 0 leaves it out.
    sampling_std: NDArray[np.float64],
    noise: str,  # one of "laplace", "gaussian"
    noise_scale: NDArray[np.float64],  # (d,): scale or standard deviation of the noise
    # Shape (d,). Of the estimated variance: widths are enlarged by the ratio of the Student and normal
    # quantiles.
    degrees_of_freedom: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return the half-width of a symmetric interval for each column."""
    if noise == "gaussian":
        widths = np.hypot(sampling_std, noise_scale) * -ndtri(tail)
    else:
        # Few different pairs occur (one for scalar parameters): solve each once.
        pairs = np.stack([sampling_std, noise_scale], axis=1)
        distinct, index = np.unique(pairs, axis=0, return_inverse=True)
        widths = np.array([normal_laplace_quantile(tail, s, b) for s, b in distinct])[index.reshape(-1)]
    if degrees_of_freedom is not None:
        widths = widths * stdtrit(degrees_of_freedom, tail) / ndtri(tail)
    return np.asarray(widths)


def simultaneous_level(confidence: float, count: int) -> float:
    """Return the level of each of ``count`` intervals that together cover with ``confidence``.

    Sidak's level. It is exact for independent errors and conservative for jointly normal errors of any
    correlation (Sidak 1967). It also holds for normal sampling errors of any correlation plus independent
    Laplace noise, which is normal given its random variances.
    """
    return math.exp(math.log(confidence) / count)
