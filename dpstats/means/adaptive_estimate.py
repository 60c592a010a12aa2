"""The plan of an adaptive mean, and where the mean is for all that it released.

Proof: docs/intervals/adaptive-mean.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_columns
from dpstats.inference.error_distributions import Tail
from dpstats.lattice import NormedLattice
from dpstats.means.adaptive_radii import Course, Known, Setting, Staging, released_variance, unclipped
from dpstats.means.boxed_errors import (
    BoxedErrors,
    DeclaredBox,
    Screen,
    Shape,
    biased_normal_quantile,
    last_stage,
    mean_in_box,
)
from dpstats.means.moments import frozen
from dpstats.means.ratio import laplace_sum_quantile
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import JointStage
from dpstats.release.session import Released

Numbers = NDArray[np.float64]

ASSUMPTIONS = {
    "subgaussian": (
        "the tails of the rows are at most as heavy as normal ones of the stated standard deviation, in each column "
        "and in the distance from the mean"
    ),
    "symmetric": (
        "the rows are symmetric about the mean, and at least as concentrated about it as normal ones of the stated "
        "standard deviation"
    ),
    "variance": "the stated standard deviation is an upper bound, without other assumptions",
}
"""The assumption about the rows that each value of ``tails`` makes, as text."""
_OWN = "normal ones of the rows' own standard deviation"
OWN_SPREAD = {
    name: words.replace("normal ones of the stated standard deviation", _OWN) for name, words in ASSUMPTIONS.items()
}
"""The assumptions if the balls follow the standard deviation of the rows."""

SUMS, SQUARED_NORMS, OUTSIDE = "mean", "squared norm", "clipped rows"


@dataclass(frozen=True)
class AdaptiveMeanPlan(DeclaredBox, ReleasePlan):
    """The plan of an `AdaptiveMean`: its stages, and how they are averaged. All of it is public.

    Quantities in whitened units (every column has standard deviation 1) are said to be so.
    """

    lattices: tuple[NormedLattice, ...] = field(repr=False, compare=False)
    staging: Staging = field(repr=False)  # shares, clip radii and bias bounds of the stages, whitened
    # Inverse of the bound on ||mu||^2/d, whitened and about ``middle``: what the next center is shrunk by.
    prior: float = field(repr=False)
    # The box for the mean: its center, and how far the mean may be from it.
    middle: float | tuple[float, ...]
    bound: float | tuple[float, ...]
    hard: bool  # whether the rows lie in the box too
    std: float | tuple[float, ...]  # upper bounds on the standard deviation of the columns
    # Whether the sampling error is computed from the released standard deviation, and not from these.
    private_std: bool
    shape: Shape = field(repr=False, compare=False)
    tails: str
    missing: str
    # Reason for not releasing the covariance, although ``cov="private"`` requested it. Otherwise empty.
    fallback: str = ""

    @property
    def assumption(self) -> str:
        """The assumption of ``tails`` about the rows, as text."""
        return (OWN_SPREAD if self.follows else ASSUMPTIONS)[self.tails]

    def facts(self) -> dict[str, Any]:
        """Return facts about the plan that its stages do not show, by name."""
        route = {"route": "columns"} if self.fallback else {}
        return {**route, "tails": self.tails, "assumption": self.assumption}

    def notes(self) -> list[str]:
        """Return the facts as text, one line each."""
        error, half = self.bound_errors()
        notes = [self.fallback] if self.fallback else []
        notes += [
            f"assumes that {self.assumption}",
            f"root mean squared error of a column: at most about {error:.2g} stated sd; half-width of a 95% interval "
            f"that makes this assumption: about {half:.2g}",
        ]
        if self.follows:
            notes.append(
                "the balls follow the released standard deviation: radii and noise are at most the printed values, at "
                "std_bound"
            )
        if self.screen is not None:
            rows, shift = self.screen.unnoticed
            notes.append(
                f"counts the rows that its last stage clips: fewer than {rows:,} would not be noticed, and could move "
                f"a mean by up to {shift:.2g} sd"
            )
        return notes + self.warnings()

    def bound_errors(self) -> tuple[float, float]:
        """Return bounds on the error of a column and on the half-width of its interval, whitened."""
        random = math.sqrt(self.sampling_variance + self.noise_variance)
        half = random * float(biased_normal_quantile(0.025, self.bias / random))
        most = float(np.max(self.half / self.stds))
        return min(math.hypot(random, self.bias), most / math.sqrt(3)), min(half, most)

    @property
    def interval_reach(self) -> float:
        """Half-width of an interval, and how far clipped rows that nobody notices can move the mean, whitened."""
        return self.bound_errors()[1] + (0.0 if self.screen is None else self.screen.unnoticed[1])

    def warnings(self) -> list[str]:
        """Return the reasons to reconsider the plan before any budget is spent."""
        noisy = int(np.count_nonzero(math.sqrt(self.noise_variance) * self.stds > self.half / math.sqrt(3)))
        if not noisy:
            return []
        columns = "the column" if self.n_features == 1 else f"{noisy} of {self.n_features} columns"
        return [
            f"the noise of {columns} exceeds bound/sqrt(3), the error of reporting the middle of the box: more "
            "rows, a larger epsilon or a narrower box are needed to learn anything"
        ]

    @property
    def law(self) -> str:
        """The distribution of the noise: "gaussian" or "laplace"."""
        return self.last.noise

    def last_noise_std(self, name: str) -> float:
        """Return the standard deviation of the noise of a block of the last stage."""
        (block,) = [block for block in self.last.blocks if block.name == name]
        return float(np.max(self.last.noise_std(block)))

    @property
    def last(self) -> JointStage:
        """The last stage, which releases more than sums."""
        stage = self.stages[-1]
        assert isinstance(stage, JointStage)
        return stage

    @cached_property
    def precisions(self) -> tuple[float, ...]:
        """Inverse noise variance of each stage's estimate, whitened."""
        # A step of a lattice is 2^-bits of its radius, in any units.
        laws = zip(self.stages, self.lattices, self.staging.radii, self.staging.slopes, strict=True)
        return tuple(
            (slope * self.n_samples / (radius * 2.0**-lattice.bits * _sum_scale(stage))) ** 2
            / (2 if self.law == "laplace" else 1)
            for stage, lattice, radius, slope in laws
        )

    @property
    def follows(self) -> bool:
        """Whether the radii follow the released standard deviation; the planned radii are then the largest."""
        return bool(self.staging.points)

    @cached_property
    def course(self) -> Course:
        """The public numbers that radii are computed from, if they follow the released standard deviation."""
        n, d, staging = self.n_samples, self.n_features, self.staging
        laplace = self.law == "laplace"
        setting = Setting.build(n, d, 1 / self.prior, self.reach2, laplace=laplace)
        units = [
            slope**2 / (precision * radius**2)
            for slope, precision, radius in zip(staging.slopes, self.precisions, staging.radii, strict=True)
        ]
        weight = self.lattices[-1].free_weight("l1" if laplace else "l2")
        return Course(setting, self.tails, units, staging.points, weight)

    def realized(
        self,
        scales: Sequence[float],  # the radii over the planned ones
        variance: float = 1.0,  # upper limit of the variance of a column, whitened
    ) -> AdaptiveMeanPlan:
        """Return the plan with the radii of one release, and the bounds that hold for rows of a variance."""
        radii = tuple(scale * radius for scale, radius in zip(scales, self.staging.radii, strict=True))
        biases, spreads = self.course.bounds(radii, variance)
        staging = replace(self.staging, radii=radii, biases=tuple(biases), spreads=tuple(spreads))
        stages = tuple(_resize(stage, scale) for stage, scale in zip(self.stages, scales, strict=True))
        return replace(self, stages=stages, staging=staging)

    @cached_property
    def weights(self) -> Numbers:
        """Weights of the stages in the estimate; they add up to 1."""
        return np.array(self.precisions) / math.fsum(self.precisions)

    @property
    def noise_variance(self) -> float:
        """Variance of the noise in a column of the estimate, whitened."""
        return 1 / math.fsum(self.precisions)

    @property
    def sampling_variance(self) -> float:
        """Bound on the sampling variance of a column of the estimate, whitened, at the stated standard deviation."""
        return self.sampling_at(1.0)

    def sampling_at(self, variance: float) -> float:
        """Return the bound on the sampling variance for rows of this variance, whitened."""
        spreads = np.array(self.staging.spreads)
        if variance != 1.0:
            # The stages' bounds exceed the standard deviation of the rows by the error of the centers.
            own = math.sqrt(variance) / np.array(self.staging.slopes)
            spreads = np.hypot(own, np.sqrt(np.maximum(spreads**2 - 1, 0.0)))
        return float(self.weights @ spreads) ** 2 / self.n_samples

    @property
    def bias(self) -> float:
        """Bound on the bias of a column of the estimate under the stated ``tails``, whitened."""
        return float(self.weights @ np.array(self.staging.biases))

    @property
    def reach2(self) -> float:
        """Bound on the square of a column's mean about ``middle``, whitened."""
        return float(np.max(self.half / self.stds)) ** 2

    @cached_property
    def screen(self) -> Screen | None:
        """What the count of clipped rows is judged by, where there is one."""
        if all(block.name != OUTSIDE for block in self.last.blocks):
            return None
        known = math.fsum(self.precisions[:-1]) + self.prior
        return Screen(
            self.n_samples,
            self.n_features,
            self.staging.radii[-1],
            1 / self.n_samples + 1 / known,
            self.law,
            self.last_noise_std(OUTSIDE),
        )

    def average(self, estimates: Sequence[Numbers]) -> Numbers:
        """Return the average of the first stages' estimates, each of shape (..., n_features)."""
        precisions, values = np.array(self.precisions[: len(estimates)]), np.array(estimates)
        weights = (precisions / precisions.sum())[None]
        result: Numbers = (weights @ values.reshape(len(estimates), -1)).reshape(values.shape[1:])
        return result

    def center(self, estimates: Sequence[Numbers], scales: Sequence[Any] = ()) -> Numbers:
        """Return the center of the next stage: the average so far, shrunk by the bound on the mean's size.

        ``scales`` are the ratios of the radii to the planned radii, if they follow the released standard deviation.
        """
        middle = np.full(self.n_features, self.middle)
        if not estimates:
            return middle
        if self.follows:
            precisions = [p / np.square(scale)[..., None] for p, scale in zip(self.precisions, scales, strict=False)]
            total = sum(p * (m - middle) for p, m in zip(precisions, estimates, strict=True))
            return np.asarray(middle + total / (sum(precisions) + self.prior))
        known = math.fsum(self.precisions[: len(estimates)])
        return np.asarray(middle + known / (known + self.prior) * (self.average(estimates) - middle))

    def trail(self, released: Released) -> Trail:
        """Return the stages of a release, one after the other."""
        trail = Trail(self)
        for stage in self.stages:
            trail.add(released[stage.name])
        return trail

    def expected_error(self, std: float | Numbers | None = None) -> float:
        """Return an upper bound on the expected squared l2 error, under the stated ``tails``.

        Parameters
        ----------
        std : float or array of shape (n_features,), optional
            Actual standard deviation of the columns, for the sampling error (default: the public bound).

        Returns
        -------
        float
            Sampling variance, noise variance and squared bias bound, added over the columns. If noise dominates, the
            sum is at most the error of reporting the middle of the box, on average over the box. Bounds on the bias
            are seldom attained: under "variance" the actual error can be several times smaller.
        """
        squares = self.stds**2
        sampling = self.sampling_variance * squares
        noise, bias = self.noise_variance, self.bias
        if std is not None:
            actual = check_columns("std", std, self.n_features, at_least=0)
            sampling = np.broadcast_to(np.asarray(actual) ** 2 / self.n_samples, squares.shape)
            if self.follows:
                variance = float(np.mean(np.minimum(np.asarray(actual) ** 2 / squares, 1.0)))
                known, _ = self.course.follow(variance)
                noise, bias = 1 / float(known.info), float(known.bias_one)
        error = sampling + (noise + bias**2) * squares
        return float(np.sum(np.minimum(error, self.half**2 / 3)))


