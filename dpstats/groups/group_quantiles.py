"""Medians and other quantiles of groups, with intervals and differences.

Proof: docs/proofs/quantiles.md, "Groups".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_level, check_privacy_parameters, check_real
from dpstats.data.rows import Rows
from dpstats.data.schema import Categories, Column, Schema
from dpstats.data.values import as_int64
from dpstats.errors import refuse
from dpstats.groups.comparisons import Differences
from dpstats.groups.ratios import place_of_group
from dpstats.inference.discovered_counts import FoundCounts, NormalNoise
from dpstats.inference.error_distributions import chosen_limits
from dpstats.inference.estimates import Estimates
from dpstats.inference.results import list_some
from dpstats.lattice.rounding import rows_that_count
from dpstats.mechanisms.unknown_bounds import plan_with_bounds, wants_bounds
from dpstats.privacy.guarantee import PrivacyGuarantee, quotient_up
from dpstats.privacy.stages import Choice, Stage
from dpstats.quantiles.grid import Grid, GridPlan, OneColumn, check_grid, check_sizes
from dpstats.quantiles.halving import group_rank_errors, group_windows, least_group_distances, offset_ranks
from dpstats.quantiles.quantile_plan import (
    CROWDED,
    ESCAPED,
    HIGH,
    LEAST_SCALE,
    LOW,
    POINT,
    POINTS,
    REGULAR,
    SPARE,
    TIED,
    WIDER,
    Target,
    rank_of,
)
from dpstats.release.estimator import fitted, parameters
from dpstats.release.groups import nested_reach
from dpstats.release.noise import check_scale
from dpstats.release.session import Part, Released, Session

# Plans, and ranks that follow from the released sizes of groups

ROWS = "rows of each group"
_LEAST_SHARE = 0.1
"""Least part of epsilon that counts the rows of the groups."""
_SURE = 2.0
"""How many standard deviations fewer and more rows than counted the ranks allow for."""
_COUNT_TAIL = 0.1
"""Part of the error probability for the number of rows of a group that was found."""
_MIDDLE = 0.5
_MOST_ROWS = 1 << 40
"""Part of the difference from its counted number of rows that a group's ranks follow."""
Numbers = NDArray[np.float64]


