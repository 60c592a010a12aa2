"""dpstats ks: what it prints is what a fit says; bad input is one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpstats.cli import main
from dpstats.ranks import goodness_of_fit, ks_test
from tests.cli.commands import failed, json_of

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"x": RNG.normal(size=300), "g": RNG.choice(["u", "v"], 300)})


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "rows.csv"
    FRAME.to_csv(path, index=False)
    return str(path)


def test_it_says_what_a_fit_says(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    groups = ["--column", "x", "--by", "g", "--groups", "u,v", "--statistic", "kuiper", "--seed", "1"]
    expected = ks_test(FRAME["x"], FRAME["g"], groups=["u", "v"], statistic="kuiper", random_state=1)
    found = json_of(["ks", file, *groups], capsys)
    assert found["pvalue"] == expected.pvalue and found["cutoff"] == expected.cutoff
    law = ["--column", "x", "--distribution", "norm,0,1", "--seed", "1"]
    expected = goodness_of_fit(FRAME["x"], distribution="norm", args=(0, 1), random_state=1)
    found = json_of(["ks", file, *law], capsys)
    assert found["pvalue"] == expected.pvalue and "norm(0, 1)" in found["null"]
    assert main(["ks", file, *law]) == 0
    assert "Kolmogorov-Smirnov test" in capsys.readouterr().out


def test_rows_with_another_label_are_left_out(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    groups = ["--column", "x", "--by", "g", "--groups", "u,w", "--seed", "1"]
    expected = ks_test(FRAME["x"], FRAME["g"], groups=["u", "w"], random_state=1)
    assert json_of(["ks", file, *groups], capsys)["pvalue"] == expected.pvalue


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--column", "x", "--groups", "u,v"], "--by"),
        (["--column", "x", "--distribution", "norm", "--by", "g"], "--by"),
        (["--column", "x", "--by", "x", "--groups", "u,v"], "--by"),
        (["--column", "x", "--distribution", "norm", "--unknown", "error"], "--unknown"),
        (["--column", "x", "--by", "g", "--groups", "u,w", "--unknown", "error"], "or give --unknown drop"),
        (["--column", "x", "--by", "g", "--groups", "u,v,w"], "--groups"),
        (["--column", "x", "--distribution", "nrm"], "--distribution"),
        (["--column", "x", "--distribution", "norm,a"], "--distribution"),
        (["--column", "x", "--column", "g", "--distribution", "norm"], "--column"),
    ],
)
def test_bad_options_are_one_line(
    arguments: list[str], message: str, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in failed(["ks", file, *arguments, "--seed", "1"], capsys)
