"""Fits and plans that once took long: over the arithmetic that they cannot do without, or in a fresh process.

Fits of a million rows are divided by X'X of their columns, or by the medians of all blocks and their folds. Small fits,
totals of events and first calls are in milliseconds of one processor. A first call runs in a process of its own, after
the imports, without files of earlier runs.

    python validation/benchmarks/fits.py                  print the tables: five minutes
    python validation/benchmarks/fits.py --write          and write validation/results/benchmark_fits.md
    python validation/benchmarks/fits.py --against FOLDER compare with the package in another checkout
    python validation/benchmarks/fits.py --plain          without numba
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from timing import ROOT, publish, table, versions

Case = Callable[[], Any]

LARGE, SMALL, ROUNDS = 1_000_000, 500, 5
GOALS = {
    "statistic": ("PrivateStatistic, median of 1M rows", 4.0),
    "linear": ("linear regression, 1M x 10", 15.0),
    "logistic": ("logistic regression, 1M x 10", 15.0),
    "poisson": ("Poisson regression, 1M x 10", 25.0),
    "gamma": ("gamma regression, 1M x 10", 25.0),
    "pearson": ("PrivateCorrelation, Pearson, 1M x 20", 8.0),
    "pca": ("PrivatePCA, 1M x 20", 8.0),
    "hotelling": ("HotellingTest, 1M x 20", 8.0),
    "small linear": ("linear regression, 500 x 5", 8.0),
    "small poisson": ("Poisson regression, 500 x 5", 15.0),
    "small adaptive": ("AdaptiveMean, 500 x 5", 6.0),
    "small statistic": ("PrivateStatistic, 1,000 x 5, epsilon = 16", 20.0),
    "compose 2000": ("compose, 2,000 distinct events", 500.0),
    "compose 4000": ("compose, 4,000 distinct events", 1000.0),
    "first adaptive": ("first AdaptiveMean, 500 x 5", 30.0),
    "first workload": ("first WorkloadAnswers, 20 attributes", 500.0),
    "first identity": ("first identity_test, 5,000 x 50", 4000.0),
    "second identity": ("the same in a second process", 4000.0),
}
"""The title and the goal of each case: a ratio to its floor, or milliseconds."""


SHAPES = ("pearson", "pca", "hotelling")


def large(name: str) -> tuple[Case, Case]:
    """Return a fit of a million rows, and the floor."""
    rng = np.random.default_rng(0)
    if name == "statistic":
        from dpstats.statistic import PrivateStatistic

        x = rng.normal(size=(LARGE, 1))
        statistic = PrivateStatistic(np.median, bounds=(-4, 4), random_state=0)
        k = statistic.plan(LARGE, 1).n_blocks
        blocks = [x[i * LARGE // k : (i + 1) * LARGE // k] for i in range(k)]
        parts = [part for block in blocks for part in (block, *(block[len(block) // 5 :],) * 5)]
        return lambda: statistic.fit(x).confidence_interval(), lambda: list(map(np.median, parts))
    if name in SHAPES:
        from dpstats import covariance

        X = rng.normal(size=(LARGE, 20))
        shape: Any = {
            "pearson": partial(covariance.PrivateCorrelation, method="pearson"),
            "pca": partial(covariance.PrivatePCA, n_components=2),
            "hotelling": partial(covariance.HotellingTest, mean=np.zeros(20)),
        }[name](bounds=(-4, 4), random_state=0)
        return lambda: shape.fit(X), lambda: X.T @ X
    X = rng.normal(size=(LARGE, 10))
    return _regression(name, X, rng), lambda: X.T @ X


def _regression(name: str, X: Any, rng: Any) -> Case:
    from dpstats import regression

    predictor = X @ np.full(X.shape[1], 0.2)
    if name == "linear":
        linear = regression.PrivateLinearRegression(x_bounds=(-4, 4), y_bounds=(-8, 8), random_state=0)
        y = predictor + rng.normal(size=len(X))
        return lambda: linear.fit(X, y)
    if name == "logistic":
        logistic = regression.PrivateLogisticRegression(x_bounds=(-4, 4), random_state=0)
        binary = (rng.random(len(X)) < 1 / (1 + np.exp(-predictor))).astype(float)
        return lambda: logistic.fit(X, binary)
    if name == "poisson":
        poisson = regression.PrivateCountRegression(x_bounds=(-4, 4), y_bounds=(0, 20), random_state=0)
        counts = rng.poisson(np.exp(predictor)).astype(float)
        return lambda: poisson.fit(X, counts)
    gamma = regression.PrivateGammaRegression(x_bounds=(-4, 4), y_bounds=(0, 20), random_state=0)
    amounts = rng.gamma(2.0, np.exp(predictor) / 2)
    return lambda: gamma.fit(X, amounts)


def small(name: str) -> Case:
    """Return a fit of a few rows, or a total."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(SMALL, 5))
    if name.endswith("adaptive"):
        from dpstats.means import AdaptiveMean

        adaptive = AdaptiveMean(bound=100.0, std=1.0, epsilon=1.0, delta=1e-6, random_state=0)
        return lambda: adaptive.fit(X)
    if name == "small statistic":
        from dpstats.statistic import PrivateStatistic

        statistic = PrivateStatistic(lambda X: X.mean(), bounds=(-4, 4), epsilon=16.0, random_state=0)
        rows = rng.normal(size=(1000, 5))
        return lambda: statistic.fit(rows).confidence_interval()
    if name.startswith("compose"):
        from dpstats.privacy import compose
        from dpstats.privacy.events import Pure

        count = int(name.split()[1])
        events = [Pure(0.01 + 0.01 * k / count) for k in range(count)]
        return lambda: compose(events, 1e-6)
    if name == "first workload":
        import pandas as pd

        from dpstats.queries import Domain, WorkloadAnswers

        frame = pd.DataFrame(rng.integers(0, 4, size=(10_000, 20)), columns=[f"a{j}" for j in range(20)])
        domain = Domain({column: list(range(4)) for column in frame})
        workload = WorkloadAnswers(domain=domain, workload=2, random_state=0)
        return lambda: workload.fit(frame)
    if name == "first identity":
        from dpstats.identity import identity_test

        rows = rng.normal(size=(5000, 50))
        return lambda: identity_test(rows, epsilon=1.0, random_state=0)
    return _regression(name.split()[1], X, rng)


