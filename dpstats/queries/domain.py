"""Finite domains: products of attributes with declared levels or bins, and counts of rows in their cells."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.opening import Tally, open_source
from dpstats.data.parameters import check_choice
from dpstats.data.rows import Counts as Histogram
from dpstats.data.rows import Rows
from dpstats.data.schema import Bins, Categories, Levels, Schema
from dpstats.data.values import as_int64
from dpstats.errors import InvalidData, refuse, refuse_data, show, show_names

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
