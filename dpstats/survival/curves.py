"""Kaplan-Meier curves of noisy cells: shapes of events inside bins, usable ranges, and confidence limits.

Derivation: docs/intervals/survival.md. Arrays have the releases first and the bins last.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpstats.data.values import as_int64

Floats = NDArray[np.float64]


# Shapes of the events inside bins

# A row that is censored inside a bin was at risk of a part of the bin's events only. The part depends on the positions
# of the events. Let u and v be relative positions of events and of censored rows, X = sum(u - 1/2) and
# Q = sum(v (1 - v)). With the event density 1 + b (2u - 1), the event probability of a bin is q = d/E' with

#     E' = E - Q r,    r = (b + q (1 - b/2))/(1 - q (1/2 - b/4)) if b > 0, otherwise b + q/(1 - q/2).

PRIOR_STD = 1.2
"""Standard deviation of slopes: noisy slopes are shrunk toward log(1 - q)/2, the slope of a constant hazard."""
MISFIT = 0.12
"""Error of a straight line as the shape of the events, as a fraction of its slope, with smooth censoring.

It is 0.1 to 0.15 for hazards t^-0.5 and for early peaks, if rows are censored at a rate of 1 a bin.
"""
_STEADY = 1 / 3
"""Mean position of rows that leave at a constant rate, weighted by 1 - v: the ratio of Q to the sum of 1 - v."""
_APART_STD = 0.15
"""Standard deviation of distances from this position: noisy ones are shrunk toward 0."""
_TILT = 6.0
"""Early leavers were at risk of few early events: what the squared distance from this position adds to a slope below 0.

It is 1 to 15 for hazards that fall, with leavers at one moment or at a falling rate. The error is as large as itself.
"""
_HIDDEN, _EVEN = 3.0, 0.03
"""Error of any shape, such as a peak inside the bin, for each unit of the distance beyond 0.03."""
_BENT = 0.3
"""Error of a straight line where many rows have events: for each unit of q (1 + 6Q/E).

