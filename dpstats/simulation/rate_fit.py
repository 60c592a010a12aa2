"""The exponent of one parameter: the slope of log risk on its log, beside what the theory says."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import chi2

from dpstats.data.parameters import check_real
from dpstats.errors import refuse
from dpstats.inference.reports import Printed, Records
from dpstats.inference.results import ConfidenceInterval, Summary
from dpstats.simulation.formula_fit import (
    BrokenLine,
    FormulaFit,
    PowerSum,
    bent,
    fit_broken_line,
    fit_formula,
    fit_power_sum,
)
from dpstats.simulation.table import (
    FINITE_SIZE,
    NOT_REPRODUCED,
    REPRODUCED,
    UNDECIDED,
    StudyResults,
    Term,
    Vector,
    evaluate,
    failure_words,
    interval_words,
    log_means,
    usable_cells,
)

MISFIT = 0.01
"""A p-value below which points do not lie on a line."""
_ENOUGH = 100  # replications: with fewer, Monte Carlo errors are themselves too uncertain for that p-value


@dataclass(frozen=True, slots=True)
class RateFit(Printed):
    """An exponent, estimated.

    Attributes
    ----------
    parameter : str
    slope : float
    interval : ConfidenceInterval
    theory : float or None
        The exponent of the theory.
    prediction : float or None
        Prediction of the whole formula for these cells: the slope at finite size.
    regime : str
        Description of the cells that were used.
    n_cells : int
    pvalue : float
        P-value of the hypothesis that the points are on a line, up to Monte Carlo error.
    tolerance : float or None
        Half-width above which an interval proves nothing.
    formula : FormulaFit or None
        The whole formula, fitted to all cells.
    sampling : ConfidenceInterval or None
        The interval of the slope of the best line from Monte Carlo error alone. ``interval`` is the same if
        the points are on the line. Otherwise it includes the lack of fit.
    deviation : float
        Largest relative deviation of a cell from the line.
    two : BrokenLine or None
        Two regimes, if one line does not fit and there are enough cells.
    powers : PowerSum or None
        A sum of two powers, if one line does not fit and there are enough cells.
    failures : str
        Description of the failed replications.
    n_groups : int
        Number of groups of cells that differ in the parameter alone. Each has its intercept, and all have the
        slope.
    n_replications : int or None
        Number of replications in the cell with the fewest.

    See Also
    --------
    fit_rate

    Examples
    --------
    >>> from dpstats.means import ClippedMean
    >>> from dpstats.simulation import Rademacher, Study, fit_rate
    >>> grid = {"n": [50, 100, 200], "d": [16], "epsilon": [0.1]}
    >>> loss = "released_squared_error"
    >>> results = Study(Rademacher(), ClippedMean(clip=1.0, delta=1e-5), grid, 20, loss=loss).run()
    >>> rate = fit_rate(results, "n", theory=-2)
    >>> round(rate.slope), rate.n_cells, rate.verdict
    (-2, 3, 'reproduced')
    """

    parameter: str
    slope: float
    interval: ConfidenceInterval
    theory: float | None
    prediction: float | None
    regime: str
    n_cells: int
    pvalue: float
    tolerance: float | None
    formula: FormulaFit | None
    sampling: ConfidenceInterval | None = None
    deviation: float = 0.0
    two: BrokenLine | None = None
    powers: PowerSum | None = None
    failures: str = ""
    n_groups: int = 1
    n_replications: int | None = None

    @property
    def fits(self) -> bool:
        """Whether the points may lie on a line; if not, there is no one exponent for all of them."""
        return self.pvalue >= MISFIT

    @property
    def words(self) -> str:
        """The slope, or the two, for a legend."""
        if self.two is None:
            return f"slope {self.slope:.3g}" + ("" if self.fits else ", which does not fit")
        first, second = self.two.slopes
        return f"slopes {first:.3g} and {second:.3g}, break at {self.two.place:.3g}"

    def line(self, x: Vector, means: Vector, errors: Vector) -> Vector:
        """Return the fitted line at values of the parameter, through the mean risks of one group."""
        places = np.log(x)
        if self.two is None:
            slope = self.slope * places
        else:
            slope = bent(places, math.log(self.two.place)) @ np.array(self.two.slopes)
        weights = np.maximum(errors / means, 1e-9) ** -2.0
        return np.asarray(np.exp(slope + np.average(np.log(means) - slope, weights=weights)))

    @property
    def half_width(self) -> float:
        """Half the width of the interval."""
        return float(self.interval.high - self.interval.low) / 2

    @property
    def verdict(self) -> str:
        """How the fit compares with the theory.

        * "reproduced": the line fits, and its interval is narrow enough and contains the exponent;
        * "reproduced at finite size": the interval contains only the slope that the whole formula predicts
          for these cells, because of logarithms or a smaller term;
        * "undecided": the interval is wider than the tolerance, there is nothing to compare with, or the line
          does not fit although its interval contains the exponent;
        * "not reproduced": the interval contains neither.
        """
        too_wide = self.tolerance is not None and self.half_width > self.tolerance
        if self.theory is None and self.prediction is None:
            return UNDECIDED
        met = self.theory is not None and self.interval.low <= self.theory <= self.interval.high
        if met and self.fits:
            return UNDECIDED if too_wide else REPRODUCED
        # A prediction is the slope of a line through what the formula says of these cells: it need not fit
        # either.
        within = self.sampling or self.interval
        if self.prediction is not None and within.low <= self.prediction <= within.high:
            return UNDECIDED if too_wide else FINITE_SIZE
        return UNDECIDED if met else NOT_REPRODUCED

    def _records(self) -> Records:
        lines: list[tuple[str, float, ConfidenceInterval | None]] = [
            (self.parameter, self.slope, self.interval)
        ]
        if not self.fits:
            lines += self._other_lines()
        low, high = (
            [float("nan") if each is None else float(each[side]) for _, _, each in lines] for side in (0, 1)
        )
        columns = {"estimate": [slope for _, slope, _ in lines], "low": low, "high": high}
        keys = ("theory", "prediction", "verdict", "regime", "n_cells", "pvalue", "deviation", "fits")
        return Records([name for name, _, _ in lines], columns, {key: getattr(self, key) for key in keys})

    def _other_lines(self) -> list[tuple[str, float, ConfidenceInterval | None]]:
        """Return the exponents of a broken line, and of a sum of two powers, with names and intervals."""
        found: list[tuple[str, float, ConfidenceInterval | None]] = []
        if self.two is not None:
            sides = (
                f"{self.parameter} {side} {self.two.place:.4g}, broken line" for side in ("below", "above")
            )
            found += zip(sides, self.two.slopes, self.two.intervals, strict=True)
        if self.powers is not None:
            names = ("first of two powers", "second of two powers")
            found += zip(names, self.powers.exponents, self.powers.intervals, strict=True)
        return found

    def summary(self) -> Summary:
        """Return the exponent as a table; if one line does not fit, with the exponents of two regimes."""
        compared = [
            ("theory", None if self.theory is None else f"{self.theory:g}"),
            ("predicted here", None if self.prediction is None else f"{self.prediction:.3f}"),
        ]
        known = [(name, value) for name, value in compared if value is not None]
        columns = [
            "exponent of",
            *(name for name, _ in known),
            "estimate",
            "interval",
            *["verdict"][: len(known)],
        ]
        rows = [
            self._row(self.parameter, [value for _, value in known], self.slope, self.interval, self.verdict)
        ]
        # Two digits of a small deviation, whole percents of a large one.
        line = f"p = {self.pvalue:.3g}, largest deviation {float(f'{100 * self.deviation:.2g}'):g}%"
        notes = []
        if not self.fits:
            line = f"one line does not fit: {line}"
            notes = [
                "There is no one exponent for all of these cells: the interval counts what the line misses them by."
            ]
            if self.n_replications is not None and self.n_replications < _ENOUGH:
                notes.append(
                    f"With {self.n_replications} replications in a cell a line that is right is found not to fit more "
                    f"often than its p-value says: run {_ENOUGH} or more, and more still where losses have heavy tails."
                )
            blank = [""] * len(known)
            rows += [
                self._row(name, blank, slope, interval, "") for name, slope, interval in self._other_lines()
            ]
            notes += self._regime_notes()
            notes += self._power_notes()
        facts = [("Regime", self.regime), ("Cells", f"{self.n_cells}{self.failures}"), ("Line", line)]
        return Summary(f"Rate in {self.parameter}", facts, columns, rows, notes)

    @staticmethod
    def _row(
        name: str, known: list[str], slope: float, interval: ConfidenceInterval | None, verdict: str
    ) -> list[str]:
        if interval is None:
            return [name, *known, "", "not determined: one value beyond the break", *[verdict][: len(known)]]
        return [name, *known, f"{slope:.3f}", interval_words(interval), *[verdict][: len(known)]]

    def _regime_notes(self) -> list[str]:
        if self.two is None:
            return ["Too few cells to look for two regimes: it takes five values of the parameter."]
        low, high = (float(end) for end in self.two.place_interval)
        words = (
            f"Two regimes: the line breaks at {self.parameter} = {self.two.place:.4g} [{low:.4g}, {high:.4g}]"
        )
        if not self.two.determined:
            words += ", at the edge of the values: the slope beyond it is not determined"
            if self.two.pvalue >= MISFIT:
                return [f"{words}, and whether two regimes are enough is not known."]
        if self.two.pvalue >= MISFIT:
            return [f"{words}, and fits (p = {self.two.pvalue:.2g})."]
        more = ", elsewhere for other cells" if self.n_groups > 1 else ""
        return [
            f"{words}, and does not fit either (p = {self.two.pvalue:.2g}): it changes more than once{more}, or "
            "gradually."
        ]

    def _power_notes(self) -> list[str]:
        if self.powers is None:
            return [
                "Too few cells for a sum of two powers: it takes three more than twice the number of groups."
            ]
        words = f"Sum of two powers, A {self.parameter}^a + B {self.parameter}^b:"
        if self.powers.pvalue < MISFIT:
            return [f"{words} it does not fit (p = {self.powers.pvalue:.2g})."]
        words += f" it fits (p = {self.powers.pvalue:.2g})."
        if self.two is not None and self.two.pvalue < MISFIT:
            return [f"{words} The slopes of the broken line are no exponents of such a sum."]
        return [
            f"{words} These cells do not tell a sum from a broken line. Each interval holds if its own model is right: "
            "slopes of a broken line are no exponents of a sum."
        ]


def fit_rate(
    results: StudyResults,
    parameter: str,
    *,
    theory: float | None = None,
    loss: str | None = None,
    terms: Mapping[str, Term] | None = None,
    term: str | None = None,
    share: float = 0.9,
    constants: Mapping[str, float] | None = None,
    prediction: Term | None = None,
    tolerance: float | None = None,
    accuracy: float = 0.0,
    confidence_level: float = 0.95,
) -> RateFit:
    """Estimate the exponent of a parameter by weighted regression of log risk on its log.

    Parameters
    ----------
    results : StudyResults
        Cells that differ in another parameter too get an intercept for each of its values.
    parameter : str
        Positive. See `StudyResults.derive` for functions of parameters, such as log sigma for epsilon.
    theory : float, optional
        The exponent to compare with.
    loss : str, optional
        Default: the study's first.
    terms : mapping of str to callable, optional
        The terms of the whole formula, without their constants. They are fitted to all cells (see
        `fit_formula`), choose the regime, and predict the slope at finite size.
    term : str, optional
        Use only the cells where this term is more than ``share`` of the formula.
    share : float, default=0.9
    constants : mapping of str to float, optional
        The constants of the terms that the theory states. The regime is chosen by them where all are
        stated, and by the fitted ones otherwise.
    prediction : callable, optional
        The theory's risk as a function of a cell's parameters, in place of ``terms``.
    tolerance : float, optional
        A wider half-width than this is "undecided".
    accuracy : float, default=0
        Relative error that the formula is known to have, added to the Monte Carlo error.
    confidence_level : float, default=0.95

    Returns
    -------
    RateFit

    Notes
    -----
    Weighted least squares (statsmodels), the weights known: the variance of a log mean is the squared
    relative Monte Carlo error. The interval is normal. If the points are not on a line (p below 0.01), it is
    widened by the square root of chi-square over its degrees of freedom. Then a line that breaks once is
    tried, and a sum of two powers. Their intervals belong to their own model, which the summary names.

    Examples
    --------
    >>> from dpstats.means import ClippedMean
    >>> from dpstats.simulation import Rademacher, Study, fit_rate
    >>> grid = {"n": [50, 100, 200, 400, 800], "d": [16], "epsilon": [0.1]}
    >>> estimator, loss = ClippedMean(clip=1.0, delta=1e-5), "released_squared_error"
    >>> results = Study(Rademacher(), estimator, grid, 200, loss=loss).run()
    >>> rate = fit_rate(results, "n", theory=-2, tolerance=0.1)
    >>> round(rate.slope, 1), rate.verdict
    (-2.0, 'reproduced')
    """
    if theory is not None:
        check_real("theory", theory)
    check_real("share", share, at_least=0, below=1)
    level = check_real("confidence_level", confidence_level, above=0, below=1)
    chosen = results.check_loss(loss)
    usable = usable_cells(results, chosen)
    formula = whole = None
    if terms is not None:
        formula = fit_formula(
            usable, terms, loss=chosen, constants=constants, accuracy=accuracy, confidence_level=level
        )
        known = constants is not None and set(constants) == set(terms)
        factors = (
            constants if known and constants else dict(zip(formula.terms, formula.constants, strict=True))
        )
        whole = {name: factors[name] * evaluate(usable, function) for name, function in terms.items()}
    regime = "all cells"
    keep = np.ones(len(usable.cells), dtype=bool)
    if term is not None:
        if whole is None or term not in whole:
            raise refuse("term", given=term, allowed="one of terms")
        keep = whole[term] > share * sum(whole.values())
        regime = f"{term} above {100 * share:g}% of the formula"
    keep &= _varied(usable, parameter, keep)
    if np.count_nonzero(keep) < 3:
        raise refuse(
            "results",
            got=f"{np.count_nonzero(keep)}",
            allowed=f"have at least 3 cells with different {parameter} in the regime ({regime})",
        )
    inside = replace(usable, cells=tuple(cell for cell, kept in zip(usable.cells, keep, strict=True) if kept))
    x = _log_parameter(inside, parameter)
    means, errors = log_means(inside, chosen, accuracy)
    design = _design(inside, parameter, x)
    line = _weighted_line(design, means, errors)
    predicted: float | None = None
    if prediction is not None:
        predicted = _weighted_line(design, np.log(evaluate(inside, prediction)), errors).slope
    elif whole is not None:
        predicted = _weighted_line(design, np.log(sum(whole.values()))[keep], errors).slope
    half = line.error * float(-ndtri((1 - level) / 2))
    sampling = ConfidenceInterval.around(line.slope, half, level, f"exponent of {parameter}")
    fits = line.pvalue >= MISFIT
    misses = 1.0 if fits else max(1.0, line.spread)
    interval = ConfidenceInterval.around(line.slope, misses * half, level, f"exponent of {parameter}")
    return RateFit(
        parameter=parameter,
        slope=line.slope,
        interval=interval,
        theory=theory,
        prediction=predicted,
        regime=regime,
        n_cells=len(inside.cells),
        pvalue=line.pvalue,
        tolerance=tolerance,
        formula=formula,
        sampling=sampling,
        deviation=line.deviation,
        two=None if fits else fit_broken_line(parameter, x, design[:, 1:], means, errors, level),
        powers=None if fits else fit_power_sum(parameter, x, design[:, 1:], means, errors, level),
        failures=failure_words(results, inside, chosen),
        n_groups=design.shape[1] - 1,
        n_replications=min(cell.losses[chosen].size for cell in inside.cells),
    )


class _Line(NamedTuple):
    """A weighted line: its slope and its standard error, how far the points are from it."""

    slope: float
    error: float
    pvalue: float
    spread: float
    deviation: float


def _weighted_line(design: Vector, response: Vector, errors: Vector) -> _Line:
    """Return the line with the slope of the first column."""
    from statsmodels.regression.linear_model import WLS

    # "fixed scale": the weights are the inverse variances themselves, not only proportional to them.
    fit = WLS(response, design, weights=errors**-2.0).fit(cov_type="fixed scale", use_t=False)
    residual = float(np.sum((np.asarray(fit.resid) / errors) ** 2))
    degrees = design.shape[0] - design.shape[1]
    pvalue = float(chi2.sf(residual, degrees)) if degrees > 0 else 1.0
    spread = math.sqrt(residual / degrees) if degrees > 0 else 1.0
    deviation = float(np.max(np.abs(np.expm1(np.asarray(fit.resid)))))
    return _Line(float(fit.params[0]), float(fit.bse[0]), pvalue, spread, deviation)


def _log_parameter(results: StudyResults, parameter: str) -> Vector:
    values = results.parameter(parameter).astype(np.float64)
    if not (values > 0).all():
        raise refuse("parameter", given=parameter, allowed="positive in every cell")
    return np.log(values)


def _groups(results: StudyResults, parameter: str) -> list[str]:
    """Return the other parameters of each cell: cells are compared only within equal ones."""
    return [
        repr(sorted((key, repr(value)) for key, value in cell.parameters.items() if key != parameter))
        for cell in results.cells
    ]


def _varied(results: StudyResults, parameter: str, keep: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the cells of groups in which the parameter has at least two values."""
    x, groups = _log_parameter(results, parameter), _groups(results, parameter)
    seen: dict[str, set[float]] = {}
    for value, group, kept in zip(x, groups, keep, strict=True):
        if kept:
            seen.setdefault(group, set()).add(float(value))
    return np.array([len(seen.get(group, ())) > 1 for group in groups])


def _design(results: StudyResults, parameter: str, x: Vector) -> Vector:
    groups = _groups(results, parameter)
    distinct: Sequence[str] = list(dict.fromkeys(groups))
    indicators = [[float(group == one) for group in groups] for one in distinct]
    return np.column_stack([x, *indicators])
