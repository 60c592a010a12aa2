from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpstats.data.parameters import check_real
from dpstats.errors import refuse
from dpstats.lattice import BallLattice, BoxLattice, CrossLattice
from dpstats.means.moments import sum_integers
from dpstats.means.sparse.design import (
    Design,
    Problem,
    plan_balls,
    plan_cross_radius,
    planned_design,
    released,
    weakest,
)
from dpstats.means.sparse.plan import LAST, SQUARES, SUPPORT, Parts, Setting
from dpstats.means.sparse.recovery import LAWS
from dpstats.privacy.rounding import quotient_up
from dpstats.privacy.stages import Block, JointStage, Selection, Stage
from dpstats.release.additive import Integers, JointIntegers, additive_stages, concentrated_stage


def gumbel_parts(
    setting: Setting, bits: int, *, clip: Any, selection_clip: Any, selection_share: Any
) -> Parts:
    """Plan one-shot Gumbel selection, and the release of rows clipped on the support.

    If few columns would be left out, all are released instead, and the selection uses the released means.
    """
    std, target = setting.std, setting.target
    clip = check_real("clip", clip, above=0)
    problem = Problem(
        setting.n_select,
        setting.n_release,
        setting.n_features,
        setting.n_nonzero,
        setting.max_signal,
        target.epsilon,
        target.delta,
        setting.split,
        clip / float(np.min(std)),
        None if selection_share is None else check_real("selection_share", selection_share, above=0, below=1),
        None if selection_clip is None else check_real("selection_clip", selection_clip, above=0),
    )
    design = planned_design(problem)
    unit = std if isinstance(std, float) else 1.0
    balls, stages = (_pure if target.delta == 0 else _plan_gaussian)(setting, problem, design, unit, bits)
    if design.share is None:
        return Parts(None, None, balls, stages, {law: weakest(problem, design, law) for law in LAWS})
    bounds = np.minimum(clip, design.clip * np.asarray(std))
    lattice = BoxLattice.build(
        float(bounds) if isinstance(std, float) else bounds, 0.0, problem.n_features, common=False, bits=bits
    )
    sensitivity = lattice.columns(slice(1)).sensitivity("l1")
    scale = quotient_up(2 * sensitivity, design.each)
    spacing = float(np.max(bounds / std)) * unit * 2.0**-bits / setting.n_select
    selection = Selection(
        SUPPORT, "gumbel", setting.n_nonzero, spacing, sensitivity, scale, candidates=problem.n_features
    )
    return Parts(lattice, selection, balls, stages)


_Release = tuple[tuple[BallLattice, ...], tuple[Stage | JointStage, ...]]


def _pure(setting: Setting, problem: Problem, design: Design, unit: float, bits: int) -> _Release:
    """Return Laplace noise in one cross about 0."""
    if setting.private_spread:
        # Only under Gaussian noise do squares add no cost to sums.
        raise refuse("delta", given=0.0, allowed="greater than 0 with std='private'")
    ball = CrossLattice.build(
        plan_cross_radius(problem, design) * unit, 0.0, released(problem, design), bits=bits
    )
    sums = sum_integers(_name(design), ball, ball.spacing / problem.n_release)
    return (ball,), additive_stages([sums], design.rest, 0.0)


def _plan_gaussian(setting: Setting, problem: Problem, design: Design, unit: float, bits: int) -> _Release:
    """Return Gaussian noise in up to three balls."""
    n, size, planned = problem.n_release, released(problem, design), plan_balls(problem, design)
    balls = tuple(BallLattice.build(radius * unit, 0.0, size, bits=bits) for radius in planned.radii)
    *first, last = [
        sum_integers(f"{_name(design)}, stage {t}", ball, ball.spacing / n, part)
        for t, (ball, part) in enumerate(zip(balls, planned.shares, strict=True), 1)
    ]
    integers = [*first, _add_squares(last, balls[-1], n) if setting.private_spread else last]
    if problem.split or design.share is None:
        return balls, additive_stages(integers, problem.epsilon, problem.delta)
    return balls, tuple(concentrated_stage(item, design.rest) for item in integers)


def _add_squares(sums: Integers, ball: BallLattice, n: int) -> JointIntegers:
    """Return the sums of a stage with the squares of every column, which add no privacy cost."""
    weight = ball.free_squares("l2")
    assert weight is not None
    moved = ball.joint_sensitivity("l2", (1.0, weight))
    squares = Block(SQUARES, ball.n_features, float(np.asarray(ball.square_spacing)) / n, 1 / weight)
    # In l1 they are not free: only Gaussian noise has such a stage.
    return JointIntegers(
        LAST, (Block(sums.name, sums.size, sums.spacing, 1.0), squares), math.inf, moved, sums.share
    )


def _name(design: Design) -> str:
    return "mean" if design.share is None else "mean on the support"