The slope for E' has an error of 0.1 to 0.4 at hazards of 0.3 to 0.5, and of up to 0.8 at larger ones. This holds for
peaks, log-normal times, bathtubs and cured shares.
"""
LARGEST_SLOPE = 3.0  # of events that are all at one end of their bin
CROWDED, _SLIGHT = 1.5, 0.4
"""Slope beyond which most events of a bin are near one end of it, and one with which they are not."""
_FALSELY = 0.05
"""Share of tables in which noise may name a bin of a slight slope."""
_LARGEST_HAZARD = 0.95
ANY_SHAPE = 1.0
"""Error of a slope without a release."""
MATTERS = 0.6
"""Bins are named if the unknown shape of their hazard may move a result by this part of its standard error."""
_LEAST_EFFECTIVE = 0.3
_ROUNDS = 8


@dataclass(frozen=True, eq=False)
class Shapes:
    """Densities of events inside bins.

    Attributes
    ----------
    slopes : array
        b of the density 1 + b (2u - 1).
    known : array
        The weight of the positions in the slope, between 0 and 1. A shape that noise hides has the weight 0.
    effective : array
        E', the effective number at risk: q is d/E'.
    lost : array
        r, by which Q is multiplied in E'.
    per_event : array
        Derivative of the slope by X.
    apart : array
        Mean position of the rows that leave, weighted by 1 - v, less 1/3; toward 0 where noise hides it.
    mixed : array
        q (1 + 6Q/E): large where many rows have events and others leave.
    """

    slopes: Floats
    known: Floats
    effective: Floats
    lost: Floats
    per_event: Floats
    apart: Floats
    mixed: Floats

    @classmethod
    def fit(
        cls, events: Floats, at_risk: Floats, positions: Floats, noise_std: float, first_edge: Floats | None = None
    ) -> Shapes:
        """Return the shapes of events (..., bins) with positions (..., 2, bins). ``noise_std`` is of X.

        Iterations find the fixed point of slope and event probability, in turn. ``first_edge`` is the cell of that
        edge, the sum of 1 - v over the rows that leave in the first bin. In other bins their mean position is hidden.
        """
        at_risk = np.maximum(at_risk, 1.0)
        X, Q = positions[..., 0, :], limit_positions(positions[..., 1, :], at_risk)
        effective, apart = at_risk, np.zeros_like(at_risk)
        if first_edge is not None:
            left = np.maximum(first_edge, 1.0)
            noise = noise_std / 2 / left  # the noise of Q is half of the noise of X
            shrunk = _APART_STD**2 / (_APART_STD**2 + noise**2)
            apart[..., 0] = shrunk * (np.clip(Q[..., 0] / left, 0.0, 1.0) - _STEADY)
        for _ in range(_ROUNDS):
            hazard = np.clip(events / effective, 0.0, _LARGEST_HAZARD)
            found = np.maximum(hazard * at_risk, 1.0)
            known = PRIOR_STD**2 / (PRIOR_STD**2 + 36 * (noise_std**2 + found / 12) / found**2)
            # The late events of censored rows were not seen: the second summand is their share in the mean.
            slopes = 6 * X / found + 3 * Q / ((1 - hazard / 2) * at_risk)
            slopes = np.clip(slopes, -LARGEST_SLOPE, LARGEST_SLOPE)
            slopes = known * slopes + (1 - known) * np.log1p(-hazard) / 2
            lost = lost_exposure(slopes, hazard, apart)
            least = np.maximum(_LEAST_EFFECTIVE * at_risk, events / _LARGEST_HAZARD)
            effective = np.maximum(at_risk - Q * lost, least)
        return cls(slopes, known, effective, lost, 6 * known / found, apart, hazard * (1 + 6 * Q / at_risk))

    @property
    def hidden_std(self) -> Floats:
        """Standard deviation of the slope that noise hides."""
        return np.asarray(PRIOR_STD * np.sqrt(1 - self.known))

    @property
    def crowded(self) -> NDArray[np.bool_]:
        """In which bins most events are near one end, and noise does not explain it."""
        found = np.abs(self.slopes)
        noise = PRIOR_STD * np.sqrt(self.known * (1 - self.known))
        most = -ndtri(_FALSELY / (2 * found.shape[-1]))  # Bonferroni
        return np.asarray((found > CROWDED) & (found > _SLIGHT + most * noise))

    @property
    def unknown_std(self) -> Floats:
        """Standard deviation of the slope that remains unknown, due to noise and shapes other than a straight line."""
        straight = np.hypot(MISFIT * self.slopes, np.minimum(self.slopes, 0.0) * _tilt(self.apart))
        bent = np.hypot(_BENT * self.mixed, _HIDDEN * np.maximum(np.abs(self.apart) - _EVEN, 0.0))
        return np.hypot(np.hypot(self.hidden_std, straight), bent)


def _tilt(apart: Floats) -> Floats:
    return np.asarray(_TILT * np.minimum(apart, 0.0) ** 2)


def lost_exposure(slopes: Floats, hazard: Floats, apart: Floats) -> Floats:
    """Return r, by which Q is multiplied in E', for these slopes, hazards and positions of the rows that leave."""
    late = np.maximum(slopes, 0.0)
    lost = (late + hazard * (1 - late / 2)) / (1 - hazard * (0.5 - late / 4))
    return np.asarray(lost + np.minimum(slopes, 0.0) * (1 + _tilt(apart)))


def limit_positions(censored: Floats, at_risk: Floats) -> Floats:
    """Return sums of v (1 - v), limited to possible ones: E is at least the sum of v, and so three times the mean Q."""
    return np.clip(censored, 0.0, np.maximum(at_risk, 0.0) / 3)


def most_censored(edges: Floats) -> Floats:
    """Return bounds of sums of v (1 - v) that they hardly exceed, from the cells of the edges before the bins.

    Such a cell has 1 - v of each row that leaves in the bin, three times v (1 - v) at an even rate, and rows of the bin
    before.
    """
    return np.maximum(edges, 0.0) / 3


