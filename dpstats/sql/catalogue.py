"""Tables: columns and declarations that queries are checked against, the dialects of engines, and tables made of files.

Proof: docs/proofs/elastic-sensitivity.md, the section on execution.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from itertools import islice
from pathlib import Path, PurePosixPath
from string import ascii_lowercase, ascii_uppercase
from typing import Any

from dpstats.data.duckdb_rows import File, parquet_columns, parquet_table, text_literal
from dpstats.data.file_rows import FileRows, Found, check_same_columns, find_files
from dpstats.data.parameters import column_names
from dpstats.errors import InvalidData, InvalidParameter, nearest, refuse, refuse_data, show, show_names

# Tables and columns

_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)


@dataclass(frozen=True)
class ColumnType:
    """The type of a column, and the kind of its values.

    Attributes
    ----------
    name : str
    kind : {"whole", "real", "text", "truth", "date", "time", "other"}
    required : bool
        Whether the table refuses rows without a value: NOT NULL, and no type with NaN or infinity.
    entry : str
        SQL of an entry, from the name of the column as {}. It is not the name alone where the database has another
        order, form or range of entries than `name`. It is NULL where the column is. NaN and infinity of a column of
        real numbers are NULL here: no other place decides about them.
    undeclared : bool
        Whether this is text only because nobody declared a type, in a CSV file.
    numbers : (str, str)
        SQL of an entry of text as a whole number and as a double, from the name of the column as {0}: NULL for other
        text. Empty if the database cannot read text as numbers without an error.
    """

    name: str
    kind: str
    required: bool = False
    entry: str = "{}"
    undeclared: bool = False
    numbers: tuple[str, str] = ("", "")

    @property
    def shown(self) -> str:
        """The name without its part in brackets, because the brackets of an ENUM contain values of the data."""
        return self.name.partition("(")[0]


@dataclass(frozen=True)
class ForeignKey:
    """A foreign key: a column, and the key of another table that it refers to.

    Attributes
    ----------
    column : str
    table : str
        Name in lower case.
    key : str
    """

    column: str
    table: str
    key: str


@dataclass(frozen=True)
class BaseTable:
    """A table of the database.

    Attributes
    ----------
    name : str
    source : str
        In SQL, with database and schema, quoted.
    columns : mapping of str to (str, ColumnType)
        The name and the type, by the name in lower case.
    public : bool
    unit : str, optional
        The column that identifies the unit of a row.
    path : ForeignKey, optional
        In place of the column: the row of another table that has the unit of a row.
    keys : tuple of str, default=()
        Columns that are declared to have no value twice.
    """

    name: str
    source: str
    columns: Mapping[str, tuple[str, ColumnType]]
    public: bool = False
    unit: str | None = None
    path: ForeignKey | None = None
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class Catalogue:
    """The tables that queries may use, by names in lower case, and the declarations of columns.

    Attributes
    ----------
    tables : mapping of str to BaseTable
    views : frozenset of str
        Names of views.
    categories : mapping of (str, str) to tuple, or "discover"
        Declared values, by table and column in lower case.
    bins : mapping of (str, str) to tuple of float
        Declared edges.
    periods : mapping of (str, str) to (date, date)
        Declared first dates, and dates after the last.
    bounds : mapping of (str, str) to (float, float)
    """

    tables: Mapping[str, BaseTable]
    views: frozenset[str] = frozenset()
    categories: Mapping[tuple[str, str], tuple[Any, ...] | str] = field(default_factory=dict)
    bins: Mapping[tuple[str, str], tuple[float, ...]] = field(default_factory=dict)
    periods: Mapping[tuple[str, str], tuple[date, date]] = field(default_factory=dict)
    bounds: Mapping[tuple[str, str], tuple[float, float]] = field(default_factory=dict)

    def table(self, name: str) -> BaseTable:
        """Return the table of a name, which ignores case."""
        found = self.tables.get(fold(name))
        if found is None:
            raise refuse(
                "FROM", got=f"{name!r}, which {self._explain(name)}", allowed=f"name base tables ({self._list_names()})"
            )
        return found

    def _list_names(self) -> str:
        return ", ".join(sorted(table.name for table in self.tables.values())) or "none"

    def _explain(self, name: str) -> str:
        """Return why no base table has this name."""
        view = fold(name) in self.views
        advice = f". Give a DataFrame or a file as PrivateSQL({{{name!r}: ...}})" if view or not self.tables else ""
        return f"is {'a view, which may hide a join' if view else 'no table'}{advice}"

    def _nearest(self, key: Any) -> str:
        """Return the remedy for a wrong key: the nearest column."""
        tables = self.tables.values()
        return nearest(key, [f"{table.name}.{column}" for table in tables for column, _ in table.columns.values()])

    def columns_of(self, parameter: str, keys: Iterable[Any]) -> dict[Any, tuple[str, str]]:
        """Return the table and the column, in lower case, of names as "table.column".

        A name with a dot may make a key ambiguous. This raises an error.
        """
        found: dict[Any, tuple[str, str]] = {}
        for key in keys:
            words = fold(key).split(".")
            splits = [(".".join(words[:i]), ".".join(words[i:])) for i in range(1, len(words))]
            named = [(table, column) for table, column in splits if table in self.tables]
            if not named:
                table = key.rpartition(".")[0] if isinstance(key, str) else ""
                # A key without a dot may be an entry that was given by mistake.
                why = f"{show(key)}: {table!r} {self._explain(table)}" if table else "another key"
                allowed = f"name columns of base tables ({self._list_names()}) as 'table.column'"
                raise refuse(parameter, got=why, allowed=allowed, remedy=self._nearest(key) if table else "")
            there = [(table, column) for table, column in named if column in self.tables[table].columns]
            if not there:
                known = self.tables[named[0][0]]
                columns = show_names(name for name, _ in known.columns.values())
                allowed = f"name columns of {known.name} ({columns})"
                raise refuse(parameter, given=key, allowed=allowed, remedy=self._nearest(key))
            if len(there) > 1:
                raise refuse(parameter, got=f"{key!r}, which may be two", allowed="name one column")
            if there[0] in found.values():
                raise refuse(parameter, got=f"{key!r} again", allowed="name each column once")
            found[key] = there[0]
        return found


# Names


def fold(name: Any) -> str:
    """Return a name in lower case, for comparisons. DuckDB ignores the case of ASCII letters only."""
    return str(name).translate(_LOWER)


def quoted(name: str) -> str:
    """Return a quoted identifier, so that all of its characters are literal."""
    if "\0" in name:
        raise refuse("a name", allowed="not have a zero character")
    return '"' + name.replace('"', '""') + '"'


# Dialects

# Compiled SQL is emitted from these primitives, and never from the text of a query. An engine is used if it computes
# the checks exactly, which read no table.

Ask = Callable[..., list[tuple[Any, ...]]]
"""SQL and parameters -> its rows, in the snapshot."""
Checks = list[tuple[str, Any]]
_TINY = 2.0**-400
"""Part of the largest size of a value, below which the value may count as 0."""
_LEAST_PRODUCT = 2.0**-160
"""Least bound of a product, where factors may not underflow."""


@dataclass(frozen=True)
class Dialect:
    """The primitives of an engine. Templates have {0} for the first operand.

    Attributes
    ----------
    name : str
        The engine, for messages.
    types : mapping of str to str
        The engine's names of the types of literals and values. WIDE holds integers of at least 127 bits.
    finite : str
        Whether a double is neither NaN nor infinite.
    quotient : str
        Quotient of integers, rounded towards 0.
    like : str
        LIKE without an escape character.
    collation : str
        The collation of a connection that comparisons would follow. It must be empty.
    bytewise : str
        Text that is compared by its bytes.
    hash : str
        A whole number from 0 to 2^32 - 1 that is a function of the text of a value.
    flush : str
        The first operand, where sizes below a part of the second may be 0. Engines that refuse products that underflow
        need it: the refusal would depend on rows.
    """

    name: str
    types: Mapping[str, str]
    finite: str
    quotient: str
    like: str
    hash: str
    collation: str = "''"
    bytewise: str = "{0}"
    flush: str = "{0}"

    def cast(self, sql: str, kind: str) -> str:
        """Return a value in a type."""
        return f"CAST({sql} AS {self.types[kind]})"

    def parameter(self, place: int, kind: str) -> str:
        """Return a bound literal."""
        return self.cast(f"${place}", kind)

    def real(self, number: float) -> str:
        """Return a constant of double precision."""
        return self.cast(repr(float(number)), "DOUBLE")

    def clip(self, sql: str, low: Any, high: Any) -> str:
        """Return a value cut to bounds. NULL becomes the lower bound."""
        return f"least(greatest({sql}, {low}), {high})"

    def clip_short(self, sql: str, low: Any, high: Any) -> str:
        """Return a short expression clipped to bounds, faster than `clip`. NULL stays NULL."""
        return f"(CASE WHEN {sql} < {low} THEN {low} WHEN {sql} > {high} THEN {high} ELSE {sql} END)"

    def round(self, sql: str) -> str:
        """Return the nearest integer of a double. Ties go to the even one, as in all engines' casts of doubles."""
        return self.cast(sql, "BIGINT")

    def is_finite(self, sql: str) -> str:
        """Return whether a double is a finite number; NULL or false where it is missing."""
        return self.finite.format(sql)

    def only_finite(self, sql: str) -> str:
        """Return a double, or NULL where it is NaN or infinite."""
        return f"(CASE WHEN {self.is_finite(sql)} THEN {sql} END)"

    def divide(self, sql: str, other: Any) -> str:
        """Return the quotient of integers, rounded towards 0."""
        return self.quotient.format(sql, other)

    def text(self, sql: str) -> str:
        """Return text that is compared by its bytes."""
        return self.bytewise.format(sql)

    def matches(self, sql: str, pattern: str) -> str:
        """Return whether text is LIKE a pattern, in which only % and _ have a meaning."""
        return self.like.format(sql, pattern)

    def flush_small(self, sql: str, size: float) -> str:
        """Return a double of at most this size, which a factor cannot make underflow."""
        return self.flush.format(sql, self.real(size * _TINY))

    def step(self, inside: str, size: float, spacing: float) -> str:
        """Return the nearest step of a double of at most this size, as an integer."""
        return self.round(f"{self.flush_small(inside, size)} / {self.real(spacing)}")

    def product(self, left: str, right: str, sizes: tuple[float, float]) -> str:
        """Return the product of doubles of at most these sizes."""
        # The product of tiny sizes is 0 itself.
        if self.flush != "{0}" and min(sizes) > 0 and sizes[0] * sizes[1] < _LEAST_PRODUCT:
            raise InvalidParameter(
                f"{self.name} cannot multiply values as small as {sizes[0]:.3g} and {sizes[1]:.3g}: use larger units"
            )
        return f"({self.flush_small(left, sizes[0])} * {self.flush_small(right, sizes[1])})"


