"""Medians and other quantiles of groups: coverage of intervals and of differences, and their lengths.

Lengths are medians over the lengths without privacy, by order statistics. The last column is the fraction of releases
whose summary warns of few rows.

    python validation/studies/group_quantiles.py
    python validation/studies/group_quantiles.py --replications 20 --no-write
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from study_page import write_page

import dpstats
from dpstats.groups import GroupQuantiles

RESULTS = Path(__file__).resolve().parents[1] / "results" / "group_quantiles.md"
BOUNDS = (0.0, 1000.0)
LAWS: dict[str, tuple[Any, float | None]] = {
    "lognormal": (stats.lognorm(1), None),
    "exponential": (stats.expon(scale=10), None),
    "t, 2 degrees of freedom": (stats.t(2, loc=500), None),
    "Poisson(4)": (stats.poisson(4), 1.0),
    "lognormal(0, 2)": (stats.lognorm(2), None),
}
SIZES = ((300, 300), (1000, 300), (3000, 3000))
CASES = ((0.5, 0.5), (0.5, 1.0), (0.5, 4.0), (0.9, 1.0), (0.25, 1.0))


class Found(NamedTuple):
    """What a cell shows: rates of coverage, lengths over those without privacy, and how often there is no estimate."""

    groups: float
    difference: float
    length: float
    missing: float
    warned: float


def without_privacy(x: np.ndarray, q: float) -> float:
    """Return the length of the interval of order statistics."""
    ranks = stats.binom.ppf([0.025, 0.975], x.size, q).astype(int)
    low, high = np.sort(x)[np.clip(ranks, 0, x.size - 1)]
    return float(high - low)


def cell(law: str, sizes: tuple[int, int], q: float, epsilon: float, count: int, seed: int) -> Found:
    """Return what many releases of two groups show: the second one has twice the values of the first."""
    rng = np.random.default_rng((seed, *law.encode(), *sizes, round(100 * q), round(100 * epsilon)))
    shape, step = LAWS[law]
    factors = np.array([1.0, 1.0 if step else 1.7])
    truth, labels = shape.ppf(q) * factors, np.repeat([0, 1], sizes)
    hits, both, missing, warned, lengths = 0, 0, 0, 0, []
    for _ in range(count):
        x = shape.rvs(labels.size, random_state=rng) * factors[labels]
        model = GroupQuantiles(q=q, groups=[0, 1], bounds=BOUNDS, step=step, epsilon=epsilon, random_state=rng).fit(
            x, labels
        )
        hits += int(np.count_nonzero((model.low_ <= truth) & (truth <= model.high_)))
        low, high = model.difference(0, 1).confidence_interval()
        both += bool(low[0] <= truth[0] - truth[1] <= high[0])
        missing += int(np.isnan(model.quantile_).sum())
        warned += any("Few rows" in note or "Too few" in note for note in model.estimates().notes)
        plain = max(without_privacy(x[labels == 0], q), step or 1e-9)
        lengths.append((model.high_[0] - model.low_[0] + (step or 0.0)) / (plain + (step or 0.0)))
    return Found(hits / 2 / count, both / count, float(np.median(lengths)), missing / 2 / count, warned / count)


def report(count: int, seed: int, laws: Sequence[str] = tuple(LAWS)) -> str:
    """Return the page."""
    error = np.sqrt(0.05 * 0.95 / count)
    lines = [
        "# Quantiles of groups: coverage",
        "",
        f"{time.strftime('%Y-%m-%d')}, dpstats {dpstats.__version__}, numpy {np.__version__}; simulated noise; {count} "
        f"releases a cell.",
        "",
        f"    python validation/studies/group_quantiles.py --replications {count} --seed {seed}",
        "",
        "Two groups, intervals of level 0.95 (one standard error of a coverage of 0.95: "
        f"{error:.4f} for the difference, {error / np.sqrt(2):.4f} for both groups). Length: of the first group's "
        "interval, over the one without privacy, in the median. No estimate: how often a group has too few rows for "
        "one; a limit is then a bound. Warned: how often the summary says so, or that coverage may be below the level.",
        "",
        "| rows | sizes | q | epsilon | coverage | of the difference | length | no estimate | warned |",
        "|---" * 9 + "|",
    ]
    for law in laws:
        for sizes in SIZES:
            for q, epsilon in CASES:
                found = cell(law, sizes, q, epsilon, count, seed)
                length = f"{found.length:.2f}" if found.missing < 0.5 else ""
                lines.append(
                    f"| {law} | {sizes[0]:,}, {sizes[1]:,} | {q:g} | {epsilon:g} | {found.groups:.3f} | "
                    f"{found.difference:.3f} | {length} | {found.missing:.2f} | {found.warned:.2f} |"
                )
                print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    write_page(report, RESULTS, replications=1000, seed=2026)
