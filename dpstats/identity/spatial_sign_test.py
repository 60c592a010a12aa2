"""The spatial-sign test: release the norm of the sum of rows projected on a ball.

Proof: docs/proofs/spatial-sign.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_real
from dpstats.identity.alternatives import norm_rate
from dpstats.identity.base import PrivateTest
from dpstats.identity.plan import IdentityPlan
from dpstats.identity.spatial import DEFAULT_RADIUS, integer_norm, spatial_sign_lattice
from dpstats.identity.spatial_limit import NORMAL_LIMIT, normal_limit
from dpstats.identity.whitening import Reference
from dpstats.lattice import BallLattice
from dpstats.privacy.stages import Stage
from dpstats.release.additive import Integers, additive_stages
from dpstats.release.parameters import parameters

_NORM = "norm of the sum"


@parameters
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
    alone is what makes pure privacy affordable. Rows are projected to integers whose norm is checked exactly. The
    detectable distance a obeys n of the order of sqrt(d)/a^2 + d^(2/3)/(a^(4/3) epsilon^(2/3)) + d^(1/2)/(a epsilon).

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
        statistic = Integers(_NORM, 1, design.spacing, sensitivity, sensitivity)
        return additive_stages([statistic], check_real("epsilon", self.epsilon, above=0), 0.0)

    def _exact(self, X: NDArray[Any], plan: IdentityPlan) -> Mapping[str, NDArray[Any]]:
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
        limit = normal_limit(plan.n_samples, plan.n_features, radius, size, generator, shift)
        return np.floor(limit / lattice.spacing).astype(np.int64)[:, None]

    def _simulation_seconds(self, plan: IdentityPlan) -> float:
        n, d = plan.n_samples, plan.n_features
        # The sum of signs has no normal limit here: rows are drawn at any n, which `_seconds` leaves out.
        return 2e-4 + 5e-8 * n * d if self.null == "product" else self._seconds(n, d, plan.design)

    def _cheaper(self) -> str:
        return "use L1ExtensionTest, whose simulations cost the same at any number of rows"

    def _rate(self, distance: float, d: int) -> float:
        return norm_rate(distance, d, self.epsilon)

    def _seconds(self, n: int, d: int, design: BallLattice) -> float:
        return 1e-4 + 1e-5 if n >= NORMAL_LIMIT else 2e-4 + 3e-8 * n * d
