"""What a script of this folder finds: how large its run is, and what a theorem's line in the table says."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

from dpstats.simulation import FormulaComparison, FormulaFit, RateFit, Study, StudyResults, compare, fit_formula
from dpstats.simulation.cell_fits import POWER
from dpstats.simulation.comparison import CheckedCell
from dpstats.simulation.rate_fit import fit_rate
from dpstats.simulation.table import FINITE_SIZE, NOT_REPRODUCED, REPRODUCED, UNDECIDED, Term, interval_words, judge

ROWS = 100
"""At most this many verdicts are given in one run: intervals are at 1 - .05/ROWS each, so at 95% together."""
LEVEL = 1 - 0.05 / ROWS

SCALES = ("full", "reduced", "fast")


@dataclass(frozen=True)
class Options:
    """How a script runs: "full" for the published table, "reduced" for a look, "fast" for the suite."""

    scale: str = "full"
    folder: Path | None = None
    jobs: int = 1
    progress: bool = False

    def pick(self, full: Any, reduced: Any, fast: Any) -> Any:
        """Return what is meant for this scale."""
        return dict(zip(SCALES, (full, reduced, fast), strict=True))[self.scale]

    def run(self, study: Study) -> StudyResults:
        """Run a study in its own file, which resumes it; in memory where there is no folder."""
        path = None
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            path = self.folder / f"{study.name}.{self.scale}.sqlite"
        return study.run(path, n_jobs=self.jobs, progress=self.progress)


@dataclass(frozen=True)
class Line:
    """One line of the table of exponents; ``finds`` is the deviation that is found with probability 0.8."""

    theorem: str
    quantity: str
    theory: str
    predicted: str
    estimate: str
    interval: str
    regime: str
    verdict: str
    finds: str = ""

    def cells(self) -> list[str]:
        """Return the line as words."""
        return [
            self.theorem,
            self.quantity,
            self.theory,
            self.predicted,
            self.estimate,
            self.interval,
            self.verdict,
            self.finds,
            self.regime,
        ]


HEADER = ["theorem", "quantity", "theory", "predicted here", "estimate", "interval", "verdict", "finds", "regime"]


@dataclass
class Outcome:
    """What one script found, and the seconds of one processor that it took."""

    title: str
    studies: list[StudyResults] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    findings: list[Any] = field(default_factory=list)
    pictures: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def rate(self, theorem: str, results: StudyResults, parameter: str, *, regime: str = "", **options: Any) -> RateFit:
        """Fit an exponent and add its line; ``regime`` says it in better words than the fit can."""
        fit = fit_rate(results, parameter, confidence_level=LEVEL, **options)
        self.findings.append(fit)
        self.lines.append(
            Line(
                theorem=theorem,
                quantity=f"exponent of {parameter}",
                theory="" if fit.theory is None else f"{fit.theory:g} ± {fit.tolerance:g}",
                predicted="" if fit.prediction is None else f"{fit.prediction:.3f}",
                estimate=f"{fit.slope:.3f}",
                interval=interval_words(fit.interval),
                regime=f"{regime or fit.regime}; {cells_in_words(fit)}"
                + ("" if fit.fits else f"; the line misses by up to {100 * fit.deviation:.0f}%"),
                verdict=fit.verdict,
                finds=f"{fit.detectable:.2g}",
            )
        )
        return fit

    def beyond(
        self,
        theorem: str,
        results: StudyResults,
        parameter: str,
        terms: Mapping[str, Term],
        *,
        theory: float,
        regime: str,
        tolerance: float,
        **options: Any,
    ) -> None:
        """Add the line of an exponent where risks bend, as a formula of one term says that they do.

        What bends is no error then: the formula times a power is fitted, and the exponent is that of the line through
        what the formula says of these cells plus this power's. A formula that does not fit decides nothing.
        """
        ((name, _),) = terms.items()
        fit = fit_formula(
            results,
            terms,
            free={name: parameter},
            exponents={name: 0.0},
            tolerance=tolerance,
            confidence_level=LEVEL,
            **options,
        )
        self.findings.append(fit)
        (power,) = fit.exponents
        line = fit_rate(results, parameter, prediction=terms[name], confidence_level=LEVEL, **options)
        assert line.prediction is not None
        interval = replace(
            power.interval, low=line.prediction + power.interval.low, high=line.prediction + power.interval.high
        )
        of_theory = judge(interval, theory, tolerance)
        verdict = {REPRODUCED: FINITE_SIZE, NOT_REPRODUCED: of_theory}.get(power.verdict, UNDECIDED)
        if of_theory != NOT_REPRODUCED and verdict == FINITE_SIZE:
            verdict = of_theory
        self.lines.append(
            Line(
                theorem=theorem,
                quantity=f"exponent of {parameter}",
                theory=f"{theory:g} ± {tolerance:g}",
                predicted=f"{line.prediction:.3f}",
                estimate=f"{line.prediction + power.estimate:.3f}",
                interval=interval_words(interval),
                regime=f"{regime}; {cells_in_words(fit)}, largest deviation from {name} {100 * fit.deviation:.1f}%",
                verdict=verdict if fit.fits else UNDECIDED,
                finds=f"{power.detectable:.2g}",
            )
        )

    def formula(self, theorem: str, fit: FormulaFit, regime: str) -> None:
        """Add a line for every free exponent of a formula, and for every constant."""
        self.findings.append(fit)
        where = f"{regime}; {cells_in_words(fit)}, largest deviation {100 * fit.deviation:.1f}%"
        for one in fit.exponents:
            self.lines.append(
                Line(
                    theorem=theorem,
                    quantity=one.name,
                    theory="" if one.theory is None else f"{one.theory:g} ± {one.tolerance:g}",
                    predicted="",
                    estimate=f"{one.estimate:.3f}",
                    interval=interval_words(one.interval),
                    regime=where,
                    verdict=one.verdict,
                    finds=f"{one.detectable:.2g}",
                )
            )
        if fit.exponents:
            return
        for name, constant, interval, stated in zip(fit.terms, fit.constants, fit.intervals, fit.theory, strict=True):
            self.lines.append(
                Line(
                    theorem=theorem,
                    quantity=f"constant of {name}",
                    theory="" if stated is None else f"{stated:g}",
                    predicted="",
                    estimate=f"{constant:.3f}",
                    interval=interval_words(interval),
                    regime=where,
                    verdict=fit.verdict,
                    finds=f"misfit {100 * fit.detectable:.2g}%",
                )
            )

    def rivals(self, theorem: str, found: FormulaComparison) -> None:
        """Add a line for every formula but the first, all with equal terms."""
        self.findings.append(found)
        _, *others = found.fits.items()
        for name, fit in others:
            self.lines.append(
                Line(
                    theorem=theorem,
                    quantity=f"rival: {name}",
                    theory="rejected",
                    predicted="",
                    estimate=f"p = {fit.pvalue:.2g}",
                    interval="",
                    regime=f"{cells_in_words(fit)}, largest deviation {100 * fit.deviation:.0f}%",
                    # What a rival's rejection says: the cells identify the formula.
                    verdict=UNDECIDED if fit.fits else REPRODUCED,
                    finds=f"misfit {100 * fit.detectable:.2g}%",
                )
            )

    def check(
        self,
        theorem: str,
        quantity: str,
        results: StudyResults,
        stated: Any,
        relation: str = "equal",
        loss: str | None = None,
    ) -> None:
        """Add a line for measured values against stated ones: the closest call of all cells."""
        check = compare(results, stated, relation=relation, loss=loss, confidence_level=LEVEL)
        self.findings.append(check)
        strain = _strain(check.relation)
        place = max(range(len(check.lines)), key=lambda i: strain(check.lines[i]))
        worst, values = check.lines[place], results.cells[place].losses[check.loss]
        # Of indicators, the variance is the stated value's: an error that was never seen has none.
        indicators = bool(np.isin(values, (0.0, 1.0)).all())
        size = math.sqrt(worst.stated * (1 - worst.stated)) if indicators else float(np.std(values, ddof=1))
        quantile = norm.isf((1 - LEVEL) / 2 / len(check.lines)) + norm.isf(1 - POWER)
        sign = {"equal": "", "at_most": "<= ", "at_least": ">= "}[check.relation]
        where = ", ".join(f"{key} = {value}" for key, value in worst.parameters.items())
        self.lines.append(
            Line(
                theorem=theorem,
                quantity=quantity,
                theory=f"{sign}{worst.stated:.4g}",
                predicted="",
                estimate=f"{worst.measured:.4f}",
                interval=f"[{worst.interval.low:.4f}, {worst.interval.high:.4f}]",
                regime=f"{len(check.lines)} cells x {values.size:,}; the closest call: {where}",
                verdict=check.verdict,
                finds=f"{quantile * size / math.sqrt(values.size):.2g}",
            )
        )


def cells_in_words(fit: RateFit | FormulaFit) -> str:
    """Return the number of cells and of replications."""
    return f"{fit.n_cells} cells x {fit.n_replications:,}"


def _strain(relation: str) -> Callable[[CheckedCell], float]:
    """Return how near a line of a check is to failing, in half-widths of its interval."""

    def strain(line: CheckedCell) -> float:
        half = (line.interval.high - line.interval.low) / 2
        gap = (line.measured - line.stated) / max(half, 1e-12)
        return float({"equal": abs(gap), "at_most": gap, "at_least": -gap}[relation])

    return strain


def markdown_table(lines: Sequence[Line]) -> str:
    """Return the lines as a Markdown table."""
    rows = [HEADER, ["---"] * len(HEADER), *(line.cells() for line in lines)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in rows)


def main(run: Callable[[Options], Outcome], description: str | None) -> None:
    """Run one script by itself: print its table."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument("--scale", choices=SCALES, default="full")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="where the studies' files go, to be resumed (default: memory)")
    options = parser.parse_args()
    outcome = run(Options(options.scale, options.folder, options.jobs, progress=sys.stderr.isatty()))
    print(f"# {outcome.title}\n\n{markdown_table(outcome.lines)}\n")
    print("\n".join(outcome.notes))
