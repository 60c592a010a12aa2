"""The path of a linear regression by Newton steps, and coefficients from noisy second moments released once.

Proofs: docs/proofs/regression.md, docs/proofs/sufficient-statistics.md, docs/proofs/functional-mechanism.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtr, chdtri, ndtr

from dpstats.data.parameters import check_real
from dpstats.lattice.products import finest, row_bits
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.stages import Block as StageBlock
from dpstats.regression.blocks import COUNT_BITS, X_BITS, Design, Question
from dpstats.regression.passes import Floats
from dpstats.regression.path import QUANTILE, Curvature, Estimate, Inverse, Path, Seen, positive
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
    DesignPlan,
    RegressionPlan,
    clip_costs,
    is_unclipped,
    size_name,
    step_name,
)
from dpstats.regression.rows import (
    CURVATURE,
    GRADIENT,
    MEAT,
    MOMENTS,
    OUTSIDE,
    SIZE,
    LinearStep,
    Moments,
    SecondMoments,
    Size,
    Tail,
    coordinates,
    gram_blocks,
)
from dpstats.release.additive import JointIntegers, additive_stages

# The path: least squares with bounded rows and residuals (Mallows weights, Huber's psi)

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

It is small, so that intervals stay short: the summary names the bias that the noise can hide. The pull of exponential
residuals whose sign is the sign of a normal column is 0.06."""
_TAIL_VARIANCE = 0.2
"""Mean squared excess beyond 1.5 standard deviations, at most: 0.05 for normal and 0.17 for exponential residuals."""
_CROSSING = 0.15
"""Change of the mean excess beyond 1.5 standard deviations over a small change of normal residuals: 0.13."""
_FILLED = 0.6
"""Standard deviation of the residuals, in half-widths of the outcome's bounds, above which none is clipped."""
_MOST_LEFT = 0.5
"""Largest part of a slope that its remaining error counts as."""
_WEAKER = 25.0
"""Variance of the column that varies the most over another one's, in half-widths: half of a slope's size counts."""
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

    def _row_variance(self, inverse: Inverse) -> float:
        return self.sigma**2

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
        unsure = unsure + self.earlier
        samples = [positive(around @ middle @ around) + unsure for middle in (mixed, one_variance)]
        # Skewed residuals bias the slopes by a part of this, if their skewness depends on the row.
        errors = np.diagonal(samples[0] + self.noise + self.left)[int(self.plan.design.intercept) :]
        usual = math.sqrt(float(errors.mean())) if self.d else math.inf
        skewed = self.skewness * part > usual
        hidden = self.hidden * clipped * _extrapolate(self.clip, _SLOW_DECAY) / float(inverse.raised.mean()) / usual
        theta = self.whitening.T @ theta
        parts = [*samples, self.noise, self.left]
        robust, model, noise, left = (self.whitening.T @ part @ self.whitening for part in parts)
        stretch = self._stretch(theta, left)
        left *= np.outer(stretch, stretch)
        scale = self._set_intercept(theta, [robust, model], noise, left)
        privacy = noise + left
        y_half = self.plan.design.y_half
        found = self._in_units(theta, [robust + privacy, model + privacy, privacy, left], scale * y_half, self.outside)
        uneven = self.uneven or self.pulled or skewed
        return replace(
            found,
            uneven=uneven,
            peaked=self.peaked,
            hidden=hidden,
            hidden_level=self.hidden_level,
            stretched=stretch**2,
        )

    def _stretch(self, theta: Floats, left: Floats) -> Floats:
        """Return the factors of the remaining errors of slopes that are larger than the expected ones.

        Steps leave a part of the first error, which is the slope itself. If a slope t keeps the part c of it, |t| is at
        most |estimate|/(1 - c). The size counts where a column varies less than others, in half-widths: elsewhere the
        stated part is large enough.
        """
        unknown = np.maximum(np.diagonal(self.whitening.T @ self.unknown @ self.whitening), 1e-300)
        part = np.sqrt(np.minimum(np.diagonal(left) / unknown, _MOST_LEFT**2))
        larger = np.maximum((theta / (1 - part)) ** 2 / unknown - 1, 0.0)
        slopes = slice(int(self.plan.design.intercept), None)
        weaker = unknown[slopes] / min(unknown[slopes], default=1.0)
        found = np.ones(self.p)
        found[slopes] += larger[slopes] * weaker / (weaker + _WEAKER)
        return np.sqrt(found)

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
            *((sample, (weight * math.sqrt(sampling) + (1 - weight) * _root(sample[0, 0])) ** 2) for sample in samples),
            (noise, weight**2 * own + (1 - weight) ** 2 * float(noise[0, 0])),
            (left, weight**2 * tilt + (1 - weight) ** 2 * (float(left[0, 0]) + (self.tail * self.sigma) ** 2)),
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
        # A few residuals at the far bound of the outcome, as many as the noise of the squares can hide
        few = max(square - _EXPONENTIAL_SQUARE * (self.sigma / most) ** 2, 0.0) + 2 * square_noise
        rare = few * max(1 + abs(float(theta[0])) - most, 0.0)
        self.hidden_level = max(heavy * ((1 - weight) * biases[0] + weight * biases[1]), rare) / stated
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


