"""The public reference of a log-rank test, from a released table: pooled hazards, weights and group shares.

Arrays have the releases first. Nothing here sees private rows. Proof: docs/proofs/survival.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpstats.survival.curves import LEAST_AT_RISK, LEAST_IN_NOISE, risk_sums
from dpstats.survival.levels import LeastSquares
from dpstats.survival.shapes import CROWDED, Shapes

Floats = NDArray[np.float64]

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
        return Shapes.fit(self.pooled_events, self.pooled_at_risk, positions, self._position_noise)

    @property
    def crowded(self) -> NDArray[np.bool_]:
        """In which bins most events are near one end: shape (releases, bins)."""
        if self.shapes is None:
            return np.zeros_like(self.usable)
        return np.asarray(self.usable & (np.abs(self.shapes.slopes) > CROWDED))

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
        assert self.positions is not None
        found = self.positions[:, :, 1]
        if found.shape[1] == self.n_groups:
            return found
        # Pooled sums are divided in proportion to the rows that are censored in the bin or at its edges.
        at_edges = np.clip(self.cells[:, :, self.n_bins :], 0.0, None)
        rows = at_edges[:, :, :-1] + at_edges[:, :, 1:]
        return np.asarray(found * rows / np.maximum(rows.sum(axis=1, keepdims=True), 1e-9))

    @cached_property
    def slope_covariance(self) -> Floats | float:
        """Covariance of O - E due to noise in the slopes, and to their unknown part: (releases, groups, groups).

        A shape inside a bin moves O - E if groups are censored in different parts of the bin.
        """
        if self.shapes is None or self.position_std is None:
            return 0.0
        censored = self._censored_positions
        apart = censored - self.shares * censored.sum(axis=1, keepdims=True)
        apart = apart * (self.weights * self.pooled_hazards)[:, None]
        variance = self.shapes.unknown_std**2 + (self.shapes.per_event * self._position_noise) ** 2
        return np.asarray(np.einsum("raj,rbj,rj->rab", apart, apart, variance))

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
