"""Private rank tests: level at every share of the groups, without and with ties, and power beside scipy's.

Levels are of tests at .05. Values are exponential; with ties they are rounded down to multiples of one half. With
private sizes p-values are the largest over sizes, so that levels at other shares are what this study is for.

    python validation/studies/ranks.py
    python validation/studies/ranks.py --replications 100 --no-write
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from study_page import write_page

import dpstats
from dpstats.ranks import KruskalWallisTest, MannWhitneyTest, SignedRankTest

RESULTS = Path(__file__).resolve().parents[1] / "results" / "ranks.md"
LEVEL, SIMULATIONS = 0.05, 9999
SIZES, EPSILONS, SHARES = (30, 100, 1000), (0.1, 1.0), (0.1, 0.3, 0.5)
Floats = NDArray[np.float64]
Plain = Callable[[Floats, Any], float]


def signed_rows(n: int, share: float, shift: float, ties: bool, rng: np.random.Generator) -> tuple[Floats, Any]:
    """Return differences; ``share`` of them are 0 where there are ties."""
    x = rng.standard_t(3, n) + shift
    return (np.where(rng.random(n) < share, 0.0, np.round(x)), None) if ties else (x, None)


def grouped_rows(
    groups: int, n: int, share: float, shift: float, ties: bool, rng: np.random.Generator
) -> tuple[Floats, Any]:
    """Return values and labels: the first group has a share of the rows, the others the rest alike."""
    labels = rng.choice(groups, size=n, p=[share, *[(1 - share) / (groups - 1)] * (groups - 1)])
    x = rng.exponential(size=n) + shift * (labels == 0)
    return (np.floor(2 * x) / 2 if ties else x), labels


def plain_signed(x: Floats, labels: Any) -> float:
    return float(stats.wilcoxon(x, zero_method="pratt", method="approx").pvalue)


def plain_two(x: Floats, labels: Any) -> float:
    return float(stats.mannwhitneyu(x[labels == 0], x[labels == 1]).pvalue)


def plain_three(x: Floats, labels: Any) -> float:
    return float(stats.kruskal(*(x[labels == group] for group in range(3))).pvalue)


FAMILIES: dict[str, tuple[Any, Callable[..., tuple[Floats, Any]], Plain]] = {
    "signed rank": (SignedRankTest, signed_rows, plain_signed),
    "Mann-Whitney": (
        lambda **given: MannWhitneyTest(groups=[0, 1], **given),
        lambda *given: grouped_rows(2, *given),
        plain_two,
    ),
    "Kruskal-Wallis": (
        lambda **given: KruskalWallisTest(groups=[0, 1, 2], **given),
        lambda *given: grouped_rows(3, *given),
        plain_three,
    ),
}


def rate(
    name: str, n: int, epsilon: float, share: float, shift: float, ties: bool, replications: int, seed: int
) -> tuple[float, float]:
    """Return how often the private test and scipy's reject."""
    build, rows, plain = FAMILIES[name]
    # Every cell has draws of its own.
    cell = [sorted(FAMILIES).index(name), n, round(1000 * epsilon), round(1000 * share), round(1000 * shift), ties]
    rng = np.random.default_rng([seed, *cell])
    made = build(epsilon=epsilon, n_simulations=SIMULATIONS, random_state=rng)
    found = []
    for _ in range(replications):
        x, labels = rows(n, share, shift, ties, rng)
        private = made.fit(x) if labels is None else made.fit(x, labels)
        empty = labels is not None and np.unique(labels).size < len(made.groups)
        found.append((private.pvalue_ <= LEVEL, False if empty else plain(x, labels) <= LEVEL))
    return tuple(np.mean(found, axis=0).tolist())  # type: ignore[return-value]


SIZE_CELLS = (
    (100, 1.0, 0.5, 0.65),
    (200, 0.5, 0.5, 0.5),
    (500, 0.2, 0.5, 0.38),
    (1000, 0.1, 0.5, 0.33),
    (2000, 0.05, 0.5, 0.31),
    (500, 0.1, 0.5, 0.8),
    (1000, 1.0, 0.5, 0.18),
    (100, 1.0, 0.3, 0.78),
    (500, 0.2, 0.3, 0.55),
    (1000, 0.1, 0.3, 0.51),
    (1000, 1.0, 0.3, 0.2),
    (100, 1.0, 0.1, 1.7),
    (1000, 0.1, 0.1, 1.4),
    (1000, 1.0, 0.1, 0.33),
    (50, 4.0, 0.1, 1.75),
    (300, 1.0, 0.05, 0.95),
    (300, 1.0, 0.1, 0.62),
    (300, 1.0, 0.2, 0.48),
    (1000, 0.3, 0.1, 0.5),
    (1000, 1.0, 0.05, 0.42),
    (5000, 0.1, 0.1, 0.29),
    (5000, 1.0, 0.05, 0.18),
)
"""Sizes, epsilons, shares of the first group and shifts. In most the power with public sizes is about 0.8."""


