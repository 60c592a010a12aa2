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
from dpstats.means.moments import SQUARES
from dpstats.mechanisms.unknown_bounds import wants_bounds

_MOST_ROWS = 2**31
_LEVERAGE = math.sqrt(2) / 1.2
"""Length of the longest row of uniform columns, over the length that the noise ratio of a regression assumes."""
_ALTERNATIVES = ("two-sided", "less", "greater")


class Assumptions(NamedTuple):
    """Assumptions about the population, as `power` takes them."""

    std: float | None
    baseline: float | None
    share: float | None
    r_squared: float
    overlap: float
    censored: float
    n_features: int
    column: int

    def rate(self, name: str, value: float | None) -> float:
        """Return a probability that is needed."""
        if value is None:
            raise refuse(name, given=None, allowed="a probability, in (0, 1)")
        return check_real(name, value, above=0, below=1)

    def spread(self, *rates: float) -> list[float]:
        """Return the standard deviation of each group: as declared, or of a yes/no column with these rates."""
        if self.std is not None:
            return [check_real("std", self.std, above=0)] * len(rates)
        if not all(0 < rate < 1 for rate in rates):
            remedy = "A yes/no column needs none if baseline and baseline + effect are in (0, 1)."
            raise refuse("std", given=None, allowed="the standard deviation of the column", remedy=remedy)
        return [math.sqrt(rate * (1 - rate)) for rate in rates]


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
        For regressions: R squared of the column on the other columns.
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
        If ``estimator`` is of another class, or an assumption is missing or outside its range.

    Notes
    -----
    **Method.** Errors are normal, with the sampling error of these assumptions and the noise of the plan. The power of
    `LogRankTest` is simulated. Other powers are approximate: in simulated fits, powers differed by up to 0.08, and were
    mostly smaller (``tests/simulation/test_power.py``). Plan with a few percent more rows.

    Examples
    --------
    >>> from dpstats.groups import GroupMeans
    >>> from dpstats.simulation import power, required_samples
    >>> means = GroupMeans(groups=["old", "new"], bounds=(80, 200), epsilon=1.0)
    >>> round(power(means, 1000, effect=4.0, std=15.0), 2)
    0.97
    >>> required_samples(means, effect=4.0, power=0.9, std=15.0)
    740
    """
    level = check_level("level", level)
    side = check_choice("alternative", alternative, list(_ALTERNATIVES))
    n = check_integer("n_samples", n_samples, at_least=2, at_most=_MOST_ROWS)
    effect = check_real("effect", effect)
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
    if wants_bounds(getattr(estimator, "bounds", None)):
        # The plan's noise is for bounds of -1 and 1 until the rows choose others.
        raise refuse("bounds", given=estimator.bounds, allowed="declared: the noise follows from them")
    for names, errors in _families():
        if type(estimator).__name__ in names:
            if errors is None:
                return _log_rank(estimator, n, effect, assumed, level)
            under_null, true = errors(estimator, n, effect, assumed)
            return _normal(effect, under_null, true, level, side)
    known = ", ".join(name for names, _ in _families() for name in names)
    raise refuse("estimator", got=type(estimator).__name__, allowed=f"one of {known}")


def required_samples(estimator: Any, effect: float, power: float = 0.8, **assumptions: Any) -> int:
    """Return the smallest number of rows, to 1%, at which a private test has a power.

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
        Number of rows of all groups together.

    Raises
    ------
    InvalidParameter
        If 2^31 rows do not suffice, or for the reasons of `power`.

    Examples
    --------
    >>> from dpstats.means import ClippedMean
    >>> from dpstats.simulation import required_samples
    >>> required_samples(ClippedMean(bounds=(-30, 30)), effect=2.0, std=10.0)  # paired differences
    256
    """
    wanted = check_real("power", power, above=0, below=1)

    def enough(n: int) -> bool:
        try:
            return _power(estimator, n, effect, **assumptions) >= wanted
        except InvalidParameter as error:
            if error.parameter == "n_samples":  # too few for any plan
                return False
            raise

    low, high = 1, 16
    while not enough(high):
        if high >= _MOST_ROWS:
            allowed = "larger: 2^31 rows do not reach this power"
            raise refuse("effect", given=effect, allowed=allowed)
        low, high = high, 2 * high
        high = min(high, _MOST_ROWS)
    while high - low > max(1, high // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


_power = power


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
    """

    n_samples: tuple[int, ...]
    power: Any
    effect: float
    level: float
    name: str = field(default="")

    def summary(self) -> Summary:
        """Return a table. It prints as text, and shows as HTML in a notebook."""
        facts = [("Estimator", self.name), ("Effect", f"{self.effect:g}"), ("Level", f"{self.level:g}")]
        rows = [(f"{n:,}", f"{value:.3f}") for n, value in zip(self.n_samples, self.power, strict=True)]
        return Summary("Power of a private test", facts, ["rows", "power"], rows)

    def _records(self) -> Records:
        facts = {"estimator": self.name, "effect": self.effect, "level": self.level}
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
    array([0.4, 0.7, 0.9])
    """
    if (
        isinstance(n_samples, str | bytes)
        or not isinstance(n_samples, Sequence | np.ndarray)
        or not len(n_samples)
    ):
        raise refuse("n_samples", given=n_samples, allowed="a sequence of numbers of rows")
    sizes = tuple(check_integer("n_samples", n, at_least=2, at_most=_MOST_ROWS) for n in n_samples)
    found = np.array([power(estimator, n, effect, **assumptions) for n in sizes])
    return PowerCurve(sizes, found, float(effect), assumptions.get("level", 0.05), type(estimator).__name__)


@draw.register
def draw_power(curve: PowerCurve, ax: Any = None, **style: Any) -> Any:
    """Draw a curve of power against the number of rows."""
    axis = axes_or_new(ax, figsize=(4.8, 3.2))
    axis.plot(curve.n_samples, curve.power, **{"marker": "o", "ms": 4, "color": ESTIMATE, **style})
    axis.axhline(0.8, color="0.5", lw=1, ls="--")
    axis.set_xscale("log")
    axis.set_ylim(0, 1.02)
    axis.set_xlabel("rows")
    axis.set_ylabel(f"power at effect {curve.effect:g}")
    axis.grid(alpha=0.25)
    return axis


# Errors of estimates, without an effect and with it

Errors = Callable[[Any, int, float, Assumptions], tuple[float, float]]


def _families() -> list[tuple[tuple[str, ...], Errors | None]]:
    """Return the classes that have a power, with their errors; None if the power is simulated."""
    return [
        (("GroupMeans",), _two_means),
        (("ClippedMean",), _one_mean),
        (("PrivateProportion",), _one_proportion),
        (("PrivateLinearRegression",), _linear),
        (("PrivateLogisticRegression",), _logistic),
        (("LogRankTest",), None),
    ]


def _normal(effect: float, null: float, true: float, level: float, side: str) -> float:
    """Return the power of a normal estimate with these standard errors, without an effect and with it."""
    if side == "less":
        return _normal(-effect, null, true, level, "greater")
    z = float(-ndtri(level / 2 if side == "two-sided" else level))
    found = float(ndtr((effect - z * null) / true))
    return found + float(ndtr((-effect - z * null) / true)) if side == "two-sided" else found


def _two_means(estimator: Any, n: int, effect: float, assumed: Assumptions) -> tuple[float, float]:
    plan = estimator.plan(n, assumed.n_features)
    if len(plan.groups) < 2:
        raise refuse("estimator", got="one group", allowed="GroupMeans of at least two groups")
    k = assumed.column
    half = float(np.broadcast_to(plan.half, (assumed.n_features,))[k])
    center = float(np.broadcast_to(plan.region.center, (assumed.n_features,))[k])
    first = center if assumed.baseline is None else assumed.baseline
    share = 1 / len(plan.groups) if assumed.share is None else assumed.share
    # Two groups are all rows; of more groups, the second is as large as the first.
    shares = (share, 1 - share if len(plan.groups) == 2 else share)
    noise, shown, variance = plan.totals_noise, 0.0, 0.0
    means = (first, first + effect)
    for mean, rows, std in zip(means, (n * shares[0], n * shares[1]), assumed.spread(*means), strict=True):
        m = min(abs(mean - center) / half, 1.0)
        off = (half * math.hypot(noise.total, m * noise.count) / rows) ** 2
        square = noise.square**2 + 4 * (m * noise.cross) ** 2 + (m**2 * noise.spread) ** 2
        # A test raises a variance by the standard deviation of its noise.
        raised = half**2 * math.sqrt(max(square + 2 * m**2 * noise.square_spread, 0.0)) / rows
        variance += std**2 / rows + off
        shown += min(std**2 + raised, half**2) / rows + off
    return math.sqrt(shown), math.sqrt(variance)


def _one_mean(estimator: Any, n: int, effect: float, assumed: Assumptions) -> tuple[float, float]:
    plan = estimator.plan(n, assumed.n_features)
    if assumed.std is None:
        raise refuse("std", given=None, allowed="the standard deviation, such as of paired differences")
    std, k = check_real("std", assumed.std, above=0), assumed.column
    noise, half = (
        float(np.broadcast_to(part, (assumed.n_features,))[k]) for part in (plan.mean_noise, plan.clip)
    )
    # A test raises a private variance by the standard deviation of its noise.
    squares = float(np.max(plan.noise(SQUARES).std)) if plan.estimates_std and plan.totals is None else 0.0
    shown = min(std**2 + squares, half**2) if squares else std**2
    return math.hypot(math.sqrt(shown / n), noise), math.hypot(std / math.sqrt(n), noise)


def _one_proportion(estimator: Any, n: int, effect: float, assumed: Assumptions) -> tuple[float, float]:
    plan = estimator.plan(n, 1)
    null = assumed.rate("baseline", assumed.baseline)
    true = assumed.rate("baseline + effect", null + effect)
    errors = [math.sqrt(plan.expected_error(math.sqrt(p * (1 - p)))) for p in (null, true)]
    # Counts are whole: half of one is lost.
    return errors[0] + 0.5 / (1.96 * n), errors[1]


def _linear(estimator: Any, n: int, effect: float, assumed: Assumptions) -> tuple[float, float]:
    if assumed.std is None:
        raise refuse("std", given=None, allowed="the standard deviation of the outcome")
    residual = check_real("std", assumed.std, above=0) * math.sqrt(1 - assumed.r_squared)
    return _coefficient(estimator, n, assumed, residual)


def _logistic(estimator: Any, n: int, effect: float, assumed: Assumptions) -> tuple[float, float]:
    rate = assumed.rate("baseline", assumed.baseline)
    return _coefficient(estimator, n, assumed, 1 / math.sqrt(rate * (1 - rate)))


def _coefficient(estimator: Any, n: int, assumed: Assumptions, residual: float) -> tuple[float, float]:
    """Return the error of a coefficient, from the residuals' standard deviation and the noise ratio of the plan."""
    plan = estimator.plan(n, assumed.n_features)
    if assumed.share is None:
        bounds = np.broadcast_to(np.asarray(estimator.x_bounds, dtype=np.float64), (assumed.n_features, 2))
        spread = float(np.ptp(bounds[assumed.column])) / math.sqrt(12)
        ratio = plan.noise_ratio * _LEVERAGE
    else:
        spread = math.sqrt(assumed.share * (1 - assumed.share))
        ratio = plan.noise_ratio_of_share(min(assumed.share, 1 - assumed.share))
    if plan.noise_only or not math.isfinite(ratio):
        remedy = "Raise epsilon, or leave columns out."
        raise refuse("n_samples", given=n, allowed="larger: noise may hide the coefficient", remedy=remedy)
    sampling = residual / (spread * math.sqrt(n * (1 - assumed.overlap)))
    error = sampling * math.hypot(1.0, ratio)
    return error, error


def _log_rank(estimator: Any, n: int, effect: float, assumed: Assumptions, level: float) -> float:
    options = {
        "survival": 0.5 if assumed.baseline is None else assumed.baseline,
        "censored": assumed.censored,
    }
    share = 0.5 if assumed.share is None else assumed.share
    return float(estimator.power(n, effect, share=share, level=level, **options))
