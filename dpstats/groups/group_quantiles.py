"""Medians and other quantiles of declared groups, with intervals and differences.

Proof: docs/proofs/quantiles.md, "Groups".
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dpstats.data.arithmetic import as_int64
from dpstats.data.levels import Categories
from dpstats.data.parameters import check_level, check_privacy_parameters, check_real
from dpstats.data.schema import Column, Schema
from dpstats.data.tables import Rows
from dpstats.error_distributions import chosen_limits
from dpstats.errors import refuse
from dpstats.groups.base import place_of_group
from dpstats.groups.differences import Differences
from dpstats.groups.quantile_plan import ROWS, GroupQuantilesPlan, Numbers, group_quantiles_plan
from dpstats.inference import Estimates
from dpstats.lattice.finite import rows_that_count
from dpstats.quantiles.column import OneColumn, check_sizes
from dpstats.quantiles.grid import check_grid
from dpstats.quantiles.joint import group_windows
from dpstats.quantiles.plan import HIGH, LOW, POINT, POINTS, REGULAR
from dpstats.release.parameters import HasMissingCodes, parameters
from dpstats.release.session import Part, Released, Session
from dpstats.results import list_some

_SHOWN = 6


class _Fitted(OneColumn[GroupQuantilesPlan]):
    """What a fit sets: attributes, and no parameters."""

    groups_: tuple[Any, ...]
    counts_: Numbers
    counts_noise_std_: float
    quantile_: Numbers
    low_: Numbers
    high_: Numbers


@parameters
class GroupQuantiles(_Fitted, HasMissingCodes):
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
    bounds : (low, high)
        Public bounds, known without the data. A row outside counts as the nearer bound.
    step : float, optional
        Spacing of the data, such as 1 for counts. It must divide the range. Default: rows are rounded to a 2^20th of
        the range.
    epsilon : float, default=1.0
        Privacy parameter. Must be positive. A tenth of it, or more for quantiles far from the median, counts the rows
        of the groups.
    confidence_level : float or None, default=0.95
        Level of each interval. The release chooses its limits for this level. None: no intervals, and smaller errors.
    by : column name, optional
        Column of a data frame that contains the labels. ``fit(frame)`` then needs no ``y``.
    missing : {"error", "drop"}, default="error"
        Treatment of a missing or infinite entry. "error" raises `InvalidData`. "drop" leaves its row out, at no cost:
        quantiles and counts are of the observed rows.
    missing_codes : sequence of numbers and text, optional
        Public codes of missing entries, such as ``[-999, "unk"]``, in all columns. Numbers are compared by value, words
        by text.
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
    bounds: Any = None
    step: float | None = None
    epsilon: float = 1.0
    confidence_level: float | None = 0.95
    by: Any = None
    missing: str = "error"
    random_state: Any = None
    budget: Any = None

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
        found = [f"Intervals assume independent rows. {REGULAR}"]
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
