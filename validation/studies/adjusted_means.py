"""Differences of groups adjusted for covariates: coverage and width, beside means of groups and least squares.

Trials: three randomized arms of 49%, 49% and 2%, four covariates that explain half of the outcome, effects 0, 0.3 and
1, residuals of several shapes and of unequal scale. Other groups: covariates whose means differ between groups.

    python validation/studies/adjusted_means.py
    python validation/studies/adjusted_means.py --fast               # few runs, nothing written
"""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

VALIDATION = Path(__file__).resolve().parents[1]

import dpstats  # noqa: E402
from dpstats.groups import GroupMeans  # noqa: E402

RESULTS = VALIDATION / "results" / "adjusted_means.md"
RUNS, PLAIN_RUNS = 150, 15
Numbers = np.ndarray
Draw = Callable[[np.random.Generator, int], Numbers]

RESIDUALS: dict[str, Draw] = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "exponential": lambda rng, n: rng.standard_exponential(n) - 1,
    "lognormal(.5)": lambda rng, n: (rng.lognormal(0, 0.5, n) - np.exp(0.125)) / 0.604,
    "t(4)": lambda rng, n: rng.standard_t(4, n) / 2**0.5,
}


class Cell(NamedTuple):
    """A population of rows, and the privacy of a fit."""

    n: int
    epsilon: float
    residuals: str = "normal"
    scales: tuple[float, ...] = (1.0, 1.0, 1.0)
    shares: tuple[float, ...] = (0.49, 0.49, 0.02)
    effects: tuple[float, ...] = (0.0, 0.3, 1.0)
    d: int = 4
    shift: float = 0.0  # of the first covariate, in the second group
    randomized: bool = True
    half: float = 7.0  # width of the outcome's bounds


class Found(NamedTuple):
    """Coverage of the differences to the first group, widths, and widths of other methods."""

    coverage: Numbers
    widths: Numbers
    plain: Numbers
    exact: Numbers
    adjusted: bool


TRIALS = [
    *[Cell(n, epsilon) for n in (1000, 4000, 20_000) for epsilon in (0.5, 1.0, 3.0)],
    Cell(4000, 1.0, "exponential", (1.0, 1.5, 1.0)),
    Cell(4000, 1.0, "exponential", (1.0, 1.0, 2.0)),
    Cell(20_000, 1.0, "exponential", (1.0, 1.5, 2.0)),
    Cell(4000, 1.0, "lognormal(.5)", (1.0, 1.5, 1.0)),
    Cell(20_000, 3.0, "lognormal(.5)", (1.0, 1.5, 1.0)),
    Cell(4000, 1.0, "t(4)"),
    Cell(4000, 1.0, shares=(0.5, 0.5), effects=(0.0, 0.3), scales=(1.0, 1.0)),
    Cell(4000, 1.0, half=4.0),
]
OTHERS = [
    Cell(5000, 1.0, d=1, shares=(0.5, 0.5), effects=(0.0, 1.0), scales=(1.0, 1.0), shift=1.0, randomized=False),
    Cell(20_000, 1.0, d=1, shares=(0.99, 0.01), effects=(0.0, 2.0), scales=(1.0, 1.0), shift=2.0, randomized=False),
    Cell(20_000, 1.0, shares=(0.7, 0.2, 0.1), shift=0.5, randomized=False),
    Cell(10_000, 1.0, "exponential", (1.0, 1.5, 1.0), (0.4, 0.3, 0.3), d=2, shift=-1.5, randomized=False),
]


def rows(cell: Cell, rng: np.random.Generator) -> tuple[Numbers, Numbers, Numbers]:
    """Return covariates, outcomes and groups."""
    k = rng.choice(len(cell.shares), cell.n, p=cell.shares)
    X = rng.standard_normal((cell.n, cell.d))
    X[:, 0] += cell.shift * (k == 1)
    noise = RESIDUALS[cell.residuals](rng, cell.n) * np.array(cell.scales)[k]
    return X, X.sum(axis=1) / cell.d**0.5 + np.array(cell.effects)[k] + noise, k


