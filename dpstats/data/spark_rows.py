"""Rows of Spark data frames: sums of the rows of each partition, which Python workers compute."""

from __future__ import annotations

import pickle
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dpstats import __version__
from dpstats.data.batches import (
    N_ROWS,
    Beside,
    Counted,
    Engine,
    Part,
    Work,
    chosen_columns,
    count_rows,
    read_numbers,
    refusal,
    return_rows,
    run_query,
)
from dpstats.data.rows import NO_CODES, Integers, MissingCodes, add_sums, added
from dpstats.errors import InvalidData, refuse_data


def open_spark_frame(frame: Any) -> SparkRows:
    """Return the rows of a Spark data frame."""
    if frame.isStreaming:
        raise refuse_data("X", got="a stream", allowed="a Spark data frame of finitely many rows")
    return SparkRows(frame, [field.name for field in frame.schema.fields])


_SPARK_KINDS = {
    **dict.fromkeys(["boolean", "byte", "short", "integer", "long", "float", "double", "decimal"], "number"),
    **dict.fromkeys(["string", "varchar", "char"], "text"),
    **dict.fromkeys(["date", "timestamp", "timestamp_ntz"], "time"),
    "binary": "bytes",
}
_DRIVER_ROWS = 64
"""Rows of sums that the driver adds up. The workers add up more."""
_RESULT_SCHEMA = "result binary"


@dataclass(frozen=True, eq=False, repr=False)
class SparkRows(Engine):
    """Rows of a Spark data frame. Every pass computes the frame again, unless its owner has persisted it.

    A task returns the sums of a partition as a row, and changes nothing else. Spark runs a lost task again, which
    returns the same integers. Tasks raise no error, because Spark writes errors to its logs. Budgets are charged
    outside of tasks.

    Attributes
    ----------
    frame : pyspark.sql.DataFrame
    columns : list of str
    beside : tuple of str
    """

    frame: Any
    columns: list[str]
    beside: tuple[str, ...] = ()
    local = False

    @cached_property
    def _counts(self) -> list[int]:
        """The number of rows of each partition."""
        return [int(found[N_ROWS]) for found in self._results(count_rows, counting=True)]

    @property
    def shape(self) -> tuple[int, int]:
        return sum(self._counts), len(self.columns)

    def having(self, columns: Sequence[str] | None, beside: Beside = None) -> SparkRows:
        chosen, others = chosen_columns([field.name for field in self.frame.schema.fields], columns, beside)
        if any(self.kind(name) != "number" for name in chosen):
            raise refuse_data("X", allowed="a 2-d table of numbers")
        return replace(self, columns=chosen, beside=others)

    def kind(self, name: Any) -> str | None:
        kinds = {field.name: field.dataType.typeName() for field in self.frame.schema.fields}
        return _SPARK_KINDS.get(kinds[name])

    def total(self, work: Work) -> dict[str, Integers]:
        total = add_sums(self._results(Counted(work), grouped=len(self._counts) > _DRIVER_ROWS))
        self.check_count(int(total.pop(N_ROWS, 0)))
        return total

    def collect(self) -> list[Part]:
        parts = self._results(return_rows)
        self.check_count(sum(len(part.X) for part in parts))
        return parts

    def _results(self, work: Any, *, counting: bool = False, grouped: bool = False) -> list[Any]:
        """Return the results of each partition that has rows, or of several together."""
        names = [] if counting else [*self.columns, *self.beside]
        numbers = 0 if counting else len(self.columns)
        # Columns are named by their positions, because Spark ignores the case of names.
        given = [field.name for field in self.frame.schema.fields]
        # A partition without columns has no batches, so that its rows are counted by its first column.
        places = [given.index(name) for name in names] or [0]

        def run() -> list[Any]:
            frame = self.frame.toDF(*(f"c{place}" for place in range(len(given))))
            frame = frame.selectExpr(*(f"c{place} AS d{j}" for j, place in enumerate(places)))
            rows = frame.mapInArrow(_Task(work, numbers, self.codes), _RESULT_SCHEMA)
            if grouped:
                rows = rows.repartition(_DRIVER_ROWS).mapInArrow(_sum_partitions, _RESULT_SCHEMA)
            return [row[0] for row in rows.collect()]

        found = [_read_result(cell) for cell in _run_or_probe(run, self.frame)]
        return found or [work(Part(np.empty((0, numbers)), [[] for _ in names[numbers:]]))]


