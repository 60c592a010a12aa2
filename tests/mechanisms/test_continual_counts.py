"""Counts that go on: the factor, the estimates, their bands, the charge, and a process that is killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading

import numpy as np
import pandas as pd
import pytest

from dpstats.errors import (
    BudgetExceeded,
    ChargedError,
    DPStatsError,
    Exhausted,
    InvalidData,
    InvalidParameter,
    LedgerError,
)
from dpstats.mechanisms import ContinualCounts, Histogram
from dpstats.mechanisms.count_path import (
    BITS,
    estimate_weights,
    factor_steps,
    largest_errors,
    path_weights,
    sensitivity_steps,
)
from dpstats.privacy import Neighbors, PrivacyBudget, gaussian_sigma
from dpstats.privacy.ledger import LedgerStore
from dpstats.release.streams import StreamState

ADDED, REPLACED = Neighbors.ADD_OR_REMOVE_ONE, Neighbors.REPLACE_ONE


def toeplitz(column):
    size = len(column)
    return np.array([[column[i - j] if i >= j else 0 for j in range(size)] for i in range(size)])


# The factor and the estimates


def test_the_factor_is_the_square_root_of_the_matrix_of_ones():
    factor = toeplitz(factor_steps(64) / 2.0**BITS)
    np.testing.assert_allclose(factor @ factor, np.tri(64), atol=2e-7)
    assert factor_steps(64)[0] == 2**BITS


def test_weights_undo_the_rounded_factor_exactly():
    factor = toeplitz(factor_steps(64) / 2.0**BITS)
    np.testing.assert_allclose(toeplitz(estimate_weights(64)) @ factor, np.tri(64), atol=1e-12)


@pytest.mark.parametrize("horizon", [1, 2, 3, 7, 40])
@pytest.mark.parametrize("counters", [1, 2])
def test_the_sensitivity_is_the_largest_distance_of_all_pairs_of_rows(horizon, counters):
    factor = toeplitz(factor_steps(horizon).tolist())
    columns = np.zeros((horizon * counters + 1, horizon, counters), dtype=object)
    for place in range(horizon):
        for counter in range(counters):
            columns[place * counters + counter, :, counter] = factor[:, place]
    # The last one is a row that counts nowhere.
    squares = [[int(((a - b) ** 2).sum()) for a in columns] for b in columns]
    for neighbors, largest in ((ADDED, max(squares[-1])), (REPLACED, max(map(max, squares)))):
        stated = sensitivity_steps(horizon, counters, neighbors)
        assert (stated - 1) ** 2 < largest <= stated**2


def test_the_largest_noise_of_a_thousand_steps():
    made = ContinualCounts(1024, 1.0, 1e-6)
    assert made.noise_std()[-1] / gaussian_sigma(1.0, 1e-6) == pytest.approx(3.2726, abs=1e-3)


@pytest.mark.parametrize(("steps", "tree", "consistent"), [(32, 5.48, 2.72), (365, 8.94, 3.90)])
def test_the_guide_states_the_noise_of_binary_trees(steps, tree, consistent):
    levels = int(np.ceil(np.log2(steps))) + 1
    nodes = np.vstack([np.kron(np.eye(2 ** (levels - 1 - k)), np.ones(2**k))[:, :steps] for k in range(levels)])
    most = max(bin(step).count("1") for step in range(1, steps + 1))
    assert np.sqrt(levels * most) == pytest.approx(tree, abs=0.01)
    nodes = nodes[nodes.any(axis=1)]
    totals = np.tri(steps)
    variance = np.einsum("ij,ij->i", totals @ np.linalg.inv(nodes.T @ nodes), totals).max()
    assert np.sqrt(levels * variance) == pytest.approx(consistent, abs=0.01)


def test_without_much_noise_the_totals_are_the_totals():
    counts = np.random.default_rng(0).integers(0, 50, 200)
    made = ContinualCounts(200, 1e8, 0.5, random_state=0)
    made.update_many(counts)
    np.testing.assert_allclose(made.path().totals, np.cumsum(counts), atol=0.05)


def test_updates_one_at_a_time_and_many_are_one_release():
    counts = [5, 0, 7, 3]
    one, many = (ContinualCounts(9, 1.0, 1e-6, random_state=3) for _ in range(2))
    answers = [one.update(count) for count in counts]
    assert answers == many.update_many(counts)
    np.testing.assert_array_equal(one.path().totals, [answer.estimate for answer in answers])
    assert [answer.noise_std for answer in answers] == one.noise_std()[:4].tolist()


def test_the_noise_of_totals_and_windows_is_as_stated():
    counts, totals = np.full(30, 4), []
    for seed in range(600):
        made = ContinualCounts(30, 1.0, 1e-6, random_state=seed)
        made.update_many(counts)
        totals.append(made.path().totals - np.cumsum(counts))
    found = np.array(totals)
    np.testing.assert_allclose(found.std(axis=0), made.noise_std(), rtol=0.12)
    weeks = found[:, 7:] - found[:, :-7]
    np.testing.assert_allclose(weeks.std(axis=0), made.noise_std(window=7)[7:], rtol=0.12)
    deviations = made.noise_std()
    outside = (np.abs(found) / deviations).max(axis=1) > np.quantile(largest_errors(30, None), 0.95)
    assert outside.mean() == pytest.approx(0.05, abs=0.03)


@pytest.mark.parametrize("window", [None, 1, 5])
def test_bands_cover_all_steps_together(window):
    counts = np.random.default_rng(1).integers(0, 9, (40, 2))
    right = np.cumsum(counts, axis=0)
    if window is not None:
        right = np.concatenate([right[window - 1 : window], right[window:] - right[:-window]])
    inside = []
    for seed in range(200):
        made = ContinualCounts(64, 1.0, 1e-6, categories=["a", "b"], random_state=seed)
        made.update_many(counts)
        band = made.path().band(0.9, window=window)
        inside.append(((band.low <= right.ravel()) & (right.ravel() <= band.high)).all())
    assert np.mean(inside) == pytest.approx(0.9, abs=0.06)


def test_a_window_of_all_steps_is_the_total():
    np.testing.assert_array_equal(path_weights(10, 10), estimate_weights(10))
    made = ContinualCounts(10, random_state=0)
    made.update_many(range(10))
    path = made.path()
    assert path.estimates(window=10).estimate.tolist() == [path.totals[-1]]


def test_adjusted_pvalues_agree_with_bands():
    made = ContinualCounts(20, random_state=0)
    made.update_many([30] * 20)
    path = made.path()
    right = np.cumsum([30.0] * 20) + 12
    pvalue = path.test(right, simultaneous=True).pvalue
    band = path.band(0.95)
    np.testing.assert_array_equal(pvalue < 0.05, (right < band.low) | (right > band.high))


# Input


def test_rows_are_counted():
    made = ContinualCounts(5, 1e8, 0.5, categories=["a", "b"], random_state=0)
    found = made.update_rows(pd.Series(["a", "b", "a", None, "z"]))
    np.testing.assert_allclose(found.estimate, [2, 1], atol=0.05)
    single = ContinualCounts(5, 1e8, 0.5, random_state=0)
    assert single.update_rows(pd.DataFrame({"x": range(7)})).estimate == pytest.approx(7, abs=0.05)
    with pytest.raises(InvalidData):
        single.update_rows(7)


@pytest.mark.parametrize(
    "count", [-1, 0.5, np.nan, np.inf, "3", None, True, [3], 2**31 + 1, [[1]], pd.Series([1, 2]), 10**400, np.ma.masked]
)
def test_a_count_is_a_whole_number(count):
    budget = PrivacyBudget(2.0, 1e-5, neighbors=ADDED)
    with pytest.raises(InvalidData):
        ContinualCounts(5, budget=budget).update(count)
    assert budget.history() == ()


@pytest.mark.parametrize(
    "wrong",
    [
        {"horizon": 0},
        {"horizon": 2**17},
        {"delta": 0.0},
        {"epsilon": 0.0},
        {"neighbors": "nobody"},
        {"categories": []},
        {"categories": ["a", "a"]},
        {"state": 3.5},
        {"budget": PrivacyBudget(1.0, 1e-6, neighbors=ADDED).once("day")},
    ],
)
def test_parameters_are_checked(wrong):
    with pytest.raises(InvalidParameter):
        ContinualCounts(**wrong)


def test_all_rows_together_have_a_limit():
    made = ContinualCounts(5, random_state=0)
    made.update(2**31)
    with pytest.raises(InvalidData):
        made.update(1)


def test_there_is_no_path_before_the_first_step():
    with pytest.raises(DPStatsError):
        ContinualCounts(5).path()


# The charge, and the horizon


def test_the_stream_is_charged_once_and_ends():
    budget = PrivacyBudget(1.0, 1e-5, neighbors=ADDED)
    made = ContinualCounts(3, 1.0, 1e-6, budget=budget)
    assert budget.history() == ()
    made.update_many([1, 2])
    made.update(3)
    assert len(budget.history()) == 1
    with pytest.raises(Exhausted):
        made.update(4)
    with pytest.raises(BudgetExceeded):
        ContinualCounts(3, 1.0, 1e-6, budget=budget).update(1)
    with pytest.raises(Exhausted):
        ContinualCounts(3, 1.0, 1e-6, budget=PrivacyBudget(1.0, 1e-5, neighbors=ADDED)).update_many([1] * 4)


def test_a_budget_for_other_neighbors_is_refused():
    with pytest.raises(InvalidParameter):
        ContinualCounts(3, budget=PrivacyBudget(1.0, 1e-5)).update(1)
    assert ContinualCounts(3, neighbors="replace_one", budget=PrivacyBudget(1.0, 1e-5)).update(1)


def test_a_known_key_gives_the_answer_again():
    made = ContinualCounts(3)
    first = made.update(10, "monday")
    assert made.update(99, "monday") == first and made.n_steps == 1
    made.update_many([5, 7], ["tuesday", "wednesday"])
    assert made.update_many([0, 0], ["wednesday", "monday"])[1] == first
    assert made.path().keys == ("monday", "tuesday", "wednesday")
    with pytest.raises(InvalidParameter):
        made.update_many([1, 1], ["x", "x"])
    with pytest.raises(InvalidParameter):
        made.update(1, "")


# The state


@pytest.fixture
def path(tmp_path):
    return tmp_path / "visits.counts"


def test_another_object_continues(path):
    budget = PrivacyBudget(1.0, 1e-5, neighbors=ADDED, ledger=path.with_suffix(".budget"))
    first = ContinualCounts(9, state=path, budget=budget)
    answers = [first.update(10, "a"), first.update(20, "b")]
    second = ContinualCounts(9, state=path, budget=budget)
    assert second.update(0, "a") == answers[0] and second.n_steps == 2
    answers.append(second.update(30, "c"))
    assert first.path().totals.tolist() == [answer.estimate for answer in answers]
    assert first.update(1, "c") == answers[2]
    assert len(budget.history()) == 1
    assert os.stat(path).st_mode & 0o077 == 0


def test_a_stream_that_was_charged_is_not_charged_to_another_budget(path):
    first, second = (PrivacyBudget(1.0, 1e-6, neighbors=ADDED) for _ in range(2))
    ContinualCounts(9, state=path, budget=first).update(1)
    ContinualCounts(9, state=path, budget=second).update(2)
    assert len(first.history()) == 1 and second.history() == ()


def test_the_state_of_another_stream_is_refused(path):
    ContinualCounts(9, state=path).update(1)
    for other in ({"horizon": 10}, {"epsilon": 2.0}, {"categories": ["a"]}, {"random_state": 0}):
        with pytest.raises(InvalidParameter):
            ContinualCounts(**{"horizon": 9, "state": path} | other)
    path.write_text("a table\n")
    with pytest.raises(LedgerError):
        ContinualCounts(9, state=path)


def test_another_file_is_refused(path, tmp_path):
    budget = PrivacyBudget(1.0, ledger=path)
    with pytest.raises(LedgerError):
        ContinualCounts(9, state=budget.ledger)
    with pytest.raises(LedgerError):
        ContinualCounts(9, state=tmp_path / "nowhere" / "x")


def test_an_older_copy_is_noticed(path):
    made = ContinualCounts(9, state=path)
    made.update(1)
    old = path.read_bytes()
    made.update(2)
    path.write_bytes(old)
    with pytest.raises(LedgerError):
        made.update(3)


@pytest.fixture(params=["memory", "ledger"])
def budget(request, path):
    ledger = path.with_suffix(".budget") if request.param == "ledger" else None
    return PrivacyBudget(1.0, 1e-6, neighbors=ADDED, ledger=ledger)


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_copy_is_refused_once_the_stream_has_gone_on(path, tmp_path, budget, steps):
    made = ContinualCounts(9, state=path, budget=budget)
    for _ in range(steps):
        made.update(1)
    copies = [shutil.copy(path, tmp_path / f"copy {number}") for number in range(3)]
    answer = made.update(2, "a")
    for copied in copies:
        other = ContinualCounts(9, state=copied, budget=budget)
        for act in (lambda other=other: other.update(2, "a"), other.path):
            with pytest.raises(LedgerError, match=rf"knows {steps + 1} answered step\(s\)"):
                act()
        assert other.n_steps == steps
    # The file itself may be moved.
    again = ContinualCounts(9, state=path.rename(tmp_path / "moved"), budget=budget)
    assert again.update(0, "a") == answer and again.update(3, "b") and len(budget.history()) == 1


def test_of_two_copies_that_draw_at_once_one_answers(path, tmp_path, budget, monkeypatch):
    made = ContinualCounts(9, state=path, budget=budget)
    made.update(1)
    copied = ContinualCounts(9, state=shutil.copy(path, tmp_path / "copy"), budget=budget)
    store = StreamState.adding

    @contextlib.contextmanager
    def adding(self):
        with store(self) as new:
            yield new
        if self is copied._state:
            made.update(2, "a")

    monkeypatch.setattr(StreamState, "adding", adding)
    with pytest.raises(LedgerError, match="is a copy"):
        copied.update(2, "a")
    with pytest.raises(LedgerError, match="is a copy"):
        copied.path()
    assert made.path().keys == (1, "a")


def test_a_step_that_the_budget_does_not_know_yet_is_answered_later(path, budget, monkeypatch):
    made = ContinualCounts(9, state=path, budget=budget)
    made.update(1)
    with monkeypatch.context() as patch:

        def fail(*args):
            raise LedgerError("killed.")

        patch.setattr(PrivacyBudget, "keep_answered", fail)
        for key in ("a", None):
            with pytest.raises(LedgerError, match="killed"):
                made.update(2, key)
    again = ContinualCounts(9, state=path, budget=budget)
    assert again.n_steps == 2 and again.update(5, "a") and again.path().keys == (1, "a")


def test_a_step_that_is_not_stored_is_not_released(path, monkeypatch):
    made = ContinualCounts(9, state=path)
    made.update(1)
    with monkeypatch.context() as patch:

        def fail(*args):
            raise sqlite3.OperationalError("disk I/O error")

        patch.setattr("dpstats.release.streams.json.dumps", fail)
        with pytest.raises(LedgerError):
            made.update(2)
    assert made.n_steps == 1
    made.update(2)
    assert made.n_steps == ContinualCounts(9, state=path).n_steps == 2


def test_a_charge_whose_state_was_not_stored_is_not_repeated(path, monkeypatch):
    ledger = path.with_suffix(".budget")
    budget = PrivacyBudget(1.0, 1e-6, neighbors=ADDED, ledger=ledger)
    made = ContinualCounts(9, state=path, budget=budget)
    with monkeypatch.context() as patch:

        def fail(self):
            raise OSError("killed")

        patch.setattr("dpstats.release.streams.StreamState.mark_charged", fail)
        with pytest.raises(ChargedError):
            made.update(1)
    assert len(budget.history()) == 1
    again = PrivacyBudget(1.0, 1e-6, neighbors=ADDED, ledger=ledger)
    ContinualCounts(9, state=path, budget=again).update(1)
    assert len(again.history()) == 1


def test_an_answer_of_the_ledger_that_fails_does_not_stop_the_stream(path, monkeypatch):
    def fail(*args):
        raise LedgerError("no")

    monkeypatch.setattr(LedgerStore, "keep", fail)
    budget = PrivacyBudget(1.0, 1e-6, neighbors=ADDED, ledger=path.with_suffix(".budget"))
    assert ContinualCounts(9, state=path, budget=budget).update(1)


JOB = """
import sys, time
from dpstats.mechanisms import ContinualCounts
from dpstats.privacy import Neighbors, PrivacyBudget
budget = PrivacyBudget(1.0, 1e-6, neighbors=Neighbors.ADD_OR_REMOVE_ONE, ledger=sys.argv[2])
counts = ContinualCounts(2000, state=sys.argv[1], budget=budget)
print("ready", flush=True)
for day in range(2000):
    print(day, counts.update(day, str(day)).estimate.hex(), flush=True)
