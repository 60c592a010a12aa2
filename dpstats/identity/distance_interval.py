"""Intervals for the distance between the mean and the null mean, by inverting the test with public simulation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from sklearn.utils.validation import check_is_fitted

from dpstats.data.parameters import check_flag, check_integer, check_level, check_simulations
from dpstats.error_distributions import ErrorDistribution, Limits, Tail
from dpstats.identity.alternatives import LARGEST_DISTANCE, farthest_distance, unit_vector
from dpstats.identity.calibrated import CalibratedTest
from dpstats.identity.result import TestResult
from dpstats.inference import Estimates
from dpstats.results import ConfidenceInterval, with_missing

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
        self,
        confidence_level: float = 0.95,
        *,
        direction: Any = "dense",
        n_simulations: int = 1000,
        n_points: int = 20,
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
        found = self.estimate_distance(
            confidence_level, direction=direction, n_simulations=n_simulations, n_points=0
        )
        return found.confidence_interval(confidence_level)

    def _simulate_errors(
        self, unit: NDArray[np.float64], farthest: float, tail: float, size: int, points: int
    ) -> SimulatedDistances:
        """Return the curve of the statistic: close to both limits and the median, and at points between them."""
        from tqdm import tqdm

        limit = min(farthest, LARGEST_DISTANCE)
        with tqdm(
            desc="distance interval", unit=" datasets", disable=not check_flag("progress", self.progress)
        ) as bar:
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


def crossing(
    curve: Callable[[float, int], float], target: float, farthest: float, size: int
) -> tuple[float, float]:
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
            root = float(brentq(excess, low, high, xtol=tolerance * high))
            # The root is accurate to the tolerance, so the returned distances lie on both sides of the crossing.
            low, high = max(root - tolerance * high, 0.0), min(root + tolerance * high, farthest)
        elif datasets == size:
            return math.inf, math.inf
    return low, high
