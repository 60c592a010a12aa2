"""Rates that change: a line that breaks once, and a sum of two powers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares
from scipy.stats import f as f_law

from dpstats.inference.results import ConfidenceInterval
from dpstats.simulation.cell_fits import Vector

_PLACES = 200
_DRAWS = 499
_FEWEST_VALUES = 5  # of the parameter: two on either side of a break, and one to tell


@dataclass(frozen=True, slots=True)
class BrokenLine:
    """A rate that changes once.

    Attributes
    ----------
    place : float
        Value of the parameter at which it changes.
    place_interval : ConfidenceInterval
    slopes : tuple of float
        The exponents below and above it.
    intervals : tuple of ConfidenceInterval or None
        None where the break may lie beyond all values of the parameter but one: then that slope is not
        determined.
    pvalue : float
        Of the hypothesis that the points lie on such a line, but for Monte Carlo error.
    """

    place: float
    place_interval: ConfidenceInterval
    slopes: tuple[float, float]
    intervals: tuple[ConfidenceInterval | None, ConfidenceInterval | None]
    pvalue: float

    @property
    def determined(self) -> bool:
        """Whether both slopes are."""
        return None not in self.intervals


# The place is the best of a fine grid, at which the slopes are weighted least squares. Intervals are of the whole
# procedure, the place included, by a parametric bootstrap: log risks are drawn again about the fitted line, with
# their Monte Carlo errors, and fitted again.
def fit_broken_line(
    parameter: str, x: Vector, groups: Vector, means: Vector, errors: Vector, level: float, degrees: float
) -> BrokenLine | None:
    """Fit a line that breaks once, the same for all groups but for their intercepts; None for too few cells.

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
    degrees : float
        Degrees of freedom of the errors.
    """
    values = np.unique(x)
    free = x.size - groups.shape[1] - 3
    if values.size < _FEWEST_VALUES or free < 1:
        return None
    places = np.linspace(values[1], values[-2], _PLACES)
    slopes, place, residual = _best(places, x, groups, (means / errors)[:, None], errors)
    # Where the line does not fit either, what it misses by counts as error.
    spread = max(1.0, math.sqrt(float(residual[0]) / free))
    fitted = _fitted(float(place[0]), slopes[:, 0], x, groups, means, errors)
    rng = np.random.default_rng(0)
    # The size of the errors is as uncertain as its degrees of freedom say.
    sizes = spread / np.sqrt(rng.chisquare(degrees, _DRAWS) / degrees)
    drawn = (fitted / errors)[:, None] + sizes * rng.standard_normal((x.size, _DRAWS))
    again, places_again, _ = _best(places, x, groups, drawn, errors)
    tails = [(1 - level) / 2, (1 + level) / 2]
    # Of the errors of the bootstrap, about the estimate.
    ends = [2 * slopes[i, 0] - np.quantile(again[i], tails[::-1]) for i in range(2)]
    low, high = np.quantile(np.append(places_again, place), tails)
    # A break between the last two values looks like a break at the last but one. The place may be anywhere up
    # to the last value, and the slope beyond it depends on one value.
    step = places[1] - places[0]
    outside = (bool(low < places[0] + step), bool(high > places[-1] - step))
    low, high = values[0] if outside[0] else low, values[-1] if outside[1] else high
    below, above = (
        None
        if beyond
        else ConfidenceInterval(
            float(end[0]), float(end[1]), level, f"exponent of {parameter} {side} the break"
        )
        for end, beyond, side in zip(ends, outside, ("below", "above"), strict=True)
    )
    return BrokenLine(
        place=float(np.exp(place[0])),
        place_interval=ConfidenceInterval(math.exp(low), math.exp(high), level, f"{parameter} at the break"),
        slopes=(float(slopes[0, 0]), float(slopes[1, 0])),
        intervals=(below, above),
        pvalue=float(f_law.sf(float(residual[0]) / free, free, degrees)),
    )


def bent(x: Vector, place: float) -> Vector:
    """Return the regressors of the slopes below and above a place: shape (cells, 2)."""
    return np.column_stack([np.minimum(x - place, 0.0), np.maximum(x - place, 0.0)])


def _best(
    places: Vector, x: Vector, groups: Vector, weighted: Vector, errors: Vector
) -> tuple[Vector, Vector, Vector]:
    """Return the slopes, the place and the squared residuals of the best broken line of every column."""
    count = weighted.shape[1]
    slopes, at, least = np.empty((2, count)), np.empty(count), np.full(count, np.inf)
    for place in places:
        design = np.column_stack([bent(x, float(place)), groups]) / errors[:, None]
        coefficients, *_ = np.linalg.lstsq(design, weighted, rcond=None)
        residual = np.sum((weighted - design @ coefficients) ** 2, axis=0)
        better = residual < least
        least[better], at[better] = residual[better], place
        slopes[:, better] = coefficients[:2, better]
    return slopes, at, least


def _fitted(place: float, slopes: Vector, x: Vector, groups: Vector, means: Vector, errors: Vector) -> Vector:
    """Return the line of such slopes, at the intercepts that are best for it."""
    line = bent(x, place) @ slopes
    weights = groups / errors[:, None] ** 2
    return np.asarray(line + groups @ ((weights.T @ (means - line)) / weights.sum(axis=0)))


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
    parameter: str, x: Vector, groups: Vector, means: Vector, errors: Vector, level: float, degrees: float
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
    degrees : float
        Degrees of freedom of the errors.
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
    most = least + max(1.0, least / free) * float(f_law.isf(1 - level, 1, degrees))

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
    return PowerSum(estimates, (first, second), float(f_law.sf(least / free, free, degrees)))


def _gap(logarithm: float) -> float:
    return math.exp(min(float(logarithm), 5.0))
