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
from scipy.special import log_ndtr, ndtr

from dpstats.data.parameters import check_integer, check_real
from dpstats.errors import InvalidParameter, refuse
from dpstats.privacy.gaussian import LARGEST_MU, gaussian_curve, gaussian_profile, zcdp_delta
from dpstats.privacy.guarantee import (
    TINY,
    Neighbors,
    PrivacyGuarantee,
    check_cost,
    delta_of_two,
    two_product,
    two_sum,
    up,
)

Epsilons = NDArray[np.float64]

_LARGEST_COST = 1e100  # its square is a float

# Curves are computed to a relative error below 1e-14, and raised by as much, and by the smallest float where
# they are not 0: they are never below the truth.
_ROUNDING = 1e-14


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
        self._keep("mu", check_cost("mu", self.mu, at_most=LARGEST_MU))
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
    return (1 + math.exp(epsilon)) * total_variation * (1 + 2.0**-50) + TINY


@lru_cache(maxsize=1024)
def _half_square(number: float, share: int = 2) -> float:
    """Return number^2/share, rounded up."""
    return up(Fraction(number) ** 2 / share)


@lru_cache(maxsize=1024)
def _quotient_up(numerator: int, denominator: float) -> float:
    return up(Fraction(numerator) / Fraction(denominator))


def _raised(curve: Epsilons, below: Any) -> Epsilons:
    """Return a curve raised by more than its rounding error below the largest loss, and 0 from there on."""
    return np.where(below, np.minimum(curve * (1 + _ROUNDING) + TINY, 1.0), 0.0)


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
        raise refuse("event", got=f"a {type(item).__name__}", allowed="a PrivacyGuarantee or an event")
    if item.delta == 0:
        return Pure(item.epsilon, neighbors=item.neighbors)
    return Approximate(item.epsilon, item.delta, neighbors=item.neighbors)


def dearer(event: Event, numbers: Sequence[Fraction]) -> tuple[Event, Event]:
    """Return the event with the more expensive of its own and the given number in every field, and with the given ones.

    ``numbers`` are in the order of `number_names`.
    """
    given = {
        name: type(getattr(event, name))(number) for name, number in zip(number_names(event), numbers, strict=True)
    }
    worst = {name: (min if name == "scale" else max)(getattr(event, name), number) for name, number in given.items()}
    return replace(event, **worst), replace(event, **given)


def number_names(event: Event) -> list[str]:
    """Return the names of an event's numbers, in the order in which its repr has them."""
    return [field.name for field in fields(event) if field.name != "neighbors"]


# Curves are raised by this share, which is more than their rounding error.
_MIXTURE_ROUNDING = 1e-13
_LEAST_PROFILE = 1e-300


# No release of this package uses sampling. These events are for releases of other libraries: `compose` computes
# their total, and a budget is charged for it.
@dataclass(frozen=True, slots=True)
class Sampled(Event):
    """A release from a random sample of the rows.

    Parameters
    ----------
    event : Gaussian, DiscreteLaplace, Pure, Approximate or BoundedRange
        Privacy cost of the release, for the rows of the sample.
    rate : float
        In (0, 1]. The probability with which a row is in the sample.

    Notes
    -----
    The relation of ``event`` determines the sampling. For `Neighbors.ADD_OR_REMOVE_ONE`, every row is in the sample
    independently of the others (Poisson sampling). For `Neighbors.REPLACE_ONE`, the sample has a public number of rows
    m and is drawn without replacement from n rows, with ``rate = m/n``.

    With Poisson sampling, removing a row and adding a row have different profiles. `compose` computes both totals and
    returns the larger one.

    References
    ----------
    Balle, Barthe and Gaboardi (2018), theorems 8 and 9; Zhu, Dong and Wang (2022), theorem 11.

    Examples
    --------
    A thousand steps of stochastic gradient descent, with noise of twice the clipping norm:

    >>> from dpstats.privacy import Neighbors, compose
    >>> from dpstats.privacy.events import Gaussian
    >>> from dpstats.privacy.events import Sampled
    >>> step = Sampled(Gaussian(1 / 2, neighbors=Neighbors.ADD_OR_REMOVE_ONE), 0.01)
    >>> print(compose([step] * 1000, delta=1e-5))
    (epsilon = 0.622328, delta = 1e-05), one row added or removed
    """

    event: Event
    rate: float

    def __post_init__(self) -> None:
        if not isinstance(self.event, Event) or isinstance(self.event, Sampled | GaussianMixture):
            raise refuse("event", given=self.event, allowed="an event that is not sampled")
        if isinstance(self.event, Gaussian):
            if self.event.total_variation:
                raise refuse("event", allowed="continuous Gaussian noise: total_variation must be 0")
        elif self.event.curve(np.zeros(1)) is None:
            raise refuse("event", given=self.event, allowed="have a curve")
        self._set("rate", check_real("rate", self.rate, above=0, at_most=1))
        self._set("neighbors", self.event.neighbors)

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _base_curve(self, epsilons: Epsilons) -> Epsilons:
        """Return the profile of the release from the sample."""
        if isinstance(self.event, Gaussian):
            return gaussian_curve(epsilons, self.event.mu)
        curve = self.event.curve(epsilons)
        assert curve is not None
        return curve

    def curve(self, epsilons: Epsilons) -> Epsilons:
        # A loss of the sampled release as one of the release: rounded down, as the profile falls.
        with np.errstate(over="ignore"):
            of_sample = np.log1p(np.expm1(epsilons) / self.rate)
        of_sample = np.where(epsilons < 600, of_sample, epsilons - math.log(self.rate)) * (1 - _MIXTURE_ROUNDING)
        return _raise_curve(self.rate * self._base_curve(np.maximum(of_sample, 0.0)))

    def back_curve(self, epsilons: Epsilons) -> Epsilons:
        if self.symmetric:
            return self.curve(epsilons)
        inside = np.expm1(-epsilons) / self.rate
        # Beyond the largest loss, 1 - (1 - rate) e^epsilon is 0 too.
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            of_sample = -np.log1p(np.maximum(inside, -1.0)) * (1 - _MIXTURE_ROUNDING)
            share = -np.expm1(epsilons + math.log1p(-self.rate)) if self.rate < 1 else np.ones_like(epsilons)
        of_sample = np.minimum(np.maximum(of_sample, 0.0), 1e100)
        # This factor cancels where it is small: it is raised by the rounding error of the exponent.
        share = np.maximum(share, 0.0) + _MIXTURE_ROUNDING
        return _raise_curve(share * self._base_curve(of_sample))

    @property
    def symmetric(self) -> bool:
        return self.neighbors is Neighbors.REPLACE_ONE or self.rate == 1

    def pure_cost(self) -> float | None:
        cost = self.event.pure_cost()
        if cost is None:
            return None
        if cost >= 600:
            return cost
        return min(cost, math.log1p(self.rate * math.expm1(cost)) * (1 + _MIXTURE_ROUNDING))

    def largest_loss(self) -> float:
        largest = self.event.largest_loss()
        return largest if largest >= 600 else math.log1p(self.rate * math.expm1(largest)) * (1 + _MIXTURE_ROUNDING)

    def _twice(self) -> Event:
        raise InvalidParameter(
            "a release from a Poisson sample has no conversion to REPLACE_ONE: compose the releases first, and convert "
            "their total"
        )


