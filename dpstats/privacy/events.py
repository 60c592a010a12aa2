"""The privacy cost of a single release, as a frozen event. Proofs: docs/proofs/composition.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_integer, check_real
from dpstats.errors import InvalidParameter, refuse
from dpstats.privacy.gaussian import gaussian_profile
from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee, delta_of_two
from dpstats.privacy.rounding import check_cost, two_product, two_sum, up
from dpstats.privacy.zcdp import zcdp_delta

Epsilons = NDArray[np.float64]

_LARGEST_COST = 1e100  # its square is a float
_LARGEST_MU = 1e100

# Curves are computed to a relative error below 1e-14, and raised by as much, and by the smallest float where
# they are not 0: they are never below the truth.
_ROUNDING = 1e-14
_TINY = 5e-324


# An event is the information that an accountant needs about one release: names and numbers, without data or noise.
# Numbers may have any real type and stand for their exact value. They are stored as Python floats and ints.
#
# Each event has a profile: a delta proved for it at any epsilon. Some events also have a pure epsilon, a zero-
# concentrated rho, or the profile of a dominating pair. Loss distributions are built from this pair.
@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One release. ``neighbors`` is the relation that its numbers are for."""

    neighbors: Neighbors = Neighbors.REPLACE_ONE

    def __post_init__(self) -> None:
        if not isinstance(self.neighbors, Neighbors):
            raise refuse("neighbors", given=self.neighbors, allowed="a member of Neighbors")

    def profile(self, epsilon: float) -> float:
        """Return a delta for which the release is proved to be (epsilon, delta)-private; epsilon >= 0."""
        at = np.array([epsilon], dtype=np.float64)
        curve, back = self.curve(at), self.back_curve(at)
        if curve is None or back is None:
            raise InvalidParameter(f"{type(self).__name__} does not define a profile")
        return max(float(curve[0]), float(back[0]))

    @property
    def symmetric(self) -> bool:
        """Whether the dominating pair has the same profile in both directions."""
        return True

    def curve(self, epsilons: Epsilons) -> Epsilons | None:
        """Return the profile of a dominating pair at epsilons >= 0; None if there is none.

        Never below the profile, and above it by less than a relative 1e-12 (or 1e-323). Losses of the
        pair are at most `largest_loss`, but for infinite ones.
        """
        return None

    def back_curve(self, epsilons: Epsilons) -> Epsilons | None:
        """Return the profile of the same pair in the other direction."""
        return self.curve(epsilons)

    def largest_loss(self) -> float:
        """Return the largest finite loss of the dominating pair."""
        return math.inf

    def reach(self, small: float) -> float:
        """Return a loss from which on the profile is at most ``small``, except for infinite losses."""
        low, high = 0.0, self.largest_loss()
        if math.isfinite(high):
            return high
        high = 1.0
        while self.profile(high) > small:
            low, high = high, 2 * high
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if self.profile(middle) > small else (low, middle)
        return high

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
        raise InvalidParameter(f"{type(self).__name__} does not define a conversion to REPLACE_ONE")

    _keep = object.__setattr__  # sets a checked number of a frozen event

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
        self._keep("mu", check_cost("mu", self.mu, at_most=_LARGEST_MU))
        self._keep("total_variation", check_cost("total_variation", self.total_variation))

    def profile(self, epsilon: float) -> float:
        epsilon = float(epsilon)
        curve, slack = gaussian_profile(epsilon, self.mu), lattice_slack(epsilon, self.total_variation)
        # Both terms are raised, and by far more than the last digit of their sum.
        return min(1.0, (curve + slack) * (1 + 2.0**-52) if slack else curve)

    def zcdp_cost(self) -> float:
        return _half_square(self.mu)

    def _twice(self) -> Event:
        return self._converted(mu=2 * self.mu)


def lattice_slack(epsilon: float, total_variation: float) -> float:
    """Return the delta of a distance in total variation: (1 + e^epsilon) times the distance, rounded up."""
    if total_variation == 0:
        return 0.0
    epsilon, total_variation = float(epsilon), float(total_variation)
    if epsilon >= 700:
        return math.inf
    # A sum, an exponential and a product: four units in the last place, or half of the smallest float.
    return (1 + math.exp(epsilon)) * total_variation * (1 + 2.0**-50) + _TINY


