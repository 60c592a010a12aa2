"""The exact (epsilon, delta) curve of Gaussian noise, and its inverses.

For sensitivity D and noise N(0, sigma^2 I), with mu = D/sigma, the smallest delta is
(Balle and Wang 2018, theorem 8)

    delta(epsilon) = Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu).

Both terms are nearly equal where it matters. With a, b the two arguments, a^2/2 = b^2/2 - epsilon,
so that exp(epsilon) phi(b) = phi(a) and, for the scaled complementary error function,

    delta(epsilon) = exp(-a^2/2)/2 * (erfcx(-a/sqrt 2) - erfcx(-b/sqrt 2)),

where no exponential cancels; for small mu the difference is taken by its Taylor series.
"""

from __future__ import annotations

import math

from scipy.optimize import brentq
from scipy.special import erfcx, log_ndtr, ndtr

from dpstats.data.parameters import check_real
from dpstats.errors import InvalidParameter

_SQRT2 = math.sqrt(2.0)

# The curve is computed to a relative error below 1e-12 (checked against 60 digits): raised by as
# much it is one-sided, and so is what is solved from it, in steps of this size.
_ROUNDING = 1e-12


def gaussian_profile(epsilon: float, mu: float) -> float:
    """Return the smallest delta of Gaussian noise with mu = sensitivity/sigma, rounded up."""
    if mu == 0:
        return 0.0
    a = mu / 2 - epsilon / mu
    b = -mu / 2 - epsilon / mu
    if a > 5:
        delta = float(ndtr(a) - math.exp(epsilon + log_ndtr(b)))
    elif a < -39:
        delta = 0.0
    else:
        delta = 0.5 * math.exp(-a * a / 2) * _erfcx_drop(epsilon / (mu * _SQRT2), mu / (2 * _SQRT2))
    return min(1.0, max(0.0, delta * (1 + _ROUNDING)))


def _erfcx_drop(x: float, half: float) -> float:
    """Return erfcx(x - half) - erfcx(x + half), also where half is small."""
    if half > 0.02 * max(1.0, abs(x - half)):
        return float(erfcx(x - half) - erfcx(x + half))
    # Odd derivatives at the middle: f' = 2xf - 2/sqrt(pi), then f^(n) = 2x f^(n-1) + 2(n-1) f^(n-2).
    previous, current = float(erfcx(x)), _erfcx_slope(x)
    total, term = 0.0, half
    for order in range(1, 12):
        if order % 2:
            total += current * term
        previous, current = current, 2 * x * current + 2 * order * previous
        term *= half / (order + 1)
    return -2 * total


def _erfcx_slope(x: float) -> float:
    if x < 6:
        return 2 * x * float(erfcx(x)) - 2 / math.sqrt(math.pi)
    # Asymptotic series where 2x erfcx(x) and 2/sqrt(pi) nearly cancel.
    total, term = 0.0, 1.0
    for n in range(1, 30):
        step = term * -(2 * n - 1) / (2 * x * x)
        if abs(step) >= abs(term) or abs(step) < 1e-18:
            break
        term = step
        total += term
    return 2 / math.sqrt(math.pi) * total


def _check_sensitivity(sensitivity: float) -> float:
    return check_real("sensitivity", sensitivity, above=0)


def gaussian_delta(epsilon: float, sigma: float, sensitivity: float = 1.0) -> float:
    """Return the smallest delta for which Gaussian noise is (epsilon, delta)-private.

    Parameters
    ----------
    epsilon : float
        At least 0.
    sigma : float
        Standard deviation of the noise, in the units of ``sensitivity``.
    sensitivity : float, default=1.0
        Largest l2 distance of the statistic between neighbouring datasets.

    Returns
    -------
    float
        delta in [0, 1].

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
    return gaussian_profile(epsilon, _check_sensitivity(sensitivity) / sigma)


def gaussian_sigma(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """Return the smallest noise that makes a Gaussian release (epsilon, delta)-private.

    Parameters
    ----------
    epsilon : float
        Greater than 0.
    delta : float
        Strictly between 0 and 1: Gaussian noise is never (epsilon, 0)-private.
    sensitivity : float, default=1.0
        Largest l2 distance of the statistic between neighbouring datasets.

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
        raise InvalidParameter(
            "delta must be greater than 0 for Gaussian noise, got 0: its tails are too light for pure privacy; "
            "use Laplace noise (delta = 0)"
        )
    low, high = 1e-8, 1.0
    while gaussian_profile(epsilon, high) < delta:
        high *= 2
    while gaussian_profile(epsilon, low) > delta:
        low /= 2

    def gap(log_mu: float) -> float:
        value = gaussian_profile(epsilon, math.exp(log_mu))
        return (math.log(value) if value > 0 else -1e4) - math.log(delta)

    mu = math.exp(brentq(gap, math.log(low), math.log(high), xtol=1e-14, rtol=1e-14))
    sigma = sensitivity / mu
    while gaussian_profile(epsilon, sensitivity / sigma) > delta:
        sigma *= 1 + _ROUNDING
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
        Largest l2 distance of the statistic between neighbouring datasets.

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
    mu = _check_sensitivity(sensitivity) / sigma
    delta = check_real("delta", delta, above=0, below=1)
    return epsilon_of_mu(mu, delta)


def epsilon_of_mu(mu: float, delta: float) -> float:
    """Return the smallest epsilon of Gaussian noise with mu = sensitivity/sigma, rounded up."""
    if gaussian_profile(0.0, mu) <= delta:
        return 0.0

    # In units of mu the root is at most mu/2 + 40: beyond, delta is below the smallest float.
    def gap(ratio: float) -> float:
        value = gaussian_profile(ratio * mu, mu)
        return (math.log(value) if value > 0 else -1e4) - math.log(delta)

    epsilon = mu * float(brentq(gap, 0.0, mu / 2 + 40, xtol=1e-300, rtol=1e-14))
    while gaussian_profile(epsilon, mu) > delta:
        epsilon = epsilon * (1 + _ROUNDING) + 5e-324
    return epsilon


# What discreteness may cost. A budget sets the first part of delta aside for it, and so does a plan, so
# that a plan for a whole budget fits it; a plan on a coarse lattice takes the second.
LATTICE_SHARE, LARGEST_LATTICE_SHARE = 1e-6, 1e-3

# Total variation, per coordinate, between discrete Gaussian noise of s >= 10 steps and rounded continuous noise is
# below 0.021/s^2 (docs/proofs/gaussian.md).
TOTAL_VARIATION, SMALLEST_STEPS = 0.021, 10.0
