"""Base class of the identity tests: their results, and intervals for the distance from the null mean."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from sklearn.utils.validation import check_is_fitted

from dpstats.data.opening import open_source, stated_shape
from dpstats.data.parameters import check_flag, check_integer, check_level, check_simulations
from dpstats.data.rows import Rows
from dpstats.data.schema import check_columns_again
from dpstats.errors import state_charges
from dpstats.identity.calibration import CalibratedTest, IdentityPlan, pvalue, realised_level
from dpstats.identity.power import LARGEST_DISTANCE, PlannedTest, farthest_distance, unit_vector
from dpstats.inference.error_distributions import ErrorDistribution, Limits, Tail
from dpstats.inference.estimates import Estimates
from dpstats.inference.reports import SIMULATED
from dpstats.inference.results import (
    ConfidenceInterval,
    HasResult,
    HypothesisTest,
    Summary,
    about_missing,
    with_missing,
)
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.release.session import Released

# Results

_FULL_POWER = 0.99  # below, a note says that the power is bounded


@dataclass(frozen=True, slots=True)
class TestResult(HypothesisTest):
    """Result of a private identity test: a released statistic and its p-value.

    The null hypothesis is the whole distribution of the rows, not only the mean. For the mean alone, use the ``test``
    of a mean, ``ClippedMean(...).fit(X).test(value=...)``.

    Attributes
    ----------
    test : str
        Name of the test.
    statistic : float
        Released statistic including noise. Infinite if an earlier stage of the test rejected.
    pvalue : float
        (1 + #{null >= statistic})/(n_calibration + 1). It includes sampling error and privacy noise. NaN with printed
        constants, which have no p-value.
    threshold : float
        Critical value. The test rejects if the statistic is larger.
    level : float
        Nominal level.
    null : str
        The null hypothesis as text.
    n_samples, n_features : int
    privacy : PrivacyGuarantee
    n_calibration : int
        Number of simulated null datasets; 0 for printed constants.
    level_range : tuple of float
        Range that contains the level of this calibration with probability 0.95.
    attainable_power : float
        Probability of rejecting a mean at the largest possible distance, equal in all columns. Noise keeps it below 1
        if ``n_samples * epsilon`` is small. A test that does not reject is then weak evidence.
    missing : str
        Treatment of missing entries as text. Empty if they raise an error.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.identity import RowDistanceTest
    >>> X = np.random.default_rng(0).normal(0.3, 1.0, size=(300, 5))
    >>> result = RowDistanceTest(epsilon=1.0, n_calibration=199, random_state=0).fit(X).result_
    >>> result.reject, result.pvalue, result.statistic > result.threshold
    (True, 0.005, True)
    """

    __test__: ClassVar[bool] = False  # not a class of pytest's

    _numbers: ClassVar[tuple[str, ...]] = ("statistic", "threshold", "level", "pvalue", "reject")

    test: str
    statistic: float
    pvalue: float
    threshold: float
    level: float
    null: str
    n_samples: int
    n_features: int
    privacy: PrivacyGuarantee
    n_calibration: int = 0
    level_range: tuple[float, float] = (float("nan"), float("nan"))
    attainable_power: float = float("nan")
    missing: str = ""

    @property
    def reject(self) -> bool:
        """Whether the null hypothesis is rejected."""
        return self.statistic > self.threshold

    def summary(self) -> Summary:
        """Return a table. It prints as text, and shows as HTML in a notebook."""
        calibrated = self.n_calibration > 0
        low, high = self.level_range
        notes = [SIMULATED] * self.privacy.simulated
        if calibrated:
            notes.append(
                f"The critical value and the p-value use {self.n_calibration:,} simulated null datasets with the noise "
                f"of the release. The level is {self.level:g} on average over calibrations. For this calibration it is "
                f"in [{low:.4f}, {high:.4f}] with probability 0.95."
            )
        else:
            notes.append(
                "The critical value uses printed constants. There is no p-value, and theory only bounds the level."
            )
        if self.attainable_power < _FULL_POWER:
            notes.append(
                f"The power is at most {self.attainable_power:.2f}, however far the mean is from the null hypothesis: "
                "n times epsilon is small. Collect more rows, or spend a larger epsilon."
            )
        notes.append(
            "The null hypothesis is the whole distribution of the rows, not only its mean. Rows of another "
            "distribution with this mean may be rejected. To test the mean alone, use "
            "ClippedMean(...).fit(X).test(value=...)."
        )
        if self.missing:
            notes.append(self.missing)
        if self.statistic == float("inf"):
            notes.append("An earlier stage rejected, so there is no further statistic.")
        return Summary(
            f"{self.test}: private identity test",
            [
                ("Null hypothesis", self.null),
                ("Rows, columns", f"{self.n_samples:,}, {self.n_features:,} (public)"),
                ("Privacy", str(self.privacy)),
                ("Calibration", "public simulation" if calibrated else "printed constants"),
                *(
                    []
                    if math.isnan(self.attainable_power)
                    else [("Largest attainable power", f"{self.attainable_power:.3f}")]
                ),
            ],
            ["", "statistic", "critical value", "p-value", "decision"],
            [
                (
                    self.test,
                    f"{self.statistic:.6g}",
                    f"{self.threshold:.6g}",
                    f"{self.pvalue:.4g}" if calibrated else "",
                    f"{'reject' if self.reject else 'do not reject'} at {self.level:g}",
                )
            ],
            notes,
        )


# Intervals for the distance, by inverting the test with public simulation

_FEW_DATASETS = 100
_SMALLEST_DISTANCE = 1e-9  # smallest distance of a crossing in the search


@dataclass(frozen=True, eq=False)
class SimulatedDistances(ErrorDistribution):
    """Error of a distance, known by public simulation of the statistic at several distances.

    Between two simulated distances, limits and p-values use the less favorable of the two.

    Attributes
    ----------
    estimate : array of shape ()
        Distance at which half of the simulated statistics are larger than the released one.
    distances : array of shape (m,)
        Increasing distances.
    larger : array of shape (m,)
        Proportion of the simulated statistics at each distance that are larger than the released one. Ties count half.
    size : int
        Simulated datasets at each distance.
    farthest : float
        Largest distance that rows can have.
    """

    estimate: NDArray[np.float64]
    distances: NDArray[np.float64]
    larger: NDArray[np.float64]
    size: int
    farthest: float

    @property
    def start(self) -> NDArray[np.float64]:
        return self.estimate

    @property
    def box(self) -> Limits:
        return np.zeros(()), np.full((), self.farthest)

    def excludes_all(self, tail: Tail) -> str:
        """Return why no distance is in the confidence set. Empty if there is one."""
        if (self.larger < tail).all():
            return "larger"
        return "smaller" if (1 - self.larger < tail).all() else ""

    def limits(self, tail: Tail) -> Limits:
        if self.excludes_all(tail):
            return self.box
        too_small = np.append(0.0, self.distances[self.larger < tail])
        too_large = np.append(self.distances[1 - self.larger < tail], self.farthest)
        return too_small[-1].reshape(()), too_large[0].reshape(())

    def tails(self, value: NDArray[np.float64]) -> Limits:
        least = 1 / (self.size + 1)
        below = np.searchsorted(self.distances, value, side="left")
        smaller = 1 - np.append(0.0, self.larger)[below]
        above = np.searchsorted(self.distances, value, side="right")
        larger = np.append(self.larger, 1.0)[above]
        return np.maximum(smaller, least), np.maximum(larger, least)


class InvertedTest(CalibratedTest):
    """A fitted test that can be inverted to an interval of distances."""

    statistic_: float
    result_: TestResult

    def estimate_distance(
        self, confidence_level: float = 0.95, *, direction: Any = "dense", n_simulations: int = 1000, n_points: int = 20
    ) -> Estimates:
        """Return an estimate of the distance between the mean and the null mean, with intervals and tests.

        A test that rejects does not say whether the mean is far away. ``test(0.2, "greater")`` of the estimate tests
        whether it is farther than 0.2, and ``test(0.2, "less")`` whether it is closer. The estimate uses the released
        statistic and public simulation, without additional privacy cost.

        Parameters
        ----------
        confidence_level : float, default=0.95
            Level at which limits are found within half a percent. Intervals of other levels end at the next of the
            simulated distances, so that they are slightly too wide.
        direction, n_simulations
            The same as in `distance_interval`.
        n_points : int, default=20
            Number of further distances, at which ``n_simulations`` datasets each are simulated.

        Returns
        -------
        Estimates
            One estimate. Its standard error is not known.

        Examples
        --------
        >>> import numpy as np
        >>> from dpstats.identity import SpatialSignTest
        >>> X = np.random.default_rng(0).normal(0.3, 1.0, size=(2000, 4))
        >>> test = SpatialSignTest(epsilon=1.0, n_calibration=199, random_state=0).fit(X)
        >>> distance = test.estimate_distance(n_simulations=200)
        >>> distance.test(0.3, "greater").pvalue < 0.05, distance.test(0.9, "less").pvalue < 0.05
        (True, True)
        """
        check_is_fitted(self)
        level = check_level("confidence_level", confidence_level)
        size = check_simulations(n_simulations, at_least=1)
        points = check_integer("n_points", n_points, at_least=0)
        plan = self.plan_
        unit = unit_vector(direction, plan.n_features)
        farthest = farthest_distance(plan.reference, unit)
        named = f"direction {direction!r}" if isinstance(direction, str) else "in the direction given"
        estimand = f"the Mahalanobis distance of the rows' mean from the public one, {named}"
        errors = self._simulate_errors(unit, farthest, (1 - level) / 2, size, points)
        if side := errors.excludes_all((1 - level) / 2):
            estimand += (
                f"; no distance is in the confidence set, as the released statistic is {side} than any makes likely: "
                "the whole range"
            )
        return Estimates(
            errors.estimate,
            None,
            ("distance",),
            with_missing(estimand, self.result_.missing),
            errors,
            title=f"{self.result_.test}: distance from the null mean",
            header="distance",
            notes=[
                f"Limits and p-values: {size:,} simulated datasets at each of several distances, with the noise of the "
                "release."
            ],
            simulated=self.result_.privacy.simulated,
        )

    def distance_interval(
        self, confidence_level: float = 0.95, *, direction: Any = "dense", n_simulations: int = 1000
    ) -> ConfidenceInterval:
        """Return an interval for the distance between the mean and the null mean, by inverting the test.

        It uses the released statistic and public simulation, without additional privacy cost. ``n_simulations`` bounds
        the work: it takes about 36 times this number of datasets, of the size of the fit.

        Parameters
        ----------
        confidence_level : float, default=0.95
        direction, n_simulations
            The same as in `power`. The distribution of the statistic also depends on the direction of the mean. For the
            spatial-sign test it depends on the distance only.

        Returns
        -------
        ConfidenceInterval
            Distances at which the statistic is neither too large nor too small. Each tail has half of
            1 - ``confidence_level``. The upper limit is infinite if an earlier stage rejected, or if noise hides the
            distance. Limits are rounded outward, by at most half a percent. With probability at most
            1 - ``confidence_level``, noise makes the statistic unlikely under every distance. The confidence set is
            then empty, the interval is the whole range, and its ``estimand`` states this.
        """
        found = self.estimate_distance(confidence_level, direction=direction, n_simulations=n_simulations, n_points=0)
        return found.confidence_interval(confidence_level)

    def _simulate_errors(
        self, unit: NDArray[np.float64], farthest: float, tail: float, size: int, points: int
    ) -> SimulatedDistances:
        """Return the curve of the statistic: close to both limits and the median, and at points between them."""
        from tqdm import tqdm

        limit = min(farthest, LARGEST_DISTANCE)
        with tqdm(desc="distance interval", unit=" datasets", disable=not check_flag("progress", self.progress)) as bar:
            known: dict[float, float] = {}

            @cache
            def larger(distance: float, datasets: int) -> float:
                values = self._alternative(self.plan_, distance * unit, datasets)
                bar.update(datasets)
                # Count ties half on either side, so that both tails are treated equally.
                share = float(np.mean(values > self.statistic_) + np.mean(values == self.statistic_) / 2)
                if datasets == size:
                    known[distance] = share
                return share

            low, middle, high = (crossing(larger, target, limit, size) for target in (tail, 0.5, 1 - tail))
            for distance in (*low, *middle, *high):
                if math.isfinite(distance):
                    larger(distance, size)
            ends = sorted(known)
            # Go beyond the largest distance by its distance from the median, which may be infinite.
            most = 2 * ends[-1] - min(middle[1], ends[-1])
            for distance in np.linspace(ends[0], most, points).clip(0.0, limit):
                larger(float(distance), size)
        distances = np.array(sorted(known))
        # The same draws at every distance make the curve smooth. Ties with the limit of the search keep it increasing.
        curve = np.maximum.accumulate([known[distance] for distance in distances])
        return SimulatedDistances(np.array(min(middle[1], farthest)), distances, curve, size, farthest)


def crossing(curve: Callable[[float, int], float], target: float, farthest: float, size: int) -> tuple[float, float]:
    """Return distances on both sides of the point where an increasing curve reaches ``target``.

    The result is (0, 0) if the curve starts above the target, and (inf, inf) if it never reaches it.
    ``curve(distance, datasets)`` is a cached simulation. A tenth of the datasets locates the crossing, and only points
    close to it use all datasets.
    """
    if curve(0.0, size) >= target:
        return 0.0, 0.0
    low, high = 0.0, min(0.25, farthest)
    few = min(size, max(_FEW_DATASETS, size // 10))
    for datasets, tolerance in ((few, 0.05), (size, 2e-3)):

        def excess(distance: float, datasets: int = datasets) -> float:
            return curve(distance, datasets) - target

        step = high - low
        while excess(high) < 0 and high < farthest:
            low, high, step = high, min(high + step, farthest), 2 * step
        while low > 0 and excess(low) >= 0:
            low, high, step = max(low - step, 0.0), low, 2 * step
        # Crossings near 0, where n is large, are bracketed as closely as others.
        while low == 0 and high > _SMALLEST_DISTANCE and excess(0.0) < 0 <= excess(high):
            low, high = (high / 2, high) if excess(high / 2) < 0 else (0.0, high / 2)
        if excess(low) < 0 <= excess(high):
            root = float(optimize.brentq(excess, low, high, xtol=tolerance * high))
            # The root is accurate to the tolerance, so the returned distances lie on both sides of the crossing.
            low, high = max(root - tolerance * high, 0.0), min(root + tolerance * high, farthest)
        elif datasets == size:
            return math.inf, math.inf
    return low, high


# The base class

# `calibrated` has the public side of a test: its plan and its calibration. A test adds its exact private integers.
# `dpstats.release.estimator` decides when to charge.

_ATTAINABLE: dict[str, float] = {}
"""Attainable powers by the distribution of the statistic. They are public, and equal for all fits of one size."""


class PrivateTest(HasResult[TestResult], PlannedTest, InvertedTest):
    """Base class of the identity tests.

    The exact integers of a test are private. The statistic is computed from their noisy release.

    Every test has the parameters ``mean``, ``cov``, ``null``, ``epsilon``, ``level``, ``calibration``,
    ``n_calibration``, ``missing``, ``cache_dir``, ``n_jobs``, ``progress``, ``random_state`` and ``budget``. A test may
    declare further parameters (`dpstats.release.estimator`).

    Attributes
    ----------
    statistic_, threshold_, pvalue_ : float
        Noisy statistic, its critical value, and the p-value.
    reject_ : bool
        Whether the test rejects.
    result_ : TestResult
        Full result.
    privacy_ : PrivacyGuarantee
        Guarantee of the fit.
    plan_ : IdentityPlan
        The release plan.
    rows_, rows_noise_std_, n_rows_ : float, float, int
        Noisy number of complete rows, the standard deviation of its noise, and the number of rows in the test. Only
        with ``missing="drop"``.
    """

    _title: ClassVar[str]

    @abstractmethod
    def _exact(self, X: NDArray[Any], plan: IdentityPlan) -> Any:
        """Return the exact private integers of every stage by name, or raise an error for bad data."""

    def _prepare(self, plan: IdentityPlan) -> IdentityPlan:
        """Return the plan with its null distribution and its attainable power, once for every distribution."""
        prepared = super()._prepare(plan)
        key = f"{type(self).__name__} {plan.law} {plan.level} {prepared.critical_value}"
        if key not in _ATTAINABLE:
            dense = unit_vector("dense", plan.n_features)
            _ATTAINABLE[key] = self._attainable_power(prepared, dense)
        return prepared.having(attainable_power=_ATTAINABLE[key])

    def _fill(self, d: int) -> Any:
        return np.asarray(self.mean) if self.null == "normal" else 1.0

    def _read(self, rows: Rows, plan: IdentityPlan) -> Any:
        return self._exact(rows.whole().X, plan)

    def _report(self, released: Released, plan: IdentityPlan) -> None:
        null = plan.null
        self.statistic_ = float(self._combine(released, plan))
        self.threshold_ = plan.critical_value
        self.pvalue_ = math.nan if null is None else pvalue(null, self.statistic_)
        self.result_ = TestResult(
            self._title,
            self.statistic_,
            self.pvalue_,
            self.threshold_,
            plan.level,
            "the rows are independent signs with the public means"
            if plan.reference.signs_mean is not None
            else "the rows are N(mean, cov), both public",
            plan.n_samples,
            plan.n_features,
            self.privacy_,
            plan.n_calibration,
            (math.nan, math.nan) if null is None else realised_level(null.size, plan.level),
            plan.attainable_power,
            about_missing(plan.missing, "the mean of the null hypothesis", "Rows with a missing entry"),
        )
        self.reject_ = self.result_.reject

    @state_charges
    def predict(self, X: Any) -> int:
        """Run the calibrated test on another dataset. This is a separate release, and is charged again.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Private rows, with the columns of the fit. The test returns one answer for this dataset.

        Returns
        -------
        int
            1 to reject, 0 not to.
        """
        check_is_fitted(self)
        source = open_source(X)
        fitted = getattr(self, "feature_names_in_", None)
        names = None if source.names is None else list(source.names)
        stated = source.size(self._schema().resolve(source.names))
        n_features = self.n_features_in_ if stated is None else stated[1]
        check_columns_again(self, names, n_features, stated_shape(X))
        # An array has the columns of the fit in order, and so has a labeled mean. A copy shares the budget and the
        # generator. The attributes of this fit stay unchanged.
        test = copy.copy(self._sort_parameters(names if fitted is None else list(fitted)))
        if test.budget is not None and test.budget.key is not None:
            # A key of the fit is not one of another dataset.
            test.budget = test.budget.labelled("predict")
        return int(test.fit(source).reject_)

    @state_charges
    def fit_predict(self, X: Any, y: Any = None) -> int:
        """Run the test once and return 1 to reject, 0 not to."""
        return int(self.fit(X).reject_)
