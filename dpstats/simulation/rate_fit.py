"""The exponent of one parameter: the slope of log risk on its log, beside what the theory says."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_real
from dpstats.errors import refuse
from dpstats.inference.reports import Printed, Records, draw
from dpstats.inference.results import ConfidenceInterval, Summary
from dpstats.simulation.cell_fits import (
    MISFIT,
    BrokenLine,
    CellFit,
    Cells,
    PowerSum,
    Vector,
    bent,
    fit_broken_line,
    fit_cells,
    fit_power_sum,
    line_model,
    score_interval,
)
from dpstats.simulation.formula_fit import FormulaFit, check_terms, fit_formula, percent
from dpstats.simulation.table import (
    FINITE_SIZE,
    NOT_REPRODUCED,
    REPRODUCED,
    UNDECIDED,
    StudyResults,
    Term,
    cells_to_fit,
    check_one_estimator,
    evaluate,
    failure_words,
    interval_words,
    judge,
    log_parameter,
    usable_cells,
)

_FEW_FOR_SPREAD = 10
"""Replications below which intervals with a model of the variance may undercover."""


@dataclass(frozen=True, slots=True)
class RateFit(Printed):
    """An exponent, estimated.

    Attributes
    ----------
    parameter : str
    slope : float
    interval : ConfidenceInterval
        The interval that decides. If the points are not on a line, it is widened accordingly.
    theory : float or None
        The exponent of the theory.
    prediction : float or None
        Prediction of the whole formula for these cells: the slope at finite size.
    regime : str
        Description of the cells that were used.
    n_cells : int
    pvalue : float
        P-value of the hypothesis that the points are on a line, up to Monte Carlo error.
    tolerance : float
        How near to the theory the whole interval must be.
    detectable : float
        The deviation from the theory that is found with probability 0.8.
    formula : FormulaFit or None
        The whole formula, fitted to all cells.
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
    n_replications : int
        Number of replications in the cell with the fewest.
    degrees : float
        Degrees of freedom of the variance within cells.
    spread : tuple of str
        Parameters on which the relative variance of a loss depends; empty if one variance is pooled.
    estimator : str
        Name of the estimator, in a study of several.
    fewest_degrees : int
        Degrees of freedom that a model of the variance needs for a verdict.

    See Also
    --------
    fit_rate

    Examples
    --------
    >>> from dpstats.means import ClippedMean
    >>> from dpstats.simulation import Rademacher, Study, fit_rate
    >>> grid = {"n": [50, 100, 200], "d": [16], "epsilon": [0.1]}
    >>> loss = "released_squared_error"
    >>> results = Study(Rademacher(), ClippedMean(clip=1.0, delta=1e-5), grid, 200, loss=loss).run()
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
    tolerance: float
    detectable: float
    formula: FormulaFit | None
    deviation: float
    two: BrokenLine | None
    powers: PowerSum | None
    failures: str
    n_groups: int
    n_replications: int
    degrees: float
    spread: tuple[str, ...] = ()
    estimator: str = ""
    fewest_degrees: int = 0

    @property
    def fits(self) -> bool:
        """Whether the points may lie on a line; if not, no single exponent fits them."""
        return self.pvalue >= MISFIT

    @property
    def differs(self) -> bool:
        """Whether the interval lacks the exponent of the theory, though it may be within the tolerance."""
        return self.theory is not None and not self.interval.low <= self.theory <= self.interval.high

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
    def spread_is_known(self) -> bool:
        """Whether the variance is pooled, or its model has enough replications to be relied on."""
        return self.degrees >= self.fewest_degrees

    @property
    def verdict(self) -> str:
        """How the fit compares with the theory, by the interval that is printed.

        * "reproduced": the line fits, and the whole interval is within the tolerance of the theory.
        * "reproduced at finite size": the interval excludes the theory, and is within the tolerance of the prediction.
          This is the slope of the whole formula in these cells.
        * "not reproduced": the interval excludes the theory and the prediction.
        * "undecided": none of these. `detectable` is the power.
        """
        of_theory = UNDECIDED if self.theory is None else judge(self.interval, self.theory, self.tolerance)
        of_size = UNDECIDED if self.prediction is None else judge(self.interval, self.prediction, self.tolerance)
        if not self.spread_is_known:
            return UNDECIDED
        if of_theory == REPRODUCED and self.fits and not (self.differs and of_size == REPRODUCED):
            return REPRODUCED
        # A prediction is the slope of a line through what the formula says of these cells: it need not fit.
        if of_size == REPRODUCED and (self.theory is None or self.differs):
            return FINITE_SIZE
        judged = [
            verdict for verdict, given in ((of_theory, self.theory), (of_size, self.prediction)) if given is not None
        ]
        return NOT_REPRODUCED if judged and set(judged) == {NOT_REPRODUCED} else UNDECIDED

    def _records(self) -> Records:
        lines: list[tuple[str, float, ConfidenceInterval | None]] = [(self.parameter, self.slope, self.interval)]
        if not self.fits:
            lines += self._other_lines()
        low, high = ([float("nan") if each is None else float(each[side]) for _, _, each in lines] for side in (0, 1))
        columns = {"estimate": [slope for _, slope, _ in lines], "low": low, "high": high}
        keys = (
            *("theory", "tolerance", "prediction", "verdict", "detectable", "regime"),
            *("n_cells", "n_replications", "pvalue", "deviation", "fits"),
        )
        return Records([name for name, _, _ in lines], columns, {key: getattr(self, key) for key in keys})

    def _other_lines(self) -> list[tuple[str, float, ConfidenceInterval | None]]:
        """Return the exponents of a broken line, and of a sum of two powers, with names and intervals."""
        found: list[tuple[str, float, ConfidenceInterval | None]] = []
        if self.two is not None:
            sides = (f"{self.parameter} {side} {self.two.place:.4g}, broken line" for side in ("below", "above"))
            found += zip(sides, self.two.slopes, self.two.intervals, strict=True)
        if self.powers is not None:
            names = ("first of two powers", "second of two powers")
            found += zip(names, self.powers.exponents, self.powers.intervals, strict=True)
        return found

    def summary(self) -> Summary:
        """Return the exponent as a table; if one line does not fit, with the exponents of two regimes."""
        compared = [
            ("theory", None if self.theory is None else f"{self.theory:g} ± {self.tolerance:g}"),
            ("predicted here", None if self.prediction is None else f"{self.prediction:.3f}"),
        ]
        known = [(name, value) for name, value in compared if value is not None]
        columns = ["exponent of", *(name for name, _ in known), "estimate", "interval", *["verdict"][: len(known)]]
        rows = [self._row(self.parameter, [value for _, value in known], self.slope, self.interval, self.verdict)]
        line = f"p = {self.pvalue:.3g}, largest deviation {percent(self.deviation)}"
        notes = self._notes()
        if not self.fits:
            line = f"one line does not fit: {line}"
            notes.append("No single exponent fits these cells. The interval is widened accordingly.")
            blank = [""] * len(known)
            rows += [self._row(name, blank, slope, interval, "") for name, slope, interval in self._other_lines()]
            notes += self._regime_notes()
            notes += self._power_notes()
        facts = [
            ("Regime", self.regime),
            ("Cells", f"{self.n_cells}, {self.n_replications:,} replications or more in each{self.failures}"),
            ("Variance", self._variance),
            ("Line", line),
            ("Power", f"finds a deviation of {self.detectable:.2g} with probability 0.8"),
        ]
        return Summary(f"Rate in {self.parameter}", facts, columns, rows, notes)

    @property
    def _variance(self) -> str:
        degrees = f"{self.degrees:,.0f} degrees of freedom"
        if not self.spread:
            return f"of replications, pooled over cells: {degrees}"
        return f"of replications, a power of {' and '.join(self.spread)}: {degrees}"

    def _notes(self) -> list[str]:
        """Explain the verdict."""
        notes = []
        if not self.spread_is_known:
            enough = math.ceil((self.fewest_degrees + len(self.spread)) / self.n_cells) + 1
            notes.append(f"Too few replications to model the variance: nothing is decided. Run {enough} in each cell.")
        elif self.spread and self.n_replications < _FEW_FOR_SPREAD:
            notes.append("The interval may undercover with so few replications. Run 30 in each cell.")
        compared = self.theory is not None or self.prediction is not None
        if compared and self.verdict == UNDECIDED and self.detectable > self.tolerance and self.fits:
            more = math.ceil(self.n_replications * (self.detectable / self.tolerance) ** 2)
            notes.append(
                f"Undecided: a deviation of {self.tolerance:g} needs about {more:,} replications in each cell."
            )
        if self.verdict == REPRODUCED and self.differs:
            notes.append("The exponent is within the tolerance of the theory, but different from it.")
        return notes

    @staticmethod
    def _row(name: str, known: list[str], slope: float, interval: ConfidenceInterval | None, verdict: str) -> list[str]:
        if interval is None:
            return [name, *known, "", "not determined: one value beyond the break", *[verdict][: len(known)]]
        return [name, *known, f"{slope:.3f}", interval_words(interval), *[verdict][: len(known)]]

    def _regime_notes(self) -> list[str]:
        if self.two is None:
            return ["Too few cells to look for two regimes: it takes five values of the parameter."]
        low, high = (float(end) for end in self.two.place_interval)
        words = f"Two regimes: the line breaks at {self.parameter} = {self.two.place:.4g} [{low:.4g}, {high:.4g}]"
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
            return ["Too few cells for a sum of two powers: it takes three more than twice the number of groups."]
        words = f"Sum of two powers, A {self.parameter}^a + B {self.parameter}^b:"
        if self.powers.pvalue < MISFIT:
            return [f"{words} it does not fit (p = {self.powers.pvalue:.2g})."]
        words += f" it fits (p = {self.powers.pvalue:.2g})."
        if self.two is not None and self.two.pvalue < MISFIT:
            return [f"{words} The slopes of the broken line are not exponents of such a sum."]
        return [
            f"{words} These cells do not distinguish a sum from a broken line. Each interval holds if its model is "
            "right: slopes of a broken line are not exponents of a sum."
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
    spread: Sequence[str] | None = None,
    tolerance: float = 0.1,
    accuracy: float = 0.0,
    confidence_level: float = 0.95,
) -> RateFit:
    """Estimate the exponent of a parameter: the slope of the log of the mean loss on its log.

    Parameters
    ----------
    results : StudyResults
        Of one estimator; `fit_rates` takes several. Cells that differ in another parameter too get an intercept
        for each of its values.
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
    spread : sequence of str, optional
        Parameters on which the relative variance of a loss depends, as a power. Default: d for squared errors,
        and otherwise none: one variance is pooled over all cells.
    tolerance : float, default=0.1
        The exponent is "reproduced" if its whole interval is this near to the theory.
    accuracy : float, default=0
        Relative error that the formula is known to have, added to the Monte Carlo error.
    confidence_level : float, default=0.95

    Returns
    -------
    RateFit

    Notes
    -----
    Quasi-likelihood with one relative variance, from the replications within cells and with their degrees of
    freedom. Whether the points lie on a line is tested by F. If cells differ in more than one parameter, or the
    variance is modeled, Box's test must reject too. The interval inverts the score test (t quantiles). With a modeled
    variance, it also inverts Welch's test. A verdict then needs 250 degrees of freedom, or 30 where the variance is at
    most a tenth of the squared mean.

    If p is below 0.05, both arms are multiplied by sqrt(F). Then a line that breaks once is tried, and a sum of
    two powers. Their intervals belong to their own model, which the summary names.

    Examples
    --------
    >>> from dpstats.means import ClippedMean
    >>> from dpstats.simulation import Rademacher, Study, fit_rate
    >>> grid = {"n": [50, 100, 200, 400, 800], "d": [16], "epsilon": [0.1]}
    >>> estimator, loss = ClippedMean(clip=1.0, delta=1e-5), "released_squared_error"
    >>> results = Study(Rademacher(), estimator, grid, 200, loss=loss).run()
    >>> rate = fit_rate(results, "n", theory=-2)
    >>> round(rate.slope, 1), rate.verdict
    (-2.0, 'reproduced')
    """
    if theory is not None:
        check_real("theory", theory)
    check_real("share", share, at_least=0, below=1)
    check_real("tolerance", tolerance, above=0)
    check_real("accuracy", accuracy, at_least=0)
    level = check_real("confidence_level", confidence_level, above=0, below=1)
    chosen = results.check_loss(loss)
    check_one_estimator(results, "fit_rate")
    usable = usable_cells(results, chosen)
    formula = whole = None
    if terms is not None:
        check_terms("terms", terms)
        formula = fit_formula(
            usable, terms, loss=chosen, constants=constants, spread=spread, accuracy=accuracy, confidence_level=level
        )
        known = constants is not None and set(constants) == set(terms)
        factors = constants if known and constants else dict(zip(formula.terms, formula.constants, strict=True))
        whole = {name: factors[name] * evaluate(usable, function, name) for name, function in terms.items()}
    regime = "all cells"
    keep = np.ones(len(usable.cells), dtype=bool)
    if term is not None:
        if whole is None or term not in whole:
            raise refuse("term", given=term, allowed="one of terms")
        keep = whole[term] > share * sum(whole.values())
        regime = f"{term} above {100 * share:g}% of the formula"
    keep &= _find_varied(usable, parameter, keep)
    if np.count_nonzero(keep) < 3:
        raise refuse(
            "results",
            got=f"{np.count_nonzero(keep)}",
            allowed=f"have at least 3 cells with different {parameter} in the regime ({regime})",
        )
    inside = replace(usable, cells=tuple(cell for cell, kept in zip(usable.cells, keep, strict=True) if kept))
    x = log_parameter(inside, parameter)
    design = _design(inside, parameter, x)
    cells = cells_to_fit(inside, chosen, spread, accuracy)
    fit = _fit_line(design, cells.means, cells)
    stated = predicted = None
    if prediction is not None:
        stated = evaluate(inside, prediction, "prediction")
    elif whole is not None:
        stated = np.sum(list(whole.values()), axis=0)[keep]
    if stated is not None:
        # The line through what the formula says of these cells, with the weights of the line through them.
        scaled = design * np.sqrt(fit.weights)[:, None]
        predicted = float(np.linalg.lstsq(scaled, np.sqrt(fit.weights) * np.log(stated), rcond=None)[0][0])
    low, high = score_interval(fit, 0, level)
    fits = fit.pvalue >= MISFIT
    means, errors = np.log(cells.means), np.sqrt(1 / fit.weights)
    bends = (parameter, x, design[:, 1:], means, errors, level, fit.degrees)
    return RateFit(
        parameter=parameter,
        slope=float(fit.parameters[0]),
        interval=ConfidenceInterval(low, high, level, f"exponent of {parameter}"),
        theory=theory,
        prediction=predicted,
        regime=regime,
        n_cells=len(inside.cells),
        pvalue=fit.pvalue,
        tolerance=float(tolerance),
        detectable=fit.detectable(0, level),
        formula=formula,
        deviation=float(np.abs(fit.deviations).max()),
        two=None if fits else fit_broken_line(*bends),
        powers=None if fits else fit_power_sum(*bends),
        failures=failure_words(results, inside, chosen),
        n_groups=design.shape[1] - 1,
        n_replications=int(cells.sizes.min()),
        degrees=fit.degrees,
        spread=cells.names,
        fewest_degrees=fit.fewest_degrees,
    )


