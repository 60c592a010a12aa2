"""Exact rounding: of entries to steps of a lattice, with care for missing ones, and of roots to integers.

Compiled loops do the same in one pass over memory where numba is installed.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.rows import Rows, Table
from dpstats.data.values import as_int64
from dpstats.errors import InvalidData, attempt, show, show_names

if TYPE_CHECKING:
    from dpstats.data.parameters import Columns

SHIFT = 1.5 * 2.0**52
"""Adding this to a number below 2^51 in absolute value rounds it to the nearest integer, ties to even.

The low bits of the float then hold that integer: see `pattern`.
"""


def pattern(value: float) -> int:
    """Return the 64 bits of a float as an integer.

    The pattern of ``SHIFT + k`` minus the pattern of ``SHIFT`` is the integer k. Multiplying both by a power
    of two changes the exponent only, and not this difference.
    """
    return int(np.float64(value).view(np.int64))


def isqrt_up(value: int) -> int:
    """Return the square root of a non-negative integer, rounded up."""
    return 0 if value == 0 else math.isqrt(value - 1) + 1


def exact_steps(values: NDArray[Any], spacing: float) -> NDArray[Any]:
    """Round numbers to the nearest points of a lattice whose spacing is a power of two, exactly.

    Returns int64 steps, or Python integers where these do not fit 62 bits.
    """
    values = np.array(values)  # looked at several times, and another process may write to the caller's
    if values.dtype.kind in "biu" and max(abs(int(values.min())), abs(int(values.max()))) <= 2**53:
        values = values.astype(np.float64)
    if values.dtype.kind == "f":
        with np.errstate(all="ignore"):
            scaled = np.rint(values.astype(np.float64) / spacing)
        if np.abs(scaled).max() <= 2.0**62:
            return as_int64(scaled)
    # Larger integers would lose digits as floats, and large quotients do not fit 64 bits: Python integers.
    step = Fraction(spacing)
    return np.array([round(Fraction(item) / step) for item in values.tolist()], dtype=object)


def squared_norms(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the squared l2 norm of each row, by sums whose order depends on the row's length only."""
    if rows.shape[0] == 1:
        # A single long row would be summed in another order than one among others.
        rows = np.concatenate([rows, rows])
        return np.asarray(np.einsum("ij,ij->i", rows, rows)[:1])
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


# NaN and infinite entries: found in one fast pass, and rejected or replaced by the center.


def check_finite(X: Any) -> None:
    """Raise `InvalidData` if an entry of an array is NaN or infinite."""
    with np.errstate(all="ignore"):
        finite = all_finite(X)
    if not finite:
        raise not_finite()


def check_finite_rows(rows: Rows) -> None:
    """Raise `InvalidData` if an entry of private rows, wherever they are, is NaN or infinite."""
    rows.total(_check_table)


def _check_table(table: Table) -> dict[str, NDArray[np.int64]]:
    check_finite(table.X)
    return {}


def finite_or_center(rows: NDArray[Any], center: Columns, missing: str) -> NDArray[Any]:
    """Return rows of finite float64 numbers, or raise `InvalidData` if an entry is not finite and ``missing="error"``.

    The rule is public and applies to each entry: a missing entry becomes the center, regardless of the other
    rows. Every block becomes float64, with or without a missing entry, so that no row decides the precision
    in which another one is compared.
    """
    rows = np.asarray(rows, dtype=np.float64)
    if all_finite(rows):
        return rows
    if missing == "error":
        raise not_finite()
    return np.where(np.isfinite(rows), rows, center)


def finite_rows(X: Any) -> NDArray[np.bool_]:
    """Return whether each row of a dense or sparse table is without a NaN or infinite entry."""
    with np.errstate(all="ignore"):
        if isinstance(X, np.ndarray):
            return np.asarray(np.isfinite(X).all(axis=1))
        stored = X.tocsr()
        complete = np.ones(stored.shape[0], dtype=bool)
        complete[np.repeat(np.arange(len(complete)), np.diff(stored.indptr))[~np.isfinite(stored.data)]] = False
        return complete


