from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpstats.error_distributions import normal_quantile
from dpstats.means.laplace_sums import laplace_sum_quantile


@dataclass(frozen=True)
class RowsNoise:
    """Noise of a released number of rows.

    Examples
    --------
    >>> from dpstats.means.size_noise import RowsNoise
    >>> round(RowsNoise(2.0).quantile(0.025), 2), round(RowsNoise(2.0, (2**0.5,)).quantile(0.025), 2)
    (3.92, 4.24)
    """

    std: float  # standard deviation
    # Scales of the Laplace variables that it is the sum of. Empty for normal noise.
    scales: tuple[float, ...] = ()

    def scale(self, factor: float) -> RowsNoise:
        """Return the noise of a multiple."""
        return RowsNoise(self.std * factor, tuple(factor * scale for scale in self.scales))

    def sum(self, times: int) -> RowsNoise:
        """Return the noise of a sum of several such numbers with independent noise."""
        return RowsNoise(self.std * math.sqrt(times), self.scales * times)

    def quantile(self, tail: float) -> float:
        """Return the distance that the noise exceeds with this probability, on one side."""
        if not self.scales:
            return self.std * float(normal_quantile(tail))
        return laplace_sum_quantile(tail, 0.0, np.array(self.scales))
