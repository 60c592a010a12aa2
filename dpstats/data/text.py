"""Rows of delimited text, such as a CSV file: from a stream, or from a file by its path.

`read_delimited` defines the rows. It reads once, in blocks, each entry independently, and stores numbers. DuckDB reads
the same rows from most files, several times as fast. It does not get files that the two could read differently.

Memory is limited to a block. Rows beyond `_IN_MEMORY` are stored in a temporary file, which has no name and disappears
with the process. A row never depends on another, because no type is guessed from a column. An unusable entry is never
shown. It raises an error when the rows are summed, so that the number of rows is known before.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import io
import re
import tempfile
import weakref
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.data.batches import Beside, Engine, Part, Work, chosen_columns, names_of
from dpstats.data.missing import NO_CODES, MissingCodes
from dpstats.data.schema import Schema
from dpstats.data.tables import Integers, added
from dpstats.data.words import FOREIGN, NO_NUMBER, Words, numbers
from dpstats.errors import InvalidData, InvalidParameter

_TEXT_ENTRIES = 1 << 16  # of a block of text
_ENTRIES = 1 << 18  # of a block of numbers
_IN_MEMORY = 1 << 26  # bytes
_NAMES_SHOWN = 20
_NUMBER = np.dtype(np.float64)


class TextFormat(NamedTuple):
    """Format of delimited text.

    Attributes
    ----------
    sep : str
        Separator, one character.
    encoding : str
        Encoding of the text.
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
    unusable : (int, str), optional
        The line and the column of the first number that is missing or infinite.
    wrong : str
        Reason why the entries cannot be used, if any.
    """

    _spool: _Spool
    _places: dict[str, int]
    _words: dict[str, list[str]]
    _rows: int
    columns: list[str]
    beside: tuple[str, ...] = ()
    unusable: tuple[int, str] | None = None
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

    def total(self, work: Work) -> dict[str, Integers]:
        self._check()
        if text := [name for name in self.columns if name in self._words]:
            raise InvalidData(f"X must be a 2-d table of numbers, got the column {text[0]!r} of text")
        places = [self._places[name] for name in self.columns]
        total: dict[str, Integers] = {}
        for block in self._blocks(max(1, _ENTRIES // max(1, len(self._places)))):
            added(total, work(Part(block[:, places], [self._column(name, block) for name in self.beside])))
        return total

    def frame(self) -> Any:
        """Return all rows as a pandas data frame: numbers as float64, text as it stands in the file."""
        import pandas as pd

        self._check()
        (table,) = self._blocks(max(1, self._rows))
        columns = {name: self._column(name, table) for name in self.columns}
        # Store text as objects, so that pandas does not turn an entry into a missing value.
        made = {
            name: pd.Series(found, dtype=object if name in self._words else None)
            for name, found in columns.items()
        }
        return pd.DataFrame(made, columns=self.columns)

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
        self._spool.seek(0)
        for start in range(0, max(1, self._rows), rows):
            count = min(rows, self._rows - start)
            data = self._spool.read(count * width * _NUMBER.itemsize)
            yield np.frombuffer(data, dtype=_NUMBER).reshape(count, width)


def read_delimited(
    stream: BinaryIO,
    name: str,
    columns: Sequence[str] | None,
    *,
    text: Collection[str] = (),
    form: TextFormat = CSV,
    option: str = "columns",
    lines: bool = True,
) -> TextRows:
    """Return columns of delimited text. The first line has their names.

    Parameters
    ----------
    stream : binary file
        The text. It is read once and completely.
    name : str
        Name of the text in errors.
    columns : sequence of str, or None
        Names of columns. None: all columns that contain only numbers. The set of these columns is public.
    text : collection of str
        Columns to read as text. Every other entry is a number, one of the words true and false (1 and 0), or missing.
    form : TextFormat
        Format of the text.
    option : str
        Name of ``columns`` in errors.
    lines : bool, default=True
        Whether errors have the line and the column of a rejected entry, which reveals its position.

    Raises
    ------
    InvalidParameter
        If a name is not in the first line.
    InvalidData
        If the text cannot be read. A non-numeric entry, or a line with more entries than names, raises this error when
        the rows are summed.
    """
    refusals = _Refusals(name, lines)
    read = _Lines(stream, form, refusals)
    names = distinct_names(read.names) if columns is None else read.names
    wanted = names if columns is None else list(columns)
    check_names(wanted, names, name, option)
    store = _Store(names, wanted, text, form, refusals)
    with contextlib.closing(read):
        for block in read:
            store.add(block)
    return store.rows()


def read_header(stream: BinaryIO, name: str, form: TextFormat = CSV) -> list[str]:
    """Return the names in the first line of delimited text."""
    with contextlib.closing(_Lines(stream, form, _Refusals(name, False))) as read:
        return read.names


class _Refusals(NamedTuple):
    """Names of the text in errors, and whether errors have line numbers."""

    name: str
    lines: bool

    def at(self, line: int, why: str, column: str | None = None) -> str:
        """Return the message of an error on a line."""
        place = f", line {line}" + ("" if column is None else f", column {column!r}")
        return f"{self.name}{place if self.lines else ''}: {why}"

    def beyond(self, line: int, what: str, why: str) -> str:
        """Return the message of an error somewhere after a line."""
        return f"{self.name} {what}{f' beyond line {line}' if self.lines else ''}{why}"


class _Block(NamedTuple):
    """Lines of a table, and how many lines stand before them."""

    records: list[list[str]]
    before: int
    single: bool = False  # of a table of one column

    def line(self, place: int) -> int:
        """Return the number of the line on which a row begins."""
        line = self.before + 1
        for record in self.records:
            if record or self.single:
                if place == 0:
                    return line
                place -= 1
            line += 1 + sum(len(re.findall("\r\n|\r|\n", entry)) for entry in record)
        return line


class _Lines:
    """The header of a table, and blocks of its lines."""

    def __init__(self, stream: BinaryIO, form: TextFormat, refusals: _Refusals) -> None:
        # Excel writes a byte order mark before UTF-8. It does not belong to the first name.
        utf8 = form.encoding.lower().replace("_", "-") in ("utf-8", "utf8")
        text = io.TextIOWrapper(stream, encoding="utf-8-sig" if utf8 else form.encoding, newline="")
        self._text = text
        self._reader = csv.reader(text, delimiter=form.sep, strict=True)
        self._refusals, self._encoding = refusals, form.encoding
        header = self._next(1).records
        if not header or not any(header[0]):
            raise InvalidData(
                f"{refusals.name} is not a readable table: its first line must have the names of its columns"
            )
        self.names = header[0]

    def __iter__(self) -> Iterator[_Block]:
        rows = max(1, _TEXT_ENTRIES // len(self.names))
        while (block := self._next(rows)).records:
            yield block

    def close(self) -> None:
        """Detach from the stream without closing it."""
        self._text.detach()

    def _next(self, count: int) -> _Block:
        before, why, at = self._reader.line_num, "", self._refusals
        try:
            return _Block(list(islice(self._reader, count)), before, len(getattr(self, "names", ())) == 1)
        except UnicodeError as error:
            why = at.at(
                self._reader.line_num + 1 + _count_breaks(error),
                f"it cannot be read as {self._encoding}; declare its encoding, for example latin-1",
            )
        except csv.Error:
            # The message of the parser may quote the line.
            why = at.at(
                self._reader.line_num,
                "a quote that is not closed or ends within an entry, or an entry of more than "
                f"{csv.field_size_limit():,} characters",
            )
        except MemoryError:
            raise
        except Exception as error:  # errors of a compressed file have several types, and may quote data
            reason = error.strerror if isinstance(error, OSError) else None
            why = at.beyond(before, "cannot be read", f" ({reason})" if reason else "")
        raise InvalidData(why)


def _count_breaks(error: UnicodeError) -> int:
    """Return the number of line breaks between the last line that was read and the bytes of another encoding."""
    if not isinstance(error, UnicodeDecodeError):
        return 0
    readable = error.object[: error.start].decode(error.encoding, "ignore")
    return len(re.findall("\r\n|\r|\n", readable))


class _Store:
    """Store of the rows read so far: numbers in a file, row after row. Text is stored as the position of its word."""

    def __init__(
        self,
        names: list[str],
        columns: list[str],
        text: Collection[str],
        form: TextFormat,
        refusals: _Refusals,
    ) -> None:
        self._width, self._columns, self._refusals = len(names), columns, refusals
        self._places = [names.index(column) for column in columns]
        self._words: dict[str, dict[str, int]] = {column: {} for column in columns if column in text}
        self._empty = form.missing
        self._missing = form.missing.missing_words
        self._unusable: dict[str, int] = {}
        self._wrong = ""
        self._count = 0
        self._spool = _Spool()

    def add(self, block: _Block) -> None:
        """Keep the rows of a block; where one cannot be used, count them."""
        # In a table with one column, a blank line is a missing entry. Otherwise it is not a row.
        records = [record for record in block.records if record or self._width == 1]
        self._count += len(records)
        if not self._wrong:
            self._keep(records, block)

    def _keep(self, records: list[list[str]], block: _Block) -> None:
        needed = 1 + max(self._places)
        sizes = set(map(len, records))
        if max(sizes, default=0) > self._width:
            for place, record in enumerate(records):
                if any(record[self._width :]):
                    self._wrong = self._refusals.at(
                        block.line(place),
                        "a table must have a name in its header for every value of a line"
                        + (
                            f", got {len(record)} values and {self._width} names"
                            if self._refusals.lines
                            else ""
                        ),
                    )
                    return
        if min(sizes, default=needed) < needed:
            records = [record + [""] * (needed - len(record)) for record in records]
        table = np.full((len(records), len(self._columns)), np.nan)
        for j, (name, place) in enumerate(zip(self._columns, self._places, strict=True)):
            words = [record[place] for record in records]
            if name in self._words:
                table[:, j] = self._codes(self._words[name], words)
                continue
            found, wrong = numbers(words, self._missing)
            table[:, j] = self._empty.clear_numbers(found)
            if wrong is not None:
                self._wrong = self._refusals.at(block.line(wrong), NO_NUMBER, name)
                return
            self._notice(name, table[:, j], block)
        self._spool.write(table.tobytes())

    def rows(self) -> TextRows:
        """Return the stored rows."""
        first = min(((line, name) for name, line in self._unusable.items()), default=None)
        places = {name: j for j, name in enumerate(self._columns)}
        words = {name: list(codes) for name, codes in self._words.items()}
        return TextRows(self._spool, places, words, self._count, self._columns, (), first, self._wrong)

    def _codes(self, codes: dict[str, int], words: list[str]) -> list[int]:
        if self._empty:
            words = ["" if self._empty.matches(word) else word for word in words]
        return [codes.setdefault(word, len(codes)) for word in words]

    def _notice(self, name: str, numbers: NDArray[np.float64], block: _Block) -> None:
        """Store the position of the first number that is missing or infinite."""
        if name not in self._unusable and not np.isfinite(numbers).all():
            self._unusable[name] = block.line(int(np.argmin(np.isfinite(numbers))))


class _Spool:
    """Bytes in memory, or in a temporary file if there are many. They are deleted with the last reference."""

    def __init__(self) -> None:
        self._file: Any = io.BytesIO()
        self._spilled = False

    def write(self, data: bytes) -> None:
        """Add bytes at the end."""
        if not self._spilled and self._file.tell() + len(data) > _IN_MEMORY:
            file = tempfile.TemporaryFile()  # noqa: SIM115
            weakref.finalize(self, file.close)
            file.write(self._file.getbuffer())
            self._file, self._spilled = file, True
        self._file.write(data)

    def seek(self, place: int) -> None:
        """Set the position of the next read."""
        self._file.seek(place)

    def read(self, size: int) -> bytes:
        """Return the next bytes."""
        data: bytes = self._file.read(size)
        return data


def check_names(wanted: list[str], names: list[str], file: str, option: str) -> None:
    """Raise an error for columns that are named twice, unknown, or ambiguous."""
    if len(set(wanted)) < len(wanted):
        raise InvalidParameter(f"{option} must name each column once")
    count = Counter(names)
    if missing := [name for name in wanted if name not in count]:
        raise InvalidParameter(f"{option} must name columns of {file} ({some(names)}), got {some(missing)}")
    if any(count[name] > 1 for name in wanted):
        raise InvalidData(f"{file} has two columns with the same name in {option}. Rename one of them")


def some(names: Sequence[str]) -> str:
    """Return names as text, quoted including spaces. A long list shows the first names only."""
    more = [f"... {len(names) - _NAMES_SHOWN} more"] if len(names) > _NAMES_SHOWN else []
    return ", ".join([*map(repr, names[:_NAMES_SHOWN]), *more])


def distinct_names(names: list[str]) -> list[str]:
    """Return a distinct name for every column. Duplicate and empty names in the header are numbered."""
    taken, found = set(names), []
    for place, name in enumerate(names):
        made, count = name or f"column {place + 1}", 0
        while made in found or (count and made in taken):
            count += 1
            made = f"{name or f'column {place + 1}'}.{count}"
        found.append(made)
    return found


_BYTES = 1 << 20  # of a block
_LINE = 1 << 17  # bytes: the longest entry that `read_delimited` takes


@dataclass(frozen=True, eq=False, repr=False)
class TextFile(Engine):
    """Rows of a file of delimited text.

    Attributes
    ----------
    path : Path
    header : list of str
        The names of all columns, which are public.
    columns, beside
        See `Engine`.
    """

    path: Path
    header: list[str]
    columns: list[str]
    beside: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        return self._rows.shape

    def having(self, columns: Sequence[str] | None, beside: Beside = None) -> TextFile:
        chosen, others = chosen_columns(self.header, columns, beside)
        return replace(self, columns=chosen, beside=others)

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
        if find_spec("duckdb") is None:
            return None
        from dpstats.data.duckdb_rows import of_text, supports_duckdb

        if not supports_duckdb():
            return None
        with _reading(self.path) as stream:
            seen = scan(stream)
        if not seen.plain:
            return None
        if self.codes.words and self.columns:
            return None  # words in a column of numbers
        with contextlib.suppress(InvalidData):
            sep = _format(self.path).sep
            rows = of_text(self.path, self.header, self.columns, sep, _LINE, guarded=seen.foreign)
            rows = rows.having(self.columns, self.beside)
            if rows.shape[0] >= 0:  # counts the rows, and rejects lines that are too short or too long
                return rows
        return None

    def _defined_rows(self) -> Engine:
        others = self.beside
        wanted = list(dict.fromkeys([*self.columns, *others])) or self.header[:1]
        with _reading(self.path) as stream:
            rows = read_delimited(
                stream,
                _name(self.path),
                wanted,
                text=others,
                form=_format(self.path)._replace(missing=self.codes),
                lines=False,
            )
        return rows.having(self.columns, self.beside)


def of_text_file(path: Path) -> TextFile:
    """Return the rows of a file of delimited text. This reads the first line only."""
    if not path.is_file():
        raise InvalidData(f"X must be a file that is there, got {str(path)!r}")
    with _reading(path) as stream:
        names = read_header(stream, _name(path), _format(path))
    if len(set(names)) < len(names):
        raise InvalidData(f"X must have a first line that names every column once, got {str(path)!r}")
    names = distinct_names(names)
    return TextFile(path, names, names)


class Scan(NamedTuple):
    """Properties of the bytes of a text that determine its readers.

    Attributes
    ----------
    plain : bool
        Whether DuckDB and `read_delimited` read the same entries if all lines have the same length. They differ for
        bytes that are not UTF-8, for blanks next to quotes, and for mixed line endings.
    foreign : bool
        Whether a part of `dpstats.data.words.FOREIGN` occurs below the first line.
    """

    plain: bool
    foreign: bool = False


def scan(stream: BinaryIO) -> Scan:
    """Return the properties of a text that determine its readers."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    last, newlines, returns, foreign = b"", False, False, False
    parts = [part.encode() for part in FOREIGN]
    below = len(stream.readline())
    stream.seek(0)
    while block := stream.read(_BYTES):
        # A pattern of two bytes may begin with the last byte of a block.
        text, before = last + block, last == b"\n"
        start = 0 if last else below
        last = text[-1:]
        if b"\0" in block or (b'"' in text and (b' "' in text or b'" ' in text)):
            return Scan(False)
        if b"\r" in text:
            pairs = text.count(b"\r\n")
            # A return at the end is counted with the next block, and a newline at the start was counted before.
            if text.count(b"\r") - text.endswith(b"\r") != pairs or text.count(b"\n") - before != pairs:
                return Scan(False)
            returns = True
        elif b"\n" in block:
            newlines = True
        # The first byte of a part is rarer than the part is quick to find.
        foreign = foreign or any(part[:1] in text and text.find(part, start) >= 0 for part in parts)
        if newlines and returns:
            return Scan(False)
        try:
            decoder.decode(block)
        except UnicodeDecodeError:
            return Scan(False)
    return Scan(last != b"\r" and not decoder.getstate()[0], foreign)


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[BinaryIO]:
    refusal = None
    try:
        packed = path.suffix.lower() == ".gz"
        with gzip.open(path, "rb") if packed else open(path, "rb") as stream:
            yield cast(BinaryIO, stream)
    except OSError as error:
        refusal = error.strerror or "it is no packed file"
    except EOFError:
        refusal = "it ends too soon"
    if refusal is not None:
        raise InvalidData(f"{_name(path)} must be a file that can be read ({refusal})")


def _name(path: Path) -> str:
    return f"X ({path.name})"


def separator(path: Path) -> str:
    """Return what separates the entries of a file of this name: a tab for ``.tsv``, otherwise a comma."""
    return "\t" if ".tsv" in [suffix.lower() for suffix in path.suffixes] else ","


def _format(path: Path) -> TextFormat:
    return TextFormat(separator(path))
