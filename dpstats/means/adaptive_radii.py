"""How an adaptive mean spends its privacy: shares, clip radii and stages, planned without data.

The plan minimizes the width of a valid interval, or the error if noise dominates. Each stage clips the rows to a ball
about a public center, and the center of the next stage is the average so far. The recursion carries the information so
far and bounds on the bias and on the center's error, for one column in units of its standard deviation. If the balls
follow the released standard deviation, noise is a fraction of the radius, so the privacy cost does not depend on it.

Proofs: docs/proofs/adaptive-mean.md (privacy) and docs/intervals/adaptive-mean.md (bounds).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpstats.means.ratio import RAISED

Numbers = NDArray[np.float64]

TAILS = ("subgaussian", "symmetric", "variance")

_GROWTH = np.geomspace(1, 1e4, 13)  # last share over first share
MAX_STAGES = 16
# Numbers of stages that are planned in one recursion. Arrays of all 16 would be returned to the system after each step.
_TOGETHER = 8
SPARE_STAGES = 1.02  # every stage is a pass over the data: the fewest within this factor of the best
QUANTILE = 1.959963984540054  # the interval that is planned has level 0.95
# Largest probability that a row at the planned distance is clipped: where more were, the second moment of
# the center would rest on rows that do not move with it.
_LARGEST_TAIL = {"subgaussian": 0.1, "symmetric": 0.3}
# The error of a plan with short intervals is at most the least one over this.
MOST_LOST = 0.94
# Noise hides the box where its standard deviation is above the half-width over this.
_DROWNED = 6
# Probability that a center's error leaves the next ball with less than half of the rows inside. Where that
# happens the mean may be lost, and no average over runs shows it: it is kept below what intervals promise.
_LOST = 3e-4
# Cost of a unit of bias in units of interval width. Above 1 it keeps the bias small, because bias is not random.
BIAS_WEIGHT = {"subgaussian": 3.0, "symmetric": 1.0, "variance": 1.0}


@dataclass(frozen=True, slots=True)
class Staging:
    """The stages of an adaptive mean, in whitened units: every column has standard deviation 1."""

    # Part of the privacy (of mu^2, or of epsilon where delta = 0); they add up to just below 1.
    shares: tuple[float, ...]
    radii: tuple[float, ...]  # radius of the clip ball
    # How far the clipped mean moves when the mean moves by 1; 1 unless rows are symmetric.
    slopes: tuple[float, ...]
    # Bound on the clipping bias of one column, for the mean that the stage estimates.
    biases: tuple[float, ...]
    # Bound on the standard deviation of one column of one clipped row, over the slope.
    spreads: tuple[float, ...]
    # Index of each radius on the grid of `Curves`, if the radii follow the released standard deviation.
    # Otherwise empty.
    points: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Setting:
    """Public numbers that the bounds on a stage depend on, whitened."""

    n: int  # rows and columns
    d: int
    norm2: float  # bound on ||mu||^2/d
    reach2: float  # bound on the square of a column's mean
    # How many standard deviations the noise of a center may reach, in one direction and in norm.
    far: tuple[float, float]

    @classmethod
    def build(cls, n: int, d: int, norm2: float, reach2: float, *, laplace: bool) -> Setting:
        """Return the setting for one distribution of the noise."""
        return cls(n, d, norm2, reach2, _far(d, laplace=laplace))


class Known(NamedTuple):
    """Bounds on the error of the average of the stages so far; arrays of a common shape.

    ``norm`` quantities bound root mean squares over the columns, ``one`` quantities any one column; they
    differ only where bounds over standard deviations do.
    """

    info: Any
    bias_norm: Any
    bias_one: Any
    common: Any

    @classmethod
    def nothing(cls, shape: tuple[int, ...] = ()) -> Known:
        """Return the bounds before the first stage."""
        return cls(*np.zeros((4, *shape)))


@dataclass(frozen=True, slots=True)
class Curves:
    """What clipping at B = sqrt((1 + P) q) does, on a grid of q.

    The bias is at most ``constant * sqrt(1 + P) + shift * sqrt(P)``. It varies with the center's error, about its
    mean and in root mean square, by the smaller of ``variation * sqrt(P)`` and ``loss * sqrt(1 + P)``.
    ``spread`` is the standard deviation in `Staging` over sqrt(1 + P).
    """

    q: Numbers
    constant: Numbers
    shift: Numbers
    variation: Numbers
    loss: Numbers
    slope: Numbers
    spread: Numbers

    def at(self, k: Any) -> Curves:
        """Return the curves at one point of the grid, or at several."""
        return Curves(*[getattr(self, name)[k] for name in self.__slots__])

    def rescaled(self, slope: Any) -> Curves:
        """Return the curves of a stage that divides by another slope than these radii have."""
        part = self.slope / slope
        shift = np.maximum(1 / slope - 1, 1 - part)
        return replace(self, shift=shift, variation=self.variation * part, loss=self.loss * part, slope=slope)


@lru_cache(maxsize=256)
def plan_stages(
    n: int,  # rows and columns
    d: int,
    tails: str,  # one of "subgaussian", "symmetric", "variance"
    norm2: float,  # bound on ||mu||^2/d, whitened
    reach2: float,  # bound on the square of a column's mean over its standard deviation
    # A stage of share s and radius B has noise of variance ``noise * B^2 / s^exponent`` in each column.
    noise: float,
    exponent: int,
) -> Staging:
    """Return the stages that plan the shortest interval, or the least error; a function of public numbers.

    Under "subgaussian" the error counts where the shortest interval costs much of it, as it does where noise
    dominates. Where noise hides the box, stages that assume less can have the least error.

    Examples
    --------
    >>> from dpstats.means.adaptive_radii import plan_stages
    >>> stages = plan_stages(1000, 5, "subgaussian", 100.0, 100.0, 7e-5, 1)
    >>> [round(radius, 1) for radius in stages.radii]
    [30.5, 21.9, 7.9, 3.9, 4.0]
    """
    curves = stage_curves(d, tails)
    setting = Setting.build(n, d, norm2, reach2, laplace=exponent == 2)
    shortest = _least(planned_width, setting, curves, noise, exponent, BIAS_WEIGHT[tails])
    if tails != "subgaussian":
        return shortest
    # Where noise dominates, short intervals want larger balls than small errors do.
    nearest = _least(planned_error, setting, curves, noise, exponent, 1.0)
    known = [bound_average(staging, noise, exponent) for staging in (nearest, shortest)]
    chosen = int(planned_error(known[0], n) >= MOST_LOST * planned_error(known[1], n))
    found, error = (nearest, shortest)[chosen], planned_error(known[chosen], n, 0.0)
    if error**2 < norm2 / _DROWNED**2:
        return found
    # Where it hides most of the box, no interval is short; balls that are smaller still cost less than their noise.
    smaller = plan_stages(n, d, "variance", norm2, reach2, noise, exponent)
    less = planned_error(bound_average(smaller, noise, exponent), n, 0.0) < error
    return smaller if less else found


def _least(
    price: Callable[[Known, int, float], Any],
    setting: Setting,
    curves: Curves,
    noise: float,
    exponent: int,
    weight: float,
) -> Staging:
    """Return the fewest stages whose price is near the least."""
    found = []
    for shares, plans, costs in plan_recursion(noise, exponent, setting, curves, weight, price):
        best = int(np.argmin(costs))
        found.append((float(costs[best]), shares[best], [column[best] for column in plans[:-1]]))
    least = min(cost for cost, _, _ in found)
    _, chosen, columns = next(item for item in found if item[0] <= SPARE_STAGES * least)
    return Staging(*(tuple(column.tolist()) for column in (chosen, *columns)))


def bound_average(staging: Staging, noise: float, exponent: int) -> Known:
    """Return the bounds on the error of the average of planned stages."""
    shares, radii, slopes, biases, spreads = (
        np.array(part) for part in (staging.shares, staging.radii, staging.slopes, staging.biases, staging.spreads)
    )
    precisions = slopes**2 * shares**exponent / (noise * radii**2)
    info = float(precisions.sum())
    weights = precisions / info
    bias = float(weights @ biases)
    return Known(info, bias, bias, float(weights @ spreads))


@cache
def _candidates() -> list[list[Numbers]]:
    """Return the candidate shares that are planned together: for the most stages first."""
    return [
        [all_shares(count) for count in range(most, most - _TOGETHER, -1)]
        for most in range(_TOGETHER, MAX_STAGES + 1, _TOGETHER)
    ]


def all_shares(count: int) -> Numbers:
    """Return the candidate shares of ``count`` stages: their sum stays below 1 even after rounding."""
    shares = np.power.outer(_GROWTH if count > 1 else _GROWTH[:1], np.arange(count) / max(count - 1, 1))
    shares *= (1 - 1e-14) / shares.sum(axis=1, keepdims=True)
    return shares


def _far(d: int, *, laplace: bool) -> tuple[float, float]:
    """Return the largest allowed noise of a center, in standard deviations, in one direction and in norm.

    A Laplace vector that is far out is a typical one plus one far coordinate.
    """
    if laplace:
        one = -np.log(2 * _LOST) / np.sqrt(2)
        return float(one), float(one) if d == 1 else float(np.sqrt(d) + np.log(d / _LOST) / np.sqrt(2))
    return float(-special.ndtri(_LOST)), float(np.sqrt(special.chdtri(d, _LOST)))


def center_error(setting: Setting, known: Known, variance: Any = 1.0) -> tuple[Any, Any, Any]:
    """Return bounds on the mean squared error of the next center, and the least radius of the next ball.

    The bounds are for the mean over the columns, and for any one column. ``variance`` is the variance of a column.
    """
    n, d, norm2, far = setting.n, setting.d, setting.norm2, setting.far
    info = known.info
    shrunk = info + 1 / norm2
    norm = (np.sqrt(variance / n + 1 / shrunk) + known.bias_norm) ** 2
    one = (np.sqrt(variance / n + (info + setting.reach2 / norm2**2) / shrunk**2) + known.bias_one) ** 2
    # The ball holds half of the rows, which are at sqrt(d) from the mean in no direction of the center's
    # error, however large that is.
    fixed = np.sqrt(d) * (1 / (np.sqrt(norm2) * shrunk) + known.bias_norm)
    random = np.sqrt(info / shrunk**2 + variance / n)
    least = np.sqrt(d * variance + fixed**2 + 2 * fixed * random * far[0] + (random * far[1]) ** 2)
    return norm, one, least


def add_stage(
    known: Known, step: Any, norm: Any, one: Any, curves: Curves, variance: Any = 1.0
) -> tuple[Known, Any, Any]:
    """Return the bounds after a stage of information ``step``, and the stage's bias bound and standard deviation."""
    after, bias, spread = _add_one(known, step, one, curves, variance)
    far = np.sqrt(variance + norm)
    new_norm = curves.constant * far + curves.shift * np.sqrt(norm)
    # All rows share the center's error: where it is large they are clipped together, on one side.
    together = np.minimum(curves.variation * np.sqrt(norm), curves.loss * far)
    new_norm = np.hypot(new_norm, together)
    return after._replace(bias_norm=(known.info * known.bias_norm + step * new_norm) / after.info), bias, spread


