"""Statistics of Kolmogorov and Smirnov, Kuiper, and Cramér and von Mises, in integers, and their null distributions.

Proof: docs/proofs/distribution-tests.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import gamma, kve

from dpstats.data.values import as_int64
from dpstats.errors import attempt, refuse_data
from dpstats.inference.noisy_counts import CountNoise
from dpstats.parallel import cut
from dpstats.ranks.statistics import PUBLIC_SEED, Numbers

Integers = NDArray[np.int64]

STATISTICS = {"ks": "Kolmogorov-Smirnov", "kuiper": "Kuiper", "cvm": "Cramér-von Mises"}
_EXACT_ROWS = 2000
"""Above this size the null distribution is its Brownian limit, which is a fraction of a row larger."""
_FEW_ROWS = 16
"""Up to this size the null distribution is of every possible number of rows with a declared label."""
_DRAWN_AT_ONCE = 1 << 21
"""Numbers that are drawn at once."""

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
    """Return the probabilities of rows under a frozen distribution. Its errors may show an entry."""
    functions = (distribution.cdf, distribution.pmf) if is_discrete(distribution) else (distribution.cdf,)
    found = attempt(lambda: [np.asarray(one(values), dtype=np.float64) for one in functions], Exception)
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
    for count in cut(size, max(1, _DRAWN_AT_ONCE // n)):
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
    for count in cut(size, max(1, _DRAWN_AT_ONCE // n)):
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


@lru_cache(maxsize=16)
def _draw_noise(noise: CountNoise, size: int, number: int) -> Numbers:
    """Return draws of the noise of a released number, independent of all other draws."""
    return noise.draw(np.random.default_rng([PUBLIC_SEED, 2, number]), (size,))


# The release of two samples, with the size of a group if that helps

_SIZE_SHARE = 9
"""The size of a group has this many times less of the sensitivity than the statistic."""
_UNLIKELY = 1e-5
"""Probability that the true size is not among those that a p-value considers. The p-value includes it."""
_TOLD_APART = 1 / 4
"""Sizes are released if that leaves at most this fraction of the rows on each side of the released size."""
_MANY = 100
"""Rows from which sizes are released: their null distribution is the limit of many rows."""
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
        drawn, half = _draw_noise(noise, size, 0), self.rows // 2
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
        found, reach = self._fold(released[1]), noise.quantile(_UNLIKELY / 2) / self.per_row
        low, high = min(math.ceil(found - reach), half), max(math.floor(found + reach), 0)
        likely = self._cutoff(found, noise)
        # Ranges are the same for every released size, so that their draws can be stored.
        return [
            likely * _scaled_null(self, first, most, noise, size)
            for first, most in _cut_sizes(half)
            if most >= low and first <= high
        ]

    def _fold(self, released: Any) -> Any:
        """Return the size of the smaller group by a released size."""
        return np.minimum(released, self.per_row * self.rows - released) / self.per_row

    def _cutoff(self, found: Any, noise: CountNoise) -> Any:
        """Return about the statistic of a test of level 0.05, in steps, at a released size of the smaller group."""
        smaller = np.clip(found, 0, self.rows / 2)
        return np.sqrt(_CUTOFF**2 * smaller * (self.rows - smaller) * self.rows + 5 * noise.variance + 1)


@cache
def _cut_sizes(half: int) -> list[tuple[int, int]]:
    """Cut the sizes up to ``half`` into short ranges, and return the least and the largest size of each."""
    first, found = 0, []
    while first <= half:
        found.append((first, min(half, first + first // 40)))
        first = found[-1][1] + 1
    return found


@lru_cache(maxsize=256)
def _scaled_null(statistic: TwoSamples, first: int, most: int, noise: CountNoise, size: int) -> Numbers:
    """Return draws of the statistic over the cutoff at the released size, for sizes from ``first`` to ``most``."""
    # Statistics vary most for the largest of these sizes. Cutoffs are smallest for the least.
    plain = _two_sample_limit(statistic.kind, statistic.rows, most, size) + _draw_noise(noise, size, 0)
    released = statistic.per_row * first + _draw_noise(noise, size, 1)
    return np.asarray(plain / statistic._cutoff(statistic._fold(released), noise))


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
        return [GRAIN * _one_sample_null(self.kind, self.rows, size) + _draw_noise(noise, size, 0)]


def two_samples(kind: str, n: int, epsilon: float, sizes: tuple[int, ...] | None) -> TwoSamples:
    """Return the statistic of two samples. Private sizes are released where the noise permits."""
    plain = TwoSamples(kind, n, sizes)
    per_row = math.ceil(plain.sensitivity / _SIZE_SHARE)
    error = (plain.sensitivity + per_row) / (epsilon * per_row) * math.log(1 / _UNLIKELY)
    told = sizes is None and n >= _MANY and error <= _TOLD_APART * n
    return TwoSamples(kind, n, sizes, per_row) if told else plain


def pvalue(nulls: list[Numbers], observed: float, slack: float = 0.0) -> float:
    """Return the largest (1 + #{null >= observed})/(B + 1), plus ``slack``."""
    largest = max(float((1 + (null >= observed).sum()) / (null.size + 1)) for null in nulls)
    return min(1.0, largest + slack)


def cutoff(nulls: list[Numbers], level: float, slack: float = 0.0) -> float:
    """Return the statistic, in steps, above which `pvalue` is at most ``level``; infinite if there is none."""
    beyond = [math.floor((level - slack) * (null.size + 1)) - 1 for null in nulls]
    if min(beyond) < 0:
        return math.inf
    places = [null.size - 1 - k for null, k in zip(nulls, beyond, strict=True)]
    return max(float(np.partition(null, place)[place]) for null, place in zip(nulls, places, strict=True))
