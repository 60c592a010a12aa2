"""The row-distance statistic: the number of rows that must change before a statistic falls below its null median.

Proof: docs/proofs/row-distance.md.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dpstats.data.parameters import check_integer, check_real
from dpstats.data.values import as_int64
from dpstats.errors import InvalidParameter, refuse_data
from dpstats.parallel import one_blas_thread

# The statistic

# Let G_ij be a clipped inner product of two rows, or 0 if i = j, and r = G 1. Let w be the width of a window that
# contains 0 and every G_ij. For k = 0..n and a_k = a0 + w k, define

#     f_k = sum_i r_i - 2 sum_{k largest} (r_i)_+ + 2 sum_i (-a_k - r_i)_+ ,
#     D   = min{k : f_k <= tau0 + 2 a0 k + 2 w k (k - 1)}        (n if there is none).

# Replacing one row changes D by at most one. The proof (docs/proofs/row-distance.md) uses symmetry, the zero diagonal,
# the width of the window, and that G_ij is a function of its two rows. It requires exact arithmetic, because ties in
# floating point break it. So rows are integers. Products use floating point only if every partial sum is an exactly
# represented integer, and everything after the products is int64.

# The window is [-rho, rho], or the window of `Centering`.

STEP_BITS = 3
"""Whitened coordinates are rounded to steps of 2^-3 ..."""
LARGEST_STEP = 32
"""... and clipped to this many of them: to -4 and 4. Inner products are in units of a step squared."""
# Tile of the Gram matrix: small enough for the cache, large enough for the product to run at full speed.
_TILE_ROWS, _TILE_COLUMNS = 512, 2048
# Integers up to these are exact in the floating-point type, and so are sums that stay below them.
_EXACT_FLOAT32, _EXACT_FLOAT64 = 2**24, 2**53
_MAX_INTEGER = 2**62
_MAX_THREADS = 8
_WORK_OF_A_THREAD = 10**9  # multiplications, about 10 milliseconds; less work is not worth a thread


def round_to_steps(
    Z: NDArray[Any],
    out: NDArray[Any] | None = None,
    steps_per_unit: float = 2.0**STEP_BITS,
    largest: int = LARGEST_STEP,
) -> NDArray[Any]:
    """Round whitened coordinates to integer steps and clip them; by default steps of 1/8, to +-4.

    Parameters
    ----------
    Z : float array
        Whitened rows. NaN becomes a point of the grid.
    out : float array, optional
        Output array, which may be ``Z`` itself.
    steps_per_unit : float
    largest : int
        The largest number of steps.

    Returns
    -------
    float array
        Integers from -largest to largest. The map works on each entry alone.
    """
    with np.errstate(all="ignore"):
        out = np.multiply(Z, steps_per_unit, out=out)
    np.rint(out, out=out)
    # The result is an integer of the grid for any overflow, and for NaN, which np.clip would pass through.
    np.fmax(out, -largest, out=out)
    result: NDArray[Any] = np.fmin(out, largest, out=out)
    return result


@dataclass(frozen=True)
class Centering:
    """Row centering of clipped inner products: G_ij = clip(K_ij - g_i - g_j + mean, low, high).

    Attributes
    ----------
    terms : int64 array of shape (n,)
        g of every row, from -rho to rho: a function of this row only, bit for bit.
    mean : int
    low, high : int
        The window, low <= 0 <= high. Public, like ``mean``.
    """

    terms: NDArray[np.int64]
    mean: int
    low: int
    high: int


def row_distance(
    X: Any,
    rho: int,
    a0: int,
    tau0: float,
    *,
    centering: Centering | None = None,
    bound: int | None = None,
    threads: int | None = None,
) -> int:
    """Return the row distance D of integer rows: 1-Lipschitz under replacement of a row.

    Parameters
    ----------
    X : array of shape (n, d)
        Integers, of any integer or floating-point dtype.
    rho : int
        Clip of the inner products, at least 0, in the units of ``X`` squared.
    a0 : int
        Clip of the negative row sums, at least 0, in the same units.
    tau0 : float
        Public threshold for a small statistic, usually the null median of `row_statistic_f0`. Only its integer part
        matters.
    centering : Centering, optional
        Centering for nulls that are not symmetric. Rows of zeros represent missing rows, and have G = 0 in any case.
    bound : int, optional
        Public bound on the absolute entries. It decides between single and double precision, and with
        them the running time; the result is the same. None takes the largest entry.
    threads : int, optional
        Default: the processors, at most 8, and one for small data. The result does not depend on it.

    Returns
    -------
    int
        From 0 to n.

    Raises
    ------
    InvalidParameter
        If exact 64-bit arithmetic is impossible for n, ``rho``, ``a0`` and ``tau0``, for any rows.
    InvalidData
        If an entry is not an integer, or exceeds ``bound``.

    Notes
    -----
    Time n^2 d / 2 multiplications, memory one tile for each thread beyond a copy of ``X`` in single precision.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.identity import row_distance
    >>> row_distance(np.ones((20, 4)), rho=2, a0=4, tau0=0)
    7
    """
    sums = row_sums(X, rho, centering=centering, bound=bound, threads=threads)
    window = None if centering is None else (centering.low, centering.high)
    return distance_of_row_sums(sums, rho, a0, tau0, window=window)


def row_sums(
    X: Any,
    rho: int,
    *,
    centering: Centering | None = None,
    bound: int | None = None,
    threads: int | None = None,
    signs: NDArray[np.int8] | None = None,
) -> NDArray[np.int64]:
    """Return the exact row sums of G: inner products clipped to +-rho and centered, with zero diagonal.

    Parameters and errors are the same as in `row_distance`. ``signs`` are -1 or 1 and have shape (n, m). Each column
    gives another dataset, whose rows are multiplied by it. All use the products of ``X``, so that ``centering`` must be
    None.

    Returns
    -------
    int64 array of shape (n,), or (n, m) with ``signs``
    """
    rho = check_integer("rho", rho, at_least=0)
    X = np.asarray(X)
    largest = _check_integer_rows(X, bound)
    n, d = X.shape
    if n == 0 or d == 0:
        return np.zeros(n if signs is None else signs.shape, dtype=np.int64)
    product = largest**2 * d
    # A clip beyond the largest product has no effect. This clip is exact in the dtype.
    clip = min(rho, product)
    if centering is None:
        dtype = _dtype(product, clip)
    else:
        clip = rho
        low, high = check_window(centering.low, centering.high)
        terms = centering.terms
        if terms.shape != (n,) or terms.dtype != np.int64 or np.abs(terms).max() > rho:
            raise refuse_data("terms", allowed="one 64-bit integer a row, from -rho to rho")
        dtype = _dtype(max(product, 3 * rho + abs(centering.mean)), max(-low, high))
    # Copy the rows and check them again: another process may write to the caller's memory, and products are read many
    # times.
    with np.errstate(all="ignore"):
        X = np.array(X, dtype=dtype, order="C")
    _check_integer_rows(X, largest)
    S = np.ones((n, 1), dtype=dtype) if signs is None else signs.astype(dtype)
    # A list iterator gives each tile once to the next free thread, so a busy core does not delay others.
    tiles = list(_upper_tiles(n))
    queue = iter(tiles)
    workers = min(len(tiles), _threads(n * n * d) if threads is None else threads)
    if workers <= 1:
        total = _sum_tiles(X, clip, centering, queue, S)
    else:
        # Use one BLAS thread per worker, because BLAS threads would wait for each other after every tile.
        with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
            totals = list(pool.map(lambda _: _sum_tiles(X, clip, centering, queue, S), range(workers)))
        total = np.stack(totals).sum(axis=0)
    return total[:, 0] if signs is None else total * signs


def _sum_tiles(
    X: NDArray[Any], clip: int, centering: Centering | None, tiles: Iterator[tuple[slice, slice]], S: NDArray[Any]
) -> NDArray[np.int64]:
    """Return the contribution of some tiles of G, and of their mirror images, to G times the columns of ``S``."""
    n = len(X)
    total = np.zeros(S.shape, dtype=np.int64)
    tile = np.empty(min(n, _TILE_ROWS) * min(n, _TILE_COLUMNS), dtype=X.dtype)
    if centering is not None:
        present = np.asarray(X.any(axis=1))
        terms = centering.terms.astype(X.dtype)
    for rows, columns in tiles:
        shape = (rows.stop - rows.start, columns.stop - columns.start)
        G = tile[: shape[0] * shape[1]].reshape(shape)
        np.matmul(X[rows], X[columns].T, out=G)
        np.clip(G, -clip, clip, out=G)
        if centering is not None:
            # Integers of at most 3 rho + |mean|: exact in the dtype, and so symmetric.
            np.subtract(G, (terms[rows] - centering.mean)[:, None], out=G)
            np.subtract(G, terms[columns], out=G)
            np.clip(G, centering.low, centering.high, out=G)
            G[~present[rows]] = 0
            G[:, ~present[columns]] = 0
        if rows == columns:
            np.fill_diagonal(G, 0)
        # Sums of at most 2048 entries or their negatives: exact in the dtype, by its choice, in any order.
        total[rows] += as_int64(G @ S[columns])
        if rows != columns:
            total[columns] += as_int64(G.T @ S[rows])
    return total


def row_statistic_f0(row_sums: NDArray[np.int64], a0: int) -> int:
    """Return f_0 = sum r + 2 sum (-a0 - r)_+, the statistic whose null median is ``tau0``."""
    r = np.asarray(row_sums, dtype=np.int64)
    return int(r.sum()) + 2 * int(np.maximum(-a0 - r, 0).sum())


def distance_of_row_sums(
    row_sums: NDArray[np.int64], rho: int, a0: int, tau0: float, *, window: tuple[int, int] | None = None
) -> int:
    """Return the row distance D from the row sums, in O(n log n); see `row_distance`.

    ``window`` has the limits of the clipped products: (-rho, rho), unless they were centered.
    """
    rho = check_integer("rho", rho, at_least=0)
    a0 = check_integer("a0", a0, at_least=0)
    low, high = (-rho, rho) if window is None else check_window(*window)
    width = high - low
    # f_k and its increments are integers: only the integer part of tau0 can matter.
    tau = math.floor(check_real("tau0", tau0))
    r = np.sort(np.asarray(row_sums, dtype=np.int64))
    n = r.size
    # Use the largest possible sum of n - 1 products. A check of the sums themselves would reveal the rows.
    others = max(n - 1, 0)
    # Every integer below is at most this: sums of r, a_k times a count, and the thresholds.
    if 4 * n * (others * max(-low, high) + a0 + width * (n + 1)) + abs(tau) >= _MAX_INTEGER:
        raise InvalidParameter(
            "rho, a0 and tau0 must be small enough for exact 64-bit arithmetic at this number of rows"
        )
    if n and not others * low <= r[0] <= r[-1] <= others * high:
        raise refuse_data("row_sums", allowed=f"sums of n - 1 products between {low} and {high}, as row_sums returns")
    k = np.arange(n + 1, dtype=np.int64)
    top = np.concatenate([[0], np.cumsum(np.maximum(r[::-1], 0))])
    lowest = np.concatenate([[0], np.cumsum(r)])
    a = a0 + width * k
    below = np.searchsorted(r, -a)  # how many r_i < -a_k
    f = lowest[n] - 2 * top + 2 * (-a * below - lowest[below])
    small = f <= tau + 2 * a0 * k + 2 * width * k * (k - 1)
    return int(np.argmax(small)) if small.any() else n


def check_window(low: int, high: int) -> tuple[int, int]:
    """Return a window that holds 0, where the diagonal and missing rows are."""
    low = check_integer("low", low, at_least=-_EXACT_FLOAT64, at_most=0)
    return low, check_integer("high", high, at_least=0, at_most=_EXACT_FLOAT64)


def _check_integer_rows(X: NDArray[Any], bound: int | None) -> int:
    """Return a bound on the absolute entries, after checking that they are integers."""
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise refuse_data("X", allowed="a two-dimensional array of integers")
    if X.size == 0:
        return 0
    low, high = X.min(), X.max()
    # A NaN makes an extreme NaN, and fails the comparison; unsigned and 64-bit entries compare exactly.
    if not (low >= -(2**26) and high <= 2**26):
        raise refuse_data("X", allowed="hold integers of size at most 2^26")
    if X.dtype.kind == "f" and not np.array_equal(np.rint(X), X):
        raise refuse_data("X", allowed="hold integers", remedy="Round the rows to a lattice first.")
    largest = max(-int(low), int(high))
    if bound is None:
        return largest
    bound = check_integer("bound", bound, at_least=0)
    if largest > bound:
        raise refuse_data("X", got="at least one entry beyond it", allowed="within its public bound")
    return bound


def _dtype(product: int, clip: int) -> Any:
    """Return the fastest type in which products, and tile sums of clipped ones, are exact."""
    largest = max(product, clip * _TILE_COLUMNS)
    if largest < _EXACT_FLOAT32:
        return np.float32
    if largest < _EXACT_FLOAT64:
        return np.float64
    raise refuse_data(
        "X", allowed="small enough for exact arithmetic", remedy="Its entries squared, times d, must be below 2^53."
    )


def _threads(multiplications: int) -> int:
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(available, _MAX_THREADS, multiplications // _WORK_OF_A_THREAD))


def _upper_tiles(n: int) -> Iterator[tuple[slice, slice]]:
    """Yield tiles that cover the upper triangle: the diagonal blocks, and the tiles to their right."""
    for start in range(0, n, _TILE_ROWS):
        stop = min(start + _TILE_ROWS, n)
        yield slice(start, stop), slice(start, stop)
        for left in range(stop, n, _TILE_COLUMNS):
            yield slice(start, stop), slice(left, min(left + _TILE_COLUMNS, n))


# Constants from the null distribution of inner products, without data

# Any constants are private. Good constants place tau0 near the median of f0.


def normal_clipped_square(d: int, rho: int, variance: float) -> float:
    """Return E min(<x, y>^2, rho^2) for rows of d columns with this ``variance``, by a normal approximation."""
    t = rho / (variance * math.sqrt(d))
    density = math.exp(-t * t / 2) / math.sqrt(2 * math.pi)
    square = (2 * float(ndtr(t)) - 1) - 2 * t * density + 2 * t * t * float(ndtr(-t))
    return variance**2 * d * square


def approximate_null_f0(n: int, a0: int, clipped_square: float) -> float:
    """Return a closed approximation of the null mean of `row_statistic_f0`.

    Clipped inner products have mean zero and this mean square. Row sums are assumed to be normal. Any public tau0 is
    valid, and this one needs no simulation.
    """
    spread = math.sqrt((n - 1) * clipped_square)
    if spread == 0:
        return 0.0
    s = a0 / spread
    return 2 * n * spread * (math.exp(-s * s / 2) / math.sqrt(2 * math.pi) - s * float(ndtr(-s)))


# The row-centered kernel of two-valued columns

#     G(x, y) = K(x, y) - g(x) - g(y) + c,  K = clip(<x, y>, -rho, rho),  g(x) = E K(x, y) over y of the null,  c = E g,

# all integers. If columns are skewed, g is not constant. The part of K that is a sum over single rows then hides the
# effect that the test detects, and toward the middle counteracts it.

# g must be a function of the row only, **bit for bit**. Otherwise one row would change the products of others. A
# matrix product with a vectorized exponential differed for 39 of 20,000 rows by their position in a block. So g is a
# table of all rows, or consists of additions and multiplications of single numbers in a fixed order. Proof:
# docs/proofs/row-distance.md.

_TABLED_COLUMNS = 12
"""Largest number of columns for which g is a table of all 2^d rows."""
# For more columns, g is an integral over the characteristic function of <x, y>. These are its limit, over sqrt(d), and
# the number of its nodes.
_REACH, _NODES = 20.0, 64
_REACH_OF_MEAN, _NODES_OF_MEAN = 400.0, 8192
_ROWS_AT_ONCE = 1024
_PAIRED_ROWS = 512
"""Number of rows whose pairs estimate the range of G: all rows, or rows drawn from the null with a public seed."""
_CUT_OFF = 0.1
_TABLES_KEPT = 8


@dataclass(frozen=True)
class Window:
    """Public integers low <= 0 <= high to which G is clipped, and the null mean square of the clipped G."""

    low: int
    high: int
    square: float


class RowCentering:
    """Public g, c and range of G, for columns that are ``high`` with probability ``up`` and otherwise ``low``.

    Parameters
    ----------
    high, low : int64 array of shape (d,)
        Both values of every column on the grid, low < 0 < high.
    up : array of shape (d,)
    clip : int
        rho, in steps squared.

    Attributes
    ----------
    mean : int
        c.
    """

    def __init__(self, high: NDArray[np.int64], low: NDArray[np.int64], up: NDArray[np.float64], clip: int) -> None:
        self._high, self._low, self._up, self._clip = high, low, up, clip
        self._table: NDArray[np.int64] | None = None
        if high.size <= _TABLED_COLUMNS:
            rows, chances = _all_rows(high, low, up)
            exact = _means_of_products(rows, rows, chances, clip)
            self._table = as_int64(np.rint(exact))
            self.mean = round(float(chances @ exact))
        else:
            self._group = 8 if high.size <= 256 else 4
            self._nodes = _Nodes.build(clip, _scale(high, low, up), _REACH, _NODES)
            self._real, self._imaginary = _factor_tables(high, low, up, self._nodes.places, self._group)
            # E G = E K - 2 E g + c. This subtracts the average error of E K due to the small number of nodes.
            fine = _Nodes.build(clip, _scale(high, low, up), _REACH_OF_MEAN, _NODES_OF_MEAN)
            self.mean = round(2 * self._nodes.expected(high, low, up) - fine.expected(high, low, up))
        self._values, self._weights = self._pairs()

    def terms(self, steps: NDArray[np.float64] | NDArray[np.float32]) -> NDArray[np.int64]:
        """Return g of every row. It depends on the signs of this row only, not on other rows or positions."""
        positive: NDArray[np.bool_] = np.greater(steps, 0)
        if self._table is not None:
            place = 2 ** np.arange(positive.shape[1], dtype=np.int64)
            table: NDArray[np.int64] = self._table[positive @ place]
            return table
        result = np.empty(len(positive), dtype=np.int64)
        for start in range(0, len(positive), _ROWS_AT_ONCE):
            piece = slice(start, start + _ROWS_AT_ONCE)
            result[piece] = self._integrals(positive[piece])
        return result

    def _integrals(self, positive: NDArray[np.bool_]) -> NDArray[np.int64]:
        n, d = positive.shape
        groups = len(self._real)
        padded = np.zeros((n, groups * self._group), dtype=np.bool_)
        padded[:, :d] = positive
        codes = padded.reshape(n, groups, self._group) @ 2 ** np.arange(self._group, dtype=np.int64)
        real, imaginary = self._real[0][codes[:, 0]], self._imaginary[0][codes[:, 0]]
        for group in range(1, groups):
            a, b = self._real[group][codes[:, group]], self._imaginary[group][codes[:, group]]
            # Products and sums of two numbers have IEEE rounding on every machine and at every position.
            real, imaginary = real * a - imaginary * b, real * b + imaginary * a
        terms = imaginary * self._nodes.weights
        while terms.shape[1] > 1:
            half = terms.shape[1] // 2
            terms = terms[:, :half] + terms[:, half:]
        # An integral of the clip exceeds it only by rounding errors. Clip it, because the proof requires this range.
        return np.asarray(as_int64(np.clip(np.rint(terms[:, 0]), -self._clip, self._clip)))

    def window(self, n: int) -> Window:
        """Return the narrowest window that leaves the null statistic of n rows approximately unchanged.

        The part beyond either limit has a mean of at most a tenth of the standard deviation of G over n. For the sum of
        the n^2 products, this is a fourteenth of its standard deviation.
        """
        values, weights = self._values, self._weights
        allowed = _CUT_OFF * math.sqrt(float(weights @ values**2)) / n
        high = math.ceil(_end(values, weights, allowed))
        low = -math.ceil(_end(-values[::-1], weights[::-1], allowed))
        return Window(low, high, float(weights @ np.clip(values, low, high) ** 2))

    def _pairs(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return values of G before its clip under the null, ascending, with their weights."""
        d = self._high.size
        if 2**d <= _PAIRED_ROWS:
            rows, chances = _all_rows(self._high, self._low, self._up)
            weights = np.outer(chances, chances)
        else:
            # Use a separate seed: constants from the draws of a calibration would change its level.
            signs = np.random.default_rng(0).random((_PAIRED_ROWS, d)) < self._up
            rows = np.where(signs, self._high, self._low).astype(np.float64)
            weights = 1.0 - np.eye(_PAIRED_ROWS)
        g = self.terms(rows)
        G = np.clip(rows @ rows.T, -self._clip, self._clip) - g[:, None] - g + self.mean
        order = np.argsort(G, axis=None, kind="stable")
        return G.ravel()[order], weights.ravel()[order] / weights.sum()


