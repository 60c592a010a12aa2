"""Exit statuses: by the type of an error, and the same in the help, in the documentation and in what commands do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dpstats import errors
from dpstats.cli import main
from dpstats.cli.output import EXITS, VIOLATION, epilog, status_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "command-line.md"


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (errors.InvalidParameter, 2),
        (errors.NotPrivate, 2),
        (errors.ScaleOutOfRange, 2),
        (errors.InvalidData, 3),
        (errors.BudgetExceeded, 4),
        (errors.Exhausted, 4),
        (errors.LedgerError, 6),
        (errors.NotDelivered, 6),
        (errors.NoiseUnavailable, 6),
        (errors.NotEnoughMemory, 6),
        (errors.ChargedError, 7),
        (PermissionError, 6),
        (ModuleNotFoundError, 6),
        (MemoryError, 6),
        (KeyboardInterrupt, 130),
        (errors.DPStatsError, 1),
        (ZeroDivisionError, 1),
    ],
)
def test_every_error_has_a_status(kind: type[BaseException], status: int) -> None:
    assert status_of(kind("words")) == status


def test_statuses_are_distinct_and_documented(capsys: pytest.CaptureFixture[str]) -> None:
    statuses = [found.status for found in EXITS]
    assert statuses == sorted(set(statuses)) and VIOLATION in statuses
    with pytest.raises(SystemExit):
        main(["--help"])
    assert " ".join(epilog().split()) in " ".join(capsys.readouterr().out.split())
    table = re.findall(r"^\| (\d+) \| (\w+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert table == [(str(found.status), found.word) for found in EXITS]


def test_a_package_that_is_missing_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*arguments: object) -> None:
        raise ModuleNotFoundError("No module named 'duckdb'", name="duckdb")

    monkeypatch.setattr("dpstats.cli.sql_and_ledgers._tables", missing)
    capsys.readouterr()
    assert main(["sql", "SELECT COUNT(*) FROM a", "--table", "a=people.csv"]) == 6
    assert capsys.readouterr().err == "dpstats sql: this needs the package duckdb: pip install 'dpstats[sql]'\n"
