"""Writers of tables, as files and as containers. Each returns None for a table that it cannot hold."""

from __future__ import annotations

import bz2
import contextlib
import csv
import gzip
import io
import math
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from tests.outside.files.tables import TableCase

Writer = Callable[[TableCase, Path], Any]
"""(table, folder) -> the path of a file, or a container."""

ARROW = {
    "text": pa.string(),
    "float": pa.float64(),
    "integer": pa.int64(),
    "truth": pa.bool_(),
    "decimal": pa.decimal128(20, 2),
}
NULLABLE = {"text": "string", "float": "Float64", "integer": "Int64", "truth": "boolean", "decimal": object}


def to_arrow(table: TableCase) -> pa.Table:
    """Return the table of Arrow."""
    columns = [
        pa.array([record[place] for record in table.records], type=ARROW[kind])
        for place, kind in enumerate(table.kinds)
    ]
    return pa.table(columns, names=table.names)


def to_objects(table: TableCase) -> pd.DataFrame:
    """Return a pandas data frame of Python's objects."""
    frame = pd.DataFrame(index=range(len(table.records)))
    columns = [
        pd.Series([record[place] for record in table.records], dtype=object) for place in range(len(table.names))
    ]
    return pd.concat([frame, *columns], axis=1).set_axis(table.names, axis=1)


def to_nullable(table: TableCase) -> pd.DataFrame:
    """Return a pandas data frame of nullable types."""
    columns = [
        pd.Series([record[place] for record in table.records], dtype=NULLABLE[kind])
        for place, kind in enumerate(table.kinds)
    ]
    return pd.concat(columns, axis=1).set_axis(table.names, axis=1)


def to_polars(table: TableCase) -> pl.DataFrame:
    """Return a data frame of polars."""
    frame: pl.DataFrame = pl.from_arrow(to_arrow(table))  # type: ignore[assignment]
    return check_names(table, frame, frame.columns)


def to_relation(table: TableCase) -> Any:
    """Return a relation of DuckDB."""
    relation = duckdb.connect().from_arrow(to_arrow(table))
    return check_names(table, relation, relation.columns)


def check_names(table: TableCase, made: Any, names: list[str]) -> Any:
    """Refuse what a library made with names of its own."""
    assert names == table.names
    return made


CONTAINERS: dict[str, Callable[[TableCase], Any]] = {
    "pandas of objects": to_objects,
    "pandas, nullable": to_nullable,
    "pandas of Arrow": lambda table: to_arrow(table).to_pandas(types_mapper=pd.ArrowDtype),
    "polars": to_polars,
    "polars, lazy": lambda table: to_polars(table).lazy(),
    "Arrow": to_arrow,
    "DuckDB": to_relation,
}


def spell(entry: Any) -> str:
    """Return an entry as csv.writer spells it, with the words of NumPy for numbers that are none."""
    if isinstance(entry, float) and not math.isfinite(entry):
        return {math.inf: "inf", -math.inf: "-inf"}.get(entry, "nan")
    return "" if entry is None else str(entry)


def write_with_csv(end: str, quoting: Any) -> Writer:
    """Return a writer by csv.writer, with a line ending and a rule for quotes."""

    def write(table: TableCase, folder: Path) -> Path:
        path = folder / "x.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator=end, quoting=quoting)
            writer.writerow(table.names)
            writer.writerows([[spell(entry) for entry in record] for record in table.records])
        return path

    return write


def write_with_escapes(table: TableCase, folder: Path) -> Path:
    """Write with an escape character and no quotes, as MySQL and csv.QUOTE_NONE do."""
    path = folder / "x.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_NONE, escapechar="\\")
        writer.writerow(table.names)
        writer.writerows([[spell(entry) for entry in record] for record in table.records])
    return path


def write_as_r(escaped: bool) -> Writer:
    """Return a writer of the dialect of R: names of rows without a name, quotes doubled or escaped, NA for missing."""

    def quote(text: str) -> str:
        return '"' + text.replace('"', '\\"' if escaped else '""') + '"'

    def entry_of(entry: Any) -> str:
        if entry is None:
            return "NA"
        if isinstance(entry, bool):
            return str(entry).upper()
        return quote(entry) if isinstance(entry, str) else spell(entry).replace("inf", "Inf").replace("nan", "NaN")

    def write(table: TableCase, folder: Path) -> Path | None:
        if "" in table.names or any(entry == "NA" for record in table.records for entry in record):
            return None  # R itself does not distinguish it from a missing entry, or from the names of its rows
        path = folder / "x.csv"
        lines = [[quote(""), *map(quote, table.names)]]
        lines += [[quote(str(place)), *map(entry_of, record)] for place, record in enumerate(table.records, 1)]
        path.write_bytes("".join(",".join(line) + "\n" for line in lines).encode())
        return path

    return write


