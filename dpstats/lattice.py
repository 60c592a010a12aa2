"""From rows to integers: clip, round onto a public lattice, add up exactly.

A floating-point sum has a larger sensitivity than the real sum it stands for, and depends on
the order of its terms. Here each row is first mapped, on its own, to a vector of integers
(steps of a public spacing from a public centre) whose norm is bounded exactly. Integers add
up exactly in any order, on any number of threads, so replacing one row moves the sum by at
most the difference of two bounded integer rows: the stated sensitivity is a count of steps.

Nothing in this file draws noise, and nothing in it is public but the lattice itself.
The proof is in docs/proofs/lattice.md.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import InvalidData, InvalidParameter

if TYPE_CHECKING:
    from dpstats.validation import Columns

BITS = 30
"""Steps from the centre to the bound, as a power of two: rounding moves an entry by at most 2^-31 of its
bound. Coarser lattices serve where noise of that many steps could not be drawn."""

# Adding 1.5 * 2^52 to a number of size below 2^51 rounds it to the nearest integer, ties to
# even, and leaves that integer in the low bits of the float: its int64 view, less the view of
# the constant, is the integer itself.
_SHIFT = 1.5 * 2.0**52
_SHIFT_BITS = int(np.float64(_SHIFT).view(np.int64))

# Centres up to this many steps from the origin are taken off in steps.
_MAX_OFFSET = 2.0**40

_BLOCK = 1 << 19  # entries of a block: four megabytes, so that its passes stay in cache
_RUN = 1 << 13  # entries side by side in memory from which numpy's loops need no copy to be fast
_STORED_BLOCK = 1 << 20  # stored entries of a sparse table: 2^20 of 2^30 steps add up exactly as floats
_MAX_THREADS = 8
_MAX_SUM = 2**62  # bound on any integer formed, leaving room in int64 for the noise

# Bounds and centres in the units of the data. Inside these neither the spacing, nor its inverse, nor
# its square leaves floating point, so that a finite entry can never become NaN.
_SMALLEST, _LARGEST = 1e-140, 1e140

Item = TypeVar("Item")
Result = TypeVar("Result")
Steps = int | NDArray[np.int64]


def isqrt_up(value: int) -> int:
    """Return the square root of a non-negative integer, rounded up."""
    return 0 if value == 0 else math.isqrt(value - 1) + 1


def exact_steps(values: NDArray[Any], spacing: float) -> NDArray[Any]:
    """Round numbers to the nearest points of a lattice whose spacing is a power of two, exactly.

    Returns int64 steps, or Python integers where these do not fit 62 bits.
    """
    if values.dtype.kind in "biu" and max(abs(int(values.min())), abs(int(values.max()))) <= 2**53:
        values = values.astype(np.float64)
    if values.dtype.kind == "f":
        with np.errstate(over="ignore", under="ignore"):
            scaled = np.rint(values.astype(np.float64) / spacing)
        if np.abs(scaled).max() <= 2.0**62:
            return scaled.astype(np.int64)
    # Larger integers would lose digits as floats, and large quotients do not fit 64 bits: Python integers.
    step = Fraction(spacing)
    return np.array([round(Fraction(item) / step) for item in values.tolist()], dtype=object)


def _check_region(clip: Columns, center: Columns) -> None:
    sizes = np.atleast_1d(clip)
    if not np.all((sizes >= _SMALLEST) & (sizes <= _LARGEST)):
        raise InvalidParameter(
            f"clip must be between {_SMALLEST:g} and {_LARGEST:g} for exact arithmetic, got {sizes.min():g} "
            f"to {sizes.max():g}; change the units of the data"
        )
    if not np.all(np.abs(center) <= _LARGEST):
        raise InvalidParameter(f"center must be between -{_LARGEST:g} and {_LARGEST:g} for exact arithmetic")


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

    @property
    def square_spacing(self) -> Columns:
        """The length of a step of a square, in squared units of the data."""
        return self.spacing**2 * 2.0**self.bits

    def round_rows(self, X: NDArray[Any]) -> NDArray[np.int64]:
        """Return the lattice points of the rows of ``X``, of shape (n, n_features), in steps.

        Rows must be finite. This is the row map itself, one block of `sums`; use it to look at
        single rows, to compare with brute force and to build other statistics of small data.
        """
        X = np.ascontiguousarray(X)
        out = np.empty(X.shape)
        with np.errstate(over="ignore", invalid="ignore"):
            self._round_block(X, out)
        return out.view(np.int64) - _SHIFT_BITS

    def sums(
        self,
        X: Any,
        *,
        squares: bool = False,
        missing: str = "error",
        threads: int | None = None,
        block: int = _BLOCK,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
        """Return the exact column sums of the lattice points of the rows of ``X``.

        Parameters
        ----------
        X : array of shape (n, n_features)
            Real numbers of any numeric dtype and memory order; never changed, never copied whole.
        squares : bool
            Also return the column sums of ``k*k >> bits``, the squared distances from the centre.
        missing : {"error", "center"}
            What a NaN or infinite entry does: raise, or count as the centre.
        threads, block : int
            Number of threads (default: the processors, at most 8) and entries in a block. The
            sums do not depend on either.

        Raises
        ------
        InvalidData
            If an entry is NaN or infinite and ``missing="error"``.
        """
        self._check_count(X.shape[0])
        return self._sums(
            X, squares, missing, _default_threads(X.size) if threads is None else threads, block
        )

    def _check_count(self, n: int) -> None:
        if n << self.bits > _MAX_SUM:
            raise InvalidData(
                f"X has too many rows for exact 64-bit sums: {n}, at most {_MAX_SUM >> self.bits}"
            )

    def _sums(
        self, X: NDArray[Any], squares: bool, missing: str, threads: int, block: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
        rows_per_block = max(1, block // max(1, self.n_features))
        pieces = _split(X.shape[0], threads, rows_per_block)

        def work(piece: tuple[int, int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
            return self._sum_piece(X[piece[0] : piece[1]], rows_per_block, squares, missing)

        results = _on_threads(work, pieces, len(pieces))
        total = np.stack([first for first, _ in results]).sum(axis=0)
        return total, np.stack([second for _, second in results]).sum(axis=0) if squares else None

    def _sum_piece(
        self, X: NDArray[Any], rows_per_block: int, squares: bool, missing: str
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        total = np.zeros(self.n_features, dtype=np.int64)
        total_squares = np.zeros(self.n_features, dtype=np.int64)
        in_place = self._reads_in_place(X)
        order: Literal["C", "F"] = "F" if in_place and not _rows_are_runs(X) else "C"
        buffer = np.empty((min(rows_per_block, X.shape[0]), self.n_features), order=order)
        # errstate belongs to the thread: it has to be set where the arithmetic runs.
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, X.shape[0], rows_per_block):
                rows = X[start : start + rows_per_block]
                rows = rows if in_place else np.ascontiguousarray(rows)
                if not _all_finite(rows):
                    if missing == "error":
                        raise _not_finite()
                    # Row by row and public: a bad entry becomes the centre, whatever the other rows hold.
                    rows = np.where(np.isfinite(rows), rows.astype(np.float64), self.center)
                out = buffer[: rows.shape[0]]
                self._round_block(rows, out)
                shifted = out.view(np.int64)
                # Sums wrap around modulo 2^64 and come back: the true sum is below 2^62.
                total += _column_sums(shifted)
                total -= np.int64(_wrap(rows.shape[0] * _SHIFT_BITS))
                if squares:
                    shifted -= _SHIFT_BITS
                    np.multiply(shifted, shifted, out=shifted)
                    np.right_shift(shifted, self.bits, out=shifted)
                    total_squares += _column_sums(shifted)
        return total, total_squares

    def _reads_in_place(self, X: NDArray[Any]) -> bool:
        """Say whether blocks of ``X`` are worked on as they lie in memory; else they are copied first."""
        return False

    @abstractmethod
    def _round_block(self, rows: NDArray[Any], out: NDArray[np.float64]) -> None:
        """Write the rows' lattice points, shifted by `_SHIFT`, to ``out``."""


