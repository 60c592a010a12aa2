"""What queries say of histograms of rows on a finite universe, exactly.

Everything that a mechanism draws noise for is made of two kinds of integers, both in steps of 2^-20 rows: the answers
on the data, which are exact, and those of a public hypothesis, which are rounded. A replaced row moves the first by at
most `ROW` and the second not at all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.queries.linear import FRACTION_BITS, LinearQueries

ROW = 1 << FRACTION_BITS
"""What a replaced row moves the answer of a query by at most, in steps."""


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
