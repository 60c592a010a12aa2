"""One fit of every kind of container, in two versions of the package in turn: processor time, the least of some runs.

Each version is a folder with the package in it, a worktree of git for example. Files are written once.

    python validation/benchmarks/containers.py OLDER NEWER             print the table
    python validation/benchmarks/containers.py OLDER NEWER --write     and write it to validation/results
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROWS, RUNS, ROUNDS = 200_000, 5, 2


def write_files(folder: Path) -> None:
    """Write a table of four columns as Parquet, CSV and packed CSV; and with labels as Parquet."""
    import pandas as pd

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(size=(ROWS, 4)), columns=list("abcd"))
    frame.to_parquet(folder / "x.parquet")
    for name in ("x.csv", "x.csv.gz"):
        frame.round(4).to_csv(folder / name, index=False)
    frame.assign(g=rng.choice(["u", "v"], ROWS)).to_parquet(folder / "g.parquet")


def cases(folder: Path) -> dict[str, Callable[[], object]]:
    """Return the fits, of the package that is imported."""
    import duckdb
    import pandas as pd

    from dpstats.groups import GroupMeans
    from dpstats.means import ClippedMean
    from dpstats.regression import PrivateLinearRegression

    rng = np.random.default_rng(0)
    X = rng.uniform(size=(5 * ROWS, 4))
    y = X[:ROWS] @ np.ones(4) + rng.normal(size=ROWS)
    mean = ClippedMean(bounds=(0, 1), random_state=0)
    groups = GroupMeans(groups=["u", "v"], by="g", bounds={"a": (0, 1)}, random_state=0)
    regression = PrivateLinearRegression(x_bounds=(0, 1), y_bounds=(-2, 6), random_state=0)
    relation = duckdb.read_parquet(str(folder / "x.parquet"))
    given = {
        "float64 array, 1,000,000 rows": X,
        "float32 array, 1,000,000 rows": X.astype(np.float32),
        "pandas, 1,000,000 rows": pd.DataFrame(X, columns=list("abcd")),
        "DuckDB relation": relation,
        **{name: str(folder / name) for name in ("x.parquet", "x.csv", "x.csv.gz")},
    }
    found: dict[str, Callable[[], object]] = {f"mean, {name}": lambda X=X: mean.fit(X) for name, X in given.items()}
    found["groups, g.parquet"] = lambda: groups.fit(str(folder / "g.parquet"))
    found["linear regression, array"] = lambda: regression.fit(X[:ROWS], y)
    return found


def measured(folder: Path) -> dict[str, float]:
    """Return the milliseconds of processor time of every fit, the least of some runs after one."""
    found = {}
    for name, fit in cases(folder).items():
        fit()
        times = []
        for _ in range(RUNS):
            start = time.process_time()
            fit()
            times.append(time.process_time() - start)
        found[name] = 1000 * min(times)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("versions", nargs="+", help="folders of two versions, the older one first")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measured(Path(options.measure))))
        return
    from timing import publish, table, versions

    least: list[dict[str, float]] = [{} for _ in options.versions]
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder))
        for _ in range(ROUNDS):
            for place, version in enumerate(options.versions):
                environment = {**os.environ, "PYTHONPATH": os.path.abspath(version), "OMP_NUM_THREADS": "1"}
                command = [sys.executable, __file__, version, "--measure", folder]
                ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
                for name, value in json.loads(ran.stdout).items():
                    least[place][name] = min(value, least[place].get(name, value))
    rows = [
        (name, f"{least[0][name]:.0f}", f"{value:.0f}", f"{value / least[0][name]:.2f}")
        for name, value in least[1].items()
    ]
    body = (
        f"Milliseconds of processor time, the least of {ROUNDS * RUNS} fits. Files have {ROWS:,} rows of 4 numbers. "
        "The newer version converts narrow types to float64 before it compares them, and looks at the bytes of a text "
        "file before DuckDB reads it.\n\n"
    )
    publish(
        "benchmark_containers",
        "Fits of every container in two versions",
        body + table(["", "older, ms", "newer, ms", "ratio"], rows),
        versions("duckdb", "numpy", "pandas"),
        write=options.write,
    )


if __name__ == "__main__":
    main()