DUCKDB = Dialect(
    "DuckDB",
    {word: word for word in ("BIGINT", "DOUBLE", "VARCHAR", "BOOLEAN", "DATE", "TIMESTAMP")} | {"WIDE": "HUGEINT"},
    finite="isfinite({0})",
    quotient="(({0}) // ({1}))",
    like="{0} LIKE {1}",
    hash="CAST(concat('0x', substr(md5(CAST({0} AS VARCHAR)), 1, 8)) AS BIGINT)",
    collation="current_setting('default_collation')",
)
DUCKDB_TABLES = replace(
    DUCKDB,
    finite=" AND ".join(f"{{0}} <> {DUCKDB.cast(end, 'DOUBLE')}" for end in ("'nan'", "'inf'", "'-inf'")).join("()"),
)
"""DuckDB over its own tables: it compares an entry with constants while it reads it. NaN equals itself there."""
POSTGRES = Dialect(
    "Postgres",
    {
        "BIGINT": "bigint",
        "DOUBLE": "double precision",
        "VARCHAR": "text",
        "BOOLEAN": "boolean",
        "DATE": "date",
        "TIMESTAMP": "timestamp without time zone",
        "WIDE": "numeric",
    },
    # NaN is greater than infinity.
    finite="abs({0}) < CAST('Infinity' AS double precision)",
    quotient="div({0}, {1})",
    like="{0} LIKE {1} ESCAPE ''",
    hash="CAST(CAST(concat('x', substr(md5(CAST({0} AS text)), 1, 8)) AS bit(32)) AS bigint)",
    bytewise='(CAST({0} AS text) COLLATE "C")',
    # The sum rounds numbers far below the second operand to this operand. The difference is exact.
    flush="(({0} + {1}) - {1})",
)


