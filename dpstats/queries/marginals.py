"""Marginal tables of a few attributes of a domain. Every cell of a table is a query.

Proof: docs/proofs/workload-answers.md.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import helmert

from dpstats.data.parameters import check_integer
from dpstats.data.values import as_int64
from dpstats.errors import refuse, show
from dpstats.queries.domain import Domain, check_domain, find_position
from dpstats.queries.linear import LinearQueries, Numbers, real_vector

# Tables

Table = tuple[int, ...]
"""Attributes of a table, by increasing position."""


class MarginalQueries(LinearQueries, name="marginals"):
    """The cells of tables of some attributes; see `LinearQueries.marginals`.

    Attributes
    ----------
    domain : Domain
    tables : tuple of tuples of int
        The attributes of each table, by their positions. The queries are its cells, table after table.

    Examples
    --------
    >>> from dpstats.queries import LinearQueries
    >>> queries = LinearQueries.marginals((2, 3), 1)
    >>> queries.tables, queries.answers([1, 2, 3, 4, 5, 6]).tolist()
    (((0,), (1,)), [6, 15, 5, 7, 9])
    """

    def __init__(self, domain: Any, tables: Any) -> None:
        self.domain: Domain = check_domain("domain", domain)
        self.tables = check_tables("tables", tables, self.domain)
        self.shapes = [tuple(self.domain.shape[j] for j in table) for table in self.tables]
        self._starts = [0, *itertools.accumulate(map(math.prod, self.shapes))]

    @property
    def n_queries(self) -> int:
        return self._starts[-1]

    @property
    def size(self) -> int:
        return self.domain.size

    @property
    def is_counting(self) -> bool:
        return True

    def part(self, i: int) -> slice:
        """Return the slice of the queries that are the cells of table i."""
        return slice(self._starts[i], self._starts[i + 1])

    def split(self, values: Any) -> list[NDArray[Any]]:
        """Split values of all queries into tables with their shapes."""
        flat = np.asarray(values)
        if flat.shape != (self.n_queries,):
            raise refuse(
                "values", got=f"{flat.shape}", allowed=f"have shape ({self.n_queries},), one value of each query"
            )
        return [flat[self.part(i)].reshape(shape) for i, shape in enumerate(self.shapes)]

    def answers(self, x: Any) -> NDArray[Any]:
        whole = real_vector("x", x, self.size).reshape(self.domain.shape)
        exact = as_int64(whole) if whole.dtype.kind in "biu" else whole.astype(np.float64)
        found = dict(margins(exact, self.tables))
        return np.concatenate([found[table].ravel() for table in self.tables])

    def transpose(self, w: Any) -> Numbers:
        weights = self.split(real_vector("w", w, self.n_queries).astype(np.float64))
        spread_out = spread(dict(zip(self.tables, weights, strict=True)), self.domain.shape)
        return np.asarray(np.broadcast_to(spread_out, self.domain.shape)).ravel()

    def query(self, j: int) -> Numbers:
        i, cell = self._place(j)
        own = np.zeros(self.shapes[i])
        own[cell] = 1.0
        return np.array(np.broadcast_to(spread({self.tables[i]: own}, self.domain.shape), self.domain.shape)).ravel()

    def label(self, j: int) -> str:
        i, cell = self._place(j)
        domain = self.domain
        parts = zip(self.tables[i], cell, strict=True)
        return ", ".join(f"{domain.names[axis]} = {domain.levels[axis][code]}" for axis, code in parts)

    def _place(self, j: int) -> tuple[int, tuple[int, ...]]:
        index = self._index(j)
        i = bisect_right(self._starts, index) - 1
        place = np.unravel_index(index - self._starts[i], self.shapes[i])
        return i, tuple(int(code) for code in place)


def check_tables(name: str, tables: Any, domain: Domain) -> tuple[Table, ...]:
    """Return tables by the increasing positions of their attributes. A number k stands for all tables of k attributes.

    ``tables`` is a number of attributes, or a sequence whose items are such numbers, names or positions of attributes
    in a sequence.
    """
    d = len(domain)
    refusal = refuse(
        name,
        given=tables,
        allowed="a number of attributes (all tables of that many), or a sequence of such numbers and of sequences of "
        "attributes",
    )
    if isinstance(tables, str | bytes) or not (_is_whole(tables) or isinstance(tables, Sequence)):
        raise refusal
    found: list[Table] = []
    for item in [tables] if _is_whole(tables) else tables:
        if _is_whole(item):
            k = check_integer(name, item, at_least=1, at_most=d, of=tables)
            found += itertools.combinations(range(d), k)
            continue
        if isinstance(item, str | bytes) or not isinstance(item, Sequence) or not item:
            raise refusal
        found.append(check_table(name, item, domain, tables))
    if not found:
        raise refuse(name, got="none", allowed="at least one table")
    if len(set(found)) < len(found):
        twice = next(table for table in found if found.count(table) > 1)
        raise refuse(name, got=f"{show(domain.label(twice))} twice", allowed="different tables")
    return tuple(found)


def check_table(name: str, attributes: Any, domain: Domain, of: Any = ...) -> Table:
    """Return the increasing positions of the attributes of a table, given by name or position.

    Errors describe ``of``, the container that the attributes are from.
    """
    given = attributes if of is ... else of
    if isinstance(attributes, str | bytes) or not isinstance(attributes, Sequence) or not attributes:
        raise refuse(name, given=given, allowed="the attributes of a table, in a sequence")
    table = tuple(sorted(find_position(domain, attribute, given) for attribute in attributes))
    if len(set(table)) < len(table):
        raise refuse(name, given=given, allowed="not have an attribute twice in a table")
    return table


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def margins(array: NDArray[Any], tables: Sequence[Table]) -> Iterator[tuple[Table, NDArray[Any]]]:
    """Yield every requested marginal table of an array once.

    The recursion keeps or sums one attribute after another, so that tables share partial sums. All tables of a few
    attributes together need only a few passes over the array.
    """
    yield from _margins(array, 0, 0, list(dict.fromkeys(tables)), array.ndim)


def _margins(
    array: NDArray[Any], axis: int, kept: int, tables: list[Table], d: int
) -> Iterator[tuple[Table, NDArray[Any]]]:
    if len(tables) == 1:
        (table,) = tables
        out = tuple(kept + j - axis for j in range(axis, d) if j not in table)
        yield table, array.sum(axis=out) if out else array
        return
    having = [table for table in tables if axis in table]
    lacking = [table for table in tables if axis not in table]
    if lacking:
        yield from _margins(array.sum(axis=kept), axis + 1, kept, lacking, d)
    if having:
        yield from _margins(array, axis + 1, kept + 1, having, d)


def spread(weights: dict[Table, NDArray[Any]], shape: Sequence[int]) -> NDArray[Any]:
    """Return the sum over all tables of the weight of the table cell that contains each cell.

    This is the transpose of `margins`. Axes without a table have length 1 in the result.
    """
    return _spread(weights, 0, 0, tuple(shape))


def _spread(weights: dict[Table, NDArray[Any]], axis: int, kept: int, shape: tuple[int, ...]) -> NDArray[Any]:
    if len(weights) == 1:
        ((table, array),) = weights.items()
        ends = [array.shape[kept + table[kept:].index(j)] if j in table[kept:] else 1 for j in range(axis, len(shape))]
        return array.reshape(*array.shape[:kept], *ends)
    having = {table: array for table, array in weights.items() if axis in table}
    lacking = {table: array for table, array in weights.items() if axis not in table}
    total: Any = 0.0
    if lacking:
        total = np.expand_dims(_spread(lacking, axis + 1, kept, shape), kept)
    if having:
        total = total + _spread(having, axis + 1, kept + 1, shape)
    return np.asarray(total)


# Residuals: the information in a table that smaller tables do not have, in exact integers

# With P_i = I - 11'/n_i and P_A the product of these over the attributes of A, the residual of a table x_A is P_A
# x_A. Tables are sums of residuals: x_S = sum over A within S of the residual of A, spread evenly over the attributes
# of S that A lacks. Proof: docs/proofs/workload-answers.md.


def closure(tables: Iterable[Table]) -> tuple[Table, ...]:
    """Return all nonempty subtables of these tables, small tables first."""
    found = {part for table in tables for k in range(1, len(table) + 1) for part in itertools.combinations(table, k)}
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


# Orthonormal contrasts: along every axis the mean, and the Helmert contrasts of the levels

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
