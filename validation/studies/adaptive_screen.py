"""What the screen of `AdaptiveMean` sees, and what it does not: coverage, fallbacks and widths by law.

The mean is uniform in a box of half-width 10 standard deviations, the spread is stated or (std_bound) only
bounded, and tails are assumed to be normal ones ("subgaussian"). Coverage is of 95% intervals, per column;
fallback the share of fits that the count of clipped rows refutes; width the median over that of the
non-private normal interval.

    python validation/studies/adaptive_screen.py
    python validation/studies/adaptive_screen.py --replications 20 --no-write
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

VALIDATION = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(VALIDATION / "peers"))
from laws import standard_rows  # noqa: E402

import dpstats  # noqa: E402
from dpstats.means import AdaptiveMean  # noqa: E402
from dpstats.parallel import run_blocks  # noqa: E402

RESULTS = VALIDATION / "results" / "adaptive_screen.md"
BOX, DELTA, RHO = 10.0, 1e-6, 0.9
Cell = tuple[str, int, int, float, float]  # law, n, d, delta, std_bound; 1 is a stated spread

CELLS: list[Cell] = [
    *(
        (law, n, d, DELTA, 1.0)
        for law, n, d in (
            ("normal", 20_000, 1),
            ("normal", 5000, 20),
            ("exponential factor", 5000, 20),
            ("Bernoulli(.02)", 20_000, 1),
            ("Bernoulli(.001)", 20_000, 1),
            ("exponential", 20_000, 1),
            ("exponential", 5000, 1),
            ("Student t, 3 d.f.", 20_000, 1),
            ("1% contaminated", 20_000, 1),
        )
    ),
    *(
        (law, n, d, DELTA, 4.0)
        for law, n, d in (
            ("normal", 20_000, 1),
            ("normal", 5000, 20),
            ("exponential factor", 5000, 20),
            ("exponential", 20_000, 1),
            ("Bernoulli(.02)", 20_000, 1),
        )
    ),
    ("normal", 20_000, 1, 0.0, 1.0),
    ("Bernoulli(.02)", 20_000, 1, 0.0, 1.0),
]


def rows_of(law: str, n: int, d: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return rows of mean 0 and variance 1."""
    if law == "exponential factor":
        common = rng.standard_exponential((n, 1)) - 1
        return np.sqrt(RHO) * common + np.sqrt(1 - RHO) * (rng.standard_exponential((n, d)) - 1)
    if law == "Bernoulli(.001)":
        return ((rng.random((n, d)) < 0.001) - 0.001) / np.sqrt(0.001 * 0.999)
    return standard_rows(law, n, d, rng)


def block(cell: Cell, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return coverage, fallback and width of each of some datasets."""
    law, n, d, delta, loose = cell
    spread = {"std": 1.0} if loose == 1 else {"std": "private", "std_bound": loose}
    estimator = AdaptiveMean(bounds=(-BOX, BOX), delta=delta, random_state=rng, **spread)
    found = []
    for _ in range(size):
        mean = rng.uniform(-BOX, BOX, d)
        fitted = estimator.fit(mean + rows_of(law, n, d, rng))
        low, high = fitted.confidence_interval()
        width = np.median(high - low) * np.sqrt(n) / (2 * 1.959964)
        found.append((np.mean((low <= mean) & (mean <= high)), fitted.assumption_refuted_, width))
    return np.array(found)


def study(
    cells: list[Cell], replications: int, *, seed: int = 2026, jobs: int = 1
) -> dict[Cell, NDArray[np.float64]]:
    """Return what `block` does of every dataset of every cell."""
    tasks = [(cell, min(25, replications - start)) for cell in cells for start in range(0, replications, 25)]
    done = run_blocks(block, tasks, random_state=seed, n_jobs=jobs, description="datasets")
    return {
        cell: np.concatenate([part for task, part in zip(tasks, done, strict=True) if task[0] == cell])
        for cell in cells
    }


def as_markdown(results: dict[Cell, NDArray[np.float64]], command: str) -> str:
    """Return the report."""
    lines = [
        "# What the screen of AdaptiveMean sees",
        "",
        f"{time.strftime('%Y-%m-%d')}, dpstats {dpstats.__version__}, numpy {np.__version__}; epsilon = 1, box "
        f"{BOX:g}, simulated noise; ± is one Monte Carlo standard error.",
        "",
        f"    {command}",
        "",
        "| rows | n | d | delta | spread | coverage | fallback | width over non-private | rows that may go unnoticed | "
        "which may move a mean by (sd) | datasets |",
        "|---" * 11 + "|",
    ]
    for (law, n, d, delta, loose), found in results.items():
        spread = {"std": 1.0} if loose == 1 else {"std": "private", "std_bound": loose}
        screen = AdaptiveMean(bounds=(-BOX, BOX), delta=delta, **spread).plan(n, d).screen
        assert screen is not None
        rows, shift = screen.unnoticed
        coverage, fallback, _ = found.mean(axis=0)
        error = found[:, 0].std() / np.sqrt(len(found))
        words = "stated" if loose == 1 else f"private, bound {loose:g}"
        lines.append(
            f"| {law} | {n:,} | {d} | {delta:g} | {words} | {coverage:.3f} ± {error:.3f} | {fallback:.3f} | "
            f"{np.median(found[:, 2]):.2f} | {rows} | {shift * loose:.2g} | {len(found)} |"
        )
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=400)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--no-write", action="store_true")
    options = parser.parse_args()
    results = study(CELLS, options.replications, seed=options.seed, jobs=options.jobs)
    asked = f"--replications {options.replications} --seed {options.seed}"
    text = as_markdown(results, f"python validation/studies/adaptive_screen.py {asked}")
    print(text)
    if not options.no_write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
