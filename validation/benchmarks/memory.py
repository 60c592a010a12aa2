"""Fits of rows in memory over the arithmetic that they cannot avoid, in this version of the package and another.

The limit of a mean is ``X.sum(axis=0)``, that of a mean of groups the same mean by ``groupby`` of pandas, and that of a
covariance one product X'X. Each version runs in a process of its own, in turn, and measures its limits beside its fits.
Results at a fixed seed are compared: a change that is for speed only changes none of them.

    python validation/benchmarks/memory.py OLDER NEWER            print the table
    python validation/benchmarks/memory.py OLDER NEWER --write    and write validation/results/benchmark_memory.md

Each version is a folder with the package in it, a worktree of git for example. It takes eight minutes and 1 GB.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROWS, GROUPS, ROUNDS = 1_000_000, 50, 2
SECONDS = 0.5  # of runs of a case in a round, and at least three
BOUNDS = (-4.0, 4.0)

Case = Callable[[], Any]


def cases() -> Iterator[tuple[str, str, dict[str, Case]]]:
    """Yield limits with what runs beside them: the name of the limit, its case, and the fits."""
    import pandas as pd

    from dpstats.covariance import HotellingTest, PrivateCorrelation, PrivateCovariance, PrivatePCA
    from dpstats.groups import GroupMeans
    from dpstats.means import AdaptiveMean, ClippedMean, SparseMean

    def fitted(kind: Any, *data: Any, **parameters: Any) -> Case:
        return lambda: kind(random_state=0, **parameters).fit(*data)

    rng = np.random.default_rng(0)
    for d in (1, 5, 20):
        X = rng.normal(size=(ROWS, d))
        holes = X.copy()
        holes[rng.random(ROWS) < 0.01, 0] = np.nan
        far = X.copy()
        far[rng.random(ROWS) < 0.01] *= 1e3
        box, added = {"bounds": BOUNDS}, {"neighbors": "add_or_remove"}
        found = {
            "ClippedMean": fitted(ClippedMean, X, delta=1e-6, **box),
            "ClippedMean, delta = 0": fitted(ClippedMean, X, **box),
            "ClippedMean, frame of pandas": fitted(ClippedMean, pd.DataFrame(X), delta=1e-6, **box),
            "ClippedMean, missing='drop'": fitted(ClippedMean, holes, delta=1e-6, missing="drop", **box),
            "ClippedMean, missing='center'": fitted(ClippedMean, holes, delta=1e-6, missing="center", **box),
            "ClippedMean, add_or_remove": fitted(ClippedMean, X, delta=1e-6, **added, **box),
            "ClippedMean, add_or_remove, delta = 0": fitted(ClippedMean, X, **added, **box),
            "ClippedMean, add_or_remove, frame of pandas": fitted(
                ClippedMean, pd.DataFrame(X), delta=1e-6, **added, **box
            ),
            "AdaptiveMean, private std": fitted(AdaptiveMean, X, bound=50.0, std="private", std_bound=10.0, delta=1e-6),
        }
        if d > 1:
            sparse = {"n_nonzero": 3, "clip": 3.0, "std": 1.0, "delta": 1e-6}
            found["SparseMean"] = fitted(SparseMean, X, **sparse)
            found["SparseMean, 1% of the rows far away"] = fitted(SparseMean, far, **sparse)
        yield f"`X.sum(axis=0)`, d = {d}", lambda X=X: X.sum(axis=0), found
    yield (
        "`X.T @ X`, d = 20",
        lambda: X.T @ X,
        {
            "PrivateCovariance": fitted(PrivateCovariance, X, **box),
            "PrivateCorrelation, Pearson": fitted(PrivateCorrelation, X, method="pearson", **box),
            "PrivatePCA": fitted(PrivatePCA, X, n_components=2, **box),
            "HotellingTest": fitted(HotellingTest, X, mean=np.zeros(d), **box),
        },
    )
    X = rng.normal(size=(ROWS, 5))
    frame, codes = pd.DataFrame(X), rng.integers(0, GROUPS, ROWS)
    words = np.array([f"g{place:02d}" for place in range(GROUPS)])
    texts = words[codes]
    labels = {
        "whole numbers": (codes, list(range(GROUPS))),
        "text, object": (texts.astype(object), words.tolist()),
        "text, string[pyarrow]": (pd.Series(texts, dtype="string[pyarrow]"), words.tolist()),
        "text, numpy": (texts, words.tolist()),
    }
    for name, (given, groups) in labels.items():
        column = given if isinstance(given, pd.Series) else pd.Series(given)
        means = {f"GroupMeans, {name}": fitted(GroupMeans, X, given, groups=groups, **box)}
        yield f"`groupby`, {name}", lambda column=column: frame.groupby(column).mean(), means


def milliseconds(run: Case) -> float:
    """Return the least processor time of some runs, after one."""
    run()
    times: list[float] = []
    while len(times) < 3 or sum(times) < SECONDS:
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return 1000 * min(times)


def fingerprint(fitted: Any) -> str:
    """Return a number for the released numbers of a fit."""
    numbers = {
        name: np.asarray(value, dtype=np.float64).tobytes()
        for name, value in sorted(vars(fitted).items())
        if name.endswith("_") and isinstance(value, float | np.ndarray) and np.asarray(value).dtype.kind == "f"
    }
    assert numbers
    return hashlib.sha256(repr(numbers).encode()).hexdigest()


def measured() -> dict[str, tuple[float, float, str]]:
    """Return for every fit the milliseconds, those of its limit, and its released numbers."""
    found = {}
    for limit, floor, fits in cases():
        least = milliseconds(floor)
        for name, fit in fits.items():
            found[f"{name} | {limit}"] = milliseconds(fit), least, fingerprint(fit())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("versions", nargs="*", help="folders of two versions, the older one first")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measured()))
        return
    from timing import publish, table, versions

    runs: list[list[dict[str, Any]]] = [[] for _ in options.versions]
    for _ in range(ROUNDS):
        for place, version in enumerate(options.versions):
            environment = {**os.environ, "PYTHONPATH": os.path.abspath(version), "OMP_NUM_THREADS": "1"}
            command = [sys.executable, str(Path(__file__).resolve()), "--measure"]
            ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            runs[place].append(json.loads(ran.stdout))
    rows = []
    for case in runs[0][0]:
        own = [[min(run[case][part] for run in each) for part in (0, 1)] for each in runs]
        # Both versions have the same limit: the least time that it took in any process.
        floor = min(times[1] for times in own)
        same = len({run[case][2] for each in runs for run in each}) == 1
        over = [f"{times[0] / floor:.3g}" for times in own]
        name, limit = case.split(" | ")
        spent = [f"{times[0]:.3g}" for times in own]
        rows.append([name, limit, f"{floor:.3g}", *spent, *over, "yes" if same else "**no**"])
    before = ["older, ms", "newer, ms", "older, over the limit", "newer, over the limit"]
    body = (
        f"Processor time of {ROWS:,} rows on one core, from validation to noise and intervals: the least of all runs "
        f"in {ROUNDS} processes of each version. The last column says whether both versions release the same numbers "
        "at a fixed seed.\n\n"
    )
    header = ["fit", "limit", "limit, ms", *before[: len(runs)], *before[2 : 2 + len(runs)], "same numbers"]
    if len(runs) == 1:
        header = ["fit", "limit", "limit, ms", "ms", "over the limit", "same numbers"]
    publish(
        "benchmark_memory",
        "Benchmark: rows in memory",
        body + table(header, rows),
        versions("numpy", "numba", "pandas"),
        write=options.write,
    )


if __name__ == "__main__":
    main()
