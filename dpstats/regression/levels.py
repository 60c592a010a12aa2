"""Means of the levels of a factor, adjusted for covariates: totals of levels around slopes by noisy Newton steps.

A row has one level, so sums by level have the sensitivity of one sum, for rare levels too. Whitening a 0/1 column
instead makes its rows long if the level is rare, and loses a rare level in the noise.

The stages, each with a fixed fraction of mu^2:

1. Totals of all outcomes. They give the range of most outcomes.
2. Totals of the outcomes by level, clipped to this range. They give a center for each level.
3. Sums of the covariates by level. Only if levels are not randomized: they give centers of the covariates.
4. The Newton steps of a linear regression of the centered outcomes on the centered covariates.
5. Totals by level of the residuals, each clipped to a multiple of its scale. Noise is in proportion to this clip.

Proof: docs/proofs/levels.md. Intervals: docs/intervals/levels.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dpstats.data.arithmetic import as_int64
from dpstats.data.parameters import check_real
from dpstats.errors import InvalidParameter
from dpstats.lattice.products import Sums, finest, row_bits
from dpstats.means.ratio import Noise, Ratio
from dpstats.means.totals import COUNTS, GaussianTotals
from dpstats.privacy.gaussian import gaussian_sigma
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.stages import JointStage
from dpstats.regression.blocks import X_BITS, Block, Coordinates
from dpstats.regression.design import Design
from dpstats.regression.design_plan import DesignPlan
from dpstats.regression.linear_path import LinearPath
from dpstats.regression.path import Estimate, find_identified
from dpstats.regression.plan import (
    RegressionPlan,
    describe_common,
    describe_step,
    first_stages,
    regression_plan,
    shares,
)
from dpstats.regression.rows import UNIT_BITS, Question, coordinates
from dpstats.release.additive import Integers, JointIntegers, additive_stages

Floats = NDArray[np.float64]

OUTCOMES = "totals of the outcomes"
LEVELS = "totals of the outcomes by level"
COVARIATES = "sums of the covariates by level"
RESIDUALS = "totals of the residuals by level"

_OUTCOMES_SHARE, _COVARIATES_SHARE, _MOST_COVARIATES_SHARE = 0.02, 0.04, 0.2
_LEVELS_SHARE = 0.15
_ROUGH, _LEAST_LEVELS = 1000.0, 1 / 3
"""Rows times mu up to which centers of randomized levels need all of their fraction, and the least part of it."""
_LEAST_STEPS_SHARE, _STEPS_SHARE, _MOST_STEPS_SHARE = 0.1, 0.25, 0.42
"""Fractions of mu^2 for the steps: the least, the most to adjust levels, and the most if slopes are wanted."""
_ENOUGH = 2.0
"""Noise of a slope, over its sampling error, at which slopes are good enough to adjust levels."""
_LONGER = 1.05
"""The steps get so much of mu^2 that a slope's error is at most this multiple of its error without levels."""
_RANGE = 3.0
"""Half-width of the range of most outcomes, in standard deviations."""
_REACH = 1.0
"""Standard errors of the center of a level by which the clip of its residuals is widened."""
_MOST_ATTENUATED = 0.75
"""Largest fraction of the curvature that errors of the centers are taken to explain."""
_CLIPS = np.linspace(1.5, 16.0, 146)
"""Clips of residuals to choose from, in standard deviations."""
_BIAS, _DECAY = 0.2, 1.0
_SKEWED_BIAS, _SKEWED_DECAY = 0.25, 0.6
"""Bias of the mean of residuals by the least clip, in standard deviations, and its decay as the clip moves out.

Between groups whose exponential residuals have scales 1 and 1.5 the bias is 0.10 at first, with a decay of 0.83. If the
release shows that residuals are skewed, the second pair applies, as for lognormal residuals."""
_NARROW = 0.6
"""Mean of a level, in half-widths of the range, from which the range may have clipped most of its rows."""
_SEEN = 5.0
"""A level is identified if its count is at least this many standard deviations of the noise of a count."""
_NO_SPREAD = 1e-9
_NOISE = 2.0
"""Standard errors up to which slopes that only adjust count as 0."""
_COVARIATE_SPREAD = 0.5
"""Prior standard deviation of the mean of a covariate in a level, in half-widths."""
_HALVINGS = 50
_FARTHEST = 6.0
"""Distance beyond the clip, in standard deviations, where the search for a mean by its clipped mean ends."""


