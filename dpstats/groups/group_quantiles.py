"""Medians and other quantiles of groups, with intervals and differences.

Proof: docs/proofs/quantiles.md, "Groups".
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import Any, cast

import numpy as np

from dpstats.data.parameters import check_level, check_privacy_parameters
from dpstats.data.rows import LEFT_OUT, Rows, empty_groups_note
from dpstats.data.schema import Categories, Column, Schema
from dpstats.errors import refuse
from dpstats.groups.comparisons import Differences, combine_limits
from dpstats.groups.group_points import (
    ROWS,
    GroupQuantilesPlan,
    Numbers,
    group_quantiles_plan,
    read_group_points,
    release_group_points,
)
from dpstats.groups.ratios import list_pairs, place_of_group
from dpstats.inference.error_distributions import chosen_limits
from dpstats.inference.estimates import Estimates
from dpstats.inference.figures import draw_boxes, plain
from dpstats.inference.results import list_some
from dpstats.lattice.rounding import rows_that_count
from dpstats.mechanisms.unknown_bounds import plan_with_bounds, wants_bounds
from dpstats.quantiles.grid import OneColumn, check_grid, check_sizes
from dpstats.quantiles.quantile import check_fractions
from dpstats.quantiles.quantile_plan import TIED, regular_note
from dpstats.release.estimator import fitted, parameters
from dpstats.release.session import Released, Session


@parameters
class GroupQuantiles(OneColumn[GroupQuantilesPlan]):
    """Private medians and other quantiles of declared groups, with intervals, differences and ratios.

    Use this estimator to compare the medians, or other quantiles, of a few groups. Each row is in one group, so that
    all groups together cost as much as one, and several quantiles are one release. Bounds may be loose, as for
    `PrivateQuantile`. For means, use `GroupMeans`.

    Parameters
    ----------
    q : float or sequence of float, default=0.5
        The fraction of the quantile, in (0, 1), or of several, such as ``[0.25, 0.5, 0.75]``. These are chosen together
        and sorted.
    groups : sequence
        Public, distinct labels of the groups; never read from the data. Rows with another label, and rows without
        one, are left out.
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
    quantile_ : ndarray of shape (n_groups,), or (n_groups, m) of several quantiles
        A separately chosen point, or the middle of the interval if a point would widen intervals by more than 1%. NaN
        for a group with too few rows: ``plan_.least_rows`` says how many are needed.
    low_, high_ : ndarray of the shape of ``quantile_``
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

    **Differences.** Limits of a difference combine the limits of both groups (Zou and Donner 2008). A ratio is a
    difference of logarithms.

    **Limits.** As for `PrivateQuantile`, a gap or a shared value near the quantile is not detected. Small groups
    have no estimate. Intervals exist for the declared level only, and there are no p-values.

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
    >>> quartiles = GroupQuantiles([0.25, 0.5, 0.75], groups=["A", "B"], bounds=(0, 365), random_state=0)
    >>> quartiles.fit(days, ward).quantile_.round(1)
    array([[2.3, 4.5, 9.1],
           [1.4, 2.8, 5.5]])
    """

    q: Any = field(default=0.5, kw_only=False)
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
          standard deviation of a rank's error: about 4.43 evenly spaced rows of each group
          a group of about 189 rows or more has an estimate and both limits of an interval
        """
        n = check_sizes(n_samples, n_features)
        if wants_bounds(self.bounds):
            return cast(GroupQuantilesPlan, plan_with_bounds(self, n, 1, tails=False))
        epsilon, _ = check_privacy_parameters(self.epsilon, 0.0)
        q = tuple(sorted(check_fractions(self.q)))
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
        parts = read_group_points(released, plan)
        one = np.ndim(self.q) == 0
        self.quantile_, self.low_, self.high_ = (part[:, 0] if one else part for part in parts)

    @property
    def _kind(self) -> tuple[str, str]:
        """The name of the estimate, and its fraction unless it is a median."""
        q = self.plan_.q
        return ("median", "") if q == (0.5,) else ("quantile", f"q = {', '.join(f'{one:g}' for one in q)}")

    def _name_each(self, names: list[str]) -> tuple[str, ...]:
        """Return names of the quantiles of each of these groups, or pairs."""
        if self.quantile_.ndim == 1:
            return tuple(names)
        return tuple(f"{name}, q = {q:g}" for name in names for q in self.plan_.q)

    def _label_each(self, labels: dict[str, list[Any]]) -> dict[str, list[Any]]:
        """Return labels of the quantiles of each of these groups, or pairs."""
        if self.quantile_.ndim == 1:
            return labels
        every, q = len(next(iter(labels.values()))), self.plan_.q
        return {key: [one for one in each for _ in q] for key, each in labels.items()} | {"q": [*q] * every}

    def estimates(self) -> Estimates:
        """Return the quantiles with the chosen intervals: they can be pickled without the estimator.

        Intervals have one level, the estimator's, and there are no p-values.
        """
        self._fitted()
        plan, points, (kind, which) = self.plan_, self.quantile_, self._kind
        sizes = list_some([f"{count:,.0f}" for count in self.counts_])
        return Estimates(
            points,
            None,
            self._name_each([str(group) for group in self.groups_]),
            self._add_bounds(f"the {kind}{which and ' '}{which} of each group's population"),
            chosen_limits(points, self.low_, self.high_, plan.confidence_level),
            title=f"Private {kind}s of groups{which and ', '}{which}",
            header=kind,
            labels=self._label_each({"group": list(self.groups_)}),
            facts=[
                *self._first_facts(),
                ("Rows of groups", f"{sizes} (noise: sd {self.counts_noise_std_:.3g})"),
                ("Error of a rank", f"sd {plan.rank_error:.3g} {self.privacy_.units}, if rows are evenly spaced"),
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
            ``estimate`` of shape (m,), one for each quantile, and ``confidence_interval()`` at the estimator's level:
            the quantile of a minus the quantile of b. There is no p-value. A value outside the interval of level 0.95
            is rejected at level 0.05.
        """
        return self._compare([self._pair(a, b)])

    def ratio(self, a: Any, b: Any) -> Differences:
        """Return the ratios of the quantiles of two groups, without additional privacy cost.

        Parameters
        ----------
        a, b : labels of declared groups

        Returns
        -------
        Differences
            As for `difference`. The bounds must not be negative. A limit is infinite, or 0, if an interval has 0.
        """
        self._fitted()
        if self.plan_.grid.low < 0:
            raise refuse("bounds", given=self.bounds, allowed="0 or more for a ratio", remedy="Use difference.")
        return self._compare([self._pair(a, b)], "ratio", "/")

    def pairwise(self, reference: Any = None) -> Differences:
        """Compare the quantiles of all pairs of groups, or of every group with one, without additional privacy cost.

        Parameters
        ----------
        reference : label of a declared group, optional
            Compare every other group with it. Default: all pairs.

        Returns
        -------
        Differences
            As for `difference`, pairs first. Intervals are not simultaneous.
        """
        self._fitted()
        return self._compare(list_pairs(self.groups_, reference))

    def _pair(self, a: Any, b: Any) -> tuple[int, int]:
        self._fitted()
        i, j = place_of_group("a", a, self.groups_), place_of_group("b", b, self.groups_)
        if i == j:
            raise refuse("b", given=b, allowed="another group than a")
        return i, j

    def _compare(self, pairs: list[tuple[int, int]], what: str = "difference", sign: str = "-") -> Differences:
        """Return the differences of the quantiles of some pairs of groups, or their ratios."""
        plan, kind, count = self.plan_, self._kind[0], len(self.plan_.q)
        places = np.array(pairs).T
        points, lows, highs = (
            [each[k].reshape(-1) for k in places] for each in (self.quantile_, self.low_, self.high_)
        )
        estimate, low, high = combine_limits(points, lows, highs, sign == "/")
        first, second = ([self.groups_[k] for k in each] for each in places)
        notes = ["Intervals are not simultaneous."] * (len(pairs) * count > 1)
        return Differences(
            estimate,
            None,
            self._name_each([f"{a} {sign} {b}" for a, b in zip(first, second, strict=True)]),
            self._add_bounds(f"the {what} of the populations' {kind}s"),
            chosen_limits(estimate, low, high, plan.confidence_level),
            title=f"Private {what} of {kind}s",
            header=what,
            labels=self._label_each({"first": first, "second": second, "column": [self._name] * len(pairs)}),
            notes=[*self._assumptions(), *notes],
            simulated=self.privacy_.simulated,
        )

    def plot(self, ax: Any = None, confidence_level: float | None = None, **style: Any) -> Any:
        """Draw the quantiles with their intervals: three or more as box plots. Return the Axes.

        A box reaches from the lowest quantile to the highest, or from the second to the last but one of five or more,
        with whiskers to the outermost. Lines below it are the intervals.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: one of a new figure.
        confidence_level : float, optional
            The estimator's level, which is the only one.
        **style
            matplotlib's, of the intervals: ``Axes.errorbar``.
        """
        estimates = self.estimates()
        if self.quantile_.ndim == 1 or len(self.plan_.q) < 3:
            return estimates.plot(ax, confidence_level, **style)
        interval = None if self.plan_.confidence_level is None else estimates.confidence_interval(confidence_level)
        limits = None if interval is None else (interval.low, interval.high)
        names = [str(group) for group in self.groups_]
        found = draw_boxes(names, self.quantile_, limits, ax=ax, **style)
        found.set_xlabel(plain(self._name))
        return found

    def _notes(self) -> list[str]:
        plan = self.plan_
        few = [str(g) for g, x in zip(self.groups_, self.quantile_, strict=True) if np.isnan(x).any()]
        notes = []
        if few:
            what, needs = ("an estimate", "") if len(plan.q) == 1 else ("some quantiles", " for all of them")
            notes.append(
                f"Too few rows for {what}: {list_some(few)}. A group needs about {plan.least_rows:,} rows{needs} at "
                "this epsilon. A limit at a bound is not informative."
            )
        if plan.confidence_level is not None:
            notes += self._assumptions()
            notes.append("Intervals are not simultaneous.")
        notes += empty_groups_note(
            [g for g, rows in zip(self.groups_, self.counts_, strict=True) if rows < 2 * self.counts_noise_std_]
        )
        notes.append(f"{LEFT_OUT} Group sizes are private estimates.")
        return notes

    def _assumptions(self) -> list[str]:
        """Return the assumptions of the intervals, and where they are rough."""
        found = [] if self.plan_.grid.declared else [f"{TIED}."]
        found.append(regular_note(self.plan_.grid.declared))
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