# Coefficients from a noisy matrix of second moments, and the covariance of their errors

# Least squares divides X'y by X'X, and here both have noise. With A + N for X'X/n and b + e for X'y/n,

#     (A + N)^{-1}(b + e) - theta = (A + N)^{-1}(score + e - N theta),

# and the covariance of the noise e - N theta depends only on theta and known numbers. On average the inverse of A + N
# is too large, by A^{-1} E[N A^{-1} N] A^{-1} to second order. The divisor is therefore H = A + N + E[N H^{-1} N].
# The last term is a ridge that keeps H positive for any noise, and is very small if the noise is small.

KNOWN = 0.9
"""A coefficient is identified if at least this fraction of its divisor was released. The remainder is the ridge."""
_ROUNDS, _CLOSE = 100, 1e-11
_LEAST = 0.01
"""Smallest assumed variance of the columns in a direction, relative to the average variance."""
_ERRORS, _TIMES = 2.0, 3
_LEAST_SHARE = 0.01


@dataclass(frozen=True)
class MatrixNoise:
    """Independent noise of a symmetric matrix: standard deviations on the diagonal and above it."""

    diagonal: float
    above: float

    def through(self, middle: Floats) -> Floats:
        """Return E[N T N] of a symmetric T."""
        even = self.above**2 * (np.trace(middle) * np.eye(len(middle)) + middle)
        result: Floats = even + (self.diagonal**2 - 2 * self.above**2) * np.diag(np.diagonal(middle))
        return result

    def along(self, left: Floats, right: Floats) -> Floats:
        """Return the variance of l'N r for each pair of rows l, r."""
        even = (left**2).sum(axis=1) * (right**2).sum(axis=1) + (left * right).sum(axis=1) ** 2
        own = (left**2 * right**2).sum(axis=1)
        result: Floats = self.above**2 * even + (self.diagonal**2 - 2 * self.above**2) * own
        return result

    def size(self, p: int) -> float:
        """Return the root of the sum of the noise variances in a matrix row of p entries."""
        return math.sqrt(self.above**2 * (p - 1) + self.diagonal**2)

    def hides(self, p: int, eigenvalue: float) -> bool:
        """Return whether noise hides columns with variance ``eigenvalue`` in all p directions."""
        divisor = (eigenvalue + math.sqrt(eigenvalue**2 + 4 * self.size(p) ** 2)) / 2
        return eigenvalue < KNOWN * divisor


