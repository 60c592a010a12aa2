"""Plans of answers of numbers, which follow from public facts.

Proofs: docs/proofs/elastic-sensitivity.md, docs/proofs/truncated-sums.md, docs/proofs/discovery.md.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.stages import Block, Discovery, Smooth, Stage
from dpstats.privacy.stages.selection import count_keys
from dpstats.release.additive import (
    Integers,
    JointIntegers,
    additive_stages,
    count_discovery,
    discovery_stage,
    smaller_noise,
)
from dpstats.sensitivity.smooth import LEVEL_SHARE, level_stage, smooth_stage
from dpstats.sql.answers import ANSWER, ROWS, SHARES, SQLPlan, Truncation
from dpstats.sql.query import Query, Several


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
