"""Private rows of numbers of any container, read so that a row does not depend on other rows, and tables of them.

A row has the same float64 values as if it were the only row in a table of the same kind. If a container declares a type
(of an array or a column), the type is public and all entries are converted together. Otherwise entries are read one by
one. Whether an entry is a code of a missing entry, such as -999 or "unk", depends on this entry only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from numbers import Real
from typing import Any

import numpy as np

from dpstats.data.columns import distinct
from dpstats.data.values import Key, label_key, single_precision
from dpstats.data.words import MISSING_WORDS, Words, exact_number
from dpstats.errors import attempt, refuse, refuse_data, show


class MissingCodes:
    """Declared codes of missing entries.

    A code that is a number, or a text that Python reads as one, is compared by value. So -999 is also the entry -999.0,
    and the word "-999.00" of a file. Any other text is compared with the text of an entry, without blanks around it.

    Attributes
    ----------
    words : frozenset of str
        The codes that are compared by text.
    numbers : tuple of float
        The codes that are compared by value, in double precision, and as a column of single precision has them.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.data.missing import check_codes
    >>> codes = check_codes([-999, "unk"])
    >>> codes.clear_numbers(np.array([1.0, -999.0]))
    array([ 1., nan])
    >>> codes.clear_entries("y", ["a", "unk", "-999.0"])
    ['a', None, None]
    """

    def __init__(self, words: frozenset[str] = frozenset(), numbers: Sequence[Any] = ()) -> None:
        self.words = words
        self._keys: frozenset[Key | None] = frozenset(map(label_key, numbers))
        doubles = [float(number) for number in numbers]
        singles = [single for number in doubles if (single := single_precision(number)) is not None]
        self.numbers = tuple(dict.fromkeys([*doubles, *singles]))

    def __bool__(self) -> bool:
        return bool(self.words or self.numbers)

    def matches(self, value: Any) -> bool:
        """Return whether an entry, or a declared label, is one of the codes."""
        key = label_key(value)
        if key is not None and key[0] == "text":
            if key[1].strip() in self.words:
                return True
            key = label_key(exact_number(key[1])) if self.numbers else None
        if key is None or key[0] != "number":
            return False
        return key in self._keys or (type(value) is float and value in self.numbers)

    def clear_numbers(self, numbers: Any) -> Any:
        """Return numbers as float64 with NaN for codes. Without codes, return them unchanged."""
        from scipy.sparse import issparse

        if not self.numbers:
            return numbers
        if issparse(numbers):
            if 0 in self.numbers:
                raise refuse(
                    "missing_codes",
                    allowed="not have 0 for a sparse table, whose other entries are all 0",
                    remedy="Convert the table with X.toarray().",
                )
            cleared = numbers.copy()
            cleared.data = self.clear_numbers(numbers.data)
            return cleared
        found = attempt(lambda: np.array(numbers, dtype=np.float64), TypeError, ValueError)
        if found is None:
            raise refuse_data("numbers", got=show(numbers), allowed="an array of numbers")
        found[np.isin(found, self.numbers)] = math.nan
        return found

    def clear_items(self, items: Sequence[Any]) -> Sequence[Any]:
        """Return items of a column of numbers with None for texts that are codes."""
        if not self:
            return items
        return [None if isinstance(item, str) and self.matches(item) else item for item in items]

    def clear_entries(self, name: str, entries: Any) -> Any:
        """Return the entries of a column with None for codes, or the empty word. Without codes, return it unchanged."""
        if not self:
            return entries
        if isinstance(entries, Words):
            return Words("" if self.matches(word) else word for word in entries)
        values, where = distinct(name, entries)
        kept = [None if self.matches(value) else value for value in values]
        return kept if where is None else [kept[place] for place in where]

    def clear_sql(self, expression: str) -> str:
        """Return the SQL of a number with NULL for codes."""
        if not self.numbers:
            return expression
        found = " OR ".join(f"{expression} = CAST('{number!r}' AS DOUBLE)" for number in self.numbers)
        return f"CASE WHEN {found} THEN NULL ELSE {expression} END"

    @property
    def missing_words(self) -> frozenset[str]:
        """The words that mean a missing entry in a file's column of numbers."""
        return MISSING_WORDS | self.words if self.words else MISSING_WORDS


NO_CODES = MissingCodes()


def check_codes(value: Any, name: str = "missing_codes") -> MissingCodes:
    """Return the codes of missing entries, or raise an error for anything but numbers and words."""
    if value is None:
        return NO_CODES
    allowed = "a list of finite numbers and of words, such as [-999, 'unk']"
    if isinstance(value, str | bytes | Real) or not isinstance(value, Sequence | Set | np.ndarray):
        raise refuse(name, given=value, allowed=allowed, remedy="Write codes in brackets.")
    words, numbers = set(), []
    for code in value.tolist() if isinstance(value, np.ndarray) else value:
        read = _number(code)
        if read is not None:
            numbers.append(read)
        elif isinstance(code, str) and code.strip():
            words.add(str(code).strip())
        else:
            raise refuse(name, got=f"an entry of type {type(code).__name__}", allowed=allowed)
    return MissingCodes(frozenset(words), numbers)


def _number(code: Any) -> Any:
    """Return the number that a code stands for, or None. Truth values, and the words true and false, have none."""
    if isinstance(code, str):
        found: Any = None if code.strip().lower() in ("true", "false") else exact_number(code)
    else:
        is_number = isinstance(code, Real | np.floating) and not isinstance(code, bool | np.bool_)
        found = code if is_number else None
    return None if found is None or not math.isfinite(found) else found
