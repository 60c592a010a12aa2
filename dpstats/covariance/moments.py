"""Moments of pairs of columns in a box, released together, and the errors of covariances that follow from them.

In half-widths about the center of the bounds a row is z in the box [-1, 1]^d. One stage releases the sums of z, the
products z_i z_j, their squares, the thirds z_i^2 z_j and the fourths z_i^3 z_j.

Proofs: docs/proofs/covariance.md, docs/intervals/covariance.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_columns
from dpstats.data.rows import Rows, Table
from dpstats.data.values import as_int64
from dpstats.inference.error_distributions import (
    BONFERRONI,
    ErrorDistribution,
    Limits,
    StatedErrors,
    Tail,
    normal_laplace_quantiles,
    normal_quantile,
)
from dpstats.inference.estimates import Estimates
from dpstats.inference.results import list_some
from dpstats.lattice.products import Sums, apply_columns, gram, row_bits, summed
from dpstats.means.ellipsoids import join_symmetric, split_symmetric
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import Block
from dpstats.release.additive import JointIntegers
from dpstats.release.noise import MAX_SCALE

Floats = NDArray[np.float64]

STAGE = "moments of pairs"
SUMS = "sums"
PRODUCTS, SQUARES = "products", "squares of products"
THIRDS, FOURTHS = "thirds", "fourths"
DIAGONAL, ABOVE = "diagonal", "above the diagonal"

MEAN_WEIGHT = 0.15
"""Squared weight of the sums in the stage of the products, over the number of columns."""
HIGHER_WEIGHT = 0.1
"""Squared weight of thirds, and of fourths: only the errors of estimates need them."""

LAPLACE_NOISE = {SUMS: 2.0, PRODUCTS: 1.0, SQUARES: 3.0, THIRDS: 8.0, FOURTHS: 8.0}
"""Scales of Laplace noise. Entries on the diagonal of a symmetric matrix have sqrt(2) times these."""
LAPLACE_COLUMN = 1.67
"""Bound on the l1 movement of a single column in these units: docs/proofs/covariance.md, Theorem 3."""

FINE, COARSE = 18, 10
"""Bits of a half-width in rows; and half of the bits of their rounded squares and cubes."""
_SUM_BITS = 62
_SAFE = 1 + 1e-12


def coarse_bits(n: int) -> int:
    """Return half of the bits of squares with which sums of n products of two squares stay below 2^62."""
    return min(COARSE, (_SUM_BITS - n.bit_length()) // 4)


def laplace_coarse_bits(d: int, n: int, epsilon: float) -> int:
    """Return the same bits, or fewer with which the Laplace noise of squares of products can be drawn."""
    largest = math.sqrt(2) * LAPLACE_NOISE[SQUARES] * laplace_movement(d, 1) / epsilon
    return max(1, min(coarse_bits(n), int(math.log2(MAX_SCALE / largest)) // 4))


def fine_bits(n: int) -> int:
    """Return the bits of a half-width with which sums of n products of two entries stay below 2^62."""
    return min(FINE, row_bits(n))


def rounding_of_squares(coarse: int) -> float:
    """Return the largest error of a rounded square."""
    return 2.0 ** -(2 * coarse + 1)


def movement(d: int, coarse: int) -> float:
    """Return the l2 movement of all blocks together by one replaced row.

    The second term is what rounded squares and cubes add to the moments of higher order.
    """
    weight = math.sqrt(HIGHER_WEIGHT)
    rounding = rounding_of_squares(coarse) * d * (2 + weight + 2 * weight)
    return (math.sqrt(2) * d * (1 + MEAN_WEIGHT + HIGHER_WEIGHT) + 2 * rounding) * _SAFE


def laplace_movement(d: int, coarse: int) -> float:
    """Return the l1 movement of all blocks together by one replaced row, in units of `LAPLACE_NOISE`."""
    noise, pairs = LAPLACE_NOISE, d * (d - 1) // 2
    rounding = rounding_of_squares(coarse) * (2 / noise[THIRDS] + 4 / (math.sqrt(2) * noise[SQUARES]))
    odd = 4 * pairs * (1 / noise[THIRDS] + 1 / noise[FOURTHS])
    products = 2 * (d**2 // 4) / noise[PRODUCTS] + pairs / noise[SQUARES]
    return (d * (LAPLACE_COLUMN + rounding) + products + odd) * _SAFE


def moment_integers(d: int, n: int, bits: int, coarse: int, noise: str = "gaussian") -> JointIntegers:
    """Return the blocks of the stage of moments, for n rows of d columns, in the units of their noise."""
    one, two, four = 2.0**bits, 4.0**bits, 16.0**coarse
    odd = 4.0**coarse * one
    higher = math.sqrt(HIGHER_WEIGHT)
    pairs = d * (d - 1) // 2

    def block(name: str, size: int, unit: float, weight: float) -> Block:
        if noise == "laplace":
            weight = 1 / LAPLACE_NOISE[name.split(",")[0]]
            weight /= math.sqrt(2) if name.endswith(DIAGONAL) and not name.endswith(ABOVE) else 1.0
        return Block(name, size, 1 / unit / n, unit / weight)

    root = math.sqrt(2)
    blocks = [
        block(SUMS, d, one, math.sqrt(2 * MEAN_WEIGHT * d)),
        block(f"{PRODUCTS}, {DIAGONAL}", d, two, 1.0),
        block(f"{SQUARES}, {DIAGONAL}", d, four, 1.0),
        block(THIRDS, d * d, odd, higher),
    ]
    if pairs:
        blocks += [
            block(f"{PRODUCTS}, {ABOVE}", pairs, two, root),
            block(f"{SQUARES}, {ABOVE}", pairs, four, root),
            block(FOURTHS, 2 * pairs, odd, higher),
        ]
    if noise == "laplace":
        return JointIntegers(STAGE, tuple(blocks), laplace_movement(d, coarse), math.inf)
    return JointIntegers(STAGE, tuple(blocks), math.inf, movement(d, coarse))


@dataclass(frozen=True)
class CovariancePlan(ReleasePlan):
    """The plan of a `PrivateCovariance`: one stage with the moments of all pairs of columns."""

    # Shape (n_features,). Center and half-width of the declared bounds.
    center: Floats = field(repr=False, compare=False)
    half: Floats = field(repr=False, compare=False)
    hard: bool = False  # whether rows lie inside the bounds by nature
    bits: int = FINE  # bits of a half-width
    coarse: int = COARSE  # half of the bits of squares and cubes in moments of higher order

    @property
    def distribution(self) -> str:
        """Distribution of the noise: "laplace" or "gaussian"."""
        return self.stage(STAGE).noise

    def expected_error(self, std: float | Floats | None = None) -> float:
        """Return the expected squared Frobenius error of ``covariance_``, for rows that are not clipped.

        Parameters
        ----------
        std : float or array of shape (n_features,), optional
            Standard deviation of normal, independent columns centered in their bounds (default: the sampling error is
            left out).
        """
        d = self.n_features
        spread = np.zeros(d) if std is None else np.broadcast_to(check_columns("std", std, d, at_least=0), (d,))
        n = self.n_samples
        # The product of two noisy means has noise, too.
        own = self.products_std**2 + self.mean_std**4
        noise = np.outer(self.half, self.half) ** 2 * own * (n / (n - 1)) ** 2
        variance = noise + np.outer(spread, spread) ** 2 / (n - 1)
        return float(variance.sum() + np.trace(variance))

    @property
    def mean_std(self) -> float:
        """Standard deviation of the noise of a mean, in half-widths."""
        return float(np.asarray(self.noise(SUMS).std))

    @property
    def products_std(self) -> float:
        """Standard deviation of the noise of a product above the diagonal, in half-widths."""
        return float(np.asarray(self.noise(f"{PRODUCTS}, {DIAGONAL}").std)) / math.sqrt(2)

    def least_std(self, share: float) -> Floats:
        """Return the least standard deviation of each column whose variance has noise of at most ``share`` of it."""
        noise = float(np.asarray(self.noise(f"{PRODUCTS}, {DIAGONAL}").std))
        return np.asarray(self.half * math.sqrt(noise / share))


@dataclass(frozen=True, eq=False)
class _Moments:
    """The sums of the moments of some rows."""

    plan: CovariancePlan

    def __call__(self, table: Table) -> Sums:
        X = table.X
        return summed(lambda where: self._block(np.asarray(X[where], dtype=np.float64)), *X.shape)

    def _block(self, X: Floats) -> Sums:
        plan = self.plan
        one = 2.0**plan.bits
        # One allocation: the memory of several is given back to the system, and cleared again, after every block.
        fine, squares, cubes = np.empty((3, *X.shape))
        fine[:] = X
        apply_columns(np.subtract, fine, plan.center)
        apply_columns(np.divide, fine, plan.half)
        fine *= one
        np.clip(fine, -one, one, out=fine)
        np.rint(fine, out=fine)
        d = X.shape[1]
        np.multiply(fine, fine, out=squares)
        squares *= 4.0 ** (plan.coarse - plan.bits)
        np.rint(squares, out=squares)
        sums = {
            SUMS: as_int64(fine.sum(axis=0)),
            THIRDS: as_int64(squares.T @ fine).ravel(),
            **split_symmetric(PRODUCTS, gram(fine)),
            **split_symmetric(SQUARES, gram(squares)),
        }
        if d > 1:
            np.multiply(squares, fine, out=cubes)
            cubes /= one
            np.rint(cubes, out=cubes)
            sums[FOURTHS] = as_int64(cubes.T @ fine)[~np.eye(d, dtype=bool)]
        return sums


def read_moments(rows: Rows, plan: CovariancePlan) -> Sums:
    """Return the integers that the stage of a plan releases."""
    return rows.total(_Moments(plan))


_MOST = 0.99
"""Fisher's transformation is used for correlations up to here, and up to two standard errors below 1."""


