"""A single private value: its arithmetic, the meaning of a word of text, its equality, and its number.

Functions of one value never raise an error and never warn: an exception of a foreign class may quote data, and a
warning would reveal a row. Arrays of numbers lose no digit, and no message shows a number.
"""

from __future__ import annotations

import datetime
import math
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from numbers import Rational, Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import refuse_data

LARGEST = 2**62
"""Larger floats are replaced by this. The sum or difference of two such integers still has 64 bits."""


quiet = partial(np.errstate, all="ignore")
"""Return the context for arithmetic on private numbers, in which numpy never warns of overflow or NaN."""


def as_int64(values: Any) -> NDArray[np.int64]:
    """Return numbers as int64, truncated toward 0.

    Infinite floats and floats beyond `LARGEST` become `LARGEST` with their sign, and NaN becomes 0. numpy alone returns
    -2**63 for them on some processors and other numbers elsewhere. Its warning would reveal that such an entry exists.
    """
    array = np.asarray(values)
    if array.dtype.kind != "f" or array.size == 0:
        return array.astype(np.int64)
    with quiet():
        # Convert before any comparison: the limit would be infinite as a float16.
        array = array.astype(np.float64, copy=False)
        entries = array.ravel()
        # The sum of squares bounds each entry. A comparison with NaN is false.
        if not float(entries @ entries) <= LARGEST**2:
            array = np.where(np.isnan(array), 0.0, np.clip(array, -LARGEST, LARGEST))
        return array.astype(np.int64)


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


def numbers(words: Sequence[str], missing: Collection[str] = MISSING_WORDS) -> tuple[NDArray[np.float64], int | None]:
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
    >>> from dpstats.data.values import exact_number
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


# Values


Key: TypeAlias = tuple[Any, ...]
"""Key of a value, the same for equal values: a kind, and a hashable built-in value with exact equality."""

MISSING: Key = ("missing",)
OTHER = "other"
"""Kind of the values with an equality defined by their own class."""


def key_of(value: Any) -> Key | None:
    """Return the equality key of ``value``, or None if it equals nothing (lists, dicts, unhashable values).

    * Missing values are equal: None, NaN of any type, NaT, pandas.NA, a masked entry.
    * Numbers of any type are equal by exact value: 1, 1.0, Decimal(1), Fraction(1), numpy.int8(1) and True. Booleans
      are 0 and 1, as in Python and numpy. 2^53 + 1 does not equal any float.
    * Text equals text, and bytes equal bytes, never each other.
    * Dates and times without a zone are equal by their place in the calendar, for any unit. A date is the start of its
      day. Times with a zone are equal by their instant. Durations are equal by length.
    * Tuples are equal entry by entry.
    * Anything else that is hashable is equal as its class says.
    """
    try:
        key = _key(value)
        hash(key)
    except Exception:
        return None
    return key


def label_key(value: Any) -> Key | None:
    """Return the key of ``value`` as a label: as `key_of`, but a float is the decimal number that it is written as.

    So 0.1, Decimal("0.1") and the word 0.1 of a file are one label. Integers are exact: 2^53 + 1 equals no float.

    Examples
    --------
    >>> from decimal import Decimal
    >>> from dpstats.data.values import label_key
    >>> label_key(0.1) == label_key(Decimal("0.1")), label_key(2**53 + 1) == label_key(2.0**53)
    (True, False)
    """
    key = key_of(value)
    if key is None or key[0] != "number" or type(key[1]) is not float:
        return key
    # A float that is an integer has a value that all containers show exactly. `repr` is the shortest decimal.
    plain = key[1].is_integer() or not math.isfinite(key[1])
    return key if plain else ("number", Decimal(repr(key[1])))


def single_precision(number: Any) -> float | None:
    """Return a fraction as a column of single precision has it, or None if it has no fraction there.

    Examples
    --------
    >>> from dpstats.data.values import single_precision
    >>> single_precision(0.1), single_precision(2**24 + 1), single_precision(1e-50)
    (0.10000000149011612, None, None)
    """
    if number == number // 1:
        return None
    with np.errstate(over="ignore", under="ignore"):
        single = float(np.float32(float(number)))
    return None if single.is_integer() or math.isinf(single) else single


def is_built_in(key: Key) -> bool:
    """Return whether the equality of a value, and of all entries of a tuple, is built in and not defined by a class."""
    return key[0] != OTHER and all(is_built_in(part) for part in key[1:] if isinstance(part, tuple))


def is_missing(value: Any) -> bool:
    """Return whether ``value`` stands for a missing one."""
    return value is None or key_of(value) == MISSING


def float_of(value: Any) -> float | None:
    """Return the float64 nearest to a real number, NaN for a missing value, and None for non-numeric values.

    A finite number beyond the largest float64 becomes the largest float64. Text and times are not numbers.
    """
    try:
        return _float(value)
    except Exception:
        return None


def bool_of(value: Any) -> bool | None:
    """Return a bool of Python's or numpy's, False for a missing value, None for anything else."""
    if value is True or value is False:
        return value
    try:
        value = _entry(value)
        if isinstance(value, bool | np.bool_):
            return bool(value)
    except Exception:
        return None
    return False if is_missing(value) else None


