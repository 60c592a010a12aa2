"""Groups that nobody declared: how many rows a group needs to be found, and coverage of intervals given that it was.

The first table compares with the most that a selection of added or removed rows can find (Desfontaines et al. 2022).
The second has groups of one size each. Noise is drawn from its distribution given that the group was found. So rare
cases have as many draws as others. The draws go through the code that reports a release.

    python validation/studies/found_keys.py
    python validation/studies/found_keys.py --draws 200 --no-write
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

import dpstats
from dpstats.groups import GroupMeans
from dpstats.groups.ratios import found_ratio
from dpstats.inference.noisy_counts import FoundCounts
from dpstats.means.ratio import COUNTS, FIRST, LAST, MIDDLE, SQUARES, SUMS
from dpstats.mechanisms import Histogram
from dpstats.privacy import Neighbors, PrivacyBudget

RESULTS = Path(__file__).resolve().parents[1] / "results" / "found_keys.md"
BUDGETS = ((0.2, 1e-6), (1.0, 1e-6), (1.0, 1e-9), (4.0, 1e-6))
SIZES = (5, 10, 20, 50, 200)
LEVEL = 0.95
ROWS = {
    "constant": (lambda rng, shape: np.full(shape, 0.9), 0.9),
    "skewed": (lambda rng, shape: 2 * rng.random(shape) ** 6 - 1, 2 / 7 - 1),
    "two values": (lambda rng, shape: np.where(rng.random(shape) < 0.05, 1.0, -1.0), -0.9),
}
"""Rows between -1 and 1, and their mean."""
GAUSSIAN = PrivacyBudget(10.0, 1e-3, method="gdp")
"""A budget that keeps Gaussian noise, as more columns do."""


def make_populations() -> dict[str, np.ndarray]:
    """Return the sizes of the groups of three populations."""
    rng = np.random.default_rng(0)

    def zipf(n: int, power: float) -> np.ndarray:
        weights = np.arange(1, max(n, 100_000) + 1) ** -power
        sizes = rng.multinomial(n, weights / weights.sum())
        return sizes[sizes > 0]

    return {
        "Zipf 1.07, 1,000,000 rows": zipf(1_000_000, 1.07),
        "Zipf 1.3, 10,000 rows": zipf(10_000, 1.3),
        "500 lognormal groups": np.maximum(1, rng.lognormal(3, 1.2, 500).astype(int)),
    }


def find_most(epsilon: float, delta: float, sizes: np.ndarray) -> float:
    """Return the largest expected number of groups that a selection of added or removed rows finds."""
    chances = [0.0]
    while chances[-1] < 1:
        p = chances[-1]
        chances.append(min(math.exp(epsilon) * p + delta, 1 - math.exp(-epsilon) * (1 - p - delta), 1.0))
    return float(np.array(chances)[np.minimum(sizes, len(chances) - 1)].sum())


def list_stages(epsilon: float, delta: float) -> dict[str, Any]:
    """Return the stages of the classes that discover, under both relations."""
    stages = {}
    for neighbors, words in zip(Neighbors, ("replaced", "added or removed"), strict=True):
        options: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "neighbors": neighbors}
        stages[f"`Histogram`, {words}"] = Histogram("discover", **options)._discovery
        stages[f"`GroupMeans`, {words}"] = make_plan(**options).discovery
        stages[f"`GroupMeans`, Gaussian, {words}"] = make_plan(**options, budget=GAUSSIAN).discovery
    return stages


def make_plan(**options: Any) -> Any:
    """Return the plan of means of one column between -1 and 1."""
    return GroupMeans(groups="discover", bounds=(-1, 1), **options).plan(10_000, 1)


def draw_counts(stage: Any, size: int, draws: int, rng: np.random.Generator) -> np.ndarray:
    """Return noisy counts of a group of this size, given that it was found."""
    grid = stage.threshold + np.linspace(-size, 0, 20_001)
    reached = stage.count_noise.mass(grid[0], grid)
    return size + np.interp(rng.random(draws) * reached[-1], reached, grid)


def draw_means(plan: Any, size: int, rows: Any, draws: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return released totals of groups of this size with these rows, given that each was found."""
    noise, drawn = plan.totals_noise, rows(rng, (draws, size))
    if plan.has_separate_counts:
        y = (1 + drawn) / 2
        shares = {FIRST: (1 - y) ** 2, MIDDLE: 2 * y * (1 - y), LAST: y**2}
        released = {name: share.sum(axis=1) + rng.laplace(0, noise.laplace, draws) for name, share in shares.items()}
        released[COUNTS] = draw_counts(plan.discovery, size, draws, rng)
        return {name: values[:, None] for name, values in released.items()} | {"labels": tuple(range(draws))}
    center = noise.square_spread / noise.count**2
    alone = math.sqrt(noise.square**2 - (center * noise.count) ** 2)
    released = {
        COUNTS: draw_counts(plan.discovery, size, draws, rng),
        SUMS: drawn.sum(axis=1) + rng.normal(0, noise.total, draws),
        SQUARES: (drawn**2 - center).sum(axis=1) + rng.normal(0, alone, draws),
    }
    return {name: values[:, None] for name, values in released.items()} | {"labels": tuple(range(draws))}


