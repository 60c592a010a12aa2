"""Fits of a formula to cells of replicated losses, with tests and intervals for three replications or more.

The losses L of a cell have the mean mu, which the formula states, and the variance V mu^2. Everything is an analysis of
variance of the ratios L/mu: no logarithm of a mean is taken, and no cell's own standard error counts as known.

* Parameters solve sum R/V (m/mu - 1) d log mu = 0, m the mean of a cell's R losses: unbiased for any distribution.
* V is pooled over the cells, or a power of public parameters. Squares are divided by the fitted mu, because dividing
  by m would make V too small for skewed losses.
* A wild loss of a heavy tail is in the numerator and in the denominator of F, which hardly depends on the distribution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from dpstats.inference.results import ConfidenceInterval

Vector = NDArray[np.float64]
Model = Callable[[Vector], tuple[Vector, Vector]]
"""Parameters -> the logs of the cells' means, and their derivatives of shape (cells, parameters)."""

MISFIT = 0.05
"""A p-value below which a formula is said not to fit."""
POWER = 0.8
"""The probability with which a deviation is found that a fit calls detectable."""
FEWEST_DEGREES = 30, 250
"""Degrees of freedom below which a model of the variance is too uncertain for a verdict.

The first if V is at most 0.1 in every cell. Otherwise spread and skewness may grow together, and levels are 0.15 at
5 cells x 3 replications, and 0.06 from the second on (validation/results/rate_fits.md)."""
_SMALL_VARIANCE = 0.1
_LEAST_VARIANCE = 1e-18  # losses that do not vary have rounding errors
_LARGEST_LOG = 60.0
_FARTHEST = 30.0  # distance from the estimate at which the end of an interval counts as infinite


@dataclass(frozen=True)
class Cells:
    """The cells, as a fit sees them.

    Attributes
    ----------
    losses : sequence of arrays
        The losses of each cell, at least two.
    spread : array of shape (cells, columns)
        log V is linear in these columns. The first is ones, and alone it pools V.
    accuracy : float
        Relative error that the formula is known to have in every cell.
    several : bool
        Whether the cells differ in more than one parameter, so that V may differ more than the model says.
    names : tuple of str
        Names of the columns of ``spread`` but the first.
    """

    losses: Sequence[Vector]
    spread: Vector
    accuracy: float = 0.0
    several: bool = False
    names: tuple[str, ...] = ()

    @cached_property
    def sizes(self) -> Vector:
        """Replications of each cell."""
        return np.array([each.size for each in self.losses], dtype=np.float64)

    @cached_property
    def means(self) -> Vector:
        """Mean loss of each cell."""
        return np.array([each.mean() for each in self.losses])

    @cached_property
    def _relative_variances(self) -> Vector:
        """Variance of the losses of each cell over its squared mean, which keeps it from over- and underflow."""
        pairs = zip(self.losses, self.means, strict=True)
        return np.array([float(np.var(each / m, ddof=1)) for each, m in pairs])

    def squares(self, mu: Vector) -> Vector:
        """Return the variance of the ratios L/mu within each cell."""
        return np.maximum(self._relative_variances * (self.means / mu) ** 2, _LEAST_VARIANCE)


@dataclass(frozen=True)
class CellFit:
    """A fitted formula.

    Attributes
    ----------
    model : Model
    cells : Cells
    parameters : array
    log_means : array
    jacobian : array
    variances : array
        V of each cell.
    degrees : float
        Degrees of freedom of V.
    ratio : float
        F: the mean square between cells over the one within; NaN without degrees of freedom.
    pvalue : float
        P-value of the hypothesis that the formula holds.
    """

    model: Model
    cells: Cells
    parameters: Vector
    log_means: Vector
    jacobian: Vector
    variances: Vector
    degrees: float
    ratio: float
    pvalue: float

    @property
    def weights(self) -> Vector:
        """The inverse variance of each m/mu."""
        return 1 / (self.variances / self.cells.sizes + self.cells.accuracy**2)

    @property
    def standard_errors(self) -> Vector:
        """Standard errors of the parameters, from pure error."""
        information = (self.jacobian.T * self.weights) @ self.jacobian
        return np.sqrt(np.maximum(np.diag(np.linalg.pinv(information, rcond=1e-12, hermitian=True)), 0))

    @property
    def deviations(self) -> Vector:
        """Relative deviation of each cell's mean from the formula."""
        return np.asarray(self.cells.means / np.exp(self.log_means) - 1)

    @property
    def widening(self) -> float:
        """Factor of intervals and of detectable deviations: where the formula does not fit, the misfit is error."""
        return math.sqrt(max(1.0, self.ratio)) if self.pvalue < MISFIT else 1.0

    @property
    def fewest_degrees(self) -> int:
        """Degrees of freedom that the model of V needs for a verdict; 0 if V is pooled."""
        if self.cells.spread.shape[1] == 1:
            return 0
        return FEWEST_DEGREES[float(self.variances.max()) > _SMALL_VARIANCE]

    @property
    def spread_is_known(self) -> bool:
        """Whether V is pooled, or its model has enough degrees of freedom."""
        return self.degrees >= self.fewest_degrees

    def detectable(self, which: int, level: float) -> float:
        """Return the deviation of a parameter that its test at 1 - ``level`` finds with probability 0.8."""
        away = math.sqrt(noncentrality(1 - level, 1, self.degrees))
        return float(self.widening * away * self.standard_errors[which])

    def detectable_misfit(self, level: float) -> float:
        """Return the root mean square of relative misfits that F at 1 - ``level`` finds with probability 0.8."""
        free = len(self.cells.losses) - self.jacobian.shape[1]
        if free < 1:
            return math.inf
        away = noncentrality(1 - level, free, self.degrees)
        return math.sqrt(away / float(self.weights.sum()))


