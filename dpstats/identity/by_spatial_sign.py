"""The spatial-sign test: release the norm of the sum of rows projected on a ball."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.data.parameters import check_real
from dpstats.identity.alternatives import norm_rate
from dpstats.identity.base import PrivateTest
from dpstats.identity.plan import IdentityPlan
from dpstats.identity.spatial import default_radius, integer_norm, spatial_sign_lattice
from dpstats.identity.spatial_box import SignBox
from dpstats.identity.spatial_limit import NORMAL_LIMIT, normal_limit
from dpstats.identity.whitening import Reference
from dpstats.lattice import BallLattice
from dpstats.privacy.stages import Stage
from dpstats.release.additive import Integers, additive_stages
from dpstats.release.parameters import parameters

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
    epsilon : float, default=1.0
    level : float, default=0.05
    calibration : {"monte_carlo"}, default="monte_carlo"
    n_calibration, missing, missing_codes, cache_dir, n_jobs, progress, random_state, budget
        The same as in `RowDistanceTest`.

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
            return spatial_sign_lattice(
                n, d, default_radius(n, d, check_real("epsilon", self.epsilon, above=0))
            )
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

    def _draw(
        self, plan: IdentityPlan, size: int, generator: np.random.Generator, shift: Any
    ) -> NDArray[np.int64]:
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
