"""dpstats table: counts, tests and effects of declared levels, and what is refused in one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpstats.cli import main
from dpstats.tables import ContingencyTable
from tests.cli.commands import failed, json_of, refused

LEVELS = ["--levels", "plan=free,paid", "--levels", "well=1,0"]


@pytest.fixture
def people(folder: Path) -> str:
    rng = np.random.default_rng(0)
    plan = rng.choice(["free", "paid"], 400)
    well = (rng.random(400) < np.where(plan == "free", 0.8, 0.4)).astype(int)
    pd.DataFrame({"plan": plan, "well": well, "name": "secret"}).to_csv("table.csv", index=False)
    return "table.csv"


def test_it_is_the_estimators(people: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = json_of(["table", people, *LEVELS, "--seed", "1"], capsys)
    data = pd.read_csv(people, dtype=str)
    made = ContingencyTable(levels={"plan": ["free", "paid"], "well": ["1", "0"]}, random_state=1).fit(data)
    assert [cell["count"] for cell in found["cells"]] == made.counts_.ravel().tolist()
    assert found["cells"][1]["levels"] == ["free", "0"]
    assert found["independence"]["pvalue"] == made.independence().pvalue
    for name in ("difference", "risk_ratio", "odds_ratio"):
        effect = getattr(made, name)()
        assert [found[name][key] for key in ("estimate", "low", "high", "pvalue")] == [
            effect.estimate,
            *effect.confidence_interval(),
            effect.pvalue,
        ]
    assert main(["table", people, *LEVELS, "--seed", "1"]) == 0
    out = capsys.readouterr().out
    assert "Private contingency table" in out and "Private odds ratio" in out and "independent" in out


def test_one_attribute_and_an_order(people: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = json_of(["table", people, *LEVELS[:2]], capsys)
    assert found["attributes"] == ["plan"] and "independence" not in found and "difference" not in found
    turned = json_of(["table", people, *LEVELS, "--column", "well", "--column", "plan"], capsys)
    assert turned["attributes"] == ["well", "plan"]


def test_the_empty_level_means_a_missing_entry(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "t.csv").write_text("region,x\n" + "North,1\n,1\n" * 50)
    error = refused(["table", "t.csv", "--levels", "region=North,South", "--unknown", "error"], capsys, 3)
    assert "or give --unknown drop" in error
    found = json_of(["table", "t.csv", "--levels", "region=North,", "--epsilon", "9"], capsys)
    assert [cell["levels"] for cell in found["cells"]] == [["North"], [""]]
    assert found["cells"][1]["count"] == pytest.approx(50, abs=9)


def test_rows_at_other_levels(people: str, capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--levels", "plan=free,gold", "--levels", "well=1,0"]
    assert "declared levels only" in refused(["table", people, *few, "--unknown", "error", "--budget", "b.db"], capsys)
    found = json_of(["table", people, *few, "--epsilon", "60"], capsys)
    assert found["dropped"] == (pd.read_csv(people)["plan"] == "paid").sum()


def test_bad_input_charges_nothing(people: str, capsys: pytest.CaptureFixture[str]) -> None:
    for given, words in (
        (["--levels", "plan=free"], "two different levels"),
        (["--levels", "plan=free,free"], "two different levels"),
        (["--levels", "age=1,2"], "'age'"),
        ([*LEVELS, "--column", "plan"], "--column must name the columns of --levels"),
        ([*LEVELS, "--confidence", "95"], "--confidence"),
    ):
        assert words in refused(["table", people, *given, "--budget", "b.db"], capsys)


def test_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "table", "--rows", "50", *LEVELS]) == 0
    assert "cells: 5 numbers, Laplace noise of scale 2" in capsys.readouterr().out
    assert "must not be given" in failed(["plan", "table", "--rows", "50", "--columns", "2", *LEVELS], capsys)
