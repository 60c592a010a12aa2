"""Groups of a released table that are compared: what the table says about all of them, and hazard ratios of two.

Derivation: docs/intervals/survival.md. Nothing here sees private rows. Arrays have the releases first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpstats.survival.cells import Floats, LeastSquares
from dpstats.survival.curves import (
    ANY_SHAPE,
    LEAST_AT_RISK,
    LEAST_IN_NOISE,
    MATTERS,
    Shapes,
    limit_positions,
    lost_exposure,
    most_censored,
    risk_sums,
)

# The reference: pooled hazards, weights and group shares. Arrays have the releases first

LARGEST_HAZARD = 0.9
LARGEST_TOTAL = 3.0
"""Follow-up ends where the weighted cumulative hazard would exceed this."""
_LEAST_SHARE = 0.005


@dataclass(frozen=True, eq=False)
class Reference:
    """Estimates from a released table for all groups together.

    Attributes
    ----------
    cells : array of shape (releases, groups, cells)
        Cells of one cause.
    noise : LeastSquares
        The covariance of the noise of the cells.
    rho, gamma : float
        Fleming and Harrington's weights S^rho (1 - S)^gamma.
    positions : array of shape (releases, groups or 1, 2, bins), optional
        Sums of positions inside the bins, of each group or of all together.
    position_std : array of shape (2,), optional
        Standard deviations of the noise of each sum.
    """

    cells: Floats
    noise: LeastSquares
    rho: float
    gamma: float
    positions: Floats | None = None
    position_std: Floats | None = None

    @property
    def n_bins(self) -> int:
        """Number of bins."""
        return int((self.cells.shape[2] - 1) // 2)

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return int(self.cells.shape[1])

    @cached_property
    def pooled_noise(self) -> Floats:
        """Covariance of the noise of the cells of all groups added up."""
        K, shared = self.n_groups, self.noise.shared
        return K * self.noise.own - K * (K - 1) * np.outer(shared, shared)

    @cached_property
    def at_risk(self) -> Floats:
        """Number at risk of each group: shape (releases, groups, bins)."""
        return np.asarray(self.cells @ risk_sums(self.n_bins, 1).T)

    @cached_property
    def shapes(self) -> Shapes | None:
        """Shapes of the events of all groups inside the bins; None without positions."""
        if self.positions is None or self.position_std is None:
            return None
        positions = self.positions.sum(axis=1)
        first_edge = self.cells[:, :, self.n_bins].sum(axis=1)
        return Shapes.fit(self.pooled_events, self.pooled_at_risk, positions, self._position_noise, first_edge)

    @property
    def crowded(self) -> NDArray[np.bool_]:
        """In which bins most events are near one end: shape (releases, bins)."""
        if self.shapes is None:
            return np.zeros_like(self.usable)
        return self.usable & self.shapes.crowded

    @cached_property
    def effective(self) -> Floats:
        """Effective number at risk of each group: shape (releases, groups, bins)."""
        if self.shapes is None or self.positions is None or self.positions.shape[1] < self.n_groups:
            return self.at_risk
        return np.asarray(self.at_risk - self.positions[:, :, 1] * self.shapes.lost[:, None])

    @cached_property
    def pooled_effective(self) -> Floats:
        """Effective number at risk of all groups: events over it are the hazard. Shape (releases, bins)."""
        if self.shapes is None:
            return self.pooled_at_risk
        if self.effective is self.at_risk:
            return self.shapes.effective
        return np.asarray(np.maximum(self.effective.sum(axis=1), 1.0))

    @cached_property
    def pooled_at_risk(self) -> Floats:
        """Number at risk of all groups: shape (releases, bins)."""
        return np.asarray(self.at_risk.sum(axis=1))

    @cached_property
    def usable(self) -> NDArray[np.bool_]:
        """Which bins are usable: shape (releases, bins)."""
        sums = risk_sums(self.n_bins, 1)
        std = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", sums, self.pooled_noise, sums), 0.0))
        least = np.maximum(LEAST_IN_NOISE * std, LEAST_AT_RISK)
        return np.asarray(np.logical_and.accumulate(self.pooled_at_risk > least, axis=1))

    @cached_property
    def pooled_events(self) -> Floats:
        """Events of all groups together, not negative, 0 where the table is not usable: shape (releases, bins)."""
        return nonnegative_events(np.where(self.usable, self.cells[:, :, : self.n_bins].sum(axis=1), 0.0))

    @cached_property
    def pooled_hazards(self) -> Floats:
        """Hazards of all groups together, 0 where the table is not usable: shape (releases, bins)."""
        found = self.pooled_events / np.where(self.usable, self.pooled_effective, 1.0)
        return np.asarray(np.where(self.usable, np.clip(found, 0.0, LARGEST_HAZARD), 0.0))

    @cached_property
    def weights(self) -> Floats:
        """Weights of the bins, at most 1, and 0 after the end of follow-up: shape (releases, bins)."""
        increments = -np.log1p(-self.pooled_hazards)
        total = np.cumsum(increments, axis=1)
        before = np.exp(-np.hstack([np.zeros((len(total), 1)), total[:, :-1]]))
        raw = np.where(self.usable, before**self.rho * (1 - before) ** self.gamma, 0.0)
        scaled = raw / np.maximum(raw.max(axis=1, keepdims=True), 1e-12)
        ends = np.cumsum(scaled * increments, axis=1) > LARGEST_TOTAL
        return np.asarray(np.where(ends, 0.0, scaled))

    @cached_property
    def heights(self) -> Floats:
        """The weighted sum of hazards up to each edge: shape (releases, bins + 1).

        Events of one bin are ties. So the residuals of a bin add up to 0, wherever its events are in it.
        """
        increments = self.pooled_hazards * self.weights
        return np.hstack([np.zeros((len(increments), 1)), np.cumsum(increments, axis=1)])

    @cached_property
    def shares(self) -> Floats:
        """Share of each group in the number at risk: shape (releases, groups, bins)."""
        positive = np.clip(self.effective, 0.0, None)
        total = positive.sum(axis=1, keepdims=True)
        return np.where(total > 0, positive / np.where(total > 0, total, 1.0), 1 / self.n_groups)

    @cached_property
    def information(self) -> Floats:
        """Weighted events w^2 E h (1 - h) of each bin, without ties: shape (releases, bins)."""
        hazards = self.pooled_hazards
        return np.asarray(self.weights**2 * np.maximum(self.pooled_effective, 0.0) * hazards * (1 - hazards))

    @cached_property
    def _censored_positions(self) -> Floats:
        """Sums of v (1 - v) of each group's censored rows: shape (releases, groups, bins)."""
        if self.positions is None:
            return np.asarray(most_censored(self.cells[:, :, self.n_bins : -1]))
        found = self.positions[:, :, 1]
        if found.shape[1] == self.n_groups:
            return found
        # Pooled sums are divided in proportion to the rows that are censored in the bin or at its edges.
        at_edges = np.clip(self.cells[:, :, self.n_bins :], 0.0, None)
        rows = at_edges[:, :, :-1] + at_edges[:, :, 1:]
        return np.asarray(found * rows / np.maximum(rows.sum(axis=1, keepdims=True), 1e-9))

    @cached_property
    def slope_effects(self) -> Floats:
        """Derivatives of O - E by the slopes, if groups differ in where they leave: (releases, groups, bins)."""
        censored = self._censored_positions
        apart = censored - self.shares * censored.sum(axis=1, keepdims=True)
        return np.asarray(apart * (self.weights * self.pooled_hazards)[:, None])

    def find_shaped(self, error: Floats) -> NDArray[np.bool_]:
        """Return in which bins O - E depends on an unknown shape, for its standard errors (releases, groups)."""
        std = ANY_SHAPE if self.shapes is None else self.shapes.unknown_std[:, None]
        return np.asarray((np.abs(self.slope_effects) * std > MATTERS * error[:, :, None]).any(axis=1) & self.usable)

    @cached_property
    def slope_covariance(self) -> Floats | float:
        """Covariance of O - E due to noise in the slopes, and to their unknown part: (releases, groups, groups).

        A shape inside a bin moves O - E if groups are censored in different parts of the bin.
        """
        if self.shapes is None or self.position_std is None:
            return 0.0
        variance = self.shapes.unknown_std**2 + (self.shapes.per_event * self._position_noise) ** 2
        return np.asarray(np.einsum("raj,rbj,rj->rab", self.slope_effects, self.slope_effects, variance))

    @property
    def _position_noise(self) -> float:
        """Standard deviation of the noise in the positions of the events of all groups."""
        assert self.positions is not None and self.position_std is not None
        return float(self.position_std[0]) * float(np.sqrt(self.positions.shape[1]))

    @property
    def observed(self) -> Floats:
        """Events of each group up to the end of follow-up: shape (releases, groups)."""
        used = (self.weights > 0)[:, None]
        return np.asarray((self.cells[:, :, : self.n_bins] * used).sum(axis=2))

    @property
    def expected(self) -> Floats:
        """Events of each group that the pooled hazards imply: shape (releases, groups)."""
        used = (self.weights > 0)[:, None]
        return np.asarray((self.effective * self.pooled_hazards[:, None] * used).sum(axis=2))

    @cached_property
    def mean_shares(self) -> Floats:
        """Share of each group, averaged over the information of the bins: shape (releases, groups)."""
        total = self.information.sum(axis=1)[:, None]
        mean = (self.shares * self.information[:, None]).sum(axis=2) / np.maximum(total, 1e-9)
        mean = np.where(total > 1e-9, mean, 1 / self.n_groups)
        clipped = np.clip(mean, _LEAST_SHARE, 1 - _LEAST_SHARE)
        return np.asarray(clipped / clipped.sum(axis=1, keepdims=True))


