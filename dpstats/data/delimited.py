"""Rows of delimited text, a CSV file say: read once, in blocks, each entry by itself, and kept as numbers.

Memory is that of a block: what is more than `_IN_MEMORY` goes to a temporary file, which has no name and ends with the
process. What a row is never depends on another: no type is guessed from a column. What cannot be read is refused by its
line and column, and never shown.
"""

from __future__ import annotations

import contextlib
import csv
import io
import re
import tempfile
import weakref
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.data.engine import Beside, Engine, Part, Work, chosen_columns, names_of
from dpstats.data.schema import Schema
from dpstats.data.tables import Integers, added
from dpstats.errors import InvalidData, InvalidParameter

_TEXT_ENTRIES = 1 << 16  # of a block of text
_ENTRIES = 1 << 18  # of a block of numbers
_IN_MEMORY = 1 << 26  # bytes
_NAMES_SHOWN = 20
_NUMBER = np.dtype(np.float64)

_MISSING = "#N/A|#N/A N/A|#NA|-1.#IND|-1.#QNAN|1.#IND|1.#QNAN|<NA>|N/A|NA|NULL|None|n/a|null"
MISSING_WORDS = frozenset(["", *_MISSING.split("|")])
"""What stands for a missing number, with NaN; in a column of text only the empty entry is a missing one."""
_TRUTHS = {"true": 1.0, "false": 0.0}


class TextFormat(NamedTuple):
    """How delimited text is written.

    Attributes
    ----------
    sep : str
        One character.
    encoding : str
    missing : frozenset of str
        More words that mean a missing entry, in columns of numbers and of text alike.
    """

    sep: str = ","
    encoding: str = "utf-8"
    missing: frozenset[str] = frozenset()


CSV = TextFormat()


