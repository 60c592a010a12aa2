"""Estimates of survival releases, the distributions of their errors, and comparisons of the curves of one table."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from sklearn.utils.validation import check_is_fitted

from dpstats.data.parameters import check_choice, check_flag, check_real
from dpstats.data.schema import Categories
from dpstats.data.values import exact_numbers
from dpstats.errors import attempt, refuse
from dpstats.inference.error_distributions import BONFERRONI, HOLM, ErrorDistribution, Limits, Tail
from dpstats.inference.estimates import Estimates, HasEstimates
from dpstats.inference.reports import SIMULATED, Printed
from dpstats.inference.results import FREE, HypothesisTest, Summary, significant
from dpstats.survival.cells import SurvivalEstimator, assumptions, crowding_notes, first_edge, shape_notes
from dpstats.survival.curves import PlacedCurves, normal_critical
from dpstats.survival.hazard_ratios import LARGEST_LOG_RATIO, HazardRatio, Reference
from dpstats.survival.table import Moments, SurvivalTable, table_log_rank
from dpstats.survival.table_plan import TablePlan

Floats = NDArray[np.float64]

_FAR = 40.0  # standard deviations
_HALVINGS = 60
_CRITICAL = np.arange(0.0, 8.01, 0.125)
"""Standard deviations at which the limits of quantiles are computed."""


@dataclass(frozen=True, eq=False)
class CurveErrors(ErrorDistribution):
    """Errors of the survivals of some groups at some times.

    Attributes
    ----------
    table : SurvivalTable
    estimate : array of shape (groups, times), with the shape that the user asked for
    places : tuple of int
        Positions of the groups.
    times : array of shape (times,)
    """

    table: SurvivalTable
    estimate: Floats
    places: tuple[int, ...]
    times: Floats

    @property
    def start(self) -> Floats:
        """Values between the limits of every level."""
        low, high = self.limits(0.5)
        return (low + high) / 2

    @property
    def box(self) -> Limits:
        """The bounds of a probability, 0 and 1."""
        return np.zeros(self.estimate.shape), np.ones(self.estimate.shape)

    def limits(self, tail: Tail) -> Limits:
        """Return pointwise limits, each wrong with at most this probability."""
        shape = self.estimate.shape
        levels = (1 - 2 * np.broadcast_to(tail, shape)).reshape(len(self.places), -1)
        pairs = [
            self.table.pointwise_at(place, self.times, level) for place, level in zip(self.places, levels, strict=True)
        ]
        low, high = (np.array(ends).reshape(shape) for ends in zip(*pairs, strict=True))
        return low, high

    @property
    def error(self) -> Floats:
        """Standard errors, NaN beyond the usable range."""
        found = [self.table.error_at(place, self.times) for place in self.places]
        return np.array(found).reshape(self.estimate.shape)


@dataclass(frozen=True, eq=False)
class TableErrors(ErrorDistribution):
    """Errors of an estimate of each of some groups, or of the difference of two.

    Attributes
    ----------
    table : SurvivalTable
    estimate : float or array
    places : tuple of int
        Positions of the groups.
    range : tuple of float
        The ends between which the estimands lie.
    """

    table: SurvivalTable
    estimate: Any
    places: tuple[int, ...]
    range: tuple[float, float]

    @property
    def start(self) -> Floats:
        """The estimates, or a value between the limits where there is none."""
        values = np.asarray(self.estimate, dtype=np.float64)
        low, _ = self.limits(0.5)
        return np.where(np.isfinite(values), values, low)

    @property
    def box(self) -> Limits:
        """The public bounds of the estimands."""
        shape = np.shape(self.estimate)
        return np.full(shape, self.range[0]), np.full(shape, self.range[1])

    def limits(self, tail: Tail) -> Limits:
        """Return lower and upper limits, each wrong with at most this probability."""
        shape = np.shape(self.estimate)
        tails = np.broadcast_to(np.asarray(tail, dtype=np.float64), shape).ravel()
        found = [self._limits(i, float(each)) for i, each in enumerate(tails)]
        low, high = np.array(found).T
        return low.reshape(shape), high.reshape(shape)

    @abstractmethod
    def _limits(self, row: int, tail: float) -> tuple[float, float]:
        """Return the limits of one estimate."""


@dataclass(frozen=True, eq=False)
class QuantileErrors(TableErrors):
    """Errors of a quantile of the time to the event."""

    q: float

    def _limits(self, row: int, tail: float) -> tuple[float, float]:
        if not isinstance(self.table.curves(self.places[row]), PlacedCurves):
            return self._one_by_one(row, tail)
        # Near an edge the shape of a bin is known better, so that the limit of a higher level may be nearer. Limits are
        # the farthest of all lower levels: a value in an interval is in all longer ones, as its p-value says.
        critical = min(max(float(-ndtri(tail)), 0.0), float(_CRITICAL[-1]))
        place = min(int(np.searchsorted(_CRITICAL, critical, side="right")), len(_CRITICAL) - 1)
        part = (critical - _CRITICAL[place - 1]) / (_CRITICAL[place] - _CRITICAL[place - 1])
        first, last = self._farthest[row][:, place - 1 : place + 1].tolist()
        low, high = (a if a == b or part == 0 else (1 - part) * a + part * b for a, b in (first, last))
        return low, high

    @cached_property
    def _farthest(self) -> list[Floats]:
        """The lowest and highest limits of all levels up to each of the grid, for each estimate: shape (2, grid)."""
        found = []
        for row in range(len(self.places)):
            low, high = np.array([self._one_by_one(row, float(ndtr(-each))) for each in _CRITICAL]).T
            found.append(np.stack([np.minimum.accumulate(low), np.maximum.accumulate(high)]))
        return found

    def _one_by_one(self, row: int, tail: float) -> tuple[float, float]:
        return self.table.quantile_limits(self.places[row], self.q, 1 - 2 * tail)


@dataclass(frozen=True, eq=False)
class AreaErrors(TableErrors):
    """Errors of a restricted mean."""

    until: float

    def _limits(self, row: int, tail: float) -> tuple[float, float]:
        return self.table.area_limits(self.places[row], self.until, 1 - 2 * tail)


@dataclass(frozen=True, eq=False)
class AreaDifferenceErrors(TableErrors):
    """Errors of the difference of two restricted means: normal, and a grid term."""

    until: float

    def _limits(self, row: int, tail: float) -> tuple[float, float]:
        first, second = self.places
        return self.table.area_difference_limits(first, second, self.until, 1 - 2 * tail)

    def tails(self, value: Floats) -> Limits:
        """Return the p-values for the alternatives that the difference is less, and greater, than a value."""
        first, second = self.places
        difference, error, grid = self.table.area_difference(first, second, self.until)
        if np.isnan(difference):
            return ErrorDistribution.tails(self, value)
        with np.errstate(all="ignore"):
            below, above = (difference + grid - value) / error, (value - difference + grid) / error
        return np.asarray(ndtr(below)), np.asarray(ndtr(above))


@dataclass(frozen=True, eq=False)
class SurvivalDifferenceErrors(TableErrors):
    """Errors of the difference of two survivals at an edge."""

    place: int

    def _limits(self, row: int, tail: float) -> tuple[float, float]:
        return self._at(max(float(-ndtri(tail)), 0.0))

    def _at(self, critical: float) -> tuple[float, float]:
        first, second = self.places
        return self.table.difference_limits(first, second, self.place, critical)

    def tails(self, value: Floats) -> Limits:
        """Return the p-values for the alternatives that the difference is less, and greater, than a value."""
        found = np.array([self._tails(float(each)) for each in np.ravel(value)]).reshape(*np.shape(value), 2)
        return found[..., 0], found[..., 1]

    def _tails(self, value: float) -> tuple[float, float]:
        inside, outside = 0.0, _FAR
        low, high = self._at(0.0)
        if low <= value <= high and low < high:  # an unusable value has no information
            return 1.0, 1.0
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            low, high = self._at(middle)
            inside, outside = (inside, middle) if low <= value <= high else (middle, outside)
        tail = float(ndtr(-outside))
        low, high = self._at(0.0)
        return (tail, 1 - tail) if high < value else (1 - tail, tail)


@dataclass(frozen=True, eq=False)
class RatioErrors(TableErrors):
    """Errors of a hazard ratio, or of its logarithm."""

    ratio: HazardRatio
    log: bool

    def _limits(self, row: int, tail: float) -> tuple[float, float]:
        low, high = self.ratio.limits(tail)
        return (low, high) if self.log else (float(np.exp(low)), float(np.exp(high)))

    def tails(self, value: Floats) -> Limits:
        """Return the p-values for the alternatives that the ratio is less, and greater, than a value."""
        value = np.asarray(value, dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = value if self.log else np.log(value)
        logs = np.clip(logs, -LARGEST_LOG_RATIO, LARGEST_LOG_RATIO)
        score = self.ratio.standardize(logs.ravel()).reshape(value.shape)
        return np.asarray(ndtr(score)), np.asarray(ndtr(-score))


@dataclass(frozen=True, eq=False, repr=False)
class SurvivalEstimate(Estimates):
    """Estimates of a survival release with their limits: a median of each group, say.

    Attributes
    ----------
    low, high : float, or array of shape (groups,)
        Limits at the level 0.95.
    pvalue : float, or array of shape (groups,)
        Two-sided, of the value 0, or of a hazard ratio of 1.

    Notes
    -----
    An estimate is NaN where the usable range of the curve does not reach it. An infinite time is not reached.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.survival import PrivateSurvival
    >>> rng = np.random.default_rng(0)
    >>> times, limit = rng.exponential(2.0, 2000), rng.uniform(1.0, 5.0, 2000)
    >>> model = PrivateSurvival(horizon=4.0, random_state=0)
    >>> model = model.fit(np.minimum(times, limit), times <= limit)
    >>> found = model.median()
    >>> bool(found.low < found.estimate < found.high)
    True
    """

    @property
    def low(self) -> Any:
        """The lower limits at the level 0.95."""
        return self.confidence_interval().low

    @property
    def high(self) -> Any:
        """The upper limits at the level 0.95."""
        return self.confidence_interval().high

    @property
    def pvalue(self) -> Any:
        """The two-sided p-values of the value 0, or of no effect."""
        return self.test(0.0 if self.null is None else self.null).pvalue

    def _format(self, value: float, error: float) -> str:
        return shown(value, error)


@dataclass(frozen=True, eq=False, repr=False)
class LogRankResult(HypothesisTest, Printed):
    """Result of a log-rank test: of `LogRankTest`, or of a table that `PrivateSurvival` released before.

    Attributes
    ----------
    statistic : float
        Chi-square, or a normal variable for two groups of `LogRankTest`.
    pvalue : float
    degrees_of_freedom : int
        Number of groups less one.
    names : tuple of str
        The groups.
    n, observed, expected, difference : arrays of shape (n_groups,)
        Rows, events, expected events, and weighted observed less expected events; with noise.
    weights : str
        Description of the weights.
    simulated : bool
        Whether the noise of the release was simulated.
    null : str
        The null hypothesis as text.
    law : str
        Distribution of the statistic under the null hypothesis, as text.
    facts : tuple of pairs of str
        Further lines of the summary, with their names.
    notes : tuple of str
        Notes of the summary.
    noise_std : float
        Standard deviation of the noise of a difference. NaN if it is not known.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.survival import PrivateSurvival
    >>> rng = np.random.default_rng(0)
    >>> arm, times = rng.integers(2, size=3000), rng.exponential(2.0, 3000)
    >>> model = PrivateSurvival(horizon=4.0, groups=[0, 1], random_state=0)
    >>> test = model.fit(times * (1 + 0.3 * arm), np.ones(3000), arm).log_rank()
    >>> test.pvalue < 0.001, test.degrees_of_freedom
    (True, 1)
    """

    _numbers: ClassVar[tuple[str, ...]] = ("n", "observed", "expected", "difference")
    _facts_of_all: ClassVar[tuple[str, ...]] = ("statistic", "pvalue", "null")
    _several: ClassVar[bool] = True

    statistic: float
    pvalue: float
    degrees_of_freedom: int
    names: tuple[str, ...]
    n: Floats
    observed: Floats
    expected: Floats
    difference: Floats
    weights: str
    simulated: bool = False
    null: str = "the groups have the same survival curve"
    law: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = (
        FREE,
        "The level is measured and not proved. LogRankTest has more power, at a separate privacy cost.",
    )
    noise_std: float = float("nan")

    def summary(self) -> Summary:
        """Return a table of groups, as R's survdiff prints it; prints as text, shows as HTML in a notebook."""
        noise = self.noise_std if np.isfinite(self.noise_std) else None
        rows = [
            (
                name,
                *(f"{float(number):z,.0f}" for number in numbers),
                f"{difference:z,.0f}" if noise is None else significant(difference, noise),
            )
            for name, *numbers, difference in zip(
                self.names, self.n, self.observed, self.expected, self.difference.tolist(), strict=True
            )
        ]
        df = self.degrees_of_freedom
        law = self.law or f"chi-square, {df} degree{'s' if df > 1 else ''} of freedom"
        name = law.partition(",")[0].replace("normal", "z")
        facts = [
            ("Null hypothesis", self.null),
            ("Test", f"{name} = {self.statistic:.3f}, p-value = {self.pvalue:.4g} ({law})"),
            ("Weights", self.weights),
            *self.facts,
        ]
        columns = ["", "N", "observed", "expected", "O - E"]
        notes = [*[SIMULATED] * self.simulated, *self.notes]
        return Summary("Private log-rank test", facts, columns, rows, notes)


