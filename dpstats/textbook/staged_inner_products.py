"""Algorithm 9.3.2: the inner-product test in stages, which shrink the constraint."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_choice, check_integer, check_real
from dpstats.errors import InvalidParameter, refuse
from dpstats.identity.by_extension import (
    ExtensionTest,
    InnerProductDesign,
    LipschitzStage,
    chooses_exact,
    inner_product_constant,
)
from dpstats.identity.calibration import IdentityPlan
from dpstats.identity.whitening import Reference
from dpstats.release.estimator import parameters
from dpstats.release.session import Released

# Canonne, Kamath, McMillan, Ullman and Zakynthinou (2020), for sign rows, with the corrected constant of
# `inner_product_constant`. Proof: docs/proofs/lipschitz-extension.md.

PRINTED_CONSTANTS = (1000.0, 11.0, 10.0)
"""Line 2 and line 8 of algorithm 9.3.2, line 4 of algorithm 9.3.1."""

MODERATE_CONSTANTS = (1.0, 1.0, 10.0)
"""The printed ones leave a single stage at every moderate size; these do not."""


def staged_reduction(
    n: int,
    d: int,
    epsilon: float,
    distance: float,
    *,
    floor_constant: float = 1000.0,
    step_constant: float = 11.0,
    null_constant: float = 10.0,
    constant: Callable[[int, int, float], float] = inner_product_constant,
) -> list[LipschitzStage]:
    """Return the stages of algorithm 9.3.2: a public schedule of Delta, thresholds and noise.

    Parameters
    ----------
    n, d : int
        Shape of the sign data; n at least 2.
    epsilon : float
        Total. Every stage, the last included, spends epsilon / M with M = ceil(log n); there are at most M.
    distance : float
        The alternative: a mean of norm at least this.
    floor_constant, step_constant, null_constant : float
        The printed 1000 (line 2), 11 (line 8) and 10 (algorithm 9.3.1, line 4).
    constant : callable
        (n, d, Delta) -> Lipschitz constant of T on C(Delta); not 4 Delta, which is not one.

    Returns
    -------
    list of LipschitzStage
        Reject where a stage's noisy extension exceeds its threshold. The last threshold may be calibrated.
    """
    n, d = check_integer("n", n, at_least=2), check_integer("d", d, at_least=1)
    stages = math.ceil(math.log(n))
    e = check_real("epsilon", epsilon, above=0) / stages
    distance = check_real("distance", distance, above=0)
    if min(floor_constant, step_constant, null_constant) <= 0:
        raise InvalidParameter("floor_constant, step_constant and null_constant must be greater than 0")
    beta = 1 / (10 * n)  # failure probability of a stage
    log_b = math.log(1 / beta)
    # A row moves T by at most this anywhere, which is less than K(nd).
    anywhere = 4.0 * d * (n - 1)
    floor = floor_constant * max(d, math.sqrt(n * d), log_b / e) * log_b
    Delta, schedule = float(n * d), []
    for _ in range(stages - 1):
        if Delta <= floor:
            break
        K = min(constant(n, d, Delta), anywhere)
        schedule.append(LipschitzStage(Delta, K, e, null_constant * n * math.sqrt(d) + K * log_b / e))
        # Every dataset satisfies Delta = nd, so skip a step that would enlarge Delta. Below d, C(Delta) may be empty
        # for an odd number of rows. At d it is not: opposite pairs and one more row have |<x_j, S>| = d.
        reduced = step_constant * (d + math.sqrt(n * d) + Delta / (n * e) + math.sqrt(Delta / e)) * log_b
        Delta = max(float(d), min(Delta, reduced))
    last = LipschitzStage(Delta, min(constant(n, d, Delta), anywhere), e, n * (n - 1) * distance**2 / 4)
    return [*schedule, last]


@parameters
class StagedInnerProductTest(ExtensionTest):
    """Private test of a mean by T = ``||S||^2 - n d`` of signs, in at most ceil(log n) stages (algorithm 9.3.2).

    `LipschitzExtensionTest` with ``constraint="inner_product"`` has a single stage and detects smaller distances at
    moderate sizes. `RowDistanceTest` detects the smallest distances.

    Parameters
    ----------
    mean : float or array of shape (n_features,), default=0.0
        Public mean under the null hypothesis. Labels work as in `RowDistanceTest`.
    cov : None, array of shape (n_features,) or (n_features, n_features), default=None
        Public covariance matrix, or variances. None is the identity.
    null : {"normal", "product"}, default="normal"
        "product": independent signs, or 0/1 columns; ``mean`` must be 0, the uniform distribution on the cube.
    solver : {"auto", "exact", "surrogate"}, default="auto"
        "exact" enumerates all datasets, or solves integer programs (small sizes only, and slow); "surrogate" is a
        computable lower bound with the same privacy. "auto" decides by the public size.
    constants : None, "textbook" or three floats, default=None
        (line 2's 1000, line 8's 11, and the 10 of algorithm 9.3.1, line 4). None is (1, 1, 10): the printed ones leave
        a single stage at moderate sizes.
    distance : float, optional
        The alternative of ``calibration="textbook"``, whose last threshold is n(n-1) distance^2/4.
    level : float, default=0.05
    calibration : {"monte_carlo", "textbook"}, default="monte_carlo"
        "textbook" uses the printed thresholds: private, but with almost no power.
    n_calibration, cache_dir, n_jobs, progress, random_state, budget
        The same as in `RowDistanceTest`.
    missing : {"error", "drop"}, default="error"
        "drop" as for `RowDistanceTest`. A missing row has no signs. An entry at its mean counts as +1.
    missing_codes : sequence of numbers and text, optional
        Public codes of missing entries, such as ``[-999, "unk"]``, in all columns. Numbers are compared by value, words
        by text.
    epsilon : float, default=1.0
        Total.

    Attributes
    ----------
    statistic_ : float
        The noisy extension of T. Infinite if an earlier stage rejected.
    threshold_, pvalue_ : float
    reject_ : bool
    result_ : TestResult
    privacy_ : PrivacyGuarantee
        Pure guarantee for neighboring datasets that differ in one row; n is public. It is stronger than ``epsilon`` if
        the schedule has fewer stages than its maximum.
    plan_ : IdentityPlan
    n_features_in_ : int

    Notes
    -----
    Source: algorithm 9.3.2 of the statistics chapter (docs/sources.md), with a Lipschitz constant that holds and with
    the same part of epsilon in every stage.

    **Limits.** The null hypothesis is the whole distribution of the signs. At moderate sizes it has far less power
    than `RowDistanceTest`.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.textbook import StagedInnerProductTest
    >>> X = np.random.default_rng(0).normal(1.0, 1.0, size=(300, 5))
    >>> StagedInnerProductTest(epsilon=4.0, n_calibration=99, random_state=0).fit(X).reject_
    True
    """

    solver: str = "auto"
    constants: Any = None
    distance: float | None = None

    _title = "Staged inner-product extension"
    # Its releases have the distribution of a Lipschitz extension with this design, and so have its calibrations.
    _calibrated_as = "LipschitzExtensionTest"
    _remedy = "constants must have a larger third number"

    def _design(self, n: int, d: int, reference: Reference) -> InnerProductDesign:
        exact = chooses_exact(self.solver, n, d, reference)
        first, second, third = self._constants()
        distance = 1.0
        if self.calibration == "textbook":
            if self.distance is None:
                raise refuse("distance", allowed="given with calibration='textbook'")
            distance = check_real("distance", self.distance, above=0, at_most=1e6)
        stages = staged_reduction(
            n,
            d,
            # A sum of rounded budget fractions may exceed the total by a unit or two in the last place.
            check_real("epsilon", self.epsilon, above=0) * (1 - 2.0**-50),
            distance,
            floor_constant=first,
            step_constant=second,
            null_constant=third,
        )
        return InnerProductDesign(exact, tuple(stages))

    def _constants(self) -> tuple[float, float, float]:
        if self.constants is None:
            return MODERATE_CONSTANTS
        if isinstance(self.constants, str):
            check_choice("constants", self.constants, ["textbook"])
            return PRINTED_CONSTANTS
        if not isinstance(self.constants, list | tuple) or len(self.constants) != 3:
            raise refuse("constants", given=self.constants, allowed="None, 'textbook' or three positive numbers")
        first, second, third = (check_real("constants", value, above=0, of=self.constants) for value in self.constants)
        return first, second, third

    def _combine(self, released: Released, plan: IdentityPlan) -> NDArray[np.float64]:
        last = super()._combine(released, plan)
        early = [
            released[stage.name][..., 0] > step.threshold
            for stage, step in zip(plan.stages[:-1], plan.design.stages[:-1], strict=True)
        ]
        return np.where(np.any(early, axis=0), math.inf, last) if early else last