def nonnegative_events(events: Floats) -> Floats:
    """Return events (..., bins) that are not negative and have the same total, or 0 if noise makes that negative.

    The cumulative number is replaced by one that never decreases. Cutting each bin at 0 would add up positive noise.
    """
    total = np.cumsum(events, axis=-1)
    total = np.concatenate([np.zeros_like(total[..., :1]), total], axis=-1)
    above = np.maximum.accumulate(total, axis=-1)
    below = np.minimum.accumulate(total[..., ::-1], axis=-1)[..., ::-1]
    found = np.diff((above + below) / 2, axis=-1)
    sums = found.sum(axis=-1, keepdims=True)
    return np.asarray(found * np.maximum(total[..., -1:], 0.0) / np.where(sums > 0, sums, 1.0))


def expectation_gradient(weights: Floats, hazards: Floats) -> Floats:
    """Return the gradient of sum_j u_j (d_j - h_j E_j) by the cells, for weights u of shape (..., bins)."""
    lost = np.cumsum(weights * hazards, axis=-1)
    start = np.zeros((*lost.shape[:-1], 1))
    return np.concatenate([weights - lost, start, -lost], axis=-1)


# Hazard ratios, by the score of Cox's model for grouped data

LARGEST_LOG_RATIO = 3.0
"""Limits beyond a hazard ratio of 20, or of 1/20, are infinite, or 0."""
_STEEP, _SOME_CENSORED = 1.0, 0.02
"""Difference of the cumulative hazards of both groups in a bin, and fraction of the rows that are censored there. Above
both, hazard ratios are biased by more than half a standard error at 5,000 rows and epsilon 5."""
_GRID = np.linspace(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO, 121)
_LEAST_AT_RISK = 0.5  # few rows have little weight in the score, so curves need more
_MOST_NOISE = 0.5  # relative variance of the weights
_LEAST_HAZARD = 1e-9
_HALVINGS, _STEPS = 40, 20


