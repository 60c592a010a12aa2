"""Tables of DuckDB that are made of files and data frames."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from dpstats.data.duckdb_rows import File, file_literal, parquet_columns, parquet_table, text_literal
from dpstats.data.file_rows import FileRows, Found, check_same_columns, find_files
from dpstats.data.parameters import column_names
from dpstats.errors import InvalidData, refuse, refuse_data, show
from dpstats.sql.catalogue import DUCKDB, fold, quoted

Listed = tuple[tuple[str, str], ...]
"""Names and types of the columns of a file."""


# Files


def found_files(given: Any) -> list[Found]:
    """Return the files of a table: of a path, of a folder, or of `dpstats.data.files`."""
    if isinstance(given, FileRows):
        return [Found(_resolve(path), folders) for path, folders in given.found]
    path = Path(given) if "://" not in str(given) else given
    if isinstance(path, Path) and not path.is_dir():
        return [Found(path.resolve(), {})]
    return [Found(_resolve(path), folders) for path, folders in find_files(path)]


def _resolve(path: File) -> File:
    return path.resolve() if isinstance(path, Path) else path


def table_label(given: Any) -> str:
    """Return the public name of the files of a table."""
    if isinstance(given, FileRows):
        return given.found[0].path.name
    return PurePosixPath(str(given).partition("?")[0]).name if "://" in str(given) else Path(given).resolve().name


def parquet_source(connection: Any, found: Sequence[Found]) -> tuple[Listed, str]:
    """Return the columns of Parquet files, and the SQL of their table, in which each column has one type."""
    tables: dict[Any, list[File]] = {}
    for (path, folders), columns in zip(found, parquet_columns(connection, [path for path, _ in found]), strict=True):
        tables.setdefault((columns, tuple(folders.items())), []).append(path)
    headers = [
        (paths[0].name, [name for name, _ in columns.types], dict(folders))
        for (columns, folders), paths in tables.items()
    ]
    check_same_columns(headers)
    described = []
    for (columns, _), paths in tables.items():
        rows = connection.execute(f"DESCRIBE SELECT * FROM {parquet_table(paths, columns)}").fetchall()
        described.append([(str(row[0]), str(row[1])) for row in rows])
    listed = tuple(
        (column[0][0], _common_type(column[0][0], [kind for _, kind in column]))
        for column in zip(*described, strict=True)
    )
    sources = []
    for ((columns, folders), paths), own in zip(tables.items(), described, strict=True):
        table = parquet_table(paths, columns)
        if tuple(own) != listed:
            cast = ", ".join(f"CAST({quoted(name)} AS {kind}) AS {quoted(name)}" for name, kind in listed)
            table = f"(SELECT {cast} FROM {table})"
        sources.append(add_folders(table, [name for name, _ in listed], dict(folders)))
    return listed, sources[0] if len(sources) == 1 else f"({' UNION ALL '.join(sources)})"


def add_folders(table: str, columns: Sequence[str], folders: Mapping[str, str]) -> str:
    """Return the SELECT of a table with the columns that folders name. An empty word is missing."""
    words = [
        f"CAST({text_literal(word) if word else 'NULL'} AS VARCHAR) AS {quoted(name)}" for name, word in folders.items()
    ]
    return f"(SELECT {', '.join([*map(quoted, columns), *words])} FROM {table})"


_SIGNED = ["TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"]
_WHOLE = [*_SIGNED, "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"]


def _common_type(name: str, kinds: Sequence[str]) -> str:
    """Return the type of a column of several files, which has the numbers of each of their types."""
    known = dict.fromkeys(kind for kind in kinds if kind != '"NULL"') or dict.fromkeys(kinds)
    if len(known) == 1:
        return next(iter(known))
    if known.keys() <= set(_SIGNED):
        return max(known, key=_SIGNED.index)
    if known.keys() <= set(_WHOLE):
        return "HUGEINT"
    if known.keys() <= {*_WHOLE, "FLOAT", "DOUBLE"}:
        return "DOUBLE"
    raise refuse_data(
        "X",
        got=f"{' and '.join(sorted(known))} for {show(name)}",
        allowed="have one type of a column, or numbers, in all files",
        remedy="Write the files with the same types.",
    )


def file_identity(path: Path) -> tuple[int, ...]:
    reason = "is not there"
    try:
        found = os.stat(path)
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
    except OSError as error:
        reason = error.strerror or reason
    raise InvalidData(f"{path.name} cannot be read ({reason})")


def check_different_names(where: str, names: Iterable[Any]) -> None:
    """Refuse columns that differ in case only: a query could not say which of them it means."""
    known: set[str] = set()
    for name in names:
        if fold(name) in known:
            raise InvalidData(f"{where}: two columns are named {str(name)!r} (names ignore case). Rename one.")
        known.add(fold(name))


# Data frames


def frame_forms(given: Any) -> Iterator[Any]:
    """Yield a data frame unchanged, and as a pandas data frame, because DuckDB needs pyarrow for others."""
    yield given
    with contextlib.suppress(Exception):
        import narwhals as nw
        import pandas as pd

        frame = nw.from_native(given).lazy().collect()
        # The declared types, because pandas would guess them from the rows.
        kinds = {
            name: "Int64"
            if kind.is_integer()
            else "float64"
            if kind.is_float()
            else "boolean"
            if kind == nw.Boolean
            else object
            for name, kind in frame.schema.items()
        }
        columns = frame.to_dict(as_series=False)
        yield pd.DataFrame({name: pd.Series(columns[name], dtype=kind) for name, kind in kinds.items()})


def copy_frame(connection: Any, table: str, frame: Any) -> dict[str, str] | None:
    """Make a table of a data frame, and return the types of its columns, or None if DuckDB cannot read it."""
    with contextlib.suppress(Exception):
        connection.register("dpstats frame", frame)
        described = connection.execute('DESCRIBE SELECT * FROM "dpstats frame"').fetchall()
        columns = [str(row[0]) for row in described]
        # Name a column without a name as in a file: DuckDB names it differently.
        given = [name or f"column {place}" for place, name in enumerate(map(str, column_names(frame) or ()), 1)]
        names = given if len(given) == len(columns) else columns
        # Categories become text, because the type of an ENUM lists its values, and so do columns without a value.
        kinds = {
            name: "VARCHAR" if row[1].startswith("ENUM") or row[1] == '"NULL"' else str(row[1])
            for name, row in zip(names, described, strict=True)
        }
        listed = ", ".join(
            f"{f'CAST({quoted(column)} AS VARCHAR)' if kinds[name] == 'VARCHAR' else quoted(column)} AS {quoted(name)}"
            for name, column in zip(names, columns, strict=True)
        )
        connection.execute(f'CREATE TABLE {table} AS SELECT {listed} FROM "dpstats frame"')
        connection.unregister("dpstats frame")
        return kinds
    return None


# Optimizer

_SAFE_OPTIMIZER_RULES = frozenset(
    [
        "build_side_probe_side",
        "column_lifetime",
        "common_aggregate",
        "common_subexpressions",
        "cte_inlining",
        "expression_rewriter",
        "join_order",
        "materialized_cte",
        "reorder_filter",
        "unused_columns",
    ]
)
"""Rules that rewrite expressions, leave out columns that nobody uses, and order the work.

