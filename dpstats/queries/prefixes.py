"""Prefixes of an ordered universe: numbers of rows at or below each point."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_integer
from dpstats.queries.linear import LinearQueries, Numbers, real_vector


class PrefixQueries(LinearQueries, name="prefixes"):
    """Numbers of rows at or below each point; see `LinearQueries.prefixes`.

    Examples
    --------
    >>> from dpstats.queries import LinearQueries
    >>> LinearQueries.prefixes(4).answers([10, 20, 30, 40]).tolist()
    [10, 30, 60, 100]
    """

    def __init__(self, size: Any) -> None:
        self._size = check_integer("size", size, at_least=1)

    @property
    def n_queries(self) -> int:
        return self._size

    @property
    def size(self) -> int:
        return self._size

    @property
    def is_counting(self) -> bool:
        return True

    @property
    def vc_dimension(self) -> int:
        """VC dimension, which is 1: a prefix that contains the larger of two points contains both."""
        return min(self._size - 1, 1)

    def answers(self, x: Any) -> NDArray[Any]:
        return running(real_vector("x", x, self._size))

    def transpose(self, w: Any) -> Numbers:
        return np.cumsum(real_vector("w", w, self._size)[::-1].astype(np.float64))[::-1].copy()

    def query(self, j: int) -> Numbers:
        return (np.arange(self._size) <= self._index(j)).astype(np.float64)

    def label(self, j: int) -> str:
        return f"at most {self._index(j)}"


def running(x: NDArray[Any]) -> NDArray[Any]:
    """Return the cumulative sums of a vector. Sums of integers are integers."""
    return np.cumsum(x, dtype=np.int64 if x.dtype.kind in "biu" else np.float64)
