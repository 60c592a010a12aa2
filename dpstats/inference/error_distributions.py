"""The distribution of an estimate's error, sampling error plus privacy noise: tails, limits and intervals.

A normal sampling error plus Laplace noise has the tails of the noise: a normal interval with the right variance
undercovers at high levels. An `ErrorDistribution` knows limits or tails; the other follows by one search.
Several intervals that cover together, and the p-values of several tests, follow from it.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from scipy.special import erfcx, ndtr, ndtri

from dpstats.data.parameters import check_level
from dpstats.errors import DPStatsError, InvalidParameter, refuse

_BITS = 52  # of a distance: its precision


def normal_laplace_tail(x: float, std: float, scale: float) -> float:
    """Return P(N + L > x) for normal N of deviation ``std`` and Laplace L of ``scale``; x >= 0."""
    return float(_normal_laplace_tails(*(np.array([value], dtype=np.float64) for value in (x, std, scale)))[0])


def error_tails(
    x: NDArray[np.float64], sampling_std: NDArray[np.float64], noise: str, noise_scale: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return P(error > x) for each x: of a normal sampling error plus "gaussian" or "laplace" noise.

    Where there is no error at all the probability is 1/2 at 0.
    """
    distance, std, scale = np.broadcast_arrays(np.abs(x), sampling_std, noise_scale)
    with np.errstate(all="ignore"):
        if noise == "gaussian":
            tails = ndtr(-np.where(distance > 0, distance / np.hypot(std, scale), 0.0))
        else:
            tails = _normal_laplace_tails(distance, std, scale)
    return np.asarray(np.where(np.asarray(x) < 0, 1 - tails, tails))


def _normal_laplace_tails(
    x: NDArray[np.float64], std: NDArray[np.float64], scale: NDArray[np.float64]
) -> NDArray[np.float64]:
    # Let s = std, b = scale, and let Q be the normal tail. The sum has tail
    # Q(x/s) + e^{s^2/2b^2} (e^{-x/b} Q(s/b - x/s) - e^{x/b} Q(s/b + x/s))/2.
    # The scaled complementary error function absorbs the exponentials.
    root = math.sqrt(2)
    with np.errstate(all="ignore"):
        ratio, z = std / scale, np.where(x > 0, x / std, 0.0)
        common = np.exp(-z * z / 2)
        upper = common * erfcx((ratio + z) / root)
        near = common * erfcx((ratio - z) / root)
        far = 2 * np.exp(ratio * ratio / 2 - x / scale) * ndtr(z - ratio)
        both = ndtr(-z) + (np.where(ratio - z > -5, near, far) - upper) / 4
        only_laplace = np.exp(-np.where(x > 0, x / scale, 0.0)) / 2
    only_normal = np.where(std > 0, ndtr(-z), np.where(x > 0, 0.0, 0.5))
    return np.where(scale == 0, only_normal, np.where(std == 0, only_laplace, both))


_APART = 1.02
"""Smallest ratio of Laplace scales.

Closer scales are separated, because the tail of the sum is a difference.
"""


