"""dpstats plan: what a release would cost, whether a budget could pay, how many rows an error needs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dpstats.cli import main
from dpstats.identity import RowDistanceTest
from tests.cli.commands import AGE, SPARSE, failed, json_of, refused

PLANS = {
    "mean": (["--bounds", "0", "1"], "ClippedMean", "laplace"),
    "adaptive": (["--method", "adaptive", "--bound", "9", "--std", "1", "--delta", "1e-6"], "AdaptiveMean", "gaussian"),
    "sparse-mean": (SPARSE, "SparseMean", "gaussian"),
    "identity-test": (["--mean", "0", "--level", "0.1"], "SpatialSignTest", "laplace"),  # of 5 columns
    "regress": (["--outcome", "y", "--bounds", "0", "1", "y=0,1"], "PrivateLinearRegression", "gaussian"),
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


def test_plans_beyond_any_table_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["plan", "mean", "--bounds", "0", "1", "--rows"]
    assert "--rows must be an integer at least 2 and at most 1e+15" in refused(
        [*arguments, "1" + "0" * 400, "--columns", "1"], capsys
    )
    assert "--columns must be an integer at least 1 and at most 1e+08" in refused(
        [*arguments, "9", "--columns", "1" + "0" * 15], capsys
    )


def test_a_plan_says_whether_a_budget_could_pay(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = ["plan", "mean", "--rows", "500", "--columns", "1", *AGE[2:], "--budget", "b.db", "--epsilon"]
    assert json_of([*plan, "0.25"], capsys)["budget"]["remaining_after"]["epsilon"] == 0.75
    assert main([*plan, "0.25"]) == 0
    assert (
        "Budget b.db: it can pay. Afterwards the largest single charge that fits is (epsilon = 0.75, delta = 0)"
        in capsys.readouterr().out
    )
    assert main([*plan, "2"]) == 4
    captured = capsys.readouterr()
    assert captured.out.endswith("Budget b.db: it cannot pay\n") and "Requested (epsilon = 2," in captured.err
    assert main([*plan, "2", "--json"]) == 4
    found = json.loads(capsys.readouterr().out)["budget"]
    assert found["can_pay"] is False and found["remaining_after"] is None and found["remaining"]["epsilon"] == 1
    assert main(["budget", "show", "b.db", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["charges"] == 0


def test_a_plan_says_how_long_a_calibration_takes(capsys: pytest.CaptureFixture[str]) -> None:
    plan = ["plan", "identity-test", "--columns", "20", "--mean", "0", "--test", "row-distance", "--rows"]
    test = RowDistanceTest(mean=0.0)
    for rows, words in (("100000", "minutes of one core"), ("3000", "seconds of one core")):
        assert main([*plan, rows]) == 0
        assert f"{words}, to within a factor of a few" in capsys.readouterr().out
        seconds = json_of([*plan, rows], capsys)["calibration_seconds"]
        assert seconds == test.calibration_seconds(int(rows), 20) > 0
    assert main(["plan", "mean", "--rows", "9", "--columns", "1", *AGE[2:]]) == 0
    assert "calibration" not in capsys.readouterr().out


def test_columns_are_named_as_in_a_release(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = ["plan", "group-means", "--rows", "400", "--by", "g", "--groups", "a,b", "--columns"]
    bounds = ["--bounds", "0", "9", "b=0,4"]
    by_name = json_of([*named, "x", "b", "y", *bounds], capsys)
    assert by_name["n_features"] == 3
    apart = ["--bounds", "x=0,9", "b=0,4", "y=0,9"]
    assert by_name["stages"] == json_of([*named, "3", *apart], capsys)["stages"]
    regress = ["plan", "regress", "--rows", "400", "--outcome", "y", "--columns", "plan", "age"]
    levels = ["--levels", "plan=a,b,c", "--bounds", "age=0,9", "y=0,9"]
    # Two dummies and a number.
    assert json_of([*regress, *levels], capsys)["n_features"] == 3
    assert json_of(["plan", "quantile", "--rows", "400", "--columns", "age", "--bounds", "0", "9"], capsys)
    for given, message in (
        ([*named, "x", "x", *bounds], "--columns must name each column once, got x, x"),
        (["plan", "quantile", "--rows", "9", "--columns", "a", "b", "--bounds", "0", "9"], "must name 1 of them"),
        ([*regress, *levels[:2], "--bounds", "else=0,9", "y=0,9"], "--bounds must name a column of --column"),
    ):
        assert message in refused(given, capsys)
