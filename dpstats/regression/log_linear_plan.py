"""Families of log-linear models: the working distribution of an outcome, given its mean. All of it is public.

A family defines the weights of the estimating equations, and where residuals are clipped. Standard errors do not assume
that the distribution holds: they use the released meat of the sandwich estimator.

The method is ours (docs/sources.md, "Methods of our own").

The queries of a log-linear regression: sums over rows of functions of the outcome and of the linear predictor.

The functions are public tables over the linear predictor, computed from released values. A row looks them up alone, by
arithmetic that rounds in the same way on every processor.

The plan of a log-linear regression: its stages and their fractions of the privacy budget.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, gammainc

from dpstats.data.values import as_int64
from dpstats.lattice.products import Sums
from dpstats.privacy.stages import Block as StageBlock
from dpstats.regression.blocks import Block, Coordinates, Design, Question
from dpstats.regression.passes import Bins, Floats, Passes
from dpstats.regression.plan import (
    CENTER,
    DIRECTIONS,
    LAST_NORMS,
    LENGTHS,
    MANY,
    NORMS,
    OFFSETS,
    ROWS,
    STEPS,
    WEIGHT,
    RegressionPlan,
    bin_integers,
    center_integers,
    first_stages,
    made_plan,
    norms_share,
    pair_integers,
    scalar_share,
    size_integers,
    size_name,
    step_name,
)
from dpstats.regression.rows import OUTSIDE, SIZE, UNIT_BITS, Model, Step, name_sums, scalar_sum, weighted_integers
from dpstats.release.additive import Integers, JointIntegers

Dispersion = tuple[Any, Any]
"""phi and alpha of the variance phi mu + alpha mu^2. Numbers, or arrays that broadcast with the means."""


class Bound(NamedTuple):
    """The largest outcome, and the part of the larger ones under the working distribution that are clipped to it."""

    largest: float
    part: float


FREE = Bound(math.inf, 0.0)


class Family(ABC):
    """A working distribution of outcomes y >= 0 with a given mean mu.

    Attributes
    ----------
    least_clip : float
        Smallest clipping threshold of a residual.
    linear, quadratic : array
        Values of phi and alpha that a fit chooses from.
    start : (float, float)
        phi and alpha before the first release of residuals.
    """

    least_clip: ClassVar[float]
    linear: ClassVar[Floats]
    quadratic: ClassVar[Floats]
    start: ClassVar[tuple[float, float]]

    def dispersions(self) -> tuple[Floats, Floats]:
        """Return phi and alpha of every pair of the values that a fit chooses from."""
        linear, quadratic = np.meshgrid(self.linear, self.quadratic, indexing="ij")
        return linear, quadratic

    @abstractmethod
    def weight(self, mean: Floats) -> Floats:
        """Return the weight of a residual y - mu in the estimating equations."""

    @abstractmethod
    def below(self, mean: Floats, dispersion: Dispersion, end: Floats, where: Any = True) -> tuple[Floats, Floats]:
        """Return P(y <= end) and E[y; y <= end], and 0 where ``where`` is False."""

    def std(self, mean: Floats, dispersion: Dispersion) -> Floats:
        """Return the standard deviation of the outcome."""
        found: Floats = np.sqrt(dispersion[0] * mean + dispersion[1] * mean**2)
        return found

    def clip(self, mean: Floats, width: float, dispersion: Dispersion) -> Floats:
        """Return the clipping threshold of a residual: ``width`` standard deviations."""
        return np.maximum(width * self.std(mean, dispersion), self.least_clip)

    def excess(self, mean: Floats, dispersion: Dispersion, end: Floats) -> Floats:
        """Return the expected excess of the outcome over ``end``."""
        probability, part = self.below(mean, dispersion, end)
        return (mean - part) - end * (1 - probability)

    def bounded_excess(self, mean: Floats, dispersion: Dispersion, end: Floats, bound: Bound) -> Floats:
        """Return the expected excess over ``end`` of outcomes with a bound."""
        found = self.excess(mean, dispersion, end)
        if bound.part:
            found = found - bound.part * self.excess(mean, dispersion, np.maximum(end, bound.largest))
        return found

    def shortfall(self, mean: Floats, dispersion: Dispersion, end: Floats) -> Floats:
        """Return the expected shortfall of the outcome below ``end``."""
        probability, part = self.below(mean, dispersion, np.maximum(end, 0.0), end > 0)
        return end * probability - part

    def clipped_mean(
        self, mean: Floats, at: Floats, clip: Floats, dispersion: Dispersion, bound: Bound = FREE
    ) -> Floats:
        """Return the expected residual y - at, clipped at ``clip`` on both sides, for outcomes of mean ``mean``."""
        over = self.excess(mean, dispersion, at + clip)
        if bound.part:
            lower = self.excess(mean, dispersion, np.minimum(at + clip, bound.largest))
            over = over + bound.part * (lower - over)
        under = self.shortfall(mean, dispersion, at - clip)
        return mean - at - over + under

    def absolute(self, mean: Floats, at: Floats, dispersion: Dispersion, most: Floats) -> Floats:
        """Return the expected absolute residual y - at, clipped at ``most``, for outcomes of mean ``mean``."""
        whole = 2 * self.excess(mean, dispersion, at) + at - mean
        over = self.excess(mean, dispersion, at + most)
        return whole - over - self.shortfall(mean, dispersion, at - most)


def _evaluate(function: np.ufunc, where: Any, *arguments: Any) -> Floats:
    """Return values of a function that is slow, where they count, and 0 elsewhere."""
    # The parameter `where` of scipy's functions writes beyond their arrays (numpy 2.4 with scipy 1.17).
    counts, *given = np.broadcast_arrays(where, *arguments)
    found: Floats = np.zeros(counts.shape)
    found[counts] = function(*(argument[counts] for argument in given))
    return found


class Counts(Family):
    """Counts: negative binomial with variance phi mu + alpha mu^2, which includes Poisson.

    The weight is 1 / (1 + overdispersion mu): 1 if ``overdispersion`` is 0, as in Poisson regression.
    """

    least_clip = 1.0
    linear = np.append(1.001, 1 + np.geomspace(0.1, 20.0, 13))
    quadratic = np.append([1e-7, 1e-5, 1e-4, 1e-3], np.geomspace(0.02, 20.0, 16))
    start = (1.0, 1.0)

    def __init__(self, overdispersion: float) -> None:
        self.overdispersion = overdispersion

    def weight(self, mean: Floats) -> Floats:
        return 1 / (1 + self.overdispersion * mean)

    def below(self, mean: Floats, dispersion: Dispersion, end: Floats, where: Any = True) -> tuple[Floats, Floats]:
        whole = np.floor(end + 1e-9)
        odds = np.maximum(dispersion[0] - 1 + dispersion[1] * mean, 1e-4)
        size, success = mean / odds, 1 / (1 + odds)
        part = _evaluate(betainc, where & (whole > 0), size + 1, whole, success)
        return _evaluate(betainc, where, size, whole + 1, success), mean * part


class Gamma(Family):
    """Positive amounts: gamma with variance alpha mu^2. The weight is 1 / mu. Outcomes of 0 are allowed."""

    least_clip = 0.0
    linear = np.array([0.0])
    quadratic = np.geomspace(1e-4, 20.0, 90)
    start = (0.0, 1.0)

    def weight(self, mean: Floats) -> Floats:
        return 1 / mean

    def below(self, mean: Floats, dispersion: Dispersion, end: Floats, where: Any = True) -> tuple[Floats, Floats]:
        shape = 1 / np.asarray(dispersion[1])
        scaled = shape * end / mean
        part = _evaluate(gammainc, where, shape + 1, scaled)
        return _evaluate(gammainc, where, shape, scaled), mean * part


COUNTS, GAMMA = "counts", "gamma"


@cache
def make_family(name: str, overdispersion: float = 1.0) -> Family:
    """Return the family of a plan."""
    return Gamma() if name == GAMMA else Counts(overdispersion)


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
        place = Coordinates(self.shift, self.intercept, self.whitening)
        return {self.name: block.count_norms(place, Bins(self.ends**2), weight)}


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
        parts = block.passes.pull(block.y, self.half, curves[:3], 1 + self.most_pull)
        roots = np.sqrt(np.clip(curves[4], 0.0, 1.0))
        return name_sums(block.step(self.ball, parts, roots, meat=self.last, stretch=curves[3]), self.last)


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


RATES, CALIBRATION = "rates", "calibration"

_SHARES = {ROWS: 0.01, WEIGHT: 0.01, OFFSETS: 0.01, CENTER: 0.03, DIRECTIONS: 0.08, CALIBRATION: 0.10}
_EARLY = (0.04, 0.06)
"""Fractions of mu^2. The remainder is for the last two steps, whose coefficients are averaged."""
_THIRD = 0.4
"""Fraction of this remainder for the third step."""

TILT_WEIGHT = math.sqrt((1 - (1 - 1 / WIDER) ** 2) / 3)
"""Weight of the tilt of the excess. Up to this weight a row moves both by no more than sqrt(1 + weight^2)."""

_BINS = 24
_ROUNDING = 0.51  # rounding error of a number, in steps: half a step plus floating-point error


@dataclass(frozen=True)
class LogLinearPlan(RegressionPlan):
    """The plan of a log-linear regression. All of it is public.

    Attributes
    ----------
    design, bits, missing, family, mu
        As for `RegressionPlan`. The family is "counts" or "gamma".
    overdispersion : float
        Public constant in the weights of counts.
    """

    overdispersion: float

    _surely: ClassVar[float] = 8.0

    @property
    def _width(self) -> float:
        return 3.5

    @cached_property
    def _shares(self) -> dict[str, float]:
        return dict(shares(self.n_samples, self.mu, self.design, self.missing))

    def facts(self) -> dict[str, Any]:
        """Return facts about the plan that its stages do not show, by name."""
        return {**super().facts(), "overdispersion": self.overdispersion}


def rate_ends() -> NDArray[np.float64]:
    """Return the limits of the bins of rates: powers of 2, up to the largest allowed outcome, which is 1."""
    return np.exp2(np.arange(-_BINS, 1, dtype=np.float64))


def shares(n: int, mu: float, design: Design, missing: str = "error") -> list[tuple[str, float]]:
    """Return the stages in order with the fraction of mu^2 of each. They depend on sizes, roles and mu only.

    Without columns, rows have no directions, and only their offsets have a center.
    """
    parts = [(name, _SHARES[name]) for name in first_stages(design, missing)]
    norms, scalar, columns = norms_share(n, mu), scalar_share(n, mu), design.center.size
    if columns or design.offsets is not None:
        parts.append((CENTER, _SHARES[CENTER]))
    if columns and n * mu >= MANY:
        parts.append((LENGTHS, norms))
    if columns:
        parts += [(DIRECTIONS, _SHARES[DIRECTIONS]), (NORMS, norms)]
    parts.append((RATES, norms))
    for t, share in enumerate((*_EARLY, 0.0, 0.0), 1):
        parts.append((size_name(t), scalar))
        if t == STEPS:
            parts.append((LAST_NORMS, norms))
        parts.append((step_name(t), share))
    parts.append((CALIBRATION, _SHARES[CALIBRATION]))
    rest = 1 - math.fsum(share for _, share in parts)
    late = {step_name(STEPS - 1): _THIRD * rest, step_name(STEPS): (1 - _THIRD) * rest}
    return [(name, late.get(name, share)) for name, share in parts]


def log_linear_plan(
    family: str, overdispersion: float, design: Design, n: int, epsilon: float, delta: float, missing: str = "error"
) -> LogLinearPlan:
    """Return the plan of a log-linear regression of n rows on declared columns."""
    d, p = design.center.size, design.size

    def integers(name: str, share: float, bits: int) -> Integers | JointIntegers:
        if name == CENTER:
            return center_integers(d + (design.exposure is not None), n, share)  # also the offset
        if name == RATES:
            return bin_integers(name, rate_ends().size + 1, n, share)
        if name == size_name(1):
            return size_integers(name, n, 2, share)
        if name.startswith("residual size"):
            return pair_integers(name, n, share)
        if name == CALIBRATION:
            # The excess of residuals, and its tilt
            step, unit = 2.0**-UNIT_BITS / n, 2.0**UNIT_BITS
            blocks = (StageBlock(EXCESS, 1, step, unit), StageBlock(TILT, 1, step, unit / TILT_WEIGHT))
            moved = math.sqrt(1 + TILT_WEIGHT**2) * (1 + 2 * _ROUNDING / unit)
            return JointIntegers(name, blocks, math.inf, moved * (1 + 1e-12), share)
        return weighted_integers(name, p, n, bits, share, name == step_name(STEPS))

    return made_plan(
        LogLinearPlan,
        lambda mu: shares(n, mu, design, missing),
        integers,
        design,
        n,
        epsilon,
        delta,
        missing,
        family=family,
        overdispersion=overdispersion,
    )