def laplace_sum_tails(
    x: NDArray[np.float64], std: NDArray[np.float64], scales: Sequence[NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Return P(N + L > x) for normal N of deviation ``std`` and a sum L of Laplace variables of these scales; x >= 0.

    The characteristic function of a sum of Laplace variables with different scales b_i is the sum of the single
    ones, with weights prod_j b_i^2/(b_i^2 - b_j^2). The same holds for its tail, also with an added normal
    variable. Nearly equal scales are separated by increasing the larger ones.
    """
    ordered = np.sort(np.stack(np.broadcast_arrays(*scales)), axis=0)
    for smaller, larger in itertools.pairwise(ordered):
        np.maximum(larger, np.maximum(_APART * smaller, 1e-12 * ordered[-1]), out=larger)
    squares = ordered**2
    total = np.zeros(np.broadcast_shapes(x.shape, std.shape, ordered.shape[1:]))
    for i, scale in enumerate(ordered):
        weight = np.ones_like(scale)
        for j, other in enumerate(squares):
            if j != i:
                weight = weight * squares[i] / (squares[i] - other)
        total = total + weight * error_tails(x, std, "laplace", scale)
    return np.clip(total, 0.0, 0.5)


def furthest(
    start: NDArray[np.float64],
    end: NDArray[np.float64],
    kept: Callable[[NDArray[np.float64]], NDArray[np.bool_]],
    precision: int = _BITS,
) -> NDArray[np.float64]:
    """Return for each column how far from ``start`` towards ``end`` values are kept, which ``start`` is.

    By bisection: the accepted values form an interval. ``kept`` takes several values of each column at once,
    of shape (values, columns). For few columns such a call costs the same as for one value.
    ``precision`` is in bits of the distance.
    """
    inside, outside = np.array(start, dtype=np.float64), np.array(end, dtype=np.float64)
    bits = max(1, 6 - inside.size.bit_length() // 2)  # by which a round narrows
    shares = (np.arange(1, 2**bits) / 2**bits)[:, None]
    columns = np.arange(inside.size)
    reached = kept(outside[None])[0]
    for _ in range(-(-precision // bits)):
        steps = np.vstack([inside, inside + (outside - inside) * shares, outside])
        last = np.logical_and.accumulate(kept(steps[1:-1])).sum(axis=0)
        inside, outside = steps[last, columns], steps[last + 1, columns]
    return np.where(reached, end, inside)


def normal_laplace_quantile(tail: float, std: float, scale: float) -> float:
    """Return x with P(N + L > x) = tail, for a tail of at most one half."""
    normal = std * float(-ndtri(tail))
    laplace = scale * math.log(1 / (2 * tail)) if tail < 0.5 else 0.0
    if std == 0 or scale == 0:
        return normal + laplace
    # P(N + L > a + b) <= P(N > a) + P(L > b): the halved tails bound the root from above.
    high = std * float(-ndtri(tail / 2)) + scale * math.log(1 / tail)
    return float(
        optimize.brentq(lambda x: normal_laplace_tail(x, std, scale) - tail, 0.0, high, xtol=1e-300, rtol=1e-12)
    )


def normal_laplace_quantiles(tail: Tail, std: Floats, scale: Floats) -> Floats:
    """Return x with P(N + L > x) = tail for each entry, for tails of at most one half."""
    tail, std, scale = np.broadcast_arrays(np.asarray(tail, dtype=np.float64), std, scale)
    low, high = np.zeros(tail.shape), std * normal_quantile(tail / 2) + scale * np.log(1 / tail)
    for _ in range(_BITS):
        middle = (low + high) / 2
        above = error_tails(middle, std, "laplace", scale) > tail
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return high


def half_widths(
    tail: float,  # the probability that an interval leaves on each side
    # Shape (d,). Standard deviation of the sampling error; 0 leaves it out.
    sampling_std: NDArray[np.float64],
    noise: str,  # one of "laplace", "gaussian"
    noise_scale: NDArray[np.float64],  # (d,): scale or standard deviation of the noise
) -> NDArray[np.float64]:
    """Return the half-width of a symmetric interval for each column."""
    if noise == "gaussian":
        return np.asarray(np.hypot(sampling_std, noise_scale) * -ndtri(tail))
    # Few different pairs occur (one for scalar parameters): solve each once.
    pairs = np.stack([sampling_std, noise_scale], axis=1)
    distinct, index = np.unique(pairs, axis=0, return_inverse=True)
    return np.array([normal_laplace_quantile(tail, s, b) for s, b in distinct])[index.reshape(-1)]


def simultaneous_level(confidence: float, count: int) -> float:
    """Return the level of each of ``count`` intervals that together cover with ``confidence``.

    Sidak's level. It is exact for independent errors and conservative for jointly normal errors of any
    correlation (Sidak 1967). It also holds for normal sampling errors of any correlation plus independent
    Laplace noise, which is normal given its random variances.
    """
    return math.exp(math.log(confidence) / count)


Floats = NDArray[np.float64]
Limits = tuple[Floats, Floats]
Tail = float | Floats
"""A probability of at most one half: one number, or one for each estimate."""

_SMALLEST_TAIL = 1e-300
_HALVINGS = 60


def usual_level(confidence_level: float | None) -> float:
    """Return the level of intervals: 0.95 unless another one is given."""
    return check_level("confidence_level", 0.95 if confidence_level is None else confidence_level)


class Estimated(Protocol):
    """Estimates and their standard errors: `dpstats.inference.Estimates`, for example."""

    @property
    def estimate(self) -> Any: ...
    @property
    def error(self) -> Any: ...


class ErrorDistribution(ABC):
    """Distribution of the errors of estimates. A subclass defines `limits`, or `tails`, or both.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.special import ndtr
    >>> from dpstats.inference.error_distributions import ErrorDistribution
    >>> class Normal(ErrorDistribution):
    ...     def __init__(self, estimate, error):
    ...         self.estimate, self.error = estimate, error
    ...     @property
    ...     def start(self):
    ...         return self.estimate
    ...     @property
    ...     def box(self):
    ...         return self.estimate - 40 * self.error, self.estimate + 40 * self.error
    ...     def tails(self, value):
    ...         z = (self.estimate - value) / self.error
    ...         return ndtr(z), ndtr(-z)
    >>> low, high = Normal(np.array([1.0]), np.array([0.5])).limits(0.025)
    >>> low.round(3), high.round(3)
    (array([0.02]), array([1.98]))
    """

    def __init_subclass__(cls) -> None:
        if cls.limits is ErrorDistribution.limits and cls.tails is ErrorDistribution.tails:
            raise TypeError(f"{cls.__name__} must define limits or tails: each follows from the other")

    @property
    @abstractmethod
    def start(self) -> Floats:
        """Values that no tail refutes: the estimates, inside the box."""

    @property
    def standard_error(self) -> Any:
        """Standard errors of the estimates, NaN where these are not known."""
        return np.full(self.start.shape, np.nan)

    @property
    def known(self) -> bool:
        """Whether there are intervals."""
        return True

    def confirm_level(self, confidence_level: float | None) -> float:
        """Return the level of intervals: the requested one, or the usual one."""
        return usual_level(confidence_level)

    @property
    def box(self) -> Limits:
        """The public bounds of the estimands."""
        nowhere = np.full(self.start.shape, np.inf)
        return -nowhere, nowhere

    def limits(self, tail: Tail) -> Limits:
        """Return lower and upper limits, each wrong with at most this probability, of at most one half."""
        start, shape = self.start.ravel(), self.start.shape

        def keep(value: Floats, side: int) -> NDArray[np.bool_]:
            # Below the estimate, large estimates refute; above it, small ones.
            found = self.tails(value.reshape(-1, *shape))[1 - side]
            return np.asarray(found >= tail).reshape(value.shape)

        low, high = self.box
        return (
            furthest(start, low.ravel(), lambda value: keep(value, 0)).reshape(shape),
            furthest(start, high.ravel(), lambda value: keep(value, 1)).reshape(shape),
        )

    def tails(self, value: Floats) -> Limits:
        """Return the p-values for the alternatives that an estimand is less, and greater, than its value."""
        less = least_tail(lambda tail: self.limits(tail)[1] < value, value.shape)
        greater = least_tail(lambda tail: self.limits(tail)[0] > value, value.shape)
        return _or_rest(less, greater), _or_rest(greater, less)

    def interval(self, tail: Tail) -> Limits:
        """Return intervals with at most twice this error probability: both limits, or shorter intervals."""
        return self.limits(tail)

    def two_sided(self, value: Floats) -> Floats:
        """Return the p-values for the alternative that an estimand is not its value."""
        less, greater = self.tails(value)
        return np.asarray(np.minimum(1.0, 2 * np.minimum(less, greater)))

    def statistic(self, estimates: Estimated, value: Floats) -> Floats:
        """Return the statistics of tests: distances of estimates from their values in standard errors."""
        with np.errstate(all="ignore"):
            return np.asarray((estimates.estimate - value) / estimates.error)


class ScoreErrors(ErrorDistribution):
    """Errors known by a score of every value: a standard normal variable where the value is right."""

    @abstractmethod
    def score(self, value: Floats) -> Floats:
        """Return the distance of the release above each value, as a standard normal variable."""

    def tails(self, value: Floats) -> Limits:
        z = self.score(value)
        return ndtr(z), ndtr(-z)

    def two_sided(self, value: Floats) -> Floats:
        return np.asarray(2 * ndtr(-np.abs(self.score(value))))

    def statistic(self, estimates: Estimated, value: Floats) -> Floats:
        return self.score(value)


@dataclass(frozen=True, eq=False)
class SeveralScores(ScoreErrors):
    """Errors of several numbers, each with a separate score.

    Attributes
    ----------
    parts : tuple of ScoreErrors
        Each of one number.

    Examples
    --------
    >>> from dpstats.inference.error_distributions import NormalErrors, SeveralScores
    >>> parts = (NormalErrors(np.asarray(1.0), np.asarray(0.5)), NormalErrors(np.asarray(3.0), np.asarray(0.1)))
    >>> SeveralScores(parts).score(np.zeros(2))
    array([ 2., 30.])
    """

    parts: tuple[ScoreErrors, ...]

    @property
    def start(self) -> Floats:
        return np.array([float(part.start) for part in self.parts])

    @property
    def box(self) -> Limits:
        low, high = np.array([part.box for part in self.parts], dtype=np.float64).T
        return low, high

    def limits(self, tail: Tail) -> Limits:
        tails = np.broadcast_to(tail, len(self.parts)).tolist()
        low, high = np.array([part.limits(each) for part, each in zip(self.parts, tails, strict=True)]).T
        return low, high

    def score(self, value: Floats) -> Floats:
        values = np.broadcast_to(value, (*np.shape(value)[:-1], len(self.parts)))
        return np.stack([part.score(values[..., j]) for j, part in enumerate(self.parts)], axis=-1)


@dataclass(frozen=True, eq=False)
class NoLimits(ErrorDistribution):
    """Errors with an unknown distribution: there are no intervals and no p-values."""

    estimate: Floats
    reason: str  # why, and what to do about it

    @property
    def start(self) -> Floats:
        return self.estimate

    @property
    def known(self) -> bool:
        return False

    def confirm_level(self, confidence_level: float | None) -> float:
        raise InvalidParameter(self.reason)

    def tails(self, value: Floats) -> Limits:
        raise InvalidParameter(self.reason)


@dataclass(frozen=True, eq=False)
class ChosenLimits(ErrorDistribution):
    """Errors of estimates with one known interval each: the release chose its bounds."""

    estimate: Floats
    low: Floats
    high: Floats
    level: float  # level of the intervals

    @property
    def start(self) -> Floats:
        return self.estimate

    def confirm_level(self, confidence_level: float | None) -> float:
        if confidence_level is not None and super().confirm_level(confidence_level) != self.level:
            allowed = f"{self.level:g}, for which the fit chose its limits"
            remedy = "Set another level in the estimator."
            raise refuse("confidence_level", given=confidence_level, allowed=allowed, remedy=remedy)
        return self.level

    def limits(self, tail: Tail) -> Limits:
        if not np.allclose(tail, (1 - self.level) / 2, rtol=1e-9, atol=0.0):
            raise DPStatsError(
                "these intervals have one form: two bounds, for each estimate separately, at the level of the fit. "
                "Give another confidence_level to the estimator."
            )
        return self.low, self.high

    def tails(self, value: Floats) -> Limits:
        raise DPStatsError(
            "there are no p-values: the bounds of intervals were chosen for one level. A value outside an interval of "
            "level 0.95 is rejected at level 0.05."
        )


def chosen_limits(estimate: Floats, low: Any, high: Any, level: float | None) -> ErrorDistribution:
    """Return the errors of estimates whose limits the release chose for a level; None where it chose none."""
    if level is None:
        return NoLimits(
            estimate,
            "there are no intervals: nothing was released for them. Fit with confidence_level=0.95, for example.",
        )
    return ChosenLimits(estimate, np.asarray(low), np.asarray(high), level)


@dataclass(frozen=True, eq=False)
class SelectedErrors(ErrorDistribution):
    """Errors of estimates that were selected by their values, from estimates with independent errors.

    Limits have the error probability times the proportion that was selected. At most this probability of the
    selected intervals is wrong on average: the rate of false coverage of Benjamini and Yekutieli (2005).
    """

    each: ErrorDistribution  # errors of the selected estimates, without the selection
    share: float  # selected estimates over all estimates

    @property
    def start(self) -> Floats:
        return self.each.start

    @property
    def standard_error(self) -> Any:
        return self.each.standard_error

    @property
    def known(self) -> bool:
        return self.each.known

    def confirm_level(self, confidence_level: float | None) -> float:
        return self.each.confirm_level(confidence_level)

    @property
    def box(self) -> Limits:
        return self.each.box

    def limits(self, tail: Tail) -> Limits:
        return self.each.limits(np.asarray(tail) * self.share if np.ndim(tail) else float(tail) * self.share)

    def tails(self, value: Floats) -> Limits:
        less, greater = self.each.tails(value)
        return np.minimum(less / self.share, 1.0), np.minimum(greater / self.share, 1.0)


@dataclass(frozen=True, eq=False)
class StatedErrors:
    """The estimates and standard errors of an `ErrorDistribution` that is given both."""

    # Estimates, and the standard deviations of their errors. An infinite one stands for an unknown error.
    estimate: Floats
    error: Floats

    @property
    def start(self) -> Floats:
        return self.estimate

    @property
    def standard_error(self) -> Floats:
        return np.where(np.isfinite(self.error), self.error, np.nan)


@dataclass(frozen=True, eq=False)
class NormalErrors(ScoreErrors):
    """Normal errors of estimands between public bounds."""

    estimate: Floats  # estimates without bias, and the standard deviations of their errors
    error: Floats
    least: float = -math.inf  # the ends
    largest: float = math.inf

    @property
    def start(self) -> Floats:
        return np.clip(self.estimate, self.least, self.largest)

    @property
    def box(self) -> Limits:
        return np.full(self.estimate.shape, self.least), np.full(self.estimate.shape, self.largest)

    def score(self, value: Floats) -> Floats:
        return (self.estimate - value) / self.error

    def limits(self, tail: Tail) -> Limits:
        half = normal_quantile(tail) * self.error
        low, high = self.estimate - half, self.estimate + half
        return np.clip(low, self.least, self.largest), np.clip(high, self.least, self.largest)


def normal_quantile(tail: Tail) -> Floats:
    """Return z with P(N > z) = tail, for tails of at most one half."""
    return np.asarray(np.maximum(-ndtri(tail), 0.0))


def _or_rest(tail: Floats, other: Floats) -> Floats:
    return np.where(np.isnan(tail), np.where(np.isnan(other), 1.0, 1 - other), tail)


def least_tail(excluded: Callable[[Floats], NDArray[np.bool_]], shape: tuple[int, ...]) -> Floats:
    """Return the least probability, of at most one half, whose limit excludes a value; NaN if none does."""
    least, most = np.full(shape, math.log(_SMALLEST_TAIL)), np.full(shape, math.log(0.5))
    ever = excluded(np.exp(most))
    for _ in range(_HALVINGS if ever.any() else 0):
        middle = (least + most) / 2
        out = excluded(np.exp(middle))
        least, most = np.where(out, least, middle), np.where(out, middle, most)
    return np.where(ever, np.exp(most), np.nan)


def invert_interval(interval: Callable[[Floats], Limits], value: Floats) -> Floats:
    """Return two-sided p-values of values: from the least tail whose interval excludes each."""

    def is_excluded(tail: Floats) -> NDArray[np.bool_]:
        low, high = interval(tail)
        return (value < low) | (value > high)

    least = least_tail(is_excluded, value.shape)
    return np.where(np.isnan(least), 1.0, 2 * least)


# Several intervals that cover together, and the p-values of several tests.


class Together:
    """How several intervals cover together, and how the p-values of several tests are adjusted.

    Examples
    --------
    >>> from dpstats.inference.error_distributions import BONFERRONI, SIDAK
    >>> round(SIDAK.each(0.95, 5), 5), round(BONFERRONI.each(0.95, 5), 5)
    (0.98979, 0.99)
    """

    words = "Sidak's inequality"

    def each(self, level: float, count: int) -> float:
        """Return the level of each interval, of ``count`` that cover together at ``level``."""
        return simultaneous_level(level, count)

    def adjust(self, pvalues: Floats) -> Floats:
        """Return the p-values of tests that are made together."""
        return np.asarray(-np.expm1(pvalues.size * np.log1p(-np.minimum(pvalues, 1 - 2.0**-53))))


class Bonferroni(Together):
    """Bonferroni's inequality, which holds for any dependence."""

    words = "Bonferroni's inequality"

    def each(self, level: float, count: int) -> float:
        return 1 - (1 - level) / count

    def adjust(self, pvalues: Floats) -> Floats:
        return np.asarray(np.minimum(1.0, pvalues.size * pvalues))


class Holm(Bonferroni):
    """Holm's procedure: Bonferroni's intervals, and p-values adjusted step by step."""

    words = "Holm's procedure"

    def adjust(self, pvalues: Floats) -> Floats:
        flat = np.ravel(pvalues)
        order = np.argsort(flat)
        steps = np.minimum(1.0, np.arange(flat.size, 0, -1) * flat[order])
        found = np.empty_like(flat)
        found[order] = np.maximum.accumulate(steps)
        return found.reshape(np.shape(pvalues))


class AtOnce(Together):
    """Intervals that already cover together, and p-values that hold for all tests.

    Parameters
    ----------
    words : str
        The reason.
    """

    def __init__(self, words: str) -> None:
        self.words = words

    def each(self, level: float, count: int) -> float:
        return level

    def adjust(self, pvalues: Floats) -> Floats:
        return pvalues


SIDAK, BONFERRONI, HOLM = Together(), Bonferroni(), Holm()
