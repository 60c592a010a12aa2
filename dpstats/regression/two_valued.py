"""The path of a logistic regression, and columns with two values in it and in log-linear paths.

Source: Bhatia and Davis (2000), A better bound on the variance. Proof: docs/proofs/regression.md.
"""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from scipy.special import expit, logit

from dpstats.data.values import as_int64
from dpstats.regression.blocks import Question
from dpstats.regression.coefficient_errors import Level, Levels, LogitLevel
from dpstats.regression.passes import Floats
from dpstats.regression.path import Curvature, Estimate, Inverse, Path, Seen, positive
from dpstats.regression.plan import CENTER, RATE, STEPS, RegressionPlan, step_name, step_number
from dpstats.regression.rows import CURVATURE, GRADIENT, MEAT, LogisticStep, Outcome, coordinates

# Columns with two values: their moves, their expected curvature, and what a level shows

# A Newton step from above lowers a log mean by at most 1, and a step toward a rate of 0 or 1 is as short. If both
# bounds of a column are its only values, the path knows the average move of the rows at each bound. So it can take
# the exact move instead. Everything here is post-processing of released values.

_TWO_VALUES = 0.9
"""A column has two values if its variance is this fraction of the largest that its mean and bounds allow."""
_LARGEST_ERROR = 0.15
"""Largest noise of this fraction that distinguishes columns with two values."""
_LARGEST_KNOWN_ERROR = 0.5
"""The same for declared factors, whose moments must be known roughly."""
_LEAST_SHARE = 1e-4
_RIDGE = 1e-3
FLOORS = (0.15, 0.05, 0.05, 0.05)
"""Least factor of the mean of a level in each step. The first one knows no working distribution yet."""
_UNCORRECTED = 0.1
"""Part of the correction of a move that counts as unknown."""
_NOISE = 0.35
"""Noise of the curvature in raised eigenvalues, as a factor, if the curvature is shrunk to its expected shape."""
_MOST_CELLS, _LEAST_CELL, _LEAST_EFFECT = 8, 1e-3, 0.1
"""Cells with nodes of their own: at most eight, each with this fraction of the rows, of columns whose part of the
linear predictor has at least this variance."""
_LEAST_MOVE = 0.01
"""The same for moves."""
_SCALINGS, _SCALED = 20, 1e-4
"""Most rounds of iterative proportional fitting, and the change of a fraction at which it ends."""
LARGEST_EFFECT = 8.0
_SETTLED = 3.0
"""Standard errors between the last gradient and the estimate of a level, or of a last move, that count as settled."""
_UNSETTLED = 0.2
"""Error of the linear predictor of a typical row, where its mean is an exponential, above which intervals by
derivatives may miss."""
_LEAST_CURVED = 1e-12
"""Least curvature of a level. Beyond it, its log odds have no more information than here."""
_MOST_UNCERTAIN = 0.5
"""Largest noise of the number of rows of a level, over this number. A level with more has no limits."""
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


