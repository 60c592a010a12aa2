"""dpstats survival: the table and the JSON are what was fitted; bad input is one line and costs nothing."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpstats.cli import main
from dpstats.cli.options import spell_notes
from dpstats.survival import PrivateSurvival
from tests.cli.commands import failed, json_of

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "person": [f"p{i}" for i in range(800)],
        "week": RNG.integers(1, 60, 800),
        "arrest": RNG.integers(2, size=800),
        "arm": RNG.choice(["old", "new"], 800),
    }
)
ASKED = ["--time", "week", "--event", "arrest", "--horizon", "52", "--bins", "13"]
BY = [*ASKED, "--by", "arm", "--groups", "old,new"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    FRAME.to_csv(path, index=False)
    return path


def test_it_prints_what_a_fit_says(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = {
        "horizon": 52,
        "bins": 13,
        "time": "week",
        "event": "arrest",
        "by": "arm",
        "groups": ["old", "new"],
    }
    model = PrivateSurvival(**options, random_state=1).fit(FRAME)
    assert main(["survival", str(file), *BY, "--seed", "1"]) == 0
    printed = capsys.readouterr().out
    for table in (model.summary(), model.log_rank().summary()):
        assert str(spell_notes(table, Namespace(seed=1, discrete=False))) in printed
    result = json_of(["survival", str(file), *BY, "--seed", "1"], capsys)
    assert result["log_rank"]["pvalue"] == model.log_rank().pvalue
    assert [row["name"] for row in result["medians"]] == ["old", "new"]
    assert len(result["life_table"]) == 26 and result["life_table"][3]["at_risk"] == model.at_risk_[0, 3]


def test_units_discrete_times_and_pictures(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "curve.png"
    more = ["--unit", "person", "--discrete", "--seed", "1", "--plot", str(picture)]
    assert main(["survival", str(file), *ASKED, *more]) == 0
    assert "one person replaced" in capsys.readouterr().out and picture.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*ASKED, "--by", "arm"], "--by and --groups must be given together"),
        ([*ASKED, "--column", "week"], "--column must not be given"),
        ([*ASKED[:2], "--event", "week", *ASKED[4:]], "must name different columns"),
        ([*ASKED[:4], "--horizon", "-1"], "horizon must be"),
        ([*BY[:-1], "old"], "labels must be declared groups"),
        (["--time", "arrest", "--event", "week", "--horizon", "5"], "event must hold declared values"),
    ],
)
def test_bad_input_is_one_line(
    file: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in failed(["survival", str(file), *arguments], capsys)


def test_a_subject_with_several_rows_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "twice.csv"
    FRAME.assign(person="p").to_csv(path, index=False)
    assert "one row for each subject" in failed(["survival", str(path), *ASKED, "--unit", "person"], capsys)


def test_medians_and_restricted_means_are_told_apart(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--epsilon", "1e6", "--seed", "1"]
    result = json_of(["survival", str(file), *BY, *options], capsys)
    model = PrivateSurvival(
        horizon=52,
        bins=13,
        time="week",
        event="arrest",
        by="arm",
        groups=["old", "new"],
        epsilon=1e6,
        random_state=1,
    ).fit(FRAME)
    for name, found in (("medians", model.median()), ("restricted_means", model.rmst())):
        assert [row["estimate"] for row in result[name]] == pytest.approx(
            np.ravel(found.estimate).tolist(), nan_ok=True
        )
