"""Measured means against stated values, and the sample size or distance at which power crosses a target."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import ndtri
from sklearn.base import clone

from dpstats.data.parameters import check_choice, check_integer, check_random_state, check_real
from dpstats.errors import DPStatsError, refuse
from dpstats.inference.reports import Printed, Records, draw
from dpstats.inference.results import ConfidenceInterval, Summary
from dpstats.parallel import run_blocks
from dpstats.simulation.cell_fits import Vector
from dpstats.simulation.table import (
    NOT_REPRODUCED,
    REPRODUCED,
    Parameters,
    StudyResults,
    Term,
    failure_words,
    interval_words,
    usable_cells,
)


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
            [_name(parameters), f"{measured:.5g}", interval_words(interval), f"{stated:.5g}", "yes" if agrees else "NO"]
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
        agrees = (relation == "at_least" or interval.low <= value) and (relation == "at_most" or interval.high >= value)
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
        low = float(stats.beta.ppf(tail, ones, n - ones + 1)) if ones else 0.0
        high = float(stats.beta.isf(tail, ones + 1, n - ones)) if ones < n else 1.0
        return ConfidenceInterval(low, high, level, "mean loss", True)
    error = values.std(ddof=1) / math.sqrt(n)
    return ConfidenceInterval.around(values.mean(), -ndtri(tail) * error, level, "mean loss", True)


Power = Callable[[float, np.random.Generator], Any]
"""``power(x, rng)``: whether one simulated test at x rejects, or an array of such outcomes."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CrossingPoint(Printed):
    """Where the power of a test reaches a target.

    Attributes
    ----------
    value : float
        Estimate; for `sample_complexity` a number of rows, rounded up.
    standard_error : float
        Standard error of the log of the estimate.
    interval : ConfidenceInterval
    target : float
    points, rejections, trials : ndarray
        Everything that was simulated.

    Examples
    --------
    >>> from scipy.special import ndtr
    >>> from dpstats.simulation import crossing_point
    >>> def power(x, rng):
    ...     return rng.random(10) < ndtr(x - 3)  # 1/2 at x = 3
    >>> found = crossing_point(power, 0.5, 20, target=0.5, random_state=1)
    >>> round(found.value), found.target, found.points.shape == found.trials.shape
    (3, 0.5, True)
    """

    value: float
    standard_error: float
    interval: ConfidenceInterval
    target: float
    points: NDArray[np.float64]
    rejections: NDArray[np.int64]
    trials: NDArray[np.int64]

    def plot(self, ax: Any = None, *, name: str = "n", **style: Any) -> Any:
        """Draw the simulated powers, with the target and the interval.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: the Axes of a new figure.
        name : str, default="n"
            Name of the parameter that the search changed.
        **style
            matplotlib's, of ``Axes.errorbar``.

        Returns
        -------
        matplotlib Axes
        """
        return draw(self, ax, name=name, **style)

    def _records(self) -> Records:
        order = np.argsort(self.points, kind="stable")
        points, hits, totals = self.points[order], self.rejections[order], self.trials[order]
        columns = {"at": points, "power": hits / totals, "rejections": hits, "trials": totals}
        return Records(
            [f"{x:.5g}" for x in points],
            {key: column.tolist() for key, column in columns.items()},
            {
                "value": self.value,
                "standard_error": self.standard_error,
                "low": self.interval.low,
                "high": self.interval.high,
                "target": self.target,
                "confidence_level": self.interval.confidence_level,
            },
        )

    def summary(self) -> Summary:
        """Return the curve that was simulated, as a table."""
        names, columns, _ = self._records()
        rows = [
            [name, f"{power:.3f}", str(total)]
            for name, power, total in zip(names, columns["power"], columns["trials"], strict=True)
        ]
        facts = [
            ("Power", f"{self.target:.4g} at {self.value:.5g}"),
            ("Interval", f"[{self.interval.low:.5g}, {self.interval.high:.5g}]"),
        ]
        return Summary("Crossing point", facts, ["at", "power", "tests"], rows)


