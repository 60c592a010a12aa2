"""Effects of two groups, of strata and of pairs, and trends, from noisy counts, with intervals by inverted score tests.

Proof: docs/intervals/tables.md.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, ndtr, ndtri

from dpstats.data.values import as_int64
from dpstats.inference.error_distributions import (
    ErrorDistribution,
    Limits,
    ScoreErrors,
    Tail,
    error_tails,
    furthest,
    invert_interval,
    normal_quantile,
)
from dpstats.inference.estimates import Estimates
from dpstats.inference.noisy_counts import CountNoise, NoisyShare
from dpstats.inference.results import FREE
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.tables.null_tests import PUBLIC_SEED

Numbers = NDArray[np.float64]

_NOTE = f"{FREE} Counts sampling error and noise, by a normal approximation."
_ONE_STD = float(ndtr(-1.0))
_TIES = 1 - 1e-9
_CONTINUITY = 0.5
"""Added to a count that estimates a variance, because the count of an empty cell has a variance too."""
_LARGEST = 1e9
_TINY = 1e-300
_HIDDEN = 2.0
"""By how many standard deviations of its noise the slope of an equation must exceed 0."""
_SCANNED = 1001
_SHRUNK = 8.0
"""By how many variances of a cell's noise the squared size of a stratum is raised in its weight."""

# Differences, ratios and odds ratios, with intervals valid for small counts

_POINTS = 150
_NEARLY_ALL = 1e-9  # a tail probability that rejects almost no value


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


# Strata, pairs and trends
#
# At the right value a sum over cells has mean zero. An interval holds the values at which this sum is near zero
# compared to its standard deviation. Nothing is divided by a noisy number.
@dataclass(frozen=True, eq=False)
class Strata:
    """Counts of two groups and of an outcome, in strata.

    Attributes
    ----------
    counts : array of shape (..., strata, 2, 2)
        Counts as released. Rows are groups. Columns are with and without the outcome.
    noise : array of shape (2,)
        Variances of the noise of a count with the outcome and of one without it.
    """

    counts: Numbers
    noise: Numbers

    @property
    def weights(self) -> Numbers:
        """Mantel-Haenszel weights 1/n of strata with n rows, smaller for strata that noise hides."""
        sizes = np.maximum(self.counts.sum(axis=(-2, -1)), 1.0)
        return np.asarray(sizes / (sizes**2 + _SHRUNK * self.noise.max()))

    def sums(self, measure: Measure, value: float | Numbers) -> Numbers:
        """Return the weighted terms of the strata in the equation, at a value or at one for each table."""
        x, y = self.counts[..., 0, :], self.counts[..., 1, :]
        return np.asarray(self.weights * np.einsum("...i,...ij,...j->...", x, _form(measure, value), y))

    def values(self, measure: Measure) -> Numbers:
        """Return the common value of each table, clipped to possible values; NaN if none solves the equation.

        A ratio is infinite if the equation is positive at every value, and noise explains that it is so at the largest.
        """
        constant = self.sums(measure, 0.0).sum(axis=-1)
        slope = constant - self.sums(measure, 1.0).sum(axis=-1)
        none = np.full_like(constant, np.nan)
        if measure.none == 1:
            variance = np.maximum(self.variances(measure, _LARGEST).sum(axis=-1), _TINY)
            last = self.sums(measure, _LARGEST).sum(axis=-1) / np.sqrt(variance)
            none = np.where((constant > 0) & (last <= 1), np.inf, np.nan)
        found = np.divide(constant, slope, out=none, where=slope > 0)
        return np.asarray(np.clip(found, measure.least, measure.exchanged(measure.least)))

    def _finite_values(self, measure: Measure) -> Numbers:
        """Return the common values, at most a very large one, and the value of no effect where there is none."""
        values = self.values(measure)
        return np.where(np.isnan(values), measure.none, np.minimum(values, _LARGEST))

    def variances(self, measure: Measure, value: float | Numbers) -> Numbers:
        """Return the variances of the terms of the strata if the value is correct."""
        form = _form(measure, value)
        counts = np.maximum(self.counts, 0.0)
        sizes = counts.sum(axis=-1)
        shares = fitted_shares(measure, counts, value)
        expected = np.stack([sizes * shares, sizes * (1 - shares)], axis=-1)
        # The size of a group is fixed, so the sampling errors of its two counts are opposite.
        sampling = sizes * shares * (1 - shares)
        right = np.einsum("...ij,...j->...i", form, expected[..., 1, :])
        left = np.einsum("...i,...ij->...j", expected[..., 0, :], form)
        variance = sampling[..., 0] * np.diff(right)[..., 0] ** 2 + right**2 @ self.noise
        variance = variance + sampling[..., 1] * np.diff(left)[..., 0] ** 2 + left**2 @ self.noise
        # Add products of two errors. At least one of the two is noise.
        first, second = (sampling[..., [row]] + self.noise for row in (0, 1))
        both = np.einsum("...ij,...i,...j->...", form**2, first, second)
        alone = (form**2).sum(axis=(-2, -1)) * sampling[..., 0] * sampling[..., 1]
        return np.asarray(self.weights**2 * (variance + both - alone))

    def expected_counts(self, measure: Measure) -> Numbers:
        """Return the maximum likelihood estimate of the expected counts under a common value."""
        counts = np.maximum(self.counts, 0.0)
        shares = fitted_shares(measure, counts, self._finite_values(measure))
        sizes = counts.sum(axis=-1)
        return np.stack([sizes * shares, sizes * (1 - shares)], axis=-1)

    def heterogeneity(self, measure: Measure) -> Numbers:
        """Return the sum of the squared scores of the strata at the common value of each table; NaN without one."""
        at = self._finite_values(measure)
        found = (self.sums(measure, at) ** 2 / np.maximum(self.variances(measure, at), _TINY)).sum(axis=-1)
        return np.where(np.isnan(self.values(measure)), np.nan, found)

    def draw_tables(
        self, measure: Measure, cell: CountNoise, other: CountNoise, size: int, rng: np.random.Generator
    ) -> Strata:
        """Draw noisy tables with the common value in all strata and the estimated sizes."""
        counts = np.maximum(self.counts, 0.0)
        sizes = as_int64(np.rint(counts.sum(axis=-1)))
        shares = fitted_shares(measure, counts, self._finite_values(measure))
        having = rng.binomial(sizes, shares, size=(size, *sizes.shape))
        drawn = np.stack([having, sizes - having], axis=-1).astype(np.float64)
        drawn[..., 0] += cell.draw(rng, having.shape)
        drawn[..., 1] += other.draw(rng, having.shape)
        return Strata(drawn, self.noise)


