"""Exact integer answers of queries on histograms over a finite universe."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.queries.linear import FRACTION_BITS, LinearQueries

# Mechanisms add noise to combinations of two kinds of integers, both in steps of 2^-20 rows. The answers on the data
# are exact. The answers of a public hypothesis are rounded. Replacing a row changes an answer on the data by at most
# `ROW`, and does not change the hypothesis.

ROW = 1 << FRACTION_BITS
"""Sensitivity of the answer of a query to replacing a row, in steps."""


def data_steps(queries: LinearQueries, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the exact answers of queries on integer counts, in steps."""
    return in_steps(np.asarray(queries.answers(counts), dtype=np.float64))


def hypothesis_steps(answers: Any, n_rows: int) -> NDArray[np.int64]:
    """Return the answers of a distribution, scaled to ``n_rows`` rows and rounded to steps."""
    return in_steps(n_rows * np.asarray(answers, dtype=np.float64))


def in_steps(answers: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return answers in rows as steps. Multiples of 2^-20 below 2^32 are not rounded."""
    return as_int64(np.rint(np.ldexp(answers, FRACTION_BITS)))


def in_shares(steps: Any, n_rows: int) -> Any:
    """Return steps as proportions of all rows."""
    return np.ldexp(np.asarray(steps, dtype=np.float64), -FRACTION_BITS) / n_rows
