from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpstats.covariance.box_moments import (
    DIAGONAL,
    FOURTHS,
    PRODUCTS,
    SQUARES,
    SUMS,
    THIRDS,
    CovariancePlan,
    Floats,
)
from dpstats.covariance.error_distributions import MOST_NOISE
from dpstats.means.ball_products import join_symmetric


@dataclass(frozen=True, eq=False)
class CentralMoments:
    """Second moments of columns about their means, from one release."""

    n: int
    mean: Floats  # shape (d,)
    products: Floats  # (d, d): averages of z_i z_j, z_i^2 z_j^2, z_i^2 z_j and z_i^3 z_j, with noise
    squares: Floats
    thirds: Floats
    fourths: Floats
    # Standard deviations of the noise; of products and squares above the diagonal, where it is 1/sqrt(2) of
    # the diagonal's.
    mean_std: float
    products_std: float
    squares_std: float
    thirds_std: float
    fourths_std: float

    @classmethod
    def from_release(cls, released: Mapping[str, Floats], plan: CovariancePlan) -> CentralMoments:
        """Return the moments of a release."""
        d = plan.n_features
        squares = join_symmetric(SQUARES, released, d)
        fourths = np.diag(np.diagonal(squares)).astype(np.float64)
        if d > 1:
            fourths[~np.eye(d, dtype=bool)] = released[FOURTHS]

        def std(name: str) -> float:
            return float(np.asarray(plan.noise(name).std))

        return cls(
            plan.n_samples,
            np.asarray(released[SUMS], dtype=np.float64),
            join_symmetric(PRODUCTS, released, d),
            squares,
            np.reshape(released[THIRDS], (d, d)),
            fourths,
            std(SUMS),
            std(f"{PRODUCTS}, {DIAGONAL}") / np.sqrt(2),
            std(f"{SQUARES}, {DIAGONAL}") / np.sqrt(2),
            std(THIRDS),
            std(FOURTHS) if d > 1 else 0.0,
        )

    @cached_property
    def _bessel(self) -> float:
        return self.n / (self.n - 1)

    @cached_property
    def covariance(self) -> Floats:
        """Covariances, without bias: the square of a noisy mean is too large by the variance of its noise."""
        centered = self.products - np.outer(self.mean, self.mean)
        return np.asarray(self._bessel * (centered + self.mean_std**2 * np.eye(len(self.mean))))

    @cached_property
    def variances(self) -> Floats:
        """The diagonal of ``covariance``."""
        return np.diagonal(self.covariance)

    @cached_property
    def noise_variance(self) -> Floats:
        """Variances of the noise of ``covariance``."""
        m2, s2 = self.mean**2, self.mean_std**2
        found = self.products_std**2 + (m2[:, None] + m2) * s2 + s2**2
        diagonal = 2 * self.products_std**2 + 4 * m2 * s2 + 2 * s2**2
        return np.asarray(self._bessel**2 * np.where(np.eye(len(m2), dtype=bool), diagonal, found))

    @cached_property
    def squared_products(self) -> Floats:
        """Averages of (z_i - m_i)^2 (z_j - m_j)^2, with noise."""
        mi, mj, T, own = self.mean[:, None], self.mean, self.thirds, np.diagonal(self.products)
        return np.asarray(
            self.squares
            - 2 * mj * T
            - 2 * mi * T.T
            + mj**2 * own[:, None]
            + mi**2 * own
            + 4 * mi * mj * self.products
            - 3 * mi**2 * mj**2
        )

    @cached_property
    def cubed_products(self) -> Floats:
        """Averages of (z_i - m_i)^3 (z_j - m_j), with noise; the diagonal is that of ``squared_products``."""
        mi, mj, T = self.mean[:, None], self.mean, self.thirds
        own, third = np.diagonal(self.products)[:, None], np.diagonal(T)[:, None]
        found = self.fourths - mj * third - 3 * mi * (T - mj * own) + 3 * mi**2 * (self.products - mi * mj)
        return np.asarray(np.where(np.eye(len(mj), dtype=bool), self.squared_products, found))

    @cached_property
    def fourth_order_std(self) -> Floats:
        """Standard deviations of the noise of ``squared_products``: of its own moments, thirds, products and means."""
        mi, mj, T, own = self.mean[:, None], self.mean, self.thirds, np.diagonal(self.products)
        diagonal = np.where(np.eye(len(mj), dtype=bool), 2.0, 1.0)
        slope = -2 * T.T + 2 * mi * own + 4 * mj * self.products - 6 * mi * mj**2
        by_means = (slope**2 + slope.T**2) * self.mean_std**2 * diagonal
        by_thirds = 4 * (mi**2 + mj**2) * self.thirds_std**2 * diagonal
        by_products = (2 * (mi**4 + mj**4) + 16 * mi**2 * mj**2) * self.products_std**2 * diagonal
        return np.sqrt(self.squares_std**2 * diagonal + by_means + by_thirds + by_products)

    @cached_property
    def unseen_products(self) -> Floats:
        """Addition to ``squared_products`` for a row that is far from both means; 0 on the diagonal.

        The distance is the average of the squares, weighted by the squares. If no row has both of two rare events,
        the released moments understate the sampling variance.
        """
        ratio = np.diagonal(self.squared_products) / np.where(self.identified, self.variances, 1.0)
        far = np.where(self.identified, np.clip(ratio, 0.0, 4.0), 0.0)
        return np.asarray(np.where(np.eye(len(far), dtype=bool), 0.0, np.outer(far, far) / self.n))

    @cached_property
    def raised(self) -> Floats:
        """``squared_products`` with one row more, raised by one standard deviation of their noise: within the box."""
        lowest = np.minimum(self.covariance**2, 1.0)
        return np.clip(self.squared_products + self.unseen_products + self.fourth_order_std, lowest, 16.0)

    @cached_property
    def sampling_variance(self) -> Floats:
        """Variances of the sampling errors of ``covariance``."""
        return np.asarray(np.maximum(self.raised - self.covariance**2, 0.0) / self.n)

    @cached_property
    def identified(self) -> NDArray[np.bool_]:
        """Whether the noise of a column's variance is small beside it: shape (d,)."""
        noise = np.sqrt(np.diagonal(self.noise_variance))
        return np.asarray((self.variances > 0) & (noise <= MOST_NOISE * self.variances))

    @cached_property
    def correlation(self) -> Floats:
        """Correlations, between -1 and 1; 0 for pairs that are not identified."""
        both = self.identified[:, None] & self.identified
        scale = np.sqrt(np.where(self.identified, self.variances, 1.0))
        return np.clip(np.where(both, self.covariance / np.outer(scale, scale), 0.0), -1.0, 1.0)

    @cached_property
    def correlation_variance(self) -> Floats:
        """Variances of the errors of ``correlation``, sampling and noise; infinite where it is not identified.

        The error of a correlation is, to first order, that of u_i u_j - r (u_i^2 + u_j^2)/2 for standardized columns u.
        """
        both = self.identified[:, None] & self.identified
        v = np.where(self.identified, self.variances, 1.0)
        r, scale = self.correlation, np.outer(v, v)
        noise = self.noise_variance / scale
        own = np.diagonal(noise)
        # The noise of the means moves a covariance and the variances together.
        shared = 2 * np.outer(self.mean, self.mean) * self.mean_std**2 / np.sqrt(scale)
        half = r**2 / 4
        of_noise = noise + half * (own[:, None] + own) - r * shared * (1 / v[:, None] + 1 / v)
        u22 = (self.squared_products + self.unseen_products) / scale
        u31 = self.cubed_products / (v[:, None] * np.sqrt(scale))
        u4 = np.diagonal(self.squared_products) / v**2
        spread = (1 + 2 * half) * u22 + half * (u4[:, None] + u4) - r * (u31 + u31.T)
        error = self.fourth_order_std / scale
        fourth = np.diagonal(error)
        u31_std = np.sqrt(self.fourths_std**2 + (self.fourth_order_std / 2) ** 2) / (
            v[:, None] * np.sqrt(scale)
        )
        raise_by = np.sqrt(
            ((1 + 2 * half) * error) ** 2
            + half**2 * (fourth[:, None] ** 2 + fourth**2)
            + r**2 * (u31_std**2 + u31_std.T**2)
        )
        sampling = np.maximum(spread + raise_by, 0.0) / self.n
        return np.where(both, np.maximum(of_noise, 0.0) + sampling, np.inf)
