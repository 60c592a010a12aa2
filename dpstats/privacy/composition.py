"""The composition theorems: the total cost of several releases, in closed form."""

from __future__ import annotations

import decimal
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from scipy.special import gammaln, logsumexp

from dpstats.data.parameters import check_integer, check_real
from dpstats.errors import refuse, show
from dpstats.privacy.guarantee import (
    TINY,
    Neighbors,
    PrivacyGuarantee,
    check_cost,
    common_neighbors,
    common_unit,
    sum_up,
    two_product,
    two_sum,
    up,
)

_LARGEST_EPSILON = 1e100
_LARGEST_COUNT = 10**12
_LARGEST_COPIES = 10**10  # largest k of optimal composition; its time and memory grow with the root of k

# Sums of rounded terms in closed forms are raised by this, which is more than their rounding errors.
_ROUNDING = 1e-14


def list_guarantees(guarantees: Any) -> list[PrivacyGuarantee]:
    """Return guarantees as a list, or raise an error for anything else."""
    items = list(guarantees) if isinstance(guarantees, Iterable) else [guarantees]
    wrong = [type(item).__name__ for item in items if not isinstance(item, PrivacyGuarantee)]
    if wrong or not isinstance(guarantees, Iterable):
        got = show(guarantees) + (f" with {wrong[0]}" if wrong and isinstance(guarantees, Iterable) else "")
        raise refuse("guarantees", got=got, allowed="an iterable of PrivacyGuarantee")
    return items


def _total(epsilon: float, delta: float, items: Sequence[PrivacyGuarantee]) -> PrivacyGuarantee:
    simulated = any(item.simulated for item in items)
    return PrivacyGuarantee(epsilon, min(1.0, delta), common_neighbors(items), simulated, common_unit(items))


# Each function is one theorem, for adaptively chosen releases. The best total of a mixed list is `compose`.
# Post-processing (proposition 2.1; theorem 9.1.1) needs no function: a result of a release has its guarantee.
def basic_composition(guarantees: Iterable[PrivacyGuarantee]) -> PrivacyGuarantee:
    """Return the sum of the guarantees: (sum of epsilons, sum of deltas), each exact and rounded up once.

    Theorems 3.14 to 3.16 of the foundations text; theorem 9.1.2 of the statistics chapter (docs/sources.md).

    Examples
    --------
    >>> from dpstats.privacy import PrivacyGuarantee, basic_composition
    >>> print(basic_composition([PrivacyGuarantee(0.5), PrivacyGuarantee(0.25, 1e-6)]))
    (epsilon = 0.75, delta = 1e-06), one row replaced
    """
    items = list_guarantees(guarantees)
    return _total(sum_up(item.epsilon for item in items), sum_up(item.delta for item in items), items)


def advanced_composition(
    epsilon: float, k: int, delta_slack: float, delta: float = 0.0, *, neighbors: Neighbors = Neighbors.REPLACE_ONE
) -> PrivacyGuarantee:
    """Return the total of k releases, each (epsilon, delta)-private: theorem 3.20, as printed.

    (sqrt(2 k log(1/delta_slack)) epsilon + k epsilon (e^epsilon - 1), k delta + delta_slack).

    Parameters
    ----------
    epsilon : float
        Epsilon of each release. Must be positive.
    k : int
        Number of releases, at least 1.
    delta_slack : float
        The theorem's delta', in (0, 1).
    delta : float, default=0.0
        Delta of each release.
    neighbors : Neighbors, default=Neighbors.REPLACE_ONE

    Examples
    --------
    >>> from dpstats.privacy import advanced_composition
    >>> print(advanced_composition(0.1, 100, 1e-6))
    (epsilon = 6.30823, delta = 1e-06), one row replaced
    """
    epsilon = _check_epsilon(epsilon)
    k = check_integer("k", k, at_least=1, at_most=_LARGEST_COUNT)
    slack = check_real("delta_slack", delta_slack, above=0, below=1)
    delta = check_cost("delta", delta)
    check_real("delta", delta, at_least=0, below=1)
    if epsilon > 700:
        raise refuse("epsilon", given=epsilon, allowed="at most 700 for theorem 3.20")
    total = math.sqrt(-2 * k * math.log(slack)) * epsilon + k * epsilon * math.expm1(epsilon)
    both = up(k * Fraction(delta) + Fraction(slack))
    return PrivacyGuarantee(total * (1 + _ROUNDING), min(1.0, both), neighbors)