def check_weights(rho: Any, gamma: Any) -> tuple[float, float]:
    """Return the parameters of Fleming and Harrington's weights."""
    return check_real("rho", rho, at_least=0, at_most=10), check_real("gamma", gamma, at_least=0, at_most=10)


def describe_weights(rho: float, gamma: float) -> str:
    """Return Fleming and Harrington's weights as text."""
    return "1" if rho == gamma == 0 else f"S^{rho:g} (1 - S)^{gamma:g}"


def shown(value: float, error: float) -> str:
    """Format an estimate to the precision of its error; an infinite time is not reached."""
    if np.isnan(value):
        return "unusable"
    if np.isinf(value):
        return "not reached"
    return significant(value, error if np.isfinite(error) and error > 0 else None)


# Comparisons of the curves of one released table


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
            *self._shape_notes(ratio.references, ratio.find_steep()),
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

    def _shape_notes(self, references: Sequence[Reference], steep: NDArray[np.bool_] | bool = False) -> list[str]:
        ends, notes = self._table.edges[1:], []
        notes += crowding_notes(ends[np.any([reference.crowded[0] for reference in references], axis=0)])
        if not self.plan_.discrete:
            shaped = [each.find_shaped(Moments.compute(each).errors)[0] for each in references]
            notes += shape_notes(ends[np.any(shaped, axis=0) | steep], what="The comparison")
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
