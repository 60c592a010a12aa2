"""Joint sensitivity of a gradient, a Gram matrix and a meat matrix, much smaller than the sum of the three.

A row is u in the unit ball and v in [-1, 1]. Matrices have the Frobenius norm. Proofs: docs/proofs/regression.md, and
for Gram matrices alone docs/proofs/sufficient-statistics.md and docs/proofs/functional-mechanism.md.

* A Gram matrix alone: ||uu' - u'u''||^2 <= 2; and for u in the unit ball of l1 its entries move by 2 in l1.

* ||vu - v'u'||^2 + ||uu' - u'u''||^2/2 <= 4, the value for the gradient alone: the first linear step.
* With the meat: ||vu - v'u'||^2 + (||Iuu' - ..||^2 + ||v^2 uu' - ..||^2)/4 <= 4.25.
  Here I is 0 only if |v| equals its clipping threshold. If I is 1 for all rows, the bound is 4.
* With any q in [0, 1] for I, y included; the first line then is at most 4.5: ||vu - v'u'||^2 + ||quu' - ..||^2/2.
  Later linear steps have q = I.
* Logistic: ||vu - v'u'||^2 + 1.5 ||huu' - ..||^2 <= 4 where h = 4p(1-p) and |v| <= |y - p|.

If u, v are integers divided by 2^bits, the first bound is exact. For rows that are rounded again, the rounding error
adds to the sensitivity.
"""

from __future__ import annotations

import math

from dpstats.lattice import isqrt_up
from dpstats.privacy.stages import Block as StageBlock
from dpstats.release.additive import Integers, JointIntegers

GRADIENT, CURVATURE, MEAT, MOMENTS = "gradient", "curvature", "meat", "moments"

STEP_WEIGHT = 0.5
LAST_WEIGHT = 0.25
LOGISTIC_WEIGHT = 1.5
"""Squared weights of the matrices released with the gradient."""

LAST_MOVEMENT = 4.25
ANY_MOVEMENT = 4.5
"""Squared sensitivities: of the last step, and of a gradient with a matrix whose weights may have any values."""

_SAFE = 1 + 1e-12
_ROUNDING = 0.51  # rounding error of an entry, in steps: half a step plus floating-point error


def gram_blocks(
    name: str, p: int, n: int, steps: int, weight: float, norm: str = "l2"
) -> tuple[StageBlock, ...]:
    """Return the blocks of a Gram matrix of rows with norm at most ``steps``: its diagonal, and the entries above it.

    An off-diagonal entry counts twice in the norm, and so gets less noise. In released units the rows have norm 1.
    """
    twice = math.sqrt(2) if norm == "l2" else 2.0
    unit = steps**2 / math.sqrt(weight)
    spacing = 1.0 / steps**2 / n
    blocks = [StageBlock(f"{name}, diagonal", p, spacing, unit)]
    if p > 1:
        blocks.append(StageBlock(f"{name}, above the diagonal", p * (p - 1) // 2, spacing, unit / twice))
    return tuple(blocks)


def gram_integers(name: str, p: int, n: int, steps: int, share: float) -> JointIntegers:
    """Return the integers of a stage for a Gram matrix alone: sensitivity sqrt(2), attained by orthogonal rows."""
    return JointIntegers(
        name, gram_blocks(CURVATURE, p, n, steps, 1.0), math.inf, math.sqrt(2) * _SAFE, share
    )


def gradient_integers(name: str, p: int, n: int, bits: int, share: float) -> Integers:
    """Return the integers of a stage for a gradient alone: its sensitivity is twice the radius of the ball."""
    steps = 4**bits
    return Integers(name, p, 1.0 / steps / n, isqrt_up(4 * p * steps**2), 2 * steps, share)


def step_integers(
    name: str, p: int, n: int, bits: int, share: float, unclipped: bool = False
) -> JointIntegers:
    """Return the integers of a linear step: gradient and Gram matrix, of all rows or of the unclipped ones."""
    steps = 2**bits
    blocks = (_gradient(p, n, steps), *gram_blocks(CURVATURE, p, n, steps, STEP_WEIGHT))
    moved = math.sqrt(ANY_MOVEMENT) if unclipped else 2.0
    return JointIntegers(name, blocks, math.inf, moved * _SAFE, share)


def last_integers(name: str, p: int, n: int, bits: int, share: float) -> JointIntegers:
    """Return the integers of the last linear step: gradient, Gram matrix of the unclipped rows, and meat."""
    steps = 2**bits
    blocks = (
        _gradient(p, n, steps),
        *gram_blocks(CURVATURE, p, n, steps, LAST_WEIGHT),
        *gram_blocks(MEAT, p, n, steps, LAST_WEIGHT),
    )
    moved = math.sqrt(LAST_MOVEMENT) + 2 * math.sqrt(LAST_WEIGHT) * _gram_rounding(p, steps)
    return JointIntegers(name, blocks, math.inf, moved * _SAFE, share)


def weighted_integers(name: str, p: int, n: int, bits: int, share: float, last: bool) -> JointIntegers:
    """Return the integers of a step with curvatures of rows in [0, 1]: gradient, Hessian, and in the last the meat."""
    steps, weight = 2**bits, LAST_WEIGHT if last else STEP_WEIGHT
    matrices = (CURVATURE, MEAT) if last else (CURVATURE,)
    blocks = [_gradient(p, n, steps)]
    for matrix in matrices:
        blocks += gram_blocks(matrix, p, n, steps, weight)
    # Two rows are rounded, in each matrix.
    rounding = 2 * math.sqrt(weight * len(matrices)) * _gram_rounding(p, steps)
    moved = math.sqrt(LAST_MOVEMENT if last else ANY_MOVEMENT) + rounding
    return JointIntegers(name, tuple(blocks), math.inf, moved * _SAFE, share)


def logistic_integers(name: str, p: int, n: int, bits: int, share: float) -> JointIntegers:
    """Return the integers of a logistic step: gradient and Hessian."""
    steps = 2**bits
    blocks = (_gradient(p, n, steps), *gram_blocks(CURVATURE, p, n, steps, LOGISTIC_WEIGHT))
    rounding = _ROUNDING / steps + math.sqrt(LOGISTIC_WEIGHT) * _gram_rounding(p, steps)
    return JointIntegers(name, blocks, math.inf, (2 + 2 * rounding) * _SAFE, share)


def box_integers(d: int, steps: int) -> int:
    """Return the l2 sensitivity of a sum of rows with d entries, each at most ``steps`` in size."""
    return isqrt_up(4 * d * steps**2)


def _gradient(p: int, n: int, steps: int) -> StageBlock:
    return StageBlock(GRADIENT, p, 1.0 / steps**2 / n, float(steps**2))


def _gram_rounding(p: int, steps: int) -> float:
    """Bound the change of a Gram matrix when a row of norm at most 1 is rounded: |ll' - uu'| <= |l - u| (|l| + |u|)."""
    off = _ROUNDING * math.sqrt(p) / steps
    return off * (2 + off)
