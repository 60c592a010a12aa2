"""What a release costs, before anything is added up: frozen events.

An event is all that an accountant needs to know about one release: names and numbers, no
data, no noise. Each knows its profile (a delta proved for it at any epsilon) and, where it has
them, its pure epsilon, its zero-concentrated rho, and the profile of a dominating pair, from
which loss distributions are made. Proofs: docs/proofs/composition.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_integer, check_real
from dpstats.errors import InvalidParameter
from dpstats.privacy.gaussian import gaussian_profile
from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee
from dpstats.privacy.zcdp import zcdp_delta

Epsilons = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One release. ``neighbors`` is the relation that its numbers are for."""

    neighbors: Neighbors = Neighbors.REPLACE_ONE

    def __post_init__(self) -> None:
        if not isinstance(self.neighbors, Neighbors):
            raise InvalidParameter(f"neighbors must be a member of Neighbors, got {self.neighbors!r}")

    def profile(self, epsilon: float) -> float:
        """Return a delta for which the release is proved to be (epsilon, delta)-private; epsilon >= 0."""
        curve = self.curve(np.array([epsilon], dtype=np.float64))
        if curve is None:
            raise InvalidParameter(f"{type(self).__name__} has no profile")
        return float(min(1.0, max(0.0, curve[0])))

    def curve(self, epsilons: Epsilons) -> Epsilons | None:
        """Return the profile of a symmetric dominating pair at epsilons >= 0; None if there is none.

        Losses of the pair are at most `largest_loss`, but for infinite ones.
        """
        return None

    def largest_loss(self) -> float:
        """Return the largest finite loss of the dominating pair."""
        return math.inf

    def pure_cost(self) -> float | None:
        """Return the epsilon of pure privacy, or None if the release is not pure."""
        return None

    def zcdp_cost(self) -> float | None:
        """Return the rho of zero-concentrated privacy, or None if it has none."""
        return None

    def as_replace_one(self) -> Event:
        """Return the event for one row replaced: a replacement is a removal and an addition."""
        return self if self.neighbors is Neighbors.REPLACE_ONE else self._twice()

    def _twice(self) -> Event:
        raise InvalidParameter(f"{type(self).__name__} has no conversion to REPLACE_ONE")

    def _converted(self, **changes: Any) -> Self:
        return replace(self, neighbors=Neighbors.REPLACE_ONE, **changes)


@dataclass(frozen=True, slots=True)
class Gaussian(Event):
    """Gaussian noise on a lattice.

    Parameters
    ----------
    mu : float
        l2 sensitivity over the standard deviation of the noise.
    total_variation : float, default=0.0
        Distance in total variation of the discrete noise drawn from the rounded continuous
        noise, whose curve is exact; see docs/proofs/gaussian.md.

    Notes
    -----
    ``rho = mu^2/2`` holds for continuous and for discrete Gaussian noise alike (Canonne, Kamath
    and Steinke 2020, theorem 14), so no total variation enters it.
    """

    mu: float
    total_variation: float = 0.0

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        check_real("mu", self.mu, at_least=0, at_most=1e100)
        check_real("total_variation", self.total_variation, at_least=0)

    def profile(self, epsilon: float) -> float:
        return min(1.0, gaussian_profile(epsilon, self.mu) + lattice_slack(epsilon, self.total_variation))

    def zcdp_cost(self) -> float:
        return self.mu**2 / 2

    def _twice(self) -> Event:
        return self._converted(mu=2 * self.mu)


def lattice_slack(epsilon: float, total_variation: float) -> float:
    """Return what a distance in total variation adds to delta: (1 + e^epsilon) times it."""
    if total_variation == 0:
        return 0.0
    return (1 + math.exp(epsilon)) * total_variation if epsilon < 700 else math.inf


def _response_curve(epsilons: Epsilons, epsilon: float, delta: float) -> Epsilons:
    """Return the profile of randomized response, the worst (epsilon, delta)-private release.

    delta + (1 - delta) (e^epsilon - e^x)_+/(1 + e^epsilon): Kairouz, Oh and Viswanath (2015).
    """
    pure = -np.expm1(np.minimum(epsilons - epsilon, 0.0)) / (1 + math.exp(-epsilon))
    return delta + (1 - delta) * pure


@dataclass(frozen=True, slots=True)
class Pure(Event):
    """A release of which only its pure epsilon is known."""

    epsilon: float

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        check_real("epsilon", self.epsilon, at_least=0, at_most=1e100)

    def curve(self, epsilons: Epsilons) -> Epsilons:
        return _response_curve(epsilons, self.epsilon, 0.0)

    def largest_loss(self) -> float:
        return self.epsilon

    def pure_cost(self) -> float:
        return self.epsilon

    def zcdp_cost(self) -> float:
        return self.epsilon**2 / 2

    def _twice(self) -> Event:
        return self._converted(epsilon=2 * self.epsilon)


