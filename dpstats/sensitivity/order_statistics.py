"""How far order statistics and trimmed means move near the data: closed forms.

Everything here is as private as the data are. Proof: docs/proofs/smooth-sensitivity.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.data.parameters import check_integer, check_real
from dpstats.data.values import exact_numbers
from dpstats.errors import refuse, refuse_data


def median_smooth_sensitivity(x: Any, *, lower: float, upper: float, beta: float) -> float:
    """Return the beta-smooth sensitivity of the median: for checks and for teaching, not for release.

    S = max over k of e^(-beta k) A(k), where A(k) is how far one more row can move the median of data that
    differ in k rows. It is at least what one row moves the median by, and falls or rises by a factor of at
    most e^beta where a row is replaced. It is a function of all rows: noise may have its scale, but no scale,
    plan or interval may show it.

    Parameters
    ----------
    x : array-like of shape (n,)
        Private numbers; those beyond the bounds count as the nearer one. For an even n the median is the
        lower one.
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
    A(k) is the largest of x_(j) - x_(i) over i <= m <= j with j - i = k + 1, where m is the median's place
    (Nissim, Raskhodnikova and Smith 2007, proposition 3.4). The bounds stand before the first row and after
    the last. The best j increases with i, so bisection finds all of them in n log n steps.

    Examples
    --------
    >>> from dpstats.sensitivity import median_smooth_sensitivity
    >>> round(median_smooth_sensitivity([1, 2, 4], lower=0, upper=6, beta=0.3), 9)
    2.963272883
    """
    return quantile_smooth_sensitivity(x, 0.5, lower=lower, upper=upper, beta=beta)


def quantile_smooth_sensitivity(x: Any, q: float, *, lower: float, upper: float, beta: float) -> float:
    """Return the beta-smooth sensitivity of a quantile, the ceil(q n)-th row in order.

    Parameters
    ----------
    x, lower, upper, beta
        As for `median_smooth_sensitivity`.
    q : float
        In [0, 1]; 0 is the minimum.

    Examples
    --------
    >>> from dpstats.sensitivity import quantile_smooth_sensitivity
    >>> round(quantile_smooth_sensitivity([1, 2, 4, 7], 0.25, lower=0, upper=10, beta=0.5), 6)
    2.207277
    """
    q = check_real("q", q, at_least=0, at_most=1)
    ordered, lower, upper, beta = _checked(x, lower, upper, beta)
    place = max(1, math.ceil(q * ordered.size))
    return _window(ordered, place, place, lower, upper, beta)


def minimum_smooth_sensitivity(x: Any, *, lower: float, upper: float, beta: float) -> float:
    """Return the beta-smooth sensitivity of the minimum; parameters as for `median_smooth_sensitivity`.

    Examples
    --------
    >>> from dpstats.sensitivity import minimum_smooth_sensitivity
    >>> round(minimum_smooth_sensitivity([1, 2, 4], lower=0, upper=6, beta=1.0), 6)
    1.103638
    """
    return quantile_smooth_sensitivity(x, 0.0, lower=lower, upper=upper, beta=beta)


def maximum_smooth_sensitivity(x: Any, *, lower: float, upper: float, beta: float) -> float:
    """Return the beta-smooth sensitivity of the maximum; parameters as for `median_smooth_sensitivity`.

    Examples
    --------
    >>> from dpstats.sensitivity import maximum_smooth_sensitivity
    >>> maximum_smooth_sensitivity([1, 2, 4], lower=0, upper=6, beta=1.0)
    2.0
    """
    return quantile_smooth_sensitivity(x, 1.0, lower=lower, upper=upper, beta=beta)


def trimmed_mean_smooth_sensitivity(x: Any, trim: int, *, lower: float, upper: float, beta: float) -> float:
    """Return the beta-smooth sensitivity of the mean without the ``trim`` smallest and the ``trim`` largest rows.

    Parameters
    ----------
    x, lower, upper, beta
        As for `median_smooth_sensitivity`.
    trim : int
        At least 0, and less than half of the number of rows.

    Notes
    -----
    This is the median's A(k) with a window instead of the median. It is the largest x_(j) - x_(i) over i <=
    trim + 1, j >= n - trim and j - i = n - 2 trim + k, divided by the number of remaining rows.

    Examples
    --------
    >>> from dpstats.sensitivity import trimmed_mean_smooth_sensitivity
    >>> round(trimmed_mean_smooth_sensitivity([1, 2, 4, 7, 11], 1, lower=0, upper=16, beta=0.3), 6)
    3.457152
    """
    ordered, lower, upper, beta = _checked(x, lower, upper, beta)
    trim = check_integer("trim", trim, at_least=0)
    left = ordered.size - 2 * trim
    if left < 1:
        raise refuse("trim", given=trim, allowed=f"less than half of the number of rows ({ordered.size})")
    return _window(ordered, trim + 1, ordered.size - trim, lower, upper, beta) / left


def _checked(
    x: Any, lower: float, upper: float, beta: float
) -> tuple[NDArray[np.float64], float, float, float]:
    """Return the rows in order, within the bounds, and the parameters."""
    lower, upper = check_real("lower", lower), check_real("upper", upper)
    beta = check_real("beta", beta, above=0)
    if not lower < upper:
        raise refuse("lower", got=f"{lower:g} and {upper:g}", allowed="less than upper")
    rows = exact_numbers("x", x)
    if rows.ndim != 1 or rows.size == 0:
        raise refuse_data("x", allowed="a 1-d sequence of at least one number")
    rows = rows.astype(np.float64)
    if np.isnan(rows).any():
        raise refuse_data("x", got="at least one NaN", allowed="hold numbers")
    return np.sort(np.clip(rows, lower, upper)), lower, upper, beta


def _window(
    ordered: NDArray[np.float64], first: int, last: int, lower: float, upper: float, beta: float
) -> float:
    """Return the largest of (x_(j) - x_(i)) e^(-beta k) over i <= first, j >= last, k = j - i - (last - first + 1)."""
    # Further out than one bound on each side there is nothing more to gain.
    low = np.concatenate([[lower], ordered[:first]])  # places 0, ..., first
    high = np.concatenate([ordered[last - 1 :], [upper]])  # places last, ..., n + 1
    best = 0.0
    # From which to which i, and between which j the best of them are.
    parts = [(0, first, 0, high.size - 1)]
    while parts:
        start, end, left, right = parts.pop()
        i = (start + end) // 2
        nearest = max(left, 1) if i == first else left
        j = np.arange(nearest, right + 1)
        if j.size == 0:
            best_j = right
        else:
            values = (high[j] - low[i]) * np.exp(-beta * (first + j - i - 1))
            best_j = nearest + int(np.argmax(values))
            best = max(best, float(values.max()))
        if start < i:
            parts.append((start, i - 1, left, best_j))
        if i < end:
            parts.append((i + 1, end, min(best_j, high.size - 1), right))
    return best


def window_reach(places: NDArray[np.integer[Any]], steps: int, first: int, last: int) -> Callable[[int], int]:
    """Return k -> how far one row moves the sum of the rows from the first to the last place, of data k rows away.

    ``places`` are sorted whole numbers among 0, ..., ``steps``; the two places are counted from 1, and are
    the same for a single order statistic. The result is an integer.
    """
    n = places.size
    places = places if n else np.array([steps])  # of no rows only the ends are looked at

    def reach(k: int) -> int:
        t = np.arange(k + 2)
        high, low = last + t, first + t - k - 1
        ends = np.where(high > n, steps, places[np.clip(high - 1, 0, n - 1)])
        starts = np.where(low < 1, 0, places[np.clip(low - 1, 0, n - 1)])
        return int((as_int64(ends) - as_int64(starts)).max())

    return reach


def median_reach(places: NDArray[np.integer[Any]], steps: int) -> Callable[[int], int]:
    """Return k -> A(k) for the lower median of sorted whole numbers among 0, ..., ``steps``, in whole numbers."""
    m = (places.size + 1) // 2
    return window_reach(places, steps, m, m)
