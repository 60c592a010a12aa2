"""The dpstats command: tables, JSON, and one clear line with exit status 2 for bad input."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "COMMAND"),
        (["median", "x.csv"], "invalid choice: 'median'"),
        (["mean", "x.csv", "--bounds", "0", "1"], "required: --column"),
        (["mean", "x.csv", *AGE, "--method", "median"], "--method"),
        (["mean", "x.csv", *AGE, "--epsilon", "one"], "--epsilon"),
        (["sparse-mean", "x.csv", "--clip", "1", "--std", "1"], "required: --nonzero"),
        (["sparse-mean", "x.csv", "--nonzero", "2.5", "--clip", "1", "--std", "1"], "--nonzero"),
        (["identity-test", "x.csv", "--column", "a"], "required: --mean"),
        (["identity-test", "x.csv", "--column", "a", "--mean", "0", "--test", "t"], "--test"),
        (["identity-test", "x.csv", "--column", "a", "--mean", "0", "--std", "1", "--cov", "c"], "--cov"),
        (["plan"], "COMMAND"),
        (["plan", "mean", "--rows", "10", "--bounds", "0", "1"], "required: --columns"),
        (["plan", "mean", "--rows", "10", "--columns", "1", "--bounds", "0", "1", "--seed", "1"], "--seed"),
    ],
)
def test_wrong_arguments_are_one_line_and_exit_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == "" and message in captured.err and captured.err.count("\n") == 1


def test_help_loads_nothing_heavy() -> None:
    code = "import sys, dpstats.cli as c\ntry: c.main(['--help'])\nfinally: print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(result.stdout.splitlines()[-1].split())
    assert "dpstats.cli.mean" in loaded
    assert not loaded & {"numpy", "scipy", "sklearn", "pandas", "opendp", "sqlite3", "matplotlib"}


def failed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Return the one line of a command that has to exit with 2."""
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1 and "secret" not in captured.err
    return captured.err


