"""Power of a private test at a planned size, the rows for a power, and the curve between them. No data are read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from dpstats.data.parameters import check_choice, check_integer, check_level, check_real
from dpstats.errors import InvalidParameter, refuse
from dpstats.inference.figures import ESTIMATE, axes_or_new
from dpstats.inference.reports import Printed, Records, draw
from dpstats.inference.results import Summary
from dpstats.mechanisms.unknown_bounds import wants_bounds
from dpstats.simulation.power_models import (
    FITS,
    PAIRS,
    RELEASES,
    Assumptions,
    column_bounds,
    group_plan,
    mean_power,
    proportion_power,
    regression_power,
    select_column,
    two_means_power,
)

_MOST_ROWS = 2**31
_LEVERAGE = math.sqrt(2) / 1.2
"""Length of the longest row of uniform columns, over the length that the noise ratio of a regression assumes."""
_ALTERNATIVES = ("two-sided", "less", "greater")
_ROUNDS = 8
"""Most corrections of a number of rows."""


def power(
    estimator: Any,
    n_samples: int,
    effect: float,
    *,
    level: float = 0.05,
    alternative: str = "two-sided",
    std: float | None = None,
    baseline: float | None = None,
    share: float | None = None,
    r_squared: float = 0.0,
    overlap: float = 0.0,
    censored: float = 0.0,
    n_features: int = 1,
    column: int = 0,
) -> float:
    """Return the probability that a private test finds an effect, at a planned number of rows.

    It reads the plan of the estimator and no data, and costs nothing. The test is of the hypothesis of no effect.

    Parameters
    ----------
    estimator : GroupMeans, ClippedMean, PrivateProportion, a linear or logistic regression, or LogRankTest
        With its epsilon and bounds; it is not changed. It decides the effect:

        * `GroupMeans`: the difference of the means, second group less first group. For proportions, the
          column is 0 or 1 with bounds (0, 1).
        * `ClippedMean`: the mean, such as of paired differences.
        * `PrivateProportion`: the proportion less ``baseline``, the proportion of the hypothesis.
        * regressions: the coefficient, in the units of the outcome, or as a log odds ratio.
        * `LogRankTest` of two groups: the hazard ratio of the second group over the first.
    n_samples : int
        Number of rows of all groups together.
    effect : float
        The true effect.
    level : float, default=0.05
        Level of the test.
    alternative : {"two-sided", "less", "greater"}, default="two-sided"
        Survival is two-sided.
    std : float, optional
        Standard deviation within each group, of paired differences, or of the outcome of a linear regression. Default:
        the standard deviation of a yes/no column with these proportions.
    baseline : float, optional
        Mean or proportion of the first group, by default the center of the bounds. For one proportion, its value under
        the hypothesis. For a logistic regression, the rate of the outcome. For survival, the survival of the first
        group at the horizon, by default 0.5.
    share : float, optional
        Share of the first group (default: 0.5). For regressions the fraction of ones of a yes/no column; by default
        the column is uniform within its bounds.
    r_squared : float, default=0.0
        For linear regressions: fraction of the variance of the outcome that the model explains.
    overlap : float, default=0.0
        For regressions of several columns: R squared of the column on the other columns.
    censored : float, default=0.0
        For survival: share of the subjects who would be censored before the horizon, at a constant rate.
    n_features : int, default=1
        Number of columns of the fit.
    column : int, default=0
        Position of the column.

    Returns
    -------
    float

    Raises
    ------
    InvalidParameter
        If ``estimator`` is of another class, has options that powers do not cover, such as private bounds, or an
        assumption is missing or outside its range.

    Notes
    -----
    **Method.** The power of `PrivateProportion` is exact without missing rows. Other powers are simulated, with a fixed
    seed and a standard error of about 0.015. ``tests/simulation/test_power.py`` compares powers with fits. Regressions
    take 4 to 10 seconds. If they have more than 16,384 rows, the simulation has fewer, with as much noise and effect
    relative to sampling errors.

    **Model.** Rows are normal and clipped to the bounds, a yes/no column, exponential times, or uniform within the
    bounds of their columns. Rows with other shapes, such as skewed ones, have other powers.

    Examples
    --------
    >>> from dpstats.groups import GroupMeans
    >>> from dpstats.simulation import power, required_samples
    >>> means = GroupMeans(groups=["old", "new"], bounds=(80, 200), epsilon=1.0)
    >>> round(power(means, 1000, effect=4.0, std=15.0), 2)
    0.92
    >>> required_samples(means, effect=4.0, power=0.9, std=15.0)
    959
    """
    given = locals()
    n = given.pop("n_samples")
    return _question(**given).power(check_integer("n_samples", n, at_least=2, at_most=_MOST_ROWS))


def required_samples(estimator: Any, effect: float, power: float = 0.8, **assumptions: Any) -> int:
    """Return a number of rows at which a private test has a power, at most 2% more than the simulation needs.

    Parameters
    ----------
    estimator, effect
        The same as in `power`.
    power : float, default=0.8
    **assumptions
        The options of `power`: ``level``, ``alternative``, ``std``, ``baseline`` and so on.

    Returns
    -------
    int
        Number of rows of all groups together. `power` at this number is at least ``power``. Its simulation error is
        about 3% of the rows.

    Raises
    ------
    InvalidParameter
        If 2^31 rows do not suffice, or for the reasons of `power`.

    Examples
    --------
    >>> from dpstats.means import ClippedMean
    >>> from dpstats.simulation import required_samples
    >>> 250 < required_samples(ClippedMean(bounds=(-30, 30)), effect=2.0, std=10.0) < 300  # paired differences
    True
    """
    question, wanted = (_question(estimator, effect, **assumptions), check_real("power", power, above=0, below=1))
    if question.family.name == "LogRankTest":
        return int(estimator.required_samples(question.effect, wanted, **question.survival))
    critical = -float(ndtri(question.level / 2 if question.side == "two-sided" else question.level))
    goal = float(ndtri(wanted)) + critical
    low, high = 0, _MOST_ROWS + 1  # too few rows, and enough
    n = question.guess(wanted)
    for _ in range(_ROUNDS):
        n = min(max(n, low + 1, 2), high - 1, _MOST_ROWS)
        if n <= low or (low and high - low <= 0.02 * high):
            break
        found = question.power(n)
        low, high = (low, n) if found >= wanted else (n, high)
        # The distance from the critical value is proportional to the root of n, or to n where noise is most of it.
        reached = max(float(ndtri(min(max(found, 1e-9), 1 - 1e-9))) + critical, goal / 4, 1e-3)
        step = (goal / reached) ** 2
        n = math.ceil(n * step * (1.005 if found < wanted else 1))
        if found >= wanted and step > 0.985:
            break
    while high > _MOST_ROWS:
        if low >= _MOST_ROWS:
            raise refuse("effect", given=effect, allowed="larger: 2^31 rows do not reach this power")
        n = min(math.ceil(1.02 * low) + 1, _MOST_ROWS)
        low, high = (low, n) if question.power(n) >= wanted else (n, high)
    return high


@dataclass(frozen=True, repr=False, eq=False)
class PowerCurve(Printed):
    """Powers of a private test at several numbers of rows.

    Attributes
    ----------
    n_samples : tuple of int
    power : ndarray
        Power at each of them.
    effect : float
    level : float
    name : str
        Class of the estimator.
    method : str
        How powers were found: exactly, or by simulation with a standard error of about 0.015.

    Examples
    --------
    >>> from dpstats.simulation import power_curve
    >>> from dpstats.tables import PrivateProportion
    >>> power_curve(PrivateProportion(epsilon=1.0), [100, 400], effect=0.1, baseline=0.5).method
    'exact, or simulated with two counts'
    """

    n_samples: tuple[int, ...]
    power: Any
    effect: float
    level: float
    name: str = field(default="")
    method: str = field(default="")

    def summary(self) -> Summary:
        """Return a table. It prints as text, and shows as HTML in a notebook."""
        facts = [("Estimator", self.name), ("Effect", f"{self.effect:g}"), ("Level", f"{self.level:g}")]
        facts.append(("Powers", self.method))
        rows = [(f"{n:,}", f"{value:.3f}") for n, value in zip(self.n_samples, self.power, strict=True)]
        return Summary("Power of a private test", facts, ["rows", "power"], rows)

    def _records(self) -> Records:
        facts = {"estimator": self.name, "effect": self.effect, "level": self.level, "method": self.method}
        columns = {"n_samples": list(self.n_samples), "power": self.power.tolist()}
        return Records([str(n) for n in self.n_samples], columns, facts)

    def plot(self, ax: Any = None, **style: Any) -> Any:
        """Draw the curve, and return the Axes."""
        return draw(self, ax, **style)


def power_curve(estimator: Any, n_samples: Sequence[int], effect: float, **assumptions: Any) -> PowerCurve:
    """Return the powers of a private test at several numbers of rows, as a table and a curve.

    Parameters
    ----------
    estimator, effect
        The same as in `power`.
    n_samples : sequence of int
    **assumptions
        The options of `power`.

    Returns
    -------
    PowerCurve

    Examples
    --------
    >>> from dpstats.means import ClippedMean
    >>> from dpstats.simulation import power_curve
    >>> power_curve(ClippedMean(bounds=(-30, 30)), [100, 200, 400], effect=2.0, std=10.0).power.round(1)
    array([0.2, 0.6, 1. ])
    """
    if isinstance(n_samples, str | bytes) or not isinstance(n_samples, Sequence | np.ndarray) or not len(n_samples):
        raise refuse("n_samples", given=n_samples, allowed="a sequence of numbers of rows")
    sizes = tuple(check_integer("n_samples", n, at_least=2, at_most=_MOST_ROWS, of=n_samples) for n in n_samples)
    question = _question(estimator, effect, **assumptions)
    found = np.array([question.power(n) for n in sizes])
    family = question.family
    return PowerCurve(sizes, found, question.effect, question.level, family.name, family.method)


@draw.register
def draw_power(curve: PowerCurve, ax: Any = None, **style: Any) -> Any:
    """Draw a curve of power against the number of rows."""
    axis = axes_or_new(ax, figsize=(4.8, 3.2))
    axis.plot(curve.n_samples, curve.power, **{"marker": "o", "ms": 4, "color": ESTIMATE, **style})
    axis.axhline(0.8, color="0.5", lw=1, ls="--")
    axis.set_xscale("log")
    # At most five given numbers of rows: the labels of a short logarithmic scale would overlap.
    shown = curve.n_samples[:: -(-len(curve.n_samples) // 5)]
    axis.set_xticks(shown, [f"{n:,}" for n in shown])
    axis.tick_params(axis="x", which="minor", labelbottom=False)
    axis.set_ylim(0, 1.02)
    axis.set_xlabel("rows")
    axis.set_ylabel(f"power at effect {curve.effect:g}")
    axis.grid(alpha=0.25)
    return axis


# Questions, and first guesses of their answers

Errors = Callable[[Any, int, float, Assumptions], tuple[float, float]]
Power = Callable[[Any, int, float, Assumptions, float, str], float]


class _Family(NamedTuple):
    """A family of tests: its power, and standard errors without the effect and with it, for a first guess of n."""

    name: str
    power: Power
    errors: Errors | None
    method: str


@dataclass(frozen=True)
class _Question:
    """An effect that a test should find, with everything but the number of rows."""

    estimator: Any
    family: _Family
    effect: float
    assumed: Assumptions
    level: float
    side: str

    def power(self, n: int) -> float:
        """Return the power at a number of rows."""
        return self.family.power(self.estimator, n, self.effect, self.assumed, self.level, self.side)

    @property
    def survival(self) -> dict[str, Any]:
        """The assumptions as options of `LogRankTest.power`."""
        return _survival_options(self.assumed, self.level)

    def guess(self, wanted: float) -> int:
        """Return the number of rows by normal errors."""
        assert self.family.errors is not None

        def enough(n: int) -> bool:
            try:
                errors = self.family.errors(self.estimator, n, self.effect, self.assumed)  # type: ignore[misc]
            except InvalidParameter as error:
                if error.parameter == "n_samples":  # too few for any plan
                    return False
                raise
            return _normal(self.effect, errors[0], errors[1], self.level, self.side) >= wanted

        low, high = 1, 16
        while not enough(high):
            if high >= _MOST_ROWS:
                raise refuse("effect", given=self.effect, allowed="larger: 2^31 rows do not reach this power")
            low, high = high, min(2 * high, _MOST_ROWS)
        while high - low > max(1, high // 100):
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high


def _question(
    estimator: Any,
    effect: Any,
    *,
    level: Any = 0.05,
    alternative: Any = "two-sided",
    std: Any = None,
    baseline: Any = None,
    share: Any = None,
    r_squared: Any = 0.0,
    overlap: Any = 0.0,
    censored: Any = 0.0,
    n_features: Any = 1,
    column: Any = 0,
) -> _Question:
    """Return the question, or refuse a parameter of `power`."""
    families = _families()
    family = next((one for one in families if one.name == type(estimator).__name__), None)
    if family is None:
        known = ", ".join(one.name for one in families)
        raise refuse("estimator", got=type(estimator).__name__, allowed=f"one of {known}")
    for name in ("bounds", "x_bounds", "y_bounds"):
        if wants_bounds(getattr(estimator, name, None), name):
            raise refuse(name, got="private bounds", allowed="public bounds for a power")
    assumed = Assumptions(
        std,
        None if baseline is None else check_real("baseline", baseline),
        None if share is None else check_real("share", share, above=0, below=1),
        check_real("r_squared", r_squared, at_least=0, below=1),
        check_real("overlap", overlap, at_least=0, below=1),
        check_real("censored", censored, at_least=0, below=1),
        check_integer("n_features", n_features, at_least=1),
        check_integer("column", column, at_least=0, at_most=n_features - 1),
    )
    side = check_choice("alternative", alternative, list(_ALTERNATIVES))
    if family.name == "LogRankTest" and side != "two-sided":
        raise refuse("alternative", given=side, allowed="'two-sided' for survival")
    return _Question(estimator, family, check_real("effect", effect), assumed, check_level("level", level), side)


def _families() -> list[_Family]:
    """Return the classes that have a power."""
    fits = f"simulated: {FITS:,} fits, smoothed"
    return [
        _Family("GroupMeans", two_means_power, _two_means, f"simulated: {PAIRS:,} releases, smoothed"),
        _Family("ClippedMean", mean_power, _one_mean, f"simulated: {RELEASES:,} releases, smoothed"),
        _Family("PrivateProportion", proportion_power, _one_proportion, "exact, or simulated with two counts"),
        _Family("PrivateLinearRegression", regression_power, _linear, fits),
        _Family("PrivateLogisticRegression", regression_power, _logistic, fits),
        _Family("LogRankTest", _log_rank, None, "simulated: 1,000 releases"),
    ]


def _normal(effect: float, null: float, true: float, level: float, side: str) -> float:
    """Return the power of a normal estimate with these standard errors, without an effect and with it."""
    if side == "less":
        return _normal(-effect, null, true, level, "greater")
    z = float(-ndtri(level / 2 if side == "two-sided" else level))
    found = float(ndtr((effect - z * null) / true))
    return found + float(ndtr((-effect - z * null) / true)) if side == "two-sided" else found


def _two_means(estimator: Any, n: int, effect: float, assumed: Assumptions) -> tuple[float, float]:
    plan, share = group_plan(estimator, n, assumed)
    half, center = select_column(assumed, plan.half, plan.region.center)
    first = center if assumed.baseline is None else assumed.baseline
    means = (first, first + effect)
    shares = (share, 1 - share if len(plan.groups) == 2 else share)
    variance = 0.0
    for mean, part, std in zip(means, shares, assumed.spread(*means), strict=True):
        off = math.hypot(plan.totals_noise.total, (mean - center) / half * plan.totals_noise.count)
        variance += std**2 / (n * part) + (half * off / (n * part)) ** 2
    return math.sqrt(variance), math.sqrt(variance)


def _one_mean(estimator: Any, n: int, effect: float, assumed: Assumptions) -> tuple[float, float]:
    plan = estimator.plan(n, assumed.n_features)
    (noise,) = select_column(assumed, plan.mean_noise)
    error = math.hypot(assumed.deviation(", such as of paired differences") / math.sqrt(n), noise)
    return error, error


def _one_proportion(estimator: Any, n: int, effect: float, assumed: Assumptions) -> tuple[float, float]:
    plan, (null, true) = estimator.plan(n, 1), assumed.rates(effect)
    first, second = (math.sqrt(plan.expected_error(math.sqrt(p * (1 - p)))) for p in (null, true))
    return first, second


def _linear(estimator: Any, n: int, effect: float, assumed: Assumptions) -> tuple[float, float]:
    residual = assumed.deviation(" of the outcome") * math.sqrt(1 - assumed.r_squared)
    return _coefficient(estimator, n, assumed, residual)


def _logistic(estimator: Any, n: int, effect: float, assumed: Assumptions) -> tuple[float, float]:
    rate = assumed.rate("baseline", assumed.baseline)
    return _coefficient(estimator, n, assumed, 1 / math.sqrt(rate * (1 - rate)))


def _coefficient(estimator: Any, n: int, assumed: Assumptions, residual: float) -> tuple[float, float]:
    """Return the error of a coefficient, from the residuals' standard deviation and the noise ratio of the plan."""
    plan = estimator.plan(n, assumed.n_features)
    if assumed.share is None:
        bounds = np.broadcast_to(column_bounds(estimator), (assumed.n_features, 2))
        spread = float(np.ptp(bounds[assumed.column])) / math.sqrt(12)
        ratio = plan.noise_ratio * _LEVERAGE
    else:
        spread = math.sqrt(assumed.share * (1 - assumed.share))
        ratio = plan.noise_ratio_of_share(min(assumed.share, 1 - assumed.share))
    if plan.noise_only or not math.isfinite(ratio):
        raise refuse("n_samples", given=n, allowed="larger: noise may hide the coefficient")
    sampling = residual / (spread * math.sqrt(n * (1 - assumed.overlap)))
    error = sampling * math.hypot(1.0, ratio)
    return error, error


def _survival_options(assumed: Assumptions, level: float) -> dict[str, Any]:
    """Return assumptions as options of `LogRankTest.power`."""
    return {
        "survival": 0.5 if assumed.baseline is None else assumed.baseline,
        "censored": assumed.censored,
        "share": 0.5 if assumed.share is None else assumed.share,
        "level": level,
    }


def _log_rank(estimator: Any, n: int, effect: float, assumed: Assumptions, level: float, side: str) -> float:
    return float(estimator.power(n, effect, **_survival_options(assumed, level)))
