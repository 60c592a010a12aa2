"""The dpstats command: one clear line with exit status 2 for bad input, and a quick start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import dpstats
from dpstats.cli import main
from tests.cli.commands import AGE, json_of


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "COMMAND"),
        (["median", "x.csv"], "invalid choice: 'median'"),
        (["mean", "x.csv", "--bounds", "0", "1"], "required: --column"),
        (["mean", "x.csv", *AGE, "--method", "median"], "--method"),
        (["mean", "x.csv", *AGE, "--epsilon", "one"], "--epsilon"),
        (["sparse-mean", "x.csv", "--clip", "1", "--std", "1"], "required: --nonzero"),
        (["sparse-mean", "x.csv", "--nonzero", "2.5", "--clip", "1", "--std", "1"], "--nonzero"),
        (["identity-test", "x.csv", "--column", "a"], "required: --mean"),
        (["identity-test", "x.csv", "--column", "a", "--mean", "0", "--test", "t"], "--test"),
        (["identity-test", "x.csv", "--column", "a", "--mean", "0", "--std", "1", "--cov", "c"], "--cov"),
        (["plan"], "COMMAND"),
        (["plan", "mean", "--rows", "10", "--bounds", "0", "1"], "required: --columns"),
        (["plan", "mean", "--rows", "10", "--columns", "1", "--bounds", "0", "1", "--seed", "1"], "--seed"),
    ],
)
def test_wrong_arguments_are_one_line_and_exit_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == "" and message in captured.err and captured.err.count("\n") == 1


def test_help_loads_nothing_heavy() -> None:
    code = "import sys, dpstats.cli as c\ntry: c.main(['--help'])\nfinally: print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(result.stdout.splitlines()[-1].split())
    assert "dpstats.cli.mean" in loaded
    assert not loaded & {"numpy", "scipy", "sklearn", "pandas", "opendp", "sqlite3", "matplotlib"}


def test_negative_numbers_may_have_exponents(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["mean", str(table), "--column", "age", "--seed", "1", "--bounds"]
    short = json_of([*arguments, "-1e2", "1e2"], capsys)
    assert short == json_of([*arguments, "-100", "100"], capsys)


@pytest.mark.parametrize("name", ["auditing", "identity", "means", "mechanisms", "privacy", "simulation"])
def test_subpackages_load_when_they_are_used(name: str) -> None:
    assert name in dir(dpstats) and getattr(dpstats, name).__name__ == f"dpstats.{name}"


@pytest.mark.parametrize(
    ("error", "status", "message"), [(KeyboardInterrupt, 130, "interrupted"), (MemoryError, 6, "not enough memory")]
)
def test_work_that_does_not_end_is_one_line(
    error: type[BaseException],
    status: int,
    message: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def reader(*arguments: object, **options: object) -> None:
        raise error

    capsys.readouterr()
    monkeypatch.setattr("dpstats.data.text._Records", reader)
    assert main(["mean", "people.csv", *AGE]) == status
    assert capsys.readouterr().err == f"dpstats mean: {message}\n"
