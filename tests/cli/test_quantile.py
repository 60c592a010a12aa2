"""dpstats quantile: tables, JSON, pictures, plans, and bad input in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dpstats.cli import main
from dpstats.cli.mean import QuantileCommand
from tests.cli.commands import AGE, failed, json_of, parsed, refused

SEVERAL = [*AGE, "-q", "0.25", "-q", "0.5", "-q", "0.75"]


def test_a_median_by_default(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quantile", str(table), *AGE]) == 0
    out = capsys.readouterr().out
    assert "Private quantiles" in out and "[95% low" in out and "imulated" not in out
    result = json_of(["quantile", str(table), *AGE, "--epsilon", "5"], capsys)
    assert result["estimator"] == "PrivateQuantile" and result["q"] == [0.5]
    (row,) = result["quantiles"]
    assert row["low"] <= row["quantile"] <= row["high"]


def test_several_quantiles_with_every_option(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "ages.png"
    arguments = ["quantile", str(table), *SEVERAL, "--step", "1", "--confidence", "0.8", "--seed", "3"]
    result = json_of([*arguments, "--coverage", "any", "--epsilon", "8", "--plot", str(picture)], capsys)
    assert picture.read_bytes()[:4] == b"\x89PNG"
    assert result["privacy"]["simulated"] and result["confidence_level"] == 0.8 and result["coverage"] == "any"
    points = [row["quantile"] for row in result["quantiles"]]
    assert points == sorted(points) and all(x == round(x) for x in points)
    alone = json_of(["quantile", str(table), *SEVERAL, "--no-intervals"], capsys)
    assert [set(row) for row in alone["quantiles"]] == [{"q", "quantile"}] * 3


def test_a_plan_needs_no_data(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["plan", "quantile", "--rows", "500", "--bounds", "0", "100"]
    result = json_of(arguments, capsys)
    assert result["rank_error"] == pytest.approx(3.63, abs=0.01)
    assert [stage["size"] for stage in result["stages"]] == [2]


BOUNDS = ["--bounds", "0", "10"]
OPTIONS = {
    "quantile": (["-q", "0.2", "--quantile", "0.7"], {"q": [0.2, 0.7]}),
    "bounds": (["--bounds", "1", "3"], {"bounds": (1.0, 3.0)}),
    "step": (["--step", "2"], {"step": 2.0}),
    "coverage": (["--coverage", "any"], {"coverage": "any"}),
    "no_intervals": (["--no-intervals"], {"confidence_level": None}),
    "confidence": (["--confidence", "0.8"], {"confidence_level": 0.8}),
    "epsilon": (["--epsilon", "0.3"], {"epsilon": 0.3}),
    "delta": (["--delta", "1e-5"], {"delta": 1e-5}),
    "missing": (["--missing", "drop"], {"missing": "drop"}),
}


def parameters(*arguments: str) -> tuple[set[str], dict[str, Any]]:
    """Return the names of all options, and the parameters of the estimator that is built."""
    command = QuantileCommand()
    options = parsed(command, ["plan", "quantile", "--rows", "50", *arguments])
    return set(vars(options)), command.build(options, 50, 1).get_params()


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_arrives(name: str) -> None:
    arguments, changes = OPTIONS[name]
    before = parameters(*BOUNDS)[1]
    names, after = parameters(*(BOUNDS if name != "bounds" else []), *arguments)
    assert {key: value for key, value in after.items() if value != before[key]} == changes
    assert names >= OPTIONS.keys()
    assert names - OPTIONS.keys() == {
        "command",
        "planned",
        "rows",
        "columns",
        "json",
        "quiet",
        "budget",
        "run",
        "unit",  # test_units.py
        "private_bounds",  # test_options_arrive.py
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--column", "age", "--bounds", "9", "1"], "--bounds must be two numbers LO < HI"),
        ([*AGE, "-q", "1"], "q must be a finite number greater than 0 and less than 1, got a list of 1"),
        ([*AGE, "-q", "0.5", "-q", "0.5"], "q must have each fraction once"),
        ([*AGE, "--step", "0.3"], "step must be"),
        ([*AGE, "--column", "visits"], "--column must be given once"),
        ([*AGE, "--plot", "a.gif"], "--plot must name a png, pdf or svg file"),
        ([*AGE, "--no-intervals", "--coverage", "any"], "coverage must be"),
        ([*AGE, "--epsilon", "1e-9"], "epsilon is too small"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], message: str, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in failed(["quantile", str(table), *arguments], capsys)


def test_a_refusal_charges_nothing(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["budget", "new", "b.db", "--epsilon", "1"]) == 0
    refused(["quantile", str(table), *AGE, "--step", "0.3", "--budget", "b.db"], capsys)
    assert main(["quantile", str(table), *AGE, "--budget", "b.db", "--json", "out.json"]) == 0
    assert json.loads(Path("out.json").read_text())["privacy"]["epsilon"] == 1.0
    capsys.readouterr()
    assert "Nothing was charged" in failed(["quantile", str(table), *AGE, "--budget", "b.db"], capsys, 4)
