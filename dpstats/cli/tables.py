"""The table that a command reads: delimited text or Parquet, one file or several, and the rows of a unit."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from dpstats.cli.options import add_options, split_list
from dpstats.errors import InvalidData, InvalidParameter, refuse, refuse_data


def add_table(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for the table and its format."""
    file = """
    file ..., path or address
        CSV or Parquet file with a header, several of them, a folder of them, or an address (s3://...); '-' is CSV from
        standard input
    """
    add_options(parser, file)
    form = """
    --pattern
        read the files of a pattern (*, ?, [...], **)
    --sep C
        what separates entries: a character, or 'tab' (default: ',', and 'tab' in .tsv files)
    --encoding NAME, default utf-8
        of the text (default: utf-8)
    --na-values A,B,...
        more words that mean a missing entry
    """
    add_options(parser.add_argument_group("how the table is written"), form)


_MOST_LABEL_NAMES = 20
"""Names of columns in the label of a charge at most."""


class InputTable:
    """The table of a command, delimited text or a Parquet file, and the columns that were read.

    Attributes
    ----------
    name : str
        Name of the table in errors.
    columns : list of str
        Names of the columns read so far.

    Parameters
    ----------
    options : argparse.Namespace
    check : callable, optional
        ``check(rows, columns)`` is called when the rows are counted, before their entries are used.
    """

    def __init__(
        self, options: argparse.Namespace, check: Callable[[int, int], None] = lambda rows, columns: None
    ) -> None:
        self._given: list[Any] = options.file
        self._piped = self._given == ["-"]
        self._pattern = getattr(options, "pattern", False)
        self._options = options
        self._check = check
        self.name = "standard input" if self._piped else _public_name(self._given)
        self.columns: list[str] = []

    @property
    def read(self) -> str:
        """Public names of the table and of the columns that were read.

        A long list has the first names only.
        """
        more = [f"... {len(self.columns) - _MOST_LABEL_NAMES} more"] if len(self.columns) > _MOST_LABEL_NAMES else []
        return f"{self.name} ({', '.join([*self.columns[:_MOST_LABEL_NAMES], *more])})"

    def frame(self, columns: list[str] | None, option: str = "--column", text: Collection[str] = ()) -> Any:
        """Return the named columns, or all (of Parquet: all numeric ones), in memory.

        Those in ``text`` are text, entry by entry. A missing entry of text is the empty one.
        """
        if self._is_parquet:
            return self._parquet(columns, option, text)
        rows = self._text(columns, option, text)
        self._check(*rows.shape)
        return rows.frame(text) if self._is_several else rows.frame()

    def parts(self, columns: list[str], beside: str, option: str, text: Collection[str] = ()) -> tuple[Any, ...]:
        """Return the named columns and an additional column as arguments of a fit, for estimators that compute sums."""
        rows = self.rows([*columns, beside], option, text)
        return (rows.having(columns, beside),) if hasattr(rows, "having") else (rows[columns], rows[beside])

    def rows(self, columns: list[str], option: str = "--column", text: Collection[str] = ()) -> Any:
        """Return the named columns for estimators that add rows up, in blocks where that can be done."""
        if not self._is_parquet:
            return self._text(columns, option, text)
        if text or self._options.na_values is not None or (find_spec("duckdb") is None and not self._is_several):
            return self._parquet(columns, option, text)
        return self._duckdb_rows(columns, option)

    @property
    def _path(self) -> Any:
        return self._found[0].path

    @cached_property
    def _found(self) -> list[Any]:
        """The files, and the columns that their folders name."""
        from dpstats.data.file_rows import Found, find_files

        (first, *more) = self._given
        plain = isinstance(first, Path) and not first.is_dir()
        if not more and not self._pattern and (plain or first in ("", "-")):
            return [Found(Path(first), {})]
        if "-" in self._given:
            raise refuse("file", got="- and others", allowed="'-' alone, or files")
        try:
            return find_files(self._given, pattern=self._pattern)
        except InvalidData as error:
            words = re.sub(r"dpstats\.data\.files\((.*?), pattern=True\)", r"--pattern \1", str(error))
        raise InvalidData(words)

    @property
    def _is_several(self) -> bool:
        """Whether there are several files, or columns that folders name, or another file system."""
        return len(self._found) > 1 or bool(self._found[0].folders) or not isinstance(self._path, Path)

    @property
    def _is_parquet(self) -> bool:
        from dpstats.data.duckdb_rows import is_parquet

        return is_parquet(self._path)

    @property
    def _refusal(self) -> str:
        return f"{self.name} is not a readable CSV or Parquet file with a header"

    def _text(self, columns: list[str] | None, option: str, text: Collection[str]) -> Any:
        if not self._is_several:
            rows = self._read_text(self._path, self.name, columns, option, text)
        else:
            from dpstats.data.file_rows import FilePart, join_files
            from dpstats.data.text import Spool

            spool, parts = Spool(), []
            for path, folders in self._found:
                own = None if columns is None else [name for name in columns if name not in folders]
                rows = self._read_text(path, path.name, own, option, text, spool)
                parts.append(FilePart(rows, path.name, folders))
            rows = join_files(parts).having(columns)
        if not rows.columns:
            raise refuse_data(self.name, got="none", allowed="have a numeric column")
        self.columns = list(rows.columns)
        return rows

    def _read_text(
        self, path: Any, name: str, columns: list[str] | None, option: str, text: Collection[str], spool: Any = None
    ) -> Any:
        from dpstats.data.text import read_delimited

        form = text_format(self._options, path)
        with contextlib.ExitStack() as stack:
            with reading(path if isinstance(path, Path) and not self._piped else None, self._refusal):
                stream = stack.enter_context(self._opened(path))
            return read_delimited(stream, name, columns, text=text, form=form, option=option, spool=spool)

    @contextlib.contextmanager
    def _opened(self, path: Any) -> Iterator[BinaryIO]:
        if self._piped:
            if sys.stdin is None:
                raise InvalidData("standard input is closed. Give the name of a file")
            yield sys.stdin.buffer
            return
        with path.open("rb") if isinstance(path, Path) else path.open() as file:
            yield file

    def _duckdb_rows(self, columns: list[str] | None, option: str, text: Collection[str] = ()) -> Any:
        from dpstats.data.duckdb_rows import of_parquet
        from dpstats.data.file_rows import open_files

        with reading(self._path if isinstance(self._path, Path) else None, self._refusal):
            rows: Any = None
            if self._is_several:
                rows = open_files(self._found)
            else:
                with contextlib.suppress(InvalidData):  # which does not name the file
                    rows = of_parquet(self._path)
            if rows is None:
                raise InvalidData(self._refusal)
            if columns is None:
                columns = [name for name in rows.columns if rows.is_number(name)]
                if not columns:
                    raise refuse_data(self.name, got="none", allowed="have a numeric column")
            self._check_names(columns, list(rows.names or ()), option)
            words = tuple(name for name in columns if name in text)
            return rows.having([name for name in columns if name not in text], words or None)

    def _parquet(self, columns: list[str] | None, option: str, text: Collection[str]) -> Any:
        if find_spec("duckdb") is not None or self._is_several:
            rows = self._duckdb_rows(columns, option, text)
            self._check(rows.shape[0], len(self.columns))
            frame = rows.frame()[self.columns]
        else:
            frame = self._pandas(columns, option)
            self._check(*frame.shape)
        found = {name: _as_text(frame[name]) if name in text else frame[name] for name in frame}
        codes = text_format(self._options).missing
        if codes:
            found = {name: _clear_codes(name, column, codes, name in text) for name, column in found.items()}
        return frame.assign(**found)

    def _pandas(self, columns: list[str] | None, option: str) -> Any:
        """Return columns of a Parquet file, as the file has them."""
        import pandas as pd

        lacking = False
        with reading(self._path, self._refusal):
            try:
                # An integer stays an integer if another entry is missing, and its text does not change.
                frame = pd.read_parquet(self._path, dtype_backend="numpy_nullable")
            except ImportError:
                lacking = True
        if lacking:
            raise ModuleNotFoundError(f"reading {self.name} needs a Parquet reader", name="pyarrow")
        if frame.index.names != [None]:
            frame = frame.reset_index()  # a column that was the index of its table
        frame.columns = frame.columns.map(str)
        if columns is None:
            columns = list(frame.select_dtypes("number").columns)
            if not columns:
                raise refuse_data(self.name, got="none", allowed="have a numeric column")
        self._check_names(columns, list(frame.columns), option)
        return frame[columns]

    def _check_names(self, columns: list[str], names: list[str], option: str) -> None:
        from dpstats.data.text import check_names

        check_names(columns, names, self.name, option)
        self.columns = list(columns)


