"""Pearson's correlations of rows that are shrunk into a released ellipsoid, which takes the shape of the rows.

Proof: docs/proofs/ball-products.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtr, chdtri

from dpstats.covariance.moments import MOST_NOISE
from dpstats.means.ellipsoids import (
    ROUND_MEAN,
    WIDER,
    BallProducts,
    Ellipsoid,
    EllipsoidPlan,
    Extension,
    Frame,
    Step,
    Walk,
    plan_rounds,
)
from dpstats.privacy.gaussian import gaussian_sigma
from dpstats.privacy.guarantee import PrivacyGuarantee

Floats = NDArray[np.float64]

STAGE = "products of shrunk rows"
ROUND_SHARES = (0.03, 0.03, 0.03, 0.06)
"""Fraction of the squared mu for each round. The last one sets the shape; the others only come near to it."""
LAST_SHARE = 1 - sum(ROUND_SHARES)
_MEANS = (1 / 3, 1 / 5, 1 / 8)
"""The constants of an extended row that are compared, over the radius of the ball.

A smaller one leaves less noise in the products, and more in the means.
"""
_COUNT = math.sqrt(0.05)
"""Weight of the number of shrunk rows."""
_INSIDE = np.linspace(0.7, 0.9999, 400)
"""Fractions of normal rows that the last ellipsoid may hold."""
_LEAST_SLOPE = 0.3
_LEAST_SPREAD = 0.3
"""Least average of |u|^4, over the square of the average of |u|^2: noise can make a released one smaller."""


@dataclass(frozen=True)
class ShrunkCorrelationPlan(EllipsoidPlan):
    """The plan of a `PrivateCorrelation` by Pearson: rounds that find an ellipsoid, and products of the rows in it."""

    mean: float  # the constant of an extended row in the last stage, over the radius of the ball
    radius2: float  # squared radius of the last ball, for white rows of variance 1

    @property
    def extension(self) -> Extension:
        """Extension of rows in the last stage."""
        return _extension(self.n_features, self.mean, self.bits)

    @property
    def noise_ratio(self) -> float:
        """Ratio of the noise of a correlation to its sampling error, for independent normal columns, well whitened."""
        first, second = _normal_moments(self.radius2, self.n_features)
        d = self.n_features
        noise = float(np.asarray(self.noise(f"{STAGE}, diagonal").std)) / math.sqrt(2)
        ball = (self.extension.radius / 2.0**self.bits) ** 2
        sampling = math.sqrt(second / (d * (d + 2)) / self.n_samples)
        assert first > 0
        return noise / ball * self.radius2 / sampling

    def facts(self) -> dict[str, Any]:
        """Return facts about the plan that its stages do not show, by name."""
        return {"noise_ratio": self.noise_ratio}

    def notes(self) -> list[str]:
        """Return the facts as text, one line each."""
        return [
            "finds an ellipsoid around most rows first: the noise has the shape of the rows",
            f"for normal rows the noise of a correlation is {self.noise_ratio:.2g} times its sampling error",
        ]

    def last_step(self, found: Ellipsoid) -> Step:
        """Return the step of the last stage, for the ellipsoid that the rounds found."""
        radius = np.sqrt(found.squared_radius(self.radius2 / self.n_features))
        return Step(STAGE, self.extension, found, radius)

    def walk(self, release: Walk) -> ShrunkCorrelations:
        step = self.last_step(self.find(release))
        return ShrunkCorrelations(step.ellipsoid, step.radius, release(step), self.frame)


def plan_shrunk_correlations(
    n: int, d: int, guarantee: PrivacyGuarantee, low: Floats, high: Floats
) -> ShrunkCorrelationPlan:
    """Return the plan for public sizes and bounds."""
    frame = Frame(low / 2 + high / 2, high / 2 - low / 2, False, False, False)
    noise = gaussian_sigma(guarantee.epsilon, guarantee.delta) / n
    mean, radius2 = _best_ball(n, d, noise)
    return plan_rounds(
        n,
        guarantee,
        ROUND_SHARES,
        lambda bits: [(STAGE, _extension(d, mean, bits), LAST_SHARE)],
        lambda stages, bits: ShrunkCorrelationPlan(
            stages, guarantee, n, d, frame=frame, bits=bits, mean=mean, radius2=radius2, n_rounds=len(ROUND_SHARES)
        ),
    )


def _extension(d: int, mean: float, bits: int) -> Extension:
    return Extension(d, mean, 0.0, bits, count=_COUNT, norms=True)


def _normal_moments(radius2: Any, d: int) -> tuple[Any, Any]:
    """Return the averages of |u|^2 and |u|^4, for normal rows that are shrunk into a ball."""
    outside = 1 - chdtr(d, radius2)
    first = d * chdtr(d + 2, radius2) + radius2 * outside
    second = d * (d + 2) * chdtr(d + 4, radius2) + radius2**2 * outside
    return first, second


def _best_ball(n: int, d: int, noise: float) -> tuple[float, float]:
    """Return the constant and the squared radius with the least error of a correlation of two white normal columns.

    ``noise`` is the noise of an average that one row moves by 1, at the whole budget. The means of the rows in the last
    ball are as large as the noise of the center, which the last round found.
    """
    radius2 = chdtri(d, 1 - _INSIDE)
    first, second = _normal_moments(radius2, d)
    slope = first / d - 2 * radius2 * (1 - chdtr(d, radius2)) / (d * (d + 2))
    center = (1 + ROUND_MEAN**2) / ROUND_MEAN * noise / math.sqrt(ROUND_SHARES[-1])
    means = center**2 * WIDER * d + 1 / n
    errors = []
    for mean in _MEANS:
        of_products = ((1 + mean**2) * noise * radius2) ** 2 * (1 + _COUNT**2 / 2) / LAST_SHARE
        of_mean = of_products / (mean**2 * radius2)
        error = second / (d * (d + 2)) / n + of_products + of_mean * (2 * means + of_mean)
        errors.append(error / slope**2)
    at, where = np.unravel_index(np.argmin(errors), (len(_MEANS), len(radius2)))
    return _MEANS[at], float(radius2[where])


@dataclass(frozen=True, eq=False)
class ShrunkCorrelations:
    """Public: the last ellipsoid, its radius, and the released products of the rows in it."""

    ellipsoid: Ellipsoid
    radius: Floats  # shape ()
    products: BallProducts
    frame: Frame
    # Derivative of the covariance of shrunk white rows in their covariance. 1 for correlations of shrunk
    # rows.
    slope: float = 1.0
    population: bool = False  # whether the estimand is a population of elliptical rows

    def correct_for_shrinking(self) -> ShrunkCorrelations:
        """Return the correlations of the population, if its rows have an elliptical distribution."""
        products, d = self.products, len(self.units)
        assert products.outside is not None
        outside = float(np.clip(products.outside / products.n, 0.0, 1.0))
        square = float(np.trace(products.products))
        slope = 1 - 2 * outside / ((d + 2) * square) if square > 0 else 0.0
        return replace(self, slope=max(slope, _LEAST_SLOPE), population=True)

    @property
    def estimand(self) -> str:
        """Description of the covered quantities."""
        if self.population:
            return "the correlation of the population, if rows have an elliptical distribution"
        return "the correlation of rows shrunk into the released ellipsoid"

    @property
    def clipped_rows(self) -> float:
        """Noisy number of rows that were shrunk."""
        return float(np.clip(np.asarray(self.products.outside), 0.0, self.products.n))

    def note(self) -> str:
        """Return a note on the shrunk rows and the assumptions."""
        words = f"About {self.clipped_rows:,.0f} rows were shrunk into the ellipsoid. "
        if self.population:
            return words + "Rows that are not elliptical can have another correlation, which the interval misses."
        return words + "The correlation of the population, if rows are elliptical, is the default estimand."

    @property
    def units(self) -> Floats:
        """Matrix from rows of the unit ball to the units of the data."""
        return np.asarray(self.frame.half[:, None] * self.ellipsoid.unwhitening * self.radius)

    @property
    def _spread(self) -> Floats:
        """Covariance of the shrunk rows in the ball; with a slope, of rows that shrinking turned into these."""
        found = self.products.covariance
        round_part = np.trace(found) / len(found) * np.eye(len(found))
        return np.asarray(round_part + (found - round_part) / self.slope)

    @property
    def _scaled(self) -> Floats:
        """Rows of ``units`` over the standard deviations of the columns. They are 0 without a positive variance."""
        units = self.units
        variance = np.einsum("ij,jk,ik->i", units, self._spread, units)
        known = variance > 0
        return np.where(known[:, None], units, 0.0) / np.sqrt(np.where(known, variance, 1.0))[:, None]

    @property
    def identified(self) -> NDArray[np.bool_]:
        """Whether the noise of the variance of a column is at most ``MOST_NOISE`` of it."""
        squared = (self._scaled**2).sum(axis=1)
        noise = math.sqrt(2) * self.products.products_std * squared / self.slope
        return np.asarray((squared > 0) & (noise <= MOST_NOISE))

    @property
    def correlation(self) -> Floats:
        """Correlations from -1 to 1. They are 0 if a column is not identified, and 1 on the diagonal."""
        scaled, known = self._scaled, self.identified
        # Noise can move an estimate beyond 1.
        found = np.where(known[:, None] & known, np.clip(scaled @ self._spread @ scaled.T, -1.0, 1.0), 0.0)
        np.fill_diagonal(found, 1.0)
        return np.asarray(found)

    @property
    def noise(self) -> Floats:
        """Standard deviations of the noise of ``correlation``; infinite if a column is not identified."""
        scaled, known, r = self._scaled, self.identified, self.correlation
        d, mean_std, products_std = len(r), self.products.mean_std, self.products.products_std
        found = np.where(known[:, None] & known, 0.0, np.inf)
        for i, j in zip(*np.triu_indices(d, 1), strict=True):
            if known[i] and known[j]:
                # The noise moves a correlation by its derivative in the products.
                first, second = scaled[i], scaled[j]
                slope = (np.outer(first, second) + np.outer(second, first)) / 2
                slope -= r[i, j] / 2 * (np.outer(first, first) + np.outer(second, second))
                size = (slope**2).sum()
                mean = mean_std**2 * (4 * ((slope @ self.products.mean) ** 2).sum() + 2 * mean_std**2 * size)
                found[i, j] = found[j, i] = math.sqrt(2 * products_std**2 * size + mean) / self.slope
        np.fill_diagonal(found, 0.0)
        return found

    @property
    def rest(self) -> Floats:
        """Bound on the error of the slope, which is a derivative: it holds where rows are round after whitening.

        It is the change that the slope makes, times the distance of the whitened rows from round ones.
        """
        values = np.linalg.eigvalsh(self.products.covariance)
        mean = max(float(values.mean()), math.sqrt(2) * self.products.products_std)
        far = min(float(np.abs(values / mean - 1).max()), 1.0)
        return np.asarray(far * np.abs(self.correlation - replace(self, slope=1.0).correlation))

    @property
    def error(self) -> Floats:
        """Standard errors: sampling, noise, and the error of the slope; infinite if a column is not identified."""
        return np.asarray(np.sqrt(self.sampling**2 + self.noise**2 + self.rest**2))

    @property
    def sampling(self) -> Floats:
        """Standard deviations of the sampling errors, for rows with an elliptical distribution."""
        products, d = self.products, len(self.units)
        assert products.norms is not None
        square = max(float(np.trace(products.covariance)), math.sqrt(2 * d) * products.products_std)
        fourth = max(float(products.norms) + products.norms_std, _LEAST_SPREAD * square**2)
        radial = fourth * d / (d + 2) / square**2
        return np.asarray(math.sqrt(radial / products.n) * (1 - np.clip(self.correlation, -1.0, 1.0) ** 2) / self.slope)