"""


def run_and_kill(path, answers):
    """Run the job, kill it after this many answers, and return the answers that it told by then."""
    command = [sys.executable, "-c", JOB, str(path), f"{path}.budget"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as job:
        lines = [job.stdout.readline() for _ in range(answers + 1)]
        job.send_signal(signal.SIGKILL)
        lines += job.stdout.read().splitlines()
    found = [line.split() for line in lines[1:]]
    # The last line may be cut off.
    return {int(line[0]): line[1] for line in found if len(line) == 2 and "p" in line[1]}


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_a_killed_job_loses_no_answer_and_repeats_none_with_new_noise(path):
    told = {}
    for answers in (0, 1, 7, 20):
        for day, answer in run_and_kill(path, answers).items():
            assert told.setdefault(day, answer) == answer
    budget = PrivacyBudget(1.0, 1e-6, neighbors=ADDED, ledger=f"{path}.budget")
    made = ContinualCounts(2000, state=path, budget=budget)
    stored = made.path()
    assert made.n_steps >= len(told) >= 20
    assert all(stored.totals[day].hex() == answer for day, answer in told.items())
    # No count is lost or doubled: step t was given t.
    assert [step.given for step in made._state.steps] == [(day,) for day in range(made.n_steps)]
    assert len(budget.history()) == 1


def test_threads_share_one_stream(path):
    made = ContinualCounts(60, state=path)
    threads = [threading.Thread(target=lambda: [made.update(1, str(day)) for day in range(20)]) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made.n_steps == 20


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_cannot_continue():
    made = ContinualCounts(5)
    made.update(1)
    child = os.fork()
    if child == 0:
        try:
            made.update(2)
        except DPStatsError:
            os._exit(3)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3


# Output


def test_summaries_show_the_last_steps():
    made = ContinualCounts(30, categories=["a", "b"], random_state=0)
    made.update_many(np.full((20, 2), 9))
    path = made.path()
    assert len(path.summary().rows) == 24 and len(path.to_frame()) == 40
    assert path.totals.shape == (20, 2)
    assert len(path.summary(window=15).rows) == 12


def test_pictures():
    made = ContinualCounts(30, random_state=0)
    made.update_many([9] * 20)
    assert made.path().plot(window=7).get_xlabel() == "step"


def test_one_step_is_a_count():
    (stage,) = Histogram([True], 1.0, 1e-6, neighbors=ADDED).plan.stages
    made = ContinualCounts(1, 1.0, 1e-6)
    assert made.noise_scale == pytest.approx(gaussian_sigma(1.0, 1e-6), rel=1e-5) and stage.size == 1
