"""Histogram and Count."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dpstats.mechanisms import Count, Histogram
from dpstats.privacy import KeyCounts, Neighbors, Plan
from registry.entry import Dataset, Draw, Entry, PlantedBug, Understated, having, less_noise


def _small_datasets(categories: int, size: int) -> Iterator[tuple[int, ...]]:
    return itertools.product(range(categories), repeat=size)


def _count_pairs(categories: int, neighbors: Neighbors) -> Callable[[], Iterator[tuple[Any, Any]]]:
    """Yield all neighboring datasets of three rows."""

    def pairs() -> Iterator[tuple[Any, Any]]:
        for rows in _small_datasets(categories, 3):
            if neighbors is Neighbors.REPLACE_ONE:
                yield from ((rows, (*rows[:2], other)) for other in range(categories))
            else:
                yield rows, rows[:2]

    return pairs


# Rows that numpy gives one type where they meet in a list: text, floats, objects, or a table.
MIXED = [1, True, "x", "refused", 2**53 + 1, 0.5, 2**63 + 1, b"a", None, [1], [1, 2], np.datetime64("2020", "ns")]
DECLARED = [1, 2, "refused", 2**53 + 1, 0.5, b"a", np.datetime64("2020-01-01")]


def _mixed_pairs(neighbors: Neighbors, rows: list[Any] = MIXED) -> Callable[[], Iterator[tuple[Any, Any]]]:
    """Yield all neighboring lists of four rows, three of them equal, that differ in the fourth."""

    def pairs() -> Iterator[tuple[Any, Any]]:
        for same, last in itertools.product(rows, repeat=2):
            data = [same, same, same, last]
            if neighbors is Neighbors.REPLACE_ONE:
                yield from ((data, [same, same, same, other]) for other in rows)
            else:
                yield data, data[:3]

    return pairs


def _one_type(rows: Dataset) -> Dataset:
    """Return the rows as numpy gives them one type: floats where one is a float."""
    return np.asarray(rows).tolist()


def _counts(build: Callable[..., Histogram], rows_of: Callable[[Dataset], Any] = tuple, noise: float = 1.0) -> Draw:
    """Return the batched core of a release of counts; ``noise`` multiplies it."""

    def draw(rows: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        made = build(random_state=rng)
        with made._session(less_noise(made.plan, noise), size) as session:
            return session.add("counts", made._steps(rows_of(rows))[0])

    return draw


def _released(
    build: Callable[..., Histogram], rows_of: Callable[[Dataset], Any] = tuple
) -> Callable[[Dataset, Any], tuple[Plan, np.ndarray]]:
    def public(rows: Dataset, budget: Any) -> tuple[Plan, np.ndarray]:
        made = build(budget=budget)
        return made.plan, made.release(rows_of(rows)).counts

    return public


def _mixed_entries() -> Iterator[Entry]:
    for neighbors in Neighbors:
        build = partial(Histogram, DECLARED, 1.0, neighbors=neighbors, unknown="drop")
        histogram, replace_one = build(), neighbors is Neighbors.REPLACE_ONE
        bug = PlantedBug(
            "one type for all rows", _counts(build, _one_type), [2**53 + 1] * 20, [2**53 + 1] * 19 + [0.5], 1.0, 0.0
        )
        yield Entry(
            name=f"histogram of lists of mixed types, {neighbors.name}",
            covers=Histogram,
            proof="histogram.md",
            plan=histogram.plan,
            integers=lambda rows, made=histogram: [made._steps(rows)[0]],
            pairs=_mixed_pairs(neighbors),
            draw=_counts(build, list),
            dataset=[1, 1, 1, 1],
            neighbor=[1, 1, 1, "refused"] if replace_one else [1, 1, 1],
            power=0.4,
            public=_released(build, list),
            bugs=(bug,) if replace_one else (),
        )
    count = partial(Count, 1.0)
    yield Entry(
        name="count of lists with missing rows",
        covers=Count,
        proof="histogram.md",
        plan=count().plan,
        integers=lambda rows: [Count(1.0)._steps(rows)[0]],
        pairs=_mixed_pairs(Neighbors.REPLACE_ONE, [True, False, None, np.True_, np.nan]),
        draw=_counts(count, list),
        dataset=[True, None],
        neighbor=[False, None],
        power=0.6,
        public=_released(count, list),
    )


def _true(rows: Dataset) -> np.ndarray:
    return np.array(rows, dtype=bool)


_FOUND = {each: partial(Histogram, "discover", 3.0, 1e-2, neighbors=each) for each in Neighbors}
_KEYS = (0, 1, 2, 3)


def _all_keys(rows: Dataset) -> list[dict[str, np.ndarray]]:
    """Return the exact counts of all keys in steps: 0 for a key without rows."""
    labels, steps = _FOUND[Neighbors.REPLACE_ONE]()._count_labels(list(rows))
    known = dict(zip(labels, steps[:, 0].tolist(), strict=True))
    return [{"rows": np.array([known.get(key, 0) for key in _KEYS])}]


def _found(build: Callable[..., Histogram], noise: float = 1.0) -> Draw:
    """Return the batched core of a release of discovered counts: -1 for a key that is not found."""

    def draw(rows: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        made = build(random_state=rng)
        labels, steps = made._count_labels(list(rows))
        with made._session(less_noise(made.plan, noise), size) as session:
            session.discover("counts", labels, {"rows": steps})
        return np.nan_to_num(session.released["counts"]["rows"][:, :, 0], nan=-1.0)

    return draw


def _found_public(build: Callable[..., Histogram]) -> Any:
    def release(rows: Dataset, budget: Any) -> tuple[Plan, np.ndarray]:
        made = build(budget=budget)
        result = made.release(list(rows))
        known = dict(zip(result.categories, result.counts.tolist(), strict=True))
        return made.plan, np.array([known.get(key, -1.0) for key in _KEYS])

    return release


def _found_entry(neighbors: Neighbors) -> Entry:
    """Return counts of categories that nobody declared."""
    build, added = _FOUND[neighbors], neighbors is Neighbors.ADD_OR_REMOVE_ONE
    plan = build().plan
    (stage,) = plan.stages
    assert isinstance(stage, KeyCounts)
    wide = replace(stage.touched, blocks=(replace(stage.counts, size=len(_KEYS)),))
    pairs = _count_pairs(3, neighbors)
    first = (0,) * 40 + (1,) * 40
    pair = first, first[1:] if added else (1, *first[1:])
    less = replace(wide, sensitivity=wide.sensitivity / 2)
    return Entry(
        name=f"histogram, discovered{', private size' * added}",
        covers=Histogram,
        proof="discovery.md",
        plan=plan,
        integers=_all_keys,
        pairs=pairs,
        draw=_found(build),
        dataset=pair[0],
        neighbor=pair[1],
        power=0.4,
        public=_found_public(build),
        stages=(wide,),
        bugs=(PlantedBug("a quarter of the noise", _found(build, 0.25), *pair, 3.0, 1e-2),),
        understated=(
            Understated("half a row" if added else "one key per row", replace(plan, stages=(less,)), _all_keys, pairs),
        ),
    )


@having({}, {"histogram, Laplace, REPLACE_ONE": {"exact_audit": True}, "count": {"exact_audit": True}})
def entries() -> Iterator[Entry]:
    yield from _mixed_entries()
    yield from map(_found_entry, Neighbors)
    both = itertools.product(Neighbors, ((1.0, 0.0), (1.0, 0.1)))
    for neighbors, (epsilon, delta) in both:
        build = partial(Histogram, range(3), epsilon, delta, neighbors=neighbors)
        histogram, replace_one = build(), neighbors is Neighbors.REPLACE_ONE
        forgotten = partial(Histogram, range(3), epsilon, delta, neighbors=Neighbors.ADD_OR_REMOVE_ONE)
        name = "sensitivity one under replacement"
        bug = PlantedBug(name, _counts(forgotten), (0, 2), (1, 2), epsilon, delta, trials=400_000)
        yield Entry(
            name=f"histogram, {'Gaussian' if delta else 'Laplace'}, {neighbors.name}",
            covers=Histogram,
            proof="histogram.md",
            plan=histogram.plan,
            integers=lambda rows, made=histogram: [made._steps(rows)[0]],
            pairs=_count_pairs(3, neighbors),
            draw=_counts(build),
            dataset=(0, 2),
            neighbor=(1, 2) if replace_one else (0, 2, 0),
            power=0.4,
            public=_released(build),
            bugs=(bug,) if replace_one else (),
        )
    bins = partial(Histogram, bins=[0.0, 1.0, 2.0, 3.0], epsilon=1.0)
    half_bins, binned = _counts(bins, noise=0.5), bins()
    yield Entry(
        name="histogram of bins",
        covers=Histogram,
        proof="histogram.md",
        plan=binned.plan,
        integers=lambda rows: [binned._steps(rows)[0]],
        pairs=_count_pairs(3, Neighbors.REPLACE_ONE),
        draw=_counts(bins),
        dataset=(0.5, 2.5),
        neighbor=(1.0, 2.5),
        power=0.4,
        public=_released(bins),
        bugs=(PlantedBug("half the noise", half_bins, (0.5, 2.5), (1.0, 2.5), 1.0, 0.0, trials=100_000),),
    )
    half = _counts(partial(Count, 1.0), _true, noise=0.5)
    yield Entry(
        name="count",
        covers=Count,
        proof="histogram.md",
        plan=Count(1.0).plan,
        integers=lambda rows: [Count(1.0)._steps(_true(rows))[0]],
        pairs=_count_pairs(2, Neighbors.REPLACE_ONE),
        draw=_counts(partial(Count, 1.0), _true),
        dataset=(1, 0),
        neighbor=(0, 0),
        power=0.6,
        public=_released(partial(Count, 1.0), _true),
        bugs=(PlantedBug("half the noise", half, (1, 0), (0, 0), 1.0, 0.0),),
    )
