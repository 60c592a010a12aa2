"""Intervals for the distance between the mean and the null mean, by inverting the test with public simulation."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from scipy.optimize import brentq
from sklearn.utils.validation import check_is_fitted

from dpstats.data.parameters import check_flag, check_integer, check_real
from dpstats.identity.alternatives import LARGEST_DISTANCE, farthest_distance, unit_vector
from dpstats.identity.calibrated import CalibratedTest
from dpstats.identity.result import TestResult
from dpstats.results import ConfidenceInterval, with_missing

_FEW_DATASETS = 100
_SMALLEST_DISTANCE = 1e-9  # smallest distance of a crossing in the search


class InvertedTest(CalibratedTest):
    """A fitted test that can be inverted to an interval of distances."""

    statistic_: float
    result_: TestResult

    def distance_interval(
        self, confidence_level: float = 0.95, *, direction: Any = "dense", n_simulations: int = 1000
    ) -> ConfidenceInterval:
        """Return an interval for the distance between the mean and the null mean, by inverting the test.

        It uses the released statistic and public simulation, without additional privacy cost. ``n_simulations`` bounds
        the work: each limit requires about 12 times this number of datasets, of the size of the fit.

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
        from tqdm import tqdm

        check_is_fitted(self)
        level = check_real("confidence_level", confidence_level, above=0, below=1)
        size = check_integer("n_simulations", n_simulations, at_least=1)
        plan, tail = self.plan_, (1 - level) / 2
        unit = unit_vector(direction, plan.n_features)
        farthest = farthest_distance(plan.reference, unit)
        named = f"direction {direction!r}" if isinstance(direction, str) else "in the direction given"
        estimand = f"the Mahalanobis distance of the rows' mean from the public one, {named}"
        with tqdm(
            desc="distance interval", unit=" datasets", disable=not check_flag("progress", self.progress)
        ) as bar:

            @cache
            def larger(distance: float, datasets: int) -> float:
                values = self._alternative(plan, distance * unit, datasets)
                bar.update(datasets)
                # Count ties half on either side, so that both tails are treated equally.
                return float(np.mean(values > self.statistic_) + np.mean(values == self.statistic_) / 2)

            limit = min(farthest, LARGEST_DISTANCE)
            low = crossing(larger, tail, limit, size)[0]
            # No statistic exceeds a rejection by an earlier stage, so there is no upper limit.
            high = math.inf if math.isinf(self.statistic_) else crossing(larger, 1 - tail, limit, size)[1]
        if math.isinf(low) or high == 0:
            side = "larger" if high > 0 else "smaller"
            estimand += (
                f"; no distance is in the confidence set, as the released statistic is {side} than any makes likely: "
                "the whole range"
            )
            low, high = 0.0, math.inf
        return ConfidenceInterval(
            low, min(high, farthest), level, with_missing(estimand, self.result_.missing)
        )


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
