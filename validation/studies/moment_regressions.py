"""Intervals of the two regressions that release second moments once: coverage and width, cell by cell.

Several draws of the noise for each dataset, of which `regression.py` has one. Designs are those of
`regression_designs.py`, and a few that are hard: all columns far from the middle of their bounds, one column that
varies little and has all of the slope, a rare indicator, indicators beside numbers, next to no residuals, no slopes.

    python validation/studies/moment_regressions.py
    python validation/studies/moment_regressions.py --fast               # fewer cells and datasets, nothing written
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from regression_designs import DELTA, Design, Numbers, linear_design, normal_columns

VALIDATION = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(VALIDATION / "peers"))
from regression_peers import ols  # noqa: E402

import dpstats  # noqa: E402
from dpstats.data.rows import Table  # noqa: E402
from dpstats.parallel import run_blocks  # noqa: E402
from dpstats.regression import SufficientStatisticsRegression  # noqa: E402
from dpstats.release.session import Session  # noqa: E402
from dpstats.textbook import FunctionalMechanismRegression  # noqa: E402

RESULTS = VALIDATION / "results" / "moment_regressions.md"
SIZES, DIMENSIONS, EPSILONS = (5000, 20_000, 100_000), (1, 3, 10), (0.2, 1.0, 3.0)
LEAST = 0.93
DRAWS = 5
ESTIMATORS: dict[str, Callable[..., Any]] = {
    "sufficient statistics": lambda **given: SufficientStatisticsRegression(delta=DELTA, **given),
    "functional mechanism": FunctionalMechanismRegression,
}


def hard(name: str, columns: Callable[[int, int, np.random.Generator], Numbers], d: int, **given: Any) -> Design:
    """Return a design with normal residuals, whose index has mean 0 and variance 1 if no slopes are given."""
    X = columns(100_000, d, np.random.default_rng(d))
    slopes = given.get("slopes")
    if slopes is None:
        slopes = np.where(np.arange(d) % 2, -1.0, 1.0) / (X @ np.where(np.arange(d) % 2, -1.0, 1.0)).std()
    sigma, ends = given.get("sigma", 1.0), given.get("y_bounds", (-6.0, 6.0))
    return Design(
        name,
        slopes,
        -float(X.mean(axis=0) @ slopes),
        np.tile([-4.0, 4.0], (d, 1)),
        ends,
        lambda n, rng: columns(n, d, rng),
        lambda X, index, rng: index + sigma * rng.standard_normal(len(X)),
    )


def off_center(n: int, d: int, rng: np.random.Generator) -> Numbers:
    return 3 + 0.25 * normal_columns(n, d, rng)


def one_narrow(n: int, d: int, rng: np.random.Generator) -> Numbers:
    X = normal_columns(n, d, rng)
    X[:, 0] *= 0.3
    return X


def one_rare(n: int, d: int, rng: np.random.Generator) -> Numbers:
    X = normal_columns(n, d, rng)
    X[:, 0] = np.where(rng.random(n) < 0.02, 4.0, -4.0)
    return X


def half_indicators(n: int, d: int, rng: np.random.Generator) -> Numbers:
    X = normal_columns(n, d, rng)
    X[:, ::2] = rng.choice([-4.0, 4.0], X[:, ::2].shape)
    return X


def design_of(name: str, d: int) -> Design:
    """Return a design by its name."""
    first = np.eye(1, d)[0]
    made: dict[str, Callable[[], Design]] = {
        "columns off center": lambda: hard(name, off_center, d),
        "one narrow column with the slope": lambda: hard(name, one_narrow, d, slopes=3 * first),
        "a rare indicator": lambda: hard(name, one_rare, d, y_bounds=(-12.0, 12.0)),
        "half of the columns indicators": lambda: hard(name, half_indicators, d),
        "residuals of .05": lambda: hard(name, normal_columns, d, sigma=0.05),
        "no slopes": lambda: hard(name, normal_columns, d, slopes=0 * first),
    }
    return made[name]() if name in made else linear_design(name, d)


DESIGNS = (
    "isotropic",
    "AR(.7)",
    "scales 1 to .1",
    "t3 errors",
    "exponential errors",
    "lognormal x, exponential errors",
    "columns off center",
    "one narrow column with the slope",
    "a rare indicator",
    "half of the columns indicators",
    "residuals of .05",
    "no slopes",
)


class Key(NamedTuple):
    """Which cell."""

    method: str
    design: str
    d: int
    n: int
    epsilon: float


class Found(NamedTuple):
    """Of a cell: shares of slopes and intercepts, and a median."""

    coverage: float
    error: float
    worst: float
    intercept: float
    width: float
    identified: float
    known: float
    datasets: int

    @property
    def verdict(self) -> str:
        """In a word."""
        if self.identified < 0.5:
            return "noise only"
        return "covers" if self.coverage >= LEAST else "unclear" if self.coverage + 2 * self.error >= LEAST else "BELOW"


Task = tuple[str, int, int, int, int]  # design, d, n, first dataset, how many


def block(task: Task, rng: np.random.Generator) -> dict[Key, Numbers]:
    """Return of every draw whether slopes are covered, the intercept, what is identified, and widths over OLS's."""
    name, d, n, start, count = task
    design = design_of(name, d)
    truth = np.append(design.intercept, design.coef)
    found: dict[Key, list[Numbers]] = {}
    for place in range(start, start + count):
        X, y = design.dataset(n, 2027, place)
        reference = np.sqrt(np.diagonal(ols(X, y)[1]))
        for method, make in ESTIMATORS.items():
            for epsilon in EPSILONS:
                made = make(x_bounds=design.x_bounds, y_bounds=design.y_bounds, epsilon=epsilon)
                plan = made.plan(n, d)
                with Session.simulated(plan, rng, DRAWS) as session:
                    made._release(made._read(Table(X, y=y), plan), plan, session)
                for draw in range(DRAWS):
                    row = one(made, plan, session.released, draw, truth, reference)
                    found.setdefault(Key(method, name, d, n, epsilon), []).append(row)
    return {key: np.array(rows) for key, rows in found.items()}