@dataclass(frozen=True)
class LevelsPlan(DesignPlan):
    """The plan of adjusted means of levels. All of it is public.

    Attributes
    ----------
    design, bits, missing
        As for `DesignPlan`.
    levels : tuple
        The declared levels.
    randomized : bool
        Whether the covariates have the same distribution in all levels.
    steps : RegressionPlan, optional
        The stages of the Newton steps, as a separate plan. None if noise would hide all slopes: the only stage are
        then the totals of the outcomes by level.
    mu : float
        Parameter of Gaussian differential privacy of all stages together.
    slopes : bool
        Whether the slopes are wanted too.
    """

    levels: tuple[Any, ...]
    randomized: bool
    steps: RegressionPlan | None
    mu: float
    slopes: bool

    @property
    def noise_ratio(self) -> float:
        return math.inf if self.steps is None else self.steps.noise_ratio

    @property
    def noise_only(self) -> bool:
        return self.steps is None

    def share(self, name: str) -> float:
        """Return the fraction of mu^2 of a stage of totals."""
        return _shares(self)[name]

    def totals(self, name: str) -> GaussianTotals:
        """Return the totals of a stage: of all rows, or by level."""
        return GaussianTotals(1 if name == OUTCOMES else len(self.levels), 1, UNIT_BITS)

    def totals_noise(self, name: str) -> Noise:
        """Return the noise of the totals of a stage, in half-widths of its range."""
        (stage,) = (stage for stage in self.stages if isinstance(stage, JointStage) and stage.name == name)
        return self.totals(name).noise(stage)

    @property
    def residuals_noise(self) -> Noise:
        """The noise of the totals that the report uses, in half-widths of the clip."""
        return self.totals_noise(LEVELS if self.steps is None else RESIDUALS)

    @property
    def smallest_share(self) -> float:
        """Smallest fraction of the rows in a level whose mean has less noise than sampling error, up to 1.

        It assumes residuals that are clipped at twice their standard deviation.
        """
        noise = float(self.residuals_noise.total)
        clip = 2.0 if self.steps is not None else self.design.y_half
        return min((clip * noise) ** 2 / self.n_samples, 1.0)

    def noise_ratio_of_share(self, share: float) -> float:
        """Return the ratio of noise to sampling error of the mean of a level with this fraction of the rows.

        Parameters
        ----------
        share : float
            Share of the level, in (0, 1].
        """
        return math.sqrt(self.smallest_share / check_real("share", share, above=0, at_most=1.0))

    def limit_bias(self, steps: LinearPath) -> float:
        """Return the bias by the least clip that is allowed for if the release does not show skewed residuals."""
        return _BIAS

    def notes(self) -> list[str]:
        if self.steps is None:
            return [
                "means are not adjusted: at this n and epsilon, noise hides the slopes of the covariates. Use more "
                "rows, a larger epsilon or fewer covariates"
            ]
        return [
            f"adjusted for {self.design.center.size} covariates; noise of a slope about {self.steps.noise_ratio:.2g} "
            f"times its sampling error, for {self._columns}",
            f"a level with {100 * self.smallest_share:.2g}% of the rows has as much noise as sampling error",
        ]


SomePlan = TypeVar("SomePlan", bound=LevelsPlan)


def levels_plan(
    design: Design,
    levels: Sequence[Any],
    n: int,
    epsilon: float,
    delta: float,
    missing: str,
    randomized: bool,
    slopes: bool = False,
    kind: Callable[..., SomePlan] = LevelsPlan,  # type: ignore[assignment]
    **facts: Any,
) -> SomePlan:
    """Return the plan of the means of declared levels of n rows, adjusted for the columns of the design.

    Randomized levels whose slopes noise would hide are not adjusted. Others are refused, as they would be confounded.
    With ``slopes`` the slopes are wanted too, and not only as a means to adjust the levels.
    """
    share = _steps_share(design, n, epsilon, delta, slopes)  # refuses delta = 0
    mu, guarantee = 1 / gaussian_sigma(epsilon, delta), PrivacyGuarantee(epsilon, delta)
    d = design.center.size
    facts |= {
        "levels": tuple(levels),
        "randomized": randomized,
        "missing": missing,
        "mu": mu,
        "slopes": slopes,
    }
    size = facts.pop("n_features", d)
    own, weighted = mu * math.sqrt(share), design.weight is not None
    # Rows of undeclared levels count nowhere, so the steps count the rows that they use, as if others were missing.
    first = first_stages(design, "drop")
    parts = shares("linear", n, d, own, design.intercept, first)

    def describe(name: str, part: float, bits: int) -> Integers | JointIntegers:
        found = describe_common(name, part * share, bits, n, d, own)
        return found or describe_step("linear", design, n, name, part * share, bits)

    def build(bits: int) -> SomePlan:
        covariates = 0.0 if randomized else _covariates_share(d, slopes)
        fractions = _fractions(share, n * mu, covariates)
        before: list[Integers | JointIntegers]
        before = [_totals(name, len(levels), fractions[name], weighted) for name in (OUTCOMES, LEVELS)]
        before += [] if randomized else [_covariates(len(levels), d, fractions[COVARIATES], weighted)]
        steps = [describe(name, part, bits) for name, part in parts]
        last = _totals(RESIDUALS, len(levels), fractions[RESIDUALS], weighted)
        stages = additive_stages([*before, *steps, last], epsilon, delta)
        inner = RegressionPlan(
            stages[len(before) : -1],
            guarantee,
            n,
            d,
            design=design,
            bits=bits,
            mu=own,
            missing="drop",
            family="linear",
        )
        return kind(stages, guarantee, n, size, design=design, bits=bits, steps=inner, **facts)

    found = finest(build, row_bits(n))
    assert found.steps is not None
    if not found.steps.noise_only:
        return found
    if not randomized:
        raise InvalidParameter(
            f"epsilon and n_samples must be large enough to adjust for {d} covariates: at epsilon = {epsilon:g} and "
            f"n_samples = {n} noise hides their slopes. Use more rows, a larger epsilon or fewer covariates."
        )

    stages = additive_stages([_totals(LEVELS, len(levels), 1.0, weighted)], epsilon, delta)
    return kind(stages, guarantee, n, size, design=design, bits=found.bits, steps=None, **facts)


