"""A file of delimited text, by its path.

`read_delimited` defines what the rows are. DuckDB reads the same rows from most files, several times as fast. It is not
given a file that the two could read in different ways.
"""

from __future__ import annotations

import codecs
import contextlib
import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from dpstats.data.delimited import TextFormat, distinct_names, read_delimited, read_header
from dpstats.data.engine import Beside, Engine, Work, chosen_columns
from dpstats.data.tables import Integers
from dpstats.data.words import FOREIGN
from dpstats.errors import InvalidData

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
        """Return the rows as DuckDB reads them; None where it might read them in another way."""
        if find_spec("duckdb") is None:
            return None
        from dpstats.data.duckdb_rows import of_text, supports_duckdb

        if not supports_duckdb():
            return None
        with _reading(self.path) as stream:
            seen = scan(stream)
        if not seen.plain:
            return None
        with contextlib.suppress(InvalidData):
            sep = _format(self.path).sep
            rows = of_text(self.path, self.header, self.columns, sep, _LINE, guarded=seen.foreign)
            rows = rows.having(self.columns, self.beside)
            if rows.shape[0] >= 0:  # counts the rows, and refuses lines that are too short or too long
                return rows
        return None

    def _defined_rows(self) -> Engine:
        others = self.beside
        wanted = list(dict.fromkeys([*self.columns, *others])) or self.header[:1]
        with _reading(self.path) as stream:
            rows = read_delimited(
                stream, _name(self.path), wanted, text=others, form=_format(self.path), lines=False
            )
        return rows.having(self.columns, self.beside)


def of_text_file(path: Path) -> TextFile:
    """Return the rows of a file of delimited text, of which the first line alone is read."""
    if not path.is_file():
        raise InvalidData(f"X must be a file that is there, got {str(path)!r}")
    with _reading(path) as stream:
        names = read_header(stream, _name(path), _format(path))
    if len(set(names)) < len(names):
        raise InvalidData(f"X must have a first line that names every column once, got {str(path)!r}")
    names = distinct_names(names)
    return TextFile(path, names, names)


class Scan(NamedTuple):
    """What the bytes of a text say about how it may be read.

    Attributes
    ----------
    plain : bool
        DuckDB and `read_delimited` see the same entries where all lines have as many. They differ on bytes that are
        no UTF-8, on blanks beside quotes, and where lines end in several ways.
    foreign : bool
        Below the first line there is a part of `dpstats.data.words.FOREIGN`.
    """

    plain: bool
    foreign: bool = False


def scan(stream: BinaryIO) -> Scan:
    """Return what the bytes of a text say about how it may be read."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    last, newlines, returns, foreign = b"", False, False, False
    parts = [part.encode() for part in FOREIGN]
    below = len(stream.readline())
    stream.seek(0)
    while block := stream.read(_BYTES):
        # A pattern of two bytes may begin with the last one of a block.
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


def _format(path: Path) -> TextFormat:
    return TextFormat("\t" if ".tsv" in [suffix.lower() for suffix in path.suffixes] else ",")
