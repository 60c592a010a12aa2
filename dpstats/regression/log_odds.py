"""Normal log odds: how a Newton step at coefficients of 0 distorts them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit

_FINE_NODES, _FINE_WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
_FINE_WEIGHTS = _FINE_WEIGHTS / _FINE_WEIGHTS.sum()
_MOST = 4.0
"""Above this standard deviation all log odds give nearly the same gradient. Later steps approach them from below."""


def derivative(odds: Any) -> NDArray[np.float64]:
    """Return p(1 - p) at log odds."""
    p = expit(odds)
    return np.asarray(p * (1 - p))


def _center(rate: float, spread: float) -> float:
    """Return the mean of normal log odds with standard deviation ``spread`` that gives outcomes this rate."""
    reach = 40 + 4 * spread
    return float(brentq(lambda a: expit(a + spread * _FINE_NODES) @ _FINE_WEIGHTS - rate, -reach, reach))


def normal_log_odds(start: float, spread: float) -> tuple[float, float]:
    """Return the factor that lengthens a first Newton step, and the correction of its intercept.

    Let the log odds be normal. By Stein's lemma the gradient at coefficients of 0 is E[p(1 - p)] times the true
    coefficients. The step divides by p(1 - p) at ``start`` instead. ``spread`` is the standard deviation of the log
    odds after that step. The log odds before and after the correction give the same rate of outcomes.
    """
    if spread <= 0:
        return 1.0, 0.0
    rate, pull = float(expit(start)), float(derivative(start)) * spread

    def short(s: float) -> float:
        return s * float(derivative(_center(rate, s) + s * _FINE_NODES) @ _FINE_WEIGHTS) - pull

    end = max(_MOST, spread)
    found = end if short(end) <= 0 else float(brentq(short, 0.0, end, xtol=1e-6))
    farther = max(found / spread, 1.0)
    return farther, _center(rate, farther * spread) - start
