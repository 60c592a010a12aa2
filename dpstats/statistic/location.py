"""From the values of blocks to an estimate: their location, clipped sums, and the distribution of the errors.

Values are whole steps of a public lattice of the box, and every comparison with a candidate is exact. Proofs:
docs/proofs/statistic.md, docs/intervals/statistic.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64, quiet
from dpstats.release.groups import Runs

Integers = NDArray[np.int64]

VALUE_BITS = 40
"""The half-width of the box is 2^40 steps."""
SCALES = 50
"""Scales: the half-width of the box divided by 2^(j/2), for j = 0, ..., 49."""
UTILITY_RANGE = 2
"""A replaced value raises the utility of one candidate by at most 1, and lowers another's by at most 1."""

_WIDE = 2.0  # of the outer window, in scales
_NARROW = 0.6  # width of the inner windows, in scales
_OUTSIDE = 0.190  # of normal values: P(|z| <= 2) - P(|z| > 0.3)
_FULLEST = 0.8  # by which the fullest window exceeds that about the center, in square roots of the values
_TIED = 0.15  # of the values: up to this fraction of equal values count in a window
_INSIDE = 0.9545  # of normal values: P(|z| <= 2)
_PRIOR_BITS = 45
_WHOLE = 1 << VALUE_BITS


@dataclass(frozen=True)
class Box:
    """A public interval that holds the values, in whole steps from its origin.

    The origin is the number of the interval that is nearest to 0: values near it are expected a little more.
    """

    low: float
    high: float

    @property
    def origin(self) -> float:
        return min(max(0.0, self.low), self.high)

    @property
    def step(self) -> float:
        return (self.high / 2 - self.low / 2) / _WHOLE

    @property
    def ends(self) -> tuple[int, int]:
        """The bounds in steps."""
        low, high = self._steps(np.array([self.low, self.high])).tolist()
        return int(low), int(high)

    def in_steps(self, values: NDArray[np.float64]) -> Integers:
        """Return values as steps from the origin, those outside as the nearest end, and NaN as the origin."""
        return as_int64(np.clip(np.where(np.isnan(values), 0.0, self._steps(values)), *self.ends))

    def _steps(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        half = self.high / 2 - self.low / 2
        with quiet():
            return np.rint((values / 2 - self.origin / 2) / half * (2.0 * _WHOLE))


def spacing_of(line: NDArray[np.int64]) -> Integers:
    """Return the distance of neighboring centers on each line, in steps: half of the line's scale."""
    return _spacings()[line]


def n_candidates(ends: tuple[int, int]) -> int:
    """Return the number of (scale, center) pairs for values between these ends."""
    return sum(len(_places(line, ends)) for line in range(SCALES))


def locations(
    steps: Integers,  # (k,): result of `Box.in_steps`
    ends: tuple[int, int],  # the bounds in steps, `Box.ends`
) -> Runs:
    """Return all candidates, (scale, center) pairs, with their utility for these values.

    A candidate has a high utility under three conditions. Many values lie within two scales of its center. No window
    of 0.6 scales holds too many of them, where of equal values at most 15% of all count. About as many values
    lie below the center as above. One value changes each of the three counts, and so their minimum, by at most 1.
    """
    values = np.sort(steps)
    # Many equal values would fill a window of any width, and leave tiny scales with the same utility as the right one.
    untied = values[_count_ties(values) < max(1, round(_TIED * values.size))]
    lines = [_line(line, values, untied, ends) for line in range(SCALES)]
    number = np.repeat(np.arange(SCALES), [len(parts[0]) for parts in lines])
    low, high, utility, weight = (np.concatenate(column) for column in zip(*lines, strict=True))
    return Runs(number, low, high, utility, weight)


def _count_ties(values: Integers) -> Integers:
    """Return for each of some sorted values how many equal ones stand before it."""
    return as_int64(np.arange(values.size) - np.searchsorted(values, values))


def _line(
    line: int, values: Integers, untied: Integers, ends: tuple[int, int]
) -> tuple[Integers, Integers, Integers, Integers]:
    """Return the runs of a scale's centers: first and last place, utility and weight."""
    spacing = int(_spacings()[line])
    places = _places(line, ends)
    limits, weights = _prior(line, ends)
    k, half = values.size, (values.size + 1) // 2
    below, above = values // spacing, -((-values) // spacing)
    reach = round(2 * _WIDE)
    # The outer window holds a value from the place `first` to the place before `end`.
    first, end = above - reach, below + reach + 1
    starts: Integers = np.concatenate([first, end, below + 1, above, limits])
    # A few sorted parts: merging them is faster than hashing, which np.unique does.
    starts = np.sort(starts[(starts >= places.start) & (starts < places.stop)], kind="stable")
    starts = starts[np.append(True, starts[1:] != starts[:-1])]

    def count_up_to_starts(places: Integers) -> Integers:
        return as_int64(np.searchsorted(places, starts, side="right"))

    many = count_up_to_starts(first) - count_up_to_starts(end)
    # The fullest of all windows of this width begins at a value.
    width = int(2 * _NARROW * spacing)
    fullest = int((np.searchsorted(untied, untied + width, side="right") - np.arange(untied.size)).max())
    spread = k - fullest + round(_OUTSIDE * k + _FULLEST * math.sqrt(k))
    left, right = count_up_to_starts(below + 1), k - count_up_to_starts(above)
    uneven = np.maximum(np.maximum(left, right) - half, 0)
    balance = round(_INSIDE * k + 0.4 * math.sqrt(k)) - uneven
    utility = np.minimum(np.minimum(many, spread), balance)
    return (
        starts,
        np.append(starts[1:] - 1, places.stop - 1),
        utility,
        weights[count_up_to_starts(limits) - 1],
    )


@lru_cache(maxsize=1)
def _spacings() -> Integers:
    found = as_int64(np.rint(2.0 ** (VALUE_BITS - 1 - 0.5 * np.arange(SCALES))))
    found.setflags(write=False)
    return found


def _places(line: int, ends: tuple[int, int]) -> range:
    """Return the places of the centers of a line: those between the ends."""
    spacing = int(_spacings()[line])
    return range(-(-ends[0] // spacing), ends[1] // spacing + 1)


@lru_cache(maxsize=4 * SCALES)
def _prior(line: int, ends: tuple[int, int]) -> tuple[Integers, Integers]:
    """Return the places of a line at which the weight changes, and the weight from each of them on.

    Half of a line's weight is uniform. The other half is uniform within 2^l places of the origin, for every l
    alike: a box that is ten times too wide costs little.
    """
    places = _places(line, ends)
    far = max(-places.start, places.stop - 1)
    reaches = [0]
    while reaches[-1] < far:
        reaches.append(min(max(1, 2 * reaches[-1]), far))
    near = [range(max(-reach, places.start), min(reach + 1, places.stop)) for reach in reaches]
    unit = 0.5 * (1 << _PRIOR_BITS) / SCALES
    limits = sorted({end for each in near for end in (each.start, each.stop)} - {places.stop})
    weights = [
        round(unit / len(places) + sum(unit / len(near) / len(each) for each in near if limit in each))
        for limit in limits
    ]
    return np.array(limits, dtype=np.int64), np.array(weights, dtype=np.int64)