# Curves

Places = NDArray[np.intp]
LEAST_AT_RISK = 5.0
LEAST_IN_NOISE = 2.0
"""A bin is usable if the number at risk exceeds 5 rows and 2 standard deviations of its noise."""


def risk_sums(n_bins: int, n_causes: int) -> Floats:
    """Return the cells that are at risk in each bin, as zeros and ones of shape (bins, cells)."""
    later = np.triu(np.ones((n_bins, n_bins)))
    return np.hstack([*[later] * n_causes, np.zeros((n_bins, 1)), later])


@dataclass(frozen=True, eq=False)
class Curves:
    """The survival curves of one group in some releases.

    Attributes
    ----------
    cells : array of shape (releases, cells)
    n_bins, n_causes : int
    noise : array of shape (cells, cells)
        Covariance of the noise of the cells; zeros where there is none.
    """

    cells: Floats
    n_bins: int
    n_causes: int
    noise: Floats

    @cached_property
    def events(self) -> Floats:
        """Events of each cause: shape (releases, causes, bins)."""
        count = self.n_causes * self.n_bins
        return self.cells[:, :count].reshape(len(self.cells), self.n_causes, self.n_bins)

    @cached_property
    def all_events(self) -> Floats:
        """Events of all causes: shape (releases, bins)."""
        return np.asarray(self.events.sum(axis=1))

    @cached_property
    def at_risk(self) -> Floats:
        """Number at risk: shape (releases, bins)."""
        return np.asarray(self.cells @ risk_sums(self.n_bins, self.n_causes).T)

    @cached_property
    def at_risk_std(self) -> Floats:
        """Standard deviation of the noise of the number at risk: shape (bins,); public."""
        sums = risk_sums(self.n_bins, self.n_causes)
        # A total that is pinned to n has a variance of 0, which rounding may put below 0.
        variance = ((sums @ self.noise) * sums).sum(axis=1)
        return np.asarray(np.sqrt(np.maximum(variance, 0.0)))

    @cached_property
    def n_usable(self) -> Places:
        """How many bins are usable, from the first on: shape (releases,)."""
        least = np.maximum(LEAST_IN_NOISE * self.at_risk_std, LEAST_AT_RISK)
        usable = (self.at_risk > least) & (self.at_risk > self.all_events)
        return np.asarray(np.logical_and.accumulate(usable, axis=1).sum(axis=1))

    @cached_property
    def usable(self) -> NDArray[np.bool_]:
        """Which bins are usable: shape (releases, bins)."""
        return np.arange(self.n_bins) < self.n_usable[:, None]

    @cached_property
    def hazards(self) -> Floats:
        """Hazard of each cause in each bin, 0 beyond the usable range: shape (releases, causes, bins)."""
        return np.asarray(np.where(self.usable[:, None], self.events, 0.0) / self.effective[:, None])

    @cached_property
    def effective(self) -> Floats:
        """Effective number at risk: events over it are the hazard. 1 beyond the usable range. (releases, bins)"""
        return np.where(self.usable, self.at_risk, 1.0)

    @cached_property
    def cut(self) -> NDArray[np.bool_]:
        """Whether a hazard so far is reduced to the largest one, so that survival may be 0: shape (releases, bins)."""
        return np.zeros(self.at_risk.shape, dtype=bool)

    @cached_property
    def survival(self) -> Floats:
        """Kaplan-Meier at the end of each bin: shape (releases, bins). Noise may take it above 1."""
        return np.cumprod(1 - self.hazards.sum(axis=1), axis=1)

    @cached_property
    def increments(self) -> Floats:
        """Greenwood's sum, bin by bin: d/(E (E - d)), of shape (releases, bins)."""
        hazard = self.hazards.sum(axis=1)
        return np.asarray(hazard / (self.effective * (1 - hazard)))

    @cached_property
    def greenwood(self) -> Floats:
        """Greenwood's sum up to the end of each bin, which never decreases: shape (releases, bins)."""
        return np.maximum.accumulate(np.maximum(np.cumsum(self.increments, axis=1), 0.0), axis=1)

    @cached_property
    def effective_size(self) -> Floats:
        """The number of uncensored rows of the same variance: shape (releases, bins)."""
        survival = np.clip(self.survival, 1e-6, 1 - 1e-6)
        with np.errstate(divide="ignore"):
            size = (1 - survival) / (survival * self.greenwood)
        at_risk = np.where(self.usable, self.at_risk, np.inf)
        least = np.maximum(np.minimum.accumulate(at_risk, axis=1), 1.0)
        # The size is between the smallest number at risk so far and the first one.
        most = np.maximum(self.at_risk[:, :1], least)
        return np.asarray(np.clip(size, np.minimum(least, most), most))

    @cached_property
    def gradients(self) -> Floats:
        """Gradients of the log of the survival by the cells: shape (releases, bins, cells)."""
        m = self.n_bins
        a, total = self.increments, np.cumsum(self.increments, axis=1)
        own = np.where(self.usable, 1 / (self.effective * (1 - self.hazards.sum(axis=1))), 0.0)
        end, place = np.arange(m)[:, None], np.arange(m)[None, :]
        before = place <= end
        # Greenwood's sum up to the earlier of both.
        until = np.where(before, total[:, None, :], total[:, :, None])
        of_events = until - before * own[:, None, :]
        zero = np.zeros((len(a), m, 1))
        return np.concatenate([*[of_events] * self.n_causes, zero, until], axis=2)

    @cached_property
    def noise_variance(self) -> Floats:
        """Variance of the noise of the survival: shape (releases, bins)."""
        if not self.noise.any():
            return np.zeros_like(self.survival)
        of_log = ((self.gradients @ self.noise) * self.gradients).sum(axis=2)
        of_log = of_log + self.position_variance(self.per_at_risk)
        return np.asarray(np.maximum(of_log, 0.0) * np.clip(self.survival, 0.0, 1.0) ** 2)

    @property
    def per_at_risk(self) -> Floats:
        """Derivatives of the log of the survival by the effective numbers at risk: (releases, bins, bins)."""
        return np.tril(np.ones((self.n_bins, self.n_bins))) * self.increments[:, None, :]

    # Shapes of the hazard and positions inside the bins; a table without positions shows no shape.

    @property
    def shape_std(self) -> Floats:
        """Standard deviation that unknown shapes give the log of the survival in each bin: (releases, bins)."""
        first = self.n_causes * self.n_bins
        left = most_censored(self.cells[:, first : first + self.n_bins])
        return np.where(self.usable, np.abs(self.increments) * ANY_SHAPE * left, 0.0)

    @property
    def shaped(self) -> NDArray[np.bool_]:
        """In which bins the curve depends on an unknown shape of the hazard: shape (releases, bins)."""
        survival = np.clip(self.survival, 1e-6, 1.0)
        error = np.sqrt(self.greenwood + self.noise_variance / survival**2)
        return np.asarray(self.usable & (self.shape_std > MATTERS * error))

    def position_variance(self, per_at_risk: Floats, positions: Floats | None = None) -> Floats | float:
        """Return the variance due to noise in the positions and to shapes that remain unknown.

        Parameters
        ----------
        per_at_risk : array of shape (releases, ..., bins)
            Derivatives of an estimate by the effective numbers at risk.
        positions : array of the same shape, optional
            Further derivatives by the sums of positions of events, 0 by default.
        """
        return 0.0

    def noise_errors(self, release: int, cell_noise: Floats) -> Floats:
        """Return the errors (draws, bins) of the log of the survival that draws of the noise make."""
        return np.asarray(cell_noise @ self.gradients[release].T)

    @cached_property
    def sampling_variance(self) -> Floats:
        """Variance of the survival in samples: shape (releases, bins)."""
        survival = np.clip(self.survival, 0.0, 1.0)
        return survival * (1 - survival) / self.effective_size

    def unseen_variance(self, size: Floats) -> Floats:
        """Return the variance of one event that was not seen among the rows at risk: shape (releases, bins).

        One among few that remain lowers the survival by more than one among the rows of an estimate of this size.
        """
        before = np.hstack([np.ones((len(self.survival), 1)), self.survival[:, :-1]])
        of_one = np.clip(before, 0.0, 1.0) / np.maximum(self.effective, 1.0)
        return np.where(self.usable, np.maximum(of_one**2 - 1 / size**2, 0.0), 0.0)

    @cached_property
    def estimate(self) -> Floats:
        """Survival at the end of each bin, in [0, 1], never increasing; NaN beyond the usable range."""
        from scipy.optimize import isotonic_regression

        found = np.full(self.survival.shape, np.nan)
        for release, last in enumerate(self.n_usable.tolist()):
            if last:
                values = np.clip(self.survival[release, :last], 0.0, 1.0)
                found[release, :last] = isotonic_regression(values, increasing=False).x
        return found


