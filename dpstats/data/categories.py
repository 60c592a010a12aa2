"""Declared categories, which are public: which of them each private row is, by that row alone."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from dpstats.data.columns import distinct
from dpstats.data.values import Key, key_of
from dpstats.data.words import Words, level
from dpstats.errors import InvalidParameter


class Levels(Protocol):
    """Declared levels of a column, `Categories` or `Bins` say, and the code of each entry among them."""

    def codes(self, data: Any, name: str = "data") -> NDArray[np.int64]:
        """Return the position of each entry's level, -1 for one in none."""


class Categories:
    """Public and distinct values, and the code of each row among them.

    Parameters
    ----------
    values : sequence
        Hashable values; equal ones (`dpstats.data.values.key_of`) are refused.
    name : str, default="categories"
        What messages call them.

    Attributes
    ----------
    values : tuple
        As they were declared; numpy's scalars as Python's, except for times.
    """

    kind: ClassVar[str] = "categories"

    def __init__(self, values: Any, name: str = "categories") -> None:
        if isinstance(values, str | bytes) or not hasattr(type(values), "__iter__"):
            raise InvalidParameter(f"{name} must be a sequence of distinct values, got a single one")
        self.values: tuple[Any, ...] = tuple(map(_plain, values))
        self._code: dict[Key, int] = {}
        for code, value in enumerate(self.values):
            key = key_of(value)
            if key is None:
                raise InvalidParameter(f"{name} must be hashable values, got {type(value).__name__}")
            if self._code.setdefault(key, code) != code:
                raise InvalidParameter(f"{name} must be distinct, got {value!r} twice")
        if not self.values:
            raise InvalidParameter(f"{name} must not be empty")
        # The same codes, for the commonest types, by the values themselves.
        self._plain = {key[1]: code for key, code in self._code.items() if key[0] in ("text", "number")}

    def __len__(self) -> int:
        return len(self.values)

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of the declared values: "number", "text" and others (`dpstats.data.values.key_of`)."""
        return frozenset(key[0] for key in self._code)

    def codes(self, data: Any, name: str = "data") -> NDArray[np.int64]:
        """Return the position of each row's category, -1 for a row in none.

        What equals a category is in `dpstats.data.values.key_of`. A missing row is in the category that was declared
        as None or NaN, if there is one. A row that cannot be a category, a list say, is in none.

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