def _public_name(given: Sequence[Any]) -> str:
    """Return the name of a table that the user gave. The files of a folder are not listed, nor counted."""
    paths = [PurePosixPath(urlsplit(word).path) if "://" in str(word) else Path(word) for word in given]
    names = [path.name or str(path) for path in paths]
    return ", ".join(names if len(names) <= _MOST_LABEL_NAMES else [*names[:_MOST_LABEL_NAMES], "..."])


@contextlib.contextmanager
def reading(
    path: Path | None, refusal: str, kind: type[InvalidData | InvalidParameter] = InvalidData
) -> Iterator[None]:
    """Raise an error if a file cannot be read, without the message of the parser, which may quote data."""
    reason = None
    try:
        if path is not None:
            os.stat(path)  # first: a missing file is reported as such, and not as a missing parser
        yield
    except (ImportError, InvalidParameter, InvalidData, MemoryError):
        raise
    except OSError as error:
        reason = error.strerror  # the system's words; None for a parser's
    except Exception:
        pass
    else:
        return
    raise kind(refusal if reason is None else f"{refusal} ({reason})")


_NAMED_SEPARATORS = {"\\t": "\t", "tab": "\t"}


def text_format(options: argparse.Namespace, path: Any = None) -> Any:
    """Return the text format that the options declare, of a file whose ending gives its separator."""
    from dpstats.data.rows import check_codes
    from dpstats.data.text import TextFormat, separator

    if path is None:
        path = Path(str(options.file[0]))
    given = separator(path) if options.sep is None else options.sep
    sep = _NAMED_SEPARATORS.get(given, given)
    if len(sep) != 1 or sep in '"\r\n\0':
        raise refuse("--sep", given=options.sep, allowed="one character, or 'tab'")
    try:
        "".encode(options.encoding)
    except (LookupError, ValueError):
        allowed = "one that Python knows (utf-8, latin-1, cp1252)"
        raise refuse("--encoding", given=options.encoding, allowed=allowed) from None
    return TextFormat(sep, options.encoding, check_codes(missing_words(options), "--na-values"))