def _add_one(known: Known, step: Any, one: Any, curves: Curves, variance: Any = 1.0) -> tuple[Known, Any, Any]:
    """Add a stage as `add_stage` does, but keep the earlier ``bias_norm``: a price does not depend on it."""
    near = np.sqrt(variance + one)
    bias, spread = curves.constant * near + curves.shift * np.sqrt(one), curves.spread * near
    total = known.info + step
    # The rows are the same in every stage: their sampling errors add up as deviations.
    bias_one = (known.info * known.bias_one + step * bias) / total
    common = (known.info * known.common + step * spread) / total
    return Known(total, known.bias_norm, bias_one, common), bias, spread


def planned_width(known: Known, n: int, weight: float) -> Any:
    """Return about the half-width of the interval of level 0.95, with a weight on its bias."""
    return QUANTILE * np.sqrt(known.common**2 / n + 1 / known.info) + weight * known.bias_one


def planned_error(known: Known, n: int, weight: float = 1.0) -> Any:
    """Return a bound on the root mean squared error of a column, with a weight on its bias."""
    return np.sqrt(known.common**2 / n + 1 / known.info + (weight * known.bias_one) ** 2)


def plan_recursion(
    noise: float,
    exponent: int,
    setting: Setting,
    curves: Curves,
    weight: float,
    price: Callable[[Known, int, float], Any] = planned_width,
) -> Iterator[tuple[Numbers, tuple[Any, ...], Numbers]]:
    """Plan all candidate shares, from one stage to the most, and price the bounds after all stages of each."""
    for candidates in _candidates():
        ends = list(itertools.accumulate(map(len, candidates)))
        most = candidates[0].shape[1]
        unit = np.ones((ends[-1], most))
        for shares, end in zip(candidates, ends, strict=True):
            unit[end - len(shares) : end, : shares.shape[1]] = shares
        unit = noise / unit**exponent  # noise variance of each stage at radius 1
        known, costs = Known.nothing(unit.shape[:1]), np.zeros(len(unit))
        radii, slopes, biases, spreads = np.zeros((4, *unit.shape))
        points = np.zeros(unit.shape, dtype=np.int64)
        for t in range(most):
            left = ends[min(most - t, len(ends)) - 1]
            known, rows = Known(*[part[:left] for part in known]), np.arange(left)
            norm, one, least = center_error(setting, known)
            # Bounds for a smaller ball hold for a larger one.
            radius = np.maximum(np.sqrt((1 + norm)[:, None] * curves.q), least[:, None])
            step = curves.slope**2 / (unit[:left, t][:, None] * radius**2)
            before = Known(*[part[:, None] for part in known])
            cost = price(_add_one(before, step, one[:, None], curves)[0], setting.n, weight)
            k = np.argmin(cost, axis=1)
            costs[:left], points[:left, t] = cost[rows, k], k
            radii[:left, t], slopes[:left, t] = radius[rows, k], curves.slope[k]
            known, biases[:left, t], spreads[:left, t] = add_stage(known, step[rows, k], norm, one, curves.at(k))
        for shares, end in reversed(list(zip(candidates, ends, strict=True))):
            own = slice(end - len(shares), end)
            columns = (column[own, : shares.shape[1]] for column in (radii, slopes, biases, spreads, points))
            yield shares, tuple(columns), costs[own]