MOST_NOISE = 0.3
"""The noise of a variance over the variance, above which its correlations are not identified."""


def unidentified_note(names: Sequence[str], known: NDArray[np.bool_]) -> list[str]:
    """Return a note that names the columns with unidentified correlations, if there are any."""
    unknown = [name for name, found in zip(names, known, strict=True) if not found]
    if not unknown:
        return []
    return [
        f"Not identified: {list_some(unknown, 5)}. The noise of the variance exceeds {MOST_NOISE:g} of it, so "
        "correlations with it are not estimated. Use narrower bounds, fewer columns or a larger epsilon."
    ]


def correlation_estimates(
    names: Sequence[str],
    errors: CorrelationErrors,
    estimand: str,
    *,
    title: str = "Private correlations",
    header: str = "correlation",
    facts: Sequence[tuple[str, str]],
    notes: Sequence[str],
    unknown: Sequence[str] = (),
    simulated: bool,
) -> Estimates:
    """Return the correlations of all pairs of columns, in the order of ``numpy.triu_indices``."""
    pairs = list(itertools.combinations(names, 2))
    return Estimates(
        errors.estimate,
        None,
        tuple(f"{first}, {second}" for first, second in pairs),
        estimand,
        errors,
        title=title,
        header=header,
        facts=facts,
        notes=notes,
        unknown=unknown,
        together=BONFERRONI,
        labels={"first": [first for first, _ in pairs], "second": [second for _, second in pairs]},
        simulated=simulated,
    )


