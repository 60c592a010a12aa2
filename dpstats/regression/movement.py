"""How far replacing a row moves a gradient, a Gram matrix and a meat together: much less than one after another.

A row is u in the unit ball and v in [-1, 1]. Norms of matrices are Frobenius'. Proofs: docs/proofs/regression.md,
and of Gram matrices alone docs/proofs/sufficient-statistics.md and docs/proofs/functional-mechanism.md.

* A Gram matrix alone: ||uu' - u'u''||^2 <= 2; and for u in the unit ball of l1 its entries move by 2 in l1.

* ||vu - v'u'||^2 + ||uu' - u'u''||^2/2 <= 4, the value for the gradient alone.
* With the meat: ||vu - v'u'||^2 + (||Iuu' - ..||^2 + ||v^2 uu' - ..||^2)/4 <= 4.25, where I is 0 only if |v| is as
  large as its clip; 4 without I.
* Logistic: ||vu - v'u'||^2 + 1.5 ||huu' - ..||^2 <= 4 where h = 4p(1-p) and |v| <= |y - p|.

Where u, v are integers over 2^bits the first is exact. Rows that are rounded once more move by what rounding adds.
"""

from __future__ import annotations

import math

from dpstats.lattice import isqrt_up
from dpstats.privacy.stages import Block
from dpstats.release.additive import Integers, JointIntegers

GRADIENT, CURVATURE, MEAT, MOMENTS = "gradient", "curvature", "meat", "moments"

STEP_WEIGHT = 0.5
LAST_WEIGHT = 0.25
LOGISTIC_WEIGHT = 1.5
"""Squared weights of matrices beside the gradient."""

LAST_MOVEMENT = 4.25

_SAFE = 1 + 1e-12
_ROUNDING = 0.51  # of an entry, in steps: half a step, and what computing it in floats can add


def gram_blocks(name: str, p: int, n: int, steps: int, weight: float, norm: str = "l2") -> tuple[Block, ...]:
    """Return the blocks of a Gram matrix of rows of norm at most ``steps``: its diagonal, and what is above it.

    An entry beside the diagonal counts twice in the norm, and so gets less noise. In units the rows have norm 1.
    """
    twice = math.sqrt(2) if norm == "l2" else 2.0
    unit = steps**2 / math.sqrt(weight)
    spacing = 1.0 / steps**2 / n
    blocks = [Block(f"{name}, diagonal", p, spacing, unit)]
    if p > 1:
        blocks.append(Block(f"{name}, above the diagonal", p * (p - 1) // 2, spacing, unit / twice))
    return tuple(blocks)


def gram_integers(name: str, p: int, n: int, steps: int, share: float) -> JointIntegers:
    """Return what a stage about a Gram matrix alone needs to know: sqrt(2), for rows at right angles."""
    return JointIntegers(
        name, gram_blocks(CURVATURE, p, n, steps, 1.0), math.inf, math.sqrt(2) * _SAFE, share
    )


def gradient_integers(name: str, p: int, n: int, bits: int, share: float) -> Integers:
    """Return what a stage about a gradient alone needs to know: it moves by twice the radius of the ball."""
    steps = 4**bits
    return Integers(name, p, 1.0 / steps / n, isqrt_up(4 * p * steps**2), 2 * steps, share)


def step_integers(name: str, p: int, n: int, bits: int, share: float) -> JointIntegers:
    """Return that of a step: gradient and Gram matrix."""
    steps = 2**bits
    blocks = (_gradient(p, n, steps), *gram_blocks(CURVATURE, p, n, steps, STEP_WEIGHT))
    return JointIntegers(name, blocks, math.inf, 2 * _SAFE, share)


def last_integers(name: str, p: int, n: int, bits: int, share: float) -> JointIntegers:
    """Return that of the last linear step: gradient, Gram matrix of the rows that are not clipped, and meat."""
    steps = 2**bits
    blocks = (
        _gradient(p, n, steps),
        *gram_blocks(CURVATURE, p, n, steps, LAST_WEIGHT),
        *gram_blocks(MEAT, p, n, steps, LAST_WEIGHT),
    )
    moved = math.sqrt(LAST_MOVEMENT) + 2 * math.sqrt(LAST_WEIGHT) * _gram_rounding(p, steps)
    return JointIntegers(name, blocks, math.inf, moved * _SAFE, share)


def logistic_integers(name: str, p: int, n: int, bits: int, share: float) -> JointIntegers:
    """Return that of a logistic step: gradient and Hessian."""
    steps = 2**bits
    blocks = (_gradient(p, n, steps), *gram_blocks(CURVATURE, p, n, steps, LOGISTIC_WEIGHT))
    rounding = _ROUNDING / steps + math.sqrt(LOGISTIC_WEIGHT) * _gram_rounding(p, steps)
    return JointIntegers(name, blocks, math.inf, (2 + 2 * rounding) * _SAFE, share)


def box_integers(d: int, steps: int) -> int:
    """Return how far a row of d entries, each at most ``steps``, moves a sum in l2."""
    return isqrt_up(4 * d * steps**2)


def _gradient(p: int, n: int, steps: int) -> Block:
    return Block(GRADIENT, p, 1.0 / steps**2 / n, float(steps**2))


def _gram_rounding(p: int, steps: int) -> float:
    """Return how far rounding a row of norm at most 1 moves its Gram matrix: |ll' - uu'| <= |l - u| (|l| + |u|)."""
    off = _ROUNDING * math.sqrt(p) / steps
    return off * (2 + off)