_OF_SETTINGS = 4
"""A setting changes an operator for all values: the first checks of each kind have each operator."""


class Probe:
    """The checks of a dialect, in one statement: expressions of constants, and their values.

    Parameters
    ----------
    dialect : Dialect
    settings : bool, default=False
        Whether to check only what settings of a connection change, by the first of its checks.
    """

    def __init__(self, dialect: Dialect, settings: bool = False) -> None:
        self._dialect = dialect
        self._parameters: list[Any] = []
        self._sources: list[str] = []
        changed: dict[str, Callable[[], Iterable[tuple[str, Any]]]] = {
            "division of integers towards 0": self._divisions,
            "text by its bytes": self._text,
            "NaN and infinite numbers": self._infinite,
        }
        fixed: dict[str, Callable[[], Iterable[tuple[str, Any]]]] = {
            "doubles to the bit": self._doubles,
            "steps of values, with ties and subnormal numbers": self._steps,
            "sums and products of doubles in their order": self._order,
            "sums of integers beyond 2^53": lambda: self._sums([2**53, 1, 1, -(2**31)]),
            "sums of integers beyond 2^63": lambda: self._sums([2**62, 2**62, 2**62, 1]),
            "-0.0 equal to 0.0": self._zeros,
            "the logic of NULL": self._missing,
            "aggregates of no rows": self._empty,
            "dates and times": self._dates,
        }
        # Only the checks that the statement needs are made: it has no parameter that it does not use.
        checks = {
            name: list(islice(make(), _OF_SETTINGS if settings else None))
            for name, make in (changed if settings else changed | fixed).items()
        }
        self._expected = [(name, value) for name, each in checks.items() for _, value in each]
        listed = ", ".join(sql for each in checks.values() for sql, _ in each)
        self._statement = f"SELECT {listed}" + (f" FROM {', '.join(self._sources)}" if self._sources else "")

    def find_failure(self, ask: Ask) -> str | None:
        """Return the first check that an engine fails, or None."""
        found = ask(self._statement, self._parameters)[0]
        pairs = zip(found, self._expected, strict=True)
        return next((name for value, (name, expected) in pairs if not _is_same(value, expected)), None)

    def _bind(self, value: Any, kind: str = "DOUBLE") -> str:
        self._parameters.append(value)
        return self._dialect.parameter(len(self._parameters), kind)

    def _rows(self, values: Sequence[Any], kind: str) -> str:
        """Return a source of rows with a column v."""
        return f"(VALUES {', '.join(f'({self._bind(value, kind)})' for value in values)}) AS q(v)"

    def _aggregate(self, source: str, checks: Checks) -> Checks:
        """Add a source of rows to the statement, and return the checks of aggregates over it."""
        name = f"s{len(self._sources)}"
        listed = ", ".join(f"{sql} AS x{i}" for i, (sql, _) in enumerate(checks))
        self._sources.append(f"(SELECT {listed} FROM {source}) AS {name}")
        return [(f"{name}.x{i}", value) for i, (_, value) in enumerate(checks)]

    def _doubles(self) -> Checks:
        listed = (0.1, -1 / 3, 5e-324, 2.0**-1022, 1.7976931348623157e308, 2.0**53 + 2)
        equal = [(f"{self._bind(x)} = {self._dialect.real(x)}", True) for x in listed]
        return [*equal, *((self._bind(x), x) for x in listed)]

    def _steps(self) -> Checks:
        ties = (0.5, 1.5, 2.5, -0.5, -1.5, -2.5, math.nextafter(0.5, 0), 2.0**51 + 0.5, 2.0**51 + 1.5, 5e-324)
        found: Checks = [(self._step(x, 1.0, 2.0**60), round(x)) for x in ties]
        ends = ((math.nan, 2.0), (math.inf, 2.0), (-math.inf, -1.0), (5e-324, 5e-324), (None, None))
        found += [(self._clip(x, 1.0, 2.0), end) for x, end in ends]
        found += [(self._step(x / 2**29, 2.0**-29, 8.0), round(x)) for x in (2.5, 3.5, -1.5)]
        return found + [(self._step(x, 2.0**20, 1e15), round(x / 2**20)) for x in (5e-324, -5e-324, 1e15)]

    def _step(self, x: float, spacing: float, size: float) -> str:
        return self._dialect.step(self._clip(x, size, size), size, spacing)

    def _clip(self, x: float | None, least: float, most: float) -> str:
        return self._dialect.clip_short(self._bind(x), self._dialect.real(-least), self._dialect.real(most))

    def _order(self) -> Checks:
        a, b, c = (self._bind(x) for x in (1e16, 1.0, 0.1))
        near = self._bind(1 + 2.0**-30)
        square = self._dialect.product(near, near, (2.0, 2.0))
        small = self._bind(5e-324)
        return [
            (f"(({a} + {b}) - {a})", 0.0),
            (f"(({c} + {self._bind(0.2)}) + {self._bind(0.3)})", 0.1 + 0.2 + 0.3),
            (f"({c} + ({self._bind(0.2)} + {self._bind(0.3)}))", 0.1 + (0.2 + 0.3)),
            # A fused product and difference would have the rest of the product.
            (f"({square} - {self._bind((1 + 2.0**-30) ** 2)})", 0.0),
            (self._dialect.product(small, small, (1.0, 1.0)), 0.0),
        ]

    def _sums(self, numbers: list[int]) -> Checks:
        wide, total = self._dialect.cast(self._bind(2**62, "BIGINT"), "WIDE"), sum(numbers)
        listed: Checks = [("sum(v)", total), ("2 * sum(v) + count(*)", 2 * total + len(numbers))]
        return [
            *self._aggregate(self._rows(numbers, "BIGINT"), listed),
            (f"{wide} * {self._bind(numbers[0], 'BIGINT')}", 2**62 * numbers[0]),
        ]

    def _divisions(self) -> Iterator[tuple[str, Any]]:
        def parts(a: int, b: int, kind: str) -> tuple[str, int]:
            quotient = self._dialect.divide(self._bind(a, kind), self._bind(b, kind))
            return quotient, abs(a) // b * (1 if a > 0 else -1)

        yield parts(-7, 2, "BIGINT")
        yield parts(-7, 2, "WIDE")
        yield parts(2**62 - 1, 3, "WIDE")
        yield parts(2**62 - 1, 2**31, "BIGINT")
        yield parts(7, 2, "BIGINT")

    def _text(self) -> Iterator[tuple[str, Any]]:
        def word(text: str) -> str:
            return self._dialect.text(self._bind(text, "VARCHAR"))

        def like(text: str, pattern: str) -> str:
            return self._dialect.matches(word(text), self._bind(pattern, "VARCHAR"))

        yield self._dialect.collation, ""
        yield f"{word('a')} = {word('A')}", False
        yield f"{word('ab')} < {word('a-c')}", False
        yield like("abc", "A%"), False
        yield f"{word(chr(0xE9))} = {word('e' + chr(0x301))}", False
        yield f"{word('a')} = {word('a ')}", False
        yield f"{word('a')} < {word('B')}", False
        yield f"{word(chr(0xE9))} < {word('z')}", False
        yield f"{word('b')} BETWEEN {word('A')} AND {word('Z')}", False
        yield like("abc", "a_c"), True
        yield like("a\\c", "a\\c"), True
        yield like("a%c", "a\\%c"), False
        yield like(chr(0xE9), "_"), True

    def _zeros(self) -> Checks:
        zero, minus = self._bind(0.0), self._bind(-0.0)
        distinct = f"(SELECT DISTINCT v FROM {self._rows([0.0, -0.0, 0.0], 'DOUBLE')}) AS d"
        return [
            (f"{zero} = {minus}", True),
            (f"{minus} < {zero}", False),
            *self._aggregate(distinct, [("count(*)", 1)]),
            (self._step(-0.0, 1.0, 8.0), 0),
        ]

    def _missing(self) -> Checks:
        unknown = f"({self._bind(None, 'BIGINT')} = {self._bind(1, 'BIGINT')})"
        rows = [None, 2, None, 2, 3]
        grouped = f"(SELECT v, count(*) AS n FROM {self._rows(rows, 'BIGINT')} GROUP BY v) AS g"
        joined = ", ".join(f"(SELECT v FROM {self._rows(rows, 'BIGINT')}) AS {name}" for name in "ab")
        return [
            (unknown, None),
            (f"({self._bind(None, 'BIGINT')} = {self._bind(None, 'BIGINT')})", None),
            (f"(NOT {unknown})", None),
            (f"({unknown} AND FALSE)", False),
            (f"({unknown} OR TRUE)", True),
            (f"({unknown} AND TRUE)", None),
            (f"({unknown} IS TRUE)", False),
            (f"({unknown} IS FALSE)", False),
            (f"(CASE WHEN {unknown} THEN 1 ELSE 2 END)", 2),
            (f"(1 IN (2, {self._bind(None, 'BIGINT')}))", None),
            (f"least({self._bind(None, 'BIGINT')}, 5)", 5),
            (f"greatest({self._bind(None, 'BIGINT')}, 5)", 5),
            (f"coalesce({self._bind(None, 'BIGINT')}, 3)", 3),
            *self._aggregate(
                self._rows(rows, "BIGINT"), [("count(v)", 3), ("sum(v)", 7), ("count(*) FILTER (WHERE v > 2)", 1)]
            ),
            *self._aggregate(grouped, [("max(n)", 2), ("count(*)", 3), ("count(v)", 2)]),
            *self._aggregate(f"{joined} WHERE a.v = b.v", [("count(*)", 5)]),
        ]

    def _empty(self) -> Checks:
        rows = f"{self._rows([1], 'BIGINT')} WHERE v > 1"
        grouped = f"(SELECT v, sum(v) AS n FROM {rows} GROUP BY v) AS g"
        return [
            *self._aggregate(rows, [("count(*)", 0), ("sum(v)", None)]),
            *self._aggregate(grouped, [("count(*)", 0), ("coalesce(max(n), 0)", 0)]),
        ]

    def _infinite(self) -> Iterator[tuple[str, Any]]:
        for x in (math.nan, math.inf, -math.inf):
            yield self._dialect.only_finite(self._bind(x)), None
        yield f"{self._bind(math.inf)} > {self._dialect.real(1.7976931348623157e308)}", True
        for x in (1.0, -5e-324, 1.7976931348623157e308):
            yield self._dialect.only_finite(self._bind(x)), x
        yield self._dialect.only_finite(self._dialect.cast("NULL", "DOUBLE")), None

    def _dates(self) -> Checks:
        early, day = (self._bind(value, "DATE") for value in (date(1, 1, 1), date(1969, 12, 31)))
        moment = self._bind(datetime(1969, 12, 31, 23, 59, 59, 999999), "TIMESTAMP")
        return [
            (f"{early} < {day}", True),
            (f"{self._bind(date(1970, 1, 1), 'DATE')} > {day}", True),
            (f"{self._bind(date(9999, 12, 31), 'DATE')} > {self._bind(date(2024, 2, 29), 'DATE')}", True),
            (f"{moment} < {self._bind(datetime(1970, 1, 1), 'TIMESTAMP')}", True),
            (early, date(1, 1, 1)),
            (moment, datetime(1969, 12, 31, 23, 59, 59, 999999)),
        ]


