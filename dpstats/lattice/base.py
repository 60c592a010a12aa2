"""What a lattice of rows is: public numbers, a bound on the distance of two rows, a row map, exact sums; and the box.

Replacing a row moves the sums of several powers together, so that squares next to sums cost nothing.

A column is scaled to z in [-1, 1], its largest step K to 1. Of z and z' let t = z - z' and s = z + z', so that
|t| + |s| <= 2. The powers change by t, ts, t(3s^2 + t^2)/4 and ts(s^2 + t^2)/2. All grow in |s|, so the worst pairs
have z = 1, and only one number, z', remains. Rounding is accounted for. Proof: docs/proofs/free-squares.md.

A box clips each column separately. In SQL, the operations on doubles are the operations of the row map, in its order,
so that every entry gives the same integer. Integers add up exactly. Adding `SHIFT` rounds; SQL's round() would round
ties away from zero.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.rows import Rows
from dpstats.data.values import as_int64
from dpstats.errors import DPStatsError, refuse, refuse_data
from dpstats.lattice.rounding import SHIFT, BoxKernel, Groups, Kernel, isqrt_up, not_finite, pattern
from dpstats.lattice.sums import (
    BLOCK,
    Integers,
    Moments,
    Reading,
    default_threads,
    rounded,
    stored_sums,
    summed_by,
    sums_by_columns,
    sums_by_rows,
)

if TYPE_CHECKING:
    from dpstats.data.parameters import Columns


FREE_SQUARES = ((1 + math.sqrt(5)) / 2) ** 2.5 / 2
"""Largest weight at which squares do not increase the l2 sensitivity of the sums of a box: phi^(5/2)/2."""

FREE_SQUARES_L1 = 0.5
"""The same in l1."""

FREE_SQUARES_BALL = math.sqrt(0.5)
"""The same in l2 for the squares of all columns of a ball, in two columns or more."""

# Rounding down has an error below 1 in k*k // K, and below 3 in the third and fourth power, which are
# computed from it (in the third, on either side). The differences of two have the same bounds.
_ROUNDING = (0.0, 1.0, 3.0, 3.0)

_GRID = 1 << 12
_SAFE = 1 + 1e-12  # more than the rounding of the sums below


def free_weight(free: float, bits: int) -> float:
    """Return a weight below the free one, with room for rounding on a lattice of this many bits."""
    return (0.9999 if bits >= 18 else 0.96) * free


def box_movement(weights: Sequence[float], largest: int, norm: str) -> float:
    """Return the sensitivity of one column's weighted powers in steps, squared for "l2".

    Parameters
    ----------
    weights : sequence of float
        Weights of the powers 1, 2, ..., up to 4. The noise of a power is the noise of a sum divided by its
        weight.
    largest : int
        The most steps of an entry.
    norm : {"l1", "l2"}
    """
    K, squares_alone = float(largest), all(weight == 0 for weight in weights[2:])
    w = weights[1] if len(weights) > 1 else 0.0
    rounding = [weight * e for weight, e in zip(weights, _ROUNDING, strict=False)]
    if norm == "l1":
        free = weights[0] == 1 and squares_alone and w <= FREE_SQUARES_L1
        return ((2.0 if free else _largest(weights, 1)) * K + math.fsum(rounding)) * _SAFE
    if weights[0] == 1 and squares_alone and w < FREE_SQUARES:
        # (ts + e)^2 <= (1 + theta) (ts)^2 + (1 + 1/theta) e^2, at the theta that brings the weight to the
        # free one.
        spread = (FREE_SQUARES / w) ** 2 if w else math.inf
        return (4 * K**2 + w**2 * spread / (spread - 1) if w else 4 * K**2) * _SAFE
    theta = 4 / K
    exact, off = _largest(weights, 2), math.fsum(part**2 for part in rounding)
    return ((1 + theta) * exact * K**2 + (1 + 1 / theta) * off) * _SAFE


def dropped_movement(weights: Sequence[float], largest: int, norm: str) -> float:
    """Return the distance of a row from no row in one column's weighted powers, in steps, squared for "l2".

    Even powers are measured from half of the largest, so that they lie within half of it on either side.
    """
    sizes = (float(largest), float(largest - largest // 2)) * 2
    parts = [weight * size for weight, size in zip(weights, sizes, strict=False)]
    return math.fsum(parts if norm == "l1" else [part**2 for part in parts]) * _SAFE


def ball_movement(weight: float, radius: int, n_features: int) -> float:
    """Return the squared l2 movement, in steps, of the sums and weighted squares of a ball in two columns or more."""
    if weight == 0:
        return 4.0 * radius**2
    left = 1 - 2 * weight**2
    if left <= 0:
        raise ValueError("squares in a ball must have a smaller weight: these would add noise to the sums")
    return (4.0 * radius**2 + n_features * (1 - left) / (2 * left)) * _SAFE


def _largest(weights: Sequence[float], power: int) -> float:
    """Return sup over z' of sum_b (w_b (1 - z'^b))^power, from above."""
    # At an inner maximum the derivative is 0. The error of the grid is at most half of the largest second
    # derivative times the square of half a step. The second derivative of (1 - x^b)^power is at most 6 b^2.
    x = np.linspace(-1, 1, _GRID + 1)
    values = sum((w * (1 - x**b)) ** power for b, w in enumerate(weights, 1))
    missed = sum(6 * b**2 * w**power for b, w in enumerate(weights, 1)) / (2 * _GRID**2)
    return float(np.max(values)) + missed


# Lattices


BITS = 30
"""Steps from the center to the bound, as a power of two: rounding moves an entry by at most 2^-31 of its
bound. Coarser lattices serve where noise of that many steps could not be drawn."""

_MAX_SUM = 2**62  # bound on any integer formed, leaving room in int64 for the noise

# Bounds and centers in the units of the data. Inside these neither the spacing, nor its inverse, nor
# its square leaves floating point, so that a finite entry can never become NaN.
_SMALLEST, _LARGEST = 1e-140, 1e140


def check_region(
    clip: Columns, center: Columns, clip_must: str = "clip must be", center_must: str = "center must be"
) -> None:
    """Refuse a region whose numbers leave no room in floating point. The words begin the sentence of a refusal."""
    sizes = np.atleast_1d(clip)
    clip_inside = bool(np.all((sizes >= _SMALLEST) & (sizes <= _LARGEST)))
    center_inside = bool(np.all(np.abs(center) <= _LARGEST))
    for inside, value, words, least in (
        (clip_inside, clip, clip_must, _SMALLEST),
        (center_inside, center, center_must, -_LARGEST),
    ):
        if not inside:
            name, _, verb = words.partition(" must ")
            allowed = f"{verb} between {least:g} and {_LARGEST:g} for exact arithmetic"
            raise refuse(name, given=value, allowed=allowed, remedy="Change the units of the data.")


@dataclass(frozen=True, eq=False)
class RowLattice(ABC):
    """A public lattice and the row map onto it; subclasses say which norm is bounded.

    Attributes
    ----------
    center : float or array of shape (n_features,)
        The point that is zero steps away from itself.
    spacing : float or array of shape (n_features,)
        The length of a step, in the units of the data.
    n_features : int
        The length of a row.
    bits : int
        The largest bound is 2^bits steps.
    """

    center: Columns
    spacing: Columns
    n_features: int
    bits: int

    @abstractmethod
    def sensitivity(self, norm: str) -> int:
        """Return the largest distance, in steps, of two rows of the lattice."""

    @abstractmethod
    def square_sensitivity(self, norm: str) -> int:
        """Return the largest distance of two rows of squares (see `sums`), in their steps."""

    def joint_sensitivity(self, norm: str, weights: Sequence[float], outside: float = 0.0, count: float = 0.0) -> float:
        """Return the largest distance of two rows of weighted powers and counts (see `moments`), in steps.

        ``weights`` belong to the powers 1, 2, ...; the noise of a power is the noise of the sums divided by
        its weight. An entry outside counts ``outside`` times the root mean square of the columns' largest
        steps. With ``count`` a row may be none, even powers are less `even_center`, and a row counts
        ``count`` times `row_size`.
        """
        raise DPStatsError(f"{type(self).__name__} does not define a bound for several powers together")

    def added_sensitivity(self, norm: str, weights: Sequence[float], count: float) -> float:
        """Return the largest distance of a row from none, of the same powers and of the count of rows, in steps."""
        raise DPStatsError(f"{type(self).__name__} does not define a bound for rows that are added")

    def free_count(self, norm: str, weights: Sequence[float]) -> float:
        """Return a weight at which a count of the rows that are observed costs nothing beside these powers."""
        raise DPStatsError(f"{type(self).__name__} does not define a bound for rows that are not observed")

    def row_size(self, norm: str) -> float:
        """Return the largest distance of a row from the center, in steps."""
        raise DPStatsError(f"{type(self).__name__} does not define a bound for rows that are not observed")

    @property
    def even_center(self) -> int | Integers:
        """What even powers are measured from where rows may be none, in steps."""
        return 0

    def free_squares(self, norm: str) -> float | None:
        """Return a weight at which squares are free next to the sums, or None if there is none."""
        return None

    @property
    @abstractmethod
    def largest(self) -> int | Integers:
        """The most steps of an entry from the center, one number or one per column."""

    @property
    def n_extra(self) -> int:
        return 0

    @property
    def n_counts(self) -> int:
        """Number of counts of entries outside: one per column, or one for the rows."""
        return self.n_features

    def power_spacing(self, power: int) -> Columns:
        """Return the length of a step of a power (see `moments`), in that power of the units of the data."""
        return self.spacing**power * np.asarray(self.largest, dtype=np.float64) ** (power - 1)

    @property
    def square_spacing(self) -> Columns:
        """The length of a step of a square, in squared units of the data."""
        return self.power_spacing(2)

    def round_rows(self, X: NDArray[Any]) -> NDArray[np.int64]:
        """Return the lattice points of the rows of ``X``, of shape (n, n_features), in steps.

        Entries should be finite: others become some point of the region. This is the row map itself, one
        block of `sums`; use it to look at single rows, to compare with brute force and to build other sums of
        small data.
        """
        return rounded(self, X)

    def sums(
        self, X: Any, *, squares: bool = False, missing: str = "error", threads: int | None = None, block: int = BLOCK
    ) -> tuple[Integers, Integers | None]:
        """Return the exact column sums of the lattice points of the rows of ``X``, and optionally of their squares.

        See `moments`.
        """
        found = self.moments(X, powers=2 if squares else 1, missing=missing, threads=threads, block=block).powers
        return found[0], found[1] if squares else None

    def moments(
        self,
        X: Any,
        *,
        powers: int = 1,
        outside: bool = False,
        missing: str = "error",
        threads: int | None = None,
        block: int = BLOCK,
    ) -> Moments:
        """Return exact column sums of the lattice points of the rows of ``X``, and of powers of them.

        Parameters
        ----------
        X : array of shape (n, n_features)
            Real numbers of any numeric dtype and memory order; never changed, never copied whole.
        powers : int
            Up to which power, at most 4: see `Moments`.
        outside : bool
            Also count entries strictly beyond the region.
        missing : {"error", "center", "drop"}
            What a NaN or infinite entry does: raise, count as the center, or leave out its row.
        threads, block : int
            Number of threads (default: the processors, at most 8) and entries in a block. The
            sums do not depend on either.

        Raises
        ------
        InvalidData
            If an entry is NaN or infinite and ``missing="error"``.
        """
        self._check_count(X.shape[0])
        threads = default_threads(X.size) if threads is None else threads
        return self._moments(X, Reading(powers, outside, missing, threads, block))

    def row_moments(self, rows: Rows, *, powers: int = 1, outside: bool = False, missing: str = "error") -> Moments:
        """Return `moments` of private rows from any source, equal to the moments of the same rows in an array."""
        self._check_count(rows.shape[0])
        queried = None if missing == "drop" else self._query(rows, powers, outside, missing)
        if queried is not None:
            return queried

        def work(X: NDArray[Any]) -> list[Integers]:
            return self.moments(X, powers=powers, outside=outside, missing=missing).all()

        return Moments.of(summed_by(rows, work))

    def _query(self, rows: Rows, powers: int, outside: bool, missing: str) -> Moments | None:
        """Return `moments` by a query of a database, or None if the rows are read."""
        return None

    def _check_count(self, n: int) -> None:
        if n << self.bits > _MAX_SUM:
            raise refuse_data(
                "X",
                allowed=f"have at most {_MAX_SUM >> self.bits} rows, for exact 64-bit sums",
                remedy="Fit parts of the rows.",
            )

    def _moments(self, X: NDArray[Any], how: Reading) -> Moments:
        return sums_by_rows(X, self, how)

    def _kernel(self, how: Reading) -> Kernel | None:
        """Return compiled loops that compute the same sums as the row map, or None if there are none."""
        return None

    @property
    def _zero_pattern(self) -> int:
        """The pattern of zero steps in the blocks that `_round_block` writes."""
        return pattern(SHIFT)

    @abstractmethod
    def _round_block(self, rows: NDArray[Any], out: NDArray[np.float64]) -> None:
        """Write the rows' lattice points, shifted by `SHIFT`, to ``out``."""

    @abstractmethod
    def _outside(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        """Return whether entries (for a ball, rows) are strictly beyond the region, by public floats."""


# The box: each column clipped separately, in memory or by a database


_COLUMNS = 64  # of one statement


def power_sums(
    rows: Rows,
    *,
    shift: Any,
    factor: Any,
    offset: Any,
    unit: float,
    bound: Any,
    largest: Any,
    ends: tuple[Any, Any],
    powers: int,
    outside: bool,
) -> tuple[list[Integers], Integers, int] | None:
    """Return the sums of powers of steps, the counts of entries outside, and the number of non-numeric entries.

    The step of x is (x - shift) * factor, rounded, less ``offset``, within ``bound``; factors are of
    ``unit``. None from rows that do not aggregate.
    """
    _, d = rows.shape
    columns = range(d)
    given = [np.broadcast_to(value, (d,)).tolist() for value in (shift, factor, offset, bound, largest, *ends)]
    entries = [rows.expression(j) for j in columns]
    numbers: list[int] = []
    # A statement of a hundred columns is slow to plan, and slower for twice as many.
    for start in range(0, d, _COLUMNS):
        steps: list[str] = []
        asked: list[str] = []
        some = zip(
            entries[start : start + _COLUMNS], *(value[start : start + _COLUMNS] for value in given), strict=True
        )
        for place, (x, away, times, center, most, top, low, high) in enumerate(some):
            # Not isnan: DuckDB decides that by the statistics of a file, which leave out NaN.
            k, finite = f"c{2 * place}", f"coalesce(isfinite({x}), FALSE)"
            number = x if away == 0 else f"({x} - {_double(away)})"
            number = number if times == 1 else f"({number} * {_double(times)})"
            least, greatest = ((SHIFT + sign * most) * unit for sign in (-1, 1))
            shifted = f"{number} + {_double((SHIFT - center) * unit)}"
            clipped = f"greatest(least({shifted}, {_double(greatest)}), {_double(least)})"
            step = f"CAST(({clipped} - {_double(SHIFT * unit)}) / {_double(unit)} AS BIGINT)"
            # 0 inside, 1 outside, 2 no number.
            place_of = f"CASE WHEN {x} < {_double(low)} OR {x} > {_double(high)} THEN 1 ELSE 0 END"
            steps += [
                f"CASE WHEN {finite} THEN {step} ELSE 0 END",
                f"CASE WHEN {finite} THEN {place_of if outside else '0'} ELSE 2 END",
            ]
            asked += [f"sum({power})" for power in _powers(k, int(top), powers)]
            asked += [f"count(*) FILTER (WHERE c{2 * place + 1} = {kind})" for kind in (1, 2)]
        found = rows.aggregates(asked, steps)
        if found is None:
            return None
        numbers += found
    table = np.array(numbers, dtype=object).reshape(d, powers + 2).T
    sums = [as_int64(row) for row in table[:powers]]
    counts = as_int64(table[powers]) if outside else np.zeros(0, dtype=np.int64)
    return sums, counts, int(table[-1].sum())


def _powers(k: str, largest: int, powers: int) -> Sequence[str]:
    """Return the SQL of the powers of a step k, each over the largest and rounded down: see `Moments`."""
    bits = largest.bit_length() - 1
    if largest == 1 << bits:
        second = f"(({k} * {k}) >> {bits})"
        # Raised above 0 by a multiple of the largest, so that the shift rounds down as the division does.
        third = f"((({k} * {second} + {1 << 62}) >> {bits}) - {1 << 62 - bits})"
        return [k, second, third, f"(({second} * {second}) >> {bits})"][:powers]
    second = f"(({k} * {k}) // {largest})"
    raised = (1 << 62) // largest
    third = f"(({k} * {second} + {raised * largest}) // {largest} - {raised})"
    return [k, second, third, f"(({second} * {second}) // {largest})"][:powers]


def _double(value: float) -> str:
    """Return a float as a constant of SQL, to the last bit."""
    return f"CAST('{float(value)!r}' AS DOUBLE)"


# Lattices


# Centers up to this many steps from the origin are taken off in steps.
_MAX_OFFSET = 2.0**40

Steps = int | NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class BoxLattice(RowLattice):
    """Each column clipped separately.

    Attributes
    ----------
    bound : int or int64 array of shape (n_features,)
        Largest distance of an entry from its center, in steps.
    low, high : float or array of shape (n_features,)
        The declared bounds. Entries outside are counted by these bounds, not by steps.
    """

    bound: Steps
    low: Columns = -math.inf
    high: Columns = math.inf

    @classmethod
    def build(
        cls,
        clip: Columns,
        center: Columns,
        n_features: int,
        *,
        common: bool,
        bits: int = BITS,
        ends: tuple[Columns, Columns] | None = None,
    ) -> BoxLattice:
        """Return the lattice of the box ``|x_j - center_j| <= clip_j``.

        With ``common`` one spacing serves all columns; otherwise every column has 2^bits steps. The
        center is moved to the nearest point of the lattice, by at most half a step.
        """
        low, high = (center - clip, center + clip) if ends is None else ends
        check_region(clip, center)
        if common and not isinstance(clip, float):
            # An array even if the bounds agree: a shape must not depend on the numbers given.
            spacing: Columns = float(np.max(clip)) * 2.0**-bits
            bound: Steps = np.minimum(as_int64(np.maximum(np.floor(clip / spacing), 1)), 2**bits)
        else:
            spacing, bound = clip * 2.0**-bits, 2**bits
        steps = np.rint(center / spacing)
        if np.all(np.abs(steps) <= _MAX_OFFSET):
            # The nearest lattice point to the center, so that shifting to it costs nothing.
            center = steps * spacing if isinstance(steps, np.ndarray) else float(steps) * spacing
        return cls(center, spacing, n_features, bits, bound, low, high)

    def _bounds(self) -> list[int]:
        return [self.bound] * self.n_features if isinstance(self.bound, int) else self.bound.tolist()

    def sensitivity(self, norm: str) -> int:
        bounds = self._bounds()
        return 2 * sum(bounds) if norm == "l1" else isqrt_up(4 * sum(k * k for k in bounds))

    def square_sensitivity(self, norm: str) -> int:
        # A square lies in [0, bound]: half the width of an entry.
        tops = self._bounds()
        return sum(tops) if norm == "l1" else isqrt_up(sum(k * k for k in tops))

    @property
    def largest(self) -> Steps:
        return self.bound

    def joint_sensitivity(self, norm: str, weights: Sequence[float], outside: float = 0.0, count: float = 0.0) -> float:
        bounds = self._bounds()
        moved = self._moved(box_movement, weights, norm)
        if count:
            none = self._from_none(norm, weights, count)
            moved = max(moved, none)
        counted = math.fsum(K**2 for K in bounds) * outside**2
        if norm == "l2":
            return math.sqrt(moved + counted) * _SAFE
        return (moved + math.sqrt(len(bounds) * counted)) * _SAFE

    def added_sensitivity(self, norm: str, weights: Sequence[float], count: float) -> float:
        moved = self._from_none(norm, weights, count)
        return (math.sqrt(moved) if norm == "l2" else moved) * _SAFE

    def _from_none(self, norm: str, weights: Sequence[float], count: float) -> float:
        """Return the distance of a row from none, squared for "l2"."""
        power = 2 if norm == "l2" else 1
        return self._moved(dropped_movement, weights, norm) + (count * self.row_size(norm)) ** power

    def _moved(
        self, movement: Callable[[Sequence[float], int, str], float], weights: Sequence[float], norm: str
    ) -> float:
        """Return a movement of all columns, squared for "l2"."""
        bounds = self._bounds()
        found = {K: movement(weights, K, norm) for K in set(bounds)}
        return math.fsum(found[K] for K in bounds)

    def free_count(self, norm: str, weights: Sequence[float]) -> float:
        left = self._moved(box_movement, weights, norm) - self._moved(dropped_movement, weights, norm)
        size = self.row_size(norm)
        return (math.sqrt(left) / size if norm == "l2" else left / size) * (1 - 1e-9)

    def row_size(self, norm: str) -> float:
        bounds = self._bounds()
        return math.fsum(bounds) if norm == "l1" else math.sqrt(math.fsum(K**2 for K in bounds))

    @property
    def even_center(self) -> Steps:
        return self.bound // 2

    def free_squares(self, norm: str) -> float:
        return FREE_SQUARES_L1 if norm == "l1" else free_weight(FREE_SQUARES, self.bits)

    def columns(self, chosen: Any) -> BoxLattice:
        """Return the lattice of some of the columns: a slice, or an array of positions."""

        def part(value: Any) -> Any:
            return value[chosen] if isinstance(value, np.ndarray) else value

        count = len(range(self.n_features)[chosen]) if isinstance(chosen, slice) else len(chosen)
        ends = part(self.low), part(self.high)
        return BoxLattice(part(self.center), part(self.spacing), count, self.bits, part(self.bound), *ends)

    def stored_sums(self, X: Any, *, missing: str = "error") -> NDArray[np.int64]:
        """Return the exact column sums of a sparse table, by one pass over its stored entries.

        ``X`` is a scipy.sparse table in CSR form whose rows are sorted and store no entry twice: the clip of
        a sum is not the sum of clips. The center must be 0, so that an entry that is not stored is zero steps
        from it.
        """
        self._check_count(X.shape[0])
        if np.any(self.center):
            raise refuse("center", given=self.center, allowed="0 for a sparse table")
        return stored_sums(X, self, missing)

    def sum_groups(self, X: NDArray[Any], groups: Groups | None, *, missing: str, shares: bool = False) -> Moments:
        """Return the sums of the steps of each group and of their squares, or with ``shares`` of `end_shares`.

        A row whose code is -1 adds nothing. Without groups, the rows are one, and all of them add.
        """
        self._check_count(len(X))
        how = Reading(2, False, missing, default_threads(X.size), BLOCK, shares)
        return self._moments(X, how) if groups is None else sums_by_rows(X, self, how, groups)

    def _moments(self, X: NDArray[Any], how: Reading) -> Moments:
        return sums_by_columns(X, self, how)

    def _query(self, rows: Rows, powers: int, outside: bool, missing: str) -> Moments | None:
        if rows.expression(0) is None:
            return None
        unit, (offset, far) = self._unit, self._offset()
        found = power_sums(
            rows,
            shift=self.center if far else 0.0,
            factor=1 / self.spacing if unit == 1.0 else 1.0,
            offset=offset,
            unit=unit,
            bound=self.bound,
            largest=self.largest,
            ends=(self.low, self.high),
            powers=powers,
            outside=outside,
        )
        if found is None:
            return None
        sums, counts, bad = found
        if bad and missing == "error":
            raise not_finite()
        return Moments(tuple(sums), counts, np.array([rows.shape[0]]))

    def _offset(self) -> tuple[Columns, bool]:
        """Return the center in steps, and whether it is so far away that it is subtracted before precision is lost."""
        offset = np.rint(self.center / self.spacing)
        far = bool(np.any(np.abs(offset) > _MAX_OFFSET))
        return (np.zeros_like(offset) if far else offset), far

    def _outside(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        result: NDArray[np.bool_] = (rows < self.low) | (rows > self.high)
        return result

    @cached_property
    def _unit(self) -> float:
        """A step, in the units of the rounded values: entries are not scaled to steps by a power of two."""
        # Scaling by it is exact, so that rounding in the units of the data gives the same steps.
        spacing = self.spacing
        return spacing if isinstance(spacing, float) and math.frexp(spacing)[0] == 0.5 else 1.0

    @cached_property
    def _zero_pattern(self) -> int:
        return pattern(SHIFT * self._unit)

    def _round_block(self, rows: NDArray[Any], out: NDArray[np.float64]) -> None:
        n, d = rows.shape
        # Long inner loops: many rows laid side by side, parameters repeated to match.
        beside = out.flags.c_contiguous and not self._is_scalar()
        repeat = max(1, min(n, 2048 // d)) if beside else 1
        whole = n - n % repeat
        wide = (whole // repeat, repeat * d)
        self._round_wide(rows[:whole].reshape(wide), out[:whole].reshape(wide), repeat)
        if whole < n:
            self._round_wide(rows[whole:], out[whole:], 1)

    def _kernel(self, how: Reading) -> BoxKernel | None:
        unit, (offset, far) = self._unit, self._offset()
        if far or how.powers > 2 or not isinstance(self.bound, int) or self.bound != 2**self.bits:
            return None
        return BoxKernel(
            1 / self.spacing if unit == 1.0 else 1.0,
            (SHIFT - offset) * unit,
            self._zero_pattern,
            self.bits,
            self.low,
            self.high,
            self.center,
            how.powers,
            how.outside,
            how.missing,
            how.shares,
        )

    def _is_scalar(self) -> bool:
        return isinstance(self.center, float) and isinstance(self.spacing, float) and isinstance(self.bound, int)

    def _round_wide(self, rows: NDArray[Any], out: NDArray[np.float64], repeat: int) -> None:
        def tiled(value: Any) -> Any:
            return np.tile(value, repeat) if isinstance(value, np.ndarray) and repeat > 1 else value

        unit, (offset, far) = self._unit, self._offset()
        source = rows
        if far:
            np.subtract(rows, tiled(self.center), out=out, dtype=np.float64)
            source = out
        elif rows.dtype != out.dtype:
            # Converted first: numpy's loops that convert as they go are slower than two passes in cache.
            np.copyto(out, rows, casting="unsafe")
            source = out
        if unit == 1.0:
            source = np.multiply(source, tiled(1 / self.spacing), out=out)
        np.add(source, tiled((SHIFT - offset) * unit), out=out)
        # Patterns are clipped as integers. Every pattern of 64 bits is an integer, including a NaN's. So the
        # results are steps inside the box for any content of the memory. Positive floats are in the order of
        # their patterns, and negative ones are below, so for numbers this clips the numbers.
        steps = out.view(np.int64)
        zero = self._zero_pattern
        low, high = tiled(zero - self.bound), tiled(zero + self.bound)
        if isinstance(low, np.ndarray) and out.flags.c_contiguous:
            # Twice as fast as clip, whose loop is slow where bounds differ.
            np.minimum(np.maximum(steps, low, out=steps), high, out=steps)
        else:
            np.clip(steps, low, high, out=steps)
