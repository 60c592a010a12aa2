"""The queries of a fit, each a sum of integers over rows, and the joint sensitivities of their answers.

Proofs: docs/proofs/regression.md, docs/proofs/sufficient-statistics.md, docs/proofs/functional-mechanism.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from dpstats.data.values import as_int64
from dpstats.lattice import isqrt_up
from dpstats.lattice.products import Sums, above_diagonal, dyadic, factor_bits, gram, inside_ball, powered_norms
from dpstats.privacy.stages import Block as StageBlock
from dpstats.regression.blocks import COUNT_BITS, REACH, X_BITS, Ball, Block, Coordinates, Question, StepSums
from dpstats.regression.passes import Bins, Floats
from dpstats.release.additive import Integers, JointIntegers

# Joint sensitivities of a gradient, a Gram matrix and a meat matrix, much smaller than the sum of the three

# A row is u in the unit ball and v in [-1, 1]. Matrices have the Frobenius norm.

# * A Gram matrix alone: ||uu' - u'u''||^2 <= 2; and for u in the unit ball of l1 its entries move by 2 in l1.

# * ||vu - v'u'||^2 + ||uu' - u'u''||^2/2 <= 4, the value for the gradient alone: the first linear step.

# * With the meat: ||vu - v'u'||^2 + (||Iuu' - ..||^2 + ||v^2 uu' - ..||^2)/4 <= 4.25.
#   Here I is 0 only if |v| equals its clipping threshold. If I is 1 for all rows, the bound is 4.

# * With any q in [0, 1] for I, y included; the first line then is at most 4.5: ||vu - v'u'||^2 + ||quu' - ..||^2/2.
#   Later linear steps have q = I.

# * Logistic: ||vu - v'u'||^2 + 1.5 ||huu' - ..||^2 <= 4 where h = 4p(1-p) and |v| <= |y - p|.

# If u, v are integers divided by 2^bits, the first bound is exact. For rows that are rounded again, the rounding error
# adds to the sensitivity.

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


def gram_blocks(name: str, p: int, n: int, steps: int, weight: float, norm: str = "l2") -> tuple[StageBlock, ...]:
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
    return JointIntegers(name, gram_blocks(CURVATURE, p, n, steps, 1.0), math.inf, math.sqrt(2) * _SAFE, share)


def gradient_integers(name: str, p: int, n: int, bits: int, share: float) -> Integers:
    """Return the integers of a stage for a gradient alone: its sensitivity is twice the radius of the ball."""
    steps = 4**bits
    return Integers(name, p, 1.0 / steps / n, isqrt_up(4 * p * steps**2), 2 * steps, share)


def step_integers(name: str, p: int, n: int, bits: int, share: float, unclipped: bool = False) -> JointIntegers:
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


# Queries, one pass over the rows each. They contain parameters and earlier releases only

UNIT_BITS = 30
"""Scalars and counts are at most 2^30 steps."""
SIZE, OUTSIDE = "size", "share outside"


@dataclass(frozen=True, eq=False)
class Observed(Question):
    """The number of observed rows."""

    name: str

    def sum_rows(self, block: Block) -> Sums:
        return {self.name: np.array([block.y.size << UNIT_BITS])}


@dataclass(frozen=True, eq=False)
class TotalWeight(Question):
    """The sums of the weights, of their squares, and of half of the weights with signs, in units of the largest weight.

    A weight that was outside its bounds has the sign plus, any other minus.
    """

    name: str

    def sum_rows(self, block: Block) -> Sums:
        assert block.weight_outside is not None
        weight = block.weigh(np.ones(block.y.size))
        signed = block.weigh(block.weight_outside - 0.5)
        return {self.name: np.concatenate([scalar_sum(part) for part in (weight, weight**2, signed)])}


@dataclass(frozen=True, eq=False)
class OutsideOffsets(Question):
    """The number of rows whose offset or exposure is outside its bounds."""

    name: str

    def sum_rows(self, block: Block) -> Sums:
        assert block.offset_outside is not None
        return {self.name: scalar_sum(block.weigh(block.offset_outside))}


@dataclass(frozen=True, eq=False)
class Center(Question):
    """The sum of the rows, clipped to the declared bounds, and optionally of their outcomes or offsets."""

    name: str
    outcome: bool
    offsets: tuple[float, float] | None = None  # center and half-width of their range

    def sum_rows(self, block: Block) -> Sums:
        inside = block.clip_and_sum(2.0**X_BITS)
        if self.outcome:
            inside = np.append(inside, np.rint(block.weigh(block.y) * 2.0**X_BITS).sum())
        if self.offsets is not None:
            middle, half = self.offsets
            offsets = block.weigh(np.clip((block.offset - middle) / half, -1.0, 1.0))
            inside = np.append(inside, np.rint(offsets * 2.0**X_BITS).sum())
        return {self.name: as_int64(inside)}


@dataclass(frozen=True, eq=False)
class Directions(Question):
    """The Gram matrix of rows scaled to the unit sphere. Rows shorter than ``least`` become shorter than 1."""

    shift: Floats
    least: float
    bits: int

    @cached_property
    def ball(self) -> Ball:
        """The ball that rows are scaled to."""
        return Ball(Coordinates(self.shift, False, None), self.least, self.bits)

    def sum_rows(self, block: Block) -> Sums:
        return triangle(CURVATURE, block.step(self.ball, products=True).curvature)


@dataclass(frozen=True, eq=False)
class Norms(Question):
    """Counts of rows by their norms between given bin edges, in given coordinates or in half-widths."""

    name: str
    shift: Floats
    intercept: bool
    whitening: Floats | None
    ends: Floats

    @cached_property
    def place(self) -> Coordinates:
        """The coordinates."""
        return Coordinates(self.shift, self.intercept, self.whitening)

    @cached_property
    def bins(self) -> Bins:
        """The bins of squared norms."""
        return Bins((self.ends if self.whitening is not None else self.ends * 2.0**X_BITS) ** 2)

    def sum_rows(self, block: Block) -> Sums:
        return {self.name: block.count_norms(self.place, self.bins)}


@dataclass(frozen=True, eq=False)
class Outcome(Question):
    """The sum of outcomes that are 0 or 1."""

    name: str

    def sum_rows(self, block: Block) -> Sums:
        return {self.name: scalar_sum(block.weigh(block.y > 0))}


@dataclass(frozen=True, eq=False)
class SecondMoments(Question):
    """The Gram matrix of (constant, x, y), and the outcomes outside their bounds.

    A factor that depends on x only scales rows into a ball, as if their outcomes were at the bounds. Longer rows have
    less weight. This causes no bias if the model holds. All lengths are in steps.
    """

    constant: float
    outcome: float  # weight of a half-width of the outcome
    bound: float
    norm: str
    bits: int

    def sum_rows(self, block: Block) -> Sums:
        m, d = block.z.shape
        rows = np.empty((m, d + 2))
        rows[:, 0], rows[:, 1:-1], rows[:, -1] = self.constant, block.z, self.outcome
        norms = powered_norms(rows, self.norm)
        longest = np.maximum(np.sqrt(norms) if self.norm == "l2" else norms, self.bound)
        rows[:, -1] = np.rint(block.y * self.outcome)
        inside = inside_ball(rows, longest, 2**self.bits, self.norm)
        outside = np.array([np.count_nonzero(block.outside) << COUNT_BITS])
        return {**triangle(MOMENTS, gram(inside)), OUTSIDE: outside}


@dataclass(frozen=True, eq=False)
class Model(Question):
    """A query about residuals. ``theta`` includes the constant, and is in outcome units per step."""

    shift: Floats
    intercept: bool
    theta: Floats

    @cached_property
    def line(self) -> Coordinates:
        """The fitted outcome, as a coordinate of rows."""
        return Coordinates(self.shift, self.intercept, self.theta)

    def fitted(self, block: Block) -> Floats:
        """Return the fitted outcomes of rows."""
        return block.fit_outcomes(self.line)

    def residuals(self, block: Block, width: float) -> Floats:
        """Return the outcomes minus their fitted values, over a width, clipped to [-1, 1]."""
        found = block.passes.residuals(block.y, self.fitted(block), width)
        if block.any_far:
            found[block.far] = 0.0
        return found


@dataclass(frozen=True, eq=False)
class Size(Model):
    """The sum of absolute residuals, clipped at ``most``. With ``counts`` also the outcomes outside their bounds."""

    name: str
    most: float
    counts: bool

    def sum_rows(self, block: Block) -> Sums:
        parts = np.abs(self.residuals(block, self.most))
        found = {SIZE if self.counts else self.name: scalar_sum(block.weigh(parts))}
        return {**found, OUTSIDE: scalar_sum(block.weigh(block.outside))} if self.counts else found


@dataclass(frozen=True, eq=False)
class Moments(Model):
    """The sums of residuals and of their squares, clipped at ``most``."""

    mean: str
    squares: str
    most: float

    def sum_rows(self, block: Block) -> Sums:
        steps = as_int64(np.rint(self.residuals(block, self.most) * 2.0**UNIT_BITS))
        squares = steps * steps >> UNIT_BITS
        if block.weight is not None:
            steps, squares = (as_int64(np.rint(block.weigh(part))) for part in (steps, squares))
        return {self.mean: steps.sum(keepdims=True), self.squares: squares.sum(keepdims=True)}


@dataclass(frozen=True, eq=False)
class Step(Model):
    """A step of a regression. In whitened coordinates, a row beyond ``radius`` is scaled to it with its residual.

    The square root of the weight scales both too, so that a row counts with its weight in the gradient and the Gram
    matrix.
    """

    whitening: Floats
    radius: float
    bits: int

    @cached_property
    def ball(self) -> Ball:
        """Return the ball that bounds the rows."""
        return Ball(Coordinates(self.shift, self.intercept, self.whitening), self.radius, self.bits)


@dataclass(frozen=True, eq=False)
class LinearStep(Step):
    """Gradient, Gram matrix of all rows or of the unclipped ones, and with ``last`` the meat."""

    width: float
    unclipped: bool
    last: bool

    def sum_rows(self, block: Block) -> Sums:
        r = self.residuals(block, self.width)
        inside = np.abs(r) < 1.0 if self.unclipped else None
        sums = block.step(self.ball, r, inside, products=inside is None, meat=self.last)
        return name_sums(sums, self.last)


@dataclass(frozen=True, eq=False)
class Tail(Step):
    """The gradient of the signed residuals' excess over ``width``, up to ``most``."""

    name: str
    width: float
    most: float

    def sum_rows(self, block: Block) -> Sums:
        beyond = block.passes.excess(block.y, self.fitted(block), self.width, self.most)
        return {self.name: block.step(self.ball, beyond).gradient}


