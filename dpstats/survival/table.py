"""A released survival table, and everything that follows from it: post-processing, with caches.

Times are public and asked by the user. Groups are positions. The estimator translates labels into them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc

from dpstats.inference.figures import COLORS, LINES, new_figure, plain, row_heights, row_names, set_title
from dpstats.survival.cells import LeastSquares
from dpstats.survival.curves import (
    Curves,
    Pair,
    PlacedCurves,
    Places,
    SimulatedErrors,
    crossing_times,
    limits,
    monotone,
    normal_critical,
    risk_sums,
    score_limits,
    shaped_crossing,
    shaped_time_limits,
    time_limits,
)
from dpstats.survival.hazard_ratios import Reference, expectation_gradient
from dpstats.survival.table_plan import TablePlan

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]


# Cumulative incidences of competing causes, with Aalen's variance and the noise variance


def cumulative_incidence(curves: Curves, cause: int) -> tuple[Floats, Floats, Floats]:
    """Return the incidence of a cause after each bin, its sampling variance and its noise variance.

    Each has the shape (releases, bins). The incidence up to t has the derivative D by the hazard of bin j:
    S_{j-1} for the cause itself, less (F_t - F_j)/(1 - H_j) for each cause.
    """
    hazards = curves.hazards
    releases, n_causes, m = hazards.shape
    whole = np.minimum(hazards.sum(axis=1), 1 - 1e-9)
    before = np.hstack([np.ones((releases, 1)), curves.survival[:, :-1]])
    found = np.cumsum(before * hazards[:, cause], axis=1)
    at_risk = curves.effective
    sampling, noise = np.zeros_like(found), np.zeros_like(found)
    noisy = bool(curves.noise.any())
    for t in range(m):
        used = slice(0, t + 1)
        rest = (found[:, t, None] - found[:, used]) / (1 - whole[:, used])
        by_hazard = np.repeat(-rest[:, None], n_causes, axis=1)
        by_hazard[:, cause] += before[:, used]
        moved = (hazards[:, :, used] * by_hazard).sum(axis=1)
        spread = (hazards[:, :, used] * by_hazard**2).sum(axis=1) - moved**2
        sampling[:, t] = np.maximum((spread / at_risk[:, used] * curves.usable[:, used]).sum(axis=1), 0.0)
        if not noisy:
            continue
        # A cell that is at risk in the bins up to k takes moved/at_risk off in each of them.
        lost = np.zeros((releases, m))
        lost[:, used] = moved / at_risk[:, used] * curves.usable[:, used]
        of_positions = curves.position_variance(-lost)
        lost = np.cumsum(lost, axis=1)
        gained = np.zeros((releases, n_causes, m))
        gained[:, :, used] = by_hazard / at_risk[:, None, used] * curves.usable[:, None, used]
        of_events = (gained - lost[:, None]).reshape(releases, -1)
        gradient = np.hstack([of_events, np.zeros((releases, 1)), -lost])
        noise[:, t] = np.maximum(((gradient @ curves.noise) * gradient).sum(axis=1) + of_positions, 0.0)
    return found, sampling, noise


# Restricted means: areas under the curve, with their sampling error, noise and grid term


@dataclass(frozen=True, eq=False)
class Area:
    """The area under the curves of one group up to a time.

    Attributes
    ----------
    estimate : array of shape (releases,)
    variance : array of shape (releases,)
        Variance of the sampling error and the noise together, and of one event that was not seen.
    grid : array of shape (releases,)
        The area minus the area on every second edge. It is larger than the error of the grid if the survival falls
        like a power of time. For 1 - c t^k it is 2^(1 + k) - 1 times that error.
    gradient : array of shape (releases, cells)
    reached : array of shape (releases,)
        Whether the curve is usable up to the time.
    """

    estimate: Floats
    variance: Floats
    grid: Floats
    gradient: Floats
    reached: NDArray[np.bool_]

    @classmethod
    def compute(cls, curves: Curves, edges: Floats, until: float, *, discrete: bool) -> Area:
        """Return the area up to ``until``, which is inside the horizon."""
        if isinstance(curves, PlacedCurves):
            return cls._compute_placed(curves, edges, until)
        start, weights = area_weights(edges, until, discrete=discrete)
        heights = curves.survival
        estimate = start + heights @ weights
        grid = np.zeros(len(heights))
        if not discrete:
            full = np.hstack([np.ones((len(heights), 1)), heights])
            kept = np.unique([*range(0, len(edges), 2), len(edges) - 1])
            coarse = np.array([np.interp(edges, edges[kept], row[kept]) for row in full])
            grid = estimate - (start + coarse[:, 1:] @ weights)
        later = np.cumsum((weights * heights)[:, ::-1], axis=1)[:, ::-1]
        sampling = np.maximum((curves.increments * later**2).sum(axis=1), 0.0)
        of_event = later / (curves.effective * (1 - curves.hazards.sum(axis=1)))
        sampling = sampling + _unseen_variance(of_event, curves)
        gradient = np.einsum("rb,rbc->rc", weights * heights, curves.gradients)
        noise = np.maximum(((gradient @ curves.noise) * gradient).sum(axis=1), 0.0)
        needed = int(np.searchsorted(edges, until, side="right" if discrete else "left"))
        needed = min(needed - 1 if discrete else needed, curves.n_bins)
        return cls(estimate, sampling + noise, grid, gradient, curves.n_usable >= needed)

    @classmethod
    def _compute_placed(cls, curves: PlacedCurves, edges: Floats, until: float) -> Area:
        """Return the area under curves with positions, which needs a grid term in a part of a bin only."""
        # A bin of width h that begins at the survival S has the area h S (1 - q/2 + x), for any shape inside it.
        # Here x is q times the mean position of events less 1/2. Let c = 3 p^2 - 2 p^3. For a density on a straight
        # line, the area up to the part p of the bin is h S (p - q p^2/2 + c x).
        widths = np.diff(edges)
        part = np.clip((until - edges[:-1]) / widths, 0.0, 1.0)
        linear, shaped = part**2 / 2, 3 * part**2 - 2 * part**3
        shapes, usable, effective = curves.shapes, curves.usable, curves.effective
        hazard = curves.hazards.sum(axis=1)
        before = np.hstack([np.ones((len(hazard), 1)), curves.survival[:, :-1]])
        at_risk = np.where(usable, np.maximum(curves.at_risk, 1.0), 1.0)
        x = np.where(usable, hazard * shapes.slopes / 6, 0.0)
        height = widths * before
        pieces = height * (part - hazard * linear + shaped * x)
        later = np.cumsum(pieces[:, ::-1], axis=1)[:, ::-1] - pieces
        of_hazard = -later / (1 - hazard) - height * linear
        # Sampling error of the hazards at a given mean position of the events, and of that mean.
        of_number = of_hazard + height * shaped * shapes.slopes / 6
        sampling = hazard * (1 - hazard) / effective * of_number**2
        sampling = sampling + (height * shaped) ** 2 * hazard / (12 * effective)
        # Late events of rows that leave were not seen, 6Q of them: where they were depends on the shape.
        unseen = np.minimum(6 * curves.censored_positions / at_risk, 1.0) * shapes.unknown_std
        sampling = sampling + (height * shaped * hazard * np.hypot(shapes.hidden_std, unseen) / 6) ** 2
        # From a reduced hazard on, the survival is between 0 and what remains. The area may have this error.
        remains = np.maximum(before - hazard * before, 0.0) * np.diff(curves.cut, axis=1, prepend=False)
        after = np.maximum(until - edges[1:], 0.0) + widths * (linear + np.abs(shapes.slopes) * shaped / 6)
        sampling = sampling + (remains * after) ** 2
        variance = np.maximum(np.where(usable, sampling, 0.0).sum(axis=1), 0.0)
        variance = variance + _unseen_variance(of_hazard / effective, curves)
        # By hazards d/E': through d and E', which is at risk in all earlier bins.
        per_at_risk = np.where(usable, -of_hazard * hazard / effective, 0.0)
        gradient = per_at_risk @ risk_sums(curves.n_bins, curves.n_causes)
        by_events = np.where(usable, of_hazard / effective, 0.0)
        gradient[:, : curves.n_causes * curves.n_bins] += np.tile(by_events, curves.n_causes)
        noise = ((gradient @ curves.noise) * gradient).sum(axis=1)
        positions = np.where(usable, height * shaped * shapes.known / at_risk, 0.0)
        noise = np.maximum(noise + curves.position_variance(per_at_risk, positions), 0.0)
        reached = curves.n_usable >= int(np.searchsorted(edges, until, side="left"))
        # A part of the last bin needs the shape, and only its mean is known.
        inside = (part > 0) & (part < 1)
        grid = (height * shaped * x * inside).sum(axis=1)
        return cls(pieces.sum(axis=1), variance + noise, grid, gradient, reached)


def _unseen_variance(of_event: Floats, curves: Curves) -> Floats:
    """Return the variance of one event that was not seen, in the bin where it changes an area most: (releases,)."""
    return np.asarray(np.where(curves.usable, of_event**2, 0.0).max(axis=1))


def area_weights(edges: Floats, until: float, *, discrete: bool) -> tuple[float, Floats]:
    """Return the weight of the survival at 0, and of that at the end of each bin, in the area up to ``until``.

    Between two edges the curve is a straight line; for discrete times it is a step.
    """
    widths = np.clip(until - edges[:-1], 0.0, np.diff(edges))
    if discrete:
        left, right = widths, np.zeros_like(widths)
    else:
        part = widths / np.diff(edges)
        left, right = widths * (2 - part) / 2, widths * part / 2
    weights = right.copy()
    weights[:-1] += left[1:]
    return float(left[0]), weights


def band_areas(low: Floats, high: Floats, edges: Floats, until: float) -> tuple[Floats, Floats]:
    """Return the areas under the limits (releases, bins) of a band, where the curve is not usable."""
    widths = np.clip(until - edges[:-1], 0.0, np.diff(edges))
    before = np.hstack([np.ones((len(high), 1)), high[:, :-1]])
    return low @ widths, before @ widths


def pool_causes(cells: Floats, noise: LeastSquares, n_bins: int, n_causes: int) -> tuple[Floats, LeastSquares]:
    """Return the cells (..., cells) with the events of all causes added up, and the covariance of their noise."""
    add = np.hstack([np.eye(n_bins)] * n_causes)
    together = np.zeros((2 * n_bins + 1, cells.shape[-1]))
    together[:n_bins, : n_causes * n_bins] = add
    together[n_bins:, n_causes * n_bins :] = np.eye(n_bins + 1)
    pooled = LeastSquares(
        together @ noise.solution,
        together @ noise.own @ together.T,
        together @ noise.shared,
        together @ noise.to_total,
        noise.n_groups,
    )
    return cells @ together.T, pooled


# The log-rank test, from the noise of the table


@dataclass(frozen=True, eq=False)
class Moments:
    """Observed less expected events of a released table, or of each of its strata added up.

    Attributes
    ----------
    differences : array of shape (releases, groups)
    covariance : array of shape (releases, groups, groups)
        Of samples and of the noise, before the part that the public number of rows subtracts.
    common : array of shape (releases, groups)
        The part of each difference by which the public number of rows moves it.
    """

    differences: Floats
    covariance: Floats
    common: Floats

    @classmethod
    def compute(cls, reference: Reference) -> Moments:
        """Return the moments of the groups of a reference."""
        K, m = reference.n_groups, reference.n_bins
        weights, hazards, shares = reference.weights, reference.pooled_hazards, reference.shares
        events = reference.cells[:, :, :m]
        # Noisy events of all groups, not cut at 0, so that differences add up to 0.
        total = np.where(reference.usable, events.sum(axis=1), 0.0)
        at_risk = np.where(reference.usable, reference.pooled_effective, 1.0)
        parts = reference.effective / at_risk[:, None]
        differences = ((events - parts * total[:, None]) * weights[:, None]).sum(axis=2)
        information = reference.information
        alone = np.einsum("raj,rj->ra", shares, information)
        between = np.einsum("raj,rbj,rj->rab", shares, shares, information)
        covariance = alone[:, :, None] * np.eye(K) - between
        # How the difference of group a depends on the cells of group q.
        moved = (np.eye(K)[None, :, :, None] - shares[:, :, None, :]) * weights[:, None, None, :]
        gradients = expectation_gradient(moved, hazards[:, None, None, :])
        own = reference.noise.own + np.outer(reference.noise.shared, reference.noise.shared)
        covariance = covariance + np.einsum("raqc,rbqc->rab", gradients @ own, gradients)
        covariance = covariance + _position_covariance(reference, moved)
        bias, second = _second_order(reference, parts, total, at_risk)
        return cls(differences + bias, covariance + second, (gradients @ reference.noise.shared).sum(axis=2))

    def __add__(self, other: Moments) -> Moments:
        return Moments(
            self.differences + other.differences, self.covariance + other.covariance, self.common + other.common
        )

    @property
    def whole_covariance(self) -> Floats:
        """Covariance of the differences: shape (releases, groups, groups)."""
        return self.covariance - self.common[:, :, None] * self.common[:, None, :]

    @property
    def errors(self) -> Floats:
        """Standard errors of the differences: shape (releases, groups)."""
        return np.sqrt(np.maximum(np.diagonal(self.whole_covariance, axis1=1, axis2=2), 0.0))

    def chi_square(self) -> tuple[Floats, Floats]:
        """Return the statistic and its p-values: shape (releases,)."""
        K = self.differences.shape[1]
        used = self.whole_covariance[:, :-1, :-1] + 1e-9 * np.eye(K - 1)
        solved = np.linalg.solve(used, self.differences[:, :-1, None])[:, :, 0]
        statistic = np.maximum((self.differences[:, :-1] * solved).sum(axis=1), 0.0)
        return statistic, np.asarray(gammaincc((K - 1) / 2, statistic / 2))


def _second_order(reference: Reference, parts: Floats, total: Floats, at_risk: Floats) -> tuple[Floats, Floats]:
    """Return the bias that noise in a group's proportion at risk takes off the differences, and its covariance."""
    # A proportion p has the error e = (e_g - p e_all)/E, and the events d of all groups have the error f. The
    # difference has -e f and -d e, whose means are not 0, because d is in E, and because E is in the denominator.
    K, m, noise = reference.n_groups, reference.n_bins, reference.noise
    sums = risk_sums(m, 1)
    with_pool = noise.own - (K - 1) * np.outer(noise.shared, noise.shared)
    of_number = ((sums @ with_pool) * sums).sum(axis=1)
    of_both = (sums @ with_pool)[:, :m].diagonal()
    of_events = with_pool[:m, :m].diagonal()
    weights = reference.weights
    per_group = of_both / at_risk - total * of_number / at_risk**2
    bias = ((1 - K * parts) * (weights * per_group)[:, None]).sum(axis=2)
    # Covariance of the errors of the proportions of groups a and b, in each bin.
    across = -((sums @ noise.shared) ** 2)
    own = ((sums @ noise.own) * sums).sum(axis=1)
    p, q = parts[:, :, None], parts[:, None]
    shares = np.where(np.eye(K, dtype=bool)[None, :, :, None], own, across)
    shares = (shares - (p + q - K * p * q) * of_number) / at_risk[:, None, None] ** 2
    spread = np.maximum(total, 0.0) + K * of_events
    both = (1 - K * p) * (1 - K * q) * (of_both / at_risk)[:, None, None] ** 2
    second = shares * spread[:, None, None] + both
    return bias, (second * (weights**2)[:, None, None]).sum(axis=3)