class Aims(NamedTuple):
    """The targets of a group of a counted size, by rising rank, and the number of rows that was counted."""

    anchor: int
    targets: tuple[Target, ...]

    @property
    def kinds(self) -> set[int]:
        """The kinds of points that are reported."""
        return {target.kind for target in self.targets}

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that the points aim at."""
        return tuple(target.rank for target in self.targets)

    def places(self, chosen: Any) -> dict[int, int]:
        """Return the places of the limits and the point, by kind."""
        ordered = np.sort(np.asarray(chosen)).tolist()
        return {target.kind: place for target, place in zip(self.targets, ordered, strict=True)}


@dataclass(frozen=True)
class GroupQuantilesPlan(GridPlan):
    """The plan of a `GroupQuantiles`.

    Attributes
    ----------
    groups : tuple
        The declared groups.
    q : float
    grid : Grid
        The public points that are chosen among.
    each : int
        Number of points that are chosen in each group: the limits of an interval, a point, or both.
    confidence_level : float or None
    missing : {"error", "drop"}
    threshold : float, optional
        The least released number of rows of a group, if groups are not declared. Its noise is then conditioned
        (`FoundCounts`).
    """

    groups: tuple[Any, ...]
    q: float
    grid: Grid
    each: int
    confidence_level: float | None
    missing: str
    threshold: float | None = None

    @property
    def choice(self) -> Choice:
        """The stage that chooses points."""
        stage = self.stages[-1]
        assert isinstance(stage, Choice)
        return stage

    @property
    def rank_scale(self) -> float:
        """The scale of the choice, in rows."""
        return self.choice.scale_steps / 2

    @property
    def rank_error(self) -> float:
        """Standard deviation of the error of a chosen rank, if rows are evenly spaced."""
        count = self.noise(ROWS).std * abs(self.q - _MIDDLE)
        return float(np.max(np.hypot(count, group_rank_errors(self.each, self.rank_scale).std)))

    @property
    def count_std(self) -> float:
        """Standard deviation of the noise in the number of rows of a group."""
        return float(np.max(self.noise(ROWS).std))

    @property
    def least_rows(self) -> int:
        """The least number of counted rows at which a group has an estimate and both limits of its interval."""
        return _least_rows(self)

    @property
    def crowded_rows(self) -> int:
        """The number of rows of a group below which coverage may be below the level."""
        return math.ceil(min(self.rank_error / (CROWDED * min(self.q, 1 - self.q)), _MOST_ROWS))

    def aims(self, anchor: int) -> Aims:
        """Return the ranks for a group with this counted number of rows."""
        return _aims(self, anchor)

    def aim(self, rows: int, each: int) -> tuple[int, ...]:
        """Return the ranks for a counted number of rows, where this plan is about ``each`` rows at a time."""
        near = self.aims(int(self.anchor(rows / each)))
        of = [_MIDDLE if target.kind == SPARE else self.q for target in near.targets]
        return tuple(
            each * (target.rank - rank_of(q, near.anchor)) + rank_of(q, rows)
            for target, q in zip(near.targets, of, strict=True)
        )

    def facts(self) -> dict[str, Any]:
        """Return the facts of the plan other than its stages."""
        return {
            "groups": [str(group) for group in self.groups],
            "q": self.q,
            "rank_error": self.rank_error,
            "least_rows": self.least_rows,
            "step": self.grid.spacing,
        }

    def notes(self) -> list[str]:
        """Return the facts as sentences."""
        least, each = self.least_rows, self.n_samples / len(self.groups)
        found = [f"standard deviation of a rank's error: about {self.rank_error:.3g} rows of each group"]
        what = (
            "an estimate" if self.confidence_level is None else "an estimate and both limits of an interval"
        )
        if least > each:
            found.append(
                f"warning: a group needs about {least:,} rows for {what}, and n/{len(self.groups)} = {each:.6g} is "
                "fewer. More rows, a larger epsilon, fewer groups or a coarser step help."
            )
        else:
            found.append(f"a group of about {least:,} rows or more has {what}")
        return found

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *(f"  {note}" for note in self.notes())])


def group_quantiles_plan(
    groups: tuple[Any, ...],
    n: int,
    q: float,
    grid: Grid,
    epsilon: float,
    level: float | None,
    missing: str,
) -> GroupQuantilesPlan:
    """Return the plan of the sizes of declared groups and of the points that are chosen in each.

    A replaced row may leave one group and enter another. It moves two counts by one. It moves the utility of each of
    the two groups by half a row, or the utility of its group by one row if it stays.
    """
    # This part of epsilon for the counts minimizes the error of a rank, for two chosen points. The variance is
    # 8 (q - 1/2)^2/share^2 + 16/(1 - share)^2, over epsilon^2.
    ratio = math.exp(math.log((q - _MIDDLE) ** 2 / 2) / 3) if q != _MIDDLE else 0.0
    share = max(_LEAST_SHARE, ratio / (1 + ratio))
    rows = check_scale(max(quotient_up(2, share * epsilon), LEAST_SCALE))
    scale = max(quotient_up(4, (1 - share) * epsilon * (1 - 2.0**-50)), LEAST_SCALE)
    each = _points_of_each(n / len(groups), q, scale / 2, level, grid.declared)
    nested_reach(scale, each, grid.points)  # refuses a scale that is too wide
    words = (
        "{size} of {candidates:,} points, exponential mechanism of scale {scale:.6g} in half rows of a group"
    )
    stages = (
        Stage(ROWS, "laplace", len(groups), 1.0, 2, rows),
        Choice(POINTS, each * len(groups), 4, scale, grid.points, words=words),
    )
    return GroupQuantilesPlan(stages, PrivacyGuarantee(epsilon), n, 1, groups, q, grid, each, level, missing)


def found_quantiles_plan(
    count: Stage, threshold: float, n: int, q: float, grid: Grid, epsilon: float, level: float | None
) -> GroupQuantilesPlan:
    """Return the plan of the points of groups that were found by their noisy counts of rows.

    ``count`` has the noise of a count before it is conditioned. The choice of the points costs epsilon.
    """
    scale = max(quotient_up(4, epsilon), LEAST_SCALE)
    each = _points_of_each(n, q, scale / 2, level, grid.declared)
    nested_reach(scale, each, grid.points)
    words = "{size} of {candidates:,} points, exponential mechanism of scale {scale:.6g} in half rows"
    choice = Choice(POINTS, each, 4, scale, grid.points, words=words, per_key=True)
    return GroupQuantilesPlan(
        (count, choice), PrivacyGuarantee(epsilon), n, 1, ("found",), q, grid, each, level, "drop", threshold
    )


def _points_of_each(n: float, q: float, scale: float, level: float | None, declared: bool) -> int:
    """Return the number of points of a group: a separate point if it widens the interval by 1% at most."""
    if level is None:
        return 1
    two, three = (group_rank_errors(size, scale).std ** 2 for size in (2, 3))
    sampling = q * (1 - q) * n
    return 3 if declared or sampling + three <= WIDER**2 * (sampling + two) else 2


@lru_cache(maxsize=1 << 14)
def _aims(plan: GroupQuantilesPlan, anchor: int) -> Aims:
    """Return the ranks for a group of a counted size."""
    # Distances from the bounds allow for fewer rows than counted, and those from the quantile for more.
    q, size = plan.q, plan.each
    if plan.threshold is not None:
        return _found_aims(plan, anchor, plan.threshold)
    margin = math.ceil(_SURE * plan.count_std)
    few, most = max(anchor - margin, 2), min(anchor + margin, plan.n_samples)
    targets = [Target(rank_of(q, few), POINT, 0)] if size != 2 else []
    level = plan.confidence_level
    if level is not None:
        unknown = float(np.max(plan.noise(ROWS).scale)) * abs(q - _MIDDLE)
        low, high = offset_ranks(q, most, size, plan.rank_scale, (1 - level) / 2, unknown, group_rank_errors)
        # Ranks of more rows, moved to fewer. Rounding two ranks adds at most one.
        change = rank_of(q, most) - rank_of(q, few)
        targets.append(Target(-1 if low is None else low - change - 1, LOW, 0))
        targets.append(Target(few + 1 if high is None else high - change + 1, HIGH, 0))
    return _settle(plan, targets, few, anchor, rank_of(q, anchor) - rank_of(q, few))


def _found_aims(plan: GroupQuantilesPlan, anchor: int, threshold: float) -> Aims:
    """Return the ranks for a group that was found with this noisy count."""
    # The rank of a group of N rows is r + (N - anchor)/2, and should be qN. The limits allow for all sizes N of an
    # interval that holds given that the group was found.
    q, size, level = plan.q, plan.each, plan.confidence_level
    # Rounding must not put the count below the threshold.
    counts = FoundCounts(
        np.array([max(float(anchor), threshold + 0.5)]), NormalNoise(plan.count_std), threshold
    )
    low, high = counts.limits(_COUNT_TAIL * (1 - (level or 0.5)) / 2)
    few, most = max(math.floor(low[0]), 2), max(min(math.ceil(high[0]), plan.n_samples), 2)
    shifts = [(q - _MIDDLE) * n for n in (few, float(counts.sizes[0]), most)]
    least, middle, largest = min(shifts), shifts[1], max(shifts)
    targets = [Target(round(few / 2 + middle), POINT, 0)] if size != 2 else []
    if level is not None:
        tail = (1 - _COUNT_TAIL) * (1 - level) / 2
        ends = offset_ranks(q, most, size, plan.rank_scale, tail, 0.0, group_rank_errors)
        below, above = (None if end is None else end - rank_of(q, most) for end in ends)
        targets += [
            Target(-1 if below is None else math.floor(few / 2 + least) + below - 1, LOW, 0),
            Target(few + 1 if above is None else math.ceil(few / 2 + largest) + above + 1, HIGH, 0),
        ]
    return _settle(plan, targets, few, anchor, anchor // 2 - few // 2)


def _settle(plan: GroupQuantilesPlan, targets: list[Target], few: int, anchor: int, change: int) -> Aims:
    """Return the targets for ``few`` rows that the bounds do not draw to them, with their ranks for the anchor."""
    share = ESCAPED * (1 - (plan.confidence_level or 0.5)) / plan.each
    least = least_group_distances(plan.each, plan.rank_scale, plan.grid.points, share)
    kept = _drop_close_targets(targets, few, least)
    moved = [t._replace(rank=anchor // 2 if t.kind == SPARE else t.rank + change) for t in kept]
    return Aims(anchor, tuple(sorted(moved)))


def _drop_close_targets(targets: list[Target], n: int, least: tuple[int, ...]) -> list[Target]:
    """Return targets that the bounds do not draw to them: the others become spare points in the middle."""
    # A lower limit near the upper bound moves inward, where it is still valid. So does an upper limit near the
    # lower bound.
    spare = Target(n // 2, SPARE, 0)
    while True:
        found = _nearest_failure(targets, n, least)
        if found is None:
            return targets
        target, side, distance = found
        if target.kind == SPARE:
            return [spare] * len(targets)
        inward = target.kind == LOW + HIGH - side and distance <= n
        moved = target._replace(rank=n - distance if side == HIGH else distance)
        targets = [t for t in targets if t != target] + [moved if inward else spare]


def _nearest_failure(targets: list[Target], n: int, least: tuple[int, ...]) -> tuple[Target, int, int] | None:
    """Return a target that is too near to a bound, the side of that bound, and the distance that it needs."""
    for side in (HIGH, LOW):
        ordered = sorted((n - t.rank if side == HIGH else t.rank, t) for t in targets)
        for (distance, target), needed in zip(ordered, least, strict=True):
            if distance < needed:
                return target, side, needed
    return None


@lru_cache(maxsize=64)
def _least_rows(plan: GroupQuantilesPlan) -> int:
    wanted = {POINT} if plan.confidence_level is None else {LOW, HIGH}
    unlimited = replace(plan, n_planned=_MOST_ROWS)

    def enough(rows: int) -> bool:
        return wanted <= unlimited.aims(rows).kinds

    low, high = 1, 4
    while high < _MOST_ROWS and not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


# The estimator

_SHOWN = 6


@parameters
class GroupQuantiles(OneColumn[GroupQuantilesPlan]):
    """Private medians of declared groups, with intervals and differences.

    Use this estimator to compare the medians, or another quantile, of a few groups. Each row is in one group, so
    that all groups together cost as much as one. Bounds may be loose, as for `PrivateQuantile`. For means, use
    `GroupMeans`.

    Parameters
    ----------
    q : float, default=0.5
        The fraction of the quantile, in (0, 1).
    groups : sequence
        Public, distinct labels of the groups; never read from the data. Rows with another label, and rows without
        one, are ignored.
    by : column name, optional
        Column of a data frame that contains the labels. ``fit(frame)`` then needs no ``y``.
    bounds : (low, high), "private" or UnknownBounds
        Public bounds, known without the data. A row outside counts as the nearer bound.
        "private" chooses them from the rows for a fifth of epsilon, without a step (`UnknownBounds`).
    step : float, optional
        Spacing of the data, such as 1 for counts. It must divide the range. Default: rows are rounded to a 2^20th of
        the range.
    confidence_level : float or None, default=0.95
        Level of each interval. The release chooses its limits for this level. None: no intervals, and smaller errors.
    missing : {"error", "drop"}, default="error"
        Treatment of a missing or infinite entry. "error" raises `InvalidData`. "drop" leaves its row out, at no cost:
        quantiles and counts are of the observed rows.
    missing_codes : sequence of numbers and text, optional
        Public codes of missing entries, such as ``[-999, "unk"]``, in all columns. Numbers are compared by value, words
        by text.
    epsilon : float, default=1.0
        Privacy parameter. Must be positive. A tenth of it, or more for quantiles far from the median, counts the rows
        of the groups.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every call of ``fit`` charges before it draws noise. Clones share it.

    Attributes
    ----------
    groups_ : tuple
        The declared groups, in their order.
    counts_ : ndarray of shape (n_groups,)
        Noisy number of rows of each group. It can be negative.
    counts_noise_std_ : float
        Standard deviation of the noise in ``counts_``.
    quantile_ : ndarray of shape (n_groups,)
        A separately chosen point, or the middle of the interval if a point would widen intervals by more than 1%. NaN
        for a group with too few rows: ``plan_.least_rows`` says how many are needed.
    low_, high_ : ndarray of shape (n_groups,)
        Limits of the intervals. A limit is the bound if the rows do not support a better one. NaN without intervals.
    privacy_ : PrivacyGuarantee
        Guarantee of the fit, for neighboring datasets that differ in one row: its label and its entry. The number of
        rows is public; the group sizes are private.
    plan_ : GroupQuantilesPlan
        The release plan: every released quantity and its noise.
    n_features_in_ : int
        Number of columns: 1.
    feature_names_in_ : ndarray of shape (1,)
        Column name. Only if ``X`` has one.

    Notes
    -----
    **Privacy.** Noisy counts come first. In each group an exponential mechanism then chooses the limits and the point.
    The utility is minus their largest distance from ranks that follow half of the group's own size. A row that enters
    or leaves a group moves it by half a row, so that a row that changes its group costs as much as one that stays.

    **Intervals.** The limits aim at ranks beyond the rank of the quantile, as in `PrivateQuantile`.

    **Differences.** Limits of a difference combine the limits of both groups (Zou and Donner 2008).

    References
    ----------
    Zou and Donner (2008), Construction of confidence limits about effect measures: a general approach.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.groups import GroupQuantiles
    >>> rng = np.random.default_rng(0)
    >>> ward = rng.choice(["A", "B"], size=8_000)
    >>> days = rng.lognormal(np.where(ward == "A", 1.5, 1.0))
    >>> medians = GroupQuantiles(groups=["A", "B"], bounds=(0, 365), epsilon=1.0, random_state=0).fit(days, ward)
    >>> medians.quantile_.round(1)
    array([4.5, 2.7])
    >>> low, high = medians.difference("A", "B").confidence_interval()
    >>> bool(low[0] < np.exp(1.5) - np.exp(1.0) < high[0])
    True
    """

    q: float = 0.5
    groups: Any = None
    by: Any = None
    bounds: Any = None
    step: float | None = None
    confidence_level: float | None = 0.95
    missing: str = "error"
    missing_codes: Any = None
    epsilon: float = 1.0
    random_state: Any = None
    budget: Any = None
    groups_: tuple[Any, ...] = fitted()
    counts_: Numbers = fitted()
    counts_noise_std_: float = fitted()
    quantile_: Numbers = fitted()
    low_: Numbers = fitted()
    high_: Numbers = fitted()

    def plan(self, n_samples: int, n_features: int = 1) -> GroupQuantilesPlan:
        """Return the release plan of a fit on data of this size.

        Parameters
        ----------
        n_samples : int
            Public: the number of rows, of all groups together.
        n_features : int
            1. The column of labels does not count.

        Examples
        --------
        >>> from dpstats.groups import GroupQuantiles
        >>> print(GroupQuantiles(groups=["A", "B"], bounds=(0, 365)).plan(5000))
        Release plan for n = 5000, d = 1: (epsilon = 1, delta = 0), one row replaced
          rows of each group: 2 numbers, Laplace noise of scale 20
          points: 4 of 1,048,577 points, exponential mechanism of scale 4.44444 in half rows of a group
          standard deviation of a rank's error: about 4.43 rows of each group
          a group of about 189 rows or more has an estimate and both limits of an interval
        """
        n = check_sizes(n_samples, n_features)
        if wants_bounds(self.bounds):
            return cast(GroupQuantilesPlan, plan_with_bounds(self, n, 1, tails=False))
        epsilon, _ = check_privacy_parameters(self.epsilon, 0.0)
        q = check_real("q", self.q, above=0, below=1)
        level = self.confidence_level
        if level is not None:
            level = check_level("confidence_level", level)
        missing = self._policy()
        grid = check_grid(self.bounds, self.step)
        return group_quantiles_plan(self._categories().values, n, q, grid, epsilon, level, missing)

    def _schema(self) -> Schema:
        labels = Column(
            "groups",
            self.by,
            self._categories(),
            "y" if self.by is None else "by",
            meaning="a label for each row (or by, the column of a data frame that has them)",
        )
        return replace(super()._schema(), beside=(labels,))

    def _categories(self) -> Categories:
        if self.groups is None:
            raise refuse("groups", allowed="given: the public labels of the groups")
        return Categories(self.groups, "groups")

    def _read(self, rows: Rows, plan: GroupQuantilesPlan) -> Any:
        table = rows.whole()
        assert table.groups is not None
        counted = rows_that_count(table.X, plan.missing)
        places, codes = plan.grid.places(table.X[counted, 0]), table.groups[counted]
        return [np.sort(places[codes == k]) for k in range(len(plan.groups))]

    def _release(self, private: Any, plan: GroupQuantilesPlan, session: Session) -> None:
        release_group_points(private, plan, session)

    def _report(self, released: Released, plan: GroupQuantilesPlan) -> None:
        self.groups_, self.counts_ = plan.groups, np.asarray(released[ROWS], dtype=np.float64)
        self.counts_noise_std_ = plan.count_std
        self.quantile_, self.low_, self.high_ = read_group_points(released, plan)

    @property
    def _kind(self) -> tuple[str, str]:
        """The name of the estimate, and its fraction unless it is a median."""
        q = self.plan_.q
        return ("median", "") if q == 0.5 else ("quantile", f"q = {q:g}")

    def estimates(self) -> Estimates:
        """Return the quantiles with the intervals whose ends were chosen: they can be pickled without the estimator.

        Intervals have one level, the estimator's, and there are no p-values.
        """
        self._fitted()
        plan, points, (kind, which) = self.plan_, self.quantile_, self._kind
        sizes = list_some([f"{count:,.0f}" for count in self.counts_])
        return Estimates(
            points,
            None,
            tuple(str(group) for group in self.groups_),
            self._add_bounds(f"the {kind}{which and ' '}{which} of each group's population"),
            chosen_limits(points, self.low_, self.high_, plan.confidence_level),
            title=f"Private {kind}s of groups{which and ', '}{which}",
            header=kind,
            labels={"group": list(self.groups_)},
            facts=[
                *self._first_facts(),
                ("Rows of groups", f"{sizes} (noise: sd {self.counts_noise_std_:.3g})"),
                ("Error of a rank", f"sd {plan.rank_error:.3g} rows, if rows are evenly spaced"),
            ],
            notes=self._notes(),
            exact=plan.grid.declared,
            simulated=self.privacy_.simulated,
        )

    def difference(self, a: Any, b: Any) -> Differences:
        """Compare the quantiles of two groups, without additional privacy cost.

        Parameters
        ----------
        a, b : labels of declared groups

        Returns
        -------
        Differences
            ``estimate`` of shape (1,), and ``confidence_interval()`` at the estimator's level: the quantile of a minus
            the quantile of b. There is no p-value. A value outside the interval of level 0.95 is rejected at level
            0.05.
        """
        self._fitted()
        i, j = place_of_group("a", a, self.groups_), place_of_group("b", b, self.groups_)
        if i == j:
            raise refuse("b", given=b, allowed="another group than a")
        plan, kind = self.plan_, self._kind[0]
        (x, y), (low_x, low_y), (high_x, high_y) = (
            each[[i, j]] for each in (self.quantile_, self.low_, self.high_)
        )
        if np.isfinite(x - y):
            # Distances of limits from estimates add up as squares.
            low = x - y - np.hypot(x - low_x, high_y - y)
            high = x - y + np.hypot(high_x - x, y - low_y)
        else:
            # Without one of the estimates, take the furthest values that both intervals allow.
            low, high = low_x - high_y, high_x - low_y
        estimate = np.array([x - y])
        return Differences(
            estimate,
            None,
            (f"{self.groups_[i]} - {self.groups_[j]}",),
            self._add_bounds(f"the difference of the populations' {kind}s"),
            chosen_limits(estimate, np.array([low]), np.array([high]), plan.confidence_level),
            title=f"Private difference of {kind}s",
            header="difference",
            labels={"first": [self.groups_[i]], "second": [self.groups_[j]], "column": [self._name]},
            notes=self._assumptions(),
            simulated=self.privacy_.simulated,
        )

    def _notes(self) -> list[str]:
        plan = self.plan_
        few = [str(group) for group, x in zip(self.groups_, self.quantile_, strict=True) if np.isnan(x)]
        notes = []
        if few:
            notes.append(
                f"Too few rows for an estimate: {list_some(few)}. A group needs about {plan.least_rows:,} rows at this "
                "epsilon. A limit at a bound is not informative."
            )
        if plan.confidence_level is not None:
            notes += self._assumptions()
            notes.append("Intervals are not simultaneous.")
        notes.append("Rows with an undeclared label are ignored. Group sizes are private estimates.")
        return notes

    def _assumptions(self) -> list[str]:
        """Return the assumptions of the intervals, and where they are rough."""
        found = [] if self.plan_.grid.declared else [f"{TIED}."]
        found.append(f"Intervals assume independent rows. {REGULAR}")
        least = self.plan_.crowded_rows
        crowded = [str(g) for g, rows in zip(self.groups_, self.counts_, strict=True) if rows < least]
        if crowded:
            found.append(
                f"Few rows for this epsilon in {list_some(crowded)}: fewer than {least:,}. Coverage there "
                "may be below the level."
            )
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def release_group_points(places: Any, plan: GroupQuantilesPlan, session: Session) -> None:
    """Release the points of a plan for the rows of each group, at sorted places of its grid."""
    choose_group_points(places, session.add(ROWS, np.array([own.size for own in places])), plan, session)


def choose_group_points(
    places: Any, counts: Any, plan: GroupQuantilesPlan, session: Session, each: int = 1
) -> None:
    """Choose the points of a plan after the sizes of the groups. The plan is about ``each`` rows at a time."""
    counted = as_int64(np.clip(np.rint(counts), 2 * each, plan.n_samples))
    parts = []
    for own, count in zip(places, np.moveaxis(counted, -1, 0), strict=True):
        anchors, case = np.unique(count, return_inverse=True)
        cases = [
            group_windows(own, plan.aim(anchor, each), anchor, plan.grid.steps, each)
            for anchor in anchors.tolist()
        ]
        parts.append(Part(cases, case.reshape(-1)))
    session.choose(POINTS, parts)


def read_group_points(released: Released, plan: GroupQuantilesPlan) -> tuple[Numbers, Numbers, Numbers]:
    """Return the point of each group, and the limits of its interval."""
    grid, count = plan.grid, len(plan.groups)
    points, low, high = np.full((3, count), np.nan)
    if plan.confidence_level is not None:
        low[:], high[:] = grid.low, grid.high
    # Rows are within half a step of where they were, unless the step is theirs.
    half = 0.0 if grid.declared else grid.spacing / 2
    chosen = np.reshape(released[POINTS], (count, plan.each))
    for k, anchor in enumerate(plan.anchor(released[ROWS]).tolist()):
        found = {
            kind: float(grid.values(place)) for kind, place in plan.aims(anchor).places(chosen[k]).items()
        }
        if POINT in found:
            points[k] = found[POINT]
        elif LOW in found and HIGH in found:
            points[k] = (found[LOW] + found[HIGH]) / 2
        if LOW in found:
            low[k] = max(found[LOW] - half, grid.low)
        if HIGH in found:
            high[k] = min(found[HIGH] + half, grid.high)
    return points, low, high
