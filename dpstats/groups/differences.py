"""Differences of groups, and standardized differences: over the standard deviation within both groups."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.error_distributions import ErrorDistribution, Limits, Tail, normal_quantile
from dpstats.errors import refuse
from dpstats.groups.results import Floats
from dpstats.inference import Estimates
from dpstats.means.contrasts import DifferenceErrors, apart
from dpstats.means.ratio import Ratio

KURTOSIS = 9.0
"""Largest kurtosis of the rows of a group that intervals assume: the kurtosis of an exponential distribution."""
_ASSUMED = (
    f"Intervals assume that the kurtosis of the rows of a group is at most {KURTOSIS:g}, as of an exponential "
    "distribution. Bounds close to the rows make this unnecessary."
)
_ANGLES = 9
_HALVINGS = 40


# The limits are the smallest and the largest ratio of a difference and a standard deviation with a small sum of
# squared normal scores, as for two means in `dpstats.means.contrasts`.
@dataclass(frozen=True, eq=False)
class StandardizedErrors(ErrorDistribution):
    """Errors of differences of means, divided by the standard deviation within both groups.

    Attributes
    ----------
    difference : DifferenceErrors
        The differences, in the units of the data.
    """

    difference: DifferenceErrors

    @property
    def start(self) -> Floats:
        first, second = self.difference.first, self.difference.second
        return np.asarray((first.estimate - second.estimate) / np.sqrt(self._start_variance))

    @property
    def estimate(self) -> Floats:
        """Hedges' g: the standardized difference without its bias in small groups.

        It is NaN if the sum of squares is not positive.
        """
        free = np.maximum(self.difference.first.N + self.difference.second.N - 2, 1.0)
        corrected = (1 - 3 / (4 * free - 1)) * self.start
        return np.asarray(np.where(self._squares > 0, corrected, np.nan))

    @property
    def standard_error(self) -> Floats:
        """Half the width of the intervals of one standard deviation."""
        low, high = self._limits(np.asarray(1.0))
        return np.asarray((high - low) / 2)

    def limits(self, tail: Tail) -> Limits:
        return self._limits(np.asarray(normal_quantile(tail)))

    def tails(self, value: Floats) -> Limits:
        # A standardized difference has the sign of the difference.
        return super().tails(value) if np.any(value) else self.difference.tails(value)

    def _limits(self, z: Floats) -> Limits:
        angles = np.linspace(0.0, math.pi / 2, _ANGLES).reshape(-1, *[1] * max(z.ndim, self.start.ndim))
        spreads = np.sqrt(self._variance_limits(z * np.cos(angles)))
        low, high = np.full(self.start.shape, np.inf), np.full(self.start.shape, -np.inf)
        for i, angle in enumerate(angles):
            ends = apart(self.difference.first, self.difference.second, z * np.sin(angle))
            with np.errstate(divide="ignore", invalid="ignore"):
                ratios = [np.where(end == 0, 0.0, end / spread) for end in ends for spread in spreads[:, i]]
            low, high = np.minimum(low, np.min(ratios, axis=0)), np.maximum(high, np.max(ratios, axis=0))
        # Rounding must not move the limits past the estimate.
        return np.minimum(low, self.start), np.maximum(high, self.start)

    @property
    def _count(self) -> Floats:
        """The number of rows of both groups, at least the standard deviation of its noise."""
        first, second = self.difference.first, self.difference.second
        least = math.hypot(first.noise.count, second.noise.count)
        return np.asarray(np.maximum(first.N + second.N, least))

    @cached_property
    def _squares(self) -> Floats:
        """The noisy sum of squares of both groups around their estimated means."""
        total = np.zeros(self.difference.start.shape)
        for group in (self.difference.first, self.difference.second):
            m = group.estimate
            total = total + group.Q - 2 * m * group.X + m**2 * group.R
        return total

    @cached_property
    def _start_variance(self) -> Floats:
        """The variance within both groups in half-widths of the bounds, at least one at a thousandth of its noise."""
        least = 1e-3 * np.sqrt(self._noise_variance(np.zeros(self._squares.shape))) / self._count
        return np.clip(self._squares / self._count, least, 1.0)

    def _noise_variance(self, value: Floats) -> Floats:
        """Return the variance of the noise in the sum of squares minus its expectation under a variance."""
        total = np.zeros(np.broadcast_shapes(value.shape, self._squares.shape))
        for group in (self.difference.first, self.difference.second):
            m, noise = group.estimate, group.noise
            per_row = m**2 - value
            total = total + (
                noise.square**2
                + 4 * m**2 * noise.cross**2
                + per_row**2 * noise.spread**2
                + 2 * per_row * noise.square_spread
            )
        return np.maximum(total, 0.0)

    def _sampling_variance(self, value: Floats) -> Floats:
        """Return a bound of the variance of the sum of squares."""
        # Squares of rows inside the bounds are at most ``largest``. This limits their variance, as the kurtosis
        # does.
        ends = [1 + np.abs(group.estimate) for group in (self.difference.first, self.difference.second)]
        largest = np.maximum(*ends) ** 2
        each = np.minimum((KURTOSIS - 1) * value, np.maximum(largest - value, 0.0))
        return np.asarray(self._count * value * each)

    def _variance_limits(self, z: Floats) -> tuple[Floats, Floats]:
        """Return the least and the largest variance whose normal score is at most z."""

        def is_kept(value: Floats) -> NDArray[np.bool_]:
            distance = np.abs(self._squares - value * self._count)
            return np.asarray(
                distance**2 <= z**2 * (self._noise_variance(value) + self._sampling_variance(value))
            )

        found = []
        for end in (0.0, 1.0):
            inside, outside = self._start_variance.copy(), np.full(self._squares.shape, end)
            inside = np.where(is_kept(outside), outside, inside)
            for _ in range(_HALVINGS):
                middle = (inside + outside) / 2
                keep = is_kept(middle)
                inside, outside = np.where(keep, middle, inside), np.where(keep, outside, middle)
            found.append(inside)
        return found[0], found[1]


@dataclass(frozen=True, eq=False, repr=False)
class Differences(Estimates):
    """Differences of means of groups, with intervals and tests that count sampling error and noise.

    `Estimates` whose usual null hypothesis is a difference of 0. ``labels`` have the two groups and the column of each.
    """

    @property
    def pairs(self) -> tuple[tuple[Any, Any], ...]:
        """The pairs of groups: the first minus the second."""
        return tuple(dict.fromkeys(zip(self.labels["first"], self.labels["second"], strict=True)))

    def standardize(self) -> Differences:
        """Return the differences over the standard deviation within both groups, without additional privacy cost.

        Returns
        -------
        Differences
            Hedges' g, with intervals and tests. An interval is infinite if the release is consistent with groups
            without any spread: narrower bounds, more rows or a larger epsilon help.
        """
        errors = self.distribution
        if not isinstance(errors, DifferenceErrors) or type(errors.first) is not Ratio:
            raise refuse(
                "the differences",
                allowed="differences of means of declared groups",
                remedy="Use GroupMeans with declared groups.",
            )
        standardized = StandardizedErrors(errors)
        return replace(
            self,
            estimate=standardized.estimate,
            error=None,
            estimand=f"{self.estimand}, over the standard deviation within both groups",
            distribution=standardized,
            title="Private standardized differences",
            header="Hedges' g",
            notes=[*self.notes, _ASSUMED],
        )