@dataclass(frozen=True, eq=False)
class PlacedCurves(Curves):
    """Curves of cells that were released with positions inside the bins.

    Attributes
    ----------
    positions : array of shape (releases, 2, bins)
        Sums of u - 1/2 of events and of v (1 - v) of censored rows.
    position_std : array of shape (2,)
        Standard deviations of their noise.
    """

    positions: Floats
    position_std: Floats

    @cached_property
    def shapes(self) -> Shapes:
        """Shapes of the events of all causes inside the bins."""
        first_edge = self.cells[:, self.n_causes * self.n_bins]
        return Shapes.fit(self.all_events, self.at_risk, self.positions, float(self.position_std[0]), first_edge)

    @cached_property
    def censored_positions(self) -> Floats:
        """Sums of v (1 - v), limited to possible ones: shape (releases, bins)."""
        return limit_positions(self.positions[:, 1], self.at_risk)

    @cached_property
    def effective(self) -> Floats:
        return np.where(self.usable, self.shapes.effective, 1.0)

    @cached_property
    def cut(self) -> NDArray[np.bool_]:
        beyond = self.usable & (self.all_events > _LARGEST_HAZARD * (1 - 1e-9) * self.effective)
        return np.asarray(np.logical_or.accumulate(beyond, axis=1))

    def _per_position(self, per_at_risk: Floats) -> tuple[Floats, Floats]:
        """Return the derivatives by both sums of positions, from derivatives by the effective numbers at risk."""
        Q, shapes = self.censored_positions, self.shapes
        return self._times(per_at_risk, -Q * shapes.per_event), self._times(per_at_risk, -shapes.lost)

    def _per_slope(self, per_at_risk: Floats) -> Floats:
        """Return the derivatives by slopes, in units of their unknown part."""
        return self._times(per_at_risk, self.censored_positions * self.shapes.unknown_std)

    @property
    def shape_std(self) -> Floats:
        return np.abs(self.increments * self.censored_positions * self.shapes.unknown_std * self.usable)

    def _times(self, derivatives: Floats, factors: Floats) -> Floats:
        factors = np.where(self.usable, factors, 0.0)
        return derivatives * factors.reshape(len(factors), *[1] * (derivatives.ndim - 2), -1)

    def position_variance(self, per_at_risk: Floats, positions: Floats | None = None) -> Floats:
        by_events, by_censored = self._per_position(per_at_risk)
        if positions is not None:
            by_events = by_events + positions
        of_noise = (by_events * self.position_std[0]) ** 2 + (by_censored * self.position_std[1]) ** 2
        return np.asarray((of_noise + self._per_slope(per_at_risk) ** 2).sum(axis=-1))

    def noise_errors(self, release: int, cell_noise: Floats) -> Floats:
        size, m = self.cells.shape[1], self.n_bins
        found = super().noise_errors(release, cell_noise[:, :size])
        parts = *self._per_position(self.per_at_risk), self._per_slope(self.per_at_risk)
        for part, gradient in enumerate(parts):
            start = size + part * m
            found = found + cell_noise[:, start : start + m] @ gradient[release].T
        return found


