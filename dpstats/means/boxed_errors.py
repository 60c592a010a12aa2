from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.error_distributions import ErrorDistribution, Limits, Tail, least_tail
from dpstats.means.bias_aware import Numbers
from dpstats.means.box_mean import outside_box, within_box


class DeclaredBox:
    """A public box for the mean, and upper bounds on the standard deviations of the columns."""

    n_features: int
    middle: Any  # center of the box, and its half-width
    bound: Any
    hard: bool  # whether the rows lie in the box too
    std: Any

    @property
    def stds(self) -> Numbers:
        """``std`` as an array of shape (n_features,)."""
        return np.full(self.n_features, self.std)

    @property
    def half(self) -> Numbers:
        """``bound`` as an array of shape (n_features,)."""
        return np.full(self.n_features, self.bound)

    @property
    def box(self) -> tuple[Numbers, Numbers]:
        """The bounds of the mean."""
        return self.middle - self.half, self.middle + self.half


class BoxedErrors(ErrorDistribution):
    """Errors of a mean in a box: intervals contain the unshrunk estimate, and are cut to the box."""

    plan: Any
    mean: Numbers  # (d,): the reported estimate, which every interval holds

    @property
    @abstractmethod
    def largest_bias(self) -> Numbers:
        """Bounds on the bias of the columns."""

    @abstractmethod
    def reaches(self, tail: Tail) -> Numbers:
        """Return the distances to one-sided limits. The whole bias may be on the side of a limit."""

    @abstractmethod
    def half_widths(self, tail: Tail) -> Numbers:
        """Return half-widths of two-sided intervals, which the bias shifts to one side only."""

    @property
    def box(self) -> Limits:
        # Without the ends that the mean may be beyond.
        low, high = self.plan.box
        below, above = self.find_open(0.025)
        return np.where(below, -np.inf, low), np.where(above, np.inf, high)

    def find_open(self, tail: float) -> Any:
        """Return for which columns the interval is open below, and for which above."""
        if self.plan.hard:
            return np.zeros((2, self.plan.n_features), dtype=bool)
        return outside_box(self.start, self.half_widths(tail), *self.plan.box)

    def limits(self, tail: Tail) -> Limits:
        return self._cut_to_box(self.reaches(tail))

    def interval(self, tail: Tail) -> Limits:
        return self._cut_to_box(self.half_widths(tail))

    def two_sided(self, value: Numbers) -> Numbers:
        # The interval is nearer than both limits: it is inverted itself.
        def excludes(tail: Numbers) -> NDArray[np.bool_]:
            low, high = self.interval(tail)
            return (value < low) | (value > high)

        tail = least_tail(excludes, value.shape)
        return np.where(np.isnan(tail), 1.0, 2 * tail)

    def _cut_to_box(self, half: Numbers) -> Limits:
        return within_box(self.start, half, self.mean, *self.plan.box, hard=self.plan.hard)
