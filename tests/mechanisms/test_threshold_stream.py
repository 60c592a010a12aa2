"""A stream of questions: its charge, its end, its values, and who may ask."""

from __future__ import annotations

import copy
import itertools
import math
import os
import pickle
import subprocess
import sys
import threading
import tracemalloc

import numpy as np
import pytest

from dpstats.errors import BudgetExceeded, InvalidData
from dpstats.mechanisms import AboveThreshold, Exhausted, NumericSparseVector, SparseVector
from dpstats.privacy import PrivacyBudget
from tests.mechanisms.test_sparse_vector import kinds


@kinds
def test_a_stream_is_the_same_as_its_queries(build) -> None:
    values = np.linspace(-100, 100, 300)
    one, other = build(random_state=4), build(random_state=4)
    queried = []
    for value in values:
        queried.append(other.query(value))
        if other.n_above == other.max_above:
            break
    assert list(one.stream(values)) == queried
    assert queried[-1] not in (None, False)
    assert one.n_above == one.max_above


@kinds
def test_a_query_after_the_end_is_refused(build) -> None:
    made = build(random_state=0)
    list(made.stream(itertools.repeat(1e6, 5)))
    with pytest.raises(Exhausted, match="is exhausted; make a new one"):
        made.query(0)
    with pytest.raises(Exhausted):
        made.stream([1.0])


def test_questions_may_depend_on_the_answers() -> None:
    made = AboveThreshold(0, 5.0, random_state=0)
    seen: list[bool] = []

    def questions():
        # Each value is asked for only after the answer before it.
        for asked in itertools.count():
            assert len(seen) == asked
            yield -50.0 if asked < 7 else 50.0

    for answer in made.stream(questions()):
        seen.append(answer)
    assert seen == [False] * 7 + [True]


def test_a_long_stream_takes_no_memory() -> None:
    made = AboveThreshold(1e4, 1.0, random_state=0)
    tracemalloc.start()
    assert sum(1 for _ in made.stream(float(i % 10) for i in range(100_000))) == 100_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # A block of noise drawn ahead, and nothing that grows: a list of answers alone would take 800 kB.
    assert peak < 500_000


def test_large_integers_lose_no_digit() -> None:
    made = NumericSparseVector(0, 1e6, max_above=1, random_state=0)
    assert made.query(2**80 + 1) == pytest.approx(2.0**80)
    # What no float can hold becomes the largest.
    assert NumericSparseVector(0, 1, max_above=1, random_state=0).query(10**400) == np.finfo(float).max
    # As floats these would be equal.
    assert made._exact_steps(2**60 + 1) - made._exact_steps(2**60) > 0


def test_no_copies_of_a_noisy_threshold() -> None:
    made = AboveThreshold(0, 1.0, random_state=0)
    for act in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="two copies would cost twice"):
            act(made)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_may_not_go_on() -> None:
    # Even where another thread was in the middle of a question at the fork.
    script = """
import os, threading, time
from dpstats.errors import DPStatsError
from dpstats.mechanisms import AboveThreshold
made, asked = AboveThreshold(0, 1.0, random_state=0), threading.Event()
class Slow:
    def __array__(self, *args, **kwargs):
        asked.set(); time.sleep(1)
        raise ValueError
def ask():
    try: made.query(Slow())
    except Exception: pass
threading.Thread(target=ask).start()
asked.wait()
child = os.fork()
if child == 0:
    try: made.query(0.0)
    except DPStatsError as error: os._exit(7 if "belongs to the process" in str(error) else 1)
    os._exit(1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    command = [sys.executable, "-W", "ignore", "-c", script]
    assert subprocess.run(command, timeout=60, check=False).returncode == 7


def test_a_question_may_ask_the_same_stream() -> None:
    made = SparseVector(0, 1.0, max_above=2, random_state=0)

    class Asks:
        def __array__(self, *args, **kwargs):
            return np.array(float(made.query(1e6)))

    # The inner question is answered first; no lock is held while values are made numbers.
    assert made.query(Asks()) in (True, False)
    assert made.n_above >= 1


def test_an_interruption_never_keeps_a_used_threshold() -> None:
    # Stop at every line of an answer above: either it has not happened, or its threshold is gone.
    for stop in range(1, 40):
        made = SparseVector(0, 1.0, max_above=2, random_state=0)
        lines = iter(range(stop))

        def trace(frame, event, argument, lines=lines):
            asking = frame.f_code.co_name in {"query", "_opened", "ask", "_draw_ahead"}
            if asking and event == "line" and next(lines, None) is None:
                raise KeyboardInterrupt
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            made.query(1e6)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        assert made.n_above == 0 or made._stream._state[1] is None


def test_threads_share_the_last_answers() -> None:
    made = SparseVector(0, 1.0, max_above=50, random_state=0)
    given: list[bool] = []

    def ask() -> None:
        try:
            while True:
                given.append(made.query(1e6))
        except Exhausted:
            pass

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert given == [True] * 50


@kinds
def test_a_stream_is_charged_once_at_its_first_question(build) -> None:
    budget = PrivacyBudget(1.0)
    made = build(budget=budget)
    assert budget.spent.epsilon == 0
    with pytest.raises(InvalidData, match="value must"):
        made.query(math.nan)
    assert budget.spent.epsilon == 0
    made.query(-1e9)
    assert budget.spent.epsilon == pytest.approx(1.0)
    made.query(-1e9)
    assert [entry.label for entry in budget.history()] == [type(made).__name__]


@kinds
def test_the_budget_is_asked_before_the_value_is_looked_at(build) -> None:
    made = build(budget=PrivacyBudget(0.5))
    with pytest.raises(BudgetExceeded):
        made.query("not a number")


@kinds
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "5", None, [1.0, 2.0], [], 1j])
def test_values_that_are_not_numbers(build, value) -> None:
    made = build(random_state=0)
    with pytest.raises(InvalidData, match="value must"):
        made.query(value)
    assert made._stream is None


@kinds
@pytest.mark.parametrize("kind", ["datetime64[ns]", "timedelta64[ns]", "complex128", "S1", "O"])
def test_arrays_of_other_things_are_no_values(build, kind) -> None:
    made = build(random_state=0)
    array = np.array(["2"], dtype=kind) if kind in ("S1", "O") else np.array([2]).astype(kind)
    with pytest.raises(InvalidData, match="value must"):
        list(made.stream(array))
    assert made._stream is None


@pytest.mark.parametrize("value", [3, 3.0, np.float32(3), np.float64(3), np.int8(3), np.array(3.0), True])
def test_values_of_all_number_types(value) -> None:
    assert AboveThreshold(-1e6, 1.0, random_state=0).query(value) is True


def test_huge_floats_are_values() -> None:
    assert AboveThreshold(0, 1e5, random_state=0).query(1e305) is True
    assert AboveThreshold(0, 1e5, random_state=0).query(-1e305) is False


def test_a_stream_that_another_thread_has_just_paid_for_is_not_refused():
    answers = []

    class Slow(PrivacyBudget):
        """A budget that is asked by one thread while another one pays."""

        asked = 0

        def check(self, item):
            self.asked += 1
            if self.asked == 1:
                self.other = threading.Thread(target=lambda: answers.append(sparse.query(1e6)))
                self.other.start()
                self.other.join(0.5)
            super().check(item)

    budget = Slow(1.0)
    sparse = SparseVector(0.0, epsilon=1.0, max_above=2, budget=budget)
    answers.append(sparse.query(1e6))
    budget.other.join()
    assert answers == [True, True] and len(budget.history()) == 1
