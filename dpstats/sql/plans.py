"""Plans of answers of numbers, which are public, and sums over units that are cut at a threshold.

Proofs: docs/proofs/elastic-sensitivity.md, docs/proofs/truncated-sums.md, docs/proofs/discovery.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee, quotient_up
from dpstats.privacy.plan import Plan
from dpstats.privacy.stages import AnyStage, Block, Comparisons, Discovery, OneOf, Smooth, Stage
from dpstats.privacy.stages.additive import Spacing
from dpstats.privacy.stages.selection import count_keys
from dpstats.release.additive import (
    Integers,
    JointIntegers,
    additive_stages,
    count_discovery,
    discovery_stage,
    smaller_noise,
)
from dpstats.release.noise import check_scale
from dpstats.release.session import Session
from dpstats.sensitivity.levels import LEVEL, LEVEL_SHARE, level_stage, smooth_stage
from dpstats.sql.query import Query, Several

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
        return (self.threshold.stage, OneOf(self.name, tuple(self._sum(j, rest, self.name) for j in self.each)))

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


ANSWER = "answer"
ROWS, SHARES = "rows", "shares"
"""The blocks of keys that are not declared."""
_LARGEST_ANSWER = 2**60


@dataclass(frozen=True)
class SQLPlan(Plan):
    """The plan of the answer to a query.

    Attributes
    ----------
    query : Query
    finer : int
        Parts of a step of the answer that noise is drawn in.
    largest : int
        Public limit of numbers in steps. Larger numbers are clipped to it. It also bounds all sensitivities.
    truncations : tuple of Truncation
        Truncations of sums over units, one for each sign.
    """

    query: Query
    finer: int = 1
    largest: int = _LARGEST_ANSWER
    truncations: tuple[Truncation, ...] = ()

    @property
    def method(self) -> str:
        """How the noise is scaled: by a public bound, by the smooth sensitivity, or by a threshold of units.

        "discovery" has the public bound, and a threshold of keys.
        """
        if not self.stages:
            return "exact"
        if self.truncations:
            return self.truncations[0].method
        if self.query.discovers:
            return "discovery"
        return "smooth" if isinstance(self.stages[-1], Smooth) else "public"

    @property
    def _listed(self) -> tuple[AnyStage, ...]:
        """The stages with noise in rows, or in the units of a sum: answers are released in steps of them."""
        measure = self.query.measure
        unit = measure.step_rows if isinstance(measure, Several) else measure.spacing
        return self.stages if unit == 1 else tuple(_convert_stage(stage, unit) for stage in self.stages)

    def notes(self) -> list[str]:
        rows = isinstance(self.query.measure, Several) and self.method != "smooth"
        return ["scales of the noise are in rows"] if rows else []

    def __str__(self) -> str:
        return "\n  ".join([super().__str__(), *self.notes()])

    @property
    def discovery(self) -> Discovery:
        """The stage of keys that are not declared."""
        (stage,) = (stage for stage in self.stages if isinstance(stage, Discovery))
        return stage

    @property
    def smooth(self) -> Smooth:
        """The stage of an answer with noise of a private scale."""
        stage = self.stages[-1]
        assert isinstance(stage, Smooth)
        return stage


def _convert_stage(stage: AnyStage, unit: Spacing) -> AnyStage:
    """Return a stage of an answer with a step of this length, to be listed. Others are unchanged."""
    if isinstance(stage, Stage):
        return stage if stage.name == LEVEL else _convert_steps(stage, unit)
    if isinstance(stage, OneOf):
        return replace(stage, options=tuple(_convert_steps(option, unit) for option in stage.options))
    if isinstance(stage, Discovery):
        counts, *others = stage.blocks
        blocks = (counts, *(replace(block, spacing=unit) for block in others))
        return replace(stage, touched=replace(stage.touched, blocks=blocks))
    return stage


def _convert_steps(stage: Stage, unit: Spacing) -> Stage:
    assert isinstance(stage.spacing, float)
    return replace(stage, spacing=unit if isinstance(unit, tuple) else stage.spacing * unit)


def exact_plan(query: Query, guarantee: PrivacyGuarantee) -> SQLPlan:
    """Return the plan of an answer from public tables only: it has no noise, and costs nothing."""
    return SQLPlan((), replace(guarantee, epsilon=0.0, delta=0.0), query)


def public_plan(query: Query, moved: int, guarantee: PrivacyGuarantee, budget: Any = None) -> SQLPlan:
    """Return the plan of an answer with a sensitivity of at most ``moved`` steps, for any private tables."""
    size = query.cells * query.measure.parts
    most = far = max(moved, 1)
    if isinstance(query.measure, Several):
        # In l2 columns move less than they add up to: many of them have less Gaussian noise.
        times = max(moved // query.moved, 1)
        far = math.isqrt(times**2 * query.measure.moved_squared(query.added) - 1) + 1

    def make_plan(delta: float) -> SQLPlan:
        integers = Integers(ANSWER, size, 1.0, most, far)
        stages = additive_stages([integers], guarantee.epsilon, delta, neighbors=guarantee.neighbors)
        return SQLPlan(stages, replace(guarantee, delta=delta), query)

    if not isinstance(query.measure, Several):
        return make_plan(0.0)
    return smaller_noise(make_plan, guarantee.delta, lambda plan: plan.noise(ANSWER).std, budget)


DISCOVERY_BITS = 28
"""Rows have two to this power of steps where keys are not declared: 64-bit integers hold 2^34 rows of a key."""


def discovery_plan(query: Query, guarantee: PrivacyGuarantee) -> SQLPlan:
    """Return the plan of numbers of keys that are not declared, where a row of the data is one row of the result."""
    several = query.measure
    assert isinstance(several, Several)
    if several.parts:
        return SQLPlan((plan_shares(several, guarantee),), guarantee, query)
    return SQLPlan((count_discovery(ANSWER, ROWS, guarantee, several.bits),), guarantee, query)


_ROUNDING_MARGIN = 1 + 1e-12


def plan_shares(several: Several, guarantee: PrivacyGuarantee) -> Discovery:
    """Return the stage of numbers of keys that are not declared, under Gaussian noise."""
    row, keys = several.row_steps, count_keys(guarantee.neighbors)
    blocks = [Block(ROWS, keys, 1 / row, 1.0)]
    if several.parts:
        blocks.append(Block(SHARES, keys * several.parts, 1.0, 1.0))
    # A replaced row leaves one key and enters another, with its shares.
    far = math.sqrt(keys * row**2 + several.moved_squared(keys == 1)) * _ROUNDING_MARGIN
    touched = JointIntegers(ANSWER, tuple(blocks), math.inf, far)
    return discovery_stage(touched, row, guarantee.epsilon, guarantee.delta, guarantee.neighbors)


_PARTS_OF_A_STEP = 1 << 10
"""Parts of an integer in which noise with heavy tails is drawn. Its smallest scale is a few parts."""
_LARGEST_SCALE = 2.0**52


def smooth_plan(query: Query, guarantee: PrivacyGuarantee, interval: bool) -> SQLPlan:
    """Return the plan of an answer whose noise depends on frequencies in private tables."""
    size = query.cells * query.measure.parts
    law = "laplace" if guarantee.delta else "student"
    finer = 1 if law == "laplace" or query.moved >= _PARTS_OF_A_STEP else _PARTS_OF_A_STEP
    level = LEVEL_SHARE[law] * guarantee.epsilon if interval else 0.0
    epsilon = (guarantee.epsilon - level) * (1 - 2.0**-50) if interval else guarantee.epsilon

    def of(furthest: float) -> Smooth:
        return smooth_stage(
            ANSWER,
            epsilon,
            guarantee.delta,
            spacing=1 / finer,
            least=0.5 if law == "laplace" else 8.0,
            furthest=furthest,
            size=size,
            noise=law,
            steady=interval,
            neighbors=guarantee.neighbors,
        )

    # The largest sensitivity whose noise can still be drawn; with it the largest answer.
    small = of(1024.0)
    furthest = float(int(_LARGEST_SCALE * small.sensitivity_share / float(small.ratio)))
    largest = int(furthest) // (2 * finer * size)
    stage = of(furthest)
    stages: tuple[Stage | Smooth, ...] = (level_stage(level, guarantee.neighbors), stage) if interval else (stage,)
    total = guarantee if law == "laplace" else replace(guarantee, delta=0.0)
    return SQLPlan(stages, total, query, finer, largest)


def unit_plan(query: Query, guarantee: PrivacyGuarantee, method: str, rows: int) -> SQLPlan:
    """Return the plan of sums over units, cut at a threshold of up to 2^rows rows of the largest value."""
    measure, grouped = query.measure, bool(query.groups)
    # Start at a sixteenth of the largest value. Smaller thresholds would remove almost everything.
    bits, parts, moved = 0, ["all"], 2 if grouped and not query.added else 1
    if isinstance(measure, Several):
        moved = query.moved
    elif measure.kind == "sum":
        bits = max(measure.high, -measure.low, 1).bit_length()
        ends = (("positive", measure.high), ("negative", -measure.low))
        parts = [word for word, end in ends if end > 0] or parts
    epsilon = guarantee.epsilon if len(parts) == 1 else guarantee.epsilon / 2 * (1 - 2.0**-50)
    truncations = tuple(
        Truncation(
            part if len(parts) == 2 else ANSWER,
            method,
            epsilon,
            (max(bits - 4, 0), rows + bits),
            moved,
            query.cells * measure.parts,
            # The threshold is divided among the cells of a unit. With few rows, most of the result would be fractions.
            _PARTS_OF_A_STEP if grouped and measure.reach < _PARTS_OF_A_STEP else 1,
            guarantee.neighbors,
        )
        for part in parts
    )
    stages = tuple(stage for truncation in truncations for stage in truncation.stages())
    return SQLPlan(stages, replace(guarantee, delta=0.0), query, truncations=truncations)
