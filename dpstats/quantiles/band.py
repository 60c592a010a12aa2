"""The band of a private cdf, and the errors of quantiles that are read from it.

Proof: docs/proofs/distribution.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from dpstats.error_distributions import ErrorDistribution, Limits, Tail
from dpstats.quantiles.dyadic import Numbers
from dpstats.together import AtOnce

BAND = AtOnce("the band, which covers all quantiles at once")


# The band includes sampling error by Massart's inequality, for any distribution and any n, and the simulated noise
# of the release.
@dataclass(frozen=True, eq=False)
class BandWidth:
    """Distribution of the largest error of an estimated cdf: sampling error and simulated noise.

    Attributes
    ----------
    noise : array
        Largest noise of the cdf at any point, for each simulated release.
    n_samples : float
        Number of rows that determines the sampling error. It is lower if the released number may be too small.
    """

    noise: Numbers
    n_samples: float

    def missed(self, width: float, sides: int = 2) -> float:
        """Return the probability that the error exceeds ``width`` anywhere, on both sides or on one side."""
        beyond = np.exp(-2 * self.n_samples * np.maximum(width - self.noise, 0.0) ** 2)
        # The one-sided form of Massart's inequality holds for probabilities of at most one half.
        least = np.where(beyond <= 0.5, beyond, 1.0) if sides == 1 else np.minimum(1.0, 2 * beyond)
        return float((1 + least.sum()) / (self.noise.size + 1))

    def half_width(self, missed: float, sides: int = 2) -> float:
        """Return the width that is exceeded with this probability; infinite if simulations are too few.

        It may exceed 1, because noise can take the fitted cdf outside [0, 1].
        """
        most = float(self.noise.max()) + math.sqrt(math.log(4 * self.noise.size) / self.n_samples)
        if self.missed(most, sides) > missed:
            return math.inf
        return float(brentq(lambda w: self.missed(w, sides) - missed, 0.0, most, xtol=1e-9))


@dataclass(frozen=True, eq=False)
class Band:
    """An estimated cdf at the upper edges of cells, with the distribution of its largest error.

    Attributes
    ----------
    starts, edges : arrays
        Lower and upper edges of the cells. If cells are single values, both contain the values.
    fit : array
        Fitted values before they are made a cdf.
    cdf : array
        Estimated cdf at ``edges``.
    width : BandWidth
        Distribution of the largest error.
    """

    starts: Numbers
    edges: Numbers
    fit: Numbers
    cdf: Numbers
    width: BandWidth

    def ends(self, width: float) -> Limits:
        """Return the limits of the band at the edges: around the unsorted fit, narrowed because a cdf never falls."""
        low = np.maximum.accumulate(np.clip(self.fit - width, 0.0, 1.0))
        high = np.minimum.accumulate(np.clip(self.fit + width, 0.0, 1.0)[::-1])[::-1]
        # Widen the limits to include the estimate, even if the noise is large.
        low, high = np.minimum(low, self.cdf), np.maximum(high, self.cdf)
        low[-1] = high[-1] = 1.0
        return low, high

    def quantiles(self, fractions: Numbers, width: float) -> Limits:
        """Return the smallest and the largest quantiles of all cdfs in the band."""
        low, high = self.ends(width)
        # The quantile is above each edge with upper limit below q, and at most the first edge with lower limit q.
        first = np.searchsorted(high, fractions, side="left")
        last = np.searchsorted(low, fractions, side="left")
        return self.starts[first], self.edges[np.minimum(last, self.edges.size - 1)]

    def widths(self, fractions: Numbers, values: Numbers) -> Limits:
        """Return the smallest widths for which values are not above, and not below, the limits of their quantiles."""
        last = self.edges.size - 1
        place = np.searchsorted(self.edges, values, side="left") - 1  # the last edge below a value
        above = np.maximum.accumulate(self.fit)[place] - fractions
        above = np.where((place >= 0) & ((self.cdf[place] >= fractions) | (place == last)), above, 0.0)
        place = (
            np.searchsorted(self.starts[: last + 1], values, side="right") - 1
        )  # the last start at or below it
        below = fractions - np.minimum.accumulate(self.fit[::-1])[::-1][place]
        below = np.where((place >= 0) & (place < last) & (self.cdf[place] < fractions), below, 0.0)
        return np.maximum(above, 0.0), np.maximum(below, 0.0)


@dataclass(frozen=True, eq=False)
class QuantileErrors(ErrorDistribution):
    """Errors of quantiles read from a band.

    Attributes
    ----------
    band : Band
    fractions, estimate : arrays of one shape
    """

    band: Band
    fractions: Numbers
    estimate: Numbers

    @property
    def start(self) -> Numbers:
        return self.estimate

    @property
    def box(self) -> Limits:
        ends = self.band.starts[0], self.band.edges[-1]
        return np.full(self.estimate.shape, ends[0]), np.full(self.estimate.shape, ends[1])

    def limits(self, tail: Tail) -> Limits:
        return self.band.quantiles(self.fractions, self.band.width.half_width(float(np.min(tail)), sides=1))

    def interval(self, tail: Tail) -> Limits:
        return self.band.quantiles(self.fractions, self.band.width.half_width(2 * float(np.min(tail))))

    def tails(self, value: Numbers) -> Limits:
        less, greater = self.band.widths(self.fractions, value)
        return self._missed(less, 1), self._missed(greater, 1)

    def two_sided(self, value: Numbers) -> Numbers:
        return self._missed(np.maximum(*self.band.widths(self.fractions, value)), 2)

    def _missed(self, widths: Numbers, sides: int) -> Numbers:
        found = [self.band.width.missed(width, sides) if width > 0 else 1.0 for width in np.ravel(widths)]
        return np.reshape(found, np.shape(widths))
