"""Sums over units with what each adds cut at a threshold: which threshold is itself chosen privately.

Proof: docs/proofs/truncated-sums.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.privacy.guarantee import Neighbors
from dpstats.privacy.rounding import quotient_up
from dpstats.privacy.stages import AnyStage, Comparisons, OneOf, Stage
from dpstats.release.noise import check_scale
from dpstats.release.session import Session

THRESHOLD_SHARE = 0.3
"""Part of epsilon that the threshold is chosen with."""
RACE_ERROR = 0.05
"""Probability that the largest of the race's candidates is above the sum."""


@dataclass(frozen=True)
class Threshold:
    """The private choice of a power of two that few units exceed.

    Attributes
    ----------
    name : str
    epsilon : float
    powers : (int, int)
        The first and the last threshold are two to these powers.
    neighbors : Neighbors
    """

    name: str
    epsilon: float
    powers: tuple[int, int]
    neighbors: Neighbors = Neighbors.REPLACE_ONE

    @property
    def each(self) -> range:
        """The powers of all thresholds."""
        return range(self.powers[0], self.powers[1] + 1)

    @property
    def stage(self) -> Comparisons:
        """The stage of the choice."""
        first = self.epsilon
        return Comparisons(
            self.name,
            1.0,
            1,
            -math.ceil(8 / first),
            check_scale(quotient_up(2, first)),
            check_scale(quotient_up(4, first)),
            1,
            neighbors=self.neighbors,
        )

    def choose(self, session: Session, above: list[int]) -> int:
        """Return the place of a threshold: ``above`` has how many units exceed each of them."""
        stream = session.stream(self.name)
        # If no threshold passes, use the last one.
        return next((i for i, n in enumerate(above[:-1]) if stream.ask(-n) is not None), len(above) - 1)


@dataclass(frozen=True)
class Truncation:
    """How one sum over units is released.

    Attributes
    ----------
    name : str
    method : {"threshold", "race"}
    epsilon : float
    powers : (int, int)
        The first and the last threshold are two to these powers.
    moved : int
        How far (l1) all numbers together move at most, where every unit adds at most 1, in multiples of the threshold.
    size : int
        Number of released numbers.
    finer : int
        Parts of one that numbers which are cut in proportion are rounded to.
    neighbors : Neighbors
    """

    name: str
    method: str
    epsilon: float
    powers: tuple[int, int]
    moved: int = 1
    size: int = 1
    finer: int = 1
    neighbors: Neighbors = Neighbors.REPLACE_ONE

    @property
    def threshold(self) -> Threshold:
        """The choice of the threshold."""
        first = THRESHOLD_SHARE * self.epsilon
        return Threshold(f"threshold of {self.name}", first, self.powers, self.neighbors)

    @property
    def each(self) -> range:
        """The powers of all thresholds."""
        return self.threshold.each

    def stages(self) -> tuple[AnyStage, ...]:
        """Return the stages: a stream of comparisons and one of several sums; or of a race all sums."""
        if self.method == "race":
            each = self.epsilon / len(self.each) * (1 - 2.0**-50)
            return tuple(self._sum(j, each, f"{self.name} cut at 2^{j}") for j in self.each)
        rest = (self.epsilon - self.threshold.epsilon) * (1 - 2.0**-50)
        return (
            self.threshold.stage,
            OneOf(self.name, tuple(self._sum(j, rest, self.name) for j in self.each)),
        )

    def _sum(self, j: int, epsilon: float, name: str) -> Stage:
        steps = self.moved * self.finer << j
        scale = check_scale(quotient_up(steps, epsilon))
        return Stage(name, "laplace", self.size, 1 / self.finer, steps, scale, neighbors=self.neighbors)

    def release(self, session: Session, above: list[int], sums: NDArray[Any]) -> None:
        """Release: ``above`` has how many units add more than each threshold, ``sums`` what they add cut there."""
        if self.method == "race":
            for j, cut in zip(self.each, sums, strict=True):
                session.add(f"{self.name} cut at 2^{j}", cut)
            return
        place = self.threshold.choose(session, above)
        session.add_one(self.name, sums[place], place)

    def report(self, released: Any) -> tuple[NDArray[np.float64], float, int | None]:
        """Return the numbers, the scale of their noise, and the power of the threshold; of a race the winner."""
        if self.method == "threshold":
            place, numbers = released[self.name]
            _, sums = self.stages()
            assert isinstance(sums, OneOf)
            return numbers, sums.options[place].scale_steps / self.finer, self.each[place]
        best, scale, count = 0.0, 0.0, len(self.each)
        for j in self.each:
            noise = count * 2.0**j / self.epsilon
            value = float(released[f"{self.name} cut at 2^{j}"][0]) - noise * math.log(count / RACE_ERROR)
            if value > best:
                best, scale = value, noise
        return np.array([best]), scale, None
