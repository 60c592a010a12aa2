"""The Lipschitz-extension test: release T = ||S||^2 - n d v, extended from datasets on which it is stable."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpstats.data.parameters import check_choice, check_level, check_real
from dpstats.data.values import as_int64
from dpstats.errors import refuse
from dpstats.identity.base import PrivateTest
from dpstats.identity.calibration import IdentityPlan
from dpstats.identity.lipschitz_extensions import (
    check_solvable,
    count_vectors,
    exact_inner_product_extension,
    expected_saving,
    extended_squares,
    inner_product_constant,
    inner_product_surrogate,
    l1_radius,
)
from dpstats.identity.row_distance_statistic import round_to_steps
from dpstats.identity.whitening import Reference, check_signs, grid_law, norm_rate, signs_of
from dpstats.privacy.stages import Stage
from dpstats.release.additive import Integers, additive_stages
from dpstats.release.estimator import parameters
from dpstats.release.session import Released

# Proof: docs/proofs/lipschitz-extension.md.

_FINE_BITS = 20
_FINE_SCALE = 1e15  # steps; well inside what can be drawn

_STEPS_OF_CLIP = 8
_STEPS_OF_SIGNS = 1024  # for two-valued columns, whose null mean has to be zero on the grid

AUTOMATIC_COUNT_VECTORS = 60_000
"""solver='auto' is exact up to this number of unordered datasets of a size, for example 12 x 3 and 60 x 2."""

_LARGEST_SQUARE = 2**51  # extensions of T stay below 4 n^2 d, exact as floats


def fine_stage(name: str, spacing: float, sensitivity: int, largest: int, epsilon: float) -> Stage:
    """Return the stage of an integer of size at most ``largest``, on a lattice up to 2^20 times finer.

    Integer noise on an integer causes ties, which lower the level. The lattice is as fine as 62 bits and the scale of
    the noise allow.
    """
    room = math.floor(math.log2(_FINE_SCALE * min(epsilon, 1e9) / sensitivity))
    bits = max(0, min(_FINE_BITS, 61 - largest.bit_length(), room))
    steps = sensitivity * 2**bits
    return additive_stages([Integers(name, 1, spacing / 2**bits, steps, steps)], epsilon, 0.0)[0]


@dataclass(frozen=True)
class SumDesign:
    """The strategy of ``constraint="l1"``: an extension from datasets with a small ``||S||_1``, in closed form.

    Public constants: the grid, the sensitivities of the extension and of every column in steps, and n d E[y^2].
    ``widths`` is a single number if all columns have the same width.
    """

    signs: bool
    steps_per_unit: float
    largest: int
    price: int
    widths: int | tuple[int, ...]
    offset: float

    @classmethod
    def build(cls, n: int, d: int, radius: float, clip: float | None, reference: Reference) -> SumDesign:
        """Return the design for whitened rows. Without a clip it is 1 for normal rows, and for signs the largest."""
        if reference.largest is None:
            steps, largest = _STEPS_OF_CLIP / (1.0 if clip is None else clip), _STEPS_OF_CLIP
            points, weights = grid_law(steps, largest)
            variance = float(weights @ points**2)
            price = 4 * largest * l1_radius(radius, n, d, float(largest), variance)
            return cls(False, steps, largest, price, 2 * largest, n * d * variance / steps**2)
        steps, largest = _STEPS_OF_SIGNS / (reference.largest if clip is None else clip), _STEPS_OF_SIGNS
        high, low = reference.sign_steps(steps, largest)
        # A row changes a column from one of its two values to the other. This is often much less than twice the largest
        # value.
        widths = (high - low).tolist()
        price = max(1, math.ceil(radius * sum(expected_saving(n * steps**2, width) for width in widths)))
        return cls(False, steps, largest, price, tuple(widths), float(n * d))

    def plan_stages(self, n: int, d: int, epsilon: float) -> tuple[Stage, ...]:
        """Return the stages of the release, which is one."""
        largest = d * (n * self.largest) ** 2
        return (fine_stage("extension of T", self.steps_per_unit**-2, self.price, largest, epsilon),)

    def printed_threshold(self, n: int, d: int, level: float, epsilon: float) -> float:
        """Return line 4 of algorithm 9.3.1, with the constant of this extension instead of 4 Delta."""
        unit = (self.largest / self.steps_per_unit) ** 2
        K = self.price / self.steps_per_unit**2
        return 10 * n * math.sqrt(d) * unit + K * math.log(1 / level) / epsilon

    def seconds(self, n: int, d: int) -> float:
        """Return the approximate time of a simulated dataset."""
        return 1e-5 + 4e-6 * d

    def extend(self, X: NDArray[Any], plan: IdentityPlan) -> NDArray[Any]:
        """Return the exact integer of the stage, shape (1,)."""
        reference = plan.reference
        sums = np.zeros(plan.n_features, dtype=np.int64)
        for _, Z in reference.blocks(X, plan.missing):
            steps: NDArray[Any]
            if self.signs:
                steps = signs_of(Z)
            elif reference.signs_mean is not None:
                steps = reference.sign_rows(Z, self.steps_per_unit, self.largest)
            else:
                steps = round_to_steps(Z, Z, self.steps_per_unit, self.largest)
            sums += as_int64(steps.sum(axis=0))
        return self._extend_sums(sums[None], plan)

    def draw(self, plan: IdentityPlan, size: int, generator: np.random.Generator, shift: Any) -> NDArray[Any]:
        """Return the exact integers of simulated data. Sums have a known distribution, so no row is drawn."""
        n, reference = plan.n_samples, plan.reference
        if self.signs:
            sums = reference.sign_sums(n, size, generator, shift)
        else:
            sums = reference.sums(n, size, generator, shift, self.steps_per_unit, self.largest)
        return self._extend_sums(sums, plan)[:, None]

    def _extend_sums(self, sums: NDArray[np.int64], plan: IdentityPlan) -> NDArray[Any]:
        """Return the extension of T + ``offset`` of every sum, in the steps of the stage."""
        floor = plan.n_samples % 2 if self.signs else 0
        costs = extended_squares(sums, np.asarray(self.widths, dtype=np.int64), self.price, floor)
        return costs * (plan.additive[0].sensitivity_steps // self.price)


@dataclass(frozen=True)
class LipschitzStage:
    """One extension from ``{|<x_j, S>| <= Delta}``: its sensitivity, its privacy cost, and its printed threshold."""

    Delta: float
    sensitivity: float
    epsilon: float
    threshold: float


@dataclass(frozen=True)
class InnerProductDesign:
    """The strategy of ``constraint="inner_product"``: an extension from datasets with small ``|<x_j, S>|``.

    Public constants: whether the extension is the exact one, and its stages. Algorithm 9.3.1 has one.
    """

    exact: bool
    stages: tuple[LipschitzStage, ...]
    offset = 0.0
    signs = True

    def plan_stages(self, n: int, d: int, epsilon: float) -> tuple[Stage, ...]:
        """Return the stages of the release. T is an integer, and so is an extension with an integer constant."""
        return tuple(
            fine_stage(f"extension {t} of T", 1.0, math.ceil(stage.sensitivity), 4 * n * n * d, stage.epsilon)
            for t, stage in enumerate(self.stages, 1)
        )

    def printed_threshold(self, n: int, d: int, level: float, epsilon: float) -> float:
        """Return the threshold of the last stage."""
        return self.stages[-1].threshold

    def seconds(self, n: int, d: int) -> float:
        """Return the approximate time of a simulated dataset."""
        each = 1e-4 + 1e-7 * count_vectors(n, d) if self.exact else 1e-8 * n * d
        return 1e-4 + 2e-8 * n * d + len(self.stages) * each

    def extend(self, X: NDArray[Any], plan: IdentityPlan) -> NDArray[Any]:
        """Return the exact integers of all stages."""
        signs = np.concatenate([signs_of(Z) for _, Z in plan.reference.blocks(X, plan.missing)])
        return self._extend_signs(signs, plan)

    def draw(self, plan: IdentityPlan, size: int, generator: np.random.Generator, shift: Any) -> NDArray[Any]:
        """Return the exact integers of simulated rows."""
        rows = (plan.reference.sample_signs(plan.n_samples, generator, shift) for _ in range(size))
        return np.stack([self._extend_signs(X, plan) for X in rows])

    def _extend_signs(self, signs: NDArray[Any], plan: IdentityPlan) -> NDArray[np.int64]:
        """Return the extension of every stage in its steps; integers, by integer constants."""
        solve = exact_inner_product_extension if self.exact else inner_product_surrogate
        constants = [math.ceil(stage.sensitivity) for stage in self.stages]
        values = [solve(signs, stage.Delta, K) for stage, K in zip(self.stages, constants, strict=True)]
        finer = [stage.sensitivity_steps // K for stage, K in zip(plan.additive, constants, strict=True)]
        return as_int64(np.array(values)) * np.array(finer, dtype=np.int64)


def chooses_exact(solver: Any, n: int, d: int, reference: Reference) -> bool:
    """Return whether to compute the exact extension from inner products, or its surrogate; refuse other sizes."""
    check_signs(reference, "constraint='l1'")
    solver = check_choice("solver", solver, ["auto", "exact", "surrogate"])
    if n * n * d >= _LARGEST_SQUARE:
        raise refuse(
            "n_samples^2 n_features",
            given=n * n * d,
            allowed="below 2^51 for extensions from inner products",
            remedy="Use LipschitzExtensionTest with constraint='l1'.",
        )
    if solver == "exact":
        check_solvable(n, d)
    return solver == "exact" or (solver == "auto" and count_vectors(n, d) <= AUTOMATIC_COUNT_VECTORS)


@parameters
class ExtensionTest(PrivateTest):
    """Base class of tests whose design is a strategy. Each design plans, computes and simulates its own stages."""

    _calibrations = ("monte_carlo", "textbook")

    def _on_signs(self, design: SumDesign | InnerProductDesign) -> bool:
        return design.signs

    def _stages(self, design: SumDesign | InnerProductDesign, n: int, d: int) -> tuple[Stage, ...]:
        return design.plan_stages(n, d, check_real("epsilon", self.epsilon, above=0))

    def _exact(self, X: NDArray[Any], plan: IdentityPlan) -> Mapping[str, NDArray[Any]]:
        values = plan.design.extend(X, plan)
        return {stage.name: values[[t]] for t, stage in enumerate(plan.stages)}

    def _draw(self, plan: IdentityPlan, size: int, generator: np.random.Generator, shift: Any) -> NDArray[Any]:
        return np.asarray(plan.design.draw(plan, size, generator, shift))

    def _printed_threshold(self, design: SumDesign | InnerProductDesign, n: int, d: int) -> float:
        return design.printed_threshold(n, d, check_level("level", self.level), self.epsilon)

    def _rate(self, distance: float, d: int) -> float:
        return norm_rate(distance, d, self.epsilon)

    def _seconds(self, n: int, d: int, design: SumDesign | InnerProductDesign) -> float:
        return design.seconds(n, d)


@parameters
class LipschitzExtensionTest(ExtensionTest):
    """Private test of a mean by T = ||S||^2 - n d v, extended from data on which it is stable.

    With ``constraint="l1"`` the statistic has a closed form and needs one pass over the rows. Use ``radius=0.4`` if
    only one or two columns may differ from the null. If all columns may differ, use `RowDistanceTest` or
    `SpatialSignTest`. With ``constraint="inner_product"`` this is the published algorithm 9.3.1 with a corrected
    constant, whose exact extension is for small data.

    Parameters
    ----------
    mean : float or array of shape (n_features,), default=0.0
        Public mean under the null hypothesis. Labels work as in `RowDistanceTest`.
    cov : None, array of shape (n_features,) or (n_features, n_features), default=None
        Public covariance matrix, or variances. None is the identity.
    null : {"normal", "product"}, default="normal"
        "product": independent signs with ``mean``, or 0/1 columns; see `RowDistanceTest`. "inner_product" then needs a
        ``mean`` of 0, the uniform distribution on the cube.
    clip : float, optional
        For whitened rows, from 0.001 to 20; None is 1 for normal rows and the largest coordinate for signs.
    constraint : {"l1", "inner_product"}, default="l1"
        Datasets on which T is stable. "l1": ``||S||_1`` is small; a closed form, in one pass. "inner_product": all
        ``|<x_j, S>|`` are small; the set of algorithm 9.3.1, for signs, with the corrected constant.
    rows : {"whitened", "sign"}, default="whitened"
        For "l1": coordinates clipped to ``clip`` and rounded to an eighth of it, or signs.
    radius : float, default=0.8
        Public radius, at most 100. T is unchanged if a quantity of the data is at most A. This number is A divided by
        the null mean of the quantity. Smaller values favor alternatives with few nonzero coordinates: 0.4 for one or
        two.
    solver : {"auto", "exact", "surrogate"}, default="auto"
        Method of "inner_product". "exact" enumerates all datasets, or solves integer programs (small sizes only, and
        slow). "surrogate" is a computable lower bound with the same privacy. "auto" decides by the public size.
    level : float, default=0.05
    calibration : {"monte_carlo", "textbook"}, default="monte_carlo"
        "textbook" uses the printed threshold: private, but with almost no power.
    n_calibration, cache_dir, n_jobs, progress, random_state, budget
        The same as in `RowDistanceTest`.
    missing : {"error", "drop", "center"}, default="error"
        As for `RowDistanceTest`; "center" only for ``rows="whitened"`` with ``constraint="l1"``. An entry at
        its mean has sign +1.
    missing_codes : sequence of numbers and text, optional
        Public codes of missing entries, such as ``[-999, "unk"]``, in all columns. Numbers are compared by value, words
        by text.
    epsilon : float, default=1.0

    Attributes
    ----------
    statistic_ : float
        The noisy extension of T.
    threshold_, pvalue_ : float
    reject_ : bool
    result_ : TestResult
    privacy_ : PrivacyGuarantee
        Pure guarantee for neighboring datasets that differ in one row; n is public.
    plan_ : IdentityPlan
    n_features_in_ : int

    Notes
    -----
    **Sensitivity.** With "l1", replacing a row changes the extension by at most 4 clip A (`l1_extension`). Under a
    product null, it changes a column by the distance of its two values, which may be far less than 2 clip.

    **Rate.** A distance a is detectable if n is of this order:
    sqrt(d)/a^2 + d^(2/3)/(a^(4/3) epsilon^(2/3)) + d^(1/2)/(a epsilon).

    **Errata.** The printed claim that T is 4 Delta-Lipschitz on ``{|<x_j, S>| <= Delta}`` is false (docs/errata.md): an
    extension with noise for 4 Delta is not private. `inner_product_constant` gives a constant that is.

    **Limits.** The null hypothesis is the whole distribution: skewed rows with the correct mean are often rejected.
    If many columns differ, `RowDistanceTest` detects smaller distances.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.identity import LipschitzExtensionTest
    >>> X = np.random.default_rng(0).normal(0.1, 1.0, size=(3000, 5))
    >>> LipschitzExtensionTest(epsilon=1.0, n_calibration=199, random_state=0).fit(X).reject_
    True
    """

    clip: float | None = None
    constraint: str = "l1"
    rows: str = "whitened"
    radius: float = 0.8
    solver: str = "auto"

    _title = "Lipschitz extension"

    def _design(self, n: int, d: int, reference: Reference) -> SumDesign | InnerProductDesign:
        constraint = check_choice("constraint", self.constraint, ["l1", "inner_product"])
        signs = check_choice("rows", self.rows, ["whitened", "sign"]) == "sign"
        check_choice("solver", self.solver, ["auto", "exact", "surrogate"])
        radius = check_real("radius", self.radius, above=0, at_most=100)
        clip = None if self.clip is None else check_real("clip", self.clip, at_least=1e-3, at_most=20)
        if constraint == "inner_product":
            return self._inner_products(n, d, radius, chooses_exact(self.solver, n, d, reference))
        if signs:
            check_signs(reference, "rows='whitened'")
            return SumDesign(True, 1.0, 1, 4 * l1_radius(radius, n, d, 1.0, 1.0), 2, float(n * d))
        return SumDesign.build(n, d, radius, clip, reference)

    def _inner_products(self, n: int, d: int, radius: float, exact: bool) -> InnerProductDesign:
        """Return the design with the single stage of algorithm 9.3.1."""
        epsilon = check_real("epsilon", self.epsilon, above=0)
        # About the null 0.99 quantile of the largest |<x_j, S>|: d + N(0, (n-1)d), n of them.
        Delta = min(n * d, math.ceil(d + math.sqrt((n - 1) * d) * float(ndtri(1 - 0.005 / n))))
        K = inner_product_constant(n, d, Delta) if exact else 4.0 * l1_radius(radius, n, d, 1.0, 1.0)
        # The second number bounds the sensitivity of T on all datasets.
        K = min(K, 4.0 * d * (n - 1))
        # A calibrated test does not use the printed threshold. Its distribution must not depend on the level.
        threshold = math.inf
        if self.calibration == "textbook":
            threshold = 10 * n * math.sqrt(d) + K * math.log(1 / check_level("level", self.level)) / epsilon
        return InnerProductDesign(exact, (LipschitzStage(Delta, K, epsilon, threshold),))

    def _combine(self, released: Released, plan: IdentityPlan) -> NDArray[np.float64]:
        return np.asarray(super()._combine(released, plan) - plan.design.offset)

    def _cheaper(self) -> str:
        if self.constraint == "l1":
            return "no test costs less: give a smaller n_calibration"
        return super()._cheaper()
