"""The dpstats command: tables, JSON, and one clear line with exit status 2 for bad input."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpstats.cli import main


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"age": rng.normal(40, 10, 500), "visits": rng.poisson(3, 500), "name": ["secret"] * 500}
    )
    path = tmp_path / "people.csv"
    frame.to_csv(path, index=False)
    return path


def test_mean_prints_a_table(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "mean",
        str(table),
        "--column",
        "age",
        "--bounds",
        "0",
        "100",
        "--epsilon",
        "1",
        "--delta",
        "1e-6",
    ]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "age" in out and "epsilon = 1, delta = 1e-06" in out and "imulated" not in out


def test_mean_as_json(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "mean",
        str(table),
        "--column",
        "age",
        "--column",
        "visits",
        "--bounds",
        "0",
        "100",
        "--bounds",
        "0",
    ]
    assert main([*arguments, "20", "--epsilon", "5", "--seed", "1", "--json", "-"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["privacy"] == {"epsilon": 5.0, "delta": 0.0, "neighbors": "REPLACE_ONE", "simulated": True}
    assert [column["name"] for column in result["columns"]] == ["age", "visits"]
    for column, truth in zip(result["columns"], (40, 3), strict=True):
        assert column["low"] < column["mean"] < column["high"]
        # Six times the interval's half-width is a false alarm below 1e-12.
        assert abs(column["mean"] - truth) < 3 * (column["high"] - column["low"])


def test_json_to_a_file_prints_the_table_too(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out.json"
    assert main(["mean", str(table), "--column", "age", "--bounds", "0", "100", "--json", str(target)]) == 0
    assert json.loads(target.read_text())["n_samples"] == 500
    assert "estimate" in capsys.readouterr().out


AGE = ["--column", "age", "--bounds", "0", "100"]
BAD = {
    "no such column": (
        ["--column", "height", "--bounds", "0", "1"],
        "--column must name columns of people.csv",
    ),
    "text column": (["--column", "name", "--bounds", "0", "1"], "at least one column holds text"),
    "bounds in the wrong order": (
        ["--column", "age", "--bounds", "9", "1"],
        "--bounds must be two numbers LO < HI",
    ),
    "too few bounds": (
        [*AGE, "--column", "visits", "--bounds", "0", "1", "--bounds", "0", "1"],
        "--bounds must be",
    ),
    "a column twice": ([*AGE, "--column", "age"], "--column must name each column once"),
    "epsilon 0": ([*AGE, "--epsilon", "0"], "epsilon must be a finite number greater than 0, got 0"),
    "delta 1": ([*AGE, "--delta", "1"], "delta must be"),
    "std": ([*AGE, "--std", "wide"], "--std must be"),
    "confidence": ([*AGE, "--confidence", "95"], "--confidence must be"),
    "seed": ([*AGE, "--seed", "-1"], "--seed must be a non-negative integer"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_and_exit_2(name: str, table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, message = BAD[name]
    assert main(["mean", str(table), *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err and captured.err.count("\n") == 1
    assert "secret" not in captured.err


def test_unreadable_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mean", str(tmp_path / "none.csv"), *AGE]) == 2
    assert "none.csv" in capsys.readouterr().err
    empty = tmp_path / "empty.csv"
    empty.write_text("")
    assert main(["mean", str(empty), *AGE]) == 2
    assert "empty.csv is not a readable CSV or Parquet file" in capsys.readouterr().err


def test_unknown_commands_exit_2() -> None:
    with pytest.raises(SystemExit) as caught:
        main(["median", "x.csv"])
    assert caught.value.code == 2


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
    assert [row["label"] for row in json.loads(capsys.readouterr().out)] == ["ClippedMean"]
    # The second does not fit: one line, exit 2, nothing printed.
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and "Nothing was charged" in captured.err and captured.err.count("\n") == 1
    assert main(["budget", "show", ledger]) == 0
    assert "Charges:   1" in capsys.readouterr().out


def test_budget_errors(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = str(tmp_path / "none.db")
    for arguments, message in (
        (["budget", "show", missing], "there is no such ledger"),
        (["budget", "new", str(table), "--epsilon", "1"], "exists already"),
        (["budget", "new", missing, "--epsilon", "0"], "epsilon must be"),
        (["budget", "new", missing, "--epsilon", "1", "--method", "gdp"], "delta must be greater than 0"),
        (["budget", "show", str(table)], "is not a ledger, or it is corrupt"),
        (["mean", str(table), *AGE, "--budget", missing], "there is no such ledger"),
    ):
        assert main(arguments) == 2
        captured = capsys.readouterr()
        assert message in captured.err and captured.err.count("\n") == 1
    ledger = str(tmp_path / "b.db")
    main(["budget", "new", ledger, "--epsilon", "1"])
    assert main(["mean", str(table), *AGE, "--budget", ledger, "--seed", "1"]) == 2
    assert "--seed and --budget cannot be given together" in capsys.readouterr().err


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


def recorded(folder: Path, outputs: list[object], neighbor_outputs: list[object], **names: str) -> str:
    path = folder / "runs.csv"
    frame = pd.DataFrame({"dataset": outputs, "neighbor": neighbor_outputs})
    frame.rename(columns=names).to_csv(path, index=False)
    return str(path)


def test_audit_of_recorded_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    runs = recorded(tmp_path, rng.laplace(size=10_000), 1 + rng.laplace(size=10_000))
    picture, target = tmp_path / "out.png", tmp_path / "out.json"
    arguments = ["audit", runs, "--epsilon", "0.5", "--plot", str(picture), "--json", str(target)]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "proved at least" in out and "violated" in out and "5,000 runs each" in out
    result = json.loads(target.read_text())
    assert result["violated"] and 0.5 < result["epsilon_lower"] <= 1.0 and result["n_trials"] == 10_000
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_audit_of_recorded_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    answers = [np.where(rng.random(4000) < p, "yes", "no").tolist() for p in (0.75, 0.25)]
    runs = recorded(tmp_path, *answers, dataset="a", neighbor="b")
    assert main(["audit", runs, "--epsilon", "1.2", "--columns", "a", "b", "--json", "-"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert not result["violated"] and 0.8 < result["epsilon_lower"] < np.log(3)
    assert "output in {'" in result["event"]


def test_audit_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = recorded(tmp_path, [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, None])
    few = tmp_path / "few.csv"
    few.write_text("dataset,neighbor\n1,2\n")
    for arguments, message in (
        ([runs, "--epsilon", "1"], "empty cells"),
        ([runs, "--epsilon", "1", "--columns", "a", "b"], "--columns must name columns of runs.csv"),
        ([runs, "--epsilon", "1", "--columns", "dataset", "dataset"], "--columns must name two different"),
        ([runs, "--epsilon", "1", "--plot", "out.txt"], "--plot must name a png, pdf or svg file"),
        ([str(few), "--epsilon", "1"], "at least 4, got 1 and 1"),
        ([str(few), "--epsilon", "-1"], "epsilon must be"),
        ([str(tmp_path / "none.csv"), "--epsilon", "1"], "none.csv"),
    ):
        assert main(["audit", *arguments]) == 2
        captured = capsys.readouterr()
        assert captured.out == "" and message in captured.err and captured.err.count("\n") == 1