def write_as_excel(encoding: str) -> Writer:
    """Return a writer of the dialect of Excel: carriage returns, a byte order mark, quotes where needed."""

    def write(table: TableCase, folder: Path) -> Path:
        path = folder / "x.csv"
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\r\n")
        writer.writerow(table.names)
        rows = [[spell(entry) for entry in record] for record in table.records]
        writer.writerows([[row.upper() if row in ("True", "False") else row for row in each] for each in rows])
        path.write_bytes(text.getvalue().encode(encoding))
        return path

    return write


def write_with_pandas(**options: Any) -> Writer:
    """Return a writer by `DataFrame.to_csv`."""

    def write(table: TableCase, folder: Path) -> Path:
        path = folder / "x.csv"
        to_nullable(table).to_csv(path, index=False, **options)
        return path

    return write


def write_with_polars(table: TableCase, folder: Path) -> Path:
    """Write by `DataFrame.write_csv`."""
    path = folder / "x.csv"
    to_polars(table).write_csv(path)
    return path


def write_with_arrow(table: TableCase, folder: Path) -> Path:
    """Write by `pyarrow.csv`."""
    path = folder / "x.csv"
    pyarrow.csv.write_csv(to_arrow(table), path)
    return path


def write_with_duckdb(table: TableCase, folder: Path) -> Path:
    """Write by DuckDB."""
    path = folder / "x.csv"
    to_relation(table).write_csv(str(path))
    return path


def compress(writer: Writer, pack: Callable[[bytes], bytes]) -> Writer:
    """Return a writer of the same file, compressed."""

    def write(table: TableCase, folder: Path) -> Path:
        path: Path = writer(table, folder)
        path.write_bytes(pack(path.read_bytes()))
        return path

    return write


def to_zip(content: bytes) -> bytes:
    """Return an archive of one file."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.csv", content)
    return made.getvalue()


def write_parquet(writer: Callable[[TableCase, str], Any]) -> Writer:
    """Return a writer of Parquet."""

    def write(table: TableCase, folder: Path) -> Path:
        path = folder / "x.parquet"
        writer(table, str(path))
        return path

    return write


plain = write_with_csv("\n", csv.QUOTE_MINIMAL)
WRITERS: dict[str, Writer] = {
    "csv, line feeds": plain,
    "csv, carriage returns and line feeds": write_with_csv("\r\n", csv.QUOTE_MINIMAL),
    "csv, carriage returns": write_with_csv("\r", csv.QUOTE_MINIMAL),
    "csv, all quoted": write_with_csv("\n", csv.QUOTE_ALL),
    "csv, escapes": write_with_escapes,
    "R": write_as_r(escaped=False),
    "R, escapes": write_as_r(escaped=True),
    "Excel": write_as_excel("utf-8-sig"),
    "Excel, Unicode": write_as_excel("utf-16"),
    "pandas": write_with_pandas(),
    "pandas, carriage returns and line feeds": write_with_pandas(lineterminator="\r\n"),
    "pandas, all quoted": write_with_pandas(quoting=csv.QUOTE_ALL),
    "polars": write_with_polars,
    "Arrow": write_with_arrow,
    "DuckDB": write_with_duckdb,
    "gzip": compress(plain, gzip.compress),
    "bz2": compress(plain, bz2.compress),
    "zip": compress(plain, to_zip),
    "Parquet by pandas": write_parquet(lambda table, path: to_nullable(table).to_parquet(path)),
    "Parquet by polars": write_parquet(lambda table, path: to_polars(table).write_parquet(path)),
    "Parquet by Arrow": write_parquet(
        lambda table, path: pyarrow.parquet.write_table(to_arrow(table), path, row_group_size=2)
    ),
    "Parquet by DuckDB": write_parquet(lambda table, path: to_relation(table).write_parquet(path)),
}


ESCAPING = ("csv, escapes", "R, escapes")
"""Writers after which a backslash may have another meaning than in the table. No reader could know."""


def write_all(table: TableCase, folder: Path, names: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield what the named writers and containers make of a table. One that cannot hold it makes nothing."""
    for name in names:
        made = None
        with contextlib.suppress(Exception):
            made = WRITERS[name](table, folder) if name in WRITERS else CONTAINERS[name](table)
        if made is not None:
            yield name, made
