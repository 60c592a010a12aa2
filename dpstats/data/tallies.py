"""How many rows have each combination of declared levels: of codes in memory, or of the rows of an engine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.data.attributes import Levels
from dpstats.data.engine import Engine, Part
from dpstats.data.sources import engine_of, is_file
from dpstats.errors import InvalidData

_TALLY = "tally"


@dataclass(frozen=True)
class Tally:
    """Counts of the cells of some attributes, and last of the rows that are at no level of one of them."""

    kinds: tuple[Levels, ...]
    shape: tuple[int, ...]
    name: str = "X"

    def of_codes(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the counts (cells + 1,) of codes (n, k); -1 is no level."""
        size = math.prod(self.shape)
        cells = np.ravel_multi_index(tuple(as_int64(np.maximum(codes, 0)).T), self.shape)
        outside = (codes < 0).any(axis=1)
        return as_int64(np.bincount(np.where(outside, size, cells), minlength=size + 1))

    def __call__(self, part: Part) -> dict[str, NDArray[np.int64]]:
        columns = zip(self.kinds, part.beside, strict=True)
        codes = [kind.codes(column, self.name) for kind, column in columns]
        return {_TALLY: self.of_codes(np.column_stack(codes))}


@dataclass(frozen=True, eq=False, repr=False)
class AttributeRows:
    """Private rows of labels that are not in memory.

    Attributes
    ----------
    names : tuple of str
        The names of the attributes, which are public.
    """

    engine: Engine
    names: tuple[str, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of attributes, which are public."""
        return self.engine.shape[0], len(self.names)

    def counted(self, tally: Tally) -> NDArray[np.int64]:
        """Return the counts of a tally."""
        return self.engine.total(tally)[_TALLY]


def attributes_of(X: Any, k: int, names: Sequence[Any] | None = None) -> Any:
    """Return `AttributeRows` of k columns for rows that are not in memory; anything else as it is.

    Parameters
    ----------
    X : any container
        Private.
    k : int
        Number of attributes.
    names : sequence of k names, optional
        Of the columns that they are, where there may be more.
    """
    engine = engine_of(X) if is_file(X) or not isinstance(X, str) else X
    if not isinstance(engine, Engine):
        return X
    if engine.columns is None:
        raise InvalidData("X must be a data frame for its columns to be attributes, got an array")
    chosen = tuple(engine.columns if names is None else map(str, names))
    if len(chosen) != k:
        raise InvalidData(f"X must have {k} columns, as levels are declared for, got {len(chosen)}")
    return AttributeRows(engine.having([], chosen), chosen)
