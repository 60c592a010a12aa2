from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpstats.error_distributions import Tail
from dpstats.means.adaptive_plan import ASSUMPTIONS, OUTSIDE, SQUARED_NORMS, SUMS, AdaptiveMeanPlan, Numbers
from dpstats.means.bias_aware import biased_normal_quantile
from dpstats.means.box_mean import mean_in_box
from dpstats.means.boxed_errors import BoxedErrors
from dpstats.means.following import released_variance, unclipped
from dpstats.means.laplace_sums import laplace_sum_quantile
from dpstats.means.screen import last_stage
from dpstats.release.session import Released

# Number of standard deviations by which the released variance must exceed the stated one, and the number for its upper
# limit.
_SURPRISE, _SPREAD_LIMIT = 2.6, 2.0
_MUCH_SHORTER = 0.8  # intervals that assume tails are worth naming from there on
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
        unnoticed = (
            f"fewer than {rows:,} clipped rows would not be noticed, and could move it by up to {shift:.2g}"
        )
        return {**safe, "tails": f"{mean}{plan.assumption}; {unnoticed} stated sd"}

    def errors(self, estimand: str, mean: Numbers) -> AdaptiveErrors:
        """Return the distribution of the errors for an estimand; intervals contain the reported ``mean``."""
        return AdaptiveErrors(self.plan, self.safe if estimand == "population" else self.average, mean)

    def notes(
        self,
        estimand: str,
        shorter: float,  # width of the intervals that assume tails over that of the others; 1 without these
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
            if shorter < _MUCH_SHORTER:
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
    refuted = variance - _SURPRISE * math.hypot(noise, sampling) > 1
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
        law: laplace_sum_quantile(law[0], law[1], np.array(law[2]), law[3])
        if math.isfinite(law[3])
        else math.inf
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
