from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

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
)
from dpstats.data.columns import kind_of
from dpstats.data.missing import MissingCodes
from dpstats.data.schema import Schema
from dpstats.data.tables import Integers, add_sums
from dpstats.errors import InvalidData, refuse_data

# Dask: a pure task for each partition of an array or a data frame, on any scheduler. The scheduler runs a lost task
# again, and it returns the same integers. Budgets are charged outside of tasks.


_SUMS = 8  # partial sums that one task adds up


@dataclass(frozen=True, eq=False, repr=False)
class DaskRows(Engine):
    """Rows of a Dask collection.

    Attributes
    ----------
    collection : dask array of shape (n, d), or dask data frame
    columns : list of str, or None
    beside : tuple of str
    """

    collection: Any
    columns: list[str] | None
    beside: tuple[str, ...] = ()
    local = False

    @cached_property
    def shape(self) -> tuple[int, int]:
        d = self.collection.shape[1] if self.columns is None else len(self.columns)
        if self.columns is None and not np.isnan(self.collection.shape[0]):
            return int(self.collection.shape[0]), int(d)
        n = int(_run(self._tasks(count_rows))[N_ROWS])
        return n, int(d)

    def size(self, schema: Schema) -> tuple[int, int] | None:
        # An array may know the sizes of its blocks. A frame does not.
        stated = self.columns is None and not np.isnan(self.collection.shape[0])
        return self.shape if stated else None

    def having(self, columns: Sequence[str] | None, beside: Beside = None) -> DaskRows:
        if self.columns is None:
            raise refuse_data("X", got="an array", allowed="a data frame for its columns to have names")
        chosen, others = chosen_columns([str(name) for name in self.collection.columns], columns, beside)
        return replace(self, columns=chosen, beside=others)

    def kind(self, name: Any) -> str | None:
        import pandas as pd

        return kind_of(pd.Series([], dtype=self.collection.dtypes[name]))

    def total(self, work: Work) -> dict[str, Integers]:
        found = _run(self._tasks(Counted(work)))
        self.check_count(int(found.pop(N_ROWS)))
        return found

    def collect(self) -> list[Part]:
        parts = _compute(self._tasks(return_rows))
        self.check_count(sum(len(part.X) for part in parts))
        return parts

    def _tasks(self, work: Any) -> list[Any]:
        from dask.delayed import delayed

        task = delayed(_on_block, pure=True)
        # Put all columns of an array into one chunk, so that rows are complete.
        whole = self.collection.rechunk({1: -1}) if self.columns is None else self.collection
        blocks = np.ravel(whole.to_delayed())
        return [task(work, block, self.columns, self.beside, self.codes) for block in blocks]


def _on_block(
    work: Work, block: Any, columns: list[str] | None, beside: tuple[str, ...], codes: MissingCodes
) -> Any:
    """Return the sums of one partition."""
    if columns is None:
        return work(Part(read_numbers(block, codes)))
    return work(Part(read_numbers(block[columns], codes), [block[name] for name in beside]))


def _run(tasks: list[Any]) -> dict[str, Any]:
    """Return the sum of the results of tasks, added up in a tree."""
    from dask.delayed import delayed

    plus = delayed(add_sums, pure=True)
    while len(tasks) > 1 or not tasks:
        tasks = [plus(tasks[i : i + _SUMS]) for i in range(0, len(tasks), _SUMS)] or [plus([])]
    return dict(_compute(tasks)[0])


def _compute(tasks: list[Any]) -> list[Any]:
    """Return the results of tasks, or raise an error if rows cannot be read."""
    from dask.base import compute

    failed: InvalidData | None = None
    try:
        return list(compute(*tasks))
    except InvalidData as error:
        failed = InvalidData(*error.args)
    except Exception:  # an error of the graph may quote rows
        failed = refusal()
    raise failed


def open_array(array: Any) -> DaskRows:
    """Return the rows of a dask array."""
    if array.ndim != 2:
        raise refuse_data(
            "X", got=f"{array.ndim} dimension(s)", allowed="a 2-d table (n_samples, n_features)"
        )
    return DaskRows(array, None)


def open_frame(frame: Any) -> DaskRows:
    """Return the rows of a dask data frame."""
    return DaskRows(frame, [str(name) for name in frame.columns])
