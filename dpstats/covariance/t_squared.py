"""Hotelling's T-squared test of a released mean, or of the difference of two, and its public algebra.

Proof: docs/proofs/ball-products.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from dpstats.means.ball_products import BallProducts

Floats = NDArray[np.float64]

_FLOOR = 0.1
"""Least variance of a direction, over the average variance: noise can make a released one negative."""


@dataclass(frozen=True, eq=False)
class MeanErrors:
    """Released mean of white rows, or half the difference of two, with the variances of its error."""

    mean: Floats  # shape (d,)
    spread: Floats  # (d, d): covariance of the contribution of a row, with noise
    spread_std: float  # standard deviation of the noise of ``spread`` above the diagonal
    noise: Floats  # (d, d): covariance of the noise of ``mean``
    n: int

    @classmethod
    def from_rows(cls, found: BallProducts, null: Floats) -> MeanErrors:
        """Return the mean of all rows, less the mean under the null hypothesis."""
        noise = found.mean_std**2 * np.eye(len(found.mean))
        return cls(found.mean - null, found.covariance, found.products_std, noise, found.n)

    @classmethod
    def from_signs(cls, found: BallProducts, one_distribution: bool) -> MeanErrors:
        """Return the covariance of rows and signs, which is 0 if both samples have one mean.

        What a row adds is (s - average of s)(u - average of u): samples may differ in size and in covariance. If both
        have ``one_distribution``, the product has the covariance of u times the variance of s.
        """
        assert found.sign is not None and found.signed_mean is not None and found.signed_products is not None
        s, m, k = found.sign, found.mean, found.signed_mean
        value = k - s * m
        about = found.covariance
        if one_distribution:
            spread, std = (1 - s**2) * about, (1 - s**2) * found.products_std
        else:
            crossed = np.outer(m, k) + np.outer(k, m)
            signed = found.signed_products - crossed + s * np.outer(m, m)
            spread = (1 + s**2) * about - 2 * s * signed
            std = np.hypot((1 + s**2) * found.products_std, 2 * s * found.signed_products_std)
        spread = spread - np.outer(value, value)
        own = found.signed_mean_std**2 + s**2 * found.mean_std**2 + found.sign_std**2 * found.mean_std**2
        noise = own * np.eye(len(m)) + found.sign_std**2 * np.outer(m, m)
        return cls(value, spread, float(std), noise, found.n)

    @property
    def _size(self) -> float:
        """The average variance of a direction, at least the noise of that average."""
        d = len(self.mean)
        return float(max(np.trace(self.spread) / d, self.spread_std * np.sqrt(2 / d)))

    @property
    def covariance(self) -> Floats:
        """Covariance of the error of ``mean``: sampling and noise."""
        values, vectors = np.linalg.eigh(self.spread)
        kept = np.maximum(values, _FLOOR * self._size)
        return np.asarray((vectors * kept) @ vectors.T / self.n + self.noise)

    @property
    def statistic(self) -> float:
        """Hotelling's statistic with the covariance of sampling and noise."""
        return float(self.mean @ np.linalg.solve(self.covariance, self.mean))

    @property
    def degrees(self) -> float:
        """Degrees of freedom of a covariance of normal rows with the same relative errors."""
        noise = float(np.trace(self.noise)) / len(self.mean)
        total = self._size / self.n + noise
        sampled, error = self._size / self.n / total, self.spread_std / self.n / total
        return float(1 / (sampled**2 / (self.n - 1) + error**2))

    @property
    def pvalue(self) -> float:
        """The p-value by the distribution of F; 1 if the covariance has too few degrees of freedom."""
        d, m = len(self.mean), self.degrees
        left = m - d + 1
        return float(fdtrc(d, left, self.statistic * left / (d * m))) if left >= 1 else 1.0
