"""Errors of coefficients: their distributions, and limits of columns with two values."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit, gammaln, kve, logit, ndtr, ndtri

from dpstats.data.values import quiet
from dpstats.inference.error_distributions import ErrorDistribution, Limits, StatedErrors, Tail
from dpstats.inference.results import in_percent
from dpstats.regression.passes import Floats

# Bias by clipped outcomes

_NAMED = 0.5
"""Bias in standard errors that a note names if it is seen, and a line if noise hides it: intervals of level 0.95 then
cover 0.92."""
_MOST = 0.5
"""Clipped fraction from which residuals do not show how far outcomes are beyond the bounds, as for equal outcomes."""


@dataclass(frozen=True)
class ClippingBias:
    """The bias that outcomes outside their bounds may cause.

    Attributes
    ----------
    share, noise : float
        Released fraction of these outcomes, and the standard deviation of its noise.
    effect : float
        Largest bias of an estimate in its standard errors, for each unit of this fraction. The mean outcome moves by
        the mean distance of clipped outcomes from their bound. Slopes on normal columns are multiplied by the fraction
        that is not clipped (Stein's lemma), so the largest move is the slope.
    estimates, bounds : str
        Names of the estimates, and of the bounds.
    """

    share: float
    noise: float
    effect: float
    estimates: str = "coefficients"
    bounds: str = "y_bounds"

    @property
    def notes(self) -> list[str]:
        """The note of a bias that the release shows."""
        bias, where = self.share * self.effect, f"lie outside {self.bounds}. Widen {self.bounds}."
        if self.share <= 2 * self.noise:
            return []
        if self.share > _MOST:
            return [f"{self.estimates.capitalize()} do not describe the outcomes: most of them {where}"]
        words = f"Clipped outcomes may bias {self.estimates} by {bias:.1f} standard errors"
        return [f"{words}: {100 * self.share:.2g}% of the outcomes {where}"] if bias > _NAMED else []

    @property
    def facts(self) -> list[tuple[str, str]]:
        """The lines of a summary: the fraction, and the bias that noise can hide unless a note names it."""
        found = [("Outcomes outside bounds", in_percent(self.share, self.noise))]
        hidden = (max(self.share, 0.0) + 2 * self.noise) * self.effect
        if hidden > _NAMED and not self.notes:
            words = f"outcomes within {self.bounds} (noise can hide a bias of {hidden:.1f} se)"
            found.append((f"{self.estimates.capitalize()} assume", words))
        return found


# Distributions of errors


class ErrorLaw(Protocol):
    """The functions of an error distribution that intervals and tests use."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences on errors that p-values of joint tests include, besides the residuals' degrees of freedom."""

    def tail(self, z: Any) -> NDArray[np.float64]:
        """Return the probability of an error above z."""

    def reach(self, tail: float) -> float:
        """Return the upper quantile: errors exceed it with probability ``tail``."""

    def joint_tail(self, statistic: float, q: int, left: int) -> float:
        """Return the probability that the Wald statistic of q errors, divided by q, exceeds ``statistic``."""


class Normal(ErrorLaw):
    """Normal errors."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """No remarks: joint tests have F distributions."""
        return ()

    def tail(self, z: Any) -> NDArray[np.float64]:
        return np.asarray(ndtr(-np.asarray(z)))

    def reach(self, tail: float) -> float:
        return -float(ndtri(tail))

    def joint_tail(self, statistic: float, q: int, left: int) -> float:
        return float(stats.f.sf(statistic, q, max(left, 1)))


class Student(Normal):
    """Errors whose variance is estimated with ``degrees`` degrees of freedom, at least 1."""

    def __init__(self, degrees: float) -> None:
        self.degrees = max(degrees, 1)

    def tail(self, z: Any) -> NDArray[np.float64]:
        return np.asarray(stats.t.sf(z, self.degrees))

    def reach(self, tail: float) -> float:
        return float(stats.t.isf(tail, self.degrees))


class Robust(Student):
    """Errors whose covariance is estimated by a sandwich, with ``degrees`` degrees of freedom of its meat."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """That the covariance has fewer degrees of freedom than the residuals."""
        return (
            f"The p-value is of Hotelling's T-squared: a robust covariance has about {self.degrees:,.0f} degrees of "
            "freedom.",
        )

    def joint_tail(self, statistic: float, q: int, left: int) -> float:
        # The statistic has the distribution of Hotelling's T^2.
        rest = max(self.degrees - q + 1, 1)
        return float(stats.f.sf(statistic * rest / max(self.degrees, rest), q, rest))


class NormalAndLaplace(Student):
    """Errors that are sums of a normal error and Laplace noise, in any proportions.

    Such an error is normal with a random variance, a weighted sum of exponential variables. Its distribution lies
    between the normal and the Laplace distribution. This class uses the larger of their two tails. The tail of a sum
    exceeds it by at most one part in ten thousand (tests/regression/test_error_laws.py). Student's tails replace
    normal ones where the variance of the normal error is estimated.
    """

    @property
    def remarks(self) -> tuple[str, ...]:
        """That tails are the tails of Laplace noise where these are heavier."""
        return ("The p-value is the larger of those for normal errors and for Laplace noise.",)

    def tail(self, z: Any) -> NDArray[np.float64]:
        z = np.asarray(z, dtype=np.float64)
        both = super().tail(np.abs(z)), np.exp(-math.sqrt(2) * np.abs(z)) / 2
        return np.asarray(np.where(z < 0, 1 - np.minimum(*both), np.maximum(*both)))

    def reach(self, tail: float) -> float:
        side = 1 if tail <= 0.5 else -1
        laplace = -side * math.log(2 * min(tail, 1 - tail)) / math.sqrt(2)
        return max(super().reach(tail), laplace)

    def joint_tail(self, statistic: float, q: int, left: int) -> float:
        # A common exponential variance has the heaviest tails. Its integral is a Bessel function.
        normal, half, root = super().joint_tail(statistic, q, left), q / 2, math.sqrt(2 * q * statistic)
        if root == 0 or not math.isfinite(root):
            return normal
        bessel = math.log(kve(half, root)) - root if kve(half, root) > 0 else -math.inf
        mixed = math.exp(math.log(2) + half * math.log(root / 2) + bessel - float(gammaln(half)))
        return max(normal, min(mixed, 1.0))


NORMAL = Normal()


@dataclass(frozen=True, eq=False)
class ScaledErrors(StatedErrors, ErrorDistribution):
    """Errors that follow a distribution after division by their standard errors."""

    law: ErrorLaw

    def limits(self, tail: Tail) -> Limits:
        reach = np.array([self.law.reach(each) for each in np.ravel(tail)]).reshape(np.shape(tail))
        half = reach * self.error
        return self.estimate - half, self.estimate + half

    def tails(self, value: Floats) -> Limits:
        z = (self.estimate - value) / self.error
        return self.law.tail(-z), self.law.tail(z)


@dataclass(frozen=True, eq=False)
class MappedErrors(ErrorDistribution):
    """Errors of an increasing function of estimates.

    Attributes
    ----------
    errors : ErrorDistribution
        Distribution of the errors of the estimates.
    forward, backward : function
        The function, and its inverse.
    """

    errors: ErrorDistribution
    forward: Callable[[Floats], Floats]
    backward: Callable[[Floats], Floats]

    @property
    def start(self) -> Floats:
        return self.forward(self.errors.start)

    @property
    def box(self) -> Limits:
        return self._map(self.errors.box)

    def limits(self, tail: Tail) -> Limits:
        return self._map(self.errors.limits(tail))

    def tails(self, value: Floats) -> Limits:
        with quiet():
            return self.errors.tails(self.backward(value))

    def _map(self, limits: Limits) -> Limits:
        # A limit beyond the largest float is infinite.
        with quiet():
            low, high = (self.forward(end) for end in limits)
        return low, high


# Limits of columns with two values

_COARSE_NOISE = 0.1
"""Noise of a level in the last gradient, over its mean, from which its own lower limit counts too."""
_LARGEST_LOG_ODDS = 30.0


@dataclass(frozen=True)
class Level(ABC):
    """The linear predictor of the rows with one value of a column.

    The logarithm of a mean near 0 is far from normal, and so are log odds of a rate near 0 or 1. The noisy mean itself
    is nearly normal. So a level has the limits of its mean, which are infinite if the mean may be 0.

    Attributes
    ----------
    before, after : float
        Linear predictor before the last step, and of the estimate.
    moved : float
        The last move of the linear predictor, averaged over the rows with the weights of the curvature.
    std : float
        Standard error of the estimate, to first order in its mean.
    seen, noise, sampling : float
        Mean that the last gradient alone shows, over the mean before the step, with the standard deviations of its
        noise and of its sampling error. For log odds it is a rate.
    one : float
        The change of ``seen`` by one more outcome in these rows.
    most : float
        Largest linear predictor that the bounds of the outcome allow. Limits beyond it are infinite.
    """

    before: float
    after: float
    moved: float
    std: float
    seen: float
    noise: float
    sampling: float
    one: float = 0.0
    most: float = math.inf

    @property
    def error(self) -> float:
        """Standard deviation of the error of ``seen``."""
        return math.hypot(self.noise, self.sampling)

    def reach_unseen(self, z: float) -> float:
        """Return the distance of the upper limit from ``seen``, at z standard errors of the limit.

        Without any outcome ``seen`` has no sampling error. This is Wilson's limit of a rare outcome.
        """
        half = z * self.one / 2
        return z * (half + math.hypot(self.error, half))

    @abstractmethod
    def lower_distance(self, z: float) -> float:
        """Return the distance of the lower limit at z standard errors, infinite if there is none."""

    @abstractmethod
    def upper_distance(self, z: float) -> float:
        """Return the distance of the upper limit."""

    @abstractmethod
    def is_settled(self, errors: float) -> bool:
        """Return whether the last gradient agrees with the estimate, within this many standard errors of both."""


@dataclass(frozen=True)
class LogLevel(Level):
    """The log mean of a level."""

    def lower_distance(self, z: float) -> float:
        least = self.seen - z * self.error
        if least <= 0 or z * self.std >= 1:
            return math.inf
        usual = -math.log1p(-z * self.std)
        return max(usual, self.after - self.before - math.log(least)) if self.noise > _COARSE_NOISE else usual

    def upper_distance(self, z: float) -> float:
        usual = math.log1p(z * self.std)
        if math.isfinite(self.lower_distance(z)):
            return usual
        # The steps may have gone far below the mean. The last gradient knows how far the mean can be above them.
        most = self.seen + self.reach_unseen(z)
        alone = self.before + math.log(most) - self.after if most > 0 else -math.inf
        return math.inf if self.after + alone >= self.most else max(usual, alone)

    def is_settled(self, errors: float) -> bool:
        factor = math.exp(min(self.moved, 50.0))
        return abs(self.seen - factor) <= errors * math.hypot(self.error, min(factor, 2.0) * self.std)


@dataclass(frozen=True)
class LogitLevel(Level):
    """The log odds of a level."""

    @property
    def _rate(self) -> float:
        return float(expit(np.clip(self.after, -_LARGEST_LOG_ODDS, _LARGEST_LOG_ODDS)))

    def lower_distance(self, z: float) -> float:
        return self._distance(z, self._rate, self.seen)

    def upper_distance(self, z: float) -> float:
        return self._distance(z, 1 - self._rate, 1 - self.seen)

    def _distance(self, z: float, rate: float, seen: float) -> float:
        """Return the distance to the lower limit of the rate of one of both outcomes."""
        least, alone = self._least(z, rate, seen)
        if min(least, alone) <= 0:
            return math.inf
        if rate > 0.5:
            if min(self._least(z, 1 - rate, 1 - seen)) <= 0:
                # The other outcome may never happen: its rate has no lower limit.
                least = min(least, seen - self.reach_unseen(z))
            elif self.noise > _COARSE_NOISE * (1 - rate):
                # The average of two noisy log odds is too far from 0.
                least = min(least, alone)
        return float(logit(rate) - logit(least)) if least > 0 else math.inf

    def _least(self, z: float, rate: float, seen: float) -> tuple[float, float]:
        """Return the lower limits of a rate by the estimate, and by the last gradient alone."""
        return rate - rate * (1 - rate) * z * self.std, seen - z * self.error

    def is_settled(self, errors: float) -> bool:
        rate = float(expit(self.before + self.moved))
        return abs(self.seen - rate) <= errors * math.hypot(self.error, rate * (1 - rate) * self.std)


_USUAL_LEVEL = 0.95
"""Level of the limits that a slope is said to have or not to have."""


@dataclass(frozen=True)
class Levels:
    """Both levels of the column of one slope.

    Attributes
    ----------
    place : int
        Position of the slope.
    low, high : float
        Both values of the column, in its units.
    width : float
        Their distance. Values far from 0 may be rounded to the same float.
    upper, lower : Level
        Levels of the rows with the values ``high`` and ``low``.
    """

    place: int
    low: float
    high: float
    width: float
    upper: Level
    lower: Level

    def distances(self, z: float) -> tuple[float, float]:
        """Return the distances of the slope from its lower and upper limit at z standard errors."""
        down = math.hypot(self.upper.lower_distance(z), self.lower.upper_distance(z))
        up = math.hypot(self.upper.upper_distance(z), self.lower.lower_distance(z))
        return down / self.width, up / self.width

    def is_settled(self, errors: float) -> bool:
        """Return whether both levels have settled. A level without a limit counts: its interval says more."""
        open_at = {value for value, _ in self.list_unlimited()}
        levels = (self.upper, self.high), (self.lower, self.low)
        return all(value in open_at or level.is_settled(errors) for level, value in levels)

    def list_unlimited(self) -> list[tuple[float, int]]:
        """Return the value of the column at each level without a limit, and the sign of the slope's missing limit."""
        z = NORMAL.reach((1 - _USUAL_LEVEL) / 2)
        return [
            (value, side * sign)
            for level, value, side in ((self.upper, self.high, 1), (self.lower, self.low, -1))
            for sign, end in ((-1, level.lower_distance(z)), (1, level.upper_distance(z)))
            if math.isinf(end)
        ]

    def directions(self, z: float, first: int, size: int) -> list[Floats]:
        """Return the directions in which coefficients have no limit at z standard errors.

        They move the linear predictor of one level by 1 or -1, and keep the other level.
        """
        found = []
        for level, other, side in ((self.upper, self.low, 1.0), (self.lower, self.high, -1.0)):
            move = np.zeros(size)
            move[first + self.place] = side / self.width
            move[:first] = -side * other / self.width
            found += [
                sign * move
                for sign, end in ((-1, level.lower_distance(z)), (1, level.upper_distance(z)))
                if math.isinf(end)
            ]
        return found


_LARGEST_SCORE = 1e9
"""Standard errors up to which a score is searched. Its inverse is the smallest score."""
_SCORE_HALVINGS = 52


@dataclass(frozen=True, eq=False)
class LevelErrors(ScaledErrors):
    """Errors of linear combinations of coefficients. Some of these have `Levels`.

    A limit combines the distances of the coefficients from their limits, with their correlations (MOVER: Zou and Donner
    2008, Construction of confidence limits about effect measures). It is infinite if the combination changes along a
    direction without a limit. P-values invert the limits. With normal levels these are the usual intervals.

    Attributes
    ----------
    weights : array of shape (n_combinations, n_coefficients)
    covariance : array of shape (n_coefficients, n_coefficients)
    levels : sequence of Levels
    first : int
        Position of the first slope.
    """

    weights: Floats
    covariance: Floats
    levels: Sequence[Levels]
    first: int

    def limits(self, tail: Tail) -> Limits:
        usual = super().limits(tail)
        tails = np.broadcast_to(np.asarray(tail, dtype=np.float64), self.estimate.shape)
        low, high = (np.array(np.broadcast_to(end, self.estimate.shape)) for end in usual)
        for each in np.unique(tails):
            chosen = (tails == each) & self._concerned
            down, up = self._distances(self.law.reach(float(each)), self.weights[chosen])
            low[chosen], high[chosen] = self.estimate[chosen] - down, self.estimate[chosen] + up
        return low, high

    def tails(self, value: Floats) -> Limits:
        z = self._score(value)
        return self.law.tail(-z), self.law.tail(z)

    def statistic(self, estimates: object, value: Floats) -> Floats:
        return self._score(value)

    @cached_property
    def _concerned(self) -> NDArray[np.bool_]:
        """Select the combinations of the constant and of columns with levels. Others have the usual limits."""
        places = [*range(self.first), *(self.first + each.place for each in self.levels)]
        return np.asarray((self.weights[:, places] != 0).any(axis=1) & np.isfinite(self.error))

    @cached_property
    def _scales(self) -> tuple[Floats, Floats]:
        """Standard errors of the coefficients, and the correlations of their errors."""
        errors = np.sqrt(np.maximum(np.diagonal(self.covariance), 1e-300))
        return errors, self.covariance / np.outer(errors, errors)

    def _distances(self, z: float, weights: Floats) -> tuple[Floats, Floats]:
        """Return the distances of combinations from both limits at z standard errors."""
        errors, correlation = self._scales
        down, up = z * errors, z * errors
        beyond: list[Floats] = []
        for each in self.levels:
            place = self.first + each.place
            beyond += each.directions(z, self.first, errors.size)
            for side, end in zip((down, up), each.distances(z), strict=True):
                if math.isfinite(end):
                    side[place] = end
        found = []
        for sign, below, above in ((1, down, up), (-1, up, down)):
            parts = weights * np.where(weights > 0, below, above)
            distance = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", parts, correlation, parts), 0.0))
            for direction in beyond:
                rounding = 1e-9 * (np.abs(weights) @ np.abs(direction))
                distance = np.where(sign * (weights @ direction) < -rounding, np.inf, distance)
            found.append(distance)
        return found[0], found[1]

    def _score(self, value: Floats) -> Floats:
        """Return the distance of each estimate above a value, in standard errors of the limit at the value."""
        at = np.broadcast_to(value, self.estimate.shape)
        score = np.array((self.estimate - at) / self.error)
        for place in np.flatnonzero(self._concerned):
            off, weights = float(self.estimate[place] - at[place]), self.weights[[place]]
            least, most = 1 / _LARGEST_SCORE, _LARGEST_SCORE
            for _ in range(_SCORE_HALVINGS):
                z = math.sqrt(least * most)
                beyond = abs(off) > self._distances(z, weights)[0 if off > 0 else 1][0]
                least, most = (z, most) if beyond else (least, z)
            score[place] = math.copysign(least if least > 1 / _LARGEST_SCORE else 0.0, off)
        return score


def find_one_sided(levels: Sequence[Levels], d: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Find the slopes that have only an upper (-1) or a lower (1) limit of level 0.95, and those without any limit."""
    side, hidden = np.zeros(d, dtype=np.int64), np.zeros(d, dtype=np.bool_)
    for each in levels:
        signs = {sign for _, sign in each.list_unlimited()}
        side[each.place], hidden[each.place] = sum(signs), len(signs) == 2
    return side, hidden
