"""The time that an import takes in a fresh process.

The limit is `import sklearn`, which the base class of the estimators comes from: how much more does
the first estimator cost? `import dpstats` alone should cost next to nothing, since subpackages load
when they are used. Every time includes the start of the interpreter, which has a line of its own.

    python validation/benchmarks/startup.py            print the table
    python validation/benchmarks/startup.py --write    and write validation/results/benchmark_startup.md
"""

from __future__ import annotations

import subprocess
import sys

from timing import Case, interleaved, milliseconds, publish, ratios, table, versions, write_wanted

ROUNDS = 7
LIMIT = "import sklearn"
STATEMENTS = [
    "pass",
    "import numpy",
    LIMIT,
    "import dpstats",
    "from dpstats.means import ClippedMean",
]


def _process(statement: str) -> Case:
    # -I: what is installed is imported, whatever the working directory holds.
    return lambda: subprocess.run([sys.executable, "-I", "-c", statement], check=True)


def main() -> None:
    write = write_wanted(__doc__)
    times = interleaved({statement: _process(statement) for statement in STATEMENTS}, ROUNDS)
    rows = [
        [f"`{statement}`", milliseconds(seconds), ratios(seconds, times[LIMIT])]
        for statement, seconds in times.items()
    ]
    body = f"""\
Median times of {ROUNDS} rounds of fresh processes, files in the system's cache, and the median ratio to
`{LIMIT}` in the same round (smallest to largest). `pass` is the start of the interpreter alone;
`import dpstats` loads no subpackage, which is left to the line below it.

{table(["statement", "ms", f"times `{LIMIT}`"], rows)}"""
    packages = versions("dpstats", "numpy", "scipy", "scikit-learn", "pandas")
    publish("benchmark_startup", "Benchmark: time to import", body, packages, write=write)


if __name__ == "__main__":
    main()
