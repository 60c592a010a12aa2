from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import chdtri, ndtri

from dpstats.error_distributions import ErrorDistribution, Limits, Tail
from dpstats.intervals import half_widths
from dpstats.lattice import CrossLattice
from dpstats.means.population import population_bias_in_ball, population_ends
from dpstats.means.sparse.bias import Numbers, cross_bias
from dpstats.means.sparse.plan import SQUARES, Report, SparseMeanPlan

# Parts of the error probability for the distance of the mean from the center, and for the standard deviations of the
# columns if they are released. The rest is for the mean.
_FOR_PLACE, _FOR_SPREAD = 0.05, 0.05
_EDGE = 1.0  # this close to the surface, nearly every row was clipped


class LastAnswer(NamedTuple):
    """The last stage, in standard deviations: its answer about its center, and the noise of it."""

    shift: Numbers  # shape (k,)
    noise: float  # standard deviation, or scale of Laplace noise
    radius: float  # radius of the ball that rows are clipped to
    n: int  # number of rows


def last_stage(plan: SparseMeanPlan, report: Report) -> LastAnswer:
    """Return the last stage of a release in balls, in standard deviations."""
    unit, ball = _unit(plan), plan.balls[-1]
    noise = float(plan.noise(plan.means[-1]).scale) / unit
    return LastAnswer(report.shift / unit, noise, ball.radius * ball.spacing / unit, plan.n_release)


def _unit(plan: SparseMeanPlan) -> float:
    """Return a standard deviation in the units of the release: rows may have been divided by it."""
    return plan.std if isinstance(plan.std, float) else 1.0


@dataclass(frozen=True, eq=False)
class SelectedErrors(ErrorDistribution):
    """Errors of the selected columns' means, about the last stage's answer, in the units of the data.

    Only the standard deviations of the rows are known, and they bound the bias of clipping. Limits are infinite if
    clipping may have removed everything. Limits for the mean of clipped rows have no such bias. Limits are valid given
    the selection, if the rows are exchangeable: the second half is not used in it.
    """

    plan: SparseMeanPlan
    report: Report
    population: bool

    @property
    def start(self) -> Numbers:
        return self.report.last

    def limits(self, tail: Tail) -> Limits:
        plan, report = self.plan, self.report
        tails = np.broadcast_to(np.asarray(tail, dtype=np.float64), report.support.shape)
        unit = np.broadcast_to(plan.std, (plan.n_features,))[report.support]
        half = np.empty(unit.shape)
        for value in np.unique(tails):
            half[tails == value] = _half_widths(plan, report, float(value), self.population)[tails == value]
        low, high = report.last - unit * half, report.last + unit * half
        if plan.balls or not self.population:
            return low, high
        lattice = plan.lattice
        assert lattice is not None
        clip = np.broadcast_to(np.asarray(lattice.spacing * lattice.bound), (plan.n_features,))[
            report.support
        ]
        return population_ends(low, high, unit, -clip, clip)


def plan_noise(plan: SparseMeanPlan, report: Report) -> Numbers:
    """Return the standard deviation of the noise of the last stage, in the units of the data."""
    unit = 1.0 if plan.scales is None else plan.scales[report.support]
    result: Numbers = np.broadcast_to(float(plan.noise(plan.means[-1]).std) * unit, report.support.shape)
    return result


def _half_widths(plan: SparseMeanPlan, report: Report, tail: float, population: bool) -> Numbers:
    """Return the distance of the limits from the last stage's answer, in standard deviations."""
    if not plan.balls:
        # Entries clipped one by one: no column spreads further.
        unit = np.broadcast_to(plan.std, (plan.n_features,))[report.support]
        scale = plan.noise_scale / unit
        return half_widths(tail, np.full(unit.size, plan.n_release**-0.5), plan.law, scale)
    last = last_stage(plan, report)
    if isinstance(plan.balls[-1], CrossLattice):
        return _cross_half_widths(last, tail, population)
    left = tail * (1 - _FOR_PLACE - (_FOR_SPREAD if plan.private_spread else 0.0))
    mean = np.zeros_like(last.shift)
    for _ in range(3):
        # Clipped entries lie between their own value and the center: their variance is at most 1 + mean^2.
        sampling = np.hypot(1.0, mean) / math.sqrt(last.n)
        bias, offsets = _ball(last, sampling, tail)
        mean = np.where(np.isfinite(bias), offsets + bias, last.radius)
    if plan.private_spread:
        sampling = np.minimum(sampling, _upper_std(plan, report, tail) / math.sqrt(last.n))
    result: Numbers = float(-ndtri(left)) * np.hypot(sampling, last.noise)
    return result + bias if population else result