def rows_that_count(X: NDArray[Any], missing: str) -> NDArray[np.bool_]:
    """Return a mask of the rows without NaN or infinite entries, or raise `InvalidData` for "error"."""
    with np.errstate(all="ignore"):
        if all_finite(X):
            return np.ones(len(X), dtype=bool)
        if missing == "error":
            raise not_finite(center=None)
        finite: NDArray[np.bool_] = np.isfinite(X).all(axis=1)
    return finite


def observed_pairs(X: NDArray[Any], y: NDArray[np.float64]) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return the rows whose entries and outcome are all finite, and their outcomes."""
    with np.errstate(all="ignore"):
        if all_finite(X) and all_finite(y):
            return X, y
        kept = np.isfinite(X).all(axis=1) & np.isfinite(y)
    return X[kept], y[kept]


def all_finite(rows: NDArray[Any]) -> bool:
    """Say whether every entry is finite."""
    if rows.dtype.kind != "f":
        return True
    # A finite sum proves finite entries in one quick pass; large finite entries may still overflow. einsum
    # adds in registers, without the care for digits that makes numpy's sum slower.
    total = np.einsum(rows, list(range(rows.ndim)), [])
    return bool(np.isfinite(total)) or bool(np.isfinite(rows).all())


def not_finite(center: str | None = "such an entry as the center of the bounds") -> InvalidData:
    """Return the error for a NaN or infinite entry. ``center`` is the effect of ``missing="center"``."""
    # Removed rows change the public number of rows, and a fill from other rows has no known sensitivity.
    offers = "" if center is None else f", or missing='center' to count {center}"
    error = InvalidData(
        f"Input X contains {_NOT_FINITE}. Where the estimator offers it, set missing='drop' to leave out such rows"
        f"{offers}. Removing such rows yourself breaks the guarantee."
    )
    error.given = _NOT_FINITE
    return error


_NOT_FINITE = "NaN or infinity"


def name_columns(error: InvalidData, rows: Rows, names: list[Any] | None) -> InvalidData:
    """Return an error of `not_finite` with the public names of the columns that have such entries, others unchanged."""
    if error.given != _NOT_FINITE or not names:
        return error
    found = attempt(lambda: rows.total(_count_missing)["missing"], Exception)
    where = [] if found is None or len(found) != len(names) else [names[j] for j in np.flatnonzero(found)]
    if not where:
        return error
    column = f"column {show(where[0])}" if len(where) == 1 else f"columns {show_names(where)}"
    return InvalidData(str(error).replace(_NOT_FINITE, f"{_NOT_FINITE} in {column}", 1))


def _count_missing(table: Table) -> dict[str, NDArray[np.int64]]:
    return {"missing": (~np.isfinite(table.X)).sum(axis=0, dtype=np.int64)}


# Loops that numba compiles where it is installed. They do the arithmetic of the row maps, entry by entry, so that
# their integers are the same. They leave out rows that need more care, such as rows outside a ball, and
# `dpstats.lattice.sums` adds these. Proof: docs/proofs/lattice.md, "Compiled sums".


FEWEST = 1 << 21
"""Entries of a table from which the import of numba pays."""

_FEW = 1 << 16  # entries from which the loops pay once they are imported
SHARES = 3
"""The kind of sums in `add_box` for shares (see `dpstats.lattice.sums.end_shares`). The kinds 1 and 2 are powers."""
_WIDTH = 256  # columns at which a loop over them is fast: narrow rows are added side by side
_REACH = 1 << 31  # steps that a compiled square holds: d squares of fewer are checked against overflow
_ROOM = 2.0**62
_LARGEST = float(np.finfo(np.float64).max)
_EXPONENT = 0x7FF << 52  # of infinity and NaN

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Groups = tuple[Integers, int]
"""The group of each row, or -1 for a row in none; and the number of groups."""
Kernel = Callable[[Floats, Groups | None], tuple[list[Integers], Floats]]
"""Returns sums over some rows of a C-contiguous table, and the rows that these leave out.