def advanced_composition_share(total_epsilon: float, k: int, delta_slack: float) -> float:
    """Return the epsilon that k releases may each have for a total below one: corollary 3.21.

    total_epsilon / (2 sqrt(2 k log(1/delta_slack))); the total delta is k delta + delta_slack.

    Examples
    --------
    >>> from dpstats.privacy import advanced_composition, advanced_composition_share
    >>> share = advanced_composition_share(0.9, 100, 1e-6)
    >>> advanced_composition(share, 100, 1e-6).epsilon <= 0.9
    True
    """
    total = check_real("total_epsilon", total_epsilon, above=0, below=1)
    k = check_integer("k", k, at_least=1, at_most=_LARGEST_COUNT)
    slack = check_real("delta_slack", delta_slack, above=0, below=1)
    share = min(total / (2 * math.sqrt(-2 * k * math.log(slack))) * (1 - 1e-15), 700.0)
    if advanced_composition(share, k, slack).epsilon > total:
        # k share (e^share - 1) is below total/2 only where log(1/delta_slack) is not small.
        raise refuse("delta_slack", given=slack, allowed="smaller for corollary 3.21 to hold")
    return share


def heterogeneous_composition(guarantees: Iterable[PrivacyGuarantee], delta_slack: float) -> PrivacyGuarantee:
    """Return the SQL note's total of different releases: the smallest of three bounds on epsilon.

    Let S = sum epsilon_i (e^epsilon_i - 1)/(e^epsilon_i + 1) and V = sum epsilon_i^2. Then epsilon is the smallest of
    three numbers: sum epsilon_i, S + sqrt(2 V log(1/d')), and S + sqrt(2 V log(e + sqrt(V)/d')). Delta is
    1 - (1 - d') prod(1 - delta_i). Source: Kairouz, Oh and Viswanath (2017), theorem 3.5. For k copies of one guarantee
    it is the homogeneous three-way minimum of the note.

    Examples
    --------
    >>> from dpstats.privacy import PrivacyGuarantee, heterogeneous_composition
    >>> print(heterogeneous_composition([PrivacyGuarantee(0.1)] * 100, 1e-6))
    (epsilon = 5.75611, delta = 1e-06), one row replaced
    """
    items = list_guarantees(guarantees)
    slack = check_real("delta_slack", delta_slack, above=0, below=1)
    # In units of the largest epsilon, so that no square is too large or too small.
    unit = max((item.epsilon for item in items), default=0.0) or 1.0
    drift = math.fsum(item.epsilon * math.tanh(item.epsilon / 2) for item in items)
    root = unit * math.sqrt(math.fsum((item.epsilon / unit) ** 2 for item in items))
    first, second = math.sqrt(-2 * math.log(slack)), math.sqrt(2 * _log_of_ratio(root, slack))
    epsilon = min(
        sum_up(item.epsilon for item in items),
        (drift + root * first) * (1 + _ROUNDING) + TINY,
        (drift + root * second) * (1 + _ROUNDING) + TINY,
    )
    return _total(epsilon, together([slack, *(item.delta for item in items)]), items)


def together(deltas: Iterable[float]) -> float:
    """Return 1 - prod(1 - delta_i), rounded up; a lone delta is returned unchanged."""
    parts = [delta for delta in deltas if delta > 0]
    if len(parts) < 2:
        return parts[0] if parts else 0.0
    # The result is at most the sum. The computed sum is smaller if the deltas are tiny.
    return min(sum_up(parts), _spent(math.fsum(_log1m(delta) for delta in parts)), 1.0)


def _spent(log_kept: float) -> float:
    return min(1.0, -math.expm1(log_kept) * (1 + _ROUNDING) + TINY)


def _log_of_ratio(root: float, slack: float) -> float:
    """Return log(e + root/slack), also if the ratio exceeds the range of floats."""
    ratio = root / slack
    return math.log(math.e + ratio) if ratio < 1e300 else math.log(root) - math.log(slack) + 1e-15


def optimal_composition_delta(epsilon: float, k: int, total_epsilon: float, delta: float = 0.0) -> float:
    """Return the smallest delta that k releases, each (epsilon, delta)-private, have together.

    Source: Kairouz, Oh and Viswanath (2017), theorem 3.3 ("advanced composition 2" of the SQL note, docs/sources.md),
    for total epsilons (k - 2i) epsilon. This function is also exact between these. Let p_l = C(k, l) e^(l epsilon)/(1 +
    e^epsilon)^k. The total is 1 - (1 - delta)^k (1 - sum_l p_l (1 - e^(total - (2l - k) epsilon))_+).

    Parameters
    ----------
    epsilon : float
        Epsilon of each release, positive and at most 1e100.
    k : int
        Number of releases, from 1 to 1e10; a million takes milliseconds.
    total_epsilon : float
        Total epsilon of the requested delta, at least 0.
    delta : float, default=0.0
        Delta of each release.

    Returns
    -------
    float
        Never below the exact value; above it by less than a relative 1e-11, or 1e-323 where that is more.

    Examples
    --------
    >>> from dpstats.privacy import optimal_composition_delta
    >>> print(f"{optimal_composition_delta(0.1, 30, 1.0):.10f}")
    0.0105616763
    """
    epsilon, k, delta = _check_copies(epsilon, k, delta)
    total = check_real("total_epsilon", total_epsilon, at_least=0)
    return _combine(_log_pure_delta(epsilon, k, total), k, delta)


