"""Rows of delimited text, such as a CSV file: from a stream, or from a file by its path.

`_Records` defines the records, and `_Store` the rows. The line ending of the header line, which is public, is the only
one that ends a record below it. Quotes follow RFC 4180. So a record that a program wrote is one row, for every text in
its entries. Another line ending outside quotes is part of an entry.

A file with a record that could be read in two ways is refused:

* a record with more or fewer entries than names;
* a quote within an unquoted entry;
* a carriage return outside quotes that precedes no line feed, if one before a line feed ends the header line;
* a backslash before a quote or at the end of an entry, because some programs write one before a quote, a separator or a
  line ending within an entry.

DuckDB reads files several times as fast. `scan` verifies the records of a file first, and DuckDB gets only files whose
records it cannot read differently.

Memory is limited to a block. Rows beyond `_IN_MEMORY` are stored in a temporary file, which has no name and disappears
with the process. A row never depends on another, because no type is guessed from a column. An unusable entry is never
shown, nor where it is. It raises an error when the rows are summed, so that the number of rows is known before.
"""

from __future__ import annotations

import bz2
import codecs
import contextlib
import gzip
import io
import lzma
import re
import tempfile
import weakref
import zipfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from dpstats.data.batches import Beside, Engine, Part, Work, chosen_columns, names_of
from dpstats.data.columns import WORDS
from dpstats.data.duckdb_rows import Address, File, Scan
from dpstats.data.rows import NO_CODES, Integers, MissingCodes, add_sums
from dpstats.data.schema import Schema
from dpstats.data.values import FOREIGN, NO_NUMBER, Words, as_int64, numbers
from dpstats.errors import InvalidData, refuse, refuse_data

_TEXT_ENTRIES = 1 << 16  # of a block of text
_ENTRIES = 1 << 18  # of a block of numbers
_IN_MEMORY = 1 << 26  # bytes
_CHARACTERS = 1 << 16  # decoded at once
_LONGEST = 1 << 20  # characters of a record, and bytes of one that DuckDB reads
_NAMES_SHOWN = 20
_NUMBER = np.dtype(np.float64)
T = TypeVar("T")


class TextFormat(NamedTuple):
    """Format of delimited text.

    Attributes
    ----------
    sep : str
        Separator, one character.
    encoding : str
        Encoding of the text. A byte order mark at its beginning decides instead, if it has one.
    missing : MissingCodes
        Codes of missing entries, in columns of numbers and of text.
    """

    sep: str = ","
    encoding: str = "utf-8"
    missing: MissingCodes = NO_CODES


CSV = TextFormat()


