"""HotellingTest and PrivatePCA: products of rows in balls, stage by stage."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dpstats.covariance import HotellingTest, PrivatePCA
from dpstats.covariance.principal_components import SCORES
from dpstats.means.ellipsoids import ROUND_SHARES
from dpstats.release.session import Session
from registry.ellipsoids import (
    FAR,
    Pair,
    core_of,
    crossed_pair,
    far_pair,
    likelihood,
    pairs_of_rows,
    read_steps,
    understated,
    with_stages,
    with_units,
)
from registry.entry import Dataset, Entry, PlantedBug, Traits, fitted, having, quieter, with_less_noise
from registry.reading import fit_rows

HalfNoise = with_less_noise(HotellingTest)


class EveryStageInFull(HotellingTest):
    """Planted bug: every stage takes the noise of the whole budget."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        shares = (*ROUND_SHARES, 1 - sum(ROUND_SHARES))
        stages = zip(plan.stages, shares, strict=True)
        return replace(plan, stages=tuple(quieter(stage, math.sqrt(share)) for stage, share in stages))


class PrivateCenter(HotellingTest):
    """Planted bug: rows of all stages are shrunk towards their own mean, which is not released."""

    def _release(self, private: Any, plan: Any, session: Session) -> None:
        center = private.rows.whole().X.mean(axis=0)
        super()._release(private, replace(plan, frame=plan.frame._replace(center=center)), session)


class OneForRootTwo(HotellingTest):
    """Planted bug: the movement of a row that is added, in place of one that is replaced."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        return with_stages(super().plan(n_samples, n_features), 2**-0.5)


class TriangleForAll(HotellingTest):
    """Planted bug: the claim counts an entry above the diagonal once, and its noise is less."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        return with_units(super().plan(n_samples, n_features), "above", 2**-0.5)


class HalfRadius(HotellingTest):
    """Planted bug: the sign of a sample is charged as if it moved a row by one radius, and not by two."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        return with_stages(super().plan(n_samples, n_features), 0.5)


def _entry(
    name: str, options: dict[str, Any], pair: Pair, bugs: dict[str, type], small: dict[str, type], power: float
) -> Entry:
    estimator = HotellingTest(**options)
    plan = estimator.plan(*pair[0].shape)

    def public(data: Dataset, budget: Any) -> tuple[Any, np.ndarray]:
        made = fit_rows(HotellingTest(**options, budget=budget), data)
        return made.plan_, np.append(made.difference_, made.statistic_)

    def bug(name: str, kind: type) -> PlantedBug:
        made = kind(**options)
        draw = core_of(made) if kind is PrivateCenter else likelihood(made, pair)
        return PlantedBug(name, draw, *pair, options["epsilon"], options["delta"])

    return Entry(
        name=name,
        covers=HotellingTest,
        proof="ball-products.md",
        plan=plan,
        integers=read_steps(estimator, plan),
        pairs=pairs_of_rows(plan),
        draw=likelihood(estimator, pair),
        dataset=pair[0],
        neighbor=pair[1],
        power=power,
        public=public,
        bugs=tuple(bug(*item) for item in bugs.items()),
        understated=tuple(understated(words, kind(**options)) for words, kind in small.items()),
        estimator=HotellingTest(**options),
        most_trials=100_000,
    )


@having(
    # The checks have labels that nobody declared.
    {HotellingTest: Traits(checked_with={"groups": None})},
    {
        "Hotelling, two samples": {"not_replayed": "labels are made of the rows"},
        "Hotelling, one sample": {"exact_audit": True},
    },
)
def entries() -> Iterator[Entry]:
    options = {"bounds": (-3.0, 2.0), "epsilon": 2.0, "delta": 1e-2}
    yield _entry(
        "Hotelling, two samples",
        {**options, "groups": [0, 1], "unknown": "error"},
        crossed_pair(),
        {"half the noise": HalfNoise},
        {"one radius in place of two for the sign": HalfRadius},
        0.4,
    )
    yield _entry(
        "Hotelling, one sample",
        options,
        far_pair(),
        {
            "half the noise": HalfNoise,
            "every stage in full": EveryStageInFull,
            "a center that is not released": PrivateCenter,
        },
        {"the constant 1 in place of the root of 2": OneForRootTwo, "an entry above the diagonal once": TriangleForAll},
        0.4,
    )
    yield _components()


LessNoise = with_less_noise(PrivatePCA)


class HeavyFourths(PrivatePCA):
    """Planted bug: fourth powers at six times the weight that the stated movement counts."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        return with_units(super().plan(n_samples, n_features), "fourths", 1 / 6)


class WhitenedByTheRows(PrivatePCA):
    """Planted bug: rows are measured from their own mean, which is not released."""

    def _release(self, private: Any, plan: Any, session: Session) -> None:
        center = private.rows.whole().X.mean(axis=0)
        super()._release(private, replace(plan, frame=plan.frame._replace(center=center)), session)


def _components() -> Entry:
    options = {"bounds": (-3.0, 2.0), "epsilon": 2.0, "delta": 1e-2}
    estimator = PrivatePCA(**options)
    # Rows are clipped to corners of the box.
    pair = far_pair()
    pair[0][0], pair[1][0] = (FAR, FAR), (-FAR, FAR)
    plan = estimator.plan(*pair[0].shape)

    def bug(name: str, kind: type) -> PlantedBug:
        made = kind(**options)
        draw = likelihood(made, pair) if kind is LessNoise else core_of(made)
        return PlantedBug(name, draw, *pair, options["epsilon"], options["delta"])

    return Entry(
        name="principal components",
        covers=PrivatePCA,
        proof="ball-products.md",
        plan=plan,
        integers=read_steps(estimator, plan),
        pairs=pairs_of_rows(plan),
        draw=likelihood(estimator, pair),
        dataset=pair[0],
        neighbor=pair[1],
        power=0.3,
        public=fitted(estimator, lambda made: np.append(made.explained_variance_, made.mean_)),
        unattained={SCORES: 0.5},
        unattained_reason="fourth powers have a bound of their own",
        bugs=(bug("half the noise", LessNoise), bug("a center that is not released", WhitenedByTheRows)),
        understated=(understated("fourth powers at a larger weight", HeavyFourths(**options)),),
        estimator=PrivatePCA(**options),
        most_trials=100_000,
    )
