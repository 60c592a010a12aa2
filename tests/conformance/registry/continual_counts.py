"""Counts that go on. A dataset has the step of each row, or its step and its category; None counts nowhere."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dpstats.means import ContinualMeans
from dpstats.mechanisms import ContinualCounts
from dpstats.privacy import Neighbors, Plan
from registry.entry import Dataset, Draw, Entry, PlantedBug, Understated, less_noise

_STEPS = 12
Build = Callable[..., Any]


def _given(made: Any, rows: Dataset) -> np.ndarray:
    """Return the counts of every step, or the counts and sums."""
    if isinstance(made, ContinualMeans):
        return np.array(
            [made._sum_values([v for at, v in filter(None, rows) if at == step]) for step in range(made.horizon)]
        )
    counts = np.zeros((made.horizon, max(len(made.categories), 1)), dtype=np.int64)
    for row in rows:
        if row is not None:
            counts[row if isinstance(row, tuple) else (row, 0)] += 1
    return counts


def _exact(made: Any, rows: Dataset) -> np.ndarray:
    made._given[:] = _given(made, rows)
    return made._exact(0, made.horizon).ravel()


def _numbers(build: Build, noise: float = 1.0) -> Draw:
    """Return the batched core: the numbers of all steps."""

    def draw(rows: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        made = build(random_state=rng)
        with made._session(less_noise(made.plan, noise), size) as session:
            return session.add(made._stage, _exact(made, rows))

    return draw


def _new_noise(build: Build) -> Draw:
    """Return totals that each have noise of their own, of the size that the correlated noise has."""

    def draw(rows: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        made = build(random_state=rng)
        totals = np.cumsum(_given(made, rows), axis=0).ravel()
        return totals + made.noise_std() * rng.standard_normal((size, totals.size))

    return draw


def _twice(build: Build) -> Draw:
    """Return every number twice, each with noise of its own, as a step that is repeated after a crash."""
    once = _numbers(build)

    def draw(rows: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        return np.concatenate([once(rows, rng, size), once(rows, rng, size)], axis=1)

    return draw


def _pairs(places: list[Any], replaced: bool) -> Callable[[], Iterator[tuple[Dataset, Dataset]]]:
    def pairs() -> Iterator[tuple[Dataset, Dataset]]:
        for first, other in itertools.product(places, repeat=2):
            yield ((first, other), (first,))
            if replaced:
                yield ((first,), (other,))

    return pairs


def _released(build: Build) -> Callable[[Dataset, Any], tuple[Plan, np.ndarray]]:
    def public(rows: Dataset, budget: Any) -> tuple[Plan, np.ndarray]:
        made = build(budget=budget)
        if isinstance(made, ContinualMeans):
            made.update_many([[v for at, v in filter(None, rows) if at == step] for step in range(made.horizon)])
        else:
            counts = _given(made, rows)
            made.update_many(counts if made.categories else counts[:, 0])
        return made.plan, made._released.ravel()

    return public


def _entry(
    name: str, build: Any, pairs: Any, pair: Any, bugs: tuple[PlantedBug, ...], moved: tuple[str, Callable[[Any], int]]
) -> Entry:
    """Return the entry of a stream; ``moved`` names an understated sensitivity, and has its steps."""
    plan = build().plan
    (stage,) = plan.stages
    integers = partial(lambda made, rows: [_exact(made, rows)], build())
    words, steps = moved
    wrong = replace(plan, stages=(replace(stage, sensitivity_steps=steps(stage)),))
    return Entry(
        name=name,
        covers=build.func,
        proof="continual-counts.md",
        plan=plan,
        integers=integers,
        pairs=pairs,
        draw=_numbers(build),
        dataset=pair[0],
        neighbor=pair[1],
        power=0.4,
        public=_released(build),
        method="update_many",
        bugs=bugs,
        understated=(Understated(words, wrong, integers, pairs),),
    )


def _bugs(build: Any, pair: Any) -> tuple[PlantedBug, ...]:
    return (
        PlantedBug("a step released twice", _twice(build), *pair, 1.0, 0.05, trials=100_000),
        PlantedBug("half the noise", _numbers(build, 0.5), *pair, 1.0, 0.05),
    )


def entries() -> Iterator[Entry]:
    steps = list(range(_STEPS))
    added, replaced = Neighbors.ADD_OR_REMOVE_ONE, Neighbors.REPLACE_ONE
    both = [(step, category) for step in range(5) for category in range(2)]
    for name, places, neighbors, options, pair in (
        ("one counter", steps, added, {"horizon": _STEPS}, ((0, 3), (3,))),
        ("a row replaced", [*steps, None], replaced, {"horizon": _STEPS}, ((0,), (5,))),
        ("two categories", both, added, {"horizon": 5, "categories": ["a", "b"]}, (((0, 1), (2, 0)), ((2, 0),))),
        ("a row of two categories replaced", both, replaced, {"horizon": 5, "categories": ["a", "b"]},
         (((0, 1),), ((0, 0),))),
    ):  # fmt: skip
        build = partial(ContinualCounts, epsilon=1.0, delta=0.05, neighbors=neighbors, **options)
        fresh = PlantedBug("new noise for every total", _new_noise(build), *pair, 1.0, 0.05)
        bugs = (fresh, *_bugs(build, pair)) if name == "one counter" else ()
        moved = "a row moves one number", lambda stage: 2**30
        yield _entry(f"counts that go on, {name}", build, _pairs(places, neighbors is replaced), pair, bugs, moved)
    for name, neighbors, pair in (
        ("a row added", added, (((0, 9.0), (2, 0.0)), ((2, 0.0),))),
        ("a row replaced", replaced, (((0, 9.0),), ((0, 0.0),))),
    ):
        build = partial(ContinualMeans, (0.0, 8.0), 4, epsilon=1.0, delta=0.05, neighbors=neighbors)
        places = [(step, value) for step in range(4) for value in (0.0, 3.1, 99.0)]
        pairs = _pairs([*places, None] if neighbors is replaced else places, neighbors is replaced)
        moved = "values move nothing", lambda stage: round(stage.sensitivity_steps / 2**0.5)
        bugs = _bugs(build, pair) if neighbors is added else ()
        yield _entry(f"means that go on, {name}", build, pairs, pair, bugs, moved)
