"""Where the mean is, for all that an adaptive mean released: an estimate, and what bounds its error.

Proof: docs/proofs/adaptive-mean.md, "What the intervals cover" and after it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.inference import ErrorDistribution, Limits, Tail, least_tail
from dpstats.means.adaptive_plan import OUTSIDE, SQUARED_NORMS, SUMS, AdaptiveMeanPlan
from dpstats.means.bias_aware import biased_normal_quantile
from dpstats.means.box_mean import outside_box, within_box
from dpstats.means.laplace_sums import laplace_sum_quantile
from dpstats.means.screen import last_stage
from dpstats.release.session import Released

Numbers = NDArray[np.float64]

# Deviations that a released spread must exceed the stated one by, and those of its upper limit.
_SURPRISE, _SPREAD_LIMIT = 2.6, 2.0


@dataclass(frozen=True)
class Located:
    """An estimate, and what bounds its error, whitened.

    Attributes
    ----------
    estimate : array of shape (d,)
        In the units of the data.
    sampling : float or array of shape (d,)
        Standard deviation of its sampling error.
    noises : array of shape (m,)
        Standard deviations of the parts of its noise.
    bias : float or array of shape (d,)
        Bound on its bias; infinite where there is none.
    variance : float
        Of the rows: what sampling error is judged from.
    wider : bool
        Whether that is the released one, since it refutes the stated one.
    refuted : bool
        Whether more rows were clipped than the assumption about tails allows.
    """

    estimate: Numbers
    sampling: Any
    noises: Numbers
    bias: Any
    variance: float
    wider: bool
    refuted: bool

    def deviation(self) -> Any:
        """Return the standard deviation of its error."""
        return np.sqrt(np.square(self.sampling) + np.sum(self.noises**2))


def locate(plan: AdaptiveMeanPlan, released: Released, estimates: Sequence[Numbers]) -> Located:
    """Return where the mean is, by the average of the stages, or by the last alone where it refutes the tails."""
    last: Mapping[str, Numbers] = released[plan.last.name]
    variance, wider = _spread(plan, last)
    screen, count = plan.screen, float(last[OUTSIDE][0]) if OUTSIDE in last else 0.0
    if screen is not None and count > screen.most(variance):
        # The stated spread is what is left to assume, or the released one if that refutes it.
        found = _from_last_stage(plan, last, screen.share(count), variance if wider else 1.0)
        return Located(estimates[-1], *found, variance, wider, refuted=True)
    sampling, noises = math.sqrt(plan.sampling_at(variance)), plan.weights / np.sqrt(plan.precisions)
    return Located(plan.average(estimates), sampling, noises, plan.bias, variance, wider, refuted=False)


def _spread(plan: AdaptiveMeanPlan, last: Mapping[str, Numbers]) -> tuple[float, bool]:
    """Return an upper limit of the variance of the rows, common to the columns and whitened, and whether it refutes 1.

    From the squared norms of the last stage: the variance of the rows as that stage clips them. It is 1 where the
    spread is public, unless it is refuted.
    """
    n, d, radius = plan.n_samples, plan.n_features, plan.staging.radii[-1]
    noise2 = plan.staging.slopes[-1] ** 2 / plan.precisions[-1]
    shift = plan.shape.whiten(last[SUMS])
    length2 = float(shift @ shift)
    # ||y||^2 counts the noise of y and, once more, a part in n of the variance.
    variance = (float(last[SQUARED_NORMS][0]) - length2 + d * noise2) * n / (n - 1) / d
    noise = (
        math.hypot(float(plan.noise(SQUARED_NORMS).std), math.sqrt(4 * length2 * noise2 + 2 * d * noise2**2))
        / d
    )
    # Var ||clip x||^2 <= B^2 E||clip x||^2.
    sampling = radius * math.sqrt(max(d * variance + length2, 0.0) / n) / d
    refuted = variance - _SURPRISE * math.hypot(noise, sampling) > 1
    if not plan.private_std:
        return (variance if refuted else 1.0), refuted
    upper = max(variance, 0.0) + _SPREAD_LIMIT * noise
    return (upper if refuted else min(upper, 1.0)), refuted


def _from_last_stage(
    plan: AdaptiveMeanPlan, last: Mapping[str, Numbers], share: float, variance: float
) -> tuple[Any, Numbers, Any]:
    """Return sampling error, noise and bias of the last stage's own estimate, if it clipped a share of the rows."""
    n, noise = plan.n_samples, plan.precisions[-1] ** -0.5
    shift = last[SUMS]
    columns = plan.shape.unwhiten(shift) / plan.stds
    found = last_stage(plan.shape.whiten(shift), columns, noise, share, plan.staging.radii[-1], n, variance)
    if found is None:
        return math.sqrt(variance / n), np.array([noise]), np.full(plan.n_features, np.inf)
    return np.sqrt((variance + found.distance**2) / n), np.array([noise]), found.bias


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
    found = {law: _laplace_quantile(*law) for law in set(laws)}
    return np.array([found[law] for law in laws])


def _laplace_quantile(tail: float, sampling: float, scales: tuple[float, ...], bias: float) -> float:
    return laplace_sum_quantile(tail, sampling, np.array(scales), bias) if math.isfinite(bias) else math.inf


@dataclass(frozen=True, eq=False)
class AdaptiveErrors(ErrorDistribution):
    """Errors of an adaptive mean, about the unshrunk estimate and cut to the box.

    Attributes
    ----------
    plan : AdaptiveMeanPlan
    located : Located
    mean : array of shape (d,)
        The reported estimate, which every interval holds.
    """

    plan: AdaptiveMeanPlan
    located: Located
    mean: Numbers

    @property
    def start(self) -> Numbers:
        return self.located.estimate

    @property
    def box(self) -> Limits:
        # Without the ends that the mean may be beyond.
        low, high = self.plan.box
        below, above = self.beyond(0.025)
        return np.where(below, -np.inf, low), np.where(above, np.inf, high)

    def beyond(self, tail: float) -> Any:
        """Return for which columns the interval is open below, and for which above."""
        if self.plan.hard:
            return np.zeros((2, self.plan.n_features), dtype=bool)
        return outside_box(self.located.estimate, self._half_widths(tail), *self.plan.box)

    def limits(self, tail: Tail) -> Limits:
        # The whole bias may be on the side of a limit.
        errors = error_quantiles(self.plan, self.located, tail, 0.0)
        return self._around(self.plan.stds * (errors + self.located.bias))

    def interval(self, tail: Tail) -> Limits:
        return self._around(self._half_widths(tail))

    def two_sided(self, value: Numbers) -> Numbers:
        # The interval is nearer than both limits: it is inverted itself.
        def excluded(tail: Numbers) -> NDArray[np.bool_]:
            low, high = self.interval(tail)
            return (value < low) | (value > high)

        tail = least_tail(excluded, value.shape)
        return np.where(np.isnan(tail), 1.0, 2 * tail)

    def _half_widths(self, tail: Tail) -> Numbers:
        """Return half-widths of two-sided intervals, which the bias shifts to one side only."""
        return self.plan.stds * error_quantiles(self.plan, self.located, tail, self.located.bias)

    def _around(self, half: Numbers) -> Limits:
        plan = self.plan
        return within_box(self.located.estimate, half, self.mean, *plan.box, hard=plan.hard)
