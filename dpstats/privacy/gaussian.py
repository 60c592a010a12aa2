"""The exact (epsilon, delta) curve of Gaussian noise, zero-concentrated privacy, and the inverses of both."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from scipy.special import erfcx, ndtr

from dpstats.data.parameters import check_real
from dpstats.errors import refuse
from dpstats.privacy.guarantee import TINY, two_product, two_sum

_SQRT2 = math.sqrt(2.0)

# The curve has a relative error below 1e-12, checked against 60 and more digits at extremes of every size. Raised by
# this factor, the curve is an upper bound, and so are the solutions computed from it in steps of this size. Below
# 1e-300 the smallest float is also added.
_ROUNDING = 1e-12

# Gauss and Legendre's rule on (0, 1).
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(6)
_NODES, _WEIGHTS = (_NODES + 1) / 2, _WEIGHTS / 2
# 1!!, -3!!, 5!!, ...: the asymptotic series of -erfcx'.
_SERIES = [(-1.0) ** (n + 1) * math.prod(range(1, 2 * n, 2)) for n in range(1, 31)]


# With mu = sensitivity/sigma, a = mu/2 - epsilon/mu and b = a - mu, the smallest delta is Phi(a) - exp(epsilon) Phi(b)
# (Balle and Wang 2018, theorem 8). The two terms are nearly equal where it matters. By a^2/2 = b^2/2 - epsilon it is
# exp(-a^2/2)/2 times erfcx(-a/sqrt 2) - erfcx(-b/sqrt 2), where no exponential cancels.
def gaussian_profile(epsilon: float, mu: float, low: float = 0.0) -> float:
    """Return the smallest delta of Gaussian noise with mu = sensitivity/sigma, rounded up.

    The result is never below the exact value. It exceeds it by less than a relative 3e-12 or 1e-323, the larger of
    both. ``low`` is the rounding error of mu.
    """
    epsilon, mu = float(epsilon), float(mu)
    if mu == 0 or mu == math.inf:
        return 0.0 if mu == 0 else 1.0
    a, a_low = _upper_argument(epsilon, mu, low)
    if a > 38.7:
        return 1.0  # the exact value is within 1e-325
    if a < -39.5:
        return TINY  # the curve is below exp(-a^2/2) here
    square, lost = two_product(a, a) if abs(a) > 1e-100 else (0.0, 0.0)
    # exp(-a^2/2) = half^2, which may be smaller than a float: half is kept 2^300 times as large.
    half = math.exp(-square / 4) * 2.0**300
    last = 1 - (lost + 2 * a * a_low) / 2
    near, width = -a / _SQRT2, mu / _SQRT2  # -b is mu - a: no cancellation, as a is at most mu/2
    if a > 5:
        beyond = float(erfcx(-near)) + float(erfcx(near + width))
        return min(1.0, (1 - 0.5 * math.ldexp(half * half, -600) * last * beyond) * (1 + _ROUNDING))
    if width > 0.04 * max(1.0, abs(near)):
        drop, power = float(erfcx(near) - erfcx(near + width)), 0
    else:
        # For small mu the difference is an integral of positive terms.
        width, power = math.frexp(width)
        drop = width * float(_WEIGHTS @ _falling_rate(near + math.ldexp(width, power) * _NODES))
    delta = math.ldexp(0.5 * drop * half * half * last * (1 + _ROUNDING), power - 600)
    return min(1.0, delta + TINY if delta < 1e-300 else delta)


def gaussian_curve(epsilons: NDArray[np.float64], mu: float) -> NDArray[np.float64]:
    """Return `gaussian_profile` at many epsilons >= 0, with less precision: never below, and a little above."""
    if mu == 0:
        return np.zeros_like(epsilons)
    far = epsilons / mu
    near = far - mu / 2  # -a and -b of the formula above
    beyond = near + mu
    with np.errstate(over="ignore", under="ignore"):
        density = np.exp(-(near**2) / 2) / 2
        second = density * erfcx(beyond / _SQRT2)
        first = np.where(near < 0, ndtr(-near), density * erfcx(np.maximum(near, 0.0) / _SQRT2))
    # Each term has the error of its functions, and the error of its argument times the density.
    error = (first + second) * (1e-14 + 1e-15 * (1 + np.abs(near)) * (far + mu))
    curve: NDArray[np.float64] = np.minimum(np.maximum(first - second, 0.0) + error + TINY, 1.0)
    return curve


def _upper_argument(epsilon: float, mu: float, low: float) -> tuple[float, float]:
    """Return mu/2 - epsilon/mu and its rounding error, by (mu^2 - 2 epsilon)/(2 mu); infinite on overflow."""
    part, power = math.frexp(mu)
    try:
        twice = math.ldexp(epsilon, 1 - 2 * power)
    except OverflowError:
        # Below 1e-100 in mu nothing cancels that matters.
        return (-epsilon / mu if mu < 1e-100 else -math.inf), 0.0
    if mu < 1e-100:
        return mu / 2 - epsilon / mu, 0.0
    square, lost = two_product(part, part)
    total, error = two_sum(square, -twice)
    share = math.ldexp(low, -power)
    lost += error + 2 * part * share
    ratio = (total + lost) / (2 * part)
    if abs(ratio) > 1e140 or abs(ratio) * 2.0 ** min(power, 200) > 1e100:
        return math.copysign(math.inf, ratio), 0.0
    back, back_lost = two_product(ratio, 2 * part)
    ratio_low = (((total - back) - back_lost) + lost) / (2 * part) - ratio * (share / part)
    return math.ldexp(ratio, power), math.ldexp(ratio_low, power)


def _falling_rate(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return -erfcx'(x) = 2/sqrt(pi) - 2 x erfcx(x) of adjacent numbers above -4, in increasing order."""
    if x[0] < 6:
        return np.asarray(2 / math.sqrt(math.pi) - 2 * x * erfcx(x))
    # The two nearly cancel: their asymptotic series, whose terms alternate and fall.
    terms = 30 if x[0] < 8 else 18 if x[0] < 12 else 12
    return np.array([2 / math.sqrt(math.pi) * _series(0.5 / (size * size), terms) for size in x.tolist()])


