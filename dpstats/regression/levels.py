"""Means of levels, adjusted for covariates: from the releases to the clips of residuals and to the estimate.

Proof: docs/proofs/levels.md. Intervals: docs/intervals/levels.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr

from dpstats.means.ratio import COUNTS, Ratio
from dpstats.regression.blocks import X_BITS, Coordinates, Question
from dpstats.regression.levels_plan import (
    BEYOND,
    BIAS,
    CLIPPED,
    CLIPS,
    COVARIATES,
    DECAY,
    INSIDE,
    LEVELS,
    OUTCOMES,
    RESIDUALS,
    Centered,
    Centers,
    ClippedOutcomes,
    Coding,
    CovariateSums,
    LevelsPlan,
    OutcomeTotals,
    ResidualTotals,
)
from dpstats.regression.linear_path import LinearPath
from dpstats.regression.passes import Floats
from dpstats.regression.path import Estimate, find_identified
from dpstats.regression.rows import coordinates

_RANGE = 3.0
"""Half-width of the range of most outcomes, in standard deviations."""
_REACH = 1.0
"""Standard errors of the center of a level by which the clip of its residuals is widened."""
_MOST_ATTENUATED = 0.75
"""Largest fraction of the curvature that errors of the centers are taken to explain."""
_SKEWED_BIAS, _SKEWED_DECAY = 0.25, 0.6
"""Decay of the bias of the mean of residuals as the clip moves out, and for skewed residuals the bias and its decay.

