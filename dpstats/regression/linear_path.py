"""The path of a linear regression: least squares with bounded rows and residuals (Mallows weights, Huber's psi)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import chdtr, chdtri, ndtr

from dpstats.regression.bins import Floats
from dpstats.regression.blocks import Question
from dpstats.regression.curvature import Curvature, positive
from dpstats.regression.movement import CURVATURE, GRADIENT, MEAT
from dpstats.regression.path import QUANTILE, Estimate, Path, Seen
from dpstats.regression.plan import (
    CENTER,
    DECAY,
    FIRST_WIDTH,
    MEAN,
    NORMS,
    REACH,
    RESIDUALS,
    SQUARES,
    STEPS,
    TAIL,
    WIDTHS,
    RegressionPlan,
    clip_costs,
    is_unclipped,
    size_name,
    step_name,
)
from dpstats.regression.rows import OUTSIDE, SIZE, LinearStep, Moments, Size, Tail, coordinates

MEAT_KURTOSIS = 5.0
"""Variance of a squared gradient over its squared mean, for normal rows with clipped residuals."""
_ABSOLUTE = math.sqrt(math.pi / 2)  # standard deviation over mean absolute deviation, if normal
_LEAST_SIZE = 0.02
_SLOW_DECAY = 0.3
"""The same for exponential residuals whose scale varies much with the row."""
_SKEWED_DECAY = 0.8
"""The same without an intercept, for tails of skewed residuals."""
_FALSE_ALARM = 0.01
_LIKELY_PULL = 0.0005
"""Standard deviation of the pull of asymmetric tails on a slope, in scales, where the release shows none.

It is small, so that intervals stay short: a note names the bias that the noise can hide. The pull of exponential
residuals whose sign is the sign of a normal column is 0.06."""
_TAIL_VARIANCE = 0.2
"""Mean squared excess beyond 1.5 standard deviations, at most: 0.05 for normal and 0.17 for exponential residuals."""
_CROSSING = 0.15
"""Change of the mean excess beyond 1.5 standard deviations over a small change of normal residuals: 0.13."""
_FILLED = 0.6
"""Standard deviation of the residuals, in half-widths of the outcome's bounds, above which none is clipped."""
_COMMON_TAIL = 0.08
"""Mean excess beyond 1.5 standard deviations for exponential residuals, in standard deviations."""
_SKEWED = 2.6
"""Standard deviations of its error from which the tail of the residuals counts as asymmetric."""
_SHORTENED = 0.3
"""Mean of skewed columns, in standard deviations, that remains if long rows are shortened around the right center."""
_SPREADS = 2.0
"""Factor of the bias: it counts twice, because it is a fixed error and not a standard deviation."""
_PEAKED = 2.0
"""Mean square of residuals from which a few are far larger, over its value for normal residuals of the same size.

It is about 1.2 for exponential residuals."""
_EXPONENTIAL_SQUARE = 1.3
"""The same, at least, for exponential residuals."""
_NOISY_COUNT = 0.03
"""Noise of a count of norms, over all rows, above which their quantile would be mostly noise."""
_SCALES = 241
"""Number of scales of the row norms to choose from."""
_LEAST_ERRORS = 2.0
"""The size of the residuals is at least about this many standard deviations of its noise."""


