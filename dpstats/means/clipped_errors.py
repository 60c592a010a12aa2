"""Error distributions of a clipped mean: about its center, and with what the clip may have cut off.

Proof: docs/proofs/clipped-mean.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.inference import ErrorDistribution, Limits, Tail
from dpstats.intervals import half_widths
from dpstats.means.population import population_bias_in_ball, population_ends
from dpstats.means.score import Score

Numbers = NDArray[np.float64]

_FOR_DISTANCE = 0.1
"""Part of the error probability that is for the distance of the clipped mean from the center of the ball."""


@dataclass(frozen=True, eq=False)
class BoxErrors(ErrorDistribution):
    """Errors of the mean of rows that are clipped entry by entry, or of the clipped rows themselves.

    Attributes
    ----------
    score : ErrorDistribution
        About the center.
    center : array of shape (d,)
    low, high : arrays of shape (d,)
        Ends of the clip.
    std : array of shape (d,), optional
        Bounds on the standard deviations of the rows before they are clipped. With it the limits are of the
        population mean.
    """

    score: ErrorDistribution
    center: Numbers
    low: Numbers
    high: Numbers
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
    """Errors of the mean of rows that are clipped to a ball, as estimates of the population mean.

    Attributes
    ----------
    score : Score
        About the center.
    center : array of shape (d,)
    std : array of shape (d,)
        Bounds on the standard deviations of the rows before they are clipped.
    radius : float
    """

    score: Score
    center: Numbers
    std: Numbers
    radius: float

    @property
    def start(self) -> Numbers:
        return self.center + self.score.start

    def limits(self, tail: Tail) -> Limits:
        low, high = self.score.limits((1 - _FOR_DISTANCE) * tail)
        d = self.std.size
        error = half_widths(
            1 - _FOR_DISTANCE * float(np.min(tail)) / d,
            self.std / math.sqrt(self.score.n),
            self.score.noise.law,
            np.full(d, self.score.noise.scale),
        )
        # All columns' errors together, each within its own limit.
        distance = float(np.linalg.norm(self.score.estimate)) + float(np.linalg.norm(error))
        offsets = np.maximum(np.abs(low), np.abs(high))
        bias = population_bias_in_ball(distance, offsets, self.std, self.radius)
        return self.center + low - bias, self.center + high + bias
