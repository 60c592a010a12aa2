"""Plans of answers. They are public, and fixed before any private row is read.

Proofs: docs/proofs/elastic-sensitivity.md, docs/proofs/truncated-sums.md, docs/proofs/discovery.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import Plan
from dpstats.privacy.stages import AnyStage, Block, Discovery, OneOf, Smooth, Stage
from dpstats.privacy.stages.additive import Spacing
from dpstats.privacy.stages.discovery import count_keys
from dpstats.release.additive import Integers, JointIntegers, additive_stages
from dpstats.release.discovery import count_discovery, discovery_stage
from dpstats.sensitivity.levels import LEVEL, LEVEL_SHARE, level_stage, smooth_stage
from dpstats.sql.query import Query, Several
from dpstats.sql.truncation import Truncation

ANSWER = "answer"
ROWS, SHARES = "rows", "shares"
"""The blocks of keys that are not declared."""
DISCOVERY_BITS = 28
"""Rows have two to this power of steps where keys are not declared: 64-bit integers hold 2^34 rows of a key."""
_SAFE = 1 + 1e-12
_FINER = 1 << 10
"""Parts of an integer in which noise with heavy tails is drawn. Its smallest scale is a few parts."""
_LARGEST_SCALE = 2.0**52
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


def public_plan(query: Query, moved: int, guarantee: PrivacyGuarantee) -> SQLPlan:
    """Return the plan of an answer with a sensitivity of at most ``moved`` steps, for any private tables."""
    size = query.cells * query.measure.parts
    pure = replace(guarantee, delta=0.0)
    relation = guarantee.neighbors
    stages = additive_stages(
        [Integers(ANSWER, size, 1.0, max(moved, 1), max(moved, 1))],
        guarantee.epsilon,
        0.0,
        neighbors=relation,
    )
    if guarantee.delta and isinstance(query.measure, Several):
        # In l2 columns move less than they add up to: many of them have less Gaussian noise.
        times = max(moved // query.moved, 1)
        far = math.isqrt(times**2 * query.measure.moved_squared(query.added) - 1) + 1
        normal = additive_stages(
            [Integers(ANSWER, size, 1.0, max(moved, 1), far)],
            guarantee.epsilon,
            guarantee.delta,
            neighbors=relation,
        )
        if normal[0].noise_std < stages[0].noise_std:
            return SQLPlan(normal, guarantee, query)
    return SQLPlan(stages, pure, query)


def discovery_plan(query: Query, guarantee: PrivacyGuarantee) -> SQLPlan:
    """Return the plan of numbers of keys that are not declared, where a row of the data is one row of the result."""
    several = query.measure
    assert isinstance(several, Several)
    if several.parts:
        return SQLPlan((plan_shares(several, guarantee),), guarantee, query)
    return SQLPlan((count_discovery(ANSWER, ROWS, guarantee, several.bits),), guarantee, query)


def plan_shares(several: Several, guarantee: PrivacyGuarantee) -> Discovery:
    """Return the stage of numbers of keys that are not declared, under Gaussian noise."""
    row, keys = several.row_steps, count_keys(guarantee.neighbors)
    blocks = [Block(ROWS, keys, 1 / row, 1.0)]
    if several.parts:
        blocks.append(Block(SHARES, keys * several.parts, 1.0, 1.0))
    # A replaced row leaves one key and enters another, with its shares.
    far = math.sqrt(keys * row**2 + several.moved_squared(keys == 1)) * _SAFE
    touched = JointIntegers(ANSWER, tuple(blocks), math.inf, far)
    return discovery_stage(touched, row, guarantee.epsilon, guarantee.delta, guarantee.neighbors)


def smooth_plan(query: Query, guarantee: PrivacyGuarantee, interval: bool) -> SQLPlan:
    """Return the plan of an answer whose noise depends on frequencies in private tables."""
    size = query.cells * query.measure.parts
    law = "laplace" if guarantee.delta else "student"
    finer = 1 if law == "laplace" or query.moved >= _FINER else _FINER
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
    stages: tuple[Stage | Smooth, ...] = (
        (level_stage(level, guarantee.neighbors), stage) if interval else (stage,)
    )
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
            _FINER if grouped and measure.reach < _FINER else 1,
            guarantee.neighbors,
        )
        for part in parts
    )
    stages = tuple(stage for truncation in truncations for stage in truncation.stages())
    return SQLPlan(stages, replace(guarantee, delta=0.0), query, truncations=truncations)