@dataclass(frozen=True, eq=False)
class Cells:
    """Combinations of the values of some columns with two values.

    Attributes
    ----------
    own : list of int
        The columns.
    upper : array of shape (n_cells, n_columns)
        1 where the column is at its upper bound, and 0 where it is at its lower one.
    weights : array of shape (n_cells,)
        Fractions of the rows.
    """

    own: list[int]
    upper: Floats
    weights: Floats

    @property
    def centered(self) -> Floats:
        """The columns in half-widths, less their means over rows."""
        found: Floats = 2 * (self.upper - self.weights @ self.upper)
        return found

    @property
    def covariance(self) -> Floats:
        """The covariance of the columns in half-widths."""
        return np.asarray((self.centered.T * self.weights) @ self.centered)


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean and covariance of rows in half-widths about the released center, and the fraction at each upper bound."""

    mean: Floats
    covariance: Floats
    share: Floats
    total: float = 1.0
    """Average weight of a row."""

    def level(self, j: int, upper: bool) -> Floats:
        """Return the average row, with its constant, of the rows at one end of column j."""
        p = self.share[j]
        return np.append(1.0, self.mean + self.covariance[j] * (1 / (2 * p) if upper else -1 / (2 * (1 - p))))

    def cells(self, own: list[int]) -> Cells:
        """Return the cells of some columns with two values that have rows.

        Their fractions have the released moments of all pairs of columns, and the largest entropy. So the levels of a
        factor exclude each other.
        """
        upper = np.array(list(itertools.product((0.0, 1.0), repeat=len(own))))
        p = self.share[own]
        weights = np.prod(np.where(upper > 0, p, 1 - p), axis=1)
        pairs = []
        for a, b in itertools.combinations(range(len(own)), 2):
            both = p[a] * p[b] + self.covariance[own[a], own[b]] / 4
            both = min(max(both, p[a] + p[b] - 1, 0.0), p[a], p[b])
            wanted = np.array([1 - p[a] - p[b] + both, p[b] - both, p[a] - both, both])
            place = as_int64(2 * upper[:, a] + upper[:, b])
            pairs.append((place, np.eye(4)[:, place], np.maximum(wanted, 0.0)))
        for _ in range(_SCALINGS):
            before = weights
            for place, members, wanted in pairs:
                weights = weights * (wanted / np.maximum(members @ weights, 1e-300))[place]
            if np.abs(weights - before).max() < _SCALED:
                break
        kept = weights > _LEAST_CELL
        return Cells(own, upper[kept], weights[kept] / weights[kept].sum())

    def rows(self, cells: Cells) -> Floats:
        """Return the average row, with its constant, of each cell."""
        found = self.mean + cells.centered @ _regress(self.covariance, cells.own, cells.covariance).T
        return np.column_stack([np.ones(len(found)), found])

    @property
    def largest(self) -> Floats:
        """The largest variances that the means allow, for columns between -1 and 1 (Bhatia and Davis)."""
        found: Floats = 4 * self.share * (1 - self.share)
        return found


def _regress(covariance: Floats, own: list[int], within: Floats) -> Floats:
    """Return the slopes of all columns on some of them, which have the covariance ``within``."""
    found = covariance[:, own] @ np.linalg.pinv(positive(within), rcond=1e-6, hermitian=True)
    found[own] = np.eye(len(own))
    return np.asarray(found)


@dataclass(frozen=True, eq=False)
class LastStep:
    """The mean of one level by the last gradient alone.

    Attributes
    ----------
    row, weighted : array of shape (p,)
        The average row of the level, and the same with the weights of the curvature.
    before : float
        Its linear predictor before the step.
    seen, noise : float
        True over predicted mean before the step, in units in which the curvature of the level is 1, and its noise.
    rows : float
        Number of rows of the level.
    """

    row: Floats
    weighted: Floats
    before: float
    seen: float
    noise: float
    rows: float


class LevelPath(Path):
    """Base of the paths whose mean is a curve of the linear predictor."""

    _changes = 0.3
    _model_off = 0.3
    offset: float
    """Mean offset over rows."""

    def __init__(self, plan: RegressionPlan) -> None:
        super().__init__(plan)
        self.two_valued = np.zeros(self.d, dtype=np.bool_)
        # The last move in half-widths, and the standard deviations that were expected of it
        self.last_move, self.last_spread = np.zeros(self.p), np.zeros(self.p)
        self.last_steps: list[tuple[LastStep, LastStep]] = []

    def take(self, name: str, released: Any) -> None:
        if name == CENTER and self.plan.design.offsets is not None:
            middle, half = self.plan.design.offsets
            self.offset = middle + half * float(np.clip(self._rescale(released)[-1], -1.0, 1.0))
            released = released[:-1]
        super().take(name, released)

    def _correct(self, likely: Curvature) -> Curvature:
        # The curvature changes along a move, so a move reveals little about the curvature at its endpoint.
        return likely

    def _resize(self, part: Curvature, now: Curvature) -> Curvature:
        return part.no_larger_than(now)

    @abstractmethod
    def _row_covariance(self) -> Floats:
        """Return the covariance of the rows without weights, in half-widths."""

    @abstractmethod
    def _level_move(self, at: float, change: float, noise: float, floor: float) -> float:
        """Return the move of a level's linear predictor ``at`` that changes its mean as a linear ``change`` would."""

    @abstractmethod
    def _level_curvature(self, at: Floats) -> Floats:
        """Return the curvature of rows at linear predictors, in the units of the released curvature."""

    @abstractmethod
    def _level(self, last: LastStep, std: float) -> Level:
        """Return the level with the standard error ``std`` of its linear predictor."""

    @abstractmethod
    def _curved_error(self) -> float:
        """Return the typical error of a linear predictor, times the relative change of its slope per unit."""

    @abstractmethod
    def _cell_spread(self, own: list[int], rest: Floats) -> float:
        """Return the standard deviation of the linear predictor within the cells of the columns ``own``."""

    @property
    def has_levels(self) -> bool:
        """Whether some column has two values, or the model has one level only."""
        return self.d == 0 or bool(self.two_valued.any())

    @property
    def raw(self) -> Floats:
        """The coefficients in half-widths about the center, the intercept first."""
        found: Floats = self.whitening.T @ self.b
        return found

    # Moments

    def _shares(self, mean: Floats | float = 0.0) -> Floats:
        return np.clip((1 + mean + self.shift) / 2, _LEAST_SHARE, 1 - _LEAST_SHARE)

    def _weighted_moments(self, inverse: Inverse) -> Moments:
        """Return the moments of the rows with the weights of the curvature."""
        back = np.linalg.inv(self.whitening)
        matrix = back @ ((inverse.vectors * inverse.known) @ inverse.vectors.T) @ back.T
        total = max(float(matrix[0, 0]), 1e-9)
        mean = np.clip(matrix[0, 1:] / total, -2.0, 2.0)
        covariance = matrix[1:, 1:] / total - np.outer(mean, mean)
        return Moments(mean, covariance, self._shares(mean), total)

    def _row_moments(self) -> Moments:
        """Return the moments of the rows without weights. Columns with two values have the variance of their mean."""
        found = Moments(np.zeros(self.d), self._row_covariance(), self._shares())
        own = np.maximum(np.diagonal(found.covariance), 1e-3 * found.largest)
        factor = np.where(self.two_valued, np.sqrt(found.largest / own), 1.0)
        return Moments(found.mean, found.covariance * np.outer(factor, factor), found.share)

    def _prepare(self, t: int, spread: float) -> Inverse:
        """Return the inverse of a step, after looking for columns with two values in its curvature."""
        # `spread` is the standard deviation of the linear predictor of a typical row before the first step.
        if t > 1 and self.has_levels:
            self.shape = self._expected_shape()
        inverse = self._inverse()
        found = self.two_valued
        if self.plan.design.intercept:
            # A column has two values if noise of the curvature does not explain its variance.
            moments = self._weighted_moments(inverse)
            noise = math.sqrt(float(np.diagonal(self.found[-1].variance).mean()))
            error = self._moment_errors(moments, noise)
            ratio = np.diagonal(moments.covariance) / moments.largest
            seen = (ratio > _TWO_VALUES - error / 2) & (error < _LARGEST_ERROR)
            known = np.array(self.plan.design.two_valued or [False] * self.d, dtype=np.bool_)
            found = found | seen | (known & (error < _LARGEST_KNOWN_ERROR))
        if (found != self.two_valued).any():
            self.two_valued = found
            if t > 1:
                self.shape = self._expected_shape()
            inverse = self._inverse()
            # A slope is identified if its error is a small part of its variance before the first step.
            self.unknown = inverse.unknown(spread)
        return inverse

    def _moment_errors(self, found: Moments, noise: float) -> Floats:
        """Return the noise of the variance of each column over the largest one, for this noise of the curvature."""
        back = np.linalg.inv(self.whitening)
        return np.asarray(noise * (back[1:] ** 2).sum(axis=1) / (found.total * found.largest))

    # Moves

    def _correct_levels(self, move: Floats, noise: float, inverse: Inverse, t: int) -> Floats:
        """Return the correction of a Newton move that gives the levels of columns with two values their exact moves."""
        # It changes these columns and the center alone. For the levels of one factor it solves the equations of all.
        # For several factors it is of second order in the move, so the steps still converge as Newton's do. Without
        # such columns it only shortens a move of the center.
        if not self.plan.design.intercept:
            return np.zeros_like(move)
        moments = self._weighted_moments(inverse)
        theta, raw, error = self.raw, self.whitening.T @ move, self.whitening.T @ inverse.matrix * noise
        average = np.append(1.0, moments.mean)
        known = self._moment_errors(moments, inverse.noise) < _LARGEST_KNOWN_ERROR
        own, floor = np.flatnonzero(self.two_valued & known), FLOORS[t - 1]

        def lack(row: Floats) -> float:
            """Return the exact move of rows, less their Newton move."""
            std, linear = float(np.linalg.norm(row @ error)), float(row @ raw)
            return self._level_move(float(row @ theta) + self.offset, linear, std, floor) - linear

        middle = lack(average)
        # The columns that move the most have a joint distribution, and each of the others its own two levels.
        cells = self._cells(np.where(known, raw[1:], 0.0), moments, _LEAST_MOVE)
        lacks = np.array([lack(row) for row in moments.rows(cells)])
        center, block = float(cells.weights @ lacks), moments.covariance.copy()
        block[np.ix_(cells.own, cells.own)] = cells.covariance
        covariances = np.zeros(self.d)
        covariances[cells.own] = (cells.weights * lacks) @ cells.centered
        for j in set(own) - set(cells.own):
            p = moments.share[j]
            upper, lower = lack(moments.level(int(j), True)), lack(moments.level(int(j), False))
            covariances[j] = 2 * p * (1 - p) * (upper - lower)
            # The average row has a part of every correction of the center. It counts once.
            center += p * upper + (1 - p) * lower - middle
        fix = np.zeros(self.p)
        if own.size == 0:
            # Slopes of other columns move the center too, so that a longer move may be wrong. A shorter one is not.
            longer = center * float(average @ raw) > 0 and self.d > 0
            fix[0] = 0.0 if longer else center
            return np.asarray(np.linalg.solve(self.whitening.T, fix))
        block = positive(block[np.ix_(own, own)])
        ridge = _RIDGE * np.maximum(np.diagonal(block), 0.1 * moments.largest[own])
        fix[1 + own] = np.linalg.solve(block + np.diag(ridge), covariances[own])
        fix[0] = center - float(moments.mean @ fix[1:])
        return np.asarray(np.linalg.solve(self.whitening.T, fix))

    def _surprise(self, move: Floats, noise: float, inverse: Inverse, t: int) -> Floats:
        """Return the covariance of the part of a move that the stated errors do not explain."""
        # Averaging then gives no weight to an estimate that had not arrived.
        if t == 1:
            return np.zeros((self.p, self.p))
        own = (inverse.vectors * (noise / inverse.raised) ** 2) @ inverse.vectors.T
        expected = self.left + self.noise + own
        values, vectors = np.linalg.eigh((expected + expected.T) / 2)
        size = float(((vectors.T @ move) ** 2 / np.maximum(values, 1e-14)).sum())
        explained = self.p + 2 * math.sqrt(2 * self.p)
        return max(1 - explained / max(size, 1e-9), 0.0) * np.outer(move, move)

    def _take_level_step(
        self, name: str, gradient: Floats, noise: float, inverse: Inverse, t: int, cap: float = math.inf
    ) -> float:
        """Take a step whose move is corrected. Return the factor by which ``cap`` shortened it."""
        plain = inverse(gradient)
        fix = self._correct_levels(plain, noise, inverse, t)
        move = plain + fix
        far = max(float(np.linalg.norm(move)) / cap, 1.0)
        before, old, error = self.raw, self.whitening, self.left + self.noise
        self.left = self.left + self._surprise(move / far, noise, inverse, t)
        if t == STEPS:
            self._look_at_levels(gradient, noise, inverse)
        added = inverse.vectors @ (inverse.raised * (inverse.vectors.T @ fix))
        self._step(name, (gradient + added) / far, noise, inverse)
        # The third step changes the coordinates.
        back = np.linalg.solve(self.whitening.T, old.T) if self.whitening is not old else np.eye(self.p)
        for rest in (back @ ((1 - 1 / far) * move), back @ (_UNCORRECTED * fix)):
            self.left = self.left + np.outer(rest, rest)
        self.last_move = self.raw - before
        self.last_spread = np.sqrt(np.maximum(np.diagonal(old.T @ error @ old), 0.0))
        return far

    # Expected curvature

    def _cells(self, slopes: Floats, moments: Moments, least: float = _LEAST_EFFECT) -> Cells:
        """Return the cells of the columns with two values for which these slopes vary most over rows."""
        variances = np.where(self.two_valued, slopes**2 * moments.largest, 0.0)
        found = Cells([], np.zeros((1, 0)), np.ones(1))
        for j in np.argsort(-variances):
            if variances[j] <= least:
                break
            wider = moments.cells([*found.own, int(j)])
            if wider.weights.size > _MOST_CELLS:
                break
            found = wider
        return found

    def _effects(self) -> Cells:
        """Return the cells of the columns with the largest effects."""
        return self._cells(self.raw[1:], self._row_moments())

    def _expected_shape(self) -> Floats:
        """Return the curvature that the working model expects, up to a factor."""
        # It is a sum over cells of the columns with two values. Within a cell the other columns are normal about their
        # regression on these.
        cells = self._effects()
        own = cells.own
        if not own:
            return self.shape
        covariance = self._row_covariance()
        within = covariance[np.ix_(own, own)]
        slopes = _regress(covariance, own, within)
        rest = positive(covariance - slopes @ within @ slopes.T)
        rest[own] = 0.0
        rest[:, own] = 0.0
        theta, found = self.raw, np.zeros((self.p, self.p))
        spread = self._cell_spread(own, rest)
        for upper, share in zip(cells.upper, cells.weights, strict=True):
            at = 2 * upper - 1 - self.shift[own]
            linear = theta[0] + self.offset + float(theta[1:][own] @ at) + spread * _NODES
            curvature = share * float(_WEIGHTS @ self._level_curvature(linear))
            mean = np.append(1.0, slopes @ at)
            found += curvature * np.outer(mean, mean)
            found[1:, 1:] += curvature * rest
        found = self.whitening @ found @ self.whitening.T
        return found * self.p / max(float(np.trace(found)), 1e-300)

    def _inverse(self) -> Inverse:
        if not self.has_levels:
            return super()._inverse()
        found = self._estimate_curvature()
        least = Curvature(found.mean, found.variance * _NOISE**2)
        return least.inverted(self._least_size, self._common_size)

    # Levels of the estimate

    def _look_at_levels(self, gradient: Floats, noise: float, inverse: Inverse) -> None:
        """Keep what the last gradient says of every level. It is unbiased for any earlier steps."""
        if not self.has_levels:
            return
        moments, weighted, theta = self._row_moments(), self._weighted_moments(inverse), self.raw
        for j in np.flatnonzero(self.two_valued):
            both = []
            for upper in (True, False):
                row = moments.level(int(j), upper)
                share = float(moments.share[j] if upper else 1 - moments.share[j])
                before = float(row @ theta) + self.offset
                # The indicator of the level, as a function of a row
                side = 1.0 if upper else -1.0
                pick = np.append((1 + side * self.shift[j]) / 2, side / 2 * np.eye(self.d)[j])
                length = float(np.linalg.norm(self.whitening @ row))
                kept = min(1.0, self.radius / max(length, 1e-12)) ** 2
                size = share * kept * max(float(self._level_curvature(np.array([before]))[0]), _LEAST_CURVED)
                along = np.linalg.solve(self.whitening.T, pick) / size
                # The change is of the mean of as many rows as were released. If noise may explain these rows, the
                # level has no limits.
                change, uncertain = float(along @ gradient), self._stage_std(CENTER) / 2 / share
                std = math.hypot(noise * float(np.linalg.norm(along)), change * uncertain)
                seen, std = 1 + change, math.inf if uncertain > _MOST_UNCERTAIN else std
                both.append(LastStep(row, weighted.level(int(j), upper), before, seen, std, self.n * share))
            self.last_steps.append((both[0], both[1]))

    def _measure_move(self, last: LastStep) -> tuple[float, float]:
        """Return the linear predictor of the estimate for a level, and the last move of the rows with information."""
        return float(last.row @ self.raw) + self.offset, float(last.weighted @ self.last_move)

    def _level_ends(self, covariance: Floats) -> tuple[Levels, ...]:
        """Return the levels of each column with two values, for a covariance of the coefficients in half-widths."""
        found = []
        design = self.plan.design
        for j, pair in zip(np.flatnonzero(self.two_valued), self.last_steps, strict=True):
            stds = [math.sqrt(max(float(last.row @ covariance @ last.row), 0.0)) for last in pair]
            # Both errors together are the error of the difference of the levels.
            scale = 2 * math.sqrt(max(float(covariance[1 + j, 1 + j]), 0.0)) / max(math.hypot(*stds), 1e-150)
            upper, lower = (self._level(last, scale * std) for last, std in zip(pair, stds, strict=True))
            low, high = (float(design.center[j] + side * design.half[j]) for side in (-1, 1))
            found.append(Levels(int(j), low, high, 2 * float(design.half[j]), upper, lower))
        return tuple(found)

    def _find_settled(self, levels: tuple[Levels, ...], covariance: Floats) -> NDArray[np.bool_]:
        """Return whether each slope has settled: the last gradient and the last move agree with the stated errors."""
        # The coefficients in half-widths have this covariance. The next move would be far smaller than the last.
        expected = self.last_spread**2 + np.maximum(np.diagonal(covariance), 0.0)
        settled = np.abs(self.last_move) < _SETTLED * np.sqrt(expected)
        if not levels:
            settled[:] &= self._curved_error() <= _UNSETTLED
        for each in levels:
            settled[1 + each.place] = each.is_settled(_SETTLED)
        return np.asarray(settled[int(self.plan.design.intercept) :])


