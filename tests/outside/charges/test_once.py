"""A job that is killed at every step, and two jobs at once: a key is charged once, and has at most one answer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpstats.errors import ChargedError, InvalidParameter
from dpstats.means import AdaptiveMean, ClippedMean
from dpstats.privacy import PrivacyBudget, PrivacyGuarantee
from dpstats.privacy.kept_answers import ANSWERED, CHARGED, may_run
from tests.outside.charges.failpoints import Failpoint

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
ROWS = np.arange(50.0)


def fit(path: Path, **options: Any) -> float:
    budget = PrivacyBudget(9.0, ledger=path).once("night")
    return float(ClippedMean(bounds=(0, 50), epsilon=0.5, budget=budget, **options).fit(ROWS).mean_[0])


def child(run: Callable[[], None]) -> int:
    """Run something in a forked process, and return its status as `os.waitpid` does."""
    process = os.fork()
    if process == 0:
        try:
            run()
        finally:
            os._exit(0)
    return os.waitpid(process, 0)[1]


def kill() -> BaseException:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("not killed")


def failpoints(path: Path, **options: Any) -> int:
    """Return the number of lines that a job passes, from the beginning of its charge."""
    point = Failpoint("lines", within=True)
    with point.watching():
        fit(path, **options)
    return point.passed


def killed_at(place: int, path: Path, **options: Any) -> str:
    """Kill a job at a line, run it twice again, and return what the second run met."""
    PrivacyBudget(9.0, ledger=path)

    def run() -> None:
        with Failpoint("lines", place, kill, within=True).watching():
            fit(path, **options)

    # What is computed once in a process makes later calls a few lines shorter.
    killed = os.WTERMSIG(child(run)) == signal.SIGKILL
    before = PrivacyBudget.open(path)
    kept = before.once("night").find_kept()
    seen = "nothing" if kept is None else kept.state
    assert len(before.history()) == (kept is not None)
    outcomes = []
    for _ in range(2):
        if seen == CHARGED:
            with pytest.raises(ChargedError, match="Epsilon is spent and nothing was released") as raised:
                fit(path, **options)
            assert not raised.value.released
            outcomes.append(str(raised.value))
        else:
            outcomes.append(str(fit(path, **options)))
    assert killed or seen == ANSWERED
    assert outcomes[0] == outcomes[1] and ("night" in outcomes[0]) == (seen == CHARGED)
    assert len(before.history()) == 1, f"charged {len(before.history())} times"
    return seen


def test_a_job_that_is_killed_at_any_line_charges_once(tmp_path: Path) -> None:
    size = failpoints(tmp_path / "whole.db")
    places = sorted({*np.linspace(1, size, 60).astype(int).tolist()})
    seen = Counter(killed_at(place, tmp_path / f"{place}.db") for place in places)
    # Before the charge is on disk, between it and the answer, and after that.
    assert set(seen) == {"nothing", CHARGED, ANSWERED}, seen


def test_a_job_that_is_killed_after_its_count_goes_on(tmp_path: Path) -> None:
    """With missing='drop' an adaptive mean charges twice: a count, and then an estimate from a sample."""
    path, rows = tmp_path / "b.db", np.random.default_rng(0).normal(size=(400, 1))
    rows[:40] = np.nan
    PrivacyBudget(9.0, 1e-3, ledger=path)

    def estimate() -> float:
        budget = PrivacyBudget(9.0, 1e-3, ledger=path).once("night")
        model = AdaptiveMean(bound=10.0, std=1.0, epsilon=2.0, delta=1e-6, missing="drop", budget=budget)
        return float(model.fit(rows).mean_[0])

    def run() -> None:
        AdaptiveMean._read = lambda *arguments: kill()  # type: ignore[assignment, method-assign]
        estimate()

    assert os.WTERMSIG(child(run)) == signal.SIGKILL
    budget = PrivacyBudget.open(path)
    assert [kept.state for kept in budget.answers()] == [ANSWERED]
    assert estimate() == estimate() and [kept.step for kept in budget.answers()] == [0, 1]
    assert len(budget.history()) == 2


def test_a_release_that_fails_after_its_count_says_so_again(tmp_path: Path) -> None:
    """Every run with the key has the count, whether its sample was too small, failed, or was killed."""
    rows = np.random.default_rng(0).normal(size=(400, 1))
    rows[:40] = np.nan

    def failures(name: str, rows: Any, broken: bool) -> list[ChargedError]:
        path = tmp_path / name
        budget = PrivacyBudget(9.0, 1e-3, ledger=path).once("night")
        model = AdaptiveMean(bound=10.0, std=1.0, epsilon=2.0, delta=1e-6, missing="drop", budget=budget)
        found = []
        for _ in range(3):
            with pytest.MonkeyPatch.context() as patch:
                if broken and not found:
                    patch.setattr(AdaptiveMean, "_release", lambda *arguments: 1 / 0)
                with pytest.raises(ChargedError) as raised:
                    model.fit(rows)
                found.append(raised.value)
        assert len(budget.history()) == 1 + broken
        return found

    for broken in (False, True):
        few = rows if broken else np.full((400, 1), np.nan)
        found = failures(f"{broken}.db", few, broken)
        assert len({float(error.released["number of complete rows"][0]) for error in found}) == 1
        assert not any("nothing was released" in str(error).lower() for error in found)
        assert all("'night' was charged" in str(error) for error in found[1:])


def test_a_method_that_fixes_its_charges_first_pays_for_no_count_alone() -> None:
    rows = np.random.default_rng(0).normal(size=(400, 1))
    for planned in ([], [PrivacyGuarantee(0.1), PrivacyGuarantee(1.9)]):
        budget = PrivacyBudget(9.0, 1e-3, method="pld", planned=planned)
        model = AdaptiveMean(bound=10.0, std=1.0, epsilon=2.0, delta=1e-6, missing="drop", budget=budget)
        with pytest.raises(InvalidParameter):
            model.fit(rows)
        assert not budget.history()
    with pytest.raises(InvalidParameter, match="'gdp' or 'zcdp'"):
        model.set_params(budget=PrivacyBudget(9.0, 1e-3, method="pld")).fit(rows)


def test_a_second_charge_would_be_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A planted bug: a ledger that forgets keys.
    monkeypatch.setattr("dpstats.privacy.ledger.store_request", lambda *arguments: None)
    monkeypatch.setattr("dpstats.privacy.ledger.find_kept", lambda *arguments: None)
    monkeypatch.setattr("dpstats.privacy.ledger.store_answer", lambda *arguments: True)
    path = tmp_path / "b.db"
    first, second = fit(path), fit(path)
    assert first != second and len(PrivacyBudget.open(path).history()) == 2


def test_processes_with_one_key_have_one_answer(tmp_path: Path) -> None:
    for turn in range(5):
        path, start = tmp_path / f"{turn}.db", time.time() + 0.3
        PrivacyBudget(9.0, ledger=path)
        processes = []
        for number in range(6):
            process = os.fork()
            if process == 0:
                try:
                    time.sleep(max(0.0, start - time.time()))
                    (tmp_path / f"{turn}-{number}.txt").write_text(repr(fit(path)))
                finally:
                    os._exit(0)
            processes.append(process)
        for process in processes:
            assert os.waitpid(process, 0)[1] == 0
        answers = {(tmp_path / f"{turn}-{number}.txt").read_text() for number in range(6)}
        assert len(answers) == 1 and len(PrivacyBudget.open(path).history()) == 1


def test_a_second_process_waits_for_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "b.db"
    PrivacyBudget(9.0, ledger=path)
    process = os.fork()
    if process == 0:
        draw = ClippedMean._release

        def slow(self: Any, *arguments: Any) -> None:
            time.sleep(1.0)
            draw(self, *arguments)

        ClippedMean._release = slow  # type: ignore[method-assign]
        try:
            fit(path)
        finally:
            os._exit(0)
    while not PrivacyBudget.open(path).history():
        time.sleep(0.01)
    kept = PrivacyBudget.open(path).once("night").find_kept()
    assert kept is not None and kept.state == CHARGED and may_run(kept.owner)
    answer = fit(path)
    assert os.waitpid(process, 0)[1] == 0 and answer == fit(path)
    assert len(PrivacyBudget.open(path).history()) == 1
    assert not may_run(kept.owner)


def test_a_process_that_does_not_answer_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpstats.release.once.WAIT_SECONDS", 0.3)
    budget = PrivacyBudget(9.0, ledger=tmp_path / "b.db")
    fit(tmp_path / "b.db")
    owner = json.dumps(["another machine", "", 1, "", "a"])
    import sqlite3

    with sqlite3.connect(tmp_path / "b.db") as connection:
        connection.execute("UPDATE requests SET owner = ?, state = 'charged', answer = NULL", (owner,))
    connection.close()
    with pytest.raises(ChargedError, match="process 1 on another machine, which has not stored its answer"):
        fit(tmp_path / "b.db")
    assert len(budget.history()) == 1


COMMAND = ["mean", "people.csv", "--column", "age", "--bounds", "0", "50", "--budget", "b.db", "--once", "night"]


@pytest.mark.parametrize(
    ("where", "charges", "status"),
    [
        ("dpstats.privacy.budget.PrivacyBudget.charge", 0, 0),
        ("dpstats.means.clipped.ClippedMean._release", 1, 7),
        ("dpstats.privacy.budget.PrivacyBudget.keep", 1, 7),
        ("dpstats.means.clipped.ClippedMean._report", 1, 0),
        ("dpstats.cli.output.tell", 1, 0),
    ],
)
def test_a_killed_command(where: str, charges: int, status: int, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("age\n" + "\n".join(map(str, range(50))))
    PrivacyBudget(9.0, ledger=tmp_path / "b.db")
    module, _, name = where.rpartition(".")
    code = (
        "import os, signal, sys, pkgutil; from dpstats.cli import main; place = pkgutil.resolve_name(sys.argv[1]); "
        "setattr(place, sys.argv[2], lambda *a, **b: os.kill(os.getpid(), signal.SIGKILL)); main(sys.argv[3:])"
    )
    owner = module if module.endswith("output") else f"{module.rpartition('.')[0]}:{module.rpartition('.')[2]}"

    def run(*words: str) -> Any:
        return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False, cwd=tmp_path)

    killed = run("-c", code, owner, name, *COMMAND)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    history = PrivacyBudget.open(tmp_path / "b.db").history
    assert len(history()) == charges
    again = run("-m", "dpstats", *COMMAND)
    assert again.returncode == status and len(history()) == 1, again.stderr
    if status:
        assert "Epsilon is spent and nothing was released" in again.stderr and again.stdout == ""
    else:
        assert run("-m", "dpstats", *COMMAND).stdout == again.stdout != ""
