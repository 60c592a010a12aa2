"""Awkward private values, rows and containers: what a row is read as must depend on that row alone.

Every container is a function of a list of values (`COLUMNS`) or of rows (`TABLES`), with one declared type where it
has any, so that a row stands alone in a container of the same kind. Import it wherever something reads data.
"""

from __future__ import annotations

import collections
import datetime
import enum
import math
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
import pandas as pd
import polars as pl

try:
    import pyarrow as pa
except ImportError:
    pa = None

UTC = datetime.UTC


class Colour(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1


class Raises:
    """A value whose class raises, with data in the message."""

    def __init__(self, secret: object = "secret") -> None:
        self.secret = secret

    def __eq__(self, other: object) -> NoReturn:
        raise ValueError(f"cannot compare {self.secret}")

    def __hash__(self) -> NoReturn:
        raise ValueError(f"cannot hash {self.secret}")

    def __float__(self) -> NoReturn:
        raise ValueError(f"cannot convert {self.secret}")

    def __repr__(self) -> str:
        return str(self.secret)


class RaisesOnComparison(Raises):
    """Its hash is that of a category, the comparison that follows raises."""

    def __init__(self, like: object, secret: object = "secret") -> None:
        super().__init__(secret)
        self.like = like

    def __hash__(self) -> int:
        return hash(self.like)


class EqualsAll:
    """Says that it equals everything."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash(Colour.RED)


class LyingText(str):
    """A string that says that it is another one."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash("a")


class LyingClass:
    """Raises where one asks for its class."""

    @property
    def __class__(self) -> NoReturn:
        raise ValueError("secret class")


INTEGERS: list[Any] = [0, 1, -1, 2, 127, 2**53, 2**53 + 1, -(2**63)]
BIG: list[Any] = [2**63 + 1, 2**64 + 1, -(2**64), 10**400]
FLOATS: list[Any] = [0.5, 1.0, -0.0, 2.0**53, 1e308, math.inf, -math.inf]
BOOLS: list[Any] = [True, False]
TEXT: list[Any] = ["a", "1", "", "nan", "True", "None", "a much longer text than others"]
BYTES: list[Any] = [b"a", b"1", b""]
MISSING: list[Any] = [None, math.nan, np.float32("nan"), pd.NA, pd.NaT, np.datetime64("NaT"), Decimal("NaN")]
MISSING += [np.timedelta64("NaT"), Decimal("sNaN"), np.ma.masked]
NUMPY: list[Any] = [np.int8(1), np.uint64(2**63 + 1), np.float16(0.1), np.float32(0.1), np.longdouble("0.1")]
NUMPY += [np.True_, np.str_("a"), np.bytes_(b"a"), np.array(1), np.longdouble("inf"), np.float64(1.0)]
EXACT: list[Any] = [Decimal(1), Decimal("0.1"), Decimal("1e400"), Decimal("Infinity"), Fraction(1), Fraction(1, 3)]
EXACT += [Fraction(10**400), Fraction(-(10**400), 3)]
COMPLEX: list[Any] = [1j, 1 + 0j, np.complex64(1), complex(math.nan, 0)]
TIMES: list[Any] = [
    datetime.date(2020, 1, 2),
    datetime.datetime(2020, 1, 2),
    datetime.datetime(2020, 1, 2, tzinfo=UTC),
    datetime.datetime(2020, 1, 2, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
    pd.Timestamp("2020-01-02"),
    pd.Timestamp("2020-01-02", tz="UTC"),
    pd.Timestamp("2020-01-02T00:00:00.000000001"),
    np.datetime64("2020-01-02", "D"),
    np.datetime64("2020-01-02", "ns"),
    np.datetime64("2020", "Y"),
    datetime.timedelta(seconds=1),
    pd.Timedelta(1, "s"),
    np.timedelta64(1, "s"),
    np.timedelta64(1000, "ms"),
    np.timedelta64(1, "Y"),
]
OBJECTS: list[Any] = [(), (1, "a"), (1.0, "a"), (None, "a"), (1, [2]), frozenset({1}), Colour.RED, Level.LOW]
OBJECTS += [uuid.UUID(int=1), object(), len, pd.Period("2020"), pd.Interval(0, 1)]
UNHASHABLE: list[Any] = [[1], [], {"a": 1}, {1}, np.array([1]), np.array([1, 2]), [[1, 2], [3]], pd.Series([1])]
LIARS: list[Any] = [Raises(), RaisesOnComparison(Colour.RED), EqualsAll(), LyingText("b"), LyingClass()]

VALUES = INTEGERS + BIG + FLOATS + BOOLS + TEXT + BYTES + MISSING + NUMPY + EXACT + COMPLEX + TIMES + OBJECTS
VALUES += UNHASHABLE + LIARS

NUMBERS = INTEGERS + BIG + FLOATS + BOOLS + MISSING + NUMPY[:5] + [np.True_, np.array(1), np.float64(1.0)] + EXACT
"""What is read as a number, or as a missing one."""


def objects(values: list[Any]) -> np.ndarray:
    """Return a 1-d array of objects, whatever they are."""
    array = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        array[i] = value
    return array


def masked(values: list[Any], dtype: Any) -> Any:
    """Return a masked array in which None is masked, above a hidden value that is in range."""
    hidden = [value is None for value in values]
    kept = [1 if value is None else value for value in values]
    return np.ma.masked_array(np.array(kept, dtype=dtype), mask=hidden)


Column = Callable[[list[Any]], Any]

COLUMNS: dict[str, tuple[Column, list[Any]]] = {
    "list": (list, VALUES),
    "tuple": (tuple, VALUES),
    "iterator": (iter, VALUES),
    "deque": (collections.deque, VALUES),
    "array of objects": (objects, VALUES),
    "pandas, objects": (lambda values: pd.Series(objects(values), dtype=object), VALUES),
    "pandas index, objects": (lambda values: pd.Index(objects(values), dtype=object), [*INTEGERS, *TEXT, *BYTES]),
    "polars, objects": (lambda values: pl.Series(values, dtype=pl.Object), [*INTEGERS, *TEXT, *BYTES, *FLOATS]),
    "int64": (lambda values: np.array(values, dtype=np.int64), INTEGERS),
    "int8": (lambda values: np.array(values, dtype=np.int8), [0, 1, -1, 127]),
    "uint64": (lambda values: np.array(values, dtype=np.uint64), [0, 1, 2**63 + 1, 2**64 - 1]),
    "float64": (lambda values: np.array(values, dtype=np.float64), [*FLOATS, math.nan]),
    "float32": (lambda values: np.array(values, dtype=np.float32), [0.5, 0.1, 1.0, math.nan, math.inf]),
    "float16": (lambda values: np.array(values, dtype=np.float16), [0.5, 0.1, 1.0, math.nan]),
    "longdouble": (lambda values: np.array(values, dtype=np.longdouble), [*FLOATS, NUMPY[4], math.nan]),
    "complex": (lambda values: np.array(values, dtype=complex), [1j, 1, 0.5, math.nan]),
    "bool": (lambda values: np.array(values, dtype=bool), BOOLS),
    "text": (lambda values: np.array(values, dtype="U40"), TEXT),
    "bytes": (lambda values: np.array(values, dtype="S8"), BYTES),
    "days": (lambda values: np.array(values, dtype="M8[D]"), ["2020-01-02", "1969-12-31", "NaT"]),
    "years": (lambda values: np.array(values, dtype="M8[Y]"), ["2020", "-0044", "NaT"]),
    "nanoseconds": (lambda values: np.array(values, dtype="M8[ns]"), ["2020-01-02", "2020-01-02T00:00:00.000000001"]),
    "durations": (lambda values: np.array(values, dtype="m8[ms]"), [1000, 1, 0]),
    "records": (lambda values: np.array(values, dtype=[("u", int), ("v", "U4")]), [(1, "a"), (2, "b")]),
    "masked int64": (lambda values: masked(values, np.int64), [*INTEGERS, None]),
    "masked float64": (lambda values: masked(values, np.float64), [*FLOATS, None]),
    "masked bool": (lambda values: masked(values, bool), [*BOOLS, None]),
    "masked objects": (lambda values: masked(values, object), [*INTEGERS, *TEXT, None]),
    "pandas int64": (lambda values: pd.Series(values, dtype="int64"), INTEGERS),
    "pandas Int64": (lambda values: pd.Series(values, dtype="Int64"), [*INTEGERS, None]),
    "pandas Int64 array": (lambda values: pd.array(values, dtype="Int64"), [*INTEGERS, None]),
    "pandas Int64 index": (lambda values: pd.Index(values, dtype="Int64"), [*INTEGERS, None]),
    "pandas Float64": (lambda values: pd.Series(values, dtype="Float64"), [*FLOATS, None]),
    "pandas boolean": (lambda values: pd.Series(values, dtype="boolean"), [*BOOLS, None]),
    "pandas text": (lambda values: pd.Series(values, dtype="string"), [*TEXT, None]),
    "pandas times": (lambda values: pd.Series(values, dtype="datetime64[ns]"), ["2020-01-02", None]),
    "pandas zoned": (lambda values: pd.Series(values, dtype="datetime64[ns, UTC]"), ["2020-01-02", None]),
    "pandas categories": (
        lambda values: pd.Series(pd.Categorical(values, categories=[1, 2, 2**53 + 1])),
        [1, 2, 2**53 + 1, None],
    ),
    "pandas mixed categories": (
        lambda values: pd.Categorical(values, categories=pd.Index([1, "a", 2**53 + 1], dtype=object)),
        [1, "a", 2**53 + 1, None],
    ),
    "polars Int64": (lambda values: pl.Series(values, dtype=pl.Int64), [*INTEGERS, None]),
    "polars UInt64": (lambda values: pl.Series(values, dtype=pl.UInt64), [0, 1, 2**63 + 1, None]),
    "polars Int128": (lambda values: pl.Series(values, dtype=pl.Int128), [*INTEGERS, 2**64 + 1, None]),
    "polars Float32": (lambda values: pl.Series(values, dtype=pl.Float32), [0.5, 0.1, math.nan, None]),
    "polars Boolean": (lambda values: pl.Series(values, dtype=pl.Boolean), [*BOOLS, None]),
    "polars String": (lambda values: pl.Series(values, dtype=pl.String), [*TEXT, None]),
    "polars Categorical": (lambda values: pl.Series(values, dtype=pl.Categorical), [*TEXT, None]),
    "polars Decimal": (
        lambda values: pl.Series(values, dtype=pl.Decimal(20, 2)),
        [Decimal("0.10"), Decimal("1.00"), Decimal("90071992547409.93"), None],
    ),
    "polars Date": (lambda values: pl.Series(values, dtype=pl.Date), [datetime.date(2020, 1, 2), None]),
    "polars Datetime": (
        lambda values: pl.Series(values, dtype=pl.Int64).cast(pl.Datetime("ns")),
        [0, 1, 1577923200 * 10**9, None],
    ),
    "polars zoned": (
        lambda values: pl.Series(values, dtype=pl.Int64).cast(pl.Datetime("ns", "Europe/Paris")),
        [0, 1, 1577923200 * 10**9, None],
    ),
    "polars List": (lambda values: pl.Series(values, dtype=pl.List(pl.Int64)), [[1], [1, 2], None]),
    "polars Null": (lambda values: pl.Series(values, dtype=pl.Null), [None]),
}
if pa is not None:
    COLUMNS |= {
        "arrow int64": (lambda values: pa.array(values, pa.int64()), [*INTEGERS, None]),
        "arrow int64 chunks": (lambda values: pa.chunked_array([values], pa.int64()), [*INTEGERS, None]),
        "arrow bool": (lambda values: pa.array(values, pa.bool_()), [*BOOLS, None]),
        "arrow text": (lambda values: pa.array(values, pa.string()), [*TEXT, None]),
        "pandas arrow int64": (lambda values: pd.Series(values, dtype="int64[pyarrow]"), [*INTEGERS, None]),
    }

Table = Callable[[list[list[Any]]], Any]


def _square(rows: list[list[Any]]) -> np.ndarray:
    return objects([value for row in rows for value in row]).reshape(len(rows), len(rows[0]))


def _pandas(rows: list[list[Any]], *dtypes: str) -> pd.DataFrame:
    columns = zip(*rows, strict=True)
    return pd.DataFrame(
        {
            f"c{j}": pd.Series(objects(list(column)), dtype=object).astype(dtype)
            for j, (column, dtype) in enumerate(zip(columns, dtypes, strict=True))
        }
    )


def _polars(rows: list[list[Any]], *dtypes: Any) -> pl.DataFrame:
    columns = zip(*rows, strict=True)
    return pl.DataFrame(
        [
            pl.Series(f"c{j}", list(column), dtype=dtype)
            for j, (column, dtype) in enumerate(zip(columns, dtypes, strict=True))
        ]
    )


def _arrow(rows: list[list[Any]]) -> Any:
    first, second = zip(*rows, strict=True)
    return pa.table({"a": pa.array(first, pa.int64()), "b": pa.array(second, pa.float32())})


def _pairs(values: list[Any]) -> list[list[Any]]:
    """Return rows of two: each value beside a plain number, and beside another awkward one."""
    return [[value, 0.5] for value in values] + [[values[i - 1], value] for i, value in enumerate(values)]


_SIGNED, _FLOAT = [*INTEGERS, None], [0.5, 0.1, math.nan, None]

TABLES: dict[str, tuple[Table, list[list[Any]]]] = {
    "lists": (list, _pairs(VALUES)),
    "tuples": (lambda rows: tuple(map(tuple, rows)), _pairs(NUMBERS)),
    "arrays in a list": (
        lambda rows: [np.array(row) for row in rows],
        [[1, 2], [1, 0.5], [2**53 + 1, 1], [True, False]],
    ),
    "masked arrays in a list": (
        lambda rows: [masked(row, float) for row in rows],
        [[1.0, 2.0], [None, 0.5], [None, None]],
    ),
    "polars columns in a list": (
        lambda rows: [pl.Series(row, dtype=pl.Int64) for row in rows],
        [[1, 2], [2**53 + 1, None], [None, None]],
    ),
    "array of objects": (_square, _pairs(VALUES)),
    "int64": (lambda rows: np.array(rows, dtype=np.int64), [[2**53 + 1, -1], [0, 1]]),
    "int8": (lambda rows: np.array(rows, dtype=np.int8), [[127, -1], [0, 1]]),
    "uint64": (lambda rows: np.array(rows, dtype=np.uint64), [[2**63 + 1, 1], [0, 1]]),
    "bool": (lambda rows: np.array(rows, dtype=bool), [[True, False], [False, False]]),
    "float16": (lambda rows: np.array(rows, dtype=np.float16), [[0.1, 1], [math.nan, 2]]),
    "float32": (lambda rows: np.array(rows, dtype=np.float32), [[0.1, 1], [math.nan, math.inf]]),
    "float64": (lambda rows: np.array(rows, dtype=np.float64), [[0.1, -0.0], [math.nan, math.inf]]),
    "longdouble": (lambda rows: np.array(rows, dtype=np.longdouble), [[0.1, 1e308], [NUMPY[4], math.inf]]),
    "pandas, objects": (lambda rows: _pandas(rows, "object", "object"), _pairs(VALUES)),
    "pandas, an object beside floats": (
        lambda rows: _pandas(rows, "object", "float64"),
        [[value, 0.1] for value in VALUES],
    ),
    "pandas int64, float32": (lambda rows: _pandas(rows, "int64", "float32"), [[2**53 + 1, 0.1], [1, math.inf]]),
    "pandas float16, float64": (lambda rows: _pandas(rows, "float16", "float64"), [[0.1, 0.1], [math.nan, 1.0]]),
    "pandas int8, bool": (lambda rows: _pandas(rows, "int8", "bool"), [[127, True], [-1, False]]),
    "pandas uint64, int64": (lambda rows: _pandas(rows, "uint64", "int64"), [[2**63 + 1, -1], [1, 2**53 + 1]]),
    "pandas bool, float64": (lambda rows: _pandas(rows, "bool", "float64"), [[True, 0.1], [False, math.nan]]),
    "pandas Int64, Float64": (
        lambda rows: _pandas(rows, "Int64", "Float64"),
        [[value, 0.1] for value in _SIGNED] + [[1, value] for value in (0.5, None)],
    ),
    "pandas Int64, Int64": (lambda rows: _pandas(rows, "Int64", "Int64"), [[value, 2**53 + 1] for value in _SIGNED]),
    "pandas boolean, float32": (lambda rows: _pandas(rows, "boolean", "float32"), [[True, 0.1], [None, 0.1]]),
    "pandas categories": (lambda rows: _pandas(rows, "category", "float64"), [[2**53 + 1, 0.1], [None, 0.1], [1, 2]]),
    "polars Int64, Float32": (
        lambda rows: _polars(rows, pl.Int64, pl.Float32),
        [[a, b] for a in _SIGNED for b in _FLOAT],
    ),
    "polars Int64, Int64": (lambda rows: _polars(rows, pl.Int64, pl.Int64), [[a, b] for a in _SIGNED for b in _SIGNED]),
    "polars Int8, Int8": (lambda rows: _polars(rows, pl.Int8, pl.Int8), [[127, 1], [None, -1]]),
    "polars Boolean, UInt64": (
        lambda rows: _polars(rows, pl.Boolean, pl.UInt64),
        [[True, 2**63 + 1], [None, 1], [False, None]],
    ),
    "polars Boolean": (lambda rows: _polars(rows, pl.Boolean, pl.Boolean), [[True, False], [None, True]]),
    "polars Int128, Decimal": (
        lambda rows: _polars(rows, pl.Int128, pl.Decimal(20, 2)),
        [[2**64 + 1, Decimal("0.10")], [None, Decimal("90071992547409.93")], [1, None]],
    ),
    "polars Null": (lambda rows: _polars(rows, pl.Null, pl.Float64), [[None, 0.5], [None, None]]),
    "polars, objects": (lambda rows: _polars(rows, pl.Object, pl.Float64), [[1, 0.5], [2**64 + 1, 0.5], ["1", 0.5]]),
    "polars, lazy": (
        lambda rows: _polars(rows, pl.Int64, pl.Float32).lazy(),
        [[a, b] for a in _SIGNED for b in _FLOAT],
    ),
}
if pa is not None:
    TABLES["arrow int64, float"] = (_arrow, [[a, b] for a in _SIGNED for b in _FLOAT])


def beside(rows: list[Any]) -> Iterator[list[Any]]:
    """Yield tables of some of the rows, in which each stands beside several others."""
    yield rows
    yield rows[::-1]
    for i, row in enumerate(rows):
        yield [rows[i - 1], row]
