"""Replications: draw, fit, measure, each with a separate seed, in blocks."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from dpstats.errors import DPStatsError
from dpstats.release.estimator import PrivateEstimator
from dpstats.simulation.adapter import Adapter
from dpstats.simulation.grid import names_of_estimator, seeds_among, split_parameters
from dpstats.simulation.losses import Loss
from dpstats.simulation.store import Finished, Row
from dpstats.simulation.table import Parameters
from dpstats.simulation.versions import versions


@dataclass(frozen=True)
class Work:
    """Everything that a process needs; pickled with every block."""

    sampler: Any
    estimator: Any
    losses: Mapping[str, Loss]
    seed: int
    streams: int
    """Cells of one estimator: cells that are so far apart have the same seed, and so the same rows."""


def run_block(work: Work, cell: int, parameters: Parameters, replications: list[int]) -> Finished:
    """Run replications of one cell."""
    start = time.perf_counter()
    rows: list[Row] = []
    try:
        run = _Replication(work, parameters)
    except Exception as error:
        rows = [(cell, r, None, _reason(error)) for r in replications]
        return rows, time.perf_counter() - start, versions()
    stream = cell % work.streams
    for r in replications:
        # The r-th child that SeedSequence.spawn would give the cell's seed, without making those before it.
        rng = np.random.default_rng(np.random.SeedSequence(work.seed, spawn_key=(stream, r)))
        try:
            rows.append((cell, r, run(rng), None))
        except Exception as error:
            rows.append((cell, r, None, _reason(error)))
    return rows, time.perf_counter() - start, versions()


class _Replication:
    """Draw, fit, measure: in one cell."""

    def __init__(self, work: Work, parameters: Parameters) -> None:
        estimator = clone(work.estimator)
        self._of_data, changed = split_parameters(parameters, work.sampler, estimator)
        self._states = seeds_among(names_of_estimator(estimator))
        self._estimator = estimator.set_params(**changed) if changed else estimator
        self._sampler = work.sampler
        self._losses, self._measures = list(work.losses), list(work.losses.values())
        self._n, self._d = int(parameters["n"]), int(parameters["d"])
        true_mean = getattr(work.sampler, "true_mean", None)
        self._truth: Any = None if true_mean is None else true_mean(self._d, **self._of_data)
        self._takes_generator = isinstance(estimator, PrivateEstimator | Adapter)
        self._is_ours = isinstance(estimator, PrivateEstimator) and self._states == ["random_state"]
        # Any other estimator could keep state from one fit to the next: results would depend on the blocks.
        here = type(estimator).__module__.startswith("dpstats.")
        self._forgets = self._takes_generator and here

    def __call__(self, rng: np.random.Generator) -> tuple[float, ...]:
        drawn = self._sampler(self._n, self._d, rng, **self._of_data)
        X, y = drawn if isinstance(drawn, tuple) else (drawn, None)
        estimator = self._estimator if self._forgets else clone(self._estimator)
        if self._is_ours:
            # As set_params would, but without its check of all names, which takes a tenth of a small fit.
            estimator.random_state = rng
        else:
            for name in self._states:
                # scikit-learn's own estimators do not take a Generator: each gets an int drawn from it.
                state = rng if self._takes_generator else int(rng.integers(2**31))
                estimator.set_params(**{name: state})
        fitted = estimator.fit(X) if y is None else estimator.fit(X, y)
        values = tuple([float(loss(fitted, X, self._truth)) for loss in self._measures])
        if not all(map(math.isfinite, values)):
            wrong = next(
                pair for pair in zip(self._losses, values, strict=True) if not math.isfinite(pair[1])
            )
            raise DPStatsError("{} is {}".format(*wrong))
        return values


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