@dataclass(frozen=True, eq=False)
class CommonErrors(ScoreErrors):
    """Errors of a value that is common to all strata."""

    strata: Strata
    measure: Measure

    @property
    def estimate(self) -> float:
        """The solution of the equation. NaN without one."""
        return float(self.strata.values(self.measure))

    @property
    def start(self) -> Numbers:
        return np.asarray(self.measure.none if math.isnan(self.estimate) else self.estimate)

    @property
    def box(self) -> Limits:
        least = self.measure.least
        return np.asarray(least), np.asarray(self.measure.exchanged(least))

    def limits(self, tail: Tail) -> Limits:
        if math.isnan(self.estimate):
            return self.box
        z = float(np.max(normal_quantile(tail)))

        def is_kept(places: Numbers) -> NDArray[np.bool_]:
            return np.abs(self.score(self._value(places))) <= z

        at = self._place(self.estimate)
        ends = (furthest(np.array([at]), np.array([end]), is_kept)[0] for end in (0.0, 1.0))
        low, high = (self._value(np.asarray(end)) for end in ends)
        return low, high

    def score(self, value: Numbers) -> Numbers:
        value = np.asarray(value, dtype=np.float64)
        at = np.minimum(value, _LARGEST)
        each = Strata(np.broadcast_to(self.strata.counts, (*value.shape, *self.strata.counts.shape)), self.strata.noise)
        total, variance = (each.sums(self.measure, at).sum(axis=-1), each.variances(self.measure, at).sum(axis=-1))
        found = total / np.sqrt(np.maximum(variance, _TINY))
        return np.where(value == self.estimate, 0.0, found)

    def _place(self, value: float) -> float:
        """Return a value on a scale from 0 to 1."""
        if self.measure.none == 0:
            return (value + 1) / 2
        return value / (1 + value) if math.isfinite(value) else 1.0

    def _value(self, place: Numbers) -> Numbers:
        if self.measure.none == 0:
            return np.asarray(2 * place - 1)
        with np.errstate(divide="ignore"):
            return np.asarray(np.divide(place, 1 - np.asarray(place)))


