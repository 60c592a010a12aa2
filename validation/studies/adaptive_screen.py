"""What the screen of `AdaptiveMean` sees, and what it does not: coverage, fallbacks and widths by law.

The mean is uniform in a box of half-width 10 standard deviations, and the spread is stated or (std_bound) only
bounded. Coverage is of 95% intervals, per column: of the default ones, which assume the stated spread only, and of
those that assume normal tails (estimand="tails", or the default where these are refuted). Refuted is the share of fits
in which the count of clipped rows refutes them. Width is the median over that of the non-private normal interval.

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
Cell = tuple[str, int, int, float, float, float]  # law, n, d, epsilon, delta, std_bound; 1 is a stated spread

CELLS: list[Cell] = [
    *(
        (law, n, d, 1.0, DELTA, 1.0)
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
        (law, n, d, 1.0, DELTA, 4.0)
        for law, n, d in (
            ("normal", 20_000, 1),
            ("normal", 5000, 20),
            ("exponential factor", 5000, 20),
            ("exponential", 20_000, 1),
            ("Bernoulli(.02)", 20_000, 1),
        )
    ),
    ("normal", 20_000, 1, 1.0, 0.0, 1.0),
    ("Bernoulli(.02)", 20_000, 1, 1.0, 0.0, 1.0),
    # Fewer rows are far out than the noise of their count.
    ("Bernoulli(.01)", 900, 1, 2.0, DELTA, 1.0),
    ("Bernoulli(.01)", 900, 1, 2.0, DELTA, 4.0),
    ("1% contaminated", 900, 1, 2.0, DELTA, 4.0),
]


def rows_of(law: str, n: int, d: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return rows of mean 0 and variance 1."""
    if law == "exponential factor":
        common = rng.standard_exponential((n, 1)) - 1
        return np.sqrt(RHO) * common + np.sqrt(1 - RHO) * (rng.standard_exponential((n, d)) - 1)
    if law in ("Bernoulli(.001)", "Bernoulli(.01)"):
        p = float(law[10:-1])
        return ((rng.random((n, d)) < p) - p) / np.sqrt(p * (1 - p))
    return standard_rows(law, n, d, rng)


def block(cell: Cell, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return coverage and width of both intervals, and whether tails are refuted, for each of some datasets."""
    law, n, d, epsilon, delta, loose = cell
    spread = {"std": 1.0} if loose == 1 else {"std": "private", "std_bound": loose}
    estimator = AdaptiveMean(bounds=(-BOX, BOX), epsilon=epsilon, delta=delta, random_state=rng, **spread)
    found = []
    for _ in range(size):
        mean = rng.uniform(-BOX, BOX, d)
        fitted = estimator.fit(mean + rows_of(law, n, d, rng))
        row = [float(fitted.assumption_refuted_)]
        for estimand in ("population", "population" if fitted.assumption_refuted_ else "tails"):
            low, high = fitted.confidence_interval(estimand=estimand)
            width = np.median(high - low) * np.sqrt(n) / (2 * 1.959964)
            row += [np.mean((low <= mean) & (mean <= high)), width]
        found.append(row)
    return np.array(found)


def study(cells: list[Cell], replications: int, *, seed: int = 2026, jobs: int = 1) -> dict[Cell, NDArray[np.float64]]:
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
        f"{time.strftime('%Y-%m-%d')}, dpstats {dpstats.__version__}, numpy {np.__version__}; box "
        f"{BOX:g}, simulated noise; ± is one Monte Carlo standard error.",
        "",
        f"    {command}",
        "",
        'Default intervals assume the stated spread (or `std_bound`) only; `tails` are those of `estimand="tails"`, '
        "or the default ones where the count of clipped rows refutes the assumption.",
        "",
        "| rows | n | d | epsilon | delta | spread | coverage | width over non-private | coverage, tails "
        "| width, tails | refuted | rows that may go unnoticed | which may move a mean by (sd) | datasets |",
        "|---" * 14 + "|",
    ]
    for (law, n, d, epsilon, delta, loose), found in results.items():
        spread = {"std": 1.0} if loose == 1 else {"std": "private", "std_bound": loose}
        estimator = AdaptiveMean(bounds=(-BOX, BOX), epsilon=epsilon, delta=delta, **spread)
        screen = estimator.plan(n, d).screen
        assert screen is not None
        rows, shift = screen.unnoticed
        refuted, coverage, _, tails, _ = found.mean(axis=0)
        errors = found.std(axis=0) / np.sqrt(len(found))
        words = "stated" if loose == 1 else f"private, bound {loose:g}"
        lines.append(
            f"| {law} | {n:,} | {d} | {epsilon:g} | {delta:g} | {words} | {coverage:.3f} ± {errors[1]:.3f} | "
            f"{np.median(found[:, 2]):.2f} | {tails:.3f} ± {errors[3]:.3f} | {np.median(found[:, 4]):.2f} | "
            f"{refuted:.3f} | {rows} | {shift * loose:.2g} | {len(found)} |"
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
