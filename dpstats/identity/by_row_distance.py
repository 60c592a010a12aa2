"""The row-distance test: release the number of rows that must change before the data look like the null hypothesis.

Proof: docs/proofs/row-distance.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.opening import open_source
from dpstats.data.parameters import check_choice, check_real
from dpstats.data.schema import Schema
from dpstats.errors import refuse, refuse_data
from dpstats.identity.base import PrivateTest, TestResult
from dpstats.identity.by_spatial_sign import SpatialSignTest
from dpstats.identity.calibration import BLOCK, IdentityPlan
from dpstats.identity.row_distance_statistic import (
    LARGEST_STEP,
    STEP_BITS,
    Centering,
    RowCentering,
    approximate_null_f0,
    distance_of_row_sums,
    normal_clipped_square,
    round_to_steps,
    row_centering,
    row_distance,
    row_sums,
)
from dpstats.identity.whitening import Reference, check_signs, grid_law, signs_of
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.stages import AnyStage
from dpstats.privacy.totals import compose
from dpstats.release.additive import Integers, additive_stages, concentrated_stage
from dpstats.release.estimator import parameters

# The test

_DISTANCE = "row distance"
# The distance is an integer, and its release is a multiple of 2^-20. Integer noise would have ties and lower the level.
_STEPS_OF_A_ROW = 2**20
# a0 in standard deviations of a row sum of unclipped products. Public and data-free; any value is private. Larger
# values waste a little where d is small, smaller ones much where it is large (docs/intervals/identity-tests.md). For
# signs, 1.
SLACK = 1.4
WIDE_CLIP = 3.0
"""The clip of inner products over sqrt(d) at epsilon 0.5 and more, for whitened normal rows; 1 below.

A wide clip keeps the power on skewed rows, and costs normal ones a few percent of distance where the noise is small:
validation/results/identity_directions.md."""
_STRONG = 0.5
SHARED_ROWS = 1000
"""Least number of rows for which the simulated null datasets of a block share their products.

