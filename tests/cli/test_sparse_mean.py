"""dpstats sparse-mean: what is selected, with and without intervals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpstats.cli import main
from tests.cli.commands import SPARSE, failed, json_of


def test_sparse_mean(signals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "out.json"
    arguments = ["sparse-mean", str(signals), *SPARSE]
    assert main([*arguments, "--split", "--json", str(target)]) == 0
    out = capsys.readouterr().out
    assert "Private sparse mean" in out and "Selected columns: 2 of 30. All others are reported as 0." in out
    result = json.loads(target.read_text())
    assert (result["n_samples"], result["n_features"]) == (2000, 30)
    assert result["privacy"]["delta"] == 1e-6
    assert [column["name"] for column in result["columns"]] == ["g3", "g7"]
    for column in result["columns"]:
        assert column["low"] < column["mean"] < column["high"] and abs(column["mean"] - 0.9) < 0.5
    # Without a split there are no intervals, and none are made up.
    whole = json_of([*arguments, "--seed", "1"], capsys)
    assert whole["privacy"]["simulated"] and "estimand" not in whole
    assert all(set(column) == {"name", "mean", "noise_std"} for column in whole["columns"])


def test_sparse_mean_of_some_columns(signals: Path, capsys: pytest.CaptureFixture[str]) -> None:
    some = ["--column", "g7", "--column", "g1", "--column", "g2"]
    result = json_of(["sparse-mean", str(signals), *SPARSE, *some], capsys)
    assert result["n_features"] == 3 and "g7" in [column["name"] for column in result["columns"]]


def test_sparse_mean_errors(signals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = tmp_path / "words.csv"
    words.write_text("name\nsecret\n")
    for arguments, message in (
        ([str(words), *SPARSE], "words.csv, column 'name': an entry must be a number"),
        ([str(signals), *SPARSE, "--nonzero", "31"], "--nonzero must be an integer at least 1 and at most 30"),
        ([str(signals), *SPARSE, "--clip", "0"], "clip must be"),
        ([str(signals), *SPARSE, "--std", "-1"], "std must be"),
        ([str(signals), *SPARSE, "--max-signal", "-1"], "--max-signal must be"),
        ([str(words), *SPARSE, "--column", "name"], "an entry must be a number, true, false or missing"),
        ([str(signals), *SPARSE, "--column", "g1", "--column", "g1"], "--column must name each column once"),
        ([str(signals), *SPARSE, "--confidence", "1"], "--confidence must be"),
    ):
        assert message in failed(["sparse-mean", *arguments], capsys)


def test_a_private_spread(signals: Path, capsys: pytest.CaptureFixture[str]) -> None:
    private = [*SPARSE[:4], "--std", "private", "--std-bound", "3", "--epsilon", "5", "--seed", "1"]
    result = json_of(["sparse-mean", str(signals), *private], capsys)
    assert result["notes"] and all(0 <= column["std"] <= 6 for column in result["columns"])
    each = ["--column", "g3", "--column", "g7", "--std", "1", "--std", "2"]
    assert json_of(["sparse-mean", str(signals), *SPARSE[:4], *each], capsys)["n_features"] == 2
    for wrong, message in (
        (["--std", "private"], "--std-bound must be given with --std private, and only with it"),
        (["--std", "1", "--std-bound", "3"], "--std-bound must be given with --std private"),
        (["--std", "wide"], "--std must be 'private' or a number, got 'wide'"),
    ):
        assert message in failed(["sparse-mean", str(signals), *SPARSE[:4], *wrong], capsys, 2)