Between groups whose exponential residuals have scales 1 and 1.5 the bias is 0.10 at first, with a decay of 0.83. If the
release shows that residuals are skewed, the second pair applies, as for lognormal residuals."""
_NARROW = 0.6
"""Mean of a level, in half-widths of the range, from which the range may have clipped most of its rows."""
SEEN_LEVEL = 5.0
"""A level is identified if its count is at least this many standard deviations of the noise of a count."""
_MOST_LEFT_OUT = 0.1
"""Largest fraction of the rows that the steps leave out, because noise in the centers of their levels costs more."""
_LEAST_VARIANCE = 1 / 16
"""Variance of a covariate whose bounds are four standard deviations away, in half-widths."""
_NO_SPREAD = 1e-9
_NOISE = 2.0
"""Standard errors up to which slopes that only adjust count as 0."""
_SEEN_BIAS = 2.0
"""Standard errors from which the mean of all outcomes shows that clipped residuals moved the means of the levels."""
_COVARIATE_SPREAD = 0.5
"""Prior standard deviation of the mean of a covariate in a level, in half-widths."""
_HALVINGS = 50
_FARTHEST = 6.0
"""Distance beyond the clip, in standard deviations, where the search for a mean by its clipped mean ends."""


# The path of a fit


class LevelsPath:
    """Everything that a fit has learned from its releases so far. It uses released values only."""

    def __init__(self, plan: LevelsPlan) -> None:
        self.plan = plan
        self.released: dict[str, Any] = {}
        self.center, self.half = 0.0, 1.0
        """Range of most outcomes, in half-widths of the bounds."""
        self.centers = Centers(np.zeros(len(plan.levels)), np.zeros((len(plan.levels), plan.design.center.size)))
        self.errors: Floats = np.zeros(len(plan.levels))
        """Standard errors of the centers of the outcomes."""
        self.unsure: Floats = np.zeros_like(self.centers.covariates)
        """Variances of the errors of the centers of the covariates. 0 if levels are randomized."""
        self.in_steps: NDArray[np.bool_] = np.ones(len(plan.levels), dtype=np.bool_)
        """Whether the rows of each level are part of the steps."""
        self.spread = 1.0
        """Standard deviation of the outcomes in the range of most of them."""
        self.variance = 1.0
        """Variance of all outcomes and of the noise."""
        self.mean, self.mean_error = 0.0, 1.0
        """Mean of all outcomes, and the standard deviation of its noise and of its bias by clipping."""
        self.steps: LinearPath | None = None

    def question(self, name: str) -> Question:
        """Return the query that a stage of the plan answers."""
        if name in (OUTCOMES, LEVELS):
            return OutcomeTotals(self.plan.totals(name), self.center, self.half)
        if name == COVARIATES:
            return CovariateSums(len(self.plan.levels))
        if name == CLIPPED:
            return ClippedOutcomes()
        if name == RESIDUALS:
            fit = self.fit
            query: Question = ResidualTotals(
                self.plan.totals(name), fit.coordinates, fit.middle / self.centers.half, fit.clip / self.centers.half
            )
        else:
            if self.steps is None:
                self.steps = self._first_step()
            some = None if self.in_steps.all() else self.in_steps
            return Centered(self.steps.question(name), self.centers, some)
        return Centered(query, self.centers)

    def take(self, name: str, released: Any) -> None:
        """Update the path with the release of a stage."""
        self.released[name] = dict(released) if isinstance(released, Mapping) else released
        if self.plan.steps is None:
            return
        if name == OUTCOMES:
            self._take_outcomes(released)
        elif name == LEVELS:
            self._take_levels(released)
        elif name == COVARIATES:
            self._take_covariates(released)
        elif name not in (CLIPPED, RESIDUALS):
            if self.steps is None:
                self.steps = self._first_step()
            self.steps.take(name, released)

    def _take_outcomes(self, released: Mapping[str, Floats]) -> None:
        """Choose the range of the outcomes of levels. Without the noise of the variance it would be too narrow."""
        noise = self.plan.totals_noise(OUTCOMES)
        found = self.plan.totals(OUTCOMES).ratio(dict(released), noise)
        rows = max(float(found.N[0, 0]), noise.count)
        self.center = float(found.estimate[0, 0])
        self.variance = max(float(found.Q[0, 0]) / rows - self.center**2, 0.0) + 2 * float(noise.square) / rows
        self.mean, self.mean_error = self.center, float(noise.total) / rows
        self.half = _RANGE * math.sqrt(self.variance)
        if self.half >= 1:
            self.center, self.half = 0.0, 1.0

    def _take_levels(self, released: Mapping[str, Floats]) -> None:
        """Center each level at its mean, shrunk toward the mean of all rows, and start the steps."""
        plan = self.plan
        noise = plan.totals_noise(LEVELS)
        found = plan.totals(LEVELS).ratio(dict(released), noise)
        total, count, square = (part[:, 0] for part in (found.T, np.maximum(found.N, noise.count), found.Q))
        several = math.sqrt(len(plan.levels))
        rows = max(float(found.N.sum()), noise.count * several)
        grand = float(np.clip(total.sum() / rows, -1.0, 1.0))
        variance = max(float(square.sum()) / rows - grand**2, 0.0) + 1.5 * several * float(noise.square) / rows
        variance = min(variance, 1.0)
        own = (noise.total / count) ** 2 + variance / count
        gain = variance / (variance + own)
        means = grand + gain * (np.clip(total / count, -1.0, 1.0) - grand)
        self.counts = count
        centers = np.clip(self.center + self.half * means, -1.0, 1.0)
        self.centers = replace(self.centers, outcomes=centers)
        # The range may have clipped most rows of a level. Then its center can be wrong up to the bounds.
        clipped = np.clip((np.abs(means) - _NARROW) / (1 - _NARROW), 0.0, 1.0) if self.half < 1 else 0.0
        self.errors = self.half * np.sqrt(gain * own) + clipped * (1 - np.abs(centers))
        self.spread = self.half * math.sqrt(variance)
        skewed = 0.0
        if self.half < 1:
            # Outcomes beyond the range have at most the rest of the variance, and x - half is at most x^2 / (4 half).
            rest = max(self.variance - self.spread**2, 0.0) / (4 * self.half)
            skewed = max(_skewness_bias(self.half / self.spread, skewed=True) * self.spread, rest)
        error = math.hypot(self.half * float(noise.total) * several / rows, skewed)
        weight = self.mean_error**2 / (self.mean_error**2 + error**2)
        self.mean += weight * (self.center + self.half * grand - self.mean)
        self.mean_error *= math.sqrt(1 - weight)

    @property
    def unsure_in_steps(self) -> Floats:
        """Variances of the errors of the centers of the covariates, of rows in the steps."""
        return np.where(self.in_steps[:, None], self.unsure, 0.0)

    def _take_covariates(self, released: Mapping[str, Floats]) -> None:
        """Center the covariates of each level at their mean, shrunk toward the mean of all rows."""
        # Within levels, covariates are not correlated with what the centers of the outcomes miss.
        count = self.counts[:, None]
        inside, beyond = (np.reshape(released[name], self.unsure.shape) / count for name in (INSIDE, BEYOND))
        noise, far = (float(np.max(self.plan.noise(name).std)) / count for name in (INSIDE, BEYOND))
        grand = (count * inside).sum(axis=0) / count.sum()
        gain = _COVARIATE_SPREAD**2 / (_COVARIATE_SPREAD**2 + noise**2)
        # Bounds cut the covariate of a level or do not, with even odds before the release says more.
        size, slab = far**2, _COVARIATE_SPREAD**2
        odds = (np.log(size / (size + slab)) + beyond**2 * (1 / size - 1 / (size + slab))) / 2
        cut, own = expit(odds), slab / (slab + size)
        means = np.clip(grand + gain * (inside - grand), -1.0, 1.0) + cut * np.clip(own * beyond, -1.0, 1.0)
        self.centers = replace(self.centers, covariates=np.rint(means * 2.0**X_BITS) * 2.0**-X_BITS)
        self.unsure = gain * noise**2 + cut * own * size + cut * (1 - cut) * (own * beyond) ** 2
        self._drop_rare_levels()

    def _drop_rare_levels(self) -> None:
        """Leave rows of rare levels out of the steps, if errors of their centers would cost slopes more than the rows.

        The other rows have the same slopes. If both centers of a level have errors, its rows bias slopes, and errors of
        the covariates attenuate them. The cost is the square of both over the variance of a slope.
        """
        share = self.counts / self.counts.sum()
        unsure = self.unsure.max(axis=1) / _LEAST_VARIANCE
        costs = self.plan.n_samples * share**2 * unsure * ((self.errors / self.spread) ** 2 + unsure / 4)
        order = np.argsort(share)
        few = np.cumsum(share[order]) < _MOST_LEFT_OUT
        self.in_steps[order] = (costs < share)[order] | ~few

    def _first_step(self) -> LinearPath:
        """Return the path of the steps, for outcomes in the range that centered outcomes have."""
        plan, design, centers = self.plan, self.plan.design, self.centers
        assert plan.steps is not None
        middle, half = design.y_center + design.y_half * centers.middle, design.y_half * centers.half
        return LinearPath(replace(plan.steps, design=replace(design, y_center=middle, y_half=half)))

    @cached_property
    def fit(self) -> LevelsFit:
        """The regression after the Newton steps."""
        return LevelsFit(self)

    def estimate(self) -> LevelsEstimate:
        """Return the estimate after all stages."""
        return LevelsEstimate(self)


class LevelsFit:
    """The regression after the Newton steps, and the clips of the residuals. All of it is public.

    Lengths are in half-widths: of the outcome, and of the covariates.

    Attributes
    ----------
    found : Estimate
        The estimate of the steps, for outcomes minus the centers of their levels.
    identified : array of bool, shape (d,)
        Whether each slope is identified. The others count as 0.
    slopes, intercept : array of shape (d,), float
        Coefficients, at the middle of the bounds of the covariates.
    scale : float
        Standard deviation of the residuals.
    skewed : bool
        Whether the release shows that residuals are skewed.
    middle, clip : array of shape (K,)
        Middle and half-width of the range that the residuals of each level are clipped to.
    shape : array of shape (K,)
        Standard deviation of the normal residuals that the mean of clipped residuals is computed for.
    bias : array of shape (K,)
        Standard deviation of the bias by this clip.
    cov, sampling : array of shape (d, d)
        Covariance of the errors of the slopes, and its part that is sampling error.
    """

    def __init__(self, path: LevelsPath) -> None:
        plan, steps = path.plan, path.steps
        assert steps is not None
        design = plan.design
        self.found: Estimate = steps.estimate()
        self.identified = find_identified(self.found, self.found.robust, steps.plan)
        per_step = design.half / design.y_half
        all_slopes = self.found.params[1:] * per_step
        units = np.outer(per_step, per_step)
        self.cov = self.found.robust[1:, 1:] * units
        self.sampling = (self.found.model - self.found.privacy)[1:, 1:] * units
        self.inverse = steps.inverse_curvature[1:, 1:] * units
        self.scale = min(self.found.scale / design.y_half, path.spread)
        # Where errors of the centers make most of the curvature, slopes are hardly known.
        moved = self._center_errors(path)
        self.identified &= np.diagonal(self.inverse) * moved < _MOST_ATTENUATED
        self.slopes = np.where(self.identified, all_slopes, 0.0)
        if plan.randomized:
            # Any slopes are right. Errors of slopes widen the intervals of the levels, so shrink those that are noise.
            noise = _NOISE * np.sqrt(np.diagonal(self.cov))
            self.slopes *= 1 - (noise / np.maximum(np.abs(self.slopes), noise)) ** 2
        self.intercept = (
            float(self.found.params[0] + self.found.params[1:] @ design.center) - design.y_center
        ) / design.y_half
        # The line without the slopes that are not identified goes through the same center.
        self.intercept += float((all_slopes - self.slopes) @ steps.shift)
        if steps.plan.is_lost(self.found.rows):
            self.intercept, self.scale = 0.0, path.spread
        self._correct_slopes(path)
        self.skewed = self.found.uneven or steps.skewness > 0
        self._choose_clips(path, steps)
        theta = np.append(self.intercept - path.centers.middle, self.slopes) / path.centers.half
        self.coordinates = Coordinates(np.zeros(design.center.size), True, coordinates(theta, design.size))

    def _center_errors(self, path: LevelsPath) -> Floats:
        """Return the mean squared errors of the centers of the covariates."""
        errors: Floats = np.minimum(path.counts / self.found.rows, 1.0) @ path.unsure_in_steps
        return errors

    def _correct_slopes(self, path: LevelsPath) -> None:
        """Undo half of the largest attenuation by errors in the centers of the covariates, and keep it as an error."""
        # These errors move the rows of a level, but not their outcomes. If rows are clipped, it is less. The errors of
        # the slopes are attenuated too.
        moved, inverse = self._center_errors(path), self.inverse
        if not moved.any():
            return
        half = inverse @ (moved * self.slopes) / 2
        # The fraction of the curvature that is due to these errors, in coordinates in which it is symmetric
        sizes, turn = np.linalg.eigh(inverse)
        root = turn * np.sqrt(np.maximum(sizes, 1e-300))
        fraction, vectors = np.linalg.eigh(root.T @ (moved[:, None] * root))
        fraction = np.clip(fraction, 0.0, _MOST_ATTENUATED)
        lost = root @ (vectors * (fraction / (1 - fraction))) @ vectors.T @ np.linalg.inv(root)
        rest = lost @ self.slopes - half
        self.slopes = self.slopes + np.where(self.identified, half, 0.0)
        stretch = np.eye(half.size) + lost / 2
        self.cov = stretch @ self.cov @ stretch.T + np.outer(rest, rest)
        self.sampling = stretch @ self.sampling @ stretch.T

    def _choose_clips(self, path: LevelsPath, steps: LinearPath) -> None:
        """Choose the clip of the residuals of each level. The noise is in proportion to it."""
        # Either it is near their scale, with a bias by skewness that decays with the clip, or it clips no outcome.
        noise, last = path.plan.totals_noise(LEVELS), path.plan.totals_noise(RESIDUALS)
        count = np.maximum(path.released[LEVELS][COUNTS], noise.count)[:, None]
        away = path.centers.outcomes + self.intercept
        clips = np.minimum(CLIPS * self.scale + _REACH * path.errors[:, None], 2.0)
        bias = self.scale * _skewness_bias(CLIPS, self.skewed, path.plan.limit_bias(steps))
        costs = (last.total * clips / count) ** 2 + bias**2
        best, every = np.argmin(costs, axis=1), np.arange(len(away))
        # Outcomes within the bounds, minus the slopes times covariates within theirs
        widest = 1 + float(np.abs(self.slopes).sum())
        all_inside = (last.total * widest / count[:, 0]) ** 2 < costs[every, best]
        self.clip = np.where(all_inside, widest, clips[every, best])
        self.middle = np.where(all_inside, -away, 0.0)
        self.bias = np.where(all_inside, 0.0, bias[best])
        # Without a clip, the mean of the residuals is what the totals say.
        self.shape = np.where(all_inside, _NO_SPREAD, self.scale)


def _skewness_bias(clip: Any, skewed: bool = False, least: float = BIAS) -> Any:
    """Return the bias of the mean of residuals by a clip, both in standard deviations, that is allowed for."""
    # `least` is the bias by the least clip if the release does not show that residuals are skewed.
    bias, decay = (_SKEWED_BIAS, _SKEWED_DECAY) if skewed else (least, DECAY)
    return bias * np.exp(-decay * (clip - CLIPS[0]))


# Estimates


@dataclass(frozen=True, eq=False)
class LevelMeans:
    """Means of levels in half-widths, as increasing functions of the ratios of clipped residuals.

    A mean is ``middle`` plus the shift of a normal variable whose clipped mean is the ratio times ``clip``. It has the
    methods of a `Ratio` that intervals and tests use.

    Attributes
    ----------
    ratio : Ratio
        Means of the clipped residuals, over the clip.
    middle, clip : arrays
    scale : array
        Standard deviation of the normal variables.
    most : float
        The largest size of a mean.
    """

    ratio: Ratio
    middle: Floats
    clip: Floats
    scale: Floats
    most: float

    def __getitem__(self, index: Any) -> LevelMeans:
        parts = (np.broadcast_to(part, self.shape)[index] for part in (self.middle, self.clip, self.scale))
        middle, clip, scale = parts
        return replace(self, ratio=self.ratio[index], middle=middle, clip=clip, scale=scale)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the means."""
        return self.ratio.shape

    @property
    def estimate(self) -> Floats:
        """The means."""
        return self._map(self.ratio.estimate)

    def score(self, value: Any) -> Floats:
        """Return the distance of the release above each value, as a standard normal variable."""
        away = np.asarray(value, dtype=np.float64) - self.middle
        return self.ratio.score(clipped_mean(away, self.clip, self.scale) / self.clip)

    def ends(self, z: Any) -> tuple[Floats, Floats]:
        """Return the least and the largest mean that a standard normal variable within z does not refute."""
        low, high = self.ratio.ends(z)
        return self._map(low), self._map(high)

    def shift(self, by: Any, error: Any) -> LevelMeans:
        """Return the means moved by ``by``, which has a standard error."""
        kept = 2 * ndtr(self.clip / self.scale) - 1
        bias = np.hypot(self.ratio.bias, np.asarray(error) * kept / self.clip)
        return replace(self, ratio=replace(self.ratio, bias=bias), middle=self.middle + by)

    def widen(self) -> LevelMeans:
        """Return the means without the limit by the bounds. The largest mean of the search replaces infinite ones."""
        most = np.abs(self.middle) + self.clip + _FARTHEST * self.scale
        return replace(self, most=float(np.max(most)))

    def _map(self, ratio: Floats) -> Floats:
        away = invert_clipped_mean(ratio * self.clip, self.clip, self.scale)
        return np.clip(self.middle + away, -self.most, self.most)


