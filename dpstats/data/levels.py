"""Declared public levels, and the category or bin of each private row. It depends on this row only."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.data.columns import distinct
from dpstats.data.keys import read_labels
from dpstats.data.rows import column_of
from dpstats.data.values import Key, key_of
from dpstats.data.words import Words, level
from dpstats.errors import InvalidParameter, attempt, show


class Levels(Protocol):
    """Declared levels of a column, such as `Categories` or `Bins`, and the code of each entry among them."""

    def codes(self, data: Any, name: str = "data") -> NDArray[np.int64]:
        """Return the position of the level of each entry, or -1 for an undeclared level."""


class Undeclared:
    """Labels that nobody declared: the code of an entry is the label itself, as `read_labels` spells it."""

    def codes(self, data: Any, name: str = "data") -> NDArray[Any]:
        """Return the label of each entry, or None for an entry without a label."""
        return read_labels(data, name)


class Categories:
    """Public and distinct values, and the code of each row among them.

    Parameters
    ----------
    values : sequence
        Distinct hashable values. Equal values (`dpstats.data.values.key_of`) raise an error.
    name : str, default="categories"
        Name in error messages.

    Attributes
    ----------
    values : tuple
        Values as declared. Scalars of numpy become Python scalars, except times.
    """

    kind: ClassVar[str] = "categories"

    def __init__(self, values: Any, name: str = "categories") -> None:
        try:
            given = None if isinstance(values, str | bytes) else iter(values)
        except TypeError:  # also an array without a dimension
            given = None
        if given is None:
            raise InvalidParameter(f"{name} must be a sequence of distinct values, got a single one")
        self.values: tuple[Any, ...] = tuple(map(_plain, given))
        self._code: dict[Key, int] = {}
        for code, value in enumerate(self.values):
            key = key_of(value)
            if key is None:
                raise InvalidParameter(f"{name} must be hashable values, got {type(value).__name__}")
            if self._code.setdefault(key, code) != code:
                raise InvalidParameter(f"{name} must be distinct, got {show(values)} with one twice")
        if not self.values:
            raise InvalidParameter(f"{name} must not be empty")
        # A faster lookup for the most common types: the same codes, keyed by the values.
        self._plain = {key[1]: code for key, code in self._code.items() if key[0] in ("text", "number")}

    def __len__(self) -> int:
        return len(self.values)

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of the declared values: "number", "text" and others (`dpstats.data.values.key_of`)."""
        return frozenset(key[0] for key in self._code)

    def codes(self, data: Any, name: str = "data") -> NDArray[np.int64]:
        """Return the position of the category of each row, or -1 for a row in no category.

        `dpstats.data.values.key_of` defines equality. A missing row is in the category declared as None or NaN, if
        there is one. A row that cannot be a category, such as a list, is in none.

        Parameters
        ----------
        data : 1-d sequence
            Private: a list, an iterable, an array (masked entries are missing) or a column of a data frame. The type
            that an array or a column declares is public.

        Raises
        ------
        InvalidData
            If ``data`` is not 1-d.
        """
        if isinstance(data, Words):
            known = {word: level(word, self._code_of) for word in dict.fromkeys(data)}
            return np.fromiter(map(known.__getitem__, data), dtype=np.int64, count=len(data))
        values, where = distinct(name, data)
        codes = np.fromiter(map(self._code_of, values), dtype=np.int64, count=len(values))
        return codes if where is None else codes[where]

    def _code_of(self, value: Any) -> int:
        if type(value) in (str, int, bool):
            return self._plain.get(value, -1)
        key = key_of(value)
        if key is None:
            return -1
        try:
            return self._code.get(key, -1)
        except Exception:  # a comparison of a foreign class
            return -1


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) and value.dtype.kind not in "mMV" else value


class Bins:
    """Public edges, and the bin of each number between them.

    Parameters
    ----------
    edges : sequence of two finite numbers or more, increasing
        Public edges of the bins.

    Attributes
    ----------
    edges : ndarray
        The edges.
    values : tuple of str
        The bins as text, such as "[0, 10)". The last bin is closed.

    Examples
    --------
    >>> from dpstats.queries import Bins
    >>> Bins([0, 18, 65, 120]).values
    ('[0, 18)', '[18, 65)', '[65, 120]')
    """

    kind: ClassVar[str] = "bins"

    def __init__(self, edges: Any) -> None:
        converted = attempt(lambda: np.array(edges, dtype=np.float64), Exception)
        self.edges: NDArray[np.float64] = np.zeros(0) if converted is None else converted
        increasing = self.edges.ndim == 1 and self.edges.size >= 2 and bool((np.diff(self.edges) > 0).all())
        if not increasing or not np.isfinite(self.edges).all():
            raise InvalidParameter(
                f"bins must be the edges of bins, two finite and increasing numbers or more, got {show(edges)}"
            )
        pairs = list(zip(self.edges[:-1], self.edges[1:], strict=True))
        self.values = tuple(
            f"[{low:g}, {high:g}{']' if place == len(pairs) else ')'}"
            for place, (low, high) in enumerate(pairs, 1)
        )

    def __len__(self) -> int:
        return self.edges.size - 1

    def codes(self, data: Any, name: str = "data") -> NDArray[np.int64]:
        """Return the position of the bin of each number, or -1 for a number outside all bins or missing.

        Parameters
        ----------
        data : 1-d sequence of numbers
            Private numbers, as in `dpstats.data.rows.column_of`.

        Raises
        ------
        InvalidData
            If ``data`` is not a sequence of numbers.
        """
        numbers = column_of(name, data)
        with np.errstate(invalid="ignore"):
            inside = (numbers >= self.edges[0]) & (numbers <= self.edges[-1])
        places = np.searchsorted(self.edges, np.where(inside, numbers, self.edges[0]), side="right") - 1
        return as_int64(np.where(inside, np.minimum(places, len(self) - 1), -1))
