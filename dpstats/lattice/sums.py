"""Column sums of the lattice points of a table: block after block, in integers, on threads.

Integers add up exactly modulo 2^64: neither the cut into blocks nor the order of these can show in a sum.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpstats.data.rows import Rows
from dpstats.data.values import as_int64
from dpstats.errors import refuse, refuse_data
from dpstats.lattice.rounding import Groups, Kernel, finite_or_center, is_compiled, rows_that_count

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
    rows : array of shape (1,)
        Number of rows that were added: of the observed ones, if others were dropped.

    Of several groups, each array has one row per group.
    """

    powers: tuple[Integers, ...]
    outside: Integers
    rows: Integers

    def all(self) -> list[Integers]:
        """Return every sum over the rows."""
        return [*self.powers, self.outside, self.rows]

    @classmethod
    def of(cls, sums: Sequence[Integers]) -> Moments:
        """Return moments from the values of `all`."""
        return cls(tuple(sums[:-2]), *sums[-2:])


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
    """How a table is read: see `RowLattice.moments`. With ``shares``, the two powers are `end_shares` instead."""

    powers: int
    outside: bool
    missing: str
    threads: int
    block: int
    shares: bool = False

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise refuse("threads", given=self.threads, allowed="at least 1")


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


def sums_by_rows(
    X: NDArray[Any],
    row_map: RowMap,
    how: Reading,
    groups: Groups | None = None,
    *,
    in_place: bool = False,
    compiled: bool | None = None,
) -> Moments:
    """Add up blocks of whole rows; with ``in_place`` these are read without copying, and otherwise side by side."""
    kernel = row_map._kernel(how) if (is_compiled(X) if compiled is None else compiled) else None
    rows_per_block = max(1, how.block // max(1, row_map.n_features))
    pieces = _split(X.shape[0], how.threads, rows_per_block)

    def work(piece: tuple[int, int]) -> Moments:
        some = slice(*piece)
        own = groups and (groups[0][some], groups[1])
        if kernel is None:
            return _sum_blocks(X[some], row_map, rows_per_block, how, own, in_place)
        return _sum_compiled(X[some], kernel, row_map, rows_per_block, how, own)

    return _add_moments(_in_parts(work, pieces, len(pieces)))


def sums_by_columns(X: NDArray[Any], column_map: ColumnMap, how: Reading) -> Moments:
    """Add up a wide table as several narrow ones, whose blocks stay in cache.

    Columns do not know of each other, unless a row is dropped for one of its entries.
    """
    if how.missing == "drop":
        return sums_by_rows(X, column_map, how)
    # Cut along memory: runs of rows, or (Fortran order) runs of columns.
    runs, compiled = _rows_are_runs(X), is_compiled(X) and column_map._kernel(how) is not None
    width = 4 * _RUN if runs else max(1, how.block // max(1, min(X.shape[0], _RUN)))
    if compiled and not runs and X.shape[0] >= _RUN:
        width = 1  # a long column is contiguous
    tiles = cut_columns(column_map.n_features, width, how.threads, _RUN if runs else 1)
    alone = how if len(tiles) == 1 else replace(how, threads=1)

    def work(tile: slice) -> Moments:
        part, own = X[:, tile], column_map if len(tiles) == 1 else column_map.columns(tile)
        in_place = not runs or (part.shape[1] >= _RUN and X.strides[1] == X.itemsize)
        return sums_by_rows(part, own, alone, in_place=in_place, compiled=compiled)

    found = _in_parts(work, tiles, min(how.threads, len(tiles)))
    powers = zip(*(part.powers for part in found), strict=True)
    outside = np.concatenate([part.outside for part in found])
    return Moments(tuple(map(np.concatenate, powers)), outside, found[0].rows)


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
        raise refuse_data(
            "X",
            allowed="a sparse table in CSR form with sorted rows that store no entry twice",
            remedy="It must not change while it is read.",
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


def sums_about(rows: NDArray[np.float64], about_zero: RowMap, centers: NDArray[np.float64], powers: int) -> Integers:
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


def _sum_compiled(
    X: NDArray[Any], kernel: Kernel, row_map: RowMap, rows_per_block: int, how: Reading, groups: Groups | None
) -> Moments:
    """Add up rows by compiled loops, and the rows that these leave out by blocks."""
    step = max(1, _COMPILED_BLOCK // X.shape[1])
    parts: list[Moments] = []
    for start in range(0, X.shape[0], step):
        some = slice(start, start + step)
        with np.errstate(all="ignore"):
            rows = np.ascontiguousarray(X[some], dtype=np.float64)
            found, left = kernel(rows, groups and (groups[0][some], groups[1]))
        if 2 * len(left) > len(rows):
            parts.append(_sum_blocks(X[start:], row_map, rows_per_block, how, groups, False))
            break
        parts.append(Moments.of(found))
        if len(left):
            parts.append(_sum_blocks(left, row_map, rows_per_block, how, groups, False))
    return _add_moments(parts)


def _sum_blocks(
    X: NDArray[Any], row_map: RowMap, rows_per_block: int, how: Reading, groups: Groups | None, in_place: bool
) -> Moments:
    d, (codes, n_groups) = row_map.n_features, groups or (None, 1)
    totals = np.zeros((max(how.powers, 1), n_groups, d), dtype=np.int64)
    total_extra = np.zeros(row_map.n_extra, dtype=np.int64)
    count = np.zeros((n_groups, 1), dtype=np.int64)
    order: Literal["C", "F"] = "F" if in_place and not _rows_are_runs(X) else "C"
    buffer = np.empty((min(rows_per_block, X.shape[0]), d), order=order)
    zero = row_map._zero_pattern
    # If only the sum of the steps is needed, add up patterns, and subtract the zeros at the end.
    plain = groups is None and how.powers == 1
    # errstate belongs to the thread: it has to be set where the arithmetic runs.
    with np.errstate(all="ignore"):
        outside = np.zeros((n_groups, row_map._outside(X[:0]).shape[1] if how.outside else 0), dtype=np.int64)
        for start in range(0, X.shape[0], rows_per_block):
            some = slice(start, start + rows_per_block)
            rows = X[some] if in_place else np.ascontiguousarray(X[some])
            own = None if codes is None else codes[some]
            rows, own = _select_counted(rows, own, row_map.center, how.missing)
            out = buffer[: rows.shape[0]]
            extra = row_map._round_block(rows, out)
            patterns = out.view(np.int64)
            if not plain:
                patterns -= zero
            for total, values in zip(totals, _parts(patterns, row_map.largest, how), strict=True):
                total += _group_sums(values, own, n_groups)
            if extra is not None:
                total_extra += extra.sum(axis=1)
            if how.outside:
                outside += _group_sums(as_int64(row_map._outside(rows)), own, n_groups)
            count[:, 0] += len(rows) if own is None else np.bincount(own, minlength=n_groups)
    found = list(totals)
    if plain:
        # Sums wrap around modulo 2^64 and come back: the true sum is below 2^62.
        found[0] -= np.int64(_wrap(int(count[0, 0]) * zero))
    if row_map.n_extra:
        found[0] = np.concatenate([found[0], total_extra[None]], axis=1)
    sums = [*found, outside, count]
    return Moments.of(sums if groups else [each[0] for each in sums])


def _select_counted(
    rows: NDArray[Any], codes: Integers | None, center: Columns, missing: str
) -> tuple[NDArray[Any], Integers | None]:
    """Return the rows that count, with finite numbers, and their groups."""
    if codes is None and missing != "drop":
        return finite_or_center(rows, center, missing), None
    rows = np.asarray(rows, dtype=np.float64)
    kept = rows_that_count(rows, missing)
    if codes is not None:
        kept &= codes >= 0
    return (rows, codes) if kept.all() else (rows[kept], codes if codes is None else codes[kept])


def _parts(steps: Integers, largest: int | Integers, how: Reading) -> Iterator[Integers]:
    """Yield the terms to add up: powers of steps, each over the largest, or `end_shares`. Steps are overwritten."""
    if how.shares:
        assert isinstance(largest, int)
        yield from end_shares(steps, largest.bit_length() - 1)
        return
    yield steps
    if how.powers > 1:
        second = steps * steps if how.powers > 2 else np.multiply(steps, steps, out=steps)
        _divide(second, largest)
        yield second
    if how.powers > 2:
        third = np.multiply(steps, second, out=steps)
        _divide(third, largest)
        yield third
    if how.powers > 3:
        fourth = np.multiply(second, second, out=second)
        _divide(fourth, largest)
        yield fourth


def end_shares(steps: Integers, bits: int) -> tuple[Integers, Integers]:
    """Return the bounds' shares (1-y)^2 and y^2, in units of 2^bits, for steps of 2^bits (2y - 1)."""
    whole, shift = 1 << bits, bits + 2
    down, up = whole - steps, whole + steps
    return down * down >> shift, up * up >> shift


def _group_sums(values: Integers, codes: Integers | None, n_groups: int) -> Integers:
    """Return the column sums of each group: shape (n_groups, d)."""
    if codes is None:
        return _column_sums(values)[None]
    # Floats add up exactly below 2^53: a block has at most 2^17 entries of at most 2^30 steps.
    width = values.shape[1]
    place = codes[:, None] * width + np.arange(width)
    sums = np.bincount(place.ravel(), weights=values.ravel().astype(np.float64), minlength=n_groups * width)
    return as_int64(sums).reshape(n_groups, width)


def _divide(values: Integers, largest: int | Integers) -> None:
    """Divide in place, rounding down."""
    # A power of two divides by a shift, which is much faster.
    if isinstance(largest, int) and largest & (largest - 1) == 0:
        np.right_shift(values, largest.bit_length() - 1, out=values)
    else:
        np.floor_divide(values, largest, out=values)


def _in_parts(work: Callable[[Item], Moments], parts: Sequence[Item], threads: int) -> list[Moments]:
    """Return the moments of each part of a table."""
    if len(parts) == 1 or threads == 1:
        return [work(part) for part in parts]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, parts))


def _add_moments(parts: Sequence[Moments]) -> Moments:
    """Return the moments of rows, given the moments of the parts."""
    if len(parts) == 1:
        return parts[0]
    return Moments.of([np.sum(each, axis=0) for each in zip(*(part.all() for part in parts), strict=True)])


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
