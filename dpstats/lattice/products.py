"""Exact sums of products of integer rows: Gram matrices and weighted sums, at the speed of floating-point products.

Integers below 2^53 add up exactly as floats, in any order and on any processor. Blocks are so small that none
of their partial sums reaches this limit. Block sums are added in 64-bit integers.

A compiled loop also maps rows into a ball and rounds them, a few rows at a time, while they are in the cache. Before
rounding, numpy has another order of operations. So a row with a number so near to half a step that errors of floats may
matter is left out, and numpy adds it. Proof: docs/proofs/lattice.md, "Mapped rows".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpstats.data.rows import add_sums
from dpstats.data.values import as_int64
from dpstats.errors import ScaleOutOfRange
from dpstats.lattice.rounding import compile_loops, is_compiled, read_ahead, squared_norms
from dpstats.lattice.sums import default_threads
from dpstats.parallel import one_blas_thread

ROWS = 1 << 12
"""Largest number of rows of one exact product."""

ROW_BITS = 20
"""A row's norm is at most 2^20 steps: 2^12 products of two such rows add up to less than 2^53."""

_EXACT_BITS, _SUM_BITS, _COARSEST = 53, 62, 8
BESIDE = 128  # rows, a power of two

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
    found = compute_gram(rows)
    if found is not None:
        return found
    p = rows.shape[1]
    return sum((as_int64(rows[some].T @ rows[some]) for some in cut_rows(len(rows))), np.zeros((p, p), np.int64))


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
    """Return the sums of the results of ``work`` for blocks of n rows, computed on threads."""
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
        # errstate belongs to the thread. An error that only the settings of a caller raise would reveal a row, too.
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


# Rows that are mapped into a ball, rounded and added up, in one compiled pass

_COLUMNS, _LINE = 64, 128
"""Columns up to which the loop is quick, and rows that it holds side by side."""
_UNIT = 2.0**-53  # the largest relative error of an operation


@dataclass(frozen=True, eq=False)
class BallMap:
    """Public: the map of a row x to integers of an l2 norm of at most ``steps``.

    z are the entries of x, or (x - center) * inverse clipped to ``limit``. The row w = matrix @ z + constant becomes
    w * size / max(|w|, least), rounded.

    Attributes
    ----------
    matrix : array of shape (p, d)
    constant : array of shape (p,)
    size, least : float
    steps : int
    center, inverse : arrays of shape (d,), optional
    limit : float
    exact : bool
        Whether w has no error of floats.
    """

    matrix: Floats
    constant: Floats
    size: float
    least: float
    steps: int
    center: Floats | None = None
    inverse: Floats | None = None
    limit: float = math.inf
    exact: bool = True

    def serves(self, rows: NDArray[Any]) -> bool:
        """Return whether the loop is available for rows, and quicker than numpy."""
        return fits(rows.shape[1]) and is_compiled(rows)

    @cached_property
    def errors(self) -> tuple[float, float, float]:
        """Bounds of the difference to numpy's numbers before rounding, in steps times max(|w|, least).

        For each unit of the largest entry of z, and of max(|w|, least). Rows scaled by their norms have the third times
        as much, because norms have errors. Proof: docs/proofs/lattice.md, "Mapped rows".
        """
        p, d = self.matrix.shape
        largest = 0.0 if self.exact else float(np.abs(self.matrix).sum(axis=1).max(initial=0.0))
        return (5 * d + 16) * _UNIT * largest * self.size, 16 * _UNIT * self.size, 1 + math.sqrt(p)


_AS_THEY_ARE = BallMap(np.empty((0, 0)), np.empty(0), 0.0, 0.0, 0)


