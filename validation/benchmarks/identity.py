"""The identity tests beside the arithmetic that they cannot do without.

The row distance of 10,000 x 1,000 rows beside the bare matrix product X X^T (float32; numpy takes half the
products, by symmetry); the spatial-sign and l1 tests of 1,000,000 x 100 rows beside ``X.sum(axis=0)``; and the
calibration of the row-distance test for (1000, 100) with 1999 null datasets, and from the cache.

    python validation/benchmarks/identity.py            print the tables
    python validation/benchmarks/identity.py --write    and write validation/results/benchmark_identity.md

It takes two minutes and 2 GB.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time

import numpy as np
from timing import cores, interleaved, milliseconds, publish, ratios, table, versions, write_wanted

from dpstats.identity import LipschitzExtensionTest, RowDistanceTest, SpatialSignTest, row_distance
from dpstats.identity import calibration as null
from dpstats.identity.row_distance_statistic import round_to_steps
from dpstats.release.session import Session

ROUNDS = 5
N, D = 10_000, 1000
LONG_N, LONG_D = 1_000_000, 100
RHO, A0 = round(64 * D**0.5), round(64 * (N * D) ** 0.5)


def rows() -> np.ndarray:
    X = np.random.default_rng(0).standard_normal((N, D), dtype=np.float32)
    return round_to_steps(X, X)


def row_table() -> str:
    """Return the row distance beside the product."""
    X = rows()
    out = np.empty((N, N), dtype=np.float32)
    limit = "numpy, `np.matmul(X, X.T, out=out)`: the limit"
    times = interleaved(
        {limit: lambda: np.matmul(X, X.T, out=out), "row_distance": lambda: row_distance(X, RHO, A0, 1e7, bound=32)},
        ROUNDS,
    )
    return table(
        ["row distance", "ms", "times the limit"],
        [[name, milliseconds(seconds), ratios(seconds, times[limit])] for name, seconds in times.items()],
    )


def memory() -> float:
    """Return the growth of the resident memory of a process that computes a row distance, in MiB."""
    X = rows()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    row_distance(X, RHO, A0, 1e7, bound=32)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def sum_table() -> str:
    """Return one-pass tests beside the sum. Statistic and noise; calibrations are cached."""
    X = np.random.default_rng(0).standard_normal((LONG_N, LONG_D))
    limit = "numpy, `X.sum(axis=0)`: the limit"
    cases = {limit: lambda: X.sum(axis=0)}
    for name, test in {
        "spatial sign": SpatialSignTest(),
        "l1 extension": LipschitzExtensionTest(),
        "l1 extension, signs": LipschitzExtensionTest(rows="sign"),
    }.items():
        plan = test.plan(LONG_N, LONG_D)
        cases[name] = lambda test=test, plan=plan: test._release(
            test._exact(X, plan), plan, Session.simulated(plan, np.random.default_rng(0)).open()
        )
    times = interleaved(cases, ROUNDS)
    return table(
        ["statistic and noise", "ms", "times the limit"],
        [[name, milliseconds(seconds), ratios(seconds, times[limit])] for name, seconds in times.items()],
    )


def calibration_table() -> str:
    """Return the time of one calibration, simulated and cached."""
    test = RowDistanceTest(n_calibration=1999, n_jobs=-1)
    plan = test.plan(1000, 100)
    found: dict[str, list[float]] = {"simulated": [], "cached": []}
    for _ in range(3):
        null.forget()
        for name in found:
            start = time.perf_counter()
            test._null_statistics(plan)
            found[name].append(time.perf_counter() - start)
    return table(
        ["calibration of (1000, 100), B = 1999", "seconds"],
        [[name, f"{statistics.median(seconds):.3g}"] for name, seconds in found.items()],
    )


def main() -> None:
    if sys.argv[1:] == ["--memory"]:
        print(memory())
        return
    write = write_wanted(__doc__)
    grown = float(
        subprocess.run([sys.executable, __file__, "--memory"], capture_output=True, text=True, check=True).stdout
    )
    body = f"""\
## Row distance of {N:,} x {D:,} rows

Median times of {ROUNDS} rounds in which all cases ran in turn, and the median ratio to the limit in the same round
(smallest to largest), on {cores()} cores. Beyond the rows it takes {grown:.0f} MiB (growth of the resident memory).

{row_table()}

## One-pass tests on {LONG_N:,} x {LONG_D} float64 numbers

{sum_table()}

## Calibration

{calibration_table()}"""
    packages = versions("dpstats", "numpy", "scipy", "scikit-learn")
    publish("benchmark_identity", "Benchmark: identity tests", body, packages, write=write)


if __name__ == "__main__":
    main()
