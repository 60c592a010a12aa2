"""Distributions of a coefficient's error in standard deviations: tail probabilities and quantiles."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, kve, ndtr, ndtri
from scipy.stats import f as f_law
from scipy.stats import t as t_law

from dpstats.data.arithmetic import quiet
from dpstats.error_distributions import ErrorDistribution, Limits, StatedErrors, Tail
from dpstats.regression.bins import Floats


class ErrorLaw(Protocol):
    """The functions of an error distribution that intervals and tests use."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """What p-values of joint tests count beside the degrees of freedom of the residuals, as sentences."""

    def tail(self, z: Any) -> NDArray[np.float64]:
        """Return the probability of an error above z."""

    def reach(self, tail: float) -> float:
        """Return the upper quantile: errors exceed it with probability ``tail``."""

    def joint_tail(self, statistic: float, q: int, left: int) -> float:
        """Return the probability that the Wald statistic of q errors, divided by q, exceeds ``statistic``."""


class Normal:
    """Normal errors."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """No remarks: joint tests have F distributions."""
        return ()

    def tail(self, z: Any) -> NDArray[np.float64]:
        """Return the probability of an error above z."""
        return np.asarray(ndtr(-np.asarray(z)))

    def reach(self, tail: float) -> float:
        """Return the upper quantile: errors exceed it with probability ``tail``."""
        return -float(ndtri(tail))

    def joint_tail(self, statistic: float, q: int, left: int) -> float:
        """Return the probability that the Wald statistic of q errors, divided by q, exceeds ``statistic``."""
        return float(f_law.sf(statistic, q, max(left, 1)))


class Student(Normal):
    """Errors whose variance is estimated with ``degrees`` degrees of freedom, at least 1."""

    def __init__(self, degrees: float) -> None:
        self.degrees = max(degrees, 1)

    def tail(self, z: Any) -> NDArray[np.float64]:
        """Return the probability of an error above z."""
        return np.asarray(t_law.sf(z, self.degrees))

    def reach(self, tail: float) -> float:
        """Return the upper quantile: errors exceed it with probability ``tail``."""
        return float(t_law.isf(tail, self.degrees))


class Robust(Student):
    """Errors whose covariance is estimated by a sandwich, with ``degrees`` degrees of freedom of its meat."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """That the covariance has fewer degrees of freedom than the residuals."""
        return (
            f"The p-value is of Hotelling's T-squared: a robust covariance has about {self.degrees:,.0f} degrees of "
            "freedom.",
        )

    def joint_tail(self, statistic: float, q: int, left: int) -> float:
        """Return the probability that the Wald statistic of q errors, divided by q, exceeds ``statistic``.

        The statistic has the distribution of Hotelling's T^2.
        """
        rest = max(self.degrees - q + 1, 1)
        return float(f_law.sf(statistic * rest / max(self.degrees, rest), q, rest))


class NormalAndLaplace(Normal):
    """Errors that are sums of a normal error and Laplace noise, in any proportions.

    Such an error is normal with a random variance, a weighted sum of exponential variables. Its distribution lies
    between the normal and the Laplace distribution. This class uses the larger of their two tails. The tail of a sum
    exceeds it by at most one part in ten thousand (tests/regression/test_error_laws.py).
    """

    @property
    def remarks(self) -> tuple[str, ...]:
        """That tails are those of Laplace noise where these are heavier."""
        return ("The p-value is the larger of those for normal errors and for Laplace noise.",)

    def tail(self, z: Any) -> NDArray[np.float64]:
        """Return the probability of an error above z."""
        z = np.asarray(z, dtype=np.float64)
        both = ndtr(-np.abs(z)), np.exp(-math.sqrt(2) * np.abs(z)) / 2
        return np.asarray(np.where(z < 0, 1 - np.minimum(*both), np.maximum(*both)))

    def reach(self, tail: float) -> float:
        """Return the upper quantile: errors exceed it with probability ``tail``."""
        side = 1 if tail <= 0.5 else -1
        laplace = -side * math.log(2 * min(tail, 1 - tail)) / math.sqrt(2)
        return max(super().reach(tail), laplace)

    def joint_tail(self, statistic: float, q: int, left: int) -> float:
        """Return the probability that the Wald statistic of q errors, divided by q, exceeds ``statistic``.

        The errors are normal with a common exponential variance, which has the heaviest tails. The integral is a
        Bessel function.
        """
        normal, half, root = super().joint_tail(statistic, q, left), q / 2, math.sqrt(2 * q * statistic)
        if root == 0 or not math.isfinite(root):
            return normal
        bessel = math.log(kve(half, root)) - root if kve(half, root) > 0 else -math.inf
        mixed = math.exp(math.log(2) + half * math.log(root / 2) + bessel - float(gammaln(half)))
        return max(normal, min(mixed, 1.0))


NORMAL, NORMAL_AND_LAPLACE = Normal(), NormalAndLaplace()


@dataclass(frozen=True, eq=False)
class ScaledErrors(StatedErrors, ErrorDistribution):
    """Errors that follow a distribution after division by their standard errors.

    Attributes
    ----------
    law : ErrorLaw
    """

    law: ErrorLaw

    def limits(self, tail: Tail) -> Limits:
        reach = np.array([self.law.reach(each) for each in np.ravel(tail)]).reshape(np.shape(tail))
        half = reach * self.error
        return self.estimate - half, self.estimate + half

    def tails(self, value: Floats) -> Limits:
        z = (self.estimate - value) / self.error
        return self.law.tail(-z), self.law.tail(z)


@dataclass(frozen=True, eq=False)
class MappedErrors(ErrorDistribution):
    """Errors of an increasing function of estimates.

    Attributes
    ----------
    errors : ErrorDistribution
        Distribution of the errors of the estimates.
    forward, backward : function
        The function, and its inverse.
    """

    errors: ErrorDistribution
    forward: Callable[[Floats], Floats]
    backward: Callable[[Floats], Floats]

    @property
    def start(self) -> Floats:
        return self.forward(self.errors.start)

    @property
    def box(self) -> Limits:
        return self._map(self.errors.box)

    def limits(self, tail: Tail) -> Limits:
        return self._map(self.errors.limits(tail))

    def tails(self, value: Floats) -> Limits:
        with quiet():
            return self.errors.tails(self.backward(value))

    def _map(self, limits: Limits) -> Limits:
        # A limit beyond the largest float is infinite.
        with quiet():
            low, high = (self.forward(end) for end in limits)
        return low, high
