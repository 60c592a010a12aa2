"""Rows that are not in memory: public names and sizes, and exact sums over blocks of rows; nothing else leaves.

An engine reads every row once and in any order, converts each entry by itself, and adds up what a pure function of a
block returns, in integers: so every engine, and every cut into blocks, gives the sums that one array in memory would.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import InvalidData

Integers = NDArray[np.int64]
Sums = Mapping[str, Integers]
Beside = str | tuple[str, ...] | None
"""The column beside the numbers, or several."""


@dataclass(frozen=True, eq=False, repr=False)
class Part:
    """Private: some of the rows.

    Attributes
    ----------
    X : float64 array of shape (m, n_features)
    beside : sequence of length m, or list of such, optional
        The entries of the column that was asked for beside the numbers; of several columns a list of theirs.
    """

    X: NDArray[np.float64]
    beside: Any = None


Work = Callable[[Part], Sums]
"""A pure function of some rows, whose results add up over a cut of the rows."""


class Engine(ABC):
    """Private rows in a database, a file or a cluster, as an estimator reads them.

    Attributes
    ----------
    columns : list of str, or None
        The names of the columns of numbers, which are public; None where they have none.
    beside : str or tuple of str, optional
        The name of one more column, or of several: outcomes or labels.
    """

    columns: list[str] | None
    beside: Beside = None

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns of numbers, which are public."""

    @abstractmethod
    def having(self, columns: Sequence[str] | None, beside: Beside = None) -> Engine:
        """Return the same rows with some of the columns as numbers (None: all but ``beside``), and one beside them."""

    @abstractmethod
    def total(self, work: Work) -> dict[str, Integers]:
        """Return the sums of what ``work`` returns for the rows, cut in any way.

        Raises
        ------
        InvalidData
            If ``work`` does, or if the rows cannot be read, or are not as many as their shape says.
        """

    @property
    def size(self) -> int:
        """Number of entries."""
        n, d = self.shape
        return n * d

    def reading(self, read: Callable[[Any], NDArray[Any]]) -> Engine:
        """Return the same rows, with the entries of the column beside as ``read`` makes of them, each by itself."""
        return _Reading(self, read)

    def aggregates(self, expressions: Sequence[str], of: Sequence[str]) -> list[int] | None:
        """Return the integers that SQL aggregates give; None from engines that do not speak SQL.

        They are aggregates of c0, c1, ..., which ``of`` says what they are for a row.
        """
        return None

    def expression(self, column: int) -> str | None:
        """Return the SQL of a column of numbers, as DOUBLE; None from engines that do not speak SQL."""
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.columns or [])} columns)"


@dataclass(frozen=True, eq=False, repr=False)
class _Reading(Engine):
    engine: Engine
    read: Callable[[Any], NDArray[Any]]

    @property
    def columns(self) -> list[str] | None:  # type: ignore[override]
        return self.engine.columns

    @property
    def beside(self) -> Beside:  # type: ignore[override]
        return self.engine.beside

    @property
    def shape(self) -> tuple[int, int]:
        return self.engine.shape

    def having(self, columns: Sequence[str] | None, beside: Beside = None) -> Engine:
        return _Reading(self.engine.having(columns, beside), self.read)

    def total(self, work: Work) -> dict[str, Integers]:
        return self.engine.total(_ReadFirst(self.read, work))


@dataclass(frozen=True)
class _ReadFirst:
    read: Callable[[Any], NDArray[Any]]
    work: Work

    def __call__(self, part: Part) -> Sums:
        return self.work(Part(part.X, self.read(part.beside)))


def names_of(beside: Beside) -> tuple[str, ...]:
    """Return the names of the columns beside the numbers."""
    return () if beside is None else (beside,) if isinstance(beside, str) else beside


def chosen_columns(
    given: Sequence[str], columns: Sequence[str] | None, beside: Beside
) -> tuple[list[str], Beside]:
    """Return the names of the columns of numbers and of those beside them, or refuse names that are not there."""
    if len(set(given)) < len(given):
        raise InvalidData("X must have a name of its own for every column")
    others = names_of(beside)
    wanted = [name for name in given if name not in others] if columns is None else list(columns)
    for name in [*wanted, *others]:
        if name not in given:
            raise InvalidData(
                f"X must have a column of every name that is given, got none of the name {name!r}"
            )
    return wanted, beside


def added(total: dict[str, Integers], more: Sums) -> dict[str, Integers]:
    """Add sums to a total, in place."""
    for name, values in more.items():
        total[name] = total[name] + values if name in total else np.array(values)
    return total


def refusal() -> InvalidData:
    """Return what is said where a library could not read the rows: its own words may show what is in them."""
    return InvalidData("X must be rows that can be read; read them without dpstats to see why they cannot")
