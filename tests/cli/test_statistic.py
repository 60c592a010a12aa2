"""dpstats statistic: what is printed is what was fitted; bad input is one line, and costs nothing."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpstats.cli import main
from dpstats.cli.options import spell_notes
from dpstats.privacy import PrivacyBudget
from dpstats.statistic import PrivateStatistic
from tests.cli.commands import failed, json_of

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"x": RNG.normal(size=4000), "person": np.arange(4000) // 2})
FRAME["y"] = FRAME["x"] + RNG.normal(size=4000)
MODULE = """
import numpy as np

def correlation(block):
    return block["x"].corr(block["y"])

def slope(block, outcome):
    return np.polyfit(block["x"], outcome, 1)[0]

seen = []
"""


def correlation(block: pd.DataFrame) -> float:
    return float(block["x"].corr(block["y"]))


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    (tmp_path / "functions_of_mine.py").write_text(MODULE, encoding="utf-8")
    path = tmp_path / "rows.csv"
    FRAME.to_csv(path, index=False)
    return path


COLUMNS = ["--column", "x", "--column", "y", "--link", "fisher", "--function", "functions_of_mine:correlation"]


def test_it_prints_what_a_fit_says(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = PrivateStatistic(correlation, link="fisher", random_state=1).fit(FRAME[["x", "y"]])
    assert main(["statistic", str(file), *COLUMNS, "--seed", "1"]) == 0
    printed = capsys.readouterr().out
    assert str(spell_notes(model.summary(), Namespace(seed=1))) in printed
    for level in (0.95, 0.5):
        asked = ["statistic", str(file), *COLUMNS, "--seed", "1", "--confidence", str(level)]
        result = json_of(asked, capsys)
        (row,) = result["estimates"]
        low, high = model.confidence_interval(level)
        assert (row["estimate"], row["low"], row["high"]) == (model.estimate_, low, high)
    assert result["blocks"] == model.n_blocks_ and result["function"] == "functions_of_mine:correlation"


def test_an_outcome_is_the_second_argument_and_units_stay_together(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--function", "functions_of_mine:slope", "--column", "x", "--outcome", "y", "--unit", "person"]
    result = json_of(["statistic", str(file), *asked, "--seed", "2"], capsys)
    assert result["privacy"]["unit"] == "person" and result["n_samples"] == 2000
    assert result["estimates"][0]["low"] < 1 < result["estimates"][0]["high"]


def test_a_plan_reads_no_data(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "statistic", "--rows", "4000", "--function", "functions_of_mine:correlation"]
    assert main(words) == 0
    assert "blocks of" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--function", "functions_of_mine"], "--function must be MODULE:NAME"),
        (["--function", "no_such_module:f"], "the module 'no_such_module' cannot be imported"),
        (["--function", "functions_of_mine:nothing"], "got 'nothing'"),
        (["--function", "functions_of_mine:seen"], "got 'seen'"),
        (["--function", "functions_of_mine:slope", "--outcome", "y"], "--column must be given beside --outcome"),
        ([*COLUMNS, "--unit", "x"], "must name different columns"),
        ([*COLUMNS, "--bounds", "1", "0"], "bounds"),
        ([*COLUMNS, "--epsilon", "0.001"], "n_samples must be at least 960,000"),
    ],
)
def test_bad_input_is_one_line_and_costs_nothing(
    file: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    budget = PrivacyBudget(1.0, ledger=file.parent / "b.db")
    words = ["statistic", str(file), *arguments, "--budget", str(file.parent / "b.db")]
    assert message in failed(words, capsys)
    assert not budget.history()
