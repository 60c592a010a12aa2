"""Base class of the identity tests: their power at a public size, their results, and intervals for the distance."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import TracebackType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from sklearn.utils.validation import check_is_fitted

from dpstats.data.opening import open_source, stated_shape
from dpstats.data.parameters import check_flag, check_integer, check_level, check_real, check_simulations
from dpstats.data.rows import Rows
from dpstats.data.schema import check_columns_again
from dpstats.errors import InvalidParameter, refuse, state_charges
from dpstats.identity.calibration import LARGEST_N, PUBLIC_SEED, CalibratedTest, IdentityPlan, pvalue, realised_level
from dpstats.identity.whitening import LARGEST_DISTANCE, farthest_distance, unit_vector
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

# The cost of simulations, by an estimate from public sizes

MAX_SECONDS = 3600.0
"""Of one core, by default. The estimate is right to within a factor of a few."""


class Workload:
    """The simulations of one call: their estimated cost, which is bounded, and a progress bar.

    Parameters
    ----------
    max_seconds : None or float
        Bound on the total; None is none.
    cheaper : str
        What to do instead, for the error.
    description : str, optional
        Stands before the bar; without it there is none.
    """

    def __init__(self, max_seconds: float | None, cheaper: str, description: str | None = None) -> None:
        from tqdm import tqdm

        self._bound = math.inf if max_seconds is None else check_real("max_seconds", max_seconds, above=0)
        self._cheaper = cheaper
        self._seconds = 0.0
        self._bar = tqdm(desc=description, unit=" datasets", disable=description is None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.close()

    def add(self, datasets: int, seconds: float, n_samples: int) -> None:
        """Add the time of planned simulations, or raise an error if the total exceeds the limit."""
        self._seconds += datasets * seconds
        if self._seconds > self._bound:
            raise InvalidParameter(
                f"max_seconds = {self._bound:g} is too little: {datasets} simulated datasets of {n_samples} rows bring "
                f"this call to about {self._seconds:.2g} seconds of one core; {self._cheaper}, or give fewer "
                "n_simulations or a larger max_seconds"
            )

    def done(self, datasets: int) -> None:
        """Move the bar on."""
        self._bar.update(datasets)


# Power

_FIRST_N = 32  # start of doubling searches
_RELEASES, _SIGN_DATASETS = 10_000, 20  # simulated releases, and datasets of signs, for the attainable power
_SMALLEST_DISTANCE = 1e-9  # no plan has enough rows for a smaller distance, and no search ends below it


class PlannedTest(CalibratedTest):
    """Base class with functions for planning a test: its power, and the required number of rows."""

    def power(
        self,
        distance: float,
        n_samples: int,
        n_features: int,
        *,
        direction: Any = "dense",
        n_simulations: int = 1000,
        max_seconds: float | None = MAX_SECONDS,
    ) -> float:
        """Return the probability of rejection, from public simulation, without privacy cost.

        Parameters
        ----------
        distance : float
            Mahalanobis distance between the mean of the rows and the null mean, at most 1e6.
        n_samples, n_features : int
        direction : {"dense", "sparse"} or array of shape (n_features,), default="dense"
            Direction of the whitened mean: all coordinates equal, only the first coordinate, or any vector.
        n_simulations : int, default=1000
            Number of datasets. The standard error is at most 0.5/sqrt(n_simulations).
        max_seconds : None or float, default=3600
            Limit for the CPU time of all simulations of this call, including the null distribution. The time is
            estimated from public sizes. None: no limit.

        Returns
        -------
        float

        Raises
        ------
        InvalidParameter
            If a parameter is outside its allowed range, or if the simulations would take longer than ``max_seconds``.
        """
        plan = self.plan(n_samples, n_features)
        distance = check_real("distance", distance, at_least=0, at_most=LARGEST_DISTANCE)
        shift = distance * unit_vector(direction, plan.n_features)
        size = check_simulations(n_simulations, at_least=1)
        with Workload(max_seconds, self._cheaper()) as work:
            return self._power(plan, shift, size, work)

    def _power(self, plan: IdentityPlan, shift: NDArray[np.float64], size: int, work: Workload) -> float:
        datasets = plan.n_calibration + size
        seconds = size * self._seconds(plan.n_samples, plan.n_features, plan.design)
        work.add(datasets, (plan.calibration_seconds + seconds) / datasets, plan.n_samples)
        values = self._alternative(plan, shift, size)
        reached = float(np.mean(values > self._prepare(plan).critical_value))
        work.done(datasets)
        return reached

    def attainable_power(self, n_samples: int, n_features: int, *, direction: Any = "dense") -> float:
        """Return the probability of rejecting a mean at the largest possible distance, without privacy cost.

        The noise does not shrink with the distance, so this power is below 1 if ``n_samples * epsilon`` is small. No
        distance gives a larger power in this direction.

        Parameters
        ----------
        n_samples, n_features : int
        direction : {"dense", "sparse"} or array of shape (n_features,), default="dense"
            The same as in `power`.

        Returns
        -------
        float
            Power from public simulation, with a standard error of at most 0.005.

        Examples
        --------
        >>> from dpstats.identity import SpatialSignTest
        >>> SpatialSignTest(epsilon=0.1, n_calibration=199).attainable_power(50, 20) < 0.6
        True
        """
        plan = self.plan(n_samples, n_features)
        return self._attainable_power(self._prepare(plan), unit_vector(direction, plan.n_features))

    def _attainable_power(self, plan: IdentityPlan, unit: NDArray[np.float64]) -> float:
        """Return the power of a prepared plan at the farthest mean in the direction of a unit vector."""
        generator = np.random.default_rng([PUBLIC_SEED, 2, plan.n_samples, plan.n_features])
        # At this distance, normal rows always give the same statistic before noise.
        datasets = 1 if plan.reference.signs_mean is None else _SIGN_DATASETS
        steps = self._draw(plan, datasets, generator, self._farthest(plan, unit))
        values = self._noisy_statistics(plan, np.repeat(steps, _RELEASES // datasets, axis=0), generator)
        return float(np.mean(values > plan.critical_value))

    def _farthest(self, plan: IdentityPlan, unit: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the farthest mean in the direction of a unit vector."""
        return min(LARGEST_DISTANCE, farthest_distance(plan.reference, unit)) * unit

    def required_samples(
        self,
        distance: float,
        n_features: int,
        power: float = 0.8,
        *,
        direction: Any = "dense",
        n_simulations: int = 1000,
        max_seconds: float | None = MAX_SECONDS,
    ) -> int:
        """Return a number of rows at which the test has a given power, accurate to 2%.

        Parameters
        ----------
        distance, n_features, direction, n_simulations
            As for `power`.
        power : float, default=0.8
        max_seconds : None or float, default=3600
            The same as in `power`, for the whole search.

        Returns
        -------
        int
            Number of rows from a bisection, at which the simulated power reaches ``power``. The search starts at the
            rate of the test, which is at most a third of the required number.

        Raises
        ------
        InvalidParameter
            If a billion rows do not suffice, or if early stages reject too many null datasets for the level. Also if
            the search would take longer than ``max_seconds``; this is raised at once if the rate of the test shows it.
        """
        power = check_real("power", power, above=0, below=1)
        distance = check_real("distance", distance, above=0, at_most=LARGEST_DISTANCE)
        size = check_simulations(n_simulations, at_least=1)
        first = self.plan(_FIRST_N, n_features)
        shift = distance * unit_vector(direction, first.n_features)
        named = "required samples" if check_flag("progress", self.progress) else None
        with Workload(max_seconds, self._cheaper(), named) as work:

            def enough(n: int) -> bool:
                return self._power(self.plan(n, n_features), shift, size, work) >= power

            # Start at the largest 32 * 2^k up to the rate, and double.
            rows = self._rate(max(distance, _SMALLEST_DISTANCE), first.n_features)
            rows = min(max(rows, _FIRST_N), LARGEST_N)
            high = int(_FIRST_N * 2 ** math.floor(math.log2(rows / _FIRST_N)))
            reached = enough(high)
            # The rate is not a bound. Go down again if it exceeds the required number.
            while reached and high > _FIRST_N and enough(high // 2):
                high //= 2
            while not reached:
                if high > LARGEST_N // 2:
                    raise refuse(
                        "distance", given=distance, allowed=f"larger: it has less than power {power:g} at any n"
                    )
                high *= 2
                reached = enough(high)
            low = high // 2 if high > _FIRST_N else self._min_samples
            while high - low > max(1, high // 50):
                middle = (low + high) // 2
                low, high = (low, middle) if enough(middle) else (middle, high)
            return high


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
