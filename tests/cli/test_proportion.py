"""dpstats proportion: a column of 0 and 1, or a word of one; bad input is one line before anything is charged."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from dpstats.cli import main
from dpstats.tables import PrivateProportion
from tests.cli.commands import failed, json_of, refused


@pytest.fixture
def answers(folder: Path) -> str:
    values = pd.DataFrame({"yes": [1] * 60 + [0] * 40, "plan": ["free"] * 30 + ["NA"] * 20 + [None] * 50})
    values.assign(name="secret", half=0.5).to_csv("answers.csv", index=False)
    return "answers.csv"


def test_it_is_the_estimators(answers: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = json_of(["proportion", answers, "--column", "yes", "--seed", "3", "--confidence", "0.9"], capsys)
    made = PrivateProportion(random_state=3).fit([1] * 60 + [0] * 40)
    assert found["proportion"] == made.proportion_ and found["count"] == made.count_
    assert [found["low"], found["high"]] == list(made.confidence_interval(0.9))
    assert found["statistic"] == made.statistic_ and found["estimator"] == "PrivateProportion"


def test_words_are_what_stands_in_the_file(answers: str, capsys: pytest.CaptureFixture[str]) -> None:
    for word, share in (("free", 0.3), ("NA", 0.2), ("", 0.5), ("other", 0.0)):
        given = ["proportion", answers, "--column", f"plan={word}", "--epsilon", "60"]
        assert json_of(given, capsys)["proportion"] == share


def test_bad_input_charges_nothing(answers: str, capsys: pytest.CaptureFixture[str]) -> None:
    for given, words in (
        (["--column", "half"], "0 or 1"),
        (["--column", "plan"], "an entry must be a number, true, false or missing"),
        (["--column", "age"], "'age'"),
        (["--column", "yes", "--column", "plan"], "once"),
        ([], "--column must be given once"),
        (["--column", "yes", "--plot", "p.gif"], "png, pdf or svg"),
        (["--column", "yes", "--plot", "answers.csv"], "--plot"),
    ):
        assert words in refused(["proportion", answers, *given, "--budget", "b.db"], capsys)


def test_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "proportion", "--rows", "50"]) == 0
    out = capsys.readouterr().out
    assert "count: 1 number, Laplace noise of scale 1" in out and "52 coins" in out
    assert "must not be given" in failed(["plan", "proportion", "--rows", "50", "--columns", "1"], capsys)
