"""Rows of several files: a folder, a list of paths, a pattern, or addresses such as ``s3://bucket/rows.parquet``.

Each file has its own declared types, and the sums of all files are added up. So neither the other
files nor the boundaries between them decide what a row contributes, and statistics in a file decide nothing. What the
files must have in common is public: their format, and the names and the order of their columns.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path, PurePath
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np

from dpstats.data.batches import Beside, Engine, Part, Work, chosen_columns
from dpstats.data.columns import WORDS
from dpstats.data.duckdb_rows import Address, File, ParquetColumns, connect, is_parquet, parquet_columns, read_tables
from dpstats.data.rows import Integers, Sums, added, column_of
from dpstats.data.text import of_text_file
from dpstats.data.values import Words
from dpstats.errors import InvalidData, refuse_data, show

PACKED = ("", ".gz", ".bz2", ".xz", ".zip")
_TEXTS = (".csv", ".tsv", ".txt")
TABLES = (".parquet", ".pq", ".zip", *(f"{kind}{packed}" for kind in _TEXTS for packed in PACKED))
"""Endings of the files that can be read."""
_LAKES = {"_delta_log": "Delta", ".hoodie": "Hudi"}
_MISSING_FOLDER = "__HIVE_DEFAULT_PARTITION__"


class Found(NamedTuple):
    """A file, and the columns that its folders name.

    Attributes
    ----------
    path : Path or Address
    folders : mapping of str to str
        The word of each column that a folder ``name=word`` gives to all rows of the file. The empty word is missing.
    """

    path: File
    folders: Mapping[str, str]


def files(paths: Any, *, pattern: bool = False) -> FileRows:
    """Return the rows of several files as one table.

    Every estimator takes the result as ``X``, and `dpstats.sql.PrivateSQL` takes it as a table. A folder needs no call
    of this function: its path is ``X``.

    Parameters
    ----------
    paths : str, path, or list of these
        A file, a folder, or an address such as ``s3://bucket/folder``. Of a folder, all files below it are read,
        except those whose name, or whose folder's name, begins with a dot or an underscore. They are all Parquet, or
        all delimited text. Folders that are named ``name=word`` below it are columns of text, as in a CSV file.
    pattern : bool, default False
        Whether ``paths`` are patterns: ``*``, ``?`` and ``[...]`` stand for a part of a name, and ``**`` for folders.
        Otherwise these are characters of names.

    Returns
    -------
    Source
        The rows, which have no order.

    Raises
    ------
    InvalidData
        If there is no file, or a file occurs twice or has other columns than the first. Also for the folder of a
        Delta, Hudi or Iceberg table, which has deleted rows, too.

    Notes
    -----
    Each file keeps its own types. A column of numbers may be whole in one file and a float in another, and a column
    without a type, which has no entry, fits to every other one. A column of text in one file and of numbers in
    another is refused before any charge. Rows that are in two files count twice.

    Examples
    --------
    >>> import os, tempfile
    >>> import pandas as pd
    >>> from dpstats.data import files
    >>> from dpstats.means import ClippedMean
    >>> visits = tempfile.mkdtemp()
    >>> for year in (2025, 2026):
    ...     os.mkdir(f"{visits}/year={year}")
    ...     pd.DataFrame({"days": range(100)}).to_csv(f"{visits}/year={year}/part-0.csv", index=False)
    >>> mean = ClippedMean(bounds={"days": (0, 100), "year": (2020, 2030)}, random_state=0)
    >>> mean.fit(visits).mean_.round(1)
    array([  50.2, 2025.6])
    >>> mean.fit(files(f"{visits}/*/part-*.csv", pattern=True)).plan_.n_samples
    200
    """
    return open_files(find_files(paths, pattern=pattern))


# Files


def find_files(paths: Any, *, pattern: bool = False) -> list[Found]:
    """Return the files of a folder, a list, a pattern or an address, sorted by name. This reads no file."""
    given = list(paths) if isinstance(paths, list | tuple) else [paths]
    if not all(isinstance(path, str | os.PathLike) for path in given):
        raise refuse_data("X", allowed="a path, or a list of paths")
    found = [file for path in given for file in _find(path, pattern)]
    if not found:
        raise refuse_data(
            "X", got="none", allowed="name at least one file", remedy=_ENDINGS if given else "Give a path."
        )
    _check_once(found)
    if len({is_parquet(file.path) for file in found}) > 1:
        raise refuse_data(
            "X",
            got="both",
            allowed="files of one format, Parquet or delimited text",
            remedy="Name the files of one format by a pattern: dpstats.data.files('folder/*.csv', pattern=True).",
        )
    return found


_ENDINGS = f"Files end in {', '.join((*TABLES[:2], *_TEXTS))}; text may be compressed ({', '.join(PACKED[1:])})."


def _find(path: str | os.PathLike[str], pattern: bool) -> Iterator[Found]:
    if isinstance(path, str) and "://" in path:
        found = Address.parse(path)
        if isinstance(found, Address):
            yield from _find_address(found, pattern)
            return
        path = found
    if not pattern:
        yield from _below(Path(path), Path(path), named=True)
        return
    root = Path(*_find_root(PurePath(path).parts))
    recursive = "**" in PurePath(path).parts  # which matches folders, and the files below them
    for match in map(Path, sorted(glob.glob(str(path), recursive=True))):
        for beside in _LAKES:
            if (match.parent / beside).exists():
                _check_lake(beside)
        if not _is_hidden(match.name) and not (recursive and match.is_dir()):
            yield from _below(match, root, named=False)


def _find_root(parts: Sequence[str]) -> list[str]:
    """Return the folders above the first part that is a pattern."""
    place = next((i for i, part in enumerate(parts) if set(part) & set("*?[")), len(parts) - 1)
    return list(parts[:place])


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_"))


def _below(path: Path, root: Path, *, named: bool) -> Iterator[Found]:
    """Yield a file, or the files below a folder. ``named`` says that the caller named it."""
    if not path.is_dir():
        if named and not path.is_file():
            raise refuse_data("X", got=repr(str(path)), allowed="an existing file or folder")
        _check_ending(path)
        yield Found(path, _folder_columns(path, root))
        return
    for entry in sorted(_list_folder(path), key=lambda entry: entry.name):
        _check_lake(entry.name)
        if not _is_hidden(entry.name):
            yield from _below(entry, root, named=False)


def _list_folder(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError as error:
        reason = error.strerror
    raise refuse_data("X", got=repr(folder.name), allowed=f"a folder that can be read ({reason})")


def _check_ending(path: File | PurePath) -> None:
    if not path.name.lower().endswith(TABLES):
        raise refuse_data(
            "X",
            got=f"one that ends in {path.suffix!r}" if path.suffix else "one without an ending",
            allowed="files of tables",
            remedy=f"{_ENDINGS} Select files by a pattern: dpstats.data.files('folder/*.csv', pattern=True).",
        )


def _check_lake(name: str) -> None:
    """Refuse a name in the folder of a table whose files also hold rows that were deleted or replaced."""
    kind = "Iceberg" if name.endswith(".metadata.json") else _LAKES.get(name)
    if kind is not None:
        raise refuse_data(
            "X",
            got=f"the folder of a {kind} table",
            allowed="files whose rows all count",
            remedy="Such a folder also holds deleted rows. Read the current ones by its own reader, for "
            f"example duckdb.sql(\"FROM {kind.lower()}_scan('folder')\").",
        )


def _folder_columns(path: PurePath, root: PurePath) -> dict[str, str]:
    """Return the columns that folders between a root and a file name, and the word of each."""
    found: dict[str, str] = {}
    for part in path.parts[len(root.parts) : -1]:
        name, equals, word = part.partition("=")
        if not (name and equals):
            continue
        name = unquote(name)
        if name in found:
            raise refuse_data("X", got=f"{name!r} twice", allowed="have folders of different columns")
        found[name] = "" if word == _MISSING_FOLDER else unquote(word)
    return found


def _check_once(found: Sequence[Found]) -> None:
    """Refuse a file that is named twice, also by a link: its rows would count twice."""
    seen = set()
    for path, _ in found:
        identity: Any = str(path)
        if isinstance(path, Path):
            with suppress(OSError):
                about = os.stat(path)
                identity = about.st_dev, about.st_ino
        if identity in seen:
            raise refuse_data(
                "X", got=f"{path.name!r} twice", allowed="name each file once", remedy="Its rows would count twice."
            )
        seen.add(identity)


def _find_address(address: Address, pattern: bool) -> Iterator[Found]:
    """Yield the files at an address, which may be a folder or a pattern if a library lists it."""
    library, is_table = address.files, address.name.lower().endswith(TABLES)
    if library is None and (pattern or not is_table):
        raise refuse_data(
            "X",
            got="a folder or a pattern at an address",
            allowed="the address of a file, where fsspec cannot list it",
            remedy="Install fsspec's package for it, or give the addresses of the files as a list.",
        )
    # A page is listed by its links. Rows of a table may be links, too.
    if library is None or (address.is_page and is_table and not pattern):
        yield Found(address, {})
        return
    parts = address.path.parts
    root = PurePath(*_find_root(parts)) if pattern else address.path
    for found in address.find(pattern):
        inner = (*found.path.parts[len(root.parts) : -1], found.name)
        for name in inner:
            _check_lake(name)
        if not any(map(_is_hidden, inner)):
            _check_ending(found)
            yield Found(found, _folder_columns(found.path, root))


# Rows


class FilePart(NamedTuple):
    """Rows of some files.

    Attributes
    ----------
    rows : Engine
    name : str
        Public name of the first file, for errors.
    folders : mapping of str to str
        See `Found`.
    """

    rows: Engine
    name: str
    folders: Mapping[str, str]

    @property
    def names(self) -> list[str]:
        """The names of all columns."""
        return [*(self.rows.names or []), *self.folders]


def open_files(found: Sequence[Found]) -> FileRows:
    """Return the rows of files, from public facts of their headers."""
    if not is_parquet(found[0].path):
        shared = connect([]) if len(found) > 1 else None
        texts = [FilePart(of_text_file(path, shared), path.name, folders) for path, folders in found]
        return join_files(texts, found)
    tables: dict[Any, list[File]] = {}
    names: list[Mapping[str, str]] = []
    connection = connect([path for path, _ in found])
    headers = _read_headers(connection, [path for path, _ in found])
    for (path, folders), columns in zip(found, headers, strict=True):
        # DuckDB reads files of the same types at once, and no type is changed for the sake of another file.
        key = columns, tuple(folders.items())
        if key not in tables:
            names.append(folders)
        tables.setdefault(key, []).append(path)
    parts = [
        FilePart(read_tables(connection, paths, columns), paths[0].name, folders)
        for ((columns, _), paths), folders in zip(tables.items(), names, strict=True)
    ]
    return join_files(parts, found)


def _read_headers(connection: Any, paths: Sequence[File]) -> list[ParquetColumns]:
    """Return the columns of Parquet files, or say which file cannot be read."""
    try:
        return parquet_columns(connection, paths)
    except (InvalidData, MemoryError):
        raise
    except Exception:  # its message may quote data
        unreadable = "" if len(paths) > 1 else repr(paths[0].name)
    for path in paths if not unreadable else ():
        _read_headers(connection, [path])
    raise refuse_data("X", got=unreadable or None, allowed="Parquet files that can be read")


def join_files(parts: Sequence[FilePart], found: Sequence[Found] = ()) -> FileRows:
    """Return the rows of several parts, which must have the same columns."""
    names = check_same_columns([(part.name, part.rows.names or [], part.folders) for part in parts])
    return FileRows(tuple(parts), tuple(found), names)


def check_same_columns(parts: Sequence[tuple[str, Sequence[str], Mapping[str, str]]]) -> list[str]:
    """Return the names of the columns that all files have. A part is a name, and columns of its files and folders."""
    first, listed = parts[0][0], [*parts[0][1], *parts[0][2]]
    for name, columns, folders in parts:
        names = [*columns, *folders]
        if both := [column for column in folders if column in columns]:
            raise refuse_data(
                "X",
                got=f"{both[0]!r} in both",
                allowed="have each column in its files or in the names of its folders",
                remedy="Drop it from the files, or give the files as a list.",
            )
        if names != listed:
            # A further name can be an entry: text without a first line of names, such as a part of a file that was cut.
            missing, more = set(listed) - set(names), set(names) - set(listed)
            different = f"further columns in {name!r} than in {first!r}" if more else f"another order in {name!r}"
            raise refuse_data(
                "X",
                got=f"{min(missing)!r} in {first!r} and not in {name!r}" if missing else different,
                allowed="have the same columns, in the same order, in all files",
                remedy='Select the files by a pattern, or the columns by duckdb.sql("SELECT ...").',
            )
    return listed


@dataclass(frozen=True, eq=False, repr=False)
class FileRows(Engine):
    """Rows of several files.

    Attributes
    ----------
    parts : tuple of FilePart
    found : tuple of Found
        The files.
    columns, beside
        See `Engine`.
    """

    parts: tuple[FilePart, ...]
    found: tuple[Found, ...]
    columns: list[str]
    beside: tuple[str, ...] = ()

    @cached_property
    def shape(self) -> tuple[int, int]:
        return sum(rows.shape[0] for rows, _ in self._chosen_parts), len(self.columns)

    def having(self, columns: Sequence[str] | None, beside: Beside = None) -> FileRows:
        chosen, others = chosen_columns(self.parts[0].names, columns, beside)
        for name in (*chosen, *others):
            self.kind(name)
        return replace(self, columns=chosen, beside=others)

    def kind(self, name: Any) -> str | None:
        if name in self.parts[0].folders:
            return WORDS
        kinds = {part.rows.kind(name): part.name for part in reversed(self.parts)}
        kinds.pop(None, None)  # a column without a type has no entry
        if len(kinds) > 1:
            (one, first), (other, second), *_ = sorted(kinds.items())
            raise refuse_data(
                "X",
                got=f"{one} in {first!r} and {other} in {second!r} for {show(name)}",
                allowed="have one kind of entries in a column of all files",
                remedy="Write the files with the same types.",
            )
        return next(iter(kinds), None)

    def is_number(self, name: str) -> bool:
        """Return whether a column has a numeric type in all files that give it a type."""
        return self.kind(name) == "number"

    def total(self, work: Work) -> dict[str, Integers]:
        total: dict[str, Integers] = {}
        for rows, part in self._chosen_parts:
            added(total, rows.total(partial(self._work, work, rows, part)))
        return total

    def _work(self, work: Work, rows: Engine, part: FilePart, some: Part) -> Sums:
        return work(self._complete(some, rows, part))

    def aggregates(self, expressions: Sequence[str], of: Sequence[str]) -> list[int] | None:
        found = [rows.aggregates(expressions, of) for rows, _ in self._chosen_parts]
        return None if None in found else [sum(values) for values in zip(*found, strict=True)]

    def expression(self, column: int) -> str | None:
        return None if self._expressions is None else self._expressions[column]

    @cached_property
    def _expressions(self) -> list[str] | None:
        """The SQL of the columns of numbers, if it is the same for all parts."""
        if set(self.columns) & set(self.parts[0].folders):
            return None
        asked = range(len(self.columns))
        first, *others = {tuple(rows.expression(j) for j in asked) for rows, _ in self._chosen_parts}
        shared = [sql for sql in first if sql is not None]
        return shared if not others and len(shared) == len(first) else None

    @cached_property
    def _chosen_parts(self) -> list[tuple[Engine, FilePart]]:
        """The rows of each part, with the chosen columns that are in its files, or any other one to count them."""
        found = []
        for part in self.parts:
            columns = [name for name in self.columns if name not in part.folders]
            others = tuple(name for name in self.beside if name not in part.folders)
            if not columns and not others:
                others = tuple(part.rows.names or ())[:1]
            rows = part.rows.having(columns, others)
            vars(rows)["codes"] = self.codes
            found.append((rows, part))
        return found

    def _complete(self, some: Part, rows: Engine, part: FilePart) -> Part:
        """Return rows with the columns that the folders name."""
        if not part.folders:
            return some
        n = len(some.X)
        X = np.empty((n, len(self.columns)))
        for j, name in enumerate(self.columns):
            given = (rows.columns or []).index(name) if name not in part.folders else None
            X[:, j] = self._number(part.folders[name]) if given is None else some.X[:, given]
        beside = dict(zip(rows.beside, some.beside, strict=True))
        return Part(
            X, [Words([part.folders[name]] * n) if name in part.folders else beside[name] for name in self.beside]
        )

    def _number(self, word: str) -> float:
        return float(column_of("X", Words([word]), self.codes)[0])

    def frame(self, text: Sequence[str] = ()) -> Any:
        """Return the rows as a pandas data frame, with numbers as float64 and additional columns as objects."""
        import pandas as pd

        frames = []
        for rows, part in self._chosen_parts:
            reader: Any = rows
            frame = reader.frame()
            for name in part.folders.keys() & {*self.columns, *self.beside}:
                word, is_text = part.folders[name], name in self.beside or name in text
                kind = object if is_text else float
                frame[name] = pd.Series(
                    [word if is_text else self._number(word)] * len(frame), index=frame.index, dtype=kind
                )
            frames.append(frame[[*self.columns, *self.beside]])
        return pd.concat(frames, ignore_index=True)