@lru_cache(maxsize=512)
def noncentrality(alpha: float, free: float, degrees: float) -> float:
    """Return the noncentrality at which an F test at level ``alpha`` has power 0.8."""
    critical = float(stats.f.isf(alpha, free, degrees))

    def gap(log: float) -> float:
        return float(stats.ncf.sf(critical, free, degrees, math.exp(log))) - POWER

    high = 3.0
    while gap(high) < 0 and high < 20:
        high += 1.0
    return math.exp(float(optimize.brentq(gap, -3.0, high, xtol=1e-4)))


def solve(model: Model, start: Vector, means: Vector, weights: Vector) -> tuple[Vector, Vector, Vector]:
    """Solve the equations by Fisher scoring, halving steps: parameters, log means, derivatives."""

    def deviance(logs: Vector) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            return float(np.sum(weights * (means * np.exp(-logs) + logs)))

    at = np.array(start, dtype=np.float64)
    logs, jacobian = model(at)
    old = deviance(logs)
    for _ in range(80):
        scaled = jacobian * np.sqrt(weights)[:, None]
        step, *_ = np.linalg.lstsq(scaled, np.sqrt(weights) * (means * np.exp(-logs) - 1), rcond=1e-10)
        # A log constant may go to minus infinity, but not at once.
        step = np.clip(step, -5, 5)
        length = 1.0
        while length > 1e-4:
            trial = model(at + length * step)
            value = deviance(trial[0])
            if np.isfinite(value) and value <= old + 1e-12 * (1 + abs(old)):
                break
            length /= 2
        else:
            break
        at = at + length * step
        logs, jacobian = trial
        if old - value < 1e-11 * (1 + abs(old)) and np.abs(length * step).max(initial=0) < 1e-5:
            break
        old = value
    return at, logs, jacobian


def pure_error(cells: Cells, mu: Vector) -> tuple[Vector, float]:
    """Return V of each cell, and its degrees of freedom."""
    squares, degrees, U = cells.squares(mu), cells.sizes - 1, cells.spread
    coefficients = np.zeros(U.shape[1])
    coefficients[0] = math.log(float(np.average(squares, weights=degrees)))
    if U.shape[1] > 1:
        inverse = np.linalg.pinv(U * np.sqrt(degrees)[:, None], rcond=1e-10) * np.sqrt(degrees)
        for _ in range(40):  # gamma regression
            V = np.exp(np.clip(U @ coefficients, -_LARGEST_LOG, _LARGEST_LOG))
            step = inverse @ (squares / V - 1)
            coefficients = coefficients + np.clip(step, -1, 1)
            if np.abs(step).max() < 1e-6:
                break
    V = np.exp(np.clip(U @ coefficients, -_LARGEST_LOG, _LARGEST_LOG))
    return V, max(1.0, float(degrees.sum()) - (U.shape[1] - 1))