def _form(measure: Measure, value: float | Numbers) -> Numbers:
    """Return the matrices B of the terms x'By, for counts x of the first group and y of the second."""
    v = np.asarray(value, dtype=np.float64)
    zero, one = np.zeros_like(v), np.ones_like(v)
    rows = {
        ODDS_RATIO.name: [[zero, one], [-v, zero]],
        RISK_RATIO.name: [[1 - v, one], [-v, zero]],
        DIFFERENCE.name: [[-v, 1 - v], [-1 - v, -v]],
    }[measure.name]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)[..., None, :, :]


def fitted_shares(measure: Measure, counts: Numbers, value: float | Numbers) -> Numbers:
    """Return the most likely proportions of both groups given a value, of shape (..., strata, 2), by bisection.

    The likelihood is concave in the second share (in its logit, for an odds ratio), so its derivative has one root.
    """
    x, y = counts[..., 0, :], counts[..., 1, :]
    v = np.minimum(np.asarray(value, dtype=np.float64), _LARGEST)[..., None]
    low, high = np.zeros(x.shape[:-1]), np.ones(x.shape[:-1])
    if measure is DIFFERENCE:
        low, high = np.maximum(low, -v), np.minimum(high, 1 - v)
    elif measure is RISK_RATIO:
        high = high / np.maximum(v, 1.0)

    def first(second: Numbers) -> Numbers:
        if measure is DIFFERENCE:
            return np.asarray(second + v)
        if measure is RISK_RATIO:
            return np.asarray(second * v)
        return np.asarray(v * second / np.maximum(1 - second + v * second, _TINY))

    for _ in range(50):
        middle = (low + high) / 2
        a, b = np.clip(first(middle), _TINY, 1.0), np.clip(middle, _TINY, 1.0)
        rest_a, rest_b = np.maximum(1 - a, _TINY), np.maximum(1 - b, _TINY)
        rate = a * rest_a / (b * rest_b) if measure is ODDS_RATIO else v if measure is RISK_RATIO else 1.0
        with np.errstate(over="ignore", invalid="ignore"):
            rises = (x[..., 0] / a - x[..., 1] / rest_a) * rate + y[..., 0] / b - y[..., 1] / rest_b > 0
        low, high = np.where(rises, middle, low), np.where(rises, high, middle)
    second = (low + high) / 2
    return np.asarray(np.clip(np.stack([first(second), second], axis=-1), 0.0, 1.0))


