"""The selection of a sparse mean, one-shot Gumbel or peeling (algorithm 9.2.2), and the release of its columns.

Lengths are in units of a column's standard deviation, unless said otherwise. Proof: docs/proofs/sparse-mean.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from scipy.special import chdtri, ndtri

from dpstats.data.parameters import check_columns, check_real
from dpstats.data.rows import as_float64
from dpstats.errors import NotPrivate, refuse
from dpstats.inference.error_distributions import ErrorDistribution, Limits, Tail, half_widths
from dpstats.lattice import BallLattice, BoxLattice, CrossLattice
from dpstats.lattice.rounding import all_finite
from dpstats.means.moments import population_bias_in_ball, population_ends, sum_integers
from dpstats.means.sparse_design import (
    LAWS,
    Design,
    Problem,
    plan_balls,
    plan_cross_radius,
    planned_design,
    released,
    weakest,
)
from dpstats.privacy.guarantee import PrivacyGuarantee, quotient_up
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import Block, JointStage, Selection, Stage
from dpstats.privacy.totals import pure_delta
from dpstats.release.additive import Integers, JointIntegers, additive_stages, concentrated_stage
from dpstats.release.noise import check_scale
from dpstats.release.session import Released, Session

if TYPE_CHECKING:
    from dpstats.data.parameters import Columns

Numbers = NDArray[np.float64]

SUPPORT = "support"
"""The name of the selection in a plan, and of its release."""

LAST = "last stage"
"""The name of a stage that releases a mean, and with it squares."""

SQUARES = "mean squares about the center"


@dataclass(frozen=True)
class Setting:
    """The public facts that every kind of selection plans from, checked."""

    n_select: int
    n_release: int
    n_features: int
    n_nonzero: int
    std: Columns
    max_signal: float
    target: PrivacyGuarantee
    split: bool
    private_spread: bool


class Parts(NamedTuple):
    """The plan of a kind of selection: the scores' lattice, the selection, and the release of its columns.

    With ``balls``, rows are clipped on the support, one ball for each stage. Without, each column is released from the
    scores' lattice. Without a selection every column is released, and ``weakest`` has the signals that are found.
    """

    lattice: BoxLattice | None
    selection: Selection | None
    balls: tuple[BallLattice, ...]
    stages: tuple[Stage | JointStage, ...]
    weakest: Mapping[str, float] | None = None


@dataclass
class RunningMean:
    """The average of the stages so far: the center of the next stage, which releases a shift from it."""

    value: NDArray[np.float64]
    precision: float = 0.0

    def include(self, noise_std: float, shift: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the answer of a stage with this noise, and average it with those before."""
        answer = self.value + shift
        weight = noise_std**-2
        self.value = (self.precision * self.value + weight * answer) / (self.precision + weight)
        self.precision += weight
        return answer


class Report(NamedTuple):
    """The release for the selected columns, in the units of the data except for ``shift`` and ``squares``."""

    support: NDArray[np.intp]  # (n_nonzero,): positions of the columns
    mean: NDArray[np.float64]  # (n_nonzero,): the average of the stages' answers
    last: NDArray[np.float64]  # (n_nonzero,): the answer of the last stage
    # Shape (k,). The same of all columns that were released, about the center of that stage; in standard
    # deviations where rows are standardized.
    shift: NDArray[np.float64]
    # Shape (k,). Mean squares of these columns about that center, if the standard deviation is private.
    squares: NDArray[np.float64] | None
    kept: NDArray[np.intp]  # (n_nonzero,): the places of the selected columns among those that were released


