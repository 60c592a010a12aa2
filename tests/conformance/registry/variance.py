"""PrivateVariance: about the mean and about a public center, with what each kind of interval asks for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dpstats.means import PrivateVariance
from registry.clipped_mean import BESIDE, Pair, bug, clip_skipped, each_as_if_alone, half_noise, pairs_of_rows, placed
from registry.entry import Entry, PlantedBug, core, exact_integers, fitted, having

HALF_NOISE, CLIP_SKIPPED = half_noise(PrivateVariance), clip_skipped(PrivateVariance)
ALONE = each_as_if_alone(PrivateVariance)


def worst_place(estimator: PrivateVariance) -> float:
    """Return what an entry of 1 is furthest from, all powers together."""
    plan = estimator.plan(3, 1)
    z = np.linspace(-1.0, 1.0, 200_001)
    power = 1 if plan.stages[0].noise == "laplace" else 2
    movement = sum((w * (1 - z**b)) ** power for b, w in enumerate(plan.weights.powers, 1))
    return float(z[np.argmax(movement)])


def _entry(name: str, estimator: PrivateVariance, *, power: float, bugs: tuple[PlantedBug, ...]) -> Entry:
    worst = worst_place(estimator)
    X, Y = placed(estimator, [1.0, 1.0], [worst, worst])
    plan = estimator.plan(*X.shape)
    return Entry(
        name=name,
        covers=PrivateVariance,
        proof="variance.md",
        plan=plan,
        integers=exact_integers(estimator, plan),
        pairs=pairs_of_rows(estimator, 2, beside=((X, Y),)),
        draw=core(estimator),
        dataset=X,
        neighbor=Y,
        power=power,
        public=fitted(estimator, lambda made: made.variance_),
        bugs=bugs,
        estimator=estimator,
    )


def _bugs(options: dict[str, Any], *, joint: bool) -> tuple[PlantedBug, ...]:
    plain = PrivateVariance(**options)
    worst = worst_place(plain)
    pair: Pair = placed(plain, [1.0], [worst])
    far = placed(plain, [5.0], [-5.0 if plain.about == "mean" else 0.0])
    found = (bug("half the noise", HALF_NOISE(**options), pair), bug("clip skipped", CLIP_SKIPPED(**options), far))
    if not joint:
        return found
    return (*found, bug("each block as if alone", ALONE(**options), placed(plain, [1.0], [BESIDE]), trials=200_000))


@having({}, {"second moment, Laplace": {"exact_audit": True}, "variance, Laplace": {"exact_audit": True}})
def entries() -> Iterator[Entry]:
    for law, options in (("Gaussian", {"epsilon": 1.0, "delta": 0.1}), ("Laplace", {"epsilon": 1.0})):
        both = {"clip": 1.0, **options}
        yield _entry(f"variance, {law}", PrivateVariance(**both), power=0.3, bugs=_bugs(both, joint=True))
        normal = {"bounds": (-1.0, 3.0), "interval": "normal", **options}
        yield _entry(
            f"variance, {law}, for normal rows",
            PrivateVariance(**normal),
            power=0.3,
            bugs=_bugs(normal, joint=True)[-1:],
        )
        fourth = {"clip": 1.0, "about": "center", **options}
        yield _entry(
            f"second moment and its error, {law}",
            PrivateVariance(**fourth),
            power=0.3,
            bugs=_bugs(fourth, joint=True)[-1:],
        )
        moment = {"clip": 1.0, "about": "center", "interval": "bounded", **options}
        yield _entry(f"second moment, {law}", PrivateVariance(**moment), power=0.3, bugs=_bugs(moment, joint=False))