def divisor(matrix: Floats, noise: MatrixNoise) -> Floats:
    """Return the positive H = A + E[N H^{-1} N] for a released A, without its negative eigenvalues.

    For an eigenvalue a of A, which is not negative, the map h -> a + s/h has slope -s/h^2 at its fixed point, at least
    -1. A damped iteration reduces the error by a factor of at least 3.
    """
    values, vectors = np.linalg.eigh(matrix)
    values, s = np.maximum(values, 0.0), noise.size(len(matrix)) ** 2
    known: Floats = (vectors * values) @ vectors.T
    start = (values + np.sqrt(values**2 + 4 * s)) / 2
    found: Floats = (vectors * start) @ vectors.T
    part = 1 / (1 + s / float(start.min()) ** 2 / 2)
    for _ in range(_ROUNDS):
        new = found + part * (known + noise.through(_inverse(found)) - found)
        close = float(np.abs(new - found).max()) <= _CLOSE * float(np.abs(new).max())
        found = new
        if close:
            break
    return found


def _inverse(matrix: Floats) -> Floats:
    inverse = np.asarray(np.linalg.inv(matrix), dtype=np.float64)
    return (inverse + inverse.T) / 2


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Coefficients and their errors from a released matrix, in given units.

    Attributes
    ----------
    estimate : array of shape (p,)
    cov : array of shape (p, p)
        Covariance of the errors.
    privacy : array of shape (p, p)
        The part of ``cov`` that is not sampling error.
    known : array of bool, shape (p,)
        Whether each coefficient is identified.
    scale : float
        Standard deviation of the residuals, in the coordinate of the outcome that the matrix has.
    condition : float
        Condition number of the divisor.
    share : float
        Average squared factor that scaled the rows. The factor of a dropped row is 0.
    """

    estimate: Floats
    cov: Floats
    privacy: Floats
    known: NDArray[np.bool_]
    scale: float
    condition: float
    share: float


def coefficients(
    moments: Floats, noise: MatrixNoise, n: int, constant: float, intercept: bool, units: Floats
) -> Coefficients:
    """Return the coefficients from released second moments of rows f (constant, x, y), with f in (0, 1] depending on x.

    ``units`` converts theta, the coefficients for the coordinates (constant, x), or x without an intercept. Each of its
    rows gives one estimated coefficient.
    """
    first = 0 if intercept else 1
    own = moments[first:, first:]
    A, b, outcome = own[:-1, :-1], own[:-1, -1], float(own[-1, -1])
    p = b.size
    H = divisor(A, noise)
    G = _inverse(H)
    theta = G @ b
    score = noise.through(np.outer(theta, theta)) + noise.above**2 * np.eye(p)

    # Error due to the ridge: before the release, only the range of the outcome limits the coefficients.
    values, vectors = np.linalg.eigh(A)
    typical = max(float(np.maximum(values, 0.0).mean()), noise.size(p))
    room = max(outcome, noise.diagonal) / np.maximum(values, _LEAST * typical)
    remainder = np.eye(p) - G @ A
    left = (remainder @ vectors * room) @ (remainder @ vectors).T

    # The added term corrects for residuals that fit the noise. Rows are scaled by at most 1, so f^4 xx' <= f^2 xx'.
    away = np.append(-theta, 1.0)
    away_std = math.sqrt(float(noise.along(away[None], away[None])[0]))
    square = max(float(away @ own @ away) + float((G * score).sum()), away_std)
    share = min(max(float(moments[0, 0]) / constant**2, noise.diagonal / constant**2, _LEAST_SHARE), 1.0)
    sampling = square / share / n * G

    total = G @ score @ G + sampling + left
    worse = _worst(G, theta, total, noise, units, vectors / np.sqrt(room))
    cov = worse[:, None] * (units @ total @ units.T) * worse
    released = units @ (G @ A @ G) @ units.T
    known = np.diagonal(released) >= KNOWN * np.diagonal(units @ G @ units.T)
    eigenvalues = np.linalg.eigvalsh(H)
    condition = float(eigenvalues[-1] / eigenvalues[0])
    privacy = cov - units @ sampling @ units.T
    return Coefficients(units @ theta, cov, privacy, known, math.sqrt(square / share), condition, share)


def _worst(G: Floats, theta: Floats, total: Floats, noise: MatrixNoise, units: Floats, walls: Floats) -> Floats:
    """Return the factor by which each standard error grows if the truth differs by two standard errors."""
    # The noise depends on theta, and an estimate that is too small understates it. So this evaluates the noise at the
    # worse endpoint of the interval, as an interval that inverts a test does (Fieller 1954). The range of the outcome
    # limits how large theta can be.
    pulls = units @ G
    variance = np.diagonal(units @ total @ units.T)
    toward = (units @ total) / np.sqrt(variance)[:, None]
    here = noise.along(pulls, np.broadcast_to(theta, pulls.shape))
    grown = np.ones(len(units))
    for _ in range(_TIMES):
        off = _ERRORS * grown[:, None] * toward
        off /= np.maximum(np.linalg.norm(off @ walls, axis=1), 1.0)[:, None]
        there = np.maximum(noise.along(pulls, theta + off), noise.along(pulls, theta - off))
        grown = np.sqrt(np.maximum((variance - here + there) / variance, 1.0))
    return grown


# The second moments of (1, x, y): how rows are bounded, and the plan

# Measured from the middle of the bounds in half-widths, a row is (w, x, v y). A factor that depends on x only scales it
# into a ball. The weights w, v and the radius of the ball are public. The ball contains rows whose columns are all half
# a half-width from the middle ("l2"), or a third ("l1"). Most rows of most columns are inside, and noise grows with the
# square of the radius.

STAGE = "second moments"
_ROOM = {"l2": 0.25, "l1": 1 / 3}
"""Contribution of a column to the squared radius of the ball (l2) or to the radius (l1)."""
_UNUSED = 0.25
"""Constant of a model without an intercept, relative to the weight of the outcome. It only measures the scaling."""
_COUNT = {"l2": 0.14, "l1": 0.04}
"""Weight of the count of outcomes outside: it costs the moments 0.5% and 2% more noise."""
_SPREAD = 0.25
"""Standard deviation of columns and outcome that the notes of a plan assume, in half-widths."""
_FEW = 80.0
_SAFE = 1 + 1e-12


def is_few(n: int, d: int, mu: float) -> bool:
    """Return whether one release serves n rows of d columns better than Newton steps do.

    For one column and fewer than 80/mu rows it does: noise hides what the steps learn about the rows, and slopes are
    attenuated. For more columns, intervals from moments are longer wherever any slope is identified.
    """
    return d == 1 and n * mu < _FEW


def weights(norm: str, d: int, intercept: bool) -> tuple[float, float, float]:
    """Return the weights of the constant and of the outcome, and the radius of the ball.

    Under Gaussian noise the columns have half of the squared radius, the constant and the outcome a quarter each. The
    noise variance of a slope is radius^4 (1/v^2 + theta^2). These weights are close to its minimum for any slopes.
    """
    room = _ROOM[norm] * d
    outcome = math.sqrt(room / 2) if d else 1.0
    constant = outcome if intercept else _UNUSED * outcome
    if norm == "l2":
        return constant, outcome, math.sqrt(room + constant**2 + outcome**2)
    return constant, outcome, room + constant + outcome


def question(norm: str, d: int, intercept: bool, bits: int) -> SecondMoments:
    """Return the query for the second moments of the rows."""
    constant, outcome, radius = (float(round(w * 2**X_BITS)) for w in weights(norm, d, intercept))
    return SecondMoments(constant, outcome, radius, norm, bits)


@dataclass(frozen=True)
class MomentsPlan(DesignPlan):
    """The plan of releasing the second moments of (1, x, y). All of it is public.

    Attributes
    ----------
    design, bits, missing
        As for `DesignPlan`.
    norm : {"l2", "l1"}
        Norm that bounds the rows: "l2" under Gaussian noise, "l1" under Laplace noise.
    few_rows : bool
        Whether the fit takes one release in place of Newton steps, because it has few rows for its epsilon.
    """

    norm: str
    few_rows: bool = field(default=False, kw_only=True)

    @property
    def question(self) -> SecondMoments:
        """The query for the second moments of the rows."""
        return question(self.norm, self.n_features, self.design.intercept, self.bits)

    @property
    def matrix_noise(self) -> MatrixNoise:
        """Noise of the released matrix in units in which the ball has radius 1."""
        diagonal, above = (self.noise_of[STAGE, f"{MOMENTS}, {part}"] for part in _PARTS)
        return MatrixNoise(diagonal, above)

    @property
    def constant(self) -> float:
        """The constant of a row in the unit ball."""
        return self.question.constant / self.question.bound

    def to_units(self) -> tuple[Floats, Floats]:
        """L and o: coefficients in the units of the data are L theta + o, where theta is for rows in the unit ball."""
        matrix, offset = self.design.to_units(np.zeros(self.n_features))
        asked, first = self.question, int(self.design.intercept)
        scale = np.full(self.size, 2.0**X_BITS)
        scale[:first] = asked.constant
        return matrix * scale / asked.outcome, offset

    @property
    def outcome_unit(self) -> float:
        """The unit of a row's outcome in the unit ball, in the units of the data."""
        return self.design.y_half * self.question.bound / self.question.outcome

    @property
    def _spread(self) -> float:
        """Variance in the unit ball of columns with the assumed standard deviation."""
        return (_SPREAD * 2.0**X_BITS / self.question.bound) ** 2

    @property
    def _columns(self) -> str:
        return (
            "columns with standard deviations of a quarter of their half-widths, and residuals of a sixth of the "
            "half-width of y_bounds,"
        )

    @property
    def noise_ratio(self) -> float:
        """Ratio of noise to sampling error of a coefficient, if such columns explain half of the outcome's variance."""
        slopes = (self.question.outcome / 2.0**X_BITS) ** 2 / 2  # sum of squares, and also the residual variance
        noise = self.matrix_noise.above * math.sqrt(1 + slopes) / self._spread
        return noise / math.sqrt(slopes / self.n_samples)

    def noise_ratio_of_share(self, share: float) -> float:
        share = check_real("share", share, above=0, at_most=0.5)
        # The values are one half-width from the middle of their bounds.
        spread = 2 * math.sqrt(share * (1 - share)) / _SPREAD
        hidden = self.matrix_noise.hides(self.size, spread**2 * self._spread)
        return math.inf if hidden else self.noise_ratio / spread

    @property
    def noise_only(self) -> bool:
        """Whether the noise of the matrix hides such columns."""
        return self.matrix_noise.hides(self.size, self._spread)

    def notes(self) -> list[str]:
        """Return remarks for a reader of the plan, one line each."""
        few = "few rows at this epsilon: one release of second moments in place of Newton steps"
        return [*([few] if self.few_rows else []), *super().notes()]


