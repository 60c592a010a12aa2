from __future__ import annotations

from dataclasses import replace
from typing import Any

from dpstats.data.labels import unit_of
from dpstats.privacy.budget import PrivacyBudget, check_budget
from dpstats.privacy.events import Event
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import Plan
from dpstats.privacy.stages import AnyStage
from dpstats.release.noise import noise_source
from dpstats.release.session import Session
from dpstats.release.witness import session_of

# What every primitive release shares: a plan, a source of noise and a budget, fixed together.


class Releasing:
    """Base of mechanisms, which release repeatedly at one guarantee.

    Cost and noise are fixed at construction.
    """

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

    def _session_of(self, plan: Plan, size: int | None = None) -> Session:
        """Return a session for one release; a refusal of its `check` depends on public facts only."""
        return session_of(plan, self._source, self._budget, type(self).__name__, size)


class Mechanism(Releasing):
    """Base of the mechanisms, whose releases are all of one plan, or of one for each size."""

    @property
    def plan(self) -> Plan:
        """What one release consists of, at which noise, at which cost."""
        raise TypeError(f"{type(self).__name__} does not define plan")

    @property
    def events(self) -> tuple[Event, ...]:
        """The accountant's event of one release."""
        return self.plan.events

    def _planned(self, *stages: AnyStage) -> Plan:
        """Return the plan of stages that meet the guarantee."""
        return Plan(stages, self._guarantee)

    def _session(self, plan: Plan | None = None, size: int | None = None) -> Session:
        """Return a session for one release."""
        return self._session_of(plan or self.plan, size)

    def _session_about(self, data: Any) -> Session:
        """Return a session for one release from data that may state a unit."""
        return self._session(self.plan.for_data(unit_of(data), self._guarantee.simulated))
