"""Proportions of rows with a property, from noisy counts, and comparisons of two groups.

Proof: docs/intervals/tables.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincc, gammaincinv, ndtr, ndtri

from dpstats.inference.error_distributions import ErrorDistribution, Limits, ScoreErrors, Tail, error_tails, furthest
from dpstats.inference.estimates import Estimates
from dpstats.inference.noisy_counts import CountNoise, at_least, at_most, limits
from dpstats.inference.results import FREE

# Proportions: the values that the counts do not reject

Numbers = NDArray[np.float64]
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


# Differences, ratios and odds ratios, with intervals valid for small counts

_POINTS = 150
_NEARLY_ALL = 1e-9  # a tail probability that rejects almost no value
_ONE_STD = float(ndtr(-1.0))


@dataclass(frozen=True)
class Measure:
    """Measure of the difference between two proportions, increasing in the first and decreasing in the second.

    Attributes
    ----------
    name : str
        Name in reports.
    none : float
        Value for equal proportions.
    least : float
        Smallest value. Exchanging the groups gives the largest value.
    of : callable
        Returns the value for the first and the second proportion.
    second : callable
        Returns the second proportion for the first one and the value.
    """

    name: str
    none: float
    least: float
    of: Callable[[Any, Any], Any]
    second: Callable[[Any, Any], Any]

    def exchanged(self, value: float) -> float:
        """Return the value with the groups exchanged."""
        return -value if self.none == 0 else float(_ratio(1.0, value))


def _difference(a: Any, b: Any) -> Any:
    return a - b


def _ratio(a: Any, b: Any) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.divide(a, b)


def _odds_ratio(a: Any, b: Any) -> Any:
    return _ratio(a * (1 - b), b * (1 - a))


def _share_of_odds(a: Any, value: Any) -> Any:
    return 1 - _ratio(1.0, 1 + _ratio(_ratio(a, 1 - a), value))


def _arcsine_difference(a: Any, b: Any) -> Any:
    return 2 * (np.arcsin(np.sqrt(a)) - np.arcsin(np.sqrt(b)))


def _share_of_arcsine(a: Any, value: Any) -> Any:
    angle = np.arcsin(np.sqrt(a)) - value / 2
    # No proportion has an angle outside the quarter circle.
    return np.where((angle >= 0) & (angle <= np.pi / 2), np.sin(angle) ** 2, -1.0)


DIFFERENCE = Measure("difference", 0.0, -1.0, _difference, _difference)
RISK_RATIO = Measure("risk ratio", 1.0, 0.0, _ratio, _ratio)
ODDS_RATIO = Measure("odds ratio", 1.0, 0.0, _odds_ratio, _share_of_odds)
COHENS_H = Measure("Cohen's h", 0.0, -np.pi, _arcsine_difference, _share_of_arcsine)


# The score of a pair of proportions is the sum of their squared normal scores, minus the score of the best possible
# pair. This is similar to a likelihood ratio; noise may put both estimates outside [0, 1]. An interval contains the
# values of the measure for all pairs whose score is at most the critical value. No step divides by a noisy number.
@dataclass(frozen=True, eq=False)
class EffectErrors(ScoreErrors):
    """Errors of a measure of two proportions.

    Limits are rounded outward to a grid of pairs of proportions.
    """

    first: NoisyShare
    second: NoisyShare
    measure: Measure

    @cached_property
    def _scores(self) -> tuple[_Score, _Score]:
        return _Score(self.first), _Score(self.second)

    @property
    def start(self) -> Numbers:
        best = self.measure.of(*(score.best for score in self._scores))
        return np.asarray(self.measure.none if np.isnan(best) else best)

    @property
    def box(self) -> Limits:
        least = self.measure.least
        return np.asarray(least), np.asarray(self.measure.exchanged(least))

    def limits(self, tail: Tail) -> Limits:
        level = 1 - 2 * float(np.max(tail))
        low, high = _range(self.first, self.second, self._scores, self.measure, level)
        return np.asarray(low), np.asarray(high)

    def score(self, value: Numbers) -> Numbers:
        found = [self._score(each) for each in np.ravel(value).tolist()]
        return np.reshape(found, np.shape(value))

    def _score(self, value: float) -> float:
        # Minimize the score over all pairs of proportions with this value.
        first, second = self._scores
        back = self.measure.second(second.grid, self.measure.exchanged(value))
        a = np.unique(np.concatenate([first.grid, np.clip(back[np.isfinite(back)], 0.0, 1.0), [0.0, 1.0]]))
        b = self.measure.second(a, value)
        # 0 / 0 allows any proportion.
        b = np.where(np.isnan(b), second.best, b)
        possible = (b >= 0) & (b <= 1)
        least = float(np.min((first(a) + second(np.clip(b, 0.0, 1.0)))[possible], initial=np.inf))
        return float(np.copysign(np.sqrt(least), self.start - value))


def effect(
    first: NoisyShare, second: NoisyShare, measure: Measure, estimand: str, simulated: bool = False
) -> Estimates:
    """Return the estimated effect between two groups, with its test of no difference.

    The estimate is NaN if a group has no positive count. The standard error is half the length of the interval whose
    error probability is the normal probability beyond one standard deviation.
    """
    errors = EffectErrors(first, second, measure)
    low, high = errors.limits(_ONE_STD)
    estimate = np.asarray(measure.of(first.estimate, second.estimate))
    return Estimates(
        estimate[()],
        (high - low) / 2,
        (measure.name,),
        f"{estimand}, in the population",
        errors,
        title=f"Private {measure.name}",
        notes=[f"{FREE} The interval accounts for sampling error and noise."],
        unknown=no_estimate_note(estimate),
        null=measure.none,
        simulated=simulated,
    )


def no_estimate_note(estimate: Any) -> list[str]:
    """Return a note that there is no estimate, if it is NaN."""
    if not np.isnan(estimate).any():
        return []
    return ["Not estimated: noise hides whether a group has rows, or the ratio is 0 / 0."]


class _Score:
    """The squared normal score of each value of a proportion, minus the score of the best value."""

    def __init__(self, share: NoisyShare) -> None:
        self._share = share
        self.grid = _grid(share, _NEARLY_ALL)
        squared = self._squared(self.grid)
        self.least, self.best = float(squared.min()), float(self.grid[np.argmin(squared)])

    def __call__(self, values: Numbers) -> Numbers:
        return np.asarray(np.maximum(self._squared(values) - self.least, 0.0))

    def _squared(self, values: Numbers) -> Numbers:
        below, above = self._share.pvalues(values)
        return np.asarray(np.minimum(ndtri(np.clip(np.minimum(below, above), 1e-300, 0.5)), 0.0) ** 2)


def _grid(share: NoisyShare, tail: float) -> Numbers:
    """Return a grid between the smallest and the largest value that is not rejected, finer near 0 and 1."""
    low, high = share.limits(tail)
    parts = [np.linspace(low, high, _POINTS)]
    if 0 < low < high:
        parts.append(np.geomspace(low, high, _POINTS))
    if low < high < 1:
        parts.append(1 - np.geomspace(1 - high, 1 - low, _POINTS))
    return np.clip(np.unique(np.concatenate(parts)), low, high)


def _range(
    first: NoisyShare, second: NoisyShare, scores: tuple[_Score, _Score], measure: Measure, level: float
) -> tuple[float, float]:
    """Return the smallest and the largest value of a measure over all pairs of proportions with a small score."""
    allowed = float(2 * gammaincinv(0.5, level))
    x, y = (
        _grid(share, float(ndtr(-np.sqrt(allowed + score.least))))
        for share, score in zip((first, second), scores, strict=True)
    )
    kept = scores[0](x)[:, None] + scores[1](y)[None] <= allowed
    # Keep an interval between two grid points if either point is kept.
    outer = kept.copy()
    outer[1:] |= kept[:-1]
    outer[:-1] |= kept[1:]
    wider = outer.copy()
    wider[:, 1:] |= outer[:, :-1]
    wider[:, :-1] |= outer[:, 1:]
    values = measure.of(x[:, None], y[None])[wider]
    # 0 / 0 allows any value.
    low = 0.0 if np.isnan(values).any() and measure.none == 1 else float(np.nanmin(values))
    high = float("inf") if np.isnan(values).any() else float(np.nanmax(values))
    return low, high
