"""The planted mutants: all of them fit the code as it is, and the driver tells a kill from a survivor."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "validation" / "mutants"))
import callers
import planted
import run

ROOT = Path(__file__).resolve().parents[2]
MUTANTS = planted.planted()
TINY = planted.Mutant("minus", "dpstats/tiny.py", "a + b", "a - b", "validity", "a sum that subtracts")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of one function and one test."""
    # Half the time of a pytest this small: its one test needs no plugin.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    root = tmp_path / "repository"
    (root / "dpstats").mkdir(parents=True)
    (root / "tests").mkdir()
    (root / "dpstats" / "__init__.py").touch()
    (root / "dpstats" / "tiny.py").write_text(
        "def total(a: int, b: int) -> int:\n    return a + b\n\n\ndef unused() -> int:\n    return 1\n"
    )
    (root / "tests" / "test_tiny.py").write_text(
        "from dpstats.tiny import total\n\n\ndef test_total() -> None:\n    assert total(2, 3) == 5\n"
    )
    return root


def test_every_mutant_fits_the_code() -> None:
    # What a test of its own would say of one mutant only: all of them at once, by name.
    assert planted.misfits(MUTANTS, ROOT) == []


def test_there_are_mutants_of_every_package() -> None:
    packages = {path.name for path in (ROOT / "dpstats").iterdir() if (path / "__init__.py").exists()}
    assert {planted.package_of(mutant.file) for mutant in MUTANTS} == packages | {""}
    assert len(MUTANTS) >= 90


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"old": "a * b"}, "0 times, the list says 1"),
        ({"old": "a"}, "times, the list says 1"),
        ({"new": "a +"}, "no Python"),
        ({"new": "a + b"}, "changes nothing"),
        ({"file": "dpstats/gone.py"}, "0 times"),
    ],
)
def test_a_mutant_that_does_not_fit_is_named(repository: Path, change: dict[str, str], words: str) -> None:
    (found,) = planted.misfits([dataclasses.replace(TINY, **change), TINY], repository)
    assert found.startswith("minus: ") and words in found


def test_a_kill_and_a_survivor(repository: Path, tmp_path: Path) -> None:
    survivor = dataclasses.replace(TINY, name="one", old="return 1", new="return 2")
    before = (repository / "dpstats" / "tiny.py").read_text()
    found = list(run.judged([TINY, survivor], root=repository))
    assert [(each.name, each.verdict) for each in found] == [("minus", run.KILLED), ("one", run.SURVIVED)]
    assert found[0].by == "tests/test_tiny.py::test_total" and "1 tests that call" in found[1].by
    assert (repository / "dpstats" / "tiny.py").read_text() == before
    assert run.sound(found, run.Scratch(tmp_path / "again", repository), 60.0) == found


def test_a_test_that_fails_anyway_kills_nothing(repository: Path, tmp_path: Path) -> None:
    path = repository / "tests" / "test_tiny.py"
    path.write_text(path.read_text().replace("== 5", "== 6"))
    outcomes = [
        run.Outcome("minus", run.KILLED, "tests/test_tiny.py::test_total", 1.0),
        run.Outcome("gone", run.KILLED, "tests/test_tiny.py::test_gone", 1.0),
    ]
    scratch = run.Scratch(tmp_path / "again", repository)
    for chosen in (outcomes, outcomes[:1], outcomes[1:]):
        verdicts = [outcome.verdict for outcome in run.sound(chosen, scratch, 60.0)]
        assert verdicts == [run.UNSURE] * len(chosen)


def test_tests_that_do_not_end_are_stopped(repository: Path) -> None:
    endless = dataclasses.replace(TINY, old="return a + b", new="while True:\n        pass")
    (outcome,) = run.judged([endless], limit=5.0, root=repository)
    assert outcome.verdict == run.LATE and outcome.seconds < 60


def test_outcomes_on_the_page_and_in_the_journal(tmp_path: Path) -> None:
    other = dataclasses.replace(TINY, name="other", allowed="nobody | asks")
    outcomes = {
        "minus": run.Outcome("minus", run.KILLED, "tests/test_tiny.py::test_total", 1.0),
        "other": run.Outcome("other", run.SURVIVED, "tests pass", 2.0),
    }
    page = run.as_markdown([TINY, other, dataclasses.replace(TINY, name="third")], outcomes, "2026-01-01")
    assert "3 mutants, 2 of them tried: 1 killed, 1 not." in page
    assert "| validity | killed by `tests/test_tiny.py::test_total` |" in page
    assert "SURVIVED: tests pass; nobody &#124; asks |" in page and "| not tried yet |" in page
    assert "| validity | 2 | 1 |" in page and "`sixth`" in page
    assert run.read_killers(page) == {"minus": "tests/test_tiny.py::test_total"}
    assert run.read_journal(tmp_path / "none") == {}


