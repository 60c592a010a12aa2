"""A released survival table, and everything that follows from it: post-processing, with caches.

Times are public and asked by the user. Groups are positions. The estimator translates labels into them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dpstats.figures import new_figure, plain
from dpstats.survival.curves import Curves, PlacedCurves, Places
from dpstats.survival.incidences import Floats, cumulative_incidence
from dpstats.survival.limits import (
    Pair,
    SimulatedErrors,
    crossing_times,
    limits,
    monotone,
    normal_critical,
    score_limits,
    shaped_crossing,
    shaped_time_limits,
    time_limits,
)
from dpstats.survival.plan import TablePlan
from dpstats.survival.reference import Reference
from dpstats.survival.restricted_means import Area, band_areas
from dpstats.survival.table_log_rank import pool_causes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_COLORS = ("#1f5fa8", "#c2571a", "#2d7f5e", "#7a4fa3", "#8a6d1a", "#b03060")
_COLUMNS = 5  # of numbers at risk


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
        cells, noise = pool_causes(
            self.cells[places], plan.least_squares, plan.cells.n_bins, plan.cells.n_causes
        )
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

    def area_difference_limits(
        self, first: int, second: int, until: float, level: float
    ) -> tuple[float, float]:
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
            size, noise = curves.effective_size[0, bin_], curves.noise_variance[0, bin_]
            low, high = score_limits(np.array(survival), size, noise, np.array(z))
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
            within * (1 - within) / np.maximum(sampling, 1e-300),
            np.minimum(least, curves.at_risk[0, 0]),
            None,
        )
        size = np.minimum(size, max(float(curves.at_risk[0, 0]), 1.0))
        low, high = score_limits(estimate, size, noise, np.array(normal_critical(level)))
        carried = float(low[usable][-1]) if usable.any() else 0.0
        return (
            np.append(0.0, np.where(usable, estimate, np.nan)),
            np.append(0.0, np.where(usable, low, carried)),
            np.append(0.0, np.where(usable, high, 1.0)),
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
        figure = new_figure(figsize=(6.4, 3.8 + 0.28 * rows))
        axis, below = figure.subplots(2, 1, height_ratios=[10, 0.6 + 0.9 * rows], sharex=True)
        axis.tick_params(labelbottom=True)
    else:
        axis, below = ax, None
    discrete = table.plan.discrete
    for k, (name, place) in enumerate(zip(names, places, strict=True)):
        color = _COLORS[k % len(_COLORS)]
        low, high = table.band(place, level)
        curve, end = table.estimate(place), table.usable_until(place)
        label = plain(name) if table.plan.groups is not None else "survival"
        look = {"color": color, "label": label, **style}
        if discrete:
            axis.step(edges, curve, where="post", **look)
        else:
            axis.plot(edges, curve, **{"marker": ".", "markersize": 3, **look})
        # Between edges the band joins the limits of both neighbors, so that it covers at every time.
        axis.stairs(
            high[:-1], edges, baseline=low[:-1] if discrete else low[1:], fill=True, color=color, alpha=0.18
        )
        if end < edges[-1]:
            axis.axvline(end, color=color, lw=1, ls=":")
            axis.annotate(
                "usable to here", (end, 1.0), fontsize=7, color=color, rotation=90, ha="right", va="top"
            )
    axis.set_ylim(-0.02, 1.02)
    axis.set_xlim(0, edges[-1])
    axis.set_xlabel("time")
    axis.set_ylabel("survival")
    axis.grid(alpha=0.25)
    words = " (simulated noise)" if table.plan.guarantee.simulated else ""
    axis.set_title(f"Private survival, {100 * level:g}% simultaneous bands{words}", fontsize=10)
    if table.plan.groups is not None:
        axis.legend(fontsize=8, frameon=False)
    if below is None:
        return axis
    bins = len(edges) - 1
    shown = range(0, bins, -(-bins // _COLUMNS))
    below.set_ylim(-rows + 0.5, 0.5)
    below.set_yticks(-np.arange(rows), [plain(name) for name in names], fontsize=8)
    for k, place in enumerate(places):
        curves = table.curves(place)
        for j in shown:
            text = f"{max(float(curves.at_risk[0, j]), 0.0):,.0f}±{2 * float(curves.at_risk_std[j]):.0f}"
            below.text(edges[j], -k, text, fontsize=7, ha="left" if j == 0 else "center", va="center")
    below.set_title("number at risk, ± two standard deviations of its noise", fontsize=8, loc="left")
    for side in ("top", "right", "left", "bottom"):
        below.spines[side].set_visible(False)
    below.tick_params(length=0, labelbottom=False)
    return axis
