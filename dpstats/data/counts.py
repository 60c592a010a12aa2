"""The source of a container, chosen by its type: rows in memory, counts of a universe, or an engine.

Rows in memory are an array, a list, a data frame, a column, or a sparse table, read by their declared types. Messages
of scikit-learn are repeated only if they mention just shapes and names.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.data.schema import Schema
from dpstats.data.tables import Counts, Rows, Table
from dpstats.data.values import exact_numbers, floats_among
from dpstats.errors import refuse_data

MOST_ROWS = 2**31


def is_histogram(X: Any, schema: Schema) -> bool:
    """Return whether X contains counts of a universe: by the schema, or a flat array of integers, one for each cell.

    With one attribute, a flat array always contains rows. Otherwise an array with one row per cell would look like
    counts, and neighboring datasets would differ in a number of rows that is treated as public.
    """
    if schema.counted or schema.cells is None:
        return schema.counted
    flat = isinstance(X, np.ndarray) and X.shape == (math.prod(schema.cells),) and X.dtype.kind in "iu"
    return flat and len(schema.cells) > 1


def read_counts(X: Any, cells: tuple[int, ...] | None = None) -> Counts:
    """Return a private histogram, of a declared universe if its ``cells`` are given.

    Raises
    ------
    InvalidData
        If X is not a histogram: integer counts, none negative, of 1 to 2^31 rows.
    """
    array = exact_numbers("X", X)
    if cells is not None:
        if array.shape not in ((math.prod(cells),), cells):
            raise refuse_data(
                "X",
                got=f"an array of shape {array.shape}",
                allowed=f"counts of the declared cells, whole numbers of shape ({math.prod(cells)},) or {cells}",
            )
        array = array.ravel()
    if array.ndim != 1 or array.size == 0:
        raise refuse_data(
            "X", got=f"shape {array.shape}", allowed="a histogram, one count for each point of the universe"
        )
    whole = bool(np.isfinite(floats_among(array)).all() and np.all((array >= 0) & (array <= MOST_ROWS)))
    counts = as_int64(array) if whole else np.zeros(0, dtype=np.int64)
    if not whole or not np.all(counts == array) or not 1 <= sum(counts.tolist()) <= MOST_ROWS:
        raise refuse_data(
            "X", allowed="a histogram: whole counts, none negative, of at least one row and at most 2^31"
        )
    return Counts(counts)


_TALLY = "tally"


@dataclass(frozen=True)
class Tally:
    """Counts of the cells of some attributes. The last count is the number of rows with an undeclared level."""

    shape: tuple[int, ...]

    def of_codes(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the counts (cells + 1,) of codes (n, k). The code -1 is an undeclared level."""
        size = math.prod(self.shape)
        cells = np.ravel_multi_index(tuple(as_int64(np.maximum(codes, 0)).T), self.shape)
        outside = (codes < 0).any(axis=1)
        return as_int64(np.bincount(np.where(outside, size, cells), minlength=size + 1))

    def of(self, rows: Rows) -> NDArray[np.int64]:
        """Return the counts (cells + 1,) of rows that were read as codes, for any source."""
        return rows.total(self)[_TALLY]

    def __call__(self, table: Table) -> dict[str, NDArray[np.int64]]:
        return {_TALLY: self.of_codes(table.X)}
