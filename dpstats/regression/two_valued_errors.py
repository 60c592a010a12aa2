"""Intervals of the slope of a column with two values: the difference of its two levels, each with its own limits.

The logarithm of a mean near 0 is far from normal, and so are log odds of a rate near 0 or 1. The noisy mean itself is
nearly normal. So a level has the limits of its mean, which are infinite if the mean may be 0. Limits of differences
combine the distances of both levels from their limits (MOVER). With normal levels this is the usual interval.

Source: Zou and Donner (2008), Construction of confidence limits about effect measures.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from dpstats.error_distributions import Limits, Tail
from dpstats.regression.bins import Floats
from dpstats.regression.error_laws import NORMAL, ScaledErrors

_COARSE = 0.1
"""Noise of a level in the last gradient, over its mean, from which its own lower limit counts too."""
_FARTHEST = 1e9
_HALVINGS = 52
_LARGEST_LOG_ODDS = 30.0
_USUAL = 0.95


@dataclass(frozen=True)
class Level(ABC):
    """The linear predictor of the rows with one value of a column.

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
    """

    before: float
    after: float
    moved: float
    std: float
    seen: float
    noise: float
    sampling: float

    @property
    def error(self) -> float:
        """Standard deviation of the error of ``seen``."""
        return math.hypot(self.noise, self.sampling)

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
        return max(usual, self.after - self.before - math.log(least)) if self.noise > _COARSE else usual

    def upper_distance(self, z: float) -> float:
        return math.log1p(z * self.std)

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
        least, alone = rate - rate * (1 - rate) * z * self.std, seen - z * self.error
        if least <= 0 or alone <= 0:
            return math.inf
        # The average of two noisy log odds is too far from 0.
        if rate > 0.5 and self.noise > _COARSE * (1 - rate):
            least = min(least, alone)
        return float(logit(rate) - logit(least))

    def is_settled(self, errors: float) -> bool:
        rate = float(expit(self.before + self.moved))
        return abs(self.seen - rate) <= errors * math.hypot(self.error, rate * (1 - rate) * self.std)


@dataclass(frozen=True)
class Levels:
    """Both levels of the column of one slope.

    Attributes
    ----------
    place : int
        Position of the slope.
    low, high : float
        Both values of the column, in its units.
    upper, lower : Level
        Levels of the rows with the values ``high`` and ``low``.
    """

    place: int
    low: float
    high: float
    upper: Level
    lower: Level

    def distances(self, z: float) -> tuple[float, float]:
        """Return the distances of the slope from its lower and upper limit at z standard errors."""
        down = math.hypot(self.upper.lower_distance(z), self.lower.upper_distance(z))
        up = math.hypot(self.upper.upper_distance(z), self.lower.lower_distance(z))
        return down / (self.high - self.low), up / (self.high - self.low)

    def is_settled(self, errors: float) -> bool:
        """Return whether both levels have settled. A level without a limit counts: its interval says more."""
        open_at = {value for value, _ in self.list_unlimited()}
        levels = (self.upper, self.high), (self.lower, self.low)
        return all(value in open_at or level.is_settled(errors) for level, value in levels)

    def list_unlimited(self) -> list[tuple[float, int]]:
        """Return the value of the column at each level without a limit, and the sign of the slope's missing limit."""
        z = NORMAL.reach((1 - _USUAL) / 2)
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
            move[first + self.place] = side / (self.high - self.low)
            move[:first] = -side * other / (self.high - self.low)
            found += [
                sign * move
                for sign, end in ((-1, level.lower_distance(z)), (1, level.upper_distance(z)))
                if math.isinf(end)
            ]
        return found


@dataclass(frozen=True, eq=False)
class LevelErrors(ScaledErrors):
    """Errors of linear combinations of coefficients. Some of these have `Levels`.

    A limit combines the distances of the coefficients from their limits, with their correlations. It is infinite if
    the combination changes along a direction without a limit. P-values invert the limits.

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
        return np.asarray((self.weights[:, places] != 0).any(axis=1))

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
            least, most = 1 / _FARTHEST, _FARTHEST
            for _ in range(_HALVINGS):
                z = math.sqrt(least * most)
                beyond = abs(off) > self._distances(z, weights)[0 if off > 0 else 1][0]
                least, most = (z, most) if beyond else (least, z)
            score[place] = math.copysign(least if least > 1 / _FARTHEST else 0.0, off)
        return score


def find_one_sided(levels: Sequence[Levels], d: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Find the slopes that have only an upper (-1) or a lower (1) limit of level 0.95, and those without any limit."""
    side, hidden = np.zeros(d, dtype=np.int64), np.zeros(d, dtype=np.bool_)
    for each in levels:
        signs = {sign for _, sign in each.list_unlimited()}
        side[each.place], hidden[each.place] = sum(signs), len(signs) == 2
    return side, hidden
