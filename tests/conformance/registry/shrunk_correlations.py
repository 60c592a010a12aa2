"""PrivateCorrelation(method="pearson"): an ellipsoid in rounds, then products of the rows that are shrunk into it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dpstats.covariance import PrivateCorrelation
from dpstats.covariance.private_correlation import LAST_SHARE, ROUND_SHARES
from dpstats.release.session import Session
from registry.ellipsoids import (
    FAR,
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

HalfNoise = with_less_noise(PrivateCorrelation)


class EveryStageInFull(PrivateCorrelation):
    """Planted bug: every stage takes the noise of the whole budget."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        stages = zip(plan.stages, (*ROUND_SHARES, LAST_SHARE), strict=True)
        return replace(plan, stages=tuple(quieter(stage, math.sqrt(share)) for stage, share in stages))


class PrivateCenter(PrivateCorrelation):
    """Planted bug: rows of all stages are measured from their own mean, which is not released."""

    def _release(self, private: Any, plan: Any, session: Session) -> None:
        center = private.rows.whole().X.mean(axis=0)
        super()._release(private, replace(plan, frame=plan.frame._replace(center=center)), session)


class OneForRootTwo(PrivateCorrelation):
    """Planted bug: the movement of a row that is added, in place of one that is replaced."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        return with_stages(super().plan(n_samples, n_features), 2**-0.5)


class HeavyNorms(PrivateCorrelation):
    """Planted bug: fourth powers of norms at three times the weight at which they are free."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        return with_units(super().plan(n_samples, n_features), "norms", 1 / 3)


class CountNotCharged(PrivateCorrelation):
    """Planted bug: the number of shrunk rows at ten times the weight that the stated movement counts."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        return with_units(super().plan(n_samples, n_features), "outside", 1 / 10)


def entries() -> Iterator[Entry]:
    options = {"method": "pearson", "bounds": (-3.0, 2.0), "epsilon": 2.0, "delta": 1e-2}
    estimator, pair = PrivateCorrelation(**options), far_pair()
    # Extended rows are nearly orthogonal if rows are, which the constant is small for.
    pair[0][0], pair[1][0] = (FAR, FAR), (-FAR, FAR)
    plan = estimator.plan(*pair[0].shape)

    def bug(name: str, kind: type) -> PlantedBug:
        made = kind(**options)
        draw = core_of(made) if kind is PrivateCenter else likelihood(made, pair)
        return PlantedBug(name, draw, *pair, options["epsilon"], options["delta"])

    yield Entry(
        name="correlations of shrunk rows",
        covers=PrivateCorrelation,
        proof="ball-products.md",
        plan=plan,
        integers=read_steps(estimator, plan),
        pairs=pairs_of_rows(plan),
        draw=likelihood(estimator, pair),
        dataset=pair[0],
        neighbor=pair[1],
        power=0.3,
        public=fitted(estimator, lambda made: np.append(made.correlation_, made.clipped_rows_)),
        bugs=(
            bug("half the noise", HalfNoise),
            bug("every stage in full", EveryStageInFull),
            bug("a center that is not released", PrivateCenter),
        ),
        understated=(
            understated("the constant 1 in place of the root of 2", OneForRootTwo(**options)),
            understated("fourth powers of norms at a larger weight", HeavyNorms(**options)),
            understated("a count that is not charged", CountNotCharged(**options)),
        ),
        estimator=PrivateCorrelation(**options),
        most_trials=100_000,
    )
