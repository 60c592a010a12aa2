"""The score of a model on private rows, which is a separate release.

Proof: docs/proofs/regression.md, "Scores".
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.lattice.joint import FREE_SQUARES, FREE_SQUARES_L1, box_movement, free_weight
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import Block as StageBlock
from dpstats.regression.bins import Floats
from dpstats.release.additive import Integers, JointIntegers, additive_stages
from dpstats.release.session import Session

_BITS = 30
MEANS, SQUARES, CORRECT = "means", "squares", "share that is right"
VARIATION = "residuals and outcomes"


def variation_plan(n: int, epsilon: float, delta: float) -> ReleasePlan:
    """Return the plan of releasing means and squares of residuals and outcomes, each in [-1, 1], of n rows."""
    norm = "l2" if delta > 0 else "l1"
    weight = free_weight(FREE_SQUARES, _BITS) if delta > 0 else FREE_SQUARES_L1
    step, unit = 2.0**-_BITS / n, 2.0**_BITS
    moved = box_movement((1.0, weight), 2**_BITS, norm)
    both = math.sqrt(2 * moved) if delta > 0 else 2 * moved
    moved_units = both / unit * (1 + 1e-12)
    blocks = (StageBlock(MEANS, 2, step, unit), StageBlock(SQUARES, 2, step, unit / weight))
    item = JointIntegers(VARIATION, blocks, moved_units, moved_units)
    return ReleasePlan(additive_stages([item], epsilon, delta), PrivacyGuarantee(epsilon, delta), n, 2)


def accuracy_plan(n: int, epsilon: float, delta: float) -> ReleasePlan:
    """Return the plan of releasing the number of correct predictions for n rows."""
    item = Integers(CORRECT, 1, 2.0**-_BITS / n, 1 << _BITS, 1 << _BITS)
    return ReleasePlan(additive_stages([item], epsilon, delta), PrivacyGuarantee(epsilon, delta), n, 1)


def release_variation(plan: ReleasePlan, session: Session, residuals: Floats, outcomes: Floats) -> None:
    """Release moments of residuals and outcomes, clipped to [-1, 1]. A residual that overflows to NaN counts as 1."""
    known = np.where(np.isnan(residuals), 1.0, residuals)
    both = np.clip(np.stack([known, outcomes], axis=1), -1.0, 1.0)
    steps = as_int64(np.rint(both * 2.0**_BITS))
    squares = steps * steps >> _BITS
    session.add(VARIATION, {MEANS: steps.sum(axis=0), SQUARES: squares.sum(axis=0)})


def release_accuracy(plan: ReleasePlan, session: Session, right: NDArray[np.bool_]) -> None:
    """Release the number of correct predictions."""
    session.add(CORRECT, np.array([np.count_nonzero(right) << _BITS]))


def determination(released: Any) -> float:
    """Return R^2 from the values that `release_variation` released, in half-widths of the outcome."""
    means, squares = released[VARIATION][MEANS], released[VARIATION][SQUARES]
    total = float(squares[1] - means[1] ** 2)
    if total <= 0:
        return math.nan
    # Residuals are clipped at twice the half-width, so their squares are in units of 4.
    return float(np.clip(1 - 4 * max(float(squares[0]), 0.0) / total, -1e6, 1.0))