@dataclass(frozen=True, eq=False)
class Wanted:
    """The sums that are wanted over integer rows k.

    Attributes
    ----------
    constants : array of shape (n_constants,)
        Constants before k. The second has the sign of its row.
    signs : array of shape (n,)
    products : bool
        The products of all entries, with the constants.
    weights : array of shape (n,)
        The products of the integers nearest to k times the weight of a row.
    parts : array of shape (n,)
        Numbers in [-1, 1]. An integer v is the one nearest to a part times 2^bits least / max(|w|, least).
    gradient, meat : bool
        The sum of v k, and the products of the integers nearest to v k / 2^bits.
    bits : int
    stretch, roots : arrays of shape (n,)
        Factors of w, and of the scaled row and its part.
    powers : bool
        The sums of squares of k^2 / 2^bits and of |k|^2 / 2^bits, rounded; and the number of rows with |w| > least.
    squares : array of shape (n,)
        Room for |w|^2, up to errors of floats. No sums then.
    """

    constants: Floats | None = None
    signs: Floats | None = None
    products: bool = False
    weights: NDArray[Any] | None = None
    parts: Floats | None = None
    gradient: bool = False
    meat: bool = False
    bits: int = 0
    stretch: Floats | None = None
    roots: Floats | None = None
    powers: bool = False
    squares: Floats | None = None


def fits(columns: int) -> bool:
    """Return whether the loop is quicker than numpy for rows with this many columns, mapped to no more entries."""
    return 0 < columns < _COLUMNS


def norm_error(p: int) -> float:
    """Return a bound of the relative difference of two squared norms of p exact numbers, each times a factor."""
    return 4 * (p + 4) * _UNIT


class Found(NamedTuple):
    """Sums over rows, which are 0 if they are not wanted; and the rows that are left out."""

    products: Integers
    weighted: Integers
    meat: Integers
    gradient: Integers
    fourths: Integers
    norms: Integers
    beyond: Integers
    left: Integers


