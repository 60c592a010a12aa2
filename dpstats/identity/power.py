"""Power of a test at a public size, and the size for a given power, from public simulation."""

from __future__ import annotations

import math
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_choice, check_flag, check_real, check_simulations
from dpstats.errors import InvalidParameter, refuse
from dpstats.identity.calibration import LARGEST_N, PUBLIC_SEED, CalibratedTest, IdentityPlan
from dpstats.identity.whitening import Reference

# Alternatives: the direction of the mean, and its largest possible distance

LARGEST_DISTANCE = 1e6


def unit_vector(direction: Any, n_features: int) -> NDArray[np.float64]:
    """Return the unit vector of a direction."""
    if isinstance(direction, str):
        if check_choice("direction", direction, ["dense", "sparse"]) == "dense":
            return np.full(n_features, 1 / math.sqrt(n_features))
        return np.asarray(np.eye(1, n_features)[0])
    try:
        vector = np.asarray(direction)
    except ValueError:
        vector = np.array(None)
    numbers = vector.shape == (n_features,) and vector.dtype.kind in "iuf"
    vector = vector.astype(np.float64) if numbers else np.zeros(1)
    if not np.isfinite(vector).all() or not vector.any():
        raise refuse(
            "direction",
            given=direction,
            allowed=f"'dense', 'sparse' or {n_features} finite numbers that are not all zero",
        )
    vector = vector / np.abs(vector).max()
    result: NDArray[np.float64] = vector / np.linalg.norm(vector)
    return result


def farthest_distance(reference: Reference, unit: NDArray[np.float64]) -> float:
    """Return the largest distance that rows can have from the null in the direction of a unit vector."""
    if reference.signs_mean is None or reference.whitener is None:
        return math.inf
    moving = unit != 0
    room = (1 - np.sign(unit) * reference.signs_mean) * reference.whitener
    return float(np.min(room[moving] / np.abs(unit[moving])))


def norm_rate(distance: float, d: int, epsilon: float) -> float:
    """Return the order of the number of rows at which a released norm of the sum detects a distance.

    The rate of the tests that release one number of sensitivity sqrt(d): validation/rates/identity_tests.py.
    """
    a, e = distance, epsilon
    return float(math.sqrt(d) / a**2 + (d / (a**2 * e)) ** (2 / 3) + math.sqrt(d) / (a * e))


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
_SMALLEST_DISTANCE = 1e-9  # no plan has enough rows for a smaller distance


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
