"""Means of declared groups, with intervals, tests and comparisons that include sampling error and privacy noise.

Proof: docs/proofs/group-means.md.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dpstats.data.columns import DISCOVER
from dpstats.data.parameters import (
    check_choice,
    check_flag,
    check_integer,
    check_privacy_parameters,
    check_random_state,
    check_simulations,
)
from dpstats.data.rows import LEFT_OUT, Rows, empty_groups_note
from dpstats.data.schema import Categories, Column, Schema, column_list
from dpstats.errors import refuse
from dpstats.groups.adjusted_means import (
    AdjustedMeans,
    AdjustedMeansPlan,
    adjusted_means_plan,
    covariate_list,
    covariate_places,
    read_adjusted,
)
from dpstats.groups.comparisons import AnalysisOfVariance, Differences, MeanRatioErrors, simulated_test
from dpstats.groups.ratios import (
    DiscoveredMeansPlan,
    FoundRatio,
    GroupMeansPlan,
    RatioBesideCounts,
    RatioEstimator,
    discovered_means_plan,
    found_ratio,
    group_means_plan,
    group_totals,
    labeled_totals,
    list_pairs,
    place_of_group,
)
from dpstats.inference.error_distributions import HOLM, ErrorDistribution, usual_level
from dpstats.inference.estimates import ALTERNATIVES
from dpstats.inference.reports import SIMULATED, picture_of
from dpstats.inference.results import (
    FREE,
    SPREAD,
    ConfidenceInterval,
    Summary,
    hidden_spreads_note,
    list_some,
    print_spreads,
    significant,
)
from dpstats.means.moments import Region
from dpstats.means.ratio import TOTALS, DifferenceErrors, Ratio, RatioErrors, Tukey
from dpstats.mechanisms.unknown_bounds import note_bounds, plan_with_bounds, wants_bounds
from dpstats.privacy.guarantee import parse_neighbors
from dpstats.regression import engine
from dpstats.release.additive import HiddenSize, check_size, record_size
from dpstats.release.estimator import fitted, parameters, privacy_facts
from dpstats.release.session import Released, Session

Floats = NDArray[np.float64]

_MOST_DRAWN = 60  # groups


@parameters
class GroupMeans(RatioEstimator[GroupMeansPlan]):
    """Private means of declared groups, with comparisons and analysis of variance.

    Use this estimator to compare the means of a few groups. One release contains the counts, sums and squares
    of all groups. If delta is positive it needs only the noise of the sums, for any number of groups. All
    comparisons use this release, without additional privacy cost.

    Parameters
    ----------
    groups : sequence, or "discover"
        Public, distinct labels of the groups; never read from the data. A row belongs to the group whose label it
        equals. Numbers are compared by value; text and bytes are never equal. Rows with an undeclared label, and rows
        without a label, are left out. Declare None to make a group of the rows without a label.

        The word "discover" releases the groups whose noisy count reaches ``plan_.threshold`` (41 rows at the defaults),
        with their labels. Labels are text, numbers, or times without a zone; rows with other entries are left out. The
        rows must fit in memory, and delta must be positive. Laplace noise, as for one column at epsilon = 1, has
        two parts: 0.4 of epsilon finds the groups, and the rest is for their means.
    by : column name, optional
        Column of a data frame that contains the labels. ``fit(frame)`` then needs no ``y``.
    columns : sequence of column names, optional
        Columns to estimate, if ``by`` is given. Default: the columns that ``bounds`` names, or all others.
    bounds : (low, high), array-like of shape (n_features, 2), "private" or UnknownBounds
        Public bounds of every column, known without the data. A mapping ``{column: (low, high)}`` or a data frame with
        one row per column is matched to the columns by name. "private" chooses one pair for all groups from the rows,
        for a fifth of epsilon (`UnknownBounds`).
    bounds_are : {"clip", "hard"}, default="clip"
        Whether entries can lie outside the bounds. "clip": they can, and are moved to the nearer bound. "hard": they
        cannot, as for an age.
    adjust : sequence of column names or positions, optional
        Covariates that the comparisons are adjusted for: all columns but one, the outcome. ``bounds`` has the bounds of
        all of them. Intervals of comparisons are then shorter if the covariates explain much of the outcome, but can be
        longer for groups of few rows. If noise would hide the slopes, which the plan says, the fit is the fit without
        covariates.
    randomized : bool, default=True
        Whether the groups are randomized, so that the covariates have one distribution in all groups. Differences then
        are right for any covariates. False: groups are compared at equal covariates, by a linear model
        with the same slopes in all groups. Only with ``adjust``.
    missing : {"error", "drop"}, default="error"
        Treatment of rows with a NaN or infinite entry. "error" raises `InvalidData`; the error reveals that there is
        such a row. "drop" leaves the row out.
    missing_codes : sequence of numbers and text, optional
        Public codes of missing entries, such as ``[-999, "unk"]``, in all columns. Numbers are compared by value, words
        by text.
    neighbors : {"replace_one", "add_or_remove"}, default="replace_one"
        Neighboring datasets. "add_or_remove": one row is added or removed. The number of rows is then private, and the
        plan has half the Laplace noise.
    epsilon : float, default=1.0
        Privacy parameter. Must be positive.
    delta : float, default=1e-6
        Privacy parameter, in [0, 1). Zero adds Laplace noise (pure privacy), which grows with the number of columns.
        A positive value allows Gaussian noise, which grows with its square root. The smaller noise is added. If
        it is Laplace noise, as for up to four columns at epsilon = 1, the guarantee has delta = 0. A budget with
        ``method="gdp"`` or "zcdp" has Gaussian noise.

        Discovered groups need a positive delta, and so do slopes of covariates. With ``adjust`` and delta = 0,
        randomized groups are not adjusted, and others are refused.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every call of ``fit`` charges before it draws noise. Clones share it.

    Attributes
    ----------
    groups_ : tuple
        The declared groups, in their order; or those that were found: numbers, times and text in increasing order.
    counts_ : ndarray of shape (n_groups,)
        Noisy number of rows of each group. It can be fractional or negative. With "discover" it is at least 1, and
        corrected for the threshold.
    n_, n_noise_std_ : float
        Noisy number of rows of all declared groups, and the standard deviation of its noise. Only with
        ``neighbors="add_or_remove"`` and declared groups; ``n_interval()`` is its interval.
    counts_noise_std_ : float
        Standard deviation of the noise in ``counts_``. With "discover", before the threshold conditions it.
    means_ : ndarray of shape (n_groups, n_features)
        Private estimates in the units of the data, inside the bounds. NaN if the 95% interval holds all values between
        the bounds.
    std_, std_noise_std_ : ndarray of shape (n_groups, n_features)
        Standard deviations of the clipped rows, or with ``adjust`` of the clipped residuals, and the standard
        deviations of their noise. NaN if the noise of the variance exceeds 0.3 of it.
    clipped_share_, clipped_share_std_ : float
        Noisy fraction of the outcomes outside their bounds, and the standard deviation of its noise. Only with
        ``adjust``, ``randomized=False`` and bounds that are not hard.
    slopes_, slopes_standard_errors_ : ndarray of shape (n_features - 1,)
        Slopes of the covariates, and their standard errors: NaN where noise hides the slope. Only with ``adjust``.
    privacy_ : PrivacyGuarantee
        Guarantee of the fit, for neighboring datasets that differ in one row: its label and its entries. The number
        of rows is public, unless ``neighbors="add_or_remove"``; the group sizes are private.
    plan_ : GroupMeansPlan
        The release plan: every released quantity and its noise.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names. Only if ``X`` has column names.

    Notes
    -----
    **Estimand.** Intervals cover the mean of each group's population after clipping. It equals the population mean if
    the bounds are hard.

    **Covariates.** With ``adjust``, means are at the mean of the covariates of all rows, and `difference`, `pairwise`
    and `anova` compare them. The fit takes noisy Newton steps on the covariates, and then clips the residuals of each
    group near their scale, so that their totals need little noise.

    **Intervals.** Intervals invert a test of every value (Fieller 1954), with the variance that the group would have
    about this value. They do not divide by a noisy count. The interval of a group that noise hides is as wide as the
    bounds. They assume independent rows, enough of them for the central limit theorem.

    **Limits.** With ``randomized=False``, intervals of differences can miss if bounds clip outcomes, which the summary
    says. Small groups are lost in the noise: their interval is the bounds. Rows of an undeclared group do not
    count. Simulated tests are approximate, and `anova` rejects a true null hypothesis at the level 0.05 with
    probability 0.01 to 0.06.

    References
    ----------
    Fieller (1954), Some problems in interval estimation. Hayter (1984), A proof of the conjecture that the
    Tukey-Kramer multiple comparisons procedure is conservative. Holm (1979), A simple sequentially rejective multiple
    test procedure.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.groups import GroupMeans
    >>> rng = np.random.default_rng(0)
    >>> plan = rng.choice(["free", "half", "full"], size=20_000, p=[0.5, 0.3, 0.2])
    >>> visits = rng.poisson(np.where(plan == "free", 4.0, 3.0))[:, None]
    >>> model = GroupMeans(groups=["free", "half", "full"], bounds=(0, 20), epsilon=1.0, random_state=0)
    >>> model.fit(visits, plan).means_.round(1).ravel()
    array([4., 3., 3.])
    >>> low, high = model.difference("free", "half").confidence_interval()
    >>> bool(low[0] < 1.0 < high[0])
    True
    >>> bool(model.anova().pvalue[0] < 0.01)
    True

    A trial with two arms, adjusted for the value at baseline:

    >>> arm, before = rng.integers(0, 2, size=5000), rng.normal(140, 15, size=5000)
    >>> after = before - 5.0 * arm + rng.normal(0, 8, size=5000)
    >>> bounds = [(80, 200), (80, 200)]
    >>> trial = GroupMeans(groups=[0, 1], bounds=bounds, adjust=[1], random_state=0)
    >>> found = trial.fit(np.column_stack([after, before]), arm).adjusted_difference(1, 0)
    >>> found.estimate.round(), found.error.round(1)
    (array([-5.]), array([0.3]))
    """

    groups: Any = None
    by: Any = None
    columns: Any = None
    bounds: Any = None
    bounds_are: str = "clip"
    adjust: Any = None
    randomized: bool = True
    missing: str = "error"
    missing_codes: Any = None
    neighbors: Any = "replace_one"
    epsilon: float = 1.0
    delta: float = 1e-6
    random_state: Any = None
    budget: Any = None
    groups_: tuple[Any, ...] = fitted()
    counts_: Floats = fitted()
    counts_noise_std_: float = fitted()
    means_: Floats = fitted()
    std_: Floats = fitted()
    std_noise_std_: Floats = fitted()
    clipped_share_: float = fitted()
    clipped_share_std_: float = fitted()
    slopes_: Floats = fitted()
    slopes_standard_errors_: Floats = fitted()
    _adjusted: AdjustedMeans | None = fitted()

    def plan(self, n_samples: int | None, n_features: int) -> Any:
        """Return the release plan of a fit on data of this size.

        Parameters
        ----------
        n_samples, n_features : int
            Public: the number of rows, of all groups together, and of columns whose means are wanted. With
            ``neighbors="add_or_remove"`` the number of rows enters expected errors only, and may be None.

        Examples
        --------
        >>> from dpstats.groups import GroupMeans
        >>> print(GroupMeans(groups=["a", "b"], bounds=(0, 10)).plan(5000, 1))
        Release plan for n = 5000, d = 1: (epsilon = 1, delta = 0), one row replaced
          totals of the groups, together:
            shares of the lower end: 2 numbers, Laplace noise of scale 2
            shares between: 2 numbers, Laplace noise of scale 2
            shares of the upper end: 2 numbers, Laplace noise of scale 2
          Noise chosen: Laplace, smaller than Gaussian noise at delta = 1e-06; the guarantee has delta = 0
          a group of n/2 = 2500 rows: noise of its mean 0.008 (0.0126 at a bound)
          noise hides standard deviations there below about 0.404, and Hedges' g with them
        """
        if wants_bounds(self.bounds):
            return plan_with_bounds(self, n_samples, n_features)
        n, neighbors = check_size(self, n_samples), parse_neighbors(self.neighbors)
        d = check_integer("n_features", n_features, at_least=1)
        epsilon, delta = check_privacy_parameters(self.epsilon, self.delta)
        missing, randomized = self._policy(), check_flag("randomized", self.randomized)
        groups = () if self._discovers else self._categories().values
        if self.bounds is None:
            raise refuse("bounds", allowed="given: a pair (low, high), or one per column")
        if self.adjust is not None:
            if self._discovers:
                raise refuse("groups", given=DISCOVER, allowed="declared with adjust")
            covariates, bounds, sizes = self.adjust, (self.bounds, self.bounds_are), (n, d, epsilon, delta)
            return adjusted_means_plan(groups, covariates, randomized, bounds, *sizes, missing, neighbors, self.budget)
        region = Region.check(self.bounds, self.bounds_are, None, 0.0, d)
        if self._discovers:
            return discovered_means_plan(region, n, d, epsilon, delta, missing, neighbors, self.budget)
        return self._smaller_noise(
            lambda delta: group_means_plan(groups, region, n, d, epsilon, delta, missing, neighbors),
            *(delta, lambda plan: plan.totals_noise.total),
        )

    def _schema(self) -> Schema:
        if self.by is None and self.columns is not None:
            raise refuse("columns", allowed="given with by, the column that has the labels")
        meaning = "a label for each row (or by, the column of a data frame that has them)"
        parameter = "y" if self.by is None else "by"
        if self._discovers:
            labels = Column("labels", self.by, None, parameter, meaning=meaning)
        else:
            labels = Column("groups", self.by, self._categories(), parameter, meaning=meaning)
        numbers = column_list(self.columns)
        if numbers is not None and self.adjust is not None:
            numbers += tuple(name for name in covariate_list(self.adjust) if name not in numbers)
        return replace(super()._schema(), numbers=numbers, beside=(labels,))

    def _sort_parameters(self, names: list[Any] | None) -> Self:
        planner = super()._sort_parameters(names)
        if self.adjust is None or names is None:
            return planner
        # Once bounds are sorted like the columns, covariates are positions.
        planner = copy.copy(planner)
        planner.__dict__["adjust"] = covariate_places(self.adjust, names)
        return planner

    @property
    def _discovers(self) -> bool:
        return isinstance(self.groups, str) and self.groups == DISCOVER

    def _categories(self) -> Categories:
        if self.groups is None:
            raise refuse("groups", allowed="given: the public labels of the groups, or 'discover'")
        return Categories(self.groups, "groups")

    def _read(self, rows: Rows, plan: Any) -> Any:
        if isinstance(plan, AdjustedMeansPlan):
            return read_adjusted(rows, plan)
        if isinstance(plan, DiscoveredMeansPlan):
            return {TOTALS: labeled_totals(rows.whole(), plan)}
        return {TOTALS: rows.total(partial(group_totals, plan))}

    def _release(self, private: Any, plan: Any, session: Session) -> None:
        if isinstance(plan, AdjustedMeansPlan):
            engine.release(private, plan, session)
        elif isinstance(plan, DiscoveredMeansPlan):
            session.discover(TOTALS, *private[TOTALS])
        else:
            super()._release(private, plan, session)

    def _report(self, released: Released, plan: Any) -> None:
        self._adjusted = None
        if isinstance(plan, AdjustedMeansPlan):
            self._adjusted = means = AdjustedMeans(released, plan)
            self._ratio, self.groups_ = means.ratio, plan.groups
            self.counts_, self.counts_noise_std_ = means.counts, means.counts_noise
            self.means_, self.std_, self.std_noise_std_ = self._known_means(), means.std, means.std_noise
            self.slopes_, self.slopes_standard_errors_ = means.slopes, means.slopes_errors
            if means.clipped is not None:
                self.clipped_share_, self.clipped_share_std_ = means.clipped.share, means.clipped.noise
            return
        noise = plan.totals_noise
        ratio: Ratio
        if isinstance(plan, DiscoveredMeansPlan):
            ratio = found = found_ratio(released[TOTALS], plan)
            self.groups_, self.counts_ = released[TOTALS]["labels"], found.sizes[:, 0].copy()
            if plan.has_private_size:
                self._released_size = HiddenSize(
                    "Declare the groups, because rows of groups that are not found are not counted."
                )
        else:
            ratio = plan.totals.ratio(released[TOTALS], noise)
            self.groups_, self.counts_ = plan.groups, ratio.N[:, 0].copy()
            if plan.has_private_size:
                record_size(self, float(self.counts_.sum()), noise.rows.sum(len(self.groups_)))
        self._ratio = ratio
        self.counts_noise_std_ = plan.discovery.count_std if self._found is not None else noise.count
        self.means_ = self._known_means()
        self.std_, self.std_noise_std_ = (self.plan_.half * part for part in ratio.spread)

    def _errors(self) -> RatioErrors:
        return super()._errors() if self._adjusted is None else self._adjusted.errors

    def _column_names(self, columns: Iterable[int] | None = None) -> list[str]:
        if columns is None and self._adjusted is not None:
            columns = [self._adjusted.plan.outcome]
        return super()._column_names(columns)

    # Queries

    @property
    def _found(self) -> FoundRatio | RatioBesideCounts | None:
        """Return the ratios of groups that were found, or None if groups were declared."""
        return self._ratio if isinstance(self._ratio, FoundRatio | RatioBesideCounts) else None

    def count_interval(self, confidence_level: float | None = None) -> ConfidenceInterval:
        """Return intervals for the sizes of the groups in these data, each given that the group was found.

        Parameters
        ----------
        confidence_level : float, default=0.95

        Returns
        -------
        ConfidenceInterval
            With ``low`` and ``high`` of shape (n_groups,).

        Raises
        ------
        InvalidParameter
            If the groups were declared: ``counts_`` then have noise of standard deviation ``counts_noise_std_``.
        """
        check_is_fitted(self)
        if self._found is None:
            raise refuse(
                "groups",
                got="declared groups",
                allowed="'discover' for count_interval",
                remedy="Use counts_ and counts_noise_std_.",
            )
        level = usual_level(confidence_level)
        low, high = (limit[:, 0] for limit in self._found.found.limits((1 - level) / 2))
        return ConfidenceInterval(low, high, level, "the rows of each group in these data, given that it was found")

    def _pair(self, a: Any, b: Any) -> tuple[int, int]:
        """Return the positions of two declared groups."""
        first, second = (place_of_group(name, group, self.groups_) for name, group in (("a", a), ("b", b)))
        if first == second:
            raise refuse("b", given=b, allowed="another group than a")
        return first, second

    def _several(self) -> Ratio:
        """Return the ratios of at least two groups, or refuse to compare."""
        check_is_fitted(self)
        if len(self.groups_) < 2:
            raise refuse("groups", got=f"{len(self.groups_)}", allowed="at least two to be compared")
        return self._ratio

    @property
    def _adjusted_for(self) -> str:
        """What compared means are equal in, as words: "" without covariates."""
        adjusted = self._adjusted
        if adjusted is None or not adjusted.is_adjusted:
            return ""
        hidden = [] if adjusted.plan.randomized else self._column_names(adjusted.hidden)
        return f" at equal covariates{f', but for {list_some(hidden)}' if hidden else ''}"

    @property
    def _is_adjusted(self) -> bool:
        """Whether the means are adjusted. A plan without noisy slopes does not adjust them."""
        return self._adjusted is not None and self._adjusted.is_adjusted

    def _estimand(self) -> str:
        if self._is_adjusted:
            mean = "the mean of each group's population at the mean covariates of all groups"
            return mean if self.plan_.region.hard else f"{mean}, E[clip(y)]"
        if self.plan_.region.hard:
            return "the mean of each group's population (by the declared bounds no row is clipped)"
        return "the mean of each group's population if it were clipped, E[clip(x)]"

    def difference(self, a: Any, b: Any, alternative: str = "two-sided") -> Differences:
        """Compare the means of two groups, without additional privacy cost.

        Parameters
        ----------
        a, b : labels of declared groups
        alternative : {"two-sided", "less", "greater"}, default="two-sided"
            Alternative hypothesis: the mean of a minus the mean of b is not, is less than, or is greater than 0.

        Returns
        -------
        Differences
            ``estimate``, ``statistic`` and ``pvalue`` of shape (n_features,), and ``confidence_interval()``.
        """
        side = check_choice("alternative", alternative, ALTERNATIVES)
        ratio, names = self._several(), self._column_names()
        first, second = self._pair(a, b)
        return self._differences(
            self._compare(ratio, first, second),
            [(first, second)],
            names,
            f"the difference of the two means{self._adjusted_for}",
            title=f"Private {'adjusted ' * self._is_adjusted}difference of two groups",
            facts=(("Difference", f"{self.groups_[first]} less {self.groups_[second]}"), ("Alternative", side)),
            notes=[FREE, *["P-values are not adjusted for several columns."] * (len(names) > 1)],
            alternative=side,
        )

    def ratio(self, a: Any, b: Any) -> Differences:
        """Return the ratios of the means of two groups, without additional privacy cost.

        Parameters
        ----------
        a, b : labels of declared groups

        Returns
        -------
        Differences
            ``estimate`` of shape (n_features,), with tests against a ratio of 1. The bounds must not be negative. A
            limit is infinite, or 0, if an interval of a mean has 0.
        """
        self._several()
        first, second = self._pair(a, b)
        if self._adjusted is not None:
            raise refuse("adjust", allowed="None for a ratio", remedy="Use difference.")
        errors = self._errors()
        if (np.asarray(errors.box[0]) < 0).any():
            raise refuse("bounds", allowed="0 or more for a ratio", remedy="Use difference.")
        names = self._column_names()
        found = self._differences(
            MeanRatioErrors(errors, first, second),
            [(first, second)],
            names,
            "the ratio of the two means",
            title="Private ratio of two groups",
            facts=(("Ratio", f"{self.groups_[first]} over {self.groups_[second]}"),),
            notes=[FREE],
        )
        return replace(found, null=1.0, header="ratio")

    def pairwise(self, method: str | None = None, reference: Any = None) -> Differences:
        """Compare the means of all pairs of groups, or of every group with one, without additional privacy cost.

        Parameters
        ----------
        method : {"tukey", "holm"}, optional
            How p-values and intervals hold for all pairs together. Tukey's range is conservative for groups of
            different precision (Hayter 1984); Holm's p-values assume nothing, and their intervals are Bonferroni's.
            Default: Tukey's for all pairs, and Holm's with a reference.
        reference : label of a declared group, optional
            Compare every other group with it. Default: all pairs.

        Returns
        -------
        Differences
            ``estimate``, ``statistic`` and ``pvalue`` of shape (n_pairs, n_features), and ``confidence_interval()``.
            All pairs of a column hold together by default. With ``simultaneous=True`` all pairs of all columns do.
        """
        usual = "tukey" if reference is None else "holm"
        how = usual if method is None else check_choice("method", method, ["tukey", "holm"])
        ratio, columns = self._several(), self._column_names()
        together = Tukey(len(self.groups_)) if how == "tukey" else HOLM
        pairs = list_pairs(self.groups_, reference)
        firsts, seconds = (np.array(places) for places in zip(*pairs, strict=True))
        names = [f"{self.groups_[i]} - {self.groups_[j]}" for i, j in pairs]
        return self._differences(
            self._compare(ratio, firsts, seconds),
            pairs,
            [f"{name}: {column}" if len(columns) > 1 else name for name in names for column in columns],
            f"the differences of the means{self._adjusted_for}",
            title=f"Private differences {'of all pairs' if reference is None else 'from a reference'}",
            facts=(("Together", f"all {len(pairs)} pairs of a column, by {together.words}"),),
            notes=[FREE],
            together=together,
            jointly=True,
            axis=0,
        )

    def _compare(self, ratio: Ratio, first: Any, second: Any) -> DifferenceErrors:
        """Return the errors of the differences between the means of some groups and of others."""
        if self._adjusted is None:
            return DifferenceErrors(ratio[first], ratio[second], self.plan_.half)
        return self._adjusted.compare(first, second)

    def adjusted_difference(self, a: Any, b: Any, alternative: str = "two-sided") -> Differences:
        """Compare two groups at equal covariates: `difference` of a fit with ``adjust``, without additional cost.

        Parameters
        ----------
        a, b, alternative
            As for `difference`.

        Returns
        -------
        Differences

        Raises
        ------
        InvalidParameter
            If the fit had no covariates.
        """
        check_is_fitted(self)
        if self._adjusted is None:
            raise refuse(
                "adjust",
                allowed="given for adjusted_difference: the columns of the covariates",
                remedy="Without it, use difference.",
            )
        return self.difference(a, b, alternative)

    def _differences(
        self, errors: ErrorDistribution, pairs: list[tuple[int, int]], names: list[str], estimand: str, **options: Any
    ) -> Differences:
        """Return differences whose usual null hypothesis is 0."""
        places = [(*pair, column) for pair in pairs for column in self._column_names()]
        labels: dict[str, list[Any]] = {
            "first": [self.groups_[i] for i, _, _ in places],
            "second": [self.groups_[j] for _, j, _ in places],
            "column": [column for _, _, column in places],
        }
        return Differences(
            errors.start,
            None,
            tuple(names),
            self._covered(estimand),
            errors,
            header="difference",
            null=0.0,
            labels=labels,
            simulated=self.privacy_.simulated,
            **options,
        )

    def anova(self, n_simulations: int = 9999, random_state: Any = 0) -> AnalysisOfVariance:
        """Test whether the means of all groups are equal, column by column: it costs no privacy.

        The p-value is from simulated releases of groups of the released sizes and spreads with one mean.

        Parameters
        ----------
        n_simulations : int, default=9999
        random_state : int or numpy.random.Generator, default=0
            Of the simulation, which is public.

        Returns
        -------
        AnalysisOfVariance
            ``statistic`` and ``pvalue``, of shape (n_features,).
        """
        ratio = self._several()
        if self._found is not None:
            raise refuse(
                "groups",
                given=DISCOVER,
                allowed="declared for anova, whose simulations do not condition on discovery",
                remedy="Use pairwise(method='holm') instead.",
            )
        count, rng = check_simulations(n_simulations, at_least=19), check_random_state(random_state)
        if self._adjusted is not None:
            count, (statistic, pvalue) = 0, self._adjusted.test_equal()
        elif rng is None:
            raise refuse("random_state", given=None, allowed="a seed or a generator, because the simulation is public")
        else:
            statistic, pvalue = simulated_test(ratio, count, rng)
        names, simulated = self._column_names(), self.privacy_.simulated
        given = statistic, pvalue, len(self.groups_), count, names
        return AnalysisOfVariance(*given, simulated=simulated, adjusted_for=self._adjusted_for)

    def predict(self, labels: Any) -> Floats:
        """Return the mean of each label's group: shape (n, n_features), NaN for a label of none. Releases nothing.

        Parameters
        ----------
        labels : sequence of length n
        """
        check_is_fitted(self)
        one_column = isinstance(labels, np.ndarray) and labels.shape[1:] == (1,)
        given = labels[:, 0] if one_column else labels
        if not self.groups_:  # "discover" found none
            return np.full((len(given), self.plan_.n_features), np.nan)
        codes = Categories(self.groups_).codes(given, "labels")
        return np.vstack([self.means_, np.full(self.means_.shape[1], np.nan)])[codes]

    def plot(self, ax: Any = None, confidence_level: float | None = None, **style: Any) -> Any:
        """Draw the means of all groups with their intervals, and return the Axes.

        Parameters
        ----------
        ax : matplotlib Axes, or a sequence of one for each column, optional
            Default: the axes of a new figure, a panel for each column.
        confidence_level : float, default=0.95
        **style
            matplotlib's, of ``Axes.errorbar``: colors and labels.

        Returns
        -------
        matplotlib Axes, or an array of one for each column
        """
        from dpstats.inference.figures import forest

        interval = self.confidence_interval(confidence_level)
        labels = [f"{group}  ({self._describe_rows(k)})" for k, group in enumerate(self.groups_)]
        title = f"Private means of groups, {100 * interval.confidence_level:g}% intervals"
        simulated = " (simulated noise)" if self.privacy_.simulated else ""
        return forest(labels, self._column_names(), self.means_, interval, title=title + simulated, ax=ax, **style)

    def _is_hidden(self, place: int) -> bool:
        """Return whether the noise hides a group: its count cannot be distinguished from 0."""
        return bool(self.counts_[place] < 2 * self.counts_noise_std_)

    def _describe_rows(self, place: int) -> str:
        """Return the number of rows of a group as text, or an upper limit if noise hides the number."""
        if self._is_hidden(place):
            return f"fewer than {max(self.counts_[place], 0.0) + 2 * self.counts_noise_std_:.0f} rows"
        return f"{self._count(place)} rows"

    def _count(self, place: int) -> str:
        """Return a count in whole rows, unless its noise is smaller than that."""
        count, noise = float(self.counts_[place]), self.counts_noise_std_
        return f"{count:,.0f}" if noise >= 1 else significant(count, noise)

    def _labels(self) -> dict[str, list[Any]]:
        places = [(group, column) for group in self.groups_ for column in self._column_names()]
        return {"group": [group for group, _ in places], "column": [column for _, column in places]}

    def _all_names(self) -> list[str]:
        """Return a name for each group and column, groups first."""
        names = self._column_names()
        return [f"{group}: {name}" if len(names) > 1 else str(group) for group in self.groups_ for name in names]

    def summary(self, confidence_level: float | None = None) -> Summary:
        """Return a table of counts, means, intervals and spreads; prints as text, shows as HTML in a notebook."""
        found, d = self.estimates(), len(self._column_names())
        facts = [
            ("Estimator", type(self).__name__),
            *self._size_facts(),
            *privacy_facts(self),
            ("Noise", self._describe_noise()),
            ("Noise of a count", f"sd {self.counts_noise_std_:.3g} {self.privacy_.units}"),
        ]
        if self._adjusted is not None and self._adjusted.clipped is not None:
            facts += self._adjusted.clipped.facts
        found = replace(
            found,
            title="Private means of groups",
            noise=np.full(found.estimate.shape, np.nan),
            before={"rows": [self._count(k) for k in range(len(self.groups_)) for _ in range(d)]},
            beside={f"{'residual ' * self._is_adjusted}{SPREAD}": print_spreads(self.std_, self.std_noise_std_)},
            facts=facts,
            notes=[*self._notes(), *hidden_spreads_note(self._all_names(), self.std_)],
        )
        return found.summary(confidence_level)

    def _describe_noise(self) -> str:
        """Return the distribution of the noise as text."""
        plan: Any = self.plan_
        is_laplace = plan.has_separate_counts if isinstance(plan, DiscoveredMeansPlan) else not plan.target.delta
        both = ", and Laplace in the totals of the residuals" * getattr(plan, "has_both_laws", False)
        return "Laplace" if is_laplace else f"Gaussian, exact curve{both}"

    def _size_facts(self) -> list[tuple[str, str]]:
        d, count = len(self._column_names()), len(self.groups_)
        if self.plan_.has_private_size and self._found is not None:
            return [("Rows", self._released_size.words), ("Columns", f"{d:,} (public); {count:,} groups found")]
        if self.plan_.has_private_size:
            return [("Rows in groups", self._released_size.words), ("Columns, groups", f"{d:,}, {count:,} (public)")]
        n = self.plan_.n_samples
        if self._found is None:
            return [("Rows, columns, groups", f"{n:,}, {d:,}, {count:,} (public)")]
        return [("Rows, columns", f"{n:,}, {d:,} (public); {count:,} groups found")]

    def _notes(self) -> list[str]:
        notes = [SIMULATED] * self.privacy_.simulated
        if isinstance(self.plan_, DiscoveredMeansPlan):
            notes.append(
                f"Groups whose noisy count is below {self.plan_.threshold:.1f} rows are not shown. Intervals hold for "
                "each group given that it was found."
            )
            return notes + self._clip_notes()
        notes += empty_groups_note([group for k, group in enumerate(self.groups_) if self._is_hidden(k)])
        notes.append(f"Intervals are not simultaneous. {LEFT_OUT} Group sizes are private estimates.")
        return notes + self._clip_notes()

    def _clip_notes(self) -> list[str]:
        if self._adjusted is not None:
            return self._adjusted.list_notes(self._column_names(self._adjusted.hidden))
        if self.plan_.region.hard:
            return []
        moved = "E[clip(x)] is the mean of a group with every entry beyond the bounds moved to the nearer bound."
        if chosen := note_bounds(self):
            return [*chosen, moved]
        return [f"{moved} If values cannot lie beyond the bounds, set bounds_are='hard'."]


@picture_of.register
def _of_groups(means: GroupMeans) -> tuple[str, Any] | None:
    words = "The mean of every group with its 95% interval, a panel for each column."
    return None if len(means.groups_) > _MOST_DRAWN else (words, np.ravel(means.plot())[0].figure)
