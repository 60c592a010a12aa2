"""Random tables of what people type and what programs compute, and the meaning of every entry."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any

from dpstats.data.values import MISSING_WORDS

TEXTS = [
    "north", "x y", "", " ", "NA", "null", "None", "nan", "1,000", "1.000,5", "007", "1.0", "1_0", "0x10", "=1+1",
    "inf", "true", "FALSE", "2026-01-31", "a,b", "a;b", "a\tb", 'say "no"', '"', '""', "it's", "\r", "x\rnorth",
    "größe", "--", "x\r1,north\r", "\n", "x\nnorth", "x\n1,north\n", "\r\n", "x\r\nnorth", "\0", "\ufeffx", "\u2028",
    "\x85", "\x1c", "C:\\temp", "😀", "#", "x" * 10_000, "\rnorth" * 300, "\n1,north" * 300,
]  # fmt: skip
ESCAPES = ["\\", "C:\\", 'x\\"', 'a",1\n', 'a",1\n"b', "x\\\nnorth", 'x\\",north\n"']
FLOATS = [
    0.0, -0.0, 1.0, 20.0, 20.5, -999.0, 1e-310, 5e-324, 1.7976931348623157e308, 9007199254740992.0, 0.1, 1 / 3, 1e22,
    math.inf, -math.inf, math.nan,
]  # fmt: skip
INTEGERS = [0, 1, -1, 7, 20, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)]
DECIMALS = [Decimal("0.10"), Decimal("-2.5"), Decimal("1000.00"), Decimal("0.00")]
NAMES = [
    "age", "", " x", "y ", "select", "a b", 'q"q', "it's", "Größe", "x,y", "x;y", "1", "count(*)", "a\nb", "AGE",
    "group",
]  # fmt: skip
KINDS = ("text", "text", "float", "integer", "truth", "decimal")
MISSING = "missing"


@dataclass(frozen=True)
class TableCase:
    """A table: names, the kind of every column, and records of entries of Python, None for a missing one."""

    names: list[str]
    kinds: list[str]
    records: list[list[Any]]
    levels: list[str]

    def change(self, place: int, record: list[Any]) -> TableCase:
        """Return the neighboring table, with another record in one place."""
        records = list(self.records)
        records[place] = record
        return TableCase(self.names, self.kinds, records, self.levels)

    @property
    def has_backslashes(self) -> bool:
        """Whether an entry has a backslash."""
        return any(isinstance(entry, str) and "\\" in entry for record in self.records for entry in record)

    def meaning(self) -> list[tuple[Any, ...]]:
        """Return what every record means: the text of a number, the place of a level, or missing."""
        return [
            tuple(self._entry(kind, entry) for kind, entry in zip(self.kinds, record, strict=True))
            for record in self.records
        ]

    def _entry(self, kind: str, entry: Any) -> Any:
        if kind == "text":
            return self.levels.index(entry) if entry in self.levels else -1
        if entry is None or not math.isfinite(entry):
            return MISSING
        return repr(float(entry) + 0.0)


def draw_entry(draw: Random, kind: str) -> Any:
    """Return an entry of a column."""
    if draw.random() < 0.1:
        return None
    if kind == "text":
        if draw.random() < 0.01:
            return draw.choice(ESCAPES)
        return draw.choice(TEXTS) if draw.random() < 0.9 else draw.choice(TEXTS) + draw.choice(TEXTS)
    if kind == "float":
        return draw.choice(FLOATS) if draw.random() < 0.5 else draw.uniform(-100, 100)
    if kind == "integer":
        return draw.choice(INTEGERS) if draw.random() < 0.5 else draw.randint(-1000, 1000)
    return draw.random() < 0.5 if kind == "truth" else draw.choice(DECIMALS)


def draw_table(draw: Random) -> TableCase:
    """Return a table of 1 to 60 records and 1 to 6 columns."""
    width = draw.choice([1, 2, 2, 3, 3, 4, 6])
    n = draw.choice([1, 2, 3, 5, 12, 60])
    names = [f"c{place}" for place in range(width)]
    if draw.random() < 0.3:  # names that DuckDB distinguishes, except in a few tables
        names = [draw.choice(NAMES) if draw.random() < 0.5 else name for name in names]
    kinds = [draw.choice(KINDS) for _ in range(width)]
    records = [[draw_entry(draw, kind) for kind in kinds] for _ in range(n)]
    # Levels that are words, and not all of them numbers: numbers are compared by value.
    words = {entry for record in records for entry in record if isinstance(entry, str)} - MISSING_WORDS
    known = sorted(words - {"", " "})
    levels = ["north", *draw.sample(known, min(len(known), 3))]
    return TableCase(names, kinds, records, list(dict.fromkeys(levels)))


def draw_record(draw: Random, table: TableCase) -> list[Any]:
    """Return another record of the same columns."""
    return [draw_entry(draw, kind) for kind in table.kinds]
