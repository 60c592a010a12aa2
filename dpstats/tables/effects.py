"""Comparisons of two groups: differences, ratios and odds ratios of proportions, with intervals valid for small counts.

Proof: docs/intervals/tables.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import gammaincinv, ndtr, ndtri

from dpstats.error_distributions import Limits, ScoreErrors, Tail
from dpstats.inference import Estimates
from dpstats.results import FREE
from dpstats.tables.shares import NoisyShare, Numbers

_POINTS = 150
_NEARLY_ALL = 1e-9  # a tail probability that rejects almost no value
_ONE_STD = float(ndtr(-1.0))


@dataclass(frozen=True)
class Measure:
    """Measure of the difference between two proportions, increasing in the first and decreasing in the second.

    Attributes
    ----------
    name : str
        Name in reports.
    none : float
        Value for equal proportions.
    least : float
        Smallest value. Exchanging the groups gives the largest value.
    of : callable
        Returns the value for the first and the second proportion.
    second : callable
        Returns the second proportion for the first one and the value.
    """

    name: str
    none: float
    least: float
    of: Callable[[Any, Any], Any]
    second: Callable[[Any, Any], Any]

    def exchanged(self, value: float) -> float:
        """Return the value with the groups exchanged."""
        return -value if self.none == 0 else float(_ratio(1.0, value))


def _difference(a: Any, b: Any) -> Any:
    return a - b


def _ratio(a: Any, b: Any) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.divide(a, b)


def _odds_ratio(a: Any, b: Any) -> Any:
    return _ratio(a * (1 - b), b * (1 - a))


def _share_of_odds(a: Any, value: Any) -> Any:
    return 1 - _ratio(1.0, 1 + _ratio(_ratio(a, 1 - a), value))


def _arcsine_difference(a: Any, b: Any) -> Any:
    return 2 * (np.arcsin(np.sqrt(a)) - np.arcsin(np.sqrt(b)))


def _share_of_arcsine(a: Any, value: Any) -> Any:
    angle = np.arcsin(np.sqrt(a)) - value / 2
    # No proportion has an angle outside the quarter circle.
    return np.where((angle >= 0) & (angle <= np.pi / 2), np.sin(angle) ** 2, -1.0)


DIFFERENCE = Measure("difference", 0.0, -1.0, _difference, _difference)
RISK_RATIO = Measure("risk ratio", 1.0, 0.0, _ratio, _ratio)
ODDS_RATIO = Measure("odds ratio", 1.0, 0.0, _odds_ratio, _share_of_odds)
COHENS_H = Measure("Cohen's h", 0.0, -np.pi, _arcsine_difference, _share_of_arcsine)


# The score of a pair of proportions is the sum of their squared normal scores, minus the score of the best possible
# pair. This is similar to a likelihood ratio; noise may put both estimates outside [0, 1]. An interval contains the
# values of the measure for all pairs whose score is at most the critical value. No step divides by a noisy number.
@dataclass(frozen=True, eq=False)
class EffectErrors(ScoreErrors):
    """Errors of a measure of two proportions.

    Limits are rounded outward to a grid of pairs of proportions.
    """

    first: NoisyShare
    second: NoisyShare
    measure: Measure

    @cached_property
    def _scores(self) -> tuple[_Score, _Score]:
        return _Score(self.first), _Score(self.second)

    @property
    def start(self) -> Numbers:
        best = self.measure.of(*(score.best for score in self._scores))
        return np.asarray(self.measure.none if np.isnan(best) else best)

    @property
    def box(self) -> Limits:
        least = self.measure.least
        return np.asarray(least), np.asarray(self.measure.exchanged(least))

    def limits(self, tail: Tail) -> Limits:
        level = 1 - 2 * float(np.max(tail))
        low, high = _range(self.first, self.second, self._scores, self.measure, level)
        return np.asarray(low), np.asarray(high)

    def score(self, value: Numbers) -> Numbers:
        found = [self._score(each) for each in np.ravel(value).tolist()]
        return np.reshape(found, np.shape(value))

    def _score(self, value: float) -> float:
        # Minimize the score over all pairs of proportions with this value.
        first, second = self._scores
        back = self.measure.second(second.grid, self.measure.exchanged(value))
        a = np.unique(np.concatenate([first.grid, np.clip(back[np.isfinite(back)], 0.0, 1.0), [0.0, 1.0]]))
        b = self.measure.second(a, value)
        # 0 / 0 allows any proportion.
        b = np.where(np.isnan(b), second.best, b)
        possible = (b >= 0) & (b <= 1)
        least = float(np.min((first(a) + second(np.clip(b, 0.0, 1.0)))[possible], initial=np.inf))
        return float(np.copysign(np.sqrt(least), self.start - value))


def effect(
    first: NoisyShare, second: NoisyShare, measure: Measure, estimand: str, simulated: bool = False
) -> Estimates:
    """Return the estimated effect between two groups, with its test of no difference.

    The estimate is NaN if a group has no positive count. The standard error is half the length of the interval whose
    error probability is the normal probability beyond one standard deviation.
    """
    errors = EffectErrors(first, second, measure)
    low, high = errors.limits(_ONE_STD)
    estimate = np.asarray(measure.of(first.estimate, second.estimate))
    return Estimates(
        estimate[()],
        (high - low) / 2,
        (measure.name,),
        f"{estimand}, in the population",
        errors,
        title=f"Private {measure.name}",
        notes=[f"{FREE} The interval accounts for sampling error and noise.", *no_estimate_note(estimate)],
        null=measure.none,
        simulated=simulated,
    )


def no_estimate_note(estimate: Any) -> list[str]:
    """Return a note that there is no estimate, if it is NaN."""
    if not np.isnan(estimate).any():
        return []
    return ["NaN: noise hides whether a group has rows, or the ratio is 0 / 0. There is no estimate."]


class _Score:
    """The squared normal score of each value of a proportion, minus the score of the best value."""

    def __init__(self, share: NoisyShare) -> None:
        self._share = share
        self.grid = _grid(share, _NEARLY_ALL)
        squared = self._squared(self.grid)
        self.least, self.best = float(squared.min()), float(self.grid[np.argmin(squared)])

    def __call__(self, values: Numbers) -> Numbers:
        return np.asarray(np.maximum(self._squared(values) - self.least, 0.0))

    def _squared(self, values: Numbers) -> Numbers:
        below, above = self._share.pvalues(values)
        return np.asarray(np.minimum(ndtri(np.clip(np.minimum(below, above), 1e-300, 0.5)), 0.0) ** 2)


def _grid(share: NoisyShare, tail: float) -> Numbers:
    """Return a grid between the smallest and the largest value that is not rejected, finer near 0 and 1."""
    low, high = share.limits(tail)
    parts = [np.linspace(low, high, _POINTS)]
    if 0 < low < high:
        parts.append(np.geomspace(low, high, _POINTS))
    if low < high < 1:
        parts.append(1 - np.geomspace(1 - high, 1 - low, _POINTS))
    return np.clip(np.unique(np.concatenate(parts)), low, high)


def _range(
    first: NoisyShare, second: NoisyShare, scores: tuple[_Score, _Score], measure: Measure, level: float
) -> tuple[float, float]:
    """Return the smallest and the largest value of a measure over all pairs of proportions with a small score."""
    allowed = float(2 * gammaincinv(0.5, level))
    x, y = (
        _grid(share, float(ndtr(-np.sqrt(allowed + score.least))))
        for share, score in zip((first, second), scores, strict=True)
    )
    kept = scores[0](x)[:, None] + scores[1](y)[None] <= allowed
    # Keep an interval between two grid points if either point is kept.
    outer = kept.copy()
    outer[1:] |= kept[:-1]
    outer[:-1] |= kept[1:]
    wider = outer.copy()
    wider[:, 1:] |= outer[:, :-1]
    wider[:, :-1] |= outer[:, 1:]
    values = measure.of(x[:, None], y[None])[wider]
    # 0 / 0 allows any value.
    low = 0.0 if np.isnan(values).any() and measure.none == 1 else float(np.nanmin(values))
    high = float("inf") if np.isnan(values).any() else float(np.nanmax(values))
    return low, high
