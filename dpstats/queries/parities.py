"""Parities of a few of d bits: numbers of rows with an odd number of ones among them."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_integer
from dpstats.errors import refuse
from dpstats.queries.linear import LinearQueries, Numbers, real_vector

_MOST_BITS, _MOST_PARITIES = 26, 1 << 24


class ParityQueries(LinearQueries, name="parities"):
    """Numbers of rows with an odd number of ones in a set of bits; see `LinearQueries.parities`.

    Parameters
    ----------
    d : int
        Number of bits of a point.
    k : int
        Largest number of bits of a query.

    Attributes
    ----------
    sets : tuple of tuples of int
        The bits of each query; bit 0 is the first attribute, which changes slowest among the points.

    Examples
    --------
    >>> from dpstats.queries import LinearQueries
    >>> queries = LinearQueries.parities(2, 2)  # points 00, 01, 10, 11
    >>> queries.sets, queries.answers([10, 20, 30, 40]).tolist()
    (((0,), (1,), (0, 1)), [70, 60, 50])
    """

    def __init__(self, d: Any, k: Any) -> None:
        self._d = check_integer("d", d, at_least=1, at_most=_MOST_BITS)
        self._k = check_integer("k", k, at_least=1, at_most=self._d)
        count = sum(math.comb(self._d, size) for size in range(1, self._k + 1))
        if count > _MOST_PARITIES:
            raise refuse("d and k", got=f"{count:,}", allowed=f"give at most {_MOST_PARITIES:,} parities")
        self.sets = tuple(
            bits for size in range(1, self._k + 1) for bits in itertools.combinations(range(self._d), size)
        )
        # The bits of a mask correspond to the bits of the points.
        self._masks = np.array([sum(1 << (self._d - 1 - bit) for bit in bits) for bits in self.sets])

    @property
    def n_queries(self) -> int:
        return len(self.sets)

    @property
    def size(self) -> int:
        return 1 << self._d

    @property
    def is_counting(self) -> bool:
        return True

    @property
    def vc_dimension(self) -> int | None:
        """VC dimension: d - 1 for all nonempty parities, log2(d) rounded down for single bits, otherwise None."""
        if self._k == self._d:
            return self._d - 1
        return self._d.bit_length() - 1 if self._k == 1 else None

    def answers(self, x: Any) -> NDArray[Any]:
        values = real_vector("x", x, self.size)
        even_less_odd = walsh(values)
        odd = even_less_odd[0] - even_less_odd[self._masks]
        return np.asarray(odd // 2 if odd.dtype.kind == "i" else odd / 2)

    def transpose(self, w: Any) -> Numbers:
        weights = real_vector("w", w, self.n_queries).astype(np.float64)
        placed = np.zeros(self.size)
        placed[self._masks] = weights
        return np.asarray((weights.sum() - walsh(placed)) / 2)

    def query(self, j: int) -> Numbers:
        shared = np.arange(self.size) & self._masks[self._index(j)]
        for half in (32, 16, 8, 4, 2, 1):  # a word has the parity of the xor of its halves
            shared ^= shared >> half
        return np.asarray((shared & 1).astype(np.float64))

    def label(self, j: int) -> str:
        return "parity of " + ", ".join(f"x{bit}" for bit in self.sets[self._index(j)])


def walsh(x: NDArray[Any]) -> NDArray[Any]:
    """Return the Walsh-Hadamard transform of a vector of a power of two: sum_x (-1)^|x & S| x, for every S."""
    values = x.astype(np.int64 if x.dtype.kind in "biu" else np.float64)
    half = values.size // 2
    while half:
        pairs = values.reshape(-1, 2, half)
        values = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(-1)
        half //= 2
    return values
