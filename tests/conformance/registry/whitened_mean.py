"""AdaptiveMean(cov="private"): an ellipsoid in rounds, then the mean of the rows that are shrunk into it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dpstats.means import AdaptiveMean
from dpstats.release.session import Session
from registry.ellipsoids import (
    FAR,
    Pair,
    core_of,
    far_pair,
    likelihood,
    pairs_of_rows,
    read_steps,
    understated,
    with_stages,
    with_units,
)
from registry.entry import Entry, PlantedBug, fitted, quieter, with_less_noise

N = 120


HalfNoise = with_less_noise(AdaptiveMean)


class EveryStageInFull(AdaptiveMean):
    """Planted bug: every stage takes the noise of the whole budget."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        share = plan.whitening.share
        shares = [*([share] * plan.n_rounds), 1 - plan.n_rounds * share]
        stages = zip(plan.stages, shares, strict=True)
        return replace(plan, stages=tuple(quieter(stage, math.sqrt(part)) for stage, part in stages))


class WhitenedByTheRows(AdaptiveMean):
    """Planted bug: rows are whitened by their own spread, which is not released."""

    def _release(self, private: Any, plan: Any, session: Session) -> None:
        half = plan.frame.half * (1 + private.rows.whole().X.std(axis=0))
        super()._release(private, replace(plan, frame=plan.frame._replace(half=half)), session)


class CountNotCharged(AdaptiveMean):
    """Planted bug: a count of clipped rows at five times the weight that the stated movement counts."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        return with_units(super().plan(n_samples, n_features), "outside", 1 / 5)


class OneForRootTwo(AdaptiveMean):
    """Planted bug: the movement of a row that is added, in place of one that is replaced."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        return with_stages(super().plan(n_samples, n_features), 2**-0.5)


def _spread_pair() -> Pair:
    """Return neighbors of which one has a row far out, so that its spread is larger."""
    X = np.ones((N, 2))
    X[::2] = -0.2
    Y = X.copy()
    Y[0] = FAR
    return X, Y


def _bug(name: str, kind: type, options: dict[str, Any], pair: Pair) -> PlantedBug:
    made = kind(**options)
    draw = core_of(made) if kind is WhitenedByTheRows else likelihood(made, pair)
    return PlantedBug(name, draw, *pair, options["epsilon"], options["delta"])


def _entry(name: str, options: dict[str, Any], bugs: tuple[PlantedBug, ...], small: dict[str, type]) -> Entry:
    estimator, pair = AdaptiveMean(**options), far_pair(N)
    plan = estimator.plan(*pair[0].shape)
    return Entry(
        name=name,
        covers=AdaptiveMean,
        proof="ball-products.md",
        plan=plan,
        integers=read_steps(estimator, plan),
        pairs=pairs_of_rows(plan),
        draw=likelihood(estimator, pair),
        dataset=pair[0],
        neighbor=pair[1],
        power=0.4,
        public=fitted(estimator, lambda made: made.stage_means_),
        bugs=bugs,
        understated=tuple(understated(words, kind(**options), N) for words, kind in small.items()),
        estimator=AdaptiveMean(**options),
        most_trials=100_000,
    )


def entries() -> Iterator[Entry]:
    options = {"bound": 3.0, "std": 1.0, "epsilon": 2.0, "delta": 1e-2, "cov": "private"}
    yield _entry(
        "adaptive mean, private covariance",
        options,
        (
            _bug("half the noise", HalfNoise, options, far_pair(N)),
            _bug("every stage in full", EveryStageInFull, options, far_pair(N)),
            _bug("a spread that is not released", WhitenedByTheRows, options, _spread_pair()),
        ),
        {"a count that is not charged": CountNotCharged},
    )
    symmetric = {**options, "tails": "symmetric", "missing": "center"}
    yield _entry(
        "adaptive mean, private covariance, symmetric tails, missing entries at the center",
        symmetric,
        (_bug("half the noise", HalfNoise, symmetric, far_pair(N)),),
        {"the constant 1 in place of the root of 2": OneForRootTwo},
    )
