"""Power of a test at a public size, and the size at which it has a power: from public simulation."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpstats.data.parameters import check_integer, check_real
from dpstats.errors import InvalidParameter
from dpstats.identity.alternatives import LARGEST_DISTANCE, unit_vector
from dpstats.identity.calibrated import LARGEST_N, CalibratedTest


class PlannedTest(CalibratedTest):
    """A test that is planned before there are data: its power, and how many rows it needs."""

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
        distance = check_real("distance", distance, at_least=0, at_most=LARGEST_DISTANCE)
        shift = distance * unit_vector(direction, plan.n_features)
        size = check_integer("n_simulations", n_simulations, at_least=1)
        values = self._alternative(plan, shift, size)
        return float(np.mean(values > self._prepare(plan).critical_value))

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
        distance = check_real("distance", distance, above=0, at_most=LARGEST_DISTANCE)

        def enough(n: int) -> bool:
            reached = self.power(distance, n, n_features, direction=direction, n_simulations=n_simulations)
            return reached >= power

        low, high = self._min_samples, 32
        while not enough(high):
            if high > LARGEST_N // 2:
                raise InvalidParameter(f"distance = {distance:g} is too small for power {power:g} at any n")
            low, high = high, 2 * high
        while high - low > max(1, high // 50):
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high
