"""Comparisons of the curves of one released table: differences, hazard ratios and log-rank tests of groups."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dpstats.data.parameters import check_choice, check_flag, check_real
from dpstats.data.schema import Categories
from dpstats.data.values import exact_numbers
from dpstats.errors import attempt, refuse
from dpstats.inference.error_distributions import BONFERRONI, HOLM
from dpstats.inference.estimates import HasEstimates
from dpstats.inference.results import FREE
from dpstats.survival.cells import SurvivalEstimator, assumptions, crowding_notes, first_edge, shape_notes
from dpstats.survival.curves import normal_critical
from dpstats.survival.hazard_ratios import HazardRatio, Reference
from dpstats.survival.results import (
    AreaDifferenceErrors,
    LogRankResult,
    RatioErrors,
    SurvivalDifferenceErrors,
    SurvivalEstimate,
    TableErrors,
    check_weights,
    describe_weights,
)
from dpstats.survival.table import Moments, SurvivalTable, table_log_rank
from dpstats.survival.table_plan import TablePlan

Floats = NDArray[np.float64]

_ADJUSTMENTS = {"holm": HOLM, "bonferroni": BONFERRONI}


class ComparesCurves(HasEstimates, SurvivalEstimator[TablePlan]):
    """Base of an estimator that has released a survival table, with what a fit sets and the comparisons of groups."""

    edges_: Floats
    survival_: Floats
    at_risk_: Floats
    at_risk_noise_std_: Floats
    usable_until_: Any
    _table: SurvivalTable

    # Arguments

    def _places(self, group: Any) -> list[int]:
        """Return the positions of a group, or of all."""
        check_is_fitted(self)
        return list(range(self.plan_.cells.n_declared)) if group is None else [self._place("group", group)]

    def _place(self, name: str, label: Any, given: Any = None) -> int:
        """Return the position of a declared group. An entry of a container that is ``given`` is not shown."""
        check_is_fitted(self)
        labels = self.plan_.groups
        place = -1 if labels is None else int(Categories(labels).codes([label])[0])
        if place < 0:
            known = "there are none" if labels is None else ", ".join(map(repr, labels[:6]))
            raise refuse(name, given=label if given is None else given, allowed=f"a declared group ({known})")
        return place

    def _several(self, group: Any, values: list[Any]) -> Any:
        """Return values of the groups that the user names."""
        several = group is None and self.plan_.groups is not None
        return np.array(values) if several else values[0]

    def _names(self, group: Any = None) -> tuple[str, ...]:
        labels = self.plan_.groups
        return tuple("all" if labels is None else str(labels[place]) for place in self._places(group))

    def _times(self, name: str, t: Any) -> Floats:
        times = np.asarray(exact_numbers(name, t), dtype=np.float64)
        if not np.all((times >= 0) & (times <= self.edges_[-1])):
            raise refuse(name, given=t, allowed=f"times from 0 to the horizon, {self.edges_[-1]:g}")
        return times

    def _time(self, name: str, t: Any) -> float:
        end = float(self.edges_[-1])
        return end if t is None else check_real(name, t, above=0, at_most=end)

    def _edge(self, t: Any) -> int:
        """Return the position of the edge at a time or before it, with a bin that ends there."""
        start, edges = first_edge(self.plan_.cells), self._table.edges
        time = float(self._times("t", t)) if start and t == 0 else self._time("t", t)
        return max(int(np.searchsorted(edges, time * (1 + 1e-12), side="right")) - 1, 1)

    # Comparisons

    def difference(self, a: Any, b: Any, t: float) -> SurvivalEstimate:
        """Return the survival of group ``a`` minus the survival of ``b`` at a time, with an interval.

        Parameters
        ----------
        a, b : labels of declared groups
        t : float
            An edge. Another time is moved to the edge before it.
        """
        first, second = self._pair(a, b)
        place = self._edge(t)
        edge = float(self._table.edges[place])
        one, other = (self._table.estimate(group)[place] for group in (first, second))
        found = np.float64(one - other)
        errors = SurvivalDifferenceErrors(self._table, found, (first, second), (-1.0, 1.0), place)
        return self._compare(errors, f"the survival at {edge:g} of {a!r} minus {b!r}")

    def rmst_difference(self, a: Any, b: Any, until: float | None = None) -> SurvivalEstimate:
        """Return the restricted mean of group ``a`` minus the restricted mean of ``b``, with an interval.

        Noise can raise the area under a curve above ``until``. `rmst` then gives ``until``, but the difference has the
        areas themselves.

        Parameters
        ----------
        a, b : labels of declared groups
        until : float, optional
            At most the horizon, which is the default.
        """
        first, second = self._pair(a, b)
        end = self._time("until", until)
        found = np.float64(self._table.area_difference(first, second, end)[0])
        errors = AreaDifferenceErrors(self._table, found, (first, second), (-end, end), end)
        return self._compare(errors, f"the restricted mean time up to {end:g} of {a!r} minus {b!r}")

    def hazard_ratio(self, a: Any = None, b: Any = None, *, strata: Any = None, log: bool = False) -> SurvivalEstimate:
        """Return the hazard of group ``a`` over the hazard of group ``b``, with an interval and a test.

        Parameters
        ----------
        a, b : labels of declared groups, optional
        strata : sequence of pairs of labels, optional
            In place of ``a`` and ``b``: two groups of each stratum, whose ratio is the same in all strata.
        log : bool, default=False
            Whether to return the logarithm of the ratio.

        Returns
        -------
        SurvivalEstimate
            Tested against no effect. A limit is infinite, or 0, beyond a ratio of 20 or 1/20.

        Notes
        -----
        **Estimand.** The ratio is assumed to be the same at all times: proportional hazards. Otherwise the estimate is
        an average over the follow-up, with the weights of Cox's model.

        Examples
        --------
        >>> import numpy as np
        >>> from dpstats.survival import PrivateSurvival
        >>> rng = np.random.default_rng(0)
        >>> arm = rng.integers(2, size=4000)
        >>> model = PrivateSurvival(horizon=4.0, bins=12, groups=["new", "old"], random_state=0)
        >>> model = model.fit(rng.exponential(3.0 - arm), np.ones(4000), np.where(arm, "old", "new"))
        >>> found = model.hazard_ratio("new", "old")  # 2/3
        >>> bool(found.low < 2 / 3 < found.high), found.pvalue < 0.001
        (True, True)
        """
        check_is_fitted(self)
        log = check_flag("log", log)
        if strata is not None:
            if a is not None or b is not None:
                raise refuse("strata", given=strata, allowed="None with a and b", remedy="Omit a and b.")
            pairs, what = self._strata(strata, 2), "the first to the second group of each stratum"
        else:
            pairs, what = [list(self._pair(a, b))], f"{a!r} to {b!r}"
        ratio = HazardRatio([self._table.reference((second, first)) for first, second in pairs])
        found = np.float64(ratio.estimate if log else np.exp(ratio.estimate))
        ends = (-np.inf if log else 0.0, np.inf)
        errors = RatioErrors(self._table, found, tuple(pairs[0]), ends, ratio, log)
        name = f"the {'log of the ' * log}hazard ratio of {what}, if it is the same at all times"
        estimate = self._compare(errors, name)
        notes = (
            *estimate.notes,
            "Proportional hazards are assumed. Otherwise the ratio is an average over the follow-up, with Cox's "
            "weights.",
            *self._shape_notes(ratio.references),
            *assumptions(self.plan_.cells),
        )
        title = "Private hazard ratio"
        return replace(
            estimate, names=("log ratio" if log else "ratio",), title=title, null=0.0 if log else 1.0, notes=notes
        )

    def log_rank(
        self, groups: Any = None, *, strata: Any = None, rho: float = 0.0, gamma: float = 0.0
    ) -> LogRankResult:
        """Test whether groups have the same curve, from the released table.

        `LogRankTest` has far more power, but a separate privacy cost.

        Parameters
        ----------
        groups : sequence of labels, optional
            Two or more of the declared groups; all by default.
        strata : sequence of sequences of labels, optional
            In place of ``groups``: the groups of each stratum, in the same order, which are compared inside it.
        rho, gamma : float, default=0
            Fleming and Harrington's weights S^rho (1 - S)^gamma.

        Returns
        -------
        LogRankResult
        """
        check_is_fitted(self)
        if strata is not None:
            if groups is not None:
                raise refuse("strata", given=strata, allowed="None with groups", remedy="Omit groups.")
            places = self._strata(strata)
        else:
            places = [self._chosen(groups)]
        weights = check_weights(rho, gamma)
        references = [self._table.reference(chosen, *weights) for chosen in places]
        difference, statistic, pvalue = table_log_rank(*references)

        def total(values: Callable[[Reference], Floats]) -> Floats:
            return np.asarray(sum(values(reference) for reference in references))

        labels = self._names()
        return LogRankResult(
            float(statistic[0]),
            float(pvalue[0]),
            len(places[0]) - 1,
            tuple(" + ".join(labels[place] for place in arm) for arm in zip(*places, strict=True)),
            total(lambda reference: reference.cells[0].sum(axis=1)),
            total(lambda reference: reference.observed[0]),
            total(lambda reference: reference.expected[0]),
            difference[0],
            describe_weights(*weights),
            self.privacy_.simulated,
            null=f"the groups have the same survival curve{' in each stratum' * (strata is not None)}",
            notes=(*LogRankResult.notes, *self._shape_notes(references), *assumptions(self.plan_.cells)),
        )

    def pairwise_log_rank(
        self, adjust: str = "holm", *, reference: Any = None, rho: float = 0.0, gamma: float = 0.0
    ) -> dict[tuple[Any, Any], LogRankResult]:
        """Compare all pairs of groups, or every group with one, by log-rank tests.

        Parameters
        ----------
        adjust : {"holm", "bonferroni", "none"}, default="holm"
            How p-values account for the number of pairs.
        reference : label of a declared group, optional
            Compare every other group with it. Default: all pairs.
        rho, gamma : float, default=0
            See `log_rank`.

        Returns
        -------
        dict
            The result of each pair of labels, with its adjusted p-value.

        Examples
        --------
        >>> import numpy as np
        >>> from dpstats.survival import PrivateSurvival
        >>> rng = np.random.default_rng(0)
        >>> arm = rng.integers(3, size=6000)
        >>> model = PrivateSurvival(horizon=4.0, bins=12, groups=[0, 1, 2], random_state=1)
        >>> model = model.fit(rng.exponential(2.0 + (arm == 2)), np.ones(6000), arm)
        >>> {pair: bool(test.pvalue < 0.05) for pair, test in model.pairwise_log_rank().items()}
        {(0, 1): False, (0, 2): True, (1, 2): True}
        """
        how = check_choice("adjust", adjust, [*_ADJUSTMENTS, "none"])
        labels = self._labels()
        pairs = list(itertools.combinations(labels, 2))
        if reference is not None:
            last = labels[self._place("reference", reference)]
            pairs = [(label, last) for label in labels if label != last]
        tests = [self.log_rank(pair, rho=rho, gamma=gamma) for pair in pairs]
        pvalues = np.array([test.pvalue for test in tests])
        if how != "none":
            pvalues = _ADJUSTMENTS[how].adjust(pvalues)
            words = f"The p-value is adjusted for {len(pairs)} pairs: {_ADJUSTMENTS[how].words}."
            tests = [
                replace(test, pvalue=float(pvalue), notes=(words, *test.notes))
                for test, pvalue in zip(tests, pvalues, strict=True)
            ]
        return dict(zip(pairs, tests, strict=True))

    def _pair(self, a: Any, b: Any) -> tuple[int, int]:
        first, second = self._place("a", a), self._place("b", b)
        if first == second:
            raise refuse("b", given=b, allowed="another group than a")
        return first, second

    def _labels(self) -> tuple[Any, ...]:
        check_is_fitted(self)
        labels = self.plan_.groups
        if labels is None or len(labels) < 2:
            raise refuse("groups", got="one", allowed="two or more to be compared")
        return labels

    def _chosen(self, groups: Any) -> list[int]:
        """Return the positions of two or more different groups."""
        labels = self._labels() if groups is None else groups
        self._labels()
        listed = attempt(lambda: None if isinstance(labels, str | bytes) else list(labels), TypeError)
        if listed is None or len(listed) < 2:
            got = "fewer" if listed is not None else f"a {type(labels).__name__}"
            raise refuse("groups", got=got, allowed="a sequence of two or more declared labels")
        places = [self._place("groups", label, groups) for label in listed]
        if len(set(places)) < len(places):
            raise refuse("groups", given=groups, allowed="different labels")
        return places

    def _strata(self, strata: Any, size: int | None = None) -> list[list[int]]:
        """Return the positions of the groups of each stratum, which are as many in each."""
        listed = attempt(lambda: None if isinstance(strata, str | bytes) else list(strata), TypeError)
        if not listed:
            raise refuse("strata", given=strata, allowed="a sequence of sequences of declared labels")
        places = [self._chosen(groups) for groups in listed]
        every = [place for chosen in places for place in chosen]
        if len({len(chosen) for chosen in places}) > 1 or len(set(every)) < len(every):
            raise refuse("strata", given=strata, allowed="as many groups in each stratum, each group once")
        if size is not None and len(places[0]) != size:
            raise refuse("strata", given=strata, allowed=f"sequences of {size} labels")
        return places

    def _shape_notes(self, references: Sequence[Reference]) -> list[str]:
        ends, notes = self._table.edges[1:], []
        notes += crowding_notes(ends[np.any([reference.crowded[0] for reference in references], axis=0)])
        if not self.plan_.discrete:
            shaped = [each.shaped(Moments.compute(each).errors)[0] for each in references]
            notes += shape_notes(ends[np.any(shaped, axis=0)], what="The comparison")
        return notes

    def _estimate(self, group: Any, errors: TableErrors, what: str, notes: Sequence[str] = ()) -> SurvivalEstimate:
        low, high = errors.limits((1 - 0.95) / 2)
        return SurvivalEstimate(
            errors.estimate,
            (high - low) / (2 * normal_critical(0.95)),
            self._names(group),
            what,
            errors,
            title="Private survival estimate",
            notes=(FREE, *notes),
            simulated=self.privacy_.simulated,
        )

    def _compare(self, errors: TableErrors, what: str) -> SurvivalEstimate:
        found = self._estimate(None, errors, what)
        return replace(found, names=("difference",), title="Private survival difference", null=0.0)
