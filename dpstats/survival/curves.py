"""Kaplan-Meier curves of noisy cells, their usable range, and how they depend on each cell.

Arrays have the releases first, so that a simulation computes many at once. A fit has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpstats.survival.shapes import Floats, Shapes, limit_positions

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

    # Positions inside the bins; a table without them has none.

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
        return Shapes.fit(self.all_events, self.at_risk, self.positions, float(self.position_std[0]))

    @cached_property
    def censored_positions(self) -> Floats:
        """Sums of v (1 - v), limited to possible ones: shape (releases, bins)."""
        return limit_positions(self.positions[:, 1], self.at_risk)

    @cached_property
    def effective(self) -> Floats:
        return np.where(self.usable, self.shapes.effective, 1.0)

    def _per_position(self, per_at_risk: Floats) -> tuple[Floats, Floats]:
        """Return the derivatives by both sums of positions, from derivatives by the effective numbers at risk."""
        Q, shapes = self.censored_positions, self.shapes
        return self._times(per_at_risk, -Q * shapes.per_event), self._times(per_at_risk, -shapes.lost)

    def _per_slope(self, per_at_risk: Floats) -> Floats:
        """Return the derivatives by slopes, in units of their unknown part."""
        return self._times(per_at_risk, self.censored_positions * self.shapes.unknown_std)

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
