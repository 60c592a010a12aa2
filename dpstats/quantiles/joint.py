"""Points whose ranks are near public ones, all chosen at once.

A tuple's utility is minus the range of 0 and of how far each of its points is beyond its rank. Proof:
docs/proofs/quantiles.md, theorem 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.release.groups import Windows

Places = NDArray[np.integer[Any]]


def windows(places: Places, ranks: tuple[int, ...], steps: int) -> Windows:
    """Return the tuples of points by utility, for rows at sorted places among 0, ..., ``steps``.

    The point g is at most b beyond rank r where at most r + b rows are below it: up to the place of row r + b + 1. It
    is at most a short of it where at least r - a rows are at or below it: from the place of row r - a on.
    """
    n, wanted = places.size, np.array(ranks, dtype=np.int64)[:, None]
    places = places if n else np.array([steps])  # of no rows only the ends are looked at

    def place(row: NDArray[np.int64]) -> NDArray[np.int64]:
        # Rows are counted from 1; before the first and after the last are the ends of the grid.
        inside = as_int64(places[np.clip(row - 1, 0, n - 1)])
        return np.where(row < 1, 0, np.where(row > n, steps, inside))

    def ends(a: NDArray[np.int64], b: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return place(wanted - a), place(wanted + b + 1)

    return Windows(ends, len(ranks), candidates=steps + 1)


def counts_beside(places: Places, low: NDArray[np.int64], high: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many rows are below each of some points, and how many at or below each of others.

    A row that moves up lowers all of them, by one at most; one that moves down raises them.
    """
    below = np.searchsorted(places, low, side="left")
    up_to = np.searchsorted(places, high, side="right")
    return as_int64(np.concatenate([below, up_to], axis=-1))
