"""Private rows as counts of a domain's cells: of codes of rows, or of counts that were made before."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstats.data.arithmetic import as_int64
from dpstats.data.tables import Table
from dpstats.errors import InvalidData
from dpstats.queries.counts import is_histogram, read_counts
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


def private_table(X: Any, domain: Domain, declared: bool) -> Table:
    """Return private rows of a domain as codes; or counts of its cells, as the rows that they count.

    Counts are an array of whole numbers, one for each cell (or of the domain's shape, where no domain was declared);
    of a declared domain of one attribute, rows are always meant.
    """
    if declared and not is_histogram(X, domain):
        return Table(domain.codes(X))
    counts = np.asarray(X)
    if counts.shape not in ((domain.size,), domain.shape):
        raise InvalidData(
            f"X must be counts of the domain's cells, whole numbers of shape ({domain.size},) or {domain.shape}, got "
            f"an array of shape {counts.shape}"
        )
    flat = read_counts(counts.ravel()).X
    return CountedRows(flat[:, None], counts=flat, attributes=len(domain))


def counts_of(table: Table, shape: tuple[int, ...]) -> Counts:
    """Return how many rows are in each cell: of the codes of rows, or of counts that were given."""
    if isinstance(table, CountedRows):
        return np.asarray(table.counts).reshape(shape)
    cells = np.ravel_multi_index(tuple(as_int64(np.asarray(table.X)).T), shape)
    return np.bincount(cells, minlength=math.prod(shape)).reshape(shape)
