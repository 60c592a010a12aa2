"""Events for releases from a random sample of the rows. Proofs: docs/proofs/composition.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

from dpstats.data.parameters import check_real
from dpstats.errors import InvalidParameter, refuse
from dpstats.privacy.events import Epsilons, Event, Gaussian
from dpstats.privacy.gaussian import gaussian_curve
from dpstats.privacy.guarantee import Neighbors

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
    >>> from dpstats.privacy.sampled import Sampled
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
        of_sample = np.where(epsilons < 600, of_sample, epsilons - math.log(self.rate)) * (
            1 - _MIXTURE_ROUNDING
        )
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
        return (
            largest
            if largest >= 600
            else math.log1p(self.rate * math.expm1(largest)) * (1 + _MIXTURE_ROUNDING)
        )

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
    >>> from dpstats.privacy.sampled import GaussianMixture
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
            numbers = tuple(
                check_real(name, number, at_least=0, at_most=at_most, of=given) for number in given
            )
            object.__setattr__(self, name, numbers)
        if len(self.shifts) != len(self.chances):
            raise refuse(
                "chances", got=f"{len(self.chances)} and {len(self.shifts)}", allowed="as many as shifts"
            )
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
        high = (
            np.maximum(losses, 0) - math.log(self.chances[self.shifts.index(largest)])
        ) / largest + largest
        for _ in range(80):
            middle = (low + high) / 2
            below = self._losses(middle) < losses
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return high

    def curve(self, epsilons: Epsilons) -> Epsilons:
        if max(self.shifts) == 0:
            return np.zeros_like(epsilons)
        x = self._outputs(epsilons)
        with_row = sum(
            chance * ndtr(shift - x) for shift, chance in zip(self.shifts, self.chances, strict=True)
        )
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
