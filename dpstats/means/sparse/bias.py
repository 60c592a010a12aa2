"""The sparse mean of many columns, and intervals of the selected means that count clipping.

Proofs: docs/proofs/sparse-mean.md, docs/intervals/sparse-mean.md, "What the intervals cover".
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


def cross_bias(
    radius: float,
    # Shape (s,). Upper limits of how far the mean of the clipped rows is from the center, in each column.
    offsets: Numbers,
) -> Numbers:
    """Return a bound on the bias of every column of rows clipped to an l1 ball.

    Returns
    -------
    array of shape (s,)
        Infinite where no bound follows: where clipping may have taken everything.
    """
    # sqrt(E||y||_1^2) <= N = sum of sqrt(1 + m_j^2), m_j <= offset_j + |bias_j|, and biases add up to at most N^2/4R.
    least = float(np.sum(np.hypot(1.0, offsets)))
    if least >= radius:
        return np.full(offsets.size, math.inf)
    factor = (1 - math.sqrt(1 - least / radius)) / 2
    # factor sqrt(1 + m_j^2), at the largest m_j there can be: m_j <= offset_j + that.
    kept = 1 - factor**2
    mean = (offsets + factor * np.sqrt(offsets**2 + kept)) / kept
    bound: Numbers = factor * np.hypot(1.0, mean)
    return bound