def _is_same(found: Any, expected: Any) -> bool:
    """Return whether a value is the expected one: as a truth value, as an integer, or as a double to the bit."""
    if expected is None or isinstance(expected, bool):
        return found is expected
    if isinstance(expected, float):
        return isinstance(found, float) and found == expected
    return bool(found == expected)


# Types in Postgres

_DOUBLE_ENTRY = POSTGRES.only_finite("CAST({0} AS double precision)")
# NaN, infinity and a number beyond doubles, which a conversion would refuse, are missing. A number that is too small
# for doubles is 0.
_NUMERIC_ENTRY = (
    "(CASE WHEN abs({0}) < 1e-307 THEN CAST(0 AS double precision) "
    "WHEN abs({0}) <= 1.7976931348623157e308 THEN CAST({0} AS double precision) END)"
)
_POSTGRES_TYPES = (
    dict.fromkeys(("smallint", "integer", "bigint"), ("BIGINT", "whole", "{}"))
    | dict.fromkeys(("real", "double precision"), ("DOUBLE", "real", _DOUBLE_ENTRY))
    | dict.fromkeys(("text", "character varying", "character", "uuid"), ("VARCHAR", "text", POSTGRES.bytewise))
    | {
        "numeric": ("DOUBLE", "real", _NUMERIC_ENTRY),
        "boolean": ("BOOLEAN", "truth", "{}"),
        "date": ("DATE", "date", "{}"),
        "timestamp without time zone": ("TIMESTAMP", "time", "{}"),
    }
)
"""Our type and kind of a type of Postgres, and the SQL of its entries."""


