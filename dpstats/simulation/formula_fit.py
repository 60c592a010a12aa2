"""Formulas of several terms: constants and free exponents with intervals, tests of fit, and rival formulas."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstats.data.parameters import check_real
from dpstats.errors import refuse
from dpstats.inference.reports import Printed, Records
from dpstats.inference.results import ConfidenceInterval, Summary
from dpstats.simulation.cell_fits import CellFit, Cells, Vector, fit_cells, score_interval, sum_model
from dpstats.simulation.table import (
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


@dataclass(frozen=True, slots=True)
class FreeExponent:
    """A fitted exponent of a parameter in one term of a formula.

    Attributes
    ----------
    term, parameter : str
    estimate : float
    interval : ConfidenceInterval
    theory : float or None
    tolerance : float
    detectable : float
        The deviation from the theory that is found with probability 0.8.
    spread_is_known : bool, default=True
        False if there are too few replications to model the variance. Then nothing is decided.

    Examples
    --------
    >>> from dpstats.inference.results import ConfidenceInterval
    >>> from dpstats.simulation import FreeExponent
    >>> interval = ConfidenceInterval(0.48, 0.53)
    >>> FreeExponent("privacy", "d", 0.5, interval, 0.5, 0.1, 0.04).verdict
    'reproduced'
    """

    term: str
    parameter: str
    estimate: float
    interval: ConfidenceInterval
    theory: float | None
    tolerance: float
    detectable: float
    spread_is_known: bool = True

    @property
    def name(self) -> str:
        """The term and its parameter, for a table."""
        return f"exponent of {self.parameter} in {self.term}"

    @property
    def verdict(self) -> str:
        """ "reproduced" if the interval is within the tolerance of the theory; otherwise as the interval says."""
        if self.theory is None or not self.spread_is_known:
            return UNDECIDED
        return judge(self.interval, self.theory, self.tolerance)


@dataclass(frozen=True, slots=True)
class FormulaFit(Printed):
    """A formula of several terms, its constants fitted to all cells at once.

    Attributes
    ----------
    terms : tuple of str
    constants : tuple of float
    intervals : tuple of ConfidenceInterval
        One per constant, at ``confidence_level`` together.
    theory : tuple of float or None
        The constants that the theory states; None where it states none.
    pvalue : float
        Of the hypothesis that the formula holds in every cell, up to Monte Carlo error and ``accuracy``.
    ratio : float
        F: the mean square between cells over the one within.
    deviation : float
        Largest relative deviation of a cell from the fitted formula.
    n_cells : int
    confidence_level : float
        Level of the verdict.
    exponents : tuple of FreeExponent
    detectable : float
        Root mean square of the relative misfits that the test of fit finds with probability 0.8.
    tolerance : float
        The verdict is "undecided" if such a misfit is larger.
    n_replications : int
        Replications in the cell with the fewest.
    degrees : float
        Degrees of freedom of the variance within cells.
    failures : str
        Description of the failed replications.
    spread_is_known : bool, default=True
        False if there are too few replications to model the variance. Then a formula that fits is undecided.

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
    ratio: float
    deviation: float
    n_cells: int
    confidence_level: float
    exponents: tuple[FreeExponent, ...]
    detectable: float
    tolerance: float
    n_replications: int
    degrees: float
    failures: str = ""
    spread_is_known: bool = True

    @property
    def fits(self) -> bool:
        """Whether the formula may hold in every cell. Half of the error probability goes to this test."""
        return self.pvalue >= (1 - self.confidence_level) / 2

    @property
    def verdict(self) -> str:
        """ "reproduced" if the formula fits, and every stated constant is in its interval.

        "undecided" if it fits, but a misfit of the size of the tolerance might go unseen. The same if the interval of
        a constant that nothing states reaches 0: no cell shows that term.
        """
        pairs = list(zip(self.theory, self.intervals, strict=True))
        inside = all(stated is None or interval.low <= stated <= interval.high for stated, interval in pairs)
        if not self.fits or (self.spread_is_known and not inside):
            return NOT_REPRODUCED
        if not self.spread_is_known:
            return UNDECIDED
        shown = all(interval.low > 0 for stated, interval in pairs if stated is None)
        return REPRODUCED if shown and self.detectable <= self.tolerance else UNDECIDED

    def _records(self) -> Records:
        found: list[tuple[str, float, ConfidenceInterval, float | None]] = [
            *zip(self.terms, self.constants, self.intervals, self.theory, strict=True),
            *((one.name, one.estimate, one.interval, one.theory) for one in self.exponents),
        ]
        columns: dict[str, list[Any]] = {
            "estimate": [estimate for _, estimate, _, _ in found],
            "low": [interval.low for _, _, interval, _ in found],
            "high": [interval.high for _, _, interval, _ in found],
            "theory": [theory for *_, theory in found],
        }
        keys = ("n_cells", "pvalue", "ratio", "deviation", "detectable", "confidence_level", "verdict")
        return Records([name for name, *_ in found], columns, {key: getattr(self, key) for key in keys})

    def summary(self) -> Summary:
        """Return the free exponents and the constants as a table."""
        rows = [
            [
                one.name,
                "" if one.theory is None else f"{one.theory:g} ± {one.tolerance:g}",
                f"{one.estimate:.3f}",
                interval_words(one.interval),
                one.verdict,
            ]
            for one in self.exponents
        ]
        rows += [
            [f"constant of {name}", "" if stated is None else f"{stated:.4g}", f"{constant:.4g}", words, ""]
            for name, stated, constant, words in zip(
                self.terms, self.theory, self.constants, map(interval_words, self.intervals), strict=True
            )
        ]
        facts = [
            ("Cells", f"{self.n_cells}, {self.n_replications:,} replications or more in each{self.failures}"),
            ("Fit", f"F = {self.ratio:.3g}, p = {self.pvalue:.3g}, largest deviation {percent(self.deviation)}"),
            ("Power", f"finds misfits of {percent(self.detectable)} on average with probability 0.8"),
            ("Verdict", self.verdict),
        ]
        return Summary(
            "Constants of the formula", facts, ["quantity", "theory", "estimate", "interval", "verdict"], rows
        )


