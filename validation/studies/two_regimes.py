"""A rate that changes once, and rates that do not: intervals of two regimes, and how often they are seen for nothing.

Simulated studies of eight values of n. Their losses are chi-square (squared errors of four columns) about a break from
n^-2 to n^-1/2; or of three laws about a straight line n^-1, of which "one line does not fit" (p < .05) is false.

    python validation/studies/two_regimes.py
    python validation/studies/two_regimes.py --studies 20 --no-write
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import dpstats
from dpstats.simulation import StudyResults, fit_rate
from dpstats.simulation.cell_fits import MISFIT
from dpstats.simulation.table import CellResult

RESULTS = Path(__file__).resolve().parents[1] / "results" / "two_regimes.md"
N = [50, 100, 200, 400, 800, 1600, 3200, 6400]
SLOPES = (-2.0, -0.5)
PLACES = (75.0, 150.0, 600.0, 2400.0, 4800.0)
REPLICATIONS = (10, 50, 100, 200, 400)
LAWS: dict[str, Callable[[int, np.random.Generator], Any]] = {
    "chi-square, 1 degree": lambda size, rng: rng.chisquare(1, size),
    "chi-square, 4 degrees": lambda size, rng: rng.chisquare(4, size) / 4,
    "lognormal, sigma = 2": lambda size, rng: np.exp(2 * rng.standard_normal(size) - 2),
}


class Covered(NamedTuple):
    """Of one place of the break: studies in which two regimes were tried, and what their intervals covered."""

    tried: float
    slopes: tuple[float, float]  # where they are determined
    determined: tuple[float, float]
    place: float


def risk(n: int, place: float) -> float:
    """Return a risk that falls as n^-2 up to the break, and as n^-1/2 from there on."""
    ratio = n / place
    return float(min(ratio, 1.0) ** SLOPES[0] * max(ratio, 1.0) ** SLOPES[1])


def study(risks: Sequence[float], law: Any, replications: int, rng: np.random.Generator) -> StudyResults:
    """Return a study with these risks."""
    cells = tuple(
        CellResult({"n": n, "d": 1}, {"squared_error": value * law(replications, rng)}, {})
        for n, value in zip(N, risks, strict=True)
    )
    return StudyResults("two regimes", cells, ("squared_error",), {"Seed": "99"})


def broken(place: float, replications: int, studies: int) -> Covered:
    """Return what the intervals about a break cover."""
    rng = np.random.default_rng([99, round(place), replications])
    risks = [risk(n, place) for n in N]
    determined, covered, placed, tried = np.zeros(2), np.zeros(2), 0, 0
    for _ in range(studies):
        two = fit_rate(study(risks, LAWS["chi-square, 4 degrees"], replications, rng), "n").two
        if two is None:
            continue
        tried += 1
        placed += float(two.place_interval.low) <= place <= float(two.place_interval.high)
        for side, (interval, truth) in enumerate(zip(two.intervals, SLOPES, strict=True)):
            if interval is not None:
                determined[side] += 1
                covered[side] += float(interval.low) <= truth <= float(interval.high)
    with np.errstate(invalid="ignore"):
        share, told = covered / determined, determined / np.float64(tried)
        return Covered(tried / studies, tuple(share), tuple(told), float(np.float64(placed) / tried))


def false_alarms(law: str, replications: int, studies: int) -> float:
    """Return how often one line is said not to fit, where it does."""
    rng = np.random.default_rng([99, list(LAWS).index(law), replications])
    risks = [1 / n for n in N]
    alarms = [fit_rate(study(risks, LAWS[law], replications, rng), "n").pvalue < MISFIT for _ in range(studies)]
    return float(np.mean(alarms))


def as_markdown(studies: int, seconds: float, breaks: dict[Any, Covered], alarms: dict[Any, float]) -> str:
    """Return the page."""

    def shown(value: float) -> str:
        return "" if np.isnan(value) else f"{value:.3f}"

    lines = [
        "# Two regimes of a rate",
        "",
        f"{time.strftime('%Y-%m-%d')}, `python validation/studies/two_regimes.py --studies {studies}`, dpstats "
        f"{dpstats.__version__}, numpy {np.__version__}, Python {platform.python_version()}; "
        f"{seconds / 60:.0f} minutes.",
        "",
        f"Simulated studies of n in {', '.join(map(str, N))}. {studies} studies a row: a share of .95 has a "
        f"Monte Carlo standard error of {np.sqrt(0.95 * 0.05 / studies):.3f}.",
        "",
        "## A break from n^-2 to n^-1/2",
        "",
        "95% intervals, where one line does not fit. A slope is not determined where the break may lie beyond all "
        "values but one: its coverage is of the others.",
        "",
        "| break at n | replications | two regimes tried | slope below covered | determined | slope above covered "
        "| determined | break covered |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (place, replications), found in breaks.items():
        sides = " | ".join(f"{shown(found.slopes[side])} | {shown(found.determined[side])}" for side in (0, 1))
        lines.append(f"| {place:g} | {replications} | {shown(found.tried)} | {sides} | {shown(found.place)} |")
    lines += [
        "",
        f"## A straight line: how often it is said not to fit (p < {MISFIT:g})",
        "",
        "| losses | " + " | ".join(f"{count} replications" for count in REPLICATIONS) + " |",
        "|---" * (len(REPLICATIONS) + 1) + "|",
    ]
    for law in LAWS:
        lines.append(f"| {law} | " + " | ".join(shown(alarms[law, count]) for count in REPLICATIONS) + " |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=300, help="of every row")
    parser.add_argument("--no-write", action="store_true")
    options = parser.parse_args(arguments)
    start = time.perf_counter()
    breaks = {(place, count): broken(place, count, options.studies) for place in PLACES for count in (100, 400)}
    alarms = {(law, count): false_alarms(law, count, options.studies) for law in LAWS for count in REPLICATIONS}
    text = as_markdown(options.studies, time.perf_counter() - start, breaks, alarms)
    print(text)
    if not options.no_write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
