"""Means that go on: the mean of all rows after every step of a stream, from one charge for all steps.

Proof: docs/proofs/continual-counts.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_choice
from dpstats.data.values import as_int64, is_masked, quiet
from dpstats.errors import attempt, refuse_data
from dpstats.inference.error_distributions import Limits, ScoreErrors, Tail, normal_quantile
from dpstats.inference.estimates import Estimates, find_hidden
from dpstats.lattice import isqrt_up
from dpstats.lattice.base import check_region
from dpstats.means.moments import check_bounds
from dpstats.mechanisms.continual_counts import ContinualStream, name_steps
from dpstats.mechanisms.count_path import StreamPath, WholePath, factor_steps, path_weights, sum_windows
from dpstats.privacy.budget import PrivacyBudget
from dpstats.privacy.guarantee import Neighbors

Floats = NDArray[np.float64]

_FACTOR_BITS, _VALUE_BITS = 20, 12
_ROUNDING = 2.0 ** -(_VALUE_BITS + 1)
"""Half a step of values, in half-widths of the bounds."""
_QUARTER, _TURNS = np.pi / 4, np.array([-np.pi, 0.0, np.pi])


class StepMean(NamedTuple):
    """The estimated mean after a step, the standard deviation of its noise, and the number of rows so far.

    The mean is NaN if noise hides it: every value within the bounds is possible.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.means import ContinualMeans
    >>> step = ContinualMeans(bounds=(0, 10), horizon=7, random_state=0).update(np.full(400, 6.0))
    >>> round(step.mean, 1), round(step.noise_std, 2), round(step.rows)
    (6.0, 0.1, 401)
    """

    mean: float
    noise_std: float
    rows: float
    rows_noise_std: float


class ContinualMeans(ContinualStream):
    """Release the mean of all rows after every step of a stream, such as every day, from one charge.

    Sums and counts are one joint stream with correlated noise, so the noise of both grows with the logarithm of the
    number of steps. Means of windows, such as the last seven days, follow. Use `ClippedMean` for a mean that is
    released once, and `dpstats.mechanisms.ContinualCounts` for counts alone.

    Parameters
    ----------
    bounds : (low, high)
        Public bounds of the values. Values beyond them are clipped.
    horizon : int, default=512
        Public largest number of steps, at most 65,536. The charge is for all of them.
    missing : {"error", "drop"}, default="error"
        Treatment of NaN and infinite values. "error" raises `InvalidData`. "drop" leaves out the row.
    epsilon : float, default=1.0
        Privacy parameter of the whole stream. Must be positive.
    delta : float, default=1e-6
        Privacy parameter of the whole stream, in (0, 1): the noise is Gaussian.
    state : str or path, optional
        File that keeps the stream, as for `dpstats.mechanisms.ContinualCounts`. It holds sums and counts before noise,
        so keep it as you keep the data. Only the same budget notices a copy or an older file. Default: memory.
    neighbors : {"add_or_remove", "replace_one"} or Neighbors, default="add_or_remove"
        Neighboring streams: a row is added or removed, or is replaced by one of any step and value, or of none.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Charged once, for the whole stream, at the first step and before noise is drawn.

    Attributes
    ----------
    plan : Plan
        Noise and cost of the whole stream.
    noise_scale : float
        Standard deviation of the noise of a released number, in rows. A count is in rows, and a sum in half-widths of
        the bounds about their middle.
    n_steps : int
        Number of steps so far.
    guarantee : PrivacyGuarantee
        Guarantee of the whole stream.

    Notes
    -----
    **Method.** As for `dpstats.mechanisms.ContinualCounts`, with two integers of each row: 1, and its value in steps of
    1/8,192 of the width of the bounds. Intervals use Fieller's method (1954) and include the noise alone.

    **Estimand.** The mean of the clipped rows in these data, not of a population.

    **Limits.** The guarantee is for one row, at one step. The number of steps is fixed in advance. A mean needs enough
    rows: where noise hides it, it is NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.means import ContinualMeans
    >>> rng = np.random.default_rng(0)
    >>> waiting = ContinualMeans(bounds=(0, 120), horizon=365, random_state=0)
    >>> for day in range(30):
    ...     step = waiting.update(rng.exponential(25, size=80))
    >>> round(step.mean, 1), round(step.rows)
    (25.3, 2388)
    >>> week = waiting.path().estimates(window=7).confidence_interval()
    >>> print(f"{week.low[-1]:.1f} to {week.high[-1]:.1f}")
    20.2 to 28.3
    """

    _bits, _value_bits, _most_rows = _FACTOR_BITS, _VALUE_BITS, 2**29
    _stage, _given_name = "counts and sums", "values"

    def __init__(
        self,
        bounds: Any,
        horizon: int = 512,
        *,
        missing: str = "error",
        epsilon: float = 1.0,
        delta: float = 1e-6,
        state: Any = None,
        neighbors: Any = "add_or_remove",
        random_state: Any = None,
        budget: PrivacyBudget | None = None,
    ) -> None:
        low, high = (float(np.ravel(end)[0]) for end in check_bounds("bounds", bounds, 1))
        check_region(
            high / 2 - low / 2, low / 2 + high / 2, "bounds must have a half-width", "bounds must have a middle"
        )
        self._bounds = low, high
        self._missing = check_choice("missing", missing, ["error", "drop"])
        super().__init__(horizon, epsilon, delta, state, neighbors, random_state, budget)

    @property
    def bounds(self) -> tuple[float, float]:
        """The public bounds."""
        return self._bounds

    @property
    def _counters(self) -> int:
        return 2

    def _sensitivity(self) -> int:
        return mean_sensitivity_steps(self._horizon, self._guarantee.neighbors)

    def _count_rows(self, given: Any) -> int:
        return int(given[0])

    def update(self, values: Any, key: str | None = None) -> StepMean:
        """Add the rows of the next step, and return the mean up to it.

        Parameters
        ----------
        values : array-like of shape (n,)
            Private values of the rows of this step. There may be none.
        key : str, optional
            Public name of the step, such as its date. A step with a known key is not counted again: its answer is
            returned as it was.

        Returns
        -------
        StepMean
            The mean, the standard deviation of its noise, and the number of rows.

        Raises
        ------
        Exhausted
            If all steps of the horizon were released.
        InvalidData
            If the values are not numbers, or one is missing. Nothing is charged or drawn.
        BudgetExceeded
            If the budget cannot pay for the stream.
        LedgerError
            If the state cannot be written. No answer is given then, and the step can be repeated.
        """
        answer: StepMean = self._answer([self._sum_values(values)], [key])[0]
        return answer

    def update_many(self, values: Any, keys: Sequence[str] | None = None) -> list[StepMean]:
        """Add several steps in order, stored together: faster than `update` for each.

        Parameters
        ----------
        values : sequence of array-likes
            The values of each step.
        keys : sequence of str, optional
            A name for each step.
        """
        steps, named = name_steps("values", values, keys)
        return self._answer([self._sum_values(step) for step in steps], named)

    def path(self) -> MeanPath:
        """Return the means after all steps so far, with the joint distribution of their errors."""
        keys, totals = self._read_path()
        return MeanPath(keys, self.noise_scale, self._horizon, self._guarantee, totals, self._bounds)

    def _sum_values(self, values: Any) -> NDArray[np.int64]:
        """Return the number of rows and the sum of their values in steps, or refuse them."""
        masked = is_masked(values)
        given = None if masked else attempt(lambda: np.asarray(values), Exception)
        if given is None or given.dtype.kind not in "biuf" or given.ndim != 1:
            raise refuse_data(
                "values",
                allowed="an array of numbers in one dimension, one for each row",
                remedy="Make masked entries NaN, and set missing='drop'." if masked else "",
            )
        with quiet():
            x = given.astype(np.float64)
        known = np.isfinite(x)
        if self._missing == "error" and not known.all():
            raise refuse_data(
                "values",
                got="at least one NaN or infinite value",
                allowed="finite",
                remedy="Set missing='drop' to leave out the row.",
            )
        low, high = self._bounds
        # Each value is clipped and rounded alone, so that a row moves the sum by at most 2^12.
        with quiet():
            share = np.clip((x[known] - (low / 2 + high / 2)) / (high / 2 - low / 2), -1.0, 1.0)
        steps = as_int64(np.rint(share * 2.0**_VALUE_BITS))
        return np.array([steps.size, steps.sum()], dtype=np.int64)

    def _exact(self, first: int, last: int) -> NDArray[np.int64]:
        # The row's 1 has the length of its largest value.
        exact = super()._exact(first, last)
        exact[:, 0] <<= _VALUE_BITS
        return exact

    def _estimate(self, places: Sequence[int]) -> list[StepMean]:
        totals, deviations = self._totals[list(places)], self._deviations[list(places)]
        errors = ContinualMeanErrors(totals, deviations, self._bounds)
        means = np.where(find_hidden(errors), np.nan, errors.start)
        found = zip(means, errors.standard_error, totals[:, 0], deviations, strict=True)
        return [StepMean(*map(float, numbers)) for numbers in found]


def mean_sensitivity_steps(horizon: int, neighbors: Neighbors) -> int:
    """Return the largest l2 distance of the integers of a stream of means between neighbors, rounded up.

    Examples
    --------
    >>> from dpstats.means.continual import mean_sensitivity_steps
    >>> from dpstats.privacy import Neighbors
    >>> mean_sensitivity_steps(1, Neighbors.ADD_OR_REMOVE_ONE) == round(2**32 * 2**0.5 + 0.5)
    True
    """
    column = sum(entry * entry for entry in factor_steps(horizon, _FACTOR_BITS).tolist())
    added = 2 * column << 2 * _VALUE_BITS
    # Two values at opposite bounds are orthogonal, as two rows of different categories are.
    return isqrt_up(added if neighbors is Neighbors.ADD_OR_REMOVE_ONE else 2 * added)


@dataclass(frozen=True, eq=False)
class ContinualMeanErrors(ScoreErrors):
    """Errors of ratios of noisy sums and counts, with equal and independent noise, by Fieller's method.

    Attributes
    ----------
    totals : array of shape (n, 2)
        The count, and the sum in half-widths of the bounds about their middle.
    deviations : array of shape (n,)
        Standard deviation of the noise of both.
    bounds : (float, float)
    """

    totals: Floats
    deviations: Floats
    bounds: tuple[float, float]

    @cached_property
    def start(self) -> Floats:
        # A count below its noise is raised to the noise, which draws the mean towards the middle.
        count, total = self.totals.T
        return self._in_units(_clip(-1.0, total / np.maximum(count, self.deviations), 1.0))

    @property
    def standard_error(self) -> Floats:
        """Half the width of the intervals of one standard deviation."""
        low, high = self.limits(0.15865525393145707)
        return np.asarray((high - low) / 2)

    @property
    def box(self) -> Limits:
        return np.full(len(self.totals), self.bounds[0]), np.full(len(self.totals), self.bounds[1])

    def score(self, value: Floats) -> Floats:
        low, high = self.bounds
        share = (value - (low / 2 + high / 2)) / (high / 2 - low / 2)
        # Rows were rounded to steps, so the mean may be half a step away.
        estimate = (self.start - (low / 2 + high / 2)) / (high / 2 - low / 2)
        m = _clip(-1.0, _clip(share - _ROUNDING, estimate, share + _ROUNDING), 1.0)
        count, total = self._possible
        return np.asarray((total - m * count) / (self.deviations * np.sqrt(1 + m**2)))

    def limits(self, tail: Tail) -> Limits:
        # T - m N is proportional to the distance of the point (N, T) from the line at the angle arctan(m). Lines nearer
        # than z deviations have angles around the angle of the point.
        distance, angle = self._polar
        half = np.arcsin(np.minimum(normal_quantile(tail) * self.deviations / distance, 1.0))
        # A line at an angle is also one at the angle less pi. The hull of both, within 45 degrees, is an interval.
        low, high = (np.add.outer(_TURNS, end) for end in (angle - half, angle + half))
        beyond = (high < -_QUARTER) | (low > _QUARTER)
        least = np.where(beyond, _QUARTER, np.maximum(low, -_QUARTER)).min(axis=0)
        most = np.where(beyond, -_QUARTER, np.minimum(high, _QUARTER)).max(axis=0)
        # The estimate is inside, even if a count that is mostly noise moves the accepted values elsewhere.
        start, width = self.start, _ROUNDING * (self.bounds[1] - self.bounds[0]) / 2
        least = np.minimum(self._in_units(np.tan(least)) - width, start)
        most = np.maximum(self._in_units(np.tan(most)) + width, start)
        return np.maximum(least, self.bounds[0]), np.minimum(most, self.bounds[1])

    @cached_property
    def _polar(self) -> Limits:
        """Lengths and angles of the points of counts and sums."""
        count, total = self._possible
        return np.maximum(np.hypot(count, total), 1e-300), np.arctan2(total, count)

    @cached_property
    def _possible(self) -> Limits:
        """Counts and sums. A sum outside the range that its count allows is moved to the nearest allowed value."""
        count, total = self.totals.T
        return count, _clip(-np.abs(count), total, np.abs(count))

    def _in_units(self, share: Floats) -> Floats:
        low, high = self.bounds
        return _clip(low, low / 2 + high / 2 + (high / 2 - low / 2) * share, high)


def _clip(low: Any, value: Floats, high: Any) -> Floats:
    """Return the nearest values between limits: `numpy.clip`, at a third of its time for few numbers."""
    return np.asarray(np.minimum(np.maximum(value, low), high))


@dataclass(frozen=True, slots=True, eq=False)
class MeanPath(StreamPath):
    """The means after all steps so far, with the joint distribution of their errors.

    Attributes
    ----------
    keys : tuple
        The keys of the steps; their numbers, from 1, where none were given.
    noise_scale : float
        Standard deviation of the noise of one released number.
    horizon : int
    guarantee : PrivacyGuarantee
    totals : ndarray of shape (n_steps, 2)
        The number of rows up to each step, and the sum of their values in half-widths of the bounds about their
        middle. Noise may make a count negative.
    bounds : (float, float)

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.means import ContinualMeans
    >>> ages = ContinualMeans(bounds=(0, 100), horizon=52, random_state=0)
    >>> for week in range(4):
    ...     _ = ages.update(np.full(1000, 40.0 + week))
    >>> path = ages.path()
    >>> path.estimates().estimate.round(1), path.estimates(window=1).estimate.round(1)
    (array([40. , 40.5, 41.1, 41.7]), array([40. , 41.1, 42.1, 43.4]))
    >>> band = path.band(0.95)
    >>> bool(np.all((band.low < [40, 40.5, 41, 41.5]) & ([40, 40.5, 41, 41.5] < band.high)))
    True
    """

    totals: Floats
    bounds: tuple[float, float]

    _quantity, _meaning = "mean", "mean of the rows"

    def estimates(self, window: int | None = None) -> Estimates:
        """Return means of all rows up to each step, or of windows, with the distribution of their errors: the noise.

        Parameters
        ----------
        window : int, optional
            Number of steps of a window: each estimate is then the mean of the rows in the last ``window`` steps, from
            step ``window`` on. Default: all rows since the first step.
        """
        size, (first, totals) = len(self.keys), sum_windows(self.totals, window)
        weights = path_weights(size, window, _FACTOR_BITS)[:size]
        deviations = self.noise_scale * np.sqrt(np.cumsum(weights**2))[first:]
        errors = ContinualMeanErrors(totals, deviations, self.bounds)
        keys, span = list(self.keys[first:]), "up to each step" if window is None else f"in {window} step(s)"
        rows = [f"{count:,.0f}" for count in totals[:, 0]]
        return Estimates(
            errors.start,
            None,
            tuple(map(str, keys)),
            f"the mean of the clipped rows {span}, in these data",
            errors,
            title="Private means of a stream",
            header="mean",
            facts=[*self._facts(), ("Bounds", f"{self.bounds[0]:g} to {self.bounds[1]:g} (public)")],
            rows="step",
            together=WholePath(size, window, 1, numbers=2),
            labels={"step": keys},
            beside={"rows": rows},
            simulated=self.guarantee.simulated,
        )
