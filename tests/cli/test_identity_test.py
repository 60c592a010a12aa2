"""dpstats identity-test: every test, its covariance, its delta."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dpstats.cli import main
from tests.cli.commands import PAIR, failed, json_of, refused


@pytest.mark.parametrize(
    ("test", "name"),
    [
        ("auto", "SpatialSignTest"),
        ("row-distance", "RowDistanceTest"),
        ("spatial-sign", "SpatialSignTest"),
        ("lipschitz", "LipschitzExtensionTest"),
    ],
)
def test_identity_test(test: str, name: str, signals: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # 200 rows at a distance of 1.3 are told apart whatever the noise.
    short = signals.with_name("short.csv")
    short.write_text("".join(signals.read_text().splitlines(keepends=True)[:201]))
    arguments = ["identity-test", str(short), *PAIR, "--test", test, "--level", "0.1", "--mean", "0"]
    result = json_of([*arguments, "--epsilon", "5"], capsys)
    assert result["estimator"] == name and result["privacy"]["epsilon"] == 5 and result["level"] == 0.1
    assert result["reject"] and result["statistic"] > result["threshold"] and result["pvalue"] < 0.01


def test_identity_test_prints_a_table_and_shows_progress(
    signals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cov = tmp_path / "cov.csv"
    cov.write_text("1,0.1\n0.1,1\n")
    # A size that no other test calibrates for: calibrations are kept.
    short = tmp_path / "short.csv"
    short.write_text("".join(signals.read_text().splitlines(keepends=True)[:1234]))
    arguments = ["identity-test", str(short), *PAIR, "--test", "spatial-sign", "--seed", "1"]
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main([*arguments, "--mean", "0.9", "0.9", "--cov", str(cov)]) == 0
    captured = capsys.readouterr()
    assert "To test the mean alone, use 'dpstats mean --test'." in " ".join(captured.out.split())
    assert "Spatial sign: private identity test" in captured.out and "imulated noise" in captured.out
    assert "null distribution" in captured.err
    # Standard deviations are the covariance of their squares.
    cov.write_text("4,0\n0,9\n")
    matrix = json_of([*arguments, "--mean", "0.9", "--cov", str(cov)], capsys)
    stds = json_of([*arguments, "--mean", "0.9", "--std", "2", "3"], capsys)
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
    ):
        assert message in failed(["identity-test", str(signals), *arguments], capsys)
    words.write_text("a,name\n1,secret\n2,secret\n")
    named = ["identity-test", str(words), "--column", "name", "--mean", "0"]
    assert "column 'name': an entry must be a number, true, false or missing" in failed(named, capsys)


def test_identity_test_charges_a_budget(signals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = str(tmp_path / "b.db")
    assert main(["budget", "new", ledger, "--epsilon", "1"]) == 0
    arguments = ["identity-test", str(signals), *PAIR, "--mean", "0", "--test", "lipschitz"]
    assert main([*arguments, "--budget", ledger]) == 0
    capsys.readouterr()
    assert "Nothing was charged" in failed([*arguments, "--budget", ledger], capsys, 4)


def test_a_test_is_planned_by_the_size(capsys: pytest.CaptureFixture[str]) -> None:
    for rows, columns, name in (
        ("2000", "7", "SpatialSignTest"),
        ("2000", "8", "RowDistanceTest"),
        ("20000", "8", "SpatialSignTest"),
    ):
        arguments = ["plan", "identity-test", "--rows", rows, "--columns", columns, "--mean", "0"]
        assert json_of(arguments, capsys)["estimator"] == name


def test_filtering_has_a_delta(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["plan", "identity-test", "--rows", "400", "--columns", "5", "--mean", "0"]
    for given, delta in (([], 1e-6), (["--delta", "1e-5"], 1e-5)):
        planned = json_of([*arguments, "--test", "filtering", *given], capsys)
        assert planned["estimator"] == "FilteringTest" and planned["privacy"]["delta"] == delta
    message = failed([*arguments, "--delta", "1e-5"], capsys)
    assert "--delta must be given with --test filtering only, got --test auto" in message


def test_identity_test_of_signs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    coins = tmp_path / "coins.csv"
    coins.write_text("a,b\n" + "0,1\n1,0\n" * 700)
    arguments = ["identity-test", str(coins), "--column", "a", "--column", "b", "--test", "spatial-sign"]
    fair = json_of([*arguments, "--null", "product", "--mean", "0", "--seed", "1"], capsys)
    assert fair["null"] == "the rows are independent signs with the public means" and not fair["reject"]
    # Given as normal rows, half of them lie at the mean: 0 and not -1.
    assert json_of([*arguments, "--mean", "0", "--seed", "1"], capsys)["reject"]


@pytest.mark.parametrize("content", ["", "# nothing\n"])
def test_an_empty_covariance_is_one_line(content: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "cov.csv").write_text(content)
    arguments = ["identity-test", "people.csv", "--column", "age", "--mean", "0", "--cov"]
    assert "without a header, got cov.csv: the file is empty" in refused([*arguments, "cov.csv"], capsys)
    assert "without a header, got . (Is a directory)" in refused([*arguments, "."], capsys)


def test_a_cost_in_zero_concentrated_privacy(signals: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = signals.with_name("short.csv")
    short.write_text("".join(signals.read_text().splitlines(keepends=True)[:201]))
    arguments = ["identity-test", str(short), *PAIR, "--test", "row-distance", "--level", "0.1", "--mean", "0"]
    result = json_of([*arguments, "--rho", "0.5"], capsys)
    (stage,) = result["plan"]["stages"]
    assert stage["noise"] == "gaussian" and result["privacy"]["delta"] == 1e-6 and result["notes"]
    assert "--rho must not be given with --epsilon" in failed([*arguments, "--rho", "1", "--epsilon", "1"], capsys)
    auto = ["plan", "identity-test", "--rows", "99", "--columns", "2", "--mean", "0", "--rho", "1"]
    assert "--rho must be given with --test row-distance only, got --test auto" in failed(auto, capsys)
