"""What attacks estimators whose first stages find an ellipsoid: their integers, neighbors and likelihood ratios."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dpstats.auditing.movement import Steps
from dpstats.covariance.principal_components import SCORES, PCAPlan, score_extension
from dpstats.means.ellipsoids import Ellipsoid, Step, round_extension, round_names, shrunk_sums
from dpstats.release.session import Session
from registry.entry import Dataset, Draw, Understated, columns
from registry.reading import table_of

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
        for name in round_names(plan.n_rounds)
    ]
    if not isinstance(plan, PCAPlan):
        return [*rounds, plan.last_step(found)]
    step, count = plan.product_step(found), plan.n_components
    scores = Ellipsoid(found.center, 3 * found.whitening[:count], found.unwhitening[:, :count], found.signal)
    extension = score_extension(count, plan.bits)
    return [*rounds, step, Step(SCORES, extension, scores, np.asarray(plan.score_radius))]


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
        for _ in range(300):
            inside = plan.frame.center + plan.frame.half * rng.uniform(-1, 1, size=(2, D))
            yield inside[:1], inside[1:]
            # A count of rows outside tells these apart, whatever else does.
            yield plan.frame.center[None] + 1e3 * (inside[:1] - plan.frame.center), inside[1:]

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

        plan.walk(walk)
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


def with_stages(plan: Any, factor: float) -> Any:
    """Return a plan that states less movement, with as much less noise."""
    stages = tuple(
        replace(stage, sensitivity=stage.sensitivity * factor, scale=stage.scale * factor) for stage in plan.stages
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


def understated(name: str, estimator: Any, n: int = 40) -> Understated:
    plan = estimator.plan(n, D)
    return Understated(name, plan, read_steps(estimator, plan), pairs_of_rows(plan))
