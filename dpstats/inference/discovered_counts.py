"""Counts of keys that nobody declared: their noise, their sizes, and intervals given that a key was found.

Proof: docs/intervals/groups.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from dpstats.inference.error_distributions import ErrorDistribution, Limits, Tail, normal_quantile

Floats = NDArray[np.float64]

_FURTHEST = 12.0
"""Standard deviations beyond which the normal distribution has no probability for a float."""
_FURTHEST_LOG = 72.0
"""The same for an exponential tail, in its means."""


class KeyNoise(Protocol):
    """A distribution of noise."""

    @property
    def std(self) -> float:
        """Standard deviation."""

    @property
    def words(self) -> str:
        """The distribution, for a summary."""

    @property
    def reach(self) -> float:
        """A distance from 0 that noise does not exceed, up to a probability below 1e-30."""

    def mass(self, low: Any, high: Any) -> Floats:
        """Return P(low < N < high), accurate in both tails."""


@dataclass(frozen=True)
class NormalNoise:
    """Normal noise."""

    std: float

    @property
    def words(self) -> str:
        return f"Gaussian of standard deviation {self.std:.4g}"

    @property
    def reach(self) -> float:
        return _FURTHEST * self.std

    def mass(self, low: Any, high: Any) -> Floats:
        low, high = (np.asarray(end, dtype=np.float64) / self.std for end in (low, high))
        # Differences are accurate in the nearer tail.
        return np.asarray(np.where(low > 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low)))


@dataclass(frozen=True)
class TwoSidedNoise:
    """Noise with an exponential tail on either side of 0, and one density at 0."""

    above: float  # means of the tails
    below: float

    @property
    def std(self) -> float:
        total = self.above + self.below
        mean = (self.above**2 - self.below**2) / total
        return math.sqrt(2 * (self.above**3 + self.below**3) / total - mean**2)

    @property
    def words(self) -> str:
        if self.above == self.below:
            return f"Laplace of scale {self.below:.4g}"
        return f"Laplace of scale {self.below:.4g}, thinned to {self.above:.4g} above 0"

    @property
    def reach(self) -> float:
        return _FURTHEST_LOG * max(self.above, self.below)

    def mass(self, low: Any, high: Any) -> Floats:
        low, high = (np.asarray(end, dtype=np.float64) for end in (low, high))
        upper = _tail_mass(np.maximum(low, 0), np.maximum(high, 0), self.above)
        lower = _tail_mass(np.maximum(-high, 0), np.maximum(-low, 0), self.below)
        return np.asarray((self.above * upper + self.below * lower) / (self.above + self.below))


def _tail_mass(near: Floats, far: Floats, mean: float) -> Floats:
    """Return P(near < E < far) for an exponential variable."""
    return np.asarray(np.exp(-near / mean) * -np.expm1(-(far - near) / mean))


FURTHEST = 8.0
"""Standard scores that are looked at, on either side of 0."""

_HALVINGS = 60
_LEAST_TAIL = 1e-300


@dataclass(frozen=True, eq=False)
class FoundCounts(ErrorDistribution):
    """Noisy counts of keys that were found, and the errors of the sizes that they estimate.

    The noisy count of a key of c rows that was found has the distribution of c plus the noise, cut to the range from
    the threshold to c + threshold. Its upper tail has a uniform distribution, so a size is kept unless that tail is
    extreme.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.inference.discovered_counts import FoundCounts
    >>> from dpstats.inference.discovered_counts import NormalNoise
    >>> found = FoundCounts(np.array([45.5, 300.0]), NormalNoise(6.0), 45.0)
    >>> found.sizes.round(), [limits.round() for limits in found.limits(0.025)]
    (array([  2., 300.]), [array([  1., 288.]), array([ 51., 312.])])
    """

    N: Floats  # noisy counts of rows
    noise: KeyNoise  # the noise of a count before it is conditioned, in rows
    threshold: float  # the least noisy count that was released

    @cached_property
    def sizes(self) -> Floats:
        """The sizes for which the noisy counts are the medians."""
        return np.asarray(np.maximum(self.find_sizes(np.zeros(1))[0], 1.0))

    @property
    def note(self) -> str:
        """How groups were found, as a sentence for a summary."""
        return (
            f"Groups are shown where their noisy count reaches {self.threshold:.1f} rows. Intervals hold given that a "
            "group was found."
        )

    @property
    def start(self) -> Floats:
        return self.sizes

    @property
    def standard_error(self) -> Floats:
        """Standard deviation of the noise, before it is conditioned."""
        return np.full(self.N.shape, self.noise.std)

    @property
    def box(self) -> Limits:
        return np.ones(self.N.shape), np.full(self.N.shape, np.inf)

    def __getitem__(self, places: Any) -> FoundCounts:
        return FoundCounts(self.N[places], self.noise, self.threshold)

    def limits(self, tail: Tail) -> Limits:
        """Return lower and upper limits of the sizes, each wrong with this probability, or with one for each key."""
        z = np.broadcast_to(normal_quantile(tail), self.N.shape)
        low, high = np.maximum(self.find_sizes(np.stack([z, -z])), 1.0)
        return low, high

    def find_sizes(self, z: Floats) -> Floats:
        """Return the sizes at which the scores of the noisy counts are z, of shape (size,) or (size, *N.shape)."""
        target = z.reshape(*z.shape, *[1] * (1 + self.N.ndim - z.ndim))
        low = np.broadcast_to(np.maximum(self.N - self.threshold, 0.0), (len(z), *self.N.shape))
        high = low + self.threshold + self.noise.reach
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            below = self.score_sizes(middle) > target
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray(low)

    def score_sizes(self, size: Floats) -> Floats:
        """Return the scores of the noisy counts, if keys have these sizes and were found: standard normal variables."""
        at, least, mass = self.N - size, self.threshold - size, self.noise.mass
        all_of_it = mass(least, self.threshold)
        above = np.clip(mass(at, self.threshold) / all_of_it, _LEAST_TAIL, 1.0)
        below = np.clip(mass(least, at) / all_of_it, _LEAST_TAIL, 1.0)
        return np.asarray(np.where(above <= below, -ndtri(above), ndtri(below)))