@dataclass(frozen=True, eq=False, repr=False)
class TextRows(Engine):
    """Private rows read from delimited text.

    Attributes
    ----------
    columns, beside
        See `Engine`.
    wrong : str
        Reason why the entries cannot be used, if any.
    """

    _spool: Spool
    _start: int
    _places: dict[str, int]
    _words: dict[str, list[str]]
    _rows: int
    columns: list[str]
    beside: tuple[str, ...] = ()
    wrong: str = ""

    @property
    def shape(self) -> tuple[int, int]:
        return self._rows, len(self.columns)

    def size(self, schema: Schema) -> tuple[int, int] | None:
        return self._chosen(schema).shape if schema.levels is None else (self._rows, len(schema.levels))

    def having(self, columns: Sequence[str] | None, beside: Beside = None) -> TextRows:
        given = dict.fromkeys(self.columns if columns is None else self._places)
        given |= dict.fromkeys(name for name in names_of(beside) if name in self._places)
        chosen, others = chosen_columns(list(given), columns, beside)
        return replace(self, columns=chosen, beside=others)

    def kind(self, name: Any) -> str | None:
        return WORDS

    def total(self, work: Work) -> dict[str, Integers]:
        self._check()
        if text := [name for name in self.columns if name in self._words]:
            raise refuse_data("X", got=f"the column {text[0]!r} of text", allowed="a 2-d table of numbers")
        places = [self._places[name] for name in self.columns]
        blocks = self._blocks(max(1, _ENTRIES // max(1, len(self._places))))
        return add_sums(
            work(Part(block[:, places], [self._column(name, block) for name in self.beside])) for block in blocks
        )

    def frame(self) -> Any:
        """Return all rows as a pandas data frame: numbers as float64, text as it stands in the file."""
        import pandas as pd

        self._check()
        (table,) = self._blocks(max(1, self._rows))
        # Store text as objects, so that pandas does not turn an entry into a missing value.
        columns = {
            name: pd.Series(self._column(name, table), dtype=object if name in self._words else None)
            for name in [*self.columns, *self.beside]
        }
        return pd.DataFrame(columns, columns=list(columns))

    def _check(self) -> None:
        if self.wrong:
            raise InvalidData(self.wrong)

    def _column(self, name: str, block: NDArray[np.float64]) -> Any:
        values = block[:, self._places[name]]
        if name not in self._words:
            return values.copy()
        words = self._words[name]
        return Words(words[place] for place in as_int64(values).tolist())

    def _blocks(self, rows: int) -> Iterator[NDArray[np.float64]]:
        width = len(self._places)
        self._spool.seek(self._start)
        for start in range(0, max(1, self._rows), rows):
            count = min(rows, self._rows - start)
            data = self._spool.read(count * width * _NUMBER.itemsize)
            yield np.frombuffer(data, dtype=_NUMBER).reshape(count, width)


def read_delimited(
    stream: BinaryIO,
    name: str,
    columns: Sequence[str] | None,
    *,
    text: Collection[str] | None = (),
    form: TextFormat = CSV,
    option: str = "columns",
    spool: Spool | None = None,
) -> TextRows:
    """Return columns of delimited text. The first line has their names.

    Parameters
    ----------
    stream : binary file
        The text, possibly compressed: see `unpack`. It is read once and completely.
    name : str
        Name of the text in errors.
    columns : sequence of str, or None
        Names of columns. None: all columns.
    text : collection of str, or None
        Columns to read as text. None: all of them. Every other entry is a number, one of the words true and false
        (1 and 0), or missing.
    form : TextFormat
        Format of the text.
    option : str
        Name of ``columns`` in errors.
    spool : Spool, optional
        Store of the rows. Several texts share its memory and its file.

    Raises
    ------
    InvalidParameter
        If a name is not in the first line.
    InvalidData
        If the text cannot be read. A non-numeric entry, or a record with more or fewer entries than names, raises this
        error when the rows are summed.
    """
    with contextlib.closing(_Records(stream, form, name)) as records:
        wanted = records.names if columns is None else list(columns)
        check_names(wanted, records.names, name, option)
        store = _Store(records.names, wanted, wanted if text is None else text, form.missing, name, spool)
        for block in records:
            store.add(block)
    return store.rows()


def read_header(stream: BinaryIO, name: str, form: TextFormat = CSV) -> list[str]:
    """Return the names in the first line of delimited text. An empty one is numbered by its position."""
    with contextlib.closing(_Records(stream, form, name)) as records:
        return records.names


_ENCODINGS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Encodings by their byte order mark, the longest mark first where one begins with another."""


class _Refused(Exception):
    """A reason why a text cannot be read, which contains no data."""


class _Records:
    """The names in the header of a table, and blocks of the records below it.

    Every record is a list of entries. Its length may differ from the number of names.
    """

    def __init__(self, stream: BinaryIO, form: TextFormat, name: str) -> None:
        self._name, self._sep, self._encoding = name, form.sep, form.encoding
        self._backslash = f"\\{form.sep}"
        self._stream = stream
        header = self._run(self._open)
        if not any(header):
            raise InvalidData(f"{name} is not a readable table: its first line must have the names of its columns")
        self.names = distinct_names(header, name)

    def __iter__(self) -> Iterator[list[list[str]]]:
        rows = max(1, _TEXT_ENTRIES // len(self.names))
        while block := self._run(lambda: list(islice(self._records, rows))):
            yield block

    def close(self) -> None:
        """Detach from the stream without closing it."""
        self._text.detach()

    def _open(self) -> list[str]:
        """Find the encoding and the line ending, and return the entries of the first line."""
        packed = unpack(self._stream)
        head = _peek(packed, 4)
        marks = [encoding for mark, encoding in _ENCODINGS.items() if head.startswith(mark)]
        self._encoding = marks[0] if marks else self._encoding
        # The newline argument turns off the translation of line endings. It ends no line here.
        self._text = io.TextIOWrapper(packed, encoding=self._encoding, newline="\n")
        self._ending, start = self._read_first_line()
        self._records = self._read_records(start)
        return next(self._records, [])

    def _run(self, step: Callable[[], list[T]]) -> list[T]:
        """Run a step. Replace the errors of other libraries, which may quote the text."""
        try:
            return step()
        except (InvalidData, MemoryError):
            raise
        except _Refused as error:
            reason = str(error)
        except UnicodeError:
            reason = f"it cannot be read as {self._encoding}; declare its encoding, for example latin-1"
        except Exception as error:  # errors of a compressed file have several types
            told = error.strerror if isinstance(error, OSError) else None
            reason = "it cannot be read completely" + (f" ({told})" if told else "")
        raise InvalidData(f"{self._name}: {reason}")

    def _read_first_line(self) -> tuple[str, str]:
        """Return the ending of the first line, and the text that was read so far."""
        text = ""
        while len(text) <= _LONGEST:
            more = self._text.read(_CHARACTERS)
            text += more
            place = _find_break(text)
            if place < 0 and not more:
                return "\n", text
            # The character after a carriage return may not have been read yet.
            if place >= 0 and (place + 1 < len(text) or not more):
                ending = text[place] if text[place] == "\n" else text[place : place + 2]
                if ending in ("\n", "\r\n"):
                    return ending, text
                break
        raise _Refused("its first line must end in a line feed, or in a carriage return and a line feed")

    def _read_lines(self, rest: str) -> Iterator[str]:
        """Yield the text between line endings, also those within quotes."""
        more = rest
        while more:
            *lines, rest = rest.split(self._ending)
            yield from lines
            if len(rest) > _LONGEST:
                raise _Refused(_TOO_LONG)
            more = self._text.read(_CHARACTERS)
            rest += more
        if rest:
            yield rest

    def _read_records(self, start: str) -> Iterator[list[str]]:
        """Yield the records, split into entries."""
        parts: list[str] = []
        length, inside = 0, 0
        for line in self._read_lines(start):
            length += len(line) + len(self._ending)
            if length > _LONGEST:
                raise _Refused(_TOO_LONG)
            if not parts and '"' not in line:
                if "\\" in line and (line.endswith("\\") or self._backslash in line):
                    raise _Refused(_BACKSLASH)
                if "\r" in line:
                    self._check_return()
                yield line.split(self._sep)
                length = 0
                continue
            # A quote opens or closes. Two of them within quotes do both.
            parts.append(line)
            inside ^= line.count('"') & 1
            if not inside:
                yield list(self._split_quoted(self._ending.join(parts)))
                parts, length = [], 0
        if inside:
            raise _Refused(_OPEN)

    def _check_return(self) -> None:
        """Refuse a carriage return outside quotes if one ends lines: it may end each line of another system."""
        # The line feed of the header line would then begin the first record.
        if self._ending == "\r\n":
            raise _Refused(_RETURN_ALONE)

    def _split_quoted(self, record: str) -> Iterator[str]:
        """Yield the entries of a record with quotes."""
        parts: list[str] = []
        inside = 0
        for piece in record.split(self._sep):
            parts.append(piece)
            inside ^= piece.count('"') & 1
            if inside:
                continue
            entry, parts = self._sep.join(parts), []
            if '"' in entry:
                if entry[0] != '"' or entry[-1] != '"' or '"' in entry[1:-1].replace('""', ""):
                    raise _Refused(_STRAY)
                entry = entry[1:-1].replace('""', '"')
            elif "\r" in entry:
                self._check_return()
            if entry.endswith("\\") or '\\"' in entry:
                raise _Refused(_BACKSLASH)
            yield entry


def _find_break(text: str) -> int:
    """Return the position of the first line feed or carriage return outside quotes, or -1."""
    inside = False
    for mark in re.finditer('["\r\n]', text):
        if mark.group() == '"':
            inside = not inside
        elif not inside:
            return mark.start()
    return -1


_TOO_LONG = f"a record must have at most {_LONGEST:,} characters. A quote that is not closed makes a record longer, too"
_RETURN_ALONE = "a carriage return must be within quotes, or before a line feed where that ends the first line"
_OPEN = "a quote is not closed. Write a quote within an entry as two quotes, or store the table as Parquet"
_STRAY = (
    "an entry with a quote must be quoted, and its own quotes doubled. Programs that write CSV do so, or store the "
    "table as Parquet"
)
_BACKSLASH = (
    "an entry has a backslash before a quote or as its last character, which may belong to the next character. Write a "
    "quote within an entry as two quotes, or store the table as Parquet"
)


class _Store:
    """Store of the rows read so far: numbers in a file, row after row. Text is stored as the position of its word."""

    def __init__(
        self,
        names: list[str],
        columns: list[str],
        text: Collection[str],
        missing: MissingCodes,
        name: str,
        spool: Spool | None,
    ) -> None:
        self._width, self._columns, self._name = len(names), columns, name
        self._places = [names.index(column) for column in columns]
        self._words: dict[str, dict[str, int]] = {column: {} for column in columns if column in text}
        self._empty = missing
        self._wrong = ""
        self._count = 0
        self._spool = Spool() if spool is None else spool
        self._start = self._spool.size

    def add(self, records: list[list[str]]) -> None:
        """Keep the rows of a block; where one cannot be used, count them."""
        self._count += len(records)
        if self._wrong:
            return
        if set(map(len, records)) != {self._width}:
            allowed = f"as many entries as the first line has names ({self._width})"
            self._wrong = f"{self._name}: a record must have {allowed}"
            return
        table = np.full((len(records), len(self._columns)), np.nan)
        for j, (name, place) in enumerate(zip(self._columns, self._places, strict=True)):
            words = [record[place] for record in records]
            if name in self._words:
                table[:, j] = self._codes(self._words[name], words)
                continue
            found, wrong = numbers(words, self._empty.missing_words)
            table[:, j] = self._empty.clear_numbers(found)
            if wrong is not None:
                self._wrong = f"{self._name}, column {name!r}: {NO_NUMBER}"
                return
        self._spool.write(table.tobytes())

    def rows(self) -> TextRows:
        """Return the stored rows."""
        places = {name: j for j, name in enumerate(self._columns)}
        words = {name: list(codes) for name, codes in self._words.items()}
        return TextRows(self._spool, self._start, places, words, self._count, self._columns, (), self._wrong)

    def _codes(self, codes: dict[str, int], words: list[str]) -> list[int]:
        if self._empty:
            words = ["" if self._empty.matches(word) else word for word in words]
        return [codes.setdefault(word, len(codes)) for word in words]


class Spool:
    """Bytes in memory, or in a temporary file if there are many. They are deleted with the last reference."""

    def __init__(self) -> None:
        self._file: Any = io.BytesIO()
        self._spilled = False
        self.size = 0

    def write(self, data: bytes) -> None:
        """Add bytes at the end."""
        if not self._spilled and self._file.tell() + len(data) > _IN_MEMORY:
            file = tempfile.TemporaryFile()  # noqa: SIM115
            weakref.finalize(self, file.close)
            file.write(self._file.getbuffer())
            self._file, self._spilled = file, True
        self._file.write(data)
        self.size += len(data)

    def seek(self, place: int) -> None:
        """Set the position of the next read."""
        self._file.seek(place)

    def read(self, size: int) -> bytes:
        """Return the next bytes."""
        data: bytes = self._file.read(size)
        return data


def check_names(wanted: list[str], names: list[str], file: str, option: str) -> None:
    """Raise an error for columns that are named twice, or unknown."""
    distinct_names(names, file)
    if len(set(wanted)) < len(wanted):
        raise refuse(option, allowed="name each column once")
    if missing := [name for name in wanted if name not in names]:
        # One name with another separator inside: the whole header.
        only = names[0] if len(names) == 1 and option.startswith("--") else ""
        mark = next((word for mark, word in ((";", "';'"), ("\t", "tab"), ("|", "'|'")) if mark in only), "")
        remedy = f"If entries are separated by {mark}, set --sep {mark}." if mark else ""
        raise refuse(option, got=some(missing), allowed=f"name columns of {file} ({some(names)})", remedy=remedy)


def some(names: Sequence[str]) -> str:
    """Return names as text, quoted including spaces. A long list shows the first names only."""
    more = [f"... {len(names) - _NAMES_SHOWN} more"] if len(names) > _NAMES_SHOWN else []
    return ", ".join([*map(repr, names[:_NAMES_SHOWN]), *more])


def distinct_names(header: list[str], file: str) -> list[str]:
    """Return the names of columns, empty ones numbered by position. Refuse a name that occurs twice."""
    names = [name or f"column {place}" for place, name in enumerate(header, start=1)]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise refuse_data(
            file, got=f"{twice[0]!r} twice", allowed="have different names of columns", remedy="Rename one."
        )
    return names


_PACKED: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\x00": lzma.open}
_ZIP = b"PK\x03\x04"


def unpack(stream: BinaryIO) -> BinaryIO:
    """Return a stream of the text: the content of a gzip, bz2, xz or zip file, or the stream itself.

    The first bytes decide, and not a name. A zip file must contain one file.
    """
    head = _peek(stream, 6)
    for magic, opener in _PACKED.items():
        if head.startswith(magic):
            return cast(BinaryIO, opener(stream, "rb"))
    if not head.startswith(_ZIP):
        return stream
    archive = zipfile.ZipFile(stream if stream.seekable() else io.BytesIO(stream.read()))
    files = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX/")]
    if len(files) != 1:
        raise _Refused("a zip file must contain one table")
    return cast(BinaryIO, archive.open(files[0]))


def _peek(stream: Any, size: int) -> bytes:
    """Return the next bytes without consuming them."""
    if hasattr(stream, "peek"):
        return bytes(stream.peek(size)[:size])
    head: bytes = stream.read(size)
    stream.seek(0)
    return head


_BYTES = 1 << 18  # of a block


@dataclass(frozen=True, eq=False, repr=False)
class TextFile(Engine):
    """Rows of a file of delimited text.

    Attributes
    ----------
    path : Path or Address
    header : list of str
        The names of all columns, which are public.
    columns, beside
        See `Engine`.
    connection : connection of DuckDB, optional
        Several files share it.
    """

    path: File
    header: list[str]
    columns: list[str]
    beside: tuple[str, ...] = ()
    connection: Any = None

    @property
    def shape(self) -> tuple[int, int]:
        return self._rows.shape

    def having(self, columns: Sequence[str] | None, beside: Beside = None) -> TextFile:
        chosen, others = chosen_columns(self.header, columns, beside)
        return replace(self, columns=chosen, beside=others)

    def kind(self, name: Any) -> str | None:
        return WORDS

    def total(self, work: Work) -> dict[str, Integers]:
        return self._rows.total(work)

    def aggregates(self, expressions: Sequence[str], of: Sequence[str]) -> list[int] | None:
        return self._rows.aggregates(expressions, of)

    def expression(self, column: int) -> str | None:
        return self._rows.expression(column)

    @cached_property
    def _rows(self) -> Engine:
        return self._quick_rows() or self._defined_rows()

    def _quick_rows(self) -> Engine | None:
        """Return the rows as DuckDB reads them, or None if it might read them differently."""
        # DuckDB does not distinguish names by their case.
        if isinstance(self.path, Address):
            return None
        if find_spec("duckdb") is None or len({name.lower() for name in self.header}) < len(self.header):
            return None
        from dpstats.data.duckdb_rows import of_text, supports_duckdb

        if not supports_duckdb():
            return None
        seen = self.scan()
        if not seen.plain:
            return None
        if self.codes.words and self.columns:
            return None  # words in a column of numbers
        with contextlib.suppress(InvalidData):  # a path that DuckDB cannot take literally
            rows = of_text(self.path, self.header, self.columns, _format(self.path).sep, seen, self.connection)
            return rows.having(self.columns, self.beside)
        return None

    def scan(self) -> Scan:
        """Return the properties of the bytes that determine the readers of this file."""
        with _reading(self.path) as stream:
            return scan(stream, len(self.header), _format(self.path).sep)

    def _defined_rows(self) -> Engine:
        wanted = list(dict.fromkeys([*self.columns, *self.beside])) or self.header[:1]
        return self._read(wanted, self.beside).having(self.columns, self.beside)

    def words(self) -> Any:
        """Return all entries as text, in a pandas data frame."""
        return self._read(self.header, None).frame()

    def _read(self, wanted: list[str], text: Collection[str] | None) -> TextRows:
        with _reading(self.path) as stream:
            form = _format(self.path)._replace(missing=self.codes)
            return read_delimited(stream, _name(self.path), wanted, text=text, form=form)


def of_text_file(path: File, connection: Any = None) -> TextFile:
    """Return the rows of a file of delimited text. This reads the first line only."""
    if not path.is_file():
        raise refuse_data("X", got=repr(str(path)) if isinstance(path, Path) else None, allowed="an existing file")
    with _reading(path) as stream:
        names = read_header(stream, _name(path), _format(path))
    return TextFile(path, names, names, connection=connection)


_NEWLINE, _RETURN, _QUOTE, _BACKSLASH_BYTE = b'\n\r"\\'


def scan(stream: BinaryIO, width: int, sep: str = ",") -> Scan:
    """Return the properties of a text with ``width`` columns that determine its readers."""
    not_plain = Scan(False)
    packed = _peek(stream, 2) == b"\x1f\x8b"
    try:
        text = unpack(stream)
        if text is not stream and not packed:
            return not_plain
        header = text.readline(_LONGEST)
        ending = b"\r\n" if header.endswith(b"\r\n") else b"\n"
        if header.count(b'"') % 2 or b"\r" in header.removesuffix(ending) or not _is_utf8(header):
            return not_plain
        n_rows, quoted, foreign, rest, block = 0, b'"' in header, False, b"", b"-"
        while block:
            block = text.read(_BYTES)
            rest += block if block or not rest else ending
            if not rest:
                break
            found = _count_records(rest, width, ord(sep), ending)
            if found is None or len(rest) - found[1] > _LONGEST:
                return not_plain
            n_rows += found[0]
            records, rest = rest[: found[1]], rest[found[1] :]
            quoted = quoted or b'"' in records
            # The first byte of a part is rarer than the part is quick to find.
            foreign = foreign or any(part[:1] in records and part in records for part in _FOREIGN)
        return Scan(not rest, n_rows, packed, quoted, foreign)
    except MemoryError:
        raise
    except Exception:  # a damaged file, for which `read_delimited` has the words
        return not_plain


def _count_records(text: bytes, width: int, sep: int, ending: bytes) -> tuple[int, int] | None:
    """Return the number of complete records and their length in bytes, or None if one of them is not plain."""
    a = np.frombuffer(text, dtype=np.uint8)
    marks = np.flatnonzero((a == sep) | (a == _NEWLINE))
    quotes = np.flatnonzero(a == _QUOTE) if b'"' in text else marks[:0]
    if len(quotes):
        marks = marks[np.searchsorted(quotes, marks) % 2 == 0]
    ends = marks[a[marks] == _NEWLINE]
    if not len(ends):
        return 0, 0
    length = int(ends[-1]) + 1
    text, a = text[:length], a[:length]
    marks, quotes = (some[: np.searchsorted(some, length)] for some in (marks, quotes))
    if len(marks) != width * len(ends) or (marks[width - 1 :: width] != ends).any():
        return None
    sizes = np.diff(ends, prepend=-1)
    # DuckDB skips a blank line.
    if sizes.max() > _LONGEST or sizes.min() <= len(ending) or b"\0" in text or not _is_utf8(text):
        return None
    returns = len(ends) if ending == b"\r\n" else 0
    if text.count(b"\r") != returns or (returns and (a[ends - 1] != _RETURN).any()):
        return None
    # An opening quote begins an entry, a closing one ends it, or the two are a quote within the entry. Before the first
    # byte stands the last one, a line feed.
    around = [sep, _NEWLINE, _QUOTE]
    before, after = a[quotes[::2] - 1], a[quotes[1::2] + 1]
    if not np.isin(before, around).all() or not np.isin(after, [*around, _RETURN]).all():
        return None
    if b"\\" in text and np.isin(a[np.flatnonzero(a == _BACKSLASH_BYTE) + 1], [*around, _RETURN]).any():
        return None
    return len(ends), length


def _is_utf8(text: bytes) -> bool:
    try:
        return text.isascii() or bool(text.decode("utf-8"))
    except UnicodeDecodeError:
        return False


_FOREIGN = [part.encode() for part in FOREIGN]


def _reading(path: File) -> BinaryIO:
    """Return a file that was opened for reading."""
    if isinstance(path, Address):
        return cast(BinaryIO, path.open())
    try:
        return open(path, "rb")
    except OSError as error:
        reason = error.strerror
    raise refuse_data(_name(path), allowed=f"a file that can be read ({reason})")


def _name(path: File) -> str:
    return f"X ({path.name})"


def separator(path: File) -> str:
    """Return the separator of a file with this name: a tab for ``.tsv``, otherwise a comma."""
    return "\t" if ".tsv" in [suffix.lower() for suffix in path.suffixes] else ","


def _format(path: File) -> TextFormat:
    return TextFormat(separator(path))
