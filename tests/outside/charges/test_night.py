"""The night of the guide, run as its page shows it: twice, by two processes at once, and killed at every step."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpstats.privacy import PrivacyBudget
from dpstats.privacy.kept_answers import ANSWERED, CHARGED

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

PAGE = Path(__file__).parents[3] / "docs" / "every-night.md"
DAY = "2026-11-28"
RELEASES = ["cost_by_ward", "cost_by_age", "visits_by_ward"]

KILLED_AT = '''
"""Run the night once for each of its steps, killed there, and twice again. Print what each run met."""
import json, os, pathlib, runpy, signal, sys
import dpstats.groups, dpstats.regression, dpstats.sql, duckdb, pandas
from dpstats.inference.reports import Reported
from dpstats.privacy.budget import PrivacyBudget

passed, place = 0, 0

def step():
    global passed
    passed += 1
    if passed == place:
        os.kill(os.getpid(), signal.SIGKILL)

def watched(call):
    def made(*arguments, **options):
        step()
        found = call(*arguments, **options)
        step()
        return found
    return made

PrivacyBudget.charge = watched(PrivacyBudget.charge)
PrivacyBudget.keep = watched(PrivacyBudget.keep)
Reported.to_html = watched(Reported.to_html)
os.replace = watched(os.replace)

def run(out, at):
    """Run the night in a process of its own; return its status and its number of steps."""
    global place
    read, write = os.pipe()
    process = os.fork()
    if process == 0:
        place, status = at, 1
        os.dup2(os.open(f"{out}.err", os.O_CREAT | os.O_WRONLY | os.O_APPEND), 2)
        sys.argv = ["night.py", DAY, "visits", out]
        try:
            runpy.run_path("night.py", run_name="__main__")
        except SystemExit as error:
            status = error.code
        os.write(write, str(passed).encode())
        os._exit(status if isinstance(status, int) else 1)
    os.close(write)
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return status, int(os.read(read, 9) or 0)

status, steps = run("whole", 0)
print(json.dumps([0, status, status]))
for at in range(1, steps + 1):
    print(json.dumps([at, *(run(f"out{at}", place)[0] for place in (at, 0, 0))]), flush=True)
'''


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    script = next(part for part in PAGE.read_text().split("```py\n") if part.startswith('"""One night'))
    (tmp_path / "night.py").write_text(script.partition("```")[0])
    rng = np.random.default_rng(0)
    for ward in "ABC":
        (tmp_path / "visits" / f"ward={ward}").mkdir(parents=True)
        for part in range(2):
            age = rng.integers(18, 90, 500)
            frame = pd.DataFrame({"age": age, "cost": 100 + 2.0 * age + rng.normal(0, 20, 500)})
            frame.to_parquet(tmp_path / "visits" / f"ward={ward}" / f"part-{part}.parquet", index=False)
    return tmp_path


def started(out: str) -> subprocess.Popen[str]:
    command = [sys.executable, "night.py", DAY, "visits", out]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def contents(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.iterdir() if path.suffix in (".json", ".html")}


def labels(out: Path) -> list[str]:
    history = PrivacyBudget.open(out / f"{DAY[:7]}.budget").history()
    assert sum(entry.guarantee.epsilon for entry in history) == pytest.approx(1.0)
    return sorted(entry.label.partition(":")[0] for entry in history)


def test_two_processes_and_a_third_run_are_charged_once(here: Path) -> None:
    both = [started("out"), started("out")]
    told = [process.communicate()[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], told
    first = contents(here / "out")
    assert sorted(first) == sorted([f"{DAY}.json", *(f"{DAY} {name}.html" for name in RELEASES)])
    again = started("out")
    assert again.communicate()[1] == "" and again.returncode == 0 and contents(here / "out") == first
    assert labels(here / "out") == sorted(f"{DAY} {name}" for name in RELEASES)
    facts: dict[str, Any] = json.loads(first[f"{DAY}.json"])
    assert list(facts) == RELEASES and [row["name"] for row in facts["cost_by_ward"]["rows"]] == ["A", "B", "C"]
    assert not facts["cost_by_age"]["simulated"] and b"<html" in first[f"{DAY} cost_by_age.html"]


def test_a_night_that_is_killed_at_any_step_is_charged_once(here: Path) -> None:
    (here / "steps.py").write_text(f"DAY = {DAY!r}\n{KILLED_AT}")
    run = subprocess.run([sys.executable, "steps.py"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    assert rows.pop(0)[1] == 0 and len(rows) > 12
    seen = set()
    for at, killed, second, third in rows:
        out = here / f"out{at}"
        states = {kept.key: kept.state for kept in PrivacyBudget.open(out / f"{DAY[:7]}.budget").answers()}
        seen.add(frozenset(states.values()))
        assert killed == -9 and second == third == (7 if CHARGED in states.values() else 0), at
        # A release that was paid for and lost is not made again, and the others are there.
        assert labels(out) == sorted(f"{DAY} {name}" for name in RELEASES)
        kept = [name for name in RELEASES if states[f"{DAY} {name}"] == ANSWERED]
        assert list(json.loads((out / f"{DAY}.json").read_text())) == kept
        told = Path(f"{out}.err").read_text()
        assert ("nothing was released" in told) == (len(kept) < 3)
    assert seen == {frozenset([ANSWERED]), frozenset([ANSWERED, CHARGED])}
