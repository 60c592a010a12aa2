"""Locate the values of blocks: one exact choice of a center and a scale among public candidates.

The values are whole steps of a public lattice of the box. Every comparison with a candidate is exact and
depends on one value. Proof: docs/proofs/statistic.md, "The location".
"""

from __future__ import annotations

import math
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
_NARROW = 0.3  # of the inner window
_OUTSIDE = 0.190  # of normal values: P(|z| <= 2) - P(|z| > 0.3)
_INSIDE = 0.9545  # of normal values: P(|z| <= 2)
_PRIOR_BITS = 45
_WHOLE = 1 << VALUE_BITS


def in_steps(values: NDArray[np.float64], low: float, high: float) -> Integers:
    """Return values as steps from the middle of the box, clipped to it; NaN as 0, the middle."""
    half = high / 2 - low / 2
    with quiet():
        steps = np.rint(((values - low) / 2 - half / 2) / half * (2.0 * _WHOLE))
    return as_int64(np.clip(np.where(np.isnan(steps), 0.0, steps), -_WHOLE, _WHOLE))


def spacing_of(line: NDArray[np.int64]) -> Integers:
    """Return the distance of neighboring centers on each line, in steps: half of the line's scale."""
    return _spacings()[line]


def n_candidates() -> int:
    """Return the number of (scale, center) pairs."""
    return sum(2 * _prior(line)[0] + 1 for line in range(SCALES))


def locations(steps: Integers) -> Runs:
    """Return all candidates, (scale, center) pairs, with their utility for these values.

    A candidate is good if many values lie within two scales of its center, few within 0.3 scales, and about
    as many below as above. Each of the three counts moves by at most 1 with a value, and so does their
    minimum.

    Parameters
    ----------
    steps : int64 array of shape (k,)
        From `in_steps`.
    """
    values = np.sort(steps)
    lines = [_line(line, values) for line in range(SCALES)]
    number = np.repeat(np.arange(SCALES), [len(parts[0]) for parts in lines])
    low, high, utility, weight = (np.concatenate(column) for column in zip(*lines, strict=True))
    return Runs(number, low, high, utility, weight)


def _line(line: int, values: Integers) -> tuple[Integers, Integers, Integers, Integers]:
    """Return the runs of a scale's centers: first and last place, utility and weight."""
    spacing = int(_spacings()[line])
    last, limits, weights = _prior(line)
    k, half = values.size, (values.size + 1) // 2
    below, above = values // spacing, -((-values) // spacing)
    reach, narrow = round(2 * _WIDE), int(2 * _NARROW * spacing)
    # Windows hold a value from the place `first` to the place before `end`.
    wide_first, wide_end = above - reach, below + reach + 1
    narrow_first, narrow_end = -((narrow - values) // spacing), (values + narrow) // spacing + 1
    starts: Integers = np.concatenate(
        [wide_first, wide_end, narrow_first, narrow_end, below + 1, above, limits, [-last]]
    )
    # A few sorted parts: merging them is faster than hashing, which np.unique does.
    starts = np.sort(starts[(starts >= -last) & (starts <= last)], kind="stable")
    starts = starts[np.append(True, starts[1:] != starts[:-1])]

    def inside(first: Integers, end: Integers) -> Integers:
        return as_int64(
            np.searchsorted(first, starts, side="right") - np.searchsorted(end, starts, side="right")
        )

    many = inside(wide_first, wide_end)
    spread = k - inside(narrow_first, narrow_end) + round(_OUTSIDE * k)
    left = np.searchsorted(below + 1, starts, side="right")
    right = k - np.searchsorted(above, starts, side="right")
    uneven = np.maximum(np.maximum(left, right) - half, 0)
    balance = round(_INSIDE * k + 0.4 * math.sqrt(k)) - uneven
    utility = np.minimum(many, np.minimum(spread, balance))
    ends = np.append(starts[1:] - 1, last)
    return starts, ends, utility, weights[np.searchsorted(limits, starts, side="right") - 1]


@lru_cache(maxsize=1)
def _spacings() -> Integers:
    found = as_int64(np.rint(2.0 ** (VALUE_BITS - 1 - 0.5 * np.arange(SCALES))))
    found.setflags(write=False)
    return found


@lru_cache(maxsize=SCALES)
def _prior(line: int) -> tuple[int, Integers, Integers]:
    """Return the last place of a line, where magnitudes of places begin, and the weight of a place from there on.

    Half of a line's weight is uniform. The other half is uniform within 2^l places of the middle, for every l
    alike: a box that is ten times too wide costs little.
    """
    last = _WHOLE // int(_spacings()[line])
    reaches = [0]
    while reaches[-1] < last:
        reaches.append(min(max(1, 2 * reaches[-1]), last))
    unit = (1 << _PRIOR_BITS) / SCALES
    share = [0.5 * unit / (2 * last + 1)]
    for reach in reversed(reaches):
        share.append(share[-1] + 0.5 * unit / len(reaches) / (2 * reach + 1))
    # Places up to reaches[l] have the weight that all wider magnitudes add up to.
    weights = [round(value) for value in share[:0:-1]]
    limits = [-last, *(-reach for reach in reversed(reaches[:-1])), *(reach + 1 for reach in reaches[:-1])]
    by_limit = [*reversed(weights), *weights[1:]]
    return last, np.array(limits, dtype=np.int64), np.array(by_limit, dtype=np.int64)
