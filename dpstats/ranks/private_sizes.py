"""Two groups with private sizes: their rank sum, their sizes at no further cost, and the p-value of both."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.noisy_counts import CountNoise
from dpstats.ranks.null import PUBLIC_SEED, Numbers, middle_variance, null_statistics, pvalue

_LOST = 0.08
"""Largest relative increase of the variance of the released statistic of equal groups, for unequal ones to gain."""
_OF_THE_LARGER = 0.9
"""Rows of a subset, as a fraction of the expected larger group."""
_TOLD_APART = 1 / 4
_TELLING_LEVEL = 0.0025
"""Sizes are released if a test of this level tells an empty group from the fraction `_TOLD_APART` of the rows."""
_UNLIKELY = 1e-5
"""Probability that the true size is not among those that a p-value considers. The p-value includes it."""
_ABOVE = 0.5
"""Standard deviations of noise that are added to a released size, for the standard deviation of the statistic."""


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
        """Return the p-value of released half ranks, which holds for every size of the groups.

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
        if not self.per_row:
            return pvalue(self._simulate(self.rows // 2, noise, size), released[0], alternative)
        found = self._fold(released[1])
        statistic = released[0] / self._estimate_std(found, noise)
        reach = noise.quantile(_UNLIKELY / 2) / self.per_row
        half = self.rows // 2
        first = max(0, min(math.ceil(found - reach), half))
        largest = 0.0
        for least, most in _cut_sizes(first, max(first, min(math.floor(found + reach), half))):
            # Statistics vary most for the largest of these sizes. Standard deviations are smallest for the least.
            sizes = self._fold(self.per_row * least + _draw_noise(noise, size))
            null = self._simulate(most, noise, size) / self._estimate_std(sizes, noise)
            largest = max(largest, pvalue(null, statistic, alternative))
        return min(1.0, largest + _UNLIKELY)

    def _simulate(self, smaller: int, noise: CountNoise, size: int) -> Numbers:
        """Return released statistics under the null hypothesis."""
        sizes = (smaller, self.rows - smaller)
        return null_statistics("two groups", sizes, noise.scale, size, self.subset)

    def _fold(self, released: Any) -> Any:
        """Return the size of the smaller group by a released size."""
        return np.minimum(released, self.per_row * self.rows - released) / self.per_row

    def _estimate_std(self, found: Any, noise: CountNoise) -> Any:
        """Return the standard deviation of the released statistic at a size a little above a released one."""
        likely = np.clip(found + _ABOVE * noise.std / self.per_row, 0, self.rows / 2)
        # At least half a rank: an empty group has no variance, and at large epsilon neither has the noise.
        return np.sqrt(np.maximum(middle_variance(self.rows, likely, self.subset) + noise.variance, 1.0))


def _cut_sizes(first: int, last: int) -> Iterator[tuple[int, int]]:
    """Cut the sizes from ``first`` to ``last`` into short ranges, and return the least and the largest size of each."""
    while first <= last:
        largest = min(last, first + first // 40)
        yield first, largest
        first = largest + 1


@lru_cache(maxsize=16)
def _draw_noise(noise: CountNoise, size: int) -> Numbers:
    """Draw the noise of a size, independently of the draws of `null_statistics`."""
    return noise.draw(np.random.default_rng([PUBLIC_SEED, 1]), (size,))


def _largest_sum(larger: NDArray[np.float64], smaller: NDArray[np.float64], subset: int) -> Fraction:
    """Return twice the largest rank sum of a subset of a sorted group against another, ties broken at random."""
    # It is the expected value over the breaking.
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
    error = plain.sensitivity / epsilon * math.log(0.5 / _TELLING_LEVEL)
    told = plain.room > 0 and error <= _TOLD_APART * n * plain.room
    return MiddleRankSum(n, plain.subset, plain.room) if told else plain
