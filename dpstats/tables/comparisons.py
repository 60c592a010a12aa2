"""Comparisons of groups in a table: effects of two groups, of strata and of pairs, and trends over ordered groups."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dpstats.data.parameters import check_choice, check_simulations
from dpstats.errors import attempt, refuse, show, show_names
from dpstats.inference.error_distributions import HOLM, ScoreErrors, SeveralScores
from dpstats.inference.estimates import Estimates
from dpstats.inference.noisy_counts import CountNoise, NoisyShare
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.tables.equations import (
    COHENS_H,
    DIFFERENCE,
    ODDS_RATIO,
    RISK_RATIO,
    CommonErrors,
    Measure,
    PairedErrors,
    Strata,
    TrendErrors,
    common,
    effect,
    equation_estimate,
    homogeneity_pvalue,
    reciprocal,
)
from dpstats.tables.null_tests import Cells, TableTest

_BOTH = "that of the groups and that of the outcome"
_MEASURES = {each.name: each for each in (ODDS_RATIO, RISK_RATIO, DIFFERENCE)}


class ComparesGroups(ABC):
    """Base of the tables whose groups can be compared. Nothing here has a privacy cost."""

    privacy_: PrivacyGuarantee

    @abstractmethod
    def cells(self, attributes: Any = None) -> Cells:
        """Return the released counts of some attributes, summed over the others, and their noise distribution."""

    def difference(
        self, groups: Any = None, outcome: Any = None, attributes: Any = None, *, strata: Any = None
    ) -> Estimates:
        """Return the difference between the proportions of an outcome in two groups, with an interval.

        Parameters
        ----------
        groups : pair of levels of the first attribute, optional
            The two groups. The result is the proportion in the first minus the proportion in the second. Default: the
            second level against the first, as in regressions, if there are two.
        outcome : level of the second attribute, optional
            Outcome whose proportion is compared. Default: the second level, as in regressions, if there are two.
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

    def pairwise(
        self, measure: str = "difference", reference: Any = None, *, outcome: Any = None, attributes: Any = None
    ) -> Estimates:
        """Compare the proportions of an outcome in all pairs of groups, or in every group with one.

        P-values are adjusted by Holm's procedure, and intervals hold together by Bonferroni's inequality.

        Parameters
        ----------
        measure : {"difference", "risk ratio", "odds ratio"}, default="difference"
            Measure to compare.
        reference : level of the first attribute, optional
            Compare every other group with it. Default: all pairs.
        outcome, attributes
            The same as in `difference`.

        Returns
        -------
        Estimates
            A number for each pair: ``estimate``, ``pvalue`` (null hypothesis: equal proportions) and
            ``confidence_interval()``.

        Examples
        --------
        >>> from dpstats.tables import ContingencyTable
        >>> rows = [["a", 1]] * 300 + [["a", 0]] * 200 + [["b", 1]] * 100 + [["b", 0]] * 400 + [["c", 0]] * 500
        >>> table = ContingencyTable(levels=[["a", "b", "c"], [0, 1]], random_state=0).fit(rows)
        >>> table.pairwise(reference="c").names
        ('a - c', 'b - c')
        """
        chosen = _MEASURES[check_choice("measure", measure, list(_MEASURES))]
        cells = self._two(attributes, _BOTH)
        levels, event = cells.levels[0], self._event(cells, outcome)
        if len(levels) < 2:
            raise refuse("levels", got="one group", allowed="have two or more to be compared")
        pairs = list(itertools.combinations(range(len(levels)), 2))
        if reference is not None:
            last = cells.code(0, reference, "reference")
            pairs = [(place, last) for place in range(len(levels)) if place != last]
        found = [
            self._effect(chosen, (levels[i], levels[j]), cells.levels[1][event], cells.names, None) for i, j in pairs
        ]
        sign = "-" if chosen is DIFFERENCE else "/"
        by, of = cells.names
        words = f"{chosen.name} of the proportions with {of} = {cells.levels[1][event]}, by {by}, in the population"
        return Estimates(
            np.array([one.estimate for one in found]),
            np.array([one.error for one in found]),
            tuple(f"{levels[i]} {sign} {levels[j]}" for i, j in pairs),
            words,
            SeveralScores(tuple(one.distribution for one in found if isinstance(one.distribution, ScoreErrors))),
            title=f"Private {chosen.name}s {'of all pairs' if reference is None else 'from a reference'}",
            header=chosen.name,
            facts=[("Together", f"all {len(pairs)} pairs, by {HOLM.words}")],
            notes=found[0].notes,
            unknown=list(dict.fromkeys(note for one in found for note in one.unknown)),
            together=HOLM,
            jointly=True,
            null=chosen.none,
            labels={"first": [levels[i] for i, _ in pairs], "second": [levels[j] for _, j in pairs]},
            simulated=self.privacy_.simulated,
        )

    def number_needed_to_treat(
        self, groups: Any = None, outcome: Any = None, attributes: Any = None, *, strata: Any = None
    ) -> Estimates:
        """Return the reciprocal of the `difference`: the number of rows of the first group per additional outcome.

        The interval contains the reciprocal of each value in the interval of the difference. If that interval contains
        0, the number can be arbitrarily large with either sign, and the interval is the whole line. The sign of the
        difference can be wrong. Therefore, a one-sided interval ends at a limit of the two-sided interval of the same
        level.
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
        chosen = _MEASURES[check_choice("measure", measure, list(_MEASURES))]
        if strata is None:
            raise refuse("strata", given=None, allowed="an attribute, or several")
        pair = self._pair(groups, outcome, attributes, strata)
        size = check_simulations(n_simulations, at_least=99)
        statistic, pvalue = homogeneity_pvalue(pair.strata, chosen, pair.having, pair.lacking, size)
        note = "The null distribution is simulated at the common value; its level is measured and not proved."
        expected = pair.strata.expected_counts(chosen)
        words = f"one {chosen.name} of the {pair.words}"
        return TableTest(statistic, pvalue, expected, words, note, size, self.privacy_, "sum of squared scores")

    def paired_difference(self, outcome: Any = None, attributes: Any = None) -> Estimates:
        """Return the difference between the proportions of an outcome in two attributes of the same rows.

        Use it for measurements before and after a treatment, or by two raters. The test of equal proportions is
        McNemar's test.

        Parameters
        ----------
        outcome : level of both attributes, optional
            Outcome whose proportion is compared. Default: the second level, if there are two.
        attributes : pair of attributes with the same levels, by name or position, optional
            The result is the proportion in the first minus the proportion in the second. Default: the second
            attribute against the first, if there are two.
        """
        cells = self._two(attributes, "that are measured on the same rows")
        if attributes is None:
            cells = cells.over((1, 0))
        if cells.levels[0] != cells.levels[1]:
            raise refuse("attributes", got=" and ".join(map(show, cells.names)), allowed="have the same levels")
        event = self._event(cells, outcome)
        counts, count = cells.counts, len(cells.counts) - 1
        gained = float(counts[event].sum() - counts[event, event])
        lost = float(counts[:, event].sum() - counts[event, event])
        level = cells.levels[0][event]
        words = f"share with {cells.names[0]} = {level} less that with {cells.names[1]} = {level}"
        return equation_estimate(
            PairedErrors(gained, lost, max(cells.total, 1.0), cells.noise.of(count)),
            "paired difference",
            words,
            self.privacy_,
        )

    def trend(self, scores: Any = None, outcome: Any = None, attributes: Any = None) -> Estimates:
        """Return the slope of the proportion of an outcome, as a function of the scores of ordered groups.

        The test of slope 0 is the Cochran-Armitage test, with a correction for skewness that keeps its level where few
        rows of a small group have the outcome. If noise hides the sizes of the groups, the interval has all possible
        values.

        Parameters
        ----------
        scores : sequence of numbers, one for each level of the first attribute, optional
            Public scores. Default: 0, 1, 2 and so on, in the order of the levels.
        outcome, attributes
            The same as in `difference`.
        """
        cells = self._two(attributes, _BOTH)
        event = self._event(cells, outcome)
        rows, columns = cells.counts.shape
        converted = attempt(
            lambda: np.asarray(np.arange(rows) if scores is None else scores, dtype=np.float64), Exception
        )
        given = np.empty(0) if converted is None else converted
        if given.shape != (rows,) or not np.isfinite(given).all() or np.ptp(given) == 0:
            raise refuse("scores", given=scores, allowed=f"{rows} finite numbers that are not all equal")
        having = cells.counts[:, event]
        noise = cells.noise, cells.noise.of(columns - 1)
        errors = TrendErrors(having, cells.counts.sum(axis=1) - having, given, noise)
        words = f"slope of the share with {cells.names[1]} = {cells.levels[1][event]} in the score of {cells.names[0]}"
        return equation_estimate(errors, "trend", words, self.privacy_)

    def _two(self, attributes: Any, what: str) -> Cells:
        cells = self.cells(attributes)
        if cells.counts.ndim != 2:
            raise refuse("attributes", allowed=f"two, {what}, of {', '.join(map(repr, cells.names))}")
        return cells

    @staticmethod
    def _event(cells: Cells, outcome: Any) -> int:
        if outcome is not None:
            return cells.code(1, outcome, "outcome")
        if cells.counts.shape[1] > 2:
            raise refuse(
                "outcome",
                allowed="given where an attribute has more than two levels",
                remedy=f"Give one of {show_names(cells.levels[1])}.",
            )
        return int(cells.counts.shape[1]) - 1

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
        whole = self.cells()
        within = () if strata is None else whole.positions("strata", strata)
        if attributes is None:
            chosen = tuple(j for j in range(whole.counts.ndim) if j not in within)
        else:
            chosen = whole.positions("attributes", attributes)
        if len(chosen) != 2 or set(chosen) & set(within):
            beside = "" if strata is None else ", beside the strata"
            raise refuse(
                "attributes",
                allowed=f"two, the groups and the outcome{beside}, among {', '.join(map(repr, whole.names))}",
            )
        cells = whole.over((*chosen, *within))
        rows, columns = cells.counts.shape[:2]
        if (groups is None and rows > 2) or (outcome is None and columns > 2):
            raise refuse(
                "groups and outcome",
                allowed="given where an attribute has more than two levels",
                remedy=f"Give two of {show_names(cells.levels[0])} and one of {show_names(cells.levels[1])}.",
            )
        # The first level is the reference, as in regressions.
        pair = cells.levels[0][::-1] if groups is None else groups
        if isinstance(pair, str | bytes) or not isinstance(pair, Sequence | np.ndarray) or len(pair) != 2:
            raise refuse("groups", given=groups, allowed="a pair of levels")
        first, second = (cells.code(0, level, "groups", pair) for level in pair)
        if first == second:
            raise refuse("groups", got="one twice", allowed="two different levels")
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


class _Pair(NamedTuple):
    """Two groups and an outcome, in strata, with the noise of a count with the outcome and without it."""

    strata: Strata
    having: CountNoise
    lacking: CountNoise
    words: str
