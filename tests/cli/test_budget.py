"""dpstats budget: ledgers made, shown, listed and charged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpstats.cli import main
from tests.cli.commands import AGE


def test_budget_new_show_history_and_a_mean_that_charges_it(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = str(tmp_path / "b.db")
    assert main(["budget", "new", ledger, "--epsilon", "1", "--delta", "1e-6", "--method", "gdp"]) == 0
    arguments = ["mean", str(table), *AGE, "--epsilon", "0.9", "--delta", "1e-6", "--budget", ledger]
    assert main(arguments) == 0
    capsys.readouterr()
    assert main(["budget", "show", ledger, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["charges"] == 1 and shown["method"] == "gdp"
    assert shown["spent"]["epsilon"] == pytest.approx(0.9, rel=1e-3)
    assert main(["budget", "history", ledger]) == 0
    assert "ClippedMean" in capsys.readouterr().out
    assert main(["budget", "history", ledger, "--json"]) == 0
    assert [row["label"] for row in json.loads(capsys.readouterr().out)["charges"]] == ["people.csv (age): ClippedMean"]
    # The second does not fit: one line, exit 4, nothing printed.
    assert main(arguments) == 4
    captured = capsys.readouterr()
    assert captured.out == "" and "Nothing was charged" in captured.err and captured.err.count("\n") == 1
    assert main(["budget", "show", ledger]) == 0
    assert "Charges:   1" in capsys.readouterr().out


def test_budget_errors(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = str(tmp_path / "none.db")
    for arguments, message in (
        (["budget", "results", missing], "the ledger does not exist"),
        (["budget", "show", missing], "the ledger does not exist"),
        (["budget", "new", str(table), "--epsilon", "1"], "a new file"),
        (["budget", "new", missing, "--epsilon", "0"], "epsilon must be"),
        (["budget", "new", missing, "--epsilon", "1", "--method", "gdp"], "delta must be greater than 0"),
        (["budget", "show", str(table)], "is not a ledger, or it is corrupt"),
        (["mean", str(table), *AGE, "--budget", missing], "the ledger does not exist"),
    ):
        usage = ("a new file", "epsilon must be", "delta must be greater than 0")
        assert main(arguments) == (2 if message in usage else 6)
        captured = capsys.readouterr()
        assert message in captured.err and captured.err.count("\n") == 1
    ledger = str(tmp_path / "b.db")
    main(["budget", "new", ledger, "--epsilon", "1"])
    assert main(["mean", str(table), *AGE, "--budget", ledger, "--seed", "1"]) == 2
    assert "--seed must not be given with --budget" in capsys.readouterr().err


def test_the_first_charge_sets_the_unit(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "The first charge sets the unit: a row, or a person with all rows (to declare it: --unit).\n"
    capsys.readouterr()
    assert main(["budget", "new", "c.db", "--epsilon", "9"]) == 0
    assert capsys.readouterr().out.endswith(words)
    assert main(["budget", "new", "d.db", "--epsilon", "9", "--unit", "name"]) == 0
    assert "one name replaced" in (shown := capsys.readouterr().out) and words not in shown
    # What does not add up is explained without Python.
    assert main(["mean", "people.csv", *AGE, "--budget", "d.db"]) == 2
    error = capsys.readouterr().err
    assert "they do not add up. Nothing was charged" in error
