"""Where the mean is, for all that an adaptive mean released: an estimate, and what bounds its error.

Proof: docs/proofs/adaptive-mean.md, "What the intervals cover" and after it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.means.adaptive_plan import OUTSIDE, SQUARED_NORMS, SUMS, AdaptiveMeanPlan, Trail
from dpstats.means.bias_aware import biased_normal_quantile
from dpstats.means.following import released_variance, unclipped
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


def locate(plan: AdaptiveMeanPlan, released: Released, trail: Trail) -> tuple[AdaptiveMeanPlan, Located]:
    """Return where the mean is, and the plan with the radii of this release.

    It is the average of the stages, or the estimate of the last alone where that refutes the tails.
    """
    estimates = trail.estimates
    last: Mapping[str, Numbers] = released[plan.last.name]
    if plan.follows:
        # Where the tails are those of symmetric rows, the spread is that of the clipped rows.
        unclip = plan.tails == "subgaussian"
        scales = [float(scale) for scale in trail.scales]
        resized = {SUMS: scales[-1], SQUARED_NORMS: scales[-1] ** 2}
        last = {name: values * resized.get(name, 1.0) for name, values in last.items()}
        variance, wider = _spread(plan.realized(scales), last, unclip=unclip)
        plan = plan.realized(scales, variance)
    else:
        variance, wider = _spread(plan, last)
    screen, count = plan.screen, float(last[OUTSIDE][0]) if OUTSIDE in last else 0.0
    if screen is not None and count > screen.most(variance):
        # The stated spread is what is left to assume, or the released one if that refutes it.
        found = _from_last_stage(plan, last, screen.share(count), variance if wider else 1.0)
        return plan, Located(estimates[-1], *found, variance, wider, refuted=True)
    sampling, noises = math.sqrt(plan.sampling_at(variance)), plan.weights / np.sqrt(plan.precisions)
    return plan, Located(plan.average(estimates), sampling, noises, plan.bias, variance, wider, refuted=False)


def _spread(
    plan: AdaptiveMeanPlan, last: Mapping[str, Numbers], *, unclip: bool = False
) -> tuple[float, bool]:
    """Return an upper limit of the variance of the rows, common to the columns and whitened, and whether it refutes 1.

    From the squared norms of the last stage: the variance of the rows as that stage clips them, or with ``unclip``
    that of rows with normal tails that are clipped so. It is 1 where the spread is public, unless it is refuted.
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
    if not plan.private_std:
        return (variance if refuted else 1.0), refuted
    upper = max(variance, 0.0) + _SPREAD_LIMIT * noise
    if refuted:
        return upper, True
    if unclip:
        about = max(length2 - d * noise2, 0.0) / d
        upper = float(unclipped(upper + about, radius**2, d)) - about
    return min(upper, 1.0), False


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
