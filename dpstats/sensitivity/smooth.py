"""Sensitivities of statistics: by trying all datasets, smoothed, and in closed form; public levels of their noise.

Proof: docs/proofs/smooth-sensitivity.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from scipy.special import stdtrit

from dpstats.data.parameters import check_choice, check_integer, check_privacy_parameters, check_real
from dpstats.data.values import as_int64, exact_numbers
from dpstats.errors import InvalidParameter, refuse, refuse_data
from dpstats.privacy.guarantee import Neighbors, quotient_up
from dpstats.privacy.stages import SMOOTH_LAWS, Smooth, Stage
from dpstats.release.noise import check_scale

Dataset = tuple[Any, ...]
Function = Callable[[Dataset], Any]

_NORMS = {"l1": 1.0, "l2": 2.0, "linf": np.inf}


def global_sensitivity(function: Function, domain: Iterable[Any], n_rows: int, *, norm: str = "l1") -> float:
    """Return the largest change of a function by replacing one row, over all datasets of ``n_rows`` rows.

    Parameters
    ----------
    function : callable
        Of a tuple of rows; returns a number, or numbers of a fixed shape.
    domain : iterable
        All values that a row can have: finite, and hashable.
    n_rows : int
        Number of rows, at least 1. All ``len(domain) ** n_rows`` datasets are tried.
    norm : {"l1", "l2", "linf"}, default="l1"
        Norm of the distance of two results.

    Returns
    -------
    float

    Examples
    --------
    >>> from dpstats.sensitivity import global_sensitivity
    >>> global_sensitivity(sum, range(7), 3)
    6.0
    """
    values, power = _values(domain), _power(norm)
    n = check_integer("n_rows", n_rows, at_least=1)
    results = _Remembered(function)
    return max(_moved(results, data, values, power) for data in itertools.product(values, repeat=n))


def local_sensitivity(
    function: Function, dataset: Sequence[Any], domain: Iterable[Any], *, distance: int = 0, norm: str = "l1"
) -> float:
    """Return the largest change of a function by replacing one row, over data that differ from these in few rows.

    Parameters
    ----------
    function, domain, norm
        As for `global_sensitivity`.
    dataset : sequence
        The rows. If they are private, the result is private.
    distance : int, default=0
        Number of rows in which data may differ from these: 0 gives the local sensitivity, k the A(k) of
        smooth sensitivity.

    Returns
    -------
    float

    Notes
    -----
    Nissim, Raskhodnikova and Smith (2007), definitions 1.4 and 3.1.

    Examples
    --------
    >>> from statistics import median_low
    >>> from dpstats.sensitivity import local_sensitivity
    >>> [local_sensitivity(median_low, (1, 2, 4), range(7), distance=k) for k in range(3)]
    [2.0, 4.0, 5.0]
    """
    values, power, data = _values(domain), _power(norm), tuple(dataset)
    if not data or not set(data) <= set(values):
        raise refuse("dataset", allowed="one row or more, each a value of the domain")
    k = check_integer("distance", distance, at_least=0)
    results = _Remembered(function)
    return max(_moved(results, near, values, power) for near in _within(data, values, min(k, len(data))))


class _Remembered:
    """A function whose results are kept: a dataset has many neighbors."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self._known: dict[Dataset, NDArray[np.float64]] = {}

    def __call__(self, data: Dataset) -> NDArray[np.float64]:
        if data not in self._known:
            self._known[data] = np.ravel(np.asarray(self._function(data), dtype=np.float64))
        return self._known[data]


def _values(domain: Iterable[Any]) -> list[Any]:
    values = list(dict.fromkeys(domain))
    if not values:
        raise refuse("domain", allowed="have at least one value")
    return values


def _power(norm: str) -> float:
    return _NORMS[check_choice("norm", norm, list(_NORMS))]


def _moved(function: _Remembered, data: Dataset, values: list[Any], power: float) -> float:
    here = function(data)
    return max(
        float(np.linalg.norm(function((*data[:i], value, *data[i + 1 :])) - here, power))
        for i in range(len(data))
        for value in values
    )


