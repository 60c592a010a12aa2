"""Any statistic: located values of blocks, clipped sums, failures."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from dpstats.privacy import JointStage
from dpstats.release.session import Part, Session
from dpstats.statistic import PrivateStatistic
from dpstats.statistic.clipped_sums import GRAINS, LARGEST_SIZE, Box, locations, spacing_of, sums
from dpstats.statistic.plan import LOCATION, ORDER, SUMS
from registry.entry import Dataset, Entry, PlantedBug, Traits, Understated, core, fitted, having, less_noise

Pair = tuple[Dataset, Dataset]

K = 60
FAILS = 50.0
"""Rows at least so large make their block fail."""
BOX = Box(-4.0, 4.0)
OPTIONS: dict[str, Any] = {"blocks": K, "bias": None, "bounds": (BOX.low, BOX.high), "epsilon": 1.0}
# Something that the location could have released: a center, and the distance at which values are clipped, in steps.
CENTER, REACH = np.zeros(1, dtype=np.int64), np.array([2.0**38])


def value(block: Any) -> float:
    """Return the single row of a block, or fail."""
    if block[0, 0] >= FAILS:
        raise ValueError
    return float(block[0, 0])


class Remembering:
    """Returns the value of a block, and the largest one from the first block on that has a value beyond 3."""

    def __init__(self) -> None:
        self.seen: list[bool] = []

    def __call__(self, block: Any, scale: float = 1.0) -> float:
        found = scale * value(block)
        self.seen.append(found > 3)
        return BOX.high if any(self.seen) else found


def steps_of(data: Dataset) -> tuple[np.ndarray, np.ndarray]:
    values = np.where(data[:, 0] >= FAILS, np.nan, data[:, 0])
    return BOX.in_steps(values), np.isnan(values)


def integers(data: Dataset, failed_as: int = LARGEST_SIZE) -> np.ndarray:
    """Return the exact sums of one-row blocks at a location; a failed block has the size ``failed_as``."""
    steps, failed = steps_of(data)
    found = sums(steps, failed, CENTER, REACH)[0]
    found[1] -= int(failed.sum()) * (LARGEST_SIZE - failed_as)
    return found


def squares(data: Dataset) -> np.ndarray:
    """Return the sums with squares of clipped values in place of their sizes."""
    steps, failed = steps_of(data)
    found = sums(steps, failed, CENTER, REACH)[0]
    clipped = np.clip(steps / REACH, -1, 1)
    found[1] = int(np.where(failed, 1.0, clipped**2).sum() * GRAINS)
    return found


def pairs() -> Iterator[Pair]:
    """Yield pairs of K rows of which one differs: inside, at and beyond the clip, and failing."""
    rows = np.linspace(-1, 1, K)[:, None]
    for a, b in itertools.combinations((-4.0, -1.0, -0.3, 0.0, 0.4, 1.0, 4.0, FAILS), 2):
        first, second = rows.copy(), rows.copy()
        first[0], second[0] = a, b
        yield first, second


class ScaleFromTheData(PrivateStatistic):
    """Planted bug: values are clipped at their own largest distance, which the sums then show."""

    def _release(self, private: Any, plan: Any, session: Session) -> None:
        order = session.shuffle(ORDER)
        values = self._values(private, order, plan)
        steps, failed = BOX.in_steps(values[:, 0]), np.isnan(values[:, 0])
        session.choose(LOCATION, [Part([locations(steps, BOX.ends)])])
        draws = 1 if session.size is None else session.size
        reach = np.full(draws, float(max(1, np.abs(steps).max())))
        session.add(SUMS, sums(steps, failed, np.zeros(draws, dtype=np.int64), reach))


class OneCopyForAll(PrivateStatistic):
    """Planted bug: all blocks call one copy of the function, which remembers what it was called with."""

    def _read(self, rows: Any, plan: Any) -> Any:
        private = super()._read(rows, plan)
        one = private.work.function.thaw()
        return replace(private, work=replace(private.work, function=SimpleNamespace(thaw=lambda: one)))


class UnevenSidesFourTimes(PrivateStatistic):
    """Planted bug: the utility falls by four times the difference of the two sides, which a value changes by two."""

    def _release(self, private: Any, plan: Any, session: Session) -> None:
        order = session.shuffle(ORDER)
        steps = BOX.in_steps(self._values(private, order, plan)[:, 0])
        runs = locations(steps, BOX.ends)
        center = runs.low * spacing_of(runs.line)
        below = (steps[:, None] < center).sum(axis=0)
        session.choose(LOCATION, [Part([replace(runs, utility=-4 * np.abs(2 * below - K))])])
        session.skip(SUMS, "the location is what is audited")


@having(
    {PrivateStatistic: Traits(excused={"estimator": "its plan refuses few rows: tests/statistic has nets of its own"})}
)
def entries() -> Iterator[Entry]:
    cases = {
        "any statistic": (value, 0.0),
        "any statistic, eight outputs": (repeated, 1e-6),
        "any statistic, a function that remembers": (partial(Remembering(), scale=1.0), 0.0),
    }
    for name, (function, delta) in cases.items():
        options = {**OPTIONS, "delta": delta, "n_outputs": 1}
        if delta:
            # Several outputs, which share Gaussian noise; the last of them is what moves.
            options |= {"n_outputs": 8, "epsilon": 8.0}
        estimator = PrivateStatistic(function, **options)
        remembers = isinstance(function, partial)
        moved = BOX.high if remembers else FAILS
        all_alike = np.zeros((K, 1)), np.vstack([np.full((1, 1), moved), np.zeros((K - 1, 1))])
        plan = estimator.plan(K, 1)
        yield Entry(
            name=name,
            covers=PrivateStatistic,
            proof="statistic.md",
            plan=plan,
            integers=lambda data, plan=plan: [_of_plan(plan, integers(data))],
            pairs=pairs,
            draw=core(estimator),
            dataset=all_alike[0],
            neighbor=all_alike[1],
            power=0.02,
            public=fitted(estimator, lambda made: np.nan_to_num(np.ravel(made.estimate_))),
            bugs=_shared_memory(function, options, all_alike)
            if remembers
            else _bugs(options, all_alike)
            if not delta
            else (),
            understated=_understated(plan),
        )


def _understated(plan: Any) -> tuple[Understated, ...]:
    # In the l2 norm a failed block of size 0 moves less than a value from one end of the clip to the other.
    planted = {"squares in place of sizes": squares}
    if not plan.guarantee.delta:
        planted["a failed block counts as size 0"] = partial(integers, failed_as=0)
    return tuple(
        Understated(name, plan, lambda data, made=made: [_of_plan(plan, made(data))], pairs)
        for name, made in planted.items()
    )


def _of_plan(plan: Any, triple: np.ndarray) -> Any:
    """Return the integers of all outputs, which are one and the same."""
    stage = plan.stage(SUMS)
    if isinstance(stage, JointStage):
        return {block.name: np.repeat(triple[i], block.size) for i, block in enumerate(stage.blocks)}
    return np.repeat(triple, stage.size // 3)


def repeated(block: Any) -> list[float]:
    """Return the value of a block eight times."""
    return [value(block)] * 8


def _shared_memory(function: Any, options: dict[str, Any], pair: Pair) -> tuple[PlantedBug, ...]:
    return (PlantedBug("one copy for all blocks", core(OneCopyForAll(function, **options)), *pair, 1.0, 0.0),)


def _bugs(options: dict[str, Any], pair: Pair) -> tuple[PlantedBug, ...]:
    class HalfTheNoise(PrivateStatistic):
        """Planted bug: half the noise that the guarantee needs."""

        def plan(self, n_samples: int, n_features: int = 1) -> Any:
            return less_noise(super().plan(n_samples, n_features), 0.1)

    near = np.ones((K, 1))
    far = np.vstack([np.full((1, 1), 4.0), near[1:]])
    sided = np.repeat([-1.0, 0.0, 1.0], K // 3)[:, None]
    moved = sided.copy()
    moved[0] = 1.0
    return (
        PlantedBug("a tenth of the noise", core(HalfTheNoise(value, **options)), *pair, 1.0, 0.0),
        PlantedBug("clipped at the largest value", core(ScaleFromTheData(value, **options)), far, near, 1.0, 0.0),
        PlantedBug(
            "the difference of the sides four times",
            core(UnevenSidesFourTimes(value, **options)),
            sided,
            moved,
            1.0,
            0.0,
        ),
    )
