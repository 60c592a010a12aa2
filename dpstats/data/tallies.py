"""How many rows have each combination of declared levels: of codes, or of rows wherever they are."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.data.tables import Rows, Table

_TALLY = "tally"


@dataclass(frozen=True)
class Tally:
    """Counts of the cells of some attributes, and last of the rows that are at no level of one of them."""

    shape: tuple[int, ...]

    def of_codes(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the counts (cells + 1,) of codes (n, k); -1 is no level."""
        size = math.prod(self.shape)
        cells = np.ravel_multi_index(tuple(as_int64(np.maximum(codes, 0)).T), self.shape)
        outside = (codes < 0).any(axis=1)
        return as_int64(np.bincount(np.where(outside, size, cells), minlength=size + 1))

    def of(self, rows: Rows) -> NDArray[np.int64]:
        """Return the counts (cells + 1,) of rows that were read as codes, wherever they are."""
        return rows.total(self)[_TALLY]

    def __call__(self, table: Table) -> dict[str, NDArray[np.int64]]:
        return {_TALLY: self.of_codes(table.X)}
