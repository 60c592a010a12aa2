"""Means of groups adjusted for covariates: their plan, how a fit reads its rows, and what its release says.

Proof: docs/proofs/levels.md. Intervals: docs/intervals/levels.md. The algorithm is in `dpstats.regression.levels`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, ndtr

from dpstats.data.rows import Rows, Sums, Table
from dpstats.errors import refuse, show_names
from dpstats.inference.results import list_some
from dpstats.lattice import check_finite
from dpstats.means.moments import Region
from dpstats.means.ratio import DifferenceErrors, RatioErrors
from dpstats.privacy.guarantee import Neighbors
from dpstats.regression import engine
from dpstats.regression.blocks import Design, DesignRows
from dpstats.regression.coefficient_errors import ClippingBias
from dpstats.regression.levels import LevelMeans
from dpstats.regression.levels_plan import CLIPPED, LevelsPlan, choose_law, levels_plan
from dpstats.release.session import Released

Floats = NDArray[np.float64]

_SHOWN = 6
_EXCESS, _LEAST = 0.5, 1e-12
"""Mean distance of a clipped outcome from its bound, in standard deviations of all outcomes, and the least variance."""
_GRID, _ROUNDS = 65, 4


@dataclass(frozen=True)
class AdjustedMeansPlan(LevelsPlan):
    """The plan of a `GroupMeans` with covariates: a `LevelsPlan`.

    Attributes
    ----------
    outcome : int
        Position of the outcome among the columns. All others are covariates.
    region : Region
        The declared bounds of the outcome.
    """

    outcome: int
    region: Region

    @property
    def groups(self) -> tuple[Any, ...]:
        """The declared groups."""
        return self.levels


def adjusted_means_plan(
    groups: Sequence[Any],
    adjust: Any,
    randomized: bool,
    declared: tuple[Any, Any],
    n: int | None,
    d: int,
    epsilon: float,
    delta: float,
    missing: str,
    neighbors: Neighbors,
    budget: Any = None,
) -> AdjustedMeansPlan:
    """Return the plan of the adjusted means of declared groups of n rows with d columns, with the smaller noise.

    ``declared`` are the bounds of all columns, and what they are.
    """
    bounds, bounds_are = declared
    if neighbors is not Neighbors.REPLACE_ONE or n is None:
        raise refuse("neighbors", given=neighbors.value, allowed="'replace_one' with adjust")
    outcome = outcome_position(adjust, bounds, d)
    everything = Region.check(bounds, bounds_are, None, 0.0, d)
    low, high = (np.full(d, end, dtype=np.float64) for end in (everything.low, everything.high))
    ends = np.column_stack([low, high])
    region = Region.check(tuple(ends[outcome].tolist()), bounds_are, None, 0.0, 1)
    design = Design.check(np.delete(ends, outcome, axis=0), ends[outcome], d - 1, True)
    own: dict[str, Any] = {"n_features": d, "outcome": outcome, "region": region}
    given = design, groups, n, epsilon, delta, missing, randomized
    own["count_clipped"] = not (randomized or region.hard)
    make_plan = partial(levels_plan, *given, kind=AdjustedMeansPlan, **own)
    return choose_law(lambda pure: make_plan(pure=pure), delta, budget)


def covariate_list(adjust: Any) -> tuple[Any, ...]:
    """Return the names or positions of the covariates."""
    if isinstance(adjust, str | int | np.integer) and not isinstance(adjust, bool):
        return (adjust,)
    if isinstance(adjust, list | tuple) and all(isinstance(each, str | int | np.integer) for each in adjust):
        return tuple(adjust)
    raise refuse("adjust", given=adjust, allowed="a list of names or positions of columns")


def outcome_position(adjust: Any, bounds: Any, d: int) -> int:
    """Return the position of the outcome, the only column besides the covariates."""
    given = covariate_list(adjust)
    names: list[Any] = list(bounds) if isinstance(bounds, Mapping) else list(range(d))
    if any(name not in names for name in given):
        raise refuse(
            "adjust", given=adjust, allowed=f"columns that bounds names, or positions of columns (n_features = {d})"
        )
    rest = [place for place, name in enumerate(names) if name not in given]
    if not given or len(rest) != 1 or len(set(given)) < len(given):
        raise refuse(
            "adjust",
            got=f"a list that leaves {len(rest)} of {d} columns",
            allowed="name every column but the outcome, each once",
            remedy="List the covariates in adjust, or choose the columns with by, columns and bounds.",
        )
    return rest[0]


def covariate_places(adjust: Any, names: Sequence[Any]) -> Any:
    """Return covariates as positions of columns with these names."""
    given = covariate_list(adjust)
    if all(isinstance(each, int | np.integer) for each in given):
        return given
    if any(name not in names for name in given):
        raise refuse("adjust", given=adjust, allowed=f"names of columns ({show_names(names)})")
    return tuple(names.index(name) for name in given)


# Rows, whose outcome is one of their columns


def read_adjusted(rows: Rows, plan: AdjustedMeansPlan) -> DesignRows:
    """Return the rows of a fit."""
    return engine.read(_SplitRows(rows, plan.outcome, plan.missing), plan, keep=True)


@dataclass(frozen=True, eq=False)
class _SplitRows(Rows):
    """Private rows whose outcome is one of their columns."""

    rows: Rows
    outcome: int
    missing: str

    @property
    def names(self) -> list[Any] | None:  # type: ignore[override]
        names = self.rows.names
        return None if names is None else [*names[: self.outcome], *names[self.outcome + 1 :]]

    @property
    def local(self) -> bool:
        return self.rows.local

    @property
    def shape(self) -> tuple[int, int]:
        n, d = self.rows.shape
        return n, d - 1

    def total(self, work: Callable[[Table], Sums]) -> dict[str, NDArray[np.int64]]:
        return self.rows.total(partial(_sum_split, work, self.outcome, self.missing))

    def whole(self) -> Table:
        return _take_outcome(self.outcome, self.missing, self.rows.whole())


def _sum_split(work: Callable[[Table], Sums], outcome: int, missing: str, table: Table) -> Sums:
    return work(_take_outcome(outcome, missing, table))


def _take_outcome(outcome: int, missing: str, table: Table) -> Table:
    if missing == "error":
        check_finite(table.X)
    y = np.asarray(table.X[:, outcome], dtype=np.float64)
    return replace(table, X=np.delete(table.X, outcome, axis=1), y=y, names=None)


# Results


class AdjustedMeans:
    """The adjusted means of a release, and their comparisons, in the units of the data.

    A `GroupMeans` takes over its attributes. ``is_adjusted`` is whether the plan has slopes, and ``hidden`` are the
    positions of covariates whose slopes noise hides.
    """

    def __init__(self, released: Released, plan: AdjustedMeansPlan) -> None:
        found = engine.walked(released, plan).estimate()
        self.plan, self._found, self.ratio, self.is_adjusted = plan, found, found.ratio, plan.steps is not None
        self.counts, self.counts_noise = found.counts, found.counts_noise
        self.clipped = self._measure_clipping(float(np.ravel(released[CLIPPED])[0])) if CLIPPED in released else None
        self.std, self.std_noise = (plan.design.y_half * part for part in found.shown_deviations)
        unit = plan.design.y_half / plan.design.half
        known = found.path.fit.identified if self.is_adjusted else np.zeros(unit.size, dtype=np.bool_)
        covariates = np.delete(np.arange(plan.n_features), plan.outcome)
        self.hidden = covariates[~known].tolist()
        self.slopes, self.slopes_errors = np.full(unit.size, np.nan), np.full(unit.size, np.nan)
        if self.is_adjusted:
            errors = np.sqrt(np.diagonal(found.slopes_covariance))
            self.slopes[known] = (found.path.fit.slopes * unit)[known]
            self.slopes_errors[known] = (errors * unit)[known]

    def _measure_clipping(self, share: float) -> ClippingBias:
        """Return the bias by clipped outcomes, whose fraction of the rows of declared groups is released."""
        found = self._found
        of_all = self.plan.n_samples / found.path.fit.found.rows
        noise = float(np.max(self.plan.noise(CLIPPED).std)) * of_all
        # More outcomes are clipped in a group whose mean is closer to a bound: their fraction, for normal outcomes.
        # Means at equal covariates: fractions by the means of the outcomes overstate the bias in most designs.
        mean, std = found.means.estimate[:, 0], math.sqrt(max(found.path.variance, _LEAST))
        beyond = np.maximum(ndtr((np.abs(mean) - 1) / std), _LEAST)
        rows = np.maximum(found.counts, found.counts_noise)
        low, high = found.means.ends(1.0)
        error = np.hypot((high - low)[:, 0] / 2, np.sqrt(np.diagonal(found.covariance)))
        effect = float(np.max(_EXCESS * std * beyond / error)) * float(rows.sum() / (rows @ beyond))
        return ClippingBias(share * of_all, noise, effect, "means and differences", "the bounds")

    @property
    def errors(self) -> RatioErrors:
        """The errors of the means."""
        design = self.plan.design
        ratio: Any = self._found.population
        low, high = design.y_center - design.y_half, design.y_center + design.y_half
        return RatioErrors(ratio, design.y_center, design.y_half, np.array([low]), np.array([high]))

    def compare(self, first: Any, second: Any) -> DifferenceErrors:
        """Return the errors of the differences between the means of some groups and of others."""
        one, other = self._found.compare(first, second)
        return DifferenceErrors(one, other, self.plan.design.y_half)

    def test_equal(self) -> tuple[Floats, Floats]:
        """Return the statistic of equal adjusted means, and its p-value by the chi-squared distribution.

        It is the smaller of two. Wald's takes the errors at the estimates. A noisy group has far longer limits than
        these say, so the other scores all groups at the common mean that the scores refute least.
        """
        means, covariance = self._found.means, self._found.covariance
        if isinstance(means, LevelMeans):
            # A mean that is moved to a bound of the outcomes, with both of its limits, would have no error.
            means = means.widen()
        low, high = means.ends(1.0)
        estimate, error = means.estimate[:, 0], (high - low)[:, 0] / 2
        inverse = np.linalg.inv(np.diag(error**2) + covariance)
        center = inverse.sum(axis=0) @ estimate / inverse.sum()
        statistic = (estimate - center) @ inverse @ (estimate - center)
        scores = _Scores(means, error, covariance)
        statistic = min(statistic, scores.least(float(estimate.min()), float(estimate.max())))
        return np.array([statistic]), np.array([chdtrc(len(estimate) - 1, statistic)])

    def list_notes(self, hidden: Sequence[str]) -> list[str]:
        """Return remarks about the assumptions; ``hidden`` are names of covariates whose slopes noise hides."""
        plan = self.plan
        if plan.steps is None:
            return [
                "Means are not adjusted: at this number of rows and epsilon, noise hides the slopes of the covariates.",
                *([] if plan.region.hard else ["Entries beyond the bounds are moved to the nearer bound."]),
            ]
        fit = self._found.path.fit
        clipped = fit.bias > 0
        notes = []
        if clipped.any():
            shown = [f"{plan.groups[k]} {fit.clip[k] / fit.scale:.1f}" for k in np.flatnonzero(clipped)]
            clips = ", ".join(shown[:_SHOWN])
            notes.append(
                "Differences assume residuals that are no more skewed than "
                f"{'lognormal' if fit.skewed else 'exponential'} ones. They are clipped at these multiples of their "
                f"standard deviation: {clips}{', ...' * (len(shown) > _SHOWN)}."
            )
        if plan.randomized:
            notes.append("Groups count as randomized: covariates have one distribution in all groups.")
        else:
            same = "by a linear model with the same slopes in all groups"
            notes.append(f"Groups are compared at equal covariates, {same}.")
        if self.clipped is not None:
            notes += self.clipped.notes
        if hidden:
            # Differences of randomized groups are right for any slope of a covariate.
            words = "their slopes count as 0" if plan.randomized else "their slopes can have any value"
            notes.append(f"Not adjusted for: {list_some(hidden)}. Noise hides the variation of these columns: {words}.")
        return notes


@dataclass(frozen=True, eq=False)
class _Scores:
    """The squared scores of groups with one common mean."""

    means: Any  # a Ratio or LevelMeans of shape (K, 1)
    error: Floats  # their standard errors, without those by errors of the slopes
    covariance: Floats  # of the errors by errors of the slopes

    def at(self, values: Floats) -> Floats:
        """Return the sum of squares of the scores at each of some common means."""
        z = self.means.score(values[None, :])
        correlation = np.eye(len(z)) + self.covariance / np.outer(self.error, self.error)
        return np.asarray((z * np.linalg.solve(correlation, z)).sum(axis=0))

    def least(self, low: float, high: float) -> float:
        """Return the least sum of squares at a common mean between two values."""
        best = math.inf
        for _ in range(_ROUNDS):
            grid = np.linspace(low, high, _GRID)
            found = self.at(grid)
            place = int(np.argmin(found))
            best = min(best, float(found[place]))
            low, high = grid[max(place - 1, 0)], grid[min(place + 1, _GRID - 1)]
        return best
