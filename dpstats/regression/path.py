"""The way of a fit: from what was released, what is asked of the rows next, and in the end the estimate.

A path is public. The release and the report walk the same one: each takes what was released, stage by stage.

The regression engine: rows are centred and whitened, first by the directions of the centred rows; bounded in these
coordinates; and then a few noisy Newton steps are taken, each of which releases the curvature beside the gradient
at no cost. The last step whitens once more, by what the earlier ones have found. Source: inference.md of the
design, section 5; proof: docs/proofs/regression.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dpstats.regression.curvature import Curvature, Inverse, pooled, positive, symmetric
from dpstats.regression.movement import CURVATURE, GRADIENT, MEAT
from dpstats.regression.plan import (
    CENTRE,
    DIRECTIONS,
    LAST_NORMS,
    MEAN,
    NORMS,
    RATE,
    RESIDUALS,
    SQUARES,
    STEPS,
    TAIL,
    RegressionPlan,
    size_name,
    step_name,
)
from dpstats.regression.rows import (
    OUTSIDE,
    SIZE,
    X_BITS,
    Centre,
    Directions,
    LinearStep,
    LogisticStep,
    Moments,
    Norms,
    Outcome,
    Question,
    Size,
    Tail,
    coordinates,
)

Floats = NDArray[np.float64]

_QUANTILE = 0.75
_SHAPE_ERROR = 0.15
"""How far the curvature of bounded rows may be from that of their directions, where a typical entry is 1."""
_TURN_ERROR = 0.1
"""The same, of what earlier steps found for the last."""
_SEEN = 4.5
"""Standard deviations of its noise from which a count is taken to be one."""
_LEVERAGES = np.linspace(1.0, 4.0, 61)
_MODEL_ERROR = 0.02
"""How far off the model may be, in residual scales: what long rows that are cut off would have said of it."""
_ABSOLUTE = math.sqrt(math.pi / 2)  # standard deviation over mean absolute deviation, of a normal law
_LEAST_SIZE = 0.02
_FIRST_WIDTH = 1.5
_LEAST_TAIL = 0.01
_COMMON_TAIL = 0.08
"""The mean of what is beyond 1.5 standard deviations, in these, for exponential residuals."""
_MOST_LOG_ODDS = 12.0
_WIDTHS = np.linspace(1.5, 5.0, 71)


@dataclass(frozen=True, eq=False)
class Estimate:
    """What a path ends with: coefficients in the units of the data, the intercept first if there is one.

    Attributes
    ----------
    params : array of shape (p,)
    robust, model : array of shape (p, p)
        Covariance of the error: from the released meat, and if residuals have one variance (the likelihood's).
    privacy : array of shape (p, p)
        The part of it that is noise.
    left : array of shape (p, p)
        The part of that which steps have left of what was unknown: not noise, but what noise may hide.
    condition : float
        Of the curvature in the last coordinates, eigenvalues raised.
    scale : float
        Standard deviation of the residuals; NaN if there are none.
    outside : float
        Share of the outcomes outside their bounds; NaN if it was not released.
    separated, uneven : bool
        Whether log odds grew without end; and whether clipped residuals have another mean than all of them.
    """

    params: Floats
    robust: Floats
    model: Floats
    privacy: Floats
    left: Floats
    condition: float
    scale: float
    outside: float
    separated: bool = False
    uneven: bool = False


class Path(ABC):
    """What is known while a fit goes on."""

    _least_size = 0.1

    def __init__(self, plan: RegressionPlan) -> None:
        self.plan = plan
        self.p, self.d = plan.size, plan.n_features
        self.shift = np.zeros(self.d)  # in half-widths
        self.whitening = np.eye(self.p)
        self.radius = self.leverage = 1.0
        self.b = np.zeros(self.p)
        self.left = np.zeros((self.p, self.p))
        self.noise = np.zeros((self.p, self.p))
        self.shape = Curvature(np.eye(self.p), np.full((self.p, self.p), math.inf))
        self.found: list[Curvature] = []
        self.inverse: Inverse | None = None

    # What is asked.

    def question(self, name: str) -> Question:
        """Return what a stage asks of the rows."""
        shift = np.rint(self.shift * 2.0**X_BITS)
        if name == CENTRE:
            return Centre(name, self.plan.family == "linear")
        if name == DIRECTIONS:
            return Directions(shift, self.plan.bits)
        if name == NORMS:
            first = int(self.plan.design.intercept)
            return Norms(
                name, shift, False, coordinates(self.whitening[first:, first:], self.d), self.plan.norm_ends
            )
        if name == LAST_NORMS:
            white = coordinates(self.whitening, self.p)
            return Norms(name, shift, self.plan.design.intercept, white, self.plan.norm_ends)
        return self._own_question(name)

    @abstractmethod
    def _own_question(self, name: str) -> Question: ...

    def _model(self) -> tuple[Floats, bool, Floats]:
        theta = coordinates(self.whitening.T @ self.b, self.p)
        return np.rint(self.shift * 2.0**X_BITS), self.plan.design.intercept, theta

    # What is taken.

    def take(self, name: str, released: Any) -> None:
        """Go on with what a stage released, in its units."""
        if name == CENTRE:
            inside = np.clip(released, -1.0, 1.0)
            self.shift = inside[: self.d]
            # The intercept starts at the outcome's mean: what is unknown of the slopes is then of their own size. Less
            # than two deviations of noise are none.
            start, seen = inside[self.d :], 2 * float(np.max(self.plan.noise(CENTRE).std))
            self.b[: start.size] = start * (1 - (seen / np.maximum(np.abs(start), seen)) ** 2)
        elif name == DIRECTIONS:
            self._take_directions(name, released)
        elif name == NORMS:
            self._take_norms(released)
        elif name == LAST_NORMS:
            self._bound(released, name)
        else:
            self._take_own(name, released)

    @abstractmethod
    def _take_own(self, name: str, released: Any) -> None: ...

    def _take_directions(self, name: str, released: Mapping[str, Floats]) -> None:
        matrix, std = self._matrix(name, CURVATURE, released, self.d)
        values, vectors = np.linalg.eigh(matrix)
        known = np.maximum(values, 0.0)
        raised = known + math.sqrt(2 * self.d) * std
        first = int(self.plan.design.intercept)
        self.whitening = np.eye(self.p)
        self.whitening[first:, first:] = (vectors / np.sqrt(raised)).T
        mean, variance = np.eye(self.p), np.full((self.p, self.p), _SHAPE_ERROR**2)
        mean[first:, first:] = np.diag(known / raised)
        variance[first:, first:] += std**2 / np.outer(raised, raised)
        self.shape = Curvature(mean, variance)

    def _take_norms(self, counts: Floats) -> None:
        """Bring rows to a typical length, and bound them."""
        first = int(self.plan.design.intercept)
        self.whitening[first:, first:] *= math.sqrt(self.d) / self._typical(counts)
        self._round_whitening()
        self._bound(counts, NORMS)

    def _typical(self, counts: Floats) -> float:
        """Return the norm that three quarters of the rows do not exceed."""
        ends = self.plan.norm_ends
        # Shares add up to 1: noise that adds up from below is taken off by what it is from above.
        part = np.arange(1, counts.size + 1) / counts.size
        reached = np.cumsum(counts) + part * (1 - counts.sum())
        beyond = np.flatnonzero(reached >= _QUANTILE)
        at = int(beyond[0]) if beyond.size else ends.size
        if at == 0 or at == ends.size:
            return float(ends[min(at, ends.size - 1)])
        inside = (_QUANTILE - reached[at - 1]) / max(reached[at] - reached[at - 1], 1e-12)
        return float(ends[at - 1] * (ends[at] / ends[at - 1]) ** np.clip(inside, 0.0, 1.0))

    def _bound(self, counts: Floats, name: str) -> None:
        """Choose the norm at which rows are bounded, as a multiple of a typical one: noise grows with it.

        What is cut off of long rows moves the coefficients where the model does not hold, by as much as it is taken to
        be off, and at worst all in one direction. Counts that noise could have made are none, and what is beyond the
        largest multiple is cut off anyway.
        """
        plan, typical = self.plan, self._typical(counts)
        ends = self.plan.norm_ends / typical
        middles = np.append(ends[0], ends * math.sqrt(ends[1] / ends[0]))
        noise = float(np.max(plan.noise(name).std))
        seen = np.where((counts > _SEEN * noise) & (middles > 0.8) & (middles < _LEVERAGES[-1]), counts, 0.0)
        cut = np.array([seen @ np.maximum(middles**2 - factor**2, 0.0) for factor in _LEVERAGES])
        information = plan.n_samples * plan.mu**2 * plan.share(step_name(STEPS))
        costs = self.p * (16 * _LEVERAGES**2 / information + plan.n_samples * (_MODEL_ERROR * cut) ** 2)
        self.leverage = float(_LEVERAGES[np.argmin(costs)])
        self.radius = self.leverage * (math.sqrt(self.p) if name == NORMS else typical)

    def _round_whitening(self) -> None:
        """Replace the coordinates by those that rows are really put in."""
        self.whitening = coordinates(self.whitening, self.p) * 2.0**X_BITS

    def _matrix(self, stage: str, name: str, released: Mapping[str, Floats], p: int) -> tuple[Floats, float]:
        """Return a released Gram matrix, and the standard deviation of the noise on its diagonal."""
        diagonal = f"{name}, diagonal"
        matrix = symmetric(released[diagonal], released.get(f"{name}, above the diagonal", np.zeros(0)))
        return matrix, self._std(stage, diagonal)

    def _std(self, stage: str, block: str) -> float:
        return self.plan.noise_of[stage, block]

    def _believed(self) -> Curvature:
        """Return the curvature as it is known: from the steps, and from the shape of the rows at their size."""
        steps = pooled(self.found)
        size = float(
            np.clip(np.trace(steps.mean) / max(float(np.trace(self.shape.mean)), 1e-9), self._least_size, 1.5)
        )
        return steps & self.shape.scaled(size)

    def _whiten_again(self) -> None:
        """Go to coordinates in which the curvature that was found is near a multiple of the identity.

        Of the multiple that leaves typical rows about as long as they were.
        """
        inverse = self._believed().inverted(0.0)
        size = float(inverse.raised.mean())
        old, self.whitening = (
            self.whitening,
            (inverse.vectors * np.sqrt(size / inverse.raised)).T @ self.whitening,
        )
        self._round_whitening()
        back = np.linalg.solve(self.whitening.T, old.T)
        self.b = back @ self.b
        self.left, self.noise = back @ self.left @ back.T, back @ self.noise @ back.T
        noise = inverse.noise**2 * (1 + np.eye(self.p)) / 2 / np.outer(inverse.raised, inverse.raised)
        shape = Curvature(np.diag(inverse.known / inverse.raised), noise + _TURN_ERROR**2)
        self.shape, self.found = shape.scaled(size), []

    def _step(self, name: str, gradient: Floats, noise: float, inverse: Inverse) -> None:
        """Take a Newton step: ``gradient`` has noise of this deviation."""
        before = self.left + self.noise
        left, own = inverse.error_after(before, noise)
        stepped = self.b + inverse(gradient)
        if name != step_name(STEPS):
            self.b, self.left, self.noise = stepped, left, own
            if name == step_name(STEPS - 1):
                self._whiten_again()
            return
        self.inverse = inverse
        # The average of the last two, which share what the last step has left of the error before it.
        across = inverse.remainder @ before
        across = (across + across.T) / 2
        a, b, c = float(np.trace(before)), float(np.trace(left + own)), float(np.trace(across))
        weight = float(np.clip((a - c) / max(a + b - 2 * c, 1e-300), 0.0, 1.0))
        shared = 2 * weight * (1 - weight) * across
        self.left = positive(weight**2 * left + (1 - weight) ** 2 * self.left + shared)
        self.noise = weight**2 * own + (1 - weight) ** 2 * self.noise
        self.b = weight * stepped + (1 - weight) * self.b

    # The end.

    @abstractmethod
    def estimate(self) -> Estimate:
        """Return the estimate, when every stage was taken."""

    def _in_units(
        self, b: Floats, covariances: list[Floats], scale: float = math.nan, outside: float = math.nan
    ) -> Estimate:
        """Return an estimate in the units of the data, of covariances (robust, model, privacy, left)."""
        inverse = self.inverse
        assert inverse is not None
        matrix, offset = self.plan.design.to_units(np.rint(self.shift * 2.0**X_BITS) * 2.0**-X_BITS)
        params = matrix @ b + offset
        robust, model, privacy, left = (matrix @ cov @ matrix.T for cov in covariances)
        condition = float(inverse.raised.max() / inverse.raised.min())
        return Estimate(params, robust, model, privacy, left, condition, scale, outside)


class LinearPath(Path):
    """Least squares with bounded rows and residuals (Mallows weights, Huber's psi)."""

    def __init__(self, plan: RegressionPlan) -> None:
        super().__init__(plan)
        self.sizes: list[float] = []
        self.most = 1.0
        self.width = _FIRST_WIDTH
        self.tail = _COMMON_TAIL
        self.outside = math.nan
        self.kept = 1.0
        self.meat: tuple[Floats, float] | None = None
        self.uneven = False

    @property
    def sigma(self) -> float:
        """The residuals' scale, in half-widths of the outcome."""
        return self.sizes[-1]

    @property
    def most_residual(self) -> float:
        """Where residuals are cut when the intercept is set right."""
        reach = float(np.clip(5 * (self.plan.n_samples * self.plan.mu / 4700) ** (1 / 3), 4.0, 10.0))
        return min(reach * self.sigma, 2.0)

    def _own_question(self, name: str) -> Question:
        if name == TAIL:
            return Tail(*self._model(), name, _FIRST_WIDTH * self.sigma, 4 * self.sigma)
        if name == RESIDUALS:
            return Moments(*self._model(), MEAN, SQUARES, self.most_residual)
        for t in range(1, STEPS + 1):
            if name == size_name(t):
                return Size(*self._model(), name, self.most, t == 1)
        last, white = name == step_name(STEPS), coordinates(self.whitening, self.p)
        return LinearStep(*self._model(), white, self.radius, self.plan.bits, self.width * self.sigma, last)

    def _take_own(self, name: str, released: Any) -> None:
        if name == TAIL:
            self._take_tail(float(released[0]))
        elif name == RESIDUALS:
            self.moments = float(released[MEAN][0]), float(released[SQUARES][0])
        elif name.startswith("residual size"):
            if isinstance(released, Mapping):
                self.outside = float(released[OUTSIDE][0])
            size = float((released[SIZE] if isinstance(released, Mapping) else released)[0])
            self.sizes.append(float(np.clip(_ABSOLUTE * size * self.most, _LEAST_SIZE, 1.0)))
            self.most = min(self.most, 4 * self.sigma)
        else:
            self._take_step(name, released)

    def _take_tail(self, released: float) -> None:
        """Choose where residuals are clipped: further out where tails are uneven, or noise is small."""
        plan = self.plan
        noise, tail = 4 * float(plan.noise(TAIL).std), 4 * released  # in scales of the residuals
        likely = max(tail**2 - noise**2, 0.0) + _LEAST_TAIL**2
        information = plan.n_samples * plan.mu**2 * plan.share(step_name(STEPS))
        costs = 4 * (self.leverage * _WIDTHS) ** 2 * self.p**2 / information
        costs += plan.n_samples / 4 * likely * np.exp(-2.4 * (_WIDTHS - _FIRST_WIDTH))
        self.width = float(_WIDTHS[np.argmin(costs)])
        # What the intercept may be off by: as it was released, and as skewed as outcomes commonly are.
        known = 1 / (1 / _COMMON_TAIL**2 + 1 / noise**2)
        self.tail = math.sqrt((known * tail / noise**2) ** 2 + known)

    def _take_step(self, name: str, released: Mapping[str, Floats]) -> None:
        last = name == step_name(STEPS)
        self.kept = kept = 2 * float(ndtr(self.width)) - 1
        clip = self.width * self.sigma
        gradient = released[GRADIENT] * self.radius * clip / kept
        noise = self._std(name, GRADIENT) * self.radius * clip / kept
        matrix, std = self._matrix(name, CURVATURE, released, self.p)
        size = self.radius**2 / (kept if last else 1.0)
        self.found.append(Curvature.noisy(matrix * size, std * size))
        inverse = self._believed().inverted(0.1)
        if name == step_name(1):
            # What the outcome's spread leaves open.
            self.left = inverse.unknown(self.sigma)
        if last:
            meat, meat_std = self._matrix(name, MEAT, released, self.p)
            pull = (self.radius * clip) ** 2
            self.meat = meat * pull, meat_std * pull
        self._step(name, gradient, noise, inverse)

    def estimate(self) -> Estimate:
        inverse, n = self.inverse, self.plan.n_samples
        assert inverse is not None and self.meat is not None
        meat, meat_std = self.meat
        curvature = (inverse.vectors * inverse.known) @ inverse.vectors.T
        even = (
            curvature * max(float(np.trace(meat)), meat_std * self.p) / max(float(inverse.known.sum()), 1e-9)
        )
        doubt = 4 * (meat_std * self.p / max(float(np.trace(meat)), 1e-12)) ** 2
        mixed = (meat + doubt * even) / (1 + doubt)
        around = inverse.of_sampling / (math.sqrt(n) * self.kept)
        samples = [positive(around @ middle @ around) for middle in (mixed, even)]
        theta = self.whitening.T @ self.b
        parts = [*samples, self.noise, self.left]
        robust, model, noise, left = (self.whitening.T @ part @ self.whitening for part in parts)
        scale = self._set_intercept(theta, [robust, model], noise, left)
        privacy = noise + left
        y_half = self.plan.design.y_half
        found = self._in_units(
            theta, [robust + privacy, model + privacy, privacy, left], scale * y_half, self.outside
        )
        return replace(found, uneven=self.uneven)

    def _set_intercept(self, theta: Floats, samples: list[Floats], noise: Floats, left: Floats) -> float:
        """Set the intercept right by the mean residual, and return the residuals' standard deviation.

        Clipped residuals have another location than their mean where tails are uneven. The mean residual sets
        that right, whatever the intercept was; both are averaged by precision.
        """
        n, most = self.plan.n_samples, self.most_residual
        mean, square = self.moments
        mean_noise, square_noise = (float(self.plan.noise(name).std) for name in (MEAN, SQUARES))
        least = max(square_noise, _LEAST_SIZE**2 * self.sigma**2 / most**2)
        scale = most * math.sqrt(min(max(square - mean**2 + mean_noise**2, least), 1.0))
        if not self.plan.design.intercept:
            return scale
        error = float(samples[0][0, 0] + noise[0, 0] + left[0, 0])
        old = error + (self.tail * self.sigma) ** 2
        sampling, own = scale**2 / n, (most * mean_noise) ** 2
        # The centre of the rows is known up to its noise: slopes that are wrong tilt the mean residual.
        tilt = float(self.plan.noise(CENTRE).std) ** 2 * float(np.trace((samples[0] + noise + left)[1:, 1:]))
        new = sampling + own + tilt
        # What the residuals' tails add to their mean, beyond what noise and sampling explain.
        self.uneven = (most * mean) ** 2 > 4 * (error + new)
        weight = old / (old + new)
        theta[0] += weight * most * mean
        for matrix, variance in [
            *((sample, weight**2 * sampling + (1 - weight) ** 2 * float(sample[0, 0])) for sample in samples),
            (noise, weight**2 * own + (1 - weight) ** 2 * float(noise[0, 0])),
            (
                left,
                weight**2 * tilt + (1 - weight) ** 2 * (float(left[0, 0]) + (self.tail * self.sigma) ** 2),
            ),
        ]:
            matrix[0, 1:] *= 1 - weight
            matrix[1:, 0] *= 1 - weight
            matrix[0, 0] = variance
        return scale


class LogisticPath(Path):
    """The logistic likelihood with bounded rows."""

    _least_size = 0.02

    def __init__(self, plan: RegressionPlan) -> None:
        super().__init__(plan)
        self.separated = False

    def _own_question(self, name: str) -> Question:
        if name == RATE:
            return Outcome(name)
        white = coordinates(self.whitening, self.p)
        return LogisticStep(*self._model(), white, self.radius, self.plan.bits)

    def _take_own(self, name: str, released: Any) -> None:
        if name == RATE:
            noise = float(self.plan.noise(name).std)
            least = max(noise, 1 / self.plan.n_samples)
            rate = float(np.clip(released[0], min(least, 0.5), max(1 - least, 0.5)))
            # The intercept comes first, in coordinates of its own.
            self.b[0] = math.log(rate / (1 - rate)) / self.whitening[0, 0]
            return
        gradient, noise = released[GRADIENT] * self.radius, self._std(name, GRADIENT) * self.radius
        matrix, std = self._matrix(name, CURVATURE, released, self.p)
        size = self.radius**2 / 4
        # The Hessian changes with the coefficients: earlier ones are trusted less.
        self.found = [part.less_known((0.3 * np.trace(part.mean) / self.p) ** 2) for part in self.found]
        self.found.append(Curvature.noisy(matrix * size, std * size))
        inverse = self._believed().inverted(0.02)
        if name == step_name(1):
            self.left = inverse.unknown(1.0)
        self._step(name, gradient, noise, inverse)
        # Of a typical row: log odds beyond these are as good as certain.
        size = float(np.linalg.norm(self.b))
        if size > _MOST_LOG_ODDS:
            self.b, self.separated = self.b * _MOST_LOG_ODDS / size, name == step_name(STEPS)

    def estimate(self) -> Estimate:
        assert self.inverse is not None
        sampling = self.inverse.of_sampling / self.plan.n_samples
        theta = self.whitening.T @ self.b
        sample, noise, left = (
            self.whitening.T @ part @ self.whitening for part in (sampling, self.noise, self.left)
        )
        privacy = noise + left
        design = self.plan.design
        assert design.y_half == 1.0
        found = self._in_units(theta, [sample + privacy, sample + privacy, privacy, left])
        return replace(found, separated=self.separated)
