"""RandomizedResponse."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from dpstats.mechanisms import RandomizedResponse
from registry.entry import Dataset, Entry, PlantedBug


class CoinOff(RandomizedResponse):
    """Planted bug: the second coin is forgotten, so that an answer is kept more often than stated."""

    def _respond(self, answers: np.ndarray) -> np.ndarray:
        kept = super()._respond(answers)
        again = self._source.integers(10, answers.shape) == 0
        return np.where(again, answers, kept)


# Answers of any type of number, of which numpy would make one type.
ZERO, ONE = [False, Decimal(0), np.float16(0), 0], [True, Fraction(1), 1.0, 1]


def _answers(answer: Dataset, size: int) -> list[Any]:
    """Return a list of one answer, in turn as every type of number."""
    kinds = ZERO if answer == 0 else ONE
    return [kinds[i % len(kinds)] for i in range(size)]


def entries() -> Iterator[Entry]:
    for categories in (2, 5):

        def draw(answer: Dataset, rng: np.random.Generator, size: int, k: int = categories) -> np.ndarray:
            responses = RandomizedResponse(1.0, k, random_state=rng)._respond(np.full(size, answer))
            # Scored by whether the response is the answer of the first dataset.
            return (responses == 0).astype(float)

        def off(answer: Dataset, rng: np.random.Generator, size: int, k: int = categories) -> np.ndarray:
            responses = CoinOff(1.0, k, random_state=rng)._respond(np.full(size, answer))
            return (responses == 0).astype(float)

        mechanism = RandomizedResponse(1.0, categories)
        yield Entry(
            name=f"randomized response, {categories} categories",
            covers=RandomizedResponse,
            proof="randomized-response.md",
            stages=(),
            claim=mechanism.guarantee,
            statistic=lambda answer: [],
            pairs=lambda: iter(()),
            draw=draw,
            dataset=0,
            neighbor=1,
            power=0.75,
            events=(mechanism.event,),
            bugs=(PlantedBug("a coin that is off", off, 0, 1, 1.0, 0.0, trials=100_000),),
        )

    def mixed(answer: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        # As a user gives them: read, and then drawn.
        survey = RandomizedResponse(1.0, random_state=rng)
        return (survey.randomize(_answers(answer, size)) == 0).astype(float)

    yield Entry(
        name="randomized response, lists of mixed types",
        covers=RandomizedResponse,
        proof="randomized-response.md",
        stages=(),
        claim=RandomizedResponse(1.0).guarantee,
        statistic=lambda answer: [],
        pairs=lambda: iter(()),
        draw=mixed,
        dataset=0,
        neighbor=1,
        power=0.75,
        events=(RandomizedResponse(1.0).event,),
    )
