"""dpstats simulate: printed, written, resumed, run again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpstats.cli import main


def test_simulate_runs_failed_replications_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["simulate", "mean-rate", "--reps", "4", "--grid", '{"n": [50, 100, 200], "d": [2]}']
    arguments += ["--out", str(tmp_path / "rows.sqlite")]
    assert main(arguments) == 0
    first = capsys.readouterr().out
    # Nothing failed, so nothing is run; the rows are those of the file.
    assert main([*arguments, "--retry-failed"]) == 0 and capsys.readouterr().out == first


GRID = '{"n": [50, 100, 200], "d": [2]}'


def test_simulate_prints_writes_and_resumes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, target, page = tmp_path / "rows.db", tmp_path / "out.json", tmp_path / "page.html"
    arguments = ["simulate", "mean-rate", "--grid", GRID, "--reps", "20", "--seed", "5", "--out", str(rows)]
    assert main([*arguments, "--json", str(target), "--report", str(page)]) == 0
    captured = capsys.readouterr()
    assert "released_squared_error" in captured.out and "Constants of the formula" in captured.out
    assert captured.err == ""  # no bar in a log
    written = json.loads(target.read_text())
    assert written["simulated"] and written["seed"] == "5" and len(written["cells"]) == 3
    assert {finding["finding"] for finding in written["findings"]} == {"Constants of the formula", "Rate in n"}
    assert "Risk of the clipped mean" in page.read_text()
    assert all(found["finding"] in page.read_text() for found in json.loads(target.read_text())["findings"])
    # A second time nothing is run, and two processes print what one does.
    assert main([*arguments, "--json", "-"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == written and captured.err == ""
    assert main([*arguments[:-2], "--jobs", "2", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == written


def test_simulate_tells_a_failed_cell(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "mean-rate", "--grid", '{"n": [1, 100], "d": [1]}', "--reps", "5"]) == 0
    out = capsys.readouterr().out
    assert "Cell 1 failed in 5 of 5 replications" in out


BAD = {
    "name": (["median"], "NAME must be one of mean-rate, sparse-rate, coverage, power, got 'median'"),
    "grid": (["mean-rate", "--grid", "{n: 1}"], "--grid must be JSON"),
    "names": (["mean-rate", "--grid", '{"epsilom": [1]}'], "unknown parameters epsilom"),
    "list": (["mean-rate", "--grid", '{"n": 5}'], "grid must hold a list of values of every parameter"),
    "number": (["mean-rate", "--grid", "5"], "grid must be a mapping of lists"),
    "reps": (["mean-rate", "--reps", "0"], "replications must be an integer at least 1, got 0"),
    "jobs": (["mean-rate", "--jobs", "0"], "--jobs must be a positive integer"),
    "seed": (["mean-rate", "--seed", "-1"], "seed must be an integer at least 0, got -1"),
    "out": (["mean-rate", "--out", "no/such/folder.db"], "cannot be opened"),
    "json": (["mean-rate", "--json", "no/such/folder.json"], "folder.json"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_and_exit_2(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, message = BAD[name]
    assert main(["simulate", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and message in captured.err and captured.err.count("\n") == 1