# Equality


def _key(value: Any) -> Key:
    kind = type(value)
    if kind is str:
        return ("text", value)
    if kind is int or kind is bool:
        return ("number", value)
    if kind is float:
        return ("number", value) if value == value else MISSING
    if value is None or value is np.ma.masked or _is_missing_in_pandas(value):
        return MISSING
    if isinstance(value, np.ndarray):
        return (OTHER, value) if value.ndim else _key(_entry(value))
    for of_kind in (_time_key, _number_key):
        found = of_kind(value)
        if found is not None:
            return found
    if isinstance(value, str):
        return ("text", str.__str__(value))
    if isinstance(value, bytes):
        return ("bytes", bytes.__add__(value, b""))
    if isinstance(value, tuple):
        return ("tuple", *map(_key, tuple.__iter__(value)))
    if isinstance(value, np.void) and value.dtype.names:
        return ("tuple", *(_key(value[name]) for name in value.dtype.names))
    return (OTHER, value)


def _entry(value: Any) -> Any:
    """Return the entry of a 0-d array, and anything else unchanged."""
    is_array = isinstance(value, np.ndarray) and value.ndim == 0 and value is not np.ma.masked
    return value[()] if is_array else value


def _is_missing_in_pandas(value: Any) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and (value is getattr(pandas, "NA", pandas) or value is getattr(pandas, "NaT", pandas))


def _number_key(value: Any) -> Key | None:
    # Convert to built-in numbers. Their equality is exact, and no subclass can change it.
    if isinstance(value, bool | np.bool_):
        return ("number", bool(value))
    if isinstance(value, int):
        return ("number", int.__add__(value, 0))
    if isinstance(value, np.integer):
        return ("number", int(value))
    if isinstance(value, float):
        return _key(float.__float__(value))
    if isinstance(value, np.floating):
        if value.itemsize <= 8 or not np.isfinite(value):
            return _key(float(value))
        return ("number", Fraction(*value.as_integer_ratio()))
    if isinstance(value, complex | np.complexfloating):
        real, imaginary = _key(value.real), _key(value.imag)
        if MISSING in (real, imaginary):
            return MISSING
        return real if imaginary == ("number", 0) else ("complex", real, imaginary)
    if isinstance(value, Decimal):
        return MISSING if Decimal.is_nan(value) else ("number", Decimal(value))
    if isinstance(value, Rational):
        return ("number", Fraction(int(value.numerator), int(value.denominator)))
    return None


# Times, in integers: attoseconds, the finest unit that there is

_SECOND = 10**18
_DAY = 86_400 * _SECOND
_UNITS = {
    "W": 7 * _DAY,
    "D": _DAY,
    "h": 3600 * _SECOND,
    "m": 60 * _SECOND,
    "s": _SECOND,
    "ms": 10**15,
    "us": 10**12,
    "ns": 10**9,
    "ps": 10**6,
    "fs": 10**3,
    "as": 1,
}


@dataclass(frozen=True, slots=True)
class Instant:
    """A time of numpy in UTC, from a column with a time zone."""

    time: np.datetime64


def _time_key(value: Any) -> Key | None:
    if isinstance(value, Instant):
        return ("instant", _numpy_time_key(value.time)[1])
    if isinstance(value, np.datetime64 | np.timedelta64):
        return MISSING if np.isnat(value) else _numpy_time_key(value)
    if isinstance(value, datetime.datetime):
        zone, exact = value.tzinfo is not None and value.utcoffset() is not None, _exact_time(value)
        return ("instant" if zone else "time", exact)
    if isinstance(value, datetime.date):
        return ("time", (value.toordinal() - _EPOCH) * _DAY)
    if isinstance(value, datetime.timedelta):
        if hasattr(value, "to_timedelta64"):  # pandas, which has nanoseconds
            return _numpy_time_key(value.to_timedelta64())
        return ("duration", (value.days * 86_400 + value.seconds) * _SECOND + value.microseconds * 10**12)
    return None


_EPOCH = datetime.date(1970, 1, 1).toordinal()


def _exact_time(value: datetime.datetime) -> int:
    """Return attoseconds since 1970, in UTC where there is a zone."""
    if hasattr(value, "to_datetime64"):  # pandas, which has nanoseconds
        exact: int = _numpy_time_key(value.to_datetime64())[1]
        return exact
    days, seconds = value.toordinal() - _EPOCH, value.hour * 3600 + value.minute * 60 + value.second
    offset = value.utcoffset() or datetime.timedelta()
    seconds += 86_400 * (days - offset.days) - offset.seconds
    return seconds * _SECOND + (value.microsecond - offset.microseconds) * 10**12


def _numpy_time_key(value: Any) -> Key:
    unit, count = np.datetime_data(value.dtype)
    ticks = int(as_int64(value)) * count
    is_time = isinstance(value, np.datetime64)
    if unit in ("Y", "M"):  # of no fixed length
        months = ticks * 12 if unit == "Y" else ticks
        return ("time", _days_before(months) * _DAY) if is_time else ("months", months)
    return ("time" if is_time else "duration", ticks * _UNITS[unit])


