"""What is asked of groups after a release: differences, pairs and analysis of variance. All of it costs nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.report import SIMULATED, Reported
from dpstats.results import ConfidenceInterval, Summary, significant

Floats = NDArray[np.float64]

_FREE = "From what was released before: it costs no privacy."


@dataclass(frozen=True, slots=True, eq=False)
class Difference(Reported):
    """How far the means of two groups are apart, and whether they could be equal.

    Attributes
    ----------
    estimate : array of shape (n_features,)
        The first group's mean less the second's.
    statistic : array of shape (n_features,)
        How far the release is from one that equal means could have given, as a standard normal variable.
    pvalue : array of shape (n_features,)
    alternative : {"two-sided", "less", "greater"}
        What speaks against equal means: a difference that is not, is less than, or is greater than 0.
    groups : tuple
        The two.
    names : sequence of str
        Of the columns.
    simulated : bool
        Whether the noise of the release was simulated.
    """

    estimate: Floats
    statistic: Floats
    pvalue: Floats
    alternative: str
    groups: tuple[Any, Any]
    names: Sequence[str]
    interval: Callable[[float], ConfidenceInterval] = field(repr=False)
    simulated: bool = field(default=False, kw_only=True)

    def confidence_interval(self, confidence_level: float = 0.95) -> ConfidenceInterval:
        """Return an interval for the difference of each column; one-sided for a one-sided alternative."""
        return self.interval(confidence_level)

    def summary(self, confidence_level: float = 0.95) -> Summary:
        """Return a table; prints as text, shows as HTML in a notebook."""
        interval = self.interval(confidence_level)
        first, second = self.groups
        rows = [
            (name, *_numbers(*values), f"{z:.3f}", f"{p:.4g}")
            for name, *values, z, p in zip(
                self.names,
                self.estimate,
                np.atleast_1d(interval.low),
                np.atleast_1d(interval.high),
                self.statistic,
                self.pvalue,
                strict=True,
            )
        ]
        facts = [("Difference", f"{first} less {second}"), ("Alternative", self.alternative)]
        columns = ["", "difference", *_ends(interval), "z", "p-value"]
        notes = [_FREE, *(["Each column on its own."] if len(rows) > 1 else [])] + [
            SIMULATED
        ] * self.simulated
        return Summary("Private difference of two groups", facts, columns, rows, notes)

    def _repr_html_(self) -> str:
        return self.summary().as_html()


@dataclass(frozen=True, slots=True, eq=False)
class PairwiseDifferences(Reported):
    """All pairs of groups, with p-values and intervals that hold for all pairs of a column together.

    Attributes
    ----------
    pairs : tuple of pairs of groups
    estimate : array of shape (n_pairs, n_features)
        The first group's mean less the second's.
    statistic, pvalue : arrays of shape (n_pairs, n_features)
        p-values are adjusted: a pair is significant at level a if its own is at most a.
    method : {"tukey", "holm"}
    names : sequence of str
        Of the columns.
    simulated : bool
        Whether the noise of the release was simulated.
    """

    pairs: tuple[tuple[Any, Any], ...]
    estimate: Floats
    statistic: Floats
    pvalue: Floats
    method: str
    names: Sequence[str]
    interval: Callable[[float], ConfidenceInterval] = field(repr=False)
    simulated: bool = field(default=False, kw_only=True)

    def confidence_interval(self, confidence_level: float = 0.95) -> ConfidenceInterval:
        """Return intervals of shape (n_pairs, n_features) that cover together, for each column.

        Of Tukey's range for "tukey", of Bonferroni's inequality for "holm".
        """
        return self.interval(confidence_level)

    def summary(self, confidence_level: float = 0.95) -> Summary:
        """Return a table, a row for each pair and column; prints as text, shows as HTML in a notebook."""
        interval = self.interval(confidence_level)
        low, high = np.asarray(interval.low), np.asarray(interval.high)
        several = len(self.names) > 1
        rows = [
            (
                f"{first} - {second}" + (f": {name}" if several else ""),
                *_numbers(self.estimate[i, j], low[i, j], high[i, j]),
                f"{self.statistic[i, j]:.3f}",
                f"{self.pvalue[i, j]:.4g}",
            )
            for i, (first, second) in enumerate(self.pairs)
            for j, name in enumerate(self.names)
        ]
        how = {"tukey": "Tukey's range", "holm": "Holm's p-values, Bonferroni's intervals"}[self.method]
        facts = [("Together", f"all {len(self.pairs)} pairs of a column, by {how}")]
        columns = ["", "difference", *_ends(interval), "z", "p-value"]
        return Summary(
            "Private differences of all pairs", facts, columns, rows, [_FREE] + [SIMULATED] * self.simulated
        )

    def _repr_html_(self) -> str:
        return self.summary().as_html()


@dataclass(frozen=True, slots=True, eq=False)
class AnalysisOfVariance(Reported):
    """Are the means of all groups equal? One test for each column.

    Attributes
    ----------
    statistic : array of shape (n_features,)
        Wald's, with weights that count the noise.
    pvalue : array of shape (n_features,)
        (1 + number of simulated statistics as large)/(1 + number of simulations).
    n_groups, n_simulations : int
    names : sequence of str
        Of the columns.
    simulated : bool
        Whether the noise of the release was simulated.
    """

    statistic: Floats
    pvalue: Floats
    n_groups: int
    n_simulations: int
    names: Sequence[str]
    simulated: bool = field(default=False, kw_only=True)

    def summary(self) -> Summary:
        """Return a table; prints as text, shows as HTML in a notebook."""
        rows = [
            (name, f"{statistic:.3f}", f"{p:.4g}")
            for name, statistic, p in zip(self.names, self.statistic, self.pvalue, strict=True)
        ]
        facts = [
            ("Null hypothesis", f"the means of all {self.n_groups} groups are equal"),
            ("p-values", f"of {self.n_simulations:,} simulated releases with equal means"),
        ]
        return Summary(
            "Private analysis of variance",
            facts,
            ["", "statistic", "p-value"],
            rows,
            [_FREE, _ANOVA] + [SIMULATED] * self.simulated,
        )

    def _repr_html_(self) -> str:
        return self.summary().as_html()


_ANOVA = "Spreads may differ between groups. The level is measured, and not exact: docs/groups.md has where."


def _numbers(estimate: float, low: float, high: float) -> list[str]:
    half = (
        (high - low) / 4
        if np.isfinite(high - low)
        else estimate - low
        if np.isfinite(low)
        else high - estimate
    )
    return [significant(float(value), float(half)) for value in (estimate, low, high)]


def _ends(interval: ConfidenceInterval) -> list[str]:
    percent = f"{100 * interval.confidence_level:g}%"
    return [f"[{percent} low", f"{percent} high]"]
