"""Points whose ranks are near public ones, all chosen at once.

A tuple's utility is minus the range of 0 and of how far each of its points is beyond its rank. Proof:
docs/proofs/quantiles.md, theorem 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.release.groups import Nested, Windows

Places = NDArray[np.integer[Any]]


def windows(places: Places, ranks: tuple[int, ...], steps: int) -> Windows:
    """Return the tuples of points by utility, for rows at sorted places among 0, ..., ``steps``.

    The point g is at most b beyond rank r where at most r + b rows are below it: up to the place of row r + b + 1. It
    is at most a short of it where at least r - a rows are at or below it: from the place of row r - a on.
    """
    wanted = np.array(ranks, dtype=np.int64)[:, None]

    def ends(a: NDArray[np.int64], b: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return _place(places, wanted - a, steps), _place(places, wanted + b + 1, steps)

    return Windows(ends, len(ranks), candidates=steps + 1)


def group_windows(places: Places, ranks: tuple[int, ...], anchor: int, steps: int) -> Nested:
    """Return the tuples of points by utility, for the sorted places of a group whose size is private.

    Ranks are for ``anchor`` rows and follow half of the difference from the group's own number. The utility is minus
    the largest distance from a rank, in half rows: docs/proofs/quantiles.md, theorem 4.
    """
    twice = places.size - anchor + 2 * np.array(ranks, dtype=np.int64)[:, None]

    def ends(a: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return _place(places, -((a - twice) // 2), steps), _place(places, (twice + a) // 2 + 1, steps)

    return Nested(ends, len(ranks), candidates=steps + 1)


def _place(places: Places, row: NDArray[np.int64], steps: int) -> NDArray[np.int64]:
    """Return the places of rows counted from 1: the first and the last place of the grid beyond them."""
    n = places.size
    places = places if n else np.array([steps])  # of no rows only the ends are looked at
    inside = as_int64(places[np.clip(row - 1, 0, n - 1)])
    return np.where(row < 1, 0, np.where(row > n, steps, inside))


def counts_beside(places: Places, low: NDArray[np.int64], high: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many rows are below each of some points, and how many at or below each of others.

    A row that moves up lowers all of them, by one at most; one that moves down raises them.
    """
    below = np.searchsorted(places, low, side="left")
    up_to = np.searchsorted(places, high, side="right")
    return as_int64(np.concatenate([below, up_to], axis=-1))