@dataclass(frozen=True, eq=False)
class _Stratum:
    """Two groups of one stratum: their bins that are usable in both."""

    reference: Reference

    @cached_property
    def _number_std(self) -> Floats:
        sums = risk_sums(self.reference.n_bins, 1)
        variance = ((sums @ self.reference.noise.own) * sums).sum(axis=1)
        return np.asarray(np.sqrt(np.maximum(variance, 0.0)))

    @cached_property
    def usable(self) -> NDArray[np.bool_]:
        at_risk, effective = self.reference.at_risk[0], self.reference.effective[0]
        least = np.maximum(LEAST_IN_NOISE * self._number_std, _LEAST_AT_RISK)
        enough = np.minimum(at_risk, effective) > least
        return np.asarray(np.logical_and.accumulate(enough.all(axis=0)))

    @cached_property
    def events(self) -> Floats:
        return self.reference.cells[0, :, : self.reference.n_bins]

    def _numbers(self, log_ratio: Floats) -> Floats:
        """Return the effective numbers at risk (ratios, groups, bins) at log ratios, 1 beyond the usable range."""
        # Both groups have the shape of all events. But the later events of a bin are fewer where its hazard is
        # larger.
        reference, used = self.reference, self.usable
        number = np.where(used, reference.effective[0], 1.0)
        shapes, positions = reference.shapes, reference.positions
        if shapes is None or positions is None:
            return np.repeat(number[None], len(log_ratio), axis=0)
        pooled = reference.pooled_hazards[0]
        ratios = np.exp(log_ratio)[:, None] ** np.array([0.0, 1.0])
        middle = (ratios[..., None] * number).sum(axis=1, keepdims=True) / number.sum(axis=0)
        increments = -np.log1p(-pooled) * ratios[..., None] / middle
        hazards = np.minimum(-np.expm1(-increments), LARGEST_HAZARD)
        slopes = shapes.slopes[0] - (increments + np.log1p(-pooled)) / 2
        lost = lost_exposure(slopes, hazards, shapes.apart[0]) - shapes.lost[0]
        return np.where(used, np.maximum(number - positions[0, :, 1] * lost, 1.0), 1.0)

    def moments(self, log_ratio: Floats) -> tuple[Floats, Floats, Floats]:
        """Return score, variance and common part of the noise at log ratios: each of shape (ratios,).

        The variance leaves out what the public number of rows takes off: the square of the common part.
        """
        m, used, noise = self.reference.n_bins, self.usable, self.reference.noise
        ratio = np.exp(log_ratio)[:, None]
        events = np.where(used, self.events, 0.0)
        number = self._numbers(log_ratio)
        hazards = _common_hazards(number, np.maximum(events.sum(axis=0), 0.0), ratio)
        expected, alive = -np.expm1(-hazards), number * np.exp(-hazards)
        first, second = alive[:, 0], ratio * alive[:, 1]
        # At a given number of events of both groups, one more in the second group is partly expected.
        moved = np.stack([-second, first], axis=1) / (first + second)[:, None]
        speeds = hazards / expected
        information = alive * hazards * speeds
        total = information.sum(axis=1)
        weights = (information[:, ::-1] * speeds).sum(axis=1)[:, None] / total[:, None]
        by_events = np.where(used, weights * moved, 0.0)
        score = (by_events * (events - _given_total(number * expected, alive))).sum(axis=(1, 2))
        # Sampling, with the noise of the weights to second order. Then noise at fixed weights.
        relative = np.minimum(((self._number_std / number) ** 2).sum(axis=1), _MOST_NOISE)
        variance = np.where(used, information.prod(axis=1) / total * (1 + relative), 0.0).sum(axis=1)
        per_number = -by_events * expected
        gradients = per_number @ risk_sums(m, 1)
        gradients[:, :, :m] += by_events
        own = noise.own + np.outer(noise.shared, noise.shared)
        variance = variance + ((gradients @ own) * gradients).sum(axis=(1, 2))
        return score, variance + self._position_variance(per_number), (gradients @ noise.shared).sum(axis=1)

    def find_steep(self, log_ratio: float) -> NDArray[np.bool_]:
        """Return the bins with censored rows in which the groups' cumulative hazards differ too much for one shape."""
        # The later events of such a bin are of the group with the smaller hazard. So the shape of all events gives
        # wrong times at risk to the rows that leave.
        at, m = np.array([log_ratio]), self.reference.n_bins
        events = np.where(self.usable, np.maximum(self.events.sum(axis=0), 0.0), 0.0)
        first, second = _common_hazards(self._numbers(at), events, np.exp(at)[:, None])[0]
        censored = self.reference.cells[0, :, m : 2 * m].sum(axis=0)
        some = censored > _SOME_CENSORED * (censored + self.reference.at_risk[0].sum(axis=0))
        return np.asarray(self.usable & some & (np.abs(second - first) > _STEEP))

    def _position_variance(self, per_number: Floats) -> Floats | float:
        """Return the variance due to noise in positions, and to shapes that remain unknown."""
        shapes, positions, std = (self.reference.shapes, self.reference.positions, self.reference.position_std)
        if shapes is None or positions is None or std is None:
            return 0.0
        censored = limit_positions(positions[0, :, 1], self.reference.at_risk[0])
        per_slope = (per_number * censored).sum(axis=1)
        of_slopes = 2 * (shapes.per_event[0] * std[0]) ** 2 + shapes.unknown_std[0] ** 2
        of_censored = (per_number * shapes.lost[0] * std[1]) ** 2
        return np.asarray((per_slope**2 * of_slopes).sum(axis=1) + of_censored.sum(axis=(1, 2)))


