"""What was charged is not lost: failures planted at every point between the release and its delivery."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dpstats.cli import main
from dpstats.cli.output import KeptResults, results_path
from dpstats.errors import InvalidParameter, LedgerError
from dpstats.privacy import PrivacyBudget
from tests.cli.commands import AGE, json_of, refused

MEAN = ["mean", "people.csv", *AGE, "--epsilon", "0.25", "--budget", "b.db"]


def kept(capsys: pytest.CaptureFixture[str], *more: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    found: list[dict[str, Any]] = json_of(["budget", "results", "b.db", *more], capsys)["results"]
    return found


def charges() -> int:
    return len(PrivacyBudget.open("b.db").history())


def test_a_result_that_was_delivered_is_forgotten(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*MEAN, "--json", "out.json"]) == 0
    assert charges() == 1 and kept(capsys) == []
    assert main(["budget", "results", "b.db"]) == 0
    assert capsys.readouterr().out == "Every result was delivered.\n"
    assert stat.S_IMODE(os.stat("b.db.results").st_mode) == 0o600
    # A simulation charges nothing, and is not kept.
    assert main([*MEAN[:-2], "--seed", "1"]) == 0 and kept(capsys) == []


def broken(*arguments: object, **options: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("where", "reported"),
    [
        ("dpstats.means.clipped.ClippedMean._report", False),  # before anything is made of it
        ("dpstats.means.clipped.ClippedMean.summary", False),
        ("dpstats.cli.output.tell", True),  # before it is printed
    ],
)
def test_a_failure_after_the_release_loses_nothing(
    where: str, reported: bool, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(where, broken)
        capsys.readouterr()
        assert main(MEAN) == 130
        words = (
            "The charge stands: (epsilon = 0.25, delta = 0), one row replaced for 'ClippedMean'. "
            "The released values are kept: 'dpstats budget results b.db' shows them."
        )
        assert capsys.readouterr().err == f"dpstats mean: interrupted. {words}\n"
    (result,) = kept(capsys)
    assert charges() == 1 and (result["result"] is not None) == reported
    (release,) = result["releases"]
    assert release["label"] == "people.csv (age): ClippedMean" and "epsilon = 0.25" in release["guarantee"]
    (value,) = release["released"]["clipped moments"]["clipped mean"]
    assert main(["budget", "results", "b.db"]) == 0
    shown = capsys.readouterr().out
    assert "ClippedMean" in shown and ("Private clipped mean" in shown) == reported and "secret" not in shown
    if reported:
        assert value + 50 == pytest.approx(result["result"]["columns"][0]["mean"], abs=1e-9)
    # The next command says that it waits; --quiet does not.
    assert main(MEAN) == 0 and "earlier results that were not delivered (1)" in capsys.readouterr().err
    assert main([*MEAN, "--quiet"]) == 0 and capsys.readouterr().err == ""
    assert main(["budget", "show", "b.db"]) == 0 and "not delivered: 1" in capsys.readouterr().out
    assert len(kept(capsys, "--discard")) == 1 and kept(capsys) == []


RELEASES = {
    "sparse-mean": ["--column", "age", "--column", "b", "--nonzero", "1", "--clip", "60", "--std", "10", "--split"],
    "group-means": ["--column", "age", "--by", "name", "--groups", "secret,b", "--bounds", "0", "100"],
    "proportion": ["--column", "name=secret"],
    "table": ["--levels", "name=secret,b"],
    "histogram": ["--column", "age", "--bins", "0", "50", "100", "--unknown", "drop"],
    "quantile": AGE,
    "regress": ["--column", "age", "--outcome", "b", "--bounds", "0", "100", "b=0,9"],
}


@pytest.mark.parametrize("command", RELEASES)
def test_every_release_is_kept(
    command: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pd.read_csv("people.csv").assign(b=1).to_csv("people.csv", index=False)
    delta = ["--delta", "1e-6"] if command == "sparse-mean" else []
    assert main(["budget", "new", "c.db", "--epsilon", "1", "--delta", "1e-6"]) == 0
    with monkeypatch.context() as patch:
        patch.setattr("dpstats.cli.output.tell", broken)
        assert main([command, "people.csv", *RELEASES[command], *delta, "--budget", "c.db"]) == 130
    capsys.readouterr()
    assert main(["budget", "results", "c.db", "--json"]) == 0
    (result,) = json.loads(capsys.readouterr().out)["results"]
    (release,) = result["releases"]
    assert release["released"] and release["label"].startswith("people.csv (")
    assert result["result"]["plan"] and result["result"]["privacy"]["simulated"] is False


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs a signal that cannot be caught")
def test_a_command_that_is_killed_loses_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = (
        "import os, signal, sys; from dpstats.cli import main, output; "
        "output.tell = lambda text: os.kill(os.getpid(), signal.SIGKILL); main(sys.argv[1:])"
    )
    killed = subprocess.run([sys.executable, "-c", code, *MEAN], capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL and killed.stdout == b""
    (result,) = kept(capsys)
    assert charges() == 1 and result["result"]["n_samples"] == 200


def test_what_nobody_reads_was_not_delivered(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read, write = os.pipe()
    os.close(read)
    with open(write, "w") as pipe, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", pipe)
        assert main(MEAN) == 7
    said = capsys.readouterr().err
    assert "(Broken pipe). The charge stands" in said and "The released values are kept" in said
    (result,) = kept(capsys)
    assert result["result"]["n_samples"] == 200


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a full disk")
def test_a_full_disk_loses_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*MEAN, "--json", "/dev/full"]) == 7
    assert len(kept(capsys)) == 1


@pytest.mark.parametrize("kind", [AttributeError, ValueError, InvalidParameter, MemoryError, OSError])
def test_no_status_of_a_failure_after_the_charge_means_that_nothing_was_charged(
    kind: type[Exception], folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*arguments: object, **options: object) -> None:
        raise kind("entry 4711")

    monkeypatch.setattr("dpstats.means.clipped.ClippedMean.summary", failing)
    capsys.readouterr()
    assert main(MEAN) == 7 and charges() == 1
    said = capsys.readouterr().err
    assert "The charge stands" in said and said.count("\n") == 1
    # Messages of other packages may show data.
    assert ("4711" in said) == (kind is InvalidParameter)


def test_nothing_is_charged_where_nothing_can_be_kept(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results_path(Path("b.db")).mkdir()
    capsys.readouterr()
    assert main(MEAN) == 6
    assert "b.db.results: results cannot be stored next to the ledger (Is a directory)" in capsys.readouterr().err
    assert charges() == 0
    results_path(Path("b.db")).rmdir()
    assert "the results next to the ledger and --json must be different files" in refused(
        [*MEAN, "--json", "b.db.results"], capsys
    )


def test_nothing_is_charged_where_nothing_can_be_printed(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", None)
        assert main(MEAN) == 2 and charges() == 0
        assert main([*MEAN, "--json", "out.json"]) == 0
    assert json.loads((folder / "out.json").read_text())["n_samples"] == 200


def test_where_keeping_fails_the_answer_is_still_shown(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: KeptResults, releases: Any) -> int:
        raise LedgerError("the disk is full")

    monkeypatch.setattr(KeptResults, "add", full)
    assert main(MEAN) == 0
    captured = capsys.readouterr()
    assert "Private clipped mean" in captured.out and captured.err.endswith(
        "is not kept until it is delivered: the disk is full\n"
    )


def test_results_are_read_where_nothing_can_be_written(folder: Path) -> None:
    results = KeptResults(Path("b.db"))
    assert results.all() == []
    results.path.touch()  # a command that was killed as it made the file
    assert results.all() == [] and results.check() == 0
    number = results.add([{"label": "a"}])
    before = results.path.read_bytes()
    ((found, _, releases, text, facts),) = results.all()
    assert (found, releases, text, facts) == (number, [{"label": "a"}], None, None)
    assert results.path.read_bytes() == before
    results.path.write_text("no database" * 99)
    with pytest.raises(LedgerError, match="results cannot be stored"):
        results.all()