Statistics decide at most the order of joins, and sums of integers are the same in any order.
"""


def keep_safe_rules(connection: Any) -> None:
    """Switch off all rules of the optimizer but those whose results no statistics can change.

    A file states the least and the greatest entry of its columns. NaN is not among them, and some writers
    cut or order text otherwise than DuckDB. Rules that believe it leave out rows, so that one row of a file can hide
    others. Conditions are not moved into the reader of a file either, which skips parts of it.
    """
    rules = connection.execute("SELECT name FROM system.main.duckdb_optimizers()").fetchall()
    off = sorted({name for (name,) in rules} - _SAFE_OPTIMIZER_RULES)
    connection.execute(f"SET disabled_optimizers = '{','.join(off)}'")


_FALSE_STATISTICS = Path(__file__).with_name("statistics.parquet")
"""A file with false statistics, which tests/sql/statistics_file.py makes."""


def check_reading(connection: Any) -> None:
    """Refuse a DuckDB that believes the statistics of a file, by a file of this package with false statistics.

    A part of it has NaN, infinity, and entries beyond those
    that it states as its greatest.
    """
    read = f"read_parquet({file_literal(_FALSE_STATISTICS)})"
    x, y = (DUCKDB.only_finite(name) for name in "xy")
    checks = {
        f"SELECT count(*), count({x}), count({y}), sum(n) FROM {read}": [(8, 5, 5, 1975308656)],
        f"SELECT count(*) FROM {read} WHERE {x} > 19.5": [(4,)],
        f"SELECT count(*) FROM {read} WHERE {x} > 20.5 OR NOT {x} <= 20.5": [(0,)],
        f"SELECT count(*) FROM {read} WHERE {x} IS NULL": [(3,)],
        f"SELECT count(*) FROM {read} WHERE abs({y}) > 3": [(0,)],
        f"SELECT count(*) FROM {read} WHERE n > 4": [(2,)],
        f"SELECT count(*) FROM {read} WHERE s > 'b'": [(2,)],
        f"SELECT count(*) FROM (SELECT n, count(*) FROM {read} GROUP BY n) AS q": [(6,)],
        f"SELECT count(*) FROM {read} AS a JOIN (SELECT n FROM {read} WHERE n > 4) AS b ON a.n = b.n": [(4,)],
    }
    for sql, expected in checks.items():
        found = None
        with contextlib.suppress(Exception):
            found = connection.execute(sql).fetchall()
        if found != expected:
            raise refuse(
                "connection",
                got="one that leaves out rows by the statistics of the file",
                allowed="be to a DuckDB that reads every row of a Parquet file",
                remedy="Read the file into a data frame, or install another version.",
            )
