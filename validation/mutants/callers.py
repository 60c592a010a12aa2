"""A plugin of pytest that notes the functions each test calls, and a reader that finds the tests of a mutant.

    python -m pytest -p callers --callers=FOLDER

Each process writes a file of notes with two kinds of lines. One has a function and its number. The other has a test,
its seconds, and the numbers of the functions that it calls.
"""

from __future__ import annotations

import ast
import itertools
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import IO, Any

import pytest
from planted import Mutant

Function = tuple[str, str]
"""A file of the repository, and the qualified name of a function in it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--callers", default="", help="the folder of the notes")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--callers"):
        config.pluginmanager.register(_Notes(Path(config.getoption("--callers")), config.rootpath))


class _Notes:
    """Notes which functions run during each test, in all threads of its process."""

    def __init__(self, folder: Path, root: Path) -> None:
        self._root = str(root) + os.sep
        self._path = folder / f"{os.getpid()}.jsonl"
        self._file: IO[str] | None = None
        self._seen: set[CodeType] = set()
        self._numbers: dict[Function, int] = {}
        self._failed = False

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._seen.clear()
        self._failed = False
        start = time.monotonic()
        threading.settrace(self._see)
        sys.settrace(self._see)
        yield
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        seconds = round(time.monotonic() - start, 3)
        called = sorted(number for number in map(self._number, self._seen) if number is not None)
        # A test that also fails without a mutant cannot detect one.
        if not self._failed:
            self._write({"test": item.nodeid, "seconds": seconds, "calls": called})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed |= report.failed

    def pytest_sessionfinish(self) -> None:
        if self._file:
            self._file.close()

    def _see(self, frame: FrameType, event: str, argument: Any) -> None:
        self._seen.add(frame.f_code)

    def _number(self, code: CodeType) -> int | None:
        if not code.co_filename.startswith(f"{self._root}dpstats{os.sep}"):
            return None
        function = (code.co_filename.removeprefix(self._root), code.co_qualname)
        if function not in self._numbers:
            self._numbers[function] = len(self._numbers)
            self._write({"file": function[0], "name": function[1], "number": self._numbers[function]})
        return self._numbers[function]

    def _write(self, line: dict[str, Any]) -> None:
        self._file = self._file or self._path.open("w", encoding="utf-8")
        self._file.write(json.dumps(line) + "\n")


@dataclass(frozen=True)
class Callers:
    """The tests that call each function, and how many seconds each test takes."""

    tests: dict[Function, set[str]]
    seconds: dict[str, float]

    @classmethod
    def read(cls, folder: Path) -> Callers:
        """Read the files of notes in a folder."""
        tests: dict[Function, set[str]] = {}
        seconds: dict[str, float] = {}
        for path in sorted(folder.glob("*.jsonl")):
            functions: dict[int, Function] = {}
            for text in path.read_text(encoding="utf-8").splitlines():
                line = json.loads(text)
                if "number" in line:
                    functions[line["number"]] = (line["file"], line["name"])
                    continue
                seconds[line["test"]] = line["seconds"]
                for number in line["calls"]:
                    tests.setdefault(functions[number], set()).add(line["test"])
        return cls(tests, seconds)

    def of(self, mutant: Mutant, source: str) -> list[str]:
        """Return the tests that call the functions which a mutant changes, quick ones first.

        Tests of functions around these come next. Where no test calls any of them, as at a constant of a module, the
        tests that call a function of the file are returned.
        """
        changed = [(mutant.file, name) for name in functions_with(mutant, source)]
        found = [test for function in changed for test in self._in_order(self.tests.get(function, set()))]
        if not found:
            of_file = [tests for (file, _), tests in self.tests.items() if file == mutant.file]
            found = self._in_order(set().union(*of_file))
        return list(dict.fromkeys(found))

    def _in_order(self, tests: set[str]) -> list[str]:
        return sorted(tests, key=lambda test: (self.seconds[test], test))


def functions_with(mutant: Mutant, source: str) -> list[str]:
    """Return the qualified names of the functions that a mutant changes, inner ones first."""
    spans = list(_spans(ast.parse(source), ""))
    pairs = zip(mutant.old, mutant.new, strict=False)
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    found, start = [], source.find(mutant.old)
    while start >= 0:
        line = source.count("\n", 0, start + min(same, len(mutant.old) - 1)) + 1
        found += [name for _, name in sorted((b - a, name) for a, b, name in spans if a <= line <= b)]
        start = source.find(mutant.old, start + 1)
    return found


def _spans(node: ast.AST, prefix: str) -> Iterator[tuple[int, int, str]]:
    """Yield the first line, the last line and the qualified name of every function."""
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.FunctionDef):
            first = min(each.lineno for each in (part, *part.decorator_list))
            yield first, part.end_lineno or first, prefix + part.name
            yield from _spans(part, f"{prefix}{part.name}.<locals>.")
        else:
            yield from _spans(part, f"{prefix}{part.name}." if isinstance(part, ast.ClassDef) else prefix)
