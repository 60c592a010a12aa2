"""HotellingTest: products of rows in balls, stage by stage, with one sample and with two."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dpstats.auditing.movement import Steps
from dpstats.covariance import HotellingTest
from dpstats.covariance.ellipsoid_plan import Step, shrunk_sums
from dpstats.covariance.ellipsoids import ROUND_SHARES, Ellipsoid, round_extension, round_names
from dpstats.release.session import Session
from registry.entry import (
    Dataset,
    Draw,
    Entry,
    PlantedBug,
    Understated,
    columns,
    less_noise,
    quieter,
)
from registry.reading import fit_rows, table_of

FAR = 1e4
D = 2

Pair = tuple[Dataset, Dataset]


def somewhere(d: int) -> Ellipsoid:
    """Return an ellipsoid that earlier releases could have led to."""
    turn = np.eye(d) + 0.3 * np.tri(d)
    return Ellipsoid(np.linspace(0.2, -0.1, d), turn, np.linalg.inv(turn), np.asarray(0.7 * d))


def far_pair(n: int = 40, d: int = D) -> Pair:
    """Return neighbors with a row far out on one side, or on the other."""
    X, Y = np.zeros((n, d)), np.zeros((n, d))
    X[0, 0], Y[0, 0] = FAR, -FAR
    return X, Y


def crossed_pair(n: int = 40, d: int = D) -> Pair:
    """Return neighbors with a row far out, just inside one sample or the other."""
    X, Y = np.zeros((n, d)), np.zeros((n, d))
    X[0], Y[0] = FAR * np.array([0.25, 1.0]), FAR * np.array([-0.25, 1.0])
    return X, Y


def steps_of(plan: Any, d: int = D) -> list[Step]:
    """Return a step for each stage of a plan, with an ellipsoid that earlier releases could have led to."""
    found = somewhere(d)
    rounds = [
        Step(name, round_extension(d, plan.bits), found, np.sqrt(found.squared_radius()))
        for name in round_names()
    ]
    return [*rounds, plan.last_step(found)]


def read_steps(estimator: Any, plan: Any) -> Callable[[Dataset], list[Steps]]:
    """Return what reads the integers of all stages."""
    steps = steps_of(plan)
    return lambda data: [shrunk_sums(table_of(estimator, data), plan.frame, step) for step in steps]


def pairs_of_rows(plan: Any) -> Callable[[], Iterator[Pair]]:
    def pairs() -> Iterator[Pair]:
        rng = np.random.default_rng(0)
        found = somewhere(D)
        for k in range(300):
            angle, first = rng.uniform(np.pi / 8, np.pi), rng.uniform(0, 2 * np.pi)
            size = 1e3 if k % 3 else 1e300
            rows = []
            for turn in (first, first + angle):
                z = found.center + size * found.unwhitening @ np.array([np.cos(turn), np.sin(turn)])
                rows.append(np.clip(plan.frame.center + plan.frame.half * z, -1e307, 1e307)[None])
            yield rows[0], rows[1]

    return pairs


def likelihood(estimator: Any, pair: Pair) -> Draw:
    """Return the core of a fit as an attacker best sees it, who knows both datasets: the log of a likelihood ratio."""
    plan = estimator.plan(*pair[0].shape)
    first, second = (table_of(estimator, data) for data in pair)

    def view(_: Any, released: Any) -> np.ndarray:
        total = 0.0
        read = plan.reading(released)

        def walk(step: Step) -> Any:
            nonlocal total
            exact = [shrunk_sums(rows, plan.frame, step) for rows in (first, second)]
            stage = plan.stage(step.name)
            for block in stage.blocks:
                noisy = released[step.name][block.name] / block.spacing
                a, b = ((noisy - steps[block.name]) / stage.scale_steps(block) for steps in exact)
                total = total + ((b**2 - a**2) / 2).sum(axis=-1)
            return read(step)

        estimator._walk(plan, walk)
        return np.asarray(total)[:, None]

    return core_of(estimator, view)


def core_of(estimator: Any, view: Any = columns) -> Draw:
    """Return the batched core of a fit, with labels made of the rows."""

    def draw(data: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        plan = estimator.plan(*data.shape)
        with Session.simulated(plan, rng, size) as session:
            estimator._release(estimator._read(table_of(estimator, data), plan), plan, session)
        return np.asarray(view(plan, session.released))

    return draw


class HalfNoise(HotellingTest):
    """Planted bug: half the noise that the guarantee needs."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        return less_noise(super().plan(n_samples, n_features))


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


def with_stages(plan: Any, factor: float) -> Any:
    """Return a plan that states less movement, with as much less noise."""
    stages = tuple(
        replace(stage, sensitivity=stage.sensitivity * factor, scale=stage.scale * factor)
        for stage in plan.stages
    )
    return replace(plan, stages=stages)


def with_units(plan: Any, part: str, factor: float) -> Any:
    """Return a plan with less noise in some blocks than the stated movement needs."""
    stages = tuple(
        replace(
            stage,
            blocks=tuple(
                replace(block, unit_steps=block.unit_steps * (factor if part in block.name else 1.0))
                for block in stage.blocks
            ),
        )
        for stage in plan.stages
    )
    return replace(plan, stages=stages)


def understated(name: str, estimator: Any) -> Understated:
    plan = estimator.plan(40, D)
    return Understated(name, plan, read_steps(estimator, plan), pairs_of_rows(plan))


def _entry(
    name: str,
    options: dict[str, Any],
    pair: Pair,
    bugs: dict[str, type],
    small: dict[str, type],
    power: float,
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


def entries() -> Iterator[Entry]:
    options = {"bounds": (-3.0, 2.0), "epsilon": 2.0, "delta": 1e-2}
    yield _entry(
        "Hotelling, two samples",
        {**options, "groups": [0, 1]},
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
        {
            "the constant 1 in place of the root of 2": OneForRootTwo,
            "an entry above the diagonal once": TriangleForAll,
        },
        0.4,
    )
