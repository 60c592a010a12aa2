"""Linear queries: averages over the rows of functions with values in [0, 1], their families, and exact answers."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_integer
from dpstats.data.values import as_int64
from dpstats.errors import attempt, refuse, show

# Queries

# A family of queries provides the methods that mechanisms use: its size, its answers on a histogram, and the transpose.
# A family without an explicit matrix (marginals, ranges) is another class with these methods.

Numbers = NDArray[np.float64]
FRACTION_BITS = 20
"""Values of queries are multiples of 2^-20. A sum over integer counts of at most 2^32 rows is then exact.

This holds in floating point and for any order of summation, so the contribution of a row does not depend on others."""
_MOST_CHECKS = 200_000  # largest number of sets in the search for a shattered set


class LinearQueries(ABC):
    """A family of linear queries on a universe of ``size`` points.

    A query assigns to every point of the universe a value in [0, 1], a multiple of 2^-20. Its answer on a histogram is
    the sum of these values times the counts. On the counts of n rows, the answer is between 0 and n, and replacing one
    row changes it by at most 1. On a distribution, the answer is the mean value.

    Use `from_matrix` for queries with an explicit matrix. Derive from this class to define another family.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.queries import LinearQueries
    >>> queries = LinearQueries.from_matrix([[1, 1, 0, 0], [0, 0.5, 0.5, 1]])
    >>> queries.n_queries, queries.size, queries.is_counting
    (2, 4, False)
    >>> queries.answers(np.array([2, 0, 4, 1]))
    array([2., 3.])
    >>> queries.transpose(np.array([1.0, 2.0]))
    array([1., 2., 1., 2.])
    """

    # Families without an explicit matrix are defined in later modules, and register here under a name.
    _families: ClassVar[dict[str, Callable[..., LinearQueries]]] = {}

    def __init_subclass__(cls, name: str | None = None) -> None:
        super().__init_subclass__()
        if name is not None:
            LinearQueries._families[name] = cls

    @property
    @abstractmethod
    def n_queries(self) -> int:
        """Number of queries."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of points in the universe."""

    @property
    @abstractmethod
    def is_counting(self) -> bool:
        """Whether all values are 0 or 1."""

    @property
    def vc_dimension(self) -> int | None:
        """Vapnik-Chervonenkis dimension of counting queries, or None if it is unknown."""
        return None

    @abstractmethod
    def answers(self, x: Any) -> NDArray[Any]:
        """Return the answers on a histogram.

        Parameters
        ----------
        x : array of shape (size,)
            Real numbers, such as counts or a distribution.

        Returns
        -------
        array of shape (n_queries,)
            Answers. On integer counts of at most 2^32 rows they are exact: int64 for counting queries, otherwise
            floats.
        """

    @abstractmethod
    def transpose(self, w: Any) -> Numbers:
        """Return the weighted sum of the queries: weights of shape (n_queries,) give values of shape (size,)."""

    @abstractmethod
    def query(self, j: int) -> Numbers:
        """Return the values of query j at the points of the universe: shape (size,)."""

    def label(self, j: int) -> str:
        """Return a description of query j."""
        return f"query {self._index(j)}"

    def __len__(self) -> int:
        return self.n_queries

    def __repr__(self) -> str:
        kind = "counting queries" if self.is_counting else "linear queries"
        return f"{type(self).__name__}({self.n_queries:,} {kind} on {self.size:,} points)"

    def _index(self, j: Any) -> int:
        return check_integer("j", j, at_least=0, at_most=self.n_queries - 1)

    @staticmethod
    def from_matrix(Q: Any, labels: Sequence[str] | None = None) -> MatrixQueries:
        """Return the rows of a matrix as queries.

        Parameters
        ----------
        Q : array-like of shape (n_queries, size)
            Public values in [0, 1]. They are rounded to multiples of 2^-20.
        labels : sequence of str, optional
            Description of each query, for summaries.

        Raises
        ------
        InvalidParameter
            If a value is outside [0, 1], or Q is not a matrix of numbers.
        """
        return MatrixQueries(Q, labels)

    @staticmethod
    def marginals(domain: Any, k: Any) -> LinearQueries:
        """Return the cells of marginal tables as queries: counts of rows with given levels of a few attributes.

        Parameters
        ----------
        domain : Domain, or declarations of one, such as a shape
            Attributes and their levels.
        k : int, or sequence
            Number of attributes of a table: the result has all such tables. Or several such numbers, or the attributes
            of each table, by name or position: ``[("age", "smokes"), ("age", "region")]``.

        Examples
        --------
        >>> from dpstats.queries import LinearQueries
        >>> pairs = LinearQueries.marginals((2, 3, 2), 2)
        >>> len(pairs), pairs.label(3), pairs.answers(range(12))[:6].tolist()
        (16, 'x0 = 1, x1 = 0', [1, 5, 9, 13, 17, 21])
        """
        return LinearQueries._families["marginals"](domain, k)

    @staticmethod
    def prefixes(size: int) -> LinearQueries:
        """Return the prefixes of an ordered universe: numbers of rows at or below each point, the cdf times n."""
        return LinearQueries._families["prefixes"](size)

    @staticmethod
    def ranges(size: int, ends: Any = None) -> LinearQueries:
        """Return ranges of an ordered universe: numbers of rows between two points, both included.

        Parameters
        ----------
        size : int
            Number of points in the universe.
        ends : int array of shape (n_queries, 2), optional
            First and last point of each range. None: all size (size + 1)/2 ranges, ordered by their first points.
        """
        return LinearQueries._families["ranges"](size, ends)

    @staticmethod
    def parities(d: int, k: int) -> LinearQueries:
        """Return parities: numbers of rows with an odd number of ones in a set of bits, for all sets of 1 to k bits."""
        return LinearQueries._families["parities"](d, k)

    @staticmethod
    def halfspaces(points: Any, n: int, random_state: int = 0) -> LinearQueries:
        """Return random halfspaces: numbers of rows on one side of each of n random planes.

        Parameters
        ----------
        points : array of shape (size, dimensions)
            Public coordinates of the points in the universe.
        n : int
            Number of planes.
        random_state : int, default=0
            Seed of the planes. They are public.
        """
        return LinearQueries._families["halfspaces"](points, n, random_state)


