"""Out-of-core rows that DuckDB reads: of relations, Parquet files, and text whose records were verified.

Every number is cast to DOUBLE independently. Error messages of DuckDB may quote rows, so they are not passed on.
"""

from __future__ import annotations

import base64
import os
import re
import struct
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, lru_cache, partial
from importlib.util import find_spec
from io import BytesIO
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np

from dpstats.data.batches import Beside, Engine, Part, Work, chosen_columns, refusal
from dpstats.data.columns import WORDS
from dpstats.data.rows import Integers, added
from dpstats.data.values import NO_NUMBER, Words, number_sql
from dpstats.errors import InvalidData, refuse_data, show

Ask = Callable[[str], Sequence[Sequence[Any]]]
"""SQL -> its rows, on a connection of DuckDB."""

_DURATION = 18  # in Arrow's union of types


def is_parquet(path: File) -> bool:
    """Return whether a file is Parquet, by its name."""
    return path.suffix.lower() in (".parquet", ".pq")


class Address:
    """A file or a folder at an address, such as ``s3://bucket/rows.parquet``.

    Attributes
    ----------
    url : str
    place : str
        The address as its library names it: the whole of it for ``https``, and without the scheme for ``s3``.
    files : fsspec file system, or None where DuckDB's extension httpfs reads it
    path : PurePosixPath
        Folders and name, without the query behind them.
    name, suffix, suffixes
        See `pathlib.PurePath`. No message shows more than the name, because an address may hold a password.
    """

    def __init__(self, url: str, place: str, files: Any) -> None:
        self.url, self.place, self.files = url, place, files
        path = place.partition("?")[0].replace("://", "/")
        self.path = PurePosixPath(unquote(path) if self.is_page else path)
        self.name, self.suffix, self.suffixes = self.path.name, self.path.suffix, self.path.suffixes

    @classmethod
    def parse(cls, url: str) -> Address | Path:
        """Return the address, or a path if it is one of this machine."""
        scheme, _, rest = url.partition("://")
        with suppress(ImportError, ValueError):
            from fsspec.core import url_to_fs

            files, place = url_to_fs(url)
            if "file" in ((files.protocol,) if isinstance(files.protocol, str) else files.protocol):
                return Path(place)
            return cls(url, place, files)
        if scheme in ("s3", "gs", "gcs", "r2", "http", "https", "hf") and _has_httpfs():
            return cls(url, rest, None)
        raise refuse_data(
            "X",
            got=f"one of {scheme!r}",
            allowed="an address that fsspec or DuckDB's httpfs reads",
            remedy=f"Install the package of fsspec for {scheme!r} (s3fs for 's3'), or let DuckDB fetch what reads it: "
            f"X = duckdb.sql(\"FROM '{scheme}://...'\").",
        )

    def find(self, pattern: bool) -> list[Address]:
        """Return the files below this folder, or the files of this pattern, sorted by name."""
        if not self.is_page:
            find = self.files.glob if pattern else partial(self.files.find, withdirs=False)
            places = sorted(self.ask(lambda: find(self.place)))
            return [Address(self.files.unstrip_protocol(place), place, self.files) for place in places]
        # A page is listed by its links, which may also lead to the same page in another order.
        root = re.split(r"[^/]*[*\[?]" if pattern else r"[?]", self.place)[0]
        places = [place for place in sorted(self.ask(lambda: self.files.find(root))) if "?" not in place]
        if pattern:
            from fsspec.utils import glob_translate

            # Servers write the special characters of names in different ways.
            wanted = re.compile(glob_translate(unquote(self.place)))
            places = [place for place in places if wanted.match(unquote(place))]
        return [Address(place, place, self.files) for place in places]

    @property
    def is_page(self) -> bool:
        """Whether this is a page of the web, which is listed by the links in it."""
        return self.place.startswith(("http://", "https://"))

    def open(self) -> Any:
        """Return the file, open for reading."""
        if self.files is None:
            raise refuse_data(
                "X", allowed="Parquet at an address that fsspec does not read", remedy="Install fsspec's package."
            )
        return self.ask(lambda: self.files.open(self.place, "rb"))

    def is_file(self) -> bool:
        """Return whether the file exists, or True where only DuckDB can find it."""
        return self.files is None or bool(self.ask(lambda: self.files.isfile(self.place)))

    def ask(self, query: Callable[[], Any]) -> Any:
        """Return the answer of the library. Its errors may show the address."""
        try:
            return query()
        except MemoryError:
            raise
        except Exception as error:
            failure = type(error).__name__
        raise refuse_data("X", got=f"a {failure}", allowed=f"an address that can be read ({self.name})")

    def __str__(self) -> str:
        return self.url

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Address) and other.url == self.url

    def __hash__(self) -> int:
        return hash(self.url)


