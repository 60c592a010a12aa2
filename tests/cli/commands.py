"""What the tests of the commands share: short arguments, and commands that must fail."""

from __future__ import annotations

import argparse
import json
from typing import Any

import pytest

from dpstats.cli import main
from dpstats.cli.release import ReleaseCommand, add_plans


def parsed(command: ReleaseCommand, arguments: list[str]) -> argparse.Namespace:
    """Return the options of a command, or of its plan."""
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command")
    add_plans(commands, [command])
    command.add(commands)
    return parser.parse_args(arguments)


AGE = ["--column", "age", "--bounds", "0", "100"]


def failed(arguments: list[str], capsys: pytest.CaptureFixture[str], status: int | None = None) -> str:
    """Return the one line of a command that has to exit with a status: by default that of usage, or of data."""
    assert main(arguments) in ((2, 3) if status is None else (status,))
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1 and "secret" not in captured.err
    return captured.err


def json_of(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Return what a command prints with ``--json -``."""
    assert main([*arguments, "--json", "-"]) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


SPARSE = ["--nonzero", "2", "--clip", "6", "--std", "1", "--epsilon", "5"]
PAIR = ["--column", "g3", "--column", "g7"]


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str], status: int | None = None) -> str:
    """Return the one line of a command that fails like `failed`, and charges nothing."""
    capsys.readouterr()
    assert main(arguments) in ((2, 3) if status is None else (status,))
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1 and "secret" not in captured.err
    assert main(["budget", "show", "b.db", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["charges"] == shown["undelivered"] == 0
    return captured.err