@dataclass(frozen=True, slots=True)
class GaussianMixture(Event):
    """Gaussian noise on a number that one row changes by a random amount.

    Without the row the number is 0, with it ``shifts[i]`` with probability ``chances[i]``, as where a row is in
    several parts of a sample. Noise has standard deviation 1.

    Parameters
    ----------
    shifts : sequence of float
        At least 0, in standard deviations of the noise.
    chances : sequence of float
        Positive, with sum 1.

    References
    ----------
    Choquette-Choo, Ganesh, Steinke and Thakurta (2024), "Privacy amplification for matrix mechanisms".

    Examples
    --------
    >>> from dpstats.privacy import compose
    >>> from dpstats.privacy.events import GaussianMixture
    >>> print(compose([GaussianMixture([0, 0.5, 1.0], [0.9, 0.09, 0.01])] * 20, delta=1e-5))
    (epsilon = 1.33422, delta = 1e-05), one row added or removed
    """

    shifts: tuple[float, ...]
    chances: tuple[float, ...]

    def __post_init__(self) -> None:
        # Of a mixture, and of no mixture: a row added or removed.
        object.__setattr__(self, "neighbors", Neighbors.ADD_OR_REMOVE_ONE)
        for name, at_most in (("shifts", 100.0), ("chances", 1.0)):
            given = getattr(self, name)
            if not isinstance(given, Sequence) or not given:
                raise refuse(name, given=given, allowed="a sequence of numbers")
            numbers = tuple(check_real(name, number, at_least=0, at_most=at_most, of=given) for number in given)
            object.__setattr__(self, name, numbers)
        if len(self.shifts) != len(self.chances):
            raise refuse("chances", got=f"{len(self.chances)} and {len(self.shifts)}", allowed="as many as shifts")
        if min(self.chances) == 0 or abs(math.fsum(self.chances) - 1) > 1e-9:
            raise refuse("chances", allowed="positive, with sum 1")

    @property
    def symmetric(self) -> bool:
        return False

    def _losses(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the loss log(p(x)/q(x)) of outputs, which increases."""
        found = np.full(x.shape, -np.inf)
        for shift, chance in zip(self.shifts, self.chances, strict=True):
            found = np.logaddexp(found, math.log(chance) + shift * (x - shift / 2))
        return found

    def _outputs(self, losses: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return outputs with given losses: at a few units in the last place from where the loss is exactly this."""
        largest = max(self.shifts)
        low = np.full(losses.shape, -1e4)
        # The likeliest component with the largest shift alone reaches the loss there.
        high = (np.maximum(losses, 0) - math.log(self.chances[self.shifts.index(largest)])) / largest + largest
        for _ in range(80):
            middle = (low + high) / 2
            below = self._losses(middle) < losses
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return high

    def curve(self, epsilons: Epsilons) -> Epsilons:
        if max(self.shifts) == 0:
            return np.zeros_like(epsilons)
        x = self._outputs(epsilons)
        with_row = sum(chance * ndtr(shift - x) for shift, chance in zip(self.shifts, self.chances, strict=True))
        without = np.exp(np.minimum(epsilons + log_ndtr(-x), 0.0))
        return _raise_curve(np.maximum(with_row - without, 0.0) + _MIXTURE_ROUNDING * with_row)

    def back_curve(self, epsilons: Epsilons) -> Epsilons:
        if max(self.shifts) == 0:
            return np.zeros_like(epsilons)
        x = self._outputs(-epsilons)
        without = ndtr(x)
        with_row = sum(
            chance * np.exp(np.minimum(epsilons + log_ndtr(x - shift), 0.0))
            for shift, chance in zip(self.shifts, self.chances, strict=True)
        )
        return _raise_curve(np.maximum(without - with_row, 0.0) + _MIXTURE_ROUNDING * without)

    def _twice(self) -> Event:
        raise InvalidParameter(
            "GaussianMixture has no conversion to REPLACE_ONE: compose the releases first, and convert their total"
        )


def _raise_curve(curve: Epsilons) -> Epsilons:
    return np.minimum(curve * (1 + _MIXTURE_ROUNDING) + _LEAST_PROFILE, 1.0)
