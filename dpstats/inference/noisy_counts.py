"""A count of independent rows plus noise: exact p-values, and limits for the proportion.

Let X be binomial, and add a uniform on (-1/2, 1/2) to Laplace noise. Then X + noise >= z is the uniformly
most powerful test of a proportion at pure epsilon (Awan and Slavkovic 2018, 2020). Without the uniform, z -+
1/2 gives the tails of a released integer, including itself. Proof: docs/intervals/tables.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from scipy.special import ndtr, ndtri

from dpstats.data.values import as_int64

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