def _within(data: Dataset, values: list[Any], k: int) -> Iterator[Dataset]:
    """Yield all datasets that differ in at most k rows."""
    for places in itertools.combinations(range(len(data)), k):
        for new in itertools.product(values, repeat=k):
            changed = dict(zip(places, new, strict=True))
            yield tuple(changed.get(i, row) for i, row in enumerate(data))


def smooth_sensitivity(
    local: Callable[[int], float], *, beta: float, furthest: int | None = None, growth: int | None = None
) -> float:
    """Return the beta-smooth sensitivity, max over k of e^(-beta k) A(k): for checks and for teaching.

    It is as private as the data. A release uses `smooth_level` of integers instead, whose guarantee does not
    depend on floating point.

    Parameters
    ----------
    local : callable
        k -> A(k), how far replacing one row can move the statistic at most, of data that differ in k rows;
        never falling.
    beta : float
        Greater than 0.
    furthest : int, optional
        A distance beyond which A(k) is constant, such as the number of rows.
    growth : int, optional
        In place of it, a number such that A(k) is a polynomial of at most this degree with no negative
        coefficient. Beyond ``growth/beta`` it grows less than e^(beta k) does. One of the two is needed.

    Returns
    -------
    float
        In the units of the statistic.

    Notes
    -----
    Nissim, Raskhodnikova and Smith (2007), definitions 2.1 and 2.2. The result is a smooth bound if ``local``
    bounds these A(k) from above, and its value at distance k is at most a neighbor's value at k + 1.

    Examples
    --------
    The median of 1, 2, 4 among 0, ..., 6, by trying all datasets, and a polynomial:

    >>> from statistics import median_low
    >>> from dpstats.sensitivity import local_sensitivity, smooth_sensitivity
    >>> def local(k):
    ...     return local_sensitivity(median_low, (1, 2, 4), range(7), distance=k)
    >>> round(smooth_sensitivity(local, beta=0.3, furthest=3), 9)
    2.963272883
    >>> round(smooth_sensitivity(lambda k: (5 + k) * (3 + k), beta=0.5, growth=2), 6)
    15.0
    """
    beta = check_real("beta", beta, above=0)
    if (furthest is None) == (growth is None):
        raise InvalidParameter("furthest or growth must be given, one of them")
    if furthest is not None:
        last = check_integer("furthest", furthest, at_least=0)
    else:
        last = math.ceil(check_integer("growth", growth, at_least=0) / beta)
    return max(math.exp(-beta * k) * local(k) for k in range(last + 1))


def smooth_level(reach: Callable[[int], int], limits: NDArray[np.integer[Any]]) -> int:
    """Return max over k of (the least level whose limit is at least A(k)) - k, or 0: whole numbers throughout.

    ``reach`` is k -> A(k), never falling, and ``limits`` rise, the last being at least as large as any A(k).
    If A(k) at some data is at most A(k + 1) at any neighbor, the level changes by at most one between
    neighbors, for any limits.
    """

    def level(k: int) -> int:
        return int(np.searchsorted(limits, reach(k), side="left"))

    best = level(0)
    # Between two distances no level less its distance is above the level of the further less the nearer.
    parts = [(1, limits.size - 1)]
    while parts:
        first, last = parts.pop()
        last = min(last, limits.size - 1 - best)
        if first > last or level(last) - first <= best:
            continue
        middle = (first + last) // 2
        best = max(best, level(middle) - middle)
        parts += [(first, middle - 1), (middle + 1, last)]
    return best


def median_smooth_sensitivity(x: Any, *, lower: float, upper: float, beta: float) -> float:
    """Return the beta-smooth sensitivity of the median: for checks and for teaching, not for release.

    S = max over k of e^(-beta k) A(k), where A(k) is how far one more row can move the median of data that
    differ in k rows. It is at least what one row moves the median by, and falls or rises by a factor of at
    most e^beta where a row is replaced. It is a function of all rows: noise may have its scale, but no scale,
    plan or interval may show it.

    Parameters
    ----------
    x : array-like of shape (n,)
        Private numbers; those beyond the bounds count as the nearer one. For an even n the median is the
        lower one.
    lower, upper : float
        Public bounds.
    beta : float
        Greater than 0.

    Returns
    -------
    float
        In the units of x.

    Notes
    -----
    A(k) is the largest of x_(j) - x_(i) over i <= m <= j with j - i = k + 1, where m is the median's place
    (Nissim, Raskhodnikova and Smith 2007, proposition 3.4). The bounds stand before the first row and after
    the last. The best j increases with i, so bisection finds all of them in n log n steps.

    Examples
    --------
    >>> from dpstats.sensitivity import median_smooth_sensitivity
    >>> round(median_smooth_sensitivity([1, 2, 4], lower=0, upper=6, beta=0.3), 9)
    2.963272883
    """
    return quantile_smooth_sensitivity(x, 0.5, lower=lower, upper=upper, beta=beta)


