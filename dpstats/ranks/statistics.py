"""Rank statistics in half ranks, so that mid-ranks of ties are integers, and their sensitivities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from dpstats.data.arithmetic import as_int64


def signed_rank_sum(values: NDArray[np.float64]) -> int:
    """Return twice the sum of the signed ranks of |x|. Zeros are ranked but do not contribute (Pratt)."""
    doubled = as_int64(2 * rankdata(np.abs(values)))
    return int(np.sum(as_int64(np.sign(values)) * doubled))


def centred_rank_sums(
    values: NDArray[np.float64], codes: NDArray[np.int64], n_groups: int
) -> NDArray[np.int64]:
    """Return for each group twice its centered rank sum: ranks minus the mean rank. The sums add up to 0.

    For two groups the first is twice U - n_a n_b / 2.
    """
    doubled = as_int64(2 * rankdata(values)) - (values.size + 1)
    return np.array([doubled[codes == group].sum() for group in range(n_groups)], dtype=np.int64)


# Sensitivities in half ranks, if one row is replaced: docs/proofs/rank-tests.md.


def signed_rank_sensitivity(n: int) -> int:
    """Return the sensitivity of `signed_rank_sum`."""
    return 4 * n


def rank_sum_sensitivity(sizes: Sequence[int]) -> int:
    """Return the sensitivity of a centered rank sum of groups with public sizes: a row stays in its group."""
    return 2 * max(sizes)


def all_rank_sums_sensitivity(n: int, sizes: Sequence[int] | None) -> int:
    """Return the sensitivity of the sum of the absolute values of all centered rank sums."""
    moved = max(4 * (n - 2), 2)
    return moved if sizes is None else min(moved, 4 * (n - min(sizes)))


# The rank sum of two groups with private sizes: docs/proofs/rank-tests.md.

_UNIT = 1 << 30
"""Weights are multiples of 1 / _UNIT, so that the sensitivity is computed with integers."""
_WEIGHTED_ROWS = 10**6
"""Above this number of rows every weight is 1."""
_LIMITS = (0.7, 0.85, 1.0, 1.4, 2.0, 2.8, 4.0)
"""Sensitivities in ranks, divided by n, that leave room for weights. The least possible one is 0.5."""
_KEPT = 0.9
"""Rows of the larger group in a subset, as a fraction of the sensitivity. Weights use the remainder."""
_SMALLEST_GROUP = 10
"""Weights stay constant if the smaller group has fewer rows, because its rank sum is not close to normal."""
_LOST = 0.06
"""Largest relative increase of the variance of the released statistic of equal groups, for unequal ones to gain."""


@dataclass(frozen=True)
class MiddleRankSum:
    """A centered rank sum of two groups with private sizes: the middle of its extremes over subsets of the larger one.

    Attributes
    ----------
    rows : int
        Public number of rows, n.
    subset : int
        Number of rows of the larger group in a subset. Between n/2 and n - 1.
    weights : ndarray of int or None
        Weights over 2^30, indexed by the size of the larger group, from half of the rows on. None: all are 1.
    """

    rows: int
    subset: int
    weights: NDArray[np.int64] | None = None

    @cached_property
    def sensitivity(self) -> int:
        """Sensitivity in half ranks: the maximum over all cases, computed with integers."""
        if self.weights is None:
            return 2 * self.subset
        larger = np.arange((self.rows + 1) // 2, self.rows, dtype=np.int64)
        kept = np.minimum(larger, self.subset)
        # Case 1: a row stays in its group. If it changes which of two nearly equal groups is larger (odd n), the sum
        # changes by less.
        most = int(np.max(2 * self.weights * kept))
        before, after, left = self.weights[1:], self.weights[:-1], kept[:-1]
        smaller = self.rows - larger[1:]
        if smaller.size:
            # Case 2: a row leaves the larger group.
            moved = np.abs(before - after) * left * smaller + after * left + before * smaller
            most = max(most, int(moved.max()))
        return -(-most // _UNIT)

    def sum(self, values: NDArray[np.float64], codes: NDArray[np.int64]) -> int:
        """Return twice the weighted statistic of the first group, rounded to an integer. Ties have mid-ranks."""
        groups = values[codes == 0], values[codes != 0]
        larger = int(groups[1].size > groups[0].size)
        rest = np.sort(groups[1 - larger])
        if not rest.size:
            return 0
        ordered = np.sort(groups[larger])
        extremes = _largest_sum(ordered, rest, self.subset) - _largest_sum(
            -ordered[::-1], -rest[::-1], self.subset
        )
        place = ordered.size - (self.rows + 1) // 2
        weight = _UNIT if self.weights is None else int(self.weights[place])
        signed = -extremes if larger else extremes
        return math.floor(signed * weight / (2 * _UNIT) + Fraction(1, 2))


def _largest_sum(larger: NDArray[np.float64], smaller: NDArray[np.float64], subset: int) -> Fraction:
    """Return twice the largest rank sum of a subset of a sorted group against another, ties broken at random.

    It is the expected value over the breaking.
    """
    kept = larger[-subset:]
    below, at_most = (np.searchsorted(smaller, kept, side) for side in ("left", "right"))
    won = int(below.sum()) + int(at_most.sum()) - kept.size * smaller.size
    # Among rows that tie at the end of the subset, the larger ones after the breaking are in it.
    tied = int(np.searchsorted(larger, kept[0], "right") - np.searchsorted(larger, kept[0], "left"))
    inside = int(np.searchsorted(kept, kept[0], "right"))
    return won + Fraction(int(at_most[0] - below[0]) * inside * (tied - inside), tied + 1)


@lru_cache(maxsize=64)
def middle_rank_sum(n: int, epsilon: float) -> MiddleRankSum:
    """Return the statistic of two groups with private sizes. Its sensitivity costs equal groups at most `_LOST`."""
    least = 2 * ((n + 1) // 2)
    variance = (n // 2) * least * (n + 1) / 6
    most = math.sqrt(least**2 + _LOST * (variance * epsilon * epsilon / 2 + least**2))
    for limit in _LIMITS[::-1]:
        if n <= _WEIGHTED_ROWS and (found := _level_variances(n, limit)).sensitivity <= most:
            return found
    return MiddleRankSum(n, _clip_subset(n, most / 2))


def _clip_subset(n: int, size: float) -> int:
    return int(min(max(size, (n + 1) // 2), n - 1))


def _level_variances(n: int, limit: float) -> MiddleRankSum:
    """Return the statistic whose variances are as similar at all sizes as this sensitivity over n allows."""
    subset = _clip_subset(n, _KEPT * limit * n)
    larger = np.arange((n + 1) // 2, n, dtype=np.int64)
    share = np.minimum(1.0, subset / larger)
    # The variance of the statistic for many rows, up to a factor.
    pairs = larger * np.maximum(n - larger, min(_SMALLEST_GROUP, n // 2))
    variance = pairs * (share**3 / 6 - 2 / 3 * (share - 0.5) ** 3)
    weights = np.minimum(np.sqrt(variance[0] / variance), limit * n / np.minimum(larger, subset))
    whole = as_int64(np.floor(weights * _UNIT))
    whole[0] = _UNIT
    whole.flags.writeable = False
    return MiddleRankSum(n, subset, whole)
