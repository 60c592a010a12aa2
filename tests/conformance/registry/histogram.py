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


# Rows that numpy gives one type where they meet in a list: text, floats, objects, or a table.
MIXED = [
    1,
    True,
    "x",
    "refused",
    2**53 + 1,
    0.5,
    2**63 + 1,
    b"a",
    None,
    [1],
    [1, 2],
    np.datetime64("2020", "ns"),
]
DECLARED = [1, 2, "refused", 2**53 + 1, 0.5, b"a", np.datetime64("2020-01-01")]


def _mixed_pairs(neighbors: Neighbors, rows: list[Any] = MIXED) -> Callable[[], Iterator[tuple[Any, Any]]]:
    """Yield all neighbouring lists of four rows, three of them equal, that differ in the fourth."""

    def pairs() -> Iterator[tuple[Any, Any]]:
        for same, last in itertools.product(rows, repeat=2):
            data = [same, same, same, last]
            if neighbors is Neighbors.REPLACE_ONE:
                yield from ((data, [same, same, same, other]) for other in rows)
            else:
                yield data, data[:3]

    return pairs


def _one_type(rows: Dataset) -> Dataset:
    """Return the rows as numpy gives them one type: text where one is text."""
    return np.asarray(rows).tolist()


def _mixed_entries() -> Iterator[Entry]:
    for neighbors in Neighbors:
        histogram = Histogram(DECLARED, 1.0, neighbors=neighbors, unknown="drop")

        def draw(
            rows: Dataset, rng: np.random.Generator, size: int, made: Histogram = histogram
        ) -> np.ndarray:
            return release(made._stage, made._statistic(rows), SimulatedNoise(rng), size)

        def typed(
            rows: Dataset, rng: np.random.Generator, size: int, made: Histogram = histogram
        ) -> np.ndarray:
            return release(made._stage, made._statistic(_one_type(rows)), SimulatedNoise(rng), size)

        replace_one = neighbors is Neighbors.REPLACE_ONE
        yield Entry(
            name=f"histogram of lists of mixed types, {neighbors.name}",
            covers=Histogram,
            proof="histogram.md",
            stages=(histogram._stage,),
            claim=histogram.guarantee,
            statistic=lambda rows, made=histogram: [made._statistic(rows)],
            pairs=_mixed_pairs(neighbors),
            draw=draw,
            dataset=[1, 1, 1, 1],
            neighbor=[1, 1, 1, "refused"] if replace_one else [1, 1, 1],
            power=0.4,
            bugs=(PlantedBug("one type for all rows", typed, [1] * 20, [1] * 19 + ["x"], 1.0, 0.0),)
            if replace_one
            else (),
        )


def entries() -> Iterator[Entry]:
    yield from _mixed_entries()
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

    missing = [True, False, None, np.True_, np.nan]
    yield Entry(
        name="count of lists with missing rows",
        covers=Count,
        proof="histogram.md",
        stages=(count._stage,),
        claim=count.guarantee,
        statistic=lambda rows: [count._statistic(rows)],
        pairs=_mixed_pairs(Neighbors.REPLACE_ONE, missing),
        draw=lambda rows, rng, size: release(count._stage, count._statistic(rows), SimulatedNoise(rng), size),
        dataset=[True, None],
        neighbor=[False, None],
        power=0.6,
    )
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