class Trail:
    """The stages of a release so far, or of a batch of releases: where the next ball is, and how large.

    Attributes
    ----------
    estimates : list of array of shape (..., n_features)
        The estimate of the mean of every stage: its center, plus the released mean about that center.
    scales : list of float or array
        Their radii over the planned ones.
    """

    def __init__(self, plan: AdaptiveMeanPlan) -> None:
        self._plan = plan
        self.estimates: list[Numbers] = []
        self.scales: list[Any] = []
        self._known, self._variance = Known(*np.zeros(4)), 1.0

    def ahead(self) -> tuple[Numbers, Any]:
        """Return the center of the next ball, and its radius over the planned one."""
        plan, t = self._plan, len(self.estimates)
        center = plan.center(self.estimates, self.scales)
        if not plan.follows or not t:
            return center, 1.0
        return center, plan.course.radius(t, self._known, self._variance) / plan.staging.radii[t]

    def add(self, released: Any) -> None:
        """Take in what the next stage released, in the units of the plan."""
        plan, t = self._plan, len(self.estimates)
        center, scale = self.ahead()
        shift = released[SUMS] if isinstance(released, Mapping) else released
        if plan.follows:
            shift = shift * np.asarray(scale)[..., None]
        self.estimates.append(center + plan.shape.unwhiten(shift) / plan.staging.slopes[t])
        self.scales.append(scale)
        if plan.follows:
            course, radius = plan.course, scale * plan.staging.radii[t]
            self._known = course.after(t, self._known, radius, self._variance)
            white = plan.shape.whiten(shift)
            square = released[SQUARED_NORMS][..., 0] * np.square(scale)
            self._variance = course.upper_variance(t, radius, np.sum(white * white, axis=-1), square)