@lru_cache(maxsize=1024)
def _half_square(number: float, share: int = 2) -> float:
    """Return number^2/share, rounded up."""
    return up(Fraction(number) ** 2 / share)


@lru_cache(maxsize=1024)
def _quotient_up(numerator: int, denominator: float) -> float:
    return up(Fraction(numerator) / Fraction(denominator))


def _raised(curve: Epsilons, below: Any) -> Epsilons:
    """Return a curve raised by more than its rounding error below the largest loss, and 0 from there on."""
    return np.where(below, np.minimum(curve * (1 + _ROUNDING) + _TINY, 1.0), 0.0)


def _response_curve(epsilons: Epsilons, epsilon: float, delta: float) -> Epsilons:
    """Return the profile of randomized response, the worst (epsilon, delta)-private release.

    delta + (1 - delta) (e^epsilon - e^x)_+/(1 + e^epsilon): Kairouz, Oh and Viswanath (2015).
    """
    below = np.minimum(epsilons - epsilon, 0.0)
    pure = -np.expm1(below) / (1 + math.exp(-epsilon))
    return np.maximum(_raised(delta + (1 - delta) * pure, below < 0), delta)


@dataclass(frozen=True, slots=True)
class Pure(Event):
    """A release with a known pure epsilon, and no other known properties."""

    epsilon: float

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        self._keep("epsilon", check_cost("epsilon", self.epsilon, at_most=_LARGEST_COST))

    def curve(self, epsilons: Epsilons) -> Epsilons:
        return _response_curve(epsilons, self.epsilon, 0.0)

    def largest_loss(self) -> float:
        return self.epsilon

    def pure_cost(self) -> float:
        return self.epsilon

    def zcdp_cost(self) -> float:
        return _half_square(self.epsilon)

    def _twice(self) -> Event:
        return self._converted(epsilon=2 * self.epsilon)


