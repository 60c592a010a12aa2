"""Smooth sensitivity: how far a statistic moves near the data, at a distance, falling off with the distance.

Everything here is as private as the data are. Proof: docs/proofs/smooth-sensitivity.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.numbers import exact_numbers
from dpstats.data.parameters import check_real
from dpstats.errors import InvalidData, InvalidParameter


def median_smooth_sensitivity(x: Any, *, lower: float, upper: float, beta: float) -> float:
    """Return the beta-smooth sensitivity of the median: for checks and for teaching, not for release.

    S = max over k of e^(-beta k) A(k), where A(k) is how far one more row can move the median of data that differ in k
    rows. It is at least what one row moves the median by, and falls or rises by a factor of at most e^beta where a row
    is replaced. It is a function of all rows: noise may have its scale, but no scale, plan or interval may show it.

    Parameters
    ----------
    x : array-like of shape (n,)
        Private numbers; those beyond the bounds count as the nearer one. For an even n the median is the lower one.
    lower, upper : float
        Public bounds.
    beta : float
        Greater than 0.

    Returns
    -------
    float
        In the units of x.

    Notes
    -----
    A(k) is the largest of x_(j) - x_(i) over i <= m <= j with j - i = k + 1, m the median's place, with the bounds
    before the first row and after the last (Nissim, Raskhodnikova and Smith 2007, proposition 3.4). The best j rises
    with i, so that halving finds all of them in n log n steps.

    Examples
    --------
    >>> from dpstats.sensitivity import median_smooth_sensitivity
    >>> round(median_smooth_sensitivity([1, 2, 4], lower=0, upper=6, beta=0.3), 9)
    2.963272883
    """
    lower, upper = check_real("lower", lower), check_real("upper", upper)
    beta = check_real("beta", beta, above=0)
    if not lower < upper:
        raise InvalidParameter(f"lower must be less than upper, got {lower:g} and {upper:g}")
    rows = exact_numbers("x", x)
    if rows.ndim != 1 or rows.size == 0:
        raise InvalidData("x must be a 1-d sequence of at least one number")
    rows = rows.astype(np.float64)
    if np.isnan(rows).any():
        raise InvalidData("x must hold numbers, got at least one NaN")
    ordered = np.sort(np.clip(rows, lower, upper))
    m = (rows.size + 1) // 2  # counted from 1
    # Further out than one bound on each side there is nothing more to gain.
    low = np.concatenate([[lower], ordered[:m]])  # places 0, ..., m
    high = np.concatenate([ordered[m - 1 :], [upper]])  # places m, ..., n + 1
    return _largest(low, high, m, beta)


def _largest(low: NDArray[np.float64], high: NDArray[np.float64], m: int, beta: float) -> float:
    """Return the largest of (high_j - low_i) e^(-beta (j - i - 1)) over places i <= m <= j, not both m."""
    best = 0.0
    # From which to which i, and between which j the best of them are.
    parts = [(0, m, 0, high.size - 1)]
    while parts:
        first, last, left, right = parts.pop()
        i = (first + last) // 2
        start = max(left, 1) if i == m else left
        j = np.arange(start, right + 1)
        if j.size == 0:
            best_j = right
        else:
            values = (high[j] - low[i]) * np.exp(-beta * (m + j - i - 1))
            best_j = start + int(np.argmax(values))
            best = max(best, float(values.max()))
        if first < i:
            parts.append((first, i - 1, left, best_j))
        if i < last:
            parts.append((i + 1, last, min(best_j, high.size - 1), right))
    return best


def median_reach(places: NDArray[np.integer[Any]], steps: int) -> Callable[[int], int]:
    """Return k -> A(k) for the lower median of sorted whole numbers among 0, ..., ``steps``, in whole numbers."""
    n = places.size
    m = (n + 1) // 2

    def reach(k: int) -> int:
        t = np.arange(k + 2)
        high, low = m + t, m + t - k - 1
        ends = np.where(high > n, steps, places[np.clip(high - 1, 0, n - 1)])
        starts = np.where(low < 1, 0, places[np.clip(low - 1, 0, n - 1)])
        return int((ends.astype(np.int64) - starts.astype(np.int64)).max())

    return reach


def smooth_level(reach: Callable[[int], int], limits: NDArray[np.int64]) -> int:
    """Return max over k of (the least level whose limit is at least A(k)) - k, or 0: whole numbers throughout.

    ``reach`` is k -> A(k), never falling, and ``limits`` rise, the last being at least as large as any A(k). If
    A(k) at some data is at most A(k + 1) at any neighbour, the level moves by at most one between neighbours, whatever
    the limits are.
    """

    def level(k: int) -> int:
        return int(np.searchsorted(limits, reach(k), side="left"))

    best = level(0)
    # Between two distances no level less its distance is above the level of the further less the nearer.
    parts = [(1, limits.size - 1)]
    while parts:
        first, last = parts.pop()
        last = min(last, limits.size - 1 - best)
        if first > last or level(last) - first <= best:
            continue
        middle = (first + last) // 2
        best = max(best, level(middle) - middle)
        parts += [(first, middle - 1), (middle + 1, last)]
    return best


def smooth_levels(lowest: float, highest: float, ratio: float) -> tuple[float, ...]:
    """Return rising floats from ``lowest`` to ``highest`` or above, each at most ``ratio`` times the one before."""
    if not ratio > 1 + 2.0**-40:
        raise InvalidParameter(f"the ratio of levels must be above 1, got {ratio!r}")
    found = [lowest]
    while found[-1] < highest:
        # A float below the product, whatever its rounding.
        found.append(math.nextafter(found[-1] * ratio, 0.0))
    return tuple(found)