def _resize(stage: Any, scale: float) -> Any:
    """Return a joint stage in the units of a ball that is ``scale`` times as large."""
    factors = {SUMS: scale, SQUARED_NORMS: scale**2, OUTSIDE: 1.0}
    blocks = tuple(
        replace(block, spacing=frozen(np.asarray(block.spacing) * factors[block.name])) for block in stage.blocks
    )
    return replace(stage, blocks=blocks)


def _sum_scale(stage: Any) -> float:
    """Return the scale of the noise of a stage's sums, in steps."""
    return stage.scale_steps(stage.blocks[0]) if isinstance(stage, JointStage) else stage.scale_steps


# Number of standard deviations by which the released variance must exceed the stated one, and the number for its upper
# limit.
SURPRISE, _SPREAD_LIMIT = 2.6, 2.0
MUCH_SHORTER = 0.8  # intervals that assume tails are worth naming from there on
_LOOSE = 0.7  # ratio of the released to the stated standard deviation below which the latter is loose


@dataclass(frozen=True)
class Located:
    """An estimate, and what bounds its error, whitened."""

    estimate: Numbers  # (d,): the estimate, in the units of the data
    sampling: Any  # standard deviation of its sampling error
    noises: Numbers  # (m,): standard deviations of the parts of its noise
    # Bound on its bias; infinite where there is none.
    bias: Any
    variance: float  # variance of the rows, from which the sampling error is computed
    wider: bool  # whether this is the released variance, because it refutes the stated one
    refuted: bool  # whether more rows were clipped than the assumption about tails allows
    spread: float  # upper limit of the standard deviation of the clipped rows, as released

    def deviation(self) -> Any:
        """Return the standard deviation of its error."""
        return np.sqrt(np.square(self.sampling) + np.sum(self.noises**2))


