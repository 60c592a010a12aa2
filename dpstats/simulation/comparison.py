"""Measured means against stated values, cell by cell: levels, coverages, bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri
from scipy.stats import beta as beta_law

from dpstats.data.parameters import check_choice, check_real
from dpstats.errors import refuse
from dpstats.exports import Records
from dpstats.report import Printed
from dpstats.results import ConfidenceInterval, Summary
from dpstats.simulation.risks import Term, Vector, failure_words, interval_words, usable_cells
from dpstats.simulation.table import Parameters, StudyResults
from dpstats.simulation.verdicts import NOT_REPRODUCED, REPRODUCED


class CheckedCell(NamedTuple):
    """The measured value of one cell, and the stated one."""

    parameters: Parameters
    measured: float
    interval: ConfidenceInterval
    stated: float
    agrees: bool


@dataclass(frozen=True, slots=True)
class Check(Printed):
    """Measured means against stated values, cell by cell.

    Attributes
    ----------
    relation : str
        "equal", "at_most" or "at_least".
    lines : tuple of (parameters, measured, interval, stated, agrees)
        Named tuples; the last says whether the interval agrees with the stated value.
    confidence_level : float
        Level of the intervals of all cells together.
    verdict : str
        "reproduced" if every cell agrees.
    loss : str
        Name of the compared loss.
    failures : str
        Description of the failed replications.

    Examples
    --------
    >>> from dpstats.means import ClippedMean
    >>> from dpstats.simulation import Gaussian, Study, compare
    >>> mean = ClippedMean(clip=6.0, std=1.0)
    >>> results = Study(Gaussian(), mean, {"n": [100], "d": [4]}, 50, loss="coverage").run()
    >>> check = compare(results, 0.9, relation="at_least")
    >>> check.relation, check.verdict, len(check.lines)
    ('at_least', 'reproduced', 1)
    """

    relation: str
    lines: tuple[CheckedCell, ...]
    confidence_level: float
    loss: str = ""
    failures: str = ""

    @property
    def verdict(self) -> str:
        """ "reproduced" if all agree."""
        return REPRODUCED if all(line.agrees for line in self.lines) else NOT_REPRODUCED

    def _records(self) -> Records:
        return Records(
            [_name(line.parameters) for line in self.lines],
            {
                **{key: [line.parameters.get(key) for line in self.lines] for key in self._keys},
                "measured": [line.measured for line in self.lines],
                "low": [line.interval.low for line in self.lines],
                "high": [line.interval.high for line in self.lines],
                "stated": [line.stated for line in self.lines],
                "agrees": [line.agrees for line in self.lines],
            },
            {key: getattr(self, key) for key in ("loss", "relation", "confidence_level", "verdict")},
        )

    @property
    def _keys(self) -> list[str]:
        """The names of the parameters of all cells."""
        return list(dict.fromkeys(key for line in self.lines for key in line.parameters))

    def summary(self) -> Summary:
        """Return a table with one row per cell."""
        rows = [
            [
                _name(parameters),
                f"{measured:.5g}",
                interval_words(interval),
                f"{stated:.5g}",
                "yes" if agrees else "NO",
            ]
            for parameters, measured, interval, stated, agrees in self.lines
        ]
        words = {"equal": "stated", "at_most": "at most", "at_least": "at least"}[self.relation]
        facts = [("Verdict", self.verdict)]
        if self.failures:
            facts.append(("Cells", f"{len(self.lines)}{self.failures}"))
        title = f"Check of {self.loss.replace('_', ' ')}" if self.loss else "Check"
        return Summary(title, facts, ["cell", "measured", "interval", words, "agrees"], rows)


def _name(parameters: Parameters) -> str:
    return ", ".join(f"{key}={value}" for key, value in parameters.items())


def compare(
    results: StudyResults,
    stated: Term | float,
    *,
    relation: str = "equal",
    loss: str | None = None,
    confidence_level: float = 0.95,
) -> Check:
    """Compare the mean loss of every cell with the stated value: a level, a coverage, a bound.

    Parameters
    ----------
    results : StudyResults
    stated : float or callable of a cell's parameters
    relation : {"equal", "at_most", "at_least"}, default="equal"
        A bound fails only where it is outside the interval: a bound that is met by far agrees.
    loss : str, optional
    confidence_level : float, default=0.95
        Joint level for all cells. Intervals are Clopper and Pearson's for losses of 0 and 1, and otherwise
        normal.

    Examples
    --------
    >>> from dpstats.means import ClippedMean
    >>> from dpstats.simulation import Gaussian, Study, compare
    >>> estimator = ClippedMean(clip=5.0, std=1.0)
    >>> grid = {"n": [100, 1000], "d": [1]}
    >>> results = Study(Gaussian(), estimator, grid, 300, loss="coverage", seed=1).run()
    >>> compare(results, 0.95).verdict
    'reproduced'
    """
    if not isinstance(results, StudyResults):
        raise refuse("results", given=results, allowed="a StudyResults, as Study.run() returns")
    if not callable(stated):
        check_real("stated", stated)
    check_choice("relation", relation, ["equal", "at_most", "at_least"])
    level = check_real("confidence_level", confidence_level, above=0, below=1)
    chosen = results.check_loss(loss)
    usable = usable_cells(results, chosen, positive=False)
    tail = (1 - level) / 2 / len(usable.cells)
    lines = []
    for cell in usable.cells:
        value = float(stated(cell.parameters)) if callable(stated) else float(stated)
        interval = _mean_interval(cell.losses[chosen], tail, level)
        agrees = (relation == "at_least" or interval.low <= value) and (
            relation == "at_most" or interval.high >= value
        )
        lines.append(
            CheckedCell(
                parameters=cell.parameters,
                measured=cell.mean(chosen),
                interval=interval,
                stated=value,
                agrees=bool(agrees),
            )
        )
    failures = failure_words(results, usable)
    return Check(relation, tuple(lines), level, chosen, failures)


def _mean_interval(values: Vector, tail: float, level: float) -> ConfidenceInterval:
    n = values.size
    if np.isin(values, (0.0, 1.0)).all():
        ones = int(values.sum())
        low = float(beta_law.ppf(tail, ones, n - ones + 1)) if ones else 0.0
        high = float(beta_law.isf(tail, ones + 1, n - ones)) if ones < n else 1.0
        return ConfidenceInterval(low, high, level, "mean loss", True)
    error = values.std(ddof=1) / math.sqrt(n)
    return ConfidenceInterval.around(values.mean(), -ndtri(tail) * error, level, "mean loss", True)