def measure_coverage(draws: int, seed: int = 2026) -> dict[str, list[float]]:
    """Return the coverage of intervals of sizes and of means: for each row of the table a number for each size."""
    rng, found = np.random.default_rng(seed), {}
    for name, stage in list_stages(1.0, 1e-6).items():
        found[f"sizes, {name}"] = cells = []
        for size in SIZES:
            counts = FoundCounts(draw_counts(stage, size, draws, rng), stage.count_noise, stage.threshold)
            low, high = counts.limits((1 - LEVEL) / 2)
            cells.append(float(((low <= size) & (size <= high)).mean()))
    z = norm.isf((1 - LEVEL) / 2)
    for neighbors, words in zip(Neighbors, ("replaced", "added or removed"), strict=True):
        for law, budget in (("", None), (", Gaussian", GAUSSIAN)):
            plan = make_plan(epsilon=1.0, delta=1e-6, neighbors=neighbors, budget=budget)
            for name, (rows, mean) in ROWS.items():
                found[f"means, {name}, `GroupMeans`{law}, {words}"] = [
                    float((np.abs(ratio.score(np.full(ratio.shape, mean))) <= z).mean())
                    for ratio in (found_ratio(draw_means(plan, size, rows, draws, rng), plan) for size in SIZES)
                ]
    return found


def as_markdown(draws: int, command: str) -> str:
    """Return the page of results."""
    populations = make_populations()
    lines = [
        "# Groups that nobody declared",
        "",
        f"{time.strftime('%Y-%m-%d')}, dpstats {dpstats.__version__}",
        "",
        f"    {command}",
        "",
        "## Rows that a group needs",
        "",
        "Sizes at which a group is found with probability 0.5 and 0.95. Behind them the expected number of groups that "
        "are found, over the most that any selection finds if a row is added or removed.",
        "",
        "| ε, δ | release | threshold | 0.5 | 0.95 | " + " | ".join(populations) + " |",
        "|---" * (5 + len(populations)) + "|",
    ]
    for epsilon, delta in BUDGETS:
        most = {name: find_most(epsilon, delta, sizes) for name, sizes in populations.items()}
        for name, stage in list_stages(epsilon, delta).items():
            half, sure = np.searchsorted(stage.compute_power(np.arange(1, 2000)), [0.5, 0.95]) + 1
            parts = [f"{stage.compute_power(sizes).sum() / most[key]:.2f}" for key, sizes in populations.items()]
            lines.append(
                f"| {epsilon:g}, {delta:g} | {name} | {stage.threshold:.1f} | {half} | {sure} | {' | '.join(parts)} |"
            )
    lines += [
        "",
        "## Coverage of 95% intervals, given that the group was found",
        "",
        f"{draws:,} draws a cell, at ε = 1 and δ = 1e-6: a coverage of 0.95 has a standard error of "
        f"{math.sqrt(0.05 * 0.95 / draws):.3f}.",
        "",
        "| intervals of | " + " | ".join(f"{size} rows" for size in SIZES) + " |",
        "|---" * (1 + len(SIZES)) + "|",
    ]
    lines += [
        f"| {name} | {' | '.join(f'{c:.3f}' for c in cells)} |" for name, cells in measure_coverage(draws).items()
    ]
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=4000)
    parser.add_argument("--no-write", action="store_true")
    options = parser.parse_args()
    text = as_markdown(options.draws, "python validation/studies/found_keys.py")
    print(text)
    if not options.no_write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
