"""Smooth sensitivity: how far a statistic moves at any distance from the data, falling off with the distance."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_integer, check_real
from dpstats.errors import InvalidParameter


def smooth_sensitivity(
    local: Callable[[int], float], *, beta: float, furthest: int | None = None, growth: int | None = None
) -> float:
    """Return the beta-smooth sensitivity, max over k of e^(-beta k) A(k): for checks and for teaching.

    It is as private as the data. A release uses `smooth_level` of integers instead, whose guarantee does not
    depend on floating point.

    Parameters
    ----------
    local : callable
        k -> A(k), how far replacing one row can move the statistic at most, of data that differ in k rows;
        never falling.
    beta : float
        Greater than 0.
    furthest : int, optional
        A distance beyond which A(k) is constant, such as the number of rows.
    growth : int, optional
        In place of it, a number such that A(k) is a polynomial of at most this degree with no negative
        coefficient. Beyond ``growth/beta`` it grows less than e^(beta k) does. One of the two is needed.

    Returns
    -------
    float
        In the units of the statistic.

    Notes
    -----
    Nissim, Raskhodnikova and Smith (2007), definitions 2.1 and 2.2. The result is a smooth bound if ``local``
    bounds these A(k) from above, and its value at distance k is at most a neighbor's value at k + 1.

    Examples
    --------
    The median of 1, 2, 4 among 0, ..., 6, by trying all datasets, and a polynomial:

    >>> from statistics import median_low
    >>> from dpstats.sensitivity import local_sensitivity, smooth_sensitivity
    >>> def local(k):
    ...     return local_sensitivity(median_low, (1, 2, 4), range(7), distance=k)
    >>> round(smooth_sensitivity(local, beta=0.3, furthest=3), 9)
    2.963272883
    >>> round(smooth_sensitivity(lambda k: (5 + k) * (3 + k), beta=0.5, growth=2), 6)
    15.0
    """
    beta = check_real("beta", beta, above=0)
    if (furthest is None) == (growth is None):
        raise InvalidParameter("furthest or growth must be given, one of them")
    if furthest is not None:
        last = check_integer("furthest", furthest, at_least=0)
    else:
        last = math.ceil(check_integer("growth", growth, at_least=0) / beta)
    return max(math.exp(-beta * k) * local(k) for k in range(last + 1))


def smooth_level(reach: Callable[[int], int], limits: NDArray[np.integer[Any]]) -> int:
    """Return max over k of (the least level whose limit is at least A(k)) - k, or 0: whole numbers throughout.

    ``reach`` is k -> A(k), never falling, and ``limits`` rise, the last being at least as large as any A(k).
    If A(k) at some data is at most A(k + 1) at any neighbor, the level changes by at most one between
    neighbors, for any limits.
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
