"""Cohen's kappa and the intraclass correlation, as docs/recipes/agreement.md releases them: coverage at several truths.

Kappa: both raters see the true grade with a given probability, and another one at random otherwise. Scores: normal,
exponential and yes/no patients, with normal errors of two ratings.

    python validation/studies/agreement.py
    python validation/studies/agreement.py --only kappa         # the other rows stay as they are written
    python validation/studies/agreement.py --fast               # few fits, nothing written
"""

from __future__ import annotations

import argparse
import datetime
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import dpstats
from dpstats.statistic import PrivateStatistic

RESULTS = Path(__file__).resolve().parents[1] / "results" / "agreement.md"
FITS = 200
SETTINGS: tuple[tuple[int, float, dict[str, float]], ...] = (
    (2000, 1.0, {}),
    (4000, 0.5, {}),
    (4000, 3.0, {}),
    (4000, 3.0, {"skewness": 3, "remainder": 0}),
)
"""Rows, epsilon, and options. The last ones are for statistics whose rows have a less skewed influence."""
OPTIONS: dict[str, dict[str, Any]] = {"kappa": {"bounds": (-1, 1)}, "intraclass": {"bounds": (-4, 4), "link": "fisher"}}
"""Of the recipe."""
Numbers = np.ndarray
GRADES = {"0.6 0.3 0.1": (0.6, 0.3, 0.1), "0.8 0.15 0.05": (0.8, 0.15, 0.05), "0.9 0.1": (0.9, 0.1)}
PATIENTS: dict[str, Callable[[np.random.Generator, int], Numbers]] = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "exponential": lambda rng, n: rng.standard_exponential(n) - 1,
    "yes/no, 10%": lambda rng, n: ((rng.random(n) < 0.1) - 0.1) / 0.3,
}


class Cell(NamedTuple):
    """A population of two ratings, its truth, and the function of the recipe."""

    words: str
    truth: float
    draw: Callable[[np.random.Generator, int], Numbers]
    function: Callable[[Numbers], float]


def make_kappa(levels: int) -> Callable[[Numbers], float]:
    """Return Cohen's kappa of a block of rows with two grades below ``levels``."""

    def kappa(block: Numbers) -> float:
        a, b = block.T
        chance = sum((a == level).mean() * (b == level).mean() for level in range(levels))
        return float(((a == b).mean() - chance) / (1 - chance))

    return kappa


def icc(block: Numbers) -> float:
    """Return the intraclass correlation of single ratings, by one-way random effects."""
    between = 2 * block.mean(axis=1).var(ddof=1)
    within = block.var(axis=1, ddof=1).mean()
    return float((between - within) / (between + within))


def graded(shares: tuple[float, ...], sees: float) -> Cell:
    """Return the grades of two raters who see the true one with probability ``sees``."""
    p, K = np.array(shares), len(shares)
    told = sees * np.eye(K) + (1 - sees) / K
    both = told.T @ np.diag(p) @ told
    chance = float(both.sum(axis=0) @ both.sum(axis=1))

    def draw(rng: np.random.Generator, n: int) -> Numbers:
        grade = rng.choice(K, n, p=p)
        rated = [np.where(rng.random(n) < sees, grade, rng.integers(K, size=n)) for _ in range(2)]
        return np.stack(rated, axis=1).astype(float)

    return Cell("kappa", (float(np.trace(both)) - chance) / (1 - chance), draw, make_kappa(K))


def scored(patients: Callable[[np.random.Generator, int], Numbers], truth: float) -> Cell:
    """Return two scores of a patient, of which ``truth`` of the variance is the patient's."""

    def draw(rng: np.random.Generator, n: int) -> Numbers:
        own = truth**0.5 * patients(rng, n)
        return own[:, None] + (1 - truth) ** 0.5 * rng.standard_normal((n, 2))

    return Cell("intraclass", truth, draw, icc)


def cells() -> Iterator[tuple[str, Cell]]:
    """Yield the populations of the table, with their names."""
    for name, shares in GRADES.items():
        for sees in (0.0, 0.5, 0.8, 0.97):
            yield name, graded(shares, sees)
    for name, patients in PATIENTS.items():
        for truth in (0.0, 0.3, 0.77, 0.95):
            yield name, scored(patients, truth)


def cover(cell: Cell, n: int, options: dict[str, float], fits: int, seed: int) -> tuple[float, float, int]:
    """Return coverage, median width, and the number of fits without limits, which count as misses."""
    rng, covered, widths, empty = np.random.default_rng(seed), 0, [], 0
    for _ in range(fits):
        fit = PrivateStatistic(cell.function, random_state=int(rng.integers(1 << 30)), **OPTIONS[cell.words], **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            low, high = fit.fit(cell.draw(rng, n)).confidence_interval()
        covered += low <= cell.truth <= high
        widths.append(high - low)
        empty += not np.isfinite(high - low)
    return covered / fits, float(np.median(widths)), empty


def as_markdown(runs: list[str], rows: list[str]) -> str:
    """Return the page of results."""
    settings = [
        ", ".join([f"n {n:,}, epsilon {epsilon:g}", *(f"{name} {value:g}" for name, value in options.items())])
        for n, epsilon, options in SETTINGS
    ]
    return "\n".join(
        [
            "# Agreement of two raters",
            "",
            *runs,
            "",
            "Coverage of the 95% interval, and its median width, with simulated noise. One Monte Carlo standard error "
            "of a coverage of 0.95 is 0.018 at 150 fits and 0.022 at 100.",
            "",
            f"| statistic | population | truth | {' | '.join(settings)} |",
            "|---|---|---|" + "---|" * len(SETTINGS),
            *rows,
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=FITS)
    parser.add_argument("--only", choices=OPTIONS, help="one statistic; rows of the other stay as they are written")
    parser.add_argument("--fast", action="store_true", help="few fits; writes nothing")
    given = parser.parse_args()
    fits, rows, runs = 6 if given.fast else given.fits, [], []
    if given.only:
        lines = RESULTS.read_text(encoding="utf-8").splitlines()
        runs = [line for line in lines if line.startswith("* ")]
        rows = [
            line for line in lines if line.startswith(tuple(f"| {name} |" for name in OPTIONS if name != given.only))
        ]
    command = " ".join(["python validation/studies/agreement.py", *sys.argv[1:]])
    runs.append(f"* {datetime.date.today()}, dpstats {dpstats.__version__}, numpy {np.__version__}: `{command}`")
    for place, (name, cell) in enumerate(cells()):
        if given.only not in (None, cell.words):
            continue
        found = [
            cover(cell, n, {"epsilon": epsilon, **options}, fits, 100 * place + k)
            for k, (n, epsilon, options) in enumerate(SETTINGS)
        ]
        shown = [
            f"{share:.3f} {width:.3f}" + (f" ({empty} without limits)" if empty else "")
            for share, width, empty in found
        ]
        rows.append(f"| {cell.words} | {name} | {cell.truth:.2f} | {' | '.join(shown)} |")
        print(rows[-1], flush=True)
    if not given.fast:
        RESULTS.write_text(as_markdown(runs, rows), encoding="utf-8")


if __name__ == "__main__":
    main()