def percent(fraction: float) -> str:
    """Return a fraction in percent, to two digits if it is small, and whole if it is large."""
    return f"{float(f'{100 * fraction:.2g}'):g}%"


def fit_formula(
    results: StudyResults,
    terms: Mapping[str, Term],
    *,
    loss: str | None = None,
    constants: Mapping[str, float] | None = None,
    free: Mapping[str, str] | None = None,
    exponents: Mapping[str, float] | None = None,
    spread: Sequence[str] | None = None,
    accuracy: float = 0.0,
    tolerance: float = 0.1,
    confidence_level: float = 0.95,
) -> FormulaFit:
    """Fit the constants of ``risk = sum of constant x term`` to all cells, and free exponents.

    Parameters
    ----------
    results : StudyResults
    terms : mapping of str to callable
        Positive functions of a cell's parameters.
    loss : str, optional
    constants : mapping of str to float, optional
        Constants of the theory for some or all of the terms.
    free : mapping of str to str, optional
        Terms that are multiplied by a parameter to a free exponent: ``{"privacy": "d"}``, where the term of
        privacy leaves d out. At most one parameter for a term.
    exponents : mapping of str to float, optional
        The free exponents that the theory states, by term.
    spread : sequence of str, optional
        Parameters on which the relative variance of a loss depends, as a power. Default: d for squared errors,
        and otherwise none: one variance is pooled over all cells.
    accuracy : float, default=0
        Relative error that the formula is known to have, as a leading term has: it is added to the Monte
        Carlo errors.
    tolerance : float, default=0.1
        A free exponent is "reproduced" if its whole interval is this near to the theory. A formula is
        "undecided" if the test of fit would miss relative misfits of this size.
    confidence_level : float, default=0.95
        Level of the verdict; intervals of constants are widened so that half of its error covers them
        together. Each exponent has this level.

    Returns
    -------
    FormulaFit

    Notes
    -----
    Quasi-likelihood with one relative variance, from the replications within cells and with their degrees of
    freedom. The test of fit is F. If cells differ in more than one parameter, or the variance is modeled, Box's
    test must reject too. Intervals invert score tests. If p is below 0.05, they are multiplied by sqrt(F).

    Examples
    --------
    >>> from dpstats.means import ClippedMean
    >>> from dpstats.privacy import gaussian_sigma
    >>> from dpstats.simulation import Rademacher, Study, fit_formula
    >>> grid = {"n": [400, 2000, 8000], "d": [16]}
    >>> results = Study(Rademacher(), ClippedMean(clip=1.0, epsilon=1.0, delta=1e-5), grid, 200).run()
    >>> terms = {
    ...     "sampling": lambda cell: cell["d"] / cell["n"],
    ...     "privacy": lambda cell: (2 * cell["d"] * gaussian_sigma(1.0, 1e-5) / cell["n"]) ** 2,
    ... }
    >>> fit_formula(results, terms, constants={"sampling": 1.0, "privacy": 1.0}).verdict
    'reproduced'
    """
    level = check_real("confidence_level", confidence_level, above=0, below=1)
    check_real("tolerance", tolerance, above=0)
    check_real("accuracy", accuracy, at_least=0)
    chosen = results.check_loss(loss)
    check_terms("terms", terms)
    check_one_estimator(results, "fit_formula")
    usable = usable_cells(results, chosen)
    names = list(terms)
    stated, loose, claimed = dict(constants or {}), dict(free or {}), dict(exponents or {})
    for asked, given, known in (
        ("constants", stated, names),
        ("free", loose, names),
        ("exponents", claimed, list(loose)),
    ):
        if set(given) - set(known):
            raise refuse(asked, given=given, allowed=f"name terms ({', '.join(known) or 'none is free'})")
    if len(usable.cells) < len(names) + len(loose):
        raise refuse(
            "results",
            got=f"{len(usable.cells)}",
            allowed=f"have at least {len(names) + len(loose)} cells for fit_formula",
        )
    logs = [np.log(evaluate(usable, terms[name], name)) for name in names]
    powers = [log_parameter(usable, loose[name], "free") if name in loose else None for name in names]
    cells = cells_to_fit(usable, chosen, spread, accuracy)
    fit = _fit(logs, powers, [claimed.get(name, 0.0) for name in names if name in loose], cells)
    each = 1 - (1 - level) / 2 / len(names)
    intervals = []
    for i, name in enumerate(names):
        low, high = (math.exp(min(end, 700.0)) for end in score_interval(fit, i, each))
        intervals.append(ConfidenceInterval(low, high, level, f"constant of {name}", True))
    found = []
    for j, name in enumerate((name for name in names if name in loose), start=len(names)):
        low, high = score_interval(fit, j, level)
        found.append(
            FreeExponent(
                name,
                loose[name],
                float(fit.parameters[j]),
                ConfidenceInterval(low, high, level, f"exponent of {loose[name]} in {name}"),
                claimed.get(name),
                tolerance,
                fit.detectable(j, level),
                fit.spread_is_known,
            )
        )
    return FormulaFit(
        terms=tuple(names),
        constants=tuple(np.exp(fit.parameters[: len(names)]).tolist()),
        intervals=tuple(intervals),
        theory=tuple(None if name not in stated else float(stated[name]) for name in names),
        pvalue=fit.pvalue,
        ratio=fit.ratio,
        deviation=float(np.abs(fit.deviations).max()),
        n_cells=len(usable.cells),
        confidence_level=level,
        exponents=tuple(found),
        detectable=fit.detectable_misfit(1 - (1 - level) / 2),
        tolerance=float(tolerance),
        n_replications=int(cells.sizes.min()),
        degrees=fit.degrees,
        failures=failure_words(results, usable, chosen),
        spread_is_known=fit.spread_is_known,
    )