@lru_cache(maxsize=64)
def stage_curves(d: int, tails: str, largest: float | None = None) -> Curves:
    """Return the effects of clipping under the assumption on tails, on a grid of radii.

    ``largest`` is the largest probability beyond a radius; None is the largest that is planned.
    """
    if tails == "variance":
        return _variance_curves(d)
    first, count = (_LARGEST_TAIL[tails], 240) if largest is None else (largest, 480)
    u = np.geomspace(first, 1e-9, count)  # probability beyond the radius, from the largest
    q = special.chdtri(d, u)
    return _symmetric_curves(d, q, u) if tails == "symmetric" else _subgaussian_curves(d, q, u)


def _variance_curves(d: int) -> Curves:
    # E|x_j| (1 - B/||x||)_+ <= E|x_j| ||x||/(4B); the shift is for the fourth moment of the center's error.
    q = d * np.geomspace(1, 1e6, 160)
    constant = np.sqrt(d / q) / 4
    ones = np.ones_like(q)
    return Curves(q, constant, (np.sqrt(1 + 2 / d) - 1) * constant, np.zeros_like(q), np.zeros_like(q), ones, ones)


def _symmetric_curves(d: int, q: Numbers, u: Numbers) -> Curves:
    # The slope of E clip(X - c) in the mean, at c = mu, for normal rows. For other rows it may be up to 1. The
    # stage then has an error of (1/slope - 1) times the center's error.
    slope = 1 - u
    if d > 1:
        inverse = np.exp(special.gammaln((d - 1) / 2) - special.gammaln(d / 2)) / np.sqrt(2)  # E 1/chi_d
        slope = slope + (1 - 1 / d) * np.sqrt(q) * inverse * special.chdtrc(d - 1, q)
    slope = np.minimum(slope, 1.0)
    spread = np.sqrt(special.chdtr(d + 2, q) + q / d * u) / slope
    variation, loss = (values / slope for values in _clipped_together(d, q, u))
    return Curves(q, np.zeros_like(q), 1 / slope - 1, variation, loss, slope, spread)