def _position_covariance(reference: Reference, moved: Floats) -> Floats | float:
    """Return the covariance due to noise in positions, and to shapes that remain unknown."""
    shapes, std = reference.shapes, reference.position_std
    if shapes is None or std is None:
        return 0.0
    by_censored = moved * (reference.pooled_hazards * shapes.lost * std[1])[:, None, None]
    of_noise = np.einsum("raqj,rbqj->rab", by_censored, by_censored)
    return np.asarray(reference.slope_covariance + of_noise)


def table_log_rank(*references: Reference) -> tuple[Floats, Floats, Floats]:
    """Return observed less expected events (releases, groups), the chi-square statistic and its p-values.

    Several references are strata, whose moments add up. The noise of strata is correlated, because the number of rows
    of all groups is public.
    """
    first, *others = map(Moments.compute, references)
    moments = sum(others, first)
    statistic, pvalue = moments.chi_square()
    unknown = ~(sum(reference.information.sum(axis=1) for reference in references) > 0)
    return moments.differences, np.where(unknown, 0.0, statistic), np.where(unknown, 1.0, pvalue)


# The table

_COLUMNS = 5  # of numbers at risk
_WIDEST = 1.0  # inches of a figure for each of them


@dataclass(frozen=True, eq=False)
class SurvivalTable:
    """The least-squares cells of a release.

    Attributes
    ----------
    plan : TablePlan
    cells : array of shape (groups, cells)
    positions : array of shape (groups, 2, bins), optional
        Sums of positions inside the bins, where the plan has them.
    """

    plan: TablePlan
    cells: Floats
    positions: Floats | None = None
    _curves: dict[int, Curves] = field(default_factory=dict, repr=False)
    _errors: dict[int, SimulatedErrors] = field(default_factory=dict, repr=False)

    @classmethod
    def from_release(cls, plan: TablePlan, released: Any) -> SurvivalTable:
        """Return the table of a release."""
        return cls(plan, *plan.estimate_cells(released))

    def __getstate__(self) -> dict[str, Any]:
        # A copy computes its curves again.
        return {**vars(self), "_curves": {}, "_errors": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)

    @property
    def edges(self) -> Floats:
        """The edges of the bins, 0 first."""
        return np.asarray(self.plan.cells.edges)

    def curves(self, group: int) -> Curves:
        """Return the curve of a group."""
        if group not in self._curves:
            positions = None if self.positions is None else self.positions[group : group + 1]
            self._curves[group] = self.plan.curves(self.cells[group : group + 1], positions)
        return self._curves[group]

    def critical(self, group: int, level: Floats | float) -> Pair:
        """Return the critical values of pointwise limits (levels, bins) and of the band (levels, 1)."""
        if group not in self._errors:
            self._errors[group] = SimulatedErrors.draw(self.curves(group), 0, self.plan.cell_noise)
        pointwise, band = self._errors[group].critical(np.atleast_1d(level), self.plan.cells.n_bins)
        return pointwise, band[:, None]

    def usable_until(self, group: int) -> float:
        """Return the end of the usable range."""
        return float(self.edges[self.curves(group).n_usable[0]])

    # Limits and estimates by edge

    def estimate(self, group: int) -> Floats:
        """Return the survival at each edge, NaN beyond the usable range: shape (bins + 1,)."""
        return np.concatenate([[1.0], self.curves(group).estimate[0]])

    def pointwise(self, group: int, level: float) -> Pair:
        """Return pointwise limits at each edge."""
        return _prepend_start(limits(self.curves(group), self.critical(group, level)[0]))

    def band(self, group: int, level: float) -> Pair:
        """Return the limits of the simultaneous band at each edge."""
        return _prepend_start(monotone(*limits(self.curves(group), self.critical(group, level)[1])))

    # Limits and estimates by time

    def at(self, times: Floats, values: Floats) -> Floats:
        """Return an estimate between the edges: on a straight line, or of the edge before for discrete times."""
        times = self._snap(times)
        if self.plan.discrete:
            return values[np.searchsorted(self.edges, times, side="right") - 1]
        known = np.isfinite(values)
        last = self.edges[known][-1]
        inside = np.interp(times, self.edges[known], values[known])
        return np.where(times <= last, inside, np.nan)

    def limits_at(self, times: Floats, low: Floats, high: Floats) -> Pair:
        """Return limits between the edges: the lower one of the edge after, the upper one of the edge before.

        The survival never increases, so that they hold for any curve.
        """
        before, after = self._around(times)
        return low[after], high[before]

    def pointwise_at(self, group: int, times: Floats, levels: Floats) -> Pair:
        """Return pointwise limits of the survival at times, each of its level."""
        low, high = limits(self.curves(group), self.critical(group, levels)[0])
        start = np.ones((len(levels), 1))
        first, last = self._around(times)
        each = np.arange(len(levels))
        return np.hstack([start, low])[each, last], np.hstack([start, high])[each, first]

    def error_at(self, group: int, times: Floats) -> Floats:
        """Return the standard errors of the survival at times: sampling error and noise."""
        curves = self.curves(group)
        variance = (curves.sampling_variance + curves.noise_variance)[0]
        errors = np.sqrt(np.append(0.0, np.where(curves.usable[0], variance, np.nan)))
        return np.asarray(errors[self._around(times)[1]])

    def _around(self, times: Floats) -> tuple[Places, Places]:
        """Return the positions of the edges before and after times."""
        times = self._snap(times)
        before = np.searchsorted(self.edges, times, side="right") - 1
        return before, before if self.plan.discrete else np.searchsorted(self.edges, times, side="left")

    def _snap(self, times: Floats) -> Floats:
        """Return times, those within rounding of an edge moved onto it."""
        place = np.clip(np.searchsorted(self.edges, times), 1, len(self.edges) - 1)
        near = np.where(times - self.edges[place - 1] < self.edges[place] - times, place - 1, place)
        close = np.abs(times - self.edges[near]) <= 1e-12 * self.edges[-1]
        return np.where(close, self.edges[near], times)

    def reference(self, groups: Sequence[int], rho: float = 0.0, gamma: float = 0.0) -> Reference:
        """Return the pooled estimates of some groups, with the events of all causes together."""
        plan, places = self.plan, list(groups)
        cells, noise = pool_causes(self.cells[places], plan.least_squares, plan.cells.n_bins, plan.cells.n_causes)
        positions = None if self.positions is None else self.positions[None, places]
        return Reference(cells[None], noise, rho, gamma, positions, plan.position_std)

    # Functionals

    def quantile(self, group: int, q: float) -> float:
        """Return the q-quantile of the time to the event; infinite if it is not reached."""
        curves = self.curves(group)
        heights = np.where(np.isnan(curves.estimate), 1.0, curves.estimate)
        if isinstance(curves, PlacedCurves):
            return shaped_crossing(curves, heights[0], self.edges, 1 - q).time
        return float(crossing_times(heights, self.edges, 1 - q, discrete=self.plan.discrete)[0])

    def quantile_limits(self, group: int, q: float, level: float) -> tuple[float, float]:
        """Return limits of that time; an infinite one is not reached."""
        curves = self.curves(group)
        low, high = limits(curves, self.critical(group, level)[0])
        if isinstance(curves, PlacedCurves):
            return shaped_time_limits(curves, low[0], high[0], self.edges, 1 - q, level)
        first, last = time_limits(curves, low, high, self.edges, q, self.plan.discrete)
        return float(first[0]), float(last[0])

    def area(self, group: int, until: float) -> Area:
        """Return the restricted mean up to a time."""
        return Area.compute(self.curves(group), self.edges, until, discrete=self.plan.discrete)

    def restricted_mean(self, group: int, until: float) -> float:
        """Return the restricted mean up to a time, from 0 to that time; NaN where the curve is not usable up to it."""
        area = self.area(group, until)
        return float(np.clip(area.estimate[0], 0.0, until)) if area.reached[0] else np.nan

    def area_limits(self, group: int, until: float, level: float) -> tuple[float, float]:
        """Return limits of the restricted mean: from the band where the curve is not usable up to that time."""
        area = self.area(group, until)
        if not area.reached[0]:
            low, high = self.band(group, level)
            bounds = band_areas(low[None, 1:], high[None, 1:], self.edges, until)
            return float(bounds[0][0]), float(bounds[1][0])
        half = normal_critical(level) * np.sqrt(area.variance[0]) + np.abs(area.grid[0])
        low, high = np.clip([area.estimate[0] - half, area.estimate[0] + half], 0.0, until)
        return float(low), float(high)

    def area_difference(self, first: int, second: int, until: float) -> tuple[float, float, float]:
        """Return the difference of two restricted means, its standard error and its grid term; NaN if not usable.

        It is the difference before each of the two is limited to the possible values: its errors are symmetric.
        """
        one, other = self.area(first, until), self.area(second, until)
        if not (one.reached[0] and other.reached[0]):
            return np.nan, np.nan, np.nan
        shared = self.plan.least_squares.shared
        together = 2 * float(one.gradient[0] @ shared) * float(other.gradient[0] @ shared)
        variance = one.variance[0] + other.variance[0] + together
        difference = float(np.clip(one.estimate[0] - other.estimate[0], -until, until))
        return difference, float(np.sqrt(max(variance, 0.0))), float(abs(one.grid[0] - other.grid[0]))

    def area_difference_limits(self, first: int, second: int, until: float, level: float) -> tuple[float, float]:
        """Return limits of the difference of two restricted means."""
        difference, error, grid = self.area_difference(first, second, until)
        if np.isnan(difference):
            # Bonferroni: each of the two misses with half of the probability.
            one, other = (self.area_limits(group, until, (1 + level) / 2) for group in (first, second))
            return one[0] - other[1], one[1] - other[0]
        half = normal_critical(level) * error + grid
        return max(difference - half, -until), min(difference + half, until)

    def difference_limits(self, first: int, second: int, place: int, critical: float) -> tuple[float, float]:
        """Return limits of the difference of two survivals at an edge, from the limits of each.

        Noise with heavy tails raises the normal critical value, by the factor that it needs at the level 0.95.
        """
        found = []
        for group in (first, second):
            curves, bin_ = self.curves(group), place - 1
            if curves.n_usable[0] < place:
                found.append((np.nan, 0.0, 1.0, 0.0))
                continue
            z = critical * float(self.critical(group, 0.95)[0][0, bin_]) / normal_critical(0.95)
            survival = float(np.clip(curves.survival[0, bin_], 0.0, 1.0))
            low, high = (end[0, bin_] for end in limits(curves, np.array(z)))
            moved = z * survival * float(curves.gradients[0, bin_] @ self.plan.least_squares.shared)
            found.append((survival, float(low), float(high), moved))
        (one, one_low, one_high, one_moved), (other, other_low, other_high, other_moved) = found
        if np.isnan(one) or np.isnan(other):
            return one_low - other_high, one_high - other_low
        # The noise of the two groups is correlated, since the total of all groups is n.
        together = 2 * one_moved * other_moved
        below = np.sqrt(max((one - one_low) ** 2 + (other_high - other) ** 2 + together, 0.0))
        above = np.sqrt(max((one_high - one) ** 2 + (other - other_low) ** 2 + together, 0.0))
        return max(one - other - float(below), -1.0), min(one - other + float(above), 1.0)

    def incidence(self, group: int, cause: int, level: float) -> tuple[Floats, Floats, Floats]:
        """Return the cumulative incidence of a cause at each edge, and pointwise limits."""
        curves = self.curves(group)
        found, sampling, noise = (values[0] for values in cumulative_incidence(curves, cause))
        estimate, usable = np.clip(found, 0.0, 1.0), curves.usable[0]
        at_risk = np.where(curves.usable, curves.at_risk, np.inf)
        least = np.maximum(np.minimum.accumulate(at_risk, axis=1)[0], 1.0)
        within = np.clip(estimate, 1e-6, 1 - 1e-6)
        size = np.clip(
            within * (1 - within) / np.maximum(sampling, 1e-300), np.minimum(least, curves.at_risk[0, 0]), None
        )
        size = np.minimum(size, max(float(curves.at_risk[0, 0]), 1.0))
        critical = np.array(normal_critical(level))
        low = score_limits(estimate, size, noise, critical)[0]
        # As for the survival, an event that was not seen is counted: one of this cause.
        high = score_limits(estimate, size, noise + curves.unseen_variance(size)[0], critical)[1]
        carried = float(low[usable][-1]) if usable.any() else 0.0
        return (
            np.append(0.0, np.where(usable, estimate, np.nan)),
            np.append(0.0, np.where(usable, low, carried)),
            np.append(0.0, np.where(usable & ~curves.cut[0], high, 1.0)),
        )