def seconds(run: Case, repeat: int = 1) -> float:
    """Return the least processor time of a case."""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def measure(name: str) -> float:
    """Return the ratio of a case to its floor, or its milliseconds."""
    if name in ("statistic", "linear", "logistic", "poisson", "gamma", *SHAPES):
        run, floor = large(name)
        run(), floor()
        return seconds(run, 3) / seconds(floor, 2 * ROUNDS)
    run = small(name)
    if name.startswith("first"):
        return 1000 * seconds(run)
    run()
    return 1000 * seconds(run, ROUNDS if name.startswith("compose") else 4 * ROUNDS)


def process(name: str, folder: str, plain: bool) -> float:
    """Return the figure of a case in a process of its own, with the package of a folder."""
    if name.startswith("first"):  # as after an installation
        for kept in Path(folder, "dpstats", "identity", "__pycache__").glob("null-*.npy"):
            kept.unlink()
    threads = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
    environment = {**os.environ, **threads, "PYTHONPATH": folder}
    case = name.replace("second", "first")
    run = subprocess.run(
        [sys.executable, __file__, "--case", case, *["--plain"] * plain],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return float(json.loads(run.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="also write the table to validation/results")
    parser.add_argument("--against", help="another checkout, measured beside this one")
    parser.add_argument("--plain", action="store_true", help="as if numba were not installed")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--only", nargs="*", default=list(GOALS), help="some of the cases")
    given = parser.parse_args()
    if given.case:
        if given.plain:
            sys.modules["numba"] = None  # type: ignore[assignment]
        print(json.dumps(measure(given.case)))
        return
    folders = [*([given.against] if given.against else []), str(ROOT)]
    rows = []
    for name in given.only:
        title, goal = GOALS[name]
        figures = [f"{process(name, folder, given.plain):.3g}" for folder in folders]
        rows.append([title, *figures, f"{goal:g}"])
        print(rows[-1], file=sys.stderr, flush=True)
    header = ["", *(["before"] if given.against else []), "now", "goal"]
    body = f"""\
Processor time with one thread. Fits of a million rows: over the floor, X'X or the medians of all blocks
and folds, each the least of several runs in one process. All others in milliseconds: the least of several runs after
the first, or the first call of a process after the imports.

{table(header, rows)}
"""
    packages = versions("dpstats", "numpy", "scipy", "numba", "scikit-learn")
    publish("benchmark_fits", "Benchmark: fits and plans", body, packages, write=given.write)


if __name__ == "__main__":
    main()
