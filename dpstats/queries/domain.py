"""Finite domains: products of attributes with declared levels or bins, and the marginal tables of a few of them.

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

from dpstats.data.opening import Tally, open_source
from dpstats.data.parameters import check_choice, check_integer
from dpstats.data.rows import Counts as Histogram
from dpstats.data.rows import Rows
from dpstats.data.schema import Bins, Categories, Levels, Schema
from dpstats.data.values import as_int64
from dpstats.errors import InvalidData, refuse, refuse_data, show, show_names
from dpstats.queries.linear import LinearQueries, Numbers, real_vector

# A domain is public and declared in advance. The cell of a row depends on this row only.

Counts = NDArray[np.int64]
LARGEST_TABLE = 1 << 26
"""Largest number of cells of a histogram: half a gigabyte of counts."""
BYTES_OF_A_CELL = 128
"""Memory of a cell in a fit of a distribution over the domain: some sixteen arrays of the size of the domain."""
OTHER = "other"
"""Level of the entries outside all declared levels, for attributes that have such a level."""
TIMES = " × "
"""Separator between the attribute names of a table."""


class Domain:
    """A product of named attributes with declared levels. Its cells are the combinations of levels.

    Parameters
    ----------
    attributes : mapping of names to declarations, or sequence of declarations
        Declarations in order. A declaration is a sequence of at least two distinct values, `Bins` of numbers, or the
        number of levels 0, 1, ... Without names, attributes are called "x0", "x1", ...
    other : sequence of names, default=()
        Attributes with the additional level "other", for missing and undeclared entries. In all other attributes, such
        an entry raises `InvalidData`, which reveals that it exists.

    Attributes
    ----------
    names : tuple of str
        Names of the attributes.
    shape : tuple of int
        Number of levels of each attribute.
    size : int
        Number of cells, ``|X|``.
    levels : tuple of tuples
        Levels of each attribute. Bins are given as text.

    Raises
    ------
    InvalidParameter
        If a declaration is invalid, or has fewer than two levels.

    Examples
    --------
    >>> from dpstats.queries import Bins, Domain
    >>> domain = Domain({"smokes": ["yes", "no"], "age": Bins([18, 40, 65])}, other=["age"])
    >>> domain
    Domain(smokes: 2, age: 3; 6 cells)
    >>> domain.histogram([("yes", 20), ("no", 65), ("no", 99)]).reshape(domain.shape)
    array([[1, 0, 0],
           [0, 1, 1]])
    >>> domain.rows([0, 5]).values.tolist()
    [['yes', '[18, 40)'], ['no', 'other']]
    """

    def __init__(self, attributes: Any, *, other: Sequence[str] = ()) -> None:
        named = isinstance(attributes, Mapping)
        if isinstance(attributes, str | bytes) or not isinstance(attributes, Mapping | Sequence | np.ndarray):
            raise refuse(
                "attributes", given=attributes, allowed="declared, {name: levels, Bins or number of levels, ...}"
            )
        if not len(attributes):
            raise refuse("attributes", got="none", allowed="at least one")
        declared = dict(attributes) if named else {f"x{j}": item for j, item in enumerate(attributes)}
        for place, name in enumerate(declared):
            if not isinstance(name, str) or not name or TIMES.strip() in name:
                raise refuse(
                    "names of attributes", got=f"another at position {place}", allowed=f"text without {TIMES.strip()!r}"
                )
        further = _check_other(other, tuple(declared))
        kinds = [_kind(place, item, name in further) for place, (name, item) in enumerate(declared.items())]
        self.names = tuple(declared)
        self.named = named
        self._kinds: list[Kind] = kinds
        self.levels: tuple[tuple[Any, ...], ...] = tuple(tuple(kind.values) for kind in kinds)
        self.shape = tuple(map(len, self.levels))
        self.size = math.prod(self.shape)

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}: {count}" for name, count in zip(self.names, self.shape, strict=True))
        return f"Domain({parts}; {self.size:,} cells)"

    def __len__(self) -> int:
        return len(self.names)

    def same_as(self, other: Domain) -> bool:
        """Return whether another domain has the same attributes with the same levels, in the same order."""
        if (self.names, self.levels) != (other.names, other.levels):
            return False
        # The text of bins has only six digits, so compare their edges.
        return all(map(_same_edges, self._kinds, other._kinds))

    def codes(self, data: Any) -> Counts:
        """Return the position of every entry among the levels of its attribute: shape (n, k).

        Parameters
        ----------
        data : data frame (numpy, pandas, polars, pyarrow), DuckDB relation, array of shape (n, k), or list of rows
            Private rows. From a data frame, the columns with the names of the domain are used.

        Raises
        ------
        InvalidData
            If ``data`` is not such a table, or if an entry has an undeclared level.
        """
        source = open_source(data)
        schema = Schema(self.names if self.named else None, levels=self.kinds).resolve(source.names)
        codes: Counts = source.read(schema).whole().X
        if len(codes) == 0:
            raise refuse_data("X", got="none", allowed="have at least one row")
        outside = [name for name, column in zip(self.names, codes.T, strict=True) if (column < 0).any()]
        if outside:
            raise refuse_data(
                "X",
                got=f"at least one other entry of {show(outside[0])}, or missing",
                allowed="hold declared levels only",
                remedy=f"Declare it, or give the domain other=[{show(outside[0])}].",
            )
        return codes

    @property
    def kinds(self) -> tuple[Levels, ...]:
        """The declared levels of every attribute."""
        return tuple(self._kinds)

    def cells_of(self, codes: Counts, attributes: Sequence[int] | None = None) -> Counts:
        """Return the cell of each row in the table of some attributes, given by position (None: all)."""
        chosen = range(len(self.shape)) if attributes is None else attributes
        cells = np.zeros(len(codes), dtype=np.int64)
        for j in chosen:
            cells *= self.shape[j]
            cells += codes[:, j]
        return cells

    def histogram(self, data: Any) -> Counts:
        """Return the number of rows in each cell: int64 of shape (size,). The last attribute changes fastest.

        ``.reshape(domain.shape)`` gives the table. The counts are exact, and therefore private.

        Parameters
        ----------
        data
            The same as in `codes`.

        Raises
        ------
        InvalidParameter
            If the domain has more than 2^26 cells.
        InvalidData
            The same as in `codes`.
        """
        self.check_size(LARGEST_TABLE, "a histogram")
        return np.bincount(self.cells_of(self.codes(data)), minlength=self.size)

    def check_size(self, most: int, what: str) -> None:
        """Raise an error if the domain has more than ``most`` cells."""
        if self.size > most:
            raise refuse(
                "domain",
                got=f"{self.size:,}",
                allowed=f"have at most {most:,} cells for {what}",
                remedy="Declare fewer or coarser attributes.",
            )

    def rows(self, cells: Any, backend: str = "pandas") -> Any:
        """Return given cells as rows of a data frame.

        Parameters
        ----------
        cells : 1-d array of int
            Positions of cells, as in `histogram`.
        backend : str, default="pandas"
            The library of the frame: "pandas", "polars" or "pyarrow".
        """
        places = np.asarray(cells)
        if places.ndim != 1 or (places.size and places.dtype.kind not in "iu"):
            raise refuse("cells", given=cells, allowed="a 1-d array of positions")
        if places.size and not 0 <= places.min() <= places.max() < self.size:
            raise refuse("cells", allowed=f"positions below {self.size:,}")
        codes = np.unravel_index(as_int64(places), self.shape)
        return self.frame(np.stack(codes, axis=1), backend=backend)

    def cells(self, backend: str = "pandas") -> Any:
        """Return all cells as rows of a data frame, in the order of `histogram`."""
        self.check_size(LARGEST_TABLE, "a frame of all of them")
        return self.rows(np.arange(self.size), backend)

    def frame(
        self,
        codes: Counts,
        attributes: Sequence[int] | None = None,
        beside: Mapping[str, Any] | None = None,
        backend: str = "pandas",
    ) -> Any:
        """Return codes of some attributes as a data frame of their levels, with further columns."""
        import narwhals as nw

        chosen = range(len(self.shape)) if attributes is None else attributes
        library: Any = check_choice("backend", backend, ["pandas", "polars", "pyarrow"])
        columns: dict[str, Any] = {
            self.names[j]: [self.levels[j][code] for code in column.tolist()]
            for j, column in zip(chosen, codes.T, strict=True)
        }
        columns.update({name: np.asarray(values).tolist() for name, values in (beside or {}).items()})
        return nw.from_dict(columns, backend=library).to_native()

    def position(self, attribute: Any) -> int:
        """Return the position of an attribute that is given by name or by position."""
        return find_position(self, attribute, attribute)

    def label(self, attributes: Sequence[int]) -> str:
        """Return the name of the table of some attributes."""
        return TIMES.join(self.names[j] for j in attributes)


def find_position(domain: Domain, attribute: Any, given: Any) -> int:
    """Return the position of an attribute in a domain. Errors describe ``given``, the container that it is from."""
    if isinstance(attribute, str) and attribute in domain.names:
        return domain.names.index(attribute)
    whole = isinstance(attribute, int | np.integer) and not isinstance(attribute, bool)
    if whole and 0 <= attribute < len(domain.names):
        return int(attribute)
    known = ", ".join(map(repr, domain.names))
    raise refuse("an attribute", given=given, allowed=f"one of {known}, or a position below {len(domain.names)}")


class WithOther:
    """Declared levels, and a last level for all other entries."""

    def __init__(self, kind: Categories | Bins) -> None:
        self.kind = kind
        self.values = (*kind.values, OTHER)
        self.kinds: frozenset[str] = getattr(kind, "kinds", frozenset())

    def codes(self, data: Any, name: str = "data") -> Counts:
        """Return the position of the level of each entry. Undeclared entries have the last position."""
        codes = self.kind.codes(data, name)
        return np.where(codes < 0, len(self.kind), codes)


Kind = Categories | Bins | WithOther


def _same_edges(kind: Kind, other: Kind) -> bool:
    bins = [k.kind if isinstance(k, WithOther) else k for k in (kind, other)]
    first, second = (k.edges if isinstance(k, Bins) else None for k in bins)
    return np.array_equal(first, second)  # type: ignore[arg-type]


def check_domain(name: str, value: Any) -> Domain:
    """Return a domain, built from declarations if ``value`` is not a domain."""
    return value if isinstance(value, Domain) else Domain(value)


def _kind(place: int, declared: Any, further: bool) -> Kind:
    what = f"the attribute at position {place}"
    kind: Categories | Bins
    if isinstance(declared, Bins | Categories):
        kind = declared
    elif isinstance(declared, int | np.integer) and not isinstance(declared, bool):
        if declared > LARGEST_TABLE:
            raise refuse(what, got="more", allowed=f"at most {LARGEST_TABLE:,} levels", remedy="Declare coarser Bins.")
        if declared + further < 2:
            raise refuse(what, got="fewer", allowed="two levels or more")
        kind = Categories(range(int(declared)), what)
    else:
        kind = Categories(declared, what)
    if further and OTHER in kind.values:
        raise refuse(what, allowed=f"not declare {OTHER!r}, which other adds")
    if len(kind) + further < 2:
        raise refuse(what, got=f"{len(kind)}", allowed="two levels or more")
    return WithOther(kind) if further else kind


def _check_other(other: Any, names: tuple[str, ...]) -> tuple[str, ...]:
    given = (other,) if isinstance(other, str) else tuple(other)
    for name in given:
        if name not in names:
            raise refuse("other", given=other, allowed=f"names of attributes, of {show_names(names)}")
    return given


def domain_schema(domain: Domain, declared: bool = True, n_features: int | None = None) -> Schema:
    """Return the schema of rows of a domain or counts of its cells. Without a declared domain, counts only."""
    names = domain.names if domain.named else None
    levels = domain.kinds if declared else None
    return Schema(names, levels=levels, cells=domain.shape, counted=not declared, n_features=n_features)


# Private counts of cells, from the codes of rows or from given counts


def counts_of(rows: Rows, shape: tuple[int, ...]) -> Counts:
    """Return the number of rows in each cell, from the codes of rows or from given counts."""
    if isinstance(rows, Histogram):
        counted: Counts = rows.X.reshape(shape)
        return counted
    counts = Tally(shape).of(rows)
    if counts[-1]:
        raise outside_levels()
    return counts[:-1].reshape(shape)


def codes_of(rows: Rows) -> Counts:
    """Return the codes of rows, or raise an error if an entry has an undeclared level."""
    codes: Counts = rows.whole().X
    if (codes < 0).any():
        raise outside_levels()
    return codes


def outside_levels() -> InvalidData:
    """Return the error for entries with an undeclared level."""
    return InvalidData(
        "X must hold declared levels only, but at least one entry is missing or not declared. Declare it, "
        "or give the domain other=[the attributes that may have such entries]."
    )


# Marginal tables of a few attributes of a domain: every cell of a table is a query

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

    is_counting = True

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
