"""Statistics in integers, with their sensitivities, null distributions and p-values: of ranks, and of distributions.

Ranks are half ranks, so that mid-ranks of ties are integers. Proofs: docs/proofs/rank-tests.md,
docs/intervals/ranks.md. The distances have the names of Kolmogorov and Smirnov, Kuiper, and Cramér and von Mises.
Proof: docs/proofs/distribution-tests.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import gamma, kve

from dpstats.data.values import as_int64
from dpstats.errors import attempt, refuse_data
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
"""Above this size, ranks are drawn from their normal limit: the error of a probability is at most 1e-4 (0.08/n). And
distances are drawn from their Brownian limit, which is a fraction of a row larger."""
_FEW = 100
"""Rows of the smaller of two groups, up to which the rank of each is drawn. Beyond, the rank sum has its normal limit:
the error of a probability is at most 2e-4."""
_BLOCK = 1 << 21  # numbers that are drawn at once


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
        found = _fold(released[1], self.rows, self.per_row)
        statistic = released[0] / self._estimate_std(found, noise)
        reach = noise.quantile(_UNLIKELY / 2) / self.per_row
        half = self.rows // 2
        first = max(0, min(math.ceil(found - reach), half))
        largest = 0.0
        for least, most in _cut_sizes(first, max(first, min(math.floor(found + reach), half))):
            # Statistics vary most for the largest of these sizes. Standard deviations are smallest for the least.
            sizes = _fold(self.per_row * least + _draw_noise(noise, size, 1), self.rows, self.per_row)
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

    def _estimate_std(self, found: Any, noise: CountNoise) -> Any:
        """Return the standard deviation of the released statistic at a size a little above a released one."""
        likely = np.clip(found + _ABOVE * noise.std / self.per_row, 0, self.rows / 2)
        # At least half a rank: an empty group has no variance, and at large epsilon neither has the noise.
        return np.sqrt(np.maximum(middle_variance(self.rows, likely, self.subset) + noise.variance, 1.0))


def _fold(released: Any, rows: int, per_row: int) -> Any:
    """Return the size of the smaller group by a released size."""
    return np.minimum(released, per_row * rows - released) / per_row


def _cut_sizes(first: int, last: int) -> Iterator[tuple[int, int]]:
    """Cut the sizes from ``first`` to ``last`` into short ranges, and return the least and the largest size of each."""
    while first <= last:
        largest = min(last, first + first // 40)
        yield first, largest
        first = largest + 1


@lru_cache(maxsize=16)
def _draw_noise(noise: CountNoise, size: int, *stream: int) -> Numbers:
    """Return draws of the noise of a released number, independent of all draws of other streams."""
    return noise.draw(np.random.default_rng([PUBLIC_SEED, *stream]), (size,))


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


# Distances of distributions, in integers: Kolmogorov and Smirnov, Kuiper, and Cramér and von Mises


Integers = NDArray[np.int64]

STATISTICS = {"ks": "Kolmogorov-Smirnov", "kuiper": "Kuiper", "cvm": "Cramér-von Mises"}
_FEW_ROWS = 16
"""Up to this size the null distribution is of every possible number of rows with a declared label."""

# Two samples: labels in the order of the values


def order_labels(values: NDArray[np.float64], codes: Integers, order: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return whether each row with a declared label is of the first group, by increasing value.

    ``order`` decides among equal values. It is of all rows: the label of one moves no other to another place.
    """
    places = order[np.argsort(values[order], kind="stable")]
    placed = codes[places]
    return np.asarray(placed[placed >= 0] == 0)


