"""Sums over rows that are mapped into a ball and rounded, in one compiled pass: their products, weighted or not.

A loop lays a few rows out by columns, and maps, scales and rounds them while they are in the cache. Its sums are of
integers, and exact in any order. Before rounding, numpy has another order of operations. So a row with a number
so near to half a step that errors of floats may matter is left out, and numpy adds it. Proof: docs/proofs/lattice.md,
"Mapped rows".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.lattice.rounding import compile_loops, is_compiled

ROWS = 1 << 12
"""Largest number of rows of one exact product."""

_COLUMNS, _LINE = 64, 128
"""Columns up to which the loop is quick, and rows that it holds side by side."""
_UNIT = 2.0**-53  # the largest relative error of an operation

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


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

    def fits(self, columns: int) -> bool:
        """Return whether the loop is quicker than numpy for rows with this many columns."""
        return 0 < columns <= _COLUMNS and len(self.matrix) < _COLUMNS

    def serves(self, rows: NDArray[Any]) -> bool:
        """Return whether the loop is available for rows, and quicker than numpy."""
        return self.fits(rows.shape[1]) and is_compiled(rows)

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


def sum_mapped(rows: NDArray[Any], to: BallMap, wanted: Wanted) -> Found:
    """Return sums over the mapped rows of a table."""
    rows = np.ascontiguousarray(rows)
    n, d = rows.shape
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
    room: Any,
    found: Any,
    left: Any,
) -> int:
    """Add sums over rows to ``found``, exactly for each ``most`` rows, and return how many are listed in ``left``.

    The numbers of lines are multiples of four. Tests run this loop uncompiled.
    """
    n, d = rows.shape
    tall, width, q = found.shape[1], table.shape[1] - 1, p - len(constants)
    lines, out, own, block = room[: -tall - 9], room[-tall - 9 : -9], room[-9:], np.zeros((4, tall, tall))
    limit, size, least, square = numbers[0], numbers[1], numbers[2], numbers[3]
    spread, error, grow = numbers[4], numbers[5], numbers[6]
    reach, norm, factor, excess, total = own[0], own[1], own[2], own[3], own[4]
    v, keep, longest, slack = own[5], own[6], own[7], own[8]
    unit = 2.0**-bits
    count = 0
    for begin in range(0, n, most):
        end = min(begin + most, n)
        block[:] = 0.0
        for start in range(begin, end, _LINE):
            some = min(_LINE, end - start)
            for i in range(some):
                for j in range(d):
                    lines[j, i] = rows[start + i, j]
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
                    for k in range(q):
                        line = out[k]
                        for i in range(some):
                            line[i] *= stretch[start + i]
                norm[:] = excess[:] = total[:] = 0.0
                for k in range(q):
                    line = out[k]
                    for i in range(_LINE):
                        norm[i] += line[i] * line[i]
                for i in range(_LINE):
                    norm[i] = np.sqrt(norm[i])
                    longest[i] = max(norm[i], least)
                    factor[i] = 1.0 / longest[i]
                    reach[i] = spread * reach[i] + error * longest[i]
                    # Rows whose norm has no part in their scale, in any order of operations, have smaller errors.
                    far = norm[i] * size + grow * reach[i] > least * size
                    slack[i] = reach[i] * factor[i] * (grow if far else 1.0)
                if len(roots):
                    for i in range(some):
                        factor[i] *= roots[start + i]
                for k in range(q):
                    line = out[k]
                    for i in range(_LINE):
                        exact = line[i] * (factor[i] * size)
                        step = np.rint(exact)
                        line[i] = step
                        excess[i] = max(excess[i], abs(exact - step))
                        total[i] += step * step
                if len(parts):
                    for i in range(some):
                        exact = parts[start + i] * (factor[i] * least / unit)
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
                    for i in range(_LINE):
                        out[k, i] = constants[k - q] * keep[i]
                if len(signs):
                    for i in range(some):
                        out[q + 1, i] *= signs[start + i]
                if gradient:
                    for k in range(q):
                        line, sum_ = out[k], 0.0
                        for i in range(_LINE):
                            sum_ += line[i] * v[i]
                        block[3, 0, k] += sum_
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
