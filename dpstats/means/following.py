from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import special

from dpstats.means.staging import (
    BIAS_WEIGHT,
    MAX_STAGES,
    SPARE_STAGES,
    Curves,
    Known,
    Numbers,
    Setting,
    Staging,
    add_stage,
    all_shares,
    bound_average,
    center_error,
    plan_recursion,
    plan_stages,
    planned_width,
    stage_curves,
)

# Variances of the rows, in units of the stated one, that the stages' shares are planned for: an exact bound, and
# bounds that are three and ten times too large.
_PLANNED_FOR = (1.0, 1 / 9, 1 / 100)
# Balls follow the standard deviation if this shortens the planned intervals by this factor, on average over these.
_GAIN = 0.98
# How much larger the planned error may be for larger balls.
_ROOM = 1.02
# Deviations of the noise that the limit of a released variance is above it.
RAISED = 1.0
# Smallest variance that is used, in units of the stated variance.
_LEAST = 2.0**-80
_WIDEST = 0.999  # probability beyond the smallest radius that has bounds
_RATIOS = np.geomspace(1e-6, 1e8, 1500)  # of the squared radius to the variance of a column, over d


@dataclass(frozen=True, slots=True)
class Course:
    """The public numbers that radii are computed from, whitened: stated standard deviations are 1."""

    setting: Setting
    tails: str
    # Noise variance of a column in each stage, for a ball of radius 1; arrays are for several plans at
    # once.
    units: Sequence[Any]
    points: Sequence[Any]  # where the radius of each stage is on the grid of curves
    # Factor of the squared norms in the release. Their noise is the noise of the sums, times the radius,
    # over this factor.
    square_weight: float

    def curves(self, t: int) -> Curves:
        """Return the planned curves of a stage."""
        return stage_curves(self.setting.d, self.tails).at(self.points[t])

    def radius(self, t: int, known: Known, variance: Any) -> Any:
        """Return the radius of a stage, from the known bounds and an upper limit of the variance of a column."""
        norm, _, least = center_error(self.setting, known, variance)
        return np.maximum(np.sqrt((variance + norm) * self.curves(t).q), least)

    def information(self, t: int, radius: Any) -> Any:
        """Return the inverse noise variance of a stage's estimate."""
        return self.curves(t).slope ** 2 / (self.units[t] * radius**2)

    def after(self, t: int, known: Known, radius: Any, variance: Any) -> Known:
        """Return the known bounds after a stage, if its planned curves hold."""
        norm, one, _ = center_error(self.setting, known, variance)
        return add_stage(known, self.information(t, radius), norm, one, self.curves(t), variance)[0]

    def upper_variance(
        self,
        t: int,
        radius: Any,  # radius of the stage
        shift2: Any,  # squared norm of the released mean of the clipped rows about the center
        square: Any,  # released mean of their squared norms
    ) -> Any:
        """Return an upper limit of the variance of a column, from the release of a stage: whitened, and at most 1.

        It is corrected for what clipping takes from rows whose norms are normal.
        """
        d, n = self.setting.d, self.setting.n
        noise2 = self.units[t] * radius**2
        variance, error = released_variance(n, d, shift2, square, noise2, self._square_noise(t, radius))
        about = np.maximum(shift2 - d * noise2, 0.0) / d
        upper = unclipped(np.maximum(variance, 0.0) + RAISED * error + about, radius**2, d) - about
        return np.clip(np.maximum(upper, RAISED * error), _LEAST, 1.0)

    def _square_noise(self, t: int, radius: Any) -> Any:
        return np.sqrt(self.units[t]) * radius**2 / self.square_weight

    def follow(self, variance: float) -> tuple[Known, list[Any]]:
        """Return the known bounds after all stages, and the radii, for rows of this variance: a plan without noise."""
        d = self.setting.d
        known, raised = Known(*np.zeros(4)), 1.0
        radii = []
        for t in range(len(self.points)):
            radius = self.radius(t, known, raised)
            norm, _, _ = center_error(self.setting, known, raised)
            known = self.after(t, known, radius, raised)
            noise2 = self.units[t] * radius**2
            about = np.sqrt(4 * d * norm * noise2 + 2 * d * noise2**2)
            error = np.hypot(self._square_noise(t, radius), about) / d
            raised = np.minimum(variance + RAISED * error, 1.0)
            radii.append(radius)
        return known, radii

    def bounds(self, radii: Sequence[float], variance: float) -> tuple[list[float], list[float]]:
        """Return the bias bounds and the standard deviations of stages of these radii, for rows of this variance.

        A radius that was computed from too small a variance has the bounds of the smaller ball that it is then;
        infinity where nearly all rows may be outside.
        """
        known, biases, spreads = Known(*np.zeros(4)), [], []
        wide = stage_curves(self.setting.d, self.tails, _WIDEST)
        for t, radius in enumerate(radii):
            norm, one, _ = center_error(self.setting, known, variance)
            curves, ratio = self.curves(t), radius**2 / (variance + norm)
            if ratio < curves.q * (1 - 1e-9):
                place = int(np.searchsorted(wide.q, ratio, side="right")) - 1
                if place < 0:
                    return [math.inf] * len(radii), [1.0] * len(radii)
                curves = wide.at(place).rescaled(curves.slope)
            known, bias, _ = add_stage(known, self.information(t, radius), norm, one, curves, variance)
            biases.append(float(bias))
            spreads.append(float(self.curves(t).spread * np.sqrt(1 + one)))
        return biases, spreads