def _steps_share(design: Design, n: int, epsilon: float, delta: float, slopes: bool) -> float:
    """Return the fraction of mu^2 for the steps: larger if slopes are wanted, or if their noise is large."""
    ratio = regression_plan("linear", design, n, epsilon, delta).noise_ratio
    if not slopes:
        return min(max((ratio / _ENOUGH) ** 2, _LEAST_STEPS_SHARE), _STEPS_SHARE)
    # sqrt(1 + ratio^2/share) is at most _LONGER sqrt(1 + ratio^2).
    least = ratio**2 / (_LONGER**2 * (1 + ratio**2) - 1)
    return min(max(least, _STEPS_SHARE), _MOST_STEPS_SHARE)


def _covariates_share(d: int, slopes: bool) -> float:
    """Return the fraction of mu^2 for the centers of d covariates. Their errors attenuate the slopes."""
    return min(_COVARIATES_SHARE * (1 + d), _MOST_COVARIATES_SHARE) if slopes else _COVARIATES_SHARE


def _fractions(steps: float, size: float, covariates: float) -> dict[str, float]:
    """Return the fractions of mu^2 of the totals.

    Given are the fraction of the steps, rows times mu, and the fraction of the covariates, 0 for randomized levels.
    """
    levels = _LEVELS_SHARE
    if not covariates:
        levels *= min(max(_ROUGH / size, _LEAST_LEVELS), 1.0)
    found = {OUTCOMES: _OUTCOMES_SHARE, LEVELS: levels, COVARIATES: covariates}
    return {**found, RESIDUALS: 1 - steps - math.fsum(found.values())}


def _shares(plan: LevelsPlan) -> dict[str, float]:
    if plan.steps is None:
        return {LEVELS: 1.0}
    covariates = 0.0 if plan.randomized else _covariates_share(plan.design.center.size, plan.slopes)
    return _fractions((plan.steps.mu / plan.mu) ** 2, plan.n_samples * plan.mu, covariates)


def _totals(name: str, levels: int, share: float, weighted: bool) -> JointIntegers:
    """Return the integers of a stage of totals: of all rows, or by level.

    A weight in [0, 1] multiplies what a row adds. The distance of two rows is convex in their weights, so it is largest
    at weights of 0 or 1. Rounding moves the three numbers of both rows by half a step each.
    """
    count = 1 if name == OUTCOMES else levels
    found = GaussianTotals(count, 1, UNIT_BITS).integers()
    return replace(found, name=name, share=share, l2=found.l2 + 2.0 * weighted)


def _covariates(levels: int, d: int, share: float, weighted: bool) -> Integers:
    """Return the integers of the sums of covariates by level: a row has one level, and a vector in the cube."""
    moved = math.isqrt(4 * d * 4**X_BITS) + 1
    # A weight rounds each number of both rows by half a step.
    moved += weighted * (math.isqrt(d) + 1)
    return Integers(COVARIATES, levels * d, 2.0**-X_BITS, (2 * d << X_BITS) + weighted * d, moved, share)


# Queries


@dataclass(frozen=True, eq=False)
class OutcomeTotals(Question):
    """The totals of all outcomes, or of the outcomes of each level, about a center and clipped to a half-width.

    Both are public, in half-widths of the bounds.
    """

    totals: GaussianTotals
    center: float
    half: float

    def sum_rows(self, block: Block) -> Sums:
        assert block.groups is not None
        codes = np.zeros_like(block.groups) if self.totals.n_groups == 1 else block.groups
        return _sum_levels(self.totals, (block.y - self.center) / self.half, codes, block)