def optimal_composition_epsilon(epsilon: float, k: int, total_delta: float, delta: float = 0.0) -> float:
    """Return the smallest epsilon that k releases, each (epsilon, delta)-private, have at ``total_delta``.

    The inverse of `optimal_composition_delta`, at any total delta from 1 - (1 - delta)^k on.

    Examples
    --------
    >>> from dpstats.privacy import optimal_composition_epsilon
    >>> print(f"{optimal_composition_epsilon(0.1, 100, 1e-6):.6f}")
    4.774568
    """
    epsilon, k, delta = _check_copies(epsilon, k, delta)
    target = check_real("total_delta", total_delta, at_least=0, below=1)
    floor = _combine(-math.inf, k, delta)
    if target < floor:
        raise refuse(
            "total_delta", given=target, allowed=f"at least {floor:g}, what {k} releases of delta = {delta:g} add up to"
        )
    largest = up(k * Fraction(epsilon))
    if optimal_composition_delta(epsilon, k, 0.0, delta) <= target:
        return 0.0
    # (1 - target) = (1 - delta)^k (1 - pure): solve for the pure part, on a log scale.
    pure = -math.expm1(_log1m(target) - k * _log1m(delta))
    if pure <= 0:
        return largest

    def gap(total: float) -> float:
        value = _log_pure_delta(epsilon, k, total)
        return max(value, -1e5) - math.log(pure)

    total = float(optimize.brentq(gap, 0.0, largest, xtol=1e-300, rtol=1e-14, disp=False)) if gap(0.0) > 0 else 0.0
    # To the safe side, in steps that double: near 0 the root is known to an absolute error only.
    step = 1e-13 * total + 1e-15 * epsilon
    while total < largest and optimal_composition_delta(epsilon, k, total, delta) > target:
        total, step = total + step, 2 * step
    return min(total, largest)


def _check_epsilon(epsilon: float) -> float:
    check_real("epsilon", epsilon, above=0, at_most=_LARGEST_EPSILON)
    return check_cost("epsilon", epsilon)


def _check_copies(epsilon: float, k: int, delta: float) -> tuple[float, int, float]:
    epsilon = _check_epsilon(epsilon)
    k = check_integer("k", k, at_least=1, at_most=_LARGEST_COPIES)
    check_real("delta", delta, at_least=0, below=1)
    return epsilon, k, check_cost("delta", delta)


def copies_delta(k: int, delta: float) -> float:
    """Return 1 - (1 - delta)^k, what k releases of one delta add up to, rounded up."""
    if delta == 0 or k == 1:
        return delta
    return min(up(k * Fraction(delta)), _spent(k * _log1m(delta)), 1.0)


def _combine(log_pure: float, k: int, delta: float) -> float:
    """Return 1 - (1 - delta)^k (1 - pure), without cancellation and rounded up."""
    if log_pure == -math.inf:
        return copies_delta(k, delta)
    # Deviances, which are what the logarithm is made of, are right to a relative 1e-15.
    pure = min(1.0, math.exp(min(log_pure, 0.0)) * (1 + 1e-12 + 4e-15 * abs(log_pure)) + TINY)
    return pure if delta == 0 else _spent(k * _log1m(delta) + _log1m(pure))