# Confidence limits: pointwise, simultaneous, and of the times that curves cross

Pair = tuple[Floats, Floats]
N_DRAWS = 4000
_FEW_DRAWS = 10  # beyond which quantiles are extrapolated
_TAIL_DRAWS = 200  # whose mean excess gives the rate
_SMALLEST_TAIL = 1e-300
BAND_FACTOR = 1.02
"""The factor on the simulated critical value of a band. Without it the coverage is 0.936 to 0.956."""


def score_limits(estimate: Floats, size: Floats, noise_variance: Floats, critical: Floats) -> Pair:
    """Return the limits of {s: (estimate - s)^2 <= z^2 (s (1 - s)/size + noise variance)} in [0, 1]."""
    squared = critical**2
    q = squared / size
    curvature, half, constant = 1 + q, estimate + q / 2, estimate**2 - squared * noise_variance
    root = np.sqrt(np.maximum(half**2 - curvature * constant, 0.0))
    return np.clip((half - root) / curvature, 0.0, 1.0), np.clip((half + root) / curvature, 0.0, 1.0)


def limits(curves: Curves, critical: Floats) -> Pair:
    """Return limits at the end of each bin; beyond the usable range 0 and its last upper limit.

    The lower limit is 0, too, from a bin on whose hazard is reduced. Elsewhere it counts an event that was not seen:
    Greenwood's variance leaves out rows at risk without events.
    """
    estimate, size, noise = np.clip(curves.survival, 0.0, 1.0), curves.effective_size, curves.noise_variance
    high = score_limits(estimate, size, noise, critical)[1]
    low = score_limits(estimate, size, noise + curves.unseen_variance(size), critical)[0]
    last = np.maximum(curves.n_usable - 1, 0)[:, None]
    carried = np.where(curves.n_usable[:, None] > 0, np.take_along_axis(high, last, axis=1), 1.0)
    return np.where(curves.usable & ~curves.cut, low, 0.0), np.where(curves.usable, high, carried)