def test_the_last_killer_is_asked_first(repository: Path) -> None:
    far = (
        (repository / "tests" / "test_tiny.py")
        .read_text()
        .replace("    assert", "    import time\n\n    time.sleep(0.1)\n    assert")
    )
    (repository / "tests" / "test_far.py").write_text(far)
    for first, killer in (("test_far", "test_far"), ("test_gone", "test_tiny")):
        asked = {"minus": f"tests/{first}.py::test_total"}
        (found,) = run.judged([TINY], root=repository, killers=asked)
        assert (found.verdict, found.by) == (run.KILLED, f"tests/{killer}.py::test_total")


CALLERS = {
    "dpstats/tiny.py": """
import threading
from functools import cache

LIMIT = 3


class Box:
    @property
    def width(self):
        def half():
            return 1

        return 2 * half()


@cache
def kept():
    return LIMIT


def beside():
    threading.Thread(target=kept).start()
""",
    "tests/test_tiny.py": """
import time

from dpstats.tiny import Box, beside, kept


def test_slow():
    time.sleep(0.2)
    assert Box().width


def test_quick():
    assert Box().width == 2


def test_thread():
    beside()


def test_kept():
    assert kept() == 3


def test_wrong():
    assert Box().width == 3
""",
}


def test_tests_note_what_they_call(repository: Path, tmp_path: Path) -> None:
    for name, text in CALLERS.items():
        (repository / name).write_text(text)
    scratch = run.Scratch(tmp_path / "one", repository)
    notes = tmp_path / "notes"
    found = run.note_callers(scratch, notes)
    assert found == run.note_callers(scratch, notes) and len(list(notes.iterdir())) == 1
    source = CALLERS["dpstats/tiny.py"]

    def tests_of(old: str, new: str) -> list[str]:
        mutant = dataclasses.replace(TINY, old=old, new=new)
        return [test.partition("::")[2] for test in found.of(mutant, source)]

    assert tests_of("return 1", "return 2") == ["test_quick", "test_slow"]
    assert tests_of("@property\n", "\n") == ["test_quick", "test_slow"]
    # The value is kept: only the first test that needs it calls the function. The rest of its file is asked later.
    assert tests_of("return LIMIT", "return 4") == ["test_thread"]
    assert set(tests_of("LIMIT = 3", "LIMIT = 4")) == {"test_quick", "test_slow", "test_thread"}
    outer = dataclasses.replace(TINY, old="return 1", new="return 2")
    names = ["Box.width.<locals>.half", "Box.width"]
    assert callers.functions_with(outer, source) == names
    kept = dataclasses.replace(TINY, old="return LIMIT", new="return 4")
    (outcome,) = run.judged([kept], root=repository, notes=notes)
    assert (outcome.verdict, outcome.by) == (run.KILLED, "tests/test_tiny.py::test_kept")


def test_calls_of_pytest_become_longer() -> None:
    tests = [f"tests/test_{name}.py::test_{number}" for number in range(500) for name in "ab"]
    found = list(run.steps(tests))
    assert [len(asked) for asked in found] == [150, 600, 250, 2]
    assert found[-1] == ["tests/test_a.py", "tests/test_b.py"]
    assert list(run.steps([])) == []


@pytest.mark.parametrize(
    ("printed", "tests"),
    [
        ("...\nFAILED tests/a.py::test_b - assert 1 == 2\n1 failed", ["tests/a.py::test_b"]),
        ("FAILED tests/a.py::b[x y-1] - ValueError: z\nFAILED tests/a.py::c", ["tests/a.py::b", "tests/a.py::c"]),
        ("ERROR tests/a.py - NameError", ["tests/a.py"]),
        ("[gw1] [  7%] FAILED tests/a.py::b[x y] \n[gw0] [100%] PASSED tests/a.py::c ", ["tests/a.py::b"]),
        ("1 passed", []),
    ],
)
def test_who_killed_it(printed: str, tests: list[str]) -> None:
    assert run.failures(printed) == tests
