from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.error_distributions import ErrorDistribution, Limits, Tail, least_tail
from dpstats.statistic.clipped_sums import Floats, Located, half_widths
from dpstats.statistic.isolation import LINKS


@dataclass(frozen=True, eq=False)
class BlockErrors(ErrorDistribution):
    """Errors of the mean of the blocks' values."""

    located: Located  # of every output, in units of the clip
    unit: Floats  # (p,): the clip, on the scale of the link
    # Shape (p,). The estimates on that scale; NaN where the values were not located.
    center: Floats
    bounds: Floats  # (p, 2): of the values, on that scale
    link: str | None
    skewness: float  # largest skewness of a block's value
    bias: float = 0.0  # largest bias of a block's value, in its standard deviations

    def mapped(self, values: Floats) -> Floats:
        """Return numbers on the scale of the link as numbers of the statistic, without an axis for one output."""
        inverse = LINKS[self.link][1]
        found = np.array([inverse(value) for value in np.ravel(values)])
        return found.reshape(() if found.size == 1 else np.shape(values))

    @property
    def start(self) -> Floats:
        middle = self.bounds.mean(axis=1)
        return self.mapped(np.where(self.located.found, self.center, middle))

    @property
    def box(self) -> Limits:
        return self.mapped(self.bounds[:, 0]), self.mapped(self.bounds[:, 1])

    def limits(self, tail: Tail) -> Limits:
        return self._reach(tail, one_sided=True)

    def interval(self, tail: Tail) -> Limits:
        return self._reach(tail, one_sided=False)

    def two_sided(self, value: Floats) -> Floats:
        return two_sided(self, value)

    def _reach(self, tail: Tail, one_sided: bool) -> Limits:
        half = self.unit * half_widths(self.located, tail, self.skewness, self.bias, one_sided=one_sided)
        low, high = self.bounds.T
        found = self.located.found
        below = np.where(found, np.clip(self.center - half, low, high), low)
        above = np.where(found, np.clip(self.center + half, low, high), high)
        return self.mapped(below), self.mapped(above)


@dataclass(frozen=True, eq=False)
class DifferenceErrors(ErrorDistribution):
    """Errors of the difference of two independent statistics, by the limits of both (Zou and Donner 2008)."""

    first: BlockErrors
    second: BlockErrors

    @property
    def start(self) -> Floats:
        return np.asarray(self.first.start - self.second.start)

    @property
    def box(self) -> Limits:
        (low, high), (other_low, other_high) = self.first.box, self.second.box
        return np.asarray(low - other_high), np.asarray(high - other_low)

    def limits(self, tail: Tail) -> Limits:
        return self._combine(self.first.limits(tail), self.second.limits(tail))

    def interval(self, tail: Tail) -> Limits:
        return self._combine(self.first.interval(tail), self.second.interval(tail))

    def two_sided(self, value: Floats) -> Floats:
        return two_sided(self, value)

    def _combine(self, first: Limits, second: Limits) -> Limits:
        (low, high), (other_low, other_high) = first, second
        own, other = self.first.start, self.second.start
        below = np.hypot(own - low, other_high - other)
        above = np.hypot(high - own, other - other_low)
        return np.asarray(own - other - below), np.asarray(own - other + above)


def two_sided(errors: ErrorDistribution, value: Floats) -> Floats:
    """Return the p-values of two-sided tests: the least levels whose intervals exclude a value."""

    def excluded(tail: Floats) -> NDArray[np.bool_]:
        low, high = errors.interval(tail)
        return np.asarray((value < low) | (value > high))

    tail = least_tail(excluded, np.shape(value))
    return np.asarray(np.where(np.isnan(tail), 1.0, np.minimum(2 * tail, 1.0)))
