"""The spatial-sign test: release the norm of the sum of rows projected on a ball.

Proof: docs/proofs/spatial-sign.md.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from dpstats.data.parameters import check_real
from dpstats.identity.base import IdentityPlan, PrivateTest
from dpstats.identity.spatial import DEFAULT_RADIUS, integer_norm, spatial_sign_lattice
from dpstats.identity.whitening import Reference
from dpstats.lattice import BallLattice
from dpstats.privacy.plan import Stage
from dpstats.release.additive import Statistic, additive_stages
from dpstats.release.estimator import Statistic as ExactStatistic

_NORM = "norm of the sum"

# From here on the sum of simulated rows is drawn from its normal limit. The rows are bounded, and
# symmetric under the null, so that probabilities of balls are off by O(1/n), less than a calibration is,
# where Cramer's condition holds: not for one column and a tiny radius, where rows are nearly two-valued.
NORMAL_LIMIT = 10_000
_MOMENT_ROWS = 200_000


class SpatialSignTest(PrivateTest):
    """Private test of a mean by the norm of the sum of projected rows: one pass, any number of rows.

    Parameters
    ----------
    mean : float or array of shape (n_features,), default=0.0
        Mean of the null hypothesis; public. Labelled, as for `RowDistanceTest`.
    cov : None, array of shape (n_features,) or (n_features, n_features), default=None
        Covariance matrix, or variances; public. None is the identity.
    null : {"normal", "product"}, default="normal"
        "product": independent signs with ``mean``, or 0/1 columns; see `RowDistanceTest`.
    radius : float, optional
        Whitened rows are projected on the ball of this radius; public. None is 0.75 sqrt(d) for normal
        rows, and the length of the longest row for signs. Small radii are the classical spatial sign.
    epsilon : float, default=1.0
    level : float, default=0.05
    calibration : {"monte_carlo"}, default="monte_carlo"
    n_calibration, missing, cache_dir, n_jobs, progress, random_state, budget
        As for `RowDistanceTest`.

    Attributes
    ----------
    statistic_ : float
        ||S|| plus Laplace noise of scale 2 radius/epsilon.
    threshold_, pvalue_ : float
    reject_ : bool
    result_ : TestResult
    privacy_ : PrivacyGuarantee
        Pure, for neighbours that differ in one row; n is public.
    plan_ : IdentityPlan
    n_features_in_ : int

    Notes
    -----
    S moves by at most 2 radius when a row is replaced, in any dimension, and so does its norm: releasing the norm
    alone is what makes pure privacy affordable. Rows are projected to integers whose norm is checked exactly.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.identity import SpatialSignTest
    >>> X = np.random.default_rng(0).normal(0.1, 1.0, size=(3000, 5))
    >>> test = SpatialSignTest(epsilon=1.0, n_calibration=199, random_state=0).fit(X)
    >>> test.reject_
    True
    """

    _title = "Spatial sign"

    def __init__(
        self,
        *,
        mean: Any = 0.0,
        cov: Any = None,
        null: str = "normal",
        radius: float | None = None,
        epsilon: float = 1.0,
        level: float = 0.05,
        calibration: str = "monte_carlo",
        n_calibration: int | None = None,
        missing: str = "error",
        cache_dir: Any = None,
        n_jobs: int | None = None,
        progress: bool = False,
        random_state: Any = None,
        budget: Any = None,
    ) -> None:
        self.mean = mean
        self.cov = cov
        self.null = null
        self.radius = radius
        self.epsilon = epsilon
        self.level = level
        self.calibration = calibration
        self.n_calibration = n_calibration
        self.missing = missing
        self.cache_dir = cache_dir
        self.n_jobs = n_jobs
        self.progress = progress
        self.random_state = random_state
        self.budget = budget

    def _design(self, n: int, d: int, reference: Reference) -> BallLattice:
        if self.radius is not None:
            radius = check_real("radius", self.radius, above=0)
        elif reference.largest is None:
            radius = DEFAULT_RADIUS * math.sqrt(d)
        else:
            # Nothing is projected: the projections of unequal signs would not have mean zero.
            radius = reference.largest * math.sqrt(d)
        return spatial_sign_lattice(n, d, radius)

    def _stages(self, design: BallLattice, n: int, d: int) -> tuple[Stage, ...]:
        sensitivity = design.sensitivity("l2")
        statistic = Statistic(_NORM, 1, design.spacing, sensitivity, sensitivity)
        return additive_stages([statistic], check_real("epsilon", self.epsilon, above=0), 0.0)

    def _exact(self, X: NDArray[Any], plan: IdentityPlan) -> ExactStatistic:
        lattice: BallLattice = plan.design
        reference = plan.reference
        if reference.whitener is None and not np.any(reference.center) and plan.missing == "error":
            # Already white: the sums read the data themselves, in one pass on all cores.
            sums, _ = lattice.sums(X)
        else:
            sums = sum(
                (lattice.sums(Z)[0] for _, Z in reference.blocks(X, plan.missing)),
                start=np.zeros(plan.n_features, dtype=np.int64),
            )
        return {_NORM: np.array([integer_norm(sums)])}

    def _draw(
        self, plan: IdentityPlan, size: int, generator: np.random.Generator, shift: Any
    ) -> NDArray[np.int64]:
        lattice: BallLattice = plan.design
        if plan.n_samples < NORMAL_LIMIT or plan.reference.signs_mean is not None:
            norms = [
                integer_norm(lattice.sums(plan.reference.sample(plan.n_samples, generator, shift))[0])
                for _ in range(size)
            ]
            return np.array(norms, dtype=np.int64)[:, None]
        radius = lattice.spacing * lattice.radius
        limit = draw_normal_limit(plan.n_samples, plan.n_features, radius, size, generator, shift)
        return np.floor(limit / lattice.spacing).astype(np.int64)[:, None]

    def _seconds(self, n: int, d: int, design: BallLattice) -> float:
        return 1e-4 + 1e-5 if n >= NORMAL_LIMIT else 2e-4 + 3e-8 * n * d


def draw_normal_limit(
    n: int, d: int, radius: float, size: int, generator: np.random.Generator, shift: Any
) -> NDArray[np.float64]:
    """Return ||S|| with S drawn from the normal law that has its mean and variances.

    Without a shift the projection x min(1, radius/||x||) is rotation invariant, with E min(||x||, radius)^2/d
    in every direction, in closed form. With one it is invariant around the shift, and three moments decide.
    """
    distance = float(np.linalg.norm(np.broadcast_to(np.asarray(shift, dtype=np.float64), (d,))))
    if distance == 0:
        square = chi2.cdf(radius**2, d + 2) + radius**2 / d * chi2.sf(radius**2, d)
        mean, along, across = 0.0, square, square
    else:
        moments = np.random.default_rng(0)  # the same for every shift: power curves are smooth
        first = moments.standard_normal(_MOMENT_ROWS) + distance
        rest = moments.chisquare(d - 1, _MOMENT_ROWS) if d > 1 else np.zeros(_MOMENT_ROWS)
        factor = np.minimum(1.0, radius / np.sqrt(first**2 + rest))
        mean, along = float(np.mean(factor * first)), float(np.var(factor * first))
        across = float(np.mean(factor**2 * rest)) / max(d - 1, 1)
    parallel = n * mean + math.sqrt(n * along) * generator.standard_normal(size)
    other = n * across * generator.chisquare(d - 1, size) if d > 1 else 0.0
    norm: NDArray[np.float64] = np.sqrt(parallel**2 + other)
    return norm