def _common_hazards(number: Floats, events: Floats, ratio: Floats) -> Floats:
    """Return hazards (ratios, groups, bins) of this ratio that together expect these events (bins,) of both groups.

    Newton's steps from below never pass the root, as the expectation is concave. At the root no group has more rows
    alive than both have, so the first step starts near it, also if nearly all rows have the event.
    """
    ratios = np.stack([np.ones_like(ratio), ratio], axis=1)
    everyone = number.sum(axis=1, keepdims=True)
    events = np.minimum(events, everyone - _LEAST_AT_RISK)
    alone = (np.log(number) - np.log(everyone - events)) / ratios
    found = np.maximum(alone.max(axis=1, keepdims=True), _LEAST_HAZARD)
    for _ in range(_STEPS):
        alive = number * np.exp(-ratios * found)
        found += (events - everyone + alive.sum(axis=1, keepdims=True)) / (ratios * alive).sum(axis=1, keepdims=True)
        found = np.maximum(found, _LEAST_HAZARD)
    return np.asarray(ratios * found)


def _given_total(events: Floats, alive: Floats) -> Floats:
    """Return expected events (ratios, groups, bins) of each group, to second order given the total of both groups.

    This total determines the hazards. So the score is biased in bins of few events, without the second order.
    """
    alive = np.maximum(alive, _LEAST_HAZARD)
    variance = 1 / (1 / events + 1 / alive).sum(axis=1)
    more = variance**2 * (1 / (events[:, 0] * alive[:, 1]) - 1 / (events[:, 1] * alive[:, 0]))
    return np.asarray(events + np.stack([-more, more], axis=1))


