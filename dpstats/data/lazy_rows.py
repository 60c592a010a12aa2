"""Rows of a lazy frame of polars, in batches: the frame is never collected whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dpstats.data.columns import kind_of
from dpstats.data.engine import Beside, Engine, Part, Work, chosen_columns, refusal
from dpstats.data.rows import as_float64, rows_of
from dpstats.data.tables import Integers, added
from dpstats.errors import InvalidData

_ENTRIES = 1 << 20  # of a batch


@dataclass(frozen=True, eq=False, repr=False)
class LazyRows(Engine):
    """Rows of a lazy frame; each pass runs its query again.

    Attributes
    ----------
    frame : polars.LazyFrame
    columns : list of str
    beside : tuple of str
    """

    frame: Any
    columns: list[str]
    beside: tuple[str, ...] = ()

    @cached_property
    def shape(self) -> tuple[int, int]:
        import polars

        counted = _run(lambda: self.frame.select(polars.len()).collect().item())
        return int(counted), len(self.columns)

    def having(self, columns: Sequence[str] | None, beside: Beside = None) -> LazyRows:
        chosen, others = chosen_columns(list(self._schema), columns, beside)
        return replace(self, columns=chosen, beside=others)

    def kind(self, name: Any) -> str | None:
        import polars

        return kind_of(polars.Series([], dtype=self._schema[name]))

    @cached_property
    def _schema(self) -> Any:
        return _run(self.frame.collect_schema)

    def total(self, work: Work) -> dict[str, Integers]:
        others = self.beside
        wanted = list(dict.fromkeys([*self.columns, *others])) or list(self._schema)[:1]
        size = max(1, _ENTRIES // max(1, len(wanted)))
        batches = iter(_run(lambda: self.frame.select(wanted).collect_batches(chunk_size=size)))
        total: dict[str, Integers] = {}
        seen = 0
        while True:
            batch = _run(lambda: next(batches, None))
            if batch is None and seen:
                break
            if batch is None:
                batch = _run(lambda: self.frame.select(wanted).head(0).collect())
            seen += len(batch)
            X = (
                as_float64(_numbers(batch.select(self.columns)))
                if self.columns
                else np.empty((len(batch), 0))
            )
            added(total, work(Part(X, [batch[name] for name in others])))
            if not len(batch) and not seen:
                break
        if seen != self.shape[0]:
            raise InvalidData("X must have as many rows whenever it is read: it changed meanwhile")
        return total


def of_lazy_frame(frame: Any) -> LazyRows:
    """Return the rows of a lazy frame."""
    if not hasattr(frame, "collect_batches"):
        raise InvalidData(
            "X must be a lazy frame that polars can read in batches (polars 1.34 or newer). Collect the frame, or "
            "write it as a Parquet file and give the path."
        )
    return LazyRows(frame, list(_run(frame.collect_schema)))


def _numbers(frame: Any) -> Any:
    X = rows_of(frame)
    if X.dtype.kind not in "fiub":
        raise InvalidData("X must be a 2-d table of numbers")
    return X


def _run(ask: Any) -> Any:
    """Return what polars answers; what it says of an error may show data."""
    failed = False
    try:
        return ask()
    except (InvalidData, MemoryError):
        raise
    except Exception:
        failed = True
    if failed:
        raise refusal()