@dataclass(frozen=True)
class SparseMeanPlan(ReleasePlan):
    """The plan of a `SparseMean`, with the public facts that the fit and its report use."""

    lattice: BoxLattice | None = field(repr=False, compare=False)
    balls: tuple[BallLattice, ...] = field(repr=False, compare=False)
    n_nonzero: int
    # How many rows the estimate is from: all of them, or the second half.
    n_release: int
    # The public bound: ``std``, or ``std_bound`` if the standard deviation is private.
    std: float | tuple[float, ...]
    private_spread: bool
    max_signal: float
    # Mean over standard deviation from which at least 95 in 100 normal columns are selected.
    selection_threshold: float
    # The same of any columns whose standard deviation is at most ``std``, however skewed; infinity where
    # clipping could hide every mean.
    selection_threshold_any: float
    missing: str

    @property
    def everything(self) -> bool:
        """Whether every column is released, and the largest are kept: no selection is paid for."""
        return not self.selections

    @property
    def means(self) -> tuple[str, ...]:
        """The names under which means are released, stage after stage."""
        return tuple(
            stage.blocks[0].name if isinstance(stage, JointStage) else stage.name
            for stage in self.stages
            if not isinstance(stage, Selection)
        )

    @property
    def noise_stds(self) -> tuple[float, ...]:
        """Standard deviation of the noise of every stage's mean, in the units of `noise_scale`."""
        return tuple(float(self.noise(name).std) for name in self.means)

    @property
    def law(self) -> str:
        """The distribution of the noise of the means."""
        return self.noise(self.means[0]).law

    @property
    def weights(self) -> NDArray[np.float64]:
        """The weight of each stage in the estimate: proportional to its inverse variance."""
        precision = np.array(self.noise_stds) ** -2
        result: NDArray[np.float64] = precision / precision.sum()
        return result

    @property
    def noise_scale(self) -> float:
        """Standard deviation (Gaussian) or scale (Laplace) of the noise of a selected column.

        In the units of the data; where ``std`` is an array and rows are standardized, in standard deviations.
        """
        return float(sum(float(self.noise(name).scale) ** -2 for name in self.means) ** -0.5)

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise of a selected column."""
        return self.noise_scale * (math.sqrt(2) if self.law == "laplace" else 1.0)

    @property
    def scales(self) -> NDArray[np.float64] | None:
        """The divisors of standardized rows: the standard deviations, if these are an array."""
        return np.asarray(self.std) if isinstance(self.std, tuple) and self.balls else None

    def report(self, released: Released) -> Report:
        """Return the release, with the selected columns in order."""
        shifts = [item[name] for name, item in zip(self.means, self._mean_releases(released), strict=True)]
        chosen = np.arange(self.n_features) if self.everything else np.sort(released[SUPPORT])
        if self.balls:
            average = RunningMean(np.zeros(np.shape(shifts[0])))
            unit = 1.0 if self.scales is None else self.scales[chosen]
            answers = [
                average.include(noise, shift) * unit for noise, shift in zip(self.noise_stds, shifts, strict=True)
            ]
        else:
            answers = shifts
        means = np.asarray(self.weights @ np.array(answers))
        kept = np.arange(chosen.size)
        if self.everything:
            size = np.abs(means) / np.asarray(self.std)
            kept = np.sort(np.argsort(-size, kind="stable")[: self.n_nonzero])
        squares = released[LAST][SQUARES] if self.private_spread else None
        return Report(chosen[kept], means[kept], answers[-1][kept], shifts[-1], squares, kept)

    def _mean_releases(self, released: Released) -> list[Mapping[str, NDArray[np.float64]]]:
        """Return the release of every stage, by the names of its parts."""
        found = [released[stage.name] for stage in self.stages if not isinstance(stage, Selection)]
        return [
            item if isinstance(item, Mapping) else {name: item} for name, item in zip(self.means, found, strict=True)
        ]

    @property
    def finds_signals(self) -> bool:
        """Whether a signal of ``max_signal`` is nearly surely selected."""
        return self.selection_threshold <= self.max_signal

    def expected_error(self, std: float | NDArray[np.float64] | None = None) -> float:
        """Return the expected squared l2 error where the right columns are selected and no row is clipped.

        Sampling error and noise of ``n_nonzero`` columns; of those with the largest ``std`` where it is an array.
        """
        spread = self.std if std is None else check_columns("std", std, self.n_features, at_least=0)
        largest = np.sort(np.broadcast_to(spread, (self.n_features,)))[-self.n_nonzero :]
        unit = 1.0 if self.scales is None else np.sort(self.scales)[-self.n_nonzero :]
        return float(np.sum(largest**2 / self.n_release + (self.noise_std * unit) ** 2 * np.ones(largest.size)))

    def notes(self) -> list[str]:
        """Describe the signals that are found, for normal and for any columns."""
        normal, worst = self.selection_threshold, self.selection_threshold_any
        if self.n_nonzero == self.n_features:
            words = "every column is kept"
        else:
            words = f"signals above about {normal:.2g} std are found in normal columns"
            words += "; in skewed ones none surely" if worst > self.max_signal else f", above {worst:.2g} in any"
        return [words, *[f"warning: {self.warning()}"] * (not self.finds_signals)]

    def selection_words(self) -> str:
        """Describe the selection of the columns."""
        if self.everything:
            return f"{self.n_nonzero} columns, the largest of all means released"
        return f"{self.n_nonzero} columns, {self.selections[0].noise} noise"

    def found_if_above(self) -> list[tuple[str, str]]:
        """Return the facts of a summary about the signals that are found."""
        normal, worst = f"{self.selection_threshold:.2g} std", f"{self.selection_threshold_any:.2g} std"
        if self.selection_threshold_any > self.max_signal:
            worst = f"no mean of up to {self.max_signal:g} std surely"
        return [("Found if above", f"{normal}, about, in normal columns"), ("  in skewed columns", worst)]

    def warning(self) -> str:
        """Return why the selection may find nothing."""
        return (
            f"no signal of up to max_signal = {self.max_signal:g} std is sure to be found (needed: about "
            f"{self.selection_threshold:.2g}); the selection may be mostly noise"
        )


def gumbel_parts(setting: Setting, bits: int, *, clip: Any, selection_clip: Any, selection_share: Any) -> Parts:
    """Plan one-shot Gumbel selection, and the release of rows clipped on the support.

    If few columns would be left out, all are released instead, and the selection uses the released means.
    """
    std, target = setting.std, setting.target
    clip = check_real("clip", clip, above=0)
    problem = Problem(
        setting.n_select,
        setting.n_release,
        setting.n_features,
        setting.n_nonzero,
        setting.max_signal,
        target.epsilon,
        target.delta,
        setting.split,
        clip / float(np.min(std)),
        None if selection_share is None else check_real("selection_share", selection_share, above=0, below=1),
        None if selection_clip is None else check_real("selection_clip", selection_clip, above=0),
    )
    design = planned_design(problem)
    unit = std if isinstance(std, float) else 1.0
    balls, stages = (_pure if target.delta == 0 else _plan_gaussian)(setting, problem, design, unit, bits)
    if design.share is None:
        return Parts(None, None, balls, stages, {law: weakest(problem, design, law) for law in LAWS})
    bounds = np.minimum(clip, design.clip * np.asarray(std))
    lattice = BoxLattice.build(
        float(bounds) if isinstance(std, float) else bounds, 0.0, problem.n_features, common=False, bits=bits
    )
    sensitivity = lattice.columns(slice(1)).sensitivity("l1")
    scale = quotient_up(2 * sensitivity, design.each)
    spacing = float(np.max(bounds / std)) * unit * 2.0**-bits / setting.n_select
    selection = Selection(
        SUPPORT, "gumbel", setting.n_nonzero, spacing, sensitivity, scale, candidates=problem.n_features
    )
    return Parts(lattice, selection, balls, stages)


_Release = tuple[tuple[BallLattice, ...], tuple[Stage | JointStage, ...]]


def _pure(setting: Setting, problem: Problem, design: Design, unit: float, bits: int) -> _Release:
    """Return Laplace noise in one cross about 0."""
    if setting.private_spread:
        # Only under Gaussian noise do squares add no cost to sums.
        raise refuse("delta", given=0.0, allowed="greater than 0 with std='private'")
    ball = CrossLattice.build(plan_cross_radius(problem, design) * unit, 0.0, released(problem, design), bits=bits)
    sums = sum_integers(_name(design), ball, ball.spacing / problem.n_release)
    return (ball,), additive_stages([sums], design.rest, 0.0)


def _plan_gaussian(setting: Setting, problem: Problem, design: Design, unit: float, bits: int) -> _Release:
    """Return Gaussian noise in up to three balls."""
    n, size, planned = problem.n_release, released(problem, design), plan_balls(problem, design)
    balls = tuple(BallLattice.build(radius * unit, 0.0, size, bits=bits) for radius in planned.radii)
    *first, last = [
        sum_integers(f"{_name(design)}, stage {t}", ball, ball.spacing / n, part)
        for t, (ball, part) in enumerate(zip(balls, planned.shares, strict=True), 1)
    ]
    integers = [*first, _add_squares(last, balls[-1], n) if setting.private_spread else last]
    if problem.split or design.share is None:
        return balls, additive_stages(integers, problem.epsilon, problem.delta)
    return balls, tuple(concentrated_stage(item, design.rest) for item in integers)


def _add_squares(sums: Integers, ball: BallLattice, n: int) -> JointIntegers:
    """Return the sums of a stage with the squares of every column, which add no privacy cost."""
    weight = ball.free_squares("l2")
    assert weight is not None
    moved = ball.joint_sensitivity("l2", (1.0, weight))
    squares = Block(SQUARES, ball.n_features, float(np.asarray(ball.square_spacing)) / n, 1 / weight)
    # In l1 they are not free: only Gaussian noise has such a stage.
    return JointIntegers(LAST, (Block(sums.name, sums.size, sums.spacing, 1.0), squares), math.inf, moved, sums.share)


def _name(design: Design) -> str:
    return "mean" if design.share is None else "mean on the support"


# Reserve of epsilon, so that the calibrated noise is certified with rounding up, also together with other releases.
_CERTIFIED = 1 - 2e-5


def peeling_parts(setting: Setting, bits: int, *, clip: Any, calibration: str) -> Parts:
    """Plan the Laplace noisy maximum, column by column, and the means with Laplace noise."""
    clip = check_real("clip", clip, above=0)
    if setting.private_spread:
        # Only the release of the Gumbel selection has the squares.
        raise refuse("selection", given="peeling", allowed="'gumbel' with std='private'")
    s, epsilon, delta = setting.n_nonzero, setting.target.epsilon, setting.target.delta
    lattice = BoxLattice.build(clip, 0.0, setting.n_features, common=False, bits=bits)
    if calibration == "exact":
        costs = [(s, 0), (0, s)] if setting.split else [(s, s), (s, s)]
        selecting, releasing = (peeling_cost(*counts, epsilon, delta) for counts in costs)
    elif delta == 0 or setting.split:
        raise refuse("calibration", given=calibration, allowed="'exact' unless delta > 0 and split=False")
    else:
        selecting = releasing = textbook_peeling_cost(s, epsilon, delta)
    sensitivity = lattice.columns(slice(1)).sensitivity("l1")
    scale = quotient_up(sensitivity, selecting)
    spacing = clip * 2.0**-bits
    selection = Selection(
        SUPPORT, "laplace", s, spacing / setting.n_select, sensitivity, scale, candidates=setting.n_features, times=s
    )
    scale = check_scale(quotient_up(sensitivity, releasing))
    name = "mean of each selected column"
    step = spacing / setting.n_release
    stage = Stage(name, "laplace", s, step, sensitivity, scale, times=s)
    return Parts(lattice, selection, (), (stage,))


def peeling_delta(selections: int, releases: int, cost: float, epsilon: float) -> float:
    """Return the exact total delta of selections that are ``2 cost`` private and releases that are ``cost``.

    Pure releases of two costs: `dpstats.privacy.totals.pure_delta`.

    Examples
    --------
    >>> from dpstats.means.sparse_selection import peeling_delta
    >>> print(f"{peeling_delta(10, 10, 1 / 24.02, 1.0):.3e}")  # noise of 24.02 sensitivities
    1.002e-05
    """
    total = pure_delta(Counter({2 * cost: selections, cost: releases}))
    return 1.0 if total is None else total(epsilon)


@lru_cache(maxsize=64)
def peeling_cost(selections: int, releases: int, epsilon: float, delta: float) -> float:
    """Return the largest cost, of one release, at which peeling is (epsilon, delta)-private."""
    basic = epsilon / (2 * selections + releases)
    low = basic * (1 - 2.0**-50)
    if delta == 0:
        return low
    target = epsilon * _CERTIFIED
    high = 2 * low
    while peeling_delta(selections, releases, high, target) <= delta:
        low, high = high, 2 * high
    while high / low - 1 > 1e-10:
        middle = (low + high) / 2
        inside = peeling_delta(selections, releases, middle, target) <= delta * (1 - 1e-9)
        low, high = (middle, high) if inside else (low, middle)
    return low


def textbook_peeling_cost(n_nonzero: int, epsilon: float, delta: float) -> float:
    """Return the cost of one release in algorithm 9.2.2 as printed, or raise `NotPrivate`."""
    cost = epsilon / (2 * math.sqrt(3 * n_nonzero * math.log(1 / delta)))
    actual = peeling_delta(n_nonzero, n_nonzero, cost, epsilon * _CERTIFIED)
    if actual > delta:
        raise NotPrivate(
            f"calibration='textbook' is not private at epsilon = {epsilon:g}, delta = {delta:g}, n_nonzero = "
            f"{n_nonzero}: the printed noise of algorithm 9.2.2 has an actual delta of {actual:.3g}, "
            f"{actual / delta:.3g} times the one claimed (docs/errata.md); use calibration='exact'"
        )
    return cost


class Halves(NamedTuple):
    """Private: the sizes of the clipped sums for the selection, and the input of the stages.

    With balls the input is the rows of the other half (without ``split``: all rows). Otherwise it is their sums.
    """

    scores: NDArray[np.int64]
    rest: Any


def release_on_support(private: Halves, plan: SparseMeanPlan, session: Session) -> None:
    """Select columns, and release every stage on the selected columns, in each draw of the session."""
    one = session.size is None
    if plan.everything:
        supports = np.tile(np.arange(plan.n_features), (session.size or 1, 1))
    else:
        supports = np.sort(np.atleast_2d(session.select(SUPPORT, private.scores)), axis=1)
    if not plan.balls:
        sums = private.rest[supports]
        session.add(plan.means[0], sums[0] if one else sums)
        return
    if plan.everything:
        distinct, which = supports[:1], np.zeros(len(supports), dtype=np.intp)
    else:
        distinct, which = np.unique(supports, axis=0, return_inverse=True)
        which = which.reshape(-1)
    columns = [columns_of(private.rest, support, plan) for support in distinct]
    average = RunningMean(np.zeros(supports.shape))
    stages = [stage for stage in plan.stages if stage.name != SUPPORT]
    for stage, name, noise, ball in zip(stages, plan.means, plan.noise_stds, plan.balls, strict=True):
        # The center of a stage is the public average of earlier stages: one average per draw of the session.
        joint = isinstance(stage, JointStage)
        exact = np.empty((2 if joint else 1, *supports.shape), dtype=np.int64)
        for t, rows in enumerate(columns):
            exact[:, which == t] = _center_sums(rows, ball, average.value[which == t], len(exact))
        if one:
            exact = exact[:, 0]
        found = session.add(stage.name, {name: exact[0], SQUARES: exact[1]} if joint else exact[0])
        average.include(noise, found[name] if joint else found)


def _center_sums(
    rows: NDArray[np.float64], ball: BallLattice, centers: NDArray[np.float64], powers: int
) -> NDArray[np.int64]:
    """Return the sums of the rows about each of the centers, and of as many powers: shape (powers, centers, s)."""
    distinct, which = np.unique(centers, axis=0, return_inverse=True)
    if len(distinct) == 1:
        sums = np.stack(replace(ball, center=distinct[0]).moments(rows, powers=powers).powers)[:, None]
    else:
        sums = ball.moments_about(rows, distinct, powers=powers)
    return sums[:, which.reshape(-1)]


def columns_of(rows: Any, support: NDArray[np.intp], plan: SparseMeanPlan) -> NDArray[np.float64]:
    """Return the selected columns, dense and finite, in standard deviations where these differ."""
    # Gathered row by row: a selection by brackets would be in the order of columns.
    chosen: Any = np.take(rows, support, axis=1) if isinstance(rows, np.ndarray) else rows[:, support]
    dense = as_float64(chosen.toarray() if issparse(chosen) else chosen)
    with np.errstate(all="ignore"):
        if not all_finite(dense):
            dense[~np.isfinite(dense)] = 0.0
        if plan.scales is not None:
            dense /= plan.scales[support]
        # A quotient may overflow, or underflow: nothing is refused after the charge.
        return np.asarray(np.clip(dense, -1e300, 1e300, out=dense))


# Intervals of the selected means


def cross_bias(
    radius: float,
    # Shape (s,). Upper limits of how far the mean of the clipped rows is from the center, in each column.
    offsets: Numbers,
) -> Numbers:
    """Return a bound on the bias of every column of rows clipped to an l1 ball.

    Returns
    -------
    array of shape (s,)
        Infinite where no bound follows: where clipping may have taken everything.
    """
    # sqrt(E||y||_1^2) <= N = sum of sqrt(1 + m_j^2), m_j <= offset_j + |bias_j|, and biases add up to at most N^2/4R.
    least = float(np.sum(np.hypot(1.0, offsets)))
    if least >= radius:
        return np.full(offsets.size, math.inf)
    factor = (1 - math.sqrt(1 - least / radius)) / 2
    # factor sqrt(1 + m_j^2), at the largest m_j there can be: m_j <= offset_j + that.
    kept = 1 - factor**2
    mean = (offsets + factor * np.sqrt(offsets**2 + kept)) / kept
    bound: Numbers = factor * np.hypot(1.0, mean)
    return bound


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
        clip = np.broadcast_to(np.asarray(lattice.spacing * lattice.bound), (plan.n_features,))[report.support]
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