def row_centering(high: NDArray[np.int64], low: NDArray[np.int64], up: NDArray[np.float64], clip: int) -> RowCentering:
    """Return the `RowCentering` of a null. It is cached, because its tables take up to a second."""
    return _row_centering(high.tobytes(), low.tobytes(), up.tobytes(), clip)


@lru_cache(maxsize=_TABLES_KEPT)
def _row_centering(high: bytes, low: bytes, up: bytes, clip: int) -> RowCentering:
    return RowCentering(
        np.frombuffer(high, np.int64), np.frombuffer(low, np.int64), np.frombuffer(up, np.float64), clip
    )


def _end(values: NDArray[np.float64], weights: NDArray[np.float64], allowed: float) -> float:
    """Return the smallest value v >= 0 with E (V - v)_+ at most ``allowed``."""
    # From the largest down: E (V - v_i)_+ = sum over j > i of P(V >= v_j) (v_j - v_{j-1}).
    tail = np.cumsum(weights[::-1])[::-1]
    excess = np.concatenate([np.cumsum((tail[1:] * np.diff(values))[::-1])[::-1], [0.0]])
    return max(0.0, float(values[np.argmax(excess <= allowed)]))


def _all_rows(
    high: NDArray[np.int64], low: NDArray[np.int64], up: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return all rows and their probabilities. In row k, column j is high if bit j of k is set."""
    bits = (np.arange(2**high.size)[:, None] >> np.arange(high.size)) & 1 == 1
    return np.where(bits, high, low).astype(np.float64), np.prod(np.where(bits, up, 1 - up), axis=1)


def _means_of_products(
    rows: NDArray[np.float64], others: NDArray[np.float64], chances: NDArray[np.float64], clip: int
) -> NDArray[np.float64]:
    result = np.empty(len(rows))
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        piece = slice(start, start + _ROWS_AT_ONCE)
        result[piece] = np.clip(rows[piece] @ others.T, -clip, clip) @ chances
    return result


def _scale(high: NDArray[np.int64], low: NDArray[np.int64], up: NDArray[np.float64]) -> float:
    """Return the approximate standard deviation of <x, y>. It ignores that the grid makes means nonzero."""
    return math.sqrt(float(np.sum((up * high**2 + (1 - up) * low**2) ** 2)))


@dataclass(frozen=True)
class _Nodes:
    """The midpoint rule for E clip(U, -rho, rho) = (2/pi) int_0^inf sin(rho t)/t^2 Im E exp(itU) dt."""

    places: NDArray[np.float64]
    weights: NDArray[np.float64]

    @classmethod
    def build(cls, clip: int, scale: float, reach: float, count: int) -> _Nodes:
        step = reach / (scale * count)
        places = np.asarray(step * (np.arange(count) + 0.5), dtype=np.float64)
        weights: NDArray[np.float64] = 2 / math.pi * step * np.sin(clip * places) / places**2
        return cls(places, weights)

    def expected(self, high: NDArray[np.int64], low: NDArray[np.int64], up: NDArray[np.float64]) -> float:
        """Return the mean of clip(<x, y>) over both rows."""
        transform = np.ones(self.places.size, dtype=np.complex128)
        for h, lo, p in zip(high.tolist(), low.tolist(), up.tolist(), strict=True):
            products, chances = (h * h, h * lo, lo * lo), (p * p, 2 * p * (1 - p), (1 - p) ** 2)
            transform *= sum(
                chance * np.exp(1j * self.places * product) for chance, product in zip(chances, products, strict=True)
            )
        return float(transform.imag @ self.weights)


def _factor_tables(
    high: NDArray[np.int64], low: NDArray[np.int64], up: NDArray[np.float64], places: NDArray[np.float64], group: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return real and imaginary parts of E exp(it<x, y>) over a group of columns, for each of its 2^group rows.

    Shape (groups, 2^group, nodes). The numbers are public. Their rounding does not matter if they stay constant.
    """
    d = high.size
    groups = -(-d // group)
    tables = np.ones((groups, 2**group, places.size), dtype=np.complex128)
    codes = np.arange(2**group)
    for j in range(d):
        h, lo, p = int(high[j]), int(low[j]), float(up[j])
        pair = np.stack([p * np.exp(1j * places * x * h) + (1 - p) * np.exp(1j * places * x * lo) for x in (lo, h)])
        tables[j // group] *= pair[(codes >> (j % group)) & 1]
    return np.ascontiguousarray(tables.real), np.ascontiguousarray(tables.imag)
