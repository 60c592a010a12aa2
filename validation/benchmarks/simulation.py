"""The harness beside a bare loop, and the mean study beside the same loop in other libraries.

A study draws data, fits, and measures; what it adds to a loop that does only this - seeds, rows kept in a file,
cloning, routing of names - is to stay below 10%. The mean study is 8 sizes up to n = 100,000 of d = 64 normal
columns, 400 replications each (its full time is told from fewer, as all replications cost the same).

    python validation/benchmarks/simulation.py             print the tables
    python validation/benchmarks/simulation.py --write     and write validation/results/benchmark_simulation.md
    python validation/benchmarks/simulation.py --reduced   small sizes, few replications
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from timing import cores, publish, table, versions

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "peers"))
from environment import run_in_peers

from dpstats.means import ClippedMean
from dpstats.mechanisms import GaussianMechanism
from dpstats.simulation import Gaussian, Study

PEERS = Path(__file__).resolve().parents[1] / "peers"
D, CLIP, EPSILON, DELTA = 64, 6.0, 1.0, 1e-6
SIZES = (100, 300, 1000, 3000, 10_000, 30_000, 60_000, 100_000)
REPLICATIONS = 400
LIMIT = 0.10


def study_seconds(n: int, replications: int) -> float:
    """Return the seconds per replication of a study of one cell; its file is made before the clock starts."""
    estimator = ClippedMean(epsilon=EPSILON, delta=DELTA, clip=CLIP)
    grid = {"n": [n], "d": [D]}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.sqlite"
        # The first replication is there already: what is timed is going on with a study.
        Study(Gaussian(), estimator, grid, 1).run(path, n_jobs=1)
        study = Study(Gaussian(), estimator, grid, replications + 1)
        start = time.perf_counter()
        study.run(path, n_jobs=1)
        return (time.perf_counter() - start) / replications


def loop_seconds(n: int, replications: int) -> float:
    """Return the seconds per replication of a bare loop: draw, fit, squared error."""
    rng = np.random.default_rng(0)
    estimator = ClippedMean(epsilon=EPSILON, delta=DELTA, clip=CLIP, random_state=rng)
    losses = np.empty(replications)
    start = time.perf_counter()
    for r in range(replications):
        fitted = estimator.fit(rng.standard_normal((n, D)))
        losses[r] = fitted.mean_ @ fitted.mean_
    return (time.perf_counter() - start) / replications


def numpy_seconds(n: int, replications: int) -> float:
    """Return the same for numpy alone: draw, clip, mean, one draw of noise, squared error."""
    rng = np.random.default_rng(0)
    scale = GaussianMechanism(2 * CLIP * math.sqrt(D) / n, EPSILON, DELTA).sigma
    losses = np.empty(replications)
    start = time.perf_counter()
    for r in range(replications):
        X = rng.standard_normal((n, D))
        mean = X.clip(-CLIP, CLIP).mean(axis=0) + scale * rng.standard_normal(D)
        losses[r] = mean @ mean
    return (time.perf_counter() - start) / replications


def opendp_seconds(n: int, replications: int) -> float:
    """Return the same for OpenDP: its clamp, mean and noise, one column at a time."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=n)
    clamped = (domain, dp.symmetric_distance()) >> dp.t.then_clamp((-CLIP, CLIP)) >> dp.t.then_mean()
    sensitivity = math.sqrt(D) * clamped.map(2)
    private = clamped >> dp.m.then_gaussian(scale=GaussianMechanism(sensitivity, EPSILON, DELTA).sigma)
    rng = np.random.default_rng(0)
    losses = np.empty(replications)
    start = time.perf_counter()
    for r in range(replications):
        X = np.asfortranarray(rng.standard_normal((n, D)))
        mean = np.array([private(X[:, j]) for j in range(D)])
        losses[r] = mean @ mean
    return (time.perf_counter() - start) / replications


def diffprivlib_seconds(sizes: tuple[int, ...], replications: int) -> dict[str, float]:
    """Return the seconds per replication of every size, from an environment of its own."""
    given = json.dumps({"sizes": list(sizes), "d": D, "replications": replications})
    return dict(
        run_in_peers(Path(__file__).resolve().parents[1] / "peers" / "time_diffprivlib_study.py", given)["seconds"]
    )


def in_turn(cases: dict[str, Callable[[int, int], float]], n: int, replications: int, rounds: int) -> dict[str, list]:
    """Run the cases in turn, and return the seconds per replication of every round."""
    times: dict[str, list] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, run in cases.items():
            times[name].append(run(n, replications))
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="also write the tables to validation/results")
    parser.add_argument("--reduced", action="store_true", help="small sizes, few replications")
    options = parser.parse_args()
    sizes = SIZES[:5] if options.reduced else SIZES
    rounds = 3 if options.reduced else 5
    cases: dict[str, Callable[[int, int], float]] = {
        "study": study_seconds,
        "loop": loop_seconds,
        "numpy": numpy_seconds,
    }
    try:
        import opendp  # noqa: F401

        cases["opendp"] = opendp_seconds
    except ImportError:
        pass
    study_seconds(100, 2)  # what is loaded once
    few = {n: max(3, min(400, 1_000_000 // n) // (4 if options.reduced else 1)) for n in sizes}
    peers = diffprivlib_seconds(sizes, 3 if options.reduced else 10)
    rows, totals = [], dict.fromkeys([*cases, "diffprivlib"], 0.0)
    for n in sizes:
        times = in_turn(cases, n, few[n], rounds)
        middle = {name: statistics.median(values) for name, values in times.items()}
        over = statistics.median(a / b for a, b in zip(times["study"], times["loop"], strict=True)) - 1
        for name, seconds in middle.items():
            totals[name] += REPLICATIONS * seconds
        totals["diffprivlib"] += REPLICATIONS * peers.get(str(n), math.nan)
        theirs = [middle.get("opendp", math.nan), peers.get(str(n), math.nan)]
        shown = [f"{1000 * value:.3g}" for value in (middle["study"], middle["loop"], middle["numpy"], *theirs)]
        rows.append([f"{n:,}", *shown, f"{100 * over:.1f}%"])
    overhead = totals["study"] / totals["loop"] - 1
    over_numpy = totals["study"] / totals["numpy"] - 1
    summary = [
        [name, f"{seconds:.0f}", f"{seconds / totals['study']:.2f}"]
        for name, seconds in totals.items()
        if math.isfinite(seconds) and seconds > 0
    ]
    body = f"""\
## Time of a replication, ms

Median of {rounds} rounds in turn; one process. d = {D}, clip {CLIP:g}, epsilon = {EPSILON:g},
delta = {DELTA:g} (diffprivlib: Laplace noise). "loop" draws the rows and calls the public `fit`; "numpy" draws,
clips, averages and adds noise that protects nobody, without validation, lattice or accounting.

{table(["n", "study", "loop", "numpy", "OpenDP", "diffprivlib", "study over loop"], rows)}

## The whole study: {len(sizes)} sizes, {REPLICATIONS} replications each, seconds of one process

{table(["", "seconds", "over the study"], summary)}

The harness costs {100 * overhead:.1f}% over the loop that calls the public fit (limit: {100 * LIMIT:.0f}%), and the
study {100 * over_numpy:.0f}% over numpy's draw and mean alone. With `n_jobs=-1` it runs on all {cores()} cores.
"""
    packages = versions("dpstats", "numpy", "scikit-learn", "joblib")
    publish("benchmark_simulation", "Benchmark: simulation studies", body, packages, write=options.write)


if __name__ == "__main__":
    main()