def postgres_type(name: str, required: bool = False) -> ColumnType:
    """Return the type of Postgres's name for it."""
    plain = re.sub(r"\([\d,-]+\)", "", name)
    known = _POSTGRES_TYPES.get(plain)
    if known is None:
        return ColumnType(name, "other", required)
    ours, kind, entry = known
    return ColumnType(ours, kind, required and kind != "real", entry)


# Tables of DuckDB that are made of files and data frames


Listed = tuple[tuple[str, str], ...]
"""Names and types of the columns of a file."""


# Files


def found_files(given: Any) -> list[Found]:
    """Return the files of a table: of a path, of a folder, or of `dpstats.data.files`."""
    if isinstance(given, FileRows):
        return [Found(_resolve(path), folders) for path, folders in given.found]
    path = Path(given) if "://" not in str(given) else given
    if isinstance(path, Path) and not path.is_dir():
        return [Found(path.resolve(), {})]
    return [Found(_resolve(path), folders) for path, folders in find_files(path)]


def _resolve(path: File) -> File:
    return path.resolve() if isinstance(path, Path) else path


def table_label(given: Any) -> str:
    """Return the public name of the files of a table."""
    if isinstance(given, FileRows):
        return given.found[0].path.name
    return PurePosixPath(str(given).partition("?")[0]).name if "://" in str(given) else Path(given).resolve().name