@dataclass(frozen=True, eq=False, repr=False)
class TextRows(Engine):
    """Private rows that were read from delimited text.

    Attributes
    ----------
    columns, beside
        See `Engine`.
    unusable : (int, str), optional
        The line and the column of the first number that is missing or infinite.
    """

    _spool: _Spool
    _places: dict[str, int]
    _words: dict[str, list[str]]
    _rows: int
    columns: list[str]
    beside: tuple[str, ...] = ()
    unusable: tuple[int, str] | None = None

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

        (table,) = self._blocks(max(1, self._rows))
        return pd.DataFrame({name: self._column(name, table) for name in self.columns}, columns=self.columns)

    def _column(self, name: str, block: NDArray[np.float64]) -> Any:
        values = block[:, self._places[name]]
        if name not in self._words:
            return values.copy()
        found = np.empty(len(self._words[name]), dtype=object)
        found[:] = self._words[name]
        return found[as_int64(values)]

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
) -> TextRows:
    """Return columns of delimited text, whose first line has their names.

    Parameters
    ----------
    stream : binary file
        Read once, to its end.
    name : str
        What errors call it.
    columns : sequence of str, or None
        None is all that have nothing but numbers in them: which these are is public.
    text : collection of str
        Those that are read as text. Every other entry is a number, one of the words true and false (1 and 0), or
        missing.
    form : TextFormat
    option : str
        What errors call ``columns``.

    Raises
    ------
    InvalidParameter
        If a name is not in the first line.
    InvalidData
        If an entry is no number, a line has more entries than there are names, or the text cannot be read: the line
        is named, and the column, and nothing of what is in them.
    """
    lines = _Lines(stream, name, form)
    names = _distinct(lines.names) if columns is None else lines.names
    wanted = names if columns is None else list(columns)
    check_names(wanted, names, name, option)
    store = _Store(names, wanted, text, form)
    with contextlib.closing(lines):
        for block in lines:
            if wrong := store.add(block):
                raise InvalidData(f"{name}, {wrong}")
    return store.rows()


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

    def __init__(self, stream: BinaryIO, name: str, form: TextFormat) -> None:
        # What Excel puts before UTF-8 is no part of the first name.
        utf8 = form.encoding.lower().replace("_", "-") in ("utf-8", "utf8")
        text = io.TextIOWrapper(stream, encoding="utf-8-sig" if utf8 else form.encoding, newline="")
        self._text = text
        self._reader = csv.reader(text, delimiter=form.sep, strict=True)
        self._name, self._encoding = name, form.encoding
        header = self._next(1).records
        if not header or not any(header[0]):
            raise InvalidData(
                f"{name} is not a readable table: its first line must have the names of its columns"
            )
        self.names = header[0]

    def __iter__(self) -> Iterator[_Block]:
        rows = max(1, _TEXT_ENTRIES // len(self.names))
        while (block := self._next(rows)).records:
            yield block

    def close(self) -> None:
        """Leave the stream open to whom it belongs."""
        self._text.detach()

    def _next(self, count: int) -> _Block:
        before, why = self._reader.line_num, ""
        try:
            return _Block(list(islice(self._reader, count)), before, len(getattr(self, "names", ())) == 1)
        except UnicodeError:
            why = f"is no text in {self._encoding}, beyond line {before}: --encoding says which it is"
        except csv.Error:
            # What the parser says may quote the line.
            why = (
                f"line {self._reader.line_num}: a quote that is not closed or ends within an entry, or an entry of "
                f"more than {csv.field_size_limit():,} characters"
            )
        except MemoryError:
            raise
        except Exception as error:  # of a packed file: of several kinds, and perhaps with what is in it
            reason = error.strerror if isinstance(error, OSError) else None
            why = f"cannot be read beyond line {before}" + (f" ({reason})" if reason else "")
        raise InvalidData(f"{self._name}{',' if why.startswith('line') else ''} {why}")


class _Store:
    """What was read: numbers in a file, row after row; for text the place of its word among those seen."""

    def __init__(self, names: list[str], columns: list[str], text: Collection[str], form: TextFormat) -> None:
        self._width, self._columns = len(names), columns
        self._places = [names.index(column) for column in columns]
        self._words: dict[str, dict[str, int]] = {column: {} for column in columns if column in text}
        self._empty = form.missing
        self._missing = MISSING_WORDS | form.missing
        # A number that means missing has to be looked for.
        self._plain = all(_number(word) is None for word in form.missing)
        self._unusable: dict[str, int] = {}
        self._count = 0
        self._spool = _Spool()

    def add(self, block: _Block) -> str:
        """Keep the rows of a block; or say what is wrong with them."""
        # Of a single column a blank line is an entry, which is missing; else it is no row.
        records = [record for record in block.records if record or self._width == 1]
        needed = 1 + max(self._places)
        sizes = set(map(len, records))
        if max(sizes, default=0) > self._width:
            for place, record in enumerate(records):
                if any(record[self._width :]):
                    return (
                        f"line {block.line(place)}: a table must have a name in its header for every value of a line, "
                        f"got {len(record)} values and {self._width} names"
                    )
        if min(sizes, default=needed) < needed:
            records = [record + [""] * (needed - len(record)) for record in records]
        table = np.full((len(records), len(self._columns)), np.nan)
        for j, (name, place) in enumerate(zip(self._columns, self._places, strict=True)):
            words = [record[place] for record in records]
            if name in self._words:
                table[:, j] = self._codes(self._words[name], words)
            else:
                wrong = self._read(words, table[:, j])
                if wrong is not None:
                    return (
                        f"line {block.line(wrong)}, column {name!r}: an entry must be a number, and "
                        "this one is none (words that mean a missing one are declared by --na-values)"
                    )
                self._notice(name, table[:, j], block)
        self._count += len(records)
        self._spool.write(table.tobytes())
        return ""

    def rows(self) -> TextRows:
        """Return what was kept."""
        first = min(((line, name) for name, line in self._unusable.items()), default=None)
        places = {name: j for j, name in enumerate(self._columns)}
        words = {name: list(codes) for name, codes in self._words.items()}
        return TextRows(self._spool, places, words, self._count, self._columns, unusable=first)

    def _codes(self, codes: dict[str, int], words: list[str]) -> list[int]:
        if self._empty:
            words = ["" if word in self._empty else word for word in words]
        return [codes.setdefault(word, len(codes)) for word in words]

    def _read(self, words: list[str], numbers: NDArray[np.float64]) -> int | None:
        """Read numbers, NaN for what is missing; return the place of the first entry that is neither."""
        if self._plain:
            try:
                numbers[:] = [*map(float, words)]
                return None
            except ValueError:
                pass
        for i, word in enumerate(words):
            found = self._entry(word)
            if found is None:
                return i
            numbers[i] = found
        return None

    def _entry(self, word: str) -> float | None:
        word = word.strip()
        if word in self._missing:
            return np.nan
        found = _number(word)
        return _TRUTHS.get(word.lower()) if found is None else found

    def _notice(self, name: str, numbers: NDArray[np.float64], block: _Block) -> None:
        """Remember where the first number is that is missing or infinite."""
        if name not in self._unusable and not np.isfinite(numbers).all():
            self._unusable[name] = block.line(int(np.argmin(np.isfinite(numbers))))


class _Spool:
    """Bytes in memory, or in a temporary file where there are many; gone when nobody has them any more."""

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
        """Go where the next bytes are read."""
        self._file.seek(place)

    def read(self, size: int) -> bytes:
        """Return the next bytes."""
        data: bytes = self._file.read(size)
        return data


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def check_names(wanted: list[str], names: list[str], file: str, option: str) -> None:
    """Refuse columns that are named twice, that are not there, or of which there are several."""
    if len(set(wanted)) < len(wanted):
        raise InvalidParameter(f"{option} must name each column once")
    count = Counter(names)
    if missing := [name for name in wanted if name not in count]:
        raise InvalidParameter(f"{option} must name columns of {file} ({some(names)}), got {some(missing)}")
    if any(count[name] > 1 for name in wanted):
        raise InvalidData(f"{file} has more than one column of a name given as {option}")


def some(names: Sequence[str]) -> str:
    """Return names as they have to be given, spaces and all; of many, the first."""
    more = [f"... {len(names) - _NAMES_SHOWN} more"] if len(names) > _NAMES_SHOWN else []
    return ", ".join([*map(repr, names[:_NAMES_SHOWN]), *more])


def _distinct(names: list[str]) -> list[str]:
    """Return a name of its own for every column: numbered where the header has it twice, or has none."""
    taken, found = set(names), []
    for place, name in enumerate(names):
        made, count = name or f"column {place + 1}", 0
        while made in found or (count and made in taken):
            count += 1
            made = f"{name or f'column {place + 1}'}.{count}"
        found.append(made)
    return found