def check_terms(name: str, terms: object) -> None:
    """Refuse terms that are not a mapping of at least one name."""
    if not isinstance(terms, Mapping) or not terms or not all(isinstance(key, str) for key in terms):
        raise refuse(name, given=terms, allowed="a mapping of names to functions of a cell")


def _fit(logs: Sequence[Vector], powers: Sequence[Vector | None], exponents: Sequence[float], cells: Cells) -> CellFit:
    """Fit a sum of terms. Constants start where each term alone would explain the risk."""
    means, count = np.log(cells.means), len(logs)
    started = iter(exponents)
    whole = [log if power is None else log + next(started) * power for log, power in zip(logs, powers, strict=True)]
    alone = [float(np.median(means - log)) - math.log(count) for log in whole]
    # A sum can fit best in two ways: the other start is where no term is larger than a cell's risk.
    below = [float(np.min(means - log)) - math.log(count) for log in whole]
    model = sum_model(logs, powers)
    fits = [fit_cells(model, np.array([*heights, *exponents]), cells) for heights in (alone, below)]
    return min(fits, key=lambda fit: float(np.sum(fit.weights * fit.deviations**2)))


@dataclass(frozen=True, slots=True)
class FormulaComparison(Printed):
    """Rival formulas, each with the same nuisance terms.

    Attributes
    ----------
    fits : mapping of str to FormulaFit
        The claimed formula first.

    Examples
    --------
    >>> from dpstats.means import ClippedMean
    >>> from dpstats.simulation import Rademacher, Study, compare_formulas
    >>> grid = {"n": [50, 100, 200, 400], "d": [16], "epsilon": [0.1]}
    >>> loss = "released_squared_error"
    >>> results = Study(Rademacher(), ClippedMean(clip=1.0, delta=1e-5), grid, 50, loss=loss).run()
    >>> powers = {"n^-2": {"privacy": lambda cell: cell["n"] ** -2.0}, "1/n": {"privacy": lambda cell: 1 / cell["n"]}}
    >>> compare_formulas(results, powers).verdict
    'reproduced'
    """

    fits: Mapping[str, FormulaFit]

    @property
    def verdict(self) -> str:
        """ "reproduced" if the claimed formula fits and no rival does; "undecided" if several fit, or none.

        "not reproduced" if a rival fits, and the claimed formula does not.
        """
        claimed, *rivals = (fit.fits for fit in self.fits.values())
        if claimed:
            return UNDECIDED if any(rivals) else REPRODUCED
        return NOT_REPRODUCED if any(rivals) else UNDECIDED

    def _records(self) -> Records:
        keys = ("ratio", "pvalue", "deviation", "fits")
        columns = {key: [getattr(fit, key) for fit in self.fits.values()] for key in keys}
        return Records(list(self.fits), columns, {"verdict": self.verdict})

    def summary(self) -> Summary:
        """Return the fit of every formula as a table."""
        rows = [
            [
                name,
                f"{fit.ratio:.3g}",
                f"{fit.pvalue:.2g}",
                percent(fit.deviation),
                ", ".join(f"{term} {value:.3g}" for term, value in zip(fit.terms, fit.constants, strict=True)),
                "fits" if fit.fits else "rejected",
            ]
            for name, fit in self.fits.items()
        ]
        several = sum(fit.fits for fit in self.fits.values()) > 1
        notes = ["These cells do not identify the formula: several fit."] if several else []
        columns = ["formula", "F", "p", "largest deviation", "constants", "fit"]
        return Summary("Rival formulas", [("Verdict", self.verdict)], columns, rows, notes)