def parquet_source(connection: Any, found: Sequence[Found]) -> tuple[Listed, str]:
    """Return the columns of Parquet files, and the SQL of their table, in which each column has one type."""
    tables: dict[Any, list[File]] = {}
    for (path, folders), columns in zip(found, parquet_columns(connection, [path for path, _ in found]), strict=True):
        tables.setdefault((columns, tuple(folders.items())), []).append(path)
    headers = [
        (paths[0].name, [name for name, _ in columns.types], dict(folders))
        for (columns, folders), paths in tables.items()
    ]
    check_same_columns(headers)
    described = []
    for (columns, _), paths in tables.items():
        rows = connection.execute(f"DESCRIBE SELECT * FROM {parquet_table(paths, columns)}").fetchall()
        described.append([(str(row[0]), str(row[1])) for row in rows])
    listed = tuple(
        (column[0][0], _common_type(column[0][0], [kind for _, kind in column]))
        for column in zip(*described, strict=True)
    )
    sources = []
    for ((columns, folders), paths), own in zip(tables.items(), described, strict=True):
        table = parquet_table(paths, columns)
        if tuple(own) != listed:
            cast = ", ".join(f"CAST({quoted(name)} AS {kind}) AS {quoted(name)}" for name, kind in listed)
            table = f"(SELECT {cast} FROM {table})"
        sources.append(add_folders(table, [name for name, _ in listed], dict(folders)))
    return listed, sources[0] if len(sources) == 1 else f"({' UNION ALL '.join(sources)})"


