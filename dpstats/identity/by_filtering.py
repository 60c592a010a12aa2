"""The filtering test: algorithm 9.3.3, on the filtered data, at a quarter of the privacy inside.

Proof: docs/proofs/filtering.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_choice, check_integer, check_real
from dpstats.errors import DPStatsError, NotPrivate, refuse
from dpstats.identity.base import PrivateTest
from dpstats.identity.calibration import PUBLIC_SEED, IdentityPlan
from dpstats.identity.whitening import Reference, check_signs, signs_of
from dpstats.privacy.events import Approximate, Event
from dpstats.privacy.gaussian import TOTAL_VARIATION, gaussian_sigma
from dpstats.privacy.stages import AnyStage, Coins, Stage
from dpstats.release.estimator import parameters
from dpstats.release.noise import MAX_SCALE, check_scale
from dpstats.release.session import Released, Session

# Constants, and what each line of the algorithm computes

# A test of Canonne, Kamath, McMillan, Ullman and Zakynthinou (2020), for sign rows.

_EXACT_FLOAT64 = 2**53
_SMALLEST_DELTA = 1e-280  # so that its logarithms are finite
PARTS, DELTA_PARTS = 4, 14
"""The printed algorithm with parameters (e, f) is (4e, 14f)-private: inside, a total is divided by these."""


@dataclass(frozen=True)
class FilteringConstants:
    """All constants of algorithm 9.3.3 (docs/sources.md), from public facts. Line numbers refer to the algorithm.

    Attributes
    ----------
    epsilon, delta : float
        Inside the algorithm: a quarter, and a fourteenth, of the total.
    largest_scale, largest_threshold : float
        Lines 2 and 3: Laplace scale 2/epsilon for max |S_i| (sensitivity 2), and its threshold.
    sum_sigma : float
        Line 4: standard deviation of the noise on every coordinate of S (l2 sensitivity 2 sqrt d).
    sum_margin : float
        (4d/epsilon) sqrt(log(5/(4 delta)) log(n/delta)): what that noise can do to one inner product.
    Delta : float
        Line 5.
    filter_threshold : float
        Lines 6 and 9: Delta + sum_margin.
    count_scale, count_threshold : float
        Lines 6 and 7: Laplace scale 1/epsilon for the number of rows beyond, and its threshold.
    statistic_sensitivity : int
        Line 13: 4 Delta + 12 sum_margin (printed as 4 Delta + 48d/epsilon ...), rounded up to an integer.
    statistic_scale : float
        statistic_sensitivity / epsilon.
    """

    epsilon: float
    delta: float
    largest_scale: float
    largest_threshold: float
    sum_sigma: float
    sum_margin: float
    Delta: float
    filter_threshold: float
    count_scale: float
    count_threshold: float
    statistic_sensitivity: int
    statistic_scale: float


def filtering_constants(n: int, d: int, epsilon: float, delta: float, calibration: str = "exact") -> FilteringConstants:
    """Return the constants of algorithm 9.3.3 for a *total* guarantee of (epsilon, delta).

    Parameters
    ----------
    n, d : int
        Shape of the data; n at least 2.
    epsilon, delta : float
        Total; inside, a quarter and a fourteenth are used.
    calibration : {"exact", "textbook"}
        Line 4's noise: the exact Gaussian curve, or as printed. The exact one is smaller wherever the
        printed one is private, and only there: the proof needs noise of at most the printed size.

    Raises
    ------
    NotPrivate
        If the printed noise of line 4 is not private, or if another condition of the proof fails.
    """
    n, d = check_integer("n", n, at_least=2), check_integer("d", d, at_least=1)
    e = check_real("epsilon", epsilon, above=0) / PARTS
    f = check_real("delta", delta, at_least=_SMALLEST_DELTA, below=1) / DELTA_PARTS
    check_scale(1 / e if e * MAX_SCALE > 1 else math.inf)
    log_f, log_nf, log_df = math.log(1 / f), math.log(n / f), math.log(d / f)
    log_gauss = math.log(1.25 / f)
    printed = math.sqrt(8 * d * log_gauss) / e
    exact = gaussian_sigma(e, f, 2 * math.sqrt(d))
    if exact > printed:
        raise NotPrivate(
            f"the printed noise of algorithm 9.3.3, line 4, is not private at epsilon = {epsilon:g}, "
            f"delta = {delta:g} in total: it needs a smaller epsilon"
        )
    # Two conditions of the proof: 4 sum_margin >= (16d/e) log(1/f) + 4d for kept rows, and the bound of line 5 for
    # redrawn rows.
    if (log_f + 0.25 * e) ** 2 > log_gauss * log_nf or log_f < 0.61 * e:
        raise NotPrivate(
            f"the proof of algorithm 9.3.3 does not cover epsilon = {epsilon:g}, delta = {delta:g}: "
            "it needs a smaller epsilon"
        )
    margin = 4 * d / e * math.sqrt(log_gauss * log_nf)
    bound = 16 * (
        d * log_df
        + d / (n * e**2) * log_f**2
        + math.sqrt(n * d) * math.sqrt(log_df * log_nf)
        + math.sqrt(d) / e * log_f * math.sqrt(log_nf)
    )
    sensitivity = math.ceil((4 * bound + 12 * margin) * (1 + 1e-12))
    return FilteringConstants(
        epsilon=e,
        delta=f,
        largest_scale=2 / e,
        largest_threshold=math.sqrt(2 * n * log_df) + 2 / e * log_f,
        sum_sigma=exact if calibration == "exact" else printed,
        sum_margin=margin,
        Delta=bound,
        filter_threshold=bound + margin,
        count_scale=1 / e,
        count_threshold=log_f / e,
        statistic_sensitivity=sensitivity,
        statistic_scale=sensitivity / e,
    )


def largest_coordinate(X: NDArray[Any]) -> int:
    """Return max_i |S_i| of sign rows, for line 2. Its sensitivity is 2."""
    return int(np.abs(X.sum(axis=0, dtype=np.int64)).max())


def rows_beyond(X: NDArray[Any], noisy_steps: NDArray[np.int64], threshold_steps: int) -> NDArray[np.bool_]:
    """Select the rows with |<x_j, noisy sum>| > threshold, both in lattice steps, for lines 6 and 9.

    With integers, the result for a row is exact: no other row can change the rounding of its product.
    """
    largest = max(abs(int(step)) for step in noisy_steps)
    exact = largest * X.shape[1] < _EXACT_FLOAT64
    # Every partial sum is an integer below 2^53; Python integers for noise beyond that.
    dtype = np.dtype(np.float64 if exact else object)
    inner = X.astype(dtype) @ noisy_steps.astype(dtype)
    return np.asarray(np.abs(inner) > threshold_steps, dtype=np.bool_)


def replace_rows(X: NDArray[Any], beyond: NDArray[np.bool_], signs: NDArray[Any]) -> NDArray[Any]:
    """Return the filtered data of lines 8 to 12: rows beyond the threshold get new uniform signs of shape (n, d)."""
    filtered: NDArray[Any] = np.where(beyond[..., None], signs, X)
    return filtered


def quadratic_statistic(X: NDArray[Any]) -> int:
    """Return T = ||S||^2 - n d of sign rows, exactly."""
    n, d = X.shape
    # In Python integers: n^2 d may leave 64 bits.
    sums: list[int] = X.sum(axis=0, dtype=np.int64).tolist()
    return sum(s * s for s in sums) - int(n) * int(d)


# The test

_LARGEST, _SUM, _COUNT, _SIGNS, _STATISTIC = (
    "largest |S_i|",
    "sum of the rows",
    "number of rows to filter",
    "fresh signs for rows that go",
    "T of the filtered rows",
)
_FAR_DATASETS = 200  # number of simulated datasets for the attainable power


@dataclass(frozen=True)
class FilteringDesign:
    """The constants of algorithm 9.3.3, and the number of lattice steps per unit of the sum."""

    constants: FilteringConstants
    steps_per_unit: int


@dataclass(frozen=True)
class FilteringPlan(IdentityPlan):
    """The plan of a `FilteringTest`. A joint proof gives the cost of its stages.

    The sensitivity of the last stage holds except with a probability that depends on earlier stages. So the separate
    events of the stages do not compose (docs/proofs/filtering.md).
    """

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """One event: the total guarantee. The proof covers exactly these stages."""
        if self.counted is not None:
            return super().events
        n, d, total = self.n_samples, self.n_features, self.target
        # The larger noise first: where its lattice is too fine for 64 bits, so is the other's.
        proved = any(
            self.design == _design_of(n, d, total.epsilon, total.delta, noise) for noise in ("textbook", "exact")
        )
        if not proved or self.stages != _stages_of(self.design, n, d):
            raise DPStatsError(f"the stages must be the proved split of {total}, got others. This is a defect")
        return (Approximate(self.target.epsilon, self.target.delta, neighbors=self.target.neighbors),)


@parameters
class FilteringTest(PrivateTest):
    """Private test of a mean by T of the rows that remain when unusual ones are replaced by noise.

    This is algorithm 9.3.3 of the statistics chapter (docs/sources.md), which takes polynomial time, on signs. At
    moderate sizes its printed constants require more noise than T without filtering. Use `RowDistanceTest` instead, or
    `SpatialSignTest` from n = 1e5.

    Parameters
    ----------
    mean : float or array of shape (n_features,), default=0.0
        Public mean under the null hypothesis. Labels work as in `RowDistanceTest`.
    cov : None, array of shape (n_features,) or (n_features, n_features), default=None
        Public covariance matrix, or variances. None is the identity.
    null : {"normal", "product"}, default="normal"
        "product": independent signs, or 0/1 columns; ``mean`` must be 0, the uniform distribution on the cube.
    noise : {"exact", "textbook"}, default="exact"
        Line 4's noise: by the exact Gaussian curve, or as printed (larger). Both are private.
    distance : float, optional
        The alternative, for ``calibration="textbook"``.
    level : float, default=0.05
    calibration : {"monte_carlo", "textbook"}, default="monte_carlo"
        The last threshold: by public simulation, or n(n-1) distance^2/4 as printed. All other constants are the
        printed ones: the privacy rests on them.
    n_calibration, cache_dir, n_jobs, progress, random_state, budget
        The same as in `RowDistanceTest`.
    missing : {"error", "drop"}, default="error"
        "drop" as for `RowDistanceTest`. A missing row has no signs. An entry at its mean counts as +1.
    missing_codes : sequence of numbers and text, optional
        Public codes of missing entries, such as ``[-999, "unk"]``, in all columns. Numbers are compared by value, words
        by text.
    epsilon, delta : float, default=1.0, 1e-6
        Total privacy parameters; delta must be positive. The algorithm uses a quarter and a fourteenth of them inside.

    Attributes
    ----------
    statistic_ : float
        The noisy T of the filtered rows; infinite where an earlier step rejected.
    threshold_, pvalue_ : float
    reject_ : bool
    result_ : TestResult
    privacy_ : PrivacyGuarantee
        Guarantee of the fit, for neighboring datasets that differ in one row.
    plan_ : IdentityPlan
    n_features_in_ : int

    Notes
    -----
    **Limits.** It needs more noise than other tests at all moderate sizes. It is for signs of columns, and rejects
    rows with the correct mean and another distribution.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.identity import FilteringTest
    >>> X = np.random.default_rng(0).normal(0.5, 1.0, size=(4000, 3))
    >>> test = FilteringTest(epsilon=4.0, n_calibration=99, random_state=0).fit(X)
    >>> test.reject_
    True
    """

    noise: str = "exact"
    distance: float | None = None
    delta: float = 1e-6

    _title = "Filtering"
    _plan_class = FilteringPlan
    _calibrations = ("monte_carlo", "textbook")
    _remedy = "delta must be smaller, or level larger"

    def _design(self, n: int, d: int, reference: Reference) -> FilteringDesign:
        check_signs(reference, "RowDistanceTest")
        noise = check_choice("noise", self.noise, ["exact", "textbook"])
        if self.delta == 0:
            raise refuse(
                "delta", given=self.delta, allowed="greater than 0 for FilteringTest", remedy="Its noise is Gaussian."
            )
        return _design_of(n, d, self.epsilon, self.delta, noise)

    def _on_signs(self, design: FilteringDesign) -> bool:
        return True

    def _stages(self, design: FilteringDesign, n: int, d: int) -> tuple[AnyStage, ...]:
        return _stages_of(design, n, d)

    def _exact(self, X: NDArray[Any], plan: IdentityPlan) -> NDArray[Any]:
        # Return the signs themselves, because the input of later steps depends on earlier releases.
        return np.concatenate([signs_of(Z) for _, Z in plan.reference.blocks(X, plan.missing)])

    def _release(self, private: NDArray[Any], plan: IdentityPlan, session: Session) -> None:
        """Run lines 1 to 13; a draw that rejects early releases nothing more."""
        X, design = private, plan.design
        c, n = design.constants, plan.n_samples
        largest = session.add(_LARGEST, np.array([largest_coordinate(X)]))
        going = largest[..., 0] <= c.largest_threshold
        # In steps: whether a row is beyond is decided in integers.
        steps = X.sum(axis=0, dtype=np.int64) * design.steps_per_unit
        noisy = session.add(_SUM, steps, where=going, units=False)
        # Rounded down: a row that is kept satisfies the printed inequality.
        limit = math.floor(c.filter_threshold * design.steps_per_unit)
        beyond = np.array([rows_beyond(X, each, limit) for each in np.atleast_2d(noisy)])
        beyond = beyond.reshape(*noisy.shape[:-1], n)
        count = session.add(_COUNT, beyond.sum(axis=-1, keepdims=True), where=going)
        # NaN, of a draw that stopped before, is not at most anything.
        going = count[..., 0] <= c.count_threshold
        if not np.any(going):
            session.skip(_SIGNS, "rejected before")
            session.skip(_STATISTIC, "rejected before")
            return
        # Signs for all rows: how many are drawn, and when, must not depend on the data.
        filtered = replace_rows(X, beyond, session.coins(_SIGNS)).reshape(-1, *X.shape)
        values = np.array([quadratic_statistic(rows) for rows in filtered], dtype=object)
        session.add(_STATISTIC, values.reshape(count.shape), where=going)

    def _combine(self, released: Released, plan: IdentityPlan) -> NDArray[np.float64]:
        last = released.get(_STATISTIC, np.full_like(released[_LARGEST], math.nan))[..., 0]
        # Rejected early: no further statistic.
        return np.where(np.isnan(last), math.inf, last)

    def _simulate(
        self, plan: IdentityPlan, size: int, generator: np.random.Generator, shift: Any = 0.0
    ) -> NDArray[np.float64]:
        # Every dataset has a separate session.
        values = np.empty(size)
        for i in range(size):
            X = plan.reference.sample_signs(plan.n_samples, generator, shift)
            with Session.simulated(plan, generator) as session:
                self._release(X, plan, session)
            values[i] = self._combine(session.released, plan)
        return values

    def _attainable_power(self, plan: IdentityPlan, unit: NDArray[np.float64]) -> float:
        # The noise is drawn while the rows are filtered, so every release needs a dataset.
        generator = np.random.default_rng([PUBLIC_SEED, 2, plan.n_samples, plan.n_features])
        values = self._simulate(plan, _FAR_DATASETS, generator, self._farthest(plan, unit))
        return float(np.mean(values > plan.critical_value))

    def _printed_threshold(self, design: FilteringDesign, n: int, d: int) -> float:
        if self.distance is None:
            raise refuse("distance", allowed="given with calibration='textbook'")
        return n * (n - 1) * check_real("distance", self.distance, above=0, at_most=1e6) ** 2 / 4

    def _seconds(self, n: int, d: int, design: FilteringDesign) -> float:
        return 2e-4 + 5e-8 * n * d


def _design_of(n: int, d: int, epsilon: float, delta: float, noise: str) -> FilteringDesign:
    constants = filtering_constants(n, d, epsilon, delta, noise)
    # Discrete instead of continuous noise costs (1 + e^epsilon) TOTAL_VARIATION d/sigma^2, with sigma in steps. This is
    # at most a tenth of one delta, and the proof does not use several deltas.
    variation = (1 + math.exp(constants.epsilon)) * TOTAL_VARIATION * d / constants.sum_sigma**2
    bits = max(10, math.ceil(math.log2(10 * variation / constants.delta) / 2))
    if n * 2**bits >= 2**62:
        raise refuse(
            "delta",
            given=delta,
            allowed=f"larger for n_samples = {n}",
            remedy="Exact 64-bit noise would need a lattice too fine for the sum of the rows.",
        )
    return FilteringDesign(constants, 2**bits)


def _stages_of(design: FilteringDesign, n: int, d: int) -> tuple[AnyStage, ...]:
    c, steps = design.constants, design.steps_per_unit
    sigma = check_scale(c.sum_sigma * steps)
    for scale in (c.largest_scale, c.count_scale, c.statistic_scale):
        check_scale(scale)
    l2 = math.ceil(2 * math.sqrt(d) * steps)
    K = c.statistic_sensitivity
    return (
        Stage(_LARGEST, "laplace", 1, 1.0, 2, c.largest_scale),
        Stage(_SUM, "gaussian", d, 1 / steps, l2, sigma),
        Stage(_COUNT, "laplace", 1, 1.0, 1, c.count_scale),
        Coins(_SIGNS, (n, d)),
        Stage(_STATISTIC, "laplace", 1, 1.0, K, c.statistic_scale),
    )
