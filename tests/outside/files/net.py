"""Every reader of a table counts its records, and reads each of them as it was meant and by itself, or refuses.

A fault is a row too many or too few, an entry with another meaning, a change of a row whose record did not change, and
an error that is no refusal of the package.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dpstats.cli.tables import InputTable, add_table
from dpstats.data.opening import open_source
from dpstats.data.schema import Categories, Schema
from dpstats.errors import InvalidData, InvalidParameter
from dpstats.sql.catalogue import fold, quoted
from dpstats.sql.compile import Source
from tests.outside.files.tables import MISSING, TableCase, draw_record, draw_table
from tests.outside.files.writers import CONTAINERS, ESCAPING, WRITERS, write_all

Rows = list[tuple[Any, ...]]


class Refused(NamedTuple):
    """A refusal, and its words without what differs between files."""

    why: str


class Fault(NamedTuple):
    """A broken promise, with what is needed to see it again."""

    seed: int
    case: int
    writer: str
    reader: str
    what: str


def read_by_door(container: Any, table: TableCase, names: list[str]) -> Rows:
    """Return the rows as estimators read them."""
    source = open_source(container)
    columns: list[Any] = []
    for name, kind in zip(names, table.kinds, strict=True):
        levels = (Categories(table.levels),) if kind == "text" else None
        schema, given = source.resolve(Schema(numbers=(name,), levels=levels, missing="center"), None)
        entries = source.read(schema, given).whole().X[:, 0].tolist()
        columns.append([*map(int if levels else _spell, entries)])
    return list(zip(*columns, strict=True))


def read_by_command(path: Path, table: TableCase, names: list[str]) -> Rows:
    """Return the rows as commands read them."""
    parser = argparse.ArgumentParser()
    add_table(parser)
    text = [name for name, kind in zip(names, table.kinds, strict=True) if kind == "text"]
    frame = InputTable(parser.parse_args([str(path)])).frame(names, text=text)
    return read_by_door(frame, table, names)


SQL_TYPES = {"float": "DOUBLE", "decimal": "DOUBLE", "integer": "BIGINT", "truth": "BOOLEAN"}


def read_by_query(made: Any, table: TableCase, names: list[str]) -> Rows:
    """Return the rows as queries read them."""
    # Columns of Python objects are text, as those of a file are.
    text = made.suffix == ".csv" if isinstance(made, Path) else holds_objects(made)
    types = {f"t.{name}": SQL_TYPES[kind] for name, kind in zip(names, table.kinds, strict=True) if kind != "text"}
    source = Source({"t": made}, types if text else None)
    known = source.tables()["t"]
    source.check_entries(known)
    columns = [known.columns[fold(name)] for name in names]
    if any(kind.kind == "other" for _, kind in columns):
        raise InvalidData("a column has a type that queries do not compute with")
    listed = ", ".join(kind.entry.format(quoted(name)) for name, kind in columns)
    rows = source.run(f"SELECT {listed} FROM {known.source}")
    return [
        tuple(
            (table.levels.index(entry) if entry in table.levels else -1)
            if kind == "text"
            else MISSING
            if entry is None
            else _spell(float(entry))
            for kind, entry in zip(table.kinds, row, strict=True)
        )
        for row in rows
    ]


def holds_objects(made: Any) -> bool:
    """Return whether a container is a data frame of Python objects."""
    return isinstance(made, pd.DataFrame) and all(kind.kind == "O" for kind in made.dtypes)


def _spell(value: float) -> str:
    return repr(value + 0.0) if np.isfinite(value) else MISSING


QUERIED = 4
"""Of this number of tables, queries read one: opening it checks the database, which takes longer than all the rest."""
NO_TABLES = ("polars, lazy", "DuckDB")
"""Containers that are no table for PrivateSQL."""

Reader = Callable[[Any, TableCase, list[str]], Rows]
READERS: dict[str, Reader] = {"estimator": read_by_door, "command": read_by_command, "query": read_by_query}


def expected_names(table: TableCase) -> list[str]:
    """Return the names by which columns are known: an empty one is numbered."""
    return [name or f"column {place}" for place, name in enumerate(table.names, 1)]


class Net:
    """Draw tables, write and read them, and count what happened.

    Attributes
    ----------
    counts : Counter
        Outcomes of (writer, reader): "read" or "refused: why".
    faults : list of Fault
    """

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed, self.folder = seed, folder
        self.counts: Counter[str] = Counter()
        self.faults: list[Fault] = []
        self.files = 0

    def run(self, seconds: float, cases: int = 10**9) -> Net:
        """Try tables until the time is over."""
        end = time.monotonic() + seconds
        for case in range(cases):
            if time.monotonic() > end:
                break
            self.try_table(case)
        return self

    def try_table(self, case: int) -> None:
        """Try one table and a neighbor of it with some writers, in all their readers."""
        draw = Random(self.seed * 1_000_003 + case)
        table = draw_table(draw)
        place = draw.randrange(len(table.records))
        other = table.change(place, draw_record(draw, table))
        some = draw.sample([*WRITERS, *CONTAINERS], 6)
        found = dict(self._read(case, table, some))
        for key, rows in self._read(case, other, some):
            before = found.get(key)
            if isinstance(rows, Refused) or before is None or isinstance(before, Refused):
                continue
            changed = [i for i, (a, b) in enumerate(zip(before, rows, strict=False)) if a != b and i != place]
            if changed or len(before) != len(rows):
                self.faults.append(Fault(self.seed, case, *key, "a record moves other rows"))

    def _read(
        self, case: int, table: TableCase, writers: list[str]
    ) -> Iterator[tuple[tuple[str, str], Rows | Refused]]:
        meaning = table.meaning()
        for writer, made in write_all(table, self.folder, writers):
            self.files += 1
            text = isinstance(made, Path) and made.suffix == ".csv"
            for reader, read in READERS.items():
                names = expected_names(table) if text or reader == "query" else table.names
                if not isinstance(made, Path) and (reader == "command" or writer in NO_TABLES):
                    continue
                if reader == "query" and case % QUERIED:
                    continue
                found = self._try(read, made, table, names)
                if isinstance(found, str):
                    self.faults.append(Fault(self.seed, case, writer, reader, found))
                    continue
                self.counts[found.why if isinstance(found, Refused) else "read"] += 1
                if not isinstance(found, Refused):
                    if len(found) != len(meaning):
                        what = f"{len(meaning)} records, {len(found)} rows"
                        self.faults.append(Fault(self.seed, case, writer, reader, what))
                    elif found != meaning and not (writer in ESCAPING and table.has_backslashes):
                        row = next(i for i, (a, b) in enumerate(zip(found, meaning, strict=True)) if a != b)
                        what = f"record {row} means {meaning[row]}, read {found[row]}"
                        self.faults.append(Fault(self.seed, case, writer, reader, what))
                yield (writer, reader), found

    def _try(self, read: Reader, made: Any, table: TableCase, names: list[str]) -> Rows | Refused | str:
        """Return the rows, a refusal, or the name of an error that is none."""
        try:
            return read(made, table, names)
        except (InvalidData, InvalidParameter) as error:
            words = str(error)
            for name in sorted(names, key=len, reverse=True):
                words = words.replace(repr(name), "NAME")
            return Refused("refused: " + words.replace("x.csv", "FILE").replace("x.parquet", "FILE")[:110])
        except Exception as error:
            return f"{type(error).__name__} is no refusal"
