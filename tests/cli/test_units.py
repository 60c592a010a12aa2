"""``--unit``: one row for each unit, in every command that reads rows so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpstats.cli import main

COMMANDS = {
    "group-means": ["--column", "visits", "--by", "plan", "--groups", "a,b", "--bounds", "0", "10"],
    "proportion": ["--column", "plan=a"],
    "table": ["--levels", "plan=a,b", "--levels", "sex=f,m"],
    "histogram": ["--column", "visits", "--bins", "0", "2", "4", "10", "--unknown", "drop"],
    "quantile": ["--column", "visits", "--bounds", "0", "10"],
}
commands = pytest.mark.parametrize("command", COMMANDS)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(300), 3)
    rows = {
        "person": [f"p{i}" for i in person],
        "visits": rng.integers(0, 9, 900),
        "plan": np.where(person % 2, "a", "b"),
        "sex": np.where(person % 3, "f", "m"),
    }
    path = tmp_path / "rows.csv"
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


def json_of(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main([*words, "--json", "-"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@commands
def test_the_guarantee_is_for_a_unit(command: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [command, str(file), *COMMANDS[command], "--seed", "1"]
    by_row = json_of(words, capsys)
    by_unit = json_of([*words, "--unit", "person"], capsys)
    assert (by_row["n_samples"], by_unit["n_samples"]) == (900, 300)
    assert "unit" not in by_row["privacy"]
    assert by_unit["privacy"]["unit"] == "person"
    assert main([*words, "--unit", "person"]) == 0
    assert "one person replaced" in capsys.readouterr().out


def test_what_is_kept(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    some = json_of(
        [
            "proportion",
            str(file),
            "--column",
            "visits=8",
            "--unit",
            "person",
            "--epsilon",
            "100",
            "--seed",
            "1",
        ],
        capsys,
    )
    any_visits = pd.read_csv(file).groupby("person")["visits"].agg(lambda x: (x == 8).any()).sum()
    assert some["count"] == pytest.approx(any_visits, abs=1)
    share = json_of(
        ["table", str(file), "--levels", "plan=a,b", "--unit", "person", "--epsilon", "100", "--seed", "1"],
        capsys,
    )
    assert "150" in json.dumps(share)


@commands
def test_a_unit_is_another_column_and_there(
    command: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [command, str(file), *COMMANDS[command]]
    taken = "plan" if command in ("table", "proportion") else "visits"
    assert main([*words, "--unit", taken]) == 2
    assert "--unit must be another column" in capsys.readouterr().err
    assert main([*words, "--unit", "nobody"]) == 2
    assert "nobody" in capsys.readouterr().err
    rows = pd.read_csv(file)
    rows.loc[0, "person"] = None
    rows.to_csv(file, index=False)
    assert main([*words, "--unit", "person"]) == 3
    assert "missing" in capsys.readouterr().err