def quantile_smooth_sensitivity(x: Any, q: float, *, lower: float, upper: float, beta: float) -> float:
    """Return the beta-smooth sensitivity of a quantile, the ceil(q n)-th row in order.

    Parameters
    ----------
    x, lower, upper, beta
        As for `median_smooth_sensitivity`.
    q : float
        In [0, 1]; 0 is the minimum.

    Examples
    --------
    >>> from dpstats.sensitivity import quantile_smooth_sensitivity
    >>> round(quantile_smooth_sensitivity([1, 2, 4, 7], 0.25, lower=0, upper=10, beta=0.5), 6)
    2.207277
    """
    q = check_real("q", q, at_least=0, at_most=1)
    ordered, lower, upper, beta = _checked(x, lower, upper, beta)
    place = max(1, math.ceil(q * ordered.size))
    return _window(ordered, place, place, lower, upper, beta)


def minimum_smooth_sensitivity(x: Any, *, lower: float, upper: float, beta: float) -> float:
    """Return the beta-smooth sensitivity of the minimum; parameters as for `median_smooth_sensitivity`.

    Examples
    --------
    >>> from dpstats.sensitivity import minimum_smooth_sensitivity
    >>> round(minimum_smooth_sensitivity([1, 2, 4], lower=0, upper=6, beta=1.0), 6)
    1.103638
    """
    return quantile_smooth_sensitivity(x, 0.0, lower=lower, upper=upper, beta=beta)


def maximum_smooth_sensitivity(x: Any, *, lower: float, upper: float, beta: float) -> float:
    """Return the beta-smooth sensitivity of the maximum; parameters as for `median_smooth_sensitivity`.

    Examples
    --------
    >>> from dpstats.sensitivity import maximum_smooth_sensitivity
    >>> maximum_smooth_sensitivity([1, 2, 4], lower=0, upper=6, beta=1.0)
    2.0
    """
    return quantile_smooth_sensitivity(x, 1.0, lower=lower, upper=upper, beta=beta)


def trimmed_mean_smooth_sensitivity(x: Any, trim: int, *, lower: float, upper: float, beta: float) -> float:
    """Return the beta-smooth sensitivity of the mean without the ``trim`` smallest and the ``trim`` largest rows.

    Parameters
    ----------
    x, lower, upper, beta
        As for `median_smooth_sensitivity`.
    trim : int
        At least 0, and less than half of the number of rows.

    Notes
    -----
    This is the median's A(k) with a window instead of the median. It is the largest x_(j) - x_(i) over i <=
    trim + 1, j >= n - trim and j - i = n - 2 trim + k, divided by the number of remaining rows.

    Examples
    --------
    >>> from dpstats.sensitivity import trimmed_mean_smooth_sensitivity
    >>> round(trimmed_mean_smooth_sensitivity([1, 2, 4, 7, 11], 1, lower=0, upper=16, beta=0.3), 6)
    3.457152
    """
    ordered, lower, upper, beta = _checked(x, lower, upper, beta)
    trim = check_integer("trim", trim, at_least=0)
    left = ordered.size - 2 * trim
    if left < 1:
        raise refuse("trim", given=trim, allowed=f"less than half of the number of rows ({ordered.size})")
    return _window(ordered, trim + 1, ordered.size - trim, lower, upper, beta) / left


