"""The scores of regressions: releases of their own, of moments of residuals and outcomes, or of how many are right."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dpstats.auditing.movement import Steps
from dpstats.privacy import JointStage, Plan
from dpstats.regression import PrivateLinearRegression, PrivateLogisticRegression
from dpstats.release.session import Session
from dpstats.textbook import FunctionalMechanismRegression
from registry.entry import Dataset, Entry, PlantedBug, Understated, less_noise
from registry.movement import joined

ONE_COLUMN = {"x_bounds": (-1.0, 1.0)}
LINEAR = {**ONE_COLUMN, "y_bounds": (-1.0, 1.0)}


class Given(Exception):
    """What a session was given: the score goes no further."""


class Looking:
    """A session that shows what it is given, and draws nothing."""

    def __enter__(self) -> Looking:
        return self

    def __exit__(self, *error: Any) -> None:
        pass

    def add(self, name: str, integers: Any) -> None:
        self.name, self.integers = name, integers
        raise Given


@dataclass(frozen=True)
class Scored:
    """A model that was fitted to public rows, with simulated noise, and scores private ones."""

    kind: Any
    options: dict[str, Any]

    @cached_property
    def model(self) -> Any:
        X = np.linspace(-1, 1, 4000)[:, None]
        y = (X[:, 0] > 0).astype(float) if self.kind is PrivateLogisticRegression else 0.5 * X[:, 0]
        return self.kind(**self.options, random_state=0).fit(X, y)

    def looked_at(self, data: Dataset) -> tuple[Plan, Steps]:
        """Return the plan of a score, and the integers that reach its session."""
        model, session, plans = copy.copy(self.model), Looking(), []

        def opened(plan: Plan, *_: Any) -> Any:
            plans.append(plan)
            return session

        model._session = opened
        with suppress(Given):
            model.score(data[:, :-1], data[:, -1])
        return plans[0], session.integers

    def integers(self, data: Dataset) -> list[Steps]:
        return [self.looked_at(data)[1]]

    def draw(
        self, change: Callable[[Plan], Plan] = lambda plan: plan
    ) -> Callable[[Dataset, np.random.Generator, int], np.ndarray]:
        """Return the core of a score; ``change`` plants bugs in its plan."""

        def drawn(data: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
            plan, integers = self.looked_at(data)
            plan = change(plan)
            (stage,) = plan.stages
            with Session.simulated(plan, rng, size) as session:
                session.add(stage.name, integers)
            return joined(stage, session.released[stage.name])

        return drawn

    def public(self, data: Dataset, budget: Any) -> tuple[Plan, np.ndarray]:
        model = copy.copy(self.model).set_params(random_state=None, budget=budget)
        score = model.score(data[:, :-1], data[:, -1])
        return self.looked_at(data)[0], np.array([score])


def pairs(outcomes: tuple[float, ...]) -> Iterator[tuple[Dataset, Dataset]]:
    """Yield single rows whose fits and outcomes are within, at and beyond what is counted."""
    rows = [np.array([row]) for row in itertools.product((-50.0, -2.0, -0.7, 0.0, 0.4, 2.0, 50.0), outcomes)]
    yield from itertools.combinations(rows, 2)


def stating(plan: Plan, part: float) -> Plan:
    """Return a plan that states and draws a part of what a row moves it by."""
    (stage,) = plan.stages
    if isinstance(stage, JointStage):
        less = replace(stage, sensitivity=stage.sensitivity * part, scale=stage.scale * part)
    else:
        less = replace(
            stage, sensitivity_steps=int(stage.sensitivity_steps * part), scale_steps=stage.scale_steps * part
        )
    return replace(plan, stages=(less,))


class NotCut(Scored):
    """Planted bug: residuals are as large as they are."""

    def integers(self, data: Dataset) -> list[Steps]:
        design = self.model.plan_.design
        y = (data[:, -1] - design.y_center) / design.y_half
        said = (self.model.predict(data[:, :-1]) - design.y_center) / design.y_half
        steps = np.rint(np.stack([(y - said) / 2, y], axis=1) * 2.0**30).astype(np.int64)
        (stage,) = self.looked_at(data)[0].stages
        means, squares = stage.blocks
        return [{means.name: steps.sum(axis=0), squares.name: (steps * steps >> 30).sum(axis=0)}]


def entry(name: str, made: Scored, outcomes: tuple[float, ...], pair: tuple[Dataset, Dataset], power: float) -> Entry:
    plan = made.looked_at(pair[0])[0]
    one = made.looked_at(np.zeros((1, 2)))[0]
    joint = isinstance(plan.stages[0], JointStage)
    # Of two numbers one is free; of one, half.
    part = 0.5**0.5 if made.options.get("delta") and joint else 0.5
    understated = [Understated("a part of it", stating(one, part), made.integers, lambda: pairs(outcomes))]
    if joint:
        wide = NotCut(made.kind, made.options)
        understated.append(Understated("residuals not cut", one, wide.integers, lambda: pairs(outcomes)))
    claim = plan.guarantee
    return Entry(
        name=name,
        covers=made.kind,
        method="score",
        label=f"{made.kind.__name__} score",
        proof="regression.md",
        plan=plan,
        integers=made.integers,
        pairs=lambda: pairs(outcomes),
        draw=made.draw(),
        dataset=pair[0],
        neighbor=pair[1],
        power=power,
        public=made.public,
        bugs=(PlantedBug("half the noise", made.draw(less_noise), *pair, claim.epsilon, claim.delta),),
        understated=tuple(understated),
    )


def entries() -> Iterator[Entry]:
    rows = np.array([[0.0, 0.0], [0.0, 0.0]])

    def pair(first: tuple[float, float], second: tuple[float, float]) -> tuple[Dataset, Dataset]:
        both = rows.copy(), rows.copy()
        both[0][0], both[1][0] = first, second
        return both

    # What the model says is far off, on one side and on the other.
    apart = pair((-50.0, 1.0), (50.0, -1.0))
    ends = (-9.0, -1.0, -0.5, 0.0, 0.5, 1.0, 9.0)
    gaussian = Scored(PrivateLinearRegression, {**LINEAR, "epsilon": 1.0, "delta": 1e-2})
    yield entry("score of a linear regression, Gaussian", gaussian, ends, apart, 0.3)
    laplace = Scored(FunctionalMechanismRegression, {**LINEAR, "epsilon": 1.0})
    yield entry("score of a linear regression, Laplace", laplace, ends, apart, 0.3)
    right = Scored(PrivateLogisticRegression, {**ONE_COLUMN, "epsilon": 1.0, "delta": 1e-2})
    yield entry("score of a logistic regression", right, (0.0, 1.0), pair((2.0, 1.0), (2.0, 0.0)), 0.3)
