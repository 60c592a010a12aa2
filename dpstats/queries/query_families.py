"""Families of queries: prefixes, ranges, parities of bits, and random halfspaces of points."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_integer
from dpstats.data.values import as_int64
from dpstats.errors import attempt, refuse
from dpstats.queries.linear import LinearQueries, Numbers, real_vector

# Prefixes of an ordered universe: numbers of rows at or below each point


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


# Ranges of an ordered universe: numbers of rows between two points

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
                "ends", got=f"all {count:,} on {self._size:,} points", allowed=f"name at most {_MOST_RANGES:,} ranges"
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
        starts, stops = (np.bincount(at, weights, self._size + 1) for at in (self.ends[:, 0], self.ends[:, 1] + 1))
        return np.cumsum(starts - stops)[:-1]

    def query(self, j: int) -> Numbers:
        low, high = self.ends[self._index(j)]
        points = np.arange(self._size)
        return np.asarray(((points >= low) & (points <= high)).astype(np.float64))

    def label(self, j: int) -> str:
        low, high = self.ends[self._index(j)]
        return f"{low} to {high}"


# Parities of a few of d bits: numbers of rows with an odd number of ones among them

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


# Halfspaces: numbers of rows on one side of a plane

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
        return np.asarray((self._directions[index] @ self._points.T >= self._planes[index]).astype(np.float64))

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
