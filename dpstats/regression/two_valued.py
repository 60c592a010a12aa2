"""Columns with two values in a log-linear or logistic path: its moves, its expected curvature, and what a level shows.

A Newton step from above lowers a log mean by at most 1, and a step toward a rate of 0 or 1 is as short. If both bounds
of a column are its only values, the path knows the average move of the rows at each bound. So it can take the exact
move instead. Everything here is post-processing of released values.

Source: Bhatia and Davis (2000), A better bound on the variance. Proof: docs/proofs/regression.md.
"""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.regression.bins import Floats
from dpstats.regression.curvature import Curvature, Inverse, positive
from dpstats.regression.path import Path
from dpstats.regression.plan import CENTER, STEPS, RegressionPlan
from dpstats.regression.two_valued_errors import Level, Levels

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
                size = share * kept * max(float(self._level_curvature(np.array([before]))[0]), 1e-12)
                along = np.linalg.solve(self.whitening.T, pick) / size
                seen, std = 1 + float(along @ gradient), noise * float(np.linalg.norm(along))
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
            found.append(Levels(int(j), low, high, upper, lower))
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
