"""Privacy filters: what charges of a budget spend together, by a method of composition, in exact fractions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from dpstats.errors import BudgetExceeded, InvalidParameter, refuse
from dpstats.privacy.guarantee import down, root_up, up

if TYPE_CHECKING:
    from dpstats.privacy.events import Event
    from dpstats.privacy.guarantee import PrivacyGuarantee


class Cost(Protocol):
    """The cost of a charge: its events, and their certified guarantee."""

    @property
    def events(self) -> tuple[Event, ...]:
        """The events for the accountant."""

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """The guarantee of all of them together."""


Amounts = tuple[Fraction, Fraction]

NOTHING: Amounts = (Fraction(0), Fraction(0))


@lru_cache(maxsize=1024)
def exact(value: float) -> Fraction:
    """Return the shortest decimal number of a float, so that 0.1 + 0.2 fits into 0.3."""
    return Fraction(repr(value))


def rounded(value: Fraction, *, up: bool) -> float:
    """Return the nearest float whose decimal is not below (``up``) or not above the exact value."""
    number = max(float(value), 0.0)
    while exact(number) < value if up else exact(number) > value:
        number = math.nextafter(number, math.inf if up else 0.0)
    return number


# A filter stores two exact numbers, the amounts spent, and admits a charge if they stay inside a region. The region
# must be a box that is fixed at the start. A rule that lets one amount grow if the other is small fails for adaptive
# choices. For example, "convert rho at the remaining delta" can spend 1.4 times its delta (docs/proofs/budget.md).
class Filter:
    """A composition method for a total of (epsilon, delta)."""

    name = ""
    adaptive = True
    """Whether a charge may depend on earlier answers."""
    largest = "the largest single charge that fits"
    """Description of the result of `remaining`."""

    def __init__(self, epsilon: float, delta: float) -> None:
        self.epsilon, self.delta = epsilon, delta

    def amounts(self, cost: Cost, spent: Amounts) -> Amounts:
        """Return the amounts of a charge, or raise `InvalidParameter` if this filter cannot compose it."""
        raise TypeError(f"{type(self).__name__} does not define amounts")

    def limits(self) -> Amounts:
        """Return the largest admissible amounts."""
        raise TypeError(f"{type(self).__name__} does not define limits")

    def admits(self, spent: Amounts) -> bool:
        """Return whether these totals are inside the region."""
        first, second = self.limits()
        return spent[0] <= first and spent[1] <= second

    def second_exceeded(self, spent: Amounts) -> str:
        """Return a sentence for the error message if the second amount does not fit, otherwise an empty string."""
        return ""

    def spent(self, spent: Amounts) -> tuple[float, float]:
        """Return the (epsilon, delta) of these totals."""
        raise TypeError(f"{type(self).__name__} does not define spent")

    def remaining(self, spent: Amounts, times: int = 1) -> tuple[float, float]:
        """Return the largest charge that still fits this many times, as (epsilon, delta)."""
        raise TypeError(f"{type(self).__name__} does not define remaining")


class Basic(Filter):
    """Epsilons and deltas are summed, as exact decimals: basic composition."""

    name = "basic"

    def amounts(self, cost: Cost, spent: Amounts) -> Amounts:
        return exact(cost.guarantee.epsilon), exact(cost.guarantee.delta)

    def limits(self) -> Amounts:
        return exact(self.epsilon), exact(self.delta)

    def spent(self, spent: Amounts) -> tuple[float, float]:
        return rounded(spent[0], up=True), rounded(spent[1], up=True)

    def remaining(self, spent: Amounts, times: int = 1) -> tuple[float, float]:
        epsilon, delta = ((limit - used) / times for limit, used in zip(self.limits(), spent, strict=True))
        return rounded(epsilon, up=False), rounded(delta, up=False)


class GDP(Filter):
    """The squares of mu are summed; amounts are (mu^2, total variation)."""

    name = "gdp"
    largest = "the largest single charge that fits, as a Gaussian release,"

    def __init__(self, epsilon: float, delta: float) -> None:
        super().__init__(epsilon, delta)
        if delta == 0:
            raise refuse("delta", allowed="greater than 0 for a budget with method='gdp'")
        if epsilon > 700:
            raise refuse("epsilon", given=epsilon, allowed="at most 700 for a budget with method='gdp'")
        from dpstats.privacy.gaussian import LATTICE_SHARE, gaussian_profile, gaussian_sigma

        # The two parts of delta add up to at most delta, and both limits are rounded down.
        self._curve_delta = down(Fraction(delta) * (1 - Fraction(LATTICE_SHARE)))
        odds = Fraction(math.exp(epsilon)) * (1 + Fraction(1, 2**50))
        self._slack = (Fraction(delta) - Fraction(self._curve_delta)) / (1 + odds)
        self._mu = 1 / gaussian_sigma(epsilon, self._curve_delta)
        while gaussian_profile(epsilon, self._mu) > self._curve_delta:
            self._mu = math.nextafter(self._mu, 0.0)

    def amounts(self, cost: Cost, spent: Amounts) -> Amounts:
        from dpstats.privacy import events

        square = variation = Fraction(0)
        for event in cost.events:
            pure = event.pure_cost()
            if isinstance(event, events.Gaussian):
                square += Fraction(event.mu) ** 2
                variation += Fraction(event.total_variation)
            elif pure is not None:
                square += Fraction(_mu_of_pure(pure)) ** 2
            elif isinstance(event, events.ZCDP):
                raise refuse(
                    "method",
                    got="'gdp'",
                    allowed=f"'zcdp' or 'basic' for a release of {cost.guarantee}",
                    remedy="Its noise was calibrated through zero-concentrated privacy, because epsilon is large "
                    "or delta is small.",
                )
            else:
                raise refuse(
                    "method",
                    got="'gdp', which counts Gaussian and pure releases only",
                    allowed=f"'basic' for an event of the kind {type(event).__name__}",
                    remedy="Or charge the plan of a fit rather than its (epsilon, delta).",
                )
        return square, variation

    def limits(self) -> Amounts:
        return Fraction(self._mu) ** 2, self._slack

    def second_exceeded(self, spent: Amounts) -> str:
        if spent[1] <= self._slack:
            return ""
        return (
            " The allowance for discrete noise, a millionth of delta divided by 1 + e^epsilon, is exhausted. It is "
            f"small if the budget's epsilon is large (here {self.epsilon:g}) or its delta is small "
            f"({self.delta:g}), and many columns use it up. Use method='zcdp'."
        )

    def spent(self, spent: Amounts) -> tuple[float, float]:
        from dpstats.privacy.gaussian import epsilon_of_mu

        if spent[0] == 0:
            return 0.0, 0.0
        epsilon = epsilon_of_mu(root_up(spent[0]), self._curve_delta)
        close = self.epsilon * (1 - 1e-9) <= epsilon and self.admits(spent)
        return (self.epsilon if close else epsilon), self.delta

    def remaining(self, spent: Amounts, times: int = 1) -> tuple[float, float]:
        from dpstats.privacy.gaussian import epsilon_of_mu

        if spent == NOTHING and times == 1:
            return self.epsilon, self.delta
        left = (Fraction(self._mu) ** 2 - spent[0]) / times
        if left <= 0:
            return 0.0, 0.0
        mu = math.sqrt(left) * (1 - 1e-12)
        epsilon = epsilon_of_mu(mu, self._curve_delta) * (1 - 1e-11)
        return (epsilon, self.delta) if epsilon > 0 else (0.0, 0.0)


def _mu_of_pure(epsilon: float) -> float:
    """Return a mu for which a pure release is Gaussian-private: 2 Phi^-1(e^epsilon/(1 + e^epsilon))."""
    from scipy.special import erfinv, log_expit, ndtri_exp

    # Rounded up; near the median, and in the tail, each form keeps its digits.
    if epsilon < 1:
        return 2 * math.sqrt(2) * float(erfinv(math.tanh(epsilon / 2))) * (1 + 1e-12)
    return -2 * float(ndtri_exp(log_expit(-epsilon))) * (1 + 1e-12)


class ZCDP(Filter):
    """The rhos are summed; amounts are (rho, delta of the (epsilon, delta) charges).

    A tenth of delta is reserved for charges that have only (epsilon, delta). The remainder converts rho.
    """

    name = "zcdp"
    largest = "the largest single charge that fits, as a pure release,"

    def __init__(self, epsilon: float, delta: float) -> None:
        super().__init__(epsilon, delta)
        if delta == 0:
            raise refuse("delta", allowed="greater than 0 for a budget with method='zcdp'")
        from dpstats.privacy.gaussian import zcdp_rho

        self._conversion = rounded(exact(delta) * Fraction(9, 10), up=False)
        self._rho = zcdp_rho(epsilon, self._conversion)

    def amounts(self, cost: Cost, spent: Amounts) -> Amounts:
        from dpstats.privacy.events import Approximate

        rho = delta = Fraction(0)
        for event in cost.events:
            known = event.zcdp_cost()
            if known is not None:
                rho += Fraction(known)
            elif isinstance(event, Approximate):
                rho += Fraction(event.epsilon) ** 2 / 2
                delta += exact(event.delta)
            else:
                raise refuse("method", got="'zcdp'", allowed=f"another for an event of the kind {type(event).__name__}")
        return rho, delta

    def limits(self) -> Amounts:
        return Fraction(self._rho), exact(self.delta) / 10

    def second_exceeded(self, spent: Amounts) -> str:
        if spent[1] <= self.limits()[1]:
            return ""
        return " A tenth of the budget's delta is for charges that state (epsilon, delta) only: they exceed it."

    def spent(self, spent: Amounts) -> tuple[float, float]:
        from dpstats.privacy.gaussian import zcdp_epsilon

        if spent == NOTHING:
            return 0.0, 0.0
        converted = min(self.epsilon, zcdp_epsilon(up(spent[0]), self._conversion))
        return (converted if self.admits(spent) else self.epsilon), self.delta

    def remaining(self, spent: Amounts, times: int = 1) -> tuple[float, float]:
        # A pure charge of epsilon costs epsilon^2/2.
        left = max(0.0, down(2 * (self.limits()[0] - spent[0]) / times))
        return math.sqrt(left) * (1 - 1e-12), 0.0


class PLD(Filter):
    """The tightest total, for releases that are all fixed before the first answer.

    ``planned`` is the list; charges must follow it in order. Without one the first charge is the
    whole plan. Amounts are (number of charges made, 0).
    """

    name = "pld"
    adaptive = False

    def __init__(self, epsilon: float, delta: float, planned: Sequence[Cost] = ()) -> None:
        super().__init__(epsilon, delta)
        self.planned = tuple(planned)
        if self.planned:
            events = [event for cost in self.planned for event in cost.events]
            self._certify(events)

    def _certify(self, events: Sequence[Event]) -> None:
        from dpstats.privacy.guarantee import PrivacyGuarantee
        from dpstats.privacy.totals import compose, covers

        claim = PrivacyGuarantee(self.epsilon, self.delta, events[0].neighbors)
        if not covers(events, claim):
            total = compose(events, self.delta)
            raise BudgetExceeded(f"the plan must cost at most the budget, {claim}, got {total}. Nothing was charged.")

    def amounts(self, cost: Cost, spent: Amounts) -> Amounts:
        made = int(spent[0])
        if self.planned:
            if made >= len(self.planned) or cost.events != self.planned[made].events:
                raise InvalidParameter(
                    "method='pld' pays for the planned releases, in their order, and nothing else; "
                    f"{made} of {len(self.planned)} are made"
                )
        elif made:
            raise InvalidParameter(
                "method='pld' needs a plan that is fixed before the first answer, and the first charge was this plan; "
                "give planned=[...] to plan several releases, or use method='gdp' or 'zcdp' to choose as you go"
            )
        else:
            self._certify(cost.events)
        return Fraction(1), Fraction(0)

    def limits(self) -> Amounts:
        return Fraction(max(1, len(self.planned))), Fraction(0)

    def spent(self, spent: Amounts) -> tuple[float, float]:
        # The first answer commits the whole plan.
        return (self.epsilon, self.delta) if spent[0] else (0.0, 0.0)

    def remaining(self, spent: Amounts, times: int = 1) -> tuple[float, float]:
        if times > 1:
            raise refuse(
                "times",
                given=times,
                allowed="1 with method='pld', whose charges are planned",
                remedy="Use another method.",
            )
        return (0.0, 0.0) if spent[0] else (self.epsilon, self.delta)


METHODS = {filter.name: filter for filter in (Basic, GDP, ZCDP, PLD)}
