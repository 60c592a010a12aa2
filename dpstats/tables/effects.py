"""Two groups compared: differences, ratios and odds ratios of shares, with intervals that no small count breaks.

The score of a pair of shares is the sum of the squared normal scores of each, less those of the best possible pair (as
in a likelihood ratio: noise may put both outside of [0, 1]). An interval is what the measure can be for all pairs whose
score is at most that of the level. Nothing is divided by a noisy number. Proof:
docs/proofs/contingency-table.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from scipy.stats import chi2

from dpstats.data.parameters import check_level
from dpstats.report import SIMULATED, Reported
from dpstats.results import ConfidenceInterval, Summary, significant
from dpstats.tables.shares import NoisyShare

Numbers = NDArray[np.float64]

_POINTS = 150
_NEARLY_ALL = 1e-9  # a tail at which nearly every value is kept


@dataclass(frozen=True)
class Measure:
    """What is compared of two shares: increasing in the first, decreasing in the second.

    Attributes
    ----------
    name : str
    none : float
        Its value where the shares are equal.
    of : callable
    """

    name: str
    none: float
    of: Callable[[Any, Any], Any]


def _ratio(a: Any, b: Any) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.divide(a, b)


DIFFERENCE = Measure("difference", 0.0, lambda a, b: a - b)
RISK_RATIO = Measure("risk ratio", 1.0, _ratio)
ODDS_RATIO = Measure("odds ratio", 1.0, lambda a, b: _ratio(a * (1 - b), b * (1 - a)))


@dataclass(frozen=True, slots=True, eq=False)
class Effect(Reported):
    """A difference, a ratio or an odds ratio of the shares of two groups, from a table that was released before.

    Attributes
    ----------
    estimate : float
        NaN where noise left nothing of a group.
    pvalue : float
        That the shares are equal, two-sided; rejects where the interval excludes "no effect".
    measure : str
        "difference", "risk ratio" or "odds ratio".
    estimand : str
        In words.
    simulated : bool
        Whether the noise of the release was simulated.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.tables import ContingencyTable
    >>> rng = np.random.default_rng(0)
    >>> arm = rng.integers(2, size=2000)
    >>> rows = np.column_stack([arm, rng.random(2000) < 0.3 + 0.1 * arm])
    >>> table = ContingencyTable(levels=[[0, 1], [0, 1]], epsilon=1.0, random_state=0).fit(rows)
    >>> effect = table.difference((1, 0), 1)
    >>> effect.measure, round(effect.estimate, 2), effect.pvalue < 0.01
    ('difference', 0.11, True)
    >>> [round(end, 2) for end in effect.confidence_interval()]
    [0.07, 0.16]
    """

    estimate: float
    pvalue: float
    measure: str
    estimand: str
    interval: Callable[[float], ConfidenceInterval] = field(repr=False)
    simulated: bool = field(default=False, kw_only=True)

    def confidence_interval(self, confidence_level: float = 0.95) -> ConfidenceInterval:
        """Return an interval that counts sampling error and noise; its ends may be those of what is possible."""
        return self.interval(confidence_level)

    def summary(self, confidence_level: float = 0.95) -> Summary:
        """Return a table; prints as text, shows as HTML in a notebook."""
        interval = self.confidence_interval(confidence_level)
        low, high = float(interval.low), float(interval.high)
        percent = f"{100 * interval.confidence_level:g}%"
        width = high - low if np.isfinite(high - low) else self.estimate
        values = [significant(value, width / 4) for value in (self.estimate, low, high)]
        return Summary(
            f"Private {self.measure}",
            [("Estimated", self.estimand)],
            ["", "estimate", f"[{percent} low", f"{percent} high]", "p-value"],
            [(self.measure, *values, f"{self.pvalue:.4g}")],
            [
                "From what was released before: it costs no privacy. Counts sampling error and noise.",
                *[SIMULATED] * self.simulated,
            ],
        )

    def _repr_html_(self) -> str:
        return self.summary().as_html()


def effect(
    first: NoisyShare, second: NoisyShare, measure: Measure, estimand: str, simulated: bool = False
) -> Effect:
    """Return what two groups differ by."""

    def interval(confidence_level: float = 0.95) -> ConfidenceInterval:
        level = check_level("confidence_level", confidence_level)
        low, high = _range(first, second, scores, measure, level)
        return ConfidenceInterval(low, high, level, f"{estimand}, in the population")

    scores = _Score(first), _Score(second)
    # Where the shares are equal: the best of all values that both can have.
    shares = np.union1d(scores[0].grid, scores[1].grid)
    pvalue = float(chi2.sf(np.min(scores[0](shares) + scores[1](shares)), 1))
    return Effect(
        float(measure.of(first.estimate, second.estimate)),
        pvalue,
        measure.name,
        estimand,
        interval,
        simulated=simulated,
    )


class _Score:
    """The squared normal score of each value of a share, less that of the best value."""

    def __init__(self, share: NoisyShare) -> None:
        self._share = share
        self.grid = _grid(share, _NEARLY_ALL)
        self.least = float(self._squared(self.grid).min())

    def __call__(self, values: Numbers) -> Numbers:
        return np.asarray(np.maximum(self._squared(values) - self.least, 0.0))

    def _squared(self, values: Numbers) -> Numbers:
        below, above = self._share.pvalues(values)
        return np.asarray(np.minimum(ndtri(np.clip(np.minimum(below, above), 1e-300, 0.5)), 0.0) ** 2)


def _grid(share: NoisyShare, tail: float) -> Numbers:
    """Return values from the least to the largest that is not refuted, closer near the ends of [0, 1]."""
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
    """Return the least and the largest value of a measure over all pairs of shares whose score is small enough."""
    allowed = float(chi2.ppf(level, 1))
    x, y = (
        _grid(share, float(ndtr(-np.sqrt(allowed + score.least))))
        for share, score in zip((first, second), scores, strict=True)
    )
    kept = scores[0](x)[:, None] + scores[1](y)[None] <= allowed
    # What is between two points of a grid is kept if either is.
    outer = kept.copy()
    outer[1:] |= kept[:-1]
    outer[:-1] |= kept[1:]
    wider = outer.copy()
    wider[:, 1:] |= outer[:, :-1]
    wider[:, :-1] |= outer[:, 1:]
    values = measure.of(x[:, None], y[None])[wider]
    # 0 / 0 may be anything.
    low = 0.0 if np.isnan(values).any() and measure.none == 1 else float(np.nanmin(values))
    high = float("inf") if np.isnan(values).any() else float(np.nanmax(values))
    return low, high