@dataclass(frozen=True, eq=False)
class Found:
    """Where the mean is, for one release."""

    plan: AdaptiveMeanPlan  # the plan, with the radii of this release
    stage_means: Numbers  # (stages, d): the estimate of every stage
    average: Located  # the average of the stages, under the assumption on tails
    # Valid for all rows of the stated standard deviation: the estimate of the last stage, by the count of the rows
    # that it clipped. Without a count, ``average``.
    safe: Located
    count: float | None = None  # how many rows the last stage clipped, as released

    @property
    def estimate(self) -> Numbers:
        return self.average.estimate

    @property
    def error(self) -> Numbers:
        return np.asarray(self.average.deviation() * self.plan.stds)

    @property
    def mean(self) -> Numbers:
        """The reported estimate, in the box."""
        plan = self.plan
        # The average is more precise, regardless of how its bias is bounded. Intervals about the last stage contain it.
        error = math.sqrt(plan.sampling_at(self.average.variance) + plan.noise_variance) * plan.stds
        return mean_in_box(self.estimate, error, *plan.box)

    @property
    def std(self) -> Numbers:
        return math.sqrt(self.average.variance) * self.plan.stds

    @property
    def noise_std(self) -> Numbers:
        return math.sqrt(self.plan.noise_variance) * self.plan.stds

    @property
    def noise_scale(self) -> float | Numbers:
        return float(self.noise_std[0]) if isinstance(self.plan.std, float) else self.noise_std

    @property
    def refuted(self) -> bool:
        return self.average.refuted

    @property
    def clipped_rows(self) -> float | None:
        return None if self.count is None else min(max(self.count, 0.0), float(self.plan.n_samples))

    @property
    def error_covariance(self) -> Numbers:
        unit = np.broadcast_to(self.average.deviation(), self.plan.n_features)
        return np.asarray(unit[:, None] * self.plan.shape.covariance(self.plan.n_features) * unit)

    def estimands(self) -> dict[str, str]:
        """Return the descriptions of the estimands by name. The first is the default."""
        plan, mean = self.plan, "the population mean, if it is in the box and "
        if plan.screen is None:
            return {"population": mean + plan.assumption}
        safe = {"population": mean + ASSUMPTIONS["variance"]}
        if self.refuted:
            return safe
        rows, shift = plan.screen.unnoticed_at(self.average.variance)
        unnoticed = f"fewer than {rows:,} clipped rows would not be noticed, and could move it by up to {shift:.2g}"
        return {**safe, "tails": f"{mean}{plan.assumption}; {unnoticed} stated sd"}

    def errors(self, estimand: str, mean: Numbers) -> AdaptiveErrors:
        """Return the distribution of the errors for an estimand; intervals contain the reported ``mean``."""
        return AdaptiveErrors(self.plan, self.safe if estimand == "population" else self.average, mean)

    def notes(
        self,
        estimand: str,
        shorter: float,  # width of intervals that assume tails over the width of the others; 1 without these
        beyond: Sequence[str],  # names of columns whose intervals are open at an edge of the box
        shrunk: bool,  # whether an estimate is moved towards the middle of the box
    ) -> list[str]:
        """Return the notes of a summary: assumptions, clipped rows, and open intervals."""
        plan, shown = self.plan, self.safe if estimand == "population" else self.average
        notes = [f"The plan {plan.fallback}."] if plan.fallback else []
        clipped = self.clipped_rows or 0.0
        screen, counted = plan.screen, f"The last stage clipped about {clipped:,.0f} rows"
        if screen is None:
            notes.append(
                f'tails="{plan.tails}" assumes that {plan.assumption}. If this is wrong, intervals may undercover. '
                "Privacy is not affected."
            )
        elif shown.refuted:
            notes.append(
                f'REFUTED: tails="{plan.tails}" assumes that {plan.assumption}. The last stage would then clip at most '
                f"{screen.most(shown.variance):,.0f} rows, noise included, and it clipped about "
                f"{clipped:,.0f}. "
                + (
                    "The intervals assume only the stated standard deviation."
                    if np.isfinite(shown.bias).all()
                    else "The last stage alone gives no limits here."
                )
            )
        elif estimand == "population":
            notes.append(
                f"{counted}. The intervals include the largest bias that these rows, and the noise of their count, "
                "allow at the stated standard deviation."
            )
            if shorter < MUCH_SHORTER:
                notes.append(
                    f'estimand="tails" gives intervals of {100 * shorter:.0f}% of this width. Intervals of "tails" '
                    f"assume that {plan.assumption}."
                )
        else:
            rows, shift = screen.unnoticed_at(shown.variance)
            notes.append(
                f"{counted}, which this assumption allows. Fewer than {rows:,} clipped rows would not be noticed, and "
                f"could move a mean by up to {shift:.2g} stated sd. The intervals do not include this."
            )
        if shown.wider:
            notes.append(
                "REFUTED: the stated standard deviation. The clipped rows have "
                f"{math.sqrt(shown.variance):.2g} times this value. The sampling error uses the larger value, but the "
                "bounds on the bias are too small."
            )
        elif plan.private_std:
            notes.append(
                "The sampling error uses a released upper limit on the standard deviation of all columns: "
                f"{math.sqrt(shown.variance):.2g} times std_bound."
            )
        elif shown.spread < _LOOSE and not shown.refuted:
            notes.append(
                f"The standard deviation of the clipped rows is at most {shown.spread:.2g} times the stated one. "
                'If you stated it too large, give it as std_bound with std="private": the error is then smaller.'
            )
        notes.append(
            "The column 'bias' is the largest bias that clipping can cause under the assumptions. The intervals "
            "include it."
        )
        if beyond:
            notes.append(
                f"At the edge of the box: {', '.join(beyond)}. The release is beyond the box, so the mean may be too. "
                "The interval is open on this side. Use a wider box."
            )
        if shrunk:
            notes.append(
                "Estimates are shrunk toward the middle of the box where noise dominates. Intervals are for the "
                "estimates before this."
            )
        return notes + [note[0].upper() + note[1:] + "." for note in plan.warnings()]