def clipped_mean(mean: Any, clip: Any, scale: Any) -> Floats:
    """Return the mean of a normal variable with this mean and standard deviation, clipped to [-clip, clip]."""
    low, high = (-clip - mean) / scale, (clip - mean) / scale
    density = (np.exp(-(high**2) / 2) - np.exp(-(low**2) / 2)) / math.sqrt(2 * math.pi)
    inside = mean * (ndtr(high) - ndtr(low)) - scale * density
    return np.asarray(inside - clip * ndtr(low) + clip * ndtr(-high))


def invert_clipped_mean(value: Floats, clip: Any, scale: Any) -> Floats:
    """Return the mean of a normal variable whose clipped mean is ``value``: infinite at the ends."""
    clip = np.broadcast_to(clip, value.shape)
    low, high = -clip - _FARTHEST * scale, clip + _FARTHEST * scale
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        below = clipped_mean(middle, clip, scale) < value
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    found = (low + high) / 2
    return np.where(np.abs(value) < clip * (1 - 1e-7), found, np.copysign(np.inf, value))


class LevelsEstimate:
    """Adjusted means of levels, in half-widths about the middle of the bounds.

    Attributes
    ----------
    means : Ratio or LevelMeans
        Of shape (K, 1): the means of the levels at a common point of the covariates, for comparisons.
    counts : array of shape (K,)
        Noisy number of rows of each level.
    counts_noise : float
    """

    def __init__(self, path: LevelsPath) -> None:
        plan = path.plan
        self.plan, self.path = plan, path
        noise = plan.residuals_noise
        if plan.steps is None:
            self.means: Ratio | LevelMeans = plan.totals(LEVELS).ratio(dict(path.released[LEVELS]), noise)
            self.ratio = self.means
            self.counts, self.counts_noise = self.means.N[:, 0].copy(), noise.count
            return
        fit = path.fit
        first, last = (dict(path.released[name]) for name in (LEVELS, RESIDUALS))
        found = plan.totals(RESIDUALS).ratio(last, noise)
        N, count, pooled = found.N, noise.count, noise
        if not noise.laplace:  # Laplace noise of a count is part of the noise of its sum, and far smaller.
            squares = noise.count**2, plan.totals_noise(LEVELS).count ** 2
            weight = squares[1] / sum(squares)
            N = weight * N + (1 - weight) * first[COUNTS][:, None]
            count, center = math.sqrt(weight) * count, noise.square_spread / squares[0]
            pooled = replace(noise, count=count, spread=count, square_spread=center * count**2)
        kept = 2 * ndtr(fit.clip / fit.shape) - 1
        bias = (fit.bias * kept / fit.clip)[:, None]
        self.ratio = Ratio(found.T, N, found.Q, found.T, N, pooled, bias=bias)
        assert path.steps is not None
        away = path.steps.shift - path.centers.covariates
        middle = (path.centers.outcomes + away @ fit.slopes + fit.intercept + fit.middle)[:, None]
        # The means of outcomes are within the bounds, and the mean of the covariates has noise.
        most = (1.0 if plan.randomized else 2.0) + 3 * path.steps.center_noise * float(np.linalg.norm(fit.slopes))
        self.means = LevelMeans(self.ratio, middle, fit.clip[:, None], fit.shape[:, None], most)
        self.counts, self.counts_noise = N[:, 0].copy(), count

    @property
    def identified(self) -> NDArray[np.bool_]:
        """Whether each level has more rows than noise explains."""
        return np.asarray(self.counts >= SEEN_LEVEL * self.counts_noise)

    @property
    def population(self) -> Ratio | LevelMeans:
        """The means at the mean of the covariates of all rows, where they average to the mean of all outcomes."""
        if not isinstance(self.means, LevelMeans):
            return self.means
        away, error = self._difference
        return self.means.shift(away, np.sqrt(error**2 + np.diagonal(self.covariance))[:, None])

    @cached_property
    def _difference(self) -> tuple[float, float]:
        """The mean of all outcomes minus the average of the means of the levels, and its standard error."""
        path, fit, n = self.path, self.path.fit, self.path.fit.found.rows
        rows = np.maximum(self.counts, self.counts_noise)
        average = float(rows @ self.means.estimate[:, 0] / rows.sum())
        sampling = max(path.variance - fit.scale**2, 0.0) / n
        noise = float(self.ratio.noise.total) * float(np.linalg.norm(fit.clip)) / n
        return path.mean - average, math.sqrt(sampling + noise**2 + path.mean_error**2)

    @cached_property
    def shift(self) -> tuple[float, float]:
        """What moves the means of all levels to the mean of all outcomes, and its standard error.

        Both are 0 unless the difference is more than its error explains: rare far residuals are clipped, and count in
        the mean of all outcomes.
        """
        path, fit = self.path, self.path.fit
        assert path.steps is not None
        away, error = self._difference
        # The mean of all outcomes is at the mean covariates, and the means of the levels are at the point of the steps.
        share = self.counts / self.counts.sum()
        step = share @ path.centers.covariates - path.steps.shift
        unsure = float(share**2 @ path.unsure @ fit.slopes**2)
        away -= float(step @ fit.slopes)
        error = math.sqrt(error**2 + float(step @ self.slopes_covariance @ step) + unsure)
        return (away, error) if self._is_clipped and abs(away) > _SEEN_BIAS * error else (0.0, 0.0)

    @property
    def hidden_bias(self) -> float:
        """Bias of the means by clipped residuals that the mean of all outcomes does not show, in half-widths."""
        return _SEEN_BIAS * self._difference[1] if self._is_clipped and not self.shift[1] else 0.0

    @property
    def _is_clipped(self) -> bool:
        return bool((self.path.fit.bias > 0).any())

    @property
    def deviations(self) -> Floats:
        """Standard deviation of the residuals of each level, of shape (K, 1)."""
        ratio = self.ratio
        rows, m = np.maximum(self.counts[:, None], self.counts_noise), ratio.estimate
        variance = np.clip((ratio.Q - 2 * m * ratio.X + m**2 * ratio.R) / rows, 0.0, (1 - m) * (1 + m))
        clip = self.means.clip if isinstance(self.means, LevelMeans) else 1.0
        return np.asarray(clip * np.sqrt(variance))

    @property
    def shown_deviations(self) -> tuple[Floats, Floats]:
        """The same, and the standard deviations of their noise: NaN where noise hides them."""
        clip = self.means.clip if isinstance(self.means, LevelMeans) else 1.0
        std, noise = self.ratio.spread
        return np.asarray(clip * std), np.asarray(clip * noise)

    def compare(self, first: Any, second: Any) -> tuple[Any, Any]:
        """Return the means of some levels and of others, whose differences are adjusted for the covariates."""
        a, b = self.means[first], self.means[second]
        if not isinstance(a, LevelMeans) or self.plan.randomized:
            return a, b
        cov = self.covariance
        variances: Floats = np.diagonal(cov)[first] + np.diagonal(cov)[second] - 2 * cov[first, second]
        return a.shift(0.0, np.sqrt(np.maximum(variances, 0.0)).reshape(a.shape)), b

    @cached_property
    def covariance(self) -> Floats:
        """Covariance of the errors of the means of the levels by errors of the slopes: 0 if levels are randomized."""
        path, K = self.path, len(self.plan.levels)
        if self.plan.randomized or self.plan.steps is None:
            return np.zeros((K, K))
        away = path.centers.covariates - self.counts @ path.centers.covariates / self.counts.sum()
        cov = self.slopes_covariance
        return np.asarray(away @ cov @ away.T + np.diag(path.unsure @ np.diagonal(cov)))

    @cached_property
    def slopes_covariance(self) -> Floats:
        """Covariance of the errors of the slopes, in half-widths.

        If both centers of a level have errors, its rows bias the slopes.
        """
        path, fit = self.path, self.path.fit
        if self.plan.randomized:
            return fit.cov
        assert isinstance(self.means, LevelMeans)
        moves = np.clip(self.means.estimate - self.means.middle, -self.means.clip, self.means.clip)
        moves += fit.middle[:, None]
        share = np.maximum(self.counts, self.counts_noise)[:, None] / fit.found.rows
        bent = (share**2 * path.unsure_in_steps * moves**2).sum(axis=0)
        return np.asarray(fit.cov + fit.inverse @ np.diag(bent) @ fit.inverse)


