"""Plant defects, one at a time, and see whether the tests notice: a list of mutants, and what killed each.

Every mutant is put into a copy of the repository. Tests run until one fails:

1. the test that killed the mutant when the page of results was written,
2. the tests that call the function that the mutant changes, quick ones first,
3. the files of these tests.

Before the second step the suite runs without mutants, and each test notes which functions it calls (`callers.py`).
At the end, all tests that killed run again without a mutant, and must pass. A mutant that no test detects has survived.
The program then exits with 1, unless the list allows the mutant and gives a reason.

    python validation/mutants/run.py --jobs 2                     # all of them: writes results/mutants.md
    python validation/mutants/run.py --only noise --no-write      # those with "noise" in their name, file or words
    python validation/mutants/run.py --callers notes              # notes of tests are kept in this folder, or are there
    python validation/mutants/run.py --journal kept.jsonl         # goes on where an interrupted run stopped
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parent))
from callers import Callers
from planted import KINDS, Mutant, misfits, package_of, planted

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "validation" / "results" / "mutants.md"
OWN = Path(__file__).resolve().parent
ROUNDS = OWN / "rounds.md"
"""Rounds of mutants that were written before any was run: text for the page of results."""
UNNEEDED = (".*", "__pycache__", "*.egg-info", "build", "dist", "demo-output")
LIMIT = 150.0  # seconds for all tests of one mutant
WHOLE = 7200.0  # seconds for the whole suite
FEW = 150
"""So many tests are asked first, and then four times as many."""

NO_TESTS = 5  # pytest's exit status where it found none
T = TypeVar("T")
KILLED, SURVIVED, LATE, UNSURE = "killed", "survived", "out of time", "no verdict"


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: ``by`` is the test that noticed it, or the reason why none did."""

    name: str
    verdict: str
    by: str
    seconds: float