def released_variance(
    n: int,
    d: int,
    shift2: Any,  # squared norm of the released mean of the rows
    square: Any,  # released mean of their squared norms
    noise2: Any,  # noise variance of a column of the released mean
    square_noise: Any,  # standard deviation of the noise of the released mean of squared norms
) -> tuple[Any, Any]:
    """Return an unbiased estimate of the variance of a column of clipped rows, and the deviation of its noise."""
    # ||y||^2 includes the noise of y, and 1/n of the variance in addition.
    variance = (square - shift2 + d * noise2) * n / (n - 1) / d
    return variance, np.hypot(square_noise, np.sqrt(4 * shift2 * noise2 + 2 * d * noise2**2)) / d


def unclipped(moment: Any, radius2: Any, d: int) -> Any:
    """Return the second moment of a column of normal rows, from the moment of the same rows clipped to a ball."""
    ratios, clipped = _clipped_moments(d)
    # Of rows of second moment m, E min(||x||^2, B^2)/d is m g(B^2/m).
    found = np.interp(-np.log(moment * d / radius2), clipped, ratios, left=np.inf)
    return np.where(found == np.inf, np.inf, radius2 / (d * np.exp(found)))


@lru_cache(maxsize=64)
def _clipped_moments(d: int) -> tuple[Numbers, Numbers]:
    """Return log(B^2/(d m)), and -log(d E min(||x||^2, B^2)/(d B^2)), which increases with the former."""
    b = _RATIOS * d
    clipped = special.chdtr(d + 2, b) * d / b + special.chdtrc(d, b)
    return np.log(_RATIOS), -np.log(clipped)


@lru_cache(maxsize=256)
def plan_following(
    n: int, d: int, tails: str, norm2: float, reach2: float, noise: float, exponent: int, square_weight: float
) -> Staging:
    """Return stages whose radii follow the standard deviation, or the result of `plan_stages` if that gains too little.

    Parameters are as in `plan_stages`. Radii and bounds are given at the stated standard deviation: the largest.

    Examples
    --------
    >>> from dpstats.means.following import plan_following
    >>> stages = plan_following(1000, 5, "subgaussian", 100.0, 100.0, 7e-5, 1, 1.665)
    >>> len(stages.points) == len(stages.radii)
    True
    """
    fixed = plan_stages(n, d, tails, norm2, reach2, noise, exponent)
    setting = Setting.build(n, d, norm2, reach2, laplace=exponent == 2)
    curves, weight = stage_curves(d, tails), BIAS_WEIGHT[tails]
    found = []
    for count in range(1, MAX_STAGES + 1):
        shares = all_shares(count)
        units = noise / shares**exponent
        plans, _ = plan_recursion(units, setting, curves, weight)
        course = Course(setting, tails, list(units.T), list(plans[-1].T), square_weight)
        widths = [planned_width(course.follow(variance)[0], n, weight) for variance in _PLANNED_FOR]
        costs = np.mean(np.log(widths), axis=0)
        best = int(np.argmin(costs))
        found.append((float(costs[best]), shares[best], [column[best] for column in plans]))
    least = min(cost for cost, _, _ in found)
    if least > _fixed_cost(fixed, n, noise, exponent, weight) + math.log(_GAIN):
        return fixed
    _, chosen, columns = next(item for item in found if item[0] <= least + math.log(SPARE_STAGES))
    units = (noise / chosen**exponent).tolist()
    return _enlarge(Course(setting, tails, units, columns[-1].tolist(), square_weight), chosen)


def _enlarge(course: Course, shares: Numbers) -> Staging:
    """Return the stages with the largest balls that raise the planned error by a few percent at most.

    Rows whose tails are heavier than planned are clipped less. All points move along the grid by the same number.
    """
    setting = course.setting
    curves = stage_curves(setting.d, course.tails)
    shifts = np.arange(curves.q.size)
    points = [np.minimum(point + shifts, curves.q.size - 1) for point in course.points]
    wider = replace(course, points=points)
    errors = [planned_width(wider.follow(variance)[0], setting.n, 0.0) for variance in _PLANNED_FOR]
    costs = np.mean(np.log(errors), axis=0)
    shift = int(np.flatnonzero(costs <= costs[0] + math.log(_ROOM))[-1])
    made = replace(course, points=[int(point[shift]) for point in points])
    _, radii = made.follow(1.0)
    planned = [float(radius) for radius in radii]
    biases, spreads = made.bounds(planned, 1.0)
    slopes = [float(made.curves(t).slope) for t in range(len(planned))]
    columns = (shares.tolist(), planned, slopes, biases, spreads, made.points)
    return Staging(*(tuple(column) for column in columns))


def _fixed_cost(staging: Staging, n: int, noise: float, exponent: int, weight: float) -> float:
    """Return the mean logarithm of the planned widths of stages with fixed radii."""
    known = bound_average(staging, noise, exponent)
    widths = [
        planned_width(known._replace(common=math.sqrt(known.common**2 - 1 + variance)), n, weight)
        for variance in _PLANNED_FOR
    ]
    return float(np.mean(np.log(widths)))
