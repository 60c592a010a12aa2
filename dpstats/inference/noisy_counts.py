"""Noisy counts: exact p-values and limits for a proportion, shares of a table, and keys that nobody declared.

Let X be binomial, and add a uniform on (-1/2, 1/2) to Laplace noise. Then X + noise >= z is the uniformly
most powerful test of a proportion at pure epsilon (Awan and Slavkovic 2018, 2020). Without the uniform, z -+
1/2 gives the tails of a released integer, including itself. Proof: docs/intervals/tables.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from scipy.special import betainc, betaincc, ndtr, ndtri

from dpstats.data.values import as_int64
from dpstats.inference.error_distributions import (
    ErrorDistribution,
    Limits,
    Tail,
    error_tails,
    furthest,
    normal_quantile,
)

Numbers = NDArray[np.float64]

_LOG_LEFT_OUT = 41.0
"""Probabilities below e^-41 = 1.6e-18 are omitted from sums: the error of a p-value is below 1e-17."""


@dataclass(frozen=True)
class CountNoise:
    """Noise of a released count, or of a sum of several."""

    # Discrete Laplace on the whole numbers, or Gaussian on a lattice too fine to matter: "laplace",
    # "gaussian".
    law: str
    scale: float  # scale, or standard deviation, of the noise of one count
    times: int = 1  # how many counts, each with noise of its own, were added up

    @property
    def variance(self) -> float:
        """Variance of the noise."""
        if self.law == "gaussian":
            return self.times * self.scale**2
        decay, stop = math.exp(-1 / self.scale), -math.expm1(-1 / self.scale)
        return self.times * 2 * decay / stop**2

    @property
    def std(self) -> float:
        """Standard deviation of the noise."""
        return math.sqrt(self.variance)

    @property
    def fourth(self) -> float:
        """Fourth cumulant: how much heavier the tails are than normal ones."""
        if self.law == "gaussian":
            return 0.0
        decay, stop = math.exp(-1 / self.scale), -math.expm1(-1 / self.scale)
        return self.times * 2 * decay * (1 + 4 * decay + decay**2) / stop**4

    @property
    def half(self) -> float:
        """Half of the distance between values, which tails of a release that has no uniform include."""
        return 0.5 if self.law == "laplace" else 0.0

    def of(self, times: int) -> CountNoise:
        """Return the noise of a sum of ``times`` counts with this noise."""
        return CountNoise(self.law, self.scale, self.times * times)

    def quantile(self, tail: float) -> float:
        """Return the smallest distance that the noise exceeds with at most this probability, on one side."""
        if self.law == "gaussian":
            return float(-ndtri(tail)) * self.std
        # P(noise >= k + 1) for a whole number k, which falls by a factor at least in each scale.
        low, high = -1, 1
        while self._exceeds(high) > tail:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._exceeds(middle) > tail else (low, middle)
        return float(high)

    def _exceeds(self, count: int) -> float:
        return float(self.beyond(count + 0.5))

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[Any]:
        """Draw noise for a simulation, which protects nobody."""
        if self.law == "gaussian":
            return rng.normal(scale=self.std, size=shape)
        stop = -math.expm1(-1 / self.scale)
        first, second = (rng.negative_binomial(self.times, stop, shape) for _ in range(2))
        return first - second

    def beyond(self, z: Any) -> Numbers:
        """Return P(noise + uniform > z); no uniform is added to Gaussian noise."""
        distance = np.asarray(z, dtype=np.float64)
        if self.law == "gaussian":
            return np.asarray(ndtr(-distance / self.std))
        below = -np.abs(distance)
        nearest = np.rint(below)
        if self.times == 1:
            decay = math.exp(-1 / self.scale)
            tail = np.exp(nearest / self.scale) * (decay + (below - nearest + 0.5) * (1 - decay)) / (1 + decay)
        else:
            masses, tails = _summed(self.scale, self.times)
            place = as_int64(np.minimum(-nearest, masses.size - 1))
            tail = tails[place] + masses[place] * (below - nearest + 0.5)
        return np.asarray(np.where(distance > 0, tail, 1 - tail))


@lru_cache(maxsize=64)
def _summed(scale: float, times: int) -> tuple[Numbers, Numbers]:
    """Return P(S = k) and P(S > k), k = 0, 1, ..., of a sum of discrete Laplace noise, by a
    Fourier transform.
    """
    decay = math.exp(-1 / scale)
    rate = 1 / (2 * scale)
    moment = (1 - decay) ** 2 / ((1 - decay * math.exp(rate)) * (1 - decay * math.exp(-rate)))
    # By Chernoff's bound almost no mass is further out.
    reach = math.ceil((_LOG_LEFT_OUT + times * math.log(moment)) / rate) + 1
    size = 1 << (2 * reach + 1).bit_length()
    angle = 2 * math.pi * np.arange(size // 2 + 1) / size
    law = ((1 - decay) ** 2 / (1 - 2 * decay * np.cos(angle) + decay**2)) ** times
    masses = np.maximum(np.fft.irfft(law, size)[: reach + 1], 0.0)
    tails = np.append(np.cumsum(masses[:0:-1])[::-1], 0.0)
    masses[-1] = 0.0
    return masses, tails


def _binomial(n: int, share: float) -> tuple[Numbers, Numbers]:
    """Return the counts that are at all likely, and their probabilities. The others have less than 4e-18 in all."""
    mean, third = n * share, _LOG_LEFT_OUT / 3
    # Bernstein's inequality.
    reach = third + math.sqrt(third**2 + 2 * _LOG_LEFT_OUT * mean * (1 - share))
    first, last = max(0, math.floor(mean - reach)), min(n, math.ceil(mean + reach))
    counts = np.arange(first, last + 1, dtype=np.float64)
    if not 0 < share < 1:
        return counts, (counts == mean).astype(np.float64)
    # Ratios of successive terms, faster than factorials and as exact. The omitted terms are negligible.
    ratios = np.log((n + 1 - counts[1:]) / counts[1:]) + (math.log(share) - math.log1p(-share))
    logs = np.concatenate([[0.0], np.cumsum(ratios)])
    weights = np.exp(logs - logs.max())
    return counts, weights / weights.sum()


def at_least(z: float, n: int, share: float, noise: CountNoise) -> float:
    """Return P(X + noise >= z), X binomial: the p-value against larger shares."""
    counts, weights = _binomial(n, share)
    return float(weights @ noise.beyond(z - counts))


def at_most(z: float, n: int, share: float, noise: CountNoise) -> float:
    """Return P(X + noise <= z): the p-value against smaller shares."""
    counts, weights = _binomial(n, share)
    return float(weights @ noise.beyond(counts - z))


def limits(low: float, high: float, n: int, noise: CountNoise, tail: float) -> tuple[float, float]:
    """Return the least and the largest share that is not refuted, each wrong with probability ``tail``.

    Parameters
    ----------
    low, high : float
        What the tails begin at: twice the count with its uniform, or a count without any, less and plus
        ``noise.half``.
    """
    lower = _crossing(lambda share: at_least(low, n, share, noise) - tail)
    upper = 1 - _crossing(lambda share: at_most(high, n, 1 - share, noise) - tail)
    return lower, upper


def _crossing(excess: Callable[[float], float]) -> float:
    """Return the zero of an increasing function on [0, 1], or the nearer of 0 and 1 if there is none."""
    if excess(0.0) >= 0:
        return 0.0
    if excess(1.0) <= 0:
        return 1.0
    return float(optimize.brentq(excess, 0.0, 1.0, xtol=1e-13, rtol=1e-12))


# Counts of keys that nobody declared: their noise, their sizes, and intervals given that a key was found.
# Proof: docs/intervals/groups.md.


Floats = NDArray[np.float64]

_FURTHEST = 12.0
"""Standard deviations beyond which the normal distribution has no probability for a float."""
_FURTHEST_LOG = 72.0
"""The same for an exponential tail, in its means."""


class KeyNoise(Protocol):
    """A distribution of noise."""

    @property
    def std(self) -> float:
        """Standard deviation."""

    @property
    def words(self) -> str:
        """The distribution, for a summary."""

    @property
    def reach(self) -> float:
        """A distance from 0 that noise does not exceed, up to a probability below 1e-30."""

    def mass(self, low: Any, high: Any) -> Floats:
        """Return P(low < N < high), accurate in both tails."""


@dataclass(frozen=True)
class NormalNoise:
    """Normal noise."""

    std: float

    @property
    def words(self) -> str:
        return f"Gaussian of standard deviation {self.std:.4g}"

    @property
    def reach(self) -> float:
        return _FURTHEST * self.std

    def mass(self, low: Any, high: Any) -> Floats:
        low, high = (np.asarray(end, dtype=np.float64) / self.std for end in (low, high))
        # Differences are accurate in the nearer tail.
        return np.asarray(np.where(low > 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low)))


@dataclass(frozen=True)
class TwoSidedNoise:
    """Noise with an exponential tail on either side of 0, and one density at 0."""

    above: float  # means of the tails
    below: float

    @property
    def std(self) -> float:
        total = self.above + self.below
        mean = (self.above**2 - self.below**2) / total
        return math.sqrt(2 * (self.above**3 + self.below**3) / total - mean**2)

    @property
    def words(self) -> str:
        if self.above == self.below:
            return f"Laplace of scale {self.below:.4g}"
        return f"Laplace of scale {self.below:.4g}, thinned to {self.above:.4g} above 0"

    @property
    def reach(self) -> float:
        return _FURTHEST_LOG * max(self.above, self.below)

    def mass(self, low: Any, high: Any) -> Floats:
        low, high = (np.asarray(end, dtype=np.float64) for end in (low, high))
        upper = _tail_mass(np.maximum(low, 0), np.maximum(high, 0), self.above)
        lower = _tail_mass(np.maximum(-high, 0), np.maximum(-low, 0), self.below)
        return np.asarray((self.above * upper + self.below * lower) / (self.above + self.below))


def _tail_mass(near: Floats, far: Floats, mean: float) -> Floats:
    """Return P(near < E < far) for an exponential variable."""
    return np.asarray(np.exp(-near / mean) * -np.expm1(-(far - near) / mean))


FURTHEST = 8.0
"""Standard scores that are looked at, on either side of 0."""

_HALVINGS = 60
_LEAST_TAIL = 1e-300


@dataclass(frozen=True, eq=False)
class FoundCounts(ErrorDistribution):
    """Noisy counts of keys that were found, and the errors of the sizes that they estimate.

    The noisy count of a key of c rows that was found has the distribution of c plus the noise, cut to the range from
    the threshold to c + threshold. Its upper tail has a uniform distribution, so a size is kept unless that tail is
    extreme.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.inference.noisy_counts import FoundCounts
    >>> from dpstats.inference.noisy_counts import NormalNoise
    >>> found = FoundCounts(np.array([45.5, 300.0]), NormalNoise(6.0), 45.0)
    >>> found.sizes.round(), [limits.round() for limits in found.limits(0.025)]
    (array([  2., 300.]), [array([  1., 288.]), array([ 51., 312.])])
    """

    N: Floats  # noisy counts of rows
    noise: KeyNoise  # the noise of a count before it is conditioned, in rows
    threshold: float  # the least noisy count that was released

    @cached_property
    def sizes(self) -> Floats:
        """The sizes for which the noisy counts are the medians."""
        return np.asarray(np.maximum(self.find_sizes(np.zeros(1))[0], 1.0))

    @property
    def note(self) -> str:
        """How groups were found, as a sentence for a summary."""
        return (
            f"Groups are shown where their noisy count reaches {self.threshold:.1f} rows. Intervals hold given that a "
            "group was found."
        )

    @property
    def start(self) -> Floats:
        return self.sizes

    @property
    def standard_error(self) -> Floats:
        """Standard deviation of the noise, before it is conditioned."""
        return np.full(self.N.shape, self.noise.std)

    @property
    def box(self) -> Limits:
        return np.ones(self.N.shape), np.full(self.N.shape, np.inf)

    def __getitem__(self, places: Any) -> FoundCounts:
        return FoundCounts(self.N[places], self.noise, self.threshold)

    def limits(self, tail: Tail) -> Limits:
        """Return lower and upper limits of the sizes, each wrong with this probability, or with one for each key."""
        z = np.broadcast_to(normal_quantile(tail), self.N.shape)
        low, high = np.maximum(self.find_sizes(np.stack([z, -z])), 1.0)
        return low, high

    def find_sizes(self, z: Floats) -> Floats:
        """Return the sizes at which the scores of the noisy counts are z, of shape (size,) or (size, *N.shape)."""
        target = z.reshape(*z.shape, *[1] * (1 + self.N.ndim - z.ndim))
        low = np.broadcast_to(np.maximum(self.N - self.threshold, 0.0), (len(z), *self.N.shape))
        high = low + self.threshold + self.noise.reach
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            below = self.score_sizes(middle) > target
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray(low)

    def score_sizes(self, size: Floats) -> Floats:
        """Return the scores of the noisy counts, if keys have these sizes and were found: standard normal variables."""
        at, least, mass = self.N - size, self.threshold - size, self.noise.mass
        all_of_it = mass(least, self.threshold)
        above = np.clip(mass(at, self.threshold) / all_of_it, _LEAST_TAIL, 1.0)
        below = np.clip(mass(least, at) / all_of_it, _LEAST_TAIL, 1.0)
        return np.asarray(np.where(above <= below, -ndtri(above), ndtri(below)))


def uniform(signs: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return uniform numbers in the open interval (-1/2, 1/2), computed from coin flips of shape (..., bits)."""
    bits = (np.asarray(signs) + 1) // 2
    width = bits.shape[-1]
    return np.asarray(bits @ 2.0 ** -np.arange(1, width + 1) + 2.0 ** -(width + 1) - 0.5)


