"""Histograms of rows on a finite universe: private, read once, never shown; and what queries say of them, exactly.

Everything that a mechanism draws noise for is made of two kinds of integers, both in steps of 2^-20 rows: the answers
on the data, which are exact, and those of a public hypothesis, which are rounded. A replaced row moves the first by at
most `ROW` and the second not at all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.data.numbers import exact_numbers, floats_among
from dpstats.data.tables import Table
from dpstats.errors import InvalidData
from dpstats.queries.linear import FRACTION_BITS, LinearQueries

ROW = 1 << FRACTION_BITS
"""What a replaced row moves the answer of a query by at most, in steps."""

MOST_ROWS = 2**31


class Counts(Table):
    """How many rows are at each point of the universe: ``X`` of shape (size,).

    Its shape is that of the rows it stands for: their number, which is public, and the size of the universe.
    """

    __slots__ = ()

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of points, which are public."""
        return int(self.X.sum()), self.X.size


def read_counts(X: Any, domain: Any = None) -> Counts:
    """Return a private histogram, or that of private rows in a declared domain; see `is_histogram`.

    Raises
    ------
    InvalidData
        If X is no histogram: whole counts, none negative, of 1 to 2^31 rows.
    """
    if domain is not None and not is_histogram(X, domain):
        X = domain.histogram(X)
    array = exact_numbers("X", X)
    if array.ndim != 1 or array.size == 0:
        raise InvalidData(
            f"X must be a histogram, one count for each point of the universe, got shape {array.shape}"
        )
    whole = bool(np.isfinite(floats_among(array)).all() and np.all((array >= 0) & (array <= MOST_ROWS)))
    counts = as_int64(array) if whole else np.zeros(0, dtype=np.int64)
    if not whole or not np.all(counts == array) or not 1 <= sum(counts.tolist()) <= MOST_ROWS:
        raise InvalidData(
            "X must be a histogram: whole counts, none negative, of at least one row and at most 2^31"
        )
    return Counts(counts)


def is_histogram(X: Any, domain: Any) -> bool:
    """Return whether X is counts of a declared domain's cells: a flat array of whole numbers, one for each cell.

    Of one attribute a flat array is always rows: as many as there are cells would look like counts, and neighbours
    would differ in a number of rows that is taken for public.
    """
    flat = isinstance(X, np.ndarray) and X.shape == (domain.size,) and X.dtype.kind in "iu"
    return flat and len(domain) > 1


def data_steps(queries: LinearQueries, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the answers of queries on whole counts, in steps: exact."""
    return in_steps(np.asarray(queries.answers(counts), dtype=np.float64))


def hypothesis_steps(answers: Any, n_rows: int) -> NDArray[np.int64]:
    """Return the answers of a distribution as those of ``n_rows`` rows, rounded to steps."""
    return in_steps(n_rows * np.asarray(answers, dtype=np.float64))


def in_steps(answers: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return answers in rows as steps: of multiples of 2^-20 below 2^32 without rounding."""
    return as_int64(np.rint(np.ldexp(answers, FRACTION_BITS)))


def in_shares(steps: Any, n_rows: int) -> Any:
    """Return steps as shares of all rows."""
    return np.ldexp(np.asarray(steps, dtype=np.float64), -FRACTION_BITS) / n_rows
