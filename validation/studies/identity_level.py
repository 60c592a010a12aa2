"""The level of every identity test, over many datasets of the null.

For every test, n, d and epsilon: datasets of the null go through the private path (whitening, exact
statistic, noise), and p-values come from the test's own cached calibration. The rejections at level .05
have a beta-binomial law, which counts both Monte Carlo errors: that of the datasets and that of the
calibration. A cell is flagged if it lies outside the band that all cells together leave with
probability .01.

    python validation/studies/identity_level.py                         # 20,000 datasets; 2,000 where n = 5000
    python validation/studies/identity_level.py --replications 200 --no-write
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from scipy import stats

import dpstats
from dpstats.identity import FilteringTest, LipschitzExtensionTest, RowDistanceTest, SpatialSignTest
from dpstats.identity.base import PrivateTest
from dpstats.identity.calibration import pvalue
from dpstats.parallel import cut
from dpstats.release.session import Session
from dpstats.textbook import StagedInnerProductTest

RESULTS = Path(__file__).resolve().parents[1] / "results" / "identity_level.md"
LEVEL = 0.05
SIZES = (50, 500, 5000)
DIMENSIONS = (1, 5, 100)
EPSILONS = (0.1, 1.0)
TESTS: dict[str, PrivateTest] = {
    "row distance, clip 1": RowDistanceTest(clip=1),
    "row distance, signs": RowDistanceTest(rows="sign"),
    "row distance, product null": RowDistanceTest(null="product", mean=0.4),
    "spatial sign": SpatialSignTest(),
    "l1 extension": LipschitzExtensionTest(),
    "l1 extension, signs": LipschitzExtensionTest(rows="sign"),
    "inner-product extension": LipschitzExtensionTest(constraint="inner_product"),
    "staged (9.3.2)": StagedInnerProductTest(),
    "filtering (9.3.3)": FilteringTest(delta=1e-6),
}
BLOCK = 100


@dataclass(frozen=True)
class LevelCell:
    """Rejections of one test at one size."""

    name: str
    n: int
    d: int
    epsilon: float
    datasets: int
    calibration: int
    rejected: int
    low: float
    high: float
    uniform: bool

    @property
    def inside(self) -> bool:
        return self.low <= self.rejected <= self.high


def configured(name: str, epsilon: float, cache: str) -> PrivateTest:
    test = TESTS[name]
    return type(test)(**{**test.get_params(), "epsilon": epsilon, "cache_dir": cache})


def calibrate(name: str, n: int, d: int, epsilon: float, cache: str) -> None:
    """Simulate one null distribution into the cache."""
    test = configured(name, epsilon, cache)
    test._null_statistics(test.plan(n, d))


def block(name: str, n: int, d: int, size: int, seed: np.random.SeedSequence, cache: str) -> np.ndarray:
    """Return p-values of shape (size, epsilons)."""
    rng = np.random.default_rng(seed)
    tests = [configured(name, epsilon, cache) for epsilon in EPSILONS]
    plans = [test.plan(n, d) for test in tests]
    nulls = [test._null_statistics(plan) for test, plan in zip(tests, plans, strict=True)]
    found = np.empty((size, len(EPSILONS)))
    for i in range(size):
        X: Any = rng.standard_normal((n, d))
        mean = plans[0].reference.signs_mean
        if mean is not None:
            X = np.where(rng.random((n, d)) < (1 + mean) / 2, 1.0, -1.0)
        known = None
        for j, (test, plan, null) in enumerate(zip(tests, plans, nulls, strict=True)):
            if known is None or repr(plan.design) != repr(plans[0].design):
                known = test._exact(X, plan)
            with Session.simulated(plan, rng) as session:
                test._release(known, plan, session)
            found[i, j] = pvalue(null, float(test._combine(session.released, plan)))
    return found


def study(replications: int, jobs: int, *, sizes=SIZES, dimensions=DIMENSIONS, seed: int = 2026) -> list[LevelCell]:
    """Return all cells."""
    grid = list(itertools.product(TESTS, sizes, dimensions))
    cells = []
    with tempfile.TemporaryDirectory() as cache:
        parallel = joblib.Parallel(n_jobs=jobs)
        # The slow ones first, so that no core waits for them at the end.
        order = sorted(itertools.product(grid, EPSILONS), key=lambda job: -(job[0][1] ** 2) * job[0][2])
        parallel(joblib.delayed(calibrate)(*cell, epsilon, cache) for cell, epsilon in order)
        work = []
        for index, (name, n, d) in enumerate(grid):
            datasets = replications if n < 5000 else max(replications // 10, 1)
            sizes_of_blocks = cut(datasets, BLOCK)
            seeds = np.random.SeedSequence([seed, index]).spawn(len(sizes_of_blocks))
            work += [(index, name, n, d, size, s) for size, s in zip(sizes_of_blocks, seeds, strict=True)]
        work.sort(key=lambda item: -(item[2] ** 2) * item[3])
        results = parallel(joblib.delayed(block)(name, n, d, size, s, cache) for _, name, n, d, size, s in work)
    count = len(grid) * len(EPSILONS)
    for index, (name, n, d) in enumerate(grid):
        pieces = [found for item, found in zip(work, results, strict=True) if item[0] == index]
        pvalues = np.concatenate(pieces)
        for j, epsilon in enumerate(EPSILONS):
            B = configured(name, epsilon, "").plan(n, d).n_calibration
            low, high = band(LEVEL, B, len(pvalues), 0.01 / count)
            uniform = all(
                np.sum(pvalues[:, j] <= u) <= band(u, B, len(pvalues), 0.01 / count)[1] for u in (0.01, 0.1, 0.5)
            )
            rejected = int(np.sum(pvalues[:, j] <= LEVEL))
            cells.append(LevelCell(name, n, d, epsilon, len(pvalues), B, rejected, low, high, uniform))
    return cells


def band(level: float, B: int, datasets: int, alarm: float) -> tuple[float, float]:
    """Return the range of rejections that holds with probability 1 - alarm: beta-binomial."""
    k = round(level * (B + 1))
    law = stats.betabinom(datasets, k, B + 1 - k)
    return float(law.ppf(alarm / 2)), float(law.isf(alarm / 2))


def as_markdown(cells: list[LevelCell], replications: int, seconds: float) -> str:
    """Return the table with the command that made it."""
    outside = [cell for cell in cells if not cell.inside]
    smaller = [cell for cell in cells if not cell.uniform]
    lines = [
        "# Level of the identity tests",
        "",
        f"{time.strftime('%Y-%m-%d')}, dpstats {dpstats.__version__}, numpy {np.__version__}; simulated noise; "
        f"{seconds / 60:.0f} minutes.",
        "",
        f"    {' '.join(['python', 'validation/studies/identity_level.py', *sys.argv[1:]])}",
        "",
        f"Rejections at level {LEVEL:g} under the null. The band allows for both Monte Carlo errors, and holds for "
        f"all {len(cells)} cells at once with probability .99. Outside: {len(outside)}. Cells whose p-values are "
        f"stochastically smaller than uniform (at .01, .1, .5): {len(smaller)}.",
        "",
        "| test | n | d | epsilon | datasets | calibration | rejected | band | |",
        "|---|---|---|---|---|---|---|---|---|",
        *(
            f"| {c.name} | {c.n} | {c.d} | {c.epsilon:g} | {c.datasets:,} | {c.calibration:,} "
            f"| {c.rejected / c.datasets:.4f} | [{c.low / c.datasets:.4f}, {c.high / c.datasets:.4f}] "
            f"| {'' if c.inside and c.uniform else '**outside**'} |"
            for c in cells
        ),
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=20_000, help="datasets a cell; a tenth where n = 5000")
    parser.add_argument("--largest", type=int, default=5000, help="leave out larger n")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--no-write", action="store_true")
    options = parser.parse_args()
    start = time.perf_counter()
    cells = study(options.replications, options.jobs, sizes=tuple(n for n in SIZES if n <= options.largest))
    text = as_markdown(cells, options.replications, time.perf_counter() - start)
    print(text)
    if not options.no_write:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