@dataclass(frozen=True, eq=False)
class Centers:
    """Public centers of the levels, in half-widths, and the range of the centered outcomes.

    Attributes
    ----------
    outcomes : array of shape (K,)
    covariates : array of shape (K, d)
        Multiples of a step of the lattice.
    """

    outcomes: Floats
    covariates: Floats

    @cached_property
    def middle(self) -> float:
        """Middle of the range of centered outcomes."""
        return -(float(self.outcomes.min()) + float(self.outcomes.max())) / 2

    @cached_property
    def half(self) -> float:
        """Half-width of this range."""
        return 1 + (float(self.outcomes.max()) - float(self.outcomes.min())) / 2

    @cached_property
    def key(self) -> tuple[bytes, bytes]:
        """The centers as a key of a dict."""
        return self.outcomes.tobytes(), self.covariates.tobytes()

    def subtract(self, block: Block) -> Block:
        """Return the rows minus the centers of their levels, with outcomes in half-widths of their range."""
        y, points = block.remember("centered rows", self.key, lambda: self._subtract(block))
        return replace(block, y=y, points=points)

    def _subtract(self, block: Block) -> tuple[Floats, NDArray[np.float32]]:
        assert block.groups is not None
        y = np.clip((block.y - self.outcomes[block.groups] - self.middle) / self.half, -1.0, 1.0)
        if not self.covariates.any():
            return y, block.points
        steps = np.zeros((len(self.covariates), block.points.shape[1]), dtype=np.float32)
        steps[:, :-1] = self.covariates * 2.0**X_BITS
        # Sums of integers below 2^23 are exact.
        return y, block.points - steps[block.groups]


@dataclass(frozen=True, eq=False)
class Centered(Question):
    """A query about rows minus the centers of their levels."""

    query: Question
    centers: Centers

    def sum_rows(self, block: Block) -> Sums:
        return self.query.sum_rows(self.centers.subtract(block))


@dataclass(frozen=True, eq=False)
class CovariateSums(Question):
    """The sums of the covariates by level, each clipped to its bounds."""

    levels: int

    def sum_rows(self, block: Block) -> Sums:
        assert block.groups is not None
        inside = np.clip(block.z, -(2.0**X_BITS), 2.0**X_BITS)
        sums = [np.bincount(block.groups, column, self.levels) for column in np.rint(block.weigh(inside)).T]
        return {COVARIATES: as_int64(np.stack(sums, axis=1).ravel())}


@dataclass(frozen=True, eq=False)
class ResidualTotals(Question):
    """The totals by level of the residuals, each over the public clip of its level."""

    totals: GaussianTotals
    line: Coordinates
    middle: Floats
    clip: Floats

    def sum_rows(self, block: Block) -> Sums:
        assert block.groups is not None
        residuals = block.y - block.fit_outcomes(self.line) - self.middle[block.groups]
        return _sum_levels(self.totals, residuals / self.clip[block.groups], block.groups, block)


def _sum_levels(totals: GaussianTotals, z: Floats, codes: NDArray[np.int64], block: Block) -> Sums:
    """Return the totals by level of numbers that are clipped to [-1, 1]. A sum of floats below 2^53 is exact."""
    steps = as_int64(np.rint(np.clip(z, -1.0, 1.0) * 2.0**totals.bits))[:, None]
    return {
        name: as_int64(np.bincount(codes, np.rint(block.weigh(values[:, 0])), totals.n_groups))
        for name, values in totals.rows(steps).items()
    }


# The path of a fit