def study(cell: Cell, runs: int, seed: int) -> Found:
    """Return what fits to draws of a cell say about the differences to the first group."""
    rng, K = np.random.default_rng(seed), len(cell.shares)
    covered, widths, plain, exact = ([] for _ in range(4))
    truth = np.subtract(cell.effects[1:], cell.effects[0])
    outcome = (-cell.half, cell.half)
    for run in range(runs):
        X, y, k = rows(cell, rng)
        model = GroupMeans(
            groups=list(range(K)),
            bounds=[outcome, *[(-4.0, 4.0)] * cell.d],
            adjust=list(range(1, cell.d + 1)),
            randomized=cell.randomized,
            epsilon=cell.epsilon,
            random_state=int(rng.integers(1 << 30)),
        ).fit(np.column_stack([y, X]), k)
        ends = np.array([np.ravel(model.adjusted_difference(a, 0).confidence_interval()[:2]) for a in range(1, K)])
        covered.append((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
        widths.append(ends[:, 1] - ends[:, 0])
        if run < PLAIN_RUNS:
            alone = GroupMeans(groups=list(range(K)), bounds=outcome, epsilon=cell.epsilon, random_state=run)
            alone.fit(y[:, None], k)
            ends = np.array([np.ravel(alone.difference(a, 0).confidence_interval()[:2]) for a in range(1, K)])
            plain.append(ends[:, 1] - ends[:, 0])
            design = np.column_stack([np.ones(cell.n), *[k == a for a in range(1, K)], X])
            inverse = np.linalg.pinv(design.T @ design)
            residuals = y - design @ (inverse @ (design.T @ y))
            robust = inverse @ ((design * residuals[:, None] ** 2).T @ design) @ inverse
            exact.append(3.92 * np.sqrt(np.diagonal(robust)[1:K]))
    median = [np.median(part, axis=0) for part in (widths, plain, exact)]
    return Found(np.mean(covered, axis=0), *median, model.plan_.steps is not None)


def as_markdown(found: dict[Cell, Found], runs: int, command: str) -> str:
    """Return the page of results."""
    lines = [
        "# Adjusted differences of groups",
        "",
        f"{datetime.date.today()}, dpstats {dpstats.__version__}, numpy {np.__version__}; simulated noise, "
        f"delta = 1e-06, {runs} runs a cell: one Monte Carlo standard error of a coverage of 0.95 is "
        f"{(0.0475 / runs) ** 0.5:.3f}. "
        "Differences are to the first group. Width is the median width of 95% intervals, 'plain' that of `GroupMeans` "
        "without covariates, 'exact' that of least squares with HC0 errors and no privacy. Where the plan does not "
        "adjust, because noise hides the slopes, the fit is plain.",
        "",
        f"    {command}",
        "",
        "| n | epsilon | residuals | scales | shares | shift | randomized | adjusted | coverage | width | over plain "
        "| over exact |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for cell, result in found.items():
        numbers = [
            "; ".join(f"{value:.3g}" for value in part)
            for part in (result.coverage, result.widths, result.widths / result.plain, result.widths / result.exact)
        ]
        facts = [
            f"{cell.n:,}",
            f"{cell.epsilon:g}",
            cell.residuals,
            "/".join(f"{scale:g}" for scale in cell.scales),
            "/".join(f"{share:g}" for share in cell.shares),
            f"{cell.shift:g}",
            "yes" if cell.randomized else "no",
            "yes" if result.adjusted else "no",
        ]
        lines.append(f"| {' | '.join([*facts, *numbers])} |")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fast", action="store_true", help="few runs; writes nothing")
    given = parser.parse_args()
    runs = 10 if given.fast else given.runs
    found = {
        cell: study(cell, runs, given.seed + place)
        for place, cell in enumerate([*TRIALS[:3], *OTHERS[:1]] if given.fast else [*TRIALS, *OTHERS])
    }
    page = as_markdown(found, runs, " ".join(["python validation/studies/adjusted_means.py", *sys.argv[1:]]))
    print(page)
    if not given.fast:
        RESULTS.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
