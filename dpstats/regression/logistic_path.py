"""The path of a logistic regression: the likelihood with bounded rows."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit, logit

from dpstats.regression.bins import Floats
from dpstats.regression.blocks import Question
from dpstats.regression.curvature import Curvature, Inverse, positive
from dpstats.regression.log_odds import derivative, normal_log_odds
from dpstats.regression.movement import CURVATURE, GRADIENT, MEAT
from dpstats.regression.path import Estimate, Seen
from dpstats.regression.plan import RATE, STEPS, RegressionPlan, step_name, step_number
from dpstats.regression.rows import LogisticStep, Outcome, coordinates
from dpstats.regression.two_valued import LastStep, LevelPath
from dpstats.regression.two_valued_errors import LogitLevel

_MOST_LOG_ODDS, _MOST_LEVEL = 12.0, 30.0
_LEAST_CURVATURE = 0.08
_STILL_MOVING = 0.03
_NOT_NORMAL = 0.5
"""Relative error of the lengthening of the first step, because log odds are not normal."""


class LogisticPath(LevelPath):
    """The logistic likelihood with bounded rows."""

    def __init__(self, plan: RegressionPlan) -> None:
        super().__init__(plan)
        self.separated = False
        self.offset = 0.0  # mean offset over rows
        self.meat: tuple[Floats, float] | None = None
        # Scale of the intercept in the coordinates of the first step
        self.start, self.first_scale = 0.0, 1.0
        # Coordinates of the first step, and second moments of the rows in them
        self.first, self.moments = np.eye(self.p), np.zeros((self.p, self.p))

    @property
    def _common_size(self) -> float:
        # Curvature of outcomes at the released rate
        return float(derivative(self.start * self.first_scale))

    @property
    def _least_size(self) -> float:
        # A level with a rate near 0 or 1 has little curvature.
        return (_LEAST_CURVATURE / 10 if self.has_levels else _LEAST_CURVATURE) * self._common_size

    def _own_question(self, name: str) -> Question:
        if name == RATE:
            return Outcome(name)
        white = coordinates(self.whitening, self.p)
        meat = self.plan.design.weight is not None and name == step_name(STEPS)
        return LogisticStep(*self._model(), white, self.radius, self.plan.bits, meat)

    def _take_own(self, name: str, released: Any) -> None:
        if name == RATE:
            noise = self._stage_std(name)
            least = max(noise, 1 / self.n)
            rate = float(np.clip(released[0], min(least, 0.5), max(1 - least, 0.5)))
            # The intercept comes first and has a separate coordinate.
            self.first_scale = float(self.whitening[0, 0])
            self.start = math.log(rate / (1 - rate)) / self.whitening[0, 0]
            self.b[0] = self.start - self.offset / self.whitening[0, 0]
            return
        gradient, noise = released[GRADIENT] * self.radius, self._std(name, GRADIENT) * self.radius
        matrix, std = self._matrix(name, CURVATURE, released, self.p)
        if MEAT in {block.partition(",")[0] for block in released}:
            meat, meat_std = self._matrix(name, MEAT, released, self.p)
            self.meat = meat * self.radius**2, meat_std * self.radius**2
        size = self.radius**2 / 4
        self.found.append(Curvature.noisy(matrix * size, std * size))
        self.seen.append(Seen(self.b, gradient, noise, self.found[-1]))
        t = step_number(name)
        # Assume that the log odds of typical rows have standard deviation 1.
        spread = math.sqrt(self._common_size)
        inverse = self._prepare(t, spread)
        if t == 1:
            self.left = inverse.unknown(spread)
        elif not self.has_levels:
            gradient = self._bend(gradient, noise, inverse)
        self._take_level_step(name, gradient, noise, inverse, t)
        if t == 1:
            if not self.has_levels:
                self._stretch(inverse)
            self.first = self.whitening.copy()
            self.moments = (inverse.vectors * inverse.known) @ inverse.vectors.T / self._common_size
        # Log odds of a typical row. Beyond the limit, an outcome is practically certain.
        reached = float(np.linalg.norm(self.b))
        if reached > _MOST_LOG_ODDS:
            self.b = self.b * _MOST_LOG_ODDS / reached
            self.separated |= t == STEPS

    def _stretch(self, inverse: Inverse) -> None:
        """Lengthen the first step to the length that normal log odds imply."""
        # The step uses the curvature at coefficients of 0 only, and is too short if log odds are large. Their variance
        # is taken one standard deviation of its noise smaller, because later steps lengthen better than they shorten.
        first = int(self.plan.design.intercept)
        slopes: Floats = np.zeros(self.p)
        slopes[first:] = self.b[first:]
        known = (inverse.vectors * inverse.known) @ inverse.vectors.T
        seen = known @ self.noise
        doubt = math.sqrt(2 * float(np.trace(seen @ seen)) + 4 * float(slopes @ seen @ known @ slopes))
        pulled = slopes @ known @ slopes - float(np.trace(seen)) - doubt
        start = self.start * self.whitening[0, 0] if first else 0.0
        spread = math.sqrt(max(float(pulled), 0.0) / float(derivative(start)))
        farther, shift = normal_log_odds(start, spread)
        self.b = self.b + (farther - 1) * slopes
        self.b[0] += shift / self.whitening[0, 0] if first else 0.0
        self.left = self.left + (_NOT_NORMAL * (farther - 1)) ** 2 * np.outer(slopes, slopes)

    def _bend(self, gradient: Floats, noise: float, inverse: Inverse) -> Floats:
        """Return the gradient of a step lengthened for large log odds, and check whether the steps converge."""
        # The curvature along log odds of standard deviation s falls with s^3. A step of length e toward them leaves an
        # error of 1.5 e^2 / s. Half of this is treated as unknown.
        back = np.linalg.solve(self.first.T, self.whitening.T)
        slopes = back @ self.b
        slopes[: int(self.plan.design.intercept)] = 0.0
        spread = math.sqrt(max(float(slopes @ self.moments @ slopes), 0.0))
        slopes /= max(spread, 1e-12)
        along = self.moments @ slopes
        farther = float(along @ back @ inverse(gradient))
        turned = back @ inverse.matrix
        error = back @ self.noise @ back.T + noise**2 * turned @ turned.T
        seen = math.sqrt(float(along @ error @ along))
        self.separated = farther > 1.5 * seen + _STILL_MOVING * (spread + 2)
        direction = np.linalg.solve(back, slopes) * (1.5 * max(farther**2 - seen**2, 0.0) / (spread + 2))
        self.left = self.left + np.outer(direction, direction) / 4
        return gradient + inverse.vectors @ (inverse.raised * (inverse.vectors.T @ direction))

    def _bent(self, before: Floats) -> Floats:
        """Return the covariance of the error that remains because the curvature changes within the error ``before``."""
        # Let the error be e, and its log odds have variance v over normal rows. To third order a Newton step leaves k v
        # e, where k is the third derivative of the outcome's rate over its first. For rare outcomes k is 1, and a step
        # leaves v / (1 + v) of e for every v.
        back = np.linalg.solve(self.first.T, self.whitening.T)
        variance = float(np.einsum("ij,ij->", back.T @ self.moments @ back, before))
        changed = abs(1 - 6 * self._common_size) * variance
        found = (changed / (1 + changed)) ** 2 * before
        # Corrected moves are exact for levels, and leave an error within these only.
        return found / 4 if self.has_levels else found

    # Columns with two values

    def _row_covariance(self) -> Floats:
        back = np.linalg.inv(self.first)
        found = back @ self.moments @ back.T
        total = max(float(found[0, 0]), 1e-9)
        return np.asarray(found[1:, 1:] / total - np.outer(found[0, 1:], found[0, 1:]) / total**2)

    def _cell_spread(self, own: list[int], rest: Floats) -> float:
        slopes = self.raw[1:]
        slopes[own] = 0.0
        return math.sqrt(max(float(slopes @ rest @ slopes), 0.0))

    def _level_move(self, at: float, change: float, noise: float, floor: float) -> float:
        # The rate moves as the linear step says, but stays away from 0 and 1 by its noise.
        at = float(np.clip(at, -_MOST_LEVEL, _MOST_LEVEL))
        rate, size = float(expit(at)), float(derivative(at))
        least, most = (min(max(floor * part, size * min(noise, 1.0)), part) for part in (rate, 1 - rate))
        return float(logit(np.clip(rate + size * change, least, 1 - most))) - at

    def _level_curvature(self, at: Floats) -> Floats:
        return derivative(at)

    def _level(self, last: LastStep, std: float) -> LogitLevel:
        size = float(derivative(last.before))
        rate, noise = float(expit(last.before)) + size * (last.seen - 1), size * last.noise
        rarer = max(min(rate, 1 - rate), noise)
        after, moved = self._measure_move(last)
        sampling = math.sqrt(rarer / max(last.rows, 1.0))
        return LogitLevel(last.before, after, moved, std, rate, noise, sampling)

    def _spread_of_index(self) -> float:
        """Return the variance of the log odds due to errors of the slopes. The intercept compensates for half of it."""
        # For rare outcomes E exp(a + z) = exp(a + v/2), for normal z of variance v.
        inverse = self.inverse
        assert inverse is not None
        error = inverse.vectors.T @ (self.noise + self.left) @ inverse.vectors
        start = self.start * self.first_scale
        return float(inverse.known @ np.diagonal(error)) / float(derivative(start))

    def _curved_error(self) -> float:
        # At log odds a the slope p(1 - p) of a rate p changes by the factor 1 - 2p per unit.
        start = self.start * self.first_scale
        return abs(math.tanh(start / 2)) * math.sqrt(max(self._spread_of_index(), 0.0))

    def _sampling(self, inverse: Inverse) -> Floats:
        """Return the sampling covariance for one row: the inverse Hessian, or with weights the sandwich."""
        around = inverse.of_sampling
        if self.meat is None:
            return around
        mixed, _ = inverse.likely_meat(*self.meat)
        return positive(around @ mixed @ around)

    def estimate(self) -> Estimate:
        assert self.inverse is not None
        sampling = self._sampling(self.inverse) / self.n
        theta = self.whitening.T @ self.b
        sample, noise, left = (
            self.whitening.T @ part @ self.whitening for part in (sampling, self.noise, self.left)
        )
        if self.plan.design.intercept:
            left[0, 0] += self._spread_of_index() ** 2 / 4
        privacy = noise + left
        design = self.plan.design
        assert design.y_half == 1.0
        found = self._in_units(theta, [sample + privacy, sample + privacy, privacy, left])
        levels = self._level_ends(sample + privacy)
        settled = self._find_settled(levels, sample + privacy) & (bool(levels) or not self.separated)
        return replace(found, separated=self.separated, levels=levels, settled=settled)