With fewer rows, datasets with the same products are less like independent ones, and the products take little time."""
REPORTED_DELTA = 1e-6
"""Delta at which ``privacy_`` states the guarantee of a zero-concentrated release."""
_SMALLEST_RHO, _LARGEST_RHO = 1e-16, 1e10
# Whitened signs have two values per column. The smaller one may be 1/14.
_FINE_STEPS = 2.0**8


@dataclass(frozen=True)
class RowDistanceDesign:
    """Public constants: the grid of the coordinates, and `row_distance`'s arguments on it.

    ``window`` is None if the null is symmetric. Otherwise products are centered by rows (`RowCentering`). The null and
    these constants determine the window.
    """

    signs: bool
    steps_per_unit: float
    largest: int
    rho: int
    a0: int
    tau0: float
    window: tuple[int, int] | None = None


@parameters
class RowDistanceTest(PrivateTest):
    """Private test of a mean by the row distance, the most powerful one here if many columns differ from the null.

    It is for up to about 10,000 rows. If all columns differ, then with 20 or more columns it detects the smallest
    distances of all tests in this package. With 8 columns it is similar to `SpatialSignTest`, and with fewer columns it
    is worse. If a single column differs, `LipschitzExtensionTest` with ``radius=0.4`` detects smaller distances.

    The null hypothesis is the whole distribution of the rows. For the mean alone, use
    ``ClippedMean(...).fit(X).test(value=...)``.

    Parameters
    ----------
    mean : float or array of shape (n_features,), default=0.0
        Public mean under the null hypothesis. With labels (a pandas Series) it is matched to the columns of a data
        frame by name, and different names raise an error. The same holds for ``cov``. `plan` and `power` use the given
        order.
    cov : None, array of shape (n_features,) or (n_features, n_features), default=None
        Public covariance matrix, or variances. None is the identity.
    null : {"normal", "product"}, default="normal"
        "product": entries are independent, -1 or 1, with ``mean``. This tests identity of product distributions on the
        cube, and uniformity for mean 0. Positive entries count as 1 and all others as -1. So 0/1 columns with frequency
        p can be used directly, with mean 2p - 1.
    clip : float, optional
        Inner products are clipped to +-clip sqrt(d). Public, at most 100. A wide clip keeps the power on skewed rows,
        but adds noise. None is 3 for whitened normal rows with epsilon of at least 0.5, and otherwise 1. Set 1 if the
        rows are known to be normal.
    rows : {"whitened", "sign"}, default="whitened"
        "whitened" uses inner products of the whitened rows, clipped to +-4 and rounded to eighths. "sign" uses their
        signs. It assumes only medians and independence, and needs about 1.3 times the distance. An entry equal to its
        mean has sign +1, so data with many such ties are rejected.
    rho : float, optional
        Cost in zero-concentrated privacy, for budgets with this method. Set ``epsilon=None``. The noise is then
        Gaussian. At small rho it detects smaller distances than Laplace noise with epsilon^2/2 = rho. For all other
        budgets Laplace noise is better, so there is no ``delta``.
    level : float, default=0.05
    calibration : {"monte_carlo"}, default="monte_carlo"
        Critical values and p-values from public simulation of the released statistic.
    n_calibration : int, optional
        Simulated datasets B, (B + 1) level an integer; None chooses 9999 to 999 by the public size.
    cache_dir : path, optional
        Directory in which to store calibrations for other processes. If they take more than four seconds, they are
        also kept with the compiled code of the package, if its folder can be written to. They are public.
    n_jobs : int, optional
        Threads for calibrations, `power` and `distance_interval`; None is one, -1 one per core. No number depends
        on it.
    progress : bool, default=False
        Show a bar while calibrating, and for a `distance_interval`.
    missing : {"error", "drop", "center"}, default="error"
        Treatment of a row with a NaN or infinite entry. "error" raises `InvalidData`. "drop" leaves the row out: a
        part of epsilon counts the complete rows, and the test uses a random sample of them, of public size. "center"
        counts the row as the null mean. It is not available with ``rows="sign"``, because a row at the mean would
        count as (1, ..., 1).
    missing_codes : sequence of numbers and text, optional
        Public codes of missing entries, such as ``[-999, "unk"]``, in all columns. Numbers are compared by value, words
        by text.
    epsilon : float or None, default=1.0
        Privacy parameter. Must be positive. None only with ``rho``.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every call of ``fit`` and ``predict`` charges. Clones share it.

    Attributes
    ----------
    statistic_ : float
        The row distance D plus Laplace noise of scale 1/epsilon, or Gaussian noise of variance 1/(2 rho).
    threshold_, pvalue_ : float
        Critical value of the statistic, and the p-value.
    reject_ : bool
        Whether the test rejects.
    result_ : TestResult
        Full result.
    privacy_ : PrivacyGuarantee
        Pure guarantee for neighboring datasets that differ in one row; n is public. With ``rho``, the guarantee that it
        implies at delta = 1e-6.
    plan_ : IdentityPlan
        The release plan.
    n_features_in_ : int
        Number of columns.

    Notes
    -----
    **Statistic.** Consider the sum of clipped inner products "with k rows left out". D is the smallest k such that this
    sum is below its null median, by a margin that grows with k. Replacing a row changes D by at most one. Under a
    product null with means other than 0, the average product of each row is subtracted. All arithmetic before the noise
    uses integers.

    **Cost.** The time is O(n^2 d). The memory is a block in addition to the rounded rows.

    **Rate.** A distance a is detectable if n is of this order:
    sqrt(d)/a^2 + d^(1/3)/(a^(4/3) epsilon^(2/3)) + d^(1/4)/(a epsilon) + 1/(a epsilon).

    **Skewed rows.** With continuous skewed rows and the correct mean, this test is conservative. With a narrow clip it
    does not detect a mean that moved toward the long tail. Other tests reject such rows. This test rejects skewed rows
    with few distinct values (docs/limitations.md). To avoid this, first average the rows in blocks of a public size m
    by position, and give cov/m. A row is in one block only, so the guarantee per row is unchanged
    (docs/proofs/identity-tests.md).

    **Limits.** The null hypothesis is the whole distribution, not the mean alone. The direction of a difference is
    unknown to the test: at epsilon 0.1 it needs about three times the distance that a chi-square test detects.

    References
    ----------
    Narayanan (2022), Private high-dimensional hypothesis testing, for clipped inner products;
    docs/proofs/row-distance.md for this statistic.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.identity import RowDistanceTest
    >>> X = np.random.default_rng(0).normal(0.3, 1.0, size=(300, 5))
    >>> test = RowDistanceTest(epsilon=1.0, n_calibration=199, random_state=0).fit(X)
    >>> test.reject_, test.pvalue_
    (True, 0.005)
    """

    clip: float | None = None
    rows: str = "whitened"
    rho: float | None = None

    _title = "Row distance"

    def _design(self, n: int, d: int, reference: Reference) -> RowDistanceDesign:
        signs = check_choice("rows", self.rows, ["whitened", "sign"]) == "sign"
        if signs:
            check_signs(reference, "rows='whitened'")
        if signs:
            steps, largest = 1.0, 1
        elif reference.largest is not None:
            steps, largest = _FINE_STEPS, math.ceil(reference.largest * _FINE_STEPS)
        else:
            steps, largest = 2.0**STEP_BITS, LARGEST_STEP
        slack = 1.0 if signs else SLACK
        rho, a0 = (round(self._clip(reference) * steps**2 * math.sqrt(d)), round(slack * steps**2 * math.sqrt(n * d)))
        if reference.uniform_signs:
            # The null variance of a coordinate on the grid, in steps squared; signs have variance 1.
            variance = steps**2
            if largest > 1 and reference.signs_mean is None:
                points, weights = grid_law(steps, largest)
                variance = float(weights @ points**2)
            window, square = None, normal_clipped_square(d, rho, variance)
        else:
            # With skewed columns, products depend more on single rows than on their mean.
            found = _centering(reference, steps, largest, rho).window(n)
            window, square = (found.low, found.high), found.square
        tau0 = approximate_null_f0(n, a0, square)
        return RowDistanceDesign(signs, steps, largest, rho, a0, tau0, window)

    def _clip(self, reference: Reference) -> float:
        """Return the clip of inner products, over sqrt(d)."""
        if self.clip is not None:
            return check_real("clip", self.clip, above=0, at_most=100)
        # The null determines the skewness of signs.
        normal = reference.signs_mean is None and self.rows == "whitened"
        return WIDE_CLIP if normal and self._strength() >= _STRONG else 1.0

    def _strength(self) -> float:
        """Return epsilon, or the equivalent epsilon of a zero-concentrated rho."""
        return self.epsilon if self.rho is None else math.sqrt(2 * self.rho)

    def _check_privacy(self) -> None:
        if self.rho is None:
            super()._check_privacy()
        elif self.epsilon is not None:
            raise refuse(
                "epsilon",
                given=self.epsilon,
                allowed="None where rho is given",
                remedy="Give rho for a budget in zero-concentrated privacy, and epsilon for any other.",
            )
        else:
            check_real("rho", self.rho, at_least=_SMALLEST_RHO, at_most=_LARGEST_RHO)

    def _target(self, stages: tuple[AnyStage, ...]) -> PrivacyGuarantee:
        if self.rho is None:
            return super()._target(stages)
        return compose([event for stage in stages for event in stage.events], REPORTED_DELTA)

    def _on_signs(self, design: RowDistanceDesign) -> bool:
        return design.signs

    def _stages(self, design: RowDistanceDesign, n: int, d: int) -> tuple[AnyStage, ...]:
        statistic = Integers(_DISTANCE, 1, 1 / _STEPS_OF_A_ROW, _STEPS_OF_A_ROW, _STEPS_OF_A_ROW)
        if self.rho is None:
            return additive_stages([statistic], check_real("epsilon", self.epsilon, above=0), 0.0)
        # Use slightly less than rho, so that rounding never exceeds it.
        return (concentrated_stage(statistic, self.rho * (1 - 1e-12)),)

    def _exact(self, X: NDArray[Any], plan: IdentityPlan) -> Mapping[str, NDArray[Any]]:
        design: RowDistanceDesign = plan.design
        steps = np.empty(X.shape, dtype=np.float32)
        for piece, Z in plan.reference.blocks(X, plan.missing):
            steps[piece] = _steps(Z, design)
        return {_DISTANCE: np.array([_distance(steps, plan) * _STEPS_OF_A_ROW])}

    def _draw(self, plan: IdentityPlan, size: int, generator: np.random.Generator, shift: Any) -> NDArray[np.int64]:
        design: RowDistanceDesign = plan.design
        if _flips_signs(plan.n_samples, design) and not np.any(shift):
            # The null is symmetric: its rows times independent signs are rows of the null. So the datasets of a block
            # share one matrix of products, which takes most of the time (docs/intervals/identity-tests.md).
            steps = _steps(plan.reference.sample(plan.n_samples, generator), design)
            signs = 2 * generator.integers(0, 2, (plan.n_samples, size), dtype=np.int8) - 1
            sums = row_sums(steps, design.rho, bound=design.largest, signs=signs)
            found = [distance_of_row_sums(column, design.rho, design.a0, design.tau0) for column in sums.T]
            return np.array(found, dtype=np.int64)[:, None] * _STEPS_OF_A_ROW
        distances = [
            _distance(_steps(plan.reference.sample(plan.n_samples, generator, shift), design), plan)
            for _ in range(size)
        ]
        return np.array(distances, dtype=np.int64)[:, None] * _STEPS_OF_A_ROW

    def _rate(self, distance: float, d: int) -> float:
        a, e = distance, self._strength()
        return float(math.sqrt(d) / a**2 + d ** (1 / 3) / (a ** (4 / 3) * e ** (2 / 3)) + (d**0.25 + 1) / (a * e))

    def _seconds(self, n: int, d: int, design: RowDistanceDesign) -> float:
        return 2e-4 + 1e-8 * n * d + n * n * (5e-10 + 2e-11 * d)

    def _null_seconds(self, n: int, d: int, design: RowDistanceDesign) -> float:
        each = self._seconds(n, d, design)
        return each / BLOCK + 2e-4 + 1e-7 * n + 3e-11 * n * n if _flips_signs(n, design) else each


def _flips_signs(n: int, design: RowDistanceDesign) -> bool:
    """Return whether null datasets share products: if the null is symmetric and the rows are many."""
    return n >= SHARED_ROWS and design.window is None


def _steps(Z: NDArray[Any], design: RowDistanceDesign) -> NDArray[Any]:
    """Map whitened rows to integers, row by row; ``Z`` is overwritten."""
    if design.signs:
        return signs_of(Z)
    return round_to_steps(Z, Z, design.steps_per_unit, design.largest)


def _centering(reference: Reference, steps: float, largest: int, rho: int) -> RowCentering:
    high, low = reference.sign_steps(steps, largest)
    return row_centering(high, low, reference.up(), rho)


def _distance(steps: NDArray[Any], plan: IdentityPlan) -> int:
    design: RowDistanceDesign = plan.design
    centering = None
    if design.window is not None:
        center = _centering(plan.reference, design.steps_per_unit, design.largest, design.rho)
        centering = Centering(center.terms(steps), center.mean, *design.window)
    return row_distance(steps, design.rho, design.a0, design.tau0, centering=centering, bound=design.largest)


# A single function for a private identity test, chosen by public facts

SMALL_DIMENSION = 7
"""Largest number of columns for the spatial sign, up to which it is better or similar.

