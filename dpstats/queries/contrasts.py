"""Tables in orthonormal contrasts: along every axis the mean, and the Helmert contrasts of the levels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
from scipy.linalg import helmert

from dpstats.queries.linear import Numbers
from dpstats.queries.marginals import Table

# Consider the coefficients with a contrast in the attributes A, and the mean in all others. They are the residual of A
# in orthonormal coordinates, times the root of the number of cells of the other attributes. Independent noise of a
# residual is therefore independent noise of its coefficients.

_WIDEST = 32  # largest size of a matrix for several axes


class Contrasts:
    """The transform of tables to their coefficients, and back. Both take any number of tables of one shape."""

    def __init__(self, shape: Sequence[int]) -> None:
        self.shape = tuple(shape)
        self._axes = [_axis(run) for run in _runs(self.shape)]

    def coefficients(self, tables: Numbers) -> Numbers:
        """Return the coefficients of tables: arrays of shape (..., *shape)."""
        return self._applied(tables, [(axis.size, axis.forward) for axis in self._axes])

    def tables(self, coefficients: Numbers) -> Numbers:
        """Return the tables with these coefficients."""
        return self._applied(coefficients, [(axis.size, axis.back) for axis in self._axes])

    def _applied(self, values: Numbers, steps: Sequence[tuple[int, Callable[[Numbers], Numbers]]]) -> Numbers:
        before = values.shape[: values.ndim - len(self.shape)]
        # Transform the first axis and move it to the end. After all axes, each is in its place.
        found = values.reshape(math.prod(before), -1).T
        for size, transform in steps:
            found = transform(found.reshape(size, -1).T)
        return found.reshape(*before, *self.shape)


class _Axis(NamedTuple):
    """The transform of the last axis of a matrix, and its inverse."""

    size: int
    forward: Callable[[Numbers], Numbers]
    back: Callable[[Numbers], Numbers]


def _axis(run: Sequence[int]) -> _Axis:
    """Return the transform of a run of axes: by a small matrix, or of many levels by cumulative sums."""
    size = math.prod(run)
    if size > _WIDEST:
        return _Axis(size, _contrast, _combine)
    matrix = reduce(np.kron, [helmert(n, full=True) for n in run])
    return _Axis(size, lambda rows: rows @ matrix.T, lambda rows: rows @ matrix)


def _lengths(size: int) -> tuple[Numbers, Numbers]:
    """Return i, and the length of the contrast of level i with the i levels before it, for i = 1, 2, ..."""
    i = np.arange(1, size, dtype=np.float64)
    return i, np.sqrt(i * (i + 1))


def _contrast(rows: Numbers) -> Numbers:
    """Return the Helmert coefficients of rows in linear time: (x_0 + ... + x_(i - 1) - i x_i)/sqrt(i (i + 1))."""
    i, length = _lengths(rows.shape[-1])
    sums = np.cumsum(rows, axis=-1)
    found = np.empty(rows.shape)
    found[..., 0] = sums[..., -1] / math.sqrt(rows.shape[-1])
    found[..., 1:] = (sums[..., :-1] - i * rows[..., 1:]) / length
    return found


def _combine(coefficients: Numbers) -> Numbers:
    """Return the rows with these Helmert coefficients, in linear time."""
    size = coefficients.shape[-1]
    i, length = _lengths(size)
    scaled = coefficients[..., 1:] / length
    found = np.empty(coefficients.shape)
    found[..., -1] = 0.0
    # Level j is in the contrasts of all later levels, and in its own with the opposite sign.
    found[..., :-1] = np.cumsum(scaled[..., ::-1], axis=-1)[..., ::-1]
    found[..., 1:] -= i * scaled
    return found + coefficients[..., :1] / math.sqrt(size)


def places(table: Table, shape: Sequence[int]) -> tuple[slice | int, ...]:
    """Return the index of the coefficients of the residual of a table."""
    return tuple(slice(1, None) if j in table else 0 for j in range(len(shape)))


def residual_coefficients(values: Numbers) -> Numbers:
    """Return the coefficients of a single residual, of shape (n_1 - 1, ..., n_k - 1)."""
    found = values
    for axis, levels in enumerate(values.shape):
        if levels > _WIDEST:
            found = np.moveaxis(_contrast(np.moveaxis(found, axis, -1))[..., 1:], -1, axis)
        else:
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
