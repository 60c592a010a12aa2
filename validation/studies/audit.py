"""Audit every registered release, and every planted bug, with a million runs each (fewer for slow ones).

The same registry and the same audit as in the test suite (tests/conformance/), with more runs.
Writes the table of claims and verdicts; exits with 1 if a right release is accused or a planted
bug goes unnoticed.

    python validation/studies/audit.py
    python validation/studies/audit.py --trials 20000 --no-write
    python validation/studies/audit.py --only "row distance, product null"   # the other rows stay as they are written
    python validation/studies/audit.py --missing                             # only what the table does not have
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from tqdm import tqdm

import dpstats
from dpstats.auditing import audit

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "conformance"), str(ROOT)]
from registry import ENTRIES  # noqa: E402
from registry.entry import PlantedBug  # noqa: E402

AUDITS = [(entry, bug) for entry in ENTRIES for bug in (None, *entry.bugs)]
RESULTS = ROOT / "validation" / "results" / "audit.md"
SLOW = 5
"""Runs of a bug in whole fits, of milliseconds each, over those of the suite, which catch it."""


def run(number: int, trials: int, seed: int, confidence: float) -> tuple[str, bool]:
    """Return the row of one audit and whether its verdict is right; audits are known by number to every process."""
    entry, bug = AUDITS[number]
    target = bug or entry
    epsilon, delta = (bug.epsilon, bug.delta) if bug else (entry.claim.epsilon, entry.claim.delta)
    trials = min(trials, entry.most_trials, *([SLOW * bug.trials] if bug and bug.trials < PlantedBug.trials else []))
    result = audit(
        target.draw,
        target.dataset,
        target.neighbor,
        epsilon=epsilon,
        delta=delta,
        n_trials=trials,
        confidence=confidence,
        batched=True,
        random_state=seed + number,
    )
    verdicts = ("MISSED", "caught") if bug else ("passes", "ACCUSED")
    row = (
        f"{label(number)} {epsilon:.4g} | {delta:g} | {result.epsilon_lower:.3f} | {trials:,} "
        f"| {verdicts[result.violated]} |"
    )
    return row, result.violated == (bug is not None)


def label(number: int) -> str:
    """Return how the row of an audit begins."""
    entry, bug = AUDITS[number]
    return f"| {entry.name} | {f'planted bug: {bug.name}' if bug else 'right'} |"


def written() -> tuple[list[str], dict[int, str]]:
    """Return the runs of the table as it is written, and its row of each audit that it has."""
    lines = RESULTS.read_text(encoding="utf-8").splitlines()
    rows = {number: line for number in range(len(AUDITS)) for line in lines if line.startswith(label(number))}
    return [line for line in lines if line.startswith("* ")], rows


def as_markdown(runs: list[str], rows: dict[int, str]) -> str:
    """Return the page of results."""
    return "\n".join(
        [
            "# Audit of every release and every planted bug",
            "",
            *runs,
            "",
            f"{len(rows)} of {len(AUDITS)} audits, at a joint confidence of 99% over all.",
            "",
            "The lower bound is for the delta claimed and for one pair of neighbors. A right release stays below its",
            "claim; how close an attack comes depends on the pair, and on one direction summing up a vector.",
            "",
            "| release | version | epsilon claimed | delta | epsilon proved at least | runs | verdict |",
            "|---|---|---|---|---|---|---|",
            *(row for _, row in sorted(rows.items())),
            "",
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", metavar="RELEASE", help="audit one release, and its bugs, anew")
    parser.add_argument("--missing", action="store_true", help="audit what the table does not have")
    parser.add_argument("--no-write", action="store_true")
    options = parser.parse_args()
    # One confidence for all audits together: 99%.
    confidence = 1 - 0.01 / len(AUDITS)
    numbers = [i for i, (entry, _) in enumerate(AUDITS) if options.only in (None, entry.name)]
    if not numbers:
        parser.error(f"--only must name a release of the registry, got {options.only!r}")
    runs, rows = written() if options.only or options.missing else ([], {})
    if options.missing:
        numbers = [i for i in numbers if i not in rows]
    command = shlex.join(["python", "validation/studies/audit.py", *sys.argv[1:]])
    own = (
        f"* {time.strftime('%Y-%m-%d')}, dpstats {dpstats.__version__}, up to {options.trials:,} runs on each of two "
        f"neighboring datasets, seed {options.seed}: `{command}`"
    )
    runs = list(dict.fromkeys([*runs, own]))
    one, wrong = partial(run, trials=options.trials, seed=options.seed, confidence=confidence), []
    # Entries cannot be pickled: every process has made its own.
    # Databases have threads, which a fork would not copy.
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        for number, (row, right) in zip(numbers, tqdm(pool.map(one, numbers), total=len(numbers)), strict=True):
            rows[number] = row
            wrong += [row] * (not right)
            # An interrupted run leaves what it has, and --missing goes on.
            if not options.no_write:
                RESULTS.write_text(as_markdown(runs, rows), encoding="utf-8")
    print(as_markdown(runs, rows), *wrong, sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
