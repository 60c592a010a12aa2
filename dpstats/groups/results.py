"""The result of an analysis of variance: it costs nothing beyond the release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpstats.report import SIMULATED
from dpstats.results import FREE, HypothesisTest, Summary

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class AnalysisOfVariance(HypothesisTest):
    """Are the means of all groups equal? One test for each column.

    Attributes
    ----------
    statistic : array of shape (n_features,)
        Wald's, with weights that count the noise.
    pvalue : array of shape (n_features,)
        (1 + number of simulated statistics as large)/(1 + number of simulations). For means adjusted for covariates, by
        the chi-squared distribution.
    n_groups, n_simulations : int
        ``n_simulations`` is 0 without a simulation.
    names : sequence of str
        Names of the columns.
    simulated : bool
        Whether the noise of the release was simulated.
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
        facts = [
            ("Null hypothesis", f"the means of all {self.n_groups} groups are equal"),
            ("p-values", self._null),
        ]
        return Summary(
            "Private analysis of variance",
            facts,
            ["", "statistic", "p-value"],
            rows,
            [FREE, _ANOVA] + [SIMULATED] * self.simulated,
        )


_ANOVA = "Spreads may differ between groups. The level is measured, and not exact: docs/groups.md has where."
