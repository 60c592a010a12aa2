from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from dpstats.error_distributions import ErrorDistribution, Limits, Tail
from dpstats.intervals import half_widths
from dpstats.means.population import (
    Numbers,
    clipped_variance_in_ball,
    population_bias_in_ball,
    population_ends,
)
from dpstats.means.score import Known, Score

_FOR_DISTANCE = 0.1
"""Part of the error probability that is for the distance of the clipped mean from the center of the ball."""


@dataclass(frozen=True, eq=False)
class BoxErrors(ErrorDistribution):
    """Errors of the mean of rows that are clipped entry by entry, or of the clipped rows themselves."""

    score: ErrorDistribution  # about the center
    center: Numbers  # shape (d,)
    low: Numbers  # (d,): clipping bounds
    high: Numbers
    # Shape (d,). Bounds on the standard deviations of the rows before they are clipped. With it the limits
    # are of the population mean.
    std: Numbers | None

    @property
    def start(self) -> Numbers:
        return self.center + self.score.start

    @property
    def box(self) -> Limits:
        return (self.low, self.high) if self.std is None else super().box

    def limits(self, tail: Tail) -> Limits:
        low, high = self.score.limits(tail)
        low, high = np.maximum(self.center + low, self.low), np.minimum(self.center + high, self.high)
        if self.std is None:
            return low, high
        return population_ends(low, high, self.std, self.low, self.high)

    def tails(self, value: Numbers) -> Limits:
        return self.score.tails(value - self.center) if self.std is None else super().tails(value)


@dataclass(frozen=True, eq=False)
class BallErrors(ErrorDistribution):
    """Errors of the mean of rows clipped to a ball, from upper bounds on their standard deviations."""

    score: Score  # about the center
    center: Numbers  # shape (d,)
    std: Numbers  # (d,): bounds on the standard deviations of the rows before they are clipped
    radius: float
    population: bool  # whether the limits are for the population mean, or for the mean of the clipped rows

    @property
    def start(self) -> Numbers:
        return self.center + self.score.start

    @property
    def box(self) -> Limits:
        if self.population:
            return super().box
        return self.center + self.score.low, self.center + self.score.high

    def limits(self, tail: Tail) -> Limits:
        distance, offset = self._away(_FOR_DISTANCE * float(np.min(tail)))
        variance = clipped_variance_in_ball(distance, offset, self.std, self.radius)
        score = replace(self.score, variance=Known(np.sqrt(variance), self.score.high))
        low, high = score.limits((1 - _FOR_DISTANCE) * tail)
        if not self.population:
            return self.center + low, self.center + high
        offset = np.maximum(np.abs(low), np.abs(high))
        bias = population_bias_in_ball(distance, offset, self.std, self.radius)
        return self.center + low - bias, self.center + high + bias

    def _away(self, tail: float) -> tuple[float, Numbers]:
        """Return limits of how far the mean of the clipped rows is from the center, in norm and in each column.

        They hold together with probability 1 - 2 tail: a third of it each for the norms of the sampling error and of
        the noise, and for one column.
        """
        score, d = self.score, self.std.size
        # Projection brings no two rows further apart: the variances of the columns add up to no more than before.
        spread = math.sqrt(float(np.sum(self.std**2)) / score.n)
        scale = np.full(d, score.noise.scale)
        # Of normal vectors whose variances add up to the same, one on a line is most often this far out.
        sampling = -float(ndtri(tail / 3)) * spread
        noise = half_widths(tail / (3 * d), np.zeros(d), score.noise.law, scale)
        one = half_widths(tail / 3, np.full(d, spread), score.noise.law, scale)
        distance = float(np.linalg.norm(score.estimate)) + sampling + float(np.linalg.norm(noise))
        return distance, np.minimum(np.abs(score.estimate) + one, distance)
