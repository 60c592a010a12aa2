"""Two regimes: a line that breaks once, fitted to log risks, with the place of its break."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from dpstats.results import ConfidenceInterval
from dpstats.simulation.risks import Vector

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
    parameter: str, x: Vector, groups: Vector, means: Vector, errors: Vector, level: float
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
    drawn = (fitted / errors)[:, None] + spread * rng.standard_normal((x.size, _DRAWS))
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
        pvalue=float(chi2.sf(float(residual[0]), free)),
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
