"""Several intervals that cover together, and the p-values of several tests."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpstats.inference.error_distributions import simultaneous_level

Floats = NDArray[np.float64]


class Together:
    """How several intervals cover together, and how the p-values of several tests are adjusted.

    Examples
    --------
    >>> from dpstats.inference.multiple_testing import BONFERRONI, SIDAK
    >>> round(SIDAK.each(0.95, 5), 5), round(BONFERRONI.each(0.95, 5), 5)
    (0.98979, 0.99)
    """

    words = "Sidak's inequality"

    def each(self, level: float, count: int) -> float:
        """Return the level of each interval, of ``count`` that cover together at ``level``."""
        return simultaneous_level(level, count)

    def adjust(self, pvalues: Floats) -> Floats:
        """Return the p-values of tests that are made together."""
        return np.asarray(-np.expm1(pvalues.size * np.log1p(-np.minimum(pvalues, 1 - 2.0**-53))))


class Bonferroni(Together):
    """Bonferroni's inequality, which holds for any dependence."""

    words = "Bonferroni's inequality"

    def each(self, level: float, count: int) -> float:
        return 1 - (1 - level) / count

    def adjust(self, pvalues: Floats) -> Floats:
        return np.asarray(np.minimum(1.0, pvalues.size * pvalues))


class Holm(Bonferroni):
    """Holm's procedure: Bonferroni's intervals, and p-values adjusted step by step."""

    words = "Holm's procedure"

    def adjust(self, pvalues: Floats) -> Floats:
        flat = np.ravel(pvalues)
        order = np.argsort(flat)
        steps = np.minimum(1.0, np.arange(flat.size, 0, -1) * flat[order])
        found = np.empty_like(flat)
        found[order] = np.maximum.accumulate(steps)
        return found.reshape(np.shape(pvalues))


class AtOnce(Together):
    """Intervals that already cover together, and p-values that hold for all tests.

    Parameters
    ----------
    words : str
        The reason.
    """

    def __init__(self, words: str) -> None:
        self.words = words

    def each(self, level: float, count: int) -> float:
        return level

    def adjust(self, pvalues: Floats) -> Floats:
        return pvalues


SIDAK, BONFERRONI, HOLM = Together(), Bonferroni(), Holm()
