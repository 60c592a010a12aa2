"""Out-of-core rows that DuckDB reads: of relations, Parquet files, and text whose records were verified.

Every number is cast to DOUBLE independently. Error messages of DuckDB may quote rows, so they are not passed on.
"""

from __future__ import annotations

import base64
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dpstats.errors import refuse_data

Ask = Callable[[str], Sequence[Sequence[Any]]]
"""SQL -> its rows, on a connection of DuckDB."""

_DURATION = 18  # in Arrow's union of types


def is_parquet(path: Path) -> bool:
    """Return whether a file is Parquet, by its name."""
    return path.suffix.lower() in (".parquet", ".pq")


def parquet_table(ask: Ask, path: Path) -> str:
    """Return the SQL of the table in a Parquet file, from public facts of its header.

    Parquet has no type for durations: other programs write whole numbers, and the type as metadata that DuckDB
    ignores. They become intervals here, which no estimator takes for numbers.

    Raises
    ------
    InvalidData
        If two columns have the same name, or names that DuckDB does not distinguish.
    """
    reader = f"read_parquet({file_literal(path)}, hive_partitioning=false)"
    names = [str(row[0]) for row in ask(f"DESCRIBE SELECT * FROM {reader}")]
    stored = list(_stored_names(ask, path))
    if names != stored:
        changed = next((old for old, new in zip(stored, names, strict=False) if old != new), "")
        raise refuse_data(
            path.name,
            got=f"{changed!r} twice (names ignore case)",
            allowed="have different names of columns",
            remedy="Rename one of them.",
        )
    durations = [name for name in _duration_names(ask, path) if name in names]
    if not durations:
        return reader
    made = ", ".join(f"to_microseconds({quote_name(name)}) AS {quote_name(name)}" for name in durations)
    return f"(SELECT * REPLACE ({made}) FROM {reader})"


def _stored_names(ask: Ask, path: Path) -> Iterator[str]:
    """Yield the names of the columns, as the file has them."""
    schema = f"SELECT name, coalesce(num_children, 0) FROM parquet_schema({file_literal(path)})"
    left = 0
    for name, children in ask(schema)[1:]:
        if not left:
            yield str(name)
        left = max(left - 1, 0) + int(children)  # parts of a nested column


def _duration_names(ask: Ask, path: Path) -> Iterator[str]:
    """Yield the names of the columns that Arrow's schema, if the file has one, declares as durations."""
    metadata = (
        f"SELECT value FROM parquet_kv_metadata({file_literal(path)}) WHERE decode(key) = 'ARROW:schema'"
    )
    for (value,) in ask(metadata):
        message = base64.b64decode(value)
        start = 8 if message.startswith(b"\xff\xff\xff\xff") else 4
        schema = _Flat(message, start).follow().slot(2).follow()
        for field in schema.slot(1).follow().items():
            if field.slot(2).byte() == _DURATION:
                yield field.slot(0).follow().text()


class _Flat:
    """A place in a flatbuffer, in which Arrow stores a schema."""

    def __init__(self, buffer: bytes, place: int) -> None:
        self._buffer, self._place = buffer, place

    def _number(self, kind: str, place: int) -> int:
        return int(struct.unpack_from(f"<{kind}", self._buffer, place)[0])

    def follow(self) -> _Flat:
        """Return the place to which an offset at this place leads."""
        return _Flat(self._buffer, self._place + self._number("I", self._place))

    def slot(self, number: int) -> _Flat:
        """Return the place of a field of the table at this place."""
        layout = self._place - self._number("i", self._place)
        return _Flat(self._buffer, self._place + self._number("H", layout + 4 + 2 * number))

    def items(self) -> Iterator[_Flat]:
        """Yield the tables of the vector at this place."""
        for item in range(self._number("I", self._place)):
            yield _Flat(self._buffer, self._place + 4 + 4 * item).follow()

    def byte(self) -> int:
        """Return the byte at this place."""
        return self._buffer[self._place]

    def text(self) -> str:
        """Return the text at this place."""
        start = self._place + 4
        return self._buffer[start : start + self._number("I", self._place)].decode()


class Scan(NamedTuple):
    """Properties of the bytes of a text that determine its readers.

    Attributes
    ----------
    plain : bool
        Whether every record was verified to be one that DuckDB reads as `read_delimited` does. False for text that
        must be refused, for bytes that are not UTF-8, and for carriage returns that end no line.
    n_rows : int
        Number of records below the first line.
    packed : bool
        Whether the text is compressed by gzip.
    quoted : bool
        Whether a quote occurs.
    foreign : bool
        Whether a part of `dpstats.data.words.FOREIGN` occurs below the first line.
    """

    plain: bool
    n_rows: int = 0
    packed: bool = False
    quoted: bool = False
    foreign: bool = False


def text_reader(path: Path, names: Sequence[str], separator: str, seen: Scan) -> str:
    """Return the SQL of the table of a plain text file. Every column is text, and an empty entry is NULL.

    All types are declared, so that no row changes how others are read. A thread that begins within quotes would have
    to guess where a record begins, so that one thread reads a file with quotes.
    """
    columns = ", ".join(f"{text_literal(name)}: 'VARCHAR'" for name in names)
    return (
        f"read_csv({file_literal(path)}, auto_detect=false, header=true, delim={text_literal(separator)}, quote='\"', "
        f"escape='\"', columns={{{columns}}}, hive_partitioning=false, parallel={str(not seen.quoted).lower()}, "
        f"compression='{'gzip' if seen.packed else 'none'}')"
    )


def quote_name(name: str) -> str:
    """Return a name as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def text_literal(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def file_literal(path: Path) -> str:
    """Return the SQL literal of the one file with this path: none of its characters is a pattern or a protocol.

    Raises
    ------
    InvalidData
        If the path has a backslash next to a pattern character, because DuckDB cannot read such a name literally.
    """
    name = os.path.abspath(path)
    if "\\" in name and set("[]*?") & set(name):
        raise refuse_data(
            "X",
            got=repr(str(path)),
            allowed="the path of a file without a backslash beside one of []*?",
            remedy="Rename the file.",
        )
    escaped = "".join(f"[{letter}]" if letter in "[]*?" else letter for letter in name)
    return text_literal(escaped)