@dataclass(frozen=True, eq=False)
class LogisticStep(Step):
    """Gradient and Hessian of the logistic log-likelihood. With ``meat``, the middle of the sandwich estimator too."""

    meat: bool = False

    def sum_rows(self, block: Block) -> Sums:
        p = expit(self.fitted(block) + block.offset)
        r, roots = block.passes.logistic(block.y, p)
        return name_sums(block.step(self.ball, r, roots, meat=self.meat), self.meat)


def name_sums(sums: StepSums, meat: bool) -> Sums:
    """Return the sums of a step by the names of their blocks."""
    found = {GRADIENT: sums.gradient, **triangle(CURVATURE, sums.curvature)}
    return found | triangle(MEAT, sums.meat) if meat else found


def coordinates(whitening: Floats, p: int) -> Floats:
    """Return a public matrix for rows of p integers, rounded so that its products with them are exact.

    ``whitening`` applies to rows in half-widths, and the returned matrix to rows in steps.
    """
    return dyadic(whitening * 2.0**-X_BITS, factor_bits(p, X_BITS + REACH + 1))


def scalar_sum(values: Any) -> NDArray[np.int64]:
    """Return the sum of numbers in [-1, 1], in steps."""
    return as_int64(np.rint(values * 2.0**UNIT_BITS).sum(keepdims=True))


def triangle(name: str, matrix: NDArray[np.int64]) -> Sums:
    """Return the diagonal of a symmetric matrix, and the entries above it, by the names of their blocks."""
    p = matrix.shape[0]
    found = {f"{name}, diagonal": np.diagonal(matrix).copy()}
    if p > 1:
        found[f"{name}, above the diagonal"] = matrix[above_diagonal(p)]
    return found