# Coefficients of declared factors, from the means of their cells at equal covariates

_Z = 1.96
"""The error of a cell is the half-width of its interval at this quantile, over the quantile."""


@dataclass(frozen=True, eq=False)
class FactorCoefficients:
    """Coefficients in the units of the data, the intercept first.

    Attributes
    ----------
    params : array of shape (p,)
    cov, privacy : arrays of shape (p, p)
        Covariance of their errors, and its part that is not sampling error.
    identified : array of bool, shape (p - 1,)
    means, mean_errors : arrays of shape (n_cells,)
        Means of the cells at the mean of the covariates of all rows, and their standard errors.
    """

    params: Floats
    cov: Floats
    privacy: Floats
    identified: NDArray[np.bool_]
    means: Floats
    mean_errors: Floats


class CellMeans:
    """Means of cells and slopes, with the covariance of their errors, in half-widths.

    Attributes
    ----------
    point, center : arrays of shape (d,)
        The covariates that the means are for, and the mean covariates of all rows.
    means, errors : arrays of shape (K,)
        Means, and the standard errors that a mean does not share with the others.
    weights : array of shape (K,)
        Inverse variances of the cells, if residuals have the same variance in all of them.
    slopes : array of shape (d,)
    cov, privacy : arrays of shape (K + d, K + d)
        Covariance of the errors of both, means first, and its part that is not sampling error.
    """

    def __init__(self, found: LevelsEstimate) -> None:
        path, d = found.path, found.plan.design.center.size
        assert path.steps is not None
        self.point = path.steps.shift
        # The normal interval contains this one. If noise leaves it open to one side, an estimate near the other limit
        # is moved inside.
        low, high = (end[:, 0] for end in found.means.ends(_Z))
        middle, half = (low + high) / 2, (high - low) / 2
        self.means = np.clip(found.means.estimate[:, 0], middle - half / 2, middle + half / 2)
        self.errors = (half + np.abs(self.means - middle)) / _Z
        shift, unsure_shift = found.shift
        self.means = self.means + shift
        rows, fit = np.maximum(found.counts, found.counts_noise), path.fit
        self.slopes, slopes_cov = fit.slopes, found.slopes_covariance
        unseen, kept = slopes_cov - fit.sampling, 2 * ndtr(fit.clip / fit.shape) - 1
        # The mean of a cell is the mean of its rows, moved along the slopes from their mean covariates.
        moved = np.vstack([self.point - path.centers.covariates, np.eye(d)])
        unsure = np.append(path.unsure @ np.diagonal(slopes_cov), np.zeros(d))
        sampling = np.minimum((found.deviations[:, 0] / kept) ** 2 / rows, self.errors**2)
        own, nothing = self.errors**2, np.zeros(d)
        # Then the limit without noise is least squares over the rows.
        known = own - sampling + float(sampling @ rows**2) / rows.sum() / rows
        # Outcomes without any spread have no error. Then all rows count alike.
        self.weights = 1 / known if (known > 0).all() else rows
        self.cov = moved @ slopes_cov @ moved.T + np.diag(np.append(own, nothing) + unsure)
        self.privacy = moved @ unseen @ moved.T + np.diag(np.append(own - sampling, nothing) + unsure)
        for matrix in (self.cov, self.privacy):
            matrix[: own.size, : own.size] += unsure_shift**2
        self.center = found.counts @ path.centers.covariates / found.counts.sum()


