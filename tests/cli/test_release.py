"""The commands that release: nothing is charged for an answer that is lost."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
from pathlib import Path

import pytest

import dpstats
from dpstats.cli import main
from tests.cli.commands import AGE, failed, json_of, refused


def test_json_to_a_file_prints_the_table_too(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "out.json"
    assert main(["mean", str(table), "--column", "age", "--bounds", "0", "100", "--json", str(target)]) == 0
    assert json.loads(target.read_text())["n_samples"] == 500
    assert "estimate" in capsys.readouterr().out


def test_an_answer_is_not_paid_for_and_lost(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = str(tmp_path / "b.db")
    assert main(["budget", "new", ledger, "--epsilon", "1"]) == 0
    target = str(tmp_path / "no" / "folder" / "out.json")
    assert main(["mean", str(table), *AGE, "--budget", ledger, "--json", target]) == 2
    assert "out.json" in capsys.readouterr().err
    assert main(["budget", "show", ledger]) == 0
    assert "Charges:   0" in capsys.readouterr().out


FILES = {
    "no ledger": (["people.csv", "--budget", "none.db"], "--budget must name a ledger (see 'dpstats budget new')"),
    "json in no folder": (["people.csv", "--json", "no/x.json"], "--json must name a file that can be written"),
    "json is a folder": (["people.csv", "--json", "."], "--json must name a file that can be written, got '.' (Is"),
    "json without a name": (["people.csv", "--json", ""], "--json must name a file that can be written, got ''"),
    "json is the data": (["people.csv", "--json", "people.csv"], "file and --json must be different files"),
    "json is the ledger": (["people.csv", "--json", "./b.db"], "--budget and --json must be different files"),
    "bounds": (["people.csv", "--bounds", "0", "inf"], "--bounds must have a finite sum and difference, got 0 inf"),
}


@pytest.mark.parametrize("name", FILES)
def test_files_that_cannot_be_used(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, message = FILES[name]
    budget = [] if "--budget" in arguments else ["--budget", "b.db"]
    before = (folder / "people.csv").read_bytes()
    status = 6 if name == "no ledger" else 2
    assert message in refused(["mean", *arguments, *AGE[:2], *budget, *AGE[2:]], capsys, status)
    assert (folder / "people.csv").read_bytes() == before


def test_a_refusal_leaves_results_as_they_were(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "old.json").write_text("an earlier answer\n")
    arguments = ["mean", "people.csv", *AGE, "--budget", "b.db", "--epsilon"]
    assert "Nothing was charged" in refused([*arguments, "2", "--json", "old.json"], capsys, 4)
    assert (folder / "old.json").read_text() == "an earlier answer\n"
    refused([*arguments, "2", "--json", "new.json"], capsys, 4)
    assert not (folder / "new.json").exists()
    assert main([*arguments, "1", "--json", "old.json"]) == 0
    assert json.loads((folder / "old.json").read_text())["n_samples"] == 200


def test_charges_say_what_they_are_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["mean", "people.csv", *AGE, "--budget", "b.db", "--epsilon", "0.25"]
    assert main(arguments) == 0 and main([*arguments, "--label", "the report\nof May"]) == 0
    capsys.readouterr()
    assert main(["budget", "history", "b.db"]) == 0
    first, second = capsys.readouterr().out.splitlines()[1:]
    assert first.endswith("  people.csv (age): ClippedMean")
    assert second.endswith("  the report\\nof May: people.csv (age): ClippedMean")
    assert "--label must be given with --budget" in failed(["mean", "people.csv", *AGE, "--label", "x"], capsys, 2)


def test_json_is_complete(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = json_of(["mean", "people.csv", *AGE, "--seed", "1"], capsys)
    assert result["dpstats"] == dpstats.__version__ and result["command"] == "mean"
    assert result["privacy"]["neighbors"] == "REPLACE_ONE" and "one row replaced" in result["privacy"]["guarantee"]
    (column,) = result["columns"]
    assert column.keys() == {"name", "mean", "noise_std", "low", "high", "std"}
    (stage,) = result["plan"]["stages"]
    assert stage["name"] == "clipped moments" and result["notes"]
    # --json alone prints, and with a file writes the same.
    assert main(["mean", "people.csv", *AGE, "--seed", "1", "--json", "out.json"]) == 0
    assert json.loads((folder / "out.json").read_text()) == result


def test_a_wait_for_a_ledger_is_said_unless_quiet(
    folder: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpstats.privacy.ledger._SILENT_SECONDS", 0.05)
    for more, said in ([], 1), (["--quiet"], 0):
        caplog.clear()
        with contextlib.closing(sqlite3.connect("b.db", isolation_level=None, check_same_thread=False)) as other:
            other.execute("BEGIN EXCLUSIVE")
            freed = threading.Timer(0.3, other.execute, ["ROLLBACK"])
            freed.start()
            assert main(["budget", "show", "b.db", *more]) == 0
            freed.join()
        assert len(caplog.records) == said