def _log_pure_delta(epsilon: float, k: int, total: float) -> float:
    """Return the log of the hockey-stick divergence, at e^total, of k-fold randomized response."""
    left = k * Fraction(epsilon) - Fraction(total)
    if left <= 0:
        return -math.inf
    first = math.floor((total / epsilon + k) / 2) - 1  # losses are (2l - k) epsilon; one for the rounding
    mode = k / (1 + math.exp(-min(epsilon, 700.0)))
    width = 40 + 12 * math.sqrt(k)
    last = min(k, math.ceil(max(first, mode) + width))
    first = max(first, 0, math.floor(mode - width))  # the omitted terms are below 1e-100 of the others
    ratio = (k - last) / (last + 1) * math.exp(min(epsilon, 700.0)) if last < k else 0.0
    if ratio >= 1:  # the window ends before the mass falls off: take everything
        last, ratio = k, 0.0
    successes = np.arange(first, last + 1, dtype=np.float64)
    log_terms, log_mass = _log_terms(epsilon, k, total, successes)
    beyond = -math.inf
    if ratio > 0:
        # What lies beyond the window is below a geometric series, with the weight of the largest loss: count it in.
        weight = math.log(-math.expm1(-up(min(left, Fraction(800)))))
        beyond = log_mass[-1] + math.log(ratio / (1 - ratio)) + weight
    return float(logsumexp(np.append(log_terms, beyond)))


