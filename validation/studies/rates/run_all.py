"""Every rate of the theory, reproduced or not: all scripts of this folder, one table, one page.

    python validation/studies/rates/run_all.py                  # the published table: within an hour on 2 cores
    python validation/studies/rates/run_all.py --scale reduced  # a look, in minutes
    python validation/studies/rates/run_all.py --fast           # the strongest slopes, under 2 minutes; nothing written

A run that was interrupted goes on where it was when it is started again: each study has a file of its own in
build/rates. Written are validation/results/rates.md and rates.html.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from outcomes import HEADER, LEVEL, ROWS, SCALES, Options, Outcome, markdown_table, verdicts

from dpstats.errors import DPStatsError
from dpstats.simulation import study_report
from dpstats.simulation.study_report import provenance
from dpstats.simulation.table import NOT_REPRODUCED

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "validation" / "results"
SCRIPTS = (
    "mean_bounded",
    "mean_gaussian",
    "sparse_mean",
    "identity_tests",
    "filtering_test",
    "accuracy_bounds",
    "covered",
    "linear_regression",
)
FAST = ("mean_bounded", "mean_gaussian", "linear_regression")
LEAD = (
    f"Intervals hold for all lines together with probability 95% (each at {100 * LEVEL:.2f}%, for up to {ROWS} "
    "lines); they count replications within cells, with t quantiles, and what a line or a formula misses the cells "
    "by ([levels and powers](rate_fits.md)).\n"
    '* "reproduced": the whole interval is as near to the theory as the tolerance after its sign ± says.\n'
    '* "reproduced at finite size": it lacks the theory, and is as near to "predicted here", which is what the whole '
    "formula gives for the very cells that were measured.\n"
    '* "not reproduced": it lacks both. "undecided": the rest. *Finds* is the power: the deviation that is found with '
    "probability 0.8.\n"
    '* Lines of constants share the verdict of their formula. A rival has as many terms as the formula. "reproduced" '
    "says of a rival that it is rejected."
)


def run_scripts(options: Options, scripts: Sequence[str]) -> list[Outcome]:
    """Run the scripts, one after the other: the cells of each go to all processes."""
    outcomes = []
    for name in scripts:
        start = time.perf_counter()
        outcomes.append(importlib.import_module(name).run(options))
        outcomes[-1].seconds = time.perf_counter() - start
        print(f"{name}: {time.perf_counter() - start:.0f} seconds", file=sys.stderr)
    lines = sum(len(outcome.lines) for outcome in outcomes)
    if lines > ROWS:
        raise SystemExit(f"{lines} verdicts are more than the {ROWS} that the intervals are for")
    return outcomes


def as_markdown(outcomes: Sequence[Outcome], command: str, seconds: float, jobs: int, scale: str) -> str:
    """Return the table with the command that made it."""
    studies = [study for outcome in outcomes for study in outcome.studies]
    facts = ", ".join(f"{name} {value}" for name, value in provenance(studies).items() if name[0].islower())
    counts = "; ".join(f"{verdict}: {count}" for verdict, count in verdicts(outcomes).items())
    failures = [f"* {study.name}: {note}" for study in studies for note in study.failure_notes()]
    total = sum(study.seconds for study in studies)
    resumed = " after interrupted runs, whose rows were kept" if total > jobs * seconds else ""
    parts = [
        "# Rates of the theory, reproduced",
        f"{time.strftime('%Y-%m-%d')}, `{command}`: {seconds / 60:.0f} minutes{resumed}, {jobs} processes; "
        f"{total / 60:.0f} minutes of processes in all.\n"
        f"Python {platform.python_version()}, {facts}. Simulated noise.",
        LEAD,
        f"Scale of this run: {scale}. Lines: {counts}.",
    ]
    for outcome in outcomes:
        spent = sum(study.seconds for study in outcome.studies) / 60
        parts += [
            f"## {outcome.title}",
            markdown_table(outcome.lines),
            *outcome.notes,
            f"{spent:.1f} minutes of processes.",
        ]
    parts += ["## Failed cells", "\n".join(failures) or "None."]
    return "\n\n".join(parts) + "\n"


def as_html(outcomes: Sequence[Outcome], command: str) -> str:
    """Return the same as a page, with every study's table and pictures."""
    studies = [study for outcome in outcomes for study in outcome.studies]
    findings = [finding for outcome in outcomes for finding in outcome.findings]
    pictures = {}
    for outcome in outcomes:
        for caption, draw in outcome.pictures.items():
            try:
                pictures[f"{outcome.title}. {caption}"] = draw()
            except DPStatsError as error:  # no matplotlib here: the tables are what counts
                print(f"no picture: {error}", file=sys.stderr)
    page = study_report(
        studies,
        title="Rates of the theory, reproduced",
        findings=findings,
        pictures=pictures,
        command=command,
    )
    page.section("The table")
    page.text(LEAD)
    for outcome in outcomes:
        page.subsection(outcome.title)
        page.table(HEADER, [line.cells() for line in outcome.lines])
        for note in outcome.notes:
            page.text(note)
    return page.as_html()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; return 1 if anything was not reproduced. What is undecided is printed, and no failure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", choices=SCALES, default="full")
    parser.add_argument("--fast", action="store_true", help="the strongest slopes; nothing written")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "rates", help="of the studies' files")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where rates.md and rates.html go")
    parser.add_argument("--only", choices=SCRIPTS, action="append", help="run this script only; repeatable")
    given = parser.parse_args(arguments)
    start = time.perf_counter()
    if given.fast:
        options, scripts = Options("fast", None, given.jobs), FAST
    else:
        options = Options(given.scale, given.folder, given.jobs, progress=sys.stderr.isatty())
        scripts = tuple(given.only or SCRIPTS)
    outcomes = run_scripts(options, scripts)
    words = sys.argv[1:] if arguments is None else list(arguments)
    command = " ".join(["python validation/studies/rates/run_all.py", *words])
    text = as_markdown(outcomes, command, time.perf_counter() - start, given.jobs, options.scale)
    print(text)
    if not given.fast:
        given.out.mkdir(parents=True, exist_ok=True)
        (given.out / "rates.md").write_text(text, encoding="utf-8")
        (given.out / "rates.html").write_text(as_html(outcomes, command), encoding="utf-8")
    failed = any(line.verdict == NOT_REPRODUCED for outcome in outcomes for line in outcome.lines)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
