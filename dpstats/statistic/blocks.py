"""Blocks of rows in a secret order, and calls of a user's function on one block that alone determines its value.

Every block gets a fresh copy of the function (copies.py). The function must keep nothing in installed packages, files
or other processes, and must not measure time, which cannot be enforced.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.tables import Table

FOLDS = 5
JACKKNIFE = {
    None: ((0, 1.0),),
    "jackknife": ((0, 5.0), (1, -4.0)),
    "jackknife2": ((0, 12.5), (1, -16.0), (2, 4.5)),
}
"""For every kind of bias correction: how many of five folds are left out, and the weight of the mean of these values.

The weights of orders 1 and 2 cancel biases of 1/m, and of 1/m and 1/m^2, at block sizes m, 4m/5 and 3m/5.
"""


@dataclass(frozen=True, eq=False)
class BlockRows:
    """The rows of one block, in their secret order."""

    X: NDArray[np.float64]  # shape (m, d)
    y: NDArray[np.float64] | None  # shape (m,)
    names: list[Any] | None  # names of the columns
    # Shape (m,). The fifth of the block that each row is in, in increasing order; all rows of a unit are in
    # one.
    folds: NDArray[np.intp]

    def subsets(self, correction: str | None) -> Iterator[tuple[float, tuple[Any, ...]]]:
        """Yield the weight of every value that a bias correction needs, and the arguments of the function."""
        # Folds are runs of rows.
        ends = np.searchsorted(self.folds, np.arange(FOLDS + 1)).tolist()
        runs = [slice(low, high) for low, high in itertools.pairwise(ends)]
        for order, weight in JACKKNIFE[correction]:
            subsets = list(itertools.combinations(runs, FOLDS - order))
            for kept in reversed(subsets):
                yield weight / len(subsets), self._arguments(kept)

    def _arguments(self, kept: Sequence[slice]) -> tuple[Any, ...]:
        X = frame(np.concatenate([self.X[run] for run in kept]), self.names)
        return (X,) if self.y is None else (X, np.concatenate([self.y[run] for run in kept]))


def slots(n: int, k: int) -> list[slice]:
    """Return the first and last place of each of k blocks of n places: a function of public numbers."""
    return [slice(i * n // k, (i + 1) * n // k) for i in range(k)]


def block_rows(
    table: Table,  # with units, the order is of these, and blocks have all rows of their units
    order: NDArray[np.intp],  # shape (n,)
    k: int,  # number of blocks
    # Whether a row with a missing entry is left out of its block. Folds are then of the other rows.
    drop: bool,
) -> Iterator[BlockRows]:
    """Yield the rows of every block."""
    rows, places = _sort_rows(table, order)
    if drop:
        complete = np.isfinite(table.X).all(axis=1)
        if table.y is not None:
            complete &= np.isfinite(table.y)
        rows, places = rows[complete[rows]], places[complete[rows]]
    # Rows, or units with all their rows, that are not empty, by their number.
    numbers: NDArray[np.intp] = np.cumsum(np.diff(places, prepend=places[:1]) > 0)
    limits = np.searchsorted(places, [*(slot.start for slot in slots(order.size, k)), order.size])
    for start, end in itertools.pairwise(limits.tolist()):
        own = rows[start:end]
        number = numbers[start:end] - numbers[start : start + 1]
        folds = number * FOLDS // (number[-1] + 1 if number.size else 1)
        X = np.array(table.X[own], dtype=np.float64)
        y = None if table.y is None else np.array(table.y[own], dtype=np.float64)
        yield BlockRows(X, y, table.names, folds)


def _sort_rows(table: Table, order: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows in the order of their units, or in the order itself, and their places in it."""
    place = np.arange(order.size)
    if table.units is None:
        return order, place
    place_of_unit = np.empty_like(place)
    place_of_unit[order] = place
    places = place_of_unit[table.units]
    rows = np.argsort(places, kind="stable")
    return rows, places[rows]


def frame(X: NDArray[np.float64], names: list[Any] | None) -> Any:
    """Return rows as a data frame of pandas, or as an array where the columns have no names.

    Every column is float64, for any entries of the other blocks.
    """
    if names is None:
        return X
    import pandas as pd

    return pd.DataFrame(X, columns=names)
