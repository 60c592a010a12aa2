"""Plant defects, one at a time, and see whether the tests notice: a list of mutants, and what killed each.

Every mutant is put into a copy of the repository. Tests run until one fails:

1. the test that killed the mutant when the page of results was written,
2. the tests of its file, of its package, and wider ones (`which_tests.py`),
3. the slow tests of all these steps.

With ``--together``, one copy first gets all mutants that wait, and the whole suite runs once, without its slow tests.
Tests that fail there, and pass without mutants, are then asked first: those of a mutant's package, and then others.

At the end, all tests that killed run again without a mutant, and must pass. A mutant that no test detects has survived.
The program then exits with 1, unless the list allows the mutant and gives a reason.

    python validation/mutants/run.py --jobs 2                     # all of them: writes results/mutants.md
    python validation/mutants/run.py --only noise --no-write      # those with "noise" in their name, file or words
    python validation/mutants/run.py --together                   # few mutants, or such as no test is known to detect
    python validation/mutants/run.py --journal kept.jsonl         # goes on where an interrupted run stopped
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from planted import KINDS, DoesNotFit, Mutant, misfits, planted
from which_tests import package_of, steps

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "validation" / "results" / "mutants.md"
ROUNDS = Path(__file__).resolve().parent / "rounds.md"
"""Rounds of mutants that were written before any was run: text for the page of results."""
NEEDED = [
    "dpstats",
    "tests",
    "validation",
    "docs",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "Makefile",
    "pyproject.toml",
]
LIMIT = 150.0  # seconds for all tests of one mutant
WHOLE = 3600.0  # seconds for the whole suite

NO_TESTS = 5  # pytest's exit status where it found none
KILLED, SURVIVED, LATE, UNSURE = "killed", "survived", "out of time", "no verdict"


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: ``by`` is the test that noticed it, or the reason why none did."""

    name: str
    verdict: str
    by: str
    seconds: float


class Scratch:
    """A copy of what the tests need, in which one mutant lives at a time."""

    def __init__(self, folder: Path, root: Path = ROOT) -> None:
        self.root = folder
        unneeded = shutil.ignore_patterns("__pycache__", ".*", "demo-output")
        for name in NEEDED:
            source = root / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=unneeded)
            elif source.exists():
                shutil.copy2(source, folder / name)

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

    @contextlib.contextmanager
    def having_all(self, mutants: Iterable[Mutant]) -> Iterator[None]:
        """Put mutants in together, and take them out again. One whose text another has changed is left out."""
        with contextlib.ExitStack() as stack:
            for mutant in mutants:
                with contextlib.suppress(DoesNotFit):
                    stack.enter_context(self.having(mutant))
            yield

    def _write(self, path: Path, source: str) -> None:
        path.write_text(source, encoding="utf-8")
        # A text of the same length, written in the same second, would be taken for the one that was compiled.
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
            compiled.unlink()

    def test(self, arguments: Sequence[str], seconds: float) -> tuple[int | None, str]:
        """Run pytest: its exit status, None if time ran out, and what it printed."""
        shutil.rmtree(self.root / ".hypothesis", ignore_errors=True)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(self.root)}
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


_FAILED = re.compile(
    r"^(?:\[gw\d+\] \[ *\d+%\] )?(?:FAILED|ERROR) (\S+?)(?:\[.*?\])?(?: - .*)? *$", re.MULTILINE
)


def failures(printed: str) -> list[str]:
    """Return the tests that failed, without their parameters."""
    return list(dict.fromkeys(_FAILED.findall(printed)))


_OF_THE_LISTS = "tests/validation/test_mutants.py"
"""Tests that any mutant fails: they compare the lists with the code."""


def failed_cases(printed: str) -> list[str]:
    """Return the tests that failed, with their parameters where these are told apart from the message."""
    found = []
    for text in re.findall(r"^(?:\[gw\d+\] \[ *\d+%\] )?(?:FAILED|ERROR) (.+)$", printed, re.MULTILINE):
        case = text.split(" - ")[0].strip()
        name = case.partition("[")[0]
        found.append(case if case == name or case.endswith("]") else name)
    return list(dict.fromkeys(found))


