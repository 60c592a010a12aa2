"""dpstats mean: tables, JSON, and the methods' own parameters."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from dpstats.cli import main
from dpstats.means import ClippedMean
from tests.cli.commands import AGE, failed, json_of, refused


def test_mean_prints_a_table(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["mean", str(table), "--column", "age", "--bounds", "0", "100", "--epsilon", "1", "--delta", "1e-6"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    # Of one column Laplace noise is smaller, and the guarantee is stronger than the one that was asked for.
    assert "age" in out and "(epsilon = 1, delta = 0)" in out and "imulated" not in out
    assert "smaller than Gaussian noise at delta = 1e-06" in out


def test_mean_as_json(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["mean", str(table), "--column", "age", "--column", "visits", "--bounds", "0", "100", "--bounds", "0"]
    assert main([*arguments, "20", "--epsilon", "5", "--seed", "1", "--json", "-"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (
        result["privacy"].items()
        >= {"epsilon": 5.0, "delta": 0.0, "neighbors": "REPLACE_ONE", "simulated": True}.items()
    )
    assert [column["name"] for column in result["columns"]] == ["age", "visits"]
    for column, truth in zip(result["columns"], (40, 3), strict=True):
        assert column["low"] < column["mean"] < column["high"]
        # Six times the interval's half-width is a false alarm below 1e-12.
        assert abs(column["mean"] - truth) < 3 * (column["high"] - column["low"])


BAD = {
    "no such column": (["--column", "height", "--bounds", "0", "1"], "--column must name columns of people.csv"),
    "text column": (["--column", "name", "--bounds", "0", "1"], "an entry must be a number, true, false or missing"),
    "bounds in the wrong order": (["--column", "age", "--bounds", "9", "1"], "--bounds must be two numbers LO < HI"),
    "too few bounds": ([*AGE, "--column", "visits", "--bounds", "0", "1", "--bounds", "0", "1"], "--bounds must be"),
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
    assert message in failed(["mean", str(table), *arguments], capsys, 3 if name == "text column" else 2)


ADAPTIVE = ["--column", "age", "--method", "adaptive", "--delta", "1e-6"]


def test_adaptive_mean_states_its_assumption(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["mean", str(table), *ADAPTIVE, "--bound", "200", "--std", "12", "--epsilon", "5"]
    # Other noise leaves out the last note in 3% of runs.
    assert main([*arguments, "--seed", "1"]) == 0
    out = capsys.readouterr().out
    assert "Private adaptive mean" in out
    assert "the stated standard deviation is an upper bound, without other assumptions" in out
    assert 'estimand="tails" gives intervals of' in " ".join(out.split())
    result = json_of([*arguments, "--column", "visits", "--std", "4", "--tails", "variance"], capsys)
    assert result["estimator"] == "AdaptiveMean" and result["tails"] == "variance"
    assert "upper bound, without other assumptions" in result["assumption"]
    assert [column["std"] for column in result["columns"]] == [12, 4]
    for column, truth in zip(result["columns"], (40, 3), strict=True):
        # Six times the interval's half-width is a false alarm below 1e-12.
        assert abs(column["mean"] - truth) < 3 * (column["high"] - column["low"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*ADAPTIVE, "--std", "1"], "--method adaptive must have --bound"),
        ([*ADAPTIVE, "--bound", "1"], "--std must be given with --method adaptive"),
        ([*ADAPTIVE, "--bound", "9", "--std", "x"], "--std must be 'private' or a number, got 'x'"),
        ([*ADAPTIVE, "--bound", "9", "--std", "10"], "bound must be at least the standard deviation"),
        ([*ADAPTIVE, "--bound", "9", "--bound", "9", "--std", "1"], "--bound must be given once"),
        ([*ADAPTIVE, "--bound", "9", "--std", "1", *AGE[2:]], "--method adaptive must have --bound or --bounds, one"),
        ([*AGE, "--bound", "9"], "--bound must not be given with --method clipped"),
        ([*AGE, "--tails", "variance"], "--tails must not be given with --method clipped"),
        (["--column", "age"], "--bounds must be given with --method clipped"),
        ([*AGE, "--std", "1", "--std", "2"], "--std must be given once, or once per column (1)"),
    ],
)
def test_mean_methods_have_parameters_of_their_own(
    arguments: list[str], message: str, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in failed(["mean", str(table), *arguments], capsys)


def test_a_value_is_tested_at_no_cost(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["mean", "people.csv", *AGE, "--seed", "1"]
    result = json_of([*arguments, "--test", "30", "--alternative", "greater"], capsys)
    rows = pd.read_csv("people.csv")[["age"]]
    expected = ClippedMean(bounds=(0, 100), random_state=1).fit(rows).test(30.0, "greater")
    (column,) = result["test"]["columns"]
    assert result["test"]["alternative"] == "greater" and column["name"] == "age"
    assert (column["value"], column["pvalue"]) == (30.0, expected.pvalue[0]) and column["pvalue"] < 1e-6
    assert main([*arguments, "--test", "30"]) == 0
    out = capsys.readouterr().out
    assert "Private test of a value" in out and "Private clipped mean" in out
    assert "--test must be given once, or once per column (1)" in failed(
        [*arguments, "--test", "1", "--test", "2"], capsys
    )
    # A value that no mean can have is refused before the charge.
    for given in (["--test", "101"], ["--test", "nan"]):
        message = refused(["mean", "people.csv", *AGE, "--budget", "b.db", *given], capsys, 2)
        assert "--test must be between the declared bounds" in message
    adaptive = [*ADAPTIVE, "--bound", "50", "--std", "12", "--budget", "b.db", "--test", "-51"]
    assert "between -50 and 50" in refused(["mean", "people.csv", *adaptive], capsys, 2)


@pytest.mark.parametrize("rows", ["", "1,a\n", "1,a\n2,b\n3,a\n"])
def test_a_private_number_of_rows_is_released_and_not_stated(
    rows: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("x,g\n" + rows)
    box = ["--column", "x", "--bounds", "0", "5"]
    calls = (
        ["mean", str(path), *box],
        ["group-means", str(path), *box, "--by", "g", "--groups", "a,b"],
        ["table", str(path), "--levels", "g=a,b"],
        ["histogram", str(path), "--column", "x", "--bins", "0", "2", "4"],
    )
    for call in calls:
        assert main([*call, "--neighbors", "add_or_remove", "--json"]) == 0
        facts = json.loads(capsys.readouterr().out)
        assert "n_samples" not in json.dumps(facts) and facts["privacy"]["neighbors"] == "ADD_OR_REMOVE_ONE"
        assert call[0] == "histogram" or facts["n_low"] <= max(facts["n"], 0.0) <= facts["n_high"]


def test_an_adaptive_mean_refuses_a_private_number_of_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("x\n1\n2\n3\n")
    call = ["mean", str(path), "--column", "x", "--method", "adaptive", "--bound", "5", "--std", "1"]
    assert main([*call, "--neighbors", "add_or_remove"]) != 0
    assert "--neighbors must be replace_one with --method adaptive" in capsys.readouterr().err