def _prepend_start(pair: Pair) -> Pair:
    """Return the limits of one release at each edge, 1 at time 0."""
    low, high = pair
    return np.concatenate([[1.0], low[0]]), np.concatenate([[1.0], high[0]])


def draw_curves(
    table: SurvivalTable,
    names: Sequence[str],
    places: Sequence[int],
    level: float,
    ax: Axes | None,
    style: Mapping[str, Any],
) -> Any:
    """Draw the curves of some groups: see `PrivateSurvival.plot`."""
    edges = table.edges
    rows = len(places)
    if ax is None:
        lines = row_names(names, 6.4)
        figure = new_figure(figsize=(6.4, 3.8 + row_heights(lines, 6.4)))
        each = 0.9
        if figure.get_figwidth() < 5:
            # The legend is below, and names have their size.
            each = 1.2
            figure.set_figheight(figure.get_figheight() + 0.9)
        share = 0.6 + each * sum(1 + line.count("\n") for line in lines)
        axis, below = figure.subplots(2, 1, height_ratios=[10, share], sharex=True)
        axis.tick_params(labelbottom=True)
    else:
        axis, below = ax, None
    discrete = table.plan.discrete
    for k, (name, place) in enumerate(zip(names, places, strict=True)):
        color = COLORS[k % len(COLORS)]
        low, high = table.band(place, level)
        curve, end = table.estimate(place), table.usable_until(place)
        label = plain(name) if table.plan.groups is not None else "survival"
        look = {"color": color, "ls": LINES[k % len(LINES)], "label": label, **style}
        if discrete:
            axis.step(edges, curve, where="post", **look)
        else:
            axis.plot(edges, curve, **{"marker": ".", "markersize": 3, **look})
        # Between edges the band joins the limits of both neighbors, so that it covers at every time.
        axis.stairs(high[:-1], edges, baseline=low[:-1] if discrete else low[1:], fill=True, color=color, alpha=0.18)
        if end < edges[-1]:
            axis.axvline(end, color=color, lw=1, ls=":")
            axis.annotate("usable to here", (end, 1.0), fontsize=7, color=color, rotation=90, ha="right", va="top")
    axis.set_ylim(-0.02, 1.02)
    axis.set_xlim(0, edges[-1])
    axis.set_xlabel("time")
    axis.set_ylabel("survival")
    axis.grid(alpha=0.25)
    words = " (simulated noise)" if table.plan.guarantee.simulated else ""
    set_title(axis, f"Private survival, {100 * level:g}% simultaneous bands{words}")
    if table.plan.groups is not None and (below is None or below.figure.get_figwidth() > 5):
        axis.legend(fontsize=8, frameon=False)
    elif table.plan.groups is not None:
        # In a column of a paper, a legend inside hides the curves.
        below.figure.legend(fontsize=7, frameon=False, loc="outside lower center")
    if below is None:
        return axis
    bins = len(edges) - 1
    width = below.figure.get_figwidth()
    labels = row_names(names, width)
    # Names of more than a dozen letters take the width of numbers.
    longest = max(len(line) for label in labels for line in label.split("\n"))
    columns = max(1, min(_COLUMNS, int((width - max(0.0, 0.1 * longest - 0.8)) / _WIDEST)))
    shown = range(0, bins, -(-bins // columns))
    below.set_ylim(-rows + 0.5, 0.5)
    below.set_yticks(-np.arange(rows), labels, fontsize=8)
    for k, place in enumerate(places):
        curves = table.curves(place)
        for j in shown:
            text = f"{max(float(curves.at_risk[0, j]), 0.0):,.0f}±{2 * float(curves.at_risk_std[j]):.0f}"
            below.text(edges[j], -k, text, fontsize=7, ha="left" if j == 0 else "center", va="center")
    below.set_title("number at risk ± 2 sd of its noise", fontsize=8, loc="left" if width > 5 else "right")
    for side in ("top", "right", "left", "bottom"):
        below.spines[side].set_visible(False)
    below.tick_params(length=0, labelbottom=False)
    return axis
