"""Hazard ratios of two groups of a released table, and the residuals, null distribution and power of log-rank tests.

Derivation: docs/intervals/survival.md. Proof: docs/proofs/survival.md. `Residuals` sees private rows, and nothing else
here does. Arrays have the releases first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc, ndtri

from dpstats.data.rows import Table
from dpstats.data.values import as_int64
from dpstats.inference.error_distributions import error_tails
from dpstats.release.additive import Integers
from dpstats.survival.cells import TABLE, Floats, LeastSquares, Steps, checked_rows, elapsed_share, times_at_edges
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
        # At given numbers of events of both groups, one more in the second group is partly expected.
        moved = np.stack([-second, first], axis=1) / (first + second)[:, None]
        speeds = hazards / expected
        information = alive * hazards * speeds
        total = information.sum(axis=1)
        weights = (information[:, ::-1] * speeds).sum(axis=1)[:, None] / total[:, None]
        by_events = np.where(used, weights * moved, 0.0)
        score = (by_events * (events - number * expected)).sum(axis=(1, 2))
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

    Newton's steps from below never pass the root, as the expectation is concave.
    """
    ratios = np.stack([np.ones_like(ratio), ratio], axis=1)
    everyone = number.sum(axis=1, keepdims=True)
    events = np.minimum(events, everyone - _LEAST_AT_RISK)
    found = np.full_like(everyone, _LEAST_HAZARD)
    for _ in range(_STEPS):
        alive = number * np.exp(-ratios * found)
        found += (events - everyone + alive.sum(axis=1, keepdims=True)) / (ratios * alive).sum(axis=1, keepdims=True)
        found = np.maximum(found, _LEAST_HAZARD)
    return np.asarray(ratios * found)


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


# Residuals of a log-rank test: the contribution of a row, given the public reference of the first stage

RESIDUALS = "residuals"
_ROWS = 1 << 16  # of a block
_LEAST_RANGE = 0.05


def residual_integers(n_groups: int, bits: int, share: float) -> Integers:
    """Return the stage parameters of the sums. In units of their sensitivity, a change has 2^bits steps."""
    size = 1 if n_groups == 2 else n_groups
    return Integers(RESIDUALS, size, 2.0**-bits, 1 << bits, 1 << bits, share)


