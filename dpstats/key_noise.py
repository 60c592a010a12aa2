"""Counts of keys that nobody declared: their noise, their sizes, and intervals given that a key was found.

Proof: docs/intervals/groups.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

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
