"""Zero-concentrated privacy: its conversion to (epsilon, delta), and back."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from scipy.optimize import brentq, minimize_scalar

from dpstats.data.parameters import check_real

# The final bound is evaluated at the best order, with an exact polynomial part. It is raised by this fraction of the
# sum of its terms, which exceeds their rounding errors. So answers are one-sided.
_CONVERSION_ROUNDING = 2e-15

# A smaller rho is replaced by this number, which gives an upper bound.
_SMALLEST = 1e-250


def _best_order(bound: Callable[[float], float], guess: float) -> float:
    """Return the alpha - 1 of the least ``bound``; quasi-convex, between ``guess`` and 1 or near them."""
    center = math.log(max(guess, 1e-12))
    found = minimize_scalar(
        lambda log_order: bound(math.exp(log_order)),
        # Every order gives a valid bound, and e^700 is a float.
        bounds=(min(center, 0.0) - 12, min(max(center, 0.0) + 12, 700.0)),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return math.exp(float(found.x))


def _log_factor(order: float) -> float:
    """Return log of (1 - 1/alpha)^alpha / (alpha - 1) at alpha = 1 + order."""
    alpha = 1 + order
    return -alpha * math.log1p(1 / order) - math.log(order)


def _size_of_factor(order: float) -> float:
    """Return the sum of the absolute terms of `_log_factor`, which bounds its rounding error."""
    return (1 + order) * math.log1p(1 / order) + abs(math.log(order)) + 1


# The Renyi divergence is at most alpha rho at every order alpha > 1. Every order proves a delta (Canonne, Kamath and
# Steinke 2020, proposition 12). It is exp((alpha - 1)(alpha rho - epsilon)) / (alpha - 1) * (1 - 1/alpha)^alpha.
# The best order is found numerically: an inexact minimum is a weaker bound, never a wrong one.
def zcdp_delta(rho: float, epsilon: float) -> float:
    """Return a delta for which a rho-zCDP release is (epsilon, delta)-private.

    Examples
    --------
    >>> from dpstats.privacy.zcdp import zcdp_delta
    >>> print(f"{zcdp_delta(0.1, 2.141939):.3e}")
    1.000e-06
    """
    rho = check_real("rho", rho, at_least=0)
    epsilon = check_real("epsilon", epsilon, at_least=0)
    if rho == 0:
        return 0.0
    rho = max(rho, _SMALLEST)
    # Without the factor the best order is (epsilon - rho)/(2 rho).
    guess = max((epsilon / 2 - rho / 2) / rho, 1e-6)
    order = _best_order(lambda order: order * ((1 + order) * rho - epsilon) + _log_factor(order), guess)
    exact = Fraction(order) * ((1 + Fraction(order)) * Fraction(rho) - Fraction(epsilon))
    main = float(min(max(exact, Fraction(-2000)), Fraction(10**300)))
    log_delta = main + _log_factor(order)
    log_delta += _CONVERSION_ROUNDING * (abs(main) + _size_of_factor(order)) if main < 1e300 else math.inf
    return min(1.0, math.exp(log_delta) + 5e-324) if log_delta < 0 else 1.0


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return an epsilon for which a rho-zCDP release is (epsilon, delta)-private: proved, rounding included.

    Parameters
    ----------
    rho : float
        Cost of zero-concentrated privacy, at least 0.
    delta : float
        Strictly between 0 and 1.

    Examples
    --------
    >>> from dpstats.privacy import zcdp_epsilon
    >>> print(f"{zcdp_epsilon(0.1, 1e-6):.6f}")
    2.141939
    """
    rho = check_real("rho", rho, at_least=0)
    delta = check_real("delta", delta, above=0, below=1)
    if rho == 0:
        return 0.0
    return _epsilon(max(rho, _SMALLEST), delta)


@lru_cache(maxsize=256)
def _epsilon(rho: float, delta: float) -> float:
    log_inverse = -math.log(delta)
    guess = math.sqrt(log_inverse / rho)
    order = _best_order(lambda order: (1 + order) * rho + (log_inverse + _log_factor(order)) / order, guess)
    first = (1 + order) * rho
    rest = (log_inverse + _log_factor(order)) / order
    error = _CONVERSION_ROUNDING * (first + (log_inverse + _size_of_factor(order)) / order)
    return max(0.0, first + rest + error)


def zcdp_rho(epsilon: float, delta: float) -> float:
    """Return the largest rho whose conversion is at most (epsilon, delta).

    Examples
    --------
    >>> from dpstats.privacy import zcdp_rho
    >>> print(f"{zcdp_rho(1.0, 1e-6):.6f}")
    0.024356
    """
    epsilon = check_real("epsilon", epsilon, at_least=1e-100, at_most=1e100)
    delta = check_real("delta", delta, above=0, below=1)
    high = epsilon
    while zcdp_epsilon(high, delta) < epsilon:
        high *= 2
    low = high
    while zcdp_epsilon(low, delta) > epsilon:
        low /= 2
    if low == high:
        return low
    rho = float(
        brentq(
            lambda value: zcdp_epsilon(value, delta) - epsilon, low, high, xtol=1e-300, rtol=1e-13, disp=False
        )
    )
    # To the safe side, in steps that double: a root that was not found in time costs little.
    step = 1e-12
    while zcdp_epsilon(rho, delta) > epsilon:
        rho, step = rho * (1 - step), min(2 * step, 0.5)
    return rho