def fit_cells(model: Model, start: Vector, cells: Cells) -> CellFit:
    """Fit a formula to cells.

    Parameters
    ----------
    model : Model
    start : array
        Parameters to begin with.
    cells : Cells
    """
    means, sizes = cells.means, cells.sizes
    at, V = np.asarray(start, dtype=np.float64), np.ones(len(sizes))
    # The weights need V, which needs the formula: four rounds are enough where V is modeled.
    for _ in range(4 if cells.spread.shape[1] > 1 or cells.accuracy else 1):
        at, logs, jacobian = solve(model, at, means, 1 / (V / sizes + cells.accuracy**2))
        V, degrees = pure_error(cells, np.exp(logs))
    weights = 1 / (V / sizes + cells.accuracy**2)
    free = len(sizes) - jacobian.shape[1]
    ratio, pvalue = math.nan, 1.0
    if free > 0:
        ratio = float(np.sum(weights * (means / np.exp(logs) - 1) ** 2)) / free
        pvalue = float(stats.f.sf(ratio, free, degrees))
        if cells.several or cells.spread.shape[1] > 1:
            # The model of V may be wrong. Box's test needs none: the formula is rejected if both reject.
            pvalue = max(pvalue, _box(model, at, cells))
    return CellFit(model, cells, at, logs, jacobian, V, degrees, ratio, pvalue)


def _box(model: Model, start: Vector, cells: Cells) -> float:
    """Return the p-value of Box's approximation (1954): each cell has a separate variance."""
    means, sizes = cells.means, cells.sizes
    _, logs, jacobian = solve(model, start, means, np.ones(len(sizes)))
    mu = np.exp(logs)
    pure = cells.squares(mu) / sizes
    S = pure + cells.accuracy**2
    away = means / mu - 1
    P = np.eye(len(sizes)) - jacobian @ np.linalg.pinv(jacobian)
    trace = float(np.diag(P) @ S)
    free = trace**2 / max(float(np.sum((P * S) * (P * S).T)), 1e-300)
    degrees = trace**2 / max(float(np.sum(np.diag(P) ** 2 * pure**2 / (sizes - 1))), 1e-300)
    return float(stats.f.sf(float(away @ P @ away) / trace, free, min(degrees, 1e9)))


def score(model: Model, start: Vector, which: int, value: float, cells: Cells) -> tuple[float, float, Vector]:
    """Return the signed root of the score test of "the parameter is ``value``".

    Where V is modeled, the model may be wrong. Then the value must be rejected by each cell's own variance too, and
    the weaker of the two tests is returned.

    Returns
    -------
    root : float
        Positive if the cells ask for a larger value. Its square is F(1, degrees) under the hypothesis.
    degrees : float
    at : array
        The other parameters, refitted.
    """
    others = [i for i in range(len(start)) if i != which]

    def whole(rest: Vector) -> Vector:
        full = np.empty(len(start))
        full[others], full[which] = rest, value
        return full

    def restrict(rest: Vector) -> tuple[Vector, Vector]:
        logs, jacobian = model(whole(rest))
        return logs, jacobian[:, others]

    means, sizes = cells.means, cells.sizes
    rest, V = np.asarray(start, dtype=np.float64)[others], np.ones(len(sizes))
    # V belongs to the hypothesis: what a wrong value misses the cells by is then in the numerator alone.
    for _ in range(3 if cells.spread.shape[1] > 1 or cells.accuracy else 1):
        rest, logs, _ = solve(restrict, rest, means, 1 / (V / sizes + cells.accuracy**2))
        V, degrees = pure_error(cells, np.exp(logs))
    logs, jacobian = model(whole(rest))
    mu = np.exp(logs)
    roots = np.sqrt(1 / (V / sizes + cells.accuracy**2))
    away = roots * (means / mu - 1)
    own, nuisance = roots * jacobian[:, which], roots[:, None] * jacobian[:, others]
    own = own - nuisance @ np.linalg.lstsq(nuisance, own, rcond=1e-10)[0]
    size = float(own @ own)
    if size <= 1e-14:
        return 0.0, degrees, whole(rest)
    root = float(own @ away) / math.sqrt(size)
    if cells.spread.shape[1] > 1:
        # Welch's test: the variance of own @ away from each cell's own, with Satterthwaite's degrees of freedom.
        pure = (own * roots) ** 2 * cells.squares(mu) / sizes
        total = float(np.sum(pure + (own * roots * cells.accuracy) ** 2))
        welch = float(own @ away) / math.sqrt(total)
        few = min(degrees, total**2 / max(float(np.sum(pure**2 / (sizes - 1))), 1e-300))
        if stats.f.sf(welch**2, 1, few) > stats.f.sf(root**2, 1, degrees):
            root, degrees = welch, few
    return root, degrees, whole(rest)


