"""What releases share: how a session opens, mechanisms of one plan, and secret orders of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import unit_of
from dpstats.privacy.budget import PrivacyBudget, add_request, check_budget
from dpstats.privacy.events import Event
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import Plan
from dpstats.privacy.stages import AnyStage, Shuffle
from dpstats.release.noise import Noise, noise_source
from dpstats.release.once import OnceSession, StoredSession
from dpstats.release.session import Session
from dpstats.release.witness import WitnessedNoise, WitnessedSession


def session_of(
    plan: Plan, noise: Noise, budget: PrivacyBudget | None = None, label: str = "", size: int | None = None
) -> Session:
    """Return the session of a release: one that records if its noise has a witness, or draws once for a key."""
    if isinstance(noise, WitnessedNoise):
        return WitnessedSession(plan, noise, budget, label, size)
    if budget is not None and budget.key is not None:
        return OnceSession(plan, noise, budget, label, size)
    return Session(plan, noise, budget, label, size)


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

    def _session_of(self, plan: Plan, size: int | None = None, **facts: Any) -> Session:
        """Return a session for one release; a refusal of its `check` depends on public facts only.

        ``facts`` are public facts of the release, in addition to the parameters.
        """
        budget = add_request(self._budget, self, **facts)
        return session_of(plan, self._source, budget, type(self).__name__, size)

    def _session_of_stream(self, plan: Plan, budget: PrivacyBudget | None) -> Session:
        """Return the session of a stream with a file, whose budget has the name of the file as its key; or without."""
        if budget is None:
            return self._session_of(plan)
        return StoredSession(plan, self._source, budget, type(self).__name__)


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

    def _session(self, plan: Plan | None = None, size: int | None = None, **facts: Any) -> Session:
        """Return a session for one release. ``facts`` are the inputs of its answer that are not released."""
        return self._session_of(plan or self.plan, size, **facts)

    def _plan_about(self, data: Any) -> Plan:
        """Return the plan of one release from data that may state a unit."""
        return self.plan.for_data(unit_of(data), self._guarantee.simulated)

    def _check(self, plan: Plan | None = None) -> None:
        """Raise if a release cannot be made or paid for, before its data are touched."""
        session_of(plan or self.plan, self._source, self._budget, type(self).__name__).check()


# Secret orders, drawn as noise is: they depend on no row, and cost nothing.


def draw_orders(sizes: Sequence[int], random_state: Any) -> list[NDArray[np.intp]]:
    """Return a uniform order of each size: secret, unless noise is simulated.

    Examples
    --------
    >>> from dpstats.release.mechanism import draw_orders
    >>> sorted(draw_orders([3], None)[0].tolist())
    [0, 1, 2]
    """
    return order_rows(noise_source(random_state), sizes)


def order_rows(noise: Noise, sizes: Sequence[int]) -> list[NDArray[np.intp]]:
    """Return a uniform order of each size, from a source of noise."""
    names = [f"order {place}" for place in range(len(sizes))]
    plan = Plan(tuple(map(Shuffle, names, sizes)), PrivacyGuarantee(0.0))
    with session_of(plan, noise) as session:
        return [session.shuffle(name) for name in names]
