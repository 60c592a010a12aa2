"""Rates: exponents and constants fitted to measured risks, beside what the theory says they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares
from scipy.special import ndtri
from scipy.stats import beta as beta_law
from scipy.stats import chi2

from dpstats.data.parameters import check_choice, check_real
from dpstats.errors import InvalidParameter
from dpstats.results import ConfidenceInterval, Summary, significant
from dpstats.simulation.table import Parameters, StudyResults

Term = Callable[[Parameters], float]
"""A term of a formula, without its constant, as a function of a cell's parameters."""

Vector = NDArray[np.float64]

REPRODUCED = "reproduced"
FINITE_SIZE = "reproduced at finite size"
UNDECIDED = "undecided"
NOT_REPRODUCED = "not reproduced"


def reproduced(verdict: str) -> bool:
    """Whether a verdict is one of the two good ones."""
    return verdict in (REPRODUCED, FINITE_SIZE)


@dataclass(frozen=True, slots=True)
class FormulaFit:
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
        Of the verdict.
    """

    terms: tuple[str, ...]
    constants: tuple[float, ...]
    intervals: tuple[ConfidenceInterval, ...]
    theory: tuple[float | None, ...]
    pvalue: float
    deviation: float
    n_cells: int
    confidence_level: float

    @property
    def verdict(self) -> str:
        """ "reproduced" if the formula fits and every stated constant is in its interval.

        "undecided" if it fits, but the interval of a constant that nothing states reaches 0: no cell shows that term.
        Half of the error probability goes to the fit, and half to the constants together.
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

    def summary(self) -> Summary:
        """Return the constants as a table."""
        rows = [
            [name, "" if stated is None else f"{stated:.4g}", f"{constant:.4g}", _words(interval)]
            for name, stated, constant, interval in zip(
                self.terms, self.theory, self.constants, self.intervals, strict=True
            )
        ]
        facts = [
            ("Cells", str(self.n_cells)),
            ("Fit", f"p = {self.pvalue:.3g}, largest deviation {100 * self.deviation:.1f}%"),
            ("Verdict", self.verdict),
        ]
        return Summary("Constants of the formula", facts, ["term", "theory", "constant", "interval"], rows)

    def __str__(self) -> str:
        return str(self.summary())


