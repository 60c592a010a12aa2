"""The working distribution of offsets, of which a fit releases the mean."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy import optimize

from dpstats.regression.passes import Floats

Nodes = tuple[Floats, Floats]
"""Values and their weights."""

_PLACES, _WEIGHTS = np.polynomial.legendre.leggauss(5)
_PLACES, _WEIGHTS = (1 + _PLACES) / 2, _WEIGHTS / 2
_CLOSEST = 1e-4
"""Least distance of a mean from the end of the range, and of the middle, in half-widths."""


def combine(first: Nodes, second: Nodes) -> tuple[tuple[float, float], ...]:
    """Return the values and weights of the sum of two independent numbers."""
    values = np.add.outer(first[0], second[0]).ravel()
    return tuple(zip(values.tolist(), np.outer(first[1], second[1]).ravel().tolist(), strict=True))


@lru_cache(maxsize=1024)
def likely_offsets(mean: float, noise: float) -> Nodes:
    """Return nodes of the distribution on [-1, 1] with the largest entropy for its mean, which has some noise."""
    # Its density is proportional to exp(k u) and its mean is coth(k) - 1/k. Exposures with a density that is a power
    # have such logarithms; evenly distributed ones from 0 on have k = half the width of the range.
    near = 1 - max(1 - abs(mean), min(noise, 1.0), _CLOSEST)
    if near < _CLOSEST:
        return 2 * _PLACES - 1, _WEIGHTS
    k = optimize.brentq(lambda k: 1 / math.tanh(k) - 1 / k - near, _CLOSEST, 2 / _CLOSEST)
    # The distribution function is (exp(k(u - 1)) - exp(-2k)) / (1 - exp(-2k)).
    least = math.exp(-2 * k)
    at = 1 + np.log(least + _PLACES * (1 - least)) / k
    return math.copysign(1.0, mean) * at, _WEIGHTS
