"""Means of groups: coverage of their intervals and differences, the level of the analysis of variance, widths.

Released totals are drawn from their law, exact sums of drawn rows plus the plan's noise, many at once, and go through
the code that reports a fit. Of every group, and beside each other: K in {2, 8, 50}, equal sizes and sizes in proportion
to 1/k, three laws of rows. All groups have one mean, so that the analysis of variance is under its null hypothesis.

    python validation/studies/group_means.py
    python validation/studies/group_means.py --fast                  # fewer cells and runs, nothing written
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

VALIDATION = Path(__file__).resolve().parents[1]

import dpstats  # noqa: E402
from dpstats.groups import GroupMeans  # noqa: E402
from dpstats.groups import comparisons as anova  # noqa: E402
from dpstats.groups.ratios import GroupMeansPlan  # noqa: E402
from dpstats.means import ratio as contrasts  # noqa: E402
from dpstats.means.ratio import Ratio  # noqa: E402
from dpstats.parallel import run_blocks  # noqa: E402

Numbers = np.ndarray

RESULTS = VALIDATION / "results" / "group_means.md"
DELTA, Z = 1e-6, 1.959963984540054
COUNTS, SHAPES, SIZES, EPSILONS = (2, 8, 50), ("equal", "1/k"), (500, 5000, 50_000), (0.2, 1.0)
RUNS, SIMULATIONS = 2000, 199
_BLOCK = 1 << 22  # rows drawn at once


class Law(NamedTuple):
    """A law of rows: public bounds, draws, and what it is about once clipped."""

    bounds: tuple[float, float]
    draw: Callable[[np.random.Generator, tuple[int, ...]], Numbers]
    mean: float
    std: float


LAWS = {
    "normal": Law((-4.0, 4.0), lambda rng, shape: rng.standard_normal(shape), 0.0, 1.0),
    "exponential": Law((0.0, 8.0), lambda rng, shape: rng.standard_exponential(shape), 1 - math.exp(-8), 1.0),
    "Bernoulli(.1)": Law((0.0, 1.0), lambda rng, shape: (rng.random(shape) < 0.1).astype(float), 0.1, 0.3),
}


def sizes_of(K: int, shape: str, n: int) -> Numbers:
    """Return the sizes of the groups, the largest first."""
    shares = np.ones(K) if shape == "equal" else 1 / np.arange(1, K + 1)
    ends = np.rint(np.cumsum(shares) / shares.sum() * n).astype(int)
    return np.diff(ends, prepend=0)


def exact_totals(law: Law, sizes: Numbers, runs: int, rng: np.random.Generator) -> tuple[Numbers, Numbers]:
    """Return the sums of z and of z^2 of every group, in half-widths of the bounds: shape (runs, K)."""
    low, high = law.bounds
    n, starts = int(sizes.sum()), np.concatenate([[0], np.cumsum(sizes)[:-1]])
    first, second = [], []
    step = max(1, _BLOCK // n)
    for done in range(0, runs, step):
        rows = law.draw(rng, (min(step, runs - done), n))
        z = np.clip((rows - (low + high) / 2) / ((high - low) / 2), -1.0, 1.0)
        first.append(np.add.reduceat(z, starts, axis=1))
        second.append(np.add.reduceat(z * z, starts, axis=1))
    return np.concatenate(first), np.concatenate(second)


def released(plan: GroupMeansPlan, sizes: Numbers, sums: Numbers, squares: Numbers, rng: np.random.Generator) -> Ratio:
    """Return what a report knows of many releases: shape (runs, K, 1)."""
    noise = plan.totals_noise
    T, Q = sums[..., None], squares[..., None]
    off_T, off_N, off_Q = anova.draw(noise, T.shape, rng)
    T, N = T + off_T, sizes[:, None] + off_N
    return Ratio(T, N, Q + off_Q, T, N, noise)


class Found(NamedTuple):
    """Of a cell: shares over runs, and widths over those of intervals without privacy."""

    means: float
    least: float
    smallest: float
    differences: float
    level: float
    largest_width: float
    smallest_width: float


Key = tuple[int, str, str, int, float]  # K, sizes, law, n, epsilon


def cell(
    K: int,
    shape: str,
    name: str,
    n: int,
    epsilons: tuple[float, ...],
    runs: int,
    delta: float,
    rng: np.random.Generator,
) -> dict[Key, Found]:
    """Return what is measured of a law and sizes, for all epsilons."""
    law, sizes = LAWS[name], sizes_of(K, shape, n)
    sums, squares = exact_totals(law, sizes, runs, rng)
    low, high = law.bounds
    truth = (law.mean - (low + high) / 2) / ((high - low) / 2)
    found = {}
    for epsilon in epsilons:
        made = GroupMeans(groups=range(K), bounds=law.bounds, epsilon=epsilon, delta=delta)
        ratio = released(made.plan(n, 1), sizes, sums, squares, rng)
        a, b = ratio.ends(np.array(Z))
        covered = ((a <= truth) & (truth <= b))[..., 0].mean(axis=0)
        widths = np.median((b - a)[..., 0], axis=0) * (high - low) / 2
        plain = 2 * Z * law.std / np.sqrt(sizes)
        pairs = [(0, 1), (0, K - 1), (K - 2, K - 1)]
        apart = [contrasts.apart(ratio[:, i], ratio[:, j], Z) for i, j in pairs]
        differ = float(np.mean([(low <= 0) & (high >= 0) for low, high in apart]))
        found[K, shape, name, n, epsilon] = Found(
            float(covered.mean()),
            float(covered.min()),
            float(covered[-1]),
            differ,
            level(ratio, rng),
            float(widths[0] / plain[0]),
            float(widths[-1] / plain[-1]),
        )
    return found


def level(ratio: Ratio, rng: np.random.Generator) -> float:
    """Return how often the analysis of variance rejects at .05."""
    rejected = 0
    for run in range(len(ratio.T)):
        one = ratio[run]
        larger = (anova.null_statistics(one, SIMULATIONS, rng) >= anova.wald_statistic(one)[0]).sum()
        rejected += int((1 + larger) / (1 + SIMULATIONS) <= 0.05)
    return rejected / len(ratio.T)


Task = tuple[int, str, str, int]


def block(
    task: Task, epsilons: tuple[float, ...], runs: int, delta: float, rng: np.random.Generator
) -> dict[Key, Found]:
    """Return the cells of a task."""
    return cell(*task, epsilons, runs, delta, rng)


def tasks(counts: tuple[int, ...], sizes: tuple[int, ...]) -> Iterator[Task]:
    """Yield all laws, shapes and sizes."""
    return ((K, shape, law, n) for law in LAWS for K in counts for shape in SHAPES if K > 1 for n in sizes)


def study(
    counts: tuple[int, ...] = COUNTS,
    sizes: tuple[int, ...] = SIZES,
    epsilons: tuple[float, ...] = EPSILONS,
    runs: int = RUNS,
    delta: float = DELTA,
    jobs: int = 1,
    seed: int = 1,
) -> dict[Key, Found]:
    """Return all cells."""
    found: dict[Key, Found] = {}
    work = [(task, epsilons, runs, delta) for task in tasks(counts, sizes)]
    for part in run_blocks(block, work, random_state=seed, n_jobs=jobs, description="cells"):
        found |= part
    return found


def as_markdown(cells: dict[Key, Found], runs: int, delta: float, command: str) -> str:
    """Return the report."""
    error = math.sqrt(0.05 * 0.95 / runs)
    lines = [
        "# Means of groups: 95% intervals, and the analysis of variance at .05",
        "",
        f"{time.strftime('%Y-%m-%d')}, dpstats {dpstats.__version__}, numpy {np.__version__}; simulated noise, "
        f"delta = {delta:g}, {runs:,} runs a cell: one Monte Carlo standard error is {error:.4f} for a single group or "
        "a level. Coverage is of all groups' means, of the group that is covered least, of the smallest group, and of "
        "differences (two largest, largest and smallest, two smallest). Widths are over those of intervals without "
        "privacy from the same numbers of rows, of the largest and of the smallest group.",
        "",
        f"    {command}",
        "",
        "| rows | K | sizes | n | epsilon | means | least | smallest | differences | ANOVA level | width, largest "
        "| smallest |",
        "|---" * 12 + "|",
    ]
    for (K, shape, law, n, epsilon), f in cells.items():
        lines.append(
            f"| {law} | {K} | {shape} | {n:,} | {epsilon:g} | {f.means:.3f} | {f.least:.3f} | {f.smallest:.3f} | "
            f"{f.differences:.3f} | {f.level:.3f} | {f.largest_width:.2f} | {f.smallest_width:.3g} |"
        )
    means, levels = [f.means for f in cells.values()], [f.level for f in cells.values()]
    differences, least = [f.differences for f in cells.values()], min(f.least for f in cells.values())
    lines += [
        "",
        f"Over cells: means {min(means):.3f} to {max(means):.3f}, least group {least:.3f}, "
        f"differences {min(differences):.3f} to {max(differences):.3f}, level {min(levels):.3f} to {max(levels):.3f}.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--delta", type=float, default=DELTA)
    parser.add_argument("--counts", type=int, nargs="*", default=COUNTS)
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--epsilons", type=float, nargs="*", default=EPSILONS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--fast", action="store_true", help="few cells and runs; writes nothing")
    parser.add_argument("--no-write", action="store_true")
    given = parser.parse_args()
    if given.fast:
        given.counts, given.sizes, given.runs, given.no_write = (2, 8), (500, 5000), 200, True
    cells = study(
        tuple(given.counts), tuple(given.sizes), tuple(given.epsilons), given.runs, given.delta, given.jobs, given.seed
    )
    command = " ".join(["python validation/studies/group_means.py", *sys.argv[1:]])
    report = as_markdown(cells, given.runs, given.delta, command)
    print(report)
    if not given.no_write:
        RESULTS.write_text(report, encoding="utf-8")


if __name__ == "__main__":
    main()
