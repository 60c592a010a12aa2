"""The files that commands write: what cannot be written is one line, before anything is charged."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

from dpstats.cli import main
from dpstats.cli.output import as_json, keep_apart, opened, shows_progress
from tests.cli.commands import AGE, refused

GRID = ["--grid", '{"n": [50], "d": [1]}', "--reps", "2"]


def test_files_of_other_commands_are_kept_apart(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "cov.csv").write_text("1\n")
    test = ["--mean", "0", "--cov", "cov.csv", "--json", "cov.csv"]
    for arguments, message in (
        (["identity-test", "people.csv", "--column", "age", *test], "--cov and --json must be different"),
        (["plan", "identity-test", "--rows", "9", "--columns", "1", *test], "--cov and --json must be different"),
        (["simulate", "mean-rate", *GRID, "--out", "r", "--json", "r"], "--out and --json must be different"),
        (["simulate", "mean-rate", *GRID, "--out", "r", "--report", "./r"], "--out and --report must be"),
        (["simulate", "mean-rate", *GRID, "--report", "r", "--json", "r"], "--report and --json must be"),
        (["audit", "people.csv", "--epsilon", "1", "--json", "people.csv"], "file and --json must be different"),
        (["simulate", "mean-rate", *GRID, "--out", "b.db"], "--out b.db must be the file of a study"),
        (["simulate", "mean-rate", *GRID, "--report", "no/r"], "--report must name a file that can be written"),
        (["demo", "--out", "cov.csv"], "--out must name a folder, there or to be made, got 'cov.csv' (File exists"),
    ):
        assert message in refused(arguments, capsys)
    assert (folder / "cov.csv").read_text() == "1\n"


def test_a_device_may_serve_twice(folder: Path) -> None:
    keep_apart(Namespace(report=Path(os.devnull), json=Path(os.devnull)))
    with opened("--json", os.devnull) as write:
        assert write is not None
        write("text")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a full disk")
def test_a_full_disk_takes_no_answer_away(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mean", "people.csv", *AGE, "--json", "/dev/full"]) == 6
    captured = capsys.readouterr()
    assert "Private clipped mean" in captured.out
    assert captured.err == "dpstats mean: --json '/dev/full' cannot be written (No space left on device)\n"


def test_json_has_no_infinite_numbers() -> None:
    facts = {"statistic": np.inf, "range": (-np.inf, np.nan, 1.5), "rows": [{"n": 3, "label": "inf", "reject": True}]}
    read = json.loads(as_json(facts), parse_constant=pytest.fail)
    assert read == {
        "statistic": "Infinity",
        "range": ["-Infinity", "NaN", 1.5],
        "rows": [{"n": 3, "label": "inf", "reject": True}],
    }
    assert float(read["statistic"]) == np.inf


def fresh_process(
    arguments: list[str], stdout: object, stderr: object = subprocess.PIPE
) -> subprocess.CompletedProcess[str]:
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "dpstats", *arguments]
    return subprocess.run(command, stdout=stdout, stderr=stderr, text=True, env=buffered)  # type: ignore[call-overload,no-any-return]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["mean", "people.csv", *AGE], 6, "dpstats mean: the result cannot be printed (Broken pipe)\n"),
        (["budget", "show", "b.db"], 6, "dpstats budget: the result cannot be printed (Broken pipe)\n"),
        (["mean", "--help"], 0, ""),
    ],
)
def test_a_pipe_that_nobody_reads(arguments: list[str], status: int, message: str, folder: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        result = fresh_process(arguments, write)
        both = fresh_process(arguments, write, write)  # 2>&1
    finally:
        os.close(write)
    assert (result.returncode, result.stderr) == (status, message)
    assert both.returncode == status


def test_an_answer_is_shown_whatever_the_terminal_can_show(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "x.csv").write_text("größe\n1\n2\n", encoding="utf-8")
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", terminal)
    assert main(["mean", "x.csv", "--column", "größe", "--bounds", "0", "1", "--seed", "1"]) == 0
    terminal.seek(0)
    assert r"gr\xf6\xdfe" in terminal.read()


def test_bars_are_for_who_looks_at_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not shows_progress(Namespace(quiet=False))  # a log
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert shows_progress(Namespace(quiet=False)) and not shows_progress(Namespace(quiet=True))
    monkeypatch.setattr(sys, "stderr", None)
    assert not shows_progress(Namespace(quiet=False))


@pytest.mark.parametrize("json", [False, True])
def test_what_a_terminal_would_obey_in_a_name_is_escaped(
    json: bool, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "a\x1b[31m\u202eb"
    (folder / "x.csv").write_text(f"{name}\n1\n2\n", encoding="utf-8")
    command = ["mean", "x.csv", "--column", name, "--bounds", "0", "4", "--budget", "b.db"]
    assert main([*command, *(["--json", "-"] if json else [])]) == 0
    assert main(["budget", "history", "b.db"]) == 0
    assert main(["mean", "x.csv", "--column", "none", "--bounds", "0", "4"]) == 2
    said = "".join(capsys.readouterr())
    assert "\x1b" not in said and "\u202e" not in said
    assert "x1b[31m" in said or "u001b[31m" in said