def missing_words(options: argparse.Namespace) -> list[str]:
    """Return the words that mean a missing entry, besides the empty one."""
    words = [] if options.na_values is None else split_list(options.na_values)
    return [word for word in words if word.strip()]


def _clear_codes(name: str, column: Any, codes: Any, text: bool) -> Any:
    """Return a column without codes of missing entries: of text as words, otherwise as numbers."""
    import pandas as pd

    from dpstats.data.rows import column_of
    from dpstats.data.values import Words

    found = codes.clear_entries(name, Words(column)) if text else column_of(name, column, codes)
    return pd.Series(list(found) if text else found, index=column.index, dtype=object if text else None)


def _as_text(column: Any) -> Any:
    import pandas as pd

    words = ["" if pd.api.types.is_scalar(entry) and pd.isna(entry) else _word(entry) for entry in column]
    return pd.Series(words, index=column.index, dtype=object)


def _word(entry: Any) -> str:
    """Return the text of an entry of a Parquet file, as a CSV file has it: it depends on this entry only."""
    import numpy as np

    if isinstance(entry, datetime):
        return str(entry).removesuffix(" 00:00:00")
    if isinstance(entry, Decimal):
        entry = float(entry)  # as DuckDB reads it
    if isinstance(entry, float | np.floating):
        return str(entry + type(entry)(0)).removesuffix(".0")
    return str(entry)


def add_unit(parser: argparse.ArgumentParser, kept: str) -> None:
    """Add the option for combining the rows of a unit."""
    text = f"""
    --unit NAME
        the column that says whose row it is: rows of one unit become one, with {kept}, and the guarantee is for
        the unit
    """
    add_options(parser, text)


def read_rows(
    table: InputTable,
    options: argparse.Namespace,
    how: dict[str, str],
    option: str = "--column",
    text: Collection[str] = (),
    changed: Callable[[Any], Any] | None = None,
) -> Any:
    """Return the columns of a table, with one row per unit if requested.

    Parameters
    ----------
    table : InputTable
    options : argparse.Namespace
    how : mapping {column: what is kept of it}
        Rule for combining rows, as in `dpstats.groups.one_row_per_unit`.
    option : str
        Source of the columns.
    text : collection of str
        Columns that are read entry by entry as text.
    changed : callable, optional
        Function that changes the rows of the table one by one, before they are combined.
    """
    columns, unit = list(how), options.unit
    change = changed or (lambda frame: frame)
    if unit is None:
        return change(table.frame(columns, option, text=text))
    if unit in columns:
        raise refuse("--unit", given=unit, allowed=f"a column that is not in {option}")
    from dpstats.groups import one_row_per_unit

    frame = change(table.frame([*columns, unit], f"{option} and --unit", text=[*text, unit]))
    # In a file, a missing entry is empty.
    frame = frame.assign(**{unit: frame[unit].where(frame[unit] != "", None)})
    return one_row_per_unit(frame, unit, how)[columns]