def _checked(x: Any, lower: float, upper: float, beta: float) -> tuple[NDArray[np.float64], float, float, float]:
    """Return the rows in order, within the bounds, and the parameters."""
    lower, upper = check_real("lower", lower), check_real("upper", upper)
    beta = check_real("beta", beta, above=0)
    if not lower < upper:
        raise refuse("lower", got=f"{lower:g} and {upper:g}", allowed="less than upper")
    rows = exact_numbers("x", x)
    if rows.ndim != 1 or rows.size == 0:
        raise refuse_data("x", allowed="a 1-d sequence of at least one number")
    rows = rows.astype(np.float64)
    if np.isnan(rows).any():
        raise refuse_data("x", got="at least one NaN", allowed="hold numbers")
    return np.sort(np.clip(rows, lower, upper)), lower, upper, beta


def _window(ordered: NDArray[np.float64], first: int, last: int, lower: float, upper: float, beta: float) -> float:
    """Return the largest of (x_(j) - x_(i)) e^(-beta k) over i <= first, j >= last, k = j - i - (last - first + 1)."""
    # Further out than one bound on each side there is nothing more to gain.
    low = np.concatenate([[lower], ordered[:first]])  # places 0, ..., first
    high = np.concatenate([ordered[last - 1 :], [upper]])  # places last, ..., n + 1
    best = 0.0
    # From which to which i, and between which j the best of them are.
    parts = [(0, first, 0, high.size - 1)]
    while parts:
        start, end, left, right = parts.pop()
        i = (start + end) // 2
        nearest = max(left, 1) if i == first else left
        j = np.arange(nearest, right + 1)
        if j.size == 0:
            best_j = right
        else:
            values = (high[j] - low[i]) * np.exp(-beta * (first + j - i - 1))
            best_j = nearest + int(np.argmax(values))
            best = max(best, float(values.max()))
        if start < i:
            parts.append((start, i - 1, left, best_j))
        if i < end:
            parts.append((i + 1, end, min(best_j, high.size - 1), right))
    return best


def window_reach(places: NDArray[np.integer[Any]], steps: int, first: int, last: int) -> Callable[[int], int]:
    """Return k -> how far one row moves the sum of the rows from the first to the last place, of data k rows away.

    ``places`` are sorted whole numbers among 0, ..., ``steps``; the two places are counted from 1, and are
    the same for a single order statistic. The result is an integer.
    """
    n = places.size
    places = places if n else np.array([steps])  # of no rows only the ends are looked at

    def reach(k: int) -> int:
        t = np.arange(k + 2)
        high, low = last + t, first + t - k - 1
        ends = np.where(high > n, steps, places[np.clip(high - 1, 0, n - 1)])
        starts = np.where(low < 1, 0, places[np.clip(low - 1, 0, n - 1)])
        return int((as_int64(ends) - as_int64(starts)).max())

    return reach


def median_reach(places: NDArray[np.integer[Any]], steps: int) -> Callable[[int], int]:
    """Return k -> A(k) for the lower median of sorted whole numbers among 0, ..., ``steps``, in whole numbers."""
    m = (places.size + 1) // 2
    return window_reach(places, steps, m, m)


# Public noise levels that change by at most one between neighbors: stages for smooth sensitivities.


LEVEL = "level of the noise"
LEVEL_SHARE = {"laplace": 0.2, "cauchy": 0.4, "student": 0.4}
"""Part of epsilon that the level is released for, where there is an interval. It makes the interval about the shortest.
"""
_STEADY = 0.5
"""Part of the best ratio of levels that is taken where the level is released. An interval is many levels up.
"""
_LEVEL_TAIL = 0.2
"""Part of the error probability of an interval that is for the level."""

_LARGEST_BETA = 1.6
"""Largest logarithm of the ratio of neighboring levels.

For dense rows, a sensitivity is proportional to 1/beta, and the next level is (e^beta - 1)/beta times as
large on average. 1.6 minimizes the product. It applies to epsilon above 7, where beta has almost no effect on
the budget fraction.
"""
_LARGEST_EPSILON = 1e9
_MOST_LEVELS = 200_000