def _log_terms(
    epsilon: float, k: int, total: float, successes: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the logs of p_l (1 - e^(total - loss)) and of p_l, for the losses above the total."""
    # Losses less the total, to the last digit of the difference, in units in which epsilon is about 1.
    unit, power = math.frexp(epsilon)
    loss, lost = two_product(2 * successes - k, unit)
    gap, error = two_sum(loss, -math.ldexp(total, -power))
    gap = gap + (error + lost)
    keep = gap > 0
    successes, gap = successes[keep], gap[keep]
    log_mass = log_binomial(k, successes, epsilon)
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        excess = np.ldexp(gap, power)
        log_weight = np.log(-np.expm1(-excess))
    if epsilon < 1e-200:  # an excess may be too small for its digits, and is its own weight
        log_weight = np.log(gap) + power * math.log(2)
    return log_mass + log_weight, log_mass


@lru_cache(maxsize=256)
def _chances(k: int, epsilon: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return k p and k (1 - p) with p = 1/(1 + e^-epsilon), each as a float and its rounding error.

    The computation uses 50 decimals. At large k, the distance of a count from its mean is accurate only if the mean has
    more digits than a float.
    """
    with decimal.localcontext(decimal.Context(prec=50, Emin=-decimal.MAX_EMAX, Emax=decimal.MAX_EMAX)):
        odds = (-decimal.Decimal(epsilon)).exp() if epsilon < 1e6 else decimal.Decimal(0)
        means = [k / (1 + odds), k * odds / (1 + odds)]
        pairs = [(float(mean), float(mean - decimal.Decimal(float(mean)))) for mean in means]
    return pairs[0], pairs[1]


def log_binomial(k: int, successes: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
    """Return log C(k, l) + l epsilon - k log(1 + e^epsilon), by Loader's saddle-point form.

    Log-gamma differences lose nine digits at k = 1e6; deviances do not.
    """
    failures = k - successes
    log_odds = math.log1p(math.exp(-epsilon))  # -log of the success probability
    inner = (successes > 0) & (failures > 0)
    result = np.where(successes == 0, -k * (epsilon + log_odds), -k * log_odds)
    x, y = successes[inner], failures[inner]
    yes, no = _chances(k, epsilon)
    result[inner] = (
        _stirling_error(np.array([float(k)]))[0]
        - _stirling_error(x)
        - _stirling_error(y)
        - _deviance(x, *yes)
        - _deviance(y, *no)
        + 0.5 * np.log(k / (2 * math.pi * x * y))
    )
    return result


def _stirling_error(n: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log n! - log(sqrt(2 pi n) (n/e)^n)."""
    small = np.minimum(n, 15.0)
    exact = gammaln(small + 1) - (small + 0.5) * np.log(small) + small - 0.5 * math.log(2 * math.pi)
    square = 1 / (n * n)
    series = (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - square / 1188) * square) * square) * square) / n
    return np.where(n <= 15, exact, series)


def _deviance(x: NDArray[np.float64], mean: float, low: float) -> NDArray[np.float64]:
    """Return x log(x/mean) + mean - x, also if x is near the mean. ``low`` is the rounding error of the mean."""
    if mean == 0:
        return np.full_like(x, np.inf)
    apart = (x - mean) - low
    v = apart / (x + mean)
    near = np.abs(v) < 0.5
    v_near = np.where(near, v, 0.0)
    square = v_near * v_near
    # 2 x sum_{j >= 1} v^(2j + 1)/(2j + 1), by Horner's rule.
    terms = 8 if np.max(square, initial=0.0) < 0.01 else 30
    series = np.zeros_like(v)
    for j in range(terms, 0, -1):
        series = (series + 1 / (2 * j + 1)) * square
    with np.errstate(divide="ignore", invalid="ignore"):
        far = x * np.log(x / mean) - apart
    return np.where(near, apart * v_near + 2 * x * v_near * series, far)


def group_privacy(guarantee: PrivacyGuarantee, size: int, *, unit: str | None = None) -> PrivacyGuarantee:
    """Convert a guarantee for one row into the guarantee for ``size`` rows, such as all rows of one person.

    ``unit`` names this group of rows, such as "person". None: a group of rows.

    The result is (size * epsilon, delta * (e^(size epsilon) - 1)/(e^epsilon - 1)). This is theorem 2.2 of the
    foundations text (docs/sources.md) and its (epsilon, delta) form. The returned numbers are never smaller. Delta is
    larger by less than a relative 1e-10, or 1e-323.

    Examples
    --------
    >>> from dpstats.privacy import PrivacyGuarantee, group_privacy
    >>> print(group_privacy(PrivacyGuarantee(0.1, 1e-6), 5))
    (epsilon = 0.5, delta = 6.16826e-06), one group of 5 rows replaced
    >>> print(group_privacy(PrivacyGuarantee(0.1, 1e-6), 5, unit="person"))
    (epsilon = 0.5, delta = 6.16826e-06), one person replaced
    """
    size = check_integer("size", size, at_least=1, at_most=10**12)
    called = guarantee.unit if size == 1 else f"group of {size} {guarantee.unit}s"
    of_group = replace(guarantee, unit=called if unit is None else unit)
    if size == 1:
        return of_group
    epsilon, delta = guarantee.epsilon, guarantee.delta
    total = size * Fraction(epsilon)
    return _total(up(total), _chain_delta(epsilon, delta, size, float(min(total, Fraction(10**9)))), [of_group])


def _chain_delta(epsilon: float, delta: float, size: int, total: float) -> float:
    """Return delta (e^total - 1)/(e^epsilon - 1), total = size epsilon, rounded up and at most 1."""
    if delta == 0:
        return 0.0
    if epsilon < 1e-290:  # the ratio is below size e^total, so rounding errors are negligible
        return min(1.0, up(size * Fraction(delta) * (1 + Fraction(1, 10**15) * (total > 0))))
    if total <= 700:
        ratio = math.expm1(total) / math.expm1(epsilon)
        return min(1.0, max(ratio, 1.0) * delta * (1 + 1e-12) + TINY)
    if total > 10**6:
        return 1.0  # delta is at least 5e-324, and the ratio at least e^(total/2)
    # e^total may exceed the range of floats, so use logarithms. They are accurate to 1e-12 if the answer is below 1.
    log_delta = math.log(delta) + (total - epsilon) - math.log(-math.expm1(-epsilon))
    return 1.0 if log_delta >= -1e-10 else min(1.0, math.exp(log_delta) * (1 + 1e-11) + TINY)


def poisson_subsampling(guarantee: PrivacyGuarantee, rate: float) -> PrivacyGuarantee:
    """Return the guarantee of a pure release on a random sample: each row kept with probability ``rate``.

    log(1 + rate (e^epsilon - 1)), for rows added or removed (Balle, Barthe and Gaboardi 2018,
    theorem 8). Under replacement the sample's size would have to be public, so that relation is refused.

    Examples
    --------
    >>> from dpstats.privacy import Neighbors, PrivacyGuarantee, poisson_subsampling
    >>> print(poisson_subsampling(PrivacyGuarantee(1.0, neighbors=Neighbors.ADD_OR_REMOVE_ONE), 0.01))
    (epsilon = 0.0170369, delta = 0), one row added or removed
    """
    rate = check_real("rate", rate, above=0, at_most=1)
    if guarantee.delta > 0:
        raise refuse("guarantee", got=f"delta = {guarantee.delta:g}", allowed="pure (delta = 0)")
    if guarantee.neighbors is not Neighbors.ADD_OR_REMOVE_ONE:
        raise refuse("guarantee", got="REPLACE_ONE", allowed="for ADD_OR_REMOVE_ONE")
    x = guarantee.epsilon
    if x == 0 or rate == 1:
        return guarantee
    if x < 700:
        epsilon = math.log1p(rate * math.expm1(x))
    else:
        log_odds = x + math.log(rate) + 1e-12  # e^x may be no float
        epsilon = math.log1p(math.exp(log_odds)) if log_odds < 700 else log_odds
    # Raise the result by more than its rounding error, but never above the given guarantee.
    return _total(min(x, epsilon * (1 + _ROUNDING) + TINY), 0.0, [guarantee])


def _log1m(x: float) -> float:
    return math.log1p(-x) if x < 1 else -math.inf
