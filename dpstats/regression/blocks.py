"""Rows of a fit on the lattice, in blocks. A fit converts its rows once, and keeps them if they are few enough.

Rows are rounded to integers on a fine lattice. Matrices and coefficients that multiply them are public and rounded so
that the products are exact (dpstats/lattice/products.py). So the contribution of a row does not depend on other rows,
nor on the processor.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from dpstats.data.arithmetic import as_int64
from dpstats.data.tables import Rows, Table
from dpstats.lattice import check_finite, observed_pairs
from dpstats.lattice.products import Integers, Sums, cut_rows, gram, inside_ball, map_items, sum_items
from dpstats.lattice.rounding import squared_norms
from dpstats.regression.design import Design

Floats = NDArray[np.float64]
Kept = TypeVar("Kept")

X_BITS = 18
"""A declared half-width is 2^18 steps."""

REACH = 4
"""Columns are clipped at 2^4 half-widths from the middle of their bounds. Rows beyond this have little weight."""

COUNTED = 2
"""Rows beyond 2^2 half-widths in any column have weight 0 in the Newton steps. The weight depends on x only."""

COUNT_BITS = 20
"""A count of rows by bins has 2^20 steps per row."""

MOST_KEPT = 1 << 30
"""Bytes of rows that a fit keeps. If its rows take more, each query reads and converts them again."""

_RUN = 1 << 10  # entries that one operation handles with a vector repeated for several rows


@dataclass(eq=False)
class Block:
    """Private: some rows, on the lattice.

    Attributes
    ----------
    points : array of shape (m, n_features + 1)
        Integers of at most 2^22 steps, which float32 holds exactly, and a last column of ones.
    y : array of shape (m,)
        Outcomes, in half-widths.
    outside, far : array of shape (m,)
        Whether the outcome is outside its bounds, and whether the row is too far away to have weight.
    exposure, offsets : arrays of shape (m,), optional
        Exposures and offsets, within their bounds.
    weight : array of shape (m,), optional
        Weights, as fractions of the largest weight.
    kept : dict, optional
        Last results of `remember`, for rows that answer further queries.
    """

    points: NDArray[np.float32]
    y: Floats
    outside: NDArray[np.bool_]
    far: NDArray[np.bool_]
    exposure: Floats | None = None
    offsets: Floats | None = None
    weight: Floats | None = None
    kept: dict[str, tuple[Hashable, Any]] | None = None
    any_far: bool = field(init=False)

    def __post_init__(self) -> None:
        self.any_far = bool(self.far.any())

    @property
    def z(self) -> Floats:
        """Integers of the rows, shape (m, n_features)."""
        return self.points[:, :-1].astype(np.float64)

    @property
    def offset(self) -> Floats | float:
        """Offset of each row, or logarithm of its exposure."""
        if self.exposure is not None:
            return np.asarray(xlogy(1.0, self.exposure))
        return 0.0 if self.offsets is None else self.offsets

    @property
    def root(self) -> Floats | float:
        """Square root of the weight of each row. A step scales the row and its residual by it."""
        return 1.0 if self.weight is None else np.sqrt(self.weight)

    def weigh(self, values: Any) -> Any:
        """Return numbers of each row times its weight."""
        return values if self.weight is None else (values.T * self.weight).T

    def count(self, places: NDArray[np.int64], bins: int) -> Integers:
        """Return counts of rows by bins, in steps. A row counts with its weight."""
        if self.weight is None:
            return as_int64(np.bincount(places, minlength=bins)) << COUNT_BITS
        steps = np.rint(self.weight * 2.0**COUNT_BITS)
        return as_int64(np.bincount(places, weights=steps, minlength=bins))

    def rows(self, shift: Floats, intercept: bool) -> Floats:
        """Return integer rows minus a shift, in steps, after a constant column if there is an intercept."""
        first = int(intercept)
        rows = np.empty((self.y.size, self.points.shape[1] - 1 + first))
        rows[:, :first] = 2.0**X_BITS
        np.subtract(self.points[:, :-1], shift, out=rows[:, first:])
        return self._without_far(rows)

    def combine(self, matrix: Floats, shift: Floats, intercept: bool) -> Floats:
        """Return the products of `rows` with a matrix or a vector, as if no row were far.

        They are exact, so the shift and the intercept can be part of the matrix.
        """
        first = int(intercept)
        slopes = matrix[..., first:]
        constant = matrix[..., :first].sum(axis=-1) * 2.0**X_BITS - slopes @ shift
        table = np.concatenate([slopes, np.expand_dims(constant, -1)], axis=-1)
        found: Floats = self.points.astype(np.float64) @ table.T
        return found

    def squared_norms(self, shift: Floats, intercept: bool, whitening: Floats | None) -> Floats:
        """Return the squared norms of rows in given coordinates, or in steps."""
        key = _key(shift, intercept, whitening)
        return self.remember("norms", key, lambda: squared_norms(self.whiten(shift, intercept, whitening)))

    def inside(
        self, shift: Floats, intercept: bool, whitening: Floats, radius: float, bits: int
    ) -> tuple[Floats, Floats]:
        """Return integer rows in a ball of 2^bits steps, and their scaling factors."""

        def bounded() -> tuple[NDArray[np.float32], Floats]:
            white = self.whiten(shift, intercept, whitening)
            key = _key(shift, intercept, whitening)
            norms = np.sqrt(self.remember("norms", key, lambda: squared_norms(white)))
            longest = np.maximum(norms, radius) / self.root
            rows = inside_ball(white, longest, 2**bits)
            # Integers of at most 2^20 steps, which float32 holds exactly.
            return rows.astype(np.float32), radius / longest

        rows, factors = self.remember("ball", (*_key(shift, intercept, whitening), radius, bits), bounded)
        return rows.astype(np.float64), factors

    def gram(self, rows: Floats, *ball: Any) -> Integers:
        """Return the Gram matrix of the rows that `inside` returned for ``ball``."""
        return self.remember("Gram matrix", (*_key(*ball[:3]), *ball[3:]), lambda: gram(rows))

    def remember(self, name: str, key: Hashable, make: Callable[[], Kept]) -> Kept:
        """Return ``make()``, or its last result if the key is the same and the rows are kept."""
        if self.kept is None:
            return make()
        last = self.kept.get(name)
        if last is None or last[0] != key:
            self.kept.pop(name, None)
            last = self.kept[name] = (key, make())
        found: Kept = last[1]
        return found

    def whiten(self, shift: Floats, intercept: bool, whitening: Floats | None) -> Floats:
        """Return rows in given coordinates, or in steps."""
        if whitening is None:
            return self.rows(shift, intercept)
        return self._without_far(self.combine(whitening, shift, intercept))

    def _without_far(self, rows: Floats) -> Floats:
        if self.any_far:
            rows[self.far] = 0.0
        return rows


def _key(shift: Floats, intercept: bool, whitening: Floats | None) -> tuple[Hashable, ...]:
    return shift.tobytes(), intercept, None if whitening is None else whitening.tobytes()


class Query(Protocol):
    """A sum over rows."""

    def sum_rows(self, block: Block) -> Sums:
        """Return the sums over some rows, by the names of the releases."""


@dataclass(frozen=True, eq=False)
class Blocks:
    """Private: rows in memory, and their outcomes."""

    X: Floats
    y: Floats
    design: Design
    exposure: Floats | None = None
    offset: Floats | None = None
    weight: Floats | None = None

    def block(self, where: slice) -> Block:
        """Return some rows."""
        design = self.design
        z = _by_column(np.subtract, np.ascontiguousarray(self.X[where], dtype=np.float64), design.center)
        z = _by_column(np.multiply, z, 2.0**X_BITS / design.half, z)
        far: NDArray[np.bool_] = np.zeros(len(z), dtype=np.bool_)
        near, reach = 2.0 ** (X_BITS + COUNTED), 2.0 ** (X_BITS + REACH)
        if not (z.max(initial=0.0) <= near and z.min(initial=0.0) >= -near):
            far[:] = ~(np.abs(z) <= near).all(axis=1)
            np.clip(z, -reach, reach, out=z)
        points = np.empty((z.shape[0], z.shape[1] + 1), dtype=np.float32)
        points[:, :-1], points[:, -1] = np.rint(z, out=z), 1.0
        exposure, offset, weight = (
            None if column is None or ends is None else np.clip(column[where], *ends)
            for column, ends in (
                (self.exposure, design.exposure),
                (self.offset, design.offset),
                (self.weight, design.weight),
            )
        )
        if weight is not None and design.weight is not None:
            weight = weight / design.weight[1]
        y, outside = design.read_outcome(self.y[where], offset)
        return Block(points, y, outside, far, exposure, None if design.outcome else offset, weight)

    def answer(self, question: Query) -> Sums:
        """Return the sums that a question is about."""
        work = cut_rows(len(self.X))
        return sum_items(lambda where: question.sum_rows(self.block(where)), work, self.X.size)

    def convert(self) -> list[Block]:
        """Return all rows, to be kept."""

        def kept(where: slice) -> Block:
            return replace(self.block(where), kept={})

        return map_items(kept, cut_rows(len(self.X)), self.X.size)


@dataclass(frozen=True, eq=False)
class DesignRows:
    """Private: rows of a fit with their outcomes and how to read them. With ``drops``, the observed rows only.

    Attributes
    ----------
    blocks : list of Block, optional
        All rows, if they are kept. The rows are read for every query otherwise.
    """

    rows: Rows
    design: Design
    drops: bool = False
    blocks: list[Block] | None = None

    def answer(self, question: Query) -> Sums:
        """Return the sums that a question is about."""
        if self.blocks is None:
            return self.rows.total(_Asked(question, self.design, self.drops))
        n, d = self.rows.shape
        return sum_items(question.sum_rows, self.blocks, n * d)

    def keep(self) -> DesignRows:
        """Return the rows with all of them kept, if they are in this process and few enough.

        Raises
        ------
        InvalidData
            If an entry is missing, and rows with missing entries are not dropped.
        """
        n, d = self.rows.shape
        if not self.rows.local or n * _bytes_per_row(d) > MOST_KEPT:
            return self
        blocks: list[Block] = []

        def convert(table: Table) -> Sums:
            if not self.drops:
                check_finite(table.X)
            blocks.extend(_blocks(table, self.design, self.drops).convert())
            return {}

        self.rows.total(convert)
        return replace(self, blocks=blocks)


def _bytes_per_row(d: int) -> int:
    """Return the bytes that a kept row takes: its points, itself in a ball, outcome, exposure, offset,
    weight, norm and factor."""
    return 4 * (d + 1) + 4 * (d + 1) + 6 * 8 + 2


@dataclass(frozen=True)
class _Asked:
    """A query applied to the rows of a table."""

    question: Query
    design: Design
    drops: bool

    def __call__(self, table: Table) -> Sums:
        return _blocks(table, self.design, self.drops).answer(self.question)


def _blocks(table: Table, design: Design, drops: bool) -> Blocks:
    """Return the rows of a table, or the observed ones."""
    assert table.y is not None
    X, y, d = table.X, table.y, table.X.shape[1]
    columns = table.beside()
    beside = {name: columns[name] for name in ("exposure", "offset", "weight") if name in columns}
    if drops:
        both, y = observed_pairs(np.column_stack([X, *beside.values()]) if beside else X, y)
        X, beside = both[:, :d], dict(zip(beside, both.T[d:], strict=True))
    return Blocks(X, y, design, **beside)


def _by_column(operation: np.ufunc, rows: Floats, values: Floats, out: Floats | None = None) -> Floats:
    """Return ``operation(rows, values)`` for one value a column. Many short rows are combined to a longer one."""
    n, d = rows.shape
    out = np.empty_like(rows) if out is None else out
    repeat = max(1, min(n, _RUN // max(d, 1)))
    whole = n - n % repeat
    shape = (-1, max(repeat * d, 1))
    if whole * d:
        operation(rows[:whole].reshape(shape), np.tile(values, repeat), out=out[:whole].reshape(shape))
    operation(rows[whole:], values, out=out[whole:])
    return out
