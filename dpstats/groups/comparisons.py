"""Comparisons of groups: analysis of variance, differences, standardized differences and ratios."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import refuse
from dpstats.inference.error_distributions import ErrorDistribution, Limits, Tail, normal_quantile
from dpstats.inference.estimates import Estimates
from dpstats.inference.reports import SIMULATED
from dpstats.inference.results import FREE, HypothesisTest, Summary, plain
from dpstats.means.ratio import DifferenceErrors, Noise, Ratio, apart

Floats = NDArray[np.float64]


# Analysis of variance by public simulation

# The statistic is Wald's. Each group's variance is at least the pooled one, and a count close to 0 has a weight close
# to 0. The null distribution depends on the sizes of the groups and of the noise. It is simulated: groups of the
# released sizes, all with the released common mean, are released repeatedly with the same noise.


@dataclass(frozen=True, slots=True, eq=False)
class AnalysisOfVariance(HypothesisTest):
    """Are the means of all groups equal? One test for each column.

    Attributes
    ----------
    statistic : array of shape (n_features,)
        Wald's, with weights that include the noise.
    pvalue : array of shape (n_features,)
        (1 + number of simulated statistics as large)/(1 + number of simulations). For means adjusted for covariates, by
        the chi-squared distribution.
    n_groups, n_simulations : int
        ``n_simulations`` is 0 without a simulation.
    names : sequence of str
        Names of the columns.
    simulated : bool
        Whether the noise of the release was simulated.
    adjusted_for : str
        What the means are equal in, as words: "" without covariates.
    """

    _numbers: ClassVar[tuple[str, ...]] = ("statistic", "pvalue")
    _facts_of_all: ClassVar[tuple[str, ...]] = ("n_groups", "n_simulations")
    _several: ClassVar[bool] = True

    statistic: Floats
    pvalue: Floats
    n_groups: int
    n_simulations: int
    names: Sequence[str]
    simulated: bool = field(default=False, kw_only=True)
    adjusted_for: str = field(default="", kw_only=True)

    @property
    def _null(self) -> str:
        if not self.n_simulations:
            return f"by the chi-squared distribution with {self.n_groups - 1} degrees of freedom"
        return f"of {self.n_simulations:,} simulated releases with equal means"

    def summary(self) -> Summary:
        """Return a table. It prints as text, and shows as HTML in a notebook."""
        rows = [
            (name, f"{statistic:.3f}", f"{p:.4g}")
            for name, statistic, p in zip(self.names, self.statistic, self.pvalue, strict=True)
        ]
        null = f"the means of all {self.n_groups} groups are equal{self.adjusted_for}"
        facts = [("Null hypothesis", null), ("p-values", self._null)]
        return Summary(
            "Private analysis of variance",
            facts,
            ["", "statistic", "p-value"],
            rows,
            [FREE, _ANOVA] + [SIMULATED] * self.simulated,
        )


_ANOVA = "Spreads may differ between groups. The level is measured, and not exact: docs/groups.md has where."
_PRIOR = 0.5
"""Prior standard deviation of a group's sum of squares, as a fraction of its value at the pooled variance."""
_BLOCK = 1 << 21


def wald_statistic(ratio: Ratio) -> tuple[Floats, Floats]:
    """Return Wald's statistic and the common mean, of groups in the last axis but one."""
    noise, m = ratio.noise, ratio.estimate
    count = np.maximum(ratio.N, 0.0)
    own, pooled = _squares(ratio, m, count)
    spread = np.maximum(own, count * pooled) + noise.total**2 + m**2 * noise.count**2
    # Use the mean of all rows together: weights from noisy counts would draw it towards 0.
    rows = np.maximum(ratio.N.sum(axis=-2, keepdims=True), noise.count * np.sqrt(ratio.N.shape[-2]))
    mean = np.clip(ratio.T.sum(axis=-2, keepdims=True) / rows, -1.0, 1.0)
    return ((ratio.T - mean * ratio.N) ** 2 / spread).sum(axis=-2), mean


