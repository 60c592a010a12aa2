"""Sums of lattice points in one pass over memory, by loops that numba compiles where it is installed.

The loops do the arithmetic of the row maps, entry by entry, so that their integers are the same. They leave out rows
that need more care, such as rows outside a ball, and `dpstats.lattice.sums` adds these.

Proof: docs/proofs/lattice.md, "Compiled sums".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpstats.lattice.rounding import SHIFT, pattern

if TYPE_CHECKING:
    from dpstats.data.parameters import Columns

FEWEST = 1 << 21
"""Entries of a table from which the import of numba pays."""

_GROUP = 4  # rows that a loop over the columns adds at a time
_WIDTH = 64  # columns at which a loop over them is fast
NARROW = 8
"""Columns below which rows of a ball are too short for a loop over them."""
_REACH = 1 << 31  # steps that a compiled square holds: d squares of fewer are checked against overflow
_ROOM = 2.0**62
_LARGEST = float(np.finfo(np.float64).max)

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Kernel = Callable[[Floats], tuple[list[Integers], Floats]]
"""Returns sums over some rows, in the order of `Moments.all`, and the rows that these leave out."""


def is_compiled(X: NDArray[Any]) -> bool:
    """Return whether compiled loops are available for a table, and worth their import."""
    plain = X.dtype == np.float64 and X.flags.c_contiguous and X.flags.aligned
    return plain and X.size >= FEWEST and loops() is not None


@cache
def loops() -> tuple[Any, ...] | None:
    """Return the compiled loops for boxes and balls, or None without numba."""
    return compile_loops(add_box, add_ball)


def compile_loops(*functions: Callable[..., Any], **options: Any) -> tuple[Any, ...] | None:
    """Return compiled functions, or None without numba. Compiled code is kept for later processes."""
    try:
        import numba
    except Exception:  # numba is missing, or does not work with another installed package
        return None

    def build(**where: bool) -> tuple[Any, ...]:
        compile_loop = numba.njit(nogil=True, error_model="numpy", **options, **where)
        return tuple(map(compile_loop, functions))

    try:
        return build(cache=True)
    except RuntimeError:  # no folder for the cache
        return build()


@dataclass(frozen=True)
class BoxKernel:
    """Sums of rows that are clipped column by column to 2^bits steps.

    Attributes
    ----------
    scale, shift : float or array
        An entry is multiplied by ``scale``, and rounded by adding ``shift``.
    zero, bits : int
        Pattern of zero steps; the largest number of steps is 2^bits.
    low, high : float or array
        Declared bounds.
    squares, outside : bool
        Whether to return sums of squares, and counts of entries outside the bounds.
    """

    scale: Columns
    shift: Columns
    zero: int
    bits: int
    low: Columns
    high: Columns
    squares: bool
    outside: bool

    def __call__(self, rows: Floats) -> tuple[list[Integers], Floats]:
        n, d = rows.shape
        beside = max(1, _WIDTH // d)
        lines = n // (beside * _GROUP) * _GROUP
        whole = lines * beside
        wide = np.asarray(rows[:whole]).reshape(lines, beside * d)

        def tile(value: Columns) -> Floats:
            return np.tile(np.broadcast_to(np.asarray(value, dtype=np.float64), (d,)), beside)

        sums = np.zeros((3, beside * d), dtype=np.int64)
        numbers = (
            tile(self.scale),
            tile(self.shift),
            self.zero,
            self.bits,
            tile(self.low),
            tile(self.high),
        )
        # The loop is compiled for the sums that are wanted.
        wanted = sums[0], sums[1] if self.squares else None, sums[2] if self.outside else None
        bad = (loops() or UNCOMPILED)[0](wide, *numbers, *wanted)
        if bad:
            sums[:], whole = 0, 0
        first, second, counts = sums.reshape(3, beside, d).sum(axis=1)
        counts = counts if self.outside else counts[:0]
        return [first, *[second] * self.squares, counts], rows[whole:]


@dataclass(frozen=True)
class BallKernel:
    """Sums of rows that are inside a ball of 2^bits steps without being scaled; others are left out.

    Attributes
    ----------
    center, factor : float or array
        Rows are shifted to the center, and columns are multiplied by ``factor``.
    scale : float
        Number of steps of a unit.
    bits : int
    inside : float
        Largest norm, in steps, of a rounded row that is surely not scaled.
    squares, norms : bool
        Whether to add squares of columns, and squared norms of rows.
    n_counts : int
        Number of counts of rows outside. All are 0.
    """

    center: Columns
    factor: Columns
    scale: float
    bits: int
    inside: float
    squares: bool
    norms: bool
    n_counts: int

    def __call__(self, rows: Floats) -> tuple[list[Integers], Floats]:
        n, d = rows.shape
        center, factor = (
            np.array(np.broadcast_to(np.asarray(value, dtype=np.float64), (d,)))
            for value in (self.center, self.factor)
        )
        most = int(self.inside) ** 2 if self.inside >= 0 else -1
        first, second, norms = np.zeros(d, np.int64), np.zeros(d, np.int64), np.zeros(2, np.int64)
        left, steps = np.empty(n, np.int64), np.empty(d, np.int64)
        numbers = center, factor, self.scale, SHIFT, pattern(SHIFT), self.bits, most, self.squares
        count = (loops() or UNCOMPILED)[1](np.asarray(rows), *numbers, steps, first, second, norms, left)
        first = np.concatenate([first, norms]) if self.norms else first
        return [first, *[second] * self.squares, np.zeros(self.n_counts, np.int64)], rows[left[:count]]


def accepted_norm(inside: float, n_features: int, error: float) -> float:
    """Return a norm, in steps: rounded rows up to it come from rows whose computed norm is at most ``inside``.

    Rounding moves a row by at most sqrt(d)/2, and ``error`` bounds the relative error of a computed norm.
    """
    return (inside - math.sqrt(n_features) / 2 - 1) * (1 - 8 * error)


# These loops run uncompiled in tests. Integers are 64 bits wide, and patterns are clipped before they are subtracted.


def add_box(
    rows: Any,
    scale: Any,
    shift: Any,
    zero: Any,
    bits: Any,
    low: Any,
    high: Any,
    first: Any,
    second: Any,
    counts: Any,
) -> int:
    """Add the steps of whole groups of rows, their squares, and the entries outside; return how many are not finite."""
    n, d = rows.shape
    least, most = zero - (1 << bits), zero + (1 << bits)
    bad = 0
    for i in range(0, n, _GROUP):
        for j in range(d):
            total, square, count = 0, 0, 0
            for r in range(_GROUP):
                x = rows[i + r, j]
                k = min(max(np.float64(x * scale[j] + shift[j]).view(np.int64), least), most) - zero
                total += k
                if second is not None:
                    square += (k * k) >> bits
                if counts is not None:
                    count += int(x < low[j]) | int(x > high[j])
                bad += int(not abs(x) <= _LARGEST)
            first[j] += total
            if second is not None:
                second[j] += square
            if counts is not None:
                counts[j] += count
    return bad


def add_ball(
    rows: Any,
    center: Any,
    factor: Any,
    scale: float,
    shift: float,
    zero: int,
    bits: int,
    most: int,
    squares: bool,
    steps: Any,
    first: Any,
    second: Any,
    norms: Any,
    left: Any,
) -> int:
    """Add the steps of rows with a squared norm of at most ``most``; return how many others are listed in ``left``."""
    n, d = rows.shape
    count = 0
    for i in range(n):
        largest: Any = 0
        total: Any = 0
        square: Any = 0
        for j in range(d):
            value = (rows[i, j] - center[j]) * factor[j] * scale + shift
            steps_pattern: Any = np.float64(value).view(np.int64)
            k: Any = np.int64(min(max(steps_pattern, zero - _REACH), zero + _REACH) - zero)
            steps[j] = k
            largest = max(largest, abs(k))
            total += abs(k)
            square += k * k
        # The sum of squares is at most this product. So it has not overflowed.
        if float(largest) * float(total) < _ROOM and square <= most:
            for j in range(d):
                first[j] += steps[j]
            if squares:
                for j in range(d):
                    second[j] += (steps[j] * steps[j]) >> bits
            norms[0] += square >> bits
        else:
            left[count] = i
            count += 1
    return count


UNCOMPILED = add_box, add_ball
