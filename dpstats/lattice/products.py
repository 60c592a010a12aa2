"""Exact sums of products of integer rows: Gram matrices and weighted sums, at the speed of floating-point products.

Integers below 2^53 add up exactly as floats, in any order and on any processor. Blocks are so small that none
of their partial sums reaches this limit. Block sums are added in 64-bit integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpstats.data.rows import add_sums
from dpstats.data.values import as_int64
from dpstats.errors import ScaleOutOfRange
from dpstats.lattice.rounding import compile_loops, is_compiled, squared_norms
from dpstats.lattice.sums import default_threads
from dpstats.parallel import one_blas_thread

ROWS = 1 << 12
"""Largest number of rows of one exact product."""

ROW_BITS = 20
"""A row's norm is at most 2^20 steps: 2^12 products of two such rows add up to less than 2^53."""

_EXACT_BITS, _SUM_BITS, _COARSEST = 53, 62, 8
BESIDE = 128  # rows, a power of two
_COLUMNS, _LINE = 32, 64
"""Columns up to which loops form products, and rows that they hold side by side."""

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Sums = dict[str, Integers]
Made = TypeVar("Made")
Item = TypeVar("Item")
Result = TypeVar("Result")


def row_bits(n: int) -> int:
    """Return the largest number of bits of integer rows with sums of n products of two entries below 2^62."""
    return min(ROW_BITS, (_SUM_BITS - n.bit_length()) // 2)


def finest(made: Callable[[int], Made], bits: int) -> Made:
    """Return the plan on the finest lattice for which noise can be drawn. The choice is public."""
    for fewer in range(bits, _COARSEST, -2):
        try:
            return made(fewer)
        except ScaleOutOfRange:
            continue
    return made(_COARSEST)


def factor_bits(p: int, bits: int) -> int:
    """Return the largest number of bits of a matrix with exact products with rows of p entries below 2^bits."""
    return _EXACT_BITS - bits - max(1, (p - 1).bit_length())


def dyadic(matrix: Floats, bits: int) -> Floats:
    """Return a public matrix whose rows are integers of this many bits, each row times a power of two."""
    _, exponent = np.frexp(np.max(np.abs(matrix), axis=-1, keepdims=True, initial=0.0))
    unit = np.ldexp(1.0, exponent - bits)
    rounded: Floats = np.rint(matrix / unit) * unit
    return rounded


def gram(rows: Floats) -> Integers:
    """Return the sum over integer rows of the products of their entries: shape (p, p)."""
    p = rows.shape[1]
    if not (0 < p <= _COLUMNS and is_compiled(rows)):
        return sum((as_int64(rows[some].T @ rows[some]) for some in cut_rows(len(rows))), np.zeros((p, p), np.int64))
    size = -(-p // 4) * 4
    lines, block, found = np.zeros((size, _LINE)), np.zeros((size, size)), np.zeros((size, size), dtype=np.int64)
    _loop()(rows, ROWS, lines, block, found)
    return found[:p, :p]


@cache
def _loop() -> Any:
    # Products of a block and their sums are exact, so that any order is as good.
    return (compile_loops(add_products, fastmath={"reassoc", "contract"}) or (add_products,))[0]


def add_products(rows: Any, most: int, lines: Any, block: Any, found: Any) -> None:
    """Add the products of columns to ``found``, exactly for each ``most`` rows.

    A few rows at a time are laid out by columns, whose number is a multiple of four. Tests run this loop uncompiled.
    """
    p, size = rows.shape[1], lines.shape[1]
    for first in range(0, len(rows), most):
        last = min(first + most, len(rows))
        block[:] = 0.0
        for start in range(first, last, size):
            count = min(size, last - start)
            for i in range(count):
                row = rows[start + i]
                for j in range(p):
                    lines[j, i] = row[j]
            lines[:, count:] = 0.0
            for k in range(0, p, 2):
                y, z = lines[k], lines[k + 1]
                for j in range(0, k + 2, 4):
                    a, b, c, d = lines[j], lines[j + 1], lines[j + 2], lines[j + 3]
                    ay = by = cy = dy = az = bz = cz = dz = 0.0
                    for i in range(size):
                        v, w = y[i], z[i]
                        ay += a[i] * v
                        by += b[i] * v
                        cy += c[i] * v
                        dy += d[i] * v
                        az += a[i] * w
                        bz += b[i] * w
                        cz += c[i] * w
                        dz += d[i] * w
                    block[j, k] += ay
                    block[j + 1, k] += by
                    block[j + 2, k] += cy
                    block[j + 3, k] += dy
                    block[j, k + 1] += az
                    block[j + 1, k + 1] += bz
                    block[j + 2, k + 1] += cz
                    block[j + 3, k + 1] += dz
        for j in range(p):
            for k in range(j, p):
                found[j, k] += np.int64(block[j, k])
                found[k, j] = found[j, k]


def weighted(weights: Floats, rows: Floats) -> Integers:
    """Return the sum of rows times integers of at most 2^ROW_BITS: shape (p,)."""
    parts = [weights[some] @ rows[some] for some in cut_rows(len(rows))]
    return np.asarray(as_int64(np.stack(parts)).sum(axis=0))


def multiply(rows: NDArray[Any], matrix: Floats) -> Floats:
    """Return ``rows @ matrix.T`` for a matrix whose products are exact. Rows may be float32."""
    products = np.empty((len(rows), len(matrix)))
    turned = np.ascontiguousarray(matrix.T)
    for some in cut_rows(len(rows)):
        np.matmul(rows[some].astype(np.float64, copy=False), turned, out=products[some])
    return products


def apply_columns(operation: np.ufunc, rows: Floats, values: Floats) -> None:
    """Overwrite contiguous rows by ``operation(rows, values)``, with one value per column.

    Many rows are laid side by side, because numpy's loops over a few columns are slow.
    """
    beside = math.gcd(len(rows), BESIDE)
    lines = rows.reshape(-1, beside * rows.shape[1]) if rows.size else rows
    operation(lines, np.tile(values, beside), out=lines)


def inside_ball(rows: Floats, radius: Floats | float, steps: int, norm: str = "l2") -> Floats:
    """Return integer rows whose norm is at most ``steps``, for rows whose norm is at most ``radius``, each its own.

    The scale leaves room for rounding. A row that is still outside becomes zero.
    """
    scale = np.reshape((steps - compute_room(rows.shape[1], norm)) / radius, (-1, 1))
    rounded: Floats = np.rint(rows * scale)
    beyond = ~(powered_norms(rounded, norm) <= float(steps) ** (2 if norm == "l2" else 1))
    if beyond.any():
        rounded[beyond] = 0.0
    return rounded


def compute_room(p: int, norm: str) -> float:
    """Return the room for rounding that a row of p entries needs, in steps."""
    return float(np.sqrt(p) if norm == "l2" else p) / 2 + 1


def powered_norms(rows: Floats, norm: str) -> Floats:
    """Return the squared "l2" norm of each row, or its "l1" norm.

    They are exact for integers whose sums are below 2^53.
    """
    return squared_norms(rows) if norm == "l2" else np.einsum("ij->i", np.abs(rows))


def summed(work: Callable[[slice], Mapping[str, Integers]], n: int, p: int) -> Sums:
    """Return the sums over blocks of n rows of what ``work`` returns for each, on threads."""
    return sum_items(work, cut_rows(n), n * p)


def cut_rows(n: int, size: int = ROWS) -> list[slice]:
    """Return the blocks of n rows: at least one."""
    return [slice(start, min(start + size, n)) for start in range(0, max(n, 1), size)]


def sum_items(work: Callable[[Item], Mapping[str, Integers]], items: Sequence[Item], entries: int) -> Sums:
    """Return the sums of the results of ``work`` over all items, on as many threads as the entries are worth."""

    return add_sums(_run_threads(lambda some: add_sums(map(work, some)), items, entries))


def map_items(work: Callable[[Item], Result], items: Sequence[Item], entries: int) -> list[Result]:
    """Return the results of ``work``, item by item of each thread."""
    parts = _run_threads(lambda some: [work(item) for item in some], items, entries)
    return [found for part in parts for found in part]


def _run_threads(work: Callable[[Sequence[Item]], Result], items: Sequence[Item], entries: int) -> list[Result]:
    """Return the results of ``work`` for the items of each thread."""

    def quiet(some: Sequence[Item]) -> Result:
        # errstate belongs to the thread: also what only a caller's settings would raise would tell of a row.
        with np.errstate(all="ignore"):
            return work(some)

    threads = min(default_threads(entries), len(items))
    if len(items) < 2:
        return [quiet(items)]
    with one_blas_thread():
        if threads == 1:
            return [quiet(items)]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(quiet, [items[first::threads] for first in range(threads)]))


@lru_cache(maxsize=8)
def above_diagonal(p: int) -> tuple[Integers, Integers]:
    """Return the places above the diagonal of a p by p matrix, row by row."""
    rows, columns = np.triu_indices(p, 1)
    return rows, columns