class MatrixQueries(LinearQueries):
    """Queries given by the rows of a matrix; see `LinearQueries.from_matrix`."""

    def __init__(self, Q: Any, labels: Sequence[str] | None = None) -> None:
        self._matrix = query_values("Q", Q, ndim=2)
        texts = () if labels is None or isinstance(labels, str) else labels
        are_texts = len(texts) == len(self._matrix) and all(isinstance(label, str) for label in texts)
        if labels is not None and not are_texts:
            raise refuse("labels", given=labels, allowed=f"one text per query ({len(self._matrix)})")
        self._labels = None if labels is None else tuple(labels)

    @property
    def n_queries(self) -> int:
        return int(self._matrix.shape[0])

    @property
    def size(self) -> int:
        return int(self._matrix.shape[1])

    @cached_property
    def is_counting(self) -> bool:
        return bool(np.all((self._matrix == 0) | (self._matrix == 1)))

    @cached_property
    def vc_dimension(self) -> int | None:
        return vc_dimension(self._matrix) if self.is_counting else None

    def answers(self, x: Any) -> NDArray[Any]:
        return exact_product(self._matrix, real_vector("x", x, self.size), whole=self.is_counting)

    def transpose(self, w: Any) -> Numbers:
        return np.asarray(real_vector("w", w, self.n_queries) @ self._matrix, dtype=np.float64)

    def query(self, j: int) -> Numbers:
        return np.asarray(self._matrix[self._index(j)])

    def label(self, j: int) -> str:
        return super().label(j) if self._labels is None else self._labels[self._index(j)]


def query_values(name: str, values: Any, ndim: int, size: int | None = None) -> Numbers:
    """Return the values of a query (``ndim`` 1), or of several, rounded to multiples of 2^-20 and read-only.

    Raises
    ------
    InvalidParameter
        If they are not numbers in [0, 1], or not one number for each of ``size`` points.
    """
    converted = attempt(lambda: np.array(values, dtype=np.float64), Exception)
    array = np.empty(0) if converted is None else converted
    if array.ndim != ndim or array.size == 0 or (size is not None and array.shape[-1] != size):
        shape = f"({'n_queries, ' * (ndim == 2)}{'size' if size is None else f'{size:,}'})"
        got = f"shape {array.shape}" if array.size else show(values)
        raise refuse(name, got=got, allowed=f"numbers in [0, 1] of shape {shape}")
    if not (array.min() >= 0 and array.max() <= 1):  # nor NaN
        where = tuple(int(i) for i in np.argwhere(~((array >= 0) & (array <= 1)))[0])
        raise refuse(name, got=f"another at position {where}", allowed="have values in [0, 1]")
    # Scaling by a power of two is exact. It is done in place, because a stream may have a hundred thousand queries.
    array *= 2.0**FRACTION_BITS
    np.rint(array, out=array)
    array *= 2.0**-FRACTION_BITS
    array.flags.writeable = False
    return array


