"""The log-rank test of a released table: observed less expected events of each group, with the noise of the table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc

from dpstats.survival.levels import LeastSquares
from dpstats.survival.reference import Reference, expectation_gradient

Floats = NDArray[np.float64]


def pool_causes(
    cells: Floats, noise: LeastSquares, n_bins: int, n_causes: int
) -> tuple[Floats, LeastSquares]:
    """Return the cells (..., cells) with the events of all causes added up, and the covariance of their noise."""
    add = np.hstack([np.eye(n_bins)] * n_causes)
    together = np.zeros((2 * n_bins + 1, cells.shape[-1]))
    together[:n_bins, : n_causes * n_bins] = add
    together[n_bins:, n_causes * n_bins :] = np.eye(n_bins + 1)
    pooled = LeastSquares(
        together @ noise.solution,
        together @ noise.own @ together.T,
        together @ noise.shared,
        together @ noise.to_total,
        noise.n_groups,
    )
    return cells @ together.T, pooled


@dataclass(frozen=True, eq=False)
class Moments:
    """Observed less expected events of a released table, or of each of its strata added up.

    Attributes
    ----------
    differences : array of shape (releases, groups)
    covariance : array of shape (releases, groups, groups)
        Of samples and of the noise, before the part that the public number of rows subtracts.
    common : array of shape (releases, groups)
        The part of each difference by which the public number of rows moves it.
    """

    differences: Floats
    covariance: Floats
    common: Floats

    @classmethod
    def compute(cls, reference: Reference) -> Moments:
        """Return the moments of the groups of a reference."""
        K, m = reference.n_groups, reference.n_bins
        weights, hazards, shares = reference.weights, reference.pooled_hazards, reference.shares
        events = reference.cells[:, :, :m]
        differences = ((events - reference.effective * hazards[:, None]) * weights[:, None]).sum(axis=2)
        information = reference.information
        alone = np.einsum("raj,rj->ra", shares, information)
        between = np.einsum("raj,rbj,rj->rab", shares, shares, information)
        covariance = alone[:, :, None] * np.eye(K) - between
        # How the difference of group a depends on the cells of group q.
        moved = (np.eye(K)[None, :, :, None] - shares[:, :, None, :]) * weights[:, None, None, :]
        gradients = expectation_gradient(moved, hazards[:, None, None, :])
        own = reference.noise.own + np.outer(reference.noise.shared, reference.noise.shared)
        covariance = covariance + np.einsum("raqc,rbqc->rab", gradients @ own, gradients)
        covariance = covariance + _position_covariance(reference, moved)
        return cls(differences, covariance, (gradients @ reference.noise.shared).sum(axis=2))

    def __add__(self, other: Moments) -> Moments:
        return Moments(
            self.differences + other.differences,
            self.covariance + other.covariance,
            self.common + other.common,
        )

    @property
    def whole_covariance(self) -> Floats:
        """Covariance of the differences: shape (releases, groups, groups)."""
        return self.covariance - self.common[:, :, None] * self.common[:, None, :]

    def chi_square(self) -> tuple[Floats, Floats]:
        """Return the statistic and its p-values: shape (releases,)."""
        K = self.differences.shape[1]
        used = self.whole_covariance[:, :-1, :-1] + 1e-9 * np.eye(K - 1)
        solved = np.linalg.solve(used, self.differences[:, :-1, None])[:, :, 0]
        statistic = np.maximum((self.differences[:, :-1] * solved).sum(axis=1), 0.0)
        return statistic, np.asarray(gammaincc((K - 1) / 2, statistic / 2))


def _position_covariance(reference: Reference, moved: Floats) -> Floats | float:
    """Return the covariance due to noise in positions, and to shapes that remain unknown."""
    shapes, std = reference.shapes, reference.position_std
    if shapes is None or std is None:
        return 0.0
    by_censored = moved * (reference.pooled_hazards * shapes.lost * std[1])[:, None, None]
    of_noise = np.einsum("raqj,rbqj->rab", by_censored, by_censored)
    return np.asarray(reference.slope_covariance + of_noise)


def table_log_rank(*references: Reference) -> tuple[Floats, Floats, Floats]:
    """Return observed less expected events (releases, groups), the chi-square statistic and its p-values.

    Several references are strata, whose moments add up. The noise of strata is correlated, because the number of rows
    of all groups is public.
    """
    first, *others = map(Moments.compute, references)
    moments = sum(others, first)
    statistic, pvalue = moments.chi_square()
    unknown = ~(sum(reference.information.sum(axis=1) for reference in references) > 0)
    return moments.differences, np.where(unknown, 0.0, statistic), np.where(unknown, 1.0, pvalue)
