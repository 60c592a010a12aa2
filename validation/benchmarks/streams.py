"""Time and memory of a command that reads a CSV from standard input, beside pandas, which holds it in memory.

Every case is a process of its own, whose largest resident memory is stated, the interpreter and all packages in it.
The rows are made while they are read: no file is written. Memory should not grow with them.

    python validation/benchmarks/streams.py                   print the table
    python validation/benchmarks/streams.py --write           and write validation/results/benchmark_streams.md
    python validation/benchmarks/streams.py --rows 200000     fewer rows
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

from timing import publish, table, versions

ROWS = (100_000, 1_000_000, 10_000_000)
HEADER = "age,visits,name\n"
LINES = "".join(f"{(i * 37) % 90}.5,{i % 9},person {i}\n" for i in range(10_000))
MEAN = ["-m", "dpstats", "mean", "-", "--column", "age", "--column", "visits", "--bounds", "0", "100", "--seed", "1"]
GROUPS = ["-m", "dpstats", "group-means", "-", "--column", "age", "--by", "visits", "--groups", "0,1,2,3,4,5,6,7,8"]
CASES = {
    "`import dpstats.means`, nothing read": ["-c", "import dpstats.means"],
    "`dpstats mean -`, two columns": MEAN,
    "`dpstats mean - --method adaptive`": [
        *MEAN[:4],
        *["--column", "age", "--method", "adaptive", "--bound", "200", "--std", "40", "--delta", "1e-6", "--seed", "1"],
    ],
    "`dpstats group-means -`": [*GROUPS, "--bounds", "0", "100", "--seed", "1"],
    "`pandas.read_csv` and two means": [
        "-c",
        "import sys, pandas; print(pandas.read_csv(sys.stdin.buffer)[['age', 'visits']].mean())",
    ],
}


def measured(arguments: list[str], rows: int) -> tuple[float, float]:
    """Return the seconds of a process that is fed so many rows, and its largest resident memory in MiB."""
    start = time.perf_counter()
    child = subprocess.Popen([sys.executable, *arguments], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert child.stdin is not None
    try:
        child.stdin.write(HEADER.encode())
        data = LINES.encode()
        for _ in range(rows // 10_000):
            child.stdin.write(data)
        child.stdin.close()
    except BrokenPipeError:
        pass  # the case that reads nothing
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{arguments} ended with {child.returncode}")
    return time.perf_counter() - start, used.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="also write the table to validation/results")
    parser.add_argument("--rows", type=int, help="one number of rows, a multiple of 10,000")
    options = parser.parse_args()
    sizes = ROWS if options.rows is None else (options.rows,)
    rows = []
    for name, arguments in CASES.items():
        cells = [name]
        for size in sizes:
            seconds, memory = measured(arguments, size)
            cells += [f"{seconds:.1f}", f"{memory:.0f}"]
        rows.append(cells)
    header = ["", *(word for size in sizes for word in (f"{size:,} rows: s", "MiB"))]
    body = f"""\
A table of two columns of numbers and one of text, written to the standard input of a process as fast as it reads, once
a case: seconds from its start to its end, and its largest resident memory. dpstats reads every entry by itself, keeps
the numbers in memory up to 64 MiB and beyond that in a temporary file, and adds rows up block by block; pandas holds
all rows. Load of the machine: {os.getloadavg()[2]:.0f} meanwhile, of which 1 is this measurement; where it is more than
there are cores, times are those of a busy machine.

{table(header, rows)}"""
    packages = versions("dpstats", "numpy", "pandas")
    publish("benchmark_streams", "Benchmark: tables from standard input", body, packages, write=options.write)


if __name__ == "__main__":
    main()
