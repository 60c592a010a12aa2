"""Audit every registered release, and every planted bug, with a million runs each.

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

from tqdm import tqdm

import dpstats
from dpstats.auditing import audit

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "conformance"))
from registry import ENTRIES  # noqa: E402

RESULTS = ROOT / "validation" / "results" / "audit.md"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--no-write", action="store_true")
    options = parser.parse_args()
    jobs = [(entry, None) for entry in ENTRIES] + [(entry, bug) for entry in ENTRIES for bug in entry.bugs]
    # One confidence for all audits together: 99%.
    confidence = 1 - 0.01 / len(jobs)
    rows, wrong = [], 0
    for number, (entry, bug) in enumerate(tqdm(jobs, desc="audits")):
        target = bug or entry
        claim = (bug.epsilon, bug.delta) if bug else (entry.claim.epsilon, entry.claim.delta)
        trials = min(options.trials, entry.most_trials)
        result = audit(
            target.draw,
            target.dataset,
            target.neighbor,
            epsilon=claim[0],
            delta=claim[1],
            n_trials=trials,
            confidence=confidence,
            batched=True,
            random_state=options.seed + number,
        )
        right = result.violated == (bug is not None)
        wrong += not right
        kind = f"planted bug: {bug.name}" if bug else "right"
        verdict = (
            ("caught" if result.violated else "MISSED")
            if bug
            else ("ACCUSED" if result.violated else "passes")
        )
        rows.append(
            f"| {entry.name} | {kind} | {claim[0]:.4g} | {claim[1]:g} | {result.epsilon_lower:.3f} | {trials:,} "
            f"| {verdict} |"
        )
    text = "\n".join(
        [
            "# Audit of every release and every planted bug",
            "",
            f"{time.strftime('%Y-%m-%d')}, dpstats {dpstats.__version__}; up to {options.trials:,} runs on each of two "
            f"neighbouring datasets, joint confidence 99% over {len(jobs)} audits, seed {options.seed}.",
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
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