class LinearPath(Path):
    """Least squares with bounded rows and residuals (Mallows weights, Huber's psi)."""

    _centers_outcome = True
    _averaged = STEPS - 1
    _changes = 0.3  # which rows are clipped changes with the coefficients

    def __init__(self, plan: RegressionPlan) -> None:
        super().__init__(plan)
        self.sizes: list[float] = []
        self.largest_size = 0.0
        self.most = 1.0
        self.width = self.clip = FIRST_WIDTH
        self.tail = _COMMON_TAIL
        self.outside = math.nan
        self.kept = 1.0
        self.meat: tuple[Floats, float] | None = None
        self.uneven = self.pulled = self.peaked = False
        self.skewness = 0.0
        self.pull: Floats = np.zeros(self.p)
        self.unseen: Floats = np.zeros((self.p, self.p))
        self.hidden = self.hidden_level = 0.0

    @property
    def sigma(self) -> float:
        """Scale of the residuals, in half-widths of the outcome's bounds."""
        return self.sizes[-1]

    @property
    def most_residual(self) -> float:
        """Clipping threshold of the residuals for the correction of the intercept."""
        sharp = math.sqrt(self.plan.share(RESIDUALS) / 0.04)
        reach = float(np.clip(5 * (sharp * self.n * self.plan.mu / 4700) ** (1 / 3), 4.0, 10.0))
        return min(reach * self.sigma, 2.0)

    def _threshold(self, name: str) -> float:
        """Return the clipping threshold of the residuals in a step, in scales."""
        noise = self._std(name, GRADIENT) * self.radius * self.sigma
        return max(self.width, self._far_threshold(self.sigma, noise))

    def _own_question(self, name: str) -> Question:
        if name == TAIL:
            white = coordinates(self.whitening, self.p)
            clip, reach = FIRST_WIDTH * self.sigma, REACH * self.sigma
            return Tail(*self._model(), white, self.radius, self.plan.bits, name, clip, reach)
        if name == RESIDUALS:
            return Moments(*self._model(), MEAN, SQUARES, self.most_residual)
        if name.startswith("residual size"):
            return Size(*self._model(), name, self.most, name == size_name(1))
        unclipped, last = is_unclipped(name), name == step_name(STEPS)
        white, clip = coordinates(self.whitening, self.p), self._threshold(name) * self.sigma
        return LinearStep(*self._model(), white, self.radius, self.plan.bits, clip, unclipped, last)

    def _quantile(self, counts: Floats) -> float:
        """Return the upper quartile of the row norms, or of the normal rows that fit noisy counts best."""
        # The quantile adds up the noise of all bins below it, and one scale averages over them. A typical norm that is
        # wrong by a factor makes the curvature small against its noise, and attenuates the slopes.
        if self._stage_std(NORMS) <= _NOISY_COUNT:
            return super()._quantile(counts)
        ends = self.plan.norm_ends
        scales = np.geomspace(ends[0] / 2, ends[-1], _SCALES)
        below = chdtr(self.d, (ends[:, None] / scales) ** 2)
        expected = np.diff(below, axis=0, prepend=0.0, append=1.0)
        scale = scales[np.argmin(((counts[:, None] - expected) ** 2).sum(axis=0))]
        return float(scale) * math.sqrt(float(chdtri(self.d, 1 - QUANTILE)))

    def _take_own(self, name: str, released: Any) -> None:
        if name == TAIL:
            self._take_tail(np.asarray(released))
        elif name == RESIDUALS:
            self.moments = float(released[MEAN][0]), float(released[SQUARES][0])
        elif name.startswith("residual size"):
            if isinstance(released, Mapping):
                self.outside = float(released[OUTSIDE][0])
            joint = isinstance(released, Mapping)
            size = float((released[SIZE] if joint else released)[0])
            noise = self._std(name, SIZE) if joint else self._stage_std(name)
            self.largest_size = (max(size, 0.0) + 2 * noise) * self.most
            # A size that is too small would clip more rows than the step corrects for, and attenuate the slopes.
            size = math.hypot(max(size, 0.0), _LEAST_ERRORS * noise)
            self.sizes.append(float(np.clip(_ABSOLUTE * size * self.most, _LEAST_SIZE, 1.0)))
            self.most = min(self.most, 4 * self.sigma)
        else:
            self._take_step(name, released)

    def _take_tail(self, released: Floats) -> None:
        """Choose the clipping threshold of the residuals: larger if tails are asymmetric, or if the noise is small."""
        # Clipping biases the intercept if residuals are skewed, and a slope if their skewness depends on the row. A
        # bias that noise explains counts as zero.
        plan, first = self.plan, int(self.plan.design.intercept)
        unit = REACH * self.radius  # in scales of the residuals
        noise, pulls = unit * self._stage_std(TAIL), unit * released
        unfit = self._pull_of_errors()
        self._take_pull(pulls[first:], noise, unfit[first:, first:])
        tail = float(pulls[:first].sum())
        noise = math.sqrt(noise**2 + float(np.trace(unfit[:first, :first])))
        least = math.hypot(noise, math.sqrt(_TAIL_VARIANCE / self.n))
        self.skewness = abs(tail) if abs(tail) > _SKEWED * least else 0.0
        costs = clip_costs(plan, self.n, self.leverage, max(tail**2 - noise**2, 0.0))
        bias, error = self._compute_bias(WIDTHS)
        hidden = float(np.trace(self.unseen))
        costs += self.n * ((bias**2 + error**2) * hidden + error**2 * float(self.pull @ self.pull))
        self.width = float(WIDTHS[np.argmin(costs)])
        if self.sigma > _FILLED:
            # An outcome that fills its bounds, such as yes/no, has residuals whose skewness depends on the row. This
            # width clips no residual.
            self.width = max(self.width, 2.0 / self.sigma)
        # Possible bias of the intercept, from the released tail and from the usual skewness of outcomes.
        variance = 1 / (1 / _COMMON_TAIL**2 + 1 / noise**2)
        self.tail = _SPREADS * math.sqrt((variance * tail / noise**2) ** 2 + variance)

    def _take_pull(self, released: Floats, noise: float, unfit: Floats) -> None:
        """Learn how asymmetric tails pull on the slopes."""
        # `noise` is the standard deviation of the noise, and `unfit` the covariance that errors of the coefficients
        # add.
        # In coordinates in which errors are independent; the size of the pull is in units of these errors.
        count, first = released.size, self.p - released.size
        if count == 0:
            return
        variances, vectors = np.linalg.eigh(noise**2 * np.eye(count) + unfit)
        seen = vectors.T @ released
        size = float(seen**2 @ (noise**2 / variances))
        self.pulled = size > (noise**2 + _TAIL_VARIANCE / self.n) * float(chdtri(count, _FALSE_ALARM))
        # The mean and the variance of the pull, given its release
        explained = (count + math.sqrt(2 * count)) * noise**2
        # Without an intercept, slopes take what clipping changes in the mean of skewed residuals.
        usual = _LIKELY_PULL if first else _COMMON_TAIL / math.sqrt(count)
        likely = max(usual**2, (size - explained) / count)
        known = likely / (likely + variances)
        self.pull[first:] = vectors @ (known * seen)
        self.unseen[first:, first:] = (vectors * (known * variances)) @ vectors.T
        self.hidden = 2 * math.sqrt(float(variances.mean()))

    def _pull_of_errors(self) -> Floats:
        """Return the covariance of the pull, in scales, that the errors of the coefficients cause."""
        # They move residuals across the threshold on one side, and back on the other.
        if self.inverse is None:  # no step was taken
            return np.zeros((self.p, self.p))
        curvature = (self.inverse.vectors * self.inverse.known) @ self.inverse.vectors.T
        return (_CROSSING / self.sigma) ** 2 * curvature @ (self.left + self.noise) @ curvature

    def _compute_bias(self, width: Any) -> tuple[Any, Any]:
        """Return the bias of a clipping threshold over the released pull, and the standard deviation of this ratio."""
        # It depends on the decay of the tails, which may be slow if there is a pull.
        usual = DECAY if self.plan.design.intercept else _SKEWED_DECAY
        fast, slow = (_extrapolate(width, rate) for rate in (usual, _SLOW_DECAY))
        return ((fast + slow) / 2, (slow - fast) / 2) if self.pulled else (fast, fast / 2)

    def _whiten_again(self) -> None:
        old = self.whitening
        super()._whiten_again()
        turn = np.linalg.solve(old.T, self.whitening.T).T
        self.pull, self.unseen = turn @ self.pull, turn @ self.unseen @ turn.T

    def _take_step(self, name: str, released: Mapping[str, Floats]) -> None:
        last = name == step_name(STEPS)
        self.clip = self._threshold(name)
        self.kept = kept = 2 * float(ndtr(self.clip)) - 1
        clip = self.clip * self.sigma
        gradient = released[GRADIENT] * self.radius * clip / kept
        noise = self._std(name, GRADIENT) * self.radius * clip / kept
        matrix, std = self._matrix(name, CURVATURE, released, self.p)
        size = self.radius**2 / (kept if is_unclipped(name) else 1.0)
        self.found.append(Curvature.noisy(matrix * size, std * size))
        self.seen.append(Seen(self.b, gradient, noise, self.found[-1]))
        inverse = self._inverse()
        if name == step_name(1):
            # Before the first step, only the scale of the outcome limits the coefficients.
            self.left = self.unknown = inverse.unknown(self.sigma)
        if last:
            meat, meat_std = self._matrix(name, MEAT, released, self.p)
            pull = (self.radius * clip) ** 2
            self.meat = meat * pull, meat_std * pull
        self._step(name, gradient, noise, inverse)

    def estimate(self) -> Estimate:
        inverse, n = self.inverse, self.n
        assert inverse is not None and self.meat is not None
        meat, meat_std = self.meat
        mixed, even = inverse.likely_meat(meat, meat_std)
        around = inverse.of_sampling / (math.sqrt(self._spare) * self.kept)
        # The weights of bounded rows enter the meat squared. Shrinkage keeps its difference from the curvature only
        # beyond noise and sampling error.
        sampling = MEAT_KURTOSIS * (float(np.trace(meat)) / self.p) ** 2 / n
        one_variance = Curvature.noisy(meat, math.sqrt(meat_std**2 + sampling)).toward(even).mean
        # Asymmetric tails beyond the threshold bias the slopes. A threshold that clips no residual has no bias.
        clipped = self.sigma / self.kept if self.clip * self.sigma < 2.0 else 0.0
        part, error = (float(each) * clipped for each in self._compute_bias(self.clip))
        theta = self.b + part * inverse(self.pull)
        doubt = (part**2 + error**2) * self.unseen + error**2 * np.outer(self.pull, self.pull)
        unsure = inverse(inverse(doubt).T)
        samples = [positive(around @ middle @ around) + unsure for middle in (mixed, one_variance)]
        # Skewed residuals bias the slopes by a part of this, if their skewness depends on the row.
        errors = np.diagonal(samples[0] + self.noise + self.left)[int(self.plan.design.intercept) :]
        usual = math.sqrt(float(errors.mean())) if self.d else math.inf
        skewed = self.skewness * part > usual
        hidden = (
            self.hidden
            * clipped
            * _extrapolate(self.clip, _SLOW_DECAY)
            / float(inverse.raised.mean())
            / usual
        )
        theta = self.whitening.T @ theta
        parts = [*samples, self.noise, self.left]
        robust, model, noise, left = (self.whitening.T @ part @ self.whitening for part in parts)
        scale = self._set_intercept(theta, [robust, model], noise, left)
        privacy = noise + left
        y_half = self.plan.design.y_half
        found = self._in_units(
            theta, [robust + privacy, model + privacy, privacy, left], scale * y_half, self.outside
        )
        uneven = self.uneven or self.pulled or skewed
        return replace(
            found, uneven=uneven, peaked=self.peaked, hidden=hidden, hidden_level=self.hidden_level
        )

    def _set_intercept(self, theta: Floats, samples: list[Floats], noise: Floats, left: Floats) -> float:
        """Correct the intercept by the mean residual, and return the standard deviation of the residuals."""
        # If the tails are asymmetric, the location of clipped residuals differs from their mean. The mean residual
        # corrects any such bias. The old and the corrected intercept are averaged by precision.
        most = self.most_residual
        mean, square = self.moments
        mean_noise, square_noise = (self._stage_std(name) for name in (MEAN, SQUARES))
        least = max(square_noise, _LEAST_SIZE**2 * self.sigma**2 / most**2)
        scale = most * math.sqrt(min(max(square - mean**2 + mean_noise**2, least), 1.0))
        # A few residuals may have most of the squares. Some of these residuals are beyond the clipping threshold.
        self.peaked = most**2 * (square - 2 * square_noise) > _PEAKED * (_ABSOLUTE * self.largest_size) ** 2
        if not self.plan.design.intercept:
            return scale
        # In coordinates in which rows have mean 0, the mean residual does not depend on the slopes.
        middle, blur = self._estimate_middle()
        turn = np.eye(self.p)
        turn[0, 1:] = middle
        theta[0] += middle @ theta[1:]
        for matrix in (*samples, noise, left):
            matrix[:] = turn @ matrix @ turn.T
        error = float(samples[0][0, 0] + noise[0, 0] + left[0, 0])
        old = error + (self.tail * self.sigma) ** 2
        sampling, own = scale**2 / self.effective, (most * mean_noise) ** 2
        # This mean has noise, so wrong slopes change the mean residual.
        tilt = float(np.trace(blur @ (samples[0] + noise + left)[1:, 1:]))
        # Exponential residuals do not balance beyond the largest one that counts.
        beyond = _COMMON_TAIL * self.sigma * math.exp(FIRST_WIDTH - most / self.sigma) if most < 2.0 else 0.0
        tilt += beyond**2
        new = sampling + own + tilt
        # Tails are asymmetric if they change the mean residual by more than noise and sampling error explain.
        self.uneven = (most * mean) ** 2 > 4 * (error + new)
        weight = old / (old + new)
        theta[0] += weight * most * mean
        for matrix, variance in [
            # Both estimates use the same rows, so their sampling errors are fully correlated.
            *(
                (sample, (weight * math.sqrt(sampling) + (1 - weight) * _root(sample[0, 0])) ** 2)
                for sample in samples
            ),
            (noise, weight**2 * own + (1 - weight) ** 2 * float(noise[0, 0])),
            (
                left,
                weight**2 * tilt + (1 - weight) ** 2 * (float(left[0, 0]) + (self.tail * self.sigma) ** 2),
            ),
        ]:
            matrix[0, 1:] *= 1 - weight
            matrix[1:, 0] *= 1 - weight
            matrix[0, 0] = variance
        # What heavier tails than those allowed for would change, unless the mean residual or the squares refute them.
        heavy = most**2 * (square + 2 * square_noise) > _EXPONENTIAL_SQUARE * self.sigma**2
        largest = self.clip * self.sigma, most
        biases = [self.sigma * _heavy_tail(end / self.sigma) if end < 2.0 else 0.0 for end in largest]
        biases[0] = min(biases[0], most * abs(mean) + 2 * math.sqrt(error + new))
        stated = math.sqrt(float(samples[0][0, 0] + noise[0, 0] + left[0, 0]))
        self.hidden_level = heavy * ((1 - weight) * biases[0] + weight * biases[1]) / stated
        turn[0, 1:] = -middle
        theta[0] -= middle @ theta[1:]
        for matrix in (*samples, noise, left):
            matrix[:] = turn @ matrix @ turn.T
        return scale

    def _estimate_middle(self) -> tuple[Floats, Floats]:
        """Return the mean of the rows, from the curvature, and the covariance of its error."""
        # It is not 0 where bounds cut the rows from which the center was estimated. A mean that noise explains counts
        # as 0.
        inverse, back = self.inverse, np.linalg.inv(self.whitening)
        assert inverse is not None
        if self.d == 0:
            return np.zeros(0), np.zeros((0, 0))
        moments = back @ (inverse.vectors * inverse.known) @ inverse.vectors.T @ back.T
        count, size = self.p - 1, max(float(moments[0, 0]), 1e-9)
        mean = moments[0, 1:] / size
        spread = moments[1:, 1:] / size - np.outer(mean, mean)
        noise = (inverse.noise / max(float(inverse.known.mean()), 1e-9)) ** 2
        seen = float(mean @ np.linalg.lstsq(spread, mean, rcond=None)[0])
        explained = (count + 2 * math.sqrt(2 * count)) * noise + count * _SHORTENED**2
        gain = max(1 - explained / max(seen, 1e-300), 0.0)
        return gain * mean, self._stage_std(CENTER) ** 2 * np.eye(count) + gain * noise * spread


def _root(variance: float) -> float:
    """Return the root of a variance, which rounding may have made negative."""
    return math.sqrt(max(float(variance), 0.0))


def _heavy_tail(width: float) -> float:
    """Return the mean excess of lognormal residuals (sigma = 1.5) beyond a threshold, both in scales of residuals."""
    return 0.41 * math.exp(-0.135 * width) / width


def _extrapolate(width: Any, rate: float) -> Any:
    """Return the bias of a clipping threshold over the released pull, for tails that decay at this rate."""
    return np.exp(-rate * (width - FIRST_WIDTH)) / -math.expm1(-rate * REACH)