# Proportions: the values that the counts do not reject

_RAISED = 1.0
"""Number of noise standard deviations that are added to the size of a group to compute sampling errors."""
_CONTINUITY = 0.5
"""Half a step. Counts are whole numbers, and a tail includes the observed count."""
_STEPS = 400
_NO_NOISE = 1e-5
"""Noise of this variance is 0, but with at most this probability."""


# If the number of rows is public, the release has one count. A group has a private size, and the release has noisy
# counts of its rows with and without the property. For a proportion t the statistic (1 - t) * with - t * without
# has mean 0 for any size of the group. So no step divides by a noisy number.
@dataclass(frozen=True)
class CountShare:
    """A noisy count among a public number of rows. Its upper tail begins at ``low`` and its lower tail at ``high``."""

    low: float
    high: float
    n: int
    noise: CountNoise

    def pvalues(self, shares: Numbers) -> Limits:
        """Return P(count at most the observed) and P(count at least the observed) for each proportion."""
        below = [at_most(self.high, self.n, float(share), self.noise) for share in np.ravel(shares)]
        above = [at_least(self.low, self.n, float(share), self.noise) for share in np.ravel(shares)]
        return np.reshape(below, np.shape(shares)), np.reshape(above, np.shape(shares))

    def limits(self, tail: float) -> tuple[float, float]:
        """Return the smallest and the largest proportion that are not rejected."""
        return limits(self.low, self.high, self.n, self.noise, tail)

    def error(self, share: float) -> float:
        """Return the standard deviation of the error of an estimate."""
        return float(np.sqrt(share * (1 - share) / self.n + self.noise.variance / self.n**2))


