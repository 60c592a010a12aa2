"""The time that an import, and that a whole command takes in a fresh process.

The limit is `import sklearn`, which the base class of the estimators comes from: how much more does
the first estimator cost, and how much a command from its start to its printed answer? `import dpstats`
alone should cost next to nothing, since subpackages load when they are used. Every time includes the
start of the interpreter, which has a line of its own. The processor's time is stated too: on a machine
that does other things at the same time it says more.

    python validation/benchmarks/startup.py            print the tables
    python validation/benchmarks/startup.py --write    and write validation/results/benchmark_startup.md
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from timing import ROOT, Times, milliseconds, publish, ratios, table, versions, write_wanted

ROUNDS = 5
LIMIT = "import sklearn"
FLOOR = "import numpy, opendp.measurements"
STATEMENTS = ["pass", "import numpy", FLOOR, LIMIT, "import dpstats", "from dpstats.means import ClippedMean"]
ROWS = 1000
COMMANDS = [
    "dpstats --help",
    "dpstats budget show budget.db",
    "dpstats plan mean --rows 1000 --columns 1 --bounds 0 100",
    "dpstats mean people.csv --column age --bounds 0 100 --seed 1",
    "dpstats mean people.csv --column age --bounds 0 100 --budget budget.db --epsilon 1e-6",
]


def arguments(case: str) -> list[str]:
    """Return the process of a case: a command, or a statement."""
    # This checkout is imported, whatever the working directory holds.
    alone = [sys.executable, "-s", "-P"]
    return [*alone, "-m", *case.split()] if case.startswith("dpstats ") else [*alone, "-c", case]


def run(process: list[str], folder: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(process, check=True, cwd=folder, stdout=subprocess.DEVNULL, env=environment)


def interleaved(cases: list[str], folder: str) -> tuple[Times, Times]:
    """Return the seconds, and the processor's seconds, of every case in every round, after one untimed round."""
    wall: Times = {case: [] for case in cases}
    cpu: Times = {case: [] for case in cases}
    for repetition in range(ROUNDS + 1):
        for case in cases:
            start, before = time.perf_counter(), os.times()
            run(arguments(case), folder)
            after = os.times()
            if repetition:
                wall[case].append(time.perf_counter() - start)
                used = after.children_user + after.children_system
                cpu[case].append(used - before.children_user - before.children_system)
    return wall, cpu


def main() -> None:
    write = write_wanted(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        draw = random.Random(0)
        ages = "\n".join(f"{draw.gauss(40, 10):.3f}" for _ in range(ROWS))
        Path(folder, "people.csv").write_text(f"age\n{ages}\n")
        run(arguments("dpstats budget new budget.db --epsilon 1 --quiet"), folder)
        before = os.getloadavg()[0]
        wall, cpu = interleaved([*STATEMENTS, *COMMANDS], folder)
    rows = [
        [
            f"`{case}`",
            *(milliseconds(wall[case]), ratios(wall[case], wall[LIMIT])),
            *(milliseconds(cpu[case]), ratios(cpu[case], cpu[LIMIT])),
        ]
        for case in wall
    ]
    header = ["", "ms", f"times `{LIMIT}`", "processor, ms", f"times `{LIMIT}`"]
    body = f"""\
Median times of {ROUNDS} rounds of fresh processes, files in the system's cache, and the median ratio to
`{LIMIT}` in the same round (smallest to largest). `pass` is the start of the interpreter alone;
`import dpstats` loads no subpackage, which is left to the line below it. Commands are whole processes, from
their start to the printed answer, run as `python -s -P -m dpstats`; `people.csv` has {ROWS:,} rows. An estimator cannot
be had for less than `{LIMIT}`, which its base class comes from: that import loads scipy.stats, and pandas where it is
installed. A command defers these two and what else scikit-learn imports without need. Floor measured: `{FLOOR}`,
and of scikit-learn what its base class itself uses. Load of the machine: {before:.1f} at the start,
{os.getloadavg()[0]:.1f} at the end, of which 1 is this
measurement; where it is more than there are cores, times are those of a busy machine, and ratios say more.

{table(header, rows[: len(STATEMENTS)])}

{table(header, rows[len(STATEMENTS) :])}"""
    packages = versions("dpstats", "numpy", "scipy", "scikit-learn", "pandas")
    publish("benchmark_startup", "Benchmark: time to import and to start", body, packages, write=write)


if __name__ == "__main__":
    main()
