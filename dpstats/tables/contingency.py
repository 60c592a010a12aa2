"""Private contingency tables: counts of every combination of declared levels, and estimates and tests from them.

Proof: docs/proofs/contingency-table.md.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dpstats.data.counts import Tally
from dpstats.data.levels import Categories
from dpstats.data.parameters import (
    check_choice,
    check_integer,
    check_privacy_parameters,
)
from dpstats.data.schema import Schema
from dpstats.data.tables import Rows
from dpstats.errors import InvalidData, InvalidParameter
from dpstats.inference import Estimates, HasEstimates
from dpstats.mechanisms.histogram import count_stage, count_steps
from dpstats.noisy_counts import CountNoise
from dpstats.privacy.budget import PrivacyBudget
from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan
from dpstats.release.estimator import PrivateEstimator
from dpstats.release.parameters import parameters
from dpstats.release.private_size import PrivateSize
from dpstats.release.session import Released
from dpstats.results import Summary
from dpstats.tables.cells import Cells
from dpstats.tables.effects import COHENS_H, DIFFERENCE, ODDS_RATIO, RISK_RATIO, Measure, effect
from dpstats.tables.equations import (
    CommonErrors,
    Strata,
    common,
    equation_estimate,
    homogeneity_pvalue,
    paired_errors,
    reciprocal,
    trend_errors,
)
from dpstats.tables.null_tests import fit_pvalue, independence_pvalue
from dpstats.tables.result import TableTest
from dpstats.tables.shares import NoisyShare

Numbers = NDArray[np.float64]

CELLS = "cells"
_MOST_CELLS = 1_000_000
_SHOWN = 60  # rows of a summary


@dataclass(frozen=True)
class TablePlan(ReleasePlan):
    """The plan of a `ContingencyTable`: one count for every cell."""

    shape: tuple[int, ...] = field(repr=False)
    unknown: str = field(repr=False)

    @property
    def counts_dropped(self) -> bool:
        """Whether the rows in no cell are counted too."""
        return self.unknown == "drop" and not self.has_private_size

    @property
    def cell_noise(self) -> CountNoise:
        """Noise of a count."""
        noise = self.noise(CELLS)
        return CountNoise(noise.law, float(np.asarray(noise.scale)))

    def expected_error(self, std: float | NDArray[np.float64] | None = None) -> float:
        """Return the expected squared l2 error of ``counts_``, relative to the counts in these data."""
        return math.prod(self.shape) * self.cell_noise.variance


@parameters
class ContingencyTable(PrivateSize, HasEstimates, PrivateEstimator[TablePlan]):
    """Private table of counts by one or more attributes, with tests, proportions and effects from one release.

    For a single binary column use `PrivateProportion`, whose intervals are exact.

    Parameters
    ----------
    levels : mapping of names to sequences, or sequence of sequences
        Public levels of every attribute, at least two each, by name or in the order of the columns. Declare them; never
        read them off the data. An entry belongs to the level that it equals, as for `Histogram`. None or NaN is the
        level of the missing entries.
    epsilon : float, default=1.0
        Privacy parameter. Must be positive.
    delta : float, default=0.0
        Privacy parameter, in [0, 1). 0 adds discrete Laplace noise of scale 2/epsilon to every cell, regardless of
        their number: the choice for a single table. A positive value adds Gaussian noise. It is larger, but suits
        budgets that compose many releases with ``method="gdp"`` or "zcdp".
    unknown : {"error", "drop"}, default="error"
        Treatment of rows with an undeclared entry. "error" raises `InvalidData`, which reveals that such a row exists.
        "drop" counts the row in no cell. The number of such rows is then released together with the cells, without
        additional privacy cost, and proportions and tests describe the other rows.
    neighbors : {"replace_one", "add_or_remove"}, default="replace_one"
        Neighboring datasets. "add_or_remove": one row is added or removed. The number of rows is then private, and the
        Laplace noise has half the scale. Rows in no cell are not counted.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every call of ``fit`` charges before it draws noise. Clones share it.

    Attributes
    ----------
    counts_ : ndarray of shape (r_1, ..., r_k)
        Noisy counts as released. They are unbiased, and may be negative. At delta = 0 they are whole numbers.
    dropped_ : float
        Noisy number of rows in no cell. 0 unless ``unknown="drop"``.
    noise_std_ : float
        Standard deviation of the noise of a cell.
    n_, n_noise_std_ : float
        Noisy number of rows in all cells, and the standard deviation of its noise. Only with
        ``neighbors="add_or_remove"``; ``n_interval()`` is its interval.
    privacy_ : PrivacyGuarantee
        Guarantee of the fit, for neighboring datasets that differ in one row.
    plan_ : TablePlan
        The release plan: every released quantity and its noise.
    n_features_in_ : int
        Number of attributes.
    feature_names_in_ : ndarray of shape (k,)
        Names of the attributes. Only if ``X`` has column names.

    Notes
    -----
    **Privacy.** A row is in at most one cell, so the whole table has the privacy cost of a single count.

    **Inference.** Rows are assumed to be independent draws from a population. All methods include sampling error and
    noise, and have no additional privacy cost after the fit:

    * ``independence`` and ``goodness_of_fit`` simulate the whole release under the null hypothesis. A plain chi-square
      test of noisy counts rejects true null hypotheses far too often.
    * ``confidence_interval`` over all cells has at least its nominal coverage for any n.
    * Within groups, and for ``difference``, ``risk_ratio`` and ``odds_ratio``, intervals invert a score test. It
      includes the tails of the noise and the skewness of the binomial distribution. If noise hides a group, the
      interval contains all possible values.

    References
    ----------
    Kifer and Rogers (2017), A new class of private chi-square hypothesis tests. Gaboardi, Lim, Rogers and Vadhan
    (2016), Differentially private chi-squared hypothesis testing.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.tables import ContingencyTable
    >>> rng = np.random.default_rng(0)
    >>> treated = rng.random(1000) < 0.5
    >>> well = rng.random(1000) < np.where(treated, 0.7, 0.5)
    >>> table = ContingencyTable(levels={"treated": [True, False], "well": [True, False]}, random_state=0)
    >>> table.fit(np.column_stack([treated, well])).counts_
    array([[340., 132.],
           [282., 243.]])
    >>> table.independence().pvalue
    0.0001
    >>> found = table.difference()
    >>> round(float(found.estimate), 3), [round(end, 2) for end in found.confidence_interval()]
    (0.183, [0.12, 0.25])
    """

    levels: Any = None
    epsilon: float = 1.0
    delta: float = 0.0
    unknown: str = "error"
    neighbors: Any = "replace_one"
    random_state: Any = None
    budget: PrivacyBudget | None = None

    _min_samples = 1

    def plan(self, n_samples: int | None, n_features: int | None = None) -> TablePlan:
        """Return the release plan of a fit on data of this size.

        Parameters
        ----------
        n_samples : int
            Public number of rows. With ``neighbors="add_or_remove"`` it has no effect, and may be None.
        n_features : int, optional
            Number of attributes. Must equal the number of declared attributes.
        """
        kinds = self._kinds()
        n = self._check_size(n_samples, at_most=2**31, at_least=1)
        d = len(kinds) if n_features is None else check_integer("n_features", n_features, at_least=1)
        if d != len(kinds):
            raise InvalidParameter(f"n_features must be {len(kinds)}, one per attribute of levels, got {d}")
        unknown = check_choice("unknown", self.unknown, ["error", "drop"])
        guarantee = PrivacyGuarantee(*check_privacy_parameters(self.epsilon, self.delta), self._relation)
        shape = tuple(map(len, kinds))
        counts_dropped = unknown == "drop" and self._relation is Neighbors.REPLACE_ONE
        size = math.prod(shape) + counts_dropped
        return TablePlan((count_stage(size, guarantee, CELLS),), guarantee, n, d, shape, unknown)

    def _kinds(self) -> list[Categories]:
        """Return the declared levels of every attribute."""
        given = self.levels
        if (
            isinstance(given, str | bytes)
            or not isinstance(given, Mapping | Sequence | np.ndarray)
            or not len(given)
        ):
            raise InvalidParameter(
                "levels must be the levels of every attribute, {name: [level, ...], ...} or [[level, ...], ...], got "
                f"{reprlib.repr(given)}"
            )
        named = isinstance(given, Mapping)
        kinds = []
        for place, name in enumerate(given):
            what = f"levels[{name!r}]" if named else f"levels[{place}]"
            kind = Categories(given[name] if named else name, what)
            if len(kind) < 2:
                raise InvalidParameter(f"{what} must have two levels or more, got {kind.values!r}")
            kinds.append(kind)
        cells = math.prod(map(len, kinds))
        if cells > _MOST_CELLS:
            raise InvalidParameter(f"levels must make at most {_MOST_CELLS:,} cells, got {cells:,}")
        return kinds

    def _schema(self) -> Schema:
        names = tuple(self.levels) if isinstance(self.levels, Mapping) else None
        return Schema(names, levels=tuple(self._kinds()))

    def _read(self, rows: Rows, plan: TablePlan) -> Mapping[str, Any]:
        counts = Tally(plan.shape).of(rows)
        if plan.unknown == "error" and counts[-1]:
            raise InvalidData(
                "X must hold declared levels only, got at least one entry outside them, or missing; declare it (None "
                "is the level of missing entries), or give unknown='drop'"
            )
        return {CELLS: count_steps(plan.additive[0], counts[: plan.additive[0].size], rows.shape[0])}

    def _report(self, released: Released, plan: TablePlan) -> None:
        counts = np.asarray(released[CELLS])
        size = math.prod(plan.shape)
        self.counts_ = counts[:size].reshape(plan.shape)
        self.dropped_ = float(counts[size]) if plan.counts_dropped else 0.0
        self.noise_std_ = plan.cell_noise.std
        if plan.has_private_size:
            self._record_size(float(self.counts_.sum()), plan.cell_noise.of(size))

    # Results from the released counts

    @property
    def _cells(self) -> Cells:
        check_is_fitted(self)
        plan, kinds = self.plan_, self._kinds()
        named = getattr(self, "feature_names_in_", None)
        if isinstance(self.levels, Mapping):
            names = tuple(self.levels)
        else:
            names = tuple(f"x{j}" for j in range(len(kinds))) if named is None else tuple(named)
        noise, levels = plan.cell_noise, tuple(kind.values for kind in kinds)
        if plan.has_private_size:
            sums = noise.of(self.counts_.size)
            return Cells(self.counts_, max(self.n_, 0.0), noise, sums, names, levels, summed=True)
        total = min(max(plan.n_samples - self.dropped_, 0.0), plan.n_samples)
        return Cells(self.counts_, total, noise, noise if plan.counts_dropped else None, names, levels)

    def proportions(self, axis: Any = None) -> Numbers:
        """Return the estimated proportions: of all cells, from the nearest possible counts, or within groups.

        Parameters
        ----------
        axis : attribute, or several, by name or position, optional
            Attributes over which the proportions add up to 1. For example, ``axis=1`` gives the proportions of the
            levels of attribute 1, for each level of the other attributes. None gives the proportions of all cells.

        Returns
        -------
        ndarray of the table's shape
            Proportions. NaN in groups without a positive count.
        """
        cells = self._cells
        return cells.shares(None if axis is None else cells.positions("axis", axis))

    def estimates(self, *, axis: Any = None) -> Estimates:
        """Return the proportions with the distribution of their errors, as a result that can be pickled alone.

        Over all cells, if every row is counted, intervals have at least nominal coverage for any n. Within groups, the
        sizes are private and intervals invert a score test. Simultaneous intervals use Bonferroni's inequality.

        Parameters
        ----------
        axis : attribute, or several, optional
            The same as in `proportions`.
        """
        return self._estimates(self.cells(), axis)

    def _estimates(self, cells: Cells, axis: Any = None, first: int | None = None) -> Estimates:
        """Return the proportions of the first cells."""
        plan, noise = self.plan_, cells.noise
        dropped = plan.counts_dropped
        found = cells.estimates(None if axis is None else cells.positions("axis", axis), first)
        sizes = ", ".join(f"{name} ({r})" for name, r in zip(cells.names, plan.shape, strict=True))
        notes = [
            "Counts are as released: unbiased, and possibly negative. Proportions use the nearest possible counts.",
            "Intervals account for sampling error and noise, and assume independent rows."
            + ("" if cells.total_noise is not None or axis is not None else " They are conservative."),
        ]
        if len(found.names) < cells.counts.size:
            notes.append(
                f"The table shows the first {first} of {cells.counts.size:,} cells. All are in counts_."
            )
        if dropped:
            notes.append(f"Rows in no cell: {self.dropped_:g} (noisy). Proportions are of all other rows.")
        digits = 0 if noise.law == "laplace" else 1
        counts = cells.counts.ravel()[:first]
        return replace(
            found,
            title="Private contingency table",
            facts=(
                *self._public_facts(("Attributes", sizes)),
                (
                    "Noise",
                    f"{noise.law.capitalize()} of scale {noise.scale:.4g} on every count (sd {noise.std:.3g})",
                ),
            ),
            notes=notes,
            beside={"count": [f"{count:,.{digits}f}" for count in counts.tolist()]},
            simulated=self.privacy_.simulated,
        )

    def summary(self, confidence_level: float | None = None) -> Summary:
        """Return a table of the first cells. It prints as text, and shows as HTML in a notebook."""
        return self._estimates(self.cells(), first=_SHOWN).summary(confidence_level)

    def independence(self, attributes: Any = None, *, n_simulations: int = 9999) -> TableTest:
        """Test whether attributes are mutually independent, without additional privacy cost.

        Parameters
        ----------
        attributes : sequence of two attributes or more, by name or position, optional
            Attributes to test, in the table summed over the others. None tests all.
        n_simulations : int, default=9999
            Number of simulations in each of two bootstraps. The larger p-value counts. Their seed is public and fixed.

        Returns
        -------
        TableTest
            Statistic, p-value and expected counts.
        """
        cells = self.cells(attributes)
        if cells.counts.ndim < 2:
            raise InvalidParameter(
                f"attributes must be two or more, got {cells.counts.ndim}: is goodness_of_fit meant?"
            )
        size = check_integer("n_simulations", n_simulations, at_least=99)
        statistic, pvalue = independence_pvalue(cells, size)
        expected = _product(cells) * max(cells.total, 0.0)
        names = ", ".join(str(name) for name in cells.names)
        note = (
            "The larger p-value of two bootstraps, whose level is measured and not proved: near what is stated, and "
            "smaller where n epsilon is small (validation/results/tables.md)."
        )
        null, name = f"{names}: independent", "score chi-square"
        return TableTest(statistic, pvalue, expected, null, note, size, self.privacy_, name)

    def goodness_of_fit(self, p: Any, attributes: Any = None, *, n_simulations: int = 9999) -> TableTest:
        """Test whether the proportions equal stated values, without additional privacy cost.

        Parameters
        ----------
        p : array of the table's shape
            Public proportions under the null hypothesis. They are not negative and add up to 1.
        attributes : attribute, or several, optional
            Attributes to test, in the table summed over the others. None tests all.
        n_simulations : int, default=9999
            Number of simulations. Their seed is public and fixed.

        Returns
        -------
        TableTest
            Statistic, p-value and expected counts. The null distribution is known, so the p-value is exact.
        """
        cells = self.cells(attributes)
        shares = _check_shares(p, cells.counts.shape)
        size = check_integer("n_simulations", n_simulations, at_least=99)
        statistic, pvalue = fit_pvalue(cells, shares, size)
        note = (
            "The level is exact, if the rows are independent."
            if cells.total_noise is None
            else "The level is nearly exact."
        )
        expected = shares * cells.total
        return TableTest(statistic, pvalue, expected, "the stated proportions", note, size, self.privacy_)

    def difference(
        self, groups: Any = None, outcome: Any = None, attributes: Any = None, *, strata: Any = None
    ) -> Estimates:
        """Return the difference between the proportions of an outcome in two groups, with an interval.

        Parameters
        ----------
        groups : pair of levels of the first attribute, optional
            The two groups. The result is the proportion in the first minus the proportion in the second. Default: both
            levels in their order, if there are two.
        outcome : level of the second attribute, optional
            Outcome whose proportion is compared. Default: the first level, if there are two.
        attributes : pair of attributes, by name or position, optional
            The attribute that defines the groups, and the attribute of the outcome. Default: both attributes in their
            order, if there are two.
        strata : attribute, or several, optional
            Compare the groups within the levels of these attributes. The result is the Mantel-Haenszel estimate of a
            value that is common to all strata. Use `homogeneity` to test that there is a common value.

        Returns
        -------
        Estimates
            One number: ``estimate``, ``pvalue`` (null hypothesis: equal proportions), ``confidence_interval()``,
            ``test(value, alternative)``.
        """
        return self._effect(DIFFERENCE, groups, outcome, attributes, strata)

    def risk_ratio(
        self, groups: Any = None, outcome: Any = None, attributes: Any = None, *, strata: Any = None
    ) -> Estimates:
        """Return the ratio of the proportions of an outcome in two groups. Parameters as in `difference`."""
        return self._effect(RISK_RATIO, groups, outcome, attributes, strata)

    def odds_ratio(
        self, groups: Any = None, outcome: Any = None, attributes: Any = None, *, strata: Any = None
    ) -> Estimates:
        """Return the ratio of the odds of an outcome in two groups. Parameters as in `difference`."""
        return self._effect(ODDS_RATIO, groups, outcome, attributes, strata)

    def cohens_h(self, groups: Any = None, outcome: Any = None, attributes: Any = None) -> Estimates:
        """Return the standardized difference of proportions in two groups, as Cohen's h. Parameters as in `difference`.

        It is 2 arcsin(sqrt(p)) - 2 arcsin(sqrt(q)), between -pi and pi: 0.2 is small, 0.5 medium and 0.8 large.
        """
        return self._effect(COHENS_H, groups, outcome, attributes, None)

    def number_needed_to_treat(
        self, groups: Any = None, outcome: Any = None, attributes: Any = None, *, strata: Any = None
    ) -> Estimates:
        """Return the reciprocal of the `difference`: the number of rows of the first group per additional outcome.

        The interval contains the reciprocal of each value in the interval of the difference. If that interval contains
        0, the number can be arbitrarily large with either sign, and the interval is the whole line.
        """
        return reciprocal(self.difference(groups, outcome, attributes, strata=strata))

    def homogeneity(
        self,
        measure: str = "odds ratio",
        groups: Any = None,
        outcome: Any = None,
        attributes: Any = None,
        *,
        strata: Any,
        n_simulations: int = 999,
    ) -> TableTest:
        """Test whether a measure is the same in all strata, as the Breslow-Day test does, without additional cost.

        Parameters
        ----------
        measure : {"odds ratio", "risk ratio", "difference"}
            Measure to compare between strata.
        groups, outcome, attributes, strata
            The same as in `difference`.
        n_simulations : int, default=999
            Number of simulated releases with the common value in all strata. Their seed is public and fixed.
        """
        known = {each.name: each for each in (ODDS_RATIO, RISK_RATIO, DIFFERENCE)}
        chosen = known[check_choice("measure", measure, list(known))]
        if strata is None:
            raise InvalidParameter("strata must be an attribute, or several, got None")
        pair = self._pair(groups, outcome, attributes, strata)
        size = check_integer("n_simulations", n_simulations, at_least=99)
        statistic, pvalue = homogeneity_pvalue(pair.strata, chosen, pair.having, pair.lacking, size)
        note = "The null distribution is simulated at the common value; its level is measured and not proved."
        expected = pair.strata.expected_counts(chosen)
        words = f"one {chosen.name} of the {pair.words}"
        return TableTest(
            statistic, pvalue, expected, words, note, size, self.privacy_, "sum of squared scores"
        )

    def paired_difference(self, outcome: Any = None, attributes: Any = None) -> Estimates:
        """Return the difference between the proportions of an outcome in two attributes of the same rows.

        Use it for measurements before and after a treatment, or by two raters. The test of equal proportions is
        McNemar's test.

        Parameters
        ----------
        outcome : level of both attributes, optional
            Outcome whose proportion is compared. Default: the first level, if there are two.
        attributes : pair of attributes with the same levels, by name or position, optional
            The result is the proportion in the first minus the proportion in the second. Default: both attributes in
            their order, if there are two.
        """
        cells = self._two(attributes, "that are measured on the same rows")
        if cells.levels[0] != cells.levels[1]:
            raise InvalidParameter(
                f"attributes must have the same levels, got {cells.names[0]!r} and {cells.names[1]!r}"
            )
        event = self._event(cells, outcome)
        counts, count = cells.counts, len(cells.counts) - 1
        gained = float(counts[event].sum() - counts[event, event])
        lost = float(counts[:, event].sum() - counts[event, event])
        noise = 2 * cells.noise.of(count).variance
        level = cells.levels[0][event]
        words = f"share with {cells.names[0]} = {level} less that with {cells.names[1]} = {level}"
        return equation_estimate(
            paired_errors(gained, lost, max(cells.total, 1.0), noise),
            "paired difference",
            words,
            0.0,
            self.privacy_,
        )

    def trend(self, scores: Any = None, outcome: Any = None, attributes: Any = None) -> Estimates:
        """Return the slope of the proportion of an outcome, as a function of the scores of ordered groups.

        The test of slope 0 is the Cochran-Armitage test.

        Parameters
        ----------
        scores : sequence of numbers, one for each level of the first attribute, optional
            Public scores. Default: 0, 1, 2 and so on, in the order of the levels.
        outcome, attributes
            The same as in `difference`.
        """
        cells = self._two(attributes, "that of the groups and that of the outcome")
        event = self._event(cells, outcome)
        rows, columns = cells.counts.shape
        given = np.arange(rows, dtype=np.float64) if scores is None else np.asarray(scores, dtype=np.float64)
        if given.shape != (rows,) or not np.isfinite(given).all() or np.ptp(given) == 0:
            raise InvalidParameter(
                f"scores must be {rows} finite numbers that are not all equal, got {reprlib.repr(scores)}"
            )
        having = cells.counts[:, event]
        noise = cells.noise.variance, cells.noise.of(columns - 1).variance
        errors = trend_errors(having, cells.counts.sum(axis=1) - having, given, noise)
        words = f"slope of the share with {cells.names[1]} = {cells.levels[1][event]} in the score of {cells.names[0]}"
        return equation_estimate(errors, "trend", words, 0.0, self.privacy_)

    def _two(self, attributes: Any, what: str) -> Cells:
        cells = self.cells(attributes)
        if cells.counts.ndim != 2:
            raise InvalidParameter(f"attributes must be two, {what}, of {', '.join(map(repr, cells.names))}")
        return cells

    @staticmethod
    def _event(cells: Cells, outcome: Any) -> int:
        if outcome is not None:
            return cells.code(1, outcome, "outcome")
        if cells.counts.shape[1] > 2:
            raise InvalidParameter(
                f"outcome must be given where an attribute has more than two levels: one of {cells.levels[1]!r}"
            )
        return 0

    def _effect(self, measure: Measure, groups: Any, outcome: Any, attributes: Any, strata: Any) -> Estimates:
        pair = self._pair(groups, outcome, attributes, strata)
        words = f"{measure.name} of the {pair.words}"
        if strata is not None:
            return common(CommonErrors(pair.strata, measure), words, self.privacy_.simulated)
        first, second = (
            NoisyShare(float(having), float(lacking), pair.having, pair.lacking)
            for having, lacking in pair.strata.counts[0]
        )
        return effect(first, second, measure, words, self.privacy_.simulated)

    def _pair(self, groups: Any, outcome: Any, attributes: Any, strata: Any) -> _Pair:
        whole = self._cells
        within = () if strata is None else whole.positions("strata", strata)
        if attributes is None:
            chosen = tuple(j for j in range(whole.counts.ndim) if j not in within)
        else:
            chosen = whole.positions("attributes", attributes)
        if len(chosen) != 2 or set(chosen) & set(within):
            beside = "" if strata is None else ", beside the strata"
            raise InvalidParameter(
                f"attributes must be two, the groups and the outcome{beside}, among "
                f"{', '.join(map(repr, whole.names))}"
            )
        cells = whole.over((*chosen, *within))
        rows, columns = cells.counts.shape[:2]
        if (groups is None and rows > 2) or (outcome is None and columns > 2):
            raise InvalidParameter(
                f"groups and outcome must be given where an attribute has more than two levels: two of "
                f"{cells.levels[0]!r} and one of {cells.levels[1]!r}"
            )
        pair = cells.levels[0] if groups is None else groups
        if isinstance(pair, str | bytes) or not isinstance(pair, Sequence | np.ndarray) or len(pair) != 2:
            raise InvalidParameter(f"groups must be a pair of levels, got {reprlib.repr(groups)}")
        first, second = (cells.code(0, level, "groups") for level in pair)
        if first == second:
            raise InvalidParameter(f"groups must be two different levels, got {pair[0]!r} twice")
        event = self._event(cells, outcome)
        counts = cells.counts[[first, second]].reshape(2, columns, -1)
        having = counts[:, event]
        table = np.stack([having, counts.sum(axis=1) - having], axis=-1).transpose(1, 0, 2)
        by, of = cells.names[:2]
        words = (
            f"shares with {of} = {cells.levels[1][event]}: {by} = {cells.levels[0][first]} "
            f"against {cells.levels[0][second]}"
        )
        if strata is not None:
            words += f", within the levels of {', '.join(map(str, cells.names[2:]))}"
        noise = cells.noise, cells.noise.of(columns - 1)
        return _Pair(Strata(table, np.array([each.variance for each in noise])), *noise, words)

    def cells(self, attributes: Any = None) -> Cells:
        """Return the released counts of some attributes, summed over the others, and their noise distribution."""
        cells = self._cells
        return cells if attributes is None else cells.over(cells.positions("attributes", attributes))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Entries are labels with declared levels, not numbers.
        tags.input_tags.two_d_array, tags.input_tags.categorical = False, True
        return tags


class _Pair(NamedTuple):
    """Two groups and an outcome, in strata, with the noise of a count with the outcome and without it."""

    strata: Strata
    having: CountNoise
    lacking: CountNoise
    words: str


def _product(cells: Cells) -> Numbers:
    """Return the proportions of independent attributes with the margins of the projected counts."""
    whole = max(float(cells.projected.sum()), 1e-300)
    result = np.ones(())
    for j in range(cells.counts.ndim):
        margin = cells.projected.sum(axis=tuple(i for i in range(cells.counts.ndim) if i != j)) / whole
        result = result[..., None] * margin
    return np.asarray(result)


def _check_shares(p: Any, shape: tuple[int, ...]) -> Numbers:
    words = f"p must be proportions of shape {shape}, not negative and adding up to 1"
    try:
        shares = np.asarray(p, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidParameter(f"{words}, got {reprlib.repr(p)}") from None
    if shares.shape != shape:
        raise InvalidParameter(f"{words}, got shape {shares.shape}")
    if not np.isfinite(shares).all() or (shares < 0).any() or abs(shares.sum() - 1) > 1e-8:
        raise InvalidParameter(
            f"{words}, got {reprlib.repr(shares.ravel().tolist())}, of sum {shares.sum():g}"
        )
    return np.asarray(shares / shares.sum())
