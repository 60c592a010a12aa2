"""Adaptive and sparse means beside numpy's sum of the same rows.

The limit of a pass over the data is ``X.sum(axis=0)``. AdaptiveMean reads the rows once a stage;
SparseMean reads all columns once, and then the selected ones. Plans see no data, and are timed alone.

    python validation/benchmarks/adaptive_sparse.py            print the tables
    python validation/benchmarks/adaptive_sparse.py --write    and write validation/results/benchmark_adaptive_sparse.md

It takes three minutes and 5 GB.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse
from timing import Case, Times, interleaved, milliseconds, publish, ratios, table, versions, without_numba, write_wanted

from dpstats.means import AdaptiveMean, SparseMean
from dpstats.means.adaptive_radii import plan_stages

ROUNDS = 5
LIMIT = "numpy, `X.sum(axis=0)`: the limit"


def adaptive_rows(X: np.ndarray) -> list[list[str]]:
    """Return the rows of the table about AdaptiveMean."""
    stds = np.linspace(1.0, 1.5, X.shape[1])
    made = {
        "AdaptiveMean, one std": AdaptiveMean(bound=10.0, std=1.0),
        "AdaptiveMean, a std per column": AdaptiveMean(bound=10.0, std=stds),
    }
    stages = {name: len(estimator.plan(*X.shape).stages) for name, estimator in made.items()}
    fits: dict[str, Case] = {name: lambda e=estimator: e.fit(X) for name, estimator in made.items()}
    for name in made:
        stages[f"{name}, without numba"] = stages[name]
        fits[f"{name}, without numba"] = without_numba(fits[name])
    times = interleaved({LIMIT: lambda: X.sum(axis=0), **fits}, ROUNDS)
    return [
        [name, str(stages.get(name, "")), milliseconds(seconds), ratios(seconds, times[LIMIT])]
        for name, seconds in times.items()
    ]


def sparse_rows(X: np.ndarray) -> tuple[list[list[str]], Times]:
    """Return the rows of the table about SparseMean."""
    exact = SparseMean(n_nonzero=20, clip=6.0, std=1.0)
    cases: dict[str, Case] = {
        LIMIT: lambda: X.sum(axis=0),
        "SparseMean, simulated noise": lambda: SparseMean(n_nonzero=20, clip=6.0, std=1.0, random_state=0).fit(X),
        "SparseMean, exact noise": lambda: exact.fit(X),
    }
    times = interleaved(cases, ROUNDS)
    return [[name, milliseconds(s), ratios(s, times[LIMIT])] for name, s in times.items()], times


def stored_rows(n: int, d: int) -> list[list[str]]:
    """Return the rows of the table about scipy.sparse input."""
    X = scipy.sparse.random_array((n, d), density=0.005, format="csr", rng=np.random.default_rng(0))
    exact = SparseMean(n_nonzero=20, clip=6.0, std=1.0)
    limit = "scipy, `X.sum(axis=0)`"
    cases: dict[str, Case] = {limit: lambda: X.sum(axis=0), "SparseMean, exact noise": lambda: exact.fit(X)}
    times = interleaved(cases, ROUNDS)
    return [[name, milliseconds(s), ratios(s, times[limit])] for name, s in times.items()]


def plan_rows() -> list[list[str]]:
    """Return the rows of the table about plans."""
    cases: dict[str, Case] = {}
    for n, d in ((500, 5), (10_000, 500), (1_000_000, 50)):
        estimator = AdaptiveMean(bound=10.0, std=1.0)

        def plan(estimator: AdaptiveMean = estimator, n: int = n, d: int = d) -> object:
            plan_stages.cache_clear()
            return estimator.plan(n, d)

        cases[f"AdaptiveMean, {n:,} x {d}"] = plan
    for selection in ("gumbel", "peeling"):
        sparse = SparseMean(n_nonzero=20, clip=6.0, std=1.0, selection=selection)
        cases[f"SparseMean, {selection}, 10,000 x 100,000"] = lambda sparse=sparse: sparse.plan(10_000, 100_000)
    times = interleaved(cases, ROUNDS)
    return [[name, milliseconds(seconds)] for name, seconds in times.items()]


def main() -> None:
    write = write_wanted(__doc__)
    rng = np.random.default_rng(0)
    adaptive = adaptive_rows(rng.normal(size=(1_000_000, 50)))
    wide = rng.standard_normal(size=(10_000, 100_000), dtype=np.float32)
    sparse, _ = sparse_rows(wide)
    del wide
    body = f"""\
Median times of {ROUNDS} rounds in which all cases of a table ran in turn, and the median ratio to the limit in the
same round (smallest to largest). numpy's sum runs on one thread, fits on as many as there are cores.

## AdaptiveMean on 1,000,000 x 50 float64 numbers

{table(["mean", "stages", "ms", "times the limit"], adaptive)}

## SparseMean on 10,000 x 100,000 float32 numbers

{table(["mean", "ms", "times the limit"], sparse)}

## SparseMean on a sparse table of 10,000 x 100,000, 0.5% of it stored

{table(["mean", "ms", "times the limit"], stored_rows(10_000, 100_000))}

## Plans

No data, nothing cached.

{table(["plan", "ms"], plan_rows())}"""
    publish(
        "benchmark_adaptive_sparse",
        "Benchmark: adaptive and sparse means",
        body,
        versions("dpstats", "numba", "numpy", "scipy"),
        write=write,
    )


if __name__ == "__main__":
    main()