def two_sample_steps(kind: str, first: NDArray[np.bool_], rows: int) -> int:
    """Return ``rows`` times the statistic of labels in the order of their values, rounded down to an integer.

    Let m <= ``rows`` be the number of labels, and A_j the number of the first group among the lowest j, minus j n_a/m.
    The statistic is the largest absolute value of A, its range, or the root of its mean square.
    """
    m, size = first.size, int(first.sum())
    if not m:
        return 0
    path = m * np.cumsum(first, dtype=np.int64) - size * np.arange(1, m + 1)
    high, low = max(int(path.max()), 0), min(int(path.min()), 0)
    # In Python integers, because squares of 10^5 rows exceed 64 bits.
    if kind == "cvm":
        return math.isqrt(rows**2 * sum(step * step for step in path.tolist()) // m**3)
    return rows * (max(high, -low) if kind == "ks" else high - low) // m


def two_sample_sensitivity(kind: str, n: int, sizes: tuple[int, ...] | None) -> int:
    """Return the sensitivity of `two_sample_steps` if one of n rows is replaced. With ``sizes`` it stays in its group.

    Without, the row may also have a declared label in one dataset only.
    """
    if kind == "cvm":
        return n
    return n - 1 if sizes is None else max(sizes)


# One sample against a distribution

GRAIN = 2**30
"""Steps of a row, and of a probability."""
_FAR = 2.0**60
"""An entry for which a distribution function can be found, unless it is a sum over all entries below."""


class Probabilities(NamedTuple):
    """The probability of at most each row and, for a discrete distribution, of exactly it."""

    upper: NDArray[np.float64]
    atom: NDArray[np.float64] | None


def find_probabilities(distribution: Any, values: NDArray[np.float64]) -> Probabilities:
    """Return the probabilities of rows under a frozen distribution. Its errors may show an entry.

    One row must not change the last digits of others. They depend on whether all rows are inside the support in scipy,
    and on whether only one is, as numpy has another power of a single row. So one more entry is always outside, and
    each row is there twice.
    """
    functions = (distribution.cdf, distribution.pmf) if is_discrete(distribution) else (distribution.cdf,)
    given, n = np.concatenate([values, values, [np.nan]]), len(values)
    found = attempt(lambda: [np.asarray(one(given), dtype=np.float64)[:n] for one in functions], Exception)
    if found is None:
        raise refuse_data(
            "X",
            got="at least one entry for which the distribution function fails",
            allowed="have entries for which scipy finds the distribution function",
            remedy="Limit the entries to a public range.",
        )
    return Probabilities(found[0], found[1] if len(found) > 1 else None)


def probability_steps(probabilities: Probabilities, order: NDArray[np.intp]) -> Integers:
    """Return the probability of each row in steps. For a discrete distribution it is uniform within its atom."""
    upper, atom = probabilities
    if atom is not None:
        upper = upper - atom * (1 - (np.argsort(order) + 0.5) / len(order))
    # A NaN would be another integer on another processor.
    return as_int64(np.clip(np.rint(np.nan_to_num(upper) * GRAIN), 0, GRAIN))


def is_discrete(distribution: Any) -> bool:
    """Return whether a frozen distribution of scipy is discrete."""
    return hasattr(distribution, "pmf")


def is_summed(distribution: Any) -> bool:
    """Return whether scipy adds up all probabilities below an entry: time and memory would show a large one."""
    return is_discrete(distribution) and attempt(lambda: distribution.cdf(_FAR), Exception) is None


def one_sample_steps(kind: str, probabilities: Integers) -> int:
    """Return the statistic of rows by their probabilities under the null hypothesis, in steps.

    Let C(t) be the number of rows with a probability of at most t. The statistic is the largest absolute value of
    C(t) - nt, its range, or the root of the integral of its square, rounded down.
    """
    n, ordered = probabilities.size, np.sort(probabilities)
    expected = n * ordered
    high = max(int((GRAIN * np.arange(1, n + 1) - expected).max()), 0)
    low = min(int((GRAIN * np.arange(n) - expected).min()), 0)
    if kind == "cvm":
        halves = 2 * expected - GRAIN * np.arange(1, 2 * n, 2)
        return math.isqrt((3 * sum(half * half for half in halves.tolist()) + n * GRAIN**2) // (12 * n))
    return max(high, -low) if kind == "ks" else high - low


# Null distributions, which are public and simulated once


def _statistic(kind: str, high: Numbers, low: Numbers, square: Numbers) -> Numbers:
    """Return the statistic of paths by their extremes and their mean square."""
    if kind == "cvm":
        return np.asarray(np.sqrt(square))
    return np.asarray(np.maximum(high, -low) if kind == "ks" else high - low)


@lru_cache(maxsize=16)
def _two_sample_null(kind: str, n: int, first: int, size: int, declared: int | None = None) -> Numbers:
    """Return statistics of rows in random order, in steps of 1/n; ``first`` of them are in the first group.

    There are ``declared`` rows, or n.
    """
    steps, n = n, declared or n
    if n > _EXACT_ROWS:
        return _two_sample_limit(kind, n, first, size)
    rng, drawn = np.random.default_rng(PUBLIC_SEED), []
    labels = (np.arange(n) < first).view(np.int8)
    for count in cut(size, max(1, _BLOCK // n)):
        path = np.cumsum(rng.permuted(np.tile(labels, (count, 1)), axis=1), axis=1, dtype=np.float64)
        path *= n
        path -= first * np.arange(1, n + 1)
        drawn.append(_statistic(kind, path.max(1), path.min(1), np.square(path).mean(1)))
    return np.floor(np.concatenate(drawn) * steps / n)


def _two_sample_limit(kind: str, n: int, first: int, size: int) -> Numbers:
    """Return the same in the limit of many rows, with the exact mean of the square."""
    return math.sqrt(first * (n - first) * (n + (kind == "cvm"))) * _bridges(kind, size)


@lru_cache(maxsize=16)
def _one_sample_null(kind: str, n: int, size: int) -> Numbers:
    """Return statistics of n uniform rows, in rows."""
    if n > _EXACT_ROWS:
        return math.sqrt(n) * _bridges(kind, size)
    rng, drawn, places = np.random.default_rng(PUBLIC_SEED), [], np.arange(1, n + 1)
    for count in cut(size, max(1, _BLOCK // n)):
        away = places - n * np.sort(rng.random((count, n)), axis=1)
        square = np.square(away - 0.5).sum(1) / n + 1 / 12
        drawn.append(_statistic(kind, away.max(1), away.min(1) - 1, square))
    return np.concatenate(drawn)


@lru_cache(maxsize=8)
def _bridges(kind: str, size: int) -> Numbers:
    """Return statistics of Brownian bridges: evenly spaced quantiles of their distribution, in a random order."""
    # Below 0.4 the series of Kuiper's statistic loses its digits, and the probability is below 1e-9.
    values = np.linspace(0.4 if kind == "kuiper" else 0.05, 4.0, 40_000)
    if kind == "ks":
        law = stats.kstwobign.cdf(values)
    elif kind == "kuiper":
        squares = 2 * np.outer(np.arange(1, 30) ** 2, values**2)
        law = 1 - 2 * ((2 * squares - 1) * np.exp(-squares)).sum(axis=0)
    else:
        # Anderson and Darling (1952), of the square.
        j = np.arange(20)[:, None]
        parts = (4 * j + 1) ** 2 / (16 * values**2)
        weights = gamma(j + 0.5) / (math.sqrt(math.pi) * gamma(j + 1)) * np.sqrt(4 * j + 1)
        law = (weights * np.exp(-2 * parts) * kve(0.25, parts)).sum(axis=0) / (math.pi * values)
    places = (np.random.default_rng(PUBLIC_SEED).permutation(size) + 0.5) / size
    return np.interp(places, np.maximum.accumulate(np.clip(law, 0, 1)), values)


# The release of two samples, with the size of a group if that helps

_SIZE_SHARE = 9
"""The size of a group has this many times less of the sensitivity than the statistic."""
_MANY = 100
"""Rows from which sizes are released, if that leaves at most the fraction `_TOLD_APART` of them on each side of the
released size. The null distribution is then the limit of many rows."""
_CUTOFF = 1.36
"""Standard deviations of a path at balance that a test of level 0.05 needs without noise."""


@dataclass(frozen=True)
class TwoSamples:
    """A statistic of two samples, and the size of the first one where it is released.

    Proof: docs/proofs/distribution-tests.md.

    Attributes
    ----------
    kind : {"ks", "kuiper", "cvm"}
    rows : int
        Public number of rows, n.
    sizes : tuple of int, optional
        Public sizes of the groups. None: they are private.
    per_row : int, default=0
        Steps that are released for each row of the first group, in a second number. 0: there is none.
    """

    kind: str
    rows: int
    sizes: tuple[int, ...] | None
    per_row: int = 0

    @property
    def spacing(self) -> float:
        """Length of a step, in rows."""
        return 1 / self.rows

    @property
    def slack(self) -> float:
        """Probability that the true size is not among those that `nulls` considers."""
        return _UNLIKELY if self.per_row else 0.0

    @property
    def sensitivity(self) -> int:
        """Sensitivity in steps, of the statistic and the size together (l1)."""
        return two_sample_sensitivity(self.kind, self.rows, self.sizes) + self.per_row

    def measure(self, first: NDArray[np.bool_]) -> Integers:
        """Return the integers of declared labels in the order of their values."""
        both = [two_sample_steps(self.kind, first, self.rows), int(first.sum()) * self.per_row]
        return np.array(both[: 1 + bool(self.per_row)], dtype=np.int64)

    def nulls(self, released: Numbers, noise: CountNoise, size: int) -> list[Numbers]:
        """Return draws of the released statistic under the null hypothesis, in steps, for sizes that are possible.

        Parameters
        ----------
        released : ndarray
            The statistic and, if it was released, the size, as `measure` gives them, with noise.
        noise : CountNoise
            Their noise.
        size : int
            Number of draws.
        """
        drawn, half = _draw_noise(noise, size, 2, 0), self.rows // 2
        if self.sizes is not None:
            return [_two_sample_null(self.kind, self.rows, min(self.sizes), size) + drawn]
        if not self.per_row:
            limit = _two_sample_limit(self.kind, self.rows, half, size) + drawn
            if self.rows > _EXACT_ROWS:
                return [limit]
            # Statistics of two equal groups have few values, between which others of nearly equal groups lie.
            near = [(half, self.rows), (max(half - 1, 1), self.rows)]
            if self.rows <= _FEW_ROWS:
                near += [(m // 2, m) for m in range(2, self.rows)]
            return [limit, *(_two_sample_null(self.kind, self.rows, a, size, m) + drawn for a, m in near)]
        found, reach = _fold(released[1], self.rows, self.per_row), noise.quantile(_UNLIKELY / 2) / self.per_row
        low, high = min(math.ceil(found - reach), half), max(math.floor(found + reach), 0)
        likely = self._cutoff(found, noise)
        # Ranges are the same for every released size, so that their draws can be stored.
        return [
            likely * _scaled_null(self, first, most, noise, size)
            for first, most in _cut_sizes(0, half)
            if most >= low and first <= high
        ]

    def _cutoff(self, found: Any, noise: CountNoise) -> Any:
        """Return about the statistic of a test of level 0.05, in steps, at a released size of the smaller group."""
        smaller = np.clip(found, 0, self.rows / 2)
        return np.sqrt(_CUTOFF**2 * smaller * (self.rows - smaller) * self.rows + 5 * noise.variance + 1)


@lru_cache(maxsize=256)
def _scaled_null(statistic: TwoSamples, first: int, most: int, noise: CountNoise, size: int) -> Numbers:
    """Return draws of the statistic over the cutoff at the released size, for sizes from ``first`` to ``most``."""
    # Statistics vary most for the largest of these sizes. Cutoffs are smallest for the least.
    plain = _two_sample_limit(statistic.kind, statistic.rows, most, size) + _draw_noise(noise, size, 2, 0)
    released = statistic.per_row * first + _draw_noise(noise, size, 2, 1)
    return np.asarray(plain / statistic._cutoff(_fold(released, statistic.rows, statistic.per_row), noise))


@dataclass(frozen=True)
class OneSample:
    """A statistic of one sample against a distribution.

    Attributes
    ----------
    kind : {"ks", "kuiper", "cvm"}
    rows : int
        Public number of rows, n.
    """

    kind: str
    rows: int
    per_row: ClassVar[int] = 0
    slack: ClassVar[float] = 0.0
    spacing: ClassVar[float] = 1 / GRAIN

    @property
    def sensitivity(self) -> int:
        """Sensitivity in steps: one row."""
        return GRAIN

    def measure(self, probabilities: Integers) -> Integers:
        """Return the integer of rows by their probabilities."""
        return np.array([one_sample_steps(self.kind, probabilities)], dtype=np.int64)

    def nulls(self, released: Numbers, noise: CountNoise, size: int) -> list[Numbers]:
        """Return draws of the released statistic under the null hypothesis, in steps."""
        return [GRAIN * _one_sample_null(self.kind, self.rows, size) + _draw_noise(noise, size, 2, 0)]


def two_samples(kind: str, n: int, epsilon: float, sizes: tuple[int, ...] | None) -> TwoSamples:
    """Return the statistic of two samples. Private sizes are released where the noise permits."""
    plain = TwoSamples(kind, n, sizes)
    per_row = math.ceil(plain.sensitivity / _SIZE_SHARE)
    error = (plain.sensitivity + per_row) / (epsilon * per_row) * math.log(1 / _UNLIKELY)
    told = sizes is None and n >= _MANY and error <= _TOLD_APART * n
    return TwoSamples(kind, n, sizes, per_row) if told else plain


def distance_pvalue(nulls: list[Numbers], observed: float, slack: float = 0.0) -> float:
    """Return the largest (1 + #{null >= observed})/(B + 1), plus ``slack``."""
    largest = max(float((1 + (null >= observed).sum()) / (null.size + 1)) for null in nulls)
    return min(1.0, largest + slack)


def cutoff(nulls: list[Numbers], level: float, slack: float = 0.0) -> float:
    """Return the statistic, in steps, above which `distance_pvalue` is at most ``level``; infinite if there is none."""
    beyond = [math.floor((level - slack) * (null.size + 1)) - 1 for null in nulls]
    if min(beyond) < 0:
        return math.inf
    places = [null.size - 1 - k for null, k in zip(nulls, beyond, strict=True)]
    return max(float(np.partition(null, place)[place]) for null, place in zip(nulls, places, strict=True))
