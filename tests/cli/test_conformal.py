"""dpstats conformal: what it prints is what a fit says; bad input is one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpstats.cli import main
from dpstats.conformal import PrivateConformalClassifier, PrivateConformalRegressor
from tests.cli.commands import failed, json_of

RNG = np.random.default_rng(0)
X = RNG.normal(size=2000)
FRAME = pd.DataFrame(
    {
        "y": X + RNG.normal(size=2000) * (0.3 + np.abs(X)),
        "f": X,
        "low": X - 0.5,
        "high": X + 0.5,
        "s": 0.3 + np.abs(X),
        "g": RNG.choice(["u", "v"], 2000),
        "k": RNG.choice(["a", "b,c"], 2000),
        "p": 0.4,
        "q": 0.6,
    }
)
BASE = ["--column", "y", "--score-bounds", "20", "--training", "public", "--seed", "1"]
CLASSED = ["--column", "k", "--classes", 'a,"b,c"', "--probabilities", "p,q", "--training", "public", "--seed", "1"]


class Column:
    def __init__(self, *places: int) -> None:
        self.places, self.classes_ = list(places), ["a", "b,c"]

    def predict(self, X: Any) -> Any:
        return np.asarray(X)[:, self.places[0]]

    def predict_proba(self, X: Any) -> Any:
        return np.asarray(X)[:, self.places]


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "rows.csv"
    FRAME.to_csv(path, index=False)
    return str(path)


@pytest.mark.parametrize(
    ("arguments", "columns", "options"),
    [
        (["--prediction", "f"], ["f"], {}),
        (["--prediction", "f", "--scale", "s"], ["f", "s"], {"scale_estimator": Column(1)}),
        (["--prediction", "low", "--upper", "high"], ["low", "high"], {"upper_estimator": Column(1)}),
        (["--prediction", "f", "--by", "g", "--groups", "u,v"], ["f", "g"], {"by": "g", "groups": ["u", "v"]}),
    ],
)
def test_it_says_what_a_fit_says(
    arguments: list[str], columns: list[str], options: Any, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fit = PrivateConformalRegressor(Column(0), score_bounds=20, training="public", random_state=1, **options).fit(
        FRAME[columns], FRAME["y"]
    )
    found = json_of(["conformal", file, *BASE, *arguments], capsys)
    assert [row["half_width"] for row in found["scores"]] == np.ravel(fit.half_width_).tolist()
    assert found["coverage_bound"] == fit.coverage_bound_ and found["training"] == "public"
    assert main(["conformal", file, *BASE, *arguments]) == 0
    assert "half-width" in capsys.readouterr().out


def test_classes_have_a_score(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    fit = PrivateConformalClassifier(Column(0, 1), training="public", random_state=1)
    expected = fit.fit(FRAME[["p", "q"]], FRAME["k"]).score_
    assert json_of(["conformal", file, *CLASSED], capsys)["scores"][0]["score"] == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*BASE, "--prediction", "y"], "--column"),
        ([*BASE[:2], *BASE[4:], "--prediction", "f"], "--score-bounds"),
        ([*BASE, "--prediction", "f", "--by", "g"], "--by"),
        ([*BASE, "--prediction", "f", "--points", "1"], "--points"),
        ([*BASE, "--prediction", "f", "--alpha", "1"], "--alpha"),
        ([*BASE, "--prediction", "f", "--probabilities", "p"], "--probabilities"),
        ([*CLASSED, "--upper", "f"], "--upper"),
        ([*CLASSED[:5], "p", *CLASSED[6:]], "--probabilities"),
        ([*CLASSED[:3], "a,b", *CLASSED[4:]], "class that the model does not know"),
    ],
)
def test_bad_options_are_one_line(
    arguments: list[str], message: str, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in failed(["conformal", file, *arguments], capsys)