def locate(plan: AdaptiveMeanPlan, released: Released) -> Found:
    """Locate the mean, and return it with the plan at the radii of this release."""
    trail = plan.trail(released)
    estimates = trail.estimates
    last: Mapping[str, Numbers] = released[plan.last.name]
    unclip = False
    if plan.follows:
        # Under symmetric tails, use the variance of the clipped rows.
        unclip = plan.tails == "subgaussian"
        scales = [float(scale) for scale in trail.scales]
        resized = {SUMS: scales[-1], SQUARED_NORMS: scales[-1] ** 2}
        last = {name: values * resized.get(name, 1.0) for name, values in last.items()}
        public, plan = plan, plan.realized(scales)
    upper, wider = _spread(plan, last)
    variance = upper
    if unclip and not wider:
        # The variance of rows with normal tails, from the variance of the same rows clipped by the last stage.
        d, shift = plan.n_features, plan.shape.whiten(last[SUMS])
        noise2 = plan.staging.slopes[-1] ** 2 / plan.precisions[-1]
        about = max(float(shift @ shift) - d * noise2, 0.0) / d
        variance = float(unclipped(upper + about, plan.staging.radii[-1] ** 2, d)) - about
    if not wider:
        variance = min(variance, 1.0) if plan.private_std else 1.0
    if plan.follows:
        plan = public.realized(scales, variance)
    spread = math.sqrt(upper)
    sampling, noises = math.sqrt(plan.sampling_at(variance)), plan.weights / np.sqrt(plan.precisions)
    average = Located(
        plan.average(estimates), sampling, noises, plan.bias, variance, wider, refuted=False, spread=spread
    )
    screen = plan.screen
    if screen is None:
        return Found(plan, np.stack(estimates), average, average)
    count = float(last[OUTSIDE][0])
    # Assume the stated variance only, or the released one if it refutes the stated one.
    stated = upper if wider else 1.0
    found = _bound_last_stage(plan, last, estimates[-1], screen.share(count), stated, upper)
    refuted = count > screen.most(variance)
    safe = Located(estimates[-1], *found, variance, wider, refuted=refuted, spread=spread)
    return Found(plan, np.stack(estimates), replace(average, refuted=refuted), safe, count)


