"""The inner-product tests: algorithms 9.3.1 and 9.3.2, made private.

Proof: docs/proofs/lipschitz-extension.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpstats.data.arithmetic import as_int64
from dpstats.data.parameters import check_choice, check_flag, check_level, check_real
from dpstats.errors import InvalidParameter, show
from dpstats.identity.alternatives import norm_rate
from dpstats.identity.base import PrivateTest
from dpstats.identity.exact_extension import check_solvable, count_vectors, exact_inner_product_extension
from dpstats.identity.fine_stage import fine_stage
from dpstats.identity.inner_products import inner_product_constant, inner_product_surrogate
from dpstats.identity.l1_norm import l1_radius
from dpstats.identity.plan import IdentityPlan
from dpstats.identity.stages import LipschitzStage, staged_reduction
from dpstats.identity.whitening import Reference, check_signs, signs_of
from dpstats.privacy.stages import Stage
from dpstats.release.parameters import parameters
from dpstats.release.session import Released

AUTOMATIC_COUNT_VECTORS = 60_000
"""solver='auto' is exact up to this number of unordered datasets of a size, for example 12 x 3 and 60 x 2."""

_LARGEST_SQUARE = 2**51  # extensions of T stay below 4 n^2 d, exact as floats

PRINTED_CONSTANTS = (1000.0, 11.0, 10.0)
"""Line 2 and line 8 of algorithm 9.3.2, line 4 of algorithm 9.3.1."""

MODERATE_CONSTANTS = (1.0, 1.0, 10.0)
"""The printed ones leave a single stage at every moderate size; these do not."""


@dataclass(frozen=True)
class InnerProductDesign:
    """Public constants: the stages, and whether their extension is the exact one."""

    exact: bool
    stages: tuple[LipschitzStage, ...]


@parameters
class InnerProductTest(PrivateTest):
    """Private test of a mean by T = ``||S||^2 - n d`` of signs, extended from datasets with small ``|<x_j, S>|``.

    The set of these datasets comes from algorithm 9.3.1, with the corrected constant. The exact extension is for small
    data only.

    Parameters
    ----------
    mean : float or array of shape (n_features,), default=0.0
        Public mean under the null hypothesis. Labels work as in `RowDistanceTest`.
    cov : None, array of shape (n_features,) or (n_features, n_features), default=None
        Public covariance matrix, or variances. None is the identity.
    null : {"normal", "product"}, default="normal"
        "product": independent signs, or 0/1 columns; ``mean`` must be 0, the uniform distribution on the cube.
    radius : float, default=0.8
        Public radius for the surrogate of a single stage, at most 100. T is unchanged if a quantity of the data is at
        most A. This number is A divided by the null mean of the quantity, as in `L1ExtensionTest`. The constant of the
        stage is at most 4 A.
    solver : {"auto", "exact", "surrogate"}, default="auto"
        "exact" enumerates all datasets, or solves integer programs (small sizes only, and slow); "surrogate" is a
        computable lower bound with the same privacy. "auto" decides by the public size.
    staged : bool, default=False
        Algorithm 9.3.2, which shrinks the constraint in at most ceil(log n) stages.
    constants : None, "textbook" or three floats, default=None
        Of the staged algorithm: (line 2's 1000, line 8's 11, and the 10 of algorithm 9.3.1, line 4).
        None is (1, 1, 10): the printed ones leave a single stage at moderate sizes.
    distance : float, optional
        The alternative of ``staged=True`` with ``calibration="textbook"``, whose last threshold is
        n(n-1) distance^2/4.
    epsilon : float, default=1.0
        Total.
    level : float, default=0.05
    calibration : {"monte_carlo", "textbook"}, default="monte_carlo"
        "textbook" uses the printed thresholds: private, but with almost no power.
    missing : {"error", "drop"}, default="error"
        "drop" as for `RowDistanceTest`. A missing row has no signs. An entry at its mean counts as +1.
    missing_codes : sequence of numbers and text, optional
        Public codes of missing entries, such as ``[-999, "unk"]``, in all columns. Numbers are compared by value, words
        by text.
    n_calibration, cache_dir, n_jobs, progress, random_state, budget
        The same as in `RowDistanceTest`.

    Attributes
    ----------
    statistic_ : float
        The noisy extension of T. Infinite if an earlier stage rejected.
    threshold_, pvalue_ : float
    reject_ : bool
    result_ : TestResult
    privacy_ : PrivacyGuarantee
        Pure guarantee for neighboring datasets that differ in one row; n is public. It is stronger than
        ``epsilon`` if the schedule has fewer stages than its maximum.
    plan_ : IdentityPlan
    n_features_in_ : int

    Notes
    -----
    The printed claim that T is 4 Delta-Lipschitz on ``{|<x_j, S>| <= Delta}`` is false (docs/errata.md): an
    extension with noise for 4 Delta is not private. `inner_product_constant` gives a constant that is.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.identity import InnerProductTest
    >>> X = np.random.default_rng(0).normal(0.5, 1.0, size=(300, 5))
    >>> InnerProductTest(epsilon=4.0, n_calibration=199, random_state=0).fit(X).reject_
    True
    """

    radius: float = 0.8
    solver: str = "auto"
    staged: bool = False
    constants: Any = None
    distance: float | None = None

    _title = "Inner-product extension"
    _calibrations = ("monte_carlo", "textbook")
    _calibrated_as = "LipschitzExtensionTest"
    _remedy = "constants must have a larger third number"

    def _design(self, n: int, d: int, reference: Reference) -> InnerProductDesign:
        radius = check_real("radius", self.radius, above=0, at_most=100)
        staged = check_flag("staged", self.staged)
        check_signs(reference, "L1ExtensionTest")
        if n * n * d >= _LARGEST_SQUARE:
            raise InvalidParameter(
                "n_samples^2 n_features must be below 2^51 for extensions from inner products; use L1ExtensionTest"
            )
        solver = check_choice("solver", self.solver, ["auto", "exact", "surrogate"])
        if solver == "exact":
            check_solvable(n, d)
        exact = solver == "exact" or (solver == "auto" and count_vectors(n, d) <= AUTOMATIC_COUNT_VECTORS)
        stages = self._several(n, d) if staged else self._single(n, d, radius, exact)
        return InnerProductDesign(exact, tuple(stages))

    def _several(self, n: int, d: int) -> list[LipschitzStage]:
        """Return the stages of algorithm 9.3.2."""
        first, second, third = self._constants()
        distance = 1.0
        if self.calibration == "textbook":
            if self.distance is None:
                raise InvalidParameter("distance must be given with staged=True and calibration='textbook'")
            distance = check_real("distance", self.distance, above=0, at_most=1e6)
        return staged_reduction(
            n,
            d,
            # A sum of rounded budget fractions may exceed the total by a unit or two in the last place.
            check_real("epsilon", self.epsilon, above=0) * (1 - 2.0**-50),
            distance,
            floor_constant=first,
            step_constant=second,
            null_constant=third,
        )

    def _single(self, n: int, d: int, radius: float, exact: bool) -> list[LipschitzStage]:
        """Return a list with the single stage of algorithm 9.3.1."""
        epsilon = check_real("epsilon", self.epsilon, above=0)
        # About the null 0.99 quantile of the largest |<x_j, S>|: d + N(0, (n-1)d), n of them.
        Delta = min(n * d, math.ceil(d + math.sqrt((n - 1) * d) * float(ndtri(1 - 0.005 / n))))
        if exact:
            K = min(inner_product_constant(n, d, Delta), 4.0 * d * (n - 1))
        else:
            # The second number bounds the sensitivity of T on all datasets.
            K = min(4.0 * l1_radius(radius, n, d, 1.0, 1.0), 4.0 * d * (n - 1))
        # A calibrated test does not use the printed threshold. Its distribution must not depend on the level.
        threshold = math.inf
        if self.calibration == "textbook":
            threshold = 10 * n * math.sqrt(d) + K * math.log(1 / check_level("level", self.level)) / epsilon
        return [LipschitzStage(Delta, K, epsilon, threshold)]

    def _constants(self) -> tuple[float, float, float]:
        if self.constants is None:
            return MODERATE_CONSTANTS
        if isinstance(self.constants, str):
            check_choice("constants", self.constants, ["textbook"])
            return PRINTED_CONSTANTS
        if not isinstance(self.constants, list | tuple) or len(self.constants) != 3:
            raise InvalidParameter(
                f"constants must be None, 'textbook' or three positive numbers, got {show(self.constants)}"
            )
        first, second, third = (
            check_real("constants", value, above=0, of=self.constants) for value in self.constants
        )
        return first, second, third

    def _on_signs(self, design: InnerProductDesign) -> bool:
        return True

    def _stages(self, design: InnerProductDesign, n: int, d: int) -> tuple[Stage, ...]:
        # T is an integer, and so is an extension with an integer constant.
        return tuple(
            fine_stage(f"extension {t} of T", 1.0, math.ceil(stage.sensitivity), 4 * n * n * d, stage.epsilon)
            for t, stage in enumerate(design.stages, 1)
        )

    def _exact(self, X: NDArray[Any], plan: IdentityPlan) -> Mapping[str, NDArray[Any]]:
        signs = np.concatenate([signs_of(Z) for _, Z in plan.reference.blocks(X, plan.missing)])
        values = _extensions(signs, plan)
        return {stage.name: values[[t]] for t, stage in enumerate(plan.stages)}

    def _draw(
        self, plan: IdentityPlan, size: int, generator: np.random.Generator, shift: Any
    ) -> NDArray[np.int64]:
        rows = (plan.reference.sample_signs(plan.n_samples, generator, shift) for _ in range(size))
        return np.stack([_extensions(X, plan) for X in rows])

    def _combine(self, released: Released, plan: IdentityPlan) -> NDArray[np.float64]:
        last = released[plan.stages[-1].name][..., 0]
        early = [
            released[stage.name][..., 0] > step.threshold
            for stage, step in zip(plan.stages[:-1], plan.design.stages[:-1], strict=True)
        ]
        return np.where(np.any(early, axis=0), math.inf, last) if early else last

    def _printed_threshold(self, design: InnerProductDesign, n: int, d: int) -> float:
        return design.stages[-1].threshold

    def _rate(self, distance: float, d: int) -> float:
        return norm_rate(distance, d, self.epsilon)

    def _seconds(self, n: int, d: int, design: InnerProductDesign) -> float:
        once = 1e-4 + 2e-8 * n * d
        return once + len(design.stages) * (
            1e-4 + 1e-7 * count_vectors(n, d) if design.exact else 1e-8 * n * d
        )


def _extensions(signs: NDArray[np.int64], plan: IdentityPlan) -> NDArray[np.int64]:
    """Return the extension of every stage in its steps; integers, by integer constants."""
    design: InnerProductDesign = plan.design
    solve = exact_inner_product_extension if design.exact else inner_product_surrogate
    values = [solve(signs, stage.Delta, math.ceil(stage.sensitivity)) for stage in design.stages]
    finer = [
        stage.sensitivity_steps // math.ceil(step.sensitivity)
        for stage, step in zip(plan.additive, design.stages, strict=True)
    ]
    return as_int64(np.array(values)) * np.array(finer, dtype=np.int64)
