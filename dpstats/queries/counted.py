"""Private rows as counts of a domain's cells: of codes of rows, or of counts that were made before."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstats.data.tables import Table
from dpstats.errors import InvalidData
from dpstats.queries.domain import Counts, Domain


@dataclass(frozen=True, eq=False, repr=False)
class CountedRows(Table):
    """Private rows that were counted already: in ``counts`` how many are in each cell."""

    counts: Any = None
    attributes: int = 1

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of attributes, which are public."""
        return int(self.counts.sum()), self.attributes


def counted(X: Any, domain: Domain) -> CountedRows:
    """Return private counts of a domain's cells as the rows that they count."""
    words = (
        f"X must be counts of the domain's cells, whole numbers of shape ({domain.size},) or {domain.shape}"
    )
    counts = np.asarray(X)
    if counts.shape not in ((domain.size,), domain.shape) or counts.dtype.kind not in "iu":
        raise InvalidData(f"{words}, got an array of shape {counts.shape} and type {counts.dtype}")
    if (counts < 0).any() or counts.max() > 2**31 or not 1 <= int(counts.sum(dtype=object)) <= 2**31:
        raise InvalidData(f"{words}, not negative and of 1 to 2^31 rows in all")
    flat = counts.astype(np.int64).ravel()
    return CountedRows(flat[:, None], counts=flat, attributes=len(domain))


def counts_of(table: Any, shape: tuple[int, ...]) -> Counts:
    """Return how many rows are in each cell: of the codes of rows, or of counts that were given."""
    given = getattr(table, "counts", None)
    if given is not None:
        return np.asarray(given).reshape(shape)
    codes = np.asarray(table.X).astype(np.int64)
    cells = np.ravel_multi_index(tuple(codes.T), shape)
    return np.bincount(cells, minlength=math.prod(shape)).reshape(shape)
