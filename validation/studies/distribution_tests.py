"""Private tests of distributions: level with ties and unequal private groups, and power beside scipy's.

Levels are of tests at .05. Datasets are arranged, measured and given noise by the code of a fit. Reading and charging
are left out. A detectable shift is the one that a test finds with probability .8, by a probit line through the powers.

    python validation/studies/distribution_tests.py
    python validation/studies/distribution_tests.py --replications 100 --no-write
"""

from __future__ import annotations

import itertools
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from study_page import write_page

import dpstats
from dpstats.ranks import GoodnessOfFitTest, KolmogorovSmirnovTest

RESULTS = Path(__file__).resolve().parents[1] / "results" / "distribution_tests.md"
LEVEL, KINDS = 0.05, ("ks", "kuiper", "cvm")
Floats = NDArray[np.float64]

LAWS: dict[str, Any] = {"normal": stats.norm(0, 1), "Poisson(2)": stats.poisson(2), "1 in 20": stats.bernoulli(0.05)}
TWO_CELLS = [
    *itertools.product((1000,), (0.2, 1.0), (0.5, 0.2, 0.05), LAWS),
    *itertools.product((100,), (0.2, 1.0), (0.5, 0.2), ("normal", "Poisson(2)")),
    *itertools.product((10,), (1.0, 20.0), (0.5,), ("Poisson(2)",)),
    *itertools.product((5000,), (0.2, 1.0), (0.5, 0.1), ("normal",)),
]
"""Rows, epsilon, share of the first group, law."""
ONE_CELLS = [*itertools.product((20, 1000), (0.2, 1.0), LAWS), (5000, 1.0, "normal")]
SHIFTS = (0.14, 0.17, 0.2, 0.23, 0.26, 0.3, 0.35, 0.4)
SCALES = (0.12, 0.16, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5)


def level_of_two(kind: str, n: int, epsilon: float, share: float, law: str, replications: int, seed: int) -> float:
    """Return how often a test of two samples from one law rejects."""
    rng = np.random.default_rng([seed, n, round(100 * epsilon), round(100 * share), list(LAWS).index(law)])
    test = KolmogorovSmirnovTest(groups=[0, 1], statistic=kind, epsilon=epsilon)
    plan = test.plan(n)

    def draw(rows: int, _: Any, rng: np.random.Generator) -> tuple[Floats, Any]:
        # Sorted by group, so that an order of the file instead of a random one would show.
        values = LAWS[law].rvs(rows, random_state=rng).astype(np.float64)
        return values, np.sort((rng.random(rows) >= share).astype(np.int64))

    return float(np.mean([test._reject(draw, plan, LEVEL, rng) for _ in range(replications)]))


def level_of_one(kind: str, n: int, epsilon: float, law: str, replications: int, seed: int) -> float:
    """Return how often a test of rows from their own law rejects."""
    rng = np.random.default_rng([seed, n, round(100 * epsilon), list(LAWS).index(law), 1])
    test = GoodnessOfFitTest(distribution=LAWS[law], statistic=kind, epsilon=epsilon)
    plan = test.plan(n)

    def draw(rows: int, _: Any, rng: np.random.Generator) -> Floats:
        return np.asarray(LAWS[law].rvs(rows, random_state=rng), dtype=np.float64)

    return float(np.mean([test._reject(draw, plan, LEVEL, rng) for _ in range(replications)]))


