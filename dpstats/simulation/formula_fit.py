"""The formula of a risk: the constants of its terms, fitted to all cells at once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares
from scipy.special import ndtri
from scipy.stats import chi2

from dpstats.data.parameters import check_real
from dpstats.errors import refuse
from dpstats.exports import Records
from dpstats.report import Printed
from dpstats.results import ConfidenceInterval, Summary
from dpstats.simulation.risks import (
    Term,
    Vector,
    evaluate,
    failure_words,
    interval_words,
    log_means,
    usable_cells,
)
from dpstats.simulation.table import StudyResults
from dpstats.simulation.verdicts import NOT_REPRODUCED, REPRODUCED, UNDECIDED


@dataclass(frozen=True, slots=True)
class FormulaFit(Printed):
    """A formula of several terms, its constants fitted to all cells at once.

    Attributes
    ----------
    terms : tuple of str
    constants : tuple of float
    intervals : tuple of ConfidenceInterval
        One per constant, at ``confidence_level`` each.
    theory : tuple of float or None
        The constants that the theory states; None where it states none.
    pvalue : float
        Of the hypothesis that the formula holds in every cell to within Monte Carlo error and ``accuracy``.
    deviation : float
        Largest relative deviation of a cell from the fitted formula.
    n_cells : int
    confidence_level : float
        Level of the verdict.
    failures : str
        Description of the failed replications.

    Examples
    --------
    >>> from dpstats.means import ClippedMean
    >>> from dpstats.simulation import Rademacher, Study, fit_formula
    >>> grid = {"n": [50, 100, 200], "d": [16], "epsilon": [0.1]}
    >>> loss = "released_squared_error"
    >>> results = Study(Rademacher(), ClippedMean(clip=1.0, delta=1e-5), grid, 20, loss=loss).run()
    >>> fit = fit_formula(results, {"privacy": lambda cell: (cell["d"] / (cell["n"] * cell["epsilon"])) ** 2})
    >>> fit.terms, fit.n_cells, len(fit.constants)
    (('privacy',), 3, 1)
    """

    terms: tuple[str, ...]
    constants: tuple[float, ...]
    intervals: tuple[ConfidenceInterval, ...]
    theory: tuple[float | None, ...]
    pvalue: float
    deviation: float
    n_cells: int
    confidence_level: float
    failures: str = ""

    @property
    def verdict(self) -> str:
        """ "reproduced" if the formula fits and every stated constant is in its interval.

        "undecided" if it fits, but the interval of a constant that nothing states reaches 0: no cell shows
        that term. Half of the error probability goes to the fit, and half to the constants together.
        """
        fits = self.pvalue >= (1 - self.confidence_level) / 2
        inside = all(
            stated is None or interval.low <= stated <= interval.high
            for stated, interval in zip(self.theory, self.intervals, strict=True)
        )
        if not (fits and inside):
            return NOT_REPRODUCED
        shown = all(
            interval.low > 0
            for stated, interval in zip(self.theory, self.intervals, strict=True)
            if stated is None
        )
        return REPRODUCED if shown else UNDECIDED

    def _records(self) -> Records:
        columns = {
            "estimate": self.constants,
            "low": [interval.low for interval in self.intervals],
            "high": [interval.high for interval in self.intervals],
            "theory": self.theory,
        }
        keys = ("n_cells", "pvalue", "deviation", "confidence_level", "verdict")
        return Records(self.terms, columns, {key: getattr(self, key) for key in keys})

    def summary(self) -> Summary:
        """Return the constants as a table."""
        rows = [
            [name, "" if stated is None else f"{stated:.4g}", f"{constant:.4g}", interval_words(interval)]
            for name, stated, constant, interval in zip(
                self.terms, self.theory, self.constants, self.intervals, strict=True
            )
        ]
        facts = [
            ("Cells", f"{self.n_cells}{self.failures}"),
            ("Fit", f"p = {self.pvalue:.3g}, largest deviation {100 * self.deviation:.1f}%"),
            ("Verdict", self.verdict),
        ]
        return Summary("Constants of the formula", facts, ["term", "theory", "constant", "interval"], rows)


def fit_formula(
    results: StudyResults,
    terms: Mapping[str, Term],
    *,
    loss: str | None = None,
    constants: Mapping[str, float] | None = None,
    accuracy: float = 0.0,
    confidence_level: float = 0.95,
) -> FormulaFit:
    """Fit the constants of ``risk = sum of constant x term`` to all cells, by nonlinear least squares of logs.

    Parameters
    ----------
    results : StudyResults
    terms : mapping of str to callable
        Positive functions of a cell's parameters.
    loss : str, optional
    constants : mapping of str to float, optional
        Constants of the theory for some or all of the terms.
    accuracy : float, default=0
        Relative error that the formula is known to have, as a leading term has: it is added to the Monte
        Carlo errors.
    confidence_level : float, default=0.95
        Level of the verdict; intervals of constants are widened so that half of its error covers them
        together.

    Examples
    --------
    >>> from dpstats.means import ClippedMean
    >>> from dpstats.privacy import gaussian_sigma
    >>> from dpstats.simulation import Rademacher, Study, fit_formula
    >>> grid = {"n": [50, 500, 5000], "d": [4]}
    >>> results = Study(Rademacher(), ClippedMean(clip=1.0, epsilon=1.0, delta=1e-5), grid, 200).run()
    >>> terms = {
    ...     "sampling": lambda cell: cell["d"] / cell["n"],
    ...     "privacy": lambda cell: (2 * cell["d"] * gaussian_sigma(1.0, 1e-5) / cell["n"]) ** 2,
    ... }
    >>> fit_formula(results, terms, constants={"sampling": 1.0, "privacy": 1.0}).verdict
    'reproduced'
    """
    level = check_real("confidence_level", confidence_level, above=0, below=1)
    chosen = results.check_loss(loss)
    usable = usable_cells(results, chosen)
    if not isinstance(terms, Mapping):
        raise refuse("terms", given=terms, allowed="a mapping of names to functions of a cell")
    names = list(terms)
    stated = dict(constants or {})
    unknown = sorted(set(stated) - set(names))
    if unknown:
        raise refuse("constants", given=constants, allowed=f"name terms ({', '.join(names)})")
    if len(usable.cells) < len(names):
        raise refuse(
            "results", got=f"{len(usable.cells)}", allowed=f"have at least {len(names)} cells for fit_formula"
        )
    basis = np.array([evaluate(usable, terms[name]) for name in names])
    means, errors = log_means(usable, chosen, accuracy)

    def residuals(logs: Vector) -> Vector:
        return np.asarray((np.log(np.exp(logs) @ basis) - means) / errors)

    def jacobian(logs: Vector) -> Vector:
        parts = np.exp(logs)[:, None] * basis
        return np.asarray((parts / parts.sum(axis=0) / errors).T)

    # Constants are positive, so their logs are fitted. Each starts where its term alone would explain the
    # risk.
    alone = np.array([np.median(means - np.log(row)) for row in basis]) - math.log(len(names))
    fit = least_squares(residuals, alone, jac=jacobian, bounds=(alone - 40, alone + 40), x_scale=1.0)
    fitted = np.exp(fit.x)
    # Intervals are normal on the scale of the constants, not of their logs: for a term that no cell shows
    # they begin at 0.
    slopes = (basis / (fitted @ basis) / errors).T
    size = np.linalg.norm(slopes, axis=0)
    spread = np.sqrt(np.diag(np.linalg.pinv((slopes / size).T @ (slopes / size)))) / size
    quantile = float(-ndtri((1 - level) / 4 / len(names)))
    intervals = tuple(
        ConfidenceInterval(
            max(0.0, float(value - quantile * s)),
            float(value + quantile * s),
            level,
            f"constant of {name}",
            True,
        )
        for name, value, s in zip(names, fitted, spread, strict=True)
    )
    degrees = len(usable.cells) - len(names)
    deviation = float(np.max(np.abs(np.expm1(means - np.log(fitted @ basis)))))
    return FormulaFit(
        terms=tuple(names),
        constants=tuple(float(value) for value in fitted),
        intervals=intervals,
        theory=tuple(None if name not in stated else float(stated[name]) for name in names),
        pvalue=float(chi2.sf(2 * fit.cost, degrees)) if degrees > 0 else 1.0,
        deviation=deviation,
        n_cells=len(usable.cells),
        confidence_level=level,
        failures=failure_words(results, usable, chosen),
    )
