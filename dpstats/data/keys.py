from __future__ import annotations

import datetime
import math
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.columns import distinct
from dpstats.data.values import key_of
from dpstats.errors import attempt

# Undeclared labels: a canonical form of each value, and an order. Both depend on the value only.


DISCOVER = "discover"
"""In place of declared labels: labels of many rows are found."""

_MOST_DIGITS = 400  # of a decimal number; a longer fraction would take too long
_MICROSECOND = 10**12  # in attoseconds
_START = datetime.datetime(1970, 1, 1)


def read_labels(entries: Any, name: str = "y") -> NDArray[np.object_]:
    """Return the canonical label of each entry, or None for an entry without a label.

    Text is unchanged. Equal numbers of any type have the same label. Dates and times without a zone become a
    ``datetime``. Missing, infinite and all other entries have no label.

    Examples
    --------
    >>> from dpstats.data.keys import read_labels
    >>> read_labels(["b", 1, 1.0, True, None]).tolist()
    ['b', 1, 1, 1, None]
    """
    values, where = distinct(name, entries)
    labels = np.empty(len(values), dtype=object)
    labels[:] = [_label(value) for value in values]
    return labels if where is None else labels[where]


def in_order(labels: Iterable[Any]) -> list[Any]:
    """Return distinct labels in order: numbers, then times, then text."""

    def place(label: Any) -> tuple[int, Any]:
        return 2 if isinstance(label, str) else 1 if isinstance(label, datetime.datetime) else 0, label

    return sorted(labels, key=place)


def _label(value: Any) -> Any:
    if type(value) is str:
        return value
    key = key_of(value)
    if key is None:
        return None
    if key[0] == "text":
        return key[1]
    if key[0] == "number":
        return _exact_label(key[1])
    if key[0] != "time" or key[1] % _MICROSECOND:
        return None
    return attempt(lambda: _START + datetime.timedelta(microseconds=key[1] // _MICROSECOND), OverflowError)


def _exact_label(number: Any) -> Any:
    """Return a number as an integer, a float or a fraction: the first that is exact."""
    if isinstance(number, bool | int):
        return int(number)
    if isinstance(number, float):
        if not math.isfinite(number):
            return None
        return int(number) if number.is_integer() else number
    if isinstance(number, Decimal) and (
        not number.is_finite()
        or abs(number.adjusted()) > _MOST_DIGITS
        or len(number.as_tuple().digits) > _MOST_DIGITS
    ):
        return None
    exact = Fraction(number)
    if exact.denominator == 1:
        return int(exact)
    nearest = attempt(lambda: float(exact), OverflowError)
    return nearest if nearest is not None and Fraction(nearest) == exact else exact
