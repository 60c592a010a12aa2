"""Rows that are not in memory: time and memory beside DuckDB's and Polars' own means, and tens of gigabytes.

Every case runs in a process of its own, whose largest resident memory is stated. Parquet: uniform numbers, written
once. Generated rows: DuckDB makes them of a counter, Dask of seeds; no more than a block of them exists at a time. In
the last case a worker of the cluster is killed in the middle of a fit, whose estimate has to be that of the fit before.

    python validation/benchmarks/engines.py                     print the tables
    python validation/benchmarks/engines.py --write             and write validation/results/benchmark_engines.md
    python validation/benchmarks/engines.py --gigabytes 1       less of them
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from timing import publish, table, versions

from dpstats.means import AdaptiveMean, ClippedMean
from dpstats.privacy import PrivacyBudget
from dpstats.regression import PrivateLinearRegression

ROWS, COLUMNS, ROUNDS = 20_000_000, 4, 3
WIDTH = 10  # columns of generated rows
NAMES = [f"c{j}" for j in range(COLUMNS)]


def mean() -> ClippedMean:
    return ClippedMean(bounds=(0, 1), random_state=0)


def with_duckdb(path: str) -> Any:
    import duckdb

    return duckdb.sql(f"SELECT {', '.join(f'avg({name})' for name in NAMES)} FROM '{path}'").fetchall()


def with_polars(path: str) -> Any:
    import polars

    return polars.scan_parquet(path).mean().collect(engine="streaming")


CASES: dict[str, Callable[[str], Any]] = {
    "Polars, streaming float means": with_polars,
    "DuckDB, float means": with_duckdb,
    "`ClippedMean`, no spread": lambda path: mean().set_params(std=None).fit(path),
    "`ClippedMean`": lambda path: mean().fit(path),
    "`ClippedMean` of a ball": lambda path: ClippedMean(clip=1.0, center=0.5, clip_norm="l2", random_state=0).fit(path),
    "`AdaptiveMean`": lambda path: AdaptiveMean(bounds=(0, 1), std=0.3, random_state=0).fit(path),
    "`PrivateLinearRegression`": lambda path: PrivateLinearRegression(
        x_bounds=(0, 1), y_bounds=(0, 1), random_state=0
    ).fit(path, NAMES[-1]),
}


def alone(name: str, argument: str) -> tuple[float, float, Any]:
    """Return seconds, MiB and what a case found, in a process of its own."""
    command = [sys.executable, __file__, "--case", name, "--argument", argument]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ})
    found = json.loads(done.stdout.splitlines()[-1])
    return found["seconds"], found["mebibytes"], found["estimate"]


def measured(work: Callable[[], Any]) -> dict[str, Any]:
    """Run a case in this process."""
    start = time.perf_counter()
    found = work()
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    estimate = getattr(found, "mean_", None)
    return {
        "seconds": seconds,
        "mebibytes": peak,
        "estimate": None if estimate is None else np.asarray(estimate).tolist(),
    }


def generated_by_duckdb(gigabytes: float) -> Any:
    import duckdb

    rows = int(gigabytes * 1e9 / (8 * WIDTH))
    connection = duckdb.connect(config={"memory_limit": "500MB"})
    columns = ", ".join(f"((i * {7919 + 2 * j}) % 1000003) / 1000003.0::DOUBLE AS c{j}" for j in range(WIDTH))
    return mean().fit(connection.sql(f"SELECT {columns} FROM range({rows}) t(i)"))


def generated_by_dask(gigabytes: float, kill: bool = False) -> Any:
    """Fit to rows of a cluster of two workers; with ``kill`` one of them is killed in the middle."""
    import dask.array as da
    from distributed import Client, LocalCluster

    rows = int(gigabytes * 1e9 / (8 * WIDTH))
    block = 1 << 20
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):
        X = da.random.default_rng(1).random((rows, WIDTH), chunks=(block, WIDTH))
        if not kill:
            return mean().fit(X)
        expected = mean().fit(X)
        budget = PrivacyBudget(epsilon=1.0, delta=1e-6)
        fitted = mean().set_params(random_state=0)
        victim = next(iter(cluster.workers.values()))
        timer = threading.Timer(1.0, victim.process.process._process.kill)
        timer.start()
        again = fitted.fit(X)
        assert timer.finished.is_set(), "the fit ended before the worker was killed"
        assert np.array_equal(again.mean_, expected.mean_)
        private = ClippedMean(bounds=(0, 1), budget=budget).fit(X)
        assert len(budget.history()) == 1 and np.abs(private.mean_ - 0.5).max() < 0.01
        return again


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=50.0)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--argument", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        other = {
            "duckdb": lambda: generated_by_duckdb(float(options.argument)),
            "dask": lambda: generated_by_dask(float(options.argument)),
            "killed": lambda: generated_by_dask(float(options.argument), kill=True),
        }
        work = other.get(options.case) or (lambda: CASES[options.case](options.argument))
        print(json.dumps(measured(work)))
        return
    import duckdb

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "rows.parquet")
        numbers = ", ".join(f"random() AS {name}" for name in NAMES)
        duckdb.sql(f"COPY (SELECT {numbers} FROM range({options.rows})) TO '{path}'")
        found: dict[str, list[tuple[float, float, Any]]] = {name: [] for name in CASES}
        for _ in range(ROUNDS):
            for name, runs in found.items():
                runs.append(alone(name, path))
    rows = [
        (name, f"{np.median([run[0] for run in runs]):.2f}", f"{max(run[1] for run in runs):,.0f}")
        for name, runs in found.items()
    ]
    parts = [
        f"Parquet, {options.rows:,} rows of {COLUMNS} numbers: medians of {ROUNDS} runs, each in a process of its own "
        "(whose imports count in the memory, and not in the time).",
        "",
        table(("", "seconds", "largest memory, MiB"), rows),
        "",
        f"{options.gigabytes:g} GB of rows of {WIDTH} numbers that are generated as they are read, `ClippedMean` with "
        "its private spread. Memory is that of the process that fits; workers of Dask hold a block of 80 MB each.",
        "",
    ]
    shares = (1.0, 1.0, 0.2)
    words = (
        "DuckDB, `memory_limit` of 500 MB",
        "Dask, two local workers",
        "the same, a fifth, one worker killed in the middle: the same estimate, one charge",
    )
    large = []
    for case, share, word in zip(("duckdb", "dask", "killed"), shares, words, strict=True):
        seconds, peak, _ = alone(case, str(share * options.gigabytes))
        large.append((word, f"{share * options.gigabytes:g}", f"{seconds:.0f}", f"{peak:,.0f}"))
    parts.append(table(("", "GB", "seconds", "largest memory, MiB"), large))
    publish(
        "benchmark_engines",
        "Rows that are not in memory",
        "\n".join(parts),
        versions("dask", "distributed", "dpstats", "duckdb", "numpy", "polars"),
        write=options.write,
    )


if __name__ == "__main__":
    main()
