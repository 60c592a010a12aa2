"""A sum of two powers, A x^a + B x^b, fitted to log risks, with intervals of both exponents."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares
from scipy.special import ndtri
from scipy.stats import chi2

from dpstats.results import ConfidenceInterval
from dpstats.simulation.risks import Vector

_FARTHEST = 10.0
"""Distance from its estimate at which an exponent counts as not determined."""
_HALVINGS = 10
_GAPS = (0.3, 1.0, 3.0)  # between the exponents, at the start of a search


@dataclass(frozen=True, slots=True)
class PowerSum:
    """A rate that goes from one power to another, gradually.

    Attributes
    ----------
    exponents : tuple of float
        The smaller one first: of the term that counts most at small values of the parameter.
    intervals : tuple of ConfidenceInterval
        A limit is infinite if the cells do not bound the exponent.
    pvalue : float
        P-value of the hypothesis that the risks are such a sum, up to Monte Carlo error.
    """

    exponents: tuple[float, float]
    intervals: tuple[ConfidenceInterval, ConfidenceInterval]
    pvalue: float


# Each group of cells has its own A and B, and all have the exponents. Intervals are profiles: the values of an
# exponent for which the best such sum misses the points by little more than the best of all.
def fit_power_sum(
    parameter: str, x: Vector, groups: Vector, means: Vector, errors: Vector, level: float
) -> PowerSum | None:
    """Fit a sum of two powers; None for too few cells.

    Parameters
    ----------
    parameter : str
        Its name, for the intervals.
    x : array of shape (cells,)
        Its logarithm.
    groups : array of shape (cells, groups)
        1 where a cell is of a group.
    means, errors : array of shape (cells,)
        Log risks and their standard errors.
    level : float
        Level of each interval.
    """
    free = x.size - 2 * groups.shape[1] - 2
    if free < 1:
        return None
    centered = x - x.mean()
    heights = (groups.T @ means) / groups.sum(axis=0) - math.log(2)
    slope = float(np.polyfit(centered, means - groups @ (groups.T @ means / groups.sum(axis=0)), 1)[0])

    def best(exponents: Callable[[Vector], tuple[float, float]], start: Vector) -> tuple[float, Vector]:
        """Return the least squared miss of a family of pairs of exponents, and where it is attained."""
        count = start.size - 2 * groups.shape[1]

        def misses(point: Vector) -> Vector:
            first, second = exponents(point[:count])
            low, high = np.split(point[count:], 2)
            fitted = np.logaddexp(groups @ low + first * centered, groups @ high + second * centered)
            return np.asarray((means - fitted) / errors)

        found = least_squares(misses, start, method="lm")
        return 2 * float(found.cost), np.asarray(found.x)

    starts = [np.concatenate([[slope - gap / 2, math.log(gap)], heights, heights]) for gap in _GAPS]
    least, at = min(
        (best(lambda p: (p[0], p[0] + _gap(p[1])), start) for start in starts), key=lambda pair: pair[0]
    )
    estimates = (float(at[0]), float(at[0]) + _gap(at[1]))
    # Where the sum does not fit either, what it misses by counts as error.
    most = least + max(1.0, least / free) * float(ndtri((1 - level) / 2)) ** 2

    def end(which: int, side: int) -> float:
        """Return the point at which the profile of an exponent crosses the limit."""

        def within(value: float, start: Vector) -> tuple[bool, Vector]:
            sign = 1 if which == 0 else -1
            found, point = best(
                lambda p: (value, value + _gap(p[0])) if sign > 0 else (value - _gap(p[0]), value), start
            )
            return found <= most, point

        inside, step, start = 0.0, 0.02, at[1:]
        while True:
            kept, point = within(estimates[which] + side * step, start)
            if not kept:
                break
            if step > _FARTHEST:
                return side * math.inf
            inside, step, start = step, 2 * step, point
        outside = step
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            kept, point = within(estimates[which] + side * middle, start)
            inside, outside, start = (middle, outside, point) if kept else (inside, middle, start)
        return estimates[which] + side * outside

    first, second = (
        ConfidenceInterval(
            end(which, -1), end(which, 1), level, f"{name} exponent of {parameter} in a sum of two powers"
        )
        for which, name in enumerate(("smaller", "larger"))
    )
    return PowerSum(estimates, (first, second), float(chi2.sf(least, free)))


def _gap(logarithm: float) -> float:
    return math.exp(min(float(logarithm), 5.0))
