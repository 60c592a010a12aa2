"""Fits and plans that once took long: over the arithmetic that they cannot do without, or in a fresh process.

Fits of a million rows are divided by X'X of their columns, by the sum of one column, or by the medians of all blocks
and their folds. So are a fit without privacy, and the necessary arithmetic alone: the products of every step, or one
loop that rounds a column and adds it up. Small fits, totals of events and first calls are in milliseconds of one
processor. A first call runs in a process of its own, after the imports, without files of earlier runs.

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
from typing import Any, NamedTuple

import numpy as np
from timing import ROOT, publish, table, versions

Case = Callable[[], Any]

LARGE, SMALL, ROUNDS = 1_000_000, 500, 5
GOALS = {
    "clipped": ("ClippedMean, 1M x 1", 6.0),
    "clipped before": ("the same before numba is imported", 6.0),
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


NOTES = """\
Without privacy: scikit-learn's regressions without a penalty and its principal components, numpy's correlations,
covariance, clipped mean and median. Arithmetic alone: for each step the product of all rows with a matrix and the Gram
matrix of the result, as the package computes them; for ClippedMean one loop that rounds a column and adds up steps and
their squares. So it is the floor of the present methods, on this machine. ClippedMean has compiled loops from 65,536
entries once a process has imported numba, as another fit of at least 2,097,152 entries does."""

REASONS = """\
* Pearson and PCA have five rounds, Hotelling four. One loop reads all rows, whitens, rounds and adds them up. The first
  round whitens by a diagonal matrix, whose zeros the loop leaves out. Half of the time of the others are products.
* A linear regression goes through the same loop eight times, a logistic one seven times: four steps, directions, two
  counts of norms, and a tail. A loop asks for the next rows while it works on these. Fitted outcomes, curves and
  residuals are passes before it.
* Before numba is imported, a mean of one column is about ten operations of numpy on blocks in the cache. The plan, the
  noise and the report alone take 2.8 times as long as the sum.
