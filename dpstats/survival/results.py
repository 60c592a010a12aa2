"""Estimates of survival releases, and the distributions of their errors."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from dpstats.data.parameters import check_real
from dpstats.inference.error_distributions import ErrorDistribution, Limits, Tail
from dpstats.inference.estimates import Estimates
from dpstats.inference.reports import SIMULATED, Printed
from dpstats.inference.results import FREE, HypothesisTest, Summary, significant
from dpstats.survival.curves import PlacedCurves
from dpstats.survival.hazard_ratios import LARGEST_LOG_RATIO, HazardRatio
from dpstats.survival.table import SurvivalTable

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