See validation/results/identity_directions.md."""
LARGEST_ROWS = 10_000
LARGEST_WORK = 10**10
"""Largest n^2 d. Above it, calibrating the row-distance test takes more than a few minutes."""
SMALL_BUDGET = 30.0
"""Least n epsilon for the row distance. Below it, no distance gives a power of 0.999, and the spatial sign has more.

Attainable powers were simulated for d = 8 to 100 (tests/identity/test_choice.py). At n epsilon = 10, 20 and 30 the row
distance has 0.66 to 0.81, 0.99 and 0.999. The spatial sign has 0.93 to 0.96, 0.998 and 1.000."""


def automatic_test(n: int, d: int, epsilon: float) -> type[RowDistanceTest] | type[SpatialSignTest]:
    """Return the test that `identity_test` runs at this public shape and epsilon."""
    if d <= SMALL_DIMENSION or n > LARGEST_ROWS or n * n * d > LARGEST_WORK or n * epsilon < SMALL_BUDGET:
        return SpatialSignTest
    return RowDistanceTest


def identity_test(
    X: Any,
    mean: Any = 0.0,
    cov: Any = None,
    epsilon: float = 1.0,
    *,
    null: str = "normal",
    level: float = 0.05,
    n_calibration: int | None = None,
    missing: str = "error",
    missing_codes: Any = None,
    cache_dir: Any = None,
    n_jobs: int | None = None,
    progress: bool = False,
    random_state: Any = None,
    budget: Any = None,
) -> TestResult:
    """Test privately whether the rows of ``X`` are N(mean, cov), both public, or independent signs with that mean.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Private rows. Their number is public. If rows were selected by a private label, the number of selected rows is
        private, and this test does not protect it.
    mean : float or array of shape (n_features,), default=0.0
        Public mean under the null hypothesis.
    cov : None, array of shape (n_features,) or (n_features, n_features), default=None
        Covariance matrix, or variances; None is the identity.
    epsilon : float, default=1.0
        Privacy parameter of a pure guarantee, for neighboring datasets that differ in one row.
    null : {"normal", "product"}, default="normal"
        "product": independent signs with ``mean``, or 0/1 columns.
    level, n_calibration, missing, missing_codes, cache_dir, n_jobs, progress, random_state, budget
        The same as in `RowDistanceTest`.

    Returns
    -------
    TestResult
        Result of `RowDistanceTest` if d > 7, n <= 10,000, n^2 d <= 1e10 and n epsilon >= 30. Otherwise the result of
        `SpatialSignTest`. These are public facts.

    Notes
    -----
    The null hypothesis is the whole distribution of the rows. For the mean alone, use
    ``ClippedMean(...).fit(X).test(value=...)``. If one column may differ strongly and the others do not,
    `LipschitzExtensionTest` with ``radius=0.4`` detects smaller distances than both tests.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.identity import identity_test
    >>> X = np.random.default_rng(0).normal(0.3, 1.0, size=(300, 5))
    >>> identity_test(X, epsilon=1.0, n_calibration=199, random_state=0).reject
    True
    """
    source = open_source(X)
    shape = source.size(Schema().resolve(source.names))
    if shape is None:
        raise refuse_data(
            "X", allowed="a table in memory, whose number of rows chooses the test", remedy="Or fit a test itself."
        )
    test = automatic_test(*shape, check_real("epsilon", epsilon, above=0))(
        mean=mean,
        cov=cov,
        null=null,
        epsilon=epsilon,
        level=level,
        n_calibration=n_calibration,
        missing=missing,
        missing_codes=missing_codes,
        cache_dir=cache_dir,
        n_jobs=n_jobs,
        progress=progress,
        random_state=random_state,
        budget=budget,
    )
    result: TestResult = test.fit(source).result_
    return result