_PARTS = ("diagonal", "above the diagonal")


def moments_integers(p: int, n: int, bits: int, norm: str) -> JointIntegers:
    """Return the integers of a stage for second moments of p numbers and the count of outcomes outside.

    Rows are in a ball of 2^bits steps. In units of its squared radius, replacing a row moves the matrix by at most
    sqrt(2) in l2, and by 2 in l1. A dropped row adds nothing, and is at distance 1 from any other row.
    """
    weight = _COUNT[norm]
    count = StageBlock(OUTSIDE, 1, 2.0**-COUNT_BITS / n, 2**COUNT_BITS / weight)
    blocks = (*gram_blocks(MOMENTS, p, n, 2**bits, 1.0, norm), count)
    return JointIntegers(STAGE, blocks, (2 + weight) * _SAFE, math.sqrt(2 + weight**2) * _SAFE)


def moments_plan(design: Design, n: int, epsilon: float, delta: float, missing: str) -> MomentsPlan:
    """Return the plan of releasing the second moments of n rows of declared columns.

    The noise is Laplace noise at ``delta`` 0, and Gaussian otherwise.
    """
    d, norm = design.center.size, "l2" if delta > 0 else "l1"

    def build(bits: int) -> MomentsPlan:
        item = moments_integers(d + 2, n, bits, norm)
        stages = additive_stages([item], epsilon, delta)
        guarantee = PrivacyGuarantee(epsilon, delta)
        return MomentsPlan(stages, guarantee, n, d, design=design, bits=bits, norm=norm, missing=missing)

    return finest(build, row_bits(n))
