"""The composition theorems: what several releases cost together, in closed form.

Each function is one theorem and returns what it proves, for adaptively chosen releases. The best
total of a mixed list is `dpstats.privacy.totals.compose`.

*Post-processing* (proposition 2.1; theorem 9.1.1) needs no function: whatever is computed from a
release, and from public facts, has the release's guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import gammaln, logsumexp

from dpstats.data.parameters import check_integer, check_real
from dpstats.errors import InvalidParameter
from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee


def common_neighbors(items: Iterable[Any]) -> Neighbors:
    """Return the one neighbouring relation of all items; different relations are refused."""
    relations = {item.neighbors for item in items}
    if len(relations) > 1:
        raise InvalidParameter(
            "all guarantees must be for the same neighbouring relation, got "
            + " and ".join(sorted(relation.name for relation in relations))
            + "; convert the ADD_OR_REMOVE_ONE ones with as_replace_one()"
        )
    return relations.pop() if relations else Neighbors.REPLACE_ONE


def _total(epsilon: float, delta: float, items: Sequence[PrivacyGuarantee]) -> PrivacyGuarantee:
    simulated = any(item.simulated for item in items)
    return PrivacyGuarantee(epsilon, min(1.0, delta), common_neighbors(items), simulated=simulated)


def basic_composition(guarantees: Iterable[PrivacyGuarantee]) -> PrivacyGuarantee:
    """Return the sum of the guarantees: (sum of epsilons, sum of deltas).

    Theorems 3.14 to 3.16 of the foundations text; theorem 9.1.2 of the statistics chapter.

    Examples
    --------
    >>> from dpstats.privacy import PrivacyGuarantee, basic_composition
    >>> print(basic_composition([PrivacyGuarantee(0.5), PrivacyGuarantee(0.25, 1e-6)]))
    (epsilon = 0.75, delta = 1e-06), one row replaced
    """
    items = list(guarantees)
    return _total(math.fsum(item.epsilon for item in items), math.fsum(item.delta for item in items), items)


def advanced_composition(
    epsilon: float,
    k: int,
    delta_slack: float,
    delta: float = 0.0,
    *,
    neighbors: Neighbors = Neighbors.REPLACE_ONE,
) -> PrivacyGuarantee:
    """Return the total of k releases, each (epsilon, delta)-private: theorem 3.20, as printed.

    (sqrt(2 k log(1/delta_slack)) epsilon + k epsilon (e^epsilon - 1), k delta + delta_slack).

    Parameters
    ----------
    epsilon : float
        Of each release, greater than 0.
    k : int
        Number of releases, at least 1.
    delta_slack : float
        The theorem's delta', in (0, 1).
    delta : float, default=0.0
        Of each release.

    Examples
    --------
    >>> from dpstats.privacy import advanced_composition
    >>> print(advanced_composition(0.1, 100, 1e-6))
    (epsilon = 6.30823, delta = 1e-06), one row replaced
    """
    epsilon = check_real("epsilon", epsilon, above=0)
    k = check_integer("k", k, at_least=1)
    slack = check_real("delta_slack", delta_slack, above=0, below=1)
    delta = check_real("delta", delta, at_least=0, below=1)
    total = math.sqrt(2 * k * math.log(1 / slack)) * epsilon + k * epsilon * _expm1(epsilon)
    return PrivacyGuarantee(total, min(1.0, k * delta + slack), neighbors)


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
    k = check_integer("k", k, at_least=1)
    slack = check_real("delta_slack", delta_slack, above=0, below=1)
    share = total / (2 * math.sqrt(2 * k * math.log(1 / slack)))
    if advanced_composition(share, k, slack).epsilon > total:
        # k share (e^share - 1) is below total/2 only where log(1/delta_slack) is not small.
        raise InvalidParameter(f"delta_slack must be smaller for corollary 3.21 to hold, got {slack:g}")
    return share


def heterogeneous_composition(guarantees: Iterable[PrivacyGuarantee], delta_slack: float) -> PrivacyGuarantee:
    """Return the SQL note's total of different releases: the smallest of three bounds on epsilon.

    With S = sum epsilon_i (e^epsilon_i - 1)/(e^epsilon_i + 1) and V = sum epsilon_i^2, epsilon is the
    smallest of sum epsilon_i, S + sqrt(2 V log(1/d')), S + sqrt(2 V log(e + sqrt(V)/d')); delta is
    1 - (1 - d') prod(1 - delta_i). Kairouz, Oh and Viswanath (2017), theorem 3.5; for k copies of
    one guarantee it is the note's homogeneous three-way minimum.

    Examples
    --------
    >>> from dpstats.privacy import PrivacyGuarantee, heterogeneous_composition
    >>> print(heterogeneous_composition([PrivacyGuarantee(0.1)] * 100, 1e-6))
    (epsilon = 5.75611, delta = 1e-06), one row replaced
    """
    items = list(guarantees)
    slack = check_real("delta_slack", delta_slack, above=0, below=1)
    drift = math.fsum(item.epsilon * math.tanh(item.epsilon / 2) for item in items)
    spread = math.fsum(item.epsilon**2 for item in items)
    epsilon = min(
        math.fsum(item.epsilon for item in items),
        drift + math.sqrt(2 * spread * math.log(1 / slack)),
        drift + math.sqrt(2 * spread * math.log(math.e + math.sqrt(spread) / slack)),
    )
    log_kept = math.fsum(_log1m(delta) for delta in (slack, *(item.delta for item in items)))
    return _total(epsilon, -math.expm1(log_kept), items)


def optimal_composition_delta(epsilon: float, k: int, total_epsilon: float, delta: float = 0.0) -> float:
    """Return the smallest delta that k releases, each (epsilon, delta)-private, have together.

    Kairouz, Oh and Viswanath (2017), theorem 3.3 ("advanced composition 2" of the SQL note) at
    total epsilons (k - 2i) epsilon, and exact between these: with p_l = C(k, l) e^(l epsilon)/(1 +
    e^epsilon)^k the total is 1 - (1 - delta)^k (1 - sum_l p_l (1 - e^(total - (2l - k) epsilon))_+).

    Parameters
    ----------
    epsilon : float
        Of each release, greater than 0.
    k : int
        Number of releases, at least 1; a million takes milliseconds.
    total_epsilon : float
        At which the total delta is wanted; at least 0.
    delta : float, default=0.0
        Of each release.

    Returns
    -------
    float
        Never below the exact value by more than rounding (1e-12, relative).

    Examples
    --------
    >>> from dpstats.privacy import optimal_composition_delta
    >>> print(f"{optimal_composition_delta(0.1, 30, 1.0):.10f}")
    0.0105616763
    """
    epsilon = check_real("epsilon", epsilon, above=0)
    k = check_integer("k", k, at_least=1)
    total = check_real("total_epsilon", total_epsilon, at_least=0)
    delta = check_real("delta", delta, at_least=0, below=1)
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
    epsilon = check_real("epsilon", epsilon, above=0)
    k = check_integer("k", k, at_least=1)
    delta = check_real("delta", delta, at_least=0, below=1)
    target = check_real("total_delta", total_delta, at_least=0, below=1)
    floor = _combine(-math.inf, k, delta)
    if target < floor:
        raise InvalidParameter(
            f"total_delta must be at least {floor:g}, what {k} releases of delta = {delta:g} add up to, got {target:g}"
        )
    if optimal_composition_delta(epsilon, k, 0.0, delta) <= target:
        return 0.0
    # (1 - target) = (1 - delta)^k (1 - pure): solve for the pure part, on a log scale.
    pure = -math.expm1(_log1m(target) - k * _log1m(delta))
    if pure <= 0:
        return k * epsilon

    def gap(total: float) -> float:
        value = _log_pure_delta(epsilon, k, total)
        return max(value, -1e5) - math.log(pure)

    total = float(brentq(gap, 0.0, k * epsilon, xtol=1e-300, rtol=1e-14)) if gap(0.0) > 0 else 0.0
    # To the safe side, in steps that double: near 0 the root is known to an absolute error only.
    step = 1e-13 * total + 1e-15 * epsilon
    while total < k * epsilon and optimal_composition_delta(epsilon, k, total, delta) > target:
        total, step = total + step, 2 * step
    return min(total, k * epsilon)


def _combine(log_pure: float, k: int, delta: float) -> float:
    """Return 1 - (1 - delta)^k (1 - pure), without cancellation."""
    pure = min(1.0, math.exp(log_pure) * (1 + 1e-12))
    if delta == 0:
        return pure
    return min(1.0, -math.expm1(k * _log1m(delta) + _log1m(pure)))


def _log_pure_delta(epsilon: float, k: int, total: float) -> float:
    """Return the log of the hockey-stick divergence, at e^total, of k-fold randomized response."""
    if total >= k * epsilon:
        return -math.inf
    first = math.floor((total / epsilon + k) / 2)  # losses are (2l - k) epsilon
    mode = k / (1 + math.exp(-epsilon))
    last = min(k, math.ceil(max(first, mode) + 40 + 12 * math.sqrt(k)))
    successes = np.arange(max(first, 0), last + 1, dtype=np.float64)
    losses = (2 * successes - k) * epsilon
    keep = losses > total
    if not keep.any():
        return -math.inf
    successes, losses = successes[keep], losses[keep]
    log_mass = _log_binomial(k, successes, epsilon)
    log_terms = log_mass + np.log(-np.expm1(total - losses))
    # What lies beyond the window is below a geometric series: count it in.
    ratio = (k - last) / (last + 1) * math.exp(min(epsilon, 700.0)) if last < k else 0.0
    beyond = log_mass[-1] + math.log(ratio / (1 - ratio)) if 0 < ratio < 1 else -math.inf
    if ratio >= 1:  # the window ends before the mass falls off: take everything
        return _log_pure_delta_all(epsilon, k, total)
    return float(logsumexp(np.append(log_terms, beyond)))


def _log_pure_delta_all(epsilon: float, k: int, total: float) -> float:
    successes = np.arange(0, k + 1, dtype=np.float64)
    losses = (2 * successes - k) * epsilon
    keep = losses > total
    log_terms = _log_binomial(k, successes[keep], epsilon) + np.log(-np.expm1(total - losses[keep]))
    return float(logsumexp(log_terms))


def _log_binomial(k: int, successes: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
    """Return log C(k, l) + l epsilon - k log(1 + e^epsilon), by Loader's saddle-point form.

    Log-gamma differences lose nine digits at k = 1e6; deviances do not.
    """
    failures = k - successes
    log_odds = math.log1p(math.exp(-epsilon))  # -log of the success probability
    inner = (successes > 0) & (failures > 0)
    result = np.where(successes == 0, -k * (epsilon + log_odds), -k * log_odds)
    x, y = successes[inner], failures[inner]
    p = 1 / (1 + math.exp(-epsilon))
    q = math.exp(-epsilon - log_odds)
    result[inner] = (
        _stirling_error(np.array([float(k)]))[0]
        - _stirling_error(x)
        - _stirling_error(y)
        - _deviance(x, k * p)
        - _deviance(y, k * q)
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


def _deviance(x: NDArray[np.float64], mean: float) -> NDArray[np.float64]:
    """Return x log(x/mean) + mean - x, also where x is near the mean."""
    v = (x - mean) / (x + mean)
    near = np.abs(v) < 0.1
    v_near = np.where(near, v, 0.0)
    square = v_near * v_near
    total = np.zeros_like(v)
    term = 2 * x * v_near
    for j in range(1, 25):
        term = term * square
        total += term / (2 * j + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        far = x * np.log(x / mean) + mean - x
    return np.where(near, (x - mean) * v_near + total, far)


def group_privacy(guarantee: PrivacyGuarantee, size: int) -> PrivacyGuarantee:
    """Return what a guarantee for one row means for ``size`` rows, say all rows of one person.

    (size * epsilon, delta * (e^(size epsilon) - 1)/(e^epsilon - 1)): theorem 2.2 of the
    foundations text and its (epsilon, delta) form.

    Examples
    --------
    >>> from dpstats.privacy import PrivacyGuarantee, group_privacy
    >>> print(group_privacy(PrivacyGuarantee(0.1, 1e-6), 5))
    (epsilon = 0.5, delta = 6.16826e-06), one row replaced
    """
    size = check_integer("size", size, at_least=1, at_most=10**12)
    total = size * guarantee.epsilon
    if guarantee.delta == 0:
        delta = 0.0
    elif guarantee.epsilon == 0:
        delta = size * guarantee.delta
    elif total > 700:
        delta = 1.0
    else:
        delta = guarantee.delta * math.expm1(total) / math.expm1(guarantee.epsilon)
    return _total(total, delta, [guarantee])


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
        raise InvalidParameter(f"guarantee must be pure (delta = 0), got delta = {guarantee.delta:g}")
    if guarantee.neighbors is not Neighbors.ADD_OR_REMOVE_ONE:
        raise InvalidParameter("guarantee must be for ADD_OR_REMOVE_ONE, got REPLACE_ONE")
    # log(1 + r(e^x - 1)) = x + log(r + (1 - r) e^-x), which does not overflow.
    x = guarantee.epsilon
    epsilon = math.log1p(rate * math.expm1(x)) if x < 30 else x + math.log(rate + (1 - rate) * math.exp(-x))
    return _total(epsilon, 0.0, [guarantee])


def _expm1(x: float) -> float:
    return math.expm1(x) if x < 700 else math.inf


def _log1m(x: float) -> float:
    return math.log1p(-x) if x < 1 else -math.inf
