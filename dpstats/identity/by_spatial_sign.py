"""The spatial-sign test: release the norm of the sum of rows projected on a ball.

Proof: docs/proofs/spatial-sign.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dpstats.data.parameters import check_real
from dpstats.data.values import as_int64
from dpstats.identity.base import PrivateTest
from dpstats.identity.calibration import IdentityPlan
from dpstats.identity.whitening import Reference, norm_rate
from dpstats.lattice import BallLattice
from dpstats.privacy.stages import Stage
from dpstats.release.additive import Integers, additive_stages
from dpstats.release.estimator import parameters

# The norm of the sum of projected rows, in integers

# S = sum_i x_i min(1, B/||x_i||). Replacing a row moves S by at most 2B, and so its norm, in any dimension:
# releasing ||S|| instead of S is what makes pure privacy affordable. Proof: docs/proofs/spatial-sign.md.

DEFAULT_RADIUS = 0.75
"""B / sqrt(d) for whitened rows of many columns: see `default_radius`."""
_FEW = 7
"""Columns up to which the radius depends on the number of rows: lengths of rows of more columns differ little."""


def default_radius(n: int, d: int, epsilon: float) -> float:
    """Return a radius B at which the test detects nearly the smallest distance, for whitened normal rows.

    A smaller radius needs less noise, and a larger radius loses less information. The balance depends on
    ``n epsilon^2``, the ratio of the sampling variance to the noise variance. B / sqrt(d) is 0.3 if noise dominates,
    and grows with the logarithm of this ratio. For up to 7 columns, the distance detected with power 0.8 is at most 3%
    above the minimum over all radii.
    """
    if d > _FEW:
        return DEFAULT_RADIUS * math.sqrt(d)
    return 0.3 * (1 + max(0.0, math.log10(n) + 2 * math.log10(epsilon))) * math.sqrt(d)


def spatial_sign_lattice(n: int, d: int, radius: float | None = None) -> BallLattice:
    """Return the public lattice of the sum: the ball of radius B in 2^bits steps.

    Parameters
    ----------
    n, d : int
        Shape of the data.
    radius : float, optional
        B, in units of the whitened rows; 0.75 sqrt(d) by default. Small radii are the classical spatial
        sign; large ones the clipped sum.
    """
    # Sums of n steps stay below 2^62: finer lattices are for fewer rows.
    bits = max(8, min(30, 61 - n.bit_length()))
    return BallLattice.build(DEFAULT_RADIUS * math.sqrt(d) if radius is None else radius, 0.0, d, bits=bits)


def integer_norm(S: NDArray[Any]) -> int:
    """Return the floor of the l2 norm of an integer vector, exactly.

    If ||S - S'|| is at most the integer D, so that ||S|| <= ||S'|| + D, then the floors differ by at most
    D as well: floor(x + D) = floor(x) + D. Rounding down costs no sensitivity.
    """
    return math.isqrt(sum(int(s) ** 2 for s in S))


# Rows with two values in each column

# Whitened signs of column j are one of two integers, high_j and low_j. So replacing a row changes the sum by at most
# sqrt(sum_j (high_j - low_j)^2). For skewed columns this is far less than twice the longest row, because no two rows
# are both this long and opposite. Proof: docs/proofs/spatial-sign.md.

STEPS_PER_UNIT = 2.0**20
"""Coordinates are at most 14.2, and sums of 10^9 of them below 2^54."""
_LARGEST = 2**30


@dataclass(frozen=True)
class SignBox:
    """The grid of whitened signs, and the diagonal of their box in its steps, rounded up."""

    steps_per_unit: float
    diagonal: int

    @classmethod
    def build(cls, reference: Reference) -> SignBox:
        """Return the box of a product null."""
        high, low = reference.sign_steps(STEPS_PER_UNIT, _LARGEST)
        square = sum(width**2 for width in (high - low).tolist())
        return cls(STEPS_PER_UNIT, math.isqrt(square - 1) + 1)

    @property
    def spacing(self) -> float:
        """The length of a step."""
        return 1 / self.steps_per_unit

    def sums(self, Z: NDArray[np.float64], reference: Reference) -> NDArray[np.int64]:
        """Return the column sums of whitened signs; a missing row is 0, which is inside the box."""
        sums: NDArray[np.int64] = reference.sign_rows(Z, self.steps_per_unit, _LARGEST).sum(axis=0)
        return sums

    def simulated(
        self, reference: Reference, n: int, size: int, generator: np.random.Generator, shift: object
    ) -> NDArray[np.int64]:
        """Return the column sums of n rows, for ``size`` datasets, from their exact distribution."""
        return reference.sums(n, size, generator, shift, self.steps_per_unit, _LARGEST)


# The norm of the sum of many rows, simulated from its normal limit at one cost

# For x ~ N(a e, I) and any h, with u_k noncentral chi-square of k degrees and noncentrality a^2,

#     E[<x, e> h(|x|^2)] = a E h(u_{d+2}),    E[x_j^2 h(|x|^2)] = E h(u_{d+2}) + a^2 e_j^2 E h(u_{d+4}),

# so that the moments of x min(1, radius/|x|) are integrals over a line. They must be exact, because the error in the
# mean of a row is multiplied by n in the sum.

# From this number of rows, the sum of simulated rows is drawn from its normal limit. The rows are bounded, and
# symmetric under the null. So the error in the probability of a ball is O(1/n), less than the error of a calibration.
# This requires Cramer's condition, which fails for one column and a tiny radius, because rows are nearly two-valued.
NORMAL_LIMIT = 10_000
_TAIL = 12.0  # standard deviations of a length, or more: beyond there is nothing that counts
_FAR = 1e4  # lengths of rows so far off are normal around sqrt(a^2 + df - 1), to 1e-8 of it up to a million columns
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)


def normal_limit(
    n: int, d: int, radius: float, size: int, generator: np.random.Generator, shift: Any
) -> NDArray[np.float64]:
    """Return ||S|| with S drawn from the normal law that has its mean and variances, along the shift and across."""
    distance = float(np.linalg.norm(np.broadcast_to(np.asarray(shift, dtype=np.float64), (d,))))
    mean, along, across = projected_moments(distance, d, radius)
    parallel = n * mean + math.sqrt(n * along) * generator.standard_normal(size)
    other = n * across * generator.chisquare(d - 1, size) if d > 1 else 0.0
    found: NDArray[np.float64] = np.sqrt(parallel**2 + other)
    return found


@lru_cache(maxsize=1024)
def projected_moments(distance: float, d: int, radius: float) -> tuple[float, float, float]:
    """Return, of x min(1, radius/||x||) with x ~ N(distance e, I): mean and variance along e, and variance across."""
    mean = distance * _shrunk(1, d + 2, distance, radius)
    across = _shrunk(2, d + 2, distance, radius)
    along = across + distance**2 * _shrunk(2, d + 4, distance, radius) - mean**2
    return mean, max(along, 0.0), across


def _shrunk(power: int, df: int, distance: float, radius: float) -> float:
    """Return E min(1, radius/s)^power for s^2 noncentral chi-square, of noncentrality distance^2."""
    center = math.hypot(distance, math.sqrt(df - 1))
    low, high = max(radius, center - _TAIL), center + _TAIL
    s = low + (high - low) * (1 + _NODES) / 2
    if distance > _FAR:
        inside, density = stats.norm.cdf(radius - center), stats.norm.pdf(s - center)
    else:
        law = stats.ncx2(df, distance**2) if distance else stats.chi2(df)
        inside, density = law.cdf(radius**2), 2 * s * law.pdf(s**2)
    if low >= high:
        return float(inside)
    return float(inside + (high - low) / 2 * np.sum(_WEIGHTS * (radius / s) ** power * density))


# The test

# Proof: docs/proofs/spatial-sign.md.

_NORM = "norm of the sum"


@parameters
class SpatialSignTest(PrivateTest):
    """Private test of a mean by the norm of the sum of projected rows, in one pass over any number of rows.

    Use it for more than 10,000 rows, or for few columns. With up to 10,000 rows and 8 or more columns, compare with
    `RowDistanceTest`.

    Parameters
    ----------
    mean : float or array of shape (n_features,), default=0.0
        Public mean under the null hypothesis. Labels work as in `RowDistanceTest`.
    cov : None, array of shape (n_features,) or (n_features, n_features), default=None
        Public covariance matrix, or variances. None is the identity.
    null : {"normal", "product"}, default="normal"
        "product": independent signs with ``mean``, or 0/1 columns; see `RowDistanceTest`.
    radius : float, optional
        Public radius of the ball onto which whitened rows are projected. A small radius gives the classical spatial
        sign. None: for normal rows 0.75 sqrt(d) with more than 7 columns, otherwise a radius that grows with
        n epsilon^2, from 0.3 sqrt(d). Signs are already in a box and are not projected.
    level : float, default=0.05
    calibration : {"monte_carlo"}, default="monte_carlo"
    n_calibration, missing, missing_codes, cache_dir, n_jobs, progress, random_state, budget
        The same as in `RowDistanceTest`.
    epsilon : float, default=1.0

    Attributes
    ----------
    statistic_ : float
        ||S|| plus Laplace noise of scale 2 radius/epsilon; for signs, of the box's diagonal over epsilon.
    threshold_, pvalue_ : float
    reject_ : bool
    result_ : TestResult
    privacy_ : PrivacyGuarantee
        Pure guarantee for neighboring datasets that differ in one row; n is public.
    plan_ : IdentityPlan
    n_features_in_ : int

    Notes
    -----
    **Sensitivity.** Replacing a row changes S, and its norm, by at most 2 radius in any dimension. Only the norm is
    released, which makes pure privacy affordable. Rows are projected to integers, and their norm is checked exactly.
    Whitened signs are corners of a box. The diagonal of the box, sqrt(sum 4/(1 - mean_j^2)), is their sensitivity.

    **Rate.** A distance a is detectable with n of the order of
    sqrt(d)/a^2 + d^(2/3)/(a^(4/3) epsilon^(2/3)) + d^(1/2)/(a epsilon).

    **Limits.** The null hypothesis is the whole distribution: skewed rows with the correct mean are often rejected.
    At small epsilon the smallest detectable distance is several times as large as for a chi-square test.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.identity import SpatialSignTest
    >>> X = np.random.default_rng(0).normal(0.1, 1.0, size=(3000, 5))
    >>> test = SpatialSignTest(epsilon=1.0, n_calibration=199, random_state=0).fit(X)
    >>> test.reject_
    True
    """

    radius: float | None = None

    _title = "Spatial sign"

    def _design(self, n: int, d: int, reference: Reference) -> BallLattice | SignBox:
        if self.radius is not None:
            return spatial_sign_lattice(n, d, check_real("radius", self.radius, above=0))
        if reference.signs_mean is None:
            return spatial_sign_lattice(n, d, default_radius(n, d, check_real("epsilon", self.epsilon, above=0)))
        # Do not project signs: the projections of unequal signs would not have mean zero.
        return SignBox.build(reference)

    def _stages(self, design: BallLattice | SignBox, n: int, d: int) -> tuple[Stage, ...]:
        sensitivity = design.diagonal if isinstance(design, SignBox) else design.sensitivity("l2")
        statistic = Integers(_NORM, 1, design.spacing, sensitivity, sensitivity)
        return additive_stages([statistic], check_real("epsilon", self.epsilon, above=0), 0.0)

    def _exact(self, X: NDArray[Any], plan: IdentityPlan) -> Mapping[str, NDArray[Any]]:
        design: BallLattice | SignBox = plan.design
        reference = plan.reference
        white = reference.whitener is None and not np.any(reference.center)
        if isinstance(design, BallLattice) and white and plan.missing == "error":
            # The rows are already white, so the sums read the data in one pass on all cores.
            sums, _ = design.sums(X)
        else:
            sums = sum(
                (
                    design.sums(Z, reference) if isinstance(design, SignBox) else design.sums(Z)[0]
                    for _, Z in reference.blocks(X, plan.missing)
                ),
                start=np.zeros(plan.n_features, dtype=np.int64),
            )
        return {_NORM: np.array([integer_norm(sums)])}

    def _draw(self, plan: IdentityPlan, size: int, generator: np.random.Generator, shift: Any) -> NDArray[np.int64]:
        design: BallLattice | SignBox = plan.design
        reference, n = plan.reference, plan.n_samples
        if isinstance(design, SignBox):
            sums = design.simulated(reference, n, size, generator, shift)
        elif n < NORMAL_LIMIT or reference.signs_mean is not None:
            sums = np.stack([design.sums(reference.sample(n, generator, shift))[0] for _ in range(size)])
        else:
            radius = design.spacing * design.radius
            limit = normal_limit(n, plan.n_features, radius, size, generator, shift)
            return as_int64(np.floor(limit / design.spacing))[:, None]
        return np.array([integer_norm(S) for S in sums], dtype=np.int64)[:, None]

    def _cheaper(self) -> str:
        return "use LipschitzExtensionTest, whose simulations cost the same at any number of rows"

    def _rate(self, distance: float, d: int) -> float:
        return norm_rate(distance, d, self.epsilon)

    def _seconds(self, n: int, d: int, design: BallLattice | SignBox) -> float:
        if isinstance(design, SignBox):
            return 2e-5 + 1e-6 * d
        # Projected signs have no normal limit here: rows are drawn at any n.
        limit = n >= NORMAL_LIMIT and self.null == "normal"
        return 1e-4 + 1e-5 if limit else 2e-4 + 3e-8 * n * d
