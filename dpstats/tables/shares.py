"""Proportions of rows with a property, from noisy counts: the values that the counts do not reject.

Proof: docs/intervals/tables.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpstats.error_distributions import ErrorDistribution, Limits, Tail
from dpstats.intervals import error_tails, furthest
from dpstats.noisy_counts import CountNoise, at_least, at_most, limits

Numbers = NDArray[np.float64]

_RAISED = 1.0
"""Number of noise standard deviations that are added to the size of a group to compute sampling errors."""
_CONTINUITY = 0.5
"""Half a step. Counts are whole numbers, and a tail includes the observed count."""
_STEPS = 400


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
        """Return the shares as arrays."""
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
        and two cumulants of the second.
        """
        t = shares
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