def add_folders(table: str, columns: Sequence[str], folders: Mapping[str, str]) -> str:
    """Return the SELECT of a table with the columns that folders name. An empty word is missing."""
    words = [
        f"CAST({text_literal(word) if word else 'NULL'} AS VARCHAR) AS {quoted(name)}" for name, word in folders.items()
    ]
    return f"(SELECT {', '.join([*map(quoted, columns), *words])} FROM {table})"


_SIGNED = ["TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"]
WHOLE = [*_SIGNED, "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"]


def _common_type(name: str, kinds: Sequence[str]) -> str:
    """Return the type of a column of several files, which has the numbers of each of their types."""
    known = dict.fromkeys(kind for kind in kinds if kind != '"NULL"') or dict.fromkeys(kinds)
    if len(known) == 1:
        return next(iter(known))
    if known.keys() <= set(_SIGNED):
        return max(known, key=_SIGNED.index)
    if known.keys() <= set(WHOLE):
        return "HUGEINT"
    if known.keys() <= {*WHOLE, "FLOAT", "DOUBLE"}:
        return "DOUBLE"
    raise refuse_data(
        "X",
        got=f"{' and '.join(sorted(known))} for {show(name)}",
        allowed="have one type of a column, or numbers, in all files",
        remedy="Write the files with the same types.",
    )