def _subgaussian_curves(d: int, q: Numbers, u: Numbers) -> Curves:
    # int_0^u z(s) (1 - sqrt(q(u)/q(s))) ds: the comonotone bound on E|x_j| (1 - B/||x||)_+.
    z = special.ndtri(1 - u / 2)
    # Raise the bound by more than the error of the sum over the grid, and by the part below its last u. That part,
    # int_0^u z ds, is at most u (z + 1/z).
    constant = 1.005 * np.maximum(_integrate_tail(z, u) - np.sqrt(q) * _integrate_tail(z / np.sqrt(q), u), 0.0)
    constant += u[-1] * (z[-1] + 1 / z[-1])
    ones = np.ones_like(q)
    return Curves(q, constant, np.zeros_like(q), *_clipped_together(d, q, u), ones, ones)


def _clipped_together(d: int, q: Numbers, u: Numbers) -> tuple[Numbers, Numbers]:
    """Return root mean squares, per column, of the slope of the clipping loss, and of the loss itself.

    Rows are assumed to have the norms of normal rows. Outside the ball the loss x - clip x grows by 1 along x and by
    1 - B/||x|| across it.
    """
    across = u - 2 * np.sqrt(q) * _integrate_tail(1 / np.sqrt(q), u) + q * _integrate_tail(1 / q, u)
    mean = np.sqrt(2) * np.exp(special.gammaln((d + 1) / 2) - special.gammaln(d / 2))  # E chi_d
    square = d * special.chdtrc(d + 2, q) - 2 * np.sqrt(q) * mean * special.chdtrc(d + 1, q) + q * u
    # Raise by more than the error of the sum over the grid: a difference that is lost to rounding cannot be a bound.
    variation = 1.1 * np.sqrt((u + (d - 1) * np.maximum(across, 0.0)) / d)
    return variation, np.sqrt(np.maximum(square, 1e-9 * q * u) / d)