def private_stds(plan: SparseMeanPlan, report: Report) -> Numbers:
    """Return the released standard deviations of the selected columns as clipped, in the units of the data."""
    unit = np.broadcast_to(plan.std, (plan.n_features,))[report.support]
    result: Numbers = unit * np.sqrt(np.maximum(_variances(plan, report)[0], 0.0))
    return result


def _variances(plan: SparseMeanPlan, report: Report) -> tuple[Numbers, Numbers]:
    """Return the released variances of the selected columns as clipped, and the standard deviations of their noise."""
    assert report.squares is not None
    last, unit = last_stage(plan, report), _unit(plan)
    shift = last.shift[report.kept]
    variance = report.squares[report.kept] / unit**2 - shift**2 + last.noise**2
    return variance, np.hypot(float(plan.noise(SQUARES).std) / unit**2, 2 * np.abs(shift) * last.noise)


def beyond(plan: SparseMeanPlan, report: Report) -> bool:
    """Check whether the release lies at the edge of its range: some mean is larger than the plan allows for.

    Rows that the plan allows for have a mean at least two standard deviations inside (sqrt(s) of them in l1). If
    nearly all rows are clipped on one side, the mean is on the surface.
    """
    if not plan.balls:
        lattice = plan.lattice
        assert lattice is not None
        clip = np.broadcast_to(lattice.spacing * lattice.bound, (plan.n_features,))[report.support]
        return bool(np.any(np.abs(report.last) - 5 * plan.noise_scale > 0.95 * clip))
    last = last_stage(plan, report)
    s = last.shift.size
    if isinstance(plan.balls[-1], CrossLattice):
        size, room = float(np.abs(last.shift).sum()), math.sqrt(s)
        margin = last.noise * (s + 5 * math.sqrt(s))
    else:
        size, room = float(np.linalg.norm(last.shift)), _EDGE
        margin = last.noise * math.sqrt(chdtri(s, 1e-3))
    return size - margin > last.radius - room


def _ball(last: LastAnswer, sampling: Numbers, tail: float) -> tuple[Numbers, Numbers]:
    """Return bounds on the bias of every column, and upper limits of its clipped mean's distance from the center."""
    s, each = last.shift.size, tail * _FOR_PLACE / 2
    offsets = np.abs(last.shift) - ndtri(each / 2) * np.hypot(sampling, last.noise)
    # Sampling errors of columns may be one and the same; noises are independent.
    distance = float(np.linalg.norm(last.shift)) + last.noise * math.sqrt(chdtri(s, each / 2))
    distance -= float(ndtri(each / 4)) * float(np.linalg.norm(sampling))
    return population_bias_in_ball(distance, offsets, np.ones(s), last.radius), offsets


def _upper_std(plan: SparseMeanPlan, report: Report, tail: float) -> Numbers:
    """Return upper limits of the standard deviations of the selected columns as clipped."""
    variance, noise = _variances(plan, report)
    z = float(-ndtri(tail * _FOR_SPREAD))
    largest = np.maximum(variance + z * noise, 0.0)
    # v <= largest + z sqrt((2R)^2 v/n), solved for v: squares are at most (2R)^2.
    slope = (2 * z * last_stage(plan, report).radius) ** 2 / plan.n_release
    result: Numbers = np.sqrt(largest + slope / 2 + np.sqrt(slope * (largest + slope / 4)))
    return result


def _cross_half_widths(last: LastAnswer, tail: float, population: bool) -> Numbers:
    s, scale = last.shift.size, np.full(last.shift.size, last.noise)
    mean = np.zeros(s)
    for _ in range(3):
        sampling = np.hypot(1.0, mean) / math.sqrt(last.n)
        offsets = np.abs(last.shift) + half_widths(tail * _FOR_PLACE / s / 2, sampling, "laplace", scale)
        bias = cross_bias(last.radius, offsets)
        mean = np.where(np.isfinite(bias), offsets + bias, last.radius)
    result = half_widths(tail * (1 - _FOR_PLACE), sampling, "laplace", scale)
    return result + bias if population else result
