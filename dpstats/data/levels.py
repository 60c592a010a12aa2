"""Declared public descriptions of private rows, known before any entry is read: levels, columns, and sources.

Labels and entries are compared by one rule in every container and source. The declaration alone decides which labels
have a value.

* An entry of text is the label with the same text. Otherwise it is the label with its value (`exact_number`).
* Any other entry is the label with its value (`label_key`).
* A label of text has a value only if all labels read as distinct numbers, truth values or missing entries, and at
  least one as a number. So "1" is the entry 1 among the labels "0", "1", but not among the labels "1", "north".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.data.columns import distinct
from dpstats.data.keys import read_labels
from dpstats.data.rows import column_of
from dpstats.data.values import MISSING, Key, label_key, single_precision
from dpstats.data.words import Words, exact_number
from dpstats.errors import attempt, refuse, show


class Levels(Protocol):
    """Declared levels of a column, such as `Categories` or `Bins`, and the code of each entry among them."""

    def codes(self, data: Any, name: str = "data") -> NDArray[np.int64]:
        """Return the position of the level of each entry, or -1 for an undeclared level."""


class Undeclared:
    """Labels that nobody declared: the code of an entry is the label itself, as `read_labels` spells it."""

    def codes(self, data: Any, name: str = "data") -> NDArray[Any]:
        """Return the label of each entry, or None for an entry without a label."""
        return read_labels(data, name)


def text_key(text: str) -> Key | None:
    """Return the key of the value of a text: of a number, or of a missing entry. None for other text."""
    found = exact_number(text)
    return None if found is None else label_key(found)


def value_keys(labels: Sequence[Any]) -> list[Key] | None:
    """Return the keys of the values of declared labels, or None if labels are compared by text.

    Labels have values if all of them read as distinct numbers, truth values or missing entries, and at least one as a
    number.

    Examples
    --------
    >>> from dpstats.data.levels import value_keys
    >>> value_keys(["0", "1"]) == value_keys([False, 1.0]), value_keys(["1", "north"]), value_keys(["1", "01"])
    (True, None, None)
    """
    keys = []
    for label in labels:
        key = label_key(label)
        key = text_key(key[1]) if key is not None and key[0] == "text" else key
        if key is None or key[0] not in ("number", "missing"):
            return None
        keys.append(key)
    return keys if len(set(keys)) == len(keys) and {*keys} != {MISSING} else None


def _other_keys(label: Any, key: Key) -> list[Key]:
    """Return further keys of a number: of its decimal text if it is a float, and of its single precision."""
    if key[0] != "number":
        return []
    # A file shows the float 1e23 as 1e+23, which is not its exact value. A column of single precision shows 0.1 as
    # 0.10000000149011612.
    others: list[Any] = [Decimal(repr(label))] if type(label) is float and math.isfinite(label) else []
    if (single := single_precision(key[1])) is not None:
        others.append(single)
    return [other for number in others if (other := label_key(number)) is not None]


class Categories:
    """Public and distinct values, and the code of each row among them.

    Parameters
    ----------
    values : sequence
        Distinct hashable values. Equal values (`dpstats.data.values.label_key`) raise an error.
    name : str, default="categories"
        Name in error messages.

    Attributes
    ----------
    values : tuple
        Values as declared. Scalars of numpy become Python scalars, except times.
    by_value : bool
        Whether labels of text have values, too (`value_keys`).

    Examples
    --------
    >>> from dpstats.data.levels import Categories
    >>> Categories(["0", "1", "2"]).codes([1, "1.0", 2.0, "x"]).tolist()
    [1, 1, 2, -1]
    """

    kind: ClassVar[str] = "categories"

    def __init__(self, values: Any, name: str = "categories") -> None:
        # An array without a dimension cannot be iterated over either.
        given = None if isinstance(values, str | bytes) else attempt(lambda: iter(values), TypeError)
        if given is None:
            raise refuse(name, got="a single one", allowed="a sequence of distinct values")
        self.values: tuple[Any, ...] = tuple(map(_plain, given))
        self._code: dict[Key, int] = {}
        for code, value in enumerate(self.values):
            key = label_key(value)
            if key is None:
                raise refuse(name, got=type(value).__name__, allowed="hashable values")
            if self._code.setdefault(key, code) != code:
                raise refuse(name, got=f"{show(values)} with one twice", allowed="distinct")
        if not self.values:
            raise refuse(name, allowed="not be empty")
        declared, valued = list(self._code), value_keys(self.values)
        self.by_value = valued is not None
        for code, key in enumerate(valued or ()):
            self._code[key] = code
        # Exact numbers come first, so that every declared label keeps its own entries.
        for code, (value, key) in enumerate(zip(self.values, valued or declared, strict=True)):
            for other in _other_keys(value, key):
                self._code.setdefault(other, code)
        self._reads_text = any(key[0] in ("number", "missing") for key in self._code)
        # A faster lookup for the most common types: the same codes, keyed by the values.
        self._plain = {key[1]: code for key, code in self._code.items() if key[0] in ("text", "number")}

    def __len__(self) -> int:
        return len(self.values)

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of entries that can be a declared label: "number", "text" and others."""
        kinds = {key[0] for key in self._code}
        return frozenset(kinds | {"text"} if "number" in kinds else kinds)

    def codes(self, data: Any, name: str = "data") -> NDArray[np.int64]:
        """Return the position of the category of each row, or -1 for a row in no category.

        The rule above defines equality. A missing row is in the category declared as None or NaN, if there is one. A
        row that cannot be a category, such as a list, is in none.

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
        values, where = (data, None) if isinstance(data, Words) else distinct(name, data)
        code: Callable[[Any], int] = self._code_of
        if where is None and {*map(type, values)} <= _BUILT_IN:
            # Equal entries are looked up once. No foreign class is asked whether two entries are equal.
            code = _Known(self._code_of).__getitem__
        codes = np.fromiter(map(code, values), dtype=np.int64, count=len(values))
        return codes if where is None else codes[where]

    def _code_of(self, value: Any) -> int:
        if type(value) in (str, int, bool) and value in self._plain:
            return self._plain[value]
        key = label_key(value)
        if key is None:
            return -1
        try:
            if key[0] == "text" and key not in self._code:
                key = text_key(key[1]) if self._reads_text else None
            return -1 if key is None else self._code.get(key, -1)
        except Exception:  # a comparison of a foreign class
            return -1


_BUILT_IN = {str, int, type(None)}


class _Known(dict[Any, int]):
    """Codes of entries, each computed once."""

    def __init__(self, code_of: Callable[[Any], int]) -> None:
        self._code_of = code_of

    def __missing__(self, value: Any) -> int:
        self[value] = code = self._code_of(value)
        return code


def _plain(value: Any) -> Any:
    if isinstance(value, np.floating) and value.itemsize < 8:
        return float(str(value))  # the label 0.1, and not the 0.10000000149011612 of 32 bits
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
            raise refuse(
                "bins", given=edges, allowed="the edges of bins, two finite and increasing numbers or more"
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