# Normal log odds: how a Newton step at coefficients of 0 distorts them

_FINE_NODES, _FINE_WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
_FINE_WEIGHTS = _FINE_WEIGHTS / _FINE_WEIGHTS.sum()
_MOST = 4.0
"""Above this standard deviation all log odds give nearly the same gradient. Later steps approach them from below."""


def derivative(odds: Any) -> NDArray[np.float64]:
    """Return p(1 - p) at log odds."""
    p = expit(odds)
    return np.asarray(p * (1 - p))


def _center(rate: float, spread: float) -> float:
    """Return the mean of normal log odds with standard deviation ``spread`` that gives outcomes this rate."""
    reach = 40 + 4 * spread
    return float(optimize.brentq(lambda a: expit(a + spread * _FINE_NODES) @ _FINE_WEIGHTS - rate, -reach, reach))


def normal_log_odds(start: float, spread: float) -> tuple[float, float]:
    """Return the factor that lengthens a first Newton step, and the correction of its intercept.

    Let the log odds be normal. By Stein's lemma the gradient at coefficients of 0 is E[p(1 - p)] times the true
    coefficients. The step divides by p(1 - p) at ``start`` instead. ``spread`` is the standard deviation of the log
    odds after that step. The log odds before and after the correction give the same rate of outcomes.
    """
    if spread <= 0:
        return 1.0, 0.0
    rate, pull = float(expit(start)), float(derivative(start)) * spread

    def short(s: float) -> float:
        return s * float(derivative(_center(rate, s) + s * _FINE_NODES) @ _FINE_WEIGHTS) - pull

    end = max(_MOST, spread)
    found = end if short(end) <= 0 else float(optimize.brentq(short, 0.0, end, xtol=1e-6))
    farther = max(found / spread, 1.0)
    return farther, _center(rate, farther * spread) - start


# The path of a logistic regression: the likelihood with bounded rows

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
        size = max(float(derivative(last.before)), _LEAST_CURVED)
        rate, noise = float(expit(last.before)) + size * (last.seen - 1), size * last.noise
        rarer = max(min(rate, 1 - rate), noise)
        after, moved = self._measure_move(last)
        rows = max(last.rows, 1.0)
        return LogitLevel(last.before, after, moved, std, rate, noise, math.sqrt(min(rarer, 1.0) / rows), 1 / rows)

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
        sampling = self._sampling(self.inverse) / self.n + self.earlier
        theta = self.whitening.T @ self.b
        sample, noise, left = (self.whitening.T @ part @ self.whitening for part in (sampling, self.noise, self.left))
        if self.plan.design.intercept:
            left[0, 0] += self._spread_of_index() ** 2 / 4
        privacy = noise + left
        design = self.plan.design
        assert design.y_half == 1.0
        found = self._in_units(theta, [sample + privacy, sample + privacy, privacy, left])
        levels = self._level_ends(sample + privacy)
        settled = self._find_settled(levels, sample + privacy) & (bool(levels) or not self.separated)
        return replace(found, separated=self.separated, levels=levels, settled=settled)
