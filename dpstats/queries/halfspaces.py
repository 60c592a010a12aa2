"""Random halfspaces of points in space: numbers of rows on one side of a plane."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.data.parameters import check_integer
from dpstats.errors import attempt, refuse
from dpstats.queries.linear import LinearQueries, Numbers, real_vector

_POINT_BITS, _DIRECTION_BITS = 20, 10
_BLOCK = 1 << 22  # entries of a block of values


class HalfspaceQueries(LinearQueries, name="halfspaces"):
    """Numbers of rows in several halfspaces; see `LinearQueries.halfspaces`.

    Directions are normal and rounded to 2^-10. Planes are at a uniform place between the outermost points. Points are
    rounded to 2^-20 of the largest coordinate, so that the side of a point is exact in any batch of queries.

    Examples
    --------
    >>> from dpstats.queries import LinearQueries
    >>> points = [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    >>> queries = LinearQueries.halfspaces(points, 5, random_state=0)
    >>> len(queries), queries.answers([10, 20, 30, 40]).shape
    (5, (5,))
    """

    def __init__(self, points: Any, n: Any, random_state: Any = 0) -> None:
        self._points = _rounded(points)
        count = check_integer("n", n, at_least=1)
        rng = np.random.default_rng(check_integer("random_state", random_state, at_least=0))
        drawn = np.rint(np.ldexp(rng.standard_normal((count, self._points.shape[1])), _DIRECTION_BITS))
        self._directions = drawn
        share = rng.random(count)
        self._planes = np.empty(count)
        for rows, along in self._blocks():
            low, high = along.min(axis=1), along.max(axis=1)
            self._planes[rows] = low + share[rows] * (high - low)

    @property
    def n_queries(self) -> int:
        return len(self._planes)

    @property
    def size(self) -> int:
        return len(self._points)

    @property
    def is_counting(self) -> bool:
        return True

    @property
    def vc_dimension(self) -> int:
        """Bound on the VC dimension: the smaller of one plus the number of coordinates, and log2(n) rounded down."""
        return int(min(self._points.shape[1] + 1, int(math.log2(self.n_queries))))

    def answers(self, x: Any) -> NDArray[Any]:
        values = real_vector("x", x, self.size)
        whole = values.dtype.kind in "biu"
        # Sums of integers below 2^53 are exact in floating point.
        found = np.empty(self.n_queries)
        for rows, inside in self._values():
            found[rows] = inside @ values.astype(np.float64)
        return as_int64(found) if whole else found

    def transpose(self, w: Any) -> Numbers:
        weights = real_vector("w", w, self.n_queries).astype(np.float64)
        total = np.zeros(self.size)
        for rows, inside in self._values():
            total += weights[rows] @ inside
        return total

    def query(self, j: int) -> Numbers:
        index = self._index(j)
        return np.asarray(
            (self._directions[index] @ self._points.T >= self._planes[index]).astype(np.float64)
        )

    def label(self, j: int) -> str:
        return f"halfspace {self._index(j)}"

    def _blocks(self) -> Iterator[tuple[slice, Numbers]]:
        step = max(1, _BLOCK // self.size)
        for start in range(0, len(self._directions), step):
            rows = slice(start, start + step)
            yield rows, self._directions[rows] @ self._points.T

    def _values(self) -> Iterator[tuple[slice, Numbers]]:
        for rows, along in self._blocks():
            yield rows, (along >= self._planes[rows, None]).astype(np.float64)


def _rounded(points: Any) -> Numbers:
    """Return points as integers of at most 2^20 in size, in a unit that depends on the points."""
    words = "finite numbers of shape (size, dimensions)"
    array = attempt(lambda: np.array(points, dtype=np.float64), Exception)
    if array is None:
        raise refuse("points", given=points, allowed=words)
    if array.ndim != 2 or not array.size or not np.isfinite(array).all():
        raise refuse("points", got=f"shape {array.shape}", allowed=words)
    largest = float(np.abs(array).max()) or 1.0
    return np.rint(np.ldexp(array / largest, _POINT_BITS))
