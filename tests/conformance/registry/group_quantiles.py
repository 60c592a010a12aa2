"""Quantiles of groups: rows that change their group, ranks that follow a group's size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dpstats.groups import GroupQuantiles
from dpstats.release.session import Session
from registry.entry import Dataset, Draw, Entry, PlantedBug, Understated, columns, less_noise
from registry.groups import grouped, public

GROUPS = (0.0, 1.0)
ONE: dict[str, Any] = {"groups": GROUPS, "bounds": (0, 100), "step": 1.0, "epsilon": 4.0, "confidence_level": None}

Pair = tuple[Dataset, Dataset]


def labeled(**counts: dict[float, int]) -> Dataset:
    """Return so many rows of some values in the groups a and b, the value first and the label last."""
    return np.array(
        [
            [value, label]
            for name, label in zip("ab", GROUPS, strict=True)
            for value, count in counts.get(name, {}).items()
            for _ in range(count)
        ]
    )


def changed(data: Dataset, row: int, value: float, label: float) -> Pair:
    """Return a dataset and its neighbor with one other row."""
    other = data.copy()
    other[row] = value, label
    return data, other


def core(estimator: Any) -> Draw:
    """Return the batched core of a fit to rows whose last column is the label."""

    def draw(data: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        table = grouped(estimator, data)
        plan = estimator.plan(*table.X.shape)
        with Session.simulated(plan, rng, size) as session:
            estimator._release(estimator._read(table, plan), plan, session)
        return columns(plan, session.released)

    return draw


class HalfRange(GroupQuantiles):
    """Planted bug: a row moves one group by half a row, and the other one is forgotten."""

    def plan(self, n_samples: int, n_features: int = 1) -> Any:
        plan = super().plan(n_samples, n_features)
        rows, choice = plan.stages
        return replace(plan, stages=(rows, *less_noise(replace(plan, stages=(choice,))).stages))


class CountsAsTheyAre(GroupQuantiles):
    """Planted bug: the numbers of rows of the groups have next to no noise."""

    def plan(self, n_samples: int, n_features: int = 1) -> Any:
        plan = super().plan(n_samples, n_features)
        rows, choice = plan.stages
        return replace(plan, stages=(replace(rows, scale_steps=0.05), choice))


class BoundsFromTheGroup(GroupQuantiles):
    """Planted bug: places are measured from the least row of all groups."""

    def _read(self, rows: Any, plan: Any) -> Any:
        table = rows.whole()
        return super()._read(type(table)(table.X - table.X.min(), groups=table.groups), plan)


def entries() -> Iterator[Entry]:
    one = GroupQuantiles(**ONE)
    # Below 90 the rank is short, above it is too large: one row moved from 0 to 100 within its group.
    staying = changed(labeled(a={0: 1, 90: 2}, b={50: 3}), 0, 100.0, 0.0)
    changing = changed(labeled(a={0: 2, 100: 1}, b={0: 1, 100: 2}), 0, 100.0, 1.0)
    lowest = changed(labeled(a={5: 1, 50: 20}, b={50: 20}), 0, 45.0, 0.0)

    def counted(data: Dataset, weight: int = 1) -> list[np.ndarray]:
        return [weight * np.array([np.count_nonzero(data[:, 1] == label) for label in GROUPS])]

    def pairs() -> Iterator[Pair]:
        yield from (staying, changing)
        yield changed(staying[0], 0, 0.0, 7.0)

    number = one.plan(6).stages[0]
    twice = replace(one.plan(6), stages=(replace(number, sensitivity_steps=1),))
    interval = GroupQuantiles(**{**ONE, "confidence_level": 0.9, "epsilon": 8.0})
    crossing = changed(labeled(a={0: 60, 100: 59}, b={0: 59, 100: 60}), 0, 100.0, 1.0)
    yield Entry(
        name="medians of groups",
        covers=GroupQuantiles,
        proof="quantiles.md",
        plan=one.plan(6),
        integers=counted,
        pairs=pairs,
        draw=core(one),
        dataset=staying[0],
        neighbor=staying[1],
        power=0.3,
        public=public(one, lambda made: np.append(made.counts_, np.nan_to_num(made.quantile_))),
        stages=(number,),
        bugs=(
            PlantedBug("half the range", core(HalfRange(**ONE)), *staying, 4.0, 0.0, 40_000),
            PlantedBug("the counts as they are", core(CountsAsTheyAre(**ONE)), *changing, 4.0, 0.0, 20_000),
            PlantedBug("bounds from the data", core(BoundsFromTheGroup(**ONE)), *lowest, 4.0, 0.0, 20_000),
        ),
        understated=(Understated("one of two counts", twice, counted, pairs),),
        estimator=GroupQuantiles(**{**ONE, "bounds": (-6.0, 6.0), "step": None, "epsilon": 50.0}),
    )
    yield Entry(
        name="medians of groups and their intervals",
        covers=GroupQuantiles,
        proof="quantiles.md",
        plan=interval.plan(len(crossing[0])),
        integers=counted,
        pairs=pairs,
        draw=core(interval),
        dataset=crossing[0],
        neighbor=crossing[1],
        power=0.05,
        public=public(interval, lambda made: np.concatenate([made.counts_, made.low_, made.high_])),
        stages=(interval.plan(6).stages[0],),
        bugs=(),
        estimator=GroupQuantiles(**{**ONE, "bounds": (-6.0, 6.0), "step": None, "confidence_level": 0.9}),
    )
