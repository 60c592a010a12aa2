"""What all identity tests share: the public design, calibration before the charge, p-values, power.

A test adds its statistic (`_exact`, private), the draw of that statistic on simulated data (`_simulate`,
public) and the numbers of its design. When to charge is `dpstats.release.estimator`'s.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

import dpstats
from dpstats.data.labels import column_names
from dpstats.data.parameters import (
    check_choice,
    check_flag,
    check_integer,
    check_jobs,
    check_level,
    check_privacy_parameters,
    check_real,
)
from dpstats.data.tables import check_rows, public_shape
from dpstats.errors import InvalidParameter
from dpstats.identity.null import (
    PUBLIC_SEED,
    calibration_size,
    critical_value,
    null_statistics,
    pvalue,
    realised_level,
    simulate_blocks,
)
from dpstats.identity.result import TestResult
from dpstats.identity.whitening import Reference
from dpstats.privacy.budget import check_budget
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan, Stage
from dpstats.release.estimator import PrivateEstimator, Released, Statistic
from dpstats.release.noise import SimulatedNoise, noise_source
from dpstats.results import ConfidenceInterval, Summary

_LARGEST_N = 10**9
_LARGEST_DISTANCE = 1e6
_SMALLEST_DISTANCE = 1e-9  # of a crossing that is looked for
_FEW_DATASETS = 100
_SMALLEST_EPSILON = 1e-16  # below, noise for a sensitivity of one step cannot be drawn


@dataclass(frozen=True)
class IdentityPlan(ReleasePlan):
    """The plan of an identity test, with the public numbers that its statistic goes by.

    ``design`` holds the test's own constants, ``n_calibration`` is B (0 with printed constants).
    """

    reference: Reference = field(repr=False, compare=False)
    design: Any
    level: float
    missing: str
    n_calibration: int
    threshold: float = math.nan
    """Of the printed constants; NaN where it is calibrated."""

    def facts(self) -> dict[str, Any]:
        """Return what a reader of the plan has to know beside its stages, by name."""
        return {"n_calibration": self.n_calibration}

    def notes(self) -> list[str]:
        """Return the same in words, one line each."""
        return [f"calibration: {self.n_calibration:,} simulated null datasets, public"]

    @property
    def law(self) -> str:
        """Everything that the law of the released statistic under the null depends on."""
        noise = [(stage.scale_steps, stage.spacing) for stage in self.stages]
        return f"{dpstats.__version__} {self.n_samples} {self.n_features} {noise} {self.design} {self.reference.law}"


class PrivateTest(PrivateEstimator[IdentityPlan], ABC):
    """Base of the identity tests: is the mean of the rows the public one?

    Subclasses have the parameters ``mean``, ``cov``, ``null``, ``epsilon``, ``level``, ``calibration``,
    ``n_calibration``, ``missing``, ``cache_dir``, ``n_jobs``, ``progress``, ``random_state`` and ``budget``.

    Attributes
    ----------
    statistic_, threshold_, pvalue_ : float
    reject_ : bool
    result_ : TestResult
    privacy_ : PrivacyGuarantee
    plan_ : IdentityPlan
    """

    mean: Any
    cov: Any
    null: str
    level: float
    calibration: str
    n_calibration: int | None
    missing: str
    cache_dir: Any
    n_jobs: int | None
    progress: bool
    delta: float = 0.0
    _null: NDArray[np.float64]

    _per_column = ("mean", "cov")
    _plan_class: type[IdentityPlan] = IdentityPlan
    _calibrations: tuple[str, ...] = ("monte_carlo",)
    _title: str
    _remedy: str = "level must be larger"
    """What to change where early stages reject too many null data."""

    # What a test adds.

    @abstractmethod
    def _design(self, n: int, d: int, reference: Reference) -> Any:
        """Return the test's public constants, checked; they must not depend on ``mean`` and ``cov``."""

    @abstractmethod
    def _stages(self, design: Any, n: int, d: int) -> tuple[Stage, ...]:
        """Return the stages of the release."""

    @abstractmethod
    def _exact(self, X: NDArray[Any], plan: IdentityPlan) -> Statistic:
        """Return the exact statistic of every stage, or refuse the data. Private."""

    def _draw(
        self, plan: IdentityPlan, size: int, generator: np.random.Generator, shift: Any
    ) -> NDArray[Any]:
        """Return the exact statistics, (size, stages), of simulated data with whitened mean ``shift``."""
        raise TypeError(f"{type(self).__name__} does not define _draw")

    @abstractmethod
    def _seconds(self, n: int, d: int, design: Any) -> float:
        """Return roughly what one simulated dataset costs."""

    def _on_signs(self, design: Any) -> bool:
        """Return whether the statistic reads the signs of the rows: there is none for a row at the centre."""
        return False

    def _combine(self, released: Released, plan: IdentityPlan) -> NDArray[np.float64]:
        """Return the test statistic from what was released, for one release or many. Public."""
        return released[plan.stages[-1].name][..., 0]

    def _printed_threshold(self, design: Any, n: int, d: int) -> float:
        """Return the threshold of the printed constants."""
        return math.nan

    # What all share.

    def plan(self, n_samples: int, n_features: int) -> IdentityPlan:
        """Return what a fit on data of this size would release, and at which cost; sees no data.

        Parameters
        ----------
        n_samples, n_features : int
            Public; at least 2 rows and 1 column.

        Returns
        -------
        IdentityPlan
        """
        n = check_integer("n_samples", n_samples, at_least=self._min_samples, at_most=_LARGEST_N)
        d = check_integer("n_features", n_features, at_least=1)
        epsilon, delta = check_privacy_parameters(self.epsilon, self.delta)
        check_real("epsilon", epsilon, at_least=_SMALLEST_EPSILON)
        level = check_level("level", self.level)
        check_jobs(self.n_jobs)
        check_flag("progress", self.progress)
        missing = check_choice("missing", self.missing, ["error", "center"])
        printed = self._uses_printed_constants()
        reference = Reference.build(self.mean, self.cov, self.null, d)
        design = self._design(n, d, reference)
        if missing == "center" and self._on_signs(design):
            raise InvalidParameter(
                "missing must be 'error' for a test on signs, got 'center': 0 counts as positive, so that a missing "
                "row would count as (1, ..., 1) and not as the mean of the null hypothesis"
            )
        return self._plan_class(
            self._stages(design, n, d),
            PrivacyGuarantee(epsilon, delta),
            n,
            d,
            reference=reference,
            design=design,
            level=level,
            missing=missing,
            n_calibration=0
            if printed
            else calibration_size(level, self.n_calibration, self._seconds(n, d, design)),
            threshold=self._printed_threshold(design, n, d) if printed else math.nan,
        )

    def _uses_printed_constants(self) -> bool:
        if check_choice("calibration", self.calibration, ["monte_carlo", "textbook"]) == "monte_carlo":
            return False
        if "textbook" not in self._calibrations:
            raise InvalidParameter(
                f"calibration must be 'monte_carlo' for {type(self).__name__}, got 'textbook': no constants of this "
                "test were ever printed; LipschitzExtensionTest and FilteringTest have them"
            )
        return True

    def _statistic(self, X: NDArray[Any], plan: IdentityPlan) -> Statistic:
        # Public and possibly slow: before the charge, so that breaking it off costs nothing.
        self._null = self._null_statistics(plan)
        return self._exact(X, plan)

    def fit(self, X: Any, y: Any = None) -> Self:
        # The null distribution is handed from `_statistic` to `_report`: nothing is left to fail after the charge.
        try:
            return super().fit(X, y)
        finally:
            self.__dict__.pop("_null", None)

    fit.__doc__ = PrivateEstimator.fit.__doc__

    def _simulate(
        self, plan: IdentityPlan, size: int, generator: np.random.Generator, shift: Any = 0.0
    ) -> NDArray[np.float64]:
        """Return ``size`` released test statistics, noise included, of simulated datasets."""
        steps = self._draw(plan, size, generator, shift)
        noise = SimulatedNoise(generator)
        released = {
            stage.name: (steps[:, [t]] + noise.laplace(stage.scale_steps, (size, 1))).astype(np.float64)
            * stage.spacing
            for t, stage in enumerate(plan.stages)
        }
        return self._combine(released, plan)

    def _null_statistics(self, plan: IdentityPlan) -> NDArray[np.float64]:
        """Return the sorted null statistics of a plan, simulated or from the cache; none if none are needed.

        Refused where the early stages reject so often that no last stage can have the level: the critical value
        would be infinite, and an early rejection would not be one.
        """
        if plan.n_calibration == 0:
            return np.empty(0)
        null = null_statistics(
            f"{type(self).__name__} {plan.law}",
            plan.n_calibration,
            lambda size, generator: self._simulate(plan, size, generator),
            cache_dir=self.cache_dir,
            n_jobs=self.n_jobs,
            progress=self.progress,
            infinite=len(plan.stages) > 1,
        )
        if math.isinf(critical_value(null, plan.level)):
            raise InvalidParameter(
                f"{self._remedy}: the early stages reject a share of {np.mean(np.isinf(null)):.3g} of simulated null "
                f"data, which leaves the last one nothing of level = {plan.level:g}"
            )
        return null

    @staticmethod
    def _threshold(plan: IdentityPlan, null: NDArray[np.float64]) -> float:
        return critical_value(null, plan.level) if null.size else plan.threshold

    def _report(self, released: Released, plan: IdentityPlan) -> None:
        null = self._null
        self.statistic_ = float(self._combine(released, plan))
        self.threshold_ = self._threshold(plan, null)
        self.pvalue_ = pvalue(null, self.statistic_) if null.size else math.nan
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
            realised_level(null.size, plan.level) if null.size else (math.nan, math.nan),
        )
        self.reject_ = self.result_.reject

    def predict(self, X: Any) -> int:
        """Run the calibrated test on another dataset: a release of its own, charged again.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Private rows, with the columns of the fit. One dataset, and one answer for it.

        Returns
        -------
        int
            1 to reject, 0 not to.
        """
        check_is_fitted(self)
        budget = check_budget(self.budget, simulated=noise_source(self.random_state).simulated)
        # An array has the columns of the fit in their order, and so has a labelled mean.
        fitted = getattr(self, "feature_names_in_", None)
        planner = self._in_order(column_names(X) if fitted is None else list(fitted))
        stated = public_shape(X)
        if budget is not None and stated is not None:
            # As in a fit, an empty purse is told before the data are touched.
            budget.check(planner.plan(max(stated[0], self._min_samples), self.n_features_in_))
        check_rows(self, X, reset=False, min_samples=self._min_samples)
        # A copy shares the budget and the generator; the attributes of this fit stay as they are.
        return int(copy.copy(planner).fit(X).reject_)

    def fit_predict(self, X: Any, y: Any = None) -> int:
        """Run the test once and return 1 to reject, 0 not to."""
        return int(self.fit(X).reject_)

    def summary(self) -> Summary:
        """Return a table of the result; prints as text, shows as HTML in a notebook."""
        check_is_fitted(self)
        return self.result_.summary()

    def power(
        self,
        distance: float,
        n_samples: int,
        n_features: int,
        *,
        direction: Any = "dense",
        n_simulations: int = 1000,
    ) -> float:
        """Return the probability to reject, from public simulation; costs no privacy.

        Parameters
        ----------
        distance : float
            Mahalanobis distance of the rows' mean from the one of the null hypothesis, at most 1e6.
        n_samples, n_features : int
        direction : {"dense", "sparse"} or array of shape (n_features,), default="dense"
            Where the whitened mean points: all coordinates equal, the first alone, or anything.
        n_simulations : int, default=1000
            Datasets; the standard error is at most 0.5/sqrt(n_simulations).

        Returns
        -------
        float
        """
        plan = self.plan(n_samples, n_features)
        distance = check_real("distance", distance, at_least=0, at_most=_LARGEST_DISTANCE)
        shift = distance * unit_vector(direction, plan.n_features)
        values = self._alternative(plan, shift, check_integer("n_simulations", n_simulations, at_least=1))
        return float(np.mean(values > self._threshold(plan, self._null_statistics(plan))))

    def _alternative(self, plan: IdentityPlan, shift: Any, size: int) -> NDArray[np.float64]:
        # Its own stream, and the same one for every shift: power curves are smooth and reproducible.
        seed = np.random.default_rng([PUBLIC_SEED, 1, plan.n_samples, plan.n_features])
        return simulate_blocks(
            size,
            lambda count, generator: self._simulate(plan, count, generator, shift),
            seed,
            self.n_jobs,
        )

    def required_samples(
        self,
        distance: float,
        n_features: int,
        power: float = 0.8,
        *,
        direction: Any = "dense",
        n_simulations: int = 1000,
    ) -> int:
        """Return a number of rows at which the test has this power, to within 2%.

        Parameters
        ----------
        distance, n_features, direction, n_simulations
            As for `power`.
        power : float, default=0.8

        Returns
        -------
        int
            The end of a bisection at which the simulated power reaches ``power``.

        Raises
        ------
        InvalidParameter
            If a billion rows do not suffice, or early stages reject too many null data for the level.
        """
        power = check_real("power", power, above=0, below=1)
        distance = check_real("distance", distance, above=0, at_most=_LARGEST_DISTANCE)

        def enough(n: int) -> bool:
            reached = self.power(distance, n, n_features, direction=direction, n_simulations=n_simulations)
            return reached >= power

        low, high = self._min_samples, 32
        while not enough(high):
            if high > _LARGEST_N // 2:
                raise InvalidParameter(f"distance = {distance:g} is too small for power {power:g} at any n")
            low, high = high, 2 * high
        while high - low > max(1, high // 50):
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high

    def distance_interval(
        self, confidence_level: float = 0.95, *, direction: Any = "dense", n_simulations: int = 1000
    ) -> ConfidenceInterval:
        """Return an interval for the distance of the mean from the null's, by inverting the test.

        Post-processing of the released statistic and public simulation: costs no privacy.

        Parameters
        ----------
        confidence_level : float, default=0.95
        direction, n_simulations
            As for `power`: the law of the statistic depends on where the mean lies as well (for the
            spatial-sign test, on the distance alone).

        Returns
        -------
        ConfidenceInterval
            Distances at which the statistic is neither too large nor too small, each tail having half of
            1 - ``confidence_level``; infinite above where an earlier stage rejected, or where the noise hides how far
            the mean is. Ends are rounded outwards, by half a percent at most. Where the statistic is beyond what any
            distance makes likely (by the noise, with probability at most 1 - ``confidence_level``) no distance is
            in the confidence set: the interval is then the whole range, and its ``estimand`` says so.
        """
        from tqdm import tqdm

        check_is_fitted(self)
        level = check_real("confidence_level", confidence_level, above=0, below=1)
        size = check_integer("n_simulations", n_simulations, at_least=1)
        plan, tail = self.plan_, (1 - level) / 2
        unit = unit_vector(direction, plan.n_features)
        farthest = self._farthest(plan, unit)
        named = f"direction {direction!r}" if isinstance(direction, str) else "in the direction given"
        estimand = f"the Mahalanobis distance of the rows' mean from the public one, {named}"
        with tqdm(
            desc="distance interval", unit=" datasets", disable=not check_flag("progress", self.progress)
        ) as bar:

            @cache
            def larger(distance: float, datasets: int) -> float:
                values = self._alternative(plan, distance * unit, datasets)
                bar.update(datasets)
                # Halved ties keep both tails.
                return float(np.mean(values > self.statistic_) + np.mean(values == self.statistic_) / 2)

            limit = min(farthest, _LARGEST_DISTANCE)
            low = _crossing(larger, tail, limit, size)[0]
            # Nothing is above a rejection by an earlier stage: no distance is too far.
            high = math.inf if math.isinf(self.statistic_) else _crossing(larger, 1 - tail, limit, size)[1]
        if math.isinf(low) or high == 0:
            side = "larger" if high > 0 else "smaller"
            estimand += (
                f"; no distance is in the confidence set, as the released statistic is {side} than any makes likely: "
                "the whole range"
            )
            low, high = 0.0, math.inf
        return ConfidenceInterval(low, min(high, farthest), level, estimand)

    def _farthest(self, plan: IdentityPlan, unit: NDArray[np.float64]) -> float:
        """Return the largest distance that rows can have in a direction."""
        reference = plan.reference
        if reference.signs_mean is None or reference.whitener is None:
            return math.inf
        moving = unit != 0
        room = (1 - np.sign(unit) * reference.signs_mean) * reference.whitener
        return float(np.min(room[moving] / np.abs(unit[moving])))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "center"
        return tags


def unit_vector(direction: Any, n_features: int) -> NDArray[np.float64]:
    """Return the unit vector that a direction stands for."""
    if isinstance(direction, str):
        if check_choice("direction", direction, ["dense", "sparse"]) == "dense":
            return np.full(n_features, 1 / math.sqrt(n_features))
        return np.eye(1, n_features)[0]
    try:
        vector = np.asarray(direction)
    except ValueError:
        vector = np.array(None)
    numbers = vector.shape == (n_features,) and vector.dtype.kind in "iuf"
    vector = vector.astype(np.float64) if numbers else np.zeros(1)
    if not np.isfinite(vector).all() or not vector.any():
        raise InvalidParameter(
            f"direction must be 'dense', 'sparse' or {n_features} finite numbers that are not all zero"
        )
    vector = vector / np.abs(vector).max()
    result: NDArray[np.float64] = vector / np.linalg.norm(vector)
    return result


def _crossing(
    curve: Callable[[float, int], float], target: float, farthest: float, size: int
) -> tuple[float, float]:
    """Return distances around where a rising curve reaches ``target``: (0, 0) if at once, (inf, inf) if never.

    ``curve(distance, datasets)`` is a simulation that remembers. A tenth of the datasets says where to look: only the
    neighbourhood of the crossing is worth all of them.
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
            root = float(brentq(excess, low, high, xtol=tolerance * high))
            # The root is within the tolerance: what is returned lies on either side of the crossing.
            low, high = max(root - tolerance * high, 0.0), min(root + tolerance * high, farthest)
        elif datasets == size:
            return math.inf, math.inf
    return low, high
