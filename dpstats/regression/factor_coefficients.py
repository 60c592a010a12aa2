"""Coefficients of declared factors, from the means of their cells at equal covariates."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dpstats.regression.bins import Floats
from dpstats.regression.factors_plan import Coding
from dpstats.regression.levels import SEEN_LEVEL, LevelsEstimate

_Z = 1.96
"""The error of a cell is the half-width of its interval at this quantile, over the quantile."""


@dataclass(frozen=True, eq=False)
class FactorCoefficients:
    """Coefficients in the units of the data, the intercept first.

    Attributes
    ----------
    params : array of shape (p,)
    cov, privacy : arrays of shape (p, p)
        Covariance of their errors, and its part that is not sampling error.
    identified : array of bool, shape (p - 1,)
    means, mean_errors : arrays of shape (n_cells,)
        Means of the cells at the mean of the covariates of all rows, and their standard errors.
    """

    params: Floats
    cov: Floats
    privacy: Floats
    identified: NDArray[np.bool_]
    means: Floats
    mean_errors: Floats


class CellMeans:
    """Means of cells and slopes, with the covariance of their errors, in half-widths.

    Attributes
    ----------
    point, center : arrays of shape (d,)
        The covariates that the means are for, and the mean covariates of all rows.
    means, errors : arrays of shape (K,)
        Means, and the standard errors that a mean does not share with the others.
    weights : array of shape (K,)
        Inverse variances of the cells, if residuals have the same variance in all of them.
    slopes : array of shape (d,)
    cov, privacy : arrays of shape (K + d, K + d)
        Covariance of the errors of both, means first, and its part that is not sampling error.
    """

    def __init__(self, found: LevelsEstimate) -> None:
        path, d = found.path, found.plan.design.center.size
        assert path.steps is not None
        self.point = path.steps.shift
        # The normal interval contains this one. If noise leaves it open to one side, an estimate near the other limit
        # is moved inside.
        low, high = (end[:, 0] for end in found.means.ends(_Z))
        middle, half = (low + high) / 2, (high - low) / 2
        self.means = np.clip(found.means.estimate[:, 0], middle - half / 2, middle + half / 2)
        self.errors = (half + np.abs(self.means - middle)) / _Z
        rows, fit = np.maximum(found.counts, found.counts_noise), path.fit
        self.slopes, slopes_cov = fit.slopes, found.slopes_covariance
        unseen, kept = slopes_cov - fit.sampling, 2 * ndtr(fit.clip / fit.shape) - 1
        # The mean of a cell is the mean of its rows, moved along the slopes from their mean covariates.
        moved = np.vstack([self.point - path.centers.covariates, np.eye(d)])
        unsure = np.append(path.unsure @ np.diagonal(slopes_cov), np.zeros(d))
        sampling = np.minimum((found.deviations[:, 0] / kept) ** 2 / rows, self.errors**2)
        own, nothing = self.errors**2, np.zeros(d)
        # Then the limit without noise is least squares over the rows.
        known = own - sampling + float(sampling @ rows**2) / rows.sum() / rows
        # Outcomes without any spread have no error. Then all rows count alike.
        self.weights = 1 / known if (known > 0).all() else rows
        self.cov = moved @ slopes_cov @ moved.T + np.diag(np.append(own, nothing) + unsure)
        self.privacy = moved @ unseen @ moved.T + np.diag(np.append(own - sampling, nothing) + unsure)
        self.center = found.counts @ path.centers.covariates / found.counts.sum()


def find_coefficients(found: LevelsEstimate, coding: Coding) -> FactorCoefficients:
    """Return the coefficients of a design from the means of its cells, by weighted least squares.

    With as many columns as cells, the weights of the cells do not matter.
    """
    cells, design = CellMeans(found), found.plan.design
    K, d = len(coding.columns), design.center.size
    units = np.append(np.full(K, design.y_half), design.y_half / design.half)
    theta = np.append(cells.means, cells.slopes) * units
    theta[:K] += design.y_center
    numbers, places = coding.find_places(d)
    # The least-squares fit of the cells' means at covariates of zero. Columns of ones map to ones.
    X = np.column_stack([np.ones(K), coding.columns])
    roots = np.sqrt(cells.weights)
    fitted = np.linalg.lstsq(roots[:, None] * X, np.diag(roots), rcond=None)[0]
    matrix = np.zeros((1 + len(numbers) + len(places), K + d))
    matrix[np.append(0, 1 + places), :K] = fitted
    matrix[0, K:] = -(design.center + design.half * cells.point)
    matrix[1 + numbers, K + np.arange(d)] = 1.0
    cov, privacy = (
        matrix @ (part * np.outer(units, units)) @ matrix.T for part in (cells.cov, cells.privacy)
    )
    identified = np.zeros(d + len(places), dtype=bool)
    identified[numbers] = found.path.fit.identified
    identified[places] = find_seen_columns(found, coding)
    at = np.hstack([np.eye(K), np.tile(cells.center - cells.point, (K, 1))]) * design.y_half
    mean_errors = np.sqrt(np.einsum("ij,jk,ik->i", at, cells.cov, at))
    means = design.y_center + at @ np.append(cells.means, cells.slopes)
    return FactorCoefficients(matrix @ theta, cov, privacy, identified, means, mean_errors)


def find_seen_columns(found: LevelsEstimate, coding: Coding) -> NDArray[np.bool_]:
    """Return whether each column has rows at its level, and at the reference level of its term."""
    columns = dict(zip(coding.names, coding.columns.T != 0, strict=True))
    identified = []
    for name in coding.names:
        own = next(names for names in coding.terms.values() if name in names)
        reference = ~np.any([columns[other] for other in own], axis=0)
        sides = [side for side in (columns[name], reference) if side.any()]
        identified.append(
            all(
                found.counts[side].sum() >= SEEN_LEVEL * found.counts_noise * math.sqrt(side.sum())
                for side in sides
            )
        )
    return np.array(identified)