def size_powers(
    n: int, epsilon: float, share: float, shift: float, replications: int, seed: int
) -> tuple[float, float, float, float]:
    """Return the powers with private sizes, with an expected fraction, with public sizes, and without privacy."""
    rng = np.random.default_rng([seed, n, round(1000 * epsilon), round(100 * share), 77])
    given = {"groups": [0, 1], "epsilon": epsilon, "n_simulations": SIMULATIONS, "random_state": rng}
    sizes = [round(share * n), n - round(share * n)]
    options: tuple[dict[str, Any], ...] = {}, {"smaller_fraction": share}, {"sizes": sizes}
    tests = [MannWhitneyTest(**given, **each) for each in options]
    found = np.zeros(4)
    for _ in range(replications):
        labels = rng.permutation(np.repeat([0, 1], sizes))
        x = rng.normal(size=n) + shift * labels
        found += [*(test.fit(x, labels).pvalue_ <= LEVEL for test in tests), plain_two(x, labels) <= LEVEL]
    return tuple((found / replications).tolist())  # type: ignore[return-value]


def as_markdown(replications: int, seed: int, command: str) -> str:
    """Return the report."""
    error = np.sqrt(LEVEL * (1 - LEVEL) / replications)
    levels, powers = [], []
    for name, n, epsilon, share, ties in itertools.product(FAMILIES, SIZES, EPSILONS, SHARES, (False, True)):
        if name == "signed rank" and not ties and share != SHARES[0]:
            continue  # without ties there is no share
        own, _ = rate(name, n, epsilon, share, 0.0, ties, replications, seed)
        levels.append((name, n, epsilon, share, ties, own))
    for name, n, epsilon in itertools.product(FAMILIES, SIZES, EPSILONS):
        shift = {30: 1.0, 100: 0.6, 1000: 0.2}[n]
        powers.append((name, n, epsilon, shift, *rate(name, n, epsilon, 0.5, shift, False, replications, seed)))
    sharp = [row for row in levels if not row[4] and (row[0] == "signed rank" or row[3] == SHARES[-1])]
    # Three groups are equal at none of the shares.
    exact = [row[-1] for row in sharp if row[0] != "Kruskal-Wallis"]
    lines = [
        "# Private rank tests",
        "",
        f"{time.strftime('%Y-%m-%d')}, dpstats {dpstats.__version__}, numpy {np.__version__}; simulated noise; "
        f"{replications} datasets a cell, {SIMULATIONS} simulations of the null distribution.",
        "",
        f"    {command}",
        "",
        f"## Level of tests at .05 (one standard error: {error:.4f})",
        "",
        f"From {min(row[-1] for row in levels):.3f} to {max(row[-1] for row in levels):.3f}; where nothing makes a "
        f"test conservative (no ties; equal groups or one sample) from {min(exact):.3f} to {max(exact):.3f}.",
        "",
        "| test | n | epsilon | share of the first group (of zeros) | ties | level |",
        "|---" * 6 + "|",
    ]
    for name, n, epsilon, share, ties, own in levels:
        words = "" if name == "signed rank" and not ties else f"{share:g}"
        lines.append(f"| {name} | {n} | {epsilon:g} | {words} | {'yes' if ties else 'no'} | {own:.3f} |")
    lines += [
        "",
        "## Two groups: what private sizes cost (normal values, moved by a shift in standard deviations)",
        "",
        f"{2 * replications} datasets a cell: a standard error of at most {np.sqrt(0.125 / replications):.3f}.",
        "",
        "`smaller_fraction` is the expected fraction of rows in the smaller group, here the right one.",
        "",
        "| n | epsilon | share of the first group | shift | private sizes | with `smaller_fraction` | public sizes | "
        "scipy, not private |",
        "|---" * 8 + "|",
        *(
            f"| {n} | {epsilon:g} | {share:g} | {shift:g} | " + " | ".join(f"{value:.3f}" for value in row) + " |"
            for (n, epsilon, share, shift), row in (
                (cell, size_powers(*cell, 2 * replications, seed)) for cell in SIZE_CELLS
            )
        ),
        "",
        "## Power (half of the rows in the first group, moved by a shift)",
        "",
        "| test | n | epsilon | shift | private | scipy, not private |",
        "|---" * 6 + "|",
    ]
    for name, n, epsilon, shift, own, plain in powers:
        lines.append(f"| {name} | {n} | {epsilon:g} | {shift:g} | {own:.3f} | {plain:.3f} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    write_page(as_markdown, RESULTS, replications=1000, seed=2026)