@dataclass(frozen=True)
class NoisyShare:
    """Two noisy counts: of the rows of a group with a property, and without it."""

    having: float
    lacking: float
    having_noise: CountNoise
    lacking_noise: CountNoise

    @property
    def estimate(self) -> float:
        """The proportion, between 0 and 1. NaN if neither count is positive."""
        having, lacking = max(self.having, 0.0), max(self.lacking, 0.0)
        return having / (having + lacking) if having + lacking > 0 else float("nan")

    @property
    def size(self) -> float:
        """Upper estimate of the number of rows, by the standard deviation of the noise, at least 1."""
        spread = np.sqrt(self.having_noise.variance + self.lacking_noise.variance)
        return float(max(self.having + self.lacking + _RAISED * spread, 1.0))

    def error(self, share: float) -> float:
        """Return the standard deviation of the error of an estimate, to first order in the noise."""
        size = max(self.having + self.lacking, 1.0)
        noise = (1 - share) ** 2 * self.having_noise.variance + share**2 * self.lacking_noise.variance
        return float(np.sqrt(size * share * (1 - share) + noise) / size)

    @cached_property
    def _alone(self) -> NoisyShares:
        return NoisyShares.stack([self])

    def pvalues(self, shares: Numbers) -> Limits:
        """Return P(statistic at most the observed) and P(statistic at least the observed) for each proportion."""
        below, above = self._alone.pvalues(np.asarray(shares, dtype=np.float64)[..., None])
        return below[..., 0], above[..., 0]

    def limits(self, tail: float) -> tuple[float, float]:
        """Return the smallest and largest proportion not rejected. If all are, return the least rejected one."""
        low, high = self._alone.limits(np.array([tail]))
        return float(low[0]), float(high[0])


