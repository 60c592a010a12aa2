"""Calls of a user's function on one block, so that only the block determines its value.

What cannot be enforced is stated: the function must not remember blocks outside of itself, and must not
measure time.
"""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import math
import random
import signal
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import InvalidParameter
from dpstats.statistic.blocks import BlockRows

Link = Callable[[float], float]

SHORTEST, LONGEST = 1e-3, 1e6
"""Limits of CPU time, in seconds, that a timer of the system can hold.

No timer runs for less than a microsecond.
"""


class OutOfTime(BaseException):
    """A block has used up its time. No handler of ordinary exceptions catches it."""


def value_of(
    function: Callable[..., Any],
    block: BlockRows,
    correction: str | None,
    n_outputs: int,
    link: Link | None = None,
    time_limit: float | None = None,
) -> NDArray[np.float64]:
    """Return the bias-corrected values of a block: of shape (n_outputs,), all NaN if any call fails.

    A call fails if it raises, runs out of time, or does not return the right number of finite numbers.
    """
    total = np.zeros(n_outputs)
    own = fresh(function)
    with silent(), limited(time_limit):
        try:
            for weight, arguments in block.subsets(correction):
                seed_all()
                total += weight * _numbers(own(*arguments), n_outputs, link)
        except (Exception, SystemExit, OutOfTime):
            total[:] = np.nan
    return total if np.isfinite(total).all() else np.full(n_outputs, np.nan)


def fresh(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a copy of a function with its own closure and defaults, or of an object that is called."""
    if not isinstance(function, types.FunctionType):
        return copy.deepcopy(function)
    cells = tuple(types.CellType(_copied(cell.cell_contents)) for cell in function.__closure__ or ())
    made = types.FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        _copied(function.__defaults__),
        cells,
    )
    made.__kwdefaults__ = _copied(function.__kwdefaults__)
    return made


def _copied(value: Any) -> Any:
    if isinstance(value, types.FunctionType):
        return fresh(value)
    try:
        return copy.deepcopy(value)
    except Exception:
        # Modules, locks and open files have no copy.
        return value


def seed_all() -> None:
    """Give the global generators public seeds: another block has moved them."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - a function may use the global generator


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Let nothing be printed, warned or logged, and restore the global generators afterwards."""
    python, disabled = random.getstate(), logging.root.manager.disable
    of_numpy = np.random.get_state()  # noqa: NPY002
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
        random.setstate(python)
        np.random.set_state(of_numpy)  # noqa: NPY002


def check_time_limit(time_limit: float | None) -> None:
    """Refuse a limit of CPU time where none can be set."""
    if time_limit is not None and not hasattr(signal, "setitimer"):
        raise InvalidParameter("time_limit must be None on this system, which has no limit of CPU time")
    if time_limit is not None and threading.current_thread() is not threading.main_thread():
        raise InvalidParameter("time_limit must be None outside of the main thread")


@contextlib.contextmanager
def limited(seconds: float | None) -> Iterator[None]:
    """Raise `OutOfTime` after this many seconds of CPU time."""
    if seconds is None:
        yield
        return

    def stop(number: int, where: Any) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _numbers(value: Any, n_outputs: int, link: Link | None) -> NDArray[np.float64]:
    if isinstance(value, Real):
        found = np.array([float(value)])
    else:
        array = np.asarray(value)
        if array.dtype.kind not in "fiub":
            raise TypeError("not a number")
        found = array.astype(np.float64).ravel()
    if found.size != n_outputs:
        raise ValueError("function must return the same number of outputs for every block")
    return found if link is None else np.array([link(each) for each in found])


def fisher(value: float) -> float:
    """Return Fisher's z of a correlation."""
    return math.atanh(value)


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
    "fisher": (fisher, math.tanh),
    "logit": (logit, expit),
    "log": (math.log, exponential),
}
"""Links by name, each with its inverse."""
