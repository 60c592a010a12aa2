"""Tables in orthonormal contrasts: along every axis the mean, and the Helmert contrasts of the levels.

Consider the coefficients with a contrast in the attributes A, and the mean in all others. They are the residual of A
in orthonormal coordinates, times the root of the number of cells of the other attributes. Independent noise of a
residual is therefore independent noise of its coefficients.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import helmert

from dpstats.queries.marginals import Table

Numbers = NDArray[np.float64]

_WIDEST = 32  # largest size of a matrix for several axes


class Contrasts:
    """The transform of tables to their coefficients, and back. Both take any number of tables of one shape."""

    def __init__(self, shape: Sequence[int]) -> None:
        self.shape = tuple(shape)
        self._matrices = [reduce(np.kron, [helmert(n, full=True) for n in run]) for run in _runs(self.shape)]

    def coefficients(self, tables: Numbers) -> Numbers:
        """Return the coefficients of tables: arrays of shape (..., *shape)."""
        return self._applied(tables, self._matrices)

    def tables(self, coefficients: Numbers) -> Numbers:
        """Return the tables with these coefficients."""
        return self._applied(coefficients, [matrix.T for matrix in self._matrices])

    def _applied(self, values: Numbers, matrices: Sequence[Numbers]) -> Numbers:
        before = values.shape[: values.ndim - len(self.shape)]
        # Transform the first axis and move it to the end. After all axes, each is in its place.
        found = values.reshape(math.prod(before), -1).T
        for matrix in matrices:
            found = found.reshape(len(matrix), -1).T @ matrix.T
        return found.reshape(*before, *self.shape)


def places(table: Table, shape: Sequence[int]) -> tuple[slice | int, ...]:
    """Return the index of the coefficients of the residual of a table."""
    return tuple(slice(1, None) if j in table else 0 for j in range(len(shape)))


def residual_coefficients(values: Numbers) -> Numbers:
    """Return the coefficients of a single residual, of shape (n_1 - 1, ..., n_k - 1)."""
    found = values
    for axis, levels in enumerate(values.shape):
        found = np.moveaxis(np.tensordot(helmert(levels), found, axes=(1, axis)), 0, axis)
    return found


def _runs(shape: Sequence[int]) -> list[list[int]]:
    """Return runs of axes to transform with one matrix. Separate small matrices would be slow."""
    runs: list[list[int]] = []
    for levels in shape:
        if runs and math.prod(runs[-1]) * levels <= _WIDEST:
            runs[-1].append(levels)
        else:
            runs.append([levels])
    return runs
