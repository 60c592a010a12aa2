"""The commands that release, and their plans: nothing is charged for an answer that is lost."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dpstats.cli import main
from tests.cli.commands import AGE, SPARSE, failed, json_of, refused


def test_json_to_a_file_prints_the_table_too(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out.json"
    assert main(["mean", str(table), "--column", "age", "--bounds", "0", "100", "--json", str(target)]) == 0
    assert json.loads(target.read_text())["n_samples"] == 500
    assert "estimate" in capsys.readouterr().out


PLANS = {
    "mean": (["--bounds", "0", "1"], "ClippedMean", "laplace"),
    "adaptive": (
        ["--method", "adaptive", "--bound", "9", "--std", "1", "--delta", "1e-6"],
        "AdaptiveMean",
        "gaussian",
    ),
    "sparse-mean": (SPARSE, "SparseMean", "gaussian"),
    "identity-test": (["--mean", "0", "--level", "0.1"], "SpatialSignTest", "laplace"),  # of 5 columns
    "regress": (
        ["--outcome", "y", "--bounds", "0", "1", "y=0,1"],
        "PrivateLinearRegression",
        "gaussian",
    ),
}


@pytest.mark.parametrize("name", PLANS)
def test_plans_need_no_data(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    parameters, estimator, noise = PLANS[name]
    command = "mean" if name == "adaptive" else name
    arguments = ["plan", command, "--rows", "400", "--columns", "5", *parameters]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{estimator}: Release plan for n = 400, d = 5: (epsilon = ")
    assert ("assumes that" in out) == (name == "adaptive")
    assert ("simulated null datasets" in out) == (name == "identity-test")
    result = json_of(arguments, capsys)
    assert result["estimator"] == estimator and not result["selections"]  # one of 5: all are released
    assert result["stages"] and all(stage["noise"] == noise for stage in result["stages"])


def test_a_plan_is_what_the_release_does(signals: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = ["--column", "g1", "--column", "g2"]
    bounds = ["--bounds", "-4", "4", "--bounds", "-2", "2", "--std", "none"]
    planned = json_of(["plan", "mean", "--rows", "2000", "--columns", "2", *bounds], capsys)
    released = json_of(["mean", str(signals), *columns, *bounds], capsys)
    scale = np.sqrt(2) * np.array(planned["stages"][0]["noise_scale"])
    assert scale == pytest.approx([column["noise_std"] for column in released["columns"]])


def test_plan_errors(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in (
        (["mean", "--rows", "1", "--columns", "1", "--bounds", "0", "1"], "--rows must be"),
        (["mean", "--rows", "9", "--columns", "0", "--bounds", "0", "1"], "--columns must be"),
        (["mean", "--rows", "9", "--columns", "3", *["--bounds", "0", "1"] * 2], "--bounds must be given"),
        (["sparse-mean", "--rows", "9", "--columns", "1", *SPARSE], "--nonzero must be"),
        (["identity-test", "--rows", "9", "--columns", "3", "--mean", "0", "1"], "--mean must be given"),
    ):
        assert message in failed(["plan", *arguments], capsys)


def test_an_answer_is_not_paid_for_and_lost(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = str(tmp_path / "b.db")
    assert main(["budget", "new", ledger, "--epsilon", "1"]) == 0
    target = str(tmp_path / "no" / "folder" / "out.json")
    assert main(["mean", str(table), *AGE, "--budget", ledger, "--json", target]) == 2
    assert "out.json" in capsys.readouterr().err
    assert main(["budget", "show", ledger]) == 0
    assert "Charges:   0" in capsys.readouterr().out


FILES = {
    "no ledger": (
        ["people.csv", "--budget", "none.db"],
        "--budget must name a ledger (see 'dpstats budget new')",
    ),
    "json in no folder": (
        ["people.csv", "--json", "no/x.json"],
        "--json must name a file that can be written",
    ),
    "json is a folder": (
        ["people.csv", "--json", "."],
        "--json must name a file that can be written, got '.' (Is",
    ),
    "json without a name": (
        ["people.csv", "--json", ""],
        "--json must name a file that can be written, got ''",
    ),
    "json is the data": (["people.csv", "--json", "people.csv"], "file and --json must be different files"),
    "json is the ledger": (["people.csv", "--json", "./b.db"], "--budget and --json must be different files"),
    "bounds": (
        ["people.csv", "--bounds", "0", "inf"],
        "--bounds must have a finite sum and difference, got 0 inf",
    ),
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


def test_plans_beyond_any_table_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["plan", "mean", "--bounds", "0", "1", "--rows"]
    assert "--rows must be an integer at least 2 and at most 1e+15" in refused(
        [*arguments, "1" + "0" * 400, "--columns", "1"], capsys
    )
    assert "--columns must be an integer at least 1 and at most 1e+08" in refused(
        [*arguments, "9", "--columns", "1" + "0" * 15], capsys
    )