# With two groups the statistic is a single number. Let r be the residual of a row, and p the proportion of the
# first group. A row adds (1 - p) r in the first group, and -p r in the second. With more groups, each has a sum of
# residuals.
@dataclass(frozen=True, eq=False)
class Residuals:
    """Sums of residuals over rows, for one release of the first stage or for several.

    Attributes
    ----------
    reference : Reference
    edges : array of shape (bins + 1,)
    bits : int
    pure : bool
        Whether the sensitivity is in l1, or in l2.
    discrete : bool
        Whether times are moved to edges, as by `Cells`.
    others : bool
        Whether rows of undeclared groups add nothing. They are refused otherwise.
    """

    reference: Reference
    edges: Floats
    bits: int
    pure: bool
    discrete: bool = False
    others: bool = False

    @cached_property
    def bounds(self) -> tuple[Floats, Floats]:
        """The least and the largest number that a row adds to a sum: each of shape (releases,)."""
        heights, weights = self.reference.heights, self.reference.weights
        total = heights[:, -1]
        # An event is at risk in its whole bin. A small least value keeps a table without usable bins divisible.
        largest = np.maximum((weights - heights[:, 1:]).max(axis=1), _LEAST_RANGE)
        if self.reference.n_groups > 2:
            return -total, largest
        share = self.reference.mean_shares[:, 0]
        return np.minimum(-(1 - share) * total, -share * largest), np.maximum((1 - share) * largest, share * total)

    @cached_property
    def divisor(self) -> Floats:
        """What sums are divided by, so that their sensitivity is 1: shape (releases,)."""
        low, high = self.bounds
        if self.reference.n_groups == 2:
            return high - low
        largest = np.maximum(-low, high)
        return 2 * largest if self.pure else np.maximum(np.sqrt(2.0) * largest, high - low)

    def sums(self, times: Floats, codes: Steps, groups: Steps) -> Steps:
        """Return the sums of rows in steps: shape (releases, 1), or (releases, groups) of more than two groups."""
        size = 1 if self.reference.n_groups == 2 else self.reference.n_groups
        found = np.zeros((len(self.divisor), size), dtype=np.int64)
        for start in range(0, len(times), _ROWS):
            part = slice(start, start + _ROWS)
            found += self._part(times[part], codes[part], groups[part])
        return found

    def _part(self, times: Floats, codes: Steps, groups: Steps) -> Steps:
        edges, K = self.edges, self.reference.n_groups
        if self.discrete:
            times = times_at_edges(times, codes, edges)
        bins = np.clip(np.searchsorted(edges, times, side="left"), 1, len(edges) - 1) - 1
        share = elapsed_share(times, edges[bins], edges[bins + 1])
        heights, weights = self.reference.heights, self.reference.weights
        event = (codes > 0) & (times <= edges[-1])
        share = self.elapsed_hazard(bins, share)
        share = np.where(event, 1.0, share)  # at risk in the whole bin
        expected = heights[:, bins] + share * (heights[:, bins + 1] - heights[:, bins])
        values = np.where(event, weights[:, bins], 0.0) - expected
        one = 1 << self.bits
        low, high = (end / self.divisor * one for end in self.bounds)
        if K == 2:
            first = self.reference.mean_shares[:, :1]
            # 0 is inside the range of both groups: rows of other groups add it.
            values = np.where(groups == 0, 1 - first, np.where(groups == 1, -first, 0.0)) * values
            least = np.floor(low)
            most = least + one
        else:
            # A part in 10^12 is more than the rounding of the bounds.
            least, most = (np.trunc(end * (1 - 1e-12)) for end in (low, high))
        steps = np.rint(values / self.divisor[:, None] * one)
        steps = as_int64(np.clip(steps, least[:, None], most[:, None]))
        if K == 2:
            return np.asarray(steps.sum(axis=1, keepdims=True))
        return np.stack([np.where(groups == group, steps, 0).sum(axis=1) for group in range(K)], axis=1)

    def elapsed_hazard(self, bins: Steps, u: Floats) -> Floats:
        """Return the part of its bin's hazard that a row has passed at the part u of the bin, between 0 and 1.

        It is u without positions: then events are spread evenly.
        """
        shapes = self.reference.shapes
        if shapes is None:
            return u
        # The effective number at risk of the pooled hazard is the sum of these exposures.
        return np.clip(u - shapes.lost[:, bins] * (u * (1 - u)), 0.0, 1.0)

    def __call__(self, table: Table) -> dict[str, NDArray[np.int64]]:
        """Return the sums of some rows."""
        rows = checked_rows(table, self.reference.n_groups if self.others else None)
        return {RESIDUALS: self.sums(*rows)}


# The statistic without differences: sampling, the noise of both stages, second order

_CRITICAL = 1.96
"""The critical value at which the error of the stated variance is counted: tests are mostly at the level 0.05."""