def _spread(plan: AdaptiveMeanPlan, last: Mapping[str, Numbers]) -> tuple[float, bool]:
    """Return an upper limit of the variance of the clipped rows, whitened, and whether they refute the stated one.

    From the squared norms of the last stage: in mean over the columns.
    """
    n, d, radius = plan.n_samples, plan.n_features, plan.staging.radii[-1]
    noise2 = plan.staging.slopes[-1] ** 2 / plan.precisions[-1]
    shift = plan.shape.whiten(last[SUMS])
    length2 = float(shift @ shift)
    square_noise = plan.last_noise_std(SQUARED_NORMS)
    variance, noise = released_variance(n, d, length2, float(last[SQUARED_NORMS][0]), noise2, square_noise)
    # Var ||clip x||^2 <= B^2 E||clip x||^2.
    sampling = radius * math.sqrt(max(d * variance + length2, 0.0) / n) / d
    refuted = variance - SURPRISE * math.hypot(noise, sampling) > 1
    if refuted and not plan.private_std:
        return variance, True
    return max(variance, 0.0) + _SPREAD_LIMIT * noise, refuted


def _bound_last_stage(
    plan: AdaptiveMeanPlan,
    last: Mapping[str, Numbers],
    estimate: Numbers,
    share: float,
    variance: float,
    clipped: float,
) -> tuple[Any, Numbers, Any]:
    """Return sampling error, noise and bias of the last stage's own estimate, if it clipped this fraction of the rows.

    ``variance`` bounds the variance of the rows. If the variance is private, ``clipped`` bounds it for clipped rows.
    """
    n, noise = plan.n_samples, plan.precisions[-1] ** -0.5
    shift = last[SUMS]
    columns = plan.shape.unwhiten(shift) / plan.stds
    found = last_stage(plan.shape.whiten(shift), columns, noise, share, plan.staging.radii[-1], n, variance)
    bias, square = np.full(plan.n_features, np.inf), np.full(plan.n_features, variance)
    if found is not None:
        bias, square = found.bias, variance + found.distance**2
    if plan.private_std:
        square = np.minimum(square, clipped)
    if plan.hard:
        # A row in the box is no further from its clipped point than from the center.
        center = estimate - plan.shape.unwhiten(shift) / plan.staging.slopes[-1]
        reach = (plan.half + np.abs(center - plan.middle)) / plan.stds
        bias = np.minimum(bias, share * reach)
    return np.sqrt(square / n), np.array([noise]), bias


