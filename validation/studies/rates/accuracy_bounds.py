"""Theorems 3.8, 3.11, 3.24, 3.26 and 3.28: errors of mechanisms against their bounds.

A bound for probability beta must be exceeded at most that often; values are placed where it is nearest to
failing. The Laplace bound is sharp, and is met.

    python validation/studies/rates/accuracy_bounds.py [--scale full|reduced|fast]
"""

from __future__ import annotations

from typing import Any

import numpy as np
from outcomes import Options, Outcome, main

from dpstats.errors import Exhausted
from dpstats.mechanisms import AboveThreshold, ExponentialMechanism, LaplaceMechanism, NumericSparseVector, SparseVector
from dpstats.simulation import Adapter, Study
from dpstats.simulation.samplers import estimate_of

STREAMS = {"above threshold": AboveThreshold, "sparse vector": SparseVector, "numeric": NumericSparseVector}


def nothing(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Return n x d numbers that take no memory: the values are public here, and placed by the mechanism's bound."""
    return np.broadcast_to(0.0, (n, d))


def laplace_exceeds(X: np.ndarray, rng: np.random.Generator, beta: float, epsilon: float) -> float:
    """Theorem 3.8: whether the largest of d errors exceeds its bound."""
    mechanism = LaplaceMechanism(1.0, epsilon, random_state=rng)
    released = np.asarray(mechanism.release(np.zeros(X.shape[1])))
    return float(np.abs(released).max() > mechanism.error_bound(beta, X.shape[1]))


def selection_exceeds(X: np.ndarray, rng: np.random.Generator, beta: float, epsilon: float) -> float:
    """Theorem 3.11: whether a candidate just beyond the bound is chosen, with all but one of them there."""
    mechanism = ExponentialMechanism(1.0, epsilon, random_state=rng)
    utilities = np.full(X.shape[1], -1.0001 * mechanism.utility_bound(beta, X.shape[1]))
    utilities[0] = 0.0
    return float(mechanism.select(utilities) != 0)


def stream_errs(X: np.ndarray, rng: np.random.Generator, beta: float, epsilon: float, stream: str) -> float:
    """Theorems 3.24, 3.26, 3.28: whether a stream errs by more than its bound.

    Questions lie just beyond the bound below the threshold, and c of them, spread out, just beyond it
    above: every other answer than the right one is an error that counts.
    """
    k, c = X.shape[1], 1 if stream == "above threshold" else 3
    options: dict[str, Any] = {} if stream == "above threshold" else {"max_above": c}
    mechanism = STREAMS[stream](0.0, epsilon, random_state=rng, **options)
    bound = mechanism.error_bound(beta, k)
    values = np.full(k, -1.0001 * bound)
    values[k - 1 - (k // 4) * np.arange(c)] *= -1  # the last answer above ends the stream
    try:
        for value in values.tolist():
            answer = mechanism.query(value)
            above = answer is not None if stream == "numeric" else bool(answer)
            if above != (value > 0) or (stream == "numeric" and above and abs(answer - value) > bound):
                return 1.0
    except Exhausted:  # an error before it used up the answers
        return 1.0
    return 0.0


def happened(fitted: Any, X: Any, truth: Any) -> float:
    """Return whether the bound was exceeded."""
    return float(estimate_of(fitted))


def run(options: Options) -> Outcome:
    """Return what was found."""
    outcome = Outcome("Accuracy bounds of the foundations' chapter 3")
    replications = options.pick(8000, 2000, 200)

    def study(name: str, adapter: Adapter, **grid: Any) -> Any:
        cells = {"n": [1], "epsilon": [0.5, 2.0], "beta": [0.05, 0.3], **grid}
        results = options.run(
            Study(nothing, adapter, cells, replications, loss=happened, seed=938, name=f"bounds-{name}")
        )
        outcome.studies.append(results)
        return results

    def check(theorem: str, results: Any, stated: Any, relation: str) -> None:
        outcome.check(theorem, "P(bound exceeded)", results, stated, relation)

    sharp = study("laplace", Adapter(laplace_exceeds, "estimate_", beta=0.05, epsilon=1.0), d=[1, 20])
    # Lattice and ties aside, P = 1 - (1 - beta/d)^d.
    check("3.8 (Laplace)", sharp, lambda cell: 1 - (1 - cell["beta"] / cell["d"]) ** cell["d"], "equal")
    chosen = study("selection", Adapter(selection_exceeds, "estimate_", beta=0.05, epsilon=1.0), d=[2, 50])
    check("3.11 (exponential mechanism)", chosen, lambda cell: cell["beta"], "at_most")
    streams = study(
        "streams",
        Adapter(stream_errs, "estimate_", beta=0.05, epsilon=1.0, stream="numeric"),
        d=[12, 60],
        stream=list(STREAMS),
    )
    for stream, theorem in zip(STREAMS, ("3.24", "3.26", "3.28"), strict=True):
        part = streams.where(lambda cell, stream=stream: cell["stream"] == stream)
        check(f"{theorem} ({stream})", part, lambda cell: cell["beta"], "at_most")
    return outcome


if __name__ == "__main__":
    main(run, __doc__)
