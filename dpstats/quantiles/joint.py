"""Joint choice of points whose ranks are close to public target ranks.

Proof: docs/proofs/quantiles.md, theorem 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.quantiles.halving import Places
from dpstats.release.groups import Nested, Windows


# The utility of a tuple is minus the range of the set that contains 0 and the rank error of each point.
def windows(places: Places, ranks: tuple[int, ...], steps: int, unit: int = 1) -> Windows:
    """Return the tuples of points by utility, for rows at sorted places among 0, ..., ``steps``.

    A point exceeds rank r by at most b if at most r + b rows are below it: up to the place of row r + b + 1. It falls
    short of rank r by at most a if at least r - a rows are at or below it: from the place of row r - a on. A step of
    the utility is ``unit`` rows.
    """
    wanted = np.array(ranks, dtype=np.int64)[:, None]

    def ends(a: NDArray[np.int64], b: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return _place(places, wanted - a, steps), _place(places, wanted + b + 1, steps)

    return Windows(ends, len(ranks), candidates=steps + 1, unit=unit)


def group_windows(places: Places, ranks: tuple[int, ...], anchor: int, steps: int, unit: int = 1) -> Nested:
    """Return the tuples of points by utility, for the sorted places of a group whose size is private.

    Ranks are for ``anchor`` rows and follow half of the difference from the group's own number. The utility is minus
    the largest distance from a rank, in halves of ``unit`` rows: docs/proofs/quantiles.md, theorem 4.
    """
    twice = places.size - anchor + 2 * np.array(ranks, dtype=np.int64)[:, None]

    def ends(a: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return _place(places, -((a - twice) // 2), steps), _place(places, (twice + a) // 2 + 1, steps)

    return Nested(ends, len(ranks), candidates=steps + 1, unit=unit)


def _place(places: Places, row: NDArray[np.int64], steps: int) -> NDArray[np.int64]:
    """Return the places of rows, numbered from 1."""
    n = places.size
    places = places if n else np.array([steps])  # without rows, only the bounds of the grid matter
    # The bounds of the grid precede the first row and follow the last.
    inside = as_int64(places[np.clip(row - 1, 0, n - 1)])
    return np.where(row < 1, 0, np.where(row > n, steps, inside))


def counts_beside(places: Places, low: NDArray[np.int64], high: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of rows below each point of ``low``, and at or below each point of ``high``.

    If a row moves up, no count increases, and each decreases by at most one. If a row moves down, the reverse holds.
    """
    below = np.searchsorted(places, low, side="left")
    up_to = np.searchsorted(places, high, side="right")
    return as_int64(np.concatenate([below, up_to], axis=-1))