def normal_critical(level: float) -> float:
    """Return the two-sided critical value of a normal variable, at most 40."""
    return float(_normal(level))


def _normal(level: Floats | float) -> Floats:
    return np.asarray(np.clip(-ndtri((1 - np.asarray(level)) / 2), 0.0, 40.0))


@dataclass(frozen=True, eq=False)
class SimulatedErrors:
    """Sorted absolute errors of one curve, from which critical values of any level are read.

    Attributes
    ----------
    each : array of shape (draws, bins)
        Values in each usable bin.
    largest : array of shape (draws,)
        The largest over the usable bins.
    """

    each: Floats
    largest: Floats

    @classmethod
    def draw(cls, curves: Curves, release: int, cell_noise: Floats, seed: int = 0) -> SimulatedErrors:
        """Return the standardized errors of a curve; draws are public and have a fixed seed."""
        normals = np.random.default_rng(seed).normal(size=(len(cell_noise), curves.n_bins))
        last = int(curves.n_usable[release])
        sampling = curves.sampling_variance[release, :last]
        noise_variance = curves.noise_variance[release, :last]
        # The sampling error is a Brownian motion in the time of Greenwood's sum, scaled to the variance of the limits.
        greenwood = curves.greenwood[release, :last]
        motion = np.cumsum(normals[:, :last] * np.sqrt(np.diff(greenwood, prepend=0.0)), axis=1)
        spread = np.sqrt(np.where(greenwood > 0, greenwood, 1.0))
        errors = motion / spread * np.sqrt(sampling)
        if noise_variance.any():
            # The noise goes through the gradient.
            survival = np.clip(curves.survival[release, :last], 0.0, 1.0)
            errors = errors + curves.noise_errors(release, cell_noise)[:, :last] * survival
        total = np.sqrt(sampling + noise_variance)
        errors = np.abs(errors / np.where(total > 0, total, 1.0))
        return cls(np.sort(errors, axis=0), np.sort(errors.max(axis=1, initial=0.0)))

    def critical(self, level: Floats | float, n_bins: int) -> tuple[Floats, Floats]:
        """Return the critical values of pointwise limits (..., bins), and of the band (...), at levels.

        A pointwise one is the larger of the normal one and the simulated one.
        """
        levels = np.asarray(level, dtype=np.float64)
        normal = _normal(levels)
        pointwise = np.repeat(normal[..., None], n_bins, axis=-1)
        last = self.each.shape[1]
        pointwise[..., :last] = np.maximum(pointwise[..., :last], _quantiles(self.each, levels))
        # Bonferroni's inequality where the level has no draws beyond it.
        beyond = levels * (len(self.largest) + 1) > len(self.largest)
        many = np.where(beyond, _normal(1 - (1 - levels) / max(last, 1)), normal)
        return pointwise, BAND_FACTOR * np.maximum(_quantiles(self.largest, levels), many)


