"""The function sees its block alone: copies, seeds, silence, time, and values that are no numbers."""

from __future__ import annotations

import decimal
import logging
import random
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.statistic.copies import Frozen
from dpstats.statistic.isolation import BlockRows, check_time_limit, value_of

ROWS = np.arange(10.0)[:, None]


def block(rows: np.ndarray = ROWS) -> BlockRows:
    return BlockRows(rows, None, None, np.arange(len(rows)) * 5 // len(rows))


def value(function: Callable[..., Any], **options: Any) -> np.ndarray:
    return value_of(Frozen(function), block(), options.pop("correction", None), options.pop("n_outputs", 1), **options)


def test_a_value_is_a_number() -> None:
    assert value(lambda b: b.mean()).tolist() == [4.5]
    assert value(lambda b: np.array([[1.0, 2.0]]), n_outputs=2).tolist() == [1.0, 2.0]
    assert value(lambda b: True).tolist() == [1.0]


@pytest.mark.parametrize(
    "returned", [None, "3.2", "", b"1", float("nan"), float("inf"), [1.0, 2.0], [], 1j, {}, object()]
)
def test_anything_else_is_a_failed_block(returned: Any) -> None:
    assert np.isnan(value(lambda b: returned)).all()


def raises(error: BaseException) -> Callable[[Any], float]:
    def function(rows: Any) -> float:
        raise error

    return function


class Aside(BaseException):
    """An exception that no handler of ordinary exceptions catches."""


@pytest.mark.parametrize(
    "error",
    [
        ValueError("31"),
        SystemExit(3),
        RecursionError(),
        MemoryError(),
        Aside(31),
        GeneratorExit(),
        KeyboardInterrupt(31),
    ],
)
def test_an_error_is_a_failed_block(error: BaseException) -> None:
    assert np.isnan(value(raises(error))).all()


@pytest.mark.parametrize("caught", [False, True])
def test_an_interrupt_by_the_user_is_raised_whatever_the_function_does(caught: bool) -> None:
    def interrupted(rows: Any) -> float:
        try:
            signal.raise_signal(signal.SIGINT)
            time.sleep(0)
        except BaseException:
            if not caught:
                raise ValueError("31") from None
        return 1.0

    # A process in the background ignores interrupts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt) as raised:
            value(interrupted)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert raised.value.args == () and raised.value.__context__ is None


def test_the_handler_of_the_caller_is_called_once_for_an_interrupt_and_finds_its_modules() -> None:
    calls = []
    modules = dict(sys.modules)
    before = signal.signal(signal.SIGINT, lambda number, where: calls.append((number, sys.modules == modules)))
    try:
        with pytest.raises(KeyboardInterrupt):
            value(lambda rows: signal.raise_signal(signal.SIGINT))
    finally:
        signal.signal(signal.SIGINT, before)
    assert calls == [(signal.SIGINT, True)]


def test_blocks_are_computed_outside_of_the_main_thread() -> None:
    found: list[float] = []
    thread = threading.Thread(target=lambda: found.extend(value(lambda rows: 1.0)))
    thread.start()
    thread.join()
    assert found == [1.0]


def test_a_block_whose_function_outlives_its_time_fails() -> None:
    end = time.process_time() + 2.0

    def stubborn(rows: Any) -> float:
        caught = 0
        while caught < 2:
            try:
                while time.process_time() < end:
                    pass
                return 1.0
            except BaseException:
                caught += 1
        return 1.0

    assert np.isnan(value(stubborn, time_limit=0.02)).all()
    assert time.process_time() < end - 1.0


def test_nothing_is_printed_warned_or_logged(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    def loud(rows: Any) -> float:
        print("row", rows[0])
        print("row", rows[0], file=sys.stderr)
        warnings.warn(f"row {rows[0]}", stacklevel=1)
        logging.getLogger("loud").error("row %s", rows[0])
        return float(np.log(rows[0, 0] - 1))

    assert np.isnan(value(loud)).all()
    assert capsys.readouterr() == ("", "")
    assert caplog.records == []


def test_a_block_that_is_changed_changes_no_other_call() -> None:
    def changes(rows: np.ndarray) -> float:
        found = rows.sum()
        rows[:] = 0
        return float(found)

    given = block()
    first = value_of(Frozen(changes), given, "jackknife", 1)
    assert given.X.sum() == 45
    assert value_of(Frozen(changes), given, "jackknife", 1) == first


def test_random_numbers_are_the_same_in_every_call_and_the_callers_go_on() -> None:
    def draws(rows: Any) -> float:
        return float(np.random.random() + random.random())  # noqa: NPY002

    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    expected = random.random(), np.random.random()  # noqa: NPY002
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    assert value(draws) == value(draws) == random.Random(0).random() + np.random.RandomState(0).random()
    assert (random.random(), np.random.random()) == expected  # noqa: NPY002


def test_a_context_is_as_before_for_every_block() -> None:
    def precision(rows: Any) -> float:
        decimal.getcontext().prec += 1
        return float(decimal.getcontext().prec)

    expected = decimal.getcontext().prec
    assert value(precision) == value(precision) and decimal.getcontext().prec == expected


def test_a_block_that_takes_too_long_fails() -> None:
    def slow(rows: Any) -> float:
        try:
            while True:
                time.perf_counter()
        except Exception:
            return 1.0

    assert np.isnan(value(slow, time_limit=0.05)).all()
    assert value(lambda rows: 1.0, time_limit=5.0).tolist() == [1.0]


def test_a_limit_of_time_needs_the_main_thread() -> None:
    from threading import Thread

    found: list[str] = []

    def ask() -> None:
        try:
            check_time_limit(1.0)
        except InvalidParameter as error:
            found.append(str(error.parameter))

    thread = Thread(target=ask)
    thread.start()
    thread.join()
    assert found == ["time_limit"]
    check_time_limit(1.0)


def test_the_jackknife_removes_biases() -> None:
    # Values at sizes m, 4m/5 and 3m/5 that are 1 + a/m + b/m^2 exactly.
    def biased(rows: Any) -> float:
        return 1 + 3 / len(rows) + 20 / len(rows) ** 2

    assert value(biased)[0] == pytest.approx(1.5)
    assert value(biased, correction="jackknife")[0] == pytest.approx(1 - 20 / 100 / 0.8)
    assert value(biased, correction="jackknife2")[0] == pytest.approx(1.0)
