"""Rows of a DuckDB relation, or of a Parquet or CSV file, which DuckDB reads: larger than memory.

Every number is cast to DOUBLE by itself. What DuckDB says of an error may quote rows, and is not passed on.
"""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.duckdb_functions import overridden
from dpstats.data.engine import Beside, Engine, Part, Work, chosen_columns, refusal
from dpstats.data.tables import Integers, added
from dpstats.errors import InvalidData

_NUMBERS = ("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL")
_UNSIGNED = ("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT")
_ENTRIES = 1 << 20  # of a block
_NAMES = "coalesce isfinite sum count count_star greatest least + - * / // >> < > <= >= = ||"
FUNCTIONS = frozenset(_NAMES.split())
"""Functions and operators of the SQL that runs over a user's connection."""
_VECTOR = 2048  # rows of a chunk of DuckDB's


@dataclass(frozen=True, eq=False, repr=False)
class DuckRows(Engine):
    """Rows that DuckDB reads.

    Attributes
    ----------
    source : callable
        ``source(expressions)`` returns an iterator over blocks of rows, tuples of their values or 2-d arrays.
    aggregate : callable
        ``aggregate(expressions, of)`` returns the only row of a query: see `Engine.aggregates`.
    types : dict
        The type of every column, by its name; public.
    columns, beside
        See `Engine`.
    """

    source: Callable[[Sequence[str], int], Iterator[Any]]
    aggregate: Callable[[Sequence[str], Sequence[str]], Sequence[Any]]
    types: dict[str, str]
    columns: list[str]
    beside: tuple[str, ...] = ()

    @cached_property
    def shape(self) -> tuple[int, int]:
        (n,) = self.aggregates(["count(*)"], ["1"])
        return n, len(self.columns)

    def having(self, columns: Sequence[str] | None, beside: Beside = None) -> DuckRows:
        chosen, others = chosen_columns(list(self.types), columns, beside)
        return replace(self, columns=chosen, beside=others)

    def kind(self, name: Any) -> str | None:
        kind = self.types[name]
        if kind.endswith("]"):
            return None
        if kind.startswith((*_NUMBERS, *_UNSIGNED)):
            return "number"
        return "text" if kind == "VARCHAR" else None

    def expression(self, column: int) -> str:
        name = self.columns[column]
        kind = self.types[name]
        if kind == TEXT_NUMBER:
            # Of an expression: the cast of a bare column moves into the reader, which refuses what is no number.
            return f"TRY_CAST(coalesce({quoted(name)}, '') AS DOUBLE)"
        if not kind.startswith((*_NUMBERS, *_UNSIGNED)) or kind.endswith("]"):
            raise InvalidData(
                f"X must be a 2-d table of numbers, got a column {name!r} of the type {kind.partition('(')[0]}; "
                "project the relation, or cast it"
            )
        return f"CAST({quoted(name)} AS DOUBLE)"

    def aggregates(self, expressions: Sequence[str], of: Sequence[str]) -> list[int]:
        row, failed = None, False
        try:
            row = self.aggregate(expressions, of)
        except InvalidData:
            raise
        except Exception:  # whatever it says may be of the rows
            failed = True
        if failed or row is None:
            raise refusal()
        return [0 if value is None else int(value) for value in row]

    def total(self, work: Work) -> dict[str, Integers]:
        expressions = [self.expression(j) for j in range(len(self.columns))]
        expressions += [sql for name in self.beside for sql in self._beside(name)]
        total: dict[str, Integers] = {}
        seen = 0
        for part in self._parts(expressions):
            seen += len(part.X)
            added(total, work(part))
        if not total:
            added(total, work(Part(np.empty((0, len(self.columns))), self._others([[]] * len(expressions)))))
        if seen != self.shape[0]:
            raise InvalidData("X must have as many rows whenever it is read: it changed meanwhile")
        return total

    def _beside(self, name: str) -> list[str]:
        """Return the SQL of the column beside, in its own type, and of what is missing of it.

        Integers would become floats where one of them is missing: then one row would change how others are read.
        """
        kind = self.types[name]
        if kind.startswith(("BOOLEAN", *_UNSIGNED, "TINYINT", "SMALLINT", "INTEGER", "BIGINT")):
            zero = "FALSE" if kind == "BOOLEAN" else "0"
            return [f"coalesce({quoted(name)}, {zero})", f"{quoted(name)} IS NULL"]
        return [quoted(name), f"{quoted(name)} IS NULL"]

    def _others(self, block: Sequence[Any]) -> list[Any]:
        """Return what is beside the numbers in a block."""
        d = len(self.columns)
        return [
            self._entries(name, block[d + 2 * j], block[d + 2 * j + 1]) for j, name in enumerate(self.beside)
        ]

    def _entries(self, name: str, values: Any, missing: Any) -> Any:
        """Return the entries of a column beside, None for what is missing."""
        if self.types[name] == TEXT_NUMBER:
            values = [None if value is None else _number_or_text(str(value)) for value in list(values)]
        if any(list(missing)):
            pairs = zip(list(values), list(missing), strict=True)
            return [None if absent else value for value, absent in pairs]
        return values

    def _parts(self, expressions: Sequence[str]) -> Iterator[Part]:
        d = len(self.columns)
        rows = max(_VECTOR, _ENTRIES // max(1, len(expressions)))
        blocks = self.source(expressions, rows)
        while True:
            block, failed = None, False
            try:
                block = next(blocks, None)
            except InvalidData:
                raise
            except Exception:
                failed = True
            if failed:
                raise refusal()
            if block is None:
                return
            X = np.empty((len(block[0]), d), dtype=np.float64)
            for j in range(d):
                X[:, j] = block[j]
            yield Part(X, self._others(block))


TEXT_NUMBER = "TEXT"
"""The type of a column of a CSV file: each entry is read as a number, or is missing, by itself."""


def _numbered(expressions: Sequence[str]) -> str:
    """Return the list of a SELECT, with names that are not the user's."""
    return ", ".join(f"{sql} AS c{j}" for j, sql in enumerate(expressions))


def quoted(name: str) -> str:
    """Return a name as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def check_duckdb() -> None:
    """Refuse a DuckDB whose SQL has not been tried: an older one answers some of our questions otherwise."""
    import duckdb

    found = str(duckdb.__version__)
    if int(found.partition(".")[0]) < 2:
        raise InvalidData(f"X needs DuckDB 2.0 or newer, got DuckDB {found}: pip install 'dpstats[sql]'")


def of_relation(relation: Any) -> DuckRows:
    """Return the rows of a relation: each pass runs it again."""
    check_duckdb()
    types = {str(name): str(kind) for name, kind in zip(relation.columns, relation.types, strict=True)}
    if len(types) < len(relation.columns):
        raise InvalidData("X must have a name of its own for every column")

    def source(expressions: Sequence[str], rows: int) -> Iterator[Any]:
        _check_functions(relation)
        asked = relation.project(_numbered(expressions))
        reader = _arrow_reader(asked, rows)
        if reader is not None:
            for batch in reader:
                yield [_array_of(column) for column in batch.columns]
            return
        # Without pyarrow, Python's numbers, which takes ten times as long.
        values = asked.iter_rows()
        while block := list(islice(values, rows)):
            yield [_floats(column) for column in zip(*block, strict=True)]

    def aggregate(expressions: Sequence[str], of: Sequence[str]) -> Sequence[Any]:
        _check_functions(relation)
        found: Sequence[Any] = relation.project(_numbered(of)).aggregate(", ".join(expressions)).fetchall()[0]
        return found

    return DuckRows(source, aggregate, types, list(types))


def _check_functions(relation: Any) -> None:
    """Refuse a connection whose own functions would give our SQL another meaning: a clip that does not clip, say."""
    name = overridden(lambda sql: relation.query("dpstats_relation", sql).fetchall(), FUNCTIONS)
    if name is not None:
        raise InvalidData(
            "X must be of a connection without a macro of the name of a function that sums use, and without a Python "
            f"function of such a name, got {name!r}. Remove it, or open another connection."
        )


def of_file(path: Path) -> DuckRows:
    """Return the rows of a Parquet or CSV file."""
    if find_spec("duckdb") is None:
        raise InvalidData("X is a file, which needs DuckDB: pip install 'dpstats[sql]'")
    import duckdb

    check_duckdb()
    if not path.is_file():
        raise InvalidData(f"X must be a file that is there, got {str(path)!r}")
    connection = duckdb.connect(config={"python_enable_replacements": False})
    table = _table_of(path)
    columns = _described(connection, table)
    if columns is None:
        raise refusal()
    text = ".parquet" not in path.suffixes
    types = {name: TEXT_NUMBER if text else kind for name, kind in columns}
    if len(types) < len(columns):
        raise InvalidData("X must have a name of its own for every column")

    def source(expressions: Sequence[str], rows: int) -> Iterator[Any]:
        cursor = connection.cursor()
        cursor.execute(f"SELECT {_numbered(expressions)} FROM {table}")
        while len(frame := cursor.fetch_df_chunk(max(1, rows // _VECTOR))):
            yield [_array_of(frame[name]) for name in frame.columns]

    def aggregate(expressions: Sequence[str], of: Sequence[str]) -> Sequence[Any]:
        asked = f"SELECT {', '.join(expressions)} FROM (SELECT {_numbered(of)} FROM {table})"
        found: Sequence[Any] = connection.execute(asked).fetchall()[0]
        return found

    return DuckRows(source, aggregate, types, list(types))


def _table_of(path: Path) -> str:
    """Return the SQL of a file: of text nothing is guessed from its rows, so that none changes how others are read."""
    name = file_literal(path)
    if ".parquet" in path.suffixes:
        return f"read_parquet({name}, hive_partitioning=false)"
    delimiter = "\\t" if ".tsv" in path.suffixes else ","
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", newline="") as file:
        names = next(csv.reader(file, delimiter="\t" if delimiter == "\\t" else ","), [])
    if not names or len(set(names)) < len(names):
        raise InvalidData(f"X must have a first line that names every column once, got {str(path)!r}")
    columns = ", ".join(f"'{column.replace(chr(39), chr(39) * 2)}': 'VARCHAR'" for column in names)
    separator = f"E'{delimiter}'" if delimiter == "\\t" else "','"
    return (
        f"read_csv({name}, auto_detect=false, header=true, delim={separator}, quote='\"', escape='\"', "
        f"columns={{{columns}}}, hive_partitioning=false)"
    )


def file_literal(path: Path) -> str:
    """Return the SQL literal of the one file with this path: none of its characters is a pattern or a protocol.

    Raises
    ------
    InvalidData
        If the path has a backslash beside a character of a pattern, which DuckDB cannot be told to take literally.
    """
    name = os.path.abspath(path)
    if "\\" in name and set("[]*?") & set(name):
        raise InvalidData(
            f"X must be the path of a file without a backslash beside one of []*?, got {str(path)!r}. Rename the file."
        )
    escaped = "".join(f"[{letter}]" if letter in "[]*?" else letter for letter in name)
    return "'" + escaped.replace("'", "''") + "'"


def _described(connection: Any, table: str) -> list[tuple[str, str]] | None:
    try:
        found = connection.execute(f"DESCRIBE SELECT * FROM {table}").fetchall()
    except Exception:
        return None
    return [(str(row[0]), str(row[1])) for row in found]


def _arrow_reader(relation: Any, rows: int) -> Any:
    return None if find_spec("pyarrow") is None else relation.to_arrow_reader(rows)


def _array_of(column: Any) -> Any:
    """Return a column of a block: numbers as an array, with NaN for what is missing; anything else as a list."""
    kind = str(getattr(column, "type", getattr(column, "dtype", "")))
    if kind in ("double", "float64"):
        values = column.to_numpy(zero_copy_only=False) if hasattr(column, "type") else column.to_numpy()
        return np.asarray(values, dtype=np.float64)
    return column.to_pylist() if hasattr(column, "to_pylist") else column.tolist()


def _number_or_text(text: str) -> float | str:
    """Return what an entry of a text file is: a number if it reads as one."""
    try:
        return float(text)
    except ValueError:
        return text


def _floats(column: Sequence[Any]) -> Any:
    if all(type(value) in (float, type(None)) for value in column):
        found: NDArray[np.float64] = np.array(column, dtype=np.float64)
        return found
    return list(column)
