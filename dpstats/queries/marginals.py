"""Marginal tables of a few attributes of a domain. Every cell of a table is a query."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.data.parameters import check_integer
from dpstats.errors import refuse, show
from dpstats.queries.domain import Domain, check_domain, find_position
from dpstats.queries.linear import LinearQueries, Numbers, real_vector

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
                "values",
                got=f"{flat.shape}",
                allowed=f"have shape ({self.n_queries},), one value of each query",
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
        return np.array(
            np.broadcast_to(spread({self.tables[i]: own}, self.domain.shape), self.domain.shape)
        ).ravel()

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
        allowed="a number of attributes (all tables of so many), or a sequence of such numbers and of sequences of "
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
        ends = [
            array.shape[kept + table[kept:].index(j)] if j in table[kept:] else 1
            for j in range(axis, len(shape))
        ]
        return array.reshape(*array.shape[:kept], *ends)
    having = {table: array for table, array in weights.items() if axis in table}
    lacking = {table: array for table, array in weights.items() if axis not in table}
    total: Any = 0.0
    if lacking:
        total = np.expand_dims(_spread(lacking, axis + 1, kept, shape), kept)
    if having:
        total = total + _spread(having, axis + 1, kept + 1, shape)
    return np.asarray(total)