def _fit_line(design: Vector, means: Vector, cells: Cells) -> CellFit:
    """Fit a line with the slope of the first column, from least squares of the log means."""
    start, *_ = np.linalg.lstsq(design, np.log(means), rcond=None)
    return fit_cells(line_model(design), np.asarray(start, dtype=np.float64), cells)


def _groups(results: StudyResults, parameter: str) -> list[str]:
    """Return the other parameters of each cell: cells are compared only within equal ones."""
    return [
        repr(sorted((key, repr(value)) for key, value in cell.parameters.items() if key != parameter))
        for cell in results.cells
    ]


def _find_varied(results: StudyResults, parameter: str, keep: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the cells of groups in which the parameter has at least two values."""
    x, groups = log_parameter(results, parameter), _groups(results, parameter)
    seen: dict[str, set[float]] = {}
    for value, group, kept in zip(x, groups, keep, strict=True):
        if kept:
            seen.setdefault(group, set()).add(float(value))
    return np.array([len(seen.get(group, ())) > 1 for group in groups])


def _design(results: StudyResults, parameter: str, x: Vector) -> Vector:
    groups = _groups(results, parameter)
    distinct: Sequence[str] = list(dict.fromkeys(groups))
    indicators = np.array([[float(group == one) for one in distinct] for group in groups])
    return np.column_stack([x, indicators])


@dataclass(frozen=True, slots=True)
class RateTable(Printed):
    """The exponents of a study, for each estimator and each parameter.

    Attributes
    ----------
    rates : tuple of RateFit

    See Also
    --------
    fit_rates

    Examples
    --------
    >>> from dpstats.means import ClippedMean
    >>> from dpstats.simulation import Rademacher, Study, fit_rates
    >>> several = {"half": ClippedMean(clip=1.0, epsilon=0.5), "double": ClippedMean(clip=1.0, epsilon=2.0)}
    >>> table = fit_rates(Study(Rademacher(), several, {"n": [100, 200, 400], "d": [4]}, 40).run(), {"n": -2})
    >>> [(rate.estimator, rate.parameter) for rate in table.rates]
    [('half', 'n'), ('double', 'n')]
    """

    rates: tuple[RateFit, ...]

    @property
    def verdicts(self) -> tuple[str, ...]:
        """The verdict of each rate."""
        return tuple(rate.verdict for rate in self.rates)

    def _records(self) -> Records:
        keys = ("estimator", "parameter", "theory", "verdict", "detectable", "pvalue", "deviation", "n_cells")
        columns: dict[str, list[Any]] = {key: [getattr(rate, key) for rate in self.rates] for key in keys}
        columns["estimate"] = [rate.slope for rate in self.rates]
        columns["low"] = [float(rate.interval.low) for rate in self.rates]
        columns["high"] = [float(rate.interval.high) for rate in self.rates]
        names = [" ".join(filter(None, (rate.estimator, rate.parameter))) for rate in self.rates]
        return Records(names, columns, {})

    def summary(self) -> Summary:
        """Return a table with one row per exponent."""
        named = any(rate.estimator for rate in self.rates)
        rows = [
            [
                *([rate.estimator] if named else []),
                rate.parameter,
                f"{rate.slope:.3f}",
                interval_words(rate.interval),
                "" if rate.theory is None else f"{rate.theory:g} ± {rate.tolerance:g}",
                "" if rate.theory is None else rate.verdict,
                f"{rate.detectable:.2g}",
                f"{rate.pvalue:.2g}",
                percent(rate.deviation),
                f"{rate.n_cells} x {rate.n_replications:,}",
            ]
            for rate in self.rates
        ]
        columns = [*(["estimator"] if named else []), "exponent of", "estimate", "interval", "theory", "verdict"]
        columns += ["finds", "line: p", "misfit", "cells"]
        notes = ["finds: the deviation from the theory that is found with probability 0.8."]
        for rate in self.rates:
            told = f"{rate.estimator}, {rate.parameter}" if named else rate.parameter
            notes += [f"{told}: {note}" for note in rate._notes()]
        return Summary("Rates", [], columns, rows, notes)

    def plot(self, ax: Any = None, **style: Any) -> Any:
        """Draw the intervals, with bands of the tolerance around the theory.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: the Axes of a new figure.
        **style
            matplotlib's, of ``Axes.errorbar``.

        Returns
        -------
        matplotlib Axes
        """
        return draw(self, ax, **style)


def fit_rates(
    results: StudyResults,
    theory: Mapping[str, float] | Sequence[str],
    *,
    loss: str | None = None,
    spread: Sequence[str] | None = None,
    tolerance: float = 0.1,
    confidence_level: float = 0.95,
) -> RateTable:
    """Estimate the exponents of several parameters, for each estimator of a study.

    Parameters
    ----------
    results : StudyResults
    theory : mapping of str to float, or sequence of str
        Parameters with the exponents that the theory states, or parameters alone.
    loss, spread, tolerance, confidence_level
        As of `fit_rate`. Intervals are not simultaneous.

    Returns
    -------
    RateTable

    Examples
    --------
    >>> from dpstats.means import ClippedMean
    >>> from dpstats.simulation import Rademacher, Study, fit_rates
    >>> grid = {"n": [50, 100, 200], "d": [16, 64], "epsilon": [0.1]}
    >>> estimator, loss = ClippedMean(clip=1.0, delta=1e-5), "released_squared_error"
    >>> results = Study(Rademacher(), estimator, grid, 200, loss=loss, seed=1).run()
    >>> fit_rates(results, {"n": -2, "d": 2}).verdicts
    ('reproduced', 'reproduced')
    """
    if isinstance(theory, str) or not isinstance(theory, Mapping | Sequence) or not theory:
        raise refuse("theory", given=theory, allowed="a mapping of parameters to exponents, or names of parameters")
    stated: dict[str, float | None] = dict(theory) if isinstance(theory, Mapping) else dict.fromkeys(theory)
    return RateTable(
        tuple(
            replace(
                fit_rate(
                    part,
                    parameter,
                    theory=value,
                    loss=loss,
                    spread=spread,
                    tolerance=tolerance,
                    confidence_level=confidence_level,
                ),
                estimator=name,
            )
            for name, part in results.by_estimator().items()
            for parameter, value in stated.items()
        )
    )