File = Path | Address


def _has_httpfs() -> bool:
    """Return whether DuckDB's extension for addresses is installed."""
    if find_spec("duckdb") is None:
        return False
    installed = "SELECT installed FROM duckdb_extensions() WHERE extension_name = 'httpfs'"
    connection = connect([])
    return bool(connection.execute(installed).fetchall()[0][0])


class ParquetColumns(NamedTuple):
    """Public facts of the header of a Parquet file.

    Attributes
    ----------
    types : tuple of (str, str)
        Names and types of the columns.
    durations : tuple of str
        Columns that are durations.
    """

    types: tuple[tuple[str, str], ...]
    durations: tuple[str, ...]


def parquet_columns(connection: Any, paths: Sequence[File]) -> list[ParquetColumns]:
    """Return the columns of each of several Parquet files. This raises the errors of DuckDB.

    Parquet has no type for durations: other programs write whole numbers, and the type as metadata that DuckDB
    ignores.

    Raises
    ------
    InvalidData
        If two columns have the same name, or names that DuckDB does not distinguish.
    """
    for path in paths:
        if not path.is_file():
            raise refuse_data("X", got=repr(str(path)) if isinstance(path, Path) else None, allowed="an existing file")
    ask, found = _ask(connection), []
    listed = f"[{', '.join(map(file_literal, paths))}]"
    schema = (
        "SELECT file_name, name, type, repetition_type, converted_type, num_children, logical_type, duckdb_type "
        f"FROM parquet_schema({listed})"
    )
    headers: dict[str, list[Any]] = {}
    for name, *row in ask(schema):
        headers.setdefault(name, []).append(tuple(row))
    if len(headers) < len(paths):
        raise refuse_data("X", allowed="name each file once")
    metadata = f"SELECT file_name, value FROM parquet_kv_metadata({listed}) WHERE decode(key) = 'ARROW:schema'"
    durations = {name: tuple(_duration_names(value)) for name, value in ask(metadata)}
    known: dict[Any, ParquetColumns] = {}
    for path, (name, header) in zip(paths, headers.items(), strict=True):
        key = tuple(header), durations.get(name, ())
        if key not in known:
            known[key] = _described_columns(ask, path, header, durations.get(name, ()))
        found.append(known[key])
    return found


def _described_columns(ask: Ask, path: File, header: Sequence[Any], durations: Sequence[str]) -> ParquetColumns:
    described = ask(f"DESCRIBE SELECT * FROM {_reader([path])}")
    types = tuple((str(row[0]), str(row[1])) for row in described)
    names, stored = [name for name, _ in types], list(_stored_names(header))
    if names != stored:
        changed = next((old for old, new in zip(stored, names, strict=False) if old != new), "")
        raise refuse_data(
            path.name,
            got=f"{changed!r} twice (names ignore case)",
            allowed="have different names of columns",
            remedy="Rename one of them.",
        )
    return ParquetColumns(types, tuple(name for name in durations if name in names))


def _reader(paths: Sequence[File]) -> str:
    listed = ", ".join(map(file_literal, paths))
    return f"read_parquet([{listed}], hive_partitioning=false, union_by_name=false)"


def parquet_table(paths: Sequence[File], columns: ParquetColumns) -> str:
    """Return the SQL of the table in Parquet files, which have the same columns.

    Durations become intervals, which no estimator takes for numbers.
    """
    if not columns.durations:
        return _reader(paths)
    made = ", ".join(f"to_microseconds({quote_name(name)}) AS {quote_name(name)}" for name in columns.durations)
    return f"(SELECT * REPLACE ({made}) FROM {_reader(paths)})"


