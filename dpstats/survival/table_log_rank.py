"""The log-rank test of a released table: observed less expected events of each group, with the noise of the table."""

from __future__ import annotations

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


def table_log_rank(reference: Reference) -> tuple[Floats, Floats, Floats]:
    """Return observed less expected events (releases, groups), the chi-square statistic and its p-values."""
    K, m = reference.n_groups, reference.n_bins
    weights, hazards, shares = reference.weights, reference.pooled_hazards, reference.shares
    events = reference.cells[:, :, :m]
    differences = ((events - reference.at_risk * hazards[:, None]) * weights[:, None]).sum(axis=2)
    information = reference.information
    alone = np.einsum("raj,rj->ra", shares, information)
    between = np.einsum("raj,rbj,rj->rab", shares, shares, information)
    covariance = alone[:, :, None] * np.eye(K) - between
    # How the difference of group a depends on the cells of group q.
    moved = (np.eye(K)[None, :, :, None] - shares[:, :, None, :]) * weights[:, None, None, :]
    gradients = expectation_gradient(moved, hazards[:, None, None, :])
    own = reference.noise.own + np.outer(reference.noise.shared, reference.noise.shared)
    covariance = covariance + np.einsum("raqc,rbqc->rab", gradients @ own, gradients)
    common = (gradients @ reference.noise.shared).sum(axis=2)
    covariance = covariance - common[:, :, None] * common[:, None, :]
    used = covariance[:, :-1, :-1] + 1e-9 * np.eye(K - 1)
    solved = np.linalg.solve(used, differences[:, :-1, None])[:, :, 0]
    statistic = np.maximum((differences[:, :-1] * solved).sum(axis=1), 0.0)
    statistic = np.where(information.sum(axis=1) > 0, statistic, 0.0)
    return differences, statistic, np.asarray(gammaincc((K - 1) / 2, statistic / 2))
