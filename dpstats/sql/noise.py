"""Errors of weighted sums of released numbers, and of their ratios: the noise alone.

Proof: docs/proofs/several-aggregates.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from dpstats.error_distributions import ErrorDistribution, Limits, Tail
from dpstats.intervals import laplace_sum_tails
from dpstats.means.ratio import Ratio, RatioErrors
from dpstats.sql.answers import Numbers, Off

_TAILS = np.geomspace(0.5, 1e-14, 250)
"""Error probabilities with a computed width, for noise of a private scale: a probability between two is the larger."""
_LEAST_TAIL = 1e-300


@dataclass(frozen=True, eq=False)
class Shaken:
    """The noise of released numbers: independent, with one distribution.

    Attributes
    ----------
    off : Off
    """

    off: Off

    @property
    def std(self) -> float:
        """Standard deviation of the noise of one number, in steps; NaN where its scale is private."""
        if self.off.law == "gaussian":
            return self.off.scales[0]
        return self.off.std

    def tails(self, distance: Numbers, weights: Sequence[Any]) -> Numbers:
        """Return an upper bound of P(sum of weighted noise >= distance), for nonnegative weights and distances."""
        if not self.off.known:
            self.off.half(0.05)
        if self.off.stage is not None:
            widths = self._widths(len(weights))
            # The widths rise: the first that reaches the distance belongs to a probability that is not too small.
            place = np.searchsorted(widths, distance / sum(weights), side="left")
            return np.asarray(np.where(place == 0, 0.5, _TAILS[np.clip(place - 1, 0, _TAILS.size - 1)]))
        scale = self.off.scales[0]
        if self.off.law == "gaussian":
            norm = scale * np.sqrt(sum(np.square(weight) for weight in weights))
            return np.asarray(ndtr(-distance / norm))
        # Noise on whole numbers is within a step of Laplace's.
        inside = np.maximum(distance - sum(weights), 0.0)
        scales = [np.broadcast_to(scale * np.asarray(weight), inside.shape) for weight in weights]
        return laplace_sum_tails(inside, np.zeros(inside.shape), scales)

    def score(self, distance: Numbers, weights: Sequence[Any]) -> Numbers:
        """Return a sum of weighted noise as a standard normal variable, or nearer to 0."""
        tails = self.tails(np.abs(distance), [np.abs(weight) for weight in weights])
        return np.asarray(np.sign(distance) * -ndtri(np.maximum(tails, _LEAST_TAIL)))

    def _widths(self, count: int) -> Numbers:
        """Return a width for each probability, by Bonferroni's inequality for this number of terms."""
        if count not in self._known:
            self._known[count] = np.array([self.off.half(2 * float(tail) / count) for tail in _TAILS])
        return self._known[count]

    @cached_property
    def _known(self) -> dict[int, Numbers]:
        return {}

    def width(self, tail: float, weights: Sequence[float]) -> float:
        """Return the distance that the sum of weighted noise exceeds with this probability on one side."""

        def excess(distance: float) -> float:
            return float(self.tails(np.array([distance]), weights)[0]) - tail

        if self.off.stage is not None:
            widths = self._widths(len(weights))
            # The first probability that is no larger: the width is a step of the table too large, at most.
            place = int(np.searchsorted(-_TAILS, -tail, side="left"))
            return float(widths[place]) * sum(weights) if place < _TAILS.size else math.inf
        high = max(sum(weights), self.std * math.hypot(*weights))
        while excess(high) > 0:
            high *= 2
        return float(brentq(excess, 0.0, high, xtol=1e-12 * high)) * (1 + 1e-11) if excess(0.0) > 0 else 0.0


@dataclass(frozen=True, eq=False)
class LinearErrors(ErrorDistribution):
    """Errors of weighted sums of released numbers.

    Attributes
    ----------
    values : array of shape (n_cells,)
    weights : tuple of float
        The absolute movement of a value for one step of each number.
    noise : Shaken
    """

    values: Numbers
    weights: tuple[float, ...]
    noise: Shaken

    @property
    def start(self) -> Numbers:
        return self.values

    @property
    def standard_error(self) -> float:
        """Standard deviation of the noise."""
        return self.noise.std * math.hypot(*self.weights)

    def limits(self, tail: Tail) -> Limits:
        widths = [self.noise.width(float(each), self.weights) for each in np.ravel(tail)]
        width = np.reshape(widths, np.shape(tail))
        return self.values - width, self.values + width

    def tails(self, value: Numbers) -> Limits:
        distance = self.values - value
        beyond = self.noise.tails(np.abs(distance), self.weights)
        return np.where(distance < 0, beyond, 1 - beyond), np.where(distance < 0, 1 - beyond, beyond)


@dataclass(frozen=True, eq=False)
class ShareRatio(Ratio):
    """Means in half-widths of their bounds: their only error is noise. T and N are in rows.

    Attributes
    ----------
    shaken : Shaken
    weights : tuple of (float, float)
        The weights of each released number in T and in N.
    """

    shaken: Shaken = field(kw_only=True)
    weights: tuple[tuple[float, float], ...] = field(kw_only=True)

    def score(self, value: Any) -> Numbers:
        m, count = np.asarray(value, dtype=np.float64), self.N
        distance = np.clip(self.T, -np.abs(count), np.abs(count)) - m * count
        return self.shaken.score(distance, [t - m * n for t, n in self.weights])


@dataclass(frozen=True, eq=False)
class MeanErrors(RatioErrors):
    """Errors of means of rounded values, which are half a step from the values at most.

    Attributes
    ----------
    rounding : float
    """

    rounding: float = 0.0

    def limits(self, tail: Tail) -> Limits:
        low, high = super().limits(tail)
        return np.maximum(low - self.rounding, self.low), np.minimum(high + self.rounding, self.high)

    def score(self, value: Numbers) -> Numbers:
        near = np.clip(self.start, value - self.rounding, value + self.rounding)
        return super().score(near)