def crossing_point(
    power: Power,
    low: float,
    high: float,
    *,
    target: float = 2 / 3,
    replications: int = 400,
    integer: bool = False,
    confidence_level: float = 0.95,
    random_state: Any = 0,
    n_jobs: int = 1,
) -> CrossingPoint:
    """Find where a growing power curve, known only through simulated tests, reaches a target.

    Parameters
    ----------
    power : callable
        ``power(x, rng)``: the outcome of one simulated test (a bool), or an array of independent outcomes.
    low, high : float
        Positive. The crossing must lie between them.
    target : float, default=2/3
    replications : int, default=400
        Tests at each of the five points of the final fit; bisection takes a quarter of that per point.
    integer : bool, default=False
        Whether x is a whole number.
    confidence_level : float, default=0.95
    random_state : int or Generator, default=0
    n_jobs : int, default=1

    Notes
    -----
    Bisection on the log scale finds the neighborhood: a noisy answer may send it to the wrong side, but not
    far. Then a probit parabola in log x is fitted to five new points on both sides of the target. It gives
    the crossing and its standard error (delta method).

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.special import ndtr
    >>> from dpstats.simulation import crossing_point
    >>> def power(x, rng):
    ...     return rng.random(10) < ndtr(x - 3)  # 1/2 at x = 3
    >>> found = crossing_point(power, 0.5, 20, target=0.5, random_state=1)
    >>> found.interval.low < 3 < found.interval.high
    True
    """
    low = check_real("low", low, above=0)
    high = check_real("high", high, above=low)
    target = check_real("target", target, above=0, below=1)
    level = check_real("confidence_level", confidence_level, above=0, below=1)
    replications = check_integer("replications", replications, at_least=20)
    rng = check_random_state(random_state) or np.random.default_rng()
    batch = int(_outcomes(power, float(high), rng)[1])  # how many outcomes a call gives
    seen: dict[float, NDArray[np.int64]] = {}

    def simulate(x: float, trials: int) -> NDArray[np.int64]:
        calls = -(-trials // batch)
        outcomes = run_blocks(_outcomes, [(power, x)] * calls, random_state=rng, n_jobs=n_jobs)
        seen[x] = seen.get(x, np.zeros(2, dtype=np.int64)) + np.sum(outcomes, axis=0)
        return seen[x]

    def place(log: float) -> float:
        x = min(max(math.exp(log), low), high)
        return float(round(x)) if integer else x

    def share(log: float) -> float:
        counts = simulate(place(log), max(20, replications // 4))
        return float(counts[0] / counts[1])

    left, right = math.log(low), math.log(high)
    for name, end, side in (("low", left, 1), ("high", right, -1)):
        p, trials = share(end), seen[place(end)][1]
        if side * (p - target) > 3 * math.sqrt(target * (1 - target) / trials):
            raise refuse(
                name,
                got=f"{place(end):g}, where the estimated power is {p:.2g}",
                allowed=f"on the other side of the target, {target:.3g}",
            )
    while right - left > math.log(1.15) and not (integer and math.exp(right) - math.exp(left) < 2):
        middle = (left + right) / 2
        left, right = (middle, right) if share(middle) < target else (left, middle)
    center = (left + right) / 2
    for step in (-0.1, 0.1):
        share(center + step)
    goal = float(ndtri(target))
    (intercept, slope), _ = _probit(seen, center, degree=1)
    # New points on both sides of the target, chosen before they are simulated: none is picked for its
    # outcome.
    center += float(np.clip((goal - intercept) / slope, -0.5, 0.5))
    steps = [float(np.clip(eta / slope, -0.5, 0.5)) for eta in (-0.75, -0.375, 0.0, 0.375, 0.75)]
    design = sorted({place(center + step) for step in steps})
    if len(design) == 1:  # neighboring whole numbers
        design = [design[0] - 1, design[0], design[0] + 1]
    before = {x: seen.get(x, np.zeros(2, dtype=np.int64)) for x in design}
    final = {x: simulate(x, replications) - before[x] for x in design}
    coefficients, covariance = _probit(final, center, degree=2 if len(design) > 3 else 1)
    log_value = _root(coefficients, goal, reach=0.3 + max(map(abs, steps)))
    powers = log_value ** np.arange(coefficients.size)
    slope = float(np.arange(1, coefficients.size) * coefficients[1:] @ powers[:-1])
    error = math.sqrt(float(powers @ covariance @ powers)) / slope
    half = error * float(-ndtri((1 - level) / 2))
    estimate = math.exp(center + log_value)
    interval = ConfidenceInterval(
        estimate * math.exp(-half), estimate * math.exp(half), level, "where the power reaches the target"
    )
    counts = np.array(list(seen.values()))
    value = float(math.ceil(estimate)) if integer else estimate
    return CrossingPoint(
        value=value,
        standard_error=error,
        interval=interval,
        target=target,
        points=np.array(list(seen)),
        rejections=counts[:, 0],
        trials=counts[:, 1],
    )


def _outcomes(power: Power, x: float, rng: np.random.Generator) -> NDArray[np.int64]:
    outcomes = np.atleast_1d(np.asarray(power(x, rng)))
    if not np.isin(outcomes, (0, 1)).all():
        raise refuse("power", allowed="return outcomes of tests: True or False, or an array of these")
    return np.array([outcomes.sum(), outcomes.size], dtype=np.int64)


def _root(coefficients: NDArray[np.float64], goal: float, reach: float) -> float:
    """Return the point nearest to 0 at which the polynomial rises through the goal."""
    shifted = coefficients - np.eye(coefficients.size)[0] * goal
    roots = np.roots(shifted[::-1])
    real = roots[np.abs(roots.imag) < 1e-12].real
    rising = [
        float(x)
        for x in real
        if abs(x) < reach
        and np.arange(1, coefficients.size) * coefficients[1:] @ x ** np.arange(coefficients.size - 1) > 0
    ]
    if not rising:
        raise DPStatsError("the power does not grow through the target between low and high: use more replications")
    return min(rising, key=abs)


def _probit(
    seen: dict[float, NDArray[np.int64]], center: float, degree: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Fit probit(power) = polynomial in log x - center, near the center: coefficients and covariance."""
    x = np.log(np.array(list(seen))) - center
    counts = np.array(list(seen.values()), dtype=np.float64)
    near = np.abs(x) < 0.8
    from statsmodels.genmod.families import Binomial
    from statsmodels.genmod.families.links import Probit
    from statsmodels.genmod.generalized_linear_model import GLM

    # Half a rejection and half an acceptance are added: no share is 0 or 1, and the fit always exists.
    outcomes = np.column_stack([counts[near, 0], counts[near, 1] - counts[near, 0]]) + 0.5
    design = np.vander(x[near], degree + 1, increasing=True)
    fit = GLM(outcomes, design, family=Binomial(link=Probit())).fit()
    if not fit.params[1] > 0:
        raise DPStatsError("the power must grow between low and high, got no crossing")
    return np.asarray(fit.params), np.asarray(fit.cov_params())


def sample_complexity(
    test: Any,
    *,
    sampler: Any = None,
    n_features: int = 1,
    target: float = 2 / 3,
    low: int = 4,
    high: int = 1_000_000,
    replications: int = 400,
    confidence_level: float = 0.95,
    random_state: Any = 0,
    n_jobs: int = 1,
    **parameters: Any,
) -> CrossingPoint:
    """Return the smallest number of rows at which a test has a power, with its uncertainty.

    Parameters
    ----------
    test : callable or test
        ``power(n, rng)``, the outcome of one simulated test or an array of outcomes; or a test with a
        scikit-learn shape and ``reject_``, together with ``sampler``.
    sampler : callable, optional
        ``sampler(n, d, rng, **parameters)``: rows of the alternative.
    n_features : int, default=1
    target : float, default=2/3
    low, high : int
        The search range.
    replications, confidence_level, random_state, n_jobs
        As of `crossing_point`.
    **parameters
        Of the sampler.

    Returns
    -------
    CrossingPoint

    Examples
    --------
    The sign test of a median, at distance 0.3: about ``(z_0.95 + z_2/3)^2/0.236^2`` = 78 rows.

    >>> import numpy as np
    >>> from dpstats.simulation import sample_complexity
    >>> def sign_test(n, rng):
    ...     positive = (rng.normal(0.3, 1.0, (50, int(n))) > 0).sum(axis=1)
    ...     return (positive - n / 2) / np.sqrt(n / 4) > 1.645
    >>> found = sample_complexity(sign_test, high=2000, random_state=0)
    >>> bool(65 < found.value < 95)
    True
    """
    low = check_integer("low", low, at_least=1)
    power = test
    if hasattr(test, "fit"):
        if sampler is None:
            raise refuse("sampler", allowed="given: the rows of the alternative, for a test to be run on")
        power = _FittedTest(test, sampler, check_integer("n_features", n_features, at_least=1), parameters)
    elif not callable(test):
        raise refuse("test", given=test, allowed="callable or have a method fit")
    return crossing_point(
        power,
        low,
        check_integer("high", high, at_least=low + 1),
        target=target,
        replications=replications,
        integer=True,
        confidence_level=confidence_level,
        random_state=random_state,
        n_jobs=n_jobs,
    )


@dataclass(frozen=True)
class _FittedTest:
    test: Any
    sampler: Any
    n_features: int
    parameters: dict[str, Any]

    def __call__(self, n: float, rng: np.random.Generator) -> bool:
        rows = self.sampler(int(n), self.n_features, rng, **self.parameters)
        return bool(clone(self.test).set_params(random_state=rng).fit(rows).reject_)
