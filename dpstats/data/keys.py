"""Undeclared labels: a canonical form of each value, and an order. Both depend on the value only."""

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

DISCOVER = "discover"
"""In place of declared labels: labels of many rows are found."""

_LONGEST = 400  # digits of a decimal number; a longer fraction would take too long
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
    return sorted(labels, key=lambda label: (_kind(label), label))


def _kind(label: Any) -> int:
    return 2 if isinstance(label, str) else 1 if isinstance(label, datetime.datetime) else 0


def _label(value: Any) -> Any:
    if type(value) is str:
        return value
    key = key_of(value)
    if key is None:
        return None
    if key[0] == "text":
        return key[1]
    if key[0] == "number":
        return _number(key[1])
    return _time(key[1]) if key[0] == "time" else None


def _number(number: Any) -> Any:
    """Return a number as an integer, a float or a fraction: the first that is exact."""
    if isinstance(number, bool | int):
        return int(number)
    if isinstance(number, float):
        if not math.isfinite(number):
            return None
        return int(number) if number.is_integer() else number
    if isinstance(number, Decimal) and not _is_short(number):
        return None
    exact = Fraction(number)
    if exact.denominator == 1:
        return int(exact)
    try:
        nearest = float(exact)
    except OverflowError:
        return exact
    return nearest if Fraction(nearest) == exact else exact


def _is_short(number: Decimal) -> bool:
    if not number.is_finite():
        return False
    return abs(number.adjusted()) <= _LONGEST and len(number.as_tuple().digits) <= _LONGEST


def _time(attoseconds: int) -> Any:
    if attoseconds % _MICROSECOND:
        return None
    try:
        return _START + datetime.timedelta(microseconds=attoseconds // _MICROSECOND)
    except OverflowError:
        return None
