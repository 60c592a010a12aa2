from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from dpstats.error_distributions import Limits, ScoreErrors, Tail, normal_quantile
from dpstats.means.ratio import Floats, Ratio
from dpstats.together import Together

_ANGLES = 17
_SEARCH_GRID, _ROUNDS = 48, 6
_MOST = 1024
_NODES = 400
_FAR = 1e-10
_EDGE, _NEAR = 1e-9, 1e-3


@dataclass(frozen=True, eq=False)
class DifferenceErrors(ScoreErrors):
    """Errors of the differences between the means of some groups and of others."""

    first: Ratio  # the ratios of the groups, in half-widths of the bounds
    second: Ratio
    half: float | Floats  # these half-widths

    @property
    def start(self) -> Floats:
        return np.asarray(self.half * (self.first.estimate - self.second.estimate))

    @property
    def box(self) -> Limits:
        far = np.broadcast_to(2 * np.asarray(self.half), self.start.shape)
        return -far, far

    @property
    def standard_error(self) -> Floats:
        """Half the width of the intervals of one standard deviation."""
        low, high = apart(self.first, self.second, 1.0)
        return np.asarray(self.half * (high - low) / 2)

    def limits(self, tail: Tail) -> Limits:
        z = normal_quantile(tail)
        low, high = apart(self.first, self.second, z)
        if isinstance(self.first, Ratio):
            # Where both means are at their bounds, errors have one direction each: see `difference_score`.
            least, most = (
                np.abs(difference_score(self.first, self.second, np.full(low.shape, end))) <= z
                for end in (-2.0, 2.0)
            )
            low, high = np.where(least, -2.0, low), np.where(most, 2.0, high)
        return self.half * low, self.half * high

    def score(self, value: Floats) -> Floats:
        return difference_score(self.first, self.second, value / self.half)


@dataclass(frozen=True)
class Tukey(Together):
    """Tukey's range of all groups: conservative for groups of different precision."""

    groups: int
    words = "Tukey's range"

    def each(self, level: float, count: int) -> float:
        return 1 - 2 * float(ndtr(-range_quantile(1 - level, self.groups) / math.sqrt(2)))

    def adjust(self, pvalues: Floats) -> Floats:
        return range_tail(-math.sqrt(2) * ndtri(pvalues / 2), self.groups)


def apart(first: Ratio, second: Ratio, z: float | Floats) -> tuple[Floats, Floats]:
    """Return the least and the largest difference of two ratios that are within z, both together."""
    shape = np.broadcast_shapes(first.shape, second.shape)
    if shape[0] > _MOST:
        ends = [
            apart(first[part], second[part], z if np.ndim(z) == 0 else np.broadcast_to(z, shape)[part])
            for part in _parts(shape[0])
        ]
        low, high = (np.concatenate(parts) for parts in zip(*ends, strict=True))
        return low, high
    angles = np.linspace(0.0, math.pi / 2, _ANGLES).reshape(-1, *[1] * len(shape))
    a, b = first.ends(z * np.sin(angles)), second.ends(z * np.cos(angles))
    return (a[0] - b[1]).min(axis=0), (a[1] - b[0]).max(axis=0)


def difference_score(first: Ratio, second: Ratio, difference: float | Floats = 0.0) -> Floats:
    """Return the least z that lets two ratios differ by ``difference``, as a standard normal variable.

    Its sign is the sign of the difference of the estimates less ``difference``. Where the bounds leave no other values,
    as two means at opposite bounds, both scores count in proportion to the errors: their sum of squares would have two
    degrees of freedom.
    """
    a, b, by = np.broadcast_arrays(first.estimate, second.estimate, difference)
    if len(a) > _MOST:
        parts = [difference_score(first[part], second[part], by[part]) for part in _parts(len(a))]
        return np.concatenate(parts)
    # Where the second ratio may be if both are in the bounds.
    ends = np.maximum(-1.0, -1.0 - by), np.minimum(1.0, 1.0 - by)
    low, high = (np.clip(end, *ends) for end in (np.minimum(a - by, b), np.maximum(a - by, b)))
    best, place = np.full(a.shape, np.inf), np.zeros(a.shape)
    # Between the estimates both are further off in one direction; what noise has made of small groups may be anywhere.
    for left, right in (ends, (low, high)):
        for _ in range(_ROUNDS):
            grid = np.linspace(left, right, _SEARCH_GRID + 1)
            both = first.score(grid + by) ** 2 + second.score(grid) ** 2
            least = np.argmin(both, axis=0)
            found, where = (np.take_along_axis(each, least[None], axis=0)[0] for each in (both, grid))
            best, place = np.minimum(best, found), np.where(found < best, where, place)
            left = np.take_along_axis(grid, np.maximum(least - 1, 0)[None], axis=0)[0]
            right = np.take_along_axis(grid, np.minimum(least + 1, _SEARCH_GRID)[None], axis=0)[0]
    size = np.sqrt(best)
    if (forced := (np.minimum(np.abs(place - ends[0]), np.abs(place - ends[1])) < _EDGE)).any():
        sign = np.where(a - by < b, -1.0, 1.0)
        projected = np.maximum(sign * _project(first, second, place + by, place), 0.0)
        size = np.where(forced, np.minimum(size, projected), size)
    return np.asarray(np.where(a - by < b, -1.0, 1.0) * size)


def _project(first: Ratio, second: Ratio, one: Floats, other: Floats) -> Floats:
    """Return the score of the difference of two values, from the scores of both and their errors near the values."""
    scores, errors = [], []
    for ratio, value in ((first, one), (second, other)):
        score = getattr(ratio, "free_score", ratio.score)
        inside = np.where(value > 0, value - _NEAR, value + _NEAR)
        scores.append(score(value))
        with np.errstate(divide="ignore"):
            errors.append(_NEAR / np.abs(score(inside) - scores[-1]))
    with np.errstate(invalid="ignore"):
        found = (errors[0] * scores[0] - errors[1] * scores[1]) / np.hypot(*errors)
    return np.asarray(np.where(np.isfinite(found), found, np.sign(found) * np.inf))


def _parts(count: int) -> list[slice]:
    """Cut many pairs into parts that fit in memory with their grids."""
    return [slice(start, start + _MOST) for start in range(0, count, _MOST)]


@cache
def _quadrature() -> tuple[Floats, Floats]:
    """Return the nodes and weights of Gauss's quadrature on [-1, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return nodes, weights


def range_tail(distance: Floats, count: int) -> Floats:
    """Return P(max - min > x) for ``count`` independent standard normal variables (Tukey's studentized range)."""
    x = np.asarray(distance, dtype=np.float64)
    nodes, weights = _quadrature()
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
