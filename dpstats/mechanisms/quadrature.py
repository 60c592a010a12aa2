"""Integrals over the noise, piece by piece: the exact odds of noisy comparisons."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]

FAR = 60.0
"""Gaps beyond this many scales of the noise are as good as infinite: e^-60."""

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


def halting_law(gaps: Reals, ratio: float) -> Reals:
    """Return P(question i is the first above), i = 0, ..., and P(none is).

    A question is below iff its noise is below its gap plus the threshold's noise, ratio times Laplace.
    """
    gaps = np.clip(gaps, -FAR, FAR)
    kinks = np.unique(np.concatenate([-gaps, [0.0, -FAR - 40, FAR + 40]]))
    result = np.zeros(gaps.size + 1)
    for x, lengths in pieces(kinks):
        weights = lengths * np.exp(laplace_log_density(x / ratio)) / ratio
        room = x[:, None] + gaps
        # A question is above where minus its noise is below minus its room.
        above = np.exp(laplace_log_cumulative(-room))
        still = np.exp(np.cumsum(laplace_log_cumulative(room), axis=1))
        before = np.column_stack([np.ones(x.size), still])
        result[:-1] += weights @ (before[:, :-1] * above)
        result[-1] += weights @ before[:, -1]
    return normalized(result)


def normalized(probabilities: Reals) -> Reals:
    """Return non-negative numbers that add up to nearly 1, divided by their sum.

    The last digits of a quadrature belong to the processor. No result is above 1, and a single one is 1: a
    floating-point sum of non-negative numbers is at least each of them, in any order.
    """
    return np.asarray(probabilities / probabilities.sum())
