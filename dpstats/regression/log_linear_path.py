"""The path of a log-linear regression: estimating equations with bounded rows and clipped residuals.

The mean is exp(linear predictor). The working distribution of a family gives weights, clipping thresholds, the expected
clipped residual, which a step subtracts, and the curvature. Everything is public: it depends on released values only.

The method is ours (docs/sources.md, "Methods of our own"). Proof: docs/proofs/log-linear.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpstats.regression.blocks import Design, Question
from dpstats.regression.coefficient_errors import LogLevel
from dpstats.regression.log_linear_plan import (
    CALIBRATION,
    EXCESS,
    RATES,
    TILT,
    WIDER,
    Bound,
    Excess,
    LogLinearPlan,
    LogLinearStep,
    Rates,
    Spread,
    WeightedNorms,
    make_family,
    rate_ends,
)
from dpstats.regression.log_linear_tables import FAR, Offsets, Predictors, Tables, combine, expect_sizes, tabulate
from dpstats.regression.passes import Floats
from dpstats.regression.path import NEGLIGIBLE, WIDEST, Curvature, Estimate, Inverse, positive
from dpstats.regression.plan import CENTER, LAST_NORMS, NORMS, SEEN, STEPS, size_name, step_name, step_number
from dpstats.regression.rows import CURVATURE, GRADIENT, MEAT, OUTSIDE, SIZE, coordinates
from dpstats.regression.two_valued import FLOORS, LARGEST_EFFECT, LastStep, LevelPath

_WIDTHS = (1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0)
"""Clipping thresholds that a step chooses from, in standard deviations."""
_FIRST_WIDTH = 2.0
_FAR_WIDTHS = np.geomspace(8.0, 64.0, 25)
"""Clipping thresholds to choose from if the noise is negligible."""
_POINTS, _FINE = 241, 8001
"""Points of the public tables. Linear interpolation of the mean is then exact to 3e-4 and 3e-7."""
_MODEL_BIAS = 0.01
"""Standard deviation of the error of the expected clipped residual, as a fraction of its effect on the log mean."""
_MISFIT, _LEVEL_MISFIT = 0.14, 0.3
"""Standard deviations of the errors of a coefficient and of the level, over the misfit that the calibration finds."""
_LEVEL_BIAS, _SLOPE_BIAS = 1.0, 0.25
"""Prior standard deviations of that error before the calibration, as fractions of the same effect."""
_UNSEEN = 0.3
"""Excess beyond the reach of the calibration, as a fraction of the unexpected excess within, for lognormal tails."""
_NO_BIAS = 1e-16
_TILT = 2.0
"""The tilt of the calibration reaches 1 at this many standard deviations of the linear predictor."""
_CAPS = (1.5, 1.0, 1.0, 0.5)
"""Largest change of a typical row's linear predictor in each step. Longer Newton steps are inaccurate."""
_LEVEL_CAPS = (3.0, 2.0, 1.5, 1.0)
"""The same if some column has two values, whose moves are exact."""
_NOT_NORMAL = 0.5
"""Relative error of the first correction of the intercept, because linear predictors are not normal."""
_FARTHEST = 4.0
"""Largest standard deviation of the linear predictor, and of the error of its level."""
_SEEN = 4.0
"""A bin of rates counts from this many standard deviations of its noise."""
_LARGEST_LOG_MEAN = 300.0
"""Limit of the log mean of a level. Within it, the square of a mean is a finite float that is not 0."""
_BENT = math.sqrt(3) / 2
"""Root mean square of e^2/2 over the variance of a small normal error e."""
_SEEN_LEVEL, _LEAST_LEVEL = 3.0, 0.03
"""Tails are long if the calibration raises the level by this many standard deviations, and by this much."""
_PARTS = np.linspace(0.0, 1.0, 101)
"""Parts of the outcomes beyond their bound under the working distribution that may be clipped."""
_SHORTENED = 0.5
"""Relative error of the part of the curvature that the bound of the rows removes."""
_CURVED = 0.01
"""Relative error of the expected curvature."""
_START_ERROR = 0.3
"""Standard deviation of the error of the log mean at the start."""


_UNITS = np.array([WIDER, 1.0])
"""Both numbers of the calibration are in units of the shorter reach."""