def _integrate_tail(values: Numbers, u: Numbers) -> Numbers:
    """Return int_0^u values(s) ds for every u of the grid, by the trapezoid rule in log s."""
    steps = values * u * np.log(u[0] / u[1])
    sums = np.cumsum(((steps[:-1] + steps[1:]) / 2)[::-1])[::-1]
    return np.append(sums, 0.0)


# Variances of the rows, in units of the stated one, that the stages' shares are planned for: an exact bound, and
# bounds that are three and ten times too large.
_PLANNED_FOR = (1.0, 1 / 9, 1 / 100)
# Balls follow the standard deviation if this shortens the planned intervals by this factor, on average over these.
_GAIN = 0.98
# How much larger the planned error may be for larger balls.
_ROOM = 1.02
# Smallest variance that is used, in units of the stated variance.
_LEAST = 2.0**-80
WIDEST = 0.999  # probability beyond the smallest radius that has bounds
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
        wide = stage_curves(self.setting.d, self.tails, WIDEST)
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
    >>> from dpstats.means.adaptive_radii import plan_following
    >>> stages = plan_following(1000, 5, "subgaussian", 100.0, 100.0, 7e-5, 1, 1.665)
    >>> len(stages.points) == len(stages.radii)
    True
    """
    fixed = plan_stages(n, d, tails, norm2, reach2, noise, exponent)
    setting = Setting.build(n, d, norm2, reach2, laplace=exponent == 2)
    curves, weight = stage_curves(d, tails), BIAS_WEIGHT[tails]
    found = []
    for shares, plans, _ in plan_recursion(noise, exponent, setting, curves, weight):
        course = Course(setting, tails, list((noise / shares**exponent).T), list(plans[-1].T), square_weight)
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