def _squares(ratio: Ratio, about: Floats, count: Floats) -> tuple[Floats, Floats]:
    """Return the groups' sums of squares about some values, and the pooled variance of a row."""
    own = np.maximum(ratio.Q - 2 * about * ratio.X + about**2 * ratio.R, 0.0)
    rows = np.maximum(count.sum(axis=-2, keepdims=True), 1.0)
    return own, np.minimum(own.sum(axis=-2, keepdims=True) / rows, 1.0)


def simulated_test(ratio: Ratio, n_simulations: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return the statistic of equal means, and its p-value by simulated releases."""
    found = wald_statistic(ratio)[0]
    larger = (null_statistics(ratio, n_simulations, rng) >= found).sum(axis=0)
    return plain(found), plain((1 + larger) / (1 + n_simulations))


def null_statistics(ratio: Ratio, n_simulations: int, rng: np.random.Generator) -> Floats:
    """Return statistics of simulated releases of groups of these sizes with one mean: simulations first."""
    noise = ratio.noise
    _, mean = wald_statistic(ratio)
    count = np.broadcast_to(np.maximum(ratio.N, 0.0), ratio.shape)
    own, pooled = _squares(ratio, mean, count)
    # Shrink a group's own sum of squares towards the pooled one: the more, the larger the noise.
    prior = (_PRIOR * count * pooled) ** 2
    off = noise.square**2 + 4 * mean**2 * noise.cross**2 + mean**4 * noise.spread**2 + 2 * mean**2 * noise.square_spread
    within = count * pooled + (own - count * pooled) * prior / (prior + off)
    within = np.minimum(within, count * (1 - mean**2))
    step = max(1, _BLOCK // max(1, within.size))
    parts = [
        wald_statistic(_simulate_release(count, mean, within, noise, min(step, n_simulations - done), rng))[0]
        for done in range(0, n_simulations, step)
    ]
    return np.concatenate(parts)


def _simulate_release(
    count: Floats, mean: Floats, within: Floats, noise: Noise, size: int, rng: np.random.Generator
) -> Ratio:
    shape = (size, *within.shape)
    about = np.sqrt(within) * rng.standard_normal(shape)
    # Sums of squares about the mean vary as for normal rows.
    rows = np.maximum(count, 1.0)
    squares = within * rng.chisquare(rows, shape) / rows
    total = mean * count + about
    off_total, off_count, off_square = draw(noise, shape, rng)
    T, N = total + off_total, count[..., :1] + off_count
    Q = squares + 2 * mean * total - mean**2 * count + off_square
    return Ratio(T, N, Q, T, N, noise)


def draw(noise: Noise, shape: tuple[int, ...], rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Return simulated noise of T, of N (one for all columns, which are the last axis) and of Q."""
    if noise.laplace:
        first, middle, last = rng.laplace(scale=noise.laplace, size=(3, *shape))
        return last - first, (first + middle + last).mean(axis=-1, keepdims=True), first - middle + last
    count = noise.count * rng.standard_normal((*shape[:-1], 1))
    slope = noise.square_spread / noise.count**2
    rest = np.sqrt(max(noise.square**2 - slope**2 * noise.count**2, 0.0))
    return noise.total * rng.standard_normal(shape), count, slope * count + rest * rng.standard_normal(shape)


# Differences, and standardized differences: over the standard deviation within both groups

KURTOSIS = 9.0
"""Largest kurtosis of the rows of a group that intervals assume: the kurtosis of an exponential distribution."""
_ASSUMED = (
    f"Intervals assume that the kurtosis of the rows of a group is at most {KURTOSIS:g}, as of an exponential "
    "distribution. Bounds close to the rows make this unnecessary."
)
_ANGLES = 9
_HALVINGS = 40


# The limits are the smallest and the largest ratio of a difference and a standard deviation with a small sum of
# squared normal scores, as for two means in `dpstats.means.ratio`.
@dataclass(frozen=True, eq=False)
class StandardizedErrors(ErrorDistribution):
    """Errors of differences of means, divided by the standard deviation within both groups.

    Attributes
    ----------
    difference : DifferenceErrors
        The differences, in the units of the data.
    """

    difference: DifferenceErrors

    @property
    def start(self) -> Floats:
        first, second = self.difference.first, self.difference.second
        return np.asarray((first.estimate - second.estimate) / np.sqrt(self._start_variance))

    @property
    def estimate(self) -> Floats:
        """Hedges' g: the standardized difference without its bias in small groups.

        It is NaN if the sum of squares is not positive.
        """
        free = np.maximum(self.difference.first.N + self.difference.second.N - 2, 1.0)
        corrected = (1 - 3 / (4 * free - 1)) * self.start
        return np.asarray(np.where(self._squares > 0, corrected, np.nan))

    @property
    def standard_error(self) -> Floats:
        """Half the width of the intervals of one standard deviation."""
        low, high = self._limits(np.asarray(1.0))
        return np.asarray((high - low) / 2)

    def limits(self, tail: Tail) -> Limits:
        return self._limits(np.asarray(normal_quantile(tail)))

    def tails(self, value: Floats) -> Limits:
        # A standardized difference has the sign of the difference.
        return super().tails(value) if np.any(value) else self.difference.tails(value)

    def _limits(self, z: Floats) -> Limits:
        angles = np.linspace(0.0, math.pi / 2, _ANGLES).reshape(-1, *[1] * max(z.ndim, self.start.ndim))
        spreads = np.sqrt(self._variance_limits(z * np.cos(angles)))
        low, high = np.full(self.start.shape, np.inf), np.full(self.start.shape, -np.inf)
        for i, angle in enumerate(angles):
            ends = apart(self.difference.first, self.difference.second, z * np.sin(angle))
            with np.errstate(divide="ignore", invalid="ignore"):
                ratios = [np.where(end == 0, 0.0, end / spread) for end in ends for spread in spreads[:, i]]
            low, high = np.minimum(low, np.min(ratios, axis=0)), np.maximum(high, np.max(ratios, axis=0))
        # Rounding must not move the limits past the estimate.
        return np.minimum(low, self.start), np.maximum(high, self.start)

    @property
    def _count(self) -> Floats:
        """The number of rows of both groups, at least the standard deviation of its noise."""
        first, second = self.difference.first, self.difference.second
        least = math.hypot(first.noise.count, second.noise.count)
        return np.asarray(np.maximum(first.N + second.N, least))

    @cached_property
    def _squares(self) -> Floats:
        """The noisy sum of squares of both groups around their estimated means."""
        total = np.zeros(self.difference.start.shape)
        for group in (self.difference.first, self.difference.second):
            m = group.estimate
            total = total + group.Q - 2 * m * group.X + m**2 * group.R
        return total

    @cached_property
    def _start_variance(self) -> Floats:
        """The variance within both groups in half-widths of the bounds, at least one at a thousandth of its noise."""
        least = 1e-3 * np.sqrt(self._noise_variance(np.zeros(self._squares.shape))) / self._count
        return np.clip(self._squares / self._count, least, 1.0)

    def _noise_variance(self, value: Floats) -> Floats:
        """Return the variance of the noise in the sum of squares minus its expectation under a variance."""
        total = np.zeros(np.broadcast_shapes(value.shape, self._squares.shape))
        for group in (self.difference.first, self.difference.second):
            m, noise = group.estimate, group.noise
            per_row = m**2 - value
            total = total + (
                noise.square**2
                + 4 * m**2 * noise.cross**2
                + per_row**2 * noise.spread**2
                + 2 * per_row * noise.square_spread
            )
        return np.maximum(total, 0.0)

    def _sampling_variance(self, value: Floats) -> Floats:
        """Return a bound of the variance of the sum of squares."""
        # Squares of rows inside the bounds are at most ``largest``. This limits their variance, as the kurtosis
        # does.
        ends = [1 + np.abs(group.estimate) for group in (self.difference.first, self.difference.second)]
        largest = np.maximum(*ends) ** 2
        each = np.minimum((KURTOSIS - 1) * value, np.maximum(largest - value, 0.0))
        return np.asarray(self._count * value * each)

    def _variance_limits(self, z: Floats) -> tuple[Floats, Floats]:
        """Return the least and the largest variance whose normal score is at most z."""

        def is_kept(value: Floats) -> NDArray[np.bool_]:
            distance = np.abs(self._squares - value * self._count)
            return np.asarray(distance**2 <= z**2 * (self._noise_variance(value) + self._sampling_variance(value)))

        found = []
        for end in (0.0, 1.0):
            inside, outside = self._start_variance.copy(), np.full(self._squares.shape, end)
            inside = np.where(is_kept(outside), outside, inside)
            for _ in range(_HALVINGS):
                middle = (inside + outside) / 2
                keep = is_kept(middle)
                inside, outside = np.where(keep, middle, inside), np.where(keep, outside, middle)
            found.append(inside)
        return found[0], found[1]


def combine_limits(values: Any, low: Any, high: Any, is_ratio: bool = False) -> tuple[Floats, Floats, Floats]:
    """Return the differences of pairs of independent estimates, or their ratios, and limits of these.

    Distances of limits from estimates add up as squares (Zou and Donner 2008). A ratio is a difference of logarithms.

    Parameters
    ----------
    values, low, high : pairs of arrays
        Both estimates and their limits, which are not negative for ratios.
    is_ratio : bool

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.groups.comparisons import combine_limits
    >>> [part.tolist() for part in combine_limits(*(np.array(each) for each in ((9.0, 5.0), (6.0, 1.0), (12.0, 9.0))))]
    [4.0, -1.0, 9.0]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        (x, y), (low_x, low_y), (high_x, high_y) = (
            (np.log(one) if is_ratio else np.asarray(one) for one in pair) for pair in (values, low, high)
        )
        # Without one of the estimates, take the furthest values that both intervals allow.
        estimate = x - y
        known = np.isfinite(estimate)
        least = np.where(known, estimate - np.hypot(x - low_x, high_y - y), low_x - high_y)
        most = np.where(known, estimate + np.hypot(high_x - x, y - low_y), high_x - low_y)
    if not is_ratio:
        return estimate, least, most
    # Two logarithms of 0 have no difference, so any ratio is possible.
    least, most = np.where(np.isnan(least), -np.inf, least), np.where(np.isnan(most), np.inf, most)
    return np.exp(np.where(known, estimate, np.nan)), np.exp(least), np.exp(most)


@dataclass(frozen=True, eq=False)
class MeanRatioErrors(ErrorDistribution):
    """Errors of ratios of the means of two groups."""

    each: ErrorDistribution  # errors of the means of all groups
    first: int
    second: int

    @property
    def start(self) -> Floats:
        means = self.each.start
        both = means[self.first], means[self.second]
        found = combine_limits(both, both, both, True)[0]
        return np.where(np.isnan(found), 1.0, found)

    @property
    def box(self) -> Limits:
        nothing = np.zeros(self.start.shape)
        return nothing, nothing + np.inf

    def limits(self, tail: Tail) -> Limits:
        means, (low, high) = self.each.start, self.each.limits(tail)
        both, lows, highs = ((part[self.first], part[self.second]) for part in (means, low, high))
        _, least, most = combine_limits(both, lows, highs, True)
        return np.minimum(least, self.start), np.maximum(most, self.start)


@dataclass(frozen=True, eq=False, repr=False)
class Differences(Estimates):
    """Differences of means of groups, with intervals and tests that include sampling error and noise.

    `Estimates` whose usual null hypothesis is a difference of 0. ``labels`` have the two groups and the column of each.
    """

    @property
    def pairs(self) -> tuple[tuple[Any, Any], ...]:
        """The pairs of groups: the first minus the second."""
        return tuple(dict.fromkeys(zip(self.labels["first"], self.labels["second"], strict=True)))

    def standardize(self) -> Differences:
        """Return the differences over the standard deviation within both groups, without additional privacy cost.

        Returns
        -------
        Differences
            Hedges' g, with intervals and tests. An interval is infinite if the release is consistent with groups
            without any spread: narrower bounds, more rows or a larger epsilon help.
        """
        errors = self.distribution
        if not isinstance(errors, DifferenceErrors) or type(errors.first) is not Ratio:
            raise refuse(
                "the differences",
                allowed="differences of means of declared groups",
                remedy="Use GroupMeans with declared groups.",
            )
        standardized = StandardizedErrors(errors)
        return replace(
            self,
            estimate=standardized.estimate,
            error=None,
            estimand=f"{self.estimand}, over the standard deviation within both groups",
            distribution=standardized,
            title="Private standardized differences",
            header="Hedges' g",
            notes=[*self.notes, _ASSUMED],
        )
