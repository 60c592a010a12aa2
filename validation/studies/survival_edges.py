"""Coverage of survival curves at their edges: steep hazards, censoring inside bins, few and many bins.

A dataset is drawn as its counts on a grid of 24 places in each bin, as in ``survival_levels.py``.

    python validation/studies/survival_edges.py
    python validation/studies/survival_edges.py --datasets 100 --no-write
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from survival_levels import Cell, Datasets

import dpstats
from dpstats.survival import PrivateSurvival
from dpstats.survival.curves import critical_values, limits, monotone

RESULTS = Path(__file__).resolve().parents[1] / "results" / "survival_edges.md"
Floats = NDArray[np.float64]
Curve = Callable[[Floats], Floats]

HAZARDS: dict[str, Curve] = {
    "Weibull(0.5)": lambda x: -np.log(0.6) * np.sqrt(x),
    "exponential": lambda x: np.log(2) * x,
    "Weibull(2)": lambda x: -np.log(0.4) * x**2,
    "bathtub": lambda x: np.interp(x, [0, 0.055, 0.82, 1], [0, 0.2, 0.3, 0.6]),
    "late": lambda x: np.interp(x, [0, 0.55, 1], [0, 0.03, 0.6]),
}
"""Cumulative hazards up to the horizon, which is 1."""


def _at_once(x: Floats) -> Floats:
    moments = np.arange(4) / 4 + 0.0274
    return np.asarray(1 - 0.125 * (np.asarray(x)[..., None] >= moments).sum(axis=-1))


CENSORING: dict[str, Curve] = {
    "exponential": lambda x: np.exp(-2.03 * x),
    "uniform": lambda x: 1 - 0.52 * x,
    "at once": _at_once,
}
"""Proportions that are not censored. "at once": an eighth at each of four moments, just after a quarter begins."""
SIZES = [
    (n, epsilon, bins)
    for bins in (4, 12, 30)
    for n, epsilon in ((1000, 1.0), (5000, 0.5), (5000, 1.0), (20_000, 3.0))
]


def coverage(
    hazard: Curve, staying: Curve, n: int, epsilon: float, bins: int, datasets: int, seed: int
) -> tuple[float, float, float]:
    """Return the coverage of the survival at the first edge, the least of all edges, and the coverage of the band."""
    drawn = Datasets(Cell("", n, epsilon, bins, [1.0], hazard, [staying]), datasets, seed)
    plan = PrivateSurvival(horizon=1.0, bins=bins, epsilon=epsilon).plan(n)
    cells, positions = plan.estimate_cells(drawn._release(plan, drawn.positions))
    curves = plan.curves(cells[:, 0], None if positions is None else positions[:, 0])
    pointwise, band = critical_values(curves, plan.cell_noise, 0.95)
    truth = np.exp(-hazard(np.linspace(0, 1, bins + 1)[1:]))
    low, high = limits(curves, pointwise)
    at_edges = ((low <= truth) & (truth <= high)).mean(axis=0)
    low, high = monotone(*limits(curves, band))
    together = ((low <= truth + 1e-12) & (truth <= high + 1e-12)).all(axis=1).mean()
    return float(at_edges[0]), float(at_edges.min()), float(together)


def as_markdown(datasets: int, seed: int, command: str) -> str:
    """Run everything, and return the page."""
    error = np.sqrt(0.05 * 0.95 / datasets)
    lines = [
        "# Survival curves at their edges",
        "",
        f"{time.strftime('%Y-%m-%d')}, dpstats {dpstats.__version__}, numpy {np.__version__}; simulated noise; "
        f"{datasets} datasets a cell (one standard error of a coverage: {error:.3f}); intervals of 95%.",
        "",
        f"    {command}",
        "",
        'Five hazards and three kinds of censoring. "At once" is the hardest: half of the rows are censored at four '
        "moments, each just after an edge of four bins. The last two columns are the least of the cells.",
        "",
        "| n | epsilon | bins | censoring | first edge, by hazard: "
        + ", ".join(HAZARDS)
        + " | any edge | band |",
        "|---" * 7 + "|",
    ]
    for place, (n, epsilon, bins) in enumerate(SIZES):
        for name, staying in CENSORING.items():
            found = np.array(
                [
                    coverage(hazard, staying, n, epsilon, bins, datasets, seed + place)
                    for hazard in HAZARDS.values()
                ]
            )
            firsts = " ".join(f"{value:.3f}" for value in found[:, 0])
            _, edge, band = found.min(axis=0)
            lines.append(f"| {n} | {epsilon:g} | {bins} | {name} | {firsts} | {edge:.3f} | {band:.3f} |")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", type=int, default=400)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--no-write", action="store_true")
    options = parser.parse_args()
    command = (
        f"python validation/studies/survival_edges.py --datasets {options.datasets} --seed {options.seed}"
    )
    text = as_markdown(options.datasets, options.seed, command)
    print(text)
    if not options.no_write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