def make_panels(n: int, d: int) -> NDArray[np.float32]:
    """Return zeros for n rows of d entries in panels: a panel has its rows column by column."""
    return np.zeros((-(-n // _LINE), d, _LINE), dtype=np.float32)


def cut_panels(panels: NDArray[np.float32], where: slice) -> NDArray[np.float32]:
    """Return the panels of some rows, from the first row of a panel on."""
    return panels[where.start // _LINE : -(-where.stop // _LINE)]


def to_panels(rows: NDArray[Any]) -> NDArray[np.float32]:
    """Return rows in panels."""
    panels = make_panels(*rows.shape)
    whole = np.zeros((len(panels) * _LINE, rows.shape[1]), dtype=np.float32)
    whole[: len(rows)] = rows
    panels[:] = np.swapaxes(whole.reshape(len(panels), _LINE, rows.shape[1]), 1, 2)
    return panels


def from_panels(panels: NDArray[np.float32], n: int) -> NDArray[np.float32]:
    """Return the first n rows of panels as a table."""
    return np.swapaxes(panels, 1, 2).reshape(-1, panels.shape[1])[:n]


def sum_mapped(rows: NDArray[Any], to: BallMap, wanted: Wanted, n: int | None = None) -> Found:
    """Return sums over the mapped rows of a table, or of panels with n rows."""
    rows = np.ascontiguousarray(rows)
    n, d = len(rows) if n is None else n, rows.shape[1]
    maps, constants = to.matrix.size > 0, _replace_none(wanted.constants)
    q = len(to.matrix) if maps else d
    p = q + constants.size
    width, tall = _pad(d), _pad(p)
    table = np.zeros((_pad(q), width + 1))
    if maps:
        table[:q, :d], table[:q, -1] = to.matrix, to.constant
    found = np.zeros((4, tall, tall), dtype=np.int64)
    left = np.empty(n if maps else 0, dtype=np.int64)
    count = _loop()(
        rows,
        n,
        ROWS,
        maps,
        p,
        _replace_none(to.center),
        _replace_none(to.inverse),
        np.array([to.limit, to.size, to.least, float(to.steps) ** 2, *to.errors]),
        table,
        constants,
        _replace_none(wanted.signs),
        _replace_none(wanted.stretch),
        _replace_none(wanted.roots),
        _replace_none(wanted.parts),
        _replace_none(wanted.weights),
        np.array([wanted.products, wanted.weights is not None, wanted.meat]),
        wanted.gradient,
        wanted.powers,
        wanted.bits,
        _replace_none(wanted.squares),
        _make_lines(max(width, tall) + tall + 9),
        found,
        left,
    )
    matrices = found[:3, :p, :p]
    if constants.size:  # they are the last lines
        order = np.arange(-constants.size, q)
        matrices = matrices[:, order[:, None], order]
    products, weighted, meat = matrices
    gradient, fourths, numbers = found[3, :3]
    return Found(products, weighted, meat, gradient[:q], fourths[:q], numbers[:1], numbers[1:2], left[:count])


def compute_gram(rows: Floats) -> Integers | None:
    """Return the sum of the products of integer rows, or None if numpy is quicker."""
    if not (0 < rows.shape[1] <= _COLUMNS // 2 and is_compiled(rows)):
        return None
    return sum_mapped(rows, _AS_THEY_ARE, Wanted(products=True)).products


def _replace_none(values: NDArray[Any] | None) -> Floats:
    return np.empty(0) if values is None else np.ascontiguousarray(values, dtype=np.float64)


def _pad(count: int) -> int:
    return -(-count // 4) * 4


def _make_lines(count: int) -> Floats:
    """Return lines of zeros. They start where a line of the cache does: others take twice as long to read."""
    room = np.zeros(count * _LINE + 8)
    start = (-room.__array_interface__["data"][0] // 8) % 8
    return room[start : start + count * _LINE].reshape(count, _LINE)


@cache
def _loop() -> Any:
    # Sums of integers are exact in any order, and other numbers are compared with bounds of their errors.
    return (compile_loops(add_rows, fastmath={"reassoc", "contract"}) or (add_rows,))[0]


def add_rows(
    rows: Any,
    n: int,
    most: int,
    maps: bool,
    p: int,
    center: Any,
    inverse: Any,
    numbers: Any,
    table: Any,
    constants: Any,
    signs: Any,
    stretch: Any,
    roots: Any,
    parts: Any,
    weights: Any,
    kinds: Any,
    gradient: bool,
    powers: bool,
    bits: int,
    squares: Any,
    room: Any,
    found: Any,
    left: Any,
) -> int:
    """Add sums over rows to ``found``, exactly for each ``most`` rows, and return how many are listed in ``left``.

    The numbers of lines are multiples of four. Tests run this loop uncompiled.
    """
    d = rows.shape[1]
    tall, width, q = found.shape[1], table.shape[1] - 1, p - len(constants)
    lines, out, own, block = room[: -tall - 9], room[-tall - 9 : -9], room[-9:], np.zeros((4, tall, tall))
    limit, size, least, square = numbers[0], numbers[1], numbers[2], numbers[3]
    spread, error, grow = numbers[4], numbers[5], numbers[6]
    reach, norm, factor, excess, total = own[0], own[1], own[2], own[3], own[4]
    v, keep, longest, slack = own[5], own[6], own[7], own[8]
    unit, whole = 2.0**-bits, 2.0**bits
    used = np.zeros((len(table) // 4, width // 4), dtype=np.bool_)  # the squares of the matrix that are not zero
    for k in range(len(table)):
        for j in range(width):
            used[k // 4, j // 4] |= table[k, j] != 0.0
    line_bytes = _LINE * d * rows.itemsize
    few = line_bytes // max(used.size, 1) + 1
    count = 0
    for begin in range(0, n, most):
        end = min(begin + most, n)
        block[:] = 0.0
        for start in range(begin, end, _LINE):
            some = min(_LINE, end - start)
            ahead = rows.ctypes.data + (start // _LINE + 1) * line_bytes
            if rows.ndim == 3:
                panel = rows[start // _LINE]
                for j in range(d):
                    line, source = lines[j], panel[j]
                    for i in range(_LINE):
                        line[i] = source[i]
            else:
                piece = rows[start : start + some]
                for i in range(some):
                    for j in range(d):
                        lines[j, i] = piece[i, j]
            lines[:, some:] = 0.0
            if maps:
                reach[:] = 1.0
                for j in range(len(center)):
                    line, middle, scale = lines[j], center[j], inverse[j]
                    for i in range(_LINE):
                        line[i] = min(max((line[i] - middle) * scale, -limit), limit)
                    if limit > 1.0:
                        for i in range(_LINE):
                            reach[i] = max(reach[i], abs(line[i]))
                lines[d:] = 0.0
                for k in range(0, len(table), 4):
                    to_a, to_b, to_c, to_d = out[k], out[k + 1], out[k + 2], out[k + 3]
                    row_a, row_b, row_c, row_d = table[k], table[k + 1], table[k + 2], table[k + 3]
                    to_a[:], to_b[:], to_c[:], to_d[:] = row_a[width], row_b[width], row_c[width], row_d[width]
                    for j in range(0, width, 4):
                        # A few bytes at a time: asking for many at once saves nothing in tables.
                        read_ahead(ahead, few)
                        ahead += few
                        if not used[k // 4, j // 4]:
                            continue
                        s, t, x, y = lines[j], lines[j + 1], lines[j + 2], lines[j + 3]
                        as_, at, ax, ay = row_a[j], row_a[j + 1], row_a[j + 2], row_a[j + 3]
                        bs, bt, bx, by = row_b[j], row_b[j + 1], row_b[j + 2], row_b[j + 3]
                        cs, ct, cx, cy = row_c[j], row_c[j + 1], row_c[j + 2], row_c[j + 3]
                        ds, dt, dx, dy = row_d[j], row_d[j + 1], row_d[j + 2], row_d[j + 3]
                        for i in range(_LINE):
                            e, f, g, h = s[i], t[i], x[i], y[i]
                            to_a[i] += as_ * e + at * f + ax * g + ay * h
                            to_b[i] += bs * e + bt * f + bx * g + by * h
                            to_c[i] += cs * e + ct * f + cx * g + cy * h
                            to_d[i] += ds * e + dt * f + dx * g + dy * h
                if len(stretch):
                    values = stretch[start : start + some]
                    for k in range(q):
                        line = out[k]
                        for i in range(some):
                            line[i] *= values[i]
                norm[:] = excess[:] = total[:] = 0.0
                for k in range(0, len(table), 4):
                    s, t, x, y = out[k], out[k + 1], out[k + 2], out[k + 3]
                    for i in range(_LINE):
                        norm[i] += s[i] * s[i] + t[i] * t[i] + x[i] * x[i] + y[i] * y[i]
                if len(squares):
                    squares[start : start + some] = norm[:some]
                    continue
                for i in range(_LINE):
                    norm[i] = np.sqrt(norm[i])
                    longest[i] = max(norm[i], least)
                    factor[i] = 1.0 / longest[i]
                    reach[i] = spread * reach[i] + error * longest[i]
                    # Rows whose norm has no part in their scale, in any order of operations, have smaller errors.
                    far = norm[i] * size + grow * reach[i] > least * size
                    slack[i] = reach[i] * factor[i] * (grow if far else 1.0)
                if len(roots):
                    values = roots[start : start + some]
                    for i in range(some):
                        factor[i] *= values[i]
                for k in range(0, len(table), 4):
                    s, t, x, y = out[k], out[k + 1], out[k + 2], out[k + 3]
                    for i in range(_LINE):
                        scale = factor[i] * size
                        e, f, g, h = s[i] * scale, t[i] * scale, x[i] * scale, y[i] * scale
                        s[i], t[i], x[i], y[i] = np.rint(e), np.rint(f), np.rint(g), np.rint(h)
                        off, beside = max(abs(e - s[i]), abs(f - t[i])), max(abs(g - x[i]), abs(h - y[i]))
                        excess[i] = max(excess[i], max(off, beside))
                        total[i] += s[i] * s[i] + t[i] * t[i] + x[i] * x[i] + y[i] * y[i]
                if len(parts):
                    values = parts[start : start + some]
                    for i in range(some):
                        exact = values[i] * (factor[i] * least * whole)
                        v[i] = np.rint(exact)
                        excess[i] = max(excess[i], abs(exact - v[i]))
                for i in range(_LINE):
                    # Comparisons with NaN are false.
                    inside = int(excess[i] <= 0.5 - slack[i]) & int(total[i] <= square)
                    keep[i] = float(inside)
                if powers:
                    for i in range(_LINE):
                        clear = abs(norm[i] - least) * size > grow * reach[i]
                        keep[i] *= float(int(clear))
                keep[some:] = 0.0
                if keep.sum() < _LINE:
                    for i in range(_LINE):
                        if keep[i] == 0.0:
                            if i < some:
                                left[count] = start + i
                                count += 1
                            out[:, i] = 0.0
                            v[i] = total[i] = norm[i] = 0.0
                out[q:] = 0.0
                for k in range(q, p):
                    line, constant = out[k], constants[k - q]
                    for i in range(_LINE):
                        line[i] = constant * keep[i]
                if len(signs):
                    line, values = out[q + 1], signs[start : start + some]
                    for i in range(some):
                        line[i] *= values[i]
                if gradient:
                    for k in range(0, len(table), 4):
                        s, t, x, y = out[k], out[k + 1], out[k + 2], out[k + 3]
                        e = f = g = h = 0.0
                        for i in range(_LINE):
                            e += s[i] * v[i]
                            f += t[i] * v[i]
                            g += x[i] * v[i]
                            h += y[i] * v[i]
                        own_block = block[3, 0]
                        own_block[k] += e
                        own_block[k + 1] += f
                        own_block[k + 2] += g
                        own_block[k + 3] += h
                if powers:
                    for k in range(q):
                        line, sum_ = out[k], 0.0
                        for i in range(_LINE):
                            step = np.rint(line[i] * line[i] * unit)
                            sum_ += step * step
                        block[3, 1, k] += sum_
                    for i in range(_LINE):
                        step = np.rint(total[i] * unit)
                        block[3, 2, 0] += step * step
                        block[3, 2, 1] += 1.0 if norm[i] > least else 0.0
            for kind in range(3):
                if not kinds[kind]:
                    continue
                if maps and kind > 0:
                    if kind == 1:
                        keep[:some] = weights[start : start + some]
                    else:
                        for i in range(_LINE):
                            keep[i] = v[i] * unit
                    for k in range(tall):
                        line, to = out[k], lines[k]
                        for i in range(_LINE):
                            to[i] = np.rint(line[i] * keep[i])
                cells = out if maps and kind == 0 else lines
                own_block = block[kind]
                for k in range(0, p, 2):
                    y, z = cells[k], cells[k + 1]
                    for j in range(0, k + 2, 4):
                        a, b, c, e = cells[j], cells[j + 1], cells[j + 2], cells[j + 3]
                        ay = by = cy = ey = az = bz = cz = ez = 0.0
                        for i in range(_LINE):
                            s, t = y[i], z[i]
                            ay += a[i] * s
                            by += b[i] * s
                            cy += c[i] * s
                            ey += e[i] * s
                            az += a[i] * t
                            bz += b[i] * t
                            cz += c[i] * t
                            ez += e[i] * t
                        own_block[j, k] += ay
                        own_block[j + 1, k] += by
                        own_block[j + 2, k] += cy
                        own_block[j + 3, k] += ey
                        own_block[j, k + 1] += az
                        own_block[j + 1, k + 1] += bz
                        own_block[j + 2, k + 1] += cz
                        own_block[j + 3, k + 1] += ez
        for kind in range(3):
            for j in range(p):
                for k in range(j, p):
                    found[kind, j, k] += np.int64(block[kind, j, k])
                    found[kind, k, j] = found[kind, j, k]
        for j in range(3):
            for k in range(tall):
                found[3, j, k] += np.int64(block[3, j, k])
    return count
