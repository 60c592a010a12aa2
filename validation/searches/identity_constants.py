"""Where the row distance's public constants come from: its critical distance for several of them, on simulated rows.

rho = p sqrt(d) and a0 = q sqrt(n d), in standard units; the test uses p = 1 and its SLACK for q. All constants see
the same datasets, so that differences in a row of the table are much surer than the figures themselves. Nothing
private is used: any public constants are private.

    python validation/searches/identity_constants.py             # four minutes on 2 cores
    python validation/searches/identity_constants.py --part 0.05 --no-write
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from pathlib import Path

import joblib
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "studies"))
from identity_power import EPSILONS, LEVEL, POWER, critical_ratio, nonprivate

import dpstats
from dpstats.identity.by_row_distance import SLACK
from dpstats.identity.row_distance_statistic import (
    approximate_null_f0,
    distance_of_row_sums,
    normal_clipped_square,
    round_to_steps,
    row_sums,
)
from dpstats.identity.whitening import unit_vector
from dpstats.parallel import cut

RESULTS = Path(__file__).resolve().parents[1] / "results" / "identity_constants.md"
# Rows, columns, datasets.
SIZES = ((500, 1, 3000), (500, 5, 2000), (500, 20, 2000), (2000, 20, 400), (1000, 100, 600), (4000, 400, 40))
RHO = (0.8, 1.0, 1.3)
A0 = (1.0, 1.2, 1.4, 1.6, 1.8)
RATIOS = (0.9, 1.0, 1.06, 1.12, 1.2, 1.3, 1.5, 1.75, 2.0, 2.3, 2.65, 3.0, 3.5)
SQUARE = 64  # steps squared in a variance


def distances(n: int, d: int, size: int, seed: np.random.SeedSequence) -> np.ndarray:
    """Return row distances (size, 1 + ratios, rho, a0) of rows that differ in their mean only; the first is 0."""
    rng = np.random.default_rng(seed)
    shifts = [ratio * nonprivate(n, d) * unit_vector("dense", d) for ratio in (0.0, *RATIOS)]
    found = np.empty((size, len(shifts), len(RHO), len(A0)), dtype=np.int64)
    for i in range(size):
        Z = rng.standard_normal((n, d), dtype=np.float32)
        for j, shift in enumerate(shifts):
            steps = round_to_steps((Z + shift).astype(np.float32))
            for k, p in enumerate(RHO):
                rho = round(p * SQUARE * d**0.5)
                sums = row_sums(steps, rho, threads=1)
                for m, q in enumerate(A0):
                    a0 = round(q * SQUARE * (n * d) ** 0.5)
                    tau0 = approximate_null_f0(n, a0, normal_clipped_square(d, rho, SQUARE))
                    found[i, j, k, m] = distance_of_row_sums(sums, rho, a0, tau0)
    return found


def study(part: float, jobs: int, sizes=SIZES, seed: int = 2026) -> dict[tuple[int, int], np.ndarray]:
    """Return the critical ratios of every size, of shape (epsilons, rho, a0)."""
    work = []
    for index, (n, d, datasets) in enumerate(sizes):
        blocks = cut(max(round(part * datasets), 10), 10)
        seeds = np.random.SeedSequence([seed, index]).spawn(len(blocks))
        work += [(index, n, d, block, s) for block, s in zip(blocks, seeds, strict=True)]
    order = sorted(work, key=lambda item: -(item[1] ** 2) * item[2])
    drawn = joblib.Parallel(n_jobs=jobs, verbose=1)(joblib.delayed(distances)(*item[1:]) for item in order)
    table = {}
    for index, (n, d, _) in enumerate(sizes):
        D = np.concatenate([found for item, found in zip(order, drawn, strict=True) if item[0] == index])
        table[n, d] = np.empty((len(EPSILONS), len(RHO), len(A0)))
        for e, k, m in np.ndindex(table[n, d].shape):
            alternatives = {ratio: D[:, 1 + j, k, m].astype(float) for j, ratio in enumerate(RATIOS)}
            table[n, d][e, k, m] = critical_ratio(D[:, 0, k, m].astype(float), alternatives, 1 / EPSILONS[e])
    return table


def as_markdown(table: dict[tuple[int, int], np.ndarray], sizes, part: float, seconds: float) -> str:
    """Return the tables with the command that made them."""
    counts = ", ".join(f"{max(round(part * datasets), 10)} at ({n}, {d})" for n, d, datasets in sizes)
    lines = [
        "# Constants of the row distance",
        "",
        f"{time.strftime('%Y-%m-%d')}, dpstats {dpstats.__version__}; {seconds / 60:.0f} minutes.",
        "",
        "    python validation/searches/identity_constants.py" + (f" --part {part:g}" if part != 1 else ""),
        "",
        f"Critical distance (power {POWER:g}, level {LEVEL:g}, dense) over the non-private chi-square test's, for rho "
        f"= p sqrt(d) and a0 = q sqrt(n d) in standard units. The test uses p = 1, q = {SLACK:g}. All columns of a "
        f"line share their datasets: {counts}. Differences in a line are surer than its figures, which move by about "
        ".02 between seeds at (500, 20), and more where datasets are few.",
        "",
        "| n | d | epsilon | " + " | ".join(f"{p:g}, {q:g}" for p, q in itertools.product(RHO, A0)) + " |",
        "|---|---|---|" + "---|" * (len(RHO) * len(A0)),
    ]
    for (n, d), ratios in table.items():
        for epsilon, row in zip(EPSILONS, ratios.reshape(len(EPSILONS), -1), strict=True):
            cells = " | ".join(f"{r:.3f}" if np.isfinite(r) else f"> {RATIOS[-1]:g}" for r in row)
            lines.append(f"| {n} | {d} | {epsilon:g} | {cells} |")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", type=float, default=1.0, help="of the datasets")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--no-write", action="store_true")
    options = parser.parse_args()
    start = time.perf_counter()
    text = as_markdown(study(options.part, options.jobs), SIZES, options.part, time.perf_counter() - start)
    print(text)
    if not options.no_write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