class SkewedErrors(ScoreErrors):
    """Errors of an equation whose left side has a variance, a skewness and noise with a fourth cumulant at each value.

    A tail counts the skewness of the sampling error and the fourth cumulant of the noise, as for proportions.
    """

    @abstractmethod
    def left_side(self, value: Numbers) -> Numbers:
        """Return the left side of the equation, which is 0 on average at the right value."""

    @abstractmethod
    def cumulants(self, value: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Return the variance of the left side at values, the third cumulant of sampling and the fourth of noise."""

    def limits(self, tail: Tail) -> Limits:
        z = float(np.max(normal_quantile(tail)))
        # The variance depends on the value, so that values between two that are kept need not be: scan them.
        grid = np.unique(np.append(np.linspace(*self.box, _SCANNED), self.start))
        kept = np.flatnonzero((np.abs(self.score(grid)) <= z) | (grid == self.start))[[0, -1]]
        beyond = np.clip(kept + np.array([-1, 1]), 0, grid.size - 1)
        low, high = furthest(grid[kept], grid[beyond], lambda value: np.abs(self.score(value)) <= z)
        return low, high

    def score(self, value: Numbers) -> Numbers:
        value = np.clip(np.asarray(value, dtype=np.float64), -1e150, 1e150)
        found = self.left_side(value)
        variance, third, fourth = self.cumulants(value)
        variance = variance + np.maximum(found * third, 0.0) / (3 * variance)
        heavy = np.minimum(np.sqrt(fourth / 3), variance)
        tails = error_tails(np.abs(found), np.sqrt(variance - heavy), "laplace", np.sqrt(heavy / 2))
        return np.asarray(np.copysign(ndtri(np.clip(tails, _TINY, 0.5)), found))


@dataclass(frozen=True, eq=False)
class PairedErrors(SkewedErrors):
    """Errors of the difference between two proportions of the same rows, as in McNemar's test.

    At each difference the proportions of changed rows have their maximum likelihood (Tango 1998).

    Attributes
    ----------
    gained, lost : float
        Counts of rows with the outcome on one side only, with noise.
    total : float
        The number of rows, at least 1.
    noise : CountNoise
        Noise of ``gained`` and of ``lost``.
    """

    gained: float
    lost: float
    total: float
    noise: CountNoise

    @property
    def estimate(self) -> float:
        """The difference, within the possible values."""
        return min(max((self.gained - self.lost) / self.total, -1.0), 1.0)

    @property
    def error(self) -> float:
        """The standard error at the estimate."""
        return math.sqrt(float(self.cumulants(np.asarray(self.estimate))[0])) / self.total

    @property
    def start(self) -> Numbers:
        return np.asarray(self.estimate)

    @property
    def box(self) -> Limits:
        return np.asarray(-1.0), np.asarray(1.0)

    def left_side(self, value: Numbers) -> Numbers:
        return np.asarray(self.gained - self.lost - value * self.total)

    def cumulants(self, value: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        v, n = np.clip(value, -1.0, 1.0), self.total
        gained, lost = max(self.gained, 0.0), max(self.lost, 0.0)
        # The likeliest proportion of lost rows solves 2n p^2 + line p - lost v (1 - v) = 0.
        line = (2 * n - gained + lost) * v - gained - lost
        root = np.sqrt(np.maximum(line**2 + 8 * n * lost * v * (1 - v), 0.0))
        lost_share = np.clip((root - line) / (4 * n), np.maximum(-v, 0.0), (1 - v) / 2)
        changed = 2 * lost_share + v
        sampling = n * np.maximum(changed - v**2, 0.0)
        return (
            np.maximum(sampling + 2 * self.noise.variance, _TINY),
            n * (v - 3 * changed * v + 2 * v**3),
            np.full_like(sampling, 2 * self.noise.fourth),
        )


@dataclass(frozen=True, eq=False)
class TrendErrors(SkewedErrors):
    """Errors of the slope of proportions in the scores of groups, as in the Cochran-Armitage test.

    Attributes
    ----------
    having, lacking : arrays of shape (groups,)
        Counts with and without the outcome, as released.
    scores : array of shape (groups,)
    noise : (CountNoise, CountNoise)
        Noise of a count with the outcome and of one without it.
    """

    having: Numbers
    lacking: Numbers
    scores: Numbers
    noise: tuple[CountNoise, CountNoise]

    @cached_property
    def sizes(self) -> Numbers:
        """Sizes of the groups, with noise."""
        return self.having + self.lacking

    @cached_property
    def total(self) -> float:
        """The number of rows, with noise; at least 1."""
        return max(float(self.sizes.sum()), 1.0)

    @cached_property
    def away(self) -> Numbers:
        """Distances of the scores from their mean."""
        return np.asarray(self.scores - float(self.sizes @ self.scores) / self.total)

    @cached_property
    def slope(self) -> float:
        """The amount by which the equation falls for each unit of the value."""
        return float(self.sizes @ self.away**2)

    @property
    def is_hidden(self) -> bool:
        """Whether noise hides the sizes of groups with different scores."""
        noise = sum(each.variance for each in self.noise) * float((self.away**4).sum())
        return self.slope <= _HIDDEN * math.sqrt(noise)

    @property
    def estimate(self) -> float:
        """The solution, within the possible values. NaN if no value solves the equation."""
        if self.slope <= 0:
            return math.nan
        low, high = self.box
        return float(np.clip(float(self.having @ self.away) / self.slope, low, high))

    @property
    def error(self) -> float:
        """The standard error, by the slope of the equation."""
        if self.slope <= 0:
            return math.nan
        return math.sqrt(float(self.cumulants(np.asarray(self.estimate))[0])) / self.slope

    @property
    def start(self) -> Numbers:
        return np.asarray(0.0 if math.isnan(self.estimate) else self.estimate)

    @property
    def box(self) -> Limits:
        width = 1 / float(np.ptp(self.scores))
        return np.asarray(-width), np.asarray(width)

    def score(self, value: Numbers) -> Numbers:
        return np.zeros(np.shape(value)) if self.is_hidden else super().score(value)

    def left_side(self, value: Numbers) -> Numbers:
        return np.asarray(float(self.having @ self.away) - value * self.slope)

    def cumulants(self, value: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        first, second = self.noise
        least = _CONTINUITY / self.total
        share = min(max(float(self.having.sum()) / self.total, least), 1 - least)
        shares = np.clip(share + value[..., None] * self.away, 0.0, 1.0)
        sampling = np.maximum(self.sizes, 0.0) * shares * (1 - shares)
        each = sampling + (1 - shares) ** 2 * first.variance + shares**2 * second.variance
        # Add products of two errors: of one group's residual, and of the noise of another group's size.
        gaps = (self.scores[:, None] - self.scores) ** 2
        both = (first.variance + second.variance) * (each @ gaps.sum(axis=1))
        shared = (1 - shares) * first.variance - shares * second.variance
        both = both - ((shared @ gaps) * shared).sum(axis=-1)
        return (
            np.maximum(each @ self.away**2 + both / self.total**2, _TINY),
            (sampling * (1 - 2 * shares)) @ self.away**3,
            ((1 - shares) ** 4 * first.fourth + shares**4 * second.fourth) @ self.away**4,
        )


def equation_estimate(
    errors: PairedErrors | TrendErrors, name: str, words: str, privacy: PrivacyGuarantee
) -> Estimates:
    """Return the solution of an equation as an estimate with its interval and test."""
    return Estimates(
        np.asarray(errors.estimate)[()],
        np.asarray(errors.error)[()],
        (name,),
        f"{words}, in the population",
        errors,
        title=f"Private {name}",
        notes=[f"{FREE} Counts sampling error, its skewness and noise."],
        unknown=no_estimate_note(errors.estimate),
        null=0.0,
        simulated=privacy.simulated,
    )


def common(errors: CommonErrors, words: str, simulated: bool) -> Estimates:
    """Return a value that is common to all strata, with its interval and its test."""
    measure = errors.measure
    low, high = errors.limits(_ONE_STD)
    return Estimates(
        np.asarray(errors.estimate)[()],
        (high - low) / 2,
        (measure.name,),
        f"{words}, in the population, if it is the same in all strata",
        errors,
        title=f"Private {measure.name} of Mantel and Haenszel",
        facts=[("Strata", f"{len(errors.strata.counts)}")],
        notes=[_NOTE],
        unknown=no_estimate_note(errors.estimate),
        null=measure.none,
        simulated=simulated,
    )


@dataclass(frozen=True, eq=False)
class ReciprocalErrors(ErrorDistribution):
    """Errors of the reciprocal of a number."""

    number: ErrorDistribution

    @property
    def start(self) -> Numbers:
        with np.errstate(divide="ignore"):
            return np.asarray(1 / self.number.start)

    def interval(self, tail: Tail) -> Limits:
        low, high = self.number.interval(tail)
        both = low * high > 0
        with np.errstate(divide="ignore"):
            return np.where(both, 1 / high, -np.inf), np.where(both, 1 / low, np.inf)

    def limits(self, tail: Tail) -> Limits:
        # A limit of the reciprocal is wrong if either limit of the number is wrong: one of them decides the sign.
        return self.interval(np.asarray(tail) / 2)

    def two_sided(self, value: Numbers) -> Numbers:
        return invert_interval(self.interval, value)


def reciprocal(found: Estimates) -> Estimates:
    """Return the number needed to treat, from a difference."""
    low, high = found.distribution.limits(0.025)
    notes = [*found.notes, "The limits are the reciprocals of the limits of the difference."]
    if low <= 0 <= high:
        notes.append("The interval of the difference contains 0, so the number has no limit on either side.")
    with np.errstate(divide="ignore"):
        estimate = np.asarray(1 / np.asarray(found.estimate))[()]
    return replace(
        found,
        estimate=estimate,
        error=np.asarray(math.nan)[()],
        names=("number needed to treat",),
        estimand=f"1 over the {found.estimand}",
        distribution=ReciprocalErrors(found.distribution),
        title="Private number needed to treat",
        notes=notes,
        null=None,
    )


def homogeneity_pvalue(
    strata: Strata, measure: Measure, having: CountNoise, lacking: CountNoise, size: int
) -> tuple[float, float]:
    """Return the sum of squared scores of the strata, and its p-value by public simulation."""
    observed = float(strata.heterogeneity(measure))
    rng = np.random.default_rng((PUBLIC_SEED, 3))
    drawn = strata.draw_tables(measure, having, lacking, size, rng)
    found = drawn.heterogeneity(measure)
    # A simulated table without a common value counts as at least as extreme as the observed one: conservative.
    above = int(np.sum(~(found < _TIES * observed)))
    return observed, 1.0 if math.isnan(observed) else (1 + above) / (size + 1)
