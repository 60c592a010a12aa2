from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpstats.error_distributions import ErrorDistribution, Limits
from dpstats.intervals import error_tails
from dpstats.means.population import Numbers
from dpstats.privacy.stages import Added

RAISED = 1.0
"""Standard deviations of its noise by which a released variance is raised: it is too small half of the time."""


@dataclass(frozen=True, eq=False)
class Score(ErrorDistribution):
    """Score tests of the means of some columns, each between public bounds."""

    estimate: Numbers  # (d,): the noisy mean, unbiased
    noise: Added  # its noise
    # Number of rows that the estimate averages: degrees of freedom.
    n: int
    low: Numbers  # (d,): public bounds of the means
    high: Numbers
    # Bound on the variance of a row, given its mean: `Known`, `About` or `OfSquares`.
    variance: Callable[[Numbers], Numbers]

    @property
    def start(self) -> Numbers:
        """The estimate, moved into the box.

        The move increases no distance to a value in the box. So it adds no rejected values, and the nearest bound is
        never rejected.
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

    The second moment about m is Q - 2mT + m^2, computed from the release. If most rows are at a bound, their variance
    is proportional to the distance of their mean from it, as for rare counts. The variance is therefore raised in
    proportion for values further from a bound than the estimate is. Entries within the clip have a variance of at
    most (clip - m)(clip + m).
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
        found = np.maximum(self.second - 2 * value * self.first + value**2 + RAISED * noise, 0.0)
        largest = np.maximum((clip - value) * (clip + value), 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            further = np.maximum((value + clip) / (start + clip), (clip - value) / (clip - start))
            # At a bound of the mean, only the largest variance applies.
            return np.where(
                np.isfinite(further), np.minimum(found * np.maximum(further, 1.0), largest), largest
            )


@dataclass(frozen=True)
class OfSquares:
    """The variance of squares whose own mean square is at most ``ratio`` times their mean."""

    ratio: Numbers

    def __call__(self, value: Numbers) -> Numbers:
        return np.maximum(value * (self.ratio - value), 0.0)