@lru_cache(maxsize=64)
def smooth_stage(
    name: str,
    epsilon: float,
    delta: float,
    *,
    spacing: float,
    least: float,
    furthest: float,
    size: int = 1,
    noise: str = "laplace",
    steady: bool = False,
    neighbors: Neighbors = Neighbors.REPLACE_ONE,
) -> Smooth:
    """Return the stage that releases integers with noise proportional to their sensitivity near the data.

    Of epsilon a part is for where the integers are, and the rest for the scale of the noise: half, for
    Laplace's.

    Parameters
    ----------
    name : str
    epsilon, delta : float
        Its cost; delta is 0 except for Laplace noise.
    spacing : float
        The length of a step, in the units of the release.
    least : float
        The smallest scale, in steps: at least 8 except for Laplace noise.
    furthest : float
        The largest sensitivity that there can be, in steps and in l1.
    size : int, default=1
        Number of integers.
    noise : {"laplace", "cauchy", "student"}
        Student's has three degrees of freedom.
    steady : bool, default=False
        Whether the level is released too. Levels are then closer, and the noise is larger.
    neighbors : Neighbors
    """
    if epsilon > _LARGEST_EPSILON:
        raise refuse(
            "epsilon", given=epsilon, allowed=f"at most {_LARGEST_EPSILON:g} for noise by the smooth sensitivity"
        )
    share, far, ratio = _parts(epsilon, delta, size, noise, steady)
    highest = furthest / share * (1 + 1e-12)
    if ratio <= 1 + 2.0**-40 or math.log(max(1.0, highest / least)) > _MOST_LEVELS * math.log(ratio):
        raise refuse("epsilon", given=epsilon, allowed="larger for noise by the smooth sensitivity")
    levels = smooth_levels(least, highest, ratio)
    check_scale(levels[-1])
    return Smooth(name, spacing, levels, share, far, size=size, noise=noise, neighbors=neighbors)


class SmoothNoise(NamedTuple):
    """How smooth a sensitivity must be, and how much noise it asks for.

    Attributes
    ----------
    beta : float
        Argument of `smooth_sensitivity`, which returns S.
    scale : float
        Noise is S times this times a draw of the standard law: Laplace's, Cauchy's, or Student's of 3 degrees
        of freedom.

    Examples
    --------
    >>> from dpstats.sensitivity import median_smooth_sensitivity, smooth_noise
    >>> noise = smooth_noise(1.0, 1e-6, noise="laplace")
    >>> S = median_smooth_sensitivity([1.0, 2.0, 2.5, 3.0, 7.0] * 20, lower=0.0, upper=10.0, beta=noise.beta)
    >>> S * noise.scale > 0  # the scale: private, as S is
    True
    """

    beta: float
    scale: float


def smooth_noise(epsilon: float, delta: float = 0.0, *, noise: str = "student", size: int = 1) -> SmoothNoise:
    """Return the noise for a smooth sensitivity, for planning and for teaching.

    Adding such noise in floating point is not a release: `dpstats.quantiles.PrivateMedian` and
    `dpstats.sql.PrivateSQL` draw it on integers, with S among public levels.

    Parameters
    ----------
    epsilon : float
        Greater than 0.
    delta : float, default=0.0
        Above 0, and at most 1/2, for Laplace noise; 0 for the others, which are pure.
    noise : {"student", "cauchy", "laplace"}, default="student"
    size : int, default=1
        How many numbers, whose sensitivity is in l1.

    Examples
    --------
    The median of 1, 2, 4 among 0, ..., 6:

    >>> from dpstats.sensitivity import median_smooth_sensitivity, smooth_noise
    >>> beta, scale = smooth_noise(1.0)
    >>> round(scale * median_smooth_sensitivity([1, 2, 4], lower=0, upper=6, beta=beta), 3)
    5.917
    >>> beta, scale = smooth_noise(1.0, 1e-6, noise="laplace")
    >>> round(scale * median_smooth_sensitivity([1, 2, 4], lower=0, upper=6, beta=beta), 3)
    10.84
    """
    epsilon, delta = check_privacy_parameters(epsilon, delta)
    check_choice("noise", noise, list(SMOOTH_LAWS))
    size = check_integer("size", size, at_least=1)
    if (delta > 0) != (noise == "laplace") or delta > 0.5:
        raise refuse(
            "delta",
            got=f"{delta:g} for {noise}",
            allowed="above 0 and at most 0.5 for Laplace noise, and 0 for other noise",
        )
    share, _, ratio = _parts(epsilon, delta, size, noise, steady=False)
    return SmoothNoise(math.log(ratio), 1 / share / math.sqrt(max(SMOOTH_LAWS[noise], 1)))