def error_quantiles(plan: AdaptiveMeanPlan, located: Located, tail: Any, bias: Any) -> Numbers:
    """Return for each column what |error + bias| exceeds with probability 2 tail, whitened."""
    d, factor = plan.n_features, plan.shape.factor
    if plan.law == "gaussian":
        error = located.deviation()
        return np.broadcast_to(error * biased_normal_quantile(tail, bias / error), d)
    # Laplace: deviation w_t/sqrt(I_t) of stage t in every whitened column, which a covariance mixes.
    scales = located.noises / math.sqrt(2)
    if factor is None:
        mixed = [tuple(scales.tolist())] * d
    else:
        rows = np.abs(factor) / plan.stds[:, None]
        mixed = [tuple(np.multiply.outer(row[row > 0], scales).ravel().tolist()) for row in rows]
    sampling, tails, biases = (np.broadcast_to(part, d).tolist() for part in (located.sampling, tail, bias))
    # Columns are often alike: each law is inverted once.
    laws = list(zip(tails, sampling, mixed, biases, strict=True))
    found = {
        law: laplace_sum_quantile(law[0], law[1], np.array(law[2]), law[3]) if math.isfinite(law[3]) else math.inf
        for law in set(laws)
    }
    return np.array([found[law] for law in laws])


@dataclass(frozen=True, eq=False)
class AdaptiveErrors(BoxedErrors):
    """Errors of an adaptive mean, about the unshrunk estimate and cut to the box."""

    plan: AdaptiveMeanPlan
    located: Located
    mean: Numbers  # (d,): the reported estimate, which every interval holds

    @property
    def start(self) -> Numbers:
        return self.located.estimate

    @property
    def largest_bias(self) -> Numbers:
        return np.broadcast_to(self.located.bias, (self.plan.n_features,)) * self.plan.stds

    def reaches(self, tail: Tail) -> Numbers:
        errors = error_quantiles(self.plan, self.located, tail, 0.0)
        return np.asarray(self.plan.stds * (errors + self.located.bias))

    def half_widths(self, tail: Tail) -> Numbers:
        return self.plan.stds * error_quantiles(self.plan, self.located, tail, self.located.bias)