@dataclass(frozen=True, slots=True)
class Approximate(Event):
    """A release with a known (epsilon, delta), and no other known properties."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        self._keep("epsilon", check_cost("epsilon", self.epsilon, at_most=_LARGEST_COST))
        self._keep("delta", check_cost("delta", self.delta, at_most=1))

    def curve(self, epsilons: Epsilons) -> Epsilons:
        return _response_curve(epsilons, self.epsilon, self.delta)

    def largest_loss(self) -> float:
        return self.epsilon

    def pure_cost(self) -> float | None:
        return self.epsilon if self.delta == 0 else None

    def zcdp_cost(self) -> float | None:
        return _half_square(self.epsilon) if self.delta == 0 else None

    def _twice(self) -> Event:
        return self._converted(epsilon=2 * self.epsilon, delta=delta_of_two(self.epsilon, self.delta))


@dataclass(frozen=True, slots=True)
class DiscreteLaplace(Event):
    """Discrete Laplace noise: an l1 sensitivity in steps against a scale in steps.

    One coordinate moved by the whole sensitivity dominates several that share it.
    """

    sensitivity: int
    scale: float

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        self._keep("sensitivity", check_integer("sensitivity", self.sensitivity, at_least=0, at_most=2**100))
        check_real("scale", self.scale, above=0)
        # Round toward a smaller scale, which costs more. Reject a number outside the range of floats.
        self._keep("scale", check_cost("scale", self.scale, dearer=0.0))
        check_real("scale", self.scale, above=0)
        check_real("sensitivity/scale", self.sensitivity / self.scale, at_least=0, at_most=_LARGEST_COST)

    def curve(self, epsilons: Epsilons) -> Epsilons:
        # Let w = sensitivity/scale - epsilon. The outputs with a loss above epsilon are the j least likely outputs of
        # the other side, with j = ceil(w scale/2). Let u = j/scale. The profile is
        #     ((1 - e^-u) + e^(-1/scale) (1 - e^(u - w)))/(1 + e^(-1/scale)),    and (1 - e^-w)/(...) for j = 1.
        # This form has no cancellation (docs/proofs/composition.md).
        left = self._steps_left(epsilons)
        inside = np.maximum(left, 0.0)
        count = np.maximum(np.ceil(inside / 2), 1.0)
        with np.errstate(over="ignore", under="ignore"):
            near, rest = count / self.scale, inside / self.scale
        # The error of w - u is small against u, which is at least w/2 and whose term is added.
        far = np.maximum(rest - np.minimum(near, rest), 0.0)
        decay = math.exp(-1 / self.scale)
        several = -np.expm1(-near) - decay * np.expm1(-far)
        share = np.where(count == 1, -np.expm1(-rest), several) / (1 + decay)
        return _raised(share, left > 0)

    def _steps_left(self, epsilons: Epsilons) -> Epsilons:
        """Return sensitivity - epsilon scale, to a few units in its own last place."""
        scale, scale_bits = math.frexp(self.scale)
        parts, bits = np.frexp(np.minimum(epsilons, 2 * _LARGEST_COST))
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            product, lost = two_product(parts, scale)
            product, lost = np.ldexp(product, bits + scale_bits), np.ldexp(lost, bits + scale_bits)
            whole = float(self.sensitivity)
            total, error = two_sum(whole, -product)
            rest, rest_error = two_sum(float(self.sensitivity - int(whole)), -lost)
            left = total + (error + (rest + rest_error))
        return np.where(np.isfinite(product), left, -1.0)

    def largest_loss(self) -> float:
        return self.pure_cost()

    def pure_cost(self) -> float:
        return _quotient_up(self.sensitivity, self.scale)

    def exact_pure_cost(self) -> Fraction:
        """Return sensitivity/scale, which a float may be unable to hold."""
        return Fraction(self.sensitivity) / Fraction(self.scale)

    def zcdp_cost(self) -> float:
        return _half_square(self.pure_cost())

    def _twice(self) -> Event:
        return self._converted(sensitivity=2 * self.sensitivity)


@dataclass(frozen=True, slots=True)
class BoundedRange(Event):
    """A selection whose log-probabilities move within a range of ``epsilon``.

    Examples are the exponential mechanism, and report noisy max with Gumbel noise, which has the same distribution.
    Composition is twice as good as for `Pure`: rho = epsilon^2/8 (Dong, Durfee and Rogers 2020).
    """

    epsilon: float

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        self._keep("epsilon", check_cost("epsilon", self.epsilon, at_most=_LARGEST_COST))

    def curve(self, epsilons: Epsilons) -> Epsilons:
        # (e^(a/2) - e^(x/2))^2/(e^a - 1), divided through by e^a.
        if self.epsilon == 0:
            return np.zeros_like(epsilons)
        below = np.minimum(epsilons - self.epsilon, 0.0)
        drop = -np.expm1(below / 2)
        curve = drop * (drop / -math.expm1(-self.epsilon))
        return _raised(curve, below < 0)

    def largest_loss(self) -> float:
        return self.epsilon

    def pure_cost(self) -> float:
        return self.epsilon

    def zcdp_cost(self) -> float:
        return _half_square(self.epsilon, 8)

    def _twice(self) -> Event:
        return self._converted(epsilon=2 * self.epsilon)


@dataclass(frozen=True, slots=True)
class ZCDP(Event):
    """A release with a known zero-concentrated rho, and no other known properties."""

    rho: float

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        self._keep("rho", check_cost("rho", self.rho, at_most=_LARGEST_COST))

    def profile(self, epsilon: float) -> float:
        return zcdp_delta(self.rho, epsilon)

    def zcdp_cost(self) -> float:
        return self.rho

    def _twice(self) -> Event:
        return self._converted(rho=4 * self.rho)


def as_event(item: Event | PrivacyGuarantee) -> Event:
    """Return an event unchanged, and a guarantee as an event without other known properties."""
    if isinstance(item, Event):
        return item
    if not isinstance(item, PrivacyGuarantee):
        raise refuse("event", given=item, allowed="a PrivacyGuarantee or an event")
    if item.delta == 0:
        return Pure(item.epsilon, neighbors=item.neighbors)
    return Approximate(item.epsilon, item.delta, neighbors=item.neighbors)


def dearer(event: Event, numbers: Sequence[Fraction]) -> tuple[Event, Event]:
    """Return the event with the more expensive of its own and the given number in every field, and with the given ones.

    ``numbers`` are in the order of `number_names`.
    """
    given = {
        name: type(getattr(event, name))(number)
        for name, number in zip(number_names(event), numbers, strict=True)
    }
    worst = {
        name: (min if name == "scale" else max)(getattr(event, name), number)
        for name, number in given.items()
    }
    return replace(event, **worst), replace(event, **given)


def number_names(event: Event) -> list[str]:
    """Return the names of an event's numbers, in the order in which its repr has them."""
    return [field.name for field in fields(event) if field.name != "neighbors"]