@dataclass(frozen=True, eq=False)
class HazardRatio:
    """The log hazard ratio of the second to the first of two groups, in one stratum or several.

    Attributes
    ----------
    references : sequence of Reference
        Of two groups each, one for each stratum.
    """

    references: Sequence[Reference]

    @cached_property
    def _strata(self) -> list[_Stratum]:
        return [_Stratum(reference) for reference in self.references]

    @property
    def n_usable(self) -> int:
        """Number of bins that are usable in both groups, of all strata."""
        return sum(int(stratum.usable.sum()) for stratum in self._strata)

    def find_steep(self) -> NDArray[np.bool_]:
        """Return the bins that are steep in a stratum."""
        if not self.n_usable:
            return np.zeros(self.references[0].n_bins, dtype=np.bool_)
        estimate = float(np.clip(self.estimate, _GRID[0], _GRID[-1]))
        return np.asarray(np.any([stratum.find_steep(estimate) for stratum in self._strata], axis=0))

    def standardize(self, log_ratio: Floats) -> Floats:
        """Return the score in units of its standard deviation, if these were the log ratios.

        At the true log ratio it is nearly standard normal. It decreases in the log ratio.
        """
        log_ratio = np.atleast_1d(np.asarray(log_ratio, dtype=np.float64))
        score, variance, common = (
            np.sum(parts, axis=0)
            for parts in zip(*(stratum.moments(log_ratio) for stratum in self._strata), strict=True)
        )
        std = np.sqrt(np.maximum(variance - common**2, 0.0))
        return np.where(std > 0, score / np.where(std > 0, std, 1.0), 0.0)

    @cached_property
    def _on_grid(self) -> Floats:
        return self.standardize(_GRID)

    @cached_property
    def estimate(self) -> float:
        """The log ratio at which the score is 0; NaN without usable bins, infinite beyond the largest one."""
        if not self.n_usable:
            return float("nan")
        nearest = int(np.argmin(np.abs(self._on_grid)))
        return self._crossing(nearest, 0.0, 1 if self._on_grid[nearest] > 0 else -1)

    def limits(self, tail: float) -> tuple[float, float]:
        """Return lower and upper limits, each wrong with this probability."""
        critical = float(np.clip(-ndtri(tail), 0.0, 40.0))
        nearest = int(np.argmin(np.abs(self._on_grid)))
        return self._crossing(nearest, critical, -1), self._crossing(nearest, -critical, 1)

    def _crossing(self, start: int, value: float, step: int) -> float:
        """Return the first log ratio at which the score crosses a value, from ``start`` in one direction."""
        if not self.n_usable:
            return step * np.inf
        beyond = (self._on_grid - value) * step <= 0
        places = np.arange(start, len(_GRID)) if step > 0 else np.arange(start, -1, -1)
        found = places[beyond[places]]
        if not found.size:
            return step * np.inf
        outside = float(_GRID[found[0]])
        inside = outside - step * float(_GRID[1] - _GRID[0])
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            past = (float(self.standardize(np.array([middle]))[0]) - value) * step <= 0
            inside, outside = (inside, middle) if past else (middle, outside)
        return outside