* The first WorkloadAnswers goes over 2^20 sets of attributes in 31 steps. Fewer steps would change the plan."""

PRODUCTS = {"linear": 4, "logistic": 4, "poisson": 6, "gamma": 6, "pearson": 5, "pca": 5, "hotelling": 4}
"""How often a fit maps all rows by a matrix and forms a Gram matrix of them."""


class Large(NamedTuple):
    """A fit of a million rows, its floor, a fit without privacy, and its necessary arithmetic alone."""

    fit: Case
    floor: Case
    peer: Case
    least: Case | None


def large(name: str) -> Large:
    """Return the calls of a case of a million rows."""
    rng = np.random.default_rng(0)
    if name.startswith("clipped"):
        from dpstats.means import ClippedMean

        column = rng.normal(size=(LARGE, 1))
        mean = ClippedMean(bounds=(-4, 4), random_state=0)
        return Large(
            lambda: mean.fit(column),
            lambda: column.sum(axis=0),
            lambda: column.clip(-4, 4).mean(axis=0),
            round_alone(column) if name == "clipped" else None,
        )
    if name == "statistic":
        from dpstats.statistic import PrivateStatistic

        x = rng.normal(size=(LARGE, 1))
        statistic = PrivateStatistic(np.median, bounds=(-4, 4), random_state=0)
        k = statistic.plan(LARGE, 1).n_blocks
        blocks = [x[i * LARGE // k : (i + 1) * LARGE // k] for i in range(k)]
        parts = [part for block in blocks for part in (block, *(block[len(block) // 5 :],) * 5)]
        return Large(
            lambda: statistic.fit(x).confidence_interval(),
            lambda: list(map(np.median, parts)),
            lambda: np.median(x),
            None,
        )
    if name in ("pearson", "pca", "hotelling"):
        from sklearn.decomposition import PCA

        from dpstats import covariance

        X = rng.normal(size=(LARGE, 20))
        shape: Any = {
            "pearson": partial(covariance.PrivateCorrelation, method="pearson"),
            "pca": partial(covariance.PrivatePCA, n_components=2),
            "hotelling": partial(covariance.HotellingTest, mean=np.zeros(20)),
        }[name](bounds=(-4, 4), random_state=0)
        peers: dict[str, Case] = {
            "pearson": lambda: np.corrcoef(X, rowvar=False),
            "pca": lambda: PCA(2).fit(X),
            "hotelling": lambda: np.linalg.solve(np.cov(X, rowvar=False), X.mean(axis=0)),
        }
        return Large(lambda: shape.fit(X), lambda: X.T @ X, peers[name], multiply_alone(X, PRODUCTS[name]))
    X = rng.normal(size=(LARGE, 10))
    fit, peer = _regression(name, X, rng)
    return Large(fit, lambda: X.T @ X, peer, multiply_alone(X, PRODUCTS[name]))


def multiply_alone(X: Any, times: int) -> Case:
    """Return a case that maps rows by a matrix, and forms their Gram matrix, block by block."""
    from dpstats.lattice.products import ROWS, gram

    whole, turn, out = np.rint(X * 1e4), np.eye(X.shape[1]), np.empty((ROWS, X.shape[1]))

    def run() -> None:
        for _ in range(times):
            for start in range(0, len(whole), ROWS):
                rows = whole[start : start + ROWS]
                gram(np.matmul(rows, turn, out=out[: len(rows)]))

    return run


def round_alone(column: Any) -> Case | None:
    """Return a case that rounds a column to steps, and adds up these and their squares, in one loop of numba."""
    from dpstats.lattice.rounding import compile_loops

    def add(x: Any, shift: float, least: int, most: int) -> tuple[int, int]:
        first, second = 0, 0
        for i in range(x.size):
            steps = min(max(np.float64(x[i] + shift).view(np.int64), least), most) - (least + most) // 2
            first += steps
            second += (steps * steps) >> 30
        return first, second

    shift = 1.5 * 2.0**24
    zero = int(np.float64(shift).view(np.int64))
    made = compile_loops(add)
    return None if made is None else lambda: made[0](column[:, 0], shift, zero - 2**30, zero + 2**30)


def _regression(name: str, X: Any, rng: Any) -> tuple[Case, Case]:
    from sklearn import linear_model

    from dpstats import regression

    predictor = X @ np.full(X.shape[1], 0.2)
    if name == "linear":
        linear = regression.PrivateLinearRegression(x_bounds=(-4, 4), y_bounds=(-8, 8), random_state=0)
        y = predictor + rng.normal(size=len(X))
        return lambda: linear.fit(X, y), lambda: linear_model.LinearRegression().fit(X, y)
    if name == "logistic":
        logistic = regression.PrivateLogisticRegression(x_bounds=(-4, 4), random_state=0)
        binary = (rng.random(len(X)) < 1 / (1 + np.exp(-predictor))).astype(float)
        return lambda: logistic.fit(X, binary), lambda: linear_model.LogisticRegression(C=np.inf).fit(X, binary)
    if name == "poisson":
        poisson = regression.PrivateCountRegression(x_bounds=(-4, 4), y_bounds=(0, 20), random_state=0)
        counts = rng.poisson(np.exp(predictor)).astype(float)
        return lambda: poisson.fit(X, counts), lambda: linear_model.PoissonRegressor(alpha=0).fit(X, counts)
    gamma = regression.PrivateGammaRegression(x_bounds=(-4, 4), y_bounds=(0, 20), random_state=0)
    amounts = rng.gamma(2.0, np.exp(predictor) / 2)
    return lambda: gamma.fit(X, amounts), lambda: linear_model.GammaRegressor(alpha=0).fit(X, amounts)


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
    return _regression(name.split()[1], X, rng)[0]


def seconds(run: Case, repeat: int = 1) -> float:
    """Return the least processor time of a case."""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def measure(name: str) -> list[float]:
    """Return the ratios of a case, of its peer and of its arithmetic to its floor, or its milliseconds."""
    if name in (*PRODUCTS, "clipped", "clipped before", "statistic"):
        case = large(name)
        for run in case:
            if run is not None:
                run()
        rounds = ROUNDS * (20 if name.startswith("clipped") else 1)  # short ones, which other programs disturb more
        times = [[seconds(run) for run in case if run is not None] for _ in range(rounds)]
        fit, floor, *others = np.min(times, axis=0)
        return [fit / floor, *(other / floor for other in others)]
    run = small(name)
    if name.startswith("first"):
        return [1000 * seconds(run)]
    run()
    return [1000 * seconds(run, ROUNDS if name.startswith("compose") else 4 * ROUNDS)]


def process(name: str, folder: str, plain: bool) -> list[float]:
    """Return the figures of a case in a process of its own, with the package of a folder."""
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
    return list(map(float, json.loads(run.stdout)))


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
        if hasattr(os, "sched_setaffinity"):  # the package has as many threads as there are processors
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        print(json.dumps(measure(given.case)))
        return
    folders = [*([given.against] if given.against else []), str(ROOT)]
    rows, missed = [], []
    for name in given.only:
        title, goal = GOALS[name]
        found = [process(name, folder, given.plain) for folder in folders]
        own = [f"{figures[0]:.3g}" for figures in found]
        beside = [f"{figure:.3g}" for figure in found[-1][1:]]
        rows.append([title, *own, *beside, *[""] * (2 - len(beside)), f"{goal:g}"])
        if found[-1][0] > goal:
            floor = f"floor measured: {beside[1]}; " if beside[1:] else ""
            missed.append(f"* {title}: {floor}we are at {own[-1]}, the goal is {goal:g}.")
        print(rows[-1], file=sys.stderr, flush=True)
    header = ["", *(["before"] if given.against else []), "now", "without privacy", "arithmetic alone", "goal"]
    body = f"""\
Processor time with one thread. Fits of a million rows: over X'X, one sum of the column, or the medians of all blocks
and folds, each the least of {ROUNDS} rounds in one process, or of {20 * ROUNDS} for a column. All others in ms:
the least of several runs after the first, or the first call of a process after the imports.

{NOTES}

{table(header, rows)}

## Goals that are not met

{chr(10).join(missed) or "None."}

{REASONS}
"""
    packages = versions("dpstats", "numpy", "scipy", "numba", "scikit-learn")
    publish("benchmark_fits", "Benchmark: fits and plans", body, packages, write=given.write)


if __name__ == "__main__":
    main()
