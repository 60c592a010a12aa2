"""Column sums of the lattice points of a table: block after block, in integers, on threads.

Integers add up exactly modulo 2^64: neither the cut into blocks nor the order of these can show in a sum.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.data.tables import Rows
from dpstats.errors import InvalidData, InvalidParameter
from dpstats.lattice.compiled import Kernel, is_compiled
from dpstats.lattice.finite import finite_or_center

if TYPE_CHECKING:
    from dpstats.data.parameters import Columns

BLOCK = 1 << 17  # entries of a block: one megabyte, so that its passes stay in the cache of a core
_COMPILED_BLOCK = 1 << 20  # entries of a block of compiled loops
_SHARE = 1 << 19  # entries that are worth a thread
_RUN = 1 << 13  # entries side by side in memory from which numpy's loops need no copy to be fast
_STORED_BLOCK = 1 << 20  # stored entries of a sparse table: 2^20 of 2^30 steps add up exactly as floats
_MAX_THREADS = 8

Item = TypeVar("Item")
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Moments:
    """Column sums of integers: private.

    Attributes
    ----------
    powers : tuple of arrays of shape (n_features,)
        Sums of the steps k and, on request, of higher powers over powers of the largest step K: of ``k*k //
        K``, of that times ``k`` over K, and of its square over K. Sums of further integers follow the first.
    outside : array of shape (n_features,), (1,) or (0,)
        Number of entries (for a ball, rows) beyond the region, on request.
    rows : int
        Number of observed rows, if others were dropped.
    """

    powers: tuple[Integers, ...]
    outside: Integers
    rows: int = 0

    def all(self) -> list[Integers]:
        """Return every sum over the rows."""
        return [*self.powers, self.outside]

    @classmethod
    def of(cls, sums: Sequence[Integers]) -> Moments:
        """Return moments from the values of `all`."""
        return cls(tuple(sums[:-1]), sums[-1])


class RowMap(Protocol):
    """What a sum needs to know of a lattice: its row map, block by block."""

    @property
    def center(self) -> Columns: ...

    @property
    def n_features(self) -> int: ...

    @property
    def n_extra(self) -> int:
        """Number of further integers of a row."""

    @property
    def bits(self) -> int: ...

    @property
    def _zero_pattern(self) -> int:
        """The pattern that zero steps have in what `_round_block` writes."""

    @property
    def largest(self) -> int | Integers:
        """The most steps of an entry from the center."""

    def _round_block(self, rows: NDArray[Any], out: NDArray[np.float64]) -> Integers | None:
        """Write floats to ``out`` whose patterns are the steps of the rows plus `_zero_pattern`.

        Return further integers of the rows, of shape (n_extra, n), if the map has some.
        """

    def _outside(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        """Return whether entries (for a ball, rows) are beyond the region, from each entry and public numbers."""

    def _kernel(self, how: Reading) -> Kernel | None:
        """Return compiled loops that compute the same sums, or None if there are none."""


class ColumnMap(RowMap, Protocol):
    """A row map that acts on each column separately."""

    def columns(self, chosen: Any) -> ColumnMap:
        """Return the map of some of the columns."""


@dataclass(frozen=True)
class Reading:
    """How a table is read: see `RowLattice.moments`."""

    powers: int
    outside: bool
    missing: str
    threads: int
    block: int

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise InvalidParameter(f"threads must be at least 1, got {self.threads}")


def default_threads(entries: int) -> int:
    """Return the useful number of threads for a table of this many entries."""
    if entries < 2 * _SHARE:
        return 1
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(available, _MAX_THREADS, entries // _SHARE))


def summed_by(rows: Rows, work: Callable[[NDArray[Any]], Sequence[Integers]]) -> list[Integers]:
    """Return the sums over private rows of the integers that ``work`` makes of some of them."""
    found = rows.total(lambda table: {str(place): sums for place, sums in enumerate(work(table.X))})
    return [found[str(place)] for place in range(len(found))]


def sums_by_rows(X: NDArray[Any], row_map: RowMap, how: Reading, *, in_place: bool = False) -> Moments:
    """Add up blocks of whole rows; with ``in_place`` these are read without copying, and otherwise side by side."""
    rows_per_block = max(1, how.block // max(1, row_map.n_features))
    pieces = _split(X.shape[0], how.threads, rows_per_block)

    def work(piece: tuple[int, int]) -> Moments:
        return _sum_piece(X[piece[0] : piece[1]], row_map, rows_per_block, how, in_place)

    return _in_parts(work, pieces, len(pieces), partial(np.sum, axis=0))


def sums_by_columns(X: NDArray[Any], column_map: ColumnMap, how: Reading) -> Moments:
    """Add up a wide table as several narrow ones, whose blocks stay in cache. Columns do not know of each other."""
    # Cut along memory: runs of rows, or (Fortran order) runs of columns.
    runs = _rows_are_runs(X)
    width = 4 * _RUN if runs else max(1, how.block // max(1, min(X.shape[0], _RUN)))
    tiles = cut_columns(column_map.n_features, width, how.threads, _RUN if runs else 1)
    alone = how if len(tiles) == 1 else replace(how, threads=1)

    def work(tile: slice) -> Moments:
        part, own = X[:, tile], column_map if len(tiles) == 1 else column_map.columns(tile)
        in_place = not runs or (part.shape[1] >= _RUN and X.strides[1] == X.itemsize)
        return sums_by_rows(part, own, alone, in_place=in_place)

    return _in_parts(work, tiles, min(how.threads, len(tiles)), np.concatenate)


def stored_sums(X: Any, column_map: ColumnMap, missing: str) -> NDArray[np.int64]:
    """Add up a CSR table by one pass over its stored entries; the others must be zero steps from the center.

    Positions are copied before they are checked. So another process that writes to the memory cannot change a
    column between check and sum. The row map reads values once, at their current state.
    """
    total = np.zeros(column_map.n_features, dtype=np.int64)
    starts = np.array(X.indptr)
    stored = min(X.data.size, X.indices.size)
    _check_stored(bool(starts[0] >= 0 and starts[-1] <= stored and np.all(starts[1:] >= starts[:-1])))
    last = -1
    for low in range(int(starts[0]), int(starts[-1]), _STORED_BLOCK):
        high = min(low + _STORED_BLOCK, int(starts[-1]))
        positions = np.array(X.indices[low:high])
        # Columns that rise within every row store no entry twice: a row counts once in a column.
        rises = np.empty(positions.size, dtype=np.bool_)
        rises[0] = positions[0] > last
        np.greater(positions[1:], positions[:-1], out=rises[1:])
        first_row, next_row = np.searchsorted(starts, (low, high))
        heads = starts[first_row:next_row] - low
        rises[heads] = True
        # In what rises the ends are the extremes: of the block, and of the rows that start in it.
        least = min(int(positions[0]), int(positions[heads].min(initial=0)))
        most = max(int(positions[-1]), int(positions[np.maximum(heads - 1, 0)].max(initial=0)))
        _check_stored(bool(rises.all()) and least >= 0 and most < total.size)
        last = int(positions[-1])
        values = finite_or_center(X.data[low:high], 0.0, missing)
        steps = rounded(column_map.columns(positions), values[None, :])[0]
        total += as_int64(np.bincount(positions, weights=steps, minlength=total.size))
    return total


def _check_stored(sound: bool) -> None:
    if not sound:
        raise InvalidData(
            "X must be a sparse table in CSR form with sorted rows that store no entry twice, and must not change "
            "while it is read"
        )


def rounded(row_map: RowMap, rows: NDArray[Any]) -> NDArray[np.int64]:
    """Return the steps of the rows of one block, and their further integers."""
    rows = np.ascontiguousarray(rows, dtype=np.float64)
    out = np.empty((rows.shape[0], row_map.n_features))
    # A caller's numpy.seterr must not raise either: an exception would reveal an entry.
    with np.errstate(all="ignore"):
        extra = row_map._round_block(rows, out)
    steps = out.view(np.int64) - row_map._zero_pattern
    return steps if extra is None else np.concatenate([steps, extra.T], axis=1)


def sums_about(
    rows: NDArray[np.float64], about_zero: RowMap, centers: NDArray[np.float64], powers: int
) -> Integers:
    """Return the column sums of a few finite rows about each of many centers: shape (powers, centers, d).

    The map about a center equals the map about 0 of the rows minus the center. Sums go up to the second
    power, as in `Moments`.
    """
    sums = np.empty((powers, *centers.shape), dtype=np.int64)
    step = max(1, BLOCK // max(1, rows.size))
    for start in range(0, len(centers), step):
        some = slice(start, start + step)
        with np.errstate(all="ignore"):
            shifted = rows - centers[some, None, :]
        steps = rounded(about_zero, shifted.reshape(-1, rows.shape[1])).reshape(shifted.shape)
        sums[0, some] = steps.sum(axis=1)
        if powers > 1:
            np.multiply(steps, steps, out=steps)
            _divide(steps, about_zero.largest)
            sums[1, some] = steps.sum(axis=1)
    return sums


def _sum_piece(
    X: NDArray[Any], row_map: RowMap, rows_per_block: int, how: Reading, in_place: bool
) -> Moments:
    kernel = row_map._kernel(how) if is_compiled(X) else None
    if kernel is None:
        return _sum_blocks(X, row_map, rows_per_block, how, in_place)
    step = max(1, _COMPILED_BLOCK // X.shape[1] // 8) * 8
    parts: list[Moments] = []
    for start in range(0, X.shape[0], step):
        rows = X[start : start + step]
        with np.errstate(all="ignore"):
            found, left = kernel(rows)
        if 2 * len(left) > len(rows):
            parts.append(_sum_blocks(X[start:], row_map, rows_per_block, how, in_place))
            break
        parts.append(Moments.of(found))
        if len(left):
            parts.append(_sum_blocks(left, row_map, rows_per_block, how, in_place))
    return _join(parts, partial(np.sum, axis=0))


def _sum_blocks(
    X: NDArray[Any], row_map: RowMap, rows_per_block: int, how: Reading, in_place: bool
) -> Moments:
    totals = [np.zeros(row_map.n_features, dtype=np.int64) for _ in range(how.powers)]
    total_extra = np.zeros(row_map.n_extra, dtype=np.int64)
    outside = np.zeros(0, dtype=np.int64)
    order: Literal["C", "F"] = "F" if in_place and not _rows_are_runs(X) else "C"
    buffer = np.empty((min(rows_per_block, X.shape[0]), row_map.n_features), order=order)
    zero = row_map._zero_pattern
    # errstate belongs to the thread: it has to be set where the arithmetic runs.
    with np.errstate(all="ignore"):
        if how.outside:
            outside = np.zeros(row_map._outside(X[:0]).shape[1], dtype=np.int64)
        for start in range(0, X.shape[0], rows_per_block):
            rows = X[start : start + rows_per_block]
            rows = rows if in_place else np.ascontiguousarray(rows)
            rows = finite_or_center(rows, row_map.center, how.missing)
            out = buffer[: rows.shape[0]]
            extra = row_map._round_block(rows, out)
            patterns = out.view(np.int64)
            totals[0] += _column_sums(patterns)
            if how.powers > 1:
                patterns -= zero
                _add_powers(patterns, row_map.largest, totals)
            if extra is not None:
                total_extra += extra.sum(axis=1)
            if how.outside:
                outside += row_map._outside(rows).sum(axis=0)
    # Sums wrap around modulo 2^64 and come back: the true sum is below 2^62.
    totals[0] -= np.int64(_wrap(X.shape[0] * zero))
    totals[0] = np.concatenate([totals[0], total_extra])
    return Moments(tuple(totals), outside)


def _add_powers(steps: Integers, largest: int | Integers, totals: list[Integers]) -> None:
    """Add the sums of the higher powers of the steps, each over the largest so that it stays below that."""
    second = steps * steps if len(totals) > 2 else np.multiply(steps, steps, out=steps)
    _divide(second, largest)
    totals[1] += _column_sums(second)
    if len(totals) > 2:
        third = np.multiply(steps, second, out=steps)
        _divide(third, largest)
        totals[2] += _column_sums(third)
    if len(totals) > 3:
        fourth = np.multiply(second, second, out=second)
        _divide(fourth, largest)
        totals[3] += _column_sums(fourth)


def _divide(values: Integers, largest: int | Integers) -> None:
    """Divide in place, rounding down.

    A power of two divides by a shift, which is much faster.
    """
    if isinstance(largest, int) and largest & (largest - 1) == 0:
        np.right_shift(values, largest.bit_length() - 1, out=values)
    else:
        np.floor_divide(values, largest, out=values)


def _in_parts(
    work: Callable[[Item], Moments], parts: Sequence[Item], threads: int, join: Callable[[Any], Integers]
) -> Moments:
    """Return the moments of parts of a table, joined."""
    if len(parts) == 1:
        return work(parts[0])
    if threads == 1:
        found = [work(part) for part in parts]
    else:
        with ThreadPoolExecutor(threads) as pool:
            found = list(pool.map(work, parts))
    return _join(found, join)


def _join(parts: Sequence[Moments], join: Callable[[Any], Integers]) -> Moments:
    return Moments.of([join(each) for each in zip(*(part.all() for part in parts), strict=True)])


def _split(n: int, threads: int, rows_per_block: int) -> list[tuple[int, int]]:
    """Cut n rows into at most ``threads`` runs of whole blocks."""
    blocks = max(1, -(-n // rows_per_block))
    per_thread = -(-blocks // min(threads, blocks)) * rows_per_block
    return [(start, min(start + per_thread, n)) for start in range(0, max(n, 1), per_thread)]


def cut_columns(d: int, width: int, threads: int, least: int) -> list[slice]:
    """Cut d columns into slices of about equal widths of at most ``width``: as many for every thread."""
    count = max(1, -(-d // width))
    if count > 1:
        # More of them, so that no thread waits for another, but none below the least width.
        count = max(count, min(-(-count // threads) * threads, d // least))
    return [slice(low, high) for low, high in itertools.pairwise(d * i // count for i in range(count + 1))]


def _rows_are_runs(X: NDArray[Any]) -> bool:
    """Say whether entries of a row, rather than of a column, lie side by side in memory."""
    return abs(X.strides[1]) <= abs(X.strides[0])


def _column_sums(values: NDArray[np.int64]) -> NDArray[np.int64]:
    n, d = values.shape
    # Narrow rows are added up several at a time, side by side.
    repeat = max(1, min(n, 1024 // d)) if values.flags.c_contiguous else 1
    if repeat == 1:
        return np.asarray(values.sum(axis=0))
    whole = n - n % repeat
    total = values[:whole].reshape(-1, repeat * d).sum(axis=0).reshape(repeat, d).sum(axis=0)
    return np.asarray(total + values[whole:].sum(axis=0))


def _wrap(value: int) -> int:
    """Return an integer modulo 2^64, as a signed 64-bit number."""
    return (value + 2**63) % 2**64 - 2**63
