"""One file under two names is refused by every command, and stays as it is: the pairs are read off the parser."""

from __future__ import annotations

import argparse
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dpstats.cli import _parser, main

CONTENT = b"a,b\n1,2\n3,4\n"
SPELLINGS: dict[str, Callable[[Path], str]] = {
    "the same word": lambda path: path.name,
    "relative": lambda path: f"./{path.name}",
    "absolute": str,
    "around": lambda path: f"../{path.parent.name}/{path.name}",
    "symbolic link": lambda path: _linked(path, os.symlink),
    "hard link": lambda path: _linked(path, os.link),
}


def _linked(path: Path, link: Callable[[Path, Path], None]) -> str:
    other = path.with_name("other")
    link(path, other)
    return other.name


def _commands(parser: argparse.ArgumentParser, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words of every command that runs."""
    inner = _subcommands(parser)
    if not inner:
        yield words
    for name, command in inner.items():
        yield from _commands(command, (*words, name))


def _subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    return {
        name: command
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for name, command in action.choices.items()
    }


def command_parser(words: tuple[str, ...]) -> argparse.ArgumentParser:
    """Return the parser of a command."""
    parser = PARSER
    for word in words:
        parser = _subcommands(parser)[word]
    return parser


def _names_a_file(action: argparse.Action) -> bool:
    """Return whether the help text says that an argument is a file."""
    words = str(action.metavar or (action.dest if not action.option_strings else ""))
    return any(word in words.upper() for word in ("FILE", "LEDGER"))


def _arguments(words: tuple[str, ...], *given: tuple[argparse.Action, str]) -> list[str]:
    """Return the words that give files to some arguments of a command, and to the others what the parser requires."""
    command, chosen = command_parser(words), [action for action, _ in given]
    either = [group._group_actions for group in command._mutually_exclusive_groups if group.required]
    wanted = [action for action in command._actions if action.required and action not in chosen]
    wanted += [group[0] for group in either if not set(group) & set(chosen)]
    parts = [(action, _filled(action)) for action in wanted]
    for i, (action, path) in enumerate(given):
        parts.append((action, [f"t{i}={path}" if action.metavar == "NAME=FILE" else path]))
    # First the arguments without a name: an option of any number of words would take them.
    parts.sort(key=lambda part: (bool(part[0].option_strings), command._actions.index(part[0])))
    return [*words, *(word for action, held in parts for word in [*action.option_strings[:1], *held])]


def _filled(action: argparse.Action) -> list[str]:
    """Return words that the parser takes for an argument."""
    word = next(iter(action.choices)) if action.choices else "1"
    return [str(word)] * (action.nargs if isinstance(action.nargs, int) else 1)


PARSER = _parser()
COMMANDS = list(_commands(PARSER))
PAIRS = [
    (words, first, second)
    for words in COMMANDS
    for files in [[action for action in command_parser(words)._actions if _names_a_file(action)]]
    for first, second in itertools.combinations_with_replacement(files, 2)
    if first is not second or isinstance(first, argparse._AppendAction)
]


def _refuse(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


@pytest.fixture(autouse=True)
def _one_parser(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("dpstats.cli._parser", lambda: PARSER)
    monkeypatch.chdir(tmp_path)


# A hard link is of a file that is there.
@pytest.mark.parametrize(
    ("spelling", "there"),
    [(spelling, there) for spelling in SPELLINGS for there in (True, False)[: 2 - (spelling == "hard link")]],
)
def test_one_file_under_two_names_is_refused_and_left_alone(
    spelling: str, there: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.csv"
    if there:
        path.write_bytes(CONTENT)
    other = SPELLINGS[spelling](path)
    before = sorted(tmp_path.iterdir())
    for words, first, second in PAIRS:
        arguments = _arguments(words, (first, path.name), (second, other))
        assert "must be different files" in _refuse(arguments, capsys), arguments
        assert sorted(tmp_path.iterdir()) == before
    assert not there or path.read_bytes() == CONTENT


@pytest.mark.parametrize("name", ["b.db.results", "b.db-journal", "b.db.results-journal"])
def test_the_files_next_to_a_ledger_are_left_alone(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beside = tmp_path / name
    beside.write_bytes(CONTENT)
    seen = 0
    for words in COMMANDS:
        files = [action for action in command_parser(words)._actions if _names_a_file(action)]
        for ledger, other in itertools.permutations(files, 2):
            if "ledger" not in (ledger.dest, str(ledger.metavar).lower()):
                continue
            arguments = _arguments(words, (ledger, "b.db"), (other, beside.name))
            assert "must be different files" in _refuse(arguments, capsys), arguments
            seen += 1
    assert seen >= 20 and beside.read_bytes() == CONTENT


@pytest.mark.parametrize("ledger", ["", ".", "/"])
def test_a_ledger_without_a_name_is_refused(ledger: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, label in (
        (["mean", "x.csv", "--column", "a", "--budget", ledger], "--budget"),
        (["budget", "show", ledger], "ledger"),
    ):
        assert f"{label} must name a file, got " in _refuse(words, capsys)


def test_arguments_that_name_files_are_read_as_paths() -> None:
    # What the help text calls a file and what the check takes for one are the same.
    for words in COMMANDS:
        for action in command_parser(words)._actions:
            if _names_a_file(action):
                held = getattr(PARSER.parse_args(_arguments(words, (action, "x.csv"))), action.dest)
                assert "Path('x.csv')" in repr(held), (words, action.dest)
            else:
                assert action.type is not Path or action.dest == "out", (words, action.dest)


def test_standard_input_and_output_are_not_one_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert main(["mean", "-", "--json", "-", "--column", "a", "--bounds", "0", "1"]) == 3
    assert "must be different files" not in capsys.readouterr().err


@pytest.mark.parametrize("command", [["sql"], ["plan", "sql"], ["sql", "--explain"]])
def test_a_result_of_sql_does_not_replace_a_table(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "r.csv"
    table.write_bytes(CONTENT)
    arguments = ["SELECT COUNT(*) FROM r", "--table", "r=r.csv", "--json"]
    assert "--table and --json must be different files" in _refuse([*command, *arguments, "r.csv"], capsys)
    assert table.read_bytes() == CONTENT
    assert main([*command, *arguments, "new.json"]) == 0