@dataclass(frozen=True)
class NoisyShares:
    """Several noisy shares in arrays of shape (k,). Their limits are found together, in a few calls."""

    having: Numbers
    lacking: Numbers
    size: Numbers
    having_variance: Numbers
    lacking_variance: Numbers
    having_fourth: Numbers
    lacking_fourth: Numbers

    @classmethod
    def stack(cls, shares: Sequence[NoisyShare]) -> NoisyShares:
        """Return the proportions as arrays."""
        rows = [
            (
                *(share.having, share.lacking, share.size),
                *(share.having_noise.variance, share.lacking_noise.variance),
                *(share.having_noise.fourth, share.lacking_noise.fourth),
            )
            for share in shares
        ]
        return cls(*np.array(rows, dtype=np.float64).T)

    def pvalues(self, shares: Numbers) -> Limits:
        """Return P(statistic at most the observed) and P(statistic at least the observed): arrays of shape (..., k).

        The statistic is a binomial deviation plus Laplace or Gaussian noise. The tails use the skewness of the first
        and two cumulants of the second. If there is no noise, the tails are binomial.
        """
        below, above = self._noisy_pvalues(shares)
        exact = self.having_variance + self.lacking_variance < _NO_NOISE
        if exact.any():
            having, lacking = (np.maximum(np.rint(count), 0.0) for count in (self.having, self.lacking))
            fewer = np.where(lacking > 0, betaincc(having + 1, np.maximum(lacking, 1.0), shares), 1.0)
            more = np.where(having > 0, betainc(np.maximum(having, 1.0), lacking + 1, shares), 1.0)
            below, above = np.where(exact, fewer, below), np.where(exact, more, above)
        return below, above

    def _noisy_pvalues(self, t: Numbers) -> Limits:
        away = (1 - t) * self.having - t * self.lacking
        sampling = self.size * t * (1 - t)
        noise = (1 - t) ** 2 * self.having_variance + t**2 * self.lacking_variance
        fourth = (1 - t) ** 4 * self.having_fourth + t**4 * self.lacking_fourth
        with np.errstate(divide="ignore", invalid="ignore"):
            # On the longer side of the binomial, use the larger variance of Bernstein's inequality.
            skew = sampling / (sampling + noise) * np.maximum(np.sign(away) * (1 - 2 * t), 0.0) / 3
            variance = sampling + noise + np.abs(away) * np.nan_to_num(skew)
            # A Laplace variable with this part of the variance has the same fourth cumulant: 12 b^4 = 3 (2 b^2)^2.
            heavy = np.minimum(np.sqrt(fourth / 3), variance)
            std = np.sqrt(np.maximum(variance - heavy, 0.0))
        scale = np.sqrt(heavy / 2)
        below, above = (error_tails(side * away - _CONTINUITY, std, "laplace", scale) for side in (-1, 1))
        return below, above

    def limits(self, tail: Numbers) -> Limits:
        """Return the smallest and largest proportions not rejected. If all are, return the least rejected ones."""
        grid = self._grid()
        least = np.minimum(*self.pvalues(grid))
        kept, place = least >= tail, np.arange(len(self.size))
        some = kept.any(axis=0)
        first = np.where(some, kept.argmax(axis=0), least.argmax(axis=0))
        last = np.where(some, len(grid) - 1 - kept[::-1].argmax(axis=0), first)
        beyond = np.where(some, np.maximum(first - 1, 0), first), np.where(some, last + 1, last)
        inside, outside = (
            np.concatenate([grid[low, place], grid[np.minimum(high, len(grid) - 1), place]])
            for low, high in ((first, last), beyond)
        )

        def is_kept(values: Numbers) -> NDArray[np.bool_]:
            pairs = self.pvalues(values.reshape(-1, 2, len(self.size)))
            return np.asarray(np.minimum(*pairs) >= tail).reshape(values.shape)

        low, high = furthest(inside, outside, is_kept).reshape(2, -1)
        return low, high

    def _grid(self) -> Numbers:
        """Return proportions in increasing order, among which limits are found: shape (count, k)."""
        even = np.repeat(np.linspace(0.0, 1.0, _STEPS + 1)[:, None], len(self.size), axis=1)
        # Near 0 and 1 the grid is as fine as the resolution of counts in a group of this size.
        fine = np.where(self.size > 1, np.geomspace(0.01 / self.size, 0.5, _STEPS // 4), 0.0)
        # In a large group, proportions one grid step away may be rejected. Add the observed proportion, which is not.
        rows = self.having + self.lacking
        with np.errstate(divide="ignore", invalid="ignore"):
            observed = np.clip(np.where(rows > 0, self.having / rows, 0.0), 0.0, 1.0)
        return np.sort(np.concatenate([even, fine, 1 - fine, observed[None]]), axis=0)


@dataclass(frozen=True, eq=False)
class ShareErrors(ErrorDistribution):
    """Errors of several proportions.

    Attributes
    ----------
    estimate : array
        Estimated proportions. NaN for a group without a positive count.
    shares : sequence of CountShare or NoisyShare
        Counts of the estimates, in the order of ``numpy.ravel``.
    """

    estimate: Numbers
    shares: Sequence[CountShare | NoisyShare]

    @property
    def start(self) -> Numbers:
        return np.nan_to_num(self.estimate, nan=0.5)

    @property
    def box(self) -> Limits:
        return np.zeros(self.estimate.shape), np.ones(self.estimate.shape)

    @property
    def standard_error(self) -> Numbers:
        """Standard deviations of the errors."""
        errors = [share.error(each) for share, each in zip(self.shares, np.ravel(self.estimate), strict=True)]
        return np.reshape(errors, self.estimate.shape)

    def limits(self, tail: Tail) -> Limits:
        tails = np.broadcast_to(tail, self.estimate.shape).ravel()
        ends = np.empty((2, tails.size))
        noisy = np.array([isinstance(share, NoisyShare) for share in self.shares], dtype=bool)
        if noisy.any():
            together = NoisyShares.stack([share for share in self.shares if isinstance(share, NoisyShare)])
            ends[:, noisy] = together.limits(tails[noisy])
        for place in np.flatnonzero(~noisy).tolist():
            ends[:, place] = self.shares[place].limits(float(tails[place]))
        low, high = ends.reshape(2, *self.estimate.shape)
        return low, high

    def tails(self, value: Numbers) -> Limits:
        pairs = [share.pvalues(each) for share, each in zip(self.shares, value.reshape(-1, 1), strict=True)]
        less, greater = np.reshape(pairs, (*self.estimate.shape, 2)).T
        return less.T, greater.T
