"""Errors of a mean whose bias is bounded, in a public box: intervals, the check of tails, and whitened rows.

The largest error of probability 1 - alpha is not bias + z se: of a biased estimate only one tail is enlarged
(Armstrong and Kolesar 2018). Proof: docs/intervals/adaptive-mean.md, "The bounds", "The screen".
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

Numbers = NDArray[np.float64]

_HALVINGS = 60


def biased_normal_quantile(tail: Any, bias: Any) -> Any:
    """Return x with P(|N + bias| > x) = 2 tail, N standard normal, for each bias and tail of at most one half.

    Examples
    --------
    >>> from dpstats.means.bias_aware import biased_normal_quantile
    >>> [round(float(biased_normal_quantile(0.025, bias)), 3) for bias in (0.0, 0.1, 1.0, 5.0)]
    [1.96, 1.97, 2.646, 6.645]
    """
    given = np.abs(np.asarray(bias, dtype=np.float64))
    if not given.any():
        return -ndtri(tail) + given
    t = np.where(np.isfinite(given), given, 0.0)
    # One tail alone, and both with the whole bias: bounds, so that the answer is halved for.
    low, high = np.maximum(t - ndtri(2 * np.asarray(tail)), 0.0), t - ndtri(tail)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        short = ndtr(t - middle) + ndtr(-t - middle) > 2 * tail
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    return np.where(np.isfinite(given), high, np.inf)
