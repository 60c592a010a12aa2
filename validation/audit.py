"""Audit every registered release, and every planted bug, with a million runs each (fewer for slow ones).

The same registry and the same audit as in the test suite (tests/conformance/), with more runs.
Writes the table of claims and verdicts; exits with 1 if a right release is accused or a planted
bug goes unnoticed.

    python validation/audit.py
    python validation/audit.py --trials 20000 --no-write
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from joblib import Parallel, delayed
from tqdm import tqdm

import dpstats
from dpstats.auditing import audit

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "conformance"))
from registry import ENTRIES  # noqa: E402

AUDITS = [(entry, bug) for entry in ENTRIES for bug in (None, *entry.bugs)]
RESULTS = ROOT / "validation" / "results" / "audit.md"


def run(number: int, trials: int, seed: int, confidence: float) -> tuple[str, bool]:
    """Return the row of one audit and whether its verdict is right; audits are known by number to every process."""
    entry, bug = AUDITS[number]
    target = bug or entry
    epsilon, delta = (bug.epsilon, bug.delta) if bug else (entry.claim.epsilon, entry.claim.delta)
    trials = min(trials, entry.most_trials)
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
    kind = f"planted bug: {bug.name}" if bug else "right"
    verdicts = ("MISSED", "caught") if bug else ("passes", "ACCUSED")
    row = (
        f"| {entry.name} | {kind} | {epsilon:.4g} | {delta:g} | {result.epsilon_lower:.3f} | {trials:,} "
        f"| {verdicts[result.violated]} |"
    )
    return row, result.violated == (bug is not None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--no-write", action="store_true")
    options = parser.parse_args()
    # One confidence for all audits together: 99%.
    confidence = 1 - 0.01 / len(AUDITS)
    done = Parallel(options.jobs, return_as="generator")(
        delayed(run)(number, options.trials, options.seed, confidence) for number in range(len(AUDITS))
    )
    rows, right = zip(*tqdm(done, desc="audits", total=len(AUDITS)), strict=True)
    text = "\n".join(
        [
            "# Audit of every release and every planted bug",
            "",
            f"{time.strftime('%Y-%m-%d')}, dpstats {dpstats.__version__}; up to {options.trials:,} runs on each of two "
            f"neighbouring datasets, joint confidence 99% over {len(AUDITS)} audits, seed {options.seed}.",
            "",
            f"    python validation/audit.py --trials {options.trials}",
            "",
            "The lower bound is for the delta claimed and for one pair of neighbours. A right release stays below its",
            "claim; how close an attack comes depends on the pair, and on one direction summing up a vector.",
            "",
            "| release | version | epsilon claimed | delta | epsilon proved at least | runs | verdict |",
            "|---|---|---|---|---|---|---|",
            *rows,
            "",
        ]
    )
    print(text)
    if not options.no_write:
        RESULTS.write_text(text, encoding="utf-8")
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