def as_json(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Return what a command prints with ``--json -``."""
    assert main([*arguments, "--json", "-"]) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_negative_numbers_may_have_exponents(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["mean", str(table), "--column", "age", "--seed", "1", "--bounds"]
    short = as_json([*arguments, "-1e2", "1e2"], capsys)
    assert short == as_json([*arguments, "-100", "100"], capsys)


def test_parquet_files_are_read_as_such(
    table: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pd, "read_parquet", pd.read_csv)
    path = table.rename(table.with_suffix(".parquet"))
    assert as_json(["mean", str(path), *AGE], capsys)["n_samples"] == 500


ADAPTIVE = ["--column", "age", "--method", "adaptive", "--delta", "1e-6"]


def test_adaptive_mean_states_its_assumption(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["mean", str(table), *ADAPTIVE, "--bound", "200", "--std", "12", "--epsilon", "5"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "Private adaptive mean" in out and 'tails="subgaussian" assumes that' in out
    result = as_json([*arguments, "--column", "visits", "--std", "4", "--tails", "variance"], capsys)
    assert result["estimator"] == "AdaptiveMean" and result["tails"] == "variance"
    assert "upper bound, and nothing else" in result["assumption"]
    for column, truth in zip(result["columns"], (40, 3), strict=True):
        # Six times the interval's half-width is a false alarm below 1e-12.
        assert abs(column["mean"] - truth) < 3 * (column["high"] - column["low"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*ADAPTIVE, "--std", "1"], "--method adaptive needs --bound"),
        ([*ADAPTIVE, "--bound", "1"], "--method adaptive needs --std"),
        ([*ADAPTIVE, "--bound", "9", "--std", "private"], "--std must be a number, got 'private'"),
        ([*ADAPTIVE, "--bound", "9", "--std", "10"], "bound must be at least the standard deviation"),
        ([*ADAPTIVE, "--bound", "9", "--bound", "9", "--std", "1"], "--bound must be given once"),
        ([*ADAPTIVE, "--bound", "9", "--std", "1", "--bounds", "0", "1"], "--bounds does not go with"),
        ([*AGE, "--bound", "9"], "--bound does not go with --method clipped"),
        ([*AGE, "--tails", "variance"], "--tails does not go with --method clipped"),
        (["--column", "age"], "--method clipped needs --bounds"),
        ([*AGE, "--std", "1", "--std", "2"], "--std must be given once, or once per column (1)"),
    ],
)
def test_mean_methods_have_parameters_of_their_own(
    arguments: list[str], message: str, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in failed(["mean", str(table), *arguments], capsys)


@pytest.fixture
def signals(tmp_path: Path) -> Path:
    rows = np.random.default_rng(0).normal(size=(2000, 30))
    rows[:, [3, 7]] += 0.9
    frame = pd.DataFrame(rows, columns=[f"g{j}" for j in range(30)]).assign(name="secret")
    path = tmp_path / "genes.csv"
    frame.to_csv(path, index=False)
    return path


SPARSE = ["--nonzero", "2", "--clip", "6", "--std", "1", "--epsilon", "5"]


def test_sparse_mean(signals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "out.json"
    arguments = ["sparse-mean", str(signals), *SPARSE]
    assert main([*arguments, "--split", "--json", str(target)]) == 0
    out = capsys.readouterr().out
    assert "Private sparse mean" in out and "The other 28 columns are reported as 0." in out
    result = json.loads(target.read_text())
    assert (result["n_samples"], result["n_features"]) == (2000, 30)
    assert result["privacy"]["delta"] == 1e-6
    assert [column["name"] for column in result["columns"]] == ["g3", "g7"]
    for column in result["columns"]:
        assert column["low"] < column["mean"] < column["high"] and abs(column["mean"] - 0.9) < 0.5
    # Without a split there are no intervals, and none are made up.
    whole = as_json([*arguments, "--seed", "1"], capsys)
    assert whole["privacy"]["simulated"] and "estimand" not in whole
    assert all(set(column) == {"name", "mean", "noise_std"} for column in whole["columns"])


def test_sparse_mean_of_some_columns(signals: Path, capsys: pytest.CaptureFixture[str]) -> None:
    some = ["--column", "g7", "--column", "g1", "--column", "g2"]
    result = as_json(["sparse-mean", str(signals), *SPARSE, *some], capsys)
    assert result["n_features"] == 3 and "g7" in [column["name"] for column in result["columns"]]


def test_sparse_mean_errors(signals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = tmp_path / "words.csv"
    words.write_text("name\nsecret\n")
    for arguments, message in (
        ([str(words), *SPARSE], "words.csv has no numeric columns"),
        (
            [str(signals), *SPARSE, "--nonzero", "31"],
            "--nonzero must be an integer at least 1 and at most 30",
        ),
        ([str(signals), *SPARSE, "--clip", "0"], "clip must be"),
        ([str(signals), *SPARSE, "--std", "-1"], "std must be"),
        ([str(signals), *SPARSE, "--max-signal", "-1"], "max_signal must be"),
        ([str(signals), *SPARSE, "--column", "g1", "--column", "name"], "text or other objects"),
        ([str(signals), *SPARSE, "--column", "g1", "--column", "g1"], "--column must name each column once"),
        ([str(signals), *SPARSE, "--confidence", "1"], "--confidence must be"),
    ):
        assert message in failed(["sparse-mean", *arguments], capsys)


PAIR = ["--column", "g3", "--column", "g7"]


@pytest.mark.parametrize(
    ("test", "name"),
    [
        ("auto", "RowDistanceTest"),
        ("row-distance", "RowDistanceTest"),
        ("spatial-sign", "SpatialSignTest"),
        ("lipschitz", "LipschitzExtensionTest"),
    ],
)
def test_identity_test(test: str, name: str, signals: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # 2000 rows at a distance of 1.3 are told apart whatever the noise.
    arguments = ["identity-test", str(signals), *PAIR, "--test", test, "--level", "0.1", "--mean", "0"]
    result = as_json([*arguments, "--epsilon", "5"], capsys)
    assert result["estimator"] == name and result["privacy"]["epsilon"] == 5 and result["level"] == 0.1
    assert result["reject"] and result["statistic"] > result["threshold"] and result["pvalue"] < 0.01


def test_identity_test_prints_a_table_and_shows_progress(
    signals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cov = tmp_path / "cov.csv"
    cov.write_text("1,0.1\n0.1,1\n")
    # A size that no other test calibrates for: calibrations are kept.
    short = tmp_path / "short.csv"
    short.write_text("".join(signals.read_text().splitlines(keepends=True)[:1234]))
    arguments = ["identity-test", str(short), *PAIR, "--test", "spatial-sign", "--seed", "1"]
    assert main([*arguments, "--mean", "0.9", "0.9", "--cov", str(cov)]) == 0
    captured = capsys.readouterr()
    assert "Spatial sign: private identity test" in captured.out and "imulated noise" in captured.out
    assert "null distribution" in captured.err
    # Standard deviations are the covariance of their squares.
    cov.write_text("4,0\n0,9\n")
    matrix = as_json([*arguments, "--mean", "0.9", "--cov", str(cov)], capsys)
    stds = as_json([*arguments, "--mean", "0.9", "--std", "2", "3"], capsys)
    assert matrix["statistic"] == pytest.approx(stds["statistic"])


def test_identity_test_errors(signals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words, cube = tmp_path / "words.csv", tmp_path / "cube.csv"
    words.write_text("a,b\n1,0\n")
    cube.write_text("1,0,0\n0,1,0\n0,0,1\n")
    for arguments, message in (
        ([*PAIR, "--mean", "0", "0", "0"], "--mean must be given once, or once per column (2)"),
        ([*PAIR, "--mean", "nan"], "mean must be"),
        ([*PAIR, "--mean", "0", "--std", "1", "0"], "--std must be"),
        ([*PAIR, "--mean", "0", "--std", "1", "1", "1"], "--std must be given once"),
        ([*PAIR, "--mean", "0", "--cov", str(words)], "--cov must be a CSV file of numbers"),
        ([*PAIR, "--mean", "0", "--cov", str(cube)], "--cov must hold 2 lines of 2 numbers"),
        ([*PAIR, "--mean", "0", "--cov", str(tmp_path / "none.csv")], "none.csv"),
        ([*PAIR, "--mean", "0", "--level", "2"], "level must be"),
        ([*PAIR, "--mean", "0", "--epsilon", "0"], "epsilon must be"),
        (["--column", "height", "--mean", "0"], "--column must name columns of genes.csv"),
        (["--column", "name", "--mean", "0"], "text or other objects"),
    ):
        assert message in failed(["identity-test", str(signals), *arguments], capsys)


def test_identity_test_charges_a_budget(
    signals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = str(tmp_path / "b.db")
    assert main(["budget", "new", ledger, "--epsilon", "1"]) == 0
    arguments = ["identity-test", str(signals), *PAIR, "--mean", "0", "--test", "lipschitz"]
    assert main([*arguments, "--budget", ledger]) == 0
    capsys.readouterr()
    assert "Nothing was charged" in failed([*arguments, "--budget", ledger], capsys)


PLANS = {
    "mean": (["--bounds", "0", "1"], "ClippedMean", "laplace"),
    "adaptive": (
        ["--method", "adaptive", "--bound", "9", "--std", "1", "--delta", "1e-6"],
        "AdaptiveMean",
        "gaussian",
    ),
    "sparse-mean": (SPARSE, "SparseMean", "gaussian"),
    "identity-test": (["--mean", "0", "--level", "0.1"], "RowDistanceTest", "laplace"),
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
    result = as_json(arguments, capsys)
    assert result["estimator"] == estimator and len(result["selections"]) == (name == "sparse-mean")
    assert result["stages"] and all(stage["noise"] == noise for stage in result["stages"])


def test_a_plan_is_what_the_release_does(signals: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = ["--column", "g1", "--column", "g2"]
    bounds = ["--bounds", "-4", "4", "--bounds", "-2", "2", "--std", "none"]
    planned = as_json(["plan", "mean", "--rows", "2000", "--columns", "2", *bounds], capsys)
    released = as_json(["mean", str(signals), *columns, *bounds], capsys)
    scale = np.sqrt(2) * np.array(planned["stages"][0]["noise_scale"])
    assert scale == pytest.approx([column["noise_std"] for column in released["columns"]])


def test_large_identity_tests_are_planned_as_spatial_signs(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["plan", "identity-test", "--rows", "20000", "--columns", "5", "--mean", "0"]
    assert as_json(arguments, capsys)["estimator"] == "SpatialSignTest"


def test_filtering_has_a_delta(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["plan", "identity-test", "--rows", "400", "--columns", "5", "--mean", "0"]
    for given, delta in (([], 1e-6), (["--delta", "1e-5"], 1e-5)):
        planned = as_json([*arguments, "--test", "filtering", *given], capsys)
        assert planned["estimator"] == "FilteringTest" and planned["privacy"]["delta"] == delta
    message = failed([*arguments, "--delta", "1e-5"], capsys)
    assert "--delta goes with --test filtering only, got --test auto" in message


def test_identity_test_of_signs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    coins = tmp_path / "coins.csv"
    coins.write_text("a,b\n" + "0,1\n1,0\n" * 700)
    arguments = ["identity-test", str(coins), "--column", "a", "--column", "b", "--test", "spatial-sign"]
    fair = as_json([*arguments, "--null", "product", "--mean", "0", "--seed", "1"], capsys)
    assert fair["null"] == "the rows are independent signs with the public means" and not fair["reject"]
    # Given as normal rows, half of them lie at the mean: 0 and not -1.
    assert as_json([*arguments, "--mean", "0", "--seed", "1"], capsys)["reject"]


def test_plan_errors(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in (
        (["mean", "--rows", "1", "--columns", "1", "--bounds", "0", "1"], "--rows must be"),
        (["mean", "--rows", "9", "--columns", "0", "--bounds", "0", "1"], "--columns must be"),
        (["mean", "--rows", "9", "--columns", "3", *["--bounds", "0", "1"] * 2], "--bounds must be given"),
        (["sparse-mean", "--rows", "9", "--columns", "1", *SPARSE], "--nonzero must be"),
        (["identity-test", "--rows", "9", "--columns", "3", "--mean", "0", "1"], "--mean must be given"),
    ):
        assert message in failed(["plan", *arguments], capsys)


@pytest.mark.parametrize("name", ["auditing", "identity", "means", "mechanisms", "privacy", "simulation"])
def test_subpackages_load_when_they_are_used(name: str) -> None:
    assert name in dir(dpstats) and getattr(dpstats, name).__name__ == f"dpstats.{name}"


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


def recorded(folder: Path, outputs: Any, neighbor_outputs: Any, **names: str) -> str:
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
        ([runs, "--epsilon", "1", "--columns", "dataset", "dataset"], "--columns must name each column once"),
        ([runs, "--epsilon", "1", "--plot", "out.txt"], "--plot must name a png, pdf or svg file"),
        ([str(few), "--epsilon", "1"], "at least 4, got 1 and 1"),
        ([str(few), "--epsilon", "-1"], "epsilon must be"),
        ([str(tmp_path / "none.csv"), "--epsilon", "1"], "none.csv"),
    ):
        assert main(["audit", *arguments]) == 2
        captured = capsys.readouterr()
        assert captured.out == "" and message in captured.err and captured.err.count("\n") == 1


def test_simulate_runs_failed_replications_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["simulate", "mean-rate", "--reps", "4", "--grid", '{"n": [50, 100, 200], "d": [2]}']
    arguments += ["--out", str(tmp_path / "rows.sqlite")]
    assert main(arguments) == 0
    first = capsys.readouterr().out
    # Nothing failed, so nothing is run; the rows are those of the file.
    assert main([*arguments, "--retry-failed"]) == 0 and capsys.readouterr().out == first
