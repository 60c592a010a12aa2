"""Residuals of tables: the information in a table that smaller tables do not have, in exact integers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dpstats.queries.linear import Numbers
from dpstats.queries.marginals import Table

# With P_i = I - 11'/n_i and P_A the product of these over the attributes of A, the residual of a table x_A is P_A
# x_A. Tables are sums of residuals: x_S = sum over A within S of the residual of A, spread evenly over the attributes
# of S that A lacks. Proof: docs/proofs/workload-answers.md.


def closure(tables: Iterable[Table]) -> tuple[Table, ...]:
    """Return all nonempty subtables of these tables, small tables first."""
    found = {
        part
        for table in tables
        for k in range(1, len(table) + 1)
        for part in itertools.combinations(table, k)
    }
    return tuple(sorted(found, key=lambda table: (len(table), table)))


def whole_factor(table: Table, shape: Sequence[int]) -> int:
    """Return the factor that makes a residual an integer: the number of cells of the table."""
    return math.prod(shape[j] for j in table)


def whole_residual(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the exact residual of a table of counts, times the number of its cells."""
    found = counts
    for axis, levels in enumerate(counts.shape):
        found = levels * found - found.sum(axis=axis, keepdims=True)
    return found


def residual(values: Numbers, axes: Iterable[int] | None = None) -> Numbers:
    """Return the residual of real numbers: along each axis, the values minus their mean."""
    for axis in range(values.ndim) if axes is None else axes:
        values = values - values.mean(axis=axis, keepdims=True)
    return values


def added_up(residuals: Mapping[Table, Numbers], table: Table, shape: Sequence[int], total: float) -> Numbers:
    """Return the sum of residuals and the number of rows as a table. If residuals are noisy, it is unbiased."""
    found = np.full([shape[j] for j in table], total / whole_factor(table, shape))
    for k in range(1, len(table) + 1):
        for part in itertools.combinations(table, k):
            lacking = tuple(table.index(j) for j in table if j not in part)
            spread = np.expand_dims(residuals[part], lacking) if lacking else residuals[part]
            found = found + spread / math.prod(shape[table[axis]] for axis in lacking)
    return found


def cell_variance(weights: Mapping[Table, float], table: Table, shape: Sequence[int]) -> float:
    """Return the variance of a cell in a table that is the sum of residuals with noise variances 1/weights."""
    return math.fsum(
        share(part, table, shape) / weights[part]
        for k in range(1, len(table) + 1)
        for part in itertools.combinations(table, k)
    )


def share(part: Table, table: Table, shape: Sequence[int]) -> float:
    """Return the variance that a residual with noise variance 1 adds to each cell of a table."""
    return math.prod(1 - 1 / shape[j] if j in part else 1 / shape[j] ** 2 for j in table)
