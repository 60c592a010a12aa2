"""--once: a command that runs again is charged once, and shows the kept answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dpstats.cli import main
from dpstats.privacy import PrivacyBudget
from tests.outside.charges.calls import COMMANDS
from tests.outside.charges.calls import folder as data_folder

MEAN = [*COMMANDS["mean"], "--epsilon", "0.5", "--budget", "b.db"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path) -> Iterator[None]:
    with data_folder(tmp_path):
        PrivacyBudget(1.0, ledger="b.db")
        yield


def charges() -> int:
    return len(PrivacyBudget.open("b.db").history())


def shown(arguments: list[str], capsys: pytest.CaptureFixture[str], status: int = 0) -> Any:
    capsys.readouterr()
    assert main(arguments) == status
    return capsys.readouterr()


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"identity-test"}))
def test_every_command_shows_its_answer_again(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    PrivacyBudget(100.0, 0.1, ledger="c.db")
    command = [*COMMANDS[name], "--budget", "c.db", "--once", "2026-11-28"]
    first = shown([*command, "--json"], capsys)
    charged = PrivacyBudget.open("c.db").history()
    second = shown([*command, "--json"], capsys)
    assert first.out == second.out != "" and first.err == second.err == ""
    assert PrivacyBudget.open("c.db").history() == charged
    assert len(charged) == 1
    assert shown(["budget", "results", "c.db"], capsys).out == "Every result was delivered.\n"


def test_a_budget_that_is_spent_still_answers(capsys: pytest.CaptureFixture[str]) -> None:
    first = shown([*MEAN, "--once", "a"], capsys).out
    shown([*MEAN, "--once", "b"], capsys)
    assert PrivacyBudget.open("b.db").remaining.epsilon == 0
    assert shown([*MEAN, "--once", "a"], capsys).out == first
    assert "spent" in shown([*MEAN, "--once", "c"], capsys, 4).err and charges() == 2


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        (["--bounds", "0", "101"], "bounds"),
        (["--epsilon", "0.25"], "epsilon"),
        (["--label", "another"], "label"),
        (["--missing", "drop"], "missing"),
    ],
)
def test_another_release_under_the_key_is_refused(
    change: list[str], differs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown([*MEAN, "--once", "a"], capsys)
    # Bounds are given once.
    other = ["101" if word == "100" else word for word in MEAN] if change[0] == "--bounds" else [*MEAN, *change]
    said = shown([*other, "--once", "a"], capsys, 2)
    assert said.out == "" and differs in said.err.partition("differs in: ")[2] and charges() == 1


def test_another_number_of_rows_is_another_release(capsys: pytest.CaptureFixture[str]) -> None:
    shown([*MEAN, "--once", "a"], capsys)
    pd.read_csv("people.csv").head(900).to_csv("people.csv", index=False)
    assert "plan" in shown([*MEAN, "--once", "a"], capsys, 2).err and charges() == 1


def test_other_entries_are_not_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    """A key stands for its data. Saying that they changed would say something about them."""
    first = shown([*MEAN, "--once", "a"], capsys).out
    pd.read_csv("people.csv").assign(age=1).to_csv("people.csv", index=False)
    assert shown([*MEAN, "--once", "a"], capsys).out == first


def test_a_repeated_charge_is_noted(capsys: pytest.CaptureFixture[str]) -> None:
    command = [*MEAN, "--epsilon", "0.1"]
    assert shown(command, capsys).err == ""
    assert shown(["99" if word == "100" else word for word in command], capsys).err == ""
    noted = shown(command, capsys).err
    assert "the same release was charged at" in noted and "--once KEY" in noted and noted.count("\n") == 1
    assert shown([*command, "--quiet"], capsys).err == ""
    # After a day, a repetition is a new night's release.
    import sqlite3

    connection = sqlite3.connect("b.db")
    connection.execute("UPDATE charges SET time = time - 90000")
    connection.commit()
    connection.close()
    from dpstats.privacy import ledger

    ledger._SEEN.clear()
    assert shown(command, capsys).err == ""


@pytest.mark.parametrize("key", ["", " ", "a\nb", "a" * 201])
def test_a_key_is_a_short_text(key: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "200 printable characters" in shown([*MEAN, "--once", key], capsys, 2).err and charges() == 0


def test_a_key_needs_a_ledger(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--budget" in shown([*COMMANDS["mean"], "--once", "a"], capsys, 2).err