def score_interval(fit: CellFit, which: int, level: float, least: float = -math.inf) -> tuple[float, float]:
    """Return the values that the score test at 1 - ``level`` does not reject; a limit can be infinite.

    Parameters
    ----------
    fit : CellFit
        If the formula does not fit, both arms are multiplied by ``fit.widening``.
    which : int
        Position of the parameter.
    level : float
    least : float, default=-inf
        The smallest value that the parameter can have.
    """
    estimate = float(fit.parameters[which])
    error = float(fit.standard_errors[which])
    first = 2 * error if 0 < error < _FARTHEST else 0.5
    ends = []
    for side in (-1, 1):
        start = fit.parameters
        seen: dict[float, float] = {}

        def gap(value: float, side: int = side, known: dict[float, float] = seen) -> float:
            # Each value is fitted once: the fit of the others depends a little on where it starts.
            nonlocal start
            if value not in known:
                root, degrees, start = score(fit.model, start, which, value, fit.cells)
                known[value] = -side * root - math.sqrt(float(stats.f.isf(1 - level, 1, degrees)))
            return known[value]

        inside, step, end = estimate, first, side * math.inf
        limit = max(_FARTHEST, 50 * first)
        while step <= limit:
            trial = max(estimate + side * step, least)
            if gap(trial) > 0:
                # At the estimate itself the fit of the others may be so coarse that the test rejects it.
                is_bracket = gap(inside) < 0
                end = float(optimize.brentq(gap, inside, trial, xtol=1e-4 * step, rtol=1e-6)) if is_bracket else trial
                break
            if trial == least:
                end = least
                break
            inside, step = trial, 1.7 * step
        ends.append(estimate + fit.widening * (end - estimate))
    return max(ends[0], least), ends[1]


def line_model(design: Vector) -> Model:
    """Return the model whose log means are linear in the columns of a design."""
    return lambda parameters: (design @ parameters, design)


def sum_model(logs: Sequence[Vector], powers: Sequence[Vector | None]) -> Model:
    """Return the model of a sum of terms: constant x term x parameter^exponent.

    Parameters
    ----------
    logs : sequence of arrays
        Logs of the terms in every cell.
    powers : sequence of arrays or None
        For a term with a free exponent, the log of the parameter that it belongs to.

    Returns
    -------
    Model
        Its parameters are the log constants, and then the free exponents in the order of their terms.
    """
    basis = np.array(logs)
    free = [(i, power) for i, power in enumerate(powers) if power is not None]
    count = len(basis)

    def model(parameters: Vector) -> tuple[Vector, Vector]:
        heights = basis + np.asarray(parameters)[:count, None]
        for j, (i, power) in enumerate(free):
            heights[i] += parameters[count + j] * power
        total = np.logaddexp.reduce(heights, axis=0)
        shares = np.exp(heights - total)
        return total, np.column_stack([*shares, *(shares[i] * power for i, power in free)])

    return model


# Rates that change: a line that breaks once, and a sum of two powers


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
        else ConfidenceInterval(float(end[0]), float(end[1]), level, f"exponent of {parameter} {side} the break")
        for end, beyond, side in zip(ends, outside, ("below", "above"), strict=True)
    )
    return BrokenLine(
        place=float(np.exp(place[0])),
        place_interval=ConfidenceInterval(math.exp(low), math.exp(high), level, f"{parameter} at the break"),
        slopes=(float(slopes[0, 0]), float(slopes[1, 0])),
        intervals=(below, above),
        pvalue=float(stats.f.sf(float(residual[0]) / free, free, degrees)),
    )


def bent(x: Vector, place: float) -> Vector:
    """Return the regressors of the slopes below and above a place: shape (cells, 2)."""
    return np.column_stack([np.minimum(x - place, 0.0), np.maximum(x - place, 0.0)])


def _best(places: Vector, x: Vector, groups: Vector, weighted: Vector, errors: Vector) -> tuple[Vector, Vector, Vector]:
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


_MOST_STEPS = 10.0
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
    """Fit a sum of two powers; None for too few cells. `fit_broken_line` has the same arguments."""
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

        found = optimize.least_squares(misses, start, method="lm")
        return 2 * float(found.cost), np.asarray(found.x)

    starts = [np.concatenate([[slope - gap / 2, math.log(gap)], heights, heights]) for gap in _GAPS]
    least, at = min((best(lambda p: (p[0], p[0] + _gap(p[1])), start) for start in starts), key=lambda pair: pair[0])
    estimates = (float(at[0]), float(at[0]) + _gap(at[1]))
    # Where the sum does not fit either, what it misses by counts as error.
    most = least + max(1.0, least / free) * float(stats.f.isf(1 - level, 1, degrees))

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
            if step > _MOST_STEPS:
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
    return PowerSum(estimates, (first, second), float(stats.f.sf(least / free, free, degrees)))


def _gap(logarithm: float) -> float:
    return math.exp(min(float(logarithm), 5.0))