class LevelsPath:
    """Everything that a fit has learned from its releases so far. It uses released values only."""

    def __init__(self, plan: LevelsPlan) -> None:
        self.plan = plan
        self.released: dict[str, Any] = {}
        self.center, self.half = 0.0, 1.0
        """Range of most outcomes, in half-widths of the bounds."""
        self.centers = Centers(
            np.zeros(len(plan.levels)), np.zeros((len(plan.levels), plan.design.center.size))
        )
        self.errors: Floats = np.zeros(len(plan.levels))
        """Standard errors of the centers of the outcomes."""
        self.unsure: Floats = np.zeros_like(self.centers.covariates)
        """Variances of the errors of the centers of the covariates. 0 if levels are randomized."""
        self.spread = 1.0
        """Standard deviation of the outcomes."""
        self.mean, self.mean_error = 0.0, 1.0
        """Mean of all outcomes, and the standard deviation of its noise and of its bias by clipping."""
        self.steps: LinearPath | None = None

    def question(self, name: str) -> Question:
        """Return the query that a stage of the plan answers."""
        if name in (OUTCOMES, LEVELS):
            return OutcomeTotals(self.plan.totals(name), self.center, self.half)
        if name == COVARIATES:
            return CovariateSums(len(self.plan.levels))
        if name == RESIDUALS:
            fit = self.fit
            query: Question = ResidualTotals(
                self.plan.totals(name),
                fit.coordinates,
                fit.middle / self.centers.half,
                fit.clip / self.centers.half,
            )
        else:
            if self.steps is None:
                self.steps = self._first_step()
            query = self.steps.question(name)
        return Centered(query, self.centers)

    def take(self, name: str, released: Any) -> None:
        """Update the path with the release of a stage."""
        self.released[name] = dict(released) if isinstance(released, Mapping) else released
        if self.plan.steps is None:
            return
        if name == OUTCOMES:
            self._take_outcomes(released)
        elif name == LEVELS:
            self._take_levels(released)
        elif name == COVARIATES:
            self._take_covariates(np.asarray(released))
        elif name != RESIDUALS:
            if self.steps is None:
                self.steps = self._first_step()
            self.steps.take(name, released)

    def _take_outcomes(self, released: Mapping[str, Floats]) -> None:
        """Choose the range of the outcomes of levels. Without the noise of the variance it would be too narrow."""
        noise = self.plan.totals_noise(OUTCOMES)
        found = self.plan.totals(OUTCOMES).ratio(dict(released), noise)
        rows = max(float(found.N[0, 0]), noise.count)
        self.center = float(found.estimate[0, 0])
        variance = max(float(found.Q[0, 0]) / rows - self.center**2, 0.0) + 2 * float(noise.square) / rows
        self.mean, self.mean_error = self.center, float(noise.total) / rows
        self.half = _RANGE * math.sqrt(variance)
        if self.half >= 1:
            self.center, self.half = 0.0, 1.0

    def _take_levels(self, released: Mapping[str, Floats]) -> None:
        """Center each level at its mean, shrunk toward the mean of all rows, and start the steps."""
        plan = self.plan
        noise = plan.totals_noise(LEVELS)
        found = plan.totals(LEVELS).ratio(dict(released), noise)
        total, count, square = (part[:, 0] for part in (found.T, np.maximum(found.N, noise.count), found.Q))
        several = math.sqrt(len(plan.levels))
        rows = max(float(found.N.sum()), noise.count * several)
        grand = float(np.clip(total.sum() / rows, -1.0, 1.0))
        variance = (
            max(float(square.sum()) / rows - grand**2, 0.0) + 1.5 * several * float(noise.square) / rows
        )
        variance = min(variance, 1.0)
        own = (noise.total / count) ** 2 + variance / count
        gain = variance / (variance + own)
        means = grand + gain * (np.clip(total / count, -1.0, 1.0) - grand)
        self.counts = count
        centers = np.clip(self.center + self.half * means, -1.0, 1.0)
        self.centers = replace(self.centers, outcomes=centers)
        # The range may have clipped most rows of a level. Then its center can be wrong up to the bounds.
        clipped = np.clip((np.abs(means) - _NARROW) / (1 - _NARROW), 0.0, 1.0) if self.half < 1 else 0.0
        self.errors = self.half * np.sqrt(gain * own) + clipped * (1 - np.abs(centers))
        self.spread = self.half * math.sqrt(variance)
        skewed = _skewness_bias(self.half / self.spread, skewed=True) * self.spread if self.half < 1 else 0.0
        error = math.hypot(self.half * float(noise.total) * several / rows, skewed)
        weight = self.mean_error**2 / (self.mean_error**2 + error**2)
        self.mean += weight * (self.center + self.half * grand - self.mean)
        self.mean_error *= math.sqrt(1 - weight)

    def _take_covariates(self, released: Floats) -> None:
        """Center the covariates of each level at their mean, shrunk toward the mean of all rows.

        Within levels, covariates are not correlated with what the centers of the outcomes miss.
        """
        sums = released.reshape(self.unsure.shape)
        noise = float(np.max(self.plan.noise(COVARIATES).std)) / self.counts[:, None]
        grand = sums.sum(axis=0) / self.counts.sum()
        gain = _COVARIATE_SPREAD**2 / (_COVARIATE_SPREAD**2 + noise**2)
        means = np.clip(grand + gain * (sums / self.counts[:, None] - grand), -1.0, 1.0)
        self.centers = replace(self.centers, covariates=np.rint(means * 2.0**X_BITS) * 2.0**-X_BITS)
        self.unsure = np.broadcast_to(gain * noise**2, self.unsure.shape)

    def _first_step(self) -> LinearPath:
        """Return the path of the steps, for outcomes in the range that centered outcomes have."""
        plan, design, centers = self.plan, self.plan.design, self.centers
        assert plan.steps is not None
        middle, half = design.y_center + design.y_half * centers.middle, design.y_half * centers.half
        return LinearPath(replace(plan.steps, design=replace(design, y_center=middle, y_half=half)))

    @cached_property
    def fit(self) -> LevelsFit:
        """The regression after the Newton steps."""
        return LevelsFit(self)

    def estimate(self) -> LevelsEstimate:
        """Return the estimate after all stages."""
        return LevelsEstimate(self)


