"""Ranges of an ordered universe: numbers of rows between two points."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.data.parameters import check_integer
from dpstats.errors import attempt, refuse
from dpstats.queries.linear import LinearQueries, Numbers, real_vector
from dpstats.queries.prefixes import running

_MOST_RANGES = 1 << 26


class RangeQueries(LinearQueries, name="ranges"):
    """Numbers of rows between two points, both included; see `LinearQueries.ranges`.

    Parameters
    ----------
    size : int
        Number of points.
    ends : sequence of pairs of int, optional
        First and last point of each range. Default: all ranges.

    Attributes
    ----------
    ends : int64 array of shape (n_queries, 2)

    Examples
    --------
    >>> from dpstats.queries import LinearQueries
    >>> LinearQueries.ranges(4, [(0, 1), (1, 3)]).answers([10, 20, 30, 40]).tolist()
    [30, 90]
    """

    def __init__(self, size: Any, ends: Any = None) -> None:
        self._size = check_integer("size", size, at_least=1)
        self._all = ends is None
        self.ends = self._list_all() if ends is None else self._check_ends(ends)
        self.ends.flags.writeable = False

    def _list_all(self) -> NDArray[np.int64]:
        if (count := self._size * (self._size + 1) // 2) > _MOST_RANGES:
            raise refuse(
                "ends",
                got=f"all {count:,} on {self._size:,} points",
                allowed=f"name at most {_MOST_RANGES:,} ranges",
            )
        return as_int64(np.column_stack(np.triu_indices(self._size)))

    def _check_ends(self, ends: Any) -> NDArray[np.int64]:
        words = f"pairs of points 0 <= low <= high < {self._size:,}"
        converted = attempt(lambda: np.array(ends), Exception)
        pairs = np.zeros(0) if converted is None else converted
        if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu" or not pairs.size:
            raise refuse("ends", given=ends, allowed=words)
        pairs = as_int64(pairs)
        low, high = pairs.T
        wrong = (low < 0) | (low > high) | (high >= self._size)
        if wrong.any():
            raise refuse("ends", got=f"another at position {int(np.argmax(wrong))}", allowed=words)
        return pairs

    @property
    def n_queries(self) -> int:
        return len(self.ends)

    @property
    def size(self) -> int:
        return self._size

    @property
    def is_counting(self) -> bool:
        return True

    @property
    def vc_dimension(self) -> int | None:
        """VC dimension: 2 for all ranges on at least three points, because a range includes the points between."""
        return min(self._size - 1, 2) if self._all else None

    def answers(self, x: Any) -> NDArray[Any]:
        below = running(np.concatenate([[0], real_vector("x", x, self._size)]))
        return np.asarray(below[self.ends[:, 1] + 1] - below[self.ends[:, 0]])

    def transpose(self, w: Any) -> Numbers:
        weights = real_vector("w", w, self.n_queries).astype(np.float64)
        starts, stops = (
            np.bincount(at, weights, self._size + 1) for at in (self.ends[:, 0], self.ends[:, 1] + 1)
        )
        return np.cumsum(starts - stops)[:-1]

    def query(self, j: int) -> Numbers:
        low, high = self.ends[self._index(j)]
        points = np.arange(self._size)
        return np.asarray(((points >= low) & (points <= high)).astype(np.float64))

    def label(self, j: int) -> str:
        low, high = self.ends[self._index(j)]
        return f"{low} to {high}"