@dataclass(frozen=True, eq=False)
class BoxLattice(RowLattice):
    """Each column clipped on its own: an entry is at most ``bound`` steps from its centre."""

    bound: Steps

    @classmethod
    def build(
        cls, clip: Columns, center: Columns, n_features: int, *, common: bool, bits: int = BITS
    ) -> BoxLattice:
        """Return the lattice of the box ``|x_j - center_j| <= clip_j``.

        With ``common`` one spacing serves all columns; otherwise every column has 2^bits steps. The
        centre is moved to the nearest point of the lattice, by at most half a step.
        """
        _check_region(clip, center)
        if common and not isinstance(clip, float):
            # An array even if the bounds agree: a shape must not depend on the numbers given.
            spacing: Columns = float(np.max(clip)) * 2.0**-bits
            bound: Steps = np.minimum(np.maximum(np.floor(clip / spacing), 1).astype(np.int64), 2**bits)
        else:
            spacing, bound = clip * 2.0**-bits, 2**bits
        steps = np.rint(center / spacing)
        if np.all(np.abs(steps) <= _MAX_OFFSET):
            # The nearest lattice point to the centre, so that shifting to it costs nothing.
            center = steps * spacing if isinstance(steps, np.ndarray) else float(steps) * spacing
        return cls(center, spacing, n_features, bits, bound)

    def _bounds(self) -> list[int]:
        return [self.bound] * self.n_features if isinstance(self.bound, int) else self.bound.tolist()

    def sensitivity(self, norm: str) -> int:
        bounds = self._bounds()
        return 2 * sum(bounds) if norm == "l1" else isqrt_up(4 * sum(k * k for k in bounds))

    def square_sensitivity(self, norm: str) -> int:
        # A square lies in [0, bound^2 >> bits]: half the width of an entry.
        tops = [k * k >> self.bits for k in self._bounds()]
        return sum(tops) if norm == "l1" else isqrt_up(sum(k * k for k in tops))

    def columns(self, chosen: Any) -> BoxLattice:
        """Return the lattice of some of the columns: a slice, or an array of positions."""

        def part(value: Any) -> Any:
            return value[chosen] if isinstance(value, np.ndarray) else value

        count = np.arange(self.n_features)[chosen].size if isinstance(chosen, slice) else len(chosen)
        return BoxLattice(part(self.center), part(self.spacing), count, self.bits, part(self.bound))

    def _sums(
        self, X: NDArray[Any], squares: bool, missing: str, threads: int, block: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
        # Blocks are cut along memory: runs of rows, or (Fortran order) runs of columns.
        width = 2 * _RUN if _rows_are_runs(X) else max(1, block // max(1, min(X.shape[0], _RUN)))
        if self.n_features <= width:
            return super()._sums(X, squares, missing, threads, block)
        # Columns do not know of each other: a wide table is several narrow ones, whose blocks stay in cache.
        starts = range(0, self.n_features, width)
        tiles = [slice(start, min(start + width, self.n_features)) for start in starts]

        def work(tile: slice) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
            narrow = self.columns(tile)
            return super(BoxLattice, narrow)._sums(X[:, tile], squares, missing, 1, block)

        results = _on_threads(work, tiles, min(threads, len(tiles)))
        total = np.concatenate([first for first, _ in results])
        return total, np.concatenate([second for _, second in results]) if squares else None

    def _reads_in_place(self, X: NDArray[Any]) -> bool:
        return not _rows_are_runs(X) or (X.shape[1] >= _RUN and X.strides[1] == X.itemsize)

    def stored_sums(self, X: Any, *, missing: str = "error") -> NDArray[np.int64]:
        """Return the exact column sums of a sparse table, by one pass over its stored entries.

        ``X`` is a scipy.sparse table in CSR form that stores no entry twice: the clip of a sum is not the
        sum of clips. The centre must be 0, so that an entry that is not stored is zero steps from it.
        """
        self._check_count(X.shape[0])
        if np.any(self.center):
            raise InvalidParameter("sparse tables need a lattice that is centred at 0")
        total = np.zeros(self.n_features, dtype=np.int64)
        for start in range(0, X.nnz, _STORED_BLOCK):
            values, positions = (part[start : start + _STORED_BLOCK] for part in (X.data, X.indices))
            if not _all_finite(values):
                if missing == "error":
                    raise _not_finite()
                values = np.where(np.isfinite(values), values, 0.0)
            steps = self.columns(positions).round_rows(values[None, :])[0]
            total += np.bincount(positions, weights=steps, minlength=self.n_features).astype(np.int64)
        return total

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

    def _is_scalar(self) -> bool:
        return (
            isinstance(self.center, float) and isinstance(self.spacing, float) and isinstance(self.bound, int)
        )

    def _round_wide(self, rows: NDArray[Any], out: NDArray[np.float64], repeat: int) -> None:
        def tiled(value: Any) -> Any:
            return np.tile(value, repeat) if isinstance(value, np.ndarray) and repeat > 1 else value

        offset = np.rint(self.center / self.spacing)
        if np.all(np.abs(offset) <= _MAX_OFFSET):
            # Converted first: numpy's loops that convert as they go are slower than two passes in cache.
            source = rows if rows.dtype == out.dtype else out
            if source is out:
                np.copyto(out, rows, casting="unsafe")
            np.multiply(source, tiled(1 / self.spacing), out=out)
        else:
            # A centre that is far away compared with the clip: subtract it before precision is lost.
            np.subtract(rows, tiled(self.center), out=out, dtype=np.float64)
            np.multiply(out, tiled(1 / self.spacing), out=out)
            offset = np.zeros_like(offset)
        np.add(out, tiled(_SHIFT - offset), out=out)
        # Every float between the bounds is an integer, whatever came before.
        np.clip(out, tiled(_SHIFT - self.bound), tiled(_SHIFT + self.bound), out=out)


@dataclass(frozen=True, eq=False)
class BallLattice(RowLattice):
    """Rows projected on a ball: the l2 norm of a row is at most ``radius`` steps."""

    spacing: float
    radius: int

    @classmethod
    def build(cls, clip: float, center: Columns, n_features: int, *, bits: int = BITS) -> BallLattice:
        """Return the lattice of the ball ``||x - center||_2 <= clip``."""
        _check_region(clip, center)
        return cls(center, clip * 2.0**-bits, n_features, bits, 2**bits)

    def sensitivity(self, norm: str) -> int:
        if norm == "l2":
            return 2 * self.radius
        # ||k||_1 <= sqrt(d) ||k||_2, and an l1 norm of integers is an integer.
        return 2 * math.isqrt(self.n_features * self.radius**2)

    def square_sensitivity(self, norm: str) -> int:
        # The squares of a row are non-negative and add up to at most radius^2 >> bits = top, so two
        # rows of them differ most when each is a corner of that simplex (or, for one column, 0 and top).
        top = self.radius**2 >> self.bits
        if self.n_features == 1:
            return top
        return 2 * top if norm == "l1" else isqrt_up(2 * top * top)

    def _round_block(self, rows: NDArray[Any], out: NDArray[np.float64]) -> None:
        if np.any(self.center):
            np.subtract(rows, self.center, out=out, dtype=np.float64)
            np.multiply(out, 1 / self.spacing, out=out)
        else:
            np.multiply(rows, 1 / self.spacing, out=out, dtype=np.float64)
        norms = self._norms(out)
        # Rows that are scaled at all are scaled to stay inside after rounding. This is accuracy; the
        # check below is what privacy rests on.
        inside = max(self.radius * (1 - self._norm_error()) - self._rounding() - 1, 0.0)
        factors = np.minimum(1.0, inside / np.maximum(norms, 1.0))
        overflow = np.flatnonzero(~np.isfinite(norms))
        if overflow.size:
            self._project_huge(out, overflow, factors, inside)
        moved = np.flatnonzero(factors != 1)
        if 8 * moved.size > factors.size:
            out *= factors[:, None]
        elif moved.size:
            out[moved] *= factors[moved, None]
        np.add(out, _SHIFT, out=out)
        np.subtract(out, _SHIFT, out=out)
        self._enforce(out)
        np.add(out, _SHIFT, out=out)

    def _project_huge(
        self, out: NDArray[np.float64], rows: NDArray[np.intp], factors: NDArray[np.float64], inside: float
    ) -> None:
        """Prepare rows whose squares, or whose shift to the centre, overflow: first scale them to size one."""
        huge = np.clip(out[rows], -1e300, 1e300)
        huge /= np.abs(huge).max(axis=1, keepdims=True)
        out[rows] = huge
        factors[rows] = inside / self._norms(huge)

    def _norms(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        norms: NDArray[np.float64] = np.sqrt(_squared_norms(rows))
        return norms

    def _rounding(self) -> float:
        """Return how much rounding every entry adds to a norm at most."""
        return math.sqrt(self.n_features) / 2

    def _norm_error(self) -> float:
        # Bound on the relative error of a floating-point sum of d squares, in any order.
        return (self.n_features + 4) * 2.0**-52

    def _enforce(self, out: NDArray[np.float64]) -> None:
        """Shrink every integer row that is not certainly inside the ball.

        A row is accepted only if the computed sum of squares, enlarged by a bound on its own
        rounding error, is at most radius^2: accepted rows are inside, whatever came before.
        """
        while True:
            outside = np.flatnonzero(~self._certainly_inside(out))
            if not outside.size:
                return
            out[outside] = np.trunc(np.nan_to_num(out[outside]) * 0.999)

    def _certainly_inside(self, rows: NDArray[np.float64]) -> NDArray[np.bool_]:
        return _squared_norms(rows) <= float(self.radius) ** 2 * (1 - self._norm_error())


@dataclass(frozen=True, eq=False)
class CrossLattice(BallLattice):
    """Rows scaled to an l1 ball (a cross-polytope): the l1 norm of a row is at most ``radius`` steps."""

    def sensitivity(self, norm: str) -> int:
        # Two opposite corners, in either norm. The squares' sensitivity is the ball's: between two corners.
        return 2 * self.radius

    def _norms(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        return _absolute_norms(rows)

    def _rounding(self) -> float:
        return self.n_features / 2

    def _certainly_inside(self, rows: NDArray[np.float64]) -> NDArray[np.bool_]:
        # Sums of integers are exact below 2^53, and a sum that reaches it is far above the radius.
        return _absolute_norms(rows) <= self.radius


def check_finite(X: NDArray[Any]) -> None:
    """Raise `InvalidData` if an entry is NaN or infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        finite = _all_finite(X)
    if not finite:
        raise _not_finite()


def _not_finite() -> InvalidData:
    return InvalidData(
        "Input X contains NaN or infinity. Remove or impute such rows first, or declare "
        "missing='center' to let such an entry count as the clip centre."
    )


def _squared_norms(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the squared l2 norm of each row, by sums whose order depends on the row's length only."""
    if rows.shape[0] == 1:
        # A single long row would be summed in another order than one among others.
        rows = np.concatenate([rows, rows])
        return np.einsum("ij,ij->i", rows, rows)[:1]
    return np.einsum("ij,ij->i", rows, rows)


def _absolute_norms(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the l1 norm of each row, by sums whose order depends on the row's length only."""
    together = np.concatenate([rows, rows]) if rows.shape[0] == 1 else rows
    norms: NDArray[np.float64] = np.abs(together).sum(axis=1)
    return norms[: rows.shape[0]]


def _on_threads(work: Callable[[Item], Result], items: Sequence[Item], threads: int) -> list[Result]:
    if threads == 1 or len(items) == 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, items))


def _default_threads(entries: int) -> int:
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(available, _MAX_THREADS, entries // _BLOCK))


def _split(n: int, threads: int, rows_per_block: int) -> list[tuple[int, int]]:
    """Cut n rows into at most ``threads`` runs of whole blocks."""
    if threads < 1:
        raise InvalidParameter(f"threads must be at least 1, got {threads}")
    blocks = max(1, -(-n // rows_per_block))
    per_thread = -(-blocks // min(threads, blocks)) * rows_per_block
    return [(start, min(start + per_thread, n)) for start in range(0, max(n, 1), per_thread)]


def _rows_are_runs(X: NDArray[Any]) -> bool:
    """Say whether entries of a row, rather than of a column, lie side by side in memory."""
    return abs(X.strides[1]) <= abs(X.strides[0])


def _all_finite(rows: NDArray[Any]) -> bool:
    if rows.dtype.kind != "f":
        return True
    # A finite sum proves finite entries in one quick pass; large finite entries may still overflow.
    return bool(np.isfinite(rows.sum())) or bool(np.isfinite(rows).all())


def _column_sums(values: NDArray[np.int64]) -> NDArray[np.int64]:
    n, d = values.shape
    repeat = max(1, min(n, 1024 // d)) if values.flags.c_contiguous else 1
    whole = n - n % repeat
    total = values[:whole].reshape(-1, repeat * d).sum(axis=0).reshape(repeat, d).sum(axis=0)
    return total + values[whole:].sum(axis=0)


def _wrap(value: int) -> int:
    """Return an integer modulo 2^64, as a signed 64-bit number."""
    return (value + 2**63) % 2**64 - 2**63