class Scratch:
    """A copy of the repository, in which one mutant lives at a time."""

    def __init__(self, folder: Path, root: Path = ROOT) -> None:
        self.root = folder
        shutil.copytree(root, folder, ignore=shutil.ignore_patterns(*UNNEEDED), dirs_exist_ok=True)

    @contextlib.contextmanager
    def having(self, mutant: Mutant) -> Iterator[None]:
        """Put a mutant in, and take it out again."""
        path = self.root / mutant.file
        source = path.read_text(encoding="utf-8")
        try:
            self._write(path, mutant.applied(source))
            yield
        finally:
            self._write(path, source)

    def _write(self, path: Path, source: str) -> None:
        path.write_text(source, encoding="utf-8")
        # A text of the same length, written in the same second, would be taken for the one that was compiled.
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
            compiled.unlink()

    def test(self, arguments: Sequence[str], seconds: float) -> tuple[int | None, str]:
        """Run pytest: its exit status, None if time ran out, and what it printed."""
        shutil.rmtree(self.root / ".hypothesis", ignore_errors=True)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
        environment = {**os.environ, "PYTHONPATH": f"{self.root}{os.pathsep}{OWN}"}
        with subprocess.Popen(
            command,
            cwd=self.root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                printed, _ = process.communicate(timeout=max(seconds, 1.0))
            except subprocess.TimeoutExpired:
                # With all that it started.
                os.killpg(process.pid, signal.SIGKILL)
                return None, process.communicate()[0]
        return process.returncode, printed


_FAILED = re.compile(r"^(?:\[gw\d+\] \[ *\d+%\] )?(?:FAILED|ERROR) (\S+?)(?:\[.*?\])?(?: - .*)? *$", re.MULTILINE)


def failures(printed: str) -> list[str]:
    """Return the tests that failed, without their parameters."""
    return list(dict.fromkeys(_FAILED.findall(printed)))


def note_callers(scratch: Scratch, folder: Path, jobs: int = 1, limit: float = WHOLE) -> Callers:
    """Run the whole suite, unless there are notes, and return which tests call which functions."""
    folder.mkdir(parents=True, exist_ok=True)
    if not any(folder.iterdir()):
        workers = ["-n", str(jobs), "--dist", "worksteal"] if jobs > 1 else []
        scratch.test([*workers, "-p", "callers", f"--callers={folder}"], limit)
    return Callers.read(folder)


def killed_again(mutant: Mutant, scratch: Scratch, limit: float, killer: str) -> Outcome | None:
    """Ask the test that killed a mutant before: None if it passes, is gone or does not end."""
    start = time.monotonic()
    with scratch.having(mutant):
        status, printed = scratch.test(["-x", *killer.split()], limit)
    failed = failures(printed)
    if status is None or not failed:
        return None
    return Outcome(mutant.name, KILLED, failed[0], round(time.monotonic() - start, 1))


def outcome(mutant: Mutant, scratch: Scratch, limit: float, callers: Callers) -> Outcome:
    """Ask the tests that call what a mutant changes, up to the first that fails or for as many seconds as there are."""
    start = time.monotonic()
    verdict, by = _verdict(mutant, scratch, start + limit, callers)
    return Outcome(mutant.name, verdict, by, round(time.monotonic() - start, 1))


def _verdict(mutant: Mutant, scratch: Scratch, end: float, callers: Callers) -> tuple[str, str]:
    tests = callers.of(mutant, (scratch.root / mutant.file).read_text(encoding="utf-8"))
    passed = 0
    with scratch.having(mutant):
        for asked in steps(tests):
            status, printed = scratch.test(["-x", *asked], end - time.monotonic())
            if status is None:
                return LATE, f"{passed} of {len(tests)} tests that call it passed"
            if status not in (0, NO_TESTS):
                return KILLED, next(iter(failures(printed)), " ".join(asked))
            passed += len(set(asked) & set(tests))
    return SURVIVED, f"{len(tests)} tests that call it pass"


def steps(tests: Sequence[str]) -> Iterator[list[str]]:
    """Yield the tests that pytest is asked, one call after the other."""
    start, size = 0, FEW
    while start < len(tests):
        yield list(tests[start : start + size])
        start, size = start + size, 4 * size
    # What a test has computed, another of its file may compare without calling the function again.
    if tests:
        yield list(dict.fromkeys(test.partition("::")[0] for test in tests))


def sound(outcomes: Iterable[Outcome], scratch: Scratch, limit: float) -> list[Outcome]:
    """Return the outcomes, after a run without any mutant of the tests that killed: all of these have to pass."""
    found = list(outcomes)
    killers = sorted({each.by for each in found if each.verdict == KILLED})
    if not killers:
        return found
    status, printed = scratch.test([word for killer in killers for word in killer.split()], limit)
    failed, why = failures(printed), "fails without it too"
    if status is None or (status != 0 and not failed):
        # Time ran out, or pytest did not get as far as a test: then nothing is known of any of them.
        failed, why = killers, "could not be run without it"
    return [
        replace(each, verdict=UNSURE, by=f"{each.by} {why}") if each.verdict == KILLED and each.by in failed else each
        for each in found
    ]


def asked_for(mutants: list[Mutant], pattern: str) -> list[Mutant]:
    """Return the mutants with a pattern in their name, file, kind or words."""
    return [
        mutant
        for mutant in mutants
        if re.search(pattern, f"{mutant.name} {mutant.file} {mutant.kind} {mutant.what}", re.IGNORECASE)
    ]


def judged(
    mutants: Sequence[Mutant],
    jobs: int = 1,
    limit: float = LIMIT,
    root: Path = ROOT,
    notes: Path | None = None,
    killers: Mapping[str, str] | None = None,
) -> Iterator[Outcome]:
    """Yield the outcome of every mutant as it comes.

    ``notes`` is the folder where tests note what they call, or have noted it. ``killers`` are asked first.
    """
    known = killers or {}
    with tempfile.TemporaryDirectory(prefix="dpstats-mutants-") as folder:
        copies = [Scratch(Path(folder) / str(job), root) for job in range(jobs)]
        left = [mutant for mutant in mutants if mutant.name not in known]
        again = [mutant for mutant in mutants if mutant.name in known]
        for mutant, found in _each(
            lambda mutant, copy: killed_again(mutant, copy, limit, known[mutant.name]), again, copies
        ):
            if found:
                yield found
            else:
                left.append(mutant)
        if left:
            callers = note_callers(copies[0], (notes or Path(folder) / "callers").absolute(), jobs)
            for _, each in _each(lambda mutant, copy: outcome(mutant, copy, limit, callers), left, copies):
                yield each


def _each(
    ask: Callable[[Mutant, Scratch], T], mutants: Sequence[Mutant], copies: Sequence[Scratch]
) -> Iterator[tuple[Mutant, T]]:
    """Yield every mutant with its answer as it comes; each copy has one mutant at a time."""
    free: queue.Queue[Scratch] = queue.Queue()
    for copy in copies:
        free.put(copy)

    def work(mutant: Mutant) -> tuple[Mutant, T]:
        copy = free.get()
        try:
            return mutant, ask(mutant, copy)
        finally:
            free.put(copy)

    with ThreadPoolExecutor(len(copies)) as pool:
        asked = [pool.submit(work, mutant) for mutant in mutants]
        try:
            for done in as_completed(asked):
                yield done.result()
        finally:
            # After an interruption those that have begun are the last.
            for waiting in asked:
                waiting.cancel()


def as_markdown(mutants: list[Mutant], outcomes: dict[str, Outcome], date: str) -> str:
    """Return the page of results."""
    done = [mutant for mutant in mutants if mutant.name in outcomes]
    killed = [mutant for mutant in done if outcomes[mutant.name].verdict == KILLED]
    left = [mutant for mutant in done if outcomes[mutant.name].verdict != KILLED]
    lines = [
        "# Planted mutants, and the tests that kill them",
        "",
        f"{date}: `python validation/mutants/run.py`",
        "",
        f"{len(mutants)} mutants, {len(done)} of them tried: {len(killed)} killed, {len(left)} not. Each is one change "
        "of the code, made in a copy, with the tests of its package run up to the first failure. The column after the "
        "words says what is lost if it stays: the privacy of a release, the validity of what is reported, or neither.",
        "",
    ]
    kinds = {kind: [mutant for mutant in done if mutant.kind == kind] for kind in KINDS}
    lines += ["| what is lost | mutants | killed |", "|---|---|---|"]
    lines += [f"| {kind} | {len(some)} | {sum(one in killed for one in some)} |" for kind, some in kinds.items()]
    lines += ["", ROUNDS.read_text(encoding="utf-8")]
    counts = {
        package: [mutant for mutant in done if package_of(mutant.file) == package]
        for package in sorted({package_of(mutant.file) for mutant in mutants})
    }
    lines += ["| package | mutants | killed |", "|---|---|---|"]
    for package, some in counts.items():
        n_killed = sum(mutant in killed for mutant in some)
        lines.append(f"| {package or 'beside the packages'} | {len(some)} | {n_killed} |")
    lines += ["", "| mutant | file | what was planted | lost | outcome |", "|---|---|---|---|---|"]
    for mutant in mutants:
        file = mutant.file.removeprefix("dpstats/")
        cells = [mutant.name, f"`{file}`", mutant.what, mutant.kind, _words(mutant, outcomes)]
        lines.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def _words(mutant: Mutant, outcomes: dict[str, Outcome]) -> str:
    outcome = outcomes.get(mutant.name)
    if outcome is None:
        return "not tried yet"
    if outcome.verdict == KILLED:
        return f"killed by `{outcome.by}`"
    why = f"; {mutant.allowed}" if mutant.allowed else ""
    return f"{outcome.verdict.upper()}: {outcome.by}{why}"


def read_killers(page: str) -> dict[str, str]:
    """Return the test that killed each mutant, from a page of results."""
    return dict(re.findall(r"^\| (\S+) \|.*\| killed by `(.+?)` \|$", page, re.MULTILINE))


def read_journal(path: Path | None) -> dict[str, Outcome]:
    """Return the outcomes that an earlier run kept."""
    if path is None or not path.exists():
        return {}
    found = (Outcome(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines())
    return {outcome.name: outcome for outcome in found}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="PATTERN", help="a pattern in name, file, kind or words")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time, each in a copy of its own")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds for one mutant")
    parser.add_argument("--callers", type=Path, help="a folder for notes which tests call which functions")
    parser.add_argument("--no-write", action="store_true", help="print only; --only implies it")
    parser.add_argument("--journal", type=Path, help="outcomes are kept there, and not asked for again")
    asked = parser.parse_args(arguments)
    mutants = planted()
    wrong = misfits(mutants, ROOT)
    if wrong:
        print("These mutants no longer fit the code; the list has to follow it:", *wrong, sep="\n  ")
        return 2
    outcomes = read_journal(asked.journal)
    chosen = asked_for(mutants, asked.only)
    writes = not asked.only and not asked.no_write

    def write() -> None:
        if writes:
            RESULTS.write_text(as_markdown(mutants, outcomes, time.strftime("%Y-%m-%d")), encoding="utf-8")

    known = read_killers(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    waiting = [item for item in chosen if item.name not in outcomes]
    for found in judged(waiting, asked.jobs, asked.limit, notes=asked.callers, killers=known):
        print(f"{found.verdict:12} {found.name} ({found.seconds:.0f} s): {found.by}", flush=True)
        if asked.journal:
            with asked.journal.open("a", encoding="utf-8") as journal:
                journal.write(json.dumps(asdict(found)) + "\n")
        outcomes[found.name] = found
        write()
    with tempfile.TemporaryDirectory(prefix="dpstats-mutants-") as folder:
        done = [outcomes[mutant.name] for mutant in chosen]
        outcomes |= {found.name: found for found in sound(done, Scratch(Path(folder)), 20 * asked.limit)}
    write()
    left = [mutant for mutant in chosen if outcomes[mutant.name].verdict != KILLED]
    print(f"\n{len(chosen)} mutants, {len(chosen) - len(left)} killed; not killed: {len(left)}")
    for mutant in left:
        print(f"  {outcomes[mutant.name].verdict}: {mutant.name} ({mutant.kind}), {mutant.what}")
    return int(any(not mutant.allowed for mutant in left))


if __name__ == "__main__":
    sys.exit(main())
