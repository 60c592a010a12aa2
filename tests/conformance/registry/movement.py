"""What neighbours move an additive stage by: of one vector, or of all blocks of a joint stage, each in its unit."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from dpstats.privacy import JointStage, Plan, Stage

Steps = np.ndarray | Mapping[str, np.ndarray]
"""Exact integers of a stage, or of the blocks of a joint one by their names."""


class Vector(NamedTuple):
    """A vector that gets noise: what it is measured in, and the scale of its noise, both in its steps."""

    name: str
    size: int
    unit: float
    scale: float


def noisy(plan: Plan) -> tuple[Stage | JointStage, ...]:
    """Return the stages of a plan that add noise to integers."""
    return tuple(stage for stage in plan.stages if isinstance(stage, Stage | JointStage))


def vectors(stage: Stage | JointStage) -> list[Vector]:
    """Return what a stage adds noise to."""
    if isinstance(stage, JointStage):
        return [Vector(b.name, b.size, b.unit_steps, stage.scale_steps(b)) for b in stage.blocks]
    return [Vector(stage.name, stage.size, 1.0, stage.scale_steps)]


def joined(stage: Stage | JointStage, released: Any) -> np.ndarray:
    """Return what was released of a stage as one array, its blocks side by side."""
    if isinstance(stage, JointStage):
        return np.concatenate([released[block.name] for block in stage.blocks], axis=-1)
    return np.asarray(released)


def moved(stage: Stage | JointStage, first: Steps, second: Steps) -> Fraction:
    """Return the l1 distance, or the square of the l2 distance, of all integers of a stage together: exact.

    For joint noise it is the range of 0 and what each moves by.
    """
    if stage.noise == "joint":
        moves = [int(x) - int(y) for x, y in zip(first, second, strict=True)]
        return Fraction(max(0, *moves) - min(0, *moves))
    total = Fraction(0)
    power = 1 if stage.noise == "laplace" else 2
    for vector in vectors(stage):
        a, b = (steps[vector.name] if isinstance(steps, Mapping) else steps for steps in (first, second))
        steps = [abs(int(x) - int(y)) for x, y in zip(a, b, strict=True)]
        total += sum(step**power for step in steps) / Fraction(vector.unit) ** power
    return total


def stated(stage: Stage | JointStage) -> Fraction:
    """Return what a stage states that this is at most."""
    largest = Fraction(stage.sensitivity if isinstance(stage, JointStage) else stage.sensitivity_steps)
    return largest**2 if stage.noise == "gaussian" else largest


def in_steps(stage: Stage | JointStage, distance: Fraction) -> float:
    """Return such a distance as a number of steps (units, of a joint stage)."""
    return float(distance) ** 0.5 if stage.noise == "gaussian" else float(distance)