def real_vector(name: str, x: Any, size: int) -> NDArray[Any]:
    """Return a vector of real numbers with one entry for each of ``size``."""
    array = np.asarray(x)
    if array.shape != (size,) or array.dtype.kind not in "biuf":
        # The entries may be private, so the message has only the shape.
        raise refuse(name, got=f"an array of shape {array.shape}", allowed=f"{size:,} real numbers")
    return array


def exact_product(matrix: Numbers, x: NDArray[Any], whole: bool) -> NDArray[Any]:
    """Return matrix @ x; of whole counts exactly, and for 0/1 values as int64 (``whole``)."""
    if x.dtype.kind not in "biu":
        return np.asarray(matrix @ x, dtype=np.float64)
    if not whole:
        return np.asarray(matrix @ x.astype(np.float64))
    # Sums of whole numbers below 2^53 are exact in floating point, and five times as fast.
    if np.abs(x.astype(np.float64)).sum() < 2**53:
        return as_int64(np.asarray(np.rint(matrix @ x.astype(np.float64))))
    return np.asarray(as_int64(matrix) @ as_int64(x))


def vc_dimension(matrix: Numbers) -> int | None:
    """Return the largest number of points that 0/1 queries shatter, or None if the search is too long.

    Subsets of a shattered set are shattered, so the search finds each shattered set by adding points to smaller ones.
    """
    patterns = np.unique(np.unique(as_int64(matrix), axis=0), axis=1)
    most = len(patterns).bit_length() - 1  # lemma 4.7: 2^d subsets require 2^d queries
    shattered: list[tuple[tuple[int, ...], NDArray[np.int64]]] = [((), np.zeros(len(patterns), np.int64))]
    checks = 0
    for dimension in range(1, most + 1):
        larger = []
        for points, codes in shattered:
            for point in range(points[-1] + 1 if points else 0, patterns.shape[1]):
                checks += 1
                if checks > _MOST_CHECKS:
                    return None
                found = 2 * codes + patterns[:, point]
                if np.unique(found).size == 2**dimension:
                    larger.append(((*points, point), found))
        if not larger:
            return dimension - 1
        shattered = larger
    return most


# Exact integer answers on histograms

# Mechanisms add noise to combinations of two kinds of integers, both in steps of 2^-20 rows. The answers on the data
# are exact. The answers of a public hypothesis are rounded. Replacing a row changes an answer on the data by at most
# `ROW`, and does not change the hypothesis.

ROW = 1 << FRACTION_BITS
"""Sensitivity of the answer of a query to replacing a row, in steps."""


def data_steps(queries: LinearQueries, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the exact answers of queries on integer counts, in steps."""
    return in_steps(np.asarray(queries.answers(counts), dtype=np.float64))


def hypothesis_steps(answers: Any, n_rows: int) -> NDArray[np.int64]:
    """Return the answers of a distribution, scaled to ``n_rows`` rows and rounded to steps."""
    return in_steps(n_rows * np.asarray(answers, dtype=np.float64))


def in_steps(answers: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return answers in rows as steps. Multiples of 2^-20 below 2^32 are not rounded."""
    return as_int64(np.rint(np.ldexp(answers, FRACTION_BITS)))


def in_shares(steps: Any, n_rows: int) -> Any:
    """Return steps as proportions of all rows."""
    return np.ldexp(np.asarray(steps, dtype=np.float64), -FRACTION_BITS) / n_rows


# Families of queries: prefixes, ranges, parities of bits, and random halfspaces of points.


# Prefixes of an ordered universe: numbers of rows at or below each point


class PrefixQueries(LinearQueries, name="prefixes"):
    """Numbers of rows at or below each point; see `LinearQueries.prefixes`.

    Examples
    --------
    >>> from dpstats.queries import LinearQueries
    >>> LinearQueries.prefixes(4).answers([10, 20, 30, 40]).tolist()
    [10, 30, 60, 100]
    """

    is_counting = True

    def __init__(self, size: Any) -> None:
        self._size = check_integer("size", size, at_least=1)

    @property
    def n_queries(self) -> int:
        return self._size

    @property
    def size(self) -> int:
        return self._size

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

    is_counting = True

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

    is_counting = True

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

    is_counting = True

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
