"""Blocks of rows in a secret order, and calls of a user's function on one block that alone determines its value.

Every block gets a fresh copy of the function (copies.py). The function must keep nothing in installed packages, files
or other processes, and must not measure time, which cannot be enforced.
"""

from __future__ import annotations

import contextlib
import contextvars
import decimal
import io
import itertools
import logging
import math
import random
import signal
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpstats.data.rows import Table
from dpstats.errors import refuse
from dpstats.statistic.copies import Frozen, hide_modules

FOLDS = 5
JACKKNIFE = {None: ((0, 1.0),), "jackknife": ((0, 5.0), (1, -4.0)), "jackknife2": ((0, 12.5), (1, -16.0), (2, 4.5))}
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
    numbers = np.zeros(places.size, dtype=np.intp)
    np.cumsum(places[1:] > places[:-1], out=numbers[1:])
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


Link = Callable[[float], float]
Result = TypeVar("Result")

SHORTEST, LONGEST = 1e-3, 1e6
"""Limits of CPU time, in seconds, that a timer of the system can hold.

No timer runs for less than a microsecond.
"""


class OutOfTime(BaseException):
    """A block has used up its time. No handler of ordinary exceptions catches it."""


def value_of(
    frozen: Frozen,
    block: BlockRows,
    correction: str | None,
    n_outputs: int,
    link: Link | None = None,
    time_limit: float | None = None,
) -> NDArray[np.float64]:
    """Return the bias-corrected values of a block: of shape (n_outputs,), all NaN if any call fails.

    A call fails if it raises anything, runs out of time, or does not return the right number of finite numbers. Only
    an interrupt by the user is raised.
    """
    (value,) = evaluate_blocks(frozen, [block], correction, n_outputs, link, time_limit)
    return value


def evaluate_blocks(
    frozen: Frozen,
    blocks: Iterable[BlockRows],
    correction: str | None,
    n_outputs: int,
    link: Link | None = None,
    time_limit: float | None = None,
) -> list[NDArray[np.float64]]:
    """Return `value_of` for every block. Every block seeds the global generators, so they are restored at the end."""
    python, of_numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    found = []
    try:
        with hide_modules() as restore_modules:
            for block in blocks:
                value = _evaluate(frozen, block, correction, n_outputs, link, time_limit, restore_modules)
                if value is None:
                    break
                found.append(value)
            else:
                return found
    finally:
        random.setstate(python)
        np.random.set_state(of_numpy)  # noqa: NPY002
    # The handler of the caller comes first.
    signal.raise_signal(signal.SIGINT)
    raise KeyboardInterrupt


def _evaluate(
    frozen: Frozen,
    block: BlockRows,
    correction: str | None,
    n_outputs: int,
    link: Link | None,
    time_limit: float | None,
    restore_modules: Callable[[], None],
) -> NDArray[np.float64] | None:
    """Return the values of a block, or None if the user interrupted it."""

    def compute() -> NDArray[np.float64]:
        seed_all()
        function = frozen.thaw()
        total = np.zeros(n_outputs)
        for weight, arguments in block.subsets(correction):
            seed_all()
            total += weight * _numbers(function(*arguments), n_outputs, link)
        return total

    with silent():
        # A stop must not interrupt the undoing after the block.
        with decimal.localcontext(), _Stops(time_limit) as stops:
            # Variables of the context, and the precision of decimals, are as before the fit for every block.
            total = stops.run(lambda: contextvars.copy_context().run(compute))
        restore_modules()
    if stops.interrupted:
        return None
    return total if total is not None and np.isfinite(total).all() else np.full(n_outputs, np.nan)


_SEEDED = random.Random(0).getstate()


def seed_all() -> None:
    """Give the global generators public seeds: another block has moved them."""
    random.setstate(_SEEDED)  # as random.seed(0) does, in half of its time
    np.random.seed(0)  # noqa: NPY002 - a function may use the global generator


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Let nothing be printed, warned or logged."""
    disabled = logging.root.manager.disable
    nowhere = io.StringIO()
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(nowhere),
            contextlib.redirect_stderr(nowhere),
            np.errstate(all="ignore"),
        ):
            warnings.simplefilter("ignore")
            logging.disable(logging.CRITICAL)
            yield
    finally:
        logging.disable(disabled)


def check_time_limit(time_limit: float | None) -> None:
    """Refuse a limit of CPU time where none can be set."""
    if time_limit is not None and not hasattr(signal, "setitimer"):
        raise refuse("time_limit", allowed="None on this system, which has no limit of CPU time")
    if time_limit is not None and threading.current_thread() is not threading.main_thread():
        raise refuse("time_limit", given=time_limit, allowed="None outside of the main thread")


class _Stops:
    """Stops a call when its time is up or the user interrupts it, even if the function catches the exception.

    Only a signal counts as an interrupt. A `KeyboardInterrupt` that the function raises itself is a failed block.
    """

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._running = self._late = False
        self.interrupted = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        in_main = threading.current_thread() is threading.main_thread()
        # Where Python does not handle interrupts, nothing is changed.
        if in_main and callable(signal.getsignal(signal.SIGINT)):
            self._before[signal.SIGINT] = signal.signal(signal.SIGINT, self._interrupt)
        if self._seconds is not None:
            self._before[signal.SIGPROF] = signal.signal(signal.SIGPROF, self._expire)
            # Again and again: a function may catch the first.
            signal.setitimer(signal.ITIMER_PROF, self._seconds, self._seconds)
        return self

    def __exit__(self, *_: object) -> None:
        if self._seconds is not None:
            signal.setitimer(signal.ITIMER_PROF, 0)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def run(self, call: Callable[[], Result]) -> Result | None:
        """Return the value of a call, or None if it raised anything or was stopped."""
        try:
            self._running = True
            try:
                value = call()
            finally:
                self._running = False
        except BaseException:
            return None
        return None if self._late else value

    def _expire(self, number: int, where: Any) -> None:
        self._late = True
        if self._running:
            raise OutOfTime

    def _interrupt(self, number: int, where: Any) -> None:
        self.interrupted = True
        if self._running:
            raise KeyboardInterrupt


def _numbers(value: Any, n_outputs: int, link: Link | None) -> NDArray[np.float64]:
    if isinstance(value, Real) and value is not np.ma.masked:
        found = np.array([float(value)])
    else:
        if np.ma.getmaskarray(value).any():
            raise TypeError("a masked number")
        array = np.asarray(value)
        if array.dtype.kind not in "fiub":
            raise TypeError("not a number")
        found = array.astype(np.float64).ravel()
    if found.size != n_outputs:
        raise ValueError("function must return the same number of outputs for every block")
    return found if link is None else np.array([link(each) for each in found])


def logit(value: float) -> float:
    """Return the log odds of a probability."""
    return math.log(value / (1 - value))


def expit(value: float) -> float:
    """Return the probability of log odds."""
    return 1 / (1 + math.exp(-value)) if value >= 0 else math.exp(value) / (1 + math.exp(value))


def exponential(value: float) -> float:
    """Return the number with this logarithm. It is infinite beyond the largest float."""
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


LINKS: dict[str | None, tuple[Link | None, Link]] = {
    None: (None, float),
    "fisher": (math.atanh, math.tanh),
    "logit": (logit, expit),
    "log": (math.log, exponential),
}
"""Links by name, each with its inverse."""