@dataclass(frozen=True, eq=False)
class _Levers:
    """Effect of the error a0 + a1 t of the log mean on the calibration, and its uncertainty afterwards.

    Attributes
    ----------
    reach : float
        The shorter reach of the excess, in thresholds.
    tilt, mean, clip : array of shape (9,)
        At the nodes of the quadrature over rows.
    effect, weighed, after : array of shape (2, 2)
        Effect of a0 and a1 on the two numbers, the same weighed by the noise, and the covariance that remains.
    stds : array of shape (2,)
        Standard deviations of the noise of the two numbers.
    """

    reach: Any
    tilt: Floats
    mean: Floats
    clip: Floats
    effect: Floats
    weighed: Floats
    after: Floats
    stds: Floats


class LogLinearPath(LevelPath):
    """Estimating equations of a log-linear model with bounded rows and clipped residuals."""

    _averaged = STEPS - 1
    _model_error = 0.01
    plan: LogLinearPlan

    def __init__(self, plan: LogLinearPlan) -> None:
        super().__init__(plan)
        self.family = make_family(plan.family, plan.overdispersion)
        self.dispersion = self.family.start
        self.fitness: Any = 0.0
        self.width = _FIRST_WIDTH
        self.sharp = False
        # The coordinates of the first step, in which typical rows have entries of size 1, and their covariance
        self.first, self.first_shape = np.eye(self.p), np.zeros((self.d, self.d))
        self.outside, self.outside_noise = math.nan, 0.0
        self.offset = 0.0 if plan.design.offsets is None else plan.design.offsets[0]
        self.offsets, self.kept = Offsets(), 1.0
        self.unsettled = self.separated = False
        self.meat: tuple[Floats, float] | None = None
        self.calibration: Mapping[str, Floats] | None = None

    @property
    def _least_size(self) -> float:
        # A level with a mean of 1/100 has little curvature, and its steps would stay short.
        return 0.005 if self.has_levels else 0.05

    def _bent(self, before: Floats) -> Floats:
        """Return the covariance of the error that a step leaves because the mean is an exponential."""
        # An error e of the linear predictor leaves e - 1 + exp(-e), which is e^2/2 for a small one. These do not cancel
        # between rows in a column with few large entries, so the longest rows count.
        if self.inverse is None:  # all coefficients are unknown before the first step
            return np.zeros_like(before)
        variances, vectors = np.linalg.eigh(before)
        error = _BENT * self.longest * np.sqrt(np.maximum(variances, 0.0))
        found = np.asarray((vectors * (variances * (error / (1 + error)) ** 2)) @ vectors.T)
        # Corrected moves are exact for levels, and leave an error within these only.
        return found / 4 if self.has_levels else found

    @property
    def _half(self) -> float:
        return self.plan.design.y_half

    @property
    def _units(self) -> Design:
        # Coefficients are of the logarithm of the mean, which has no unit.
        return replace(self.plan.design, y_center=0.0, y_half=1.0)

    # Queries

    def question(self, name: str) -> Question:
        if name == LAST_NORMS:
            return WeightedNorms(
                *self._model(),
                self.tables.curves,
                self._half,
                name,
                coordinates(self.whitening / self._norm_unit, self.p),
                self.plan.norm_ends,
            )
        return super().question(name)

    def _own_question(self, name: str) -> Question:
        model = self._model()
        if name == RATES:
            return Rates(name, rate_ends())
        if name == CALIBRATION:
            reach, spread = float(self._reach(self.width)), _TILT * self._calibrated_spread
            return Excess(*model, self.tables.curves, self._half, reach, self.middle, spread)
        if name.startswith("residual size"):
            first = name == size_name(1)
            return Spread(*model, self.tables.curves, self._half, name, self.middle, first)
        return LogLinearStep(
            *model,
            coordinates(self.whitening, self.p),
            self._row_bound(name),
            self.plan.bits,
            self.tables.curves,
            self._half,
            self.tables.most_pull,
            name == step_name(STEPS),
        )

    # Updates

    def take(self, name: str, released: Any) -> None:
        super().take(name, released)
        if name == CENTER and self.plan.design.offsets is not None:
            center, half = self.plan.design.offsets
            self.offsets = Offsets(half, (self.offset - center) / half, self._stage_std(CENTER))
        elif name == NORMS:
            # The coordinates of the first step, in which typical rows have entries of size 1, and their covariance.
            counts = np.asarray(self._rescale(released))
            typical = self._typical(counts, NORMS)
            ratio = self._root_mean_square(counts, NORMS) / typical
            self.first, self.first_shape = self.whitening.copy(), ratio**2 * self.shape[1:, 1:]
            # The mean square of the factors that shorten rows to their bound
            ends = self.plan.norm_ends / typical
            factors = np.minimum(self.leverage / np.append(ends[0], ends * math.sqrt(ends[1] / ends[0])), 1.0)
            seen = np.where(counts > SEEN * self._stage_std(NORMS), counts, 0.0)
            self.kept = float(seen @ factors**2) / float(seen.sum()) if seen.any() else 1.0

    def _take_own(self, name: str, released: Any) -> None:
        if name == RATES:
            self._take_rates(np.asarray(released))
        elif name == CALIBRATION:
            self.calibration = released
        elif name.startswith("residual size"):
            self._take_size(name, released)
        else:
            self._take_step(name, released)

    def _take_rates(self, counts: Floats) -> None:
        """Start the intercept at the logarithm of the mean rate, from counts between powers of 2."""
        noise, largest = self._stage_std(RATES), 2 * self._half
        ends = rate_ends()
        middles = np.concatenate([[0.0], ends[1:] / math.sqrt(2), [1.0]])
        kept = np.where(counts > _SEEN * noise, counts, 0.0)
        # Rarer outcomes than one in the noise are not seen. An outcome is at least one count.
        least = max(noise * self.family.least_clip / largest, ends[0])
        mean = max(float(kept @ middles) / max(float(kept.sum()), 0.1), least)
        # Rates are outcomes per unit of exposure, in units of the largest allowed outcome.
        self.b[0] = math.log(mean * largest) / self.whitening[0, 0]
        self._tabulate()

    def _take_size(self, name: str, released: Any) -> None:
        """Fit the dispersion of the working distribution to the sizes of residuals below and above the middle."""
        if isinstance(released, Mapping):
            self.outside, self.outside_noise = float(released[OUTSIDE][0]), self._std(name, OUTSIDE)
        block = (name, SIZE) if isinstance(released, Mapping) else None
        sizes = np.asarray(released[SIZE] if isinstance(released, Mapping) else released)
        noise = max(self._std(*block) if block else self._stage_std(name), 1e-4)
        linear, quadratic = self.family.dispersions()
        at, off = (self.family, self.tables, self.dispersion), self._level_error
        expected = expect_sizes(*at, every=True)
        # A wrong level of the mean changes the sizes too.
        ahead, behind = expect_sizes(*at, off), expect_sizes(*at, -off)
        blur = noise**2 + ((0.01 + self.offsets.error) * float(sizes.sum())) ** 2
        fitness = sum(
            (expected[half] - sizes[half]) ** 2 / (blur + ((ahead[half] - behind[half]) / 2) ** 2) for half in (0, 1)
        )
        if self.family.linear.size > 1:
            # A weak preference for Poisson counts, because rare counts of all distributions look alike.
            fitness = fitness + np.log(linear) ** 2 + np.log1p(quadratic) ** 2
        if name in (size_name(3), size_name(4)):
            fitness = fitness + self.fitness
        self.fitness = fitness
        best = np.unravel_index(int(np.argmin(fitness)), fitness.shape)
        self.dispersion = float(linear[best]), float(quadratic[best])
        t = step_number(name)
        self._tabulate() if t == 1 else self._choose_width(step_name(t))

    @property
    def _level_error(self) -> float:
        """Standard deviation of the error of the linear predictor at the center."""
        if not self.found and not self.noise.any():
            return _START_ERROR
        error = self.whitening[:, 0] @ (self.left + self.noise) @ self.whitening[:, 0]
        return min(math.sqrt(float(error)), _FARTHEST)

    def _bound(self, counts: Floats, name: str) -> None:
        super()._bound(counts, name)
        if name == LAST_NORMS:
            unit = self._norm_unit
            self.radius, self.longest = unit * self.radius, unit * self.longest
            self._choose_width(step_name(STEPS))

    @property
    def _norm_unit(self) -> float:
        """The unit of the counted norms before the last step. No row is beyond all bins if none need be shortened."""
        return float(self.tables.most_weight) if self.sharp else 1.0

    @property
    def _noise_is_negligible(self) -> bool:
        return self.sharp

    # Public functions of the linear predictor

    @property
    def middle(self) -> float:
        """The linear predictor of a row at the center, with the average offset."""
        return float(self.whitening[:, 0] @ self.b) + self.offset

    @property
    def spread(self) -> float:
        """Standard deviation of the linear predictor over rows, without its offset."""
        return self._measure_spread((np.linalg.solve(self.first.T, self.whitening.T) @ self.b)[1:])

    def _measure_spread(self, slopes: Floats) -> float:
        """Return the same for slopes in the coordinates of the first step."""
        raw = float(slopes @ self.first_shape @ slopes)
        return math.sqrt(max(raw - self._curved_error() ** 2, 0.1 * raw, 0.0))

    def _curved_error(self) -> float:
        """Return the root mean square over rows of the error of their linear predictors, about the level."""
        back = np.linalg.solve(self.first.T, self.whitening.T)
        error = (back @ (self.noise + self.left) @ back.T)[1:, 1:]
        return math.sqrt(max(float(np.einsum("ij,ij->", error, self.first_shape)), 0.0))

    @property
    def _calibrated_spread(self) -> float:
        return max(self.spread, 0.05)

    @property
    def _predictors(self) -> Predictors:
        return self._compute_predictors(self.offsets)

    def _compute_predictors(self, offsets: Offsets) -> Predictors:
        """Return the linear predictors for a working distribution of the offsets."""
        cells = self._effects()
        effects = np.clip(2 * self.raw[1:][cells.own], -LARGEST_EFFECT, LARGEST_EFFECT)
        shifts = (cells.upper - cells.weights @ cells.upper) @ effects
        each = combine((shifts, cells.weights), offsets.nodes)
        near = {"near": FAR} if self.sharp else {}
        return Predictors(self.middle, self._cell_spread(cells.own), math.log(2 * self._half), each, **near)

    def _fit_offsets(self, matrix: Floats, std: float) -> None:
        """Fit the working distribution of the offsets to the curvature of the intercept in the first step."""
        # The curvature of a row is a public function of its linear predictor, and the slopes are still 0. So it
        # depends on offsets only, for any outcomes.
        constant = self.radius * np.linalg.solve(self.whitening.T, np.eye(self.p)[0])
        seen, noise = float(constant @ matrix @ constant), std * float(constant @ constant)

        def expect(offsets: Offsets) -> float:
            nodes, weights, _ = self._compute_predictors(offsets).quadrature()
            weight, curved = self.tables.curves.evaluate(nodes, "weight", "curved")
            return self.kept * float(weights @ (weight**2 * curved))

        error = _SHORTENED * (1 - self.kept) + _CURVED
        self.offsets = self.offsets.fit(expect, seen, math.hypot(noise, error * seen))

    def _tabulate(self) -> None:
        """Tabulate the public functions for the present coefficients, dispersion and threshold."""
        points = _FINE if self.sharp else _POINTS
        given = self.family, self._predictors, self.dispersion
        self.tables = tabulate(*given, self.width, points, self._bound_outcomes(given[1])[0].part)

    def _bound_outcomes(self, predictors: Predictors) -> tuple[Bound, float]:
        """Return the bound of the outcomes with the part of those beyond that are clipped, and its error."""
        # Outcomes that cannot exceed their bound, such as grades, are never clipped, regardless of the working
        # distribution. So the part has even odds from 0 to 1 before the released fraction.
        largest = 2 * self._half
        if math.isnan(self.outside):
            return Bound(largest, 0.0), 0.0
        nodes, weights, _ = predictors.quadrature()
        inside, _ = self.family.below(np.exp(nodes), self.dispersion, np.full_like(nodes, largest))
        off = (self.outside - _PARTS * float(weights @ (1 - inside))) / max(self.outside_noise, 1e-12)
        odds = np.exp((np.min(off**2) - off**2) / 2)
        odds /= odds.sum()
        part = float(odds @ _PARTS)
        return Bound(largest, part), math.sqrt(float(odds @ (_PARTS - part) ** 2))

    def _clipping_doubt(self) -> tuple[float, float]:
        """Return the errors of level and slope of the linear predictor because the clipped part is not known."""
        bound, error = self._bound_outcomes(self._predictors)
        at, weights = self.tables.nodes, self.tables.weights
        lost = error * self.family.excess(np.exp(at), self.dispersion, np.full_like(at, bound.largest)) / np.exp(at)
        level, off = float(weights @ lost), at - float(weights @ at)
        return level, float(weights @ (lost * off)) / max(float(weights @ off**2), self._calibrated_spread**2)

    def _choose_width(self, step: str) -> None:
        """Choose the clipping threshold with the least planned noise and error of the working distribution."""
        predictors = self._predictors
        clipped = self._bound_outcomes(predictors)[0].part
        tables = tabulate(self.family, predictors, self.dispersion, _WIDTHS, 31, clipped)
        unit = tables.scale * (1 + tables.most_pull) / tables.curvature
        noise = 2.06 * self.leverage * math.sqrt(self.p) * unit / (self.n * self.plan.mu)
        share = math.fsum(self.plan.share(step_name(t)) for t in range(self._averaged, STEPS + 1))
        after = self._levers(tables, np.array(_WIDTHS)).after
        uncalibrated = (after[:, 0, 0] + after[:, 1, 1] / _TILT**2) / self.p
        costs = noise**2 / share + (_MODEL_BIAS * tables.bias) ** 2 + uncalibrated
        mean = np.array([math.exp(predictors.center)])
        scale = float(self.family.std(mean, self.dispersion)[0] / mean[0])
        best = int(np.argmin(costs))
        each = self._std(step, GRADIENT) * self._row_bound(step) * float(unit[best]) / _WIDTHS[best]
        self.width = max(_WIDTHS[best], self._far_threshold(scale, each, max(WIDEST, 1 / scale)))
        # Noise is proportional to the threshold. If it is negligible, it and the lost information decide.
        widest = float(noise[-1]) / _WIDTHS[-1] / (scale * math.sqrt(share / self.n))
        self.sharp = 2 * _WIDTHS[-1] * widest < NEGLIGIBLE
        if self.sharp:
            costs = (widest * _FAR_WIDTHS) ** 2 + self._lost_information(predictors)
            self.width = max(self.width, float(_FAR_WIDTHS[np.argmin(costs)]))
        self._tabulate()

    def _lost_information(self, predictors: Predictors) -> Floats:
        """Return the part of the variance of a residual beyond each of the `_FAR_WIDTHS`, on average over rows."""
        nodes, weights, _ = predictors.quadrature()
        mean = np.exp(nodes)
        std = self.family.std(mean, self.dispersion)
        ends = mean + _FAR_WIDTHS[:, None] * std
        excess = self.family.bounded_excess(mean, self.dispersion, ends, self._bound_outcomes(predictors)[0])
        beyond = np.maximum(excess / std, 0.0) @ weights
        # The mean square of the excess is twice the integral of its mean.
        each = np.diff(_FAR_WIDTHS) * (beyond[1:] + beyond[:-1])
        return np.append(np.cumsum(each[::-1])[::-1], 0.0)

    # Steps

    def _row_bound(self, name: str) -> float:
        """Return the bound of the norms of rows in a step, times their factors."""
        # Norms are counted without factors before the first step, and with them before the last one.
        if self.sharp and name != step_name(STEPS):
            return self.radius * float(self.tables.most_weight)
        return self.radius

    def _row_variance(self, inverse: Inverse) -> float:
        assert self.meat is not None
        return max(float(np.trace(self.meat[0])) / max(float(inverse.known.sum()), 1e-9), 0.0)

    def _take_step(self, name: str, released: Mapping[str, Floats]) -> None:
        t, radius = step_number(name), self._row_bound(name)
        unit = radius * self.tables.scale * (1 + self.tables.most_pull) / self.tables.curvature
        gradient, noise = released[GRADIENT] * unit, self._std(name, GRADIENT) * unit
        matrix, std = self._matrix(name, CURVATURE, released, self.p)
        if t == 1 and self.offsets.half:
            self._fit_offsets(matrix, std)
        size = radius**2 * self.tables.most_curved / self.tables.curvature
        self.found.append(Curvature.noisy(matrix * size, std * size))
        inverse = self._prepare(t, 1.0)
        if t == 1:
            self.left = inverse.unknown(1.0)
        elif not self.sharp:
            gradient = gradient - self._second_order(inverse)
        if t == STEPS:
            meat, meat_std = self._matrix(name, MEAT, released, self.p)
            self.meat = meat * unit**2, meat_std * unit**2
        caps = _LEVEL_CAPS if self.has_levels else _CAPS
        far = self._take_level_step(name, gradient, noise, inverse, t, caps[t - 1])
        if t == 1:
            self._center()
        self.unsettled = t == STEPS and far > 1
        reach = self.spread
        if reach > _FARTHEST:
            self.b = self.b * _FARTHEST / reach
            self.separated = t == STEPS
        self._tabulate()

    def _center(self) -> None:
        """Lower the intercept from the logarithm of the mean outcome to the mean of its logarithm."""
        # A normal linear predictor with standard deviation s has E exp(s z) = exp(s^2/2).
        # The corrected move has lowered it already for columns with two values.
        shift = min(self._cell_spread(self._effects().own), _FARTHEST / 2) ** 2 / 2
        constant = np.linalg.solve(self.whitening.T, np.eye(self.p)[0])
        self.b = self.b - shift * constant
        self.left = self.left + (_NOT_NORMAL * shift) ** 2 * np.outer(constant, constant)

    # Columns with two values

    def _row_covariance(self) -> Floats:
        back = np.linalg.inv(self.first[1:, 1:])
        return np.asarray(back @ self.first_shape @ back.T)

    def _cell_spread(self, own: list[int], rest: Floats | None = None) -> float:
        if not own:
            return self.spread
        theta = self.raw
        theta[1:][own] = 0.0
        return self._measure_spread(np.asarray(np.linalg.solve(self.first.T, theta)[1:]))

    def _level_move(self, at: float, change: float, noise: float, floor: float) -> float:
        # A level with the mean exp(at) moves to exp(at) (1 + change).
        return math.log(max(1 + change, floor, min(noise, 1.0)))

    def _level_curvature(self, at: Floats) -> Floats:
        weight, curved = self.tables.curves.evaluate(at, "weight", "curved")
        return np.asarray(weight**2 * curved * self.tables.most_curved / self.tables.curvature)

    def _level(self, last: LastStep, std: float) -> LogLevel:
        after, moved = self._measure_move(last)
        # The noise was stated before the move.
        factor = min(math.exp(min(after - last.before, 0.0)), 1.0)
        linear, quadratic = self.dispersion
        # Noise can put the rows of a rare level anywhere.
        before = min(max(last.before, -_LARGEST_LOG_MEAN), _LARGEST_LOG_MEAN)
        mean, ratio = math.exp(before), max(last.seen, last.noise)
        known = math.isfinite(ratio)
        sampling = math.sqrt((linear * ratio / mean + quadratic * ratio**2) / max(last.rows, 1.0)) if known else 0.0
        std /= min(max(factor, FLOORS[-1], std), 1.0)
        # No mean exceeds the largest outcome. Rows of a level may have less exposure than others.
        offsets = self.plan.design.offsets
        most = math.log(2 * self._half) + (max(self.offset + offsets[1] - offsets[0], 0.0) if offsets else 0.0)
        one = linear / (mean * max(last.rows, 1.0))
        return LogLevel(before, after, moved, std, last.seen, last.noise, sampling, one, most)

    def _second_order(self, inverse: Any) -> Floats:
        """Return the gradient that the errors of the coefficients add."""
        # An error e of the linear predictor multiplies the mean by exp(e), which is on average 1 + E[e^2]/2.
        before = inverse.vectors.T @ (self.left + self.noise) @ inverse.vectors
        variance = float(inverse.known @ np.diagonal(before)) / 2
        constant = np.linalg.solve(self.whitening.T, np.eye(self.p)[0]) * variance
        found: Floats = inverse.vectors @ (inverse.raised * (inverse.vectors.T @ constant))
        return found

    # Estimate

    def estimate(self) -> Estimate:
        inverse = self.inverse
        assert inverse is not None and self.meat is not None
        mixed, _ = inverse.likely_meat(*self.meat)
        around = inverse.of_sampling / math.sqrt(self._spare)
        sample = positive(around @ mixed @ around) + self.earlier
        theta = self.whitening.T @ self.b
        sample, noise, left = (self.whitening.T @ part @ self.whitening for part in (sample, self.noise, self.left))
        theta, left, level, level_std = self._calibrate(theta, left)
        misfit = level**2 + level_std**2
        doubt = (_MODEL_BIAS * self.tables.bias) ** 2 + _MISFIT**2 * misfit
        unsure = doubt * (self.whitening.T @ self.whitening)
        clipped, tilted = self._clipping_doubt()
        unsure[0, 0] += _LEVEL_MISFIT**2 * misfit + clipped**2
        unsure[1:, 1:] += tilted**2 * np.outer(theta[1:], theta[1:])
        privacy = noise + left + unsure
        levels = self._level_ends(sample + privacy)
        found = self._in_units(theta, [sample + privacy, sample + privacy, privacy, left], outside=self.outside)
        settled = self._find_settled(levels, sample + privacy) & (bool(levels) or not self.unsettled)
        return replace(
            found,
            separated=self.separated,
            levels=levels,
            settled=settled & (not self.separated),
            long_tailed=level > max(_SEEN_LEVEL * level_std, _LEAST_LEVEL),
            dispersion=self.dispersion,
            width=self.width,
            typical=float(self.tables.weights @ np.exp(self.tables.nodes)),
        )

    def _reach(self, width: Any) -> Any:
        """Return the shorter reach of the excess, in thresholds of ``width`` standard deviations."""
        farthest = float(np.clip(5 * (self.n * self.plan.mu / 4700) ** (1 / 3), 4.0, 12.0))
        return np.maximum(farthest / width, 1.5)

    def _levers(self, tables: Tables, width: Any) -> _Levers:
        """Return the effects on the calibration for a clipping threshold, or for several along a first axis."""
        reach = self._reach(width)
        tilt = np.clip((tables.nodes - self.middle) / (_TILT * self._calibrated_spread), -1.0, 1.0)
        mean, clip = tables.curves.evaluate(tables.nodes, "mean", "clip")
        lever = mean / clip / (np.asarray(reach)[..., None] - 1)
        first, cross, second = (lever @ (tables.weights * tilt**power) for power in (0, 1, 2))
        effect = np.stack([np.stack([first, cross], axis=-1), np.stack([cross, second], axis=-1)], axis=-2)
        stds = _UNITS * np.array([self._std(CALIBRATION, EXCESS), self._std(CALIBRATION, TILT)])
        prior = np.square([_LEVEL_BIAS, _SLOPE_BIAS * _TILT]) * np.asarray(tables.bias)[..., None] ** 2
        weighed = np.swapaxes(effect, -1, -2) / stds**2
        unknown = np.eye(2) / np.maximum(prior, _NO_BIAS)[..., None, :]
        return _Levers(reach, tilt, mean, clip, effect, weighed, np.linalg.inv(unknown + weighed @ effect), stds)

    def _calibrate(self, theta: Floats, left: Floats) -> tuple[Floats, Floats, float, float]:
        """Correct level and slope of the linear predictor by the excess of residuals over the threshold."""
        # The working distribution predicts the excess. The difference from the released excess estimates the error a0 +
        # a1 t of the log mean, for the tilt t. Noise shrinks both numbers. The last two results are a0 and its standard
        # deviation.
        assert self.calibration is not None
        family, dispersion, found = self.family, self.dispersion, self._levers(self.tables, self.width)
        mean, clip, reach, after = found.mean, found.clip, found.reach, found.after.copy()
        longer, bound = 1 + WIDER * (reach - 1), self._bound_outcomes(self._predictors)[0]

        def above(ends: float) -> Floats:
            return family.bounded_excess(mean, dispersion, mean + ends * clip, bound) / clip

        short = (above(1.0) - above(reach)) / (reach - 1)
        long = (above(1.0) - above(longer)) / (longer - 1)
        rows = np.array([self.tables.weights @ long, self.tables.weights @ (short * found.tilt)])
        released = np.array([float(self.calibration[EXCESS][0]), float(self.calibration[TILT][0])])
        level, slope = after @ found.weighed @ (_UNITS * (released - rows))
        # Long tails go on beyond the longer reach.
        beyond = _UNSEEN * max(level - 2 * float(found.stds[0] / found.effect[0, 0]), 0.0)
        level += beyond
        after[0, 0] += beyond**2
        sd = self._calibrated_spread
        slope, slope_variance = slope / (_TILT * sd), after[1, 1] / (_TILT * sd) ** 2
        direction: Floats = np.append(0.0, theta[1:])
        left = left + slope_variance * np.outer(direction, direction)
        left[0, 0] += after[0, 0]
        moved = theta + slope * direction + level * np.eye(self.p)[0]
        return moved, left, float(level), math.sqrt(float(found.after[0, 0]))