@dataclass(frozen=True, slots=True)
class RateFit:
    """An exponent, estimated.

    Attributes
    ----------
    parameter : str
    slope : float
    interval : ConfidenceInterval
    theory : float or None
        The exponent of the theory.
    prediction : float or None
        What the whole formula predicts for these very cells: the slope at finite size.
    regime : str
        In words, which cells were used.
    n_cells : int
    pvalue : float
        Of the hypothesis that the points lie on a line, but for Monte Carlo error.
    tolerance : float or None
        Half-width above which an interval proves nothing.
    formula : FormulaFit or None
        The whole formula, fitted to all cells.

    See Also
    --------
    fit_rate
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

    @property
    def half_width(self) -> float:
        """Half the width of the interval."""
        return float(self.interval.high - self.interval.low) / 2

    @property
    def verdict(self) -> str:
        """What became of the theory.

        * "reproduced": its exponent is in the interval, which is narrow enough;
        * "reproduced at finite size": it is not, or there is none, but the slope that the whole formula
          predicts for these cells is (logarithms, or a smaller term that has not died out);
        * "undecided": the interval is wider than the tolerance, or there is nothing to compare with;
        * "not reproduced": neither is.
        """
        too_wide = self.tolerance is not None and self.half_width > self.tolerance
        if self.theory is None and self.prediction is None:
            return UNDECIDED
        if self.theory is not None and self.interval.low <= self.theory <= self.interval.high:
            return UNDECIDED if too_wide else REPRODUCED
        if self.prediction is not None and self.interval.low <= self.prediction <= self.interval.high:
            return UNDECIDED if too_wide else FINITE_SIZE
        return NOT_REPRODUCED

    def summary(self) -> Summary:
        """Return the exponent as a table."""
        row = [
            self.parameter,
            "" if self.theory is None else f"{self.theory:g}",
            "" if self.prediction is None else f"{self.prediction:.3f}",
            f"{self.slope:.3f}",
            _words(self.interval),
            self.verdict,
        ]
        columns = ["exponent of", "theory", "predicted here", "estimate", "interval", "verdict"]
        facts = [("Regime", self.regime), ("Cells", str(self.n_cells)), ("Line", f"p = {self.pvalue:.3g}")]
        return Summary("Rate", facts, columns, [row])

    def __str__(self) -> str:
        return str(self.summary())


def _words(interval: ConfidenceInterval) -> str:
    half = float(interval.high - interval.low) / 2
    return f"[{significant(float(interval.low), half)}, {significant(float(interval.high), half)}]"


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
        Relative error of the formula that is no news, added to the Monte Carlo error.
    confidence_level : float, default=0.95

    Returns
    -------
    RateFit

    Notes
    -----
    Weighted least squares (statsmodels), the weights known: the variance of a log mean is the squared
    relative Monte Carlo error. The interval is normal.

    Examples
    --------
    >>> from dpstats.means import ClippedMean
    >>> from dpstats.simulation import Rademacher, Study, fit_rate
    >>> grid = {"n": [50, 100, 200, 400, 800], "d": [16], "epsilon": [0.1]}
    >>> results = Study(Rademacher(), ClippedMean(clip=1.0, delta=1e-5), grid, 200).run()
    >>> rate = fit_rate(results, "n", theory=-2, tolerance=0.1)
    >>> round(rate.slope, 1), rate.verdict
    (-2.0, 'reproduced')
    """
    check_real("share", share, at_least=0, below=1)
    level = check_real("confidence_level", confidence_level, above=0, below=1)
    chosen = results.check_loss(loss)
    usable = _usable(results, chosen)
    formula = whole = None
    if terms is not None:
        formula = fit_formula(
            usable, terms, loss=chosen, constants=constants, accuracy=accuracy, confidence_level=level
        )
        known = constants is not None and set(constants) == set(terms)
        factors = (
            constants if known and constants else dict(zip(formula.terms, formula.constants, strict=True))
        )
        whole = {name: factors[name] * _evaluate(usable, function) for name, function in terms.items()}
    regime = "all cells"
    keep = np.ones(len(usable.cells), dtype=bool)
    if term is not None:
        if whole is None or term not in whole:
            raise InvalidParameter(f"term must be one of terms, got {term!r}")
        keep = whole[term] > share * sum(whole.values())
        regime = f"{term} above {100 * share:g}% of the formula"
    keep &= _varied(usable, parameter, keep)
    if np.count_nonzero(keep) < 3:
        raise InvalidParameter(
            f"fit_rate needs at least 3 cells with different {parameter} in the regime ({regime}), "
            f"got {np.count_nonzero(keep)}"
        )
    inside = StudyResults(
        usable.name, tuple(np.array(usable.cells, dtype=object)[keep]), usable.losses, usable.facts
    )
    x = _log_parameter(inside, parameter)
    means, errors = _log_means(inside, chosen, accuracy)
    design = _design(inside, parameter, x)
    slope, error, pvalue = _weighted_line(design, means, errors)
    predicted: float | None = None
    if prediction is not None:
        predicted = _weighted_line(design, np.log(_evaluate(inside, prediction)), errors)[0]
    elif whole is not None:
        predicted = _weighted_line(design, np.log(sum(whole.values()))[keep], errors)[0]
    half = error * float(-ndtri((1 - level) / 2))
    interval = ConfidenceInterval.around(slope, half, level, f"exponent of {parameter}")
    return RateFit(
        parameter, slope, interval, theory, predicted, regime, int(keep.sum()), pvalue, tolerance, formula
    )