@dataclass(frozen=True, eq=False)
class NullDistribution:
    """Covariance of O - E under the null hypothesis, apart from the noise of the second stage.

    Attributes
    ----------
    covariance : array of shape (releases, groups, groups)
    """

    covariance: Floats

    @classmethod
    def compute(cls, reference: Reference, released_std: Floats) -> NullDistribution:
        """Return the distribution that a reference implies, given the noise of the second stage: shape (releases,).

        First order: the hypergeometric variance and the noise of the first stage, which enters by (p_gj - p_g) w_j.
        Second order: the noise of the mean shares p_g multiplies the number of events and its noise. Without it, tests
        of few rows reject far too often. The noise of p_g also moves the stated variance, most for a small group.
        """
        K = reference.n_groups
        noise, pooled = reference.noise, reference.pooled_noise
        weights, hazards = reference.weights, reference.pooled_hazards
        information, mean = reference.information, reference.mean_shares
        total = np.maximum(information.sum(axis=1), 1e-9)
        # Standard deviation of the noise in the number of events.
        of_events = np.zeros((len(total), reference.cells.shape[2]))
        of_events[:, : reference.n_bins] = weights**2
        events_std = np.sqrt(_quadratic(of_events, pooled))
        # Variance of the noise in the mean shares.
        expected = np.cumsum(weights**2 * hazards * (1 - hazards), axis=1)
        gradient = np.hstack([expected, np.zeros((len(total), 1)), expected])
        own = _quadratic(gradient, noise.own)
        across = -((gradient @ noise.shared) ** 2)
        spread = (
            (1 - mean) ** 2 * own[:, None]
            + mean**2 * ((K - 1) * own + (K - 1) * (K - 2) * across)[:, None]
            - 2 * (1 - mean) * mean * ((K - 1) * across)[:, None]
        )
        of_shares = spread / (np.maximum(total, np.maximum(events_std, 1.0)) ** 2)[:, None]
        of_shares = np.clip(of_shares, 0.0, 0.25)
        residual = _quadratic(expectation_gradient(weights, hazards), pooled)
        more_events = total + events_std
        more = (more_events / total)[:, None, None]
        shares = reference.shares
        moved = (shares - mean[:, :, None]) * weights[:, None]
        gradients = expectation_gradient(moved, hazards[:, None])
        covariance = np.einsum("rac,cd,rbd->rab", gradients, pooled, gradients)
        between = np.einsum("raj,rbj,rj->rab", shares, shares, information)
        alone = np.einsum("raj,rj->ra", shares, information)
        sampling = (alone[:, :, None] * np.eye(K) - between) * more
        if K == 2:
            # Both groups move together, by p (1 - p), which is at most 1/4.
            base = np.einsum("rj,rj,rj->r", shares[:, 0], shares[:, 1], information) / total
            variance = more_events * np.minimum(0.25, base + of_shares[:, 0])
            sampling = variance[:, None, None] * np.array([[1.0, -1.0], [-1.0, 1.0]])
            second = (of_shares[:, 0] * residual)[:, None, None] * np.array([[1.0, -1.0], [-1.0, 1.0]])
        else:
            second = (of_shares * (more_events + residual)[:, None])[:, :, None] * np.eye(K)
        whole = covariance + sampling + second + reference.slope_covariance
        variance = np.diagonal(whole, axis1=1, axis2=2) + released_std[:, None] ** 2
        factor = _variance_error_factor(variance, more_events[:, None] * (1 - 2 * mean), of_shares)
        return cls(factor[:, :, None] * whole * factor[:, None, :])

    @property
    def std(self) -> Floats:
        """Standard deviation of O - E of the first group: shape (releases,)."""
        return np.sqrt(np.maximum(self.covariance[:, 0, 0], 1e-6))

    def pvalues_of_two(self, difference: Floats, noise: str, scale: Floats) -> Floats:
        """Return the p-values of O - E of two groups: a normal error plus the noise of the second stage."""
        return np.asarray(np.minimum(1.0, 2 * error_tails(np.abs(difference), self.std, noise, scale)))

    def chi_square(self, sums: Floats, mean: Floats, noise_std: Floats) -> tuple[Floats, Floats, Floats]:
        """Return O - E of each group, the chi-square statistic and its p-values, from noisy sums of residuals."""
        K = sums.shape[1]
        centering = np.eye(K) - mean[:, :, None] * np.ones((1, 1, K))
        differences = np.einsum("rab,rb->ra", centering, sums)
        of_noise = noise_std[:, None, None] ** 2 * (centering @ centering.transpose(0, 2, 1))
        covariance = (self.covariance + of_noise)[:, :-1, :-1]
        solved = np.linalg.solve(covariance, differences[:, :-1, None])[:, :, 0]
        statistic = np.maximum((differences[:, :-1] * solved).sum(axis=1), 0.0)
        return differences, statistic, np.asarray(gammaincc((K - 1) / 2, statistic / 2))


def _variance_error_factor(variance: Floats, slope: Floats, of_shares: Floats) -> Floats:
    """Return the factors on standard deviations that keep the level although noise moves the stated variance."""
    # A stated variance V (1 + e) with Var(e) = v is too small as often as too large, but rejects more where it is
    # too small. The level is kept to second order by V (1 + v (z^2 + 1)/4), which is the first term of Student's
    # quantile with 2/v degrees of freedom.
    relative = np.minimum(slope**2 * of_shares / np.maximum(variance, 1e-9) ** 2, 1.0)
    return np.asarray(np.sqrt(1 + relative * (_CRITICAL**2 + 1) / 4))


def _quadratic(vectors: Floats, matrix: Floats) -> Floats:
    return np.asarray(np.maximum(((vectors @ matrix) * vectors).sum(axis=-1), 0.0))


# Power, by simulating both stages from public parameters