_CHILDREN = 4
"""Place of the number of nested columns in a row of DuckDB's parquet_schema, after the name of the file."""


def _stored_names(header: Sequence[Any]) -> Iterator[str]:
    """Yield the names of the columns, as the file has them."""
    left = 0
    for row in header[1:]:
        if not left:
            yield str(row[0])
        left = max(left - 1, 0) + int(row[_CHILDREN] or 0)  # parts of a nested column


def _duration_names(value: bytes) -> Iterator[str]:
    """Yield the names of the columns that Arrow's schema declares as durations."""
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
        Whether a part of `dpstats.data.values.FOREIGN` occurs below the first line.
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


def file_literal(path: File) -> str:
    """Return the SQL literal of the one file with this path: none of its characters is a pattern or a protocol.

    Raises
    ------
    InvalidData
        If the path has a backslash next to a pattern character, because DuckDB cannot read such a name literally.
    """
    if isinstance(path, Address) and path.files is None:
        return text_literal(path.url)
    name = str(path) if isinstance(path, Address) else os.path.abspath(path)
    if "\\" in name and set("[]*?") & set(name):
        raise refuse_data(
            "X",
            got=repr(str(path)),
            allowed="the path of a file without a backslash beside one of []*?",
            remedy="Rename the file.",
        )
    special = "[]*" if isinstance(path, Address) and path.is_page else "[]*?"
    escaped = "".join(f"[{letter}]" if letter in special else letter for letter in name)
    return text_literal(escaped)


# Rows


_NUMBERS = ("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL")
_UNSIGNED = ("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT")
_KINDS = {
    "TEXT": WORDS,
    "VARCHAR": "text",
    "ENUM(": "text",
    "DATE": "time",
    "TIMESTAMP": "time",
    "INTERVAL": "duration",
}
_NO_TYPE = '"NULL"'
"""Type of a column of Parquet that was written without an entry."""
_ENTRIES = 1 << 20  # of a block
_NAMES = "coalesce isfinite sum count count_star greatest least + - * / // >> < > <= >= = ||"
FUNCTIONS = frozenset(_NAMES.split())
"""Functions and operators that this package uses in SQL on a user's connection."""
_VECTOR = 2048  # rows of a chunk of DuckDB's


