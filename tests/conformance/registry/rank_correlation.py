"""PrivateCorrelation: sums of products of signs over pairs of rows, and squared sums of each row."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dpstats.covariance import PrivateCorrelation
from dpstats.covariance.private_correlation import STAGE
from registry.entry import (
    Dataset,
    Entry,
    PlantedBug,
    Traits,
    Understated,
    core,
    exact_integers,
    fitted,
    having,
    with_less_noise,
)


def crossed(n: int) -> tuple[Dataset, Dataset]:
    """Return the neighbors that are furthest apart: a row above all others, in both columns or in one."""
    X, Y = np.zeros((n, 2)), np.zeros((n, 2))
    X[0], Y[0] = (1.0, 1.0), (1.0, -1.0)
    return X, Y


def pairs(n: int) -> Iterator[tuple[Dataset, Dataset]]:
    yield crossed(n)
    rng = np.random.default_rng(0)
    for row, other in itertools.product(itertools.product((-1.0, 0.0, 1.0), repeat=2), repeat=2):
        rest = rng.integers(-1, 2, size=(n - 1, 2)).astype(float)
        yield np.vstack([row, rest]), np.vstack([other, rest])
    for _ in range(200):
        rest = rng.integers(0, 3, size=(n - 1, 2)).astype(float)
        yield tuple(np.vstack([rng.integers(-1, 4, size=(1, 2)).astype(float), rest]) for _ in range(2))  # type: ignore[misc]


HalfNoise = with_less_noise(PrivateCorrelation)


class OnePair(PrivateCorrelation):
    """Planted bug: a row is charged as if its pairs moved by one and not by two."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        (stage,) = plan.stages
        fewer = replace(stage, sensitivity=stage.sensitivity / 2, scale=stage.scale / 2)
        return replace(plan, stages=(fewer,))


@having(
    # Ranks are of rows beside each other; a row beyond the others moves them.
    {PrivateCorrelation: Traits(additive=False, other_row=lambda row: 3 * row)}
)
def entries() -> Iterator[Entry]:
    for law, epsilon, delta, power, attained in (("", 2.0, 0.08, 0.3, 0.94), (", Laplace noise", 2.0, 0.0, 0.3, 0.7)):
        given = {"epsilon": epsilon, "delta": delta}
        yield entry(f"rank correlation{law}", given, crossed(7), pairs, power, attained)
        spearman = {**given, "method": "spearman"}
        yield entry(f"rank correlation by Spearman{law}", spearman, displaced(5), spearman_pairs, power, attained)


def displaced(n: int) -> tuple[Dataset, Dataset]:
    """Return the neighbors whose sums of products of grades are furthest apart: rows in order, with one displaced."""
    X = np.repeat(np.arange(n, dtype=float)[:, None], 2, axis=1)
    Y = X.copy()
    Y[0] = n, -1.0
    return X, Y


def spearman_pairs(n: int) -> Iterator[tuple[Dataset, Dataset]]:
    yield displaced(n)
    yield from pairs(n)
    rng = np.random.default_rng(1)
    for _ in range(300):
        rest = np.column_stack([rng.permutation(n - 1), rng.permutation(n - 1)]).astype(float)
        yield tuple(np.vstack([rng.integers(-1, 9, size=(1, 2)) / 2, rest]) for _ in range(2))  # type: ignore[misc]


def entry(
    name: str,
    options: dict[str, Any],
    pair: tuple[Dataset, Dataset],
    searched: Callable[[int], Iterator[tuple[Dataset, Dataset]]],
    power: float,
    attained: float,
) -> Entry:
    estimator, epsilon, delta = PrivateCorrelation(**options), options["epsilon"], options["delta"]
    n, d = pair[0].shape
    plan, wrong = estimator.plan(n, d), OnePair(**options).plan(n, d)
    return Entry(
        name=name,
        covers=PrivateCorrelation,
        proof="kendall.md",
        plan=plan,
        integers=exact_integers(estimator, plan),
        pairs=partial(searched, n),
        draw=core(estimator),
        dataset=pair[0],
        neighbor=pair[1],
        power=power,
        public=fitted(estimator, lambda made: made.correlation_),
        unattained={STAGE: attained},
        unattained_reason="correlations and squares are furthest apart at different neighbors",
        bugs=(PlantedBug("half the noise", core(HalfNoise(**options)), *pair, epsilon, delta),),
        understated=(Understated("half the change", wrong, exact_integers(estimator, wrong), partial(searched, n)),),
        estimator=PrivateCorrelation(**options),
    )
