"""Two groups with private sizes: their rank sum, their sizes at no further cost, and the p-value of both."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.noisy_counts import CountNoise
from dpstats.ranks.null import Numbers, null_statistics, pvalue

_LOST = 0.08
"""Largest relative increase of the variance of the released statistic of equal groups, for unequal ones to gain."""
_OF_THE_LARGER = 0.9
"""Rows of a subset, as a fraction of the expected larger group."""
_ON_SIZES = 0.05
"""Fraction of the level of a test that goes to the sizes of the groups."""
_TOLD_APART = 1 / 4
"""Sizes are released if a test of this level and fraction tells an empty group from this fraction of the rows."""
_USUAL_LEVEL = 0.05


@dataclass(frozen=True)
class MiddleRankSum:
    """A centered rank sum of two groups: the middle of its extremes over subsets of the larger group.

    Proof: docs/proofs/rank-tests.md.

    Attributes
    ----------
    rows : int
        Public number of rows, n.
    subset : int
        Number of rows of the larger group in a subset. Between n/2 and n - 1.
    per_row : int, default=0
        Half ranks that are released for each row of the first group, in a second number. 0: there is none.
    """

    rows: int
    subset: int
    per_row: int = 0

    @property
    def sensitivity(self) -> int:
        """Sensitivity in half ranks, of the statistic and the size together (l1)."""
        return max(2 * self.subset, self.rows - 1 + self.per_row)

    @property
    def room(self) -> int:
        """The largest ``per_row`` that does not raise the sensitivity."""
        return 2 * self.subset - (self.rows - 1)

    def measure(self, values: NDArray[np.float64], codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return twice the statistic of the first group, rounded, and its size times ``per_row`` unless that is 0."""
        size = int(np.count_nonzero(codes == 0)) * self.per_row
        return as_int64(np.array([self.sum(values, codes), size][: 1 + bool(self.per_row)]))

    def sum(self, values: NDArray[np.float64], codes: NDArray[np.int64]) -> int:
        """Return twice the statistic of the first group, rounded to an integer. Ties have mid-ranks."""
        groups = values[codes == 0], values[codes != 0]
        larger = int(groups[1].size > groups[0].size)
        rest = np.sort(groups[1 - larger])
        if not rest.size:
            return 0
        ordered = np.sort(groups[larger])
        extremes = _largest_sum(ordered, rest, self.subset) - _largest_sum(
            -ordered[::-1], -rest[::-1], self.subset
        )
        return math.floor((-extremes if larger else extremes) / 2 + Fraction(1, 2))

    def pvalue(self, released: Numbers, noise: CountNoise, alternative: str, size: int) -> float:
        """Return the p-value of released half ranks: the largest over all sizes, weighed with their own p-values.

        Parameters
        ----------
        released : ndarray
            The statistic and, if it was released, the size, as `measure` gives them, with noise.
        noise : CountNoise
            Their noise.
        alternative : {"two-sided", "less", "greater"}
            Alternative hypothesis.
        size : int
            Number of simulations of the null distribution for one size.
        """

        def judge_sum(smaller: int) -> float:
            sizes = (smaller, self.rows - smaller)
            null = null_statistics("two groups", sizes, noise.scale, size, self.subset)
            return pvalue(null, released[0], alternative)

        if not self.per_row:
            return judge_sum(self.rows // 2)
        whole = self.per_row * self.rows
        found = min(released[1], whole - released[1])

        def judge_size(smaller: int) -> float:
            """Return the probability of a released size as small, or as large, as this one."""
            edges = self.per_row * smaller - found, whole - self.per_row * smaller - found
            return float(noise.beyond(np.array(edges) - noise.half).sum())

        sizes = _sizes(self.rows // 2)
        place = _first(
            lambda at: judge_sum(sizes[at]) / (1 - _ON_SIZES) >= judge_size(sizes[at - 1] + 1) / _ON_SIZES,
            len(sizes),
        )
        # The smaller of both p-values first rises with the size, and then falls.
        rising = judge_sum(sizes[place - 1]) / (1 - _ON_SIZES)
        falling = judge_size(sizes[place - 1] + 1) / _ON_SIZES if place < len(sizes) else 0.0
        return min(1.0, max(rising, falling))


def _first(holds: Callable[[int], bool], stop: int) -> int:
    """Return the first place from 1 on at which an increasing condition holds, and ``stop`` if there is none."""
    low, high = 0, stop
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


@lru_cache(maxsize=64)
def _sizes(most: int) -> tuple[int, ...]:
    """Return public sizes of the smaller group, up to ``most``, each at most a twentieth larger than the last."""
    found = [1]
    while found[-1] < most:
        found.append(min(most, found[-1] + max(1, found[-1] // 20)))
    return tuple(found)


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
def middle_rank_sum(n: int, epsilon: float, smaller_fraction: float = 0.5) -> MiddleRankSum:
    """Return the statistic of two groups with private sizes, for an expected fraction of rows in the smaller group.

    If equal groups are expected, the sensitivity costs them at most `_LOST`.
    """
    half = (n + 1) // 2
    variance = (n // 2) * 2 * half * (n + 1) / 6
    most = math.sqrt(4 * half**2 + _LOST * (variance * epsilon * epsilon / 2 + 4 * half**2))
    # Signal and noise grow together up to the size of the larger group.
    subset = max(most / 2, half, _OF_THE_LARGER * (1 - smaller_fraction) * n)
    plain = MiddleRankSum(n, int(min(subset, n - 1)))
    error = plain.sensitivity / epsilon * math.log(0.5 / (_ON_SIZES * _USUAL_LEVEL))
    told = plain.room > 0 and error <= _TOLD_APART * n * plain.room
    return MiddleRankSum(n, plain.subset, plain.room) if told else plain
