"""A stand-in for a Spark data frame, and a session of Spark itself where it is installed.

The stand-in has partitions of Arrow tables, tasks that are pickled, and a lost attempt of each.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import cloudpickle
import pyarrow as pa

IS_HERE = importlib.util.find_spec("pyspark") is not None and shutil.which("java") is not None
QUIET = "ignore:PySpark does not yet fully support pandas:FutureWarning", "ignore:unclosed:ResourceWarning"
"""Warnings of Spark, about pandas and about sockets."""


@contextlib.contextmanager
def spark_session() -> Iterator[Any]:
    """Start Spark with two workers, which run this Python."""
    import pyspark.sql as sql

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = sql.SparkSession.builder.master("local[2,4]")
    for name, value in (("ui.enabled", "false"), ("ui.showConsoleProgress", "false"), ("sql.shuffle.partitions", "2")):
        builder = builder.config(f"spark.{name}", value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = builder.getOrCreate()
        made.sparkContext.setLogLevel("OFF")
        yield made
        made.stop()


_KINDS = {
    pa.bool_(): "boolean",
    pa.int64(): "long",
    pa.int32(): "integer",
    pa.float64(): "double",
    pa.float32(): "float",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.timestamp("us"): "timestamp_ntz",
}
_BATCH = 4  # rows


class Frame:
    """Tables with the same columns, one for each partition."""

    isStreaming = False  # noqa: N815 (a name of Spark)

    def __init__(self, parts: list[pa.Table], tasks: tuple[Callable[..., Any], ...] = ()) -> None:
        self.parts, self.tasks = parts, tasks
        kinds = [_KINDS.get(kind, "array") for kind in parts[0].schema.types]
        self.schema = SimpleNamespace(
            fields=[
                SimpleNamespace(name=name, dataType=SimpleNamespace(typeName=lambda kind=kind: kind))
                for name, kind in zip(parts[0].column_names, kinds, strict=True)
            ]
        )

    def __getitem__(self, names: list[str]) -> Frame:
        return Frame([part.select(names) for part in self.parts])

    def toDF(self, *names: str) -> Frame:  # noqa: N802
        return Frame([part.rename_columns(list(names)) for part in self.parts])

    def selectExpr(self, *expressions: str) -> Frame:  # noqa: N802
        pairs = [re.fullmatch(r"(c\d+) AS (d\d+)", text).groups() for text in expressions]  # type: ignore[union-attr]
        return Frame(
            [pa.table([part[old] for old, _ in pairs], names=[new for _, new in pairs]) for part in self.parts]
        )

    def mapInArrow(self, task: Callable[..., Any], schema: str) -> Frame:  # noqa: N802
        assert schema == "result binary"
        return Frame(self.parts, (*self.tasks, task))

    def repartition(self, count: int) -> Frame:
        rows = pa.Table.from_batches([batch for part in self.parts for batch in self._run(part)])
        size = max(1, -(-len(rows) // count))
        return Frame([rows.slice(start, size) for start in range(0, max(1, len(rows)), size)])

    def collect(self) -> list[tuple[bytes]]:
        return [(cell,) for part in self.parts for batch in self._run(part) for cell in batch[0].to_pylist()]

    def _run(self, part: pa.Table) -> list[pa.RecordBatch]:
        task = cloudpickle.dumps(self.tasks[0])
        list(cloudpickle.loads(task)(_batches(part)))  # an attempt whose result is lost
        return list(cloudpickle.loads(task)(_batches(part)))


def _batches(part: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from part.to_batches(max_chunksize=_BATCH)


def cut(table: pa.Table, size: int) -> Frame:
    """Return a frame of partitions of a number of rows, with an empty one between each two."""
    parts = [table.slice(start, size) for start in range(0, max(1, len(table)), size)]
    return Frame([some for part in parts for some in (part, table.slice(0, 0))])


Frame.__module__ = "pyspark.sql"  # as the package finds out
