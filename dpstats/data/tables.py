from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.rows import as_float64
from dpstats.errors import refuse_data

# Rows after reading by a schema: in memory, or as a stream of blocks.


ROLES = ("y", "groups", "labels", "units", "weight", "time", "event", "exposure", "offset")
"""The columns of a `Table` next to its numbers."""

Integers = NDArray[np.int64]
Sums = Mapping[str, Integers]


class Rows(ABC):
    """Private rows of any source. An estimator computes sums over them.

    Attributes
    ----------
    names : list, optional
        Public names of the columns of numbers or labels.
    local : bool
        Whether `total` calls its function in this process, so that it may keep rows.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.data import Schema, open_source
    >>> rows = open_source([[1.0], [2.0], [4.0]]).read(Schema())
    >>> rows.shape, rows.total(lambda table: {"n": np.array([len(table)])})
    ((3, 1), {'n': array([3])})
    """

    __slots__ = ()
    names: list[Any] | None

    @property
    def local(self) -> bool:
        return True

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns, which are public."""

    @abstractmethod
    def total(self, work: Callable[[Table], Sums]) -> dict[str, Integers]:
        """Return the sums of the results of ``work``, a pure function of some rows, over any partition of the rows.

        Raises
        ------
        InvalidData
            If ``work`` does, or if the rows cannot be read, or are not as many as their shape says.
        """

    @abstractmethod
    def whole(self) -> Table:
        """Return all rows in memory."""

    def load(self) -> Table:
        """Return all rows in memory, with numbers of the type in which they were given: `whole` without a copy."""
        return self.whole()

    def aggregates(self, expressions: Sequence[str], of: Sequence[str]) -> list[int] | None:
        """Return the integers of SQL aggregates of c0, c1, ..., which ``of`` defines, or None without SQL."""
        return None

    def expression(self, column: int) -> str | None:
        """Return the SQL of a column of numbers, as DOUBLE; None without SQL."""
        return None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Table(Rows):
    """Private rows in memory, with optional responses, groups, protected units and other columns.

    Attributes
    ----------
    X : array or CSR table of shape (n_samples, n_features)
        Numbers, which may be NaN or infinite. Or int64 codes of declared levels, with -1 for an undeclared level.
    y : float64 array of shape (n_samples,), optional
        Outcome of each row.
    groups : int64 array of shape (n_samples,), optional
        Position of the declared category of each row, or -1 for a row in none.
    labels : object array of shape (n_samples,), optional
        Undeclared label of each row, or None for a row without one.
    units : int64 array of shape (n_samples,), optional
        Codes from 0, equal for rows of the same protected unit, such as a person. The codes are private and never
        released, because one row may change the codes of others.
    names : list, optional
        Public names of the columns of ``X``.
    weight, time, event, exposure, offset : float64 arrays of shape (n_samples,), optional
        Weight, time, event indicator, exposure and offset of each row.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.data import Table
    >>> table = Table(np.array([[1.0], [2.0]]), y=np.array([0.0, 1.0]))
    >>> table.shape, len(table)
    ((2, 1), 2)
    """

    X: Any
    y: NDArray[np.float64] | None = None
    groups: NDArray[np.int64] | None = None
    units: NDArray[np.int64] | None = None
    names: list[Any] | None = None
    weight: NDArray[np.float64] | None = None
    time: NDArray[np.float64] | None = None
    event: NDArray[np.float64] | None = None
    labels: NDArray[np.object_] | None = None
    exposure: NDArray[np.float64] | None = None
    offset: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        for name, column in self.beside().items():
            if column.shape != (len(self),):
                raise refuse_data(
                    name,
                    got=f"shape {column.shape}",
                    allowed=f"have an entry for each row of X (n_samples = {len(self)})",
                )
        if self.names is not None and len(self.names) != self.X.shape[1]:
            raise refuse_data(
                "names",
                got=str(len(self.names)),
                allowed=f"have an entry for each column of X (n_features = {self.X.shape[1]})",
            )

    def beside(self) -> dict[str, Any]:
        """Return the additional columns by their roles."""
        columns = {role: getattr(self, role) for role in ROLES}
        return {role: column for role, column in columns.items() if column is not None}

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns, which are public; with units the number of units."""
        n_samples, n_features = self.X.shape
        return n_samples if self.units is None else int(self.units.max(initial=-1)) + 1, n_features

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def total(self, work: Callable[[Table], Sums]) -> dict[str, Integers]:
        return dict(work(self))

    def whole(self) -> Table:
        return self

    def __repr__(self) -> str:
        return f"Table({', '.join([f'X of shape {self.X.shape}', *self.beside()])})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Counts(Table):
    """Counted rows: ``X`` of shape (size,) is the number of rows at each point of a universe.

    ``shape`` describes the rows: their public number, and the number of points.
    """

    def __post_init__(self) -> None:
        pass

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of points, which are public."""
        return int(self.X.sum()), int(self.X.size)


class Narrow(Rows):
    """Numbers in memory with a type other than float64. They are converted block by block, to save memory."""

    __slots__ = ("_table", "names")
    _ENTRIES = 1 << 20  # of a block

    def __init__(self, table: Table) -> None:
        self._table, self.names = table, table.names

    @property
    def shape(self) -> tuple[int, int]:
        return self._table.shape

    def total(self, work: Callable[[Table], Sums]) -> dict[str, Integers]:
        n, d = self._table.X.shape
        rows = max(1, self._ENTRIES // max(1, d))
        starts = range(0, max(1, n), rows)
        return add_sums(work(self._part(slice(start, start + rows))) for start in starts)

    def whole(self) -> Table:
        return self._part(slice(None))

    def load(self) -> Table:
        return self._table if self._table.X.dtype.itemsize <= 8 else self.whole()

    def _part(self, where: slice) -> Table:
        table = self._table
        beside = {role: column[where] for role, column in table.beside().items()}
        return Table(as_float64(table.X[where]), **beside, names=table.names)


def add_sums(parts: Iterable[Sums]) -> dict[str, Integers]:
    """Return the sums of all parts."""
    total: dict[str, Integers] = {}
    for part in parts:
        added(total, part)
    return total


def added(total: dict[str, Integers], more: Sums) -> dict[str, Integers]:
    """Add sums to a total, in place."""
    for name, values in more.items():
        total[name] = total[name] + values if name in total else np.array(values)
    return total