def find_suspects(
    mutants: Sequence[Mutant], scratch: Scratch, limit: float, jobs: int = 1
) -> dict[str, list[list[str]]]:
    """Return tests that fail with all mutants put in together and pass without, for each mutant those near it first."""
    with scratch.having_all(mutants):
        workers = ["-n", str(jobs), "--dist", "worksteal"] if jobs > 1 else []
        asked = [*workers, "-v", "--tb=no", "-m", "not slow", f"--ignore={_OF_THE_LISTS}"]
        cases = failed_cases(scratch.test(asked, limit)[1])
    anyway = failed_cases(scratch.test([*workers, "-v", "--tb=no", *cases], limit)[1]) if cases else []
    cases = [case for case in cases if case not in anyway]

    def order(mutant: Mutant) -> list[list[str]]:
        own, package = f"/test_{Path(mutant.file).stem}.py", package_of(mutant.file)
        near = [case for case in cases if own in case or (package and f"tests/{package}/" in case)]
        return [sorted(near, key=lambda case: own not in case), [case for case in cases if case not in near]]

    return {mutant.name: order(mutant) for mutant in mutants}


def outcome(mutant: Mutant, scratch: Scratch, limit: float, first: Sequence[Sequence[str]] = ()) -> Outcome:
    """Ask the tests about a mutant, up to the first that fails or for as many seconds as there are."""
    start = time.monotonic()
    verdict, by = _verdict(mutant, scratch, start + limit, first)
    return Outcome(mutant.name, verdict, by, round(time.monotonic() - start, 1))


def _verdict(mutant: Mutant, scratch: Scratch, end: float, first: Sequence[Sequence[str]]) -> tuple[str, str]:
    asked = []
    with scratch.having(mutant):
        for tests in filter(None, first):
            failed = failures(scratch.test(["-x", *tests], end - time.monotonic())[1])
            if failed:
                return KILLED, failed[0]
        for which, arguments in itertools.product(("not slow", "slow"), steps(mutant, scratch.root)):
            words = f"{arguments} (slow)" if which == "slow" else arguments
            status, printed = scratch.test(["-x", "-m", which, *arguments.split()], end - time.monotonic())
            if status is None:
                return LATE, f"during {words}" + (f"; {'; '.join(asked)} passed" if asked else "")
            if status not in (0, NO_TESTS):
                return KILLED, next(iter(failures(printed)), arguments)
            asked.append(words)
    return SURVIVED, f"{'; '.join(asked)} pass"


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
        replace(each, verdict=UNSURE, by=f"{each.by} {why}")
        if each.verdict == KILLED and each.by in failed
        else each
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
    killers: Mapping[str, Sequence[Sequence[str]]] | None = None,
) -> Iterator[Outcome]:
    """Yield the outcome of every mutant as it comes. ``killers`` are tests that are asked first."""
    with tempfile.TemporaryDirectory(prefix="dpstats-mutants-") as folder:
        free: queue.Queue[Scratch] = queue.Queue()
        for job in range(jobs):
            free.put(Scratch(Path(folder) / str(job), root))

        def work(mutant: Mutant) -> Outcome:
            scratch = free.get()
            try:
                return outcome(mutant, scratch, limit, (killers or {}).get(mutant.name, ()))
            finally:
                free.put(scratch)

        with ThreadPoolExecutor(jobs) as pool:
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
    lines += [
        f"| {kind} | {len(some)} | {sum(one in killed for one in some)} |" for kind, some in kinds.items()
    ]
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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", default="", metavar="PATTERN", help="a pattern in name, file, kind or words"
    )
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time, each in a copy of its own")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds for one mutant")
    parser.add_argument(
        "--together", action="store_true", help="first run the suite with all mutants in one copy"
    )
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
    killers = {name: [killer.split()] for name, killer in known.items()}
    waiting = [item for item in chosen if item.name not in outcomes]
    if asked.together and waiting:
        with tempfile.TemporaryDirectory(prefix="dpstats-mutants-") as folder:
            suspects = find_suspects(waiting, Scratch(Path(folder)), WHOLE, asked.jobs)
        killers = {name: [*killers.get(name, []), *tests] for name, tests in suspects.items()}
    for found in judged(waiting, asked.jobs, asked.limit, killers=killers):
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