def _run_or_probe(run: Callable[[], list[Any]], frame: Any) -> list[Any]:
    """Return the results of a job. If it fails, say whether the workers can run any job of this package."""
    try:
        return run_query(run)  # type: ignore[no-any-return]
    except InvalidData:
        failed = True
    if failed:  # outside of the handler, so that the error has no context
        probe_workers(getattr(frame, "sparkSession", None))
    raise refusal()


def probe_workers(session: Any) -> None:
    """Raise an error if the workers of a Spark session cannot run this package, with Spark's own error.

    The job reads one constant row, so that no error of it has data.
    """
    if session is None:
        return
    try:
        cells = [row[0] for row in session.range(1).mapInArrow(_report_worker, _RESULT_SCHEMA).collect()]
    except Exception as error:
        told = str(error)
    else:
        for cell in cells:
            _read_result(cell)
        return
    raise refuse_data(
        "X",
        allowed="on workers of Spark that have Python "
        f"{'.'.join(platform.python_version_tuple()[:2])}, pyarrow, numpy and dpstats {__version__}",
        remedy=f"They fail on a constant row, spark.range(1), with this error:\n{told}",
    )


def _report_worker(batches: Iterable[Any]) -> Iterator[Any]:
    """Return the number of rows that a worker has read."""
    return _answer(lambda: [sum(batch.num_rows for batch in batches)])


@dataclass(frozen=True)
class _Task:
    """Work on the batches of a partition: the columns of numbers first, then the others."""

    work: Work
    numbers: int
    codes: MissingCodes = NO_CODES

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow

        def result(batch: Any) -> Any:
            table = pyarrow.Table.from_batches([batch])
            names = table.column_names
            X = read_numbers(table.select(names[: self.numbers]), self.codes)
            return self.work(Part(X, [table[name] for name in names[self.numbers :]]))

        return _answer(lambda: _together(result(batch) for batch in batches if batch.num_rows))


def _sum_partitions(batches: Iterable[Any]) -> Iterator[Any]:
    """Add up the results of several partitions."""
    return _answer(lambda: _together(_read_result(row) for batch in batches for row in batch[0].to_pylist()))


def _together(results: Iterable[Any]) -> list[Any]:
    """Return the sum of all sums, or all parts, as a list. It is empty if there are none."""
    total: dict[str, Integers] = {}
    parts: list[Any] = []
    for found in results:
        if isinstance(found, Part):
            parts.append(found)
        else:
            added(total, found)
    return [*parts, *([total] if total else [])]


def _answer(result: Callable[[], list[Any]]) -> Iterator[Any]:
    """Yield a row for each result, or a row with the refusal."""
    import pyarrow

    rows: list[tuple[str, Any]]
    try:
        rows = [("found", found) for found in run_query(result)]
    except InvalidData as error:
        rows = [("refused", error.args)]
    cells = [pickle.dumps((__version__, *row)) for row in rows]
    yield pyarrow.RecordBatch.from_arrays([pyarrow.array(cells, pyarrow.binary())], ["result"])


def _read_result(cell: bytes) -> Any:
    """Return a result of a worker, or raise its error."""
    version, kind, found = pickle.loads(bytes(cell))
    if version != __version__:
        raise refuse_data(
            "X",
            got=str(version),
            allowed=f"be read by workers of Spark with this version of dpstats ({__version__})",
            remedy="Install the same version on all workers.",
        )
    if kind == "refused":
        raise InvalidData(*found)
    return found
