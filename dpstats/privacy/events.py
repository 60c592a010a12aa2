"""What a release costs, before anything is added up: frozen events.

An event is all that an accountant needs to know about one release: names and numbers, no
data, no noise. Each knows its profile (a delta proved for it at any epsilon) and, where it
has them, its pure epsilon and its zero-concentrated rho.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpstats.errors import InvalidParameter
from dpstats.privacy.gaussian import gaussian_profile
from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee
from dpstats.privacy.zcdp import zcdp_delta
from dpstats.validation import check_integer, check_real


def pure_profile(claimed: float, epsilon: float) -> float:
    """Return the delta at ``epsilon`` of the worst release that is purely ``claimed``-private.

    It is randomized response: (e^claimed - e^epsilon)/(1 + e^claimed), Kairouz, Oh and
    Viswanath (2015).
    """
    return max(0.0, -math.expm1(epsilon - claimed) / (1 + math.exp(-claimed))) if epsilon < claimed else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One release. ``neighbors`` is the relation that its numbers are for."""

    neighbors: Neighbors = Neighbors.REPLACE_ONE

    def __post_init__(self) -> None:
        if not isinstance(self.neighbors, Neighbors):
            raise InvalidParameter(f"neighbors must be a member of Neighbors, got {self.neighbors!r}")

    def profile(self, epsilon: float) -> float:
        """Return a delta for which the release is proved to be (epsilon, delta)-private."""
        raise NotImplementedError

    def pure_cost(self) -> float | None:
        """Return the epsilon of pure privacy, or None if the release is not pure."""
        return None

    def zcdp_cost(self) -> float | None:
        """Return the rho of zero-concentrated privacy, or None if it has none."""
        return None


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


def lattice_slack(epsilon: float, total_variation: float) -> float:
    """Return what a distance in total variation adds to delta: (1 + e^epsilon) times it."""
    if total_variation == 0:
        return 0.0
    return (1 + math.exp(epsilon)) * total_variation if epsilon < 700 else math.inf


@dataclass(frozen=True, slots=True)
class Pure(Event):
    """A release of which only its pure epsilon is known."""

    epsilon: float

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        check_real("epsilon", self.epsilon, at_least=0)

    def profile(self, epsilon: float) -> float:
        return pure_profile(self.epsilon, epsilon)

    def pure_cost(self) -> float:
        return self.epsilon

    def zcdp_cost(self) -> float:
        return self.epsilon**2 / 2


@dataclass(frozen=True, slots=True)
class DiscreteLaplace(Event):
    """Discrete Laplace noise: an l1 sensitivity in steps against a scale in steps."""

    sensitivity: int
    scale: float

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        check_integer("sensitivity", self.sensitivity, at_least=0)
        check_real("scale", self.scale, above=0)

    def profile(self, epsilon: float) -> float:
        return pure_profile(self.pure_cost(), epsilon)

    def pure_cost(self) -> float:
        return self.sensitivity / self.scale

    def zcdp_cost(self) -> float:
        return self.pure_cost() ** 2 / 2


@dataclass(frozen=True, slots=True)
class Approximate(Event):
    """A release of which only (epsilon, delta) is known."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        check_real("epsilon", self.epsilon, at_least=0)
        check_real("delta", self.delta, at_least=0, at_most=1)

    def profile(self, epsilon: float) -> float:
        return min(1.0, self.delta + (1 - self.delta) * pure_profile(self.epsilon, epsilon))

    def pure_cost(self) -> float | None:
        return self.epsilon if self.delta == 0 else None


@dataclass(frozen=True, slots=True)
class ZCDP(Event):
    """A release of which only its zero-concentrated rho is known."""

    rho: float

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        check_real("rho", self.rho, at_least=0)

    def profile(self, epsilon: float) -> float:
        return zcdp_delta(self.rho, epsilon)

    def zcdp_cost(self) -> float:
        return self.rho


def as_event(item: Event | PrivacyGuarantee) -> Event:
    """Return an event as it is, and a guarantee as the event of which only that is known."""
    if isinstance(item, Event):
        return item
    if not isinstance(item, PrivacyGuarantee):
        raise InvalidParameter(f"expected a PrivacyGuarantee or an event, got {type(item).__name__}")
    if item.delta == 0:
        return Pure(item.epsilon, neighbors=item.neighbors)
    return Approximate(item.epsilon, item.delta, neighbors=item.neighbors)
