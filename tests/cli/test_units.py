"""``--unit``: one row for each unit, in every command that reads rows so."""

from __future__ import annotations

import json
import re
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
    "mean": ["--column", "visits", "--bounds", "0", "10"],
    "bounds": ["--column", "visits", "--epsilon", "9"],
    "sparse-mean": ["--column", "visits", "--column", "more", "--nonzero", "1", "--clip", "9", "--std", "3"],
    "identity-test": ["--column", "visits", "--mean", "4"],
    "regress": ["--column", "visits", "--outcome", "more", "--bounds", "visits=0,10", "--bounds", "more=0,10"],
    "regress by formula": ["--formula", "more ~ C(plan)", "--bounds", "more=0,10", "--levels", "plan=a,b"],
    "regress of 0 and 1": ["--logistic", "--column", "visits", "--outcome", "old", "--bounds", "visits=0,10"],
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
        "more": rng.integers(0, 9, 900),
        "old": person % 2,
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
    words = [command.split()[0], str(file), *COMMANDS[command], "--seed", "1"]
    by_row = json_of(words, capsys)
    by_unit = json_of([*words, "--unit", "person"], capsys)
    assert (by_row["n_samples"], by_unit["n_samples"]) == (900, 300)
    assert "unit" not in by_row["privacy"]
    assert by_unit["privacy"]["unit"] == "person"
    assert main([*words, "--unit", "person"]) == 0
    assert "one person replaced" in capsys.readouterr().out


def test_what_is_kept(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    some = json_of(
        ["proportion", str(file), "--column", "visits=8", "--unit", "person", "--epsilon", "100", "--seed", "1"], capsys
    )
    any_visits = pd.read_csv(file).groupby("person")["visits"].agg(lambda x: (x == 8).any()).sum()
    assert some["count"] == pytest.approx(any_visits, abs=1)
    share = json_of(
        ["table", str(file), "--levels", "plan=a,b", "--unit", "person", "--epsilon", "100", "--seed", "1"], capsys
    )
    assert "150" in json.dumps(share)


@commands
def test_a_unit_is_another_column_and_there(command: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [command.split()[0], str(file), *COMMANDS[command]]
    taken = "plan" if command in ("table", "proportion", "regress by formula") else "visits"
    assert main([*words, "--unit", taken]) == 2
    assert "--unit must be a column that is not in" in capsys.readouterr().err
    assert main([*words, "--unit", "nobody"]) == 2
    assert "nobody" in capsys.readouterr().err
    rows = pd.read_csv(file)
    rows.loc[0, "person"] = None
    rows.to_csv(file, index=False)
    assert main([*words, "--unit", "person"]) == 3
    assert "missing" in capsys.readouterr().err


@commands
def test_a_ledger_that_cannot_pay_refuses_before_an_entry_is_used(
    command: str, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger, words = str(tmp_path / "ledger.db"), [command.split()[0], str(file), *COMMANDS[command]]
    assert main(["budget", "new", ledger, "--epsilon", "0.1", "--delta", "1e-3", "--unit", "person"]) == 0
    file.write_text(re.sub(r"p1,\d", "p1,no number", file.read_text(), count=1))
    # A text among numbers is refused where somebody pays, and not before.
    assert main([*words, "--budget", ledger, "--unit", "person"]) == 4
    assert main([*words, "--seed", "1", "--unit", "person"]) == (0 if "visits" not in words else 3)


@commands
def test_a_ledger_keeps_the_unit_and_refuses_another(
    command: str, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger, name = str(tmp_path / "ledger.db"), command.split()[0]
    assert main(["budget", "new", ledger, "--epsilon", "10", "--delta", "1e-3", "--unit", "person"]) == 0
    words = [name, str(file), *COMMANDS[command], "--budget", ledger]
    assert main(words) == 2
    assert "the unit of the budget is 'person', the unit of the charge is 'row'" in capsys.readouterr().err
    assert main([*words, "--unit", "person"]) == 0
    capsys.readouterr()
    (charge,) = json_of(["budget", "history", ledger], capsys)["charges"]
    assert charge["unit"] == "person"
    assert json_of(["budget", "show", ledger], capsys)["unit"] == "person"
    assert main(["budget", "show", ledger]) == 0
    assert "one person replaced" in capsys.readouterr().out


def test_units_of_all_columns_are_refused(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--nonzero", "1", "--clip", "1", "--std", "1"]
    assert main(["sparse-mean", str(file), *words, "--unit", "person"]) == 2
    assert "--unit must be given with --column" in capsys.readouterr().err