The sums are in the order of `Moments.all`, of shape (n_groups, ...) with groups.
"""


def is_compiled(X: NDArray[Any]) -> bool:
    """Return whether compiled loops are available for a table, and worth their import."""
    worth = X.size >= FEWEST or (X.size >= _FEW and "numba" in sys.modules)
    return worth and loops() is not None


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

    _compile_read_ahead()

    def build(**where: bool) -> tuple[Any, ...]:
        compile_loop = numba.njit(nogil=True, error_model="numpy", **options, **where)
        return tuple(map(compile_loop, functions))

    try:
        return build(cache=True)
    except RuntimeError:  # no folder for the cache
        return build()


_CACHE_LINE = 64  # bytes


def read_ahead(address: int, size: int) -> None:
    """Ask the processor for bytes that a compiled loop reads soon, so that a pass need not wait for them.

    There need not be any. This changes the cache only, and no result.
    """


@cache
def _compile_read_ahead() -> None:
    """Tell numba how to compile `read_ahead`."""
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic, overload

    @intrinsic  # type: ignore[untyped-decorator]
    def fetch(_: Any, address: Any) -> Any:
        def build(_: Any, builder: Any, __: Any, given: Any) -> Any:
            pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
            instruction = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
            read, keep, data = number(0), number(3), number(1)
            builder.call(instruction, [builder.inttoptr(given[0], pointer), read, keep, data])
            return given[0]

        return types.intp(types.intp), build

    @overload(read_ahead)  # type: ignore[untyped-decorator]
    def _(address: Any, size: Any) -> Any:
        def fetch_lines(address: Any, size: Any) -> None:
            for line in range(address, address + size, _CACHE_LINE):
                fetch(line)

        return fetch_lines


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
    center : float or array
        What an entry counts as that is not finite.
    powers, outside, missing, shares
        As in `dpstats.lattice.sums.Reading`.
    """

    scale: Columns
    shift: Columns
    zero: int
    bits: int
    low: Columns
    high: Columns
    center: Columns
    powers: int
    outside: bool
    missing: str
    shares: bool

    def __call__(self, rows: Floats, groups: Groups | None = None) -> tuple[list[Integers], Floats]:
        n, d = rows.shape
        beside = 1 if groups else max(1, _WIDTH // d)
        whole = n - n % beside
        found = self._sums(rows[:whole].reshape(whole // beside, beside * d), groups, beside)
        if whole < n:
            rest = self._sums(rows[whole:], None, 1)
            found = [one + other for one, other in zip(found, rest, strict=True)]
        return found if groups else [sums[0] for sums in found], rows[:0]

    def _sums(self, lines: Floats, groups: Groups | None, rows_per_line: int) -> list[Integers]:
        """Return the sums over lines of rows, laid side by side."""
        codes, n_groups = groups or (np.empty(0, np.int64), 1)
        width = lines.shape[1]
        d = width // rows_per_line

        numbers = np.empty((5, rows_per_line, d))
        for beside, value in zip(numbers, (self.scale, self.shift, self.low, self.high, self.center), strict=True):
            beside[:] = value
        sums = np.zeros((3, n_groups, width), dtype=np.int64)
        kept, lost = np.zeros((2, n_groups), dtype=np.int64)
        parts = SHARES if self.shares else self.powers
        loop = (loops() or UNCOMPILED)[0]
        drops, entries, steps = self.missing == "drop", np.empty(width), np.empty(width, np.int64)
        bad = loop(
            lines,
            codes,
            d,
            *numbers.reshape(5, width),
            self.zero,
            self.bits,
            parts,
            self.outside,
            drops,
            entries,
            steps,
            kept,
            lost,
            sums,
        )
        if bad and self.missing == "error":
            raise not_finite(center=None) if groups else not_finite()
        powers = sums.reshape(3, n_groups, rows_per_line, d).sum(axis=2)
        if lost.any():
            # Rows that were left out were added as rows at the center.
            center = np.array(np.broadcast_to(self.center, (1, d)))
            one = self._sums(center, None, 1)[: self.powers]
            powers[: self.powers] -= lost[:, None] * np.array(one)
        counts = powers[2] if self.outside else powers[2, :, :0]
        return [*powers[: self.powers], counts, (rows_per_line * kept - lost)[:, None]]


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

    def __call__(self, rows: Floats, groups: Groups | None = None) -> tuple[list[Integers], Floats]:
        n, d = rows.shape
        center, factor = (
            np.array(np.broadcast_to(np.asarray(value, dtype=np.float64), (d,))) for value in (self.center, self.factor)
        )
        most = int(self.inside) ** 2 if self.inside >= 0 else -1
        first, second, norms = np.zeros(d, np.int64), np.zeros(d, np.int64), np.zeros(2, np.int64)
        left, steps = np.empty(n, np.int64), np.empty(d, np.int64)
        numbers = center, factor, self.scale, SHIFT, pattern(SHIFT), self.bits, most, self.squares
        count = (loops() or UNCOMPILED)[1](np.asarray(rows), *numbers, steps, first, second, norms, left)
        first = np.concatenate([first, norms]) if self.norms else first
        found = [first, *[second] * self.squares, np.zeros(self.n_counts, np.int64), np.array([n - count])]
        return found, rows[left[:count]]


def accepted_norm(inside: float, n_features: int, error: float) -> float:
    """Return a norm, in steps: rounded rows up to it come from rows whose computed norm is at most ``inside``.

    Rounding moves a row by at most sqrt(d)/2, and ``error`` bounds the relative error of a computed norm.
    """
    return (inside - math.sqrt(n_features) / 2 - 1) * (1 - 8 * error)


# These loops run uncompiled in tests. Integers are 64 bits wide, and patterns are clipped before they are subtracted.


def add_box(
    lines: Any,
    codes: Any,
    d: int,
    scale: Any,
    shift: Any,
    low: Any,
    high: Any,
    center: Any,
    zero: Any,
    bits: Any,
    parts: int,
    outside: bool,
    drops: bool,
    entries: Any,
    steps: Any,
    kept: Any,
    lost: Any,
    sums: Any,
) -> int:
    """Add lines of rows of d entries to their groups; return how many entries are not finite.

    Steps are added up, and entries outside are counted. If ``parts`` is 2, squares of steps are added up too. If it is
    `SHARES`, the shares of both bounds are added up instead. An entry that is not finite counts as the center. With
    ``drops`` its whole row does, which ``lost`` counts. A line whose code is -1 adds nothing, and no codes are one
    group.
    """
    n, width = lines.shape
    whole = 1 << bits
    least, most = zero - whole, zero + whole
    bad = 0
    for i in range(n):
        g = codes[i] if codes.size else 0
        largest = np.int64(0)
        for j in range(width):
            x = lines[i, j]
            largest = max(largest, np.float64(x).view(np.int64) & _EXPONENT)
            steps[j] = min(max(np.float64(x * scale[j] + shift[j]).view(np.int64), least), most) - zero
        if largest == _EXPONENT or outside:
            # Steps and counts are of the same copy, because another process may write to the memory.
            for j in range(width):
                entries[j] = lines[i, j]
            for start in range(0, width if largest == _EXPONENT else 0, d):
                missing = 0
                for j in range(start, start + d):
                    missing += int(not abs(entries[j]) <= _LARGEST)
                bad += missing
                lost[g] += int(missing > 0 and drops and g >= 0)
                for j in range(start, start + d):
                    if missing and (drops or not abs(entries[j]) <= _LARGEST):
                        entries[j] = center[j]
            for j in range(width):
                steps[j] = min(max(np.float64(entries[j] * scale[j] + shift[j]).view(np.int64), least), most) - zero
        if g < 0:
            continue
        kept[g] += 1
        if parts == 1:
            for j in range(width):
                sums[0, g, j] += steps[j]
        elif parts == 2:
            for j in range(width):
                sums[0, g, j] += steps[j]
                sums[1, g, j] += (steps[j] * steps[j]) >> bits
        else:
            for j in range(width):
                down, up = whole - steps[j], whole + steps[j]
                sums[0, g, j] += (down * down) >> (bits + 2)
                sums[1, g, j] += (up * up) >> (bits + 2)
        if outside:
            for j in range(width):
                sums[2, g, j] += int(entries[j] < low[j]) | int(entries[j] > high[j])
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