def one(made: Any, plan: Any, released: Any, draw: int, truth: Numbers, reference: Numbers) -> Numbers:
    """Return covered, identified and widths of each parameter for one draw."""
    (stage,) = plan.stages
    made.plan_, made.privacy_ = plan, replace(plan.guarantee, simulated=True)
    made._report({stage.name: {name: values[draw] for name, values in released[stage.name].items()}}, plan)
    each, intercept = made.confidence_interval(), made.intercept_confidence_interval()
    low = np.append(intercept.low, each.low)
    high = np.append(intercept.high, each.high)
    covered = (low <= truth) & (truth <= high)
    known = np.append(made.intercept_identified_, made.identified_)
    return np.concatenate([covered, known, (high - low) / (2 * 1.959964 * reference)])


def summarised(rows: Numbers) -> Found:
    """Return a cell from its draws."""
    p = rows.shape[1] // 3
    covered, known, widths = (rows[:, k * p : (k + 1) * p] for k in range(3))
    slopes, sure = covered[:, 1:], known[:, 1:] > 0
    datasets = slopes.reshape(-1, DRAWS, p - 1).mean(axis=(1, 2))
    return Found(
        float(slopes.mean()),
        float(datasets.std(ddof=1) / np.sqrt(len(datasets))),
        float(slopes.mean(axis=0).min()),
        float(covered[:, 0].mean()),
        float(np.median(widths[:, 1:])),
        float(sure.mean()),
        float(slopes[sure].mean()) if sure.any() else float("nan"),
        len(datasets),
    )


