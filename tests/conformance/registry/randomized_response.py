"""RandomizedResponse: one answer, and how the answers of several rows go together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from dpstats.mechanisms import RandomizedResponse
from dpstats.privacy import Plan
from registry.entry import Dataset, Draw, Entry, PlantedBug

ROWS = 3


def _responses(mechanism: RandomizedResponse, answers: np.ndarray, size: int) -> np.ndarray:
    """Return the responses to a vector of answers, many times: (size, n)."""
    with mechanism._session(size=size) as session:
        return session.respond("responses", answers)


def _first(categories: int, off: bool = False) -> Draw:
    """Score: whether the response of the first row is category 0. A coin that is off keeps answers more often."""

    def draw(answers: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        mechanism = RandomizedResponse(1.0, categories, random_state=rng)
        if off:
            stage = mechanism.plan.stages[0]
            grains = stage.keep_grains + (stage.GRAIN - stage.keep_grains) // 10
            mechanism._plan = replace(mechanism.plan, stages=(replace(stage, keep_grains=grains),))
        return (_responses(mechanism, np.array(answers), size)[:, 0] == 0).astype(float)

    return draw


def _vector(shared: int = 1) -> Draw:
    """Score: how many of all rows respond 0. ``shared`` is a planted bug: one coin for every so many rows."""

    def draw(answers: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        mechanism = RandomizedResponse(1.0, random_state=rng)
        given = np.array(answers)
        flipped = _responses(mechanism, np.zeros(given.size, dtype=np.int64), size)
        flipped = np.repeat(flipped[:, ::shared], shared, axis=1)[:, : given.size]
        # As a word: what the rows respond together.
        return (flipped ^ given) @ (2 ** np.arange(given.size)).astype(float)

    return draw


# Answers of any type of number, of which numpy would make one type.
ZERO, ONE = [False, Decimal(0), np.float16(0), 0], [True, Fraction(1), 1.0, 1]


def _every_type(answer: int, size: int) -> list[Any]:
    """Return a list of one answer, in turn as every type of number."""
    kinds = ZERO if answer == 0 else ONE
    return [kinds[i % len(kinds)] for i in range(size)]


def entries() -> Iterator[Entry]:
    for categories in (2, 5):

        def public(answers: Dataset, budget: Any, k: int = categories) -> tuple[Plan, np.ndarray]:
            made = RandomizedResponse(1.0, k, budget=budget)
            return made.plan, made.randomize(answers)

        yield Entry(
            name=f"randomized response, {categories} categories",
            covers=RandomizedResponse,
            proof="randomized-response.md",
            plan=RandomizedResponse(1.0, categories).plan,
            integers=lambda answers: [],
            pairs=lambda: iter(()),
            draw=_first(categories),
            dataset=(0, 1, 0),
            neighbor=(1, 1, 0),
            power=0.75,
            public=public,
            bugs=(
                PlantedBug("a coin that is off", _first(categories, off=True), (0,), (1,), 1.0, 0.0, trials=100_000),
                # Their responses differ if and only if their answers do.
                PlantedBug("one coin for every two rows", _vector(shared=2), (0, 0), (1, 0), 1.0, 0.0),
            ),
        )

    def mixed(answer: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        # As a user gives them: read, and then drawn.
        survey = RandomizedResponse(1.0, random_state=rng)
        return (survey.randomize(_every_type(answer, size)) == 0).astype(float)

    def public(answer: Dataset, budget: Any) -> tuple[Plan, np.ndarray]:
        made = RandomizedResponse(1.0, budget=budget)
        return made.plan, made.randomize(_every_type(answer[0], len(answer)))

    yield Entry(
        name="randomized response, lists of mixed types",
        covers=RandomizedResponse,
        proof="randomized-response.md",
        plan=RandomizedResponse(1.0).plan,
        integers=lambda answer: [],
        pairs=lambda: iter(()),
        draw=lambda answers, rng, size: mixed(answers[0], rng, size),
        dataset=(0,) * 8,
        neighbor=(1,) * 8,
        power=0.75,
        public=public,
    )
