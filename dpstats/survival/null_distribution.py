"""The distribution of a log-rank statistic without differences: sampling, the noise of both stages, second order.

Arrays have the releases first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincc

from dpstats.intervals import error_tails
from dpstats.survival.cells import Floats
from dpstats.survival.reference import Reference, expectation_gradient

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