def file_identity(path: Path) -> tuple[int, ...]:
    reason = "does not exist"
    try:
        found = os.stat(path)
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
    except OSError as error:
        reason = error.strerror or reason
    raise InvalidData(f"{path.name} cannot be read ({reason})")


def check_different_names(where: str, names: Iterable[Any]) -> None:
    """Refuse columns that differ in case only: a query could not say which of them it means."""
    known: set[str] = set()
    for name in names:
        if fold(name) in known:
            raise InvalidData(f"{where}: two columns are named {str(name)!r} (names ignore case). Rename one.")
        known.add(fold(name))


# Data frames


def frame_forms(given: Any) -> Iterator[Any]:
    """Yield a data frame unchanged, and as a pandas data frame, because DuckDB needs pyarrow for others."""
    yield given
    with contextlib.suppress(Exception):
        import narwhals as nw
        import pandas as pd

        frame = nw.from_native(given).lazy().collect()
        # The declared types, because pandas would guess them from the rows.
        kinds = {
            name: "Int64"
            if kind.is_integer()
            else "float64"
            if kind.is_float()
            else "boolean"
            if kind == nw.Boolean
            else object
            for name, kind in frame.schema.items()
        }
        columns = frame.to_dict(as_series=False)
        yield pd.DataFrame({name: pd.Series(columns[name], dtype=kind) for name, kind in kinds.items()})


def copy_frame(connection: Any, table: str, frame: Any) -> dict[str, str] | None:
    """Make a table of a data frame, and return the types of its columns, or None if DuckDB cannot read it."""
    with contextlib.suppress(Exception):
        connection.register("dpstats frame", frame)
        described = connection.execute('DESCRIBE SELECT * FROM "dpstats frame"').fetchall()
        columns = [str(row[0]) for row in described]
        # Name a column without a name as in a file: DuckDB names it differently.
        given = [name or f"column {place}" for place, name in enumerate(map(str, column_names(frame) or ()), 1)]
        names = given if len(given) == len(columns) else columns
        # Categories become text, because the type of an ENUM lists its values, and so do columns without a value.
        kinds = {
            name: "VARCHAR" if row[1].startswith("ENUM") or row[1] == '"NULL"' else str(row[1])
            for name, row in zip(names, described, strict=True)
        }
        listed = ", ".join(
            f"{f'CAST({quoted(column)} AS VARCHAR)' if kinds[name] == 'VARCHAR' else quoted(column)} AS {quoted(name)}"
            for name, column in zip(names, columns, strict=True)
        )
        connection.execute(f'CREATE TABLE {table} AS SELECT {listed} FROM "dpstats frame"')
        connection.unregister("dpstats frame")
        return kinds
    return None
