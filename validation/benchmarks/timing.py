"""Timing side by side, and writing down what was measured; needs numpy alone.

Cases are timed in turn, A B C A B C, after one untimed round, and compared round by round: what
slows the machine down for a while slows down all of a round, and its ratios stay. A result is the
median of the rounds, with the smallest and the largest beside it.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "validation" / "results"

Case = Callable[[], object]
Times = dict[str, list[float]]


def interleaved(cases: Mapping[str, Case], rounds: int, clock: Callable[[], float] = time.perf_counter) -> Times:
    """Return the seconds that every case took in every round."""
    for run in cases.values():
        run()
    times: Times = {name: [] for name in cases}
    for _ in range(rounds):
        for name, run in cases.items():
            start = clock()
            run()
            times[name].append(clock() - start)
    return times


def peak_mib(run: Case) -> float:
    """Return the most memory that ``run`` held at once, in MiB, as tracemalloc sees it.

    tracemalloc slows Python down: call it apart from any timing.
    """
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def milliseconds(times: Sequence[float]) -> str:
    """Return the median time, to three digits."""
    return _digits(1000 * statistics.median(times))


def ratios(times: Sequence[float], limit: Sequence[float]) -> str:
    """Return the median and the range of the ratios of two cases, round by round; 1 for the limit itself."""
    if times == limit:
        return "1"
    values = [one / other for one, other in zip(times, limit, strict=True)]
    return f"{_digits(statistics.median(values))} ({_digits(min(values))} to {_digits(max(values))})"


def _digits(value: float) -> str:
    # Three digits, and never an exponent.
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table: text to the left in the first column, numbers to the right."""
    rules = [":--"] + ["--:"] * (len(header) - 1)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, rules, *rows))


def write_wanted(description: str | None) -> bool:
    """Read the command line: was the result to be written to validation/results?"""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="also write the tables to validation/results")
    return parser.parse_args().write


def publish(name: str, title: str, body: str, packages: Mapping[str, str], *, write: bool) -> None:
    """Print the dated result with what it was measured on; ``write`` it to ``name``.md too."""
    script = Path(sys.argv[0]).resolve().relative_to(ROOT)
    command = " ".join(["python", script.as_posix(), *sys.argv[1:]])
    names = ", ".join(f"{package} {number}" for package, number in packages.items())
    text = (
        f"# {title}\n\n"
        f"{datetime.date.today()}, `{command}`, on {cores()} cores ({platform.system()}, {platform.machine()}).\n"
        f"Python {platform.python_version()}, {names}.\n\n{body}\n"
    )
    print(text, end="")
    if write:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{name}.md").write_text(text, encoding="utf-8")


def without_numba(run: Case) -> Case:
    """Return a case that runs as if numba were not installed. It is given after one that compiled the loops."""

    def plain() -> None:
        from dpstats.lattice import rounding
        from dpstats.regression import blocks, passes

        numpy = passes.Passes()
        with (
            mock.patch.object(rounding, "loops", return_value=None),
            mock.patch.object(blocks, "choose_passes", return_value=numpy),
        ):
            run()

    return plain


def versions(*packages: str) -> dict[str, str]:
    """Return the versions installed here."""
    return {package: version(package) for package in packages}


def cores() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
