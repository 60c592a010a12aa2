"""Integrals over the noise, piece by piece: the exact odds of noisy comparisons."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)


def pieces(kinks: Reals) -> Iterator[tuple[Reals, Reals]]:
    """Yield nodes and weights of Gauss-Legendre rules, of length at most 2, between sorted kinks.

    Between the points where some noise changes branch the integrands here are smooth.
    """
    for left, right in itertools.pairwise(kinks):
        count = max(1, math.ceil((right - left) / 2))
        width = (right - left) / count
        for part in range(count):
            yield left + (part + 0.5) * width + _NODES * width / 2, _WEIGHTS * width / 2


def laplace_log_density(x: Reals) -> Reals:
    """Return the log density of standard Laplace noise."""
    return -np.abs(x) - math.log(2)


def laplace_log_cumulative(x: Reals) -> Reals:
    """Return log P(noise <= x) for standard Laplace noise."""
    return np.where(x < 0, np.minimum(x, 0) - math.log(2), np.log1p(-np.exp(-np.maximum(x, 0)) / 2))