def _quantiles(ordered: Floats, levels: Floats) -> Floats:
    """Return the quantiles of sorted draws, on straight lines between them: shape (levels..., ordered[0]...)."""
    # At the highest levels there are few draws. There the tail falls exponentially, at the rate of the largest
    # draws. This is conservative: normal and Laplace errors and their sums have log-concave densities, with tails
    # that fall at least as fast.
    draws = len(ordered)
    last = draws + 1 - _FEW_DRAWS
    place = np.clip(levels * (draws + 1), 1, last)
    before = np.minimum(as_int64(place), draws - 1)
    shape = place.shape + (1,) * (ordered.ndim - 1)
    part = (place - before).reshape(shape)
    excess = ordered[-_TAIL_DRAWS:].mean(axis=0) - ordered[-_TAIL_DRAWS]
    tail = np.maximum(1 - levels, _SMALLEST_TAIL) * (draws + 1) / _FEW_DRAWS
    beyond = np.maximum(-np.log(tail), 0.0).reshape(shape)
    return np.asarray(ordered[before - 1] + part * (ordered[before] - ordered[before - 1]) + beyond * excess)


def critical_values(curves: Curves, cell_noise: Floats, level: float) -> Pair:
    """Return the critical values of pointwise limits (releases, bins) and of the band (releases, 1)."""
    found = [
        SimulatedErrors.draw(curves, release, cell_noise).critical(level, curves.n_bins)
        for release in range(len(curves.cells))
    ]
    pointwise, band = zip(*found, strict=True)
    return np.array(pointwise), np.array(band)[:, None]


def monotone(low: Floats, high: Floats) -> Pair:
    """Return the limits of a band made monotone, as the curve is: this loses no coverage."""
    return (np.maximum.accumulate(low[:, ::-1], axis=1)[:, ::-1], np.minimum.accumulate(high, axis=1))


def crossing_times(limit: Floats, edges: Floats, share: float, *, discrete: bool) -> Floats:
    """Return when a limit (releases, bins) first falls to ``share``; infinite where it does not.

    Between two edges the limit is a straight line. Discrete times are edges.
    """
    heights = np.minimum.accumulate(np.hstack([np.ones((len(limit), 1)), limit]), axis=1)
    below = heights <= share
    place = np.maximum(np.argmax(below, axis=1), 1)
    row = np.arange(len(limit))
    before, after = heights[row, place - 1], heights[row, place]
    drop = before - after
    part = np.where(drop > 0, (before - share) / np.where(drop > 0, drop, 1.0), 0.0)
    start, end = edges[place - 1], edges[place]
    times = end if discrete else start + (end - start) * np.clip(part, 0.0, 1.0)
    return np.where(below.any(axis=1), times, np.inf)


