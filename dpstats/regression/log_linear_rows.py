"""The queries of a log-linear regression: sums over rows of functions of the outcome and of the linear predictor.

The functions are public tables over the linear predictor, computed from released values. A row looks them up alone, by
arithmetic that rounds in the same way on every processor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpstats.data.arithmetic import as_int64
from dpstats.lattice.products import Sums, gram
from dpstats.lattice.rounding import squared_norms
from dpstats.regression.bins import Bins, Floats
from dpstats.regression.blocks import Block, Bounded, Coordinates, Question
from dpstats.regression.movement import CURVATURE, GRADIENT, MEAT
from dpstats.regression.passes import Passes
from dpstats.regression.rows import OUTSIDE, SIZE, UNIT_BITS, Model, Step, scalar_sum, triangle

SIZE_CLIP = 4.0
"""Absolute residuals are clipped at four standard deviations of the working distribution."""

EXCESS, TILT = "excess", "tilt of the excess"
WIDER = 2.0
"""Ratio of the two reaches of the excess, beyond the clipping threshold."""


@dataclass(frozen=True, eq=False)
class Curves:
    """Functions of the linear predictor: values on an even grid, linear in between and constant outside.

    Attributes
    ----------
    low, spacing : float
        First point of the grid, and the distance of its points.
    mean, std, clip : array of shape (n_points,)
        Mean and standard deviation of the outcome, and clipping threshold of its residual.
    pull : array of shape (n_points,)
        Expected clipped residual, over its threshold, under the working distribution.
    weight : array of shape (n_points,)
        Factor of the row in a step, 1 at the center.
    curved : array of shape (n_points,)
        Curvature of a row after this factor, in [0, 1].
    """

    low: float
    spacing: float
    mean: Floats
    std: Floats
    clip: Floats
    pull: Floats
    weight: Floats
    curved: Floats

    def points(self) -> Floats:
        """Return the grid."""
        found: Floats = np.asarray(self.low + self.spacing * np.arange(self.mean.size), dtype=np.float64)
        return found

    def evaluate(self, linear: Floats, *names: str) -> list[Floats]:
        """Return some of the functions at values of the linear predictor."""
        last = self.mean.size - 1
        place = np.clip((linear - self.low) / self.spacing, 0.0, float(last))
        left = np.minimum(as_int64(place), last - 1)
        part = place - left
        tables = [getattr(self, name) for name in names]
        return [table[..., left] * (1 - part) + table[..., left + 1] * part for table in tables]

    def interpolate(self, passes: Passes, linear: Floats, *names: str) -> Floats:
        """Return the same for rows, each function in a row."""
        curves = np.stack([getattr(self, name) for name in names], axis=1)
        return passes.interpolate(linear, self.low, self.spacing, curves)


@dataclass(frozen=True, eq=False)
class Rates(Question):
    """Counts of rows by their outcome over their exposure, between given ends, in units of the largest outcome."""

    name: str
    ends: Floats

    def sum_rows(self, block: Block) -> Sums:
        shares = (block.y + 1) / 2
        rates = shares if block.exposure is None else shares / block.exposure
        return {self.name: block.count(rates, Bins(self.ends))}


@dataclass(frozen=True, eq=False)
class LogLinear(Model):
    """A query about residuals of a log-linear model. Outcomes are from 0 to twice ``half``."""

    curves: Curves
    half: float

    def predict(self, block: Block) -> Floats:
        """Return the linear predictors of rows, with their offsets."""
        found: Floats = self.fitted(block) + block.offset
        return found


@dataclass(frozen=True, eq=False)
class Spread(LogLinear):
    """Sums of absolute residuals in standard deviations, clipped, of rows below and above a linear predictor.

    With ``counts`` also the number of outcomes outside their bounds.
    """

    name: str
    middle: float
    counts: bool

    def sum_rows(self, block: Block) -> Sums:
        linear = self.predict(block)
        curves = self.curves.interpolate(block.passes, linear, "mean", "std")
        sizes = block.passes.sizes(block.y, self.half, curves, SIZE_CLIP)
        if block.any_far:
            sizes[block.far] = 0.0
        parts = as_int64(block.passes.sum_sides(block.weigh(sizes), linear, self.middle, 2.0**UNIT_BITS))
        if not self.counts:
            return {self.name: parts}
        return {SIZE: parts, OUTSIDE: scalar_sum(block.weigh(block.outside))}


@dataclass(frozen=True, eq=False)
class WeightedNorms(LogLinear):
    """Counts of rows by their norms in given coordinates, times the factor of the row in a step."""

    name: str
    whitening: Floats
    ends: Floats

    def sum_rows(self, block: Block) -> Sums:
        (weight,) = self.curves.interpolate(block.passes, self.predict(block), "weight")
        rows = block.whiten(Coordinates(self.shift, self.intercept, self.whitening))
        block.passes.multiply(rows, weight)
        squares = squared_norms(rows)
        return {self.name: block.count(squares, Bins(self.ends**2))}


@dataclass(frozen=True, eq=False)
class LogLinearStep(Step):
    """Gradient and Hessian of the estimating equations, and in the last step the meat.

    Attributes
    ----------
    most_pull : float
        Largest absolute value of the expected clipped residual that is subtracted.
    """

    curves: Curves
    half: float
    most_pull: float
    last: bool

    def sum_rows(self, block: Block) -> Sums:
        names = "mean", "clip", "pull", "weight", "curved"
        linear: Floats = self.fitted(block) + block.offset
        curves = self.curves.interpolate(block.passes, linear, *names)
        white = block.whiten(self.ball.at)
        block.passes.multiply(white, curves[3])
        longest = block.shorten(white, squared_norms(white), self.radius, self.bits)
        bounded = Bounded(self.radius / longest, block.passes, white)
        parts = block.passes.pull(block.y, self.half, curves[:3], 1 + self.most_pull)
        v = self.round(block, bounded, parts)
        found = {GRADIENT: bounded.weigh(v)}
        if self.last:
            found |= triangle(MEAT, gram(bounded.copy().scale(v * 2.0**-self.bits)))
        roots = np.sqrt(np.clip(curves[4], 0.0, 1.0))
        found |= triangle(CURVATURE, gram(bounded.scale(roots)))
        return found


@dataclass(frozen=True, eq=False)
class Excess(LogLinear):
    """Sums of the excess of residuals over their clipping threshold, and of a shorter excess times a tilt in [-1, 1].

    Attributes
    ----------
    reach : float
        The shorter excess is cut at ``reach`` thresholds from the mean, the longer one `WIDER` times farther out.
    middle, spread : float
        The tilt is 0 where the linear predictor is ``middle``, and 1 or -1 from ``spread`` beyond.
    """

    reach: float
    middle: float
    spread: float

    def sum_rows(self, block: Block) -> Sums:
        linear = self.predict(block)
        mean, clip = self.curves.interpolate(block.passes, linear, "mean", "clip")
        beyond = np.maximum(((block.y + 1) * self.half - mean) / clip - 1.0, 0.0) / (self.reach - 1.0)
        beyond = np.where(block.far, 0.0, beyond)
        tilt = np.clip((linear - self.middle) / self.spread, -1.0, 1.0)
        return {
            EXCESS: scalar_sum(block.weigh(np.minimum(beyond / WIDER, 1.0))),
            TILT: scalar_sum(block.weigh(np.minimum(beyond, 1.0) * tilt)),
        }