def find_coefficients(found: LevelsEstimate, coding: Coding) -> FactorCoefficients:
    """Return the coefficients of a design from the means of its cells, by weighted least squares.

    With as many columns as cells, the weights of the cells do not matter.
    """
    cells, design = CellMeans(found), found.plan.design
    K, d = len(coding.columns), design.center.size
    units = np.append(np.full(K, design.y_half), design.y_half / design.half)
    theta = np.append(cells.means, cells.slopes) * units
    theta[:K] += design.y_center
    numbers, places = coding.find_places(d)
    # The least-squares fit of the cells' means at covariates of zero. Columns of ones map to ones.
    X = np.column_stack([np.ones(K), coding.columns])
    roots = np.sqrt(cells.weights)
    fitted = np.linalg.lstsq(roots[:, None] * X, np.diag(roots), rcond=None)[0]
    matrix = np.zeros((1 + len(numbers) + len(places), K + d))
    matrix[np.append(0, 1 + places), :K] = fitted
    matrix[0, K:] = -(design.center + design.half * cells.point)
    matrix[1 + numbers, K + np.arange(d)] = 1.0
    cov, privacy = (matrix @ (part * np.outer(units, units)) @ matrix.T for part in (cells.cov, cells.privacy))
    identified = np.zeros(d + len(places), dtype=bool)
    identified[numbers] = found.path.fit.identified
    identified[places] = find_seen_columns(found, coding)
    at = np.hstack([np.eye(K), np.tile(cells.center - cells.point, (K, 1))]) * design.y_half
    mean_errors = np.sqrt(np.einsum("ij,jk,ik->i", at, cells.cov, at))
    means = design.y_center + at @ np.append(cells.means, cells.slopes)
    return FactorCoefficients(matrix @ theta, cov, privacy, identified, means, mean_errors)


def find_seen_columns(found: LevelsEstimate, coding: Coding) -> NDArray[np.bool_]:
    """Return whether each column has rows at its level, and at the reference level of its term."""
    columns = dict(zip(coding.names, coding.columns.T != 0, strict=True))
    identified = []
    for name in coding.names:
        own = next(names for names in coding.terms.values() if name in names)
        reference = ~np.any([columns[other] for other in own], axis=0)
        sides = [side for side in (columns[name], reference) if side.any()]
        identified.append(
            all(found.counts[side].sum() >= SEEN_LEVEL * found.counts_noise * math.sqrt(side.sum()) for side in sides)
        )
    return np.array(identified)