def _widths(tail: Tail, error: Floats, laplace: Floats | float) -> Floats:
    """Return quantiles of errors from the standard deviations of the errors and of their Laplace noise.

    Several noises add up to one with lighter tails than a single Laplace variable and heavier ones than a normal one,
    so the longer of both quantiles holds.
    """
    width = normal_quantile(tail) * error
    if not np.any(laplace):
        return np.asarray(width)
    part = np.minimum(laplace, error)
    rest = np.sqrt(error**2 - part**2)
    return np.maximum(width, normal_laplace_quantiles(tail, rest, part / math.sqrt(2)))


@dataclass(frozen=True, eq=False)
class BoundedErrors(StatedErrors, ErrorDistribution):
    """Errors of numbers between public bounds; an infinite error gives both bounds.

    Attributes
    ----------
    laplace : array or float
        Standard deviation of the part of the errors that is Laplace noise. The rest is normal.
    """

    low: Floats
    high: Floats
    laplace: Floats | float = 0.0

    @property
    def start(self) -> Floats:
        return np.clip(self.estimate, self.low, self.high)

    @property
    def box(self) -> Limits:
        return self.low, self.high

    def limits(self, tail: Tail) -> Limits:
        known = np.isfinite(self.error)
        width = np.where(known, _widths(tail, np.where(known, self.error, 0.0), self.laplace), np.inf)
        return (
            np.clip(self.estimate - width, self.low, self.high),
            np.clip(self.estimate + width, self.low, self.high),
        )