def compare_formulas(
    results: StudyResults,
    formulas: Mapping[str, Mapping[str, Term]],
    *,
    nuisance: Mapping[str, Term] | None = None,
    loss: str | None = None,
    spread: Sequence[str] | None = None,
    accuracy: float = 0.0,
    confidence_level: float = 0.95,
) -> FormulaComparison:
    """Fit rival formulas with the same nuisance terms to the same cells.

    A formula is better judged by its free exponents (``free`` of `fit_formula`); this is the second look.

    Parameters
    ----------
    results : StudyResults
    formulas : mapping of str to mapping of str to callable
        The terms of each formula, as in `fit_formula`. The first is the claimed one. Every rival needs as many
        terms: a formula with fewer constants would be rejected for having fewer.
    nuisance : mapping of str to callable, optional
        Terms that every formula has besides.
    loss, spread, accuracy, confidence_level
        As of `fit_formula`.

    Returns
    -------
    FormulaComparison

    Examples
    --------
    >>> from dpstats.means import ClippedMean
    >>> from dpstats.simulation import Rademacher, Study, compare_formulas
    >>> results = Study(Rademacher(), ClippedMean(clip=1.0), {"n": [100, 400, 1600], "d": [4]}, 50).run()
    >>> rates = {"1/n": {"all": lambda cell: 1 / cell["n"]}, "n^-2": {"all": lambda cell: cell["n"] ** -2.0}}
    >>> list(compare_formulas(results, rates).fits)
    ['1/n', 'n^-2']
    """
    if not isinstance(formulas, Mapping) or len(formulas) < 2:
        raise refuse("formulas", given=formulas, allowed="a mapping of two or more names to terms")
    shared = dict(nuisance or {})
    for name, terms in formulas.items():
        check_terms(f"formulas[{name!r}]", terms)
    claimed, *rivals = formulas.values()
    for terms in rivals:
        if len(terms) != len(claimed):
            raise refuse(
                "formulas",
                got=f"{len(claimed)} and {len(terms)}",
                allowed="have equally many terms",
                remedy="The interval of a constant in fit_formula shows whether a term is needed.",
            )
    fits = {
        name: fit_formula(
            results,
            {**terms, **{key: term for key, term in shared.items() if key not in terms}},
            loss=loss,
            spread=spread,
            accuracy=accuracy,
            confidence_level=confidence_level,
        )
        for name, terms in formulas.items()
    }
    return FormulaComparison(fits)
