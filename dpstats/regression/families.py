"""Families of log-linear models: the working distribution of an outcome, given its mean. All of it is public.

A family defines the weights of the estimating equations, and where residuals are clipped. Standard errors do not assume
that the distribution holds: they use the released meat of the sandwich estimator.

Source: breadth.md of the design, section 3.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import betainc, gammainc

from dpstats.regression.bins import Floats

Dispersion = tuple[Any, Any]
"""phi and alpha of the variance phi mu + alpha mu^2. Numbers, or arrays that broadcast with the means."""


class Bound(NamedTuple):
    """The largest outcome, and the part of the larger ones under the working distribution that are clipped to it."""

    largest: float
    part: float


FREE = Bound(math.inf, 0.0)


class Family(ABC):
    """A working distribution of outcomes y >= 0 with a given mean mu.

    Attributes
    ----------
    least_clip : float
        Smallest clipping threshold of a residual.
    linear, quadratic : array
        Values of phi and alpha that a fit chooses from.
    start : (float, float)
        phi and alpha before the first release of residuals.
    """

    least_clip: ClassVar[float]
    linear: ClassVar[Floats]
    quadratic: ClassVar[Floats]
    start: ClassVar[tuple[float, float]]

    def dispersions(self) -> tuple[Floats, Floats]:
        """Return phi and alpha of every pair of the values that a fit chooses from."""
        linear, quadratic = np.meshgrid(self.linear, self.quadratic, indexing="ij")
        return linear, quadratic

    @abstractmethod
    def weight(self, mean: Floats) -> Floats:
        """Return the weight of a residual y - mu in the estimating equations."""

    @abstractmethod
    def below(
        self, mean: Floats, dispersion: Dispersion, end: Floats, where: Any = True
    ) -> tuple[Floats, Floats]:
        """Return P(y <= end) and E[y; y <= end], and 0 where ``where`` is False."""

    def std(self, mean: Floats, dispersion: Dispersion) -> Floats:
        """Return the standard deviation of the outcome."""
        found: Floats = np.sqrt(dispersion[0] * mean + dispersion[1] * mean**2)
        return found

    def clip(self, mean: Floats, width: float, dispersion: Dispersion) -> Floats:
        """Return the clipping threshold of a residual: ``width`` standard deviations."""
        return np.maximum(width * self.std(mean, dispersion), self.least_clip)

    def excess(self, mean: Floats, dispersion: Dispersion, end: Floats) -> Floats:
        """Return the expected excess of the outcome over ``end``."""
        probability, part = self.below(mean, dispersion, end)
        return (mean - part) - end * (1 - probability)

    def bounded_excess(self, mean: Floats, dispersion: Dispersion, end: Floats, bound: Bound) -> Floats:
        """Return the expected excess over ``end`` of outcomes with a bound."""
        found = self.excess(mean, dispersion, end)
        if bound.part:
            found = found - bound.part * self.excess(mean, dispersion, np.maximum(end, bound.largest))
        return found

    def shortfall(self, mean: Floats, dispersion: Dispersion, end: Floats) -> Floats:
        """Return the expected shortfall of the outcome below ``end``."""
        probability, part = self.below(mean, dispersion, np.maximum(end, 0.0), end > 0)
        return end * probability - part

    def clipped_mean(
        self, mean: Floats, at: Floats, clip: Floats, dispersion: Dispersion, bound: Bound = FREE
    ) -> Floats:
        """Return the expected residual y - at, clipped at ``clip`` on both sides, for outcomes of mean ``mean``."""
        over = self.excess(mean, dispersion, at + clip)
        if bound.part:
            lower = self.excess(mean, dispersion, np.minimum(at + clip, bound.largest))
            over = over + bound.part * (lower - over)
        under = self.shortfall(mean, dispersion, at - clip)
        return mean - at - over + under

    def absolute(self, mean: Floats, at: Floats, dispersion: Dispersion, most: Floats) -> Floats:
        """Return the expected absolute residual y - at, clipped at ``most``, for outcomes of mean ``mean``."""
        whole = 2 * self.excess(mean, dispersion, at) + at - mean
        over = self.excess(mean, dispersion, at + most)
        return whole - over - self.shortfall(mean, dispersion, at - most)


def _evaluate(function: np.ufunc, where: Any, *arguments: Any) -> Floats:
    """Return values of a function that is slow, where they count, and 0 elsewhere."""
    # The parameter `where` of scipy's functions writes beyond their arrays (numpy 2.4 with scipy 1.17).
    counts, *given = np.broadcast_arrays(where, *arguments)
    found: Floats = np.zeros(counts.shape)
    found[counts] = function(*(argument[counts] for argument in given))
    return found


class Counts(Family):
    """Counts: negative binomial with variance phi mu + alpha mu^2, which includes Poisson.

    The weight is 1 / (1 + overdispersion mu): 1 if ``overdispersion`` is 0, as in Poisson regression.
    """

    least_clip = 1.0
    linear = np.append(1.001, 1 + np.geomspace(0.1, 20.0, 13))
    quadratic = np.append([1e-7, 1e-5, 1e-4, 1e-3], np.geomspace(0.02, 20.0, 16))
    start = (1.0, 1.0)

    def __init__(self, overdispersion: float) -> None:
        self.overdispersion = overdispersion

    def weight(self, mean: Floats) -> Floats:
        return 1 / (1 + self.overdispersion * mean)

    def below(
        self, mean: Floats, dispersion: Dispersion, end: Floats, where: Any = True
    ) -> tuple[Floats, Floats]:
        whole = np.floor(end + 1e-9)
        odds = np.maximum(dispersion[0] - 1 + dispersion[1] * mean, 1e-4)
        size, success = mean / odds, 1 / (1 + odds)
        part = _evaluate(betainc, where & (whole > 0), size + 1, whole, success)
        return _evaluate(betainc, where, size, whole + 1, success), mean * part


class Gamma(Family):
    """Positive amounts: gamma with variance alpha mu^2. The weight is 1 / mu. Outcomes of 0 are allowed."""

    least_clip = 0.0
    linear = np.array([0.0])
    quadratic = np.geomspace(1e-4, 20.0, 90)
    start = (0.0, 1.0)

    def weight(self, mean: Floats) -> Floats:
        return 1 / mean

    def below(
        self, mean: Floats, dispersion: Dispersion, end: Floats, where: Any = True
    ) -> tuple[Floats, Floats]:
        shape = 1 / np.asarray(dispersion[1])
        scaled = shape * end / mean
        part = _evaluate(gammainc, where, shape + 1, scaled)
        return _evaluate(gammainc, where, shape, scaled), mean * part


COUNTS, GAMMA = "counts", "gamma"


@cache
def make_family(name: str, overdispersion: float = 1.0) -> Family:
    """Return the family of a plan."""
    return Gamma() if name == GAMMA else Counts(overdispersion)