def _series(z: float, terms: int) -> float:
    total = 0.0
    for coefficient in _SERIES[terms - 1 :: -1]:
        total = (total + coefficient) * z
    return total


def _check_sensitivity(sensitivity: float) -> float:
    return check_real("sensitivity", sensitivity, above=0)


def _profile_of(epsilon: float, sensitivity: float, sigma: float) -> float:
    """Return the profile at mu = sensitivity/sigma, the real quotient: at large mu its last digits matter."""
    mu = sensitivity / sigma
    if not 1e-100 < mu < 1e100:
        return gaussian_profile(epsilon, min(math.nextafter(mu, math.inf), 1e300))
    # In mantissas, so that nothing is too large or too small.
    (top, top_bits), (bottom, bottom_bits) = math.frexp(sensitivity), math.frexp(sigma)
    part = math.ldexp(mu, bottom_bits - top_bits)
    product, lost = two_product(part, bottom)
    return gaussian_profile(epsilon, mu, math.ldexp(((top - product) - lost) / bottom, top_bits - bottom_bits))


def gaussian_delta(epsilon: float, sigma: float, sensitivity: float = 1.0) -> float:
    """Return the smallest delta for which Gaussian noise is (epsilon, delta)-private.

    Parameters
    ----------
    epsilon : float
        Privacy parameter, at least 0.
    sigma : float
        Standard deviation of the noise, in the units of ``sensitivity``.
    sensitivity : float, default=1.0
        Largest l2 distance of the value between neighboring datasets.

    Returns
    -------
    float
        delta in [0, 1]: never below the exact value, and above it by less than a relative 3e-12, or 1e-323.

    References
    ----------
    Balle and Wang (2018), Improving the Gaussian mechanism for differential privacy, theorem 8.

    Examples
    --------
    >>> from dpstats.privacy import gaussian_delta
    >>> print(f"{gaussian_delta(1.0, 4.0):.6e}")
    2.924272e-06
    """
    epsilon = check_real("epsilon", epsilon, at_least=0)
    sigma = check_real("sigma", sigma, above=0)
    return _profile_of(epsilon, _check_sensitivity(sensitivity), sigma)


