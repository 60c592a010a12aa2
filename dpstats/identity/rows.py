"""The row-distance statistic: the number of rows that must change before a statistic falls below its null median."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.data.parameters import check_integer, check_real
from dpstats.errors import InvalidParameter, refuse_data
from dpstats.parallel import one_blas_thread

# Let G_ij be a clipped inner product of two rows, or 0 if i = j, and r = G 1. Let w be the width of a window that
# contains 0 and every G_ij. For k = 0..n and a_k = a0 + w k, define
#
#     f_k = sum_i r_i - 2 sum_{k largest} (r_i)_+ + 2 sum_i (-a_k - r_i)_+ ,
#     D   = min{k : f_k <= tau0 + 2 a0 k + 2 w k (k - 1)}        (n if there is none).
#
# Replacing one row changes D by at most one. The proof (docs/proofs/row-distance.md) uses symmetry, the zero diagonal,
# the width of the window, and that G_ij is a function of its two rows. It requires exact arithmetic, because ties in
# floating point break it. So rows are integers. Products use floating point only if every partial sum is an exactly
# represented integer, and everything after the products is int64.
#
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
) -> NDArray[np.int64]:
    """Return the exact row sums of G: inner products clipped to +-rho and centered, with zero diagonal.

    Parameters and errors are the same as in `row_distance`.

    Returns
    -------
    int64 array of shape (n,)
    """
    rho = check_integer("rho", rho, at_least=0)
    X = np.asarray(X)
    largest = _check_integer_rows(X, bound)
    n, d = X.shape
    if n == 0 or d == 0:
        return np.zeros(n, dtype=np.int64)
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
    # A list iterator gives each tile once to the next free thread, so a busy core does not delay others.
    tiles = list(_upper_tiles(n))
    queue = iter(tiles)
    workers = min(len(tiles), _threads(n * n * d) if threads is None else threads)
    if workers <= 1:
        return _sum_tiles(X, clip, centering, queue)
    # Use one BLAS thread per worker, because BLAS threads would wait for each other after every tile.
    with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
        totals = list(pool.map(lambda _: _sum_tiles(X, clip, centering, queue), range(workers)))
    total: NDArray[np.int64] = np.stack(totals).sum(axis=0)
    return total


def _sum_tiles(
    X: NDArray[Any], clip: int, centering: Centering | None, tiles: Iterator[tuple[slice, slice]]
) -> NDArray[np.int64]:
    """Return the contribution of some tiles of G, and of their mirror images, to its row sums."""
    n = len(X)
    total = np.zeros(n, dtype=np.int64)
    tile = np.empty(min(n, _TILE_ROWS) * min(n, _TILE_COLUMNS), dtype=X.dtype)
    ones = np.ones(min(n, max(_TILE_ROWS, _TILE_COLUMNS)), dtype=X.dtype)
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
        # Sums of at most 2048 entries: exact in the dtype, by its choice, in any order.
        total[rows] += as_int64(G @ ones[: shape[1]])
        if rows != columns:
            total[columns] += as_int64(ones[: shape[0]] @ G)
    return total


def row_statistic_f0(row_sums: NDArray[np.int64], a0: int) -> int:
    """Return f_0 = sum r + 2 sum (-a0 - r)_+, the statistic whose null median is ``tau0``."""
    r = np.asarray(row_sums, dtype=np.int64)
    return int(r.sum()) + 2 * int(np.maximum(-a0 - r, 0).sum())


def distance_of_row_sums(
    row_sums: NDArray[np.int64],
    rho: int,
    a0: int,
    tau0: float,
    *,
    window: tuple[int, int] | None = None,
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
        raise refuse_data(
            "row_sums", allowed=f"sums of n - 1 products between {low} and {high}, as row_sums returns"
        )
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
        "X",
        allowed="small enough for exact arithmetic",
        remedy="Its entries squared, times d, must be below 2^53.",
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
