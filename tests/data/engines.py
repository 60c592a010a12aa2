"""Engines for tests: rows in memory that say they are not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.batches import Beside, Engine, Part, Work, names_of
from dpstats.data.rows import Integers, added


@dataclass(frozen=True, eq=False, repr=False)
class Cut(Engine):
    """Rows that are given in pieces of a public size, the last first; of entries beside them, as the column "y"."""

    X: NDArray[np.float64]
    rows: int
    columns: list[str] | None = None
    beside: tuple[str, ...] = ()
    entries: Any = None

    @property
    def names(self) -> list[Any] | None:
        if self.columns is None:
            return None
        return [*self.columns, *(["y"] if self.entries is not None else [])]

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape[0], self.X.shape[1]

    def having(self, columns: Sequence[str] | None, beside: Beside = None) -> Engine:
        return replace(self, beside=names_of(beside))

    def total(self, work: Work) -> dict[str, Integers]:
        total: dict[str, Integers] = {}
        for start in reversed(range(0, max(1, len(self.X)), self.rows)):
            some = slice(start, start + self.rows)
            added(total, work(Part(self.X[some], [self.entries[some]] if self.beside else [])))
        return total
