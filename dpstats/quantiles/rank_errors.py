"""Distributions of the rank errors of chosen points, and target ranks of the limits of an interval.

Proof: docs/intervals/quantiles.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.signal import fftconvolve
from scipy.stats import binom

Numbers = NDArray[np.float64]

_LEFT_OUT = 1e-13
_FAR = 60.0
_ROUNDING = 1e-12
_COUNTED = 8
"""Number of points drawn to a bound whose windows are excluded; the windows of further points are included."""


@dataclass(frozen=True)
class Law:
    """The probabilities of integers ``first``, ``first`` + 1, ..."""

    first: int
    pmf: Numbers

    @property
    def std(self) -> float:
        """Standard deviation."""
        at = self.first + np.arange(self.pmf.size)
        mean = float(self.pmf @ at)
        return math.sqrt(float(self.pmf @ (at - mean) ** 2))

    def plus(self, other: Law) -> Law:
        """Return the distribution of the sum with an independent number."""
        return Law(self.first + other.first, np.maximum(fftconvolve(self.pmf, other.pmf), 0.0))

    def below(self, tail: float, half: bool = False) -> int:
        """Return the largest t with P(. <= t) at most ``tail``; with ``half``, P(. < t) + P(. = t)/2.

        A probability counts as more than ``tail`` if rounding may have made it smaller.
        """
        up_to = np.cumsum(self.pmf) - (self.pmf / 2 if half else 0.0)
        return self.first + int(np.count_nonzero(np.maximum.accumulate(up_to) <= tail - _ROUNDING)) - 1

    def above(self, tail: float, half: bool = False) -> int:
        """Return the smallest t with P(. >= t) at most ``tail``; with ``half``, P(. > t) + P(. = t)/2."""
        mirrored = Law(-(self.first + self.pmf.size - 1), self.pmf[::-1])
        return -mirrored.below(tail, half)


@lru_cache(maxsize=256)
def rank_errors(size: int, scale: float) -> Law:
    """Return the distribution of the rank error of one of ``size`` jointly chosen points, if rows are evenly spaced.

    It is also the distribution of one of ``size`` numbers with joint noise of this scale. P(k) is proportional to the
    sum over R >= |k| of e^(-R/scale) (R + 1)^(size - 1) (R + 1 - |k|).
    """
    reach = _reach(size, scale)
    R = np.arange(reach + 1)
    logs = (size - 1) * np.log1p(R) - R / scale
    weights = np.exp(logs - logs.max())
    # The sum over R >= k of w_R (R + 1 - k) is the sum over j >= k of the sum over R >= j of w_R.
    tails = np.cumsum(np.cumsum(weights[::-1]))[::-1]
    both = np.concatenate([tails[:0:-1], tails])
    return Law(-reach, both / both.sum())


def least_distance(size: int, scale: float, points: int, share: float, count: int = 1) -> int:
    """Return the number of rows that must lie between the ``count``-th nearest rank and a bound.

    All places between the last row and the bound have equal utility, and points drawn there also move the others. At
    this distance, ``count`` points are drawn there with probability at most ``share``. The number of places between
    two rows is assumed to be constant. The maximum is over densities from all rows tied to one place for each row.
    """
    each = math.log(points)
    reach = _reach(size, scale) + math.ceil(scale * (size * each - math.log(share)))
    drawn = count * each + _drawn(size, scale, min(count, _COUNTED), reach)
    return int(np.count_nonzero(drawn > math.log(share)))


@lru_cache(maxsize=128)
def _drawn(size: int, scale: float, count: int, reach: int) -> Numbers:
    """Return the log probability that ``count`` points are drawn to a bound of one place, by its distance."""
    R = np.arange(reach + 1)
    found = np.full(reach + 1, -math.inf)
    for density in (0.0, *np.ldexp(1.0, -2 * np.arange(math.ceil(math.log2(reach) / 2) + 1))):
        lengths, fall = np.log1p(density * R), -R / scale
        inside = np.logaddexp.reduce(np.log1p(R) + size * lengths + fall)
        # Sum twice, over the windows (a, b) with a + b = R and b at least the distance.
        outside = np.logaddexp.accumulate(((size - count) * lengths + fall)[::-1])
        found = np.maximum(found, np.logaddexp.accumulate(outside)[::-1] - inside)
    return found


def _reach(size: int, scale: float) -> int:
    """Return the range beyond which tuples of ``size`` points have a negligible probability."""
    return math.ceil(scale * (size + 1 + 8 * math.sqrt(size + 1) + _FAR)) + 1


@lru_cache(maxsize=256)
def group_rank_errors(size: int, scale: float) -> Law:
    """Return the distribution of a rank error in a group: the utility is minus the largest distance from a rank.

    If all windows have odd numbers of rows, P(k) is proportional to the sum over R >= |k| of
    e^(-R/scale) (2 R + 1)^(size - 1).
    """
    R = np.arange(_reach(size, scale) + 1)
    logs = (size - 1) * np.log1p(2 * R) - R / scale
    tails = np.cumsum(np.exp(logs - logs.max())[::-1])[::-1]
    both = np.concatenate([tails[:0:-1], tails])
    return Law(-int(R[-1]), both / both.sum())


@lru_cache(maxsize=128)
def least_group_distances(size: int, scale: float, points: int, share: float) -> tuple[int, ...]:
    """Return the least distances of the nearest rank, the second nearest, and so on, in a group."""
    reach = _reach(size, scale) + math.ceil(scale * (size * math.log(points) - math.log(share)))
    R = np.arange(reach + 1)
    found = [0] * size
    for density in (0.0, *np.ldexp(1.0, -2 * np.arange(math.ceil(math.log2(reach) / 2) + 1))):
        lengths, fall = np.log1p(2 * density * R), -R / scale
        inside = np.logaddexp.reduce(size * lengths + fall)
        for j in range(size):
            outside = np.logaddexp.accumulate(((size - j - 1) * lengths + fall)[::-1])[::-1]
            drawn = (j + 1) * math.log(points) + outside - inside
            found[j] = max(found[j], int(np.count_nonzero(drawn > math.log(share))))
    return tuple(found)


@lru_cache(maxsize=256)
def binomial(n: int, q: float) -> Law:
    """Return the distribution of the number of rows below the quantile, truncated by a probability of 1e-13."""
    first, last = (int(binom.ppf(p, n, q)) for p in (_LEFT_OUT, 1 - _LEFT_OUT))
    first, last = max(first - 1, 0), min(last + 1, n)
    return Law(first, binom.pmf(np.arange(first, last + 1), n, q))


@lru_cache(maxsize=1024)
def offset_ranks(
    q: float,
    n: int,
    size: int,
    scale: float,
    tail: float,
    unknown: float = 0.0,
    distribution: Callable[[int, float], Law] = rank_errors,
) -> tuple[int | None, int | None]:
    """Return the ranks of points on the wrong side of the quantile with probability ``tail`` each; None without one.

    Let B be the number of rows below the quantile, and E the error of the rank, of a symmetric
    distribution. The lower rank is the largest r with
    P(r + E > B) + P(r + E = B)/2 at most ``tail``. If the rank itself has discrete Laplace noise, ``unknown`` is the
    scale of this noise.
    """
    errors = distribution(size, scale)
    if unknown:
        errors = errors.plus(rank_errors(1, unknown))
    together = binomial(n, q).plus(errors)
    low, high = together.below(tail, half=True), together.above(tail, half=True)
    return (low if low >= 0 else None), (high if high <= n else None)