@cache
def kuiper_cutoff(n: int) -> float:
    """Return the cutoff of Kuiper's statistic of two equal samples, by random orders; scipy has none."""
    rng = np.random.default_rng(1)
    steps = rng.permuted(np.tile(np.repeat([0.5, -0.5], n // 2), (4000, 1)), axis=1).cumsum(1)
    return float(np.quantile(np.maximum(steps.max(1), 0) - np.minimum(steps.min(1), 0), 1 - LEVEL))


def plain_rejections(x: Floats, y: Floats, cutoff: float) -> list[bool]:
    """Return whether the tests without privacy reject, in the order of KINDS."""
    order = np.argsort(np.concatenate([x, y]), kind="stable")
    path = np.where(order < x.size, 0.5, -0.5).cumsum()
    return [
        stats.ks_2samp(x, y, method="asymp").pvalue <= LEVEL,
        max(path.max(), 0) - min(path.min(), 0) > cutoff,
        stats.cramervonmises_2samp(x, y, method="asymptotic").pvalue <= LEVEL,
    ]


def powers(change: str, size: float, sizes: tuple[int, int], replications: int, seed: int) -> NDArray[Any]:
    """Return the powers at epsilon 1 and 0.2, and without privacy: of shape (3, kinds)."""
    n = sum(sizes)
    rng = np.random.default_rng([seed, round(1000 * size), change == "scale", n, sizes[0]])
    tests = [
        KolmogorovSmirnovTest(groups=[0, 1], statistic=kind, epsilon=epsilon)
        for epsilon in (1.0, 0.2)
        for kind in KINDS
    ]
    plans, cutoff, found = [test.plan(n) for test in tests], kuiper_cutoff(n), np.zeros((3, len(KINDS)))
    labels = np.repeat([0, 1], sizes)
    for _ in range(replications):
        x = rng.normal(size=n)
        x[labels == 0] = x[labels == 0] * np.exp(size) if change == "scale" else x[labels == 0] + size
        private = [
            test._reject(lambda *_, x=x: (x, labels), plan, LEVEL, rng) for test, plan in zip(tests, plans, strict=True)
        ]
        found += np.reshape([*private, *plain_rejections(x[labels == 0], x[labels == 1], cutoff)], (3, -1))
    return found / replications


def detectable(sizes: tuple[float, ...], rates: Floats, power: float = 0.8) -> float:
    """Return where a probit line through powers has a value."""
    kept = (rates > 0.02) & (rates < 0.995)
    slope, start = np.polyfit(np.asarray(sizes)[kept], stats.norm.ppf(rates[kept]), 1)
    return float((stats.norm.ppf(power) - start) / slope)


def as_markdown(replications: int, seed: int, command: str) -> str:
    """Return the report."""
    two = [(*cell, *(level_of_two(kind, *cell, replications, seed) for kind in KINDS)) for cell in TWO_CELLS]
    one = [(*cell, *(level_of_one(kind, *cell, replications, seed) for kind in KINDS)) for cell in ONE_CELLS]
    few = max(replications * 3 // 4, 1)
    tables = {
        ("shift", (500, 500)): (SHIFTS, [powers("shift", s, (500, 500), few, seed) for s in SHIFTS]),
        ("scale", (500, 500)): (SCALES, [powers("scale", s, (500, 500), few, seed) for s in SCALES]),
        ("shift", (200, 800)): (SHIFTS[2:], [powers("shift", s, (200, 800), few, seed) for s in SHIFTS[2:]]),
    }
    levels = np.array([row[-3:] for row in two + one])
    pooled = [
        *(
            (f"{share:g} of 1,000 rows in the first group, epsilon = {epsilon:g}", rates)
            for epsilon, share in itertools.product((0.2, 1.0), (0.5, 0.2, 0.05))
            for rates in [[row[-3:] for row in two if row[:3] == (1000, epsilon, share)]]
        ),
        ("one sample, continuous", [row[-3:] for row in one if row[2] == "normal"]),
        ("one sample, discrete", [row[-3:] for row in one if row[2] != "normal"]),
    ]
    error = (LEVEL * (1 - LEVEL) / replications) ** 0.5
    lines = [
        "# Private tests of distributions",
        "",
        f"{time.strftime('%Y-%m-%d')}, dpstats {dpstats.__version__}, numpy {np.__version__}; simulated noise; "
        f"{replications} datasets a level, {few} a power, 9999 simulations of the null distribution.",
        "",
        f"    {command}",
        "",
        "## Detectable differences: power 0.8 at level .05",
        "",
        "Of two normal groups with private labels: a shift in standard deviations, or the logarithm of a ratio of "
        "scales. Ratios are to the same test without privacy (scipy's; Kuiper's by random orders).",
        "",
        "| change | groups | test | without privacy | epsilon = 1 | ratio | epsilon = 0.2 | ratio |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (change, sizes), (at, found) in tables.items():
        rates = np.array(found)
        for j, kind in enumerate(KINDS):
            if sizes[0] != sizes[1] and kind == "kuiper":
                continue  # its cutoff without privacy is of equal groups
            one_, fifth, plain = (detectable(at, rates[:, i, j]) for i in range(3))
            numbers = f"{plain:.3f} | {one_:.3f} | {one_ / plain:.2f} | {fifth:.3f} | {fifth / plain:.2f}"
            lines.append(f"| {change} | {sizes[0]} + {sizes[1]} | {kind} | {numbers} |")
    lines += [
        "",
        f"## Level of tests at .05 (one standard error: {error:.4f})",
        "",
        f"From {levels.min():.3f} to {levels.max():.3f}, mean {levels.mean():.4f}; {int((levels > 0.055).sum())} of "
        f"{levels.size} above 0.055.",
        "",
        *(f"* {words}: mean {np.mean(rates):.4f} of {np.size(rates)} levels." for words, rates in pooled),
        "",
        "Two samples with private labels, in files sorted by group:",
        "",
        "| n | epsilon | share of the first group | values | ks | kuiper | cvm |",
        "|---|---|---|---|---|---|---|",
        *("| " + " | ".join([*map(str, row[:4]), *(f"{rate:.3f}" for rate in row[4:])]) + " |" for row in two),
        "",
        "One sample and its own distribution:",
        "",
        "| n | epsilon | values | ks | kuiper | cvm |",
        "|---|---|---|---|---|---|",
        *("| " + " | ".join([*map(str, row[:3]), *(f"{rate:.3f}" for rate in row[3:])]) + " |" for row in one),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    write_page(as_markdown, RESULTS, replications=400, seed=2026)
