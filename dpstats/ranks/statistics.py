"""Rank statistics in half ranks, so that mid-ranks of ties are integers: sensitivities, p-values and intervals.

Proofs: docs/proofs/rank-tests.md, docs/intervals/ranks.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dpstats.data.values import as_int64
from dpstats.inference.error_distributions import ErrorDistribution, Limits, error_tails
from dpstats.inference.estimates import Estimates
from dpstats.inference.noisy_counts import CountNoise
from dpstats.inference.results import FREE
from dpstats.parallel import cut

# Statistics and sensitivities


def signed_rank_sum(values: NDArray[np.float64]) -> int:
    """Return twice the sum of the signed ranks of |x|. Zeros are ranked but do not contribute (Pratt)."""
    doubled = as_int64(2 * stats.rankdata(np.abs(values)))
    return int(np.sum(as_int64(np.sign(values)) * doubled))


def centered_rank_sums(values: NDArray[np.float64], codes: NDArray[np.int64], n_groups: int) -> NDArray[np.int64]:
    """Return for each group twice its centered rank sum: ranks minus the mean rank. The sums add up to 0.

    For two groups the first is twice U - n_a n_b / 2.
    """
    doubled = as_int64(2 * stats.rankdata(values)) - (values.size + 1)
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


# Null distributions, which are public, simulated once per size and stored

Numbers = NDArray[np.float64]
PUBLIC_SEED = 19_450_619
"""Public seed of all simulations of the null hypothesis."""
_EXACT_ROWS = 2000
"""Above this size, ranks are drawn from their normal limit. The error of a probability is at most 1e-4 (0.08/n)."""
_FEW = 100
"""Rows of the smaller of two groups, up to which the rank of each is drawn. Beyond, the rank sum has its normal limit:
the error of a probability is at most 2e-4."""
_BLOCK = 1 << 21


@lru_cache(maxsize=256)
def null_statistics(kind: str, sizes: tuple[int, ...], scale: float, size: int, subset: int | None = None) -> Numbers:
    """Return draws of a released statistic under the null hypothesis, in half ranks.

    Parameters
    ----------
    kind : {"signed", "two groups", "groups"}
        Kind of the statistic.
    sizes : tuple of int
        Sizes of the groups, or the size of a single sample.
    scale : float
        Scale of the discrete Laplace noise.
    size : int
        Number of draws.
    subset : int, optional
        Number of rows of the larger of two groups, over whose subsets the statistic is the middle. None: all rows.
    """
    rng = np.random.default_rng(PUBLIC_SEED)
    n = sum(sizes)
    draw: dict[str, Callable[[int], Numbers]] = {
        "signed": lambda count: _signed(n, count, rng),
        "two groups": lambda count: _middles(n, min(sizes), subset or n, count, rng),
        "groups": lambda count: np.abs(_sums(sizes, count, rng)).sum(axis=1),
    }
    drawn = np.concatenate([draw[kind](count) for count in cut(size, max(1, _BLOCK // min(n, _EXACT_ROWS)))])
    found = drawn + CountNoise("laplace", scale).draw(rng, (size,))
    found.flags.writeable = False
    return np.asarray(found)


def _signed(n: int, count: int, rng: np.random.Generator) -> Numbers:
    if n > _EXACT_ROWS:
        return rng.normal(scale=np.sqrt(4 * n * (n + 1) * (2 * n + 1) / 6), size=count)
    signs = 2.0 * rng.integers(2, size=(count, n), dtype=np.int8) - 1
    return np.asarray(signs @ (2.0 * np.arange(1, n + 1)))


def _sums(sizes: tuple[int, ...], count: int, rng: np.random.Generator) -> Numbers:
    """Return centered rank sums (count, K) of groups with these sizes, in half ranks."""
    n, each = sum(sizes), np.asarray(sizes, dtype=np.float64)
    if n > _EXACT_ROWS:
        normal = rng.normal(size=(count, each.size)) * np.sqrt(each)
        return np.asarray(np.sqrt(n * (n + 1) / 3) * (normal - normal.sum(axis=1, keepdims=True) * each / n))
    ranks = rng.permuted(np.tile(2.0 * np.arange(1, n + 1) - (n + 1), (count, 1)), axis=1)
    ends = np.concatenate([np.zeros((count, 1)), np.cumsum(ranks, axis=1)], axis=1)
    return np.asarray(np.diff(ends[:, np.concatenate([[0], np.cumsum(sizes)])], axis=1))


def _middles(n: int, smaller: int, subset: int, count: int, rng: np.random.Generator) -> Numbers:
    """Return middle rank sums of the smaller of two groups, in half ranks."""
    larger = n - smaller
    kept = min(subset, larger)
    if smaller > _FEW:
        return rng.normal(scale=np.sqrt(middle_variance(n, smaller, subset)), size=count)
    # Each row of the smaller group has some rows of the larger group below it. All multisets of these numbers are
    # equally likely. Polya's urn draws one: a row takes a free place, or the place of an earlier row.
    below = np.empty((smaller, count), dtype=np.int64)
    for j in range(smaller):
        place = rng.integers(larger + 1 + j, size=count)
        (again,) = np.nonzero(place > larger)
        place[again] = below[place[again] - larger - 1, again]
        below[j] = place
    # A row of the smaller group against the largest rows of the larger one, and against the smallest.
    sums = np.maximum(below - (larger - kept), 0) + np.minimum(below, kept) - kept
    return np.asarray(sums.sum(axis=0), dtype=np.float64)


def middle_variance(n: Any, smaller: Any, subset: int) -> Any:
    """Return the variance of the middle rank sum of the smaller of two groups, in half ranks, in the limit."""
    larger = n - smaller
    share = np.minimum(subset, larger) / larger
    return 4 * n * larger * smaller * (share**3 / 6 - 2 / 3 * (share - 0.5) ** 3)


def pvalue(null: Numbers, observed: float, alternative: str) -> float:
    """Return (1 + #{null at least as extreme}) / (B + 1)."""
    if alternative == "two-sided":
        extreme = np.abs(null) >= abs(observed)
    else:
        extreme = null >= observed if alternative == "greater" else null <= observed
    return float((1 + extreme.sum()) / (null.size + 1))


# Two groups with private sizes: their rank sum, their sizes at no further cost, and the p-value of both

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
    others : bool, default=False
        Whether rows may be in neither group. They are in no pair.
    """

    rows: int
    subset: int
    per_row: int = 0
    others: bool = False

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
        extremes = _largest_sum(ordered, rest, self.subset) - _largest_sum(-ordered[::-1], -rest[::-1], self.subset)
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
        """Return released statistics under the null hypothesis, at the larger group whose statistic varies most."""
        larger = most = self.rows - smaller
        if self.others and self.subset < most:
            # Beyond the subset, a larger group can have a middle that varies less.
            possible = as_int64(np.floor(np.linspace(self.subset, most, 65)))
            larger = int(possible[np.argmax(middle_variance(smaller + possible, smaller, self.subset))])
        sizes = (smaller, larger)
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
def middle_rank_sum(n: int, epsilon: float, smaller_fraction: float = 0.5, others: bool = False) -> MiddleRankSum:
    """Return the statistic of two groups with private sizes, for an expected fraction of rows in the smaller group.

    If equal groups are expected, the sensitivity costs them at most `_LOST`. ``others``: rows may be in neither.
    """
    half = (n + 1) // 2
    variance = (n // 2) * 2 * half * (n + 1) / 6
    most = math.sqrt(4 * half**2 + _LOST * (variance * epsilon * epsilon / 2 + 4 * half**2))
    # Signal and noise grow together up to the size of the larger group.
    subset = max(most / 2, half, _OF_THE_LARGER * (1 - smaller_fraction) * n)
    plain = MiddleRankSum(n, int(min(subset, n - 1)), others=others)
    error = plain.sensitivity / epsilon * math.log(0.5 / _TELLING_LEVEL)
    told = plain.room > 0 and error <= _TOLD_APART * n * plain.room
    return replace(plain, per_row=plain.room) if told else plain


# The probability that a value of one group exceeds a value of another


@dataclass(frozen=True, eq=False)
class SuperiorityErrors(ErrorDistribution):
    """Errors of the proportion of pairs in which the value of the first group is larger.

    Attributes
    ----------
    share : float
        Released proportion including noise. It may be outside [0, 1].
    smaller : int
        Number of rows of the smaller group, m. The variance of the proportion p is at most p (1 - p)/m.
    noise_scale : float
        Scale of the Laplace noise in the proportion.
    """

    share: float
    smaller: int
    noise_scale: float

    @property
    def start(self) -> Numbers:
        return np.asarray(min(max(self.share, 0.0), 1.0))

    @property
    def box(self) -> Limits:
        return np.asarray(0.0), np.asarray(1.0)

    def spread(self, value: Any) -> Numbers:
        """Return the largest standard deviation of the sampling error if the probability equals ``value``."""
        value = np.clip(value, 0.0, 1.0)
        return np.asarray(np.sqrt(value * (1 - value) / self.smaller))

    def tails(self, value: Numbers) -> Limits:
        away = self.share - value
        less, greater = (
            error_tails(side * away, self.spread(value), "laplace", np.full(np.shape(value), self.noise_scale))
            for side in (-1, 1)
        )
        return np.asarray(less), np.asarray(greater)


def superiority(
    statistic: float, sizes: tuple[int, int], noise_std: float, labels: tuple[Any, Any], simulated: bool
) -> Estimates:
    """Return P(X > Y) + P(X = Y)/2 for a value X of the first group and a value Y of the second.

    ``statistic`` is U - n_a n_b / 2 as released, and ``noise_std`` the standard deviation of its noise.
    """
    pairs = sizes[0] * sizes[1]
    std = noise_std / pairs
    errors = SuperiorityErrors(0.5 + statistic / pairs, min(sizes), std / np.sqrt(2))
    estimate = errors.start
    return Estimates(
        estimate[()],
        np.sqrt(errors.spread(estimate) ** 2 + std**2)[()],
        (f"P({labels[0]} > {labels[1]})",),
        f"the probability that a value of {labels[0]} is larger than one of {labels[1]}, with half the "
        "probability of a tie, in the population",
        errors,
        title="Private probability of superiority",
        notes=[
            f"{FREE} Intervals include sampling error and noise, by a normal approximation. The sampling variance is "
            "the largest of any two distributions: for like groups of one size it is 1.5 times what it must be."
        ],
        null=0.5,
        simulated=simulated,
    )
