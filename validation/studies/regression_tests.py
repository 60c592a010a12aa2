"""Level and power of tests of one coefficient and of several (the F-test), beside those of a fit without privacy.

Three coefficients of a design are 0 under the null hypothesis; each is tested alone, and all together. Effects are in
units of the one at which the test without privacy has power .8: along the three together for the F-test, of the first
alone for the test of one. Rows of the RAND experiment are real ones, with outcomes of the model that fits them.

    python validation/studies/regression_tests.py
    python validation/studies/regression_tests.py --only isotropic 2000x3 --replications 100 --no-write

Counts and amounts have a page for themselves, ``log_linear_tests.md``:

    python validation/studies/regression_tests.py --log-linear --replications 200

With ``--kept FILE`` a run goes on where another one stopped, and the page has the cells of all of them.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from log_linear import likelihood
from logistic import REPORT as LOGISTIC
from regression import REPORT as LINEAR
from regression import estimator
from regression_cells import EPSILONS, FAILURES, Family, Numbers
from regression_designs import LOG_LINEAR, Design, dimensions, family_design
from regression_report import Report
from scipy import optimize, stats

import dpstats
from dpstats.parallel import cut, run_blocks
from dpstats.regression import (
    PrivateCountRegression,
    PrivateGammaRegression,
    PrivateLinearRegression,
    PrivateLogisticRegression,
)

RESULTS = Path(__file__).resolve().parents[1] / "results"
LEVEL, POWER = 0.05, 0.8
MULTIPLES = (0.0, 1.0, 2.0, 4.0)  # of the effect at which the test without privacy has power .8
TESTED = 3
SIZES = ((2000, 3), (20_000, 10))
ESTIMATORS: dict[str, Any] = {
    "linear": PrivateLinearRegression,
    "logistic": PrivateLogisticRegression,
    "counts": PrivateCountRegression,
    "gamma": PrivateGammaRegression,
}


def log_linear(family: str, designs: Sequence[str], weight: Callable[[Numbers], Numbers]) -> Report:
    """Return the report of a log-linear family, whose reference is the fit with the same weights."""

    def fit(X: Numbers, y: Numbers) -> tuple[Numbers, Numbers]:
        found, _, cov = likelihood(X, y, weight)
        return found, cov

    return Report(Family(family, "GLM", fit, {}, ()), "log_linear", "", (), tuple(designs), ())


REPORTS = {
    "linear": LINEAR,
    "logistic": LOGISTIC,
    "counts": log_linear("counts", [name for name in LOG_LINEAR if "gamma" not in name], lambda mean: 1 / (1 + mean)),
    "gamma": log_linear("gamma", ["gamma, shape 2"], lambda mean: 1 / mean),
}
DESIGNS = tuple((family, name) for family, report in REPORTS.items() for name in report.designs)
_ENTRIES = 4_000_000


class Task(NamedTuple):
    """Datasets of one design and size, at a multiple of an effect of all tested coefficients together, or of one."""

    family: str
    design: str
    n: int
    d: int
    together: bool
    multiple: float
    effect: tuple[float, ...]
    seed: int
    start: int
    size: int


class Found(NamedTuple):
    """Shares of tests that reject, over datasets, and how sure that is."""

    one: float
    several: float
    known: float  # share of tested coefficients that the output does not call noise
    datasets: int


def effect(family: str, name: str, n: int, d: int, together: bool) -> Numbers:
    """Return the tested coefficients at which the test without privacy has power .8, by its large-sample law."""
    design, q = family_design(family, name, d), TESTED if together else 1
    many = 100_000
    X, y = design.of_model(null_of(design), many, np.random.default_rng(d))
    cov = REPORTS[family].family.fit(X, y)[1][1 : q + 1, 1 : q + 1] * many / n
    critical = stats.chi2.isf(LEVEL, q)
    needed = optimize.brentq(lambda shift: stats.ncx2.sf(critical, q, shift) - POWER, 0.1, 100)
    direction = np.sqrt(np.diagonal(cov))
    return direction * math.sqrt(needed / (direction @ np.linalg.solve(cov, direction)))


def null_of(design: Design) -> Numbers:
    """Return the coefficients under the null hypothesis."""
    coef = design.coef.copy()
    coef[:TESTED] = 0.0
    return coef


def pvalues(theta: Numbers, cov: Numbers, n: int) -> tuple[Numbers, float]:
    """Return p-values of the tests without privacy: each coefficient alone, and all together."""
    tested, spread = theta[1 : TESTED + 1], cov[1 : TESTED + 1, 1 : TESTED + 1]
    alone = 2 * stats.norm.sf(np.abs(tested) / np.sqrt(np.diagonal(spread)))
    statistic = tested @ np.linalg.solve(spread, tested) / TESTED
    return alone, float(stats.f.sf(statistic, TESTED, n - theta.size))


def block(task: Task, rng: np.random.Generator) -> dict[float, Numbers]:
    """Return for each epsilon, infinite for none, rows of: each test rejects, the F-test, coefficients known."""
    design = family_design(task.family, task.design, task.d)
    coef = null_of(design)
    coef[: len(task.effect)] += task.multiple * np.array(task.effect)
    found: dict[float, list[Numbers]] = {epsilon: [] for epsilon in (math.inf, *EPSILONS)}
    for place in range(task.start, task.start + task.size):
        named = zlib.crc32(f"{task.family} {task.design}".encode())
        seed = [task.seed, named, place, round(task.multiple), task.together]
        X, y = design.of_model(coef, task.n, np.random.default_rng([*seed, task.n, task.d]))
        alone, several = pvalues(*REPORTS[task.family].family.fit(X, y), task.n)
        found[math.inf].append(np.array([*(alone < LEVEL), several < LEVEL, 1.0]))
        for epsilon in EPSILONS:
            noise = np.random.SeedSequence([*seed, round(1000 * epsilon)]).generate_state(1)[0]
            made = estimator(ESTIMATORS[task.family], design, epsilon, int(noise))
            try:
                made.fit(X, y)
            except FAILURES:
                found[epsilon].append(np.zeros(TESTED + 2))
                continue
            alone = made.test().pvalue[:TESTED]
            several = made.f_test(list(range(TESTED))).pvalue
            known = np.mean(getattr(made, "identified_", np.ones(task.d))[:TESTED])
            found[epsilon].append(np.array([*(alone < LEVEL), several < LEVEL, known]))
    return {epsilon: np.array(rows) for epsilon, rows in found.items()}


def summarise(parts: Sequence[Numbers], together: bool, null: bool) -> Found:
    """Return the shares of one cell: of all tested coefficients under the null, of the first one otherwise."""
    rows = np.concatenate(parts)
    one = rows[:, :TESTED].mean() if null else math.nan if together else rows[:, 0].mean()
    several = rows[:, TESTED].mean() if together or null else math.nan
    return Found(float(one), float(several), float(rows[:, TESTED + 1].mean()), len(rows))


Key = tuple[str, str, int, int, float, float]  # family, design, n, d, epsilon, multiple
Cells = dict[Key, Found]


def read_kept(kept: Path) -> Cells:
    """Return the cells of earlier runs."""
    lines = kept.read_text(encoding="utf-8").splitlines() if kept.exists() else []
    return {tuple(key): Found(*found) for key, found in map(json.loads, lines)}


def study(
    designs: Sequence[tuple[str, str]],
    sizes: Sequence[tuple[int, int]],
    replications: int,
    *,
    seed: int = 2026,
    jobs: int = 1,
    kept: Path | None = None,
) -> Cells:
    """Return levels and powers; a multiple of 0 is the null hypothesis. What ``kept`` has is not computed again."""
    cells = read_kept(kept) if kept else {}
    for (family, name), (n, columns) in itertools.product(designs, sizes):
        d = sized(REPORTS[family], name, columns)
        if (family, name, n, d, math.inf, MULTIPLES[-1]) in cells:
            continue
        start = time.perf_counter()
        new: Cells = {}
        tasks = []
        effects = {side: tuple(effect(family, name, n, d, side).tolist()) for side in (True, False)}
        for multiple, together in itertools.product(MULTIPLES, (True, False)):
            if multiple == 0 and not together:
                continue
            # A level of .05 is to be known within .01, a power less well.
            count = max(2, replications // (1 if multiple == 0 else 5))
            place = 0
            for size in cut(count, max(1, min(50, _ENTRIES // (n * d)))):
                tasks.append(Task(family, name, n, d, together, multiple, effects[together], seed, place, size))
                place += size
        done = run_blocks(block, [(task,) for task in tasks], random_state=seed, n_jobs=jobs)
        for multiple, epsilon in itertools.product(MULTIPLES, (math.inf, *EPSILONS)):
            sides = []
            for together in (True, False):
                parts = [
                    found[epsilon]
                    for task, found in zip(tasks, done, strict=True)
                    if (task.multiple, task.together) == (multiple, together)
                ]
                if parts:
                    sides.append(summarise(parts, together, multiple == 0))
            found = sides[0] if len(sides) == 1 else sides[0]._replace(one=sides[1].one)
            new[family, name, n, d, epsilon, multiple] = found
        cells |= new
        if kept:
            with kept.open("a", encoding="utf-8") as lines:
                lines.writelines(json.dumps(cell) + "\n" for cell in new.items())
        print(f"{time.perf_counter() - start:6.0f} s  {family}, {name}, n = {n}, d = {d}", file=sys.stderr, flush=True)
    return cells


def sized(report: Report, name: str, columns: int) -> int:
    """Return the number of columns that a design has where others have so many."""
    return min(dimensions(name), key=lambda d: abs(d - columns))


_FAIR = (
    " Intercepts stay what they are: columns of *fair* are positive, so that 5.5% of outcomes are left 0 under the "
    "null hypothesis and next to none at its largest effects, which is what its power falls with."
)


def as_markdown(cells: Cells, command: str, seconds: float | None) -> str:
    """Return the page; no seconds where several runs made it."""
    null = [found for key, found in cells.items() if key[-1] == 0 and math.isfinite(key[4])]
    counts = sorted({found.datasets for found in null})
    shown_counts = " to ".join(f"{count:,}" for count in dict.fromkeys((counts[0], counts[-1])))
    errors = " to ".join(f"{math.sqrt(0.0475 / count):.3f}" for count in dict.fromkeys((counts[-1], counts[0])))
    heads = [f"level, {what}" for what in ("one", "F")]
    heads += [f"{what}, {multiple:g}" for what in ("one", "F") for multiple in MULTIPLES[1:]]
    lines = [
        "# Tests of regression coefficients",
        "",
        f"{time.strftime('%Y-%m-%d')}, dpstats {dpstats.__version__}, numpy {np.__version__}; delta = 1e-6, simulated "
        f"noise{'' if seconds is None else f'; {seconds / 60:.0f} minutes'}.",
        "",
        f"    {command}",
        "",
        f"Level {LEVEL:g}. Under the null hypothesis three coefficients are 0; *one* is the share of tests of one of "
        "them that reject, *F* that of the F-test of all three. Powers are at 1, 2 and 4 times the effect at which the "
        f"test without privacy has power {POWER:g} (the lines of it check that). {shown_counts} datasets for a "
        "level, a fifth of that for a power: a level of .05 of the F-test has a Monte Carlo standard error of "
        f"{errors}. known: share of the tested coefficients that the output does not call noise, under the null "
        f"hypothesis.{_FAIR if any(key[0] == 'logistic' for key in cells) else ''}",
        "",
    ]
    for family, report in REPORTS.items():
        keys = dict.fromkeys(key[1:4] for key in cells if key[0] == family)
        if not keys:
            continue
        lines += [
            f"## {ESTIMATORS[family].__name__} and {report.family.reference}",
            "",
            f"| design | n | d | eps | {' | '.join(heads)} | known | datasets |",
            "|---" * (len(heads) + 6) + "|",
        ]
        for name, n, d in keys:
            for epsilon in (*EPSILONS, math.inf):
                at = [cells[family, name, n, d, epsilon, multiple] for multiple in MULTIPLES]
                values = [at[0].one, at[0].several, *(f.one for f in at[1:]), *(f.several for f in at[1:])]
                label = report.family.reference if math.isinf(epsilon) else f"{epsilon:g}"
                shown = " | ".join(f"{value:.3f}" if i < 2 else f"{value:.2f}" for i, value in enumerate(values))
                known = "" if math.isinf(epsilon) else f"{at[0].known:.2f}"
                lines.append(f"| {name} | {n:,} | {d} | {label} | {shown} | {known} | {at[0].datasets:,} |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=1000, help="datasets for a level")
    parser.add_argument("--only", nargs="*", default=[], help="parts of 'linear isotropic', sizes as 2000x3")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--kept", type=Path, help="a file of cells that are done: a run that was stopped goes on")
    parser.add_argument("--log-linear", action="store_true", help="counts and amounts, on a page for themselves")
    parser.add_argument("--no-write", action="store_true")
    options = parser.parse_args()
    sizes: list[Any] = [pair for pair in SIZES if f"{pair[0]}x{pair[1]}" in options.only] or list(SIZES)
    words = [word for word in options.only if word not in {f"{n}x{d}" for n, d in SIZES}]
    asked = [pair for pair in DESIGNS if (pair[0] in ("counts", "gamma")) == options.log_linear]
    designs = [pair for pair in asked if not words or any(word in " ".join(pair) for word in words)]
    start = time.perf_counter()
    cells = study(designs, sizes, options.replications, seed=options.seed, jobs=options.jobs, kept=options.kept)
    which = " --log-linear" if options.log_linear else ""
    command = f"python validation/studies/regression_tests.py{which} --replications {options.replications}"
    text = as_markdown(cells, command, None if options.kept else time.perf_counter() - start)
    print(text)
    if not options.no_write:
        page = "log_linear_tests.md" if options.log_linear else "regression_tests.md"
        (RESULTS / page).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
