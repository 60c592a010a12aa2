"""The primitive mechanisms beside their limits and their peers.

Selection among 1,000,000 candidates beside OpenDP's and diffprivlib's (in an environment of its own);
sparse vector, in questions a second; randomized response on 10,000,000 bits beside the random generator
that it has to call. Exact noise and the noise of simulations are timed apart.

    python validation/benchmarks/mechanisms.py            print the tables
    python validation/benchmarks/mechanisms.py --write    and write validation/results/benchmark_mechanisms.md
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

import numpy as np
import opendp.prelude as dp
from timing import Case, interleaved, milliseconds, publish, ratios, table, versions, write_wanted

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "peers"))
import time_diffprivlib_selection

from dpstats.mechanisms import (
    AboveThreshold,
    ExponentialMechanism,
    NoisyTopK,
    NumericSparseVector,
    PermuteAndFlip,
    RandomizedResponse,
    ReportNoisyMax,
)

CANDIDATES, QUESTIONS, ANSWERS = 1_000_000, 1_000_000, 10_000_000
EXACT_QUESTIONS = 100_000
ROUNDS = 3


def opendp_selection(measure: object) -> Case:
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
    select = dp.m.make_noisy_max(*space, measure, scale=2.0)
    values = _utilities().tolist()
    return lambda: select(values)


def _utilities() -> np.ndarray:
    return np.random.default_rng(0).integers(1000, size=CANDIDATES)


def selection_table(peer: dict) -> str:
    """Return the table of selections."""
    utilities = _utilities()
    limit = "numpy, `argmax(u + gumbel(size))`: the limit of a simulation"
    generator = np.random.default_rng(1)
    cases: dict[str, Case] = {limit: lambda: np.argmax(utilities + generator.gumbel(size=CANDIDATES))}
    for kind, state in (("exact", None), ("simulated", 0)):
        made = {
            "ExponentialMechanism": ExponentialMechanism(1, 1, random_state=state),
            "PermuteAndFlip": PermuteAndFlip(1, 1, random_state=state),
            "ReportNoisyMax, Laplace": ReportNoisyMax(1, 1, random_state=state),
            "NoisyTopK, k = 10": NoisyTopK(10, 1, 10, random_state=state),
        }
        for name, mechanism in made.items():
            cases[f"dpstats, {name}, {kind}"] = lambda mechanism=mechanism: mechanism.select(utilities)
    cases["OpenDP, make_noisy_max, zero-concentrated (Gumbel)"] = opendp_selection(dp.zero_concentrated_divergence())
    cases["OpenDP, make_noisy_max, pure (permute and flip)"] = opendp_selection(dp.max_divergence())
    times = interleaved(cases, ROUNDS)
    rows = [[name, milliseconds(seconds), ratios(seconds, times[limit])] for name, seconds in times.items()]
    for name, seconds in peer["times"].items():
        rows.append([f"diffprivlib, {name}", milliseconds(seconds), ""])
    return table(["selection", "ms", "times the limit"], rows)


def stream_table() -> str:
    """Return the table of streams, in questions a second."""
    values = np.random.default_rng(0).normal(size=QUESTIONS)

    def ask(made: object, count: int) -> Case:
        return lambda: sum(1 for _ in made.stream(values[:count]))

    cases = {
        "AboveThreshold, an array, simulated": (AboveThreshold(1e4, 1, random_state=0), QUESTIONS),
        "NumericSparseVector, an array, simulated": (
            NumericSparseVector(1e4, 1, max_above=5, random_state=0),
            QUESTIONS,
        ),
        "AboveThreshold, an array, exact": (AboveThreshold(1e4, 1), EXACT_QUESTIONS),
    }
    times = interleaved({name: ask(*case) for name, case in cases.items()}, ROUNDS)
    rows = [[name, f"{cases[name][1] / statistics.median(seconds):,.0f}"] for name, seconds in times.items()]
    return table(["stream", "questions a second"], rows)


def response_table() -> str:
    """Return the table of randomized response."""
    bits = np.random.default_rng(0).integers(2, size=ANSWERS)
    generator = np.random.default_rng(1)
    limit = "numpy, `integers(2**62, size)`: the limit"
    cases: dict[str, Case] = {
        limit: lambda: generator.integers(2**62, size=ANSWERS),
        "dpstats, RandomizedResponse, simulated": lambda: RandomizedResponse(1, random_state=0).randomize(bits),
        "dpstats, RandomizedResponse, exact": lambda: RandomizedResponse(1).randomize(bits),
    }
    times = interleaved(cases, ROUNDS)
    rows = [[name, milliseconds(seconds), ratios(seconds, times[limit])] for name, seconds in times.items()]
    return table(["randomized response", "ms", "times the limit"], rows)


def main() -> None:
    write = write_wanted(__doc__)
    dp.enable_features("contrib")
    peer = time_diffprivlib_selection.run(CANDIDATES, ROUNDS)
    body = f"""\
Median times of {ROUNDS} rounds in which all cases of a table ran in turn.

## Selection among {CANDIDATES:,} candidates

Utilities are integers below 1000, epsilon = 1 a selection. Exact selections draw with OpenDP's samplers, on utilities
rounded to a lattice of 2^-40 of the noise; diffprivlib's are in floating point.

{selection_table(peer)}

## Sparse vector

All questions are below the threshold. Exact noise is drawn by OpenDP.

{stream_table()}

## Randomized response on {ANSWERS:,} bits

{response_table()}"""
    packages = versions("dpstats", "numpy", "opendp")
    packages["diffprivlib"] = peer["versions"]["diffprivlib"]
    publish("benchmark_mechanisms", "Benchmark: the primitive mechanisms", body, packages, write=write)


if __name__ == "__main__":
    main()
