"""Limits of a mean, or of a mean square, from noisy moments, by asking of every value whether the data refute it.

A value m is refuted by how far the estimate is from it, measured by the spread that the rows have *about m*: for
rare or skewed rows that is the spread that they would have if m were right, where a spread about the estimate is
nearly none when the rows seen are all alike. No law of the rows is assumed. Proof: docs/proofs/clipped-mean.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.inference import ErrorDistribution, Limits
from dpstats.intervals import error_tails
from dpstats.privacy.plan import Added

Numbers = NDArray[np.float64]

_RAISED = 1.0
"""By how many standard deviations of its noise a released spread is raised: it is as often too small as too large."""


@dataclass(frozen=True, eq=False)
class Score(ErrorDistribution):
    """What is known of the means of some columns, each between public ends.

    Attributes
    ----------
    estimate : array of shape (d,)
        The noisy mean, unbiased.
    noise : Added
        Its noise.
    n : int
        Number of rows that the estimate averages: degrees of freedom.
    low, high : array of shape (d,)
        What the means lie between.
    variance : callable
        Bound on the variance of a row, given its mean: `Known`, `About` or `OfSquares`.
    """

    estimate: Numbers
    noise: Added
    n: int
    low: Numbers
    high: Numbers
    variance: Callable[[Numbers], Numbers]

    @property
    def start(self) -> Numbers:
        """The estimate, brought into the box.

        It is no further from any value there than it was: what was not refuted is not, and the nearer end never is.
        """
        return np.clip(self.estimate, self.low, self.high)

    @property
    def box(self) -> Limits:
        return self.low, self.high

    def tails(self, value: Numbers) -> Limits:
        """Return the probabilities of an estimate this small, and of one this large, where the mean is ``value``."""
        return self._tails(value - self.start, value), self._tails(self.start - value, value)

    def _tails(self, distance: Numbers, value: Numbers) -> Numbers:
        spread = np.sqrt(self.variance(value) / self.n)
        return error_tails(distance, spread, self.noise.law, np.asarray(self.noise.scale))


@dataclass(frozen=True)
class Known:
    """The variance where the standard deviation is bounded by public numbers."""

    std: Numbers
    clip: Numbers

    def __call__(self, value: Numbers) -> Numbers:
        return np.clip(self.std**2, 0, (self.clip - value) * (self.clip + value))


@dataclass(frozen=True)
class About:
    """The variance from noisy first and second moments, and the standard deviations of their noise.

    The second moment about m is Q - 2mT + m^2, straight from what was released. Rows that are far from an end only
    rarely have a variance in proportion to how far their mean is from it, as counts have: for values further from an
    end than the estimate is, the variance is raised so. No entry within the clip has one above (clip - m)(clip + m).
    """

    first: Numbers
    second: Numbers
    first_std: Numbers
    second_std: Numbers
    clip: Numbers

    def __call__(self, value: Numbers) -> Numbers:
        clip = self.clip
        start = np.clip(self.first, -clip, clip)
        noise = np.hypot(self.second_std, 2 * value * self.first_std)
        found = np.maximum(self.second - 2 * value * self.first + value**2 + _RAISED * noise, 0.0)
        largest = np.maximum((clip - value) * (clip + value), 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            further = np.maximum((value + clip) / (start + clip), (clip - value) / (clip - start))
            # At an end nothing is known but that bound.
            return np.where(
                np.isfinite(further), np.minimum(found * np.maximum(further, 1.0), largest), largest
            )


@dataclass(frozen=True)
class OfSquares:
    """The variance of squares whose own mean square is at most ``ratio`` times their mean."""

    ratio: Numbers

    def __call__(self, value: Numbers) -> Numbers:
        return np.maximum(value * (self.ratio - value), 0.0)