class LevelsFit:
    """The regression after the Newton steps, and the clips of the residuals. All of it is public.

    Lengths are in half-widths: of the outcome, and of the covariates.

    Attributes
    ----------
    found : Estimate
        The estimate of the steps, for outcomes minus the centers of their levels.
    identified : array of bool, shape (d,)
        Whether each slope is identified. The others count as 0.
    slopes, intercept : array of shape (d,), float
        Coefficients, at the middle of the bounds of the covariates.
    scale : float
        Standard deviation of the residuals.
    skewed : bool
        Whether the release shows that residuals are skewed.
    middle, clip : array of shape (K,)
        Middle and half-width of the range that the residuals of each level are clipped to.
    shape : array of shape (K,)
        Standard deviation of the normal residuals that the mean of clipped residuals is computed for.
    bias : array of shape (K,)
        Standard deviation of the bias by this clip.
    cov, sampling : array of shape (d, d)
        Covariance of the errors of the slopes, and its part that is sampling error.
    """

    def __init__(self, path: LevelsPath) -> None:
        plan, steps = path.plan, path.steps
        assert steps is not None
        design = plan.design
        self.found: Estimate = steps.estimate()
        self.identified = find_identified(self.found, self.found.robust, steps.plan)
        per_step = design.half / design.y_half
        all_slopes = self.found.params[1:] * per_step
        units = np.outer(per_step, per_step)
        self.cov = self.found.robust[1:, 1:] * units
        self.sampling = (self.found.model - self.found.privacy)[1:, 1:] * units
        self.scale = min(self.found.scale / design.y_half, path.spread)
        # Where errors of the centers make most of the curvature, slopes are hardly known.
        moved, inverse = self._center_errors(path)
        self.identified &= np.diagonal(inverse) * moved < _MOST_ATTENUATED
        self.slopes = np.where(self.identified, all_slopes, 0.0)
        if plan.randomized:
            # Any slopes are right. Errors of slopes widen the intervals of the levels, so shrink those that are noise.
            noise = _NOISE * np.sqrt(np.diagonal(self.cov))
            self.slopes *= 1 - (noise / np.maximum(np.abs(self.slopes), noise)) ** 2
        self.intercept = (
            float(self.found.params[0] + self.found.params[1:] @ design.center) - design.y_center
        ) / design.y_half
        # The line without the slopes that are not identified goes through the same center.
        self.intercept += float((all_slopes - self.slopes) @ steps.shift)
        if steps.plan.is_lost(self.found.rows):
            self.intercept, self.scale = 0.0, path.spread
        self._correct_slopes(path)
        self.skewed = self.found.uneven or steps.skewness > 0
        self._choose_clips(path, steps)
        theta = np.append(self.intercept - path.centers.middle, self.slopes) / path.centers.half
        self.coordinates = Coordinates(np.zeros(design.center.size), True, coordinates(theta, design.size))

    def _center_errors(self, path: LevelsPath) -> tuple[Floats, Floats]:
        """Return the mean squared errors of the centers of the covariates, and the inverse of the curvature."""
        moved = np.minimum(path.counts / self.found.rows, 1.0) @ path.unsure
        return moved, self.sampling * self.found.rows / self.scale**2

    def _correct_slopes(self, path: LevelsPath) -> None:
        """Undo half of the largest attenuation by errors in the centers of the covariates, and keep it as an error.

        These errors move the rows of a level, but not their outcomes. If rows are clipped, it is less. The errors of
        the slopes are attenuated too.
        """
        moved, inverse = self._center_errors(path)
        if not moved.any():
            return
        half = inverse @ (moved * self.slopes) / 2
        # The fraction of the curvature that is due to these errors, in coordinates in which it is symmetric
        sizes, turn = np.linalg.eigh(inverse)
        root = turn * np.sqrt(np.maximum(sizes, 1e-300))
        fraction, vectors = np.linalg.eigh(root.T @ (moved[:, None] * root))
        fraction = np.clip(fraction, 0.0, _MOST_ATTENUATED)
        lost = root @ (vectors * (fraction / (1 - fraction))) @ vectors.T @ np.linalg.inv(root)
        rest = lost @ self.slopes - half
        self.slopes = self.slopes + np.where(self.identified, half, 0.0)
        stretch = np.eye(half.size) + lost / 2
        self.cov = stretch @ self.cov @ stretch.T + np.outer(rest, rest)
        self.sampling = stretch @ self.sampling @ stretch.T

    def _choose_clips(self, path: LevelsPath, steps: LinearPath) -> None:
        """Choose the clip of the residuals of each level. The noise is in proportion to it.

        Either it is near their scale, with a bias by skewness that decays with the clip, or it clips no outcome.
        """
        noise, last = path.plan.totals_noise(LEVELS), path.plan.totals_noise(RESIDUALS)
        count = np.maximum(path.released[LEVELS][COUNTS], noise.count)[:, None]
        away = path.centers.outcomes + self.intercept
        clips = np.minimum(_CLIPS * self.scale + _REACH * path.errors[:, None], 2.0)
        bias = self.scale * _skewness_bias(_CLIPS, self.skewed, path.plan.limit_bias(steps))
        costs = (last.total * clips / count) ** 2 + bias**2
        best, every = np.argmin(costs, axis=1), np.arange(len(away))
        # Outcomes within the bounds, minus the slopes times covariates within theirs
        widest = 1 + float(np.abs(self.slopes).sum())
        all_inside = (last.total * widest / count[:, 0]) ** 2 < costs[every, best]
        self.clip = np.where(all_inside, widest, clips[every, best])
        self.middle = np.where(all_inside, -away, 0.0)
        self.bias = np.where(all_inside, 0.0, bias[best])
        # Without a clip, the mean of the residuals is what the totals say.
        self.shape = np.where(all_inside, _NO_SPREAD, self.scale)