@dataclass(frozen=True, eq=False)
class CorrelationErrors(StatedErrors, ErrorDistribution):
    """Errors of correlations: the wider limit of the error and of Fisher's z; [-1, 1] if the error is infinite.

    Attributes
    ----------
    laplace : array or float
        Standard deviation of the part of the errors that is Laplace noise.
    """

    laplace: Floats | float = 0.0

    @property
    def box(self) -> Limits:
        one = np.ones(self.estimate.shape)
        return -one, one

    def limits(self, tail: Tail) -> Limits:
        known = np.isfinite(self.error)
        error = np.where(known, self.error, 0.0)
        width = _widths(tail, error, self.laplace)
        most = np.clip(1 - 2 * error, 0.0, _MOST)
        r = np.clip(self.estimate, -most, most)
        z, spread = np.arctanh(r), width / (1 - r**2)
        low = np.minimum(self.estimate - width, np.tanh(z - spread))
        high = np.maximum(self.estimate + width, np.tanh(z + spread))
        low, high = np.where(known, low, -1.0), np.where(known, high, 1.0)
        return np.clip(low, -1.0, 1.0), np.clip(high, -1.0, 1.0)


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
    # Largest errors of rounding: of an entry, and of a square.
    rounding: float = 0.0
    square_rounding: float = 0.0

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
            2.0 ** -(plan.bits + 1),
            rounding_of_squares(plan.coarse),
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
    def covariance_rounding(self) -> Floats:
        """Largest errors of ``covariance`` by the rounding of entries."""
        spread = np.sqrt(np.maximum(self.variances, 0.0) + np.sqrt(np.diagonal(self.noise_variance)))
        return np.asarray(self.rounding * (spread[:, None] + spread + self.rounding))

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
        """Averages of (z_i - m_i)^3 (z_j - m_j), with noise. The diagonal is from ``squared_products``."""
        mi, mj, T = self.mean[:, None], self.mean, self.thirds
        own, third = np.diagonal(self.products)[:, None], np.diagonal(T)[:, None]
        found = self.fourths - mj * third - 3 * mi * (T - mj * own) + 3 * mi**2 * (self.products - mi * mj)
        return np.asarray(np.where(np.eye(len(mj), dtype=bool), self.squared_products, found))

    @cached_property
    def fourth_order_error(self) -> Floats:
        """Errors of ``squared_products``: standard deviations of noise, and the largest ones of rounded squares.

        Squares, thirds, products and means have noise. Rounding has the same error in all rows with the same values,
        which a shift by the means does not remove.
        """
        mi, mj, T, own = self.mean[:, None], self.mean, self.thirds, np.diagonal(self.products)
        diagonal = np.where(np.eye(len(mj), dtype=bool), 2.0, 1.0)
        slope = -2 * T.T + 2 * mi * own + 4 * mj * self.products - 6 * mi * mj**2
        by_means = (slope**2 + slope.T**2) * self.mean_std**2 * diagonal
        by_thirds = 4 * (mi**2 + mj**2) * self.thirds_std**2 * diagonal
        by_products = (2 * (mi**4 + mj**4) + 16 * mi**2 * mj**2) * self.products_std**2 * diagonal
        noise = np.sqrt(self.squares_std**2 * diagonal + by_means + by_thirds + by_products)
        size = self._size**2
        return np.asarray(noise + self.square_rounding * (size[:, None] + size + self.square_rounding))

    @cached_property
    def _size(self) -> Floats:
        """Upper limits of the roots of the averages of z_i^2."""
        noise = np.sqrt(2) * self.products_std
        return np.asarray(np.sqrt(np.clip(np.diagonal(self.products) + noise, 0.0, 1.0)))

    @cached_property
    def cubed_error(self) -> Floats:
        """Errors of ``cubed_products``, likewise. Moments other than fourths have half of the errors of squares."""
        r, m = self._size, np.abs(self.mean)
        rounding = self.square_rounding * (2 * r + m[:, None] * (m + 3 * r) + r[:, None] * m)
        noise = np.sqrt(self.fourths_std**2 + (self.fourth_order_error / 2) ** 2)
        return np.asarray(noise + rounding)

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
        """``squared_products`` with one row more, raised by their errors: within the box."""
        lowest = np.minimum(self.covariance**2, 1.0)
        return np.clip(self.squared_products + self.unseen_products + self.fourth_order_error, lowest, 16.0)

    @cached_property
    def sampling_variance(self) -> Floats:
        """Variances of the sampling errors of ``covariance``, with squared errors of rounding."""
        spread = np.maximum(self.raised - self.covariance**2, 0.0)
        return np.asarray(spread / self.n + self.covariance_rounding**2)

    @cached_property
    def identified(self) -> NDArray[np.bool_]:
        """Whether the noise of a column's variance is small compared to the variance: shape (d,)."""
        noise = np.sqrt(np.diagonal(self.noise_variance)) + np.diagonal(self.covariance_rounding)
        return np.asarray((self.variances > 0) & (noise <= MOST_NOISE * self.variances))

    @cached_property
    def correlation(self) -> Floats:
        """Correlations, between -1 and 1; 0 for pairs that are not identified."""
        both = self.identified[:, None] & self.identified
        scale = np.sqrt(np.where(self.identified, self.variances, 1.0))
        return np.clip(np.where(both, self.covariance / np.outer(scale, scale), 0.0), -1.0, 1.0)

    @cached_property
    def correlation_noise(self) -> Floats:
        """Variances of the noise of ``correlation``."""
        v = np.where(self.identified, self.variances, 1.0)
        r, scale = self.correlation, np.outer(v, v)
        noise = self.noise_variance / scale
        own = np.diagonal(noise)
        # The noise of the means moves a covariance and the variances together.
        shared = 2 * np.outer(self.mean, self.mean) * self.mean_std**2 / np.sqrt(scale)
        of_noise = noise + r**2 / 4 * (own[:, None] + own) - r * shared * (1 / v[:, None] + 1 / v)
        return np.asarray(np.maximum(of_noise, 0.0))

    @cached_property
    def correlation_variance(self) -> Floats:
        """Variances of the errors of ``correlation``, sampling and noise; infinite where it is not identified.

        To first order, a correlation has the error of u_i u_j - r (u_i^2 + u_j^2)/2, for standardized columns u.
        """
        both = self.identified[:, None] & self.identified
        v = np.where(self.identified, self.variances, 1.0)
        r, scale = self.correlation, np.outer(v, v)
        half = r**2 / 4
        u22 = (self.squared_products + self.unseen_products) / scale
        u31 = self.cubed_products / (v[:, None] * np.sqrt(scale))
        u4 = np.diagonal(self.squared_products) / v**2
        spread = (1 + 2 * half) * u22 + half * (u4[:, None] + u4) - r * (u31 + u31.T)
        error = self.fourth_order_error / scale
        fourth = np.diagonal(error)
        u31_error = self.cubed_error / (v[:, None] * np.sqrt(scale))
        raise_by = np.sqrt(
            ((1 + 2 * half) * error) ** 2
            + half**2 * (fourth[:, None] ** 2 + fourth**2)
            + r**2 * (u31_error**2 + u31_error.T**2)
        )
        sampling = np.maximum(spread + raise_by, 0.0) / self.n
        moved = self.covariance_rounding / np.sqrt(scale)
        own = np.diagonal(moved)
        rounding = moved + np.abs(r) / 2 * (own[:, None] + own)
        return np.where(both, self.correlation_noise + sampling + rounding**2, np.inf)
