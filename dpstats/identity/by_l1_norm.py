"""The l1 extension test: release T, extended from datasets with a small l1 norm of the sum. One pass, any size.

Proof: docs/proofs/lipschitz-extension.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.data.parameters import check_choice, check_level, check_real
from dpstats.identity.alternatives import norm_rate
from dpstats.identity.base import PrivateTest
from dpstats.identity.fine_stage import fine_stage
from dpstats.identity.l1_norm import expected_saving, extended_squares, l1_radius
from dpstats.identity.plan import IdentityPlan
from dpstats.identity.rows import round_to_steps
from dpstats.identity.whitening import Reference, check_signs, grid_law, signs_of
from dpstats.privacy.stages import Stage
from dpstats.release.parameters import parameters
from dpstats.release.session import Released

_STEPS_OF_CLIP = 8
_FINE_STEPS = 1024  # for two-valued columns, whose null mean has to be zero on the grid


@dataclass(frozen=True)
class SumDesign:
    """Public constants: the grid, the sensitivities of the extension and of every column in steps, and n d E[y^2].

    ``widths`` is a single number if all columns have the same width.
    """

    signs: bool
    steps_per_unit: float
    largest: int
    price: int
    widths: int | tuple[int, ...]
    offset: float


@parameters
class L1ExtensionTest(PrivateTest):
    """Private test of a mean by T = ||S||^2 - n d v, extended from datasets with small ||S||_1.

    The statistic has a closed form and needs one pass over the rows. Use it with ``radius=0.4`` if only one or two
    columns may differ from the null. If all columns may differ, use `RowDistanceTest` or `SpatialSignTest`.

    Parameters
    ----------
    mean : float or array of shape (n_features,), default=0.0
        Public mean under the null hypothesis. Labels work as in `RowDistanceTest`.
    cov : None, array of shape (n_features,) or (n_features, n_features), default=None
        Public covariance matrix, or variances. None is the identity.
    null : {"normal", "product"}, default="normal"
        "product": independent signs with ``mean``, or 0/1 columns; see `RowDistanceTest`.
    rows : {"whitened", "sign"}, default="whitened"
        Coordinates clipped to ``clip`` and rounded to an eighth of it, or signs.
    clip : float, optional
        For whitened rows, from 0.001 to 20; None is 1 for normal rows and the largest coordinate for signs.
    radius : float, default=0.8
        Public radius, at most 100. T is unchanged if a quantity of the data is at most A. This number is A divided by
        the null mean of the quantity. Smaller values favor alternatives with few nonzero coordinates: 0.4 for one or
        two.
    epsilon : float, default=1.0
    level : float, default=0.05
    calibration : {"monte_carlo", "textbook"}, default="monte_carlo"
        "textbook" uses the printed threshold: private, but with almost no power.
    missing : {"error", "drop", "center"}, default="error"
        As for `RowDistanceTest`; "center" only for whitened rows. An entry at its mean has sign +1.
    missing_codes : sequence of numbers and text, optional
        Public codes of missing entries, such as ``[-999, "unk"]``, in all columns. Numbers are compared by value, words
        by text.
    n_calibration, cache_dir, n_jobs, progress, random_state, budget
        The same as in `RowDistanceTest`.

    Attributes
    ----------
    statistic_ : float
        The extension of T plus Laplace noise.
    threshold_, pvalue_ : float
    reject_ : bool
    result_ : TestResult
    privacy_ : PrivacyGuarantee
        Pure guarantee for neighboring datasets that differ in one row; n is public.
    plan_ : IdentityPlan
    n_features_in_ : int

    Notes
    -----
    **Sensitivity.** Replacing a row changes the extension by at most 4 clip A (`l1_extension`). Under a product null,
    it changes a column by the distance of its two values, which may be far less than 2 clip.

    **Rate.** A distance a is detectable if n is of this order:
    sqrt(d)/a^2 + d^(2/3)/(a^(4/3) epsilon^(2/3)) + d^(1/2)/(a epsilon).

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.identity import L1ExtensionTest
    >>> X = np.random.default_rng(0).normal(0.1, 1.0, size=(3000, 5))
    >>> L1ExtensionTest(epsilon=1.0, n_calibration=199, random_state=0).fit(X).reject_
    True
    """

    rows: str = "whitened"
    clip: float | None = None
    radius: float = 0.8

    _title = "l1 extension"
    _calibrations = ("monte_carlo", "textbook")
    _calibrated_as = "LipschitzExtensionTest"

    def _design(self, n: int, d: int, reference: Reference) -> SumDesign:
        signs = check_choice("rows", self.rows, ["whitened", "sign"]) == "sign"
        radius = check_real("radius", self.radius, above=0, at_most=100)
        if signs:
            check_signs(reference, "rows='whitened'")
            return SumDesign(True, 1.0, 1, 4 * l1_radius(radius, n, d, 1.0, 1.0), 2, float(n * d))
        if reference.largest is None:
            clip = 1.0 if self.clip is None else self._clip()
            steps, largest = _STEPS_OF_CLIP / clip, _STEPS_OF_CLIP
            points, weights = grid_law(steps, largest)
            variance = float(weights @ points**2)
            price = 4 * largest * l1_radius(radius, n, d, float(largest), variance)
            return SumDesign(False, steps, largest, price, 2 * largest, n * d * variance / steps**2)
        clip = reference.largest if self.clip is None else self._clip()
        steps, largest = _FINE_STEPS / clip, _FINE_STEPS
        high, low = reference.sign_steps(steps, largest)
        # A row changes a column from one of its two values to the other. This is often much less than twice the largest
        # value.
        widths = (high - low).tolist()
        price = max(1, math.ceil(radius * sum(expected_saving(n * steps**2, width) for width in widths)))
        return SumDesign(False, steps, largest, price, tuple(widths), float(n * d))

    def _clip(self) -> float:
        return check_real("clip", self.clip, at_least=1e-3, at_most=20)

    def _on_signs(self, design: SumDesign) -> bool:
        return design.signs

    def _stages(self, design: SumDesign, n: int, d: int) -> tuple[Stage, ...]:
        largest = d * (n * design.largest) ** 2
        spacing = design.steps_per_unit**-2
        epsilon = check_real("epsilon", self.epsilon, above=0)
        return (fine_stage("extension of T", spacing, design.price, largest, epsilon),)

    def _exact(self, X: NDArray[Any], plan: IdentityPlan) -> Mapping[str, NDArray[Any]]:
        sums = np.zeros(plan.n_features, dtype=np.int64)
        for _, Z in plan.reference.blocks(X, plan.missing):
            sums += as_int64(_steps(Z, plan).sum(axis=0))
        return {plan.stages[0].name: _costs(sums[None], plan)}

    def _draw(
        self, plan: IdentityPlan, size: int, generator: np.random.Generator, shift: Any
    ) -> NDArray[Any]:
        design, n = plan.design, plan.n_samples
        if design.signs:
            sums = plan.reference.sign_sums(n, size, generator, shift)
        else:
            sums = plan.reference.sums(n, size, generator, shift, design.steps_per_unit, design.largest)
        return _costs(sums, plan)[:, None]

    def _combine(self, released: Released, plan: IdentityPlan) -> NDArray[np.float64]:
        return np.asarray(released[plan.stages[0].name][..., 0] - plan.design.offset)

    def _printed_threshold(self, design: SumDesign, n: int, d: int) -> float:
        # Line 4 of algorithm 9.3.1, with the constant of this extension instead of 4 Delta
        unit = (design.largest / design.steps_per_unit) ** 2
        K = design.price / design.steps_per_unit**2
        return (
            10 * n * math.sqrt(d) * unit + K * math.log(1 / check_level("level", self.level)) / self.epsilon
        )

    def _cheaper(self) -> str:
        return "no test costs less: give a smaller n_calibration"

    def _rate(self, distance: float, d: int) -> float:
        return norm_rate(distance, d, self.epsilon)

    def _seconds(self, n: int, d: int, design: SumDesign) -> float:
        return 1e-5 + 4e-6 * d


def _steps(Z: NDArray[Any], plan: IdentityPlan) -> NDArray[Any]:
    design: SumDesign = plan.design
    if design.signs:
        return signs_of(Z)
    if plan.reference.signs_mean is not None:
        return plan.reference.sign_rows(Z, design.steps_per_unit, design.largest)
    return round_to_steps(Z, Z, design.steps_per_unit, design.largest)


def _costs(sums: NDArray[np.int64], plan: IdentityPlan) -> NDArray[Any]:
    design: SumDesign = plan.design
    widths = np.asarray(design.widths, dtype=np.int64)
    floor = plan.n_samples % 2 if design.signs else 0
    costs = extended_squares(sums, widths, design.price, floor)
    return costs * (plan.additive[0].sensitivity_steps // design.price)