def time_limits(curves: Curves, low: Floats, high: Floats, edges: Floats, q: float, discrete: bool) -> Pair:
    """Return limits of the q-quantile of the time to the event, from pointwise limits of the survival."""
    share = 1 - q
    first = crossing_times(low, edges, share, discrete=discrete)
    # The release has no curve beyond the usable range: a lower limit is at most its last edge.
    first = np.minimum(first, edges[curves.n_usable])
    return first, crossing_times(high, edges, share, discrete=discrete)


class Crossing(NamedTuple):
    """When a limit of a curve of known shapes falls to a value.

    Attributes
    ----------
    time, earliest, latest : float
        For the estimated shape, and for the shapes of the events that the positions allow; infinite if not reached.
    """

    time: float
    earliest: float
    latest: float


_STEEP = 0.15
"""Hazard of a bin beyond which the mean position of events does not determine a quantile inside it well enough."""
_MEANS = (0.02, 0.98)


def shaped_crossing(
    curves: PlacedCurves, limit: Floats, edges: Floats, share: float, critical: float = 0.0
) -> Crossing:
    """Return when a limit (bins,) first falls to ``share``, for slopes within this many of their standard deviations.

    Inside a bin, events are spread as a power of the position or as a quadratic, of the same mean position.
    """
    heights = np.minimum.accumulate(np.append(1.0, limit))
    below = heights <= share
    if not below.any():
        return Crossing(np.inf, np.inf, np.inf)
    place = max(int(np.argmax(below)), 1) - 1
    start, end = float(edges[place]), float(edges[place + 1])
    if not curves.usable[0, place]:
        return Crossing(end, end, end)
    drop = heights[place] - heights[place + 1]
    part = float(np.clip((heights[place] - share) / drop, 0.0, 1.0)) if drop > 0 else 0.0
    slope, std = (float(each[0, place]) for each in (curves.shapes.slopes, curves.shapes.unknown_std))
    slopes = slope + critical * std * np.array([-1.0, 0.0, 1.0])
    means = np.clip(0.5 + slopes / 6, *_MEANS)
    # u^power has the mean power/(1 + power); late events are the mirror image.
    near = np.minimum(means, 1 - means)
    power = (1 - near) / near
    by_power = np.where(means <= 0.5, part**power, 1 - (1 - part) ** power)
    grid = np.linspace(0.0, 1.0, 201)
    by_line = [np.interp(part, grid - np.clip(each, -1, 1) * grid * (1 - grid), grid) for each in slopes]
    parts = np.array([by_power, by_line])
    times = start + (end - start) * parts
    middle = float(times[:, 1].mean())
    if curves.hazards[0, :, place].sum() > _STEEP:
        return Crossing(middle, start, end)
    return Crossing(middle, float(times.min()), float(times.max()))


def shaped_time_limits(
    curves: PlacedCurves, low: Floats, high: Floats, edges: Floats, share: float, level: float
) -> tuple[float, float]:
    """Return limits of the time at which a curve falls to ``share``, from pointwise limits of the survival (bins,).

    The unknown part of the shape inside a bin adds to the width in quadrature.
    """
    critical, end = normal_critical(level), float(edges[curves.n_usable[0]])
    first, last = (shaped_crossing(curves, limit, edges, share, critical) for limit in (low, high))
    estimate = np.where(curves.usable[0], np.clip(curves.survival[0], 0.0, 1.0), high)
    middle = shaped_crossing(curves, estimate, edges, share, critical)
    if not np.isfinite(middle.time):
        return min(first.earliest, end), last.latest
    before = max(first.time - first.earliest, middle.time - middle.earliest)
    after = middle.latest - middle.time
    if np.isfinite(last.latest):
        after = max(after, last.latest - last.time)
    below = middle.time - float(np.hypot(max(middle.time - first.time, 0.0), before))
    above = middle.time + float(np.hypot(max(last.time - middle.time, 0.0), after))
    return min(max(below, 0.0), end), above
