"""Private contingency tables: counts of every combination of declared levels, and all that follows from them.

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
from dpstats.inference import Estimates, HasEstimates, Test
from dpstats.mechanisms.histogram import count_stage, count_steps
from dpstats.noisy_counts import CountNoise
from dpstats.privacy.budget import PrivacyBudget
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan
from dpstats.release.estimator import PrivateEstimator
from dpstats.release.parameters import parameters
from dpstats.release.session import Released
from dpstats.results import ConfidenceInterval, Summary
from dpstats.tables.cells import Cells
from dpstats.tables.effects import DIFFERENCE, ODDS_RATIO, RISK_RATIO, Measure, effect
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
    def cell_noise(self) -> CountNoise:
        """The noise of a count."""
        noise = self.noise(CELLS)
        return CountNoise(noise.law, float(np.asarray(noise.scale)))

    def expected_error(self, std: float | NDArray[np.float64] | None = None) -> float:
        """Return the expected squared l2 error of ``counts_`` about the counts in these data."""
        return math.prod(self.shape) * self.cell_noise.variance


@parameters
class ContingencyTable(HasEstimates, PrivateEstimator[TablePlan]):
    """Private table of counts by one attribute or several, with tests, proportions and effects from one release.

    Parameters
    ----------
    levels : mapping of names to sequences, or sequence of sequences
        The public levels of every attribute, two or more each, declared and never read off the data: by name, or in the
        order of the columns. An entry is at a level that it equals, as for `Histogram`; None or NaN is the level of the
        missing entries.
    epsilon : float, default=1.0
        Privacy parameter, greater than 0.
    delta : float, default=0.0
        0 adds discrete Laplace noise of scale 2/epsilon to every cell, whatever their number: the choice for one table.
        In (0, 1) Gaussian noise, which is larger, for budgets that add up many releases by ``method="gdp"`` or "zcdp".
    unknown : {"error", "drop"}, default="error"
        What a row with an entry at no level does: refuse the data (which shows that there was one), or count in no
        cell. With "drop" the number of such rows is released beside the cells, at no cost, and proportions and tests
        are about the other rows.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Charged by every fit, before noise is drawn; shared by clones.

    Attributes
    ----------
    counts_ : ndarray of shape (r_1, ..., r_k)
        The noisy counts, as released: unbiased; whole numbers at delta = 0, and maybe negative.
    dropped_ : float
        The noisy number of rows in no cell; 0 unless ``unknown="drop"``.
    noise_std_ : float
        Standard deviation of the noise of a cell.
    privacy_ : PrivacyGuarantee
        Guarantee of the fit, for neighboring datasets that differ in one row.
    plan_ : TablePlan
    n_features_in_ : int
        Number of attributes.
    feature_names_in_ : ndarray of shape (k,)
        Their names, where they have any.

    Notes
    -----
    A row is in one cell, so that the whole table costs no more than one count. Rows are assumed to be independent draws
    from a population; everything below counts their sampling error and the noise, and costs nothing after the fit:

    * ``independence`` and ``goodness_of_fit`` simulate the whole release under the null hypothesis. A plain chi-square
      test of noisy counts rejects true null hypotheses far too often.
    * ``confidence_interval`` of all cells covers with at least its level, whatever n; within groups, and for
      ``difference``, ``risk_ratio`` and ``odds_ratio``, it is an inverted score test with the noise's tails and the
      binomial's skewness. Where noise leaves nothing of a group it is all that is possible.

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
    random_state: Any = None
    budget: PrivacyBudget | None = None

    _min_samples = 1

    def plan(self, n_samples: int, n_features: int | None = None) -> TablePlan:
        """Return the release plan of a fit on data of this size.

        Parameters
        ----------
        n_samples : int
            Public number of rows.
        n_features : int, optional
            Number of attributes: that of the declared ones.
        """
        kinds = self._kinds()
        n = check_integer("n_samples", n_samples, at_least=1, at_most=2**31)
        d = len(kinds) if n_features is None else check_integer("n_features", n_features, at_least=1)
        if d != len(kinds):
            raise InvalidParameter(f"n_features must be {len(kinds)}, one per attribute of levels, got {d}")
        unknown = check_choice("unknown", self.unknown, ["error", "drop"])
        guarantee = PrivacyGuarantee(*check_privacy_parameters(self.epsilon, self.delta))
        shape = tuple(map(len, kinds))
        size = math.prod(shape) + (unknown == "drop")
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
        return {CELLS: count_steps(plan.additive[0], counts[: plan.additive[0].size], plan.n_samples)}

    def _report(self, released: Released, plan: TablePlan) -> None:
        counts = np.asarray(released[CELLS])
        size = math.prod(plan.shape)
        self.counts_ = counts[:size].reshape(plan.shape)
        self.dropped_ = float(counts[size]) if plan.unknown == "drop" else 0.0
        self.noise_std_ = plan.cell_noise.std

    # What follows from the counts.

    @property
    def _cells(self) -> Cells:
        check_is_fitted(self)
        plan, kinds = self.plan_, self._kinds()
        named = getattr(self, "feature_names_in_", None)
        if isinstance(self.levels, Mapping):
            names = tuple(self.levels)
        else:
            names = tuple(f"x{j}" for j in range(len(kinds))) if named is None else tuple(named)
        noise = plan.cell_noise
        dropped = plan.unknown == "drop"
        return Cells(
            self.counts_,
            min(max(plan.n_samples - self.dropped_, 0.0), plan.n_samples),
            noise,
            noise if dropped else None,
            names,
            tuple(kind.values for kind in kinds),
        )

    def proportions(self, axis: Any = None) -> Numbers:
        """Return the estimated proportions: of all cells, from the nearest possible counts; or within groups.

        Parameters
        ----------
        axis : attribute, or several, by name or position, optional
            What they add up to 1 over: ``axis=1`` gives, for each level of the other attributes, the proportions of the
            levels of attribute 1. None is all: the proportions of the cells.

        Returns
        -------
        ndarray of the table's shape
            NaN in groups of which noise left nothing.
        """
        cells = self._cells
        return cells.shares(None if axis is None else cells.positions("axis", axis))

    def estimates(self, *, axis: Any = None) -> Estimates:
        """Return the proportions with the distribution of their errors: they can be pickled without the estimator.

        Over all cells, of rows that were all counted, intervals cover with at least the level, whatever n. Within
        groups, whose sizes are private, they are from an inverted score test. Together they cover by Bonferroni's
        inequality.

        Parameters
        ----------
        axis : attribute, or several, optional
            As for `proportions`.
        """
        return self._estimates(self.cells(), axis)

    def _estimates(self, cells: Cells, axis: Any = None, first: int | None = None) -> Estimates:
        """Return the proportions of so many cells."""
        plan, noise = self.plan_, cells.noise
        dropped = plan.unknown == "drop"
        found = cells.estimates(None if axis is None else cells.positions("axis", axis), first)
        sizes = ", ".join(f"{name} ({r})" for name, r in zip(cells.names, plan.shape, strict=True))
        notes = [
            "Counts are as released: unbiased, and maybe negative. Proportions are of the nearest possible counts.",
            "Intervals count sampling error and noise, if rows are independent."
            + (
                ""
                if dropped or axis is not None
                else " They are conservative: each covers with at least its level."
            ),
        ]
        if len(found.names) < cells.counts.size:
            notes.append(f"The first {first} of {cells.counts.size:,} cells; all are in counts_.")
        if dropped:
            notes.append(f"Rows in no cell: {self.dropped_:g} (noisy); proportions are of the others.")
        digits = 0 if noise.law == "laplace" else 1
        counts = cells.counts.ravel()[:first]
        return replace(
            found,
            title="Private contingency table",
            facts=(
                ("Estimator", type(self).__name__),
                ("Rows", f"{plan.n_samples:,} (public)"),
                ("Attributes", sizes),
                ("Privacy", str(self.privacy_)),
                (
                    "Noise",
                    f"{noise.law.capitalize()} of scale {noise.scale:.4g} on every count (sd {noise.std:.3g})",
                ),
            ),
            notes=notes,
            beside={"count": [f"{count:,.{digits}f}" for count in counts.tolist()]},
            simulated=self.privacy_.simulated,
        )

    def confidence_interval(
        self,
        confidence_level: float | None = None,
        *,
        simultaneous: bool | None = None,
        alternative: str | None = None,
        axis: Any = None,
    ) -> ConfidenceInterval:
        """Return an interval for every proportion in the population; see `estimates` for ``axis``."""
        found = self.estimates(axis=axis)
        return found.confidence_interval(confidence_level, simultaneous=simultaneous, alternative=alternative)

    def test(
        self,
        value: Any = 0.0,
        alternative: str | None = None,
        *,
        simultaneous: bool | None = None,
        axis: Any = None,
    ) -> Test:
        """Test whether each proportion is ``value``; see `estimates` for ``axis``."""
        return self.estimates(axis=axis).test(value, alternative, simultaneous=simultaneous)

    def summary(self, confidence_level: float | None = None) -> Summary:
        """Return a table of the first cells; prints as text, shows as HTML in a notebook."""
        return self._estimates(self.cells(), first=_SHOWN).summary(confidence_level)

    def independence(self, attributes: Any = None, *, n_simulations: int = 9999) -> TableTest:
        """Test whether attributes are independent of each other, from what was released: it costs no privacy.

        Parameters
        ----------
        attributes : sequence of two attributes or more, by name or position, optional
            In the table that is added up over the others; None is all.
        n_simulations : int, default=9999
            In each of two bootstraps, of which the larger p-value counts. Their seed is public and fixed.

        Returns
        -------
        TableTest
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
        return TableTest(statistic, pvalue, expected, f"{names}: independent", note, size, self.privacy_)

    def goodness_of_fit(self, p: Any, attributes: Any = None, *, n_simulations: int = 9999) -> TableTest:
        """Test whether the proportions are stated ones, from what was released: it costs no privacy.

        Parameters
        ----------
        p : array of the table's shape
            Public, not negative, adding up to 1.
        attributes : attribute, or several, optional
            In the table that is added up over the others; None is all.
        n_simulations : int, default=9999

        Returns
        -------
        TableTest
            Its null distribution is known, so that the p-value is exact.
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
        """Return how much larger the share of an outcome is in one group than in another, with an interval.

        Parameters
        ----------
        groups : pair of levels of the first attribute, optional
            First and second: the first less the second. May be left out where there are two, in their order.
        outcome : level of the second attribute, optional
            The share of which is compared. May be left out where there are two: the first of them.
        attributes : pair of attributes, by name or position, optional
            Which of them makes the groups, and which is the outcome; may be left out where there are two.
        strata : attribute, or several, optional
            The groups are compared within their levels. The estimate is Mantel and Haenszel's, of one value that is
            common to all strata: see `homogeneity`.

        Returns
        -------
        Estimates
            Of one number: ``estimate``, ``pvalue`` (that the shares are equal), ``confidence_interval()``,
            ``test(value, alternative)``.
        """
        return self._effect(DIFFERENCE, groups, outcome, attributes, strata)

    def risk_ratio(
        self, groups: Any = None, outcome: Any = None, attributes: Any = None, *, strata: Any = None
    ) -> Estimates:
        """Return how many times larger the share of an outcome is in one group than in another; as `difference`."""
        return self._effect(RISK_RATIO, groups, outcome, attributes, strata)

    def odds_ratio(
        self, groups: Any = None, outcome: Any = None, attributes: Any = None, *, strata: Any = None
    ) -> Estimates:
        """Return the ratio of the odds of an outcome in one group to those in another; as `difference`."""
        return self._effect(ODDS_RATIO, groups, outcome, attributes, strata)

    def number_needed_to_treat(
        self, groups: Any = None, outcome: Any = None, attributes: Any = None, *, strata: Any = None
    ) -> Estimates:
        """Return 1 over the `difference`: how many rows of the first group there are for one more outcome.

        The interval holds 1 over each value of the interval of the difference. Where that interval contains 0, the
        number may be beyond any bound on either side, and the interval is the whole line.
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
        """Test whether a measure is the same in all strata, as Breslow and Day's test does: it costs no privacy.

        Parameters
        ----------
        measure : {"odds ratio", "risk ratio", "difference"}
        groups, outcome, attributes, strata
            As for `difference`.
        n_simulations : int, default=999
            Of whole releases with the common value in all strata. Their seed is public and fixed.
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
        """Return how much larger the share of an outcome is in one attribute than in another of the same rows.

        The test that the shares are equal is McNemar's: before and after a treatment, or by two raters.

        Parameters
        ----------
        outcome : level of both attributes, optional
            May be left out where there are two levels: the first of them.
        attributes : pair of attributes with the same levels, by name or position, optional
            The first less the second; may be left out where there are two.
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
        """Return the slope of the share of an outcome in the scores of ordered groups.

        The test that it is 0 is Cochran and Armitage's.

        Parameters
        ----------
        scores : sequence of numbers, one for each level of the first attribute, optional
            Public; by default 0, 1, 2, and so on, in the order of the levels.
        outcome, attributes
            As for `difference`.
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
        """Return the released counts with the law of their noise, of some attributes added up over the others."""
        cells = self._cells
        return cells if attributes is None else cells.over(cells.positions("attributes", attributes))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # A table of labels at declared levels: no numbers.
        tags.input_tags.two_d_array, tags.input_tags.categorical = False, True
        return tags


class _Pair(NamedTuple):
    """Two groups and an outcome, in strata, with the noise of a count with the outcome and without it."""

    strata: Strata
    having: CountNoise
    lacking: CountNoise
    words: str


def _product(cells: Cells) -> Numbers:
    """Return the shares of independent attributes with the margins of the projected counts."""
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