def study(
    designs: tuple[str, ...], dimensions: tuple[int, ...], sizes: tuple[int, ...], datasets: int, jobs: int = 1
) -> dict[Key, Found]:
    """Return all cells; of the largest size half as many datasets."""
    tasks = [
        (name, d, n, start, min(10, count - start))
        for name in designs
        for d in dimensions
        for n in sizes
        for count in [datasets if n < 100_000 else (datasets + 1) // 2]
        for start in range(0, count, 10)
    ]
    rows: dict[Key, list[Numbers]] = {}
    for part in run_blocks(block, [(task,) for task in tasks], random_state=1, n_jobs=jobs, description="datasets"):
        for key, values in part.items():
            rows.setdefault(key, []).append(values)
    return {key: summarised(np.concatenate(values)) for key, values in rows.items()}


def run_again(cells: dict[Key, Found], datasets: int, jobs: int = 1) -> dict[Key, Found]:
    """Return the cells below the least coverage, of five times as many datasets."""
    return {
        key: study((key.design,), (key.d,), (key.n,), 5 * datasets, jobs)[key]
        for key, found in cells.items()
        if found.verdict == "BELOW"
    }


def as_markdown(cells: dict[Key, Found], again: dict[Key, Found], command: str) -> str:
    """Return the report."""
    lines = [
        "# Regressions from second moments that are released once: 95% intervals",
        "",
        f"{time.strftime('%Y-%m-%d')}, dpstats {dpstats.__version__}, numpy {np.__version__}; simulated noise, "
        f"delta = {DELTA:g} (sufficient statistics) or 0 (functional mechanism), {DRAWS} draws of the noise for each "
        "dataset; ± is one Monte Carlo standard error. Coverage is of slopes (worst: of the slope that is covered "
        "least); width is the median over that of robust intervals of OLS; identified is the share of slopes that the "
        "output does not call noise, and the next column their coverage. A cell that covers less than 0.93 by more "
        "than two standard errors is BELOW, and was run again with five times the datasets.",
        "",
        f"    {command}",
        "",
    ]
    for method in ESTIMATORS:
        head = "| rows | d | n | epsilon | coverage | worst | intercept | width | identified | covered then | |"
        lines += [f"## {method.capitalize()}", "", head, "|---" * 11 + "|"]
        for key, found in cells.items():
            if key.method != method:
                continue
            more = again.get(key)
            repeated = f": again {more.coverage:.3f} ± {more.error:.3f}" if more else ""
            lines.append(
                f"| {key.design} | {key.d} | {key.n:,} | {key.epsilon:g} | {found.coverage:.3f} ± {found.error:.3f} | "
                f"{found.worst:.3f} | {found.intercept:.3f} | {found.width:.3g} | {found.identified:.2f} | "
                f"{found.known:.3f} | {found.verdict}{repeated} |"
            )
        lines.append("")
        verdicts = [found.verdict for key, found in cells.items() if key.method == method]
        counts = ", ".join(f"{verdicts.count(word)} {word}" for word in ("covers", "unclear", "BELOW", "noise only"))
        lines += [f"{counts}.", ""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", type=int, default=100)
    parser.add_argument("--designs", nargs="*", default=DESIGNS)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--fast", action="store_true", help="few cells and datasets; writes nothing")
    parser.add_argument("--no-write", action="store_true")
    given = parser.parse_args()
    if given.fast:
        cells, again = study(("isotropic", "columns off center"), (3,), (5000,), 10, given.jobs), {}
    else:
        cells = study(tuple(given.designs), DIMENSIONS, SIZES, given.datasets, given.jobs)
        again = run_again(cells, given.datasets, given.jobs)
    command = f"python {' '.join(['validation/studies/moment_regressions.py', *sys.argv[1:]])}"
    report = as_markdown(cells, again, command)
    print(report)
    if not given.fast and not given.no_write:
        RESULTS.write_text(report, encoding="utf-8")


if __name__ == "__main__":
    main()
