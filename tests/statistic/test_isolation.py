"""The function sees its block alone: copies, seeds, silence, time, and values that are no numbers."""

from __future__ import annotations

import functools
import logging
import random
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.statistic.blocks import BlockRows
from dpstats.statistic.isolation import check_time_limit, fresh, value_of

ROWS = np.arange(10.0)[:, None]


def block(rows: np.ndarray = ROWS) -> BlockRows:
    return BlockRows(rows, None, None, np.arange(len(rows)) * 5 // len(rows))


def value(function: Callable[..., Any], **options: Any) -> np.ndarray:
    return value_of(
        function, block(), options.pop("correction", None), options.pop("n_outputs", 1), **options
    )


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


@pytest.mark.parametrize("error", [ValueError("31"), SystemExit(3), RecursionError(), MemoryError()])
def test_an_error_is_a_failed_block(error: BaseException) -> None:
    assert np.isnan(value(raises(error))).all()


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
    first = value_of(changes, given, "jackknife", 1)
    assert given.X.sum() == 45
    assert value_of(changes, given, "jackknife", 1) == first


def test_random_numbers_are_the_same_in_every_call_and_the_callers_go_on() -> None:
    def draws(rows: Any) -> float:
        return float(np.random.random() + random.random())  # noqa: NPY002

    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    expected = random.random(), np.random.random()  # noqa: NPY002
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    assert value(draws) == value(draws)
    assert (random.random(), np.random.random()) == expected  # noqa: NPY002


def test_state_of_a_closure_or_an_object_is_lost_between_blocks() -> None:
    seen: list[float] = []

    def remembers(rows: Any) -> float:
        seen.append(1.0)
        return float(len(seen))

    class Counter:
        count = 0

        def __call__(self, rows: Any) -> float:
            self.count += 1
            return float(self.count)

    def by_default(rows: Any, kept: list[int] = []) -> float:  # noqa: B006
        kept.append(1)
        return float(len(kept))

    for function in (remembers, Counter(), by_default, functools.partial(by_default, kept=[])):
        assert [value(function)[0] for _ in range(3)] == [1.0, 1.0, 1.0]
    assert seen == []


def test_a_copy_keeps_what_has_no_copy() -> None:
    module = np

    def function(rows: Any) -> float:
        return float(module.mean(rows))

    assert fresh(function)(ROWS) == 4.5


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
            found.append(str(error))

    thread = Thread(target=ask)
    thread.start()
    thread.join()
    assert found == ["time_limit must be None outside of the main thread"]
    check_time_limit(1.0)


def test_the_jackknife_removes_biases() -> None:
    # Values at sizes m, 4m/5 and 3m/5 that are 1 + a/m + b/m^2 exactly.
    def biased(rows: Any) -> float:
        return 1 + 3 / len(rows) + 20 / len(rows) ** 2

    assert value(biased)[0] == pytest.approx(1.5)
    assert value(biased, correction="jackknife")[0] == pytest.approx(1 - 20 / 100 / 0.8)
    assert value(biased, correction="jackknife2")[0] == pytest.approx(1.0)