def _parts(epsilon: float, delta: float, size: int, noise: str, steady: bool) -> tuple[float, float, float]:
    """Return alpha and beta of a scale, for sliding and dilation, and the ratio of neighboring scales."""
    if noise == "laplace":
        share = far = epsilon / 2
        # A little less than the ratio that gives delta: the loss is in the tenth digit.
        return share, far, 1 + far / _exponent(delta, size) * (1 - 1e-10)
    share = epsilon * (1 - 1e-9)
    power = (SMOOTH_LAWS[noise] + 1) // 2
    scales = size * (power - 1) + (size - 1) * power
    # The largest share * beta with scales * beta + power sqrt(share^2 + beta^2) = epsilon.
    beta = 2 * share / (3 * scales + math.sqrt(scales**2 + 8 * power**2)) * (_STEADY if steady else 1.0)
    # Any smaller beta meets the equation too, with another share.
    beta = min(beta, _LARGEST_BETA)
    return math.sqrt(((share - scales * beta) / power) ** 2 - beta**2), 0.0, math.exp(beta)


def level_stage(epsilon: float, neighbors: Neighbors = Neighbors.REPLACE_ONE) -> Stage:
    """Return the stage that releases the level of the noise, which a row moves by one at most."""
    return Stage(LEVEL, "laplace", 1, 1.0, 1, check_scale(quotient_up(1, epsilon)), neighbors=neighbors)


def half_width(stage: Smooth, level: float, level_scale: float, confidence_level: float, numbers: int = 1) -> float:
    """Return a bound on the error of a released integer, in steps, with probability ``confidence_level``.

    Parameters
    ----------
    stage : Smooth
        Stage of the integers.
    level : float
        The level as it was released, with noise of ``level_scale``.
    confidence_level : float
        Level for one integer, or for ``numbers`` integers together.
    """
    missed = 1 - confidence_level
    decay = math.exp(-1 / level_scale)
    # P(noise < -k) = a^(k + 1)/(1 + a): the level is at most the released value plus k.
    k = _least(_LEVEL_TAIL * missed * (1 + decay), level_scale)
    upper = stage.levels[int(min(max(level + k, 0), len(stage.levels) - 1))]
    return noise_width(stage.noise, upper, (1 - _LEVEL_TAIL) * missed / numbers)


def noise_width(law: str, scale: float, tail: float) -> float:
    """Return a whole number that noise of a scale exceeds in size with probability ``tail`` at most."""
    if law == "laplace":
        # P(|noise| > k) = 2 a^(k + 1)/(1 + a).
        return _least(tail * (1 + math.exp(-1 / scale)) / 2, scale)
    degrees = SMOOTH_LAWS[law]
    # On the integers a tail is below the one on the line: docs/proofs/smooth-sensitivity.md.
    return math.ceil(scale / math.sqrt(degrees) * float(-stdtrit(degrees, tail / 2)) * (1 + 1e-9))


def _least(tail: float, scale: float) -> int:
    """Return the least k >= 0 with e^(-(k + 1)/scale) at most ``tail``."""
    return max(0, math.ceil(-math.log(tail) * scale * (1 + 1e-12)) - 1)


def _exponent(delta: float, size: int) -> float:
    """Return the number of scales that the l1 norm of Laplace numbers exceeds with probability at most delta."""
    if size == 1:
        return math.log(2 / delta)
    # Chernoff's bound, (y/m)^m e^(m - y).
    high = size + 2 * math.log(1 / delta) + 2 * math.sqrt(size * math.log(1 / delta)) + 1
    return float(
        optimize.brentq(lambda y: size * math.log(y / size) + size - y - math.log(delta), size, high) * (1 + 1e-12)
    )


def smooth_levels(lowest: float, highest: float, ratio: float) -> tuple[float, ...]:
    """Return rising floats from ``lowest`` to ``highest`` or above, each at most ``ratio`` times the one before."""
    if not ratio > 1 + 2.0**-40:
        raise refuse("ratio", given=ratio, allowed="above 1")
    found = [lowest]
    while found[-1] < highest:
        # A float below the product, for any rounding.
        found.append(math.nextafter(found[-1] * ratio, 0.0))
    return tuple(found)