def _weighted_line(design: Vector, response: Vector, errors: Vector) -> tuple[float, float, float]:
    """Return the slope of the first column, its standard error and the p-value of the residuals."""
    from statsmodels.regression.linear_model import WLS

    # "fixed scale": the weights are the inverse variances themselves, not only proportional to them.
    fit = WLS(response, design, weights=errors**-2.0).fit(cov_type="fixed scale", use_t=False)
    residual = float(np.sum((np.asarray(fit.resid) / errors) ** 2))
    degrees = design.shape[0] - design.shape[1]
    pvalue = float(chi2.sf(residual, degrees)) if degrees > 0 else 1.0
    return float(fit.params[0]), float(fit.bse[0]), pvalue


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
        What the theory states for some or all of the terms.
    accuracy : float, default=0
        Relative error of the formula itself that is no news, as of a leading term: it is added to the Monte
        Carlo errors.
    confidence_level : float, default=0.95
        Of the verdict; intervals of constants are widened so that half of its error covers them together.

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
    usable = _usable(results, chosen)
    names = list(terms)
    stated = dict(constants or {})
    unknown = sorted(set(stated) - set(names))
    if unknown:
        raise InvalidParameter(f"constants must be of terms ({', '.join(names)}), got {', '.join(unknown)}")
    if len(usable.cells) < len(names):
        raise InvalidParameter(f"fit_formula needs at least {len(names)} cells, got {len(usable.cells)}")
    basis = np.array([_evaluate(usable, terms[name]) for name in names])
    means, errors = _log_means(usable, chosen, accuracy)

    def residuals(logs: Vector) -> Vector:
        return (np.log(np.exp(logs) @ basis) - means) / errors

    def jacobian(logs: Vector) -> Vector:
        parts = np.exp(logs)[:, None] * basis
        return (parts / parts.sum(axis=0) / errors).T

    # Constants are positive: their logs are fitted, from what each term would need by itself.
    alone = np.array([np.median(means - np.log(row)) for row in basis]) - math.log(len(names))
    fit = least_squares(residuals, alone, jac=jacobian, bounds=(alone - 40, alone + 40), x_scale=1.0)
    fitted = np.exp(fit.x)
    # Normal in the constants themselves, not in their logs: a term that no cell shows has an interval from 0.
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
        tuple(names),
        tuple(float(value) for value in fitted),
        intervals,
        tuple(None if name not in stated else float(stated[name]) for name in names),
        float(chi2.sf(2 * fit.cost, degrees)) if degrees > 0 else 1.0,
        deviation,
        len(usable.cells),
        level,
    )


@dataclass(frozen=True, slots=True)
class Check:
    """Measured means against stated values, cell by cell.

    Attributes
    ----------
    relation : str
        "equal", "at_most" or "at_least".
    lines : tuple of (parameters, measured, ConfidenceInterval, stated, bool)
        The last says whether the interval agrees with what is stated.
    verdict : str
        "reproduced" if every cell agrees; intervals hold for all cells together.
    """

    relation: str
    lines: tuple[tuple[Parameters, float, ConfidenceInterval, float, bool], ...]
    confidence_level: float

    @property
    def verdict(self) -> str:
        """ "reproduced" if all agree."""
        return REPRODUCED if all(line[-1] for line in self.lines) else NOT_REPRODUCED

    def summary(self) -> Summary:
        """Return one row per cell."""
        rows = [
            [
                ", ".join(f"{key}={value}" for key, value in parameters.items()),
                f"{measured:.5g}",
                _words(interval),
                f"{stated:.5g}",
                "yes" if agrees else "NO",
            ]
            for parameters, measured, interval, stated, agrees in self.lines
        ]
        words = {"equal": "stated", "at_most": "at most", "at_least": "at least"}[self.relation]
        return Summary(
            "Check", [("Verdict", self.verdict)], ["cell", "measured", "interval", words, "agrees"], rows
        )

    def __str__(self) -> str:
        return str(self.summary())