def gaussian_sigma(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """Return the smallest noise that makes a Gaussian release (epsilon, delta)-private.

    Parameters
    ----------
    epsilon : float
        Greater than 0.
    delta : float
        Strictly between 0 and 1: Gaussian noise is never (epsilon, 0)-private.
    sensitivity : float, default=1.0
        Largest l2 distance of the value between neighboring datasets.

    Returns
    -------
    float
        The standard deviation, in the units of ``sensitivity``, to a relative 1e-9 and never
        below the root: `gaussian_delta` at the result is at most ``delta``.

    Examples
    --------
    >>> from dpstats.privacy import gaussian_sigma
    >>> print(f"{gaussian_sigma(1.0, 1e-6):.6f}")
    4.224679
    """
    epsilon = check_real("epsilon", epsilon, above=0)
    sensitivity = _check_sensitivity(sensitivity)
    delta = check_real("delta", delta, at_least=0, below=1)
    if delta == 0:
        raise refuse(
            "delta",
            got="0",
            allowed="greater than 0 for Gaussian noise",
            remedy="Its tails are too light for pure privacy; use Laplace noise (delta = 0).",
        )
    return _sigma(epsilon, delta, sensitivity)


@lru_cache(maxsize=256)
def _sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    low, high = 1e-8, 1.0
    while gaussian_profile(epsilon, high) < delta:
        high *= 2
    while gaussian_profile(epsilon, low) > delta:
        low /= 2

    def gap(log_mu: float) -> float:
        value = gaussian_profile(epsilon, math.exp(log_mu))
        return (math.log(value) if value > 0 else -1e4) - math.log(delta)

    mu = math.exp(optimize.brentq(gap, math.log(low), math.log(high), xtol=1e-14, rtol=1e-14))
    sigma = sensitivity / mu
    while _profile_of(epsilon, sensitivity, sigma) > delta:
        sigma = sigma * (1 + _ROUNDING) + TINY
    if sigma == math.inf:
        raise refuse("sensitivity", given=sensitivity, allowed="smaller", remedy="Its noise is beyond any float")
    return sigma


def gaussian_epsilon(sigma: float, delta: float, sensitivity: float = 1.0) -> float:
    """Return the smallest epsilon for which Gaussian noise is (epsilon, delta)-private.

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise, in the units of ``sensitivity``.
    delta : float
        Strictly between 0 and 1.
    sensitivity : float, default=1.0
        Largest l2 distance of the value between neighboring datasets.

    Returns
    -------
    float
        epsilon, never below the root; 0 where the noise is (0, delta)-private.

    Examples
    --------
    >>> from dpstats.privacy import gaussian_epsilon
    >>> print(f"{gaussian_epsilon(4.224679, 1e-6):.6f}")
    1.000000
    """
    sigma = check_real("sigma", sigma, above=0)
    sensitivity = _check_sensitivity(sensitivity)
    mu = sensitivity / sigma
    delta = check_real("delta", delta, above=0, below=1)
    if mu > LARGEST_MU:
        raise refuse("sensitivity/sigma", given=mu, allowed=f"at most {LARGEST_MU:g}")
    epsilon = epsilon_of_mu(mu, delta)
    while _profile_of(epsilon, sensitivity, sigma) > delta:
        epsilon = epsilon * (1 + _ROUNDING) + TINY
    return epsilon


LARGEST_MU = 1e100  # epsilon grows as its square


@lru_cache(maxsize=256)
def epsilon_of_mu(mu: float, delta: float) -> float:
    """Return the smallest epsilon of Gaussian noise with mu = sensitivity/sigma, rounded up."""
    if gaussian_profile(0.0, mu) <= delta:
        return 0.0

    # In units of mu the root is at most mu/2 + 40: beyond, delta is below the smallest float.
    def gap(ratio: float) -> float:
        value = gaussian_profile(ratio * mu, mu)
        return (math.log(value) if value > 0 else -1e4) - math.log(delta)

    largest = mu / 2 + 40
    while gap(largest) > 0:
        # If mu is large, the sum and the product with mu are rounded by more than 1.
        largest *= 1 + 1e-15
    epsilon = mu * float(optimize.brentq(gap, 0.0, largest, xtol=1e-300, rtol=1e-14))
    while gaussian_profile(epsilon, mu) > delta:
        epsilon = epsilon * (1 + _ROUNDING) + TINY
    return epsilon


# Fractions of delta for the discreteness of noise. Budgets and plans reserve the first fraction, so that a plan for a
# whole budget fits. A plan on a coarse lattice reserves the second.
LATTICE_SHARE, LARGEST_LATTICE_SHARE = 1e-6, 1e-3

# Total variation, per coordinate, between discrete Gaussian noise of s >= 10 steps and rounded continuous noise is
# below 0.021/s^2 (docs/proofs/gaussian.md).
TOTAL_VARIATION, SMALLEST_STEPS = 0.021, 10.0


# The final bound is evaluated at the best order, with an exact polynomial part. It is raised by this fraction of the
# sum of its terms, which exceeds their rounding errors. So answers are one-sided.
_CONVERSION_ROUNDING = 2e-15

# A smaller rho is replaced by this number, which gives an upper bound.
_SMALLEST = 1e-250


def _best_order(bound: Callable[[float], float], guess: float) -> float:
    """Return the alpha - 1 of the least ``bound``; quasi-convex, between ``guess`` and 1 or near them."""
    center = math.log(max(guess, 1e-12))
    found = optimize.minimize_scalar(
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
    >>> from dpstats.privacy.gaussian import zcdp_delta
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
        optimize.brentq(
            lambda value: zcdp_epsilon(value, delta) - epsilon, low, high, xtol=1e-300, rtol=1e-13, disp=False
        )
    )
    # To the safe side, in steps that double: a root that was not found in time costs little.
    step = 1e-12
    while zcdp_epsilon(rho, delta) > epsilon:
        rho, step = rho * (1 - step), min(2 * step, 0.5)
    return rho