@dataclass(frozen=True, slots=True)
class Approximate(Event):
    """A release of which only (epsilon, delta) is known."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        check_real("epsilon", self.epsilon, at_least=0, at_most=1e100)
        check_real("delta", self.delta, at_least=0, at_most=1)

    def curve(self, epsilons: Epsilons) -> Epsilons:
        return _response_curve(epsilons, self.epsilon, self.delta)

    def largest_loss(self) -> float:
        return self.epsilon

    def pure_cost(self) -> float | None:
        return self.epsilon if self.delta == 0 else None

    def zcdp_cost(self) -> float | None:
        return self.epsilon**2 / 2 if self.delta == 0 else None

    def _twice(self) -> Event:
        factor = 1 + math.exp(min(self.epsilon, 700.0))
        return self._converted(epsilon=2 * self.epsilon, delta=min(1.0, factor * self.delta))


@dataclass(frozen=True, slots=True)
class DiscreteLaplace(Event):
    """Discrete Laplace noise: an l1 sensitivity in steps against a scale in steps.

    One coordinate moved by the whole sensitivity dominates several that share it.
    """

    sensitivity: int
    scale: float

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        check_integer("sensitivity", self.sensitivity, at_least=0, at_most=2**100)
        check_real("scale", self.scale, above=0)
        check_real("sensitivity/scale", self.sensitivity / self.scale, at_least=0, at_most=1e100)

    def curve(self, epsilons: Epsilons) -> Epsilons:
        # Nothing is lost beyond the largest loss, and nothing overflows below it.
        inside = np.minimum(epsilons, min(self.largest_loss(), 700.0))
        return np.where(epsilons < self.largest_loss(), self._curve_inside(inside), 0.0)

    def _curve_inside(self, epsilons: Epsilons) -> Epsilons:
        # Outputs k with loss (sensitivity - 2k)/scale above epsilon: k <= last.
        last = np.ceil((self.sensitivity - epsilons * self.scale) / 2) - 1
        below = self._cumulative(last) - np.exp(epsilons) * self._cumulative(last - self.sensitivity)
        return np.maximum(below, 0.0)

    def _cumulative(self, steps: Epsilons) -> Epsilons:
        """Return P(noise <= steps)."""
        tail = np.exp(-np.where(steps >= 0, steps + 1, -steps) / self.scale) / (1 + math.exp(-1 / self.scale))
        return np.where(steps >= 0, 1 - tail, tail)

    def largest_loss(self) -> float:
        return self.pure_cost()

    def pure_cost(self) -> float:
        return self.sensitivity / self.scale

    def zcdp_cost(self) -> float:
        return self.pure_cost() ** 2 / 2

    def _twice(self) -> Event:
        return self._converted(sensitivity=2 * self.sensitivity)


@dataclass(frozen=True, slots=True)
class BoundedRange(Event):
    """A selection whose log-probabilities move within a range of ``epsilon``.

    The exponential mechanism, and report noisy max with Gumbel noise, which has its law. Twice
    better than `Pure` under composition: rho = epsilon^2/8 (Dong, Durfee and Rogers 2020).
    """

    epsilon: float

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        check_real("epsilon", self.epsilon, at_least=0, at_most=1e100)

    def curve(self, epsilons: Epsilons) -> Epsilons:
        # (e^(a/2) - e^(x/2))^2/(e^a - 1), divided through by e^a.
        drop = -np.expm1(np.minimum(epsilons - self.epsilon, 0.0) / 2)
        return drop**2 / -math.expm1(-self.epsilon) if self.epsilon > 0 else np.zeros_like(epsilons)

    def largest_loss(self) -> float:
        return self.epsilon

    def pure_cost(self) -> float:
        return self.epsilon

    def zcdp_cost(self) -> float:
        return self.epsilon**2 / 8

    def _twice(self) -> Event:
        return self._converted(epsilon=2 * self.epsilon)


@dataclass(frozen=True, slots=True)
class ZCDP(Event):
    """A release of which only its zero-concentrated rho is known."""

    rho: float

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        check_real("rho", self.rho, at_least=0, at_most=1e100)

    def profile(self, epsilon: float) -> float:
        return zcdp_delta(self.rho, epsilon)

    def zcdp_cost(self) -> float:
        return self.rho

    def _twice(self) -> Event:
        return self._converted(rho=4 * self.rho)


def as_event(item: Event | PrivacyGuarantee) -> Event:
    """Return an event as it is, and a guarantee as the event of which only that is known."""
    if isinstance(item, Event):
        return item
    if not isinstance(item, PrivacyGuarantee):
        raise InvalidParameter(f"expected a PrivacyGuarantee or an event, got {type(item).__name__}")
    if item.delta == 0:
        return Pure(item.epsilon, neighbors=item.neighbors)
    return Approximate(item.epsilon, item.delta, neighbors=item.neighbors)