def compare(
    results: StudyResults,
    stated: Term | float,
    *,
    relation: str = "equal",
    loss: str | None = None,
    confidence_level: float = 0.95,
) -> Check:
    """Compare the mean loss of every cell with what is stated for it: a level, a coverage, a bound.

    Parameters
    ----------
    results : StudyResults
    stated : float or callable of a cell's parameters
    relation : {"equal", "at_most", "at_least"}, default="equal"
        A bound fails only where it is outside the interval: a bound that is met by far agrees.
    loss : str, optional
    confidence_level : float, default=0.95
        For all cells together. Intervals are Clopper and Pearson's for losses of 0 and 1, else normal.

    Examples
    --------
    >>> from dpstats.means import ClippedMean
    >>> from dpstats.simulation import Gaussian, Study, compare
    >>> estimator = ClippedMean(clip=5.0, std=1.0)
    >>> results = Study(Gaussian(), estimator, {"n": [100, 1000], "d": [1]}, 300, loss="coverage", seed=1).run()
    >>> compare(results, 0.95).verdict
    'reproduced'
    """
    check_choice("relation", relation, ["equal", "at_most", "at_least"])
    level = check_real("confidence_level", confidence_level, above=0, below=1)
    chosen = results.check_loss(loss)
    usable = _usable(results, chosen, positive=False)
    tail = (1 - level) / 2 / len(usable.cells)
    lines = []
    for cell in usable.cells:
        value = float(stated(cell.parameters)) if callable(stated) else float(stated)
        interval = _mean_interval(cell.losses[chosen], tail, level)
        agrees = (relation == "at_least" or interval.low <= value) and (
            relation == "at_most" or interval.high >= value
        )
        lines.append((cell.parameters, cell.mean(chosen), interval, value, bool(agrees)))
    return Check(relation, tuple(lines), level)


def _mean_interval(values: Vector, tail: float, level: float) -> ConfidenceInterval:
    n = values.size
    if np.isin(values, (0.0, 1.0)).all():
        ones = int(values.sum())
        low = float(beta_law.ppf(tail, ones, n - ones + 1)) if ones else 0.0
        high = float(beta_law.isf(tail, ones + 1, n - ones)) if ones < n else 1.0
        return ConfidenceInterval(low, high, level, "mean loss", True)
    error = values.std(ddof=1) / math.sqrt(n)
    return ConfidenceInterval.around(values.mean(), -ndtri(tail) * error, level, "mean loss", True)


def _usable(results: StudyResults, loss: str, positive: bool = True) -> StudyResults:
    """Return the results without cells that failed; at least one must be left."""
    cells = tuple(
        cell
        for cell in results.cells
        if not cell.failures and cell.losses[loss].size > 1 and (not positive or cell.mean(loss) > 0)
    )
    if not cells:
        raise InvalidParameter("results must have a cell without failures and with at least two replications")
    return StudyResults(results.name, cells, results.losses, results.facts, results.seconds)


def _log_means(results: StudyResults, loss: str, accuracy: float) -> tuple[Vector, Vector]:
    mean, error = results.mean(loss), results.standard_error(loss)
    # A loss without spread is known to rounding.
    return np.log(mean), np.sqrt(np.maximum(error / mean, 1e-9) ** 2 + accuracy**2)


def _evaluate(results: StudyResults, function: Term) -> Vector:
    values = np.array([float(function(cell.parameters)) for cell in results.cells])
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise InvalidParameter("every term must be a positive number in every cell")
    return values


def _log_parameter(results: StudyResults, parameter: str) -> Vector:
    values = results.parameter(parameter).astype(np.float64)
    if not (values > 0).all():
        raise InvalidParameter(f"parameter {parameter!r} must be positive in every cell")
    return np.log(values)


def _groups(results: StudyResults, parameter: str) -> list[str]:
    """Return what else each cell is: cells are compared only within the same."""
    return [
        repr(sorted((key, repr(value)) for key, value in cell.parameters.items() if key != parameter))
        for cell in results.cells
    ]


def _varied(results: StudyResults, parameter: str, keep: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the cells in whose group the parameter takes at least two values."""
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


def slopes_between(x: Any, y: Any) -> Vector:
    """Return the local slopes of log y on log x between neighbouring points."""
    return np.asarray(
        np.diff(np.log(np.asarray(y, dtype=np.float64))) / np.diff(np.log(np.asarray(x, float)))
    )
