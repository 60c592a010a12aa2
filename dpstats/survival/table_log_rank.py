"""The log-rank test of a released table: observed less expected events of each group, with the noise of the table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincc

from dpstats.survival.curves import risk_sums
from dpstats.survival.incidences import Floats
from dpstats.survival.levels import LeastSquares
from dpstats.survival.reference import Reference, expectation_gradient


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
        # Noisy events of all groups, not cut at 0, so that differences add up to 0.
        total = np.where(reference.usable, events.sum(axis=1), 0.0)
        at_risk = np.where(reference.usable, reference.pooled_effective, 1.0)
        parts = reference.effective / at_risk[:, None]
        differences = ((events - parts * total[:, None]) * weights[:, None]).sum(axis=2)
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
        bias, second = _second_order(reference, parts, total, at_risk)
        return cls(differences + bias, covariance + second, (gradients @ reference.noise.shared).sum(axis=2))

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


def _second_order(
    reference: Reference, parts: Floats, total: Floats, at_risk: Floats
) -> tuple[Floats, Floats]:
    """Return the bias that noise in a group's proportion at risk takes off the differences, and its covariance."""
    # A proportion p has the error e = (e_g - p e_all)/E, and the events d of all groups have the error f. The
    # difference has -e f and -d e, whose means are not 0, because d is in E, and because E is in the denominator.
    K, m, noise = reference.n_groups, reference.n_bins, reference.noise
    sums = risk_sums(m, 1)
    with_pool = noise.own - (K - 1) * np.outer(noise.shared, noise.shared)
    of_number = ((sums @ with_pool) * sums).sum(axis=1)
    of_both = (sums @ with_pool)[:, :m].diagonal()
    of_events = with_pool[:m, :m].diagonal()
    weights = reference.weights
    per_group = of_both / at_risk - total * of_number / at_risk**2
    bias = ((1 - K * parts) * (weights * per_group)[:, None]).sum(axis=2)
    # Covariance of the errors of the proportions of groups a and b, in each bin.
    across = -((sums @ noise.shared) ** 2)
    own = ((sums @ noise.own) * sums).sum(axis=1)
    p, q = parts[:, :, None], parts[:, None]
    shares = np.where(np.eye(K, dtype=bool)[None, :, :, None], own, across)
    shares = (shares - (p + q - K * p * q) * of_number) / at_risk[:, None, None] ** 2
    spread = np.maximum(total, 0.0) + K * of_events
    both = (1 - K * p) * (1 - K * q) * (of_both / at_risk)[:, None, None] ** 2
    second = shares * spread[:, None, None] + both
    return bias, (second * (weights**2)[:, None, None]).sum(axis=3)


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
