"""Histogram and Count."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dpstats.mechanisms import Count, Histogram
from dpstats.privacy import Neighbors
from dpstats.release.additive import release
from dpstats.release.noise import SimulatedNoise
from registry.entry import Dataset, Entry, PlantedBug


def _small_datasets(categories: int, size: int) -> Iterator[tuple[int, ...]]:
    return itertools.product(range(categories), repeat=size)


def _count_pairs(categories: int, neighbors: Neighbors) -> Callable[[], Iterator[tuple[Any, Any]]]:
    """Yield all neighbouring datasets of three rows."""

    def pairs() -> Iterator[tuple[Any, Any]]:
        for rows in _small_datasets(categories, 3):
            if neighbors is Neighbors.REPLACE_ONE:
                yield from ((rows, (*rows[:2], other)) for other in range(categories))
            else:
                yield rows, rows[:2]

    return pairs


def entries() -> Iterator[Entry]:
    both = itertools.product(Neighbors, ((1.0, 0.0), (3.0, 1e-2)))
    for neighbors, (epsilon, delta) in both:
        histogram = Histogram(range(3), epsilon, delta, neighbors=neighbors)
        replace_one = neighbors is Neighbors.REPLACE_ONE

        def draw(
            rows: Dataset, rng: np.random.Generator, size: int, made: Histogram = histogram
        ) -> np.ndarray:
            return release(made._stage, made._statistic(rows), SimulatedNoise(rng), size)

        bugs = ()
        if replace_one:
            forgotten = Histogram(range(3), epsilon, delta, neighbors=Neighbors.ADD_OR_REMOVE_ONE)

            def wrong(
                rows: Dataset, rng: np.random.Generator, size: int, made: Histogram = forgotten
            ) -> np.ndarray:
                return release(made._stage, made._statistic(rows), SimulatedNoise(rng), size)

            bugs = (
                PlantedBug(
                    "sensitivity one under replacement", wrong, (0, 2), (1, 2), epsilon, delta, trials=400_000
                ),
            )
        yield Entry(
            name=f"histogram, {'Gaussian' if delta else 'Laplace'}, {neighbors.name}",
            covers=Histogram,
            proof="histogram.md",
            stages=(histogram._stage,),
            claim=histogram.guarantee,
            statistic=lambda rows, made=histogram: [made._statistic(rows)],
            pairs=_count_pairs(3, neighbors),
            draw=draw,
            dataset=(0, 2),
            neighbor=(1, 2) if replace_one else (0, 2, 0),
            power=0.4,
            bugs=bugs,
        )
    count = Count(1.0)

    def count_draw(rows: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        return release(count._stage, count._statistic(np.array(rows, dtype=bool)), SimulatedNoise(rng), size)

    def half(rows: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        stage = replace(count._stage, scale_steps=count._stage.scale_steps / 2)
        return release(stage, count._statistic(np.array(rows, dtype=bool)), SimulatedNoise(rng), size)

    yield Entry(
        name="count",
        covers=Count,
        proof="histogram.md",
        stages=(count._stage,),
        claim=count.guarantee,
        statistic=lambda rows: [count._statistic(np.array(rows, dtype=bool))],
        pairs=_count_pairs(2, Neighbors.REPLACE_ONE),
        draw=count_draw,
        dataset=(1, 0),
        neighbor=(0, 0),
        power=0.6,
        bugs=(PlantedBug("half the noise", half, (1, 0), (0, 0), 1.0, 0.0),),
    )