DRAWS = 1000
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


# A dataset is drawn as the counts of its rows by arm, bin and fate, so that the time does not depend on the number
# of rows. Each simulated table has its critical value, which is larger than for expected cells, because noise moves
# it.
def simulate_pvalues(
    plan: Any, hazard_ratio: float, survival: float, censored: float, share: float, draws: int = DRAWS, seed: int = 0
) -> Floats:
    """Return the p-values of tests of simulated datasets with exponential times: shape (draws,).

    Parameters
    ----------
    plan : LogRankPlan
        A plan for two groups.
    hazard_ratio, survival, censored, share : float
        See `LogRankTest.power`.
    """
    rng, cells = np.random.default_rng(seed), plan.cells
    m, edges = cells.n_bins, np.asarray(cells.edges)
    elapsed = edges / edges[-1]
    probabilities, loss = _row_probabilities(elapsed, hazard_ratio, survival, censored, share)
    drawn = rng.multinomial(plan.n_samples, probabilities.ravel(), size=draws)
    counts = drawn.reshape(draws, 2, 2 * m + 1).astype(np.float64)
    events, left, beyond = counts[..., :m], counts[..., m : 2 * m], counts[..., 2 * m]
    # Released table: censored rows are in the middle of their bins on average, or at the earlier edge.
    earlier = 1.0 if cells.discrete else 0.5
    exact = np.zeros((draws, cells.n_groups, cells.size))
    exact[:, :2, :m] = events
    exact[:, :2, m : 2 * m] = earlier * left
    exact[:, :2, m + 1 :] += (1 - earlier) * left
    exact[:, :2, 2 * m] += beyond
    released = (exact @ plan.levels.sums.T).reshape(draws, -1)
    if cells.position_share:
        found = events.sum(axis=1)
        # The mean event is a little before the middle of its bin, because the number at risk decreases.
        spread = np.sqrt(found / 12) * rng.normal(size=found.shape)
        early = (events * loss * np.diff(elapsed)).sum(axis=1) / 12
        released = np.hstack([released, spread - early, left.sum(axis=1) / 6])
    reference = plan.reference(released + _noise(plan, TABLE, rng, released.shape))
    # Sums of residuals of the same rows, given the noisy table.
    residuals = plan.residuals(reference)
    heights, weights = reference.heights, reference.weights
    passed = np.zeros((draws, m))
    if not cells.discrete:
        for node, weight in zip((_NODES + 1) / 2, _WEIGHTS / 2, strict=True):
            passed += weight * residuals.elapsed_hazard(np.arange(m), np.full(m, node))
    of_event = weights - heights[:, 1:]
    of_left = -(heights[:, :-1] + passed * np.diff(heights, axis=1))
    sums = (events * of_event[:, None]).sum(axis=2) + (left * of_left[:, None]).sum(axis=2)
    sums -= beyond * heights[:, -1:]
    first = reference.mean_shares[:, 0]
    total = ((1 - first) * sums[:, 0] - first * sums[:, 1]) / residuals.divisor
    noisy = total[:, None] + _noise(plan, RESIDUALS, rng, (draws, 1))
    return np.asarray(plan.pvalues(reference, noisy))


def _noise(plan: Any, name: str, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
    stage = plan.table_stage if name == TABLE else plan.residual_stage
    drawn = rng.laplace(size=shape) if stage.noise == "laplace" else rng.normal(size=shape)
    return np.asarray(drawn * np.asarray(stage.noise_scale))


def _row_probabilities(
    elapsed: Floats, hazard_ratio: float, survival: float, censored: float, share: float
) -> tuple[Floats, Floats]:
    """Return the probabilities (2, 2 bins + 1) of a row, and the rates (2, 1) at which rows leave."""
    # A row has an event in a bin, is censored in a bin, or passes the horizon.
    speeds = np.array([[1.0], [hazard_ratio]])
    event_rate, left_rate = -speeds * np.log(survival), -np.log1p(-censored)
    rate = event_rate + left_rate
    staying = np.exp(-rate * elapsed)
    leaving = staying[:, :-1] - staying[:, 1:]
    events = leaving * event_rate / rate
    found = np.hstack([events, leaving - events, staying[:, -1:]])
    found = np.maximum(found, 0.0) * np.array([[share], [1 - share]])
    return found / found.sum(), rate
