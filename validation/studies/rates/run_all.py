"""Every rate of the theory, reproduced or not: all scripts of this folder, one table, one page.

    python validation/studies/rates/run_all.py                     # the published page
    python validation/studies/rates/run_all.py --only sparse_mean  # one section of it; the others stay
    python validation/studies/rates/run_all.py --scale reduced     # a look, in minutes
    python validation/studies/rates/run_all.py --fast              # the strongest slopes; nothing written

A run that was interrupted goes on where it was when it is started again: each study has a file of its own in
build/rates, and rates.html there has its tables and pictures. Written is validation/results/rates.md.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import platform
import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from outcomes import HEADER, LEVEL, ROWS, SCALES, Options, Outcome, markdown_table

from dpstats.errors import DPStatsError
from dpstats.simulation import study_report
from dpstats.simulation.study_report import provenance
from dpstats.simulation.table import FINITE_SIZE, NOT_REPRODUCED, REPRODUCED, UNDECIDED

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


VERDICTS = (REPRODUCED, FINITE_SIZE, UNDECIDED, NOT_REPRODUCED)


def run_scripts(options: Options, scripts: Sequence[str]) -> list[Outcome]:
    """Run the scripts, one after the other: the cells of each go to all processes."""
    outcomes = []
    for name in scripts:
        start = time.process_time()
        outcome = importlib.import_module(name).run(options)
        # Of this process: with one job, the studies are in it.
        own = time.process_time() - start
        studies = sum(study.seconds for study in outcome.studies)
        outcome.seconds = max(own, studies) if options.jobs == 1 else own + studies
        print(f"{name}: {outcome.seconds:.0f} seconds of one processor", file=sys.stderr)
        outcomes.append(outcome)
    return outcomes


def as_section(script: str, outcome: Outcome, scale: str) -> str:
    """Return a section of the page: the command that makes it, its time, and its table."""
    facts = ", ".join(f"{name} {value}" for name, value in provenance(outcome.studies).items() if name[0].islower())
    command = f"python validation/studies/rates/run_all.py --only {script}"
    command += "" if scale == "full" else f" --scale {scale}"
    failures = [f"{study.name}: {note}" for study in outcome.studies for note in study.failure_notes()]
    parts = [
        f"## {outcome.title}",
        f"{time.strftime('%Y-%m-%d')}, `{command}`: {outcome.seconds / 60:.1f} minutes of one processor. "
        f"Python {platform.python_version()}, {facts}.",
        markdown_table(outcome.lines),
        *outcome.notes,
        f"Failed cells: {'; '.join(failures) or 'none'}.",
    ]
    return "\n\n".join(parts) + "\n"


def read_sections(page: Path) -> dict[str, str]:
    """Return the sections of a page by their scripts."""
    if not page.exists():
        return {}
    _, *found = re.split(r"^(?=## )", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    named = {match[1]: text for text in found if (match := re.search(r"--only (\w+)", text))}
    return {name: text.rstrip("\n") + "\n" for name, text in named.items()}


def count_verdicts(section: str) -> dict[str, int]:
    """Count the verdicts of a section."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines()]
    given = [row[HEADER.index("verdict")] for row in rows if len(row) == len(HEADER)]
    return {verdict: given.count(verdict) for verdict in VERDICTS}


def count_minutes(section: str) -> float:
    """Return the minutes of one processor, or of processes by the clock, that a section took; NaN if it names none."""
    found = re.search(r"([\d.]+) minutes of (?:one processor|processes)", section)
    return float(found[1]) if found else math.nan


def as_markdown(sections: Mapping[str, str], scale: str = "full") -> str:
    """Return the page: the counts of all sections, what the verdicts mean, and the sections."""
    ordered = [(name, sections[name]) for name in SCRIPTS if name in sections]
    counts = [count_verdicts(text) for _, text in ordered]
    lines = sum(sum(each.values()) for each in counts)
    if lines > ROWS:
        raise SystemExit(f"{lines} verdicts are more than the {ROWS} that the intervals are for")
    minutes = [count_minutes(text) for _, text in ordered]
    dates = {re.findall(r"\d{4}-\d\d-\d\d", text)[0] for _, text in ordered}
    titles = [text.splitlines()[0].removeprefix("## ") for _, text in ordered]
    rows = [
        [title, *(str(each[verdict]) for verdict in VERDICTS), "–" if math.isnan(spent) else f"{spent:.1f}"]
        for title, each, spent in zip(titles, counts, minutes, strict=True)
    ]
    total = sum(spent for spent in minutes if not math.isnan(spent))
    totals = [str(sum(each[verdict] for each in counts)) for verdict in VERDICTS]
    rows.append(["all", *totals, f"{total:.1f}"])
    header = ["section", *VERDICTS, "minutes of one processor"]
    table = "\n".join("| " + " | ".join(row) + " |" for row in [header, ["---"] * len(header), *rows])
    command = "python validation/studies/rates/run_all.py" + ("" if scale == "full" else " --fast")
    clock = (
        " Minutes of processes are of the clock, on a machine with other work: they took no more of a processor."
        if any("minutes of processes" in text for _, text in ordered)
        else ""
    )
    head = [
        "# Rates of the theory, reproduced",
        f"Runs of {', '.join(sorted(dates))}. Each section names the command that makes it anew, and `{command}` makes "
        f"all of them, in {total:.1f} minutes of one processor, half as long on two.{clock} Noise is simulated.",
        table,
        LEAD,
    ]
    return "\n\n".join([*head, *(text.rstrip("\n") for _, text in ordered)]) + "\n"


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
        studies, title="Rates of the theory, reproduced", findings=findings, pictures=pictures, command=command
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
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "build" / "rates", help="of the studies' files and rates.html"
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="where rates.md is")
    parser.add_argument("--only", choices=SCRIPTS, action="append", help="run this script only; repeatable")
    given = parser.parse_args(arguments)
    if given.fast:
        options, scripts = Options("fast", None, given.jobs), FAST
    else:
        options = Options(given.scale, given.folder, given.jobs, progress=sys.stderr.isatty())
        scripts = tuple(given.only or SCRIPTS)
    outcomes = run_scripts(options, scripts)
    made = {name: as_section(name, outcome, options.scale) for name, outcome in zip(scripts, outcomes, strict=True)}
    page = given.out / "rates.md"
    text = as_markdown(made, "fast") if given.fast else as_markdown({**read_sections(page), **made})
    print(text)
    if not given.fast:
        given.out.mkdir(parents=True, exist_ok=True)
        page.write_text(text, encoding="utf-8")
        words = sys.argv[1:] if arguments is None else list(arguments)
        command = " ".join(["python validation/studies/rates/run_all.py", *words])
        (given.folder / "rates.html").write_text(as_html(outcomes, command), encoding="utf-8")
    failed = any(line.verdict == NOT_REPRODUCED for outcome in outcomes for line in outcome.lines)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
