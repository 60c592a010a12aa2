"""Public bin edges for numbers that are not negative."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Bins:
    """Public bin edges for numbers that are not negative.

    If ends at least double, the exponent of a number leaves one end to compare with: a third of the time of a search.
    """

    ends: Floats

    @cached_property
    def tables(self) -> tuple[float, int, NDArray[np.int64], Floats] | None:
        """A unit, the first exponent of the ends in it, and for each exponent the ends below and the next one.

        None if two ends share an exponent.
        """
        unit = 1.5 / float(self.ends[0])
        exponents = np.frexp(self.ends * unit)[1]
        if not (np.diff(exponents) > 0).all():
            return None
        every = np.arange(exponents[0], exponents[-1] + 1)
        below = np.searchsorted(exponents, every)
        return unit, int(every[0]), below, np.where(exponents[below] == every, self.ends[below], np.inf)

    @property
    def size(self) -> int:
        """Number of bins."""
        return int(self.ends.size) + 1

    def find(self, values: Floats) -> NDArray[np.int64]:
        """Return ``np.searchsorted(self.ends, values)``."""
        if self.tables is None:
            return np.asarray(np.searchsorted(self.ends, values))
        unit, first, below, pivots = self.tables
        at = np.frexp(values * unit)[1]
        at -= first
        np.minimum(np.maximum(at, 0, out=at), below.size - 1, out=at)
        return np.asarray(below.take(at) + (values > pivots.take(at)))
