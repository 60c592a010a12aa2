from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dpstats.data.batches import Beside, Engine, Part, Work, chosen_columns, read_numbers, run_query
from dpstats.data.columns import kind_of
from dpstats.data.tables import Integers, added
from dpstats.errors import refuse_data

# Rows that a library computes in batches: a lazy frame of polars, a table of ibis, or a dataset of pyarrow. Each pass
# runs the query again, so that one batch is in memory.


_ENTRIES = 1 << 20  # of a batch


@dataclass(frozen=True, eq=False, repr=False)
class LazyRows(Engine):
    """Rows of a query.

    Attributes
    ----------
    frame : polars.LazyFrame, ibis table, or pyarrow.dataset.Dataset
    columns : list of str
    beside : tuple of str
    """

    frame: Any
    columns: list[str]
    beside: tuple[str, ...] = ()

    @cached_property
    def shape(self) -> tuple[int, int]:
        return int(run_query(self._count)), len(self.columns)

    def having(self, columns: Sequence[str] | None, beside: Beside = None) -> LazyRows:
        chosen, others = chosen_columns(self._all_names, columns, beside)
        return replace(self, columns=chosen, beside=others)

    def total(self, work: Work) -> dict[str, Integers]:
        wanted = list(dict.fromkeys([*self.columns, *self.beside])) or self._all_names[:1]
        size = max(1, _ENTRIES // max(1, len(wanted)))
        batches = iter(run_query(lambda: self._batches(wanted, size)))
        total: dict[str, Integers] = {}
        seen = 0
        while True:
            batch = run_query(lambda: next(batches, None))
            if batch is None and seen:
                break
            if batch is None:
                batch = run_query(lambda: self._nothing(wanted))
            seen += len(batch)
            X = np.empty((len(batch), 0))
            if self.columns:
                X = read_numbers(batch.select(self.columns), self.codes)
            added(total, work(Part(X, [batch[name] for name in self.beside])))
            if not seen:
                break
        self.check_count(seen)
        return total

    @property
    @abstractmethod
    def _all_names(self) -> list[str]:
        """Names of the columns of the query."""

    @abstractmethod
    def _count(self) -> int:
        """Return the number of rows."""

    @abstractmethod
    def _batches(self, names: list[str], size: int) -> Iterable[Any]:
        """Return frames of some of the columns, of at most a number of rows."""

    @abstractmethod
    def _nothing(self, names: list[str]) -> Any:
        """Return a frame of some of the columns, without rows."""


class PolarsRows(LazyRows):
    """Rows of a lazy frame of polars."""

    @cached_property
    def _schema(self) -> Any:
        return run_query(self.frame.collect_schema)

    @property
    def _all_names(self) -> list[str]:
        return list(self._schema)

    def kind(self, name: Any) -> str | None:
        import polars

        return kind_of(polars.Series([], dtype=self._schema[name]))

    def _count(self) -> int:
        import polars

        return int(self.frame.select(polars.len()).collect().item())

    def _batches(self, names: list[str], size: int) -> Iterable[Any]:
        return self.frame.select(names).collect_batches(chunk_size=size)  # type: ignore[no-any-return]

    def _nothing(self, names: list[str]) -> Any:
        return self.frame.select(names).head(0).collect()


class IbisRows(LazyRows):
    """Rows of a table of ibis. The backend sends the rows to this process."""

    @property
    def _all_names(self) -> list[str]:
        return [str(name) for name in self.frame.columns]

    def kind(self, name: Any) -> str | None:
        import pyarrow

        return kind_of(pyarrow.chunked_array([], type=self.frame[name].type().to_pyarrow()))

    def _count(self) -> int:
        return int(self.frame.count().to_pyarrow().as_py())

    def _batches(self, names: list[str], size: int) -> Iterable[Any]:
        import pyarrow

        batches = self.frame.select(names).to_pyarrow_batches(chunk_size=size)
        return (pyarrow.Table.from_batches([batch]) for batch in batches)

    def _nothing(self, names: list[str]) -> Any:
        return self.frame.select(names).schema().to_pyarrow().empty_table()


class DatasetRows(LazyRows):
    """Rows of a dataset of pyarrow: of one file or of many."""

    @property
    def _all_names(self) -> list[str]:
        return list(self.frame.schema.names)

    def kind(self, name: Any) -> str | None:
        import pyarrow

        return kind_of(pyarrow.chunked_array([], type=self.frame.schema.field(name).type))

    def _count(self) -> int:
        return int(self.frame.count_rows())

    def _batches(self, names: list[str], size: int) -> Iterable[Any]:
        import pyarrow

        batches = self.frame.to_batches(columns=names, batch_size=size)
        return (pyarrow.Table.from_batches([batch]) for batch in batches if batch.num_rows)

    def _nothing(self, names: list[str]) -> Any:
        return self.frame.schema.empty_table().select(names)


def open_lazy_frame(frame: Any) -> LazyRows:
    """Return the rows of a lazy frame of polars."""
    if not hasattr(frame, "collect_batches"):
        raise refuse_data(
            "X",
            allowed="a lazy frame that polars can read in batches (polars 1.34 or newer)",
            remedy="Collect the frame, or write it as a Parquet file and give the path.",
        )
    return PolarsRows(frame, list(run_query(frame.collect_schema)))
