"""A search for the neighboring datasets that move the stages of an entry furthest."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np

from dpstats.auditing.movement import measure_change, stated_sensitivity
from dpstats.privacy import JointStage, Selection, Stage
from registry.entry import Dataset, Entry, measured, remembered

ATTAINED = 0.98
"""A stage that is moved by this part of what it declares attains it."""
_STARTS = 3
"""Pairs of each stage from which the search climbs."""


def stages_of(entry: Entry) -> tuple[Stage | JointStage | Selection, ...]:
    """Return the stages that an entry's integers are about; none where entries of its parts have them."""
    return entry.stages or (measured(entry.plan) if len(entry.integers(entry.dataset)) else ())


def additive(entry: Entry) -> tuple[Stage | JointStage, ...]:
    """Return those of them that add noise."""
    return tuple(stage for stage in stages_of(entry) if isinstance(stage, Stage | JointStage))


def _norms(stage: Stage | JointStage | Selection, ratio: Fraction) -> float:
    """Return a ratio of norms; it is above 1 only if the exact ratio is."""
    found = float(ratio) ** (0.5 if stage.noise == "gaussian" else 1.0)
    return min(found, 1.0) if ratio <= 1 else max(found, math.nextafter(1.0, 2.0))


class Search:
    """Climb from the worst pairs of an entry to worse ones.

    The entries that differ between the two datasets are changed a little, or a lot, or brought to each other's values;
    what moves a stage further is kept.
    """

    def __init__(self, entry: Entry, *, steps: int, pairs: int | None = None, seed: int = 0) -> None:
        self.entry, self.steps, self.pairs = entry, steps, pairs
        self.rng = np.random.default_rng(seed)
        self.stages = stages_of(entry)
        self._integers = remembered(entry.integers)
        self._stated = [stated_sensitivity(stage) for stage in self.stages]

    def ratios(self, first: Dataset, second: Dataset, only: int | None = None) -> list[Fraction]:
        """Return what a pair moves each stage by, over what the stage declares, in the stage's own power of the norm.

        ``only`` is the place of a stage, where the others are not asked about.
        """
        places = range(len(self.stages)) if only is None else [only]
        a, b = self._integers(first), self._integers(second)
        if not len(a) == len(b) == len(self.stages):
            raise ValueError(f"{self.entry.name}: integers must be those of {len(self.stages)} stages")
        return [measure_change(self.stages[k], a[k], b[k]) / self._stated[k] for k in places]

    def run(self, target: float = math.inf) -> dict[str, float]:
        """Return the largest ratio of norms of every stage; a stage that reaches ``target`` is not searched further."""
        stages = self.stages
        best: list[list[tuple[Fraction, int, Any]]] = [[] for _ in stages]
        for order, pair in enumerate(itertools.islice(self.entry.pairs(), self.pairs)):
            for found, ratio in zip(best, self.ratios(*pair), strict=True):
                found.append((ratio, -order, pair))
                if len(found) > 4 * _STARTS:
                    found.sort(key=lambda item: item[:2], reverse=True)
                    del found[_STARTS:]
        result = {}
        for place, (stage, found) in enumerate(zip(stages, best, strict=True)):
            found.sort(key=lambda item: item[:2], reverse=True)
            result[stage.name] = _norms(stage, found[0][0])
            for ratio, _, pair in found[:_STARTS]:
                if result[stage.name] < target:
                    result[stage.name] = max(result[stage.name], _norms(stage, self._climb(place, ratio, pair)))
        return result

    def _climb(self, place: int, ratio: Fraction, pair: tuple[Dataset, Dataset]) -> Fraction:
        rows = self._rows(*pair)
        if rows is None:
            return ratio
        for _ in range(self.steps):
            changed = self._changed(rows, *pair)
            (found,) = self.ratios(*changed, only=place)
            if found >= ratio:
                ratio, pair = found, changed
        return ratio

    def _rows(self, first: Dataset, second: Dataset) -> int | None:
        """Return the row that differs; None where a unit is not a row of numbers."""
        numbers = all(isinstance(data, np.ndarray) and data.dtype.kind == "f" for data in (first, second))
        if not numbers or np.ndim(first) != 2 or np.shape(first) != np.shape(second):
            return None
        differ = np.flatnonzero((first != second).any(axis=1))
        return int(differ[0]) if differ.size == 1 else None

    def _changed(self, row: int, first: Dataset, second: Dataset) -> tuple[Dataset, Dataset]:
        """Return the pair with one number, or a whole row, of one dataset or of both changed."""
        pair = first.copy(), second.copy()
        which = self.rng.integers(4)
        for data in pair if which < 2 else pair[which - 2 : which - 1]:
            place: Any = (row, self.rng.integers(first.shape[1])) if self.rng.random() < 0.7 else row
            size = 10.0 ** self.rng.uniform(-3, 0.5) * self.rng.choice([-1, 1])
            with np.errstate(all="ignore"):
                value = [data[place] * (1 + size), data[place] + size, -data[place]][self.rng.integers(3)]
            data[place] = np.clip(value, -1e300, 1e300)
        return pair