def _skewness_bias(clip: Any, skewed: bool = False, least: float = _BIAS) -> Any:
    """Return the bias of the mean of residuals by a clip, both in standard deviations, that is allowed for.

    ``least`` is the bias by the least clip if the release does not show that residuals are skewed.
    """
    bias, decay = (_SKEWED_BIAS, _SKEWED_DECAY) if skewed else (least, _DECAY)
    return bias * np.exp(-decay * (clip - _CLIPS[0]))


# Estimates


@dataclass(frozen=True, eq=False)
class BiasedRatio(Ratio):
    """Ratios with a bias of known standard deviation, which counts like sampling error.

    Attributes
    ----------
    T, N, Q, X, R, noise, counts
        As for `Ratio`.
    bias : array
        Standard deviation of the bias of each ratio.
    """

    bias: Floats = field(default_factory=lambda: np.zeros(()), kw_only=True)

    def __getitem__(self, index: Any) -> BiasedRatio:
        return replace(super().__getitem__(index), bias=np.broadcast_to(self.bias, self.shape)[index])

    def sampling_variance(self, value: Any) -> Floats:
        rows = np.maximum(self.N, self.noise.count)
        return super().sampling_variance(value) + (rows * self.bias) ** 2


@dataclass(frozen=True, eq=False)
class LevelMeans:
    """Means of levels in half-widths, as increasing functions of the ratios of clipped residuals.

    A mean is ``middle`` plus the shift of a normal variable whose clipped mean is the ratio times ``clip``. It has the
    methods of a `Ratio` that intervals and tests use.

    Attributes
    ----------
    ratio : BiasedRatio
        Means of the clipped residuals, over the clip.
    middle, clip : arrays
    scale : array
        Standard deviation of the normal variables.
    most : float
        The largest size of a mean.
    """

    ratio: BiasedRatio
    middle: Floats
    clip: Floats
    scale: Floats
    most: float

    def __getitem__(self, index: Any) -> LevelMeans:
        parts = (np.broadcast_to(part, self.shape)[index] for part in (self.middle, self.clip, self.scale))
        middle, clip, scale = parts
        return replace(self, ratio=self.ratio[index], middle=middle, clip=clip, scale=scale)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the means."""
        return self.ratio.shape

    @property
    def estimate(self) -> Floats:
        """The means."""
        return self._map(self.ratio.estimate)

    def score(self, value: Any) -> Floats:
        """Return the distance of the release above each value, as a standard normal variable."""
        away = np.asarray(value, dtype=np.float64) - self.middle
        return self.ratio.score(clipped_mean(away, self.clip, self.scale) / self.clip)

    def ends(self, z: Any) -> tuple[Floats, Floats]:
        """Return the least and the largest mean that a standard normal variable within z does not refute."""
        low, high = self.ratio.ends(z)
        return self._map(low), self._map(high)

    def shift(self, by: Any, error: Any) -> LevelMeans:
        """Return the means moved by ``by``, which has a standard error."""
        kept = 2 * ndtr(self.clip / self.scale) - 1
        bias = np.hypot(self.ratio.bias, np.asarray(error) * kept / self.clip)
        return replace(self, ratio=replace(self.ratio, bias=bias), middle=self.middle + by)

    def widen(self) -> LevelMeans:
        """Return the means without the limit by the bounds. The largest mean of the search replaces infinite ones."""
        most = np.abs(self.middle) + self.clip + _FARTHEST * self.scale
        return replace(self, most=float(np.max(most)))

    def _map(self, ratio: Floats) -> Floats:
        away = invert_clipped_mean(ratio * self.clip, self.clip, self.scale)
        return np.clip(self.middle + away, -self.most, self.most)


def clipped_mean(mean: Any, clip: Any, scale: Any) -> Floats:
    """Return the mean of a normal variable with this mean and standard deviation, clipped to [-clip, clip]."""
    low, high = (-clip - mean) / scale, (clip - mean) / scale
    density = (np.exp(-(high**2) / 2) - np.exp(-(low**2) / 2)) / math.sqrt(2 * math.pi)
    inside = mean * (ndtr(high) - ndtr(low)) - scale * density
    return np.asarray(inside - clip * ndtr(low) + clip * ndtr(-high))


def invert_clipped_mean(value: Floats, clip: Any, scale: Any) -> Floats:
    """Return the mean of a normal variable whose clipped mean is ``value``: infinite at the ends."""
    clip = np.broadcast_to(clip, value.shape)
    low, high = -clip - _FARTHEST * scale, clip + _FARTHEST * scale
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        below = clipped_mean(middle, clip, scale) < value
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    found = (low + high) / 2
    return np.where(np.abs(value) < clip * (1 - 1e-7), found, np.copysign(np.inf, value))


class LevelsEstimate:
    """Adjusted means of levels, in half-widths about the middle of the bounds.

    Attributes
    ----------
    means : Ratio or LevelMeans
        Of shape (K, 1): the means of the levels at a common point of the covariates, for comparisons.
    counts : array of shape (K,)
        Noisy number of rows of each level.
    counts_noise : float
    """

    def __init__(self, path: LevelsPath) -> None:
        plan = path.plan
        self.plan, self.path = plan, path
        noise = plan.residuals_noise
        if plan.steps is None:
            self.means: Ratio | LevelMeans = plan.totals(LEVELS).ratio(dict(path.released[LEVELS]), noise)
            self.ratio: Ratio = self.means
            self.counts, self.counts_noise = self.means.N[:, 0].copy(), noise.count
            return
        fit = path.fit
        first, last = (dict(path.released[name]) for name in (LEVELS, RESIDUALS))
        found = plan.totals(RESIDUALS).ratio(last, noise)
        weight = plan.share(RESIDUALS) / (plan.share(RESIDUALS) + plan.share(LEVELS))
        N = weight * found.N + (1 - weight) * first[COUNTS][:, None]
        count = math.sqrt(weight) * noise.count
        center = noise.square_spread / noise.count**2
        pooled = replace(noise, count=count, spread=count, square_spread=center * count**2)
        kept = 2 * ndtr(fit.clip / fit.shape) - 1
        bias = (fit.bias * kept / fit.clip)[:, None]
        self.ratio = BiasedRatio(found.T, N, found.Q, found.T, N, pooled, bias=bias)
        assert path.steps is not None
        away = path.steps.shift - path.centers.covariates
        middle = (path.centers.outcomes + away @ fit.slopes + fit.intercept + fit.middle)[:, None]
        # The means of outcomes are within the bounds, and the mean of the covariates has noise.
        most = (1.0 if plan.randomized else 2.0) + 3 * path.steps.center_noise * float(
            np.linalg.norm(fit.slopes)
        )
        self.means = LevelMeans(self.ratio, middle, fit.clip[:, None], fit.shape[:, None], most)
        self.counts, self.counts_noise = N[:, 0].copy(), count

    @property
    def identified(self) -> NDArray[np.bool_]:
        """Whether each level has more rows than noise explains."""
        return np.asarray(self.counts >= _SEEN * self.counts_noise)

    @property
    def population(self) -> Ratio | LevelMeans:
        """The means at the mean of the covariates of all rows, where they average to the mean of all outcomes."""
        if not isinstance(self.means, LevelMeans):
            return self.means
        path, fit, n = self.path, self.path.fit, self.path.fit.found.rows
        rows = np.maximum(self.counts, self.counts_noise)
        average = float(rows @ self.means.estimate[:, 0] / rows.sum())
        sampling = max(path.spread**2 - fit.scale**2, 0.0) / n
        noise = float(self.ratio.noise.total) * float(np.linalg.norm(fit.clip)) / n
        error = np.sqrt(sampling + noise**2 + path.mean_error**2 + np.diagonal(self.covariance))
        return self.means.shift(path.mean - average, error[:, None])

    @property
    def deviations(self) -> Floats:
        """Standard deviation of the residuals of each level, of shape (K, 1)."""
        ratio = self.ratio
        rows, m = np.maximum(self.counts[:, None], self.counts_noise), ratio.estimate
        variance = np.clip((ratio.Q - 2 * m * ratio.X + m**2 * ratio.R) / rows, 0.0, (1 - m) * (1 + m))
        clip = self.means.clip if isinstance(self.means, LevelMeans) else 1.0
        return np.asarray(clip * np.sqrt(variance))

    def compare(self, first: Any, second: Any) -> tuple[Any, Any]:
        """Return the means of some levels and of others, whose differences are adjusted for the covariates."""
        a, b = self.means[first], self.means[second]
        if not isinstance(a, LevelMeans) or self.plan.randomized:
            return a, b
        cov = self.covariance
        variances: Floats = np.diagonal(cov)[first] + np.diagonal(cov)[second] - 2 * cov[first, second]
        return a.shift(0.0, np.sqrt(np.maximum(variances, 0.0)).reshape(a.shape)), b

    @cached_property
    def covariance(self) -> Floats:
        """Covariance of the errors of the means of the levels by errors of the slopes: 0 if levels are randomized."""
        path, K = self.path, len(self.plan.levels)
        if self.plan.randomized or self.plan.steps is None:
            return np.zeros((K, K))
        away = path.centers.covariates - self.counts @ path.centers.covariates / self.counts.sum()
        cov = self.slopes_covariance
        return np.asarray(away @ cov @ away.T + np.diag(path.unsure @ np.diagonal(cov)))

    @cached_property
    def slopes_covariance(self) -> Floats:
        """Covariance of the errors of the slopes, in half-widths.

        If both centers of a level have errors, its rows bias the slopes.
        """
        path, fit = self.path, self.path.fit
        if self.plan.randomized:
            return fit.cov
        assert isinstance(self.means, LevelMeans)
        moves = np.clip(self.means.estimate - self.means.middle, -self.means.clip, self.means.clip)
        moves += fit.middle[:, None]
        share = np.maximum(self.counts, self.counts_noise)[:, None] / fit.found.rows
        bent = (share**2 * path.unsure * moves**2).sum(axis=0)
        sampling = fit.sampling * fit.found.rows / fit.scale**2
        return np.asarray(fit.cov + sampling @ np.diag(bent) @ sampling)
