"""Differences of means of groups: intervals, p-values, and all pairs together.

Two means are asked together: those that are as far from what was released as a normal variable's z in all, in the root
of the sum of their squares. How far apart these can be are the ends of the interval for the difference. Where both
intervals are symmetric these are the usual ones; where noise leaves one of them open, they are open too.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from dpstats.means.ratio import Ratio

Floats = NDArray[np.float64]

_ANGLES = 17
_GRID, _ROUNDS = 48, 6
_MOST = 1024
_NODES = 400
_FAR = 1e-10


def apart(first: Ratio, second: Ratio, z: float) -> tuple[Floats, Floats]:
    """Return the least and the largest difference of two ratios that are within z, both together."""
    shape = np.broadcast_shapes(first.shape, second.shape)
    if shape[0] > _MOST:
        ends = [apart(first[part], second[part], z) for part in _parts(shape[0])]
        low, high = (np.concatenate(parts) for parts in zip(*ends, strict=True))
        return low, high
    angles = np.linspace(0.0, math.pi / 2, _ANGLES).reshape(-1, *[1] * len(shape))
    a, b = first.ends(z * np.sin(angles)), second.ends(z * np.cos(angles))
    return (a[0] - b[1]).min(axis=0), (a[1] - b[0]).max(axis=0)


def difference_score(first: Ratio, second: Ratio) -> Floats:
    """Return how far two ratios are apart, as a standard normal variable: the least z that lets them be equal.

    Its sign is that of the difference of the estimates.
    """
    a, b = np.broadcast_arrays(first.estimate, second.estimate)
    if len(a) > _MOST:
        return np.concatenate([difference_score(first[part], second[part]) for part in _parts(len(a))])
    low, high = np.minimum(a, b), np.maximum(a, b)
    best = np.full(a.shape, np.inf)
    # Between the estimates both are further off in one direction; what noise has made of small groups may be anywhere.
    ends = (np.full(a.shape, -1.0), np.full(a.shape, 1.0)), (low, high)
    for left, right in ends:
        for _ in range(_ROUNDS):
            grid = np.linspace(left, right, _GRID + 1)
            both = first.score(grid) ** 2 + second.score(grid) ** 2
            least = np.argmin(both, axis=0)
            best = np.minimum(best, np.take_along_axis(both, least[None], axis=0)[0])
            left = np.take_along_axis(grid, np.maximum(least - 1, 0)[None], axis=0)[0]
            right = np.take_along_axis(grid, np.minimum(least + 1, _GRID)[None], axis=0)[0]
    return np.asarray(np.where(a < b, -1.0, 1.0) * np.sqrt(best))


def _parts(count: int) -> list[slice]:
    """Cut many pairs into parts that fit in memory with their grids."""
    return [slice(start, start + _MOST) for start in range(0, count, _MOST)]


def range_tail(distance: Floats, count: int) -> Floats:
    """Return P(max - min > x) for ``count`` independent standard normal variables (Tukey's studentized range)."""
    x = np.asarray(distance, dtype=np.float64)
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    # The largest is where it is, and all others within x below it.
    largest, density = 8.5 * nodes, 8.5 * weights * np.exp(-((8.5 * nodes) ** 2) / 2) / math.sqrt(2 * math.pi)
    within = ndtr(largest) - ndtr(largest - x[..., None])
    inside = (count * density * within ** (count - 1)).sum(axis=-1)
    # Far out the union over pairs, which is next to exact where the difference from 1 is rounded away.
    union = count * (count - 1) * ndtr(-x / math.sqrt(2))
    return np.asarray(np.where(inside > 1 - _FAR, union, np.maximum(1 - inside, 0.0)))


def range_quantile(tail: float, count: int) -> float:
    """Return x with P(max - min > x) = tail."""
    # At most the union over pairs of normal variables of variance 2.
    most = math.sqrt(2) * -float(ndtri(tail / (count * (count - 1)))) + 1e-6
    return float(brentq(lambda x: float(range_tail(np.array(x), count)) - tail, 0.0, most, xtol=1e-10))


def holm(pvalues: Floats) -> Floats:
    """Return Holm's adjusted p-values, along the first axis."""
    m = len(pvalues)
    order = np.argsort(pvalues, axis=0)
    stepped = np.take_along_axis(pvalues, order, axis=0) * np.arange(m, 0, -1).reshape(
        -1, *[1] * (pvalues.ndim - 1)
    )
    adjusted = np.minimum(np.maximum.accumulate(stepped, axis=0), 1.0)
    result = np.empty_like(pvalues)
    np.put_along_axis(result, order, adjusted, axis=0)
    return result
