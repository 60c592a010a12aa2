"""A private number of rows: coverage of intervals, and widths beside those of a public number of rows.

Released totals are drawn from their distribution, exact sums of drawn rows plus the plan's noise, and go through the
code that reports a fit. Variances and proportions are fits, and answers to SQL are queries of one table. Beside them
are releases at the same epsilon for a public number of rows.

    python validation/studies/private_size.py
    python validation/studies/private_size.py --counts  # proportions and answers to SQL, on another page
    python validation/studies/private_size.py --fast                  # fewer cells and runs, nothing written
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

VALIDATION = Path(__file__).resolve().parents[1]

import dpstats  # noqa: E402
from dpstats.groups import comparisons as anova  # noqa: E402
from dpstats.means import ClippedMean, PrivateVariance  # noqa: E402
from dpstats.means.ratio import Ratio  # noqa: E402
from dpstats.sql import PrivateSQL  # noqa: E402
from dpstats.tables import PrivateProportion  # noqa: E402

Numbers = np.ndarray

RESULTS = VALIDATION / "results" / "private_size.md"
COUNTS = VALIDATION / "results" / "private_size_counts.md"
Z = 1.959963984540054
CELLS = ((10, 1.0), (100, 1.0), (1000, 0.1), (1000, 1.0), (1000, 10.0), (10_000, 1.0), (100_000, 0.1))
VARIANCES = ((100, 1.0), (1000, 1.0), (10_000, 1.0))
DELTAS = (0.0, 1e-6)
RUNS, FITS = 4000, 60
_MOST_ROWS = 20_000_000
_BLOCK = 1 << 21  # rows drawn at once


class Law(NamedTuple):
    """A distribution of rows, clipped to [-1, 1], with its mean and variance."""

    draw: Callable[[np.random.Generator, tuple[int, ...]], Numbers]
    mean: float
    variance: float


def clipped(draw: Callable[[np.random.Generator, tuple[int, ...]], Numbers]) -> Law:
    """Return the distribution of clipped rows; its moments are averages of 16 million."""
    x = np.clip(draw(np.random.default_rng(99), (16_000_000,)), -1.0, 1.0)
    return Law(lambda rng, shape: np.clip(draw(rng, shape), -1.0, 1.0), float(x.mean()), float(x.var()))


def laws() -> dict[str, Law]:
    """Return the distributions: flat, narrow, constant, rare, skewed, and far from the middle of wrong bounds."""
    return {
        "uniform": Law(lambda rng, shape: 2 * rng.random(shape) - 1, 0.0, 1 / 3),
        "normal, sd 0.2": clipped(lambda rng, shape: 0.2 * rng.standard_normal(shape)),
        "constant 0.9": Law(lambda rng, shape: np.full(shape, 0.9), 0.9, 0.0),
        "ends, 5%": Law(lambda rng, shape: np.where(rng.random(shape) < 0.05, 1.0, -1.0), -0.9, 0.19),
        "lognormal": clipped(lambda rng, shape: np.exp(rng.standard_normal(shape)) / 5 - 1),
        "wrong bounds": clipped(lambda rng, shape: 0.8 + 0.5 * rng.standard_normal(shape)),
    }


def sums(law: Law, n: int, runs: int, rng: np.random.Generator) -> tuple[Numbers, Numbers]:
    """Return the sums of z and of z^2 of n rows, many times."""
    first, second = [], []
    step = max(1, _BLOCK // n)
    for done in range(0, runs, step):
        z = law.draw(rng, (min(step, runs - done), n))
        first.append(z.sum(axis=1))
        second.append((z * z).sum(axis=1))
    return np.concatenate(first), np.concatenate(second)


class Found(NamedTuple):
    """Coverage and mean width of intervals, and the width for a public number of rows; None if it was not measured."""

    runs: int
    coverage: float
    width: float
    public_width: float


Options = dict[str, Any]


def mean_cell(law: Law, n: int, options: Options, runs: int, fits: int, rng: np.random.Generator) -> Found:
    """Return what is measured of a mean."""
    runs = min(runs, max(400, _MOST_ROWS // n))
    plan = ClippedMean(neighbors="add_or_remove", **options).plan(None, 1)
    assert plan.totals is not None
    noise = plan.totals.noise(plan.totals_stage)
    T, Q = (part[:, None] for part in sums(law, n, runs, rng))
    off_T, off_N, off_Q = anova.draw(noise, (runs, 1, 1), rng)
    T, N, Q = T + off_T[:, 0], n + off_N[:, 0], Q + off_Q[:, 0]
    low, high = Ratio(T, N, Q, T, N, noise).ends(np.array(Z))
    covered = (low <= law.mean) & (law.mean <= high)
    widths = [width(ClippedMean(**options), law.draw(rng, (n, 1)), rng) for _ in range(fits)]
    return Found(runs, float(covered.mean()), float((high - low).mean()), float(np.mean(widths)))


def width(estimator: Any, X: Numbers, rng: np.random.Generator) -> float:
    """Return the width of the interval of a fit."""
    low, high = estimator.set_params(random_state=int(rng.integers(1 << 30))).fit(X).confidence_interval()
    return float(high[0] - low[0])


def variance_cell(law: Law, n: int, options: Options, fits: int, rng: np.random.Generator) -> Found:
    """Return what is measured of a variance."""
    ends = []
    for _ in range(fits):
        made = PrivateVariance(neighbors="add_or_remove", random_state=int(rng.integers(1 << 30)), **options)
        low, high = made.fit(law.draw(rng, (n, 1))).confidence_interval()
        ends.append((low[0], high[0]))
    low, high = np.transpose(ends)
    covered = (low <= law.variance) & (law.variance <= high)
    widths = [width(PrivateVariance(**options), law.draw(rng, (n, 1)), rng) for _ in range(min(fits, FITS))]
    return Found(fits, float(covered.mean()), float((high - low).mean()), float(np.mean(widths)))


Key = tuple[str, str, int, float, float]  # what, law, n, epsilon, delta


def study(
    cells: tuple[tuple[int, float], ...] = CELLS,
    variances: tuple[tuple[int, float], ...] = VARIANCES,
    runs: int = RUNS,
    fits: int = FITS,
    seed: int = 1,
) -> dict[Key, Found]:
    """Return all cells."""
    found: dict[Key, Found] = {}
    for place, (name, law) in enumerate(laws().items()):
        rng = np.random.default_rng([seed, place])
        for delta in DELTAS:
            for n, epsilon in cells:
                options = {"bounds": (-1.0, 1.0), "epsilon": epsilon, "delta": delta}
                found["mean", name, n, epsilon, delta] = mean_cell(law, n, options, runs, fits, rng)
            for n, epsilon in variances:
                options = {"bounds": (-1.0, 1.0), "epsilon": epsilon, "delta": delta}
                found["variance", name, n, epsilon, delta] = variance_cell(law, n, options, 5 * fits, rng)
    return found


def proportion_cell(p: float, n: int, options: Options, fits: int, rng: np.random.Generator) -> Found:
    """Return what is measured of a proportion."""
    ends, widths = [], []
    for _ in range(fits):
        x = rng.random(n) < p
        added, public = (
            PrivateProportion(neighbors=neighbors, random_state=int(rng.integers(1 << 30)), **options).fit(x)
            for neighbors in ("add_or_remove", "replace_one")
        )
        low, high = added.confidence_interval()
        ends.append((low, high))
        low, high = public.confidence_interval()
        widths.append(high - low)
    low, high = np.transpose(ends)
    covered = (low <= p) & (p <= high)
    return Found(fits, float(covered.mean()), float((high - low).mean()), float(np.mean(widths)))


def query_cell(text: str, n: int, options: Options, asked: int, rng: np.random.Generator) -> Found:
    """Return what is measured of an answer to SQL: the first number of every cell."""
    import duckdb

    connection = duckdb.connect()
    rows = f"SELECT i % 4 AS g, (i * 7919) % 101 AS x, i % {max(n // 5, 1)} AS u FROM range({n}) s(i)"
    connection.execute(f"CREATE TABLE t AS {rows}")
    declared = {"categories": {"t.g": [0, 1, 2, 3]}, "bounds": {"t.x": (0, 100)}, **options}
    truth = np.array([row[-1] for row in sorted(connection.execute(text).fetchall())], dtype=float)
    found: dict[str, list[tuple[Numbers, Numbers]]] = {"add_or_remove": [], "replace_one": []}
    for neighbors, ends in found.items():
        for _ in range(asked):
            made = PrivateSQL(connection, neighbors=neighbors, random_state=int(rng.integers(1 << 30)), **declared)
            answer = made.query(text).estimates()
            low, high = (np.ravel(end)[-truth.size :] for end in answer.confidence_interval())
            ends.append((low, high))
    low, high = np.transpose(found["add_or_remove"], (1, 0, 2))
    widths = [float(np.mean([b - a for a, b in ends])) for ends in found.values()]
    return Found(asked, float(((low <= truth) & (truth <= high)).mean()), *widths)


PROPORTIONS = ((100, 1.0), (1000, 0.1), (1000, 1.0), (10_000, 1.0))
QUERIES = (
    "SELECT COUNT(*) FROM t",
    "SELECT AVG(x) FROM t",
    "SELECT COUNT(x), SUM(x) FROM t",
    "SELECT COUNT(x), AVG(x) FROM t",
    "SELECT g, COUNT(*) FROM t GROUP BY g",
    "SELECT g, SUM(x) FROM t GROUP BY g",
    "SELECT g, COUNT(x), AVG(x) FROM t GROUP BY g",
)


def median_cell(text: str, n: int, asked: int, rng: np.random.Generator) -> Found:
    """Return what is measured of medians in SQL, of uniform rows: intervals cover the population."""
    import duckdb
    import pandas as pd

    found: dict[str, list[tuple[Numbers, Numbers]]] = {"add_or_remove": [], "replace_one": []}
    for _ in range(asked):
        connection = duckdb.connect(":memory:", config={"threads": 1})
        frame = pd.DataFrame({"x": 100 * rng.random(n), "g": np.arange(n) % 4})
        connection.register("rows", frame)
        connection.execute("CREATE TABLE t AS SELECT * FROM rows")
        for neighbors, ends in found.items():
            made = PrivateSQL(
                connection,
                epsilon=1.0,
                neighbors=neighbors,
                categories={"t.g": [0, 1, 2, 3]},
                bounds={"t.x": (0, 100)},
                random_state=int(rng.integers(1 << 30)),
            )
            answer = made.query(text)
            ends.append((answer.low.ravel(), answer.high.ravel()))
    low, high = np.transpose(found["add_or_remove"], (1, 0, 2))
    widths = [float(np.mean([b - a for a, b in ends])) for ends in found.values()]
    return Found(asked, float(((low <= 50) & (high >= 50)).mean()), *widths)


MEDIANS = ("SELECT MEDIAN(x) FROM t", "SELECT g, MEDIAN(x) FROM t GROUP BY g")


def study_of_counts(fits: int, seed: int = 2) -> dict[Key, Found]:
    """Return the cells of proportions and of answers to SQL."""
    found: dict[Key, Found] = {}
    for place, p in enumerate((0.5, 0.05)):
        rng = np.random.default_rng([seed, place])
        for delta in DELTAS:
            for n, epsilon in PROPORTIONS:
                options = {"epsilon": epsilon, "delta": delta}
                key = "proportion", f"{100 * p:g}% ones", n, epsilon, delta
                found[key] = proportion_cell(p, n, options, 2 * fits, rng)
    for place, text in enumerate(QUERIES):
        rng = np.random.default_rng([seed, 9, place])
        found["SQL", f"`{text}`", 2000, 1.0, 0.0] = query_cell(text, 2000, {"epsilon": 1.0}, fits // 2, rng)
    for place, text in enumerate(MEDIANS):
        rng = np.random.default_rng([seed, 99, place])
        found["SQL", f"`{text}`", 2000, 1.0, 0.0] = median_cell(text, 2000, fits // 2, rng)
    return found


def as_markdown(cells: dict[Key, Found], command: str) -> str:
    """Return the report."""
    lines = [
        "# A private number of rows: coverage of 95% intervals, and widths",
        "",
        f"{time.strftime('%Y-%m-%d')}, dpstats {dpstats.__version__}, numpy {np.__version__}; simulated noise, rows "
        "clipped to [-1, 1]. Widths are means over runs. The ratio compares them with a public number of rows at the "
        "same epsilon, for which one row is replaced. The standard error of a coverage of 0.95 is 0.218 over the root "
        "of the number of runs.",
        "",
        f"    {command}",
        "",
        "| estimate | rows | n | epsilon | delta | runs | coverage | width | public n | ratio |",
        "|---" * 10 + "|",
    ]
    for (what, name, n, epsilon, delta), cell in cells.items():
        lines.append(
            f"| {what} | {name} | {n:,} | {epsilon:g} | {delta:g} | {cell.runs:,} | {cell.coverage:.3f} | "
            f"{cell.width:.4f} | {cell.public_width:.4f} | {cell.width / cell.public_width:.2f} |"
        )
    lines.append("")
    for what, words in (("mean", "Means"), ("proportion", "Proportions"), ("SQL", "Answers to SQL")):
        chosen = [cell for key, cell in cells.items() if key[0] == what]
        if not chosen:
            continue
        ratios = [cell.width / cell.public_width for cell in chosen]
        least = min(chosen, key=lambda cell: cell.coverage)
        lines.append(
            f"* {words}: ratios of {min(ratios):.2f} to {max(ratios):.2f}; least coverage {least.coverage:.3f} "
            f"(standard error {math.sqrt(0.05 * 0.95 / least.runs):.3f})."
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--fast", action="store_true", help="fewer cells and runs, nothing written")
    parser.add_argument("--counts", action="store_true", help="proportions and answers to SQL only")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.fast:
        print(as_markdown(study(CELLS[:2], VARIANCES[:1], 500, 10) | study_of_counts(20), "--fast"))
        return
    found, page = (study_of_counts(200), COUNTS) if given.counts else (study(), RESULTS)
    command = f"python validation/studies/private_size.py{' --counts' * given.counts}"
    report = as_markdown(found, command)
    page.write_text(report)
    print(report)


if __name__ == "__main__":
    main()
