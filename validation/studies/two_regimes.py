"""A rate that changes once: how often intervals for both slopes and for the break cover.

python validation/studies/two_regimes.py [studies]
"""

from __future__ import annotations

import sys

import numpy as np

from dpstats.simulation import StudyResults, fit_rate
from dpstats.simulation.table import CellResult

N = [50, 100, 200, 400, 800, 1600, 3200, 6400]
PLACE, SLOPES = 600.0, (-2.0, -0.5)


def risk(n: int) -> float:
    """Return a risk that falls as n^-2 up to the break, and as n^-1/2 from there on."""
    ratio = n / PLACE
    return float(min(ratio, 1.0) ** SLOPES[0] * max(ratio, 1.0) ** SLOPES[1])


def study(replications: int, rng: np.random.Generator) -> StudyResults:
    """Return chi-square losses, as squared errors of four columns are."""
    cells = tuple(
        CellResult({"n": n, "d": 1}, {"squared_error": risk(n) * rng.chisquare(4, replications) / 4}, {})
        for n in N
    )
    return StudyResults("two regimes", cells, ("squared_error",), {"Seed": "99"})


def main(studies: int) -> None:
    """Print the coverage of the three intervals, and in how many studies one line did fit."""
    rng = np.random.default_rng(99)
    for replications in (100, 400):
        covered, told = np.zeros(3), 0
        for _ in range(studies):
            two = fit_rate(study(replications, rng), "n").two
            if two is None:
                continue
            told += 1
            ends = zip((*two.intervals, two.place_interval), (*SLOPES, PLACE), strict=True)
            covered += [
                interval is None or float(interval.low) <= truth <= float(interval.high)
                for interval, truth in ends
            ]
        below, above, place = covered / max(told, 1)
        print(
            f"{replications} replications a cell: two regimes in {told} of {studies} studies; 95% intervals cover the "
            f"slope below in {below:.3f}, above in {above:.3f}, the break in {place:.3f}"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
