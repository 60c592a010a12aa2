from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

# Words of text
#
# A word is a number if Python's ``float`` accepts it, if it is ASCII, and if it has no underscore. The words true and
# false are 1 and 0, and `MISSING_WORDS` are missing. Every reader of text follows this rule, in Python and in SQL.


_MISSING = "#N/A|#N/A N/A|#NA|-1.#IND|-1.#QNAN|1.#IND|1.#QNAN|<NA>|N/A|NA|NULL|None|n/a|null"
MISSING_WORDS = frozenset(["", *_MISSING.split("|")])
"""The words that stand for a missing number, with NaN. In a column of text only the empty word is missing."""
NO_NUMBER = "an entry must be a number, true, false or missing"
"""Message for any other word in a column of numbers. The SQL raises it too."""

_TRUTHS = {"true": 1.0, "false": 0.0}
_BLANKS = " \t\n\r\x0b\x0c"
# Python treats these as blanks, and DuckDB does not.
_SEPARATORS = "\x1c\x1d\x1e\x1f"


class Words(list[str]):
    """Entries of text that may be numbers or labels."""


def number(word: str, missing: Collection[str] = MISSING_WORDS) -> float | None:
    """Return the number of a word, NaN for a missing word, and None for a non-numeric word."""
    word = word.strip(_BLANKS)
    if word in missing:
        return math.nan
    if _is_plain(word):
        try:
            return float(word)
        except ValueError:
            pass
    return _TRUTHS.get(word.lower())


def numbers(
    words: Sequence[str], missing: Collection[str] = MISSING_WORDS
) -> tuple[NDArray[np.float64], int | None]:
    """Return the numbers of words, with NaN for missing words, and the position of the first non-numeric word."""
    # This has the same result as `number`, in a tenth of the time.
    if missing is MISSING_WORDS and _is_plain("".join(words)):
        try:
            return np.array([*map(float, words)], dtype=np.float64), None
        except ValueError:
            pass
    found = [number(word, missing) for word in words]
    wrong = found.index(None) if None in found else None
    return np.array(found, dtype=np.float64), wrong


def exact_number(word: str) -> float | Decimal | None:
    """Return the number of a word without rounding, NaN for a missing word, and None for a non-numeric word.

    Examples
    --------
    >>> from dpstats.data.words import exact_number
    >>> exact_number("9007199254740993"), exact_number("true"), exact_number("north")
    (Decimal('9007199254740993'), 1.0, None)
    """
    rounded = number(word)
    if rounded is None or math.isnan(rounded):
        return rounded
    try:
        return Decimal(word)
    except ArithmeticError:  # true, false, or too large an exponent for a decimal
        return rounded


FOREIGN = ("_", "+-", "(")
"""Parts of words that only DuckDB accepts as numbers: 1_0, +-1, nan(1)."""


def number_sql(word: str, otherwise: str = f"error('{NO_NUMBER}')", *, guarded: bool = True) -> str:
    """Return the SQL of the number for an expression of text, with NULL for a missing word.

    ``otherwise`` is the SQL for a non-numeric word. Use ``guarded=False`` only for words without parts of `FOREIGN`.
    """
    # Use an expression, because the cast of a bare column would move into the reader, which rejects non-numeric words.
    word = f"coalesce({word}, '')"
    cast, blanks = f"TRY_CAST({word} AS DOUBLE)", _text(_BLANKS)
    plain = f"{cast} IS NOT NULL"
    if guarded:
        plain += "".join(f" AND NOT contains({word}, '{part}')" for part in FOREIGN)
    # Look up only non-numeric words. DuckDB would look up all words if two branches shared a part, or if it converted
    # IN or list_contains to a join.
    missing = f"list_position([{', '.join(map(_text, sorted(MISSING_WORDS)))}], trim({word}, {blanks})) > 0"
    truth = f"list_position(['false', 'true'], lower(ltrim(rtrim({word}, {blanks}), {blanks})))"
    rest = f"coalesce(nullif({truth}, 0) - 1, {otherwise})"
    return f"CASE WHEN {plain} THEN {cast} WHEN {missing} THEN NULL ELSE {rest} END"


def _is_plain(text: str) -> bool:
    return text.isascii() and not any(letter in text for letter in f"_{_SEPARATORS}")


def _text(text: str) -> str:
    return " || ".join(f"chr({ord(letter)})" if letter < " " else f"'{letter}'" for letter in text) or "''"