def _days_before(months: int) -> int:
    """Return the days from 1 January 1970 to the month that begins ``months`` months later, in any year."""
    # If years begin in March, the additional day of leap years is the last one.
    years, month = divmod(months - 2, 12)
    years += 1970
    leaps = years // 4 - years // 100 + years // 400
    return 365 * years + leaps + (153 * month + 2) // 5 - _MARCH_1970


_MARCH_1970 = 365 * 1970 + 1970 // 4 - 1970 // 100 + 1970 // 400 - 59
"""1 January is 59 days before 1 March."""


# Numbers


def _float(value: Any) -> float | None:
    if value is None:
        return math.nan
    value = _entry(value)
    if isinstance(value, Decimal):
        if Decimal.is_nan(value):
            return math.nan
        return _in_range(float(Decimal(value)), Decimal.is_finite(value))
    if isinstance(value, np.generic) and not isinstance(value, np.bool_ | np.integer | np.floating):
        is_number = False
    else:
        is_number = isinstance(value, Real | np.bool_) and not isinstance(value, np.timedelta64)
    if not is_number:
        return math.nan if is_missing(value) else None
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, np.floating):
        return _in_range(float(value), bool(np.isfinite(value)))
    if isinstance(value, int):
        value = int.__add__(value, 0)
    try:
        return float(value)
    except OverflowError:
        return _LARGEST if value > 0 else -_LARGEST


_LARGEST = sys.float_info.max


def _in_range(number: float, finite: bool) -> float:
    """Return a number after rounding to float64. Finite numbers stay finite, at most the largest float64."""
    return math.copysign(_LARGEST, number) if finite and math.isinf(number) else number


def array_of(value: Any) -> NDArray[Any]:
    """Return an array with a declared type unchanged, and anything else as an array of objects.

    numpy would give all items of a list one type. An integer beyond 2^53 would change if another item is a float, and a
    number would become text if another item is text. Values that numpy cannot convert are objects. So are masked
    arrays, because numpy would show their hidden values.
    """
    if is_masked(value):
        return np.array(None)

    dtype = getattr(value, "dtype", None)
    declared = isinstance(dtype, np.dtype) or hasattr(value, "__array__")
    try:
        array = np.asarray(value, dtype=None if declared else object)
    except Exception:
        array = np.array(None)
    return array


def is_masked(value: Any) -> bool:
    """Return whether a value is a masked array, or a list or tuple that has one."""
    kind = type(value)  # a foreign class may raise an error on attribute access
    return issubclass(kind, np.ma.MaskedArray) or (issubclass(kind, list | tuple) and any(map(is_masked, value)))


def exact_numbers(name: str, value: Any) -> NDArray[Any]:
    """Return private numbers as an array that lost no digit: floats, integers, or Python numbers.

    Numbers with a type of numpy have at most 64 bits. Integers and fractions of Python may have any size. Each number
    is read independently of the others.
    """
    array = array_of(value)
    refused = array.dtype.kind not in "biufO" or array.itemsize > 8
    if not refused and array.dtype.kind == "O":
        items = [_python_number(item) for item in array.ravel()]
        refused = any(item is None for item in items)
        array = _as_they_are(items if not refused else []).reshape(array.shape if not refused else 0)
    if refused:
        raise refuse_data(name, allowed="a real number or an array of real numbers, of at most 64 bits each")
    return array


def _python_number(item: Any) -> Any:
    """Return a real number as an exact Python number, or None for anything else, including missing values."""
    kind = type(item)
    if kind is float or kind is int:
        return item
    if issubclass(kind, np.generic):
        # Exclude times, which numpy would also convert to integers, and floats with more than 64 bits.
        whole = isinstance(item, np.bool_ | np.integer) and not isinstance(item, np.timedelta64)
        is_number = whole or (isinstance(item, np.floating) and item.itemsize <= 8)
        return item.item() if is_number else None
    return item if issubclass(kind, Real) else None


def _as_they_are(items: list[Any]) -> NDArray[Any]:
    """Return Python numbers as an array of the first type that holds each of them exactly."""
    kinds = set(map(type, items))
    if kinds <= {float}:
        return np.array(items, dtype=np.float64)
    if kinds <= {int, bool} and all(-(2**63) <= item < 2**63 for item in items):
        return np.array(items, dtype=np.int64)
    if kinds <= {float, int, bool} and all(type(item) is float or abs(item) <= 2**53 for item in items):
        return np.array(items, dtype=np.float64)
    return np.array([*items, None], dtype=object)[:-1]


def floats_among(array: NDArray[Any]) -> NDArray[np.float64]:
    """Return the entries that are floats. Only these can be infinite or NaN."""
    if array.dtype.kind == "O":
        return np.array([item for item in array.ravel() if isinstance(item, float)], dtype=np.float64)
    return array.ravel().astype(np.float64) if array.dtype.kind == "f" else np.empty(0)