@dataclass(frozen=True, eq=False, repr=False)
class DuckRows(Engine):
    """Rows that DuckDB reads.

    Attributes
    ----------
    count : callable
        ``count()`` returns the number of rows without reading an entry.
    source : callable
        ``source(expressions)`` returns an iterator over blocks of rows, tuples of their values or 2-d arrays.
    aggregate : callable
        ``aggregate(expressions, of)`` returns the only row of a query: see `Engine.aggregates`.
    types : dict
        Public types of the columns, by name.
    columns, beside
        See `Engine`.
    """

    count: Callable[[], int]
    source: Callable[[Sequence[str], int], Iterator[Any]]
    aggregate: Callable[[Sequence[str], Sequence[str]], Sequence[Any]]
    types: dict[str, str]
    columns: list[str]
    beside: tuple[str, ...] = ()

    @cached_property
    def shape(self) -> tuple[int, int]:
        return int(_asked(self.count)), len(self.columns)

    def having(self, columns: Sequence[str] | None, beside: Beside = None) -> DuckRows:
        chosen, others = chosen_columns(list(self.types), columns, beside)
        return replace(self, columns=chosen, beside=others)

    def kind(self, name: Any) -> str | None:
        if self.is_number(name):
            return "number"
        declared = self.types[name]
        kinds = [kind for start, kind in _KINDS.items() if declared.startswith(start)]
        return kinds[0] if kinds and not declared.endswith("]") else None

    def expression(self, column: int) -> str:
        name = self.columns[column]
        kind = self.types[name]
        if not self.is_number(name) and kind != _NO_TYPE:
            raise refuse_data(
                "X",
                got=f"a column {name!r} of the type {kind.partition('(')[0]}",
                allowed="a 2-d table of numbers",
                remedy="Project the relation, or cast the column.",
            )
        return f"CAST({quote_name(name)} AS DOUBLE)"

    def is_number(self, name: str) -> bool:
        """Return whether the type of a column is numeric."""
        kind = self.types[name]
        return kind.startswith((*_NUMBERS, *_UNSIGNED)) and not kind.endswith("]")

    def frame(self) -> Any:
        """Return the rows as a pandas data frame, with numbers as float64 and additional columns as objects."""
        import pandas as pd

        parts = self.collect()
        found = {name: np.concatenate([part.X[:, j] for part in parts]) for j, name in enumerate(self.columns)}
        for j, name in enumerate(self.beside):
            entries = [entry for part in parts for entry in list(part.beside[j])]
            found[name] = np.empty(len(entries), dtype=object)
            found[name][:] = entries
        return pd.DataFrame(found)

    def aggregates(self, expressions: Sequence[str], of: Sequence[str]) -> list[int]:
        *row, seen = _asked(lambda: self.aggregate([*expressions, "count(*)"], of))
        self.check_count(int(seen))
        return [0 if value is None else int(value) for value in row]

    def total(self, work: Work) -> dict[str, Integers]:
        expressions = [self.expression(j) for j in range(len(self.columns))]
        expressions += [sql for name in self.beside for sql in self._entry_and_gap(name)]
        total: dict[str, Integers] = {}
        seen = 0
        d = len(self.columns)
        blocks = self.source(expressions, max(_VECTOR, _ENTRIES // max(1, len(expressions))))
        while (block := _asked(lambda: next(blocks, None))) is not None:
            X = np.empty((len(block[0]), d), dtype=np.float64)
            for j in range(d):
                X[:, j] = block[j]
            seen += len(X)
            added(total, work(Part(X, self._others(block))))
        if not total:
            added(total, work(Part(np.empty((0, d)), self._others([[]] * len(expressions)))))
        self.check_count(seen)
        return total

    def _entry_and_gap(self, name: str) -> list[str]:
        """Return the SQL of an additional column in its own type, and of its missing entries."""
        # Integers would become floats if one of them is missing. One row would then change how others are read.
        kind = self.types[name]
        if kind == TEXT:
            return [f"coalesce({quote_name(name)}, '')", "FALSE"]
        if kind.startswith(("BOOLEAN", *_UNSIGNED, "TINYINT", "SMALLINT", "INTEGER", "BIGINT")):
            zero = "FALSE" if kind == "BOOLEAN" else "0"
            return [f"coalesce({quote_name(name)}, {zero})", f"{quote_name(name)} IS NULL"]
        return [quote_name(name), f"{quote_name(name)} IS NULL"]

    def _others(self, block: Sequence[Any]) -> list[Any]:
        """Return the additional columns of a block, with None for missing entries."""
        found: list[Any] = []
        pairs = block[len(self.columns) :]
        for name, values, missing in zip(self.beside, pairs[::2], pairs[1::2], strict=True):
            if self.types[name] == TEXT:
                found.append(Words(values))
            elif any(list(missing)):
                both = zip(list(values), list(missing), strict=True)
                found.append([None if absent else value for value, absent in both])
            else:
                found.append(values)
        return found


def _asked(ask: Callable[[], Any]) -> Any:
    """Run a query of DuckDB. Replace its errors, because their messages may quote rows."""
    try:
        return ask()
    except InvalidData:
        raise
    except Exception as error:
        is_word = re.search(rf"(, column '[^\n]*')?: {NO_NUMBER}", str(error))
    raise InvalidData(f"X{is_word[1] or ''}: {NO_NUMBER}. {CHOOSE_COLUMNS}") if is_word else refusal()


CHOOSE_COLUMNS = "Leave the column out: name the columns in bounds={...}, or pass a data frame of the numeric ones."


def _error_sql(name: str) -> str:
    """Return the SQL of an error that names a column of text, and no entry."""
    words = f", column {show(name)}: {NO_NUMBER}".replace("'", "''")
    return f"error('{words}')"


TEXT = "TEXT"
"""Type of a column of delimited text. The words may be numbers or labels."""


def _numbered(expressions: Sequence[str]) -> str:
    """Return the list of a SELECT with generated names."""
    return ", ".join(f"{sql} AS c{j}" for j, sql in enumerate(expressions))


def check_duckdb() -> None:
    """Raise an error for an untested version of DuckDB: older versions answer some queries differently."""
    import duckdb

    found = str(duckdb.__version__)
    if int(found.partition(".")[0]) < 2:
        raise InvalidData(f"dpstats needs DuckDB 2.0 or newer, got DuckDB {found}: pip install 'dpstats[sql]'")


def of_relation(relation: Any) -> DuckRows:
    """Return the rows of a relation. Each pass runs it again."""
    check_duckdb()
    types = {str(name): str(kind) for name, kind in zip(relation.columns, relation.types, strict=True)}
    if len(types) < len(relation.columns):
        raise refuse_data("X", allowed="have a different name for every column")

    def source(expressions: Sequence[str], rows: int) -> Iterator[Any]:
        _check_functions(relation)
        asked = relation.project(_numbered(expressions))
        if find_spec("pyarrow") is not None:
            for batch in asked.to_arrow_reader(rows):
                yield [_array_of(column) for column in batch.columns]
            return
        # Without pyarrow, read numbers of Python, which takes ten times as long.
        values = asked.iter_rows()
        while block := list(islice(values, rows)):
            yield [_floats(column) for column in zip(*block, strict=True)]

    def aggregate(expressions: Sequence[str], of: Sequence[str]) -> Sequence[Any]:
        _check_functions(relation)
        found: Sequence[Any] = relation.project(_numbered(of)).aggregate(", ".join(expressions)).fetchall()[0]
        return found

    def count() -> int:
        return int(aggregate(["count(*)"], ["1"])[0])

    return DuckRows(count, source, aggregate, types, list(types))


def _check_functions(relation: Any) -> None:
    """Raise an error if the connection overrides functions that this package uses, such as a clip without effect."""
    name = overridden(lambda sql: relation.query("dpstats_relation", sql).fetchall(), FUNCTIONS)
    if name is not None:
        raise refuse_data(
            "The connection of X",
            got=f"a macro or a Python function {name!r}",
            allowed="not redefine a function that sums use",
            remedy="Remove it, or open another connection.",
        )


def supports_duckdb() -> bool:
    """Return whether the installed version of DuckDB is supported."""
    with suppress(InvalidData):
        check_duckdb()
        return True
    return False


def of_parquet(path: Path) -> DuckRows:
    """Return the rows of a Parquet file."""
    connection = connect([path])
    return read_tables(connection, [path], _asked(lambda: parquet_columns(connection, [path])[0]))


def read_tables(connection: Any, paths: Sequence[File], columns: ParquetColumns) -> DuckRows:
    """Return the rows of Parquet files with the same columns."""
    return _of_table(connection, parquet_table(paths, columns))


def of_text(
    path: Path, names: Sequence[str], numbers: Collection[str], separator: str, seen: Scan, connection: Any = None
) -> DuckRows:
    """Return the rows of delimited text with these columns, which `scan` found plain. Some columns are numbers."""
    reader = text_reader(path, names, separator, seen)
    # Use a subquery, so that each number is computed only once.
    entries = ", ".join(
        f"{number_sql(quote_name(name), _error_sql(name), guarded=seen.foreign)} AS {quote_name(name)}"
        if name in numbers
        else quote_name(name)
        for name in names
    )
    types = {name: "DOUBLE" if name in numbers else TEXT for name in names}
    shared = connect([]) if connection is None else connection
    return _of_table(shared, f"(SELECT {entries} FROM {reader})", types, lambda: seen.n_rows)


def connect(paths: Sequence[File]) -> Any:
    """Return a connection that sees no variable of Python, and reads some files."""
    if find_spec("duckdb") is None:
        raise InvalidData("X is a Parquet file, which needs DuckDB: pip install 'dpstats[sql]'")
    check_duckdb()
    import duckdb

    connection = duckdb.connect(config={"python_enable_replacements": False})
    add_libraries(connection, paths)
    return connection


def add_libraries(connection: Any, paths: Sequence[File]) -> None:
    """Let a connection read addresses."""
    known: list[Any] = []
    for path in paths:
        if isinstance(path, Address) and path.files is None and not known:
            _asked(lambda: connection.execute("LOAD httpfs"))
        elif isinstance(path, Address) and path.files is not None and path.files not in known:
            known.append(path.files)
            connection.register_filesystem(_readable(path.files) if path.is_page else path.files)


def _readable(pages: Any) -> Any:
    """Return a library of web pages that has what DuckDB asks for: a time of change, and parts of every file."""
    own = type(pages)(*pages.storage_args, **pages.storage_options, skip_instance_cache=True)

    def open_whole(path: str, *given: Any, **options: Any) -> Any:
        # Many servers send parts of a file. From the others, the whole file is read into memory.
        if pages.info(path).get("partial"):
            return pages._open(path, *given, **options)
        return BytesIO(pages.cat_file(path))

    own.modified, own._open = lambda path: datetime.fromtimestamp(0, UTC), open_whole
    return own


def _ask(connection: Any) -> Callable[[str], Sequence[Sequence[Any]]]:
    return lambda sql: connection.execute(sql).fetchall()


def _of_table(
    connection: Any, table: str, types: dict[str, str] | None = None, known: Callable[[], int] | None = None
) -> DuckRows:
    """Return the rows of a table. Types and the number of rows are given or queried."""
    ask = _ask(connection)
    if types is None:
        columns = _asked(lambda: ask(f"DESCRIBE SELECT * FROM {table}"))
        types = {str(row[0]): str(row[1]) for row in columns}

    def source(expressions: Sequence[str], rows: int) -> Iterator[Any]:
        cursor = connection.cursor()
        cursor.execute(f"SELECT {_numbered(expressions)} FROM {table}")
        while len(frame := cursor.fetch_df_chunk(max(1, rows // _VECTOR))):
            yield [_array_of(frame[name]) for name in frame.columns]

    def aggregate(expressions: Sequence[str], of: Sequence[str]) -> Sequence[Any]:
        asked = f"SELECT {', '.join(expressions)} FROM (SELECT {_numbered(of)} FROM {table})"
        return ask(asked)[0]

    def count() -> int:
        return int(ask(f"SELECT count(*) FROM {table}")[0][0])

    return DuckRows(known or count, source, aggregate, types, list(types))


def _array_of(column: Any) -> Any:
    """Return a column of a block: numbers as an array with NaN for missing entries, and others as a list."""
    kind = str(getattr(column, "type", getattr(column, "dtype", "")))
    if kind in ("double", "float64"):
        values = column.to_numpy(zero_copy_only=False) if hasattr(column, "type") else column.to_numpy()
        return np.asarray(values, dtype=np.float64)
    return column.to_pylist() if hasattr(column, "to_pylist") else column.tolist()


def _floats(column: Sequence[Any]) -> Any:
    plain = all(type(value) in (float, type(None)) for value in column)
    return np.array(column, dtype=np.float64) if plain else list(column)


# The query does not depend on the search path. A macro of another schema counts, too.
_LISTED = (
    "SELECT lower(function_name), internal IS FALSE, CAST(parameter_types AS VARCHAR) "
    "FROM system.main.duckdb_functions() WHERE lower(function_name) IN ({})"
)

# DuckDB's extensions add operators of these types, which no statement of this package uses.
_OF_EXTENSIONS = ("TIME ZONE", "INTERVAL")

Signatures = frozenset[tuple[str, bool, str]]


def overridden(ask: Callable[[str], Sequence[Sequence[Any]]], names: Collection[str]) -> str | None:
    """Return a function of ``names`` that the connection overrides, or None.

    A macro is marked as not internal. A function registered from Python is marked as internal, but has parameter types
    that the built-in function does not have.

    Parameters
    ----------
    ask : callable
        SQL -> its rows, on the connection.
    names : collection of str
        Names of functions, in lower case.
    """
    asked = _LISTED.format(", ".join(f"'{name}'" for name in sorted(names)))
    added = {
        name
        for name, own, types in _signatures(ask(asked)) - _built_in(asked)
        if own or not any(kind in types for kind in _OF_EXTENSIONS)
    }
    return min(added, default=None)


def _signatures(rows: Sequence[Sequence[Any]]) -> Signatures:
    return frozenset((str(name), bool(own), str(types)) for name, own, types in rows)


@lru_cache(maxsize=4)
def _built_in(asked: str) -> Signatures:
    """Return the functions of a new connection."""
    import duckdb

    with duckdb.connect(":memory:") as connection:
        return _signatures(connection.execute(asked).fetchall())
