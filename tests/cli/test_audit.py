"""dpstats audit: recorded numbers and words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpstats.cli import main
from tests.cli.commands import failed, refused


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
    assert main(arguments) == 5
    out = capsys.readouterr().out
    assert "5,000" in out
    result = json.loads(target.read_text())
    assert result["violated"] and 0.5 < result["epsilon_lower"] <= 1.0 and result["n_trials"] == 10_000
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_audit_of_recorded_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    answers = [np.where(rng.random(4000) < p, "yes", "no").tolist() for p in (0.75, 0.25)]
    runs = recorded(tmp_path, *answers, dataset="a", neighbor="b")
    assert main(["audit", runs, "--epsilon", "1.2", "--column", "a", "--column", "b", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert not result["violated"] and 0.8 < result["epsilon_lower"] < np.log(3)
    assert "output in {'" in result["event"]


def test_audit_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = recorded(tmp_path, [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, None])
    few = tmp_path / "few.csv"
    few.write_text("dataset,neighbor\n1,2\n")
    for arguments, message in (
        ([runs, "--epsilon", "1"], "empty cells"),
        ([runs, "--epsilon", "1", "--column", "a", "--column", "b"], "--column must name columns of runs.csv"),
        ([runs, "--epsilon", "1", "--column", "dataset", "--column", "dataset"], "--column must name each column once"),
        ([runs, "--epsilon", "1", "--plot", "out.txt"], "--plot must name a png, pdf or svg file"),
        ([runs, "--epsilon", "1", "--column", "dataset"], "--column must be given twice, or not at all"),
        ([str(few), "--epsilon", "1"], "at least 4, got 1 and 1"),
        ([str(few), "--epsilon", "-1"], "epsilon must be"),
        ([str(tmp_path / "none.csv"), "--epsilon", "1"], "none.csv"),
    ):
        assert message in failed(["audit", *arguments], capsys)


def test_wrong_pictures_are_told_before_the_work(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pd.DataFrame({"dataset": range(8), "neighbor": range(8)}).to_csv("runs.csv", index=False)
    arguments = ["audit", "runs.csv", "--epsilon", "1", "--plot", "no/a.png"]
    assert "--plot must name a file that can be written, got 'no/a.png'" in refused(arguments, capsys)
    assert "--plot and --json must be different" in refused([*arguments, "--json", "no/a.png"], capsys)
