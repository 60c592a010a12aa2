"""MEDIAN and other quantiles: the releases of `PrivateQuantile` and `GroupQuantiles`, on the rows of a query.

Proof: docs/proofs/quantiles.md, "In SQL".
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.rows import LEFT_OUT
from dpstats.errors import ScaleOutOfRange
from dpstats.groups.group_points import ROWS as GROUP_ROWS
from dpstats.groups.group_points import (
    GroupQuantilesPlan,
    choose_group_points,
    found_quantiles_plan,
    group_quantiles_plan,
    read_group_points,
)
from dpstats.inference.error_distributions import chosen_limits
from dpstats.inference.estimates import Estimates
from dpstats.inference.noisy_counts import FoundCounts
from dpstats.inference.results import list_some
from dpstats.privacy.events import BoundedRange, Event
from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee, quotient_up
from dpstats.privacy.plan import largest_cost
from dpstats.privacy.stages import AnyStage, Choice, Discovery, OneOf, Stage
from dpstats.quantiles.quantile import choose_points, read_points
from dpstats.quantiles.quantile_plan import ROWS, QuantilePlan, observed_plan, points_plan
from dpstats.release.groups import LARGEST_NESTED, LARGEST_REACH, first_reach, nested_reach
from dpstats.release.session import Released, Session
from dpstats.sql.answers import (
    DISCOVERY_BITS,
    HALF_ROW,
    THRESHOLD_SHARE,
    CellAnswers,
    Numbers,
    SQLPlan,
    Threshold,
    exclude_unitless,
    plan_shares,
)
from dpstats.sql.answers import ROWS as KEY_ROWS
from dpstats.sql.query import Quantiles, Query, Several

FOUND_SHARE = 0.3
"""Part of epsilon that finds keys, where they are not declared: keys of few rows have no quantile in any case."""
MOST_ROWS = 2**31
"""Quantiles assume no more rows, where the number of rows is private."""


@dataclass(frozen=True)
class SQLQuantilesPlan(SQLPlan):
    """The plan of quantiles of the rows of a query, or of each cell of its GROUP BY.

    Attributes
    ----------
    points : QuantilePlan or GroupQuantilesPlan
        The plan of the choice.
    threshold : Threshold, optional
        The choice of the number of rows that a unit counts as at most.
    most : int
        The largest number of rows of a unit that are kept. With a larger threshold all units are sampled.
    """

    points: QuantilePlan | GroupQuantilesPlan = field(kw_only=True)
    threshold: Threshold | None = field(default=None, kw_only=True)
    most: int = field(default=1, kw_only=True)

    @property
    def method(self) -> str:
        return "ranks"

    @property
    def rows(self) -> str:
        """The name of the stage of the numbers of rows."""
        return GROUP_ROWS if isinstance(self.points, GroupQuantilesPlan) else ROWS

    @property
    def limits(self) -> tuple[tuple[int, int], ...]:
        """For each threshold the rows that a unit counts as at most, and the rows of it that are kept at most."""
        if self.threshold is None:
            return ((1, 1),)
        return tuple((1 << j, min(1 << j, self.most)) for j in self.threshold.each)


def quantiles_plan(query: Query, guarantee: PrivacyGuarantee, n_rows: int, level: float | None) -> SQLQuantilesPlan:
    """Return the plan of quantiles, where a private row is in at most one row of the result.

    Rows that do not meet the conditions, and rows without a value, are missing rows of the release.

    Parameters
    ----------
    query : Query
    guarantee : PrivacyGuarantee
    n_rows : int
        Public: the number of rows of the private table. Where that is private, a limit that it does not reach.
    level : float or None
        Level of the intervals.
    """
    quantiles = query.quantiles
    assert quantiles is not None
    pure, n = replace(guarantee, delta=0.0), max(n_rows, 2)
    # A row that is added is one of the limit's rows that was missing. It moves one group, and a replaced row two.
    groups_moved = 2 if query.added and query.groups else 1
    assumed = PrivacyGuarantee(pure.epsilon * groups_moved)
    points: QuantilePlan | GroupQuantilesPlan
    if query.groups:
        cells = tuple(range(query.cells))
        points = group_quantiles_plan(cells, n, quantiles.q, quantiles.grid, assumed.epsilon, level, "drop")
    else:
        points = points_plan(n, quantiles.grid, tuple(sorted(quantiles.q)), assumed, level, "regular", "drop")
    stages = tuple(_add_row(stage, groups_moved) if query.added else stage for stage in points.stages)
    return SQLQuantilesPlan(stages, pure, query, points=points)


def found_plan(query: Query, guarantee: PrivacyGuarantee, level: float | None) -> SQLQuantilesPlan:
    """Return the plan of a quantile of each key that is found by its noisy count of rows."""
    quantiles = query.quantiles
    assert quantiles is not None
    first = replace(guarantee, epsilon=FOUND_SHARE * guarantee.epsilon)
    stage = plan_shares(Several((), ()).of_bits(DISCOVERY_BITS), first)
    rest = _find_rest(stage, guarantee)
    # A replaced row is in two keys.
    moved = 2 if query.added else 1
    scale = stage.touched.scale_steps(stage.counts)
    count = Stage(GROUP_ROWS, "gaussian", 1, stage.counts.spacing, stage.row_steps, scale)
    points = found_quantiles_plan(count, stage.threshold, MOST_ROWS, quantiles.q, quantiles.grid, moved * rest, level)
    choice = _add_row(points.choice, moved) if query.added else points.choice
    return SQLQuantilesPlan((stage, choice), guarantee, query, points=points)


@lru_cache(maxsize=64)
def _find_rest(stage: Discovery, guarantee: PrivacyGuarantee) -> float:
    """Return the cost of a choice that composes with a discovery to a guarantee."""
    start = (1 - FOUND_SHARE) * guarantee.epsilon * (1 - 2.0**-50)

    def events(cost: float) -> list[Event]:
        # The scale of the choice is rounded up, and its own cost is certified: the last digit may change a total.
        charged = quotient_up(1, quotient_up(1, cost))
        return [*stage.events, BoundedRange(charged, neighbors=stage.neighbors)]

    return largest_cost(events, guarantee, start)


def unit_quantiles_plan(
    query: Query, guarantee: PrivacyGuarantee, level: float | None, powers: int
) -> SQLQuantilesPlan:
    """Return the plan of quantiles where a unit is in any number of rows, and counts as at most 2^powers of them.

    A threshold is chosen first. Given the threshold, the release is the one for rows, about several rows at a time.
    """
    threshold = Threshold("rows of a unit", THRESHOLD_SHARE * guarantee.epsilon, (0, powers), guarantee.neighbors)
    rest = replace(guarantee, epsilon=(guarantee.epsilon - threshold.epsilon) * (1 - 2.0**-50))
    one = quantiles_plan(query, rest, MOST_ROWS, level)
    number, choice = one.stages
    assert isinstance(number, Stage) and isinstance(choice, Choice)
    most = 1
    while most < 1 << powers and _is_quick(2 * most * choice.scale_steps, one.points):
        most *= 2
    plan = replace(one, threshold=threshold, most=most)
    options = tuple(
        replace(number, sensitivity_steps=k * number.sensitivity_steps, scale_steps=k * number.scale_steps)
        for _, k in plan.limits
    )
    words = choice.words.replace("ranks", "multiples of the rows of a unit").replace(
        "half rows", "halves of the rows of a unit"
    )
    stages = (threshold.stage, OneOf(number.name, options), replace(choice, words=words))
    return replace(plan, stages=stages, target=replace(guarantee, delta=0.0))


def _is_quick(scale: float, points: QuantilePlan | GroupQuantilesPlan) -> bool:
    """Return whether points can be chosen in about a second."""
    with contextlib.suppress(ScaleOutOfRange):
        if isinstance(points, GroupQuantilesPlan):
            return nested_reach(scale, points.each, points.grid.points) <= LARGEST_NESTED >> 2
        return first_reach(scale, points.chosen) <= LARGEST_REACH >> 2
    return False


def _add_row(stage: AnyStage, groups_moved: int) -> AnyStage:
    """Return a stage for a row that is added or removed, from the stage for a replaced row."""
    if isinstance(stage, Choice):
        return replace(stage, range_steps=stage.range_steps // groups_moved, neighbors=Neighbors.ADD_OR_REMOVE_ONE)
    assert isinstance(stage, Stage)
    moved = stage.sensitivity_steps // groups_moved
    return replace(stage, sensitivity_steps=moved, neighbors=Neighbors.ADD_OR_REMOVE_ONE)


def sort_places(columns: Sequence[NDArray[np.int64]], query: Query, limit: int = 0) -> list[NDArray[np.int64]]:
    """Return the sorted places of each cell, from columns: cell, place, numbers of rows for each limit of a unit.

    Without numbers, each place is of one row.
    """
    assert query.quantiles is not None
    width = query.quantiles.grid.steps + 1
    keys = columns[0] * width + columns[1]
    if len(columns) == 2:
        keys = np.sort(keys)
    else:
        order = np.argsort(keys)
        keys = np.repeat(keys[order], columns[2 + limit][order])
    ends = np.searchsorted(keys, width * np.arange(query.cells + 1))
    return [keys[first:last] - width * cell for cell, (first, last) in enumerate(pairwise(ends))]


def repeat_places(held: list[tuple[int, int]]) -> NDArray[np.int64]:
    """Return sorted places, from places and their numbers of rows."""
    places, times = np.array(sorted(held), dtype=np.int64).reshape(-1, 2).T
    return np.repeat(places, times)


@dataclass(frozen=True, eq=False, repr=False)
class QuantileAnswers(CellAnswers):
    """Quantiles of a column for the rows of a query, or for each cell of its GROUP BY, with intervals.

    Attributes
    ----------
    names : tuple of str
        Names of the columns of GROUP BY.
    cells : tuple of tuple
        Their declared values.
    labels : tuple of str
        Names of the quantiles.
    values : ndarray of shape (n_cells, n_quantiles)
        NaN where too few rows are between the quantile and a bound.
    low, high : ndarrays of shape (n_cells, n_quantiles)
        Limits of the intervals. A limit is the bound if the rows do not support a better one. NaN without intervals.
    level : float or None
        Level of the intervals, for which the limits were chosen.
    rows : ndarray of shape (n_cells,)
        Noisy numbers of rows that have a value.
    guarantee : PrivacyGuarantee
    text : str
        The query.
    method : str
        "ranks": points are selected by their ranks.
    thresholds : tuple of float
        How many rows a unit adds at most: chosen privately.

    Examples
    --------
    >>> import duckdb
    >>> from dpstats.sql import PrivateSQL
    >>> db = duckdb.connect()
    >>> _ = db.execute("CREATE TABLE visit AS SELECT range % 2 AS clinic, range % 100 AS days FROM range(9000)")
    >>> sql = PrivateSQL(
    ...     db, epsilon=1.0, categories={"visit.clinic": [0, 1]}, bounds={"visit.days": (0, 365)}, random_state=0
    ... )
    >>> medians = sql.query("SELECT clinic, MEDIAN(days) FROM visit GROUP BY clinic")
    >>> medians.cells, medians["median_days"]
    (((0,), (1,)), array([49., 50.]))
    """

    low: Numbers
    high: Numbers
    level: float | None
    rows: Numbers
    guarantee: PrivacyGuarantee
    text: str
    quantiles: Quantiles = field(repr=False)
    points: QuantilePlan | GroupQuantilesPlan = field(repr=False)
    method: str = "ranks"
    thresholds: tuple[float, ...] = ()
    found: FoundCounts | None = field(default=None, repr=False)

    def show(self, places: list[int], selected: float) -> QuantileAnswers:
        """Return the answers of some cells, in this order. Released values must not have selected them."""
        parts = {name: getattr(self, name)[places] for name in ("values", "low", "high", "rows")}
        return replace(self, cells=tuple(self.cells[place] for place in places), **parts)

    @property
    def estimand(self) -> str:
        """Description of the covered quantities."""
        of = "each group's population" if self.names else "the population"
        weights = ""
        if self.thresholds:
            most = f"{self.thresholds[0]:.10g}"
            unit = self.guarantee.unit
            weights = f"; the rows of one {unit} together have at most the weight of {most}{exclude_unitless(unit)}"
        return self.quantiles.grid.add_bounds(f"the quantiles of {of}") + weights

    def estimates(self) -> Estimates:
        """Return the quantiles with their chosen intervals, which have one level."""
        points, low, high = (part.T.ravel() for part in (self.values, self.low, self.high))
        grid, std = self.quantiles.grid, self._rows_std
        rows = list_some([f"{count:,.0f}" for count in self.rows]) or "no group"
        return Estimates(
            points,
            None,
            estimand=self.estimand,
            distribution=chosen_limits(points, low, high, self.level),
            title="Private quantiles",
            header="quantile",
            facts=[
                ("Query", " ".join(self.text.split())),
                *self.guarantee.facts(),
                ("Bounds", f"{grid.low:g} to {grid.high:g} (public)"),
                ("Rows", f"{rows} (noise: sd {std:.3g})"),
                ("Error of a rank", f"sd {self._each * self.points.rank_error:.3g} rows, if rows are evenly spaced"),
            ],
            notes=self._notes(),
            exact=grid.declared,
            simulated=self.guarantee.simulated,
            **self._name_rows("quantile"),
        )

    @property
    def _each(self) -> float:
        """The number of rows of a unit, for which the plan of the points has one."""
        return self.thresholds[0] if self.thresholds else 1.0

    @property
    def _rows_std(self) -> float:
        points = self.points
        return self._each * (points.count_std if isinstance(points, GroupQuantilesPlan) else points.rows_std)

    def _notes(self) -> list[str]:
        notes, points = [], self.points
        if self.found is not None:
            notes.append(self.found.note)
        else:
            notes += self._note_noise_only(self.rows[:, None] < max(2 * self._rows_std, HALF_ROW))
            notes += [LEFT_OUT] * bool(self.names)
        if np.isnan(self.values).any():
            notes.append(
                "NaN: too few rows lie between the quantile and a bound for this epsilon. More rows, a larger epsilon "
                "or fewer quantiles help."
            )
        if self.level is None:
            return notes
        independent = "rows."
        if self.thresholds:
            independent = f"{self.guarantee.unit}s, whose own rows may depend on each other."
        notes.append(
            f"Intervals include sampling error. They assume independent {independent} Near the quantile there must be "
            "no gap, such as between two clusters, and no real number that many rows share, such as 0 or a bound."
        )
        if isinstance(points, GroupQuantilesPlan):
            least = math.ceil(self._each * points.crowded_rows)
            crowded = bool((self.rows < least).any())
            where = f"groups of fewer than {least:,} rows"
        else:
            near = observed_plan(points, int(points.anchor(self.rows[0] / self._each)))
            crowded = bool(near.crowded)
            where = "q = " + ", ".join(f"{q:g}" for q in near.crowded)
        if crowded:
            notes.append(f"Few rows for this epsilon in {where}. Intervals there may undercover.")
        if len(self.labels) * len(self.cells) > 1:
            notes.append("Intervals are not simultaneous.")
        return notes


def quantiles_answered(
    query: Query, plan: SQLQuantilesPlan, released: Released, guarantee: PrivacyGuarantee
) -> QuantileAnswers:
    """Return the quantiles from their release."""
    quantiles, points, scale = query.quantiles, plan.points, 1.0
    thresholds: tuple[float, ...] = ()
    assert quantiles is not None
    cells, counted = tuple(query.cell(i) for i in range(query.cells)) if not query.discovers else (), None
    if query.discovers:
        assert isinstance(points, GroupQuantilesPlan)
        release, stage = released[plan.discovery.name], plan.discovery
        cells, counts = tuple(map(query.key_values, release["labels"])), release[KEY_ROWS][:, 0]
        counted = FoundCounts(counts, stage.count_noise, stage.threshold)
        points, released = replace(points, groups=cells), {**released, GROUP_ROWS: counts}
    if plan.threshold is not None:
        place, counts = released[plan.rows]
        most, each = plan.limits[place]
        released, thresholds, scale = {**released, plan.rows: counts / each}, (float(most),), float(most)
    if isinstance(points, GroupQuantilesPlan):
        values, low, high = (part.reshape(-1, 1) for part in read_group_points(released, points))
        rows = scale * np.asarray(released[GROUP_ROWS] if counted is None else counted.sizes, dtype=np.float64)
    else:
        order = np.argsort(np.argsort(quantiles.q))
        values, low, high = (part[order].reshape(1, -1) for part in read_points(released, points))
        rows = scale * np.asarray(released[ROWS], dtype=np.float64)
    return QuantileAnswers(
        tuple(group.name for group in query.groups),
        cells,
        quantiles.labels,
        values,
        low,
        high,
        points.confidence_level,
        rows,
        guarantee,
        query.text,
        quantiles,
        points,
        thresholds=thresholds,
        found=counted,
    )


def choose_unit_points(
    cells: Sequence[NDArray[np.int64]], rows: Any, plan: SQLQuantilesPlan, limit: int, session: Session
) -> None:
    """Choose the points of every cell after the numbers of rows were released, for a limit of a unit."""
    points, (_, each) = plan.points, plan.limits[limit]
    if isinstance(points, GroupQuantilesPlan):
        choose_group_points(cells, rows, points, session, each)
    else:
        choose_points(cells[0], rows, points, session, each)
