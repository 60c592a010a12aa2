"""What every primitive release shares: a source of noise, a guarantee and a budget, fixed together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dpstats.privacy.budget import PrivacyBudget, check_budget
from dpstats.privacy.events import Event
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import ReleaseCost
from dpstats.release.noise import noise_source


class Mechanism:
    """Base of the mechanisms. Read-only: what is charged and what is drawn are fixed at construction."""

    def __init__(self, guarantee: PrivacyGuarantee, random_state: Any, budget: PrivacyBudget | None) -> None:
        self._source = noise_source(random_state)
        self._budget = check_budget(budget, simulated=self._source.simulated)
        self._guarantee = replace(guarantee, simulated=self._source.simulated)

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """The guarantee of one release."""
        return self._guarantee

    @property
    def epsilon(self) -> float:
        """The epsilon of one release."""
        return self._guarantee.epsilon

    @property
    def delta(self) -> float:
        """The delta of one release."""
        return self._guarantee.delta

    def _can_pay(self, *events: Event) -> None:
        """Raise if the budget cannot pay: called before the data are looked at."""
        if self._budget is not None:
            self._budget.check(ReleaseCost(events, self._guarantee))

    def _pay(self, *events: Event) -> None:
        """Charge the budget: called after the data are accepted, and before noise is drawn."""
        if self._budget is not None:
            self._budget.charge(ReleaseCost(events, self._guarantee), label=type(self).__name__)
